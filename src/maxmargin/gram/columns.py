"""Kernel rows one at a time, for leaves that find out on the way which ones they need.

A block of rows costs less than its rows alone, because BLAS reads the points once for all of them. While points stay
near a core that is little (measured on AVX2 with 4 to 256 features: a row alone takes 0.9 to 1.7 times as long), and a
block holds many rows that nobody asked for. Points lie by feature here: a row is computed by vectors of neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import threads as th
from .._jit import fast_exp, helper
from .distance import cancels
from .kernels import RBF, Kernel, finish
from .points import Points, on_disk

__all__ = ["Columns", "kernel_row", "suits"]

STRETCH = 512  # points that are computed together: their values stay in the nearest cache


class Columns(NamedTuple):
    """Dense points by feature, with the kernel."""

    values: np.ndarray  # (features, points)
    norms: np.ndarray
    kernel: tuple  # as Kernel.spec gives it

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> Columns:
        return cls(np.ascontiguousarray(points.data.T), points.near_norms, kernel.spec)


def suits(kernel: Kernel, points: Points) -> bool:
    """Whether a row of these points may well be made alone: it is not worth a thread, and its points stay near."""
    if points.sparse or on_disk(points.data) or points.n * points.d > th.PIECE_WORK:
        return False
    return kernel.code == RBF or not cancels(kernel, points, points)


@helper
def kernel_row(i, points, row):
    """row = k(x_i, x_j) for all points j; distances come from differences, which lose nothing where points are far."""
    X, norms = points.values, points.norms
    code, gamma, coef0, degree = points.kernel
    zero, g = X.dtype.type(0.0), X.dtype.type(gamma)
    for t0 in range(0, len(row), STRETCH):
        t1 = min(t0 + STRETCH, len(row))
        for t in range(t0, t1):
            row[t] = zero
        if code is None:
            _add_squares(i, X, row, t0, t1)
            for t in range(t0, t1):
                row[t] = fast_exp(-g * row[t])
        else:
            _add_products(i, X, row, t0, t1)
            finish(row[t0:t1], code, g, X.dtype.type(coef0), X.dtype.type(degree), norms[i], norms[t0:t1])


@helper
def _add_squares(i, X, row, start, stop):
    """row += ‖x_i − x_j‖² for the points j from start to stop, four features at a time."""
    f = 0
    while f + 4 <= len(X):
        r0, r1, r2, r3 = X[f], X[f + 1], X[f + 2], X[f + 3]
        x0, x1, x2, x3 = r0[i], r1[i], r2[i], r3[i]
        for t in range(start, stop):
            d0, d1, d2, d3 = x0 - r0[t], x1 - r1[t], x2 - r2[t], x3 - r3[t]
            row[t] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        f += 4
    while f < len(X):
        r0 = X[f]
        x0 = r0[i]
        for t in range(start, stop):
            d0 = x0 - r0[t]
            row[t] += d0 * d0
        f += 1


@helper
def _add_products(i, X, row, start, stop):
    """row += x_iᵀx_j for the points j from start to stop, four features at a time."""
    f = 0
    while f + 4 <= len(X):
        r0, r1, r2, r3 = X[f], X[f + 1], X[f + 2], X[f + 3]
        x0, x1, x2, x3 = r0[i], r1[i], r2[i], r3[i]
        for t in range(start, stop):
            row[t] += (x0 * r0[t] + x1 * r1[t]) + (x2 * r2[t] + x3 * r3[t])
        f += 4
    while f < len(X):
        r0 = X[f]
        x0 = r0[i]
        for t in range(start, stop):
            row[t] += x0 * r0[t]
        f += 1
