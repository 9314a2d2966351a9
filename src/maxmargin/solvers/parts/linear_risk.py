"""The regularised risk of a linear machine as a function of its weights: value, gradient, Hessian and its products.

    R(x) = ½ xᵀPx + Σ C_i ℓ(a_i),    a_i = y_i f_i or f_i − y_i,    f = Ẑx,   Ẑ = [Z, φᵀ, constant]

x = (w, η, weight of a penalised bias), and P is 1 for all but η, which nothing penalises. With β_i = −C_i ∂ℓ/∂f_i,

    gradient  Px − Ẑᵀβ        Hessian  P + Ẑᵀ diag(θ) Ẑ,   θ_i = C_i ℓ''(a_i)

Each product with Ẑ is one pass over the rows, wherever they live.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..._jit import jit
from ...problem import ERM
from ...rows import Block, Crew, Rows, Sparse
from .few_rows import few_rows
from .line_search import minimum_along
from .roundings import ROUNDED_SOLUTION

__all__ = ["FAR", "SHORT", "LinearRisk"]

TAKE_BELOW = 0.7  # of the rows: where fewer have θ > 0, products get a copy of them
FAR = 0.1  # relative gap above which rows in the linear part of a loss have a curvature
SHORT = 0.3  # length of a step, whose full length is 1, after which rows in the linear part of a loss have a curvature
MOST_CG = 500  # steps of conjugate gradients
DIAGONAL = 0.1  # weight of the Hessian's diagonal in the preconditioner, 1 − it: that of the penalty (as LIBLINEAR)


class LinearRisk:
    """What Newton's method needs to know of a linear machine with a smooth loss."""

    def __init__(self, erm: ERM, rows: Rows, constant: float) -> None:
        self.erm, self.rows = erm, rows
        d, k = rows.d, len(erm.phi)
        extra = [*erm.phi] + ([np.full(erm.n, np.sqrt(constant))] if constant > 0 else [])
        self.extra = np.column_stack(extra) if extra else np.zeros((erm.n, 0))
        self.penalty = np.concatenate([np.ones(d), np.zeros(k), np.ones(len(extra) - k)])  # the diagonal of P
        self.parametric = slice(d, d + k)  # where η is in x
        self.held = np.where(
            self.penalty > 0, 0.0, ROUNDED_SOLUTION
        )  # in units of what the penalty or all rows would hold
        squares = erm.cost @ (self.extra * self.extra)
        self.held[d:] *= np.where(squares > 0.0, squares, 1.0)

    @cached_property
    def small(self) -> np.ndarray | None:
        """Ẑ as an array, where steps over it by one leaf are the quickest; None where they are not."""
        return few_rows(self.rows, self.extra)

    def values(self, x: np.ndarray) -> np.ndarray:
        """f = Ẑx: one pass."""
        d = self.rows.d
        return self.rows.dot(x[:d]) + self.extra @ x[d:]

    def pushed(self, beta: np.ndarray) -> np.ndarray:
        """Ẑᵀβ: one pass."""
        return np.concatenate([self.rows.t_dot(beta), beta @ self.extra])

    def value(self, x: np.ndarray, f: np.ndarray) -> float:
        """R(x), where f = Ẑx."""
        loss = self.erm.loss
        return 0.5 * float((self.penalty * x) @ x) + float(self.erm.cost @ loss.value(loss.argument(self.erm.y, f)))

    def curvature(self, f: np.ndarray, far: bool = False) -> np.ndarray:
        """θ; far from the minimum also of rows in the linear part of a Huber loss, which else count for nothing."""
        loss = self.erm.loss
        a = loss.argument(self.erm.y, f)
        return self.erm.cost * (loss.secant(a) if far else loss.curvature(a))

    def length(self, x: np.ndarray, f: np.ndarray, direction: np.ndarray, along: np.ndarray) -> float:
        """Of the step from x to the minimum along a direction, where f = Ẑx and ``along`` is Ẑ times the direction."""
        fixed = float((self.penalty * x) @ direction)
        bent = float((self.penalty * direction) @ direction)

        def look(length: float) -> tuple[float, float]:
            at = f + length * along
            slope = fixed + length * bent - float(self.erm.asked(at) @ along)
            return slope, bent + float(self.curvature(at) @ (along * along))

        return minimum_along(look, abs(look(0.0)[0]))

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """P + Ẑᵀ diag(θ) Ẑ as a matrix."""
        return np.diag(self.penalty) + self.added(theta)

    def added(self, theta: np.ndarray) -> np.ndarray:
        """Ẑᵀ diag(θ) Ẑ as a matrix; rows whose θ is 0 cost nothing."""
        return self.rows.normal(theta, self.extra)

    def curved(self, theta: np.ndarray) -> Crew:
        """A crew over the rows with θ > 0, which answers "product" and "diagonal" of Ẑᵀ diag(θ) Ẑ."""
        rows, extra = self.rows, self.extra
        if not rows.stored:
            index = np.flatnonzero(theta)
            if len(index) < TAKE_BELOW * rows.n:
                theta, extra = theta[index], extra[index]
                rows = rows.take(index)
        return rows.crew(CurvedRows, (theta, extra.T))

    def newton_step(
        self, theta: np.ndarray, gradient: np.ndarray, forcing: float, stop: Callable[[np.ndarray], bool]
    ) -> np.ndarray:
        """Conjugate gradients on the rows with θ > 0, preconditioned by the diagonal, until the residual is a share of
        the gradient; ``stop`` sees each of their steps.
        """
        crew = self.curved(theta)
        diagonal = crew.sum("diagonal")
        scale = np.where(self.penalty > 0, 1.0 + DIAGONAL * diagonal, diagonal + self.held)
        x = np.zeros_like(gradient)
        residual = -gradient
        z = residual / scale
        p, rho = z.copy(), float(residual @ z)
        goal = forcing**2 * rho
        for _ in range(MOST_CG):
            Hp = self.penalty * p + crew.sum("product", p)
            length = rho / float(p @ Hp)
            x += length * p
            residual -= length * Hp
            z = residual / scale
            rho, last = float(residual @ z), rho
            if stop(x) or rho <= goal:
                break
            p = z + (rho / last) * p
        return x


