"""Points as a kernel wants them: dense rows for BLAS or CSR rows for a compiled product.

Which of the two is quicker is a matter of density, not of how the data came. Both answer the same two
questions about a left and a right set of points:

    cross(kernel, left, right)        the matrix k(left_a, right_i)
    weigh(kernel, left, coef, right)  its product with coefficients, the matrix never stored
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from ..rows.blocks import SPARSE_DENSITY, entries_of
from ..rows.leaves import csr_take
from .kernels import LAPLACIAN, LINEAR, Kernel, Q, sparse_tiles, transform

__all__ = ["Points", "check_finite", "make_points", "cross", "weigh"]

TILE_BYTES = 1 << 20  # a tile of kernel values that stays near a core between product and exp
LEAST_COLUMNS = 128  # of a product: fewer, and BLAS spends its time on laying out the left operand
BLAS_PACE = 8  # multiply-adds of a product by BLAS in the time that one takes elsewhere
SPARSE_FROM = 50_000  # entries of dense points: zeros among fewer are not looked for
DENSE_BYTES = 1 << 28  # of sparse points that are spread out where that is quicker
SPARSE_BLOCK = 1 << 16  # right points cast at a time
MOST_FEATURES = np.iinfo(np.int32).max  # of sparse points: their numbers have 32 bits, of which 31 count
LONGER = 4  # times as many products by BLAS make a piece: problems side by side wait for Python after each
KERNEL_COST = 16  # multiply-adds that take as long as turning an inner product into a kernel value
LAYOUT = 16  # times the entries of a block of left points that a piece must compute: it lays the block out anew


@dataclass(frozen=True)
class Points:
    """n points of d features with the norms that kernels need, used as float32 or float64.

    Dense rows that live in a file stay there in their own type; what is taken of them is cast.
    """

    data: Any  # dense rows, or (indptr, indices, data) of CSR rows
    norms: np.ndarray  # squared norms in float64; L1 norms for the Laplacian kernel
    d: int
    dtype: np.dtype  # in which products are computed

    @property
    def n(self) -> int:
        return len(self.norms)

    @property
    def sparse(self) -> bool:
        return isinstance(self.data, tuple)

    @cached_property
    def near_norms(self) -> np.ndarray:
        """The norms in the precision of the products."""
        return self.norms.astype(self.dtype, copy=False)

    def take(self, index: np.ndarray | slice) -> Points:
        """The points with these numbers; a slice copies nothing unless the type changes."""
        if not self.sparse:
            return Points(np.asarray(_rows(self.data, index), self.dtype), self.norms[index], self.d, self.dtype)
        indptr, indices, data = self.data
        if isinstance(index, slice):
            start, stop, _ = index.indices(self.n)
            return Points((indptr[start : stop + 1], indices, data), self.norms[index], self.d, self.dtype)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64, copy=False)
        edges = np.concatenate([[0], np.cumsum(indptr[index + 1] - indptr[index])])
        taken = edges, np.empty(edges[-1], np.int32), np.empty(edges[-1], self.dtype)
        csr_take(indptr, indices, data, index, *taken)
        return Points(taken, self.norms[index], self.d, self.dtype)

    def astype(self, dtype: Any) -> Points:
        """The same points in another precision."""
        dtype = np.dtype(dtype)
        if self.dtype == dtype:
            return self
        if self.sparse:
            indptr, indices, data = self.data
            used = slice(indptr[0], indptr[-1])
            return Points((indptr - indptr[0], indices[used], data[used].astype(dtype)), self.norms, self.d, dtype)
        data = self.data if on_disk(self.data) else np.asarray(self.data, dtype)
        return Points(data, self.norms, self.d, dtype)


def _rows(a: np.ndarray, index: np.ndarray | slice) -> np.ndarray:
    """a[index], by a function that copies whole rows in a quarter of the time; what has gaps it would copy first."""
    if isinstance(index, slice) or index.dtype == bool or not a.flags.c_contiguous:
        return a[index]
    return np.asarray(a).take(index, axis=0)  # of a memory map, what is taken is in memory


def on_disk(a: np.ndarray) -> bool:
    """Whether an array is a view of a memory map."""
    base: object = a
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def check_width(d: int) -> None:
    """An error where there are more features than sparse points can number."""
    if d > MOST_FEATURES:
        raise ValueError(
            f"a kernel of sparse points was asked for; found {d} features, of which {MOST_FEATURES} can be numbered; "
            "leave out the columns that are empty, hash the features into fewer, or use LinearSVC or LinearSVR"
        )


def _triple(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, dtype: np.dtype) -> tuple:
    # One layout for every source: 64-bit offsets (more than 2^31 entries are real), 32-bit feature numbers.
    return indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False), data.astype(dtype, copy=False)


def make_points(X: Any, kernel: Kernel, like: Points | None = None, threads: int = 1) -> Points:
    """X as points for a kernel: as dense or sparse as is quick, or as ``like``."""
    n, d = X.shape
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if_quick = like is None and kernel.code != LAPLACIAN
    entries = _entries(X, dtype, if_quick, threads) if like is None or like.sparse else None
    if entries is None:
        rows = X.toarray() if sp.issparse(X) else X
        return Points(rows if rows.dtype == dtype else rows.astype(dtype), squared_norms(rows), d, dtype)
    check_width(d)
    indptr, indices, values = entries
    data = values.astype(np.float64, copy=False)
    weight = np.abs(data) if kernel.code == LAPLACIAN else data * data
    norms = np.asarray(sp.csr_array((weight, indices, indptr), shape=(n, d)).sum(axis=1)).ravel()
    return Points(_triple(indptr, indices, values, dtype), norms, d, dtype)


def _entries(X: Any, dtype: np.dtype, if_quick: bool, threads: int) -> tuple | None:
    """Offsets, feature numbers and values of what is not 0; None if dense rows are as quick, where that matters."""
    n, d = X.shape
    if not sp.issparse(X):
        if if_quick and n * d <= SPARSE_FROM:
            return None
        return entries_of(np.asarray(X, dtype), threads, SPARSE_DENSITY * X.size if if_quick else X.size)
    if if_quick and X.nnz >= SPARSE_DENSITY * n * d and n * d * 8 <= DENSE_BYTES:
        return None
    rows = sp.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows.indptr, rows.indices, rows.data


def check_finite(kernel: Kernel, points: Points) -> None:
    """An error where a kernel of points is no number: their norms, or what a power makes of them, are too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(points.norms).all() and np.isfinite(kernel.diag(points.norms)).all())
    if not finite:
        raise ValueError(
            f"a {kernel.name} kernel was asked for; found values too large for it; scale the features, "
            "or choose a smaller gamma, coef0 or degree"
        )


