"""What machines of folds read of the kernel matrix: all of it among samples near the boundary, and whole rows of few.

Samples near the boundary, of which there may come more, are those that a machine may have a coefficient on: all entries
between them are needed. Decisions elsewhere need the rows of those that have had a coefficient in any machine, and
these are computed when they have the first one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..gram import Gram

__all__ = ["NearRows"]

PIECE = 1 << 22  # kernel values between two looks at the clock


class NearRows:
    """The matrix on samples ``near``, the first ``used`` of which have coefficients, and rows as they are needed.

    ``look`` is called before each piece, and may raise.
    """

    def __init__(self, gram: Gram, near: np.ndarray, used: int, look: Callable[[], object]) -> None:
        self._gram, self._look = gram.wide(), look
        self.near, self.matrix = near[:0], np.zeros((0, 0))
        self.place = np.full(gram.n, -1)  # of a sample among those near the boundary
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []  # places of samples, and their rows
        self._waiting = np.zeros(0, np.int64)  # places of samples whose rows are not known
        if len(near) == gram.n:
            near, whole = np.arange(gram.n), gram.whole()
            self.near = self.place = near
            self.matrix = self._rows(near) if whole is None else np.asarray(whole, np.float64)
            self._blocks.append((near, self.matrix))
            return
        self.near = near[:used]
        self.place[self.near] = np.arange(used)
        rows = self._rows(self.near)
        self._blocks.append((np.arange(used), rows))
        self.matrix = rows.take(self.near, axis=1)
        self.add(near[used:])

    def add(self, more: np.ndarray) -> None:
        """More samples near the boundary."""
        old, count = len(self.near), len(self.near) + len(more)
        new = np.arange(old, count)
        self.near = np.concatenate([self.near, more])
        self.place[more] = new
        self._waiting = np.concatenate([self._waiting, new])
        matrix = np.empty((count, count))
        matrix[:old, :old] = self.matrix
        self._fill(matrix, self._gram.take(self.near), new, new)
        matrix[:old, old:] = matrix[old:, :old].T
        self.matrix = matrix

    def values(self, coef: np.ndarray) -> np.ndarray:
        """(machines, samples) of coef K, from (machines, near); rows that are used for the first time are computed."""
        first = coef[:, self._waiting].any(axis=0)
        if first.any():
            at = self._waiting[first]
            self._waiting = self._waiting[~first]
            self._blocks.append((at, self._rows(self.near[at])))
        return sum((coef[:, at] @ rows for at, rows in self._blocks), np.zeros((len(coef), len(self.place))))

    def _rows(self, index: np.ndarray) -> np.ndarray:
        """Rows of samples, at all of them."""
        out = np.empty((len(index), self._gram.n))
        self._fill(out, self._gram, index, np.arange(len(index)))
        return out

    def _fill(self, out: np.ndarray, gram: Gram, index: np.ndarray, slots: np.ndarray) -> None:
        step = max(1, PIECE // gram.n)
        for a in range(0, len(index), step):
            self._look()
            gram.rows(index[a : a + step], out, slots[a : a + step])
