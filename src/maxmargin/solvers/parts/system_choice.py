"""Which equations the interior method solves, and what it needs to solve them.

The cheapest ones, measured in docs/pdco.md: the normal matrix of the features where they are no more than the rows, a
matrix of the rows where these are few, a sparse factor where it stays sparse, and else products with the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator

from ...gram import Gram
from ...monitor import Monitor
from ...problem import QP
from ...rows import Rows
from ...rows.blocks import block_of
from .few_rows import are_few, leaf_work
from .newton_systems import Dense, LeastSquares, Normal, Points, Quasi, RowSquares, System
from .paired_system import Paired

__all__ = ["SYSTEMS", "Equations", "by_leaf", "in_no_time", "open_equations", "system_for"]

SYSTEMS = ("auto", "normal", "dense", "quasi", "lsmr-rows", "lsmr")
DENSE_UP_TO = 6000  # rows, or features, of a matrix that we factor as a whole
WEIGHTS_UP_TO = 200  # features whose matrix is factored in a millisecond, even where that of the rows is smaller
LEAF_NORMAL = 1 << 24  # products for a normal matrix: a leaf takes as long for more as BLAS, and as asking for it does
SET_UP = 1 << 18  # numbers that an iteration reads: a dozen of them take 3 ms, as long as sweeps to set up and give up
FILL = 20  # entries a feature in a sparse factor: with more, reading the rows a few thousand times is cheaper
PATTERN_ROWS = 1000  # rows tell at first how sparse XᵀX is,
PATTERN_GROWTH = 4  # times as many tell next


@dataclass(frozen=True)
class Equations:
    """Newton's equations, with the rows and the ridge that they are made from."""

    system: System
    rows: Rows
    ridge: np.ndarray
    H: Any = None  # times β, where the system has Δβ itself in place of Δw (``system.given``)
    few: bool = False  # whether the rows are one block, and so few that one leaf makes all iterations


def open_equations(name: str, qp: QP, gram: Gram, exact: bool, monitor: Monitor) -> Equations:
    """The equations of this name, or the cheapest; ``exact``: whether coefficients are asked for, or weights only."""
    factor = gram.factor() if name != "dense" else None
    if factor is not None and name == "auto":
        name = "normal" if _weights_first(factor.rows, exact) else system_for(factor.rows)
    points, none = Rows([Points(qp.n)], 1), np.zeros(qp.n)
    if factor is None or name == "dense":
        pairs = gram.wide().pairs()
        if pairs is not None:
            K = pairs.K.dense(monitor.foresee, 2)
            paired = Paired(pairs, K, qp.A, gram.threads, monitor.look)
            product = LinearOperator((qp.n, qp.n), matvec=paired.product, dtype=np.float64)
            return Equations(paired, points, none, product)
        H = gram.wide().dense(monitor.foresee, 2)  # with the matrix that is factored
        return Equations(Dense(H, qp.A, gram.threads, monitor.look), points, none, H)
    rows, ridge = factor.rows, none if factor.ridge is None else factor.ridge
    if name == "lsmr-rows":
        squares = np.maximum(gram.diag() - ridge, 0.0)
        product = LinearOperator((qp.n, qp.n), matvec=gram.matvec, dtype=np.float64)
        return Equations(RowSquares(rows, ridge, qp.A, squares, monitor.look), points, none, product)
    if name == "quasi":
        return Equations(Quasi(rows, qp.A), rows, ridge)
    if name == "lsmr":
        return Equations(LeastSquares(rows, qp.A, monitor.look), rows, ridge)
    few = by_leaf(rows, len(qp.A), exact)
    if few and len(rows.blocks) > 1:
        rows = Rows([block_of(rows.matrix())], 1)
    return Equations(Normal(rows.d, len(qp.A), rows.threads, monitor.look), rows, ridge, few=few)


def by_leaf(rows: Rows, more: int, exact: bool) -> bool:
    """Whether one leaf makes all iterations: rows, with some more columns, and their normal matrix are small."""
    normal = _weights_first(rows, exact) or rows.d <= rows.n
    return normal and rows.n * (rows.d + more) ** 2 <= LEAF_NORMAL and are_few(rows, more)


def in_no_time(rows: Rows, more: int, exact: bool) -> bool:
    """Whether one leaf makes all iterations in a time that others take to begin with."""
    return by_leaf(rows, more, exact) and leaf_work(rows.n, rows.d + more) <= SET_UP


def _weights_first(rows: Rows, exact: bool) -> bool:
    """Where weights are asked for and not coefficients, they are the more exact the less they are sums."""
    return rows.d <= WEIGHTS_UP_TO and not exact


def system_for(rows: Rows) -> str:
    """The cheapest equations for these rows (measured: docs/pdco.md)."""
    if rows.d <= min(rows.n, DENSE_UP_TO):
        return "normal"
    if rows.n <= DENSE_UP_TO:
        return "dense"
    return "quasi" if rows.sparse and _eliminates_well(rows) else "lsmr-rows"


def _eliminates_well(rows: Rows) -> bool:
    """Whether a factor of XᵀX is nearly as sparse as X: its envelope, in an order that narrows it, bounds the fill.

    More rows make XᵀX no sparser, so that some of them tell where it is not, before it takes memory and time.
    """
    X, count = abs(sp.csr_array(rows.matrix())), PATTERN_ROWS
    while True:
        pattern = sp.csr_array(X[:count].T @ X[:count])
        if pattern.nnz > FILL * rows.d:
            return False
        if count >= rows.n:
            break
        count *= PATTERN_GROWTH
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    place = np.empty(rows.d, np.int64)
    place[order] = np.arange(rows.d)
    i, j = pattern.nonzero()
    first = np.arange(rows.d)
    np.minimum.at(first, place[i], place[j])
    return int((np.arange(rows.d) - first).sum()) <= FILL * rows.d
