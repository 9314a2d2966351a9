"""A working set of columns: its part of H, and the problem on it, solved by steps on coordinates and Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..._jit import dot, jit
from ...gram import Gram
from ...monitor import Monitor
from ...solution import Status
from .cholesky import cholesky
from .coordinate_violations import violation
from .free_steps import ANEW, RIDGE, free_steps, free_system
from .limits import NEWTON_STEPS

__all__ = ["Held", "Part"]

FRESH, FRESH_SHARE = 8, 8  # columns, or a share of those used: so many come in between Newton steps
STEPS = 5  # on coordinates for each column that is used or may come in, between Newton steps
STEP_COST = 6  # and as many as cost what a factorisation does: each looks at all columns of the set twice
NEWTON, NEWTON_OF_MANY = 30, 1  # steps in a row that are cut short by a bound
ROOM = 2  # times the columns of a factor, and of those that come in with them, have a place in it
ONE_BY_ONE = 8  # a share of all rows: so many are computed one by one, each in the time of some four of a product


def _no_features() -> np.ndarray:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Held:
    """H on a working set. Where ``Z`` has the features of its columns, rows are computed when a step wants them."""

    index: np.ndarray  # ascending
    H: np.ndarray
    Z: np.ndarray = field(default_factory=_no_features)
    known: np.ndarray = field(default_factory=lambda: np.ones(0, np.bool_))  # which rows of H are there, if not all

    @classmethod
    def whole(cls, gram: Gram) -> Held:
        """All columns. Where their features lie in memory, most rows of H may never be wanted."""
        Z = getattr(gram, "T", None)
        if Z is None:
            return cls.of(gram, np.arange(gram.n), None)
        return cls(np.arange(gram.n), np.empty((gram.n, gram.n)), Z, np.zeros(gram.n, np.bool_))

    def want(self, used: np.ndarray) -> None:
        """Have the rows of these columns; all rows, where it has come to many."""
        there = np.count_nonzero(self.known)
        if there == len(self.known):
            return
        missing = used[~self.known[used]]
        if ONE_BY_ONE * (there + len(missing)) > len(self.known):
            np.matmul(self.Z, self.Z.T, out=self.H)
            self.known[:] = True
            return
        for j in missing:
            known_row(self.H, self.Z, self.known, j)

    @classmethod
    def of(cls, gram: Gram, W: np.ndarray, before: Held | None) -> Held:
        """The matrix on W; what was known of it before is not computed again."""
        if before is not None and np.array_equal(W, before.index):
            return before
        if before is not None:
            before.want(np.arange(len(before.index)))
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
        self,
        held: Held | np.ndarray,
        s: np.ndarray,
        beta: np.ndarray,
        eps: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
    ) -> None:
        self.held = held if isinstance(held, Held) else Held(np.arange(len(s)), held)
        self.H, self.eps, self.lower, self.upper = self.held.H, eps, lower, upper
        self.s, self.beta = s.copy(), beta.copy()
        room = ROOM * FRESH  # for the first ones, which join it one by one
        self.F, self.R, self.size = np.empty(room, np.int64), np.empty((room, room)), 0  # free columns and their factor

    def solve(self, tolerance: float, monitor: Monitor, threads: int) -> Status | None:
        """Sweeps and Newton steps until no column of the set violates its conditions by more than the tolerance."""
        for _ in range(NEWTON_STEPS):
            at = self.beta.nonzero()[0]
            used, held = len(at), self.held
            held.want(at)
            few = used <= self.cheap
            fresh, newtons = (max(FRESH, used // FRESH_SHARE), NEWTON) if few else (used, NEWTON_OF_MANY)
            steps = max(STEPS * (FRESH + used), used**3 // (STEP_COST * len(self.beta)))
            worst = greedy_steps(
                self.H, held.Z, held.known, self.s, self.beta, self.eps, self.lower, self.upper, tolerance, fresh, steps
            )  # fmt: skip
            if not worst > tolerance:
                return None
            stop = monitor.stop_now()
            if stop is not None:
                return stop
            self._newton(newtons, threads)
        return None

    def _newton(self, most: int, threads: int) -> None:
        """Steps on the free columns, each on its side of 0, until one is not cut short by a bound."""
        fresh = False
        while most > 0:
            self.size, steps, end = free_steps(
                self.H, self.s, self.beta, self.eps, self.lower, self.upper, self.F, self.R, self.size, fresh, most
            )  # fmt: skip
            most -= steps
            if end != ANEW or not self._factor(threads):
                return
            fresh = True

    def _factor(self, threads: int) -> bool:
        """A factor of the free columns, with room for others; whether there is one."""
        F, H = free_system(self.H, self.beta, self.lower, self.upper)
        U, ridge, added = None, max(RIDGE * float(H.diagonal().max(initial=0.0)), np.finfo(float).tiny), 0.0
        while U is None:
            if not ridge < 1.0:
                return False
            H.flat[:: len(F) + 1] += ridge - added
            U, ridge, added = cholesky(H, threads), 10.0 * ridge, ridge
        self.size = len(F)
        room = min(len(self.beta), ROOM * (FRESH + self.size))
        self.F, self.R = np.empty(room, np.int64), np.empty((room, room))
        self.F[: self.size], self.R[: self.size, : self.size] = F, U
        return True


@jit
def known_row(H, Z, known, j):
    """H[j], computed if it is not known yet; where ``known`` is empty, all are."""
    row = H[j]
    if len(known) and not known[j]:
        known[j] = True
        for k in range(len(row)):
            row[k] = dot(Z[k], Z[j])
    return row


@jit
def greedy_steps(H, Z, known, s, beta, eps, lower, upper, tolerance, fresh, most):
    """Steps on the coordinate that violates most, until ``fresh`` columns have come in or none violates too much.

    Returns the largest violation that is left.
    """
    n = len(beta)
    for _ in range(most):
        worst = 0.0
        for k in range(n):  # the largest by vectors, then whose it is
            worst = max(worst, violation(beta[k], s[k], eps[k], lower[k], upper[k]))
        j = 0
        while j < n - 1 and violation(beta[j], s[j], eps[j], lower[j], upper[j]) < worst:
            j += 1
        if not worst > tolerance or (fresh == 0 and beta[j] == 0.0):
            return worst
        row = known_row(H, Z, known, j)
        b, q = beta[j], row[j]
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
        for k in range(n):
            s[k] += change * row[k]
    return worst
