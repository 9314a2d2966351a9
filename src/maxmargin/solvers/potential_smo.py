"""Sequential minimal optimisation for the Potential SVM (PSVM: Knebel, Hochreiter & Obermayer).

    min ½ αᵀQα + pᵀα + Σ ε_j |α_j|     s.t.  lower ≤ α ≤ upper                                              (19)

    for ε̄ = 0.1 ‖F‖∞, 0.9 ε̄, … , ε                                                          annealing, §3.3
        repeat
            i  <- the variable with the largest d_i (25)
            k  <- the variable whose step together with i is longest (26)                    pair, §3.1
            α_i, α_k  <- the minimum over both in the box on their sides of 0 (20)–(24), Figure 2
                         or α_i alone (28)                                                    single, appendix A
            F  <- F + Q_i Δα_i + Q_k Δα_k
            now and then: all variables changed lately at once, by Cholesky                   block, §3.2, appendix B
        until d_i ≤ λ, or 4λ while ε̄ > ε

| paper          | here                                                   |
| -------------- | ------------------------------------------------------ |
| α, Q, −Kᵀy     | β, H, p of the QP                                      |
| F (9)          | ``F`` = Hβ + p                                         |
| λ              | half the violation that the goal allows: that is the sum of the worst d on either side |
| b_c, b_n, b_f  | ``hits``, ``changes``, ``repeats``                      |

The leaves are in parts/potential_steps.py. Rows of Q come through the cache, in blocks: with the row that is needed
those of the variables that violate most, which cost little more when they are computed together. No equality
constraint is kept; the boxes and ε may differ from variable to variable, so that other machines without a bias are
taken too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve

from ..goal import Goal
from ..gram import RowCache, as_gram, cache_bytes, once_more
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, heed, spent
from .parts.cholesky import cholesky
from .parts.coordinate_violations import violations
from .parts.limits import LOOK_WORK, Aim, most_steps
from .parts.potential_steps import BLOCK, DONE, MISSING, STUCK, smo_steps

__all__ = ["PotentialSMO"]

PREFETCH = 16  # rows of Q that are computed together
FIRST_SHARE = 0.1  # of ‖Kᵀy‖∞, where annealing begins (§3.3)
ANNEAL = 0.9  # the next ε̄, of the one before (§3.3)
ANNEAL_TOL = 4.0  # λ_ann / λ (§3.3)
MOST_BOUNDED = 4  # variables that reach a bound before a block update is given up (appendix B)
FACTORISATIONS = 64  # of a block update: the recursion of appendix B has no other end in sight


@dataclass
class PotentialSMO:
    """The paper's solver; each of its parts can be switched off."""

    pair: bool = True  # steps on two variables ("dual SMO"), or on one ("single SMO")
    block: bool = True  # block optimisation
    annealing: bool = True  # from a large ε to the one that is asked for
    hits: int = 4  # b_c: variables that hit ±C since the last block update
    changes: int = 21  # b_n: variables that changed since then
    repeats: int = 3  # b_f: steps since then for each of them
    cache_size: float | str = "auto"  # megabytes for rows of Q

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        if not len(qp.A):
            return None
        return (
            f"potential-smo was asked for; found {len(qp.A)} equality constraints, which no Potential SVM has; "
            'leave the bias out (fit_intercept=False), or use "decomposition" or "mpd"'
        )

    @once_more
    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, moved into the box. Iterations are steps and block updates."""
        heed(self.objection(qp))
        run = _Run(self, qp, goal, start, monitor or Monitor())
        aim = Aim(0.5 * goal.first_violation)
        best: Answer | None = None
        for refinement, tolerance in enumerate(aim.tries()):
            reason = run.solve(tolerance, self.annealing and start is None and refinement == 0)
            found = answer(qp, goal, run.alpha)
            best = better(goal, best, found)
            if goal.met(found.certificate) or not (reason.converged or reason is Status.STALLED and not refinement):
                break
            if reason.converged:
                aim.finer()
            run.restart(found.beta)
        assert best is not None
        run.monitor.history.trace["changed"] = np.flatnonzero(run.ever)  # Table 2 counts them
        return close(qp, goal, best, reason, max(1, run.steps), run.monitor, run.gram.evals)


class _Run:
    """α, F and the rows of Q that are known."""

    def __init__(self, solver: PotentialSMO, qp: QP, goal: Goal, start: np.ndarray | None, monitor: Monitor) -> None:
        self.solver, self.qp, self.monitor = solver, qp, monitor
        self.gram = as_gram(qp.H).wide()
        self.cache = RowCache(self.gram, cache_bytes(solver.cache_size), PREFETCH)
        self.diag = np.array(self.gram.diag(), np.float64)
        n = qp.n
        self.most = most_steps(goal, n)
        self.spent = spent(goal)
        self.steps = 0
        self.touched, self.hit, self.ever = (np.zeros(n, bool) for _ in range(3))
        self.since = np.zeros(3, np.int64)  # changed, hit, steps since the last block update
        never = np.iinfo(np.int64).max // 2
        self.triggers = (solver.hits, solver.changes, solver.repeats) if solver.block else (never, never, 1 << 31)
        self.restart(np.zeros(n) if start is None else np.asarray(start, np.float64))

    def restart(self, alpha: np.ndarray) -> None:
        """Go on from α, with F computed anew."""
        self.alpha = np.clip(alpha, self.qp.lower, self.qp.upper)
        self.F = self.qp.times(self.alpha) + self.qp.p

    def solve(self, tolerance: float, annealing: bool) -> Status:
        """§3.3: for a sequence of ε̄ that ends with ε."""
        eps = self.qp.eps
        level = FIRST_SHARE * float(np.abs(self.F).max(initial=0.0)) if annealing else 0.0
        while level > max(float(eps.max(initial=0.0)), tolerance):
            reason = self._descend(np.maximum(eps, level), ANNEAL_TOL * tolerance)
            if not reason.converged:
                return reason
            level *= ANNEAL
        return self._descend(eps, tolerance)

    def _descend(self, eps: np.ndarray, tolerance: float) -> Status:
        """Steps until no variable violates its conditions by more than the tolerance."""
        qp = self.qp
        while True:
            room = min(self.most - self.steps, max(1, LOOK_WORK // max(1, qp.n)))
            why, done, i, k = smo_steps(
                self.cache.slab, self.cache.slot, self.alpha, self.F, self.diag, eps, qp.lower, qp.upper, tolerance,
                self.solver.pair, self.triggers, self.touched, self.hit, self.ever, self.since, room,
            )  # fmt: skip
            self.steps += done
            if why == DONE:
                return Status.CONVERGED
            if why == STUCK:
                return Status.STALLED if np.isfinite(self.alpha).all() and self._bounded(i, k) else Status.UNBOUNDED
            if self.steps >= self.most:
                return self.spent
            if why == MISSING:
                self._fetch(i, k, eps)
            elif why == BLOCK:
                self._block_update(eps)
                self.steps += 1
            stop = self._tell(eps)
            if stop is not None:
                return stop

    def _bounded(self, i: int, k: int) -> bool:
        """Whether the variables of a step have boxes, or curvature, that hold them."""
        some = np.array([j for j in (i, k) if j >= 0])
        boxed = np.isfinite(self.qp.lower[some]) & np.isfinite(self.qp.upper[some])
        return bool((boxed | (self.diag[some] > 0.0)).all())

    def _tell(self, eps: np.ndarray) -> Status | None:
        """A line of history when it is time for one; the reason to stop, if there is one."""
        if not self.monitor.wants_primal() and self.monitor.callback is None:
            return self.monitor.stop_now()
        value = self.qp.objective(self.alpha, self.F - self.qp.p)
        worst = float(violations(self.alpha, self.F, eps, self.qp.lower, self.qp.upper).max(initial=0.0))
        used = int(np.count_nonzero(self.alpha))
        return self.monitor.step(self.steps, value, worst, used, self.gram.evals, self.cache.hit_rate)

    def _fetch(self, i: int, k: int, eps: np.ndarray) -> None:
        """The rows of a step; with the first of them those of the variables that violate most."""
        if k >= 0:
            self.cache.fetch(np.array([i, k]))
            return
        count = min(PREFETCH, self.cache.capacity, self.qp.n)
        d = violations(self.alpha, self.F, eps, self.qp.lower, self.qp.upper)
        d[self.cache.slot >= 0] = -1.0
        d[i] = np.inf
        some = np.argpartition(-d, count - 1)[:count]
        self.cache.fetch(np.sort(some[d[some] > 0.0]))

    # -- block optimisation (§3.2, appendix B) ------------------------------------------------------------

    def _block_update(self, eps: np.ndarray) -> None:
        """One update of all variables that are not 0 and were changed since the last one.

        The paper's recursion may end anywhere; what it finds is kept if the objective is smaller there.
        """
        A = np.flatnonzero(self.touched & (self.alpha != 0.0))
        self.touched[:], self.hit[:], self.since[:] = False, False, 0
        if len(A) < 2:
            return
        kept = len(A) <= self.cache.capacity
        rows = self.cache.slab[self.cache.fetch(A)] if kept else None
        Q = self.gram.block(A) if rows is None else np.asarray(rows[:, A], np.float64)
        old, sign = self.alpha[A], np.sign(self.alpha[A])
        low = np.where(sign > 0, np.maximum(self.qp.lower[A], 0.0), self.qp.lower[A])  # (23)
        high = np.where(sign > 0, self.qp.upper[A], np.minimum(self.qp.upper[A], 0.0))  # (24)
        slope = self.F[A] + eps[A] * sign
        new = _Block(Q, slope - Q @ old, low, high).optimize(old, np.arange(len(A)))
        change = new - old
        if not slope @ change + 0.5 * change @ Q @ change < 0.0:
            return
        self.alpha[A] = new
        self.F += self.gram.combine(A, change) if rows is None else change @ rows


class _Block:
    """min ½ xᵀQx + cᵀx in a box, by appendix B: Cholesky, bounds, and again without the variables that hit one.

    "apply(b)" of the paper, F with b at its new value, is here the slope c + Q x over all variables of the block.
    """

    def __init__(self, Q: np.ndarray, c: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self.Q, self.c, self.low, self.high = Q, c, low, high
        self.left = FACTORISATIONS

    def optimize(self, x: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The minimum over the free variables, the others as in x; x itself where more than four hit a bound."""
        if not len(free) or self.left <= 0:
            return x
        self.left -= 1
        U = cholesky(self.Q[np.ix_(free, free)])
        if U is None:  # columns that depend on each other
            return x
        held = np.ones(len(x), bool)
        held[free] = False
        target = cho_solve((U, False), -(self.c[free] + self.Q[np.ix_(free, held)] @ x[held]))
        new = x.copy()
        new[free] = np.clip(target, self.low[free], self.high[free])
        bounded = free[new[free] != target]
        if len(bounded) > MOST_BOUNDED:
            return x
        return self.reoptimize(new, free, list(bounded), bounded[0]) if len(bounded) else new

    def reoptimize(self, old: np.ndarray, free: np.ndarray, bounded: list, b: np.ndarray) -> np.ndarray:
        """With b held at its bound; where another one then stays at its own, with that one held in place of b."""
        new = self.optimize(old, free[free != b])
        others = [i for i in bounded if i != b]
        for i in others:
            if new[i] == old[i]:
                return self.reoptimize(old, free, others, i)
        return new
