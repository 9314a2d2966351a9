"""What each row of the interior method does on its own: a barrier for its box, Newton's step, the longest step.

A row has the signed coefficient β and the slope g of everything else, g = (Hβ + p + Aᵀη)_i. Its box, and ε|β| where
the box straddles 0, make one or two *parts* v ≥ lo (and ≤ up) with β = v or β = v₊ − v₋ and the cost ε(v₊ + v₋):

    part q, sign s_q:    γ = s_q g + c_q = zl − zu,    (v − lo) zl = μ,    (up − v) zu = μ            PDCO (6), (7)

Eliminating Δz, then Δv, leaves one number a row (PDCO (10), (11); θ is the inverse of the diagonal of H₂):

    Δβ = θ (ρ − u),    u = (Z Δw + Aᵀ Δη)_i

| PDCO          | here                                                                                        |
| ------------- | ------------------------------------------------------------------------------------------- |
| x₁, x₂        | ``slack[0]``, ``slack[1]``: distance to the bounds; ``BIG`` where there is none               |
| X₁⁻¹, X₂⁻¹    | ``inv[0]``, ``inv[1]``; 0 where there is no bound, and for a part that cannot move            |
| z₁, z₂        | ``dual[0]``, ``dual[1]``                                                                     |
| H₂⁻¹          | ``part[q]``, and of a row with its parts and its ridge together ``theta``                    |
| D₁²           | ``PROXIMAL``: proximal, so that it does not bias the answer                                     |

``c`` holds the second-order terms of Mehrotra's and Gondzio's correctors, ``m`` is σμ. Absent sides need no branches:
their inverse and their multiplier are 0. Divisions are what the loops would spend their time on, so that each part
has one inverse a side an iteration, and ratios are compared before they are computed.
"""

from __future__ import annotations

import numpy as np

from ..._jit import helper, inline, jit
from .fixed_sums import BIG
from .limits import ROUNDS

__all__ = [
    "BOTH", "FIXED", "FREE", "LOWER", "UPPER",
    "advance", "aim", "center", "center_slope", "correct", "enclose", "gap_terms", "predict", "weigh",
]  # fmt: skip

U = np.uint64  # a row's number without a sign: see rows/leaves.py
FREE, LOWER, UPPER, BOTH, FIXED = range(5)  # which sides a part has
PROXIMAL = 1e-13  # is D₁², in units of a slope over a coefficient: it keeps a part without sides from moving forever
LEAST_PRODUCT, MOST_PRODUCT = 0.1, 10.0  # times m: Gondzio's corrector leaves products between them alone


@inline
def _sign(q):
    return 1.0 - 2.0 * q


# Helpers take numbers, never arrays: an array that is handed on is counted, row by row, which costs more than the rest.


@inline
def _rho(il, iu, cl, cu, gamma, m):
    """ρ of one part."""
    return (m - cl) * il - (m - cu) * iu - gamma


@inline
def _turn(u, total, right, ridge, given):
    """du = u + ridge Δβ, and Δβ: from u, or (``given``: u is Δβ) from Δβ itself, which a dense system knows better."""
    if given:
        du, delta = (right - u) / max(total, 1e-300), u
    else:
        delta = (right - total * u) / (1.0 + ridge * total)
        du = u + ridge * delta
    return du, delta


@inline
def _duals(dv, zl, zu, il, iu, cl, cu, m):
    """Δzl, Δzu of one part."""
    return (m - cl - zl * dv) * il - zl, (m - cu + zu * dv) * iu - zu


@inline
def _fastest(value, change, rate):
    """The largest rate at which something vanishes: 1 / rate is the longest step."""
    return -change / value if -change > rate * value else rate


@jit
def weigh(kind, slack, dual, inv, part, cost, ridge, g, theta, moved, start, stop):
    """The inverses, θ, and θρ of the affine step (m = 0, no second-order terms)."""
    for i in range(U(start), U(stop)):
        total, right = 0.0, 0.0
        for q in range(part.shape[0]):
            k = kind[q, i]
            if k == FIXED:
                continue  # all its inverses are 0
            D = PROXIMAL
            if k == LOWER or k == BOTH:
                inv[0, q, i] = 1.0 / slack[0, q, i]
                D += dual[0, q, i] * inv[0, q, i]
            if k == UPPER or k == BOTH:
                inv[1, q, i] = 1.0 / slack[1, q, i]
                D += dual[1, q, i] * inv[1, q, i]
            part[q, i] = 1.0 / D
            total += part[q, i]
            right -= _sign(q) * part[q, i] * (_sign(q) * g[i] + cost[q, i])
        if ridge[i] > 0.0:
            share = 1.0 / (1.0 + ridge[i] * total)
            total *= share
            right *= share
        theta[i], moved[i] = total, right


