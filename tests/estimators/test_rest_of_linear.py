"""Few weights, all classes at once, and one class: linear machines with solvers of their own, each with a proof."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as TheirLinearSVC
from sklearn.svm import l1_min_c as their_l1_min_c

from maxmargin import SOLVERS, Goal, LinearOneClassSVM, LinearSVC, OneClassSVM, Status, l1_min_c
from maxmargin.estimators import class_leaves, crammer_singer
from maxmargin.estimators.crammer_singer import AllClasses, combined
from maxmargin.estimators.sparse_linear import SparseProblem
from maxmargin.losses import make_loss
from maxmargin.monitor import Monitor


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def risk(X, y, w, b, cost, loss="squared_hinge", penalised=False):
    m = np.where(y > 0, 1.0, -1.0) * (X @ w + b)
    value = make_loss(loss, classification=True, delta=0.5).value(m)
    return np.abs(w).sum() + (abs(b) if penalised else 0.0) + (cost * value).sum()


# -- few weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_l1_beats_or_meets_liblinear(C, kind):
    X, y = cancer()
    ours = LinearSVC(penalty="l1", C=C, intercept_scaling=1.0, tol=1e-7).fit(kind(X), y)
    theirs = TheirLinearSVC(penalty="l1", dual=False, C=C, tol=1e-6, max_iter=100000, random_state=0).fit(X, y)
    mine = risk(X, y, ours.coef_[0], ours.intercept_[0], C, penalised=True)
    other = risk(X, y, theirs.coef_[0], theirs.intercept_[0], C, penalised=True)
    assert mine <= other * (1 + 1e-6)
    assert mine == pytest.approx(ours.certificate_.primal, rel=1e-10)
    assert ours.certificate_.relative_gap <= 1e-7
    assert ours.certificate_.dual <= other
    assert ours.status_.converged


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_l1_in_units_of_any_size(load, C):
    """Features of some thousand beside others of some hundredths: Newton's steps are few, as where they are scaled."""
    model = LinearSVC(penalty="l1", C=C).fit(*load(return_X_y=True))
    assert model.status_.converged and np.max(model.n_iter_) <= 100


@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 3.0}])
def test_the_certificate_of_l1_is_true(loss, intercept):
    """No point that a general optimiser finds is below the dual value, and weights are what is said of them."""
    X, y = make_classification(120, 8, n_informative=4, random_state=0, weights=[0.7])
    weight = np.random.default_rng(0).integers(0, 4, 120).astype(float)
    model = LinearSVC(penalty="l1", loss=loss, C=0.3, tol=1e-6, **intercept).fit(X, y, sample_weight=weight)
    scaling, penalised = intercept.get("intercept_scaling", 1.0), "intercept_scaling" in intercept

    def value(z):
        w, b = z[:8] - z[8:16], (z[16] if intercept.get("fit_intercept", True) else 0.0)
        return risk(X, y, w, scaling * b, 0.3 * weight, loss) + (abs(b) if penalised else 0.0)

    bounds = [(0, None)] * 16 + [(None, None)]
    best = min(
        minimize(value, np.full(17, s), bounds=bounds, method="L-BFGS-B", options={"maxiter": 5000}).fun
        for s in (0.1, 1.0)
    )
    found = value(np.r_[np.maximum(model.coef_[0], 0), np.maximum(-model.coef_[0], 0), model.intercept_[0] / scaling])
    assert found == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert found <= best * (1 + 1e-5)
    assert model.certificate_.dual <= best * (1 + 1e-9)
    assert model.certificate_.relative_gap <= 1e-6
    copies = LinearSVC(penalty="l1", loss=loss, C=0.3, tol=1e-6, **intercept)
    copies.fit(X.repeat(weight.astype(int), axis=0), y.repeat(weight.astype(int)))
    assert copies.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-6)


