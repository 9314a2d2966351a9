"""Features far from the origin: a centre for them, and rows that are seen from there.

Where a bias is free (Σβ = 0), f(x) = wᵀx + b = wᵀ(x − c) + b′ with b′ = b + wᵀc: a centre changes the numbers and
nothing else. A feature whose mean is R times its spread makes inner products of which R² parts say nothing and one
part something, so that 2 log₁₀ R of 16 digits are lost, in kernel values and in the normal matrix alike.

Only such features are moved; sparse rows then stay sparse, because a feature that is present in a share ρ of the rows
has R² ≤ ρ / (1 − ρ) (Cauchy–Schwarz): what is far is full. The centre is rounded to a multiple of the spread's power of
two, which makes differences exact but for outliers: the problem that is solved is the one that was asked, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from .base import Rows
from .blocks import Block, Dense, Sparse, Stored, block_of

__all__ = ["FAR_FROM_ORIGIN", "centred", "far_centre", "may_be_far", "variance"]

FAR_FROM_ORIGIN = 100.0  # times its spread: from such a mean on inner products lose more than 4 of their 16 digits
SAMPLE_ROWS = 64  # rows that tell which features may be far; most data have none
SHORT_PRODUCT = 1 << 13  # numbers: a limit for BLAS costs more than such a product, which BLAS does not share anyway
MEAN_ROUNDING = 1e-14  # of a mean: entries that differ from it by less may all be equal
DOUBT = 4.0  # times less far in the sample: such a feature is still looked at in all rows


def far_centre(X: Any, weight: np.ndarray | None = None) -> np.ndarray:
    """A centre for those features that are far from the origin, 0 for the others: (d,) numbers.

    X: ``Rows``, an array, a sparse matrix, or whatever ``Rows.of`` takes. A row of weight 0 is absent. A constant
    feature is far: seen from its value it vanishes.
    """
    rows = X if isinstance(X, Rows) else Rows.of(X, 1)
    centre = np.zeros(rows.d)
    present = np.arange(rows.n) if weight is None else np.flatnonzero(weight)
    if not len(present):
        return centre
    weight = np.ones(rows.n) if weight is None else np.asarray(weight, np.float64)
    some = present[_sample(len(present))]
    features, sample = _candidates(rows, some)
    if not len(features):
        return centre
    mean, spread = _moments([(sample, np.ones(len(sample)))], sample[0])
    doubtful = np.abs(mean) > FAR_FROM_ORIGIN / DOUBT * spread
    features, first = features[doubtful], sample[0, doubtful]
    if not len(features):
        return centre
    with _one_thread(rows):
        mean, spread = _moments(((_columns(tile, features), weight[a:b]) for a, b, tile in _tiles(rows)), first)
    far = np.abs(mean) > FAR_FROM_ORIGIN * spread
    # Where rounding is all the spread there is (a constant feature, in effect) the mean is a number that occurs.
    grid = np.exp2(np.floor(np.log2(np.maximum(spread, np.spacing(np.abs(mean))))))
    centre[features[far]] = (grid * np.rint(mean / grid))[far]
    return centre


def may_be_far(X: sp.csr_array) -> bool:
    """Whether CSR rows have a feature that may be far: one that is in all rows of the sample. A few mostly tell."""
    full: np.ndarray | None = None
    for i in _sample(X.shape[0]):
        own = X.indices[X.indptr[i] : X.indptr[i + 1]]
        full = own if full is None else np.intersect1d(full, own)
        if not len(full):
            return False
    return True


def centred(X: Any, centre: np.ndarray) -> Any:
    """X seen from the centre: ``Rows`` as ``Rows``, an array as an array, a sparse matrix as CSR.

    Differences are taken in float64; float32 stays float32 where it holds all of them exactly. Rows that are stored
    elsewhere are moved when they are loaded.
    """
    if not np.any(centre):
        return X
    if not isinstance(X, Rows):
        return _moved(X, centre)
    if not X.stored:
        return Rows.of(_moved(X.matrix(), centre), X.threads)
    return Rows([_moved_block(block, centre) for block in X.blocks], X.threads)


def variance(X: Any, weight: np.ndarray | None = None) -> float:
    """The variance of all entries of X, zeros included, a row counting as its weight; accurate wherever they are."""
    rows = X if isinstance(X, Rows) else Rows([block_of(X)], 1)
    weight = np.ones(rows.n) if weight is None else np.asarray(weight, np.float64)
    total = float(weight.sum()) * rows.d
    with _one_thread(rows):

        def seen_from(value: float) -> float:
            powers = [_powers(tile, weight[a:b], value) for a, b, tile in _tiles(rows)]
            first, second = (sum(column) / total for column in zip(*powers, strict=True))
            return max(0.0, second - first * first)

        mean = sum(_weighed(tile, weight[a:b]) for a, b, tile in _tiles(rows)) / total
        found = seen_from(mean)
        if found > (MEAN_ROUNDING * mean) ** 2 or not rows.n:
            return found
        return seen_from(float(_gathered(rows, np.zeros(1, np.int64))[0, 0]))  # equal entries then vary by 0


def _sample(n: int) -> np.ndarray:
    """The rows, of n, that tell which features may be far."""
    return np.unique(np.linspace(0, n - 1, SAMPLE_ROWS).astype(np.int64))


def _one_thread(rows: Rows) -> AbstractContextManager:
    """BLAS with one thread: products of a tile are too short for more. A few rows do not wake others anyway."""
    return th.blas_limit(1) if rows.work > SHORT_PRODUCT else nullcontext()


def _weighed(tile: Dense | Sparse, weight: np.ndarray) -> float:
    """Σ w x over all entries; by SciPy where they are sparse, since a first fit would wait for a leaf of ours."""
    if isinstance(tile, Dense):
        return float((weight @ tile.data).sum())
    return float(weight @ (tile.csr() @ np.ones(tile.d)))


def _powers(tile: Dense | Sparse, weight: np.ndarray, mean: float) -> tuple[float, float]:
    """Σ w (x − mean) and Σ w (x − mean)² over all entries of a tile."""
    if isinstance(tile, Dense):
        x = tile.data - mean
        return float((weight @ x).sum()), float((weight @ (x * x)).sum())
    length = np.diff(tile.indptr)
    x, w = np.asarray(tile.csr().data, np.float64) - mean, np.repeat(weight, length)
    absent = float(weight @ (tile.d - length))
    return float(w @ x) - mean * absent, float((w * x) @ x) + mean * mean * absent


def _tiles(rows: Rows) -> Iterator[tuple[int, int, Dense | Sparse]]:
    """All rows as pieces in memory: start, stop, rows."""
    for block, start in zip(rows.blocks, rows.edges[:-1], strict=True):
        for a, b, tile in block.tiles():
            yield int(start) + a, int(start) + b, tile


def _candidates(rows: Rows, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features that may be far, and their values in these rows: one that is absent from some of them is not far."""
    if not rows.sparse:
        return np.arange(rows.d), _gathered(rows, index)
    some = rows.matrix(index)
    features = np.flatnonzero(np.bincount(some.indices, minlength=rows.d) == len(index))
    return features, np.asarray(some[:, features].toarray(), np.float64)


