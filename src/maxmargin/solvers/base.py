"""What every solver shares: its protocol and how it closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Protocol

import numpy as np

from ..goal import Goal
from ..gram import Ridged, Shifted, as_gram
from ..monitor import Monitor
from ..problem import QP
from ..rows import Rows
from ..solution import Certificate, Solution, Status
from .parts.constraints import Equality
from .parts.fixed_sums import Groups, feasible, pairs_keep

__all__ = [
    "GOAL",
    "Answer",
    "LinearForm",
    "Proofs",
    "Solver",
    "answer",
    "beginning",
    "better",
    "close",
    "first_point",
    "heed",
    "judged",
    "linear_form",
    "multipliers",
    "run",
    "spent",
    "starting_point",
]

GOAL = Goal(violation=1e-3)  # LIBSVM's default


class Solver(Protocol):
    """A dataclass whose fields are its options."""

    form: ClassVar[type]

    def solve(
        self, problem: Any, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start`` (feasible or not) under the eyes of ``monitor`` until a certificate meets the goal."""
        ...


def heed(objection: str | None) -> None:
    """Refuse a problem that a solver objects to."""
    if objection:
        raise ValueError(objection)


def spent(goal: Goal) -> Status:
    """Why a solver stops that has made as many steps as it may."""
    return Status.MAX_ITERATIONS if goal.max_iter > 0 else Status.EXHAUSTED


@dataclass(frozen=True)
class LinearForm:
    """H = Z Zᵀ + diag(ridge) + constant: what solvers that work on rows of features need."""

    rows: Rows
    ridge: np.ndarray | None
    constant: float  # a penalised bias


def linear_form(H: Any) -> LinearForm | None:
    """H as rows of features, or None. A constant stays a number: as one more feature it would be a copy of Z."""
    gram = as_gram(H)
    if isinstance(gram, (Shifted, Ridged)):
        inner = linear_form(gram.inner)
        if inner is None or (isinstance(gram, Shifted) and gram.constant < 0):
            return None
        if isinstance(gram, Shifted):
            return replace(inner, constant=inner.constant + gram.constant)
        return replace(inner, ridge=gram.ridge)
    factor = gram.factor()
    return None if factor is None else LinearForm(factor.rows, factor.ridge, 0.0)


@dataclass(frozen=True)
class Answer:
    """A point of a problem with its proof."""

    beta: np.ndarray
    eta: np.ndarray
    certificate: Certificate
    w: np.ndarray | None = None  # weights of their own, where Zᵀβ is not what a solver has found


def better(goal: Goal, one: Answer | None, other: Answer) -> Answer:
    """The answer that proves more of what is asked."""
    return other if one is None or goal.prefers(other.certificate, one.certificate) else one


def answer(qp: QP, goal: Goal, beta: np.ndarray, etas: Sequence[np.ndarray] = ()) -> Answer:
    """β, settled, with the first multipliers that prove what is asked, or those that prove most."""
    beta = qp.settled(beta)
    best: Answer | None = None
    for eta in _choices(qp, goal, beta, etas):
        other = Answer(beta, eta, qp.certificate(beta, eta))
        if best is None or other.certificate.gap < best.certificate.gap:
            best = other
        if goal.met(other.certificate):
            return other
    assert best is not None
    return best