@jit
def predict(part, slack, dual, inv, c, cost, ridge, g, u, given, out, start, stop):
    """The affine step: the largest rate, and what the corrector needs.

    c becomes the second-order terms; out[i] = (θρ with them, its derivative by m). At length α the products add up to
    (1 − α) S + α² Σ c.
    """
    parts, rate = part.shape[0], 1.0
    alone = given and parts == 1
    for i in range(U(start), U(stop)):
        total, right = 0.0, 0.0
        for q in range(parts):
            total += part[q, i]
            right -= part[q, i] * (g[i] + _sign(q) * cost[q, i])
        du, delta = _turn(u[i], total, right, ridge[i], given)
        central = 0.0
        for q in range(parts):
            il, iu = inv[0, q, i], inv[1, q, i]
            dv = -part[q, i] * (_sign(q) * (g[i] + du) + cost[q, i])
            if alone:
                dv = delta
            dzl, dzu = _duals(dv, dual[0, q, i], dual[1, q, i], il, iu, 0.0, 0.0, 0.0)
            # Δz/z = −1 ∓ Δv/slack: a multiplier vanishes as fast as its slack does not.
            rate = max(rate, max(-dv * il, 1.0 + dv * il), max(dv * iu, 1.0 - dv * iu))
            c[0, q, i], c[1, q, i] = dv * dzl, -dv * dzu
            central += _sign(q) * part[q, i] * (il - iu)
            right -= _sign(q) * part[q, i] * dv * (dzl * il + dzu * iu)
        share = 1.0 / (1.0 + ridge[i] * total)
        out[i, 0], out[i, 1] = right * share, central * share
    return rate


@inline
def _sums(part, inv, c, cost, g, m, i):
    """Σ θ and Σ ±θρ of a variable's parts, with second-order terms and the target m."""
    total, right = 0.0, 0.0
    for q in range(part.shape[0]):
        rho = _rho(inv[0, q, i], inv[1, q, i], c[0, q, i], c[1, q, i], _sign(q) * g[i] + cost[q, i], m)
        total += part[q, i]
        right += _sign(q) * part[q, i] * rho
    return total, right


@inline
def _corrected(part, dual, inv, c, cost, g, m, du, delta, alone, q, i):
    """Δv, Δzl and Δzu of one part of a variable in the corrected step; ``alone``: it is all there is, and Δv is Δβ."""
    il, iu, cl, cu = inv[0, q, i], inv[1, q, i], c[0, q, i], c[1, q, i]
    dv = part[q, i] * (_rho(il, iu, cl, cu, _sign(q) * g[i] + cost[q, i], m) - _sign(q) * du)
    if alone:
        dv = delta
    dzl, dzu = _duals(dv, dual[0, q, i], dual[1, q, i], il, iu, cl, cu, m)
    return dv, dzl, dzu


@jit
def correct(part, slack, dual, inv, c, cost, ridge, g, u, given, m, start, stop):
    """The largest rate of the corrected step."""
    parts, rate = part.shape[0], 1e-30
    alone = given and parts == 1
    for i in range(U(start), U(stop)):
        total, right = _sums(part, inv, c, cost, g, m, i)
        du, delta = _turn(u[i], total, right, ridge[i], given)
        for q in range(parts):
            dv, dzl, dzu = _corrected(part, dual, inv, c, cost, g, m, du, delta, alone, q, i)
            rate = _fastest(slack[0, q, i], dv, _fastest(slack[1, q, i], -dv, rate))
            rate = _fastest(dual[0, q, i], dzl, _fastest(dual[1, q, i], dzu, rate))
    return rate


@inline
def _pull(product, m):
    """What Gondzio's corrector adds to a product so that it comes back to [LEAST_PRODUCT m, MOST_PRODUCT m]."""
    return max(min(max(product, LEAST_PRODUCT * m), MOST_PRODUCT * m) - product, -MOST_PRODUCT * m)


