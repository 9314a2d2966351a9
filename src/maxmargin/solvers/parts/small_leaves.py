"""Compiled leaves of small_problems.py: pair steps and Newton's steps on one small problem after the other.

One problem is sorted by group, its rows of H are loaded from the shared matrix as they are needed (small_rows.py).
Newton's steps have a file of their own (small_newton.py).
"""

from __future__ import annotations

import numpy as np

from ..._jit import aside, inline, jit
from .fixed_sums import BIG
from .limits import DECREASE, LESS, MARGIN
from .pair_steps import HUGE, Variables, steps_of_pairs, steps_of_singles
from .roundings import ROUNDED_SOLUTION
from .small_newton import newton_rounds
from .small_rows import load_row, source_of, times

__all__ = ["certify_slice", "solve_slice"]

LOAD_UP_TO = 32  # variables: up to here a matrix at hand is loaded whole, above by rows as they are needed
STEPS_A_VARIABLE = 10  # before the free variables are solved for; most problems need fewer
NEWTON_SHARE = 2  # of the work of pair steps, between them
EPS = np.finfo(np.float64).eps
TINY = np.finfo(np.float64).tiny  # what to divide by instead of 0
STALL_ROUNDS = 20  # without progress before we give up

CONVERGED, UNFINISHED, SPENT, STALLED, UNBOUNDED, INFEASIBLE, CROWDED = range(7)


@aside
def into_box(x, lower, upper, edges, sums):
    """Move x into its box, then along each group in turn until its sum is right; whether that can be."""
    for r in range(len(x)):
        x[r] = min(max(x[r], lower[r]), upper[r])
    for g in range(len(sums)):
        total = 0.0
        for r in range(edges[g], edges[g + 1]):
            total += x[r]
        missing = sums[g] - total
        slack = ROUNDED_SOLUTION * (abs(total) + abs(sums[g]))
        for r in range(edges[g], edges[g + 1]):
            b, down, up = x[r], lower[r], upper[r]
            step = min(max(missing, down - b), up - b)
            x[r] = up if step == up - b else (down if step == down - b else b + step)
            missing -= step
        if abs(missing) > slack:
            return False
    return True


@aside
def look(x, product, p, lower, upper, eps, edges, v, rise, fall, high, low):
    """v, what to add to it, and m and M of each group; returns the objective."""
    value = 0.0
    for r in range(len(x)):
        b, e, Hx, linear = x[r], eps[r], product[r], p[r]
        v[r] = -(Hx + linear)
        rise[r] = -BIG if b >= upper[r] else (-e if b >= 0.0 else e)
        fall[r] = BIG if b <= lower[r] else (-e if b > 0.0 else e)
        value += b * (0.5 * Hx + linear) + e * abs(b)
    for g in range(len(high)):
        most = -BIG
        least = BIG
        for r in range(edges[g], edges[g + 1]):
            most = max(most, v[r] + rise[r])
            least = min(least, v[r] + fall[r])
        high[g] = most
        low[g] = least
    return value


@aside
def largest_violation(high, low, grouped):
    """max (m − M) over the groups; without equality constraints the level is 0."""
    if not grouped:
        return max(high[0], 0.0) - min(low[0], 0.0)
    worst = 0.0
    for g in range(len(high)):
        worst = max(worst, high[g] - low[g])
    return worst


@aside
def set_levels(high, low, levels):
    """Half way between m and M, or the one of them that there is."""
    for g in range(len(levels)):
        m, M = high[g], low[g]
        if m < -BIG / 2:
            levels[g] = M if M < BIG / 2 else 0.0
        else:
            levels[g] = 0.5 * (m + M) if M < BIG / 2 else m


