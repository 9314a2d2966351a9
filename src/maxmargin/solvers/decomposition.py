"""Decomposition: solve the QP on a small working set at a time (SLIDES; Osuna, Joachims, Platt, Fan et al.).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  box,  one fixed sum a group of variables

    repeat
        steps on pairs of all variables, for a while or until a row is missing that is not to be made alone
        W  <- the q variables that promise most: steepest feasible direction (Joachims 1999); if no row is missing,
              those of them whose rows are at hand
        solve the problem on W with the rest fixed, by pair steps (SMO, second-order choice: Fan et al. 2005)
        v  <- v − H[:, W] Δβ_W                          one pass over q cached rows
        now and then: drop variables that are stuck at a bound (shrinking)
    until the largest violation on all variables < tol, checked with an exact product

With q = 2 the working set is the pair itself (SMO); with q ≥ n the first working set is the whole problem.
Equality constraints. Variables with the same column of A form a group. If the distinct columns are linearly
independent, Aβ = b fixes the sum of each group and nothing else, so a pair step inside a group is feasible: one group
for C-SVC, SVR and one-class, two for the ν machines, none without a bias. The multipliers follow from the level of each
group, half way between its m and M: no averaging over free support vectors, no special case when there are none.
Growing. The problem is first solved on a sample, then on four times as many, ... (PRIMAL doubles). Samples, shrinking
and rows that come in blocks are those of parts/working_sets.py, the steps those of parts/pair_steps.py. Points that are
few or have few features give rows one at a time, as steps ask for them (parts/lone_rows.py).

| papers                          | here                                   |
| ------------------------------- | -------------------------------------- |
| −∇f (LIBSVM: −y G)              | v = −(Hβ + p)                          |
| I_up, I_low                     | ``up`` = v + rise, ``down`` = v + fall: −BIG, BIG where a variable cannot move |
| m(β), M(β)                      | max up, min down, in a group           |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..goal import FEASIBLE, Goal
from ..gram import as_gram, once_more
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, close
from .parts.by_leaf import ByLeaf
from .parts.chosen_rows import ChosenRows
from .parts.duplicates import merge_duplicates
from .parts.fixed_sums import Groups, feasible, midway
from .parts.limits import MARGIN, NEAR, SAMPLE_TOL, Aim, Progress
from .parts.lone_rows import steps_over_all
from .parts.newton_finish import NEWTON_WORK, newton_finish
from .parts.pair_steps import HUGE, pair_steps, single_steps
from .parts.part_with_sums import Levels, PartWithSums, sums_of_sample
from .parts.reach import LOOKS_A_FETCH, ROUNDINGS, slope_rounding
from .parts.small_sets import INNER_TOL
from .parts.working_sets import ROWS_A_LOOK, Sizes, sent_to

__all__ = ["SMO", "Decomposition"]


@dataclass
class Decomposition:
    """Working sets of q variables, inner pair steps, shrinking, growing, duplicates merged."""

    # q: how many variables are solved together when a step asks for a row that is not at hand, or when steps that
    # choose among all variables have taken a while; 2 is SMO; None: an eighth of the variables, 64 to 512; while all
    # coefficients are 0, a block at most. Where every row is at hand (always, up to 600 variables or with a precomputed
    # kernel), steps choose among all variables; then q = 2 says only that steps move pairs, however many variables.
    working_set: int | None = None
    selection: str = "second-order"  # choice of a pair's second variable, or "steepest": the most violating pair
    shrinking: bool = True  # leave out variables that are stuck at a bound
    growing: bool = True  # start from a sample that grows
    merging: bool = True  # duplicate points become one point with a larger box
    whole: bool = False  # a leaf makes all steps on up to 600 variables, where nobody is told of them, and no ridge
    newton: bool = True  # solve for the free variables at the end, where that is cheap
    patience: float = np.inf  # pair steps a variable, at most; more where they look at fewer than all variables
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # order in which the sample grows
    sizes: Sizes = Sizes()  # numbers of variables from which on each of these is worth it

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def __post_init__(self) -> None:
        if self.working_set is not None and not 2 <= self.working_set <= 4096:
            raise ValueError(
                f"working_set={self.working_set} was asked for; found outside 2 … 4096; choose a size in that range"
            )
        if self.selection not in (known := ("second-order", "steepest")):
            raise ValueError(f"selection={self.selection!r} was asked for; found {known}; choose one")

    @once_more
    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start`` (moved into the box and onto the constraints if need be).

        Iterations are pair steps; without a limit 100 a variable and at least ten million, as LIBSVM."""
        monitor = monitor or Monitor()
        if self.whole and qp.n <= self.sizes.matrix and qp.ridge is None and not monitor.tells:
            leaf = ByLeaf.solve(qp, goal, start, monitor, self.patience, self.newton)
            if leaf is not None:
                found, start = Answer(leaf.beta, leaf.eta, qp.certificate(leaf.beta, leaf.eta)), leaf.beta
                if goal.met(found.certificate) or leaf.reason not in NEAR:
                    return close(qp, goal, found, leaf.reason, leaf.n_iter, monitor, as_gram(qp.H).evals)
        run = Run(self, qp, goal, monitor)
        found, reason = run.solve(start)
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, run.gram.evals)


