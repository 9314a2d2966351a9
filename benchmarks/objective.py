"""How good a fitted model is, recomputed in float64 from the coefficients that it returns.

Nothing is taken from a contender's own book-keeping: only `support_`, `dual_coef_`, `n_support_` and
`intercept_` enter, in scikit-learn's layout. With signed coefficients β, f = Kβ + b over all training
points of a binary problem, and everything written as a minimum (so lower is better),

    SVC          objective = ½ βᵀKβ − yᵀβ               primal = ½ βᵀKβ + C Σ max(0, 1 − y f)
    SVR          objective = ½ βᵀKβ − yᵀβ + ε Σ|β|      primal = ½ βᵀKβ + C Σ max(0, |y − f| − ε)
    NuSVC        objective = ½ βᵀKβ                     primal = ½ βᵀKβ − νnρ + Σ max(0, ρ − y f)
    OneClassSVM  objective = ½ βᵀKβ                     primal = ½ βᵀKβ − νnρ + Σ max(0, ρ − Kβ),  ρ = −b

and gap = primal + objective ≥ 0 for any feasible β. NuSVC returns β divided by ρ; it is scaled back so
that Σ|β| = νn, which gives ρ = the scale. An infeasible β can undercut the optimum, hence `infeasibility`:
the largest of |Σβ − target| / Σ|β| and the excess over the box / the size of the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from problems import Problem
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

__all__ = ["audit"]

BLOCK_ENTRIES = 1 << 22  # kernel entries held at a time: 32 MB


def audit(model, problem: Problem, X, y) -> dict[str, float]:
    """Objective, primal, gap and infeasibility of a model: sums over its binary problems, infeasibility the worst."""
    binary = list(binary_problems(model, problem, y))
    coefficients = np.stack([part.beta for part in binary], axis=1)
    scores = kernel_product(kernel(problem.params, X), X, model.support_, coefficients)
    values = [measure(part, Kbeta, problem, model.support_) for part, Kbeta in zip(binary, scores.T, strict=True)]
    total = {key: float(sum(value[key] for value in values)) for key in ("objective", "primal", "gap")}
    total["relative_gap"] = total["gap"] / max(abs(total["objective"]), np.finfo(float).tiny)
    total["infeasibility"] = float(max(value["infeasibility"] for value in values))
    return total


@dataclass(frozen=True)
class Binary:
    """One binary problem inside a model."""

    rows: np.ndarray  # training points that take part
    target: np.ndarray  # of those: ±1, or the value to regress on
    beta: np.ndarray  # signed coefficients of all support vectors of the model, 0 for those of other classes
    intercept: float


def binary_problems(model, problem: Problem, y):
    """The binary problems of a model: one for two classes, regression and one class, else one for each pair of classes.

    Class i against j > i keeps the coefficients of the support vectors of i in row j − 1 of `dual_coef_` and
    those of j in row i, positive for i; two classes alone count as 1 against 0, positive for `classes_[1]`.
    """
    dual_coef = model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else np.asarray(model.dual_coef_)
    intercept = np.ravel(model.intercept_).astype(float)
    classes = getattr(model, "classes_", None)
    if classes is None:
        target = np.ones(len(y)) if problem.estimator == "OneClassSVM" else y
        yield Binary(np.arange(len(y)), target, dual_coef[0].astype(float), intercept[0])
    elif len(classes) == 2:
        yield Binary(np.arange(len(y)), np.where(y == classes[1], 1, -1), dual_coef[0].astype(float), intercept[0])
    else:
        ends = np.concatenate(([0], np.cumsum(model.n_support_)))
        for (i, j), b in zip(combinations(range(len(classes)), 2), intercept, strict=True):
            rows = np.flatnonzero((y == classes[i]) | (y == classes[j]))
            beta = np.zeros(dual_coef.shape[1])
            beta[ends[i] : ends[i + 1]] = dual_coef[j - 1, ends[i] : ends[i + 1]]
            beta[ends[j] : ends[j + 1]] = dual_coef[i, ends[j] : ends[j + 1]]
            yield Binary(rows, np.where(y[rows] == classes[i], 1, -1), beta, b)


def measure(part: Binary, scores: np.ndarray, problem: Problem, support: np.ndarray) -> dict[str, float]:
    """The values of one binary problem; scores is Kβ over all training points."""
    beta, Kbeta, y = part.beta, scores[part.rows], part.target
    everywhere = np.zeros(len(scores))
    everywhere[part.rows] = y
    y_support = everywhere[support]
    quadratic, linear = beta @ scores[support], 0.0
    box, total = problem.params.get("C", 1.0), 0.0  # |β| ≤ box, Σβ = total
    if problem.estimator == "SVC":
        linear = -y_support @ beta
        risk = box * np.maximum(0, 1 - y * (Kbeta + part.intercept)).sum()
    elif problem.estimator == "SVR":
        epsilon = problem.params.get("epsilon", 0.1)
        linear = epsilon * np.abs(beta).sum() - y_support @ beta
        risk = box * np.maximum(0, np.abs(y - Kbeta - part.intercept) - epsilon).sum()
    else:
        box, mass = 1.0, problem.params.get("nu", 0.5) * len(y)
        if problem.estimator == "NuSVC":
            rho = mass / np.abs(beta).sum()
            beta, quadratic = rho * beta, rho**2 * quadratic
            margins = rho * y * (Kbeta + part.intercept)
        else:
            margins, rho, total = Kbeta, -part.intercept, mass
        risk = np.maximum(0, rho - margins).sum() - mass * rho
    objective, primal = quadratic / 2 + linear, quadratic / 2 + risk
    forward = np.abs(beta) if problem.estimator == "SVR" else beta * y_support  # in [0, box] when feasible
    excess = max(forward.max(initial=0) - box, -forward.min(initial=0)) / box
    imbalance = abs(beta.sum() - total) / max(np.abs(beta).sum(), np.finfo(float).tiny)
    infeasibility = max(imbalance, excess)
    return {"objective": objective, "primal": primal, "gap": primal + objective, "infeasibility": infeasibility}


def kernel_product(K: Callable, X, support: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """K(X, X[support]) @ coefficients, block by block."""
    step = max(1, BLOCK_ENTRIES // max(1, len(support)))
    centres = X[support]
    blocks = (K(X[start : start + step], centres) @ coefficients for start in range(0, X.shape[0], step))
    return np.concatenate(list(blocks))


def kernel(params: dict, X) -> Callable:
    """The kernel that the parameters name, with their defaults, as a function of two sets of points."""
    name, degree, coef0 = params.get("kernel", "rbf"), params.get("degree", 3), params.get("coef0", 0.0)
    gamma = params.get("gamma", "scale")
    if gamma == "scale":
        mean, square = (X.mean(), X.multiply(X).mean()) if sparse.issparse(X) else (X.mean(), (X * X).mean())
        gamma = 1 / (X.shape[1] * (square - mean**2)) if square > mean**2 else 1.0
    elif gamma == "auto":
        gamma = 1 / X.shape[1]

    def inner(A, B):
        return safe_sparse_dot(A, B.T, dense_output=True)

    def squares(A):
        return np.asarray((A.multiply(A) if sparse.issparse(A) else A * A).sum(axis=1)).ravel()

    def rbf(A, B):
        distances = squares(A)[:, None] + squares(B)[None, :] - 2 * inner(A, B)
        return np.exp(-gamma * np.maximum(distances, 0))

    return {
        "linear": inner,
        "poly": lambda A, B: (gamma * inner(A, B) + coef0) ** degree,
        "rbf": rbf,
        "sigmoid": lambda A, B: np.tanh(gamma * inner(A, B) + coef0),
    }[name]
