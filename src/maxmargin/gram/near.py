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
from .base import Gram, KernelGram
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
    """A sparse matrix in place of a kernel matrix, and what it leaves out."""

    def __init__(self, inner: Gram, K: sp.csr_array, cut: float = 0.0) -> None:
        self.inner, self.K, self.cut = inner, K, cut
        self.n, self.threads, self.cost = inner.n, inner.threads, inner.cost
        self._rows: Rows | None = None

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        part = self.K[index]
        self.cost.evals += part.nnz
        if out is None:
            return part.toarray()
        out[slots] = part.toarray()
        return out

    def diag(self) -> np.ndarray:
        return self.inner.diag()

    def take(self, index: np.ndarray) -> Gram:
        return NearGram(self.inner.take(index), sp.csr_array(self.K[index][:, index]), self.cut)

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.K[index][:, index].toarray()

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        v = np.zeros(self.n)
        np.add.at(v, index, coef)
        return self.matvec(v) if at is None else self.K[at] @ v

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.matmat(np.asarray(v, np.float64))

    def matmat(self, V: np.ndarray) -> np.ndarray:
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
    tree = cKDTree(np.asarray(X, np.float64))
    some = np.linspace(0, gram.n - 1, PROBES).astype(np.int64)
    share = cKDTree(tree.data[some]).count_neighbors(tree, reach) / (len(some) * gram.n)
    if share > DENSE_SHARE or PAIR_BYTES * share * gram.n**2 > MEMORY_SHARE * host.free_memory():
        return gram
    return NearGram(gram, _neighbours(kernel, tree, reach, share, gram.threads), cut if kernel.code == RBF else 0.0)


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
    counts, indices, values = zip(*(parts.pop(a) for a in range(0, n, step)), strict=True)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return sp.csr_array((np.concatenate(values), np.concatenate(indices), indptr), shape=(n, n))
