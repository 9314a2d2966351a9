"""Gram matrices: symmetric, n × n, perhaps never formed.

A solver asks for blocks of rows (fast, in the precision of the rows) and, when it believes to be done, for
an exact product in float64. ``take`` gives the same matrix on a subset of the points, which is how
shrinking, doubling and chunking make a problem smaller.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import host
from .. import threads as th
from ..monitor import clock
from ..rows import Rows, Sparse
from .columns import Columns, rows_apart, suits, weigh_apart
from .distance import cross, weigh
from .kernels import LINEAR, RBF, Kernel
from .matrix_leaves import copy_rows, row_products
from .points import Points, check_finite, make_points, on_disk, squared_norms

__all__ = ["Factor", "Gram", "KernelGram", "Pairs", "PrecomputedGram", "CallableGram", "as_gram"]

UNIT = float(np.finfo(np.float32).eps) / 2  # roundoff of float32
ROW_ERROR = 1e-5  # kernel values whose float32 error could exceed this are computed in float64
SMALLEST_NORM, LARGEST_NORM = 1e-20, 1e20  # squared norms whose products neither vanish nor overflow in float32
BLOCK_BYTES = 1 << 26  # what a product over all rows holds at a time
EXACT_BYTES = 8  # of a kernel value as certificates need it
DIAGONAL = 8  # points a call of a function that each give one value: fewer calls, and no more values than 8 rows have
PIECE_EVALS = 1 << 22  # kernel values between two looks at the clock: 10 to 100 ms


class Cost:
    """Counts kernel evaluations, a cost without a clock, and tells from those made how long others will take."""

    def __init__(self) -> None:
        self.evals = 0
        self._seconds = 0.0
        self._bytes = 0

    @contextmanager
    def timed(self, evals: int, itemsize: int) -> Iterator[None]:
        """A context in which so many kernel values are computed, each a number of so many bytes."""
        begun = clock()
        yield
        self.add(evals, itemsize, clock() - begun)

    def add(self, evals: int, itemsize: int, seconds: float) -> None:
        """So many kernel values have taken that long."""
        self.evals += evals
        self._seconds += seconds
        self._bytes += evals * itemsize

    def seconds(self, evals: int, itemsize: int = EXACT_BYTES) -> float:
        """What so many kernel values will take: numbers of half the bytes take about half the time (measured)."""
        return self._seconds / self._bytes * evals * itemsize if self._bytes else 0.0


@dataclass(frozen=True)
class Factor:
    """H = Z Zᵀ + diag(ridge): what a linear solver works on."""

    rows: Rows  # Z
    ridge: np.ndarray | None = None


@dataclass(frozen=True)
class Pairs:
    """H = E K Eᵀ: every variable is on a point of K, with a sign, and at most two are on the same."""

    K: Gram
    point: np.ndarray
    sign: np.ndarray

    def gather(self, v: np.ndarray) -> np.ndarray:
        """Eᵀv: what the variables of each point add up to."""
        return np.bincount(self.point, self.sign * v, self.K.n)

    def scatter(self, u: np.ndarray) -> np.ndarray:
        """Eu: each variable's share of what its point has."""
        return self.sign * u[self.point]

    @cached_property
    def other(self) -> np.ndarray:
        """The other variable on the point of each, or itself."""
        first, last = np.zeros((2, self.K.n), np.int64)
        each = np.arange(len(self.point))
        first[self.point[::-1]], last[self.point] = each[::-1], each
        return first[self.point] + last[self.point] - each