class CurvedRows:
    """A block's part of Ẑᵀ diag(θ) Ẑ, by products."""

    def __init__(self, block: Block, theta: np.ndarray, extra: np.ndarray) -> None:
        self.block, self.theta, self.extra = block, theta, np.ascontiguousarray(extra.T)

    def product(self, x: np.ndarray) -> np.ndarray:
        d = self.block.d
        out = np.zeros_like(x)
        level = self.extra @ x[d:]
        for a, b, tile in self.block.tiles():
            theta = self.theta[a:b]
            if isinstance(tile, Sparse):
                curved_product(tile.indptr, tile.indices, tile.data, theta, level[a:b], x, out)
            else:
                level[a:b] = theta * (tile.dot(x[:d]) + level[a:b])
                out[:d] += tile.t_dot(level[a:b])
        out[d:] = level @ self.extra
        return out

    def diagonal(self) -> np.ndarray:
        """The diagonal of the sum."""
        d = self.block.d
        out = np.zeros(d + self.extra.shape[1])
        for a, b, tile in self.block.tiles():
            if isinstance(tile, Sparse):
                curved_diagonal(tile.indptr, tile.indices, tile.data, self.theta[a:b], out)
            else:
                out[:d] += self.theta[a:b] @ (tile.data * tile.data)
        out[d:] = self.theta @ (self.extra * self.extra)
        return out


@jit
def curved_product(indptr, indices, data, theta, level, x, out):
    """out += Zᵀ θ (Zx + level), a row while it is near; level becomes θ (Zx + level)."""
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        even, odd = level[i], 0.0
        s = start
        while s + 1 < stop:
            even += data[s] * x[indices[s]]
            odd += data[s + 1] * x[indices[s + 1]]
            s += 2
        if s < stop:
            even += data[s] * x[indices[s]]
        t = theta[i] * (even + odd)
        level[i] = t
        if t != 0.0:
            for s in range(start, stop):
                out[indices[s]] += t * data[s]


@jit
def curved_diagonal(indptr, indices, data, theta, out):
    """out[j] += Σ_i θ_i Z_ij²."""
    for i in range(len(indptr) - 1):
        t = theta[i]
        if t != 0.0:
            for s in range(indptr[i], indptr[i + 1]):
                out[indices[s]] += t * data[s] * data[s]
