"""What every kernel machine does: check the input, make a Gram, keep the support vectors, predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from .. import threads as th
from ..decisions import MOST_WEIGHTS, DecisionFunction
from ..formulations import Decision
from ..goal import Goal
from ..gram import KERNELS, CallableGram, Factored, Gram, Kernel, KernelGram, PrecomputedGram, gauss_or_not, near_or_not
from ..gram.distance import weigh
from ..gram.matrices import checked_block
from ..gram.points import check_width, make_points
from ..monitor import Monitor
from ..problem import QP
from ..rows import Rows
from ..rows.centre import centred, far_centre, variance
from ..solution import Solution
from ..solvers import SOLVERS, Auto, low_rank_or_not
from .base import Machine, Outcome, Problem, Solved, dense, stacklevel
from .checks import (
    check_dimensions,
    check_kernel,
    check_shared,
    check_sparse,
    check_symmetric,
    checked_samples,
    checked_weight,
    few_plain_rows,
)
from .objects import Objects, as_objects, frame_library, on_items
from .parameters import KernelParameters

__all__ = ["KernelMachine", "SingleMachine"]

DEFINITE_SAMPLE = 200  # support vectors whose kernel matrix is looked at
DEFINITE_SLACK = 1e-6  # negative share of the largest eigenvalue that is put down to rounding
LINEAR_FROM = 2000  # samples of a problem: from here on a linear kernel is seen as features
NEAR_FROM = 20_000  # samples: from here on neighbours of a narrow kernel take less time than the rows of a block solver
PRODUCTS = ("auto", "pcg")  # solvers that live on products with the whole matrix, and the choice between all of them


class KernelMachine(KernelParameters, Machine):
    """Common part of the estimators with a kernel; subclasses say which formulation they solve."""

    # -- input ------------------------------------------------------------------------------------------

    def _check_input(self, X: Any, y: Any, sample_weight: Any, supervised: bool = True) -> tuple:
        """X, y and weights checked as scikit-learn does, without a copy of X where its type allows."""
        check_kernel(self)
        check_shared(self)
        check_sparse(X)
        if callable(self.kernel) and (objects := as_objects(X)) is not None:
            return self._check_objects(objects, y, sample_weight, supervised)
        self._frame = frame_library(X)
        if sp.issparse(X) and not callable(self.kernel):
            check_width(X.shape[1])
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
        if callable(self.kernel):
            options["dtype"] = "numeric"
        if not supervised:
            X = validate_data(self, X, **options)
        else:
            X, y = checked_samples(self, X, y, **options)
        if self.kernel == "precomputed":
            self._check_square(X)
        return X, y, checked_weight(sample_weight, X)

    def _check_objects(self, X: Objects, y: Any, sample_weight: Any, supervised: bool) -> tuple:
        """Samples that are no rows of numbers: what can be checked of them is how many there are."""
        if supervised:
            y = validate_data(self, "no_validation", y)  # which forgets names
            check_consistent_length(X, y)
        self._look_at_names(X, reset=True)
        return X, y, checked_weight(sample_weight, X)

    def _look_at_names(self, X: Objects, reset: bool) -> None:
        """The names and the number of columns, which only a table has."""
        if frame_library(X.items):
            validate_data(self, X.items, reset=reset, skip_check_array=True)

    @staticmethod
    def _check_square(X: Any) -> None:
        if sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported: found a sparse matrix; pass a dense array")
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} matrix; "
                "pass K(X_train, X_train)"
            )

    def _resolve_gamma(self, X: Any, weight: np.ndarray) -> float:
        """γ as scikit-learn defines "scale" and "auto", with weights as copies."""
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        d = X.shape[1]
        if self.gamma == "auto":
            return 1.0 / d
        spread = variance(X, weight)
        return 1.0 / (d * spread) if spread > 0 else 1.0

    def _make_gram(self, X: Any, n_jobs: int | None, largest: int, monitor: Monitor, alone: bool = True) -> Gram:
        """The Gram for problems of up to ``largest`` samples, of which there is one or not."""
        if self.kernel == "precomputed":
            threads = th.count(n_jobs)
            return PrecomputedGram(X, threads=threads, largest=check_symmetric(X, monitor.stop_now, threads))
        if self._function is not None:
            return CallableGram(self._function, X)
        if self._kernel_.name == "linear" and self._sees_features(largest):
            return Factored(centred(Rows.of(X, n_jobs), self._centre))
        gram = KernelGram(self._kernel_, centred(X, self._centre), n_jobs)
        named = self.solver if isinstance(self.solver, str) else ""
        # Samples of weight 0 take no part: what is made for all costs at most twice what it would without them.
        whole = alone and 2 * largest > gram.n
        often = named == "pcg" or (named == "auto" and gram.n >= NEAR_FROM)
        if self.kernel == "wendland" or (self.kernel == "rbf" and often and whole):
            near = near_or_not(gram)
            if near is not gram:
                return near
        definite = self.kernel == "rbf" or (self.kernel == "poly" and self.coef0 >= 0)
        if definite and named == "auto" and whole:
            found = low_rank_or_not(gram, getattr(self, "parametric", None) is not None, monitor.stop_now)
            return gauss_or_not(found)
        return gauss_or_not(gram) if named in PRODUCTS and whole else gram

    def _sees_features(self, largest: int) -> bool:
        """Whether the solver is one that works on features, which a linear kernel has."""
        if not isinstance(self.solver, str):
            return False
        return largest >= LINEAR_FROM if self.solver == "auto" else getattr(SOLVERS[self.solver], "features", False)

    # -- solving ----------------------------------------------------------------------------------------

    def _goal(self, problem: Problem) -> Goal:
        return Goal(violation=self.tol * problem.formulation.unit(problem.weight), max_iter=self.max_iter)

    def _solver(self) -> Auto:
        return Auto(self.solver, options={"shrinking": self.shrinking, "cache_size": self.cache_size})

    def _look_at(self, qp: QP, solution: Solution) -> None:
        """A kernel that is not positive semi-definite makes the problem non-convex: the gap then proves nothing."""
        if isinstance(self.kernel, str) and self.kernel in ("linear", "rbf", "laplacian", "wendland"):
            return
        used = np.flatnonzero(solution.beta)[:DEFINITE_SAMPLE]
        if len(used) < 2:
            return
        eigenvalues = np.linalg.eigvalsh(qp.H.block(used))
        if eigenvalues[0] < -DEFINITE_SLACK * eigenvalues[-1]:
            warnings.warn(
                f"a positive semi-definite kernel was asked for; found an eigenvalue of {eigenvalues[0]:.3g} against "
                f"{eigenvalues[-1]:.3g}; the model is a stationary point and its gap is no proof: use another kernel "
                "or other parameters",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def _function_on_the_way(self, qp: QP) -> Callable[..., np.ndarray]:
        return partial(self._values_on_the_way, qp)

    def _values_on_the_way(self, qp: QP, beta: np.ndarray, eta: np.ndarray, X: Any) -> np.ndarray:
        """Σ β_i k(x_i, x) and what nothing penalises, at points that are given as those of ``fit``."""
        used = np.flatnonzero(beta)
        functions = np.zeros((X.shape[0], 0)) if self._parametric is None else self._functions_of(X)
        k = functions.shape[1]
        fixed = float(eta[: len(eta) - k].sum()) + functions @ eta[len(eta) - k :]
        gram = qp.primal.K if qp.primal is not None else qp.H
        while hasattr(gram, "inner"):
            gram = gram.inner
        if isinstance(gram, PrecomputedGram):
            return np.asarray(X)[:, used if gram.index is None else gram.index[used]] @ beta[used] + fixed
        if isinstance(gram, CallableGram):
            return checked_block(gram.function, X, gram.X[used]) @ beta[used] + fixed
        assert isinstance(gram, KernelGram)
        points = gram.exact.take(used).astype(np.float64)
        there = make_points(centred(X if sp.issparse(X) else np.asarray(X), self._centre), gram.kernel, like=points)
        return weigh(gram.kernel, points, beta[used, None], there, gram.threads)[:, 0] + fixed

    # -- prediction -------------------------------------------------------------------------------------

    def _keep_support(self, X: Any, support: np.ndarray) -> None:
        """Keep the support vectors and what prediction needs of the kernel."""
        self.support_ = support.astype(np.int32)
        self.shape_fit_ = X.shape
        self._sparse = sp.issparse(X)
        if self.kernel == "precomputed":
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = X[support]

    def _check_predict_input(self, X: Any) -> Any:
        if not hasattr(self, "support_vectors_"):
            check_is_fitted(self)
        if isinstance(self.support_vectors_, Objects):
            X = Objects(X)
            self._look_at_names(X, reset=False)
            return X
        if few_plain_rows(self, X):
            return X
        check_sparse(X)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
        if callable(self._as_fitted("kernel")):
            options["dtype"] = "numeric"
        return validate_data(self, X, reset=False, **options)

    def _decision(self, n_support: np.ndarray | None = None) -> DecisionFunction:
        """The function that the fit has left; ``n_support`` where its vectors belong to several classes."""
        return DecisionFunction(
            self._dual,
            self.intercept_,
            self.support_vectors_,
            self._kernel_,
            self._function,
            self.support_ if self._as_fitted("kernel") == "precomputed" else None,
            self._W,
            n_support,
            None if self._parametric is None else self._functions_at,
            self.n_jobs,
        )

    @property
    @th.blas_limit(1)
    def coef_(self) -> Any:
        """Weights of the features, for a linear kernel."""
        if self._as_fitted("kernel") != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        coef = self._feature_weights()
        if sp.issparse(coef):
            coef.data.flags.writeable = False
        else:
            coef.flags.writeable = False
        return coef

    def _feature_weights(self) -> Any:
        if self._W is not None:
            return sp.csr_matrix(self._W) if self._sparse else self._W.copy()
        return self.dual_coef_ @ self.support_vectors_

    _reduced = False  # whether the function of the last fit stands on points of an expansion (expansion.py)

    # A linear kernel has features, and where its bias is free any origin for them. Weights that are added up from
    # rows seen from near by are exact; sums of inner products of rows that are far away are not.

    _moves = True  # whether the bias is free, if there is one
    _W: np.ndarray | None = None  # weights of the features, a row for each problem, where predictions use them

    def _keep_weights(self, X: Any, outcome: Outcome) -> None:
        """Set the intercepts, and for a linear kernel the weights that go with them."""
        self.intercept_ = np.array([s.decision.intercept for s in outcome.solved])
        self._W = None
        if not self._weighs(X.shape[1], len(outcome.solved)):
            return
        self._W = np.vstack([self._weights_of(X, solved) for solved in outcome.solved])
        self.intercept_ = self.intercept_ - self._W @ self._centre

    def _weights_of(self, X: Any, solved: Solved) -> np.ndarray:
        if solved.solution.w is not None:
            return solved.decision.scale * solved.solution.w
        used = solved.decision.points
        near = centred(X[solved.problem.rows[used]], self._centre)
        return Rows.of(near, 1).t_dot(solved.decision.coef[used]) if len(used) else np.zeros(X.shape[1])

    def _weighs(self, d: int, problems: int) -> bool:
        """Whether predictions go through the weights of the features."""
        return self.kernel == "linear" and d * problems <= MOST_WEIGHTS

    def _seen_from_centre(self, number: int, solved: Solved) -> tuple[float, np.ndarray | None]:
        """The published intercept for features seen from the centre, and the weights, if the problem knows features."""
        b = float(self.intercept_[number])
        if self._W is None:
            return b, None
        w = self._W[number]
        return b + float(w @ self._centre), None if solved.solution.w is None else w / solved.decision.scale

    def _prepare_kernel(self, X: Any, weight: np.ndarray, problems: int = 1) -> None:
        weighs = self._weighs(X.shape[1], problems)
        free = weighs and self._moves and getattr(self, "fit_intercept", True)
        self._centre = far_centre(X, weight) if free else np.zeros(X.shape[1] if weighs else 0)
        named = isinstance(self.kernel, str) and self.kernel != "precomputed"
        self._gamma = self._resolve_gamma(X, weight) if named and self.kernel != "linear" else 0.0
        self._kernel_: Any = None  # a Kernel, where it is compiled
        self._function: Callable | None = None if named or self.kernel == "precomputed" else self.kernel
        if isinstance(X, Objects) and self._function is not None:
            self._function = partial(on_items, self._function)
        if named and callable(function := KERNELS[self.kernel]):
            self._function = partial(function, gamma=self._gamma, coef0=float(self.coef0), degree=float(self.degree))
        elif named:
            self._kernel_ = Kernel(self.kernel, self._gamma, float(self.coef0), float(self.degree))
            check_dimensions(self._kernel_, X.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


class SingleMachine(KernelMachine):
    """A kernel machine that solves one problem: regression and outlier detection."""

    _width: float | None = None  # of the distribution of residuals, where it was asked for

    def _fit_single(self, X: Any, y: np.ndarray, weight: np.ndarray) -> None:
        present = np.flatnonzero(weight)  # a sample of weight 0 is not there
        rows = X[present] if len(present) < X.shape[0] else X
        self._prepare_kernel(rows, weight[present])
        phi = self._fit_functions(rows, None if isinstance(self, OutlierMixin) else y[present], weight[present])
        formulation = self._with_functions(self._formulation(), phi)
        if getattr(self, "expansion", None) is not None:
            problem = Problem(formulation, np.arange(len(present)), y[present], weight[present])
            self._fit_expansion(X, present, weight[present], [problem])  # type: ignore[attr-defined]
            return
        problem = Problem(formulation, present, y[present], weight[present])
        outcome = self._solve_all(lambda n_jobs, monitor: self._make_gram(X, n_jobs, len(present), monitor), [problem])
        (solved,) = outcome.solved
        used = solved.decision.points
        self._keep_support(X, present[used])
        self._dual = solved.decision.coef[None, used]
        self.dual_coef_ = sp.csr_matrix(self._dual) if self._sparse else self._dual
        self._keep_weights(X, outcome)
        self.n_support_ = np.array([len(used)], np.int32)
        self.n_iter_ = int(solved.solution.n_iter)
        if self._parametric is not None:
            self.parametric_coef_ = solved.decision.parametric
        self._publish(solved.decision)
        self._add_probabilities(X, outcome)
        self._certify(outcome)

    def _publish(self, decision: Decision) -> None:
        """Set the attributes that only this machine has."""

    def _add_probabilities(self, X: Any, outcome: Outcome) -> None:
        """Set what probabilities need, for a machine that has them."""

    @property
    def _found(self) -> float:
        """What the machine finds besides, as published."""
        return 0.0

    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        coef = np.zeros(len(solved.problem.rows))
        coef[np.searchsorted(solved.problem.rows, self.support_)] = dense(self.dual_coef_)[0]
        parametric = np.zeros(0) if self._parametric is None else self.parametric_coef_
        intercept, w = self._seen_from_centre(0, solved)
        return Decision(coef, intercept, self._found, solved.decision.scale, parametric), w

    def _decide(self, X: Any, checked: bool = False) -> np.ndarray:
        """Σ coef k(x_i, x) + intercept + what the parametric functions add."""
        X = X if checked else self._check_predict_input(X)
        return self._decision().problems(X)[:, 0]
