"""Screening: most rows of a long linear problem are decided by a w that is nearly right (SLIDES: chunking).

    w, η  <- of a start that is good enough, or by Newton's method on rounded corners (smoothed_newton.py)
    W     <- the rows nearest to their corner, s = 0 (or ±ε): those that may still change their mind
    repeat
        every other row goes to the bound that its s = Zw + p + Aᵀη sends it to, and stays there
        β_W, w, η  <- the solution on W
        W  <- and those outside that are sent elsewhere now
    until there are none, or the gap of the whole is small enough

Rows far from their corner keep their β whatever w does within reason, so they enter only by what they add to w. The
solution on W is that of the whole once they all agree. Any solver of QPs serves for the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._jit import jit
from ...gram import Factored, Gram, Ridged
from ...gram.base import Factor
from ...monitor import Monitor
from ...problem import QP
from ...solution import Solution, Status
from .constraints import Equality
from .limits import TRIES
from .smoothed_newton import approach

__all__ = ["REACH", "Screened", "screen"]

GOOD_START = 0.02  # relative gap: a start with a smaller one tells which rows are undecided
UNDECIDED = 0.99  # of the rows whose β is not where their s sends them are taken into W, the nearest to their corner
REACH = 10.0  # times ρ of rounded corners: rows that are no further from their corner are in W
PART_A_FEATURE = 2  # rows a feature are in W at least, and tell enough, however large the gap of a start is
PART_GAP = 0.5  # of the gap that is asked of the whole is asked of the part W
MORE_ROWS = 3  # times as many rows are taken where W is too few to hold the constraints


@dataclass(frozen=True)
class Screened:
    """β and η of all rows, and how they came about."""

    beta: np.ndarray
    eta: np.ndarray
    status: Status
    steps: int


def screen(
    qp: QP,
    factor: Factor,
    solve: Callable[[QP, float, np.ndarray], Solution],
    tol: float,
    start: np.ndarray | None,
    monitor: Monitor,
    reaching: float = REACH,
) -> Screened:
    """Solve by parts, each by solve(part, relative gap, start); rows within ``reaching`` times ρ are in the first."""
    view = _View(qp, factor)
    steps, reach, sharp = 0, None, PART_GAP * tol
    if start is not None:
        beta = start
        w, H_beta = factor.rows.t_dot(beta), qp.times(beta)
        equality = Equality.of(qp)
        eta = equality.T.T @ equality.multipliers(qp, beta, H_beta)
        view.look(w, eta)
        astray = beta != view.sent
        reach = float(np.quantile(view.distance[astray], UNDECIDED)) if astray.any() else 0.0
        if view.gap(beta) > GOOD_START and (view.distance <= reach).sum() > PART_A_FEATURE * len(w):
            reach = None
    if reach is None:
        smooth = factor.ridge is not None and bool((factor.ridge > 0.0).all())  # then Newton's method goes all the way
        near = approach(qp, factor, PART_GAP * tol, monitor)
        beta, w, eta, steps = near.beta, near.x[: factor.rows.d], near.x[factor.rows.d :], near.steps
        if near.stopped or smooth:
            return Screened(beta, eta, near.stopped or Status.CONVERGED, steps)
        view.look(w, eta)
        reach, sharp = reaching * near.rho, min(sharp, near.gap)  # a part solved less well would send rows back
    most = min(qp.n, max(PART_A_FEATURE * len(w), int((view.distance <= reach).sum())))
    outside = view.distance > np.partition(view.distance, most - 1)[most - 1]
    for attempt in range(TRIES):
        if attempt:
            view.look(w, eta)
            wrong = outside & (view.sent != beta)
            if not wrong.any() or view.gap(beta) <= tol:
                break
            outside &= ~wrong
        W = np.flatnonzero(~outside)
        part, gap, fixed, decided = view.part(W, sharp)
        try:
            solution = solve(part, gap, beta[W])
        except ValueError:  # the rows that are left cannot make up for the others: Aβ = b needs more of them
            if len(W) == qp.n:
                raise
            most = min(qp.n, MORE_ROWS * len(W))
            outside = view.distance > np.partition(view.distance, most - 1)[most - 1]
            continue
        steps += solution.n_iter
        beta = decided
        beta[W] = solution.beta
        w, eta = fixed + part.H.factor().rows.t_dot(solution.beta), solution.multipliers
        if not solution.status.converged:
            return Screened(beta, eta, solution.status, steps)
    return Screened(beta, eta, Status.CONVERGED, steps)


class _View:
    """All rows as a w and an η see them."""

    def __init__(self, qp: QP, factor: Factor) -> None:
        self.qp, self.rows = qp, factor.rows
        self.ridge = np.zeros(qp.n) if factor.ridge is None else factor.ridge
        self.sent, self.distance = np.empty(qp.n), np.empty(qp.n)

    def look(self, w: np.ndarray, eta: np.ndarray) -> None:
        """Where each row is sent to, how far it is from being sent elsewhere, and the primal value."""
        qp = self.qp
        self.w, self.eta = w, eta
        s = self.rows.dot(w)
        s += qp.p
        for row, multiplier in zip(qp.A, eta, strict=True):
            s += multiplier * row
        self.s = s
        losses = send(s, self.ridge, qp.eps, qp.lower, qp.upper, self.sent, self.distance)
        self.primal = 0.5 * w @ w + qp.b @ eta + losses

    def gap(self, beta: np.ndarray) -> float:
        """The relative gap of a β with w = Zᵀβ."""
        qp = self.qp
        dual = -(0.5 * self.w @ self.w + qp.p @ beta + qp.eps @ np.abs(beta) + 0.5 * self.ridge @ beta**2)
        return float((self.primal - dual) / max(abs(self.primal), abs(dual), np.finfo(float).tiny))

    def part(self, W: np.ndarray, tol: float) -> tuple[QP, float, np.ndarray, np.ndarray]:
        """The problem on W, the relative gap that it needs, and what the other rows give: w, and their β."""
        qp, decided = self.qp, self.sent.copy()
        decided[W] = 0.0
        fixed, b = self.rows.t_dot(decided), qp.b - qp.A @ decided
        # The objective of a part may be of any size: what counts is the gap as a share of the whole.
        rest = self.w - fixed
        at = self.sent[W]
        losses = -(self.s[W] * at + qp.eps[W] * np.abs(at) + 0.5 * self.ridge[W] * at**2)
        own = 0.5 * rest @ rest + b @ self.eta + losses.sum()
        gap = min(PART_GAP, tol * abs(self.primal) / max(abs(own), np.finfo(float).tiny))
        Z = self.rows.take(W)
        ridge = self.ridge[W]
        gram: Gram = Ridged(Factored(Z), ridge) if ridge.any() else Factored(Z)
        return QP(gram, qp.p[W] + Z.dot(fixed), qp.lower[W], qp.upper[W], qp.A[:, W], b, qp.eps[W]), gap, fixed, decided


@jit
def send(s, ridge, eps, lower, upper, sent, distance):
    """The bound (or 0) that s sends each row to, how far s is from sending it elsewhere, and the sum of the losses.

    Where β follows s, inside its box, the distance is 0. With a ridge d, the corner at a bound u is where −s = d u.
    """
    losses = 0.0
    for i in range(len(s)):
        pull = max(-s[i] - eps[i], 0.0) + min(-s[i] + eps[i], 0.0)
        d, low, high = ridge[i], lower[i], upper[i]
        at = 0.0
        if pull != 0.0:
            at = pull / d if d > 0.0 else (high if pull > 0.0 else low)
        at = min(max(at, low), high)
        if pull == 0.0:
            distance[i] = eps[i] - abs(s[i])
        elif at == low or at == high:
            distance[i] = abs(pull - d * at) if d > 0.0 else abs(pull)
        else:
            distance[i] = 0.0
        sent[i] = at
        losses -= s[i] * at + eps[i] * abs(at) + 0.5 * d * at * at
    return losses
