"""What a fit leaves belongs to that fit: parameters set later count in the next one, and the next one begins anew."""

import re

import numpy as np
import pytest

from maxmargin import (
    PSVC,
    PSVR,
    SVC,
    SVDD,
    SVR,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from maxmargin.files import load, load_liblinear, load_libsvm, save, save_liblinear, save_libsvm, to_sklearn


def twice(X, Z):
    return 2.0 * (X @ Z.T) + 1.0


def first(X):
    return np.asarray(X)[:, :1] ** 2


@pytest.fixture
def samples():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(50, 4))
    return X, np.digitize(X[:, 0] + 0.5 * rng.normal(size=50), [-0.5, 0.5]), X[:, 0] + 0.1 * rng.normal(size=50)


def fitted(machine, samples, matrix=False):
    X, labels, targets = samples
    X = X @ X.T if matrix else X
    y = labels if hasattr(machine, "decision_function") else targets
    return (machine.fit(X) if isinstance(machine, (OneClassSVM, SVDD)) else machine.fit(X, y)), X


def decide(machine, X):
    found = machine.decision_function(X) if hasattr(machine, "decision_function") else machine.predict(X)
    return np.asarray(found)


def named(machine):
    """As it prints, but for addresses, which differ between processes that share the tests."""
    return re.sub(r"<function (\w+) at \w+>", r"\1", str(machine))


NAMES = ("rbf", "poly")
MACHINES = (
    [kind(kernel=kernel, coef0=1.0) for kind in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, PSVC, PSVR) for kernel in NAMES]
    + [
        SVDD(kernel="poly", coef0=1.0),
        SVC(kernel="linear"),
        SVR(kernel=twice),
        PSVR(kernel=twice),
        PSVC(kernel="linear"),
    ]
    + [SVC(expansion=9), LinearSVC(), LinearSVR()]
)
MATRICES = [kind(kernel="precomputed") for kind in (SVC, SVR, OneClassSVM, PSVR)] + [PSVC(kernel="dyadic")]
CHANGES = [
    {"kernel": "rbf"},
    {"kernel": "linear"},
    {"kernel": "poly"},
    {"kernel": "precomputed"},
    {"kernel": twice},
    {"gamma": 7.0, "coef0": 3.0, "degree": 5},
    {"fit_intercept": False},
    {"parametric": first},
]


def changes(machine):
    return [change for change in CHANGES if set(change) <= set(machine.get_params())]


@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_parameters_set_after_a_fit_change_no_prediction(machine, samples):
    machine, X = fitted(machine, samples)
    before, given = decide(machine, X), machine.get_params(deep=False)
    for change in changes(machine):
        assert np.array_equal(decide(machine.set_params(**change), X), before), change
        machine.set_params(**given)


@pytest.mark.parametrize("machine", MATRICES, ids=named)
def test_a_machine_of_a_matrix_stays_one(machine, samples):
    machine, X = fitted(machine, samples, matrix=True)
    before, given = decide(machine, X), machine.get_params(deep=False)
    for change in changes(machine):
        assert np.array_equal(decide(machine.set_params(**change), X), before), change
        machine.set_params(**given)


@pytest.mark.parametrize("machine", [m for m in MACHINES if m.get_params().get("kernel") is not twice], ids=named)
def test_files_hold_what_was_fitted(machine, samples, tmp_path):
    machine, X = fitted(machine, samples)
    before, given, path = decide(machine, X), machine.get_params(deep=False), tmp_path / "model"
    linear = isinstance(machine, (LinearSVC, LinearSVR))
    shared = not isinstance(machine, (SVDD, PSVC, PSVR)) and given.get("expansion") is None
    for change in changes(machine):
        machine.set_params(**change)
        found = {}
        save(machine, path)
        found["ours"] = load(path)
        if shared:
            (save_liblinear if linear else save_libsvm)(machine, path)
            found["text"] = (load_liblinear if linear else load_libsvm)(path, n_features=4)
            found["theirs"] = to_sklearn(machine)
        for name, one in found.items():
            assert np.allclose(decide(one, X), before, rtol=1e-9, atol=1e-9), (name, change)
        machine.set_params(**given)


def test_functions_of_the_fit_are_not_lost_when_the_parameter_is_taken_away(samples, tmp_path):
    machine, _ = fitted(SVR(parametric=first), samples)
    machine.set_params(parametric=None)
    with pytest.raises(TypeError, match="code"):
        save(machine, tmp_path / "model")


def test_a_fit_knows_nothing_of_the_one_before(samples):
    X, labels, _ = samples
    machine = LinearSVC(parametric=first).fit(X, labels)
    machine.set_params(parametric=None, multi_class="crammer_singer").fit(X, labels)
    assert np.array_equal(decide(machine, X), decide(LinearSVC(multi_class="crammer_singer").fit(X, labels), X))
    assert not hasattr(machine, "parametric_coef_")


@pytest.mark.parametrize("from_file", [False, True])
def test_a_fit_leaves_the_same_attributes_whatever_was_there(samples, tmp_path, from_file):
    X, labels, targets = samples
    one = SVC(expansion=9, probability=False).fit(X, labels)
    if from_file:
        save(one, tmp_path / "model")
        one = load(tmp_path / "model")
    one.set_params(expansion=None).fit(X, labels)
    other = SVC().fit(X, labels)
    assert {name for name in vars(one) if name != "_left"} == {name for name in vars(other) if name != "_left"}
    assert np.array_equal(decide(one, X), decide(other, X))
    machine = PSVR().fit(X, targets).set_params(kernel="dyadic").fit(X, targets)
    assert not hasattr(machine, "support_vectors_")


def test_a_refit_that_fails_leaves_the_machine_as_it_was(samples):
    X, labels, _ = samples
    machine = SVC().fit(X, labels)
    before, names = decide(machine, X), set(vars(machine))
    with pytest.raises(ValueError, match="got 1 class"):
        machine.fit(X[:, :2], np.zeros(50))
    assert set(vars(machine)) == names and np.array_equal(decide(machine, X), before)
