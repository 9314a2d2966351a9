"""Compiled leaf of the decomposition method for many variables: small sets of them, solved by pair steps.

The best pair of many variables takes a pass over all of them. A small set takes the best variable of each of the tiles
(of 64 variables) that promise most, half of them to grow and half to shrink, and does several steps a pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._jit import helper, inline, jit, shared
from .fixed_sums import BIG
from .pair_steps import TILE, Variables, first_that_has, mend, steps_of_pairs, subtract

__all__ = ["room", "small_set_steps", "steps_of_sets"]

SET = 16  # variables of a small set: half of them ask to grow, half to shrink
SET_STEPS = 5  # pair steps a variable that a small set gets at most
INNER_TOL = 0.3  # share of the violation that a small set, or a working set, may keep


class SmallSet(NamedTuple):
    """Room for a few variables W with their block K of H; of those that moved, the slots of rows and the changes."""

    W: np.ndarray
    edges: np.ndarray  # of their one group: 0 and how many they are
    K: np.ndarray
    slot: np.ndarray  # of rows in K: row k is in slot k
    x: Variables
    rows: np.ndarray
    delta: np.ndarray


class Tiles(NamedTuple):
    """m and M of each tile; those of group g are first[g] … first[g + 1]. A tile does not reach over a group's edge."""

    first: np.ndarray
    highs: np.ndarray
    lows: np.ndarray
    best: np.ndarray  # room for the numbers of the best tiles of one side


def room(edges: np.ndarray, dtype: np.dtype) -> tuple[SmallSet, Tiles]:
    """A small set and tiles, both empty. Made in Python: a leaf that allocates counts references, twice the code."""
    a, W = np.empty((9, SET)), np.empty((4, SET), np.int64)
    W[1] = np.arange(SET)
    x = Variables(*a[:8])
    small = SmallSet(W[0], np.zeros(2, np.int64), np.empty((SET, SET), dtype), W[1], x, W[2], a[8])
    first = np.concatenate([[0], np.cumsum(-(-np.diff(edges) // TILE))])
    highs, lows = np.empty((2, first[-1]))
    return small, Tiles(first, highs, lows, W[3, : SET // 2])


@inline
def _pass_by_tiles(slab, small, moved, x, edges, tiles):
    """Bring v up to date and find m and M of each tile; returns the group of the largest violation, its m and M."""
    v, rise, fall = x.v, x.rise, x.fall
    worst, m, M = 0, -BIG, BIG
    for g in range(len(edges) - 1):
        high = -BIG
        low = BIG
        for b in range(tiles.first[g], tiles.first[g + 1]):
            t0 = edges[g] + (b - tiles.first[g]) * TILE
            t1 = min(t0 + TILE, edges[g + 1])
            subtract(slab, small.rows, small.delta, moved, v, t0, t1)
            tile_high = -BIG
            tile_low = BIG
            for s in range(t0, t1):
                tile_high = max(tile_high, v[s] + rise[s])
                tile_low = min(tile_low, v[s] + fall[s])
            tiles.highs[b] = tile_high
            tiles.lows[b] = tile_low
            high = max(high, tile_high)
            low = min(low, tile_low)
        if g == 0 or high - low > m - M:
            worst, m, M = g, high, low
    return worst, m, M


@helper
def _best_tiles(values, first, last, sign, chosen):
    """The tiles first … last with the largest sign * value, best first, into chosen; how many."""
    count = 0
    for _ in range(len(chosen)):
        best = -BIG
        where = -1
        for b in range(first, last):
            x = sign * values[b]
            if x > best:
                seen = False
                for c in range(count):
                    if chosen[c] == b:
                        seen = True
                if not seen:
                    best = x
                    where = b
        if where < 0:
            break
        chosen[count] = where
        count += 1
    return count


@helper
def _choose(values, offset, sign, bound, g, slot, v, edges, tiles, W, q):
    """Add to W, which has q variables, the best one of each of the best tiles whose sign * value exceeds the bound.

    Returns how many W has then, and the row that is missing of the very best, or −1.
    """
    count = _best_tiles(values, tiles.first[g], tiles.first[g + 1], sign, tiles.best)
    for c in range(count):
        b = tiles.best[c]
        if sign * values[b] <= bound:
            break
        t0 = edges[g] + (b - tiles.first[g]) * TILE
        pick = first_that_has(values[b], v, offset, t0, min(t0 + TILE, edges[g + 1]))
        if slot[pick] < 0:
            if c == 0:
                return q, pick
            continue
        new = True
        for k in range(q):
            if W[k] == pick:
                new = False
        if new:
            W[q] = pick
            q += 1
    return q, -1


@inline
def _load(slab, slot, x, small, q):
    """The q variables of a small set and their block of H."""
    own = small.x
    small.edges[1] = q
    for k in range(q):
        i = small.W[k]
        row = slab[slot[i]]
        for c in range(q):
            small.K[k, c] = row[small.W[c]]
        own.v[k], own.beta[k], own.lower[k], own.upper[k] = x.v[i], x.beta[i], x.lower[i], x.upper[i]
        own.eps[k], own.diag[k], own.rise[k], own.fall[k] = x.eps[i], x.diag[i], x.rise[i], x.fall[i]


@inline
def _store(slab, slot, x, small, q):
    """Take over what a small set has found; returns how many of its variables moved."""
    moved = 0
    for k in range(q):
        i = small.W[k]
        change = small.x.beta[k] - x.beta[i]
        if change != 0.0:
            small.rows[moved] = slot[i]
            small.delta[moved] = change
            mend(i, change, slab[slot[i]], x)
            moved += 1
        x.beta[i], x.rise[i], x.fall[i] = small.x.beta[k], small.x.rise[k], small.x.fall[k]
    return moved


@jit
def set_steps(slab, slot, x, edges, second_order, tol, most, small, tiles):
    """Steps of small sets, for callers in Python."""
    return steps_of_sets(slab, slot, x, edges, second_order, tol, most, small, tiles)


@shared
def steps_of_sets(slab, slot, x, edges, second_order, tol, most, small, tiles):
    """What small_set_steps does, in room that it has made."""
    none = np.int64(0)  # a plain 0 is a type of its own, for which helpers would be compiled once more
    moved = none
    steps = 0
    while True:
        g, m, M = _pass_by_tiles(slab, small, moved, x, edges, tiles)
        violation = m - M
        if violation < tol or steps >= most:
            return steps, violation, -1
        q, missing = _choose(tiles.highs, x.rise, 1.0, M, g, slot, x.v, edges, tiles, small.W, none)
        if missing < 0:
            q, missing = _choose(tiles.lows, x.fall, -1.0, -m, g, slot, x.v, edges, tiles, small.W, q)
        if missing >= 0:
            return steps, violation, missing
        _load(slab, slot, x, small, q)
        finer = max(tol * 0.5, violation * INNER_TOL)
        most_here = SET_STEPS * len(small.W)
        made, _, _ = steps_of_pairs(small.K, small.slot, small.x, small.edges, second_order, finer, most_here)
        steps += made
        moved = _store(slab, slot, x, small, q)


def small_set_steps(
    slab: np.ndarray, slot: np.ndarray, x: Variables, edges: np.ndarray, second_order: bool, tol: float, most: int
) -> tuple[int, float, int]:
    """As steps_of_pairs, but on sets of a few violating variables: v of all is updated once a set, not once a step."""
    return set_steps(slab, slot, x, edges, second_order, tol, most, *room(edges, slab.dtype))
