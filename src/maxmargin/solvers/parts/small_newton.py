"""Newton's steps on the free variables of one small problem (small_leaves.py), which end what pair steps began.

With F the free variables and a reference variable in each group, δ = Z d keeps the sums, and d solves
ZᵀH_FF Z d = Zᵀ target. Its matrix is a Gram matrix of differences, factored by Cholesky with pivots: where points are
duplicates or the kernel is of low rank, the factor ends, and d is zero for the variables that are left over, which
depend on the others. Each step is a descent, whatever the rank.
"""

from __future__ import annotations

import numpy as np

from ..._jit import aside, dot, helper
from .fixed_sums import BIG
from .limits import ROUNDS
from .roundings import ROUNDED_SOLUTION, UNSOLVED
from .small_rows import add_row, load_row

__all__ = ["newton_rounds"]

FLAT = 1e-11  # pivot, relative to the largest, that counts as none


@helper
def factor(M, L, order):
    """Cholesky with pivots: M[order][:, order] ≈ LᵀL with an upper triangle L; returns the number of its rows."""
    m = len(M)
    rest = np.empty(m)
    largest = 0.0
    for r in range(m):
        order[r] = r
        rest[r] = M[r, r]
        largest = max(largest, rest[r])
    for k in range(m):
        best = k
        for r in range(k + 1, m):
            if rest[r] > rest[best]:
                best = r
        if not rest[best] > FLAT * largest:
            return k
        if best != k:
            order[k], order[best] = order[best], order[k]
            rest[k], rest[best] = rest[best], rest[k]
            for t in range(k):
                L[t, k], L[t, best] = L[t, best], L[t, k]
        row = L[k]
        source = M[order[k]]
        for c in range(k, m):
            row[c] = source[order[c]]
        t = 0
        while t + 4 <= k:
            r0, r1, r2, r3 = L[t], L[t + 1], L[t + 2], L[t + 3]
            d0, d1, d2, d3 = r0[k], r1[k], r2[k], r3[k]
            for c in range(k, m):
                row[c] -= (d0 * r0[c] + d1 * r1[c]) + (d2 * r2[c] + d3 * r3[c])
            t += 4
        while t < k:
            r0 = L[t]
            d0 = r0[k]
            for c in range(k, m):
                row[c] -= d0 * r0[c]
            t += 1
        root = np.sqrt(rest[k])
        row[k] = root
        for c in range(k + 1, m):
            row[c] /= root
            rest[c] -= row[c] * row[c]
    return m


@helper
def solve_factored(L, order, rank, right, d):
    """d += what solves M d = right for the first ``rank`` in the order; the others stay."""
    part = np.empty(rank)
    for k in range(rank):
        part[k] = right[order[k]]
    for k in range(rank):
        row = L[k]
        part[k] /= row[k]
        for c in range(k + 1, rank):
            part[c] -= part[k] * row[c]
    for k in range(rank - 1, -1, -1):
        row = L[k]
        part[k] = (part[k] - dot(row[k + 1 : rank], part[k + 1 : rank])) / row[k]
    for k in range(rank):
        d[order[k]] += part[k]


@aside
def newton_step(H, target, F, reference):
    """The step of the free variables F that equals their targets, as far as they are independent.

    reference[a] is the position in F of the variable that takes back what variable F[a] gets, −1 if there is none,
    and a itself for these variables.
    """
    count = len(F)
    moving = np.empty(count, np.int64)
    m = 0
    for a in range(count):
        if reference[a] != a:
            moving[m] = a
            m += 1
    M = np.empty((m, m))
    right = np.empty(m)
    for a in range(m):
        k = reference[moving[a]]
        row = H[F[moving[a]]]
        right[a] = target[moving[a]]
        for b in range(m):
            M[a, b] = row[F[moving[b]]]
        if k >= 0:
            right[a] -= target[k]
            back = H[F[k]]
            for b in range(m):
                M[a, b] -= back[F[moving[b]]]
    for b in range(m):
        k = reference[moving[b]]
        if k >= 0:
            back = H[F[k]]
            for a in range(m):
                M[a, b] -= back[F[moving[a]]]
                if reference[moving[a]] >= 0:
                    M[a, b] += back[F[reference[moving[a]]]]
    L = np.empty((m, m))
    order = np.empty(m, np.int64)
    rank = factor(M, L, order)
    d = np.empty(m)
    for a in range(m):
        d[a] = 0.0
    solve_factored(L, order, rank, right, d)
    for a in range(m):  # once more with what rounding left
        right[a] -= dot(M[a], d)
    solve_factored(L, order, rank, right, d)
    delta = np.empty(count)
    for a in range(count):
        delta[a] = 0.0
    for a in range(m):
        k = reference[moving[a]]
        delta[moving[a]] = d[a]
        if k >= 0:
            delta[k] -= d[a]
    return delta


