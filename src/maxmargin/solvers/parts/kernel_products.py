"""A kernel matrix on points that join one after the other: products with vectors, blocks, and values elsewhere.

K is symmetric, so that half of it is enough. Points W come in panels of some hundred; a panel holds their rows up to
the diagonal, and a product reads it once for both halves:

    y[panel] += P x[: end]          y[: start] += P[:, : start]ᵀ x[panel]

What costs is the memory that a product reads. Points that no coefficient needs, and that need no look at each step,
are better left out of W: their values are computed once in a while (``at``).

Panels are kept while they fit a budget of bytes; of a matrix that does not fit, that lies in memory already and is used
as a whole, or that has quicker products of its own (features, a factor, neighbours, a transform), none is made.
"""

from __future__ import annotations

import numpy as np

from ... import memory
from ... import threads as th
from ...gram import CallableGram, GaussGram, Gram, KernelGram, NearGram, PrecomputedGram
from ...gram.matrix_leaves import panel_product
from ...monitor import Monitor

__all__ = ["KernelProducts"]

NUMBERS_A_TRANSFORM = 1000  # a point: two transforms that spread it over 13 places in each of three dimensions
BYTES_A_MODE = 128  # of a transform: a complex number, and eight on the finer grid that it is taken from
PART_OF_PANEL = 64  # rows of a panel are made between two looks at the clock where they are long


