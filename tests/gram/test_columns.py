"""Rows made one at a time are those that come in blocks, wherever the points are."""

import numpy as np
import pytest
from numba import typeof
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


def with_outliers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    X[::50] *= 12.0  # outliers of standardised data, and their neighbours: products in float32 would lose 5 digits
    X[1::50] = X[::50] + 0.3 * rng.normal(size=(18, 4))
    return X


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_outliers_are_float32_from_differences(threads):
    X = with_outliers()
    kernel = Kernel("rbf", 1.0)
    gram = KernelGram(kernel, X, threads)
    assert gram.dtype == np.float32
    assert kernel.rounding((X**2).sum(axis=1).max(), 2.0**-24) > 1e-5
    true = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    at, slots = np.arange(0, 900, 7), np.arange(129)[::-1]
    np.testing.assert_allclose(gram.rows(at), true[at], rtol=0, atol=1e-5)
    out = np.full((130, 900), np.nan, np.float32)
    gram.rows(at, out, slots)
    np.testing.assert_array_equal(out[slots], gram.rows(at))
    assert np.isnan(out[129]).all()
    np.testing.assert_array_equal(gram.rows(at[:5]), [row_alone(gram, i) for i in at[:5]])
    part = gram.take(np.arange(0, 900, 2))
    np.testing.assert_array_equal(part.rows(np.arange(3)), gram.rows(np.arange(0, 6, 2))[:, ::2])


def test_sums_of_outliers_rows_are_those_of_their_rows():
    X = with_outliers()
    gram = KernelGram(Kernel("rbf", 1.0), X, 1)
    rng = np.random.default_rng(1)
    used, at, coef = np.arange(5, 805, 3), np.arange(900)[::-1], rng.normal(size=(267, 2))
    rows = gram.rows(used).astype(np.float64)[:, at]
    np.testing.assert_allclose(gram.combine(used, coef[:, 0], at, exact=False), coef[:, 0] @ rows, rtol=0, atol=1e-9)
    found = gram.combine_watched(used, coef, at, lambda: None)
    np.testing.assert_allclose(found, rows.T @ coef, rtol=0, atol=1e-9)
    true = np.exp(-((X[used, None] - X[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(gram.combine(used, coef[:, 0]), coef[:, 0] @ true, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_leaves_are_compiled_once_whether_points_may_be_written_to_or_not(kernel):
    """Columns of a table come by feature and read-only from pandas: they are used as they are."""
    given = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 3)))
    kept = given.copy(order="F")
    kept.flags.writeable = False
    alone = np.ascontiguousarray(kept[:, :1])
    alone.flags.writeable = False
    columns = [KernelGram(Kernel(kernel, 0.5), X, 1).wide().by_feature() for X in (given, kept, alone)]
    assert np.shares_memory(columns[1].values, kept)
    assert len({typeof(one) for one in columns}) == 1


def test_rows_that_blocks_make_better_are_left_to_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(threads.PIECE_WORK // 16, 16))
    assert KernelGram(Kernel("rbf", 1.0), X, 1).by_feature() is not None
    assert KernelGram(Kernel("rbf", 1.0), np.vstack([X, X[:1]]), 1).by_feature() is None  # worth a thread
    few = csr_matrix(np.where(rng.random((2000, 50)) < 0.02, 1.0, 0.0))
    assert KernelGram(Kernel("rbf", 1.0), few, 1).by_feature() is None
    assert PrecomputedGram(np.eye(5)).by_feature() is None
