"""Support vector machines by their definitions: plain float64 sums over dense kernel matrices, nothing of the package.

All functions take a fitted model only for its public attributes, so that they judge any library's models alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from referee import naive_kernel


def dense(X) -> np.ndarray:
    """Any kind of samples as a float64 array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def gamma_of(gamma, X, weight=None) -> float:
    """The number that "scale" and "auto" stand for; a weight counts copies."""
    X = dense(X)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return float(gamma)
    copies = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    mean = (copies @ X).sum() / (copies.sum() * X.shape[1])
    variance = (copies @ (X - mean) ** 2).sum() / (copies.sum() * X.shape[1])
    return 1.0 / (X.shape[1] * variance)


def kernel_of(model, X, Z=None, gamma=None) -> np.ndarray:
    """The kernel matrix that a model's parameters name, between X and Z (or X itself)."""
    if model.kernel == "precomputed":
        return dense(X)
    X, Z = dense(X), dense(X if Z is None else Z)
    if callable(model.kernel):
        return np.asarray(model.kernel(X, Z), float)
    gamma = gamma_of(model.gamma, X) if gamma is None else gamma
    return naive_kernel(model.kernel, X, Z, gamma=gamma, coef0=model.coef0, degree=model.degree)


# -- coefficients ---------------------------------------------------------------------------------------


def coefficients(model, n: int) -> np.ndarray:
    """One signed coefficient for each of the n training samples, of a model with one problem."""
    beta = np.zeros(n)
    beta[model.support_] = dense(model.dual_coef_)[0]
    return beta


@dataclass(frozen=True)
class Pair:
    """One binary problem of a classifier: its rows, labels ±1, signed coefficients and bias."""

    rows: np.ndarray
    y: np.ndarray
    beta: np.ndarray
    bias: float
    classes: tuple[int, int]


def pairs(model, labels) -> list[Pair]:
    """The binary problems of a classifier, read from LIBSVM's layout of ``dual_coef_``.

    Support vectors are grouped by class. A support vector of class i has its coefficient against a later class j
    in row j − 1, against an earlier one in row j. With two classes the second one is the positive one.
    """
    number = np.searchsorted(model.classes_, labels)
    k = len(model.classes_)
    dual = dense(model.dual_coef_)
    owner = np.repeat(np.arange(k), model.n_support_)
    out = []
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        full = np.zeros(len(labels))
        full[model.support_[owner == i]] = dual[j - 1, owner == i]
        full[model.support_[owner == j]] = dual[i, owner == j]
        rows = np.flatnonzero((number == i) | (number == j))
        positive = j if k == 2 else i
        y = np.where(number[rows] == positive, 1.0, -1.0)
        out.append(Pair(rows, y, full[rows], float(model.intercept_[c]), (i, j)))
    return out


# -- objectives: (primal, dual) -------------------------------------------------------------------------
#
# K is the kernel matrix of the problem's samples, C one cost for each of them; dual values are to be maximised.


def hinge(m):
    return np.maximum(0.0, 1.0 - m)


def huber_hinge(m, delta):
    """0 beyond 1 + δ, linear below 1 − δ, a parabola that joins them in between."""
    middle = (1.0 + delta - m) ** 2 / (4.0 * delta)
    return np.where(m > 1.0 + delta, 0.0, np.where(m < 1.0 - delta, 1.0 - m, middle))


def tube(r, epsilon):
    return np.maximum(0.0, np.abs(r) - epsilon)


def c_svc(K, y, beta, bias, C, loss="hinge", delta=0.5) -> tuple[float, float]:
    """½‖w‖² + Σ C_i ℓ(y_i f(x_i)) and its dual in α = yβ ≥ 0."""
    f, alpha, norm = K @ beta + bias, y * beta, beta @ K @ beta
    if loss == "hinge":
        return 0.5 * norm + C @ hinge(y * f), alpha.sum() - 0.5 * norm
    if loss == "squared_hinge":
        return 0.5 * norm + C @ hinge(y * f) ** 2, alpha.sum() - 0.5 * norm - (alpha**2 / (4.0 * C)).sum()
    smooth = (1.0 + delta) * alpha.sum() - delta * (alpha**2 / C).sum()
    return 0.5 * norm + C @ huber_hinge(y * f, delta), smooth - 0.5 * norm


