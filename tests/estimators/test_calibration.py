"""Probabilities: of which samples, how well, and that they agree with predictions."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

import maxmargin.estimators.classification as classification
import maxmargin.estimators.folds as folds
import maxmargin.estimators.folds_by_rows as folds_by_rows
import maxmargin.estimators.small_folds as small_folds
from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.calibration import (
    CALIBRATIONS,
    agreeing,
    couple,
    density_marks,
    laplace_width,
    normal_share,
    sigmoid,
    temperature,
)
from maxmargin.estimators.fold_machines import FoldMachines
from maxmargin.estimators.folds import fold_numbers
from maxmargin.solution import Status
from maxmargin.solvers import Auto

rng_of = np.random.default_rng
each_calibration = pytest.mark.parametrize("calibration", CALIBRATIONS)


def noisy(classes=2, n=300, seed=0, **more):
    return make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=classes, flip_y=0.2, class_sep=0.7, random_state=seed, **more
    )


# -- what is there, and when ----------------------------------------------------------------------------------------


def test_without_probability_there_is_none_and_a_message_says_why():
    X, y = noisy()
    model = SVC().fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as told:
        model.predict_proba(X)
    reason = str(told.value.__cause__)
    assert reason == "predict_proba was asked for; found probability=False; fit SVC(probability=True)"
    assert len(model.probA_) == len(model.probB_) == 0
    with pytest.raises(NotFittedError, match="fitted without probabilities; fit it again"):
        model.set_params(probability=True).predict_proba(X)
    with pytest.raises(NotFittedError):
        SVC(probability=True).predict_proba(X)


def test_wrong_names_are_told():
    X, y = noisy()
    with pytest.raises(ValueError, match="found calibration='sigmoyd'; did you mean 'sigmoid'"):
        SVC(probability=True, calibration="sigmoyd").fit(X, y)
    with pytest.raises(ValueError, match="found probability='yes'"):
        SVC(probability="yes").fit(X, y)


@each_calibration
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.3), SVC(kernel="linear"), SVC(break_ties=True)], ids=repr)
def test_the_most_probable_class_is_the_predicted_one(machine, classes, calibration):
    """On noise and far away as well."""
    X, y = noisy(classes)
    names = np.array(["e", "d", "c", "b", "a"])[y]
    model = machine.set_params(probability=True, calibration=calibration).fit(X, names)
    plain = type(machine)(**{**machine.get_params(), "probability": False}).fit(X, names)
    test = np.vstack([X, rng_of(1).normal(size=(500, 6)), 1e3 * rng_of(2).normal(size=(20, 6)), np.zeros((1, 6))])
    p = model.predict_proba(test)
    assert p.shape == (len(test), classes)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p > 0).all()
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(test))
    assert_array_equal(model.predict(test), plain.predict(test))  # probabilities change nothing else
    assert_array_equal(model.decision_function(test), plain.decision_function(test))
    assert_allclose(model.predict_log_proba(test), np.log(p))


@pytest.mark.parametrize("classes", [2, 3])
def test_seeds_and_threads(classes):
    X, y = noisy(classes)
    one = SVC(probability=True, random_state=3, n_jobs=1).fit(X, y)
    assert_array_equal(one.predict_proba(X), SVC(probability=True, random_state=3, n_jobs=2).fit(X, y).predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), SVC(probability=True, random_state=4).fit(X, y).predict_proba(X))
    assert_array_equal(SVC(probability=True).fit(X, y).probA_, SVC(probability=True).fit(X, y).probA_)


# -- folds ----------------------------------------------------------------------------------------------------------


def test_folds_have_equal_parts_of_each_class_and_copies_stay_together():
    X = rng_of(0).normal(size=(500, 3))
    X[250:] = X[:250]
    y = np.tile(np.r_[np.zeros(50, int), np.ones(200, int)], 2)
    folds = fold_numbers(X, y, np.ones(500), seed=0)
    assert_array_equal(folds[250:], folds[:250])
    for label, size in ((0, 20), (1, 80)):
        assert_array_equal(np.bincount(folds[y == label], minlength=5), size)
    assert not np.array_equal(folds, fold_numbers(X, y, np.ones(500), seed=1))


def test_folds_do_not_depend_on_the_kind_of_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    X = np.where(rng_of(0).random((90, 4)) < 0.5, 0.0, rng_of(1).integers(-2, 3, (90, 4))).astype(np.float32)
    y = np.arange(90) % 2
    folds = fold_numbers(X, y, np.ones(90), seed=0)
    assert_array_equal(folds, fold_numbers(X.astype(float), y, np.ones(90), seed=0))
    assert_array_equal(folds, fold_numbers(sparse.csr_array(X), y, np.ones(90), seed=0))
    assert_array_equal(folds, fold_numbers(np.where(X == 0, -0.0, X), y, np.ones(90), seed=0))
    rows = sparse.csr_array(X)
    halves = (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr)  # each entry is a sum of two
    assert_array_equal(folds, fold_numbers(sparse.csr_array(halves, shape=X.shape), y, np.ones(90), seed=0))


@each_calibration
@pytest.mark.parametrize("classes", [2, 3])
def test_a_weight_is_a_number_of_copies(classes, calibration):
    X, y = noisy(classes, n=80)
    weight = rng_of(0).integers(0, 4, 80)
    order = rng_of(1).permutation(weight.sum())
    weighted = SVC(probability=True, calibration=calibration, tol=1e-6).fit(X, y, sample_weight=weight)
    copied = SVC(probability=True, calibration=calibration, tol=1e-6)
    copied.fit(X.repeat(weight, axis=0)[order], y.repeat(weight)[order])
    assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    "machine", [SVC(C=3), SVC(C=3, loss="squared_hinge"), SVC(loss="huber"), NuSVC(nu=0.3)], ids=repr
)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed", "callable"])
def test_decisions_are_those_of_machines_without_the_fold(machine, classes, kernel, monkeypatch):
    """As refitted from nothing on each of the folds, whatever is shared and warm."""
    X, y = noisy(classes, n=150)
    used = {}

    def folds(*given):
        used["folds"] = fold_numbers(*given)
        return used["folds"]

    def calibrated(method, decisions, signs, weights):
        used["decisions"] = [np.array(d) for d in decisions]
        return real(method, used["decisions"], signs, weights)

    real = classification.calibrated
    monkeypatch.setattr(classification, "fold_numbers", folds)
    monkeypatch.setattr(classification, "calibrated", calibrated)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    given = {"precomputed": K}.get(kernel, X)
    function = {"callable": lambda a, b: np.exp(-0.2 * ((a[:, None] - b) ** 2).sum(axis=2))}.get(kernel, kernel)
    model = type(machine)(
        **{**machine.get_params(), "kernel": function, "gamma": 0.2, "tol": 1e-6, "probability": True}
    )
    model.fit(given, y)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    for (i, j), found in zip(pairs, used["decisions"], strict=True):
        rows = np.flatnonzero((y == i) | (y == j))
        for fold in range(5):
            own, others = rows[used["folds"][rows] == fold], rows[used["folds"][rows] != fold]
            alone = type(model)(**{**model.get_params(), "probability": False})
            if kernel == "precomputed":
                wanted = alone.fit(K[np.ix_(others, others)], y[others]).decision_function(K[np.ix_(own, others)])
            else:
                wanted = alone.fit(X[others], y[others]).decision_function(X[own])
            assert_allclose(found[used["folds"][rows] == fold], -wanted, atol=3e-5)  # positive for the first class


@pytest.mark.parametrize(
    ("loss", "kernel", "heavy"),
    [("hinge", "rbf", 1.0), ("hinge", "rbf", 150.0), ("squared_hinge", "rbf", 1.0), ("huber", "rbf", 1.0),
     ("hinge", "callable", 1.0), ("huber", "callable", 150.0)],
)  # fmt: skip
def test_machines_of_folds_that_are_found_by_what_changes(loss, kernel, heavy, monkeypatch):
    """Without room for rows of the matrix, one pass over it gives where all machines of folds start from."""
    X, y = noisy(2, n=700)
    X, y = np.vstack([X, X[:100]]), np.concatenate([y, y[:100]])  # equal points are looked at once
    X[301], y[301] = X[300], 1 - y[300]
    weight = np.where(np.isin(np.arange(800), (300, 301)), heavy, 1.0)  # one without the other
    used, looked, parts = {}, [], []

    def calibrated(method, decisions, *given):
        used["decisions"] = np.array(decisions[0])
        return real(method, decisions, *given)

    def origins(*given):
        looked.append(found := first(*given))
        return found

    def part(qp, index):
        parts.append(len(index))
        return some(qp, index)

    real, first, some = classification.calibrated, folds._origins, folds._part
    monkeypatch.setattr(folds.memory, "fits", lambda size: False)
    monkeypatch.setattr(folds, "_origins", origins)
    monkeypatch.setattr(folds, "_part", part)
    monkeypatch.setattr(folds, "BATCH_POINTS", 20)
    monkeypatch.setattr(folds, "HALF", 16)
    monkeypatch.setattr(classification, "calibrated", calibrated)
    function = {"callable": lambda a, b: np.exp(-0.2 * ((a[:, None] - b) ** 2).sum(axis=2))}.get(kernel, kernel)
    asked = dict(C=3.0, loss=loss, kernel=function, gamma=0.2, tol=1e-6)
    SVC(probability=True, **asked).fit(X, y, sample_weight=weight)
    assert [sorted(found) for found in looked] == [[0, 1, 2, 3, 4]]
    assert min(parts) < 50  # at first
    assert len(parts) > 5  # and what was missed
    own_fold = fold_numbers(X, y, weight, 0)
    for fold in range(5):
        own = own_fold == fold
        wanted = SVC(**asked).fit(X[~own], y[~own], sample_weight=weight[~own]).decision_function(X[own])
        assert_allclose(used["decisions"][own], -wanted, atol=3e-5)


def far_ones_wanted(n):
    """A kernel of short reach: without its fold a machine needs samples that were far from the boundary."""
    rng = rng_of(0)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = (X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n) > 0).astype(int)
    return X, y, np.exp(-1.5 * ((X[:, None] - X) ** 2).sum(axis=2))


def check_folds(decisions, folds, asked, K, y, atol=3e-5):
    """Each fold is decided by the machine of the others, fitted alone."""
    asked = asked | {"kernel": "precomputed", "tol": 1e-7}
    for fold in range(5):
        own = folds == fold
        alone = SVC(**asked).fit(K[np.ix_(~own, ~own)], y[~own])
        assert_allclose(decisions[own], alone.decision_function(K[np.ix_(own, ~own)]), atol=atol)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_machines_of_folds_that_look_at_more_and_more_samples(loss, kernel, monkeypatch):
    used, seen = {}, []
    X, y, K = far_ones_wanted(1400)

    def calibrated(method, decisions, *given):
        used["decisions"] = np.array(decisions[0])
        return real(method, decisions, *given)

    def step(machines, todo, n, *given):
        seen.append(n)
        first(machines, todo, n, *given)

    real, first = classification.calibrated, FoldMachines._step
    monkeypatch.setattr(classification, "calibrated", calibrated)
    monkeypatch.setattr(FoldMachines, "_step", step)
    monkeypatch.setattr(folds, "decided_by_rows", lambda *given: None)
    asked = dict(C=10.0, loss=loss, gamma=1.5, tol=1e-7)  # machines of folds: 1e-6
    SVC(probability=True, kernel=kernel, **asked).fit(K if kernel == "precomputed" else X, y)
    assert seen[0] < seen[-1] == 1400
    numbers = fold_numbers(X, y, np.ones(1400), 0, by_content=kernel != "precomputed")
    check_folds(-used["decisions"], numbers, asked, K, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("tol", "apart"), [(1e-7, 3e-5), (1e-3, 0.1)])  # rows in float64, and in float32
def test_folds_by_a_leaf_that_makes_their_rows(loss, tol, apart, monkeypatch):
    """No fold is left to others, and none of them is decided by another machine than that of the other folds."""
    found = []
    X, y, K = far_ones_wanted(1400)

    def decided(*given):
        found.extend(real(*given))
        return found

    real = folds.decided_by_rows
    monkeypatch.setattr(folds, "decided_by_rows", decided)
    asked = dict(C=10.0, loss=loss, gamma=1.5)
    SVC(probability=True, tol=tol, **asked).fit(X, y)
    assert len(found) == 1
    assert np.isfinite(found[0]).all()
    numbers = fold_numbers(X, y, np.ones(1400), 0)
    check_folds(found[0], numbers, asked, K, y, apart)


def test_folds_by_a_leaf_are_those_of_any_number_of_threads_and_of_pairs_alone():
    X, y, _ = far_ones_wanted(1800)
    y = y + 2 * (X[:, 0] > 1.0)
    models = [SVC(C=10.0, gamma=1.5, probability=True, n_jobs=n).fit(X, y) for n in (1, 2, 8)]
    for other in models[1:]:
        assert_array_equal(other.probA_, models[0].probA_)
        assert_array_equal(other.probB_, models[0].probB_)
    two = [SVC(C=10.0, gamma=1.5, probability=True, n_jobs=n).fit(X[y < 2], y[y < 2]) for n in (1, 2, 3, 8)]
    for other in two[1:]:
        assert_array_equal(other.probA_, two[0].probA_)


def test_folds_that_take_a_leaf_too_long_are_left_to_others(monkeypatch):
    X, y, _ = far_ones_wanted(1400)
    wanted = SVC(C=10.0, gamma=1.5, probability=True, tol=1e-7).fit(X, y)
    monkeypatch.setattr(folds_by_rows, "STEP_LOOKS", 1400 * 100)  # some folds take more than 100 steps
    found = SVC(C=10.0, gamma=1.5, probability=True, tol=1e-7).fit(X, y)
    assert_allclose(found.probA_, wanted.probA_, rtol=1e-5)
    assert_allclose(found.probB_, wanted.probB_, atol=1e-5)


def slow_ones():
    """Weights of which few count, and a quadratic kernel: pair steps alone take very many for most folds."""
    r = rng_of(0)
    X, y = r.normal(size=(300, 5)), np.arange(300) % 2
    return X, y, 10.0 ** r.uniform(-3.0, 3.0, 300), dict(kernel="poly", degree=2, coef0=1.0, C=10.0, tol=1e-8)


def unfinished(monkeypatch):
    """What the leaf for many small problems leaves of folds; the list fills up with a fit."""
    seen = []

    def solved(*given, **named):
        found = solve(*given, **named)
        seen.append(int((found.violations > 1e-3).sum()))
        return found

    solve = small_folds.solve_small
    monkeypatch.setattr(small_folds, "solve_small", solved)
    return seen


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_folds_that_a_leaf_leaves_unfinished_are_finished(n_jobs, monkeypatch):
    X, y, weight, asked = slow_ones()
    used, left = {}, unfinished(monkeypatch)

    def calibrated(method, decisions, *given):
        used["decisions"] = decisions[0]
        return real(method, decisions, *given)

    real = classification.calibrated
    monkeypatch.setattr(classification, "calibrated", calibrated)
    SVC(probability=True, n_jobs=n_jobs, **asked).fit(X, y, sample_weight=weight)
    assert left == [5]
    numbers = fold_numbers(X, y, weight, 0)
    for fold in range(5):
        own = numbers == fold
        alone = SVC(**asked, gamma=1.0 / (5 * X.var())).fit(X[~own], y[~own], sample_weight=weight[~own])
        assert alone.status_.converged
        assert_allclose(-used["decisions"][own], alone.decision_function(X[own]), atol=1e-5)


def test_a_stop_while_folds_are_finished_leaves_probabilities(monkeypatch):
    """The fit is done: only folds are decided by it, and their solvers end."""
    X, y, weight, asked = slow_ones()
    left = unfinished(monkeypatch)
    model = SVC(probability=True, callback=lambda told: bool(left), **asked).fit(X, y, sample_weight=weight)
    assert left == [5]
    assert model.status_.converged
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert_array_equal(p.argmax(axis=1), model.predict(X))


def test_folds_of_a_fit_that_reached_no_goal_are_not_asked_for_it(monkeypatch):
    """What rounding keeps a fit from would take its folds as long as their solvers have patience."""
    X, y, weight, asked = slow_ones()
    left, goals = unfinished(monkeypatch), []

    def solved(solver, qp, goal, *given):
        if left:
            goals.append(goal.violation)
        return solve(solver, qp, goal, *given)

    solve = Auto.solve
    monkeypatch.setattr(Auto, "solve", solved)
    model = SVC(probability=True, **(asked | dict(tol=1e-30))).fit(X, y, sample_weight=weight)
    assert not model.status_.converged
    assert left == [len(goals)] == [5]
    assert min(goals) >= model.certificate_.violation


@pytest.mark.parametrize("machine", [SVC(), SVC(loss="squared_hinge"), NuSVC(nu=0.4)], ids=str)
def test_whoever_finishes_folds_they_are_the_same(machine, monkeypatch):
    X, y = noisy(3, n=150)
    model = clone(machine).set_params(probability=True, tol=1e-9)
    wanted = model.fit(X, y).predict_proba(X)

    def hardly(gram, problems, tol, max_iter, *given, **named):
        left = solve(gram, problems, tol, 3, *given, finish=False, **named)
        assert len(left.code) == 15
        return replace(left, spent=Status.EXHAUSTED)

    solve = small_folds.solve_small
    monkeypatch.setattr(small_folds, "solve_small", hardly)
    found = [clone(model).set_params(n_jobs=n).fit(X, y).predict_proba(X) for n in (1, 2)]
    assert_allclose(found[0], wanted, atol=1e-6)
    assert_array_equal(found[1], found[0])


def test_folds_without_a_class_and_functions_of_the_user():
    X, y = noisy(3, n=60)
    y[:] = np.where(np.arange(60) < 2, 2, y % 2)  # two samples of the third class: some folds have none
    for solver in ("auto", "smo"):
        model = SVC(probability=True, solver=solver).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
    model = SVC(probability=True, parametric=[lambda A: A[:, 0]]).fit(X, y > 0)
    assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


@pytest.mark.parametrize("machine", [SVC(), SVC(solver="smo"), NuSVC(nu=0.05)], ids=["small", "solver", "nu"])
@pytest.mark.parametrize("counts", [(1, 1), (1, 1, 20)])
def test_classes_of_one_sample(machine, counts):
    """Both samples of a pair are in the same fold, or no machine of a fold has two classes."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng_of(0).normal(size=(len(y), 2)) + y[:, None]
    model = clone(machine).set_params(probability=True).fit(X, y)
    found = model.predict_proba(X)
    assert_allclose(found.sum(axis=1), 1.0)
    assert_array_equal(found.argmax(axis=1), model.predict(X))


