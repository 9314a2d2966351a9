"""Working sets: what decomposition and the minimal primal-dual method share around their steps.

    for samples of the variables that grow, the last of them the whole                          samples
        for parts of the sample, smaller and smaller as variables get stuck at a bound          solve_on
            repeat
                W  <- variables that violate most, and as many of the set before: free ones first
                fetch the rows of W that are not at hand, in one block                          block
                solve the problem on W with the rest fixed: the solver's own steps
                v  <- v − H[:, W] Δβ_W                                                          subtract
            until all conditions hold on the part, or there are variables to leave out          to_leave_out
            variables that were left out come back for a last look                              recall

A sample has wider boxes, as much as it is smaller, so that its decision function is that of the whole, and tells where
each new variable belongs: rows are then needed only of those that it tells wrongly (PRIMAL).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import threads as th
from ...goal import Goal
from ...gram import Gram, PrecomputedGram, Ridged, RowCache, as_gram, cache_bytes
from ...monitor import Monitor, Stopped
from ...problem import QP
from ...solution import Status
from .fixed_sums import offsets
from .limits import LOOK_WORK, NEAR, WIDE_BELOW, most_steps
from .pair_steps import Variables, gather, subtract_rows
from .reach import FETCH_PASSES, LOOKS_A_FETCH, LOOKS_A_STEP, LOOKS_A_VALUE

__all__ = ["Part", "Sizes", "WorkingSets", "sent_to", "without"]

GROWTH = 4  # times as many variables are in the next sample
ROWS_A_LOOK = 4  # entries of rows that are subtracted together in the time of a look at a variable
STUCK_LOOKS = 2  # looks in a row at which a variable could not move, before it counts as stuck
SHRINK_SHARE = 0.2  # share of the variables that must be stuck before it pays to make the problem smaller


@dataclass(frozen=True)
class Sizes:
    """How many variables make a problem large; with other numbers small problems take the paths of large ones."""

    matrix: int = 600  # variables up to which one matrix in float64 is computed whole: nothing is quicker
    pairs: int = 2500  # variables up to which a pass over all of them for the best pair is worth its time
    merge: int = 2000  # variables from which on looking for duplicates costs less than they do
    shrink: int = 1500  # variables from which on a step over few of them costs less than over all
    grow: int = 5000  # variables from which on a sample is solved first: the smallest has half to twice as many
    block: int = 64  # rows that are computed together if one is missing: a block costs little more than a row
    call: int = LOOK_WORK  # variables that steps look at between two looks at the clock
    stall: int = 200  # looks without progress after which a solver gives up


class Part:
    """The problem on a subset of the variables; the others are fixed."""

    def __init__(self, run: WorkingSets, index: np.ndarray) -> None:
        qp = run.qp
        self.index = index
        self.beta, self.v, self.p = run.beta[index], run.v[index], qp.p[index]
        self.lower, self.upper, self.eps = run.lower[index], run.upper[index], qp.eps[index]
        self.diag = run.diag[index]
        self.rise, self.fall = offsets(self.beta, self.lower, self.upper, self.eps)
        self.stuck_for = np.zeros(len(index), np.int64)  # looks in a row at which a variable could not violate

    @property
    def variables(self) -> Variables:
        return Variables(self.v, self.beta, self.lower, self.upper, self.eps, self.diag, self.rise, self.fall)

    def to_leave_out(self, stuck: np.ndarray) -> np.ndarray | None:
        """Which variables are stuck now and were so for some looks in a row, if they are many."""
        self.stuck_for = np.where(stuck, self.stuck_for + 1, 0)
        long = self.stuck_for >= STUCK_LOOKS
        return long if SHRINK_SHARE * len(long) < long.sum() < len(long) else None

    def with_old(self, new: np.ndarray, old: np.ndarray, q: int) -> np.ndarray:
        """New variables of a working set, perhaps more than q, and up to q those of the set before: free ones first."""
        old = without(old, new, len(self.index))
        at_bound = (self.beta[old] <= self.lower[old]) | (self.beta[old] >= self.upper[old])
        old = old[np.argsort(at_bound, kind="stable")]
        return np.sort(np.concatenate([new, old[: max(0, q - len(new))]]))

    def take_over(self, W: np.ndarray, found: Variables) -> np.ndarray:
        """β and what belongs to it as a working set has found it, but for v; returns how far each variable moved."""
        change = found.beta - self.beta[W]
        self.beta[W], self.rise[W], self.fall[W] = found.beta, found.rise, found.fall
        return change


def sent_to(slope: np.ndarray, eps: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Where a decision function sends variables: to a bound, or to 0 if ε or the box leaves them there."""
    return np.where(slope > eps, upper, np.where(slope < -eps, lower, np.clip(0.0, lower, upper)))


