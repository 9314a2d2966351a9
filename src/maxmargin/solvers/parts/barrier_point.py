"""The present point of the interior method: x = [w, η] with the driver; β, slacks and multipliers with the rows.

    pulled = Ẑᵀβ,   missing = Ẑᵀβ − [w, b]       Ẑ = [Z, Aᵀ]
    gap(β, w, η) = ½‖w − Zᵀβ‖² + Σ_i max_z [ … ] + ηᵀ(b − Aβ)                as in problem.py, for a w of its own

Where the equations have Δβ itself in place of Δw (``given``: H is at hand, or its products), w is not kept: slopes come
from Hβ, and only the constraints may be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...problem import QP
from .barrier_rows import BarrierRows, Parts
from .barrier_steps import NEAR_GAP, PROGRESS
from .few_rows import leaf_work
from .limits import LOOK_WORK, TRIES
from .system_choice import Equations

__all__ = ["BarrierPoint", "BarrierProgress"]


class BarrierPoint:
    """β, w and η, none of which need hold Aβ = b or w = Zᵀβ, all rows inside their boxes."""

    def __init__(self, qp: QP, equations: Equations, look: Callable[[], object]) -> None:
        self.qp, self.system, self.rows, self.H = qp, equations.system, equations.rows, equations.H
        parts = Parts.of(qp)
        self.sides = parts.sides
        self.can_center = not self.system.given and parts.bounded(equations.ridge)
        per_row = (qp.p, qp.lower, qp.upper, qp.eps, equations.ridge, qp.A, parts.kind, parts.lo, parts.up, parts.cost)
        self.crew = self.rows.crew(BarrierRows, per_row, self.system.given, look=look)
        self.d = self.rows.d
        self.few = equations.few  # so that iterations are made by one leaf
        self.x = np.zeros(self.d + len(qp.A))
        self.pulled = np.zeros(len(self.x))  # Ẑᵀβ
        self.norm = 0.0  # βᵀHβ, where H itself is at hand
        self.products = np.inf  # Σ of slacks times their multipliers

    @property
    def w(self) -> np.ndarray:
        return self.x[: self.d]

    @property
    def eta(self) -> np.ndarray:
        return self.x[self.d :]

    @property
    def mu(self) -> float:
        """The mean of the products."""
        return self.products / max(1, self.sides)

    def times(self, beta: np.ndarray) -> np.ndarray:
        """Hβ."""
        return self.H @ beta if self.system.given else self.qp.times(beta)

    def missing(self) -> np.ndarray:
        """Ẑᵀβ − [w, b]."""
        out = self.pulled - self.x
        out[self.d :] = self.pulled[self.d :] - self.qp.b
        if self.system.given:
            out[: self.d] = 0.0
        return out

    def gap(self) -> tuple[float, float]:
        """The gap of (β, w, η), and the dual value.

        What constraints lack counts as a loss whatever its sign: far from the end, a gap that may be 0 or less by it
        would look like the end.
        """
        self.products, rows, value = self.crew.sum("sums")
        rows = self.products if np.isinf(rows) else rows
        missing = self.missing()
        w, pulled = missing[: self.d], self.pulled[: self.d]
        norm = self.norm if self.system.given else float(pulled @ pulled)
        return float(0.5 * w @ w + rows + np.abs(self.eta) @ np.abs(missing[self.d :])), float(-0.5 * norm - value)

    def moved(self, length: float, x: np.ndarray, missing: np.ndarray) -> None:
        """Follow the rows, which have gone along x: w, η and Ẑᵀβ, or the slopes of Hβ."""
        if self.system.given:
            self.x[self.d :] += length * x[self.d :]
            self._tell_slopes()
            return
        self.x += length * x
        if self.system.exact:  # the equations tell Ẑᵀ Δβ
            x = np.where(np.arange(len(x)) < self.d, x, 0.0)
            self.pulled = self.pulled + length * (x - missing)
        else:
            self.pull()

    def steps_at_once(self, correctors: int, target: float, most: int) -> tuple[int, float]:
        """A few iterations on few rows, until the relative gap is at most ``target`` or stalls near it, or it is time
        for a look at the clock; none on many. Gives their number (−1: they lead nowhere) and the last one's length.
        """
        if not self.few:
            return 0, 0.0
        most = min(most, TRIES, max(1, LOOK_WORK // leaf_work(self.qp.n, len(self.x))))
        limits = self.sides, correctors, target, most
        ((made, length, self.x, self.pulled),) = self.crew.ask("steps", self.x, self.pulled, self.qp.b, *limits)
        return made, length

    def pull(self) -> None:
        """Ẑᵀβ from the rows themselves."""
        self.pulled = self.crew.sum("pull")[:, 1]

    def enclose(self, beta: np.ndarray, H_beta: np.ndarray, mu: float, room: float) -> None:
        """Put every row inside its box, near β, at least ``room`` from its ends where there is so much."""
        if self.system.given:
            self.crew.scatter("receive", (self._slopes(H_beta),))
        else:
            self.crew.ask("look", self.x)
        self.crew.scatter("enclose", (beta,), mu, room)
        if self.system.given:
            self._tell_slopes()
        else:
            self.pull()

    def _tell_slopes(self) -> None:
        """Hβ, and the slopes that it makes, to the rows."""
        beta = self.crew.collect("beta")
        product = self.H @ beta
        self.crew.scatter("receive", (self._slopes(product),))
        self.pulled[self.d :] = self.qp.A @ beta
        self.norm = float(beta @ product)

    def _slopes(self, H_beta: np.ndarray) -> np.ndarray:
        return H_beta + self.qp.p + self.eta @ self.qp.A


@dataclass
class BarrierProgress:
    """What is left, by several measures, and for how many iterations there was no less."""

    least: np.ndarray = field(default_factory=lambda: np.full(4, np.inf))
    waited: int = 0
    fell: bool = True  # whether the gap is less than ever

    def note(self, relative: float, point: BarrierPoint, length: float) -> None:
        """Far from the end smaller products, less that Ẑᵀβ misses and longer steps count as well as a smaller gap."""
        left = np.array([relative, point.products, np.linalg.norm(point.missing()), 1.0 / length])
        less = left < PROGRESS * self.least
        self.fell = bool(less[0])
        self.waited = 0 if less[0] or (relative > NEAR_GAP and less.any()) else self.waited + 1
        self.least = np.minimum(self.least, left)

    @property
    def stalled(self) -> bool:
        return self.waited >= TRIES
