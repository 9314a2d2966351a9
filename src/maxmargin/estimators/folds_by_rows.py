"""The machines of all folds of C-SVC, pair by pair, by a leaf that makes kernel rows as steps ask for them.

A machine of a fold is the fit without some of its samples, as in fold_machines.py, where Python says which rows come
next. That takes longer than the steps where problems are small, and leaves no work for a second core. Here

    v    <- −(Hβ + p) of the fit, plus the rows of the coefficients that the fold takes away
    β    <- what the sum lacks, from the variables that v asks for most
    pair steps on the samples next to the margin, then on as many as violate; a row that is missing is made

for one fold after the other of a pair, whose rows they share. Samples lie in the order of their distance from the
margin: steps look at the beginning of rows. Pairs lie side by side, and so do the folds of a few pairs. A row is the
same whoever makes it, so that results are equal to the bit for any number of threads.

Folds that turn out to take long are left to others, which look at the clock; so are machines without a bias, whose
steps on one variable at a time are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import memory
from .. import threads as th
from .._jit import aside, helper, jit
from ..goal import Goal
from ..gram import Gram
from ..monitor import Monitor
from ..solvers.parts.fixed_sums import BIG
from ..solvers.parts.limits import LOOK_WORK
from ..solvers.parts.pair_steps import Variables, set_offsets, steps_of_pairs
from ..solvers.parts.small_rows import load_row, source_of
from .base import Solved
from .fold_machines import by_distance, next_to_margin, wants_wide

__all__ = ["decided_by_rows"]

FEATURES_A_LOOK = 4  # products of a kernel row in the time in which a step looks at a variable, 3 ns,
KERNEL_LOOKS = 4  # and such times for the rest of a kernel value
MOST_LOOKS = 64_000_000  # for all rows of a problem, some .2 s: they are far fewer, but nobody looks at the clock
STEP_LOOKS = 2 * LOOK_WORK  # for the steps of a fold
JOBS = 2  # of a thread between two looks at the clock, a few milliseconds each

WANTED, FOUND, LEFT = range(3)


@dataclass(frozen=True)
class _Pairs:
    """Problems laid end to end, the samples of each in the order of their distance from the margin."""

    order: list[np.ndarray]
    points: np.ndarray  # of the samples
    starts: np.ndarray
    near: np.ndarray  # samples of each problem that are next to the margin
    samples: tuple[np.ndarray, ...]  # v, β, lower, upper, diagonal, ridge, p, fold
    tol: np.ndarray
    most: np.ndarray  # steps of a fold

    @classmethod
    def of(cls, gram: Gram, solved: Sequence[Solved], goals: Sequence[Goal], folds: Sequence[np.ndarray]) -> _Pairs:
        orders, close, samples = [], [], []
        diagonal = gram.diag()
        for one, fold in zip(solved, folds, strict=True):
            qp, beta, rows = one.qp, one.solution.beta, one.problem.rows
            gradient = qp.times(beta) + qp.p
            order = by_distance(qp, beta, gradient, one.solution.multipliers)
            ridge = np.zeros(qp.n) if qp.ridge is None else qp.ridge
            own = rows, -gradient, beta, qp.lower, qp.upper, diagonal[rows] + ridge, ridge, qp.p, fold
            orders.append(order)
            samples.append([a[order] for a in own])
            close.append(next_to_margin(beta))
        points, *laid = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        sizes = np.array([one.qp.n for one in solved])
        most = [
            min(STEP_LOOKS // n, goal.max_iter) if goal.max_iter > 0 else STEP_LOOKS // n
            for goal, n in zip(goals, sizes.tolist(), strict=True)
        ]
        tol = np.array([goal.violation for goal in goals])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return cls(orders, points, starts, np.array(close), tuple(laid), tol, np.array(most))

    def at(self, problem: int) -> slice:
        return slice(self.starts[problem], self.starts[problem + 1])


def decided_by_rows(
    gram: Gram, solved: Sequence[Solved], goals: Sequence[Goal], folds: Sequence[np.ndarray],
    todo: Sequence[Sequence[int]], threads: int, monitor: Monitor,
) -> list[np.ndarray] | None:  # fmt: skip
    """The decisions of the samples of each problem by the machine without their fold, NaN where it was not found.

    ``folds``: the fold of each sample of each problem; ``todo``: those that are wanted. None if all is left to others.
    """
    if not all(len(one.qp.A) for one in solved):
        return None
    largest = max(one.qp.n for one in solved)
    exact = any(
        wants_wide(gram, one.problem.rows, one.solution.beta, goal.violation)
        for one, goal in zip(solved, goals, strict=True)
    )
    points = gram.exact_by_feature(largest) if exact else gram.by_feature(largest)
    if points is None or (KERNEL_LOOKS + len(points.values) / FEATURES_A_LOOK) * largest**2 > MOST_LOOKS:
        return None
    a_matrix = largest**2 * points.values.itemsize
    if not memory.fits(a_matrix):  # whether there is room does not depend on the number of threads
        return None
    side = threads if memory.fits(threads * a_matrix) else 1
    pairs = _Pairs.of(gram, solved, goals, folds)
    count = 1 + max(max(numbers, default=0) for numbers in todo)
    code = np.full((len(solved), count), LEFT)
    for q, numbers in enumerate(todo):
        code[q, list(numbers)] = WANTED
    parts = min(count, -(-side // len(solved)))  # of the folds of a pair, where there are fewer pairs than threads
    ends = np.linspace(0, count, parts + 1).astype(np.int64)
    jobs = np.array([(q, ends[k], ends[k + 1]) for q in range(len(solved)) for k in range(parts)])
    found, rows = np.full(len(pairs.points), np.nan), np.zeros(len(jobs), np.int64)
    of_pairs = pairs.points, pairs.starts, pairs.near, *pairs.samples, pairs.tol, pairs.most
    for begun in range(0, len(jobs), JOBS * side):
        if monitor.stop_now() is not None:
            break

        def leaf(first: int, last: int, begun: int = begun) -> None:
            decide_slice(points, *of_pairs, jobs, begun + first, begun + last, found, code, rows)

        th.spread(leaf, min(JOBS * side, len(jobs) - begun), side, grain=1, align=1)
    gram.cost.evals += int(rows @ np.diff(pairs.starts)[jobs[:, 0]])
    out = []
    for q, order in enumerate(pairs.order):
        known = np.empty(len(order))
        known[order] = found[pairs.at(q)]
        out.append(known)
    return out


# -- leaves -----------------------------------------------------------------------------------------------------------


@aside
def own_row(i, source, ridge, H, slot):
    """Row i of H, made if need be."""
    load_row(i, source, ridge, ridge[:0], H, slot)
    return H[i]


@helper
def add_to(v, change, row, diag, i, first):
    """v += change H_i from a sample on; the diagonal is ``diag``, whatever the row has there."""
    for r in range(first, len(v)):
        v[r] += change * np.float64(row[r])
    if i >= first:
        v[i] += change * (diag - np.float64(row[i]))


@aside
def begin(fold, v0, beta, lower, upper, folds, x, source, ridge, H, slot):
    """The machine of the fit without a fold."""
    for r in range(len(folds)):
        own = folds[r] == fold
        x.v[r] = v0[r]
        x.beta[r] = 0.0 if own else beta[r]
        x.lower[r] = 0.0 if own else lower[r]
        x.upper[r] = 0.0 if own else upper[r]
        set_offsets(r, x)
    for r in range(len(folds)):
        if folds[r] == fold and beta[r] != 0.0:
            add_to(x.v, beta[r], own_row(r, source, ridge, H, slot), x.diag[r], r, 0)


@aside
def asks_most(x, sign, last):
    """Of the first variables the one that asks most to grow, or to shrink, of those that may; −1: there is none."""
    best = -1
    for r in range(last):
        free = x.rise[r] > -BIG if sign > 0.0 else x.fall[r] < BIG
        if free and (best < 0 or sign * x.v[r] > sign * x.v[best]):
            best = r
    return best


@aside
def bring_sum_back(x, near, source, ridge, H, slot):
    """Make Σβ = 0 by the variables that v asks for most, those next to the margin first; whether that was done."""
    lacking = 0.0
    for r in range(len(x.v)):
        lacking -= x.beta[r]
    while lacking != 0.0:
        best = asks_most(x, lacking, near)
        if best < 0:
            best = asks_most(x, lacking, len(x.v))
        if best < 0:
            return False
        bound = x.upper[best] if lacking > 0.0 else x.lower[best]
        step = bound - x.beta[best]
        if abs(step) < abs(lacking):
            x.beta[best] = bound
            lacking -= step
        else:
            step = lacking
            x.beta[best] += step
            lacking = 0.0
        set_offsets(best, x)
        add_to(x.v, -step, own_row(best, source, ridge, H, slot), x.diag[best], best, 0)
    return True


@aside
def level_of(x):
    """Half way between m and M, or the one of them that there is."""
    m = -BIG
    M = BIG
    for r in range(len(x.v)):
        m = max(m, x.v[r] + x.rise[r])
        M = min(M, x.v[r] + x.fall[r])
    if m < -BIG / 2:
        return M if M < BIG / 2 else 0.0
    return 0.5 * (m + M) if M < BIG / 2 else m


@aside
def farthest(x, level, slack, first):
    """The last of the variables from the first on that violates by more than a slack; −1: there is none."""
    for r in range(len(x.v) - 1, first - 1, -1):
        if x.v[r] + x.rise[r] > level + slack or x.v[r] + x.fall[r] < level - slack:
            return r
    return -1


@jit
def decide_slice(
    points, where, starts, near, v0, beta, lower, upper, diagonal, ridge, p, folds, tol, most, jobs, first, last, out,
    code, rows,
):  # fmt: skip
    """The decisions of the samples of folds, jobs first … last: (problem, its first fold, the one behind its last).

    A fold for which so many steps are not enough is LEFT; ``rows``: how many each job has made.
    """
    edges = np.zeros(2, np.int64)
    for job in range(first, last):
        q = jobs[job, 0]
        a, b = starts[q], starts[q + 1]
        n = b - a
        source = source_of(points, where[a:b])
        H = np.empty((n, n), points.values.dtype)
        slot = np.empty(n, np.int64)
        for r in range(n):
            slot[r] = -1
        own, own_ridge, own_p, diag = folds[a:b], ridge[a:b], p[a:b], diagonal[a:b]
        v, x, rise, fall, begun = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        low, high, eps = np.empty(n), np.empty(n), np.zeros(n)
        parts = Variables(v, x, low, high, eps, diag, rise, fall)
        for fold in range(jobs[job, 1], jobs[job, 2]):
            if code[q, fold] != WANTED:
                continue
            code[q, fold] = LEFT
            begin(fold, v0[a:b], beta[a:b], lower[a:b], upper[a:b], own, parts, source, own_ridge, H, slot)
            if not bring_sum_back(parts, near[q], source, own_ridge, H, slot):
                continue
            for r in range(n):
                begun[r] = x[r]
            made = 0
            violation = BIG
            look_at = min(near[q], n)
            while True:
                edges[1] = look_at
                some = Variables(
                    v[:look_at], x[:look_at], low[:look_at], high[:look_at], eps[:look_at], diag[:look_at],
                    rise[:look_at], fall[:look_at],
                )  # fmt: skip
                missing = 0
                while missing >= 0:
                    steps, violation, missing = steps_of_pairs(H, slot, some, edges, True, tol[q], most[q] - made)
                    made += steps
                    if missing >= 0:
                        own_row(missing, source, own_ridge, H, slot)
                if not violation < tol[q] or look_at == n:
                    break
                for r in range(n):  # v of the others, which steps did not look at
                    if x[r] != begun[r]:
                        add_to(v, begun[r] - x[r], H[r], diag[r], r, look_at)
                        begun[r] = x[r]
                last_one = farthest(parts, level_of(some), 0.5 * tol[q], look_at)
                if last_one < look_at:
                    break
                look_at = last_one + 1
            if violation < tol[q]:
                code[q, fold] = FOUND
                level = level_of(parts)
                for r in range(n):
                    if own[r] == fold:
                        out[a + r] = level - v[r] - own_p[r]
        for r in range(n):
            rows[job] += 1 if slot[r] >= 0 else 0
