"""What every machine does, with or without a kernel: solve its problems, say how it went, add its functions.

Conventions are scikit-learn's (the seven shared names take its parameters with its meanings); what is more is
the certificate of every fit, solvers by name, time limits, callbacks, threads and exact weights.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .. import threads as th
from ..formulations import Decision, Formulation, SemiParametric
from ..gram import Gram
from ..monitor import Monitor
from ..problem import ERM, QP
from ..solution import Certificate, Solution, Status
from ..solvers import SOLVERS
from . import choice
from .parametric import Parametric

__all__ = ["Machine", "Problem", "Solved", "stacklevel"]


BETTER = 1e-3  # of a tolerance that was met and did not do


def stacklevel() -> int:
    """How many calls are between a warning and the user's code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("maxmargin."):
        level, frame = level + 1, frame.f_back
    return level


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
    """A problem with its solution and the decision function on its rows."""

    problem: Problem
    solution: Solution
    decision: Decision


class Machine(BaseEstimator):
    """Common part of all estimators; subclasses say which formulation they solve."""

    _optional: tuple[str, ...] = ()  # parameters that may be None
    _parametric: Parametric | None = None  # the functions of a semi-parametric machine, once fitted

    # -- solving ----------------------------------------------------------------------------------------

    _exact = True  # whether every coefficient matters, or only what they add up to

    def _options(self, qp: QP, name: str) -> dict:
        """What the parameters say, in the words of solvers."""
        raise NotImplementedError

    def _candidates(self, qp: QP) -> tuple[str, ...]:
        """Solvers by name, each for the case that those before do not get there."""
        names = choice.auto(qp, self._exact) if self.solver == "auto" else (self.solver,)
        return tuple(name for name in names if name in SOLVERS)

    def _solve(self, qp: QP, erm: Callable[[], ERM], start: np.ndarray | None, monitor: Monitor) -> Solution:
        """One problem, solved with the solver that the parameters name."""
        if not isinstance(self.solver, str):
            self.solver_ = type(self.solver).__name__
            return self._run_solver(self.solver, qp, erm, start, monitor)
        best, steps = None, 0
        names = self._candidates(qp)
        for number, name in enumerate(names):
            last = number == len(names) - 1
            options = self._options(qp, name) | ({} if last else choice.trial(name, qp))
            if best is not None and best.status.converged:  # but not enough: the next one has to do better
                options["tol"] *= BETTER
            warm = start if best is None or choice.cold(name, qp) else best.beta
            solution = self._reach(name, qp, erm, warm, monitor, options)
            steps += solution.n_iter
            if best is None or self._worth(solution) <= self._worth(best):
                best, self.solver_ = solution, name
            if self._enough(solution):
                break
        return replace(best, n_iter=steps)

    def _enough(self, solution: Solution) -> bool:
        """Whether there is nothing left to do, or no more to be done."""
        return solution.status not in (Status.MAX_ITERATIONS, Status.STALLED)

    def _worth(self, solution: Solution) -> tuple:
        """Less is better."""
        return not solution.status.converged, solution.certificate.gap

    def _reach(self, name: str, qp: QP, erm: Callable[[], ERM], start, monitor: Monitor, options: dict) -> Solution:
        """A solution by one solver with these options."""
        return self._run_solver(choice.make(name, options), qp, erm, start, monitor)

    def _run_solver(self, solver, qp: QP, erm: Callable[[], ERM], start, monitor: Monitor) -> Solution:
        if getattr(solver, "form", QP) is QP:
            return solver.solve(qp, start, monitor)
        problem = erm()
        if problem is None:
            raise ValueError(
                f"solver={self.solver!r} was asked for; found that {type(self).__name__} has no primal form, which it "
                "works on; use a solver of the dual, such as 'decomposition', 'mpd' or 'interior-point'"
            )
        return solver.solve(problem, start, monitor)

    def _solve_all(self, make_gram: Callable[[int | None], Gram], problems: list[Problem]) -> list[Solved]:
        """Solve the problems of a fit, side by side where there are several."""
        started = time.perf_counter()
        workers = min(th.count(self.n_jobs), len(problems))
        starts = getattr(self, "_starts_", None) if self.warm_start else None

        def solve(number: int, gram: Gram, monitor: Monitor) -> Solved:
            problem = problems[number]
            whole = len(problem.rows) == gram.n
            data = (gram if whole else gram.take(problem.rows), problem.y, problem.weight)
            qp = problem.formulation.qp(*data)
            known = starts is not None and number < len(starts) and len(starts[number]) == qp.n
            start = starts[number] if known else None
            erm = getattr(problem.formulation, "erm", None)
            solution = self._solve(qp, lambda: None if erm is None else erm(*data), start, monitor)
            self._look_at(qp, solution)
            return Solved(problem, solution, problem.formulation.decision(qp, solution))

        # Threads are ours: BLAS threads take longer to meet than most of the products here take.
        with Monitor(self.time_limit, self.callback, bool(self.verbose)) as monitor, th.blas_limit(1):
            gram = make_gram(1 if workers > 1 else self.n_jobs)
            if workers == 1:
                solved = [solve(k, gram, monitor.part(p.label)) for k, p in enumerate(problems)]
            else:
                with ThreadPoolExecutor(workers) as pool:
                    tasks = [pool.submit(solve, k, gram, monitor.part(p.label)) for k, p in enumerate(problems)]
                    solved = [task.result() for task in tasks]
        self._conclude(solved, time.perf_counter() - started)
        return solved

    def _look_at(self, qp: QP, solution: Solution) -> None:
        """Nothing to say of a solution, unless a machine has something."""

    def _conclude(self, solved: list[Solved], seconds: float) -> None:
        """The attributes that tell how the fit went, and a warning if it did not converge."""
        solutions = [s.solution for s in solved]
        self.certificates_ = [s.certificate for s in solutions]
        self.certificate_: Certificate = max(self.certificates_, key=lambda c: c.relative_gap)
        unfinished = [s.status for s in solutions if not s.status.converged]
        self.status_ = unfinished[0] if unfinished else Status.CONVERGED
        self.fit_status_ = int(bool(unfinished))
        self.fit_time_ = seconds
        histories = [s.history for s in solutions]
        self.history_ = histories[0] if len(histories) == 1 else histories
        if self.warm_start:
            self._starts_ = [s.solution.beta for s in solved]
        if unfinished:
            worst = self.certificate_
            warnings.warn(
                f"{type(self).__name__} stopped early: {self.status_.value}. Gap {worst.gap:.3g} "
                f"({worst.relative_gap:.2g} of the objective), violation {worst.violation:.3g}, tol {self.tol:g}. "
                "The model can be used as it is.",
                ConvergenceWarning,
                stacklevel=stacklevel(),
            )

    # -- parametric functions ---------------------------------------------------------------------------

    def _fit_functions(self, X, y, weight: np.ndarray) -> np.ndarray | None:
        """φ at the samples (n, k), or None for a machine without parametric functions."""
        self._parametric = None
        if hasattr(self, "parametric_coef_"):  # of an earlier fit
            del self.parametric_coef_
        if getattr(self, "parametric", None) is None:
            return None
        self._parametric = Parametric.fit(self.parametric, X, y, weight)
        phi = self._functions_of(X)
        self._parametric.settle(phi.shape[1])
        return phi

    def _with_functions(self, formulation: Formulation, phi: np.ndarray | None, label: str = "") -> Formulation:
        """A formulation with the functions' values at its samples, checked to be independent."""
        if phi is None:
            return formulation
        self._parametric.check_independent(phi, getattr(self, "fit_intercept", True), label)
        return SemiParametric(formulation, np.ascontiguousarray(phi.T))

    def _functions_of(self, X) -> np.ndarray:
        """φ at the samples (n, k)."""
        return self._parametric(X)

    def _functions_at(self, X) -> np.ndarray | float:
        """Σ_j parametric_coef_j φ_j(x) for each sample and problem, or 0 without functions."""
        if self._parametric is None:
            return 0.0
        return self._functions_of(X) @ np.atleast_2d(self.parametric_coef_).T
