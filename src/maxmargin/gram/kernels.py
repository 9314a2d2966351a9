"""Kernels and their compiled core.

Every kernel here is a function of one number a pair of points: the inner product (and the squared norms)
or, for the Laplacian kernel, the L1 distance. The compiled leaves compute that number for a tile of pairs
and turn it into kernel values while the tile is still in the first cache.

| name      | k(x, z)                    |
| --------- | -------------------------- |
| linear    | xᵀz                        |
| poly      | (γ xᵀz + c)^degree         |
| rbf       | exp(−γ ‖x − z‖²)           |
| sigmoid   | tanh(γ xᵀz + c)            |
| laplacian | exp(−γ ‖x − z‖₁)           |
| wendland  | (1 − r)₊^q (1 + q r)       |

Wendland's function with r = √γ ‖x − z‖ and q = degree + 1 is 0 for points farther from each other than 1/√γ, smooth
(its second derivative is continuous), and positive definite in up to 2 degree − 3 dimensions (Wendland 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._jit import ROW_WIDTH, aside, fast_exp, helper, inline, jit, row_dot, row_product, shared

__all__ = ["KERNELS", "Kernel", "sparse_tiles", "transform"]

LINEAR, POLY, RBF, SIGMOID, LAPLACIAN, WENDLAND = range(6)
KERNELS: dict[str, int | Callable] = {  # a number is compiled; a function takes (X, Z, gamma, coef0, degree)
    "linear": LINEAR,
    "poly": POLY,
    "rbf": RBF,
    "sigmoid": SIGMOID,
    "laplacian": LAPLACIAN,
    "wendland": WENDLAND,
}

Q = ROW_WIDTH  # pairs a tile row
DIRECT_FEATURES = 1024  # up to here a block holds all features: at most 256 KiB of float32
T = 64  # rows a tile; T × Q × 8 bytes fit the first two cache levels together with the block


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters, as LIBSVM names them."""

    name: str = "rbf"
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3

    def __post_init__(self) -> None:
        compiled = sorted(name for name, entry in KERNELS.items() if isinstance(entry, int))
        if self.name not in compiled:
            raise ValueError(
                f"a compiled kernel was asked for; found kernel={self.name!r}; choose one of {compiled}, or use "
                "CallableGram with a function"
            )

    @property
    def code(self) -> int:
        code = KERNELS[self.name]
        assert isinstance(code, int)
        return code

    @property
    def spec(self) -> tuple[int | None, float, float, float]:
        """The kernel as leaves take it: None in the place of the code of the RBF kernel, and the parameters."""
        code = None if self.code == RBF else self.code
        return code, float(self.gamma), float(self.coef0), float(self.degree)

    @property
    def steepness(self) -> float:
        """How much the kernel changes at most where γ ‖x − z‖² changes."""
        return 0.5 * (self.degree + 1.0) * (self.degree + 2.0) if self.code == WENDLAND else 1.0

    @property
    def reach(self) -> float:
        """The distance from which on the kernel is 0."""
        return self.gamma**-0.5 if self.code == WENDLAND and self.gamma > 0.0 else np.inf

    @property
    def dimensions(self) -> float:
        """How many features points may have so that the kernel is positive definite."""
        return 2.0 * self.degree - 3.0 if self.code == WENDLAND else np.inf

    def diag(self, squared_norms: np.ndarray) -> np.ndarray:
        """k(x, x) for points with these squared norms."""
        if self.code in (RBF, LAPLACIAN, WENDLAND):
            return np.ones(len(squared_norms))
        if self.code == LINEAR:
            return squared_norms.astype(float)
        inner = self.gamma * squared_norms.astype(float) + self.coef0
        return np.tanh(inner) if self.code == SIGMOID else inner**self.degree

    def rounding(self, largest_squared_norm: float, unit: float) -> float:
        """About how large the error of one kernel value is when it is computed with this unit roundoff."""
        if self.code == RBF:
            return 4 * unit * max(1.0, self.gamma * largest_squared_norm)
        if self.code == LAPLACIAN:
            return 8 * unit * max(1.0, self.gamma * largest_squared_norm)  # L1 norms here, which are added up twice
        if self.code == WENDLAND:
            return 4 * unit * max(1.0, self.steepness * self.gamma * largest_squared_norm)
        if self.code == SIGMOID:
            return 4 * unit * max(1.0, abs(self.gamma) * largest_squared_norm + abs(self.coef0))
        inner = (self.gamma if self.code == POLY else 1.0) * largest_squared_norm + abs(self.coef0)
        degree = self.degree if self.code == POLY else 1.0
        return 4 * unit * max(1.0, degree) * abs(inner) ** degree

    def rounding_apart(self, largest_squared_norm: float, unit: float) -> float:
        """The same for the RBF kernel where distances come from differences: points are rounded, and nothing cancels.

        With s = √γ ‖x − z‖ the exponent is wrong by 2 s u √γ (‖x‖ + ‖z‖), and s exp(−s²) is at most 0.43.
        """
        return 4 * unit * max(1.0, self.gamma * largest_squared_norm) ** 0.5


