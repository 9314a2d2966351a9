"""What every formulation shares: a problem from a Gram and targets, and a decision function from its solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..problem import QP
from ..solution import Solution

__all__ = ["Decision", "Formulation", "Samples", "equality_rows", "inside"]


@dataclass(frozen=True)
class Samples:
    """What a machine learns from: samples with targets and weights, and the points that its function expands on.

    Where the points are the samples themselves, K is their Gram. A machine whose points are others (the columns of a
    relation, a few chosen samples) takes a matrix of samples × points there.
    """

    K: Any
    y: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Decision:
    """f(x) = Σ coef_i k(x_i, x) + intercept + Σ parametric_j φ_j(x), where x_i are the points of a problem."""

    coef: np.ndarray  # of all points, most of them 0
    intercept: float
    found: float = 0.0  # what a machine finds besides: the margin of a ν-SVC, the tube of a ν-SVR, a radius
    scale: float = 1.0  # what the solution was multiplied by
    parametric: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def points(self) -> np.ndarray:
        """The numbers of the points that the function stands on."""
        return np.flatnonzero(self.coef)


class Formulation(Protocol):
    """A dataclass whose fields are the parameters of the machine."""

    def qp(self, samples: Samples) -> QP:
        """The dual problem; a sample's weight multiplies C or enters ν, weight w being w copies."""
        ...

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """The decision function of a solution; the first multipliers belong to the formulation's own rows of A."""
        ...

    def unit(self, weight: np.ndarray) -> float:
        """What a tolerance on violations is measured in, 1 at most."""
        ...

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """β and η of a decision function as it was published: what a certificate is computed from."""
        ...


HAIR = 64 * float(np.finfo(float).eps)  # of Σ |k(x_i, x) β_i|: what sums of up to a thousand terms lose, and kernels


def inside(qp: QP, beta: np.ndarray, offset: float) -> float:
    """An offset moved by a hair, so that points on the boundary are inside whatever the rounding of f.

    A hair is a matter of the sums that are rounded and not of the offset, of which it may be a large share or none: a
    larger one would be a violation of its own. The points on the boundary are those whose coefficients are free.
    """
    return offset + HAIR * qp.terms(beta)


def equality_rows(n: int, fit_intercept: bool) -> np.ndarray:
    """A row of ones for a bias that is not penalised, or none."""
    return np.ones((1, n)) if fit_intercept else np.zeros((0, n))
