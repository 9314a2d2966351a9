"""What the estimators take, and what they say about the rest: what was asked, what was found, what to do."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from estimators import by_hand
from estimators.samples import samples
from maxmargin import PSVC, PSVR, SVC, SVDD, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.estimators import checks

MACHINES = {
    "svc": SVC(gamma=0.1),
    "nu-svc": NuSVC(nu=0.3, gamma=0.1),
    "svr": SVR(gamma=0.1),
    "nu-svr": NuSVR(gamma=0.1),
    "one-class": OneClassSVM(nu=0.2, gamma=0.1),
    "svdd": SVDD(nu=0.2, gamma=0.1),
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
KERNELS = ["linear", "rbf", "poly", "sigmoid", "laplacian"]
THREE_PARTS = r"was asked for; found .+; .+"


def values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


# -- kinds of arrays ------------------------------------------------------------------------------------


@each_machine
def test_float32_gives_nearly_the_same_model(machine):
    s = samples("noisy")
    wide = clone(machine).fit(s.X, s.y)
    narrow = clone(machine).fit(s.X.astype(np.float32), s.y)
    assert narrow.support_vectors_.dtype == np.float32
    assert narrow.dual_coef_.dtype == np.float64
    np.testing.assert_allclose(values(narrow, s.X_test), values(wide, s.X_test), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(narrow.certificate_.dual, wide.certificate_.dual, rtol=1e-6)
    np.testing.assert_allclose(
        values(narrow, s.X_test.astype(np.float32)), values(wide, s.X_test), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_with_every_kernel(kernel):
    s = samples("noisy")
    params = {"kernel": kernel, "gamma": 0.02, "degree": 2, "coef0": 0.5, "C": 0.5}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a positive semi-definite kernel")  # the sigmoid
        wide, narrow = (SVC(**params).fit(s.X.astype(dtype), s.y) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(values(narrow, s.X_test), values(wide, s.X_test), rtol=1e-3, atol=1e-3)


def test_float32_far_from_the_origin():
    # Distances between points that are far away must not drown in the rounding of their norms.
    s = samples("noisy")
    X = (s.X + 300.0).astype(np.float32)
    narrow, wide = (SVC(gamma=0.1).fit(V, s.y) for V in (X, X.astype(np.float64)))
    np.testing.assert_allclose(narrow.certificate_.dual, wide.certificate_.dual, rtol=1e-5)
    T = (s.X_test + 300.0).astype(np.float32)
    np.testing.assert_allclose(values(narrow, T), values(wide, T.astype(np.float64)), rtol=0, atol=2e-2)


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_scale_does_not_see_the_unit_of_the_features(dtype, scale):
    s = samples("noisy")
    plain = SVC().fit(s.X.astype(dtype), s.y)
    scaled = SVC().fit((s.X * scale).astype(dtype), s.y)
    np.testing.assert_allclose(scaled.certificate_.dual, plain.certificate_.dual, rtol=1e-4)
    T = (s.X_test * scale).astype(dtype)
    np.testing.assert_allclose(values(scaled, T), values(plain, s.X_test), rtol=0, atol=1e-3)


@each_machine
def test_the_order_in_memory_does_not_matter(machine):
    s = samples("noisy")
    expected = values(clone(machine).fit(s.X, s.y), s.X_test)
    wide = np.repeat(s.X, 2, axis=1)
    for X in (np.asfortranarray(s.X), wide[:, ::2], s.X[::-1][::-1]):
        np.testing.assert_allclose(values(clone(machine).fit(X, s.y), np.asfortranarray(s.X_test)), expected, rtol=1e-8)


@each_machine
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_read_only_memory_map(machine, dtype, tmp_path):
    s = samples("noisy")
    X = s.X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = clone(machine).fit(mapped, s.y)
    expected = clone(machine).fit(X, s.y)
    np.testing.assert_allclose(values(model, s.X_test), values(expected, s.X_test), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(mapped, X)


@each_machine
def test_sparse_samples_of_every_kind(machine):
    s = samples("noisy")
    X = np.where(np.abs(s.X) > 1.0, s.X, 0.0)
    expected = clone(machine).fit(X, s.y)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = sp.csr_matrix(X[:, ::-1])[:, ::-1]
    zeros = sp.csr_matrix(np.where(X == 0, 1e-300, X))
    zeros.data[np.abs(zeros.data) < 1e-200] = 0.0  # stored zeros
    kinds = [sp.csr_matrix(X), sp.csr_array(X), sp.csc_matrix(X), sp.coo_array(X), wide, unsorted, zeros]
    for kind in kinds:
        model = clone(machine).fit(kind, s.y)
        assert sp.issparse(model.dual_coef_)
        for T in (sp.csr_matrix(s.X_test), s.X_test):
            np.testing.assert_allclose(values(model, T), values(expected, s.X_test), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(values(expected, sp.csr_matrix(s.X_test)), values(expected, s.X_test), rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sparse_and_dense_agree_for_every_kernel(kernel):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((120, 200)) < 0.05, rng.normal(size=(120, 200)), 0.0)  # sparse enough for sparse products
    y = rng.integers(0, 2, 120)
    model = SVC(kernel=kernel, gamma=0.05, degree=2, coef0=0.3, tol=1e-6)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a positive semi-definite kernel")
        dense, sparse = (clone(model).fit(V, y) for V in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(values(sparse, sp.csr_matrix(X)), values(dense, X), rtol=0, atol=1e-5)
    np.testing.assert_allclose(sparse.certificate_.dual, dense.certificate_.dual, rtol=1e-7)


@pytest.mark.parametrize("machine", [SVC(), SVR(), PSVC(), PSVR(), PSVC(kernel="dyadic")], ids=str)
def test_what_is_seen_at_a_glance_is_what_validation_finds(machine, monkeypatch):
    """The same attributes and the same errors, word by word, as by scikit-learn's validation alone."""
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.repeat([-1, 1], 10)
    odd, gap, real = X.copy(), y.astype(float), y.astype(float)
    odd[3, 1], gap[4] = np.inf, np.nan
    huge = np.where(X > 0, 1e308, X)  # finite, though its sum is not
    table = pd.DataFrame(X, columns=list("abc"))
    cases = [
        (X, y),
        (X, real),
        (X.astype(np.float32), y),
        (X.T[0], y),
        (X[:0], y[:0]),
        (X, y[:-1]),
        (odd, y),
        (-odd, y),
    ]
    cases += [(X, gap), (X, y[:, None]), (X.astype(int), y), (X + 0j, y), (X.tolist(), y), (table, y), (huge, y)]
    cases += [
        (X.astype(object), y),
        (np.asfortranarray(X), y.astype(np.int8)),
        (X[:, :0], y),
        (X.astype(np.float16), y),
    ]

    def outcome(X, y):
        model = clone(machine).fit(table, np.repeat([-1, 1], 10))  # whose names are to be forgotten
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(X, y)
            except (ValueError, TypeError) as error:
                return type(error), str(error), model.feature_names_in_.tolist()
        names = getattr(model, "feature_names_in_", np.zeros(0)).tolist()
        return (
            model.n_features_in_,
            names,
            values(model, model.support_vectors_ if machine.kernel == "rbf" else X).tolist(),
        )

    seen = [outcome(*case) for case in cases]
    monkeypatch.setattr(checks, "_plain", lambda *_: False)
    for case, found in zip(cases, seen, strict=True):
        assert outcome(*case) == found


