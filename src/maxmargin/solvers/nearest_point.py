"""The nearest point algorithm: a squared-hinge SVM as the distance between two convex hulls (SLIDES; Keerthi et al.).

    min ½ βᵀHβ − c yᵀβ   s.t.  y_i β_i ≥ 0,  Σ β_i = 0        (H = K + diag(1 / 2C): the classes are separable in it)

Write β = t μ with Σ |μ_i| = 1 in each class. Then t = 2c / μᵀHμ is best, the objective is −2c² / μᵀHμ, and μ minimises

    ‖u − v‖² = μᵀHμ      u in the convex hull of the positive, v in that of the negative points.

Without the constraint there is one hull, that of the points y_i φ(x_i), and its distance to the origin: t = c / μᵀHμ.

    repeat
        in each hull     i <- the point that lies furthest towards the other hull      min f,  f_i = y_i (Hμ)_i
                         j <- the point with weight that lies furthest from it        max f over λ_i > 0
        stop if t (f_j − f_i) < tol in both
        in the worse hull, move to the nearest point of the triangle with the corners
            z                          where we are
            z + (x_i − u)              all weight on i            Gilbert
            z + λ_j (x_i − x_j)        the weight of j on i       Mitchell, Demyanov, Malozemov

| Keerthi et al.        | here                                     |
| --------------------- | ---------------------------------------- |
| z = u − v             | Hμ = g₊ + g₋, a product for each hull    |
| g_P(−z)               | the spread between f at i and the mean   |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._jit import jit
from ..goal import Goal
from ..gram import Gram, PrecomputedGram, RowCache, as_gram, cache_bytes, once_more
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, heed, spent
from .parts.constraints import Equality
from .parts.limits import EACH_SIDE, NEAR, WIDE_BELOW, Aim, most_steps
from .parts.newton_finish import NEWTON_WORK, newton_due, newton_finish
from .parts.roundings import ROUNDED_SUM
from .parts.working_sets import Sizes

__all__ = ["NearestPoint"]


@dataclass
class NearestPoint:
    """Gilbert and MDM steps, whichever triangle leads further."""

    newton: bool = True  # solve for the free variables at the end, where that is cheap
    cache_size: float | str = "auto"  # megabytes for kernel rows
    sizes: Sizes = Sizes()  # variables up to which the matrix is made whole, rows that are made together

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        sign = np.where(qp.p < 0, 1.0, -1.0)
        sided = np.where(sign > 0, (qp.lower == 0) & np.isposinf(qp.upper), (qp.upper == 0) & np.isneginf(qp.lower))
        shaped = len(qp.p) > 0 and np.abs(qp.p).min() > 0 and np.ptp(np.abs(qp.p)) <= 1e-12 * np.abs(qp.p).max()
        free = len(qp.A) == 0 or (len(qp.A) == 1 and np.ptp(qp.A) == 0.0 and qp.A[0, 0] != 0.0 and not qp.b.any())
        if bool(sided.all()) and shaped and free and not qp.eps.any():
            return None
        return (
            "nearest-point was asked for; found a problem that is no squared-hinge classification with a free bias or "
            'none; use "mpd" or "interior-point", which take any, or loss="squared_hinge"'
        )

    @once_more
    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, whose weights in each class are made to add up to one.

        Iterations are steps; without a limit 100 a variable and at least ten million.
        """
        heed(self.objection(qp))
        run = _Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, run.gram.evals)


