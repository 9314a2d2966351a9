"""Decisions of machines that have not seen the samples: five folds, each decided by a machine fitted to the others.

A calibration is fitted to such decisions. Copies of a sample are in the same fold, which is chosen by what a sample is
and not by where it stands.

Machines of folds start from the coefficients of the fit. Those of C-SVC on points whose rows may be made one at a time
are found by a leaf (folds_by_rows.py), others together (fold_machines.py) where few samples have coefficients. Where
more have, one pass over the matrix takes the coefficients of each fold away. What changes then is found with the rows
of coefficients that change, most of them near the margin, and a product, which decides the folds, shows what was
missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import memory
from ..formulations import CSVC, Formulation, Samples, SemiParametric
from ..goal import Goal
from ..gram import Gram, PrecomputedGram
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solvers import Auto, knows_features
from ..solvers.parts.reach import pair_patience
from ..solvers.parts.small_problems import BATCH_POINTS
from .base import Problem, Solved
from .fold_machines import FoldMachines, by_distance, wants_wide
from .folds_by_rows import decided_by_rows
from .pair_programs import keeps_zero
from .row_hashes import place_hashes, row_hashes

__all__ = ["ENTRIES", "FOLDS", "Solving", "each", "enough", "fold_numbers", "out_of_fold", "seed_of", "without_copies"]

FOLDS = 5  # as in LIBSVM
LOOSER, ENOUGH = 10.0, 0.01  # times tol, but no more than a hundredth of the margin: violations of machines of folds
ROWS, SPARE = 2, 20  # times as many rows as a fit has coefficients, and some more, are enough for machines of folds
HALF = 2  # of the samples, the nearest to the margin, have coefficients that may change at first
ENTRIES = 1 << 20  # variables of folds that are solved for at a time


# -- folds ------------------------------------------------------------------------------------------------------------


def seed_of(random_state: Any) -> int:
    """A seed; None stands for 0: the same folds every time."""
    return 0 if random_state is None else int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def fold_numbers(X: Any, groups: np.ndarray, weight: np.ndarray, seed: int, by_content: bool = True) -> np.ndarray:
    """A fold for each sample: in each group (a class) the folds are of equal weight, and copies are never parted.

    Samples are put in the order of a hash of their numbers, or of their place where they are no numbers.
    """
    n = len(groups)
    key = row_hashes(X, seed) if by_content else place_hashes(n, seed)
    folds = np.empty(n, np.int64)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        _, first, copies = np.unique(key[own], return_index=True, return_inverse=True)
        mass = np.bincount(copies, weight[own], len(first))
        middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        folds[own] = np.minimum((FOLDS * middle).astype(np.int64), FOLDS - 1)[copies]
    return folds


def without_copies(X: Any, labels: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One of each kind of sample, in the order of their hashes: its number, its label and the weight of all of them."""
    key = row_hashes(X, 0)
    order = np.lexsort((labels, key))
    new = np.r_[True, (np.diff(key[order]) != 0) | (np.diff(labels[order]) != 0)]
    first, kind = order[new], np.empty(len(labels), np.int64)
    kind[order] = np.cumsum(new) - 1
    twin = np.flatnonzero(first[kind] != np.arange(len(kind)))
    difference = X[twin] - X[first[kind[twin]]]
    same = not (abs(difference).max() > 0.0 if len(twin) else False)
    if not same:  # two hashes that are equal by chance
        return np.arange(len(labels)), labels, weight
    return first, labels[first], np.bincount(kind, weight, len(first))


# -- decisions of machines that have not seen the samples --------------------------------------------------------------


@dataclass(frozen=True)
class Solving:
    """What the machines of the folds share with the fit."""

    gram: Gram
    solver: Auto
    goal: Callable[[Problem], Goal]
    monitor: Monitor
    workers: int
    classes: bool  # whether targets are two classes, of which a machine needs both


