"""The QP and its certificate: the gap is a bound, the primal is the regularised risk, errors say what to do."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import DEFINITE, VARIANTS, make_data
from maxmargin import solve
from maxmargin.formulations import CSVC, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored, PrecomputedGram, Ridged
from maxmargin.losses import Hinge
from maxmargin.problem import ERM, QP
from maxmargin.solution import Certificate
from referee import naive_kernel, objective, referee

WITH_ERM = [v for v in VARIANTS if hasattr(v.formulation, "erm")]


def random_qp(rng, n, k, kinked, ridged, infinite):
    """A convex QP with a feasible β; without a ridge the box is finite, so that every gap is."""
    B = rng.normal(size=(n, rng.integers(1, n + 1)))
    H = B @ B.T
    low, high = np.sort(rng.normal(size=(2, n)), axis=0)
    ridge = rng.uniform(0.1, 2.0, n)
    if infinite:
        low[rng.random(n) < 0.5] = -np.inf
        high[rng.random(n) < 0.5] = np.inf
    gram = PrecomputedGram(H)
    if ridged or infinite:
        gram, H = Ridged(gram, ridge), H + np.diag(ridge)
    beta = np.clip(rng.normal(size=n), low, high)
    A = rng.normal(size=(k, n))
    eps = rng.choice([0.0, 0.5], n) if kinked else None
    return QP(gram, rng.normal(size=n), low, high, A, A @ beta, eps), H, beta


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 6),
    k=st.integers(0, 2),
    kinked=st.booleans(),
    ridged=st.booleans(),
    infinite=st.booleans(),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
)
@settings(max_examples=150)
def test_gap_bounds_the_suboptimality_for_any_multipliers(seed, n, k, kinked, ridged, infinite, scale):
    rng = np.random.default_rng(seed)
    qp, H, beta = random_qp(rng, n, k, kinked, ridged, infinite)
    best = referee(H, qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)
    above = qp.objective(beta) - best.objective
    eta = scale * rng.normal(size=k)
    certificate = qp.certificate(beta, eta)
    assert certificate.infeasibility < 1e-12
    assert certificate.gap >= above - 1e-6 * max(1.0, abs(best.objective))
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual)
    assert certificate.dual == pytest.approx(-objective(H, qp.p, qp.eps, beta))


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 6), k=st.integers(0, 2), kinked=st.booleans(), infinite=st.booleans()
)
@settings(max_examples=100)
def test_gap_vanishes_at_the_optimum(seed, n, k, kinked, infinite):
    qp, H, _ = random_qp(np.random.default_rng(seed), n, k, kinked, True, infinite)
    best = referee(H, qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)
    assert qp.certificate(best.beta, best.multipliers).gap == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("kernel", DEFINITE)
@pytest.mark.parametrize("variant", WITH_ERM, ids=str)
@pytest.mark.parametrize("kind", ["plain", "weighted"])
def test_primal_of_the_certificate_is_the_regularised_risk(variant, kernel, kind):
    data = make_data(kind, 40)
    K = naive_kernel(kernel, data.X, gamma=0.3)
    qp = variant.formulation.qp(Samples(PrecomputedGram(K), variant.targets(data), data.weight))
    erm = variant.formulation.erm(Samples(PrecomputedGram(K), variant.targets(data), data.weight))
    rng = np.random.default_rng(5)
    for _ in range(5):
        beta = np.clip(rng.normal(size=qp.n), qp.lower, qp.upper)
        if len(qp.A):  # move along the constraint, inside the box
            positive, negative = beta > 0, beta < 0
            share = beta[positive].sum() / -beta[negative].sum()
            beta[positive] /= max(share, 1.0)
            beta[negative] *= min(share, 1.0)
        eta = rng.normal(size=len(qp.A))
        certificate = qp.certificate(beta, eta)
        assert certificate.infeasibility < 1e-12
        assert certificate.primal == pytest.approx(erm.objective(beta, eta), rel=1e-10)
        assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-10)
        assert certificate.gap > 0
        assert certificate.relative_gap == pytest.approx(
            certificate.gap / max(abs(certificate.primal), abs(certificate.dual))
        )


def test_regularised_risk_by_hand():
    K = np.array([[2.0, 1.0], [1.0, 3.0]])
    erm = ERM(K, np.array([1.0, -1.0]), np.array([10.0, 100.0]), Hinge(), np.ones((1, 2)))
    beta, eta = np.array([1.0, -1.0]), np.array([0.5])
    # Kβ = (1, −2), f = (1.5, −1.5), margins 1.5 and 1.5: only the penalty ½ (1 + 2) is left.
    assert erm.objective(beta, eta) == pytest.approx(1.5)
    np.testing.assert_allclose(erm.decision(beta, eta), [1.5, -1.5])
    # f = (−0.5, −3.5): the first margin is −0.5, its hinge 1.5.
    assert erm.objective(beta, np.array([-1.5])) == pytest.approx(1.5 + 10.0 * 1.5)
    assert ERM(K, erm.y, erm.cost, Hinge()).objective(beta, np.zeros(0)) == pytest.approx(1.5)


def test_gap_without_curvature_in_an_infinite_box_is_infinite():
    qp = QP(np.eye(1), [1.0], [-np.inf], [np.inf])
    certificate = qp.certificate(np.zeros(1), np.zeros(0))
    assert certificate.gap == np.inf
    assert certificate.relative_gap == np.inf  # not NaN, which would pass no comparison


def test_violation_by_hand():
    # s = (0, 1) + (−1, 1) = (−1, 2): the first may only grow and wants to, the second may only shrink and wants to.
    qp = QP(np.eye(2), [-1.0, 1.0], [0.0, 0.0], [1.0, 1.0], np.ones((1, 2)), [1.0])
    beta = np.array([0.0, 1.0])
    for eta in (-2.0, -0.5, 0.0, 1.0):  # any level between the two: m − M does not depend on it
        assert qp.violation(beta, qp.gradient(beta, np.array([eta]))) == pytest.approx(3.0)
    # The other way round both stand where they want to be.
    beta = np.array([1.0, 0.0])
    assert qp.violation(beta, qp.gradient(beta, np.array([0.0]))) == 0.0
    # A free variable may do both, so that any slope violates.
    beta = np.array([0.5, 0.5])
    assert qp.violation(beta, np.array([-0.25, 0.5])) == pytest.approx(0.75)


def test_violation_at_the_corner_of_the_kink():
    qp = QP(np.eye(1), [0.0], [-1.0], [1.0], eps=[0.5])
    zero = np.zeros(1)
    assert qp.violation(zero, np.array([0.4])) == 0.0
    assert qp.violation(zero, np.array([-0.4])) == 0.0
    assert qp.violation(zero, np.array([0.7])) == pytest.approx(0.2)
    assert qp.violation(zero, np.array([-0.7])) == pytest.approx(0.2)
    assert qp.violation(np.array([0.1]), np.array([-0.5])) == 0.0
    assert qp.violation(np.array([-0.1]), np.array([-0.5])) == pytest.approx(1.0)


def test_infeasibility_by_hand():
    qp = QP(np.eye(2), [0.0, 0.0], [0.0, -1.0], [1.0, np.inf], np.array([[1.0, 1.0], [1.0, -1.0]]), [1.0, 0.0])
    assert qp.infeasibility(np.array([0.5, 0.5])) == 0.0
    assert qp.infeasibility(np.array([0.5, 0.25])) == pytest.approx(0.25 / 0.75)  # of what is added up
    assert qp.infeasibility(np.array([-3.0, 0.0])) == pytest.approx(3.0)  # of the box, and 4 of 4 of a sum
    assert QP(np.eye(1), [0.0], [0.0], [1.0]).infeasibility(np.array([1.5])) == pytest.approx(0.5)
    assert QP(np.eye(1), [0.0], [0.0], [1.0]).infeasibility(np.array([-0.5])) == pytest.approx(0.5)


def test_objective_and_gradient_by_hand():
    qp = QP([[2.0, 1.0], [1.0, 3.0]], [1.0, -1.0], -5.0, 5.0, [[1.0, 2.0]], [0.0], [0.5, 0.0])
    beta = np.array([-2.0, 1.0])
    assert qp.objective(beta) == pytest.approx(0.5 * (8 - 4 + 3) - 3 + 1)
    np.testing.assert_allclose(qp.gradient(beta, np.array([10.0])), [-3 + 1 + 10, 1 - 1 + 20])
    np.testing.assert_allclose(qp.times(beta), [-3.0, 1.0])


def test_scalars_become_boxes_and_no_constraints_are_an_empty_matrix():
    qp = QP(np.eye(3), [1, 2, 3], 0, 2)
    assert qp.n == 3
    assert qp.A.shape == (0, 3)
    assert qp.b.shape == (0,)
    for vector in (qp.p, qp.lower, qp.upper, qp.eps):
        assert vector.dtype == np.float64
        assert vector.shape == (3,)
    assert QP(np.eye(3), [1, 2, 3], 0, 2, A=[1, 1, 1], b=2).A.shape == (1, 3)


GOOD = {"H": np.eye(3), "p": np.zeros(3), "lower": 0.0, "upper": 1.0, "A": np.ones((1, 3)), "b": [1.0], "eps": 0.1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H": np.eye(2)}, "H must be n × n"),
        ({"H": np.ones((3, 2))}, "H must be n × n"),
        ({"A": np.ones((1, 2))}, "A of shape"),
        ({"b": [1.0, 2.0]}, "b of shape"),
        ({"b": None, "A": None, "p": [0.0, np.nan, 0.0]}, "NaN or infinity in p"),
        ({"A": [[1.0, np.inf, 1.0]]}, "NaN or infinity"),
        ({"b": [np.nan]}, "NaN or infinity"),
        ({"lower": 2.0}, "lower > upper"),
        ({"upper": [1.0, -1.0, 1.0]}, "lower > upper"),
        ({"lower": np.nan}, "NaN in a box"),
        ({"lower": None}, "NaN in a box"),
        ({"eps": -0.1}, "negative eps"),
        ({"eps": [0.0, np.nan, 0.0]}, "eps"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_a_bad_problem_is_refused(change, message):
    QP(**GOOD)
    with pytest.raises(ValueError, match=message):
        QP(**(GOOD | change))


def test_a_wrong_length_of_a_box_is_refused():
    with pytest.raises(ValueError):
        QP(**(GOOD | {"upper": [1.0, 1.0]}))


def test_a_primal_value_is_not_lost_in_a_low_dual_value():
    """Far from the end coefficients may have a dual value of −10²⁰; a model costs what it costs."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    qp = CSVC(C=0.3, loss="squared_hinge").qp(Samples(Factored(X), y, np.ones(20)))
    beta = 1e10 * y * np.where(y > 0, (y < 0).sum(), (y > 0).sum())
    found = qp.certificate(beta, np.array([0.1]), np.zeros(3))
    assert found.dual < -1e20
    assert found.primal == pytest.approx(0.3 * np.sum((1.0 - 0.1 * y) ** 2), rel=1e-12)
    assert found.gap == pytest.approx(-found.dual, rel=1e-12)


