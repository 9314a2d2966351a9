"""Duplicate points merged into weights: n copies of a point are one point with n times the box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._jit import jit
from ...gram import as_gram
from ...problem import QP
from .equal_points import MERGE_GAIN, distinct

__all__ = ["Merged", "merge_duplicates"]


@dataclass(frozen=True)
class Merged:
    """A QP in which variables with equal rows and equal p, ε and group are one variable with a larger box."""

    qp: QP
    first: np.ndarray  # the variable that stands for each merged one
    owner: np.ndarray  # the merged variable of each variable
    order: np.ndarray  # variables sorted by owner
    lower: np.ndarray
    upper: np.ndarray

    def gather(self, beta: np.ndarray) -> np.ndarray:
        return np.bincount(self.owner, beta, len(self.first))

    def scatter(self, merged: np.ndarray) -> np.ndarray:
        """Fill the duplicates one after the other, so that as few as possible are support vectors.

        Each group is filled on its own: one running sum over all of them would round by the size of the whole, and
        what belongs at a bound would end up next to it.
        """
        beta = np.zeros(len(self.owner))
        full = np.where(merged == self.qp.upper, 1, np.where(merged == self.qp.lower, -1, 0))
        fill_groups(merged, full, self.owner, self.order, self.lower, self.upper, beta)
        return beta


@jit
def fill_groups(merged, full, owner, order, lower, upper, beta):
    """β of the variables, sorted by owner, that add up to the merged ones; of a full group all are at their bound."""
    group, left = -1, 0.0
    for i in order:
        if owner[i] != group:
            group = owner[i]
            left = merged[group]
        if full[group] != 0:
            beta[i] = upper[i] if full[group] > 0 else lower[i]
        elif left > 0.0:
            beta[i] = min(left, upper[i])
        elif left < 0.0:
            beta[i] = max(left, lower[i])
        left -= beta[i]


def merge_duplicates(qp: QP) -> Merged | None:
    """The merged QP, or None where there is nothing to gain or rows are not known to be equal."""
    same = as_gram(qp.H).duplicates()
    if same is None or distinct(same) > MERGE_GAIN * qp.n or (qp.lower > 0).any() or (qp.upper < 0).any():
        return None
    keys = np.column_stack([same, qp.p, qp.eps, *qp.A])
    order = np.lexsort(keys.T[::-1])
    new = np.r_[True, (keys[order][1:] != keys[order][:-1]).any(axis=1)]
    owner = np.empty(qp.n, np.int64)
    owner[order] = np.cumsum(new) - 1
    first = order[new]
    if len(first) > MERGE_GAIN * qp.n:
        return None
    back = np.argsort(first, kind="stable")  # keep the order of the data: growing samples from it
    rank = np.empty(len(first), np.int64)
    rank[back] = np.arange(len(first))
    first, owner = first[back], rank[owner]
    m = len(first)
    small = QP(
        as_gram(qp.H).take(first),
        qp.p[first],
        np.bincount(owner, qp.lower, m),
        np.bincount(owner, qp.upper, m),
        qp.A[:, first],
        qp.b,
        qp.eps[first],
    )
    return Merged(small, first, owner, np.argsort(owner, kind="stable"), qp.lower, qp.upper)
