"""Out-of-fold decisions of many small machines, by the leaf that solves many small problems at once.

The machines of all folds are laid end to end, each on all samples of its pair, with the boxes of its own fold closed.
So the product Hβ, which the leaf has at its end, is the decision of every sample, those of the fold among them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import memory
from ..formulations import Formulation
from ..gram import Gram, PrecomputedGram
from ..monitor import Monitor, Stopped
from ..solvers.parts.small_problems import BATCH_POINTS, Batch, SmallProblems, solve_small
from .folds import ENTRIES, FOLDS
from .pair_programs import closed_programs, decisions

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


def out_of_small_folds(
    gram: Gram, machines: SmallMachines, folds: np.ndarray, beta: np.ndarray, monitor: Monitor
) -> np.ndarray:
    """The decision of each sample of each machine by one that has not seen its fold; all start from ``beta``."""
    gram = _formed(gram, monitor)
    out = np.empty(len(folds))
    together = max(1, ENTRIES // len(folds))  # folds
    for first in range(0, FOLDS, together):
        numbers = np.arange(first, min(FOLDS, first + together))
        own = (folds == numbers[:, None]).ravel()
        row = np.tile(np.arange(len(folds)), len(numbers))[own]
        out[row] = _decided(gram, machines, own, len(numbers), beta, monitor)[own]
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
) -> np.ndarray:
    """The decisions of all samples by the machines without ``own``; these are laid end to end ``times`` times."""
    count = len(machines.problems)
    y = np.tile(machines.y, times)
    problems = closed_programs(machines.formulation, machines.problems, y, np.tile(machines.weight, times), own)
    several = [replace(b, problems=_repeated(b.problems, count, times)) for b in machines.batches]
    start = np.tile(beta, times)
    limits = machines.tol, machines.max_iter
    found = solve_small(gram, problems, *limits, machines.threads, monitor, start, several)
    shape = decisions(machines.formulation, problems, found, y, gram)
    f = found.H_beta * np.repeat(shape.scale, problems.sizes) + np.repeat(shape.intercept, problems.sizes)
    for q in np.flatnonzero(~shape.plain).tolist():
        at = slice(problems.starts[q], problems.starts[q + 1])
        used = problems.starts[q] + np.flatnonzero(shape.coef[at])
        f[at] = gram.combine(problems.points[used], shape.coef[used], problems.points[at]) + shape.intercept[q]
    # A machine needs two classes: of one it says that one, of none nothing.
    some = np.logical_or.reduceat(np.array([(y > 0) & ~own, (y < 0) & ~own]), problems.starts[:-1], axis=1)
    alone = np.repeat(~some.all(axis=0), problems.sizes)
    return np.where(alone, np.repeat(some[0] * 1.0 - some[1], problems.sizes), f)


def _repeated(problems: np.ndarray, count: int, times: int) -> np.ndarray:
    """The numbers of these of ``count`` problems that are laid end to end so many times."""
    return (problems + count * np.arange(times)[:, None]).ravel()
