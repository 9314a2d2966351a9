"""What a machine decides: kernel expansions, weights of features, and votes of all pairs of classes.

    f(x) = Σ_s coef_s k(x_s, x) + intercept + what parametric functions add

Estimators predict with this, and so does a model that was read from a file: it needs the kernels, and nothing of what
training needs.

300 classes make 44 850 pairs. So nothing here has a decision of each pair for all samples (unless that is asked for),
nor a step of Python for each pair.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import threads as th
from ._jit import inline, jit
from .gram.distance import cross, weigh
from .gram.matrices import checked_block
from .gram.points import make_points
from .rows import Rows

__all__ = ["DecisionFunction", "decide_pairs", "pair_weights", "shaped"]

PREDICT_BYTES = 1 << 26  # kernel values held at a time while predicting with a callable
MOST_WEIGHTS = 1 << 23  # weights of features of all problems that are kept, 64 MB
DECISIONS = 1 << 22  # of pairs that are held at a time where they are computed together, 32 MB
PARTS_BYTES = 1 << 22  # what support vectors of each class add to the decisions of some samples, held by a thread
ALL_PARTS_BYTES = 1 << 26  # by all threads together: with many of them, some have to wait
TILE_BYTES = 1 << 20  # kernel values that stay near a core between two products
FEW_VECTORS = 8  # of a class: below, a product by BLAS takes longer to begin than to compute
MOST_ROWS = 256  # samples of a block: more do not make its products quicker


@dataclass(frozen=True, eq=False)
class DecisionFunction:
    """One function, or those of all pairs of classes, from what a fit leaves."""

    dual: np.ndarray  # (problems, vectors); with ``n_support`` LIBSVM's layout, (k − 1, vectors)
    intercept: np.ndarray  # (problems,)
    vectors: Any = None  # rows of X, dense or sparse, or what ``function`` takes
    kernel: Any = None  # a Kernel, which is compiled,
    function: Callable | None = None  # or K(X, Z),
    columns: np.ndarray | None = None  # or the columns of a matrix of kernel values
    weights: np.ndarray | None = None  # (problems, d): those of the features, in place of the vectors
    n_support: np.ndarray | None = None  # vectors of each of several classes, where these belong to classes
    more: Callable[[Any], Any] | None = None  # what is added at some samples, (n, problems)
    n_jobs: int | None = None

    @th.blas_limit(1)
    def _weighed(self, X: Any) -> np.ndarray:
        """Σ_s coef[s, c] k(x_s, x) for each row of X: blocked products."""
        coef = self.dual.T
        if self.columns is not None:
            return np.asarray(X[:, self.columns], np.float64) @ coef
        size = self.vectors.shape[0]
        if self.function is not None:
            out = np.empty((X.shape[0], coef.shape[1]))
            step = max(1, PREDICT_BYTES // (8 * max(1, size)))
            for a in range(0, X.shape[0], step):
                block = X[a : a + step]
                out[a : a + step] = checked_block(self.function, block, self.vectors) @ coef if size else 0.0
            return out
        left, threads = make_points(self.vectors, self.kernel), th.count(self.n_jobs)
        right = make_points(X, self.kernel, left, threads)
        return weigh(self.kernel, left.astype(np.float64), coef, right, threads)

    def problems(self, X: Any) -> np.ndarray:
        """The decision of each problem, (n, problems), by the weights of the features or by vectors of no class."""
        values = self._weighed(X) if self.weights is None else Rows.times(X, self.weights.T, self.n_jobs)
        values = values + self.intercept
        return values if self.more is None else values + self.more(X)

    def classes(self, X: Any, k: int, shape: str) -> np.ndarray:
        """Decisions between k classes, of a shape that ``decide_pairs`` knows; (n,) for two, whatever the shape."""
        if k == 2:
            return self.problems(X)[:, 0]
        # By weights is what was certified; sums of inner products of rows far away would be rounding. Points of an
        # expansion belong to no class.
        if self.weights is not None or self.n_support is None:
            step = max(1, DECISIONS // len(self.intercept))
            blocks = [X[a : a + step] for a in range(0, X.shape[0], step)]
            return np.concatenate([shaped(self.problems(block), k, shape) for block in blocks])
        # A user's function need not be prepared for several threads.
        threads = 1 if self.function is not None else th.count(self.n_jobs)
        given = self.more
        more = None if given is None else lambda rows: np.asarray(given(X[rows]))
        with th.blas_limit(1):
            return decide_pairs(
                self._values(X), self.dual, self.n_support, self.intercept, X.shape[0], shape, more, threads
            )

    def _values(self, X: Any) -> Callable[[slice, slice], np.ndarray]:
        """A function of rows of X and a slice of the vectors that gives their kernel values in float64."""
        known, function, kernel = self.columns, self.function, self.kernel
        if known is not None:
            return lambda rows, columns: np.asarray(X[rows][:, known[columns]], np.float64)
        if function is not None:
            return lambda rows, columns: checked_block(function, X[rows], self.vectors[columns])
        right = make_points(self.vectors, kernel).astype(np.float64)
        everything = slice(0, right.n)

        def values(rows: slice, columns: slice) -> np.ndarray:
            left = make_points(X[rows], kernel, like=right).astype(np.float64)
            return cross(kernel, left, right if columns == everything else right.take(columns))

        return values


def shaped(decisions: np.ndarray, k: int, shape: str) -> np.ndarray:
    """The decisions of all pairs, (n, pairs), in one of the shapes of ``decide_pairs``."""
    if shape == "ovo":
        return decisions
    decisions = np.ascontiguousarray(decisions, np.float64)
    if shape != "votes":
        scores = np.empty((len(decisions), k))
        score_decisions(decisions, scores)
        return scores if shape == "ovr" else scores.argmax(axis=1)
    votes = np.empty(len(decisions), np.int64)
    most_votes(decisions, k, votes)
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
    step = max(1, min(PARTS_BYTES // (8 * k * (k - 1)), MOST_ROWS, n))
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
    edges = [0, *accumulate(np.asarray(n_support).tolist())]
    tiles = []
    for start in range(0, edges[-1], width):
        stop = min(start + width, edges[-1])
        inside = range(bisect_right(edges, start) - 1, bisect_left(edges, stop))
        classes = [(c, max(start, edges[c]), min(stop, edges[c + 1])) for c in inside]
        tiles.append((slice(start, stop), np.array([(c, a, b) for c, a, b in classes if a < b])))
    return tiles


def pair_weights(dual: Any, n_support: np.ndarray, vectors: Any) -> Any:
    """The weights of the features for each pair, (pairs, d), sparse where the vectors are."""
    k = len(n_support)
    edges = np.concatenate([[0], np.cumsum(n_support)])
    own = [dual[:, a:b] @ vectors[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
    all_ = sp.vstack(own).tocsr() if sp.issparse(vectors) else np.vstack(own)
    i, j = np.triu_indices(k, 1)
    return all_[i * (k - 1) + j - 1] + all_[j * (k - 1) + i]


# -- leaves ---------------------------------------------------------------------------------------------------------


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


@inline
def winner(decisions, count):
    """The class with most votes, the earlier one of several, from the decisions of all pairs of a sample."""
    k = len(count)
    count[:] = 0
    c = 0
    for i in range(k):
        won = 0
        for j in range(i + 1, k):
            one = 1 if decisions[c] > 0.0 else 0  # no branch: half of them would be guessed wrongly
            won += one
            count[j] += 1 - one
            c += 1
        count[i] += won
    best = 0
    for i in range(1, k):
        if count[i] > count[best]:
            best = i
    return best


@jit
def most_votes(decisions, k, out):
    """The class with most votes of each sample, from the decisions of all pairs."""
    count = np.empty(k, np.int64)
    for r in range(len(out)):
        out[r] = winner(decisions[r], count)


@jit
def count_votes(parts, intercept, extra, out):
    """The same from the parts of the decisions."""
    row = np.empty(len(intercept))
    count = np.empty(len(parts), np.int64)
    for r in range(len(out)):
        join_row(parts, intercept, extra, r, row)
        out[r] = winner(row, count)


@jit
def score_row(row, k, total, out):
    """Votes, and less than half a vote for the sum of the decisions: scikit-learn's _ovr_decision_function."""
    total[:] = 0.0
    out[:] = 0.0
    c = 0
    for i in range(k):
        for j in range(i + 1, k):
            total[i] += row[c]
            total[j] -= row[c]
            one = 0.0 if row[c] < 0.0 else 1.0
            out[i] += one
            out[j] += 1.0 - one
            c += 1
    for i in range(k):
        out[i] += total[i] / (3.0 * (abs(total[i]) + 1.0))


@jit
def score_decisions(decisions, out):
    """The scores of the classes from the decisions of all pairs."""
    total = np.empty(out.shape[1])
    for r in range(len(out)):
        score_row(decisions[r], out.shape[1], total, out[r])


@jit
def score_classes(parts, intercept, extra, out):
    """The scores of the classes from what the support vectors of each class add."""
    row = np.empty(len(intercept))
    total = np.empty(len(parts))
    for r in range(len(out)):
        join_row(parts, intercept, extra, r, row)
        score_row(row, len(parts), total, out[r])
