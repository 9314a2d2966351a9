"""Probabilities from decisions: P(y = 1 | f) by Platt's sigmoid, by isotonic regression or by a temperature.

A calibration is fitted to decisions of machines that have not seen the samples: five folds, each decided by a machine
fitted to the other four. These machines share the kernel matrix of the fit, and start from its coefficients without
those of their fold.

| calibration   | P(first class of a pair), f being positive for it                                    |
| ------------- | ------------------------------------------------------------------------------------ |
| "sigmoid"     | 1 / (1 + exp(A f + B)), A ≤ 0, by Newton's method (Platt 2000; Lin, Lin & Weng 2007) |
| "temperature" | the same with B = 0: one number, the width of the doubt around f = 0                 |
| "isotonic"    | a curve that never falls, for thousands of samples                                   |

Targets are not 0 and 1 but (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2), Platt's prior against being too sure. Weights of
samples and classes count as copies throughout, so that a fold is chosen by what a sample is and not by where it stands:
copies are in the same fold. Several classes are put together from all pairs by the second method of
Wu, Lin & Weng 2004, to the accuracy that LIBSVM has, so that its programs give the same digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import check_random_state

from .. import memory
from .._jit import inline, jit
from ..formulations import Formulation, Samples, SemiParametric
from ..goal import Goal
from ..gram import Gram, PrecomputedGram
from ..monitor import Monitor, Stopped
from ..problem import QP
from ..solution import Solution
from ..solvers import Auto
from .base import Problem, Solved

__all__ = [
    "CALIBRATIONS",
    "Calibration",
    "agreeing",
    "calibrated",
    "couple",
    "density_marks",
    "fold_numbers",
    "laplace_width",
    "normal_share",
    "out_of_fold",
    "seed_of",
]

CALIBRATIONS = ("sigmoid", "isotonic", "temperature")
FOLDS = 5  # as in LIBSVM
MANY = 2  # times as many samples as there are near the boundary: with more of these the matrix is formed as a whole
SPARE = 20  # samples near the boundary besides
ROUNDS = 10  # with more and more samples
PIECE = 1 << 22  # kernel values between two looks at the clock
LEAST = 1e-7  # probability of a class of a pair, as in LIBSVM: logarithms stay finite, and classes can be coupled
COUPLED = 0.005  # over the number of classes: what LIBSVM leaves of the conditions of a coupling
NEWTON_STEPS = 100
DECREMENT = 1e-14  # of the loss: a Newton step that promises less is none
HESSIAN_RIDGE = 1e-12  # of Lin, Lin & Weng, relative to the curvature along the decisions
SHORTEST = 1e-10  # step of a line search
STEEPEST, FLATTEST = 1e-6, 1e6  # temperatures, in units of the mean size of a decision
OUTLIER = 5.0  # standard deviations of a Laplace distribution beyond which a residual does not count, as in LIBSVM
MARKS = 10  # of a one-class machine's decisions, half of them for outliers, as in LIBSVM
SURE = 0.999  # probability beyond the last mark, as in LIBSVM
ROUNDING = 1e-9  # of a number of copies that is a whole one
HASH_ENTRIES = 1 << 20  # numbers that are hashed at a time


# -- folds ------------------------------------------------------------------------------------------------------------


def seed_of(random_state) -> int:
    """A seed; None stands for 0: the same folds every time."""
    return 0 if random_state is None else int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def fold_numbers(X, groups: np.ndarray, weight: np.ndarray, seed: int, by_content: bool = True) -> np.ndarray:
    """A fold for each sample: in each group (a class) the folds are of equal weight, and copies are never parted.

    Samples are put in the order of a hash of their numbers, or of their place where they are no numbers.
    """
    n = len(groups)
    key = _row_hashes(X, seed) if by_content else _mixed(np.arange(1, n + 1, dtype=np.uint64) * _odd(seed, 1)[0])
    folds = np.empty(n, np.int64)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        _, first, copies = np.unique(key[own], return_index=True, return_inverse=True)
        mass = np.bincount(copies, weight[own], len(first))
        middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        folds[own] = np.minimum((FOLDS * middle).astype(np.int64), FOLDS - 1)[copies]
    return folds


def _odd(seed: int, count: int) -> np.ndarray:
    """Odd numbers of 64 bits."""
    return np.random.default_rng(seed).integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Each number with its bits stirred (the last step of SplitMix64); 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _row_hashes(X, seed: int) -> np.ndarray:
    """A number for each row, the same for equal rows, dense or sparse, in float32 or float64, wherever they stand.

    Sums of integers do not depend on their order, and entries that are 0 add nothing.
    """
    n, d = X.shape
    odd = _odd(seed, d)
    out = np.empty(n, np.uint64)
    step = max(1, HASH_ENTRIES // max(1, d))
    for a in range(0, n, step):
        block = X[a : a + step]
        if sp.issparse(block):
            bits = np.asarray(block.data, np.float64) + 0.0  # without −0
            terms = _mixed(bits.view(np.uint64)) * odd[block.indices]
            total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
            out[a : a + step] = total[block.indptr[1:]] - total[block.indptr[:-1]]
        else:
            bits = np.ascontiguousarray(block, np.float64) + 0.0
            out[a : a + step] = (_mixed(bits.view(np.uint64)) * odd).sum(axis=1, dtype=np.uint64)
    return _mixed(out)


def without_copies(X, labels: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One of each kind of sample, in the order of their hashes: its number, its label and the weight of all of them."""
    kinds = np.column_stack([_row_hashes(X, 0), labels.astype(np.uint64)])
    _, first, kind = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    kind = kind.ravel()
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


