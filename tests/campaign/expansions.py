"""Random machines on few points, checked by hand: kernels, losses, weights, classes, choices, solvers.

    cd tests && PYTHONPATH=../src python -m campaign.expansions --seed 0 --count 200

The objective is computed again from X, y and the public attributes, and the best objective on these points, and on all
samples, by a referee that knows nothing of the package.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from maxmargin import SVC, SVR
from referee import naive_kernel, referee

from .hunt import hunt

SOLVERS = ("auto", "auto", "auto", "auto", "sor", "interior-point", "mpd", "decomposition")
KERNELS = ("rbf", "rbf", "linear", "poly", "laplacian", "wendland", "precomputed", "callable")
ROUNDING = 1e-7  # of the objective: kernel values, and what the referee leaves
RIGID = 1e9  # kernel values times C: the dual of the referee has as many digits less
SLOPES = {  # of the conjugates: ridge · C, ends of the box / C, ε, the linear term
    "hinge": (0.0, (0.0, 1.0), 0.0, 1.0),
    "squared_hinge": (0.5, (0.0, np.inf), 0.0, 1.0),
    "huber-hinge": (1.0, (0.0, 1.0), 0.0, 1.5),
    "epsilon_insensitive": (0.0, (-1.0, 1.0), 0.1, 1.0),
    "squared_epsilon_insensitive": (0.5, (-np.inf, np.inf), 0.1, 1.0),
    "huber": (1.0, (-1.0, 1.0), 0.0, 1.0),
    "quantile": (0.0, (-0.5, 0.5), 0.0, 1.0),
    "squared_error": (0.5, (-np.inf, np.inf), 0.0, 1.0),
}


@dataclass(frozen=True)
class Trial:
    """A machine with its data; ``kernel(A, B)`` is its kernel, of numbers of samples where it is precomputed."""

    machine: SVC | SVR
    X: object
    y: np.ndarray
    weight: np.ndarray | None
    dense: np.ndarray
    options: dict


def made(seed: int) -> Trial:
    """A random machine and its data."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 70)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.3:
        X = np.where(rng.random((n, d)) < 0.4, X, 0.0)
    if rng.random() < 0.3:
        X = X[rng.integers(0, max(4, n // 2), n)]
    if rng.random() < 0.2:
        X = X + 100.0 * max(1e-9, X.std())
    score = np.sin(X @ rng.normal(size=d) / max(1e-9, X.std())) + 0.3 * rng.normal(size=n)
    classify = rng.random() < 0.6
    y = score * 10.0 ** rng.integers(-1, 2)
    if classify:
        y = np.digitize(score, np.quantile(score, [0.5] if rng.random() < 0.6 else [0.3, 0.7]))
        y[:3] = np.arange(3) % len(np.unique(y))
    name = str(rng.choice(KERNELS))
    shape = {"gamma": float(rng.uniform(0.2, 3.0)) / d / max(1e-12, X.var()), "coef0": 0.7, "degree": 2}
    if name == "wendland":
        shape |= {"degree": d // 2 + 2 + int(rng.integers(0, 3)), "gamma": 0.1 * shape["gamma"]}
    if name == "laplacian":
        shape["gamma"] = np.sqrt(shape["gamma"])
    losses = ["hinge", "squared_hinge", "huber"] if classify else [*SLOPES][3:]
    params = {
        "loss": str(rng.choice(losses)),
        "C": float(10.0 ** rng.uniform(-2, 2)),
        "tol": float(rng.choice([1e-2, 1e-3, 1e-5])),
        "fit_intercept": bool(rng.random() < 0.8),
        "solver": str(rng.choice(SOLVERS)),
        "random_state": int(rng.integers(0, 99)),
    }
    data: object = X
    if name == "precomputed":
        data = naive_kernel("rbf", X, **shape)
        params["kernel"] = "precomputed"
    elif name == "callable":
        params["kernel"] = lambda A, B: naive_kernel("rbf", A, B, **shape)
    else:
        params |= {"kernel": name, **shape}
        data = sp.csr_array(X) if rng.random() < 0.3 else X
    k = int(rng.integers(1, n))
    kind = rng.random()
    if kind < 0.25:
        params["expansion"] = rng.choice(n, k)
    elif kind < 0.4 and name != "precomputed":
        params["expansion"] = X[:k] + 0.1 * X.std() * rng.normal(size=(k, d))
    else:
        choices = ["random", "greedy"] + (["kmeans"] if name not in ("precomputed", "callable") else [])
        params |= {"expansion": k, "expansion_choice": str(rng.choice(choices))}
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n) if rng.random() < 0.3 else None
    if weight is not None:
        weight[: min(n, 6)] = 1.0
    kernel = "rbf" if name in ("precomputed", "callable") else name
    return Trial((SVC if classify else SVR)(**params), data, y, weight, X, {"name": kernel, **shape})


def risk(loss: str, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """The loss of each sample by its definition."""
    m, r = 1.0 - y * f, np.abs(f - y)
    return {
        "hinge": np.maximum(m, 0.0),
        "squared_hinge": np.maximum(m, 0.0) ** 2,
        "huber-hinge": np.where(m > 0.5, m, np.where(m < -0.5, 0.0, (m + 0.5) ** 2 / 2.0)),
        "epsilon_insensitive": np.maximum(r - 0.1, 0.0),
        "squared_epsilon_insensitive": np.maximum(r - 0.1, 0.0) ** 2,
        "huber": np.where(r <= 1.0, 0.5 * r * r, r - 0.5),
        "quantile": 0.5 * r,
        "squared_error": r * r,
    }[loss]


def best(loss: str, H: np.ndarray, y: np.ndarray, C: np.ndarray, bias: bool) -> float:
    """The least objective of any function whose products are H, by its dual; NaN where the referee is no judge."""
    if float(np.trace(H)) * C.max() > RIGID:
        return np.nan
    ridge, (low, high), eps, linear = SLOPES[loss]
    lower, upper = low * C, high * C
    if "hinge" in loss:
        lower, upper = np.where(y > 0, lower, -upper), np.where(y > 0, upper, -lower)
    A = np.ones((1, len(y))) if bias else None
    try:
        return -referee(H + np.diag(ridge / C), -linear * y, lower, upper, A, eps=eps).objective
    except ArithmeticError:
        return np.nan


def faults(trial: Trial) -> list[str]:
    """What is wrong with a fit; nothing, one hopes."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = trial.machine.fit(trial.X, trial.y, trial.weight)
    weight = np.ones(len(trial.y)) if trial.weight is None else trial.weight
    X, y = trial.dense, trial.y
    loss = f"{model.loss}-hinge" if isinstance(model, SVC) and model.loss == "huber" else model.loss
    if model.kernel == "precomputed":
        Z = X[model.support_]
    else:
        Z = model.support_vectors_.toarray() if sp.issparse(model.support_vectors_) else model.support_vectors_
    name = trial.options["name"]
    shape = {key: value for key, value in trial.options.items() if key != "name"}
    K_nz, K_zz = naive_kernel(name, X, Z, **shape), naive_kernel(name, Z, Z, **shape)
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    if not model.status_.converged and not said:
        found.append(f"{model.status_} without a word")
    if isinstance(model, SVC):
        model.decision_function_shape = "ovo"
        outputs = model.decision_function(trial.X).reshape(len(y), -1).T
        pairs = list(combinations(model.classes_, 2))
        two = len(model.classes_) == 2
        signs = [np.where(y == (j if two else i), 1.0, np.where((y == i) | (y == j), -1.0, 0.0)) for i, j in pairs]
    else:
        outputs, signs = model.predict(trial.X)[None], [y]
    for number, target in enumerate(signs):
        own = np.flatnonzero((weight > 0) & ((target != 0) if isinstance(model, SVC) else True))
        alpha, proof, t, C = dual[number], model.certificates_[number], target[own], model.C * weight[own]
        f = K_nz @ alpha + model.intercept_[number]
        if np.abs(f - outputs[number]).max() > ROUNDING * max(1.0, np.abs(K_nz).max() * np.abs(alpha).sum()):
            found.append(f"predictions are off by {np.abs(f - outputs[number]).max():.3g}")
        primal = 0.5 * alpha @ K_zz @ alpha + C @ risk(loss, t, f[own])
        noise = ROUNDING * max(abs(primal), proof.idle, 1e-3 * C.sum())
        noise += 1e-13 * np.abs(K_nz).max() * np.abs(alpha).sum() * C.sum()  # what sums that cancel lose
        if abs(primal - proof.primal) > noise:
            found.append(f"primal {primal:.9g}, certificate says {proof.primal:.9g}")
        H = K_nz[own] @ np.linalg.solve(K_zz, K_nz[own].T)
        optimum = best(loss, 0.5 * (H + H.T), t, C, model.fit_intercept)
        loose = noise + 1e-6 * np.linalg.cond(K_zz) * np.finfo(float).eps * 1e6 * abs(primal)
        if proof.dual > optimum + loose:
            found.append(f"best {optimum:.9g}, certificate claims {proof.dual:.9g} at least")
        if model.status_.converged and primal - optimum > model.tol * abs(primal) + loose:
            found.append(f"converged at {primal:.9g}, and {optimum:.9g} is the best on these points")
        if model.full_gap_ is not None:
            whole = best(loss, naive_kernel(name, X[own], X[own], **shape), t, C, model.fit_intercept)
            if primal - whole > model.full_gap_ * abs(primal) + loose:
                found.append(f"{primal:.9g} and {whole:.9g} of the full machine, full_gap_ is {model.full_gap_:.6g}")
    return found


if __name__ == "__main__":
    hunt(__doc__, made, faults)
