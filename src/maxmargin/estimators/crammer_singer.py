"""All classes at once: Crammer & Singer's machine for linear functions, by sweeps over the samples, with a proof.

    min ½ Σ_k ‖w_k‖² + Σ_i c_i max(0, max_{k ≠ y_i} (1 + w_kᵀx_i) − w_{y_i}ᵀx_i)

Its dual has a vector of coefficients for each sample, w_k = Σ_i α_ik x_i:

    min ½ Σ_k ‖w_k‖² + Σ_i Σ_{k ≠ y_i} α_ik     s.t.  Σ_k α_ik = 0,  α_ik ≤ 0 for k ≠ y_i,  α_{i y_i} ≤ c_i

The problem of one sample has a solution in closed form up to a threshold, found after sorting k numbers
(Crammer & Singer 2001; Keerthi et al. 2008, as in LIBLINEAR).

    repeat
        both values from w and α, whose difference is the gap
        on along the way that the last round has made, twice as far each time, while the dual grows
        a round: a sweep over all samples, then ten over those that have moved
    until the gap meets the goal

Sweeps alone crawl where the problem is flat: the second step saves a half to five sixths of them.
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

PASSES = 10  # over the samples that have moved, for one over all
SAME = 1e-12  # of the cost: a coefficient that moves by less has not moved
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
        active, count = np.empty((n, k), np.int32), np.zeros(n, np.int64)
        norms = squared_norms(self.indptr, self.data)
        moved = np.ones(n, np.bool_)
        best: tuple[Certificate, np.ndarray, np.ndarray] | None = None
        best_dual, sweeps = -np.inf, 0
        others: list[np.ndarray] = []  # weights between which those of the sweeps jump to and fro
        before = alpha.copy()  # coefficients at the beginning of the last round
        while True:
            begun = clock()
            W = combined(*rows, alpha, self.width)  # anew: sums of many steps have lost digits
            primal, dual, worst = self._values(W, alpha, rows)
            monitor.reserve(float, clock() - begun)  # the last look takes as long
            best_dual, idle = max(best_dual, dual), float(self.cost.sum())
            found = Certificate(primal, best_dual, max(primal - best_dual, 0.0), worst, 0.0, idle)
            if best is None or found.primal <= best[0].primal:
                best = found, W.copy(), alpha.copy()
            for other in others:
                value = self._primal(other, rows)
                if value < best[0].primal:
                    best = Certificate(value, best_dual, value - best_dual, worst, 0.0, idle), other, alpha.copy()
            shown = best[0]
            shown = Certificate(shown.primal, best_dual, max(shown.primal - best_dual, 0.0), shown.violation, 0.0, idle)
            stop = monitor.step(sweeps, -best_dual, worst, int(moved.sum()), primal=shown.primal)
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
            alpha, W = self._further(alpha, before, W, rows)
            before = alpha.copy()
            state = (alpha, W, moved, active, count)
            self._sweep(rows, norms, rng.permutation(n), True, state, monitor)
            sweeps += 1
            mean, passes = np.zeros_like(alpha), 0
            while passes < PASSES:
                left = np.flatnonzero(moved)
                if not len(left) or monitor.stop_now() is not None:
                    break
                self._sweep(rows, norms, rng.permutation(left), False, state, monitor)
                passes += 1
                mean += (alpha - mean) / passes
            others = [combined(*rows, mean, self.width)] if passes and len(left) else []

    def _sweep(
        self, rows: tuple, norms: np.ndarray, order: np.ndarray, whole: bool, state: tuple, monitor: Monitor
    ) -> None:
        """A sweep over samples, which may end in between: what holds after all of them holds after each."""
        step = max(1, LOOK_WORK * len(self.labels) // max(1, len(self.data) * self.classes))
        for a in range(0, len(order), step):
            if a and monitor.stop_now() is not None:
                return
            sweep(*rows, norms, self.labels, self.cost, order[a : a + step], whole, *state)

    def _further(self, alpha: np.ndarray, before: np.ndarray, W: np.ndarray, rows: tuple) -> Any:
        """The best of α and points further along the way from ``before``, brought inside, with its weights."""
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

    def _values(self, W: np.ndarray, alpha: np.ndarray, rows: tuple) -> tuple[float, float, float]:
        """The primal value of W, the dual one of α, and the largest violation of the conditions of a sample."""
        losses, violations = np.empty(len(self.labels)), np.empty(len(self.labels))
        judge(*rows, self.labels, self.cost, alpha, W, losses, violations)
        primal = 0.5 * _squared(W) + float(self.cost @ losses)
        return primal, self._dual(W, alpha), float(violations.max(initial=0.0))

    def _primal(self, W: np.ndarray, rows: tuple) -> float:
        """The primal value of any weights."""
        return self._values(W, np.zeros((len(self.labels), self.classes)), rows)[0]


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
def sweep(indptr, indices, data, norms, labels, cost, order, whole, alpha, W, moved, active, count):
    """The problem of each sample in turn, to its minimum over its active classes, or over all of them (``whole``).

    ``moved`` tells whose coefficients have changed. A look at all classes makes those active that are at no bound.
    """
    classes = W.shape[1]
    g, new, sorted_ = np.empty(classes), np.empty(classes), np.empty(classes)
    for i in order:
        A, C, label = norms[i], cost[i], labels[i]
        if not A > 0.0:
            moved[i] = False
            continue
        some = active[i]
        if whole:
            count[i] = classes
            for k in range(classes):
                some[k] = k
        c = count[i]
        for q in range(c):
            g[q] = 0.0 if some[q] == label else 1.0
        for at in range(indptr[i], indptr[i + 1]):
            row = W[indices[at]]
            x = data[at]
            if whole:
                for q in range(c):
                    g[q] += x * row[q]
            else:
                for q in range(c):
                    g[q] += x * row[some[q]]
        for q in range(c):
            g[q] -= A * alpha[i, some[q]]  # the slope at α = 0
            sorted_[q] = -(g[q] + (A * C if some[q] == label else 0.0))
        sorted_[:c].sort()  # the largest of g + A c first, with the sign changed
        level = -sorted_[0] - A * C
        r = 1
        while r < c and level < -r * sorted_[r]:
            level -= sorted_[r]
            r += 1
        level /= r
        largest = 0.0
        for q in range(c):
            k = some[q]
            new[q] = min(C if k == label else 0.0, (level - g[q]) / A) - alpha[i, k]
            largest = max(largest, abs(new[q]))
        moved[i] = largest > SAME * C
        if moved[i]:
            for q in range(c):
                alpha[i, some[q]] += new[q]
            for at in range(indptr[i], indptr[i + 1]):
                row = W[indices[at]]
                x = data[at]
                for q in range(c):
                    row[some[q]] += x * new[q]
        if whole:
            c = 0
            for k in range(classes):
                if k == label or alpha[i, k] < 0.0:
                    some[c] = k
                    c += 1
            count[i] = c
            moved[i] &= c > 1