def out_of_fold(solving: Solving, solved: Solved, folds: np.ndarray) -> np.ndarray:
    """The decision of each sample of a problem by the machine of the other folds; ``folds`` are those of its rows."""
    problem, start = solved.problem, solved.solution.beta
    gram = solving.gram if len(problem.rows) == solving.gram.n else solving.gram.take(problem.rows)
    near = _near(solved)
    gram = _at_hand(gram, near, solving)
    out = np.empty(len(problem.rows))

    def decide(number: int) -> None:
        own = folds == number
        if own.any():
            left = problem.y[~own]
            one = solving.classes and (not len(left) or (left == left[0]).all())
            out[own] = left[:1].sum() if one else _decided(solving, gram, problem, start, near, own)

    each(solving.workers, decide, range(FOLDS))
    return out


def each(workers: int, do: Callable[[int], None], numbers: Sequence[int]) -> None:
    """``do`` for each number, side by side."""
    if workers == 1:
        for number in numbers:
            do(number)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(do, numbers))


def _near(solved: Solved) -> np.ndarray:
    """The support vectors of a fit, and as many samples that would be the next: those that folds are decided by."""
    support, qp, solution = solved.decision.points, solved.qp, solved.solution
    if qp.n != len(solved.problem.y):  # two variables for each sample
        return support
    s = np.abs(qp.gradient(solution.beta, solution.multipliers))
    slack = np.abs(s - qp.eps)
    slack[support] = -1.0
    count = min(qp.n, 2 * len(support) + SPARE)
    return np.sort(np.argpartition(slack, count - 1)[:count]) if count < qp.n else np.arange(qp.n)


def _at_hand(gram: Gram, near: np.ndarray, solving: Solving) -> Gram:
    """The rows of samples near the boundary, or with many of them the whole matrix: folds compute nothing anew."""
    rows = gram.n if MANY * len(near) > gram.n else len(near)
    if gram.whole() is not None or gram.factor() is not None or 8 * rows * gram.n > memory.left_for_one():
        return gram
    try:
        if rows == gram.n:
            return PrecomputedGram(gram.wide().dense(lambda seconds: solving.monitor.look()))
        return KeptRows(gram, near, solving.monitor)
    except (MemoryError, Stopped):
        return gram


