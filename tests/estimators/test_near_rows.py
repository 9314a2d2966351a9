"""Rows of the kernel matrix that machines of folds share."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from maxmargin.estimators.near_rows import NearRows
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram


def test_the_matrix_grows_and_rows_are_computed_once_when_they_are_used():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    order, looks = rng.permutation(200), []
    for gram in (KernelGram(Kernel("rbf", gamma=0.5), X), PrecomputedGram(K)):
        known = NearRows(gram, order[:30], 10, lambda: looks.append(1))
        assert gram.evals == 10 * 200 + 20 * 30
        for count, used in ((30, 10), (30, 25), (50, 40), (50, 40), (50, 50)):
            before, fresh = gram.evals, count - len(known.near)
            known.add(order[len(known.near) : count])
            assert gram.evals - before == fresh * count
            near = order[:count]
            assert_array_equal(known.near, near)
            assert_array_equal(known.place[near], np.arange(count))
            assert (known.place >= 0).sum() == count
            assert_allclose(known.matrix, K[np.ix_(near, near)], rtol=1e-12)
            coef = np.zeros((3, count))
            coef[:, :used] = rng.normal(size=(3, used))
            assert_allclose(known.values(coef), coef @ K[near], atol=1e-12)
        assert gram.evals == 50 * 200 + 20 * 30 + 20 * 50
    assert looks


def test_all_samples_are_near():
    K = np.cov(np.random.default_rng(0).normal(size=(20, 40)))
    known = NearRows(PrecomputedGram(K), np.arange(20), 5, lambda: None)
    assert known.matrix is K
    assert_allclose(known.values(np.eye(20)), K)
