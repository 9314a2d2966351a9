"""Numbers that say what a sample is, or where it stands: in their order samples are shuffled and copies meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._jit import inline, jit, read_only

__all__ = ["place_hashes", "row_hashes"]

MINUS_ZERO = np.uint64(1 << 63)  # its bits
ENTRIES = 1 << 20  # numbers that are cast at a time


def row_hashes(X: Any, seed: int) -> np.ndarray:
    """A number for each row, the same for equal rows, dense or sparse, in float32 or float64, wherever they stand.

    Sums of integers do not depend on their order, and entries that are 0 add nothing.
    """
    n, d = X.shape
    odd = _odd(seed, d)
    out = np.empty(n, np.uint64)
    step = max(1, ENTRIES * n // max(1, X.nnz if sp.issparse(X) else n * d))
    for a in range(0, n, step):
        block = X[a : a + step]
        if sp.issparse(block):
            if not block.has_canonical_format:  # an entry may be the sum of several
                block = block.copy()
                block.sum_duplicates()
            bits = np.ascontiguousarray(block.data, np.float64).view(np.uint64)
            arrays = (read_only(part) for part in (block.indptr.astype(np.int64, copy=False), block.indices, bits))
            _sum_mixed_entries(*arrays, odd, out[a : a + step])
        else:
            bits = np.ascontiguousarray(block, np.float64).view(np.uint64)
            _sum_mixed(read_only(bits), odd, out[a : a + step])
    return _mixed(out)


def place_hashes(n: int, seed: int) -> np.ndarray:
    """A number for each of n places."""
    return _mixed(np.arange(1, n + 1, dtype=np.uint64) * _odd(seed, 1)[0])


def _odd(seed: int, count: int) -> np.ndarray:
    """Odd numbers of 64 bits."""
    return np.random.default_rng(seed).integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Each number with its bits stirred (the last step of SplitMix64); 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


_mixed_one = inline(_mixed)  # in leaves


@jit
def _sum_mixed(bits, odd, out):
    """Σ_j of the mixed bits of each row's entries, times an odd number for each column; −0 is 0."""
    for i in range(len(out)):
        total = np.uint64(0)
        for j in range(len(odd)):
            total += _mixed_one(bits[i, j] if bits[i, j] != MINUS_ZERO else np.uint64(0)) * odd[j]
        out[i] = total


@jit
def _sum_mixed_entries(indptr, indices, bits, odd, out):
    """The same of sparse rows."""
    for i in range(len(out)):
        total = np.uint64(0)
        for at in range(indptr[i], indptr[i + 1]):
            total += _mixed_one(bits[at] if bits[at] != MINUS_ZERO else np.uint64(0)) * odd[indices[at]]
        out[i] = total
