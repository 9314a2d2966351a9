"""Newton steps on the free columns of a working set, with a Cholesky factor that is changed rather than made anew.

    RᵀR = H_FF          F: the columns that are not 0 and inside of their box, in the order in which they came

A step that a bound cuts short takes a column out of F, and steps on coordinates bring a few in. A column that joins
costs a triangular system. One that leaves takes its row of R with it, and what that row held of the others is given
back to theirs by rotations. Either takes about m² products where a factor of m columns takes m³/3; those are LAPACK's,
and a few times as quick.

With the direction d of a step, D = H_WF d tells all about the objective along it and about the slopes at its end.
"""

from __future__ import annotations

import numpy as np

from ..._jit import dot, jit

__all__ = ["ANEW", "RIDGE", "free_steps", "free_system"]

RIDGE = 1e-13  # of the diagonal, and ten times as much until a factorisation succeeds
ENOUGH = 0.3  # of the decrease up to the first bound that a step beyond it must bring
SHARE = 16  # a factor of m columns is made anew by LAPACK in the time of m / SHARE changes
CALL = 1 << 16  # products of changes that take as long as it takes to ask for that
DONE, ANEW = range(2)  # why steps end: at a minimum, at their number or stuck; or they want another factor


@jit
def free_system(H, beta, lower, upper):
    """The columns that are free and not 0, and H on them."""
    F = np.flatnonzero((beta > lower) & (beta < upper) & (beta != 0.0))
    part = np.empty((len(F), len(F)))
    for k in range(len(F)):
        j = F[k]
        for i in range(len(F)):
            part[k, i] = H[j, F[i]]
    return F, part


@jit
def append(H, F, R, m, j):
    """Column j joins the m of a factor; where it is one of them but for rounding, it keeps a ridge of its own."""
    row, x = H[j], np.empty(m)
    for i in range(m):
        x[i] = row[F[i]]
    rest = row[j]
    for i in range(m):
        x[i] /= R[i, i]
        rest -= x[i] * x[i]
        above = R[i]
        for k in range(i + 1, m):
            x[k] -= x[i] * above[k]
        above[m] = x[i]
    R[m, m] = np.sqrt(max(rest, RIDGE * row[j], np.finfo(np.float64).tiny))
    F[m] = j


@jit
def remove(F, R, m, at):
    """The column at a place of a factor of m leaves it."""
    lost = R[at, at + 1 : m].copy()
    for i in range(at):
        row = R[i]
        for k in range(at, m - 1):
            row[k] = row[k + 1]
    for i in range(at, m - 1):
        F[i] = F[i + 1]
        row, below = R[i], R[i + 1]
        for k in range(i, m - 1):
            row[k] = below[k + 1]
        a, b = row[i], lost[i - at]
        length = np.sqrt(a * a + b * b)
        c, q = a / length, b / length
        row[i] = length
        for k in range(i + 1, m - 1):
            old, other = row[k], lost[k - at]
            row[k] = c * old + q * other
            lost[k - at] = c * other - q * old


@jit
def follow(H, beta, lower, upper, F, R, m):
    """The factor of the columns that are free now: their number, and how many have come and gone.

    The number is −1 where the factor should be made anew.
    """
    inside = np.zeros(len(beta), np.bool_)
    gone = 0
    for i in range(m):
        j = F[i]
        inside[j] = True
        gone += not (beta[j] > lower[j] and beta[j] < upper[j] and beta[j] != 0.0)
    come = 0
    for j in range(len(beta)):
        come += not inside[j] and beta[j] > lower[j] and beta[j] < upper[j] and beta[j] != 0.0
    size, changes = m - gone + come, gone + come
    if size > len(R) or changes * size * size > size**3 // SHARE + CALL:
        return -1, changes
    last = m - 1
    for back in range(m):
        j = F[last - back]
        if not (beta[j] > lower[j] and beta[j] < upper[j] and beta[j] != 0.0):
            remove(F, R, m, last - back)
            m -= 1
    for j in range(len(beta)):
        if not inside[j] and beta[j] > lower[j] and beta[j] < upper[j] and beta[j] != 0.0:
            append(H, F, R, m, j)
            m += 1
    return m, changes


@jit
def solve(R, m, x):
    """x <- (RᵀR)⁻¹ x."""
    for i in range(m):
        x[i] /= R[i, i]
        row = R[i]
        for k in range(i + 1, m):
            x[k] -= x[i] * row[k]
    for back in range(m):
        i = m - 1 - back
        x[i] = (x[i] - dot(R[i, i + 1 : m], x[i + 1 : m])) / R[i, i]


@jit
def along(H, F, m, x, out):
    """H_WF x."""
    out[:] = 0.0
    for k in range(m):
        if x[k] != 0.0:
            row, factor = H[F[k]], x[k]
            for i in range(len(out)):
                out[i] += factor * row[i]


@jit
def free_steps(H, s, beta, eps, lower, upper, F, R, m, fresh, most):
    """Newton steps, each up to its first bound, or beyond it where that is worth it, until one is not cut short.

    Returns the size of the factor, the steps and why they ended. ``fresh``: the factor was just made.
    """
    g, low, high = np.empty(len(F)), np.empty(len(F)), np.empty(len(F))
    d, excess = np.empty(len(F)), np.empty(len(F))
    D, over = np.empty(len(s)), np.empty(len(s))
    for steps in range(most):
        m, changes = follow(H, beta, lower, upper, F, R, m)
        if m < 0:
            return 0, steps, ANEW
        if m == 0:
            return m, steps, DONE
        fresh = fresh and changes == 0
        for k in range(m):
            j = F[k]
            positive = beta[j] > 0.0
            g[k] = s[j] + (eps[j] if positive else -eps[j])
            low[k] = max(lower[j], 0.0) if positive else lower[j]
            high[k] = upper[j] if positive else min(upper[j], 0.0)
            d[k] = -g[k]
        solve(R, m, d)
        along(H, F, m, d, D)
        t, slope, curve = 1.0, 0.0, 0.0
        for k in range(m):
            j = F[k]
            slope += g[k] * d[k]
            curve += D[j] * d[k]
            if d[k] > 0.0:
                t = min(t, (high[k] - beta[j]) / d[k])
            elif d[k] < 0.0:
                t = min(t, (low[k] - beta[j]) / d[k])
        more, whole = t * slope + 0.5 * t * t * curve, t == 1.0
        if not whole:
            further = 0.0
            for k in range(m):
                new = beta[F[k]] + d[k]
                excess[k] = new - min(max(new, low[k]), high[k])
            along(H, F, m, excess, over)
            for k in range(m):
                j = F[k]
                further += (d[k] - excess[k]) * (g[k] + 0.5 * (D[j] - over[j]))
            if further <= ENOUGH * more:
                more, whole = further, True
                for i in range(len(s)):
                    D[i] -= over[i]
        if not more < 0.0:
            return m, steps, DONE if fresh else ANEW
        length = 1.0 if whole else t
        for k in range(m):
            j = F[k]
            x = beta[j] + length * d[k]
            if d[k] > 0.0 and (high[k] - beta[j]) / d[k] <= length:
                x = high[k]
            elif d[k] < 0.0 and (low[k] - beta[j]) / d[k] <= length:
                x = low[k]
            beta[j] = x
        for i in range(len(s)):
            s[i] += length * D[i]
        if t == 1.0:
            return m, steps + 1, DONE
    return m, most, DONE