@jit
def aim(part, slack, dual, inv, c, cost, ridge, g, u, given, m, length, better, moved, start, stop):
    """Gondzio's corrector: products at a longer step than the present one are pulled back to their target.

    better = c with the pulls, moved[i] = θρ with them.
    """
    parts = part.shape[0]
    alone = given and parts == 1
    for i in range(U(start), U(stop)):
        total, right = _sums(part, inv, c, cost, g, m, i)
        du, delta = _turn(u[i], total, right, ridge[i], given)
        for q in range(parts):
            dv, dzl, dzu = _corrected(part, dual, inv, c, cost, g, m, du, delta, alone, q, i)
            low = _pull((slack[0, q, i] + length * dv) * (dual[0, q, i] + length * dzl), m)
            high = _pull((slack[1, q, i] - length * dv) * (dual[1, q, i] + length * dzu), m)
            better[0, q, i], better[1, q, i] = c[0, q, i] - low, c[1, q, i] - high
            right += _sign(q) * part[q, i] * (low * inv[0, q, i] - high * inv[1, q, i])
        moved[i] = right / (1.0 + ridge[i] * total)


@jit
def advance(part, slack, dual, inv, c, cost, ridge, g, beta, u, given, m, length, start, stop):
    """Take the step."""
    parts = part.shape[0]
    alone = given and parts == 1
    for i in range(U(start), U(stop)):
        total, right = _sums(part, inv, c, cost, g, m, i)
        du, delta = _turn(u[i], total, right, ridge[i], given)
        for q in range(parts):
            dv, dzl, dzu = _corrected(part, dual, inv, c, cost, g, m, du, delta, alone, q, i)
            slack[0, q, i] += length * dv
            slack[1, q, i] -= length * dv
            dual[0, q, i] += length * dzl
            dual[1, q, i] += length * dzu
        beta[i] += length * delta
        g[i] += length * du


@jit
def gap_terms(lower, upper, eps, ridge, g, beta, start, stop):
    """Σ_i max_z [ … ] of the certificate (problem.py)."""
    gap = 0.0
    for i in range(U(start), U(stop)):
        b, d, e = beta[i], ridge[i], eps[i]
        r = g[i] - d * b
        z = 0.0
        if r > e:
            z = -(r - e) / d if d > 0.0 else lower[i]
        elif r < -e:
            z = (-r - e) / d if d > 0.0 else upper[i]
        z = min(max(z, lower[i]), upper[i])
        if abs(z) > BIG:
            return np.inf
        gap += max(0.0, r * (b - z) + 0.5 * d * (b * b - z * z) + e * (abs(b) - abs(z)))
    return gap


@inline
def _place(k, lo, up, gamma, mu):
    """v, its distances to the bounds, and dv/dγ (≤ 0) of a part whose slope is γ, on the central path at μ."""
    v, sl, su, slope = lo, BIG, BIG, 0.0
    if k == BOTH:
        h = 0.5 * (up - lo)
        a = abs(gamma) * h
        root = np.sqrt(mu * mu + a * a)
        near = h * (mu + mu * mu / (root + a)) / (mu + root)  # h − |t| without cancellation
        far = 2.0 * h - near
        if gamma > 0.0:
            v, sl, su = lo + near, near, far
        else:
            v, sl, su = up - near, far, near
        slope = -1.0 / (mu / (sl * sl) + mu / (su * su))
    elif k == LOWER:
        sl = mu / gamma
        v, slope = lo + sl, -sl * sl / mu
    elif k == UPPER:
        su = -mu / gamma
        v, slope = up - su, -su * su / mu
    return v, sl, su, slope


@helper
def _centre(k0, lo0, up0, c0, k1, lo1, up1, c1, base, ridge, mu):
    """The slope g of a row with a ridge on the central path: g = base + ridge β(g), β decreasing in g."""
    if k0 == FREE and k1 == FIXED:
        return -c0
    low, high = -BIG, BIG  # where every part's place exists
    if k0 == LOWER:
        low = max(low, -c0)
    elif k0 == UPPER:
        high = min(high, -c0)
    if k1 == LOWER:
        high = min(high, c1)
    elif k1 == UPPER:
        low = max(low, c1)
    g, scale = base, abs(base) + np.sqrt(ridge * mu)
    if low > -BIG and high < BIG:
        g = 0.5 * (low + high)
    elif g <= low:
        g = low + np.sqrt(ridge * mu)
    elif g >= high:
        g = high - np.sqrt(ridge * mu)
    for _ in range(ROUNDS):
        v0, _, _, s0 = _place(k0, lo0, up0, g + c0, mu)
        v1, _, _, s1 = _place(k1, lo1, up1, c1 - g, mu)
        value, slope = g - base - ridge * (v0 - v1), 1.0 - ridge * (s0 + s1)
        if value > 0.0:
            high = g
        else:
            low = g
        new = g - value / slope
        if not (new > low and new < high):
            new = 0.5 * (low + high) if low > -BIG and high < BIG else g - value
        if abs(new - g) <= 1e-15 * (scale + abs(new)):
            break
        g = new
    return g