def squared_norms(X: np.ndarray) -> np.ndarray:
    """Squared norms of dense rows in float64, a block at a time so that no large copy is made."""
    out = np.empty(len(X))
    step = max(1, (1 << 20) // max(1, X.shape[1]))
    for a in range(0, len(X), step):
        block = np.asarray(X[a : a + step], np.float64)
        out[a : a + step] = np.einsum("ij,ij->i", block, block)
    return out


def cross(
    kernel: Kernel, left: Points, right: Points, out: Any = None, slots: Any = None, threads: int = 1
) -> np.ndarray:
    """out[slots[a], i] = k(left_a, right_i), computed together by one matrix product."""
    if out is None:
        out = np.empty((left.n, right.n), right.dtype)
    spec = kernel.spec
    if right.sparse:
        slots = np.arange(left.n) if slots is None else slots
        none = np.empty((right.n, 0))
        _spread_tiles(spec, left, right, (slots, out, none, none), threads)
        return out
    contiguous, first = slots is None, 0
    if slots is not None and len(slots):
        first = int(slots[0])
        contiguous = slots[-1] - first == len(slots) - 1 and bool((slots[1:] - slots[:-1] == 1).all())
    target = out[first : first + left.n] if contiguous else out
    # What all pieces share: side by side they wait for Python, not for each other.
    rows, columns, dtype, norms_left, norms = left.data, right.data, right.dtype, left.near_norms, right.near_norms
    linear = kernel.code == LINEAR
    symmetric = left is right and slots is None

    def fill(a: int, b: int) -> None:
        """Product and kernel of a tile that is still near when the kernel is applied; of a symmetric matrix a half."""
        tile = np.asarray(columns[a:b], dtype).T
        if contiguous:
            top = b if symmetric else left.n
            np.matmul(rows[:top], tile, out=target[:top, a:b])
            if not linear:
                transform(target[:top], a, b, *spec, norms_left[:top], norms)
            if symmetric:
                target[a:b, :a] = target[:a, a:b].T
            return
        block = rows @ tile
        if not linear:
            transform(block, 0, b - a, *spec, norms_left, norms[a:b])
        out[slots, a:b] = block

    grain = max(LEAST_COLUMNS, _dense_grain(left))
    tile = max(2 * LEAST_COLUMNS, TILE_BYTES // max(1, left.n * out.itemsize))
    th.spread(fill, right.n, threads, grain, longest=tile)
    return out


def weigh(kernel: Kernel, left: Points, coef: np.ndarray, right: Points, threads: int = 1) -> np.ndarray:
    """Σ_a coef[a, c] k(left_a, right_i) as an array (right.n, c), summed in float64.

    Kernel values have the precision of ``left``; the right points are cast a block at a time.
    """
    out = np.zeros((right.n, coef.shape[1]))
    coef = np.ascontiguousarray(coef, np.float64)
    if left.n == 0 or right.n == 0:
        return out
    spec = kernel.spec
    if right.sparse:
        nowhere, no_rows = np.empty(0, np.int64), np.empty((0, 0), left.dtype)
        for a in range(0, right.n, SPARSE_BLOCK):
            part = right.take(slice(a, a + SPARSE_BLOCK)).astype(left.dtype)
            _spread_tiles(spec, left, part, (nowhere, no_rows, coef, out[a : a + part.n]), threads)
        return out
    rows, columns, dtype, count = right.data, left.data.T, left.dtype, left.n
    norms, norms_left, linear = right.norms.astype(dtype, copy=False), left.near_norms, kernel.code == LINEAR

    spare: deque[np.ndarray] = deque()  # tiles that nobody uses: fresh memory costs more than what is computed in it

    def fill(a: int, b: int) -> None:
        """Product, kernel and sum of a tile while it is near."""
        try:
            tile = spare.pop()
        except IndexError:
            tile = np.empty((b - a, count), dtype)
        if len(tile) < b - a:  # of the last piece, which is shorter
            tile = np.empty((b - a, count), dtype)
        block = np.matmul(np.asarray(np.asarray(rows[a:b], right.dtype), dtype), columns, out=tile[: b - a])
        if not linear:
            transform(block, 0, count, *spec, norms[a:b], norms_left)
        np.matmul(block.astype(np.float64, copy=False), coef, out=out[a:b])
        spare.append(tile)

    grain = _dense_grain(left)
    tile = TILE_BYTES // (left.n * left.dtype.itemsize)
    th.spread(fill, right.n, threads, grain, align=8, longest=tile)
    return out


def _spread_tiles(spec: Any, left: Points, right: Points, use: tuple, threads: int) -> None:
    """Kernel values of CSR rows by threads; ``use`` says what becomes of them (see ``sparse_tiles``)."""
    sides = (left.data, left.near_norms, right.data, right.near_norms, right.d, spec)
    th.spread(lambda a, b: sparse_tiles(*sides, *use, a, b), right.n, threads, sparse_grain(left, right))


def _dense_grain(left: Points) -> int:
    """How many right points make a piece that is worth a thread."""
    return th.grain(left.n * (left.d / LONGER + KERNEL_COST) / BLAS_PACE)


def sparse_grain(left: Points, right: Points) -> int:
    """How many right points make a piece: enough to be worth a thread, and worth laying out the left points."""
    entries = KERNEL_COST + int(right.data[0][-1] - right.data[0][0]) / max(1, right.n)
    height = min(right.d, Q * int(left.data[0][-1] - left.data[0][0]) / max(1, left.n))
    return max(th.grain(left.n * entries), int(LAYOUT * height / entries))
