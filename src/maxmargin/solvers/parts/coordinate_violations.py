"""How fast the objective ½ βᵀHβ + pᵀβ + Σ ε_i |β_i| in a box falls along a coordinate: s = Hβ + p (PSVM eq. 25)."""

from __future__ import annotations

import numpy as np

from ..._jit import inline, jit

__all__ = ["violation", "violations"]


@inline
def violation(b, s, eps, low, high):
    """d_j: of one coordinate."""
    grow = -(s + (eps if b >= 0.0 else -eps)) if b < high else 0.0
    shrink = s + (eps if b > 0.0 else -eps) if b > low else 0.0
    return max(grow, shrink, 0.0)


@jit
def violations(beta, s, eps, lower, upper):
    """d: of all coordinates."""
    out = np.empty(len(beta))
    for j in range(len(beta)):
        out[j] = violation(beta[j], s[j], eps[j], lower[j], upper[j])
    return out