def out_of_folds(solving: Solving, solved: Sequence[Solved], folds: np.ndarray) -> list[np.ndarray]:
    """What ``out_of_fold`` gives for each of several problems; ``folds`` are those of all samples."""
    parts = [folds[one.problem.rows] for one in solved]
    decided = [_without_machines(solving, one, own) for one, own in zip(solved, parts, strict=True)]
    workers = min(solving.workers, len(solved))  # side by side are the problems, or the folds of a few
    alone = replace(solving, workers=1) if len(solved) >= solving.workers else solving
    machines = all(isinstance(one.problem.formulation, CSVC) for one in solved) and solving.gram.factor() is None
    if machines and solving.monitor.stop_now() is None:
        goals = [_fold_goal(solving, one.problem) for one in solved]
        todo = [_wanted(known, own) for known, own in zip(decided, parts, strict=True)]
        found = decided_by_rows(solving.gram, solved, goals, parts, todo, solving.workers, solving.monitor)
        if found is not None:
            decided = [np.where(np.isnan(known), a, known) for known, a in zip(decided, found, strict=True)]

    def decide(number: int) -> None:
        if np.isnan(decided[number]).any():
            decided[number] = out_of_fold(alone, solved[number], parts[number], decided[number])

    each(workers if alone.workers == 1 else 1, decide, range(len(solved)))
    return decided


def _without_machines(solving: Solving, solved: Solved, folds: np.ndarray) -> np.ndarray:
    """The decisions of folds for which there is no machine, since the others have one class or none; NaN elsewhere."""
    y = solved.problem.y
    out = np.full(len(y), np.nan)
    for number in range(FOLDS):
        left = y[folds != number]
        if solving.classes and (not len(left) or (left == left[0]).all()):
            out[folds == number] = left[:1].sum()
    return out


def _wanted(known: np.ndarray, folds: np.ndarray) -> list[int]:
    """The folds of which something is not known."""
    return np.unique(folds[np.isnan(known)]).tolist()


def out_of_fold(solving: Solving, solved: Solved, folds: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """The decision of each sample of a problem by the machine of the other folds; ``folds`` are those of its rows.

    ``known``: decisions that are known, NaN where they are not.
    """
    problem, start = solved.problem, solved.solution.beta
    gram = solving.gram if len(problem.rows) == solving.gram.n else solving.gram.take(problem.rows)
    out = _without_machines(solving, solved, folds) if known is None else known.copy()
    todo = _wanted(out, folds)
    if todo and gram.factor() is None:
        if isinstance(problem.formulation, CSVC):
            todo = _found_together(solving, solved, folds, todo, out)
        elif (whole := _whole(gram, solving.monitor)) is not None:
            gram = PrecomputedGram(whole)

    late: list[np.ndarray] = []
    origins = _origins(solving, solved, gram, folds, todo)
    order = np.argsort(np.abs(solved.qp.gradient(start, solved.solution.multipliers))) if origins else folds[:0]

    def decide(number: int) -> None:
        own = folds == number
        if solving.monitor.stop_now() is not None:
            late.append(own)
        elif number in origins:
            out[own] = _moved(solving, gram, problem, origins[number], own, order)
        else:
            out[own] = _decided(solving, gram, problem, start, own)

    each(solving.workers, decide, todo)
    if late:
        values = _values(solved)
        for own, added in zip(late, _added(gram, solved, late), strict=True):
            out[own] = values[own] - added
    return out


def each(workers: int, do: Callable[[int], None], numbers: Sequence[int]) -> None:
    """``do`` for each number, side by side."""
    if workers == 1:
        for number in numbers:
            do(number)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(do, numbers))


def _whole(gram: Gram, monitor: Monitor) -> np.ndarray | None:
    """The matrix; None where there is no room for it, or no time."""
    if not memory.fits(8 * gram.n**2):
        return None
    try:
        if (whole := gram.whole()) is not None:
            return np.asarray(whole, np.float64)
        return gram.wide().dense(lambda seconds: monitor.look())
    except (MemoryError, Stopped):
        return None


def _fold_goal(solving: Solving, problem: Problem) -> Goal:
    """What is asked of a machine that only decides a fold."""
    goal = solving.goal(problem)
    return replace(goal, violation=float(enough(problem.formulation, goal.violation)))


def enough(formulation: Formulation, violation: Any) -> Any:
    """The violation asked of machines of folds, by that of the fit: a sigmoid averages over what decisions lack."""
    if not isinstance(formulation, CSVC):  # others have margins of any size
        return violation
    return np.maximum(violation, np.minimum(LOOSER * violation, ENOUGH))


