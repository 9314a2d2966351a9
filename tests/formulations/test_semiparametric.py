"""Functions without a penalty in every formulation: their coefficients are the multipliers of an independent solver.

No solver of the package takes part: the referee's β and multipliers are put into the decision function, and the
primal objective of that function, by its definition, must meet the dual one.
"""

import numpy as np
import pytest

from cases import VARIANTS, make_data, verdict_on
from estimators import by_hand
from estimators.plain_solver import Referee
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, NuSVR, OneClass, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import PrecomputedGram
from maxmargin.problem import ERM
from referee import naive_kernel

MACHINES = [v for v in VARIANTS if v.name != "svdd"]
every_machine = pytest.mark.parametrize("variant", MACHINES, ids=str)
every_count = pytest.mark.parametrize("k", [1, 3])
both_weights = pytest.mark.parametrize("kind", ["plain", "weighted"])


def functions(X, k):
    """Centred, so that the coefficients of a one-class machine can cancel against each of them."""
    phi = np.vstack([np.sin(2 * X[:, 0]), X[:, 1], X[:, 2] ** 2])[:k]
    return phi - phi.mean(axis=1, keepdims=True)


def solved(variant, k, kind="plain", matrix=None):
    """Data, kernel matrix, functions, problem and decision, all of it from the referee's optimum."""
    data = make_data(kind)
    K = naive_kernel("rbf", data.X, gamma=0.5) if matrix is None else matrix
    phi = functions(data.X, k)
    formulation = SemiParametric(variant.formulation, phi)
    qp = formulation.qp(Samples(PrecomputedGram(K), variant.targets(data), data.weight))
    best = verdict_on(qp)
    solution = Referee().solve(qp, Goal(gap=1e-6))
    return data, K, phi, qp, best, formulation.decision(qp, solution)


def primal_and_dual(variant, data, K, decision, free):
    """Both objectives by hand; ``free`` is what is added to the kernel part at each point."""
    f, weight = variant.formulation, data.weight
    if variant.name == "c_svc":
        return by_hand.c_svc(K, data.labels, decision.coef, free, f.C * weight, f.loss, f.huber_delta)
    if variant.name == "nu_svc":
        return by_hand.nu_svc(K, data.labels, decision.coef, free, f.nu, weight)
    if variant.name == "epsilon_svr":
        shape = f.loss, f.epsilon, f.huber_delta, f.quantile
        return by_hand.regression(K, data.values, decision.coef, free, f.C * weight, *shape)
    if variant.name == "nu_svr":
        return by_hand.nu_svr(K, data.values, decision.coef, free, f.C * weight, f.nu, decision.found)
    norm = decision.coef @ K @ decision.coef
    outside = np.maximum(0.0, -(K @ decision.coef + free))
    return 0.5 * norm + f.nu * weight.sum() * decision.intercept + weight @ outside, -0.5 * norm


@both_weights
@every_count
@every_machine
def test_the_function_meets_its_dual(variant, k, kind):
    data, K, phi, _, _, decision = solved(variant, k, kind)
    assert decision.parametric.shape == (k,)
    assert np.abs(decision.parametric).max() > 1e-3  # or the test would say little
    primal, dual = primal_and_dual(variant, data, K, decision, decision.intercept + decision.parametric @ phi)
    assert primal - dual == pytest.approx(0.0, abs=1e-5 * max(1.0, abs(primal)))


@every_machine
def test_other_coefficients_are_worse(variant):
    data, K, phi, _, _, decision = solved(variant, 3)
    best, _ = primal_and_dual(variant, data, K, decision, decision.intercept + decision.parametric @ phi)
    rng = np.random.default_rng(0)
    for _ in range(20):
        eta = decision.parametric + 0.1 * rng.normal(size=3)
        assert primal_and_dual(variant, data, K, decision, decision.intercept + eta @ phi)[0] > best


@every_count
@every_machine
def test_coefficients_cancel_against_every_function(variant, k):
    data, _, phi, qp, best, decision = solved(variant, k)
    own = len(qp.A) - k
    np.testing.assert_array_equal(qp.b[own:], 0.0)
    np.testing.assert_allclose(qp.A[own:] @ best.beta, 0.0, atol=1e-7)
    np.testing.assert_allclose(phi @ decision.coef, 0.0, atol=1e-6 * max(1.0, np.abs(decision.coef).sum()))
    plain = variant.formulation.qp(Samples(PrecomputedGram(np.eye(len(data.X))), variant.targets(data), data.weight))
    np.testing.assert_array_equal(qp.A[:own], plain.A)
    np.testing.assert_array_equal(qp.b[:own], plain.b)


