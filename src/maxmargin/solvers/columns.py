"""Coordinate descent over columns with working sets: the default for the Potential SVM, and for a lasso.

    min ½ βᵀHβ + pᵀβ + Σ ε_j |β_j|     s.t.  lower ≤ β ≤ upper

Few β_j are not 0 at the optimum, and most of these are free: then second-order steps on them are cheap, and what costs
is to find them (working sets: celer, Massias, Gramfort & Salmon 2018).

    repeat
        s  <- Hβ + p                                          one pass over all columns
        W  <- the columns with β_j ≠ 0, and as many again of those that violate most or are nearest to it
        solve the problem on W, with H_WW in memory:
            steps on the coordinate that violates most, until some more columns have come in
            Newton steps on those that are not 0 and free, each on its side of 0
    until the certificate meets the goal

Columns of a smooth kernel are nearly copies of their neighbours. When the one that violates most has moved, its
neighbours are content; sweeps over all coordinates in turn would bring them all in, and Newton steps would have to push
them out again one by one (abalone: 499 columns in place of 29 when the largest violation is 0.8).

Where K is sparse and W has grown larger than its columns are long, W is swept (parts/sparse_columns.py), and its matrix
is not computed.

Two columns that are equal make H_WW singular: a Newton step then has a ridge of its own, which changes its length and
not where it leads, for the next one begins where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dpotrs

from .. import memory
from .._jit import jit
from ..goal import Goal
from ..gram import Gram, Relation, as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, close, spent
from .parts.cholesky import cholesky
from .parts.sparse_columns import SparseColumns, violation

__all__ = ["Columns"]

FIRST = 128  # columns of the first working set, and added at least
GROWTH = 1.0  # columns added for each that is not 0
PASSES = 1000  # over all columns without a limit
INNER = 0.03  # of the largest violation of all is what a working set may keep
FRESH, FRESH_SHARE = 8, 8  # columns, or a share of those used: so many come in between Newton steps
STEPS = 5  # on coordinates for each column that is used or may come in, between Newton steps
ROUNDS = 200  # of steps on coordinates and Newton steps on one working set
STEP_COST = 6  # and as many as cost what a factorisation does: each looks at all columns of the set twice
CHEAP = 256  # columns in use: up to here a factorisation costs less than those steps
NEWTON, NEWTON_OF_MANY = 30, 1  # steps in a row that are cut short by a bound
RIDGE = 1e-13  # of the diagonal, and ten times as much until a factorisation succeeds
ENOUGH = 0.3  # of the decrease up to the first bound that a step beyond it must bring
STALLS = 3  # passes without a smaller objective before rounding is blamed
STALL_DECREASE = 1e-14  # of the objective
# Where all of H takes this many multiply-adds, or is there, and has no more than some FIRST columns, all are in the set
# from the beginning: that takes as long as the overhead of the two or three passes that it saves.
ALL_WORK, ALL_COLUMNS = 1 << 25, 4
LITTLE = 1 << 24  # bytes of a matrix: nobody needs to ask whether there is room for these


@dataclass
class Columns:
    """Working sets of the columns that matter, solved by sweeps and Newton steps."""

    first: int = FIRST  # columns of the first working set
    growth: float = GROWTH  # columns that are added for each that is not 0

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """An iteration is a look at all columns."""
        return 1

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        if not len(qp.A):
            return None
        return (
            f"columns was asked for; found {len(qp.A)} equality constraints, which steps on single coordinates cannot "
            'keep; leave the bias out (fit_intercept=False), or use "decomposition" or "mpd"'
        )

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, moved into the box. Iterations are passes over all columns."""
        objection = self.objection(qp)
        if objection:
            raise ValueError(objection)
        monitor = monitor or Monitor()
        gram = as_gram(qp.H).wide()
        beta = np.clip(np.zeros(qp.n) if start is None else start, qp.lower, qp.upper)
        best: Answer | None = None
        held: _Held | None = getattr(gram, "last_set", None)  # of the ε before, on a path
        sweeper = SparseColumns.of(qp, gram)
        whole = self._small(gram)
        most = goal.max_iter if goal.max_iter > 0 else PASSES
        passes, stalls, value, extra, small = 0, 0, np.inf, 1.0, 1.0
        while True:
            passes += 1
            s = qp.times(beta) + qp.p
            found = answer(qp, goal, beta)
            now = qp.objective(beta, s - qp.p)
            stalls = stalls + 1 if not now < value - STALL_DECREASE * abs(now) else 0
            value = min(value, now)
            if best is None or found.certificate.gap <= best.certificate.gap or goal.met(found.certificate):
                best = found
            d = violations(beta, s, qp.eps, qp.lower, qp.upper)
            worst = float(d.max(initial=0.0))
            stop = monitor.step(
                passes, now, worst, int(np.count_nonzero(beta)), gram.evals, 0.0, found.certificate.primal
            )
            reason: Status | None
            if goal.met(found.certificate):
                reason = Status.CONVERGED
            elif stalls >= STALLS or not worst > 0.0:
                reason = Status.STALLED
            else:
                reason = stop or (spent(goal) if passes >= most else None)
            if reason is not None:
                return close(qp, goal, best, reason, passes, monitor, gram.evals)
            if stalls:  # what is left is in the last digits of what the working set keeps
                small, extra = 0.1 * small, 2.0 * extra
            W = np.arange(qp.n) if whole else self._chosen(qp, beta, s, extra)
            tolerance = small * min(INNER * worst, 0.5 * goal.first_violation if whole else np.inf)
            if sweeper is not None and len(W) > CHEAP and sweeper.suits(W):
                beta, stop = sweeper.solve(beta, W, tolerance, monitor)
            elif 8 * len(W) ** 2 > LITTLE and 8 * len(W) ** 2 > memory.left_for_one():
                stop = Status.EXHAUSTED  # there is no room for the matrix; others read it by rows
            else:
                held = _Held.of(gram, W, held)
                if isinstance(gram, Relation):
                    gram.last_set = held
                part = _Part(held.H, s[W], beta[W], qp.eps[W], qp.lower[W], qp.upper[W])
                stop = part.solve(tolerance, monitor, gram.threads)
                beta = beta.copy()
                beta[W] = part.beta
            if stop is not None:
                found = answer(qp, goal, beta)
                best = found if found.certificate.gap <= best.certificate.gap else best
                return close(qp, goal, best, stop, passes, monitor, gram.evals)

    def _small(self, gram: Gram) -> bool:
        """Whether all columns are one working set."""
        each = 1 if gram.whole() is not None else getattr(gram, "samples", gram.n)
        return gram.n <= ALL_COLUMNS * self.first and gram.n**2 * each <= ALL_WORK

    def _chosen(self, qp: QP, beta: np.ndarray, s: np.ndarray, extra: float) -> np.ndarray:
        """The columns that are used, and those that violate most, or come nearest to it: they may do so in a moment."""
        used = beta != 0.0
        count = int(extra * max(self.first, self.growth * np.count_nonzero(used)))
        near = np.maximum(np.where(beta < qp.upper, -s, -np.inf), np.where(beta > qp.lower, s, -np.inf)) - qp.eps
        near[used] = -np.inf
        if count < qp.n:
            kept = np.argpartition(-near, count - 1)[:count]
            used[kept[near[kept] > -np.inf]] = True
        else:
            used |= near > -np.inf
        return np.flatnonzero(used)


