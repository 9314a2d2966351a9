"""Linear support vector machines of any length: LinearSVC and LinearSVR.

    min ½‖w‖² + Σ C_i ℓ(y_i, wᵀx_i + b + ηᵀφ(x_i))

The kernel is never formed: rows of X are seen in blocks, wherever they live. The intercept b is not penalised
unless ``intercept_scaling`` is given, and ``tol`` bounds the relative gap between primal and dual.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin, clone
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from .. import threads as th
from ..formulations import CSVC, Decision, EpsilonSVR, OneClass, SemiParametric
from ..goal import Goal
from ..gram import Factored, Shifted
from ..gram.points import on_disk
from ..losses import make_loss
from ..monitor import Monitor
from ..rows import Rows
from ..rows.centre import centred, far_centre
from ..solution import Certificate
from ..solvers import Auto
from .base import Machine, Outcome, Problem, dense
from .calibrated import Calibrated
from .calibration import CALIBRATIONS, Calibration, agreeing, calibrated
from .checks import (
    check_choice,
    check_labels,
    check_shared,
    check_sparse,
    checked_weight,
    few_plain_rows,
    is_number,
    need,
)
from .crammer_singer import AllClasses
from .folds import Solving, each, fold_numbers, out_of_fold, seed_of, without_copies
from .multiclass import weighed_classes
from .objects import frame_library
from .parameters import documented
from .sparse_linear import SparseProblem, steepest

__all__ = ["LinearOneClassSVM", "LinearPath", "LinearSVC", "LinearSVR", "l1_min_c"]

SMOOTH = ("squared_hinge", "huber")  # losses that have a slope everywhere, as few weights want it

PIECE_BYTES = 1 << 24  # of rows on disk that parametric functions see at a time


@dataclass(frozen=True)
class LinearPath:
    """The machines of a path of costs, one entry each."""

    Cs: np.ndarray
    coefs: np.ndarray  # (n_C, n_features), or (n_C, n_classes, n_features)
    intercepts: np.ndarray  # (n_C,), or (n_C, n_classes)
    certificates: list[list[Certificate]]  # one for each class
    n_iter: np.ndarray


LEAVES = "coef_ intercept_ parametric_coef_ fit_status_".split()


@dataclass(kw_only=True, eq=False, repr=False)
class RowMachine(Machine):
    """What all linear machines share: rows of features, wherever they are, and weights of these."""

    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None
    verbose: bool | int = 0

    _says = {
        "tol": ("float", "Relative gap between primal and dual at which to stop."),
        "max_iter": ("int", "Most iterations of the solver, each about a look at all samples; -1 for no limit."),
        "coef_": ("ndarray of shape (n_problems, n_features), or (n_features,) for regression", "The weights w."),
    }

    # -- input ------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_shared(self)
        check_random_state(self.random_state)

    def _check_rows(self, X, reset: bool):
        """X checked; what is not in memory is read once, a block at a time, and stays where it is."""
        if reset:
            self._frame = frame_library(X)
        if isinstance(X, (str, os.PathLike)):
            X = np.load(X, mmap_mode="r")
        in_parts = isinstance(X, (list, tuple)) and len(X) > 0 and all(getattr(x, "ndim", 0) == 2 for x in X)
        for part in X if in_parts else [X]:
            check_sparse(part)
        if not in_parts:
            options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
            far = isinstance(X, np.ndarray) and on_disk(X)
            X = validate_data(self, X, reset=reset, ensure_all_finite=not far, accept_large_sparse=True, **options)
            if not far:
                return X, Rows.of(X, self.n_jobs)
        X = list(X) if in_parts else X
        rows = Rows.of(X, self.n_jobs)
        if in_parts:
            self._check_width(rows.d, reset)
        if not np.isfinite(rows.squared_norms()).all():
            raise ValueError("Input X contains NaN, infinity or a value too large to be squared.")
        return X, rows

    def _check_width(self, d: int, reset: bool) -> None:
        if reset:
            self.n_features_in_ = d
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )

    def _check_input(self, X, y, sample_weight):
        self._check_parameters()
        y = validate_data(self, "no_validation", y)
        X, rows = self._check_rows(X, reset=True)
        check_consistent_length(np.empty((rows.n, 0)), y)
        return X, rows, y, checked_weight(sample_weight, np.empty((rows.n, 1)))

    # -- solving ----------------------------------------------------------------------------------------

    @property
    def _constant(self) -> float:
        """The value of the constant feature of an intercept with a penalty, or 0."""
        return 0.0

    @property
    def _stretch(self) -> float:
        """By what the rows of the problem are longer than those of X."""
        return 1.0

    def _gram(self, rows: Rows) -> Factored | Shifted:
        """X Xᵀ, plus a constant for an intercept with a penalty."""
        gram = Factored(rows)
        return Shifted(gram, self._constant**2) if self._constant else gram

    _stops_on_gap = True

    def _goal(self, problem):
        return Goal(gap=self.tol, max_iter=self.max_iter, exact=False)

    def _solver(self):
        given = self.random_state  # None: the same order every time
        seed = 0 if given is None else int(check_random_state(given).randint(np.iinfo(np.int32).max))
        return Auto(self.solver, looks=True, options={"seed": seed})

    def _present(self, X, rows: Rows, present: np.ndarray):
        """X and its rows without those of weight 0."""
        if len(present) == rows.n:
            return X, rows
        X = rows.matrix(present) if isinstance(X, list) else X[present]
        return X, Rows.of(X, self.n_jobs)

    def _solve_rows(self, rows: Rows, problems: list[Problem]) -> Outcome:
        outcome = self._solve_all(lambda n_jobs, monitor: self._gram(Rows(rows.blocks, n_jobs)), problems)
        solved = outcome.solved
        own = (s.qp.weights(s.solution.beta) if s.solution.w is None else s.solution.w for s in solved)
        W = np.vstack([w for w in own if w is not None])  # each has some: a linear machine knows its features
        self.coef_ = np.ascontiguousarray(self._stretch * W[:, : rows.d])
        self.intercept_ = np.array([s.decision.intercept for s in solved]) - self.coef_ @ self._centre
        if self._constant:
            self.intercept_ = self._constant * W[:, -1]
        self.n_iter_ = int(max(s.solution.n_iter for s in solved))
        if self._parametric is not None:
            self.parametric_coef_ = np.vstack([s.decision.parametric for s in solved])
        return outcome

    def _published(self, number, solved):
        """The weights of a problem as published; the dual bound is that of the coefficients that were found."""
        w, b = np.atleast_2d(self.coef_)[number] / self._stretch, float(self.intercept_[number])
        parametric = np.zeros(0) if self._parametric is None else np.atleast_2d(self.parametric_coef_)[number]
        b += float(w @ self._centre)
        if self._constant:
            w = np.append(w, b / self._constant)
        return Decision(solved.solution.beta, b, parametric=parametric), w

    # -- parametric functions ---------------------------------------------------------------------------

    def _functions_of(self, X) -> np.ndarray:
        """φ a piece of X at a time where X is in pieces or on disk."""
        if isinstance(X, np.ndarray) and on_disk(X):
            step = max(1, PIECE_BYTES // (8 * X.shape[1]))
            X = [X[a : a + step] for a in range(0, len(X), step)]
        values = super()._functions_of
        return np.vstack([values(x) for x in X]) if isinstance(X, list) else values(X)

    # -- prediction -------------------------------------------------------------------------------------

    def _decide(self, X) -> np.ndarray:
        """f for each sample and problem."""
        if not hasattr(self, "coef_"):
            check_is_fitted(self)
        W = np.ascontiguousarray(dense(self.coef_).T, np.float64)
        if few_plain_rows(self, X):
            values = Rows.times(X, W, self.n_jobs)
        else:
            X, rows = self._check_rows(X, reset=False)
            values = rows.dot(W)
        values = values + self.intercept_
        return values if self._parametric is None else values + self._functions_at(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class LinearMachine(RowMachine):
    """What LinearSVC and LinearSVR share."""

    C: float = 1.0
    fit_intercept: bool = True
    intercept_scaling: Any = None  # a number, or None
    dual: bool | str = "auto"
    parametric: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(self, "dual", ("auto", True, False))
        given = self.intercept_scaling
        sized = given is None or (is_number(given) and 0 < given < np.inf)
        need(self, "intercept_scaling", sized, "give a number > 0, or None for an intercept without a penalty")
        need(self, "C", self.C < np.inf, "give a finite C")

    @property
    def _free_intercept(self) -> bool:
        return bool(self.fit_intercept) and self.intercept_scaling is None

    @property
    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept and self.intercept_scaling is not None else 0.0

    @abstractmethod
    def _prepare(self, X, y, sample_weight) -> tuple[Rows, list[Problem]]:
        """The checked rows that are there, and the problems on them."""

    @abstractmethod
    def _run(self, rows: Rows, problems: list[Problem]) -> None:
        """Solve the problems; sets all that a fit leaves."""

    def fit(self, X, y, sample_weight=None):
        """Fit to samples X (n, d) and targets y (n,).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), memory map, path of an .npy file, or a list \
            of arrays with the same number of columns
            What is not in memory is read in blocks and never loaded as a whole.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight w is exactly w copies of the sample, 0 its absence.

        Returns
        -------
        self
        """
        self._run(*self._prepare(X, y, sample_weight))
        return self

    def path(self, X, y, Cs, sample_weight=None) -> LinearPath:
        """Machines for several costs, each started from the one before; leaves this one as it is."""
        Cs = np.asarray(Cs, np.float64)
        if Cs.ndim != 1 or not len(Cs) or not (np.isfinite(Cs) & (Cs > 0)).all():
            raise ValueError(f"Cs={Cs!r} was asked for; found no list of costs > 0; give numbers > 0")
        machine = clone(self).set_params(C=float(Cs[0]), warm_start=True)
        if getattr(machine, "probability", False):
            machine.probability = False  # a path has no probabilities
        rows, problems = machine._prepare(X, y, sample_weight)
        found: list[tuple] = []
        for C in Cs.tolist():
            if found and getattr(self, "penalty", "l2") == "l2":  # β grows with the boxes
                machine._starts_ = [C / machine.C * beta for beta in machine._starts_]
            machine.C = C
            machine._run(rows, [replace(p, formulation=machine._costing(p.formulation)) for p in problems])
            found.append((machine.coef_, machine.intercept_, machine.certificates_, machine.n_iter_))
        coefs, intercepts, certificates, n_iter = zip(*found, strict=True)
        flat = len(problems) == 1
        return LinearPath(
            Cs,
            np.stack([c.ravel() if flat else c for c in coefs]),
            np.stack([b[0] if flat else b for b in intercepts]),
            list(certificates),
            np.array(n_iter),
        )

    def _costing(self, formulation):
        """A formulation with this machine's cost."""
        if isinstance(formulation, SemiParametric):
            return replace(formulation, machine=self._costing(formulation.machine))
        return replace(formulation, C=float(self.C))

    def _moved(self, rows: Rows, weight: np.ndarray) -> Rows:
        """The rows seen from a centre, where the intercept is free."""
        self._centre = far_centre(rows, weight) if self._free_intercept else np.zeros(rows.d)
        return centred(rows, self._centre)


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

    def _prepare(self, X, y, sample_weight):
        self._check_combination()
        X, rows, y, weight = self._check_input(X, y, sample_weight)
        together = self.multi_class == "crammer_singer"
        loss = "hinge" if together else self.loss
        formulation = CSVC(float(self.C), loss, float(self.huber_delta), self._free_intercept)
        check_labels(y)
        self.classes_, self.class_weight_, present, labels = weighed_classes(y, weight, self.class_weight)
        X, rows = self._present(X, rows, present)
        self._centre = np.zeros(rows.d)
        if together and len(self.classes_) > 2:
            cost = weight[present] * self.class_weight_[labels]
            return rows, [Problem(formulation, np.arange(rows.n), labels, cost)]
        if together:
            rows = Rows.of(self._stretch * rows.matrix(), self.n_jobs)
        phi = self._fit_functions(X, y[present], weight[present])
        formulation = self._with_functions(formulation, phi)
        problems = []
        for c in [1] if len(self.classes_) == 2 else range(len(self.classes_)):
            own = labels == c  # its weight counts against the rest only, as in LIBLINEAR; with two both have one
            factor = np.where(own, self.class_weight_[c], self.class_weight_[0] if len(self.classes_) == 2 else 1.0)
            target, cost = np.where(own, 1.0, -1.0), weight[present] * factor
            problems.append(Problem(formulation, np.arange(rows.n), target, cost, str(self.classes_[c])))
        self._calibration = self._fold = None
        if self.probability:  # what is no matrix is parted by the places of its rows
            whole = isinstance(X, np.ndarray) or sp.issparse(X)
            self._fold = fold_numbers(X, labels, weight[present], seed_of(self.random_state), whole)
        sparse = self.penalty == "l1" and not together
        return rows if sparse else self._moved(rows, weight[present]), problems

    def _run(self, rows, problems):
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

    def _probabilities(self, X, calibration: Calibration) -> np.ndarray:
        """Two classes as they are; of more, each against the rest, with a sum of 1."""
        decisions = self._decide(X)
        if len(self.classes_) == 2:
            return agreeing(calibration.probabilities(-decisions, 2), (decisions[:, 0] > 0).astype(np.intp))
        own = calibration.pairwise(decisions)
        return agreeing(own / own.sum(axis=1, keepdims=True), decisions.argmax(axis=1))

    def _run_sparse(self, rows: Rows, problems: list[Problem]) -> None:
        """Few weights: a problem for each class."""
        started = time.perf_counter()
        X = rows.matrix()
        X = sp.csc_array(X) if sp.issparse(X) else np.asfortranarray(X, np.float64)
        bias = float(self.fit_intercept) * (1.0 if self.intercept_scaling is None else float(self.intercept_scaling))
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        found: list[Any] = [None] * len(problems)
        with Monitor(self.time_limit, self.callback, bool(self.verbose)) as monitor, th.blas_limit(1):

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
        started = time.perf_counter()
        X = sp.csr_array(rows.matrix(), dtype=np.float64)
        if self._constant:  # a feature like the others
            X = sp.csr_array(sp.hstack([X, np.full((rows.n, 1), self._constant)], format="csr"))
        # Copies become one sample, in an order of their own: so a weight is the same as copies to the last digit.
        first, labels, weight = without_copies(X, problem.y, problem.weight)
        X, cost = X[first], float(self.C) * weight
        arrays = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
        machine = AllClasses(*arrays, X.shape[1], labels.astype(np.int64), cost, len(self.classes_))
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        with Monitor(self.time_limit, self.callback, bool(self.verbose)) as monitor:
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

    def decision_function(self, X):
        """Decisions: (n,) for two classes, positive for ``classes_[1]``; else (n, k), each against the rest."""
        decisions = self._decide(X)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    def predict(self, X):
        """The class of each sample."""
        decisions = self.decision_function(X)
        return self.classes_[decisions.argmax(axis=1) if decisions.ndim == 2 else (decisions > 0).astype(np.intp)]

    def sparsify(self):
        """Keep ``coef_`` as a sparse matrix."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self):
        """Keep ``coef_`` as an array, as fit does."""
        check_is_fitted(self)
        if sp.issparse(self.coef_):
            self.coef_ = self.coef_.toarray()
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
    _says = {
        "loss": (
            '{"epsilon_insensitive", "squared_epsilon_insensitive", "huber", "quantile", "squared_error"}',
            "What an error r costs: max(0, |r| − epsilon), or its square; r²/2 up to huber_delta and a line beyond; "
            "quantile · r below and (1 − quantile) · r above the target's quantile; r².",
        ),
        "epsilon": ("float", "Half-width of the tube inside which an error costs nothing, for the first two losses."),
        "huber_delta": ("float", 'Size of an error from which on its cost grows in a straight line, for loss="huber".'),
    }

    def _prepare(self, X, y, sample_weight):
        X, rows, y, weight = self._check_input(X, y, sample_weight)
        shape = float(self.huber_delta), float(self.quantile)
        formulation = EpsilonSVR(float(self.C), float(self.epsilon), self.loss, self._free_intercept, *shape)
        present = np.flatnonzero(weight)
        X, rows = self._present(X, rows, present)
        y, weight = np.asarray(y[present], np.float64), weight[present]
        formulation = self._with_functions(formulation, self._fit_functions(X, y, weight))
        return self._moved(rows, weight), [Problem(formulation, np.arange(rows.n), y, weight)]

    def _run(self, rows, problems):
        outcome = self._solve_rows(rows, problems)
        self.coef_ = self.coef_[0]
        if self._parametric is not None:
            self.parametric_coef_ = self.parametric_coef_[0]
        self._certify(outcome)

    def predict(self, X):
        """The value of the regression function at each sample."""
        return self._decide(X)[:, 0]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinearOneClassSVM(OutlierMixin, RowMachine):
    """The half-space away from the origin that holds most samples, for data of any length, with a certificate.

        min ½‖w‖² − ν n ρ + Σ max(0, ρ − wᵀx_i)

    As OneClassSVM(kernel="linear") and LIBLINEAR's -s 21; scikit-learn's SGDOneClassSVM approximates it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearOneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> machine = LinearOneClassSVM(nu=0.1).fit(X)
    >>> bool((machine.predict(X) == -1).mean() <= 0.1)
    True
    """

    nu: float = 0.5

    _leaves = ("coef_", "intercept_", "offset_", "fit_status_")
    _says = {
        "nu": ("float in (0, 1]", "Bounds the share of samples outside from above, of support vectors from below."),
        "coef_": ("ndarray of shape (n_features,)", "The weights w."),
    }

    def fit(self, X, y=None, sample_weight=None):
        """Fit to samples X (n, d); y is not looked at.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), memory map, path of an .npy file, or a list \
            of arrays with the same number of columns
            What is not in memory is read in blocks and never loaded as a whole.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight w is exactly w copies of the sample, 0 its absence.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, rows = self._check_rows(X, reset=True)
        weight = checked_weight(sample_weight, np.empty((rows.n, 1)))
        present = np.flatnonzero(weight)
        _, rows = self._present(X, rows, present)
        self._centre = np.zeros(rows.d)
        problem = Problem(OneClass(float(self.nu)), np.arange(rows.n), np.ones(rows.n), weight[present])
        outcome = self._solve_rows(rows, [problem])
        self.coef_ = self.coef_[0]
        self.offset_ = -self.intercept_
        self._certify(outcome)
        return self

    def score_samples(self, X):
        """wᵀx for each sample."""
        return self._decide(X)[:, 0] - self.intercept_[0]

    def decision_function(self, X):
        """Positive inside, negative outside: ``score_samples(X) - offset_``."""
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """+1 for inliers, −1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


def l1_min_c(X, y, *, loss="squared_hinge", fit_intercept=True, intercept_scaling: float | None = 1.0) -> float:
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
