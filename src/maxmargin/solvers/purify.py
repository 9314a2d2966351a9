"""From the interior to the boundary: which variables are at a bound, and the free ones exactly.

An interior method ends with every coefficient strictly inside its box. Complementarity tells which ones belong to a
bound (or, with ε, to zero). For the others, F, Newton's equations of the active set hold,

    [ H_FF + τ  A_Fᵀ ] [ δ  ]   [ −s_F   ]
    [ A_F       0    ] [ Δη ] = [ b − Aβ ]          τ next to nothing: where H_FF is singular, β stays near the interior

A variable that the solution would push out of its box is put on the bound, one at a bound that wants to come off it
joins F. What comes out usually has a smaller gap than the interior point, and it has exact zeros and bounds, so that
support vectors can be counted.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..gram import Gram
from ..problem import QP

__all__ = ["polish", "wants_off"]

NEAR = 1e-10  # τ in units of H's largest diagonal entry
ROUNDS = 30
RELEASED = 1e-10  # slope, relative to the largest, at which a variable at a bound wants to come off it


def polish(gram: Gram, qp: QP, beta: np.ndarray, eta: np.ndarray, s: np.ndarray, F: np.ndarray) -> tuple:
    """β and η after Newton's equations on the variables F, the others fixed; s = qp.gradient(β, η)."""
    H, A = gram.block(F), qp.A[:, F]
    b, slope, eps = beta[F].copy(), s[F].copy(), qp.eps[F]
    lower, upper = qp.lower[F], qp.upper[F]
    missing = qp.b - qp.A @ beta
    side = np.sign(b)  # of 0 on which a variable with ε stays
    tau = NEAR * max(float(H.diagonal().max(initial=0.0)), np.finfo(float).tiny)
    free = np.ones(len(F), bool)
    for _ in range(ROUNDS):
        low = np.where((eps > 0.0) & (side > 0.0), np.maximum(lower, 0.0), lower)
        high = np.where((eps > 0.0) & (side < 0.0), np.minimum(upper, 0.0), upper)
        f = np.flatnonzero(free)
        step, turn = _newton(H[np.ix_(f, f)], A[:, f], -(slope + eps * side)[f], missing, tau)
        if step is None:
            break
        new = b.copy()
        new[f] = np.clip(b[f] + step, low[f], high[f])
        change = new - b
        b, eta = new, eta + turn
        slope = slope + H @ change + turn @ A
        missing = missing - A @ change
        out = free & ((b <= low) | (b >= high))
        free &= ~out
        back = ~free & _released(b, slope, eps, side, low, high)
        free |= back
        if not (out & ~back).any() and not back.any():
            break
    result = beta.copy()
    result[F] = b
    return result, eta


def _newton(H: np.ndarray, A: np.ndarray, right: np.ndarray, missing: np.ndarray, tau: float):
    """δ and Δη of the system above; no δ where H is not even nearly positive semi-definite."""
    k = len(missing)
    if not len(right):
        return right, np.zeros(k)
    M = H + np.diag(np.full(len(H), tau))
    try:
        factor = cho_factor(M, check_finite=False)
    except LinAlgError:
        return None, None
    AM = cho_solve(factor, A.T, check_finite=False)
    schur = A @ AM
    if not np.isfinite(schur).all():
        return None, None
    eta = np.zeros(k)
    delta = np.zeros(len(right))
    for _ in range(2):  # the second time for what rounding left
        r = right - M @ delta - A.T @ eta
        part = cho_solve(factor, r, check_finite=False)
        turn = np.linalg.lstsq(schur, A @ (delta + part) - missing, rcond=1e-13)[0] if k else eta
        delta, eta = delta + part - AM @ turn, eta + turn
    return delta, eta


def _released(b, slope, eps, side, low, high) -> np.ndarray:
    slack = RELEASED * max(1.0, float(np.abs(slope).max(initial=0.0)))
    tilt = slope + eps * side
    return ((b <= low) & (low < high) & (tilt < -slack)) | ((b >= high) & (low < high) & (tilt > slack))


def wants_off(qp: QP, beta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Variables at a bound (or at 0 with ε) that would lower the objective inside."""
    slack = RELEASED * max(1.0, float(np.abs(s).max(initial=0.0)))
    up = s + np.where(beta >= 0.0, qp.eps, -qp.eps)
    down = s + np.where(beta > 0.0, qp.eps, -qp.eps)
    bound = (beta <= qp.lower) | (beta >= qp.upper) | ((beta == 0.0) & (qp.eps > 0.0))
    return bound & (((up < -slack) & (beta < qp.upper)) | ((down > slack) & (beta > qp.lower)))