@dataclass(frozen=True)
class _Held:
    """H on a working set."""

    index: np.ndarray  # ascending
    H: np.ndarray

    @classmethod
    def of(cls, gram: Gram, W: np.ndarray, before: _Held | None) -> _Held:
        """The matrix on W; what was known of it before is not computed again."""
        if before is not None and np.array_equal(W, before.index):
            return before
        if before is None or not len(before.index) or not hasattr(gram, "between"):
            return cls(W, gram.block(W))
        at = np.minimum(np.searchsorted(before.index, W), len(before.index) - 1)
        known = before.index[at] == W
        old, new, at = np.flatnonzero(known), np.flatnonzero(~known), at[known]
        H = np.empty((len(W), len(W)))
        H[np.ix_(old, old)] = before.H[np.ix_(at, at)]
        if len(new):
            H[new] = gram.between(W[new], W)
            H[np.ix_(old, new)] = H[np.ix_(new, old)].T
        return cls(W, H)


class _Part:
    """The problem on a working set, with its matrix at hand; s is the slope on the set."""

    def __init__(self, H, s, beta, eps, lower, upper) -> None:
        self.H, self.eps, self.lower, self.upper = H, eps, lower, upper
        self.s, self.beta = s.copy(), beta.copy()

    def solve(self, tolerance: float, monitor: Monitor, threads: int) -> Status | None:
        """Sweeps and Newton steps until no column of the set violates its conditions by more than the tolerance."""
        for _ in range(ROUNDS):
            used = int(np.count_nonzero(self.beta))
            few = used <= CHEAP
            fresh, newtons = (max(FRESH, used // FRESH_SHARE), NEWTON) if few else (used, NEWTON_OF_MANY)
            steps = max(STEPS * (FRESH + used), used**3 // (STEP_COST * len(self.beta)))
            worst = greedy_steps(
                self.H, self.s, self.beta, self.eps, self.lower, self.upper, tolerance, fresh, steps
            )  # fmt: skip
            if not worst > tolerance:
                return None
            stop = monitor.stop_now()
            if stop is not None:
                return stop
            for _ in range(newtons):
                if not self._newton(threads):
                    break
        return None

    def _newton(self, threads: int) -> bool:
        """A step on the free columns, each on its side of 0; whether another one, with fewer, may lead further."""
        F, H, g = free_system(self.H, self.s, self.beta, self.eps, self.lower, self.upper)
        if not len(F):
            return False
        U, ridge, added = None, max(RIDGE * float(H.diagonal().max()), np.finfo(float).tiny), 0.0
        while U is None:
            if not ridge < 1.0:
                return False
            H.flat[:: len(F) + 1] += ridge - added
            U, ridge, added = cholesky(H, threads), 10.0 * ridge, ridge
        step = dpotrs(U, -g)[0]
        return bool(advance(self.H, F, g, step, self.s, self.beta, self.lower, self.upper))


@jit
def violations(beta, s, eps, lower, upper):
    """How fast the objective falls along each coordinate."""
    out = np.empty(len(beta))
    for j in range(len(beta)):
        out[j] = violation(beta[j], s[j], eps[j], lower[j], upper[j])
    return out


@jit
def free_system(H, s, beta, eps, lower, upper):
    """The columns that are free and not 0, H on them, and the slope on their sides of 0."""
    F = np.flatnonzero((beta > lower) & (beta < upper) & (beta != 0.0))
    part, g = np.empty((len(F), len(F))), np.empty(len(F))
    for k in range(len(F)):
        j = F[k]
        g[k] = s[j] + (eps[j] if beta[j] > 0.0 else -eps[j])
        for i in range(len(F)):
            part[k, i] = H[j, F[i]]
    return F, part, g


@jit
def growth(H, F, g, beta, new):
    """By how much the objective grows when the columns F become ``new``."""
    change, total = new - beta[F], 0.0
    for k in range(len(F)):
        if change[k] != 0.0:
            row, inner = H[F[k]], 0.0
            for i in range(len(F)):
                inner += row[F[i]] * change[i]
            total += change[k] * (g[k] + 0.5 * inner)
    return total


@jit
def advance(H, F, g, step, s, beta, lower, upper):
    """The columns F along a step up to their first bound, or beyond it where that is worth it; whether it was cut."""
    count, t = len(F), 1.0
    for k in range(count):
        j = F[k]
        low = max(lower[j], 0.0) if beta[j] > 0.0 else lower[j]
        high = upper[j] if beta[j] > 0.0 else min(upper[j], 0.0)
        if step[k] > 0.0:
            t = min(t, (high - beta[j]) / step[k])
        elif step[k] < 0.0:
            t = min(t, (low - beta[j]) / step[k])
    first, beyond = np.empty(count), np.empty(count)
    for k in range(count):
        j = F[k]
        low = max(lower[j], 0.0) if beta[j] > 0.0 else lower[j]
        high = upper[j] if beta[j] > 0.0 else min(upper[j], 0.0)
        first[k] = min(max(beta[j] + t * step[k], low), high)
        if step[k] > 0.0 and (high - beta[j]) / step[k] <= t:
            first[k] = high
        elif step[k] < 0.0 and (low - beta[j]) / step[k] <= t:
            first[k] = low
        beyond[k] = min(max(beta[j] + step[k], low), high)
    new, more = first, growth(H, F, g, beta, first)
    if t < 1.0:
        further = growth(H, F, g, beta, beyond)
        if further <= ENOUGH * more:
            new, more = beyond, further
    if not more < 0.0:
        return False
    for k in range(count):
        change = new[k] - beta[F[k]]
        if change != 0.0:
            beta[F[k]] = new[k]
            row = H[F[k]]
            for i in range(len(s)):
                s[i] += change * row[i]
    return t < 1.0


@jit
def greedy_steps(H, s, beta, eps, lower, upper, tolerance, fresh, most):
    """Steps on the coordinate that violates most, until ``fresh`` columns have come in or none violates too much.

    Returns the largest violation that is left.
    """
    n = len(beta)
    for _ in range(most):
        j, worst = 0, -1.0
        for k in range(n):
            d = violation(beta[k], s[k], eps[k], lower[k], upper[k])
            if d > worst:
                j, worst = k, d
        if not worst > tolerance or (fresh == 0 and beta[j] == 0.0):
            return worst
        b, q = beta[j], H[j, j]
        u = q * b - s[j]
        u = u - eps[j] if u > eps[j] else (u + eps[j] if u < -eps[j] else 0.0)
        if q > 0.0:
            new = u / q
        else:
            new = b if u == 0.0 else (np.inf if u > 0.0 else -np.inf)
        new = min(max(new, lower[j]), upper[j])
        change = new - b
        if change == 0.0 or abs(change) == np.inf:
            return worst
        if b == 0.0:
            fresh -= 1
        beta[j] = new
        row = H[j]
        for k in range(n):
            s[k] += change * row[k]
    return worst