@aside
def balance(v, lower, upper, eps, ridge, edges, sums, levels):
    """The levels whose gap is least where β is not optimal: ``Groups.balanced``, which says why.

    Where a box has no end or a ridge holds a variable back, the levels stay.
    """
    for r in range(len(v)):
        if abs(lower[r]) == np.inf or abs(upper[r]) == np.inf or len(ridge) > 0:
            return
    at = np.empty(2 * len(v))
    drop = np.empty(2 * len(v))
    for g in range(len(levels)):
        count = 0
        need = -sums[g]
        for r in range(edges[g], edges[g + 1]):
            down, up, e = lower[r], upper[r], eps[r]
            zero = min(max(0.0, down), up)
            need += up
            at[count] = v[r] - e
            drop[count] = up - zero
            at[count + 1] = v[r] + e
            drop[count + 1] = zero - down
            count += 2
        step = count // 2
        while step > 0:  # sorted by at, as Shell does it
            for k in range(step, count):
                a = at[k]
                d = drop[k]
                where = k
                while where >= step and at[where - step] > a:
                    at[where] = at[where - step]
                    drop[where] = drop[where - step]
                    where -= step
                at[where] = a
                drop[where] = d
            step //= 2
        passed = 0.0
        slack = 0.0
        for k in range(count):
            slack += 4.0 * EPS * np.sqrt(count) * drop[k]
        for k in range(count):
            levels[g] = at[k]
            passed += drop[k]
            if passed >= need - slack:
                if len(levels) == 1 and passed <= need + slack and k + 1 < count:
                    levels[g] = 0.5 * (at[k] + at[k + 1])
                break


@aside
def prove(x, product, p, lower, upper, eps, ridge, edges, levels, sums, proof):
    """The numbers of ``QP.certificate``: primal, dual, gap, violation, infeasibility."""
    objective = 0.0
    price = 0.0
    gap = 0.0
    grow = 0.0
    shrink = 0.0
    outside = 0.0
    lack = 0.0
    groups = len(levels)
    largest = TINY
    for r in range(edges[0], edges[max(1, groups)]):
        largest = max(largest, abs(x[r]))
    for g in range(max(1, groups)):
        level = levels[g] if groups > 0 else 0.0
        total = 0.0
        terms = TINY
        for r in range(edges[g], edges[g + 1]):
            x_r, e, down, up, Hx, linear = x[r], eps[r], lower[r], upper[r], product[r], p[r]
            s = Hx + linear + level
            d = ridge[r] if len(ridge) > 0 else 0.0
            a = s - d * x_r
            objective += x_r * (0.5 * Hx + linear) + e * abs(x_r)
            total += x_r
            terms += abs(x_r)
            if d > 0.0:
                z = min(max((-a - e) / d if a < -e else ((e - a) / d if a > e else 0.0), down), up)
            else:
                z = down if a > e else (up if a < -e else min(max(0.0, down), up))
            if abs(z) == np.inf:
                gap = np.inf  # an infinite box without curvature bounds nothing
            else:
                gap += max(a * (x_r - z) + e * (abs(x_r) - abs(z)) + 0.5 * d * (x_r * x_r - z * z), 0.0)
            if x_r < up:
                grow = max(grow, -(s + (e if x_r >= 0.0 else -e)))
            if x_r > down:
                shrink = max(shrink, s + (e if x_r > 0.0 else -e))
            beyond = max(down - x_r, x_r - up)
            if beyond > 0.0:
                size = max(abs(down), abs(up))
                outside = max(outside, beyond / (size if 0.0 < size < np.inf else largest))
        if groups > 0:
            price += level * (total - sums[g])
            lack = max(lack, abs(total - sums[g]) / (terms + abs(sums[g])))
    dual = -objective - price  # what a sum is missed by has its price (problem.py)
    proof[0] = dual + gap
    proof[1] = dual
    proof[2] = gap
    proof[3] = grow + shrink
    proof[4] = max(outside, lack)


@inline
def beside(x, place, least, sums):
    """Whether rounding is all that is between a variable and a place: of itself or of ``sums``, or ``least`` at 0."""
    if place == 0.0:
        return abs(x) <= least
    return abs(place) < np.inf and abs(x - place) <= max(ROUNDED_SOLUTION * abs(place), min(sums, 0.5 * abs(place)))


@aside
def without_dust(x, lower, upper, diag, edges, grouped):
    """Take away what rounding left between a variable and its bound, or zero: it is not free.

    Next to a bound that is not 0 rounding is a share of the bound, or of the sum that its group has to keep, unless f
    tells more; next to 0 it is a share of the coefficients there are.
    """
    largest = 0.0
    counts = 0.0
    for r in range(len(x)):
        largest = max(largest, abs(x[r]))
        counts += abs(x[r]) * np.sqrt(max(diag[r], 0.0))
    share = EPS * np.sqrt(len(x))  # of n terms, by which their sum is rounded
    for g in range(len(edges) - 1):
        total = 0.0
        for r in range(edges[g], edges[g + 1]):
            total += abs(x[r]) if grouped else 0.0
        for r in range(edges[g], edges[g + 1]):
            size = np.sqrt(max(diag[r], 0.0))
            sums = share * (min(total, counts / size) if size > 0.0 else total)
            least = ROUNDED_SOLUTION * largest
            if abs(lower[r]) < np.inf and abs(upper[r]) < np.inf:
                least = min(least, ROUNDED_SOLUTION * max(abs(lower[r]), abs(upper[r])))
            zero = min(max(0.0, lower[r]), upper[r])
            if beside(x[r], lower[r], least, sums):
                x[r] = lower[r]
            elif beside(x[r], upper[r], least, sums):
                x[r] = upper[r]
            elif abs(x[r] - zero) <= least:
                x[r] = zero


