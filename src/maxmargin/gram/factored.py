"""A Gram matrix that is known by its factor: K = Z Zᵀ with Z as row blocks, never formed.

Linear kernels are of this kind, and so are low-rank approximations of others. Products cost O(nd); solvers that
know what to do with Z ask for it (``Gram.factor``) and never see K.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows
from .base import BLOCK_BYTES, Cost, Factor, Gram

__all__ = ["Factored"]

KEYS = 1e10  # projections are told apart to this share: blocks of different kinds round their sums differently


class Factored(Gram):
    """Z Zᵀ over rows of Z, wherever they live."""

    def __init__(self, Z: Any, n_jobs: int | None = None, cost: Cost | None = None) -> None:
        self.Z = Z if isinstance(Z, Rows) else Rows.of(Z, n_jobs)
        self.n = self.Z.n
        self.threads = self.Z.threads
        self.cost = cost or Cost()
        self._diag: np.ndarray | None = None

    def factor(self) -> Factor | None:
        return Factor(self.Z)

    # A model that was stopped before it began has no coefficients, and its proof need not read the data.

    def along(self, w: np.ndarray) -> np.ndarray:
        return self.Z.dot(w) if w.any() else np.zeros((self.n, *w.shape[1:]))

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        return self.Z.t_dot(beta) if beta.any() else np.zeros((self.Z.d, *beta.shape[1:]))

    def matmat(self, V: np.ndarray) -> np.ndarray:
        return self.Z.dot(self.Z.t_dot(np.ascontiguousarray(V, np.float64)))

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        self.cost.evals += len(index) * self.n
        block = self._cross(np.asarray(index), self.Z)
        if out is None:
            return block
        out[slots] = block
        return out

    def _cross(self, index: np.ndarray, right: Rows) -> np.ndarray:
        """Z[index] times the transpose of ``right``, some columns at a time so that no large copy is made."""
        out = np.empty((len(index), right.n))
        step = max(1, BLOCK_BYTES // (8 * max(1, self.Z.d, right.n)))
        for a in range(0, len(index), step):
            left = self.Z.matrix(index[a : a + step])
            dense = left.toarray() if sp.issparse(left) else left
            out[a : a + step] = right.dot(np.ascontiguousarray(dense.T, np.float64)).T
        return out

    def diag(self) -> np.ndarray:
        if self._diag is None:
            self._diag = self.Z.squared_norms()
        return self._diag.copy()

    def take(self, index: np.ndarray) -> Gram:
        return Factored(self.Z.take(index), cost=self.cost)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        self.cost.evals += len(index) + (self.n if at is None else len(at))
        v = np.zeros(self.n)
        np.add.at(v, index, coef)
        w = self.Z.t_dot(v)
        return self.Z.dot(w) if at is None else self.Z.take(at).dot(w)

    def block(self, index: np.ndarray) -> np.ndarray:
        self.cost.evals += len(index) ** 2
        if not len(index):
            return np.zeros((0, 0))
        part = self.Z.matrix(np.asarray(index))
        if not sp.issparse(part):
            part = np.asarray(part, np.float64)
            return part @ part.T
        part = part.astype(np.float64)
        if 8 * len(index) * self.Z.d <= BLOCK_BYTES:
            part = part.toarray()
            return part @ part.T
        return (part @ part.T).toarray()

    def duplicates(self) -> np.ndarray | None:
        """Neighbours after sorting by a random projection, checked entry by entry."""
        key = self.Z.dot(np.random.default_rng(0).normal(size=self.Z.d))
        key = np.rint(key * (KEYS / max(float(np.abs(key).max(initial=0.0)), np.finfo(float).tiny)))
        order = np.argsort(key, kind="stable")
        new = np.r_[True, key[order][1:] != key[order][:-1]]
        original = order[np.maximum.accumulate(np.where(new, np.arange(self.n), 0))]
        candidates = order != original
        twin, original = order[candidates], original[candidates]
        first = np.arange(self.n)
        step = max(1, BLOCK_BYTES // (8 * max(1, self.Z.d)))
        for a in range(0, len(twin), step):
            left, right = self.Z.matrix(twin[a : a + step]), self.Z.matrix(original[a : a + step])
            differs = left != right
            equal = (
                np.diff(sp.csr_array(differs).indptr) == 0 if sp.issparse(differs) else ~np.asarray(differs).any(axis=1)
            )
            first[twin[a : a + step][equal]] = original[a : a + step][equal]
        return first
