"""One-class SVM: a half-space that holds all but a share ν of the points (MPD Table 1, row 3).

    min ½ βᵀKβ   s.t.  0 ≤ β_i ≤ w_i,   Σ β_i = ν Σ w_i

The multiplier is minus the offset ρ: f(x) = Σ β_i k(x_i, x) − ρ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples, inside

__all__ = ["OneClass"]


@dataclass(frozen=True)
class OneClass:
    """The support of a distribution; y is not looked at."""

    nu: float = 0.5

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        n, weight = samples.K.n, samples.weight
        return QP(samples.K, np.zeros(n), np.zeros(n), weight, np.ones((1, n)), [self.nu * weight.sum()])

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β and −ρ."""
        return Decision(solution.beta, inside(qp, solution.beta, float(solution.multipliers[0])))

    def unit(self, weight: np.ndarray) -> float:
        """f grows with the weights: where they are small, so are violations that count."""
        return min(1.0, float(weight.mean()))

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """The same numbers again."""
        return published.coef, np.array([published.intercept])
