"""ν-SVC: at most a share ν of margin errors, at least a share ν of support vectors (MPD Table 1, row 2).

    min ½ βᵀKβ   s.t.  0 ≤ y_i β_i ≤ w_i,   Σ β_i = 0,   Σ y_i β_i = ν Σ w_i

The second multiplier is minus the margin ρ; divided by ρ, the decision function is that of a C-SVC with
C = 1/ρ. Feasible for ν up to 2 min(W₊, W₋) / (W₊ + W₋), where W are the weights of the two classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gram import Signed
from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples

__all__ = ["NuSVC", "roundings"]

ROUNDING = 1e-13  # of the largest kernel value times the coefficients: a function that small is none
NEXT_TO_NOTHING = 0.01  # share of the other class's weight


@dataclass(frozen=True)
class NuSVC:
    """Classification of y in {−1, +1} with a share ν of support vectors."""

    nu: float = 0.5
    fit_intercept: bool = True
    clip: bool = False  # lower nu to the largest feasible one instead of an error

    @staticmethod
    def largest_nu(y: np.ndarray, weight: np.ndarray) -> float:
        """The largest feasible ν."""
        positive, negative = float(weight[y > 0].sum()), float(weight[y <= 0].sum())
        return 2.0 * min(positive, negative) / (positive + negative)

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        gram, y, weight = samples.K, samples.y, samples.weight
        most = self.largest_nu(y, weight) if self.fit_intercept else 1.0
        total = (min(self.nu, most) if self.clip else self.nu) * float(weight.sum())
        if self.fit_intercept:
            if self.nu > most * (1 + 1e-12) and not self.clip:
                raise ValueError(
                    f"specified nu is infeasible: nu={self.nu:g} was asked for; found that classes so unequal need "
                    f"nu in (0, {most:g}]; lower nu or give the smaller class more weight"
                )
            lower, upper = np.where(y > 0, 0.0, -weight), np.where(y > 0, weight, 0.0)
            return QP(gram, np.zeros(len(y)), lower, upper, np.vstack([np.ones(len(y)), y]), [0.0, total])
        # Without a bias Σα = ν Σw is the only constraint; in α = yβ a pair step keeps it.
        return QP(Signed(gram, y), np.zeros(len(y)), np.zeros(len(y)), weight, np.ones((1, len(y))), [total])

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β/ρ and bias/ρ: the functional margin becomes 1."""
        if not self.fit_intercept:
            rho = _margin(qp, solution.beta, -float(solution.multipliers[0]))
            scale = _scale(rho)
            return Decision(scale * solution.beta * qp.H.sign, 0.0, found=rho, scale=scale)
        bias, minus_rho = self._unbounded_side(qp, solution)
        rho = _margin(qp, solution.beta, -minus_rho)
        if not rho:
            bias = self._tilted(qp, solution.beta, bias)
        scale = _scale(rho)
        return Decision(scale * solution.beta, scale * bias, found=rho, scale=scale)

    def unit(self, weight: np.ndarray) -> float:
        """f grows with the weights: where they are small, so are violations that count."""
        return min(1.0, float(weight.mean()))

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """β, b and −ρ of what was divided by ρ."""
        scale = _scale(published.found)
        if not self.fit_intercept:
            return qp.settled(published.coef * qp.H.sign / scale), np.array([-published.found])
        return qp.settled(published.coef / scale), np.array([published.intercept / scale, -published.found])

    def _unbounded_side(self, qp: QP, solution: Solution) -> tuple[float, float]:
        """The multipliers (b, −ρ), moved where they are not unique.

        With the largest feasible ν the lighter class has all its coefficients at their bounds. Its margin can then
        lie anywhere beyond its points at the same objective. Where it weighs next to nothing against the other, we
        use that freedom, and fewer and fewer of its samples stay on its own side. Where no function separates them, all
        decisions are zero but for rounding, any bias towards the heavier class is optimal, with a margin as large, and
        we take 1.
        """
        beta, y = solution.beta, qp.A[1]
        bias, minus_rho = (float(x) for x in solution.multipliers[:2])
        box = np.maximum(-qp.lower, qp.upper)
        full = {side: bool((np.abs(beta) >= box)[y == side].all()) for side in (1.0, -1.0)}
        if full[1.0] == full[-1.0]:
            return bias, minus_rho
        side = 1.0 if full[1.0] else -1.0
        ratio = box[y == side].sum() / (NEXT_TO_NOTHING * box[y != side].sum())
        if ratio >= 1.0:
            return bias, minus_rho
        f = qp.times(beta)
        if np.abs(f).max() <= _rounding(qp, beta):
            return -side, -1.0
        depth = np.sort(side * f[y == side])
        moved = -side * depth[min(len(depth) - 1, int(np.ceil((1.0 - ratio) * len(depth))))]
        if side * moved >= side * bias:
            return bias, minus_rho
        level = bias - side * minus_rho  # of the other class: stays
        return moved, side * (moved - level)

    @staticmethod
    def _tilted(qp: QP, beta: np.ndarray, bias: float) -> float:
        """The bias of a machine without a margin, where no function is left either: towards the heavier class.

        The signs of rounding would be another model for every order of the samples. The tilt is itself a rounding.
        """
        least = _rounding(qp, beta)
        if np.abs(qp.times(beta)).max() > least or abs(bias) > least:
            return bias
        return 2.0 * least if qp.upper.sum() >= -qp.lower.sum() else -2.0 * least


def _rounding(qp: QP, beta: np.ndarray) -> float:
    """A function Σ β_i k(x_i, ·) that is no larger at the samples is none."""
    return float(roundings(qp.H.diag(), beta, np.zeros(1, np.int64))[0])


def roundings(diagonal: np.ndarray, beta: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The same for each of the problems that begin at ``starts``."""
    norm = np.sqrt(np.maximum(diagonal, 0.0))
    return ROUNDING * np.maximum.reduceat(norm, starts) * np.add.reduceat(np.abs(beta) * norm, starts)


def _margin(qp: QP, beta: np.ndarray, rho: float) -> float:
    """The margin; 0 where it is no larger than rounding of the function, on whatever scale the kernel is."""
    return rho if rho > _rounding(qp, beta) else 0.0


def _scale(rho: float) -> float:
    """What makes a margin ρ 1; where there is none, functions stay as they are."""
    return 1.0 / rho if rho > 0.0 else 1.0
