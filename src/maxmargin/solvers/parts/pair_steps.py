"""Compiled leaves of the decomposition method: steps on pairs and on small sets of variables.

All of them work on v = −(Hβ + p) and on two arrays of offsets, so that in each group of variables
(edges[g] … edges[g + 1])

    m = max (v + rise)    over variables that may grow      M = min (v + fall)    over those that may shrink

and m − M is the violation. Rows of H are slab[slot[i]]; slot[i] < 0 says that the row is not at hand.
"""

from __future__ import annotations

import numpy as np

from ..._jit import helper, inline, jit
from .fixed_sums import BIG

__all__ = ["HUGE", "gather", "pair_steps", "single_steps", "small_set_steps", "subtract_rows"]

TINY_CURVATURE = 1e-12  # LIBSVM's τ: what the curvature of a step counts at least
TILE = 64  # a maximum over a tile vectorises; which entry it was is looked up in the best tile only
HUGE = 1e30  # a coefficient that large shows that there is no minimum
SET = 16  # variables of a small set: half of them ask to grow, half to shrink
SET_TOL = 0.3  # how much of the violation a small set may keep


@jit
def gather(slab, slots, columns, out, start, stop):
    """out = slab[slots][:, columns], rows start to stop."""
    for r in range(start, stop):
        row = slab[slots[r]]
        for c in range(len(columns)):
            out[r, c] = row[columns[c]]


@jit
def subtract_rows(slab, slots, delta, v, start, stop):
    """v −= Σ_k delta_k slab[slots_k], columns start to stop, four rows at a time and tile by tile."""
    width = 2048
    for t0 in range(start, stop, width):
        t1 = min(t0 + width, stop)
        k = 0
        while k + 4 <= len(slots):
            r0, r1, r2, r3 = slab[slots[k]], slab[slots[k + 1]], slab[slots[k + 2]], slab[slots[k + 3]]
            d0, d1, d2, d3 = delta[k], delta[k + 1], delta[k + 2], delta[k + 3]
            for t in range(t0, t1):
                v[t] -= (d0 * r0[t] + d1 * r1[t]) + (d2 * r2[t] + d3 * r3[t])
            k += 4
        while k < len(slots):
            r0 = slab[slots[k]]
            d0 = delta[k]
            for t in range(t0, t1):
                v[t] -= d0 * r0[t]
            k += 1


@inline
def _move(i, change, beta, lower, upper, eps, rise, fall):
    """β_i += change, which must not cross a bound or, with ε, zero; then what it may do next."""
    x = beta[i] + change
    low = lower[i]
    high = upper[i]
    if eps[i] > 0.0:
        if beta[i] < 0.0:
            high = min(high, 0.0)
        elif beta[i] > 0.0:
            low = max(low, 0.0)
    x = min(max(x, low), high)
    beta[i] = x
    rise[i] = -BIG if x >= upper[i] else (-eps[i] if x >= 0.0 else eps[i])
    fall[i] = BIG if x <= lower[i] else (-eps[i] if x > 0.0 else eps[i])


@inline
def _room_up(i, beta, upper, eps):
    return min(-beta[i], upper[i] - beta[i]) if eps[i] > 0.0 and beta[i] < 0.0 else upper[i] - beta[i]


@inline
def _room_down(i, beta, lower, eps):
    return min(beta[i], beta[i] - lower[i]) if eps[i] > 0.0 and beta[i] > 0.0 else beta[i] - lower[i]


