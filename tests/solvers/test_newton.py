"""Newton on w: explicit Hessian or products, dense, sparse or far rows, free and penalised parameters."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from cases import verdict_on
from maxmargin import LinearSVC
from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored, Shifted
from maxmargin.losses import Hinge
from maxmargin.monitor import Monitor
from maxmargin.problem import ERM, QP
from maxmargin.solution import Status
from maxmargin.solvers import Newton, solve

FORMULATIONS = [
    CSVC(C=1.5, loss="squared_hinge"),
    CSVC(C=0.3, loss="huber", huber_delta=0.5),
    CSVC(C=2.0, loss="huber", huber_delta=0.01),
    EpsilonSVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive"),
]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
either_hessian = pytest.mark.parametrize("explicit", [1000, 0], ids=["matrix", "products"])


def sample(n=90, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0.0)
    return X, np.where(X @ rng.normal(size=d) + 0.4 + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def both_views(X, y, formulation, weight=None):
    gram, weight = Factored(X), np.ones(len(y)) if weight is None else weight
    return formulation.erm(Samples(gram, y, weight)), formulation.qp(Samples(gram, y, weight))


def check_optimum(solution, erm, qp, tol):
    best = verdict_on(qp)
    scale = max(1.0, abs(best.objective))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= tol
    assert solution.certificate.primal == pytest.approx(-best.objective, abs=(tol + 1e-7) * scale)
    assert solution.certificate.infeasibility < 1e-9
    assert qp.infeasibility(solution.beta) == solution.certificate.infeasibility


@either_hessian
@every_formulation
@pytest.mark.parametrize("kind", ["dense", "float32", "csr", "parts", "map"])
def test_optimum(kind, formulation, explicit, tmp_path):
    X, y = sample()
    weight = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    np.save(tmp_path / "X.npy", X)
    forms = {
        "dense": X,
        "float32": X.astype(np.float32),
        "csr": sp.csr_array(X),
        "parts": [X[:20], sp.csr_array(X[20:])],
        "map": np.load(tmp_path / "X.npy", mmap_mode="r"),
    }
    erm, qp = both_views(forms[kind], y, formulation, weight)
    solution = Newton(explicit=explicit).solve(erm, Goal(gap=1e-9))
    check_optimum(solution, erm, qp, 1e-9)
    # Stationary: w = Zᵀβ and the multipliers of the QP are the parameters.
    Z = erm.K.Z
    np.testing.assert_allclose(solution.w, Z.t_dot(solution.beta), atol=1e-4)
    s = qp.gradient(solution.beta, solution.multipliers)
    assert qp.violation(solution.beta, s) < 1e-3


@either_hessian
@every_formulation
def test_a_penalised_bias_is_the_last_weight(formulation, explicit):
    from dataclasses import replace

    X, y = sample()
    formulation = replace(formulation, fit_intercept=False)
    gram, wider = Shifted(Factored(X), 4.0), Factored(np.column_stack([X, np.full(len(y), 2.0)]))
    one = np.ones(len(y))
    solution = Newton(explicit=explicit).solve(formulation.erm(Samples(gram, y, one)), Goal(gap=1e-10))
    other = Newton(explicit=explicit).solve(formulation.erm(Samples(wider, y, one)), Goal(gap=1e-10))
    assert len(solution.multipliers) == 0
    np.testing.assert_allclose(solution.w, other.w, atol=1e-4)
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-9)
    assert solution.certificate.relative_gap < 1e-10


@either_hessian
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_parametric_functions_are_not_penalised(explicit, fit_intercept):
    """Functions of very different size; one that no row sees."""
    X, _ = sample(120, 4)
    t = np.linspace(0, 10, 120)
    y = np.sin(t) + 0.01 * t + 0.3 * X[:, 0]
    phi = np.vstack([100 * np.sin(t), 1e-3 * t] + ([np.ones(120)] if fit_intercept else []))
    base = EpsilonSVR(C=5.0, epsilon=0.01, loss="squared_epsilon_insensitive", fit_intercept=False)
    erm, qp = both_views(X, y, base)
    erm = ERM(erm.K, erm.y, erm.cost, erm.loss, phi)
    qp = type(qp)(qp.H, qp.p, qp.lower, qp.upper, phi, np.zeros(len(phi)), qp.eps)
    solution = Newton(explicit=explicit).solve(erm, Goal(gap=1e-9))
    check_optimum(solution, erm, qp, 1e-9)
    assert solution.multipliers[0] == pytest.approx(0.01, abs=1e-3)
    assert solution.multipliers[1] == pytest.approx(10.0, abs=3.0)


def test_a_handful_of_steps():
    """PRIMAL §5.1: seven on Adult. 0/1 rows with noisy labels, far more rows than features."""
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 60)) < 0.12).astype(float)
    y = np.where(X @ rng.normal(size=60) + rng.normal(size=3000) > 0.2, 1.0, -1.0)
    erm, _ = both_views(sp.csr_array(X), y, CSVC(loss="squared_hinge"))
    solution = Newton(growing=False).solve(erm, Goal(gap=1e-10))
    assert solution.status is Status.CONVERGED
    assert solution.n_iter <= 8
    primal = solution.history.column("primal")
    assert len(primal) == solution.n_iter + 1
    assert (np.diff(primal) <= 0).all() and primal[-1] < primal[0]


@either_hessian
@every_formulation
def test_a_start_from_less_is_a_start_only(formulation, explicit):
    """A sample, or sweeps on the dual: fewer steps, the same optimum."""
    X, y = sample(400, 8)
    erm, qp = both_views(sp.csr_array(X), y, formulation)
    grown = Newton(explicit=explicit, sample_from=50).solve(erm, Goal(gap=1e-9))
    plain = Newton(explicit=explicit, growing=False).solve(erm, Goal(gap=1e-9))
    check_optimum(grown, erm, qp, 1e-9)
    check_optimum(plain, erm, qp, 1e-9)
    if formulation.loss.startswith("squared"):  # a narrow Huber hinge has too few curved rows in a sample of fifty
        assert grown.n_iter <= plain.n_iter


@every_formulation
def test_a_start_at_the_optimum_is_enough(formulation):
    X, y = sample(300, 8)
    erm, _ = both_views(X, y, formulation)
    fine = Newton().solve(erm, Goal(gap=1e-10))
    again = Newton().solve(erm, Goal(gap=1e-6), fine.beta)
    assert again.status is Status.CONVERGED
    assert again.n_iter < fine.n_iter


def test_objectives_of_conjugate_gradients_are_recorded():
    X, y = sample(200, 30)
    erm, _ = both_views(X, y, CSVC(loss="squared_hinge"))
    solution = Newton(explicit=0, trace=True).solve(erm, Goal(gap=1e-9))
    steps = solution.history.trace["objective"]
    assert len(steps) > solution.n_iter
    assert steps[-1] == pytest.approx(solution.certificate.primal, rel=1e-8)
    assert steps[0] < erm.cost.sum()
    assert "objective" not in Newton(explicit=0).solve(erm, Goal(gap=1e-9)).history.trace


def test_what_it_does_not_take():
    X, y = sample()
    hinge = CSVC().erm(Samples(Factored(X), y, np.ones(len(y))))
    assert isinstance(hinge.loss, Hinge)
    with pytest.raises(ValueError, match='newton was asked for; found features and the loss Hinge, .*; use "sor"'):
        solve(hinge, "newton")
    with pytest.raises(ValueError, match="newton was asked for; found no loss; use"):
        solve(QP(np.eye(2), np.ones(2), -np.ones(2), np.ones(2)), "newton")


@either_hessian
def test_stopped_steps_leave_a_certified_model(explicit):
    X, y = sample(500, 20)
    erm, qp = both_views(X, y, CSVC(C=10.0, loss="squared_hinge"))
    best = verdict_on(qp)
    stops = {
        Status.MAX_ITERATIONS: lambda: Newton(explicit=explicit).solve(erm, Goal(gap=1e-12, max_iter=1)),
        Status.TIME_LIMIT: lambda: Newton(explicit=explicit).solve(erm, Goal(gap=1e-12), None, Monitor(1e-9)),
        Status.CALLBACK: lambda: Newton(explicit=explicit).solve(
            erm, Goal(gap=1e-12), None, Monitor(callback=lambda step: step["iteration"] >= 2)
        ),
    }
    for status, run in stops.items():
        solution = run()
        certificate = solution.certificate
        assert solution.status is status
        assert certificate.dual <= -best.objective + 1e-6
        assert certificate.primal >= -best.objective - 1e-6
        assert certificate.infeasibility < 1e-9


def test_certificate_is_the_problems_own():
    """The solver's w and β, by the formulas."""
    X, y = sample()
    erm, _ = both_views(X, y, CSVC(C=1.5, loss="squared_hinge"))
    solution = Newton().solve(erm, Goal(gap=1e-3))
    w, b, beta = solution.w, solution.multipliers[0], solution.beta
    primal = 0.5 * w @ w + 1.5 * (np.maximum(0.0, 1.0 - y * (X @ w + b)) ** 2).sum()
    dual = (y * beta).sum() - 0.5 * ((X.T @ beta) ** 2).sum() - (beta**2).sum() / (4 * 1.5)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert solution.certificate.dual == pytest.approx(dual, rel=1e-12)
    assert solution.certificate.gap == pytest.approx(primal - dual, rel=1e-6, abs=1e-10)


def test_no_model_is_not_near_enough():
    """Features so small that the objective hardly knows of them still tell classes of equal size apart."""
    X, y = load_iris(return_X_y=True)
    X, y = 1e-5 * (X[:100] - X[:100].mean(axis=0)), y[:100]
    model = LinearSVC(solver="newton").fit(X, y)
    assert model.status_.converged
    assert model.score(X, y) == 1.0
