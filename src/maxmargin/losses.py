"""Losses of a margin or a residual: value, slope, curvature and conjugate, all of one sample, vectorised.

A classification loss is a function of the margin m = y f, a regression loss of the residual r = f − y.
``conjugate(u)`` is sup over the argument of (u · argument − value), infinite outside the domain; with
β_i = −C_i slope it turns the primal into the dual, and the two values bracket the optimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

__all__ = [
    "MARGIN_LOSSES",
    "RESIDUAL_LOSSES",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Loss",
    "Quantile",
    "SquaredEpsilonInsensitive",
    "SquaredError",
    "SquaredHinge",
    "make_loss",
]

DOMAIN_SLACK = 1e-12  # rounding that is still inside a conjugate's domain


def _inside(value: np.ndarray, condition: np.ndarray) -> np.ndarray:
    return np.where(condition, value, np.inf)


@dataclass(frozen=True)
class Loss(ABC):
    """A convex function of one argument."""

    classification: ClassVar[bool]
    smooth: ClassVar[bool] = False  # whether it has a slope everywhere

    @property
    @abstractmethod
    def domain(self) -> tuple[float, float]:
        """Where the conjugate is finite."""

    @property
    @abstractmethod
    def conjugate_terms(self) -> tuple[float, float, float]:
        """(l, q, e) with conjugate(u) = l u + ½ q u² + e |u| in its domain: what makes the dual a QP."""

    def argument(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """What the loss looks at: the margin for classification, the residual for regression."""
        return y * f if self.classification else f - y

    @abstractmethod
    def value(self, a: np.ndarray) -> np.ndarray:
        """The loss."""

    @abstractmethod
    def slope(self, a: np.ndarray) -> np.ndarray:
        """Its derivative (one of them at a corner)."""

    @abstractmethod
    def curvature(self, a: np.ndarray) -> np.ndarray:
        """Its second derivative where it has one."""

    def secant(self, a: np.ndarray) -> np.ndarray:
        """The curvature of the parabola above the loss that touches it at a and is least where the loss begins."""
        return self.curvature(a)

    @abstractmethod
    def conjugate(self, u: np.ndarray) -> np.ndarray:
        """Its convex conjugate."""


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 − m)."""

    classification: ClassVar[bool] = True
    domain = (-1.0, 0.0)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 1.0, 0.0, 0.0

    def value(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - m)

    def slope(self, m: np.ndarray) -> np.ndarray:
        return np.where(m < 1.0, -1.0, 0.0)

    def curvature(self, m: np.ndarray) -> np.ndarray:
        return np.zeros_like(m)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return _inside(u, (u >= -1.0 - DOMAIN_SLACK) & (u <= DOMAIN_SLACK))


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 − m)²."""

    classification: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    domain = (-np.inf, 0.0)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 1.0, 0.5, 0.0

    def value(self, m: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - m) ** 2

    def slope(self, m: np.ndarray) -> np.ndarray:
        return -2.0 * np.maximum(0.0, 1.0 - m)

    def curvature(self, m: np.ndarray) -> np.ndarray:
        return np.where(m < 1.0, 2.0, 0.0)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return _inside(u + u * u / 4.0, u <= DOMAIN_SLACK)


@dataclass(frozen=True)
class HuberHinge(Loss):
    """The hinge with its corner replaced by a parabola on |1 − m| ≤ delta (PRIMAL eq. 8)."""

    delta: float = 0.5
    classification: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    domain = (-1.0, 0.0)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 1.0 + self.delta, 2.0 * self.delta, 0.0

    def value(self, m: np.ndarray) -> np.ndarray:
        t = 1.0 + self.delta - m
        return np.where(t <= 0, 0.0, np.where(t >= 2 * self.delta, 1.0 - m, t * t / (4 * self.delta)))

    def slope(self, m: np.ndarray) -> np.ndarray:
        return -np.clip((1.0 + self.delta - m) / (2 * self.delta), 0.0, 1.0)

    def curvature(self, m: np.ndarray) -> np.ndarray:
        return np.where(np.abs(1.0 - m) < self.delta, 1.0 / (2 * self.delta), 0.0)

    def secant(self, m: np.ndarray) -> np.ndarray:
        t = 1.0 + self.delta - m
        return np.where(t > 0, 1.0 / np.maximum(t, 2 * self.delta), 0.0)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return _inside((1.0 + self.delta) * u + self.delta * u * u, (u >= -1.0 - DOMAIN_SLACK) & (u <= DOMAIN_SLACK))


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |r| − epsilon)."""

    epsilon: float = 0.1
    classification: ClassVar[bool] = False
    domain = (-1.0, 1.0)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 0.0, 0.0, self.epsilon

    def value(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(r) - self.epsilon)

    def slope(self, r: np.ndarray) -> np.ndarray:
        return np.where(np.abs(r) > self.epsilon, np.sign(r), 0.0)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.zeros_like(r)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return _inside(self.epsilon * np.abs(u), np.abs(u) <= 1.0 + DOMAIN_SLACK)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """max(0, |r| − epsilon)²."""

    epsilon: float = 0.1
    classification: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    domain = (-np.inf, np.inf)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 0.0, 0.5, self.epsilon

    def value(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(r) - self.epsilon) ** 2

    def slope(self, r: np.ndarray) -> np.ndarray:
        return 2.0 * np.sign(r) * np.maximum(0.0, np.abs(r) - self.epsilon)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.where(np.abs(r) > self.epsilon, 2.0, 0.0)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return self.epsilon * np.abs(u) + u * u / 4.0


