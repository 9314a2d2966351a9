"""How far steps go: the accuracies that they aim at, how they notice that they stall, how long they run unwatched.

Compiled leaves read some of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...goal import Goal
from ...solution import Status

__all__ = [
    "DECREASE",
    "EACH_SIDE",
    "FACTOR_UP_TO",
    "FINER",
    "IN_VAIN",
    "LAST",
    "LESS",
    "LOOK_WORK",
    "MARGIN",
    "NEAR",
    "NEWTON_STEPS",
    "PASSES",
    "ROUNDS",
    "SAMPLE_TOL",
    "TRIES",
    "WIDE_BELOW",
    "WIDE_UP_TO",
    "Aim",
    "Progress",
    "most_steps",
]

NEAR = (Status.CONVERGED, Status.STALLED)  # a solver that ends so is as near to the optimum as its arithmetic gets it
MARGIN = 0.9  # share of what is asked that steps reach, so that rounding in what they see does not fail the exact look
EACH_SIDE = (
    0.5 * MARGIN
)  # the same for steps on one variable: a violation adds that of one that grows to one that shrinks
WIDE_BELOW, WIDE_UP_TO = 1e-4, 2000  # violation asked for below which, and points up to which, K is made in float64
ROUNDS = 60  # of a loop that ends by itself, mostly after a few: then rounding leads it in circles
NEWTON_STEPS = 200  # of a method of second order, without a limit by the user
PASSES = 2000  # of any other whose steps look at all the data, without a limit by the user
IN_VAIN = 4  # rounds that change no fewer variables than the best before: more go round in circles
SAMPLE_TOL = 0.1  # of the size of targets: violation that a sample may keep, whose solution is only a start
LOOK_WORK = 5_000_000  # numbers that a leaf reads between two looks at the clock: some 10 ms
FACTOR_UP_TO = 3000  # features or samples, whichever are fewer: up to here the interior method takes seconds
LAST = 4.0  # times as long as they were worth at first is what pair steps may take where all else has failed

FINER = 0.1  # share of an accuracy that is the next one
TRIES = 12  # accuracies, fresh starts with the same one, or iterations without progress, before rounding is blamed
DECREASE = 1e-13  # of the objective: a smaller decrease is none
LESS = 0.99  # share of a violation, or of another measure of what is left, that is progress


class Aim:
    """The accuracy of what a solver can see, made finer as long as its certificate falls short of what is asked."""

    def __init__(self, accuracy: float) -> None:
        self.accuracy = self.first = accuracy

    def tries(self) -> Iterator[float]:
        """The accuracy to aim at, as often as it is worth a try."""
        for _ in range(TRIES):
            yield self.accuracy

    def finer(self) -> None:
        self.accuracy *= FINER

    @property
    def finest(self) -> bool:
        """Whether nothing finer is worth a try."""
        return self.accuracy < FINER ** (TRIES - 1) * self.first


class Progress:
    """Notices when neither the objective nor what is left, such as a violation, gets any smaller for so many looks."""

    def __init__(self, patience: int = 6) -> None:
        self.patience = patience
        self.objective = float("inf")
        self.left: tuple[float, ...] = ()  # the least of each measure so far
        self.lower = False  # whether the objective has just become smaller
        self.waited = 0

    def stalled(self, objective: float, *left: float) -> bool:
        least = self.left or (float("inf"),) * len(left)
        self.lower = objective < self.objective - DECREASE * abs(objective)
        better = self.lower or any(now < LESS * before for now, before in zip(left, least, strict=True))
        self.objective, self.left = min(self.objective, objective), tuple(map(min, left, least))
        self.waited = 0 if better else self.waited + 1
        return self.waited >= self.patience


def most_steps(goal: Goal, n: int) -> int:
    """Steps on one variable or two that a goal allows; without a limit as many as LIBSVM makes."""
    return goal.max_iter if goal.max_iter > 0 else max(10_000_000, 100 * n)
