"""The Potential SVM: PSVC and PSVR.

Samples are described by their relations to P objects: a matrix K of L × P numbers that a kernel gives, that was
computed before, or that *is* the data (``kernel="dyadic"``). It need be neither symmetric nor definite nor square.
The machine chooses few of the objects, and its function reads the relations to those alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import threads as th
from ..decisions import MOST_WEIGHTS, DecisionFunction
from ..formulations import PSVM, Decision, Samples
from ..goal import Goal
from ..gram import Kernel, Relation, Unread
from ..monitor import Monitor, Stopped
from ..rows.centre import variance
from ..solution import Certificate, Status
from ..solvers import Auto
from .base import Machine, Problem, Solved, certified_or_as_before
from .checks import (
    check_kernel,
    check_labels,
    check_shared,
    check_sparse,
    checked_samples,
    checked_weight,
    few_plain_rows,
    need,
)
from .multiclass import weighed_classes
from .parameters import documented, says_fit

__all__ = ["PSVC", "PSVR", "Path", "signs", "walk"]

RELATED = "array-like or sparse matrix of shape (n_samples, n_features), or the matrix of relations"
LEAVES = "support_ support_vectors_ alpha_ intercept_ n_support_ fit_status_".split()
MATRICES = ("precomputed", "dyadic")  # X itself is the relation
LARGEST_SHARE = 0.999  # of the least ε at which nothing is chosen: where a path begins
SMALLEST_SHARE = 1e-3  # of it: where a path ends unless it is told
PATH_LENGTH = 50


@dataclass(frozen=True)
class Path:
    """Solutions for a sequence of ε, each found from the one before."""

    epsilons: np.ndarray  # (m,), falling
    alphas: np.ndarray  # (m, P), or (m, classes, P) with more than two classes
    intercepts: np.ndarray  # (m,) or (m, classes): of the function on the relations as they are
    certificates: list[list[Certificate]]  # for each ε one for each problem
    status: Status = Status.CONVERGED  # of all solutions, or why one of them or the path ended before its end

    @property
    def n_support(self) -> np.ndarray:
        """How many columns each solution stands on."""
        used = self.alphas != 0.0
        return (used if used.ndim == 2 else used.any(axis=1)).sum(axis=1)


@dataclass(kw_only=True, eq=False, repr=False)
class _Potential(Machine):
    """What PSVC and PSVR share: the relation, its problems, and functions that read a few of its columns."""

    C: float = 1000.0
    epsilon: float = 0.1
    kernel: Any = "rbf"
    objects: Any = None
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    cache_size: float | str = "auto"
    pair: bool = True
    block: bool = True
    annealing: bool = True

    _says = {
        "C": (
            "float",
            "Largest |α| in units of the standard deviation σ of the targets; the paper's C is C·σ. May be infinite: a "
            "lasso.",
        ),
        "epsilon": (
            "float",
            "How well a column may still agree with the residual, in units of σ; the paper's ε is epsilon·σ. A column "
            "that has nothing to do with the targets has about 1. The larger, the fewer columns are chosen.",
        ),
        "kernel": (
            '{"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed", "dyadic"} or callable',
            'A kernel relates samples to ``objects``. "precomputed": X is the matrix of relations, L × P, of any '
            'shape, definite or not; a square one relates samples to themselves. "dyadic": X is a matrix of relations '
            "to P other objects, such as features; array, sparse matrix or memory map. A callable K(X, Z) need not be "
            "definite and may take two kinds of objects.",
        ),
        "objects": ("array-like or None", "What a kernel relates the samples to; None: the samples themselves."),
        "tol": (
            "float",
            "Largest violation of the optimality conditions (the paper's d, in units of σ), and the largest relative "
            "gap.",
        ),
        "pair": ("bool", 'Steps on two variables, in ``solver="potential-smo"``.'),
        "block": ("bool", 'Block optimisation, in ``solver="potential-smo"``.'),
        "annealing": ("bool", 'Annealing of epsilon, in ``solver="potential-smo"``.'),
        "support_": ("ndarray of shape (n_support,)", "Numbers of the columns that were chosen."),
        "support_vectors_": ("ndarray or CSR", "The chosen objects, where there is a kernel."),
        "alpha_": (
            "ndarray of shape (n_support,), or (n_classes, n_support)",
            "Their coefficients, on columns with mean 0 and norm 1, as in the paper.",
        ),
        "intercept_": ("ndarray of shape (n_problems,)", "The bias of the function on the relations as they are."),
    }

    _stops_on_gap = True

    # -- input ------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.kernel != "dyadic":
            check_kernel(self)
        check_shared(self)
        for name in ("pair", "block", "annealing"):
            need(self, name, isinstance(getattr(self, name), (bool, np.bool_)), "give True or False")
        if self.kernel in MATRICES:
            need(self, "objects", self.objects is None, "a matrix has its objects as columns: leave it None")

    def _check_input(self, X: Any, y: Any, sample_weight: Any) -> tuple:
        self._check_parameters()
        check_sparse(X)
        X, y = checked_samples(self, X, y, **self._options(self.kernel))
        self._check_missing(X, self.kernel)
        return X, y, checked_weight(sample_weight, X)

    @staticmethod
    def _options(kernel: Any) -> dict:
        """How scikit-learn is to check X; a callable gets its objects as they are, strings or whatever."""
        options: dict[str, Any] = {"accept_sparse": "csr", "accept_large_sparse": True}
        if callable(kernel):
            return options | {"dtype": None, "ensure_2d": False}
        options["dtype"] = [np.float64, np.float32]
        return options | {"ensure_all_finite": "allow-nan"} if kernel in MATRICES else options

    @staticmethod
    def _check_missing(X: Any, kernel: Any) -> None:
        if kernel not in MATRICES:
            return
        values = X.data if sp.issparse(X) else X
        if not np.isnan(np.sum(values)):
            return
        missing = sp.csr_array(X) if sp.issparse(X) else None
        count = int(np.isnan(values).sum())
        columns = missing.indices[np.isnan(values)] if missing is not None else np.flatnonzero(np.isnan(X).any(axis=0))
        raise ValueError(
            f"relations without gaps were asked for (kernel={kernel!r}); found {count} NaN in "
            f"{len(np.unique(columns))} columns, the first of them column {int(columns.min())}. Input X contains NaN. "
            "Fill them in (sklearn.impute.SimpleImputer), leave out these columns or these samples, or, where a "
            "missing relation means none, put 0 or give a sparse matrix without them"
        )

    # -- the relation -----------------------------------------------------------------------------------

    def _prepare(self, X: Any, weight: np.ndarray) -> None:
        """What of X is there, and which columns there are: ``_rows`` and ``_places`` by their numbers."""
        self._rows = weight.nonzero()[0]  # a sample of weight 0 is not there
        paired = X.shape[0] == X.shape[1] if self.kernel == "precomputed" else False
        itself = self.objects is None and self.kernel not in MATRICES
        if itself or paired:  # the samples are the objects: those that are not there are none
            self._places = self._rows
        else:
            self._places = np.arange(X.shape[1] if self.kernel in MATRICES else len(self.objects))
        # A weight is that many copies of a sample. Where samples are columns too, copies of a column share their box.
        self._copies = weight[self._rows] if itself or paired else np.ones(len(self._places))
        self._kernel_: Any = None  # a Kernel, where it is compiled
        if isinstance(self.kernel, str) and self.kernel not in MATRICES:
            there = X if len(self._rows) == X.shape[0] else X[self._rows]
            gamma = 0.0 if self.kernel == "linear" else self._resolve_gamma(there, weight[self._rows])
            self._kernel_ = Kernel(self.kernel, gamma, float(self.coef0), float(self.degree))

    def _resolve_gamma(self, X: Any, weight: np.ndarray) -> float:
        """γ as scikit-learn defines "scale" and "auto", with weights as copies."""
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        spread = variance(X, weight)
        return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0

    def _relation(self, X: Any, weight: np.ndarray, n_jobs: int | None, monitor: Monitor) -> Relation:
        """K̃ᵀK̃ of what is there; where there is no time to read it, what is true of any."""
        try:
            return self._read_relation(X, weight, n_jobs, monitor)
        except Stopped:
            getattr(self, "_starts_", []).clear()  # of other coefficients than 0 nothing is known
            return Unread(len(self._places), weight[self._rows])

    def _read_relation(self, X: Any, weight: np.ndarray, n_jobs: int | None, monitor: Monitor) -> Relation:
        whole = len(self._rows) == X.shape[0]
        there, weight = X if whole else X[self._rows], weight[self._rows]
        if self.kernel in MATRICES:
            part = there if len(self._places) == X.shape[1] else there[:, self._places]
            return Relation.of(part, weight, n_jobs)
        if callable(self.kernel):
            return Relation.over_function(self.kernel, there, self._objects(there), weight, n_jobs, monitor.look)
        return Relation.over_kernel(self._kernel_, there, self._objects(there), weight, n_jobs, monitor.look)

    def _objects(self, there: Any) -> Any:
        """What the samples are related to, None for themselves."""
        if self.objects is None:
            return None
        if callable(self.kernel):
            return np.asarray(self.objects) if not hasattr(self.objects, "shape") else self.objects
        return check_array(self.objects, accept_sparse="csr", dtype=[np.float64, np.float32])

    # -- solving ----------------------------------------------------------------------------------------

    @says_fit("Fit to samples and what they should give: targets, or labels.", RELATED)
    @certified_or_as_before
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, targets, weight = self._targets(X, y, sample_weight)
        self._solve(X, targets, weight, self._problem_names(len(targets)))
        return self

    @abstractmethod
    def _targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, list[np.ndarray], np.ndarray]:
        """X checked, a vector of targets for each problem, and the weights of the samples."""

    def _problem_names(self, problems: int) -> list[str]:
        """What progress calls them."""
        return [""]

    def _formulation(self, epsilon: float | None = None) -> PSVM:
        return PSVM(float(self.C) * self._copies, float(self.epsilon if epsilon is None else epsilon))

    def _goal(self, problem: Any) -> Goal:
        """The largest d_j (25), in units of σ, and the gap; without ε and without a box there is no bound on it."""
        provable = problem.formulation.epsilon > 0.0 or np.isfinite(self.C)
        return Goal(violation=self.tol, gap=self.tol if provable else np.inf, max_iter=self.max_iter)

    def _solver(self) -> Auto:
        switches = {name: bool(getattr(self, name)) for name in ("pair", "block", "annealing")}
        return Auto(self.solver, options=switches | {"cache_size": self.cache_size})

    def _solve(self, X: Any, targets: list[np.ndarray], weight: np.ndarray, labels: list[str]) -> None:
        """One problem for each vector of targets; then the attributes."""
        columns, there = np.arange(len(self._places)), weight[self._rows]
        problems = [
            Problem(self._formulation(), columns, y[self._rows], there, label)
            for y, label in zip(targets, labels, strict=True)
        ]
        outcome = self._solve_all(lambda n_jobs, monitor: self._relation(X, weight, n_jobs, monitor), problems)
        solved = outcome.solved
        self._keep(X, [s.decision for s in solved], solved[0].qp.H)
        self.n_iter_ = max(int(s.solution.n_iter) for s in solved)
        self._certify(outcome)

    def _keep(self, X: Any, found: list[Decision], relation: Relation) -> None:
        """The columns that are used, their coefficients, and what reads them."""
        used = np.flatnonzero(np.array([decision.coef for decision in found]).any(axis=0))
        self._used = used
        self._beta = np.array([decision.coef[used] for decision in found])
        self._sigma = np.array([decision.scale for decision in found])
        self.support_ = self._places[used].astype(np.int64)
        alpha = self._sigma[:, None] * self._beta  # the paper's: f = K̃α + b
        self._coef = np.ascontiguousarray((alpha * relation.scale[used]).T)
        self._means = np.array([decision.intercept for decision in found])
        intercepts = self._means - relation.mean[used] @ self._coef
        self.alpha_ = alpha[0] if len(found) == 1 else alpha
        self.intercept_ = intercepts
        self.n_support_ = len(used)
        if self.kernel not in MATRICES:
            objects = self._objects(X)
            self.support_vectors_ = (X if objects is None else objects)[self.support_]

    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        coef = np.zeros(solved.qp.n)
        coef[self._used] = self._beta[number]
        return Decision(coef, float(self._means[number]), scale=float(self._sigma[number])), None

    # -- prediction -------------------------------------------------------------------------------------

    def _decide(self, X: Any) -> np.ndarray:
        """f for each sample and problem; only the relations to the objects that are used are read."""
        if not hasattr(self, "n_support_"):
            check_is_fitted(self)
        kernel = self._as_fitted("kernel")
        if kernel in MATRICES:
            check_sparse(X)
            return self._read(X, kernel) + self.intercept_
        if not few_plain_rows(self, X):
            check_sparse(X)
            X = validate_data(self, X, reset=False, **self._options(kernel))
        if not self.n_support_:
            return np.zeros((X.shape[0], len(self.intercept_))) + self.intercept_
        function = kernel if callable(kernel) else None
        vectors, weights = self.support_vectors_, None
        if kernel == "linear" and len(self.intercept_) * X.shape[1] <= MOST_WEIGHTS:
            with th.blas_limit(1):  # Σ a_j x_jᵀx: the sum over the objects costs what one sample's relations do
                weights = np.asarray(self._coef.T @ vectors)
        return DecisionFunction(
            self._coef.T, self.intercept_, vectors, self._kernel_, function, weights=weights, n_jobs=self.n_jobs
        ).problems(X)

    def _read(self, X: Any, kernel: str) -> np.ndarray:
        """Σ a_j K_j for rows of relations to all objects, or to those alone that are used."""
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) == 2 and X.shape[1] == self.n_support_ != self.n_features_in_:
            X = check_array(X, estimator=self, **self._options(kernel))
            self._check_missing(X, kernel)
        else:
            X = validate_data(self, X, reset=False, **self._options(kernel))
            X = X[:, self.support_]
            self._check_missing(X, kernel)
        return np.asarray(X @ self._coef) if self.n_support_ else np.zeros((X.shape[0], len(self.intercept_)))

    # -- paths ------------------------------------------------------------------------------------------

    def _path(self, X: Any, targets: list[np.ndarray], weight: np.ndarray, epsilons: Any, length: int) -> Path:
        with self._monitor() as monitor, th.blas_limit(1):
            relation = self._relation(X, weight, self.n_jobs, monitor)
            there = weight[self._rows]
            qps = [self._formulation(0.0).qp(Samples(relation, y[self._rows], there)) for y in targets]
            if epsilons is None:
                largest = max(float(np.abs(qp.p).max(initial=0.0)) for qp in qps)
                epsilons = LARGEST_SHARE * largest * np.geomspace(1.0, SMALLEST_SHARE, length)
            epsilons = np.sort(np.asarray(epsilons, np.float64).ravel())[::-1]
            if not (len(epsilons) and (epsilons >= 0.0).all() and np.isfinite(epsilons).all()):
                raise ValueError(f"a path was asked for; found epsilons {epsilons!r}; give finite numbers >= 0")
            return walk(self._formulation(0.0), qps, epsilons, self._solver(), self._goal, monitor)

    def path(
        self, X: Any, y: Any, epsilons: Any = None, n_epsilons: int = PATH_LENGTH, sample_weight: Any = None
    ) -> Path:
        """Solutions for a sequence of epsilons, the largest first, each found from the one before.

        This machine is left as it is.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
        epsilons : array-like, default=None
            None: ``n_epsilons`` numbers from that which chooses nothing to a thousandth of it, in equal ratios.
        n_epsilons : int, default=50

        Returns
        -------
        Path
            ``epsilons`` (m,), ``alphas`` (m, P) or (m, classes, P), ``intercepts``, ``certificates``, ``n_support``.
        """
        machine = self._unfitted()
        return machine._path(*machine._targets(X, y, sample_weight), epsilons, n_epsilons)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = True
        return tags


def walk(
    formulation: PSVM,
    qps: list,
    epsilons: np.ndarray,
    solver: Auto,
    goal: Callable,
    monitor: Monitor,
    enough: Callable[[list], bool] | None = None,
) -> Path:
    """The solutions of problems along a falling sequence of ε, up to where ``enough`` columns are used."""
    qps = list(qps)
    for qp in qps:
        qp.H.in_turn = True
    starts: list = [None] * len(qps)
    watches = [monitor.part("") for _ in qps]
    alphas, intercepts, certificates = [], [], []
    status = Status.CONVERGED
    for epsilon in epsilons:
        here = replace(formulation, epsilon=float(epsilon))
        row, shift, proofs = [], [], []
        for number, qp in enumerate(qps):
            asked = qps[number] = qp.with_epsilon(float(epsilon))
            problem = Problem(here, np.arange(qp.n), qp.p, qp.p)
            solution = solver.solve(asked, goal(problem), starts[number], watches[number])
            starts[number] = solution.beta
            decision = here.decision(asked, solution)
            row.append(decision.scale * decision.coef)
            shift.append(here.function(asked, decision)[1])
            proofs.append(solution.certificate)
            status = solution.status if status.converged else status
        alphas.append(row)
        intercepts.append(shift)
        certificates.append(proofs)
        if enough is not None and enough(row):
            break
        if epsilon != epsilons[-1] and (stop := monitor.stop_now()) is not None:
            status = stop
            break
    monitor.raise_interrupt()
    found, shifts = np.array(alphas), np.array(intercepts)
    if len(qps) == 1:
        found, shifts = found[:, 0], shifts[:, 0]
    return Path(np.asarray(epsilons[: len(found)]), found, shifts, certificates, status)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PSVR(RegressorMixin, _Potential):
    """Potential support vector regression: a sparse function of relations to objects, whatever their units (PSVM).

        f(x) = Σ_j α_j k(x, object j) + b,    few of the α_j not 0

    The matrix of relations need be neither symmetric nor definite nor square; with ``kernel="dyadic"`` it is X itself.
    Columns are centred and scaled to norm 1 inside, so that a column times 1000 changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import PSVR
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> machine = PSVR(epsilon=0.02).fit(X, np.sin(X[:, 0]))
    >>> bool(machine.score(X, np.sin(X[:, 0])) > 0.95 and len(machine.support_) < 20)
    True
    """

    _leaves = LEAVES

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, list[np.ndarray], np.ndarray]:
        X, y, weight = self._check_input(X, y, sample_weight)
        self._prepare(X, weight)
        return X, [np.asarray(y, np.float64)], weight

    def predict(self, X: Any) -> np.ndarray:
        """The value of the function at each sample.

        With a matrix of relations X may have all columns, or only those in ``support_``.
        """
        return self._decide(X)[:, 0]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PSVC(ClassifierMixin, _Potential):
    """Potential support vector classification: regression on ±1, one class against the rest where there are more.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import PSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = PSVC(kernel="dyadic", epsilon=1.0).fit(X, y)
    >>> bool(machine.score(X, y) > 0.9 and len(machine.support_) < 30)
    True
    """

    class_weight: Any = None

    _leaves = (*LEAVES, "classes_")
    _says = {
        "class_weight": (
            'dict, "balanced" or None',
            'Factors of the weights of the samples of a class. "balanced" gives every class the same weight, so that '
            "the targets of two classes have mean 0 and the bias takes no side.",
        ),
    }

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, list[np.ndarray], np.ndarray]:
        X, y, weight = self._check_input(X, y, sample_weight)
        check_labels(y)
        self.classes_, factors, present, labels = weighed_classes(y, weight, self.class_weight)
        there = np.zeros(len(weight))
        there[present] = weight[present] * factors[labels]
        number = np.full(len(weight), -1)
        number[present] = labels
        self._prepare(X, there)
        return X, signs(number, len(self.classes_)), there

    def _problem_names(self, problems: int) -> list[str]:
        return [""] if problems == 1 else [f"{c} v rest" for c in self.classes_]

    def decision_function(self, X: Any) -> np.ndarray:
        """f for each sample, (n,) for two classes, else (n, n_classes)."""
        f = self._decide(X)
        return f[:, 0] if f.shape[1] == 1 else f

    def predict(self, X: Any) -> np.ndarray:
        """The class of each sample."""
        f = self.decision_function(X)
        return self.classes_[(f > 0).astype(np.intp) if f.ndim == 1 else f.argmax(axis=1)]


def signs(number: np.ndarray, classes: int) -> list[np.ndarray]:
    """Targets ±1: one vector for two classes, else one for each."""
    return [np.where(number == c, 1.0, -1.0) for c in ([1] if classes == 2 else range(classes))]
