"""Views against dense algebra, alone and stacked."""

import numpy as np
import pytest

from cases import make_data
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram, Ridged, Shifted, Signed, Tiled
from maxmargin.problem import QP
from referee import naive_kernel

N = 24
RNG = np.random.default_rng(0)
RIDGE = RNG.uniform(0.1, 2.0, N)
SIGN = RNG.choice([-1.0, 1.0], N)
SIGNS = RNG.choice([-1.0, 1.0], 2 * N)


def ridged(K):
    return K + np.diag(RIDGE)


def signed(K):
    return SIGN[:, None] * K * SIGN


def tiled(K):
    return np.tile(K, (2, 2))


VIEWS = {
    "ridged": (lambda g: Ridged(g, RIDGE), ridged),
    "shifted": (lambda g: Shifted(g, 1.5), lambda K: K + 1.5),
    "signed": (lambda g: Signed(g, SIGN), signed),
    "tiled": (Tiled, tiled),
    "ridged twice": (lambda g: Ridged(Ridged(g, RIDGE), 2 * RIDGE), lambda K: ridged(ridged(ridged(K)))),
    "shifted, ridged": (lambda g: Ridged(Shifted(g), RIDGE), lambda K: ridged(K + 1.0)),
    "ridged, shifted": (lambda g: Shifted(Ridged(g, RIDGE)), lambda K: ridged(K) + 1.0),
    "ridged, signed": (lambda g: Signed(Ridged(g, RIDGE), SIGN), lambda K: signed(ridged(K))),
    "signed, shifted, ridged": (
        lambda g: Ridged(Shifted(Signed(g, SIGN), 2.0), RIDGE),
        lambda K: ridged(signed(K) + 2.0),
    ),
    "tiled, signed": (lambda g: Signed(Tiled(g), SIGNS), lambda K: SIGNS[:, None] * tiled(K) * SIGNS),
    "ridged, tiled": (lambda g: Tiled(Ridged(g, RIDGE)), lambda K: tiled(ridged(K))),
    "tiled, ridged": (lambda g: Ridged(Tiled(g), np.tile(RIDGE, 2)), lambda K: tiled(K) + np.diag(np.tile(RIDGE, 2))),
}
X = make_data("duplicated", N).X
K = naive_kernel("rbf", X, gamma=0.5)
INNER = {
    "matrix": (lambda: PrecomputedGram(K), 1e-12),
    "kernel": (lambda: KernelGram(Kernel("rbf", 0.5), X), 1e-5),
}

every_view = pytest.mark.parametrize("name", VIEWS)
every_inner = pytest.mark.parametrize("inner", INNER)


@pytest.fixture
def case(name, inner):
    """A view, the matrix that it stands for, and how accurate its rows are."""
    view, algebra = VIEWS[name]
    gram, atol = INNER[inner]
    return view(gram()), algebra(K), atol


