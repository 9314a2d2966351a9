"""A weight is a number of copies: 2 is twice there, 0 is not there, for every machine and in every place."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import rbf_kernel

from estimators import by_hand
from estimators.samples import samples
from maxmargin import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

SAME = {"rtol": 1e-7, "atol": 1e-7}
TIGHT = 1e-10  # a tolerance at which two runs on the same problem agree as well as that, whatever steps they take

MACHINES = {
    "svc": SVC(C=2.0),
    "svc-linear": SVC(kernel="linear", C=0.5),
    "svc-poly": SVC(kernel="poly", degree=2, coef0=1.0, C=0.5),
    "svc-squared": SVC(loss="squared_hinge", C=2.0),
    "svc-huber": SVC(loss="huber", C=2.0),
    "svc-no-intercept": SVC(fit_intercept=False),
    "svc-smo": SVC(C=2.0, solver="smo"),
    "nu-svc": NuSVC(nu=0.4),
    "nu-svc-linear": NuSVC(kernel="linear", nu=0.75),
    "nu-svc-no-intercept": NuSVC(nu=0.4, fit_intercept=False),
    "svr": SVR(C=2.0),
    "svr-linear": SVR(kernel="linear", C=0.5),
    "svr-squared": SVR(loss="squared_epsilon_insensitive"),
    "nu-svr": NuSVR(nu=0.4),
    "nu-svr-linear": NuSVR(kernel="linear", nu=0.4),
    "nu-svr-no-intercept": NuSVR(nu=0.4, fit_intercept=False),
    "one-class": OneClassSVM(nu=0.3),
    "one-class-linear": OneClassSVM(kernel="linear", nu=0.3),
    "svdd": SVDD(nu=0.3),
    "svdd-linear": SVDD(kernel="linear", nu=0.3),
    "svdd-cost": SVDD(C=0.05),
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def data_for(machine):
    """Samples, targets and whole weights, none of them in equal proportion to the classes."""
    s = samples("noisy" if is_classifier(machine) else "diabetes")
    X = s.X + 3.0 if type(machine) is OneClassSVM and machine.kernel == "linear" else s.X  # away from the origin
    counts = np.random.default_rng(1).integers(0, 4, s.n)
    return X, s.y, counts, (s.X_test if X is s.X else s.X_test + 3.0)


def values(model, X) -> np.ndarray:
    """The decision function or the prediction."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


# -- copies ---------------------------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_weights_are_copies(machine, layout):
    X, y, counts, X_test = data_for(machine)
    machine = clone(machine).set_params(tol=TIGHT)
    weighted = clone(machine).fit(layout(X), y, sample_weight=counts)
    copied = clone(machine).fit(layout(np.repeat(X, counts, axis=0)), np.repeat(y, counts))
    np.testing.assert_allclose(values(weighted, layout(X_test)), values(copied, layout(X_test)), **SAME)
    if not isinstance(machine, (NuSVC, OneClassSVM)):  # whose problems may have a scale of their own
        np.testing.assert_allclose(weighted.certificate_.dual, copied.certificate_.dual, rtol=1e-7)
        np.testing.assert_allclose(weighted.certificate_.primal, copied.certificate_.primal, rtol=1e-7)


@each_machine
def test_weights_are_copies_for_few_samples_at_any_tolerance(machine):
    X, y, counts, X_test = data_for(machine)
    X, y, counts = X[:60], y[:60], counts[:60]
    weighted = clone(machine).fit(X, y, sample_weight=counts)
    copied = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(values(weighted, X_test), values(copied, X_test), **SAME)


def test_weights_are_copies_for_several_classes():
    s = samples("wine")
    counts = np.random.default_rng(2).integers(0, 4, s.n)
    for machine in (SVC(class_weight="balanced", tol=TIGHT), NuSVC(nu=0.2, tol=TIGHT)):
        weighted = clone(machine).fit(s.X, s.y, sample_weight=counts)
        copied = clone(machine).fit(np.repeat(s.X, counts, axis=0), np.repeat(s.y, counts))
        np.testing.assert_allclose(values(weighted, s.X_test), values(copied, s.X_test), **SAME)
        np.testing.assert_allclose(weighted.class_weight_, copied.class_weight_, rtol=1e-12)


