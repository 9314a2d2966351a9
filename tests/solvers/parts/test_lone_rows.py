"""Steps that make the rows they miss: the same optimum, no row that they do not need, no more than fit."""

import numpy as np
import pytest

from maxmargin.gram import Kernel, KernelGram, RowCache
from maxmargin.gram import cache as module
from maxmargin.solvers.parts.fixed_sums import offsets
from maxmargin.solvers.parts.lone_rows import steps_over_all
from maxmargin.solvers.parts.pair_steps import Variables

N = 700


def problem(kinked=False):
    rng = np.random.default_rng(0)
    X = np.sort(rng.normal(size=(N, 1)), axis=0) * 4.0  # groups are halves of the line
    y = np.where(np.abs(X[:, 0]) < 2.0, 1.0, -1.0)
    gram = KernelGram(Kernel("rbf", 1.0), X, 1).wide()
    eps = np.full(N, 0.1) if kinked else np.zeros(N)
    lower, upper = np.minimum(y, 0.0) * 10.0, np.maximum(y, 0.0) * 10.0
    beta = np.zeros(N)
    return gram, Variables(y.copy(), beta, lower, upper, eps, np.ones(N), *offsets(beta, lower, upper, eps)), y


@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("edges", [None, [0, N], [0, N // 2, N]])
def test_the_optimum_from_few_rows(kinked, sets, edges):
    gram, x, y = problem(kinked)
    edges = None if edges is None else np.array(edges)
    cache = RowCache(gram, None)
    total = 0
    for _ in range(100):
        steps, violation, missing, made = steps_over_all(cache, x, edges, sets, True, 1e-6, 100_000, cache.spare())
        total += made
        assert missing == -1
        if violation < 1e-6:
            break
    assert violation < 1e-6
    assert 0 < total < N // 4  # two thirds of all variables never move
    assert total == cache.filled == (cache.slot >= 0).sum()
    assert gram.evals == total * N
    np.testing.assert_array_equal(cache.owner[cache.slot[cache.slot >= 0]], np.flatnonzero(cache.slot >= 0))
    assert (cache.slot[np.flatnonzero(x.beta)] >= 0).all()
    np.testing.assert_allclose(x.v, y - gram.matvec(x.beta), atol=1e-9)


def test_a_full_cache_says_which_row_is_missing():
    gram, x, _ = problem()
    cache = RowCache(gram, 5 * N * 8)
    _, violation, missing, made = steps_over_all(cache, x, np.array([0, N]), False, True, 1e-6, 100_000, cache.spare())
    assert made == 5 == cache.filled
    assert violation > 1e-6
    assert missing >= 0 > cache.slot[missing]


def test_many_rows_come_between_looks_at_the_clock(monkeypatch):
    monkeypatch.setattr(module, "PIECE_EVALS", 10 * N)
    gram, x, _ = problem()
    cache = RowCache(gram, None)
    _, violation, missing, made = steps_over_all(cache, x, np.array([0, N]), False, True, 1e-6, 100_000, cache.spare())
    assert made == 10
    assert violation > 1e-6
    assert missing == -1  # there is room: it is made when steps go on
