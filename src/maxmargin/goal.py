"""What is asked of a solution, and the one judge of whether it was reached.

A solver gets a goal and says why it stopped; whether the goal was reached is a comparison of the goal with a
certificate, made here and nowhere else. ``Status.CONVERGED`` in any result is this judge's word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .solution import Certificate, Status

__all__ = ["FEASIBLE", "Goal", "nothing"]

# What rounding may leave of a constraint, as a share of its terms: ten times what a coefficient that is put on a bound
# moves by (problem.py). What is missed costs that much times the best multipliers, which nobody knows: between points
# of two classes that are 1e-8 apart, a share of 1e-8 is worth the whole objective.
FEASIBLE = 1e-11
NOTHING = 1e-13  # of the cost of a model that does nothing: an objective so small is none, nor is a share of it
GAP_OF_VIOLATION = 1e-3  # LIBSVM at a violation of tol leaves a relative gap of more than that times tol (measured)


def nothing(found: Certificate) -> bool:
    """Whether the objective is so small, beside that of a model that does nothing, that it is none."""
    return max(abs(found.primal), abs(found.dual)) <= NOTHING * found.idle


@dataclass(frozen=True)
class Goal:
    """What a solution must reach; a limit that is infinite asks for nothing."""

    violation: float = np.inf  # largest violation of the optimality conditions, as LIBSVM's tol
    gap: float = np.inf  # between primal and dual, as a share of the objective
    max_iter: int = -1  # iterations of the solver, in its own units; −1: no limit
    exact: bool = True  # whether the coefficients themselves will be used, or only the weights that they add up to

    def met(self, found: Certificate) -> bool:
        """Whether a certificate proves what was asked."""
        return bool(self.proven(found.violation, found.infeasibility, found.primal, found.dual, found.gap, found.idle))

    def proven(self, violation: Any, infeasibility: Any, primal: Any, dual: Any, gap: Any, idle: Any) -> Any:
        """``met`` for the numbers of a certificate, or for arrays of them."""
        # Operators alone: NumPy's functions take ten times as long for a number as Python does.
        numbers = (primal == primal) & (dual == dual)  # a sum that is no number has terms that are none
        fine = numbers & (infeasibility <= FEASIBLE) & (violation <= self.violation)
        if self.gap == np.inf:
            return fine
        upper, lower, most = abs(primal), abs(dual), NOTHING * idle
        small = (gap <= self.gap * upper) | (gap <= self.gap * lower) | ((upper <= most) & (lower <= most))
        return fine & (abs(gap) < np.inf) & small

    def prefers(self, found: Certificate, other: Certificate) -> bool:
        """Whether a certificate is better than another: it proves what is asked, or else has the smaller gap.

        Where both objectives are nothing, so are their gaps, and the smaller violation counts: weights that are wrong
        by 1e-7 are no part of an objective, and decisions that are wrong by 0.01 where features are of 1e5.
        """
        if self.met(found):
            return True
        if nothing(other) and nothing(found):
            return found.violation < other.violation
        return found.gap < other.gap

    def verdict(self, found: Certificate, reason: Status) -> Status:
        """The status of a solution with this certificate, whose solver stopped for this reason."""
        if self.met(found):
            return Status.CONVERGED
        return Status.STALLED if reason is Status.CONVERGED else reason

    # A solver steers by what it can see: these are the first accuracies to try; ``met`` says whether they were enough.

    @property
    def first_violation(self) -> float:
        """For a solver that sees violations."""
        return min(self.violation, self.gap)

    @property
    def first_gap(self) -> float:
        """For a solver that sees relative gaps."""
        return min(self.gap, GAP_OF_VIOLATION * self.violation)

    def capped(self, max_iter: int) -> Goal:
        """The same goal with another limit of iterations."""
        return replace(self, max_iter=max_iter)
