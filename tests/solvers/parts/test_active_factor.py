"""Kernel products and factors of points that come and go."""

import numpy as np
import pytest

from cases import KERNEL_CASES
from maxmargin.gram import KernelGram, PrecomputedGram
from maxmargin.monitor import Monitor
from maxmargin.solvers.parts.active_factor import ActiveFactor
from maxmargin.solvers.parts.kernel_products import KernelProducts
from maxmargin.solvers.parts.partial_cholesky import PartialCholesky
from maxmargin.solvers.parts.projected_cg import projected_cg


@pytest.fixture
def gram():
    return KernelGram(KERNEL_CASES["rbf"], np.random.default_rng(0).normal(size=(120, 3))).wide()


@pytest.mark.parametrize("budget", [None, 1000], ids=["kept", "no room"])
@pytest.mark.parametrize("panel", [512, 16])
def test_products_of_points_that_join(gram, budget, panel):
    K, rng = gram.dense(), np.random.default_rng(1)
    products = KernelProducts(gram, budget, Monitor())
    products.panel = panel
    order = rng.permutation(120)
    for start, stop in ((0, 5), (5, 60), (60, 61), (61, 100)):
        products.grow(order[start:stop])
        W = order[:stop]
        np.testing.assert_array_equal(products.index, W)
        v = rng.normal(size=stop) * (rng.random(stop) < 0.7)
        np.testing.assert_allclose(products.times(v), K[np.ix_(W, W)] @ v, atol=1e-12)
        F = rng.permutation(stop)[: max(1, stop // 2)]
        np.testing.assert_allclose(products.block(F), K[np.ix_(W[F], W[F])], atol=1e-12)
        np.testing.assert_allclose(products.rows(F), K[np.ix_(W[F], W)], atol=1e-12)
        np.testing.assert_allclose(products.at(v, order[100:]), K[np.ix_(order[100:], W)] @ v, atol=1e-12)
    assert products.kept == (budget is None)


def test_a_matrix_in_memory_is_used_as_it_is(gram):
    K = gram.dense()
    products = KernelProducts(PrecomputedGram(K), None, Monitor())
    products.grow(np.arange(120))
    assert products.whole is K and not products.panels
    v = np.random.default_rng(0).normal(size=120)
    np.testing.assert_allclose(products.times(v), K @ v, atol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_sets_that_change(gram, k):
    """A factor that is changed solves what one that is made anew does."""
    rng = np.random.default_rng(2)
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(120))
    K, D = gram.dense(), rng.uniform(0.1, 1.0, 120)
    factor = ActiveFactor(products, D, Monitor())
    A = rng.normal(size=(k, 120))
    S = np.arange(60)
    for _ in range(12):
        b, c = rng.normal(size=len(S)), rng.normal(size=k)
        x, mu = factor.solve(S, b, A[:, S].T, c)
        np.testing.assert_allclose(K[np.ix_(S, S)] @ x + D[S] * x + A[:, S].T @ mu, b, atol=1e-9)
        np.testing.assert_allclose(A[:, S] @ x, c, atol=1e-9)
        out, more = rng.permutation(S)[:3], rng.permutation(np.setdiff1d(np.arange(120), S))[:3]
        S = np.sort(np.concatenate([np.setdiff1d(S, out), more]))
    assert factor.made < 8 and factor.changed > 0


@pytest.mark.parametrize("k", [0, 2])
def test_conjugate_gradients_hold_constraints(gram, k):
    rng = np.random.default_rng(3)
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(90))
    base = PartialCholesky(products, 30)
    products.grow(np.arange(90, 120))
    base.grow()
    np.testing.assert_array_less(np.einsum("ij,ij->j", base.Lt, base.Lt), 1.0 + 1e-9)
    K, S = gram.dense(), np.arange(10, 110)
    D, A = rng.uniform(0.01, 0.1, len(S)), rng.normal(size=(k, len(S)))
    b, c = rng.normal(size=len(S)), rng.normal(size=k)
    exact = (1e-6, np.ones(len(S)), np.ones(len(S)))
    whole = rng.normal(size=120)  # what is known of x: that of the others
    whole[S] = 0.0
    found = projected_cg(products, S, D, b, A.T, c, base.on(S, D, 1), exact, 200, Monitor(), whole)
    assert found.solved
    assert not projected_cg(products, S, D, b, A.T, c, base.on(S, D, 1), exact, 2, Monitor(), whole).solved
    whole[S] = found.x
    np.testing.assert_allclose(found.Kx, K @ whole, atol=1e-5)
    np.testing.assert_allclose(A @ found.x, c, atol=1e-5)  # a preconditioner in float32 holds them so well
    np.testing.assert_allclose(found.Kx[S] + D * found.x + A.T @ found.mu, b, atol=1e-5)


def test_conjugate_gradients_start_where_the_preconditioner_is_right(gram):
    """Its own solution takes one product, and where it knows K as it is, that was the last one."""
    rng = np.random.default_rng(4)
    products = KernelProducts(gram.wide(), None, Monitor())
    products.grow(np.arange(120))
    base, S, D = PartialCholesky(products, 120), np.arange(10, 110), np.ones(100)
    others = rng.normal(size=120)
    others[S] = 0.0
    b, E = rng.normal(size=100), np.ones((100, 1))
    slack = (1e-5, np.ones(100), np.ones(100))
    assert projected_cg(products, S, D, b, E, np.ones(1), base.on(S, D, 1), slack, 0, Monitor(), others).solved


def test_a_preconditioner_is_what_it_says(gram):
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(120))
    base, S = PartialCholesky(products, 40), np.arange(0, 120, 2)
    D = np.random.default_rng(0).uniform(1e-6, 1.0, len(S))
    L = base.Lt[:, S].T
    v = np.random.default_rng(1).normal(size=len(S))
    np.testing.assert_allclose(base.on(S, D, 1)(v), np.linalg.solve(L @ L.T + np.diag(D), v), rtol=1e-3)
    # The metric is symmetric in the inner product of functions, and K times what it makes is told with it.
    metric, K = base.metric(S, D, 1), gram.dense()
    u, w = np.random.default_rng(2).normal(size=(2, 120))
    (hu, Ku), (_, Kw) = metric.changed(u, K @ u), metric.changed(w, K @ w)
    np.testing.assert_allclose(Ku, K @ hu, atol=1e-8)
    assert u @ Kw == pytest.approx(w @ Ku, rel=1e-6)
    assert u @ Ku > 0


