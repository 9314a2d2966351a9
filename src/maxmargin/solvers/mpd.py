"""The minimal primal-dual method: one variable at a time, any number of equality constraints (MPD).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  lower ≤ β ≤ upper,   Aβ = b      (k rows a_j in A)

With the multipliers η fixed, the equality constraints are gone, and Gauss–Seidel steps minimise what is left, the
Lagrangian L(β, η) in the box. Then Aβ − b is the gradient of the dual function g(η) = min L(β, η), and a Newton step
improves η. Its Hessian −A H⁻¹ Aᵀ comes from k more linear systems Hγ_j = −a_j, solved by Gauss–Seidel steps alongside.

    Algorithm 1
    repeat
        γ_j  <- one Gauss–Seidel step on Hγ_j = −a_j,  j = 1 … k             estimate of the dual Hessian
        β_i  <- clip(β_i − s_i / H_ii),  i the largest violation of (iii–v)  primal step
        if the largest violation < ε_p                                      primal optimal
            if max |Aβ − b| < ε_d: stop                                     dual gradient small
            η  <- η + (A H⁻¹ Aᵀ)⁻¹ (Aβ − b)                                dual step

| MPD                    | here                                                                     |
| ---------------------- | ------------------------------------------------------------------------ |
| α, [0, d]              | β, [lower, upper]; signed, so that H carries no labels                    |
| f_0, F, e              | p, rows of A (inside: Q, scaled to mean square 1 and orthogonal), b        |
| s = g_α                | −v (what pair steps call v: it is the direction in which β_i wants to go)  |
| g_η = Fᵀα − e          | r = Qβ − c                                                               |
| γ_i, r_i, h_i          | gamma, R, M                                                              |
| conditions (iii–v)     | v + rise ≤ 0 ≤ v + fall                                                  |

**The bound on the dual step** (§5.4). The problem does not change when H becomes H + ρ AᵀA and p becomes p − ρ Aᵀb:
the augmented Lagrangian. Its dual Hessian is at most 1/ρ, whatever H, so that steps S (Aβ − b) with 0 ≺ S ≺ 2ρ
converge, even where H is singular and the plain dual function has corners. The estimate of the Hessian approaches
from below, so that its inverse can only be too long: its eigenvalues are cut at 1.9 ρ. A dual step need not wait for
ε_p either: it is due as soon as the violation is small against what the step changes, ρ |Aβ − b|.

**Over-relaxation.** A primal step goes ω times as far as the minimum along its variable, but not over a bound or the
corner of ε: half as many steps or fewer (SOR, MPD §4.2).

**What is worth it** (Table 1 with 0 … 5 functions, 30 problems a kernel: docs/mpd.md). As published, the method solves
27 problems with a Gaussian kernel and none with a linear one, whose H is singular; with the bound it solves all.
Waiting for the estimate to converge before a dual step, the paper's open question, takes 1.1 to 2.2 times the work and
saves hardly any dual steps. With the bound and eager steps the estimate halves the dual steps, which are few, and takes
three times the work: the default does without it.

**Working sets.** Up to some hundred variables Algorithm 1 runs on all of them, as in the paper. Above, it runs on the q
variables that violate most, whose rows come as one block; multipliers found there serve all. Variables that are
stuck at a bound drop out; large problems start from a sample with wider boxes.

**The end.** The nearest feasible point holds Aβ = b to rounding; where few variables are free, one Newton system for
them and η together replaces the last, slow Gauss–Seidel steps.
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
from .base import GOAL, Answer, answer, close, first_point, spent
from .parts.constraints import Equality
from .parts.fixed_sums import BIG, offsets
from .parts.mpd_leaves import Constraints, DualHessian, Rules, Trace, algorithm_1
from .parts.newton_finish import newton_finish
from .parts.pair_steps import HUGE, TINY_CURVATURE, Variables, gather, subtract_rows

__all__ = ["MPD"]

MATRIX_UP_TO = 600  # variables: up to here one matrix in float64 is the quickest of all
STEPS_A_CALL = 20_000_000  # variables looked at between two looks at the clock: some 10 ms
WIDE_BELOW = 1e-4  # tolerance below which rows are computed in float64
SHARE = 0.45  # of tol are ε_p and ε_d: the violation that we report is that of one that grows plus one that shrinks
INNER_TOL = 0.1  # how much of the violation a working set may keep
OMEGA = 1.6  # half as many primal steps as ω = 1, or a third (measured: docs/mpd.md)
STEP_BOUND = 1.9  # of ρ: dual steps below 2ρ converge
FINER = 0.1  # next accuracy, of the one before, if exact products show that it was not enough
REFINEMENTS = 10  # accuracies before rounding is blamed
NEWTON_UP_TO = 300  # free variables in a Newton system
NEWTON_WORK = 1_000_000  # free variables × variables up to which it costs next to nothing
PATIENCE = 100  # Gauss–Seidel steps a variable before a Newton system is tried instead
STALL_SETS = 50  # working sets without progress
STALL_DECREASE = 1e-13  # of the augmented Lagrangian: less is no progress
STUCK_LOOKS, SHRINK_SHARE, SHRINK_FROM = 2, 0.2, 1500  # as in decomposition
GROW_FROM = 5000  # variables: smaller problems are solved whole at once
GROW_TOL = 0.05  # how well a sample is solved, whose solution is only a start


@dataclass
class MPD:
    """Gauss–Seidel steps on β, Newton steps on η."""

    hessian: str = "bound"  # of the dual: estimated as "diagonal" (MPD's eq. 8) or "full", or "bound": steps of ρ alone
    clamping: bool = True  # estimate it with variables at their bounds held there
    settled: bool = False  # wait for the estimate to converge before a dual step
    omega: float = OMEGA  # primal steps are that many times as long, in (0, 2); 1: MPD's
    augment: float = 0.1  # ρ in units of the mean of H's diagonal; 0: MPD's plain Lagrangian, steps without a bound
    eager: float = 0.3  # a dual step is due when the violation is this share of ρ |Aβ − b|; 0: only below ε_p
    orthogonal: bool = True  # make rows of A orthogonal first
    working_set: int | None = None  # q; None: an eighth of the variables, 64 at least and 512 at most
    shrinking: bool = True  # leave out variables that are stuck at a bound
    growing: bool = True  # start from a sample that doubles
    newton: bool = True  # solve for the free variables and η at the end, where that is cheap
    cache_size: float | str = "auto"  # megabytes for kernel rows
    trace: int = 0  # iterations of Algorithm 1 to record: both violations, η, dual and Hessian steps so far
    seed: int = 0  # order in which the sample grows

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def __post_init__(self) -> None:
        if self.hessian not in ("full", "diagonal", "bound"):
            raise ValueError(f'hessian={self.hessian!r} was asked for; found "full", "diagonal", "bound"; choose one')
        if not self.augment >= 0 or (self.augment == 0 and self.hessian == "bound"):
            raise ValueError(
                f"augment={self.augment} was asked for; found no step that it allows; give augment > 0, or 0 with "
                'hessian="full" or "diagonal"'
            )
        if not 0.0 < self.omega < 2.0:
            raise ValueError(
                f"omega={self.omega} was asked for; found that steps then do not converge; choose it in (0, 2)"
            )
        if self.working_set is not None and not 1 <= self.working_set <= 4096:
            raise ValueError(
                f"working_set={self.working_set} was asked for; found outside 1 … 4096; choose a size in that range"
            )

    @once_more
    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, which need not be feasible; ε_p and ε_d follow the goal.

        Iterations are primal and dual steps; without a limit 100 a variable and at least ten million.
        """
        run = _Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        if self.trace:
            run.keep_trace()
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, run.gram.evals)


