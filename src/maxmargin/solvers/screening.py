"""Screening: most rows of a long linear problem are decided by a w that is nearly right (SLIDES: chunking).

    w, η  <- of a start that is good enough, or by Newton's method on rounded corners (rounding.py)
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

from ..gram import Factored, Gram, Ridged
from ..gram.base import Factor
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .equality import Equality
from .rounding import approach

__all__ = ["Screened", "screen"]

GOOD_START = 0.02  # relative gap of a start that tells which rows are undecided
UNDECIDED = 0.99  # of the rows whose β is not where their s sends them are nearer to their corner than W reaches
REACH = 10.0  # times ρ of rounded corners, how far from its corner a row is in W
LEAST_A_FEATURE = 2  # rows of W
TIGHTER = 0.5  # of the gap that is asked of the whole is asked of W
MORE = 3  # times as many rows, where W is too few to hold the constraints
ROUNDS = 12


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
) -> Screened:
    """Solve by parts, each by solve(part, relative gap, start)."""
    view = _View(qp, factor)
    steps, reach = 0, None
    if start is not None:
        beta = start
        w, H_beta = factor.rows.t_dot(beta), qp.times(beta)
        equality = Equality.of(qp)
        eta = equality.T.T @ equality.multipliers(qp, beta, H_beta)
        view.look(w, eta)
        if view.gap(beta) <= GOOD_START:
            astray = beta != view.sent
            reach = float(np.quantile(view.distance[astray], UNDECIDED)) if astray.any() else 0.0
    if reach is None:
        smooth = factor.ridge is not None and bool((factor.ridge > 0.0).all())  # then Newton's method goes all the way
        near = approach(qp, factor, TIGHTER * tol if smooth else 0.0, monitor)
        beta, w, eta, steps = near.beta, near.x[: factor.rows.d], near.x[factor.rows.d :], near.steps
        view.look(w, eta)
        if near.stopped or smooth:
            return Screened(beta, eta, near.stopped or Status.CONVERGED, steps)
        reach = REACH * near.rho
    most = min(qp.n, max(LEAST_A_FEATURE * len(w), int((view.distance <= reach).sum())))
    outside = view.distance > np.partition(view.distance, most - 1)[most - 1]
    for attempt in range(ROUNDS):
        if attempt:
            view.look(w, eta)
            wrong = outside & (view.sent != beta)
            if not wrong.any() or view.gap(beta) <= tol:
                break
            outside &= ~wrong
        W = np.flatnonzero(~outside)
        part, gap, fixed, decided = view.part(W, TIGHTER * tol)
        try:
            solution = solve(part, gap, beta[W])
        except ValueError:  # the rows that are left cannot make up for the others: Aβ = b needs more of them
            if len(W) == qp.n:
                raise
            most = min(qp.n, MORE * len(W))
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

    def look(self, w: np.ndarray, eta: np.ndarray) -> None:
        """Where each row is sent to, how far it is from being sent elsewhere, and the primal value."""
        qp = self.qp
        self.w, self.eta = w, eta
        self.s = self.rows.dot(w) + qp.p + qp.A.T @ eta
        self.sent, self.distance = _sent(qp, self.ridge, self.s)
        self.losses = -(self.s * self.sent + qp.eps * np.abs(self.sent) + 0.5 * self.ridge * self.sent**2)
        self.primal = 0.5 * w @ w + qp.b @ eta + self.losses.sum()

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
        own = 0.5 * rest @ rest + b @ self.eta + self.losses[W].sum()
        gap = tol * abs(self.primal) / max(abs(own), np.finfo(float).tiny)
        Z = self.rows.take(W)
        ridge = self.ridge[W]
        gram: Gram = Ridged(Factored(Z), ridge) if ridge.any() else Factored(Z)
        return QP(gram, qp.p[W] + Z.dot(fixed), qp.lower[W], qp.upper[W], qp.A[:, W], b, qp.eps[W]), gap, fixed, decided


def _sent(qp: QP, ridge: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bound (or 0) that s sends each row to, and how far s is from sending it elsewhere: 0 if that is no bound."""
    pull = np.sign(-s) * np.maximum(np.abs(s) - qp.eps, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sent = np.clip(np.where(pull == 0.0, 0.0, pull / ridge), qp.lower, qp.upper)
    to_bound = (pull != 0.0) & ((sent == qp.lower) | (sent == qp.upper))
    with np.errstate(invalid="ignore"):
        beyond = np.abs(pull - ridge * sent)  # with a ridge, the corner at a bound u is where −s = d u
    distance = np.where(to_bound, beyond, np.where(pull == 0.0, qp.eps - np.abs(s), 0.0))
    return sent, distance
