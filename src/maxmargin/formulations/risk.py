"""Machines that minimise ½ ‖f‖² + C Σ ℓ(y_i, f(x_i)): one for each family of losses, the same dual for all (ERM)."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from ..problem import ERM, QP
from ..solution import Solution
from .base import Decision, Samples, equality_rows

__all__ = ["Risk"]


class Risk:
    """What such machines share; a machine has a cost C, a loss and perhaps a bias."""

    C: float
    fit_intercept: bool

    def __post_init__(self) -> None:
        self._loss()  # which says so if there is no such loss

    def _loss(self) -> Loss:
        raise TypeError(f"{type(self).__name__} has no loss; use CSVC or EpsilonSVR")

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
