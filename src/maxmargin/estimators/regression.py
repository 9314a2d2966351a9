"""Support vector regression with kernels: SVR and NuSVR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import threads as th
from ..formulations import Decision, EpsilonSVR, Formulation
from ..formulations import NuSVR as NuSVRFormulation
from .base import Outcome, certified_or_as_before
from .calibrated import probabilities_for
from .calibration import laplace_width
from .checks import check_choice, is_number
from .expansion import Expanding
from .folds import Solving, fold_numbers, out_of_fold
from .kernel import SingleMachine
from .objects import Objects
from .parameters import OF_RESIDUALS, documented, says_fit

__all__ = ["SVR", "NuSVR"]


LEAVES = (
    "support_ support_vectors_ dual_coef_ coef_ intercept_ n_support_ parametric_coef_ fit_status_ shape_fit_ probA_"
).split()


@dataclass(kw_only=True, eq=False, repr=False)
class _KernelRegressor(RegressorMixin, SingleMachine):
    fit_intercept: bool = True
    parametric: Any = None
    probability: bool = False

    _leaves: ClassVar[Sequence[str]] = LEAVES
    _says = {
        "probability": (
            "bool",
            "Whether ``predict_interval`` is there: the width of a Laplace distribution around f, from the residuals "
            "of machines that have not seen the samples, as LIBSVM has it.",
        ),
        "probA_": ("ndarray of shape (1,)", "The width of that distribution; empty without probabilities."),
    }

    @says_fit("Fit to samples X (n, d) and targets y (n,).")
    @certified_or_as_before
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        check_choice(self, "probability", (False, True))
        X, y, weight = self._check_input(X, y, sample_weight)
        self._fit_single(X, np.asarray(y, np.float64), weight)
        return self

    def _add_probabilities(self, X: Any, outcome: Outcome) -> None:
        self._width = None
        if not self.probability:
            return
        (solved,) = outcome.solved
        problem = solved.problem
        by_content = self.kernel != "precomputed" and not isinstance(X, Objects)
        folds = fold_numbers(X[problem.rows], np.zeros(len(problem.rows)), problem.weight, 0, by_content)
        workers = 1 if self._function is not None else th.count(self.n_jobs)
        with self._once_more(outcome.monitor) as monitor:
            solver = replace(self._solver(), solver="auto")  # a named one may not take problems with closed boxes
            solving = Solving(outcome.gram, solver, self._goal, monitor, workers, classes=False)
            found = out_of_fold(solving, solved, folds)
        self._width = laplace_width(problem.y - found, problem.weight)

    @property
    def probA_(self) -> np.ndarray:
        """The width of a Laplace distribution of the residuals, as in LIBSVM; empty without probabilities."""
        check_is_fitted(self)
        return np.empty(0) if self._width is None else np.array([self._width])

    @available_if(probabilities_for("predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """(n, 2): between which values a target lies with a probability of ``coverage``.

        The residuals of new samples have a Laplace distribution of width ``probA_``, whatever the sample.
        """
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ValueError(f"a coverage in (0, 1) was asked for; found coverage={coverage!r}; give 0.9, say")
        values = self.predict(X)
        if self._width is None:
            name = type(self).__name__
            raise NotFittedError(
                f"predict_interval was asked for; found a {name} that was fitted without probabilities; fit it again"
            )
        half = -self._width * np.log1p(-coverage)
        return np.column_stack([values - half, values + half])

    def predict(self, X: Any) -> np.ndarray:
        """The value of the regression function at each sample."""
        return self._decide(X)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SVR(Expanding, _KernelRegressor):
    """ε-support vector regression, a drop-in for scikit-learn's, with a certificate of every fit.

        min ½‖f‖² + C Σ max(0, |f(x_i) − y_i| − ε)

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = SVR(C=10, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> bool(machine.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    huber_delta: float = 1.0
    quantile: float = 0.5
    random_state: Any = None

    _leaves = (*LEAVES, "full_gap_")
    _says = OF_RESIDUALS

    def _formulation(self) -> Formulation:
        shape = float(self.huber_delta), float(self.quantile)
        return EpsilonSVR(float(self.C), float(self.epsilon), self.loss, bool(self.fit_intercept), *shape)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class NuSVR(_KernelRegressor):
    """ν-support vector regression: the tube is as wide as a share ν of support vectors makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = NuSVR(C=10, nu=0.3).fit(X, np.sin(X[:, 0]))
    >>> bool(machine.epsilon_ < 0.1)
    True
    """

    C: float = 1.0
    nu: float = 0.5

    _leaves = (*LEAVES, "epsilon_")

    def _formulation(self) -> Formulation:
        return NuSVRFormulation(float(self.nu), float(self.C), bool(self.fit_intercept))

    def _publish(self, decision: Decision) -> None:
        self.epsilon_ = decision.found

    @property
    def _found(self) -> float:
        return self.epsilon_
