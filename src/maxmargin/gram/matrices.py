"""Gram matrices that a user computed, or computes by a function of two sets of points."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from .base import BLOCK_BYTES, ROW_ERROR, UNIT, Cost, Gram
from .matrix_leaves import copy_rows, row_products

__all__ = ["CallableGram", "PrecomputedGram", "as_gram", "checked_block"]

DIAGONAL = 8  # points a call of a function that each give one value: fewer calls, and no more values than 8 rows have


class PrecomputedGram(Gram):
    """A matrix that the user computed, or a subset of its rows and columns."""

    def __init__(
        self,
        K: np.ndarray,
        index: np.ndarray | None = None,
        cost: Cost | None = None,
        threads: int = 1,
        largest: float = np.inf,
    ) -> None:
        self.K = K
        self.cost = cost or Cost()
        self.index = index
        self.threads = threads
        self.largest = largest  # entry, which tells what float32 would leave of it
        self.n = len(K) if index is None else len(index)
        self.dtype = K.dtype if K.dtype in (np.float32, np.float64) else np.dtype(np.float64)

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        self.cost.evals += len(index) * self.n
        if out is None:
            block = self.K[index] if self.index is None else self.K[np.ix_(self.index[index], self.index)]
            return np.asarray(block, self.dtype)
        K, rows, columns = self.K, self._base(index), self._base()
        pieces = th.grain(self.n)
        th.spread(lambda a, b: copy_rows(K, rows, columns, out, slots, a, b), len(rows), self.threads, pieces, align=1)
        return out

    def _base(self, index: np.ndarray | None = None) -> np.ndarray:
        """Where points are in the matrix as it was given."""
        if self.index is None:
            return np.arange(self.n) if index is None else index
        return self.index if index is None else self.index[index]

    @property
    def copies(self) -> np.dtype:
        return np.dtype(np.float32) if self.largest * UNIT < ROW_ERROR else self.dtype

    def wide(self) -> Gram:
        if self.copies == self.dtype:
            return self
        return PrecomputedGram(self.K, self.index, self.cost, self.threads)

    def diag(self) -> np.ndarray:
        diagonal = np.asarray(self.K.diagonal(), np.float64)
        return diagonal if self.index is None else diagonal[self.index]

    def whole(self) -> np.ndarray | None:
        return self.K if self.index is None and self.K.flags.c_contiguous and self.K.dtype == self.dtype else None

    def block(self, index: np.ndarray) -> np.ndarray:
        base = index if self.index is None else self.index[index]
        return np.asarray(self.K[np.ix_(base, base)], np.float64)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        out = np.empty((self.n, V.shape[1]))
        step = max(1, BLOCK_BYTES // (8 * max(1, self.n)))
        for a in range(0, self.n, step):
            rows = np.arange(a, min(self.n, a + step))
            block = self.K[rows] if self.index is None else self.K[np.ix_(self.index[rows], self.index)]
            out[rows] = np.asarray(block, np.float64) @ V
        return out

    def take(self, index: np.ndarray) -> Gram:
        return PrecomputedGram(self.K, self._base(index), self.cost, self.threads, self.largest)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        base, columns = self._base(), self._base(at)
        out = np.zeros(len(columns))
        if 4 * len(index) > len(self.K) and self.K.flags.c_contiguous:
            # To read whole rows of the points that ask takes less than to copy so many parts of others.
            K, x = self.K, np.zeros(len(self.K))
            np.add.at(x, base[index], coef)
            pieces = th.grain(len(K))
            th.spread(lambda a, b: row_products(K, columns, x, out, a, b), len(columns), self.threads, pieces, align=1)
            return out
        step = max(1, BLOCK_BYTES // (8 * max(1, len(columns))))
        for a in range(0, len(index), step):
            block = self.K[np.ix_(base[index[a : a + step]], columns)]
            out += np.asarray(coef[a : a + step], np.float64) @ np.asarray(block, np.float64)
        return out


class CallableGram(Gram):
    """A kernel given as a function K(X, Z) -> (len(X), len(Z)), called for the rows that are needed."""

    def __init__(self, function: Callable, X: Any, cost: Cost | None = None) -> None:
        self.function = function
        self.X = X
        self.cost = cost or Cost()
        self.n = self.X.shape[0]

    def _block(self, left: Any, right: Any) -> np.ndarray:
        self.cost.evals += left.shape[0] * right.shape[0]
        return checked_block(self.function, left, right)

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        block = self._block(self.X[index], self.X)
        if out is None:
            return block
        out[slots] = block
        return out

    def diag(self) -> np.ndarray:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> np.ndarray:
        parts = (self.X[a : a + DIAGONAL] for a in range(0, self.n, DIAGONAL))
        return np.concatenate([np.zeros(0), *(self._block(part, part).diagonal() for part in parts)])

    def block(self, index: np.ndarray) -> np.ndarray:
        return self._block(self.X[index], self.X[index])

    def matmat(self, V: np.ndarray) -> np.ndarray:
        index = np.flatnonzero(V.any(axis=1))
        out = np.zeros((self.n, V.shape[1]))
        step = max(1, BLOCK_BYTES // (8 * max(1, self.n)))
        for a in range(0, len(index), step):
            out += self._block(self.X[index[a : a + step]], self.X).T @ V[index[a : a + step]]
        return out

    def take(self, index: np.ndarray) -> Gram:
        return CallableGram(self.function, self.X[index], self.cost)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        right = self.X if at is None else self.X[at]
        out = np.zeros(right.shape[0])
        step = max(1, BLOCK_BYTES // (8 * max(1, right.shape[0])))
        for a in range(0, len(index), step):
            out += coef[a : a + step] @ self._block(self.X[index[a : a + step]], right)
        return out


def checked_block(function: Callable, left: Any, right: Any) -> np.ndarray:
    """The user's kernel on two sets of points, its shape and values checked."""
    block = function(left, right)
    block = np.array(block.toarray() if sp.issparse(block) else block, np.float64)  # a copy: views add to it
    shape = (left.shape[0], right.shape[0])
    if block.shape != shape:
        raise ValueError(
            f"the kernel function was asked for a matrix of shape {shape}; found shape {block.shape}; "
            "it must return one value for each pair of a row of its first and a row of its second argument"
        )
    if not np.isfinite(block).all():
        raise ValueError("the kernel function was asked for finite values; found NaN or infinity; mend the function")
    return block


def as_gram(H: Any) -> Gram:
    """H itself if it is a Gram, or a plain symmetric array as one."""
    return H if isinstance(H, Gram) else PrecomputedGram(np.asarray(H, np.float64))
