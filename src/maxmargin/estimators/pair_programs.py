"""The programs of many small problems at once, laid end to end, and the decision functions of their solutions.

What ``formulation.qp`` and ``formulation.decision`` say of one problem, in a few operations on arrays for all of them:
300 classes make 44 850 problems, and an object for each takes longer than their solution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..formulations import CSVC, Formulation, NuSVC, Samples, SemiParametric
from ..formulations.nu_svc import roundings
from ..gram import Gram, PrecomputedGram
from ..solution import History, Solution
from ..solvers.parts.small_problems import SmallProblems, SmallSolutions

__all__ = ["Decisions", "closed_programs", "decisions", "keeps_zero", "largest_nus", "programs"]

NO_MATRIX = np.zeros((0, 0))  # programs know which rows of a matrix they need; the solver has it


@dataclass(frozen=True)
class Decisions:
    """f(x) = Σ coef_i k(x_i, x) + intercept for each problem, the coefficients laid end to end."""

    coef: np.ndarray
    intercept: np.ndarray
    found: np.ndarray  # the margin of a ν-SVC, 0 for others
    plain: np.ndarray  # whether it is the solution as it was found, but for its scale
    scale: np.ndarray  # of the coefficients that are plain, by those of the solution


def programs(
    formulation: Formulation, points: np.ndarray, y: np.ndarray, weight: np.ndarray, starts: np.ndarray
) -> SmallProblems:
    """The programs of problems with the samples starts[q] … starts[q + 1] each."""
    if isinstance(formulation, CSVC):  # whose p, box and ridge belong to one sample each, whatever problem it is in
        qp = formulation.qp(Samples(PrecomputedGram(NO_MATRIX, points), y, weight))
        columns = np.ones((len(qp.A), len(qp.A)))
        ridge = np.zeros(0) if qp.H.ridge is None else qp.H.ridge
        sums = np.zeros((len(starts) - 1, len(qp.A)))
        return SmallProblems(starts, points, qp.p, qp.lower, qp.upper, columns, sums, ridge=ridge)
    if isinstance(formulation, NuSVC) and formulation.clip and formulation.fit_intercept:
        return _nu_programs(formulation, points, y, weight, starts)
    laid = SmallProblems.of(
        [
            formulation.qp(Samples(PrecomputedGram(NO_MATRIX, points[a:b]), y[a:b], weight[a:b]))
            for a, b in zip(starts[:-1], starts[1:], strict=True)
        ]
    )
    assert laid is not None  # they share a matrix, and their formulation
    return laid


def closed_programs(
    formulation: Formulation, problems: SmallProblems, y: np.ndarray, weight: np.ndarray, own: np.ndarray
) -> SmallProblems:
    """Problems as often as y and weights are long, without the samples ``own``, whose boxes are closed.

    That is ``folds.closed`` of one problem.
    """
    times, n = len(own) // len(problems.points), len(problems.points)
    starts = np.concatenate([[0], (problems.starts[1:] + n * np.arange(times)[:, None]).ravel()])
    points = np.tile(problems.points, times)
    if isinstance(formulation, CSVC):  # whose programs belong to the samples: they are known
        p, ridge = np.tile(problems.p, times), np.tile(problems.ridge, times)
        lower, upper = (np.where(own, 0.0, np.tile(a, times)) for a in (problems.lower, problems.upper))
        sums = np.tile(problems.sums, (times, 1))
        return SmallProblems(starts, points, p, lower, upper, problems.columns, sums, ridge=ridge)
    found = programs(formulation, points, y, np.where(own, 0.0, weight) if keeps_zero(formulation) else weight, starts)
    return replace(found, lower=np.where(own, 0.0, found.lower), upper=np.where(own, 0.0, found.upper))


def keeps_zero(formulation: Formulation) -> bool:
    """Whether a formulation takes weights of 0: a squared loss has their reciprocals on the diagonal."""
    machine = formulation.machine if isinstance(formulation, SemiParametric) else formulation
    return getattr(machine, "loss", "hinge") in ("hinge", "epsilon_insensitive", "quantile")


def largest_nus(y: np.ndarray, weight: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """``NuSVC.largest_nu`` of each problem."""
    positive = np.add.reduceat(np.where(y > 0, weight, 0.0), starts[:-1])
    negative = np.add.reduceat(np.where(y > 0, 0.0, weight), starts[:-1])
    both = positive + negative  # 0 where all of a pair are in the fold that is left out
    return 2.0 * np.minimum(positive, negative) / np.where(both > 0.0, both, 1.0)


def _nu_programs(
    formulation: NuSVC, points: np.ndarray, y: np.ndarray, weight: np.ndarray, starts: np.ndarray
) -> SmallProblems:
    """As ``NuSVC.qp``: Σα = ν Σw for each."""
    nu = np.minimum(formulation.nu, largest_nus(y, weight, starts))
    half = 0.5 * (nu * np.add.reduceat(weight, starts[:-1]))[:, None]
    return SmallProblems(
        starts,
        points,
        np.zeros(len(y)),
        np.where(y > 0, 0.0, -weight),
        np.where(y > 0, weight, 0.0),
        np.array([[1.0, 1.0], [-1.0, 1.0]]),  # the columns (1, y) of both classes
        np.hstack([-half, half]),
        group=y > 0,
    )


def decisions(
    formulation: Formulation, problems: SmallProblems, solutions: SmallSolutions, y: np.ndarray, gram: Gram
) -> Decisions:
    """The decision functions of all problems; ``gram`` is the matrix that they share."""
    count = len(problems)
    if isinstance(formulation, CSVC):
        intercept = solutions.multipliers[:, 0] if formulation.fit_intercept else np.zeros(count)
        return Decisions(solutions.beta, intercept, np.zeros(count), np.ones(count, bool), np.ones(count))
    coef, plain = np.empty(len(solutions.beta)), np.zeros(count, bool)
    out = Decisions(coef, np.empty(count), np.empty(count), plain, np.ones(count))
    out.plain[:] = _fill_plain(formulation, problems, solutions, y, gram, out)
    for q in np.flatnonzero(~out.plain).tolist():
        at = slice(problems.starts[q], problems.starts[q + 1])
        proof, status = solutions.certificate(q), solutions.status(q)
        solution = Solution(solutions.beta[at], solutions.multipliers[q], proof, status, 1, 0.0, 0, History())
        one = formulation.decision(problems.qp(q, gram), solution)
        out.coef[at], out.intercept[q], out.found[q] = one.coef, one.intercept, one.found
    return out


def _fill_plain(
    formulation: Formulation,
    problems: SmallProblems,
    solutions: SmallSolutions,
    y: np.ndarray,
    gram: Gram,
    out: Decisions,
) -> np.ndarray:
    """Fill in the decisions of a ν-SVC whose multipliers are unique; which these are."""
    if not (isinstance(formulation, NuSVC) and formulation.fit_intercept):
        return np.zeros(len(problems), bool)
    bias, rho = solutions.multipliers[:, 0], -solutions.multipliers[:, 1]
    starts = problems.starts[:-1]
    wide = rho > roundings(gram.diag()[problems.points], solutions.beta, starts)
    out.scale[:] = 1.0 / np.where(wide, rho, 1.0)
    out.coef[:] = solutions.beta * np.repeat(out.scale, problems.sizes)
    out.intercept[:], out.found[:] = bias * out.scale, rho
    full = np.abs(solutions.beta) >= np.maximum(-problems.lower, problems.upper)
    one_sided = np.logical_and.reduceat(full | (y < 0), starts) != np.logical_and.reduceat(full | (y > 0), starts)
    return ~one_sided & wide
