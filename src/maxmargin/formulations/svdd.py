"""Support vector data description: the smallest ball around the points (Tax & Duin 2004).

    min R² + Σ C_i ξ_i   s.t.  ‖φ(x_i) − a‖² ≤ R² + ξ_i

Half of its dual is the QP with p = −½ diag K, box [0, C_i] and Σ β_i = 1; the centre is a = Σ β_i φ(x_i) and
R² = 2η + βᵀKβ. With C = 1 / (ν Σw), at most a share ν of the points lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples, inside

__all__ = ["SVDD"]


@dataclass(frozen=True)
class SVDD:
    """A ball in feature space; y is not looked at."""

    nu: float = 0.5
    C: float | None = None  # takes the place of nu

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        gram, weight, n = samples.K, samples.weight, samples.K.n
        C = (1.0 / (self.nu * weight.sum()) if self.C is None else self.C) * weight
        C = np.minimum(C, 1.0)  # the coefficients add up to 1, so that a larger C means the same
        if C.sum() < 1.0 - 1e-12:
            raise ValueError(
                f"C={self.C:g} was asked for; found that the coefficients of {n} points must add up to 1 and be at "
                f"most C each; choose C of at least {self.C / C.sum():.3g}, or give nu instead"
            )
        return QP(gram, -0.5 * gram.original().diag(), np.zeros(n), C, np.ones((1, n)), [1.0])

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """2β and 2η: R² − ‖φ(x) − a‖² is 2 Σ β_i k(x_i, x) + 2η − k(x, x)."""
        beta, eta = solution.beta, float(solution.multipliers[0])
        # The dual value is ½ Σ β_i K_ii − ½ βᵀKβ, and pᵀβ = −½ Σ β_i K_ii.
        norm_of_centre = -2.0 * (solution.certificate.dual + float(qp.p @ beta))
        radius = float(np.sqrt(max(0.0, 2.0 * eta + norm_of_centre)))
        return Decision(2.0 * beta, 2.0 * inside(qp, beta, eta), found=radius, scale=2.0)

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of f."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """β and η of 2β and 2η."""
        return 0.5 * published.coef, np.array([0.5 * published.intercept])