@each_machine
def test_lists_and_integers(machine):
    s = samples("noisy")
    X = np.round(3 * s.X)
    expected = values(clone(machine).fit(X, s.y), X)
    for kind in (X.tolist(), X.astype(np.int64), X.astype(np.int8)):
        model = clone(machine).fit(kind, s.y.tolist())
        np.testing.assert_allclose(values(model, kind), expected, rtol=1e-9, atol=1e-9)


@each_machine
def test_the_input_is_not_changed(machine):
    s = samples("noisy")
    X, y = s.X.copy(), s.y.copy()
    clone(machine).fit(X, y).predict(X)
    np.testing.assert_array_equal(X, s.X)
    np.testing.assert_array_equal(y, s.y)


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [False, True], [3.0, 7.0], [2**40, 2**41]], ids=str)
def test_labels_of_every_kind(labels):
    s = samples("noisy")
    plain, named = SVC().fit(s.X, s.y), SVC().fit(s.X, np.array(labels)[s.y])
    assert named.classes_.tolist() == labels
    np.testing.assert_array_equal(named.predict(s.X_test), np.array(labels)[plain.predict(s.X_test)])
    np.testing.assert_array_equal(values(named, s.X_test), values(plain, s.X_test))


def test_object_labels():
    s = samples("iris")
    names = np.array(["a", "b", "c"], dtype=object)[s.y]
    assert SVC().fit(s.X, names).score(s.X, names) > 0.9


