"""Iterations of the interior method on few rows, by one compiled leaf: no Python between them.

An iteration over a hundred rows takes some ten microseconds, and thirty times as long to ask NumPy and the crew for.
What is done is what interior_point.py does, with the leaves of barrier_leaves.py for what rows do on their own, and
with a factor of the (d + k)² normal matrix as risk_steps.py makes it.
"""

from __future__ import annotations

import numpy as np

from ..._jit import dot, helper, jit
from . import barrier_leaves as barrier
from .fixed_sums import BIG
from .risk_steps import add_rows, factored, solved
from .roundings import ROUNDED_SOLUTION

__all__ = ["BACK_OFF", "GAIN", "LONGER", "NEAR_GAP", "NOWHERE", "PROGRESS", "barrier_steps"]

LONGER = 0.3  # of the way to the full step is what a corrector aims to add to its length,
GAIN = 0.05  # of what is missing of the full step is what it has to add to be kept
BACK_OFF = 0.995  # of the way to the boundary is as far as a step goes
NOWHERE = np.finfo(np.float64).eps ** 2  # of the way: a shorter step changes nothing, of this iteration or of the next
PROGRESS = 0.9  # of the least so far is progress, in any measure that counts
NEAR_GAP = 0.5  # relative gap: above it other measures than the gap tell that there is progress
TINY = np.finfo(np.float64).tiny

# As parts of one leaf: see sor_leaves.py.
_weigh, _predict, _correct = helper(barrier.weigh), helper(barrier.predict), helper(barrier.correct)
_aim, _advance, _gap_terms = helper(barrier.aim), helper(barrier.advance), helper(barrier.gap_terms)


@helper
def along(Z, x, out):
    """out <- Ẑx."""
    for i in range(len(out)):
        out[i] = dot(Z[i], x)


@helper
def pulled_by(Z, v, out):
    """out[c] <- Ẑᵀ v[:, c], for both columns of v."""
    out[:] = 0.0
    one, other = out[0], out[1]
    for i in range(len(Z)):
        a, b, row = v[i, 0], v[i, 1], Z[i]
        for j in range(len(row)):
            one[j] += a * row[j]
            other[j] += b * row[j]


@helper
def missing_of(pulled, x, b, out):
    """out <- Ẑᵀβ − [w, b]."""
    d = len(x) - len(b)
    for j in range(len(x)):
        out[j] = pulled[j] - (x[j] if j < d else b[j - d])


@helper
def gap_of(rows, values, x, pulled, missing, p, lower, upper, eps, n, d):
    """Σ of the products, the gap of (β, w, η) and its share of the objective (barrier_point.py)."""
    _, slack, dual, _, _, _, ridge, g = rows
    beta = values[:, 1]
    products, value = 0.0, 0.0
    for side in range(2):
        for q in range(slack.shape[1]):
            for i in range(n):
                products += slack[side, q, i] * dual[side, q, i]
    for i in range(n):
        b = beta[i]
        value += p[i] * b + eps[i] * abs(b) + 0.5 * ridge[i] * b * b
    gap = _gap_terms(lower, upper, eps, ridge, g, beta, 0, n)
    if gap == np.inf:
        gap = products
    for j in range(len(x)):
        if j < d:
            gap += 0.5 * missing[j] * missing[j]
            value += 0.5 * pulled[j] * pulled[j]
        else:
            gap += abs(x[j] * missing[j])
    return products, gap / max(abs(value), abs(gap - value), TINY)


