"""K ≈ L Lᵀ: as close as it says, a Gram like any other, and honest about what it hides."""

import numpy as np
import pytest

from cases import VARIANTS, fast_problem, known, make_data
from maxmargin.formulations import Samples
from maxmargin.gram import Kernel, KernelGram, LowRank, PrecomputedGram, Ridged, Shifted, Signed, Tiled, low_rank
from maxmargin.problem import QP
from maxmargin.solvers import solve
from referee import naive_kernel

EXACT = 1e-12


def line(n=300, gamma=0.5, seed=0):
    x = np.random.default_rng(seed).uniform(0, 10, (n, 1))
    return KernelGram(Kernel("rbf", gamma), x), naive_kernel("rbf", x, gamma=gamma)


def factor_of(gram: LowRank) -> np.ndarray:
    return gram.Z.matrix()


@pytest.mark.parametrize("tol", [1e-1, 1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_close_as_asked_for(tol, seed):
    gram, K = line()
    approximate = low_rank(gram, tol, seed=seed)
    L = factor_of(approximate)
    E = K - L @ L.T
    assert np.trace(E) <= tol * np.trace(K) + EXACT
    assert approximate.trace_error <= tol * np.trace(K) + 1e-10
    assert (np.diag(E) <= approximate.lacking).all()
    assert np.linalg.eigvalsh(E)[0] > -EXACT * len(K)
    assert approximate.rank == L.shape[1] <= 60


def test_rank_grows_with_accuracy_and_little_is_computed():
    gram, _ = line(2000)
    ranks = []
    for tol in (1e-2, 1e-5, 1e-8):
        before = gram.evals
        approximate = low_rank(gram, tol)
        ranks.append(approximate.rank)
        assert gram.evals - before <= 12 * approximate.rank * gram.n  # columns at drawn points, not the matrix
    assert ranks[0] < ranks[1] < ranks[2] < 50


def test_full_rank_where_it_takes_that():
    gram, K = line(60, gamma=100.0)
    approximate = low_rank(gram, 1e-14)
    np.testing.assert_allclose(factor_of(approximate) @ factor_of(approximate).T, K, atol=1e-12)


def test_no_more_columns_than_allowed():
    gram, _ = line(200, gamma=50.0)
    assert low_rank(gram, 1e-10, most=20) is None
    assert low_rank(gram, 0.5, most=150).rank <= 150


def test_same_seed_same_bits():
    gram, _ = line()
    first, second = (low_rank(gram, 1e-8) for _ in range(2))
    np.testing.assert_array_equal(factor_of(first), factor_of(second))


def test_equal_points_cost_one_column():
    gram = KernelGram(Kernel("rbf", 1.0), np.repeat([[0.0], [1.0], [5.0]], 20, axis=0))
    assert low_rank(gram, 1e-12).rank == 3


@pytest.mark.parametrize("n", [1, 2])
def test_very_few_points(n):
    gram = KernelGram(Kernel("rbf", 1.0), np.arange(float(n))[:, None])
    np.testing.assert_allclose(low_rank(gram).dense(), gram.dense(), atol=EXACT)


def test_zero_matrix_and_negative_diagonal():
    zero = low_rank(PrecomputedGram(np.zeros((5, 5))))
    np.testing.assert_array_equal(zero.dense(), 0.0)
    assert low_rank(PrecomputedGram(-np.eye(3))) is None


def test_a_gram_like_any_other():
    gram, _ = line()
    approximate = low_rank(gram, 1e-6)
    L = factor_of(approximate)
    plain = PrecomputedGram(L @ L.T)
    rng = np.random.default_rng(1)
    index, coef = rng.choice(300, 20, replace=False), rng.normal(size=20)
    np.testing.assert_allclose(approximate.rows(index), plain.rows(index), atol=EXACT)
    np.testing.assert_allclose(approximate.diag(), plain.diag(), atol=EXACT)
    np.testing.assert_allclose(approximate.block(index), plain.block(index), atol=EXACT)
    np.testing.assert_allclose(approximate.combine(index, coef), plain.combine(index, coef), atol=EXACT)
    np.testing.assert_allclose(approximate.matvec(np.ones(300)), plain.matvec(np.ones(300)), atol=1e-10)
    part = approximate.take(index)
    np.testing.assert_allclose(part.dense(), plain.take(index).dense(), atol=EXACT)
    np.testing.assert_array_equal(part.lacking, approximate.lacking[index])
    factor = approximate.factor()
    assert factor.rows.d == approximate.rank and factor.ridge is None


def views(gram, y):
    yield gram, lambda K: K
    yield Ridged(gram, 0.5 + y**2), lambda K: K + np.diag(0.5 + y**2)
    yield Shifted(gram, 2.0), lambda K: K + 2.0
    yield Signed(gram, np.sign(y)), lambda K: K * np.outer(np.sign(y), np.sign(y))
    yield Tiled(gram), lambda K: np.tile(K, (2, 2))
    yield Signed(Tiled(gram), np.repeat([1.0, -1.0], len(y))), lambda K: np.kron([[1, -1], [-1, 1]], K)


@pytest.mark.parametrize("number", range(6))
def test_what_it_hides_through_every_view(number):
    gram, K = line()
    y = np.random.default_rng(2).normal(size=300)
    view, of = list(views(low_rank(gram, 1e-5), y))[number]
    E = of(K) - view.dense()
    rng = np.random.default_rng(3)
    for _ in range(20):
        beta = rng.normal(size=view.n) * (rng.random(view.n) < rng.random())
        hidden, slope = view.hides(beta)
        assert -EXACT <= 0.5 * beta @ E @ beta <= hidden + EXACT
        assert np.abs(E @ beta).max() <= slope + EXACT
    np.testing.assert_allclose(view.original().wide().dense(), of(K), atol=EXACT)
    assert gram.original() is gram
    assert gram.hides(np.ones(300)) == (0.0, 0.0)


def test_the_bound_is_attained():
    """What is left of a matrix of rank two after one column has rank one: nothing can be said better."""
    a, b = np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.1, -0.2])
    K = np.outer(a, a) + np.outer(b, b)
    approximate = low_rank(PrecomputedGram(K), 0.1)
    assert approximate.rank == 1
    E = K - approximate.dense()
    beta = np.sign(E[np.argmax(np.diag(E))])
    hidden, slope = approximate.hides(beta)
    assert hidden == pytest.approx(0.5 * beta @ E @ beta, rel=1e-6)
    assert slope == pytest.approx(np.abs(E @ beta).max(), rel=1e-6)


