"""Out-of-fold decisions of many small machines, by the leaf that solves many small problems at once.

The machines of all folds are laid end to end, each on all samples of its pair, with the boxes of its own fold closed.
So the product Hβ, which the leaf has at its end, is the decision of every sample, those of the fold among them.
What the leaf leaves unfinished is solved by the solver that a fit alone would have, a problem at a time.
After a stop samples are decided by the fit itself, less what those of their fold add (as in folds.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import memory
from ..formulations import Formulation
from ..goal import Goal
from ..gram import Gram, PrecomputedGram
from ..monitor import Monitor, Stopped
from ..solution import Status
from ..solvers import Auto
from ..solvers.parts.small_problems import BATCH_POINTS, Batch, SmallProblems, SmallSolutions, solve_small
from .base import side_by_side
from .folds import ENTRIES, FOLDS, enough
from .pair_programs import Decisions, closed_programs, decisions

__all__ = ["SmallMachines", "out_of_small_folds"]


@dataclass(frozen=True)
class SmallMachines:
    """Machines that were fitted together: their programs, and what the programs do not say of them."""

    formulation: Formulation
    problems: SmallProblems
    batches: list[Batch]
    y: np.ndarray  # of each variable
    weight: np.ndarray
    tol: float
    max_iter: int
    threads: int
    reached: np.ndarray  # violation of the fit of each, or what was asked for if that is more
    solver: Auto  # for machines of folds that the leaf leaves unfinished
    workers: int  # that take these side by side


def out_of_small_folds(
    gram: Gram, machines: SmallMachines, folds: np.ndarray, beta: np.ndarray, fit: Decisions, monitor: Monitor
) -> np.ndarray:
    """The decision of each sample of each machine by one that has not seen its fold; all start from ``beta``.

    ``fit`` decides where there is no time for machines.
    """
    gram = _formed(gram, monitor)
    out = np.empty(len(folds))
    together = max(1, ENTRIES // len(folds))  # folds
    for first in range(0, FOLDS, together):
        numbers = np.arange(first, min(FOLDS, first + together))
        own = (folds == numbers[:, None]).ravel()
        row = np.tile(np.arange(len(folds)), len(numbers))[own]
        decided = _decided(gram, machines, own, len(numbers), beta, monitor)
        if decided is None:
            decided = np.concatenate([_decided_by(fit, gram, machines.problems, folds == one) for one in numbers])
        one_class = _one_class(np.tile(machines.y, len(numbers)), own, machines.problems.sizes)
        out[row] = np.where(np.isnan(one_class), decided, one_class)[own]
    return out


def _formed(gram: Gram, monitor: Monitor) -> Gram:
    """A matrix that all folds share, formed where there is room for it, and time."""
    if gram.whole() is not None:
        return gram
    if gram.n <= BATCH_POINTS:
        return PrecomputedGram(gram.block(np.arange(gram.n)))
    if not memory.fits(8 * gram.n**2):
        return gram
    try:
        return PrecomputedGram(gram.wide().dense(lambda seconds: monitor.look()))
    except (MemoryError, Stopped):
        return gram


def _decided(
    gram: Gram, machines: SmallMachines, own: np.ndarray, times: int, beta: np.ndarray, monitor: Monitor
) -> np.ndarray | None:
    """The decisions of all samples by the machines without ``own``, laid end to end ``times`` times; None: stopped."""
    if monitor.stop_now() is not None:
        return None
    count = len(machines.problems)
    y = np.tile(machines.y, times)
    problems = closed_programs(machines.formulation, machines.problems, y, np.tile(machines.weight, times), own)
    several = [replace(b, problems=_repeated(b.problems, count, times)) for b in machines.batches]
    start = np.tile(beta, times)
    limits = machines.tol, machines.max_iter
    found = solve_small(gram, problems, *limits, machines.threads, monitor, start, several, unproven=True)
    if found.stop is not None:
        return None
    shape = decisions(machines.formulation, problems, found, y, gram)
    _finish(gram, machines, problems, found, shape, monitor)
    if monitor.stop_now() is not None:
        return None
    f = found.H_beta * np.repeat(shape.scale, problems.sizes) + np.repeat(shape.intercept, problems.sizes)
    for q in np.flatnonzero(~shape.plain).tolist():
        at = slice(problems.starts[q], problems.starts[q + 1])
        used = problems.starts[q] + np.flatnonzero(shape.coef[at])
        f[at] = gram.combine(problems.points[used], shape.coef[used], problems.points[at]) + shape.intercept[q]
    return f


def _finish(
    gram: Gram,
    machines: SmallMachines,
    problems: SmallProblems,
    found: SmallSolutions,
    shape: Decisions,
    monitor: Monitor,
) -> None:
    """Solve what the leaf has left with a violation that is too large, and put it into ``shape``."""
    # What the fit could not reach is not asked of its folds: they would try in vain, for long.
    asked = np.tile(enough(machines.formulation, machines.reached), len(problems) // len(machines.problems))
    unfinished = np.array([status in (Status.STALLED, Status.EXHAUSTED) for status in found.statuses()])

    def finish(q: int) -> None:
        if monitor.stop_now() is not None:
            return
        qp, at = problems.qp(q, gram), slice(problems.starts[q], problems.starts[q + 1])
        goal = Goal(violation=float(asked[q]), max_iter=machines.max_iter)
        solution = machines.solver.solve(qp, goal, found.of(q), monitor.part(""))
        one = machines.formulation.decision(qp, solution)
        shape.coef[at], shape.intercept[q], shape.plain[q] = one.coef, one.intercept, False

    left = np.flatnonzero(unfinished & (found.violations > asked)).tolist()
    side_by_side(finish, left, max(1, min(machines.workers, len(left))), monitor)


def _decided_by(fit: Decisions, gram: Gram, problems: SmallProblems, own: np.ndarray) -> np.ndarray:
    """The decisions of the samples ``own`` by the fit of each problem, less what they add to them; 0 for others."""
    f = np.zeros(len(own))
    for q, (first, last) in enumerate(zip(problems.starts[:-1], problems.starts[1:], strict=True)):
        mine = first + np.flatnonzero(own[first:last])
        used = first + np.flatnonzero(~own[first:last] & (fit.coef[first:last] != 0.0))
        f[mine] = fit.intercept[q]
        if len(used) and len(mine):
            f[mine] += gram.combine(problems.points[used], fit.coef[used], problems.points[mine])
    return f


def _one_class(y: np.ndarray, own: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """What machines say that are left with one class, 0 where they have none; NaN for those that have both."""
    sizes = np.tile(sizes, len(own) // sizes.sum())
    starts = np.cumsum(sizes) - sizes
    some = np.logical_or.reduceat(np.array([(y > 0) & ~own, (y < 0) & ~own]), starts, axis=1)
    return np.repeat(np.where(some.all(axis=0), np.nan, some[0] * 1.0 - some[1]), sizes)


def _repeated(problems: np.ndarray, count: int, times: int) -> np.ndarray:
    """The numbers of these of ``count`` problems that are laid end to end so many times."""
    return (problems + count * np.arange(times)[:, None]).ravel()
