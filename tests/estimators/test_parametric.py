"""Functions without a penalty in every machine: given in any form, with weights, classes, pipelines and searches."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer, StandardScaler

from estimators import by_hand
from estimators.plain_solver import Referee
from estimators.samples import samples
from maxmargin import SVC, SVDD, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.solvers import SOLVERS, InteriorPoint

MACHINES = {
    "svc": SVC(gamma=0.1),
    "svc-squared": SVC(gamma=0.1, loss="squared_hinge"),
    "svc-no-intercept": SVC(gamma=0.1, fit_intercept=False),
    "nu-svc": NuSVC(gamma=0.1, nu=0.3),
    "nu-svc-no-intercept": NuSVC(gamma=0.1, nu=0.3, fit_intercept=False),
    "svr": SVR(gamma=0.1),
    "nu-svr": NuSVR(gamma=0.1, nu=0.4),
    "nu-svr-no-intercept": NuSVR(gamma=0.1, nu=0.4, fit_intercept=False),
    "one-class": OneClassSVM(gamma=0.1, nu=0.2),
    "svc-linear": SVC(kernel="linear"),
    "linear-svc": LinearSVC(C=0.1),
    "linear-svc-hinge": LinearSVC(loss="hinge", C=0.1, fit_intercept=False),
    "linear-svc-scaled": LinearSVC(C=0.1, intercept_scaling=1.0),
    "linear-svr": LinearSVR(C=0.1, epsilon=0.2),
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def bend(X):
    return np.sin(2 * X[:, 0])


def wave(X):
    return np.cos(3 * X[:, 2])


def both(X):
    return np.column_stack([bend(X), wave(X)])


def squares(X):
    return X[:, :2] ** 2 - 1.0


FORMS = {"function": both, "list": [bend, wave], "transformer": FunctionTransformer(both), "one": bend}


def data_for(machine):
    """Few samples, so that the referee is quick."""
    s = samples("noisy" if is_classifier(machine) else "diabetes")
    return s.X[:70, :8], s.y[:70], s.X_test[:50, :8]


def values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def kernel_part(model, X, X_train) -> np.ndarray:
    """The decision function without intercept and functions."""
    if hasattr(model, "support_"):
        K = by_hand.kernel_of(model, X, X_train[model.support_])
        return K @ by_hand.dense(model.dual_coef_)[0]
    return X @ np.ravel(model.coef_)


# -- the function that was found ------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("form", FORMS)
def test_functions_in_any_form(machine, form):
    X, y, X_test = data_for(machine)
    model = clone(machine).set_params(parametric=FORMS[form], solver=Referee()).fit(X, y)
    phi = bend(X_test)[:, None] if form == "one" else both(X_test)
    assert model.parametric_coef_.shape == ((1, phi.shape[1]) if is_classifier(machine) else (phi.shape[1],))
    expected = kernel_part(model, X_test, X) + phi @ np.ravel(model.parametric_coef_) + model.intercept_[0]
    np.testing.assert_allclose(values(model, X_test), expected, rtol=1e-9, atol=1e-9)
    assert np.abs(model.parametric_coef_).max() > 1e-3
    plain = clone(machine).set_params(solver=Referee()).fit(X, y)
    assert np.abs(values(model, X_test) - values(plain, X_test)).max() > 1e-3
    assert not hasattr(plain, "parametric_coef_")
    if hasattr(model, "certificate_"):
        assert model.certificate_.relative_gap < 1e-6


@each_machine
def test_coefficients_are_those_of_the_problem_without_a_penalty(machine):
    """f is unchanged, and so is the optimum, when the functions are replaced by twice themselves."""
    X, y, X_test = data_for(machine)
    once, twice = (
        clone(machine).set_params(parametric=f, solver=Referee()).fit(X, y) for f in (both, lambda X: 2 * both(X))
    )
    np.testing.assert_allclose(twice.parametric_coef_, once.parametric_coef_ / 2, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(values(twice, X_test), values(once, X_test), rtol=1e-3, atol=1e-3)


@each_machine
def test_the_solver_that_is_chosen_finds_the_same(machine):
    X, y, X_test = data_for(machine)
    tol = 1e-6
    chosen = clone(machine).set_params(parametric=[bend, wave], tol=tol).fit(X, y)
    plain = clone(machine).set_params(parametric=[bend, wave], solver=Referee()).fit(X, y)
    assert chosen.status_ is Status.CONVERGED
    assert chosen.solver_ not in ("auto", "decomposition")
    np.testing.assert_allclose(chosen.certificate_.dual, plain.certificate_.dual, rtol=1e-5)
    np.testing.assert_allclose(chosen.parametric_coef_, plain.parametric_coef_, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(values(chosen, X_test), values(plain, X_test), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("machine", ["svc", "svr", "linear-svc", "linear-svr", "svc-squared"])
def test_a_constant_function_is_an_intercept(machine):
    machine = MACHINES[machine]
    X, y, X_test = data_for(machine)
    with_one = clone(machine).set_params(tol=1e-8).fit(X, y)
    by_hand_one = (
        clone(machine).set_params(tol=1e-8, fit_intercept=False, parametric=lambda X: np.ones(len(X))).fit(X, y)
    )
    assert by_hand_one.solver_ == with_one.solver_  # pair steps keep one sum, whatever its name
    np.testing.assert_allclose(np.ravel(by_hand_one.parametric_coef_), with_one.intercept_, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(by_hand_one.intercept_, 0.0)
    np.testing.assert_allclose(values(by_hand_one, X_test), values(with_one, X_test), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("machine", ["svc", "svr", "svc-squared", "linear-svr"])
def test_an_intercept_for_each_kind_of_sample_needs_pair_steps_only(machine):
    machine = clone(MACHINES[machine]).set_params(tol=1e-8, parametric=lambda X: X[:, 0] > 0)
    X, y, X_test = data_for(machine)
    model = clone(machine).fit(X, y)
    plain = clone(machine).set_params(solver=Referee()).fit(X, y)
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.parametric_coef_, plain.parametric_coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(values(model, X_test), values(plain, X_test), rtol=1e-3, atol=1e-3)


def test_a_season_and_a_remainder_are_told_apart():
    """MPD's experiment: sin and cos without a penalty beside a kernel for the rest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (300, 1))
    y = np.sin(X[:, 0]) + np.sinc(2 * (X[:, 0] - 5)) + rng.uniform(-0.3, 0.3, 300)
    model = SVR(C=1.0, gamma=2.0, epsilon=0.05, parametric=[np.sin, np.cos]).fit(X, y)
    np.testing.assert_allclose(model.parametric_coef_, [1.0, 0.0], atol=0.12)
    assert model.status_ is Status.CONVERGED


