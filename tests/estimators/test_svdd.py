"""SVDD against its definition: the smallest ball around the samples, by brute force on tiny data."""

import numpy as np
import pytest
from scipy.optimize import minimize

from estimators import by_hand
from estimators.samples import samples
from maxmargin import SVDD, OneClassSVM
from referee import naive_kernel

KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.3},
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def points(n: int = 25, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2)) * [1.0, 2.0] + 1.0


def smallest_ball(K: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """(β, R²) of the ball by a general-purpose optimiser: max Σ β_i K_ii − βᵀKβ, Σβ = 1, 0 ≤ β ≤ C."""
    n = len(K)
    found = minimize(
        lambda b: b @ K @ b - K.diagonal() @ b,
        np.full(n, 1.0 / n),
        jac=lambda b: 2 * K @ b - K.diagonal(),
        bounds=[(0.0, min(C, 1.0))] * n,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1.0, "jac": lambda b: np.ones(n)},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    beta = found.x
    distance = K.diagonal() - 2 * K @ beta + beta @ K @ beta
    free = (beta > 1e-5) & (beta < C - 1e-5)
    return beta, float(distance[free].mean())


def distances(model, X) -> np.ndarray:
    """Squared distances to the centre, by the definition."""
    K, beta = by_hand.kernel_of(model, X), by_hand.coefficients(model, len(X)) / 2
    return K.diagonal() - 2 * K @ beta + beta @ K @ beta


@each_kernel
@pytest.mark.parametrize("C", [1.0, 0.2, 0.07])
def test_the_ball_is_the_smallest(kernel, C):
    X = points()
    model = SVDD(C=C, tol=1e-8, **KERNELS[kernel]).fit(X)
    K = by_hand.kernel_of(model, X)
    beta, squared_radius = smallest_ball(K, C)
    assert model.radius_**2 == pytest.approx(squared_radius, rel=1e-4)
    best = by_hand.svdd(K, beta, squared_radius**0.5, np.full(len(X), C))
    assert model.certificate_.primal == pytest.approx(best[0], rel=1e-4)
    assert model.certificate_.dual == pytest.approx(best[1], rel=1e-4)
    np.testing.assert_allclose(by_hand.coefficients(model, len(X)).sum(), 2.0, rtol=1e-9)


@each_kernel
def test_no_sample_is_outside_when_none_may_be(kernel):
    X = points(60, seed=1)
    model = SVDD(C=1.0, **KERNELS[kernel]).fit(X)
    assert (model.predict(X) == 1).all()
    assert distances(model, X).max() == pytest.approx(model.radius_**2, rel=1e-3)


@pytest.mark.parametrize("C", [1.0, 3.0, np.inf])
def test_a_cost_above_one_is_one(C):
    X = points(60, seed=1)
    model, one = SVDD(C=C, kernel="linear").fit(X), SVDD(C=1.0, kernel="linear").fit(X)
    assert model.radius_ == pytest.approx(one.radius_, rel=1e-9)
    np.testing.assert_allclose(model.decision_function(X), one.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("C", [0.2, 5.0])
def test_a_weight_for_all_is_a_factor_of_the_cost(C):
    X = points(60, seed=1)
    weighted = SVDD(C=C, kernel="linear").fit(X, sample_weight=np.full(60, 0.1))
    scaled = SVDD(C=0.1 * C, kernel="linear").fit(X)
    assert weighted.radius_ == pytest.approx(scaled.radius_, rel=1e-9)
    np.testing.assert_array_equal(weighted.support_, scaled.support_)


def test_the_smallest_circle_around_known_points():
    X = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0], [2.0, -1.5]])  # all within the circle on the first two
    model = SVDD(C=1.0, kernel="linear", tol=1e-8).fit(X)
    assert model.radius_ == pytest.approx(2.0, rel=1e-6)
    np.testing.assert_allclose(model.coef_ / 2, [[2.0, 0.0]], atol=1e-6)  # the centre
    assert model.support_.tolist() == [0, 1]
    assert model.predict([[2.0, 1.99], [2.0, 2.01]]).tolist() == [1, -1]
    np.testing.assert_allclose(model.decision_function([[2.0, 0.0], [2.0, 3.0]]), [4.0, -5.0], atol=1e-5)


