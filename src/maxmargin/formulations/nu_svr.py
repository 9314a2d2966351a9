"""ν-SVR: the width of the tube is found, ν bounds the share of points outside it (MPD Table 1, row 5).

With u = α ≥ 0 and v = −α* ≤ 0, two variables a point, β = u + v and

    min ½ βᵀKβ − yᵀβ   s.t.  0 ≤ u_i ≤ C_i,  −C_i ≤ v_i ≤ 0,  Σ β_i = 0,  Σ (u_i − v_i) = ν Σ C_i

The second multiplier is ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gram import Signed, Tiled
from ..problem import QP
from ..solution import Solution
from .base import Decision, Samples

__all__ = ["NuSVR"]

SUM_ROUNDING = 1e-10  # of a sum of coefficients: what it lacks by rounding stays lacking


@dataclass(frozen=True)
class NuSVR:
    """Regression with a share ν of support vectors."""

    nu: float = 0.5
    C: float = 1.0
    fit_intercept: bool = True

    def qp(self, samples: Samples) -> QP:
        """The dual problem."""
        y, n = samples.y, len(samples.y)
        C = self.C * samples.weight
        side = np.repeat([1.0, -1.0], n)
        total = self.nu * C.sum()
        zero = np.zeros(n)
        H = Tiled(samples.K)
        if self.fit_intercept:
            A, b = np.vstack([np.ones(2 * n), side]), [0.0, total]
            return QP(H, np.tile(-y, 2), np.r_[zero, -C], np.r_[C, zero], A, b)
        # Without a bias the only constraint is a sum of α and α*, which pair steps keep in those signs.
        return QP(Signed(H, side), np.r_[-y, y], np.zeros(2 * n), np.tile(C, 2), np.ones((1, 2 * n)), [total])

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """β = u + v, the bias, and ε."""
        beta = solution.beta if self.fit_intercept else solution.beta * qp.H.sign
        n = len(beta) // 2
        own = int(self.fit_intercept)
        eta = solution.multipliers
        return Decision(beta[:n] + beta[n:], float(eta[:own].sum()), found=max(0.0, float(eta[own])))

    def unit(self, weight: np.ndarray) -> float:
        """Violations are in units of f."""
        return 1.0

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """u and v of β = u + v, and the bias and ε.

        What Σ (u − v) lacks, which only a tube without width leaves open, goes to the points that f passes nearest.
        """
        n = len(published.coef)
        most = qp.upper[:n]
        sign = np.ones(2 * n) if self.fit_intercept else qp.H.sign
        # Settled now, while coefficients are what they are: beside what is added next to u and v they may be dust.
        pair = qp.settled(np.r_[np.maximum(published.coef, 0.0), np.minimum(published.coef, 0.0)] * sign) * sign
        u, v = pair[:n], pair[n:]
        total = float(qp.b[int(self.fit_intercept)])
        lack = 0.5 * (total - float(u.sum() - v.sum()))
        if lack > SUM_ROUNDING * total:
            beta = np.r_[u, v] * sign
            off = np.abs((qp.times(beta) + qp.p)[:n] + published.intercept)
            order = np.argsort(off, kind="stable")
            room = np.maximum(most - np.maximum(u, -v), 0.0)[order]
            more = np.clip(lack - (np.cumsum(room) - room), 0.0, room)
            u[order] = np.minimum(u[order] + more, most[order])
            v[order] = np.maximum(v[order] - more, -most[order])
        eta = np.r_[np.full(int(self.fit_intercept), published.intercept), published.found]
        return np.r_[u, v] * sign, eta
