"""LinearSVC and LinearSVR: the optimum, scikit-learn's numbers, weights, every kind of input, paths, and manners."""

import inspect
import os
import pickle
import signal
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import RFE
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimators import by_hand
from estimators.samples import samples, weights
from maxmargin import SVC, SVR, History, LinearSVC, LinearSVR, Status
from referee import referee

THREE_PARTS = r"was asked for; found .+; .+"
CLASSIFIERS = {
    "hinge": LinearSVC(loss="hinge", C=0.1),
    "squared-hinge": LinearSVC(C=0.1),
    "huber": LinearSVC(loss="huber", C=0.1, huber_delta=0.3),
    "scaled": LinearSVC(C=0.1, intercept_scaling=2.0),
    "no-intercept": LinearSVC(loss="hinge", C=0.1, fit_intercept=False),
}
REGRESSORS = {
    "svr": LinearSVR(C=0.1, epsilon=0.2),
    "svr-squared": LinearSVR(C=0.1, epsilon=0.2, loss="squared_epsilon_insensitive"),
    "svr-scaled": LinearSVR(C=0.1, epsilon=0.2, intercept_scaling=2.0),
    "svr-no-intercept": LinearSVR(C=0.1, fit_intercept=False),
}
MACHINES = CLASSIFIERS | REGRESSORS
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
each_classifier = pytest.mark.parametrize("machine", CLASSIFIERS.values(), ids=CLASSIFIERS)


def data_for(machine):
    return samples("noisy" if isinstance(machine, LinearSVC) else "diabetes")


def values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def objective(machine, w, b, X, y, weight=None) -> float:
    """½‖w‖² + Σ C_i ℓ, with the penalty on the intercept where there is one; y is ±1 or real."""
    C = machine.C * (np.ones(len(y)) if weight is None else weight)
    f = X @ w + b
    if isinstance(machine, LinearSVR):
        loss = by_hand.tube(f - y, machine.epsilon) ** (2 if machine.loss.startswith("squared") else 1)
    elif machine.loss == "huber":
        loss = by_hand.huber_hinge(y * f, machine.huber_delta)
    else:
        loss = by_hand.hinge(y * f) ** (2 if machine.loss == "squared_hinge" else 1)
    scale = machine.intercept_scaling
    bias = 0.0 if scale is None or not machine.fit_intercept else b / scale
    return float(0.5 * (w @ w + bias**2) + C @ loss)


def targets(machine, y):
    return np.where(y == 1, 1.0, -1.0) if isinstance(machine, LinearSVC) else y


def best_value(machine, X, y, weight=None) -> float:
    """The optimum by the referee, which knows neither our formulations nor scikit-learn's."""
    n = len(y)
    C = machine.C * (np.ones(n) if weight is None else weight)
    K = X @ X.T
    if machine.fit_intercept and machine.intercept_scaling is not None:
        K = K + machine.intercept_scaling**2
    A = np.ones((1, n)) if machine.fit_intercept and machine.intercept_scaling is None else None
    squared = machine.loss.startswith("squared")
    ridge = 0.5 / C if squared else 2 * machine.huber_delta / C if machine.loss == "huber" else np.zeros(n)
    box = np.full(n, np.inf) if squared else C
    H = K + np.diag(ridge)
    if isinstance(machine, LinearSVR):
        return -referee(H, -y, -box, box, A, eps=np.full(n, machine.epsilon)).objective
    p = -(1 + machine.huber_delta) * y if machine.loss == "huber" else -y
    return -referee(H, p, np.where(y > 0, 0.0, -box), np.where(y > 0, box, 0.0), A).objective


