"""Which variables are inside their boxes: guessed, solved for, guessed again, all at once (Júdice & Pires 1994).

    min ½ xᵀKx + qᵀx     s.t.  lower ≤ x ≤ upper,  Ex = e

    repeat
        x_F  <- solves  K_FF x_F + Eᵀ_F r = −q_F − K_FB x_B,  E_F x_F = e − E_B x_B
        F    <- without those that left their box, which go to the bound they crossed,
                and with those at a bound whose slope K x + q + Eᵀr points inside
    until F stays as it is

The x that remains is the solution, to rounding, or there is none: it may go round in circles. From a good guess, such
as many sweeps leave, it takes a few rounds whatever the number of variables that change.

The other finishers: newton_finish.py changes one variable at a time and gains with each step, on kernels; purify.py
changes many, by steps that it clips at the box, and keeps what it has gained. A clipped step misses what the other
variables would do about it. Measured at the end of sweeps (23 linear problems of 570 to 3000 rows, C from 0.01 to 100),
this one succeeds in 22 of 25 tries and takes 0.09 s in all; purify's rounds succeed in 19 of 64 and take 0.45 s.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .limits import IN_VAIN, ROUNDS
from .roundings import ROUNDED_SOLUTION, SINGULAR, UNSOLVED

__all__ = ["pivot"]

TIE_SHIFT = 1e-11  # of the largest entry is added to the diagonal, so that equal variables share what they have


def pivot(
    K: np.ndarray, q: np.ndarray, lower: np.ndarray, upper: np.ndarray, E: np.ndarray, e: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """x and r, from the guess that variables inside their boxes at a given x are the free ones; or None."""
    x, free = x.copy(), (x > lower) & (x < upper)
    shift = TIE_SHIFT * float(K.diagonal().max(initial=0.0))
    fewest, waited = len(x) + 1, 0
    for _ in range(ROUNDS):
        F = np.flatnonzero(free)
        x[F] = 0.0
        right = -(q + K @ x)
        try:
            factor = _factored(K[np.ix_(F, F)], shift)
            Y = cho_solve(factor, np.column_stack([right[F], E[:, F].T]), check_finite=False)
            S = E[:, F] @ Y[:, 1:]
            least = UNSOLVED * np.abs(S).max(initial=0.0)
            if len(S) and np.linalg.matrix_rank(S, tol=least, hermitian=True) < len(S):
                return None  # the free variables do not tell r
            r = np.linalg.solve(S, E[:, F] @ Y[:, 0] - (e - E @ x))
        except LinAlgError:
            return None
        x[F] = Y[:, 0] - Y[:, 1:] @ r
        slope = K @ x + q + E.T @ r
        least = 10.0 * shift * float(np.abs(x).max(initial=0.0))
        least += ROUNDED_SOLUTION * float(np.abs(right).max(initial=1.0))
        low, high = free & (x <= lower), free & (x >= upper)
        inside = ~free & np.where(x <= lower, slope < -least, slope > least) & (lower < upper)
        changes = int((low | high | inside).sum())
        if changes == 0:
            size = max(float(np.abs(right).max(initial=0.0)), float(np.abs(slope).max(initial=0.0)))
            solved = np.abs(slope[F]).max(initial=0.0) <= UNSOLVED * size
            terms = float(np.abs(E).max(initial=0.0) * np.abs(x).sum())
            held = np.abs(E @ x - e).max(initial=0.0) <= UNSOLVED * terms
            return (x, r) if solved and held else None
        waited = 0 if changes < fewest else waited + 1
        fewest = min(fewest, changes)
        if waited > IN_VAIN:
            return None
        x[low], x[high] = lower[low], upper[high]
        free = (free & ~low & ~high) | inside
    return None


def _factored(M: np.ndarray, shift: float) -> tuple:
    """The Cholesky factor of M, or where that is all but singular of M shifted."""
    try:
        factor = cho_factor(M, lower=True, check_finite=False)
        pivots = factor[0].diagonal()
        sound = pivots.min(initial=np.inf) >= SINGULAR * pivots.max(initial=0.0)
    except LinAlgError:
        sound = False
    if not sound:
        M[np.diag_indices(len(M))] += shift
        factor = cho_factor(M, lower=True, check_finite=False)
    return factor
