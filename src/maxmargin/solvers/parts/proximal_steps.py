"""Proximal steps on the dual of a small linear problem, each by Newton steps that are least squares.

    β <- the minimum of  ½ βᵀHβ + pᵀβ + Σ ε_i |β_i| + ½ Σ ρ_i (β_i − β̄_i)²,     lower ≤ β ≤ upper,   Aβ = b

where β̄ is the last β. Any ρ > 0 leads to the optimum (Rockafellar 1976). With it losses that have corners have
parabolas in their place, so that each step is a problem with a smooth loss, whose primal a few Newton steps solve
(kernel_risk.py, square_steps.py):

    min over w, η   ½‖w‖² + bᵀη + Σ_i L_i(s_i),     s = Zw + p − ρβ̄ + Aᵀη,     θ_i = 1 / (d_i + ρ_i) where L_i is curved

At first ρ_i is such that the parabola of a loss is as wide as p is large, and then less and less: few rows are left to
decide, and the less ρ, the more digits a step gains. Where the Newton steps of several in a row do not end, rounding
leads them in circles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...problem import QP
from ...rows import Rows
from .kernel_risk import KernelRisk
from .limits import FINER, IN_VAIN, ROUNDS
from .line_search import minimum_along
from .roundings import SINGULAR
from .square_steps import affordable, dense, least_squares_step

__all__ = ["Proximal", "proximal_steps"]


@dataclass(frozen=True)
class Proximal:
    """Where a proximal step has led; β is in its box, and holds Aβ = b once its Newton steps have ended."""

    x: np.ndarray
    beta: np.ndarray


def proximal_steps(
    qp: QP, rows: Rows, constant: float, start: np.ndarray, eta: np.ndarray, stop: Callable[[], object]
) -> Iterator[Proximal]:
    """β, and x = (w, weight of a penalised bias, η), after each proximal step; none where steps are dear or endless."""
    ridge = np.zeros(qp.n) if qp.ridge is None else qp.ridge
    wide = qp.upper - qp.lower
    if not affordable(qp.n, rows.d + 1 + len(qp.A)) or not np.isfinite(wide[ridge == 0.0]).all():
        return
    Z = dense(rows.matrix())
    Z = np.column_stack([Z, np.full(qp.n, np.sqrt(constant))]) if constant > 0.0 else Z
    columns, penalty = np.hstack([Z, qp.A.T]), np.repeat([1.0, 0.0], [Z.shape[1], len(qp.A)])
    level = float(np.abs(qp.p).mean()) or 1.0
    rho = np.where((ridge > 0.0) | (wide == 0.0), 0.0, level / np.where(wide > 0.0, wide, 1.0))
    x, beta, least = np.concatenate([start @ Z, eta]), start, SINGULAR * rho
    in_vain = 0
    for _ in range(ROUNDS):
        risk = KernelRisk(qp.p - rho * beta, qp.lower, qp.upper, qp.eps, ridge + rho, qp.A)
        for _ in range(ROUNDS):
            x, found = _newton_step(risk, columns, penalty, qp.b, x)
            if found is not None or stop():
                break
        beta = np.clip(risk.asked(columns @ x + risk.p) if found is None else found, qp.lower, qp.upper)
        yield Proximal(x, beta)
        in_vain = in_vain + 1 if found is None else 0
        if in_vain == IN_VAIN:
            return
        rho = np.maximum(FINER * rho, least)


def _newton_step(
    risk: KernelRisk, columns: np.ndarray, penalty: np.ndarray, b: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """x after a step; and, where no loss changes its shape on the way, the coefficients there."""
    s = columns @ x + risk.p
    beta = risk.asked(s)
    curved = risk.curved(s, beta)
    linear = np.where(curved, 0.0, beta) @ columns
    linear[len(linear) - len(b) :] -= b
    theta = 1.0 / risk.d[curved]
    step = least_squares_step(columns[curved], theta, beta[curved], penalty, x, linear)
    along = columns @ step.delta
    after = risk.asked(s + along)
    whole = step.seen and bool((risk.curved(s + along, after) == curved).all() and (after == beta)[~curved].all())
    if whole:
        beta[curved] = step.beta
        return x + step.delta, beta
    w_delta, bent = float((penalty * x) @ step.delta), float((penalty * step.delta) @ step.delta)
    fixed = w_delta + float(b @ step.delta[len(x) - len(b) :])
    look = risk.along(fixed, bent, s, along)
    return x + minimum_along(look, abs(look(0.0)[0])) * step.delta, None
