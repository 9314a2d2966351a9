"""The objective of a linear machine, in float64, from the w and b that a contender returns, and a bound from below.

    P(w, b) = ½ |w|² + [½ b²] + C Σ loss(y, wᵀx + b)
    D(β)    = Σ (y β) − ½ |Xᵀβ|² − [½ (Σβ)²]      0 ≤ y β ≤ C for the hinge
              … − Σ β² / (4 C)                    0 ≤ y β     for the squared hinge
    D(β)    = Σ (y β − ε |β|) − ½ |Xᵀβ|² − …      |β| ≤ C     for the ε-insensitive loss

and Σβ = 0 where the bias is free. Any β can be made feasible, so any β proves a bound.
"""

from __future__ import annotations

import numpy as np
from linear_problems import LinearProblem

__all__ = ["bound", "primal"]


def primal(problem: LinearProblem, X, y, w, b: float) -> float:
    w = np.asarray(w, float)
    scores = X @ w + b
    if problem.regression:
        losses = np.maximum(0, np.abs(y - scores) - problem.epsilon)
    else:
        losses = np.maximum(0, 1 - y * scores)
    risk = (losses @ losses) if problem.loss == "squared_hinge" else losses.sum()
    return float((w @ w + (b * b if problem.bias == "penalised" else 0)) / 2 + problem.C * risk)


def bound(problem: LinearProblem, X, y, beta) -> float:
    """D of the nearest feasible β: clipped to the box and, where the bias is free, the heavier side made lighter."""
    top = np.inf if problem.loss == "squared_hinge" else problem.C
    low, high = (-top, top) if problem.regression else (np.where(y > 0, 0, -top), np.where(y > 0, top, 0))
    beta = np.clip(beta, low, high)
    if problem.bias == "free":
        plus, minus = beta[beta > 0].sum(), -beta[beta < 0].sum()
        if plus > minus:
            beta = np.where(beta > 0, beta * (minus / plus), beta)
        elif minus > plus:
            beta = np.where(beta < 0, beta * (plus / minus), beta)
    w = X.T @ beta
    quadratic = w @ w + (beta.sum() ** 2 if problem.bias == "penalised" else 0)
    linear = y @ beta - (problem.epsilon * np.abs(beta).sum() if problem.regression else 0)
    if problem.loss == "squared_hinge":
        linear -= (beta @ beta) / (4 * problem.C)
    return float(linear - quadratic / 2)
