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
variables that violate most, whose rows come as one block; multipliers found there serve all (parts/working_sets.py).

**The end.** The nearest feasible point holds Aβ = b to rounding; where few variables are free, one Newton system for
them and η together replaces the last, slow Gauss–Seidel steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..goal import Goal
from ..gram import once_more
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, first_point
from .parts.limits import EACH_SIDE, MARGIN, NEAR, SAMPLE_TOL, Aim
from .parts.mpd_leaves import Constraints, Rules, Trace, algorithm_1
from .parts.newton_finish import NEWTON_WORK, newton_due, newton_finish
from .parts.pair_steps import HUGE
from .parts.part_with_multipliers import PartWithMultipliers, PrimalDualProgress, WithMultipliers, WorkingSet
from .parts.working_sets import Sizes

__all__ = ["MPD"]

INNER_TOL = 0.1  # share of the violation that a working set may keep
OMEGA = 1.6  # half as many primal steps as ω = 1, or a third (measured: docs/mpd.md)
STEP_BOUND = 1.9  # length of a dual step, in units of ρ: below 2 they converge
NEWTON_UP_TO = 300  # free variables in a Newton system


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
    joint: bool = True  # working sets move η, until that stalls; else only η for which all variables are optimal moves
    working_set: int | None = None  # q; None: an eighth of the variables, 64 at least and 512 at most
    shrinking: bool = True  # leave out variables that are stuck at a bound
    growing: bool = True  # start from a sample that grows
    newton: bool = True  # solve for the free variables and η at the end, where that is cheap
    patience: float = np.inf  # steps a variable, at most; more where they look at fewer than all variables
    cache_size: float | str = "auto"  # megabytes for kernel rows
    trace: int = 0  # iterations of Algorithm 1 to record: both violations, η, dual and Hessian steps so far
    seed: int = 0  # order in which the sample grows
    sizes: Sizes = Sizes(shrink=1500, stall=50)  # numbers of variables from which on each of these is worth it

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
        run = Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        if self.trace:
            run.monitor.history.trace = run.trace.columns(run.equality.T)
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, run.gram.evals)