@inline
def wendland(square, degree):
    """(1 − r)^q (1 + q r) for r² = square, 0 for r ≥ 1; q = degree + 1."""
    one = square - square + 1  # of the same type
    q = degree + one
    r = np.sqrt(square)
    t = max(one - r, one - one)
    if degree == 3:
        return t * t * (t * t) * (one + q * r)
    return t**q * (one + q * r)


def wendland_values(square: np.ndarray, degree: float) -> np.ndarray:
    """Wendland's function of many r²."""
    r = np.minimum(np.sqrt(square), 1.0)
    return (1.0 - r) ** (degree + 1.0) * (1.0 + (degree + 1.0) * r)


@helper
def finish(a, code, gamma, coef0, degree, norm, norms):
    """Turn inner products (L1 distances for the Laplacian) in a into kernel values, in place.

    The code is None for the RBF kernel: the compiler knows that, and leaves out all others, which take longer.
    """
    n = a.shape[0]
    two = a.dtype.type(2.0)
    one = a.dtype.type(1.0)
    if code is None:
        for k in range(n):
            a[k] = fast_exp(min(gamma * (two * a[k] - norm - norms[k]), a.dtype.type(0.0)))
        return
    if code == LAPLACIAN:
        for k in range(n):
            a[k] = fast_exp(-gamma * max(a[k] + norm + norms[k], a.dtype.type(0.0)))
    elif code == WENDLAND:
        for k in range(n):
            a[k] = wendland(gamma * max(norm + norms[k] - two * a[k], a.dtype.type(0.0)), degree)
    elif code == POLY:
        if degree == 2.0 or degree == 3.0 or degree == 4.0 or degree == 5.0:  # by vectors, as no power is
            odd, high = degree == 3.0 or degree == 5.0, degree >= 4.0
            for k in range(n):
                x = gamma * a[k] + coef0
                square = x * x
                a[k] = square * (x if odd else one) * (square if high else one)
        else:
            for k in range(n):
                a[k] = (gamma * a[k] + coef0) ** degree
    elif code == SIGMOID:
        limit = a.dtype.type(40.0)
        for k in range(n):
            x = two * min(max(gamma * a[k] + coef0, -limit), limit)
            a[k] = one - two / (fast_exp(x) + one)


@jit
def transform(block, start, stop, code, gamma, coef0, degree, norms_left, norms):
    """Turn inner products block[i, j], columns start to stop, into kernel values in place.

    A range and not a view of the columns: the compiler knows only of whole rows that their entries are neighbours.
    """
    g = block.dtype.type(gamma)
    c = block.dtype.type(coef0)
    d = block.dtype.type(degree)
    for i in range(block.shape[0]):
        finish(block[i, start:stop], code, g, c, d, norms_left[i], norms[start:stop])


@aside
def _gather_block(indptr, indices, data, first, count, where, block):
    """Scatter rows first..first+count of a CSR matrix to columns of a small dense block.

    With few features, row j of the block is feature j. With many, where[j] is the row that holds feature
    j, or −1: products then skip the features that no row of the block has, for text nearly all of them.
    """
    direct = len(where) == 0
    height = 0
    zero = block.dtype.type(0.0)
    if direct:
        for j in range(block.shape[0]):
            for c in range(Q):
                block[j, c] = zero
    for k in range(count):
        for s in range(indptr[first + k], indptr[first + k + 1]):
            row = indices[s]
            if not direct:
                if where[row] < 0:
                    where[row] = height
                    for c in range(Q):
                        block[height, c] = zero
                    height += 1
                row = where[row]
            block[row, k] += data[s]


