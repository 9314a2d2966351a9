"""The only door to numba: decorators of leaves, and what they need from the machine.

Compiled leaves are plain functions on plain arrays. They release the GIL, so that a thread pool of our
own (:mod:`maxmargin.threads`) can run them side by side; numba's own threads are never used, because its
thread layer aborts the process when two Python threads enter it at once.

| module | what is in it |
| --- | --- |
| `compiler` | the decorators, and numba's compiler as they use it |
| `lowering` | the step of it that writes LLVM's code, shortened |
| `calls` | how Python calls a leaf |
| `apart` | parts of leaves that are compiled beside them, in other threads |
| `functions` | what leaves call that numba does not have |
| `kept` | compiled leaves on disk, the clock of the compiler, forks |
| `folders` | where on disk that is, and whom we trust |
"""

from __future__ import annotations

from .compiler import aside, by_types, helper, inline, jit, read_only, shared
from .folders import cache_dir
from .functions import ROW_WIDTH, dot, fast_exp, four_dots, prefetch, row_dot, row_product
from .kept import compiling_seconds

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
