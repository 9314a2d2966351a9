"""The only door to numba: decorators of leaves, and what they need from the machine.

Compiled leaves are plain functions on plain arrays. They release the GIL, so that a thread pool of our
own (:mod:`maxmargin.threads`) can run them side by side; numba's own threads are never used, because its
thread layer aborts the process when two Python threads enter it at once.

| module | what is in it |
| --- | --- |
| `leaf` | the decorators; numba is imported when the first leaf is called |
| `functions` | what leaves call that numba does not have |
| `clock` | how long it takes to get leaves ready |
| `folders` | where compiled leaves are on disk, and whom we trust |
| | all below need numba |
| `compiler` | numba's compiler as leaves use it |
| `lowering` | the step of it that writes LLVM's code, shortened |
| `calls` | how Python calls a leaf |
| `apart` | parts of leaves that are compiled beside them, in other threads |
| `intrinsics` | `functions` as LLVM's instructions |
| `kept` | compiled leaves on disk, forks |
"""

from __future__ import annotations

from .clock import compiling_seconds
from .folders import cache_dir
from .functions import ROW_WIDTH, dot, fast_exp, four_dots, prefetch, row_dot, row_product
from .leaf import aside, by_types, helper, inline, jit, read_only, shared

__all__ = [
    "jit",
    "aside",
    "shared",
    "helper",
    "inline",
    "by_types",
    "read_only",
    "dot",
    "fast_exp",
    "four_dots",
    "prefetch",
    "row_dot",
    "row_product",
    "ROW_WIDTH",
    "cache_dir",
    "compiling_seconds",
]
