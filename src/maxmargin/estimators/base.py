"""What every machine does, with or without a kernel: solve its problems, say how it went, add its functions.

Conventions are scikit-learn's (the seven shared names take its parameters with its meanings); what is more is
the certificate of every fit, solvers by name, time limits, callbacks, threads and exact weights.
"""

from __future__ import annotations

import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from .. import threads as th
from ..formulations import Decision, Formulation, Samples, SemiParametric
from ..goal import FEASIBLE, Goal, nothing
from ..gram import Gram, KernelGram, products_of_parts
from ..monitor import Monitor, fit_began
from ..problem import QP
from ..solution import Certificate, Solution, Status
from ..solvers import SOLVERS, Auto, judged, starting_point
from .callbacks import Callbacks
from .objects import as_frame, plain
from .onnx import Exportable
from .parameters import MachineParameters
from .parametric import Parametric

__all__ = [
    "Machine",
    "Outcome",
    "Problem",
    "Solved",
    "certified_or_as_before",
    "dense",
    "side_by_side",
    "solved_as_published",
    "stacklevel",
]

F = TypeVar("F", bound=Callable)
T = TypeVar("T")

AGAIN, FINER = 3, 0.3  # tries, and the next tolerance, where a solution meets its goal and its published form does not
READ = ("kernel", "degree", "coef0", "parametric")  # parameters that predictions and files need, as the fit had them
LOOSE = 0.03  # relative gap from which on a model deserves a word, whether tol is met or not


def stacklevel() -> int:
    """How many calls are between a warning and the user's code."""
    level, frame = 1, sys._getframe(1)
    ours = ("maxmargin.", "contextlib")  # of which methods are decorated
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


def certified_or_as_before(fit: F) -> F:
    """For a method ``fit``: it begins as if it were the first, and one that fails before its model is certified leaves
    the estimator as it was.

    Half of the attributes would be the new ones: labels of classes that the old coefficients know nothing of, a number
    of features that compiled code would trust, functions that are added to a model that was fitted without any.

    Threads are ours from its first line to its last: BLAS threads take longer to meet than most of the products here
    take, and to hold them back takes as long as a small product, so that it is done once.
    """

    @wraps(fit)
    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        for name in before.get("_left", ()):  # by the last fit
            vars(self).pop(name, None)
        given = set(vars(self))
        try:
            with th.blas_limit(1):
                return fit(self, *args, **options)
        finally:  # Ctrl-C too, which a fit raises after it has kept its best model
            if "certificate_" in vars(self):
                self._left = set(vars(self)) - given - {"_starts_"}  # where a warm start begins
            else:
                vars(self).clear()
                vars(self).update(before)

    return fitted  # type: ignore[return-value]


def dense(matrix: Any) -> np.ndarray:
    """An attribute that is sparse where the data were, as an array."""
    return matrix.toarray() if sp.issparse(matrix) else np.atleast_2d(matrix)


@dataclass(frozen=True)
class Problem:
    """One binary or single problem of a fit: its rows of the training data and its targets."""

    formulation: Formulation
    rows: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    label: str = ""


@dataclass(frozen=True)
class Solved:
    """A problem with what was asked, its solution and the decision function on its rows."""

    problem: Problem
    qp: QP
    goal: Goal
    solution: Solution
    decision: Decision


def solved_as_published(
    solver: Auto, formulation: Formulation, qp: QP, goal: Goal, start: np.ndarray | None, monitor: Monitor
) -> tuple[Solution, Decision]:
    """A solution whose published form meets the goal as well, where tries with finer goals find one."""
    asked = goal
    for _ in range(AGAIN):
        solution = solver.solve(qp, asked, start, monitor)
        decision = formulation.decision(qp, solution)
        if not solution.status.converged or decision.coef is solution.beta:
            break  # what will be published is the solution itself
        if goal.met(qp.certificate(*formulation.point(qp, decision))):
            break
        asked, start = replace(asked, violation=FINER * asked.violation), solution.beta
    if qp.limits and solution.status.unasked and not goal.met(qp.certificate(*formulation.point(qp, decision))):
        other = solved_without_limits(solver, qp, goal, monitor)
        if other.status.converged:
            return other, formulation.decision(qp, other)
    return solution, decision


def solved_without_limits(solver: Auto, qp: QP, goal: Goal, monitor: Monitor) -> Solution:
    """A solution that no limit of Aβ was asked of; it has converged if it keeps them all the same.

    ν-SVR whose tube has no width reaches Σ (u − v) = ν Σ C by u and v that cancel, and the function is what rounding
    leaves of them; without that limit they are no larger than the function needs.
    """
    others = np.setdiff1d(np.arange(len(qp.A)), qp.limits)
    found = solver.solve(replace(qp, A=qp.A[others], b=qp.b[others], limits=()), goal, None, monitor)
    eta = np.zeros(len(qp.A))
    eta[others] = found.multipliers
    return judged(qp, goal, replace(found, multipliers=eta))


