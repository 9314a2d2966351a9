"""Newton steps of a small linear machine (newton.py), by one compiled leaf: no Python between them.

A step over a hundred rows takes some microseconds, and thirty times as long to ask NumPy for. With the gradient
g = Px − Ẑᵀβ the gap needs no pass of its own: by Fenchel's equality it is ½‖g‖² over the weights, and ηᵀg over what
nothing penalises.

A smooth loss is known by its conjugate l u + ½ q u² + e |u| on low ≤ u ≤ high: with t = a − l, shrunk by e, its slope
is t / q held inside the domain, its curvature 1 / q where nothing holds it, and its value u t − ½ q u².
"""

from __future__ import annotations

import numpy as np

from ..._jit import dot, helper, jit
from .limits import LOOK_WORK, ROUNDS
from .line_search import SEARCHED
from .linear_risk import FAR, SHORT, LinearRisk

__all__ = ["steps_at_once"]

ASK_WORK = 1 << 20  # products of rows take the leaf as long as it takes to ask others for them
FACTOR_SPEED = 24  # a factor takes d³ / 3 products, eight of them in the time of one number that a step reads


def steps_at_once(
    risk: LinearRisk,
    x: np.ndarray,
    f: np.ndarray,
    theta: np.ndarray,
    hessian: np.ndarray | None,
    length: float,
    tol: float,
    most: int,
) -> tuple[int, float]:
    """Steps of a small problem whose Hessian is a matrix, until it is time for a look at the clock; else none.

    Gives their number and the length of the last one; all else changes where it is.
    """
    Z, erm = risk.small, risk.erm
    if Z is None or hessian is None:
        return 0, length
    if Z.size * Z.shape[1] > ASK_WORK and not theta.any():
        first = risk.curvature(f, far=True)
        if (first == first[0]).all():  # a matrix that other classes begin with as well
            hessian += risk.added(first)
            theta[:] = first
    loss = (*erm.loss.conjugate_terms, *erm.loss.domain)
    most = min(most, max(1, LOOK_WORK // (Z.size + Z.shape[1] ** 3 // FACTOR_SPEED)))
    made, length = newton_steps(
        Z, erm.y, erm.loss.classification, erm.cost, loss, risk.penalty, risk.held, FAR, SHORT, SEARCHED, x, f, theta,
        hessian, length, tol, most,
    )  # fmt: skip
    return int(made), float(length)


@helper
def slope_of(a, loss):
    """The slope of the loss at an argument, and how far that is from where the loss begins."""
    linear, curved, kink, low, high = loss
    t = a - linear
    t = max(t - kink, 0.0) + min(t + kink, 0.0)
    return min(max(t / curved, low), high), t


@helper
def curvature_of(u, t, loss, far):
    """Of the loss; far from the minimum that of the parabola above it, which lines have too."""
    if u == 0.0:
        return 1.0 / loss[1] if t == 0.0 and loss[3] < 0.0 < loss[4] and loss[2] == 0.0 else 0.0
    if far:
        return u / t
    return 1.0 / loss[1] if loss[3] < u < loss[4] else 0.0


@helper
def argument(y, f, margins):
    return y * f if margins else f - y


@helper
def add_rows(Z, before, theta, penalty, anew, H):
    """H <- P + Σ θ_i z_i z_iᵀ on and above the diagonal, four rows at a time; before becomes θ.

    Rows whose θ has changed are added, unless all that have one are fewer, or it is to be made anew.
    """
    n, d = Z.shape
    changed = np.empty(n + 3, np.int64)
    count, curved = 0, 0
    for i in range(n):
        count += theta[i] != before[i]
        curved += theta[i] != 0.0
    if anew or curved < count:
        before[:] = 0.0
        H[:] = 0.0
        for j in range(d):
            H[j, j] = penalty[j]
    count = 0
    for i in range(n):
        if theta[i] != before[i]:
            changed[count] = i
            count += 1
    for k in range(count, count + 3):
        changed[k] = 0  # with no weight
    for k in range(0, count, 4):
        a, b, c, e = changed[k], changed[k + 1], changed[k + 2], changed[k + 3]
        ta = theta[a] - before[a]
        tb = theta[b] - before[b] if k + 1 < count else 0.0
        tc = theta[c] - before[c] if k + 2 < count else 0.0
        te = theta[e] - before[e] if k + 3 < count else 0.0
        za, zb, zc, ze = Z[a], Z[b], Z[c], Z[e]
        for j in range(d):
            wa, wb, wc, we = ta * za[j], tb * zb[j], tc * zc[j], te * ze[j]
            row = H[j]
            for m in range(j, d):
                row[m] += (wa * za[m] + wb * zb[m]) + (wc * zc[m] + we * ze[m])
    before[:] = theta


@helper
def factored(H, held, U):
    """UᵀU = H + diag(held), of which the upper triangle is read; whether there is such a U."""
    d = len(H)
    for k in range(d):
        row = U[k]
        for c in range(k, d):
            row[c] = H[k, c]
        row[k] += held[k]
        t = 0
        while t + 4 <= k:
            r0, r1, r2, r3 = U[t], U[t + 1], U[t + 2], U[t + 3]
            d0, d1, d2, d3 = r0[k], r1[k], r2[k], r3[k]
            for c in range(k, d):
                row[c] -= (d0 * r0[c] + d1 * r1[c]) + (d2 * r2[c] + d3 * r3[c])
            t += 4
        while t < k:
            r0 = U[t]
            d0 = r0[k]
            for c in range(k, d):
                row[c] -= d0 * r0[c]
            t += 1
        if not row[k] > 0.0:
            return False
        root = np.sqrt(row[k])
        for c in range(k, d):
            row[c] /= root
    return True


@helper
def solved(U, x):
    """x <- (UᵀU)⁻¹ x."""
    d = len(x)
    for i in range(d):
        row = U[i]
        x[i] /= row[i]
        for k in range(i + 1, d):
            x[k] -= x[i] * row[k]
    for i in range(d - 1, -1, -1):
        x[i] = (x[i] - dot(U[i, i + 1 : d], x[i + 1 : d])) / U[i, i]


@helper
def length_along(y, cost, margins, loss, f, along, fixed, bent, searched):
    """The length at which the slope along a direction is a share of that at its start, as line_search.py finds it."""
    short, long, length, first = 0.0, np.inf, 0.0, np.inf
    for _ in range(ROUNDS):
        slope, curve = fixed + length * bent, bent
        for i in range(len(f)):
            u, t = slope_of(argument(y[i], f[i] + length * along[i], margins), loss)
            slope += cost[i] * u * (y[i] if margins else 1.0) * along[i]
            curve += cost[i] * curvature_of(u, t, loss, False) * along[i] * along[i]
        if first == np.inf:  # a look at the start
            first, length = abs(slope), 1.0
            continue
        if abs(slope) <= searched * first:
            break
        short, long = (short, length) if slope > 0.0 else (length, long)
        length = length - slope / curve if curve > 0.0 else np.inf
        if not short < length < long:
            length = 0.5 * (short + long) if long < np.inf else 2.0 * short
    return length


@jit
def newton_steps(
    Z, y, margins, cost, loss, penalty, held, far_gap, short_step, searched, x, f, theta, H, length, tol, most
):
    """Newton steps until the relative gap is below tol, the objective no longer falls, or no Hessian can be factored.

    ``loss``: (l, q, e, low, high). x, f, θ and the upper triangle of H go on from where they are, and ``length`` is
    that of the step before. Returns the steps and the length of the last one.
    """
    n, d = Z.shape
    gradient, direction, along, new, U = np.empty(d), np.empty(d), np.empty(n), np.empty(n), np.empty((d, d))
    last = np.inf
    for step in range(most):
        primal, gap = 0.0, 0.0
        for j in range(d):
            gradient[j] = penalty[j] * x[j]
            primal += 0.5 * penalty[j] * x[j] * x[j]
        for i in range(n):
            u, t = slope_of(argument(y[i], f[i], margins), loss)
            primal += cost[i] * (u * t - 0.5 * loss[1] * u * u)
            pull = cost[i] * u * (y[i] if margins else 1.0)
            if pull != 0.0:
                row = Z[i]
                for j in range(d):
                    gradient[j] += pull * row[j]
        for j in range(d):
            gap += gradient[j] * (0.5 * gradient[j] if penalty[j] > 0.0 else x[j])
        relative = gap / max(primal, np.finfo(np.float64).tiny)
        if step > 0 and (relative <= tol or not primal < last):
            return step, length
        last = primal
        far = relative > far_gap or length < short_step
        for i in range(n):
            u, t = slope_of(argument(y[i], f[i], margins), loss)
            new[i] = cost[i] * curvature_of(u, t, loss, far)
        add_rows(Z, theta, new, penalty, False, H)
        if not factored(H, held, U):  # rows that came and went have left rounding larger than the penalty
            add_rows(Z, theta, new, penalty, True, H)
            if not factored(H, held, U):
                return step, length
        for j in range(d):
            direction[j] = -gradient[j]
        solved(U, direction)
        fixed, bent = 0.0, 0.0
        for j in range(d):
            fixed += penalty[j] * x[j] * direction[j]
            bent += penalty[j] * direction[j] * direction[j]
        for i in range(n):
            along[i] = dot(Z[i], direction)
        length = length_along(y, cost, margins, loss, f, along, fixed, bent, searched)
        for j in range(d):
            x[j] += length * direction[j]
        for i in range(n):
            f[i] += length * along[i]
    return most, length