@jit
def center(kind, lo, up, slack, dual, cost, base, ridge, mu, g, beta, start, stop):
    """Put every row on the central path at μ, given the slope ``base`` of all but its own ridge."""
    last = kind.shape[0] - 1
    for i in range(U(start), U(stop)):
        at = base[i]
        if ridge[i] > 0.0:
            k1, lo1 = (kind[1, i], lo[1, i]) if last else (FIXED, 0.0)
            at = _centre(
                kind[0, i], lo[0, i], up[0, i], cost[0, i], k1, lo1, up[last, i], cost[last, i],
                at, ridge[i], mu,
            )  # fmt: skip
        b = 0.0
        for q in range(last + 1):
            k = kind[q, i]
            v, sl, su, _ = _place(k, lo[q, i], up[q, i], _sign(q) * at + cost[q, i], mu)
            if k == FREE:
                v = (at - base[i]) / ridge[i]
            if k == LOWER or k == BOTH:
                slack[0, q, i], dual[0, q, i] = sl, mu / sl
            if k == UPPER or k == BOTH:
                slack[1, q, i], dual[1, q, i] = su, mu / su
            b += _sign(q) * v
        g[i], beta[i] = at, b


@jit
def center_slope(kind, lo, up, cost, base, ridge, mu, u, length, start, stop):
    """Σ u β at base + length u, every row on the central path: minus the slope of the merit function there."""
    total, last = 0.0, kind.shape[0] - 1
    for i in range(U(start), U(stop)):
        here = base[i] + length * u[i]
        at = here
        if ridge[i] > 0.0:
            k1, lo1 = (kind[1, i], lo[1, i]) if last else (FIXED, 0.0)
            at = _centre(
                kind[0, i], lo[0, i], up[0, i], cost[0, i], k1, lo1, up[last, i], cost[last, i],
                at, ridge[i], mu,
            )  # fmt: skip
        b = 0.0
        for q in range(last + 1):
            v, _, _, _ = _place(kind[q, i], lo[q, i], up[q, i], _sign(q) * at + cost[q, i], mu)
            if kind[q, i] == FREE:
                v = (at - here) / ridge[i]
            b += _sign(q) * v
        total += u[i] * b
    return total


@jit
def enclose(kind, lo, up, slack, dual, cost, g, beta, mu, room, start, stop):
    """Put every row inside its box, ``room`` from the bounds if it is that wide, near β; no multiplier too small."""
    for i in range(U(start), U(stop)):
        b, placed = beta[i], 0.0
        for q in range(kind.shape[0]):
            k = kind[q, i]
            v = max(0.0, _sign(q) * b) if kind.shape[0] == 2 and kind[1, i] != FIXED else b
            gamma = _sign(q) * g[i] + cost[q, i]
            if k == FIXED:
                v = lo[q, i]
            elif k == BOTH:
                width = up[q, i] - lo[q, i]
                edge = min(room, 0.5 * width)
                sl = min(max(v - lo[q, i], edge), width - edge)
                least = mu / max(sl, width - sl)
                slack[0, q, i], slack[1, q, i] = sl, width - sl
                dual[0, q, i], dual[1, q, i] = max(gamma, 0.0) + least, max(-gamma, 0.0) + least
                v = lo[q, i] + sl
            elif k == LOWER:
                slack[0, q, i] = max(v - lo[q, i], room)
                dual[0, q, i] = max(gamma, mu / slack[0, q, i])
                v = lo[q, i] + slack[0, q, i]
            elif k == UPPER:
                slack[1, q, i] = max(up[q, i] - v, room)
                dual[1, q, i] = max(-gamma, mu / slack[1, q, i])
                v = up[q, i] - slack[1, q, i]
            placed += _sign(q) * v
        beta[i] = placed
