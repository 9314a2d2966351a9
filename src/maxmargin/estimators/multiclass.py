"""One against one: which rows a pair of classes has, and LIBSVM's layout of what the pairs found.

With k classes there are k (k − 1) / 2 problems, in the order 0v1, 0v2, …, 1v2, …. Support vectors are grouped by
class. Column s of ``dual_coef_`` (k − 1 rows) holds the coefficients of support vector s of class i: row j − 1 in
the problem against a later class j, row j in the problem against an earlier class j.

300 classes make 44 850 pairs. So nothing here has the length of all samples for each pair, nor a decision of each pair
for all samples (unless that is asked for), nor a step of Python for each pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function

from .. import threads as th
from .._jit import jit
from ..solvers.parts.small_problems import BATCH_POINTS, Batch

__all__ = ["Pairs", "decide_pairs", "pair_weights", "shaped", "weighed_classes"]

ENTRIES_A_TIME = 1 << 20  # of the coefficients, put in their place together
PARTS_BYTES = 1 << 22  # what support vectors of each class add to the decisions of some samples, held by a thread
ALL_PARTS_BYTES = 1 << 26  # by all threads together: with many of them, some have to wait
TILE_BYTES = 1 << 20  # kernel values that stay near a core between two products
FEW_VECTORS = 8  # of a class: below, a product by BLAS takes longer to begin than to compute
MOST_ROWS = 256  # samples of a block: more do not make its products quicker


def weighed_classes(y, weight: np.ndarray, class_weight) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(classes, a factor for each, the samples that are there, their class numbers).

    A sample of weight 0 is not there, nor are those of a class of weight 0; "balanced" counts weights as copies.
    """
    present = np.flatnonzero(weight)
    classes, labels = _numbered(y[present])
    if class_weight is None:
        factors = np.ones(len(classes))
    elif isinstance(class_weight, str) and class_weight == "balanced":
        mass = np.bincount(labels, weight[present])
        factors = mass.sum() / (len(classes) * mass)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=y[present])
        if not (np.isfinite(factors) & (factors >= 0)).all():
            raise ValueError(
                f"class_weight={class_weight!r} was asked for; found a weight that is negative or not finite; "
                "give weights >= 0"
            )
    if (factors == 0).any():
        present, factors = present[factors[labels] > 0], factors[factors > 0]
        classes, labels = _numbered(y[present])
    if len(classes) < 2:
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
    return classes, factors, present, labels