@aside
def stays(x, lower, upper, eps, direction, F, delta, free):
    """Fix variables that were set free and that the joint step would push out; whether there are any."""
    any_stays = False
    for a in range(len(F)):
        r = F[a]
        b, d = x[r], delta[a]
        back = eps[r] > 0.0 and b == 0.0 and direction[r] * d < 0.0
        if back or (b <= lower[r] and d < 0.0) or (b >= upper[r] and d > 0.0):
            free[r] = False
            any_stays = True
    return any_stays


@aside
def walk(x, v, lower, upper, eps, direction, F, delta, H):
    """Go along the step until a variable is at its bound, or at 0 with ε; its position in F, −1 if there is none."""
    length = 1.0
    blocked = -1
    end = 0.0
    for a in range(len(F)):
        r = F[a]
        d = delta[a]
        if d == 0.0:
            continue
        way = direction[r] if eps[r] > 0.0 else 0.0
        if d > 0.0:
            bound = min(upper[r], 0.0) if way < 0.0 else upper[r]
        else:
            bound = max(lower[r], 0.0) if way > 0.0 else lower[r]
        share = (bound - x[r]) / d
        if share < length:
            length = max(share, 0.0)
            blocked = a
            end = bound
    for a in range(len(F)):
        r = F[a]
        old = x[r]
        new = end if a == blocked else min(max(old + length * delta[a], lower[r]), upper[r])
        change = new - old
        x[r] = new
        if change != 0.0:
            add_row(-change, H[r], v)
    return blocked


@aside
def release(x, v, lower, upper, eps, edges, grouped, least, free, direction):
    """Set free the variables of each group that most want to move, by more than ``least``; whether there are any."""
    released = False
    for g in range(len(edges) - 1):
        up = -1
        down = -1
        high = -BIG
        low = BIG
        for r in range(edges[g], edges[g + 1]):
            b, e, pull = x[r], eps[r], v[r]
            if b < upper[r]:
                here = pull - (e if b >= 0.0 else -e)
                if here > high:
                    high = here
                    up = r
            if b > lower[r]:
                here = pull - (e if b > 0.0 else -e)
                if here < low:
                    low = here
                    down = r
        above = high - low if grouped else high
        below = high - low if grouped else -low
        if up >= 0 and (down >= 0 or not grouped) and above > least and not free[up]:
            free[up] = True
            direction[up] = 1.0
            released = True
        if down >= 0 and (up >= 0 or not grouped) and below > least and not free[down]:
            free[down] = True
            direction[down] = -1.0
            released = True
    return released


@aside
def worth(x, v, p, eps, before, edges, grouped, start):
    """Whether the objective is no larger than ``start``, and the sums of the groups are as before."""
    value = 0.0
    held = True
    for g in range(len(edges) - 1):
        moved = 0.0
        total = 0.0
        for r in range(edges[g], edges[g + 1]):
            b = x[r]
            value += 0.5 * b * (p[r] - v[r]) + eps[r] * abs(b)
            moved += b - before[r]
            total += abs(b)
        if grouped and abs(moved) > UNSOLVED * total:
            held = False
    return held and value <= start + ROUNDED_SOLUTION * max(1.0, abs(start))


@aside
def newton_rounds(source, ridge, sign, H, slot, p, v, x, lower, upper, eps, edges, grouped, most):
    """Solve for the free variables; fix one that blocks the way, free those that want to move; returns the work.

    x is better afterwards, or as before.
    """
    n = len(x)
    before = np.empty(n)
    free = np.empty(n, np.int64)
    direction = np.empty(n)  # of a variable at 0 with ε: where it is about to go
    F = np.empty(n, np.int64)
    reference = np.empty(n, np.int64)
    target = np.empty(n)
    size = 1.0
    start = 0.0
    for r in range(n):
        b, e = x[r], eps[r]
        before[r] = b
        free[r] = lower[r] < b < upper[r] and (e == 0.0 or b != 0.0)
        direction[r] = 1.0 if b > 0.0 else (-1.0 if b < 0.0 else 0.0)
        size = max(size, abs(v[r]))
        start += 0.5 * b * (p[r] - v[r]) + e * abs(b)
    work = 0
    for _ in range(ROUNDS):
        count = 0
        for g in range(len(edges) - 1):
            first = count
            for r in range(edges[g], edges[g + 1]):
                if free[r]:
                    load_row(r, source, ridge, sign, H, slot)
                    F[count] = r
                    reference[count] = first if grouped else -1
                    target[count] = v[r] - eps[r] * direction[r]
                    count += 1
        work += count * (count * (count // 6 + 4) + 2 * n)
        if work > most:
            break
        if count > 0:
            delta = newton_step(H, target[:count], F[:count], reference[:count])
            if stays(x, lower, upper, eps, direction, F[:count], delta, free):
                continue
            blocked = walk(x, v, lower, upper, eps, direction, F[:count], delta, H)
            if blocked >= 0:
                free[F[blocked]] = False
                continue
        if not release(x, v, lower, upper, eps, edges, grouped, ROUNDED_SOLUTION * size, free, direction):
            break
    if not worth(x, v, p, eps, before, edges, grouped, start):
        for r in range(n):
            x[r] = before[r]
    return work