def test_what_is_no_number_proves_nothing():
    qp = QP(np.eye(3), -np.ones(3), np.zeros(3), np.full(3, np.inf))
    for wrong in (np.nan, np.inf):
        with np.errstate(invalid="ignore"):
            found = qp.certificate(np.array([1.0, 1.0, wrong]), np.zeros(0))
        assert not Goal(violation=1e-3).met(found)
    assert Goal(violation=1e-3).met(qp.certificate(np.ones(3), np.zeros(0)))


@pytest.mark.parametrize("seed", range(20))
def test_what_a_constraint_is_missed_by_has_its_price(seed):
    """At the best multipliers every β in the box gives a bound, if it pays for the constraints that it misses."""
    rng = np.random.default_rng(seed)
    qp, _, _ = random_qp(rng, n=6, k=1, kinked=bool(seed % 2), ridged=False, infinite=False)
    best = solve(qp, "interior-point", tol=1e-10)
    for _ in range(10):
        missed = rng.uniform(qp.lower, qp.upper)
        found = qp.certificate(missed, best.multipliers)
        assert found.gap >= 0.0 and found.primal == pytest.approx(found.dual + found.gap)
        assert found.dual <= best.certificate.primal + 1e-7 * (1.0 + abs(best.certificate.primal))


def test_a_constraint_on_coefficients_that_are_rounding_of_others_is_held():
    A = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5]])
    qp = QP(np.eye(4), np.zeros(4), -np.inf, np.inf, A, [0.0, 0.0])
    assert qp.infeasibility(np.array([50.0, -50.0, 1e-16, 3e-17])) == 0.0
    assert qp.infeasibility(np.array([50.0, -50.0, 1e-9, 3e-9])) > 0.5
    assert qp.infeasibility(np.array([0.0, 0.0, 1e-16, 3e-17])) > 0.5