def _numbered(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the number of each sample's; two of them, as there mostly are, without sorting."""
    if len(y) and y.dtype.kind in "biuf":
        rest = y[y != y[0]]
        if len(rest) and (rest == rest[0]).all():
            classes = np.sort(np.array([y[0], rest[0]], y.dtype))
            return classes, (y == classes[1]).astype(np.intp)
    return np.unique(y, return_inverse=True)


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of k classes: pair c has the samples rows[starts[c] : starts[c + 1]], ascending."""

    labels: np.ndarray  # class number of each sample
    k: int

    def __len__(self) -> int:
        return self.k * (self.k - 1) // 2

    @cached_property
    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.k, 1)

    @property
    def first(self) -> np.ndarray:
        """The class i of each pair i < j."""
        return self._classes[0]

    @property
    def second(self) -> np.ndarray:
        """The class j of each pair i < j."""
        return self._classes[1]

    @cached_property
    def count(self) -> np.ndarray:
        """Samples of each class."""
        return np.bincount(self.labels, minlength=self.k)

    @cached_property
    def order(self) -> np.ndarray:
        """Samples by class."""
        return np.argsort(self.labels, kind="stable")

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.count[self.first] + self.count[self.second])])

    @cached_property
    def rows(self) -> np.ndarray:
        edges = np.concatenate([[0], np.cumsum(self.count)])
        rows = np.empty(self.starts[-1], np.int64)
        merge_classes(self.order, edges, self.first, self.second, self.starts, rows)
        return rows

    @cached_property
    def targets(self) -> np.ndarray:
        """±1 of each row: +1 for the class i of a pair i < j, except with two classes: +1 for the second.

        scikit-learn flips the sign for two classes, so that a positive decision means ``classes_[1]``.
        """
        positive = self.second if self.k == 2 else self.first
        return np.where(self.labels[self.rows] == np.repeat(positive, np.diff(self.starts)), 1.0, -1.0)

    def at(self, pair: int) -> slice:
        """Where the rows of one pair are."""
        return slice(self.starts[pair], self.starts[pair + 1])

    def batches(self, most: int = BATCH_POINTS) -> list[Batch]:
        """The pairs by sets of classes, so that no more than ``most`` samples are needed at a time.

        Sets have half as many samples each; two sets make a batch. The matrices of all batches together have at most
        twice as many entries as that of all samples.
        """
        if len(self.labels) <= most:
            return [Batch(np.arange(len(self.labels)), np.arange(len(self)))]
        group = _sets(self.count, most // 2)
        left, right = group[self.first], group[self.second]
        last = int(group[-1])
        right = np.where(left == right, np.minimum(left + 1, last), right)  # inside of a set: with its neighbour
        left = np.where(left == right, last - 1, left)
        number = left * (last + 1) + right
        order = np.argsort(number, kind="stable")
        edges = np.flatnonzero(np.diff(number[order], prepend=-1, append=-1))
        own = group[self.labels]
        return [
            Batch(np.flatnonzero((own == left[order[a]]) | (own == right[order[a]])), order[a:b])
            for a, b in zip(edges[:-1], edges[1:], strict=True)
        ]

    def published(self, support: np.ndarray, n_support: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """The coefficient of each row of each pair, as LIBSVM's layout says: ``layout`` the other way round."""
        column = np.full(len(self.labels), -1)
        column[support] = np.arange(len(support))
        coef = np.zeros(len(self.rows))
        for a in range(0, len(coef), ENTRIES_A_TIME):
            entries = a + np.flatnonzero(column[self.rows[a : a + ENTRIES_A_TIME]] >= 0)
            rows = self.rows[entries]
            pair = np.searchsorted(self.starts, entries, side="right") - 1
            own = self.labels[rows]
            other = self.first[pair] + self.second[pair] - own
            coef[entries] = dual[other - (other > own), column[rows]]
        return coef

    def layout(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(support, n_support, dual_coef) from the coefficient of each row of each pair."""
        used = np.zeros(len(self.labels), bool)
        used[self.rows[np.flatnonzero(coef)]] = True
        support = self.order[used[self.order]]
        column = np.empty(len(self.labels), np.int64)
        column[support] = np.arange(len(support))
        dual = np.zeros((self.k - 1, len(support)))
        for a in range(0, len(coef), ENTRIES_A_TIME):
            entries = a + np.flatnonzero(coef[a : a + ENTRIES_A_TIME])
            rows = self.rows[entries]
            pair = np.searchsorted(self.starts, entries, side="right") - 1
            own = self.labels[rows]
            other = self.first[pair] + self.second[pair] - own
            dual[other - (other > own), column[rows]] = coef[entries]
        return support, np.bincount(self.labels[support], minlength=self.k).astype(np.int32), dual


def _sets(count: np.ndarray, most: int) -> np.ndarray:
    """Consecutive classes in sets of at most ``most`` samples (a larger class is a set): the number of each one's."""
    group = np.empty(len(count), np.int64)
    number, filled = 0, 0
    for c, size in enumerate(count):
        if filled and filled + size > most:
            number, filled = number + 1, 0
        group[c] = number
        filled += size
    return group


def shaped(decisions: np.ndarray, k: int, shape: str) -> np.ndarray:
    """The decisions of all pairs, (n, pairs), in one of the shapes of ``decide_pairs``."""
    if shape == "ovo":
        return decisions
    if shape != "votes":
        scores = _ovr_decision_function(decisions < 0, -decisions, k)
        return scores if shape == "ovr" else scores.argmax(axis=1)
    votes = np.empty(len(decisions), np.int64)
    most_votes(np.ascontiguousarray(decisions, np.float64), k, votes)
    return votes


def decide_pairs(
    values: Callable[[slice, slice], np.ndarray],
    dual: np.ndarray,
    n_support: np.ndarray,
    intercept: np.ndarray,
    n: int,
    shape: str,
    more: Callable[[slice], np.ndarray] | None = None,
    threads: int = 1,
) -> np.ndarray:
    """Decisions for n samples, a block of them at a time.

    ``values(rows, columns)`` are the kernel values of some samples with some support vectors, ``more(rows)`` what is
    added to the decision of each pair. ``shape``: "ovo" (n, pairs), "ovr" (n, classes) as scikit-learn makes it of
    these, "votes" the class with most votes (ties go to the earlier one, as in LIBSVM), "scores" the best of "ovr".

    A class takes part in k − 1 pairs only, so the product by classes is k / 2 times cheaper than one with a coefficient
    for each support vector and pair. Blocks are of a fixed size, so that the threads that share them change no digit.
    """
    k = len(n_support)
    few = dual.shape[1] < FEW_VECTORS * k
    coef = np.ascontiguousarray(dual.T) if few else dual.T
    intercept = np.ascontiguousarray(intercept, np.float64)
    step = int(np.clip(PARTS_BYTES // (8 * k * (k - 1)), 1, MOST_ROWS))
    tiles = _tiles(n_support, max(1, TILE_BYTES // (8 * step)))
    width = {"ovo": len(intercept), "ovr": k}
    out: np.ndarray = np.empty((n, width[shape])) if shape in width else np.empty(n, np.int64)

    def decide(rows: slice, room: np.ndarray) -> None:
        parts = room[: k * (min(rows.stop, n) - rows.start) * (k - 1)].reshape(k, -1, k - 1)
        parts[:] = 0.0
        for columns, classes in tiles:
            tile = values(rows, columns)
            if few:
                add_products(tile, coef[columns], classes - [0, columns.start, columns.start], parts)
                continue
            for c, a, b in classes:
                parts[c] += tile[:, a - columns.start : b - columns.start] @ coef[a:b]
        extra = np.zeros((0, 0)) if more is None else np.ascontiguousarray(more(rows), np.float64)
        if shape == "ovo":
            join_parts(parts, intercept, extra, out[rows])
        elif shape == "votes":
            count_votes(parts, intercept, extra, out[rows])
        else:
            scores = out[rows] if shape == "ovr" else np.empty((parts.shape[1], k))
            score_classes(parts, intercept, extra, scores)
            if shape == "scores":
                out[rows] = scores.argmax(axis=1)

    def blocks(first: int, last: int) -> None:
        room = np.empty(k * step * (k - 1))  # once: fresh memory for each block would cost more than its products
        for number in range(first, last):
            decide(slice(number * step, (number + 1) * step), room)

    at_once = max(1, ALL_PARTS_BYTES // (8 * step * k * (k - 1)))
    th.spread(blocks, -(-n // step), min(threads, at_once), grain=1, align=1)
    return out


def _tiles(n_support: np.ndarray, width: int) -> list[tuple[slice, np.ndarray]]:
    """Support vectors ``width`` at a time: which, and rows (class, its first, its last) for those in it."""
    edges = np.concatenate([[0], np.cumsum(n_support)])
    tiles = []
    for start in range(0, int(edges[-1]), width):
        stop = min(start + width, int(edges[-1]))
        inside = range(int(np.searchsorted(edges, start, "right")) - 1, int(np.searchsorted(edges, stop, "left")))
        classes = [(c, max(start, int(edges[c])), min(stop, int(edges[c + 1]))) for c in inside]
        tiles.append((slice(start, stop), np.array([(c, a, b) for c, a, b in classes if a < b])))
    return tiles


def pair_weights(dual, n_support: np.ndarray, vectors):
    """The weights of the features for each pair, (pairs, d), sparse where the vectors are."""
    k = len(n_support)
    edges = np.concatenate([[0], np.cumsum(n_support)])
    own = [dual[:, a:b] @ vectors[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
    all_ = sp.vstack(own).tocsr() if sp.issparse(vectors) else np.vstack(own)
    i, j = np.triu_indices(k, 1)
    return all_[i * (k - 1) + j - 1] + all_[j * (k - 1) + i]


# -- leaves ---------------------------------------------------------------------------------------------------------


@jit
def merge_classes(order, edges, first, second, starts, rows):
    """The samples of both classes of each pair, ascending; those of a class ascend already."""
    for c in range(len(first)):
        a, a_end = edges[first[c]], edges[first[c] + 1]
        b, b_end = edges[second[c]], edges[second[c] + 1]
        for at in range(starts[c], starts[c + 1]):
            if b >= b_end or (a < a_end and order[a] < order[b]):
                rows[at] = order[a]
                a += 1
            else:
                rows[at] = order[b]
                b += 1


@jit
def add_products(tile, coef, classes, parts):
    """parts[c, r] += Σ_s tile[r, s] coef[s] over the support vectors s = a … b for each (c, a, b) of the classes."""
    for r in range(len(tile)):
        for q in range(len(classes)):
            out = parts[classes[q, 0], r]
            for s in range(classes[q, 1], classes[q, 2]):
                x = tile[r, s]
                row = coef[s]
                for c in range(len(row)):
                    out[c] += x * row[c]


@jit
def join_row(parts, intercept, extra, r, out):
    """The decisions of one sample from what the support vectors of each class add."""
    k = len(parts)
    c = 0
    for i in range(k):
        for j in range(i + 1, k):
            out[c] = intercept[c] + parts[i, r, j - 1] + parts[j, r, i]
            c += 1
    if len(extra) > 0:
        for c in range(len(out)):
            out[c] += extra[r, c]


@jit
def join_parts(parts, intercept, extra, out):
    """The decisions of some samples."""
    for r in range(len(out)):
        join_row(parts, intercept, extra, r, out[r])


@jit
def most_votes(decisions, k, out):
    """The class with most votes, the earlier one of several, from the decisions of all pairs."""
    count = np.empty(k, np.int64)
    for r in range(len(out)):
        count[:] = 0
        c = 0
        for i in range(k):
            for j in range(i + 1, k):
                one = 1 if decisions[r, c] > 0.0 else 0
                count[i] += one
                count[j] += 1 - one
                c += 1
        best = 0
        for i in range(1, k):
            if count[i] > count[best]:
                best = i
        out[r] = best


@jit
def count_votes(parts, intercept, extra, out):
    """The class with most votes, the earlier one of several."""
    k = len(parts)
    row = np.empty(len(intercept))
    count = np.empty(k, np.int64)
    for r in range(len(out)):
        join_row(parts, intercept, extra, r, row)
        count[:] = 0
        c = 0
        for i in range(k):
            won = 0
            for j in range(i + 1, k):
                one = 1 if row[c] > 0.0 else 0  # no branch: half of them would be guessed wrongly
                won += one
                count[j] += 1 - one
                c += 1
            count[i] += won
        best = 0
        for i in range(1, k):
            if count[i] > count[best]:
                best = i
        out[r] = best


@jit
def score_classes(parts, intercept, extra, out):
    """Votes, and less than half a vote for the sum of the decisions: scikit-learn's _ovr_decision_function."""
    k = len(parts)
    row = np.empty(len(intercept))
    total = np.empty(k)
    for r in range(len(out)):
        join_row(parts, intercept, extra, r, row)
        total[:] = 0.0
        out[r, :] = 0.0
        c = 0
        for i in range(k):
            for j in range(i + 1, k):
                total[i] += row[c]
                total[j] -= row[c]
                one = 0.0 if row[c] < 0.0 else 1.0
                out[r, i] += one
                out[r, j] += 1.0 - one
                c += 1
        for i in range(k):
            out[r, i] += total[i] / (3.0 * (abs(total[i]) + 1.0))
