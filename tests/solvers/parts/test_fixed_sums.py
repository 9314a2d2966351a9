"""Groups of variables with a fixed sum, against numpy's distinct columns."""

import numpy as np
import pytest

from maxmargin.problem import QP
from maxmargin.solvers.parts.fixed_sums import Groups, pairs_keep

RNG = np.random.default_rng(0)
Y = np.where(RNG.random(30) < 0.4, -1.0, 1.0)
CONSTRAINTS = {
    "one sum": np.ones((1, 30)),
    "signs": Y[None, :],
    "two sums": np.vstack([np.ones(30), Y]),
    "a column of zeros": np.vstack([np.ones(30), np.zeros(30)]) * (np.arange(30) % 2),
    "three kinds": np.vstack([np.ones(30), Y, np.arange(30) < 3]),
    "as many as variables": RNG.normal(size=(2, 30)),
}


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_groups_are_the_distinct_columns(kind):
    A = CONSTRAINTS[kind]
    qp = QP(np.eye(30), np.zeros(30), -1.0, 1.0, A, np.zeros(len(A)))
    columns, label = np.unique(A, axis=1, return_inverse=True)
    independent = np.linalg.matrix_rank(columns) == columns.shape[1]
    assert pairs_keep(qp) == independent
    if not independent:
        with pytest.raises(ValueError, match="pair steps"):
            Groups.of(qp)
        return
    groups = Groups.of(qp)
    np.testing.assert_array_equal(groups.columns, columns)
    np.testing.assert_array_equal(groups.label, label.ravel())


def test_without_constraints_there_is_nothing_to_keep():
    qp = QP(np.eye(3), np.zeros(3), -1.0, 1.0)
    assert pairs_keep(qp)
    assert Groups.of(qp).count == 0


@pytest.mark.parametrize("slopes", ["two values", "all different"])
@pytest.mark.parametrize("seed", range(4))
def test_balanced_multipliers_have_the_least_gap(slopes, seed):
    """Whichever way the level is found: no level of a grid proves more."""
    rng = np.random.default_rng(seed)
    n = 400
    p = rng.normal(size=n) if slopes == "all different" else np.where(rng.random(n) < 0.2, 1.0, -1.0)
    qp = QP(np.eye(n), p, np.where(p > 0, -1.0, 0.0), np.where(p > 0, 0.0, 1.0), np.ones((1, n)), [0.0])
    beta = np.zeros(n)
    groups = Groups.of(qp)
    found = groups.balanced(qp, beta, np.zeros(n))
    least = min(qp.gap(beta, np.array([eta]), qp.gradient(beta, np.array([eta]))) for eta in np.linspace(-4, 4, 801))
    assert qp.gap(beta, found, qp.gradient(beta, found)) <= least + 1e-9


def test_a_violation_that_is_no_number_is_none():
    qp = QP(np.eye(3), np.zeros(3), 0.0, 1.0)
    assert np.isnan(qp.violation(np.array([0.5, 0.0, 1.0]), np.array([0.0, np.nan, 0.0])))
    assert qp.violation(np.array([0.5, 0.0, 1.0]), np.array([0.0, 0.0, np.nan])) != 0.0
    assert qp.violation(np.array([0.0, 0.0, 1.0]), np.array([2.0, -3.0, 5.0])) == 8.0
