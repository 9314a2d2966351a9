"""Newton steps of small linear machines by one leaf: the same minimum as steps by products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC, LinearSVR
from maxmargin.losses import Huber, HuberHinge, SquaredEpsilonInsensitive, SquaredError, SquaredHinge
from maxmargin.solution import Status
from maxmargin.solvers.parts import risk_steps
from maxmargin.solvers.parts.linear_risk import LinearRisk
from maxmargin.solvers.parts.risk_steps import curvature_of, slope_of


@pytest.mark.parametrize(
    "loss", [SquaredHinge(), HuberHinge(0.3), SquaredEpsilonInsensitive(0.2), Huber(0.7), SquaredError()]
)
def test_a_loss_is_known_by_its_conjugate(loss):
    terms = (*loss.conjugate_terms, *loss.domain)
    a = np.linspace(-3.0, 3.0, 201) + 1e-3
    found = [slope_of.py_func(one, terms) for one in a]
    np.testing.assert_allclose([u for u, _ in found], loss.slope(a), atol=1e-14)
    np.testing.assert_allclose([u * t - 0.5 * terms[1] * u * u for u, t in found], loss.value(a), atol=1e-14)
    for far, expected in ((False, loss.curvature(a)), (True, loss.secant(a))):
        np.testing.assert_allclose([curvature_of.py_func(u, t, terms, far) for u, t in found], expected, atol=1e-14)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("intercept_scaling", [None, 1.0])
@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(C=10.0),
        LinearSVC(loss="huber", C=100.0),
        LinearSVC(C=1e4, class_weight="balanced"),
        LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.3),
        LinearSVR(loss="huber", C=1e3),
    ],
)
def test_steps_by_a_leaf_end_where_others_do(machine, intercept_scaling, layout, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 7)) * np.logspace(-2, 2, 7)
    score = X @ rng.normal(size=7) + rng.normal(size=150)
    y = score if isinstance(machine, LinearSVR) else np.digitize(score, [-50.0, 50.0])
    machine.set_params(tol=1e-9, intercept_scaling=intercept_scaling)
    made, steps = [], risk_steps.newton_steps
    monkeypatch.setattr(risk_steps, "newton_steps", lambda *args: made.append(1) or steps(*args))
    small = machine.fit(layout(X), y)
    values = [one.primal for one in np.atleast_1d(small.certificates_)]
    assert small.status_ is Status.CONVERGED and made
    monkeypatch.setattr(LinearRisk, "small", None)
    made.clear()
    other = machine.fit(layout(X), y)
    assert other.status_ is Status.CONVERGED and not made
    np.testing.assert_allclose(values, [one.primal for one in np.atleast_1d(other.certificates_)], rtol=3e-9)


def test_a_callback_sees_each_step_of_a_leaf():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    y = X @ rng.normal(size=10) + rng.normal(size=200) > 0
    seen = []
    model = LinearSVC(C=1e3, tol=1e-10, callback=lambda step: seen.append(step["primal"]) or False).fit(X, y)
    assert len(seen) > 3 and len(seen) >= model.n_iter_
    assert LinearSVC(C=1e3, tol=1e-10, max_iter=2).fit(X, y).n_iter_ == 2


def test_classes_begin_with_one_normal_matrix(monkeypatch):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(600, 60)), rng.integers(0, 4, 600)
    asked, added = [], LinearRisk.added
    monkeypatch.setattr(LinearRisk, "added", lambda risk, theta: asked.append(risk.rows) or added(risk, theta))
    assert LinearSVC().fit(X, y).status_ is Status.CONVERGED
    assert len(asked) == 4 and len({id(rows) for rows in asked}) == 1 and asked[0]._even is not None
