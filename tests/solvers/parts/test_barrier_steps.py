"""Iterations of the interior method on few rows by one leaf: the same as those that a crew is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC, LinearSVR
from maxmargin.solution import Status
from maxmargin.solvers import InteriorPoint
from maxmargin.solvers.parts import barrier_rows
from maxmargin.solvers.parts.barrier_point import BarrierPoint


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


def test_matrices_too_large_for_a_leaf_are_left_to_blas(calls):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 210))
    LinearSVC(loss="hinge", solver="interior-point").fit(X, X[:, 0] + rng.normal(size=400) > 0)
    assert not calls
