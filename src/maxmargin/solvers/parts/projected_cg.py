"""Conjugate gradients on a system with equality constraints, which hold all along (a constraint preconditioner).

[ K_SS + D   E ] [ x ]   [ b − K_SB x_B ]          P ≈ K_SS + D,  whose inverse is known
[ Eᵀ         0 ] [ μ ] = [ c            ]

residuals are preconditioned by  v -> P⁻¹(v − E λ)  with the λ for which Eᵀ of the result is 0

The part Eλ is taken out of the residual at once and added to Eμ (Gould, Hribar & Nocedal 2001): what is left of it gets
small with the error, so that rounding in P⁻¹, perhaps in float32, is a share of the error and not of μ.

The start is the solution with P in place of K_SS + D, and with what P knows of K_SB: on what P describes well, which is
most of a first residual, it leaves nothing, where the first step from 0 leaves a share of everything. It costs
no product of its own, because x_B needs one (all of a9a: 65 products of the largest size become 40, cadata: 266, 191).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...monitor import Monitor
from .kernel_products import KernelProducts
from .least_squares import least_squares
from .partial_cholesky import Preconditioner
from .roundings import ROUNDED_SUM

__all__ = ["projected_cg"]


@dataclass(frozen=True)
class Found:
    """A solution, and whether it is as good as was asked."""

    x: np.ndarray
    mu: np.ndarray
    Kx: np.ndarray  # on all points of the window, x_B included
    solved: bool


def projected_cg(
    products: KernelProducts,
    S: np.ndarray,
    D: np.ndarray,
    b: np.ndarray,
    E: np.ndarray,
    c: np.ndarray,
    inverse: Preconditioner,
    slack: tuple[float, np.ndarray, np.ndarray],
    most: int,
    monitor: Monitor,
    others: np.ndarray,
) -> Found:
    """x and μ with a residual smaller than ``first`` and than the mean of |share (start + x)|, or as near as ``most``
    steps get; ``slack`` is (first, share, start). ``others`` are x_B, and 0 on S: the first product is with both.
    """
    full = np.zeros(products.n)

    def times(v: np.ndarray) -> np.ndarray:
        full[S] = v
        return products.times(full)

    PE = np.column_stack([inverse(column) for column in E.T]) if E.shape[1] else np.zeros((len(S), 0))
    schur = E.T @ PE

    def levelled(v: np.ndarray, c: Any = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x = P⁻¹ (v − E λ), v − E λ and the λ for which Eᵀ x is c."""
        u = inverse(v)
        if not E.shape[1]:
            return u, v, np.zeros(0)
        part = least_squares(schur, E.T @ u - c, ROUNDED_SUM)
        return u - PE @ part, v - E @ part, part

    x, _, mu = levelled(b - inverse.near(others), c)
    begun = others.copy()
    begun[S] = x
    Kx = products.times(begun)
    z, residual, part = levelled(b - Kx[S] - D * x - E @ mu)
    mu = mu + part
    p, rho = z.copy(), float(residual @ z)
    first, share, start = slack
    for step in range(most + 1):
        enough = min(first, float((share * np.abs(start + x)).mean()))
        solved = bool(np.abs(residual).max(initial=0.0) <= enough)
        if solved or step == most or not rho > 0.0:
            return Found(x, mu, Kx, solved)
        monitor.look()
        Kp = times(p)
        Mp = Kp[S] + D * p
        length = rho / float(p @ Mp)
        x += length * p
        Kx += length * Kp
        residual -= length * Mp
        z, residual, part = levelled(residual)
        mu = mu + part
        rho, last = float(residual @ z), rho
        p = z + (rho / last) * p
    raise AssertionError("the last step returns")
