"""After ``python -m maxmargin.warmup`` the first fit of an estimator waits for nothing."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

SCRIPT = """
import warnings
warnings.simplefilter("ignore")
from cold import cases
from maxmargin._jit import compiling_seconds
from maxmargin.warmup import warmup

warmup()
for name, (machine, X, y) in cases().items():
    before = compiling_seconds()
    machine.fit(X, y)
    if compiling_seconds() != before:  # neither compiled nor loaded
        print(name)
"""


def test_nothing_is_left_to_compile():
    """In a process of its own, into which no other test has loaded a leaf; on disk they may be."""
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
