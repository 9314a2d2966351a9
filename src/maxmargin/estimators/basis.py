"""The points of a reduced expansion: drawn, means of clusters, or chosen one by one.

Every choice is made among the different rows of X, each with the weight of all its copies, in an order that comes from
the rows themselves: a key is computed from the numbers of a row. So a sample of weight w is exactly w copies of it,
and the order of the samples has no influence. With u a uniform number made of the key, −log u / w is when the first of
w clocks rings: the first k of them are k rows drawn without replacement, with chances in proportion to their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from .objects import Objects

__all__ = ["Candidates", "cluster_means", "row_keys"]

KEY_ENTRIES = 1 << 20  # of X that are looked at together


@dataclass(frozen=True)
class Candidates:
    """The different rows of X."""

    first: np.ndarray  # the number of the first sample with each of them
    weight: np.ndarray  # of all samples with it
    clock: np.ndarray  # when each is drawn
    samples: np.ndarray  # numbers of the samples that have a weight
    copy_of: np.ndarray  # the number of the row that each of these has

    @classmethod
    def of(cls, X: Any, weight: np.ndarray, seed: int) -> Candidates:
        """Those of the samples that have a weight."""
        present = np.flatnonzero(weight)
        keys = row_keys(X, seed)
        if len(present) < len(keys):
            keys = keys[present]
        found, first, copy_of = np.unique(keys, return_index=True, return_inverse=True)
        mass = np.bincount(copy_of, weight[present], len(found))
        uniform = ((found >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return cls(present[first], mass, -np.log(uniform) / mass, present, copy_of)

    def __len__(self) -> int:
        return len(self.first)

    def drawn(self, count: int) -> np.ndarray:
        """Numbers of different rows, as they are drawn."""
        return np.argsort(self.clock, kind="stable")[:count]


def row_keys(X: Any, seed: int) -> np.ndarray:
    """A number for each row that depends on its entries and the seed alone: equal rows have equal ones.

    Entries that are 0 count for nothing, whether they are stored or not, and float32 counts as float64.
    """
    if isinstance(X, Objects):  # whose content nobody knows: it is their places that count
        return np.random.default_rng(seed).integers(1 << 63, size=len(X), dtype=np.uint64)
    odd = np.random.default_rng(seed).integers(1 << 63, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    if sp.issparse(X):
        rows = sp.csr_array(X)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        sums = np.zeros(rows.shape[0], np.uint64)
        filled = np.flatnonzero(np.diff(rows.indptr))
        if len(filled):
            sums[filled] = np.add.reduceat(_mixed(rows.data, odd[rows.indices]), rows.indptr[filled])
    else:
        step = max(1, KEY_ENTRIES // max(1, X.shape[1]))
        parts = [_mixed(X[a : a + step], odd).sum(axis=1, dtype=np.uint64) for a in range(0, len(X), step)]
        sums = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
    # The finaliser of SplitMix64, which makes neighbours differ in half of their bits.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        sums = (sums ^ (sums >> np.uint64(shift))) * np.uint64(factor)
    return sums ^ (sums >> np.uint64(31))


def _canonical(rows: Any) -> Any:
    """Sparse rows with each entry stored once and none that is 0, in 32 bits where their numbers fit.

    scikit-learn takes no other indices for clusters, and what it draws depends on how many entries are stored.
    """
    rows = sp.csr_array(rows, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    width = sp.get_index_dtype(maxval=max(rows.nnz, *rows.shape))
    return sp.csr_array((rows.data, rows.indices.astype(width), rows.indptr.astype(width)), shape=rows.shape)


def _mixed(values: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """A number for each entry, 0 for an entry of 0."""
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)  # + 0: −0 is 0
    # The last bits of most numbers are 0, and a product moves bits up only: they go down first.
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (29, 0x9E3779B97F4A7C15)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(32))) * odd


def cluster_means(X: Any, candidates: Candidates, count: int, seed: int) -> np.ndarray:
    """Means of clusters of the samples, dense."""
    from sklearn.cluster import MiniBatchKMeans  # here: it imports half of scikit-learn, and few fits need it

    order = candidates.drawn(len(candidates))
    rows, weight = X[candidates.first[order]], candidates.weight[order]
    if sp.issparse(rows):
        rows = _canonical(rows)
    clusters = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(1024, 2 * count))
    with threadpool_limits(1, user_api="openmp"):  # on cores that others use, threads that spin take 40 times as long
        return clusters.fit(rows, sample_weight=weight).cluster_centers_
