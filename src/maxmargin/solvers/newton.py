"""Newton's method in the primal: kernel machines (PRIMAL §4) and linear ones (§2, §5.1; Keerthi & DeCoste 2005).

With a kernel it works on β, for any loss: parts/kernel_newton.py, which is Algorithm 1. Where a kernel has features, it
works on their weights, for a smooth loss, which is what follows:

    min over w, η   ½‖w‖² + Σ C_i ℓ(a_i),    a_i = y_i f_i or f_i − y_i,    f = Zw + φᵀη

η, the bias and the coefficients of parametric functions, is not penalised. With β_i = −C_i ∂ℓ/∂f_i,

    gradient  [ w − Zᵀβ ; −φβ ]        Hessian  [ I 0; 0 0 ] + Ẑᵀ diag(θ) Ẑ,   Ẑ = [Z, φᵀ],  θ_i = C_i ℓ''(a_i)

θ is 0 but for the rows in the curved part of the loss ("sv"), and for a squared or Huber loss it has two values
only, so that the objective is quadratic as long as no row enters or leaves that set: some steps, and it is exact.

    repeat
        β, the gap between the primal of (w, η) and the dual of β      => stop if it is small
        direction: Cholesky of the Hessian, or conjugate gradients with products only
        the minimum along it, from f and Ẑ times the direction (one pass)
        w, η, f <- moved

**Hessian.** Up to some hundred features it is a matrix, to which only rows are added (or from which rows are taken)
whose θ has changed since the step before. Above, conjugate gradients, preconditioned by its diagonal, see it through
products: one pass each over the rows with θ > 0.

**Start.** Where the Hessian is a matrix, large problems start from a sample with C as much larger (PRIMAL's doubling):
its w is nearly that of the whole, and the first steps, which change most, cost next to nothing. Where it is not, they
start from some sweeps of coordinate descent on the dual (parts/row_sweeps.py), which are quick as long as little
accuracy is asked for.

| PRIMAL | here |
| --- | --- |
| C, ξ² in eq. 1.1 without the ½ | cost: the objective is half of PRIMAL's, C as LIBSVM has it |
| sv, I⁰ | rows with θ > 0 |
| Figure 1, conjugate gradients | ``trace=True``: the objective after each of their steps, in ``history.trace`` |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..goal import Goal
from ..gram import as_gram
from ..monitor import Monitor
from ..problem import ERM, QP
from ..rows import Rows
from ..solution import Solution, Status
from .base import GOAL, Answer, LinearForm, Proofs, answer, better, close, heed, linear_form, multipliers, spent
from .parts.constraints import Equality
from .parts.kernel_newton import KernelRun
from .parts.least_squares import least_squares
from .parts.limits import LESS, NEWTON_STEPS, WIDE_UP_TO, Aim, Progress
from .parts.linear_risk import FAR, SHORT, LinearRisk
from .parts.newton_systems import factor_spd
from .parts.risk_steps import steps_at_once
from .parts.row_sweeps import RowSweeps
from .parts.square_steps import affordable, square_steps
from .parts.working_sets import Sizes

__all__ = ["Newton"]

SAMPLE_GAP = 0.03  # relative gap to which a sample is solved, whose solution is only a start
SWEEPS, SWEEPS_TOL = 30, 1e-3  # of coordinate descent, and the relative gap that is enough for a start
FORCING = 0.3  # residual, relative to the gradient, that conjugate gradients may leave far from the minimum
PARAMETER_STEPS, PARAMETER_TOL = 20, 1e-6  # for η alone, and the share of its gradient that they may leave
RUNAWAY = 10.0  # times as large as the rest of f, and as a margin, are η that run away


@dataclass
class Newton:
    """Newton steps on β or w, and η, with a factor or with products only."""

    explicit: int = 1000  # features up to which the Hessian is a matrix
    direct: int = 800  # points in the curved part of a loss up to which their system is always factored, with a kernel
    growing: bool = True  # start from a sample,
    sample_from: int = 4000  # with this many rows of features, or more,
    sample_share: int = 8  # and of a sample that is this much smaller;
    smallest_sample: int = 500  # with a kernel, of this many points at least, up to twice as many (PRIMAL: 1000)
    whole_up_to: int = 2000  # points: all of them are in the window, whose matrix is made in no time
    wide_up_to: int = WIDE_UP_TO  # points whose kernel matrix is in float64
    merge_from: int = Sizes.merge  # points from which on equal ones are looked for
    cache_size: float | str = "auto"  # megabytes for kernel values
    trace: bool = False  # record the objective after each step of conjugate gradients
    seed: int = 0  # which rows the sample has

    form: ClassVar[type] = ERM
    features: ClassVar[bool] = True  # works on features where a kernel has them

    def objection(self, problem: QP | ERM | None) -> str | None:
        """Why it cannot take a problem, or None."""
        erm = problem if isinstance(problem, ERM) else getattr(problem, "primal", None)
        found = None
        if erm is None:
            found = "no loss"
        elif self._form(erm) is not None and not erm.loss.smooth:
            found = f"features and the loss {type(erm.loss).__name__}, which has corners"
        if found is None:
            return None
        return (
            f'newton was asked for; found {found}; use "sor" or "mpd", which take any, or a machine with a squared '
            "or Huber loss"
        )

    @staticmethod
    def _form(erm: ERM) -> LinearForm | None:
        """The features of a machine, where it has some that tell all."""
        form = linear_form(erm.K)
        return None if form is None or form.ridge is not None else form

    def solve(
        self, problem: QP | ERM, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from the coefficients ``start``, or their w. Iterations are Newton steps; without a limit 200."""
        heed(self.objection(problem))
        qp = problem.qp() if isinstance(problem, ERM) else problem
        erm = qp.primal
        assert erm is not None
        monitor = monitor or Monitor()
        form = self._form(erm)
        if form is None:
            machine = KernelRun(self, qp, goal, monitor, Proofs(qp, goal))
            found, reason = machine.solve(start)
            return close(qp, goal, found, reason, max(1, machine.steps), monitor, as_gram(erm.K).evals)
        run = _Run(self, erm, form.rows, form.constant, monitor)
        run.begin(start, goal.first_gap)
        aim = Aim(goal.first_gap)
        best: Answer | None = None
        for accuracy in aim.tries():
            reason = run.solve(accuracy, goal)
            found = run.answer(qp, goal)
            best = better(goal, best, found)
            if goal.met(best.certificate) or not reason.converged:
                break
            aim.finer()
        assert best is not None
        if reason.unasked and affordable(erm.n, len(run.x)) and not goal.met(best.certificate):
            best = run.squared(qp, goal, best)
        if self.trace:
            monitor.history.trace["objective"] = np.array(run.objectives)
        return close(qp, goal, best, reason, max(1, run.steps), monitor, as_gram(erm.K).evals)


