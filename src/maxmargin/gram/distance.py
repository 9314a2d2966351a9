"""Kernels of distances without cancellation: what ``points.py`` computes by products, mended where they lose digits.

A product of matrices gives the distance of two points as

    ‖x − z‖²  =  ‖x‖² + ‖z‖² − 2 xᵀz            ‖x − z‖₁  =  ‖x‖₁ + ‖z‖₁ + Σ (|x_j − z_j| − |x_j| − |z_j|)

whose error is a share of the norms, not of the distance. Timestamps of one minute (offset 1.7e9 s) have squared norms
of 3e18, of which float64 does not know the last 500: nothing is left of the distances. Two things help, and both are
done here, a tile of pairs at a time, so that neither a Gram nor a machine that predicts has to know of them:

- Distances do not change with the origin. The points are seen from the middle of the left ones, which are few: dense
  rows as they are, of sparse rows the features that are far (and therefore full, see rows/centre.py).
- Clusters far from each other stay far from any origin. Σ (x_j − z_j)² is right for neighbours wherever they are, but
  costs more than a product. So pairs are done again from their differences where, with the norms that are left,

      e = γ c u (‖x‖² + ‖z‖²)      bounds the error of the exponent, and
      k exp(e) e > ENTRY_ERROR     that of the kernel value: neighbours, among points of large norm

(for Wendland's function e is that of r² times how steep it is). Every entry is then within ENTRY_ERROR of the kernel.
Nearly all data have norms so moderate that nothing of this is needed; two maxima of norms tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from .._jit import dot, fast_exp, inline, jit
from ..rows.centre import centred, far_centre, may_be_far
from . import points as products
from .kernels import LAPLACIAN, RBF, WENDLAND, Kernel, wendland
from .points import Points, make_points, squared_norms

__all__ = ["ENTRY_ERROR", "cancels", "cross", "weigh"]

# What a kernel value, which is at most 1, may be wrong by. Decisions are then wrong by 1e-12 Σ|β| at most, far below
# any tolerance. Products do that up to γ‖x‖² ≈ 2000 / (4 + √d).
ENTRY_ERROR = 1e-12
TILE = 1 << 17  # entries computed at a time: a megabyte, which stays near a core
STRETCH = 64  # entries of a row that are looked at together
EDGE = 1e-4  # error of r² below which a pair that seems out of Wendland's reach has a kernel value of less than 1e-15
ROUNDING = float(np.finfo(float).eps)
LOG_LARGEST = 700.0  # exp of it is still finite
U = np.uint64  # an index without a sign: see rows/leaves.py


def cancels(kernel: Kernel, left: Points, right: Points) -> bool:
    """Whether products of these points can spoil kernel values that are meant to be exact."""
    if kernel.code not in (RBF, LAPLACIAN, WENDLAND) or left.dtype != np.float64 or not (left.n and right.n):
        return False
    return _strength(kernel, left, right) * (float(left.norms.max()) + float(right.norms.max())) > ENTRY_ERROR


def _strength(kernel: Kernel, left: Points, right: Points) -> float:
    """e = strength (norm + norm) bounds the error of the exponent of a pair.

    A sum of m terms is wrong by √m rounding errors with overwhelming probability (Higham & Mary 2019), though m are
    possible. The terms of all sums together are twice the norms at most; a few more roundings put them together.
    """
    terms = left.d
    if left.sparse:
        terms = min(terms, max(int(np.diff(side.data[0]).max(initial=0)) for side in (left, right)))
    return kernel.steepness * abs(kernel.gamma) * ROUNDING * (4.0 + terms**0.5)


def cross(
    kernel: Kernel, left: Points, right: Points, out: Any = None, slots: Any = None, threads: int = 1
) -> np.ndarray:
    """out[slots[a], i] = k(left_a, right_i); in float64 within ENTRY_ERROR, wherever the points are."""
    if right.dtype != np.float64 or not cancels(kernel, left, right):
        return products.cross(kernel, left, right, out, slots, threads)
    out = np.empty((left.n, right.n)) if out is None else out
    rows = slice(0, left.n) if slots is None else slots
    if left.sparse and kernel.code != WENDLAND and not _far_centre(_csr(left)).any():
        return _mended(kernel, left, right, out, rows, threads)

    def put(start: int, stop: int, block: np.ndarray) -> None:
        out[rows, start:stop] = block

    _each_tile(kernel, left, right, put, threads)
    return out


def _mended(kernel: Kernel, left: Points, right: Points, out: Any, rows: Any, threads: int) -> np.ndarray:
    """``cross`` of sparse points that are seen from where they are: products, mended where they lie."""
    slots = np.arange(left.n) if isinstance(rows, slice) else rows
    products.cross(kernel, left, right, out, slots, threads)
    block, strength = out[rows], _strength(kernel, left, right)  # a view of all rows, a copy of some
    args = (kernel.code == LAPLACIAN, float(kernel.gamma), strength, ENTRY_ERROR)

    def mend(a: int, b: int) -> None:
        part = left.take(slice(a, b))
        mend_sparse(part.data, right.data, *args, part.norms, right.norms, block[a:b])

    th.spread(mend, left.n, threads, grain=th.grain(right.n), align=8)
    if block.base is not out:
        out[rows] = block
    return out


def weigh(kernel: Kernel, left: Points, coef: np.ndarray, right: Points, threads: int = 1) -> np.ndarray:
    """Σ_a coef[a, c] k(left_a, right_i) as an array (right.n, c), from entries as ``cross`` gives them."""
    if not cancels(kernel, left, right):
        return products.weigh(kernel, left, coef, right, threads)
    out = np.empty((right.n, coef.shape[1]))
    coef = np.ascontiguousarray(coef, np.float64)

    def add_up(start: int, stop: int, block: np.ndarray) -> None:
        np.matmul(block.T, coef, out=out[start:stop])

    _each_tile(kernel, left, right, add_up, threads)
    return out


def _each_tile(kernel: Kernel, left: Points, right: Points, use: Callable, threads: int) -> None:
    """use(start, stop, k(left, right points start to stop)) for all right points, in tiles whatever the threads."""
    step = max(8, TILE // left.n, products.sparse_grain(left, right) if left.sparse else 0)
    rows = _csr(left) if left.sparse else np.ascontiguousarray(left.data)
    centre = _far_centre(rows) if left.sparse else rows.mean(axis=0)
    left = Points(left.data if left.sparse else rows, left.norms, left.d, left.dtype)
    moved, strength = _moved(kernel, left, centre), _strength(kernel, left, right)

    def fill(first: int, last: int) -> None:
        for a in range(first * step, min(right.n, last * step), step):
            part = right.take(slice(a, min(right.n, a + step))).astype(np.float64)
            near = _moved(kernel, part, centre)
            block = products.cross(kernel, moved, near)
            args = (float(kernel.gamma), strength, ENTRY_ERROR, moved.norms, near.norms, block)
            if kernel.code == WENDLAND:  # of few features: rows that are sparse are so by chance
                mend_wendland(_dense(left), _dense(part), float(kernel.degree), *args)
            elif left.sparse:
                mend_sparse(left.data, part.data, kernel.code == LAPLACIAN, *args)
            else:
                mend_dense(left.data, np.ascontiguousarray(part.data), *args)
            use(a, a + part.n, block)

    with th.blas_limit(1):
        th.spread(fill, -(-right.n // step), threads, grain=1, align=1)


def _far_centre(rows: sp.csr_array) -> np.ndarray:
    return far_centre(rows) if may_be_far(rows) else np.zeros(rows.shape[1])


def _csr(points: Points) -> sp.csr_array:
    indptr, indices, data = points.data
    used = slice(indptr[0], indptr[-1])
    return sp.csr_array((data[used], indices[used], indptr - indptr[0]), shape=(points.n, points.d))


def _dense(points: Points) -> np.ndarray:
    return _csr(points).toarray() if points.sparse else np.ascontiguousarray(points.data)


def _moved(kernel: Kernel, points: Points, centre: np.ndarray) -> Points:
    """The points as seen from the centre."""
    if not centre.any():
        return points
    if points.sparse:
        return make_points(centred(_csr(points), centre), kernel, like=points)
    data = points.data - centre
    return Points(data, squared_norms(data), points.d, points.dtype)


@inline
def _doubtful(k, e, least):
    """Whether k may be wrong by more than ``least`` where its exponent may be by e."""
    return k * e * (2.0 if e < 0.5 else np.exp(min(e, LOG_LARGEST))) > least


@jit
def doubtful(row, norm, norms, largest, strength, least, found):
    """The numbers of the entries that products may have spoiled, in ``found``; how many.

    Most stretches of a row have none. They are told by sums of truth values, which vector code adds up.
    """
    worst = strength * (norm + largest)
    if worst <= least:
        return 0
    cut = 0.5 * least / strength if worst < 0.5 else 0.0
    count = 0
    for first in range(0, len(row), STRETCH):
        stop = min(first + STRETCH, len(row))
        hits = 0
        for i in range(U(first), U(stop)):
            hits += row[i] * (norm + norms[i]) > cut
        if hits:
            for i in range(U(first), U(stop)):
                if _doubtful(row[i], strength * (norm + norms[i]), least):
                    found[count] = i
                    count += 1
    return count


@jit
def mend_dense(X, Z, gamma, strength, least, norms_left, norms, block):
    """block[a, i] = exp(−γ ‖X_a − Z_i‖²) where products may have spoiled it."""
    difference = np.empty(X.shape[1])
    found, largest = np.empty(len(norms), np.int64), norms.max()
    for a in range(len(norms_left)):
        x, row = X[a], block[a]
        for s in range(doubtful(row, norms_left[a], norms, largest, strength, least, found)):
            z = Z[found[s]]
            for j in range(U(len(difference))):
                difference[j] = x[j] - z[j]
            row[found[s]] = fast_exp(-gamma * dot(difference, difference))


@jit
def mend_wendland(X, Z, degree, gamma, strength, least, norms_left, norms, block):
    """The same for Wendland's function; where products may hide that points are within its reach, for all pairs."""
    for a in range(len(norms_left)):
        x, row = X[a], block[a]
        for i in range(len(norms)):
            e = strength * (norms_left[a] + norms[i])
            if e > least and (row[i] > 0.0 or e > EDGE):
                total = 0.0
                z = Z[i]
                for j in range(X.shape[1]):
                    total += (x[j] - z[j]) ** 2
                row[i] = wendland(gamma * total, degree)


@jit
def mend_sparse(left, right, absolute, gamma, strength, least, norms_left, norms, block):
    """The same for CSR rows whose feature numbers ascend, and for ‖X_a − Z_i‖₁ where ``absolute``."""
    lptr, lidx, ldata = left
    rptr, ridx, rdata = right
    found, largest = np.empty(len(norms), np.int64), norms.max()
    for a in range(len(norms_left)):
        row = block[a]
        for q in range(doubtful(row, norms_left[a], norms, largest, strength, least, found)):
            i = found[q]
            s, s_end, r, r_end = lptr[a], lptr[a + 1], rptr[i], rptr[i + 1]
            total = 0.0
            while s < s_end or r < r_end:
                if r == r_end or (s < s_end and lidx[s] < ridx[r]):
                    t = ldata[s]
                    s += 1
                elif s == s_end or ridx[r] < lidx[s]:
                    t = rdata[r]
                    r += 1
                else:
                    t = ldata[s] - rdata[r]
                    s += 1
                    r += 1
                total += abs(t) if absolute else t * t
            row[i] = fast_exp(-gamma * total)