class Run(WithMultipliers):
    """One call of the solver: the state that its steps share."""

    def __init__(self, options: MPD, qp: QP, goal: Goal, monitor: Monitor) -> None:
        super().__init__(options, qp, goal, monitor)
        if self.small and options.working_set is None:
            self.q = qp.n
        # What lacks must fit into the boxes. Working sets, which see a part of it at a time, find that out later.
        self.narrow = min(1.0, float(np.mean(qp.upper - qp.lower)) or 1.0) if self.small else 1.0
        self.shrinking = options.shrinking
        self.joint = options.joint
        self.sampled: tuple[np.ndarray, int] | None = None  # β of the last sample, and the steps that led to it
        self.trace = Trace(np.zeros((options.trace, 4 + self.equality.count)), np.zeros(3, np.int64))

    # -- from a first guess to a certified end ------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        qp, goal = self.qp, self.goal
        self.equality.feasible(np.zeros(qp.n), qp.lower, qp.upper, qp.eps)  # says so if there is no feasible point
        everything = np.arange(qp.n)
        self.begin(start)
        status = Status.CONVERGED if start is not None else self._grow()
        aim, best = Aim(goal.first_violation), None
        for accuracy in aim.tries():
            try:
                if status.converged:
                    status = self.solve_on(everything, EACH_SIDE * accuracy, EACH_SIDE * accuracy * self.narrow)
                if status in NEAR:
                    self._settle(self.options.newton)
            except Stopped as stopped:
                status = stopped.reason
            near = status in NEAR
            if not near:  # Aβ = b to rounding; v, which would take a product, is not needed any more
                if best is None and self.sampled is not None and self.steps - self.sampled[1] < qp.n:
                    self.beta = self.sampled[0]  # most variables are still where the sample's decision has put them
                self.beta = self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps)
                if best is None and not qp.b.any() and start is None:  # costs nothing, and is better than a bad start
                    best = answer(qp, goal, first_point(qp))
            found = answer(qp, goal, self.beta)  # from here on no book-keeping counts
            self.beta = found.beta.copy()
            self.refresh(qp.times(self.beta))
            best = better(goal, best, found)
            stop = self._record(-found.certificate.dual, found.certificate.violation, qp.n)
            if goal.met(best.certificate) or not near or stop:
                return best, stop or status
            self.widen()  # rows fell short of an exact product
            if status.converged:
                aim.finer()
            status = Status.CONVERGED
        assert best is not None
        return best, Status.STALLED

    def _settle(self, newton: bool) -> None:
        """Aβ = b to rounding; where few variables are free, a Newton system for them, if it does any good."""
        qp = self.qp
        H_beta = -(self.v + qp.p + self.equality.Q.T @ (self.eta + self.rho * self.r))
        H_beta = self.move_to(self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps), H_beta)
        most = min(NEWTON_UP_TO, NEWTON_WORK // max(1, qp.n))
        free = (self.beta > qp.lower) & (self.beta < qp.upper) & ((qp.eps == 0.0) | (self.beta != 0.0))
        if not newton or free.sum() > most:
            return
        better = newton_finish(self.gram, qp, self.equality, self.beta, -(H_beta + qp.p), most, self.monitor.stop_now)
        if better is not None:
            before, violation = self.beta, self.refresh(H_beta)
            H_beta = self.move_to(better, H_beta)
            if self.refresh(H_beta) > violation:
                self.beta = before

    # -- samples that grow --------------------------------------------------------------------------------------

    def _grow(self) -> Status:
        """A start from samples, with boxes as much wider as they are smaller.

        Its decision function is then that of the whole, and tells on which bound new variables belong.
        """
        qp, n = self.qp, self.qp.n
        from_zero = self.zero_inside() and bool(np.isfinite(qp.upper - qp.lower).all()) and self.gram.ridge is None
        known, share, accuracy = np.zeros(0, np.int64), 1.0, max(self.goal.first_violation, SAMPLE_TOL)
        for index, wanted in self.samples(self.options.growing and from_zero):
            if len(index) == n and not len(known):
                break  # no sample
            before, begun, entered = share * self.beta, self.steps, False
            try:
                self.enter(index, known, share, wanted)
                known, share, entered = index, wanted, True
                if share == 1.0:
                    self.sampled = before, self.steps
                    break
                status = self.solve_on(index, EACH_SIDE * accuracy, accuracy / share)
            except Stopped as stopped:
                status = stopped.reason
            if status not in NEAR:
                self.lower, self.upper = qp.lower, qp.upper
                # After fewer steps than variables most of them are still where they were put.
                solved = entered and self.steps - begun >= len(index)
                self.beta = np.clip(share * self.beta if solved else before, qp.lower, qp.upper)
                return status
        return Status.CONVERGED

    # -- Algorithm 1 on working sets ----------------------------------------------------------------------------

    def part(self, index: np.ndarray) -> PartWithMultipliers:
        return PartWithMultipliers(self, index)

    def at_rest(self, index: np.ndarray, status: Status, shrunk: bool, *tol: float) -> bool:
        if shrunk and status is Status.STALLED:
            self.shrinking = False  # what is left may be too little to hold the constraints
            return False
        return not shrunk or bool(self.part(index).pull().max() < tol[0])

    def minimise(self, part: PartWithMultipliers, *tol: float) -> tuple[Status, np.ndarray | None]:
        """Algorithm 1 on one working set after the other, until all conditions hold or there are variables to drop."""
        (tol_p, tol_d), begun = tol, self.steps
        progress = PrimalDualProgress(self.sizes.stall)
        while True:
            pull = part.pull()
            violation, lack = float(pull.max()), float(np.abs(self.r).max(initial=0.0))
            self.reserve(part)
            stop = self._record(np.nan, violation, len(part.index))  # Aβ = b does not hold yet: no bound of anything
            solved = violation < tol_p and lack < tol_d
            tired = self.room(len(part.index)) < 1
            unbounded = np.abs(part.beta).max() > HUGE
            slow = self.options.newton and newton_due(self.steps - begun, self.qp.n)
            if solved or stop or tired or unbounded or slow:
                return self.reason(solved, stop, tired, unbounded), None
            lagrangian = part.objective(self.multipliers) + float((self.eta + 0.5 * self.rho * self.r) @ self.r)
            if progress.stalled(np.inf if self.joint else lagrangian, max(violation / tol_p, lack / tol_d)):
                if not self.joint:
                    return Status.STALLED, None
                self.joint, progress = False, PrimalDualProgress(self.sizes.stall)  # which cannot cycle
            if self.shrinking and lack < tol_d and len(part.index) > self.sizes.shrink:
                stuck = part.to_leave_out(part.stuck(violation))
                if stuck is not None:
                    return Status.CONVERGED, stuck
            if violation == 0.0:  # no variable has anything to do before η goes further than to where the first has
                step = (self.rho or self.unit()) * self.r
                self.dual_step(part, (1.0 + part.first_to_move(step)) * step)
            elif not self.joint and violation < max(tol_p, self.options.eager * self.rho * lack):
                if progress.stalled_at_dual_step(lack):
                    return Status.STALLED, None
                self.dual_step(part, self.rho * self.r)
            else:
                part.set = self._working_set(part, pull)
                self._improve(part, part.set, self._rules(len(part.set.W), violation, lack, part, tol_p, tol_d))

    def _record(self, objective: float, violation: float, active: int) -> Status | None:
        self.iteration += 1
        return self.monitor.step(self.iteration, objective, violation, active, self.gram.evals, self.cache.hit_rate)

    def _working_set(self, part: PartWithMultipliers, pull: np.ndarray) -> WorkingSet:
        """The variables that violate most, and as many of the set before: free ones first."""
        m = len(pull)
        q = min(m, self.q, self.cache.capacity)
        if q == m:
            return part.set if part.set is not None else WorkingSet(self, part, np.arange(m))
        old = part.set.W if part.set is not None else np.zeros(0, np.int64)
        count = max(1, q // 2) if len(old) else q
        new = np.argpartition(-pull, count - 1)[:count]
        return WorkingSet(self, part, part.with_old(new[pull[new] > 0.0], old, q))

    def _rules(self, q: int, violation: float, lack: float, part: Any, tol_p: float, tol_d: float) -> Rules:
        """How far Algorithm 1 goes on q variables: not as far as all of them need if they are only some."""
        options, whole = self.options, q == len(part.index)
        inner_p = tol_p if whole else max(INNER_TOL * violation, MARGIN * tol_p)
        inner_d = tol_d if whole else max(INNER_TOL * lack, MARGIN * tol_d)
        return Rules(
            omega=options.omega,
            estimate=options.hessian != "bound" and self.joint,
            full=options.hessian == "full",
            clamping=options.clamping,
            settled=options.settled,
            rho=self.rho,
            eager=options.eager,
            bound=STEP_BOUND * self.rho if self.rho > 0 else np.inf,
            tol_p=inner_p,
            tol_d=inner_d if self.joint else np.inf,
            whole=whole,
            most=min(self.room(q), max(1000, self.sizes.call // q)),
        )

    def _improve(self, part: PartWithMultipliers, S: WorkingSet, rules: Rules) -> None:
        """Algorithm 1 on the working set, then v brought up to date everywhere."""
        found, eta, r = S.variables(part), self.eta.copy(), self.r.copy()
        steps, duals = algorithm_1(S.H, found, Constraints(S.Q, self.eta, self.r), S.hessian, rules, self.trace)
        self.count(steps + duals, len(S.W))
        change = part.take_over(S.W, found)
        if rules.whole:
            part.v = found.v
        else:
            self.subtract(part, S.W, S.slots, change)
            part.v -= part.Q.T @ (self.eta - eta + self.rho * (self.r - r))
