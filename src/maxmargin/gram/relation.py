"""Q = K̃ᵀK̃ for any L × P matrix K of relations (PSVM §2): the Gram matrix of a Potential SVM.

K relates L samples to P other objects (or to themselves); it need be neither square nor definite. K̃ is K column by
column, with mean 0 and norm 1:

    K̃_ij = √ω_i (K_ij − μ_j) / ν_j      μ_j = Σ ω_i K_ij / Σ ω_i      ν_j² = Σ ω_i (K_ij − μ_j)²

with weights ω of the samples, so that Q and K̃ᵀy are those of ω_i copies of sample i. A column that is constant says
nothing: it counts as 0. The P columns are what a solver sees as samples and the L samples are their features, so that
Z = K̃ᵀ is a factor of Q.

Centring is a correction of rank one, K̃ = diag(√ω) (K − 1μᵀ) diag(1/ν): a sparse K stays sparse, and one that lives on
disk, or that a kernel gives column by column, stays there. A dense K in memory is normalised once, in a copy.

Where there are few columns, Q is computed whole, from K as it lies there: a solver that looks at it some ten times
would read K twenty times, which takes as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import memory
from .. import threads as th
from ..rows import Rows
from ..rows.blocks import Dense, Stored, Watched
from .base import BLOCK_BYTES, Cost, Factor, Gram
from .distance import cross
from .kernels import Kernel
from .matrices import checked_block
from .matrix_leaves import normalise_rows
from .points import check_finite, make_points, on_disk

__all__ = ["Relation", "Unread"]

CONSTANT = (
    1e-10  # of the norm of a column: what is left of it without its mean has six digits more than rounding, or is 0
)
FEW = 0.25  # of the columns: so many are gathered rather than all of them read
SMALL = 1 << 17  # relations: all of these are read in less time than it takes to gather some, or to share them out
TILE = 1 << 21  # bytes of relations that are normalised at a time
# Columns. Q takes P²L multiply-adds, some 2.5 in the time in which a number is read, and a product with Q by way of K
# reads 2PL numbers. Up to here all of Q costs what some 50 products do, of which a fit with its certificates makes
# about ten, and the parts of Q that working sets want, which are most of it then, cost as much again.
WHOLE = 256
ALONE = 1 << 25  # multiply-adds, half a millisecond: such products are not shared among threads
PIECE = 128  # columns of a product at a time: with fewer, most of its time goes into reading the other side again

Look = Callable[[], object]  # called before something that takes a while; what it raises ends that


def nobody() -> None:
    """Nobody looks."""


class Relation(Gram):
    """K̃ᵀK̃ over the columns of K."""

    def __init__(
        self, columns: Any, root: np.ndarray, mean: np.ndarray, scale: np.ndarray, plain: bool, cost: Cost
    ) -> None:
        self.columns = columns  # Kᵀ as rows: one row for each column of K; K̃ᵀ itself if ``plain``
        self.root = root  # √ω
        self.mean, self.scale = mean, scale  # μ and 1/ν, which is 0 for a constant column
        self.plain = plain
        self.n = columns.n
        self.threads = columns.threads
        self.cost = cost
        self.Q: np.ndarray | None = None  # where there are few columns
        self.in_turn = False  # whether problems on it come one after the other, in an order that is always the same:
        self.last_set: Any = None  # then a solver leaves here what it knows of Q, for the next of them
        self.T: np.ndarray | None = None  # K̃ᵀ, where it lies in memory in one piece

    # -- from a matrix, or from a kernel ------------------------------------------------------------------

    @classmethod
    def of(cls, K: Any, weight: np.ndarray | None = None, n_jobs: int | None = None) -> Relation:
        """Over a matrix: an array, a sparse matrix, or a memory map, whose entries stay on disk."""
        weight = np.ones(K.shape[0]) if weight is None else np.asarray(weight, np.float64)
        if sp.issparse(K):
            return cls._corrected(Rows.of(sp.csr_array(K.T), n_jobs), weight)
        if on_disk(K):
            # A map is read in the order in which it was written.
            return cls._corrected(_Turned(Rows.of(K, n_jobs)) if K.flags.c_contiguous else Rows.of(K.T, n_jobs), weight)
        if 0 < K.shape[1] <= WHOLE:
            return cls._from_rows(K, weight, n_jobs)
        if K.dtype == np.float32:  # which is not copied to float64 as a whole
            return cls._corrected(Rows.of(np.ascontiguousarray(K.T), n_jobs), weight)
        return cls._normalised(np.array(K.T, np.float64, order="C"), weight, n_jobs)

    @classmethod
    def over_kernel(
        cls,
        kernel: Kernel,
        X: Any,
        Z: Any = None,
        weight: np.ndarray | None = None,
        n_jobs: int | None = None,
        look: Look = nobody,
    ) -> Relation:
        """K_ij = k(x_i, z_j), computed whole where that fits and else when columns are asked for; Z is X if None.

        ``look`` is called before each block of columns, and may raise.
        """
        weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, np.float64)
        right = make_points(X, kernel)
        left = right if Z is None else make_points(Z, kernel, like=right)
        for points in (right,) if left is right else (right, left):
            check_finite(kernel, points)
        right, left = right.astype(np.float64), left.astype(np.float64)
        cost, threads = Cost(), th.count(n_jobs)

        def load(a: int, b: int, out: np.ndarray | None = None, threads: int = 1) -> np.ndarray:
            cost.evals += (b - a) * right.n
            part = left if b - a == left.n else left.take(slice(a, b))  # where it is the right side, a half will do
            return cross(kernel, part, right, out, threads=threads)

        if not memory.fits(8 * left.n * right.n):
            return cls._corrected(Rows(Stored(load, left.n, right.n).split(threads), n_jobs), weight, cost, look)
        T = np.empty((left.n, right.n))
        step = max(1, BLOCK_BYTES // (8 * max(1, right.n)))
        for a in range(0, left.n, step):
            look()
            load(a, min(left.n, a + step), T[a : a + step], threads)
        return cls._normalised(T, weight, n_jobs, cost, look)

    @classmethod
    def over_function(
        cls,
        function: Callable,
        X: Any,
        Z: Any = None,
        weight: np.ndarray | None = None,
        n_jobs: int | None = None,
        look: Look = nobody,
    ) -> Relation:
        """As ``over_kernel`` for a function K(X, Z) of any two kinds of objects."""
        Z = X if Z is None else Z
        weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, np.float64)
        cost, shape = Cost(), (Z.shape[0], X.shape[0])

        def load(a: int, b: int) -> np.ndarray:
            cost.evals += (b - a) * shape[1]
            return np.ascontiguousarray(checked_block(function, X, Z[a:b]).T)

        if not memory.fits(8 * shape[0] * shape[1]):
            return cls._corrected(Rows([Stored(load, *shape)], n_jobs), weight, cost, look)
        return cls._normalised(load(0, shape[0]), weight, n_jobs, cost, look)

    @classmethod
    def _normalised(
        cls, T: np.ndarray, weight: np.ndarray, n_jobs: int | None, cost: Cost | None = None, look: Look = nobody
    ) -> Relation:
        """K̃ᵀ written over T = Kᵀ."""
        root, total = np.sqrt(weight), float(weight.sum())
        mean, scale, size = (np.empty(len(T)) for _ in range(3))

        def normalise(a: int, b: int) -> None:
            look()
            normalise_rows(T[a:b], weight, root, total, CONSTANT, mean[a:b], scale[a:b], size[a:b])

        longest = max(1, TILE // (8 * max(1, T.shape[1])))
        th.spread(normalise, len(T), th.count(n_jobs), th.grain(4 * T.shape[1]), 1, longest)
        _check_size(size)
        # What is centred has few zeros: nobody looks for them.
        columns = Rows([Dense(T)], n_jobs) if T.size <= SMALL else Rows.of(Dense(T), n_jobs)
        found = cls(columns, root, mean, scale, True, cost or Cost())
        found.T = T
        return found

    @classmethod
    def _from_rows(cls, K: np.ndarray, weight: np.ndarray, n_jobs: int | None) -> Relation:
        """Few columns: Q whole, K as it is."""
        total = float(weight.sum())
        columns = _Normal(K, np.sqrt(weight), weight @ K / total, np.ones(K.shape[1]), th.count(n_jobs))
        squares = columns.products()  # of what is centred and not scaled
        size = squares.diagonal() + total * columns.mean**2
        columns.scale = _inverse(squares.diagonal(), size)
        found = cls(columns, columns.root, columns.mean, columns.scale, True, Cost())
        found.Q = squares * np.outer(columns.scale, columns.scale)
        np.fill_diagonal(found.Q, found.diag())
        found.cost.evals += found.Q.size
        return found

    @classmethod
    def _corrected(cls, columns: Any, weight: np.ndarray, cost: Cost | None = None, look: Look = nobody) -> Relation:
        """K̃ by its correction of rank one."""
        if isinstance(columns, _Turned):
            mean, scale = columns.moments(weight)
        else:
            mean, scale = np.empty(columns.n), np.empty(columns.n)
            for block, start in zip(columns.blocks, columns.edges[:-1], strict=True):
                for a, b, tile in Watched(block, look).tiles():
                    at = slice(int(start) + a, int(start) + b)
                    mean[at], scale[at] = _moments(tile.data if isinstance(tile, Dense) else tile.csr(), weight)
        return cls(columns, np.sqrt(weight), mean, scale, False, cost or Cost())

    # -- products -----------------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """L."""
        return len(self.root)

    def along(self, w: np.ndarray) -> np.ndarray:
        """K̃ᵀw for one w or several as columns."""
        if not np.count_nonzero(w):  # as where a fit begins
            return np.zeros((self.n, *w.shape[1:]))
        if self.T is not None and self.T.size <= SMALL:
            return self.T @ w
        if self.plain:
            return self.columns.dot(w)
        u = _times(w, self.root)
        return _times(self.columns.dot(u) - np.multiply.outer(self.mean, u.sum(axis=0)), self.scale)

    def pulled(self, beta: np.ndarray) -> np.ndarray:
        """K̃β for one β or several as columns."""
        if not np.count_nonzero(beta):
            return np.zeros((self.samples, *beta.shape[1:]))
        if self.T is not None and self.T.size <= SMALL:
            return self.T.T @ beta
        index = np.flatnonzero(beta if beta.ndim == 1 else beta.any(axis=1))
        if len(index) < FEW * self.n and self.n * self.samples > SMALL:
            part = self.columns.matrix(index) if self.T is None else self.T[index]  # only those that count are read
            v, mean = beta[index] if self.plain else _times(beta[index], self.scale[index]), self.mean[index]
            product = part.T @ v
        else:
            v, mean = beta if self.plain else _times(beta, self.scale), self.mean
            product = self.columns.t_dot(v)
        return product if self.plain else _times(product - mean @ v, self.root)

    def some(self, index: np.ndarray) -> np.ndarray:
        """These columns of K̃ as the rows of a dense array."""
        if self.T is not None:
            return self.T[index]
        found = self.columns.matrix(np.asarray(index))
        found = found.toarray() if sp.issparse(found) else found
        if self.plain:
            return found
        return (np.asarray(found, np.float64) - self.mean[index, None]) * self.scale[index, None] * self.root

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        self.cost.evals += len(index) * self.n
        result = np.empty((len(index), self.n)) if out is None else out
        slots = np.arange(len(index)) if slots is None else slots
        if self.Q is not None:
            result[slots] = self.Q[index]
            return result
        step = max(1, BLOCK_BYTES // (8 * max(1, self.samples, self.n)))
        for a in range(0, len(index), step):
            part = np.ascontiguousarray(self.some(index[a : a + step]).T)
            result[slots[a : a + step]] = self.along(part).T
        return result

    def diag(self) -> np.ndarray:
        return (self.scale > 0.0).astype(np.float64)

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.between(index, index)

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Q[left, right]."""
        if self.Q is not None:
            return self.Q[np.ix_(left, right)]
        self.cost.evals += len(left) * len(right)
        if not self.plain and not self.columns_dense:
            return self._between_sparse(left, right)
        first = self.some(left)
        second = first if right is left else self.some(right)
        out = np.empty((len(left), len(right)))

        def multiply(a: int, b: int) -> None:
            if second is not first:
                np.matmul(first, second[a:b].T, out=out[:, a:b])
                return
            np.matmul(first[:b], first[a:b].T, out=out[:b, a:b])
            out[a:b, :a] = out[:a, a:b].T  # symmetric

        # Few products are one piece: BLAS makes half of them where it is given a matrix and its transpose.
        alone = len(left) * first.size <= ALONE
        th.spread(multiply, len(right), self.threads, th.grain(first.size), max(1, len(right)) if alone else PIECE)
        return out

    def _between_sparse(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Σ ω (k_i − μ_i)(k_j − μ_j) = Σ ω k_i k_j − μ_i μ_j Σ ω."""
        weight = self.root * self.root
        first, second = self.columns.matrix(left), self.columns.matrix(right)
        inner = (sp.csr_array(first.multiply(weight)) @ sp.csr_array(second).T).toarray()
        inner -= np.outer(self.mean[left] * weight.sum(), self.mean[right])
        return inner * np.outer(self.scale[left], self.scale[right])

    @property
    def columns_dense(self) -> bool:
        return not getattr(self.columns, "sparse", False)

    @cached_property
    def compressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Columns of a sparse K as indptr, indices and data, or None; K̃ is that and its correction."""
        if self.plain or self.columns_dense:
            return None
        found = self.columns.matrix()
        return found.indptr.astype(np.int64), found.indices, found.data

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        v = np.zeros(self.n)
        np.add.at(v, index, coef)
        product = self.times(v)
        return product if at is None else product[at]

    def whole(self) -> np.ndarray | None:
        return self.Q

    def times(self, beta: np.ndarray) -> np.ndarray:
        """Qβ."""
        return self.along(self.pulled(beta)) if self.Q is None else self.Q @ beta

    def take(self, index: np.ndarray) -> Relation:
        taken = Relation(
            self.columns.take(index), self.root, self.mean[index], self.scale[index], self.plain, self.cost
        )  # fmt: skip
        taken.Q = None if self.Q is None else self.Q[np.ix_(index, index)]
        return taken

    def factor(self) -> Factor | None:
        # Where Q is whole, no solver is better off with features.
        return Factor(self.columns) if self.plain and self.Q is None else None

    def decision(self, alpha: np.ndarray) -> tuple[np.ndarray, float]:
        """a and b with Σ_j α_j K̃_j(x) = Σ_j a_j K_j(x) + b for a sample x of weight 1."""
        coef = alpha * self.scale
        return coef, -float(self.mean @ coef)


class Unread(Relation):
    """Columns of which nothing is known but that their norm is 1, because a fit had to stop before they were read.

    Each is taken for the worst one, which points to where it is asked about: what is proven of a machine without
    coefficients for these columns holds for any others.
    """

    def __init__(self, columns: int, weight: np.ndarray) -> None:
        super().__init__(
            Rows.of(np.zeros((columns, 0)), 1), np.sqrt(weight), np.zeros(columns), np.ones(columns), True, Cost()
        )

    def along(self, w: np.ndarray) -> np.ndarray:
        return np.full(self.n, float(np.linalg.norm(w)))

    def pulled(self, beta: np.ndarray) -> np.ndarray:
        return np.zeros(self.samples)  # of β = 0

    def factor(self) -> Factor | None:
        return None


def _times(block: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Each row times its factor."""
    return block * (factor if block.ndim == 1 else factor[:, None])


def _moments(columns: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """μ and 1/ν of columns of K, which are rows here."""
    total = float(weight.sum())
    if sp.issparse(columns):
        data, count = np.asarray(columns.data, np.float64), columns.shape[0]
        owner, at = np.repeat(np.arange(count), np.diff(columns.indptr)), weight[columns.indices]
        mean = np.bincount(owner, at * data, count) / total
        away = data - mean[owner]
        absent = np.maximum(0.0, total - np.bincount(owner, at, count))
        squares = np.bincount(owner, at * away * away, count) + absent * mean * mean
        size = np.bincount(owner, at * data * data, count)
    else:
        block = np.asarray(columns, np.float64)
        mean = block @ weight / total
        away = block - mean[:, None]
        squares = np.einsum("ij,ij,j->i", away, away, weight)
        size = np.einsum("ij,ij,j->i", block, block, weight)
    return mean, _inverse(squares, size)


def _inverse(squares: np.ndarray, size: np.ndarray) -> np.ndarray:
    """1/ν, or 0 for a column that is constant but for rounding; an error where a norm is no number."""
    _check_size(size)
    some = squares > (CONSTANT * CONSTANT) * size
    return np.where(some, 1.0 / np.sqrt(np.where(some, squares, 1.0)), 0.0)


def _check_size(size: np.ndarray) -> None:
    """An error unless squared norms are numbers."""
    if not np.isfinite(size).all():
        raise ValueError(
            "relations that can be squared were asked for; found values too large for it; scale the features, or "
            "choose a smaller gamma, coef0 or degree"
        )


class _Normal:
    """K̃ᵀ by the rows of a K in memory, which are centred some at a time whenever they are read."""

    def __init__(self, K: np.ndarray, root: np.ndarray, mean: np.ndarray, scale: np.ndarray, threads: int) -> None:
        self.K, self.root, self.mean, self.scale = K, root, mean, scale
        self.n, self.d, self.threads = K.shape[1], K.shape[0], threads

    def _spread(self, leaf: Callable[[int, int], object], cost: int) -> None:
        th.spread(leaf, self.d, self.threads, th.grain(cost), 1, max(1, TILE // (8 * self.n)))

    def _summed(self, leaf: Callable[[int, int], np.ndarray], cost: int) -> np.ndarray:
        """The sum of what pieces give, in the same order by any number of threads."""
        parts: dict[int, np.ndarray] = {}
        self._spread(lambda a, b: parts.update({a: leaf(a, b)}), cost)
        return np.add.reduce([parts[a] for a in sorted(parts)])

    def products(self) -> np.ndarray:
        """Σ ω (k_i − μ_i)(k_j − μ_j)."""
        equal = bool((self.root == 1.0).all())

        def multiply(a: int, b: int) -> np.ndarray:
            tile = self.K[a:b] - self.mean
            if not equal:
                tile *= self.root[a:b, None]
            return tile.T @ tile

        return self._summed(multiply, self.n**2)

    def dot(self, w: np.ndarray) -> np.ndarray:
        """K̃ᵀw."""
        u = _times(w, self.root)
        return _times(self._summed(lambda a, b: (self.K[a:b] - self.mean).T @ u[a:b], 4 * self.n), self.scale)

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        """K̃v."""
        u, out = _times(v, self.scale), np.empty((self.d, *v.shape[1:]))
        self._spread(lambda a, b: np.matmul(self.K[a:b] - self.mean, u, out=out[a:b]), 4 * self.n)
        return _times(out, self.root)

    def matrix(self, index: np.ndarray) -> np.ndarray:
        found = np.array(self.K[:, index].T, np.float64, order="C")
        found -= self.mean[index, None]
        found *= self.scale[index, None]
        found *= self.root
        return found

    def take(self, index: np.ndarray) -> Rows:
        return Rows.of(self.matrix(index), self.threads)


class _Turned:
    """Kᵀ by the rows of K: a file is read in the order in which it was written."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.n, self.d, self.threads = rows.d, rows.n, rows.threads

    def dot(self, w: np.ndarray) -> np.ndarray:
        return self.rows.t_dot(w)

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        return self.rows.dot(v)

    def matrix(self, index: np.ndarray) -> np.ndarray:
        out = np.empty((len(index), self.d))
        for a, b, tile in self._tiles():
            out[:, a:b] = tile[:, index].T
        return out

    def take(self, index: np.ndarray) -> Rows:
        return Rows([Dense(self.matrix(index))], self.threads)

    def moments(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = self.rows.t_dot(weight) / float(weight.sum())
        squares, size = np.zeros(self.n), self.rows.t_squares(weight)
        for a, b, tile in self._tiles():
            away = tile - mean
            squares += np.einsum("ij,ij,i->j", away, away, weight[a:b])
        return mean, _inverse(squares, size)

    def _tiles(self) -> Iterator[tuple]:
        for block, start in zip(self.rows.blocks, self.rows.edges[:-1], strict=True):
            for a, b, tile in block.tiles():
                yield int(start) + a, int(start) + b, tile.data if isinstance(tile, Dense) else tile.csr().toarray()