@pytest.mark.parametrize("class_weight", [{0: 1.0}, {0: 1.5}, {0: 10.0}, {1: 3.0}, "balanced"], ids=str)
@pytest.mark.parametrize("data", ["noisy", "wine"])
def test_weights_are_copies_where_nu_is_too_large(data, class_weight):
    s = samples(data)
    counts = np.random.default_rng(3).integers(0, 4, s.n) * np.array([1, 2, 4])[s.y]
    X, y = np.repeat(s.X, counts, axis=0), np.repeat(s.y, counts)
    machine = NuSVC(nu=0.9, class_weight=class_weight, tol=TIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nu is lowered for the pairs that need it
        weighted = clone(machine).fit(s.X, s.y, sample_weight=counts)
        copied = clone(machine).fit(X, y)
    np.testing.assert_allclose(values(weighted, s.X_test), values(copied, s.X_test), **SAME)


@pytest.mark.parametrize("machine", [SVDD(nu=0.3, kernel="linear"), NuSVR(C=3.0, kernel="linear")], ids=repr)
def test_weights_are_copies_where_no_coefficient_is_free(machine):
    # All coefficients are at a bound, so that the offset may lie anywhere between two samples: half way.
    rng = np.random.default_rng(12)
    X = rng.normal(size=(60, rng.integers(1, 7)))
    y = X[:, 0] + 0.3 * rng.normal(size=(2, 60))[1]
    counts = rng.integers(0, 4, 60)
    weighted = clone(machine).fit(X, y, sample_weight=counts)
    copied = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(values(weighted, X), values(copied, X), **SAME)
    for model in (weighted, copied):  # a coefficient is more than a rounding error
        assert np.abs(model.dual_coef_).min() > 1e-9 * np.abs(model.dual_coef_).max()


@each_machine
def test_equal_weights_are_none(machine):
    X, y, _, X_test = data_for(machine)
    plain = clone(machine).fit(X, y)
    np.testing.assert_array_equal(
        values(clone(machine).fit(X, y, sample_weight=np.ones(len(y))), X_test), values(plain, X_test)
    )


@pytest.mark.parametrize("factor", [1e-3, 0.5, 4.0, 1e3])
@pytest.mark.parametrize("machine", ["svc", "svc-squared", "svr", "nu-svr"])
def test_a_weight_for_all_is_a_factor_of_the_cost(machine, factor):
    machine = MACHINES[machine]
    X, y, _, X_test = data_for(machine)
    weighted = clone(machine).fit(X, y, sample_weight=np.full(len(y), factor))
    scaled = clone(machine).set_params(C=factor * machine.C).fit(X, y)
    np.testing.assert_allclose(values(weighted, X_test), values(scaled, X_test), **SAME)


@pytest.mark.parametrize("factor", [1e-6, 0.5, 1e6])
@pytest.mark.parametrize("machine", ["nu-svc", "one-class", "svdd"])
def test_nu_does_not_see_the_scale_of_the_weights(machine, factor):
    machine = MACHINES[machine]
    X, y, counts, X_test = data_for(machine)
    one, other = (clone(machine).fit(X, y, sample_weight=counts * f) for f in (1.0, factor))
    size = factor if isinstance(machine, OneClassSVM) else 1.0  # its function grows with the weights
    np.testing.assert_allclose(values(other, X_test) / size, values(one, X_test), rtol=1e-5, atol=1e-5)


# -- absence --------------------------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_weight_zero_is_absence(machine, layout):
    X, y, counts, X_test = data_for(machine)
    there = np.flatnonzero(counts > 1)
    weight = (counts > 1).astype(float)
    weighted = clone(machine).fit(layout(X), y, sample_weight=weight)
    without = clone(machine).fit(layout(X[there]), y[there])
    np.testing.assert_allclose(values(weighted, layout(X_test)), values(without, layout(X_test)), **SAME)
    np.testing.assert_array_equal(weighted.support_, there[without.support_])  # rows of the data as given
    np.testing.assert_array_equal(by_hand.dense(weighted.support_vectors_), X[weighted.support_])
    np.testing.assert_allclose(by_hand.dense(weighted.dual_coef_), by_hand.dense(without.dual_coef_), **SAME)
    np.testing.assert_array_equal(weighted.n_support_, without.n_support_)
    assert weighted.shape_fit_ == X.shape


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.3)], ids=repr)
def test_a_class_without_weight_is_absent(machine):
    s = samples("wine")
    weight = (s.y != 1).astype(float)
    model = machine.fit(s.X, s.y, sample_weight=weight)
    assert model.classes_.tolist() == [0, 2]
    assert not np.isin(model.support_, np.flatnonzero(s.y == 1)).any()
    assert set(model.predict(s.X_test)) == {0, 2}
    with pytest.raises(ValueError, match="number of classes has to be greater than one; got 1 class"):
        clone(machine).fit(s.X, s.y, sample_weight=(s.y == 1).astype(float))


