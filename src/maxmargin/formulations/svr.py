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

from ..losses import Loss, make_loss
from .risk import Risk

__all__ = ["EpsilonSVR"]


@dataclass(frozen=True)
class EpsilonSVR(Risk):
    """Regression with a tube of half-width ε in which errors are free."""

    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    fit_intercept: bool = True
    huber_delta: float = 1.0
    quantile: float = 0.5

    def _loss(self) -> Loss:
        options = {"epsilon": self.epsilon, "delta": self.huber_delta, "quantile": self.quantile}
        return make_loss(self.loss, classification=False, **options)
