"""Reduced expansions: functions on k points in place of all n (PRIMAL §6.2).

    f(x) = Σ_j α_j k(z_j, x)        ‖f‖² = αᵀ K_zz α

With K_zz = L Lᵀ and w = Lᵀα this is a linear machine: ‖f‖² = ‖w‖² and f(x_i) = (Zw)_i with the features

    Z = K_nz L⁻ᵀ       (n × k)       Z Zᵀ = K_nz K_zz⁻¹ K_zn

so that whoever solves linear machines solves this one, with any loss. L comes from a pivoted Cholesky factorisation
that ends where all that the other points could add is rounding: copies of a point, or points whose functions depend
on the others, are left out. (A ridge in place of that would be a problem that nobody asked for.)

Z is computed a block of rows at a time in float64 and stored in float64 or float32. In float32 each entry is rounded
once, whatever the condition of K_zz: f changes by 2⁻²⁴ ‖w‖ at most. What is proven of a model is not read from Z:
``Expansion.pulled`` and ``Expansion.along`` are products with the kernel itself, as ``predict`` computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf

from .. import threads as th
from ..rows import Rows
from .base import Cost, Gram
from .distance import cross
from .factored import Factored
from .kernels import Kernel
from .matrices import checked_block
from .points import BLAS_PACE, KERNEL_COST, make_points

__all__ = ["Exact", "Expansion", "Reduced", "function_values", "independent", "matrix_values", "point_values"]

# Of the largest diagonal entry: what a point may lack of depending on others and still be left out. Its coefficient
# would be 1e5 times as large as its part of f, and errors of kernel values (1e-12) with it.
DEPENDENT = 1e-10
BLOCK_ENTRIES = 1 << 20  # of kernel values that a thread computes at a time: 8 MB
MOST_ROWS = 2048  # of them at a time
COLUMNS_BYTES = 1 << 28  # sums of several problems that are held at a time

Values = Callable[[np.ndarray], np.ndarray]  # numbers of samples → their kernel values with all points, float64


def point_values(kernel: Kernel, X: Any, Z: Any) -> Values:
    """k(x_i, z_j) of a compiled kernel; X stays as it is, what is taken of it becomes dense or sparse as Z is."""
    right = make_points(Z, kernel).astype(np.float64)
    return lambda rows: cross(kernel, make_points(X[rows], kernel, like=right).astype(np.float64), right)


def function_values(function: Callable, X: Any, Z: Any) -> Values:
    """k(x_i, z_j) of a user's function."""
    return lambda rows: checked_block(function, X[rows], Z)


def matrix_values(K: np.ndarray, index: np.ndarray) -> Values:
    """K[i, index_j]."""
    return lambda rows: np.asarray(K[np.ix_(rows, index)], np.float64)


