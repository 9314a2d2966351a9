"""What is published of a solution is as good as the solution: offsets, tubes and margins at their limits."""

import warnings

import numpy as np
import pytest

from maxmargin import SVDD, NuSVC, OneClassSVM
from maxmargin.formulations import Decision, Samples
from maxmargin.formulations import NuSVR as NuSVRFormulation
from maxmargin.gram import PrecomputedGram

OUTLIERS = {"one-class": OneClassSVM, "svdd": SVDD}


@pytest.mark.parametrize("machine", OUTLIERS.values(), ids=list(OUTLIERS))
@pytest.mark.parametrize("nu", [0.3, 1.0])
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
def test_an_offset_is_not_moved_by_more_than_the_tolerance(size, nu, machine):
    """Far from the origin f is large, and a share of it is not a hair."""
    X = size * (np.random.default_rng(0).normal(size=(60, 3)) + 30.0)
    tol = 1e-10 * float((X * X).sum(axis=1).max())  # a million times what rounding leaves of k(x, x')
    model = machine(kernel="linear", nu=nu, tol=tol).fit(X)
    assert model.status_.converged
    assert model.certificate_.violation <= tol


@pytest.mark.parametrize("machine", OUTLIERS.values(), ids=list(OUTLIERS))
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("far", [0.0, 100.0])
def test_points_on_the_boundary_are_inside(far, kernel, machine):
    X = np.random.default_rng(1).normal(size=(80, 4)) + (far if kernel == "linear" else far / 100)
    size = float((X * X).sum(axis=1).max()) if kernel == "linear" else 1.0
    model = machine(kernel=kernel, nu=0.2, tol=1e-9 * size).fit(X)
    outside = int((model.predict(X) < 0).sum())
    assert outside <= 0.2 * len(X)  # at most a share nu, which free support vectors would exceed


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_tube_without_width_does_not_hide_small_coefficients(fit_intercept):
    """u and v have to fill sums of 10⁹, and their difference is a coefficient of 10⁻³."""
    rng = np.random.default_rng(0)
    n = 12
    B = rng.normal(size=(n, n))
    formulation = NuSVRFormulation(nu=0.7, C=1e9, fit_intercept=fit_intercept)
    qp = formulation.qp(Samples(PrecomputedGram(B @ B.T), rng.normal(size=n), np.ones(n)))
    coef = 1e-3 * rng.normal(size=n)
    coef -= coef.mean()
    beta, _ = formulation.point(qp, Decision(coef, 0.0, found=0.0))
    np.testing.assert_allclose(qp.H.seen(beta), coef, atol=4 * np.spacing(1e9))
    assert qp.infeasibility(beta) < 1e-9


def test_at_the_largest_nu_a_class_that_nothing_separates_is_given_up_by_an_optimal_bias():
    """The only sample of the lighter class lies on one of the heavier, so that f is 0 whatever the coefficients are."""
    X = np.array([[0.0], [0.0], [1.0], [2.0], [3.0]])
    y = np.array([1, 0, 0, 0, 0])
    weight = np.array([1e-3, 100.0, 200.0, 100.0, 50.0])
    largest = 2.0 * weight[0] / weight.sum()
    model = NuSVC(kernel="laplacian", nu=largest).fit(X, y, sample_weight=weight)
    assert (model.predict(X) == 0).all()
    assert model.status_.converged
    assert model.certificate_.violation <= 1e-3 * 1e-3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("solver", ["auto", "mpd", "interior-point"])
def test_without_a_margin_decisions_are_not_the_signs_of_rounding(solver, seed):
    """Each point is in both classes, twice as heavy in one: that one is predicted, in whatever order they come."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(15, 3))
    X, y = np.vstack([points, points]), np.repeat([0, 1], 15)
    weight = np.where(y == 1, 2.0, 1.0)
    order = rng.permutation(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # there is no margin
        model = NuSVC(nu=0.1, solver=solver).fit(X[order], y[order], sample_weight=weight[order])
    assert model.status_.converged
    assert (model.predict(X) == 1).all()