def check(gram, H, atol):
    n = len(H)
    rng = np.random.default_rng(1)
    index, at = rng.permutation(n)[: n // 2], rng.permutation(n)[: n // 3]
    coef, v = rng.normal(size=len(index)), rng.normal(size=n)
    assert gram.n == n
    np.testing.assert_allclose(gram.diag(), H.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(gram.rows(index), H[index], atol=atol)
    np.testing.assert_allclose(gram.rows(index), H[index], atol=atol)  # and again: the inner matrix is unchanged
    np.testing.assert_allclose(gram.dense(), H, atol=atol)
    for slots in (np.arange(len(index)), rng.permutation(n)[: len(index)]):
        slab = np.full((n, n), 77.0, gram.dtype)
        gram.rows(index, slab, slots)
        np.testing.assert_allclose(slab[slots], H[index], atol=atol)
        assert (np.delete(slab, slots, axis=0) == 77.0).all()
    np.testing.assert_allclose(gram.matvec(v), H @ v, atol=1e-10)
    np.testing.assert_allclose(gram.combine(index, coef), coef @ H[index], atol=1e-10)
    np.testing.assert_allclose(gram.combine(index, coef, at), coef @ H[np.ix_(index, at)], atol=1e-10)
    for where in (None, at):
        expected = coef @ (H[index] if where is None else H[np.ix_(index, where)])
        np.testing.assert_allclose(gram.combine(index, coef, where, exact=False), expected, atol=1e-10 + 50 * atol)
    np.testing.assert_allclose(gram.block(index), H[np.ix_(index, index)], rtol=1e-12, atol=1e-12)
    none = np.zeros(0, np.int64)
    np.testing.assert_array_equal(gram.combine(none, np.zeros(0)), np.zeros(n))


@every_view
@every_inner
class TestAlgebra:
    def test_whole(self, case):
        check(*case)

    def test_subset(self, case):
        gram, H, atol = case
        index = np.random.default_rng(2).permutation(len(H))[: len(H) // 2]
        part = gram.take(index)
        check(part, H[np.ix_(index, index)], atol)
        again = np.array([4, 0, 7, 9])
        check(part.take(again), H[np.ix_(index[again], index[again])], atol)

    def test_wide(self, case):
        gram, H, _ = case
        check(gram.wide(), H, 1e-12)

    def test_cost_is_shared_with_the_inner_matrix(self, case):
        gram, H, _ = case
        before = gram.evals
        gram.take(np.arange(6)).rows(np.arange(2))
        assert gram.evals > before

    def test_equal_rows_are_equal(self, case):
        gram, H, _ = case
        first = gram.duplicates()
        if first is not None:
            np.testing.assert_array_equal(H[first], H)

    def test_ridge_is_a_part_of_the_diagonal_that_leaves_a_convex_rest(self, case):
        gram, H, _ = case
        ridge = np.zeros(len(H)) if gram.ridge is None else gram.ridge
        assert ridge.shape == (len(H),)
        assert np.linalg.eigvalsh(H - np.diag(ridge)).min() > -1e-9
        part = gram.take(np.arange(5, len(H)))
        if gram.ridge is not None:
            np.testing.assert_array_equal(part.ridge, ridge[5:])


@every_view
def test_a_certificate_can_be_made_of_any_view(name):
    view, algebra = VIEWS[name]
    H = algebra(K)
    qp = QP(view(PrecomputedGram(K)), np.ones(len(H)), -1.0, 1.0)
    beta = np.linspace(-1.0, 1.0, len(H))
    certificate = qp.certificate(beta, np.zeros(0))
    assert certificate.dual == pytest.approx(-(0.5 * beta @ H @ beta + beta.sum()))
    assert np.isfinite(certificate.gap)


def test_views_know_the_points_that_are_equal():
    gram = KernelGram(Kernel("rbf", 0.5), X)
    assert len(np.unique(gram.duplicates())) < N
    np.testing.assert_array_equal(Shifted(gram).duplicates(), gram.duplicates())
    assert Ridged(gram, RIDGE).duplicates() is None


def test_tiled_reads_each_point_once():
    gram = PrecomputedGram(K)
    part = Tiled(gram).take(np.array([3, 3 + N, 5]))
    assert part.inner.n == 2
    np.testing.assert_allclose(part.dense(), K[np.ix_([3, 3, 5], [3, 3, 5])])


def test_variables_of_a_point_are_looked_at_once_and_no_others():
    """A ν-SVR asks for products at some of its variables, two for a point, and in pieces."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    tiled = Tiled(KernelGram(Kernel("rbf", 0.5), X, 1))
    index, coef = np.array([3, 7, 57, 60]), np.array([1.0, 2.0, -0.5, 4.0])  # 7 and 57 are one point
    at = np.array([70, 1, 20, 2, 51, 99])  # so are 70 and 20, and 1 and 51
    whole = tiled.combine(index, coef)
    for combine in (tiled.combine, lambda *args: tiled.combine_watched(*args, lambda: None, exact=True)):
        before = tiled.evals
        np.testing.assert_allclose(combine(index, coef, at), whole[at], rtol=1e-12)
        assert tiled.evals - before == 3 * 4
        np.testing.assert_array_equal(combine(np.array([7, 57]), np.array([1.0, -1.0]), at), 0.0)  # they cancel


def test_both_variables_of_a_point_share_its_row():
    X = np.random.default_rng(0).normal(size=(20, 3))
    gram = KernelGram(Kernel("rbf", 0.5), X)
    K, tiled = gram.dense(), Tiled(KernelGram(Kernel("rbf", 0.5), X))
    index, slots = np.array([3, 23, 7, 30]), np.array([5, 0, 2, 1])
    out = np.zeros((6, 40), tiled.dtype)
    tiled.rows(index, out, slots)
    np.testing.assert_array_equal(out[slots], np.tile(K, (2, 2))[index].astype(tiled.dtype))
    np.testing.assert_array_equal(tiled.rows(index), out[slots])
    assert tiled.evals == 2 * 3 * len(X)  # 3 points, twice
