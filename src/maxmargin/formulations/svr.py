"""ε-SVR and its relatives: min ½‖w‖² + Σ C_i ℓ(f(x_i) − y_i) with any loss of residuals.

In signed coefficients β = α − α* there is one variable a point, not two: the QP has p = −y, and

| loss                | ε_i | box of β                   | added to the diagonal |
| ------------------- | --- | -------------------------- | --------------------- |
| ε-insensitive       | ε   | [−C_i, C_i]                | 0                     |
| its square          | ε   | none                       | 1 / (2 C_i)           |
| Huber, δ            | 0   | [−δ C_i, δ C_i]            | 1 / C_i               |
| quantile τ          | 0   | [−(1 − τ) C_i, τ C_i]      | 0                     |
| squared error       | 0   | none                       | 1 / (2 C_i)           |

which follows from the conjugates in losses.py.
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
    huber_delta: float = 1.0
    quantile: float = 0.5

    def __post_init__(self) -> None:
        self._loss()  # which says so if there is no such loss

    def _loss(self) -> Loss:
        options = {"epsilon": self.epsilon, "delta": self.huber_delta, "quantile": self.quantile}
        return make_loss(self.loss, classification=False, **options)

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
