"""Equality constraints of any kind and number: the nearest feasible point, and the multipliers that violate least.

Both are a search over k numbers λ only, for which a sum of clipped lines vanishes:

    nearest point      β(λ) = clip(β − Qᵀλ, lower, upper)          Q β(λ) = c
    multipliers        u_i(λ) = t_i − clip(t_i, m_i, M_i),  t = Qᵀλ   Q u(λ) = 0

The first is the dual of min ‖β' − β‖² over the box and the constraints. In the second, m_i and M_i are the bounds
that the optimality conditions set to t_i, so that |u_i| is the violation of variable i and λ minimises Σ u_i². Each
is the derivative of a convex, piecewise quadratic function of λ, which Newton steps minimise.

Rows of A enter orthonormal, as Q = TA with QQᵀ = nI. Rows that depend on others are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...goal import FEASIBLE
from ...problem import QP, missed_share
from .fixed_sums import BIG, offsets
from .least_squares import least_squares
from .limits import ROUNDS
from .line_search import ARMIJO
from .roundings import ROUNDED_SOLUTION, ROUNDED_SUM, ROUNDED_VALUE

__all__ = ["Equality"]

DEPENDENT = 1e-10  # singular value, relative to the largest, of a row that says nothing new
CONTRADICTION = 1e-8  # relative residual of the constraints by which they cannot all hold
HELD = 1e-13  # residual, relative to Σ|β|, of constraints that hold to rounding, and distance to a bound that is none
AGAIN = 3  # times the nearest point is looked for from the one that was found, if that does not hold the constraints


@dataclass(frozen=True)
class Equality:
    """Aβ = b as Qβ = c, with orthonormal rows."""

    Q: np.ndarray  # (rank, n)
    c: np.ndarray
    T: np.ndarray  # Q = T A; multipliers of Aβ = b are Tᵀλ
    A: np.ndarray  # as they were given
    b: np.ndarray

    @classmethod
    def of(cls, qp: QP, orthogonal: bool = True) -> Equality:
        """The constraints of a problem, made once."""
        return qp.kept(f"equality {orthogonal}", lambda qp: cls._of(qp, orthogonal))

    @classmethod
    def _of(cls, qp: QP, orthogonal: bool) -> Equality:
        A, b, n = qp.A, qp.b, qp.n
        if len(A) == 0:
            return cls(A, b, np.zeros((0, 0)), A, b)
        if len(A) == 1 or not orthogonal:
            size = np.sqrt(np.einsum("ij,ij->i", A, A) / n)
            T = np.diag(1.0 / np.where(size > 0, size, 1.0))
        else:
            # Rows of any size: each is made to have norm 1 before it is asked whether it says anything new.
            norm = np.sqrt(np.einsum("ij,ij->i", A, A))
            unit = 1.0 / np.where(norm > 0.0, norm, 1.0)
            # The triangle of a factorisation has the singular values and left vectors of the rows, and is small.
            triangle: np.ndarray = np.linalg.qr((A * unit[:, None]).T, mode="r")  # type: ignore[assignment]
            U, S, _ = np.linalg.svd(triangle.T, full_matrices=False)
            known = S > DEPENDENT * max(S[0], np.finfo(float).tiny)
            T = np.sqrt(n) * (U[:, known] / S[known]).T * unit
            scaled = b * unit
            left = scaled - U[:, known] @ (U[:, known].T @ scaled)
            if np.abs(left).max() > CONTRADICTION * np.abs(scaled).max():
                raise ValueError(
                    "a QP was asked for; found equality constraints that contradict each other; check A and b"
                )
        return cls(np.ascontiguousarray(T @ A), T @ b, T, A, b)

    @property
    def count(self) -> int:
        return len(self.c)

    def residual(self, beta: np.ndarray) -> np.ndarray:
        """Qβ − c."""
        return self.Q @ beta - self.c

    def feasible(self, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, eps: np.ndarray) -> np.ndarray:
        """A point of the box near β that holds the constraints; what is at a bound, or at 0 with ε, stays if it can."""
        near = self._near(beta, lower, upper, eps)
        if self.count == 0 or self._missed(near) <= FEASIBLE:
            return near
        # What a row lacks is rounding of all coefficients, but not of its own terms: where it has one large entry, and
        # others may move by next to nothing only, that one's coefficient is the one to move, wherever it is.
        moved, _ = self._nearest(near, lower, upper, dust=0.0)
        return moved if self._missed(moved) <= FEASIBLE else near

    def _missed(self, beta: np.ndarray) -> float:
        """As the judge sees it (problem.py)."""
        return missed_share(self.A, self.b, beta, self.A @ beta - self.b)

    def _near(self, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, eps: np.ndarray) -> np.ndarray:
        """The same, with constraints that hold to the rounding of all coefficients."""
        start = np.clip(np.where(np.isnan(beta), 0.0, beta), lower, upper)  # numbers may have overflowed on the way
        if self.count == 0 or self.held(start, HELD):
            return start
        near = self._shared(start, lower, upper, eps)
        if near is not None:
            return near
        kinked = eps > 0.0
        free = (start > lower) & (start < upper) & ~(kinked & (start == 0.0))
        low = np.where(free, np.where(kinked & (start > 0.0), np.maximum(lower, 0.0), lower), start)
        high = np.where(free, np.where(kinked & (start < 0.0), np.minimum(upper, 0.0), upper), start)
        near, _ = self._nearest(start, low, high)
        if self.held(near, HELD):
            return near
        used = start != 0.0  # what is 0 stays so if it can: products with β cost a row for each other coefficient
        near, _ = self._nearest(start, np.where(used, lower, 0.0), np.where(used, upper, 0.0))
        if self.held(near, HELD):
            return near
        near, steps = self._nearest(start, lower, upper)
        for _ in range(AGAIN):
            if self.held(near, HELD):
                break
            near, steps = self._nearest(near, lower, upper)  # what is rounding from far away is nothing from nearby
        lack = self.residual(near)
        if not self.held(near, CONTRADICTION) and (
            self._impossible(lack, lower, upper) or self._impossible(steps, lower, upper)
        ):
            raise ValueError(
                f"a feasible QP was asked for; found that no point of the box holds its {self.count} equality "
                f"constraints, the nearest misses them by {np.abs(lack).max():.2g}; widen the box (a larger C, a "
                "smaller nu) or drop a constraint"
            )
        return near

    def _shared(self, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, eps: np.ndarray) -> np.ndarray | None:
        """β with what the constraints lack shared among the variables by the room that they have, or None.

        k equations where the nearest point is a search: this is how a small lack among many variables is mended.
        """
        beta = start.copy()
        for _ in range(2):  # the second takes what rounding left
            room = np.minimum(np.minimum(beta - lower, upper - beta), 1.0 + np.abs(beta))  # boxes may be infinite
            room = np.where(eps > 0.0, np.minimum(room, np.abs(beta)), room)
            share = self.Q.T @ least_squares((self.Q * room) @ self.Q.T, self.residual(beta), DEPENDENT)
            if not np.abs(share).max() < 1.0:
                return None
            beta -= room * share
        return beta if self.held(beta, HELD) else None

    def _nearest(
        self, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, dust: float = HELD
    ) -> tuple[np.ndarray, np.ndarray]:
        """The point of the box nearest to start that holds the constraints, as far as one does; and λ.

        What is as near to a bound as ``dust`` is put there.
        """
        steps, _ = _balance(self.Q, start, lower, upper, self.c)
        near = np.clip(start - self.Q.T @ steps, lower, upper)
        for _ in range(3):  # what rounding left goes to the variables that can take it
            little = dust * np.maximum(1.0, np.abs(near))
            near = np.where(near - lower < little, lower, np.where(upper - near < little, upper, near))
            inside = np.flatnonzero((near > lower) & (near < upper))
            if not len(inside):
                break
            correction = least_squares(self.Q[:, inside], self.residual(near), DEPENDENT)
            near[inside] = np.clip(near[inside] - correction, lower[inside], upper[inside])
        return near, steps

    def _impossible(self, direction: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
        """Whether directionᵀ(Qβ − c) > 0 for all β in the box, which proves that no β holds the constraints."""
        slope = self.Q.T @ direction
        corner = np.where(slope > 0, lower, upper)
        terms = np.where(slope == 0.0, 0.0, slope * np.where(slope == 0.0, 0.0, corner))
        return bool(terms.sum() - self.c @ direction > CONTRADICTION * np.abs(direction).max())

    def multipliers(self, qp: QP, beta: np.ndarray, H_beta: np.ndarray) -> np.ndarray:
        """λ of the smallest sum of squared violations; Tᵀλ are multipliers of Aβ = b."""
        if self.count == 0:
            return np.zeros(0)
        m, M = self._range(qp, beta, -(H_beta + qp.p))
        return _balance(self.Q, np.zeros(qp.n), m, M, np.zeros(self.count), outside=True)[0]

    @staticmethod
    def _range(qp: QP, beta: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rise, fall = offsets(beta, qp.lower, qp.upper, qp.eps)
        up, down = v + rise, v + fall
        return np.where(up < -BIG / 2, -np.inf, up), np.where(down > BIG / 2, np.inf, down)

    # -- what newton_finish asks of constraints ----------------------------------------------------------

    def basis(self, F: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span what the constraints forbid to the variables F."""
        if self.count == 0:
            return np.zeros((len(F), 0))
        U, S, _ = np.linalg.svd(self.Q[:, F].T, full_matrices=False)
        return U[:, S > DEPENDENT * max(S[0], np.finfo(float).tiny)]

    def held(self, beta: np.ndarray, slack: float) -> bool:
        """Whether β holds the constraints."""
        size = float(np.abs(beta).sum()) + float(np.abs(self.c).max(initial=0.0))
        return bool(np.abs(self.residual(beta)).max(initial=0.0) <= slack * size)

    def wanting(self, qp: QP, beta: np.ndarray, v: np.ndarray, slack: float) -> list[tuple[int, float]]:
        """The worst variable that wants to grow and the worst that wants to shrink: (number, direction)."""
        m, M = self._range(qp, beta, v)
        level = self.Q.T @ self.multipliers(qp, beta, -v - qp.p)
        up, down = m - level, level - M
        pairs = ((int(up.argmax()), 1.0, up.max()), (int(down.argmax()), -1.0, down.max()))
        return [(i, sign) for i, sign, excess in pairs if excess > slack]