class Gram(ABC):
    """A symmetric matrix that a solver reads by rows."""

    n: int
    dtype: np.dtype = np.dtype(np.float64)
    cost: Cost  # kernel evaluations so far, shared by a Gram and all that is taken from it
    ridge: np.ndarray | None = None  # the part of the diagonal that a view added (see views.py)
    threads: int = 1

    @property
    def copies(self) -> np.dtype:
        """The precision in which rows of a part are kept, where that is not the matrix's own."""
        return self.dtype

    @property
    def evals(self) -> int:
        return self.cost.evals

    @abstractmethod
    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        """Rows ``index`` as (q, n), or written to ``out[slots]``."""

    @abstractmethod
    def diag(self) -> np.ndarray:
        """The diagonal in float64."""

    @abstractmethod
    def take(self, index: np.ndarray) -> Gram:
        """The matrix on these points only."""

    @abstractmethod
    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        """Σ_k coef_k H[index_k, at], from exact entries or from entries as ``rows`` gives them; summed in float64."""

    @abstractmethod
    def block(self, index: np.ndarray) -> np.ndarray:
        """H[index, index] from exact entries in float64."""

    def seen(self, v: np.ndarray) -> np.ndarray:
        """What Hv depends on: v, or less of it."""
        return v

    def at_points(self, H_v: np.ndarray) -> np.ndarray:
        """Σ_j k(x_i, x_j) c_j at each point, of the product Hv, where several variables v may make a coefficient c."""
        return H_v

    def pairs(self) -> Pairs | None:
        """The smaller matrix that this one repeats, where two variables are on the same point, or None."""
        return None

    @property
    def n_points(self) -> int:
        """How many points the variables are on."""
        pairs = self.pairs()
        return self.n if pairs is None else pairs.K.n

    def seconds(self, v: np.ndarray) -> float:
        """What Hv will take, by what was computed so far, where that is long; 0 if nobody knows."""
        return 0.0

    def matvec(self, v: np.ndarray) -> np.ndarray:
        """Hv in float64; only the rows of nonzero entries are touched."""
        index = np.flatnonzero(v)
        return self.combine(index, v[index]) if len(index) else np.zeros(self.n)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        """HV for columns V in float64: one pass over the matrix for all of them, where there is a way."""
        return np.column_stack([self.matvec(v) for v in V.T]) if V.shape[1] else np.zeros((self.n, 0))

    def combine_watched(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray, look: Callable[[], object], exact: bool = False
    ) -> np.ndarray:
        """As ``combine``, or for many columns of coefficients; ``look`` is called before each piece, and may raise."""
        if np.ndim(coef) == 2:
            return np.column_stack([self.combine_watched(index, one, at, look, exact) for one in np.transpose(coef)])
        look()
        step = self._points_a_look(len(index))
        if len(at) <= step:
            return self.combine(index, coef, at, exact)
        out = np.empty(len(at))
        for a in range(0, len(at), step):
            look()
            out[a : a + step] = self.combine(index, coef, at[a : a + step], exact)
        return out

    def _points_a_look(self, rows: int) -> int:
        """Points at which so many rows are combined between two looks; features are looked at once for all points."""
        return max(64, PIECE_EVALS // max(1, rows)) if self.factor() is None else max(1, self.n)

    def dense(self, look: Callable[[float], object] = lambda seconds: None, matrices: int = 1) -> np.ndarray:
        """The whole matrix in float64, if there is room for so many of its size.

        ``look`` is called before each block of rows with the seconds that the rest will take, and may raise: up to then
        only the blocks before have taken memory.
        """
        size = matrices * self.n * self.n * 8
        try:
            out = np.empty((self.n, self.n))
        except MemoryError:
            out = None
        if out is None or size > host.free_memory():
            more = f", and room for {matrices} of that size" if matrices > 1 else ""
            raise MemoryError(
                f"a dense {self.n} × {self.n} matrix was asked for{more}; found that {size / 2**30:.1f} GiB are not "
                "free; use a solver that reads rows (decomposition), or fewer points"
            )
        step = max(1, PIECE_EVALS // max(1, self.n))
        if (factor := self.factor()) is not None:  # an entry takes as many products as a row has numbers
            step = min(step, max(64, PIECE_EVALS // max(1, factor.rows.work)))
        begun = time.perf_counter()
        for a in range(0, self.n, step):
            look((self.n - a) * (time.perf_counter() - begun) / a if a else 0.0)
            out[a : a + step] = self.rows(np.arange(a, min(self.n, a + step)))
        return out

    def whole(self) -> np.ndarray | None:
        """The matrix itself where it lies in memory, row by row; not to be written to."""
        return None

    def wide(self) -> Gram:
        """The same matrix with rows in float64."""
        return self

    def by_feature(self, n: int | None = None) -> Columns | None:
        """What leaves need to make rows one at a time, of all points or of up to n, where a block costs hardly less."""
        return None

    def exact_by_feature(self, n: int) -> Columns | None:
        """The same in float64, for leaves that make rows of parts of up to n points."""
        return None

    def duplicates(self) -> np.ndarray | None:
        """For each point the number of the first point with the same row, or None where that is not known."""
        return None

    def factor(self) -> Factor | None:
        """Z and a ridge with H = Z Zᵀ + diag(ridge), or None where no such Z is at hand."""
        return None

    def along(self, w: np.ndarray) -> np.ndarray:
        """Z w for the Z of ``factor``."""
        factor = self.factor()
        if factor is None:
            raise ValueError("weights of features were given; found a matrix without a factor; give coefficients")
        return factor.rows.dot(w)

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        """Zᵀβ where the matrix is known by its factor Z, or None."""
        return None

    def ridged(self, ridge: np.ndarray) -> Gram:
        """The matrix with more on its diagonal."""
        from .views import Ridged

        return Ridged(self, ridge)

    def hides(self, beta: np.ndarray) -> tuple[float, float]:
        """Bounds on ½ βᵀ(K − H)β ≥ 0 and on |(K − H)β| where H stands for another matrix K (see lowrank.py)."""
        return 0.0, 0.0

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        """Bounds on |½ βᵀ(K − H)β| and on |(K − H)β| where K − H may have either sign (see near.py)."""
        return 0.0, 0.0

    def original(self) -> Gram:
        """The matrix that this one approximates, or itself."""
        return self


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
        unit = float(np.finfo(np.float32).eps) / 2
        return np.dtype(np.float32) if self.largest * unit < ROW_ERROR else self.dtype

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
