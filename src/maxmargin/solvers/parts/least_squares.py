"""Least squares of small dense systems that end, whatever they are given."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

__all__ = ["least_squares"]


def least_squares(M: np.ndarray, right: np.ndarray, rcond: float | None = None) -> np.ndarray:
    """The shortest x with the smallest ‖Mx − right‖; a LinAlgError where numbers have overflowed.

    LAPACK's own routine may look for singular values of NaN for ever.
    """
    if not (np.isfinite(M).all() and np.isfinite(right).all()):
        raise LinAlgError("least squares was asked for; found numbers that are not finite; scale the problem")
    return np.linalg.lstsq(M, right, rcond=rcond)[0]
