"""A working set of columns: its part of H, and the problem on it, solved by steps on coordinates and Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs

from ..._jit import jit
from ...gram import Gram
from ...monitor import Monitor
from ...solution import Status
from .cholesky import cholesky
from .coordinate_violations import violation
from .limits import NEWTON_STEPS

__all__ = ["Held", "Part"]

FRESH, FRESH_SHARE = 8, 8  # columns, or a share of those used: so many come in between Newton steps
STEPS = 5  # on coordinates for each column that is used or may come in, between Newton steps
STEP_COST = 6  # and as many as cost what a factorisation does: each looks at all columns of the set twice
NEWTON, NEWTON_OF_MANY = 30, 1  # steps in a row that are cut short by a bound
RIDGE = 1e-13  # of the diagonal, and ten times as much until a factorisation succeeds
ENOUGH = 0.3  # of the decrease up to the first bound that a step beyond it must bring


@dataclass(frozen=True)
class Held:
    """H on a working set."""

    index: np.ndarray  # ascending
    H: np.ndarray

    @classmethod
    def of(cls, gram: Gram, W: np.ndarray, before: Held | None) -> Held:
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


class Part:
    """The problem on a working set, with its matrix at hand; s is the slope on the set."""

    cheap = 256  # columns in use: up to here a factorisation costs less than steps on coordinates

    def __init__(
        self, H: np.ndarray, s: np.ndarray, beta: np.ndarray, eps: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        self.H, self.eps, self.lower, self.upper = H, eps, lower, upper
        self.s, self.beta = s.copy(), beta.copy()

    def solve(self, tolerance: float, monitor: Monitor, threads: int) -> Status | None:
        """Sweeps and Newton steps until no column of the set violates its conditions by more than the tolerance."""
        for _ in range(NEWTON_STEPS):
            used = int(np.count_nonzero(self.beta))
            few = used <= self.cheap
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