# -- the optimum ----------------------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_the_certificate_is_true_of_the_model(machine, weighted, tol):
    s = data_for(machine)
    y, weight = targets(machine, s.y), weights(s.n) if weighted else None
    model = clone(machine).set_params(tol=tol).fit(s.X, s.y, sample_weight=weight)
    assert model.status_ is Status.CONVERGED
    certificate = model.certificate_
    value = objective(machine, np.ravel(model.coef_), model.intercept_[0], s.X, y, weight)
    best = best_value(machine, s.X, y, weight)
    assert certificate.primal == pytest.approx(value, rel=1e-8)
    assert best - 1e-6 * best <= value <= (1 + tol) * best + 1e-6 * best
    assert certificate.dual <= best * (1 + 1e-6)
    assert 0 <= certificate.relative_gap <= tol
    assert certificate.infeasibility < 1e-8 * s.n


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_any_cost(loss, C):
    s = samples("noisy")
    model = LinearSVC(loss=loss, C=C, tol=1e-6).fit(s.X, s.y)
    assert model.status_ is Status.CONVERGED
    best = best_value(model, s.X, targets(model, s.y))
    assert model.certificate_.primal <= (1 + 2e-6) * best


def test_a_free_intercept_makes_it_the_machine_with_a_linear_kernel():
    s = samples("noisy")
    linear = LinearSVC(loss="hinge", C=0.1, tol=1e-9).fit(s.X, s.y)
    kernel = SVC(kernel="linear", C=0.1, tol=1e-9).fit(s.X, s.y)
    np.testing.assert_allclose(linear.coef_, kernel.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(linear.intercept_, kernel.intercept_, rtol=1e-4, atol=1e-5)
    t = samples("diabetes")
    linear = LinearSVR(C=0.1, epsilon=0.2, tol=1e-9).fit(t.X, t.y)
    kernel = SVR(kernel="linear", C=0.1, epsilon=0.2, tol=1e-9).fit(t.X, t.y)
    np.testing.assert_allclose(linear.coef_, kernel.coef_[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(linear.intercept_, kernel.intercept_, rtol=1e-4, atol=1e-5)


def test_far_from_the_origin_a_free_intercept_is_better():
    s = samples("noisy")
    X = s.X + 50.0
    free, penalised = (LinearSVC(C=0.1, intercept_scaling=c, max_iter=-1).fit(X, s.y) for c in (None, 1.0))
    centred = LinearSVC(C=0.1).fit(s.X, s.y)
    np.testing.assert_allclose(free.coef_, centred.coef_, rtol=0.05, atol=0.01)
    assert np.abs(penalised.coef_ - centred.coef_).max() > 5 * np.abs(free.coef_ - centred.coef_).max()


# -- scikit-learn's numbers -----------------------------------------------------------------------------

LIBLINEAR = [
    ("LinearSVC", {"loss": "hinge", "C": 0.1}),
    ("LinearSVC", {"loss": "squared_hinge", "C": 0.1}),
    ("LinearSVC", {"loss": "squared_hinge", "C": 0.1, "dual": False}),
    ("LinearSVC", {"loss": "hinge", "C": 0.1, "intercept_scaling": 3.0}),
    ("LinearSVC", {"loss": "squared_hinge", "C": 0.1, "fit_intercept": False}),
    ("LinearSVC", {"loss": "squared_hinge", "C": 0.1, "class_weight": {1: 3.0}}),
    ("LinearSVC", {"loss": "squared_hinge", "C": 0.1, "class_weight": "balanced"}),
    ("LinearSVR", {"C": 0.1, "epsilon": 0.2}),
    ("LinearSVR", {"C": 0.1, "epsilon": 0.2, "loss": "squared_epsilon_insensitive"}),
    ("LinearSVR", {"C": 0.1, "epsilon": 0.2, "fit_intercept": False}),
]


@pytest.mark.parametrize(("name", "params"), LIBLINEAR, ids=str)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_scikit_learns_problem_with_its_intercept(name, params, layout):
    params = {"intercept_scaling": 1.0} | params
    ours, theirs = (getattr(lib, name)(**params) for lib in (__import__("maxmargin"), sklearn.svm))
    s = data_for(ours)
    ours.set_params(tol=1e-8).fit(layout(s.X), s.y)
    theirs.set_params(tol=1e-8, max_iter=1_000_000).fit(layout(s.X), s.y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-4)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(values(ours, layout(s.X_test)), values(theirs, s.X_test), rtol=1e-3, atol=1e-3)


def test_several_classes_are_each_against_the_rest():
    s = samples("wine")
    ours = LinearSVC(C=0.1, intercept_scaling=1.0, tol=1e-8, class_weight={1: 2.0}).fit(s.X, s.y)
    theirs = sklearn.svm.LinearSVC(C=0.1, tol=1e-8, max_iter=100_000, class_weight={1: 2.0}).fit(s.X, s.y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(s.X_test), theirs.decision_function(s.X_test), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(s.X_test), theirs.predict(s.X_test))
    assert ours.coef_.shape == (3, s.X.shape[1])
    assert ours.intercept_.shape == (3,)
    assert len(ours.certificates_) == 3
    assert ours.certificate_ is max(ours.certificates_, key=lambda c: c.relative_gap)
    single = LinearSVC(C=0.1, intercept_scaling=1.0, tol=1e-8).fit(s.X, s.y == 1, np.where(s.y == 1, 2.0, 1.0))
    np.testing.assert_allclose(single.coef_[0], ours.coef_[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
def test_every_parameter_of_scikit_learn_is_taken(name):
    ours, theirs = (inspect.signature(getattr(lib, name)).parameters for lib in (__import__("maxmargin"), sklearn.svm))
    assert set(theirs) <= set(ours)
    for key, parameter in theirs.items():
        assert ours[key].kind == parameter.kind
        if key != "intercept_scaling":  # None here: an intercept without a penalty
            assert ours[key].default == parameter.default
    assert {"solver", "parametric", "n_jobs", "time_limit", "callback", "warm_start"} <= set(ours)
    ours, theirs = (getattr(lib, name) for lib in (__import__("maxmargin"), sklearn.svm))
    s = data_for(ours())
    public = {a for a in dir(theirs().fit(s.X, s.y)) if not a.startswith("_")} - {"get_metadata_routing"}
    assert public <= set(dir(ours().fit(s.X, s.y)))


# -- weights --------------------------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_weights_are_copies_and_zero_is_absence(machine, layout):
    s = data_for(machine)
    counts = np.random.default_rng(1).integers(0, 4, s.n)
    machine = clone(machine).set_params(tol=1e-11)
    weighted = clone(machine).fit(layout(s.X), s.y, sample_weight=counts)
    copied = clone(machine).fit(layout(np.repeat(s.X, counts, axis=0)), np.repeat(s.y, counts))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, copied.intercept_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weighted.certificate_.primal, copied.certificate_.primal, rtol=1e-9)


@each_classifier
def test_class_weights_are_weights(machine):
    s = samples("noisy")
    each = np.where(s.y == 1, 3.0, 0.5)
    machine = clone(machine).set_params(tol=1e-11)
    by_class = clone(machine).set_params(class_weight={0: 0.5, 1: 3.0}).fit(s.X, s.y)
    by_sample = clone(machine).fit(s.X, s.y, sample_weight=each)
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, rtol=1e-5, atol=1e-6)
    balanced = clone(machine).set_params(class_weight="balanced").fit(s.X, s.y, sample_weight=each)
    np.testing.assert_allclose(balanced.class_weight_, each.sum() / (2 * np.bincount(s.y, each)))


def test_a_class_without_weight_is_absent():
    s = samples("wine")
    model = LinearSVC().fit(s.X, s.y, sample_weight=(s.y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert model.coef_.shape == (1, s.X.shape[1])
    with pytest.raises(ValueError, match="number of classes has to be greater than one; got 1 class"):
        LinearSVC().fit(s.X, s.y, sample_weight=(s.y == 1).astype(float))


# -- every kind of input --------------------------------------------------------------------------------


def kinds(X, folder):
    """The same samples in every form that is taken."""
    np.save(folder / "C.npy", X)
    np.save(folder / "F.npy", np.asfortranarray(X))
    mapped = np.load(folder / "C.npy", mmap_mode="r")
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    half = len(X) // 2
    return {
        "array": X,
        "columns": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "list": X.tolist(),
        "csr": sp.csr_matrix(X),
        "csr-array": sp.csr_array(X),
        "csr-64": wide,
        "csc": sp.csc_matrix(X),
        "frame": pd.DataFrame(X).set_axis([f"f{j}" for j in range(X.shape[1])], axis=1),
        "map": mapped,
        "map-columns": np.load(folder / "F.npy", mmap_mode="r"),
        "map-part": np.load(folder / "C.npy", mmap_mode="r")[:],
        "path": folder / "C.npy",
        "name": str(folder / "C.npy"),
        "parts": [X[:10], X[10:half], X[half:]],
        "sparse-parts": (sp.csr_matrix(X[:half]), sp.csr_matrix(X[half:])),
        "mapped-parts": [mapped[:half], mapped[half:]],
    }


KINDS = [
    "array", "columns", "strided", "list", "csr", "csr-array", "csr-64", "csc", "frame", "map", "map-columns",
    "map-part", "path", "name", "parts", "sparse-parts", "mapped-parts",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", ["hinge", "scaled", "svr-squared"])
def test_every_kind_of_samples(machine, dtype, kind, tmp_path):
    machine = clone(MACHINES[machine]).set_params(tol=1e-9)
    s = data_for(machine)
    X = np.where(np.abs(s.X) > 0.5, s.X, 0.0).astype(dtype)
    plain = clone(machine).fit(X.astype(np.float64), s.y)
    given = kinds(X, tmp_path)[kind]
    model = clone(machine).fit(given, s.y)
    assert model.n_features_in_ == X.shape[1]
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values(model, given), values(plain, X), rtol=1e-4, atol=1e-5)
    assert hasattr(model, "feature_names_in_") is (kind == "frame")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # feature names
        np.testing.assert_allclose(values(model, X), values(plain, X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["array", "csr", "map", "parts", "path"])
@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
def test_samples_must_be_finite(kind, bad, tmp_path):
    s = samples("noisy")
    X = s.X.copy()
    X[4, 2] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        LinearSVC().fit(kinds(X, tmp_path)[kind], s.y)
    model = LinearSVC().fit(s.X, s.y)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model.predict(kinds(X, tmp_path)[kind])


def test_shapes_must_fit():
    s = samples("noisy")
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        LinearSVC().fit(s.X[:, 0], s.y)
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        LinearSVC().fit(s.X[:0], s.y[:0])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[250, 249\]"):
        LinearSVC().fit(s.X, s.y[:-1])
    with pytest.raises(ValueError, match=r"rows of equal length were asked for; found \[3, 8\] features"):
        LinearSVC().fit([s.X[:9, :3], s.X[9:]], s.y)
    with pytest.raises(FileNotFoundError):
        LinearSVC().fit("nowhere.npy", s.y)
    model = LinearSVC().fit(s.X, s.y)
    for X in (s.X[:, :3], [s.X[:5, :3], s.X[5:, :3]]):
        with pytest.raises(ValueError, match="X has 3 features, but LinearSVC is expecting 8 features"):
            model.predict(X)
    with pytest.raises(NotFittedError):
        LinearSVC().predict(s.X)


def test_one_feature_constant_features_and_more_features_than_samples():
    s = samples("noisy")
    for machine in (LinearSVC(loss="hinge"), LinearSVC(), LinearSVR()):
        assert clone(machine).fit(s.X[:, :1], s.y).status_ is Status.CONVERGED
        flat = clone(machine).fit(np.full((s.n, 3), 2.5), s.y)
        assert flat.status_ is Status.CONVERGED
        np.testing.assert_allclose(flat.coef_, 0.0, atol=1e-3)
        wide = np.random.default_rng(0).normal(size=(s.n, 600))
        model = clone(machine).set_params(tol=1e-6).fit(wide, s.y)
        assert model.status_ is Status.CONVERGED
        assert np.ravel(model.coef_).shape == (600,)


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_targets_without_variation(constant):
    s = samples("diabetes")
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        model = LinearSVR(loss=loss).fit(s.X, np.full(s.n, constant))
        assert model.status_ is Status.CONVERGED
        np.testing.assert_allclose(model.predict(s.X), constant, atol=1e-3)


def test_labels_of_every_kind():
    s = samples("iris")
    names = np.array(["a", "b", "c"])[s.y]
    model = LinearSVC().fit(s.X, names)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(s.X_test), model.classes_[LinearSVC().fit(s.X, s.y).predict(s.X_test)])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        LinearSVC().fit(s.X, s.X[:, 0])


# -- parameters that make no sense ----------------------------------------------------------------------

SHARED = {
    "tol": [0.0, -1e-3, np.nan, None, "small"],
    "C": [0, -1.0, np.nan, np.inf, "1", None],
    "max_iter": [0, -2, 2.5, None],
    "dual": ["yes", None, 2],
    "intercept_scaling": [0, -1.0, np.nan, np.inf, "1"],
    "fit_intercept": ["no", 1],
    "warm_start": ["no"],
    "time_limit": [0, "soon"],
    "n_jobs": ["all", 1.5],
    "callback": [3],
    "solver": ["magic", None],
    "parametric": [3],
}
OWN = {
    "hinge": {"loss": ["logistic", None], "penalty": ["l3", "elasticnet", None],
              "multi_class": ["ovo", None], "huber_delta": [0, -1.0, None]},
    "svr": {"loss": ["hinge", None], "epsilon": [-0.1, np.nan, np.inf, None]},
}  # fmt: skip
BAD = [(m, name, v) for m, own in OWN.items() for name, tries in (SHARED | own).items() for v in tries]


@pytest.mark.parametrize(("machine", "name", "value"), BAD, ids=str)
def test_a_parameter_that_makes_no_sense_is_an_error(machine, name, value):
    machine = clone(MACHINES[machine]).set_params(**{name: value})
    s = data_for(machine)
    with pytest.raises(ValueError, match=rf"^a (valid|known) {name} was asked for; found {name}=.+; .+"):
        machine.fit(s.X, s.y)


def test_what_is_not_there_says_what_is():
    s = samples("noisy")
    with pytest.raises(ValueError, match=r"found penalty='l3'; .*choose 'l2', 'l1'"):
        LinearSVC(penalty="l3", dual=False).fit(s.X, s.y)
    with pytest.raises(ValueError, match=r"found multi_class='ovo'; .*choose 'ovr', 'crammer_singer'"):
        LinearSVC(multi_class="ovo").fit(s.X, s.y)
    with pytest.raises(ValueError, match=r"found loss='logistic'; choose 'hinge', 'squared_hinge', 'huber'"):
        LinearSVC(loss="logistic").fit(s.X, s.y)


@pytest.mark.parametrize("size", [1e200, 1e150, 1e80])
def test_values_that_cannot_be_squared_twice_are_an_error(size):
    """Of 1e150 a matrix of the squares is still finite, and what is solved with it is not."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(ValueError, match="too large"), np.errstate(all="ignore"):
        LinearSVR().fit(size * X, np.sin(X[:, 0]))


# -- paths and warm starts ------------------------------------------------------------------------------


@each_machine
def test_a_path_is_the_machine_at_each_cost(machine):
    s = data_for(machine)
    Cs = [0.01, 0.1, 1.0]
    machine = clone(machine).set_params(tol=1e-8)
    path = machine.path(s.X, s.y, Cs)
    assert not hasattr(machine, "coef_")
    np.testing.assert_array_equal(path.Cs, Cs)
    assert path.coefs.shape == (3, s.X.shape[1])
    assert path.intercepts.shape == (3,)
    for k, C in enumerate(Cs):
        alone = clone(machine).set_params(C=C).fit(s.X, s.y)
        np.testing.assert_allclose(path.certificates[k][0].primal, alone.certificate_.primal, rtol=1e-7)
        np.testing.assert_allclose(path.coefs[k], np.ravel(alone.coef_), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(path.intercepts[k], alone.intercept_[0], rtol=1e-3, atol=1e-4)
        assert path.certificates[k][0].relative_gap <= 1e-8


def test_a_path_calls_the_callback_that_was_given():
    """A method belongs to its object, not to a copy of it."""

    class Watch:
        seen = 0

        def look(self, step):
            self.seen += 1

    watch, s = Watch(), samples("noisy")
    LinearSVC(callback=watch.look).path(s.X, s.y, [1.0])
    assert watch.seen > 0


def test_a_path_of_several_classes_with_weights_and_functions():
    s = samples("wine")
    machine = LinearSVC(loss="hinge", class_weight="balanced", parametric=lambda X: X[:, 0] > 0)
    path = machine.path(s.X, s.y, [0.1, 0.2], sample_weight=weights(s.n))
    assert path.coefs.shape == (2, 3, s.X.shape[1])
    assert path.intercepts.shape == (2, 3)
    assert [len(c) for c in path.certificates] == [3, 3]
    for bad in ([], [0.0], [[1.0]], [np.nan]):
        with pytest.raises(ValueError, match=rf"Cs=.* {THREE_PARTS}"):
            machine.path(s.X, s.y, bad)


@pytest.mark.parametrize("machine", ["hinge", "squared-hinge", "svr"])
def test_a_warm_start_changes_nothing_but_the_work(machine):
    machine = clone(MACHINES[machine]).set_params(warm_start=True, tol=1e-8)
    s = data_for(machine)
    first = clone(machine).fit(s.X, s.y)
    cold, steps = values(first, s.X_test), first.n_iter_
    first.fit(s.X, s.y)
    np.testing.assert_allclose(values(first, s.X_test), cold, rtol=1e-3, atol=1e-3)
    assert first.n_iter_ <= steps
    first.set_params(C=0.2).fit(s.X, s.y)
    alone = clone(machine).set_params(C=0.2).fit(s.X, s.y)
    np.testing.assert_allclose(first.certificate_.primal, alone.certificate_.primal, rtol=1e-7)
    first.fit(s.X[:50], s.y[:50])  # other samples: anew
    np.testing.assert_allclose(
        first.certificate_.primal, clone(alone).fit(s.X[:50], s.y[:50]).certificate_.primal, rtol=1e-7
    )


# -- manners --------------------------------------------------------------------------------------------


def slow():
    """A machine and data that take a while: labels without a pattern at a tolerance that is hard to reach."""
    rng = np.random.default_rng(0)
    return LinearSVC(loss="hinge", C=1e5, tol=1e-13, max_iter=-1), rng.normal(size=(3000, 20)), rng.integers(0, 2, 3000)


def test_a_time_limit_leaves_a_model_and_says_how_good_it_is():
    model, X, y = slow()
    LinearSVC(loss="hinge").fit(X[:50], y[:50])  # compile what there is to compile
    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as told:
        model.set_params(time_limit=1e-3).fit(X, y)
    assert time.perf_counter() - started < 10
    assert model.status_ is Status.TIME_LIMIT
    assert model.fit_status_ == 1
    assert set(model.predict(X)) <= {0, 1}
    message = str(told[0].message)
    share = f"{100 * model.certificate_.relative_gap:.3g} % of the objective"
    for part in ("LinearSVC", "time limit", "time_limit", share, f"tol {model.tol:g}"):
        assert part in message
    assert "failed to converge" not in message


@each_machine
def test_an_iteration_limit_leaves_a_model_and_says_what_to_change(machine):
    s = data_for(machine)
    model = clone(machine).set_params(max_iter=1, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=r"iteration limit.*max_iter.*[Gg]ap .*tol 1e-12"):
        model.fit(s.X, s.y)
    assert model.status_ is Status.MAX_ITERATIONS
    assert np.isfinite(values(model, s.X_test)).all()
    assert model.certificate_.relative_gap > 1e-12


@each_machine
def test_the_default_limit_is_enough(machine):
    s = data_for(machine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = type(machine)(loss=machine.loss).fit(s.X, s.y)
    assert model.status_ is Status.CONVERGED
    assert 1 <= model.n_iter_ <= 1000 * s.n


@each_machine
def test_a_callback_sees_progress_and_can_stop_the_fit(machine):
    s = data_for(machine)
    seen = []
    model = clone(machine).set_params(callback=seen.append).fit(s.X, s.y)
    assert model.status_ is Status.CONVERGED
    assert seen
    assert all(set(info) >= set(History.columns) for info in seen)
    model.set_params(callback=lambda info: True, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(s.X, s.y)
    assert model.status_ is Status.CALLBACK
    assert np.isfinite(values(model, s.X_test)).all()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a process")
def test_ctrl_c_leaves_a_model():
    model, X, y = slow()
    before = signal.getsignal(signal.SIGINT)

    def press(info):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    with pytest.warns(ConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.set_params(callback=lambda info, done=[]: done or done.append(press(info))).fit(X, y)  # noqa: B006
    assert model.status_ is Status.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is before
    assert set(model.predict(X)) <= {0, 1}


@each_machine
def test_nothing_is_printed_unless_asked(machine, capfd):
    s = data_for(machine)
    clone(machine).fit(s.X, s.y)
    capfd.readouterr()
    values(clone(machine).fit(s.X, s.y), s.X_test)
    assert capfd.readouterr() == ("", "")
    clone(machine).set_params(verbose=1).fit(s.X, s.y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "objective" in err


@each_machine
def test_the_same_every_time_for_any_number_of_threads(machine):
    s = data_for(machine)
    model = clone(machine).fit(s.X, s.y)
    for n_jobs in (None, 1, 2):
        again = clone(machine).set_params(n_jobs=n_jobs, random_state=None).fit(s.X, s.y)
        if n_jobs is None:
            np.testing.assert_array_equal(again.coef_, model.coef_)
            np.testing.assert_array_equal(again.intercept_, model.intercept_)
        np.testing.assert_allclose(again.certificate_.primal, model.certificate_.primal, rtol=2e-4)
    seeded = [clone(machine).set_params(random_state=seed).fit(s.X, s.y) for seed in (3, 3, np.random.RandomState(3))]
    np.testing.assert_array_equal(seeded[0].coef_, seeded[1].coef_)
    np.testing.assert_array_equal(seeded[0].coef_, seeded[2].coef_)


def test_several_classes_are_the_same_for_any_number_of_threads():
    s = samples("wine")
    one, two = (LinearSVC(n_jobs=n, tol=1e-10).fit(s.X, s.y) for n in (1, 2))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-4, atol=1e-6)


def test_float32_is_not_copied_as_a_whole():
    import tracemalloc

    X, y = make_classification(60_000, 50, random_state=0)
    X = X.astype(np.float32)
    LinearSVC(n_jobs=1).fit(X[:2000], y[:2000])
    tracemalloc.start()
    LinearSVC(n_jobs=1).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.0 * X.nbytes  # a copy in float64 alone would be that much


BY_NAME = [
    (machine, solver)
    for machine in MACHINES
    for solver in ("decomposition", "smo", "chunking", "mpd", "sor", "interior-point", "newton")
    if solver != "newton" or MACHINES[machine].loss not in ("hinge", "epsilon_insensitive")  # which are not smooth
]


@pytest.mark.parametrize(("machine", "solver"), BY_NAME)
def test_a_solver_by_name_reaches_the_gap_too(machine, solver):
    machine = MACHINES[machine]
    s = data_for(machine)
    model = clone(machine).set_params(solver=solver, tol=1e-5).fit(s.X, s.y)
    assert model.solver_ == solver
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-5
    y = targets(machine, s.y)
    value = objective(machine, np.ravel(model.coef_), model.intercept_[0], s.X, y)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-7)
    assert value <= (1 + 2e-5) * best_value(machine, s.X, y)


@each_machine
@pytest.mark.parametrize("scaled", [True, False], ids=["equal", "unequal"])
def test_the_choice_of_a_solver_holds_for_more_samples(machine, scaled):
    """Enough of them that no matrix is made; features so unequal that sweeps alone would crawl."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 15)) * (1.0 if scaled else np.logspace(0, 2, 15))
    f = X[:, 0] + 0.3 * rng.normal(size=2000)
    y = np.where(f > 0, 1, 0) if isinstance(machine, LinearSVC) else f
    model = clone(machine).set_params(tol=1e-6).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.solver_ in ("sor", "interior-point", "newton")
    assert model.certificate_.relative_gap <= 1e-6
    value = objective(machine, np.ravel(model.coef_), model.intercept_[0], X, targets(machine, y))
    assert model.certificate_.primal == pytest.approx(value, rel=1e-7)


# -- among scikit-learn's tools -------------------------------------------------------------------------


@each_machine
def test_clones_and_pickles(machine):
    s = data_for(machine)
    model = clone(machine).fit(s.X, s.y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(values(copy, s.X_test), values(model, s.X_test))
    assert copy.certificate_ == model.certificate_
    assert len(pickle.dumps(model)) < 100_000  # weights and history, no samples
    with pytest.raises(NotFittedError):
        values(clone(model), s.X)
    np.testing.assert_array_equal(values(clone(model).fit(s.X, s.y), s.X_test), values(model, s.X_test))


def test_sparse_weights():
    s = samples("wine")
    model = LinearSVC().fit(s.X, s.y)
    expected = model.decision_function(s.X_test)
    assert sp.issparse(model.sparsify().coef_)
    np.testing.assert_allclose(model.decision_function(s.X_test), expected)
    assert isinstance(model.densify().coef_, np.ndarray)
    np.testing.assert_allclose(model.decision_function(s.X_test), expected)


def test_searches_pipelines_and_selection():
    s = samples("wine")
    pipeline = make_pipeline(StandardScaler(), LinearSVC(loss="hinge"))
    search = GridSearchCV(pipeline, {"linearsvc__C": [0.01, 0.1, 1.0]}, cv=3).fit(s.X, s.y)
    assert search.best_score_ > 0.9
    assert RFE(LinearSVC(), n_features_to_select=5).fit(s.X, s.y).support_.sum() == 5
    t = samples("diabetes")
    assert GridSearchCV(LinearSVR(), {"epsilon": [0.0, 0.5]}, cv=3).fit(t.X, t.y).best_score_ > 0.3


@pytest.mark.parametrize("solver", ["auto", "interior-point"])
@pytest.mark.parametrize("seed", [2, 4, 7])
def test_separable_data_with_unequal_features_and_a_huge_cost(seed, solver):
    """First steps of the interior method are shorter than 1e-10 here, and three times longer each time."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 30)) * np.exp(2 * rng.normal(size=30)) * (rng.random((300, 30)) < 0.3)
    y = np.sign(X @ rng.normal(size=30) + 1e-9)
    model = LinearSVC(loss="hinge", C=1e4, tol=1e-6, solver=solver).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize("kind", [float, np.float32, int, np.uint8, bool, str, object])
@pytest.mark.parametrize("first", [0, 1])
def test_two_classes_are_in_order_whichever_comes_first(kind, first):
    s = samples("noisy")
    y = (s.y > 0).astype(int)
    y[0] = first
    names = np.array(["no", "yes"], object)[y] if kind is object else y.astype(kind)
    model = LinearSVC(loss="hinge").fit(s.X, names)
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert model.classes_.dtype == names.dtype
    plain = LinearSVC(loss="hinge").fit(s.X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