def _choices(qp: QP, goal: Goal, beta: np.ndarray, etas: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Multipliers that are worth a certificate, which takes a dozen passes over all variables.

    Where multipliers are not unique, those half way between their limits come before a solver's own. They violate
    least, and balanced ones have the least gap: where that violation is too large none proves what is asked, and where
    one of both is asked for a solver's own prove no more.
    """
    H_beta = qp.times(beta)
    suited = multipliers(qp, beta, H_beta)
    if not pairs_keep(qp):
        yield from chain(etas, suited)
    elif not Groups.of(qp).can_balance(qp):
        yield from chain(suited, etas)
    else:
        midway = next(suited)
        hopeless = goal.violation < qp.violation(beta, qp.gradient(beta, midway, H_beta))
        if not hopeless:
            yield midway
        yield from suited
        if not hopeless and max(goal.violation, goal.gap) < np.inf:
            yield from etas


def multipliers(qp: QP, beta: np.ndarray, H_beta: np.ndarray) -> Iterator[np.ndarray]:
    """Multipliers that suit a β: such that it violates least, and then such that its gap is least."""
    groups = Groups.found(qp)
    if groups is None:
        equality = Equality.of(qp)
        yield equality.T.T @ equality.multipliers(qp, beta, H_beta)
        return
    yield groups.multipliers(qp, beta, H_beta)
    if groups.can_balance(qp):
        yield groups.balanced(qp, beta, H_beta)


class Proofs:
    """Answers to a problem, for parts, which know no solver."""

    def __init__(self, qp: QP, goal: Goal) -> None:
        self.qp, self.goal, self.spent = qp, goal, spent(goal)

    def of(self, beta: np.ndarray, eta: np.ndarray) -> Answer:
        """The answer at a point."""
        return answer(self.qp, self.goal, beta, [eta])

    def better(self, one: Answer | None, other: Answer) -> Answer:
        """The better of two answers; there may be none before."""
        return better(self.goal, one, other)


def first_point(qp: QP, start: np.ndarray | None = None) -> np.ndarray:
    """A feasible point near ``start``, or one of few coefficients, whose certificate costs next to nothing."""
    beta = np.zeros(qp.n) if start is None else np.asarray(start, np.float64)
    groups = Groups.found(qp)
    if groups is not None:
        return feasible(groups, beta, qp.lower, qp.upper, groups.sums)
    return Equality.of(qp).feasible(beta, qp.lower, qp.upper, qp.eps)


def starting_point(qp: QP, start: np.ndarray | None) -> np.ndarray:
    """What a solver has that is stopped before it has begun."""
    return qp.settled(first_point(qp, start))


def beginning(qp: QP, goal: Goal, start: np.ndarray | None, reason: Status, monitor: Monitor) -> Solution:
    """What there is when a solver is stopped before it has begun, looked at once."""
    beta = starting_point(qp, start)
    groups = Groups.found(qp)
    if groups is not None and groups.can_balance(qp):
        eta = groups.balanced(qp, beta, qp.times(beta))
    else:
        eta = next(multipliers(qp, beta, qp.times(beta)))
    found = Answer(beta, eta, qp.certificate(beta, eta))
    return close(qp, goal, found, reason, 1, monitor, as_gram(qp.H).evals)


def run(
    solver: Solver,
    qp: QP,
    goal: Goal,
    start: np.ndarray | None,
    monitor: Monitor,
    name: str = "",
    looks: bool = False,
) -> Solution:
    """What a solver finds, judged, and no worse than where it started from, whenever it was stopped.

    ``looks``: the limit of iterations, and their number, count looks at all rows in place of the solver's own steps.
    """
    pace = solver.pace(qp) if looks and hasattr(solver, "pace") else 1
    asked = goal if goal.max_iter <= 0 else replace(goal, max_iter=pace * goal.max_iter)
    found = judged(qp, asked, solver.solve(qp, asked, start, monitor))
    # To look at a start costs a product, which nobody needs who has got what was asked for.
    for origin in [None] if start is None or found.status.converged else [start, None]:
        better = _on_the_way(qp, goal, found, origin)
        if better is not None and (goal.met(better.certificate) or not found.status.converged):
            w = qp.weights(better.beta) if better.w is None else better.w
            found = judged(qp, goal, replace(found, beta=better.beta, multipliers=better.eta, w=w))
            monitor.end(found.n_iter, found.certificate, found.kernel_evals)
    return replace(found, n_iter=-(-found.n_iter // pace), solver=found.solver or name or type(solver).__name__)


def _on_the_way(qp: QP, goal: Goal, found: Solution, origin: np.ndarray | None) -> Answer | None:
    """A point on the line from a start (None: no coefficients) to a solution whose dual value is below the start's.

    Interior points, and coefficients that a primal method asks for, may be worse than none until late, but mostly by
    their size only. The objective along the line is a parabola, and kinks of ε|β| lie below the line between its ends.
    """
    beta, H_beta = found.beta, qp.times(found.beta)
    now = qp.objective(beta, H_beta)
    if origin is None:
        if now <= 0.0 or qp.b.any() or (qp.lower > 0.0).any() or (qp.upper < 0.0).any():
            return None
        first = H_first = np.zeros(qp.n)
    else:
        first = starting_point(qp, origin)
        H_first = qp.times(first)
        if now <= qp.objective(first, H_first):
            return None
    way = beta - first
    slope = float(way @ (H_first + qp.p) + qp.eps @ (np.abs(beta) - np.abs(first)))
    curvature = float(way @ (H_beta - H_first))
    length = max(-slope / curvature, 0.0) if curvature > 0.0 else 0.0
    choices = [answer(qp, goal, first)]
    if length > 0.0:
        choices.append(answer(qp, goal, qp.between(first, beta, length)))
    if found.w is not None and not goal.exact:  # the model is w, of which coefficients are only the bound
        best = choices[-1].beta
        choices.append(Answer(best, found.multipliers, qp.certificate(best, found.multipliers, found.w), found.w))
    return min(choices, key=lambda choice: choice.certificate.gap)


def judged(qp: QP, goal: Goal, solution: Solution) -> Solution:
    """A solution with the certificate that the problem gives it and the judge's word, whatever its solver says."""
    for problem in (qp, qp.exact()):  # an approximation may hide more than there is
        proof = problem.certificate(solution.beta, solution.multipliers, solution.w)
        if goal.met(proof) or problem is qp.exact() or not solution.certificate.gap < proof.gap:
            break
    status = goal.verdict(proof, solution.status)
    if proof is solution.certificate and status is solution.status:
        return solution
    return replace(solution, certificate=proof, status=status)


def close(
    qp: QP,
    goal: Goal,
    found: Answer,
    reason: Status,
    n_iter: int,
    monitor: Monitor,
    evals: int,
) -> Solution:
    """The solution of a solver that has stopped for a reason, judged by its certificate."""
    monitor.end(n_iter, found.certificate, evals)
    return Solution(
        beta=found.beta,
        multipliers=found.eta,
        certificate=found.certificate,
        status=goal.verdict(found.certificate, reason),
        n_iter=n_iter,
        seconds=monitor.seconds,
        kernel_evals=evals,
        history=monitor.history,
        w=qp.weights(found.beta) if found.w is None else found.w,
    )