@dataclass(frozen=True)
class Begun:
    """A problem as a solver gets it."""

    problem: Problem
    qp: QP
    start: np.ndarray | None


def know_starts(gram: Gram, late: list[Begun], threads: int) -> None:
    """Have the matrices of problems whose turn has come too late know the products of what these begin with.

    All that is left to do there is to certify that, and together it takes one look at all samples (see together.py).
    """
    if not isinstance(gram, KernelGram) or gram.factor() is not None:
        return
    late = [one for one in late if one.start is not None or one.qp.b.any()]  # the others begin with no coefficients
    vectors = [one.qp.H.seen(starting_point(one.qp, one.start)) for one in late]
    rows = [one.problem.rows for one in late]
    for one, vector, product in zip(late, vectors, products_of_parts(gram, rows, vectors, threads), strict=True):
        matrix = one.qp.H
        while hasattr(matrix, "inner"):
            matrix = matrix.inner
        matrix.remember(vector, product)


def side_by_side(do: Callable[[int], T], numbers: Iterable[int], workers: int, monitor: Monitor) -> list[T]:
    """What ``do`` gives for each number, of as many at a time as there are workers."""
    if workers == 1:
        return [do(number) for number in numbers]
    with ThreadPoolExecutor(workers) as pool:
        alone = th.blas_limit(1)(do)  # what a thread wants is its own
        tasks = [pool.submit(alone, number) for number in numbers]
        try:
            for task in as_completed(tasks):
                task.result()
        except BaseException:  # nobody waits for the others: they are told to stop, or never begin
            monitor.stopped = Status.INTERRUPTED
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [task.result() for task in tasks]


@dataclass(frozen=True)
class Outcome:
    """All problems of a fit, and the monitor that watched them."""

    solved: list[Solved]
    monitor: Monitor
    started: float
    gram: Gram  # that the problems share


def _badness(found: Certificate) -> tuple[bool, float]:
    """The gap; that of an objective that is nothing comes after all that deserve a word, whatever share it is."""
    return found.relative_gap > LOOSE and not Goal(gap=LOOSE).met(found), found.relative_gap