def _found_together(solving: Solving, solved: Solved, folds: np.ndarray, todo: list[int], out: np.ndarray) -> list[int]:
    """Fill in decisions of folds by machines that share rows (fold_machines.py); the folds that are left."""
    problem, qp, beta = solved.problem, solved.qp, solved.solution.beta
    rows = ROWS * int(np.count_nonzero(beta)) + SPARE
    if rows > BATCH_POINTS or solving.monitor.stop_now() is not None:  # with more, working sets and shrinking pay
        return todo
    goal, monitor = _fold_goal(solving, problem), solving.monitor.part(problem.label)
    order = by_distance(qp, beta, qp.times(beta) + qp.p, solved.solution.multipliers)
    gram = solving.gram.take(problem.rows[order])
    if wants_wide(solving.gram, problem.rows, beta, goal.violation):
        gram = gram.wide()
    if not memory.fits(rows * gram.n * gram.dtype.itemsize):
        return todo
    most = goal.max_iter if goal.max_iter > 0 else int(1 + pair_patience(gram, gram.n) * gram.n)
    try:
        machines = FoldMachines(gram, qp, beta, order, folds, todo, solving.workers)
        machines.solve(goal.violation, most, monitor)
    except (MemoryError, Stopped):
        return todo  # found one by one, which takes less memory and ends by itself when it is stopped
    left = []
    for number, decided in zip(todo, machines.decisions(goal.violation), strict=True):
        if decided is None:
            left.append(number)
        else:
            out[folds == number] = decided
    return left


@dataclass(frozen=True)
class _Origin:
    """The coefficients of a fit without those of a fold, and the values that they give to all samples."""

    beta: np.ndarray
    values: np.ndarray


def _origins(
    solving: Solving, solved: Solved, gram: Gram, folds: np.ndarray, todo: Sequence[int]
) -> dict[int, _Origin]:
    """Where machines of folds start from, by one pass over the matrix; none where that has no use, or no time."""
    qp, beta = solved.qp, solved.solution.beta
    if not todo or gram.factor() is not None or qp.eps.any() or not isinstance(solved.problem.formulation, CSVC):
        return {}
    columns = np.where(folds[:, None] == np.array(todo), 0.0, beta[:, None])
    first = gram.duplicates()
    first = np.arange(gram.n) if first is None else first
    heads = np.flatnonzero(first == np.arange(gram.n))  # points that are equal are looked at once
    sums = np.column_stack([np.bincount(first, column, gram.n) for column in columns.T])
    used = np.flatnonzero(sums.any(axis=1))
    try:
        values = gram.combine_watched(used, sums[used], heads, solving.monitor.look, exact=True)
    except Stopped:
        return {}
    values = values[np.searchsorted(heads, first)]
    return {number: _Origin(columns[:, q], values[:, q]) for q, number in enumerate(todo)}


