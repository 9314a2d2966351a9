"""Quadratic models on sparse columns, and sweeps on a loss itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC
from maxmargin.losses import HuberHinge, SquaredHinge
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers.parts import sparse_model
from maxmargin.solvers.parts.sparse_model import SparseModel, conjugate_steps, loss_sweeps


def words(rng: np.random.Generator, n: int, d: int) -> sp.csc_array:
    """Counts of words, of which neighbours mostly come together."""
    Z = sp.random_array((n, d), density=0.05, rng=rng, data_sampler=lambda size: rng.integers(1, 40, size)).tocsc()
    return sp.csc_array(sp.hstack([Z, Z + 0.01 * sp.random_array((n, d), density=0.01, rng=rng)], format="csc"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("free", [False, True])
def test_the_least_point_of_a_model_meets_its_conditions(seed, free):
    rng = np.random.default_rng(seed)
    Z = words(rng, 120, 100)
    curve = np.where(rng.random(120) < 0.5, 2.0 * rng.random(120), 0.0)
    x, g, eps = rng.normal(size=200), Z.T @ (curve * rng.normal(size=120)), np.ones(200)
    x[rng.random(200) < 0.5], eps[-1] = 0.0, 0.0 if free else 1.0
    model, ridge = SparseModel(Z, curve), 1e-3
    assert model.suits
    least = model.least(x, g, eps, ridge, 1e-7, Monitor())
    slope = g + Z.T @ (curve * (Z @ (least - x))) + ridge * (least - x)
    left = np.where(least == 0.0, np.maximum(np.abs(slope) - eps, 0.0), np.abs(slope + eps * np.sign(least)))
    assert left.max() <= 2e-7
    assert 0 < np.count_nonzero(least[:-1]) < 199


@pytest.mark.parametrize("seed", range(5))
def test_a_model_ends_where_its_point_meets_the_tolerance(seed, monkeypatch):
    """Sweeps over small columns beside large ones meet violations of their own making, which say nothing of it."""
    rng = np.random.default_rng(seed)
    small = sp.random_array((200, 160), density=0.05, rng=rng)
    large = sp.random_array((200, 20), density=0.5, rng=rng, data_sampler=lambda size: 100.0 * rng.integers(1, 5, size))
    Z, eps, tol = sp.csc_array(sp.hstack([small, large])), np.ones(180), 0.1
    g = 3.0 * Z.T @ rng.normal(size=200)
    x = SparseModel(Z, np.ones(200)).least(np.zeros(180), g, eps, 1e-8, 0.1 * tol, Monitor())
    slope = g + Z.T @ (Z @ x) + 1e-8 * x
    left = np.where(x == 0.0, np.maximum(np.abs(slope) - eps, 0.0), np.abs(slope + eps * np.sign(x)))
    assert left.max() <= 0.1 * tol

    made, sweeps = [], sparse_model.sweeps
    monkeypatch.setattr(sparse_model, "sweeps", lambda *args: made.append(1) or sweeps(*args))
    SparseModel(Z, np.ones(200)).least(x, slope, eps, 1e-8, tol, Monitor())
    assert len(made) == 1


def test_a_model_that_is_stopped_is_no_worse_than_its_start():
    rng = np.random.default_rng(0)
    Z, curve = words(rng, 120, 100), np.ones(120)
    g, x, eps = Z.T @ rng.normal(size=120), np.zeros(200), np.ones(200)
    with Monitor(time_limit=1e-6) as monitor:
        while monitor.stop_now() is None:
            pass
        least = SparseModel(Z, curve).least(x, g, eps, 1e-9, 1e-12, monitor)
    change = Z @ least
    assert g @ least + 0.5 * change @ change + np.abs(least).sum() < 0.0


@pytest.mark.parametrize("loss", [SquaredHinge(), HuberHinge(0.3)])
@pytest.mark.parametrize("seed", range(3))
def test_sweeps_on_a_loss_go_down_to_its_minimum(loss, seed):
    rng = np.random.default_rng(seed)
    Z = sp.csc_array(sp.random_array((80, 30), density=0.2, rng=rng))
    y, cost, eps, x = np.where(rng.random(80) < 0.5, 1.0, -1.0), 3.0 * rng.random(80), np.full(30, 0.3), np.zeros(30)
    top, q, _ = loss.conjugate_terms
    short = np.full(80, top)

    def objective() -> float:
        return float(eps @ np.abs(x) + cost @ loss.value(y * (Z @ x)))

    values = [objective()]
    for _ in range(200):
        loss_sweeps(Z.indptr, Z.indices, Z.data, y, cost, 1.0 / q, -loss.domain[0], eps, x, short, 20)
        values.append(objective())
    assert np.diff(values).max() <= 1e-12 * values[0] and values[-1] < 0.99 * values[0]
    np.testing.assert_allclose(short, top - y * (Z @ x), atol=1e-10)
    g = Z.T @ (cost * y * loss.slope(y * (Z @ x)))
    left = np.where(x == 0.0, np.maximum(np.abs(g) - eps, 0.0), np.abs(g + eps * np.sign(x)))
    assert left.max() <= 1e-4


@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
@pytest.mark.parametrize("intercept_scaling", [None, 1.0])
def test_many_words_are_solved_without_a_matrix_of_them(loss, intercept_scaling, monkeypatch):
    """Hundreds of weights that are not 0: a matrix of them is not to be made."""
    rng = np.random.default_rng(1)
    X = sp.random_array((1000, 1500), density=0.01, rng=rng, format="csr")
    y = X[:, :200].sum(axis=1) + rng.normal(size=1000) > 1.0
    made = []
    least = SparseModel.least
    monkeypatch.setattr(SparseModel, "least", lambda *args: made.append(1) or least(*args))
    model = LinearSVC(penalty="l1", loss=loss, C=10.0, tol=1e-6, intercept_scaling=intercept_scaling).fit(X, y)
    assert model.status_ is Status.CONVERGED and made
    f, sign = model.decision_function(X), np.where(y, 1.0, -1.0)
    value = (SquaredHinge() if loss == "squared_hinge" else HuberHinge(model.huber_delta)).value(sign * f).sum()
    penalty = np.abs(model.coef_).sum() + (abs(model.intercept_[0]) if intercept_scaling else 0.0)
    assert 10.0 * value + penalty == pytest.approx(model.certificate_.primal, rel=1e-10)
    assert np.count_nonzero(model.coef_) > 100


def test_columns_that_would_cross_0_stay_there_together():
    """Not one by one, each with conjugate gradients of its own."""
    n = 6
    indptr, indices, data = np.arange(n + 1), np.arange(n), np.ones(n)
    x, v, g = np.arange(1.0, n + 1.0), np.zeros(n), np.full(n, 20.0)  # the minimum at x − g − ε is beyond 0
    eps, free = np.ones(n), np.arange(n)
    _, cut = conjugate_steps(
        indptr, indices, data, np.ones(n), g, x.copy(), eps, 0.0, x, v, free, np.empty(n), np.zeros(n), 0.0, 9, 1e-9
    )
    assert cut and not x.any()
    np.testing.assert_allclose(v, -np.arange(1.0, n + 1.0))  # A(x − x₀) is true of it
