"""X w without anybody to share it out has the digits of X w with."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.rows import Rows
from maxmargin.rows.base import LEAST_WORK


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_matrix, sp.csr_array], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 7, 3 * LEAST_WORK // 40])
def test_few_rows_and_many(form, dtype, n):
    rng = np.random.default_rng(0)
    X = form(np.where(rng.random((n, 40)) < 0.5, rng.normal(size=(n, 40)), 0.0).astype(dtype))
    for w in (rng.normal(size=(40, 3)), rng.normal(size=(3, 40)).T):
        np.testing.assert_array_equal(Rows.times(X, w), Rows.of(X).dot(w))


def test_parts_are_put_together():
    X = np.arange(12.0).reshape(4, 3)
    w = np.ones((3, 1))
    np.testing.assert_array_equal(Rows.times([X, X], w), np.vstack([X @ w, X @ w]))