def test_a_coefficient_is_dust_where_it_counts_for_nothing():
    """In f and in every constraint: not by its size alone."""
    plain = QP(np.eye(2), [-1.0, -1.0], 0.0, np.inf)
    np.testing.assert_array_equal(plain.settled(np.array([1e7, 1e-8])), [1e7, 0.0])
    at_origin = QP(np.diag([0.0, 1e8]), [-1.0, -1.0], 0.0, np.inf)
    np.testing.assert_array_equal(at_origin.settled(np.array([1e7, 1e-8])), [1e7, 1e-8])
    beta = np.array([3.0, -1.0, -2e-14])
    one_sum = QP(np.eye(3), np.zeros(3), -np.inf, np.inf, np.ones((1, 3)), [2.0])
    np.testing.assert_array_equal(one_sum.settled(beta), [3.0, -1.0, 0.0])
    alone = QP(np.diag([0.0, 0.0, 1.0]), np.zeros(3), -np.inf, np.inf, [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]], [0.0, 2.0])
    np.testing.assert_array_equal(alone.settled(beta), beta)  # all that f and a constraint have
    few_large = QP(np.eye(3), np.zeros(3), -np.inf, np.inf, [[1e-14, 1e-14, 1.0]], [0.0])
    np.testing.assert_array_equal(few_large.settled(beta), beta)


