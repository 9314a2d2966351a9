"""The minimum of a convex function along a line, by its slope: Newton steps that stay between two bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .limits import ROUNDS

__all__ = ["ARMIJO", "SEARCHED", "minimum_along"]

ARMIJO = 1e-4  # share of the predicted decrease that a step must bring
SEARCHED = 0.05  # slope along a line, relative to that at its start, that is left


def minimum_along(look: Callable[[float], tuple[float, float]], first: float, left: float = SEARCHED) -> float:
    """The length t at which the slope vanishes, or nearly: ``look(t)`` gives slope and curvature, ``first`` is |slope|
    at 0, of which the share ``left`` may be left.
    """
    short, long, length = 0.0, np.inf, 1.0
    for _ in range(ROUNDS):
        slope, curvature = look(length)
        if abs(slope) <= left * first:
            break
        short, long = (short, length) if slope > 0 else (length, long)
        length = length - slope / curvature if curvature > 0 else np.inf
        if not short < length < long:
            length = 0.5 * (short + long) if np.isfinite(long) else 2.0 * short
    return length
