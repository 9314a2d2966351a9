"""The nearest point of two convex hulls, by hand, against the referee, and told when there is no margin."""

import numpy as np
import pytest

from cases import DEFINITE, VARIANTS, Variant, known, make_data, plain_problem, takes, verdict_on
from maxmargin.formulations import CSVC, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import solve
from maxmargin.solvers.nearest_point import _nearest_in_triangle
from maxmargin.solvers.parts.working_sets import Sizes

SQUARED = [v for v in VARIANTS if v.name == "c_svc" and v.formulation.loss == "squared_hinge"]


def hard_margin(X, y, scale=1.0) -> QP:
    """The widest margin: a box without end and no ridge."""
    gram = KernelGram(Kernel("linear"), np.asarray(X, float))
    lower, upper = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
    return QP(gram, -scale * y, lower, upper, np.ones((1, len(y))), [0.0])


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_two_points_and_a_segment_by_hand(scale):
    """The origin against the segment from (1, 1) to (1, −1): distance 1, margin halfway."""
    X, y = [[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]], np.array([-1.0, 1.0, 1.0])
    solution = solve(hard_margin(X, y, scale), "nearest-point", tol=1e-9)
    np.testing.assert_allclose(solution.beta, scale * np.array([-2.0, 1.0, 1.0]), atol=1e-9)
    np.testing.assert_allclose(solution.multipliers, [-scale], atol=1e-9)
    assert solution.certificate.dual == pytest.approx(2.0 * scale**2)  # 2 / distance²


@pytest.mark.parametrize("kernel", DEFINITE)
@pytest.mark.parametrize("variant", SQUARED, ids=str)
@pytest.mark.parametrize("kind", ["plain", "weighted", "duplicated"])
@pytest.mark.parametrize("newton", [True, False])
def test_squared_hinge(kernel, variant, kind, newton):
    qp, best = known(variant, kernel, kind)
    solution = solve(qp, "nearest-point", tol=1e-4, newton=newton)
    assert solution.status is Status.CONVERGED
    assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-5)
    assert np.abs(qp.A @ solution.beta).max(initial=0.0) < 1e-9 * np.abs(solution.beta).sum()
    assert solution.certificate.violation <= 1e-4


def test_the_objective_is_the_distance():
    """Nothing but the points of the hulls: μᵀHμ is the squared distance and the objective −2 over it."""
    qp, _ = known(SQUARED[0], "rbf", "plain")
    solution = solve(qp, "nearest-point", tol=1e-8)
    mu = 2.0 * solution.beta / np.abs(solution.beta).sum()
    assert qp.objective(solution.beta) == pytest.approx(-2.0 / (mu @ qp.times(mu)), rel=1e-9)
    rng = np.random.default_rng(0)
    y = -qp.p
    for _ in range(200):
        weight = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
        other = np.zeros(60)
        other[y > 0], other[y < 0] = weight[0], -weight[1]
        assert other @ qp.times(other) >= mu @ qp.times(mu) - 1e-9


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_on_demand(fit_intercept):
    variant = Variant("c_svc", CSVC(C=2.0, loss="squared_hinge", fit_intercept=fit_intercept))
    qp = plain_problem(variant, "rbf", make_data("plain", 150))
    gram = KernelGram(Kernel("rbf", 0.5), make_data("plain", 150).X)
    fast = variant.formulation.qp(Samples(gram, make_data("plain", 150).labels, np.ones(150)))
    solution = solve(fast, "nearest-point", tol=1e-5, newton=False, cache_size=0.01, sizes=Sizes(matrix=0, block=5))
    assert solution.status is Status.CONVERGED
    assert qp.objective(solution.beta) == pytest.approx(verdict_on(qp).objective, rel=1e-6)


def test_hulls_that_meet_have_no_margin():
    X, y = np.array([[0.0], [2.0], [1.0], [3.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    solution = solve(hard_margin(X, y), "nearest-point")
    assert solution.status is Status.UNBOUNDED
    assert np.isfinite(solution.beta).all()


def test_other_problems_are_told():
    data = make_data("plain")
    gram = PrecomputedGram(np.eye(60))
    assert takes("nearest-point", SQUARED[0].formulation.qp(Samples(gram, data.labels, data.weight)))
    for variant in VARIANTS:
        if variant not in SQUARED:
            assert not takes("nearest-point", plain_problem(variant, "rbf", data))
    two_rows = QP(np.eye(2), [-1.0, 1.0], [0.0, -np.inf], [np.inf, 0.0], np.eye(2), [0.0, 0.0])
    assert not takes("nearest-point", two_rows)


def test_nearest_point_of_a_triangle():
    """Against a fine grid of (a, c)."""
    rng = np.random.default_rng(0)
    a, c = (x.ravel() for x in np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201)))
    inside = a + c <= 1.0 + 1e-12
    a, c = a[inside], c[inside]
    for trial in range(200):
        z, d, e = rng.normal(size=(3, 3))
        if trial % 5 == 0:
            e = d * rng.normal()  # a triangle without area
        found = _nearest_in_triangle(z @ d, z @ e, d @ d, d @ e, e @ e)
        assert min(found) >= 0.0 and sum(found) <= 1.0 + 1e-12
        size = np.sum((z + np.outer(a, d) + np.outer(c, e)) ** 2, axis=1).min()
        assert np.sum((z + found[0] * d + found[1] * e) ** 2) <= size + 1e-9
