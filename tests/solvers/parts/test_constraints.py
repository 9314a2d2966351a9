"""Nearest feasible points and multipliers of least violation, against the referee and by their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.goal import FEASIBLE
from maxmargin.problem import QP
from maxmargin.solvers.parts.constraints import Equality
from referee import referee


def problem(n=30, k=3, seed=0, infinite=False, kinked=False) -> tuple[QP, np.ndarray]:
    """A random QP and a point inside its box that holds its constraints."""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.normal(size=(2, n)), axis=0)
    if infinite:
        low[rng.random(n) < 0.3], high[rng.random(n) < 0.3] = -np.inf, np.inf
    inside = np.clip(rng.normal(size=n), low, high)
    A = rng.normal(size=(k, n))
    B = rng.normal(size=(n, n))
    eps = rng.choice([0.0, 0.5], n) if kinked else np.zeros(n)
    return QP(B @ B.T, rng.normal(size=n), low, high, A, A @ inside, eps), inside


def check_held(qp, beta):
    assert (beta >= qp.lower).all() and (beta <= qp.upper).all()
    np.testing.assert_allclose(qp.A @ beta, qp.b, rtol=0, atol=1e-11 * max(1.0, np.abs(beta).sum()))


@given(seed=st.integers(0, 10**6), k=st.integers(0, 5), infinite=st.booleans(), kinked=st.booleans())
def test_feasible_from_anywhere(seed, k, infinite, kinked):
    qp, _ = problem(k=k, seed=seed, infinite=infinite, kinked=kinked)
    start = 3.0 * np.random.default_rng(seed + 1).normal(size=qp.n)
    check_held(qp, Equality.of(qp).feasible(start, qp.lower, qp.upper, qp.eps))


@pytest.mark.parametrize("seed", range(5))
def test_what_holds_already_stays(seed):
    qp, inside = problem(seed=seed)
    np.testing.assert_array_equal(Equality.of(qp).feasible(inside, qp.lower, qp.upper, qp.eps), inside)


@pytest.mark.parametrize("seed", range(5))
def test_nearest_point(seed):
    """min ½ ‖β − start‖² over the box and the constraints."""
    qp, _ = problem(seed=seed)
    start = np.clip(3.0 * np.random.default_rng(seed).normal(size=qp.n), qp.lower, qp.upper)
    near, _ = Equality.of(qp)._nearest(start, qp.lower, qp.upper)
    best = referee(np.eye(qp.n), -start, qp.lower, qp.upper, qp.A, qp.b)
    check_held(qp, near)
    assert np.sum((near - start) ** 2) == pytest.approx(np.sum((best.beta - start) ** 2), rel=1e-6, abs=1e-8)


def test_bounds_and_kinks_are_left_alone_where_they_can_be():
    qp, _ = problem(60, 2, kinked=True)
    equality = Equality.of(qp)
    rng = np.random.default_rng(1)
    beta = equality.feasible(rng.normal(size=60), qp.lower, qp.upper, qp.eps)
    at_corner = (beta <= qp.lower) | (beta >= qp.upper) | ((beta == 0.0) & (qp.eps > 0.0))
    moved = np.where(at_corner, beta, np.clip(beta + 1e-6 * rng.normal(size=60), qp.lower, qp.upper))
    again = equality.feasible(moved, qp.lower, qp.upper, qp.eps)
    check_held(qp, again)
    np.testing.assert_array_equal(again[at_corner], beta[at_corner])


def test_no_feasible_point():
    n = 10
    qp = QP(np.eye(n), np.zeros(n), 0.0, 1.0, np.ones((1, n)), [n + 1.0])
    with pytest.raises(ValueError, match="a feasible QP was asked for; found that no point of the box holds its 1"):
        Equality.of(qp).feasible(np.zeros(n), qp.lower, qp.upper, qp.eps)
    two = QP(np.eye(n), np.zeros(n), 0.0, 1.0, np.vstack([np.ones(n), np.arange(n)]), [3.0, 0.5])
    with pytest.raises(ValueError, match="holds its 2 equality constraints"):
        Equality.of(two).feasible(np.full(n, 0.5), two.lower, two.upper, two.eps)


def test_the_only_feasible_point_is_a_corner():
    n = 10
    A = np.vstack([np.ones(n), np.linspace(-1, 1, n)])
    qp = QP(np.eye(n), np.zeros(n), -1.0, 1.0, A, A @ np.ones(n))
    np.testing.assert_allclose(Equality.of(qp).feasible(np.zeros(n), qp.lower, qp.upper, qp.eps), np.ones(n))


@pytest.mark.parametrize("lack", [1e-6, 1e-8, 1e-10])
def test_a_lack_whose_square_is_rounding_is_mended(lack):
    """The only one of its class is at its bound and has to come off it by next to nothing: ν next to the largest."""
    y = np.append(-np.ones(11), 1.0)
    A = np.vstack([np.ones(12), y])
    qp = QP(np.eye(12), np.zeros(12), np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0), A, [0.0, 2.0 - lack])
    start = np.zeros(12)
    start[[1, 5, 11]] = -0.517, -0.483, 1.0
    beta = Equality.of(qp).feasible(start, qp.lower, qp.upper, qp.eps)
    assert qp.infeasibility(beta) < 1e-13
    assert np.abs(beta - start).max() < 2 * lack


@pytest.mark.parametrize("box", [10.0, np.inf])
@pytest.mark.parametrize("kink", [0.0, 1.0])
@pytest.mark.parametrize("bias, side", [(False, -1.0), (False, 0.0), (False, 1.0), (True, 0.0)])
def test_a_row_of_one_large_entry_is_held_to_its_own_terms(box, kink, bias, side):
    """1e-14 at all samples but one: the coefficient of that one comes off 0, perhaps a bound, and no other moves."""
    rng = np.random.default_rng(0)
    A = np.vstack([np.append(1e-14 * rng.uniform(0.5, 2.0, 9), 1.0)] + [np.ones(10)] * bias)
    start = np.append(rng.normal(size=9), 0.0)
    start[:9] -= start[:9].mean()
    if side * (A[0] @ start) > 0.0:
        start *= -1.0  # what is missing is on the side where the last one may go
    lower, upper = np.full(10, -box), np.full(10, box)
    lower[9], upper[9] = (-box if side <= 0.0 else 0.0), (box if side >= 0.0 else 0.0)
    qp = QP(np.eye(10), np.zeros(10), lower, upper, A, np.zeros(len(A)), kink)
    assert qp.infeasibility(start) > 1e-3
    beta = Equality.of(qp).feasible(start, qp.lower, qp.upper, qp.eps)
    assert qp.infeasibility(beta) <= FEASIBLE
    assert np.abs(beta - start).max() < 1e-13


def test_dependent_rows_are_one_constraint():
    qp, inside = problem(k=2)
    A = np.vstack([qp.A, qp.A[0] - 2.0 * qp.A[1], 1e6 * qp.A[0]])
    wide = QP(qp.H, qp.p, qp.lower, qp.upper, A, A @ inside)
    equality = Equality.of(wide)
    assert equality.count == 2
    np.testing.assert_allclose(equality.Q @ equality.Q.T, qp.n * np.eye(2), atol=1e-8)
    check_held(qp, equality.feasible(np.zeros(qp.n), qp.lower, qp.upper, qp.eps))
    with pytest.raises(ValueError, match="contradict each other"):
        Equality.of(QP(qp.H, qp.p, qp.lower, qp.upper, A, A @ inside + [0, 0, 1.0, 0]))


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("kinked", [False, True])
def test_multipliers_of_an_optimum(k, kinked):
    """At the optimum the least violation is none, and the multipliers are the referee's."""
    qp, _ = problem(k=k, kinked=kinked)
    best = referee(qp.H, qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)
    equality = Equality.of(qp)
    snapped = best.beta.copy()
    for place in (qp.lower, qp.upper, np.where(qp.eps > 0, 0.0, np.nan)):
        snapped = np.where(np.abs(snapped - place) < 1e-6, place, snapped)
    eta = equality.T.T @ equality.multipliers(qp, snapped, qp.times(snapped))
    np.testing.assert_allclose(eta, best.multipliers, atol=1e-4)
    assert qp.violation(snapped, qp.gradient(snapped, eta)) < 1e-3