def test_l1_leaves_few_weights_of_many_and_several_classes():
    rng = np.random.default_rng(0)
    X = sp.random_array((150, 3000), density=0.02, rng=rng, format="csr")
    y = np.asarray(X[:, :40].sum(axis=1) > X[:, 40:80].sum(axis=1)).ravel().astype(int) + (np.arange(150) % 5 == 0)
    model = LinearSVC(penalty="l1", C=5.0).fit(X, y)
    assert model.status_.converged
    assert model.coef_.shape == (3, 3000)
    assert 0 < np.count_nonzero(model.coef_) < 600
    assert len(model.certificates_) == 3
    path = LinearSVC(penalty="l1", tol=1e-5).path(X, y == 1, [0.1, 1.0, 10.0])
    assert (np.diff([np.count_nonzero(c) for c in path.coefs]) > 0).all()


@pytest.mark.parametrize("seed", [0, 4])
def test_few_weights_with_a_free_bias_and_a_large_cost(seed):
    """θ = 2 c (1 − m) has few digits where m is 1 − 1e-9, and its sum is 0 all the same."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 2)), np.arange(5) % 2
    model = LinearSVC(penalty="l1", C=10.0 ** rng.uniform(5, 6), tol=1e-6).fit(X, y)
    assert model.status_.converged and model.certificate_.infeasibility <= 1e-11


def test_few_weights_at_any_bias_have_a_dual_value():
    """Slopes whose sum is not 0 become some whose sum is, none of them larger; of one class alone, none is left."""
    X, y = cancer()
    y = np.where(y > 0, 1.0, -1.0)
    problem = SparseProblem(X, y, np.ones(len(y)), make_loss("squared_hinge", classification=True), 1.0, False)
    for bias in (-30.0, -0.5, 0.7, 30.0):
        theta, g, g_b = problem._slopes(np.full(len(y), bias))
        even, slopes = problem._evened(theta, g)
        assert abs(even.sum()) <= 1e-13 * np.abs(theta).sum()
        assert (even * theta >= 0.0).all() and (np.abs(even) <= np.abs(theta)).all()
        assert_allclose(slopes, X.T @ even, atol=1e-12)
        assert 0.0 <= problem._dual(even, slopes, g_b) <= len(y)


def test_l1_stops_when_told():
    X, y = cancer()
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model = LinearSVC(penalty="l1", C=100.0, max_iter=1, tol=1e-9).fit(X, y)
    assert model.status_ is Status.MAX_ITERATIONS
    assert model.certificate_.gap > 0
    with pytest.warns(ConvergenceWarning, match="callback"):
        model = LinearSVC(penalty="l1", C=100.0, callback=lambda step: True).fit(X, y)
    assert model.status_ is Status.CALLBACK


@pytest.mark.parametrize(
    ("parameters", "parts"),
    [
        (
            {"penalty": "l1", "loss": "hinge"},
            ("penalty='l1' and loss='hinge'", "choose loss='squared_hinge' or loss='huber'"),
        ),
        ({"penalty": "l1", "solver": "sor"}, ("found solver='sor'", "leave 'auto'")),
        (
            {"multi_class": "crammer_singer", "parametric": lambda X: X[:, 0]},
            ("parametric functions", "leave them out"),
        ),
        ({"multi_class": "ovo"}, ("multi_class='ovo'", "'crammer_singer'")),
    ],
)
def test_what_does_not_go_together_is_told(parameters, parts):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError) as told:
        LinearSVC(**parameters).fit(X, y)
    for part in parts:
        assert part in str(told.value)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"intercept_scaling": 10.0}, {"loss": "log"}])
def test_l1_min_c_is_scikit_learns(load, options):
    X, y = load(return_X_y=True)
    assert l1_min_c(X, y, **options) == pytest.approx(their_l1_min_c(X, y, **options))
    assert l1_min_c(sp.csr_array(X), y, **options) == pytest.approx(their_l1_min_c(X, y, **options))


@pytest.mark.parametrize(
    "intercept", [{"fit_intercept": False}, {"intercept_scaling": None}, {"intercept_scaling": 2.0}]
)
def test_l1_min_c_is_where_weights_begin(intercept):
    X, y = cancer()
    least = l1_min_c(X, y, **intercept)
    assert not LinearSVC(penalty="l1", C=0.999 * least, tol=1e-9, **intercept).fit(X, y).coef_.any()
    beyond = LinearSVC(penalty="l1", C=1.02 * least, tol=1e-9, **intercept).fit(X, y)
    assert beyond.coef_.any() or beyond.intercept_.any()


# -- all classes at once ----------------------------------------------------------------------------------------------


def together(X, labels, W, b, cost):
    f = X @ W.T + b
    own = f[np.arange(len(labels)), labels]
    f = f + 1.0
    f[np.arange(len(labels)), labels] -= 1.0
    return 0.5 * (W * W).sum() + 0.5 * (b * b).sum() + (cost * (f.max(axis=1) - own)).sum()


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("load", [load_iris, load_digits])
def test_all_classes_at_once_beat_or_meet_liblinear(load, C):
    X, y = load(return_X_y=True)
    X = X / X.max()
    ours = LinearSVC(multi_class="crammer_singer", C=C, tol=1e-5, intercept_scaling=1.0, max_iter=100000).fit(X, y)
    theirs = TheirLinearSVC(multi_class="crammer_singer", C=C, tol=1e-4, max_iter=100000, random_state=0).fit(X, y)
    mine, other = together(X, y, ours.coef_, ours.intercept_, C), together(X, y, theirs.coef_, theirs.intercept_, C)
    assert mine == pytest.approx(ours.certificate_.primal, rel=1e-9)
    assert mine <= other * (1 + 1e-5)
    assert ours.certificate_.dual <= other
    assert ours.status_.converged
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.02)


def test_all_classes_at_once_weights_seeds_and_two_classes():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, 150)
    options = {"multi_class": "crammer_singer", "tol": 1e-6, "max_iter": -1}
    one = LinearSVC(**options).fit(X, y, sample_weight=weight)
    two = LinearSVC(**options).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=2e-6)
    assert_allclose(one.decision_function(X), two.decision_function(X), atol=0.02)
    again = LinearSVC(**options, random_state=0).fit(X, y)
    assert_array_equal(again.coef_, LinearSVC(**options, random_state=0).fit(X, y).coef_)
    pair = LinearSVC(**options, fit_intercept=False).fit(X[:100], y[:100])
    assert pair.coef_.shape == (1, 4)
    assert pair.score(X[:100], y[:100]) == 1.0
    # With two classes w = w₁ − w₀, the penalty is ¼‖w‖² and the hinge is that of the whole margin: C-SVC with 2 C.
    plain = LinearSVC(loss="hinge", C=2.0, fit_intercept=False, tol=1e-8).fit(X[:100], y[:100])
    assert_allclose(pair.coef_, plain.coef_, atol=2e-3)


def test_sweeps_go_on_along_their_way_where_that_is_better():
    X, y = load_iris(return_X_y=True)
    X, own = sp.csr_array(X / X.max()), np.eye(3, dtype=bool)[y]
    rows = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
    problem = AllClasses(*rows, X.shape[1], y.astype(np.int64), np.ones(150), 3)
    ends = [problem.solve(Goal(gap=1e-12, max_iter=most), Monitor()).alpha for most in (2, 3)]
    for before, last in (ends, ends[::-1]):  # up the hill and down
        W = combined(*rows, last, X.shape[1])
        alpha, its = problem._further(last, before, rows)
        assert problem._dual(its, alpha) >= problem._dual(W, last)
        assert_allclose(its, combined(*rows, alpha, X.shape[1]))
        assert_allclose(alpha.sum(axis=1), 0.0, atol=1e-14)
        assert (alpha[own] <= 1.0 + 1e-14).all()
        assert (alpha[~own] <= 0.0).all()
    sweeps = problem.solve(Goal(gap=1e-5), Monitor()).n_iter
    plain = {"_further": lambda alpha, before, rows: (alpha, combined(*rows, alpha, X.shape[1]))}
    vars(problem).update(plain)
    assert 1.5 * sweeps < problem.solve(Goal(gap=1e-5), Monitor()).n_iter


@pytest.mark.parametrize("scale", [1e-5, 1e-6, 1e-8])
def test_all_classes_on_tiny_features_have_a_dual_value(scale):
    """w = 0 costs C for each sample, and no dual value lies above that: not by what ‖x‖² makes of rounding either."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = scale * rng.normal(size=(12, 3)), np.arange(12) % 4
        found = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=10.0).fit(X, y).certificate_
        assert found.primal >= found.dual > 0.0 and found.dual <= 120.0 * (1.0 + 1e-13)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_two_classes_at_once_in_single_precision_are_those_samples(form):
    """Rows times √2 are not rounded to float32: with a large C the objective would see it."""
    X = np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    y = (X[:, 0] > 0.0).astype(int)
    model = LinearSVC(multi_class="crammer_singer", C=1e5, fit_intercept=False, max_iter=-1).fit(form(X), y)
    W = np.vstack([-0.5 * model.coef_, 0.5 * model.coef_])
    assert model.certificate_.primal == pytest.approx(together(X.astype(float), y, W, np.zeros(2), 1e5), rel=1e-7)


