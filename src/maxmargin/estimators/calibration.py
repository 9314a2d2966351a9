"""Probabilities from decisions: P(y = 1 | f) by Platt's sigmoid, by isotonic regression or by a temperature.

A calibration is fitted to decisions of machines that have not seen the samples (folds.py).

| calibration   | P(first class of a pair), f being positive for it                                    |
| ------------- | ------------------------------------------------------------------------------------ |
| "sigmoid"     | 1 / (1 + exp(A f + B)), A ≤ 0, by Newton's method (Platt 2000; Lin, Lin & Weng 2007) |
| "temperature" | the same with B = 0: one number, the width of the doubt around f = 0                 |
| "isotonic"    | a curve that never falls, for thousands of samples                                   |

Targets are not 0 and 1 but (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2), Platt's prior against being too sure. Weights of
samples and classes count as copies throughout. Several classes are put together from all pairs by the second method of
Wu, Lin & Weng 2004, to the accuracy that LIBSVM has, so that its programs give the same digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from .._jit import inline, jit

__all__ = [
    "CALIBRATIONS",
    "Calibration",
    "agreeing",
    "calibrated",
    "couple",
    "density_marks",
    "laplace_width",
    "normal_share",
]

CALIBRATIONS = ("sigmoid", "isotonic", "temperature")
LEAST = 1e-7  # probability of a class of a pair, as in LIBSVM: logarithms stay finite, and classes can be coupled
COUPLED = 0.005  # over the number of classes: what LIBSVM leaves of the conditions of a coupling
NEWTON_STEPS = 100
DECREMENT = 1e-14  # of the loss: a Newton step that promises less is none
HESSIAN_RIDGE = 1e-12  # of Lin, Lin & Weng, relative to the curvature along the decisions
SHORTEST = 1e-10  # step of a line search
STEEPEST, FLATTEST = 1e-6, 1e6  # temperatures, in units of the mean size of a decision
OUTLIER = 5.0  # standard deviations of a Laplace distribution beyond which a residual does not count, as in LIBSVM
MARKS = 10  # of a one-class machine's decisions, half of them for outliers, as in LIBSVM
SURE = 0.999  # probability beyond the last mark, as in LIBSVM
TIED = 1e-12  # of the largest decision: what rounding leaves between those of points that are alike
ROUNDING = 1e-9  # of a number of copies that is a whole one


# -- calibrations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """P(first class of a pair) for each pair, from its decision."""

    method: str
    A: np.ndarray  # of each pair, for a sigmoid: 1 / (1 + exp(A f + B))
    B: np.ndarray
    steps: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # decisions and values, for "isotonic"

    def pairwise(self, decisions: np.ndarray) -> np.ndarray:
        """(n, pairs) of probabilities from (n, pairs) of decisions, positive for the first class."""
        if self.method != "isotonic":
            found = expit(-(self.A * decisions + self.B))
        else:
            columns = [np.interp(f, *curve) for f, curve in zip(decisions.T, self.steps, strict=True)]
            found = np.column_stack(columns)
        return np.clip(found, LEAST, 1.0 - LEAST)

    def probabilities(self, decisions: np.ndarray, k: int) -> np.ndarray:
        """(n, classes) from the decisions of all pairs."""
        pairs = self.pairwise(decisions)
        return np.column_stack([pairs[:, 0], 1.0 - pairs[:, 0]]) if k == 2 else couple(pairs, k)


def agreeing(probabilities: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The nearest probabilities in which the class that was chosen has the largest, by a hair if need be.

    A calibrated curve need not cross ½ where f = 0, nor need the class of most votes be the most probable one. Where
    they disagree, doubt is what there is: the chosen class and those above it share what they have.
    """
    rows = np.flatnonzero(probabilities.argmax(axis=1) != chosen)
    if not len(rows):
        return probabilities
    out, own = probabilities.copy(), chosen[rows]
    p = out[rows]
    first = p[np.arange(len(rows)), own]
    others = np.sort(np.where(np.arange(p.shape[1]) == own[:, None], -np.inf, p), axis=1)[:, ::-1][:, :-1]
    # Of the others, largest first, those belong to the pool that are above the level of the pool before them.
    level = (first[:, None] + np.cumsum(others, axis=1)) / np.arange(2, p.shape[1] + 1)
    before = np.column_stack([first, level[:, :-1]])
    count = (others > before).sum(axis=1)
    shared = np.where(count > 0, level[np.arange(len(rows)), np.maximum(count, 1) - 1], first)
    p = np.minimum(p, shared[:, None])
    p[np.arange(len(rows)), own] = np.nextafter(shared, 1.0)
    out[rows] = p
    return out


