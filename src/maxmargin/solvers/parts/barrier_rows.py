"""The state that the interior method attaches to a block of rows: its slices of all per-row vectors.

Each method is a question; those that read X say so. A tile of X is read once for everything that a question needs of
it. Answers have the length of x = [w, η] at most, so that blocks may live anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...problem import QP
from ...rows import Block
from ...rows.blocks import Normal
from . import barrier_leaves as barrier
from .barrier_steps import barrier_steps
from .fixed_sums import BIG
from .roundings import ROUNDED_SOLUTION

__all__ = ["BarrierRows", "Parts"]


@dataclass(frozen=True)
class Parts:
    """The box and the ε of each variable as one part, or as two where ε|β| has its corner inside the box."""

    kind: np.ndarray  # (parts, n): which sides a part has
    lo: np.ndarray
    up: np.ndarray
    cost: np.ndarray  # ε with the sign of the slope that it adds to

    @classmethod
    def of(cls, qp: QP) -> Parts:
        """The parts of all variables of a problem."""
        fixed = _forced(qp)
        kinked = (qp.eps > 0.0) & (qp.lower < 0.0) & (qp.upper > 0.0) & np.isnan(fixed)
        two = 1 + bool(kinked.any())
        lower, upper = (np.where(np.isnan(fixed), side, fixed) for side in (qp.lower, qp.upper))
        lo, up, cost = np.zeros((two, qp.n)), np.zeros((two, qp.n)), np.zeros((two, qp.n))
        lo[0], up[0] = np.where(kinked, 0.0, lower), upper
        cost[0] = np.where(qp.upper > 0.0, 1.0, -1.0) * qp.eps
        if two == 2:
            up[1], cost[1] = np.where(kinked, -lower, 0.0), qp.eps
        kind = np.where(np.isfinite(lo), barrier.LOWER, 0) + np.where(np.isfinite(up), barrier.UPPER, 0)
        kind[lo == up] = barrier.FIXED
        return cls(kind.astype(np.int8), lo, up, cost)

    @property
    def sides(self) -> int:
        """How many products of a slack and a multiplier there are."""
        return int(np.array([0, 1, 1, 2, 0])[self.kind].sum())

    def bounded(self, ridge: np.ndarray) -> bool:
        """Whether every part has a place on the central path whatever its slope."""
        return bool(((self.kind >= barrier.BOTH) | (ridge > 0.0)).all())


def _forced(qp: QP) -> np.ndarray:
    """The values of variables that the box, or a constraint at the end of its range, leaves no choice, else NaN."""
    fixed = np.where(qp.lower == qp.upper, qp.lower, np.nan)
    for a, b in zip(qp.A, qp.b, strict=True):
        used = a != 0.0
        for sign in (1.0, -1.0):
            corner = np.where(sign * a > 0, qp.upper, qp.lower)
            most = float(sign * a[used] @ corner[used])
            terms = float(np.abs(a[used]) @ np.abs(corner[used]))
            if np.isfinite(most) and sign * b >= most - ROUNDED_SOLUTION * terms:
                fixed[used] = corner[used]
    return fixed


class BarrierRows:
    """Rows of X with their coefficients, slacks and multipliers."""

    def __init__(
        self,
        block: Block,
        p: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        eps: np.ndarray,
        ridge: np.ndarray,
        A: np.ndarray,
        kind: np.ndarray,
        lo: np.ndarray,
        up: np.ndarray,
        cost: Any,
        given: bool,
    ) -> None:
        self.block, self.given = block, given
        self.p, self.lower, self.upper, self.eps, self.ridge = p, lower, upper, eps, ridge
        self.E = np.ascontiguousarray(A.T)
        self.kind, self.lo, self.up, self.cost = (np.ascontiguousarray(v) for v in (kind, lo, up, cost))
        shape = (2, *kind.shape)
        self.slack, self.dual, self.inv = np.full(shape, BIG), np.zeros(shape), np.zeros(shape)
        self.c, self.better = np.zeros(shape), np.zeros(shape)  # second-order terms, and those on trial
        self.part = np.zeros(kind.shape)
        self.g, self.base, self.u, self.other_u = (np.zeros(block.n) for _ in range(4))
        self.theta = np.zeros(block.n)
        self.total = Normal(block.d, self.E.shape[1], look=block.look)
        self.pair = np.zeros((block.n, 2))  # θρ and β: what the normal matrix is accompanied by
        self.moved, self.beta = self.pair.T
        self.Z: np.ndarray | None = None  # Ẑ, once it is read by a leaf

    # -- what every question is made of ----------------------------------------------------------------

    @property
    def _own(self) -> tuple:
        return self.part, self.slack, self.dual, self.inv, self.c, self.cost, self.ridge, self.g

    def _dot(self, tile: Any, a: int, b: int, x: np.ndarray, out: np.ndarray) -> None:
        """out[a:b] = rows of Ẑ x."""
        d = self.block.d
        if self.given:
            out[a:b] = x[:d]
            return
        tile.dot(x[:d], out[a:b])
        if self.E.shape[1]:
            out[a:b] += self.E[a:b] @ x[d:]

    def _t_dot(self, tile: Any, a: int, b: int, v: np.ndarray, out: np.ndarray) -> None:
        """out += Ẑᵀ v of these rows."""
        out[: self.block.d] += tile.t_dot(v[a:b])
        if self.E.shape[1]:
            out[self.block.d :] += self.E[a:b].T @ v[a:b]

    def _zero(self, *more: int) -> np.ndarray:
        return np.zeros((self.block.d + self.E.shape[1], *more))

    # -- questions -------------------------------------------------------------------------------------

    def look(self, x: np.ndarray) -> None:
        """The slopes at x, all but the ridge's. Reads X."""
        for a, b, tile in self.block.tiles():
            self._dot(tile, a, b, x, self.base)
        self.base += self.p

    def receive(self, slopes: np.ndarray) -> None:
        """The slopes, all but the ridge's, from whoever has H itself."""
        self.base[:] = slopes
        self.g[:] = self.base + self.ridge * self.beta

    def place(self, mu: float) -> None:
        """Every row on the central path at μ."""
        barrier.center(
            self.kind, self.lo, self.up, self.slack, self.dual, self.cost, self.base, self.ridge, mu,
            self.g, self.beta, 0, self.block.n,
        )  # fmt: skip

    def enclose(self, beta: np.ndarray, mu: float, room: float) -> None:
        """Every row inside its box, near β."""
        self.beta[:] = beta
        self.g[:] = self.base + self.ridge * beta
        barrier.enclose(
            self.kind, self.lo, self.up, self.slack, self.dual, self.cost, self.g, self.beta, mu, room, 0, self.block.n
        )
        self.g[:] = self.base + self.ridge * self.beta

    def project(self, x: np.ndarray) -> None:
        """How slopes change along x. Reads X."""
        for a, b, tile in self.block.tiles():
            self._dot(tile, a, b, x, self.u)

    def slope(self, mu: float, length: float) -> float:
        """Σ u β at base + length u on the central path."""
        return barrier.center_slope(
            self.kind, self.lo, self.up, self.cost, self.base, self.ridge, mu, self.u, length, 0, self.block.n
        )

    def shift(self, length: float) -> None:
        """Go along u."""
        self.base += length * self.u

    def sums(self) -> np.ndarray:
        """The products, the rows' part of the gap, their part of the objective."""
        gap = barrier.gap_terms(self.lower, self.upper, self.eps, self.ridge, self.g, self.beta, 0, self.block.n)
        value = self.p @ self.beta + self.eps @ np.abs(self.beta) + 0.5 * (self.ridge * self.beta) @ self.beta
        return np.array([np.vdot(self.slack, self.dual), gap, value])

    def weigh(self) -> None:
        """θ, and θρ of the affine step."""
        barrier.weigh(
            self.kind, self.slack, self.dual, self.inv, self.part, self.cost, self.ridge, self.g,
            self.theta, self.moved, 0, self.block.n,
        )  # fmt: skip

    def normal(self) -> tuple[np.ndarray, np.ndarray]:
        """The upper triangle of Ẑᵀ Θ Ẑ, and Ẑᵀ [θρ, β]. Reads X."""
        total, product = self.total.clear(), self._zero(2)
        for a, b, tile in self.block.tiles(squared=True):
            total.add(tile, self.theta[a:b], self.E[a:b])
            self._t_dot(tile, a, b, self.pair, product)
        return total.upper(), product

    def pull(self) -> np.ndarray:
        """Ẑᵀ [θρ, β]. Reads X."""
        product = self._zero(2)
        for a, b, tile in self.block.tiles():
            self._t_dot(tile, a, b, self.pair, product)
        return product

    def predict(self, x: np.ndarray) -> tuple[float, float, np.ndarray]:
        """The largest rate of the affine step, Σ c, and Ẑᵀ of what the corrector needs. Reads X."""
        out, product, rate = np.empty((self.block.n, 2)), self._zero(2), 1.0
        for a, b, tile in self.block.tiles():
            self._dot(tile, a, b, x, self.u)
            rate = max(rate, barrier.predict(*self._own, self.u, self.given, out, a, b))
            self._t_dot(tile, a, b, out, product)
        return rate, float(self.c.sum()), product

    def correct(self, x: np.ndarray, m: float) -> float:
        """The largest rate of the corrected step. Reads X."""
        return self._rate(x, m, self.c, self.u)

    def _rate(self, x: np.ndarray, m: float, c: np.ndarray, u: np.ndarray) -> float:
        rate = 0.0
        own = (self.part, self.slack, self.dual, self.inv, c, self.cost, self.ridge, self.g)
        for a, b, tile in self.block.tiles():
            self._dot(tile, a, b, x, u)
            rate = max(rate, barrier.correct(*own, u, self.given, m, a, b))
        return rate

    def aim(self, m: float, length: float) -> np.ndarray:
        """Ẑᵀ Θ ρ of a corrector for a longer step. Reads X."""
        product = self._zero()
        for a, b, tile in self.block.tiles():
            barrier.aim(*self._own, self.u, self.given, m, length, self.better, self.moved, a, b)
            self._t_dot(tile, a, b, self.moved, product)
        return product

    def retry(self, x: np.ndarray, m: float) -> float:
        """As ``correct``, with the terms on trial. Reads X."""
        return self._rate(x, m, self.better, self.other_u)

    def accept(self) -> None:
        """Take the terms on trial."""
        self.c, self.better = self.better, self.c
        self.u, self.other_u = self.other_u, self.u

    def steps(self, x: np.ndarray, pulled: np.ndarray, b: np.ndarray, sides: int, *limits: Any) -> tuple:
        """Iterations by one leaf, of the only block: their number, the length of the last one, x and Ẑᵀβ. Reads X."""
        if self.Z is None:
            X = self.block.gather(np.arange(self.block.n))
            self.Z = np.hstack([X.toarray() if sp.issparse(X) else X, self.E], dtype=np.float64)
        x, pulled = x.copy(), pulled.copy()
        made, length = barrier_steps(
            self.Z, self.kind, self._own, self.pair, self.theta, self.better, self.u, self.p, self.lower, self.upper,
            self.eps, b, x, pulled, sides, *limits,
        )  # fmt: skip
        return int(made), float(length), x, pulled

    def advance(self, m: float, length: float) -> None:
        """Take the step."""
        barrier.advance(*self._own, self.beta, self.u, self.given, m, length, 0, self.block.n)
