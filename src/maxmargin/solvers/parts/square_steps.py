"""Newton steps by least squares, for linear machines whose normal equations are lost in rounding.

With x, Ẑ, P, θ and β as in linear_risk.py, Newton's step δ minimises a quadratic, which is a sum of squares but for
the rows whose loss is a line (g = Ẑᵀβ of those):

    min over δ   ½ ‖b − Aδ‖² − gᵀδ        A = [√Θ Ẑ; √P],   b = [β / √θ; −√P x]

    A = Q R,  Q = [Q₁ Q₂],  u = R⁻ᵀg        δ = R⁻¹ (Q₁ᵀb + u),      residual  r = Q [−u; Q₂ᵀb],     Aᵀr = −g

The condition of R is the root of that of the Hessian AᵀA = RᵀR. And √θ r are coefficients that hold Ẑᵀβ = P(x + δ),
of which φβ = 0 is a part, to the rounding of their own terms, because Q is orthogonal to rounding whatever R is. Those
that the losses ask for at f are not as good: θ may be of any size, and they have θ times what f is rounded by.

Costs and features may have all orders of magnitude: Householder's method is accurate in each row if columns are pivoted
and rows sorted by their largest entry (Cox & Higham 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from .limits import ROUNDS
from .linear_risk import SHORT, LinearRisk
from .newton_finish import NEWTON_WORK
from .roundings import ROUNDED_SUM

__all__ = ["Point", "affordable", "dense", "least_squares_step", "square_steps"]


def affordable(rows: int, columns: int) -> bool:
    """Whether such a step costs next to nothing."""
    return (rows + columns) * columns <= NEWTON_WORK


def dense(Z: Any) -> np.ndarray:
    """Rows as an array in float64."""
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z, np.float64)


@dataclass(frozen=True)
class Point:
    """Where a step has led."""

    x: np.ndarray
    f: np.ndarray
    beta: np.ndarray | None  # the coefficients there, where no loss has changed its shape on the way


def square_steps(risk: LinearRisk, x: np.ndarray, f: np.ndarray) -> Iterator[Point]:
    """Steps from x; once no loss changes its shape, one mends what rounding has left of the one before."""
    far, nothing = False, (np.zeros_like(x), np.zeros_like(f))
    if risk.value(*nothing) < risk.value(x, f):
        far, (x, f) = True, nothing
    for _ in range(ROUNDS):
        theta, beta = risk.curvature(f, far), risk.erm.asked(f)
        curved = theta > 0.0
        Z = np.hstack([dense(risk.rows.matrix(np.flatnonzero(curved))), risk.extra[curved]])
        linear = risk.pushed(np.where(curved, 0.0, beta))
        step = least_squares_step(Z, theta[curved], beta[curved], risk.penalty, x, linear)
        along = risk.values(step.delta)
        same = (risk.curvature(f + along) == theta) & (curved | (risk.erm.asked(f + along) == beta))
        whole = step.seen and not far and bool(same.all())
        beta[curved] = step.beta
        length = 1.0 if whole else risk.length(x, f, step.delta, along)
        x = x + length * step.delta
        f = risk.values(x)
        far = not step.seen or length < SHORT
        yield Point(x, f, beta if whole else None)


@dataclass(frozen=True)
class Step:
    """δ, and what it makes of the coefficients of curved rows."""

    delta: np.ndarray
    beta: np.ndarray
    seen: bool  # whether curved rows see all that pulls


def least_squares_step(
    Z: np.ndarray, theta: np.ndarray, beta: np.ndarray, penalty: np.ndarray, x: np.ndarray, linear: np.ndarray
) -> Step:
    """The step from x, for the Ẑ, θ and β of the rows that are curved and the g of the others."""
    root, size, penalised = np.sqrt(penalty), np.sqrt(theta), penalty > 0.0
    A = np.vstack([size[:, None] * Z, np.diag(root)[penalised]])
    b = np.concatenate([beta / size, -(root * x)[penalised]])
    delta, r, dependent = _least_squares(A, b, linear)
    return Step(delta, size * r[: len(size)], not linear[dependent].any())


def _least_squares(A: np.ndarray, b: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """δ and r of the table above, and columns that depend on others, which do not move."""
    m, n = A.shape
    scale = np.sqrt(np.einsum("ij,ij->j", A, A))
    scale = np.where(scale > 0.0, scale, 1.0)
    A, g = A / scale, g / scale
    order = np.argsort(-np.abs(A).max(axis=1, initial=0.0), kind="stable")
    factor, times = get_lapack_funcs(("geqp3", "ormqr"), (A,))
    QR, pivots, tau, _, _ = factor(np.asfortranarray(A[order]))
    QR = QR[:, : len(tau)]
    room = 64 * max(m, n)
    diagonal = np.abs(QR.diagonal())
    rank = int((diagonal > ROUNDED_SUM * diagonal.max(initial=0.0)).sum())
    columns, R = pivots[:rank] - 1, QR[:rank, :rank]
    turned = times("L", "T", QR, tau, b[order, None], room)[0][:, 0]
    u = solve_triangular(R, g[columns], trans="T")
    delta = np.zeros(n)
    delta[columns] = solve_triangular(R, turned[:rank] + u)
    turned[:rank] = -u
    r = np.empty(m)
    r[order] = times("L", "N", QR, tau, turned[:, None], room)[0][:, 0]
    return delta / scale, r, pivots[rank:] - 1
