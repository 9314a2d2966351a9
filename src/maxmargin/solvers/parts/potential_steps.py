"""The leaves of potential_smo.py: the choice of variables (25)–(26) and the steps on one and on two of them.

A sign s = ±1 of a variable says on which side of 0 it is to end, in its box there (23)–(24); g = F + ε s is then the
slope of the objective. Q_ii is 1 for a Potential SVM; here it may be anything, and 0 for a constant column.
"""

from __future__ import annotations

import numpy as np

from ..._jit import inline, jit
from .coordinate_violations import violation
from .roundings import ROUNDED_SOLUTION

__all__ = ["BLOCK", "DONE", "MISSING", "MOST", "STUCK", "pair_minimum", "smo_steps"]

DONE, MISSING, BLOCK, MOST, STUCK = range(5)  # why steps end
CHANGED, HIT, STEPS = range(3)  # what is counted since the last block update


@inline
def _side(s, low, high):
    """The box of a variable on one side of 0, (23) and (24)."""
    return (max(low, 0.0), high) if s > 0.0 else (low, min(high, 0.0))


@inline
def _clipped(x, low, high):
    return min(max(x, low), high)


@inline
def _alone(a, g, q):
    """The minimum along one variable, (28); without curvature it is as far as one can go."""
    if q > 0.0:
        return a - g / q
    return a if g == 0.0 else (-np.inf if g > 0.0 else np.inf)


@jit
def pair_minimum(ai, ak, gi, gk, qii, qkk, qik, low_i, high_i, low_k, high_k):
    """The minimum over α_i and α_k in a box: the six configurations of Figure 2."""
    det = qii * qkk - qik * qik
    if not det > ROUNDED_SOLUTION * qii * qkk:  # two equal columns, or a constant one: (22) has no value; one by one
        i = _clipped(_alone(ai, gi, qii), low_i, high_i)
        return i, _clipped(_alone(ak, gk + qik * (i - ai), qkk), low_k, high_k)
    i = ai + (gk * qik - gi * qkk) / det  # (22)
    k = ak + (gi * qik - gk * qii) / det
    at_i, at_k = _clipped(i, low_i, high_i), _clipped(k, low_k, high_k)
    if at_i == i and at_k == k:
        return i, k  # (A)
    if at_i != i:
        along = ak - (gk + qik * (at_i - ai)) / qkk
        kept = (k > high_k and along <= high_k) or (k < low_k and along >= low_k)
        if at_k == k or kept:
            return at_i, _clipped(along, low_k, high_k)  # (B), (D)
    if at_k != k:
        along = ai - (gi + qik * (at_k - ak)) / qii
        kept = (i > high_i and along <= high_i) or (i < low_i and along >= low_i)
        if at_i == i or kept:
            return _clipped(along, low_i, high_i), at_k  # (C), (E)
    return at_i, at_k  # (F)


@inline
def _single_step(a, F, q, eps, low, high):
    """α_i after a step on it alone (appendix A).

    Where α_i is 0 both signs are tried. The paper takes the larger |Δα|: that must be meant of the values in their
    boxes, for beyond them the wrong sign always has the larger one (F = 2, ε = 1: −3 for s = 1, −1 for s = −1).
    """
    new = a
    for s in (1.0, -1.0):
        if a * s >= 0.0:
            low_s, high_s = _side(s, low, high)
            if low_s <= high_s:
                value = _clipped(_alone(a, F + eps * s, q), low_s, high_s)
                if abs(value - a) > abs(new - a):
                    new = value
    return new


@jit
def _pair_step(ai, ak, Fi, Fk, qii, qkk, qik, eps_i, eps_k, low_i, high_i, low_k, high_k):
    """α_i and α_k after a step on both: of the signs that are possible those whose step is longest."""
    new_i, new_k, longest = ai, ak, 0.0
    for si in (1.0, -1.0):
        if ai * si < 0.0:
            continue
        li, hi = _side(si, low_i, high_i)
        if li > hi:
            continue
        for sk in (1.0, -1.0):
            if ak * sk < 0.0:
                continue
            lk, hk = _side(sk, low_k, high_k)
            if lk > hk:
                continue
            i, k = pair_minimum(ai, ak, Fi + eps_i * si, Fk + eps_k * sk, qii, qkk, qik, li, hi, lk, hk)
            length = max(abs(i - ai), abs(k - ak))
            if length > longest:
                new_i, new_k, longest = i, k, length
    return new_i, new_k