@dataclass(frozen=True)
class Huber(Loss):
    """½ r² up to |r| = delta, and beyond it the line that goes on from there: outliers pull with a force of delta."""

    delta: float = 1.0
    classification: ClassVar[bool] = False
    smooth: ClassVar[bool] = True

    @property
    def domain(self) -> tuple[float, float]:
        return -self.delta, self.delta

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 0.0, 1.0, 0.0

    def value(self, r: np.ndarray) -> np.ndarray:
        inside = np.minimum(np.abs(r), self.delta)
        return inside * (np.abs(r) - 0.5 * inside)

    def slope(self, r: np.ndarray) -> np.ndarray:
        return np.clip(r, -self.delta, self.delta)

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.where(np.abs(r) < self.delta, 1.0, 0.0)

    def secant(self, r: np.ndarray) -> np.ndarray:
        return self.delta / np.maximum(np.abs(r), self.delta)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return _inside(0.5 * u * u, np.abs(u) <= self.delta * (1.0 + DOMAIN_SLACK))


@dataclass(frozen=True)
class Quantile(Loss):
    """quantile · max(0, −r) + (1 − quantile) · max(0, r): its minimiser is that quantile of the targets."""

    quantile: float = 0.5
    classification: ClassVar[bool] = False

    @property
    def domain(self) -> tuple[float, float]:
        return -self.quantile, 1.0 - self.quantile

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0

    def value(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(-self.quantile * r, (1.0 - self.quantile) * r)

    def slope(self, r: np.ndarray) -> np.ndarray:
        return np.where(r > 0.0, 1.0 - self.quantile, np.where(r < 0.0, -self.quantile, 0.0))

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.zeros_like(r)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        low, high = self.domain
        return _inside(np.zeros_like(u), (u >= low - DOMAIN_SLACK) & (u <= high + DOMAIN_SLACK))


@dataclass(frozen=True)
class SquaredError(Loss):
    """r²: regularised least squares."""

    classification: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    domain = (-np.inf, np.inf)

    @property
    def conjugate_terms(self) -> tuple[float, float, float]:
        return 0.0, 0.5, 0.0

    def value(self, r: np.ndarray) -> np.ndarray:
        return r * r

    def slope(self, r: np.ndarray) -> np.ndarray:
        return 2.0 * r

    def curvature(self, r: np.ndarray) -> np.ndarray:
        return np.full_like(r, 2.0)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        return u * u / 4.0


MARGIN_LOSSES: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "huber": HuberHinge,
}
RESIDUAL_LOSSES: dict[str, type[Loss]] = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "huber": Huber,
    "quantile": Quantile,
    "squared_error": SquaredError,
}


def make_loss(name: str, classification: bool, **options: float) -> Loss:
    """A loss of margins or of residuals by its name, with those of the options that it has."""
    losses = MARGIN_LOSSES if classification else RESIDUAL_LOSSES
    if name not in losses:
        listed = ", ".join(repr(known) for known in losses)
        raise ValueError(f"a known loss was asked for; found loss={name!r}; choose {listed}")
    own = {field.name for field in fields(losses[name])}
    return losses[name](**{option: value for option, value in options.items() if option in own})
