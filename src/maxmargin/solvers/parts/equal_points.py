"""Equal points with equal targets are one point with the sum of their costs: their function values are the same.

For a smooth loss this holds in the primal, where a dual with a diagonal of its own has a variable for each of them
(duplicates.py merges those of the others). Their coefficients are in proportion to their costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...gram import as_gram
from ...problem import ERM

__all__ = ["EqualPoints", "distinct"]

MERGE_GAIN = 0.98  # of the points: with more distinct ones it is not worth it


def distinct(first: np.ndarray) -> int:
    """How many points differ, for the first point that equals each: those that are their own first."""
    return int(np.count_nonzero(first == np.arange(len(first))))


@dataclass(frozen=True)
class EqualPoints:
    """A problem in which equal points are one."""

    erm: ERM
    chosen: np.ndarray  # the point that stands for each merged one
    owner: np.ndarray  # the merged point of each point
    share: np.ndarray  # of its cost that belongs to each point

    @classmethod
    def found(cls, erm: ERM, least: int) -> EqualPoints | None:
        """The merged problem, or None where there is little to gain or nobody knows, and below ``least`` points."""
        if erm.n < least:
            return None
        first = as_gram(erm.K).duplicates()
        if first is None or distinct(first) > MERGE_GAIN * erm.n:
            return None
        keys = np.column_stack([first, erm.y, *erm.phi])
        _, chosen, owner = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        owner = owner.ravel()
        if len(chosen) > MERGE_GAIN * erm.n:
            return None
        cost = np.bincount(owner, erm.cost, len(chosen))
        phi = erm.phi[:, chosen] if len(erm.phi) else erm.phi
        merged = ERM(as_gram(erm.K).take(chosen), erm.y[chosen], cost, erm.loss, phi)
        return cls(merged, chosen, owner, erm.cost / cost[owner])

    def gather(self, beta: np.ndarray) -> np.ndarray:
        """Coefficients of the merged points."""
        return np.bincount(self.owner, beta, self.erm.n)

    def scatter(self, merged: np.ndarray) -> np.ndarray:
        """Coefficients of all points."""
        return merged[self.owner] * self.share

    def first_of(self, values: np.ndarray) -> np.ndarray:
        """Values of all points, equal where the points are, as those of the merged ones."""
        return values[self.chosen]
