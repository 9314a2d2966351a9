"""Decomposition: solve the QP on a small working set at a time (SLIDES; Osuna, Joachims, Platt, Fan et al.).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  box,  one fixed sum a group of variables

    repeat
        steps on pairs of all variables as long as their rows are at hand; at the first row that is missing
        W  <- the q variables that promise most: steepest feasible direction (Joachims 1999)
        solve the problem on W with the rest fixed, by pair steps (SMO, second-order choice: Fan et al. 2005)
        v  <- v − H[:, W] Δβ_W                          one pass over q cached rows
        now and then: drop variables that are stuck at a bound (shrinking)
    until the largest violation on all variables < tol, checked with an exact product

With q = 2 the working set is the pair itself (SMO); with q ≥ n the first working set is the whole problem.

Equality constraints. Variables with the same column of A form a group. If the distinct columns are
linearly independent, Aβ = b fixes the sum of each group and nothing else, so a pair step inside a group is
feasible: one group for C-SVC, SVR and one-class, two for the ν machines, none without a bias. The
multipliers follow from the level of each group, half way between its m and M: no averaging over free
support vectors, no special case when there are none.

Growing. The problem is first solved on a sample, then on four times as many, ... (PRIMAL doubles). A sample has
wider boxes, so that its decision function is that of the whole, and tells where each new variable belongs: rows
are then needed only of those that it tells wrongly.

| papers                          | here                                   |
| ------------------------------- | -------------------------------------- |
| −∇f (LIBSVM: −y G)              | v = −(Hβ + p)                          |
| I_up, I_low                     | ``up`` = v + rise, ``down`` = v + fall: −BIG, BIG where a variable cannot move |
| m(β), M(β)                      | max up, min down, in a group           |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import threads as th
from ..goal import Goal
from ..gram import Gram, PrecomputedGram, RowCache, as_gram, cache_bytes, once_more
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, close
from .parts.duplicates import MERGE_FROM, merge_duplicates
from .parts.fixed_sums import BIG, Groups, feasible, midway, offsets
from .parts.newton_finish import newton_finish
from .parts.pair_steps import HUGE, Variables, gather, pair_steps, single_steps, subtract_rows
from .parts.reach import ROUNDINGS, slope_rounding
from .parts.small_sets import small_set_steps

__all__ = ["SMO", "Decomposition"]

STEPS_A_CALL = 5_000_000  # variables looked at by small steps between two looks at the clock: some 10 ms
PREFETCH = 64  # rows computed together when q = 2 and one is missing: a block costs little more than a row
MATRIX_UP_TO = 600  # variables: up to here one matrix in float64 is the quickest of all
PAIRS_UP_TO = 2500  # variables: up to here a pass for the best pair is worth its time
INNER_TOL = 0.3  # how much of the violation a working set may keep
STUCK_LOOKS = 2  # in a row, before a variable counts as stuck
SHRINK_SHARE = 0.2  # of the variables must be stuck before it pays to make the problem smaller
SHRINK_FROM = 200  # variables: below, a step costs no more over all of them than over few (measured)
GROW_FROM = 5000  # variables: smaller problems are solved whole at once
GROWTH = 4  # times as many in the next sample; doubling takes as long on a9a with C = 1 and 10, longer with C = 100
GROW_TOL = 0.1  # how well a sample is solved, whose solution is only a start
WIDE_BELOW = 1e-4  # tolerance below which rows are computed in float64
MARGIN = 0.9  # of tol is what rows must reach, so that rounding in them does not fail the exact look at the end
REFINEMENTS = 12  # restarts from an exact gradient before rounding is blamed
FINER = 0.1  # next accuracy, of the one before, if that was reached and leaves too large a gap
NEWTON_WORK = 500_000  # free variables × variables up to which the last step costs next to nothing
ROWS_A_LOOK = 4  # entries of rows that are subtracted together cost what a look at a variable does
STALL_LOOKS = 200  # without progress before we give up
STALL_DECREASE = 1e-13  # of the objective: less is no progress


@dataclass
class Decomposition:
    """Working sets of q variables, inner pair steps, shrinking, growing, duplicates merged."""

    # q: how many variables are solved together when a step asks for a row that is not at hand; 2 is SMO; None: an
    # eighth of the variables, 64 at least and 512 at most. As long as the rows that steps ask for are at hand, they
    # choose among all variables, whatever q: up to 600 variables and with a precomputed kernel that is always so. All
    # that q does there is that with 2 steps move pairs, where above 2500 variables they would move small sets.
    working_set: int | None = None
    selection: str = "second-order"  # choice of a pair's second variable, or "steepest": the most violating pair
    shrinking: bool = True  # leave out variables that are stuck at a bound
    growing: bool = True  # start from a sample that grows
    merging: bool = True  # duplicate points become one point with a larger box
    newton: bool = True  # solve for the free variables at the end, where that is cheap
    patience: float = np.inf  # pair steps a variable, at most; more where they look at fewer than all variables
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # order in which the sample grows

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def __post_init__(self) -> None:
        if self.working_set is not None and not 2 <= self.working_set <= 4096:
            raise ValueError(
                f"working_set={self.working_set} was asked for; found outside 2 … 4096; choose a size in that range"
            )
        if self.selection not in ("second-order", "steepest"):
            raise ValueError(
                f'selection={self.selection!r} was asked for; found "second-order" and "steepest"; choose one'
            )

    @once_more
    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start`` (moved into the box and onto the constraints if need be).

        Iterations are pair steps; without a limit 100 a variable and at least ten million, as LIBSVM.
        """
        run = _Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, run.gram.evals)


