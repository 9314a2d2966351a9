"""The problem on some variables under constraints Qβ = c with multipliers η: the minimal primal-dual method's part."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...goal import Goal
from ...monitor import Monitor
from ...problem import QP
from .constraints import Equality
from .fixed_sums import BIG
from .limits import Progress
from .mpd_leaves import DualHessian
from .pair_steps import TINY_CURVATURE, Variables
from .working_sets import Part, WorkingSets, sent_to

__all__ = ["PartWithMultipliers", "PrimalDualProgress", "WithMultipliers", "WorkingSet"]


class PartWithMultipliers(Part):
    """v is −(Hβ + p + Qᵀ(η + ρr)), so that the conditions (iii–v) are v + rise ≤ 0 ≤ v + fall."""

    def __init__(self, run: WithMultipliers, index: np.ndarray) -> None:
        super().__init__(run, index)
        self.Q = np.ascontiguousarray(run.equality.Q[:, index])
        self.set: WorkingSet | None = None

    def pull(self) -> np.ndarray:
        """How much each variable violates the conditions (iii–v)."""
        return np.maximum(np.maximum(self.v + self.rise, -(self.v + self.fall)), 0.0)

    def stuck(self, violation: float) -> np.ndarray:
        """Which variables at a bound are further inside the conditions than any other is outside."""
        return (self.v + self.rise < -violation) & (self.v + self.fall > violation)

    def objective(self, multipliers: np.ndarray) -> float:
        """The objective, up to the constant that the fixed variables add; the multipliers are η + ρr."""
        level = self.Q.T @ multipliers
        return float(0.5 * self.beta @ (self.p - self.v - level) + self.eps @ np.abs(self.beta))

    def first_to_move(self, step: np.ndarray) -> float:
        """Dual steps after which the first variable violates its conditions; the dual function is linear until then."""
        slope = self.Q.T @ step
        room = np.where(slope > 0.0, self.v + self.fall, self.v + self.rise)
        can = (slope != 0.0) & (np.abs(room) < BIG / 2)
        return float((room[can] / slope[can]).min(initial=np.inf)) if can.any() else 0.0


class WorkingSet:
    """A working set as Algorithm 1 needs it: its block of H + ρ QᵀQ and the systems of the dual Hessian."""

    def __init__(self, run: WithMultipliers, part: PartWithMultipliers, W: np.ndarray) -> None:
        self.W = W
        self.slots = run.fetch(W)
        self.Q = np.ascontiguousarray(part.Q[:, W])
        self.H = run.block(part, W, self.slots)
        self.H += run.rho * (self.Q.T @ self.Q)
        self.diag = np.maximum(part.diag[W] + run.rho * (self.Q**2).sum(axis=0), TINY_CURVATURE)
        k, free = len(self.Q), np.ones(len(W))
        if run.options.clamping:
            beta, lower, upper, eps = part.beta[W], part.lower[W], part.upper[W], part.eps[W]
            free[(beta <= lower) | (beta >= upper) | ((beta == 0.0) & (eps > 0.0))] = 0.0
        self.hessian = DualHessian(np.zeros_like(self.Q), self.Q.copy(), free, np.zeros((k, k)))

    def variables(self, part: PartWithMultipliers) -> Variables:
        """The variables as they are now."""
        return part.variables.take(self.W)._replace(diag=self.diag)


class PrimalDualProgress(Progress):
    """Notices, too, when dual steps do not make |Aβ − b| any smaller."""

    def __init__(self, patience: int) -> None:
        super().__init__(patience)
        self.dual_steps = Progress(patience)

    def stalled_at_dual_step(self, lack: float) -> bool:
        """Whether dual steps stall; if not, the augmented Lagrangian starts anew."""
        self.objective, self.waited = np.inf, 0
        return self.dual_steps.stalled(np.inf, lack)


class WithMultipliers(WorkingSets):
    """β, the multipliers η of Qβ = c, r = Qβ − c and v = −(Hβ + p + Qᵀ(η + ρr)), kept in step with each other."""

    def __init__(self, options: Any, qp: QP, goal: Goal, monitor: Monitor) -> None:
        super().__init__(options, qp, goal, monitor)
        self.equality = Equality.of(qp, options.orthogonal)
        self.rho = options.augment * self.unit()
        self.eta = np.zeros(self.equality.count)
        self.r = np.zeros(self.equality.count)

    def unit(self) -> float:
        """What ρ is measured in: the curvature of H, or how fast the slopes change over the boxes, if that is more."""
        width = self.qp.upper - self.qp.lower
        total = float(width.sum())
        slopes = float(np.abs(self.qp.p).max(initial=0.0)) / total if 0.0 < total < np.inf else 0.0
        unit = max(float(np.abs(self.diag).mean()) if len(self.diag) else 0.0, slopes)
        return unit if unit > 0.0 else 1.0

    def begin(self, start: np.ndarray | None) -> None:
        """β in the box, and what belongs to it: η, r and v."""
        qp = self.qp
        self.beta = np.clip(np.zeros(qp.n) if start is None else np.asarray(start, np.float64), qp.lower, qp.upper)
        H_beta = qp.times(self.beta)
        if start is not None:
            self.eta = self.equality.multipliers(qp, self.beta, H_beta)
        self.r = self.equality.residual(self.beta)
        self.v = -(H_beta + qp.p + self.equality.Q.T @ self.multipliers)

    def refresh(self, H_beta: np.ndarray) -> float:
        """The multipliers that suit a feasible β best, v of both, and the largest violation."""
        qp = self.qp
        self.eta = self.equality.multipliers(qp, self.beta, H_beta)
        self.r = np.zeros_like(self.r)
        s = H_beta + qp.p + self.equality.Q.T @ self.eta
        self.v = -s
        return qp.violation(self.beta, s)

    def move_to(self, beta: np.ndarray, H_beta: np.ndarray) -> np.ndarray:
        """Hβ after a move, from Hβ before it."""
        change = beta - self.beta
        self.beta = beta
        moved = np.flatnonzero(change)
        if not len(moved):
            return H_beta
        everywhere = np.arange(self.qp.n)
        return H_beta + self.gram.combine_watched(moved, change[moved], everywhere, self.monitor.look, exact=True)

    def enter(self, index: np.ndarray, known: np.ndarray, before: float, share: float) -> None:
        """Make v known on a sample that grows from ``known``, with a new share of all variables."""
        qp = self.qp
        new = np.setdiff1d(index, known, assume_unique=True)
        level = self.equality.Q[:, new].T @ self.eta
        v = -(qp.p[new] + level) - self.product(self.beta, new)
        self.lower, self.upper = qp.lower / share, qp.upper / share
        self.beta[known] *= before / share
        self.beta[new] = sent_to(v, qp.eps[new], self.lower[new], self.upper[new])
        self.beta = np.clip(self.beta, self.lower, self.upper)
        self.r = self.equality.residual(self.beta)
        self.v[index] = -(qp.p + self.equality.Q.T @ self.multipliers)[index]
        self.v[index] -= self.product(self.beta, index)

    @property
    def multipliers(self) -> np.ndarray:
        """Of the augmented Lagrangian: η + ρr."""
        return self.eta + self.rho * self.r

    def snapshot(self) -> tuple[np.ndarray, ...]:
        return self.beta.copy(), self.multipliers

    def recall(self, gone: np.ndarray, then: tuple[np.ndarray, ...]) -> None:
        beta, multipliers = then
        change = self.product(self.beta - beta, gone)
        self.v[gone] -= change + self.equality.Q[:, gone].T @ (self.multipliers - multipliers)

    def dual_step(self, part: PartWithMultipliers, step: np.ndarray) -> None:
        self.eta += step
        part.v -= part.Q.T @ step
        self.steps += 1