@pytest.mark.parametrize("apart", [1e-4, 1e-7, 1e-9])
def test_multipliers_of_functions_that_tell_points_apart(apart):
    """A slope of 1 / apart separates the first two points with all others on their sides: nothing is violated."""
    x, y = (
        np.array([1.0, 1.0 + 3.0 * apart, 1.0 - apart, 1.0 + 8.0 * apart, -1.3]),
        np.array([-1.0, 1.0, -1.0, 1.0, -1.0]),
    )
    K = np.exp(-np.abs(x[:, None] - x))
    qp = QP(K, -y, np.minimum(y, 0.0), np.maximum(y, 0.0), np.vstack([np.ones(5), x]), np.zeros(2))
    equality, beta = Equality.of(qp), np.zeros(5)
    eta = equality.T.T @ equality.multipliers(qp, beta, np.zeros(5))
    assert qp.violation(beta, qp.gradient(beta, eta)) < 1e-4


@pytest.mark.parametrize("k", [1, 3])
def test_multipliers_minimise_the_squared_violations(k):
    qp, _ = problem(k=k, kinked=True)
    equality = Equality.of(qp)
    rng = np.random.default_rng(3)
    beta = np.clip(rng.normal(size=qp.n), qp.lower, qp.upper)
    H_beta = qp.times(beta)

    def squares(lam):
        s = H_beta + qp.p + equality.Q.T @ lam
        up, down = s + np.where(beta >= 0, qp.eps, -qp.eps), s + np.where(beta > 0, qp.eps, -qp.eps)
        grow = np.where(beta < qp.upper, np.maximum(-up, 0.0), 0.0)
        shrink = np.where(beta > qp.lower, np.maximum(down, 0.0), 0.0)
        return np.sum(grow**2 + shrink**2)

    lam = equality.multipliers(qp, beta, H_beta)
    least = squares(lam)
    for _ in range(50):
        assert squares(lam + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=k)) >= least - 1e-12


def test_without_constraints():
    qp, _ = problem(k=0)
    equality = Equality.of(qp)
    assert equality.count == 0
    np.testing.assert_array_equal(
        equality.feasible(np.full(qp.n, 9.0), qp.lower, qp.upper, qp.eps), np.minimum(9.0, qp.upper)
    )
    assert equality.multipliers(qp, qp.lower, qp.times(qp.lower)).shape == (0,)
    assert equality.basis(np.arange(3)).shape == (3, 0)
