"""Rows of a Gram matrix, kept while they fit a budget of bytes; the least recently used go first.

Rows live in one slab; ``slot[i]`` tells where row i is, or −1. Leaves read the slab directly, so a row is
written once and never copied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from .. import memory
from .. import threads as th
from .._jit import jit
from .base import PIECE_EVALS, Gram

__all__ = ["RowCache", "cache_bytes", "once_more"]

MEGABYTE = 1 << 20
START_BYTES = 256 * MEGABYTE
LEAST_ROWS = 2  # a step moves two variables
LESS = 1 / 8  # of a cache for which there was no memory


def cache_bytes(cache_size: float | str) -> int | None:
    """The budget in bytes for ``cache_size`` in megabytes, or None for "auto": what the process's budget leaves."""
    if cache_size == "auto":
        return None
    if isinstance(cache_size, str) or not cache_size > 0:
        raise ValueError(f'cache_size={cache_size!r} was asked for; found no size; give megabytes > 0 or "auto"')
    return int(cache_size * MEGABYTE)


def once_more(solve: Callable) -> Callable:
    """A solver's ``solve`` that tries once more with a smaller cache when memory runs out."""

    @wraps(solve)
    def patient(self: Any, qp: Any, *asked: Any, **more: Any) -> Any:
        with suppress(MemoryError):  # which holds what was computed so far, and ends here
            return solve(self, qp, *asked, **more)
        budget = cache_bytes(self.cache_size)
        less = LESS * (memory.left_for_one() if budget is None else budget)
        least = LEAST_ROWS * qp.n * np.dtype(np.float64).itemsize
        return solve(replace(self, cache_size=max(less, least) / MEGABYTE), qp, *asked, **more)

    return patient