@pytest.mark.parametrize("variant", [v for v in MACHINES if hasattr(v.formulation, "erm")], ids=str)
def test_the_primal_problem_has_the_functions_too(variant):
    data, K, phi, qp, best, _ = solved(variant, 3)
    erm = qp.primal
    assert isinstance(erm, ERM)
    np.testing.assert_array_equal(erm.phi, qp.A)
    assert erm.objective(best.beta, best.multipliers) == pytest.approx(-best.objective, rel=1e-6)


@pytest.mark.parametrize("formulation", [CSVC(C=1.5), EpsilonSVR(C=1.5)], ids=repr)
def test_a_constant_function_is_the_intercept(formulation):
    data = make_data("weighted")
    gram = PrecomputedGram(naive_kernel("rbf", data.X, gamma=0.5))
    y = data.labels if isinstance(formulation, CSVC) else data.values
    without = SemiParametric(type(formulation)(C=1.5, fit_intercept=False), np.ones((1, 60))).qp(
        Samples(gram, y, data.weight)
    )
    np.testing.assert_array_equal(without.A, formulation.qp(Samples(gram, y, data.weight)).A)


# -- nu -------------------------------------------------------------------------------------------------

X = np.linspace(-1.0, 3.0, 40)
Y = np.where(X > 1.0, 1.0, -1.0)
GRAM = PrecomputedGram(np.exp(-((X[:, None] - X) ** 2)))


@pytest.mark.parametrize("machine", [OneClass(nu=0.5), NuSVC(nu=0.5), NuSVC(nu=0.5, fit_intercept=False)], ids=repr)
def test_a_function_that_could_do_all_alone_is_an_error(machine):
    """It is large where the machine wants to be large, so that its coefficient could grow without end."""
    alone = 1.0 + X**2 if isinstance(machine, OneClass) else Y * (1.0 + X**2)
    with pytest.raises(ValueError, match=r"^specified nu is infeasible: nu=0.5 was asked for; found .*; leave out"):
        SemiParametric(machine, alone[None]).qp(Samples(GRAM, Y, np.ones(40)))


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7])
def test_functions_of_small_numbers_and_nearby_points_separate_as_well(apart):
    """Constraints are compared with what their rows say, not with how large these are."""
    phi = 1e-5 * (1.0 + apart * Y)[None]
    with pytest.raises(ValueError, match=r"^specified nu is infeasible: nu=0.02 was asked for; found .*; leave out"):
        SemiParametric(NuSVC(nu=0.02), phi).qp(Samples(GRAM, Y, np.ones(40)))
    two = PrecomputedGram(np.eye(2))
    with pytest.raises(ValueError, match=r"^specified nu is infeasible: nu=0.02 was asked for; found .*; leave out"):
        SemiParametric(NuSVC(nu=0.02), phi[:, [0, -1]]).qp(Samples(two, Y[[0, -1]], np.ones(2)))


def test_the_largest_nu_is_told_and_is_the_largest():
    phi = X[None]  # from −1 to 3: what cancels must be mostly on the left
    with pytest.raises(ValueError, match=r"choose nu in \(0, 0\.\d+\]") as told:
        SemiParametric(OneClass(nu=0.9), phi).qp(Samples(GRAM, Y, np.ones(40)))
    most = float(str(told.value).rsplit(" ", 1)[1].rstrip("]"))
    assert 0.3 < most < 0.9
    beta = verdict_on(SemiParametric(OneClass(nu=0.999 * most), phi).qp(Samples(GRAM, Y, np.ones(40)))).beta
    assert beta.sum() == pytest.approx(0.999 * most * 40)
    assert abs(phi @ beta) < 1e-6
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        SemiParametric(OneClass(nu=1.001 * most), phi).qp(Samples(GRAM, Y, np.ones(40)))


def test_classes_of_different_size_and_functions_both_bound_nu():
    y = np.where(np.arange(40) < 10, 1.0, -1.0)  # classes alone would allow 0.5
    phi = np.abs(X + 0.3)[None]  # smaller in the first class, but not everywhere
    with pytest.raises(ValueError, match=r"nu=0.9 was asked for; .*choose nu in \(0, 0\.[0-4]\d*\]"):
        SemiParametric(NuSVC(nu=0.9, clip=True), phi).qp(Samples(GRAM, y, np.ones(40)))


def test_regression_has_room_for_any_function():
    for fit_intercept in (True, False):
        qp = SemiParametric(NuSVR(nu=1.0, fit_intercept=fit_intercept), 1.0 + X[None] ** 2).qp(
            Samples(GRAM, X, np.ones(40))
        )
        assert len(qp.A) == 2 + fit_intercept
