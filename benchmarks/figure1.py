"""PRIMAL, Figure 1: least squares by conjugate gradients, in the primal and in the dual.

    primal (2.1)   min_w  λ wᵀw + |Xw − y|²                   CG on (XᵀX + λI) w = Xᵀy
    dual   (2.3)   max_α  2 αᵀy − αᵀ(XXᵀ + λI) α / λ          CG on (XXᵀ + λI) α = λy,   w = Xᵀα / λ

Both are judged by the primal value of their w: how far it is above the optimum (2.2), step by step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["figure1"]

STEPS, DRAWS = 20, 25
SIDES = {"left": (10, 100), "right": (100, 10)}  # n points in d dimensions


def figure1(lam: float = 1.0) -> Iterator[dict]:
    """Median suboptimality over some draws, a row a step."""
    for side, (n, d) in SIDES.items():
        curves = np.array([curves_of(n, d, lam, seed) for seed in range(DRAWS)])
        for step, (primal, dual) in enumerate(np.median(curves, axis=0)):
            yield {"side": side, "n": n, "d": d, "step": step, "primal": primal, "dual": dual}


def curves_of(n: int, d: int, lam: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)

    def value(w):
        return lam * w @ w + np.sum((X @ w - y) ** 2)

    optimum = value(np.linalg.solve(X.T @ X + lam * np.eye(d), X.T @ y))
    in_primal = [value(w) for w in conjugate_gradients(X.T @ X + lam * np.eye(d), X.T @ y)]
    in_dual = [value(X.T @ a / lam) for a in conjugate_gradients(X @ X.T + lam * np.eye(n), lam * y)]
    floor = np.finfo(float).eps * optimum  # below this it is rounding
    return np.maximum(np.column_stack([in_primal, in_dual]) - optimum, floor)


def conjugate_gradients(A: np.ndarray, b: np.ndarray) -> Iterator[np.ndarray]:
    """The iterates from 0."""
    x, r = np.zeros_like(b), b.copy()
    p, rr = r, r @ r
    yield x
    for _ in range(STEPS):
        if rr > np.finfo(float).eps ** 2 * (b @ b):
            Ap = A @ p
            step = rr / (p @ Ap)
            x, r = x + step * p, r - step * Ap
            p, rr = r + (r @ r / rr) * p, r @ r
        yield x