@helper
def _compact(indices, data, start, stop, where, positions, values):
    """The entries of a sparse row whose feature the block holds, as positions in the block; how many."""
    m = 0
    for s in range(start, stop):
        w = where[indices[s]]
        if w >= 0:
            positions[m] = w
            values[m] = data[s]
            m += 1
    return m


@helper
def _tile_row(a, code, positions, values, s, m, block):
    """a[k] = inner product (or what the L1 distance adds to the norms) of entries s..m and column k of block."""
    if code is not None:
        if code == LAPLACIAN:
            for k in range(Q):
                a[k] = a.dtype.type(0.0)
            for r in range(s, m):
                v = values[r]
                b = block[positions[r]]
                for k in range(Q):
                    a[k] += abs(v - b[k]) - abs(v) - abs(b[k])
            return
    row_product(a, positions, values, s, m, block)


@aside
def _workspace(lptr, rptr, features, start, stop, dtype):
    """Buffers for one thread: block, where, positions, values, one tile and the block's norms."""
    direct = features <= DIRECT_FEATURES
    total = len(lptr) - 1
    height = features
    widest = 0
    if not direct:
        height = 0
        for first in range(0, total, Q):
            height = max(height, lptr[min(first + Q, total)] - lptr[first])
        for i in range(start, stop):
            widest = max(widest, rptr[i + 1] - rptr[i])
    block = np.empty((min(height, features), Q), dtype)
    where = np.empty(0 if direct else features, np.int32)
    for j in range(len(where)):
        where[j] = -1
    norm_block = np.empty(Q, dtype)
    for k in range(Q):
        norm_block[k] = dtype.type(0.0)
    return block, where, np.empty(widest, np.int32), np.empty(widest, dtype), np.empty((T, Q), dtype), norm_block


@shared
def _tile(tile, right, norms, i0, m, kernel, block, where, positions, values, norm_block):
    """tile[t, k] = k(block column k, right point i0 + t) for t < m."""
    rptr, ridx, rdata = right
    code, gamma, coef0, degree = kernel
    dtype = rdata.dtype
    g, c0, deg = dtype.type(gamma), dtype.type(coef0), dtype.type(degree)
    for t in range(m):
        i = i0 + t
        a = tile[t]
        if len(where):
            kept = _compact(ridx, rdata, rptr[i], rptr[i + 1], where, positions, values)
            _tile_row(a, code, positions, values, 0, kept, block)
        else:
            _tile_row(a, code, ridx, rdata, rptr[i], rptr[i + 1], block)
        finish(a, code, g, c0, deg, norms[i], norm_block)


@jit
def sparse_tiles(left, norms_left, right, norms, features, kernel, slots, rows, coef, sums, start, stop):
    """Kernel values of left points with the right points start..stop, both CSR triples: stored, or added up.

    rows[slots[k], i] = k(left_k, right_i) where there are slots, and sums[i, c] += Σ_k coef[k, c] k(left_k, right_i)
    for each column c of the coefficients. One leaf for both: most of it is what makes the values.
    """
    lptr, lidx, ldata = left
    block, where, positions, values, tile, norm_block = _workspace(lptr, right[0], features, start, stop, ldata.dtype)
    total, columns = len(lptr) - 1, coef.shape[1]
    padded = np.empty((columns, Q), np.float64)
    for first in range(0, total, Q):
        count = min(Q, total - first)
        _gather_block(lptr, lidx, ldata, first, count, where, block)
        for k in range(count):
            norm_block[k] = norms_left[first + k]
        for c in range(columns):
            for k in range(Q):
                padded[c, k] = coef[first + k, c] if k < count else 0.0
        for i0 in range(start, stop, T):
            m = min(T, stop - i0)
            _tile(tile, right, norms, i0, m, kernel, block, where, positions, values, norm_block)
            if len(slots):
                for k in range(count):
                    row = rows[slots[first + k]]
                    for t in range(m):
                        row[i0 + t] = tile[t, k]
            for t in range(m):
                a = tile[t]
                for c in range(columns):
                    sums[i0 + t, c] += row_dot(padded[c], a)
        if len(where):
            for s in range(lptr[first], lptr[first + count]):
                where[lidx[s]] = -1
