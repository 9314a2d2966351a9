"""The regularised risk of a kernel machine as a function of β and η: value, slope, where it is curved.

    R(β, η) = ½ βᵀKβ + Σ_i L_i(s_i),    s = Kβ + p + Aᵀη,    L_i(s) = max over z in its box of −s z − ½ d_i z² − ε_i |z|

which is PRIMAL eq. 3.6 for any loss whose dual is a QP (problem.py): L_i is C_i ℓ, s_i is f_i but for a constant, and
the z at the maximum, ``asked``, is −C_i ∂ℓ/∂f_i, the coefficient that the loss asks for. It is 0 or a bound where the
loss is a line, and −(s_i ± ε_i) / d_i where it is a parabola of curvature 1 / d_i:

| loss          | d_i        | asked for, times y_i           | curved ("sv" of PRIMAL)  |
| ------------- | ---------- | ------------------------------ | ------------------------ |
| squared hinge | 1 / (2C_i) | 2 C_i max(0, 1 − y f)          | y f < 1                  |
| Huber, h      | 2h / C_i   | C_i clip((1 + h − y f) / 2h)   | |1 − y f| < h            |
| hinge         | 0          | 0 or C_i                       | nowhere                  |

Gradient, divided by K:  β − asked for β, and −A asked for η. Where d is 0 the loss has corners; a d of one's own
(``rounded``) rounds them off as Huber does, and by the same d for any loss of the table in formulations/svr.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...problem import QP
from .least_squares import least_squares
from .limits import ROUNDS
from .line_search import minimum_along
from .roundings import ROUNDED_SOLUTION

__all__ = ["KernelRisk"]

SUBSPACE_WAITS = 10  # steps may bring little, as where all losses are lines, before rounding is blamed


@dataclass(frozen=True)
class KernelRisk:
    """The losses of some points, as their conjugates say."""

    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    eps: np.ndarray
    d: np.ndarray  # 0 for a loss with corners
    A: np.ndarray  # (k, n)

    @classmethod
    def of(cls, qp: QP) -> KernelRisk:
        return cls(qp.p, qp.lower, qp.upper, qp.eps, np.zeros(qp.n) if qp.ridge is None else qp.ridge, qp.A)

    @property
    def n(self) -> int:
        return len(self.p)

    @property
    def smooth(self) -> bool:
        return bool((self.d > 0.0).all())

    def take(self, index: np.ndarray | slice, share: float = 1.0) -> KernelRisk:
        """Some points, which stand for all where they are a ``share`` of them: with as much more cost."""
        return KernelRisk(
            self.p[index],
            self.lower[index] / share,
            self.upper[index] / share,
            self.eps[index],
            self.d[index] * share,
            self.A[:, index],
        )

    def rounded(self, d: np.ndarray) -> KernelRisk:
        """The same with a curvature of at most 1 / d."""
        return replace(self, d=np.maximum(self.d, d))

    def width(self) -> np.ndarray:
        """The d of each point at which the steepest of its loss begins a unit of s away from its flat part."""
        reach = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return np.where(np.isfinite(reach) & (reach > 0.0), 1.0 / np.where(reach > 0.0, reach, 1.0), 0.0)

    def asked(self, s: np.ndarray) -> np.ndarray:
        """The β that the losses ask for."""
        beyond = np.maximum(np.abs(s) - self.eps, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(beyond > 0.0, -np.sign(s) * beyond / self.d, 0.0)
        return np.clip(z, self.lower, self.upper)

    def curved(self, s: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """Whether each loss is curved at s, where it asks for z."""
        z = self.asked(s) if z is None else z
        inside = (z > self.lower) & (z < self.upper)
        return inside & ((self.eps == 0.0) | (z != 0.0)) & (self.d > 0.0)

    def value(self, s: np.ndarray) -> float:
        """Σ L_i(s_i)."""
        z = self.asked(s)
        return float(-(s @ z) - 0.5 * (self.d * z) @ z - self.eps @ np.abs(z))

    def violation(self, beta: np.ndarray, s: np.ndarray) -> float:
        """The largest violation of the dual's conditions (problem.py), of β moved into its box."""
        beta = np.clip(beta, self.lower, self.upper)
        slope = s + self.d * beta
        up, down = slope + np.where(beta >= 0.0, self.eps, -self.eps), slope + np.where(beta > 0.0, self.eps, -self.eps)
        grow = -up[beta < self.upper].min(initial=0.0)
        return float(grow + down[beta > self.lower].max(initial=0.0))

    def along(
        self, beta_g: float, bent: float, s: np.ndarray, ds: np.ndarray
    ) -> Callable[[float], tuple[float, float]]:
        """A function of t: slope and curvature of R at (β, η) + t (δ, δη).

        ``beta_g`` is βᵀKδ, ``bent`` δᵀKδ, and ``ds`` how s changes.
        """

        def look(t: float) -> tuple[float, float]:
            at = s + t * ds
            z = self.asked(at)
            curved = self.curved(at, z)
            part = ds[curved]
            return beta_g + t * bent - float(z @ ds), bent + float((part / self.d[curved]) @ part)

        return look

    def lowest(
        self, s: np.ndarray, columns: np.ndarray, linear: np.ndarray, bent: np.ndarray, size: float
    ) -> np.ndarray:
        """The u at which  linearᵀu + ½ Σ bent_j u_j² + Σ L_i((s + Cu)_i)  is least: a few numbers, by Newton steps.

        Where no loss that is curved sees some of u, steps are those of parabolas as wide as ``size``.
        """
        norms = np.sqrt(np.einsum("ij,ij->j", columns, columns))
        norms = np.where(norms > 0.0, norms, 1.0)
        columns, linear, bent = columns / norms, linear / norms, bent / norms**2
        u, first, worst, waited = np.zeros(len(norms)), None, np.inf, 0
        far = self.rounded(size * self.width())
        for _ in range(ROUNDS):
            at = s + columns @ u
            z = self.asked(at)
            slope = linear + bent * u - columns.T @ z
            left = float(np.abs(slope).max(initial=0.0))
            if first is None:  # a slope that vanishes at once is what its terms leave of each other
                first = float((np.abs(linear) + np.abs(columns).T @ np.abs(z)).max(initial=0.0))
            first, waited = max(first, left), 0 if left < 0.5 * worst else waited + 1
            worst = min(left, worst)
            if left <= ROUNDED_SOLUTION * first or waited > SUBSPACE_WAITS:
                break
            near = self.curved(at, z)
            part = columns[near] / np.sqrt(self.d[near])[:, None]
            H = part.T @ part + np.diag(bent)
            pivots = np.linalg.eigvalsh(H)
            if not pivots[0] > ROUNDED_SOLUTION * pivots[-1]:
                wide = far.curved(at)
                part = columns[wide] / np.sqrt(far.d[wide])[:, None]
                H = H + part.T @ part
            if not H.diagonal().min(initial=1.0) > 0.0:  # all losses are lines, and far from their ends
                H = H + np.eye(len(H)) * float((1.0 / far.d[far.d > 0.0]).mean())
            step = -least_squares(H, slope)
            look = self.along(float((linear + bent * u) @ step), float((bent * step) @ step), at, columns @ step)
            u = u + minimum_along(look, abs(look(0.0)[0])) * step
        return u / norms