def test_a_limit_of_time_leaves_probabilities():
    X, y = noisy(n=400, seed=1)
    model = SVC(probability=True, C=1e6, time_limit=1e-3)
    with pytest.warns(UserWarning):
        model.fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert_array_equal(p.argmax(axis=1), model.predict(X))


def test_rounding_of_decisions_that_are_alike_shapes_no_curve():
    """Copies of a sample have decisions that differ by rounding: their order says nothing of their classes."""
    rng = rng_of(0)
    f = np.repeat([-1.0, 0.3, 2.0], 40)
    sign = np.where(rng.uniform(size=120) < 0.5 + 0.2 * f, 1.0, -1.0)
    weight, places = rng.uniform(0.5, 2.0, 120), np.linspace(-2.0, 3.0, 50)[:, None]
    plain = classification.calibrated("isotonic", [f], [sign], [weight]).pairwise(places).T
    for _ in range(5):
        rounded = f * (1.0 + 3e-14 * rng.normal(size=120))
        found = classification.calibrated("isotonic", [rounded], [sign], [weight]).pairwise(places).T
        assert_allclose(found, plain, atol=1e-9)


# -- how well -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris, load_digits])
def test_no_worse_than_calibrated_classifiers_on_the_same_folds(load):
    X, y = load(return_X_y=True)
    order = rng_of(0).permutation(len(y))[:900]
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    half = len(y) // 2
    ours = SVC(C=1.0, gamma=0.02, probability=True).fit(X[:half], y[:half])
    folds = fold_numbers(X[:half], y[:half], np.ones(half), seed=0)
    theirs = CalibratedClassifierCV(SVC(C=1.0, gamma=0.02), cv=PredefinedSplit(folds), ensemble=False)
    theirs.fit(X[:half], y[:half])
    mine, other = ours.predict_proba(X[half:]), theirs.predict_proba(X[half:])
    assert log_loss(y[half:], mine) < 1.02 * log_loss(y[half:], other) + 0.002
    assert ((mine - np.eye(len(ours.classes_))[y[half:]]) ** 2).sum(axis=1).mean() < 0.002 + 1.02 * (
        (other - np.eye(len(ours.classes_))[y[half:]]) ** 2
    ).sum(axis=1).mean()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_numbers_mean_what_libsvm_means():
    """A, B and their signs, for two classes and several, beside scikit-learn's, whose folds are others."""
    for classes in (2, 3):
        X, y = noisy(classes, n=1500)
        ours = SVC(probability=True, gamma=0.1).fit(X, y)
        theirs = TheirSVC(probability=True, gamma=0.1, random_state=0).fit(X, y)
        assert_allclose(ours.probA_, theirs.probA_, rtol=0.15)
        assert_allclose(ours.probB_, theirs.probB_, atol=0.15)
        assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).mean() < 0.03


