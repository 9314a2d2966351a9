"""Chunking (SLIDES; Vapnik): solve the QP only for the support vectors.

    W <- k random variables
    repeat
        solve the QP on W, the others fixed at 0          => decision function h
        apply h to the others
        add at most k that violate the optimality conditions to W
    until none is added

W need hold little more than the support vectors in the end, so the small problems fit where the large one
does not. Where constraints ask for coefficients (ν machines), W starts with enough of them to be feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..goal import Goal
from ..gram import as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution
from .base import GOAL, answer, close, spent
from .decomposition import Decomposition
from .parts.fixed_sums import BIG, Groups, feasible, offsets
from .parts.limits import MARGIN, Aim
from .parts.working_sets import Sizes

__all__ = ["Chunking"]


@dataclass
class Chunking:
    """Growing chunks, each solved by decomposition."""

    chunk: int = 1000  # k: size of the first chunk and the most that is added at a time
    shrinking: bool = True  # leave out stuck variables while a chunk is solved
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # which variables the first chunk holds
    sizes: Sizes = Sizes()  # numbers of variables from which on decomposition does more than pair steps

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, whose nonzero variables join the first chunk. Iterations are pair steps."""
        monitor = monitor or Monitor()
        gram = as_gram(qp.H)
        groups = Groups.of(qp)
        inner = Decomposition(
            shrinking=self.shrinking, cache_size=self.cache_size, growing=False, merging=False, sizes=self.sizes
        )
        beta = feasible(groups, np.zeros(qp.n) if start is None else start, qp.lower, qp.upper, groups.sums)
        chosen = (beta != 0) | (np.random.default_rng(self.seed).permutation(qp.n) < self.chunk)
        n_iter, aim = 0, Aim(goal.first_violation)
        while True:
            W = np.flatnonzero(chosen)
            part = QP(gram.take(W), qp.p[W], qp.lower[W], qp.upper[W], qp.A[:, W], qp.b, qp.eps[W])
            asked = Goal(violation=MARGIN * aim.accuracy, max_iter=goal.max_iter - n_iter if goal.max_iter > 0 else -1)
            solution = inner.solve(part, asked, beta[W], monitor.inner(qp.n / len(W)))
            n_iter += solution.n_iter
            beta[W] = solution.beta
            found = answer(qp, goal, beta)
            beta = found.beta.copy()
            stop = monitor.step(n_iter, -found.certificate.dual, found.certificate.violation, len(W), gram.evals)
            added = _violators(qp, groups, beta, aim.accuracy, chosen, self.chunk)
            tired = 0 < goal.max_iter <= n_iter
            done = goal.met(found.certificate) or not solution.status.converged or aim.finest
            if done or stop or tired:
                reason = stop or (spent(goal) if tired else solution.status)
                return close(qp, goal, found, reason, n_iter, monitor, gram.evals)
            if not len(added):  # nothing outside violates: what the goal still lacks is in the chunk
                aim.finer()
            chosen[added] = True


def _violators(qp: QP, groups: Groups, beta: np.ndarray, tol: float, chosen: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` variables outside the chunk that violate the conditions, the worst ones."""
    H_beta = qp.times(beta)
    s = qp.gradient(beta, groups.multipliers(qp, beta, H_beta), H_beta)
    rise, fall = offsets(beta, qp.lower, qp.upper, qp.eps)
    score = np.maximum(rise - s, s - fall)
    score[chosen] = -BIG
    candidates = np.flatnonzero(score > 0.5 * tol)
    if len(candidates) > most:
        candidates = candidates[np.argpartition(-score[candidates], most - 1)[:most]]
    return candidates
