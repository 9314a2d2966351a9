"""Steps over all variables that make the kernel rows they miss, one at a time.

A block of rows that promise most holds many that no step will ever need: on data with few support vectors two thirds
and more. Steps know which row comes next, and where points are small enough (gram/columns.py) a leaf makes it as
quickly alone as in a block.
"""

from __future__ import annotations

import numpy as np

from ..._jit import helper, jit
from ...gram import RowCache
from ...gram.columns import kernel_row
from ...monitor import clock
from .pair_steps import Variables, pair_steps, single_steps, steps_of_pairs, steps_of_singles
from .small_sets import room, small_set_steps, steps_of_sets

__all__ = ["steps_over_all"]


def steps_over_all(
    cache: RowCache,
    x: Variables,
    edges: np.ndarray | None,
    sets: bool,
    second_order: bool,
    tol: float,
    most: int,
    rows: int,
) -> tuple[int, float, int, int]:
    """Steps until the violation is below tol, a row is missing that nobody makes, or ``most`` steps were made.

    ``edges``: of groups, or None without equality constraints; ``sets``: small sets of variables in place of pairs;
    ``rows``: so many may be made, where they are made alone. Returns (steps, violation, missing row or −1, rows made).
    """
    slab, slot, points = cache.slab, cache.slot, cache.gram.by_feature() if rows else None
    if points is None:
        if edges is None:
            return *single_steps(slab, slot, x, tol, most), 0
        leaf = small_set_steps if sets else pair_steps
        return *leaf(slab, slot, x, edges, second_order, tol, most), 0
    begun, first = clock(), cache.filled
    free = np.array([first, first + rows])
    space = room(edges, slab.dtype) if sets and edges is not None else None
    steps, violation, missing = steps_and_rows(slab, slot, x, edges, second_order, tol, most, space, points, free)
    made = int(free[0]) - first
    # A row takes about as long as a step: both look at all variables once or twice.
    cache.take_over(made, (clock() - begun) * made / max(1, made + steps))
    return steps, violation, missing if cache.filled == cache.limit else -1, made


@helper
def _made(missing, slab, slot, points, free):
    """Whether a row that is missing could be made: the free slots are free[0] … free[1]."""
    if missing < 0 or free[0] >= free[1]:
        return False
    kernel_row(missing, points, slab[free[0]])
    slot[missing] = free[0]
    free[0] += 1
    return True


@jit
def steps_and_rows(slab, slot, x, edges, second_order, tol, most, space, points, free):
    """Steps and the rows they need: on one variable without edges, on pairs without space for small sets."""
    steps = 0
    while True:
        if edges is None:  # known to the compiler, which leaves the other steps out
            more, violation, missing = steps_of_singles(slab, slot, x, tol, most - steps)
        elif space is None:
            more, violation, missing = steps_of_pairs(slab, slot, x, edges, second_order, tol, most - steps)
        else:
            more, violation, missing = steps_of_sets(
                slab, slot, x, edges, second_order, tol, most - steps, space[0], space[1]
            )
        steps += more
        if not _made(missing, slab, slot, points, free):
            return steps, violation, missing
