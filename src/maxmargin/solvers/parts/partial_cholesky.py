"""A preconditioner for K_SS + D: K is nearly L Lᵀ with few columns, the rest of it is next to nothing beside D.

K ≈ L Lᵀ by some rounds of pivoted Cholesky (randomly pivoted, as in gram/lowrank.py, which goes on until nothing
is lacking), and (L_S L_Sᵀ + D)⁻¹ = D⁻¹ − D⁻¹ L_S (1 + L_Sᵀ D⁻¹ L_S)⁻¹ L_Sᵀ D⁻¹
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from .kernel_products import KernelProducts
from .newton_systems import factor_spd

__all__ = ["PartialCholesky", "Preconditioner"]

BLOCK = 128  # points drawn at a time
DEPENDENT = 0.1  # of the largest lacking diagonal in a block: less is not worth a column yet
EMPTY = 1e-8  # of the trace: where no more is lacking, more columns would be rounding
FLOAT32_FROM = 1e-3  # of the largest diagonal of K: with a smaller D a product in float32 loses what D says


class PartialCholesky:
    """L of K on points that may grow; at most ``rank`` columns."""

    def __init__(self, products: KernelProducts, rank: int, seed: int = 0) -> None:
        self.products = products
        self.Lt = np.zeros((0, products.n))
        self.factors: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # pivots, corner, L of the pivots before
        rng, diagonal = np.random.default_rng(seed), products.part.diag()
        lacking = np.maximum(diagonal, 0.0)
        while len(self.Lt) < rank and lacking.sum() > EMPTY * diagonal.sum():
            products.monitor.look()
            edges = np.cumsum(lacking)
            drawn = np.searchsorted(edges, rng.random(min(BLOCK, rank - len(self.Lt))) * edges[-1], side="right")
            J = np.unique(np.minimum(drawn, products.n - 1))
            above = np.ascontiguousarray(self.Lt[:, J].T)
            R = products.rows(J) - above @ self.Lt
            G = R[:, J]
            found, order, rank_of_block, _ = dpstrf(0.5 * (G + G.T), tol=DEPENDENT * float(G.diagonal().max()), lower=1)
            kept = order[: max(1, rank_of_block)] - 1
            corner = np.tril(found[: len(kept), : len(kept)])
            new = solve_triangular(corner, R[kept], lower=True, check_finite=False)
            self.factors.append((products.index[J[kept]], corner, above[kept]))
            self.Lt = np.concatenate([self.Lt, new])
            lacking = np.maximum(lacking - np.einsum("ij,ij->j", new, new), 0.0)

    def grow(self) -> None:
        """Rows of L for the points that have joined."""
        n, products = self.Lt.shape[1], self.products
        if products.n == n:
            return
        more = np.zeros((0, products.n - n))
        fresh = products.gram.take(products.index[n:])
        for pivots, corner, above in self.factors:
            both = products.gram.take(np.concatenate([products.index[n:], pivots]))
            rows = np.asarray(both.rows(np.arange(fresh.n, both.n)), np.float64)[:, : fresh.n]
            right = rows - above @ more
            more = np.concatenate([more, solve_triangular(corner, right, lower=True, check_finite=False)])
        self.Lt = np.concatenate([self.Lt, more], axis=1)

    def on(self, S: np.ndarray, D: np.ndarray, threads: int) -> Preconditioner:
        """(L_S L_Sᵀ + D)⁻¹."""
        return Preconditioner(self.Lt[:, S], D, threads)


class Preconditioner:
    """Products with (L Lᵀ + D)⁻¹."""

    def __init__(self, Lt: np.ndarray, D: np.ndarray, threads: int) -> None:
        self.root = np.sqrt(D)
        scaled = Lt / self.root
        self.scaled = scaled.astype(np.float32) if D.min(initial=1.0) > FLOAT32_FROM else scaled
        M = np.asarray(self.scaled @ self.scaled.T, np.float64)
        M[np.diag_indices(len(M))] += 1.0
        self.factor = factor_spd(M, threads)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        u = v / self.root
        inner = cho_solve(self.factor, np.asarray(self.scaled @ u.astype(self.scaled.dtype), np.float64))
        return (u - inner.astype(self.scaled.dtype) @ self.scaled) / self.root