def test_weight_zero_with_a_precomputed_kernel():
    s = samples("noisy")
    weight = np.random.default_rng(0).integers(0, 3, s.n)
    K = rbf_kernel(s.X, gamma=0.1)
    by_matrix = SVC(kernel="precomputed").fit(K, s.y, sample_weight=weight)
    by_name = SVC(gamma=0.1).fit(s.X, s.y, sample_weight=weight)
    np.testing.assert_array_equal(by_matrix.support_, by_name.support_)
    K_test = rbf_kernel(s.X_test, s.X, gamma=0.1)
    np.testing.assert_allclose(by_matrix.decision_function(K_test), by_name.decision_function(s.X_test), **SAME)


# -- classes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC(), SVC(loss="squared_hinge"), SVC(loss="huber"), NuSVC(nu=0.2)], ids=repr)
@pytest.mark.parametrize("data", ["cancer", "wine"])
def test_class_weight_is_a_weight_for_each_sample(machine, data):
    s = samples(data)
    by_class = {0: 2.0, 1: 0.5}  # a class that is not named has weight 1
    each = np.array([by_class.get(label, 1.0) for label in s.y])
    classes = clone(machine).set_params(class_weight=by_class, gamma=0.05).fit(s.X, s.y)
    single = clone(machine).set_params(gamma=0.05).fit(s.X, s.y, sample_weight=each)
    np.testing.assert_allclose(values(classes, s.X_test), values(single, s.X_test), **SAME)
    np.testing.assert_array_equal(classes.class_weight_, [by_class.get(c, 1.0) for c in classes.classes_])
    np.testing.assert_array_equal(single.class_weight_, np.ones(len(single.classes_)))


@pytest.mark.parametrize("machine", [SVC(C=0.1), NuSVC(nu=0.2)], ids=repr)
def test_balanced_classes_weigh_the_same(machine):
    s = samples("cancer")
    balanced = clone(machine).set_params(class_weight="balanced").fit(s.X, s.y)
    share = s.n / (2.0 * np.bincount(s.y))
    np.testing.assert_allclose(balanced.class_weight_, share, rtol=1e-12)
    named = clone(machine).set_params(class_weight=dict(enumerate(share))).fit(s.X, s.y)
    np.testing.assert_allclose(values(balanced, s.X_test), values(named, s.X_test), **SAME)


def test_balanced_counts_weights():
    s = samples("cancer")
    weight = np.random.default_rng(4).uniform(0.5, 2.0, s.n)
    model = SVC(class_weight="balanced").fit(s.X, s.y, sample_weight=weight)
    mass = np.bincount(s.y, weight)
    np.testing.assert_allclose(model.class_weight_, weight.sum() / (2 * mass), rtol=1e-12)


def test_class_weight_and_sample_weight_multiply():
    s = samples("noisy")
    weight = np.random.default_rng(5).uniform(0.5, 2.0, s.n)
    both = SVC(class_weight={1: 3.0}, gamma=0.1).fit(s.X, s.y, sample_weight=weight)
    product = SVC(gamma=0.1).fit(s.X, s.y, sample_weight=weight * np.where(s.y == 1, 3.0, 1.0))
    np.testing.assert_allclose(values(both, s.X_test), values(product, s.X_test), **SAME)


