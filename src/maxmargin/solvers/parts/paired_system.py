"""Newton's equations where two variables are on a point, as in ν-SVR: as large as the points are many.

    (E K Eᵀ + Θ⁻¹) Δ = v          E: the point of each variable, with a sign

What the kernel sees of Δ is z = EᵀΔ. With T = EᵀΘE, which is diagonal, and the mean m = T⁻¹EᵀΘv on each point,

    (K + T⁻¹) z = m               the equations of Dense, with an eighth of the products
    Δ = ΘE T⁻¹z + Θ(v − Em)       what the two variables of a point share, and what the kernel does not see

For the variables i and j of a point the second part is θ_i θ_j / (θ_i + θ_j) (v_i − s_i s_j v_j), which is how it is
computed: where one θ is all of T, v_i and m are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...gram import Pairs
from .newton_systems import Dense

__all__ = ["Paired"]


class Paired(Dense):
    """K + T⁻¹, a row a point."""

    def __init__(
        self, pairs: Pairs, K: np.ndarray, A: np.ndarray, threads: int, look: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(K, A, threads, look)
        self.pairs = pairs

    def product(self, v: np.ndarray) -> np.ndarray:
        """E K Eᵀ v."""
        return self.pairs.scatter(self.H @ self.pairs.gather(v.ravel()))

    def _weights(self) -> np.ndarray:
        return np.bincount(self.pairs.point, self.theta, len(self.H))

    def _times(self, delta: np.ndarray) -> np.ndarray:
        z = self.pairs.gather(delta)
        return self.pairs.scatter(self.H @ z + self.shift * z)

    def _inverse(self, v: np.ndarray) -> np.ndarray:
        pairs, other = self.pairs, self.pairs.other
        total = np.where(self.weight > 0.0, self.weight, 1.0)  # a point without weight has no step
        share = self.theta / total[pairs.point]
        z = super()._inverse(pairs.gather(share * v))
        apart = share * self.theta[other] * (v - pairs.sign * pairs.sign[other] * v[other])
        return share * pairs.scatter(z) + apart