def test_a_round_averages_what_its_sweeps_have_found(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X = sp.csr_array(X / 16.0)
    rows = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
    problem = AllClasses(*rows, X.shape[1], y.astype(np.int64), np.ones(len(y)), 10)
    alpha, W, found, plain = np.zeros((len(y), 10)), np.zeros((X.shape[1], 10)), [], crammer_singer.sweep

    def seen(*args):
        plain(*args)
        found.append((args[7], args[8].copy()))

    monkeypatch.setattr(crammer_singer, "sweep", seen)
    norms, rng = (X * X).sum(axis=1), np.random.default_rng(0)
    mean = problem._round(alpha, W, np.ones(len(y), bool), rows, norms, rng, Monitor())
    turns = [turn for turn, _ in found]
    assert turns == list(range(-1, len(turns) - 1)) and len(turns) > 5
    assert_allclose(mean, np.mean([each for turn, each in found if turn >= 0], axis=0), atol=1e-12)
    assert_allclose(W, combined(*rows, alpha, X.shape[1]), atol=1e-10)


def test_a_level_leaves_the_room_that_there_is():
    rng = np.random.default_rng(0)
    for c in (1, 2, 3, 20, 300):
        some = rng.normal(size=c)
        for top in (some, np.ones(c), some.round(), np.append(some[1:], 50.0)):
            for room in (1e-9, 0.3, 40.0):
                level = class_leaves._level(top.copy(), c, room)
                assert np.maximum(top - level, 0.0).sum() == pytest.approx(room, rel=1e-9, abs=1e-12)


def test_all_classes_at_once_leave_zeros_of_dense_rows_out():
    X, y = load_digits(return_X_y=True)
    machine = LinearSVC(multi_class="crammer_singer", C=0.01)
    assert_array_equal(clone(machine).fit(X, y).coef_, clone(machine).fit(sp.csr_array(X), y).coef_)


@pytest.mark.parametrize("options", [{}, {"intercept_scaling": 3.0}, {"fit_intercept": False}])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_two_classes_at_once_are_a_plain_machine(kind, options):
    """Its certificate is that of the problem of both classes, at w₁ = −w₀ = w / 2."""
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:] - 1
    weight = np.random.default_rng(0).integers(0, 3, 100).astype(float)
    options = {"multi_class": "crammer_singer", "C": 0.7, "tol": 1e-7, "max_iter": -1} | options
    machine = LinearSVC(class_weight={0: 2.0}, **options).fit(kind(X), y, sample_weight=weight)
    assert machine.status_.converged
    assert machine.solver_ in SOLVERS
    w, b = machine.coef_[0] / 2, machine.intercept_[0] / 2 / options.get("intercept_scaling", 1.0)
    cost = 0.7 * weight * np.where(y == 0, 2.0, 1.0)
    scaled = np.column_stack([X, np.full(100, options.get("intercept_scaling", 1.0))])
    both = np.vstack([-np.append(w, b), np.append(w, b)])
    objective = together(scaled, y, both, np.zeros(2), cost)
    assert objective == pytest.approx(machine.certificate_.primal, rel=1e-9)
    labels = y.astype(np.int64)
    arrays = sp.csr_array(scaled if options.get("fit_intercept", True) else X)
    rows = arrays.indptr.astype(np.int64), arrays.indices.astype(np.int64), arrays.data
    problem = AllClasses(*rows, arrays.shape[1], labels, cost, 2)
    swept = problem.solve(Goal(gap=1e-6), Monitor())
    assert swept.certificate.dual <= objective * (1 + 1e-12)
    assert machine.certificate_.dual <= swept.certificate.primal
    assert swept.certificate.primal == pytest.approx(objective, rel=2e-6)