class _Part:
    """The problem on a subset of the variables; the others are fixed."""

    def __init__(self, run: _Run, index: np.ndarray) -> None:
        qp = run.qp
        self.index = index
        self.beta, self.v, self.p = run.beta[index], run.v[index], qp.p[index]
        self.lower, self.upper, self.eps = run.lower[index], run.upper[index], qp.eps[index]
        self.Q = np.ascontiguousarray(run.equality.Q[:, index])
        self.rise, self.fall = offsets(self.beta, self.lower, self.upper, self.eps)
        self.stuck_for = np.zeros(len(index), np.int64)  # looks in a row at which a variable could not violate
        self.W = np.zeros(0, np.int64)
        self.set: _Set | None = None

    def pull(self) -> np.ndarray:
        """How much each variable violates the conditions (iii–v)."""
        return np.maximum(np.maximum(self.v + self.rise, -(self.v + self.fall)), 0.0)

    def stuck(self, violation: float) -> np.ndarray:
        """Which variables at a bound are further inside the conditions than any other is outside."""
        now = (self.v + self.rise < -violation) & (self.v + self.fall > violation)
        self.stuck_for = np.where(now, self.stuck_for + 1, 0)
        return self.stuck_for >= STUCK_LOOKS


class _Set:
    """A working set as Algorithm 1 needs it: its block of H + ρ AᵀA and the systems of the dual Hessian."""

    def __init__(self, run: _Run, part: _Part, W: np.ndarray) -> None:
        self.W = W
        self.slots = run.cache.fetch(W)
        self.Q = np.ascontiguousarray(part.Q[:, W])
        q = len(W)
        self.H = np.empty((q, q), run.cache.slab.dtype)
        gather(run.cache.slab, self.slots, W, self.H, 0, len(W))
        self.H += run.rho * (self.Q.T @ self.Q)
        self.diag = np.maximum(run.diag[part.index[W]] + run.rho * (self.Q**2).sum(axis=0), TINY_CURVATURE)
        self.box = (part.lower[W], part.upper[W], part.eps[W])
        k, free = len(self.Q), np.ones(q)
        self.hessian = DualHessian(np.zeros_like(self.Q), self.Q.copy(), free, np.zeros((k, k)))
        if run.options.clamping:
            beta, (lower, upper, eps) = part.beta[W], self.box
            free[(beta <= lower) | (beta >= upper) | ((beta == 0.0) & (eps > 0.0))] = 0.0


