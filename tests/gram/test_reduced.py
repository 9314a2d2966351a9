"""Expansions on few points as Gram matrices."""

import tracemalloc

import numpy as np
import pytest

from maxmargin.gram import Exact, Expansion, Kernel, Reduced
from maxmargin.gram.reduced import function_values, independent, matrix_values, point_values
from referee import naive_kernel

N, K, GAMMA = 90, 7, 0.4
rng = np.random.default_rng(0)
X, Z = rng.normal(size=(N, 3)), rng.normal(size=(K, 3))
BETWEEN, SQUARE = naive_kernel("rbf", X, Z, gamma=GAMMA), naive_kernel("rbf", Z, Z, gamma=GAMMA)
WHOLE = BETWEEN @ np.linalg.solve(SQUARE, BETWEEN.T)
SOURCES = {
    "points": point_values(Kernel("rbf", GAMMA), X, Z),
    "function": function_values(lambda A, B: naive_kernel("rbf", A, B, gamma=GAMMA), X, Z),
    "matrix": matrix_values(BETWEEN, np.arange(K)),
}


def expansion(source="points", threads=1):
    order, L, _ = independent(SQUARE)
    values = SOURCES[source]
    return Expansion(lambda index: values(index)[:, order], L, np.arange(N), 3, threads), order


@pytest.mark.parametrize("source", SOURCES)
def test_features_have_the_products_of_the_expansion(source):
    few, _ = expansion(source)
    F = few.matrix()
    assert F @ F.T == pytest.approx(WHOLE)
    assert few.matrix(np.array([5, 2]), np.float32) == pytest.approx(F[[5, 2]], rel=1e-6)


def test_kernel_values_of_some_samples_take_no_copy_of_all():
    """With points whose products are sparse, dense samples became sparse as a whole, and were all read each time."""
    rng = np.random.default_rng(1)
    samples = np.where(rng.random((20_000, 100)) < 0.1, rng.normal(size=(20_000, 100)), 0.0)
    tracemalloc.start()
    try:
        values = point_values(Kernel("rbf", GAMMA), samples, samples[:600])
        found = values(np.arange(8))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == pytest.approx(naive_kernel("rbf", samples[:8], samples[:600], gamma=GAMMA))
    assert peak < samples.nbytes / 4


def test_weights_and_coefficients_are_the_same_function():
    few, order = expansion()
    alpha = rng.normal(size=(K, 2))
    w = few.weights(alpha)
    assert few.coefficients(w) == pytest.approx(alpha)
    assert (w * w).sum(axis=0) == pytest.approx(np.einsum("ic,ij,jc->c", alpha, SQUARE[np.ix_(order, order)], alpha))
    assert few.along(w) == pytest.approx(BETWEEN[:, order] @ alpha)
    assert few.function(alpha) == pytest.approx(few.matrix() @ w)
    beta = rng.normal(size=(N, 2))
    beta[::2] = 0.0
    assert few.pulled(beta) == pytest.approx(few.matrix().T @ beta)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_digit(threads, monkeypatch):
    monkeypatch.setattr("maxmargin.gram.reduced.MOST_ROWS", 16)
    few, alone = expansion(threads=threads)[0], expansion()[0]
    beta = rng.normal(size=(N, 3))
    assert np.array_equal(few.pulled(beta), alone.pulled(beta))
    assert np.array_equal(few.matrix(), alone.matrix())


def test_exact_is_a_gram_like_any_other():
    gram = Exact(expansion()[0])
    index, coef, at = np.array([3, 9, 40]), rng.normal(size=3), np.array([1, 2, 80])
    assert gram.rows(index) == pytest.approx(WHOLE[index])
    assert gram.rows(index, np.zeros((5, N)), np.array([4, 0, 2]))[[4, 0, 2]] == pytest.approx(WHOLE[index])
    assert gram.diag() == pytest.approx(WHOLE.diagonal())
    assert gram.block(index) == pytest.approx(WHOLE[np.ix_(index, index)])
    assert gram.combine(index, coef) == pytest.approx(coef @ WHOLE[index])
    assert gram.combine(index, coef, at) == pytest.approx(coef @ WHOLE[np.ix_(index, at)])
    assert gram.take(at).dense() == pytest.approx(WHOLE[np.ix_(at, at)])
    v = rng.normal(size=N)
    assert gram.along(gram.pulled(v)) == pytest.approx(WHOLE @ v)


def test_exact_remembers_only_what_it_was_told():
    gram = Exact(expansion()[0])
    beta, other, told = np.ones(N), np.arange(N) / N, np.full(K, 2.0)
    gram.remember(beta, told, np.full(N, 3.0))
    assert gram.pulled(beta) is told and (gram.along(told) == 3.0).all()
    assert gram.along(gram.pulled(other)) == pytest.approx(WHOLE @ other)


def test_one_stretch_of_rows_or_two_are_views():
    F = expansion()[0].matrix()
    gram = Reduced(F)
    for index in (np.arange(10, 40), np.r_[np.arange(5, 20), np.arange(50, 90)]):
        part = gram.take(index)
        assert all(np.shares_memory(block.data, F) for block in part.Z.blocks)
        assert part.dense() == pytest.approx(WHOLE[np.ix_(index, index)])
    scattered = np.array([3, 8, 1, 77])
    assert gram.take(scattered).dense() == pytest.approx(WHOLE[np.ix_(scattered, scattered)])


def test_dependent_points_are_left_out_and_indefinite_ones_are_told():
    twice = np.vstack([Z, Z[:2]])
    order, L, least = independent(naive_kernel("rbf", twice, twice, gamma=GAMMA))
    assert sorted(order % 7) == list(range(7)) and abs(least) < 1e-12
    assert L @ L.T == pytest.approx(naive_kernel("rbf", twice[order], twice[order], gamma=GAMMA))
    order, _, least = independent(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert len(order) == 1 and least == pytest.approx(-3.0)
    assert len(independent(np.zeros((3, 3)))[0]) == 0


def test_features_stop_when_told():
    few, _ = expansion()
    assert not few.matrix(stop=lambda: True).any()
