"""Newton's method on rounded corners gets near the solution, and says how near."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored, as_gram
from maxmargin.monitor import Monitor
from maxmargin.rows import Dense, Rows
from maxmargin.solvers import InteriorPoint
from maxmargin.solvers.parts.smoothed_newton import CornerRows, approach

MACHINES = {
    "hinge": CSVC(C=0.5),
    "no bias": CSVC(C=0.5, fit_intercept=False),
    "svr": EpsilonSVR(C=0.5, epsilon=0.3),
}


def problem(machine, n=4000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.3, 3.0, d)
    f = X @ rng.normal(size=d) + rng.normal(size=n) + 0.3
    return machine.qp(Samples(Factored(X), np.sign(f) if isinstance(machine, CSVC) else f, rng.uniform(0.5, 2.0, n)))


def value(qp, x):
    """The primal objective of x = [w, η]."""
    rows = as_gram(qp.H).factor().rows
    s = rows.dot(x[: rows.d]) + qp.p + qp.A.T @ x[rows.d :]
    sent = np.where(s < -qp.eps, qp.upper, np.where(s > qp.eps, qp.lower, 0.0))
    return 0.5 * x[: rows.d] @ x[: rows.d] + qp.b @ x[rows.d :] - np.sum(s * sent + qp.eps * np.abs(sent))


@pytest.mark.parametrize("name", MACHINES)
def test_a_few_digits(name):
    qp = problem(MACHINES[name])
    best = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-10)).certificate.primal
    near = approach(qp, as_gram(qp.H).factor(), 0.0, Monitor())
    assert best * (1 - 1e-9) <= value(qp, near.x) <= best * (1 + 1e-3)
    assert near.steps <= 40


@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_losses_without_corners_are_minimised_exactly(loss):
    qp = problem(CSVC(C=0.5, loss=loss))
    best = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-11)).certificate.primal
    near = approach(qp, as_gram(qp.H).factor(), 1e-10, Monitor())
    assert near.gap <= 1e-10
    beta = near.beta
    assert qp.objective(beta, qp.times(beta)) == pytest.approx(-best, rel=1e-8)


def test_the_response_is_the_derivative_and_its_curvature_too():
    """β is minus the derivative of the rounded loss; θ that of β. Far from a corner β is a bound."""
    rng = np.random.default_rng(0)
    n = 60
    lower, upper, eps = -rng.uniform(0, 2, n) * (rng.random(n) < 0.7), rng.uniform(0.1, 2, n), rng.uniform(0, 0.5, n)
    eps[::3] = 0.0
    X = rng.normal(size=(n, 1))
    state = CornerRows(Dense(X), np.zeros(n), np.zeros(n), lower, upper, eps, np.zeros((0, n)))
    s, h = rng.normal(size=n), 1e-6
    for rho in (1.0, 0.1, 0.01):
        found = []
        for shift in (-h, h, 0.0):
            state.s[:] = s + shift
            state.respond(rho)
            found.append((state.beta.copy(), state.theta.copy()))
        (before, _), (after, _), (_, theta) = found
        np.testing.assert_allclose((before - after) / (2 * h), theta, rtol=1e-4, atol=1e-6)
    state.s[:] = 1e6 * np.where(rng.random(n) < 0.5, 1.0, -1.0)
    state.respond(0.01)
    np.testing.assert_allclose(state.beta, np.where(state.s > 0, lower, upper), atol=1e-9)


def test_a_hessian_of_some_rows_stands_for_all():
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.normal(size=(n, 4))
    vectors = (np.zeros(n), np.full(n, -1.0), np.zeros(n), np.ones(n), np.zeros(n), np.ones((1, n)))
    crew = Rows.of(X, 1).crew(CornerRows, vectors)
    crew.ask("look", np.zeros(5))
    crew.ask("respond", 1.0)
    whole = np.triu(crew.sum("normal", 1, 0))
    some = np.triu(crew.sum("normal", 10, 3))
    assert np.abs(some - whole).max() < 0.1 * np.abs(whole).max()
