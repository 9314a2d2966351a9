"""A preconditioner for K_SS + D: K is nearly L Lᵀ with few columns, the rest of it is next to nothing beside D.

K ≈ L Lᵀ by some rounds of pivoted Cholesky (randomly pivoted, as in gram/lowrank.py, which goes on until nothing
is lacking), and (L_S L_Sᵀ + D)⁻¹ = D⁻¹ − D⁻¹ L_S (1 + L_Sᵀ D⁻¹ L_S)⁻¹ L_Sᵀ D⁻¹
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from ... import threads as th
from .kernel_products import KernelProducts
from .newton_systems import factor_spd

__all__ = ["Metric", "PartialCholesky", "Preconditioner"]

BLOCK = 128  # points drawn at a time
DEPENDENT = 0.1  # of the largest lacking diagonal in a block: less is not worth a column yet
EMPTY = 1e-8  # of the trace: where no more is lacking, more columns would be rounding
FLOAT32_UP_TO = 1e5  # trace of 1 + LᵀD⁻¹L: its inverse, which is taken from 1, is more than float32 rounds by
TILE = 4096  # points at a time in sums over all of them: the same bits for any number of threads


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

    def metric(self, S: np.ndarray, D: np.ndarray, threads: int) -> Metric:
        """Conjugate directions for losses that are curved on S."""
        return Metric(self, S, D, threads)


class Preconditioner:
    """Products with (L Lᵀ + D)⁻¹."""

    def __init__(self, Lt: np.ndarray, D: np.ndarray, threads: int) -> None:
        self.root = np.sqrt(D)
        self.scaled = Lt / self.root
        M = np.zeros((len(Lt), len(Lt)))
        parts: dict[int, np.ndarray] = {}

        def leaf(a: int, b: int) -> None:
            parts[a] = self.scaled[:, a:b] @ self.scaled[:, a:b].T

        th.spread(leaf, len(D), threads, grain=TILE, longest=TILE)
        for a in sorted(parts):
            M += parts[a]
        M[np.diag_indices(len(M))] += 1.0
        if M.trace() < FLOAT32_UP_TO:
            self.scaled = self.scaled.astype(np.float32)
        self.factor = factor_spd(M, threads)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        u = v / self.root
        inner = cho_solve(self.factor, np.asarray(self.scaled @ u.astype(self.scaled.dtype), np.float64))
        return (u - inner.astype(self.scaled.dtype) @ self.scaled) / self.root


class Metric:
    """Gradients of functions, changed on the span of the pivots so that a step there is Newton's.

    The functions V = K[:, J] L_J⁻ᵀ of the pivots J are orthonormal, and Vᵀ of Σ_i v_i k(x_i, ·) is Lᵀv. With
    M = 1 + Lᵀ Θ L a gradient v becomes v − V (1 − M⁻¹) Lᵀv, which is symmetric and costs no product with K.
    """

    def __init__(self, base: PartialCholesky, S: np.ndarray, D: np.ndarray, threads: int) -> None:
        self.Lt = base.Lt
        place = np.empty(base.products.gram.n, np.int64)
        place[base.products.index] = np.arange(base.products.n)
        self.pivots = place[np.concatenate([pivots for pivots, _, _ in base.factors])]
        self.corner = np.tril(self.Lt[:, self.pivots].T)
        self.S, self.factor = S, Preconditioner(self.Lt[:, S], D, threads).factor

    def changed(self, v: np.ndarray, Kv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a gradient becomes, and K times that."""
        q = self.Lt @ v
        c = q - cho_solve(self.factor, q, check_finite=False)
        out = v.copy()
        out[self.pivots] -= solve_triangular(self.corner, c, lower=True, trans=1, check_finite=False)
        return out, Kv - c @ self.Lt
