"""Many small QPs whose matrices are parts of one: solved by one compiled leaf, without Python between them.

With k classes there are k (k − 1) / 2 pairs to separate, each a QP of a few dozen variables that takes microseconds. A
solver that is called for each of them takes a millisecond to set itself up. Here the problems lie end to end: problem q
has the variables starts[q] … starts[q + 1] of the arrays, variable i is the row points[i] of a matrix that all share,
and its matrix is

    H_ij = sign_i sign_j K[points_i, points_j] + ridge_i δ_ij

    for each problem
        H <- rows of that matrix, or of the kernel as steps ask for them;  β <- a feasible start;  v <- −(Hβ + p)
        repeat
            pair steps, or single steps without equality constraints (pair_steps.py), some for each variable
            Newton's step on the free variables, from one active set to the next (as finish.py)
            v <- −(Hβ + p) anew
        until the largest violation < tol
        the level of each group, and the certificate of problem.py

Matrix or rows. A matrix costs least where most of its rows are needed. Classes that lie apart need few, which are made
as steps ask for them: an eighth of the problems tells. Without a matrix problems may be larger than are worth one, and
those that then ask for many rows are left to another solver.

What a thread does depends on the problem alone, so that results are equal to the bit for any number of threads. The
leaf (small_leaves.py) puts a problem aside only where v is computed anew, so that it can stop for a look at the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ... import memory
from ... import threads as th
from ..._jit import read_only
from ...gram import Gram, PrecomputedGram, Ridged, Signed, Tiled, as_gram
from ...gram.points import KERNEL_COST, LONGER
from ...monitor import Monitor
from ...problem import QP
from ...solution import Certificate, Status
from .fixed_sums import Groups
from .reach import pair_patience
from .small_leaves import (
    CONVERGED,
    CROWDED,
    INFEASIBLE,
    SPENT,
    STALLED,
    UNBOUNDED,
    UNFINISHED,
    certify_slice,
    solve_slice,
)
from .working_sets import Sizes

__all__ = [
    "BATCH_POINTS",
    "Batch",
    "Pieces",
    "SmallProblems",
    "SmallSolutions",
    "certify_small",
    "solve_small",
    "suits",
]

BATCH_POINTS = 2048  # that problems share whose matrix is formed as a whole: 32 MB

NEWTON_WORK = 100_000_000  # multiply-adds at the end, some 30 ms: two active sets where all 600 variables are free
TRIAL = 8  # one problem of so many tells how many rows they need
SOLVER_WORK = 32_000_000  # multiply-adds, some 2.5 ms: what setting up a solver for a problem takes
LARGEST = 2 * Sizes.shrink  # variables of a problem whose rows are made alone: steps look at all of them
ENTRY = 8  # bytes
HOPE = 4  # where fewer than one row of so many may be asked for, nobody tries: many machines need more

STATUS = {
    CONVERGED: Status.CONVERGED,
    CROWDED: Status.EXHAUSTED,
    STALLED: Status.STALLED,
    UNBOUNDED: Status.UNBOUNDED,
}
NO_MATRIX = np.zeros((0, 0))
PROOF = ("primal", "dual", "gap", "violation", "infeasibility")  # the numbers of a certificate


@dataclass(frozen=True)
class Pieces:
    """How work is cut up, in multiply-adds; no result depends on it."""

    look: int = 20_000_000  # of a thread between two looks at the clock: some 10 ms
    slices: int = 16  # pieces of that work between two looks, whatever the number of threads
    problem: int = 10_000  # to begin with a problem
    variable: int = 30  # looks at each other variable that a variable takes on average
    threads: int = 2_000_000  # a millisecond: below, a second thread costs more than it brings


PIECES = Pieces()


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class SmallProblems:
    """QPs laid end to end; an empty array stands for zeros (group, eps, ridge) or ones (sign)."""

    starts: np.ndarray  # (problems + 1,): where the variables of each begin
    points: np.ndarray  # row of the shared matrix of each variable
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    columns: np.ndarray  # (k, groups): of A, those of the variables of each group
    sums: np.ndarray  # (problems, groups): what each group of variables adds up to
    group: np.ndarray = field(default_factory=_none)  # of each variable
    eps: np.ndarray = field(default_factory=_none)
    ridge: np.ndarray = field(default_factory=_none)
    sign: np.ndarray = field(default_factory=_none)

    def __post_init__(self) -> None:
        for name in ("starts", "points", "group"):
            object.__setattr__(self, name, read_only(np.ascontiguousarray(getattr(self, name), np.int64)))
        for name in ("p", "lower", "upper", "columns", "sums", "eps", "ridge", "sign"):
            object.__setattr__(self, name, read_only(np.ascontiguousarray(getattr(self, name), np.float64)))
        n = len(self.points)
        fits = all(len(a) == n for a in (self.p, self.lower, self.upper))
        fits &= all(len(a) in (0, n) for a in (self.group, self.eps, self.ridge, self.sign))
        fits &= self.starts[0] == 0 and self.starts[-1] == n and bool((self.sizes > 0).all())
        fits &= self.columns.ndim == 2 and self.sums.shape == (len(self), self.columns.shape[1])
        if not fits:
            raise ValueError(
                f"{len(self)} problems with {n} variables together were asked for; found arrays of other lengths; "
                "give an entry for each variable, at least one variable and a row of sums for each problem"
            )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """Variables of each problem."""
        return self.starts[1:] - self.starts[:-1]

    @classmethod
    def of(cls, qps: list[QP]) -> SmallProblems | None:
        """These QPs, or None: each must be a view of one matrix, with constraints that pair steps keep."""
        views = [view for view in (_view(qp.H) for qp in qps) if view is not None]
        if not views or len(views) < len(qps) or any(view.K is not views[0].K for view in views):
            return None
        try:
            groups = [Groups.of(qp) for qp in qps]
        except ValueError:
            return None
        if any(not np.array_equal(g.columns, groups[0].columns) for g in groups):
            return None
        several = groups[0].count > 1
        return cls(
            np.concatenate([[0], np.cumsum([qp.n for qp in qps])]),
            np.concatenate([view.points for view in views]),
            np.concatenate([qp.p for qp in qps]),
            np.concatenate([qp.lower for qp in qps]),
            np.concatenate([qp.upper for qp in qps]),
            groups[0].columns,
            np.vstack([g.sums for g in groups]),
            np.concatenate([g.label for g in groups]) if several else _none(),
            _unless_zero([qp.eps for qp in qps]),
            _unless_zero([view.ridge for view in views]),
            1.0 + _unless_zero([view.sign - 1.0 for view in views]),
        )

    def rounding(self, gram: Gram, beta: np.ndarray) -> np.ndarray:
        """What rounding of the entries K_ij = x_iᵀx_j may add to the gap of each problem, as if none cancelled."""
        size = np.sqrt(np.maximum(gram.diag()[self.points], 0.0))
        box = np.maximum(np.abs(self.lower), np.abs(self.upper))
        reach = np.where(np.isfinite(box), box, np.abs(beta)) * size
        at = self.starts[:-1]
        return np.finfo(float).eps * np.add.reduceat(reach, at) * np.add.reduceat(np.abs(beta) * size, at)

    def qp(self, problem: int, gram: Gram) -> QP:
        """One of the problems, to the last digit; ``gram`` is the matrix that they share."""
        at = slice(self.starts[problem], self.starts[problem + 1])
        H = gram.take(self.points[at])
        H = Signed(H, self.sign[at]) if len(self.sign) else H
        H = Ridged(H, self.ridge[at]) if len(self.ridge) else H
        group = self.group[at] if len(self.group) else np.zeros(at.stop - at.start, np.int64)
        rows: tuple = ()
        if self.columns.size:
            rows = self.columns[:, group], self.columns @ self.sums[problem]
        eps = self.eps[at] if len(self.eps) else None
        return replace(QP(H, self.p[at], self.lower[at], self.upper[at], *rows), eps=eps)


@dataclass(frozen=True)
class SmallSolutions:
    """What was found for each of the problems, laid end to end as they are."""

    starts: np.ndarray
    beta: np.ndarray  # of each variable
    H_beta: np.ndarray
    levels: np.ndarray  # (problems, groups): v of a free variable, with its ε
    multipliers: np.ndarray  # (problems, k): η
    proof: np.ndarray  # (problems, 5): the numbers of a Certificate
    n_iter: np.ndarray  # steps of each problem
    code: np.ndarray  # of STATUS, or UNFINISHED
    spent: Status = Status.EXHAUSTED  # what it means that some have made as many steps as they may
    stop: Status | None = None  # why some are unfinished

    @property
    def crowded(self) -> np.ndarray:
        """Which problems are left to others: too large for a matrix of their own, they need most of its rows."""
        return self.code == CROWDED

    @property
    def violations(self) -> np.ndarray:
        """The largest of each problem."""
        return self.proof[:, PROOF.index("violation")]

    def of(self, problem: int) -> np.ndarray:
        """β of one problem."""
        return self.beta[self.starts[problem] : self.starts[problem + 1]]

    def certificate(self, problem: int) -> Certificate:
        return Certificate(*self.proof[problem].tolist())

    def certificates(self) -> list[Certificate]:
        """One for each problem."""
        # By columns: with a list for each problem the collector of garbage takes longer than all else here.
        return [Certificate(*numbers) for numbers in zip(*self.proof.T.tolist(), strict=True)]

    def status(self, problem: int) -> Status:
        return self._names[int(self.code[problem])]

    def statuses(self) -> list[Status]:
        """Why each problem was left."""
        names = self._names
        return [names[code] for code in self.code.tolist()]

    @property
    def _names(self) -> dict:
        return STATUS | {SPENT: self.spent, UNFINISHED: self.stop}


@dataclass(frozen=True)
class Batch:
    """Problems that share so few points that the matrix on these is formed."""

    points: np.ndarray
    problems: np.ndarray


def suits(sizes: np.ndarray, features: int | None = None) -> bool:
    """Whether problems of these sizes are so small that setting up a solver for each would take most of the time.

    ``features``: those of points whose rows may be made one at a time. Problems may be larger then, since a solver is
    set up for those that turn out to need most of their rows; but hope takes work that is enough for some of them.
    """
    if int(np.max(sizes)) <= Sizes.matrix:
        return True
    if features is None or len(sizes) == 1:
        return False
    hopeful = (sizes <= LARGEST) & (HOPE * _rows_alone(sizes, features) >= sizes)
    return bool(2 * np.count_nonzero(hopeful) > len(sizes))


def _rows_alone(sizes: np.ndarray, features: int) -> np.ndarray:
    """How many rows may be made alone; from there on what BLAS saves of rows in blocks is worth setting up a solver."""
    saved = sizes * features * (1.0 - 1.0 / LONGER)
    return np.minimum(sizes, SOLVER_WORK // np.maximum(1.0, saved)).astype(np.int64)


def solve_small(
    gram: Any,
    problems: SmallProblems,
    tol: float = 1e-3,
    max_iter: int = -1,
    threads: int = 1,
    monitor: Monitor | None = None,
    start: np.ndarray | None = None,
    batches: list[Batch] | None = None,
    pieces: Pieces = PIECES,
    finish: bool = True,
    work: int = NEWTON_WORK,
    room: int | None = None,
    unproven: bool = False,
) -> SmallSolutions:
    """Solve them all to a violation below ``tol``; ``batches`` says which to take together where points are many.

    Of several problems those that need few rows are solved without a matrix, unless it is at hand; one of more than 600
    variables that needs more is left to others (``crowded``).

    Without a limit of steps each problem may take as many as cost what another solver would (reach.py).

    ``start`` is moved into the box and onto the constraints. A stop leaves problems that were not reached at their
    start, with the certificate of that. Without ``finish`` steps end at ``tol``; with it Newton's steps on the free
    variables follow, which know the solution to its last digits and take about as long as the steps before; ``work``: a
    limit of multiply-adds. ``room``: bytes for rows of problems that are too large for a matrix; None: what is free.
    ``unproven``: what a stop leaves is of no use, and is not looked at.
    """
    gram = as_gram(gram)
    monitor = monitor or Monitor()
    run = _Run(gram, problems, tol, max_iter, threads, monitor, start, pieces, finish, work, unproven)
    batches = batches or [Batch(np.unique(problems.points), np.arange(len(problems)))]
    if len(problems) > 1 and gram.whole() is None:
        run.solve_by_rows(gram, sum(len(batch.points) ** 2 for batch in batches), room)
    for batch in batches:
        run.solve(gram, batch)
    return run.solutions()


def certify_small(gram: Any, problems: SmallProblems, beta: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(problems, 5): the numbers of a Certificate for any coefficients and levels."""
    gram = as_gram(gram)
    K, place = gram.exact_by_feature(int(problems.sizes.max())), np.arange(gram.n)
    if K is None:
        matrix, place = _matrix(gram, np.unique(problems.points))
        K = read_only(matrix)
    proof = np.empty((len(problems), len(PROOF)))
    certify_slice(K, place, *_arrays(problems), 0, len(problems), beta, levels, proof)
    return proof


