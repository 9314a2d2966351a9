"""Losses of residuals: what each of them means, against machines that others have for it."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from estimators import by_hand
from maxmargin import SVR, LinearSVR

LOSSES = {
    "huber": {"loss": "huber", "huber_delta": 0.3},
    "quantile": {"loss": "quantile", "quantile": 0.8},
    "squared": {"loss": "squared_error"},
}


def data(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:n], y[:n]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["auto", "decomposition", "mpd", "interior-point"])
def test_the_certificate_is_that_of_the_loss(loss, solver):
    X, y = data()
    weight = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    model = SVR(C=2.0, gamma=0.1, tol=1e-5, solver=solver, **LOSSES[loss]).fit(X, y, sample_weight=weight)
    assert model.status_.converged
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    beta = by_hand.coefficients(model, len(y))
    primal, dual = by_hand.regression(K, y, beta, model.intercept_[0], 2.0 * weight, **LOSSES[loss])
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-7)
    assert model.certificate_.dual == pytest.approx(dual, rel=1e-7)
    assert primal - dual <= 1e-3 * primal


@pytest.mark.parametrize("loss", LOSSES)
def test_a_linear_machine_has_the_same_optimum_as_a_linear_kernel(loss):
    X, y = data()
    kernel = SVR(kernel="linear", C=0.7, tol=1e-6, **LOSSES[loss]).fit(X, y)
    linear = LinearSVR(C=0.7, tol=1e-8, **LOSSES[loss]).fit(X, y)
    assert linear.status_.converged
    assert linear.certificate_.primal == pytest.approx(kernel.certificate_.dual, rel=1e-6)


@pytest.mark.parametrize("weight", [None, "some"])
def test_squares_are_ridge_regression(weight):
    X, y = data()
    weight = None if weight is None else np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    ours = SVR(loss="squared_error", C=5.0, gamma=0.1, fit_intercept=False, tol=1e-8).fit(X, y, sample_weight=weight)
    theirs = KernelRidge(kernel="rbf", gamma=0.1, alpha=0.1).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)
    ours = LinearSVR(loss="squared_error", C=5.0, tol=1e-10).fit(X, y, sample_weight=weight)
    theirs = Ridge(alpha=0.1).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_, abs=1e-5)


def test_a_quantile_has_that_share_below():
    X, y = data()
    shares = [
        np.mean(y <= LinearSVR(loss="quantile", quantile=q, C=10.0).fit(X, y).predict(X)) for q in (0.1, 0.5, 0.9)
    ]
    np.testing.assert_allclose(shares, [0.1, 0.5, 0.9], atol=0.06)


def test_huber_does_not_follow_an_outlier():
    X = np.linspace(-1, 1, 60)[:, None]
    y = 2.0 * X[:, 0]
    y[5] = 100.0
    robust = LinearSVR(loss="huber", huber_delta=0.1, C=100.0).fit(X, y)
    squared = LinearSVR(loss="squared_error", C=100.0).fit(X, y)
    assert abs(robust.coef_[0] - 2.0) < 0.05 < abs(squared.coef_[0] - 2.0)


@pytest.mark.parametrize("quantile", [0, 1, -0.5, "half", None])
def test_a_quantile_is_a_share(quantile):
    X, y = data(20)
    with pytest.raises(ValueError, match="a valid quantile was asked for; found quantile="):
        SVR(loss="quantile", quantile=quantile).fit(X, y)