class RowCache:
    """The rows of one Gram that fit a budget of bytes (None: what the process's budget leaves), at least two.

    The slab is reserved whole but used only as far as it pays: fresh memory costs more than most kernel
    rows, so the cache grows past ``START_BYTES``, or twice the rows that are ``wanted`` at a time, only when rows that
    it had dropped are asked for again.
    """

    def __init__(self, gram: Gram, budget: int | None, wanted: int = 2) -> None:
        if budget is not None and gram.whole() is not None:  # beside a matrix in memory two of its rows are nothing
            budget = max(budget, LEAST_ROWS * gram.n * gram.dtype.itemsize)
        self.budget = budget
        self.wanted = wanted
        self.buffer = np.empty(0, gram.copies)
        self.points = 0  # for which the buffer was made
        self.clock = self.asked = self.missed = 0
        self._lay_out(gram)

    def _lay_out(self, gram: Gram) -> None:
        """Use the memory for the rows of this Gram, none known yet; a matrix that is there whole is used as it is."""
        n = gram.n
        self.gram = gram
        whole = gram.whole()
        if whole is not None:
            self.slab, self.capacity, self.limit, self.filled = whole, n, n, n
            self.slot = np.arange(n)
            self.owner = np.arange(n)
        else:
            if n > self.points:
                self._reserve(n, gram.copies)
            self.capacity = min(n, len(self.buffer) // n)
            self.slab = self.buffer[: self.capacity * n].reshape(self.capacity, n)
            self.limit = min(self.capacity, max(2 * self.wanted, START_BYTES // (n * self.buffer.itemsize)))
            self.filled = 0
            self.slot = np.full(n, -1, np.int64)
            self.owner = np.full(self.capacity, -1, np.int64)
        self.used = np.zeros(self.capacity, np.int64)  # when a slot was last asked for
        self.dropped = np.zeros(n, bool)
        self.repeated = 0  # rows computed again because they had been dropped, since the cache last grew

    def _reserve(self, n: int, dtype: np.dtype) -> None:
        """A buffer for rows of n numbers."""
        most = n * n * dtype.itemsize
        least = min(n, LEAST_ROWS) * n * dtype.itemsize
        if self.budget is not None and self.budget < least:
            raise ValueError(
                f"a cache_size of {self.budget / MEGABYTE:.3g} megabytes was asked for; found that {LEAST_ROWS} kernel "
                f"rows of {n} numbers, without which there is no step, take {least / MEGABYTE:.3g}; give cache_size "
                f'>= {1.01 * least / MEGABYTE:.3g} or "auto", or fit fewer samples'
            )
        self.buffer = np.empty(0, dtype)  # the one before goes first
        self.reserved = memory.share(most, least) if self.budget is None else memory.reserve(min(most, self.budget))
        self.buffer = np.empty(self.reserved.size // dtype.itemsize, dtype)
        self.points = n

    @property
    def hit_rate(self) -> float:
        return 1.0 - self.missed / max(1, self.asked)

    def fetch(self, index: np.ndarray) -> np.ndarray:
        """The slots of these rows (no more of them than fit); missing ones are computed together."""
        self.clock += 1
        self.asked += len(index)
        slots = self.slot[index]
        present = slots >= 0
        self.used[slots[present]] = self.clock
        missing = index[~present]
        if len(missing):
            self.missed += len(missing)
            self.repeated += int(self.dropped[missing].sum())
            fresh = self._room(len(missing))
            self.gram.rows(missing, self.slab, fresh)
            self.slot[missing] = fresh
            self.owner[fresh] = missing
            self.used[fresh] = self.clock
            slots = self.slot[index]
        return slots

    def spare(self) -> int:
        """Free slots for rows that a leaf makes itself, as many as it may fill before the next look at the clock."""
        return min(self.limit - self.filled, max(2, PIECE_EVALS // max(1, self.gram.n)))

    def take_over(self, made: int, seconds: float) -> None:
        """So many of the free slots hold rows now, which a leaf has made in that time and whose ``slot`` it has set."""
        if not made:
            return
        self.clock += 1
        self.asked += made
        self.missed += made
        new = np.flatnonzero(self.slot >= self.filled)
        self.owner[self.slot[new]] = new
        self.repeated += int(self.dropped[new].sum())
        self._fill(made)
        self.used[self.filled - made : self.filled] = self.clock
        self.gram.cost.add(made * self.gram.n, self.slab.itemsize, seconds)

    def _fill(self, count: int) -> None:
        self.filled += count
        self.reserved.filled = max(self.reserved.filled, self.filled * self.slab.strides[0])

    def _room(self, count: int) -> np.ndarray:
        """Slots for count rows: unused ones first, so that they are neighbours, then the oldest."""
        busy = int((self.used[: self.filled] == self.clock).sum())
        if self.repeated > self.limit // 4 or busy + count > self.limit:
            self.limit = min(self.capacity, max(2 * self.limit, busy + count))
            self.repeated = 0
        if busy + count > self.limit:
            raise MemoryError(
                f"{busy + count} kernel rows were asked for at once; found room for {self.limit}; raise cache_size"
            )
        first = min(count, self.limit - self.filled)
        fresh = np.arange(self.filled, self.filled + first)
        if count > first:
            old = np.flatnonzero(self.used[: self.filled] < self.clock)
            need = count - first
            oldest = np.sort(old[np.argpartition(self.used[old], need - 1)[:need]])
            self.slot[self.owner[oldest]] = -1
            self.dropped[self.owner[oldest]] = True
            fresh = np.concatenate([fresh, oldest])
        self._fill(first)
        return fresh

    def restrict(self, index: np.ndarray) -> None:
        """Go on with the Gram on these points only (ascending), keeping what is known of its rows."""
        n, slot, used, adopted = self.gram.n, self.slot, self.used, self.gram.whole() is not None
        part = self.gram.take(index)
        if adopted or part.whole() is not None:
            self._lay_out(part)  # a matrix in memory gives its rows at once, and is not ours to write to
            return
        known = np.flatnonzero(slot[index] >= 0)
        known = known[np.argsort(slot[index[known]])]
        source = slot[index[known]]
        self._lay_out(part)
        known, source = known[: self.capacity], source[: self.capacity]
        self._compact(source, n, index)
        self.filled = len(known)
        self.limit = max(self.limit, self.filled)
        self.slot[known] = np.arange(self.filled)
        self.owner[: self.filled] = known
        self.used[: self.filled] = used[source]

    def _compact(self, source: np.ndarray, n: int, columns: np.ndarray) -> None:
        """Row k of the narrower layout <- columns of row source[k] of the wider one, in place; both ascend.

        Rows may be moved side by side as far as they are written to before the first of them begins. The first few are
        moved one after the other: then nothing is overwritten before it is read.
        """
        m, buffer, threads = max(1, len(columns)), self.buffer, self.gram.threads
        few, done = th.grain(m), 0

        def side_by_side(first: int, stop: int) -> None:
            def leaf(a: int, b: int) -> None:
                compact_rows(buffer, source, n, columns, first + a, first + b)

            th.spread(leaf, stop - first, threads, few, align=1)

        while done < len(source):
            apart = min(len(source), int(source[done]) * n // m)
            if apart - done > few:
                side_by_side(done, apart)
                done = apart
            else:
                compact_rows(buffer, source, n, columns, done, min(len(source), done + few))
                done += few

    def restart(self, gram: Gram) -> None:
        """Go on with another Gram in the same memory, none of its rows known."""
        self._lay_out(gram)


@jit
def compact_rows(buffer, source, n, columns, start, stop):
    """Rows start to stop of the narrower layout, in this order."""
    m = len(columns)
    for k in range(start, stop):
        base = source[k] * n
        for c in range(m):
            buffer[k * m + c] = buffer[base + columns[c]]
