"""Newton steps by least squares: exact where costs and features have all orders of magnitude."""

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import LinearSVC, Status
from maxmargin.gram import Factored
from maxmargin.losses import HuberHinge, SquaredEpsilonInsensitive, SquaredHinge
from maxmargin.problem import ERM
from maxmargin.rows import Rows
from maxmargin.solvers.parts.linear_risk import LinearRisk
from maxmargin.solvers.parts.square_steps import square_steps

exact = np.vectorize(Fraction, otypes=[object])


def unequal(n=30, d=6, seed=0):
    """Features from 1e-5 to 1e5 of which two are nearly the same, costs from 1e-4 to 1e4, and a function of 1e-7."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-5, 5, d)
    X = np.column_stack([X, X[:, 0] * (1 + 1e-7 * rng.normal(size=n))])
    phi = np.vstack([np.ones(n), 1e-7 * rng.normal(size=n) ** 2])
    return X, np.where(rng.normal(size=n) > 0, 1.0, -1.0), 10.0 ** rng.uniform(-4, 4, n), phi


def end_of(X, y, cost, phi, loss):
    rows = Rows.of(X)
    risk = LinearRisk(ERM(Factored(rows), y, cost, loss, phi), rows, 0.0)
    points = list(square_steps(risk, np.zeros(len(risk.penalty)), np.zeros(len(y))))
    assert points[-1].beta is not None
    return risk, points[-1]


@pytest.mark.parametrize("loss", [SquaredHinge(), HuberHinge(0.5), SquaredEpsilonInsensitive(0.1)])
@pytest.mark.parametrize("seed", range(3))
def test_coefficients_are_those_of_the_weights(loss, seed):
    """Zᵀβ = w and φβ = 0 hold to the rounding of their terms, added up exactly, and β is what the losses ask for."""
    X, y, cost, phi = unequal(seed=seed)
    risk, point = end_of(X, y, cost, phi, loss)
    Z = np.column_stack([X, phi.T])
    missing = exact(Z).T @ exact(point.beta) - exact(risk.penalty * point.x)
    terms = np.abs(Z).T @ np.abs(point.beta) + np.abs(point.x)
    assert (np.abs(missing.astype(float)) <= 1e-12 * terms).all()
    f = (exact(Z) @ exact(point.x)).astype(float)
    np.testing.assert_allclose(risk.erm.asked(f), point.beta, rtol=1e-4, atol=1e-6 * np.abs(point.beta).max())


def test_no_curved_row_sees_a_function():
    """The column of a function that nothing sees does not move."""
    X, y, cost, phi = unequal()
    _, point = end_of(X, y, cost, np.vstack([phi, 0.0 * phi[:1]]), SquaredHinge())
    assert point.x[-1] == 0.0


def test_a_machine_on_features_of_all_sizes():
    """Normal equations, steps on single variables and the interior method all stall here."""
    X, y, cost, _ = unequal(seed=3)
    functions = [lambda X: 1e-14 * X[:, 0] ** 2, lambda X: X[:, 0]]
    machine = LinearSVC(C=37.0, tol=1e-7, max_iter=-1, parametric=functions).fit(X, y, sample_weight=cost)
    assert machine.status_ is Status.CONVERGED
