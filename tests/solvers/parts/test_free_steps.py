"""A factor of the free columns that follows them, and steps that end at the minimum on their sides of 0."""

import numpy as np
import pytest

from maxmargin.monitor import Monitor
from maxmargin.solvers.parts.coordinate_violations import violations
from maxmargin.solvers.parts.free_steps import ANEW, RIDGE, follow, free_steps
from maxmargin.solvers.parts.working_columns import Part

COLUMNS = 24


def matrix(rows, seed=0):
    A = np.random.default_rng(seed).normal(size=(rows, COLUMNS))
    return np.ascontiguousarray(A.T @ A)


def box(width=9.0):
    return np.full(COLUMNS, -width), np.full(COLUMNS, width)


def test_a_factor_follows_the_columns_that_are_free():
    H, (lower, upper), rng = matrix(60), box(1.0), np.random.default_rng(1)
    F, R, m = np.empty(COLUMNS, np.int64), np.full((COLUMNS, COLUMNS), np.nan), 0
    beta = np.zeros(COLUMNS)
    for _ in range(40):
        some = rng.choice(COLUMNS, 5, replace=False)
        beta[some] = rng.choice([0.0, -0.5, 0.5, 1.0, -1.0], 5)  # at 0 and on a bound a column is not free
        m, _ = follow(H, beta, lower, upper, F, R, m)
        free = np.flatnonzero((beta != 0.0) & (np.abs(beta) < 1.0))
        assert np.array_equal(np.sort(F[:m]), free)
        U = np.triu(R[:m, :m])
        np.testing.assert_allclose(U.T @ U, H[np.ix_(F[:m], F[:m])], atol=1e-12 * H.max())


def test_a_factor_without_room_is_asked_for():
    H, (lower, upper) = matrix(60), box()
    assert follow(H, np.ones(COLUMNS), lower, upper, np.empty(3, np.int64), np.empty((3, 3)), 0)[0] == -1
    s, eps = -np.ones(COLUMNS), np.zeros(COLUMNS)
    found = free_steps(H, s, np.ones(COLUMNS), eps, lower, upper, np.empty(0, np.int64), np.empty((0, 0)), 0, False, 5)
    assert found == (0, 0, ANEW)


def test_a_copy_of_a_column_has_a_ridge_of_its_own():
    H = matrix(60)
    H[:, 1], H[1] = H[:, 0], H[0]
    H[1, 1] = H[0, 0]
    beta = np.where(np.arange(COLUMNS) < 3, 1.0, 0.0)
    F, R = np.empty(COLUMNS, np.int64), np.empty((COLUMNS, COLUMNS))
    m, _ = follow(H, beta, *box(), F, R, 0)
    assert m == 3 and np.isfinite(np.triu(R[:3, :3])).all() and R[1, 1] >= np.sqrt(RIDGE * H[1, 1])


@pytest.mark.parametrize("rows", [60, 10])  # definite, and of low rank
@pytest.mark.parametrize("width", [np.inf, 0.05])
def test_a_part_is_solved(rows, width):
    H, (lower, upper), rng = matrix(rows), box(width), np.random.default_rng(2)
    p, eps = H @ rng.normal(size=COLUMNS), np.full(COLUMNS, 3.0)
    part = Part(H, p, np.zeros(COLUMNS), eps, lower, upper)
    assert part.solve(1e-8, Monitor(), 1) is None
    s = H @ part.beta + p
    np.testing.assert_allclose(part.s, s, atol=1e-9 * np.abs(p).max())  # what it has kept of the slopes is true
    assert violations(part.beta, s, eps, lower, upper).max() <= 1e-7
    assert (np.abs(part.beta) <= width).all()
