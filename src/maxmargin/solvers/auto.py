"""Which solver for which problem: the choice is a solver itself.

| the problem                                        | solvers, each for the case that those before fall short      |
| -------------------------------------------------- | ------------------------------------------------------------ |
| a factor of low rank stands for the kernel          | interior point; mpd, whose products with it cost next to      |
|                                                    | nothing and mend single violations; then the kernel itself    |
| a relation (Potential SVM)                         | columns: few of them are used; then as a kernel               |
| a kernel, pairs of variables keep Aβ = b            | decomposition; where the matrix, its features or a factor of  |
|                                                    | low rank fit, the interior method once pair steps have cost   |
|                                                    | as much, first with the factor where that is far cheaper;     |
|                                                    | pair steps again, and mpd                                     |
| a kernel, a squared loss, noise: most points of a    | Newton: one system of all of them in place of steps on each;  |
|   large problem have a coefficient                   | then as above                                                |
| a kernel, other constraints (parametric functions)   | mpd; up to some thousand variables the interior method once   |
|                                                    | mpd has cost as much, and mpd again                           |
| a kernel, a smooth loss, up to some thousand         | as above; before the interior method Newton, whose systems    |
|   variables, or a linear kernel                      | are as large and fewer                                        |
| features, a smooth loss, up to some hundred of them  | Newton: a step costs little more than a sweep; interior point |
| features, a smooth loss, more of them                | sweeps, Newton with products                                  |
| features, functions that are nearly the same         | as above; mpd, which makes them orthogonal                    |
| features, a tiny problem                            | decomposition, which is exact there                           |
| features, a small problem                           | interior point, by one leaf; sweeps without end               |
| features on disk, a long problem                     | interior point: few passes, least memory for each row         |
| features, else                                      | sweeps for as long as the interior method would take; interior |
|                                                    | point where features are so unequal that they crawl; where    |
|                                                    | that stalls (separable data, a huge cost), sweeps without end |

A solver falls short when the judge says so (goal.py). Each starts from what the one before has left. Where rounding is
all that is left, nobody else is asked (parts/reach.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import memory
from ..goal import Goal
from ..gram import Factored, Relation, as_gram, cache_bytes
from ..monitor import Monitor
from ..problem import ERM, QP
from ..solution import Solution, Status
from .base import GOAL, beginning, judged, linear_form, run
from .interior_point import screens
from .newton import Newton
from .parts.fixed_sums import pairs_keep
from .parts.limits import FACTOR_UP_TO, LAST, SAMPLE_TOL
from .parts.rank_choice import LOWERED_UP_TO, low_rank_or_not, lowered_problem, rank_that_wins
from .parts.reach import out_of_reach, pair_patience
from .parts.roundings import ROUNDED_SOLUTION
from .parts.system_choice import by_leaf, in_no_time
from .parts.working_sets import Sizes

__all__ = ["Auto", "knows_features", "low_rank_or_not"]

NEWTON_UP_TO = 300  # features: up to here a Newton step costs little more than a sweep over the rows
TINY = 100  # variables: up to here that takes no longer than anything else
LINEAR = 0.15  # of the iterations on a problem with bounds: 3 of 20 (reach.py)
FEW_LOOKS = 12.0  # at each row by sweeps before factorising, at least, and if it goes on from them at most
FACTORS = 8  # factorisations that an interior method may take, whose cost in sweeps is worth the wait for them
HOPE = 0.3  # relative gap after the first few sweeps that leaves some, if there is another solver


NOISE_SAMPLES = (500, 1000)  # points that tell, in no time, how coefficients grow in number
NOISY = 0.4  # of all points will have one: a9a (0.6) and covtype (0.7) are, USPS (0.2) and MNIST (0.3) are not
NOISE_ROOM = 1.5  # times what their matrix takes must be free

FINAL = (Status.MAX_ITERATIONS, Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK, Status.UNBOUNDED)


@dataclass(frozen=True)
class Try:
    """A solver's turn."""

    name: str
    options: Any = field(default_factory=dict)  # or a function that gives them, if their turn comes
    cold: bool = False  # it would rather start from the middle than from where the one before got stuck
    lowered: int = 0  # columns, at most, of a factor that it works on in place of the kernel, where there is one


