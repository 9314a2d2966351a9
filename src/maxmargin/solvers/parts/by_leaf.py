"""All steps of one problem of few variables by the leaf for many of them (small_problems.py).

Python between the steps takes longer than they do where variables are few. The leaf solves for the free variables where
these are few, too; LAPACK does it for more of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...goal import Goal
from ...gram import PrecomputedGram, as_gram
from ...monitor import Monitor
from ...problem import QP
from ...solution import Status
from .fixed_sums import Groups
from .limits import NEAR, most_steps
from .newton_finish import NEWTON_WORK, newton_finish
from .reach import LOOKS_A_STEP
from .roundings import UNSOLVED
from .small_problems import SmallProblems, solve_small

__all__ = ["ByLeaf"]

LEAF_WORK = 1_000_000  # multiply-adds of a leaf for the free variables, some 0.3 ms: for more of them LAPACK is better


@dataclass(frozen=True)
class ByLeaf:
    """What was found, and why it ended."""

    beta: np.ndarray
    eta: np.ndarray
    reason: Status
    n_iter: int

    @classmethod
    def solve(
        cls, qp: QP, goal: Goal, start: np.ndarray | None, monitor: Monitor, patience: float, newton: bool
    ) -> ByLeaf | None:
        """``patience``: pair steps a variable, as decomposition counts them; ``newton``: to the last digits.

        None where a sum is more than its boxes hold: decomposition knows whether rounding is all there is to it.
        """
        gram = as_gram(qp.H)
        matrix = PrecomputedGram(gram.block(np.arange(qp.n)), cost=gram.cost)
        problems = SmallProblems.of([replace(qp, H=matrix)])
        assert problems is not None  # a matrix at hand, and constraints that pair steps keep
        most = most_steps(goal, qp.n)
        if goal.max_iter <= 0:
            most = int(1 + min(most, patience * qp.n**2 / (qp.n + LOOKS_A_STEP)))
        tol = goal.first_violation
        try:
            small = solve_small(matrix, problems, tol, most, 1, monitor, start, finish=newton, work=LEAF_WORK)
        except ValueError:
            return None
        beta, eta, reason = qp.settled(small.of(0)), small.multipliers[0], small.status(0)
        if reason is Status.MAX_ITERATIONS and goal.max_iter <= 0:
            reason = Status.EXHAUSTED
        if newton and reason in NEAR and qp.certificate(beta, eta).relative_gap > UNSOLVED:
            groups, v = Groups.of(qp), -(matrix.matvec(beta) + qp.p)
            better = newton_finish(matrix, qp, groups, beta, v, NEWTON_WORK // qp.n, monitor.stop_now)
            if better is not None:
                beta = qp.settled(better)
                eta = groups.multipliers(qp, beta, qp.times(beta))
        return cls(beta, eta, reason, int(small.n_iter[0]))
