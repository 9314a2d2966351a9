"""Slow and plain twins of what the package computes fast: a dense interior-point solver and kernels by their formulas.

Nothing here uses the package, so that both can only agree by being right.
"""

from __future__ import annotations

from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

GOOD_ENOUGH = 1e-7  # of the objective: how far apart the referee's own primal and dual may be


@dataclass(frozen=True)
class Verdict:
    """An optimum: coefficients, multipliers of Aβ = b, the objective, and a lower bound on it."""

    beta: np.ndarray
    multipliers: np.ndarray
    objective: float
    bound: float


def objective(H, p, eps, beta) -> float:
    """½ βᵀHβ + pᵀβ + Σ ε_i |β_i|."""
    return float(0.5 * beta @ H @ beta + p @ beta + eps @ np.abs(beta))


def referee(H, p, lower, upper, A=None, b=None, eps=None) -> Verdict:
    """min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|  s.t.  lower ≤ β ≤ upper,  Aβ = b, for a dense positive semidefinite H.

    An epigraph variable t_i ≥ |β_i| stands for each term with ε_i > 0; infinite bounds are left out.
    """
    H, p = np.asarray(H, float), np.asarray(p, float)
    n = len(p)
    lower, upper = np.broadcast_to(lower, n), np.broadcast_to(upper, n)
    eps = np.zeros(n) if eps is None else np.broadcast_to(eps, n)
    A = np.zeros((0, n)) if A is None else np.atleast_2d(A)
    b = np.zeros(len(A)) if b is None else np.atleast_1d(b)
    kinked = np.flatnonzero(eps > 0)
    m = len(kinked)
    eye = sp.identity(n, format="csr")
    above, below = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))

    def wide(part, t_part=None):
        return sp.hstack([part, sp.csr_matrix((part.shape[0], m)) if t_part is None else t_part])

    minus_t = -sp.identity(m, format="csr")
    constraints = sp.vstack(
        [
            wide(sp.csr_matrix(A)),
            wide(eye[above]),
            wide(-eye[below]),
            wide(eye[kinked], minus_t),
            wide(-eye[kinked], minus_t),
        ]
    ).tocsc()
    right = np.concatenate([b, upper[above], -lower[below], np.zeros(2 * m)])
    P = sp.triu(sp.block_diag([sp.csc_matrix(H), sp.csc_matrix((m, m))])).tocsc()
    q = np.concatenate([p, eps[kinked]])
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(right) - len(b))]
    # Regularisation helps most problems and keeps a few singular ones from the last digits.
    answers = []
    for regularised in (True, False):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = 300
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        settings.static_regularization_enable = regularised
        answers.append(clarabel.DefaultSolver(P, q, constraints, right, [c for c in cones if c.dim], settings).solve())
        if answers[-1].status == clarabel.SolverStatus.Solved:
            break
    answer = min(answers, key=lambda a: abs(a.obj_val - a.obj_val_dual))
    primal, dual = answer.obj_val, answer.obj_val_dual
    if not abs(primal - dual) <= GOOD_ENOUGH * max(1.0, abs(primal)):
        raise ArithmeticError(f"the referee failed: {answer.status}, primal {primal}, dual {dual}")
    beta = np.clip(np.array(answer.x)[:n], lower, upper)
    return Verdict(beta, np.array(answer.z)[: len(b)], objective(H, p, eps, beta), min(primal, dual))


def _inner(x, Z, gamma, coef0):
    return gamma * (Z @ x) + coef0


def _wendland(x, Z, gamma, coef0, degree):
    r = np.minimum(np.sqrt(gamma * ((Z - x) ** 2).sum(axis=1)), 1.0)
    return (1 - r) ** (degree + 1) * (1 + (degree + 1) * r)


# k(x, z) for one x and all rows z of Z
NAIVE_KERNELS = {
    "linear": lambda x, Z, gamma, coef0, degree: Z @ x,
    "poly": lambda x, Z, gamma, coef0, degree: _inner(x, Z, gamma, coef0) ** degree,
    "rbf": lambda x, Z, gamma, coef0, degree: np.exp(-gamma * ((Z - x) ** 2).sum(axis=1)),
    "sigmoid": lambda x, Z, gamma, coef0, degree: np.tanh(_inner(x, Z, gamma, coef0)),
    "laplacian": lambda x, Z, gamma, coef0, degree: np.exp(-gamma * np.abs(Z - x).sum(axis=1)),
    "wendland": _wendland,
}


def naive_kernel(name, X, Z=None, gamma=1.0, coef0=0.0, degree=3) -> np.ndarray:
    """The matrix k(x_i, z_j) in float64, a row at a time by its formula."""
    X, Z = (np.asarray(V.toarray() if sp.issparse(V) else V, np.float64) for V in (X, X if Z is None else Z))
    return np.array([NAIVE_KERNELS[name](x, Z, gamma, coef0, degree) for x in X]).reshape(len(X), len(Z))
