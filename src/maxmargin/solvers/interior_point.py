"""The interior method: Mehrotra's predictor–corrector for the QP (PDCO; the role that LOQO has in MPD).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  box,  Aβ = b,       H = Z Zᵀ + diag(ridge), or any H of a few thousand rows

    w = Zᵀβ                                    PDCO (3): Z is not multiplied by itself
    s = Z w + ridge β + p + Aᵀη = zl − zu      each side of each box with a barrier (barrier.py)

    repeat
        θ of each row                          rows add up Ẑᵀ Θ Ẑ                  (systems.py; one factorisation)
        predict   μ = 0                        how far it gets tells σ
        correct   μ = σμ, second order; once or twice more, to make the step longer (Gondzio)
        advance
    until the gap of (β, w, η) <= tol, then purify

    gap(β, w, η) = ½‖w − Zᵀβ‖² + Σ_i max_z [ … ] + ηᵀ(b − Aβ)       as in problem.py, for a w of its own

Start. Every row is put well inside its box. Where that leads nowhere (a huge cost), and from a given β, centring
helps: on the central path at a μ of our choice each row's β is a function of its slope alone, so that w and η minimise
a smooth convex function with the same Newton matrix, and a few damped Newton steps lead from any w to a centred point.
From nothing it costs more factorisations than it saves (measured, in all: separable data of 1000 rows 38 against 13,
a1a 15 against 11, noise 9 against 8).

Rows that no longer matter drop out of long linear problems before they begin (screening.py).

| PDCO      | here                                      |
| --------- | ----------------------------------------- |
| x, y      | β; −x = −[w, η]                           |
| A, D₂     | Ẑᵀ = [Z, Aᵀ]ᵀ, D of systems.py            |
| H₂⁻¹      | θ                                         |
| r₁        | ``missing`` = Ẑᵀβ − [w, b]                |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator

from ..goal import Goal
from ..gram import as_gram
from ..gram.base import Factor
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..rows import Rows
from ..solution import Solution, Status
from .base import GOAL, Answer, answer, beginning, close, first_point, linear_form, spent
from .parts.barrier_rows import BarrierRows, Parts
from .parts.constraints import Equality
from .parts.newton_systems import Dense, LeastSquares, Normal, Points, Quasi, RowSquares, System
from .parts.purify import polish, wants_off
from .parts.reach import out_of_reach, slope_rounding
from .parts.screening import screen

__all__ = ["InteriorPoint", "screens", "system_for"]

MOST_ITERATIONS = 200
BACK_OFF = 0.995  # of the way to the boundary
CORRECTORS = 2  # Gondzio's, where factorising costs more than they do
LONGER, GAIN = 0.3, 0.05  # a corrector aims at a step longer by this, and is kept if it gets longer by that
CENTRED = 0.05  # Newton decrement, in units of the products, that counts as centred
CENTER_STEPS = 8
SMOOTHER = 10.0  # times μ, where that many steps do not lead to the central path
TINY = 1e-300  # a rate at which no step ends at a bound
SCREEN_FROM, SCREEN_A_FEATURE = 2000, 10  # rows, at least and a feature: fewer are not worth two stages
DENSE_UP_TO = 6000  # rows of a matrix that we factor as a whole
MATRICES = 2  # of that size: H, and the one that is factored
NORMAL_UP_TO = 6000  # features
WEIGHTS_UP_TO = 200  # features whose matrix is factored in a millisecond, even where that of the rows is smaller
FILL = 20  # entries a feature in a sparse factor: more, and reading the rows a few thousand times is cheaper
PATTERN_ROWS, MORE_ROWS = 1000, 4  # rows that tell at first, and times as many as before
STALLED = (
    12  # iterations without a better gap, or far from the end smaller products, less that Ẑᵀβ misses, longer steps
)
NEAR = 0.5  # relative gap
ROUNDING = 1e-14  # of the μ that we would start with: a start that is better is so by rounding
WIDE = 0.1  # of the boxes' mean width from their bounds is where we start again
FURTHER = 100.0  # times further from the bounds than slopes and curvatures say is where we start
HASTY = 3  # points that may fall short before one is purified, where nobody asks for exact ones
TRIES = 6  # purified points that fell short of the tolerance before we stop
FINER = 0.1  # next gap, of the one before, where that does not prove what is asked
SCREENINGS = 3  # such gaps before all rows are taken
PURE_ROUNDS = 8
COARSE = 1e-3  # share of the slopes at β = 0 from which on rounding of Hβ decides for itself
PURE_UP_TO = 2000  # variables inside their boxes whose equations we solve once more
SYSTEMS = ("auto", "normal", "dense", "quasi", "lsmr-rows", "lsmr")


@dataclass
class InteriorPoint:
    """Predictor–corrector with one factorisation an iteration."""

    system: str = "auto"  # "normal", "dense", "quasi", "lsmr-rows", "lsmr": which equations are solved (newton_systems)
    correctors: int = CORRECTORS  # Gondzio's correctors an iteration, at most
    screening: bool = True  # decide most rows of a long linear problem by a solution on few of them (screening.py)

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
            solution = self._screened(qp, goal, as_gram(qp.H).factor(), start, monitor)
            if solution.status not in (Status.STALLED, Status.EXHAUSTED):
                return solution
            near = solution.certificate.relative_gap < NEAR
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
        for _ in range(SCREENINGS):
            found = screen(qp, factor, solve, accuracy, start, monitor.inner())
            steps += found.steps
            beta = equality.feasible(found.beta, qp.lower, qp.upper, qp.eps)
            proven = answer(qp, goal, beta, [found.eta])
            if goal.met(proven.certificate) or not found.status.converged:
                break
            accuracy, start = FINER * accuracy, proven.beta
        return close(qp, goal, proven, found.status, steps, monitor, as_gram(qp.H).evals)


class _Run:
    """One call of the solver."""

    def __init__(self, options: InteriorPoint, qp: QP, goal: Goal, monitor: Monitor) -> None:
        self.options, self.qp, self.goal, self.monitor = options, qp, goal, monitor
        self.equality = Equality.of(qp)
        self.gram = as_gram(qp.H)
        self.iteration = 0
        self.most = goal.max_iter if goal.max_iter > 0 else MOST_ITERATIONS
        self._open_system()
        parts = Parts.of(qp, _forced(qp))
        self.sides = parts.sides
        self.can_center = not self.system.given and parts.bounded(self.ridge)
        self.crew = self.rows.crew(
            BarrierRows,
            (qp.p, qp.lower, qp.upper, qp.eps, self.ridge, qp.A, parts.kind, parts.lo, parts.up, parts.cost),
            self.system.given,
            look=monitor.look,
        )
        self.d, self.k = self.rows.d, len(qp.A)
        self.x = np.zeros(self.d + self.k)
        self.pulled = np.zeros(self.d + self.k)  # Ẑᵀβ
        self.norm = 0.0  # βᵀHβ, where H itself is at hand

    def _open_system(self) -> None:
        """Choose the equations (systems.py)."""
        qp, name = self.qp, self.options.system
        factor = self.gram.factor() if name != "dense" else None
        k = len(qp.A)
        if factor is not None and name == "auto":
            # Where weights are asked for and not coefficients, they are the more exact the less they are sums.
            few = factor.rows.d <= WEIGHTS_UP_TO and not self.goal.exact
            name = "normal" if few else system_for(factor.rows)
        self.system: System
        if factor is None or name == "dense":
            self.rows = Rows([Points(qp.n)], 1)
            self.ridge = np.zeros(qp.n)
            self.H = self.gram.wide().dense(self.monitor.foresee, MATRICES)
            self.system = Dense(self.H, qp.A, self.gram.threads, self.monitor.look)
            return
        self.rows = factor.rows
        self.ridge = np.zeros(qp.n) if factor.ridge is None else factor.ridge
        if name == "lsmr-rows":
            squares = np.maximum(self.gram.diag() - self.ridge, 0.0)
            self.system = RowSquares(self.rows, self.ridge, qp.A, squares, self.monitor.look)
            self.rows, self.ridge = Rows([Points(qp.n)], 1), np.zeros(qp.n)
            self.H = LinearOperator((qp.n, qp.n), matvec=self.gram.matvec, dtype=np.float64)
        elif name == "quasi":
            self.system = Quasi(self.rows, qp.A)
        elif name == "lsmr":
            self.system = LeastSquares(self.rows, qp.A, self.monitor.look)
        else:
            self.system = Normal(self.rows.d, k, self.rows.threads, self.monitor.look)

    # -- the list of steps -----------------------------------------------------------------------------

    def solve(self, start: np.ndarray | None) -> tuple[Answer, Status]:
        """The best point found and why we stopped; where a start leads nowhere, from others."""
        found, status = self._follow(start, centred=start is not None)
        others = [(False, True), (True, False)] if self.can_center else []
        for centred, wide in others:
            if status is not Status.STALLED or self.iteration >= self.most:
                break
            if out_of_reach(self.qp, self.goal, found.beta, found.certificate):
                break
            other, status = self._follow(None, centred, wide)
            found = self._better(found, other)
        return found, status

    def _follow(self, start: np.ndarray | None, centred: bool, wide: bool = False) -> tuple[Answer, Status]:
        """The steps from one start."""
        try:
            best = self._started(start, centred, wide)
        except Stopped as stopped:
            return answer(self.qp, self.goal, first_point(self.qp, start)), stopped.reason
        if best is not None and self.goal.met(best.certificate):
            return best, Status.CONVERGED
        target, least, waited, tries = self.goal.first_gap, np.full(4, np.inf), 0, 0
        self.length = TINY
        while True:
            gap, dual = self._gap()
            relative = gap / max(abs(dual), abs(dual + gap), np.finfo(float).tiny)
            # β does not hold the constraints yet, so that its objective bounds nothing; w and η are always feasible.
            stop = self.monitor.step(self.iteration, active=self.qp.n, kernel_evals=self.gram.evals, primal=dual + gap)
            left = np.array([relative, self.products, np.linalg.norm(self._missing()), 1.0 / self.length])
            counts = left < 0.9 * least
            waited = 0 if counts[0] or (relative > NEAR and counts.any()) else waited + 1
            least = np.minimum(least, left)
            if relative <= target:
                hasty = not self.goal.exact and tries < HASTY
                found = self._inside() if hasty else self._purified()
                self.monitor.bound(found.certificate)
                best = self._better(best, found)
                if self.goal.met(best.certificate):
                    return best, Status.CONVERGED
                tries, target = tries + 1, FINER * relative
            if stop:
                return self._in_time(best, relative, start), stop
            if self.iteration >= self.most:
                return self._better(best, self._inside()), spent(self.goal)
            try:
                moved = waited < STALLED and tries < TRIES and self._step()
            except Stopped as stopped:
                return self._in_time(best, relative, start), stopped.reason
            if not moved:
                return self._better(best, self._purified()), self._failure()

    def _in_time(self, best: Answer | None, relative: float, start: np.ndarray | None) -> Answer:
        """What a stop leaves: one product with all rows at most, and none for a point that is worse than none."""
        if relative < 1.0:
            return self._better(best, self._inside())
        return best or answer(self.qp, self.goal, first_point(self.qp, start))

    def _failure(self) -> Status:
        """Why there is no progress."""
        endless = np.isinf(self.qp.lower).any() or np.isinf(self.qp.upper).any()
        return Status.UNBOUNDED if endless and not self.system.convex else Status.STALLED

    def _better(self, one: Answer | None, other: Answer) -> Answer:
        """The answer that meets the goal, or else that of the smaller gap."""
        met = self.goal.met(other.certificate)
        return other if one is None or met or other.certificate.gap < one.certificate.gap else one

    def _step(self) -> bool:
        """One iteration; whether it got anywhere."""
        self.iteration += 1
        crew, solve = self.crew, self.system.solve
        crew.ask("weigh")
        try:
            moved, self.pulled = self.system.prepare(crew).T
        except LinAlgError:
            return False
        missing = self._missing()
        x = solve(missing + moved)
        rates, curves, pulls = zip(*crew.ask("predict", x), strict=True)
        length, pull = 1.0 / max(*rates, TINY), np.sum(pulls, axis=0)
        mu = self.products / max(1, self.sides)
        reached = max(0.0, (1.0 - length) * self.products + length * length * sum(curves)) / max(1, self.sides)
        m = mu * min(1.0, reached / mu) ** 3 if mu > 0.0 else 0.0
        x = solve(missing + pull[:, 0] + m * pull[:, 1])
        longest = 1.0 / max(*crew.ask("correct", x, m), TINY)
        for _ in range(self.options.correctors):
            if longest > 1.0:
                break
            right = missing + crew.sum("aim", m, min(1.0, longest + LONGER))
            trial = solve(right)
            further = 1.0 / max(*crew.ask("retry", trial, m), TINY)
            if not further > longest + GAIN * (1 - longest):
                break
            crew.ask("accept")
            x, longest = trial, further
        length = min(1.0, BACK_OFF * longest)
        if not (np.isfinite(x).all() and np.isfinite(length)):
            return False
        crew.ask("advance", m, length)
        self._moved(length, x, missing)
        self.length = max(length, TINY)
        return True

    def _moved(self, length: float, x: np.ndarray, missing: np.ndarray) -> None:
        """Keep w, η, Ẑᵀβ (or Hβ and the slopes) up to date."""
        if not self.system.given:
            self.x += length * x
            if self.system.exact:  # the equations tell Ẑᵀ Δβ
                x = np.where(np.arange(len(x)) < self.d, x, 0.0)
                self.pulled = self.pulled + length * (x - missing)
            else:
                self.pulled = self.crew.sum("pull")[:, 1]
            return
        self.x[self.d :] += length * x[self.d :]
        beta = self.crew.collect("beta")
        product = self.H @ beta
        self.crew.scatter("receive", (product + self.qp.p + self.x[self.d :] @ self.qp.A,))
        self.pulled[self.d :] = self.qp.A @ beta
        self.norm = float(beta @ product)

    def _missing(self) -> np.ndarray:
        """Ẑᵀβ − [w, b]."""
        out = self.pulled - self.x
        out[self.d :] = self.pulled[self.d :] - self.qp.b
        if self.system.given:
            out[: self.d] = 0.0
        return out

    def _gap(self) -> tuple[float, float]:
        """The gap of (β, w, η), and the dual value."""
        self.products, rows, value = self.crew.sum("sums")
        rows = self.products if np.isinf(rows) else rows
        missing, eta = self._missing(), self.x[self.d :]
        w, pulled = missing[: self.d], self.pulled[: self.d]
        norm = self.norm if self.system.given else float(pulled @ pulled)
        return float(0.5 * w @ w + rows - eta @ missing[self.d :]), float(-0.5 * norm - value)

    # -- where to start --------------------------------------------------------------------------------

    def _started(self, start: np.ndarray | None, centred: bool, wide: bool) -> Answer | None:
        """Put all rows inside their boxes; the start itself, if there was one, with its proof."""
        qp = self.qp
        zero = np.zeros(qp.n) if start is None else np.asarray(start, np.float64)
        beta = self.equality.feasible(zero, qp.lower, qp.upper, qp.eps)
        H_beta = self.H @ beta if self.system.given else qp.times(beta)
        known, eta = None, np.zeros(self.k)
        if start is not None:
            known = answer(qp, self.goal, beta)
            eta = known.eta
        slope = float(np.mean(np.abs(qp.gradient(beta, eta, H_beta)) + qp.eps)) or 1.0
        diagonal = self.gram.diag()
        room = slope / max(float(np.mean(diagonal)), 1e-10 * slope)
        room *= 1.0 if centred or not self.can_center else FURTHER
        width = qp.upper - qp.lower
        if wide:
            # With fewer features than rows most β end at a bound, however large the features are: slopes over
            # curvatures say how far a row would go alone, boxes how far all of them go.
            room = max(room, WIDE * float(np.mean(np.where(np.isfinite(width), width, 0.0))))
        room_used = float(np.mean(np.minimum(room, 0.5 * width)))
        mu = 0.5 * slope * max(room_used, np.finfo(float).tiny)
        if known is not None and np.isfinite(known.certificate.gap):
            mu = min(mu, max(known.certificate.gap / max(1, self.sides), ROUNDING * mu))
        mu = max(mu, np.finfo(float).tiny)
        self.x[: self.d], self.x[self.d :] = 0.0, eta
        if start is not None and not self.system.given:
            self.x[: self.d] = self.rows.t_dot(beta)
        if self.can_center and centred:
            # A small μ has sharp corners, around which Newton's method finds its way slowly if at all.
            widest = slope * float(np.mean(np.where(np.isfinite(width), width, room)))
            while not self._center(mu) and mu < widest:
                mu *= SMOOTHER
        else:
            self._enclose(beta, H_beta, mu, room)
        return known

    def _enclose(self, beta: np.ndarray, H_beta: np.ndarray, mu: float, room: float) -> None:
        """A start inside every box, near β, not centred."""
        if self.system.given:
            self.crew.scatter("receive", (H_beta + self.qp.p + self.x[self.d :] @ self.qp.A,))
        else:
            self.crew.ask("look", self.x)
        self.crew.scatter("enclose", (beta,), mu, room)
        if self.system.given:
            self._moved(0.0, self.x, self.x)
        else:
            self.pulled = self.crew.sum("pull")[:, 1]

    def _center(self, mu: float) -> bool:
        """Newton's method for the w and η of the central path at μ; whether it got there."""
        crew, d, b = self.crew, self.d, self.qp.b
        crew.ask("look", self.x)
        for _ in range(CENTER_STEPS):
            crew.ask("place", mu)
            crew.ask("weigh")
            self.pulled = self.system.prepare(crew)[:, 1]
            missing = self._missing()
            x = self.system.solve(missing)
            decrement = float(missing @ x)
            if not decrement > CENTRED * self.sides * mu or self.monitor.stop_now():
                return True
            crew.ask("project", x)
            straight = float(x[:d] @ self.x[:d] + x[d:] @ b), float(x[:d] @ x[:d])

            def slope(length, straight=straight):
                return straight[0] + length * straight[1] - crew.sum("slope", mu, length)

            length = _root(slope, decrement)
            crew.ask("shift", length)
            self.x += length * x
        crew.ask("place", mu)
        self.pulled = crew.sum("pull")[:, 1]
        return False

    # -- how to end ------------------------------------------------------------------------------------

    def _proven(self, beta: np.ndarray, eta: np.ndarray) -> Answer:
        """β with its proof; where Zᵀβ is too coarse to prove what is asked, with that of the weights w.

        Zᵀβ is known to u Σ|β_i|‖z_i‖ only, which may be far more than w where features or boxes are large; Z times that
        error would then be all that Hβ says. In the gap of (β, w, η) it enters as a square, not times Z. Who asks for
        coefficients gets weights that are theirs, unless they are as coarse as that.
        """
        found = answer(self.qp, self.goal, beta, [eta])
        if self.system.given or self.goal.met(found.certificate) or (self.goal.exact and not self._coarse(found.beta)):
            return found
        w, own = self.x[: self.d].copy(), self.x[self.d :].copy()
        other = Answer(found.beta, own, self.qp.certificate(found.beta, own, w), w)
        return self._better(found, other)

    def _coarse(self, beta: np.ndarray) -> bool:
        """Whether rounding of Zᵀβ alone makes slopes wrong by more than the margins that they decide on."""
        error = slope_rounding(self.gram.diag(), self.qp.p, beta)
        return error > COARSE * float(np.mean(np.abs(self.qp.p) + self.qp.eps))

    def _purified(self) -> Answer:
        """The present point moved to the boundary where complementarity says so, or as it is if that proves more."""
        qp, equality = self.qp, self.equality
        interior, eta = self.crew.collect("beta"), self.x[self.d :].copy()
        place = self._places(interior)
        beta, best = np.where(np.isnan(place), np.clip(interior, qp.lower, qp.upper), place), None
        coarse = self._coarse(beta)
        for _ in range(PURE_ROUNDS):
            F = np.flatnonzero(np.isnan(place))
            if self.monitor.stop_now():  # products with all rows may take long
                return best or self._inside()
            if not coarse and 0 < len(F) <= PURE_UP_TO:
                beta, eta = polish(self.gram, qp, beta, eta, qp.gradient(beta, eta), F, self.monitor.stop_now)
            beta = equality.feasible(beta, qp.lower, qp.upper, qp.eps)
            pure = self._proven(beta, eta)
            if best is not None and pure.certificate.gap >= best.certificate.gap:
                break
            best, beta = pure, pure.beta
            off = wants_off(qp, beta, qp.gradient(beta, pure.eta))
            if coarse or not off.any() or len(F) > PURE_UP_TO or self.monitor.stop_now():
                break
            eta, place = pure.eta, np.where(off, np.nan, place)
        if self.goal.met(best.certificate) or self.monitor.stop_now():
            return best
        return self._better(best, self._inside())

    def _inside(self) -> Answer:
        """The present point, feasible."""
        qp = self.qp
        beta = np.clip(self.crew.collect("beta"), qp.lower, qp.upper)
        return self._proven(self.equality.feasible(beta, qp.lower, qp.upper, qp.eps), self.x[self.d :].copy())

    def _places(self, beta: np.ndarray) -> np.ndarray:
        """Where each variable belongs: a bound, zero, or NaN for inside."""
        qp = self.qp
        slack, dual, kind = (self.crew.collect(name) for name in ("slack", "dual", "kind"))
        active = np.array([(kind == side) | (kind == 3) for side in (1, 2)])
        slack, dual = (np.where(active, v, 0.0) for v in (slack, dual))
        near = slack / (np.linalg.norm(slack) or 1.0) < dual / (np.linalg.norm(dual) or 1.0)  # in units of their sizes
        at_lo, at_up = active & near
        place = np.full(qp.n, np.nan)
        two = len(kind) == 2
        kinked = kind[1] != 4 if two else np.zeros(qp.n, bool)
        place[at_lo[0] & ~kinked] = qp.lower[at_lo[0] & ~kinked]
        place[at_up[0]] = qp.upper[at_up[0]]
        if two:
            place[kinked & at_up[1]] = qp.lower[kinked & at_up[1]]
            place[kinked & at_lo[0] & at_lo[1]] = 0.0
        fixed = (kind[0] == 4) & ~kinked
        place[fixed] = beta[fixed]
        return place


