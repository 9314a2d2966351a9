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

import numpy as np

from .. import host
from ..monitor import clock
from ..rows import Rows
from .columns import Columns

__all__ = ["BLOCK_BYTES", "EXACT_BYTES", "ROW_ERROR", "UNIT", "Cost", "Factor", "Gram", "Pairs"]

UNIT = float(np.finfo(np.float32).eps) / 2  # roundoff of float32
ROW_ERROR = 1e-5  # kernel values whose float32 error could exceed this are computed in float64
BLOCK_BYTES = 1 << 26  # what a product over all rows holds at a time
EXACT_BYTES = 8  # of a kernel value as certificates need it
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
