"""ν-SVR: the width of the tube is found, ν bounds the share of points outside it (MPD Table 1, row 5).

With u = α ≥ 0 and v = −α* ≤ 0, two variables a point, β = u + v and

    min ½ βᵀKβ − yᵀβ   s.t.  0 ≤ u_i ≤ C_i,  −C_i ≤ v_i ≤ 0,  Σ β_i = 0,  Σ (u_i − v_i) = ν Σ C_i

The second multiplier is ε. Where it is 0, a sum below ν Σ C_i is as good: more u and v would cancel in β.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gram import Signed, Tiled
from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples

__all__ = ["NuSVR"]

DUST = 4 * np.finfo(float).eps  # of Σ (u − v): a u + v, or a sum of them, that small is their rounding
BALANCED = 1e-12  # of Σ|β|: a sum that small is 0


@dataclass(frozen=True)
class NuSVR:
    """Regression with a share ν of support vectors."""

    nu: float = 0.5
    C: float = 1.0
    fit_intercept: bool = True

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        y, n = samples.y, len(samples.y)
        C = self.C * samples.weight
        total = self.nu * C.sum()
        if self.fit_intercept:
            zero = np.zeros(n)
            A, b = np.vstack([np.ones(2 * n), np.repeat([1.0, -1.0], n)]), [0.0, total]
            return QP(Tiled(samples.K), np.tile(-y, 2), np.r_[zero, -C], np.r_[C, zero], A, b, limits=(1,))
        # Without a bias the only constraint is a sum of α and α*, which pair steps keep in those signs. Both variables
        # of a point are neighbours: a sum that is made up from the first variables on has α that cancel α*.
        H = Signed(Tiled(samples.K, np.repeat(np.arange(n), 2)), np.tile([1.0, -1.0], n))
        box = np.repeat(C, 2)
        return QP(H, -H.sign * np.repeat(y, 2), np.zeros(2 * n), box, np.ones((1, 2 * n)), [total], limits=(0,))

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β = u + v, the bias, and ε."""
        beta = solution.beta
        n = len(beta) // 2
        if not self.fit_intercept:
            beta = (beta * qp.H.sign).reshape(n, 2).T.ravel()
        own = int(self.fit_intercept)
        eta = solution.multipliers
        coef = beta[:n] + beta[n:]
        dust = DUST * float((beta[:n] - beta[n:]).sum())
        coef = np.where(np.abs(coef) <= dust, 0.0, coef)
        coef = _balanced(coef, qp.upper[:n], dust) if own else coef
        if own and len(qp.A) == 2 and not coef.any():
            # No function: multipliers belong to u and v, whose rounding a kernel sees.
            low, high = -float(qp.p[:n].max()), -float(qp.p[:n].min())
            return Decision(coef, 0.5 * (low + high), found=0.5 * (high - low))
        return Decision(coef, float(eta[:own].sum()), found=max(0.0, float(eta[own])))

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of f."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """u and v of β = u + v, and the bias and ε: where ε is 0, Σ (u − v) may be less than ν Σ C_i."""
        pair = np.r_[np.maximum(published.coef, 0.0), np.minimum(published.coef, 0.0)]
        eta = np.r_[np.full(int(self.fit_intercept), published.intercept), published.found]
        return qp.settled(pair if self.fit_intercept else pair.reshape(2, -1).T.ravel() * qp.H.sign), eta


def _balanced(coef: np.ndarray, most: np.ndarray, rounding: float) -> np.ndarray:
    """β with Σβ = 0 in its own units: where u and v are large and nearly cancel, their sums are rounding of those."""
    lack, size = float(coef.sum()), np.where(np.abs(coef) < most, np.abs(coef), 0.0)
    total = float(size.sum())
    if abs(lack) <= BALANCED * float(np.abs(coef).sum()):
        return coef
    if abs(lack) >= total:  # all of one sign: nothing but rounding adds up to 0
        return np.zeros_like(coef) if abs(lack) <= rounding else coef
    return coef - lack * size / total
