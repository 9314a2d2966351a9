"""The Potential SVM (PSVM §2): a machine for any L × P matrix K of relations, definite or not, square or not.

    min  ½ αᵀQα − ỹᵀK̃α + ε̃ ‖α‖₁     s.t.  −C̃ ≤ α_j ≤ C̃          Q = K̃ᵀK̃                                  (19)

K̃ has columns of mean 0 and norm 1 (gram/relation.py), ỹ = y − ȳ. There is one variable for each *column* of K and no
equality constraint; the predictor is f(x) = Σ α_j K̃_j(x) + ȳ (8), which stands on the columns with α_j ≠ 0. Up to the
constant ½‖ỹ‖² the objective is ½‖ỹ − K̃α‖² + ε̃‖α‖₁, a lasso in a box.

Units. The solution for cy is c times that for y if ε̃ and C̃ are multiplied by c. So ε and C are given in units of the
standard deviation σ of the targets: ε̃ = εσ and C̃ = Cσ are the ε and C of the paper. For two classes of equal size with
targets ±1 (and for targets of unit variance) they are the paper's own.

| paper                     | here                                  |
| ------------------------- | ------------------------------------- |
| α = α⁺ − α⁻ (18)          | β                                     |
| Q, −K̃ᵀy                   | H, p                                  |
| F (9)                     | s = Hβ + p                            |
| b                         | ȳ, which enters the published intercept |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gram import Gram, Relation
from ..problem import QP
from ..solution import Solution
from .base import Decision

__all__ = ["PSVM", "PotentialQP"]


@dataclass(frozen=True)
class PotentialQP(QP):
    """The QP (19) with what it knows of its targets: their mean, and ‖ỹ‖², which bounds the optimum without a box.

    With the residual r = ỹ − K̃α, any multiple t of it gives s = −t K̃ᵀr and a bound of the optimum (problem.py, for
    weights w = ỹ − tr of their own): where |s_j| ≤ ε̃ for all j the box does not enter it. For C = ∞ this is the dual of
    the lasso; for a large C it proves far more than the box does.
    """

    target_mean: float = 0.0  # ȳ
    target_square: float = 0.0  # ‖ỹ‖²

    def gap(self, beta, eta, s):
        """The smaller of the bound by the box and the bound by a scaled residual."""
        boxed = super().gap(beta, eta, s)
        largest = float(np.abs(s).max(initial=0.0))
        if len(self.A) or not boxed > 0.0 or not np.array_equal(s, self.gradient(beta, eta)):
            return boxed
        # Rounding must not leave |ts| above ε by a hair where that would count C times.
        tightest = float(self.eps[np.abs(s) > 0.0].min(initial=np.inf)) if largest > 0.0 else np.inf
        t = min(1.0, tightest / largest) if largest > 0.0 else 1.0
        shrunk = np.clip(t * s, -self.eps, self.eps)
        residual = max(0.0, self.target_square + 2.0 * float(self.p @ beta) + float(beta @ (s - self.p)))
        scaled = super().gap(beta, eta, shrunk) + 0.5 * (1.0 - t) ** 2 * residual
        return min(boxed, scaled)


@dataclass(frozen=True)
class PSVM:
    """Regression on the columns of a relation; for classification the targets are ±1."""

    C: float = np.inf
    epsilon: float = 0.1

    def qp(self, gram: Gram, y: np.ndarray, weight: np.ndarray) -> QP:
        """The dual problem; a Gram that is no ``Relation`` is taken as the matrix K."""
        relation = gram if isinstance(gram, Relation) else Relation.of(gram.wide().dense(), weight)
        mean = float(weight @ y) / float(weight.sum())
        target = relation.root * (y - mean)
        square = float(target @ target)
        sigma = np.sqrt(square / float(weight.sum()))
        box = np.full(relation.n, self.C * sigma if sigma > 0.0 else 0.0)
        eps = np.full(relation.n, self.epsilon * sigma)
        p = np.where(relation.scale > 0.0, -relation.along(target), 0.0)
        return PotentialQP(relation, p, -box, box, eps=eps, target_mean=mean, target_square=square)

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """α in the units of K, and the bias (8)."""
        assert isinstance(qp, PotentialQP)
        coef, offset = qp.H.decision(solution.beta)
        return Decision(coef, qp.target_mean + offset)

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of K̃ᵀy."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """α again, without the rounding of two products."""
        scale = qp.H.scale
        return qp.settled(np.where(scale > 0.0, published.coef / np.where(scale > 0.0, scale, 1.0), 0.0)), np.zeros(0)