@aside
def chosen(a, order):
    """a[order]; an empty array stays empty."""
    some = np.empty(len(order) if len(a) > 0 else 0)
    for r in range(len(some)):
        some[r] = a[order[r]]
    return some


@aside
def chosen_or_zero(a, order):
    """a[order]; zeros for an empty array."""
    some = np.empty(len(order))
    for r in range(len(some)):
        some[r] = a[order[r]] if len(a) > 0 else 0.0
    return some


@aside
def places(place, points, order):
    """place[points[order]]"""
    where = np.empty(len(order), np.int64)
    for r in range(len(order)):
        where[r] = place[points[order[r]]]
    return where


@aside
def by_group(group, first, last, order, edges):
    """The variables first … last of a problem in the order of their groups, and where each group begins."""
    n = last - first
    groups = len(edges) - 1
    edges[0] = 0
    if len(group) == 0:
        for r in range(n):
            order[r] = first + r
        edges[groups] = n
        return
    count = 0
    for g in range(groups):
        for i in range(first, last):
            if group[i] == g:
                order[count] = i
                count += 1
        edges[g + 1] = count


@jit
def certify_slice(
    K, place, starts, points, p, lower, upper, eps, ridge, sign, group, sums, first, last, beta, levels, proof
):  # fmt: skip
    """The certificates of problems first … last from coefficients and levels alone."""
    edges = np.empty(max(1, sums.shape[1]) + 1, np.int64)
    for q in range(first, last):
        n = starts[q + 1] - starts[q]
        order = np.empty(n, np.int64)
        by_group(group, starts[q], starts[q + 1], order, edges)
        H = np.empty((n, n))
        slot = np.empty(n, np.int64)
        for r in range(n):
            slot[r] = -1
        own_ridge, own_sign = chosen(ridge, order), chosen(sign, order)
        x = chosen(beta, order)
        product = np.empty(n)
        source = source_of(K, places(place, points, order))
        times(x, source, own_ridge, own_sign, H, slot, product)
        own_eps = chosen_or_zero(eps, order)
        own_p, own_lower, own_upper = chosen(p, order), chosen(lower, order), chosen(upper, order)
        prove(x, product, own_p, own_lower, own_upper, own_eps, own_ridge, edges, levels[q], sums[q], proof[q])