def _root(slope, decrement: float) -> float:
    """A length at which the slope of a convex function, −decrement at 0, is small: the whole step if it will do."""
    low, high, low_value, value = 0.0, 1.0, -decrement, slope(1.0)
    while value < -0.5 * decrement and high < 64.0:
        low, low_value, high = high, value, 2.0 * high
        value = slope(high)
    if value <= 0.3 * decrement:
        return high
    for _ in range(25):
        straight = low - low_value * (high - low) / (value - low_value)
        if low == 0.0:  # where hardly any row has a curvature, the step is too long by orders of magnitude
            straight = max(straight, min(0.1 * high, np.sqrt(straight * high)))
        length = min(max(straight, 0.9 * low + 0.1 * high if low > 0.0 else 0.0), 0.1 * low + 0.9 * high)
        middle = slope(length)
        if abs(middle) <= 0.3 * decrement:
            return length
        if middle > 0:
            high, value = length, middle
        else:
            low, low_value = length, middle
        if high - low < 1e-6 * high:
            break
    return low  # as far as it is downhill


def screens(qp: QP) -> bool:
    """Whether this is a long problem, of which most rows are decided by others: β = 0 is feasible, and so every sample,
    and corners can be rounded off."""
    form = linear_form(qp.H)
    if form is None or qp.n < max(SCREEN_FROM, SCREEN_A_FEATURE * form.rows.d) or qp.b.any():
        return False
    around = bool((qp.lower <= 0).all() and (qp.upper >= 0).all())
    curved = np.isfinite(qp.upper - qp.lower) | (False if form.ridge is None else form.ridge > 0.0)
    return around and bool(np.all(curved))


