"""Iterations of the interior method on few rows by one leaf: the same as those that a crew is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC, LinearSVR
from maxmargin.formulations import CSVC, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored
from maxmargin.rows import Rows
from maxmargin.solution import Status
from maxmargin.solvers import Auto, InteriorPoint
from maxmargin.solvers.parts import barrier_point, barrier_rows
from maxmargin.solvers.parts.barrier_point import BarrierPoint
from maxmargin.solvers.parts.few_rows import leaf_work
from maxmargin.solvers.parts.system_choice import by_leaf


def data(machine):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 7)) * np.logspace(-1, 2, 7)
    score = X @ rng.normal(size=7) + rng.normal(size=200)
    return X, score if isinstance(machine, LinearSVR) else np.digitize(score, [-50.0, 50.0])


@pytest.fixture
def calls(monkeypatch):
    made, steps = [], barrier_rows.barrier_steps
    monkeypatch.setattr(barrier_rows, "barrier_steps", lambda *args: made.append(args[-1]) or steps(*args))
    return made


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("intercept", [{}, {"intercept_scaling": 2.0}, {"fit_intercept": False}])
@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(loss="hinge", C=10.0),
        LinearSVC(loss="squared_hinge", C=1e3, class_weight="balanced"),
        LinearSVR(epsilon=0.3),
        LinearSVR(C=1e3),
        LinearSVR(loss="huber", C=10.0),
        LinearSVR(loss="quantile", quantile=0.2, parametric=lambda X: np.asarray(X[:, :1] @ np.eye(1)) ** 2),
    ],
)
def test_iterations_by_a_leaf_are_those_of_the_crew(machine, intercept, layout, calls, monkeypatch):
    X, y = data(machine)
    machine.set_params(solver=InteriorPoint(correctors=2), tol=1e-7, **intercept)
    few = machine.fit(layout(X), y)
    assert few.status_ is Status.CONVERGED and calls
    values, made = [one.primal for one in few.certificates_], few.n_iter_
    monkeypatch.setattr(BarrierPoint, "steps_at_once", lambda *_: (0, 0.0))
    calls.clear()
    other = machine.fit(layout(X), y)
    assert other.status_ is Status.CONVERGED and not calls
    assert abs(made - other.n_iter_) <= 1  # sums are added up in another order
    np.testing.assert_allclose(values, [one.primal for one in other.certificates_], rtol=3e-7)


@pytest.mark.parametrize("machine", [LinearSVC(loss="hinge", C=0.1), LinearSVR(C=0.01)])
def test_few_rows_are_not_swept_first(machine, calls):
    X, y = data(machine)  # scaled, so that few sweeps would do
    machine.fit(X / X.std(axis=0), y / y.std() if isinstance(machine, LinearSVR) else y > 1)
    assert machine.solver_ == "interior-point" and calls


def test_who_watches_sees_each_iteration(calls):
    machine, seen = LinearSVC(loss="hinge", tol=1e-8), []
    machine.callback = lambda step: seen.append(step["iteration"]) or False
    machine.fit(*data(machine))
    assert set(calls) == {1} and set(seen) >= set(range(1, machine.n_iter_ + 1))
    with pytest.warns(UserWarning, match="gap"):
        assert LinearSVC(loss="hinge", tol=1e-8, max_iter=4).fit(*data(machine)).n_iter_ <= 4


def test_the_clock_is_looked_at_between_few_iterations(calls, monkeypatch):
    X, y = data(LinearSVC())
    monkeypatch.setattr(barrier_point, "LOOK_WORK", 2 * leaf_work(*np.add(X.shape, (0, 1))))
    machine = LinearSVC(loss="hinge", tol=1e-8).fit(X, y)
    assert machine.status_ is Status.CONVERGED and set(calls) == {2}


@pytest.mark.parametrize(
    ("n", "d", "names"), [(300, 5, ["interior-point", "sor"]), (1500, 60, ["sor", "interior-point", "sor"])]
)
def test_sweeps_are_tried_where_that_costs_little_of_what_the_interior_method_does(n, d, names):
    X = np.random.default_rng(0).normal(size=(n, d))
    gram = Factored(X)
    qp = CSVC().qp(Samples(gram, np.sign(X[:, 0]), np.ones(n)))
    plan = Auto().plan(qp, Goal(gap=1e-4, exact=False))
    assert [turn.name for turn in plan] == names
    assert by_leaf(Rows.of(X, 1), 1, exact=False)


def test_matrices_too_large_for_a_leaf_are_left_to_blas(calls):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 210))
    LinearSVC(loss="hinge", solver="interior-point").fit(X, X[:, 0] + rng.normal(size=400) > 0)
    assert not calls
