"""What the solutions mean: margins, tubes, shares and radii, as the papers promise them."""

import numpy as np
import pytest

from cases import ALL_VARIANTS, VARIANTS, make_data
from maxmargin.formulations import CSVC, FORMULATIONS, SVDD, EpsilonSVR, NuSVC, NuSVR, OneClass, Samples
from maxmargin.gram import PrecomputedGram
from maxmargin.solvers import solve
from maxmargin.solvers.base import first_point
from referee import naive_kernel

DATA = make_data("plain", 80)
K = naive_kernel("rbf", DATA.X, gamma=0.5)
ONES = np.ones(80)
TOL = 1e-9


def fit(formulation, y, weight=ONES, matrix=K):
    """The problem, its solution, the decision function and its values at the points."""
    qp = formulation.qp(Samples(PrecomputedGram(matrix), y, weight))
    solution = solve(qp, "smo", tol=TOL)
    decision = formulation.decision(qp, solution)
    return qp, solution, decision, matrix @ decision.coef + decision.intercept


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hinge_margins(fit_intercept):
    """Coefficients are zero beyond the margin, between on it, at C within it."""
    y = DATA.labels
    _, _, decision, f = fit(CSVC(C=1.5, fit_intercept=fit_intercept), y)
    alpha, margin = y * decision.coef, y * f
    free = (alpha > 1e-8) & (alpha < 1.5 - 1e-8)
    assert free.any()
    np.testing.assert_allclose(margin[free], 1.0, atol=1e-6)
    assert (margin[alpha <= 1e-8] >= 1 - 1e-6).all()
    assert (margin[alpha >= 1.5 - 1e-8] <= 1 + 1e-6).all()
    if not fit_intercept:
        assert decision.intercept == 0.0


@pytest.mark.parametrize("variant", [v for v in VARIANTS if hasattr(v.formulation, "erm")], ids=str)
def test_coefficients_are_cost_times_slope(variant):
    """At the optimum β_i = −C_i times the slope of the loss at f(x_i), wherever the loss has one slope."""
    y = variant.targets(DATA)
    weight = np.linspace(0.5, 2.0, 80)
    _, _, decision, f = fit(variant.formulation, y, weight)
    erm = variant.formulation.erm(Samples(PrecomputedGram(K), y, weight))
    argument = erm.loss.argument(y, f)
    here, left, right = (erm.loss.slope(argument + h) for h in (0.0, -1e-5, 1e-5))
    smooth = np.abs(left - right) < 1e-3
    assert smooth.sum() > 20
    sign = y if erm.loss.classification else 1.0
    np.testing.assert_allclose(decision.coef[smooth], (-erm.cost * here * sign)[smooth], atol=1e-5)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if hasattr(v.formulation, "erm")], ids=str)
def test_nothing_near_by_has_a_smaller_risk(variant):
    y = variant.targets(DATA)
    _, solution, _, _ = fit(variant.formulation, y)
    erm = variant.formulation.erm(Samples(PrecomputedGram(K), y, ONES))
    best = erm.objective(solution.beta, solution.multipliers)
    assert best == pytest.approx(solution.certificate.primal, rel=1e-9)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            beta = solution.beta + scale * rng.normal(size=80)
            eta = solution.multipliers + scale * rng.normal(size=len(solution.multipliers))
            assert erm.objective(beta, eta) >= best - 1e-8


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("nu", [0.2, 0.5])
def test_nu_svc_is_a_c_svc(nu, fit_intercept):
    """Divided by the margin ρ, the function is that of a C-SVC whose C is the largest coefficient."""
    y = DATA.labels
    qp, _, decision, f = fit(NuSVC(nu=nu, fit_intercept=fit_intercept), y)
    rho = decision.found
    assert rho > 0
    box = np.maximum(qp.upper, -qp.lower)[0] / rho
    np.testing.assert_allclose(f, fit(CSVC(C=box, fit_intercept=fit_intercept), y)[3], atol=1e-5)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.6])
def test_nu_bounds_errors_and_support_vectors(nu):
    y = DATA.labels
    _, _, decision, f = fit(NuSVC(nu=nu), y)
    assert (y * f < 1 - 1e-6).mean() <= nu + 1e-9
    assert (np.abs(decision.coef) > 1e-9).mean() >= nu - 1e-9


def test_nu_svc_infeasible():
    y = np.where(np.arange(80) < 20, 1.0, -1.0)
    assert NuSVC.largest_nu(y, ONES) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0.6 was asked for.*\(0, 0.5\]"):
        NuSVC(nu=0.6).qp(Samples(PrecomputedGram(K), y, ONES))
    weight = np.where(y > 0, 3.0, 1.0)
    assert NuSVC.largest_nu(y, weight) == pytest.approx(1.0)
    NuSVC(nu=0.6).qp(Samples(PrecomputedGram(K), y, weight))


def test_nu_svc_at_the_largest_nu():
    y = np.where(np.arange(80) < 20, 1.0, -1.0)
    _, solution, _, _ = fit(NuSVC(nu=0.5), y)
    assert solution.status.converged
    assert solution.certificate.gap < 1e-6
    clipped = NuSVC(nu=0.9, clip=True)
    assert solve(clipped.qp(Samples(PrecomputedGram(K), y, ONES)), "smo").status.converged


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_epsilon_tube(epsilon, fit_intercept):
    y = DATA.values
    _, _, decision, f = fit(EpsilonSVR(C=1.5, epsilon=epsilon, fit_intercept=fit_intercept), y)
    beta, residual = decision.coef, y - f
    free = (np.abs(beta) > 1e-8) & (np.abs(beta) < 1.5 - 1e-8)
    assert free.any()
    np.testing.assert_allclose(residual[free], epsilon * np.sign(beta[free]), atol=1e-6)
    assert (np.abs(residual[np.abs(beta) <= 1e-8]) <= epsilon + 1e-6).all()
    assert (np.abs(residual[np.abs(beta) >= 1.5 - 1e-8]) >= epsilon - 1e-6).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("nu", [0.05, 0.2])
