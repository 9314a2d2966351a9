"""Legal input on which a method has nothing to hold on to: every fit ends, with a model and without a crash."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import QP, SVR, LinearSVC, LinearSVR
from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored, as_gram
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import MPD, InteriorPoint
from maxmargin.solvers.parts import purify
from maxmargin.solvers.parts.constraints import Equality
from maxmargin.solvers.parts.purify import polish
from maxmargin.solvers.parts.smoothed_newton import approach
from watchdog import within

HANGS = 180  # seconds: with a cold cache most of them are spent on compiling


def few_positive(n, count=10, seed=0):
    y = -np.ones(n)
    y[np.random.default_rng(seed).permutation(n)[:count]] = 1.0
    return y


def features(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "zero": lambda: np.zeros((n, d)),
        "constant": lambda: np.ones((n, d)),
        "binary": lambda: (rng.random((n, d)) < 0.5).astype(float),
        "copies": lambda: rng.normal(size=(7, d))[rng.integers(0, 7, n)],
        "noise": lambda: rng.normal(size=(n, d)),
    }[kind]()


# -- rounded corners ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 3])
def test_features_that_tell_nothing_of_a_rare_class(seed):
    """w = 0 is best, all rows of the large class sit on their corner: no ρ is so small that they come off it."""
    rng = np.random.default_rng(seed)
    X, y = 100.0 * rng.normal(size=(20_000, 5)), np.zeros(20_000)
    y[rng.permutation(20_000)[:10]] = 1.0
    with within(HANGS):
        machine = LinearSVC(loss="hinge").fit(X, y)
    assert machine.status_ is Status.CONVERGED
    assert machine.certificate_.primal == pytest.approx(20.0, rel=1e-4)
    assert machine.predict(X).max() == 0.0


@pytest.mark.parametrize("C", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("kind", ["zero", "constant", "binary", "copies"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_rows_on_their_corner(loss, kind, C):
    n = 2000
    qp = CSVC(C=C, loss=loss).qp(Samples(Factored(features(kind, n, 2)), few_positive(n), np.ones(n)))
    with within(HANGS):
        solution = InteriorPoint().solve(qp, Goal(gap=1e-4))
    assert solution.certificate.relative_gap <= 1e-4
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("kind", ["zero", "noise"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_targets_that_are_all_the_same(loss, kind):
    """With targets of 0 every term of the objective vanishes at the start."""
    X = features(kind, 2500, 3)
    for value in (0.0, 1e6):
        with within(HANGS):
            machine = LinearSVR(loss=loss, solver="interior-point").fit(X, np.full(2500, value))
        np.testing.assert_allclose(machine.predict(X), value, atol=1e-3 * max(1.0, value))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind, share, C", [("noise", 2, 1e-3), ("noise", 900, 1e3), ("copies", 900, 1e3)])
def test_without_corners_nothing_depends_on_their_size(kind, share, C, fit_intercept):
    """Where a step promises no more than rounding, a smaller ρ changes nothing, and in the end it is a divisor of 0."""
    n = 9000  # the first of two samples
    y = np.where(np.arange(n) % share == 0, 1.0, -1.0)
    qp = CSVC(C=C, loss="huber", fit_intercept=fit_intercept).qp(Samples(Factored(features(kind, n, 3)), y, np.ones(n)))
    with within(HANGS):
        near = approach(qp, as_gram(qp.H).factor(), 1e-5, Monitor())
    assert near.rho > 1e-3 and np.isfinite(near.x).all()
    assert near.gap <= 1e-5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_step_that_is_far_too_long(seed):
    """Where no row of a Huber loss has a curvature yet, a Newton step is too long by orders of magnitude; one that is
    not cut down to where the slope vanishes leads from one side of the valley to the other for ever."""
    n = 9000
    y = np.where(np.arange(n) % 900 == 0, 1.0, -1.0)
    qp = CSVC(C=1e3, loss="huber").qp(Samples(Factored(100.0 * features("noise", n, 3, seed=seed)), y, np.ones(n)))
    objectives = []
    near = approach(qp, as_gram(qp.H).factor(), 1e-4, Monitor(callback=lambda s: objectives.append(s["objective"])))
    assert near.gap <= 1e-4 and near.steps < 40
    assert max(objectives) < 10 * objectives[0]


def test_constraints_that_do_not_hold_are_no_solution():
    """While the bias is 0 the gap alone does not see that Σβ = 0 is violated."""
    n = 2000
    qp = CSVC(C=1.0, loss="squared_hinge").qp(Samples(Factored(np.zeros((n, 1))), few_positive(n), np.ones(n)))
    near = approach(qp, as_gram(qp.H).factor(), 1e-6, Monitor())
    assert abs(near.beta.sum()) < 1e-3 * np.abs(near.beta).sum()


def test_a_start_that_is_the_solution():
    """Its gap is 0: the central path that is followed from there does not begin at the smallest number there is."""
    n = 2000
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    qp = CSVC(C=1.0, loss="huber").qp(Samples(Factored(np.zeros((n, 1))), y, np.ones(n)))
    with within(HANGS):
        solution = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-6), y)
    assert solution.certificate.gap == 0.0 and solution.status is Status.CONVERGED


def test_a_part_without_an_objective():
    """A part of the rows may have an objective of 0, of which no gap is a share."""
    n = 2000
    X, y = np.zeros((n, 1)), few_positive(n)
    qp = EpsilonSVR(C=1.0, epsilon=0.0).qp(Samples(Factored(X), 1e6 * (y + 1.0), np.ones(n)))
    with within(HANGS):
        solution = InteriorPoint().solve(qp, Goal(gap=1e-4))
    assert solution.certificate.relative_gap <= 1e-4


# -- from the interior to the boundary ---------------------------------------------------------------------------


def test_many_free_variables_of_few_features(monkeypatch):
    """Where most rows sit on their corner, the equations of the free ones have the size of the features."""
    sizes = []
    factored = purify.cho_factor

    def watched(M, **options):
        sizes.append(len(M))
        return factored(M, **options)

    monkeypatch.setattr(purify, "cho_factor", watched)
    X, y = features("binary", 2000, 5), few_positive(2000)
    with within(HANGS):
        qp = EpsilonSVR(C=1e5, epsilon=0.0).qp(Samples(Factored(X), y, np.ones(len(y))))
        solution = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-4))
    assert solution.status is Status.CONVERGED and solution.certificate.relative_gap <= 1e-4
    assert sizes and max(sizes) <= 5


def test_free_variables_that_go_round_in_circles(monkeypatch):
    """Variables that are put on their bound, come off it and are put there again are left alone after a while."""
    rounds = []

    def watched(*system, newton=purify._newton):
        rounds[-1] += 1
        return newton(*system)

    def counted(*args, polish=polish):
        rounds.append(0)
        return polish(*args)

    monkeypatch.setattr(purify, "_newton", watched)
    monkeypatch.setattr(purify, "polish", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5))
    y = X @ rng.normal(size=5) + 0.5 * rng.normal(size=1500)
    machine = SVR(kernel="linear", C=100.0, solver="interior-point").fit(X, y)
    assert machine.status_ is Status.CONVERGED
    assert max(rounds) > 3  # they do go round
    assert max(rounds) < 30


def test_polishing_looks_at_the_clock():
    """Before each factorisation: with no time left nothing is begun, and what there is stays as it is."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, 60))
    qp = QP(Z @ Z.T, rng.normal(size=50), -np.ones(50), np.ones(50))
    beta, s = np.zeros(50), qp.p.copy()
    asked = []
    same, _ = polish(as_gram(qp.H), qp, beta, np.zeros(0), s, np.arange(50), lambda: asked.append(1) or True)
    assert len(asked) == 1
    np.testing.assert_array_equal(same, beta)
    better, _ = polish(as_gram(qp.H), qp, beta, np.zeros(0), s, np.arange(50))
    assert qp.objective(better) < qp.objective(beta)