def independent(square: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(points, L, least): numbers of independent points and the Cholesky factor of their kernel matrix.

    ``least`` is the smallest diagonal entry that is left for the others, as a share of the largest one there was: 0 up
    to rounding, unless the matrix is indefinite.
    """
    largest = float(square.diagonal().max(initial=0.0))
    factor, order, rank, _ = dpstrf(np.asfortranarray(0.5 * (square + square.T)), tol=DEPENDENT * largest, lower=1)
    order = order[:rank].astype(np.int64) - 1
    L = np.asfortranarray(np.tril(factor[:rank, :rank]))
    rest = np.setdiff1d(np.arange(len(square)), order)
    lacking = square.diagonal()[rest]
    if rank:
        part = solve_triangular(L, square[np.ix_(order, rest)], lower=True, check_finite=False)
        lacking = lacking - np.einsum("ij,ij->j", part, part)
    size = float(np.abs(square.diagonal()).max(initial=0.0))
    return order, L, float(lacking.min(initial=0.0)) / size if size > 0.0 else 0.0


@dataclass(frozen=True)
class Expansion:
    """Functions on k points, at n samples."""

    values: Values
    L: np.ndarray  # the factor of K_zz, columns one after the other
    rows: np.ndarray  # numbers of the samples, in the order in which vectors have them
    width: int = 1  # entries of a sample, which make a kernel value dear
    threads: int = 1

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def k(self) -> int:
        return len(self.L)

    @property
    def _block(self) -> int:
        """Samples that a thread takes at a time."""
        return int(np.clip(BLOCK_ENTRIES // max(1, self.k), 8, MOST_ROWS))

    def weights(self, alpha: np.ndarray) -> np.ndarray:
        """w = Lᵀα."""
        return self.L.T @ alpha

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """α = L⁻ᵀw."""
        return solve_triangular(self.L, w, lower=True, trans=1, check_finite=False)

    def _each(self, use: Callable[[int, int, np.ndarray], None], index: np.ndarray, more: float = 0.0) -> None:
        """use(start, stop, kernel values of these samples) over the samples with these numbers, by all threads."""
        cost = self.k * ((self.width + more) / BLAS_PACE + KERNEL_COST)

        def leaf(a: int, b: int) -> None:
            use(a, b, self.values(self.rows[index[a:b]]))

        th.spread(leaf, len(index), self.threads, th.grain(cost), align=8, longest=self._block)

    def matrix(
        self, index: np.ndarray | None = None, dtype: Any = np.float64, stop: Callable[[], object] = lambda: None
    ) -> np.ndarray:
        """The features of these samples, (n, k); as soon as ``stop()`` says so, zeros for the others."""
        index = np.arange(self.n) if index is None else index
        out = np.zeros((len(index), self.k), dtype)

        def put(a: int, b: int, block: np.ndarray) -> None:
            if not stop():
                # L Zᵀ = Kᵀ: as LAPACK orders matrices, the transposes are the rows as they lie.
                out[a:b] = dtrsm(1.0, self.L, np.ascontiguousarray(block).T, lower=1, overwrite_b=1).T

        self._each(put, index, more=self.k)
        return out

    def along(self, W: np.ndarray) -> np.ndarray:
        """Zw = K_nz L⁻ᵀ w for w as columns."""
        return self.function(self.coefficients(W))

    def function(self, alpha: np.ndarray) -> np.ndarray:
        """K_nz α for α as columns."""
        out = np.zeros((self.n, alpha.shape[1]))
        if not alpha.any():
            return out

        def put(a: int, b: int, block: np.ndarray) -> None:
            np.matmul(block, alpha, out=out[a:b])

        self._each(put, np.arange(self.n), more=alpha.shape[1])
        return out

    def pulled(self, B: np.ndarray) -> np.ndarray:
        """Zᵀβ = L⁻¹ K_zn β for β as columns; samples without coefficients cost nothing."""
        index = np.flatnonzero(B.any(axis=1))
        out = np.zeros((self.k, B.shape[1]))
        step = self._block * max(1, COLUMNS_BYTES // max(1, out.nbytes))
        for first in range(0, len(index), step):
            sums: dict[int, np.ndarray] = {}  # by piece: added up in order, whoever has computed them
            part = index[first : first + step]

            def put(
                a: int, b: int, block: np.ndarray, part: np.ndarray = part, sums: dict[int, np.ndarray] = sums
            ) -> None:
                sums[a] = block.T @ B[part[a:b]]

            self._each(put, part, more=B.shape[1])
            for a in sorted(sums):
                out += sums[a]
        return solve_triangular(self.L, out, lower=True, check_finite=False)


class Reduced(Factored):
    """Z Zᵀ for the features Z of an expansion, in memory once: consecutive rows of it are views."""

    def __init__(self, Z: np.ndarray, n_jobs: int | None = None, cost: Cost | None = None) -> None:
        super().__init__(Z, n_jobs, cost)
        self.features = Z

    def take(self, index: np.ndarray) -> Gram:
        index = np.asarray(index)
        edges = np.flatnonzero(np.diff(index) != 1) + 1
        if len(index) and len(edges) <= 1:  # one stretch or two, as of two classes
            parts = [self.features[part[0] : part[-1] + 1] for part in np.split(index, edges)]
            return Factored(Rows.of(parts, self.threads), cost=self.cost)
        return super().take(index)


class Exact(Gram):
    """Z Zᵀ by products with the kernel itself, of which some are known beforehand.

    Problems that share a kernel share the passes over it: whoever asks for many products has them computed together
    and lets each problem's matrix remember its own.
    """

    def __init__(self, expansion: Expansion, cost: Cost | None = None) -> None:
        self.expansion = expansion
        self.n, self.threads = expansion.n, expansion.threads
        self.cost = cost or Cost()
        self._pulled: list[tuple[np.ndarray, np.ndarray]] = []
        self._along: list[tuple[np.ndarray, np.ndarray]] = []

    def remember(self, beta: np.ndarray, pulled: np.ndarray, along: np.ndarray) -> None:
        """Zᵀβ, and Z times that."""
        self._pulled.append((beta, pulled))
        self.remember_along(pulled, along)

    def remember_along(self, w: np.ndarray, along: np.ndarray) -> None:
        """Zw."""
        self._along.append((w, along))

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        return _known(self._pulled, beta, lambda: self.expansion.pulled(beta[:, None])[:, 0])

    def along(self, w: np.ndarray) -> np.ndarray:
        return _known(self._along, w, lambda: self.expansion.along(w[:, None])[:, 0])

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        self.cost.evals += len(index) * self.n
        block = self.expansion.along(self.expansion.matrix(np.asarray(index)).T).T
        if out is None:
            return np.ascontiguousarray(block)
        out[slots] = block
        return out

    def diag(self) -> np.ndarray:
        Z = self.expansion.matrix()
        return np.einsum("ij,ij->i", Z, Z)

    def block(self, index: np.ndarray) -> np.ndarray:
        Z = self.expansion.matrix(np.asarray(index))
        return Z @ Z.T

    def take(self, index: np.ndarray) -> Exact:
        few = self.expansion
        return Exact(Expansion(few.values, few.L, few.rows[index], few.width, few.threads), self.cost)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        beta = np.zeros((self.n, 1))
        np.add.at(beta[:, 0], index, coef)
        target = self.expansion if at is None else self.take(at).expansion
        return target.along(self.expansion.pulled(beta))[:, 0]


def _known(answers: list[tuple[np.ndarray, np.ndarray]], asked: np.ndarray, compute: Callable) -> np.ndarray:
    for question, answer in answers:
        if np.array_equal(question, asked):
            return answer
    return compute()
