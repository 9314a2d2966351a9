"""Compiled leaf of the minimal primal-dual method: Algorithm 1 on a matrix in memory (mpd.py says what it does)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._jit import helper, inline, jit
from .pair_steps import HUGE, TILE, first_that_gains, set_offsets

__all__ = ["SETTLED", "Constraints", "DualHessian", "Rules", "Trace", "algorithm_1", "newton_step"]

SETTLED = 1e-3  # residual of Hγ_j = −a_j, whose right-hand side has mean square 1, that counts as solved
SLOW = 0.7  # share of |Aβ − b| that a dual step may leave: after more, another working set is due
IN_VAIN = 5  # dual steps without a smaller |Aβ − b| after which the next wait for half the violation


class Constraints(NamedTuple):
    """Qβ = c. Dual steps move η, primal steps r, in place."""

    Q: np.ndarray
    eta: np.ndarray
    r: np.ndarray  # Qβ − c


class DualHessian(NamedTuple):
    """The systems Hγ_j = −a_j whose solutions give the Hessian of the dual function; all of it moves in place."""

    gamma: np.ndarray
    R: np.ndarray  # residuals Hγ_j + a_j
    free: np.ndarray  # 1 for variables that take part, 0 for those that are held at a bound
    M: np.ndarray  # room for the estimate of A H⁻¹ Aᵀ


class Rules(NamedTuple):
    """When and how far Algorithm 1 steps; MPD's fields of the same name say more."""

    omega: float
    estimate: bool  # the dual Hessian
    full: bool  # not only its diagonal
    clamping: bool
    settled: bool
    rho: float
    eager: float
    bound: float  # of a dual step's length, relative to the gradient
    tol_p: float
    tol_d: float
    whole: bool  # all variables are here: nobody else can lessen |Aβ − b|
    most: int  # steps


class Trace(NamedTuple):
    """The first iterations: both violations, dual steps, steps for the dual Hessian, η."""

    rows: np.ndarray
    counts: np.ndarray  # rows, dual steps and steps for the dual Hessian so far

    def columns(self, T: np.ndarray) -> dict[str, np.ndarray]:
        """As columns of a history, with multipliers of the rows of A; Q = TA."""
        rows = self.rows[: self.counts[0]]
        return {
            "primal_violation": rows[:, 0], "dual_violation": rows[:, 1], "dual_steps": rows[:, 2].astype(np.int64),
            "hessian_steps": rows[:, 3].astype(np.int64), "eta": rows[:, 4:] @ T,
        }  # fmt: skip


@helper
def _hessian_steps(H, diag, hessian, trace):
    """One Gauss–Seidel step on each of the systems Hγ_j = −a_j, at the largest residual; whether one was due."""
    R, free = hessian.R, hessian.free
    n = len(diag)
    due = False
    for j in range(len(R)):
        best = 0.0
        w = 0
        for t0 in range(0, n, TILE):
            high = 0.0
            for s in range(t0, min(t0 + TILE, n)):
                high = max(high, abs(R[j, s]) * free[s])
            if high > best:
                best = high
                w = t0
        if best > SETTLED:
            due = True
            for s in range(w, min(w + TILE, n)):
                if abs(R[j, s]) * free[s] == best:
                    w = s
                    break
            change = -R[j, w] / diag[w]
            hessian.gamma[j, w] += change
            trace.counts[2] += 1
            for s in range(n):
                R[j, s] += change * H[w, s]
    return due


@inline
def _pass(row, t, x):
    """v −= t row; returns the largest violation of (iii–v), twice the largest decrease of the objective, its tile."""
    v, rise, fall, diag = x.v, x.rise, x.fall, x.diag
    violation = 0.0
    best = 0.0
    tile = 0
    for t0 in range(0, len(v), TILE):
        t1 = min(t0 + TILE, len(v))
        if t != 0.0:
            for s in range(t0, t1):
                v[s] -= t * row[s]
        high = 0.0
        for s in range(t0, t1):
            pull = max(max(v[s] + rise[s], -(v[s] + fall[s])), 0.0)
            violation = max(violation, pull)
            high = max(high, pull * pull / diag[s])
        if high > best:
            best = high
            tile = t0
    return violation, best, tile


@helper
def newton_step(M, r, bound):
    """(A H⁻¹ Aᵀ)⁻¹ (Aβ − b), its eigenvalues no larger than the bound."""
    k = len(r)
    symmetric = np.empty((k, k))
    step = np.empty(k)
    for a in range(k):
        step[a] = 0.0
        for j in range(k):
            symmetric[a, j] = 0.5 * (M[a, j] + M[j, a])
    lam, V = np.linalg.eigh(symmetric)
    least = max(1e-12 * lam[k - 1], 1e-300)
    for a in range(k):
        along = 0.0
        for j in range(k):
            along += V[j, a] * r[j]
        along *= min(1.0 / max(lam[a], least), bound)
        for j in range(k):
            step[j] += V[j, a] * along
    return step


