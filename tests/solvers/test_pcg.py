"""Conjugate gradients in the primal: products alone, any smooth loss, functions that nothing penalises, early stops."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cases import KERNEL_CASES, verdict_on
from maxmargin import SVC
from maxmargin.formulations import CSVC, EpsilonSVR, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram, NearGram, near_or_not
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import PCG, solve
from maxmargin.solvers.parts.kernel_risk import KernelRisk

FORMULATIONS = [
    CSVC(C=1.5, loss="squared_hinge"),
    CSVC(C=0.3, loss="huber", huber_delta=0.5),
    CSVC(C=1.0, loss="huber", huber_delta=0.05),
    EpsilonSVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive"),
    EpsilonSVR(C=3.0, loss="huber", huber_delta=0.1),
    EpsilonSVR(C=3.0, loss="squared_error"),
]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
preconditioned = pytest.mark.parametrize("preconditioner", ["kernel", "partial-cholesky"])


def machine(formulation, n=150, functions=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.4 * rng.normal(size=n)
    y = np.where(score > 0, 1.0, -1.0) if isinstance(formulation, CSVC) else score
    phi = np.array([X[:, 0], 100.0 * X[:, 1] ** 2])[:functions].reshape(functions, n)
    weight = rng.choice([0.5, 1.0, 3.0], n)
    return SemiParametric(formulation, phi).qp(Samples(KernelGram(KERNEL_CASES["rbf"], X).wide(), y, weight))


@preconditioned
@every_formulation
@pytest.mark.parametrize("functions", [0, 2])
def test_optimum(formulation, preconditioner, functions):
    qp = machine(formulation, functions=functions)
    best = verdict_on(qp)
    found = solve(qp, PCG(preconditioner=preconditioner), tol=1e-5)
    assert found.status is Status.CONVERGED
    assert found.certificate.violation <= 1e-5
    assert found.certificate.infeasibility < 1e-9
    assert qp.objective(found.beta) == pytest.approx(best.objective, rel=1e-7, abs=1e-7)


def test_products_alone():
    """Never a block or a row, but for the preconditioner; one product a step."""
    qp = machine(CSVC(C=1.0, loss="squared_hinge"))
    K = qp.primal.K.dense()

    class Products(type(qp.primal.K).__mro__[1]):
        n, dtype, threads, products = len(K), np.dtype(float), 1, 0

        def __init__(self):
            self.cost = qp.primal.K.cost

        def combine(self, index, coef, at=None, exact=True):
            type(self).products += 1
            return coef @ (K[index] if at is None else K[np.ix_(index, at)])

        def take(self, index):
            raise AssertionError("a part was asked for")

        def diag(self):
            return K.diagonal().copy()

        def rows(self, index, out=None, slots=None):
            raise AssertionError("a row was asked for")

        block = rows

    alone = replace(qp.primal, K=Products()).qp()
    found = solve(alone, PCG(), tol=1e-4)
    assert found.status is Status.CONVERGED
    assert Products.products <= found.n_iter + 8
    assert found.certificate.dual == pytest.approx(solve(qp, PCG(), tol=1e-4).certificate.dual, rel=1e-6)


def test_gradients_of_f_and_not_of_the_coefficients():
    """PRIMAL §6.1: preconditioning by K is what makes it work."""
    qp = machine(CSVC(C=10.0, loss="squared_hinge"), n=300)
    after = {
        kind: solve(qp, PCG(preconditioner=kind), tol=1e-9, max_iter=10).certificate.primal
        for kind in ("kernel", "none")
    }
    best = -verdict_on(qp).objective
    assert best <= after["kernel"] * (1 + 1e-9)
    assert after["kernel"] - best < 0.5 * (after["none"] - best)


def test_each_step_is_proven():
    """The bounds that a monitor sees close in on the optimum from both sides."""
    qp = machine(CSVC(C=1.0, loss="squared_hinge"))
    best = verdict_on(qp)
    found = PCG(trace=True).solve(qp, Goal(violation=1e-6))
    lower, upper = -found.history.column("objective")[:-1], found.history.column("primal")[:-1]
    assert (lower <= -best.objective + 1e-6).all() and (upper >= -best.objective - 1e-6).all()
    assert (np.diff(lower) >= 0).all() and (np.diff(upper) <= 0).all()
    beta, eta = found.history.trace["beta"], found.history.trace["eta"]
    assert beta.shape == (len(eta), qp.n)
    assert -qp.objective(beta[-1]) == pytest.approx(found.certificate.dual, rel=1e-6)


def test_early_stops_leave_a_certified_model():
    qp = machine(CSVC(C=10.0, loss="squared_hinge"), n=300)
    best = verdict_on(qp)
    fine = Goal(gap=1e-12)
    stops = {
        Status.MAX_ITERATIONS: lambda: PCG().solve(qp, Goal(gap=1e-12, max_iter=3)),
        Status.TIME_LIMIT: lambda: PCG().solve(qp, fine, None, Monitor(1e-9)),
        Status.CALLBACK: lambda: PCG().solve(qp, fine, None, Monitor(callback=lambda step: step["iteration"] >= 2)),
    }
    for status, run in stops.items():
        found = run()
        assert found.status is status
        assert found.certificate.dual <= -best.objective + 1e-6
        assert found.certificate.primal >= -best.objective - 1e-6
        assert found.certificate.infeasibility < 1e-9
    assert stops[Status.MAX_ITERATIONS]().n_iter == 3


def test_a_solution_as_a_start_leaves_nothing_to_do():
    qp = machine(CSVC(C=1.0, loss="squared_hinge"))
    cold = solve(qp, "pcg", tol=1e-6)
    assert solve(qp, "pcg", start=cold.beta, tol=1e-4).n_iter <= 2


def test_what_it_does_not_take():
    qp = machine(CSVC(C=1.0))
    with pytest.raises(ValueError, match='pcg was asked for; found the loss Hinge, which has corners; use "newton"'):
        solve(qp, "pcg")
    with pytest.raises(ValueError, match="preconditioner='K' was asked for; found kernel, .*; choose one"):
        PCG(preconditioner="K")


@pytest.mark.parametrize("far", [-1e3, -10.0, 0.0, 10.0, 1e3])
def test_a_bias_for_which_all_losses_are_lines(far):
    """The minimum over the bias is found from where no loss is curved, nor next to being so."""
    qp = machine(CSVC(C=2.0, loss="huber", huber_delta=0.05))
    risk, none = KernelRisk.of(qp), np.zeros(1)
    step = risk.lowest(qp.p + far, qp.A.T, none, none, 1.0)
    asked = risk.asked(qp.p + far + step[0])
    assert abs(asked.sum()) <= 1e-9 * np.abs(asked).sum()


def test_a_slope_that_is_rounding_is_not_searched_along(monkeypatch):
    """With as many of one class as of the other, the bias is where it belongs before the first step."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    cost = np.random.default_rng(1).uniform(0.1, 1.0, 200)
    samples = Samples(KernelGram(Kernel("rbf", 0.5), X, 1), np.repeat([-1.0, 1.0], 200), np.tile(cost, 2))
    qp = CSVC(C=1.0, loss="squared_hinge").qp(samples)
    risk, none, asked = KernelRisk.of(qp), np.zeros(1), []
    found = KernelRisk.asked
    monkeypatch.setattr(KernelRisk, "asked", lambda risk, s: asked.append(None) or found(risk, s))
    step = risk.lowest(qp.p + 1e-14, qp.A.T, none, none, 1.0)
    assert len(asked) == 1 and abs(step[0]) < 1e-12