@jit
def pair_steps(slab, slot, v, beta, lower, upper, eps, diag, rise, fall, edges, second_order, tol, most):
    """Pair steps until the violation is below tol, a row is missing, or ``most`` steps were made.

    Returns (steps, violation, missing row or −1). Each step moves β_i up and β_j down by t along the
    feasible line: i has the largest v + rise of its group, j the largest decrease of the objective,
    b²/2a with slope b and curvature a.
    """
    groups = len(edges) - 1
    best_tile = np.empty(groups, np.int64)
    m = np.empty(groups)
    M = np.empty(groups)
    i = j = 0
    t = 0.0
    steps = 0
    while True:
        row_i = slab[max(slot[i], 0)]
        row_j = slab[max(slot[j], 0)]
        for g in range(groups):
            high = -BIG
            low = BIG
            where = edges[g]
            for t0 in range(edges[g], edges[g + 1], TILE):
                t1 = min(t0 + TILE, edges[g + 1])
                tile_high = -BIG
                tile_low = BIG
                if t != 0.0:
                    for s in range(t0, t1):
                        x = v[s] - t * (np.float64(row_i[s]) - np.float64(row_j[s]))
                        v[s] = x
                        tile_high = max(tile_high, x + rise[s])
                        tile_low = min(tile_low, x + fall[s])
                else:
                    for s in range(t0, t1):
                        tile_high = max(tile_high, v[s] + rise[s])
                        tile_low = min(tile_low, v[s] + fall[s])
                if tile_high > high:
                    high = tile_high
                    where = t0
                low = min(low, tile_low)
            m[g] = high
            M[g] = low
            best_tile[g] = where
        t = 0.0
        g = 0
        for h in range(1, groups):
            if m[h] - M[h] > m[g] - M[g]:
                g = h
        violation = m[g] - M[g]
        if violation < tol or steps >= most:
            return steps, violation, -1
        for s in range(best_tile[g], min(best_tile[g] + TILE, edges[g + 1])):
            if v[s] + rise[s] == m[g]:
                i = s
                break
        if slot[i] < 0:
            return steps, violation, i
        row_i = slab[slot[i]]
        top = m[g]
        d = diag[i]
        best = -1.0
        where = edges[g]
        for t0 in range(edges[g], edges[g + 1], TILE):
            t1 = min(t0 + TILE, edges[g + 1])
            tile_best = -1.0
            for s in range(t0, t1):
                b = max(top - (v[s] + fall[s]), 0.0)
                a = max(d + diag[s] - 2.0 * np.float64(row_i[s]), TINY_CURVATURE)
                tile_best = max(tile_best, b * b / a if second_order else b)
            if tile_best > best:
                best = tile_best
                where = t0
        for s in range(where, min(where + TILE, edges[g + 1])):
            b = max(top - (v[s] + fall[s]), 0.0)
            a = max(d + diag[s] - 2.0 * np.float64(row_i[s]), TINY_CURVATURE)
            if (b * b / a if second_order else b) == best:
                j = s
                break
        if slot[j] < 0:
            return steps, violation, j
        b = top - (v[j] + fall[j])
        a = max(d + diag[j] - 2.0 * np.float64(row_i[j]), TINY_CURVATURE)
        t = min(b / a, _room_up(i, beta, upper, eps), _room_down(j, beta, lower, eps))
        _move(i, t, beta, lower, upper, eps, rise, fall)
        _move(j, -t, beta, lower, upper, eps, rise, fall)
        steps += 1
        if abs(beta[i]) > HUGE or abs(beta[j]) > HUGE:
            return steps, violation, -1


@helper
def _best_tiles(values, first, last, sign, chosen):
    """The tiles first..last with the largest sign * value, best first, into chosen; how many."""
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


