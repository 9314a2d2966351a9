"""Novelty and outlier detection: OneClassSVM and SVDD with kernels, LinearOneClassSVM for data of any length."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..formulations import SVDD as SVDDFormulation
from ..formulations import Decision, Formulation, OneClass
from ..goal import nothing
from ..gram.points import make_points
from ..solution import Certificate
from .base import Outcome, Problem, certified_or_as_before, stacklevel
from .calibrated import probabilities_for
from .calibration import MARKS, density_marks, normal_share
from .checks import check_choice, checked_weight
from .kernel import SingleMachine
from .linear_machine import RowMachine
from .parameters import ROWS, documented, says_fit

__all__ = ["SVDD", "LinearOneClassSVM", "OneClassSVM"]


LEAVES = ("support_ support_vectors_ dual_coef_ coef_ intercept_ offset_ n_support_ fit_status_ shape_fit_").split()


class _AwayFromOrigin:
    """What machines share that look for a half-space away from the origin."""

    def _speak(self) -> None:
        found: Certificate = self.certificate_  # type: ignore[attr-defined]
        if not (nothing(found) and self.status_.converged):  # type: ignore[attr-defined]
            super()._speak()  # type: ignore[misc]
        else:
            warnings.warn(
                "a half-space away from the origin was asked for; found samples on all sides of it, so that f = 0 is "
                'the best function and nothing is outside; use OneClassSVM(kernel="rbf") or SVDD',
                UserWarning,
                stacklevel=stacklevel(),
            )


class _KernelOutlierDetector(OutlierMixin, SingleMachine):
    _moves = False  # the sum of the coefficients is not 0

    @says_fit("Fit to samples X (n, d); y is not looked at.", y="ignored")
    @certified_or_as_before
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        X, _, weight = self._check_input(X, None, sample_weight, supervised=False)
        self._fit_single(X, np.ones(X.shape[0]), weight)
        return self

    def _publish(self, decision: Decision) -> None:
        self.offset_ = -self.intercept_

    def decision_function(self, X: Any) -> np.ndarray:
        """Positive inside, negative outside: ``score_samples(X) - offset_``."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for inliers, −1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(_AwayFromOrigin, _KernelOutlierDetector):
    """The support of a distribution, a drop-in for scikit-learn's, with a certificate of every fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import OneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> machine = OneClassSVM(nu=0.1).fit(X)
    >>> machine.predict([[20.0, 20.0, 20.0, 20.0]])
    array([-1])
    """

    nu: float = 0.5
    parametric: Any = None
    probability: bool = False

    _leaves = (*LEAVES, "parametric_coef_", "prob_density_marks_")
    _says = {
        "probability": (
            "bool",
            "Whether ``predict_proba`` is there: probabilities from how dense the decisions of the samples are, as "
            "LIBSVM has it.",
        ),
        "prob_density_marks_": (
            "ndarray of shape (10,)",
            "Decisions between which a tenth of probability lies each; empty without probabilities, or where fewer "
            "than five samples are inside or outside.",
        ),
        "nu": ("float in (0, 1]", "Bounds the share of samples outside from above, of support vectors from below."),
    }

    def _formulation(self) -> Formulation:
        return OneClass(float(self.nu))

    def _add_probabilities(self, X: Any, outcome: Outcome) -> None:
        check_choice(self, "probability", (False, True))
        self.prob_density_marks_ = np.empty(0)
        if not self.probability:
            return
        rows = outcome.solved[0].problem.rows
        decisions = self._decide(X[rows], checked=True)
        marks = density_marks(decisions, outcome.solved[0].problem.weight)
        if marks is not None:
            self.prob_density_marks_ = marks
            return
        warnings.warn(
            f"probability=True was asked for; found fewer than {MARKS // 2} samples inside or outside of the boundary; "
            "give more samples, or another nu",
            UserWarning,
            stacklevel=stacklevel(),
        )

    @available_if(probabilities_for("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, 2): the probabilities of −1, an outlier, and of +1."""
        check_is_fitted(self)
        if not len(self.prob_density_marks_):
            raise NotFittedError(
                "predict_proba was asked for; found a OneClassSVM that was fitted without probabilities, or with too "
                "few samples inside or outside; fit it again"
            )
        inside = normal_share(self.decision_function(X), self.prob_density_marks_)
        return np.column_stack([1.0 - inside, inside])

    def score_samples(self, X: Any) -> np.ndarray:
        """The decision function without its offset."""
        return self._decide(X) - self.intercept_[0]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SVDD(_KernelOutlierDetector):
    """Support vector data description: the smallest ball in feature space around the samples (Tax & Duin 2004).

    A ball differs from OneClassSVM's half-space for kernels with k(x, x) that varies, such as "linear" and "poly".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVDD
    >>> X, _ = load_iris(return_X_y=True)
    >>> machine = SVDD(kernel="linear", C=1.0).fit(X)
    >>> bool(machine.radius_ > 0)
    True
    """

    nu: float = 0.5
    C: float | None = None

    _leaves = (*LEAVES, "radius_")
    _says = {
        "nu": ("float in (0, 1]", "Share of the samples that may lie outside: C = 1 / (nu · sum of weights)."),
        "C": ("float or None", "Cost of a sample outside, in place of nu. C = 1 allows none outside."),
    }

    _optional = ("C",)

    def _formulation(self) -> Formulation:
        return SVDDFormulation(float(self.nu), None if self.C is None else float(self.C))

    def _publish(self, decision: Decision) -> None:
        super()._publish(decision)
        self.radius_ = decision.found

    def score_samples(self, X: Any) -> np.ndarray:
        """2 Σ β_i k(x_i, x) − k(x, x): minus the squared distance to the centre, up to a constant."""
        values = self._decide(X) - self.intercept_[0]
        return values - self._self_kernel(self._check_predict_input(X))

    def _self_kernel(self, X: Any) -> np.ndarray:
        """k(x, x) for each sample."""
        if self._as_fitted("kernel") == "precomputed":
            raise ValueError(
                "SVDD(kernel='precomputed') was asked to score new samples; found K(test, train) but not k(x, x) "
                "of the new ones; use a kernel by name or a callable"
            )
        if self._function is not None:
            return np.array(
                [float(np.asarray(self._function(X[i : i + 1], X[i : i + 1]))[0, 0]) for i in range(X.shape[0])]
            )
        return self._kernel_.diag(make_points(X, self._kernel_).norms)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LinearOneClassSVM(_AwayFromOrigin, OutlierMixin, RowMachine):
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

    @says_fit("Fit to samples X (n, d); y is not looked at.", ROWS, "ignored")
    @certified_or_as_before
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
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

    def score_samples(self, X: Any) -> np.ndarray:
        """wᵀx for each sample."""
        return self._decide(X)[:, 0] - self.intercept_[0]

    def decision_function(self, X: Any) -> np.ndarray:
        """Positive inside, negative outside: ``score_samples(X) - offset_``."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for inliers, −1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
