"""Data that people have and papers have not: constant, equal, few, separable, indefinite, with C of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import EVERYTHING_LARGE, GENERAL_SOLVERS, VARIANTS, make_data, verdict_on, with_sizes
from maxmargin.formulations import CSVC, SVDD, EpsilonSVR, NuSVC, OneClass, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import solve
from referee import naive_kernel

every_solver = pytest.mark.parametrize("solver", GENERAL_SOLVERS)
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def check_optimum(qp, plain, solver, tol=1e-6, rel=1e-6):
    best = verdict_on(plain)
    solution = solve(qp, solver, tol=tol)
    assert solution.status is Status.CONVERGED
    scale = max(1.0, np.abs(solution.beta).sum())
    assert solution.certificate.infeasibility < 1e-9 * scale
    assert plain.objective(solution.beta) == pytest.approx(best.objective, rel=rel, abs=rel)
    return solution


def problems(formulation, kernel, X, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    K = naive_kernel(kernel.name, X, gamma=kernel.gamma, coef0=kernel.coef0, degree=kernel.degree)
    return (
        formulation.qp(Samples(KernelGram(kernel, X), y, weight)),
        formulation.qp(Samples(PrecomputedGram(K), y, weight)),
    )


@every_solver
@every_variant
@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("linear")], ids=["rbf", "linear"])
def test_constant_features(solver, variant, kernel):
    data = make_data("plain")
    X = np.column_stack([np.full(60, 3.0), data.X[:, 0], np.zeros(60)])
    check_optimum(*problems(variant.formulation, kernel, X, variant.targets(data)), solver)


@every_solver
@every_variant
@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("linear")], ids=["rbf", "linear"])
def test_all_points_equal(solver, variant, kernel):
    data = make_data("plain")
    check_optimum(*problems(variant.formulation, kernel, np.ones((60, 2)), variant.targets(data)), solver)


@every_solver
@every_variant
def test_all_points_zero_in_a_linear_machine(solver, variant):
    data = make_data("plain")
    check_optimum(*problems(variant.formulation, Kernel("linear"), np.zeros((60, 2)), variant.targets(data)), solver)


@every_solver
@pytest.mark.parametrize(
    "formulation", [CSVC(), CSVC(loss="squared_hinge"), CSVC(loss="huber"), NuSVC(), CSVC(fit_intercept=False)], ids=str
)
def test_one_point_a_class(solver, formulation):
    X, y = np.array([[0.0], [2.0]]), np.array([-1.0, 1.0])
    check_optimum(*problems(formulation, Kernel("linear"), X, y), solver, tol=1e-9)


def test_one_point_a_class_by_hand():
    """The widest margin between 0 and 2 is f = x − 1, with both coefficients 1/2."""
    qp, _ = problems(CSVC(C=10.0), Kernel("linear"), np.array([[0.0], [2.0]]), np.array([-1.0, 1.0]))
    solution = solve(qp, "smo", tol=1e-9)
    np.testing.assert_allclose(solution.beta, [-0.5, 0.5])
    np.testing.assert_allclose(solution.multipliers, [-1.0])
    assert solution.certificate.gap == pytest.approx(0.0, abs=1e-9)


@every_solver
@pytest.mark.parametrize("formulation", [OneClass(), SVDD(), EpsilonSVR()], ids=str)
def test_a_single_point(solver, formulation):
    solution = check_optimum(*problems(formulation, Kernel("rbf"), np.array([[1.0, 2.0]]), np.array([0.7])), solver)
    assert solution.beta.shape == (1,)


@every_solver
@pytest.mark.parametrize("y", [np.ones(5), -np.ones(5)], ids=["all positive", "all negative"])
def test_one_class_only(solver, y):
    """No coefficient can move; the bias alone puts every point on its side."""
    qp, _ = problems(CSVC(), Kernel("rbf"), np.arange(5.0)[:, None], y)
    solution = solve(qp, solver)
    assert solution.status is Status.CONVERGED
    np.testing.assert_array_equal(solution.beta, np.zeros(5))
    assert solution.certificate.gap == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(solution.multipliers, y[:1])


@every_solver
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.5), Kernel("linear")], ids=["rbf", "linear"])
def test_huge_cost_of_separable_data(solver, loss, kernel):
    data = make_data("plain")
    y = np.where(data.X[:, 0] > 0, 1.0, -1.0)
    X = data.X + np.outer(y, [0.5, 0.0, 0.0, 0.0])
    qp, plain = problems(CSVC(C=1e10, loss=loss), kernel, X, y)
    capped, _ = problems(CSVC(C=1e4, loss="hinge"), kernel, X, y)
    best = verdict_on(problems(CSVC(C=1e4, loss="hinge"), kernel, X, y)[1])
    assert np.abs(best.beta).max() < 1e3  # no coefficient is at a bound: a larger C changes nothing
    solution = solve(qp, solver, tol=1e-6)
    assert solution.status is Status.CONVERGED
    delta = 0.5 if loss == "huber" else 0.0
    assert plain.objective(solution.beta) == pytest.approx((1 + delta) ** 2 * best.objective, rel=1e-4)


@every_solver
@pytest.mark.parametrize("loss", ["hinge", "huber"])
def test_huge_cost_of_contradictory_data(solver, loss):
    """Equal points with different labels have coefficients at any bound, however far."""
    X, y = np.array([[0.0], [0.0], [1.0], [3.0]]), np.array([1.0, -1.0, -1.0, 1.0])
    qp, _ = problems(CSVC(C=1e10, loss=loss), Kernel("rbf", 0.5), X, y)
    solution = solve(qp, solver)
    assert solution.status is Status.CONVERGED
    # Slopes are known to 1e10 · 2⁻⁵³ = 1e-6, which C turns into 1e4 of an objective of 2e10.
    assert solution.certificate.relative_gap < 1e-6
    assert solution.certificate.infeasibility <= 1e-5  # of sums of 1e10


@every_solver
@pytest.mark.parametrize("C", [1e-10, 1e-5])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_tiny_cost(solver, C, loss):
    data = make_data("plain")
    qp, plain = problems(CSVC(C=C, loss=loss), Kernel("rbf", 0.5), data.X, data.labels)
    solution = solve(qp, solver)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap < 1e-3
    if loss == "hinge":  # equal classes: all coefficients at their bounds
        np.testing.assert_allclose(np.abs(solution.beta), C, rtol=1e-3)


@every_solver
@pytest.mark.parametrize("spread", [1e-8, 1e-4, 1e4, 1e8])
def test_targets_of_any_size(solver, spread):
    data = make_data("plain")
    qp, plain = problems(EpsilonSVR(C=spread, epsilon=0.1 * spread), Kernel("rbf", 0.5), data.X, spread * data.values)
    best = verdict_on(problems(EpsilonSVR(C=1.0, epsilon=0.1), Kernel("rbf", 0.5), data.X, data.values)[1])
    solution = solve(qp, solver, tol=1e-6 * spread)
    assert solution.status is Status.CONVERGED
    assert plain.objective(solution.beta) == pytest.approx(best.objective * spread**2, rel=1e-5)


@every_solver
@every_variant
@pytest.mark.parametrize("large", [False, True])
def test_indefinite_kernels_come_to_an_end(solver, variant, large):
    """Without a proof, but with a feasible β and without hanging, even where there is no minimum at all."""
    options = with_sizes(solver, EVERYTHING_LARGE) if large else {}
    data = make_data("plain")
    kernel = Kernel("sigmoid", gamma=1.0, coef0=-1.0)
    K = naive_kernel("sigmoid", data.X, gamma=1.0, coef0=-1.0)
    assert np.linalg.eigvalsh(K)[0] < -1.0
    qp, plain = problems(variant.formulation, kernel, data.X, variant.targets(data))
    solution = solve(qp, solver, monitor=Monitor(time_limit=60.0), **options)
    if np.isinf(qp.upper).any():  # a squared loss does not bound its coefficients
        assert solution.status is Status.UNBOUNDED
    else:
        assert solution.status in (Status.CONVERGED, Status.STALLED)
    assert np.isfinite(solution.beta).all()
    assert plain.infeasibility(solution.beta) < 1e-6 * max(1.0, np.abs(solution.beta).sum())


@every_solver
def test_negative_definite_matrix(solver):
    """The extreme case: every step leads to a corner."""
    rng = np.random.default_rng(0)
    qp = QP(-np.eye(30), rng.normal(size=30), -1.0, 1.0, np.ones((1, 30)), [0.0])
    solution = solve(qp, solver, monitor=Monitor(time_limit=60.0))
    assert solution.status in (Status.CONVERGED, Status.STALLED)
    assert solution.certificate.infeasibility < 1e-12


@every_solver
@every_variant
def test_zero_matrix(solver, variant):
    """A linear program in a box, or a problem whose only curvature is that of its squared loss."""
    data = make_data("plain")
    plain = variant.formulation.qp(Samples(PrecomputedGram(np.zeros((60, 60))), variant.targets(data), data.weight))
    check_optimum(plain, plain, solver)


@every_solver
@every_variant
def test_features_of_very_different_size(solver, variant):
    data = make_data("plain")
    X = data.X * [1.0, 1e3, 1e-3, 1e5]
    check_optimum(*problems(variant.formulation, Kernel("rbf", 1e-4), X, variant.targets(data)), solver, rel=1e-5)


@every_solver
def test_unscaled_linear_problem(solver):
    data = make_data("plain")
    X = 100.0 * data.X[:, :2] + 1000.0
    y = np.where(X[:, 0] > 1000.0, 1.0, -1.0)
    qp, plain = problems(CSVC(C=1e-4), Kernel("linear"), X, y)
    check_optimum(qp, plain, solver, tol=1e-5, rel=1e-5)


@given(seed=st.integers(0, 10**6), solver=st.sampled_from(GENERAL_SOLVERS), variant=st.sampled_from(VARIANTS))
@settings(max_examples=60)
def test_small_random_problems(seed, solver, variant):
    """Few points on a coarse grid: ties, duplicates, empty classes' neighbours, coefficients at every kind of bound."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    X = rng.integers(0, 3, (n, 2)).astype(float)
    labels = np.where(np.arange(n) % 2, 1.0, -1.0)
    values = rng.integers(-2, 3, n).astype(float)
    weight = rng.choice([0.5, 1.0, 2.0], n)
    y = labels if variant.name in ("c_svc", "nu_svc") else values
    if variant.name == "nu_svc":
        weight = np.ones(n)  # with weights ν could be infeasible
    formulation = SVDD(nu=0.5) if variant.name == "svdd" else variant.formulation
    kernel = [Kernel("rbf", 0.5), Kernel("linear"), Kernel("poly", 0.5, 1.0, 2)][int(rng.integers(3))]
    check_optimum(*problems(formulation, kernel, X, y, weight), solver)