def _balance(
    Q: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray, c: Any, outside: bool = False
) -> tuple[np.ndarray, bool]:
    """λ with Q φ(x − Qᵀλ) = c, where φ clips (or, ``outside``, gives what clipping takes away); whether it was found.

    For ``outside`` the sign of λ is that of t = Qᵀλ above.
    """
    k = len(Q)
    sign = -1.0 if outside else 1.0
    lam = np.zeros(k)
    size = np.abs(Q) @ np.abs(np.clip(x, low, high) if not outside else np.where(np.isfinite(low), low, 0.0))
    size = max(float(size.max(initial=0.0)), float(np.abs(c).max(initial=0.0)))

    def look(lam: np.ndarray) -> tuple:
        z = x - sign * (Q.T @ lam)
        inside = np.clip(z, low, high)
        out = z - inside
        if outside:
            return 0.5 * float(out @ out), Q @ out, out != 0.0, out
        # The antiderivative of a clipped line, and the slope of −(that) − cᵀλ
        value = float(inside @ (0.5 * inside + out)) + float(c @ lam)
        return value, c - Q @ inside, (z >= low) & (z <= high), None  # what lies on a bound may come off it

    if k == 1:
        return _root(lambda t: look(np.array([t])), Q[0], ROUNDED_SUM * size)
    value, slope, moving, out = look(lam)
    for _ in range(ROUNDS):
        if np.abs(slope).max() <= ROUNDED_SUM * size:
            return lam, True
        step = -_newton_step(Q, moving, slope, out)
        predicted = float(slope @ step)
        new = look(lam + step)
        if abs(predicted) <= ROUNDED_VALUE * abs(value):  # values cannot tell the step from rounding, slopes can
            if not np.abs(new[1]).max() < np.abs(slope).max():
                return lam, True
        elif not new[0] <= value + ARMIJO * predicted:  # where few variables react, a step is too long by any factor
            length = _along(look, lam, step, Q)
            new = look(lam + length * step)
            if not new[0] < value:
                return lam, False
            step = length * step
        lam = lam + step
        value, slope, moving, out = new
    return lam, False


