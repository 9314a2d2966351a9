"""All classes at once: Crammer & Singer's machine for linear functions, by sweeps over the samples, with a proof.

    min ½ Σ_k ‖w_k‖² + Σ_i c_i max(0, max_{k ≠ y_i} (1 + w_kᵀx_i) − w_{y_i}ᵀx_i)

Its dual has a vector of coefficients for each sample, w_k = Σ_i α_ik x_i:

    min ½ Σ_k ‖w_k‖² + Σ_i Σ_{k ≠ y_i} α_ik     s.t.  Σ_k α_ik = 0,  α_ik ≤ 0 for k ≠ y_i,  α_{i y_i} ≤ c_i

The problem of one sample has a solution in closed form up to a threshold, found after sorting k numbers
(Crammer & Singer 2001; Keerthi et al. 2008, as in LIBLINEAR).

    repeat
        on along the way that the last round has made, twice as far each time, while the dual grows
        both values from w and α, whose difference is the gap
        a round: a sweep over the samples that violate their conditions, then sweeps over their active classes only,
        until these have had as many classes of samples as there are
        once rounds have taken the time that an interior method will take: that, from the start (interior_classes.py)
    until the gap meets the goal

Sweeps alone crawl where the problem is flat: the first step saves a half to five sixths of them. Where few classes of
few samples are active, a hundred sweeps over these take as long as one look at all. Where C is large or features differ
in size, sweeps do not get there in any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..goal import Goal
from ..monitor import Monitor, Stopped, clock
from ..solution import Certificate, Status
from ..solvers.parts.limits import LOOK_WORK
from .class_leaves import SAME, combined, judge, squared_norms, sweep
from .interior_classes import InteriorClasses, price

__all__ = ["AllClasses", "ClassWeights"]

SWEEPS = 100_000  # without a limit
# Operations in blocks, of which the interior method's price is made, in the time of a round (measured, too):
ROUND_OVERHEAD = 2.5e6  # its calls, however small the problem is,
ROUND_WORK = 150.0  # and an entry of a row and a class, which a round reads some five times


@dataclass(frozen=True)
class ClassWeights:
    """Weights of all classes with their proof."""

    W: np.ndarray  # (features, classes)
    alpha: np.ndarray  # (samples, classes)
    certificate: Certificate
    status: Status
    n_iter: int
    history: object


@dataclass
class AllClasses:
    """The problem: rows as CSR arrays, the number of each sample's class, its cost."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    width: int
    labels: np.ndarray
    cost: np.ndarray
    classes: int

    def solve(self, goal: Goal, monitor: Monitor, start: np.ndarray | None = None, seed: int = 0) -> ClassWeights:
        """Weights that meet the goal, or the best ones so far; iterations are rounds or interior steps."""
        rng = np.random.default_rng(seed)
        alpha = np.zeros((len(self.labels), self.classes))
        if start is not None and start.shape == alpha.shape:
            alpha = inside(start, self.labels, self.cost)
        rows = (self.indptr, self.indices, self.data)
        norms = squared_norms(self.indptr, self.data)
        known = _Known(self, goal, monitor)
        before, mean = alpha, None  # at the beginning of the last round, and on average in it
        dearer = price(len(self.labels), self.width, self.classes)
        dearer /= ROUND_OVERHEAD + ROUND_WORK * len(self.data) * self.classes  # rounds that take as long
        while True:
            begun = clock()
            alpha, W = self._further(alpha, before, rows)
            violations = known.note(alpha, W)
            monitor.reserve(float, clock() - begun)  # the last look takes as long
            if mean is not None:  # weights between which those of the sweeps jump to and fro
                known.weigh(combined(*rows, mean, self.width), alpha)
            if known.judged(violations) is not None:
                return known.end()
            if known.steps >= dearer:
                dearer = np.inf
                better = self._interior(known, rows)
                if known.reason is not None:
                    return known.end()
                if better is not None:
                    alpha, W = better, combined(*rows, better, self.width)
                    violations = self._values(W, alpha, rows)[2]
            before = alpha.copy()
            mean = self._round(alpha, W, violations > SAME, rows, norms, rng, monitor)
            known.steps += 1

    def _interior(self, known: _Known, rows: tuple) -> np.ndarray | None:
        """Steps of the interior method until the goal is met or they stall; α of a dual value above all before."""
        better, monitor = None, known.monitor
        try:
            monitor.look()
            X = sp.csr_array((self.data, self.indices, self.indptr), (len(self.labels), self.width)).toarray()
            for point in InteriorClasses(X, self.labels, self.cost, self.classes, monitor.look).points():
                known.steps += 1
                alpha, before = inside(point.alpha, self.labels, self.cost), known.dual
                violations = known.note(alpha, combined(*rows, alpha, self.width))
                known.weigh(point.W, alpha)
                better = alpha if known.dual > before else better
                if known.judged(violations) is not None:
                    break
        except Stopped as stopped:
            known.reason = stopped.reason
        return better

    def _round(
        self,
        alpha: np.ndarray,
        W: np.ndarray,
        moved: np.ndarray,
        rows: tuple,
        norms: np.ndarray,
        rng: np.random.Generator,
        monitor: Monitor,
    ) -> np.ndarray | None:
        """A sweep over the samples ``moved``, then over their active classes; coefficients on average over the latter.

        A step of sweep t of T is missing in t of these, t = 0, 1, …: the average is α − Σ t · step / T.
        """
        count, late = np.zeros(len(alpha), np.int64), np.zeros_like(alpha)
        state = (alpha, W, late, moved, np.empty(alpha.shape, np.int32), count)
        self._sweep(rows, norms, rng.permutation(np.flatnonzero(moved)), -1, state, monitor)
        passes, work = 0, 0
        while work < alpha.size:
            left = np.flatnonzero(moved)
            if not len(left) or monitor.stop_now() is not None:
                break
            self._sweep(rows, norms, rng.permutation(left), passes, state, monitor)
            passes += 1
            work += int(count[left].sum())
        return alpha - late / passes if passes else None

    def _sweep(
        self, rows: tuple, norms: np.ndarray, order: np.ndarray, turn: int, state: tuple, monitor: Monitor
    ) -> None:
        """A sweep over samples, which may end in between: what holds after all of them holds after each."""
        step = max(1, LOOK_WORK * len(self.labels) // max(1, len(self.data) * self.classes))
        for a in range(0, len(order), step):
            if a and monitor.stop_now() is not None:
                return
            sweep(*rows, norms, self.labels, self.cost, order[a : a + step], turn, *state)

    def _further(self, alpha: np.ndarray, before: np.ndarray, rows: tuple) -> Any:
        """The best of α and points further along the way from ``before``, brought inside, with its weights."""
        alpha = inside(alpha, self.labels, self.cost)  # steps are divided by ‖x‖²: of 1e-12 they miss sums by 1e-4
        W = combined(*rows, alpha, self.width)  # anew: sums of many steps have lost digits
        way, length, value, best = alpha - before, 1.0, self._dual(W, alpha), (alpha, W)
        while way.any():
            point = inside(alpha + length * way, self.labels, self.cost)
            its = combined(*rows, point, self.width)
            new = self._dual(its, point)
            if not new > value:
                break
            best, value, length = (point, its), new, 2.0 * length
        return best

    def _dual(self, W: np.ndarray, alpha: np.ndarray) -> float:
        """The dual value of α, whose weights are W."""
        linear = float(alpha.sum() - alpha[np.arange(len(alpha)), self.labels].sum())
        return -0.5 * _squared(W) - linear

    def _values(self, W: np.ndarray, alpha: np.ndarray, rows: tuple) -> tuple[float, float, np.ndarray]:
        """The primal value of W, the dual one of α, and how far the conditions of each sample are violated."""
        losses, violations = np.empty(len(self.labels)), np.empty(len(self.labels))
        judge(*rows, self.labels, self.cost, alpha, W, losses, violations)
        primal = 0.5 * _squared(W) + float(self.cost @ losses)
        return primal, self._dual(W, alpha), violations


class _Known:
    """The best weights and the best dual value so far, and whether they are enough."""

    def __init__(self, problem: AllClasses, goal: Goal, monitor: Monitor) -> None:
        self.problem, self.goal, self.monitor = problem, goal, monitor
        self.rows = (problem.indptr, problem.indices, problem.data)
        self.idle, self.steps = float(problem.cost.sum()), 0
        self.primal, self.dual, self.worst, self.violation = np.inf, -np.inf, np.inf, np.inf
        self.best: tuple[np.ndarray, np.ndarray] | None = None
        self.reason: Status | None = None

    def note(self, alpha: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Take note of feasible α with its weights; violations of each sample."""
        primal, dual, violations = self.problem._values(W, alpha, self.rows)
        self.dual, self.worst = max(self.dual, dual), float(violations.max(initial=0.0))
        if self.best is None or primal <= self.primal:
            self._keep(primal, W.copy(), alpha)
        return violations

    def weigh(self, W: np.ndarray, alpha: np.ndarray) -> None:
        """Take note of weights that are not those of the α at hand."""
        primal = self.problem._values(W, alpha, self.rows)[0]
        if primal < self.primal:
            self._keep(primal, W, alpha)

    def _keep(self, primal: float, W: np.ndarray, alpha: np.ndarray) -> None:
        self.primal, self.violation, self.best = primal, self.worst, (W, alpha.copy())

    @property
    def certificate(self) -> Certificate:
        gap = max(self.primal - self.dual, 0.0)
        return Certificate(self.primal, self.dual, gap, self.violation, 0.0, self.idle)

    def judged(self, violations: np.ndarray) -> Status | None:
        """Record a step; the reason to stop, if there is one."""
        active = int((violations > SAME).sum())
        stop = self.monitor.step(self.steps, -self.dual, self.worst, active, primal=self.primal)
        if self.goal.met(self.certificate):
            self.reason = Status.CONVERGED
        elif 0 < self.goal.max_iter <= self.steps:
            self.reason = Status.MAX_ITERATIONS
        else:
            self.reason = Status.EXHAUSTED if self.steps >= SWEEPS else stop
        return self.reason

    def end(self) -> ClassWeights:
        assert self.best is not None and self.reason is not None
        self.monitor.end(self.steps, self.certificate, 0)
        status = self.goal.verdict(self.certificate, self.reason)
        return ClassWeights(*self.best, self.certificate, status, max(1, self.steps), self.monitor.history)


def _squared(W: np.ndarray) -> float:
    """‖W‖², without another array of its size."""
    return float(np.einsum("ij,ij->", W, W))


def inside(alpha: np.ndarray, labels: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Coefficients that hold the constraints: others at most 0, of a sum that its own class has room for."""
    out = np.minimum(alpha, 0.0)
    own = np.arange(len(labels))
    out[own, labels] = 0.0
    total = -out.sum(axis=1)
    out *= np.where(total > cost, cost / np.where(total > 0.0, total, 1.0), 1.0)[:, None]
    out[own, labels] = -out.sum(axis=1)
    return out