def svr(K, y, beta, bias, C, epsilon, squared=False) -> tuple[float, float]:
    """½‖w‖² + Σ C_i max(0, |f(x_i) − y_i| − ε) or its square, and the dual."""
    f, norm = K @ beta + bias, beta @ K @ beta
    dual = y @ beta - epsilon * np.abs(beta).sum() - 0.5 * norm
    if squared:
        return 0.5 * norm + C @ tube(f - y, epsilon) ** 2, dual - (beta**2 / (4.0 * C)).sum()
    return 0.5 * norm + C @ tube(f - y, epsilon), dual


def regression(K, y, beta, bias, C, loss, epsilon=0.1, huber_delta=1.0, quantile=0.5) -> tuple[float, float]:
    """½‖w‖² + Σ C_i ℓ(f(x_i) − y_i) and the dual, for any loss of residuals."""
    if loss.endswith("epsilon_insensitive"):
        return svr(K, y, beta, bias, C, epsilon, loss.startswith("squared"))
    f, norm = K @ beta + bias, beta @ K @ beta
    r, dual = f - y, y @ beta - 0.5 * norm
    if loss == "squared_error":
        return 0.5 * norm + C @ r**2, dual - (beta**2 / (4.0 * C)).sum()
    if loss == "huber":
        near = np.abs(r) <= huber_delta
        cost = np.where(near, 0.5 * r**2, huber_delta * np.abs(r) - 0.5 * huber_delta**2)
        return 0.5 * norm + C @ cost, dual - (beta**2 / (2.0 * C)).sum()
    cost = np.where(r < 0, -quantile * r, (1.0 - quantile) * r)
    return 0.5 * norm + C @ cost, dual


def nu_svc(K, y, beta, bias, nu, weight) -> tuple[float, float]:
    """½‖w‖² − ν Σw ρ + Σ w_i max(0, ρ − y_i f(x_i)) and −½‖w‖², where Σ|β| = ν Σw.

    A model's coefficients are divided by ρ, so that its margin is 1; their sum tells ρ.
    """
    rho = nu * weight.sum() / np.abs(beta).sum()
    beta, bias = rho * beta, rho * bias
    norm = beta @ K @ beta
    excess = np.maximum(0.0, rho - y * (K @ beta + bias))
    return 0.5 * norm - nu * weight.sum() * rho + weight @ excess, -0.5 * norm


def one_class(K, beta, offset, nu, weight) -> tuple[float, float]:
    """½‖w‖² − ν Σw ρ + Σ w_i max(0, ρ − f(x_i)) and −½‖w‖²."""
    norm = beta @ K @ beta
    outside = np.maximum(0.0, offset - K @ beta)
    return 0.5 * norm - nu * weight.sum() * offset + weight @ outside, -0.5 * norm


def nu_svr(K, y, beta, bias, C, nu, epsilon) -> tuple[float, float]:
    """½‖w‖² + ν ΣC ε + Σ C_i max(0, |f(x_i) − y_i| − ε), and yᵀβ − ½‖w‖²."""
    norm = beta @ K @ beta
    outside = C @ tube(K @ beta + bias - y, epsilon)
    return 0.5 * norm + nu * C.sum() * epsilon + outside, y @ beta - 0.5 * norm


def svdd(K, beta, radius, C) -> tuple[float, float]:
    """Half of R² + Σ C_i max(0, ‖φ(x_i) − a‖² − R²) and half of Σ β_i ‖φ(x_i) − a‖², where a = Σ β_i φ(x_i)."""
    squared_distance = K.diagonal() - 2.0 * (K @ beta) + beta @ K @ beta
    outside = np.maximum(0.0, squared_distance - radius**2)
    return 0.5 * (radius**2 + C @ outside), 0.5 * (beta @ squared_distance)