def _newton_step(Q: np.ndarray, moving: np.ndarray, slope: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """H⁻¹ slope with H = QQᵀ of the variables that move; where slope = Q out, by least squares if H has lost digits.

    Rows that are orthogonal on all variables may be nearly the same on a few: points 1e-8 apart leave 1e-16 of H.
    """
    part = Q[:, moving]
    H = part @ part.T
    if out is not None:
        curvature = np.linalg.eigvalsh(H)
        if not curvature[0] > ROUNDED_SOLUTION * curvature[-1]:
            return least_squares(part.T, out[moving], ROUNDED_SUM)
    H[np.diag_indices(len(H))] += ROUNDED_SOLUTION * Q.shape[1]
    return np.linalg.solve(H, slope)


def _along(look: Callable, lam: np.ndarray, step: np.ndarray, Q: np.ndarray) -> float:
    """The length of the step to the minimum along it: one number, for which ``_root`` is safe."""

    def line(t: float) -> tuple:
        value, slope, moving, _ = look(lam + t * step)
        return value, (float(slope @ step),), moving, None

    (length,), _ = _root(line, Q.T @ step, 0.0)
    return float(length)


def _root(look: Callable, q: np.ndarray, enough: float) -> tuple[np.ndarray, bool]:
    """As ``_balance`` for one constraint: the slope grows with λ, so Newton steps stay between two bounds."""
    low, high, at, width = -np.inf, np.inf, 0.0, 1.0
    for _ in range(ROUNDS):
        _, (slope,), moving, _ = look(at)
        if abs(slope) <= enough:
            return np.array([at]), True
        low, high = (at, high) if slope < 0 else (low, at)
        curvature = float(q[moving] @ q[moving])
        new = at - slope / curvature if curvature > 0.0 else np.nan
        if not low < new < high:
            if np.isfinite(high - low):
                new = 0.5 * (low + high)
            else:
                new, width = at - np.sign(slope) * width, 4.0 * width
        if not np.isfinite(new) or abs(new - at) <= 2.0 * ROUNDED_VALUE * abs(at):
            return np.array([at]), bool(np.isfinite(new))
        at = new
    return np.array([at]), False
