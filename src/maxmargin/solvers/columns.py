"""Coordinate descent over columns with working sets: the default for the Potential SVM, and for a lasso.

    min ½ βᵀHβ + pᵀβ + Σ ε_j |β_j|     s.t.  lower ≤ β ≤ upper

Few β_j are not 0 at the optimum, and most of these are free: then second-order steps on them are cheap, and what costs
is to find them (working sets: celer, Massias, Gramfort & Salmon 2018).

    repeat
        s  <- Hβ + p                                          one pass over all columns
        W  <- the columns with β_j ≠ 0, and as many again that violate their conditions or are nearest to it
        solve the problem on W, with H_WW in memory:
            steps on the coordinate that violates most, until some more columns have come in
            Newton steps on those that are not 0 and free, each on its side of 0 (parts/free_steps.py)
    until the certificate meets the goal

Columns of a smooth kernel are nearly copies of their neighbours. When the one that violates most has moved, its
neighbours are content; sweeps over all coordinates in turn would bring them all in, and Newton steps would have to push
them out again one by one (abalone: 499 columns in place of 29 when the largest violation is 0.8).

Where K is sparse and W has grown larger than its columns are long, sweeps and conjugate gradients over the entries of
its columns (parts/sparse_columns.py) need no matrix.

Two columns that are equal make H_WW singular: a Newton step then has a ridge of its own, which changes its length and
not where it leads, for the next one begins where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import memory
from ..goal import Goal
from ..gram import Gram, Relation, as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, heed, spent
from .parts.coordinate_violations import violations
from .parts.limits import PASSES, Progress
from .parts.sparse_columns import SparseColumns
from .parts.sparse_model import SPARSE_STEP
from .parts.working_columns import Held, Part

__all__ = ["Columns"]

STEEPEST = 0.5  # of them, those that violate most, where there are more violators than are added
INNER = 0.03  # of the largest violation of all is what a working set may keep
# Where all of H takes this many multiply-adds, or is there, and has so many times ``first`` columns at most, all are in
# the set from the beginning: that takes as long as the overhead of the two or three passes that it saves.
ALL_WORK, ALL_COLUMNS = 1 << 25, 4


@dataclass
class Columns:
    """Working sets of the columns that matter, solved by sweeps and Newton steps."""

    first: int = 128  # columns of the first working set, and added at least
    growth: float = 1.0  # columns that are added for each that is not 0
    cheap: int = Part.cheap  # columns in use: up to here a factorisation costs less than steps on coordinates
    sparse_step: int = SPARSE_STEP  # entries of the matrix for one of a sparse column, in the time of a step

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
        heed(self.objection(qp))
        monitor = monitor or Monitor()
        gram = as_gram(qp.H).wide()
        beta = np.minimum(np.maximum(np.zeros(qp.n) if start is None else start, qp.lower), qp.upper)
        best: Answer | None = None
        held: Held | None = getattr(gram, "last_set", None)  # of the ε before, on a path
        sweeper = SparseColumns.of(qp, gram)
        whole = self._small(gram)
        most = goal.max_iter if goal.max_iter > 0 else PASSES
        passes, progress, extra, small = 0, Progress(), 1.0, 1.0

        def ended(reason: Status) -> Solution:
            proven = best if reason is Status.CONVERGED else None
            last = proven or better(goal, best, answer(qp, goal, beta))
            return close(qp, goal, last, reason, passes, monitor, gram.evals)

        while True:
            passes += 1
            s = qp.times(beta) + qp.p
            now = qp.objective(beta, s - qp.p)
            stalled = progress.stalled(now)
            d = violations(beta, s, qp.eps, qp.lower, qp.upper)
            worst, primal = float(d.max(initial=0.0)), np.nan
            if worst <= goal.violation or monitor.callback is not None or monitor.wants_primal():
                best = better(goal, best, answer(qp, goal, beta))
                primal = best.certificate.primal
            stop = monitor.step(passes, now, worst, int(np.count_nonzero(beta)), gram.evals, 0.0, primal)
            if best is not None and goal.met(best.certificate):
                return ended(Status.CONVERGED)
            if stalled or not worst > 0.0:
                return ended(Status.STALLED)
            if stop is not None or passes >= most:
                return ended(stop or spent(goal))
            if progress.waited:  # what is left is in the last digits of what the working set keeps
                small, extra = 0.1 * small, 2.0 * extra
            W = np.arange(qp.n) if whole else self._chosen(qp, beta, s, extra, held)
            tolerance = small * INNER * worst
            if sweeper is not None and len(W) > self.cheap and sweeper.suits(W, self.sparse_step):
                beta, stop = sweeper.solve(beta, W, tolerance, monitor)
            elif not memory.fits(8 * len(W) ** 2):
                stop = Status.EXHAUSTED  # there is no room for the matrix; others read it by rows
            else:
                held = Held.whole(gram) if whole and held is None else Held.of(gram, W, held)
                if isinstance(gram, Relation) and gram.in_turn:
                    gram.last_set = held
                part = Part(held, s[W], beta[W], qp.eps[W], qp.lower[W], qp.upper[W])
                part.cheap = self.cheap
                if whole or INNER * tolerance <= goal.first_violation:
                    # Another pass would be for a few digits on the same set, which Newton steps have for little.
                    tolerance = min(tolerance, small * 0.5 * goal.first_violation)
                stop = part.solve(tolerance, monitor, gram.threads)
                beta = beta.copy()
                beta[W] = part.beta
            if stop is not None:
                return ended(stop)

    def _small(self, gram: Gram) -> bool:
        """Whether all columns are one working set."""
        each = 1 if gram.whole() is not None else getattr(gram, "samples", gram.n)
        return gram.n <= ALL_COLUMNS * self.first and gram.n**2 * each <= ALL_WORK

    def _chosen(self, qp: QP, beta: np.ndarray, s: np.ndarray, extra: float, held: Held | None) -> np.ndarray:
        """The columns that are used, those that violate most or come nearest to it, and some of the other violators.

        Those that violate most are neighbours, of which one will do; violators at equal distances are of all kinds.
        """
        used = beta != 0.0
        count = int(extra * max(self.first, self.growth * np.count_nonzero(used)))
        near = np.maximum(np.where(beta < qp.upper, -s, -np.inf), np.where(beta > qp.lower, s, -np.inf)) - qp.eps
        if held is not None and extra == 1.0:
            matter = used | (near > 0.0)
            matter[held.index] = False
            if not matter.any():
                return held.index
        near[used] = -np.inf
        if count >= qp.n:
            return np.flatnonzero(used | (near > -np.inf))
        violators, spread = np.flatnonzero(near > 0.0), int((1.0 - STEEPEST) * count)
        if len(violators) > count:
            some = violators[np.arange(spread) * len(violators) // spread]
            used[some], near[some], count = True, -np.inf, count - spread
        kept = np.argpartition(-near, count - 1)[:count]
        used[kept[near[kept] > -np.inf]] = True
        return np.flatnonzero(used)
