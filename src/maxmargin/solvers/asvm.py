"""The active set method for linear machines with a squared loss (SLIDES; Mangasarian & Musicant: ASVM).

    min ½ βᵀ(ZZᵀ + D)β + pᵀβ   s.t.  y_i β_i ≥ 0        D = diag(ridge) > 0, Z of d columns

If the set B of variables that are not at their bound were known, β would be the solution of one linear system. Guess B
from β, solve, clip, guess again:

    repeat
        B  <- {i: y_i β_i > 0}, and once β is optimal on B, all i that violate the conditions too
        z_B <- −H_BB⁻¹ p_B,  z = 0 elsewhere
        β  <- β + λ (z − β) clipped to y β ≥ 0, with the first λ of 1, ½, ¼, … that brings enough; among them is
              the one at which the first variable meets its bound
    until the largest violation < tol

A step needs H_BB⁻¹ only through the d × d matrix I + Z_Bᵀ D_B⁻¹ Z_B (Sherman–Morrison–Woodbury), so its cost grows
with the number of rows as reading them does:

    H_BB⁻¹ = D⁻¹ − D⁻¹ Z_B (I + Z_Bᵀ D⁻¹ Z_B)⁻¹ Z_Bᵀ D⁻¹

| ASVM                        | here                                                   |
| --------------------------- | ------------------------------------------------------ |
| Q = I/ν + HHᵀ, H = D[A −e]  | H = D + ZZᵀ; labels are in the signs of β               |
| u ≥ 0, e                    | y β ≥ 0, −p                                            |
| bias penalised in γ²/2      | a constant column of Z (the view ``Shifted``)            |

The bias of ASVM is penalised. One that is not is an equality constraint Σβ = 0, and so are parametric functions; here
ρ AᵀA joins ZZᵀ as k more columns √ρ Aᵀ, and multiplier steps η += ρ (Aβ − b) make up for it (MPD §5.4). With a
factorisation in place of Gauss–Seidel steps ρ can be large, and two or three such steps are all it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve

from ..goal import Goal
from ..gram import as_gram
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, heed, spent
from .parts.constraints import Equality
from .parts.limits import EACH_SIDE, NEAR, ROUNDS, Aim
from .parts.line_search import ARMIJO
from .parts.newton_systems import factor_spd
from .parts.roundings import ROUNDED_SOLUTION, ROUNDED_VALUE

__all__ = ["ASVM"]


@dataclass
class ASVM:
    """Active sets, each solved by one factorisation of the size of the features."""

    most_features: int = 5000  # columns of Z: a factorisation of that size takes seconds
    augment: float = 100.0  # ρ in units of the mean of H's diagonal

    form: ClassVar[type] = QP

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        factor = as_gram(qp.H).factor()
        if factor is None:
            return (
                "asvm was asked for; found a kernel matrix without a factor of few columns; use a linear kernel, or "
                '"mpd", "decomposition" or "nearest-point", which take any kernel'
            )
        above = (qp.lower == 0) & np.isposinf(qp.upper)
        below = (qp.upper == 0) & np.isneginf(qp.lower)
        if factor.ridge is None or not (factor.ridge > 0).all() or not (above | below).all() or qp.eps.any():
            return (
                "asvm was asked for; found a problem that is no classification with a squared hinge; use "
                '"interior-point", "mpd" or "sor", which take others, or loss="squared_hinge"'
            )
        if factor.rows.d > self.most_features:
            return (
                f"asvm was asked for; found {factor.rows.d} features, too many to factor (more than "
                f'{self.most_features}); use "newton", "sor" or "interior-point"'
            )
        return None

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from the active set of ``start``, or from the whole. Iterations are systems; at most 1000 of them."""
        heed(self.objection(qp))
        run = _Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, as_gram(qp.H).evals)