class _Run:
    """One call of the solver: the state that its steps share."""

    def __init__(self, options: MPD, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options = options
        self.qp = qp
        self.goal = goal
        self.monitor = monitor
        self.gram: Gram = as_gram(qp.H)
        if goal.first_violation < WIDE_BELOW:
            self.gram = self.gram.wide()
        small = qp.n <= MATRIX_UP_TO
        if small:
            self.gram = PrecomputedGram(self.gram.block(np.arange(qp.n)), cost=self.gram.cost)
        self.diag = self.gram.diag()
        self.equality = Equality.of(qp, options.orthogonal)
        self.q = options.working_set or (qp.n if small else int(np.clip(qp.n // 8, 64, 512)))
        self.cache: RowCache
        self._open_cache()
        self.rho = options.augment * self._unit()
        # What lacks must fit into the boxes. Working sets, which see a part of it at a time, find that out later.
        self.narrow = min(1.0, float(np.mean(qp.upper - qp.lower))) if small else 1.0
        self.lower, self.upper = qp.lower, qp.upper  # wider while we work on a sample
        self.beta = np.zeros(qp.n)
        self.eta = np.zeros(self.equality.count)  # multipliers of Qβ = c
        self.r = np.zeros(self.equality.count)
        self.v = np.full(qp.n, np.nan)  # −(Hβ + p + Qᵀ(η + ρr)) where it is known
        self.steps = self.duals = self.iteration = 0
        self.most_steps = goal.max_iter if goal.max_iter > 0 else max(10_000_000, 100 * qp.n)
        self.shrinking = options.shrinking
        self.joint = True  # working sets move η; else only when all variables are optimal for it, which cannot cycle
        self.trace = Trace(np.zeros((options.trace, 4 + self.equality.count)), np.zeros(3, np.int64))

    def _open_cache(self) -> None:
        self.cache = None  # what the one before holds is free first
        self.cache = RowCache(self.gram, cache_bytes(self.options.cache_size), min(self.qp.n, self.q))

    def _unit(self) -> float:
        """What ρ is measured in: the curvature of H, or how fast the slopes change over the boxes, if that is more."""
        width = self.qp.upper - self.qp.lower
        total = float(width.sum())
        slopes = float(np.abs(self.qp.p).max(initial=0.0)) / total if 0.0 < total < np.inf else 0.0
        unit = max(float(np.abs(self.diag).mean()) if len(self.diag) else 0.0, slopes)
        return unit if unit > 0.0 else 1.0

    # -- from a first guess to a certified end ------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        qp, goal = self.qp, self.goal
        self.equality.feasible(np.zeros(qp.n), qp.lower, qp.upper, qp.eps)  # says so if there is no feasible point
        everything = np.arange(qp.n)
        self._begin(start)
        status = Status.CONVERGED if start is not None else self._grow()
        accuracy, best = goal.first_violation, None
        for _ in range(REFINEMENTS):
            try:
                if status.converged:
                    status = self._solve_on(everything, SHARE * accuracy, SHARE * accuracy * self.narrow)
                if status in (Status.CONVERGED, Status.STALLED):
                    self._settle(self.options.newton)
            except Stopped as stopped:
                status = stopped.reason
            near = status in (Status.CONVERGED, Status.STALLED)
            if not near:  # Aβ = b to rounding; v, which would take a product, is not needed any more
                self.beta = self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps)
                if best is None and not qp.b.any() and start is None:  # costs nothing, and is better than a bad start
                    best = answer(qp, goal, first_point(qp))
            found = answer(qp, goal, self.beta)  # from here on no book-keeping counts
            self.beta = found.beta.copy()
            self._refresh(qp.times(self.beta))
            if best is None or goal.met(found.certificate) or found.certificate.gap < best.certificate.gap:
                best = found
            stop = self._record(-found.certificate.dual, found.certificate.violation, qp.n)
            if goal.met(best.certificate) or not near or stop:
                return best, stop or status
            if self.gram.dtype != np.float64:  # rows fell short of an exact product
                self.gram = self.gram.wide()
                self._open_cache()
            accuracy *= 1.0 if status is Status.STALLED else FINER
            status = Status.CONVERGED
        return best, Status.STALLED

    def _begin(self, start: np.ndarray | None) -> None:
        """β in the box, and what belongs to it: η, r and v."""
        qp = self.qp
        self.beta = np.clip(np.zeros(qp.n) if start is None else np.asarray(start, np.float64), qp.lower, qp.upper)
        H_beta = qp.times(self.beta)
        if start is not None:
            self.eta = self.equality.multipliers(qp, self.beta, H_beta)
        self.r = self.equality.residual(self.beta)
        self.v = -(H_beta + qp.p + self.equality.Q.T @ (self.eta + self.rho * self.r))

    def _refresh(self, H_beta: np.ndarray) -> float:
        """The multipliers that suit a feasible β best, v of both, and the largest violation."""
        qp = self.qp
        self.eta = self.equality.multipliers(qp, self.beta, H_beta)
        self.r = np.zeros_like(self.r)
        s = H_beta + qp.p + self.equality.Q.T @ self.eta
        self.v = -s
        return qp.violation(self.beta, s)

    def _settle(self, newton: bool) -> None:
        """Aβ = b to rounding; where few variables are free, a Newton system for them, if it does any good."""
        qp = self.qp
        H_beta = -(self.v + qp.p + self.equality.Q.T @ (self.eta + self.rho * self.r))
        H_beta = self._move_to(self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps), H_beta)
        most = min(NEWTON_UP_TO, NEWTON_WORK // max(1, qp.n))
        free = (self.beta > qp.lower) & (self.beta < qp.upper) & ((qp.eps == 0.0) | (self.beta != 0.0))
        if not newton or free.sum() > most:
            return
        better = newton_finish(self.gram, qp, self.equality, self.beta, -(H_beta + qp.p), most)
        if better is not None:
            before, violation = self.beta, self._refresh(H_beta)
            H_beta = self._move_to(better, H_beta)
            if self._refresh(H_beta) > violation:
                self.beta = before

    def _move_to(self, beta: np.ndarray, H_beta: np.ndarray) -> np.ndarray:
        """Hβ after a move, from Hβ before it."""
        change = beta - self.beta
        self.beta = beta
        moved = np.flatnonzero(change)
        if not len(moved):
            return H_beta
        everywhere = np.arange(self.qp.n)
        return H_beta + self.gram.combine_watched(moved, change[moved], everywhere, self.monitor.look, exact=True)

    def _grow(self) -> Status:
        """A start from samples, each twice as large as the one before, with boxes as much wider as it is smaller.

        Its decision function is then that of the whole, and tells on which bound new variables belong.
        """
        qp, n = self.qp, self.qp.n
        sizes = [n]
        zero_inside = bool((qp.lower <= 0).all() and (qp.upper >= 0).all())
        from_zero = zero_inside and bool(np.isfinite(qp.upper - qp.lower).all()) and self.gram.ridge is None
        while self.options.growing and from_zero and sizes[-1] > 2 * GROW_FROM:
            sizes.append(sizes[-1] // 2)
        if len(sizes) == 1:
            return Status.CONVERGED
        mixed = np.random.default_rng(self.options.seed).permutation(n)
        known, share = np.zeros(0, np.int64), 1.0
        for size in reversed(sizes):
            index = np.sort(mixed[:size])
            before, begun = share * self.beta, self.steps
            try:
                self._enter(index, known, share, size / n)
            except Stopped as stopped:
                self.lower, self.upper = qp.lower, qp.upper
                self.beta = np.clip(before, qp.lower, qp.upper)
                return stopped.reason
            known, share = index, size / n
            if size == n:
                break
            accuracy = max(self.goal.first_violation, GROW_TOL)
            try:
                status = self._solve_on(index, SHARE * accuracy, accuracy * n / size)
            except Stopped as stopped:
                status = stopped.reason
            if status not in (Status.CONVERGED, Status.STALLED):
                self.lower, self.upper = qp.lower, qp.upper
                # After fewer steps than variables most of them are still where they were put.
                solved = self.steps - begun >= size
                self.beta = np.clip(share * self.beta if solved else before, qp.lower, qp.upper)
                return status
        return Status.CONVERGED

    def _enter(self, index: np.ndarray, known: np.ndarray, before: float, share: float) -> None:
        """Make v known on a sample that grows from ``known``, with a new share of all variables."""
        qp, look = self.qp, self.monitor.look
        new = np.setdiff1d(index, known, assume_unique=True)
        level = self.equality.Q[:, new].T @ self.eta
        used = known[self.beta[known] != 0.0]
        v = -(qp.p[new] + level) - self.gram.combine_watched(used, self.beta[used], new, look)
        self.lower, self.upper = qp.lower / share, qp.upper / share
        self.beta[known] *= before / share
        self.beta[new] = np.where(v > qp.eps[new], self.upper[new], np.where(v < -qp.eps[new], self.lower[new], 0.0))
        self.beta = np.clip(self.beta, self.lower, self.upper)
        used = index[self.beta[index] != 0.0]
        self.r = self.equality.residual(self.beta)
        self.v[index] = -(qp.p + self.equality.Q.T @ (self.eta + self.rho * self.r))[index]
        self.v[index] -= self.gram.combine_watched(used, self.beta[used], index, look)

    def _record(self, objective: float, violation: float, active: int) -> Status | None:
        self.iteration += 1
        return self.monitor.step(self.iteration, objective, violation, active, self.gram.evals, self.cache.hit_rate)

    # -- working sets ---------------------------------------------------------------------------------------

    def _solve_on(self, index: np.ndarray, tol_p: float, tol_d: float) -> Status:
        """Minimise over ``index``, leaving out stuck variables, which come back for a last look."""
        left_out: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # variables; all β and multipliers at that time
        part = self._open(index)
        while True:
            status, stuck = self._minimise(part, tol_p, tol_d)
            self.beta[part.index], self.v[part.index] = part.beta, part.v
            if stuck is not None:
                left_out.append((part.index[stuck], self.beta.copy(), self.eta + self.rho * self.r))
                self.cache.restrict(np.flatnonzero(~stuck))
                part = _Part(self, part.index[~stuck])
                continue
            if not left_out or status not in (Status.CONVERGED, Status.STALLED):
                return status  # stopped: nobody needs v any more
            for gone, beta, eta in left_out:
                moved = np.flatnonzero(self.beta - beta)
                change = self.gram.combine_watched(moved, (self.beta - beta)[moved], gone, self.monitor.look)
                self.v[gone] -= change + self.equality.Q[:, gone].T @ (self.eta + self.rho * self.r - eta)
            left_out.clear()
            part = _Part(self, index)
            if status is Status.STALLED:
                self.shrinking = False  # what is left may be too little to hold the constraints
            elif not status.converged or part.pull().max() < tol_p:
                return status
            part = self._open(index)

    def _open(self, index: np.ndarray) -> _Part:
        whole = len(index) == self.qp.n
        if self.cache.gram.n != len(index) or not whole:
            self.cache.restart(self.gram if whole else self.gram.take(index))
        return _Part(self, index)

    def _minimise(self, part: _Part, tol_p: float, tol_d: float) -> tuple[Status, np.ndarray | None]:
        """Algorithm 1 on one working set after the other, until all conditions hold or there are variables to drop."""
        progress, begun = _Progress(), self.steps
        while True:
            pull = part.pull()
            violation, lack = float(pull.max()), float(np.abs(self.r).max(initial=0.0))
            objective = self._objective(part)
            stop = self._record(np.nan, violation, len(part.index))  # Aβ = b does not hold yet: no bound of anything
            if violation < tol_p and lack < tol_d:
                return Status.CONVERGED, None
            if stop:
                return stop, None
            if self.steps >= self.most_steps:
                return spent(self.goal), None
            if np.abs(part.beta).max() > HUGE:
                return Status.UNBOUNDED, None
            if self.options.newton and self.steps - begun > PATIENCE * self.qp.n + 10_000:
                return Status.STALLED, None
            lagrangian = objective + float((self.eta + 0.5 * self.rho * self.r) @ self.r)
            if progress.stalled(max(violation / tol_p, lack / tol_d), np.inf if self.joint else lagrangian):
                if not self.joint:
                    return Status.STALLED, None
                self.joint, progress = False, _Progress()
            if self.shrinking and lack < tol_d and len(part.index) > SHRINK_FROM:
                stuck = part.stuck(violation)
                if SHRINK_SHARE * len(stuck) < stuck.sum() < len(stuck):
                    return Status.CONVERGED, stuck
            if violation == 0.0:  # no variable has anything to do before η goes further than to where the first has
                step = (self.rho or self._unit()) * self.r
                self._dual_step(part, (1.0 + self._first_to_move(part, step)) * step)
            elif not self.joint and violation < max(tol_p, self.options.eager * self.rho * lack):
                if progress.at_dual_step(lack):
                    return Status.STALLED, None
                self._dual_step(part, self.rho * self.r)
            else:
                self._improve(part, pull, violation, lack, tol_p, tol_d)

    def _objective(self, part: _Part) -> float:
        """The objective, up to the constant that the fixed variables add."""
        level = part.Q.T @ (self.eta + self.rho * self.r)
        return float(0.5 * part.beta @ (part.p - part.v - level) + part.eps @ np.abs(part.beta))

    def _dual_step(self, part: _Part, step: np.ndarray) -> None:
        self.eta += step
        part.v -= part.Q.T @ step
        self.duals += 1
        self.steps += 1

    def _first_to_move(self, part: _Part, step: np.ndarray) -> float:
        """Dual steps after which the first variable violates its conditions; the dual function is linear until then."""
        slope = part.Q.T @ step
        room = np.where(slope > 0.0, part.v + part.fall, part.v + part.rise)
        can = (slope != 0.0) & (np.abs(room) < BIG / 2)
        return float((room[can] / slope[can]).min(initial=np.inf)) if can.any() else 0.0

    def _working_set(self, part: _Part, pull: np.ndarray) -> _Set:
        """The variables that violate most, and as many of the set before: free ones first."""
        m = len(pull)
        q = min(m, self.q, self.cache.capacity)
        if q == m:
            return part.set if part.set is not None else _Set(self, part, np.arange(m))
        old = part.set.W if part.set is not None else np.zeros(0, np.int64)
        count = max(1, q // 2) if len(old) else q
        new = np.argpartition(-pull, count - 1)[:count]
        new = new[pull[new] > 0.0]
        old = np.setdiff1d(old, new, assume_unique=True)
        at_bound = (part.beta[old] <= part.lower[old]) | (part.beta[old] >= part.upper[old])
        old = old[np.argsort(at_bound, kind="stable")]
        return _Set(self, part, np.sort(np.concatenate([new, old[: q - len(new)]])))

    def _improve(self, part: _Part, pull, violation: float, lack: float, tol_p: float, tol_d: float) -> None:
        """Algorithm 1 on the working set, then v brought up to date everywhere."""
        options = self.options
        part.set = S = self._working_set(part, pull)
        W, whole = S.W, len(S.W) == len(pull)
        r, eta = self.r.copy(), self.eta.copy()
        inner_p = tol_p if whole else max(INNER_TOL * violation, 0.9 * tol_p)
        inner_d = np.inf if not self.joint else tol_d if whole else max(INNER_TOL * lack, 0.9 * tol_d)
        rules = Rules(
            options.omega, options.hessian != "bound" and self.joint, options.hessian == "full", options.clamping,
            options.settled, self.rho, options.eager, STEP_BOUND * self.rho if self.rho > 0 else np.inf,
            inner_p, inner_d, whole, min(self.most_steps - self.steps, max(1000, STEPS_A_CALL // len(W))),
        )  # fmt: skip
        x = Variables(part.v[W], part.beta[W], *S.box, S.diag, part.rise[W], part.fall[W])
        constraints = Constraints(S.Q, self.eta, self.r)
        steps, duals = algorithm_1(S.H, x, constraints, S.hessian, rules, self.trace)
        self.steps += steps + duals
        self.duals += duals
        delta = x.beta - part.beta[W]
        part.beta[W], part.rise[W], part.fall[W] = x.beta, x.rise, x.fall
        if whole:
            part.v = x.v
            return
        moved = np.flatnonzero(delta)
        slab, slots, delta = self.cache.slab, S.slots[moved], delta[moved]
        grain = th.grain(len(slots))
        th.spread(lambda a, b: subtract_rows(slab, slots, delta, part.v, a, b), len(part.v), self.gram.threads, grain)
        part.v -= part.Q.T @ (self.eta - eta + self.rho * (self.r - r))

    def keep_trace(self) -> None:
        """The recorded iterations as columns of the history."""
        rows = self.trace.rows[: self.trace.counts[0]]
        self.monitor.history.trace = {
            "primal_violation": rows[:, 0], "dual_violation": rows[:, 1], "dual_steps": rows[:, 2].astype(np.int64),
            "hessian_steps": rows[:, 3].astype(np.int64), "eta": rows[:, 4:] @ self.equality.T,
        }  # fmt: skip


class _Progress:
    """Notices when neither the violations nor the augmented Lagrangian get any smaller."""

    def __init__(self) -> None:
        self.merit = self.value = self.lack = np.inf
        self.waited = self.waited_duals = 0

    def stalled(self, merit: float, value: float) -> bool:
        better = merit < 0.99 * self.merit or value < self.value - STALL_DECREASE * abs(value)
        self.merit, self.value = min(self.merit, merit), min(self.value, value)
        self.waited = 0 if better else self.waited + 1
        return self.waited >= STALL_SETS

    def at_dual_step(self, lack: float) -> bool:
        """Whether dual steps stall; if not, the Lagrangian starts anew."""
        self.waited_duals = 0 if lack < 0.9 * self.lack else self.waited_duals + 1
        self.lack, self.value, self.waited = min(self.lack, lack), np.inf, 0
        return self.waited_duals >= STALL_SETS
