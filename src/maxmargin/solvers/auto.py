"""Which solver for which problem: the choice is a solver itself.

| the problem                                        | solvers, each for the case that those before fall short      |
| -------------------------------------------------- | ------------------------------------------------------------ |
| a factor of low rank stands for the kernel          | interior point; mpd, whose products with it cost next to      |
|                                                    | nothing and mend single violations; then the kernel itself    |
| a relation (Potential SVM)                         | columns: few of them are used; then as a kernel               |
| a kernel, pairs of variables keep Aβ = b            | decomposition; where the matrix fits, the interior method once |
|                                                    | pair steps cost more, and pair steps again                    |
| a kernel, other constraints (parametric functions)   | mpd; up to some thousand variables the interior method        |
| features, a smooth loss, up to some hundred of them  | Newton: a step costs little more than a sweep; interior point |
| features, a smooth loss, more of them                | sweeps, Newton with products                                  |
| features, a tiny problem                            | decomposition, which is exact there                           |
| features on disk, a long problem                     | interior point: few passes, least memory for each row         |
| features, else                                      | sweeps for as long as the interior method would take; interior |
|                                                    | point where features are so unequal that they crawl; where    |
|                                                    | that stalls (separable data, a huge cost), sweeps without end |

A solver falls short when the judge says so (goal.py). Each starts from what the one before has left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from ..goal import Goal
from ..gram import Factored, Gram, Relation, low_rank
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import GOAL, judged, linear_form
from .interior_point import screens
from .parts.fixed_sums import pairs_keep

__all__ = ["Auto", "knows_features", "low_rank_or_not"]

NEWTON_UP_TO = 300  # features: up to here a Newton step costs little more than a sweep over the rows
FACTOR_UP_TO = 3000  # features or samples, whichever are fewer: up to here the interior method takes seconds
DENSE_UP_TO = 3000  # variables: up to here it takes a kernel matrix as a whole
MATRIX_UP_TO = 600  # variables: up to here decomposition has the matrix at hand, and is exact
TINY = 100  # variables: up to here that takes no longer than anything else
MANY_STEPS = 10_000  # pair steps a variable where all else has failed
PAIR_STEPS = 100  # a variable before factorising, at least: most problems are solved by fewer
FEW_LOOKS = 12.0  # at each row by sweeps before factorising, at least, and if it goes on from them at most
FACTORS = 8  # factorisations that an interior method may take, whose cost in sweeps is worth the wait for them
HOPE = 0.3  # relative gap after the first few sweeps that leaves some, if there is another solver

LOW_RANK_FROM, LOW_RANK_UP_TO = 5000, 100  # samples, rank: between them the interior method beats decomposition
PARAMETRIC_FROM, PARAMETRIC_UP_TO = 1000, 400  # and mpd, which takes longer
PROBE_ROWS = 1000  # of a kernel that tell whether it may be of low rank:
PROBE_ERROR, PROBE_RANK = 0.2, 64  # share of the trace that so few columns may lack then
LOW_RANK_ERROR = 1e-12  # of the trace: hides less than a tolerance can see

EXACT = 1e-12  # relative gap: violations that are left then are rounding
FINAL = (Status.MAX_ITERATIONS, Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK, Status.UNBOUNDED)


@dataclass(frozen=True)
class Try:
    """A solver's turn."""

    name: str
    options: dict = field(default_factory=dict)
    cold: bool = False  # it would rather start from the middle than from where the one before got stuck


