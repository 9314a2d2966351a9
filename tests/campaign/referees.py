"""Other solvers on the same problems: LIBSVM and LIBLINEAR, as scikit-learn has them, and Clarabel.

A referee is believed only as far as its own point goes: the checks evaluate its coefficients by hand, so that a bad
referee proves nothing and blames nobody.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import sklearn.svm
from scipy.optimize import minimize_scalar

from referee import referee

from .models import linear_loss

__all__ = ["MOST_PARTS", "MOST_SAMPLES", "kernel_machine", "linear"]

MOST_PARTS = 2  # problems of a fit that referees look at
MOST_SAMPLES = 300
CLARABEL_SAMPLES = 80
STEPS = 300_000  # of LIBSVM: it may not end otherwise
ENTRIES = 200_000  # of X that LIBLINEAR sees


def kernel_machine(problem, K: np.ndarray, part):
    """(c, bias, slopes, what else was found) of a problem with kernel matrix K, or None."""
    plain = not len(part.slopes) and (part.free_bias or problem.machine == "OneClassSVM")
    loss = problem.params.get("loss", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if plain and problem.machine != "SVDD" and not loss.startswith("squared") and loss != "huber":
                return _libsvm(problem, K, part)
            if len(part.rows) <= CLARABEL_SAMPLES and problem.machine != "NuSVR":
                return _clarabel(problem, K, part)
        except (ValueError, ArithmeticError):  # it did not get there
            return None
    return None


def _libsvm(problem, K, part):
    common = {"kernel": "precomputed", "tol": 1e-6, "max_iter": STEPS}
    params, weight = problem.params, part.cost
    nu = params.get("nu", 0.5)
    more = None
    if problem.machine == "SVC":
        model = sklearn.svm.SVC(C=1.0, **common).fit(K, part.y, sample_weight=weight)
    elif problem.machine == "NuSVC":
        weight = weight / weight.mean()
        sides = weight[part.y > 0].sum(), weight[part.y < 0].sum()
        nu = min(nu, 2.0 * min(sides) / sum(sides) * (1 - 1e-9))
        model = sklearn.svm.NuSVC(nu=nu, **common).fit(K, part.y, sample_weight=weight)
    elif problem.machine == "SVR":
        model = sklearn.svm.SVR(C=1.0, epsilon=params.get("epsilon", 0.1), **common)
        model.fit(K, part.y, sample_weight=weight)
    elif problem.machine == "NuSVR":
        model = sklearn.svm.NuSVR(C=1.0, nu=nu, **common).fit(K, part.y, sample_weight=weight)
    elif nu > 1 - 1e-9:
        return None  # LIBSVM writes beyond its arrays where rounding leaves it something to spread over no sample
    else:
        model = sklearn.svm.OneClassSVM(nu=nu, **common).fit(K, sample_weight=weight)
    coef = np.zeros(len(K))
    coef[model.support_] = model.dual_coef_[0]
    bias = float(model.intercept_[0])
    if problem.machine == "NuSVR":  # the best tube for this function: a weighted quantile of its residuals
        out = np.sort(np.abs(K @ coef + bias - part.y))
        order = np.argsort(np.abs(K @ coef + bias - part.y))
        beyond = weight.sum() - np.cumsum(weight[order])
        more = SimpleNamespace(epsilon_=float(out[np.flatnonzero(beyond <= nu * weight.sum() * (1 + 1e-12))[0]]))
    return coef, bias, np.zeros(0), more


def _dual(problem, K, y, cost, loss: str):
    """(H, p, lower, upper, eps) of the machines with costs."""
    params = problem.params
    if problem.machine in ("SVR", "LinearSVR"):
        squared = loss.startswith("squared")
        top = np.full(len(y), np.inf) if squared else cost
        H = K + np.diag(0.5 / cost) if squared else K
        default = 0.1 if problem.machine == "SVR" else 0.0
        return H, -y, -top, top, np.full(len(y), params.get("epsilon", default))
    ask, top, H = 1.0, cost, K
    if loss == "squared_hinge":
        top, H = np.full(len(y), np.inf), K + np.diag(0.5 / cost)
    elif loss == "huber":
        delta = params.get("huber_delta", 0.5)
        ask, H = 1.0 + delta, K + np.diag(2.0 * delta / cost)
    return H, -ask * y, np.where(y > 0, 0.0, -top), np.where(y > 0, top, 0.0), None


def _clarabel(problem, K, part):
    y, n = part.y, len(part.y)
    rows = [np.ones(n)] if part.free_bias else []
    right = [0.0] * len(rows)
    if problem.machine in ("SVC", "SVR"):
        default = "hinge" if problem.machine == "SVC" else "epsilon_insensitive"
        H, p, lower, upper, eps = _dual(problem, K, y, part.cost, problem.params.get("loss", default))
    else:
        nu = problem.params.get("nu", 0.5)
        H, p, lower, upper, eps = K, np.zeros(n), np.zeros(n), part.cost, None
        if problem.machine == "SVDD":
            p, rows, right = -0.5 * K.diagonal(), [np.ones(n)], [1.0]
        elif problem.machine == "OneClassSVM":
            rows, right = [np.ones(n)], [nu * part.cost.sum()]
        else:
            weight = part.cost / part.cost.mean()
            sides = weight[y > 0].sum(), weight[y < 0].sum()
            nu = min(nu, 2.0 * min(sides) / sum(sides)) if part.free_bias else nu
            lower, upper = np.where(y > 0, 0.0, -weight), np.where(y > 0, weight, 0.0)
            rows, right = [*rows, y], [*right, nu * n]
    own = len(rows)
    rows += list(part.phi.T) if len(part.slopes) else []
    right += [0.0] * (len(rows) - own)
    found = referee(H, p, lower, upper, np.array(rows) if rows else None, np.array(right) if rows else None, eps)
    eta, c = found.multipliers, found.beta
    slopes = eta[own:]
    if problem.machine == "SVDD":
        return 2.0 * c, 2.0 * float(eta[0]), slopes, None
    if problem.machine == "NuSVC":
        rho = -float(eta[own - 1])
        if rho <= 0:
            return None
        return c / rho, float(eta[0]) / rho if part.free_bias else 0.0, slopes / rho, None
    bias = float(eta[0]) if own else 0.0
    return c, bias, slopes, None


def linear(problem, X, phi, y, cost):
    """(w, bias, slopes) of a linear machine, or None."""
    params = problem.params
    default = "squared_hinge" if problem.machine == "LinearSVC" else "epsilon_insensitive"
    loss = params.get("loss", default)
    intercept = params.get("fit_intercept", True)
    scaling = params.get("intercept_scaling") if intercept else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if len(y) <= CLARABEL_SAMPLES:
                K = X @ X.T + (0.0 if scaling is None else scaling**2)
                H, p, lower, upper, eps = _dual(problem, K, y, cost, loss)
                rows = [np.ones(len(y))] if intercept and scaling is None else []
                own = len(rows)
                rows += list(phi.T)
                found = referee(H, p, lower, upper, np.array(rows) if rows else None, None, eps)
                bias = scaling**2 * found.beta.sum() if scaling is not None else float(found.multipliers[:own].sum())
                return X.T @ found.beta, bias, found.multipliers[own:]
            if phi.shape[1] or loss == "huber" or X.size > ENTRIES:
                return None
            return _liblinear(problem, X, y, cost, loss, intercept, scaling)
        except (ValueError, ArithmeticError):
            return None


def _liblinear(problem, X, y, cost, loss, intercept, scaling):
    far = float(100.0 * max(1.0, np.abs(X).mean())) if scaling is None else scaling
    common = {"C": 1.0, "loss": loss, "fit_intercept": intercept, "intercept_scaling": far, "tol": 1e-8}
    dual = not loss.startswith("squared")
    if problem.machine == "LinearSVC":
        model = sklearn.svm.LinearSVC(dual=dual, max_iter=300, random_state=0, **common)
    else:
        epsilon = problem.params.get("epsilon", 0.0)
        model = sklearn.svm.LinearSVR(epsilon=epsilon, dual=dual, max_iter=300, random_state=0, **common)
    model.fit(X, y, sample_weight=cost)
    w = model.coef_.ravel()
    bias = float(np.atleast_1d(model.intercept_)[0]) if intercept else 0.0
    if intercept and scaling is None:  # LIBLINEAR's intercept has a penalty: find the best one for its w
        f = X @ w
        result = minimize_scalar(
            lambda b: float(cost @ linear_loss(problem, y, f + b)[0]), bracket=(bias - 1.0, bias + 1.0)
        )
        bias = float(result.x)
    return w, bias, np.zeros(0)
