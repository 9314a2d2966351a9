"""One against one: which rows a pair of classes has, and LIBSVM's layout of what the pairs found.

With k classes there are k (k − 1) / 2 problems, in the order 0v1, 0v2, …, 1v2, …. Support vectors are grouped by
class. Column s of ``dual_coef_`` (k − 1 rows) holds the coefficients of support vector s of class i: row j − 1 in
the problem against a later class j, row j in the problem against an earlier class j.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

__all__ = ["pair_decisions", "pair_layout", "pair_problems", "votes", "weighed_classes"]


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


def pair_problems(y: np.ndarray, k: int) -> list[tuple[int, int, np.ndarray, np.ndarray]]:
    """(i, j, rows, targets) for each pair i < j; the target is +1 for i, except with two classes: +1 for the second.

    scikit-learn flips the sign for two classes, so that a positive decision means ``classes_[1]``.
    """
    pairs = []
    for i, j in combinations(range(k), 2):
        rows = np.flatnonzero((y == i) | (y == j))
        positive = j if k == 2 else i
        pairs.append((i, j, rows, np.where(y[rows] == positive, 1.0, -1.0)))
    return pairs


def pair_layout(
    y: np.ndarray, k: int, coefs: list[tuple[int, int, np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(support, n_support, dual_coef) from (i, j, rows, coefficients on those rows) for each pair."""
    used = np.zeros(len(y), bool)
    for _, _, rows, coef in coefs:
        used[rows[coef != 0]] = True
    support = np.concatenate([np.flatnonzero(used & (y == c)) for c in range(k)])
    n_support = np.array([np.count_nonzero(used & (y == c)) for c in range(k)], np.int32)
    place = np.full(len(y), -1)
    place[support] = np.arange(len(support))
    dual = np.zeros((k - 1, len(support)))
    for i, j, rows, coef in coefs:
        rows, coef = rows[coef != 0], coef[coef != 0]
        dual[np.where(y[rows] == i, j - 1, i), place[rows]] = coef
    return support, n_support, dual


def pair_decisions(weigh, dual: np.ndarray, n_support: np.ndarray, intercept: np.ndarray, n: int) -> np.ndarray:
    """The decision of each pair, (n, pairs), from weigh(rows, coef) over the support vectors of one class at a time.

    A class takes part in k − 1 pairs only, so the product by classes is k / 2 times cheaper than one with a
    coefficient for each support vector and pair.
    """
    k = len(n_support)
    edges = np.concatenate([[0], np.cumsum(n_support)])
    number = {pair: c for c, pair in enumerate(combinations(range(k), 2))}
    out = np.tile(np.asarray(intercept, np.float64), (n, 1))
    for c in range(k):
        rows = slice(edges[c], edges[c + 1])
        if edges[c] == edges[c + 1]:
            continue
        part = weigh(rows, np.ascontiguousarray(dual[:, rows].T))
        for other in range(k):
            if other > c:
                out[:, number[c, other]] += part[:, other - 1]
            elif other < c:
                out[:, number[other, c]] += part[:, other]
    return out


def votes(decisions: np.ndarray, k: int) -> np.ndarray:
    """The class with most votes; ties go to the earlier one, as in LIBSVM."""
    count = np.zeros((len(decisions), k), np.int64)
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        won = decisions[:, c] > 0
        count[:, i] += won
        count[:, j] += ~won
    return count.argmax(axis=1)
