"""Samples that are no rows of numbers: strings, graphs, series of unequal length, tables of mixed columns.

A kernel that is a function of two sets of samples need not know of features. ``Objects`` gives such samples what the
machines ask of a matrix (a shape, and rows by number), and the function sees them as they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["Objects", "as_frame", "as_objects", "frame_library", "on_items", "plain"]

NUMBERS = "biuf"  # kinds of NumPy types that are rows of numbers


class Objects(Sequence):
    """Samples of any kind, as they were given: a list, an array, a table."""

    ndim = 2

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> tuple[int, int]:
        """How many there are; they have columns only in a table."""
        return len(self), self.items.shape[1] if frame_library(self.items) else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            return self.items.iloc[index] if hasattr(self.items, "iloc") else self.items[index]
        if hasattr(self.items, "iloc"):
            return Objects(self.items.iloc[index])
        if isinstance(self.items, (list, tuple)) and not isinstance(index, slice):
            return Objects([self.items[i] for i in np.arange(len(self))[index]])
        return Objects(self.items[index])

    def __repr__(self) -> str:
        return f"Objects({self.items!r})"


def as_objects(X: Any) -> Objects | None:
    """X as samples of any kind, or None if it is a matrix of numbers (or nothing at all)."""
    if sp.issparse(X) or not hasattr(X, "__len__"):
        return None
    if frame_library(X):
        return Objects(X)
    try:
        array = np.asarray(X)
    except ValueError:  # rows of unequal length
        return Objects(X)
    if array.ndim == 0 or not len(array):
        return None
    if array.ndim == 2 and array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            return Objects(X)
    return None if array.ndim == 2 and array.dtype.kind in NUMBERS + "c" else Objects(X)


def plain(X: Any) -> Any:
    """Samples as they were given."""
    return X.items if isinstance(X, Objects) else X


def on_items(function: Callable, left: Objects, right: Objects) -> Any:
    """A user's kernel on samples as they were given."""
    return function(left.items, right.items)


def frame_library(X: Any) -> str:
    """ "pandas" or "polars" for a table of theirs, else nothing."""
    root = type(X).__module__.partition(".")[0]
    return root if root in ("pandas", "polars") and type(X).__name__ == "DataFrame" else ""


def as_frame(X: np.ndarray, names: np.ndarray, library: str) -> Any:
    """An array as a table with these names of columns."""
    if library == "polars":
        import polars

        return polars.DataFrame(X, schema=[str(name) for name in names])
    import pandas

    return pandas.DataFrame(X, columns=list(names))