@pytest.mark.parametrize("size, told", [(1e-300, True), (1e-306, False), (0.0, False)])
def test_decisions_that_underflow_have_no_temperature(size, told):
    """Machines of folds decide by 1e-306 where a narrow kernel has no neighbour, and 1 / T would be infinite."""
    f, sign = size * np.array([1.0, -2.0, 1.5, -1.0]), np.array([1.0, -1.0, 1.0, 1.0])
    t = temperature(f, (sign + 1.0) / 2.0, np.ones(4))
    assert np.isfinite(t) and (t != 0.0) is told


def test_temperature_leaves_half_where_the_decision_is_nothing():
    X, y = noisy(n=400, weights=[0.8])
    model = SVC(probability=True, calibration="temperature").fit(X, y)
    assert_array_equal(model.probB_, 0.0)
    assert_allclose(
        model.predict_proba(X)[:, 1], 1 / (1 + np.exp(model.probA_ * model.decision_function(X))), rtol=1e-9
    )


def test_class_weights_count_in_probabilities():
    """As in logistic regression: a class that counts ten times is as probable as if there were ten times as many."""
    X, y = noisy(n=600, weights=[0.9])
    plain = SVC(probability=True).fit(X, y).predict_proba(X)[:, 1]
    heavy = SVC(probability=True, class_weight={1: 9.0}).fit(X, y).predict_proba(X)[:, 1]
    assert plain.mean() < 0.3
    assert 0.35 < heavy.mean() < 0.65


