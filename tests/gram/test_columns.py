"""Rows made one at a time are those that come in blocks, wherever the points are."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from maxmargin import threads
from maxmargin._jit import jit
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.gram.columns import kernel_row


@jit
def one_row(i, points, row):
    kernel_row(i, points, row)


def row_alone(gram, i):
    points = gram.by_feature()
    row = np.full(gram.n, np.nan, points.values.dtype)
    one_row(i, points, row)
    return row


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "wendland"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (513, 4), (1100, 9)])
@pytest.mark.parametrize("wide", [False, True])
def test_rows_alone_are_rows_of_blocks(kernel, n, d, wide):
    X = np.random.default_rng(0).normal(size=(n, d))
    gram = KernelGram(Kernel(kernel, 0.3, 0.5, 3), X, 1)
    gram = gram.wide() if wide else gram
    at = np.array([0, n // 2, n - 1])
    rows = np.array([row_alone(gram, i) for i in at])
    assert rows.dtype == gram.dtype
    size = np.abs(gram.diag()).max()
    np.testing.assert_allclose(rows, gram.rows(at), rtol=0, atol=(1e-12 if gram.dtype == np.float64 else 1e-5) * size)


def test_far_points_lose_no_digits():
    rng = np.random.default_rng(0)
    near = rng.normal(size=(300, 2))
    X = near + np.where(np.arange(300)[:, None] % 2, 2.0**40, -(2.0**40))  # two clusters: no centre is near to both
    near = X - np.where(np.arange(300)[:, None] % 2, 2.0**40, -(2.0**40))  # as far as X knows them
    gram = KernelGram(Kernel("rbf", 0.5), X, 1)
    assert gram.dtype == np.float64
    same = np.arange(300) % 2 == 1
    true = np.where(same, np.exp(-0.5 * ((near - near[7]) ** 2).sum(axis=1)), 0.0)
    np.testing.assert_allclose(row_alone(gram, 7), true, rtol=0, atol=1e-14)


def test_rows_that_blocks_make_better_are_left_to_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(threads.PIECE_WORK // 16, 16))
    assert KernelGram(Kernel("rbf", 1.0), X, 1).by_feature() is not None
    assert KernelGram(Kernel("rbf", 1.0), np.vstack([X, X[:1]]), 1).by_feature() is None  # worth a thread
    few = csr_matrix(np.where(rng.random((2000, 50)) < 0.02, 1.0, 0.0))
    assert KernelGram(Kernel("rbf", 1.0), few, 1).by_feature() is None
    assert PrecomputedGram(np.eye(5)).by_feature() is None
