"""Problems with the same solution: other orders, copies for weights, absent rows, split rows, shifts and scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .problems import LINEAR, REGRESSORS, Problem

__all__ = ["make_twin"]


def make_twin(problem: Problem) -> tuple[Problem, np.ndarray, str]:
    """(a problem with the same solution, the row that each of its rows comes from, how it was made)."""
    rng = np.random.default_rng([problem.seed, 1])
    X, y, weight = problem.dense, problem.y, problem.weights
    n, kind = problem.n, problem.twin
    kernel = problem.params.get("kernel", "rbf") if problem.machine not in LINEAR else "none"
    if "parametric" in problem.params and kind in ("shift", "scale"):
        kind = "order"  # functions change with the features
    origin = np.arange(n)
    plain = replace(problem, params={k: v for k, v in problem.params.items() if k != "warm_start"})
    if kind == "copies" and (weight == np.rint(weight)).all() and weight.sum() < 4 * n and (weight != 1).any():
        origin = rng.permutation(np.repeat(origin, weight.astype(int)))
        new = None
    elif kind in ("zeros", "copies"):
        more = rng.integers(0, n, rng.integers(1, 2 + n // 4))
        origin, new = np.concatenate([origin, more]), np.concatenate([weight, np.zeros(len(more))])
    elif kind == "split":
        more = rng.choice(n, rng.integers(1, 2 + n // 4) if n > 1 else 1, replace=False)
        new = weight.copy()
        new[more] *= 0.5
        origin, new = np.concatenate([origin, more]), np.concatenate([new, new[more]])
    elif kind == "shift" and kernel in ("rbf", "laplacian") and problem.extra.get("quantum"):
        X = X + problem.extra["quantum"] * 2.0**20 * float(rng.integers(1, 2**10))
        new = problem.weight
    elif (
        kind == "scale"
        and kernel in ("rbf", "laplacian", "poly", "sigmoid")
        and not isinstance(problem.params.get("gamma", "scale"), str)
    ):
        factor = 2.0 ** float(rng.integers(-15, 15))
        gamma = problem.params["gamma"] / (factor if kernel == "laplacian" else factor**2)
        X, new = X * factor, problem.weight
        plain = replace(plain, params=plain.params | {"gamma": gamma})
    else:
        kind, origin = "order", rng.permutation(n)
        new = None if problem.weight is None else weight[origin]
    X = X[np.ix_(origin, origin)] if kernel == "precomputed" else X[origin]
    y = None if y is None else y[origin]
    if kind in ("zeros", "copies") and new is not None and problem.machine in REGRESSORS:
        y = y.copy()
        y[new == 0] = 1e3 * np.abs(y).max() + 1.0  # absent, whatever they say
    return plain.with_data(np.ascontiguousarray(X), y, new), origin, kind