@jit
def _partner(i, alone, worst, row, alpha, F, diag, eps, lower, upper):
    """The variable k whose step together with α_i is longest (26).

    Where the minimum (22) lies no further away than the longest step so far, no box makes a longer one of it: what is
    left of it lies between (22) and the steps of either variable alone, of the largest violation / Q_ii at most.
    """
    k, longest = -1, abs(alone - alpha[i])
    side = 1.0 if (F[i] < 0.0 if alpha[i] == 0.0 else alpha[i] > 0.0) else -1.0
    gi = F[i] + eps[i] * side
    for j in range(len(alpha)):
        if j == i:
            continue
        det = diag[i] * diag[j] - row[j] * row[j]
        other = 1.0 if (gi * row[j] > F[j] * diag[i] if alpha[j] == 0.0 else alpha[j] > 0.0) else -1.0
        gj = F[j] + eps[j] * other
        reach = max(abs(gj * row[j] - gi * diag[j]), abs(gi * row[j] - gj * diag[i]))
        alike = not det > ROUNDED_SOLUTION * diag[i] * diag[j]
        if k >= 0 and not alike and reach <= longest * det and worst <= longest * min(diag[i], diag[j]):
            continue
        a, b = _pair_step(
            alpha[i], alpha[j], F[i], F[j], diag[i], diag[j], row[j], eps[i], eps[j],
            lower[i], upper[i], lower[j], upper[j],
        )  # fmt: skip
        length = max(abs(a - alpha[i]), abs(b - alpha[j]))
        if k < 0 or length > longest:
            k, longest = j, max(length, longest)
    return k


@inline
def _count(j, value, low, high, touched, hit, since):
    """Take note that a variable was changed, and whether it hit ±C."""
    if not touched[j]:
        touched[j] = True
        since[CHANGED] += 1
    if value != 0.0 and (value == low or value == high) and not hit[j]:
        hit[j] = True
        since[HIT] += 1


@jit
def smo_steps(
    slab, slot, alpha, F, diag, eps, lower, upper, tolerance, pair, triggers, touched, hit, ever, since, most
):
    """Steps on the variable that violates most, and on the one that goes best with it, while their rows are at hand.

    Returns why it ended, the number of steps, and the rows that are missing (the second may be −1).
    """
    n = len(alpha)
    b_c, b_n, b_f = triggers
    for done in range(most):
        i, worst = 0, -1.0
        for j in range(n):
            d = violation(alpha[j], F[j], eps[j], lower[j], upper[j])
            if d > worst:
                i, worst = j, d
        if not worst > tolerance:
            return DONE, done, -1, -1
        if slot[i] < 0:
            return MISSING, done, i, -1
        row_i = slab[slot[i]]
        new_i = _single_step(alpha[i], F[i], diag[i], eps[i], lower[i], upper[i])
        k, new_k = -1, 0.0
        if pair and n > 1:
            k = _partner(i, new_i, worst, row_i, alpha, F, diag, eps, lower, upper)
            a, b = _pair_step(
                alpha[i], alpha[k], F[i], F[k], diag[i], diag[k], row_i[k], eps[i], eps[k],
                lower[i], upper[i], lower[k], upper[k],
            )  # fmt: skip
            if b == alpha[k]:
                k = -1  # its row is not needed
            elif slot[k] < 0:
                return MISSING, done, i, k
            else:
                new_i, new_k = a, b
        change_i = new_i - alpha[i]
        change_k = new_k - alpha[k] if k >= 0 else 0.0
        if abs(change_i) == np.inf or abs(change_k) == np.inf:
            return STUCK, done, i, k
        before_i, before_k = alpha[i], alpha[max(k, 0)]
        alpha[i] = new_i
        if k >= 0:
            alpha[k] = new_k
            row_k = slab[slot[k]]
            for j in range(n):
                F[j] += change_i * row_i[j] + change_k * row_k[j]
            _count(k, new_k, lower[k], upper[k], touched, hit, since)
            ever[k] = True
        else:
            for j in range(n):
                F[j] += change_i * row_i[j]
        if alpha[i] == before_i and (k < 0 or alpha[k] == before_k):
            return STUCK, done, i, k
        _count(i, new_i, lower[i], upper[i], touched, hit, since)
        ever[i] = True
        since[STEPS] += 1
        # The paper's third trigger compares the other way round, which with two variables a step is never true.
        if since[HIT] >= b_c or since[CHANGED] >= b_n or since[STEPS] >= b_f * since[CHANGED]:
            return BLOCK, done + 1, -1, -1
    return MOST, most, -1, -1