class _Run:
    """One call of the solver: the state that its steps share."""

    def __init__(self, options: ASVM, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options = options
        self.qp = qp
        self.goal = goal
        self.monitor = monitor
        factor = as_gram(qp.H).factor()
        assert factor is not None and factor.ridge is not None
        self.ridge = factor.ridge
        self.Z = factor.rows.watched(monitor.look)  # each tile of each pass may be the last
        self.equality = Equality.of(qp)
        diagonal = float(as_gram(qp.H).diag().mean())
        self.rho = options.augment * (diagonal if diagonal > 0 else 1.0)
        self.extra = np.sqrt(self.rho) * np.ascontiguousarray(self.equality.Q.T)
        self.sign = np.where(np.isposinf(qp.upper), 1.0, -1.0)
        self.eta = np.zeros(self.equality.count)
        self.steps = self.iteration = 0
        self.beta = np.zeros(qp.n)
        self.most_steps = goal.max_iter if goal.max_iter > 0 else 1000

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        qp, goal = self.qp, self.goal
        self.equality.feasible(np.zeros(qp.n), qp.lower, qp.upper, qp.eps)  # says so if there is no feasible point
        if start is not None:
            self.beta = np.clip(np.asarray(start, np.float64), qp.lower, qp.upper)
            self.eta = self.equality.multipliers(qp, self.beta, qp.times(self.beta))
        aim = Aim(goal.first_violation)
        best: Answer | None = None
        for accuracy in aim.tries():
            try:
                status = self._multiplier_steps(EACH_SIDE * accuracy, accuracy)
            except Stopped as stopped:  # with the last β that a step has led to
                status = stopped.reason
            found = answer(qp, goal, self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps))
            self.beta = found.beta
            best = better(goal, best, found)
            stop = self._record(-found.certificate.dual, found.certificate.violation)
            if goal.met(best.certificate) or stop or not status.converged:
                return best, status if not status.converged and status is not Status.STALLED else stop or status
            aim.finer()
        assert best is not None
        return best, Status.STALLED

    def _record(self, objective: float, violation: float) -> Status | None:
        self.iteration += 1
        return self.monitor.step(
            self.iteration, objective, violation, int(np.count_nonzero(self.beta)), as_gram(self.qp.H).evals
        )

    def _multiplier_steps(self, tol_p: float, tol_d: float) -> Status:
        """Make the violation of β less than tol_p and |Aβ − b| less than tol_d."""
        before = np.inf
        for _ in range(ROUNDS):
            p = self.qp.p + self.equality.Q.T @ (self.eta - self.rho * self.equality.c)
            status = self._active_sets(p, tol_p)
            r = self.equality.residual(self.beta)
            lack = float(np.abs(r).max(initial=0.0))
            if status not in NEAR or lack < tol_d or lack >= before:
                return status
            before = lack
            self.eta = self.eta + self.rho * r
        return Status.STALLED

    def _columns(self, v: np.ndarray) -> np.ndarray:
        """[Z, √ρ Aᵀ]ᵀ v."""
        return np.concatenate([self.Z.t_dot(v), self.extra.T @ v])

    def _rows(self, w: np.ndarray) -> np.ndarray:
        """[Z, √ρ Aᵀ] w."""
        d = self.Z.d
        return self.Z.dot(w[:d]) + self.extra @ w[d:]

    def _active_sets(self, p: np.ndarray, tol: float) -> Status:
        """ASVM: min ½ βᵀ(ZZᵀ + ρAᵀA + D)β + pᵀβ with the signs of β given."""
        beta = self.beta
        gradient = self._rows(self._columns(beta)) + self.ridge * beta + p
        solved = False
        while True:
            inward = self.sign * gradient  # ≥ 0 where β_i = 0, and 0 where it is not
            violation = float(np.where(beta != 0.0, np.abs(inward), np.maximum(-inward, 0.0)).max(initial=0.0))
            value = 0.5 * float(beta @ (gradient + p))
            stop = self._record(np.nan, violation)  # Aβ = b does not hold yet: no bound of anything
            if violation < tol:
                return Status.CONVERGED
            if stop:
                return stop
            if self.steps >= self.most_steps:
                return spent(self.goal)
            # Solved on B, as well as tol asks or a system can: those that violate the conditions join.
            solved = solved or float(np.abs(inward[beta != 0.0]).max(initial=0.0)) < tol
            basic = (beta != 0.0) | (inward < 0.0) if solved else beta != 0.0
            self.steps += 1
            direction = np.where(basic, self._solution_on(basic, p) - beta, 0.0)
            falls = (beta != 0.0) & (self.sign * (beta + direction) < 0.0)
            first = float((-beta[falls] / direction[falls]).min(initial=1.0))  # up to here nothing meets its bound
            length = 1.0
            while True:
                # Bent at the bounds, the way to z is downhill at first: what leaves its bound wrongly is put back.
                new = beta + length * direction
                new = np.where(self.sign * new > 0.0, new, 0.0)
                if length == first < 1.0:
                    new[falls & (np.abs(new) <= ROUNDED_SOLUTION * np.abs(beta))] = 0.0  # exactly: it has met its bound
                w = self._columns(new)
                new_value = 0.5 * float(w @ w + self.ridge @ (new * new)) + float(p @ new)
                if new_value <= value + ARMIJO * float(gradient @ (new - beta)) or length < ROUNDED_VALUE:
                    break
                length = first if 0.5 * length < first < length else 0.5 * length
            if length < ROUNDED_VALUE or (solved and value - new_value <= ROUNDED_VALUE * abs(value)):
                return Status.STALLED
            solved = length == 1.0 and np.array_equal(new != 0.0, basic)
            self.beta = beta = new
            gradient = self._rows(w) + self.ridge * beta + p

    def _solution_on(self, basic: np.ndarray, p: np.ndarray) -> np.ndarray:
        """−H_BB⁻¹ p_B, and 0 elsewhere."""
        theta = np.where(basic, 1.0 / self.ridge, 0.0)
        normal = self.Z.normal(theta, self.extra)
        normal[np.diag_indices_from(normal)] += 1.0
        # Shifted where large features hide the 1 on the diagonal
        factor = factor_spd(normal, self.Z.threads, self.monitor.look)

        def solve(right: np.ndarray) -> np.ndarray:
            return theta * (right - self._rows(cho_solve(factor, self._columns(theta * right), check_finite=False)))

        z = solve(-p)
        for _ in range(2):  # with a small ridge the difference above cancels many digits; what is left over has them
            z = z + solve(-p - self._rows(self._columns(z)) - self.ridge * z)
        return z
