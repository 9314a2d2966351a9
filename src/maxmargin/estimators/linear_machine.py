"""What linear machines share: rows of features, wherever they are, weights of these, and a path of costs."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ..formulations import Decision, SemiParametric
from ..goal import Goal
from ..gram import Factored, Shifted
from ..gram.points import on_disk
from ..rows import Rows
from ..rows.centre import centred, far_centre
from ..solution import Certificate
from ..solvers import Auto
from .base import Machine, Outcome, Problem, Solved, certified_or_as_before, dense
from .checks import (
    check_choice,
    check_shared,
    check_sparse,
    checked_weight,
    few_plain_rows,
    is_number,
    need,
)
from .objects import frame_library
from .parameters import ROWS, says_fit

__all__ = ["LEAVES", "LinearMachine", "LinearPath", "RowMachine"]

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

    def _check_rows(self, X: Any, reset: bool) -> tuple[Any, Rows]:
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
            if not (far or reset):
                return X, Rows.of(X, self.n_jobs)
        X = list(X) if in_parts else X
        rows = Rows.of(X, self.n_jobs)
        if in_parts:
            self._check_width(rows.d, reset)
        with np.errstate(over="ignore"):  # squares of features are multiplied by each other: up to 1e77 none overflows
            sizes = rows.squared_norms() ** 2
        if not np.isfinite(sizes).all():
            raise ValueError(
                "Input X contains NaN, infinity or a value whose square is too large to be squared; scale the "
                "features, or leave samples out."
            )
        return X, rows

    def _check_width(self, d: int, reset: bool) -> None:
        if reset:
            self.n_features_in_ = d
        elif d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )

    def _check_input(self, X: Any, y: Any, sample_weight: Any) -> tuple:
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

    def _goal(self, problem: Problem) -> Goal:
        return Goal(gap=self.tol, max_iter=self.max_iter, exact=False)

    def _solver(self) -> Auto:
        given = self.random_state  # None: the same order every time
        seed = 0 if given is None else int(check_random_state(given).randint(np.iinfo(np.int32).max))
        return Auto(self.solver, looks=True, options={"seed": seed})

    def _present(self, X: Any, rows: Rows, present: np.ndarray) -> tuple[Any, Rows]:
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

    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        """The weights of a problem as published; the dual bound is that of the coefficients that were found."""
        w, b = np.atleast_2d(self.coef_)[number] / self._stretch, float(self.intercept_[number])
        parametric = np.zeros(0) if self._parametric is None else np.atleast_2d(self.parametric_coef_)[number]
        b += float(w @ self._centre)
        if self._constant:
            w = np.append(w, b / self._constant)
        return Decision(solved.solution.beta, b, parametric=parametric), w

    # -- parametric functions ---------------------------------------------------------------------------

    def _functions_of(self, X: Any) -> np.ndarray:
        """φ a piece of X at a time where X is in pieces or on disk."""
        if isinstance(X, np.ndarray) and on_disk(X):
            step = max(1, PIECE_BYTES // (8 * X.shape[1]))
            X = [X[a : a + step] for a in range(0, len(X), step)]
        values = super()._functions_of
        return np.vstack([values(x) for x in X]) if isinstance(X, list) else values(X)

    # -- prediction -------------------------------------------------------------------------------------

    def _decide(self, X: Any) -> np.ndarray:
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

    def __sklearn_tags__(self) -> Any:
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
    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, list[Problem]]:
        """The checked rows that are there, and the problems on them."""

    @abstractmethod
    def _run(self, rows: Rows, problems: list[Problem]) -> None:
        """Solve the problems; sets all that a fit leaves."""

    @says_fit("Fit to samples X (n, d) and targets y (n,).", ROWS)
    @certified_or_as_before
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self._run(*self._prepare(X, y, sample_weight))
        return self

    def path(self, X: Any, y: Any, Cs: Any, sample_weight: Any = None) -> LinearPath:
        """Machines for several costs, each started from the one before; leaves this one as it is."""
        Cs = np.asarray(Cs, np.float64)
        if Cs.ndim != 1 or not len(Cs) or not (np.isfinite(Cs) & (Cs > 0)).all():
            raise ValueError(f"Cs={Cs!r} was asked for; found no list of costs > 0; give numbers > 0")
        machine = self._unfitted().set_params(C=float(Cs[0]), warm_start=True)
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

    def _costing(self, formulation: Any) -> Any:
        """A formulation with this machine's cost."""
        if isinstance(formulation, SemiParametric):
            return replace(formulation, machine=self._costing(formulation.machine))
        return replace(formulation, C=float(self.C))

    def _moved(self, rows: Rows, weight: np.ndarray) -> Rows:
        """The rows seen from a centre, where the intercept is free."""
        self._centre = far_centre(rows, weight) if self._free_intercept else np.zeros(rows.d)
        return centred(rows, self._centre)
