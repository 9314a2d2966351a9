"""C-SVC: min ½‖w‖² + Σ C_i ℓ(y_i f(x_i)) with the hinge, the squared hinge or the Huber hinge.

In signed coefficients β_i = y_i α_i the dual is the QP of problem.py with

| loss          | p          | box of α  | added to the diagonal |
| ------------- | ---------- | --------- | --------------------- |
| hinge         | −y         | [0, C_i]  | 0                     |
| squared hinge | −y         | [0, ∞)    | 1 / (2 C_i)           |
| Huber, δ      | −(1 + δ) y | [0, C_i]  | 2 δ / C_i             |

which follows from the conjugates in losses.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..losses import Loss, make_loss
from .risk import Risk

__all__ = ["CSVC"]


@dataclass(frozen=True)
class CSVC(Risk):
    """Soft-margin classification of y in {−1, +1}."""

    C: float = 1.0
    loss: str = "hinge"
    huber_delta: float = 0.5
    fit_intercept: bool = True

    def _loss(self) -> Loss:
        return make_loss(self.loss, classification=True, delta=self.huber_delta)
