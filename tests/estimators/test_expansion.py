"""Machines whose function stands on few points, against definitions and a referee that knows nothing of the package."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from estimators.by_hand import hinge, huber_hinge, tube
from maxmargin import SVC, SVR
from maxmargin.estimators import expansion as module
from maxmargin.estimators import greedy
from maxmargin.estimators.basis import Candidates, row_keys
from referee import naive_kernel, referee

GAMMA, C = 0.5, 2.0
COSTS = {"hinge": hinge, "squared_hinge": lambda m: hinge(m) ** 2, "huber": lambda m: huber_hinge(m, 0.5)}
ERRORS = {
    "epsilon_insensitive": lambda r: tube(r, 0.1),
    "squared_epsilon_insensitive": lambda r: tube(r, 0.1) ** 2,
    "huber": lambda r: np.where(np.abs(r) <= 1.0, 0.5 * r * r, np.abs(r) - 0.5),
    "quantile": lambda r: 0.5 * np.abs(r),
    "squared_error": lambda r: r * r,
}
RIDGES = {
    "hinge": 0.0,
    "squared_hinge": 1 / (2 * C),
    "epsilon_insensitive": 0.0,
    "squared_epsilon_insensitive": 1 / (2 * C),
}
CHOICES = ("random", "greedy", "kmeans")


def two_classes(n=160, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1, -1)
    return X, y


def curve(n=120, seed=0):
    X, _ = two_classes(n, 2, seed)
    return X, np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] ** 2


def classifier(**options):
    return SVC(**({"gamma": GAMMA, "C": C, "expansion": 12, "tol": 1e-6} | options))


def regressor(**options):
    return SVR(**({"gamma": GAMMA, "C": C, "expansion": 12, "tol": 1e-6} | options))


def objective(machine, X, y, cost, weight=1.0):
    """½‖f‖² + C Σ ℓ from public attributes, predictions by the machine itself."""
    Z, alpha = machine.support_vectors_, machine.dual_coef_[0]
    K = naive_kernel(machine.kernel, Z, Z, gamma=GAMMA)
    if isinstance(machine, SVC):
        risk = cost(y * machine.decision_function(X))
    else:
        risk = cost(machine.predict(X) - y)
    return 0.5 * alpha @ K @ alpha + C * np.sum(weight * risk)


# -- what is solved, and what is said of it -------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("loss", COSTS)
def test_the_certificate_is_that_of_the_published_classifier(loss, choice):
    X, y = two_classes()
    machine = classifier(loss=loss, expansion_choice=choice).fit(X, y)
    found = machine.certificate_
    assert machine.status_.converged and found.relative_gap <= machine.tol
    assert machine.support_vectors_.shape == (12, 3) and machine.dual_coef_.shape == (1, 12)
    assert found.primal == pytest.approx(objective(machine, X, y, COSTS[loss]), rel=1e-9)
    K = naive_kernel("rbf", X, machine.support_vectors_, gamma=GAMMA)
    assert machine.decision_function(X) == pytest.approx(K @ machine.dual_coef_[0] + machine.intercept_[0])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("loss", ERRORS)
def test_the_certificate_is_that_of_the_published_regressor(loss, choice):
    X, y = curve()
    machine = regressor(loss=loss, expansion_choice=choice).fit(X, y)
    assert machine.status_.converged and machine.certificate_.relative_gap <= machine.tol
    assert machine.certificate_.primal == pytest.approx(objective(machine, X, y, ERRORS[loss]), rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", RIDGES)
def test_no_other_coefficients_of_these_points_are_better(loss, fit_intercept):
    of_classes = loss in COSTS
    X, y = two_classes() if of_classes else curve()
    machine = (classifier if of_classes else regressor)(loss=loss, fit_intercept=fit_intercept).fit(X, y)
    Z = machine.support_vectors_
    K_nz, K_zz = naive_kernel("rbf", X, Z, gamma=GAMMA), naive_kernel("rbf", Z, Z, gamma=GAMMA)
    H = K_nz @ np.linalg.solve(K_zz, K_nz.T) + RIDGES[loss] * np.eye(len(y))
    most = np.full(len(y), C if RIDGES[loss] == 0.0 else np.inf)
    lower = np.where(y > 0, 0.0, -most) if of_classes else -most
    upper = np.where(y > 0, most, 0.0) if of_classes else most
    A = np.ones((1, len(y))) if fit_intercept else None
    best = -referee(H, -y.astype(float), lower, upper, A, eps=0.0 if of_classes else 0.1).objective
    assert machine.certificate_.primal == pytest.approx(best, rel=3e-6)
    assert machine.certificate_.dual <= best * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["sor", "interior-point", "mpd", "decomposition"])
def test_every_solver_finds_the_same(solver):
    X, y = two_classes()
    auto, named = classifier().fit(X, y), classifier(solver=solver).fit(X, y)
    assert named.status_.converged and named.solver_ == solver
    assert named.certificate_.primal == pytest.approx(auto.certificate_.primal, rel=3e-6)


@pytest.mark.parametrize("loss", COSTS)
def test_on_all_samples_it_is_the_machine_itself(loss):
    X, y = two_classes(60)
    whole = SVC(gamma=GAMMA, C=C, loss=loss, tol=1e-6).fit(X, y)
    same = classifier(loss=loss, expansion=60).fit(X, y)
    assert same.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-5)
    assert same.full_gap_ <= 1e-5
    assert same.decision_function(X) == pytest.approx(whole.decision_function(X), abs=0.02)


@pytest.mark.parametrize("k", [2, 10, 40])
def test_full_gap_is_a_bound(k):
    X, y = two_classes()
    whole = SVC(gamma=GAMMA, C=C, tol=1e-6).fit(X, y).certificate_
    few = classifier(expansion=k).fit(X, y)
    assert 0.0 <= 1.0 - whole.primal / few.certificate_.primal <= few.full_gap_ + 1e-6 < 1.0


def test_full_gap_is_left_out_where_it_is_dear(monkeypatch):
    monkeypatch.setattr(module, "QUICK", 0)
    X, y = two_classes(300)
    assert classifier(expansion=1).fit(X, y).full_gap_ is None


def test_features_in_single_precision_prove_as_much(monkeypatch):
    X, y = two_classes()
    double = classifier(tol=1e-4).fit(X, y)
    monkeypatch.setattr(module, "SINGLE_FROM", 0)
    single = classifier(tol=1e-4).fit(X, y)
    assert single.status_.converged
    assert single.certificate_.primal == pytest.approx(objective(single, X, y, hinge), rel=1e-9)
    assert single.certificate_.dual <= double.certificate_.primal
    assert not np.array_equal(single.dual_coef_, double.dual_coef_)


# -- which points -----------------------------------------------------------------------------------------------------


def test_rows_and_points_may_be_named():
    X, y = two_classes()
    rows = np.array([5, 3, 77, 150, 20])
    by_rows, by_points = classifier(expansion=rows).fit(X, y), classifier(expansion=X[np.sort(rows)]).fit(X, y)
    assert by_rows.support_.tolist() == rows.tolist() and not hasattr(by_points, "support_")
    assert np.array_equal(by_rows.support_vectors_, X[by_rows.support_])
    assert by_rows.n_support_.tolist() == [int((y[rows] == c).sum()) for c in (-1, 1)]
    assert by_points.n_support_.tolist() == [5]
    assert by_rows.decision_function(X) == pytest.approx(by_points.decision_function(X))
    few = np.random.default_rng(1).normal(size=(4, 3))
    assert np.array_equal(classifier(expansion=few).fit(X, y).support_vectors_, few)


def test_points_that_depend_on_others_are_left_out():
    X, y = two_classes()
    points = np.vstack([X[:6], X[2:4], X[:1] + 1e-13])
    machine = classifier(expansion=points).fit(X, y)
    assert len(machine.support_vectors_) == 6
    linear = SVC(kernel="linear", expansion=20).fit(X, y)  # functions of three features
    assert len(linear.support_) == 3 and linear.coef_.shape == (1, 3)
    assert linear.decision_function(X) == pytest.approx(X @ linear.coef_[0] + linear.intercept_[0])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_weight_is_copies_and_the_order_is_of_no_influence(make, choice):
    X, y = two_classes() if make is classifier else curve()
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(y))
    order = rng.permutation(weight.sum())
    copies = make(expansion_choice=choice).fit(np.repeat(X, weight, axis=0)[order], np.repeat(y, weight)[order])
    weighed = make(expansion_choice=choice).fit(X, y, sample_weight=weight)
    there = np.flatnonzero(weight)
    absent = make(expansion_choice=choice).fit(X[there], y[there], sample_weight=weight[there])
    probe = rng.normal(size=(20, X.shape[1]))
    function = "decision_function" if make is classifier else "predict"
    for other in (copies, absent):
        assert _sorted(other.support_vectors_) == pytest.approx(_sorted(weighed.support_vectors_), abs=1e-12)
        assert getattr(other, function)(probe) == pytest.approx(getattr(weighed, function)(probe), abs=2e-3)


def _sorted(points):
    return points[np.lexsort(points.T)]


def test_the_seed_chooses():
    X, y = two_classes()
    drawn = {seed: classifier(random_state=seed).fit(X, y).support_.tolist() for seed in (None, 0, 1)}
    again = classifier(random_state=1).fit(X, y).support_.tolist()
    assert again == drawn[1] != drawn[0] and classifier().fit(X, y).support_.tolist() == drawn[None]


def test_chances_are_in_proportion_to_weights():
    X = np.arange(40.0)[:, None]
    weight = np.where(np.arange(40) < 20, 3.0, 1.0)
    first = [Candidates.of(X, weight, seed).drawn(1)[0] for seed in range(2000)]
    rows = [Candidates.of(X, weight, seed).first[k] for seed, k in enumerate(first)]
    assert np.mean(np.array(rows) < 20) == pytest.approx(0.75, abs=0.04)


def test_keys_are_those_of_the_numbers():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((50, 7)) < 0.5, 0.0, rng.normal(size=(50, 7)).astype(np.float32))
    stored = sp.csr_matrix(X)
    first = np.flatnonzero(X[0])[0]
    X[0, first] = -0.0
    stored.data[0] = 0.0
    keys = row_keys(X, 3)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    for other in (stored, X.astype(np.float32), X + 0.0):
        assert np.array_equal(row_keys(other, 3), keys)
    assert not np.array_equal(row_keys(X, 4), keys)


def test_different_rows_have_different_keys():
    rng = np.random.default_rng(0)
    for X in (rng.integers(0, 2, (4000, 30)), rng.integers(0, 9, (4000, 3)) / 8, 1e-3 * rng.integers(0, 99, (4000, 2))):
        assert len(np.unique(row_keys(X.astype(float), 0))) == len(np.unique(X, axis=0))


def test_more_points_than_samples_are_all_samples():
    X, y = two_classes(30)
    assert classifier(expansion=1000).fit(np.vstack([X, X]), np.r_[y, y]).support_vectors_.shape == (30, 3)


def test_greedy_points_are_better_than_drawn_ones():
    X, y = two_classes(400, seed=3)
    primal = {
        choice: np.mean(
            [
                classifier(expansion=8, expansion_choice=choice, random_state=s).fit(X, y).certificate_.primal
                for s in range(3)
            ]
        )
        for choice in CHOICES
    }
    assert primal["greedy"] < 0.97 * primal["random"]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_trial_is_the_best_coefficient_of_one_point(loss):
    X, y = two_classes(80)
    K = naive_kernel("rbf", X, X, gamma=GAMMA)
    machine = classifier(loss=loss)
    problem = module.Problem(machine._formulation(), np.arange(80), y.astype(float), np.ones(80))
    part = greedy._part(problem, np.arange(80), 80)
    part.h, part.offset = 0.3 * K[7], 0.1
    at = np.array([3, 7, 30])
    t, decrease = part.trial(K[at], at, np.ones(3))

    def value(a, z):
        penalty = 0.5 * (0.09 + 2 * 0.3 * a * K[7, z] + a * a)
        return penalty + C * COSTS[loss](y * (part.h + 0.1 + a * K[z])).sum()

    for number, z in enumerate(at):
        assert decrease[number] == pytest.approx(value(0.0, z) - value(t[number], z), rel=1e-9)
        best = value(0.0, z) - minimize_scalar(lambda a, z=z: value(a, z), bounds=(-50, 50), method="bounded").fun
        assert 0.9 * best <= decrease[number] <= best * (1 + 1e-6)


# -- kinds of input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
def test_sparse_rows_give_the_same(choice):
    X, y = two_classes()
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    plain = classifier(expansion_choice=choice).fit(X, y)
    stored = classifier(expansion_choice=choice).fit(sp.csr_matrix(X), y)
    assert sp.issparse(stored.support_vectors_) and sp.issparse(stored.dual_coef_)
    assert stored.decision_function(sp.csr_matrix(X)) == pytest.approx(plain.decision_function(X), abs=2e-3)


@pytest.mark.parametrize("choice", CHOICES)
def test_how_sparse_rows_are_stored_is_of_no_influence(choice):
    X, y = two_classes()
    X = np.round(2 * X)  # halves of these entries add up to them exactly
    rows = sp.csr_array(X)
    wide = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=X.shape)
    halves = sp.csr_array((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=X.shape)
    places = np.arange(X.size).reshape(X.shape)
    full = sp.csr_array((X.ravel(), (places % X.shape[1]).ravel(), np.r_[places[:, 0], X.size]), shape=X.shape)
    want = classifier(expansion_choice=choice).fit(rows, y).decision_function(rows)
    for stored in (wide, halves, full):
        found = classifier(expansion_choice=choice).fit(stored, y).decision_function(rows)
        np.testing.assert_allclose(found, want, atol=1e-9)


def test_a_frame_keeps_its_names():
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    machine = classifier(expansion=frame.iloc[:10]).fit(frame, y)
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(machine.predict(frame), classifier(expansion=X[:10]).fit(X, y).predict(X))


@pytest.mark.parametrize("choice", ["random", "greedy"])
def test_precomputed_and_functions_on_named_rows_are_the_kernel_itself(choice):
    X, y = two_classes()
    rows, probe = np.arange(0, 160, 11), np.random.default_rng(1).normal(size=(9, 3))

    def function(A, B):
        return naive_kernel("rbf", A, B, gamma=GAMMA)

    named = classifier(expansion=rows).fit(X, y)
    called = classifier(expansion=rows, kernel=function).fit(X, y)
    given = classifier(expansion=rows, kernel="precomputed").fit(function(X, X), y)
    assert called.decision_function(probe) == pytest.approx(named.decision_function(probe), abs=1e-3)
    assert given.decision_function(function(probe, X)) == pytest.approx(named.decision_function(probe), abs=1e-3)
    assert given.support_.tolist() == rows.tolist()
    for machine, data in ((classifier(kernel=function), X), (classifier(kernel="precomputed"), function(X, X))):
        machine.set_params(expansion_choice=choice).fit(data, y)
        assert machine.status_.converged and len(machine.support_) == 12


def test_a_kernel_that_is_indefinite_is_reduced_to_what_is_definite():
    X, y = two_classes()
    machine = classifier(kernel="sigmoid", gamma=2.0, coef0=-1.0, expansion=30)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        machine.fit(X, y)
    K = np.tanh(2.0 * machine.support_vectors_ @ machine.support_vectors_.T - 1.0)
    assert machine.status_.converged and 0 < len(K) < 30 and np.linalg.eigvalsh(K)[0] > 0


def test_several_classes_share_the_points():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 2)), np.repeat(["a", "b", "c"], 50)
    X[y == "b"] += 2
    X[y == "c", 0] -= 2
    machine = classifier(expansion=15, decision_function_shape="ovo").fit(X, y)
    assert machine.dual_coef_.shape == (3, 15) and len(machine.certificates_) == 3
    assert machine.n_support_.sum() == 15
    decisions = machine.decision_function(X)
    K = naive_kernel("rbf", X, machine.support_vectors_, gamma=GAMMA)
    assert decisions == pytest.approx(K @ machine.dual_coef_.T + machine.intercept_)
    votes = np.zeros((150, 3), int)
    for pair, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = np.isin(y, machine.classes_[[i, j]])
        sign = np.where(y[rows] == machine.classes_[i], 1.0, -1.0)
        alone = classifier(expansion=X[machine.support_]).fit(X[rows], sign)
        assert machine.certificates_[pair].primal == pytest.approx(alone.certificate_.primal, rel=3e-6)
        votes[:, i] += decisions[:, pair] > 0
        votes[:, j] += decisions[:, pair] <= 0
    assert np.array_equal(machine.predict(X), machine.classes_[votes.argmax(axis=1)])
    machine.set_params(decision_function_shape="ovr")
    assert machine.decision_function(X).shape == (150, 3)


def test_class_weights_are_costs():
    X, y = two_classes()
    rows = np.arange(12)
    weighed = classifier(expansion=rows, class_weight={1: 3.0}).fit(X, y)
    same = classifier(expansion=rows).fit(X, y, sample_weight=np.where(y > 0, 3.0, 1.0))
    assert weighed.decision_function(X) == pytest.approx(same.decision_function(X), abs=1e-3)


def test_parametric_functions_are_not_penalised():
    X, y = curve()
    slope = 5.0 * X[:, 1]
    machine = regressor(parametric=lambda X: X[:, 1:2], expansion=10).fit(X, y + slope)
    plain = regressor(parametric=lambda X: X[:, 1:2], expansion=10).fit(X, y)
    assert machine.status_.converged and machine.parametric_coef_.shape == (1,)
    assert machine.parametric_coef_[0] - plain.parametric_coef_[0] == pytest.approx(5.0, abs=0.01)
    X, y = two_classes()
    semi = classifier(parametric=lambda X: X[:, :2], expansion_choice="greedy").fit(X, y)
    values = naive_kernel("rbf", X, semi.support_vectors_, gamma=GAMMA) @ semi.dual_coef_[0] + semi.intercept_[0]
    assert semi.decision_function(X) == pytest.approx(values + X[:, :2] @ semi.parametric_coef_[0])


# -- manners ----------------------------------------------------------------------------------------------------------


def test_a_fit_without_an_expansion_forgets_the_one_before():
    X, y = two_classes()
    machine = classifier(expansion=X[:5]).fit(X, y)
    machine.set_params(expansion=None, tol=1e-3).fit(X, y)
    assert not hasattr(machine, "full_gap_") and len(machine.support_) == len(machine.support_vectors_) > 5
    assert machine.certificate_.violation <= 1e-3
    decisions = machine.decision_function(X)
    with pytest.raises(ValueError, match="0 points"):
        machine.set_params(expansion=0).fit(X, y)
    assert np.array_equal(machine.decision_function(X), decisions)
    machine.set_params(expansion=None).fit(X, y)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_time_limit_leaves_a_model(choice):
    X, y = two_classes(400)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine = classifier(expansion=100, expansion_choice=choice, time_limit=1e-6, tol=1e-9).fit(X, y)
    assert machine.full_gap_ is None and np.isfinite(machine.decision_function(X)).all()
    assert machine.certificate_.primal == pytest.approx(objective(machine, X, y, hinge), rel=1e-9)


def test_a_warm_start_begins_where_the_last_fit_ended():
    X, y = two_classes()
    machine = classifier(warm_start=True, solver="sor").fit(X, y)
    steps = machine.n_iter_[0]
    assert machine.fit(X, y).n_iter_[0] < steps


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"expansion": 0}, "0 points"),
        ({"expansion": -3}, "-3 points"),
        ({"expansion": True}, "expansion=True"),
        ({"expansion": 2.5}, "expansion=2.5"),
        ({"expansion": "all"}, "expansion='all'"),
        ({"expansion": [0, 400]}, "numbers from 0 to 400"),
        ({"expansion": [-1, 2]}, "numbers from -1 to 2"),
        ({"expansion": [0.5, 1.0]}, "type float64"),
        ({"expansion": np.zeros((4, 2))}, "points of 2 features and samples of 3"),
        ({"expansion_choice": "best"}, "expansion_choice='best'"),
        ({"expansion_choice": "kmeans", "kernel": lambda A, B: A @ B.T}, "a kernel that is a function"),
        ({"kernel": lambda A, B: -A @ B.T}, r"k\(z, z\) <= 0"),
        ({"kernel": "poly", "gamma": 1e200, "degree": 9}, "not finite"),
    ],
)
def test_what_cannot_be_is_said(options, found):
    X, y = two_classes()
    with pytest.raises(ValueError, match=f"asked for; found.*{found}|{found}.*asked for; found"):
        classifier(**options).fit(X, y)


def test_probabilities_are_left_to_others():
    X, y = two_classes()
    for machine, target in ((classifier(), y), (regressor(), y.astype(float))):
        with pytest.raises(ValueError, match="probability=True was asked for; found an expansion"):
            machine.set_params(probability=True).fit(X, target)
    assert SVR(expansion=5).fit(X, y).probA_.shape == (0,)


def test_points_without_a_function_leave_the_bias():
    X, y = two_classes()
    machine = classifier(kernel="linear", expansion=np.zeros((2, 3))).fit(X, y)
    assert machine.status_.converged and not machine.dual_coef_.any() and len(machine.support_vectors_) == 1
    assert (machine.decision_function(X) == machine.intercept_[0]).all()


def test_samples_that_are_no_rows_of_numbers():
    words = ["".join(letters) for letters in np.random.default_rng(0).choice(list("abc"), (60, 4))]
    y = np.array([word.count("a") > 1 for word in words])

    def common(left, right):
        return np.array([[sum(a == b for a, b in zip(u, v, strict=True)) for v in right] for u in left], float)

    for choice in ("random", "greedy"):
        machine = classifier(kernel=common, expansion=9, expansion_choice=choice).fit(words, y)
        assert machine.status_.converged and len(machine.support_) <= 9
        assert machine.score(words, y) > 0.8
    with pytest.raises(ValueError, match="no rows of numbers; give numbers of samples"):
        classifier(kernel=common, expansion=np.zeros((2, 4))).fit(words, y)


def test_precomputed_kernels_know_no_other_points():
    X, y = two_classes()
    K = naive_kernel("rbf", X, X, gamma=GAMMA)
    for options in ({"expansion": K[:5]}, {"expansion_choice": "kmeans"}):
        with pytest.raises(ValueError, match="found a precomputed kernel"):
            classifier(kernel="precomputed", **options).fit(K, y)
