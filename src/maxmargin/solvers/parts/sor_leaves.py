"""The leaves of sweeps over rows (row_sweeps.py): rows are (X,), or (indptr, indices, data) if they are compressed.

All that a step needs of a row but z_i itself lies in one line of memory (``state``). The next rows are asked from
memory while one is at work: random order then costs what sequential order does (a9a: 70 ns a row instead of 205).
"""

from __future__ import annotations

import numpy as np

from ..._jit import by_types, dot, helper, inline, jit, prefetch

__all__ = ["BETA", "CURVATURE", "EPS", "EXTRA", "LINE", "LOWER", "P", "RIDGE", "UPPER"]
__all__ += ["follow", "look", "pull", "shuffle", "sweep", "sweeps"]

BETA, LOWER, UPPER, P, RIDGE, CURVATURE, EPS, EXTRA = range(8)  # columns of the state of a row
LINE = 8  # numbers in a line of memory
SHUFFLE_FACTOR, SHUFFLE_MODULUS = 48271, 2147483647  # Park & Miller's generator: no product leaves 63 bits
AHEAD, FAR_AHEAD = 6, 16  # rows that are asked from memory before they are needed: rows of Z, what tells where they are
MOST_LINES = 32  # of a row that are asked for; the processor sees by itself where a longer one goes on


@jit
def shuffle(index, seed):
    """A new order of index; returns the next seed."""
    x = seed
    for j in range(len(index) - 1, 0, -1):
        x = x * SHUFFLE_FACTOR % SHUFFLE_MODULUS
        k = x * (j + 1) // SHUFFLE_MODULUS
        index[j], index[k] = index[k], index[j]
    return x


@inline
def _stuck(row, g, bound):
    """Whether β_i is at a bound (or at 0 with ε) and pushed there by more than any violation of the last sweep."""
    b, eps = row[BETA], row[EPS]
    up = g + (eps if b >= 0.0 else -eps)
    down = g + (eps if b > 0.0 else -eps)
    return (b >= row[UPPER] or up > bound) and (b <= row[LOWER] or down < -bound)


@inline
def _violation(row, g):
    """How fast the objective falls along β_i."""
    b, eps = row[BETA], row[EPS]
    grow = -(g + (eps if b >= 0.0 else -eps)) if b < row[UPPER] else 0.0
    shrink = g + (eps if b > 0.0 else -eps) if b > row[LOWER] else 0.0
    return max(grow, shrink, 0.0)


@inline
def _minimum(row, slope, curvature):
    """Where slope z + ½ curvature z² + ε |z| is least in the box."""
    eps = row[EPS]
    u = -slope
    u = u - eps if u > eps else (u + eps if u < -eps else 0.0)
    if curvature > 0.0:
        z = u / curvature
    else:
        z = 0.0 if u == 0.0 else (np.inf if u > 0.0 else -np.inf)
    return min(max(z, row[LOWER]), row[UPPER])


@inline
def _slack(row, g):
    """What row i adds to the gap (problem.py): r (β − z) + ½ d (β² − z²) + ε (|β| − |z|) for the best z."""
    b, d = row[BETA], row[RIDGE]
    r = g - d * b
    z = _minimum(row, r, d)
    return r * (b - z) + 0.5 * d * (b * b - z * z) + row[EPS] * (abs(b) - abs(z))


@inline
def _saved(row, g, new):
    """By how much the objective falls when β_i becomes new."""
    b = row[BETA]
    change = new - b
    return -(g * change + 0.5 * row[CURVATURE] * change * change + row[EPS] * (abs(new) - abs(b)))


@inline
def _target(row, g, omega):
    """The next β_i."""
    b = row[BETA]
    new = _minimum(row, g - row[CURVATURE] * b, row[CURVATURE])
    if omega == 1.0 or (new == 0.0 and row[EPS] > 0.0):  # beyond a corner the objective rises, however short the way
        return new
    return min(max(b + omega * (new - b), row[LOWER]), row[UPPER])


@by_types
def _ask_where(rows, i):
    """Ask the memory where row i is."""
    if len(rows) == 1:
        return lambda rows, i: None

    def sparse(rows, i):
        prefetch(rows[0], i)

    return sparse