@dataclass
class SMO(Decomposition):
    """Decomposition with q = 2: pair steps over all variables, each the best by second order (Platt; Fan et al.)."""

    working_set: int | None = 2  # the pair itself


class _Part:
    """The problem on a subset of the variables, sorted by group; the others are fixed."""

    def __init__(self, run: _Run, index: np.ndarray) -> None:
        qp = run.qp
        self.index = index
        self.grouped = run.groups.count > 0
        self.beta, self.v, self.p = run.beta[index], run.v[index], qp.p[index]
        self.lower, self.upper, self.eps = run.lower[index], run.upper[index], qp.eps[index]
        self.diag = run.diag[index]
        self.rise, self.fall = offsets(self.beta, self.lower, self.upper, self.eps)
        self.edges = np.searchsorted(run.groups.label[index], np.arange(max(1, run.groups.count) + 1))
        self.sizes = np.diff(self.edges)
        self.stuck_for = np.zeros(len(index), np.int64)  # looks in a row at which a variable could not violate
        self.start = (self.beta.copy(), self.v.copy())
        self.base = run.objective
        rest = np.ones(qp.n, bool)
        rest[index] = False
        self.fixed = float(qp.p[rest] @ run.beta[rest] + qp.eps[rest] @ np.abs(run.beta[rest]))

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """m and M of each group; without equality constraints the level is 0 and both lie on their side of it."""
        up, down = self.v + self.rise, self.v + self.fall
        ranges = list(zip(self.edges[:-1], self.edges[1:], strict=True))
        m = np.array([up[a:b].max(initial=-BIG) for a, b in ranges])
        M = np.array([down[a:b].min(initial=BIG) for a, b in ranges])
        return (m, M) if self.grouped else (np.maximum(m, 0.0), np.minimum(M, 0.0))

    def violation(self) -> float:
        m, M = self.levels()
        return float((m - M).max())

    def stuck(self, m: np.ndarray, M: np.ndarray) -> np.ndarray:
        """Which variables could, for some looks in a row, only have moved the wrong way."""
        now = (self.v + self.rise < np.repeat(M, self.sizes)) & (self.v + self.fall > np.repeat(m, self.sizes))
        self.stuck_for = np.where(now, self.stuck_for + 1, 0)
        return self.stuck_for >= STUCK_LOOKS

    def objective(self) -> float:
        """The objective of all variables: what it was, and what the steps since then have gained."""
        beta, v = self.start
        more = self.eps @ (np.abs(self.beta) - np.abs(beta))
        return float(self.base - 0.5 * (self.beta - beta) @ (v + self.v) + more)

    def shrunk(self, share: float) -> float:
        """The objective at that share of all coefficients, which is feasible where boxes are as much smaller."""
        objective = self.objective()
        linear = self.fixed + float(self.p @ self.beta + self.eps @ np.abs(self.beta))
        return share * share * (objective - linear) + share * linear

    @property
    def variables(self) -> Variables:
        return Variables(self.v, self.beta, self.lower, self.upper, self.eps, self.diag, self.rise, self.fall)