@dataclass
class Auto:
    """The solver that suits a problem, and others where it falls short; or the one that is named."""

    solver: Any = "auto"  # a name, or a solver
    looks: bool = False  # the limit of iterations counts looks at all rows, not a solver's own steps
    options: dict = field(default_factory=dict)  # for those solvers that have them

    form: ClassVar[type] = QP

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve with one solver after the other, until one meets the goal."""
        monitor = monitor or Monitor()
        if not isinstance(self.solver, str):
            return self._run(self.solver, type(self.solver).__name__, qp, goal, start, monitor)
        best, steps = None, 0
        problem = qp
        while True:
            plan = plan_for(problem, goal) if self.solver == "auto" else [Try(self.solver)]
            for turn in plan:
                warm = start if best is None else None if turn.cold else best.beta
                found = self._run(self._make(turn), turn.name, problem, goal, warm, monitor)
                steps += found.n_iter
                if best is None or found.status.converged or found.certificate.gap < best.certificate.gap:
                    best = found
                spent = best.certificate.relative_gap <= EXACT  # no other has anything left to gain
                if best.status.converged or found.status in FINAL or spent:
                    status = best.status if best.status.converged or spent else found.status
                    return replace(best, status=status, n_iter=steps)
            if problem.exact() is problem or self.solver != "auto":
                return replace(best, n_iter=steps)
            problem = problem.exact()

    def _make(self, turn: Try):
        from . import SOLVERS

        known = {f.name for f in fields(SOLVERS[turn.name])}
        return SOLVERS[turn.name](**{k: v for k, v in (self.options | turn.options).items() if k in known})

    def _run(self, solver, name: str, qp: QP, goal: Goal, start, monitor: Monitor) -> Solution:
        pace = solver.pace(qp) if self.looks and hasattr(solver, "pace") else 1
        asked = replace(goal, max_iter=pace * goal.max_iter) if goal.max_iter > 0 else goal
        found = judged(qp, asked, solver.solve(qp, asked, start, monitor))
        return replace(found, n_iter=-(-found.n_iter // pace), solver=found.solver or name)


def plan_for(qp: QP, goal: Goal) -> list[Try]:
    """The table above."""
    if qp.exact() is not qp:
        return [Try("interior-point"), Try("mpd")]
    if isinstance(qp.H, Relation) and not len(qp.A):
        return [Try("columns"), *kernel_plan(qp)]
    if not knows_features(qp.H):
        return kernel_plan(qp)
    form = linear_form(qp.H)
    interior = Try("interior-point", cold=not screens(qp))
    if form.ridge is not None:
        return [Try("newton"), interior] if form.rows.d <= NEWTON_UP_TO else [Try("sor"), Try("newton")]
    if qp.n <= (MATRIX_UP_TO if goal.exact else TINY) and pairs_keep(qp.A):
        return [Try("decomposition", pair_trial(qp)), interior, Try("sor")]
    if form.rows.stored and screens(qp):
        return [interior]
    if min(form.rows.n, form.rows.d) <= FACTOR_UP_TO:
        return [Try("sor", trial(qp)), interior, Try("sor")]
    return [Try("sor")]


def kernel_plan(qp: QP) -> list[Try]:
    """The part of the table for matrices that are read by rows."""
    dense = qp.n <= DENSE_UP_TO
    if not pairs_keep(qp.A):
        return [Try("mpd"), Try("interior-point")] if dense else [Try("mpd")]
    if not dense:
        return [Try("decomposition"), Try("decomposition", {"merging": False, "growing": False}), Try("mpd")]
    return [
        Try("decomposition", pair_trial(qp)),
        Try("interior-point", cold=True),
        Try("decomposition", {"patience": MANY_STEPS}),
    ]


def pair_trial(qp: QP) -> dict:
    """How long pair steps may take where the interior method has the matrix: twenty factorisations of n³/3 products
    take about as long as n²/4 steps over all n variables, and four times that is worth the wait."""
    return {"patience": max(PAIR_STEPS, qp.n)}


def trial(qp: QP) -> dict:
    """How long sweeps may take for which there is another solver: as many looks at a row as cost what that does."""
    if screens(qp):
        return {"hope": HOPE, "patience": FEW_LOOKS}
    rows = linear_form(qp.H).rows
    entries = max(1.0, rows.work / rows.n)  # of a row: its part of a normal matrix, and of the factorisation, in sweeps
    looks = FACTORS * (entries / 4 + min(rows.d, rows.n) ** 3 / (120 * rows.n * entries))
    return {"patience": max(FEW_LOOKS, looks)}


def low_rank_or_not(gram: Gram, parametric: bool) -> Gram:
    """A factor in place of a kernel matrix that is numerically of low rank, or the matrix."""
    least, most = (PARAMETRIC_FROM, PARAMETRIC_UP_TO) if parametric else (LOW_RANK_FROM, LOW_RANK_UP_TO)
    if gram.n < least:
        return gram
    some = np.linspace(0, gram.n - 1, min(gram.n, PROBE_ROWS)).astype(np.int64)
    if low_rank(gram.take(some), PROBE_ERROR, PROBE_RANK) is None:
        return gram
    return low_rank(gram, LOW_RANK_ERROR, most) or gram


def knows_features(H) -> bool:
    """Whether a matrix is a view of one made from features, and not from a kernel that happens to have some."""
    return isinstance(H, Factored) or (hasattr(H, "inner") and knows_features(H.inner))
