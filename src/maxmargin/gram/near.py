"""Kernels of near points: K is sparse where most pairs of points are too far from each other to matter.

    wendland    is 0 from a distance of 1/√γ on: the sparse matrix is K itself
    rbf         is below τ from √(log(1/τ) / γ) on: what is left out is between 0 and τ, entry by entry

Neighbours come from a kd-tree, some rows at a time, with distances from differences. Memory is 12 bytes for each pair
of neighbours, and a product costs two operations for each: for points of few dimensions and a narrow kernel both are a
small share of n². Whether that is so is estimated before anything is computed.

**What is left out.** E = K − H has entries in [0, τ], and none on the diagonal, so that

    |(Eβ)_i| ≤ τ Σ|β|          |½ βᵀEβ| ≤ ½ τ (Σ|β|)²

E need not be semi-definite, as that of a factor of low rank is (lowrank.py). ``blurs`` states these bounds, and the
certificate counts the worst that they allow, for the primal and the dual value alike (problem.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from .. import host
from .. import threads as th
from ..rows import Rows
from .base import Gram
from .kernel_gram import KernelGram
from .kernels import RBF, Kernel, wendland_values
from .points import Points

__all__ = ["NearGram", "near_or_not"]

CUT = 1e-12  # τ: with Σ|β| up to a million f is blurred by 1e-6, which no tolerance sees
MOST_DIMENSIONS = 8  # a kd-tree looks at most of the points where there are more
LEAST_POINTS = 4000  # below, the whole matrix takes little
DENSE_SHARE = 1 / 16  # of all pairs: where more of them are neighbours, rows by products of matrices take no longer
MEMORY_SHARE = 0.25  # of what is free may be taken by neighbours
PAIR_BYTES = 12  # a kernel value and a number
CHUNK_PAIRS = 1 << 21  # neighbours found at a time, 24 bytes each while they are
PROBES = 256  # points whose neighbours are counted first


class NearGram(Gram):
    """A sparse matrix in place of a kernel matrix, and what it leaves out. Equal points share a row of it."""

    def __init__(self, inner: Gram, K: sp.csr_array, cut: float = 0.0, owner: np.ndarray | None = None) -> None:
        self.inner, self.K, self.cut = inner, K, cut
        self.owner = owner  # the row of each point, or None where each has its own
        self.n, self.threads, self.cost = inner.n, inner.threads, inner.cost
        self._rows: Rows | None = None

    def _of(self, index: np.ndarray) -> np.ndarray:
        """The rows of some points."""
        return index if self.owner is None else self.owner[index]

    def _everywhere(self, values: np.ndarray) -> np.ndarray:
        """Values of the rows, or of columns of them, at all points."""
        return values if self.owner is None else values[..., self.owner]

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        part = self.K[self._of(index)]
        self.cost.evals += part.nnz
        found = self._everywhere(part.toarray())
        if out is None:
            return found
        out[slots] = found
        return out

    def diag(self) -> np.ndarray:
        return self.inner.diag()

    def take(self, index: np.ndarray) -> Gram:
        rows = self._of(index)
        used, own = np.unique(rows, return_inverse=True)
        owner = None if len(used) == len(index) else own
        used = rows if owner is None else used
        every = np.array_equal(used, np.arange(self.K.shape[0]))  # one of each point: no copy of what may be gigabytes
        return NearGram(self.inner.take(index), self.K if every else self.K[used][:, used], self.cut, owner)

    def block(self, index: np.ndarray) -> np.ndarray:
        used, own = np.unique(self._of(index), return_inverse=True)
        return self.K[used][:, used].toarray()[np.ix_(own, own)]

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        v = np.bincount(self._of(index), coef, self.K.shape[0])
        return self._everywhere(self._products(v)) if at is None else self.K[self._of(at)] @ v

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.matmat(np.asarray(v, np.float64))

    def matmat(self, V: np.ndarray) -> np.ndarray:
        if self.owner is None:
            return self._products(V)
        if V.ndim == 1:
            return self._products(np.bincount(self.owner, V, self.K.shape[0]))[self.owner]
        sums = np.zeros((self.K.shape[0], V.shape[1]))
        np.add.at(sums, self.owner, V)
        return self._products(sums)[self.owner]

    def _products(self, V: np.ndarray) -> np.ndarray:
        if self._rows is None:
            self._rows = Rows.of(self.K, self.threads)
        self.cost.evals += self.K.nnz
        return self._rows.dot(np.ascontiguousarray(V, np.float64))

    def duplicates(self) -> np.ndarray | None:
        return self.inner.duplicates()

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        size = float(np.abs(beta).sum())
        return 0.5 * self.cut * size * size, self.cut * size

    def original(self) -> Gram:
        return self if self.cut == 0.0 else self.inner


def near_or_not(gram: KernelGram, cut: float = CUT) -> Gram:
    """The neighbours in place of a kernel matrix where they are few, or the matrix."""
    kernel, points = gram.kernel, gram.exact
    reach = _reach(kernel, cut)
    if gram.n < LEAST_POINTS or points.d > MOST_DIMENSIONS or not np.isfinite(reach):
        return gram
    X = points.data if not points.sparse else dense_points(points)
    first, heads, owner = gram.duplicates(), np.arange(gram.n), None
    if first is not None:
        heads, own = np.unique(first, return_inverse=True)
        owner = own if len(heads) < gram.n else None
    tree = cKDTree(np.asarray(X[heads], np.float64))
    some = np.linspace(0, tree.n - 1, PROBES).astype(np.int64)
    share = cKDTree(tree.data[some]).count_neighbors(tree, reach) / (len(some) * tree.n)
    if share > DENSE_SHARE or PAIR_BYTES * share * tree.n**2 > MEMORY_SHARE * host.free_memory():
        return gram
    K = _neighbours(kernel, tree, reach, share, gram.threads)
    return NearGram(gram, K, cut if kernel.code == RBF else 0.0, owner)


def _reach(kernel: Kernel, cut: float) -> float:
    """The distance from which on kernel values are left out."""
    if kernel.code == RBF and kernel.gamma > 0.0:
        return float(np.sqrt(np.log(1.0 / cut) / kernel.gamma))
    return kernel.reach


def dense_points(points: Points) -> np.ndarray:
    """Sparse points as an array."""
    indptr, indices, data = points.data
    return sp.csr_array((data, indices, indptr), shape=(points.n, points.d)).toarray()


def _neighbours(kernel: Kernel, tree: cKDTree, reach: float, share: float, threads: int) -> sp.csr_array:
    """Kernel values of all pairs within reach."""
    n = tree.n
    step = int(np.clip(CHUNK_PAIRS / max(1.0, share * n), 64, 8192))
    parts: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def leaf(first: int, last: int) -> None:
        for a in range(first * step, min(n, last * step), step):
            b = min(n, a + step)
            pairs: Any = cKDTree(tree.data[a:b]).sparse_distance_matrix(tree, reach, output_type="ndarray")
            pairs = pairs[np.lexsort((pairs["j"], pairs["i"]))]
            square = kernel.gamma * pairs["v"] * pairs["v"]
            values = np.exp(-square) if kernel.code == RBF else wendland_values(square, float(kernel.degree))
            parts[a] = np.bincount(pairs["i"], minlength=b - a), pairs["j"].astype(np.int32), values

    th.spread(leaf, -(-n // step), threads, grain=1, align=1)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([parts[a][0] for a in range(0, n, step)]))])
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    for a in range(0, n, step):  # each part is let go once it is copied: together they are as large as the matrix
        _, columns, entries = parts.pop(a)
        place = slice(indptr[a], indptr[a] + len(columns))
        indices[place], values[place] = columns, entries
    return sp.csr_array((values, indices, indptr), shape=(n, n))