@dataclass
class Auto:
    """The solver that suits a problem, and others where it falls short; or the one that is named."""

    solver: Any = "auto"  # a name, or a solver
    looks: bool = False  # the limit of iterations counts looks at all rows, not a solver's own steps
    options: dict = field(default_factory=dict)  # for those solvers that have them
    dense_up_to: int = FACTOR_UP_TO  # points: up to here the interior method takes a kernel matrix as a whole
    noise_from: int = 10_000  # points: from here on Newton's method may be the quicker one (measured: docs/primal.md)

    form: ClassVar[type] = QP

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve with one solver after the other, until one meets the goal."""
        monitor = monitor or Monitor()
        if (stop := monitor.stop_now()) is not None:  # before this problem's turn: what it begins with has to do
            name = self.solver if isinstance(self.solver, str) else type(self.solver).__name__
            return replace(beginning(qp, goal, start, stop, monitor), solver=name)
        if not isinstance(self.solver, str):
            return run(self.solver, qp, goal, start, monitor, looks=self.looks)
        best: Solution | None = None
        steps = 0
        problem, left = qp, start
        while True:
            plan = [Try(self.solver)]
            if self.solver == "auto":
                plan = self.plan(problem, goal)
            for turn in plan:
                if best is not None and (stop := monitor.stop_now()) is not None:  # too late for another one
                    return replace(best, status=goal.verdict(best.certificate, stop), n_iter=steps)
                warm = None if turn.cold and best is not None else left
                others = self.looks and turn is not plan[-1]  # who have looks of the same length to make
                asked = goal
                if self.looks and goal.max_iter > 0:
                    looks = max(1, goal.max_iter - steps)
                    asked = goal.capped(-(-looks // 2) if others else looks)
                try:
                    work = lowered_problem(problem, turn.lowered, monitor) if turn.lowered else problem
                    if work is None:
                        continue
                    found = run(self._make(turn), work, asked, warm, monitor, turn.name, self.looks)
                    if turn.lowered:  # its coefficients count, and what they are worth with the kernel itself
                        found = judged(problem, goal, replace(found, w=None))
                except MemoryError:  # for a matrix that another solver does without
                    if best is None:
                        raise
                    continue
                steps += found.n_iter
                if best is not None and not goal.exact and not found.status.converged:
                    best = mixed(problem, goal, best, found)
                if best is None or goal.prefers(found.certificate, best.certificate):
                    best, left = found, found.beta
                elif not turn.cold:  # no worse than where it started from (base.py), though its gap may be
                    left = found.beta
                # Where rounding is all that is left, no other has anything to gain.
                spent = goal.gap < np.inf and best.certificate.relative_gap <= ROUNDED_SOLUTION
                spent = spent or out_of_reach(problem, goal, found.beta, found.certificate)
                final = found.status in FINAL
                if found.status is Status.UNBOUNDED and problem.ridge is not None:
                    final = False  # a squared loss has a minimum, but for rounding of rows in float32 and odd kernels
                if others and found.status is Status.MAX_ITERATIONS:
                    final = steps >= goal.max_iter
                if best.status.converged or final or spent:
                    reason = found.status if found.status in FINAL else Status.STALLED
                    return replace(best, status=goal.verdict(best.certificate, reason), n_iter=steps)
            assert best is not None
            if problem.exact() is problem or self.solver != "auto":  # why the last one stopped is why this ends
                return replace(best, status=goal.verdict(best.certificate, found.status), n_iter=steps)
            problem = problem.exact()

    def _make(self, turn: Try) -> Any:
        from . import SOLVERS

        known = {f.name for f in fields(SOLVERS[turn.name])}
        own = turn.options() if callable(turn.options) else turn.options
        return SOLVERS[turn.name](**{k: v for k, v in (self.options | own).items() if k in known})

    def plan(self, qp: QP, goal: Goal) -> list[Try]:
        """The table above."""
        if qp.exact() is not qp and knows_features(qp.H):
            return [Try("interior-point"), Try("mpd")]
        if isinstance(qp.H, Relation) and not len(qp.A):
            return [Try("columns"), *self.kernel_plan(qp)]
        if not knows_features(qp.H):
            cache_size = self.options.get("cache_size", "auto")
            return [Try("newton")] * newton_pays(qp, cache_size, self.noise_from) + self.kernel_plan(qp)
        form = linear_form(qp.H)
        assert form is not None
        interior = Try("interior-point", cold=not screens(qp))
        apart = [Try("mpd")] * (len(qp.A) > 1 and qp.n <= self.dense_up_to)
        if form.ridge is not None:
            few = form.rows.d <= NEWTON_UP_TO
            return [Try("newton"), interior, *apart] if few else [Try("sor"), Try("newton"), *apart]
        if qp.n <= (Sizes.matrix if goal.exact else TINY) and pairs_keep(qp):
            return [Try("decomposition", pair_trial(qp) | {"whole": True}), interior, Try("sor")]
        if form.rows.stored and screens(qp):
            return [interior]
        if min(form.rows.n, form.rows.d) <= FACTOR_UP_TO:
            first = [Try("sor", options) for options in trials(qp, goal)]
            return [*first, interior, *apart, Try("sor")]
        return [Try("sor")]

    def kernel_plan(self, qp: QP) -> list[Try]:
        """The part of the table for matrices that are read by rows."""
        form = linear_form(qp.H)
        dense = as_gram(qp.H).n_points <= self.dense_up_to or (form is not None and form.rows.d <= FACTOR_UP_TO)
        small = qp.n <= self.dense_up_to if form is None else form.rows.d <= NEWTON_UP_TO
        # As the interior method it has the matrix whatever a cache may hold: it is worth nothing without.
        whole = Try("newton", {"cache_size": "auto"})
        newton = [whole] * (small and qp.primal is not None and qp.primal.loss.smooth)
        pairs = pairs_keep(qp)
        # Steps of mpd on a matrix end near the optimum; pair steps, and all steps on features, rather far from it.
        interior = Try("interior-point", cold=pairs or form is not None)
        # A matrix of 1e15 hides functions whose columns are as good as others: these are tried where it fails, unless
        # it has worked on columns, those of features, before.
        columns = [Try("interior-point", cold=True, lowered=LOWERED_UP_TO)] * (form is None)
        if not pairs:
            mpd, again = (Try("mpd", partial(pair_trial, qp, times)) for times in (1.0, LAST))
            return [mpd, *newton, interior, *columns, again] if dense else [Try("mpd")]
        rank = rank_that_wins(qp, dense)
        first = Try("decomposition", partial(pair_trial, qp, LAST, rank))
        lowered = [first, Try("interior-point", cold=True, lowered=rank)] * (rank > 0)
        if not dense:
            last = [Try("decomposition", {"merging": False, "growing": False}), Try("mpd")]
            return [*lowered, Try("decomposition"), *last]
        return [
            *lowered,
            Try("decomposition", lambda: pair_trial(qp) | {"whole": True}),
            *newton,
            interior,
            *columns * (rank == 0),
            Try("decomposition", partial(pair_trial, qp, LAST)),
            Try("mpd", partial(pair_trial, qp, LAST)),
        ]


def mixed(qp: QP, goal: Goal, one: Solution, other: Solution) -> Solution:
    """The better of the weights of one solution with the coefficients of another, and of the first as it is.

    Any weights bound the optimum from above and any coefficients from below: one solver may have good ones of the
    first kind and another of the second.
    """
    for upper, lower in ((one, other), (other, one)):
        w = qp.weights(upper.beta) if upper.w is None else upper.w
        pair = judged(qp, goal, replace(upper, beta=lower.beta, w=w))
        if pair.certificate.gap < one.certificate.gap:
            one = pair
    return one


def newton_pays(qp: QP, cache_size: float | str = "auto", least: int = Auto.noise_from) -> bool:
    """Whether a squared loss and noise will give so many points a coefficient that steps on few of them take longer.

    Coefficients grow in number with the points where classes overlap or targets are noisy, and with about their root
    where not (PRIMAL §5.2; Steinwart 2003). Two samples tell how fast, and so how many there will be.
    """
    erm = qp.primal
    if erm is None or qp.n < least or qp.ridge is None or np.isfinite(qp.lower + qp.upper).any():
        return False
    drawn = np.random.default_rng(0).permutation(qp.n)[: max(NOISE_SAMPLES)]
    K = as_gram(erm.K).take(drawn).dense()
    counts, known = [], np.zeros(0)
    for size in NOISE_SAMPLES:
        index, start = drawn[:size], np.concatenate([known, np.zeros(size - len(known))])
        phi = erm.phi[:, index] if len(erm.phi) else erm.phi
        part = ERM(as_gram(K[:size, :size]), erm.y[index], erm.cost[index] * (qp.n / size), erm.loss, phi)
        goal = Goal(violation=SAMPLE_TOL * float(np.abs(qp.p).mean() or 1.0))
        known = Newton(growing=False).solve(part, goal, start).beta
        counts.append(max(1, int(np.count_nonzero(known))))
    few, more = counts
    share = more / NOISE_SAMPLES[1] * (more / few / 2) ** np.log2(qp.n / NOISE_SAMPLES[1])
    budget = cache_bytes(cache_size)
    room = memory.left_for_one() if budget is None else budget
    needed = 0.5 * as_gram(erm.K).dtype.itemsize * (min(1.0, share) * qp.n) ** 2
    return bool(share >= NOISY and NOISE_ROOM * needed <= room)


def pair_trial(qp: QP, times: float = 1.0, rank: int | None = None) -> dict:
    """How long pair steps or mpd may take where there is the interior method: as long as that, or a multiple of it.

    Without bounds and ε the conditions are linear equations, which take few iterations of any method of Newton's kind.
    """
    if not (np.isfinite(qp.lower).any() or np.isfinite(qp.upper).any() or qp.eps.any()):
        times = LINEAR * times
    return {"patience": times * float(pair_patience(as_gram(qp.H), qp.n, rank))}


def trials(qp: QP, goal: Goal) -> list[dict]:
    """How long sweeps may take for which there is another solver: as many looks at a row as cost what that does.

    Where that makes its iterations without Python between them, a few looks are worth a try at most, and none where all
    iterations take no longer than it takes to set up sweeps.
    """
    form = linear_form(qp.H)
    assert form is not None
    rows, more = form.rows, len(qp.A) + (form.constant > 0.0)
    if in_no_time(rows, more, goal.exact):
        return []
    if screens(qp):
        return [{"hope": HOPE, "patience": FEW_LOOKS}]
    if by_leaf(rows, more, goal.exact):
        return [{"patience": FEW_LOOKS}]
    entries = max(1.0, rows.work / rows.n)  # of a row: its part of a normal matrix, and of the factorisation, in sweeps
    looks = FACTORS * (entries / 4 + min(rows.d, rows.n) ** 3 / (120 * rows.n * entries))
    return [{"patience": max(FEW_LOOKS, looks)}]


def knows_features(H: Any) -> bool:
    """Whether a matrix is a view of one made from features, and not from a kernel that happens to have some."""
    return isinstance(H, Factored) or (hasattr(H, "inner") and knows_features(H.inner))
