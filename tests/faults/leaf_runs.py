"""One small leaf of the package, got ready in a process of its own, as whatever user, from whatever folder."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TIMEOUT = 120  # seconds, against hanging; a run takes two or three

SCRIPT = """
import json, os, sys, warnings
import numba
import numpy as np
from maxmargin import _jit
from maxmargin.rows.leaves import csr_squares

user = int(sys.argv[1])
if user >= 0:
    numba.njit(lambda x: x + 1)(1)  # numba loads all of itself now: the other user may not see where it is installed
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
{before}
out = np.zeros(2)
csr_squares(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), out)
stats = csr_squares.stats
print(json.dumps({{
    "out": out.tolist(),
    "loaded": sum(stats.cache_hits.values()),
    "compiled": sum(stats.cache_misses.values()),
    "folder": stats.cache_path,
}}))
"""
RIGHT = [1.0, 13.0]

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can play two users; run the tests as root"
)
with_users = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners and modes of files")


def start(before: str = "", user: int = -1, **environment: str | Path) -> subprocess.Popen:
    """Start a process that calls the leaf after ``before``; an environment variable that is empty is removed."""
    env = os.environ | {name: str(value) for name, value in environment.items()}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(before=before), str(user)],
        env={name: value for name, value in env.items() if value},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> dict:
    """What the process says, once the leaf has given the right result."""
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 0, err
    said = json.loads(out.splitlines()[-1])
    assert said["out"] == RIGHT
    return said | {"stderr": err}


def run(before: str = "", user: int = -1, **environment: str | Path) -> dict:
    return finish(start(before, user, **environment))


@contextlib.contextmanager
def open_place():
    """A folder that all users can look into, as that of pytest cannot be; in it, a shared one as /tmp is."""
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="maxmargin-test-")))
    place.chmod(0o755)
    (place / "tmp").mkdir()
    (place / "tmp").chmod(0o1777)
    yield place
    shutil.rmtree(place)


def kept_code(folder: Path) -> Path:
    """The folder, below a new one, with the compiled code of the leaf."""
    said = run(MAXMARGIN_CACHE_DIR=folder)
    assert (said["loaded"], said["compiled"]) == (0, 1)
    return Path(said["folder"])
