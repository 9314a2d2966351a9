"""Linear support vector machines of any length: LinearSVC and LinearSVR.

    min ½‖w‖² + Σ C_i ℓ(y_i, wᵀx_i + b + ηᵀφ(x_i))

The kernel is never formed: rows of X are seen in blocks, wherever they live. The intercept b is not penalised
unless ``intercept_scaling`` is given, and ``tol`` bounds the relative gap between primal and dual.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .. import threads as th
from ..formulations import CSVC, EpsilonSVR, Formulation
from ..losses import make_loss
from ..rows import Rows
from ..rows.blocks import entries_of
from .base import Outcome, Problem
from .calibrated import Calibrated
from .calibration import CALIBRATIONS, Calibration, agreeing, calibrated
from .checks import (
    check_choice,
    check_labels,
)
from .crammer_singer import AllClasses
from .folds import Solving, each, fold_numbers, out_of_fold, seed_of, without_copies
from .linear_machine import LEAVES, LinearMachine
from .multiclass import weighed_classes
from .parameters import OF_RESIDUALS, documented
from .sparse_linear import SparseProblem, steepest

__all__ = ["LinearSVC", "LinearSVR", "l1_min_c"]

SMOOTH = ("squared_hinge", "huber")  # losses that have a slope everywhere, as few weights want it


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(ClassifierMixin, Calibrated, LinearMachine):
    """Linear support vector classification, one class against the rest, with a certificate of every fit.

        min ½‖w‖² + C Σ ℓ(y_i (wᵀx_i + b))

    X may be an array, a sparse matrix, a memory map, the path of an .npy file, or a list of arrays: what is not in
    memory is read in blocks and never loaded as a whole.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from maxmargin import LinearSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = LinearSVC(C=0.01).fit(X, y)
    >>> bool(machine.certificate_.relative_gap <= machine.tol)
    True
    """

    penalty: str = field(default="l2", kw_only=False)
    loss: str = field(default="squared_hinge", kw_only=False)
    multi_class: str = "ovr"
    class_weight: Any = None
    huber_delta: float = 0.5
    probability: bool = False
    calibration: str = "sigmoid"

    _leaves = (*LEAVES, "classes_", "class_weight_", "probA_", "probB_")
    _says = {
        "class_weight": (
            'dict, "balanced" or None',
            "Factors of C by class. With more than two classes the factor of a class counts in its own problem only, "
            "as in LIBLINEAR.",
        ),
    }

    def _check_combination(self) -> None:
        """What goes together: l1 wants a smooth loss; it and all classes at once have a solver of their own."""
        check_choice(self, "penalty", ("l2", "l1"))
        check_choice(self, "multi_class", ("ovr", "crammer_singer"))
        check_choice(self, "probability", (False, True))
        check_choice(self, "calibration", CALIBRATIONS)
        together = self.multi_class == "crammer_singer"
        if not (together or self.penalty == "l1"):
            return
        what = "multi_class='crammer_singer'" if together else "penalty='l1'"
        if self.probability:
            raise ValueError(
                f"{what} was asked for; found probability=True, which needs machines of folds; use penalty='l2' and "
                "multi_class='ovr', or scikit-learn's CalibratedClassifierCV"
            )
        if not (isinstance(self.solver, str) and self.solver == "auto"):
            raise ValueError(
                f"{what} was asked for; found solver={self.solver!r}; it has a solver of its own: leave 'auto'"
            )
        if self.parametric is not None:
            raise ValueError(
                f"{what} was asked for; found parametric functions, which it does not take; leave them out"
            )
        if not together and self.loss not in SMOOTH:
            raise ValueError(
                f"penalty='l1' and loss={self.loss!r} were asked for; found no method for that combination; choose "
                + " or ".join(f"loss={name!r}" for name in SMOOTH)
            )

    # All classes at once have an intercept with a penalty, as in LIBLINEAR. With two classes w = w₁ − w₀ counts:
    # ½‖w₀‖² + ½‖w₁‖² is least at w₁ = −w₀, where it is ¼‖w‖². So w / √2 are weights of a C-SVC on rows √2 x.

    @property
    def _free_intercept(self) -> bool:
        return super()._free_intercept and self.multi_class != "crammer_singer"

    @property
    def _constant(self) -> float:
        together = self.multi_class == "crammer_singer"
        scaling = 1.0 if together and self.intercept_scaling is None else self.intercept_scaling
        return self._stretch * float(scaling) if self.fit_intercept and scaling is not None else 0.0

    @property
    def _stretch(self) -> float:
        return float(np.sqrt(2.0)) if self.multi_class == "crammer_singer" and len(self.classes_) == 2 else 1.0

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, list[Problem]]:
        self._check_combination()
        X, rows, y, weight = self._check_input(X, y, sample_weight)
        together = self.multi_class == "crammer_singer"
        loss = "hinge" if together else self.loss
        formulation: Formulation = CSVC(float(self.C), loss, float(self.huber_delta), self._free_intercept)
        check_labels(y)
        self.classes_, self.class_weight_, present, labels = weighed_classes(y, weight, self.class_weight)
        X, rows = self._present(X, rows, present)
        self._centre = np.zeros(rows.d)
        if together and len(self.classes_) > 2:
            cost = weight[present] * self.class_weight_[labels]
            return rows, [Problem(formulation, np.arange(rows.n), labels, cost)]
        if together:
            rows = Rows.of(self._stretch * rows.matrix().astype(np.float64), self.n_jobs)  # in float32 other rows
        phi = self._fit_functions(X, y[present], weight[present])
        formulation = self._with_functions(formulation, phi)
        problems = []
        for c in [1] if len(self.classes_) == 2 else range(len(self.classes_)):
            own = labels == c  # its weight counts against the rest only, as in LIBLINEAR; with two both have one
            factor = np.where(own, self.class_weight_[c], self.class_weight_[0] if len(self.classes_) == 2 else 1.0)
            target, cost = np.where(own, 1.0, -1.0), weight[present] * factor
            problems.append(Problem(formulation, np.arange(rows.n), target, cost, str(self.classes_[c])))
        if self.probability:  # what is no matrix is parted by the places of its rows
            whole = isinstance(X, np.ndarray) or sp.issparse(X)
            self._fold = fold_numbers(X, labels, weight[present], seed_of(self.random_state), whole)
        sparse = self.penalty == "l1" and not together
        return rows if sparse else self._moved(rows, weight[present]), problems

    def _run(self, rows: Rows, problems: list[Problem]) -> None:
        together = self.multi_class == "crammer_singer"
        if together and len(self.classes_) > 2:
            self._run_together(rows, *problems)
        elif self.penalty == "l1" and not together:
            self._run_sparse(rows, problems)
        else:
            outcome = self._solve_rows(rows, problems)
            if self._fold is not None:
                self._calibrate(outcome, self._fold)
                self._fold = None
            self._certify(outcome)

    def _calibrate(self, outcome: Outcome, folds: np.ndarray) -> None:
        """A calibration of each problem from machines of its folds."""
        with self._once_more(outcome.monitor) as monitor:
            solver = replace(self._solver(), solver="auto")
            solving = Solving(outcome.gram, solver, self._goal, monitor, 1, classes=True)
            found = [out_of_fold(solving, one, folds) for one in outcome.solved]
        # Of two classes the second has +1, and a calibration is about the first, as LIBSVM's.
        flip = -1.0 if len(self.classes_) == 2 else 1.0
        problems = [one.problem for one in outcome.solved]
        self._calibration = calibrated(
            self.calibration, [flip * f for f in found], [flip * p.y for p in problems], [p.weight for p in problems]
        )

    def _probabilities(self, X: Any, calibration: Calibration) -> np.ndarray:
        """Two classes as they are; of more, each against the rest, with a sum of 1."""
        decisions = self._decide(X)
        if len(self.classes_) == 2:
            return agreeing(calibration.probabilities(-decisions, 2), (decisions[:, 0] > 0).astype(np.intp))
        own = calibration.pairwise(decisions)
        return agreeing(own / own.sum(axis=1, keepdims=True), decisions.argmax(axis=1))

    def _run_sparse(self, rows: Rows, problems: list[Problem]) -> None:
        """Few weights: a problem for each class."""
        started, monitor = time.perf_counter(), self._monitor()
        X = rows.matrix()
        X = sp.csc_array(X) if sp.issparse(X) else np.asfortranarray(X, np.float64)
        bias = float(self.fit_intercept) * (1.0 if self.intercept_scaling is None else float(self.intercept_scaling))
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        found: list[Any] = [None] * len(problems)
        with monitor, th.blas_limit(1):

            def solve(number: int) -> None:
                p = problems[number]
                start = starts[number] if starts is not None and len(starts) == len(problems) else None
                start = start if start is not None and start.shape == (rows.d + 1,) else None
                cost, loss = p.formulation.C * p.weight, p.formulation._loss()  # type: ignore[attr-defined]
                problem = SparseProblem(X, p.y, cost, loss, bias, self._constant > 0.0)
                found[number] = problem.solve(self._goal(p), monitor.part(p.label), start)

            each(min(th.count(self.n_jobs), len(problems)), solve, range(len(problems)))
        self.coef_ = np.vstack([one.w for one in found])
        self.intercept_ = np.array([bias * one.b for one in found])
        self.n_iter_ = max(one.n_iter for one in found)
        self._announce(
            [one.certificate for one in found],
            [one.status for one in found],
            ["proximal-newton"] * len(found),
            [one.history for one in found],
            [np.append(one.w, one.b) for one in found],
            monitor,
            started,
        )

    def _run_together(self, rows: Rows, problem: Problem) -> None:
        """All classes at once."""
        started, monitor = time.perf_counter(), self._monitor()
        X = rows.matrix()
        X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, np.float64)
        if self._constant:  # a feature like the others
            constant = np.full((rows.n, 1), self._constant)
            X = sp.csr_array(sp.hstack([X, constant], format="csr")) if sp.issparse(X) else np.hstack([X, constant])
        # Copies become one sample, in an order of their own: so a weight is the same as copies to the last digit.
        first, labels, weight = without_copies(X, problem.y, problem.weight)
        X, cost = X[first], float(self.C) * weight
        # Zeros of dense rows are worth leaving out: sweeps are many.
        entries = None if sp.issparse(X) else entries_of(X, th.count(self.n_jobs))
        indptr, indices, data = entries or (X.indptr.astype(np.int64), X.indices, X.data)
        machine = AllClasses(indptr, indices, data, X.shape[1], labels.astype(np.int64), cost, len(self.classes_))
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        with monitor, th.blas_limit(1):
            given = self.random_state
            seed = 0 if given is None else int(check_random_state(given).randint(np.iinfo(np.int32).max))
            found = machine.solve(self._goal(problem), monitor, starts[0] if starts else None, seed)
        W = found.W.T
        self.coef_ = np.ascontiguousarray(W[:, : rows.d])
        self.intercept_ = self._constant * W[:, -1] if self._constant else np.zeros(len(W))
        self.n_iter_ = found.n_iter
        self._announce(
            [found.certificate], [found.status], ["sweeps"], [found.history], [found.alpha], monitor, started
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Decisions: (n,) for two classes, positive for ``classes_[1]``; else (n, k), each against the rest."""
        decisions = self._decide(X)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    def predict(self, X: Any) -> np.ndarray:
        """The class of each sample."""
        decisions = self.decision_function(X)
        return self.classes_[decisions.argmax(axis=1) if decisions.ndim == 2 else (decisions > 0).astype(np.intp)]

    def sparsify(self) -> Self:
        """Keep ``coef_`` as a sparse matrix."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Keep ``coef_`` as an array, as fit does."""
        check_is_fitted(self)
        if sp.issparse(self.coef_):
            self.coef_ = self.coef_.toarray()  # type: ignore[attr-defined]
        return self


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVR(RegressorMixin, LinearMachine):
    """Linear support vector regression with a certificate of every fit.

        min ½‖w‖² + C Σ max(0, |wᵀx_i + b − y_i| − ε)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> machine = LinearSVR(C=100, epsilon=5.0).fit(X, y)
    >>> bool(machine.score(X, y) > 0.4)
    True
    """

    epsilon: float = 0.0
    loss: str = "epsilon_insensitive"
    huber_delta: float = 1.0
    quantile: float = 0.5

    _leaves = LEAVES
    _says = OF_RESIDUALS

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, list[Problem]]:
        X, rows, y, weight = self._check_input(X, y, sample_weight)
        shape = float(self.huber_delta), float(self.quantile)
        C, epsilon = float(self.C), float(self.epsilon)
        formulation: Formulation = EpsilonSVR(C, epsilon, self.loss, self._free_intercept, *shape)
        present = np.flatnonzero(weight)
        X, rows = self._present(X, rows, present)
        y, weight = np.asarray(y[present], np.float64), weight[present]
        formulation = self._with_functions(formulation, self._fit_functions(X, y, weight))
        return self._moved(rows, weight), [Problem(formulation, np.arange(rows.n), y, weight)]

    def _run(self, rows: Rows, problems: list[Problem]) -> None:
        outcome = self._solve_rows(rows, problems)
        self.coef_ = self.coef_[0]
        if self._parametric is not None:
            self.parametric_coef_ = self.parametric_coef_[0]
        self._certify(outcome)

    def predict(self, X: Any) -> np.ndarray:
        """The value of the regression function at each sample."""
        return self._decide(X)[:, 0]


