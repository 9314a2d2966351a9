"""The Potential SVM (PSVM §2): a machine for any L × P matrix K of relations, definite or not, square or not.

    min  ½ αᵀQα − ỹᵀK̃α + ε̃ ‖α‖₁     s.t.  −C̃ ≤ α_j ≤ C̃          Q = K̃ᵀK̃                                  (19)

K̃ has columns of mean 0 and norm 1 (gram/relation.py), ỹ = y − ȳ. There is one variable for each *column* of K and no
equality constraint; the predictor is f(x) = Σ α_j K̃_j(x) + ȳ (8), which stands on the columns with α_j ≠ 0. Up to the
constant ½‖ỹ‖² the objective is ½‖ỹ − K̃α‖² + ε̃‖α‖₁, a lasso in a box.

Units. The solution for cy is c times that for y if ε̃ and C̃ are multiplied by c. So all is in units of the standard
deviation σ of the targets: the QP has ỹ/σ, and ε̃ = εσ and C̃ = Cσ are the ε and C of the paper. For two classes of
equal size with targets ±1, and for targets of unit variance, they are the paper's own. A column that has nothing to do
with the targets has K̃_jᵀỹ/σ of about ±1: ε counts standard errors.

| paper                     | here                                  |
| ------------------------- | ------------------------------------- |
| α = α⁺ − α⁻ (18)          | β                                     |
| Q, −K̃ᵀy                   | H, p                                  |
| F (9)                     | s = Hβ + p                            |
| b                         | ȳ, which enters the published intercept |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..gram import Relation
from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples

__all__ = ["PSVM", "PotentialQP"]

CONSTANT = 1e-14  # of the largest target: a spread so small is rounding


@dataclass(frozen=True)
class PotentialQP(QP):
    """The QP (19) with what it knows of its targets: their mean and spread, and ‖ỹ‖², which bounds the
    optimum without a box.

    With the residual r = ỹ − K̃α, any multiple t of it gives s = −t K̃ᵀr and a bound of the optimum (problem.py, for
    weights w = ỹ − tr of their own): where |s_j| ≤ ε̃ for all j the box does not enter it. For C = ∞ this is the dual of
    the lasso; for a large C it proves far more than the box does.
    """

    mean: float = 0.0  # ȳ
    sigma: float = 1.0  # the standard deviation of the targets, 0 where they are constant
    target_square: float = 0.0  # ‖ỹ/σ‖²

    def with_epsilon(self, epsilon: float) -> PotentialQP:
        """The same problem for another ε; the last product is the same there."""
        other = replace(self, eps=np.full(self.n, epsilon))
        other._last["products"] = list(self._last.get("products", []))
        return other

    def _products(self, beta: np.ndarray) -> dict:
        """Qβ; its features too, K̃β, where the relation knows Q by them alone."""
        if self.ridge is None and isinstance(self.H, Relation) and self.H.Q is not None:
            return {"w": None, "H_beta": self.H.times(beta)}
        return super()._products(beta)

    def _bounds(self, beta: np.ndarray, eta: np.ndarray, slope: np.ndarray) -> tuple[float, float]:
        """The smaller of the bound by the box and the bound by a scaled residual, whose primal value is dual + gap.

        In a box of ±C a column adds C (|s_j| − ε)₊ to the first one, and where α_j is not 0 s_j α_j + ε |α_j| to both.
        """
        if len(self.A) or self.ridge is not None:
            return super()._bounds(beta, eta, slope)
        size, used = np.abs(slope), beta.nonzero()[0]
        x, s, eps, C = beta[used], slope[used], self.eps[used], self.upper[used]
        price = np.maximum(size - self.eps, 0.0)
        over = price.nonzero()[0]  # the others cost nothing, also where C is infinite
        price[over] *= self.upper[over]
        boxed = risk = float(price.sum())
        if np.isfinite(risk):
            best = np.where(price[used] > 0.0, np.copysign(C, -s), 0.0)
            price[used] = np.maximum(s * (x - best) + eps * (np.abs(x) - np.abs(best)), 0.0)
            boxed = float(price.sum())
        if not boxed > 0.0:
            return boxed, risk
        # Rounding must not leave |ts| above ε by a hair where that would count C times.
        largest = float(size.max(initial=0.0))
        tightest = float(self.eps[size > 0.0].min(initial=np.inf)) if largest > 0.0 else np.inf
        t = min(1.0, tightest / largest) if largest > 0.0 else 1.0
        residual = max(0.0, self.target_square + float(x @ (s + self.p[used])))
        shrunk = np.minimum(np.maximum(t * s, -eps), eps)
        scaled = 0.5 * (1.0 - t) ** 2 * residual + float((shrunk * x + eps * np.abs(x)).sum())
        return (boxed, risk) if boxed <= scaled else (scaled, np.inf)


@dataclass(frozen=True)
class PSVM:
    """Regression on the columns of a relation; for classification the targets are ±1."""

    C: float | np.ndarray = np.inf  # one for all columns, or one for each
    epsilon: float = 0.1

    def qp(self, samples: Samples) -> PotentialQP:
        """The dual problem; a Gram that is no ``Relation`` is taken as the matrix K."""
        gram, y, weight = samples.K, samples.y, samples.weight
        relation = gram if isinstance(gram, Relation) else Relation.of(gram.wide().dense(), weight)
        total = float(weight.sum())
        mean = float(weight @ y) / total
        target = relation.root * (y - mean)
        size = float(np.sqrt(target @ target / total))
        sigma = size if size > CONSTANT * float(np.abs(y).max()) else 0.0
        target = target / sigma if sigma > 0.0 else np.zeros(len(target))
        p = np.where(relation.scale > 0.0, -relation.along(target), 0.0)
        box = np.asarray(self.C)
        return PotentialQP(
            relation, p, -box, box, eps=self.epsilon, mean=mean, sigma=sigma, target_square=float(target @ target)
        )

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """α in units of σ, and ȳ: f(x) = σ Σ α_j K̃_j(x) + ȳ (8). ``function`` has it in the units of K."""
        assert isinstance(qp, PotentialQP)
        return Decision(solution.beta, qp.mean, scale=qp.sigma)

    def function(self, qp: QP, found: Decision) -> tuple[np.ndarray, float]:
        """a and b of f(x) = Σ a_j K_j(x) + b."""
        coef, offset = qp.H.decision(found.scale * found.coef)
        return coef, found.intercept + offset

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of σ."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """The same numbers again."""
        return published.coef, np.zeros(0)
