"""X as rows in blocks.

A linear solver sees X only through blocks of rows that answer small questions: products with w and with v, their
contribution to a normal matrix. A solver that has more to ask attaches a state of its own to each block: a crew
(crew.py), through which every product with X goes as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .. import threads as th
from .blocks import Block, Sparse, Stored, Watched, block_of
from .crew import Crew, ThreadCrew, added_up, served

__all__ = ["Rows"]

MOST_BLOCKS = 16  # blocks keep threads busy: when rows stop mattering here and there, the others share the work evenly
FEWEST_BLOCKS = 4  # blocks keep a few threads busy where answers are long
SUM_BYTES = 1 << 26  # bytes may hold the answers of all blocks, d × d numbers each, unless X takes more
ANSWER_WORK = 8  # numbers of X are worth one number of an answer, which has to be set to 0 and added up
STRIP = 64  # rows of a matrix are mirrored at a time: a strip and its image fit into a processor's cache
LEAST_WORK = 1 << 16  # numbers of X are worth a block of their own: they take 30 µs or more, a question about 5


class Rows:
    """n rows of d features in blocks."""

    served_by: ClassVar[type[Crew]] = ThreadCrew
    look: Callable[[], object] = staticmethod(lambda: None)  # before what takes long, and may raise

    def __init__(self, blocks: Sequence[Block], n_jobs: int | None = None) -> None:
        if not blocks:
            raise ValueError("rows were asked for; found no block at all; give an array with at least one row")
        widths = sorted({block.d for block in blocks})
        if len(widths) > 1:
            raise ValueError(f"rows of equal length were asked for; found {widths} features; give arrays of one width")
        self.blocks = list(blocks)
        self.d = widths[0]
        self.threads = th.count(n_jobs)
        self.edges = np.array([0, *accumulate(block.n for block in blocks)])
        self.n = int(self.edges[-1])
        self._even: tuple[np.ndarray, np.ndarray] | None = None  # further columns, and the normal matrix with them

    @classmethod
    def of(cls, X: Any, n_jobs: int | None = None) -> Rows:
        """Rows of an array, a sparse matrix, a memory map, the path of an .npy file, or a sequence of these.

        Whatever has a shape and gives an array when it is sliced will do: its rows are loaded when they are asked for.
        """
        threads = th.count(n_jobs)
        if isinstance(X, (str, os.PathLike)):
            X = np.load(X, mmap_mode="r")
        whole = [block_of(part, threads) for part in (X if isinstance(X, (list, tuple)) else [X])]
        d = max((block.d for block in whole), default=1)
        total = sum(block.work for block in whole)
        held = 8 * sum(block.work for block in whole if not isinstance(block, Stored))
        fitting = min(max(SUM_BYTES, held) // (8 * max(1, d) ** 2), total // (ANSWER_WORK * max(1, d)))
        most = min(max(fitting, FEWEST_BLOCKS), MOST_BLOCKS)
        blocks: list[Block] = []
        for block in whole:
            parts = min(block.n, -(-most * block.work // max(1, total)), max(1, block.work // LEAST_WORK))
            blocks += block.split(max(1, parts))
        return cls(blocks, n_jobs)

    @classmethod
    def times(cls, X: Any, w: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """X w as ``Rows.of(X).dot(w)`` computes it; few rows are one block, which nobody has to share out."""
        size = X.nnz if sp.issparse(X) else X.size if isinstance(X, np.ndarray) else 2 * LEAST_WORK
        if size < 2 * LEAST_WORK and not isinstance(block := block_of(X), Stored):
            with th.blas_limit(1):
                return block.dot(w)
        return cls.of(X, n_jobs).dot(w)

    @property
    def sparse(self) -> bool:
        return all(isinstance(block, Sparse) for block in self.blocks)

    @property
    def stored(self) -> bool:
        """Whether rows have to be loaded for every answer."""
        return any(isinstance(block, Stored) for block in self.blocks)

    @property
    def work(self) -> int:
        """How many numbers a product with X touches."""
        return sum(block.work for block in self.blocks)

    def crew(
        self,
        state: Callable,
        per_row: Sequence[np.ndarray] = (),
        *common: Any,
        look: Callable[[], object] | None = None,
    ) -> Crew:
        """state(block, its slice of each per-row array, *common) for every block; rows are the last axis.

        ``look`` is called now and then while states are at work, and may raise.
        """
        return self.served_by(self.blocks, self.threads, state, per_row, common, look)

    def watched(self, look: Callable[[], object]) -> Rows:
        """The same rows, with a look before each tile of them that is read, or strip of a matrix that is written."""
        found = Rows([Watched(block, look) for block in self.blocks], self.threads)
        found.look = look
        return found

    @cached_property
    def _plain(self) -> Crew:
        """The blocks themselves."""
        return self.served_by(self.blocks, self.threads)

    def _sum(self, question: str, per_row: Sequence[np.ndarray], *args: Any) -> np.ndarray:
        return added_up(self._plain.scatter(question, per_row, *args, axis=0), self.threads)

    def dot(self, w: np.ndarray) -> np.ndarray:
        """X w for one w, or for several as columns, in float64."""
        return self._plain.collect("dot", w, axis=0)

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        """Xᵀ v for one v, or for several as columns, in float64."""
        return self._sum("t_dot", (v,))

    def normal(self, theta: np.ndarray, extra: np.ndarray | None = None, single: bool = False) -> np.ndarray:
        """Ẑᵀ diag(θ) Ẑ with Ẑ = [X, extra], whole and symmetric; rows whose θ is 0 cost nothing.

        A θ that is the same for all rows is where Newton's method begins, for each class again: ẐᵀẐ is kept for them.
        """
        columns = np.zeros((self.n, 0)) if extra is None else extra
        even = not single and self.n > 0 and theta[0] > 0.0 and bool((theta == theta[0]).all())
        if even and self._even is not None and np.array_equal(self._even[0], columns):
            return self._times(theta[0], self._even[1])
        whole = self._mirrored(self._sum("normal", (np.ones(self.n) if even else theta, columns), single))
        if not even:
            return whole
        self._even = columns, whole
        return self._times(theta[0], whole)

    def _times(self, factor: float, M: np.ndarray) -> np.ndarray:
        """M times a number, a strip at a time: to get memory of that size may take longer than to fill it."""
        out = np.empty_like(M)
        for a in range(0, len(M), STRIP):
            self.look()
            np.multiply(factor, M[a : a + STRIP], out=out[a : a + STRIP])
        return out

    def _mirrored(self, M: np.ndarray) -> np.ndarray:
        """M with its upper triangle below the diagonal too, written a strip at a time and in place."""
        for a in range(0, len(M), STRIP):
            b = a + STRIP
            self.look()
            M[a:b, a:b] = np.triu(M[a:b, a:b]) + np.triu(M[a:b, a:b], 1).T
            M[b:, a:b] = M[a:b, b:].T
        return M

    def squared_norms(self) -> np.ndarray:
        """‖x_i‖² in float64."""
        return self._plain.collect("squared_norms")

    def t_squares(self, v: np.ndarray) -> np.ndarray:
        """Σ_i v_i x_ij² for each feature."""
        return self._sum("t_squares", (v,))

    def matrix(self, index: np.ndarray | None = None) -> Any:
        """These rows (all of them) in one piece: an array, or CSR if any of them are sparse."""
        index = np.arange(self.n) if index is None else np.asarray(index)
        order = np.argsort(index, kind="stable")
        ranks = np.searchsorted(index[order], self.edges)
        parts = [
            block.gather(index[order[a:b]] - first)
            for block, first, a, b in zip(self.blocks, self.edges[:-1], ranks[:-1], ranks[1:], strict=True)
            if b > a
        ] or [self.blocks[0].gather(index)]
        if any(sp.issparse(part) for part in parts):
            found = sp.vstack([sp.csr_array(part) for part in parts], format="csr") if len(parts) > 1 else parts[0]
        else:
            found = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if (order[1:] > order[:-1]).all():
            return found
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return found[back]

    def take(self, index: np.ndarray) -> Rows:
        """These rows, in memory."""
        return Rows.of(self.matrix(index), self.threads)

    def scaled(self, factor: np.ndarray) -> Rows:
        """Each row times its factor."""
        ranges = zip(self.edges[:-1], self.edges[1:], strict=True)
        return Rows(
            [b.scaled(factor[start:stop]) for b, (start, stop) in zip(self.blocks, ranges, strict=True)], self.threads
        )

    def widened(self, constant: float) -> Rows:
        """Each row with one more feature, the same for all."""
        wider = served(lambda k: self.blocks[k].widened(constant), len(self.blocks), self.threads)
        return Rows(wider, self.threads)

    def repeated(self, times: int) -> Rows:
        """All rows, and all of them again; nothing is copied."""
        return Rows(self.blocks * times, self.threads)
