"""After ``python -m maxmargin.warmup`` the first fit of an estimator waits for nothing."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

SCRIPT = """
import sys
import warnings
warnings.simplefilter("ignore")
from cold import cases
from maxmargin._jit.kept import LeafCache
from maxmargin._jit.leaf import Leaf
from maxmargin._jit import compiling_seconds
from maxmargin.warmup import warmup

warmup()
for name, (machine, X, y) in cases().items():
    before = compiling_seconds()
    machine.fit(X, y)
    if compiling_seconds() != before:  # neither compiled nor loaded
        print(name)
modules = [module for name, module in sys.modules.items() if name.startswith("maxmargin.")]
leaves = {id(leaf): leaf for module in modules for leaf in vars(module).values() if isinstance(leaf, Leaf)}
used = [leaf.compiled for leaf in leaves.values() if "compiled" in vars(leaf)]
leaves = [leaf for leaf in used if isinstance(getattr(leaf, "_cache", None), LeafCache)]
codes = [(leaf, code) for leaf in leaves for code in leaf.overloads.values()]
assert len(codes) > 50, len(codes)
for leaf, code in codes:
    if code.library.left_to_numba:
        print("left to numba:", leaf.py_func.__qualname__)
"""


def test_nothing_is_left_to_compile():
    """In a process of its own, into which no other test has loaded a leaf; on disk they may be.

    Nor was any of them compiled in numba's own way, as it is where ours raises, which nobody would notice.
    """
    root = Path(__file__).parents[1]
    paths = os.pathsep.join([str(root / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
