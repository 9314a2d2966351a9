"""Whether a kernel matrix may be of low rank, so that a factor of it should stand in its place.

A few columns by pivoted Cholesky (gram/lowrank.py) that leave little of some of its rows say that it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...gram import Gram, KernelGram, as_gram, low_rank, lowered
from ...monitor import Monitor
from ...problem import QP
from .equal_points import distinct
from .limits import FACTOR_UP_TO, LAST
from .reach import pair_patience
from .roundings import ROUNDED_SOLUTION
from .working_sets import Sizes

__all__ = ["LOWERED_UP_TO", "low_rank_or_not", "lowered_problem", "rank_that_wins"]

LOW_RANK_FROM, LOW_RANK_UP_TO = 5000, 100  # samples, rank: between them the interior method beats decomposition
PARAMETRIC_FROM = 1000  # samples: and mpd, which takes longer
PROBE_ROWS = 1000  # of a kernel that tell whether it may be of low rank:
PROBE_ERROR, PROBE_RANK = 0.2, 64  # share of the trace that so few columns may lack then
FEW_ROWS, FEW_COLUMNS = 200, 16  # the same in a millisecond, where pair steps are tried first
LOWERED_UP_TO = 400  # rank: with such a factor the interior method takes seconds where pair steps take minutes


def rank_that_wins(qp: QP, dense: bool) -> int:
    """Columns, at most, of a factor that may stand for the kernel and wins by far; 0 where there is none.

    Copies of points add no column. Their targets may differ, so that they are not one point of the problem.
    """
    gram = as_gram(qp.H)

    def wins(rank: int) -> bool:
        return not dense or bool(LAST * pair_patience(gram, qp.n, rank) <= pair_patience(gram, qp.n))

    if wins(LOWERED_UP_TO) and _looks_low(gram):
        return LOWERED_UP_TO
    if qp.n < Sizes.merge:
        return 0
    points = _distinct_points(gram)
    return points if points * gram.n_points <= FACTOR_UP_TO**2 and 2 * points <= gram.n_points and wins(points) else 0


def _inner(gram: Gram) -> Gram:
    """The matrix of which this one is a view."""
    while hasattr(gram, "inner") and not isinstance(gram, KernelGram):
        gram = gram.inner
    return gram


def _looks_low(gram: Gram) -> bool:
    """Whether a look of a millisecond says that a kernel may be of low rank.

    Parts of one, as pairs of classes and folds are, ask it together first: what the whole does not seem to be, parts
    that differ less seldom are.
    """
    whole = getattr(_inner(gram), "whole_kernel", None)
    if whole is not None and whole.n > gram.n_points:
        if whole.looks_low is None:
            whole.looks_low = _may_be_low_rank(whole, FEW_ROWS, FEW_COLUMNS)
        if not whole.looks_low:
            return False
    return _may_be_low_rank(gram, FEW_ROWS, FEW_COLUMNS)


def _distinct_points(gram: Gram) -> int:
    """Points of a kernel matrix, or of a view of one, that differ, as far as that is known."""
    inner = _inner(gram)
    first = inner.duplicates() if isinstance(inner, KernelGram) else None
    return inner.n if first is None else distinct(first)


def low_rank_or_not(gram: Gram, parametric: bool, stop: Callable[[], object] = lambda: None) -> Gram:
    """A factor in place of a kernel matrix that is numerically of low rank, or the matrix, also if ``stop()``."""
    least, most = (PARAMETRIC_FROM, LOWERED_UP_TO) if parametric else (LOW_RANK_FROM, LOW_RANK_UP_TO)
    if gram.n < least or stop():
        return gram
    if not _may_be_low_rank(gram, PROBE_ROWS, PROBE_RANK, stop=stop):
        return gram
    # The factor of a part needs no more columns than that of the whole, and tells so in a part of the time.
    if gram.n >= 2 * PROBE_ROWS and not _may_be_low_rank(gram, PROBE_ROWS, most, ROUNDED_SOLUTION, stop):
        return gram
    return low_rank(gram, ROUNDED_SOLUTION, most, stop=stop) or gram


def _may_be_low_rank(
    gram: Gram, rows: int, columns: int, error: float = PROBE_ERROR, stop: Callable[[], object] = lambda: None
) -> bool:
    """Whether so few columns leave so little of some rows of a kernel matrix, or of a view of one, that it may be."""
    some = np.linspace(0, gram.n - 1, min(gram.n, rows)).astype(np.int64)
    return lowered(gram.take(some), error, columns, stop=stop) is not None


def lowered_problem(qp: QP, rank: int, monitor: Monitor) -> QP | None:
    """The problem with a factor in place of its kernel matrix, or None where that takes too many columns."""
    H = lowered(as_gram(qp.H), ROUNDED_SOLUTION, rank, stop=monitor.stop_now)
    return None if H is None else replace(qp, H=H)