@by_types
def _ask(rows, i):
    """Ask the memory for row i."""

    def dense(rows, i):
        (X,) = rows
        d = X.shape[1]
        per_line = 64 // X.itemsize
        for k in range(0, min(d, MOST_LINES * per_line), per_line):
            prefetch(X, i * d + k)

    def sparse(rows, i):
        indptr, indices, data = rows
        start = indptr[i]
        stop = min(indptr[i + 1], start + MOST_LINES * 16)
        for s in range(start, stop, 16):
            prefetch(indices, s)
        for s in range(start, stop, 64 // data.itemsize):
            prefetch(data, s)

    return dense if len(rows) == 1 else sparse


@by_types
def _product(rows, i, w):
    """z_iᵀw."""

    def dense(rows, i, w):
        return dot(rows[0][i], w)

    def sparse(rows, i, w):
        indptr, indices, data = rows
        s, stop = indptr[i], indptr[i + 1]
        even, odd = 0.0, 0.0
        while s + 1 < stop:
            even += data[s] * w[indices[s]]
            odd += data[s + 1] * w[indices[s + 1]]
            s += 2
        if s < stop:
            even += data[s] * w[indices[s]]
        return even + odd

    return dense if len(rows) == 1 else sparse


@by_types
def _add(rows, i, change, w):
    """w += change z_i."""

    def dense(rows, i, change, w):
        x = rows[0][i]
        for k in range(len(w)):
            w[k] += change * x[k]

    def sparse(rows, i, change, w):
        indptr, indices, data = rows
        for s in range(indptr[i], indptr[i + 1]):
            w[indices[s]] += change * data[s]

    return dense if len(rows) == 1 else sparse


@jit
def sweep(rows, w, v, state, extra, active, bound, omega):
    """Visit the active rows in their order; returns how many stay active (at the front), violation, gap, decrease."""
    count, width = len(active), state.shape[1]
    worst, slack, saved = 0.0, 0.0, 0.0
    kept = 0
    for j in range(count):
        far = active[min(j + FAR_AHEAD, count - 1)]
        _ask_where(rows, far)
        prefetch(state, far * width)
        prefetch(state, far * width + width - 1)
        _ask(rows, active[min(j + AHEAD, count - 1)])
        i = active[j]
        row = state[i]
        g = _product(rows, i, w) + row[P] + row[RIDGE] * row[BETA]
        for c in range(extra):
            g += row[EXTRA + c] * v[c]
        if _stuck(row, g, bound):
            continue
        active[kept] = i
        kept += 1
        worst = max(worst, _violation(row, g))
        slack += _slack(row, g)
        new = _target(row, g, omega)
        change = new - row[BETA]
        if change != 0.0:
            saved += _saved(row, g, new)
            row[BETA] = new
            for c in range(extra):
                v[c] += change * row[EXTRA + c]
            _add(rows, i, change, w)
    return kept, worst, slack, saved


@jit
def pull(t, v, hard):
    """What the augmented Lagrangian adds to the objective."""
    total = 0.0
    for c in range(hard):
        u = v[c] - t[c]
        total += t[c] * u + 0.5 * u * u
    return total


@jit
def follow(t, v, hard):
    """A step of the multipliers."""
    for c in range(hard):
        u = v[c] - t[c]
        t[c] = v[c]
        v[c] += u


# As parts of one leaf: most fits never call them by themselves, which would compile each of them twice.
_shuffle, _sweep, _pull, _follow = helper(shuffle), helper(sweep), helper(pull), helper(follow)


@jit
def sweeps(
    rows, w, v, t, hard, state, extra, active, bound, omega, shrink, number, every, seed, value, most, visits, enough
):
    """Sweeps in new orders until ``most`` are done, ``visits`` rows are visited, or no more than a share of the
    objective and an amount, both in ``enough``, is left of the gap.

    Returns how many rows stay active (at the front), sweeps done, rows visited, seed, value of the objective, and what
    the last sweep saw: violation and gap.
    """
    count, done, visited = len(active), 0, 0
    while True:
        seed = _shuffle(active[:count], seed)
        visited += count
        before = _pull(t, v, hard)
        count, worst, slack, saved = _sweep(rows, w, v, state, extra, active[:count], bound, omega)
        value += before - saved - _pull(t, v, hard)
        if (number + done) % every == 0:
            _follow(t, v, hard)
        done += 1
        over = done >= most or visited > visits or not worst > 0.0
        if over or slack <= min(enough[0] * abs(value), enough[1]):
            return count, done, visited, seed, value, worst, slack
        bound = shrink * worst


@jit
def look(f, v, state, extra, bound, busy):
    """Which rows are not stuck; the gap, and all terms of the objective but those of w and v."""
    gap, terms = 0.0, 0.0
    for i in range(len(f)):
        row = state[i]
        b = row[BETA]
        g = f[i] + row[P] + row[RIDGE] * b
        for c in range(extra):
            g += row[EXTRA + c] * v[c]
        gap += max(_slack(row, g), 0.0)
        terms += row[P] * b + 0.5 * row[RIDGE] * b * b + row[EPS] * abs(b)
        busy[i] = not _stuck(row, g, bound)
    return gap, terms
