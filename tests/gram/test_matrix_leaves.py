"""Leaves that read a symmetric matrix where it lies."""

import numpy as np
import pytest

from maxmargin.gram.matrix_leaves import panel_product


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [1, 6, 300])
def test_rows_up_to_the_diagonal_stand_for_columns_as_well(rows, dtype):
    rng = np.random.default_rng(0)
    n = 2500
    panel, x = rng.normal(size=(rows, n)).astype(dtype), rng.normal(size=n).astype(dtype)
    panel[:, n - rows :] += panel[:, n - rows :].T.copy()
    whole = np.zeros((n, n))
    whole[n - rows :] = panel
    whole[: n - rows, n - rows :] = panel[:, : n - rows].T
    out = np.ones(n)
    panel_product(panel, x, out)
    assert out == pytest.approx(1.0 + whole @ x, rel=0.0, abs=1e-10 if dtype == np.float64 else 1e-3)