# -- the parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_sigmoid_is_the_best_one(scale):
    rng = rng_of(0)
    f = scale * rng.normal(size=200)
    target = np.where(f / scale + rng.normal(size=200) + 0.3 > 0, 0.97, 0.05)
    weight = rng.random(200)
    A, B = sigmoid(f, target, weight)

    def loss(z):
        a, b = z
        return weight @ (target * (a * f / scale + b) + np.logaddexp(0.0, -(a * f / scale + b)))

    best = minimize(loss, [0.0, 0.0], tol=1e-12)
    assert loss((A * scale, B)) <= best.fun + 1e-9
    t = temperature(f, target, weight)
    line = minimize(lambda z: loss((z[0], 0.0)), [-1.0], tol=1e-12)
    assert loss((t * scale, 0.0)) <= line.fun + 1e-7


def test_decisions_that_say_the_contrary_say_nothing():
    f = np.r_[-np.ones(10), np.ones(30)]
    A, B = sigmoid(f, np.where(f < 0, 0.9, 0.1), np.ones(40))
    assert A == 0.0
    assert 1 / (1 + np.exp(B)) == pytest.approx(0.3)


@pytest.mark.parametrize("k", [3, 4, 10])
def test_coupling_finds_probabilities_that_were_there(k):
    p = rng_of(0).dirichlet(np.ones(k), 50)
    i, j = np.triu_indices(k, 1)
    assert_allclose(couple(p[:, i] / (p[:, i] + p[:, j]), k), p, atol=0.02)
    r = rng_of(1).uniform(0.05, 0.95, (50, k * (k - 1) // 2))
    found = couple(r, k)
    assert_allclose(found.sum(axis=1), 1.0)

    def cost(q, row):
        return sum((r[row, c] * q[b] - (1 - r[row, c]) * q[a]) ** 2 for c, (a, b) in enumerate(zip(i, j, strict=True)))

    for row in range(5):  # no other point of the simplex is better by more than LIBSVM's accuracy
        others = rng_of(row).dirichlet(np.ones(k), 200)
        near = 0.98 * found[row] + 0.02 * others
        assert cost(found[row], row) <= min(cost(q, row) for q in np.vstack([others, near])) + 1e-3


def test_agreement_is_the_nearest_one():
    p = rng_of(0).dirichlet(np.ones(5), 400)
    chosen = rng_of(1).integers(0, 5, 400)
    found = agreeing(p, chosen)
    assert_array_equal(found.argmax(axis=1), chosen)
    assert_allclose(found.sum(axis=1), 1.0)
    same = p.argmax(axis=1) == chosen
    assert_array_equal(found[same], p[same])
    for row in np.flatnonzero(~same)[:40]:
        for _ in range(50):  # others that agree are farther away
            other = rng_of(row).dirichlet(np.ones(5))
            other = agreeing(0.9 * found[row : row + 1] + 0.1 * other, chosen[row : row + 1])[0]
            assert ((found[row] - p[row]) ** 2).sum() <= ((other - p[row]) ** 2).sum() + 1e-12


def test_laplace_width_leaves_out_the_farthest():
    residuals = np.r_[rng_of(0).laplace(scale=2.0, size=20000), 1e3]
    assert laplace_width(residuals, np.ones(20001)) == pytest.approx(2.0, rel=0.05)


def test_marks_of_one_class():
    f = np.r_[-np.arange(1.0, 11.0), np.arange(0.0, 90.0)]
    marks = density_marks(f, np.ones(100))
    # Runs of two below 0 begin at −10, −8, −6, −4, −2; runs of eighteen above end at 17, 35, 53, 71, 89.
    edges = np.array([-10, -8, -6, -4, -2, 0, 17, 35, 53, 71, 89.0])
    assert_allclose(marks, (edges[:-1] + edges[1:]) / 2)
    assert_allclose(normal_share(np.array([-20.0, -8.5, -1.0, 0.0, 8.5, 79.9, 80.0, 80.1]), marks),
                    [0.001, 0.1, 0.5, 0.5, 0.6, 0.9, 0.9, 0.999])  # fmt: skip
    assert density_marks(np.arange(-3.0, 50.0), np.ones(53)) is None
    copies = rng_of(0).integers(1, 4, 100)
    assert_allclose(density_marks(f, copies.astype(float)), density_marks(f.repeat(copies), np.ones(copies.sum())))


def test_marks_are_where_libsvm_has_them():
    """LIBSVM's indices: i · n₋ / 5 from the lowest, and n₋ − 1 + i · n₊ / 5, in whole numbers."""
    f = np.sort(rng_of(3).normal(size=137) + 1.0)
    below = int((f < 0).sum())
    edges = [f[i * below // 5] for i in range(5)] + [0.0] + [f[below - 1 + i * (137 - below) // 5] for i in range(1, 6)]
    assert_allclose(density_marks(f, np.ones(137)), [(a + b) / 2 for a, b in zip(edges[:-1], edges[1:], strict=True)])


# -- other machines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine",
    [SVR(C=10), NuSVR(C=10), SVR(C=10, loss="huber", huber_delta=0.1), SVR(C=10, loss="squared_error"),
     SVR(C=10, kernel="linear"), SVR(C=10, parametric=[lambda A: A[:, 0]])],
    ids=["epsilon", "nu", "huber", "squared", "linear", "parametric"],
)  # fmt: skip
def test_intervals_hold_as_many_targets_as_they_say(machine):
    rng = rng_of(0)
    X = rng.normal(size=(400, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.laplace(scale=0.5, size=400)
    model = machine.set_params(probability=True).fit(X[:200], y[:200])
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[200:], coverage).T
        assert ((low <= y[200:]) & (y[200:] <= high)).mean() == pytest.approx(coverage, abs=0.13)
    assert_allclose(0.5 * (low + high), model.predict(X[200:]))
    assert model.probA_.shape == (1,)


def test_the_width_is_that_of_machines_without_the_fold():
    rng = rng_of(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)
    for machine in (SVR(tol=1e-6, gamma=0.5), NuSVR(tol=1e-6, gamma=0.5)):
        folds = fold_numbers(X, np.zeros(120), np.ones(120), 0)
        residuals = np.empty(120)
        for fold in range(5):
            alone = type(machine)(**machine.get_params()).fit(X[folds != fold], y[folds != fold])
            residuals[folds == fold] = y[folds == fold] - alone.predict(X[folds == fold])
        width = machine.set_params(probability=True).fit(X, y).probA_[0]
        assert width == pytest.approx(laplace_width(residuals, np.ones(120)), rel=1e-4)
    plain = SVR().fit(X, y)
    assert len(plain.probA_) == 0
    assert not hasattr(plain, "predict_interval")
    with pytest.raises(ValueError, match=r"a coverage in \(0, 1\) was asked for; found coverage=2"):
        machine.predict_interval(X, 2)


def test_probabilities_of_one_class():
    X = rng_of(0).normal(size=(300, 2))
    model = OneClassSVM(nu=0.2, gamma=0.5, probability=True).fit(X)
    p = model.predict_proba(X)
    assert model.prob_density_marks_.shape == (10,)
    assert (np.diff(model.prob_density_marks_) > 0).all()
    assert_allclose(p.sum(axis=1), 1.0)
    order = np.argsort(model.decision_function(X))
    assert (np.diff(p[order, 1]) >= 0).all()
    assert p[order[0], 1] < 0.2 < 0.8 < p[order[-1], 1]
    assert not hasattr(OneClassSVM().fit(X), "predict_proba")
    with pytest.warns(UserWarning, match="fewer than 5 samples"):
        OneClassSVM(nu=0.01, gamma=0.5, probability=True).fit(X[:20])