class Machine(Exportable, Callbacks, MachineParameters, ABC):
    """Common part of all estimators; subclasses say which formulation they solve.

    A fit is solved, published and certified, in this order: the certificate is that of the attributes as ``predict``
    will use them, whatever a solver has said before.
    """

    _optional: tuple[str, ...] = ()  # parameters that may be None
    _parametric: Parametric | None = None  # the functions of a semi-parametric machine, once fitted
    _keeper: Callable[[int, np.ndarray], None] | None = None  # gets the coefficients of a problem now and then
    _frame: str = ""  # the library whose table X was in fit
    _of_fit: dict[str, Any] = {}  # the parameters of READ as the last fit had them

    def _unfitted(self) -> Self:
        """A machine with the same parameters, not with copies of them as ``clone`` makes: a callback is the user's."""
        return type(self)(**self.get_params(deep=False))

    def _keep_parameters(self) -> None:
        """What predictions read of the parameters stays as this fit has it: what is set later counts in the next."""
        self._of_fit = {name: getattr(self, name) for name in READ if hasattr(self, name)}

    def _as_fitted(self, name: str) -> Any:
        """A parameter of READ as the fit had it."""
        return self._of_fit.get(name, getattr(self, name))

    # -- parameters of the solver -------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of a solver that was passed are ``solver__working_set`` and the like."""
        params = super().get_params(deep)
        if deep and is_dataclass(self.solver) and not isinstance(self.solver, type):
            params |= {f"solver__{field.name}": getattr(self.solver, field.name) for field in fields(self.solver)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``solver__working_set=128`` makes a solver with that option, also of one that was named."""
        options = {name.partition("__")[2]: params.pop(name) for name in list(params) if name.startswith("solver__")}
        super().set_params(**params)
        if not options:
            return self
        solver = self.solver
        if isinstance(solver, str) and solver in SOLVERS:
            solver = SOLVERS[solver]()
        if not is_dataclass(solver) or isinstance(solver, type):
            raise ValueError(
                f"options of a solver ({', '.join(options)}) were asked for; found solver={solver!r}, which has none; "
                "name a solver of maxmargin.SOLVERS first, or pass one"
            )
        known = [field.name for field in fields(solver)]
        if lost := [name for name in options if name not in known]:
            raise ValueError(
                f"an option of {type(solver).__name__} was asked for; found {lost[0]!r}; choose "
                + ", ".join(repr(name) for name in known)
            )
        self.solver = replace(solver, **options)
        return self

    # -- solving ----------------------------------------------------------------------------------------

    @abstractmethod
    def _goal(self, problem: Problem) -> Goal:
        """What the parameters ask of a solution."""

    @abstractmethod
    def _solver(self) -> Auto:
        """The solver that the parameters name."""

    @abstractmethod
    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        """The decision function of a problem, and its weights if it has any, as the attributes say."""

    def _solve_all(self, make_gram: Callable[[int | None, Monitor], Gram], problems: list[Problem]) -> Outcome:
        """Solve the problems of a fit, side by side where there are several."""
        started = time.perf_counter()
        workers = min(th.count(self.n_jobs), len(problems))
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        solver = self._solver()

        def begun(number: int) -> Begun:
            problem = problems[number]
            whole = len(problem.rows) == gram.n
            qp = problem.formulation.qp(Samples(gram if whole else gram.take(problem.rows), problem.y, problem.weight))
            start = starts[number] if starts is not None and number < len(starts) else None
            return Begun(problem, qp, start if start is not None and len(start) == qp.n else None)

        def solve(number: int, one: Begun) -> Solved:
            problem, qp, goal, watch = one.problem, one.qp, self._goal(one.problem), monitor.part(one.problem.label)
            watch.keeper = None if self._keeper is None else partial(self._keeper, number)
            watch.function = None if self.callback is None else self._function_on_the_way(qp)
            solution, decision = solved_as_published(solver, problem.formulation, qp, goal, one.start, watch)
            watch.keep(solution.beta)
            self._look_at(qp, solution)
            return Solved(problem, qp, goal, solution, decision)

        def in_turn(number: int) -> Solved | None:
            late = len(problems) > 1 and monitor.stop_now() is not None
            return None if late else solve(number, begun(number))

        # Threads are ours: BLAS threads take longer to meet than most of the products here take.
        with self._monitor() as monitor, th.blas_limit(1):
            gram = make_gram(1 if workers > 1 else self.n_jobs, monitor)
            found = side_by_side(in_turn, range(len(problems)), workers, monitor)
            numbers = [number for number, one in enumerate(found) if one is None]
            late = dict(zip(numbers, side_by_side(begun, numbers, workers, monitor), strict=True))
            know_starts(gram, list(late.values()), workers)
            rest = iter(side_by_side(lambda number: solve(number, late[number]), late, workers, monitor))
        return Outcome([next(rest) if one is None else one for one in found], monitor, started, gram)

    def _monitor(self) -> Monitor:
        """Who watches this fit; its limit counts from the call of ``fit``."""
        return Monitor(self.time_limit, self.callback, bool(self.verbose), started=fit_began(self))

    @contextmanager
    def _once_more(self, before: Monitor) -> Iterator[Monitor]:
        """A monitor for what comes after the problems are solved: the same clock, and a stop is a stop for both."""
        with Monitor(None, self.callback, bool(self.verbose)) as monitor, th.blas_limit(1):
            monitor.started, monitor.deadline = before.started, before.deadline
            monitor.stopped, monitor.interrupted = before.stopped, before.interrupted
            yield monitor
        before.interrupted |= monitor.interrupted

    def _function_on_the_way(self, qp: QP) -> Callable[..., np.ndarray] | None:
        """Values at any points of coefficients and multipliers found so far, for callbacks that may ask for them."""
        return None

    def _look_at(self, qp: QP, solution: Solution) -> None:
        """Nothing to say of a solution, unless a machine has something."""

    # -- certifying what was published --------------------------------------------------------------------

    @th.blas_limit(1)
    def _certify(self, outcome: Outcome) -> None:
        """Prove how good the published attributes are, and say so; the last step of every fit."""
        judgements = []
        for number, solved in enumerate(outcome.solved):
            published, w = self._published(number, solved)
            beta, eta = solved.problem.formulation.point(solved.qp, published)
            judgements.append(judged(solved.qp, solved.goal, replace(solved.solution, beta=beta, multipliers=eta, w=w)))
        self._announce(
            [found.certificate for found in judgements],
            [found.status for found in judgements],
            [found.solver for found in judgements],
            [found.history for found in judgements],
            [s.solution.beta for s in outcome.solved],
            outcome.monitor,
            outcome.started,
        )

    def _announce(
        self,
        certificates: list[Certificate],
        statuses: list[Status],
        solvers: list[str],
        histories: list,
        starts: Sequence[np.ndarray],
        monitor: Monitor,
        started: float,
    ) -> None:
        """The attributes that tell how the fit went, a warning if there is something to warn of, and Ctrl-C."""
        self._keep_parameters()
        self.certificates_ = certificates
        unfinished = [k for k, status in enumerate(statuses) if not status.converged]
        worst = max(unfinished or range(len(statuses)), key=lambda k: _badness(certificates[k]))
        self.certificate_: Certificate = certificates[worst]
        self.status_ = statuses[worst]
        self.fit_status_ = int(bool(unfinished))
        self.solvers_ = solvers
        self.solver_ = max(dict.fromkeys(solvers), key=solvers.count)
        self.history_ = histories[0] if len(histories) == 1 else histories
        if self.warm_start:
            self._starts_ = starts
        if self._keeper is not None:
            for number, beta in enumerate(starts):
                self._keeper(number, beta)
        self.fit_time_ = time.perf_counter() - started
        self._speak()
        monitor.raise_interrupt()

    _stops_on_gap = False  # whether tol is a relative gap

    def _speak(self) -> None:
        """A warning if the model is not what was asked for, or if what was asked for proves little."""
        found, name = self.certificate_, type(self).__name__
        # Where 0 may be the best value, the dual proves no more than that, and what is above it is rounding.
        little = nothing(found) and found.dual > 0.0
        fine = found.relative_gap <= LOOSE or (not little and (self._stops_on_gap or Goal(gap=LOOSE).met(found)))
        if self.status_.converged and fine:
            return
        gap = f"{found.relative_gap:.2g}" if found.relative_gap < 1e-4 else f"{100 * found.relative_gap:.3g} %"
        if self.status_.converged:
            words = (
                f"{name}: tol={self.tol:g} is met, as LIBSVM means it, but that proves little here: the objective "
                f"may be {gap} above the best one; lower tol, or scale the features"
            )
            if little:
                words = (
                    f"{name}: tol={self.tol:g} is met, but the objective is next to nothing beside that of f = 0, and "
                    f"{gap} of it may be rounding; scale the features and the weights, unless a perfect fit is expected"
                )
            if getattr(self, "C", 1.0) == np.inf and not np.isfinite(found.gap):
                words = (
                    f"{name}: C=inf was asked for, and tol={self.tol:g} is met; found errors of the size of rounding, "
                    "which cost infinitely much, so that no gap is proven; give a finite C above the coefficients (the "
                    f"largest is {np.abs(dense(self.dual_coef_)).max():.3g}): that is the same machine"
                )
            warnings.warn(words, ConvergenceWarning, stacklevel=stacklevel())
            return
        advice = (
            "The model can be used as it is."
            if Goal(gap=LOOSE).met(found)
            else "The model may be far from the best one; do not rely on it."
        )
        missed = (
            ""
            if found.infeasibility <= FEASIBLE
            else (
                f"Constraints are missed by {found.infeasibility:.1g} of their terms, so that the gap bounds nothing. "
            )
        )
        warnings.warn(
            f"{name} stopped early: {self.status_.value}. The gap is {gap} of the objective, the violation "
            f"{found.violation:.3g}, tol {self.tol:g}. {missed}{advice}",
            ConvergenceWarning,
            stacklevel=stacklevel(),
        )

    # -- telling ----------------------------------------------------------------------------------------

    def report(self, path: Any, X: Any, y: Any = None) -> None:
        """Write a page about this machine and how it does on samples X with targets y: one HTML file.

        Parameters
        ----------
        path : where to write it
        X, y : samples and their targets, those of the training or others; a one-class machine needs no y
        """
        from ..report import write_report

        write_report(self, path, X, y)

    # -- parametric functions ---------------------------------------------------------------------------

    def _fit_functions(self, X: Any, y: Any, weight: np.ndarray) -> np.ndarray | None:
        """φ at the samples (n, k), or None for a machine without parametric functions."""
        if getattr(self, "parametric", None) is None:
            return None
        self._parametric = Parametric.fit(self.parametric, self._as_given(X), y, weight)
        phi = self._functions_of(X)
        self._parametric.settle(phi.shape[1])
        return phi

    def _with_functions(self, formulation: Formulation, phi: np.ndarray | None, label: str = "") -> Formulation:
        """A formulation with the functions' values at its samples, checked to be independent."""
        if phi is None:
            return formulation
        assert self._parametric is not None
        self._parametric.check_independent(phi, getattr(self, "fit_intercept", True), label)
        return SemiParametric(formulation, np.ascontiguousarray(phi.T))

    def _functions_of(self, X: Any) -> np.ndarray:
        """φ at the samples (n, k)."""
        assert self._parametric is not None
        return self._parametric(self._as_given(X))

    def _as_given(self, X: Any) -> Any:
        """Checked samples as functions get them: with the names of their columns where fit had a table with names."""
        if self._frame and isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_"):
            return as_frame(X, self.feature_names_in_, self._frame)
        return plain(X)

    @th.blas_limit(1)
    def _functions_at(self, X: Any) -> np.ndarray | float:
        """Σ_j parametric_coef_j φ_j(x) for each sample and problem, or 0 without functions."""
        if self._parametric is None:
            return 0.0
        return self._functions_of(X) @ np.atleast_2d(self.parametric_coef_).T