@pytest.mark.parametrize("C", [1e3, 1e5])
@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_a_large_cost_is_proven(C, loss):
    """Algorithm 2 takes steps like the root of C; Newton's on the same products end what crawls."""
    qp = machine(CSVC(C=C, loss=loss, huber_delta=0.1), n=300)
    alone = solve(qp, PCG(newton_after=-1), tol=1e-3, max_iter=400)
    assert alone.status is Status.MAX_ITERATIONS
    found = solve(qp, PCG(), tol=1e-3, max_iter=400)
    assert found.status is Status.CONVERGED
    assert qp.objective(found.beta) == pytest.approx(verdict_on(qp).objective, rel=1e-6)


def test_products_of_their_own_are_kept_where_equal_points_are_one():
    """Neither a sparse matrix nor a transform is replaced by kernel values between all points."""
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(size=(4000, 2)), 2)
    X = np.concatenate([X, X])
    y = np.where(np.sin(9 * X[:, 0]) + 0.2 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    gram = near_or_not(KernelGram(Kernel("wendland", gamma=400.0), X))
    assert isinstance(gram, NearGram)
    found = solve(CSVC(C=1.0, loss="squared_hinge").qp(Samples(gram, y, np.ones(len(y)))), "pcg")
    assert found.status is Status.CONVERGED
    assert found.kernel_evals < 60 * (found.n_iter + 10) * len(X)


@pytest.mark.parametrize("solver", ["pcg", "newton"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed", "function"])
def test_a_callback_sees_the_model_and_its_score_is_kept(solver, kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300) > 0, "b", "a")

    def values(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    A, T = X[:200], X[200:]
    if kernel == "precomputed":
        A, T = values(A, A), values(T, A)
    seen = []

    def score(step):
        seen.append(step["model"](T))
        step["score"] = np.mean((seen[-1] > 0) == (y[200:] == "b"))

    model = SVC(
        C=3.0, kernel=values if kernel == "function" else kernel, gamma=1.0, loss="squared_hinge", solver=solver,
        callback=score, tol=1e-8, parametric=None if kernel == "precomputed" else lambda X: X[:, :1],
    ).fit(A, y[:200])  # fmt: skip
    scores = model.history_.trace["score"]
    assert scores.shape == (len(seen), 2)
    assert scores[-1, 1] == pytest.approx(model.score(T, y[200:]), abs=1e-12)
    np.testing.assert_allclose(seen[-1], model.decision_function(T), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_a_stop_near_the_end_leaves_the_function_that_proves_most(loss):
    """What the losses ask for was returned, which at a gap of 0.001 on the way could be half of the objective away."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 3))
    y = np.where(np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1] * X[:, 2]) > 0.6, 1, -1)

    def near(step):
        return step.get("primal", 0) > 0 and step["primal"] + step["objective"] <= 1e-3 * step["primal"]

    machine = SVC(C=100.0, kernel="wendland", gamma=4.0, loss=loss, solver="pcg", callback=near)
    with pytest.warns(ConvergenceWarning):
        machine.fit(X, y)
    assert machine.status_ is Status.CALLBACK
    assert machine.certificate_.relative_gap <= 0.02
