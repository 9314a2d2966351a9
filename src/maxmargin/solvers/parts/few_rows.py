"""Rows of features that are so few that one compiled leaf reads them sooner than anybody is asked to."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...rows import Rows

__all__ = ["are_few", "few_rows", "leaf_work"]

SMALL = 1 << 17  # numbers are read by one leaf in the time that it takes to ask for a step by products
SMALL_DENSE = (
    1 << 19
)  # or so many, if they are not mostly 0: they stay in the caches of a core, and threads gain little
IN_A_VECTOR = 8  # numbers of an array are read in the time of one entry of a sparse row
ROW_WORK = 30  # numbers are read in the time that a row takes for its barrier, in all of an iteration
FACTOR_SPEED = 8  # products of a normal matrix in the time of one number that is read


def few_rows(rows: Rows, extra: np.ndarray) -> np.ndarray | None:
    """Ẑ = [Z, extra] as an array, where steps over it by one leaf are the quickest; None where they are not."""
    if not are_few(rows, extra.shape[1]):
        return None
    X = rows.matrix()
    return np.hstack([X.toarray() if sp.issparse(X) else X, extra], dtype=np.float64)


def are_few(rows: Rows, more: int) -> bool:
    """Whether rows with some more columns are so few."""
    most = min(max(SMALL, IN_A_VECTOR * rows.work), SMALL_DENSE)
    return not rows.stored and rows.n * (rows.d + more) <= most


def leaf_work(n: int, columns: int) -> int:
    """Numbers that are read in the time of an iteration of the interior method (barrier_steps.py)."""
    return n * (columns + ROW_WORK) + n * columns * columns // FACTOR_SPEED