# -- small and odd problems -----------------------------------------------------------------------------


def test_two_points():
    model = SVC(kernel="linear", C=10.0).fit([[0.0, 0.0], [2.0, 0.0]], [0, 1])
    np.testing.assert_allclose(model.coef_, [[1.0, 0.0]], atol=1e-6)  # the widest margin: f(0) = −1, f(2) = 1
    np.testing.assert_allclose(model.intercept_, [-1.0], atol=1e-6)
    np.testing.assert_allclose(model.dual_coef_, [[-0.5, 0.5]], atol=1e-6)
    assert model.n_support_.tolist() == [1, 1]


def test_two_points_that_are_one():
    model = SVC().fit([[1.0], [1.0]], [0, 1])
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.decision_function([[1.0]]), [0.0], atol=1e-9)
    assert model.certificate_.primal == pytest.approx(2.0)  # w = 0: both pay 1


@pytest.mark.parametrize("machine", [SVR(), NuSVR(), OneClassSVM(), SVDD()], ids=repr)
def test_one_sample(machine):
    machine.fit([[1.0, 2.0]], [3.0])
    assert machine.status_ is Status.CONVERGED
    assert machine.predict([[1.0, 2.0]]) == pytest.approx(3.0 if hasattr(machine, "score") else 1.0, abs=0.11)


@each_machine
def test_a_single_feature(machine):
    s = samples("noisy")
    model = clone(machine).fit(s.X[:, :1], s.y)
    assert model.n_features_in_ == 1
    assert np.isfinite(values(model, s.X_test[:, :1])).all()
    assert np.isfinite(model.certificate_.gap)


@each_machine
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_constant_features(machine, kernel):
    s = samples("noisy")
    model = clone(machine).set_params(kernel=kernel, gamma="scale").fit(np.full((s.n, 3), 2.5), s.y)
    assert model.status_ is Status.CONVERGED
    assert len(np.unique(np.round(values(model, np.full((5, 3), 2.5)), 12))) == 1
    assert np.isfinite(model.intercept_).all()


def test_one_constant_feature_changes_nothing():
    s = samples("noisy")
    wide = np.c_[s.X, np.full(s.n, 7.0)]
    plain, more = SVC(gamma=0.1).fit(s.X, s.y), SVC(gamma=0.1).fit(wide, s.y)
    expected = values(plain, s.X_test)
    np.testing.assert_allclose(
        values(more, np.c_[s.X_test, np.full(len(s.X_test), 7.0)]), expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_duplicates_with_contradicting_labels(loss):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(40, 2)), 5, axis=0)
    y = rng.integers(0, 2, 200)
    model = SVC(loss=loss, C=1.0, gamma=0.5).fit(X, y)
    assert model.status_ is Status.CONVERGED
    (pair,) = by_hand.pairs(model, y)
    K = by_hand.kernel_of(model, X)
    primal, dual = by_hand.c_svc(K, pair.y, pair.beta, pair.bias, np.ones(200), loss)
    assert primal - dual < 1e-3 * primal
    decisions = model.decision_function(X).reshape(40, 5)
    np.testing.assert_array_equal(decisions, np.repeat(decisions[:, :1], 5, axis=1))