def test_a_preconditioner_gets_more_columns_with_more_points(gram):
    """Made for a small sample it had few of them for ever, and conjugate gradients took twice as many products."""
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(40))
    base = PartialCholesky(products, 10)
    products.grow(np.arange(40, 120))
    base.grow()
    lacking = 120 - np.einsum("ij,ij->", base.Lt, base.Lt)
    base.deepen(40)
    assert base.rank == 40
    assert 120 - np.einsum("ij,ij->", base.Lt, base.Lt) < 0.8 * lacking
    rest = gram.dense() - base.Lt.T @ base.Lt
    assert np.linalg.eigvalsh(rest)[0] > -1e-9  # what is left of K is one, too
    assert np.linalg.eigvalsh(rest)[-1] < np.linalg.eigvalsh(gram.dense())[-1]


def test_a_normal_matrix_is_changed_by_the_points_that_come_and_go(gram):
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(120))
    base, other = PartialCholesky(products, 40), PartialCholesky(products, 40)
    D = np.random.default_rng(0).uniform(0.1, 1.0, 120)
    for S in (np.arange(100), np.arange(5, 110), np.r_[5:60, 62:110]):
        changed = base.normal(S, D[S], 1)
        scaled = other.Lt[:, S] / np.sqrt(D[S])
        np.testing.assert_allclose(changed, np.eye(40) + scaled @ scaled.T, rtol=1e-10, atol=1e-10)
    D = 2.0 * D  # another D is as good
    np.testing.assert_allclose(base.normal(S, D[S], 1), other.normal(S, D[S], 1), rtol=1e-10, atol=1e-10)


def test_multipliers_are_as_exact_as_asked_with_a_preconditioner_in_float32(gram):
    """What constraints explain is taken out of the residual, or its rounding would be all that is left of it."""
    rng = np.random.default_rng(5)
    products = KernelProducts(gram, None, Monitor())
    products.grow(np.arange(120))
    base, S = PartialCholesky(products, 40), np.arange(10, 110)
    D, A = rng.uniform(0.01, 0.1, len(S)), rng.normal(size=(1, len(S)))
    b = 1e4 * A[0] + rng.normal(size=len(S))
    exact = (1e-4, np.ones(len(S)), np.ones(len(S)))
    found = projected_cg(products, S, D, b, A.T, np.zeros(1), base.on(S, D, 1), exact, 200, Monitor(), np.zeros(120))
    assert found.solved
    assert found.mu[0] == pytest.approx(1e4, abs=100)