class _Run:
    """One call of the solver: what its batches share."""

    def __init__(
        self,
        gram: Gram,
        problems: SmallProblems,
        tol: float,
        max_iter: int,
        threads: int,
        monitor: Monitor,
        start: np.ndarray | None,
        pieces: Pieces,
        finish: bool,
        work: int,
        unproven: bool,
    ) -> None:
        count, n = len(problems), len(problems.points)
        self.problems, self.tol, self.threads, self.monitor, self.pieces = problems, tol, threads, monitor, pieces
        self.finish, self.newton_work, self.unproven = finish, work, unproven
        most = max_iter if max_iter > 0 else 1 + pair_patience(gram, problems.sizes) * problems.sizes
        self.spent = Status.MAX_ITERATIONS if max_iter > 0 else Status.EXHAUSTED
        self.most = np.full(count, most, np.int64)
        self.beta = np.zeros(n) if start is None else np.array(start, np.float64)
        self.product = np.zeros(n)
        self.levels = np.zeros(problems.sums.shape)
        self.proof = np.zeros((count, len(PROOF)))
        self.steps = np.zeros(count, np.int64)
        self.progress = np.full((count, 3), np.inf)  # least objective, least violation, rounds since (inf: not begun)
        self.code = np.full(count, UNFINISHED, np.int64)
        self.work = (pieces.problem + pieces.variable * problems.sizes * problems.sizes).astype(np.int64)
        self.rows = np.full(count, -1, np.int64)  # that each may still ask for alone; −1: any number
        holds_zero = bool((problems.lower <= 0).all() and (problems.upper >= 0).all()) and not problems.sums.any()
        self.from_zero = start is None and holds_zero
        self.stop: Status | None = None

    def solve_by_rows(self, gram: Gram, entries: int, room: int | None) -> None:
        """Several problems by rows that are made as steps ask for them, if a trial tells that these are few.

        ``entries``: those of the matrices that the problems would need.
        """
        sizes = self.problems.sizes
        small = sizes <= Sizes.matrix
        room = self._room(room)
        fits = np.flatnonzero(small | (sizes <= min(LARGEST, (room / ENTRY) ** 0.5)))  # for any number of threads
        largest = int(sizes[fits].max(initial=0))
        points = gram.exact_by_feature(largest)
        if points is not None and largest:
            a_row = sizes * (len(points.values) + KERNEL_COST)
            matrix = entries * (len(points.values) / LONGER + KERNEL_COST) if small.all() else np.inf
            if matrix > SOLVER_WORK:
                most = np.where(small, sizes, _rows_alone(sizes, len(points.values)))
                self.rows[:] = most
                trial, rest = fits[::TRIAL].copy(), np.delete(fits, slice(None, None, TRIAL))
                by_rows = points, NO_MATRIX, np.arange(gram.n)
                threads = max(1, min(self.threads, room // (ENTRY * largest**2)))
                self._finish(gram, *by_rows, trial, threads)
                work = ((most - self.rows) * a_row)[trial].sum()
                if TRIAL * work < matrix and 2 * np.count_nonzero(self.code[trial] == CROWDED) <= len(trial):
                    self._finish(gram, *by_rows, rest, threads)
                gram.cost.evals += int((most - self.rows) @ sizes)
                self.rows[:] = -1
        self.code[~small & (self.code == UNFINISHED)] = CROWDED

    def _room(self, room: int | None) -> int:
        """Bytes for rows of the problems that threads work on."""
        if room is not None:
            return room
        needed = ENTRY * self.threads * min(LARGEST, int(self.problems.sizes.max())) ** 2
        return needed if memory.fits(needed) else memory.left_for_one()

    def solve(self, gram: Gram, batch: Batch) -> None:
        """The problems of a batch that are unfinished, by the matrix of their points."""
        waiting = batch.problems[self.code[batch.problems] == UNFINISHED]
        if not len(waiting):
            return
        self.stop = self.stop or self.monitor.stop_now()
        if self.stop is not None and self.unproven:
            return
        if self.stop is not None and self.from_zero:  # Hβ is known without H
            nothing = read_only(NO_MATRIX), NO_MATRIX, np.full(gram.n, -1), np.zeros(0)
            self._pass(*nothing, waiting, 0, self.threads)
            return
        if self.stop is not None and gram.whole() is None:  # rows of what is not zero are enough
            by_feature = gram.exact_by_feature(int(self.problems.sizes.max()))
            if by_feature is not None:
                self._finish(gram, by_feature, NO_MATRIX, np.arange(gram.n), waiting, self.threads)
                return
        points = batch.points
        if len(waiting) < len(batch.problems):
            starts = self.problems.starts
            points = np.unique(np.concatenate([self.problems.points[starts[q] : starts[q + 1]] for q in waiting]))
        K, place = _matrix(gram, points)
        # Leaves do not write to it, but are compiled for arrays that could be written to.
        own = K if K.flags.writeable and self._alone(place, len(K)) else NO_MATRIX
        self._finish(gram, read_only(K), own, place, waiting, self.threads)

    def _finish(
        self, gram: Gram, K: Any, own: np.ndarray, place: np.ndarray, waiting: np.ndarray, threads: int
    ) -> None:
        """Steps on these problems, a few milliseconds of each thread at a time."""
        room, numbers = self.pieces.look, waiting
        diagonal = K.diagonal().copy() if isinstance(K, np.ndarray) else gram.diag()
        while len(waiting) and self.stop is None:
            done = np.cumsum(self.work[waiting])
            count = max(1, int(np.searchsorted(done, room * self.pieces.slices)))
            now, later = waiting[:count], waiting[count:]
            enough = done[count - 1] > self.pieces.threads
            self._pass(K, own, place, diagonal, now, room, threads if enough else 1)
            waiting = np.concatenate([now[self.code[now] == UNFINISHED], later])
            self.stop = self._report(gram)
        if len(waiting) and not self.unproven:
            self._pass(K, own, place, diagonal, waiting, 0, threads)  # a certificate for where they are
        bad = numbers[self.code[numbers] == INFEASIBLE]
        if len(bad):
            raise ValueError(
                f"feasible QPs were asked for; found {len(bad)} (the first is number {bad[0]}) in which a group of "
                "variables must add up to more than its box allows; check the constraints (ν too large?)"
            )

    def _alone(self, place: np.ndarray, n: int) -> bool:
        """Whether a matrix of n points is that of one problem: its points in its order, and nothing added."""
        problems = self.problems
        changed = len(problems.sign) or len(problems.ridge) or problems.sums.shape[1] > 1
        return not changed and len(problems) == 1 and np.array_equal(place[problems.points], np.arange(n))

    def _pass(
        self,
        K: Any,
        own: np.ndarray,
        place: np.ndarray,
        diagonal: np.ndarray,
        numbers: np.ndarray,
        room: int,
        threads: int,
    ) -> None:
        shared = (diagonal, *_arrays(self.problems), numbers)
        found = (self.beta, self.product, self.levels, self.proof, self.steps, self.progress, self.code, self.rows)
        single, newton = None if self.problems.sums.shape[1] else True, (self.finish, self.newton_work)

        def leaf(first: int, last: int) -> None:
            solve_slice(K, own, place, *shared, first, last, self.tol, self.most, *newton, room, *found, single)

        th.spread(leaf, len(numbers), threads, grain=1, align=1)

    def _report(self, gram: Gram) -> Status | None:
        """Tell the monitor how far we are, and ask it whether to go on."""
        begun = np.isfinite(self.progress[:, 2])
        proof = self.proof[begun]
        return self.monitor.step(
            int(self.steps.sum()),
            -float(proof[:, PROOF.index("dual")].sum()),
            float(proof[:, PROOF.index("violation")].max()),
            int((self.code == UNFINISHED).sum()),
            gram.evals,
        )

    def solutions(self) -> SmallSolutions:
        problems = self.problems
        columns = problems.columns
        if columns.shape == (1, 1):
            multipliers = self.levels / columns[0, 0]
        else:  # columnsᵀ η = level
            multipliers = np.linalg.lstsq(columns.T, self.levels.T, rcond=None)[0].T if columns.size else self.levels
        return SmallSolutions(
            problems.starts, self.beta, self.product, self.levels, multipliers, self.proof,
            np.maximum(1, self.steps), self.code, self.spent, self.stop,
        )  # fmt: skip


def _matrix(gram: Gram, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix on some points, and where in it each point is."""
    whole = gram.whole()
    if whole is not None and whole.dtype == np.float64:
        return np.ascontiguousarray(whole), np.arange(gram.n)
    place = np.full(gram.n, -1)
    place[points] = np.arange(len(points))
    return np.ascontiguousarray(gram.block(points), np.float64), place


def _arrays(problems: SmallProblems) -> tuple:
    """Problems in the order in which leaves take them."""
    return (
        problems.starts, problems.points, problems.p, problems.lower, problems.upper,
        problems.eps, problems.ridge, problems.sign, problems.group, problems.sums,
    )  # fmt: skip


@dataclass(frozen=True)
class _View:
    """sign_i sign_j K[points_i, points_j] + ridge_i δ_ij."""

    K: np.ndarray
    points: np.ndarray
    ridge: np.ndarray
    sign: np.ndarray


def _view(H: Any) -> _View | None:
    """A matrix as a part of one that is at hand, or None."""
    if isinstance(H, Ridged):
        inner = _view(H.inner)
        return None if inner is None else replace(inner, ridge=inner.ridge + H.added)
    if isinstance(H, Signed):
        inner = _view(H.inner)
        return None if inner is None else replace(inner, sign=inner.sign * H.sign)
    if isinstance(H, Tiled):
        inner = _view(H.inner)
        if inner is None or inner.ridge.any():
            return None
        return _View(inner.K, inner.points[H.point], np.zeros(H.n), inner.sign[H.point])
    if isinstance(H, PrecomputedGram):
        points = np.arange(H.n) if H.index is None else H.index
        return _View(H.K, points, np.zeros(H.n), np.ones(H.n))
    return None


def _unless_zero(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if any(part.any() for part in parts) else _none()