@jit
def small_set_steps(slab, slot, v, beta, lower, upper, eps, diag, rise, fall, edges, second_order, tol, most):
    """Sets of a few violating variables, solved by pair steps, v updated for all of them in one pass."""
    groups = len(edges) - 1
    first_tile = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        first_tile[g + 1] = first_tile[g] + (edges[g + 1] - edges[g] + TILE - 1) // TILE
    tiles = first_tile[groups]
    highs = np.empty(tiles)
    lows = np.empty(tiles)
    tops = np.empty(SET // 2, np.int64)
    W = np.empty(SET, np.int64)
    K = np.empty((SET, SET), slab.dtype)
    one_slot = np.empty(SET, np.int64)
    for k in range(SET):
        one_slot[k] = k
    w_edges = np.zeros(2, np.int64)
    w_v = np.empty(SET)
    w_beta = np.empty(SET)
    w_lower = np.empty(SET)
    w_upper = np.empty(SET)
    w_eps = np.empty(SET)
    w_diag = np.empty(SET)
    w_rise = np.empty(SET)
    w_fall = np.empty(SET)
    rows = np.empty(SET, np.int64)
    delta = np.empty(SET)
    moved = 0
    steps = 0
    while True:
        violation = -BIG
        g = 0
        for h in range(groups):
            high = -BIG
            low = BIG
            for b in range(first_tile[h], first_tile[h + 1]):
                t0 = edges[h] + (b - first_tile[h]) * TILE
                t1 = min(t0 + TILE, edges[h + 1])
                k = 0
                while k + 4 <= moved:
                    r0, r1, r2, r3 = slab[rows[k]], slab[rows[k + 1]], slab[rows[k + 2]], slab[rows[k + 3]]
                    d0, d1, d2, d3 = delta[k], delta[k + 1], delta[k + 2], delta[k + 3]
                    for s in range(t0, t1):
                        v[s] -= (d0 * r0[s] + d1 * r1[s]) + (d2 * r2[s] + d3 * r3[s])
                    k += 4
                while k < moved:
                    r0 = slab[rows[k]]
                    d0 = delta[k]
                    for s in range(t0, t1):
                        v[s] -= d0 * r0[s]
                    k += 1
                tile_high = -BIG
                tile_low = BIG
                for s in range(t0, t1):
                    tile_high = max(tile_high, v[s] + rise[s])
                    tile_low = min(tile_low, v[s] + fall[s])
                highs[b] = tile_high
                lows[b] = tile_low
                high = max(high, tile_high)
                low = min(low, tile_low)
            if high - low > violation:
                violation = high - low
                g = h
        if violation < tol or steps >= most:
            return steps, violation, -1
        low = BIG
        high = -BIG
        for b in range(first_tile[g], first_tile[g + 1]):
            high = max(high, highs[b])
            low = min(low, lows[b])
        q = 0
        for side in range(2):
            count = _best_tiles(
                highs if side == 0 else lows, first_tile[g], first_tile[g + 1], 1.0 if side == 0 else -1.0, tops
            )
            for c in range(count):
                b = tops[c]
                t0 = edges[g] + (b - first_tile[g]) * TILE
                t1 = min(t0 + TILE, edges[g + 1])
                if (side == 0 and highs[b] <= low) or (side == 1 and lows[b] >= high):
                    break
                pick = t0
                for s in range(t0, t1):
                    if (side == 0 and v[s] + rise[s] == highs[b]) or (side == 1 and v[s] + fall[s] == lows[b]):
                        pick = s
                        break
                if slot[pick] < 0:
                    if c == 0:
                        return steps, violation, pick
                    continue
                new = True
                for k in range(q):
                    if W[k] == pick:
                        new = False
                if new:
                    W[q] = pick
                    q += 1
        for k in range(q):
            i = W[k]
            row = slab[slot[i]]
            for c in range(q):
                K[k, c] = row[W[c]]
            w_v[k], w_beta[k], w_lower[k], w_upper[k] = v[i], beta[i], lower[i], upper[i]
            w_eps[k], w_diag[k], w_rise[k], w_fall[k] = eps[i], diag[i], rise[i], fall[i]
        w_edges[1] = q  # what is behind it is not looked at
        inner, _, _ = pair_steps(
            K, one_slot, w_v, w_beta, w_lower, w_upper, w_eps, w_diag, w_rise, w_fall, w_edges, second_order,
            max(tol * 0.5, violation * SET_TOL), 5 * SET,
        )  # fmt: skip
        steps += inner
        moved = 0
        for k in range(q):
            i = W[k]
            change = w_beta[k] - beta[i]
            if change != 0.0:
                rows[moved] = slot[i]
                delta[moved] = change
                moved += 1
            beta[i], rise[i], fall[i] = w_beta[k], w_rise[k], w_fall[k]


@jit
def single_steps(slab, slot, v, beta, lower, upper, eps, diag, rise, fall, tol, most):
    """Steps on one variable at a time, for problems without equality constraints (Gauss–Seidel, MPD §4.2).

    The variable with the largest decrease of the objective moves to its minimum, its bound, or zero.
    """
    n = len(v)
    i = 0
    t = 0.0
    steps = 0
    while True:
        row = slab[max(slot[i], 0)]
        high = 0.0
        low = 0.0
        best = 0.0
        where = 0
        for t0 in range(0, n, TILE):
            t1 = min(t0 + TILE, n)
            tile_best = 0.0
            if t != 0.0:  # a row that is not at hand may hold anything
                for s in range(t0, t1):
                    v[s] -= t * np.float64(row[s])
            for s in range(t0, t1):
                x = v[s]
                grow = max(x + rise[s], 0.0)
                shrink = max(-(x + fall[s]), 0.0)
                high = max(high, grow)
                low = max(low, shrink)
                pull = max(grow, shrink)
                tile_best = max(tile_best, pull * pull / max(diag[s], TINY_CURVATURE))
            if tile_best > best:
                best = tile_best
                where = t0
        t = 0.0
        violation = high + low
        if violation < tol or steps >= most:
            return steps, violation, -1
        growing = True
        for s in range(where, min(where + TILE, n)):
            grow = max(v[s] + rise[s], 0.0)
            shrink = max(-(v[s] + fall[s]), 0.0)
            pull = max(grow, shrink)
            if pull * pull / max(diag[s], TINY_CURVATURE) == best:
                i = s
                growing = grow >= shrink
                break
        if slot[i] < 0:
            return steps, violation, i
        before = beta[i]
        curvature = max(diag[i], TINY_CURVATURE)
        if growing:
            t = min((v[i] + rise[i]) / curvature, _room_up(i, beta, upper, eps))
        else:
            t = max((v[i] + fall[i]) / curvature, -_room_down(i, beta, lower, eps))
        _move(i, t, beta, lower, upper, eps, rise, fall)
        t = beta[i] - before
        steps += 1
        if abs(beta[i]) > HUGE:
            return steps, violation, -1