# -- one class --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_one_linear_class_is_that_of_the_kernel(kind):
    X = np.random.default_rng(0).normal(size=(400, 5)) + 2.0
    ours = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(kind(X))
    kernel = OneClassSVM(kernel="linear", nu=0.2, tol=1e-8).fit(X)
    assert_allclose(ours.coef_, kernel.coef_[0], rtol=1e-4)
    assert_allclose(ours.offset_, kernel.offset_, rtol=1e-4)
    assert_array_equal(ours.predict(X[:, :]), np.where(ours.decision_function(X) >= 0, 1, -1))
    assert (ours.predict(X) < 0).mean() == pytest.approx(0.2, abs=0.02)
    assert ours.certificate_.relative_gap <= 1e-8
    assert_allclose(ours.score_samples(X), X @ ours.coef_)


@pytest.mark.parametrize("machine", [LinearOneClassSVM(nu=0.3), OneClassSVM(kernel="linear", nu=0.3)], ids=str)
@pytest.mark.parametrize("tails", [np.inf, 1.5])
def test_one_class_around_the_origin_is_told(machine, tails):
    """The optimum is 0, and a share of it is no measure: f = 0 is found and proven, and of no use to anybody."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) if tails == np.inf else rng.standard_t(tails, size=(300, 3))
    with pytest.warns(UserWarning, match="found samples on all sides") as told:
        machine.fit(X)
    assert not [one for one in told if issubclass(one.category, ConvergenceWarning)]
    assert machine.status_.converged
    assert (machine.predict(X) == 1).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = machine.fit(X + 2.0 * np.abs(X).max())
    assert moved.status_.converged
    assert moved.certificate_.relative_gap <= 1e-4


def test_one_linear_class_of_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 4)) + 1.0
    np.save(tmp_path / "X.npy", X)
    from_disk = LinearOneClassSVM(nu=0.1, tol=1e-6).fit(tmp_path / "X.npy")
    assert from_disk.status_.converged
    assert_allclose(from_disk.coef_, LinearOneClassSVM(nu=0.1, tol=1e-6).fit(X).coef_, rtol=1e-2)


def test_few_weights_from_a_start_where_no_sample_has_a_loss():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], np.where(y[:100] > 0, 1.0, -1.0)
    problem = SparseProblem(X, y, np.ones(100), make_loss("squared_hinge", classification=True), 1.0, False)
    far = problem.solve(Goal(gap=1e-6), Monitor(), np.r_[0.0, -1e3, 1e3, 1e3, -1e3])
    near = problem.solve(Goal(gap=1e-6), Monitor())
    assert far.certificate.primal == pytest.approx(near.certificate.primal, rel=2e-6)