def test_contradicting_labels_in_equal_number_cancel():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    model = SVC().fit(np.r_[X, X], np.repeat([0, 1], 30))
    np.testing.assert_allclose(model.decision_function(X), 0.0, atol=1e-6)
    assert model.certificate_.primal == pytest.approx(60.0)


def test_gamma_zero_is_a_constant_kernel():
    s = samples("noisy")
    model = SVC(gamma=0).fit(s.X, s.y)
    majority = np.bincount(s.y).argmax()
    assert set(model.predict(s.X_test)) == {majority}


def test_an_infinite_cost_is_a_hard_margin():
    s = samples("iris")
    X, y = s.X[s.y < 2], s.y[s.y < 2]  # separable
    hard, soft = (SVC(C=C, kernel="linear").fit(X, y) for C in (np.inf, 1e6))
    assert hard.status_ is Status.CONVERGED
    np.testing.assert_allclose(hard.coef_, soft.coef_, rtol=1e-4)
    np.testing.assert_allclose(hard.intercept_, soft.intercept_, rtol=1e-4)
    assert not np.isnan(hard.certificate_.relative_gap)


def test_labels_in_any_share():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    y = np.zeros(200, int)
    X[0], y[0] = 4.0, 1
    model = SVC(C=100.0).fit(X, y)
    assert model.n_support_[1] == 1
    assert model.predict(X[:1]) == [1]


# -- precomputed and callable kernels -------------------------------------------------------------------


@pytest.mark.parametrize("machine", [m for m in MACHINES.values() if not isinstance(m, SVDD)], ids=repr)
def test_a_precomputed_kernel_is_the_kernel(machine):
    s = samples("noisy")
    expected = clone(machine).fit(s.X, s.y)
    model = clone(machine).set_params(kernel="precomputed").fit(rbf_kernel(s.X, gamma=0.1), s.y)
    K = rbf_kernel(s.X_test, s.X, gamma=0.1)
    np.testing.assert_allclose(values(model, K), values(expected, s.X_test), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.support_, expected.support_)
    assert model.n_features_in_ == s.n


@each_machine
def test_a_callable_kernel_is_the_kernel(machine):
    s = samples("noisy")
    expected = clone(machine).fit(s.X, s.y)
    asked = []

    def kernel(X, Z):
        asked.append(len(Z))
        return rbf_kernel(X, Z, gamma=0.1)

    model = clone(machine).set_params(kernel=kernel).fit(s.X, s.y)
    asked.clear()
    np.testing.assert_allclose(values(model, s.X_test), values(expected, s.X_test), rtol=1e-5, atol=1e-5)
    assert max(asked) <= len(model.support_)  # support vectors only, not all training samples


def test_svdd_says_why_a_precomputed_kernel_cannot_score():
    s = samples("noisy")
    K = rbf_kernel(s.X, gamma=0.1)
    model = SVDD(kernel="precomputed").fit(K)
    assert model.radius_ == pytest.approx(SVDD(gamma=0.1).fit(s.X).radius_, rel=1e-5)
    with pytest.raises(
        ValueError, match=r"SVDD.*precomputed.*; found .*k\(x, x\).*; use a kernel by name or a callable"
    ):
        model.predict(K)


@each_machine
def test_a_precomputed_kernel_must_be_square(machine):
    s = samples("noisy")
    with pytest.raises(ValueError, match=r"must be a square matrix.*250x8 matrix; pass K\(X_train, X_train\)"):
        clone(machine).set_params(kernel="precomputed").fit(s.X, s.y)


@each_machine
def test_a_precomputed_kernel_must_be_symmetric(machine):
    s = samples("noisy")
    K = rbf_kernel(s.X, gamma=0.1)
    K[3, 5] += 0.01
    with pytest.raises(ValueError, match=rf"precomputed kernel {THREE_PARTS}"):
        clone(machine).set_params(kernel="precomputed").fit(K, s.y)
    K[3, 5] = K[5, 3] * (1 + 1e-9)  # rounding is no asymmetry
    clone(machine).set_params(kernel="precomputed").fit(K, s.y)