class _Run:
    """One call of the solver: x = (w, η, weight of a penalised bias) and what follows from it."""

    def __init__(self, options: Newton, erm: ERM, rows: Rows, constant: float, monitor: Monitor) -> None:
        self.options, self.erm, self.rows, self.constant, self.monitor = options, erm, rows, constant, monitor
        self.risk = LinearRisk(erm, rows, constant)
        self.penalty, self.parametric = self.risk.penalty, self.risk.parametric
        self.x = np.zeros(len(self.penalty))
        self.f = np.zeros(erm.n)
        self.steps = 0
        self.length = 1.0  # of the last step
        self.theta = np.zeros(erm.n)
        self.hessian = np.diag(self.penalty) if rows.d <= options.explicit else None
        self.objectives: list[float] = []

    @cached_property
    def equality(self) -> Equality:
        """φβ = 0."""
        zero, phi = np.zeros(self.erm.n), self.erm.phi
        return Equality.of(QP(self.erm.K, zero, *self.erm.box(), phi.reshape(len(phi), self.erm.n)))

    @property
    def weights(self) -> np.ndarray:
        """w, followed by the weight of a penalised bias: what goes with the rows of the factor."""
        return self.x[self.penalty > 0]

    # -- steps ------------------------------------------------------------------------------------------------

    def begin(self, start: np.ndarray | None, tol: float) -> None:
        """Go to where the coefficients ``start``, or a sample of the rows, send us."""
        self.tol = tol
        if start is not None and np.any(start):
            self._move_to(self.penalty * self.risk.pushed(start))
            self._fit_parameters()
        elif self.options.growing and self.erm.n >= self.options.sample_from:
            self._move_to(self._of_sweeps() if self.hessian is None else self._of_sample())

    def answer(self, qp: QP, goal: Goal) -> Answer:
        """β with its proof; its w is its own where coefficients will be used, else the one that steps have found."""
        return self._answer(qp, goal, self.feasible())

    def _answer(self, qp: QP, goal: Goal, beta: np.ndarray) -> Answer:
        beta, eta = qp.settled(beta), self.x[self.parametric].copy()
        if goal.exact:
            return answer(qp, goal, beta, [eta])
        w = self.weights
        kernel = self.f - self.risk.extra[:, : len(eta)] @ eta
        curved = bool(((beta > qp.lower) & (beta < qp.upper)).any())
        if not curved or np.abs(self.f - kernel).max(initial=0.0) > RUNAWAY * max(1.0, float(np.abs(kernel).max())):
            # No row with a curvature sees η, which went where a flat direction led it: half way is as good, or better.
            middle = next(multipliers(qp, beta, kernel + qp.ridge * beta))
            found = Answer(beta, middle, qp.certificate(beta, middle, w), w)
            if goal.met(found.certificate):
                return found
        return Answer(beta, eta, qp.certificate(beta, eta, w), w)

    def solve(self, tol: float, goal: Goal) -> Status:
        """Newton steps until the relative gap is below tol."""
        erm, self.tol = self.erm, tol
        most, progress = goal.max_iter if goal.max_iter > 0 else NEWTON_STEPS, Progress()
        while True:
            beta = erm.asked(self.f)
            pushed = self.risk.pushed(beta)
            gradient = self.penalty * self.x - pushed
            primal = self.risk.value(self.x, self.f)
            gap = self._gap(primal, beta, pushed)
            stop = self._record(primal)
            if gap <= tol and (self.x.any() or not gradient.any()):  # features may be so small that no model will do
                return Status.CONVERGED
            if stop or self.steps >= most:
                return stop or spent(goal)
            if progress.stalled(primal):
                return Status.STALLED
            left = most - self.steps if self.monitor.callback is None else 1
            state = self.x, self.f, self.theta, self.hessian, self.length
            made, self.length = steps_at_once(self.risk, *state, tol, left)
            if not made:
                direction = self._direction(gradient, gap)
                self.length, made = self._step(direction, self.risk.values(direction)), 1
            self.steps += made

    def squared(self, qp: QP, goal: Goal, best: Answer) -> Answer:
        """The best answer after steps by least squares, which start from here."""
        last = np.inf
        for point in square_steps(self.risk, self.x, self.f):
            self.x, self.f, self.steps = point.x, point.f, self.steps + 1
            if point.beta is not None:
                found = self._answer(qp, goal, self._held(point.beta))
                if not found.certificate.gap < LESS * last:
                    break  # rounding is all that is left
                best, last = better(goal, best, found), found.certificate.gap
            if goal.met(best.certificate) or self._record(self.risk.value(self.x, self.f)):
                break
        return best

    def _record(self, primal: float) -> Status | None:
        return self.monitor.step(self.steps, active=int(np.count_nonzero(self.theta)), primal=primal)

    def _move_to(self, x: np.ndarray) -> None:
        self.x, self.f = x, self.risk.values(x)

    def feasible(self) -> np.ndarray:
        """The β that the losses ask for, moved onto φβ = 0."""
        return self._held(self.erm.asked(self.f))

    def _held(self, beta: np.ndarray) -> np.ndarray:
        return self.equality.feasible(beta, *self.erm.box(), np.zeros(self.erm.n))

    def _gap(self, primal: float, beta: np.ndarray, pushed: np.ndarray) -> float:
        """The relative gap of (w, η) and β; φβ = 0 is restored only where that could end the search."""

        def relative(beta: np.ndarray, pushed: np.ndarray) -> float:
            dual = self.erm.dual(beta, 0.5 * float((self.penalty * pushed) @ pushed))
            return (primal - dual) / max(abs(primal), abs(dual), np.finfo(float).tiny)

        gap = relative(beta, pushed)
        if gap > self.tol or not len(self.erm.phi) or self.erm.K is None:
            return gap
        held = self._held(beta)
        return relative(held, pushed + self.risk.pushed(held - beta))

    def _fit_parameters(self) -> None:
        """The η that suit w: Newton steps on them alone, which need no pass over the rows."""
        columns = self.risk.extra[:, : len(self.erm.phi)]
        first = 0.0
        for _ in range(PARAMETER_STEPS if columns.shape[1] else 0):
            gradient = -(self.erm.asked(self.f) @ columns)
            first = max(first, float(np.abs(gradient).max()))
            if np.abs(gradient).max() < PARAMETER_TOL * first:
                break
            H = (columns * self.risk.curvature(self.f, far=True)[:, None]).T @ columns
            direction = np.zeros_like(self.x)
            direction[self.parametric] = -least_squares(H, gradient)
            self._step(direction, columns @ direction[self.parametric])

    def _step(self, direction: np.ndarray, along: np.ndarray) -> float:
        """Go to the minimum along a direction; how far that was."""
        length = self.risk.length(self.x, self.f, direction, along)
        self.x += length * direction
        self.f += length * along
        return length

    def _of_sample(self) -> np.ndarray:
        """The x of a sample of the rows with as much more cost."""
        erm = self.erm
        index = np.random.default_rng(self.options.seed).permutation(erm.n)[: erm.n // self.options.sample_share]
        index.sort()
        cost = erm.cost[index] * (erm.cost.sum() / erm.cost[index].sum())
        small = ERM(None, erm.y[index], cost, erm.loss, erm.phi[:, index] if len(erm.phi) else erm.phi)
        options = replace(self.options, growing=False, trace=False)
        run = _Sample(options, small, self.rows.take(index), self.constant, self.monitor)
        run.solve(max(SAMPLE_GAP, self.tol), Goal())
        return run.x

    def _of_sweeps(self) -> np.ndarray:
        """The x after some sweeps of coordinate descent on the dual."""
        erm = self.erm
        qp = erm.qp()
        watch = self.monitor.part("")
        watch.callback, watch.verbose = None, False
        run = RowSweeps(qp, self.rows, qp.ridge, self.constant, 1.0, self.options.seed, watch)
        run.solve(None, max(SWEEPS_TOL, self.tol), Goal(max_iter=SWEEPS), True, np.inf, np.inf)
        return np.concatenate([run.w, run.multipliers, run.v[len(erm.phi) :]])

    # -- directions -------------------------------------------------------------------------------------------

    def _direction(self, gradient: np.ndarray, gap: float) -> np.ndarray:
        """Where Newton's step goes, or about where."""
        theta, before = self.risk.curvature(self.f, gap > FAR or self.length < SHORT), self.theta
        self.theta = theta
        if self.hessian is None:
            forcing = min(FORCING, np.sqrt(max(gap, 0.0)))
            return self.risk.newton_step(theta, gradient, forcing, self._looked_at)
        for sign in (1.0, -1.0):
            part = np.maximum(sign * (theta - before), 0.0)
            if part.any():
                self.hessian += sign * self.risk.added(part)
        try:
            factor = cho_factor(self._damped(), check_finite=False)
        except LinAlgError:  # rows that came and went have left rounding larger than the penalty
            self.hessian = self.risk.hessian(theta)
            factor = factor_spd(self._damped(), self.rows.threads)
        return -cho_solve(factor, gradient, check_finite=False)

    def _damped(self) -> np.ndarray:
        """The Hessian, invertible even where no row with θ > 0 sees η."""
        assert self.hessian is not None
        damped = self.hessian.copy()
        damped[np.diag_indices_from(damped)] += self.risk.held
        return damped

    def _looked_at(self, x: np.ndarray) -> bool:
        """Whether conjugate gradients should stop; what they have found so far is recorded if that is asked for."""
        if self.options.trace:
            y = self.x + x
            self.objectives.append(self.risk.value(y, self.risk.values(y)))
        return self.monitor.stop_now() is not None


class _Sample(_Run):
    """A run that nobody watches, but that may be stopped."""

    def _record(self, primal: float) -> Status | None:
        return self.monitor.stop_now()
