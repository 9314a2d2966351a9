"""Duplicate points merged into weights: n copies of a point are one point with n times the box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gram import as_gram
from ..problem import QP

__all__ = ["MERGE_FROM", "Merged", "merge_duplicates"]

DUST = 1e-12  # of the box: what rounding of sums leaves between a duplicate and its bound
MERGE_FROM = 2000  # variables: below, looking for duplicates costs more than they do
MERGE_GAIN = 0.98  # share of distinct variables above which merging is not worth it


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
        """Fill the duplicates one after the other, so that as few as possible are support vectors."""
        beta = np.zeros(len(self.owner))
        for box, sign in ((self.upper, 1.0), (self.lower, -1.0)):
            owner = self.owner[self.order]
            room = np.maximum(sign * box, 0.0)[self.order]
            room = np.where(np.isinf(room), np.abs(merged)[owner], room)
            before = np.cumsum(room) - room
            starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
            before -= before[starts][owner]
            fill = np.clip(np.maximum(sign * merged, 0.0)[owner] - before, 0.0, room)
            fill = np.where(np.abs(fill - room) <= DUST * room, room, np.where(fill <= DUST * room, 0.0, fill))
            beta[self.order] += sign * fill
        return beta


def merge_duplicates(qp: QP) -> Merged | None:
    """The merged QP, or None where there is nothing to gain or rows are not known to be equal."""
    same = as_gram(qp.H).duplicates()
    if same is None or len(np.unique(same)) > MERGE_GAIN * qp.n or (qp.lower > 0).any() or (qp.upper < 0).any():
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