def test_a_precomputed_kernel_must_be_dense():
    s = samples("noisy")
    with pytest.raises(TypeError, match=r"[Ss]parse precomputed kernels are not supported.*; pass a dense array"):
        SVC(kernel="precomputed").fit(sp.csr_matrix(rbf_kernel(s.X)), s.y)


def test_a_precomputed_kernel_for_prediction_has_a_column_for_each_training_sample():
    s = samples("noisy")
    model = SVC(kernel="precomputed").fit(rbf_kernel(s.X), s.y)
    with pytest.raises(ValueError, match=r"X has 17 features, but SVC is expecting 250 features"):
        model.predict(rbf_kernel(s.X_test, s.X[:17]))


def test_an_indefinite_kernel_is_told():
    s = samples("noisy")
    K = np.random.default_rng(0).normal(size=(s.n, s.n))
    with pytest.warns(
        UserWarning, match=r"positive semi-definite kernel was asked for; found an eigenvalue of -.*; .*"
    ):
        SVC(kernel="precomputed", max_iter=10_000).fit(K + K.T, s.y)


BAD_CALLABLES = {
    "shape": (lambda X, Z: np.ones((2, 2)), r"a matrix of shape .*; found shape \(2, 2\); "),
    "scalar": (lambda X, Z: 1.0, r"a matrix of shape .*; found shape \(\); "),
    "transposed": (lambda X, Z: np.ones((len(Z), len(X) + 1)), r"a matrix of shape .*; found shape .*; "),
    "nan": (lambda X, Z: np.full((len(X), len(Z)), np.nan), r"finite values; found NaN.*; "),
    "inf": (lambda X, Z: np.full((len(X), len(Z)), np.inf), r"finite values; found .*; "),
}


@pytest.mark.parametrize("bad", BAD_CALLABLES)
@each_machine
def test_a_callable_that_returns_nonsense_is_an_error(machine, bad):
    s = samples("noisy")
    kernel, message = BAD_CALLABLES[bad]
    with pytest.raises(ValueError, match=rf"kernel function was asked for {message}"):
        clone(machine).set_params(kernel=kernel).fit(s.X, s.y)


def test_a_callable_that_fails_at_prediction_is_an_error():
    s = samples("noisy")
    broken = []

    def kernel(X, Z):
        return rbf_kernel(X, Z) if not broken else np.full((len(X), len(Z)), np.nan)

    model = SVC(kernel=kernel).fit(s.X, s.y)
    broken.append(True)
    with pytest.raises(ValueError, match="found NaN or infinity"):
        model.predict(s.X_test)


@pytest.mark.parametrize(
    "params",
    [{"kernel": "poly", "degree": 3000}, {"kernel": "poly", "coef0": 1e200}, {"kernel": "linear"}, {"gamma": 0.1}],
    ids=str,
)
def test_kernel_values_that_overflow_are_an_error(params):
    s = samples("noisy")
    scale = 100.0 if params.get("kernel") == "poly" else 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match=r"kernel.* was asked for; found .+; scale the features"):
            SVC(**params, max_iter=1000).fit(scale * s.X, s.y)


# -- samples and targets that make no sense -------------------------------------------------------------


@each_machine
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_samples_must_be_finite(machine, bad, layout):
    s = samples("noisy")
    X = s.X.copy()
    X[4, 2] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        clone(machine).fit(layout(X), s.y)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        clone(machine).fit(s.X, s.y).predict(layout(X))


@pytest.mark.parametrize("machine", [SVR(), NuSVR()], ids=repr)
def test_targets_must_be_finite_and_one_dimensional(machine):
    s = samples("curve")
    y = s.y.copy()
    y[7] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        machine.fit(s.X, y)
    with pytest.raises(ValueError, match=r"y should be a 1d array, got an array of shape \(200, 2\)"):
        machine.fit(s.X, np.c_[s.y, s.y])


