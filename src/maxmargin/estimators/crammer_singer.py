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
    until the gap meets the goal

Sweeps alone crawl where the problem is flat: the first step saves a half to five sixths of them. Where few classes of
few samples are active, a hundred sweeps over these take as long as one look at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._jit import jit
from ..goal import Goal
from ..monitor import Monitor, clock
from ..solution import Certificate, Status
from ..solvers.parts.limits import LOOK_WORK

__all__ = ["AllClasses", "ClassWeights"]

SAME = 1e-12  # of a margin: a sample whose conditions are violated by less stays as it is
SWEEPS = 100_000  # without a limit


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
        """Weights that meet the goal, or the best ones so far; iterations are sweeps over all samples."""
        n, k = len(self.labels), self.classes
        rng = np.random.default_rng(seed)
        alpha = np.zeros((n, k))
        if start is not None and start.shape == alpha.shape:
            alpha = inside(start, self.labels, self.cost)
        rows = (self.indptr, self.indices, self.data)
        norms = squared_norms(self.indptr, self.data)
        best: tuple[Certificate, np.ndarray, np.ndarray] | None = None
        best_dual, idle, sweeps = -np.inf, float(self.cost.sum()), 0
        before, mean = alpha, None  # at the beginning of the last round, and on average in it
        while True:
            begun = clock()
            alpha, W = self._further(alpha, before, rows)
            primal, dual, violations = self._values(W, alpha, rows)
            monitor.reserve(float, clock() - begun)  # the last look takes as long
            worst, best_dual = float(violations.max(initial=0.0)), max(best_dual, dual)
            found = Certificate(primal, best_dual, max(primal - best_dual, 0.0), worst, 0.0, idle)
            if best is None or found.primal <= best[0].primal:
                best = found, W.copy(), alpha.copy()
            if mean is not None:  # weights between which those of the sweeps jump to and fro
                other = combined(*rows, mean, self.width)
                value = self._values(other, mean, rows)[0]
                if value < best[0].primal:
                    best = Certificate(value, best_dual, value - best_dual, worst, 0.0, idle), other, alpha.copy()
            shown = best[0]
            shown = Certificate(shown.primal, best_dual, max(shown.primal - best_dual, 0.0), shown.violation, 0.0, idle)
            stop = monitor.step(sweeps, -best_dual, worst, int((violations > SAME).sum()), primal=shown.primal)
            if goal.met(shown):
                reason: Status | None = Status.CONVERGED
            elif 0 < goal.max_iter <= sweeps:
                reason = Status.MAX_ITERATIONS
            else:
                reason = Status.EXHAUSTED if sweeps >= SWEEPS else stop
            if reason is not None:
                monitor.end(sweeps, shown, 0)
                status = goal.verdict(shown, reason)
                return ClassWeights(best[1], best[2], shown, status, max(1, sweeps), monitor.history)
            before = alpha.copy()
            mean = self._round(alpha, W, violations > SAME, rows, norms, rng, monitor)
            sweeps += 1

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


# -- leaves ---------------------------------------------------------------------------------------------------------


@jit
def squared_norms(indptr, data):
    """‖x_i‖²."""
    out = np.zeros(len(indptr) - 1)
    for i in range(len(out)):
        for at in range(indptr[i], indptr[i + 1]):
            out[i] += data[at] * data[at]
    return out


@jit
def combined(indptr, indices, data, alpha, width):
    """W = Σ_i x_i α_iᵀ."""
    W = np.zeros((width, alpha.shape[1]))
    for i in range(len(alpha)):
        used = False
        for k in range(alpha.shape[1]):
            used |= alpha[i, k] != 0.0
        if used:
            for at in range(indptr[i], indptr[i + 1]):
                row = W[indices[at]]
                for k in range(alpha.shape[1]):
                    row[k] += data[at] * alpha[i, k]
    return W


@jit
def _slopes(indptr, indices, data, i, label, W, g):
    """g_k = w_kᵀx_i + (1 for other classes)."""
    for k in range(len(g)):
        g[k] = 0.0 if k == label else 1.0
    for at in range(indptr[i], indptr[i + 1]):
        row = W[indices[at]]
        x = data[at]
        for k in range(len(g)):
            g[k] += x * row[k]


@jit
def judge(indptr, indices, data, labels, cost, alpha, W, losses, violations):
    """The loss of each sample, and how far its conditions are violated."""
    classes = W.shape[1]
    g = np.empty(classes)
    for i in range(len(labels)):
        _slopes(indptr, indices, data, i, labels[i], W, g)
        own = g[labels[i]]
        most = own
        least = np.inf  # of those that may grow
        for k in range(classes):
            most = max(most, g[k])
            if alpha[i, k] < (cost[i] if k == labels[i] else 0.0):
                least = min(least, g[k])
        losses[i] = most - own
        violations[i] = max(0.0, most - least) if least < np.inf else 0.0


@jit
def sweep(indptr, indices, data, norms, labels, cost, order, turn, alpha, W, late, moved, active, count):
    """The problem of each sample in turn, to its minimum over its active classes, or over all of them if ``turn`` < 0.

    ``moved`` tells whose conditions were violated. A look at all classes makes those active that are at no bound.
    ``late`` adds up the steps of each turn times its number.
    """
    classes, whole = W.shape[1], turn < 0
    g, top = np.empty(classes), np.empty(classes)
    for i in order:
        A, C, label, some = norms[i], cost[i], labels[i], active[i]
        if whole:
            count[i] = classes
            for k in range(classes):
                some[k] = k
            _slopes(indptr, indices, data, i, label, W, g)
        c = count[i]
        if not whole:
            for q in range(c):
                k = some[q]
                slope = 0.0 if k == label else 1.0
                for at in range(indptr[i], indptr[i + 1]):
                    slope += data[at] * W[indices[at], k]
                g[q] = slope
        most, least = -np.inf, np.inf
        for q in range(c):
            k = some[q]
            bound = C if k == label else 0.0
            most = max(most, g[q])
            if alpha[i, k] < bound:
                least = min(least, g[q])
            g[q] -= A * alpha[i, k]  # the slope at α = 0
            top[q] = g[q] + A * bound
        moved[i] = A > 0.0 and most - least > SAME
        if moved[i]:
            level = _level(top, c, A * C)
            for q in range(c):
                k = some[q]
                top[q] = min(C if k == label else 0.0, (level - g[q]) / A) - alpha[i, k]
                alpha[i, k] += top[q]
                if turn > 0:
                    late[i, k] += turn * top[q]
            for q in range(c):
                change, k = top[q], some[q]
                if change != 0.0:
                    for at in range(indptr[i], indptr[i + 1]):
                        W[indices[at], k] += data[at] * change
        if whole:
            c = 0
            for k in range(classes):
                if k == label or alpha[i, k] < 0.0:
                    some[c] = k
                    c += 1
            count[i] = c
            moved[i] &= c > 1


@jit
def _level(top, c, room):
    """The level above which the first c numbers have ``room`` together; what is not above it is dropped on the way."""
    while True:
        total = -room
        for q in range(c):
            total += top[q]
        level = total / c
        kept = 0
        for q in range(c):
            if top[q] > level:
                top[kept] = top[q]
                kept += 1
        if kept == c or kept == 0:
            return level
        c = kept
