"""Rows of memory maps, read through the mapping, whose pages are given back."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

__all__ = ["map_reader"]

HUGE_PAGE = 1 << 21  # bytes: a system may map so many at once when one of them is touched, and takes them back together
SHARED_MODES = ("r", "r+", "w+")  # of memory maps whose pages are the file's


def map_reader(X: np.ndarray) -> Callable[[int, int], np.ndarray] | None:
    """How to read rows of a memory map that shares its pages with a file, or None where X is not a view of one.

    Rows come through the mapping, never by the file's name: a file that was replaced or unlinked since is another
    file, and the mapping still holds the one that was opened. Pages that a process touches count as its own until the
    system needs them; we give them back as soon as they are copied, so that a file larger than memory may be trained
    on in little of it.
    """
    root: Any = X
    while isinstance(root.base, np.ndarray):
        root = root.base
    pages: Any = root.base
    # A private mapping (mode "c") may hold changes of its own, which pages that are given back would lose.
    if not isinstance(root, np.memmap) or not isinstance(pages, mmap.mmap) or root.mode not in SHARED_MODES:
        return None
    X = X.view(np.ndarray)
    down, across = X.strides
    start = root.ctypes.data - int(root.offset) % mmap.ALLOCATIONGRANULARITY  # where the first mapped page is
    end = int(root.offset) + root.nbytes  # in the file

    def read(a: int, b: int) -> np.ndarray:
        size = pages.size()
        if size < end:  # touching a page that the file has lost ends the process
            raise OSError(
                f"{end} bytes of a memory map were asked for; found the end of its file ({root.filename}) after "
                f"{size}; is the file complete?"
            )
        rows = np.array(X[a:b])
        for part in [X[a:b]] if abs(down) >= abs(across) else X[a:b].T:  # columns may lie one after the other
            _give_back(pages, *_span(part, start))
        return rows

    return read


def _span(part: np.ndarray, start: int) -> tuple[int, int]:
    """The first byte of an array and the one after its last, counted from ``start``."""
    first = last = part.ctypes.data - start
    for length, stride in zip(part.shape, part.strides, strict=True):
        reach = max(0, length - 1) * stride
        first, last = first + min(0, reach), last + max(0, reach)
    return first, last + part.itemsize


def _give_back(pages: mmap.mmap, first: int, last: int) -> None:
    """Tell the system that we are done with these bytes of a shared mapping; they can be touched again."""
    first -= first % HUGE_PAGE
    with suppress(AttributeError, OSError):  # a system without it, or pages that somebody has locked: they stay ours
        pages.madvise(mmap.MADV_DONTNEED, first, last - first + -last % HUGE_PAGE)