@pytest.mark.parametrize("machine", [SVC(), NuSVC()], ids=repr)
def test_one_class_is_an_error(machine):
    s = samples("noisy")
    with pytest.raises(ValueError, match="The number of classes has to be greater than one; got 1 class"):
        machine.fit(s.X, np.ones(s.n))


@pytest.mark.parametrize("machine", [SVC(), NuSVC()], ids=repr)
def test_real_targets_are_no_classes(machine):
    s = samples("curve")
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        machine.fit(s.X, s.y)


@each_machine
def test_shapes_must_fit(machine):
    s = samples("noisy")
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        clone(machine).fit(s.X[:, 0], s.y)
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        clone(machine).fit(s.X[:0], s.y[:0])
    model = clone(machine).fit(s.X, s.y)
    with pytest.raises(ValueError, match=f"X has 3 features, but {type(machine).__name__} is expecting 8 features"):
        model.predict(s.X[:, :3])
    if not isinstance(machine, (OneClassSVM, SVDD)):
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[250, 249\]"):
            clone(machine).fit(s.X, s.y[:-1])


# -- parameters that make no sense ----------------------------------------------------------------------

COMMON = {
    "gamma": [-0.1, np.nan, np.inf, "big", None],
    "tol": [0.0, -1e-3, np.nan, None, "small"],
    "degree": [-1, np.nan, "3", None],
    "coef0": [np.nan, np.inf, "a", None],
    "max_iter": [0, -2, 2.5, "many", None],
}
NU_MACHINES = ("nu-svc", "nu-svr", "one-class", "svdd")
BAD = (
    [(machine, name, value) for machine in MACHINES for name, tries in COMMON.items() for value in tries]
    + [(machine, "C", value) for machine in ("svc", "svr", "nu-svr") for value in (0, -1.0, np.nan, "1", None)]
    + [("svdd", "C", value) for value in (0, -1.0, np.nan, "1")]
    + [
        (m, "nu", value)
        for m in ("nu-svc", "nu-svr", "one-class", "svdd")
        for value in (0, -0.1, 1.1, np.nan, "a", None)
    ]
    + [("svr", "epsilon", value) for value in (-0.1, np.nan, np.inf, "a", None)]
    + [("svc", "huber_delta", value) for value in (0, -1.0, np.nan, None)]
    + [(machine, "loss", value) for machine in ("svc", "svr") for value in ("logistic", None)]
    + [("svc", "decision_function_shape", value) for value in ("one", None)]
    + [("svc", "kernel", value) for value in ("magic", 3, None)]
)


@pytest.mark.parametrize(("machine", "name", "value"), BAD, ids=str)
def test_a_parameter_that_makes_no_sense_is_an_error(machine, name, value):
    s = samples("noisy")
    model = clone(MACHINES[machine]).set_params(**{name: value})  # said by fit, not before
    with pytest.raises(ValueError, match=rf"^a (valid|known) {name} was asked for; found {name}=.+; .+"):
        model.fit(s.X, s.y)


@pytest.mark.parametrize("name", ["shrinking", "fit_intercept", "break_ties", "warm_start"])
def test_a_switch_is_true_or_false(name):
    s = samples("noisy")
    with pytest.raises(ValueError, match=rf"^a valid {name} was asked for; found {name}='no'; .+"):
        SVC(**{name: "no"}).fit(s.X, s.y)


@pytest.mark.parametrize(
    ("name", "value"), [("n_jobs", "all"), ("n_jobs", 1.5), ("callback", 3), ("time_limit", "soon")]
)
def test_a_parameter_of_a_wrong_type_is_an_error(name, value):
    s = samples("noisy")
    with pytest.raises((TypeError, ValueError), match=rf"was asked for; found {name}="):
        SVC(**{name: value}).fit(s.X, s.y)


def test_a_degree_is_a_whole_number():
    # a power that is not is NaN for a negative base
    s = samples("noisy")
    with pytest.raises(ValueError, match=r"^a valid degree was asked for; found degree=2.5; .+"):
        SVC(kernel="poly", degree=2.5).fit(s.X, s.y)