def test_nu_svr_is_an_epsilon_svr(nu, fit_intercept):
    """The tube that it finds is the one that gives the same function when it is given."""
    y = DATA.values
    _, _, decision, f = fit(NuSVR(nu=nu, C=1.5, fit_intercept=fit_intercept), y)
    epsilon = decision.found
    assert epsilon > 0
    np.testing.assert_allclose(f, fit(EpsilonSVR(1.5, epsilon, fit_intercept=fit_intercept), y)[3], atol=1e-5)
    assert (np.abs(y - f) > epsilon + 1e-6).mean() <= nu
    assert (np.abs(decision.coef) > 1e-9).mean() >= nu - 1e-9


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.8, 1.0])
def test_one_class_shares(nu):
    _, _, decision, f = fit(OneClass(nu=nu), None)
    assert (f < -1e-6).mean() <= nu
    assert (decision.coef > 1e-9).mean() >= nu - 1e-9


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_svdd_ball(nu):
    """Coefficients between zero and C lie on the sphere, outside of it they are at C."""
    kernel = DATA.X @ DATA.X.T + 1.0
    qp, _, decision, f = fit(SVDD(nu=nu), None, matrix=kernel)
    beta = decision.coef / 2
    assert beta.sum() == pytest.approx(1.0)
    centre = beta @ DATA.X
    distance = np.linalg.norm(DATA.X - centre, axis=1)
    free = (beta > 1e-8) & (beta < qp.upper - 1e-8)
    assert free.any()
    np.testing.assert_allclose(distance[free], decision.found, atol=1e-5)
    assert (distance[beta <= 1e-8] <= decision.found + 1e-5).all()
    assert (distance[beta >= qp.upper - 1e-8] >= decision.found - 1e-5).all()
    np.testing.assert_allclose(f - kernel.diagonal(), decision.found**2 - distance**2, atol=1e-5)


def test_svdd_of_a_kernel_with_a_constant_diagonal_is_a_one_class_machine():
    _, _, ball, f = fit(SVDD(nu=0.3), None)
    _, _, plane, g = fit(OneClass(nu=0.3), None)
    np.testing.assert_allclose(ball.coef / ball.coef.sum(), plane.coef / plane.coef.sum(), atol=1e-6)
    np.testing.assert_allclose((f - 1.0) / ball.coef.sum(), g / plane.coef.sum(), atol=1e-6)


def test_svdd_with_too_small_a_cost():
    with pytest.raises(ValueError, match="C=0.01 was asked for.*80 points.*at least 0.0125"):
        SVDD(C=0.01).qp(Samples(PrecomputedGram(K), None, ONES))
    SVDD(C=0.0126).qp(Samples(PrecomputedGram(K), None, ONES))


def test_smallest_ball_by_hand():
    """Around −1, 0 and 3 the smallest ball has centre 1 and radius 2; the point inside has no part in it."""
    X = np.array([[-1.0], [0.0], [3.0]])
    _, _, decision, _ = fit(SVDD(C=1.0), None, np.ones(3), X @ X.T)
    np.testing.assert_allclose(decision.coef / 2, [0.5, 0.0, 0.5], atol=1e-9)
    assert decision.found == pytest.approx(2.0)


@pytest.mark.parametrize("make", [CSVC, EpsilonSVR])
def test_unknown_loss(make):
    with pytest.raises(ValueError, match="was asked for; found loss='log'; choose"):
        make(loss="log")


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_weights_scale_the_boxes(variant):
    y = variant.targets(DATA)
    weight = np.linspace(0.5, 2.0, 80)
    if variant.name == "nu_svc":
        weight = weight / weight.mean()
    qp, plain = (variant.formulation.qp(Samples(PrecomputedGram(K), y, w)) for w in (weight, ONES))
    points = [int(np.abs(qp.H.seen(row)).argmax()) for row in np.eye(qp.n)]  # a point may have two variables
    first = np.unique(points, return_index=True)[1]
    reach, unit = (np.maximum(q.upper, -q.lower)[first] for q in (qp, plain))
    if np.isfinite(reach).all():
        np.testing.assert_allclose(reach / reach[0], weight / weight[0] * unit / unit[0])
    else:  # a squared loss: the weight is in the ridge
        np.testing.assert_allclose(qp.H.ridge, plain.H.ridge / weight)


def test_every_formulation_is_registered_and_tried():
    assert {variant.name for variant in ALL_VARIANTS} == set(FORMULATIONS)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_nu_svr_begins_without_a_function(fit_intercept):
    """A first point whose product would take ν n rows cannot be certified when time is short: α and α* cancel."""
    qp = NuSVR(0.31, 10.0, fit_intercept).qp(Samples(PrecomputedGram(K), DATA.values, ONES))
    beta = first_point(qp)
    assert beta.any() and qp.infeasibility(beta) <= 1e-12
    assert np.count_nonzero(qp.H.seen(beta)) <= 1
