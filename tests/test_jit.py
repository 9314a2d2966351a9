"""Where compiled code is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxmargin import _jit


def test_the_environment_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "kept"))
    folder = _jit.cache_dir()
    assert folder.parent == tmp_path / "kept"
    assert folder.is_dir()
    assert _jit.cache_dir() == folder


def test_a_folder_that_cannot_be_made_is_replaced(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "file"))
    folder = _jit.cache_dir()
    assert folder.is_dir()
    assert tmp_path not in folder.parents
    assert os.access(folder, os.W_OK)


def test_other_sources_have_another_folder(monkeypatch, tmp_path):
    """numba looks at one file at a time; a changed callee in another one must not go unseen."""
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "kept"))
    before = _jit.cache_dir()
    copy = tmp_path / "package"
    copy.mkdir()
    source = Path(_jit.__file__)
    (copy / "_jit.py").write_text(source.read_text() + "\n# changed\n")
    monkeypatch.setattr(_jit, "__file__", str(copy / "_jit.py"))
    assert _jit.cache_dir() != before


@pytest.mark.parametrize("what", ["import maxmargin", "import maxmargin._jit"])
def test_importing_compiles_nothing_and_says_nothing(what, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", what],
        env=os.environ | {"MAXMARGIN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert not list(tmp_path.rglob("*.nbi"))


def test_first_use_is_announced_and_kept(tmp_path):
    """Once on the error stream, then from disk."""
    script = (
        "import numpy as np; from maxmargin.gram import Kernel, KernelGram; "
        "print(KernelGram(Kernel('rbf'), np.eye(3)).dense().sum())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"MAXMARGIN_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr in ("", "maxmargin: compiling its inner loops for this machine (once; kept on disk)\n")
    assert runs[1].stderr == ""
    assert list(tmp_path.rglob("*.nbi"))
