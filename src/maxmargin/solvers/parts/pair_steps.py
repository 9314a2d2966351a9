"""Compiled leaves of the decomposition method: steps on pairs of variables, or on one at a time.

All of them work on v = −(Hβ + p) and on two arrays of offsets, so that in each group of variables
(edges[g] … edges[g + 1])

    m = max (v + rise)    over variables that may grow      M = min (v + fall)    over those that may shrink

and m − M is the violation. Rows of H are slab[slot[i]]; slot[i] < 0 says that the row is not at hand. Its diagonal is
``diag``, whatever rows have there: those of a matrix that somebody else keeps lack what a view adds.

A maximum over a tile of variables vectorises; which variable it was is looked up in the best tile only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._jit import helper, inline, jit, shared
from .fixed_sums import BIG

__all__ = [
    "HUGE",
    "TILE",
    "TINY_CURVATURE",
    "Variables",
    "first_that_gains",
    "first_that_has",
    "gather",
    "mend",
    "pair_steps",
    "set_offsets",
    "single_steps",
    "steps_of_pairs",
    "steps_of_singles",
    "subtract",
    "subtract_rows",
]

TINY_CURVATURE = 1e-12  # LIBSVM's τ: what the curvature of a step counts at least
TILE = 64  # variables
HUGE = 1e30  # a coefficient that large shows that there is no minimum


class Variables(NamedTuple):
    """What steps know of each variable. They move v, β, rise and fall in place."""

    v: np.ndarray  # −(Hβ + p)
    beta: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    eps: np.ndarray
    diag: np.ndarray  # of H
    rise: np.ndarray  # added to v of a variable that may grow; −BIG if it may not
    fall: np.ndarray  # added to v of a variable that may shrink; BIG if it may not

    def take(self, W: np.ndarray) -> Variables:
        """A copy of these variables."""
        return Variables(*[values[W] for values in self])


@jit
def gather(slab, slots, columns, out, start, stop):
    """out = slab[slots][:, columns], rows start to stop."""
    for r in range(start, stop):
        row = slab[slots[r]]
        for c in range(len(columns)):
            out[r, c] = row[columns[c]]


@helper
def subtract(slab, slots, delta, count, v, start, stop):
    """v −= Σ_k delta_k slab[slots_k] over the first ``count`` rows, columns start to stop, four rows at a time."""
    k = 0
    while k + 4 <= count:
        r0, r1, r2, r3 = slab[slots[k]], slab[slots[k + 1]], slab[slots[k + 2]], slab[slots[k + 3]]
        d0, d1, d2, d3 = delta[k], delta[k + 1], delta[k + 2], delta[k + 3]
        for t in range(start, stop):
            v[t] -= (d0 * r0[t] + d1 * r1[t]) + (d2 * r2[t] + d3 * r3[t])
        k += 4
    while k < count:
        r0 = slab[slots[k]]
        d0 = delta[k]
        for t in range(start, stop):
            v[t] -= d0 * r0[t]
        k += 1


@jit
def subtract_rows(slab, slots, delta, v, start, stop):
    """v −= Σ_k delta_k slab[slots_k], columns start to stop, by pieces of v that stay in the nearest cache."""
    width = 2048
    for t0 in range(start, stop, width):
        subtract(slab, slots, delta, len(slots), v, t0, min(t0 + width, stop))


@helper
def set_offsets(i, x):
    """What variable i may do next."""
    b, e = x.beta[i], x.eps[i]
    x.rise[i] = -BIG if b >= x.upper[i] else (-e if b >= 0.0 else e)
    x.fall[i] = BIG if b <= x.lower[i] else (-e if b > 0.0 else e)


@helper
def _move(i, change, x):
    """β_i += change, which must not cross a bound or, with ε, zero."""
    low = x.lower[i]
    high = x.upper[i]
    if x.eps[i] > 0.0:
        if x.beta[i] < 0.0:
            high = min(high, 0.0)
        elif x.beta[i] > 0.0:
            low = max(low, 0.0)
    x.beta[i] = min(max(x.beta[i] + change, low), high)
    set_offsets(i, x)


@inline
def mend(i, change, row, x):
    """v_i −= change (H_ii − row_i): what a row that is subtracted leaves out."""
    x.v[i] -= change * (x.diag[i] - np.float64(row[i]))


@helper
def _room_up(i, x):
    room = x.upper[i] - x.beta[i]
    return min(-x.beta[i], room) if x.eps[i] > 0.0 and x.beta[i] < 0.0 else room


@helper
def _room_down(i, x):
    room = x.beta[i] - x.lower[i]
    return min(x.beta[i], room) if x.eps[i] > 0.0 and x.beta[i] > 0.0 else room


# -- pairs ------------------------------------------------------------------------------------------------------


@inline
def _pass(row_i, row_j, t, x, first, last):
    """v −= t (row i − row j) on the variables first … last; their m, the tile that has it, and their M."""
    v, rise, fall = x.v, x.rise, x.fall
    high = -BIG
    low = BIG
    where = first
    for t0 in range(first, last, TILE):
        t1 = min(t0 + TILE, last)
        tile_high = -BIG
        tile_low = BIG
        if t != 0.0:  # a row that is not at hand may hold anything
            for s in range(t0, t1):
                new = v[s] - t * (np.float64(row_i[s]) - np.float64(row_j[s]))
                v[s] = new
                tile_high = max(tile_high, new + rise[s])
                tile_low = min(tile_low, new + fall[s])
        else:
            for s in range(t0, t1):
                tile_high = max(tile_high, v[s] + rise[s])
                tile_low = min(tile_low, v[s] + fall[s])
        if tile_high > high:
            high = tile_high
            where = t0
        low = min(low, tile_low)
    return high, where, low


@helper
def first_that_has(value, v, offset, first, last):
    """The first variable of a tile, first … last, with v + offset = value."""
    for s in range(first, last):
        if v[s] + offset[s] == value:
            return s
    return first


@inline
def _partner(i, row_i, top, x, first, last, second_order):
    """The variable that shrinks while i grows: by the largest decrease b²/2a of the objective, or by its slope b."""
    v, fall, diag = x.v, x.fall, x.diag
    d = diag[i]
    best = -1.0
    where = first
    for t0 in range(first, last, TILE):
        tile_best = -1.0
        for s in range(t0, min(t0 + TILE, last)):
            b = max(top - (v[s] + fall[s]), 0.0)
            a = max(d + diag[s] - 2.0 * np.float64(row_i[s]), TINY_CURVATURE)
            tile_best = max(tile_best, b * b / a if second_order else b)
        if tile_best > best:
            best = tile_best
            where = t0
    for s in range(where, min(where + TILE, last)):
        b = max(top - (v[s] + fall[s]), 0.0)
        a = max(d + diag[s] - 2.0 * np.float64(row_i[s]), TINY_CURVATURE)
        if (b * b / a if second_order else b) == best:
            return s
    return where


@jit
def pair_steps(slab, slot, x, edges, second_order, tol, most):
    """Pair steps, for callers in Python."""
    return steps_of_pairs(slab, slot, x, edges, second_order, tol, most)


@shared
def steps_of_pairs(slab, slot, x, edges, second_order, tol, most):
    """Pair steps until the violation is below tol, a row is missing, or ``most`` steps were made.

    Returns (steps, violation, missing row or −1). Each step moves β_i up and β_j down by t along the
    feasible line: i has the largest v + rise of its group, j the largest decrease of the objective,
    b²/2a with slope b and curvature a.
    """
    i = j = 0
    t = 0.0
    steps = 0
    while True:
        row_i = slab[max(slot[i], 0)]
        row_j = slab[max(slot[j], 0)]
        g, m, M, tile = 0, -BIG, BIG, edges[0]
        for h in range(len(edges) - 1):
            high, where, low = _pass(row_i, row_j, t, x, edges[h], edges[h + 1])
            if h == 0 or high - low > m - M:
                g, m, M, tile = h, high, low, where
        t = 0.0
        violation = m - M
        if violation < tol or steps >= most:
            return steps, violation, -1
        i = first_that_has(m, x.v, x.rise, tile, min(tile + TILE, edges[g + 1]))
        if slot[i] < 0:
            return steps, violation, i
        row_i = slab[slot[i]]
        j = _partner(i, row_i, m, x, edges[g], edges[g + 1], second_order)
        if slot[j] < 0:
            return steps, violation, j
        slope = m - (x.v[j] + x.fall[j])
        curvature = max(x.diag[i] + x.diag[j] - 2.0 * np.float64(row_i[j]), TINY_CURVATURE)
        t = min(slope / curvature, _room_up(i, x), _room_down(j, x))
        _move(i, t, x)
        _move(j, -t, x)
        mend(i, t, row_i, x)
        mend(j, -t, slab[slot[j]], x)
        steps += 1
        if abs(x.beta[i]) > HUGE or abs(x.beta[j]) > HUGE:
            return steps, violation, -1


# -- one variable at a time -------------------------------------------------------------------------------------


@helper
def _single_pass(row, t, x):
    """v −= t row; returns the largest pulls up and down, the largest decrease of the objective and its tile."""
    v, rise, fall, diag = x.v, x.rise, x.fall, x.diag
    high = 0.0
    low = 0.0
    best = 0.0
    where = 0
    for t0 in range(0, len(v), TILE):
        t1 = min(t0 + TILE, len(v))
        tile_best = 0.0
        if t != 0.0:  # a row that is not at hand may hold anything
            for s in range(t0, t1):
                v[s] -= t * np.float64(row[s])
        for s in range(t0, t1):
            grow = max(v[s] + rise[s], 0.0)
            shrink = max(-(v[s] + fall[s]), 0.0)
            high = max(high, grow)
            low = max(low, shrink)
            pull = max(grow, shrink)
            tile_best = max(tile_best, pull * pull / max(diag[s], TINY_CURVATURE))
        if tile_best > best:
            best = tile_best
            where = t0
    return high, low, best, where


@helper
def first_that_gains(best, x, tile):
    """The first variable of a tile whose step makes the objective smaller by half of ``best``."""
    for s in range(tile, min(tile + TILE, len(x.v))):
        pull = max(max(x.v[s] + x.rise[s], -(x.v[s] + x.fall[s])), 0.0)
        if pull * pull / max(x.diag[s], TINY_CURVATURE) == best:
            return s
    return tile


@jit
def single_steps(slab, slot, x, tol, most):
    """Steps on one variable at a time, for callers in Python."""
    return steps_of_singles(slab, slot, x, tol, most)


@shared
def steps_of_singles(slab, slot, x, tol, most):
    """Steps on one variable at a time, for problems without equality constraints (Gauss–Seidel, MPD §4.2).

    The variable with the largest decrease of the objective moves to its minimum, its bound, or zero.
    """
    i = 0
    t = 0.0
    steps = 0
    while True:
        high, low, best, where = _single_pass(slab[max(slot[i], 0)], t, x)
        t = 0.0
        violation = high + low
        if violation < tol or steps >= most:
            return steps, violation, -1
        i = first_that_gains(best, x, where)
        if slot[i] < 0:
            return steps, violation, i
        before = x.beta[i]
        curvature = max(x.diag[i], TINY_CURVATURE)
        if x.v[i] + x.rise[i] >= -(x.v[i] + x.fall[i]):
            t = min((x.v[i] + x.rise[i]) / curvature, _room_up(i, x))
        else:
            t = max((x.v[i] + x.fall[i]) / curvature, -_room_down(i, x))
        _move(i, t, x)
        t = x.beta[i] - before
        mend(i, t, slab[slot[i]], x)
        steps += 1
        if abs(x.beta[i]) > HUGE:
            return steps, violation, -1
