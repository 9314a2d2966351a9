"""How solvers end: never worse than where they started, and where numbers leave no room."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from cases import VARIANTS, fast_problem, make_data, skip_unless_takes
from maxmargin import SVC, SVR, LinearSVR
from maxmargin.decisions import pair_weights
from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored, PrecomputedGram
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Certificate, Status
from maxmargin.solvers import SOLVERS, solve
from maxmargin.solvers.base import run
from maxmargin.solvers.parts import newton_finish as last_step
from maxmargin.solvers.parts.fixed_sums import Groups
from maxmargin.solvers.parts.newton_finish import newton_finish

FROM_NOTHING = [v for v in VARIANTS if hasattr(v.formulation, "erm")]  # β = 0 is feasible

every_solver = pytest.mark.parametrize("solver", list(SOLVERS))


def stopping(after: int = 1) -> Monitor:
    """A monitor that stops a solver when it reports for that time."""
    calls = []
    return Monitor(callback=lambda step: calls.append(step) or len(calls) >= after)


def features(seed: int = 0) -> tuple[Factored, np.ndarray]:
    """Features of unequal size, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [1.0, 10.0, 300.0]
    return Factored(X), np.where(X[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0)


@every_solver
@pytest.mark.parametrize("variant", FROM_NOTHING, ids=str)
def test_no_coefficients_are_not_better_than_what_an_early_stop_leaves(variant, solver):
    qp = fast_problem(variant, "rbf", make_data("plain"))
    skip_unless_takes(solver, qp)
    found = solve(qp, solver, monitor=stopping(2), tol=1e-9)
    assert found.certificate.dual >= 0.0
    assert found.history.column("objective")[-1] == -found.certificate.dual


@every_solver
@pytest.mark.parametrize("loss", ["squared_hinge", "huber", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_nor_where_there_are_features(after, loss, solver):
    Z, y = features()
    kind = EpsilonSVR if "epsilon" in loss else CSVC
    qp = kind(C=100.0, loss=loss).qp(Samples(Z, y, np.ones(len(y))))
    skip_unless_takes(solver, qp)
    found = solve(qp, solver, monitor=stopping(after), tol=1e-9)
    assert found.certificate.dual >= 0.0
    np.testing.assert_allclose(found.w, Z.pulled(found.beta), rtol=0, atol=1e-6 * np.abs(found.w).max())


class Overshooting:
    """A solver that is told where to stop: as many times too far."""

    form = QP

    def __init__(self, times: float) -> None:
        self.times = times

    def solve(self, qp, goal, start, monitor):
        """The optimum of a problem without bounds and constraints, that many times."""
        best = solve(qp, "mpd", tol=1e-10)
        return replace(best, beta=self.times * best.beta, status=Status.CALLBACK)


def plain_qp() -> QP:
    """A problem whose bounds are far away."""
    rng = np.random.default_rng(1)
    B = rng.normal(size=(6, 6))
    return QP(B @ B.T + np.eye(6), rng.normal(size=6), np.full(6, -1e6), np.full(6, 1e6))


def test_what_went_too_far_goes_back_to_the_best_point_on_its_way():
    """Coefficients that are right but for their size are found again: the objective is a parabola along them."""
    qp = plain_qp()
    best = solve(qp, "mpd", tol=1e-10)
    found = run(Overshooting(5.0), qp, Goal(violation=1e-12), None, Monitor())
    np.testing.assert_allclose(found.beta, best.beta, rtol=1e-7)
    short = run(Overshooting(0.5), qp, Goal(violation=1e-12), None, Monitor())
    np.testing.assert_array_equal(short.beta, 0.5 * best.beta)  # better than nothing: it stays


def test_what_is_worse_than_its_start_ends_no_worse():
    qp = plain_qp()
    start = 0.7 * solve(qp, "mpd", tol=1e-10).beta + 0.01
    monitor = Monitor()
    found = run(Overshooting(1.9), qp, Goal(violation=1e-12), start, monitor)  # better than nothing, not than this
    assert found.certificate.dual >= -qp.objective(start)
    assert found.status is Status.CALLBACK
    assert monitor.history.column("objective")[-1] == -found.certificate.dual


def test_weights_are_those_of_the_coefficients_that_were_asked_for():
    """The first interior point has coefficients, and no weights yet."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)) + 5.0, np.arange(60) % 3
    with pytest.warns(ConvergenceWarning):
        model = SVC(kernel="linear", C=50.0, solver="interior-point", loss="squared_hinge", callback=lambda step: True)
        model.fit(X, y)
    model.decision_function_shape = "ovo"
    W = pair_weights(model.dual_coef_, model.n_support_, model.support_vectors_)
    np.testing.assert_allclose(model.coef_, W, atol=1e-9 * np.abs(W).max(initial=1.0))
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("idle, violation, preferred", [(1e12, 1e-5, True), (1e12, 0.1, False), (1.0, 1e-5, False)])
def test_where_objectives_are_nothing_violations_tell_answers_apart(idle, violation, preferred):
    """Gaps of 1e-5 and 1e-4 are both rounding where nothing cancelling would make 1e12 of them."""
    one = Certificate(1e-5, -1e-12, 1e-5, 0.01, 0.0, idle)
    other = Certificate(1e-4, -1e-12, 1e-4, violation, 0.0, idle)
    assert Goal(violation=1e-6).prefers(other, one) is preferred
    assert Goal(violation=1.0).prefers(other, one)  # it proves what is asked


def test_as_many_constraints_as_free_variables_leave_nothing_to_solve():
    """The matrix of two points has rank one but for rounding, and the sum of each is fixed."""
    small, mixed, large = (
        float.fromhex(x) for x in ("0x1.57109e4112c8cp-28", "0x1.4f063a8b8c581p-21", "0x1.472c152c470e0p-14")
    )
    H = np.array([[small, mixed], [mixed, large]])  # a pivot of 10⁻⁶ times the other is left of it, from rounding
    A = np.array([[1.0, 1.0], [1.0, -1.0]])
    qp = QP(PrecomputedGram(H), np.zeros(2), np.array([0.0, -1.0]), np.array([1.0, 0.0]), A, np.array([0.0, 1.0]))
    beta = np.array([0.5, -0.5])
    found = newton_finish(qp.H, qp, Groups.of(qp), beta, -qp.times(beta), 10, lambda: None)
    np.testing.assert_allclose(found, beta, rtol=1e-12)


def test_the_last_step_does_not_go_round_in_circles(monkeypatch):
    """A variable that wants to move, but not together with the others, was set free and held again sixty times."""
    solved, step = [], last_step._newton_step
    monkeypatch.setattr(last_step, "_newton_step", lambda *system: solved.append(1) or step(*system))
    X, y = load_diabetes(return_X_y=True)
    model = SVR().fit(StandardScaler().fit_transform(X), (y - y.mean()) / y.std())
    assert model.status_.converged and model.certificate_.relative_gap < 1e-3
    assert 1 <= len(solved) <= 10


def test_weights_of_unequal_features_are_found_where_there_are_more_of_them_than_samples():
    """Sums of coefficients times rows of size 10⁶ are not exact enough to prove how good they are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10, 16)) * np.geomspace(1e-6, 1e6, 16) + 100.0
    y = rng.normal(size=10)
    model = LinearSVR(epsilon=0.0, C=3.0, fit_intercept=False, solver="interior-point").fit(X, y)
    assert model.status_.converged


def test_the_last_step_looks_at_the_clock_and_leaves_large_singular_systems():
    """Of 300 free variables with a matrix of rank 3 eigenvectors would take as long as a factor of 900."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(300, 3))
    H, p, box = G @ G.T, G @ rng.normal(size=3) + 1e-3 * rng.normal(size=300), np.full(300, 1e3)
    qp = QP(PrecomputedGram(H), p, -box, box)
    groups, beta = Groups.of(qp), rng.uniform(-1.0, 1.0, 300)
    v = -(qp.times(beta) + p)
    better = newton_finish(qp.H, qp, groups, beta, v, 900, lambda: None)
    assert better is not None
    assert qp.objective(better) < qp.objective(beta)
    assert newton_finish(qp.H, qp, groups, beta, v, 899, lambda: None) is None
    looks = iter([None, None, Status.TIME_LIMIT])
    assert newton_finish(qp.H, qp, groups, beta, v, 900, lambda: next(looks)) is None
