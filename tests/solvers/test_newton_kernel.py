"""Newton's method with a kernel: every loss, bias, weights and functions; factors and products; windows and samples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from cases import KERNEL_CASES, verdict_on
from maxmargin import SVC, SVR
from maxmargin.formulations import CSVC, EpsilonSVR, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import KernelGram
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import Newton, solve
from maxmargin.solvers.parts.equal_points import EqualPoints
from maxmargin.solvers.parts.kernel_newton import KernelRun

FORMULATIONS = [
    CSVC(C=1.5, loss="squared_hinge"),
    CSVC(C=0.3, loss="huber", huber_delta=0.5),
    CSVC(C=2.0, loss="huber", huber_delta=0.01),
    CSVC(C=2.0, loss="hinge"),
    EpsilonSVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive"),
    EpsilonSVR(C=5.0, epsilon=0.2),
    EpsilonSVR(C=3.0, loss="huber", huber_delta=0.1),
    EpsilonSVR(C=3.0, loss="quantile", quantile=0.8),
    EpsilonSVR(C=3.0, loss="squared_error"),
]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
either_system = pytest.mark.parametrize("direct", [1000, 0], ids=["factor", "products"])


def sample(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.4 * rng.normal(size=n) > 0, 1.0, -1.0), rng


def machine(formulation, n=150, functions=0, weighted=False, kernel="rbf", repeat=1):
    X, y, rng = sample(n)
    X, y = np.tile(X, (repeat, 1)), np.tile(y, repeat)
    y = y if isinstance(formulation, CSVC) else np.sin(X[:, 0]) + 0.1 * np.tile(rng.normal(size=n), repeat) + 1.0
    weight = rng.choice([0.5, 1.0, 3.0], len(y)) if weighted else np.ones(len(y))
    phi = np.array([X[:, 0], 100.0 * X[:, 1] ** 2])[:functions].reshape(functions, len(y))
    return SemiParametric(formulation, phi).qp(Samples(KernelGram(KERNEL_CASES[kernel], X), y, weight))


def check(qp, found, tol=1e-6):
    best = verdict_on(replace(qp, H=qp.H.wide()))
    assert found.status is Status.CONVERGED
    assert found.certificate.violation <= tol
    assert (found.beta >= qp.lower).all() and (found.beta <= qp.upper).all()
    assert found.certificate.infeasibility < 1e-9
    assert qp.objective(found.beta) == pytest.approx(best.objective, rel=1e-7, abs=1e-7)


@either_system
@every_formulation
@pytest.mark.parametrize("functions", [0, 2])
def test_optimum(formulation, direct, functions):
    qp = machine(formulation, functions=functions, weighted=True)
    check(qp, solve(qp, Newton(direct=direct), tol=1e-6))


@either_system
@every_formulation
def test_samples_and_windows_are_a_start_only(formulation, direct):
    """Small problems take the path of large ones: points outside the window are found, and join it."""
    qp = machine(formulation, n=400)
    large = Newton(direct=direct, smallest_sample=40, whole_up_to=0, wide_up_to=0)
    check(qp, solve(qp, large, tol=1e-5), 1e-5)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e7])
def test_from_hardly_any_margin_to_a_hard_one(C):
    qp = machine(CSVC(C=C, loss="squared_hinge"), n=120)
    found = solve(qp, "newton", tol=1e-3, gap=1e-6)
    assert found.status is Status.CONVERGED
    assert found.certificate.relative_gap <= 1e-6


def test_a_hinge_is_proven_to_rounding():
    """The last step is the active set, not a smaller h."""
    qp = machine(CSVC(C=2.0), n=200)
    found = solve(qp, "newton", tol=1e-9)
    assert found.status is Status.CONVERGED
    assert found.certificate.relative_gap < 1e-12


def test_a_handful_of_steps():
    """PRIMAL: no more than five for a squared hinge; here with those of samples and of the line search."""
    qp = machine(CSVC(C=1.0, loss="squared_hinge"), n=800)
    found = solve(qp, Newton(growing=False), tol=1e-6)
    assert found.status is Status.CONVERGED
    assert found.n_iter <= 8
    primal = found.history.column("primal")
    assert primal[-1] < primal[0]


@every_formulation
def test_a_solution_as_a_start_leaves_nothing_to_do(formulation):
    qp = machine(formulation)
    cold = solve(qp, "newton", tol=1e-7)
    warm = solve(qp, "newton", start=cold.beta, tol=1e-5)
    assert warm.status is Status.CONVERGED
    assert warm.n_iter <= max(2, cold.n_iter // 3)


@pytest.mark.parametrize("solver", ["newton", "pcg"])
def test_equal_points_are_one(solver):
    """Copies share their coefficient, and the optimum is that of all of them."""
    qp = machine(CSVC(C=0.5, loss="squared_hinge"), n=60, repeat=3, weighted=True)
    plain = solve(qp, solver, tol=1e-7)
    merged = EqualPoints.found(qp.primal, least=0)
    assert merged is not None and merged.erm.n == 60
    found = solve(qp, solver, tol=1e-7, merge_from=0)
    check(qp, found)
    np.testing.assert_allclose(found.beta, plain.beta, atol=1e-5)
    np.testing.assert_allclose(merged.gather(merged.scatter(merged.gather(found.beta))), merged.gather(found.beta))


@pytest.mark.parametrize("cache_size", [0.05, 0.2, "auto"])
def test_less_memory_than_the_matrix_needs(cache_size):
    """180 kB for the window of 300 points: products are computed each time where that is too much."""
    qp = machine(CSVC(C=1.0, loss="squared_hinge"), n=300)
    check(qp, solve(qp, Newton(cache_size=cache_size), tol=1e-6))


def test_stopped_steps_leave_a_certified_model():
    grows = Newton(smallest_sample=50)
    qp = machine(CSVC(C=10.0, loss="squared_hinge"), n=300)
    best = verdict_on(qp)
    fine = Goal(gap=1e-12)
    stops = {
        Status.MAX_ITERATIONS: lambda: grows.solve(qp, Goal(gap=1e-12, max_iter=1)),
        Status.TIME_LIMIT: lambda: grows.solve(qp, fine, None, Monitor(1e-9)),
        Status.CALLBACK: lambda: grows.solve(qp, fine, None, Monitor(callback=lambda step: step["iteration"] >= 2)),
    }
    for status, run in stops.items():
        found = run()
        assert found.status is status
        assert found.certificate.dual <= -best.objective + 1e-6
        assert found.certificate.primal >= -best.objective - 1e-6
        assert found.certificate.infeasibility < 1e-9


def test_estimators_take_it():
    X, y, rng = sample(200)
    reference = SVC(loss="squared_hinge", tol=1e-6).fit(X, y)
    for solver in ("newton", "pcg"):
        model = SVC(loss="squared_hinge", solver=solver, tol=1e-6).fit(X, y)
        assert model.status_.converged and model.solver_ == solver
        np.testing.assert_allclose(model.decision_function(X), reference.decision_function(X), atol=1e-4)
        curve = SVR(loss="squared_error", solver=solver, tol=1e-6, parametric=lambda X: X[:, :1]).fit(X, X[:, 0])
        assert curve.status_.converged
        assert np.ravel(curve.parametric_coef_)[0] == pytest.approx(1.0, abs=1e-3)


def test_a_kernel_that_is_not_positive_semi_definite_is_left_to_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] * X[:, 1] > 0
    machine = SVC(kernel="sigmoid", C=1e5, gamma=1000.0, solver="newton")
    with pytest.warns(UserWarning):
        model = machine.fit(X, y)
    assert not model.status_.converged
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("h", [0.5, 0.05])
@pytest.mark.parametrize("solver", ["newton", "pcg"])
def test_huber_is_the_papers_loss(solver, h):
    """PRIMAL eq. 4.5, written down once more and minimised by scipy."""
    rng = np.random.default_rng(3)
    X, C = rng.normal(size=(80, 2)), 2.0
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=80) > 0, 1.0, -1.0)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    values, vectors = np.linalg.eigh(K)
    Z = vectors * np.sqrt(np.maximum(values, 0.0))

    def risk(x):
        margin = y * (Z @ x[:-1] + x[-1])
        middle = np.abs(1 - margin) <= h
        loss = np.where(middle, (1 + h - margin) ** 2 / (4 * h), np.maximum(1 - margin, 0.0))
        slope = -y * np.where(middle, (1 + h - margin) / (2 * h), margin < 1)
        gradient = np.append(x[:-1] + C * (Z.T @ slope), C * slope.sum())
        return 0.5 * x[:-1] @ x[:-1] + C * loss.sum(), gradient

    best = minimize(risk, np.zeros(81), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).fun
    model = SVC(C=C, gamma=0.5, loss="huber", huber_delta=h, solver=solver, tol=1e-6).fit(X, y)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-8)
    hinge = SVC(C=C, gamma=0.5, solver="newton", tol=1e-6).fit(X, y)
    assert hinge.certificate_.relative_gap < 1e-6
    assert abs(hinge.certificate_.primal - best) <= C * len(y) * h / 4  # the two losses are nowhere farther apart


def test_values_in_float32_are_refined_before_the_matrix_is_made_anew(monkeypatch):
    """A certificate's values are exact. Steps from there are short, and so is what float32 rounds them by."""
    made = []
    monkeypatch.setattr(KernelRun, "_widen", lambda self: made.append(self))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2500, 3)), np.where(rng.random(2500) < 0.5, 1, -1)
    model = SVC(C=100.0, gamma=0.1, loss="squared_hinge", solver="newton").fit(X, y)
    assert model.status_.converged and not made


