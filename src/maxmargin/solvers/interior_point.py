"""The interior method: Mehrotra's predictor–corrector for the QP (PDCO; the role that LOQO has in MPD).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  box,  Aβ = b,       H = Z Zᵀ + diag(ridge), or any H of a few thousand rows

    w = Zᵀβ                                    PDCO (3): Z is not multiplied by itself
    s = Z w + ridge β + p + Aᵀη = zl − zu      each side of each box with a barrier (parts/barrier_leaves.py)

    start inside every box                                                         (parts/barrier_starts.py)
    repeat
        θ of each row                          rows add up Ẑᵀ Θ Ẑ, factored once   (parts/newton_systems.py)
        predict   μ = 0                        how far it gets tells σ
        correct   μ = σμ, second order; once or twice more, to make the step longer (Gondzio)
        advance                                                                    (parts/barrier_rows.py)
    until the gap of (β, w, η) <= tol, then purify                                 (parts/purify.py)
    where it stalls, proximal steps for small linear problems              (parts/proximal_steps.py)

Rows that no longer matter drop out of long linear problems before they begin (parts/screening.py).

| PDCO      | here                                      |
| --------- | ----------------------------------------- |
| x, y      | β; −x = −[w, η]                           |
| A, D₂     | Ẑᵀ = [Z, Aᵀ]ᵀ, D of newton_systems.py     |
| H₂⁻¹      | θ                                         |
| r₁        | ``missing`` = Ẑᵀβ − [w, b]                |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError

from ..goal import Goal
from ..gram import as_gram
from ..gram.base import Factor
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, beginning, better, close, first_point, linear_form, spent
from .parts.barrier_point import BarrierPoint, BarrierProgress
from .parts.barrier_starts import Start, begin
from .parts.barrier_steps import BACK_OFF, GAIN, LONGER, NEAR_GAP, NOWHERE
from .parts.constraints import Equality
from .parts.fixed_sums import BIG, Groups
from .parts.limits import FINER, NEWTON_STEPS
from .parts.proximal_steps import proximal_steps
from .parts.purify import crossover, places, too_coarse
from .parts.reach import out_of_reach
from .parts.screening import REACH, screen
from .parts.system_choice import SYSTEMS, open_equations

__all__ = ["InteriorPoint", "screens"]

SCREEN_FROM, SCREEN_A_FEATURE = 2000, 10  # rows, at least and a feature: fewer are not worth two stages


@dataclass
class InteriorPoint:
    """Predictor–corrector with one factorisation an iteration."""

    system: str = "auto"  # "normal", "dense", "quasi", "lsmr-rows", "lsmr": which equations are solved (newton_systems)
    correctors: int = 2  # Gondzio's an iteration, at most, where factorising costs more than they do
    screening: bool = True  # decide most rows of a long linear problem by a solution on few of them (screening.py)
    reach: float = REACH  # times the roundness of corners: rows that are nearer to theirs are decided one by one
    purify_up_to: int = 2000  # variables inside their boxes whose equations are solved once more at the end; 0: none
    tries: int = 6  # ends that fell short of the goal before it stops, half of them hasty, or by a part of the rows

    form: ClassVar[type] = QP
    features: ClassVar[bool] = True  # works on features where a kernel has them

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            known = ", ".join(f'"{name}"' for name in SYSTEMS)
            raise ValueError(f"system={self.system!r} was asked for; found {known}; choose one")

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start`` (feasible or not). Without a limit there are at most 200 iterations."""
        monitor = monitor or Monitor()
        steps = 0
        if self.screening and screens(qp):
            factor = as_gram(qp.H).factor()
            assert factor is not None  # of the rows that are screened
            solution = self._screened(qp, goal, factor, start, monitor)
            if solution.status not in (Status.STALLED, Status.EXHAUSTED):
                return solution
            near = solution.certificate.relative_gap < NEAR_GAP
            start, steps = solution.beta if near else None, solution.n_iter
        try:
            run = _Run(self, qp, goal, monitor)
        except Stopped as stopped:  # while it formed the matrix, or because there is no time for that
            return beginning(qp, goal, start, stopped.reason, monitor)
        found, reason = run.solve(start)
        return close(qp, goal, found, reason, max(1, steps + run.iteration), monitor, as_gram(qp.H).evals)

    def _screened(self, qp: QP, goal: Goal, factor: Factor, start: np.ndarray | None, monitor: Monitor) -> Solution:
        """Solve by parts of the rows."""
        inner = replace(self, screening=False)
        equality = Equality.of(qp)

        def solve(part: QP, gap: float, start: np.ndarray) -> Solution:
            return inner.solve(part, replace(goal, gap=gap, violation=np.inf), start, monitor.inner())

        if start is not None:
            start = equality.feasible(np.asarray(start, np.float64), qp.lower, qp.upper, qp.eps)
        accuracy, steps = goal.first_gap, 0
        for _ in range((self.tries + 1) // 2):
            found = screen(qp, factor, solve, accuracy, start, monitor.inner(), self.reach)
            steps += found.steps
            beta = equality.feasible(found.beta, qp.lower, qp.upper, qp.eps)
            proven = answer(qp, goal, beta, [found.eta])
            if goal.met(proven.certificate) or not found.status.converged:
                break
            accuracy, start = FINER * accuracy, proven.beta
        return close(qp, goal, proven, found.status, steps, monitor, as_gram(qp.H).evals)


def screens(qp: QP) -> bool:
    """Whether this is a long problem, of which most rows are decided by others: β = 0 is feasible, and so every sample,
    and corners can be rounded off."""
    form = linear_form(qp.H)
    if form is None or qp.n < max(SCREEN_FROM, SCREEN_A_FEATURE * form.rows.d) or qp.b.any():
        return False
    around = bool((qp.lower <= 0).all() and (qp.upper >= 0).all())
    curved = np.isfinite(qp.upper - qp.lower) | (False if form.ridge is None else form.ridge > 0.0)
    return around and bool(np.all(curved))


class _Run:
    """One call of the solver."""

    def __init__(self, options: InteriorPoint, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options, self.qp, self.goal, self.monitor = options, qp, goal, monitor
        self.equality = Equality.of(qp)
        self.gram = as_gram(qp.H)
        self.iteration = 0
        self.most = goal.max_iter if goal.max_iter > 0 else NEWTON_STEPS
        equations = open_equations(options.system, qp, self.gram, goal.exact, monitor)
        self.system = equations.system
        self.point = BarrierPoint(qp, equations, monitor.look)

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The best point found and why we stopped; where a start leads nowhere, from others."""
        found, status = self._follow(start, centred=start is not None)
        for centred, wide in [(False, True), (True, False)] if self.point.can_center else []:
            arrived = found.certificate.relative_gap <= self.goal.first_gap  # other ways end there, too
            late = status is not Status.STALLED or self.iteration >= self.most
            if late or arrived or out_of_reach(self.qp, self.goal, found.beta, found.certificate):
                break
            other, status = self._follow(None, centred, wide)
            found = better(self.goal, found, other)
        return self._squared(found) if status is Status.STALLED else found, status

    def _squared(self, found: Answer) -> Answer:
        """The best answer after proximal steps, where features are at hand and they cost next to nothing."""
        qp, goal, stop = self.qp, self.goal, self.monitor.stop_now
        form = linear_form(qp.H) if self.options.purify_up_to else None
        for point in proximal_steps(qp, form.rows, form.constant, found.beta, found.eta, stop) if form else ():
            w, eta = np.split(point.x, [len(point.x) - len(qp.A)])
            other = answer(qp, goal, self.equality.feasible(point.beta, qp.lower, qp.upper, qp.eps), [eta])
            own = other if goal.exact else Answer(other.beta, eta, qp.certificate(other.beta, eta, w), w)
            found = better(goal, found, better(goal, other, own))
            if goal.met(found.certificate) or stop():
                break
        return found

    def _follow(self, start: np.ndarray | None, centred: bool, wide: bool = False) -> tuple[Answer, Status]:
        """The iterations from one start."""
        try:
            best = self._start(start, centred, wide)
        except Stopped as stopped:
            return answer(self.qp, self.goal, first_point(self.qp, start)), stopped.reason
        progress, target, tries = BarrierProgress(), self.goal.first_gap, 0
        self.length = 1.0 / BIG
        solved = best is not None and self.goal.met(best.certificate)
        overtime, tired, stalled, passed = None, False, False, None
        while not (solved or overtime or tired or stalled):
            relative, overtime = self._record()
            progress.note(relative, self.point, self.length)
            if relative <= target:
                best = self._end(best, hasty=not self.goal.exact and tries < (self.options.tries + 1) // 2)
                solved = self.goal.met(best.certificate)
                tries, target = tries + 1, FINER * relative
            elif relative < 1.0 and not (progress.fell or overtime):
                # Where rounding takes over, the points to come may be far worse.
                passed = better(self.goal, passed, self._inside())
            tired = self.iteration >= self.most
            if not (solved or overtime or tired):
                try:
                    stalled = progress.stalled or tries >= self.options.tries or not self._steps(target)
                except Stopped as stopped:
                    overtime = stopped.reason
        if best is not None and solved:
            return best, Status.CONVERGED
        best = best if passed is None else better(self.goal, best, passed)
        if overtime:
            return self._in_time(best, relative, start), overtime
        if tired:
            return better(self.goal, best, self._inside()), spent(self.goal)
        return better(self.goal, best, self._purified()), self._failure()

    # -- an iteration ----------------------------------------------------------------------------------

    def _start(self, start: np.ndarray | None, centred: bool, wide: bool) -> Answer | None:
        """Put all rows inside their boxes; the start itself, if there was one, with its proof."""
        qp = self.qp
        zero = np.zeros(qp.n) if start is None else np.asarray(start, np.float64)
        first, known = Start(self.equality.feasible(zero, qp.lower, qp.upper, qp.eps), np.zeros(len(qp.A))), None
        if start is not None:
            known = answer(qp, self.goal, first.beta)
            first = Start(first.beta, known.eta, known.certificate.gap, True)
        begin(self.point, first, self.gram.diag(), centred, wide, self.monitor.stop_now)
        return known

    def _record(self) -> tuple[float, Status | None]:
        """The relative gap, and a reason to stop."""
        gap, dual = self.point.gap()
        relative = gap / max(abs(dual), abs(dual + gap), np.finfo(float).tiny)
        # β does not hold the constraints yet, so that its objective bounds nothing; w and η are always feasible.
        stop = self.monitor.step(self.iteration, active=self.qp.n, kernel_evals=self.gram.evals, primal=dual + gap)
        return relative, stop

    def _steps(self, target: float) -> bool:
        """Iterations as far as nobody has to look at them, or one; whether they got anywhere."""
        most = self.most - self.iteration if self.monitor.callback is None else 1
        made, length = self.point.steps_at_once(self.options.correctors, target, most)
        if made == 0:
            return self._step()
        if made < 0:
            return False
        self.iteration += made
        self.length = max(length, 1.0 / BIG)
        return True

    def _step(self) -> bool:
        """One iteration; whether it got anywhere."""
        self.iteration += 1
        point, crew = self.point, self.point.crew
        crew.ask("weigh")
        try:
            affine, point.pulled = self.system.prepare(crew).T
        except LinAlgError:
            return False
        missing = point.missing()
        m, pull = self._predict(self.system.solve(missing + affine))
        x = self.system.solve(missing + pull[:, 0] + m * pull[:, 1])
        x, longest = self._lengthen(x, _longest(crew.ask("correct", x, m)), m, missing)
        length = min(1.0, BACK_OFF * longest)
        if not (np.isfinite(x).all() and length > NOWHERE):
            return False
        crew.ask("advance", m, length)
        point.moved(length, x, missing)
        self.length = max(length, 1.0 / BIG)
        return True

    def _predict(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """σμ by Mehrotra's rule from how far the affine step gets, and Ẑᵀ of what the corrector needs."""
        point = self.point
        rates, curves, pulls = zip(*point.crew.ask("predict", x), strict=True)
        length, mu = _longest(rates), point.mu
        products = (1.0 - length) * point.products + length * length * sum(curves)
        reached = max(0.0, products) / max(1, point.sides)
        return mu * min(1.0, reached / mu) ** 3 if mu > 0.0 else 0.0, np.sum(pulls, axis=0)

    def _lengthen(self, x: np.ndarray, longest: float, m: float, missing: np.ndarray) -> tuple[np.ndarray, float]:
        """Gondzio's correctors as long as they make the step longer: the step and its length."""
        crew = self.point.crew
        for _ in range(self.options.correctors):
            if not NOWHERE < longest <= 1.0:  # slacks that differ by so much have products which are no numbers
                break
            trial = self.system.solve(missing + crew.sum("aim", m, min(1.0, longest + LONGER)))
            further = _longest(crew.ask("retry", trial, m))
            if not further > longest + GAIN * (1 - longest):
                break
            crew.ask("accept")
            x, longest = trial, further
        return x, longest

    # -- how to end ------------------------------------------------------------------------------------

    def _end(self, best: Answer | None, hasty: bool) -> Answer:
        """The present point, purified unless that can wait, if it is better."""
        found = self._inside() if hasty else self._purified()
        self.monitor.bound(found.certificate)
        return better(self.goal, best, found)

    def _in_time(self, best: Answer | None, relative: float, start: np.ndarray | None) -> Answer:
        """What a stop leaves: one product with all rows at most, and none for a point that is worse than none."""
        if relative < 1.0:
            return better(self.goal, best, self._inside())
        return best or answer(self.qp, self.goal, first_point(self.qp, start))

    def _failure(self) -> Status:
        """Why there is no progress."""
        endless = np.isinf(self.qp.lower).any() or np.isinf(self.qp.upper).any()
        return Status.UNBOUNDED if endless and not self.system.convex else Status.STALLED

    def _inside(self) -> Answer:
        """The present point, feasible."""
        qp, beta = self.qp, self.point.crew.collect("beta")
        beta = self.equality.feasible(np.clip(beta, qp.lower, qp.upper), qp.lower, qp.upper, qp.eps)
        return self._proven(beta, self.point.eta.copy())

    def _purified(self) -> Answer:
        """The present point moved to the boundary where complementarity says so, or as it is if that proves more."""
        qp, point, stop = self.qp, self.point, self.monitor.stop_now
        interior = point.crew.collect("beta")
        place = places(qp, point.crew, interior)
        most, eta = self.options.purify_up_to, point.eta.copy()
        pure = crossover(self.gram, qp, interior, eta, place, most, self._proven, stop)
        if pure is not None and (self.goal.met(pure.certificate) or stop()):
            return pure
        return better(self.goal, pure, self._inside())

    def _proven(self, beta: np.ndarray, eta: np.ndarray) -> Answer:
        """β with its proof; where Zᵀβ is too coarse to prove what is asked, with that of the weights w.

        Zᵀβ is known to u Σ|β_i|‖z_i‖ only, which may be far more than w where features or boxes are large; Z times that
        error would then be all that Hβ says. In the gap of (β, w, η) it enters as a square, not times Z. Who asks for
        coefficients gets weights that are theirs, unless they are as coarse as that; who does not gets w first, whose
        gap is the one that the iterations have seen.
        """
        own = None if self.system.given or self.goal.exact else self._of_weights(self.qp.settled(beta))
        if own is not None and self.goal.met(own.certificate):
            return own
        found = answer(self.qp, self.goal, beta, [eta])
        if self.system.given or self.goal.met(found.certificate):
            return found
        if own is None and not too_coarse(self.gram, self.qp, found.beta):
            return found
        return better(self.goal, found, own or self._of_weights(found.beta))

    def _of_weights(self, beta: np.ndarray) -> Answer:
        """The present w with β as its bound, and the best multipliers of w; the present ones where none are known."""
        qp, w, eta = self.qp, self.point.w.copy(), self.point.eta.copy()
        groups = Groups.found(qp)
        if groups is not None and groups.can_balance(qp):
            eta = groups.balanced(qp, beta, qp.H.along(w))
        return Answer(beta, eta, qp.certificate(beta, eta, w), w)


def _longest(rates: Iterable[float]) -> float:
    """The longest step of all rows, from the largest rates at which something of theirs vanishes."""
    return 1.0 / max(*rates, 1.0 / BIG)
