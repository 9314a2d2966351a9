"""From the interior to the boundary: which variables are at a bound, and the free ones exactly.

An interior method ends with every coefficient strictly inside its box. Complementarity tells which ones belong to a
bound (or, with ε, to zero). For the others, F, Newton's equations of the active set hold,

    [ H_FF + τ  A_Fᵀ ] [ δ  ]   [ −s_F   ]
    [ A_F       0    ] [ Δη ] = [ b − Aβ ]          τ next to nothing: where H_FF is singular, β stays near the interior

A variable that the solution would push out of its box is put on the bound, one at a bound that wants to come off it
joins F (``polish``, on the variables that complementarity leaves inside; ``crossover``, over all of them). What comes
out usually has a smaller gap than the interior point, and it has exact zeros and bounds, so that support vectors can be
counted.

Of the three finishers this one takes any interior point, with ε and where H_FF is singular, and keeps what it has
gained when it does not come to an end; it looks at one F at a time. newton_finish.py moves one variable at a time
between bound and interior, never uphill, and looks at all variables of a kernel. pivoting.py takes a guess that is
nearly right, without ε, and gives all or nothing.

Where H = ZZᵀ + D with fewer features than F has variables (linear machines whose rows sit on their corners), the
equations are solved by a matrix of the size of the features (Sherman–Morrison–Woodbury).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...gram import Gram
from ...problem import QP
from ...rows import Crew
from ...solution import Certificate
from .barrier_leaves import BOTH, FIXED, LOWER, UPPER
from .constraints import Equality
from .least_squares import least_squares
from .limits import IN_VAIN, ROUNDS
from .reach import slope_rounding
from .roundings import ROUNDED_SUM

__all__ = ["crossover", "places", "polish", "too_coarse", "wants_off"]

RELEASES = 8  # rounds of setting free what wants to come off a bound
COARSE_SLOPES = 1e-3  # of the mean slope at β = 0, or of Hβ: rounding of Hβ that is larger decides for itself
TAU = 1e-10  # of H's largest diagonal entry is τ
CORRECTIONS = 3  # times a system is solved, each time for what rounding, of which the second form has more, has left
RELEASED = 1e-10  # of the largest slope: a variable at a bound whose slope is steeper wants to come off it


class Proven(Protocol):
    """A point with its proof."""

    @property
    def beta(self) -> np.ndarray: ...
    @property
    def eta(self) -> np.ndarray: ...
    @property
    def certificate(self) -> Certificate: ...


Proof = TypeVar("Proof", bound=Proven)


def crossover(
    gram: Gram,
    qp: QP,
    interior: np.ndarray,
    eta: np.ndarray,
    place: np.ndarray,
    most: int,
    prove: Callable[[np.ndarray, np.ndarray], Proof],
    stop: Callable[[], object],
) -> Proof | None:
    """An interior point moved to where each variable belongs (``places``), the best that ``prove`` has seen.

    Equations of up to ``most`` variables are solved. None if ``stop()`` says so before there is anything.
    """
    equality, best = Equality.of(qp), None
    beta = np.where(np.isnan(place), np.clip(interior, qp.lower, qp.upper), place)
    coarse = too_coarse(gram, qp, beta)
    for _ in range(RELEASES):
        F = np.flatnonzero(np.isnan(place))
        if stop():  # products with all rows may take long
            break
        if not coarse and 0 < len(F) <= most:
            beta, eta = polish(gram, qp, beta, eta, qp.gradient(beta, eta), F, stop)
        beta = equality.feasible(beta, qp.lower, qp.upper, qp.eps)
        pure = prove(beta, eta)
        if best is not None and pure.certificate.gap >= best.certificate.gap:
            break
        best, beta = pure, pure.beta
        off = wants_off(qp, beta, qp.gradient(beta, pure.eta))
        if coarse or not off.any() or len(F) > most or stop():
            break
        eta, place = pure.eta, np.where(off, np.nan, place)
    return best


def _in_units(v: np.ndarray) -> np.ndarray:
    """Numbers as a share of the root of the sum of their squares, which may be too large to be a number itself."""
    v = v / (np.abs(v).max(initial=0.0) or 1.0)
    return v / (np.linalg.norm(v) or 1.0)


def places(qp: QP, crew: Crew, beta: np.ndarray) -> np.ndarray:
    """Where slacks and multipliers (barrier_rows.py) say that each variable belongs: a bound, 0, or NaN for inside."""
    slack, dual, kind = (crew.collect(name) for name in ("slack", "dual", "kind"))
    active = np.array([(kind == side) | (kind == BOTH) for side in (LOWER, UPPER)])
    slack, dual = (np.where(active, v, 0.0) for v in (slack, dual))
    near = _in_units(slack) < _in_units(dual)
    at_lo, at_up = active & near
    place = np.full(qp.n, np.nan)
    two = len(kind) == 2
    kinked = kind[1] != FIXED if two else np.zeros(qp.n, bool)
    place[at_lo[0] & ~kinked] = qp.lower[at_lo[0] & ~kinked]
    place[at_up[0]] = qp.upper[at_up[0]]
    if two:
        place[kinked & at_up[1]] = qp.lower[kinked & at_up[1]]
        place[kinked & at_lo[0] & at_lo[1]] = 0.0
    fixed = (kind[0] == FIXED) & ~kinked
    place[fixed] = beta[fixed]
    return place


def too_coarse(gram: Gram, qp: QP, beta: np.ndarray) -> bool:
    """Whether rounding of Hβ alone makes slopes wrong by more than the margins that they decide on.

    Machines without targets (one class, ν-SVC) have no slope at β = 0; their margins are of the size of Hβ itself.
    """
    error = slope_rounding(gram.diag(), qp.p, beta)
    level = float(np.mean(np.abs(qp.p) + qp.eps)) or float(np.mean(np.abs(qp.times(beta))))
    return error > COARSE_SLOPES * level


def polish(
    gram: Gram,
    qp: QP,
    beta: np.ndarray,
    eta: np.ndarray,
    s: np.ndarray,
    F: np.ndarray,
    stop: Callable[[], object] = lambda: None,
) -> tuple:
    """β and η after Newton's equations on the variables F, the others fixed; s = qp.gradient(β, η).

    Ends early, with the best that it has, as soon as ``stop()`` says so: it is asked before each factorisation.
    """
    H, A = _matrix(gram, F), qp.A[:, F]
    b, slope, eps = beta[F].copy(), s[F].copy(), qp.eps[F]
    lower, upper = qp.lower[F], qp.upper[F]
    missing = qp.b - qp.A @ beta
    side = np.sign(b)  # of 0 on which a variable with ε stays
    free = np.ones(len(F), bool)
    fewest, waited = len(F) + 1, 0
    for _ in range(ROUNDS):
        if stop():
            break
        low = np.where((eps > 0.0) & (side > 0.0), np.maximum(lower, 0.0), lower)
        high = np.where((eps > 0.0) & (side < 0.0), np.minimum(upper, 0.0), upper)
        f = np.flatnonzero(free)
        step, turn = _newton(H, f, A[:, f], -(slope + eps * side)[f], missing)
        if step is None:
            break
        new = b.copy()
        new[f] = np.clip(b[f] + step, low[f], high[f])
        change = new - b
        b, eta = new, eta + turn
        slope = slope + H.times(change) + turn @ A
        missing = missing - A @ change
        out = free & ((b <= low) | (b >= high))
        free &= ~out
        back = ~free & _released(b, slope, eps, side, low, high)
        free |= back
        changes = int((out | back).sum())
        waited = 0 if changes < fewest else waited + 1
        fewest = min(fewest, changes)
        if changes == 0 or waited > IN_VAIN:
            break
    result = beta.copy()
    result[F] = b
    return result, eta


def _newton(H: _Dense | _Features, f: np.ndarray, A: np.ndarray, right: np.ndarray, missing: np.ndarray) -> tuple:
    """δ and Δη of the system above; no δ where H is not even nearly positive semi-definite, or numbers overflow."""
    k = len(missing)
    if not len(right):
        return right, np.zeros(k)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            solve, times = H.equations(f)
            AM = solve(A.T)
            schur = A @ AM
            eta = np.zeros(k)
            delta = np.zeros(len(right))
            for _ in range(CORRECTIONS):
                part = solve(right - times(delta) - A.T @ eta)
                turn = least_squares(schur, A @ (delta + part) - missing, ROUNDED_SUM) if k else eta
                delta, eta = delta + part - AM @ turn, eta + turn
        except LinAlgError:
            return None, None
    return (delta, eta) if np.isfinite(delta).all() and np.isfinite(eta).all() else (None, None)


def _matrix(gram: Gram, F: np.ndarray) -> _Dense | _Features:
    """H_FF in the form whose equations cost less."""
    factor = gram.factor()
    if factor is None or factor.rows.d >= len(F):
        return _Dense(gram.block(F))
    Z = factor.rows.matrix(F)
    Z = np.asarray(Z.toarray() if sp.issparse(Z) else Z, np.float64)
    return _Features(Z, np.zeros(len(F)) if factor.ridge is None else factor.ridge[F])


def _shift(diagonal: np.ndarray) -> float:
    """τ."""
    return TAU * max(float(diagonal.max(initial=0.0)), np.finfo(float).tiny)


class _Dense:
    """H_FF itself."""

    def __init__(self, H: np.ndarray) -> None:
        self.H, self.tau = H, _shift(H.diagonal())

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.H @ v

    def equations(self, f: np.ndarray) -> tuple[Callable, Callable]:
        """v ↦ (H_ff + τ)⁻¹ v, and the product."""
        M = self.H[np.ix_(f, f)]
        M[np.diag_indices(len(f))] += self.tau
        factor = cho_factor(M, check_finite=False)
        return lambda v: cho_solve(factor, v, check_finite=False), lambda v: M @ v


class _Features:
    """H_FF = ZZᵀ + D by its few columns."""

    def __init__(self, Z: np.ndarray, ridge: np.ndarray) -> None:
        self.Z, self.ridge = Z, ridge
        self.tau = _shift(np.einsum("ij,ij->i", Z, Z) + ridge)

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.Z @ (self.Z.T @ v) + self.ridge * v

    def equations(self, f: np.ndarray) -> tuple[Callable, Callable]:
        """As above: B⁻¹ − B⁻¹Z (1 + ZᵀB⁻¹Z)⁻¹ ZᵀB⁻¹ with B = D + τ."""
        Z, B = self.Z[f], self.ridge[f] + self.tau
        BZ = Z / B[:, None]
        M = Z.T @ BZ
        M[np.diag_indices(len(M))] += 1.0
        factor = cho_factor(M, check_finite=False)

        def solve(v: np.ndarray) -> np.ndarray:
            scaled = (v.T / B).T
            return scaled - BZ @ cho_solve(factor, Z.T @ scaled, check_finite=False)

        return solve, lambda v: Z @ (Z.T @ v) + B * v


def _released(
    b: np.ndarray, slope: np.ndarray, eps: np.ndarray, side: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    slack = RELEASED * max(1.0, float(np.abs(slope).max(initial=0.0)))
    tilt = slope + eps * side
    return ((b <= low) & (low < high) & (tilt < -slack)) | ((b >= high) & (low < high) & (tilt > slack))


def wants_off(qp: QP, beta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Variables at a bound (or at 0 with ε) that would lower the objective inside."""
    slack = RELEASED * max(1.0, float(np.abs(s).max(initial=0.0)))
    up = s + np.where(beta >= 0.0, qp.eps, -qp.eps)
    down = s + np.where(beta > 0.0, qp.eps, -qp.eps)
    bound = (beta <= qp.lower) | (beta >= qp.upper) | ((beta == 0.0) & (qp.eps > 0.0))
    return bound & (((up < -slack) & (beta < qp.upper)) | ((down > slack) & (beta > qp.lower)))
