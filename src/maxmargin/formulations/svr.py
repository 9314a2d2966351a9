"""ε-SVR: min ½‖w‖² + Σ C_i ℓ(f(x_i) − y_i) with the ε-insensitive loss or its square.

In signed coefficients β = α − α* there is one variable a point, not two: the QP has p = −y, ε_i = ε and the box
[−C_i, C_i]; the squared loss has no box and adds 1 / (2 C_i) to the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..losses import Loss, make_loss
from ..problem import ERM, QP
from ..solution import Solution
from .base import Decision, Samples, equality_rows

__all__ = ["EpsilonSVR"]


@dataclass(frozen=True)
class EpsilonSVR:
    """Regression with a tube of half-width ε in which errors are free."""

    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        self._loss()  # which says so if there is no such loss

    def _loss(self) -> Loss:
        return make_loss(self.loss, classification=False, epsilon=self.epsilon)

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        return self.erm(samples).qp()

    def erm(self, samples: Samples) -> ERM:
        """The primal problem."""
        bias = equality_rows(len(samples.y), self.fit_intercept)
        return ERM(samples.K, samples.y, self.C * samples.weight, self._loss(), bias)

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β and the bias."""
        return Decision(solution.beta, float(solution.multipliers[: int(self.fit_intercept)].sum()))

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of f."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """The same numbers again."""
        return published.coef, np.full(int(self.fit_intercept), published.intercept)