@pytest.mark.parametrize("kind", ["zero", "constant", "binary", "copies", "noise"])
@pytest.mark.parametrize("C", [1.0, 1e4, 1e8])
def test_no_number_overflows_in_the_interior(kind, C):
    """Targets that are all alike or tiny: slacks beside multipliers of 0, Newton steps too long by 1e50."""
    for n in (3, 20):
        X = features(kind, n, 3)
        for y in (np.full(n, 7.3), 1e-8 * np.random.default_rng(n).normal(size=n), X[:, 0].copy()):
            with within(HANGS), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # RuntimeWarnings are errors in all tests
                machine = LinearSVR(C=C, solver="interior-point").fit(1e6 * X if kind == "noise" else X, y)
            assert np.isfinite(machine.certificate_.gap)


# -- features on a scale that hides the penalty --------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e4, 1e8])
@pytest.mark.parametrize("solver", ["auto", "newton", "asvm"])
@pytest.mark.parametrize("n", [2, 3, 20])
def test_features_that_hide_the_penalty(n, solver, C):
    """1e6² C against the 1 of ½‖w‖²: a normal matrix that is singular in floating point is no reason to crash."""
    X = 1e6 * features("noise", n, 3)
    for y in (few_positive(n, 1), few_positive(n, n // 2)):
        with within(HANGS), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine = LinearSVC(C=C, solver=solver).fit(X, y)
        assert np.isfinite(machine.coef_).all() and np.isfinite(machine.certificate_.gap)
        if n < 4 and solver != "asvm":  # which says that rounding stops it
            np.testing.assert_array_equal(machine.predict(X), y)


@pytest.mark.parametrize("value", [7.3, 1e-8, 1e8])
@pytest.mark.parametrize("n", [2, 3, 20])
def test_features_that_hide_the_penalty_of_a_regression(n, value):
    X = 1e6 * features("noise", n, 3)
    for y in (np.full(n, value), value * np.random.default_rng(1).normal(size=n)):
        with within(HANGS), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine = LinearSVR(C=1e8, loss="squared_epsilon_insensitive").fit(X, y)
        assert np.isfinite(machine.coef_).all() and np.isfinite(machine.certificate_.gap)


# -- one variable at a time ----------------------------------------------------------------------------------------


def test_all_coefficients_at_their_bounds_at_once():
    """Targets large against C: no variable violates anything, and yet the constraint does not hold: η has to move."""
    n = 12_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = 1e4 * np.where(X[:, 0] > 0.3, 1.0, -1.0) * (1.0 + rng.random(n))
    with within(HANGS):
        machine = SVR(C=1e-3, gamma=1.0, solver="mpd").fit(X, y)
    assert machine.status_ is Status.CONVERGED
    assert machine.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize("augment", [0.1, 0.0])
@pytest.mark.parametrize("n", [2, 5])
def test_working_sets_without_a_variable(n, augment):
    """The same at β = 0, where each variable for itself would rather stay, with bounded steps and without."""
    qp = QP(np.eye(n), np.linspace(1e-3, 2e-3, n), np.zeros(n), np.ones(n), np.ones((1, n)), [1.0])
    with within(HANGS):
        solution = MPD(working_set=1, hessian="full", augment=augment).solve(qp)
    assert solution.certificate.infeasibility < 1e-12
    assert solution.certificate.violation <= 1e-3


def test_dual_steps_that_diverge():
    """As published, without a bound on its steps, the method may diverge: it ends with numbers all the same."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        n = 4
        Z = 1e3 * rng.normal(size=(n, 2))
        A = rng.normal(size=(2, n))
        qp = QP(Z @ Z.T, rng.normal(size=n), -0.01 * np.ones(n), np.full(n, np.inf), A, A @ np.ones(n))
        with within(HANGS):
            solution = MPD(hessian="diagonal", augment=0.0).solve(qp, Goal(violation=1e-3, max_iter=100_000))
        assert np.isfinite(solution.beta).all() and np.isfinite(solution.multipliers).all()
        assert solution.certificate.infeasibility < 1e-6


def test_the_nearest_feasible_point_where_no_variable_reacts():
    """At a corner of the box the curvature is all damping, and a Newton step is too long by orders of magnitude."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        n, k = 5, 3
        lower, upper = -rng.random(n), rng.random(n)
        A = rng.normal(size=(k, n))
        inside = lower + rng.random(n) * (upper - lower)
        inside[:2] = np.where(rng.random(2) < 0.5, lower[:2], upper[:2])  # as many are left as there are constraints
        qp = QP(np.eye(n), np.zeros(n), lower, upper, A, A @ inside)
        corner = np.where(rng.random(n) < 0.5, lower, upper)
        near = Equality.of(qp).feasible(corner, lower, upper, qp.eps)
        assert np.abs(A @ near - qp.b).max() < 1e-9
        endless = np.full(n, np.inf)
        near = Equality.of(qp).feasible(np.where(corner == upper, 1e20, lower), lower, endless, qp.eps)
        assert np.abs(A @ near - qp.b).max() < 1e-9 * max(1.0, np.abs(near).sum())
