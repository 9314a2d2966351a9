"""The Gram matrix of a kernel on points of features: rows in float32 where that is enough, products in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from ..rows import Rows, Sparse
from .base import EXACT_BYTES, ROW_ERROR, UNIT, Cost, Factor, Gram
from .columns import Columns, rows_apart, suits, weigh_apart
from .distance import cross, weigh
from .kernels import LINEAR, RBF, Kernel
from .points import Points, check_finite, make_points, on_disk, squared_norms

__all__ = ["KernelGram"]

SMALLEST_NORM, LARGEST_NORM = 1e-20, 1e20  # squared norms whose products neither vanish nor overflow in float32


class KernelGram(Gram):
    """k(x_i, x_j) for points in memory."""

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int | None = None) -> None:
        self.kernel = kernel
        self.threads = th.count(n_jobs)
        self._exact: Points | None = make_points(X, kernel, threads=self.threads)
        check_finite(kernel, self._exact)
        self.cost = Cost()
        self._adopt(self._exact.n)

    def _adopt(self, n: int) -> None:
        self.n = n
        self._taken: tuple[KernelGram, np.ndarray] | None = None  # the Gram of all points, and which of them are ours
        self.looks_low: bool | None = None  # whether it may be of low rank, as far as somebody has looked
        self._first: np.ndarray | None = None  # the first point that equals each, once somebody has asked
        self._known: tuple[np.ndarray, np.ndarray] | None = None  # a vector, and its product
        self._factor: Factor | None = None
        self._by_feature: Columns | None = None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.fast.dtype

    @cached_property
    def fast(self) -> Points:
        """The points in float32 where that keeps kernel values accurate enough for the rows."""
        if self.exact.n == 0:
            return self.exact
        points = self.exact
        if self.kernel.code == RBF and not points.sparse and not on_disk(points.data):
            # Distances do not change when the points are centred, and small norms keep float32 accurate.
            points = _centred(points)
        largest = float(points.norms.max())
        if SMALLEST_NORM < largest < LARGEST_NORM:
            error = self.kernel.rounding(largest, UNIT)
            if self.kernel.code == RBF and suits(self.kernel, points):
                error = self.kernel.rounding_apart(largest, UNIT)
            if error < ROW_ERROR:
                return points.astype(np.float32)
        return self.exact.astype(np.float64)

    @cached_property
    def _apart(self) -> bool:
        """Whether rows come from differences, because products in float32 would lose too much."""
        if self.dtype != np.float32 or self.kernel.code != RBF or not self.n:
            return False
        return self.kernel.rounding(float(self.fast.norms.max()), UNIT) >= ROW_ERROR

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        with self.cost.timed(len(index) * self.n, self.dtype.itemsize):
            if self._apart:
                points = self.by_feature()
                assert points is not None
                return rows_apart(points, index, out, slots, self.threads)
            return cross(self.kernel, self.fast.take(index), self.fast, out, slots, self.threads)

    def by_feature(self, n: int | None = None) -> Columns | None:
        if not suits(self.kernel, self.fast, n):
            return None
        if self._by_feature is None:
            self._by_feature = Columns.of(self.kernel, self.fast)
        return self._by_feature

    def exact_by_feature(self, n: int) -> Columns | None:
        if not suits(self.kernel, self.exact, n):
            return None
        return Columns.of(self.kernel, self.exact.astype(np.float64))

    def diag(self) -> np.ndarray:
        return self.kernel.diag(self.exact.norms)

    @property
    def exact(self) -> Points:
        """The points as they were given."""
        if self._exact is None:  # taken from another Gram: many a part is solved without them
            assert self._taken is not None
            whole, index = self._taken
            self._exact = whole.exact.take(index)
        return self._exact

    def _like(self, exact: Points | None, fast: Points) -> KernelGram:
        other = object.__new__(KernelGram)
        other.kernel, other.threads, other.cost = self.kernel, self.threads, self.cost
        other._exact, other.fast = exact, fast
        other._adopt(fast.n)
        return other

    def take(self, index: np.ndarray) -> Gram:
        fast = self.fast.take(index)
        other = self._like(fast if self.fast is self._exact else None, fast)
        whole, of = (self, np.arange(self.n)) if self._taken is None else self._taken
        other._taken = whole, of[index]
        return other

    def wide(self) -> Gram:
        return self if self.dtype == np.float64 else self._like(self.exact, self.exact.astype(np.float64))

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        left, right = self._sides(index, at, exact)
        with self.cost.timed(left.n * right.n, left.dtype.itemsize):
            return self._weigh(left, np.asarray(coef)[:, None], right)[:, 0]

    def _weigh(self, left: Points, coef: np.ndarray, right: Points) -> np.ndarray:
        if left.dtype == np.float32 and self._apart:
            return weigh_apart(Columns.of(self.kernel, right), left, coef, self.threads)
        return weigh(self.kernel, left, coef, right, self.threads)

    def combine_watched(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray, look: Callable[[], object], exact: bool = False
    ) -> np.ndarray:
        """As every Gram's; the points are gathered once for all pieces, and looked at once for all columns."""
        look()
        left, right = self._sides(index, at, exact)
        columns = coef if np.ndim(coef) == 2 else np.asarray(coef)[:, None]
        step, out = self._points_a_look(len(index)), np.empty((right.n, columns.shape[1]))
        for a in range(0, right.n, step):
            if a:
                look()
            part = right.take(slice(a, a + step)) if step < right.n else right
            with self.cost.timed(left.n * part.n, left.dtype.itemsize):
                out[a : a + step] = self._weigh(left, columns, part)
        return out if np.ndim(coef) == 2 else out[:, 0]

    def _sides(self, index: np.ndarray, at: np.ndarray | None, exact: bool) -> tuple[Points, Points]:
        """The points of coefficients, and the points at which values are asked for."""
        points = self.exact if exact else self.fast
        if at is not None and len(at) == self.n and np.array_equal(at, np.arange(self.n)):
            at = None
        right = points if at is None else points.take(at)
        return points.take(index).astype(np.float64 if exact else points.dtype), right

    def block(self, index: np.ndarray) -> np.ndarray:
        self.cost.evals += len(index) ** 2
        points = self.exact.take(index).astype(np.float64)
        return cross(self.kernel, points, points, threads=self.threads)

    def duplicates(self) -> np.ndarray | None:
        if self._first is not None:
            return self._first
        if self._taken is None:
            self._first = self._first_equal
        else:  # parts overlap, as pairs of classes do: all points are looked at once
            whole, of = self._taken
            same, numbers = whole._first_equal[of], np.arange(self.n)
            place = np.empty(whole.n, np.int64)
            place[same[::-1]] = numbers[::-1]
            self._first = place[same]
        return self._first

    @property
    def whole_kernel(self) -> KernelGram:
        """The Gram of all points, of which this is a part, or itself."""
        return self if self._taken is None else self._taken[0]

    @cached_property
    def _first_equal(self) -> np.ndarray:
        return _first_equal_row(self.exact)

    def seconds(self, v: np.ndarray) -> float:
        if self.kernel.code == LINEAR:  # by weights
            return 0.0
        return self.cost.seconds(int(np.count_nonzero(v)) * self.n)

    def remember(self, v: np.ndarray, product: np.ndarray) -> None:
        """Have the product with v known, which somebody has computed together with others (see together.py)."""
        self._known = v, product

    def matvec(self, v: np.ndarray) -> np.ndarray:
        """As every Gram's; points that are known to be equal are looked at once."""
        if self._known is not None and np.array_equal(v, self._known[0]):
            return self._known[1].copy()
        if self._first is None:
            return super().matvec(v)
        sums = np.bincount(self._first, v, self.n)
        used, heads = np.flatnonzero(sums), np.flatnonzero(self._first == np.arange(self.n))
        out = np.empty(self.n)
        out[heads] = self.combine(used, sums[used], heads)
        return out[self._first]

    def matmat(self, V: np.ndarray) -> np.ndarray:
        index = np.flatnonzero(V.any(axis=1))
        left = self.exact.take(index).astype(np.float64)
        with self.cost.timed(len(index) * self.n, EXACT_BYTES):
            return weigh(self.kernel, left, V[index], self.exact, self.threads)

    def factor(self) -> Factor | None:
        if self.kernel.code != LINEAR:
            return None
        if self._factor is None:
            data: Any = self.exact.data
            if self.exact.sparse:
                indptr, indices, values = data
                data = Sparse(indptr, indices, values, self.exact.d)
            self._factor = Factor(Rows.of(data, self.threads))
        return self._factor

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        factor = self.factor()
        return None if factor is None else factor.rows.t_dot(beta)


