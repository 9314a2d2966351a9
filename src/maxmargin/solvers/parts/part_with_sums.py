"""The problem on some variables under constraints that fix the sum of each group of them: decomposition's part."""

from __future__ import annotations

import numpy as np

from ...problem import QP
from .fixed_sums import BIG, Groups, midway
from .working_sets import Part, WorkingSets

__all__ = ["Levels", "PartWithSums", "sums_of_sample"]

Levels = tuple[np.ndarray, np.ndarray]  # m and M of each group


class PartWithSums(Part):
    """Variables sorted by group, with m and M of each group, and the objective of all variables."""

    def __init__(self, run: WorkingSets, index: np.ndarray, groups: Groups, objective: float) -> None:
        super().__init__(run, index)
        qp = run.qp
        self.grouped = groups.count > 0
        self.edges = np.searchsorted(groups.label[index], np.arange(max(1, groups.count) + 1))
        self.sizes = np.diff(self.edges)
        self.filled = self.sizes > 0
        self.heads = self.edges[:-1][self.filled]
        self.start = (self.beta.copy(), self.v.copy())
        self.base = objective
        rest = np.ones(qp.n, bool)
        rest[index] = False
        self.fixed = float(qp.p[rest] @ run.beta[rest] + qp.eps[rest] @ np.abs(run.beta[rest]))

    def levels(self) -> Levels:
        """m and M of each group; without equality constraints the level is 0 and both lie on their side of it."""
        m, M = np.full(len(self.sizes), -BIG), np.full(len(self.sizes), BIG)
        m[self.filled] = np.maximum.reduceat(self.v + self.rise, self.heads)
        M[self.filled] = np.minimum.reduceat(self.v + self.fall, self.heads)
        return (m, M) if self.grouped else (np.maximum(m, 0.0), np.minimum(M, 0.0))

    def stuck(self, m: np.ndarray, M: np.ndarray) -> np.ndarray:
        """Which variables could only move the wrong way."""
        return (self.v + self.rise < np.repeat(M, self.sizes)) & (self.v + self.fall > np.repeat(m, self.sizes))

    def objective(self) -> float:
        """The objective of all variables: what it was, and what the steps since then have gained."""
        beta, v = self.start
        more = self.eps @ (np.abs(self.beta) - np.abs(beta))
        return float(self.base - 0.5 * (self.beta - beta) @ (v + self.v) + more)

    def objective_at(self, share: float) -> float:
        """The objective at that share of all coefficients, which is feasible where boxes are as much smaller."""
        objective = self.objective()
        linear = self.fixed + float(self.p @ self.beta + self.eps @ np.abs(self.beta))
        return share * share * (objective - linear) + share * linear

    def gap(self, qp: QP) -> float:
        """The gap of the whole problem, all of whose variables are here."""
        beta, s = np.empty(qp.n), np.empty(qp.n)
        beta[self.index] = self.beta
        s[self.index] = np.repeat(midway(*self.levels()), self.sizes) - self.v if self.grouped else -self.v
        return qp.gap(beta, np.zeros(len(qp.A)), s)

    def steepest(self, count: int, levels: Levels, among: np.ndarray | None = None) -> np.ndarray:
        """The steepest feasible direction with ``count`` entries, half of them to grow, half to shrink.

        ``levels``: m and M; ``among``: the variables that it may take.
        """
        m, M = levels
        up, down = self.v + self.rise, self.v + self.fall
        if among is not None:
            up, down = np.where(among, up, -BIG), np.where(among, down, BIG)
        share = max(1, count // (2 * len(m)))
        chosen = np.zeros(len(up), bool)
        for g, (a, b) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            low, high = (M[g], m[g]) if self.grouped else (0.0, 0.0)
            for score in (up[a:b] - low, high - down[a:b]):
                best = np.argpartition(-score, share - 1)[:share] if share < b - a else np.arange(b - a)
                chosen[a + best[score[best] > 0]] = True
        return np.flatnonzero(chosen)

    def worst(self, m: np.ndarray, M: np.ndarray) -> int:
        """The variable that wants to grow most, in the group of the largest violation."""
        g = int((m - M).argmax())
        a, b = self.edges[g], self.edges[g + 1]
        return int(a + (self.v + self.rise)[a:b].argmax())


def sums_of_sample(groups: Groups, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """What each group adds up to, or as near to it as the boxes of a sample allow."""
    least, most = (np.bincount(groups.label, box, groups.count)[: groups.count] for box in (lower, upper))
    return np.clip(groups.sums, least, most)