@each_kernel
def test_the_decision_is_the_squared_radius_minus_the_squared_distance(kernel):
    X = points(80, seed=2)
    model = SVDD(nu=0.2, tol=1e-6, **KERNELS[kernel]).fit(X)
    expected = model.radius_**2 - distances(model, X)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(model.score_samples(X) - model.offset_, model.decision_function(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), np.where(model.decision_function(X) >= 0, 1, -1))


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_the_boundary_is_that_of_the_one_class_machine_where_all_points_have_the_same_norm(kernel, nu):
    s = samples("cancer")
    params = {**KERNELS[kernel], "gamma": 0.02, "tol": 1e-8, "nu": nu}
    ball, half_space = SVDD(**params).fit(s.X), OneClassSVM(**params).fit(s.X)
    np.testing.assert_array_equal(ball.support_, half_space.support_)
    # ball: 2 Σ β k − const with Σβ = 1; half-space: Σ β k − ρ with Σβ = νn
    np.testing.assert_allclose(ball.dual_coef_, half_space.dual_coef_ * 2 / (nu * s.n), rtol=1e-5, atol=1e-9)
    scaled = half_space.decision_function(s.X_test) * 2 / (nu * s.n)
    np.testing.assert_allclose(ball.decision_function(s.X_test), scaled, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(ball.predict(s.X_test), half_space.predict(s.X_test))


def test_the_boundary_differs_where_norms_do():
    s = samples("cancer")
    ball, half_space = (m(nu=0.2, kernel="linear").fit(s.X).predict(s.X_test) for m in (SVDD, OneClassSVM))
    assert (ball != half_space).any()


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.7])
@each_kernel
def test_nu_bounds_the_share_outside(kernel, nu):
    X = points(200, seed=3)
    model = SVDD(nu=nu, tol=1e-6, **KERNELS[kernel]).fit(X)
    outside = np.mean(distances(model, X) > model.radius_**2 * (1 + 1e-6))
    assert outside <= nu <= len(model.support_) / len(X) + 1e-12
    cost = SVDD(C=1.0 / (nu * len(X)), tol=1e-6, **KERNELS[kernel]).fit(X)
    np.testing.assert_array_equal(model.support_, cost.support_)
    assert model.radius_ == pytest.approx(cost.radius_, rel=1e-9)


def test_a_callable_kernel_scores_new_samples():
    X = points(50, seed=4)
    named = SVDD(nu=0.2, **KERNELS["poly"]).fit(X)
    called = SVDD(nu=0.2, kernel=lambda A, B: naive_kernel("poly", A, B, gamma=0.5, coef0=1.0, degree=2)).fit(X)
    T = points(20, seed=5)
    np.testing.assert_allclose(called.decision_function(T), named.decision_function(T), rtol=1e-5, atol=1e-5)


def test_a_cost_that_is_too_small_is_an_error_that_names_the_least():
    with pytest.raises(ValueError, match=r"C=0\.01 was asked for; found .*25 points.*; choose C of at least 0\.04"):
        SVDD(C=0.01).fit(points())


def test_a_shift_of_the_samples_shifts_the_ball():
    X = points(80, seed=6)
    here, there = SVDD(nu=0.1, kernel="linear").fit(X), SVDD(nu=0.1, kernel="linear").fit(X + 50.0)
    assert there.radius_ == pytest.approx(here.radius_, rel=1e-6)
    np.testing.assert_allclose(there.coef_ / 2 - 50.0, here.coef_ / 2, atol=1e-4)
    np.testing.assert_allclose(there.decision_function(X + 50.0), here.decision_function(X), rtol=0, atol=1e-4)


@pytest.mark.parametrize("machine", [SVDD, OneClassSVM])
def test_a_linear_kernel_predicts_by_weights(machine, monkeypatch):
    X, new = points(200) + 5.0, points(50, 1) + 5.0  # away from the origin, from which one machine parts them
    fitted = machine(kernel="linear", nu=0.2).fit(X)
    by_vectors = new @ fitted.support_vectors_.T @ fitted.dual_coef_[0]
    if machine is SVDD:
        by_vectors = by_vectors - (new**2).sum(axis=1)
    np.testing.assert_allclose(fitted.coef_, fitted.dual_coef_ @ fitted.support_vectors_, rtol=1e-9)
    monkeypatch.setattr("maxmargin.decisions.weigh", lambda *_: pytest.fail("by vectors"))
    np.testing.assert_allclose(fitted.score_samples(new), by_vectors, rtol=1e-9, atol=1e-9)