def l1_min_c(
    X: Any, y: Any, *, loss: str = "squared_hinge", fit_intercept: bool = True, intercept_scaling: float | None = 1.0
) -> float:
    """The least C for which ``LinearSVC(penalty="l1")`` has a weight that is not 0.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    loss : {"squared_hinge", "log"}, default="squared_hinge"
        "log" is for scikit-learn's logistic regression.
    fit_intercept : bool, default=True
    intercept_scaling : float or None, default=1.0
        As the machine's: a number for an intercept with a penalty, None for one without, the default of our LinearSVC.

    Returns
    -------
    float

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC, l1_min_c
    >>> X, y = load_iris(return_X_y=True)
    >>> least = l1_min_c(X, y, intercept_scaling=None)
    >>> bool((LinearSVC(penalty="l1", C=0.99 * least).fit(X, y).coef_ == 0).all())
    True
    >>> bool((LinearSVC(penalty="l1", C=1.05 * least, tol=1e-6).fit(X, y).coef_ != 0).any())
    True
    """
    X = check_array(X, accept_sparse="csc", dtype=np.float64)
    y = column_or_1d(y)
    check_consistent_length(X, y)
    if loss not in ("squared_hinge", "log"):
        raise ValueError(f"a known loss was asked for; found loss={loss!r}; choose 'squared_hinge', 'log'")
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
    penalised = bool(fit_intercept) and intercept_scaling is not None
    bias = float(intercept_scaling) if penalised else float(bool(fit_intercept))  # type: ignore[arg-type]
    shape = make_loss("squared_hinge", classification=True)
    targets = [np.where(y == c, 1.0, -1.0) for c in (classes[1:] if len(classes) == 2 else classes)]
    slope = max(steepest(X, target, shape, bias, penalised) for target in targets)
    if not slope > 0.0:
        raise ValueError("Ill-posed l1_min_c calculation: l1 will always select zero coefficients for this data")
    return 1.0 / slope if loss == "squared_hinge" else 4.0 / slope  # the slope of a logistic loss is a quarter as large
