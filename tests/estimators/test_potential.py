"""PSVC, PSVR and PSVMSelector: relations of every kind, weights, paths, what prediction reads."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import PSVC, PSVR, PSVMSelector
from maxmargin.solution import Status

RNG = np.random.default_rng(0)
X, Y = load_diabetes(return_X_y=True)
X, Y = X[:120], Y[:120]
IRIS, FLOWER = load_iris(return_X_y=True)
K = RNG.normal(size=(60, 40))
T = K[:, 3] - 2.0 * K[:, 17] + 0.2 * RNG.normal(size=60)
TIGHT = 1e-7


def test_a_kernel_is_its_matrix():
    """By name, as a function, precomputed and dyadic: the same machine."""
    gamma = 30.0
    gram = rbf_kernel(X, gamma=gamma)
    named = PSVR(gamma=gamma, tol=TIGHT).fit(X, Y)
    function = PSVR(kernel=lambda a, b: rbf_kernel(a, b, gamma=gamma), tol=TIGHT).fit(X, Y)
    matrix = PSVR(kernel="precomputed", tol=TIGHT).fit(gram, Y)
    dyadic = PSVR(kernel="dyadic", tol=TIGHT).fit(gram, Y)
    for other in (function, matrix, dyadic):
        assert np.array_equal(named.support_, other.support_)
        np.testing.assert_allclose(other.alpha_, named.alpha_, rtol=1e-4, atol=1e-4 * np.abs(named.alpha_).max())
    new = X[:10] + 0.01
    for other, seen in ((function, new), (matrix, rbf_kernel(new, X, gamma=gamma))):
        np.testing.assert_allclose(other.predict(seen), named.predict(new), rtol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "csr", "mapped", "float32"])
def test_dyadic_data_of_every_kind(kind, tmp_path):
    thin = np.where(np.abs(K) > 0.8, K, 0.0).astype(np.float32).astype(np.float64)
    plain = PSVR(kernel="dyadic", tol=TIGHT).fit(thin, T)
    np.save(tmp_path / "K.npy", thin)
    data = {
        "dense": np.asfortranarray(thin),
        "csr": sp.csr_array(thin),
        "mapped": np.load(tmp_path / "K.npy", mmap_mode="r"),
        "float32": thin.astype(np.float32),
    }[kind]
    model = PSVR(kernel="dyadic", tol=TIGHT).fit(data, T)
    assert np.array_equal(model.support_, plain.support_)
    np.testing.assert_allclose(model.predict(data), plain.predict(thin), atol=1e-6)


def test_the_lasso_is_a_special_case():
    scaled = (K - K.mean(axis=0)) / (K.std(axis=0) * np.sqrt(len(K)))
    model = PSVR(C=np.inf, epsilon=0.5, kernel="dyadic", tol=1e-9).fit(K, T)
    theirs = Lasso(alpha=0.5 * T.std() / len(T), tol=1e-14, max_iter=10**6).fit(scaled, T)
    assert np.array_equal(model.support_, np.flatnonzero(theirs.coef_))
    np.testing.assert_allclose(model.alpha_, theirs.coef_[model.support_], rtol=1e-6)
    np.testing.assert_allclose(model.predict(K), theirs.predict(scaled), atol=1e-6)


@pytest.mark.parametrize("model", [PSVR(kernel="dyadic", tol=TIGHT), PSVR(kernel="dyadic", C=0.5, tol=TIGHT)], ids=repr)
def test_units_do_not_matter(model):
    """A feature times 1000, a target in other units: nothing changes."""
    unit = 10.0 ** RNG.integers(-3, 4, K.shape[1])
    first, second = clone(model).fit(K, T), clone(model).fit(K * unit - 4.0, 250.0 * T + 3.0)
    assert np.array_equal(first.support_, second.support_)
    np.testing.assert_allclose(second.predict(K * unit - 4.0), 250.0 * first.predict(K) + 3.0, rtol=1e-4, atol=1e-3)
    assert second.certificate_.primal == pytest.approx(first.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "dyadic", "precomputed"])
def test_weights_are_copies(kernel):
    weight = RNG.integers(0, 3, len(X)).astype(float)
    copies = np.repeat(np.arange(len(X)), weight.astype(int))
    model = PSVR(C=2.0, kernel=kernel, tol=TIGHT, gamma=30.0)
    if kernel == "precomputed":
        gram = rbf_kernel(X, gamma=30.0)
        weighed = clone(model).fit(gram, Y, weight).predict(gram)
        copied = clone(model).fit(gram[np.ix_(copies, copies)], Y[copies]).predict(gram[:, copies])
    else:
        weighed = clone(model).fit(X, Y, weight).predict(X)
        copied = clone(model).fit(X[copies], Y[copies]).predict(X)
    np.testing.assert_allclose(weighed, copied, rtol=1e-4)


def test_prediction_reads_the_columns_it_stands_on():
    model = PSVR(kernel="dyadic", epsilon=1.0).fit(K, T)
    assert 0 < model.n_support_ < 20
    spoiled = np.full_like(K, np.nan)
    spoiled[:, model.support_] = K[:, model.support_]
    expected = K[:, model.support_] @ model._coef[:, 0] + model.intercept_[0]
    np.testing.assert_allclose(model.predict(spoiled), expected)  # what it does not read may be missing
    np.testing.assert_allclose(model.predict(K[:, model.support_]), expected)
    np.testing.assert_allclose(model.predict(sp.csr_array(K)), expected)
    with pytest.raises(ValueError, match="features"):
        model.predict(K[:, :-1])


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, lambda a: a.astype(np.float32)])
def test_a_linear_kernel_predicts_by_weights(kind, monkeypatch):
    """What the relations to the chosen objects give, without a single relation."""
    data, apart = kind(IRIS), sp.csr_array(kind(IRIS)).toarray().astype(np.float64)
    model = PSVC(kernel="linear", epsilon=0.2).fit(data, FLOWER)
    expected = apart @ apart[model.support_].T @ model._coef + model.intercept_
    monkeypatch.delattr("maxmargin.decisions.weigh")
    found = model.decision_function(data)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(apart).max() ** 2 * np.abs(model._coef).sum())


def test_missing_relations_are_named():
    holes = K.copy()
    holes[3, 7] = holes[4, 9] = np.nan
    for data in (holes, sp.csr_array(holes)):
        with pytest.raises(ValueError, match=r"2 NaN in 2 columns, the first of them column 7.*SimpleImputer"):
            PSVR(kernel="dyadic").fit(data, T)
    model = PSVR(kernel="dyadic", epsilon=0.05).fit(K, T)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full_like(K, np.nan))


def test_an_indefinite_similarity_of_strings():
    """Objects that are no vectors, a similarity that is no kernel."""
    words = np.array(["abba", "abab", "baba", "bbaa", "aabb", "xyxy", "yxyx", "xxyy", "yyxx", "xyyx"] * 3)
    label = np.array(([0] * 5 + [1] * 5) * 3)

    def common(A, B):
        return np.array(
            [[sum(x == y for x, y in zip(a, b, strict=True)) - 2.0 * (a[0] == b[-1]) for b in B] for a in A]
        )

    assert np.linalg.eigvalsh(common(words, words)).min() < -0.1
    model = PSVC(kernel=common).fit(words, label)
    assert model.score(words, label) == 1.0
    few = PSVC(kernel=common, objects=np.array(["aaaa", "yyyy"])).fit(words, label)
    assert set(few.support_) <= {0, 1} and few.score(words, label) > 0.7


def test_named_kernels_may_have_objects_of_their_own():
    model = PSVR(gamma=30.0, objects=X[:20], tol=TIGHT).fit(X, Y)
    matrix = PSVR(kernel="precomputed", tol=TIGHT).fit(rbf_kernel(X, X[:20], gamma=30.0), Y)
    assert model.support_.max() < 20
    np.testing.assert_allclose(model.predict(X), matrix.predict(rbf_kernel(X, X[:20], gamma=30.0)), rtol=1e-5)


def test_classes_one_against_the_rest():
    model = PSVC(tol=1e-6).fit(IRIS, FLOWER)
    f = model.decision_function(IRIS)
    assert f.shape == (150, 3) and model.alpha_.shape == (3, model.n_support_) and len(model.certificates_) == 3
    assert model.score(IRIS, FLOWER) > 0.95
    for c in range(3):
        alone = PSVC(tol=1e-6).fit(IRIS, np.where(FLOWER == c, "yes", "a no"))
        assert list(alone.classes_) == ["a no", "yes"]
        np.testing.assert_allclose(alone.decision_function(IRIS), f[:, c], atol=1e-3)


def test_balanced_classes_take_no_side():
    data, label = load_breast_cancer(return_X_y=True)
    data, label = data[:150], np.r_[label[:150]]
    model = PSVC(kernel="dyadic", class_weight="balanced").fit(data, label)
    weights = np.where(label == 1, 1 / (label == 1).mean(), 1 / (label == 0).mean()) / 2
    same = PSVC(kernel="dyadic").fit(data, label, weights)
    np.testing.assert_allclose(model.decision_function(data), same.decision_function(data), atol=1e-6)
    assert model._means[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("solver", ["columns", "potential-smo", "decomposition", "sor", "interior-point"])
def test_solvers_by_name(solver):
    model = PSVR(kernel="dyadic", C=1.5, solver=solver, tol=1e-5).fit(K, T)
    assert model.solver_ == solver and model.status_ is Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-5
    best = PSVR(kernel="dyadic", C=1.5, tol=1e-9).fit(K, T)
    assert model.certificate_.dual == pytest.approx(best.certificate_.dual, rel=1e-5)


def test_switches_reach_the_solver():
    plain = PSVR(kernel="dyadic", solver="potential-smo", pair=False, block=False, annealing=False).fit(K, T)
    whole = PSVR(kernel="dyadic", solver="potential-smo").fit(K, T)
    assert plain.n_iter_ != whole.n_iter_
    with pytest.raises(ValueError, match="was asked for; found pair='no'"):
        PSVR(pair="no").fit(X, Y)


def test_a_path_is_a_sequence_of_fits():
    model = PSVR(kernel="dyadic", tol=1e-7)
    path = model.path(K, T, [0.2, 3.0, 1.0])
    assert list(path.epsilons) == [3.0, 1.0, 0.2]
    for epsilon, alpha, intercept in zip(path.epsilons, path.alphas, path.intercepts, strict=True):
        alone = clone(model).set_params(epsilon=epsilon).fit(K, T)
        assert np.array_equal(alone.support_, np.flatnonzero(alpha))
        np.testing.assert_allclose(alone.alpha_, alpha[alone.support_], rtol=1e-4)
        assert intercept == pytest.approx(alone.intercept_[0], abs=1e-5)
    whole = model.path(K, T)
    assert len(whole.epsilons) == 50 and whole.n_support[0] == 1 and (np.diff(whole.n_support) >= -3).all()
    assert PSVC().path(IRIS, FLOWER, n_epsilons=5).alphas.shape == (5, 3, 150)


@pytest.mark.parametrize("C", [np.inf, 5.0])
@pytest.mark.parametrize("kernel", ["rbf", rbf_kernel])
def test_a_stop_while_relations_are_read(kernel, C):
    """The model is the mean of the targets, and its proof holds for any relations: no less than the true one."""
    with pytest.warns(UserWarning, match="stopped early: the time limit"):
        model = PSVC(kernel=kernel, C=C, time_limit=1e-9, warm_start=True).fit(IRIS, FLOWER)
    assert model.status_ is Status.TIME_LIMIT and not model.n_support_
    np.testing.assert_allclose(model.decision_function(IRIS), -1 / 3)
    proofs = model.certificates_
    done = model.set_params(time_limit=None).fit(IRIS, FLOWER)
    for proof, true in zip(proofs, done.certificates_, strict=True):
        assert proof.dual == 0.0 and proof.gap >= true.idle >= true.primal and np.isfinite(proof.gap)
    with pytest.warns(UserWarning, match="do not rely on it"):  # a start from that model is of no use either
        model.set_params(time_limit=1e-9).fit(IRIS, FLOWER)
    assert not model.n_support_ and model.certificates_ == proofs
    found = PSVR(kernel=kernel, C=C, time_limit=1e-9).path(X, Y)
    assert found.alphas.shape == (1, len(X)) and not found.alphas.any()


@pytest.mark.parametrize("fits", [True, False])
def test_a_callback_that_raises_while_relations_are_read(monkeypatch, fits):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", -1.0)
    monkeypatch.setattr("maxmargin.memory.fits", lambda size: fits)
    seen = []

    def late(step):
        seen.append(step["iteration"])
        if len(seen) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        PSVR(callback=late).fit(X, Y)
    assert seen == [0, 0]


def test_manners():
    seen = []
    with pytest.warns(UserWarning, match="stopped early"):
        model = PSVR(tol=1e-9, callback=lambda row: seen.append(row) or True).fit(X, Y)
    assert seen and model.status_ is Status.CALLBACK and np.isfinite(model.predict(X)).all()
    warm = PSVR(kernel="dyadic", warm_start=True, tol=1e-6).fit(K, T)
    first = warm.n_iter_
    assert warm.fit(K, T).n_iter_ <= first
    again = pickle.loads(pickle.dumps(warm))
    np.testing.assert_array_equal(again.predict(K), warm.predict(K))
    assert warm.fit_time_ > 0 and len(warm.history_) > 0
    for wrong in ({"C": -1.0}, {"epsilon": -0.1}, {"kernel": "nonsense"}, {"kernel": "dyadic", "objects": X}):
        with pytest.raises(ValueError, match="was asked for"):
            PSVR(**wrong).fit(X, Y)


def test_it_generalises():
    assert cross_val_score(PSVC(), IRIS, FLOWER).mean() > 0.9
    assert cross_val_score(PSVR(), *load_diabetes(return_X_y=True)).mean() > 0.4
    data, label = load_breast_cancer(return_X_y=True)
    assert cross_val_score(make_pipeline(StandardScaler(), PSVC()), data, label).mean() > 0.95
    gram = rbf_kernel(StandardScaler().fit_transform(data), gamma=0.02)
    assert cross_val_score(PSVC(kernel="precomputed"), gram, label).mean() > 0.95


# -- selection ----------------------------------------------------------------------------------------------


def test_the_selector_finds_what_matters():
    wide = RNG.normal(size=(80, 300)) * 10.0 ** RNG.integers(-3, 4, 300)
    y = wide[:, 11] / wide[:, 11].std() + wide[:, 200] / wide[:, 200].std() + 0.3 * RNG.normal(size=80)
    few = PSVMSelector(n_features_to_select=2).fit(wide, y)
    assert set(few.get_support(indices=True)) == {11, 200}
    assert set(np.flatnonzero(few.ranking_ <= 2)) == {11, 200}
    by_epsilon = PSVMSelector(epsilon=3.5).fit(wide, y)
    model = PSVR(kernel="dyadic", C=np.inf, epsilon=3.5).fit(wide, y)
    assert np.array_equal(by_epsilon.get_support(indices=True), model.support_)
    assert few.transform(sp.csr_array(wide)).shape == (80, 2)
    labels = PSVMSelector(n_features_to_select=0.01).fit(wide, np.where(y > 0, "high", "low"))
    assert labels.get_support().sum() == 3 and labels.get_support()[[11, 200]].all()


def test_permutations_tell_chance_from_more():
    wide = RNG.normal(size=(60, 50))
    found = PSVMSelector(epsilon=0.5, n_permutations=99, random_state=0).fit(wide, wide[:, 7] + RNG.normal(size=60))
    assert found.pvalues_[7] == 0.01 and np.median(found.pvalues_) > 0.2
    nothing = PSVMSelector(epsilon=0.5, n_permutations=99, random_state=0).fit(wide, RNG.normal(size=60))
    assert nothing.pvalues_.min() > 0.01


def test_the_selector_in_a_pipeline():
    data, label = load_breast_cancer(return_X_y=True, as_frame=True)
    pipe = make_pipeline(PSVMSelector(n_features_to_select=8), StandardScaler(), LogisticRegression())
    assert cross_val_score(pipe, data, label).mean() > 0.94
    selector = pipe.fit(data, label)[0].set_output(transform="pandas")
    assert list(selector.transform(data).columns) == list(selector.get_feature_names_out())
    assert len(selector.get_feature_names_out()) == 8
    with pytest.raises(ValueError, match="was asked for; found n_features_to_select=0"):
        PSVMSelector(n_features_to_select=0).fit(data, label)


def test_features_that_say_the_same_are_selected_together():
    """A lasso takes some of them by chance and noise for the rest; in the default's box they share their weight."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=60)
    X = np.hstack([hidden[:, None] + 0.3 * rng.normal(size=(60, 20)), rng.normal(size=(60, 500))])
    y = np.where(hidden + 0.3 * rng.normal(size=60) > 0, 1, 0)
    shared = PSVMSelector(n_features_to_select=20).fit(X, y)
    single = PSVMSelector(n_features_to_select=20, C=np.inf).fit(X, y)
    assert shared.support_.sum() == single.support_.sum() == 20
    assert shared.support_[:20].sum() >= 12 >= 2 * single.support_[:20].sum()
    with pytest.raises(ValueError, match="auto"):
        PSVMSelector(C="none").fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "dyadic", "precomputed"])
@pytest.mark.parametrize("machine", [PSVR, PSVC])
def test_values_too_large_to_be_squared_are_an_error(machine, kernel):
    """They were columns that are constant, and a model without any was called converged."""
    X, y = np.random.default_rng(0).normal(size=(30, 30)), np.arange(30) % 2
    with pytest.raises(ValueError, match="too large"), np.errstate(all="ignore"):
        machine(kernel=kernel).fit(1e155 * X, y)


def test_a_selector_tells_whether_its_path_came_to_its_end():
    X, y = load_breast_cancer(return_X_y=True)
    whole = PSVMSelector(epsilon=0.5).fit(X, y)
    assert whole.status_ is Status.CONVERGED
    cut = PSVMSelector(epsilon=0.5, callback=lambda step: True).fit(X, y)
    assert cut.status_ is Status.CALLBACK and cut.epsilon_ > whole.epsilon_
