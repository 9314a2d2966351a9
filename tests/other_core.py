"""Prints a type of processor whose BLAS kernels this machine can run but would not choose, for OPENBLAS_CORETYPE.

Kernels for different processors round differently, each in its own way for each shape of a product: what holds with
one of them need not hold with another. Nothing is printed where BLAS is not OpenBLAS, or has no other kernels.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info

# Kernels for AVX-512 are tried against those for AVX2, these against those for AVX: what can run one can run the next.
OLDER = {
    **dict.fromkeys(("SkylakeX", "Cooperlake", "SapphireRapids"), "Haswell"),
    **dict.fromkeys(("Haswell", "Zen", "Excavator"), "Sandybridge"),
    "Sandybridge": "Nehalem",
}


def other_core() -> str:
    """The name, or nothing."""
    assert np  # NumPy brings its BLAS
    kinds = {library.get("architecture") for library in threadpool_info() if library["internal_api"] == "openblas"}
    return OLDER.get(kinds.pop(), "") if len(kinds) == 1 else ""


if __name__ == "__main__":
    print(other_core())
