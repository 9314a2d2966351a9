"""Random Potential SVMs, checked by hand: relations of every kind, weights, classes, boxes, solvers.

    cd tests && PYTHONPATH=../src python -m campaign.potential --seed 0 --count 200

Everything is computed again from X, y and the public attributes by the formulas of the paper: K̃, the violations (25),
the gap (a bound of the optimum by any multiple of the residual), the predictor (8). Nothing of the package but the
estimators is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from maxmargin import PSVC, PSVR
from referee import naive_kernel

from .hunt import hunt

SOLVERS = ("auto", "auto", "auto", "columns", "potential-smo", "decomposition", "interior-point", "sor")
KERNELS = ("rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed", "dyadic", "dyadic", "callable")
ROUNDING = 1e-9
CONSTANT = 1e-10  # share of its size that a column without its mean must keep, or it counts as constant
EXACT = 1e6  # times its spread: up to here the size of a column does no harm


@dataclass(frozen=True)
class Trial:
    """A machine with its data; ``K`` is its matrix of relations, weights and absent samples apart."""

    machine: object
    X: object
    y: np.ndarray
    weight: np.ndarray | None
    K: np.ndarray
    samples_are_columns: bool


def made(seed: int) -> Trial:
    """A random machine and its data."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 60)), int(rng.integers(1, 40))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d if rng.random() < 0.3 else 1)
    if rng.random() < 0.3:
        X = np.where(rng.random((n, d)) < 0.2, X, 0.0)
    if rng.random() < 0.3 and d > 2:
        X[:, 1], X[:, 2] = X[:, 0], 0.7
    if rng.random() < 0.2:
        X = X[rng.integers(0, max(2, n // 3), n)]
    kernel = str(rng.choice(KERNELS))
    classify = rng.random() < 0.4
    score = X @ rng.normal(size=d) / (1e-300 + np.abs(X).max(axis=0)).sum() + 0.3 * rng.normal(size=n)
    y = score * 10.0 ** rng.integers(-4, 5) + rng.normal() * 10.0 ** rng.integers(-2, 3)
    if classify:
        y = np.digitize(score, np.quantile(score, [0.5] if rng.random() < 0.6 else [0.3, 0.7]))
        y[:3] = np.arange(3) % len(np.unique(y))
    gamma, coef0, degree = 0.5 / d / max(1e-12, X.var()), 0.3, 2
    options = {
        "C": float(rng.choice([0.01, 0.3, 10.0, 1e3, np.inf])),
        "epsilon": float(rng.choice([0.003, 0.05, 0.5, 2.0])),
        "tol": float(rng.choice([1e-2, 1e-3, 1e-6])),
        "solver": str(rng.choice(SOLVERS)),
    }
    if options["solver"] == "potential-smo":
        options |= {name: bool(rng.random() < 0.5) for name in ("pair", "block", "annealing")}
    if kernel == "precomputed":
        X = rng.normal(size=(n, n)) if rng.random() < 0.5 else X @ X.T
    square = kernel not in ("dyadic",)
    if kernel in ("precomputed", "dyadic"):
        K = X
    else:
        K = naive_kernel("rbf" if kernel == "callable" else kernel, X, gamma=gamma, coef0=coef0, degree=degree)
    if kernel == "callable":
        options["kernel"] = lambda A, B: naive_kernel("rbf", A, B, gamma=gamma)
    else:
        options |= {"kernel": kernel, "gamma": gamma, "coef0": coef0, "degree": degree}
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], n) if rng.random() < 0.3 else None
    if weight is not None:
        weight[: min(n, 6)] = 1.0
    data = sp.csr_array(X) if rng.random() < 0.3 and kernel != "callable" else X
    return Trial((PSVC if classify else PSVR)(**options), data, y, weight, K, square)


def normalised(K: np.ndarray, weight: np.ndarray) -> np.ndarray:
    away = K - weight @ K / weight.sum()
    norm = np.sqrt(weight @ away**2)
    return np.sqrt(weight)[:, None] * away / np.where(norm > CONSTANT * size_of(K, weight), norm, np.inf)


def size_of(K: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.sqrt(weight @ K**2)


def strain(K: np.ndarray, weight: np.ndarray) -> float:
    """How much larger a column is than its spread, at most: rounding of relations counts that much."""
    norm, size = np.sqrt(weight @ (K - weight @ K / weight.sum()) ** 2), size_of(K, weight)
    used = norm > CONSTANT * size
    return float((size[used] / norm[used]).max(initial=1.0))


def faults(trial: Trial) -> list[str]:
    """What is wrong with a fit; nothing, one hopes."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = trial.machine.fit(trial.X, trial.y, trial.weight)
    weight = np.ones(len(trial.y)) if trial.weight is None else trial.weight
    there = np.flatnonzero(weight)
    columns = there if trial.samples_are_columns else np.arange(trial.K.shape[1])
    K, w, y = trial.K[np.ix_(there, columns)], weight[there], trial.y[there]
    tilde = normalised(K, w)
    blur = max(1.0, strain(K, w) / EXACT)
    if isinstance(model, PSVC):
        classes = np.unique(y)
        targets = [np.where(y == c, 1.0, -1.0) for c in (classes[1:] if len(classes) == 2 else classes)]
        outputs = np.atleast_2d(model.decision_function(trial.X).T)
    else:
        targets, outputs = [y], model.predict(trial.X)[None]
    if not model.status_.converged and not said:
        found.append(f"{model.status_} without a word")
    for number, (target, output) in enumerate(zip(targets, outputs, strict=True)):
        mean = w @ target / w.sum()
        centred = np.sqrt(w) * (target - mean)
        sigma = np.sqrt(centred @ centred / w.sum())
        alpha = np.zeros(len(columns))
        alpha[np.searchsorted(columns, model.support_)] = np.atleast_2d(model.alpha_)[number]
        beta = alpha / sigma
        box = model.C * (w if trial.samples_are_columns else np.ones(len(columns)))
        if (np.abs(beta) > box * (1 + 1e-9)).any():
            found.append("outside of the box")
        r = centred / sigma - tilde @ beta
        s = -tilde.T @ r
        grow = np.where(beta < box * (1 - 1e-9), -(s + np.where(beta >= 0, model.epsilon, -model.epsilon)), 0.0)
        shrink = np.where(beta > -box * (1 - 1e-9), s + np.where(beta > 0, model.epsilon, -model.epsilon), 0.0)
        violation = max(0.0, grow.max(), shrink.max())
        proof = model.certificates_[number]
        noise = (
            blur
            * ROUNDING
            * max(1.0, np.abs(tilde).T @ np.abs(r) @ np.ones(len(columns)) / len(columns), np.abs(beta).sum())
        )
        if violation > proof.violation + noise:
            found.append(f"violation {violation:.3g}, certificate says {proof.violation:.3g}")
        if model.status_.converged and violation > model.tol + noise:
            found.append(f"converged with a violation of {violation:.3g}")
        value = 0.5 * r @ r + model.epsilon * np.abs(beta).sum()
        size = 0.5 * centred @ centred / sigma**2
        if abs(size - value - proof.dual) > blur * 1e-7 * size:
            found.append(f"dual {size - value:.9g}, certificate says {proof.dual:.9g}")
        # The best bound by a multiple of the residual is no looser than what the certificate claims.
        bounds = []
        for t in np.r_[1.0, np.linspace(0.0, 1.0, 201), model.epsilon / max(np.abs(s).max(), 1e-300)]:
            over = np.maximum(np.abs(min(1.0, t) * s) - model.epsilon, 0.0)
            over[over <= 1e-12] = 0.0
            boxed = np.where(over > 0, over * np.where(np.isfinite(box), box, 1e300), 0.0).sum()
            theta = min(1.0, t) * r
            bounds.append(theta @ centred / sigma - 0.5 * theta @ theta - boxed)
        if value - max(bounds) > proof.gap + blur * 1e-6 * size and np.isfinite(proof.gap):
            found.append(f"gap {value - max(bounds):.3g}, certificate says {proof.gap:.3g}")
        expected = np.sqrt(w) * (output[there] - mean)
        if np.abs(expected - tilde @ alpha).max() > blur * 1e-7 * max(sigma, np.abs(alpha).max()):
            found.append(f"predictions differ from (8) by {np.abs(expected - tilde @ alpha).max():.3g}")
    return found


if __name__ == "__main__":
    hunt(__doc__, made, faults)
