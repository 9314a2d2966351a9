"""Newton's method for kernel machines: PRIMAL's Algorithm 1 for any loss that is made of lines and parabolas.

With S the points where the loss is curved (kernel_risk.py) and the other coefficients where their losses ask for them,
Newton's step solves, for the change δ of β and that of η,

    (K_SS + D_S) δ_S + A_Sᵀ δη = D_S (asked − β)_S − K_SB δ_B,     δ_B = (asked − β)_B,     A (β + δ) = 0

which is PRIMAL eq. 4.4, 4.6 and appendix B with what is known of β on the right. A full step is exact if no point
changes sides; the line search is for those that do.

    for samples of the points, each twice as large, the last of them the whole                          (the doubling)
        W <- points that the function so far asks for, and some more that are nearest to it
        repeat
            Newton steps on W, with K_WW at hand
            values elsewhere; points that are asked for join W
        until none is

**Systems.** Up to some thousand points in S, a Cholesky factor that is changed rather than made anew (active_factor.py).
Above, conjugate gradients with products only, preconditioned by a partial Cholesky factor of K, to a share of the
violation that is there; A δ = c holds all along (a constraint preconditioner).

**Corners.** A loss without a curvature is rounded off, less and less: h → 0 of PRIMAL §4.2. Where the sets have
settled, the active set of the problem itself ends it (newton_finish.py). Narrow parabolas start from wide ones too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...goal import Goal
from ...gram import as_gram, cache_bytes
from ...monitor import Monitor, Stopped
from ...problem import QP
from ...solution import Status
from ..base import Answer, answer, better, spent
from .active_factor import ActiveFactor
from .constraints import Equality
from .equal_points import EqualPoints
from .kernel_products import KernelProducts
from .kernel_risk import KernelRisk
from .line_search import minimum_along
from .newton_finish import newton_finish
from .partial_cholesky import PartialCholesky
from .projected_cg import projected_cg

__all__ = ["KernelRun"]

STEPS = 200  # without a limit by the user
SMALLEST_SAMPLE = 1000  # points, up to twice as many: PRIMAL's Algorithm 1
GROWTH = 2  # times as many has the next one
SAMPLE_TOL = 0.1  # violation that a sample may keep, whose solution is only a start
WHOLE_BELOW = 3000  # points: up to here all of them are in W, whose matrix is made in no time
NEARBY = 0.1  # of the points that are asked for: as many more, the nearest, are in W from the start
WIDE_BELOW, WIDE_UP_TO = 1e-4, 2000  # violation below which, and points up to which, K is made in float64
FORCING = 0.1  # of the violation may be left by conjugate gradients
CG_RANK = 500  # columns of the preconditioner: next to nothing beside a matrix that is too large to factor
FIRST_WIDTH = 2.0  # of the s at the start: losses rounded off so far are curved for all points
NARROWER = 1 / 8  # of a rounding is the next one
SAMPLE_WIDTH = 0.03  # of the size of targets: a sample whose corners are rounded off so little says where to start
SHARPEST = 1e-13  # of that size: a corner so narrow is lost in the rounding of s
FINISH_UP_TO = 1500  # free variables: up to here an active set is worth a try at each rounding
STALL = 4  # steps without progress before rounding is blamed
PROGRESS = 0.99  # of a violation: less is progress
NO_PROGRESS = 1e-13  # of the objective
FINER = 0.1  # next accuracy, of the one before, where that does not prove what is asked
REFINEMENTS = 6  # such accuracies before rounding is blamed
NEAR = (Status.CONVERGED, Status.STALLED)


class KernelRun:
    """One call of Newton's method on a kernel machine."""

    def __init__(self, options, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options, self.whole, self.goal, self.monitor = options, qp, goal, monitor
        assert qp.primal is not None
        self.equal = EqualPoints.found(qp.primal)
        erm = qp.primal if self.equal is None else self.equal.erm
        self.qp = qp if self.equal is None else erm.qp()
        self.risk = KernelRisk.of(self.qp)
        self.gram = as_gram(erm.K)
        if goal.first_violation < WIDE_BELOW or self.qp.n <= WIDE_UP_TO:
            self.gram = self.gram.wide()
        self.size = float(np.abs(self.risk.p).mean()) or 1.0  # of targets
        self.beta, self.eta = np.zeros(self.qp.n), np.zeros(len(self.risk.A))
        self.steps = self.made = 0
        self.sv = 0  # points in S at the last step
        self.most = goal.max_iter if goal.max_iter > 0 else STEPS

    # -- from a first guess to a certified end ------------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        share, reason = self._approach(start)
        if share < 1.0:
            self.beta = share * self.beta
        best: Answer | None = None
        accuracy = self.goal.first_violation
        stage = self._stages(self.risk, last=True, cold=start is None and self.qp.n < 2 * SMALLEST_SAMPLE)
        risk, done = next(stage)
        for _ in range(REFINEMENTS + 60):
            if share == 1.0 and reason in NEAR:
                tol = 0.5 * accuracy if done else max(accuracy, SAMPLE_TOL)
                reason = self._level(np.arange(self.qp.n), risk, tol)
                if not done:
                    risk, done = next(stage)
                    continue
            found = self._look()
            best = better(self.goal, best, found)
            if self.goal.met(best.certificate) or share < 1.0 or reason not in NEAR:
                break
            sharper = next(stage, None)
            if sharper is not None:
                risk, done = sharper
            elif accuracy < FINER ** (REFINEMENTS - 1) * self.goal.first_violation:
                break
            else:
                if reason is Status.STALLED and self.gram.dtype == np.float64:
                    break
                accuracy *= FINER if found.certificate.violation <= accuracy else 1.0
                self.gram = self.gram.wide()
        assert best is not None
        return best, reason

    def _approach(self, start: np.ndarray | None) -> tuple[float, Status]:
        """Samples that grow; the share of the points in the last one, or 1 where the whole is next."""
        n = self.qp.n
        if start is not None and np.any(start):
            beta = np.asarray(start, np.float64)
            self.beta = np.clip(beta if self.equal is None else self.equal.gather(beta), self.qp.lower, self.qp.upper)
            self.eta = self._multipliers()
            return 1.0, Status.CONVERGED
        counts = [n]
        while self.options.growing and counts[-1] >= 2 * SMALLEST_SAMPLE:
            counts.append(counts[-1] // GROWTH)
        mixed = np.random.default_rng(self.options.seed).permutation(n)
        before = 1.0
        for count in reversed(counts[1:]):
            index, share = np.sort(mixed[:count]), count / n
            self.beta *= before / share
            before = share
            sample = self.risk.take(index, share)
            for risk, done in self._stages(sample, last=False, cold=count == counts[-1]):
                reason = self._level(index, risk, SAMPLE_TOL if done else 2 * SAMPLE_TOL, quiet=True)
                if reason not in NEAR:
                    return share, reason
        self.beta *= before
        return 1.0, Status.CONVERGED

    def _stages(self, risk: KernelRisk, last: bool, cold: bool) -> Iterator[tuple[KernelRisk, bool]]:
        """The losses rounded off, less and less, and whether this is as little as is asked for; then less still."""
        width = risk.width() * self.size
        if not width.any():
            yield risk, True
            return
        share = FIRST_WIDTH if cold else SAMPLE_WIDTH
        smooth = risk.smooth
        while True:
            now = risk.rounded(share * width)
            narrow = bool((now.d == risk.d).all()) if smooth else share <= SAMPLE_WIDTH
            yield now, narrow
            share *= NARROWER
            if (smooth or not last) and narrow:
                return
            if share < SHARPEST:
                return

    def _look(self) -> Answer:
        """The whole problem's answer at the present β and η."""
        beta = self.beta if self.equal is None else self.equal.scatter(self.beta)
        whole = self.whole
        held = Equality.of(whole).feasible(beta, whole.lower, whole.upper, whole.eps)
        return answer(whole, self.goal, held, [self.eta.copy()])

    def _multipliers(self) -> np.ndarray:
        if not len(self.risk.A):
            return np.zeros(0)
        equality = Equality.of(self.qp)
        return equality.T.T @ equality.multipliers(self.qp, self.beta, self.qp.times(self.beta))

    # -- windows ------------------------------------------------------------------------------------------------

    def _level(self, index: np.ndarray, risk: KernelRisk, tol: float, quiet: bool = False) -> Status:
        """Minimise over the points ``index``; ``risk`` is theirs."""
        try:
            return self._on_windows(index, risk, tol, self.monitor.inner() if quiet else self.monitor)
        except Stopped as stopped:
            return stopped.reason

    def _on_windows(self, index: np.ndarray, risk: KernelRisk, tol: float, monitor: Monitor) -> Status:
        products = KernelProducts(self.gram, cache_bytes(self.options.cache_size), monitor)
        used = np.flatnonzero(self.beta)
        n = len(index)
        base = np.zeros(n)
        if len(used):
            base = self.gram.combine_watched(used, self.beta[used], index, monitor.look)
        inside = np.ones(n, bool)
        if n > WHOLE_BELOW and len(used) and self.gram.whole() is None:
            asked = self._asked_for(risk, base + risk.p + risk.A.T @ self.eta, self.beta[index])
            inside = asked.any() and asked or inside
        outside = np.flatnonzero(~inside)
        W = np.flatnonzero(inside)
        products.grow(index[W])
        g, engine = base[W], None
        while True:
            part = risk.take(W)
            descent = Descent(self, part, products, monitor, self.beta[index[W]], g, engine)
            reason = descent.solve(tol, complete=len(W) == self.qp.n)
            self.beta[index[W]] = descent.beta
            if reason not in NEAR or not len(outside):
                return self._finished(part, products, descent, reason)
            values = products.at(descent.beta, index[outside])
            s = values + risk.p[outside] + risk.A[:, outside].T @ self.eta
            joins = risk.take(outside).asked(s) != 0.0
            joins &= self._violates(risk.take(outside), s, tol)
            if not joins.any():
                return self._finished(part, products, descent, reason)
            products.grow(index[outside[joins]])
            g = np.concatenate([descent.g, values[joins]])
            W, outside = np.concatenate([W, outside[joins]]), outside[~joins]
            engine = descent.preconditioner

    @staticmethod
    def _violates(risk: KernelRisk, s: np.ndarray, tol: float) -> np.ndarray:
        """Which points without a coefficient violate their conditions by more than a share of tol."""
        return (
            np.maximum(np.where(risk.upper > 0.0, -s, 0.0), np.where(risk.lower < 0.0, s, 0.0)) - risk.eps > 0.3 * tol
        )

    @staticmethod
    def _asked_for(risk: KernelRisk, s: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Points that a function asks for, or that have a coefficient, and some that are nearest to being asked for."""
        chosen = (risk.asked(s) != 0.0) | (beta != 0.0)
        rest = np.flatnonzero(~chosen)
        more = min(len(rest), int(NEARBY * chosen.sum()))
        if more:
            slack = risk.eps + np.minimum(np.where(risk.upper > 0.0, s, np.inf), np.where(risk.lower < 0.0, -s, np.inf))
            chosen[rest[np.argpartition(slack[rest], more - 1)[:more]]] = True
        return chosen

    def _finished(self, part: KernelRisk, products: KernelProducts, descent: Descent, reason: Status) -> Status:
        """The active set of a loss with corners, where that is within reach."""
        index = products.index
        if self.risk.smooth or len(index) < self.qp.n and not self.goal.max_iter < 0:
            return reason
        exact = KernelRisk.of(self.qp).take(index)
        free = (descent.beta > exact.lower) & (descent.beta < exact.upper) & ((exact.eps == 0) | (descent.beta != 0))
        if not np.array_equal(part.lower, exact.lower) or free.sum() > FINISH_UP_TO or not len(index):
            return reason
        small = QP(products.part, exact.p, exact.lower, exact.upper, exact.A, np.zeros(len(exact.A)), exact.eps)
        equality = Equality.of(small)
        beta = equality.feasible(descent.beta, exact.lower, exact.upper, exact.eps)
        g = products.times(beta)
        found = newton_finish(products, small, equality, beta, -(g + exact.p), FINISH_UP_TO)  # type: ignore[arg-type]
        if found is not None:
            self.beta[index] = found
            s = products.times(found) + exact.p
            self.eta = equality.T.T @ equality.multipliers(small, found, s - exact.p)
        return reason

    def tired(self) -> bool:
        """Whether there is no step left."""
        return self.steps >= self.most


class Descent:
    """Newton steps on a window."""

    def __init__(self, run: KernelRun, risk: KernelRisk, products: KernelProducts, monitor, beta, g, engine) -> None:
        self.run, self.risk, self.products, self.monitor = run, risk, products, monitor
        self.beta, self.g = beta.copy(), g.copy()
        self.factor = ActiveFactor(products, risk.d, monitor)
        self.preconditioner: PartialCholesky | None = engine
        if engine is not None:
            engine.grow()

    def solve(self, tol: float, complete: bool) -> Status:
        """Steps until the violation is below tol."""
        run, risk = self.run, self.risk
        least, lowest, waited = np.inf, np.inf, 0
        while True:
            s = self.g + risk.p + risk.A.T @ run.eta
            violation = self._violation(s, tol)
            value = 0.5 * float(self.beta @ self.g) + risk.value(s)
            known = value if complete and risk.d is run.risk.d else np.nan
            stop = self.monitor.step(run.steps, np.nan, violation, run.sv, self.products.gram.evals, primal=known)
            if violation <= tol:
                return Status.CONVERGED
            if stop or run.tired():
                return stop or spent(run.goal)
            progress = violation < PROGRESS * least or value < lowest - NO_PROGRESS * abs(lowest)
            waited = 0 if progress else waited + 1
            least, lowest = min(least, violation), min(lowest, value)
            if waited >= STALL:
                return Status.STALLED
            self._step(s, violation)
            run.steps += 1

    def _violation(self, s: np.ndarray, tol: float) -> float:
        """The violation at β; where that would be the end, of β moved into its box, which is what will be used."""
        risk = self.risk
        size = max(float(np.abs(self.beta).sum()), np.finfo(float).tiny)
        found = risk.violation(self.beta, s) + float(np.abs(risk.A @ self.beta).max(initial=0.0)) / size
        inside = np.clip(self.beta, risk.lower, risk.upper)
        if found > tol or np.array_equal(inside, self.beta):
            return found
        change = self.products.times(inside - self.beta)
        found = risk.violation(inside, s + change)
        if found <= tol:
            self.beta, self.g = inside, self.g + change
        return found

    def _step(self, s: np.ndarray, violation: float) -> None:
        run, risk, products = self.run, self.risk, self.products
        z = risk.asked(s)
        S = self._curved(s, z)
        run.sv = len(S)
        delta = z - self.beta
        right = self.d_of_step[S] * delta[S]
        delta[S] = 0.0
        fixed = products.times(delta) if delta.any() else np.zeros(products.n)
        lack = -(risk.A @ (self.beta + delta))
        right -= fixed[S]
        if len(S) <= run.options.direct:
            factor = self.factor if self.d_of_step is risk.d else ActiveFactor(products, self.d_of_step, self.monitor)
            delta[S], move = factor.solve(S, right, risk.A[:, S].T, lack)
        else:
            if self.preconditioner is None:
                self.preconditioner = PartialCholesky(products, CG_RANK, run.options.seed)
            inverse = self.preconditioner.on(S, self.d_of_step[S], products.gram.threads)
            delta[S], move = projected_cg(
                products, S, self.d_of_step[S], right, risk.A[:, S].T, lack, inverse, FORCING * violation, self.monitor
            )
        dg = products.times(delta)
        ds = dg + risk.A.T @ move
        look = risk.along(float(self.beta @ dg), float(delta @ dg), s, ds)
        length = minimum_along(look, abs(look(0.0)[0]))
        self.beta += length * delta
        self.g += length * dg
        run.eta = run.eta + length * move

    def _curved(self, s: np.ndarray, z: np.ndarray) -> np.ndarray:
        """S; where it does not see all of η, that of wider parabolas, which makes a step like any other."""
        risk = self.risk
        self.d_of_step = risk.d
        S = np.flatnonzero(risk.curved(s, z))
        k, width = len(risk.A), risk.width()
        for _ in range(40):
            if k == 0 or np.linalg.matrix_rank(risk.A[:, S]) == np.linalg.matrix_rank(risk.A) or not width.any():
                break
            wider = risk.rounded(np.maximum(8.0 * self.d_of_step, 1e-3 * self.run.size * width))
            self.d_of_step = wider.d
            S = np.flatnonzero(wider.curved(s))
        return S