def test_a_coefficient_that_rounding_of_a_sum_left_short_of_its_bound_is_there():
    """The sum of the others is rounded by 1e-12: that much less than a bound of 1e-3 says nothing, 1e-8 do."""
    upper = np.array([5e3, -2.0, 1e-3, 5e3])
    lower, upper = np.minimum(upper, 0.0), np.maximum(upper, 0.0)
    box = dict(lower=lower - np.array([0.0, 0.0, 0.0, 1e4]), upper=upper)
    kept = QP(np.eye(4), -np.ones(4), **box, A=np.ones((1, 4)))
    beta = np.array([5e3, -2.0, 1e-3 - 1e-12, -4998.001])
    np.testing.assert_array_equal(kept.settled(beta), [5e3, -2.0, 1e-3, -4998.001])
    np.testing.assert_array_equal(kept.settled(beta - [0, 0, 1e-8, 0]), beta - [0, 0, 1e-8, 0])
    free = QP(np.eye(4), -np.ones(4), **box)  # without a sum to keep it says something
    np.testing.assert_array_equal(free.settled(beta), beta)
    heavy = QP(np.diag([1.0, 1.0, 1e14, 1.0]), -np.ones(4), **box, A=np.ones((1, 4)))  # and where f sees it
    np.testing.assert_array_equal(heavy.settled(beta), beta)


def test_the_judge_says_the_same_of_numbers_and_of_arrays():
    kinds = [0.0, -0.0, 1e-20, 1.0, -1.0, np.inf, -np.inf, np.nan]
    table = np.array(list(product([0.0, 1e-9, 1e-4, np.nan], [0.0, 1.0, np.nan], kinds, kinds, kinds, [0.0, 1e10])))
    violation, infeasibility, primal, dual, gap, idle = table.T
    for goal in (Goal(violation=1e-3), Goal(violation=1e-3, gap=1e-3), Goal(gap=2.0)):
        together = goal.proven(violation, infeasibility, primal, dual, gap, idle)
        assert together.dtype == bool and together.any() and not together.all()
        alone = [goal.met(Certificate(p, d, g, v, i, z)) for v, i, p, d, g, z in table.tolist()]
        assert together.tolist() == alone
        assert not together[np.isnan(table[:, :4]).any(axis=1)].any()
        assert not (together & ~np.isfinite(gap)).any() or goal.gap == np.inf


def test_no_bound_of_coefficients_that_miss_a_constraint_by_more_than_rounding():
    """Two points 1e-8 apart, which a function without a penalty tells apart: the optimum is 0, a near miss says 2 C."""
    phi = np.array([[1.0, 1.0], [0.5, 0.5 + 1e-8]])
    qp = QP(np.zeros((2, 2)), [1.0, -1.0], [-1.0, 0.0], [0.0, 1.0], phi, [0.0, 0.0])
    slopes = np.array([-1e8 - 1.0, 2e8])
    assert qp.certificate(np.zeros(2), slopes).primal < 1e-6  # a bound, whatever β
    missed = qp.certificate(np.array([-1.0, 1.0]), np.zeros(2))
    assert missed.dual == 2.0 and missed.gap == missed.violation == 0.0
    assert not Goal(violation=1e-3, gap=1e-3).met(missed)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("matrix", [Factored, lambda X: PrecomputedGram(X @ X.T)], ids=["features", "kernel"])
def test_a_point_between_two_others_has_its_own_product(matrix, loss):
    """As if it had been computed, also when the caller changes the point that it got."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.repeat([-1.0, 1.0], 10)
    qp, again = (CSVC(C=0.3, loss=loss).qp(Samples(matrix(X), y, np.ones(20))) for _ in range(2))
    first, last = rng.uniform(np.maximum(qp.lower, -1.0), np.minimum(qp.upper, 1.0), (2, 20))
    middle = qp.between(first, last, 0.3)
    np.testing.assert_array_equal(middle, first + 0.3 * (last - first))
    np.testing.assert_allclose(qp.times(middle), again.times(middle), rtol=1e-12, atol=1e-12)
    if qp.weights(middle) is not None:
        np.testing.assert_allclose(qp.weights(middle), again.weights(middle), rtol=1e-12, atol=1e-12)
    middle *= 2.0
    np.testing.assert_allclose(qp.times(middle), again.times(middle), rtol=1e-12, atol=1e-12)