@jit
def solve_slice(
    K, own, place, diagonal, starts, points, p, lower, upper, eps, ridge, sign, group, sums, numbers, first, last, tol,
    most, finish, work, room, beta, product, levels, proof, steps, progress, code, rows, single
):  # fmt: skip
    """Problems numbers[first … last] that are unfinished, until ``room`` multiply-adds are used up; 0: only a look.

    A problem that is put aside goes on from β as it would have, since v is computed anew at that point anyway.
    ``single`` is None where sums are kept, anything else where there are none: each is compiled when first needed.
    ``finish``: whether the free variables are solved for even where the first steps have reached tol; ``work``: by how
    many multiply-adds at most.
    K is a matrix, or the points by feature: then rows are made as steps ask for them, and a problem that asks for more
    than rows[k] of them is CROWDED. The diagonal is that of all points.
    ``own`` is the matrix of a problem that is alone, as it lies in K, or empty: then rows are loaded into fresh memory.
    """
    grouped = sums.shape[1] > 0
    groups = max(1, sums.shape[1])
    edges = np.empty(groups + 1, np.int64)
    high = np.empty(groups)
    low = np.empty(groups)
    spent = 0
    idle = True  # one round at least, however small the room
    for q in range(first, last):
        k = numbers[q]
        if code[k] != UNFINISHED:
            continue
        if rows[k] >= 0:  # when it is put aside depends on the problem alone: so does how many rows it asks for
            spent, idle = 0, True
        if room > 0 and spent > room:
            break
        n = starts[k + 1] - starts[k]
        order = np.empty(n, np.int64)
        by_group(group, starts[k], starts[k + 1], order, edges)
        H = own if len(own) > 0 else np.empty((n, n))
        own_ridge, own_sign = chosen(ridge, order), chosen(sign, order)
        where = places(place, points, order)
        source = source_of(K, where)
        slot = np.empty(n, np.int64)
        x, v, rise, fall, diag, Hx = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        own_p, own_lower, own_upper = chosen(p, order), chosen(lower, order), chosen(upper, order)
        own_eps = chosen_or_zero(eps, order)
        for r in range(n):
            slot[r] = r if len(own) > 0 else -1
            x[r] = beta[order[r]]
            diag[r] = 0.0
            if room == 0:
                continue  # the matrix is needed only where x is not zero
            diag[r] = diagonal[where[r]] + (own_ridge[r] if len(ridge) > 0 else 0.0)
            if n <= LOAD_UP_TO and rows[k] < 0:
                load_row(r, source, own_ridge, own_sign, H, slot)
        begun = progress[k, 2] < np.inf
        if not begun:
            progress[k, 2] = 0.0
            if not into_box(x, own_lower, own_upper, edges, sums[k]):
                code[k] = INFEASIBLE
                continue
            without_dust(x, own_lower, own_upper, diag, edges, grouped)
        times(x, source, own_ridge, own_sign, H, slot, Hx)
        value = look(x, Hx, own_p, own_lower, own_upper, own_eps, edges, v, rise, fall, high, low)
        spent += 2 * n * n
        while True:
            violation = largest_violation(high, low, grouped)
            if violation < tol:
                code[k] = CONVERGED
                break
            if steps[k] >= most[k]:
                code[k] = SPENT
                break
            if spent > room and (room == 0 or not idle):
                break
            idle = False
            limit = min(most[k] - steps[k], STEPS_A_VARIABLE * n)
            made = 0
            missing = 0
            while missing >= 0:
                parts = Variables(v, x, own_lower, own_upper, own_eps, diag, rise, fall)
                if single is None:  # known to the compiler, which leaves the other steps out
                    some, _, missing = steps_of_pairs(H, slot, parts, edges, True, MARGIN * tol, limit - made)
                else:
                    some, _, missing = steps_of_singles(H, slot, parts, MARGIN * tol, limit - made)
                made += some
                if missing >= 0 and rows[k] == 0:
                    code[k] = CROWDED
                    break
                if missing >= 0:
                    rows[k] -= 1
                    load_row(missing, source, own_ridge, own_sign, H, slot)
            steps[k] += made
            spent += 2 * n * (made + 2) + n * n
            largest = 0.0
            for r in range(n):
                largest = max(largest, abs(x[r]))
            if largest > HUGE:
                code[k] = UNBOUNDED
            elif code[k] == UNFINISHED and steps[k] < most[k] and (finish or made == limit or steps[k] > made):
                allowed = work if made < limit else min(work, NEWTON_SHARE * 2 * n * made)
                spent += newton_rounds(
                    source, own_ridge, own_sign, H, slot, own_p, v, x, own_lower, own_upper, own_eps, edges, grouped,
                    allowed,
                )  # fmt: skip
            without_dust(x, own_lower, own_upper, diag, edges, grouped)
            times(x, source, own_ridge, own_sign, H, slot, Hx)
            value = look(x, Hx, own_p, own_lower, own_upper, own_eps, edges, v, rise, fall, high, low)
            if code[k] != UNFINISHED:
                break
            violation = largest_violation(high, low, grouped)
            better = value < progress[k, 0] - DECREASE * abs(value) or violation < LESS * progress[k, 1]
            progress[k, 0] = min(progress[k, 0], value)
            progress[k, 1] = min(progress[k, 1], violation)
            progress[k, 2] = 0.0 if better else progress[k, 2] + 1.0
            if progress[k, 2] >= STALL_ROUNDS and violation >= tol:
                code[k] = STALLED
                break
        set_levels(high, low, levels[k])
        if code[k] != CONVERGED:
            balance(v, own_lower, own_upper, own_eps, own_ridge, edges, sums[k], levels[k])
        prove(x, Hx, own_p, own_lower, own_upper, own_eps, own_ridge, edges, levels[k], sums[k], proof[k])
        for r in range(n):
            beta[order[r]] = x[r]
            product[order[r]] = Hx[r]