def test_numbers_of_numpy_are_numbers():
    s = samples("noisy")
    model = SVC(C=np.float32(1), gamma=np.float64(0.1), tol=np.float32(1e-3), degree=np.int64(3), max_iter=np.int32(-1))
    np.testing.assert_allclose(values(model.fit(s.X, s.y), s.X_test), values(SVC(gamma=0.1).fit(s.X, s.y), s.X_test))


def test_ties_cannot_be_broken_among_pairs():
    s = samples("iris")
    model = SVC(break_ties=True, decision_function_shape="ovo").fit(s.X, s.y)  # as in scikit-learn
    with pytest.raises(ValueError, match="break_ties must be False when decision_function_shape is 'ovo'"):
        model.predict(s.X)


# -- nu -------------------------------------------------------------------------------------------------


def test_nu_that_is_too_large_is_an_error_that_names_the_interval():
    s = samples("noisy")
    y = np.arange(s.n) < 50  # a fifth of the samples: nu up to 0.4
    with pytest.raises(
        ValueError, match=r"^specified nu is infeasible: nu=0\.41 was asked for; found .*\(0, 0\.4\]; lower nu"
    ):
        NuSVC(nu=0.41).fit(s.X, y)
    assert NuSVC(nu=0.4).fit(s.X, y).status_ is Status.CONVERGED


def test_nu_that_is_too_large_for_some_pairs_is_lowered_for_them_and_told():
    s = samples("noisy")
    y = np.repeat([0, 1, 2], [120, 120, 10])
    with pytest.warns(UserWarning, match=r"nu=0\.5 was asked for; found .*\(0, 0\.153846\] for 0 v 2, .* for 1 v 2"):
        model = NuSVC(nu=0.5).fit(s.X, y)
    assert model.status_ is Status.CONVERGED
    # the pair that can has its nu: a share of at least that many support vectors
    zero_one = by_hand.pairs(model, y)[0]
    assert np.count_nonzero(zero_one.beta) >= 0.5 * 240


def test_nu_at_its_largest_takes_every_sample_of_the_smaller_class():
    s = samples("noisy")
    y = np.arange(s.n) < 50
    model = NuSVC(nu=0.4).fit(s.X, y)
    assert model.n_support_[1] == 50


def test_nu_that_is_too_small_for_any_margin_is_told():
    # Each point is in both classes: half of all samples err whatever the function is; a smaller nu has no margin.
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.warns(UserWarning, match=r"nu=0\.1 was asked for; found .*margin.*; .*nu"):
        NuSVC(nu=0.1).fit(np.r_[X, X], np.repeat([0, 1], 30))


@pytest.mark.parametrize("nu", [0.1, 0.35, 0.8])
def test_nu_bounds_errors_and_support_vectors(nu):
    s = samples("noisy")
    model = NuSVC(nu=nu, tol=1e-6).fit(s.X, s.y)
    margins = np.where(s.y == 1, 1, -1) * model.decision_function(s.X)
    assert np.mean(margins < 1 - 1e-4) <= nu <= len(model.support_) / s.n
    t = samples("curve")
    tube = NuSVR(nu=nu, C=1.0, tol=1e-6).fit(t.X, t.y)
    outside = np.abs(tube.predict(t.X) - t.y) > tube.epsilon_ + 1e-4
    assert outside.mean() <= nu <= len(tube.support_) / t.n
    ball = OneClassSVM(nu=nu, tol=1e-6).fit(s.X)
    assert np.mean(ball.decision_function(s.X) < -1e-4) <= nu <= len(ball.support_) / s.n


@pytest.mark.parametrize("machine", [SVC(), NuSVC(), PSVC(), LinearSVC()], ids=lambda machine: type(machine).__name__)
@pytest.mark.parametrize("kind", ["S", object])
def test_bytes_are_no_labels(machine, kind):
    """As scikit-learn has it, whatever array they come in: no file could store them."""
    s = samples("noisy")
    with pytest.raises(TypeError, match="bytes"):
        machine.fit(s.X, np.where(s.X[:, 0] > 0, b"high", b"low").astype(kind))
