"""Small systems: the solution of the shortest length, and an end for numbers that are none."""

import numpy as np
import pytest

from maxmargin.solvers.parts.least_squares import least_squares


def test_the_shortest_solution():
    M = np.array([[1.0, 1.0], [2.0, 2.0]])
    np.testing.assert_allclose(least_squares(M, np.array([2.0, 4.0])), [1.0, 1.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_an_error_and_no_endless_search(bad):
    M, right = np.eye(3), np.ones(3)
    M[1, 2] = bad
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        least_squares(M, right)
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        least_squares(np.eye(3), np.array([1.0, bad, 0.0]))
