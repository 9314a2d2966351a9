"""Which variables decomposition works on next, and which rows it fetches for them."""

from __future__ import annotations

import numpy as np

from ...monitor import Stopped
from .part_with_sums import Levels, PartWithSums
from .working_sets import WorkingSets, without

__all__ = ["ChosenRows"]

FEWEST = 2  # rows that a step needs


class ChosenRows(WorkingSets):
    """Working sets by violation; rows that are missing come in blocks."""

    def working_set(self, part: PartWithSums, levels: Levels, previous: np.ndarray, fetching: bool) -> np.ndarray:
        """The most violating variables, and as many of the set before: free ones first.

        Without any coefficient violations tell the labels and nothing else: a block is enough to learn more from.
        Where nothing is to be fetched, all are taken from those whose rows are at hand.
        """
        if not fetching:
            there = self.cache.slot >= 0
            q = min(self.q, int(there.sum()))
            return part.with_old(part.steepest(q // 2, levels, there), np.flatnonzero(there), q)
        most = self.q if part.beta.any() else min(self.q, self.sizes.block)
        q = min(len(part.index), most, self.cache.capacity)
        return part.with_old(part.steepest(q // 2 if len(previous) else q, levels), previous, q)

    def fetch_pair(self, part: PartWithSums, missing: int) -> None:
        """The missing row, the row of the variable that it was to be paired with, and others that will be next."""
        levels, room = part.levels(), self.cache.capacity
        first, copied = part.worst(*levels), self.in_memory and room == len(part.index)
        most = room if copied else min(self.sizes.block, room)
        others = part.steepest(most, levels, self.cache.slot < 0)
        others = others[(others != missing) & (others != first)][: max(0, most - 2)]
        self.fetch(np.unique(np.concatenate([[first, missing], others])))

    def fetch_with_next(self, part: PartWithSums, levels: Levels, W: np.ndarray) -> np.ndarray:
        """The slots of W; less than a block of missing rows also brings rows of the variables that will be next."""
        missing = int((self.cache.slot[W] < 0).sum())
        self.foresee(missing, len(part.index))
        spare = min(self.sizes.block - missing, self.cache.capacity - len(W))
        if missing == 0 or spare <= 0:
            return self.fetch(W)
        extra = part.steepest(2 * (missing + spare), levels, self.cache.slot < 0)
        extra = without(extra, W, len(part.index))[:spare]
        return self.fetch(np.concatenate([W, extra]))[: len(W)]

    def foresee(self, rows: int, n: int) -> None:
        """Raise Stopped unless there is time for rows of a part, and at the end for all their values: each may get a
        coefficient.
        """
        cost = self.gram.cost
        self.monitor.foresee(cost.seconds(rows * n, self.gram.dtype.itemsize) + cost.seconds(rows * self.qp.n))

    def rows_in_time(self, n: int) -> int:
        """How many rows of a part may be made before the next look at the clock; Stopped if there is time for none."""
        rows = self.cache.spare()
        while True:
            try:
                self.foresee(rows, n)
                return rows
            except Stopped:
                if rows <= FEWEST:
                    raise
                rows //= 2
