"""All classes at once where sweeps crawl: large costs, features of any size, copies."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine

from maxmargin import Goal, LinearSVC, Status
from maxmargin.estimators import crammer_singer, interior_classes
from maxmargin.estimators.crammer_singer import AllClasses, combined, inside
from maxmargin.estimators.interior_classes import InteriorClasses, price
from maxmargin.monitor import Monitor, Stopped


def values(X, labels, cost, W, alpha):
    """Both values by hand, of any weights and of coefficients that are feasible."""
    own = np.arange(len(labels)), labels
    f = X @ W + 1.0
    f[own] -= 1.0
    primal = 0.5 * (W * W).sum() + cost @ (f.max(axis=1) - f[own])
    V = X.T @ alpha
    return primal, -0.5 * (V * V).sum() + alpha[own].sum()


def problem_of(X, labels, cost):
    rows = sp.csr_array(X)
    arrays = rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data
    return AllClasses(*arrays, X.shape[1], labels.astype(np.int64), cost, int(labels.max()) + 1)


def hard(name):
    """Samples, labels and costs for which sweeps do not get there."""
    rng = np.random.default_rng(0)
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        return X, y, np.full(len(y), 10.0)
    if name == "five samples":
        X = rng.normal(size=(5, 2))
        X[4] = X[:4].mean(axis=0)
        return X, np.arange(5), np.full(5, 1e5)
    if name == "wide":
        return rng.normal(size=(25, 60)) * 10.0 ** rng.uniform(-3, 3, 60), np.arange(25) % 7, np.full(25, 1e4)
    if name == "copies":
        X = (3.0 * rng.normal(size=(80, 4))).round()[rng.integers(0, 40, 80)]
        return 1e3 * X, rng.integers(0, 5, 80), np.full(80, 3e5)
    X = rng.normal(size=(80, 5)) * 10.0 ** rng.uniform(-3, 3, 5)
    return X, rng.integers(0, 4, 80), 10.0 ** rng.uniform(-2, 2, 80)


HARD = ["wine", "five samples", "wide", "copies", "units and weights"]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", HARD)
def test_all_classes_at_once_where_sweeps_crawl(name, kind):
    X, y, cost = hard(name)
    model = LinearSVC(multi_class="crammer_singer", fit_intercept=False, tol=1e-6)
    model.fit(kind(X), y, sample_weight=cost)
    assert model.status_.converged and model.n_iter_ < 300
    primal, _ = values(X, y, cost, model.coef_.T, np.zeros((len(y), len(model.classes_))))
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-7)
    assert model.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize("name", HARD)
def test_points_of_the_interior_method_close_the_gap(name):
    X, y, cost = hard(name)
    least, most = np.inf, -np.inf
    for point in InteriorClasses(X, y, cost, int(y.max()) + 1, lambda: None).points():
        assert_allclose(point.alpha.sum(axis=1), 0.0, atol=1e-9 * cost.max())
        primal, dual = values(X, y, cost, point.W, inside(point.alpha, y, cost))
        least, most = min(least, primal), max(most, dual)
    assert most <= least * (1.0 + 1e-9)
    assert least - most <= 1e-7 * least
    assert_allclose(point.W.sum(axis=1), 0.0, atol=1e-9 * np.abs(point.W).max())


def test_both_factorisations_are_of_the_same_matrix():
    X, y, cost = hard("units and weights")
    method = InteriorClasses(X, y, cost, 4, lambda: None)
    for _ in range(5):
        assert method._step()
    by_rows, (n, d), K = method._root(), X.shape, 4
    whole = np.kron(np.eye(K - 1) - 1.0 / K, np.eye(d))
    for i in range(n):
        G = np.diag(method.theta[i]) - np.outer(method.theta[i], method.theta[i]) / method.theta[i].sum()
        whole += np.kron(G[:-1, :-1], np.outer(X[i], X[i]))
    whole *= np.outer(method.scale, method.scale)
    for U in (np.triu(method.U), by_rows):
        assert_allclose(U.T @ U, whole, atol=1e-12)


def test_steps_count_and_a_limit_of_them_holds():
    X, y, cost = hard("wine")
    problem, goal = problem_of(X, y, cost), Goal(gap=1e-6)
    whole = problem.solve(goal, Monitor())
    assert whole.status.converged
    short = problem.solve(goal.capped(whole.n_iter - 3), Monitor())
    assert short.status is Status.MAX_ITERATIONS and short.n_iter == whole.n_iter - 3
    assert short.certificate.gap > whole.certificate.gap


@pytest.mark.parametrize("looks", [0, 3, 40])
def test_the_interior_method_ends_in_between(monkeypatch, looks):
    """What was known before is what is left, with its proof."""
    X, y, cost = hard("wine")
    problem, monitor, seen = problem_of(X, y, cost), Monitor(), []

    def look():
        seen.append(1)
        if len(seen) > looks:
            raise Stopped(Status.TIME_LIMIT)

    monkeypatch.setattr(monitor, "look", look)
    found = problem.solve(Goal(gap=1e-9), monitor)
    assert found.status is Status.TIME_LIMIT and len(seen) == looks + 1
    primal, _ = values(X, y, cost, found.W, found.alpha)
    assert primal == pytest.approx(found.certificate.primal, rel=1e-9)
    assert found.certificate.dual <= found.certificate.primal


def test_sweeps_go_on_where_the_interior_method_fails(monkeypatch):
    X, y = load_iris(return_X_y=True)
    problem = problem_of(X, y, np.full(150, 1.0))
    plain = problem.solve(Goal(gap=1e-5), Monitor())
    monkeypatch.setattr(crammer_singer, "price", lambda *sizes: 0.0)
    monkeypatch.setattr(interior_classes, "MOST_STEPS", 4)
    steps = []
    step = InteriorClasses._step
    monkeypatch.setattr(InteriorClasses, "_step", lambda self: steps.append(1) or step(self))
    other = problem.solve(Goal(gap=1e-5), Monitor())
    assert len(steps) == 4 and other.n_iter > 4
    assert plain.status.converged and other.status.converged
    assert other.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-5)
    assert_array_equal(inside(other.alpha, problem.labels, problem.cost), other.alpha)
    assert_allclose(combined(problem.indptr, problem.indices, problem.data, other.alpha, 4).sum(axis=1), 0.0, atol=1e-9)


def test_large_problems_are_left_to_sweeps():
    assert price(16_000, 62_000, 20) == np.inf
    rounds = [price(n, d, 10) / (n * d) for n, d in ((1000, 20), (1000, 200), (1000, 2000))]
    assert rounds == sorted(rounds)
