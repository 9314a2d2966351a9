"""Preconditioned conjugate gradients in the primal: kernel machines with a smooth loss, by products (PRIMAL §6.1).

    min over β, η   ½ βᵀKβ + Σ L_i(s_i),    s = Kβ + p + Aᵀη                              (parts/kernel_risk.py)

    ∇ = β − asked(s)            the gradient, divided by K: that of the function f, as coefficients
    repeat                                                                                            (Algorithm 2)
        K∇: one product; the dual value of asked(s), and with it the gap       => stop if that is small
        direction <- −∇ + share · direction,   share = max(0, (∇ − ∇ before)·K∇) / (∇·K∇ before)
        β, η <- the minimum along the direction, η free
    until the violation is small, or until Newton's steps would take fewer products

"Preconditioned by K" (PRIMAL) means gradients of f in place of those of β: the steps are those of conjugate gradients
on w. The share is Polak and Ribière's; Fletcher and Reeves' is the same where no point changes sides, and takes some
percent more steps where they do. ``preconditioner="partial-cholesky"`` goes further: on the span of some hundred points
steps are Newton's (``Metric`` in parts/partial_cholesky.py), which takes the large eigenvalues out of play and costs no
product. That takes half the steps where many points lack much, and more of them where most lie next to the margin
(docs/primal.md has the table). ``"none"`` takes gradients of β, for comparison.

η is at its minimum after each step: the search is for a length and η at once, and asked(s) then holds Aβ = 0, so that
it is a point of the dual: each step has a lower bound, and at the end asked(s) is what is certified. Far from the end,
where β itself is the better model, that is.

**Crawling.** Steps grow in number like √(C λ), the root of the condition of 1 + 2C K, and sets that change undo what
was conjugate: from C of some hundred on it may be thousands, whatever the preconditioner. Gaps tell how many are left;
where those are more than what Newton's steps need at most, with the same products (kernel_descent.py), these go on.

K is kept while it fits ``cache_size``; a kernel that has products of its own is never formed. The steps taken are a
regularisation of their own: ``max_iter`` or a callback stop early, with a model and its gap.

| PRIMAL | here |
| --- | --- |
| ∇ = 2λβ + I⁰(Kβ − Y) | ∇ = β − asked(s), C = 1/(2λ) |
| sv: o_i y_i < 1 after o = Kβ − Y (a slip for y_i (Kβ)_i < 1) | where the losses are curved |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ..goal import Goal
from ..gram import as_gram, cache_bytes
from ..monitor import Monitor, Stopped
from ..problem import ERM, QP
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, better, close, heed, spent
from .parts.constraints import Equality
from .parts.equal_points import EqualPoints
from .parts.kernel_descent import Descent, closing_seconds
from .parts.kernel_products import KernelProducts
from .parts.kernel_risk import KernelRisk
from .parts.limits import EACH_SIDE, NEAR, PASSES, WIDE_BELOW, WIDE_UP_TO, Aim, Progress
from .parts.partial_cholesky import Metric, PartialCholesky
from .parts.working_sets import Sizes

__all__ = ["PCG"]

ANEW = 0.1  # of the curved points have changed: the preconditioner is made anew
STEPS_LEFT = 10  # are what is left to do then, each at most as dear as a factor
STALL = 20  # steps without progress before rounding is blamed
PRECONDITIONERS = ("kernel", "partial-cholesky", "none")


@dataclass
class PCG:
    """Conjugate gradients on a function, by one product with the kernel matrix a step."""

    preconditioner: str = "kernel"  # gradients of f, as Algorithm 2 has it; or "partial-cholesky", or "none"
    rank: int = 500  # columns of the partial Cholesky factor, at most
    cache_size: float | str = "auto"  # megabytes for kernel values
    newton_after: int = 200  # steps, then Newton's on the same products if these take less; −1: never (Algorithm 2)
    direct: int = 800  # points in the curved part of a loss up to which Newton's steps factor their system
    trace: bool = False  # record β and η before each step, the models of early stops, in ``history.trace``
    seed: int = 0  # which points the preconditioner draws
    merge_from: int = Sizes.merge  # points from which on equal ones are looked for

    form: ClassVar[type] = ERM

    def __post_init__(self) -> None:
        if self.preconditioner not in PRECONDITIONERS:
            raise ValueError(
                f"preconditioner={self.preconditioner!r} was asked for; found {', '.join(PRECONDITIONERS)}; choose one"
            )

    def objection(self, problem: QP | ERM | None) -> str | None:
        """Why it cannot take a problem, or None."""
        erm = problem if isinstance(problem, ERM) else getattr(problem, "primal", None)
        if erm is not None and erm.loss.smooth:
            return None
        found = "no loss" if erm is None else f"the loss {type(erm.loss).__name__}, which has corners"
        return (
            f'pcg was asked for; found {found}; use "newton" or "decomposition", which take others, or a machine with '
            "a squared or Huber loss"
        )

    def solve(
        self, problem: QP | ERM, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from the coefficients ``start``. Iterations are steps, each with a product; without a limit 2000."""
        heed(self.objection(problem))
        qp = problem.qp() if isinstance(problem, ERM) else problem
        run = _Run(self, qp, goal, monitor or Monitor())
        found, reason = run.solve(start)
        if self.trace:
            run.monitor.history.trace.update(beta=np.array(run.betas), eta=np.array(run.etas))
        assert qp.primal is not None
        return close(qp, goal, found, reason, max(1, run.steps), run.monitor, as_gram(qp.primal.K).evals)