class _Run:
    """One call of the solver: the state that its steps share."""

    def __init__(self, options: NearestPoint, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options = options
        self.qp = qp
        self.goal = goal
        self.monitor = monitor
        self.gram: Gram = as_gram(qp.H)
        if goal.first_violation < WIDE_BELOW:
            self.gram = self.gram.wide()
        if qp.n <= options.sizes.matrix:
            self.gram = PrecomputedGram(self.gram.block(np.arange(qp.n)), cost=self.gram.cost)
        self.diag = self.gram.diag()
        self.equality = Equality.of(qp)
        self.y = np.where(qp.p < 0, 1.0, -1.0)
        self.hull = (self.y < 0).astype(np.int64) if len(qp.A) else np.zeros(qp.n, np.int64)
        self.hulls = 1 + len(qp.A)
        self.c = float(np.abs(qp.p[0]))
        self.cache = RowCache(self.gram, cache_bytes(options.cache_size), min(qp.n, 2 * options.sizes.block))
        self.weight = np.zeros(qp.n)  # λ
        self.g = np.zeros((self.hulls, qp.n))
        self.steps = self.iteration = 0
        self.most_steps = most_steps(goal, qp.n)

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        qp, goal = self.qp, self.goal
        if len(np.unique(self.hull)) < self.hulls:  # one class: no coefficient can move
            return answer(qp, goal, np.zeros(qp.n)), Status.CONVERGED
        self._begin(np.zeros(qp.n) if start is None else np.asarray(start, np.float64))
        aim = Aim(goal.first_violation)
        best: Answer | None = None
        for accuracy in aim.tries():
            status = self._approach(EACH_SIDE * accuracy)
            near = status in NEAR
            found = answer(qp, goal, self._beta())
            if near and self.options.newton and not goal.met(found.certificate):
                v = -(qp.times(found.beta) + qp.p)
                most, asked_to = max(1, NEWTON_WORK // qp.n), self.monitor.stop_now
                moved = newton_finish(self.gram, qp, self.equality, found.beta, v, most, asked_to)
                other = found if moved is None else answer(qp, goal, moved)
                found = other if other.certificate.violation < found.certificate.violation else found
            best = better(goal, best, found)
            stop = self._record(-found.certificate.dual, found.certificate.violation)
            if goal.met(best.certificate) or not near or stop:
                return best, stop or status
            if status.converged:
                aim.finer()
            self._begin(found.beta)
        assert best is not None
        return best, Status.STALLED

    def _begin(self, beta: np.ndarray) -> None:
        """Weights that add up to one in each hull, and their products."""
        weight = np.maximum(self.y * beta, 0.0)
        for h in range(self.hulls):
            inside = self.hull == h
            total = weight[inside].sum()
            if total > 0.0:
                weight[inside] /= total
            else:
                weight[np.flatnonzero(inside)[0]] = 1.0
        self.weight = weight
        for h in range(self.hulls):
            self.g[h] = self.gram.matvec(np.where(self.hull == h, self.y * weight, 0.0))

    def _beta(self) -> np.ndarray:
        """β of the weights as they are, in each class brought to the same sum exactly."""
        weight = np.where(self.weight > ROUNDED_SUM, self.weight, 0.0)
        weight /= np.bincount(self.hull, weight)[self.hull]
        distance = float((self.y * weight) @ self.g.sum(axis=0))
        scale = self.hulls * self.c / distance if distance > 0.0 else 0.0
        return self.equality.feasible(scale * self.y * weight, self.qp.lower, self.qp.upper, self.qp.eps)

    def _record(self, objective: float, violation: float) -> Status | None:
        self.iteration += 1
        active = int(np.count_nonzero(self.weight))
        self.monitor.reserve(as_gram(self.qp.H).seconds, self.weight)
        return self.monitor.step(self.iteration, objective, violation, active, self.gram.evals, self.cache.hit_rate)

    def _approach(self, tol: float) -> Status:
        """Steps until t times the spread of f is below tol in both hulls."""
        n = self.qp.n
        size = float(self.diag.max())
        begun, most = self.steps, 0  # a look at the clock comes first
        while True:
            steps, spread, distance, missing = triangle_steps(
                self.cache.slab, self.cache.slot, self.diag, self.y, self.hull, self.weight, self.g,
                self.hulls * self.c, tol, ROUNDED_SUM * size, most,
            )  # fmt: skip
            self.steps += steps
            objective = -0.5 * (self.hulls * self.c) ** 2 / max(distance, ROUNDED_SUM * size)
            stop = self._record(objective, spread)
            if distance <= ROUNDED_SUM * size:
                return Status.UNBOUNDED
            if spread < tol:
                return Status.CONVERGED
            if stop:
                return stop
            if self.steps >= self.most_steps:
                return spent(self.goal)
            if self.options.newton and newton_due(self.steps - begun, n):
                return Status.STALLED
            if missing >= 0:
                self._fetch(missing)
            most = min(self.most_steps - self.steps, max(100, self.options.sizes.call // n))

    def _fetch(self, missing: int) -> None:
        """The missing row and others that will be next: those of points towards the other hull."""
        f = np.where(self.cache.slot < 0, self.y * self.g.sum(axis=0), np.inf)
        count = min(self.options.sizes.block, self.cache.capacity // 2, self.qp.n)
        others = np.argpartition(f, count - 1)[:count] if count < self.qp.n else np.arange(self.qp.n)
        others = others[np.isfinite(f[others])]
        self.cache.fetch(np.unique(np.append(others[: count - 1], missing)))


@jit
def triangle_steps(slab, slot, diag, y, hull, weight, g, total, tol, touching, most):
    """Steps until t (f_j − f_i) < tol in each hull, a row is missing, the hulls touch, or ``most`` steps were made.

    Returns steps, the larger spread times t, μᵀHμ, and the missing row or −1.
    """
    n = len(y)
    hulls = len(g)
    low = np.empty(hulls)
    high = np.empty(hulls)
    first = np.empty(hulls, np.int64)
    last = np.empty(hulls, np.int64)
    steps = 0
    while True:
        low[:] = np.inf
        high[:] = -np.inf
        distance = 0.0
        for s in range(n):
            h = hull[s]
            f = g[0, s] if hulls == 1 else g[0, s] + g[1, s]
            f *= y[s]
            if f < low[h]:
                low[h] = f
                first[h] = s
            if weight[s] > 0.0:
                distance += weight[s] * f
                if f > high[h]:
                    high[h] = f
                    last[h] = s
        t = total / max(distance, touching)
        h = 0
        if hulls == 2 and high[1] - low[1] > high[0] - low[0]:
            h = 1
        spread = t * (high[h] - low[h])
        if spread < tol or distance <= touching or steps >= most:
            return steps, spread, distance, -1
        i = first[h]
        j = last[h]
        if slot[i] < 0:
            return steps, spread, distance, i
        if slot[j] < 0:
            return steps, spread, distance, j
        row_i = slab[slot[i]]
        row_j = slab[slot[j]]
        # Inner products of z, of d = x_i − u (Gilbert) and of e = λ_j (x_i − x_j) (MDM), signs taken out
        u_f = 0.0  # ⟨u, z⟩
        uu = 0.0
        for s in range(n):
            if weight[s] > 0.0 and hull[s] == h:
                f = g[0, s] if hulls == 1 else g[0, s] + g[1, s]
                u_f += weight[s] * y[s] * f
                uu += weight[s] * y[s] * g[h, s]
        ui = y[i] * g[h, i]
        uj = y[j] * g[h, j]
        ij = y[i] * y[j] * row_i[j]
        share = weight[j]
        zd = low[h] - u_f
        ze = share * (low[h] - high[h])
        dd = diag[i] - 2.0 * ui + uu
        de = share * (diag[i] - ij - ui + uj)
        ee = share * share * (diag[i] - 2.0 * ij + diag[j])
        a, c = _nearest_in_triangle(zd, ze, dd, de, ee)
        for s in range(n):
            g[h, s] += a * (y[i] * row_i[s] - g[h, s]) + c * share * (y[i] * row_i[s] - y[j] * row_j[s])
            if hull[s] == h:
                weight[s] *= 1.0 - a
        weight[i] += a + c * share
        weight[j] = 0.0 if a + c >= 1.0 else max(0.0, weight[j] - c * share)
        steps += 1


@jit
def _nearest_in_triangle(zd, ze, dd, de, ee):
    """(a, c) in a, c ≥ 0, a + c ≤ 1 that minimises ‖z + a d + c e‖²."""
    best_a = 0.0
    best_c = 0.0
    best = 0.0
    det = dd * ee - de * de
    if det > 1e-14 * dd * ee:
        a = (ze * de - zd * ee) / det
        c = (zd * de - ze * dd) / det
        if a >= 0.0 and c >= 0.0 and a + c <= 1.0:
            return a, c
    for side in range(3):
        # along d, along e, or from d to e
        if side == 0:
            a0, c0, slope, curve = 0.0, 0.0, zd, dd
        elif side == 1:
            a0, c0, slope, curve = 0.0, 0.0, ze, ee
        else:
            a0, c0, slope, curve = 1.0, 0.0, ze - zd + de - dd, dd - 2.0 * de + ee
        x = 0.0
        if slope < 0.0:
            x = 1.0 if -slope >= curve else -slope / curve
        a = a0 - x if side == 2 else (x if side == 0 else 0.0)
        c = c0 + x if side > 0 else 0.0
        value = a * zd + c * ze + 0.5 * (a * a * dd + c * c * ee) + a * c * de
        if value < best:
            best, best_a, best_c = value, a, c
    return best_a, best_c