def _forced(qp: QP) -> np.ndarray:
    """The values of variables that the box, or a constraint at the end of its range, leaves no choice."""
    fixed = np.where(qp.lower == qp.upper, qp.lower, np.nan)
    for a, b in zip(qp.A, qp.b, strict=True):
        used = a != 0.0
        for sign in (1.0, -1.0):
            corner = np.where(sign * a > 0, qp.upper, qp.lower)
            most = float(sign * a[used] @ corner[used])
            if np.isfinite(most) and sign * b >= most - 1e-13 * float(np.abs(a[used]) @ np.abs(corner[used])):
                fixed[used] = corner[used]
    return fixed


def system_for(rows: Rows) -> str:
    """The cheapest equations for these rows (measured: docs/pdco.md)."""
    if rows.d <= min(rows.n, NORMAL_UP_TO):
        return "normal"
    if rows.n <= DENSE_UP_TO:
        return "dense"
    return "quasi" if rows.sparse and _eliminates_well(rows) else "lsmr-rows"


def _eliminates_well(rows: Rows) -> bool:
    """Whether a factor of XᵀX is nearly as sparse as X: its envelope, in an order that narrows it, bounds the fill.

    More rows make XᵀX no sparser, so that some of them tell where it is not, before it takes memory and time.
    """
    X, count = abs(sp.csr_array(rows.matrix())), PATTERN_ROWS
    while True:
        pattern = sp.csr_array(X[:count].T @ X[:count])
        if pattern.nnz > FILL * rows.d:
            return False
        if count >= rows.n:
            break
        count *= MORE_ROWS
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    place = np.empty(rows.d, np.int64)
    place[order] = np.arange(rows.d)
    i, j = pattern.nonzero()
    first = np.arange(rows.d)
    np.minimum.at(first, place[i], place[j])
    return int((np.arange(rows.d) - first).sum()) <= FILL * rows.d