class _Run:
    """One call of the solver: the state that its steps share."""

    def __init__(self, options: Decomposition, whole: QP, goal: Goal, monitor: Monitor) -> None:
        self.options = options
        self.whole = whole
        self.goal = goal
        self.monitor = monitor
        groups = Groups.of(whole)
        self.merged = merge_duplicates(whole) if options.merging and whole.n >= MERGE_FROM else None
        if self.merged is not None:
            groups = Groups(groups.label[self.merged.first], groups.columns, groups.sums)
        self.qp = qp = whole if self.merged is None else self.merged.qp
        self.groups = groups
        self.gram: Gram = as_gram(qp.H)
        if goal.first_violation < WIDE_BELOW:
            self.gram = self.gram.wide()
        if qp.n <= MATRIX_UP_TO:
            self.gram = PrecomputedGram(self.gram.block(np.arange(qp.n)), cost=self.gram.cost)
        self.diag = self.gram.diag()
        self.lower, self.upper = qp.lower, qp.upper  # wider while we work on a sample
        self.level = np.zeros(groups.count)
        self.beta = np.zeros(qp.n)
        self.v = np.full(qp.n, np.nan)  # −(Hβ + p) where it is known
        self.objective = 0.0  # at the variables' last β, with the boxes of the sample at hand
        self.share = 1.0  # of the variables in that sample
        self.steps = 0
        self.iteration = 0
        self.most_steps = goal.max_iter if goal.max_iter > 0 else max(10_000_000, 100 * qp.n)
        self.looks, self.most_looks = 0, options.patience * qp.n * qp.n  # variables that steps look at
        self.q = options.working_set or int(np.clip(qp.n // 8, 64, 512))
        self.budget = cache_bytes(options.cache_size)
        self.cache: RowCache
        self._open_cache()

    @property
    def pairs(self) -> bool:
        """Whether the working set is a pair: a larger one has two variables of each group, and all their rows."""
        return self.q == 2 or self.cache.capacity < 2 * max(1, self.groups.count)

    def _open_cache(self) -> None:
        self.cache = None  # what the one before holds is free first
        self.cache = RowCache(self.gram, self.budget, min(self.qp.n, max(self.q, 2 * PREFETCH)))

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        accuracy = self.goal.first_violation
        if start is not None:
            start = np.asarray(start, np.float64)
            self.beta = start if self.merged is None else self.merged.gather(start)
        share = 0.0
        for index, wanted in self._samples(start is not None):
            try:
                self._enter(index, wanted, share)
            except Stopped as stopped:  # with what there was before
                status = stopped.reason
                break
            share = wanted
            status = self._solve_on(index, MARGIN * accuracy if share == 1.0 else max(accuracy, GROW_TOL))
            if not status.converged:
                break
        if share < 1.0:
            share = share or float(start is not None)
            self.beta = feasible(self.groups, share * self.beta, self.qp.lower, self.qp.upper, self.groups.sums)
        best: Answer | None = None
        for _ in range(REFINEMENTS):
            near = share == 1.0 and status in (Status.CONVERGED, Status.STALLED)
            if near and self.options.newton:
                self._finish()
            found = self._look()
            if best is None or found.certificate.gap <= best.certificate.gap or self.goal.met(found.certificate):
                best = found
            if self.goal.met(found.certificate) or not near:
                break
            # Rows fell short of an exact product, or steps of the gap that is asked for: finer rows, or finer steps.
            if self.gram.dtype != np.float64:
                self.gram = self.gram.wide()
                self._open_cache()
            elif status is Status.STALLED:
                break
            accuracy *= FINER if found.certificate.violation <= accuracy else 1.0
            status = self._solve_on(index, 0.5 * accuracy)
        return best, status

    def _look(self) -> Answer:
        """The whole problem's answer at the present β; from here on no book-keeping counts."""
        merged = self.merged
        found = answer(self.whole, self.goal, self.beta if merged is None else merged.scatter(self.beta))
        H_beta = self.whole.times(found.beta)
        self.beta = found.beta.copy() if merged is None else merged.gather(found.beta)
        self.v = -((H_beta if merged is None else H_beta[merged.first]) + self.qp.p)
        self.objective = -found.certificate.dual
        return found

    def _finish(self) -> None:
        """Solve for the free variables, where they are few and the matrix is at hand."""
        free = (self.beta > self.qp.lower) & (self.beta < self.qp.upper)
        most = NEWTON_WORK // self.qp.n
        if self.gram.whole() is not None and free.sum() <= most:
            v = -(self.gram.matvec(self.beta) + self.qp.p)
            better = newton_finish(self.gram, self.qp, self.groups, self.beta, v, most)
            if better is not None:
                self.beta = better

    def _samples(self, started: bool):
        """Growing samples of the variables, each sorted by group, with their share of all."""
        n = self.qp.n
        sizes = [n]
        from_zero = not started and bool((self.qp.lower <= 0).all() and (self.qp.upper >= 0).all())
        while self.options.growing and from_zero and sizes[-1] > 2 * GROW_FROM:
            sizes.append(sizes[-1] // GROWTH)
        mixed = np.random.default_rng(self.options.seed).permutation(n) if len(sizes) > 1 else np.arange(n)
        for size in reversed(sizes):
            index = np.sort(mixed[:size])
            yield index[np.argsort(self.groups.label[index], kind="stable")], size / n

    def _enter(self, index: np.ndarray, share: float, before: float) -> None:
        """Make v known and β feasible on ``index``, a sample that grows from a share ``before`` of all variables.

        Where most coefficients are at a bound, those known shrink with their boxes when the sample grows, and a new
        one starts where the decision function so far sends it. What a sum still lacks goes where v says it belongs.
        """
        qp = self.qp
        inside = np.zeros(qp.n, bool)
        inside[index] = True
        new = np.flatnonzero(inside & np.isnan(self.v))
        self.v[new] = -qp.p[new] - self._product(self.beta, new)
        at_bound = (self.beta != 0) & ((self.beta == self.lower) | (self.beta == self.upper))
        known = start = self.beta
        v = self.v
        self.lower, self.upper = np.where(inside, qp.lower / share, 0.0), np.where(inside, qp.upper / share, 0.0)
        if before > 0.0 and 2 * at_bound.sum() > np.count_nonzero(known):
            known = known * (before / share)
            self.v = (before / share) * (v + qp.p) - qp.p
            start = known.copy()
            start[new] = self._sent_to(new, v)
        sums = self.groups.sums if share == 1.0 else _sums_of_sample(self.groups, self.lower, self.upper)
        beta = feasible(self.groups, start, self.lower, self.upper, sums, v)
        self.v[index] -= self._product(beta - known, index)
        self.beta, self.share = beta, share
        self._value(index)

    def _value(self, index: np.ndarray) -> None:
        """Compute the objective anew from variables of which v is known and outside of which β is 0."""
        beta = self.beta[index]
        self.objective = float(0.5 * beta @ (self.qp.p - self.v)[index] + self.qp.eps[index] @ np.abs(beta))

    def _sent_to(self, index: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Where a decision function sends these variables: to a bound, or to 0 if ε or the box leaves them there."""
        slope = v[index] - (self.level[self.groups.label[index]] if self.groups.count else 0.0)
        eps, low, high = self.qp.eps[index], self.lower[index], self.upper[index]
        return np.where(slope > eps, high, np.where(slope < -eps, low, np.clip(0.0, low, high)))

    def _product(self, beta: np.ndarray, at: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(beta)
        return self.gram.combine_watched(used, beta[used], at, self.monitor.look) if len(used) else np.zeros(len(at))

    def _solve_on(self, index: np.ndarray, tol: float) -> Status:
        """Minimise over ``index``, leaving out stuck variables, which come back for a last look."""
        left_out: list[tuple[np.ndarray, np.ndarray]] = []  # variables, and all β when they were left out
        part = self._open(index)
        while True:
            status, stuck = self._minimise(part, tol)
            self.beta[part.index], self.v[part.index] = part.beta, part.v
            self.objective = part.objective()
            if stuck is not None:
                left_out.append((part.index[stuck], self.beta.copy()))
                self.cache.restrict(np.flatnonzero(~stuck))
                part = _Part(self, part.index[~stuck])
                continue
            if status not in (Status.CONVERGED, Status.STALLED):  # nobody needs v any more
                return status
            try:
                for gone, then in left_out:
                    self.v[gone] -= self._product(self.beta - then, gone)
            except Stopped as stopped:
                return stopped.reason
            if left_out:
                self._value(index)
            m, M = _Part(self, index).levels()
            self.level = midway(m, M)
            if not left_out or not status.converged or float((m - M).max()) < tol:
                return status
            left_out.clear()
            part = self._open(index)

    def _open(self, index: np.ndarray) -> _Part:
        whole = len(index) == self.qp.n and bool((index[1:] > index[:-1]).all())
        self.cache.restart(self.gram if whole else self.gram.take(index))
        return _Part(self, index)

    def _minimise(self, part: _Part, tol: float) -> tuple[Status, np.ndarray | None]:
        """Steps until the violation on this part is below tol, or until there are variables to leave out."""
        working = np.zeros(0, np.int64)
        progress = _Progress()
        while True:
            m, M = part.levels()
            violation = float((m - M).max())
            objective = part.objective()
            self.iteration += 1
            stop = self._record(part, objective, violation, m, M)
            if violation < tol:
                return Status.CONVERGED, None
            if stop:
                return stop, None
            if self._room(len(part.index)) < 1:
                return Status.MAX_ITERATIONS if 0 < self.goal.max_iter <= self.steps else Status.EXHAUSTED, None
            if np.abs(part.beta).max() > HUGE:
                return Status.UNBOUNDED, None
            rounding = slope_rounding(part.diag, part.p, part.beta)
            if violation <= ROUNDINGS * rounding or progress.stalled(objective, violation):
                return Status.STALLED, None
            if self.options.shrinking and len(part.index) > SHRINK_FROM:
                stuck = part.stuck(m, M)
                if SHRINK_SHARE * len(stuck) < stuck.sum() < len(stuck):
                    return Status.CONVERGED, stuck
            missing = self._small_steps(part, tol)
            if missing < 0:
                continue
            m, M = part.levels()
            if self.pairs:
                self._fetch_pair(part, m, M, missing)
            else:
                working = self._working_set(part, m, M, working)
                self._improve(part, working, max(INNER_TOL * float((m - M).max()), 0.5 * tol))

    def _record(self, part: _Part, objective: float, violation: float, m, M) -> Status | None:
        """Tell the monitor of the whole problem: a sample's coefficients are those of the whole in smaller boxes."""
        seen, primal = objective, np.nan
        if self.share < 1.0:
            seen = np.nan if self.groups.sums.any() else part.shrunk(self.share)
        elif len(part.index) == self.qp.n and self.monitor.wants_primal():
            s = np.empty(self.qp.n)
            s[part.index] = np.repeat(midway(m, M), part.sizes) - part.v if part.grouped else -part.v
            beta = np.empty(self.qp.n)
            beta[part.index] = part.beta
            primal = self.qp.gap(beta, np.zeros(len(self.qp.A)), s) - objective
        cost = (len(part.index), self.gram.evals, self.cache.hit_rate)
        return self.monitor.step(self.iteration, seen, violation, *cost, primal=primal)

    def _small_steps(self, part: _Part, tol: float) -> int:
        """Steps on pairs or small sets of all variables, for a while or until a row is missing: which one, or −1."""
        most = min(self._room(len(part.index)), max(100, STEPS_A_CALL // len(part.index)))
        rows = (self.cache.slab, self.cache.slot)
        if not part.grouped:
            steps, _, missing = single_steps(*rows, part.variables, tol, most)
        else:
            # The best pair needs a pass over all variables; with many of them a small set a pass does more.
            leaf = pair_steps if self.pairs or len(part.index) <= PAIRS_UP_TO else small_set_steps
            second_order = self.options.selection == "second-order"
            steps, _, missing = leaf(*rows, part.variables, part.edges, second_order, tol, most)
        self._count(steps, len(part.index))
        return missing

    def _room(self, width: int) -> int:
        """Steps over so many variables that we may still make."""
        return int(min(self.most_steps - self.steps, max(0.0, self.most_looks - self.looks) // width))

    def _count(self, steps: int, width: int) -> None:
        self.steps += steps
        self.looks += steps * width

    def _fetch_pair(self, part: _Part, m, M, missing: int) -> None:
        """The missing row, the row of the variable that it was to be paired with, and others that will be next."""
        worst = int((m - M).argmax())
        a, b = part.edges[worst], part.edges[worst + 1]
        first = a + int((part.v + part.rise)[a:b].argmax())
        others = self._most_violating(part, m, M, PREFETCH, missing=True)
        others = others[(others != missing) & (others != first)][: max(0, min(PREFETCH, self.cache.capacity) - 2)]
        self.cache.fetch(np.unique(np.concatenate([[first, missing], others])))

    def _most_violating(self, part: _Part, m, M, count: int, missing: bool = False) -> np.ndarray:
        """The steepest feasible direction with ``count`` entries: half of them grow, half shrink."""
        up, down = part.v + part.rise, part.v + part.fall
        if missing:
            up, down = np.where(self.cache.slot < 0, up, -BIG), np.where(self.cache.slot < 0, down, BIG)
        share = max(1, count // (2 * len(m)))
        chosen = np.zeros(len(up), bool)
        for g, (a, b) in enumerate(zip(part.edges[:-1], part.edges[1:], strict=True)):
            low, high = (M[g], m[g]) if part.grouped else (0.0, 0.0)
            for score in (up[a:b] - low, high - down[a:b]):
                best = np.argpartition(-score, share - 1)[:share] if share < b - a else np.arange(b - a)
                chosen[a + best[score[best] > 0]] = True
        return np.flatnonzero(chosen)

    def _working_set(self, part: _Part, m, M, previous: np.ndarray) -> np.ndarray:
        """The most violating variables, and as many of the set before: free ones first."""
        q = min(len(part.index), self.q, self.cache.capacity)
        new = self._most_violating(part, m, M, q // 2 if len(previous) else q)
        old = np.setdiff1d(previous, new, assume_unique=True)
        at_bound = (part.beta[old] <= part.lower[old]) | (part.beta[old] >= part.upper[old])
        old = old[np.argsort(at_bound, kind="stable")]
        return np.sort(np.concatenate([new, old[: q - len(new)]]))

    def _improve(self, part: _Part, W: np.ndarray, tol: float) -> None:
        """Minimise over the working set, then bring v up to date everywhere."""
        slots = self._fetch_with_next(part, W)
        slab = self.cache.slab
        q = len(W)
        K = np.empty((q, q), slab.dtype)
        th.spread(lambda a, b: gather(slab, slots, W, K, a, b), q, self.gram.threads, grain=64, align=16)
        local = part.variables.take(W)
        most = min(self._room(q), max(1000, STEPS_A_CALL // q))
        if part.grouped:
            edges = np.searchsorted(W, part.edges)
            second_order = self.options.selection == "second-order"
            steps, _, _ = pair_steps(K, np.arange(q), local, edges, second_order, tol, most)
        else:
            steps, _, _ = single_steps(K, np.arange(q), local, tol, most)
        self._count(steps, q)
        delta = local.beta - part.beta[W]
        part.beta[W], part.rise[W], part.fall[W] = local.beta, local.rise, local.fall
        moved = np.flatnonzero(delta)
        slots, delta = slots[moved], delta[moved]
        self.looks += len(slots) * len(part.v) // ROWS_A_LOOK
        grain = th.grain(len(slots))
        th.spread(lambda a, b: subtract_rows(slab, slots, delta, part.v, a, b), len(part.v), self.gram.threads, grain)

    def _fetch_with_next(self, part: _Part, W: np.ndarray) -> np.ndarray:
        """The slots of W; a block that is not full also brings rows of the variables that will be next."""
        missing = int((self.cache.slot[W] < 0).sum())
        spare = min(-missing % PREFETCH, self.cache.capacity - len(W))
        if spare > 0:
            m, M = part.levels()
            extra = self._most_violating(part, m, M, 2 * (missing + spare), missing=True)
            extra = np.setdiff1d(extra, W, assume_unique=True)[:spare]
            return self.cache.fetch(np.concatenate([W, extra]))[: len(W)]
        return self.cache.fetch(W)


class _Progress:
    """Notices when neither the objective nor the violation gets any better."""

    def __init__(self) -> None:
        self.objective = self.violation = float("inf")
        self.waited = 0

    def stalled(self, objective: float, violation: float) -> bool:
        better = objective < self.objective - STALL_DECREASE * abs(objective) or violation < 0.99 * self.violation
        self.objective = min(self.objective, objective)
        self.violation = min(self.violation, violation)
        self.waited = 0 if better else self.waited + 1
        return self.waited >= STALL_LOOKS


def _sums_of_sample(groups: Groups, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """What each group adds up to, or as near to it as the boxes of a sample allow."""
    least, most = (np.bincount(groups.label, box, groups.count)[: groups.count] for box in (lower, upper))
    return np.clip(groups.sums, least, most)
