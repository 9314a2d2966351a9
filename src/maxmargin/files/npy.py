"""Arrays in NumPy's format, of numbers and texts only: what is stored in them is never unpickled."""

from __future__ import annotations

import tokenize
from typing import BinaryIO

import numpy as np

__all__ = ["read_header"]

LONGEST = 10_000  # characters of a header, NumPy's own limit
READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns come first, and type; a ValueError whatever is wrong."""
    try:
        version = np.lib.format.read_magic(file)  # type: ignore[arg-type]
        if version not in READERS:
            raise ValueError(f"version {version} of the format")
        shape, fortran, dtype = READERS[version](file, max_header_size=LONGEST)  # type: ignore[arg-type]
    except (SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError, KeyError) as problem:
        raise ValueError(f"a header that is none ({type(problem).__name__})") from None
    if any(type(s) is not int or s < 0 for s in shape):
        raise ValueError(f"shape {shape}")
    return shape, fortran, dtype