def _moved(
    solving: Solving, gram: Gram, problem: Problem, origin: _Origin, own: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """The decisions of the samples ``own`` by the machine of the others, which is found by what changes.

    With β = β₀ + δ the program has −(Kβ₀ + p) for −p, and only rows of coefficients that change are looked at. Most of
    these are near the margin: ``order`` has those first, and δ is found on the first half. The product Kδ, which the
    decisions need anyway, shows what should change besides. With that it goes on from β.
    """
    qp = closed(problem.formulation, Samples(gram, problem.y, problem.weight), own)
    goal = _fold_goal(solving, replace(problem, y=problem.y[~own], weight=problem.weight[~own]))
    monitor = solving.monitor.part(problem.label)
    beta = origin.beta
    slope = origin.values if qp.ridge is None else origin.values + qp.ridge * beta  # Hβ
    order = order[~own[order]]
    near = np.sort(order[: max(BATCH_POINTS, len(order) // HALF)])
    if len(qp.A) and not qp.lower[near].sum() <= beta[near].sum() - beta.sum() <= qp.upper[near].sum():
        near = np.sort(order)  # a fold of much weight has left a sum that these cannot make up for
    while True:
        start = replace(qp, p=qp.p + slope, lower=qp.lower - beta, upper=qp.upper - beta, b=qp.b - qp.A @ beta)
        solution = solving.solver.solve(_part(start, near), goal, np.zeros(len(near)), monitor)
        change = np.zeros(qp.n)
        change[near] = solution.beta
        beta, slope = qp.settled(beta + change), slope + start.times(change)
        s = qp.gradient(beta, solution.multipliers, slope)
        falls = np.maximum(np.where(beta < qp.upper, -s, 0.0), np.where(beta > qp.lower, s, 0.0))
        falls[near] = 0.0
        missed = np.flatnonzero(falls > goal.violation)
        if not len(missed) or monitor.stop_now() is not None:
            break
        near = np.sort(np.concatenate([near, missed]))
    decision = problem.formulation.decision(qp, replace(solution, beta=beta))
    values = slope if qp.ridge is None else slope - qp.ridge * beta
    return values[own] + decision.intercept


def _part(qp: QP, index: np.ndarray) -> QP:
    """The problem of these variables; the others are 0."""
    return replace(
        qp, H=qp.H.take(index), p=qp.p[index], lower=qp.lower[index], upper=qp.upper[index], eps=qp.eps[index],
        A=qp.A[:, index], primal=None,
    )  # fmt: skip


def _decided(solving: Solving, gram: Gram, problem: Problem, start: Any, own: np.ndarray) -> np.ndarray:
    """The decisions of the samples ``own`` by the machine of the others."""
    others, formulation = np.flatnonzero(~own), problem.formulation
    goal = _fold_goal(solving, replace(problem, y=problem.y[others], weight=problem.weight[others]))
    monitor = solving.monitor.part(problem.label)
    phi = formulation.phi if isinstance(formulation, SemiParametric) else None
    if gram.factor() is None:
        qp = closed(formulation, Samples(gram, problem.y, problem.weight), own)
        decision = formulation.decision(qp, solving.solver.solve(qp, goal, start, monitor))
        points = decision.points
        used = points
    else:  # rows of features: a part of them is a view, and their solvers want a loss for each
        if isinstance(formulation, SemiParametric):
            formulation = replace(formulation, phi=formulation.phi[:, others])
        qp = formulation.qp(Samples(gram.take(others), problem.y[others], problem.weight[others]))
        begin = start[others] if len(start) == len(own) else None
        decision = formulation.decision(qp, solving.solver.solve(qp, goal, begin, monitor))
        points = decision.points
        used = others[points]
    found = np.full(int(own.sum()), decision.intercept)
    if len(points):
        found += gram.combine(used, decision.coef[points], np.flatnonzero(own))
    return found if phi is None else found + phi[:, own].T @ decision.parametric


# After a stop there is no time for machines of folds. Their samples are decided by the fit itself, less what they add.


def _values(solved: Solved) -> np.ndarray:
    """The decisions of the fit at its samples; the product of its coefficients is known."""
    qp, solution, decision = solved.qp, solved.solution, solved.decision
    if solution.w is not None:
        values = qp.H.along(solution.w)
    else:
        values = qp.times(solution.beta)
        values = values if qp.ridge is None else values - qp.ridge * solution.beta
    values = qp.H.at_points(values)
    formulation = solved.problem.formulation
    own = formulation.phi.T @ decision.parametric if isinstance(formulation, SemiParametric) else 0.0
    return decision.scale * values + decision.intercept + own


def _added(gram: Gram, solved: Solved, parts: list[np.ndarray]) -> list[np.ndarray]:
    """What the coefficients of samples add to their own decisions, for each part of them."""
    coef = [np.where(own, solved.decision.coef, 0.0) for own in parts]
    if knows_features(gram):  # two passes over the features, for all parts together
        values = gram.matmat(np.column_stack(coef))
        return [values[own, k] for k, own in enumerate(parts)]
    out = []
    for one, own in zip(coef, parts, strict=True):
        used, weights = np.flatnonzero(one), gram.pulled(one)
        if weights is not None:
            out.append(gram.along(weights)[own])
        else:
            out.append(gram.combine(used, one[used], np.flatnonzero(own)) if len(used) else np.zeros(int(own.sum())))
    return out


def closed(formulation: Formulation, samples: Samples, own: np.ndarray) -> QP:
    """The problem of the samples that are not ``own``, on the matrix of all: the boxes of ``own`` are closed."""
    qp = formulation.qp(
        replace(samples, weight=np.where(own, 0.0, samples.weight)) if keeps_zero(formulation) else samples
    )
    if len(own) != qp.n:  # two variables for each sample, of which weight 0 has closed the boxes
        return replace(qp, primal=None)
    return replace(qp, lower=np.where(own, 0.0, qp.lower), upper=np.where(own, 0.0, qp.upper), primal=None)