@jit
def barrier_steps(
    Z, kind, rows, values, theta, better, u, p, lower, upper, eps, b, x, pulled, sides, correctors, target, most
):
    """Iterations until the relative gap is at most ``target``, or small and no longer falling, or none leads anywhere.

    ``rows``: (part, slack, dual, inv, c, cost, ridge, g) of barrier_rows.py; ``values``: θρ and β as columns. These, x
    = [w, η] and Ẑᵀβ go on from where they are. Returns the iterations and the length of the last one; −1 where
    the first would lead nowhere, 0 where its matrix has no factor.
    """
    part, slack, dual, inv, c, cost, ridge, g = rows
    n, D = Z.shape
    d = D - len(b)
    moved, beta = values[:, 0], values[:, 1]
    penalty, held, missing, right, step = np.zeros(D), np.zeros(D), np.empty(D), np.empty(D), np.empty(D)
    M, U, before = np.empty((D, D)), np.empty((D, D)), np.zeros(n)
    pulls, out, other = np.empty((2, D)), np.empty((n, 2)), np.empty(n)
    penalty[:d] = 1.0
    length = 1.0 / BIG
    missing_of(pulled, x, b, missing)
    products, relative = gap_of(rows, values, x, pulled, missing, p, lower, upper, eps, n, d)
    for made in range(most):
        _weigh(kind, slack, dual, inv, part, cost, ridge, g, theta, moved, 0, n)
        add_rows(Z, before, theta, penalty, True, M)
        for j in range(d, D):
            M[j, j] = max(M[j, j], TINY)
            held[j] = ROUNDED_SOLUTION * M[j, j]
        if not factored(M, held, U):
            return made, length
        pulled_by(Z, values, pulls)
        pulled[:] = pulls[1]
        missing_of(pulled, x, b, missing)
        # Where the affine step gets to tells σ (Mehrotra).
        for j in range(D):
            step[j] = missing[j] + pulls[0, j]
        solved(U, step)
        along(Z, step, u)
        reach = 1.0 / max(_predict(part, slack, dual, inv, c, cost, ridge, g, u, False, out, 0, n), 1.0 / BIG)
        curves = 0.0
        for side in range(2):
            for q in range(part.shape[0]):
                for i in range(n):
                    curves += c[side, q, i]
        mu = products / max(1, sides)
        reached = max(0.0, (1.0 - reach) * products + reach * reach * curves) / max(1, sides)
        m = mu * min(1.0, reached / mu) ** 3 if mu > 0.0 else 0.0
        pulled_by(Z, out, pulls)
        for j in range(D):
            step[j] = missing[j] + pulls[0, j] + m * pulls[1, j]
        solved(U, step)
        along(Z, step, u)
        longest = 1.0 / max(_correct(part, slack, dual, inv, c, cost, ridge, g, u, False, m, 0, n), 1.0 / BIG)
        for _ in range(correctors):
            if not NOWHERE < longest <= 1.0:  # slacks that differ by so much have products which are no numbers
                break
            hoped = min(1.0, longest + LONGER)
            _aim(part, slack, dual, inv, c, cost, ridge, g, u, False, m, hoped, better, moved, 0, n)
            right[:] = missing
            for i in range(n):
                for j in range(D):
                    right[j] += moved[i] * Z[i, j]
            solved(U, right)
            along(Z, right, other)
            further = _correct(part, slack, dual, inv, better, cost, ridge, g, other, False, m, 0, n)
            further = 1.0 / max(further, 1.0 / BIG)
            if not further > longest + GAIN * (1.0 - longest):
                break
            c[:] = better
            u[:] = other
            step[:] = right
            longest = further
        stride = min(1.0, BACK_OFF * longest)
        size = stride
        for j in range(D):
            size += abs(step[j])
        if not (size < np.inf and stride > NOWHERE):
            return made if made > 0 else -1, length
        length = stride
        _advance(part, slack, dual, inv, c, cost, ridge, g, beta, u, False, m, length, 0, n)
        for j in range(D):  # the equations tell Ẑᵀ Δβ
            pulled[j] += length * ((step[j] if j < d else 0.0) - missing[j])
            x[j] += length * step[j]
        last = relative
        missing_of(pulled, x, b, missing)
        products, relative = gap_of(rows, values, x, pulled, missing, p, lower, upper, eps, n, d)
        if relative <= target or PROGRESS * last <= relative < NEAR_GAP:
            return made + 1, length
    return most, length