def calibrated(method: str, decisions: Sequence[np.ndarray], signs: Sequence[np.ndarray], weights: Any) -> Calibration:
    """The calibration of each pair from out-of-fold decisions, signs (+1: the first class) and weights."""
    A, B, steps = np.zeros(len(signs)), np.zeros(len(signs)), []
    for pair, (f, sign, weight) in enumerate(zip(decisions, signs, weights, strict=True)):
        target = _targets(sign, weight)
        if method == "sigmoid":
            A[pair], B[pair] = sigmoid(f, target, weight)
        elif method == "temperature":
            A[pair] = temperature(f, target, weight)
        else:
            steps.append(_isotonic(f, target, weight))
    return Calibration(method, A, B, steps)


def _targets(sign: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Platt's targets: the share of the first class among N samples of it and one of each class besides."""
    first, second = float(weight[sign > 0].sum()), float(weight[sign <= 0].sum())
    return np.where(sign > 0, (first + 1.0) / (first + 2.0), 1.0 / (second + 2.0))


def sigmoid(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """(A, B) of the least log-loss with A ≤ 0: a decision that says the contrary of the labels says nothing."""
    first = float(weight[target > 0.5].sum())
    second = float(weight.sum()) - first
    A, B = platt(f, target, weight, np.log((second + 1.0) / (first + 1.0)))
    if A <= 0.0:
        return float(A), float(B)
    share = float(weight @ target / weight.sum())
    return 0.0, float(np.log((1.0 - share) / share))


def temperature(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    """−1 / T of the least log-loss, T in a range around the size of decisions."""
    size = float(weight @ np.abs(f) / weight.sum())
    if not STEEPEST * size > np.finfo(float).tiny:  # decisions of 1e-305, far from all samples, have no temperature
        return 0.0

    def loss(log_t: float) -> float:
        z = -f * (np.exp(-log_t) / size)
        return float(weight @ (target * z + np.logaddexp(0.0, -z)))

    found = minimize_scalar(
        loss, bounds=(np.log(STEEPEST), np.log(FLATTEST)), method="bounded", options={"xatol": 1e-8}
    )
    return -float(np.exp(-found.x)) / size


def _isotonic(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the curve bends, and its values there; it is flat beyond its ends.

    Decisions that differ by rounding are one: which of them is above the other says nothing of their classes.
    """
    order = np.argsort(f, kind="stable")
    apart = np.diff(f[order], prepend=f[order[0]]) > TIED * np.abs(f).max()
    first = np.maximum.accumulate(np.where(apart, np.arange(len(f)), 0))
    f = f.copy()
    f[order] = f[order][first]
    fitted = IsotonicRegression(increasing=True, out_of_bounds="clip").fit(f, target, sample_weight=weight)
    return np.asarray(fitted.X_thresholds_, np.float64), np.asarray(fitted.y_thresholds_, np.float64)


# -- what LIBSVM has for other machines --------------------------------------------------------------------------------


def laplace_width(residuals: np.ndarray, weight: np.ndarray) -> float:
    """The width σ of a Laplace distribution of the residuals: their mean size, without the farthest ones."""
    size = np.abs(residuals)
    mean = float(weight @ size / weight.sum())
    near = size <= OUTLIER * np.sqrt(2.0) * mean
    return float(weight[near] @ size[near] / weight[near].sum()) if near.any() else mean


def density_marks(decisions: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Marks between which a tenth of probability lies each, half of them for outliers; None where these are too few.

    Negative decisions are parted into five runs of equal weight, the others as well. A mark lies half way between the
    edges of runs: below 0 the first decision of each, then 0 itself, above the last decision of each.
    """
    order = np.argsort(decisions, kind="stable")
    f, w = decisions[order], weight[order]
    half, negative = MARKS // 2, int(np.searchsorted(f, 0.0, side="left"))
    below, above = np.cumsum(w[:negative]), np.cumsum(w[negative:])
    if min(below[-1:].sum(), above[-1:].sum()) < half:
        return None
    shares = np.arange(half + 1) / half
    # Weights are copies: the first sample is the one in which the copy number ⌊share · total⌋ is.
    first = np.searchsorted(below, np.floor(shares[:-1] * below[-1] + ROUNDING), side="right")
    last = np.searchsorted(above, np.floor(shares[1:] * above[-1] + ROUNDING) - 1.0, side="right")
    edges = np.concatenate(
        [f[:negative][np.minimum(first, negative - 1)], [0.0], f[negative:][np.clip(last, 0, len(above) - 1)]]
    )
    return 0.5 * (edges[:-1] + edges[1:])


def normal_share(decisions: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The probability of being no outlier."""
    number = np.searchsorted(marks, decisions, side="right")
    share = np.where(decisions > marks[-1], SURE, np.minimum(number, MARKS - 1) / MARKS)
    return np.where(number == 0, 1.0 - SURE, share)


# -- leaves ---------------------------------------------------------------------------------------------------------


@inline
def _log_loss(z, t):
    """−t log p − (1 − t) log(1 − p) with p = 1 / (1 + exp(z)), without overflow."""
    return t * z + np.log1p(np.exp(-z)) if z >= 0.0 else (t - 1.0) * z + np.log1p(np.exp(z))


@jit
def _loss_of(f, target, weight, A, B):
    total = 0.0
    for i in range(len(f)):
        total += weight[i] * _log_loss(A * f[i] + B, target[i])
    return total


@jit
def platt(f, target, weight, B):
    """Newton's method with a line search on the log-loss of 1 / (1 + exp(A f + B)), from A = 0."""
    A = 0.0
    loss = _loss_of(f, target, weight, A, B)
    for _ in range(NEWTON_STEPS):
        aa, ab, bb, ga, gb = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(len(f)):
            z = A * f[i] + B
            p = np.exp(-z) / (1.0 + np.exp(-z)) if z >= 0.0 else 1.0 / (1.0 + np.exp(z))
            curve = weight[i] * p * (1.0 - p)
            slope = weight[i] * (target[i] - p)
            aa += f[i] * f[i] * curve
            ab += f[i] * curve
            bb += curve
            ga += f[i] * slope
            gb += slope
        aa += HESSIAN_RIDGE * (1.0 + aa)
        bb += HESSIAN_RIDGE * (1.0 + bb)
        determinant = aa * bb - ab * ab
        if not determinant > 0.0:
            break
        da = -(bb * ga - ab * gb) / determinant
        db = -(aa * gb - ab * ga) / determinant
        promise = ga * da + gb * db
        if not promise < -DECREMENT * loss:  # the loss cannot tell any more; the step can, for the last time
            if promise < 0.0:
                A, B = A + da, B + db
            break
        step = 1.0
        moved = False
        while step >= SHORTEST:
            new = _loss_of(f, target, weight, A + step * da, B + step * db)
            if new < loss + 1e-4 * step * promise:
                A, B, loss, moved = A + step * da, B + step * db, new, True
                break
            step *= 0.5
        if not moved:
            break
    return A, B


@jit
def _couple(pairs, k, out):
    """Σ_i Σ_{j≠i} (r_ji p_i − r_ij p_j)² made small over all p ≥ 0 of sum 1, one class after the other."""
    r = np.empty((k, k))
    Q = np.empty((k, k))
    Qp = np.empty(k)
    most = max(100, k)
    for row in range(len(pairs)):
        c = 0
        for i in range(k):
            for j in range(i + 1, k):
                r[i, j] = pairs[row, c]
                r[j, i] = 1.0 - pairs[row, c]
                c += 1
        for i in range(k):
            Q[i, i] = 0.0
            for j in range(k):
                if j != i:
                    Q[i, i] += r[j, i] * r[j, i]
                    Q[i, j] = -r[j, i] * r[i, j]
        p = out[row]
        p[:] = 1.0 / k
        for _ in range(most):
            total = 0.0
            for i in range(k):
                Qp[i] = 0.0
                for j in range(k):
                    Qp[i] += Q[i, j] * p[j]
                total += p[i] * Qp[i]
            worst = 0.0
            for i in range(k):
                worst = max(worst, abs(Qp[i] - total))
            if worst < COUPLED / k:
                break
            for i in range(k):
                change = (total - Qp[i]) / Q[i, i]
                p[i] += change
                total = (total + change * (change * Q[i, i] + 2.0 * Qp[i])) / (1.0 + change) / (1.0 + change)
                for j in range(k):
                    Qp[j] = (Qp[j] + change * Q[i, j]) / (1.0 + change)
                    p[j] /= 1.0 + change


def couple(pairs: np.ndarray, k: int) -> np.ndarray:
    """(n, k) of probabilities that suit those of all pairs, r_ij = P(i | i or j), best."""
    out = np.empty((len(pairs), k))
    _couple(np.ascontiguousarray(pairs, np.float64), k, out)
    return out