class KernelProducts:
    """K on the points ``index``, which may grow."""

    panel = 512  # points whose rows are made and read together: enough for quick kernel products

    def __init__(self, gram: Gram, budget: int | None, monitor: Monitor) -> None:
        self.gram, self.monitor = gram, monitor
        self.index = np.zeros(0, np.int64)
        self.part: Gram = gram  # on the points that have joined
        self.panels: list[np.ndarray] = []
        self.ends = [0]
        self.whole: np.ndarray | None = None  # the matrix itself, where somebody else keeps it
        self.room = memory.left_for_one() if budget is None else budget
        self.reserved = memory.reserve(0)
        # Of a matrix in memory a part is copied once, and not for each product.
        self.kept = computed(gram) or isinstance(gram, PrecomputedGram)

    @property
    def n(self) -> int:
        return len(self.index)

    def grow(self, more: np.ndarray) -> None:
        """Let points join. A stop may come in between; those whose panels are complete are in then."""
        whole = self.gram.whole()
        if whole is not None and len(more) == self.gram.n and not self.n:
            self.index, self.part, self.whole, self.kept = np.asarray(more), self.gram, whole, False
            return
        order = np.concatenate([self.index, more])
        itemsize = self.gram.dtype.itemsize
        if self.kept and len(order) * (len(order) + self.panel) // 2 * itemsize > self.room:
            self.kept, self.panels, self.ends = False, [], [0]
            self.reserved = memory.reserve(0)
        if not self.kept:
            everything = len(order) == self.gram.n and bool((order[1:] > order[:-1]).all())
            self.index, self.part = order, self.gram if everything else self.gram.take(order)
            return
        self.reserved = memory.reserve(len(order) * (len(order) + self.panel) // 2 * itemsize)
        for start in range(self.n, len(order), self.panel):
            end = min(len(order), start + self.panel)
            self.panels.append(self._panel(order[:end], start))
            self.ends.append(end)
            self.index = order[:end]
            self.reserved.filled += self.panels[-1].nbytes
        self.part = self.gram.take(self.index)

    def _panel(self, order: np.ndarray, start: int) -> np.ndarray:
        part, q = self.gram.take(order), len(order) - start
        panel = np.empty((q, len(order)), self.gram.dtype)
        for a in range(0, q, PART_OF_PANEL):
            self.monitor.look()
            some = np.arange(a, min(q, a + PART_OF_PANEL))
            part.rows(start + some, panel, some)
        return panel

    def a_factor(self, m: int) -> int:
        """How many products with m points take as long as a factor of their matrix.

        Products in BLAS, of which a factor takes m³/3, run about ten times as fast as numbers come from memory.
        """
        numbers = 0.5 * m * m
        if isinstance(self.part, NearGram):
            numbers = 1.5 * self.part.K.nnz  # with the number of each column
        elif isinstance(self.part, GaussGram):
            numbers = NUMBERS_A_TRANSFORM * self.n
        return max(1, int(m**3 / (30.0 * max(1.0, numbers))))

    def fits(self, m: int) -> bool:
        """Whether there is room for a factor of m points and the matrix that it is made of.

        A kernel with products of its own is taken for the memory that it saves: a factor may take as much as it does.
        """
        own = self.room
        if isinstance(self.part, NearGram):
            own = 12 * self.part.K.nnz
        elif isinstance(self.part, GaussGram):
            own = BYTES_A_MODE * int(np.prod(self.part.modes))
        return 16 * m * m <= min(self.room, own)

    def times(self, v: np.ndarray) -> np.ndarray:
        """Kv on the points themselves."""
        if self.whole is not None:
            return self._by_rows(self.whole, v)
        if not self.kept:
            used = np.flatnonzero(v)
            if not computed(self.gram):
                self.monitor.look()
                return self.part.matvec(v)
            everywhere = np.arange(self.n)
            return self.part.combine_watched(used, v[used], everywhere, self.monitor.look) if len(used) else 0.0 * v
        if not self.panels:
            return np.zeros(0)
        x = v.astype(self.gram.dtype)
        parts: list[np.ndarray] = [np.zeros(0)] * len(self.panels)

        def leaf(first: int, last: int) -> None:
            for k in range(first, last):
                parts[k] = self._panel_product(k, x)

        # Each panel has a sum of its own, and they are added up in order: the same bits for any number of threads.
        th.spread(leaf, len(self.panels), self.gram.threads, grain=1, align=1, longest=1)
        out = np.zeros(self.n)
        for part in parts:
            out[: len(part)] += part
        return out

    def _panel_product(self, k: int, x: np.ndarray) -> np.ndarray:
        end = self.ends[k + 1]
        out = np.zeros(end)
        panel_product(self.panels[k], x[:end], out)
        return out

    def _by_rows(self, K: np.ndarray, v: np.ndarray) -> np.ndarray:
        out, x = np.empty(len(K)), v.astype(K.dtype)

        def leaf(a: int, b: int) -> None:
            np.matmul(K[a:b], x, out=out[a:b])

        th.spread(leaf, len(K), self.gram.threads, th.grain(len(K)))
        return out

    def block(self, F: np.ndarray) -> np.ndarray:
        """K among the points F of W, in float64."""
        if self.whole is not None:
            return np.asarray(self.whole[np.ix_(F, F)], np.float64)
        if not self.kept:
            return self.part.block(F)
        out = np.empty((len(F), len(F)))
        order = np.argsort(F, kind="stable")
        ranked = F[order]
        for k, panel in enumerate(self.panels):
            a, b = np.searchsorted(ranked, [self.ends[k], self.ends[k + 1]])
            if a < b:
                rows = panel[ranked[a:b] - self.ends[k]][:, ranked[:b]]
                out[np.ix_(order[a:b], order[:b])] = rows
                out[np.ix_(order[:a], order[a:b])] = rows[:, :a].T
        return out

    def rows(self, F: np.ndarray) -> np.ndarray:
        """Rows F of W, in float64."""
        return np.asarray(self.part.rows(F), np.float64)

    def at(self, v: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Σ_i v_i k(x_i, ·) at any points of the Gram, with v on W."""
        used = np.flatnonzero(v)
        if not len(used) or not len(points):
            return np.zeros(len(points))
        return self.gram.combine_watched(self.index[used], v[used], points, self.monitor.look)

    def combine(self, F: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Σ_k change_k K[F_k, W]."""
        v = np.zeros(self.n)
        v[F] = change
        return self.times(v)


def computed(gram: Gram) -> bool:
    """Whether a matrix computes its entries each time that somebody asks for them, and has no quicker products."""
    while hasattr(gram, "inner") and not isinstance(gram, (NearGram, GaussGram)):
        gram = gram.inner
    return isinstance(gram, (KernelGram, CallableGram))
