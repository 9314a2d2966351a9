"""The machines of all folds of one C-SVC, by steps on kernel rows that they share.

A machine of a fold is the fit without some of its samples. It starts from the coefficients of the fit less those of its
fold, and most of them stay where they are:

    v    <- −(Hβ + p) of the fit, plus the rows of the coefficients that the fold takes away
    β    <- what the sum lacks goes where v says it belongs
    on the samples next to the margin, then on all that should have been among them
        repeat
            pair steps, until the violation < tol or a row is missing           each machine, side by side
            the rows that are missing, and those that may well be next          once for all of them
        v <- the same for all other samples, by one pass over the rows of coefficients that moved

Samples lie in the order of their distance from the margin: steps look at the beginning of rows. Boxes of the fold are
closed, but v is kept for all samples: at the end it is the decision of those of the fold. Which rows come when depends
on the machines alone, so that results are equal to the bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import threads as th
from ..gram import Gram, RowCache
from ..monitor import Monitor
from ..problem import QP
from ..solvers.parts.fixed_sums import Groups, feasible, midway, offsets
from ..solvers.parts.limits import LOOK_WORK
from ..solvers.parts.pair_steps import Variables, pair_steps, single_steps, subtract_rows

__all__ = ["FoldMachines", "by_distance", "next_to_margin", "wants_wide"]

NEAR = 3  # times as many samples as have coefficients are next to the margin,
SPARE = 20  # and some more
EACH = 32  # rows at most that come with one that a machine waits for: many cost little more than one,
HALF = 0.5  # those of samples that violate by this share of the most
FINE = 0.1  # of a violation that is asked for: what rows in float32 may add to it


def by_distance(qp: QP, beta: np.ndarray, gradient: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """The samples with coefficients, then the others by their distance from the margin; ``gradient`` is Hβ + p."""
    slack = np.abs(np.abs(gradient + multipliers @ qp.A) - qp.eps)
    return np.argsort(np.where(beta != 0.0, -1.0, slack), kind="stable")


def next_to_margin(beta: np.ndarray) -> int:
    """How many samples are next to the margin."""
    return min(len(beta), NEAR * int(np.count_nonzero(beta)) + SPARE)


def wants_wide(gram: Gram, rows: np.ndarray, beta: np.ndarray, violation: float) -> bool:
    """Whether rows in float32 could be seen in a violation that is asked for."""
    size = np.sqrt(np.maximum(gram.diag()[rows], 0.0))
    return bool(np.finfo(np.float32).eps * size.max() * float(np.abs(beta) @ size) > FINE * violation)


@dataclass
class _Machine:
    """One of them: its variables, where it began, and how far it got."""

    own: np.ndarray  # samples of its fold
    x: Variables
    begun: np.ndarray  # coefficients for which v is right everywhere
    missing: int = -1  # the row that it waits for
    steps: int = 0
    violation: float = np.inf

    def on(self, n: int) -> Variables:
        """The variables of the first n samples."""
        return Variables(*[values[:n] for values in self.x])


class FoldMachines:
    """Machines without one of the folds ``numbers`` each, on the samples of ``qp``, whose solution is ``beta``.

    ``gram`` has the samples in this ``order``: those with coefficients first, then those next to the margin.
    """

    def __init__(
        self, gram: Gram, qp: QP, beta: np.ndarray, order: np.ndarray, folds: np.ndarray, numbers: Sequence[int],
        threads: int,
    ) -> None:  # fmt: skip
        self.order, self.threads, self.groups = order, threads, Groups.of(qp)
        self.near = next_to_margin(beta)
        self.p, self.eps, self.lower, self.upper = (a[order] for a in (qp.p, qp.eps, qp.lower, qp.upper))
        self.ridge = None if qp.ridge is None else qp.ridge[order]
        self.diag = gram.diag() + (0.0 if self.ridge is None else self.ridge)
        self.cache = RowCache(gram, None, gram.n)
        start, slope = beta[order], qp.times(beta)[order] + self.p
        self._fetch(np.flatnonzero(start))
        self.machines = [self._begun(folds[order] == number, start, slope) for number in numbers]

    def _begun(self, own: np.ndarray, beta: np.ndarray, slope: np.ndarray) -> _Machine:
        """The machine of the fit without its fold."""
        lower, upper, left = (np.where(own, 0.0, values) for values in (self.lower, self.upper, beta))
        v = -slope
        self._subtract(v, left - beta, 0)
        start = self._feasible(left, lower, upper, v)
        self._fetch(np.flatnonzero(start))
        self._subtract(v, start - left, 0)
        offset = offsets(start, lower, upper, self.eps)
        return _Machine(own, Variables(v, start, lower, upper, self.eps, self.diag, *offset), start.copy())

    def _feasible(self, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, v: np.ndarray) -> np.ndarray:
        """β with the sum that it must have; samples next to the margin make up for it, if they can."""
        out, sums = beta.copy(), self.groups.sums
        enough = not self.groups.count or lower[: self.near].sum() <= sums[0] <= upper[: self.near].sum()
        n = self.near if enough else len(beta)
        groups = Groups(self.groups.label[:n], self.groups.columns, sums)
        out[:n] = feasible(groups, beta[:n], lower[:n], upper[:n], sums, v[:n])
        return out

    def _fetch(self, rows: np.ndarray) -> None:
        """Have these rows at hand; none is ever dropped, since machines may go back to any of them."""
        missing = rows[self.cache.slot[rows] < 0]
        if self.cache.filled + len(missing) > self.cache.capacity:
            raise MemoryError(f"{self.cache.filled + len(missing)} kernel rows do not fit")
        if len(missing):
            self.cache.fetch(missing)

    def _subtract(self, v: np.ndarray, change: np.ndarray, first: int) -> None:
        """v −= H change, from a sample on."""
        moved = np.flatnonzero(change)
        if not len(moved):
            return
        subtract_rows(self.cache.slab, self.cache.slot[moved], change[moved], v, first, len(v))
        if self.ridge is not None:
            moved = moved[moved >= first]
            v[moved] -= self.ridge[moved] * change[moved]

    def solve(self, tol: float, most: int, monitor: Monitor) -> None:
        """Steps until violations are below ``tol``, or ``most`` of them were made."""
        todo = self.machines
        self._fetch(self._next(todo, self.near))
        for n in sorted({self.near, len(self.order)}):
            waiting = todo
            while waiting:
                monitor.look()
                self._step(waiting, n, tol, most)
                waiting = [one for one in waiting if one.violation >= tol and one.steps < most]
                self._fetch(self._next([one for one in waiting if one.missing >= 0], n))
            if n < len(self.order):
                self._complete(todo)
                todo = [one for one in todo if one.violation >= tol]

    def _complete(self, todo: list[_Machine]) -> None:
        """Bring v up to date where steps did not look, and see whether they should have."""

        def leaf(first: int, last: int) -> None:
            for one in todo[first:last]:
                self._subtract(one.x.v, one.x.beta - one.begun, self.near)
                one.violation = max(one.violation, _violation(one.x)[0])

        th.spread(leaf, len(todo), self.threads, grain=1, align=1)

    def _step(self, todo: list[_Machine], n: int, tol: float, most: int) -> None:
        slab, slot = self.cache.slab, self.cache.slot
        edges, limit = np.array([0, n]), max(100, LOOK_WORK // n)

        def leaf(first: int, last: int) -> None:
            for one in todo[first:last]:
                room, x = min(limit, most - one.steps), one.on(n)
                if self.groups.count:
                    made, one.violation, one.missing = pair_steps(slab, slot, x, edges, True, tol, room)
                else:
                    made, one.violation, one.missing = single_steps(slab, slot, x, tol, room)
                one.steps += made

        th.spread(leaf, len(todo), self.threads, grain=1, align=1)

    def _next(self, todo: list[_Machine], n: int) -> np.ndarray:
        """The rows that machines wait for, and those of the samples that violate most."""
        unknown = self.cache.slot[:n] < 0
        rows = [np.array([one.missing for one in todo if one.missing >= 0], np.int64)]
        for one in todo:
            x = one.on(n)
            up, down = x.v + x.rise, x.v + x.fall
            m, M = up.max(), down.min()
            gain = np.maximum(up - M, m - down)
            wanted = np.flatnonzero(unknown & (gain > HALF * (m - M)))
            if len(wanted) > EACH:
                wanted = wanted[np.argpartition(-gain[wanted], EACH)[:EACH]]
            rows.append(wanted)
        return np.unique(np.concatenate(rows))

    def decisions(self, tol: float) -> list[np.ndarray | None]:
        """Those of the samples of each fold, as they were given; None of a machine whose violation is not below tol."""
        back = np.argsort(self.order)
        return [self._decided(one, back) if one.violation < tol else None for one in self.machines]

    def _decided(self, one: _Machine, back: np.ndarray) -> np.ndarray:
        f = -(one.x.v + self.p)
        if self.groups.count:
            f += _violation(one.x)[1] / self.groups.columns[0, 0]
        return f[back][one.own[back]]


def _violation(x: Variables) -> tuple[float, float]:
    """m − M, and the level half way between them."""
    m, M = np.array([(x.v + x.rise).max()]), np.array([(x.v + x.fall).min()])
    return float(m[0] - M[0]), float(midway(m, M)[0])
