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

import numpy as np

from ..losses import Loss, make_loss
from ..problem import ERM, QP
from ..solution import Solution
from .base import Decision, Samples, equality_rows

__all__ = ["CSVC"]


@dataclass(frozen=True)
class CSVC:
    """Soft-margin classification of y in {−1, +1}."""

    C: float = 1.0
    loss: str = "hinge"
    huber_delta: float = 0.5
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        self._loss()  # which says so if there is no such loss

    def _loss(self) -> Loss:
        return make_loss(self.loss, classification=True, delta=self.huber_delta)

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        return self.erm(samples).qp()

    def erm(self, samples: Samples) -> ERM:
        """The primal problem."""
        bias = equality_rows(len(samples.y), self.fit_intercept)
        return ERM(samples.K, samples.y, self.C * samples.weight, self._loss(), bias)

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β and the bias, which is the multiplier of Σβ = 0."""
        return Decision(solution.beta, float(solution.multipliers[: int(self.fit_intercept)].sum()))

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of f."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """The same numbers again."""
        return published.coef, np.full(int(self.fit_intercept), published.intercept)