def _centred(points: Points) -> Points:
    """Dense points minus their mean as float32, a block at a time."""
    centre = np.mean(points.data, axis=0, dtype=np.float64)
    data = np.empty(points.data.shape, np.float32)
    step = max(1, (1 << 20) // max(1, points.d))
    for a in range(0, points.n, step):
        data[a : a + step] = points.data[a : a + step] - centre
    return Points(data, squared_norms(data), points.d, np.dtype(np.float32))


def _first_equal_row(points: Points) -> np.ndarray:
    """For each point the number of the first identical one.

    Candidates are neighbours after sorting by a random projection; whether they are equal is then checked entry by
    entry, so that a collision can hide a duplicate but never make one.
    """
    direction = np.random.default_rng(0).normal(size=points.d)
    rows = (
        sp.csr_array((points.data[2], points.data[1], points.data[0]), shape=(points.n, points.d))
        if points.sparse
        else points.data
    )
    key = rows @ direction.astype(points.dtype, copy=False)
    order = np.argsort(key, kind="stable")
    first = np.arange(points.n)
    head = np.maximum.accumulate(np.where(np.r_[True, key[order][1:] != key[order][:-1]], np.arange(points.n), 0))
    twin, original = order, order[head]
    candidates = twin != original
    twin, original = twin[candidates], original[candidates]
    equal = _equal_rows(points, twin, original)
    first[twin[equal]] = original[equal]
    return first


def _equal_rows(points: Points, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Which points ``left`` equal their partners ``right``."""
    if not points.sparse:
        step = max(1, (1 << 22) // max(1, points.d))
        parts = [
            (points.data[left[a : a + step]] == points.data[right[a : a + step]]).all(axis=1)
            for a in range(0, len(left), step)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, bool)
    indptr, indices, data = points.data
    length = np.diff(indptr)
    equal = length[left] == length[right]
    left, right, at = left[equal], right[equal], np.flatnonzero(equal)
    count = length[left]
    owner = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    i, j = indptr[left][owner] + within, indptr[right][owner] + within
    differs = (indices[i] != indices[j]) | (data[i] != data[j])
    equal[at[np.bincount(owner, differs, len(left)) > 0]] = False
    return equal
