"""The last step: with the active set all but known, the free variables solve one linear system.

Given v = −(Hβ + p) computed exactly, the free variables F should all have v + rise equal to the level of their
group. Newton's step solves

    [ H_FF  E ] [ δ ]   [ v_F + offset_F ]
    [ Eᵀ    0 ] [ r ] = [       0        ]         E: what the constraints forbid (membership in a group)

and goes as far as the box (and, with ε, the sign) allows. A variable that blocks the way is fixed, a fixed one
that wants to move is set free, until nothing moves: an active set method that starts one step from its end.
Pair steps would need as many steps again for each further digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from ...gram import Gram
from ...problem import QP
from .constraints import Equality
from .fixed_sums import Groups
from .limits import ROUNDS
from .roundings import ROUNDED_SOLUTION, SINGULAR, UNSOLVED

__all__ = ["NEWTON_WORK", "newton_due", "newton_finish"]

NEWTON_WORK = 1_000_000  # free variables × variables up to which the last step costs next to nothing
PATIENCE = 100  # steps a variable, and 10 000, before the last step is tried in place of more of them
SINGULAR_AS_LONG_AS = 3  # times as many variables: eigenvectors take some 27 times what a Cholesky factor does
FAR = 1e12  # further than any box that a problem without curvature can have


def newton_due(steps: int, n: int) -> bool:
    """Whether so many steps on n variables were so slow that the last step is worth a try."""
    return steps > PATIENCE * n + 10_000


def newton_finish(
    gram: Gram, qp: QP, groups: Groups | Equality, beta: np.ndarray, v: np.ndarray, most: int,
    stop: Callable[[], object],
) -> np.ndarray | None:  # fmt: skip
    """A better β; None if there are more than ``most`` free variables, nothing was gained or ``stop`` has a reason."""
    beta, v = beta.copy(), v.copy()
    free = (beta > qp.lower) & (beta < qp.upper) & ((qp.eps == 0) | (beta != 0))
    direction = np.sign(beta)  # of a variable at 0 with ε: where it is about to go
    known = np.zeros(0, np.int64)
    block = np.zeros((0, 0))
    start = _objective(qp, beta, v)
    refused = np.zeros(len(beta), np.bool_)  # set free once, but the joint step would have pushed them out
    scale = ROUNDED_SOLUTION * max(1.0, float(np.abs(v).max(initial=0.0)))
    for _ in range(ROUNDS):
        F = np.flatnonzero(free)
        if len(F) > most or stop() is not None:
            return None
        if len(F):
            if not np.array_equal(F, known):
                known, block = F, gram.block(F)
            target = v[F] - qp.eps[F] * direction[F]
            delta = _newton_step(block, target, groups.basis(F), most)
            if delta is None:
                return None
            wrong = (direction[F] * delta < 0) & (beta[F] == 0) & (qp.eps[F] > 0)
            wrong |= ((beta[F] <= qp.lower[F]) & (delta < 0)) | ((beta[F] >= qp.upper[F]) & (delta > 0))
            if wrong.any():  # they stay, or would come back and be refused in turns
                free[F[wrong]], refused[F[wrong]] = False, True
                continue
            length, blocked = _longest_step(qp, beta[F], direction[F], F, delta)
            new = beta[F] + length * delta
            if blocked is not None:
                new[blocked[0]] = blocked[1]
                free[F[blocked[0]]] = False
            np.clip(new, qp.lower[F], qp.upper[F], out=new)
            change = new - beta[F]
            beta[F] = new
            v -= gram.combine(F, change)
            if blocked is not None:
                continue
        loose = [(i, sign) for i, sign in groups.wanting(qp, beta, v, scale) if not free[i] and not refused[i]]
        if not loose:
            break
        for i, sign in loose:
            free[i], direction[i] = True, sign
    better = _objective(qp, beta, v) <= start + ROUNDED_SOLUTION * max(1.0, abs(start))
    return qp.settled(beta) if groups.held(beta, UNSOLVED) and better else None


def _objective(qp: QP, beta: np.ndarray, v: np.ndarray) -> float:
    return float(0.5 * beta @ (qp.p - v) + qp.eps @ np.abs(beta))


def _newton_step(H: np.ndarray, target: np.ndarray, E: np.ndarray, most: int) -> np.ndarray | None:
    """δ of the system above; where H has no curvature, as far along the descent as any box is wide.

    None where that takes longer than a sound system of ``most`` variables.
    """
    factor = _sound_factor(H)
    if factor is None and SINGULAR_AS_LONG_AS * len(H) > most:
        return None
    if factor is None:
        return _singular_step(H, target, E)
    Z = cho_solve(factor, E, check_finite=False)
    # Pivots of H may just pass where what is left for the constraints does not: nearly all of H⁻¹E is then rounding.
    schur = _sound_factor(E.T @ Z)
    if schur is None:
        return None if SINGULAR_AS_LONG_AS * len(H) > most else _singular_step(H, target, E)

    def solve(residual: np.ndarray) -> np.ndarray:
        x = cho_solve(factor, residual, check_finite=False)
        if E.shape[1]:
            x = x - Z @ cho_solve(schur, E.T @ x, check_finite=False)
        return x - E @ (E.T @ x)

    delta = solve(target)
    return delta + solve(target - H @ delta)


def _sound_factor(M: np.ndarray) -> Any:
    """The Cholesky factor of a matrix, or None where it has none that is worth using."""
    if not len(M):
        return M, True
    try:
        factor = cho_factor(M, lower=True, check_finite=False)
    except LinAlgError:
        return None
    diagonal = np.abs(factor[0].diagonal())
    return factor if diagonal.min() > SINGULAR * diagonal.max() else None


def _singular_step(H: np.ndarray, target: np.ndarray, E: np.ndarray) -> np.ndarray:
    """The step by eigenvectors of H on the feasible directions."""
    basis = np.linalg.qr(E, mode="complete")[0][:, E.shape[1] :] if E.shape[1] else np.eye(len(H))
    if not basis.shape[1]:
        return np.zeros(len(H))
    curvature, vectors = eigh(basis.T @ H @ basis, check_finite=False)
    slope = vectors.T @ (basis.T @ target)
    flat = curvature <= ROUNDED_SOLUTION * max(float(curvature[-1]), np.finfo(float).tiny)
    if flat.any() and np.abs(slope[flat]).max() > UNSOLVED * max(1.0, float(np.abs(target).max())):
        slope[~flat] = 0.0
        delta = basis @ (vectors @ slope)
        return delta * (FAR / np.abs(delta).max())
    return basis @ (vectors[:, ~flat] @ (slope[~flat] / curvature[~flat]))


def _longest_step(
    qp: QP, beta: np.ndarray, direction: np.ndarray, F: np.ndarray, delta: np.ndarray
) -> tuple[float, tuple[int, float] | None]:
    """How far to go along δ, and the (position, value) of the variable that stops us, if one does."""
    low = np.where((qp.eps[F] > 0) & (direction > 0), np.maximum(qp.lower[F], 0.0), qp.lower[F])
    high = np.where((qp.eps[F] > 0) & (direction < 0), np.minimum(qp.upper[F], 0.0), qp.upper[F])
    end = np.where(delta > 0, high, low)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(delta != 0, (end - beta) / delta, np.inf)
    k = int(share.argmin())
    return (float(max(share[k], 0.0)), (k, float(end[k]))) if share[k] < 1.0 else (1.0, None)
