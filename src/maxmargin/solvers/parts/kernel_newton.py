"""Newton's method for kernel machines: PRIMAL's Algorithm 1 for any loss that is made of lines and parabolas.

    for samples of the points, each twice as large, the last of them the whole                          (the doubling)
        W <- points that the function so far asks for, some more that are nearest to it, and those that were in W
        Newton steps on W, with K_WW at hand (kernel_descent.py)
    repeat
        values elsewhere; points that are asked for join W
        Newton steps on W
    until none is, and the certificate proves what was asked

A sample has as much more cost as it is smaller, so that its function is that of the whole and tells which points the
next one needs. K is computed for W alone.

**Corners.** A loss without a curvature is rounded off, less and less: h → 0 of PRIMAL §4.2. Where the sets have
settled, the active set of the problem itself ends it (newton_finish.py). Narrow parabolas start from wide ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol, cast

import numpy as np

from ...goal import Goal
from ...gram import Gram, as_gram, cache_bytes
from ...monitor import Monitor, Stopped
from ...problem import QP
from ...solution import Status
from .constraints import Equality
from .equal_points import EqualPoints
from .kernel_descent import Descent
from .kernel_products import KernelProducts
from .kernel_risk import KernelRisk
from .limits import EACH_SIDE, NEAR, PASSES, ROUNDS, SAMPLE_TOL, WIDE_BELOW, Aim
from .newton_finish import newton_finish
from .roundings import ROUNDED_SUM

__all__ = ["KernelRun"]

GROWTH = 2  # times as many has the next one
SAMPLE_GAIN = 1e-3  # or of the value: a step that gains less ends it too
NEARBY = 0.1  # of the points that are asked for: as many more, the nearest, are in W from the start
WIDE_RIDGE = 1e-4  # of the diagonal of K: with a smaller D it is hidden by the rounding of entries in float32
FIRST_WIDTH = 2.0  # of the targets: losses rounded off so far are curved for all points at the start
NARROWER = 1 / 8  # of a rounding is the next one
SAMPLE_WIDTH = 0.03  # of the size of targets: a sample whose corners are rounded off so little says where to start
FINISH_UP_TO = 1500  # free variables: up to here an active set is worth a try at each rounding
REFINED = 0.5  # of the violation before is progress that is worth another look, before K is made in float64


class Proofs(Protocol):
    """What solvers know of answers, which have a beta, an eta and a certificate."""

    spent: Status  # why a solver ends that has made as many steps as it may

    def of(self, beta: np.ndarray, eta: np.ndarray) -> Any:
        """The answer at a point."""

    def better(self, one: Any, other: Any) -> Any:
        """The better of two answers; there may be none before."""


class KernelRun:
    """One call of Newton's method on a kernel machine."""

    def __init__(self, options: Any, qp: QP, goal: Goal, monitor: Monitor, proofs: Proofs) -> None:
        self.options, self.whole, self.goal, self.monitor, self.proofs = options, qp, goal, monitor, proofs
        self.spent = proofs.spent
        self.direct, self.seed = options.direct, options.seed
        assert qp.primal is not None
        self.equal = EqualPoints.found(qp.primal, options.merge_from)
        erm = qp.primal if self.equal is None else self.equal.erm
        self.qp = qp if self.equal is None else erm.qp()
        self.risk = KernelRisk.of(self.qp)
        gram = as_gram(erm.K)
        fine = float(self.risk.d[self.risk.d > 0.0].min(initial=1.0)) < WIDE_RIDGE * float(gram.diag().max())
        if goal.first_violation < WIDE_BELOW or self.qp.n <= options.wide_up_to or fine:
            gram = gram.wide()
        self.size = float(np.abs(self.risk.p).mean()) or 1.0
        self.eta = np.zeros(len(self.risk.A))
        self.steps = self.sv = 0
        self.most = goal.max_iter if goal.max_iter > 0 else PASSES
        self._open(gram)

    def _open(self, gram: Gram) -> None:
        """A window without points."""
        self.products = KernelProducts(gram, cache_bytes(self.options.cache_size), self.monitor)
        self.descent = Descent(self, self.products)
        self.inside = np.zeros(self.qp.n, bool)

    # -- from a first guess to a certified end ------------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Any, Status]:
        """The answer that proves most, and why we stopped."""
        share, best, reason = 1.0, None, Status.CONVERGED
        try:
            share, reason = self._approach(start)
            if reason in NEAR:
                self._enter(np.arange(self.qp.n), self.risk, every=self.qp.n <= self.options.whole_up_to)
        except Stopped as stopped:
            reason = stopped.reason
        started = start is not None and bool(np.any(start))
        stages = self._stages(self.risk, last=True, cold=self.qp.n < 2 * self.options.smallest_sample and not started)
        aim, (risk, done) = Aim(self.goal.first_violation), next(stages)
        least = np.inf  # violation that was certified
        for _ in range(ROUNDS):
            accuracy = aim.accuracy
            try:
                while reason in NEAR and not done:
                    reason = self._steps(risk, SAMPLE_TOL * self.size)
                    risk, done = next(stages)
                if reason in NEAR and not self.inside.all():  # few points are right outside after a rough look
                    reason = self._steps(risk, max(accuracy, SAMPLE_TOL * self.size))
                    self._join(risk, accuracy)
                if reason in NEAR:
                    reason = self._steps(risk, EACH_SIDE * accuracy)
                while reason in NEAR and self._join(risk, accuracy):  # a look that is quicker than a certificate
                    reason = self._steps(risk, EACH_SIDE * accuracy)
                self._end_active_set()
            except Stopped as stopped:
                reason = stopped.reason
            found = self._look(share)
            best = self.proofs.better(best, found)
            if self.goal.met(best.certificate) or reason not in NEAR:
                break
            if self._recall(found, risk, accuracy):
                continue  # points outside were asked for
            violation = float(found.certificate.violation)
            refined, least = accuracy < violation < REFINED * least, min(least, violation)
            if self.products.gram.dtype != np.float64 and refined:
                continue  # values are exact now; steps from there are short, and so is what float32 rounds them by
            sharper = next(stages, None)
            if sharper is not None:
                risk, done = sharper
            elif self.products.gram.dtype != np.float64:
                self._widen()
            elif reason is Status.STALLED or aim.finest:
                break
            else:
                aim.finer()
        assert best is not None
        return best, reason

    def _approach(self, start: np.ndarray | None) -> tuple[float, Status]:
        """Samples that grow; the share of the points in the one that was the last, or 1 where the whole is next."""
        n = self.qp.n
        if start is not None and np.any(start):
            beta = np.asarray(start, np.float64)
            beta = np.clip(beta if self.equal is None else self.equal.gather(beta), self.qp.lower, self.qp.upper)
            self._begin(np.flatnonzero(beta), beta)
            return 1.0, Status.CONVERGED
        counts = [n]
        while self.options.growing and counts[-1] >= 2 * self.options.smallest_sample:
            counts.append(counts[-1] // GROWTH)
        mixed = np.random.default_rng(self.options.seed).permutation(n) if len(counts) > 1 else np.arange(n)
        for count in reversed(counts[1:]):
            index, share = np.sort(mixed[:count]), count / n
            sample = self.risk.take(slice(None), share)
            first = count == counts[-1]
            try:
                self._enter(index, sample, every=first)
                for risk, _ in self._stages(sample, last=False, cold=first):
                    reason = self._steps(risk, SAMPLE_TOL * self.size, quiet=True)
            except Stopped as stopped:
                reason = stopped.reason
            if reason not in NEAR:
                return share, reason
        return 1.0, Status.CONVERGED

    def _begin(self, used: np.ndarray, beta: np.ndarray) -> None:
        """A window of the points with a coefficient, and the η that suits them."""
        self.products.grow(used)
        self.inside[used] = True
        self.descent.beta = beta[used]
        self.descent.g = self.products.times(beta[used])
        if len(self.risk.A):
            equality = Equality.of(self.qp)
            self.eta = equality.T.T @ equality.multipliers(self.qp, beta, self.qp.times(beta))

    def _stages(self, risk: KernelRisk, last: bool, cold: bool) -> Iterator[tuple[KernelRisk, bool]]:
        """The losses rounded off, less and less, and whether this is as little as is asked for; then less still."""
        width = risk.width() * self.size
        if not width.any():
            yield risk, True
            return
        smooth = risk.smooth
        share = FIRST_WIDTH if cold else 0.0 if smooth else SAMPLE_WIDTH
        while True:
            now = risk.rounded(share * width)
            narrow = bool((now.d == risk.d).all()) if smooth else share <= SAMPLE_WIDTH
            yield now, narrow
            share *= NARROWER
            if narrow and (smooth or not last) or share < ROUNDED_SUM:
                return

    # -- windows ------------------------------------------------------------------------------------------------

    def _steps(self, risk: KernelRisk, tol: float, quiet: bool = False) -> Status:
        """Newton steps on the window; where more than what is asked of the whole will do, fewer of them."""
        index = self.products.index
        complete = len(index) == self.qp.n and risk.d is self.risk.d
        gain = SAMPLE_GAIN if tol >= SAMPLE_TOL * self.size else 0.0
        monitor = self.monitor.inner() if quiet else self.monitor
        return self.descent.solve(risk.take(index), tol, monitor, complete, gain)

    def _values(self, points: np.ndarray) -> np.ndarray:
        """Kβ at points outside."""
        return self.products.at(self.descent.beta, points)

    def _enter(self, index: np.ndarray, risk: KernelRisk, every: bool) -> None:
        """Let those of a sample join the window that belong there, or every one.

        Values in the window are made anew: those of smaller samples, whose coefficients were larger, have rounded them.
        """
        if self.products.n:
            self.descent.g = self.products.times(self.descent.beta)
        rest = index[~self.inside[index]]
        values = self._values(rest)
        if not every and self.products.gram.whole() is None:
            part = risk.take(rest)
            near = _asked_for(part, values + part.p + part.A.T @ self.eta)
            rest, values = rest[near], values[near]
        self._add(rest, values)

    def _add(self, points: np.ndarray, values: np.ndarray) -> None:
        before = self.products.n
        try:
            self.products.grow(points)
        finally:  # a stop may come in between
            joined = self.products.n - before
            self.inside[points[:joined]] = True
            self.descent.join(values[:joined])

    def _join(self, risk: KernelRisk, tol: float, values: np.ndarray | None = None) -> bool:
        """Let points join that are outside and should not be; whether there are any."""
        rest = np.flatnonzero(~self.inside)
        if not len(rest):
            return False
        values = self._values(rest) if values is None else values[rest]
        part = risk.take(rest)
        wrong = _wanting(part, values + part.p + part.A.T @ self.eta) > 0.3 * tol
        if wrong.any():
            self._add(rest[wrong], values[wrong])
        return bool(wrong.any())

    def _recall(self, found: Any, risk: KernelRisk, tol: float) -> bool:
        """Go on from what was certified, whose values are exact; whether points outside have joined."""
        beta, values = found.beta, self.whole.times(found.beta)
        values = values if self.whole.ridge is None else values - self.whole.ridge * beta
        if self.equal is not None:
            beta, values = self.equal.gather(beta), self.equal.first_of(values)
        index = self.products.index
        self.descent.beta, self.descent.g, self.eta = beta[index], values[index], found.eta.copy()
        if self.inside.all():
            return False
        try:
            return self._join(risk, tol, values)
        except Stopped:
            return False

    def _widen(self) -> None:
        """Go on with K in float64."""
        index, beta, g = self.products.index, self.descent.beta, self.descent.g
        gram = self.products.gram.wide()
        self._open(gram)
        with suppress(Stopped):  # with those that are there; the next look at the clock ends the run
            self._add(index, g)
        self.descent.beta = beta[: self.products.n]

    # -- ends ---------------------------------------------------------------------------------------------------

    def model(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all points, for those of the window, and η."""
        everywhere = np.zeros(self.qp.n)
        everywhere[self.products.index] = beta
        return everywhere if self.equal is None else self.equal.scatter(everywhere), self.eta.copy()

    def _look(self, share: float) -> Any:
        """The whole problem's answer at the present β and η."""
        beta, _ = self.model(share * self.descent.beta)
        whole = self.whole
        held = Equality.of(whole).feasible(beta, whole.lower, whole.upper, whole.eps)
        return self.proofs.of(held, self.eta.copy())

    def _end_active_set(self) -> None:
        """For a loss with corners: its active set, where that is within reach."""
        index, beta = self.products.index, self.descent.beta
        if self.risk.smooth or not len(index):
            return
        exact = self.risk.take(index)
        free = (beta > exact.lower) & (beta < exact.upper) & ((exact.eps == 0.0) | (beta != 0.0))
        if free.sum() > FINISH_UP_TO:
            return
        part = QP(self.products.part, exact.p, exact.lower, exact.upper, exact.A, np.zeros(len(exact.A)), exact.eps)
        equality = Equality.of(part)
        beta = equality.feasible(beta, exact.lower, exact.upper, exact.eps)
        v = -(self.products.times(beta) + exact.p)
        gram, stop = cast(Gram, self.products), self.monitor.stop_now
        found = newton_finish(gram, part, equality, beta, v, FINISH_UP_TO, stop)
        if found is not None:
            g = self.products.times(found)
            self.descent.beta, self.descent.g = found, g
            self.eta = equality.T.T @ equality.multipliers(part, found, g)


def _wanting(risk: KernelRisk, s: np.ndarray) -> np.ndarray:
    """How much points without a coefficient violate their conditions; below 0 where they are not asked for."""
    return np.maximum(np.where(risk.upper > 0.0, -s, -np.inf), np.where(risk.lower < 0.0, s, -np.inf)) - risk.eps


def _asked_for(risk: KernelRisk, s: np.ndarray) -> np.ndarray:
    """Points that a function asks for, and some that are nearest to being asked for."""
    wanting = _wanting(risk, s)
    chosen = wanting > 0.0
    rest = np.flatnonzero(~chosen)
    more = min(len(rest), int(NEARBY * chosen.sum()))
    if more:
        chosen[rest[np.argpartition(-wanting[rest], more - 1)[:more]]] = True
    return chosen
