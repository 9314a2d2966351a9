"""A preconditioner for K_SS + D: K is nearly L Lᵀ with few columns, the rest of it is next to nothing beside D.

K ≈ L Lᵀ by some rounds of pivoted Cholesky (randomly pivoted, as in gram/lowrank.py, which goes on until nothing
is lacking), and (L_S L_Sᵀ + D)⁻¹ = D⁻¹ − D⁻¹ L_S (1 + L_Sᵀ D⁻¹ L_S)⁻¹ L_Sᵀ D⁻¹
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf

from ... import threads as th
from ...gram.lowrank import DEPENDENT
from .kernel_products import KernelProducts
from .newton_systems import factor_spd

__all__ = ["Metric", "PartialCholesky", "Preconditioner"]

BLOCK = 128  # points drawn at a time
EMPTY = 1e-8  # of the trace: where no more is lacking, more columns would be rounding
FLOAT32_UP_TO = 1e5  # trace of 1 + LᵀD⁻¹L: its inverse, which is taken from 1, is more than float32 rounds by
TILE = 4096  # points at a time in sums over all of them: the same bits for any number of threads


class PartialCholesky:
    """L of K on points, and of columns, that may become more; at most ``rank`` columns."""

    def __init__(self, products: KernelProducts, rank: int, seed: int = 0) -> None:
        self.products = products
        self.Lt = np.zeros((0, products.n))
        self.pivots = np.zeros(0, np.int64)  # as the Gram numbers them
        self.corner = np.zeros((0, 0), order="F")  # L of the pivots, which is triangular
        self.narrow: np.ndarray | None = None  # L in float32
        self.weight, self.M = np.zeros(0), np.zeros((0, 0))  # 1/D on S, and 1 + L_Sᵀ D⁻¹ L_S
        self.rng = np.random.default_rng(seed)
        self.deepen(rank)

    @property
    def rank(self) -> int:
        return len(self.Lt)

    def deepen(self, rank: int) -> None:
        """More columns, up to so many, of pivots that are drawn from all points there are by now."""
        products, diagonal = self.products, self.products.part.diag()
        lacking = np.maximum(diagonal - np.einsum("ij,ij->j", self.Lt, self.Lt), 0.0)
        while self.rank < rank and lacking.sum() > EMPTY * diagonal.sum():
            products.monitor.look()
            edges = np.cumsum(lacking)
            drawn = np.searchsorted(edges, self.rng.random(min(BLOCK, rank - self.rank)) * edges[-1], side="right")
            J = np.unique(np.minimum(drawn, products.n - 1))
            above = np.ascontiguousarray(self.Lt[:, J].T)
            R = products.rows(J) - above @ self.Lt
            G = R[:, J]
            found, order, rank_of_block, _ = dpstrf(0.5 * (G + G.T), tol=DEPENDENT * float(G.diagonal().max()), lower=1)
            kept = order[: max(1, rank_of_block)] - 1
            corner, old = np.zeros((self.rank + len(kept),) * 2, order="F"), self.rank
            corner[:old, :old], corner[old:, :old] = self.corner, above[kept]
            corner[old:, old:] = np.tril(found[: len(kept), : len(kept)])
            new = solve_triangular(corner[old:, old:], R[kept], lower=True, check_finite=False)
            self.pivots, self.corner = np.concatenate([self.pivots, products.index[J[kept]]]), corner
            self.Lt = np.concatenate([self.Lt, new])
            lacking = np.maximum(lacking - np.einsum("ij,ij->j", new, new), 0.0)

    def grow(self) -> None:
        """Rows of L for the points that have joined."""
        n, products = self.Lt.shape[1], self.products
        if products.n == n:
            return
        fresh = products.n - n
        both = products.gram.take(np.concatenate([products.index[n:], self.pivots]))
        rows = both.rows(np.arange(fresh, both.n))
        Lt = np.empty((self.rank, products.n))
        Lt[:, :n] = self.Lt

        def leaf(a: int, b: int) -> None:
            # Y Lᵀ = R: as BLAS orders matrices, the transposes are the rows as they lie.
            part = np.array(rows[:, a:b], np.float64).T
            Lt[:, n + a : n + b] = dtrsm(1.0, self.corner, part, side=1, lower=1, trans_a=1, overwrite_b=1).T

        th.spread(leaf, fresh, products.gram.threads, grain=TILE, longest=TILE)
        self.Lt = Lt

    def on(self, S: np.ndarray, D: np.ndarray, threads: int) -> Preconditioner:
        """(L_S L_Sᵀ + D)⁻¹."""
        M = self.normal(S, D, threads)
        narrow = M.trace() < FLOAT32_UP_TO
        if narrow and (self.narrow is None or self.narrow.shape != self.Lt.shape):
            self.narrow = self.Lt.astype(np.float32)
        L = self.narrow if narrow and self.narrow is not None else self.Lt
        return Preconditioner(L, S, D, factor_spd(M.copy(), threads), threads)

    def metric(self, S: np.ndarray, D: np.ndarray, threads: int) -> Metric:
        """Conjugate directions for losses that are curved on S."""
        return Metric(self, S, D, threads)

    def normal(self, S: np.ndarray, D: np.ndarray, threads: int) -> np.ndarray:
        """1 + L_Sᵀ D⁻¹ L_S: changed where few points have come or gone since the last one, else made anew."""
        weight = np.zeros(self.Lt.shape[1])
        weight[S] = 1.0 / D
        change = weight.copy()
        change[: len(self.weight)] -= self.weight
        if len(self.M) != self.rank or 2 * np.count_nonzero(change) > len(S):
            self.M, change = np.eye(self.rank), weight
        self.M += self._squares(change, threads)
        self.weight = weight
        return self.M

    def _squares(self, weight: np.ndarray, threads: int) -> np.ndarray:
        """Lᵀ diag(weight) L, by tiles of points that are added up in order."""
        parts: dict[int, np.ndarray] = {}

        def leaf(a: int, b: int) -> None:
            total = np.zeros((self.rank, self.rank))
            for sign in (1.0, -1.0):
                some = a + np.flatnonzero(sign * weight[a:b] > 0.0)
                if len(some):
                    rows = self.Lt[:, some] * np.sqrt(np.abs(weight[some]))
                    total += sign * (rows @ rows.T)
            parts[a] = total

        th.spread(leaf, len(weight), threads, grain=TILE, longest=TILE)
        return np.asarray(np.sum([parts[a] for a in sorted(parts)], axis=0))


class Preconditioner:
    """Products with (L_S L_Sᵀ + D)⁻¹; L has a column for each point, in S or not, so that none is copied."""

    def __init__(self, Lt: np.ndarray, S: np.ndarray, D: np.ndarray, factor: Any, threads: int) -> None:
        self.Lt, self.S, self.D, self.factor, self.threads = Lt, S, D, factor, threads

    def __call__(self, v: np.ndarray) -> np.ndarray:
        u = np.zeros(self.Lt.shape[1])
        u[self.S] = v / self.D
        return (v - self._up(cho_solve(self.factor, self._down(u), check_finite=False))) / self.D

    def near(self, v: np.ndarray) -> np.ndarray:
        """About K v on S, for v on all points."""
        return self._up(self._down(v)) if v.any() else np.zeros(len(self.S))

    def _down(self, v: np.ndarray) -> np.ndarray:
        """Lᵀ v."""
        u, parts = v.astype(self.Lt.dtype), {}

        def leaf(a: int, b: int) -> None:
            parts[a] = self.Lt[:, a:b] @ u[a:b]

        th.spread(leaf, len(v), self.threads, grain=TILE, longest=TILE)
        return np.asarray(np.sum([parts[a] for a in sorted(parts)], axis=0, dtype=np.float64))

    def _up(self, q: np.ndarray) -> np.ndarray:
        """L_S q."""
        inner, out = q.astype(self.Lt.dtype), np.empty(self.Lt.shape[1], self.Lt.dtype)

        def leaf(a: int, b: int) -> None:
            out[a:b] = inner @ self.Lt[:, a:b]

        th.spread(leaf, len(out), self.threads, grain=TILE, longest=TILE)
        return out[self.S].astype(np.float64)


class Metric:
    """Gradients of functions, changed on the span of the pivots so that a step there is Newton's.

    The functions V = K[:, J] L_J⁻ᵀ of the pivots J are orthonormal, and Vᵀ of Σ_i v_i k(x_i, ·) is Lᵀv. With
    M = 1 + Lᵀ Θ L a gradient v becomes v − V (1 − M⁻¹) Lᵀv, which is symmetric and costs no product with K.
    """

    def __init__(self, base: PartialCholesky, S: np.ndarray, D: np.ndarray, threads: int) -> None:
        self.Lt = base.Lt
        place = np.empty(base.products.gram.n, np.int64)
        place[base.products.index] = np.arange(base.products.n)
        self.pivots, self.corner = place[base.pivots], base.corner
        self.factor = factor_spd(base.normal(S, D, threads).copy(), threads)

    def changed(self, v: np.ndarray, Kv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a gradient becomes, and K times that."""
        q = self.Lt @ v
        c = q - cho_solve(self.factor, q, check_finite=False)
        out = v.copy()
        out[self.pivots] -= solve_triangular(self.corner, c, lower=True, trans=1, check_finite=False)
        return out, Kv - c @ self.Lt
