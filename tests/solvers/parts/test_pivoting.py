"""All changes of the active set at once."""

import numpy as np
import pytest

from maxmargin.goal import Goal
from maxmargin.problem import QP
from maxmargin.solvers import InteriorPoint
from maxmargin.solvers.parts.pivoting import pivot


def problem(n, k, seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n + 5))
    K, q = Z @ Z.T / n, 2.0 * rng.normal(size=n)
    lower, upper = -rng.uniform(0.1, 1.0, n), rng.uniform(0.1, 1.0, n)
    E = rng.normal(size=(k, n))
    return K, q, lower, upper, E, E @ rng.uniform(0.5 * lower, 0.5 * upper)


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_solution_is_exact(k, seed):
    K, q, lower, upper, E, e = problem(40, k, seed)
    referee = InteriorPoint().solve(QP(K, q, lower, upper, E, e), Goal(gap=1e-12)).beta
    near = np.where(np.abs(referee - lower) < 0.1, lower, np.where(np.abs(referee - upper) < 0.1, upper, referee))
    x, r = pivot(K, q, lower, upper, E, e, near)
    np.testing.assert_allclose(x, referee, atol=1e-8)
    slope = K @ x + q + E.T @ r
    inside = (x > lower) & (x < upper)
    assert np.abs(slope[inside]).max() < 1e-10
    assert (slope[x == lower] >= -1e-10).all() and (slope[x == upper] <= 1e-10).all()
    np.testing.assert_allclose(E @ x, e, atol=1e-10)


def test_a_guess_that_does_not_matter():
    K, q, lower, upper, E, e = problem(30, 0, 7)
    answers = [pivot(K, q, lower, upper, E, e, start)[0] for start in (lower, upper, np.zeros(30))]
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-10)
    np.testing.assert_allclose(answers[2], answers[0], atol=1e-10)


def test_variables_that_are_the_same_share():
    ones = np.ones((6, 6))
    x, _ = pivot(ones, -np.ones(6), np.zeros(6), np.ones(6), np.zeros((0, 6)), np.zeros(0), np.full(6, 0.5))
    np.testing.assert_allclose(x, 1 / 6, atol=1e-5)
    assert abs(x.sum() - 1.0) < 1e-10


def test_without_a_minimum_there_is_no_answer():
    K = np.diag([1.0, -1.0])
    assert pivot(K, np.zeros(2), -np.ones(2), np.ones(2), np.zeros((0, 2)), np.zeros(0), np.full(2, 0.5)) is None


def test_a_variable_that_has_no_choice():
    K, q, lower, upper, E, e = problem(10, 0, 8)
    upper[3] = lower[3]
    x, _ = pivot(K, q, lower, upper, E, e, np.clip(np.zeros(10), lower, upper))
    assert x[3] == lower[3]
