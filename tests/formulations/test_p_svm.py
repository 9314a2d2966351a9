"""The Potential SVM as a formulation: its predictor, its units, its proof without a box."""

import numpy as np
import pytest

from cases import verdict_on
from maxmargin.formulations import PSVM, Samples
from maxmargin.gram import Relation
from maxmargin.problem import QP
from maxmargin.solvers import solve

RNG = np.random.default_rng(0)
K = RNG.normal(size=(40, 25)) * RNG.exponential(size=25) + RNG.normal(size=25)
Y = K[:, :5].sum(axis=1) + 3.0 + 0.3 * RNG.normal(size=40)
ONES = np.ones(40)


def fit(formulation, K=K, y=Y, weight=ONES):
    """The problem, its solution and its decision function at the samples."""
    qp = formulation.qp(Samples(Relation.of(K, weight), y, weight))
    solution = solve(qp, tol=1e-10)
    coef, intercept = formulation.function(qp, formulation.decision(qp, solution))
    return qp, solution, K @ coef + intercept


def test_the_predictor_is_that_of_the_paper():
    """(8): K̃α + b, b the mean of the targets."""
    qp, solution, f = fit(PSVM(2.0, 0.1))
    away = K - K.mean(axis=0)
    np.testing.assert_allclose(
        f, away / np.linalg.norm(away, axis=0) @ (Y.std() * solution.beta) + Y.mean(), atol=1e-10
    )
    assert np.abs(solution.beta).max() == 2.0
    residual = (Y - f) / Y.std()
    assert np.abs(away.T @ residual / np.linalg.norm(away, axis=0))[np.abs(solution.beta) < 2.0].max() <= 0.1 + 1e-8


@pytest.mark.parametrize("C", [0.5, np.inf])
def test_units_of_columns_and_targets_do_not_matter(C):
    _, solution, f = fit(PSVM(C, 0.1))
    unit = 10.0 ** RNG.integers(-4, 5, 25)
    _, other, g = fit(PSVM(C, 0.1), K * unit + 7.0, 100.0 * Y - 5.0)
    np.testing.assert_allclose(other.beta, solution.beta, atol=1e-6)
    np.testing.assert_allclose(g, 100.0 * f - 5.0, atol=1e-5)


def test_weights_are_copies():
    weight = RNG.integers(0, 4, 40).astype(float)
    weight[:2] = 1.0
    copies = np.repeat(np.arange(40), weight.astype(int))
    formulation = PSVM(1.0, 0.1)
    _, solution, f = fit(formulation, weight=weight)
    _, other, g = fit(formulation, K[copies], Y[copies], np.ones(len(copies)))
    np.testing.assert_allclose(solution.beta, other.beta, atol=1e-7)
    np.testing.assert_allclose(f[copies], g, atol=1e-7)


def test_each_column_may_have_a_box_of_its_own():
    box = np.where(np.arange(25) < 5, 0.2, np.inf)
    qp, solution, _ = fit(PSVM(box, 0.1))
    assert np.array_equal(qp.upper, box)
    assert (np.abs(solution.beta) <= box).all() and (np.abs(solution.beta[:5]) == 0.2).any()


@pytest.mark.parametrize("C", [0.5, 1e3, np.inf])
def test_the_gap_bounds_the_optimum(C):
    """At any point, whether the box or the scaled residual proves it."""
    qp = PSVM(C, 0.1).qp(Samples(Relation.of(K, ONES), Y, ONES))
    best = verdict_on(qp).objective
    solution = solve(qp, tol=1e-10)
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-6, 1e-3, 1e-1, 10.0):
        beta = np.clip(solution.beta + size * rng.normal(size=25), qp.lower, qp.upper)
        gap = qp.certificate(beta, np.zeros(0)).gap
        assert gap >= qp.objective(beta) - best - 1e-7 * abs(best)
        assert np.isfinite(gap)
    assert qp.certificate(solution.beta, np.zeros(0)).relative_gap < 1e-7


def test_constant_targets_need_no_column():
    qp, solution, f = fit(PSVM(1.0, 0.1), y=np.full(40, 4.2))
    assert not solution.beta.any()
    np.testing.assert_allclose(f, 4.2)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0, np.inf])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3, 2.0])
def test_the_bound_by_the_box_is_that_of_any_problem(C, epsilon):
    """At any point; the bound by a scaled residual takes its place only where it is smaller."""
    qp = PSVM(C, epsilon).qp(Samples(Relation.of(K, ONES), Y, ONES))
    rng = np.random.default_rng(4)
    for used in (0.0, 0.3, 1.0):
        beta = np.clip(np.where(rng.random(qp.n) < used, rng.normal(size=qp.n), 0.0), -C, C)
        slope = qp.times(beta) + qp.p
        plain, own = QP._bounds(qp, beta, np.zeros(0), slope), qp._bounds(beta, np.zeros(0), slope)
        assert own[0] <= plain[0] * (1 + 1e-12) + 1e-12
        if np.isfinite(own[1]):
            np.testing.assert_allclose(own, plain, rtol=1e-12, atol=1e-12)