@pytest.mark.parametrize("solver", ["decomposition"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_certificates_hold_for_the_true_problem(solver, variant):
    """However coarse the approximation, the proven gap covers the true objective, and tightens with it."""
    plain, best = known(variant, "rbf", "plain")
    data = make_data("plain")
    gaps = []
    for tol in (0.05, 1e-9):
        gram = low_rank(KernelGram(Kernel("rbf", 0.5), data.X), tol)
        qp = variant.formulation.qp(Samples(gram, variant.targets(data), data.weight))
        solution = solve(qp, solver, tol=1e-6)
        assert solution.status.converged is (tol < 0.05)  # a coarse one hides too much to promise anything
        certificate = solution.certificate
        true = plain.objective(solution.beta)
        rounding = 2e-7 * max(1.0, abs(best.objective))
        assert certificate.dual <= -true + rounding
        assert certificate.primal >= -best.objective - rounding
        assert certificate.gap >= true - best.objective - rounding
        gaps.append(certificate.gap)
    assert gaps[1] <= 1e-5 * max(1.0, abs(best.objective)) < gaps[0]
    exact = QP(qp.H.original(), qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)
    again = exact.certificate(solution.beta, solution.multipliers)
    assert again.gap >= true - best.objective - rounding
    assert again.dual == pytest.approx(-true, rel=1e-8, abs=1e-9)
    assert fast_problem(variant, "rbf", data).H.original().dense() == pytest.approx(exact.H.dense())