class KeptRows(Gram):
    """A matrix of which some rows are known; only these, so that nothing depends on who asks for what before."""

    def __init__(self, gram: Gram, index: np.ndarray, monitor: Monitor) -> None:
        self.inner, self.n, self.cost, self.threads = gram.wide(), gram.n, gram.cost, gram.threads
        self.known = np.empty((len(index), gram.n))
        self.slot = np.full(gram.n, -1)
        step = max(1, PIECE // max(1, gram.n))
        for a in range(0, len(index), step):
            monitor.look()
            self.known[a : a + step] = self.inner.rows(index[a : a + step])
        self.slot[index] = np.arange(len(index))

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        found = np.empty((len(index), self.n))
        here = self.slot[index] >= 0
        found[here] = self.known[self.slot[index[here]]]
        if not here.all():
            found[~here] = self.inner.rows(index[~here])
        if out is None:
            return found
        out[slots] = found
        return out

    def diag(self) -> np.ndarray:
        return self.inner.diag()

    def take(self, index: np.ndarray) -> Gram:
        return PrecomputedGram(self.block(index))

    def block(self, index: np.ndarray) -> np.ndarray:
        slots = self.slot[index]
        return self.known[np.ix_(slots, index)] if (slots >= 0).all() else self.inner.block(index)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        here = self.slot[index] >= 0
        out = self.inner.combine(index[~here], coef[~here], at, exact) if not here.all() else 0.0
        slots, weight = self.slot[index[here]], coef[here]
        step = max(1, PIECE // max(1, self.n))
        for a in range(0, len(slots), step):
            block = self.known[slots[a : a + step]]
            out = out + weight[a : a + step] @ (block if at is None else block[:, at])
        return np.zeros(self.n if at is None else len(at)) + out


def _decided(solving: Solving, gram: Gram, problem: Problem, start, near: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The decisions of the samples ``own`` by the machine of the others."""
    others, formulation = np.flatnonzero(~own), problem.formulation
    goal = solving.goal(replace(problem, y=problem.y[others], weight=problem.weight[others]))
    monitor = solving.monitor.part(problem.label)
    phi = formulation.phi if isinstance(formulation, SemiParametric) else None
    if gram.factor() is None:
        qp = closed(formulation, Samples(gram, problem.y, problem.weight), own)
        few = isinstance(gram, KeptRows) and len(own) == qp.n and not qp.b.any()
        solution = _from_few(solving, qp, goal, start, near, monitor) if few else None
        decision = formulation.decision(qp, solution or solving.solver.solve(qp, goal, start, monitor))
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


def _from_few(solving: Solving, qp: QP, goal: Goal, start, near: np.ndarray, monitor: Monitor) -> Solution | None:
    """A solution found on samples near the boundary, and those besides that it violates; None where that has no end."""
    for _ in range(ROUNDS):
        part = replace(
            qp, H=qp.H.take(near), p=qp.p[near], lower=qp.lower[near], upper=qp.upper[near], A=qp.A[:, near],
            eps=qp.eps[near],
        )  # fmt: skip
        found = solving.solver.solve(part, goal, start[near], monitor)
        beta = np.zeros(qp.n)
        beta[near] = found.beta
        found = replace(found, beta=beta, w=None)
        s = qp.gradient(beta, found.multipliers)
        falls = np.maximum(np.where(qp.upper > 0.0, -s - qp.eps, 0.0), np.where(qp.lower < 0.0, s - qp.eps, 0.0))
        falls[near] = 0.0
        if not (falls > goal.violation).any() or monitor.stop_now() is not None:
            return found
        near, start = np.union1d(near, np.flatnonzero(falls > goal.violation)), beta
    return None


def closed(formulation: Formulation, samples: Samples, own: np.ndarray) -> QP:
    """The problem of the samples that are not ``own``, on the matrix of all: the boxes of ``own`` are closed."""
    qp = formulation.qp(
        replace(samples, weight=np.where(own, 0.0, samples.weight)) if keeps_zero(formulation) else samples
    )
    if len(own) != qp.n:  # two variables for each sample, of which weight 0 has closed the boxes
        return replace(qp, primal=None)
    return replace(qp, lower=np.where(own, 0.0, qp.lower), upper=np.where(own, 0.0, qp.upper), primal=None)


def keeps_zero(formulation: Formulation) -> bool:
    """Whether a formulation takes weights of 0: a squared loss has their reciprocals on the diagonal."""
    machine = formulation.machine if isinstance(formulation, SemiParametric) else formulation
    return getattr(machine, "loss", "hinge") in ("hinge", "epsilon_insensitive", "quantile")


# -- calibrations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """P(first class of a pair) for each pair, from its decision."""

    method: str
    A: np.ndarray  # of each pair, for a sigmoid: 1 / (1 + exp(A f + B))
    B: np.ndarray
    steps: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # decisions and values, for "isotonic"

    def pairwise(self, decisions: np.ndarray) -> np.ndarray:
        """(n, pairs) of probabilities from (n, pairs) of decisions, positive for the first class."""
        if self.method != "isotonic":
            found = expit(-(self.A * decisions + self.B))
        else:
            columns = [np.interp(f, *curve) for f, curve in zip(decisions.T, self.steps, strict=True)]
            found = np.column_stack(columns)
        return np.clip(found, LEAST, 1.0 - LEAST)

    def probabilities(self, decisions: np.ndarray, k: int) -> np.ndarray:
        """(n, classes) from the decisions of all pairs."""
        pairs = self.pairwise(decisions)
        return np.column_stack([pairs[:, 0], 1.0 - pairs[:, 0]]) if k == 2 else couple(pairs, k)


def agreeing(probabilities: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The nearest probabilities in which the class that was chosen has the largest, by a hair if need be.

    A calibrated curve need not cross ½ where f = 0, nor need the class of most votes be the most probable one. Where
    they disagree, doubt is what there is: the chosen class and those above it share what they have.
    """
    rows = np.flatnonzero(probabilities.argmax(axis=1) != chosen)
    if not len(rows):
        return probabilities
    out, own = probabilities.copy(), chosen[rows]
    p = out[rows]
    first = p[np.arange(len(rows)), own]
    others = np.sort(np.where(np.arange(p.shape[1]) == own[:, None], -np.inf, p), axis=1)[:, ::-1][:, :-1]
    # Of the others, largest first, those belong to the pool that are above the level of the pool before them.
    level = (first[:, None] + np.cumsum(others, axis=1)) / np.arange(2, p.shape[1] + 1)
    before = np.column_stack([first, level[:, :-1]])
    count = (others > before).sum(axis=1)
    shared = np.where(count > 0, level[np.arange(len(rows)), np.maximum(count, 1) - 1], first)
    p = np.minimum(p, shared[:, None])
    p[np.arange(len(rows)), own] = np.nextafter(shared, 1.0)
    out[rows] = p
    return out


def calibrated(method: str, decisions: Sequence[np.ndarray], signs: Sequence[np.ndarray], weights) -> Calibration:
    """The calibration of each pair from out-of-fold decisions, signs (+1: the first class) and weights."""
    A, B, steps = np.zeros(len(signs)), np.zeros(len(signs)), []
    for pair, (f, sign, weight) in enumerate(zip(decisions, signs, weights, strict=True)):
        target = _targets(sign, weight)
        if method == "sigmoid":
            A[pair], B[pair] = sigmoid(f, target, weight)
        elif method == "temperature":
            A[pair] = temperature(f, target, weight)
        else:
            steps.append(_isotonic(f, target, weight))
    return Calibration(method, A, B, steps)


def _targets(sign: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Platt's targets: the share of the first class among N samples of it and one of each class besides."""
    first, second = float(weight[sign > 0].sum()), float(weight[sign <= 0].sum())
    return np.where(sign > 0, (first + 1.0) / (first + 2.0), 1.0 / (second + 2.0))


def sigmoid(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """(A, B) of the least log-loss with A ≤ 0: a decision that says the contrary of the labels says nothing."""
    first = float(weight[target > 0.5].sum())
    second = float(weight.sum()) - first
    A, B = platt(f, target, weight, np.log((second + 1.0) / (first + 1.0)))
    if A <= 0.0:
        return float(A), float(B)
    share = float(weight @ target / weight.sum())
    return 0.0, float(np.log((1.0 - share) / share))


def temperature(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    """−1 / T of the least log-loss, T in a range around the size of decisions."""
    size = float(weight @ np.abs(f) / weight.sum())
    if not size > 0.0:
        return 0.0

    def loss(log_t: float) -> float:
        z = -f * (np.exp(-log_t) / size)
        return float(weight @ (target * z + np.logaddexp(0.0, -z)))

    found = minimize_scalar(
        loss, bounds=(np.log(STEEPEST), np.log(FLATTEST)), method="bounded", options={"xatol": 1e-8}
    )
    return -float(np.exp(-found.x)) / size


def _isotonic(f: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the curve bends, and its values there; it is flat beyond its ends."""
    fitted = IsotonicRegression(increasing=True, out_of_bounds="clip").fit(f, target, sample_weight=weight)
    return np.asarray(fitted.X_thresholds_, np.float64), np.asarray(fitted.y_thresholds_, np.float64)


# -- what LIBSVM has for other machines --------------------------------------------------------------------------------


def laplace_width(residuals: np.ndarray, weight: np.ndarray) -> float:
    """The width σ of a Laplace distribution of the residuals: their mean size, without the farthest ones."""
    size = np.abs(residuals)
    mean = float(weight @ size / weight.sum())
    near = size <= OUTLIER * np.sqrt(2.0) * mean
    return float(weight[near] @ size[near] / weight[near].sum()) if near.any() else mean


def density_marks(decisions: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Marks between which a tenth of probability lies each, half of them for outliers; None where these are too few.

    Negative decisions are parted into five runs of equal weight, the others as well. A mark lies half way between the
    edges of runs: below 0 the first decision of each, then 0 itself, above the last decision of each.
    """
    order = np.argsort(decisions, kind="stable")
    f, w = decisions[order], weight[order]
    half, negative = MARKS // 2, int(np.searchsorted(f, 0.0, side="left"))
    below, above = np.cumsum(w[:negative]), np.cumsum(w[negative:])
    if min(below[-1:].sum(), above[-1:].sum()) < half:
        return None
    shares = np.arange(half + 1) / half
    # Weights are copies: the first sample is the one in which the copy number ⌊share · total⌋ is.
    first = np.searchsorted(below, np.floor(shares[:-1] * below[-1] + ROUNDING), side="right")
    last = np.searchsorted(above, np.floor(shares[1:] * above[-1] + ROUNDING) - 1.0, side="right")
    edges = np.concatenate(
        [f[:negative][np.minimum(first, negative - 1)], [0.0], f[negative:][np.clip(last, 0, len(above) - 1)]]
    )
    return 0.5 * (edges[:-1] + edges[1:])


def normal_share(decisions: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The probability of being no outlier."""
    number = np.searchsorted(marks, decisions, side="right")
    share = np.where(decisions > marks[-1], SURE, np.minimum(number, MARKS - 1) / MARKS)
    return np.where(number == 0, 1.0 - SURE, share)


# -- leaves ---------------------------------------------------------------------------------------------------------


@inline
def _log_loss(z, t):
    """−t log p − (1 − t) log(1 − p) with p = 1 / (1 + exp(z)), without overflow."""
    return t * z + np.log1p(np.exp(-z)) if z >= 0.0 else (t - 1.0) * z + np.log1p(np.exp(z))


@jit
def _loss_of(f, target, weight, A, B):
    total = 0.0
    for i in range(len(f)):
        total += weight[i] * _log_loss(A * f[i] + B, target[i])
    return total


@jit
def platt(f, target, weight, B):
    """Newton's method with a line search on the log-loss of 1 / (1 + exp(A f + B)), from A = 0."""
    A = 0.0
    loss = _loss_of(f, target, weight, A, B)
    for _ in range(NEWTON_STEPS):
        aa, ab, bb, ga, gb = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(len(f)):
            z = A * f[i] + B
            p = np.exp(-z) / (1.0 + np.exp(-z)) if z >= 0.0 else 1.0 / (1.0 + np.exp(z))
            curve = weight[i] * p * (1.0 - p)
            slope = weight[i] * (target[i] - p)
            aa += f[i] * f[i] * curve
            ab += f[i] * curve
            bb += curve
            ga += f[i] * slope
            gb += slope
        aa += HESSIAN_RIDGE * (1.0 + aa)
        bb += HESSIAN_RIDGE * (1.0 + bb)
        determinant = aa * bb - ab * ab
        if not determinant > 0.0:
            break
        da = -(bb * ga - ab * gb) / determinant
        db = -(aa * gb - ab * ga) / determinant
        promise = ga * da + gb * db
        if not promise < -DECREMENT * loss:  # the loss cannot tell any more; the step can, for the last time
            if promise < 0.0:
                A, B = A + da, B + db
            break
        step = 1.0
        moved = False
        while step >= SHORTEST:
            new = _loss_of(f, target, weight, A + step * da, B + step * db)
            if new < loss + 1e-4 * step * promise:
                A, B, loss, moved = A + step * da, B + step * db, new, True
                break
            step *= 0.5
        if not moved:
            break
    return A, B


@jit
def _couple(pairs, k, out):
    """Σ_i Σ_{j≠i} (r_ji p_i − r_ij p_j)² made small over all p ≥ 0 of sum 1, one class after the other."""
    r = np.empty((k, k))
    Q = np.empty((k, k))
    Qp = np.empty(k)
    most = max(100, k)
    for row in range(len(pairs)):
        c = 0
        for i in range(k):
            for j in range(i + 1, k):
                r[i, j] = pairs[row, c]
                r[j, i] = 1.0 - pairs[row, c]
                c += 1
        for i in range(k):
            Q[i, i] = 0.0
            for j in range(k):
                if j != i:
                    Q[i, i] += r[j, i] * r[j, i]
                    Q[i, j] = -r[j, i] * r[i, j]
        p = out[row]
        p[:] = 1.0 / k
        for _ in range(most):
            total = 0.0
            for i in range(k):
                Qp[i] = 0.0
                for j in range(k):
                    Qp[i] += Q[i, j] * p[j]
                total += p[i] * Qp[i]
            worst = 0.0
            for i in range(k):
                worst = max(worst, abs(Qp[i] - total))
            if worst < COUPLED / k:
                break
            for i in range(k):
                change = (total - Qp[i]) / Q[i, i]
                p[i] += change
                total = (total + change * (change * Q[i, i] + 2.0 * Qp[i])) / (1.0 + change) / (1.0 + change)
                for j in range(k):
                    Qp[j] = (Qp[j] + change * Q[i, j]) / (1.0 + change)
                    p[j] /= 1.0 + change


def couple(pairs: np.ndarray, k: int) -> np.ndarray:
    """(n, k) of probabilities that suit those of all pairs, r_ij = P(i | i or j), best."""
    out = np.empty((len(pairs), k))
    _couple(np.ascontiguousarray(pairs, np.float64), k, out)
    return out