def _gathered(rows: Rows, index: np.ndarray) -> np.ndarray:
    """A few rows as a dense array; of rows that are stored elsewhere no others are loaded."""
    parts = []
    for block, start, stop in zip(rows.blocks, rows.edges[:-1], rows.edges[1:], strict=True):
        own = index[(index >= start) & (index < stop)] - start
        if isinstance(block, Stored):
            parts += [block.load(int(i), int(i) + 1) for i in own]
        elif len(own):
            parts.append(block.gather(own))
    return np.concatenate([np.asarray(p.toarray() if sp.issparse(p) else p, np.float64) for p in parts])


def _columns(tile: Dense | Sparse, features: np.ndarray) -> np.ndarray:
    if isinstance(tile, Sparse):
        return np.asarray(tile.csr()[:, features].toarray(), np.float64)
    return np.asarray(tile.data[:, features], np.float64)


def _moments(pieces: Iterable[tuple[np.ndarray, np.ndarray]], first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of each column of (rows, their weights); sums are taken from ``first``, which is one of the rows,
    so that they are as small as the spread."""
    total, sums, squares = 0.0, np.zeros(len(first)), np.zeros(len(first))
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large to be squared is not called far
        for rows, weight in pieces:
            away = rows - first
            total += float(weight.sum())
            sums += weight @ away
            squares += weight @ (away * away)
        shift = sums / total
        return first + shift, np.sqrt(np.maximum(squares / total - shift * shift, 0.0))


def _moved(X: Any, centre: np.ndarray) -> Any:
    """A copy of an array or a sparse matrix, seen from the centre."""
    far = np.flatnonzero(centre)
    away = np.asarray(X[:, far].toarray() if sp.issparse(X) else X[:, far], np.float64) - centre[far]
    kept = X.dtype == np.float32 and bool((away.astype(np.float32) == away).all())
    dtype = np.dtype(np.float32 if kept else np.float64)
    if not sp.issparse(X):
        out = np.array(X, dtype)
        out[:, far] = away
        return out
    rest = sp.csr_array(X, dtype=dtype, copy=True)
    rest.data[(centre != 0.0)[rest.indices]] = 0.0
    rest.eliminate_zeros()
    n, d = X.shape
    places = np.tile(far, n), np.arange(0, n * len(far) + 1, len(far))
    moved = rest + sp.csr_array((away.astype(dtype).ravel(), *places), shape=(n, d))  # no place is in both
    return sp.csr_matrix(moved) if isinstance(X, sp.spmatrix) else moved


def _moved_block(block: Block, centre: np.ndarray) -> Block:
    if isinstance(block, Dense):
        return Dense(_moved(block.data, centre))
    if isinstance(block, Sparse):
        return Sparse.of(_moved(block.csr(), centre))
    assert isinstance(block, Stored)
    load = block.load

    def moved(a: int, b: int) -> Any:
        rows = load(a, b)
        return _moved(rows if sp.issparse(rows) else np.asarray(rows, np.float64), centre)  # one type for all tiles

    return Stored(moved, block.n, block.d, block.tile)