@helper
def _dual_step(v, constraints, hessian, rules):
    """η moves by a Newton step, or by ρ r, and v with it; whether η stays finite: without a bound it may diverge."""
    Q, eta, r = constraints
    k, n = Q.shape
    if rules.estimate:
        gamma, R = hessian.gamma, hessian.R
        for a in range(k):
            for c in range(k):
                entry = 0.0
                if a == c or rules.full:
                    for s in range(n):
                        entry -= Q[a, s] * gamma[c, s] + gamma[a, s] * R[c, s]
                hessian.M[a, c] = entry
        step = newton_step(hessian.M, r, rules.bound)
    else:
        step = np.empty(k)
        for j in range(k):
            step[j] = rules.rho * r[j]
    for j in range(k):
        if not abs(eta[j] + step[j]) < HUGE:
            return False
    for j in range(k):
        eta[j] += step[j]
        for s in range(n):
            v[s] -= step[j] * Q[j, s]
    return True


@helper
def _primal_step(i, x, omega):
    """β_i goes ω times as far as the minimum of ½ H_ii b² − (H_ii β_i + v_i) b + ε_i |b| in the box; its change.

    The minimum is a soft threshold, then clipped; a step does not go over the corner at 0.
    """
    b, d, e, low, high = x.beta[i], x.diag[i], x.eps[i], x.lower[i], x.upper[i]
    pull = d * b + x.v[i]
    new = (max(pull - e, 0.0) + min(pull + e, 0.0)) / d
    new = min(max(new, low), high)
    further = min(max(b + omega * (new - b), low), high)
    if e == 0.0 or further * new > 0.0:
        new = further
    x.beta[i] = new
    set_offsets(i, x)
    return new - b


@helper
def _clamp(i, H, x, hessian):
    """Variable i takes part in the systems of the dual Hessian, or is held at 0 there, as it is free or at a bound."""
    b = x.beta[i]
    now = 1.0 if x.lower[i] < b < x.upper[i] and (x.eps[i] == 0.0 or b != 0.0) else 0.0
    if now == hessian.free[i]:
        return
    hessian.free[i] = now
    for j in range(len(hessian.gamma)):
        change = hessian.gamma[j, i]
        if now == 0.0 and change != 0.0:
            hessian.gamma[j, i] = 0.0
            for s in range(len(x.v)):
                hessian.R[j, s] -= change * H[i, s]


@helper
def _note(violation, lack, eta, trace):
    row = trace.rows[trace.counts[0]]
    row[0], row[1], row[2], row[3] = violation, lack, trace.counts[1], trace.counts[2]
    for j in range(len(eta)):  # not row[4:] = eta: numba compiles the words of an error with it, which takes a second
        row[4 + j] = eta[j]
    trace.counts[0] += 1


@jit
def algorithm_1(H, x, constraints, hessian, rules, trace):
    """Algorithm 1 on H + ρ QᵀQ; returns the number of primal and of dual steps. The variable that moves is the one
    with the largest decrease of the objective, which for equal H_ii is the one with the largest violation."""
    k = len(constraints.r)
    steps = duals = 0
    lack_before = least_lack = np.inf
    content, in_vain = rules.tol_p, 0  # violation below which a dual step is due; dual steps that did not help
    i = np.int64(0)
    t = 0.0
    while True:
        waiting = rules.estimate and _hessian_steps(H, x.diag, hessian, trace) and rules.settled
        violation, gain, tile = _pass(H[i], t, x)
        t = 0.0
        lack = 0.0
        for j in range(k):
            lack = max(lack, abs(constraints.r[j]))
        if trace.counts[0] < len(trace.rows):
            _note(violation, lack, constraints.eta, trace)
        solved = violation < rules.tol_p and lack < rules.tol_d
        tired = steps + duals >= rules.most
        if solved or tired:
            return steps, duals
        if lack >= rules.tol_d and violation < max(content, rules.eager * rules.rho * lack) and not waiting:
            slow = lack > SLOW * lack_before
            if slow and not rules.whole:
                return steps, duals
            lack_before = lack
            in_vain = in_vain + 1 if rules.rho > 0.0 and lack >= least_lack else 0
            least_lack = min(least_lack, lack)
            if in_vain == IN_VAIN:  # what the primal steps leave undone is as large as what is lacking
                content, in_vain = 0.5 * content, 0
            if not _dual_step(x.v, constraints, hessian, rules):
                return steps, duals
            duals += 1
            trace.counts[1] += 1
            continue
        steps += 1
        if gain == 0.0:
            continue
        i = first_that_gains(gain, x, tile)
        t = _primal_step(i, x, rules.omega)
        for j in range(k):
            constraints.r[j] += t * constraints.Q[j, i]
        if rules.estimate and rules.clamping:
            _clamp(i, H, x, hessian)
        if abs(x.beta[i]) > HUGE:
            return steps, duals