def test_conjugate_gradients_that_were_slow_on_a_sample_are_tried_again(monkeypatch):
    """A system of a larger sample may take more products; a factor of it costs the cube of its size."""
    from maxmargin.solvers.parts import kernel_descent

    sizes, plain = [], kernel_descent.projected_cg

    def slow(products, S, *args):
        sizes.append(len(S))
        return replace(plain(products, S, *args), solved=False)

    monkeypatch.setattr(kernel_descent, "projected_cg", slow)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1600, 3)), np.sign(rng.normal(size=1600))
    solver = Newton(direct=20, smallest_sample=100)
    model = SVC(loss="squared_hinge", gamma=0.5, solver=solver).fit(X, y)
    assert model.status_.converged
    assert len(sizes) >= 3
    assert all(b // 15 >= 2 * (a // 15) for a, b in zip(sizes, sizes[1:], strict=False))  # not at each step


def test_a_factor_ends_what_conjugate_gradients_do_not():
    """Costs of all sizes: what they leave of a system is as large as all that is left to do."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 5))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1000)
    weight = 10.0 ** rng.uniform(-4, 4, 1000)
    machine = SVR(loss="squared_epsilon_insensitive", gamma=0.3, epsilon=0.01, solver=Newton(direct=100), tol=1e-2)
    assert machine.fit(X, y, weight).status_ is Status.CONVERGED
