"""Support vector regression with kernels: SVR and NuSVR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from ..formulations import EpsilonSVR
from ..formulations import NuSVR as NuSVRFormulation
from .expansion import Expanding
from .kernel import SingleMachine
from .parameters import documented

__all__ = ["SVR", "NuSVR"]


LEAVES = (
    "support_ support_vectors_ dual_coef_ coef_ intercept_ n_support_ parametric_coef_ fit_status_ shape_fit_"
).split()


@dataclass(kw_only=True, eq=False, repr=False)
class _KernelRegressor(RegressorMixin, SingleMachine):
    fit_intercept: bool = True
    parametric: Any = None

    _leaves: ClassVar[Sequence[str]] = LEAVES

    def fit(self, X, y, sample_weight=None):
        """Fit to samples X (n, d) and targets y (n,).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight w is exactly w copies of the sample, 0 its absence.

        Returns
        -------
        self
        """
        X, y, weight = self._check_input(X, y, sample_weight)
        self._fit_single(X, np.asarray(y, np.float64), weight)
        return self

    def predict(self, X):
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
    _says = {
        "loss": (
            '{"epsilon_insensitive", "squared_epsilon_insensitive", "huber", "quantile", "squared_error"}',
            "What an error r costs: max(0, |r| − epsilon), or its square; r²/2 up to huber_delta and a line beyond; "
            "quantile · r below and (1 − quantile) · r above the target's quantile; r².",
        ),
        "epsilon": ("float", "Half-width of the tube inside which an error costs nothing, for the first two losses."),
        "huber_delta": ("float", 'Size of an error from which on its cost grows in a straight line, for loss="huber".'),
    }

    def _formulation(self):
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

    def _formulation(self):
        return NuSVRFormulation(float(self.nu), float(self.C), bool(self.fit_intercept))

    def _publish(self, decision):
        self.epsilon_ = decision.found

    @property
    def _found(self):
        return self.epsilon_