def without(some: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
    """Those of some variables, of n, that are not among others, in their order."""
    among = np.zeros(n, bool)
    among[others] = True
    return some[~among[some]]


class WorkingSets(ABC):
    """One call of a solver: the state that its steps share.

    A solver adds ``part``, ``minimise`` and ``at_rest``, and more to remember of variables that are left out if v
    depends on more than β.
    """

    def __init__(self, options: Any, qp: QP, goal: Goal, monitor: Monitor, least_rows: int = 1) -> None:
        self.options, self.qp, self.goal, self.monitor = options, qp, goal, monitor
        self.sizes: Sizes = options.sizes
        self.gram: Gram = as_gram(qp.H)
        if goal.first_violation < WIDE_BELOW:
            self.gram = self.gram.wide()
        self.small = qp.n <= self.sizes.matrix
        if self.small:
            self.gram = PrecomputedGram(self.gram.block(np.arange(qp.n)), cost=self.gram.cost)
        self.diag = self.gram.diag()
        self.in_memory = self._without_ridge(self.gram).whole() is not None
        self.q = options.working_set or int(np.clip(qp.n // 8, 64, 512))
        # Rows of groups, which lie together, are copies of a matrix that was computed whole: no budget has a say in it.
        self.budget = None if self.small else cache_bytes(options.cache_size)
        self.rows_at_once = min(qp.n, max(self.q, least_rows))
        self.cache: RowCache
        self.open_cache()
        self.lower, self.upper = qp.lower, qp.upper  # wider while we work on a sample
        self.beta = np.zeros(qp.n)
        self.v = np.full(qp.n, np.nan)  # where it is known, the direction in which β wants to go
        self.steps = self.iteration = 0
        self.most_steps = most_steps(goal, qp.n)
        self.looks, self.most_looks = 0, options.patience * qp.n * qp.n  # variables that steps look at (reach.py)

    # -- what a solver adds -----------------------------------------------------------------------------------

    @abstractmethod
    def part(self, index: np.ndarray) -> Any:
        """The problem on these variables."""

    @abstractmethod
    def minimise(self, part: Any, *tol: float) -> tuple[Status, np.ndarray | None]:
        """Steps until the conditions hold on this part, or until there are variables to leave out, and which."""

    @abstractmethod
    def at_rest(self, index: np.ndarray, status: Status, shrunk: bool, *tol: float) -> bool:
        """Whether all is done on ``index``, of which v is known now; ``shrunk``: some variables were left out."""

    def keep(self, part: Any) -> None:
        """Take over what was found on a part."""
        self.beta[part.index], self.v[part.index] = part.beta, part.v

    def snapshot(self) -> tuple[np.ndarray, ...]:
        """What v of variables that are left out depends on."""
        return (self.beta.copy(),)

    def recall(self, gone: np.ndarray, then: tuple[np.ndarray, ...]) -> None:
        """Bring v of variables up to date that were left out at that time."""
        self.v[gone] -= self.product(self.beta - then[0], gone)

    # -- what solvers share -----------------------------------------------------------------------------------

    def reason(self, solved: bool, stop: Status | None, tired: bool, unbounded: bool) -> Status:
        """Why steps end that have solved, stalled, or may or need not go on."""
        if solved or stop:
            return Status.CONVERGED if solved or stop is None else stop
        if tired:
            return Status.MAX_ITERATIONS if 0 < self.goal.max_iter <= self.steps else Status.EXHAUSTED
        return Status.UNBOUNDED if unbounded else Status.STALLED

    def room(self, width: int) -> int:
        """Steps over so many variables that we may still make."""
        return int(min(self.most_steps - self.steps, max(0.0, self.most_looks - self.looks) // (width + LOOKS_A_STEP)))

    def count(self, steps: int, width: int) -> None:
        """Remember that so many steps have looked at so many variables each."""
        self.steps += steps
        self.looks += steps * (width + LOOKS_A_STEP)

    def reserve(self, part: Any) -> None:
        """Have the time kept back that the certificate of β, as it is now on a part, will take."""
        self.monitor.reserve(self._closing_seconds, part)

    def _closing_seconds(self, part: Any) -> float:
        beta = self.beta.copy()
        beta[part.index] = part.beta
        return as_gram(self.qp.H).seconds(beta)

    def open_cache(self) -> None:
        self.cache = None  # type: ignore[assignment]  # what the one before holds is free first
        self.cache = RowCache(self._without_ridge(self.gram), self.budget, self.rows_at_once)

    def _without_ridge(self, gram: Gram) -> Gram:
        """The matrix whose rows are kept: a ridge is in ``diag`` alone, so that a matrix in memory needs no copy."""
        return gram.inner if isinstance(gram, Ridged) else gram

    def widen(self) -> bool:
        """Go on with rows in float64, unless they are."""
        if self.gram.copies == np.float64:
            return False
        self.gram = self.gram.wide()
        self.open_cache()
        return True

    def zero_inside(self) -> bool:
        return bool((self.qp.lower <= 0).all() and (self.qp.upper >= 0).all())

    def samples(self, growing: bool) -> Iterator[tuple[np.ndarray, float]]:
        """Samples of the variables, in ascending order, with their share of all; the last one is the whole."""
        n = self.qp.n
        counts = [n]
        while growing and counts[-1] > 2 * self.sizes.grow:
            counts.append(counts[-1] // GROWTH)
        mixed = np.random.default_rng(self.options.seed).permutation(n) if len(counts) > 1 else np.arange(n)
        for count in reversed(counts):
            yield np.sort(mixed[:count]), count / n

    def solve_on(self, index: np.ndarray, *tol: float) -> Status:
        """Minimise over ``index``, leaving out stuck variables, which come back for a last look."""
        left_out: list[tuple[np.ndarray, tuple[np.ndarray, ...]]] = []  # variables, and the state at that time
        part = self._open(index)
        while True:
            status, stuck = self.minimise(part, *tol)
            self.keep(part)
            if stuck is not None:
                left_out.append((part.index[stuck], self.snapshot()))
                self.cache.restrict(np.flatnonzero(~stuck))
                part = self.part(part.index[~stuck])
                continue
            if status not in NEAR:
                return status  # nobody needs v any more
            try:
                for gone, then in left_out:
                    self.recall(gone, then)
            except Stopped as stopped:
                return stopped.reason
            if self.at_rest(index, status, bool(left_out), *tol):
                return status
            left_out.clear()
            part = self._open(index)

    def _open(self, index: np.ndarray) -> Any:
        """The part of these variables, with a cache of their rows; rows of the whole that are known stay."""
        whole = len(index) == self.qp.n and bool((index[1:] > index[:-1]).all())
        gram = self._without_ridge(self.gram)
        if not whole or self.cache.gram is not gram:
            self.cache.restart(gram if whole else gram.take(index))
        return self.part(index)

    def product(self, beta: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Hβ at some variables, from the rows of coefficients that are not 0; a stop may come in between."""
        used = np.flatnonzero(beta)
        return self.gram.combine_watched(used, beta[used], at, self.monitor.look) if len(used) else np.zeros(len(at))

    def block(self, part: Any, W: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """H[W, W] from rows of a part that are at hand."""
        slab, q = self.cache.slab, len(W)
        K = np.empty((q, q), slab.dtype)
        th.spread(lambda a, b: gather(slab, slots, W, K, a, b), q, self.gram.threads, grain=64, align=16)
        np.fill_diagonal(K, part.diag[W])
        return K

    def fetch(self, index: np.ndarray) -> np.ndarray:
        """The slots of these variables' rows, which are made where they are missing."""
        made = int(np.count_nonzero(self.cache.slot[index] < 0))
        self.looks += LOOKS_A_FETCH + (FETCH_PASSES + LOOKS_A_VALUE * made) * len(self.cache.slot)
        return self.cache.fetch(index)

    def subtract(self, part: Any, W: np.ndarray, slots: np.ndarray, change: np.ndarray) -> None:
        """v −= Σ change_k H[:, W_k] on a part."""
        moved = np.flatnonzero(change)
        slab, W, slots, change, v = self.cache.slab, W[moved], slots[moved], change[moved], part.v
        grain = th.grain(len(slots))
        th.spread(lambda a, b: subtract_rows(slab, slots, change, v, a, b), len(v), self.gram.threads, grain)
        v[W] -= change * (part.diag[W] - slab[slots, W])
        self.looks += len(slots) * len(v) // ROWS_A_LOOK
