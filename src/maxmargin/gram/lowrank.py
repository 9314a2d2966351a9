"""Kernel matrices that are numerically of low rank: K ≈ L Lᵀ by pivoted incomplete Cholesky.

Wide kernels and inputs of few dimensions make kernel matrices whose eigenvalues fall off a cliff; p columns of K at
p pivots then say all there is to know. The factor costs p columns of K and O(n p²) multiply-adds, never K itself.

    d <- diag K                                                     what L Lᵀ still lacks of the diagonal
    repeat
        J  <- some points, drawn with probabilities d / Σd          as many as make matrix products worth while
        R  <- K[J] − L[J] Lᵀ                                        their rows of what is lacking
        keep those of J that a pivoted Cholesky of R[:, J] needs    the others depend on them
        L  <- [L, Rᵀ (chol R[J, J])⁻ᵀ];   d <- d − squares of the new columns
    until Σd ≤ tol · trace K

(Drawn, not the largest: among equal d the largest would be neighbours; Chen et al., Epperly et al. on RPCholesky.)

**What the approximation can hide.** E = K − L Lᵀ is a Schur complement, hence positive semi-definite with diagonal d,
so that |E_ij| ≤ √(d_i d_j) and, with u = Σ √d_i |β_i|,

    0 ≤ ½ βᵀEβ ≤ ½ u²         |(Eβ)_i| ≤ √d_i u

which nothing can improve that knows only d (E = √d √dᵀ attains it), and which is never more than ½ Σd ‖β‖². The
objective with K is that with L Lᵀ plus ½ βᵀEβ ≥ 0, and so is its minimum at least that with L Lᵀ. A β within ``gap`` of
the optimum of the approximate problem is therefore within gap + ½ u² of the optimum of the true one: this is what the
certificate of a problem with a ``LowRank`` states (problem.py). Rounding of L is counted in d.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf

from .. import threads as th
from ..rows import Rows
from .base import Gram
from .factored import Factored
from .kernel_gram import KernelGram
from .matrices import CallableGram
from .views import View

__all__ = ["LowRank", "low_rank", "lowered"]

BLOCK, LEAST_BLOCK = 64, 16  # points drawn at a time: twice as many as were kept before, in that range
TILE = 2048  # points at a time: BLOCK numbers for each of them stay in the second cache
DEPENDENT = 0.1  # of the largest lacking diagonal in a block: less is not worth a column yet


class LowRank(Factored):
    """L Lᵀ in place of a Gram, with what it lacks of the diagonal."""

    def __init__(self, inner: Gram, L: np.ndarray | Rows, lacking: np.ndarray) -> None:
        super().__init__(L, inner.threads, inner.cost)
        self.inner = inner
        self.lacking = lacking  # at least diag(K − L Lᵀ)

    @property
    def rank(self) -> int:
        return self.Z.d

    @property
    def trace_error(self) -> float:
        """At least trace(K − L Lᵀ)."""
        return float(self.lacking.sum())

    def take(self, index: np.ndarray) -> Gram:
        return LowRank(self.inner.take(index), self.Z.take(index), self.lacking[index])

    def duplicates(self) -> np.ndarray | None:
        return self.inner.duplicates()

    def hides(self, beta: np.ndarray) -> tuple[float, float]:
        u = float(np.sqrt(self.lacking) @ np.abs(beta))
        return 0.5 * u * u, float(np.sqrt(self.lacking.max(initial=0.0))) * u

    def original(self) -> Gram:
        return self.inner


def lowered(gram: Gram, *asked: Any, **more: Any) -> Gram | None:
    """A view of a factor in place of the same view of a kernel matrix; None where ``low_rank`` finds none."""
    if isinstance(gram, View):
        inner = lowered(gram.inner, *asked, **more)
        return None if inner is None else gram.on(inner)
    return low_rank(gram, *asked, **more) if isinstance(gram, (KernelGram, CallableGram)) else None


def low_rank(
    gram: Gram,
    tol: float = 1e-10,
    most: int | None = None,
    seed: int = 0,
    stop: Callable[[], object] = lambda: None,
) -> LowRank | None:
    """L Lᵀ with a trace within ``tol`` of K's, relatively; None if that takes more than ``most`` columns.

    None as well where an entry of the diagonal is negative, which no columns give, and as soon as ``stop()`` says so:
    it is asked before each block of columns.
    """
    n = gram.n
    most = n if most is None else min(n, most)
    diagonal = gram.diag()
    if not (diagonal >= 0).all():
        return None
    lacking = diagonal.copy()
    with th.blas_limit(1):
        Lt = _columns(gram.wide(), lacking, tol * float(diagonal.sum()), most, np.random.default_rng(seed), stop)
    if Lt is None:
        return None
    # By so much, of K_ii a column, the products behind d can be wrong.
    lacking += np.finfo(float).eps * (len(Lt) + 1) * diagonal
    return LowRank(gram, np.ascontiguousarray(Lt.T) if len(Lt) else np.zeros((n, 1)), lacking)


def _columns(
    gram: Gram,
    lacking: np.ndarray,
    target: float,
    most: int,
    rng: np.random.Generator,
    stop: Callable[[], object],
) -> np.ndarray | None:
    """Columns of L as rows, until what they lack of the diagonal adds up to no more than the target."""
    n = gram.n
    Lt = np.empty((min(most, 2 * BLOCK), n))
    p, block = 0, BLOCK
    while lacking.sum() > target:
        if p == most or stop():
            return None
        J = _drawn(lacking, min(block, most - p), rng)
        R = gram.rows(J)
        _subtract(R, np.ascontiguousarray(Lt[:p, J].T), Lt[:p], gram.threads)
        G = R[:, J]
        factor, order, rank, _ = dpstrf(0.5 * (G + G.T), tol=DEPENDENT * float(G.diagonal().max()), lower=1)
        kept = order[: max(1, rank)] - 1
        corner = np.tril(factor[: len(kept), : len(kept)])
        if p + len(kept) > len(Lt):
            Lt, before = np.empty((min(most, 2 * len(Lt)), n)), Lt
            Lt[:p] = before[:p]  # no more than that: what was not touched yet is no memory
        _append(Lt[p : p + len(kept)], corner, R, kept, lacking, gram.threads)
        np.maximum(lacking, 0.0, out=lacking)
        lacking[J[kept]] = 0.0  # exactly: they are pivots
        p += len(kept)
        block = int(np.clip(2 * len(kept), LEAST_BLOCK, BLOCK))
    return Lt[:p]


def _subtract(R: np.ndarray, left: np.ndarray, Lt: np.ndarray, threads: int) -> None:
    """R −= left Lᵀ."""

    def leaf(a: int, b: int) -> None:
        R[:, a:b] -= left @ Lt[:, a:b]

    th.spread(leaf, R.shape[1], threads, th.grain(left.size), longest=TILE)


def _append(
    new: np.ndarray, corner: np.ndarray, R: np.ndarray, kept: np.ndarray, lacking: np.ndarray, threads: int
) -> None:
    """New columns of L as rows: corner⁻¹ R[kept]; less is lacking then."""

    def leaf(a: int, b: int) -> None:
        # Xᵀ cornerᵀ = Rᵀ: as LAPACK orders matrices, these are the rows as they lie.
        found = dtrsm(1.0, corner, R[kept, a:b].T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        lacking[a:b] -= np.einsum("ij,ij->j", found, found)
        new[:, a:b] = found

    th.spread(leaf, R.shape[1], threads, th.grain(corner.size), longest=TILE)


def _drawn(lacking: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Different points, drawn with probabilities in proportion to what they lack; the worst is one of them."""
    edges = np.cumsum(lacking)
    drawn = np.searchsorted(edges, rng.random(count - 1) * edges[-1], side="right")
    return np.unique(np.append(np.minimum(drawn, len(lacking) - 1), lacking.argmax()))
