"""Support vector regression with kernels: SVR and NuSVR."""

from __future__ import annotations

import numpy as np
from sklearn.base import RegressorMixin

from ..formulations import EpsilonSVR
from ..formulations import NuSVR as NuSVRFormulation
from .kernel import SingleMachine

__all__ = ["SVR", "NuSVR"]


class _KernelRegressor(RegressorMixin, SingleMachine):
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


class SVR(_KernelRegressor):
    """ε-support vector regression, a drop-in for scikit-learn's, with a certificate of every fit.

    Parameters are scikit-learn's, and those that :class:`maxmargin.SVC` adds; ``loss`` is "epsilon_insensitive" or
    "squared_epsilon_insensitive".
    """

    def __init__(
        self,
        *,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        tol=1e-3,
        C=1.0,
        epsilon=0.1,
        shrinking=True,
        cache_size="auto",
        verbose=False,
        max_iter=-1,
        loss="epsilon_insensitive",
        solver="auto",
        fit_intercept=True,
        parametric=None,
        n_jobs=None,
        time_limit=None,
        callback=None,
        warm_start=False,
    ):
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.parametric = parametric
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.callback = callback
        self.warm_start = warm_start

    def _formulation(self):
        return EpsilonSVR(float(self.C), float(self.epsilon), self.loss, bool(self.fit_intercept))


class NuSVR(_KernelRegressor):
    """ν-support vector regression: the tube is as wide as a share ν of support vectors makes it.

    Parameters are scikit-learn's, and those that :class:`maxmargin.SVC` adds, without ``loss``.

    Attributes
    ----------
    epsilon_ : float
        The half-width of the tube that was found.
    """

    def __init__(
        self,
        *,
        nu=0.5,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        tol=1e-3,
        cache_size="auto",
        verbose=False,
        max_iter=-1,
        solver="auto",
        fit_intercept=True,
        parametric=None,
        n_jobs=None,
        time_limit=None,
        callback=None,
        warm_start=False,
    ):
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.parametric = parametric
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.callback = callback
        self.warm_start = warm_start

    def _formulation(self):
        return NuSVRFormulation(float(self.nu), float(self.C), bool(self.fit_intercept))

    def _publish(self, decision):
        self.epsilon_ = decision.found

    @property
    def _found(self):
        return self.epsilon_
