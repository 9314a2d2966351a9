"""Kernel rows one at a time, for leaves that find out on the way which ones they need.

A block of rows costs less than its rows alone, because BLAS reads the points once for all of them. While points stay
near a core that is little (measured on AVX2 with 4 to 256 features: a row alone takes 0.9 to 1.7 times as long), and a
block holds many rows that nobody asked for. Points lie by feature here: a row is computed by vectors of neighbours.

Distances from differences lose nothing where points are far from their centre. Products lose so much there that they
must be made in float64, and take twice as long: of data with outliers all rows are made here, one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import threads as th
from .._jit import fast_exp, helper, jit, read_only
from .distance import cancels
from .kernels import RBF, Kernel, finish
from .points import BLAS_PACE, KERNEL_COST, Points, on_disk

__all__ = ["Columns", "kernel_row", "rows_apart", "suits", "weigh_apart"]

STRETCH = 512  # points that are computed together: their values stay in the nearest cache


class Columns(NamedTuple):
    """Dense points by feature, with the kernel."""

    values: np.ndarray  # (features, points)
    norms: np.ndarray
    kernel: tuple  # as Kernel.spec gives it

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> Columns:
        # Points of one feature, or that the user laid by feature, are the user's array, which may not be written to.
        return cls(read_only(np.ascontiguousarray(points.data.T)), read_only(points.near_norms), kernel.spec)


def suits(kernel: Kernel, points: Points, n: int | None = None) -> bool:
    """Whether a row of these points (of n of them) may well be made alone: not worth a thread, its points stay near."""
    if points.sparse or on_disk(points.data) or (points.n if n is None else n) * points.d > th.PIECE_WORK:
        return False
    return kernel.code == RBF or not cancels(kernel, points, points)


@helper
def kernel_row(i, points, row):
    """row = k(x_i, x_j) for all points j; distances come from differences, which lose nothing where points are far."""
    X, norms = points.values, points.norms
    code, gamma, coef0, degree = points.kernel
    g = X.dtype.type(gamma)
    for t0 in range(0, len(row), STRETCH):
        t1 = min(t0 + STRETCH, len(row))
        if code is None:
            _gauss(X[:, i], X, g, row, t0, t1)
        else:
            _set_products(i, X, row, t0, t1)
            finish(row[t0:t1], code, g, X.dtype.type(coef0), X.dtype.type(degree), norms[i], norms[t0:t1])


@helper
def _gauss(x, X, gamma, row, start, stop):
    """row = exp(−γ ‖x − x_j‖²) for the points j from start to stop."""
    for t in range(start, stop):
        row[t] = X.dtype.type(0.0)
    _add_squares(x, X, row, start, stop)
    for t in range(start, stop):
        row[t] = fast_exp(-gamma * row[t])


@helper
def _add_squares(x, X, row, start, stop):
    """row += ‖x − x_j‖² for the points j from start to stop, four features at a time."""
    f = 0
    while f + 4 <= len(X):
        r0, r1, r2, r3 = X[f], X[f + 1], X[f + 2], X[f + 3]
        x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
        for t in range(start, stop):
            d0, d1, d2, d3 = x0 - r0[t], x1 - r1[t], x2 - r2[t], x3 - r3[t]
            row[t] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        f += 4
    while f < len(X):
        r0 = X[f]
        x0 = x[f]
        for t in range(start, stop):
            d0 = x0 - r0[t]
            row[t] += d0 * d0
        f += 1


@helper
def _set_products(i, X, row, start, stop):
    """row = x_iᵀx_j for the points j from start to stop, four features at a time."""
    for t in range(start, stop):
        row[t] = X.dtype.type(0.0)
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


# -- many rows of the RBF kernel from differences ---------------------------------------------------------------


def rows_apart(points: Columns, index: np.ndarray, out: Any, slots: Any, threads: int) -> np.ndarray:
    """out[slots[a]] = row index[a]."""
    if out is None:
        out = np.empty((len(index), points.values.shape[1]), points.values.dtype)
    slots = np.arange(len(index)) if slots is None else slots
    grain = th.grain(points.values.size)
    th.spread(lambda a, b: fill_rows(points, index, out, slots, a, b), len(index), threads, grain, align=1)
    return out


def weigh_apart(points: Columns, left: Points, coef: np.ndarray, threads: int) -> np.ndarray:
    """Σ_a coef[a, c] k(left_a, x_j) as an array (points, c), summed in float64."""
    rows, coef = np.ascontiguousarray(left.data), np.ascontiguousarray(coef.T, np.float64)
    d, n = points.values.shape
    out = np.zeros((len(coef), n))

    def leaf(a: int, b: int) -> None:
        add_rows(points, rows, coef, np.empty(n, points.values.dtype), out, a, b)

    th.spread(leaf, n, threads, th.grain(left.n * (d + KERNEL_COST) / BLAS_PACE), align=STRETCH)
    return out.T


@jit
def fill_rows(points, index, out, slots, start, stop):
    for a in range(start, stop):
        kernel_row(index[a], points, out[slots[a]])


@jit
def add_rows(points, rows, coef, values, out, start, stop):
    """out[c] += Σ_a coef[c, a] k(rows_a, x_j), points start to stop; ``values`` is room for as many as points."""
    X, g = points.values, points.values.dtype.type(points.kernel[1])
    for t0 in range(start, stop, STRETCH):
        t1 = min(t0 + STRETCH, stop)
        for a in range(len(rows)):
            _gauss(rows[a], X, g, values, t0, t1)
            for c in range(len(coef)):
                weight, sums = coef[c, a], out[c]
                for t in range(t0, t1):
                    sums[t] += weight * np.float64(values[t])
