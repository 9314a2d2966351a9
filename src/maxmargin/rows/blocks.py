"""A block of rows: dense in memory, sparse in memory, or stored somewhere and loaded a tile at a time.

Every kind answers

    dot(w)                  X w                                     one w or several as columns
    t_dot(v)                Xᵀ v
    normal(θ, extra)        the upper triangle of Ẑᵀ diag(θ) Ẑ, Ẑ = [X, extra]
    tiles()                 itself as pieces (start, stop, block in memory), each small enough to stay in a core's cache

in float64, whatever the type of X; a solver that fuses several answers asks the tiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from .. import threads as th
from .._jit import read_only
from .leaves import (
    csr_dot,
    csr_fill,
    csr_normal,
    csr_scale,
    csr_squares,
    csr_t_dot,
    csr_t_squares,
    csr_widen,
    dense_count,
    dense_pack,
    spread_rows,
)
from .maps import map_reader

__all__ = ["Block", "Dense", "Sparse", "Stored", "Watched", "block_of", "entries_of"]

TILE_BYTES = 1 << 18  # bytes of dense rows stay in the second cache with what is computed from them
TILE_ENTRIES = 1 << 18  # entries of sparse rows make a tile
TILE_PAIRS = 1 << 19  # or pairs of these, where they are added to a matrix: some 10 ms if no cache holds it
SYRK_ROWS = 256  # rows are collected for one SYRK: with fewer, reading the d × d result costs more than the products
STORED_TILE_BYTES = 1 << 23  # bytes are loaded at a time: enough for a disk to be quick, few enough for any memory
SPARSE_DENSITY = (
    0.25  # of the entries: with fewer, sparse products beat BLAS (measured: a9a .11, MNIST .19, covtype .22)
)
SCATTER_COST = 16.0  # products of a SYRK take as long as one product in the sparse scatter (measured)


class Block(ABC):
    """Some rows of X."""

    n: int
    d: int

    @property
    @abstractmethod
    def work(self) -> int:
        """How many numbers a product touches."""

    def look(self) -> None:
        """Raises where it is time to stop: never, unless somebody watches these rows."""
        return

    @abstractmethod
    def tiles(self, squared: bool = False) -> Iterator[tuple[int, int, Dense | Sparse]]:
        """The rows as pieces in memory: start, stop, rows; smaller ones where each pair of a row's entries counts."""

    @abstractmethod
    def gather(self, index: np.ndarray) -> Any:
        """Rows with these ascending numbers as an array or as CSR."""

    @abstractmethod
    def split(self, parts: int) -> list[Block]:
        """The same rows as about that many blocks of about the same work."""

    @abstractmethod
    def scaled(self, factor: np.ndarray) -> Block:
        """Each row times its factor."""

    @abstractmethod
    def widened(self, constant: float) -> Block:
        """Each row with one more feature, the same for all."""

    def dot(self, w: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """X w."""
        out = np.empty((self.n, *np.shape(w)[1:])) if out is None else out
        for a, b, tile in self.tiles():
            tile.dot(w, out[a:b])
        return out

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        """Xᵀ v."""
        out = np.zeros((self.d, *np.shape(v)[1:]))
        for a, b, tile in self.tiles():
            out += tile.t_dot(v[a:b])
        return out

    def squared_norms(self, out: np.ndarray | None = None) -> np.ndarray:
        """‖x_i‖² in float64."""
        out = np.empty(self.n) if out is None else out
        for a, b, tile in self.tiles():
            tile.squared_norms(out[a:b])
        return out

    def t_squares(self, v: np.ndarray) -> np.ndarray:
        """Σ_i v_i x_ij² for each feature."""
        return np.sum([tile.t_squares(v[a:b]) for a, b, tile in self.tiles()], axis=0)

    def normal(self, theta: np.ndarray, extra: np.ndarray, single: bool = False) -> np.ndarray:
        """The upper triangle of Ẑᵀ diag(θ) Ẑ; rows whose θ is 0 are not looked at."""
        total = Normal(self.d, extra.shape[1], single, self.look)
        for a, b, tile in self.tiles(squared=True):
            if theta[a:b].any():
                total.add(tile, theta[a:b], extra[a:b])
        return total.upper()


class Normal:
    """A normal matrix being added up: sparse rows by scatter, dense rows by SYRK in batches.

    It may serve again and again (``clear``): memory of that size is cheap to fill and dear to get.
    """

    def __init__(self, d: int, more: int, single: bool = False, look: Callable[[], object] = lambda: None) -> None:
        self.size = d + more
        self.single = single
        self.look = look  # before each piece of memory that is got or filled, and may raise
        self.sum: np.ndarray | None = None  # by SYRK, columns one after the other
        self.scattered: np.ndarray | None = None  # by scatter, rows one after the other
        self.buffer: np.ndarray | None = None
        self.filled = 0

    def clear(self) -> Normal:
        """Begin again from 0."""
        for matrix in (self.sum, self.scattered):
            if matrix is not None:
                self._zero(matrix)
        self.filled = 0
        return self

    def _zero(self, matrix: np.ndarray) -> np.ndarray:
        lines = matrix if matrix.flags.c_contiguous else matrix.T
        step = max(1, TILE_BYTES // (8 * self.size))
        for a in range(0, self.size, step):
            self.look()
            lines[a : a + step] = 0.0
        return matrix

    def add(self, tile: Dense | Sparse, theta: np.ndarray, extra: np.ndarray) -> None:
        """Rows of a tile, those with θ = 0 left out."""
        if isinstance(tile, Sparse) and SCATTER_COST * (tile.work / max(1, tile.n)) ** 2 < self.size**2:
            if self.scattered is None:
                self.scattered = self._zero(np.empty((self.size, self.size)))
            csr_normal(tile.indptr, tile.indices, tile.data, theta, extra, self.scattered)
            return
        if self.buffer is None:
            rows = max(SYRK_ROWS, TILE_BYTES // (8 * self.size))
            self.buffer = np.empty((rows, self.size), np.float32 if self.single else np.float64)
        done = 0
        while done < tile.n:
            done, self.filled = tile.collect(theta, extra, self.buffer, done, self.filled)
            if self.filled == len(self.buffer):
                self._flush()

    def _flush(self) -> None:
        from scipy.linalg.blas import dsyrk, ssyrk  # here: a prediction does not wait for it

        assert self.buffer is not None
        rows = self.buffer[: self.filled].T
        if self.sum is None:
            self.sum = np.zeros((self.size, self.size), order="F")
        if self.single:
            self.sum += ssyrk(1.0, rows)
        else:
            self.sum = dsyrk(1.0, rows, beta=1.0, c=self.sum, overwrite_c=1)
        self.filled = 0

    def upper(self) -> np.ndarray:
        """The upper triangle, until the next ``clear``; what is below it means nothing."""
        if self.filled:
            self._flush()
        if self.sum is not None and self.scattered is not None:
            self.sum += self.scattered
            self.scattered.fill(0.0)
        if self.sum is None and self.scattered is not None:
            return self.scattered
        if self.sum is None:
            self.sum = np.zeros((self.size, self.size), order="F")
        return self.sum


class Dense(Block):
    """An array in memory, of any real type; other types than float64 are cast a tile at a time."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.n, self.d = data.shape

    @property
    def work(self) -> int:
        return self.data.size

    def tiles(self, squared: bool = False) -> Iterator[tuple[int, int, Dense | Sparse]]:
        step = max(16, TILE_BYTES // (8 * max(1, self.d)))
        if self.n <= step:
            yield 0, self.n, Dense(self._wide(0, self.n))
            return
        for a in range(0, self.n, step):
            b = min(self.n, a + step)
            yield a, b, Dense(self._wide(a, b))

    def _wide(self, a: int, b: int) -> np.ndarray:
        return np.asarray(self.data[a:b], np.float64)

    def dot(self, w: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if self.data.dtype != np.float64:
            return super().dot(w, out)
        return np.matmul(self.data, w, out=out)

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        return self.data.T @ v if self.data.dtype == np.float64 else super().t_dot(v)

    def squared_norms(self, out: np.ndarray | None = None) -> np.ndarray:
        if self.data.dtype != np.float64:
            return super().squared_norms(out)
        return np.einsum("ij,ij->i", self.data, self.data, out=out)

    def t_squares(self, v: np.ndarray) -> np.ndarray:
        if self.data.dtype != np.float64 or self.data.nbytes > 2 * TILE_BYTES:
            return super().t_squares(v)
        return (self.data * self.data).T @ v

    def collect(
        self, theta: np.ndarray, extra: np.ndarray, buffer: np.ndarray, first: int, filled: int
    ) -> tuple[int, int]:
        """Rows from ``first`` on, times √θ, appended to the buffer while there is room: next row and filling."""
        return dense_pack(self.data, theta, extra, buffer, first, filled)

    def gather(self, index: np.ndarray) -> Any:
        return self.data[index]

    def split(self, parts: int) -> list[Block]:
        if parts == 1 and self.n:
            return [self]
        edges = np.linspace(0, self.n, parts + 1).astype(np.int64)
        return [Dense(self.data[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]

    def scaled(self, factor: np.ndarray) -> Block:
        dtype = self.data.dtype if self.data.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        return Dense(self.data * factor[:, None].astype(dtype))

    def widened(self, constant: float) -> Block:
        out = np.empty((self.n, self.d + 1), np.result_type(self.data.dtype, np.float32))
        out[:, :-1], out[:, -1] = self.data, constant
        return Dense(out)


class Sparse(Block):
    """CSR rows in memory: offsets of either width, feature numbers ascending in each row."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, d: int) -> None:
        self.indptr, self.indices, self.data = indptr, indices, data  # indptr[0] need not be 0
        self.n, self.d = len(indptr) - 1, d

    @classmethod
    def of(cls, X: Any) -> Sparse:
        rows = sp.csr_array(X)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        real = rows.data.dtype in (np.float32, np.float64)
        return cls(rows.indptr, rows.indices, rows.data if real else rows.data.astype(np.float64), rows.shape[1])

    @property
    def work(self) -> int:
        return int(self.indptr[-1] - self.indptr[0])

    def part(self, a: int, b: int) -> Sparse:
        """Rows a … b − 1; nothing is copied."""
        return Sparse(self.indptr[a : b + 1], self.indices, self.data, self.d)

    def tiles(self, squared: bool = False) -> Iterator[tuple[int, int, Dense | Sparse]]:
        step = TILE_ENTRIES * self.n // max(1, self.work)
        if squared:
            step = min(step, TILE_PAIRS * self.n**2 // max(1, self.work) ** 2)
        step = max(64, step)
        for a in range(0, self.n, step):
            b = min(self.n, a + step)
            yield a, b, self.part(a, b)

    def dot(self, w: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((self.n, *np.shape(w)[1:])) if out is None else out
        columns = (w[:, None], out[:, None]) if np.ndim(w) == 1 else (w, out)
        csr_dot(self.indptr, self.indices, self.data, *columns)
        return out

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros((self.d, *np.shape(v)[1:]))
        v = np.ascontiguousarray(v)  # the leaf is compiled for this order alone
        columns = (v[:, None], out[:, None]) if np.ndim(v) == 1 else (v, out)
        csr_t_dot(self.indptr, self.indices, self.data, *columns)
        return out

    def squared_norms(self, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty(self.n) if out is None else out
        csr_squares(self.indptr, self.data, out)
        return out

    def t_squares(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros(self.d)
        csr_t_squares(self.indptr, self.indices, self.data, v, out)
        return out

    def collect(
        self, theta: np.ndarray, extra: np.ndarray, buffer: np.ndarray, first: int, filled: int
    ) -> tuple[int, int]:
        """As dense rows do."""
        return spread_rows(self.indptr, self.indices, self.data, theta, extra, buffer, first, filled)

    def csr(self) -> sp.csr_array:
        """As SciPy has it."""
        a, b = int(self.indptr[0]), int(self.indptr[-1])
        return sp.csr_array((self.data[a:b], self.indices[a:b], self.indptr - a), shape=(self.n, self.d))

    def gather(self, index: np.ndarray) -> Any:
        return self.csr()[index]

    def split(self, parts: int) -> list[Block]:
        inside = np.searchsorted(self.indptr, self.indptr[0] + self.work * np.arange(1, parts) // parts)
        edges = np.unique(np.concatenate([[0], inside, [self.n]]))
        return [self.part(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def scaled(self, factor: np.ndarray) -> Block:
        out = np.empty(self.work, self.data.dtype)
        csr_scale(self.indptr, self.data, np.asarray(factor, np.float64), out)
        a, b = int(self.indptr[0]), int(self.indptr[-1])
        return Sparse(self.indptr - a, self.indices[a:b], out, self.d)

    def widened(self, constant: float) -> Block:
        size = self.work + self.n
        offsets, features = _wide_enough(self.indptr.dtype, size), _wide_enough(self.indices.dtype, self.d)
        wider = np.zeros(self.n + 1, offsets), np.empty(size, features), np.empty(size, self.data.dtype)
        csr_widen(self.indptr, self.indices, self.data, constant, self.d, *wider)
        return Sparse(*wider, self.d + 1)


def _wide_enough(dtype: DTypeLike, largest: int) -> np.dtype:
    """A type of signed whole numbers that holds this one and all of another such type."""
    return np.result_type(dtype, np.min_scalar_type(-largest - 1))


class Stored(Block):
    """Rows that live elsewhere: ``load(start, stop)`` brings some of them, as an array or as CSR."""

    def __init__(self, load: Callable[[int, int], Any], n: int, d: int, tile: int | None = None) -> None:
        self.load = load
        self.n, self.d = n, d
        self.tile = tile or max(1, STORED_TILE_BYTES // (8 * max(1, d)))

    @property
    def work(self) -> int:
        return self.n * self.d

    def tiles(self, squared: bool = False) -> Iterator[tuple[int, int, Dense | Sparse]]:
        for start in range(0, self.n, self.tile):
            stop = min(self.n, start + self.tile)
            rows = self.load(start, stop)
            for a, b, tile in (Sparse.of(rows) if sp.issparse(rows) else Dense(np.asarray(rows))).tiles(squared):
                yield start + a, start + b, tile

    def gather(self, index: np.ndarray) -> Any:
        parts, out, filled = [], None, 0
        for start in range(0, self.n, self.tile):
            stop = min(self.n, start + self.tile)
            a, b = np.searchsorted(index, (start, stop))
            if b == a:
                continue
            rows = self.load(start, stop)
            if sp.issparse(rows):
                parts.append(rows[index[a:b] - start])
                continue
            rows = np.asarray(rows)
            if out is None:
                out = np.empty((len(index), self.d), rows.dtype)  # in one piece, so that there is never a second one
            out[filled : filled + b - a] = rows[index[a:b] - start]
            filled += b - a
        if out is not None:
            return out
        return sp.vstack(parts, format="csr") if parts else self.load(0, 1)[:0]

    def split(self, parts: int) -> list[Block]:
        edges = np.linspace(0, self.n, parts + 1).astype(np.int64)
        return [self._part(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]

    def _part(self, first: int, last: int) -> Stored:
        return Stored(lambda a, b: self.load(first + a, first + b), last - first, self.d, self.tile)

    def _changed(self, change: Callable[[Block, int, int], Block], d: int) -> Stored:
        def load(a: int, b: int) -> Any:
            rows = self.load(a, b)
            changed = change(Sparse.of(rows) if sp.issparse(rows) else Dense(np.asarray(rows)), a, b)
            return changed.csr() if isinstance(changed, Sparse) else changed.data  # type: ignore[attr-defined]

        return Stored(load, self.n, d, self.tile)

    def scaled(self, factor: np.ndarray) -> Block:
        return self._changed(lambda block, a, b: block.scaled(factor[a:b]), self.d)

    def widened(self, constant: float) -> Block:
        return self._changed(lambda block, a, b: block.widened(constant), self.d + 1)


class Watched(Block):
    """The rows of a block, with a look before each tile that is read: what ``look`` raises ends the reading."""

    def __init__(self, block: Block, look: Callable[[], object]) -> None:
        self.block, self.look = block, look  # type: ignore[method-assign,assignment]
        self.n, self.d = block.n, block.d

    @property
    def work(self) -> int:
        return self.block.work

    def tiles(self, squared: bool = False) -> Iterator[tuple[int, int, Dense | Sparse]]:
        for tile in self.block.tiles(squared):
            self.look()
            yield tile

    def gather(self, index: np.ndarray) -> Any:
        self.look()
        return self.block.gather(index)

    def split(self, parts: int) -> list[Block]:
        return [Watched(part, self.look) for part in self.block.split(parts)]

    def scaled(self, factor: np.ndarray) -> Block:
        return Watched(self.block.scaled(factor), self.look)

    def widened(self, constant: float) -> Block:
        return Watched(self.block.widened(constant), self.look)


def block_of(X: Any, threads: int = 1) -> Block:
    """X as one block of the kind that serves it best."""
    if isinstance(X, Block):
        return X
    if sp.issparse(X):
        return Sparse.of(X)
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(f"rows were asked for; found an array of {X.ndim} dimensions; give a matrix")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"rows were asked for; found numbers of type {X.dtype}; give real numbers")
        mapped = map_reader(X)
        if mapped is not None:
            return Stored(mapped, *X.shape)
        sparse = _as_sparse(X, threads)
        return Dense(X) if sparse is None else sparse
    shape = getattr(X, "shape", None)
    if shape is None or len(shape) != 2 or not hasattr(X, "__getitem__"):
        raise TypeError(
            f"rows were asked for; found {type(X).__name__}; give an array, a sparse matrix, the path of an .npy file, "
            "a sequence of these, or anything with a shape whose slices are arrays"
        )
    return Stored(lambda a, b: X[a:b], int(shape[0]), int(shape[1]))


def _as_sparse(X: np.ndarray, threads: int) -> Sparse | None:
    """Dense rows as sparse ones where most of their entries are 0."""
    n, d = X.shape
    if n == 0 or X.dtype not in (np.float32, np.float64) or not X.flags.c_contiguous:
        return None
    found = entries_of(X, threads, SPARSE_DENSITY * X.size)
    return None if found is None else Sparse(*found, d)


def entries_of(
    X: np.ndarray, threads: int = 1, most: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Offsets, feature numbers and values of what is not 0 in dense rows, or None where there is more than ``most``."""
    n, d = X.shape
    sample = X[:: max(1, n // 512)]
    if most < X.size and np.count_nonzero(sample) * X.size > most * sample.size:
        return None
    X, grain = read_only(np.ascontiguousarray(X)), th.grain(d)
    indptr = np.zeros(n + 1, np.int64)
    th.spread(lambda a, b: dense_count(X, indptr, a, b), n, threads, grain, align=1)
    np.cumsum(indptr, out=indptr)
    if indptr[-1] > most:
        return None
    indices, data = np.empty(indptr[-1], _wide_enough(np.int32, d)), np.empty(indptr[-1], X.dtype)
    th.spread(lambda a, b: csr_fill(X, indptr, indices, data, a, b), n, threads, grain, align=1)
    return indptr, indices, data