def test_more_weight_moves_the_boundary_away():
    s = samples("noisy")
    ones = [np.mean(SVC(class_weight={1: w}, C=0.3).fit(s.X, s.y).predict(s.X_test) == 1) for w in (0.1, 0.5, 1, 2, 10)]
    assert ones == sorted(ones)
    assert ones[0] < ones[-1]


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.1)], ids=repr)
def test_a_weight_for_a_class_that_is_not_there_is_an_error(machine):
    s = samples("cancer")
    with pytest.raises(ValueError, match="class_weight"):
        machine.set_params(class_weight={7: 2.0}).fit(s.X, s.y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_class_weight_zero_is_absence(loss):
    s = samples("wine")
    classes = SVC(class_weight={1: 0.0}, loss=loss, gamma=0.05).fit(s.X, s.y)
    single = SVC(loss=loss, gamma=0.05).fit(s.X, s.y, sample_weight=(s.y != 1).astype(float))
    assert classes.classes_.tolist() == single.classes_.tolist() == [0, 2]
    np.testing.assert_allclose(values(classes, s.X_test), values(single, s.X_test), **SAME)
    np.testing.assert_array_equal(classes.support_, single.support_)
    assert np.isfinite(classes.certificate_.gap)
    with pytest.raises(ValueError, match="The number of classes has to be greater than one; got 1 class"):
        SVC(class_weight={1: 0.0, 2: 0.0}, loss=loss).fit(s.X, s.y)


@pytest.mark.parametrize("bad", [{0: -1.0}, {0: np.nan}, {0: np.inf}], ids=str)
@pytest.mark.parametrize("machine", [SVC(), SVC(loss="squared_hinge"), NuSVC(nu=0.1)], ids=repr)
def test_a_class_weight_that_makes_no_sense_is_an_error(machine, bad):
    s = samples("cancer")
    with pytest.raises(ValueError, match=r"class_weight=.* was asked for; found .+; .+"):
        clone(machine).set_params(class_weight=bad).fit(s.X, s.y)


# -- gamma ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM(nu=0.3), SVDD(nu=0.3)], ids=repr)
def test_gamma_scale_counts_weights(machine, layout):
    X, y, counts, X_test = data_for(machine)
    X, X_test = X * (1 + np.arange(X.shape[1])), X_test * (1 + np.arange(X.shape[1]))
    gamma = by_hand.gamma_of("scale", X, counts)
    assert gamma != pytest.approx(by_hand.gamma_of("scale", X), rel=1e-3)
    scale = clone(machine).fit(layout(X), y, sample_weight=counts)
    number = clone(machine).set_params(gamma=gamma).fit(layout(X), y, sample_weight=counts)
    np.testing.assert_allclose(values(scale, layout(X_test)), values(number, layout(X_test)), **SAME)


# -- weights that make no sense -------------------------------------------------------------------------


@each_machine
def test_negative_weights_are_an_error(machine):
    X, y, _, _ = data_for(machine)
    weight = np.ones(len(y))
    weight[3] = -1e-3
    with pytest.raises(ValueError, match=r"sample_weight >= 0 was asked for.*negative.*give weights >= 0"):
        clone(machine).fit(X, y, sample_weight=weight)


@each_machine
def test_no_weight_at_all_is_an_error(machine):
    X, y, _, _ = data_for(machine)
    with pytest.raises(ValueError, match=r"(?i)sample.weight.*zero"):
        clone(machine).fit(X, y, sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
@each_machine
def test_weights_that_are_no_numbers_are_an_error(machine, bad):
    X, y, _, _ = data_for(machine)
    weight = np.ones(len(y))
    weight[5] = bad
    with pytest.raises(ValueError, match=r"(?i)sample_weight contains (nan|infinity)"):
        clone(machine).fit(X, y, sample_weight=weight)


@each_machine
def test_weights_of_another_length_are_an_error(machine):
    X, y, _, _ = data_for(machine)
    with pytest.raises(ValueError, match=r"sample_weight"):
        clone(machine).fit(X, y, sample_weight=np.ones(len(y) + 1))


def test_weights_are_not_changed():
    s = samples("noisy")
    weight = np.random.default_rng(6).integers(0, 3, s.n).astype(float)
    before = weight.copy()
    SVC(class_weight="balanced").fit(s.X, s.y, sample_weight=weight)
    np.testing.assert_array_equal(weight, before)