@dataclass
class Hasty(InteriorPoint):
    """The interior method, which takes the first end that it comes to."""

    purify_up_to: int = 0
    tries: int = 1


def test_a_small_gap_with_violations_left_is_mended_on_the_factor(monkeypatch):
    """One dimension, a kernel of low rank: the interior method goes first, and may stop before violations are small."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (2500, 1))
    y = np.sin(X[:, 0]) + np.sinc(2 * (X[:, 0] - 5)) + rng.uniform(-0.3, 0.3, 2500)
    machine = SVR(C=1.0, gamma=2.0, epsilon=0.05, parametric=[np.sin, np.cos])
    exact = clone(machine).fit(X, y)
    monkeypatch.setattr("maxmargin.goal.GAP_OF_VIOLATION", 10.0)
    monkeypatch.setitem(SOLVERS, "interior-point", Hasty)
    mended = clone(machine).fit(X, y)
    assert (exact.solver_, mended.solver_) == ("interior-point", "mpd")
    for model in (exact, mended):
        assert model.status_ is Status.CONVERGED and model.certificate_.violation <= 1e-3
    assert mended.certificate_.dual == pytest.approx(exact.certificate_.dual, rel=1e-5)
    np.testing.assert_allclose(mended.parametric_coef_, exact.parametric_coef_, atol=1e-3)


# -- weights and classes --------------------------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("form", [both, StandardScaler(), SplineTransformer(n_knots=2, degree=1, knots="quantile")])
def test_weights_are_copies_and_zero_is_absence(machine, form):
    X, y, X_test = data_for(machine)
    X, X_test = X[:, :3], X_test[:, :3]
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    if isinstance(form, SplineTransformer):
        form = make_pipeline(form, FunctionTransformer(lambda B: B[:, ::2] - 0.5))  # independent of the constant
    machine = clone(machine).set_params(parametric=form, solver=Referee())
    weighted = clone(machine).fit(X, y, sample_weight=counts)
    copied = clone(machine).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(values(weighted, X_test), values(copied, X_test), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(weighted.parametric_coef_, copied.parametric_coef_, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_one_class_coefficients_grow_with_the_weights(factor):
    X, y, X_test = data_for(MACHINES["one-class"])
    machine = clone(MACHINES["one-class"]).set_params(parametric=both, solver=Referee())
    one, other = (clone(machine).fit(X, sample_weight=np.full(len(X), f)) for f in (1.0, factor))
    np.testing.assert_allclose(other.parametric_coef_ / factor, one.parametric_coef_, rtol=1e-4)
    np.testing.assert_allclose(values(other, X_test) / factor, values(one, X_test), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(other.score_samples(X_test) - other.offset_, values(other, X_test), rtol=1e-9)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("machine", [SVC(gamma=0.05), NuSVC(gamma=0.05, nu=0.1)], ids=repr)
def test_pairs_of_classes_have_a_row_each(machine, shape):
    s = samples("wine")
    machine = clone(machine).set_params(parametric=both, solver=Referee(), decision_function_shape=shape)
    model = machine.fit(s.X[:60], s.y[:60])
    assert model.parametric_coef_.shape == (3, 2)
    phi = both(s.X_test)
    decisions = np.empty((len(phi), 3))
    K = by_hand.kernel_of(model, s.X_test, s.X[:60])
    for c, pair in enumerate(by_hand.pairs(model, s.y[:60])):
        decisions[:, c] = K[:, pair.rows] @ pair.beta + pair.bias + phi @ model.parametric_coef_[c]
    if shape == "ovo":
        np.testing.assert_allclose(model.decision_function(s.X_test), decisions, rtol=1e-9, atol=1e-9)
    else:
        assert model.decision_function(s.X_test).shape == (len(phi), 3)
    first, second, third = (decisions > 0).T
    votes = np.vstack([1 * first + second, 1 * ~first + third, 1 * ~second + ~third])
    np.testing.assert_array_equal(model.predict(s.X_test), votes.argmax(axis=0))


def test_one_against_the_rest_has_a_row_for_each_class():
    s = samples("wine")
    model = LinearSVC(parametric=squares, C=0.1, solver=Referee()).fit(s.X[:60], s.y[:60])
    assert model.parametric_coef_.shape == (3, 2)
    expected = s.X_test @ model.coef_.T + model.intercept_ + squares(s.X_test) @ model.parametric_coef_.T
    np.testing.assert_allclose(model.decision_function(s.X_test), expected, rtol=1e-9)


# -- among scikit-learn's tools -------------------------------------------------------------------------


@each_machine
def test_pipelines_clones_and_pickles(machine):
    X, y, X_test = data_for(machine)
    machine = clone(machine).set_params(parametric=PolynomialFeatures(1, include_bias=False), solver=Referee())
    machine.set_params(parametric__interaction_only=True)  # parameters of the transformer are parameters
    X, X_test = X[:, :2], X_test[:, :2]
    pipeline = make_pipeline(StandardScaler(), machine).fit(X, y)
    model = pipeline[-1]
    assert not hasattr(machine.parametric, "n_features_in_")  # a clone was fitted
    copy = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(values(copy, X_test), values(pipeline, X_test))
    again = clone(pipeline).fit(X, y)
    np.testing.assert_array_equal(again[-1].parametric_coef_, model.parametric_coef_)


def test_functions_by_name_are_pickled():
    X, y, X_test = data_for(MACHINES["svr"])
    model = SVR(parametric=np.tanh, solver=Referee()).fit(X[:, :2], y)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict(X_test[:, :2]), model.predict(X_test[:, :2])
    )


def test_functions_can_be_searched():
    s = samples("curve")
    grid = {"parametric": [None, lambda X: X[:, :1], PolynomialFeatures(2, include_bias=False)], "C": [0.01]}
    search = GridSearchCV(SVR(solver=Referee()), grid, cv=3).fit(s.X[:90], s.y[:90])
    scores = search.cv_results_["mean_test_score"]
    assert isinstance(search.best_params_["parametric"], PolynomialFeatures)
    assert scores[2] > scores[0] + 0.1
    nested = {"parametric__degree": [1, 2]}
    machine = SVR(parametric=PolynomialFeatures(1, include_bias=False), solver=Referee(), C=0.01)
    assert GridSearchCV(machine, nested, cv=2).fit(s.X[:60], s.y[:60]).best_params_ == {"parametric__degree": 2}
    assert cross_val_score(make_pipeline(StandardScaler(), machine), s.X[:60], s.y[:60], cv=2).mean() > 0


@pytest.mark.parametrize("solver", ["auto", "mpd"])
def test_a_list_of_functions_in_a_pipeline_cloned_searched_and_pickled(solver):
    rng = np.random.default_rng(0)
    X = rng.uniform(-10, 30, (120, 1))
    z = (X[:, 0] - X.mean()) / X.std()  # what the machine sees behind the scaler
    y = 2 * np.sin(z) + np.exp(-8 * z**2) + 0.1 * rng.normal(size=120)
    pipeline = make_pipeline(StandardScaler(), SVR(parametric=[np.sin, np.cos], gamma=4.0, solver=solver))
    grid = {"svr__parametric": [None, [np.sin], [np.sin, np.cos]], "svr__C": [0.01, 1.0]}
    search = GridSearchCV(clone(pipeline), grid, cv=3).fit(X, y)
    assert search.best_params_["svr__C"] == 1.0 and search.best_params_["svr__parametric"] is not None
    scores = {
        str(p["svr__parametric"]): s
        for p, s in zip(*(search.cv_results_[k] for k in ("params", "mean_test_score")), strict=True)
        if p["svr__C"] == 0.01
    }
    assert scores[str([np.sin])] > scores["None"] + 0.2
    model = search.best_estimator_[-1]
    assert model.status_ is Status.CONVERGED and model.parametric_coef_[0] == pytest.approx(2.0, abs=0.3)
    copy = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(copy.predict(X), search.predict(X))
    again = clone(copy.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(again[-1].parametric_coef_, model.parametric_coef_)


def test_a_second_fit_without_functions_forgets_them():
    X, y, X_test = data_for(MACHINES["svr"])
    model = SVR(parametric=bend, solver=Referee()).fit(X, y)
    model.set_params(parametric=None).fit(X, y)
    np.testing.assert_allclose(values(model, X_test), values(SVR(solver=Referee()).fit(X, y), X_test))
    assert not hasattr(model, "parametric_coef_")


@pytest.mark.parametrize("machine", ["svr", "linear-svr"])
def test_sparse_samples_and_sparse_values(machine):
    machine = MACHINES[machine]
    X, y, X_test = data_for(machine)
    dense = clone(machine).set_params(parametric=lambda X: X[:, :2], solver=Referee()).fit(X, y)
    sparse = clone(dense).fit(sp.csr_matrix(X), y)  # the function gets CSR and returns CSR
    np.testing.assert_allclose(values(sparse, sp.csr_matrix(X_test)), values(dense, X_test), rtol=1e-4, atol=1e-4)


def test_a_precomputed_kernel_with_functions_of_the_samples_at_hand():
    X, y, X_test = data_for(MACHINES["svr"])
    K, K_test = rbf_kernel(X, gamma=0.1), rbf_kernel(X_test, X, gamma=0.1)
    model = SVR(kernel="precomputed", parametric=lambda K: K[:, :2], solver=Referee()).fit(K, y)
    named = SVR(gamma=0.1, parametric=lambda Z: rbf_kernel(Z, X[:2], gamma=0.1), solver=Referee()).fit(X, y)
    np.testing.assert_allclose(model.predict(K_test), named.predict(X_test), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("machine", ["linear-svc", "linear-svr"])
def test_samples_in_pieces(machine, tmp_path):
    machine = clone(MACHINES[machine]).set_params(parametric=[bend, wave], solver=Referee())
    X, y, X_test = data_for(machine)
    whole = clone(machine).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    pieces = [X[:30], X[30:]]
    for kind in (pieces, tmp_path / "X.npy", np.load(tmp_path / "X.npy", mmap_mode="r")):
        model = clone(machine).fit(kind, y)
        np.testing.assert_allclose(model.parametric_coef_, whole.parametric_coef_, rtol=1e-6)
        np.testing.assert_allclose(values(model, kind), values(whole, X), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="transformer was asked for; found X in parts"):
        clone(machine).set_params(parametric=StandardScaler()).fit(pieces, y)


# -- what makes no sense --------------------------------------------------------------------------------

BAD = {
    "number": (3, r"found parametric=3, int; give a function"),
    "string": ("sin", r"found parametric='sin', str; "),
    "class": (StandardScaler, r"was asked for; found parametric=.*, type; "),
    "empty": ([], r"found parametric=\[\], an empty list; "),
    "list of numbers": ([np.sin, 2], r"found parametric=.*, a list with int in it; "),
    "rows": (lambda X: X[:-1], r"shape \(70, k\); found shape \(69, 8\); return one value for each row"),
    "list of matrices": ([bend, squares], r"function 1 was asked for values of shape \(70,\); found shape \(70, 2\); "),
    "scalar": (lambda X: 1.0, r"shape \(70, k\); found shape \(\); "),
    "no columns": (lambda X: X[:, :0], r"shape \(70, k\); found shape \(70, 0\); "),
    "three": (lambda X: X[:, :, None], r"found shape \(70, 8, 1\); "),
    "nan": (
        [bend, lambda X: np.where(X[:, 0] > 1, np.nan, X[:, 0])],
        r"function 1 was asked for finite .*sample \d+; ",
    ),
    "inf": (lambda X: np.full(len(X), np.inf), r"finite values; found NaN or infinity.*; mend"),
    "words": (lambda X: np.full(len(X), "a"), r"numbers; found values of type .*; return real numbers"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("machine", ["svc", "one-class", "linear-svc", "linear-svr"])
def test_functions_that_make_no_sense_are_an_error(machine, bad):
    given, message = BAD[bad]
    X, y, _ = data_for(MACHINES[machine])
    with pytest.raises(ValueError, match=message):
        clone(MACHINES[machine]).set_params(parametric=given).fit(X, y)


def third(X):
    return bend(X) - 2 * wave(X)


DEPENDENT = {
    "constant": ([bend, lambda X: np.full(X.shape[0], 2.0)], r"function 1 is a combination of the intercept on"),
    "twice": ([bend, lambda X: -3 * bend(X)], r"function 1 is a combination of function 0 \(bend\) on"),
    "sum": (
        [bend, wave, third],
        r"function 2 \(third\) is a combination of function 0 \(bend\) and function 1 \(wave\)",
    ),
    "zero": (lambda X: np.zeros((len(X), 1)), r"column 0 is zero on"),
    "names": (PolynomialFeatures(1), r"1 is a combination of the intercept on"),
    "many": (lambda X: np.random.default_rng(0).normal(size=(len(X), 99)), r"column \d+ is a combination of"),
}


@pytest.mark.parametrize("machine", ["svc", "nu-svc", "svr", "nu-svr", "one-class", "linear-svc", "linear-svr"])
@pytest.mark.parametrize("case", DEPENDENT)
def test_dependent_functions_are_an_error_that_names_them(machine, case):
    given, message = DEPENDENT[case]
    X, y, _ = data_for(MACHINES[machine])
    with pytest.raises(
        ValueError, match=rf"linearly independent were asked for; found that {message}.*; leave one of them out"
    ):
        clone(MACHINES[machine]).set_params(parametric=given).fit(X, y)


def test_functions_that_are_dependent_on_a_pair_of_classes_name_the_pair():
    s = samples("wine")
    with pytest.raises(ValueError, match=r"column 0 is zero on the samples of 0 v 1; leave one"):
        X = np.c_[s.X, s.y == 2]
        SVC(parametric=lambda X: X[:, -1]).fit(X, s.y)


def test_without_an_intercept_a_constant_is_independent():
    X, y, _ = data_for(MACHINES["svr"])
    machine = SVR(parametric=PolynomialFeatures(1), fit_intercept=False, solver=Referee())
    assert machine.fit(X[:, :2], y).parametric_coef_.shape == (3,)


def test_another_number_of_values_at_prediction_is_an_error():
    X, y, X_test = data_for(MACHINES["svr"])
    model = SVR(parametric=lambda X: X[:, : 2 if len(X) == 70 else 1], solver=Referee()).fit(X, y)
    with pytest.raises(ValueError, match=r"asked for 2 values a sample, as in fit; found 1; each must return as many"):
        model.predict(X_test)


def test_nu_that_functions_make_infeasible_is_an_error():
    X, y, _ = data_for(MACHINES["one-class"])
    with pytest.raises(ValueError, match=r"specified nu is infeasible: nu=0.2 was asked for; found .*; leave out"):
        OneClassSVM(nu=0.2, parametric=lambda X: 1 + X[:, 0] ** 2).fit(X)
    labels = (X[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match=r"specified nu is infeasible: nu=0.3 was asked for; found .*; leave out"):
        NuSVC(nu=0.3, parametric=lambda X: X[:, 0]).fit(X, labels)


def test_a_ball_has_no_functions():
    with pytest.raises(TypeError, match="parametric"):
        SVDD(parametric=bend)


def test_a_solver_that_cannot_says_which_can():
    X, y, _ = data_for(MACHINES["svr"])
    with pytest.raises(
        ValueError, match=r"\"smo\".* was asked to keep 3 equality constraints .*; found .*; use solver=\"mpd\""
    ):
        SVR(parametric=both, solver="decomposition").fit(X, y)


def test_a_function_of_two_large_values_contradicts_nothing():
    """Rows of different sizes: what is small beside a constraint in other units is not rounding."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [100, 40])
    X = np.where((y == 0) & (rng.uniform(size=140) < 0.07), 15767.0, 0.0)[:, None]
    model = NuSVC(nu=0.01, gamma=1e-9, parametric=[lambda X: X[:, 0] ** 2]).fit(X, y)
    assert model.status_.converged


def line(X):
    return X[:, 0]


@pytest.mark.parametrize("solver", ["auto", "sor", "mpd"])
@pytest.mark.parametrize("functions", [[line], [line, bend]])
def test_a_target_that_needs_no_kernel_and_no_intercept(functions, solver):
    """Coefficients that are rounding of u and v which cancel are none, and nobody asked for an intercept."""
    X = np.random.default_rng(2).normal(size=(4, 2))
    machine = NuSVR(nu=0.3, C=0.7, gamma=0.5, fit_intercept=False, parametric=functions, solver=solver)
    machine.fit(X, 3.0 * X[:, 0])
    assert machine.status_ is Status.CONVERGED
    assert machine.intercept_ == 0.0
    np.testing.assert_allclose(machine.predict(X), 3.0 * X[:, 0], atol=2e-3)