@dataclass
class SMO(Decomposition):
    """Decomposition with q = 2: pair steps over all variables, each the best by second order (Platt; Fan et al.)."""

    working_set: int | None = 2  # the pair itself


class Run(ChosenRows):
    """One call of the solver: the state that its steps share. v is −(Hβ + p)."""

    def __init__(self, options: Decomposition, whole: QP, goal: Goal, monitor: Monitor) -> None:
        self.whole = whole
        groups = Groups.of(whole)
        self.merged = merge_duplicates(whole) if options.merging and whole.n >= options.sizes.merge else None
        if self.merged is not None:
            groups = Groups(groups.label[self.merged.first], groups.columns, groups.sums)
        self.groups = groups
        qp = whole if self.merged is None else self.merged.qp
        super().__init__(options, qp, goal, monitor, least_rows=2 * options.sizes.block)
        self.second_order = options.selection == "second-order"
        # At the variables' last β, with the boxes of the sample at hand
        self.level, self.objective = np.zeros(groups.count), 0.0
        self.share = 1.0  # of the variables in that sample
        self.lone = True  # whether rows are made one at a time: not where steps ask for more of them than they are

    @property
    def pairs(self) -> bool:
        """Whether the working set is a pair: a larger one saves rows, and needs two of each group."""
        return self.in_memory or self.q == 2 or self.cache.capacity < 2 * max(1, self.groups.count)

    @property
    def few(self) -> bool:
        """Whether so few rows were asked for that a working set holds most of the variables that move."""
        return self.cache.filled <= 2 * self.q

    def sets_pay(self, part: PartWithSums) -> bool:
        """Whether a step on a working set from rows at hand looks at far fewer variables than a step on all."""
        return not self.pairs and len(part.index) > 2 * self.q and self.few

    # -- from a first guess to a certified end ------------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        aim = Aim(self.goal.first_violation)
        if start is not None:
            self.beta = np.asarray(start, np.float64) if self.merged is None else self.merged.gather(start)
        share = 0.0
        for index, wanted in self._samples_by_group(start is not None):
            try:
                self._enter(index, wanted, share)
            except Stopped as stopped:  # with what there was before
                status = stopped.reason
                break
            share = wanted
            status = self.solve_on(index, MARGIN * aim.accuracy if share == 1.0 else max(aim.accuracy, SAMPLE_TOL))
            if not status.converged:
                break
        if share < 1.0:
            share = share or float(start is not None)
            self.beta = feasible(self.groups, share * self.beta, self.qp.lower, self.qp.upper, self.groups.sums)
        best: Answer | None = None
        for accuracy in aim.tries():
            near = share == 1.0 and status in NEAR
            if near and self.options.newton:
                self._finish()
            found = self._look()
            solved = self.goal.met(found.certificate)
            if best is None or found.certificate.gap <= best.certificate.gap or solved:
                best = found
            if solved or not near:
                break
            # Rows fell short of an exact product, or steps of the gap that is asked for: finer rows, or finer steps.
            if not self.widen() and status is Status.STALLED:
                break
            if found.certificate.violation <= accuracy:
                aim.finer()
            status = self.solve_on(index, 0.5 * aim.accuracy)
        assert best is not None
        return best, status

    def _look(self) -> Answer:
        """The whole problem's answer at the present β; from here on no book-keeping counts."""
        merged, qp = self.merged, self.qp
        if qp.infeasibility(self.beta) > FEASIBLE:  # rounding of the largest β on the way
            self.beta = feasible(self.groups, self.beta, qp.lower, qp.upper, self.groups.sums, self.v)
        found = answer(self.whole, self.goal, self.beta if merged is None else merged.scatter(self.beta))
        H_beta = self.whole.times(found.beta)
        self.beta = found.beta.copy() if merged is None else merged.gather(found.beta)
        self.v = -((H_beta if merged is None else H_beta[merged.first]) + self.qp.p)
        self.objective = -found.certificate.dual
        return found

    def _finish(self) -> None:
        """Solve for the free variables, where they are few and the matrix is at hand."""
        free, most = (self.beta > self.qp.lower) & (self.beta < self.qp.upper), NEWTON_WORK // self.qp.n
        if self.gram.whole() is not None and free.sum() <= most:
            v = -(self.gram.matvec(self.beta) + self.qp.p)
            better = newton_finish(self.gram, self.qp, self.groups, self.beta, v, most, self.monitor.stop_now)
            self.beta = self.beta if better is None else better

    # -- samples that grow --------------------------------------------------------------------------------------

    def _samples_by_group(self, started: bool) -> Iterator[tuple[np.ndarray, float]]:
        for index, share in self.samples(self.options.growing and not started and self.zero_inside()):
            yield index[np.argsort(self.groups.label[index], kind="stable")], share

    def _enter(self, index: np.ndarray, share: float, before: float) -> None:
        """Make v known and β feasible on ``index``, a sample that grows from a share ``before`` of all variables.

        Where most coefficients are at a bound, those known shrink with their boxes when the sample grows, and a new
        one starts where the decision function so far sends it. What a sum still lacks goes where v says it belongs.
        """
        qp = self.qp
        inside = np.zeros(qp.n, bool)
        inside[index] = True
        new = np.flatnonzero(inside & np.isnan(self.v))
        self.v[new] = -qp.p[new] - self.product(self.beta, new)
        known, start, v = self.beta, self.beta, self.v
        at_bound = (known != 0) & ((known == self.lower) | (known == self.upper))
        self.lower, self.upper = np.where(inside, qp.lower / share, 0.0), np.where(inside, qp.upper / share, 0.0)
        if before > 0.0 and 2 * at_bound.sum() > np.count_nonzero(known):
            known = known * (before / share)
            self.v = (before / share) * (v + qp.p) - qp.p
            start = known.copy()
            slope = v[new] - (self.level[self.groups.label[new]] if self.groups.count else 0.0)
            start[new] = sent_to(slope, qp.eps[new], self.lower[new], self.upper[new])
        sums = self.groups.sums if share == 1.0 else sums_of_sample(self.groups, self.lower, self.upper)
        beta = feasible(self.groups, start, self.lower, self.upper, sums, v)
        self.v[index] -= self.product(beta - known, index)
        self.beta, self.share = beta, share
        self._value(index)

    def _value(self, index: np.ndarray) -> None:
        """Compute the objective anew from variables of which v is known and outside of which β is 0."""
        beta = self.beta[index]
        self.objective = float(0.5 * beta @ (self.qp.p - self.v)[index] + self.qp.eps[index] @ np.abs(beta))

    # -- steps on a part ----------------------------------------------------------------------------------------

    def part(self, index: np.ndarray) -> PartWithSums:
        return PartWithSums(self, index, self.groups, self.objective)

    def keep(self, part: PartWithSums) -> None:
        super().keep(part)
        self.objective = part.objective()

    def at_rest(self, index: np.ndarray, status: Status, shrunk: bool, *tol: float) -> bool:
        if shrunk:
            self._value(index)
        m, M = self.part(index).levels()
        self.level = midway(m, M)
        return not shrunk or not status.converged or float((m - M).max()) < tol[0]

    def minimise(self, part: PartWithSums, *tol: float) -> tuple[Status, np.ndarray | None]:
        """Steps until the violation on this part is below tol, or until there are variables to leave out."""
        working, progress = np.zeros(0, np.int64), Progress(self.sizes.stall)
        while True:
            m, M = part.levels()
            violation, objective = float((m - M).max()), part.objective()
            self.iteration += 1
            stop = self._record(part, objective, violation)
            solved = violation < tol[0]
            tired = self.room(len(part.index)) < 1
            unbounded = np.abs(part.beta).max() > HUGE
            rounded = violation <= ROUNDINGS * slope_rounding(part.diag, part.p, part.beta)
            stalled = rounded or progress.stalled(objective, violation)
            if solved or stop or tired or unbounded or stalled:
                return self.reason(solved, stop, tired, unbounded), None
            if self.options.shrinking and len(part.index) > self.sizes.shrink:
                stuck = part.to_leave_out(part.stuck(m, M))
                if stuck is not None:
                    return Status.CONVERGED, stuck
            try:
                violation, missing = self._small_steps(part, tol[0])
                if missing >= 0 and self.pairs:
                    self.fetch_pair(part, missing)
                elif missing >= 0 or (violation >= tol[0] and self.sets_pay(part)):
                    levels = part.levels()
                    working = self.working_set(part, levels, working, fetching=missing >= 0)
                    self._improve(part, levels, working, tol[0])
            except Stopped as stopped:  # there is no time for rows
                return stopped.reason, None

    def _record(self, part: PartWithSums, objective: float, violation: float) -> Status | None:
        """Tell the monitor of the whole problem: a sample's coefficients are those of the whole in smaller boxes."""
        seen, primal = objective, np.nan
        if self.share < 1.0:
            seen = np.nan if self.groups.sums.any() else part.objective_at(self.share)
        elif len(part.index) == self.qp.n and self.monitor.wants_primal():
            primal = part.gap(self.qp) - objective
        if self.monitor.wants_coefficients():
            self.keep(part)
            beta = self.share * self.beta
            self.monitor.keep(beta if self.merged is None else self.merged.scatter(beta))
        self.reserve(part)
        cost = (len(part.index), self.gram.evals, self.cache.hit_rate)
        return self.monitor.step(self.iteration, seen, violation, *cost, primal=primal)

    def _small_steps(self, part: PartWithSums, tol: float) -> tuple[float, int]:
        """Steps on pairs or small sets of all variables, for a while or until a row is missing.

        Returns the violation, and the row that is missing or −1. Where a working set can go on, the while is as long
        as it takes to choose one, to gather its block and to bring v up to date, twice.
        """
        n, q = len(part.index), self.q
        most = min(self.room(n), max(100, self.sizes.call // n))
        if self.sets_pay(part):
            most = min(most, 2 * (LOOKS_A_FETCH + q * q + q * n // ROWS_A_LOOK) // n)
        # The best pair needs a pass over all variables; with many of them a small set a pass does more.
        sets = not self.pairs and n > self.sizes.pairs
        edges = part.edges if part.grouped else None
        alone = self.lone and (self.few or self.pairs) and self.gram.by_feature() is not None
        rows = self.rows_in_time(n) if alone else 0
        steps, violation, missing, made = steps_over_all(
            self.cache, part.variables, edges, sets, self.second_order, tol, most, rows
        )
        self.count(steps, n)
        self.looks += made * n
        self.lone = self.lone and (made <= steps or self.pairs)  # else many variables violate: a block has all of them
        return violation, missing

    def _improve(self, part: PartWithSums, levels: Levels, W: np.ndarray, tol: float) -> None:
        """Minimise over the working set, then bring v up to date everywhere."""
        tol = max(INNER_TOL * float((levels[0] - levels[1]).max()), 0.5 * tol)
        fresh = self.cache.slot[W] < 0
        q, slots, found = len(W), self.fetch_with_next(part, levels, W), part.variables.take(W)
        K = self.block(part, W, slots)
        most = min(self.room(q), max(1000, self.sizes.call // q))
        if part.grouped:
            edges = np.searchsorted(W, part.edges)
            steps, _, _ = pair_steps(K, np.arange(q), found, edges, self.second_order, tol, most)
        else:
            steps, _, _ = single_steps(K, np.arange(q), found, tol, most)
        self.count(steps, q)
        change = part.take_over(W, found)
        if (lacked := np.count_nonzero(fresh)) > 0:  # blocks pay as long as they are full of variables that move
            self.lone = bool(lacked < self.sizes.block or 2 * np.count_nonzero(change[fresh]) < lacked)
        self.subtract(part, W, slots, change)
