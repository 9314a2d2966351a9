"""Machines whose function stands on few points: SVC and SVR with ``expansion`` (PRIMAL §6.2).

    min over α, b   ½ αᵀK_zz α + C Σ ℓ(y_i, f(x_i))        f(x) = Σ_j α_j k(z_j, x) + b        k points z_j

It is solved as the linear machine that it is (gram/reduced.py), by the solvers of those, and ``tol`` is the relative
gap as for them. All problems of a fit share the points and the features; rows of a class lie together, so that those
of two classes are two views of the features and nothing is copied.

**What is certified** is the model as published: f at the samples comes from the kernel and ``dual_coef_``, as predict
computes it. The dual bound is that of coefficients β of all samples, of which the solver knows the best it has seen.

**Against the full machine.** The same β obey the constraints of the dual of the machine on all samples. Its value
there, for the best multiple of β, is below the objective of every function, whatever it stands on: ``full_gap_`` is the
share by which the published objective may be above the best of all. It takes kernel values between all samples with
coefficients, and is computed where these take no longer than the features did.
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils import check_array

from .. import host
from .. import threads as th
from ..formulations import Decision, Samples
from ..goal import Goal
from ..gram import CallableGram, Exact, Expansion, Gram, KernelGram, PrecomputedGram, Reduced
from ..gram.points import BLAS_PACE, KERNEL_COST
from ..gram.reduced import COLUMNS_BYTES, function_values, independent, matrix_values, point_values
from ..monitor import Monitor
from .base import Outcome, Problem, Solved, stacklevel
from .basis import Candidates, cluster_means
from .checks import check_choice
from .folds import seed_of
from .greedy import ROWS_A_POINT, SAMPLE_ROWS, chosen_greedily
from .kernel import DEFINITE_SLACK, KernelMachine
from .objects import Objects

__all__ = ["Expanding"]

CHOICES = ("random", "greedy", "kmeans")
SINGLE_FROM = 1 << 22  # numbers: features that take more memory than 32 MB are stored in float32,
SINGLE_TOL = 1e-5  # unless the gap that is asked for is so small that their rounding would be seen
SINGLE_SHARE = 0.5  # of what is free: features in float64 that take more are stored in float32 all the same
QUICK = 1 << 28  # products of matrices take some hundredths of a second: so much is always spent on ``full_gap_``
VALUE_COST = BLAS_PACE * KERNEL_COST  # products of matrices that take as long as a kernel value

if TYPE_CHECKING:
    Base = KernelMachine
else:
    Base = object


@dataclass(kw_only=True, eq=False, repr=False)
class Expanding(Base):
    """What SVC and SVR do where ``expansion`` is given."""

    expansion: Any = None
    expansion_choice: str = "random"

    _reduced = False  # whether the last fit was such a one

    # -- parameters ---------------------------------------------------------------------------------------

    def _asked_points(self, X: Any) -> int | np.ndarray | Any:
        """How many points, which rows of X, or the points themselves, checked."""
        check_choice(self, "expansion_choice", CHOICES)
        asked, n = self.expansion, X.shape[0]
        if isinstance(asked, numbers.Integral) and not isinstance(asked, bool):
            if asked < 1:
                raise ValueError(
                    f"an expansion on {asked} points was asked for; found no point in that; give a number >= 1, or "
                    "None for all samples"
                )
            if self.expansion_choice == "kmeans" and (self.kernel == "precomputed" or callable(self.kernel)):
                found = "a precomputed kernel" if self.kernel == "precomputed" else "a kernel that is a function"
                raise ValueError(
                    f'expansion_choice="kmeans" was asked for; found {found}, for which a mean of samples need not '
                    'mean anything; choose "random" or "greedy", or name rows of X'
                )
            return int(asked)
        if isinstance(asked, (str, bytes, bool, numbers.Real)) or asked is None or callable(asked):
            raise ValueError(
                f"an expansion was asked for; found expansion={asked!r}; give a number of points, numbers of rows of "
                "X, or points as an array of two dimensions"
            )
        if not sp.issparse(asked) and np.ndim(asked) == 1:
            index = np.asarray(asked)
            if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= n:
                raise ValueError(
                    f"an expansion on rows of X was asked for; found {_shown(index)}; give whole numbers from 0 to "
                    f"{n - 1}, or points as an array of two dimensions"
                )
            return index.astype(np.int64)
        if isinstance(X, Objects):
            raise ValueError(
                "an expansion on points was asked for; found samples that are no rows of numbers; give numbers of "
                "samples"
            )
        if self.kernel == "precomputed":
            raise ValueError(
                "an expansion on points was asked for; found a precomputed kernel, which knows no points but the "
                "samples; give numbers of rows of X"
            )
        dtype: Any = "numeric" if callable(self.kernel) else [np.float64, np.float32]
        points = check_array(asked, accept_sparse="csr", dtype=dtype, input_name="expansion")
        if points.shape[1] != X.shape[1]:
            raise ValueError(
                f"an expansion on points was asked for; found points of {points.shape[1]} features and samples of "
                f"{X.shape[1]}; give points with as many features as X has"
            )
        return points

    def _goal(self, problem: Problem) -> Goal:
        if self.expansion is None:
            return super()._goal(problem)
        return Goal(gap=self.tol, max_iter=self.max_iter, exact=False)

    def _weighs(self, d: int, problems: int) -> bool:
        return self.expansion is None and super()._weighs(d, problems)

    # -- points -------------------------------------------------------------------------------------------

    def _choose(self, X: Any, rows: np.ndarray, weight: np.ndarray, problems: list[Problem], monitor: Monitor) -> Any:
        """The points that were asked for, as numbers of samples or as points of their own."""
        asked = self._asked_points(X)
        if not isinstance(asked, int):
            return asked if _numbers(asked) else sp.csr_matrix(asked) if self._sparse else _dense(asked)
        seed = seed_of(self.random_state)  # type: ignore[attr-defined]
        whole = np.zeros(X.shape[0])
        whole[rows] = weight
        candidates = Candidates.of(X, whole, seed)
        if asked >= len(candidates):
            return np.sort(candidates.first)
        if self.expansion_choice == "kmeans":
            means = cluster_means(X, candidates, asked, seed)
            return sp.csr_matrix(means) if self._sparse else means
        if self.expansion_choice == "greedy":
            return self._choose_greedily(X, rows, candidates, asked, problems, seed, monitor)
        return np.sort(candidates.first[candidates.drawn(asked)])

    def _choose_greedily(
        self,
        X: Any,
        rows: np.ndarray,
        candidates: Candidates,
        asked: int,
        problems: list[Problem],
        seed: int,
        monitor: Monitor,
    ) -> np.ndarray:
        """Numbers of samples."""
        drawn = candidates.drawn(max(SAMPLE_ROWS, ROWS_A_POINT * asked))
        first = candidates.first[drawn]
        if self.kernel == "precomputed":
            gram: Gram = PrecomputedGram(X, first)
        else:
            gram = self._gram_of(X[first])
        number = np.full(len(candidates), -1)
        number[drawn] = np.arange(len(drawn))
        row_of = np.empty(X.shape[0], np.int64)
        row_of[candidates.samples] = number[candidates.copy_of]
        chosen = chosen_greedily(asked, gram.rows, gram.diag(), row_of[rows], problems, self._solver(), seed, monitor)
        return np.sort(first[chosen])

    def _gram_of(self, X: Any) -> Gram:
        return CallableGram(self._function, X) if self._function else KernelGram(self._kernel_, X, self.n_jobs).wide()

    def _kernel_values(self, X: Any, points: Any) -> Any:
        """A function of numbers of samples that gives their kernel values with the points."""
        if self.kernel == "precomputed":
            return matrix_values(X, points)
        Z = X[points] if _numbers(points) else points
        if self._function is not None:
            return function_values(self._function, X, Z)
        return point_values(self._kernel_, X, Z)

    def _expand(self, X: Any, points: Any, rows: np.ndarray) -> tuple[Expansion, np.ndarray]:
        """The expansion on those of the points that do not depend on others, and which these are, in its order."""
        size = points.shape[0]
        if _numbers(points):
            square = self._kernel_values(X, points)(points)
        else:
            square = self._kernel_values(points, points)(np.arange(size))
        if not np.isfinite(square).all():
            raise ValueError(
                f"an expansion on {size} points was asked for; found kernel values that are not finite; scale the "
                "features, or choose a smaller gamma, coef0 or degree"
            )
        order, L, least = independent(square)
        if not len(order) and square.any():
            raise ValueError(
                f"an expansion on {size} points was asked for; found k(z, z) <= 0 for all of them, so that no function "
                "of theirs has a norm; choose other points or another kernel"
            )
        if not len(order):  # all functions are 0, and so are the features: a machine of its bias alone
            order, L = np.zeros(1, np.int64), np.ones((1, 1), order="F")
        if least < -DEFINITE_SLACK:
            warnings.warn(
                f"an expansion on {size} points was asked for; found a kernel matrix of theirs that is not positive "
                f"semi-definite (a pivot of {least:.3g} of the largest entry); {size - len(order)} points are left "
                "out: use another kernel, other parameters or other points",
                UserWarning,
                stacklevel=stacklevel(),
            )
        user = self._function is not None  # a user's function need not be prepared for several threads
        width: float = (
            X.nnz / max(1, X.shape[0]) if sp.issparse(X) else 0 if self.kernel == "precomputed" else X.shape[1]
        )
        values, threads = self._kernel_values(X, points[order]), 1 if user else th.count(self.n_jobs)
        return Expansion(values, L, rows, int(width), threads), order

    # -- fitting ------------------------------------------------------------------------------------------

    def _fit_expansion(self, X: Any, rows: np.ndarray, weight: np.ndarray, problems: list[Problem]) -> None:
        """Fit on samples ``rows`` of X, whose numbers in this order the problems have."""
        if getattr(self, "probability", False) is True:
            raise ValueError(
                "probability=True was asked for; found an expansion, whose folds would be machines on other points; "
                "wrap a classifier in sklearn.calibration.CalibratedClassifierCV, or leave one of the two out"
            )
        self._sparse, self.shape_fit_ = sp.issparse(X), X.shape
        expansion: Expansion | None = None
        points = order = np.zeros(0, np.int64)

        def make_gram(n_jobs: int | None, monitor: Monitor) -> Gram:
            nonlocal expansion, points, order
            points = self._choose(X, rows, weight, problems, monitor)
            expansion, order = self._expand(X, points, rows)
            single = expansion.n * expansion.k > SINGLE_FROM and self.tol >= SINGLE_TOL
            single = single or 8 * expansion.n * expansion.k > SINGLE_SHARE * host.free_memory()
            Z = expansion.matrix(dtype=np.float32 if single else np.float64, stop=monitor.stop_now)
            return Reduced(Z, n_jobs)

        outcome = self._solve_all(make_gram, problems)
        assert expansion is not None
        W = np.column_stack([_weights(solved) for solved in outcome.solved])
        self._keep_points(X, points[np.sort(order)], expansion.coefficients(W)[np.argsort(order)].T)
        self.intercept_ = np.array([solved.decision.intercept for solved in outcome.solved])
        self._W = None
        ranks = np.empty(len(order), np.int64)
        ranks[np.argsort(order)] = np.arange(len(order))
        published = np.ascontiguousarray(self._dual[:, ranks].T)
        # From here on the kernel itself takes the place of the features, whose memory is free again.
        grams = [Exact(expansion).take(solved.problem.rows) for solved in outcome.solved]
        outcome = replace(outcome, solved=list(map(_with_gram, outcome.solved, grams)), gram=grams[0])
        outcome = replace(outcome, solved=_proven(outcome.solved, grams, expansion, published))
        steps = [solved.solution.n_iter for solved in outcome.solved]
        single = is_regressor(self)
        self.n_iter_: Any = int(steps[0]) if single else np.array(steps, np.int32)
        self.n_support_: Any = np.array([len(order)], np.int32)
        if self._parametric is not None:
            parametric = np.vstack([solved.decision.parametric for solved in outcome.solved])
            self.parametric_coef_: Any = parametric[0] if single else parametric
        if single:
            self._add_probabilities(X, outcome)
        self.full_gap_ = self._full_gap(X, outcome, expansion)
        self._certify(outcome)

    def _keep_points(self, X: Any, points: Any, dual: np.ndarray) -> None:
        """Set the points and their coefficients."""
        self._reduced = self._stops_on_gap = True
        if _numbers(points):
            self.support_ = points.astype(np.int32)
        precomputed = self.kernel == "precomputed"
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[points] if _numbers(points) else points
        self._dual = np.ascontiguousarray(dual)
        self.dual_coef_ = sp.csr_matrix(self._dual) if self._sparse else self._dual

    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        if not self._reduced:
            return super()._published(number, solved)  # type: ignore[safe-super]  # that of its kind of machine
        parametric = np.zeros(0) if self._parametric is None else np.atleast_2d(self.parametric_coef_)[number]
        return Decision(solved.solution.beta, float(self.intercept_[number]), parametric=parametric), solved.solution.w

    # -- against the full machine ---------------------------------------------------------------------------

    @th.blas_limit(1)
    def _full_gap(self, X: Any, outcome: Outcome, expansion: Expansion) -> float | None:
        """The share by which the objective may be above that of the machine on all samples, or None: too dear."""
        used = [np.flatnonzero(solved.solution.beta) for solved in outcome.solved]
        dear = sum(len(index) ** 2 for index in used) * (expansion.width + VALUE_COST)
        worth = expansion.n * expansion.k * (expansion.k + expansion.width + VALUE_COST)
        if dear > max(worth, QUICK) or outcome.monitor.stop_now() is not None:
            return None
        gaps = []
        for number, (solved, index) in enumerate(zip(outcome.solved, used, strict=True)):
            published, w = self._published(number, solved)
            beta, eta = solved.problem.formulation.point(solved.qp, published)
            primal = solved.qp.certificate(beta, eta, w).primal
            square = self._square(X, expansion.rows[solved.problem.rows[index]], beta[index])
            if solved.qp.ridge is not None:
                square += float(solved.qp.ridge @ (beta * beta))
            # The dual is a parabola in the length of β, and any shorter β obeys the constraints too.
            slope = -float(solved.qp.p @ beta + solved.qp.eps @ np.abs(beta))
            length = min(1.0, max(0.0, slope / square)) if square > 0.0 else 0.0
            bound = length * slope - 0.5 * length * length * square
            gaps.append((primal - bound) / max(abs(primal), np.finfo(float).tiny))
        return max(gaps)

    def _square(self, X: Any, rows: np.ndarray, beta: np.ndarray) -> float:
        """βᵀKβ over these samples."""
        if not len(rows):
            return 0.0
        gram = PrecomputedGram(X, rows) if self.kernel == "precomputed" else self._gram_of(X[rows])
        return float(beta @ gram.combine(np.arange(len(rows)), beta))


def _numbers(points: Any) -> bool:
    """Whether points are given by numbers of samples."""
    return not sp.issparse(points) and points.ndim == 1


def _dense(points: Any) -> np.ndarray:
    return points.toarray() if sp.issparse(points) else points


def _shown(index: np.ndarray) -> str:
    if index.dtype.kind not in "iu":
        return f"an array of type {index.dtype}"
    return f"numbers from {index.min()} to {index.max()}" if len(index) else "an empty array"


def _weights(solved: Solved) -> np.ndarray:
    """The weights that a solver has found, or those that its coefficients add up to."""
    w = solved.solution.w
    w = solved.qp.weights(solved.solution.beta) if w is None else w
    assert w is not None  # a reduced machine knows its features
    return w


def _with_gram(solved: Solved, gram: Gram) -> Solved:
    """A problem with another matrix in place of its own."""
    problem = solved.problem
    return replace(solved, qp=problem.formulation.qp(Samples(gram, problem.y, problem.weight)))


@th.blas_limit(1)
def _proven(solved: list[Solved], grams: list[Exact], expansion: Expansion, alpha: np.ndarray) -> list[Solved]:
    """The problems with the weights of the α as published; all products that certificates need are computed together.

    Matrices remember what was computed for them.
    """
    W, found = expansion.weights(alpha), []
    together = max(1, COLUMNS_BYTES // (16 * max(1, expansion.n)))
    for first in range(0, len(solved), together):
        part = solved[first : first + together]
        B = np.zeros((expansion.n, len(part)))
        for column, one in enumerate(part):
            B[one.problem.rows, column] = one.solution.beta
        own = expansion.pulled(B)
        del B
        F = expansion.function(np.hstack([expansion.coefficients(own), alpha[:, first : first + len(part)]]))
        for column, (one, gram) in enumerate(zip(part, grams[first:], strict=False)):
            rows, w = one.problem.rows, np.ascontiguousarray(W[:, first + column])
            gram.remember(one.solution.beta, np.ascontiguousarray(own[:, column]), F[rows, column])
            gram.remember_along(w, F[rows, len(part) + column])
            found.append(replace(one, solution=replace(one.solution, w=w)))
    return found
