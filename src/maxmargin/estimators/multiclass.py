"""One against one: which rows a pair of classes has, and LIBSVM's layout of what the pairs found.

With k classes there are k (k − 1) / 2 problems, in the order 0v1, 0v2, …, 1v2, …. Support vectors are grouped by
class. Column s of ``dual_coef_`` (k − 1 rows) holds the coefficients of support vector s of class i: row j − 1 in
the problem against a later class j, row j in the problem against an earlier class j.

300 classes make 44 850 pairs. So nothing here has the length of all samples for each pair, nor a step of Python for
each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from .._jit import jit
from ..solvers.parts.small_problems import BATCH_POINTS, Batch

__all__ = ["Pairs", "weighed_classes"]

ENTRIES_A_TIME = 1 << 20  # of the coefficients, put in their place together


def weighed_classes(
    y: Any, weight: np.ndarray, class_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(classes, a factor for each, the samples that are there, their class numbers).

    A sample of weight 0 is not there, nor are those of a class of weight 0; "balanced" counts weights as copies.
    """
    present = weight.nonzero()[0]
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
        number = np.arange(self.k)
        return np.nonzero(np.less.outer(number, number))  # type: ignore[return-value]

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
        return _edges(self.count[self.first] + self.count[self.second])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Samples of each pair."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def rows(self) -> np.ndarray:
        edges = _edges(self.count)
        rows = np.empty(self.starts[-1], np.int64)
        merge_classes(self.order, edges, self.first, self.second, self.starts, rows)
        return rows

    @cached_property
    def targets(self) -> np.ndarray:
        """±1 of each row: +1 for the class i of a pair i < j, except with two classes: +1 for the second.

        scikit-learn flips the sign for two classes, so that a positive decision means ``classes_[1]``.
        """
        positive = self.second if self.k == 2 else self.first
        return np.where(self.labels[self.rows] == positive.repeat(self.sizes), 1.0, -1.0)

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
            entries = a + (column[self.rows[a : a + ENTRIES_A_TIME]] >= 0).nonzero()[0]
            rows = self.rows[entries]
            pair = self.starts.searchsorted(entries, side="right") - 1
            own = self.labels[rows]
            other = self.first[pair] + self.second[pair] - own
            coef[entries] = dual[other - (other > own), column[rows]]
        return coef

    def layout(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(support, n_support, dual_coef) from the coefficient of each row of each pair."""
        used = np.zeros(len(self.labels), bool)
        used[self.rows[coef.nonzero()[0]]] = True
        support = self.order[used[self.order]]
        column = np.empty(len(self.labels), np.int64)
        column[support] = np.arange(len(support))
        dual = np.zeros((self.k - 1, len(support)))
        for a in range(0, len(coef), ENTRIES_A_TIME):
            entries = a + coef[a : a + ENTRIES_A_TIME].nonzero()[0]
            rows = self.rows[entries]
            pair = self.starts.searchsorted(entries, side="right") - 1
            own = self.labels[rows]
            other = self.first[pair] + self.second[pair] - own
            dual[other - (other > own), column[rows]] = coef[entries]
        return support, np.bincount(self.labels[support], minlength=self.k).astype(np.int32), dual


def _edges(count: np.ndarray) -> np.ndarray:
    """Where each of so many begins, and where the last one ends."""
    edges = np.zeros(len(count) + 1, np.int64)
    count.cumsum(out=edges[1:])
    return edges


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
