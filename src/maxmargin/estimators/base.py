"""What every kernel machine does: check the input, make a Gram, solve, keep the support vectors, predict.

Conventions are scikit-learn's (the seven shared names take its parameters with its meanings); what is more is
the certificate of every fit, solvers by name, time limits, callbacks, threads and exact weights.
"""

from __future__ import annotations

import numbers
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import threads as th
from ..formulations import Decision, Formulation
from ..gram import KERNELS, CallableGram, Gram, Kernel, KernelGram, PrecomputedGram
from ..gram.base import checked_block
from ..gram.points import make_points, weigh
from ..monitor import Monitor
from ..solution import Certificate, Solution, Status
from ..solvers import SOLVERS, make_solver

__all__ = ["KernelMachine", "Problem", "SingleMachine"]

DEFINITE_SAMPLE = 200  # support vectors whose kernel matrix is looked at
DEFINITE_SLACK = 1e-6  # negative share of the largest eigenvalue that is put down to rounding
PREDICT_BYTES = 1 << 26  # kernel values held at a time while predicting with a callable


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


class KernelMachine(BaseEstimator):
    """Common part of the estimators with a kernel; subclasses say which formulation they solve."""

    _optional: tuple[str, ...] = ()  # parameters that may be None

    # -- input ------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Errors in three parts for parameters that every kernel machine has."""

        def need(name: str, ok: bool, do: str) -> None:
            if not ok:
                value = getattr(self, name)
                raise ValueError(f"{name}={value!r} was asked for; found a value that makes no sense; {do}")

        def real(name: str) -> bool:
            value = getattr(self, name)
            return (
                isinstance(value, (int, float, np.integer, np.floating))
                and not isinstance(value, bool)
                and value == value
            )

        if isinstance(self.kernel, str) and self.kernel not in (*KERNELS, "precomputed"):
            raise ValueError(
                f"kernel={self.kernel!r} was asked for; found {sorted(KERNELS)} and 'precomputed'; "
                "name one of them or pass a callable"
            )
        need("kernel", isinstance(self.kernel, str) or callable(self.kernel), "give a name or a callable K(X, Z)")
        whole = real("degree") and float(self.degree).is_integer()
        need("degree", whole and self.degree >= 0, "give a whole degree >= 0")
        need("coef0", real("coef0") and np.isfinite(self.coef0), "give a number")
        need("tol", real("tol") and self.tol > 0, "give tol > 0")
        counted = isinstance(self.max_iter, (int, np.integer)) and (self.max_iter == -1 or self.max_iter > 0)
        need("max_iter", bool(counted), "give -1 for no limit, or a whole number > 0")
        if isinstance(self.gamma, str):
            need("gamma", self.gamma in ("scale", "auto"), "give 'scale', 'auto' or a number >= 0")
        else:
            need(
                "gamma",
                real("gamma") and self.gamma >= 0 and np.isfinite(self.gamma),
                "give 'scale', 'auto' or a number >= 0",
            )
        sized = real("cache_size") and 0 < self.cache_size < np.inf
        need("cache_size", sized or self.cache_size == "auto", 'give megabytes > 0 or "auto"')
        timed = self.time_limit is None or (real("time_limit") and self.time_limit > 0)
        need("time_limit", timed, "give seconds > 0 or None")
        need("callback", self.callback is None or callable(self.callback), "give a function of one argument or None")
        need("n_jobs", self.n_jobs is None or isinstance(self.n_jobs, numbers.Integral), "give a whole number or None")
        known = isinstance(self.solver, str) and self.solver in ("auto", *SOLVERS)
        if not known and (isinstance(self.solver, (str, type)) or not hasattr(self.solver, "solve")):
            raise ValueError(
                f"solver={self.solver!r} was asked for; found 'auto' and {sorted(SOLVERS)}; "
                "name one of them or pass a solver"
            )
        for name in ("shrinking", "fit_intercept", "break_ties", "warm_start"):
            if hasattr(self, name):
                need(name, isinstance(getattr(self, name), (bool, np.bool_)), "give True or False")
        for name, lower in (("C", 0.0), ("epsilon", 0.0), ("nu", 0.0), ("huber_delta", 0.0)):
            value = getattr(self, name, None)
            if not hasattr(self, name) or (value is None and name in self._optional):
                continue
            if name == "epsilon":
                need(name, real(name) and 0 <= value < np.inf, "give epsilon >= 0")
            elif name == "nu":
                need(name, real(name) and 0 < value <= 1, "give nu in (0, 1]")
            else:
                need(name, real(name) and value > lower, f"give {name} > 0")

    def _check_input(self, X, y, sample_weight, supervised: bool = True):
        """X, y and weights checked as scikit-learn does, without a copy of X where its type allows."""
        self._check_parameters()
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
        if callable(self.kernel):
            options["dtype"] = "numeric"
        if not supervised:
            X = validate_data(self, X, **options)
        else:
            X, y = validate_data(self, X, y, multi_output=False, **options)
        if self.kernel == "precomputed":
            self._check_square(X)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(
                "sample_weight >= 0 was asked for; found a negative weight; "
                "Negative weights have no meaning as copies of a sample: give weights >= 0"
            )
        if not (weight > 0).any():
            raise ValueError(
                "sample_weight with positive entries was asked for; found that all are zero; give some samples weight"
            )
        return X, y, weight

    @staticmethod
    def _check_square(X) -> None:
        if sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported: found a sparse matrix; pass a dense array")
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} matrix; "
                "pass K(X_train, X_train)"
            )

    def _resolve_gamma(self, X, weight: np.ndarray) -> float:
        """γ as scikit-learn defines "scale" and "auto", with weights as copies."""
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        d = X.shape[1]
        if self.gamma == "auto":
            return 1.0 / d
        total = weight.sum()
        if sp.issparse(X):
            mean = float((weight @ X).sum()) / (total * d)
            second = float((weight @ X.multiply(X)).sum()) / (total * d)
        else:
            row_sums, row_squares = np.empty(len(X)), np.empty(len(X))
            step = max(1, (1 << 22) // max(1, d))
            shift = float(
                X[np.flatnonzero(weight)[0]].mean()
            )  # near the mean, so that the difference below is exact enough
            for a in range(0, len(X), step):
                block = np.asarray(X[a : a + step], np.float64) - shift
                row_sums[a : a + step] = block.sum(axis=1)
                row_squares[a : a + step] = np.einsum("ij,ij->i", block, block)
            mean = float(weight @ row_sums) / (total * d)
            second = float(weight @ row_squares) / (total * d)
        variance = second - mean * mean
        return 1.0 / (d * variance) if variance > 0 else 1.0

    def _make_gram(self, X, n_jobs: int | None) -> Gram:
        if self.kernel == "precomputed":
            scale = float(np.abs(X).max())
            if not np.allclose(X, X.T, rtol=0.0, atol=1e-5 * scale):
                raise ValueError(
                    "a precomputed kernel was asked for; found a matrix that is not symmetric; "
                    "pass (K + K.T) / 2 if that is what you mean"
                )
            return PrecomputedGram(X)
        if callable(self.kernel):
            return CallableGram(self.kernel, X)
        return KernelGram(self._kernel_, X, n_jobs)

    # -- solving ----------------------------------------------------------------------------------------

    def _make_solver(self):
        """The solver that the parameters name, and what to call it."""
        name = "decomposition" if isinstance(self.solver, str) and self.solver == "auto" else self.solver
        if not isinstance(name, str):
            return name, type(name).__name__
        options = {
            "tol": self.tol,
            "max_iter": self.max_iter,
            "shrinking": self.shrinking,
            "cache_size": self.cache_size,
        }
        return make_solver(name, **options), name

    def _solve_all(self, X, problems: list[Problem]) -> list[Solved]:
        """Solve the problems of a fit, side by side where there are several."""
        started = time.perf_counter()
        solver, self.solver_ = self._make_solver()
        workers = min(th.count(self.n_jobs), len(problems))
        inner_jobs = 1 if workers > 1 else self.n_jobs
        gram = self._make_gram(X, inner_jobs)
        starts = getattr(self, "_starts_", None) if self.warm_start else None

        def solve(number: int, monitor: Monitor) -> Solved:
            problem = problems[number]
            whole = len(problem.rows) == gram.n
            qp = problem.formulation.qp(gram if whole else gram.take(problem.rows), problem.y, problem.weight)
            start = (
                starts[number] if starts is not None and number < len(starts) and len(starts[number]) == qp.n else None
            )
            solution = solver.solve(qp, start, monitor)
            self._warn_if_indefinite(qp, solution)
            return Solved(problem, solution, problem.formulation.decision(qp, solution))

        # Threads are ours: BLAS threads take longer to meet than most of the products here take.
        with Monitor(self.time_limit, self.callback, bool(self.verbose)) as monitor, th.blas_limit(1):
            if workers == 1:
                solved = [solve(k, monitor.part(p.label)) for k, p in enumerate(problems)]
            else:
                with ThreadPoolExecutor(workers) as pool:
                    tasks = [pool.submit(solve, k, monitor.part(p.label)) for k, p in enumerate(problems)]
                    solved = [task.result() for task in tasks]
        self._conclude(solved, time.perf_counter() - started)
        return solved

    def _warn_if_indefinite(self, qp, solution: Solution) -> None:
        """A kernel that is not positive semi-definite makes the problem non-convex: the gap then proves nothing."""
        if isinstance(self.kernel, str) and self.kernel in ("linear", "rbf", "laplacian"):
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
                stacklevel=5,
            )

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
                stacklevel=4,
            )

    # -- prediction -------------------------------------------------------------------------------------

    def _keep_support(self, X, support: np.ndarray) -> None:
        """Keep the support vectors and what prediction needs of the kernel."""
        self.support_ = support.astype(np.int32)
        self.shape_fit_ = X.shape
        self._sparse = sp.issparse(X)
        if self.kernel == "precomputed":
            self.support_vectors_ = np.empty((0, 0))
        else:
            self.support_vectors_ = X[support]

    def _check_predict_input(self, X):
        check_is_fitted(self)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "accept_large_sparse": True}
        if callable(self.kernel):
            options["dtype"] = "numeric"
        return validate_data(self, X, reset=False, **options)

    def _weigh(self, X, coef: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """Σ_s coef[s, c] k(support vector s, x) for each row of X: blocked products over support vectors only."""
        support = self.support_[rows]
        if self.kernel == "precomputed":
            return np.asarray(X[:, support], np.float64) @ coef
        vectors = self.support_vectors_[rows]
        if callable(self.kernel):
            out = np.empty((X.shape[0], coef.shape[1]))
            step = max(1, PREDICT_BYTES // (8 * max(1, len(support))))
            for a in range(0, X.shape[0], step):
                block = X[a : a + step]
                out[a : a + step] = checked_block(self.kernel, block, vectors) @ coef if len(support) else 0.0
            return out
        left = make_points(vectors, self._kernel_)
        right = make_points(X, self._kernel_, like=left)
        return weigh(self._kernel_, left.astype(np.float64), coef, right, th.count(self.n_jobs))

    @property
    def coef_(self):
        """Weights of the features, for a linear kernel."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        coef = self._feature_weights()
        if sp.issparse(coef):
            coef.data.flags.writeable = False
        else:
            coef.flags.writeable = False
        return coef

    def _feature_weights(self):
        return self.dual_coef_ @ self.support_vectors_

    def _prepare_kernel(self, X, weight: np.ndarray) -> None:
        self._gamma = 0.0 if callable(self.kernel) or self.kernel == "precomputed" else self._resolve_gamma(X, weight)
        if isinstance(self.kernel, str) and self.kernel != "precomputed":
            self._kernel_ = Kernel(self.kernel, self._gamma, float(self.coef0), float(self.degree))
        else:
            self._kernel_ = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


class SingleMachine(KernelMachine):
    """A kernel machine that solves one problem: regression and outlier detection."""

    def _fit_single(self, X, y: np.ndarray, weight: np.ndarray) -> None:
        present = np.flatnonzero(weight)  # a sample of weight 0 is not there
        self._prepare_kernel(X[present] if len(present) < X.shape[0] else X, weight[present])
        problem = Problem(self._formulation(), present, y[present], weight[present])
        (solved,) = self._solve_all(X, [problem])
        used = np.flatnonzero(solved.decision.coef)
        self._keep_support(X, present[used])
        self._dual = solved.decision.coef[None, used]
        self.dual_coef_ = sp.csr_matrix(self._dual) if self._sparse else self._dual
        self.intercept_ = np.array([solved.decision.intercept])
        self.n_support_ = np.array([len(used)], np.int32)
        self.n_iter_ = int(solved.solution.n_iter)
        self._found = solved.decision.found

    def _decide(self, X) -> np.ndarray:
        """Σ coef k(x_i, x) + intercept."""
        X = self._check_predict_input(X)
        return self._weigh(X, self._dual.T)[:, 0] + self.intercept_[0]