class _Run:
    """One call of the solver: β, g = Kβ, η, and the direction d with Kd."""

    def __init__(self, options: PCG, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options, self.whole, self.goal, self.monitor = options, qp, goal, monitor
        assert qp.primal is not None
        self.equal = EqualPoints.found(qp.primal, options.merge_from)
        erm = qp.primal if self.equal is None else self.equal.erm
        self.qp = qp if self.equal is None else erm.qp()
        self.risk = KernelRisk.of(self.qp)
        self.gram = as_gram(erm.K)
        if goal.first_violation < WIDE_BELOW or self.qp.n <= WIDE_UP_TO:
            self.gram = self.gram.wide()
        self.size = float(np.abs(self.risk.p).mean()) or 1.0
        n, k = self.qp.n, len(self.risk.A)
        self.beta, self.g, self.eta = np.zeros(n), np.zeros(n), np.zeros(k)
        self.asked = np.zeros(n)  # what the losses ask for at the last look, which is what is certified,
        self.K_asked: np.ndarray | None = None  # and K times that, unless we were stopped before it was known
        self.products: KernelProducts | None = None
        self.base: PartialCholesky | None = None
        self.metric: Metric | None = None
        self.curved = np.zeros(n, bool)  # for which the metric was made
        self.steps = self.sv = 0
        self.most = goal.max_iter if goal.max_iter > 0 else PASSES
        self.direct, self.seed, self.spent = options.direct, options.seed, spent(goal)
        self.descent: Descent | None = None
        self.gaps: list[float] = []  # relative, proven before each step, 1 where nothing is
        self.betas: list[np.ndarray] = []
        self.etas: list[np.ndarray] = []

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The answer that proves most, and why we stopped."""
        aim, best = Aim(self.goal.first_violation), None
        reason = self._begin(start)
        for accuracy in aim.tries():
            if reason.converged:
                reason = self._descend(EACH_SIDE * accuracy)
            found = self._look(self.asked if reason.converged else self._nearer())
            best = better(self.goal, best, found)
            if self.goal.met(best.certificate) or reason not in NEAR:
                break
            if self.gram.dtype != np.float64:
                self.gram = self.gram.wide()
            elif reason.converged:
                aim.finer()
            reason = self._begin(found.beta)  # what was added up step by step has lost digits
        assert best is not None
        return best, reason

    def _nearer(self) -> np.ndarray:
        """β, or what the losses ask for: whichever has the smaller gap.

        The latter proves more and holds its box, but may be a poor function: where losses bend at once, a little less
        of f asks for much more of β. Both products with K are there already.
        """
        if self.K_asked is None or self._gap(self.beta, self.g) < self._gap(self.asked, self.K_asked):
            return self.beta
        return self.asked

    def _gap(self, beta: np.ndarray, K_beta: np.ndarray) -> float:
        """Primal − dual value, as if a β beside its box were in it."""
        risk, z = self.risk, np.clip(beta, self.risk.lower, self.risk.upper)
        penalty = 0.5 * float(beta @ K_beta)
        dual = penalty + 0.5 * float((risk.d * z) @ z) + float(risk.p @ z + risk.eps @ np.abs(z))
        return penalty + risk.value(K_beta + risk.p + risk.A.T @ self.eta) + dual

    def _begin(self, start: np.ndarray | None) -> Status:
        """K, and the values of a start."""
        try:
            if self.products is None or self.products.gram is not self.gram:
                self.products = KernelProducts(self.gram, cache_bytes(self.options.cache_size), self.monitor)
                self.products.grow(np.arange(self.qp.n))
                self.base = None
            self.metric = None
            if start is not None and np.any(start):
                beta = np.asarray(start, np.float64)
                self.beta = self.asked = beta if self.equal is None else self.equal.gather(beta)
                self.g = self.K_asked = self.products.times(self.beta)
        except Stopped as stopped:
            return stopped.reason
        return Status.CONVERGED

    def model(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all points, and η."""
        return beta if self.equal is None else self.equal.scatter(beta), self.eta.copy()

    def _look(self, beta: np.ndarray) -> Answer:
        """The whole problem's answer at a β, held to its box and to Aβ = 0."""
        whole, beta = self.whole, beta if self.equal is None else self.equal.scatter(beta)
        held = Equality.of(whole).feasible(beta, whole.lower, whole.upper, whole.eps)
        return answer(whole, self.goal, held, [self.eta.copy()])

    def _descend(self, tol: float) -> Status:
        """Steps until the violation of what the losses ask for is below tol."""
        try:
            reason = self._conjugate_steps(tol)
            return self._newton_steps(tol) if reason is None else reason
        except Stopped as stopped:
            return stopped.reason

    def _newton_steps(self, tol: float) -> Status:
        """Newton's steps on all points, whose systems are solved by products."""
        assert self.products is not None
        if self.descent is None or self.descent.products is not self.products:
            self.descent = Descent(self, self.products)
        self.descent.beta, self.descent.g = self.beta, self.g
        try:
            return self.descent.solve(self.risk, tol, self.monitor, complete=True, careful=True)
        finally:
            self.beta, self.g = self.descent.beta, self.descent.g
            self.asked, self.K_asked = self.beta, self.g

    def _conjugate_steps(self, tol: float) -> Status | None:
        """Algorithm 2: why it stopped, or None where Newton's steps are to go on."""
        risk, products, A = self.risk, self.products, self.risk.A
        assert products is not None
        alone = self.options.newton_after < 0
        self.eta = self.eta + risk.lowest(
            self.g + risk.p + A.T @ self.eta, A.T, np.zeros(len(A)), np.zeros(len(A)), self.size
        )
        direction, along, last, before = np.zeros(risk.n), np.zeros(risk.n), np.zeros(risk.n), np.inf
        progress = Progress(STALL)
        while True:
            s = self.g + risk.p + A.T @ self.eta
            self.asked, self.K_asked = risk.asked(s), None
            curved = risk.curved(s, self.asked)
            gradient = self.beta - self.asked
            K_gradient = products.times(gradient)
            self.K_asked = self.g - K_gradient
            violation = risk.violation(self.asked, s - K_gradient) + self._lack()
            value = 0.5 * float(self.beta @ self.g) + risk.value(s)
            stop = self._record(value, self.K_asked, violation, int(curved.sum()))
            if violation <= tol:
                return Status.CONVERGED
            if stop or self.steps >= self.most:
                return stop or self.spent
            if not alone and self.steps >= self.options.newton_after and self._crawls(int(curved.sum())):
                return None
            h, K_h, fresh = self._changed(gradient, K_gradient, curved)
            rho = float(gradient @ K_h)
            if progress.stalled(value, rho) or not rho > 0.0:
                return Status.STALLED if alone else None
            share = 0.0 if fresh or progress.waited > 1 else max(0.0, rho - float(last @ K_h)) / before
            direction, along, before, last = share * direction - h, share * along - K_h, rho, gradient
            if not float(along @ gradient) < 0.0:  # sets have changed too much: begin anew
                direction, along = -h, -K_h
            self._to_minimum(s, direction, along)

    def _crawls(self, curved: int) -> bool:
        """Whether Newton's steps would take fewer products than these, which go on as they did in their latter half."""
        now, before = self.gaps[-1], self.gaps[len(self.gaps) // 2]
        goal = max(self.goal.first_gap, np.finfo(float).eps)
        if now <= goal:
            return False
        rate = np.log(before / now) / max(1, len(self.gaps) // 2)
        assert self.products is not None
        return bool(np.log(now / goal) > rate * STEPS_LEFT * self.products.a_factor(curved))

    def _lack(self) -> float:
        """What Aβ = 0 lacks at what the losses ask for, as a share of its terms: η is not at its best yet."""
        size = max(float(np.abs(self.asked).sum()), np.finfo(float).tiny)
        return float(np.abs(self.risk.A @ self.asked).max(initial=0.0)) / size

    def _record(self, value: float, K_asked: np.ndarray, violation: float, active: int) -> Status | None:
        """Tell the monitor what is proven: asked holds Aβ = 0."""
        risk, z = self.risk, self.asked
        dual = 0.5 * float(z @ K_asked) + float(risk.p @ z + risk.eps @ np.abs(z))
        dual += 0.5 * float((risk.d * z) @ z)
        if self.options.trace:
            beta, eta = self.model(self.beta)
            self.betas.append(beta)
            self.etas.append(eta)
        model = partial(self.model, self.beta)
        self.monitor.reserve(partial(closing_seconds, self), self.beta)
        stop = self.monitor.step(self.steps, dual, violation, active, self.gram.evals, primal=value, model=model)
        low, high = -self.monitor.bounds[0], self.monitor.bounds[1]
        tiny = float(np.finfo(float).tiny)
        self.gaps.append(min(1.0, max((high - low) / max(abs(high), tiny), tiny)) if np.isfinite(high - low) else 1.0)
        return stop

    def _to_minimum(self, s: np.ndarray, direction: np.ndarray, along: np.ndarray) -> None:
        """Go to the minimum along a direction and over η."""
        A = self.risk.A
        columns = np.column_stack([along, A.T]) if len(A) else along[:, None]
        linear, bent = np.zeros((2, columns.shape[1]))
        linear[0], bent[0] = float(self.beta @ along), float(direction @ along)
        step = self.risk.lowest(s, columns, linear, bent, self.size)
        self.beta = self.beta + step[0] * direction
        self.g = self.g + step[0] * along
        self.eta = self.eta + step[1:]
        self.steps += 1

    def _changed(
        self, gradient: np.ndarray, K_gradient: np.ndarray, curved: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """h, Kh, and whether the preconditioner is another one than before."""
        products, kind = self.products, self.options.preconditioner
        assert products is not None
        if kind == "kernel":
            return gradient, K_gradient, False
        if kind == "none":
            return K_gradient, products.times(K_gradient), False
        fresh = False
        if self.base is None:
            self.base = PartialCholesky(products, min(self.options.rank, products.n), self.options.seed)
        if self.metric is None or np.count_nonzero(curved != self.curved) > ANEW * curved.sum():
            S = np.flatnonzero(curved)
            self.metric, self.curved, fresh = self.base.metric(S, self.risk.d[S], self.gram.threads), curved, True
        return *self.metric.changed(gradient, K_gradient), fresh
