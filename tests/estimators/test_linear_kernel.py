"""Machines with a linear kernel, seen as features: as good as LIBSVM at its tolerance, with exact support vectors."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_classification, make_regression
from sklearn.preprocessing import scale

from estimators import by_hand
from maxmargin import SVC, SVDD, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.estimators import kernel as kernel_room

MACHINES = {
    "svc": SVC(kernel="linear", C=0.1),
    "svc-large": SVC(kernel="linear", C=10.0),
    "svc-squared": SVC(kernel="linear", loss="squared_hinge"),
    "svc-huber": SVC(kernel="linear", loss="huber"),
    "svc-no-intercept": SVC(kernel="linear", fit_intercept=False),
    "nu-svc": NuSVC(kernel="linear", nu=0.75),
    "nu-svc-no-intercept": NuSVC(kernel="linear", nu=0.75, fit_intercept=False),
    "svr": SVR(kernel="linear", C=0.1),
    "svr-squared": SVR(kernel="linear", C=0.1, loss="squared_epsilon_insensitive"),
    "nu-svr": NuSVR(kernel="linear", C=0.1),
    "nu-svr-no-intercept": NuSVR(kernel="linear", C=0.1, fit_intercept=False),
    "one-class": OneClassSVM(kernel="linear", nu=0.2),
    "svdd": SVDD(kernel="linear", nu=0.2),
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
LINEAR_SOLVERS = ("sor", "interior-point", "newton")


@pytest.fixture
def features(monkeypatch):
    """A linear kernel is seen as features however few samples there are."""
    monkeypatch.setattr(kernel_room, "LINEAR_FROM", 0)


def data_for(machine, n=700, d=12):
    """More samples than a matrix is made for."""
    if is_classifier(machine):
        X, y = make_classification(n, d, n_informative=6, flip_y=0.1, random_state=0)
    else:
        X, y = make_regression(n, d, n_informative=6, noise=20.0, random_state=0)
        y = y / y.std()
    X = scale(X)
    return X + 2.0 if isinstance(machine, OneClassSVM) else X, y


def values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@each_machine
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_the_same_model_by_features(machine, layout, features):
    X, y = data_for(machine)
    model = clone(machine).fit(layout(X), y)
    plain = clone(machine).set_params(solver="decomposition", tol=1e-6).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.solver_ in LINEAR_SOLVERS
    assert abs(model.certificate_.dual - plain.certificate_.dual) <= 1e-5 * abs(plain.certificate_.dual)
    assert model.certificate_.relative_gap <= 1e-5
    spread = np.std(values(plain, X))
    np.testing.assert_allclose(values(model, layout(X)), values(plain, X), rtol=0, atol=0.01 * spread)


@each_machine
def test_support_vectors_are_exact(machine, features):
    X, y = data_for(machine)
    model = clone(machine).fit(X, y)
    plain = clone(machine).set_params(solver="decomposition", tol=1e-6).fit(X, y)
    assert (by_hand.dense(model.dual_coef_) != 0).all()
    assert abs(len(model.support_) - len(plain.support_)) <= 0.03 * len(plain.support_) + 3
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    again = model.dual_coef_ @ model.support_vectors_
    np.testing.assert_allclose(model.coef_, again, rtol=1e-12, atol=1e-12 * np.abs(again).max())
    assert model.n_support_.sum() == len(model.support_)
    if is_classifier(machine):
        (pair,) = by_hand.pairs(model, y)
        assert (pair.beta * pair.y >= 0).all()


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("name", ["svc", "svc-large", "svr", "nu-svc", "one-class"])
def test_as_good_as_libsvm_at_its_tolerance(name, tol, features):
    ours = clone(MACHINES[name]).set_params(tol=tol)
    X, y = data_for(ours)
    keep = {"kernel", "C", "nu", "tol"}
    theirs = getattr(sklearn.svm, type(ours).__name__)(**{k: v for k, v in ours.get_params().items() if k in keep})
    theirs.fit(X, y)
    ours.fit(X, y)
    K = X @ X.T

    def objectives(model):
        if name.startswith("svc"):
            (pair,) = by_hand.pairs(model, y)
            return by_hand.c_svc(K, pair.y, pair.beta, pair.bias, np.full(len(y), model.C))
        if name == "svr":
            beta = by_hand.coefficients(model, len(y))
            return by_hand.svr(K, y, beta, model.intercept_[0], np.full(len(y), 0.1), 0.1)
        if name == "nu-svc":
            (pair,) = by_hand.pairs(model, y)
            return by_hand.nu_svc(K, pair.y, pair.beta, pair.bias, 0.75, np.ones(len(y)))
        return by_hand.one_class(K, by_hand.coefficients(model, len(y)), model.offset_[0], 0.2, np.ones(len(y)))

    (primal, dual), (their_primal, their_dual) = objectives(ours), objectives(theirs)
    slack = 1e-7 * abs(primal) + 2e-3 * tol * abs(primal)
    assert primal <= their_primal + slack
    assert dual >= their_dual - slack


def test_several_classes(features):
    X, y = make_classification(2400, 10, n_informative=6, n_classes=3, flip_y=0.05, random_state=1)
    model = SVC(kernel="linear", C=0.5).fit(X, y)
    plain = SVC(kernel="linear", C=0.5, solver="decomposition").fit(X, y)
    assert model.solver_ in LINEAR_SOLVERS
    assert model.coef_.shape == (3, 10)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0.02, atol=0.005)
    assert np.mean(model.predict(X) == plain.predict(X)) > 0.995
    for ours, theirs in zip(model.certificates_, plain.certificates_, strict=True):
        assert ours.primal == pytest.approx(theirs.primal, rel=1e-4)


@pytest.mark.parametrize("solver", ["sor", "interior-point"])
@each_machine
def test_solvers_by_name(machine, solver):
    X, y = data_for(machine, n=300)
    model = clone(machine).set_params(solver=solver).fit(X, y)
    plain = clone(machine).set_params(solver="decomposition", tol=1e-6).fit(X, y)
    assert model.solver_ == solver
    assert model.status_ is Status.CONVERGED
    assert abs(model.certificate_.dual - plain.certificate_.dual) <= 1e-5 * abs(plain.certificate_.dual)


def test_weights_are_copies(features):
    rng = np.random.default_rng(0)
    for machine in (MACHINES["svc"], MACHINES["nu-svc"], MACHINES["svr"], MACHINES["one-class"]):
        X, y = data_for(machine, n=400)
        counts = rng.integers(0, 4, len(y))
        machine = clone(machine).set_params(tol=1e-6)
        weighted = clone(machine).fit(X, y, sample_weight=counts)
        copied = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-3, atol=1e-4)


def test_functions_without_a_penalty(features):
    X, y = data_for(MACHINES["svr"])
    kernel = SVR(kernel="linear", C=0.1, tol=1e-5, parametric=lambda X: np.sin(X[:, :2])).fit(X, y)
    plain = SVR(kernel="linear", C=0.1, tol=1e-5, parametric=lambda X: np.sin(X[:, :2]), solver="mpd").fit(X, y)
    assert kernel.solver_ in LINEAR_SOLVERS
    np.testing.assert_allclose(kernel.parametric_coef_, plain.parametric_coef_, rtol=1e-2, atol=1e-3)


def test_many_samples_are_seen_as_features_without_being_told():
    X, y = make_classification(4000, 20, flip_y=0.1, random_state=0)
    model = SVC(kernel="linear").fit(X, y)
    assert model.solver_ in LINEAR_SOLVERS
    linear = LinearSVC(loss="hinge", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, linear.coef_, rtol=1e-2, atol=1e-3)
    small = SVC(kernel="linear").fit(X[:500], y[:500])
    assert small.solver_ == "decomposition"


def test_a_primal_solver_needs_a_primal_form():
    X, y = data_for(MACHINES["nu-svc"], n=100)
    with pytest.raises(ValueError, match=r"newton was asked for; found no loss; use"):
        NuSVC(kernel="linear", nu=0.5, solver="newton").fit(X, y)
