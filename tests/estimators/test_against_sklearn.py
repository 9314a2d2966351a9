"""The same models as scikit-learn's: objective, predictions, decision functions, attributes and their layout.

Every comparison runs at a loose and at a tight tolerance, on dense and on sparse samples. Coefficients are compared
only where the optimum is unique; everywhere else the objective is, computed by hand from what each model holds.
"""

import inspect
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

import maxmargin
from estimators import by_hand
from estimators.samples import samples, weights

SAME_OBJECTIVE = 1e-6  # relative
SAME_PREDICTIONS = 0.998  # share of test samples with the same class
FEASIBLE = 1e-9  # relative to the size of a box

TOLERANCES = [1e-3, 1e-6]
LAYOUTS = {"dense": np.asarray, "csr": sp.csr_matrix}


def callable_kernel(X, Z):
    """A kernel that is no other machine's: a sum of two."""
    X, Z = (by_hand.dense(V) for V in (X, Z))
    return rbf_kernel(X, Z, gamma=0.05) + 0.1 * polynomial_kernel(X, Z, degree=1, gamma=1.0, coef0=1.0)


@dataclass(frozen=True)
class Case:
    """A machine, its parameters and its data; weighted means weights that are no whole numbers."""

    machine: str
    data: str
    params: dict = field(default_factory=dict)
    weighted: bool = False

    def __str__(self) -> str:
        shown = ",".join(f"{k}={getattr(v, '__name__', v)}" for k, v in self.params.items())
        return f"{self.machine}-{self.data}-{shown}{'-weighted' if self.weighted else ''}"

    def fit(self, library, tol: float, layout="dense"):
        """The machine of a library, fitted."""
        model = getattr(library, self.machine)(**self.params, tol=tol)
        s = samples(self.data)
        X = LAYOUTS[layout](self.features(s.X))
        return model.fit(X, s.y, sample_weight=weights(s.n) if self.weighted else None)

    @property
    def precomputed(self) -> bool:
        return self.params.get("kernel") == "precomputed"

    def features(self, X) -> np.ndarray:
        """What the machine is given for these samples."""
        return laplacian_kernel(X, samples(self.data).X, gamma=0.1) if self.precomputed else X

    @property
    def weight(self) -> np.ndarray:
        n = samples(self.data).n
        return weights(n) if self.weighted else np.ones(n)


SVC_CASES = [
    Case("SVC", "cancer", {"kernel": "linear", "C": 0.1}),
    Case("SVC", "cancer", {"kernel": "linear", "C": 10.0}),
    Case("SVC", "cancer", {"C": 1.0}),
    Case("SVC", "cancer", {"C": 100.0, "gamma": 0.01}),
    Case("SVC", "cancer", {"kernel": "poly", "degree": 2, "coef0": 1.0}),
    Case("SVC", "cancer", {"kernel": "sigmoid", "gamma": 0.002, "C": 2.0}),
    Case("SVC", "cancer", {"class_weight": {0: 3.0}}),
    Case("SVC", "cancer", {"class_weight": "balanced", "C": 5.0}),
    Case("SVC", "cancer", {"kernel": "precomputed", "C": 3.0}),
    Case("SVC", "cancer", {"kernel": callable_kernel}),
    Case("SVC", "noisy", {"C": 0.05}),
    Case("SVC", "noisy", {"C": 50.0, "gamma": "auto"}),
    Case("SVC", "noisy", {"C": 2.0, "gamma": 0.1}, weighted=True),
    Case("SVC", "noisy", {"C": 2.0, "gamma": 0.1, "class_weight": {1: 0.2}}, weighted=True),
    Case("SVC", "noisy", {"kernel": "poly", "degree": 3, "gamma": 0.05, "coef0": 1.0}, weighted=True),
    Case("SVC", "digits", {"C": 1.0}),
    Case("SVC", "digits", {"kernel": "linear", "C": 0.5}),
    Case("SVC", "digits", {"kernel": "poly", "gamma": 0.05, "coef0": 1.0, "C": 10.0}),
    Case("SVC", "iris", {"C": 1.0}),
    Case("SVC", "iris", {"kernel": "poly", "degree": 2, "C": 3.0}),
    Case("SVC", "wine", {"kernel": "linear", "C": 1.0}),
    Case("SVC", "wine", {"kernel": "precomputed", "C": 1.0}),
    Case("SVC", "wine", {"kernel": callable_kernel, "C": 1.0}),
    Case("SVC", "blobs", {"C": 1.0, "class_weight": "balanced"}),
    Case("SVC", "blobs", {"C": 20.0, "gamma": 0.02, "class_weight": {0: 2.0, 3: 0.5}}, weighted=True),
    Case("SVC", "blobs", {"kernel": "sigmoid", "gamma": 0.001, "C": 1.0}),
]
NU_SVC_CASES = [
    Case("NuSVC", "cancer", {"nu": 0.1}),
    Case("NuSVC", "cancer", {"nu": 0.5, "gamma": 0.01}),
    Case("NuSVC", "cancer", {"nu": 0.2, "kernel": "linear"}),
    Case("NuSVC", "cancer", {"nu": 0.3, "kernel": callable_kernel}),
    Case("NuSVC", "noisy", {"nu": 0.6, "gamma": "auto"}),
    Case("NuSVC", "noisy", {"nu": 0.5, "gamma": 0.1}, weighted=True),
    Case("NuSVC", "noisy", {"nu": 0.4, "kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0}),
    Case("NuSVC", "digits", {"nu": 0.1}),
    Case("NuSVC", "wine", {"nu": 0.3, "kernel": "precomputed"}),
    Case("NuSVC", "blobs", {"nu": 0.5, "gamma": 0.02}, weighted=True),
]
SVR_CASES = [
    Case("SVR", "diabetes", {"C": 1.0}),
    Case("SVR", "diabetes", {"C": 10.0, "epsilon": 0.5, "gamma": 0.01}),
    Case("SVR", "diabetes", {"kernel": "linear", "C": 0.1, "epsilon": 0.0}),
    Case("SVR", "diabetes", {"kernel": "poly", "degree": 2, "coef0": 1.0, "C": 0.1}),
    Case("SVR", "diabetes", {"kernel": "sigmoid", "gamma": 0.005, "C": 1.0}),
    Case("SVR", "diabetes", {"kernel": "precomputed", "C": 0.5}),
    Case("SVR", "curve", {"C": 5.0, "gamma": "auto"}),
    Case("SVR", "curve", {"C": 5.0, "gamma": 0.5, "epsilon": 0.2}, weighted=True),
    Case("SVR", "curve", {"kernel": callable_kernel, "C": 1.0}),
]
NU_SVR_CASES = [
    Case("NuSVR", "diabetes", {"C": 1.0}),
    Case("NuSVR", "diabetes", {"C": 1.0, "nu": 0.2, "kernel": "linear"}),
    Case("NuSVR", "diabetes", {"C": 0.5, "nu": 0.7, "kernel": "precomputed"}),
    Case("NuSVR", "curve", {"C": 5.0, "nu": 0.9, "gamma": 0.5}),
    Case("NuSVR", "curve", {"C": 5.0, "nu": 0.3, "gamma": 0.5}, weighted=True),
    Case("NuSVR", "curve", {"C": 1.0, "nu": 0.4, "kernel": callable_kernel}),
]
ONE_CLASS_CASES = [
    Case("OneClassSVM", "cancer", {"nu": 0.1}),
    Case("OneClassSVM", "cancer", {"nu": 0.5, "gamma": "auto"}),
    Case("OneClassSVM", "digits", {"nu": 0.2, "kernel": "linear"}),
    Case("OneClassSVM", "digits", {"nu": 0.05, "kernel": "poly", "gamma": 0.1, "coef0": 1.0}),
    Case("OneClassSVM", "diabetes", {"nu": 0.3, "kernel": "precomputed"}),
    Case("OneClassSVM", "blobs", {"nu": 0.25, "gamma": 0.02}, weighted=True),
    Case("OneClassSVM", "cancer", {"nu": 0.15, "kernel": callable_kernel}),
]
CLASSIFIERS = SVC_CASES + NU_SVC_CASES
SINGLE = SVR_CASES + NU_SVR_CASES + ONE_CLASS_CASES
ALL = CLASSIFIERS + SINGLE


def layouts_of(case: Case) -> list[str]:
    """Sparse precomputed kernels do not exist."""
    return ["dense"] if case.precomputed else ["dense", "csr"]


EVERY_LAYOUT = [(case, layout) for case in ALL for layout in layouts_of(case)]
each_case = pytest.mark.parametrize("case", ALL, ids=str)
each_layout = pytest.mark.parametrize(("case", "layout"), EVERY_LAYOUT, ids=str)
each_tolerance = pytest.mark.parametrize("tol", TOLERANCES)


# -- the judge ------------------------------------------------------------------------------------------


def box_of(case: Case, model, labels: np.ndarray) -> np.ndarray:
    """The largest coefficient that each sample may have."""
    weight = case.weight * model.class_weight_[np.searchsorted(model.classes_, labels)]
    return case.params.get("C", 1.0) * weight


def dual_values(case: Case, model) -> list[float]:
    """The dual value of each problem of a model, to be maximised; an infeasible model is an error."""
    s = samples(case.data)
    K = by_hand.kernel_of(model, case.features(s.X))
    if case.machine in ("SVC", "NuSVC"):
        return [dual_of_pair(case, model, K, pair) for pair in by_hand.pairs(model, s.y)]
    beta = by_hand.coefficients(model, s.n)
    if case.machine == "OneClassSVM":
        check_feasible(beta, np.zeros(s.n), case.weight, model.nu * case.weight.sum())
        return [by_hand.one_class(K, beta, model.offset_[0], model.nu, case.weight)[1]]
    C = model.C * case.weight
    check_feasible(beta, -C, C, 0.0)
    if case.machine == "SVR":
        return [by_hand.svr(K, s.y, beta, model.intercept_[0], C, model.epsilon)[1]]
    assert np.abs(beta).sum() <= model.nu * C.sum() * (1 + FEASIBLE)
    return [by_hand.nu_svr(K, s.y, beta, model.intercept_[0], C, model.nu, 0.0)[1]]


def dual_of_pair(case: Case, model, K: np.ndarray, pair: by_hand.Pair) -> float:
    K = K[np.ix_(pair.rows, pair.rows)]
    box = box_of(case, model, samples(case.data).y)[pair.rows]
    if case.machine == "SVC":
        check_feasible(pair.y * pair.beta, np.zeros(len(box)), box)
        check_feasible(pair.beta, -box, box, 0.0)
        return by_hand.c_svc(K, pair.y, pair.beta, pair.bias, box)[1]
    rho = model.nu * box.sum() / np.abs(pair.beta).sum()
    check_feasible(rho * pair.y * pair.beta, np.zeros(len(box)), box)
    check_feasible(rho * pair.beta, -box, box, 0.0)
    return by_hand.nu_svc(K, pair.y, pair.beta, pair.bias, model.nu, box)[1]


def check_feasible(beta, lower, upper, total=None):
    slack = FEASIBLE * np.abs(upper).max()
    assert (beta >= lower - slack).all()
    assert (beta <= upper + slack).all()
    if total is not None:
        assert beta.sum() == pytest.approx(total, abs=len(beta) * slack)


# -- objective and predictions --------------------------------------------------------------------------


@each_tolerance
@each_layout
def test_objective_is_as_good(case, layout, tol):
    ours = dual_values(case, case.fit(maxmargin, tol, layout))
    theirs = dual_values(case, case.fit(sklearn.svm, tol, layout))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a >= b - SAME_OBJECTIVE * abs(b)


@each_case
def test_objective_is_the_optimum(case):
    ours = dual_values(case, case.fit(maxmargin, 1e-6))
    theirs = dual_values(case, case.fit(sklearn.svm, 1e-6))
    assert ours == pytest.approx(theirs, rel=SAME_OBJECTIVE)


@each_tolerance
@each_layout
def test_predictions_are_the_same(case, layout, tol):
    s = samples(case.data)
    # Free support vectors lie on the boundary of a one-class machine, where either side is right.
    seen = [] if case.machine == "OneClassSVM" else [s.X]
    X = LAYOUTS[layout](case.features(np.vstack([*seen, s.X_test])))
    ours, theirs = (case.fit(library, tol, layout).predict(X) for library in (maxmargin, sklearn.svm))
    assert ours.dtype == theirs.dtype
    if case.machine in ("SVR", "NuSVR"):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=20 * tol)
    else:
        assert np.mean(ours == theirs) >= SAME_PREDICTIONS


@each_tolerance
@pytest.mark.parametrize("case", CLASSIFIERS + ONE_CLASS_CASES, ids=str)
def test_decision_function_has_the_same_values(case, tol):
    X = case.features(samples(case.data).X_test)
    shape = {} if case.machine == "OneClassSVM" else {"decision_function_shape": "ovo"}
    models = [case.fit(library, tol).set_params(**shape) for library in (maxmargin, sklearn.svm)]
    ours, theirs = (model.decision_function(X) for model in models)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype == np.float64
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=10 * tol * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("case", [c for c in CLASSIFIERS if c.data in ("digits", "iris", "wine", "blobs")], ids=str)
def test_votes_and_ties_of_several_classes_are_the_same(case):
    X = case.features(samples(case.data).X_test)
    models = [case.fit(library, 1e-6) for library in (maxmargin, sklearn.svm)]
    k = len(models[0].classes_)
    ours, theirs = (m.decision_function(X) for m in models)
    assert ours.shape == theirs.shape == (len(X), k)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
    ours, theirs = (m.set_params(break_ties=True).predict(X) for m in models)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours, models[0].classes_[models[0].decision_function(X).argmax(axis=1)])


def test_break_ties_changes_predictions_the_same_way():
    rng = np.random.default_rng(0)  # classes that overlap so much that votes are often tied
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 5, 200)
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 40), np.linspace(-2, 2, 40)), axis=-1).reshape(-1, 2)
    voted, broken = {}, {}
    for library in (maxmargin, sklearn.svm):
        model = library.SVC(tol=1e-6, C=3.0).fit(X, y)
        voted[library] = model.predict(grid)
        broken[library] = model.set_params(break_ties=True).predict(grid)
    assert (voted[maxmargin] != broken[maxmargin]).any()
    assert np.mean(voted[maxmargin] == voted[sklearn.svm]) >= SAME_PREDICTIONS
    assert np.mean(broken[maxmargin] == broken[sklearn.svm]) >= SAME_PREDICTIONS


def test_one_class_scores_are_the_same():
    case = ONE_CLASS_CASES[0]
    X = samples(case.data).X_test
    ours, theirs = case.fit(maxmargin, 1e-6), case.fit(sklearn.svm, 1e-6)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-5)
    np.testing.assert_allclose(ours.offset_, theirs.offset_, rtol=1e-5)
    np.testing.assert_array_equal(ours.offset_, -ours.intercept_)
    np.testing.assert_allclose(ours.decision_function(X), ours.score_samples(X) - ours.offset_, rtol=1e-12)
    X = samples(case.data).X
    np.testing.assert_array_equal(maxmargin.OneClassSVM(nu=0.1).fit_predict(X), ours.predict(X))


# -- attributes -----------------------------------------------------------------------------------------

UNIQUE = [  # no two samples alike and none without influence on the optimum
    Case("SVC", "cancer", {"C": 1.0}),
    Case("SVC", "cancer", {"kernel": "linear", "C": 0.1}),
    Case("SVC", "digits", {"C": 1.0}),
    Case("SVC", "iris", {"C": 1.0}),
    Case("SVC", "blobs", {"C": 1.0, "gamma": 0.02}, weighted=True),
    Case("NuSVC", "digits", {"nu": 0.1}),
    Case("NuSVC", "noisy", {"nu": 0.6}),
    Case("SVR", "diabetes", {"C": 1.0}),
    Case("NuSVR", "curve", {"C": 5.0, "nu": 0.3, "gamma": 0.5}),
    Case("OneClassSVM", "cancer", {"nu": 0.1}),
]
CLASSIFIER_ATTRIBUTES = ["classes_", "class_weight_"]
ATTRIBUTES = ["support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_", "shape_fit_", "fit_status_"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", UNIQUE, ids=str)
def test_attributes_are_the_same(case, layout):
    ours, theirs = (case.fit(library, 1e-8, layout) for library in (maxmargin, sklearn.svm))
    for name in ATTRIBUTES + (CLASSIFIER_ATTRIBUTES if hasattr(theirs, "classes_") else []):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert type(a) is type(b), name
        if sp.issparse(b):
            assert a.format == b.format, name
        assert getattr(a, "shape", None) == getattr(b, "shape", None), name
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None), name
        a, b = (v.toarray() if sp.issparse(v) else v for v in (a, b))
        if name in ("dual_coef_", "intercept_"):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max(), err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert type(ours.n_iter_) is type(theirs.n_iter_)
    assert np.shape(ours.n_iter_) == np.shape(theirs.n_iter_)
    assert np.asarray(ours.n_iter_).dtype == np.asarray(theirs.n_iter_).dtype
    assert np.min(ours.n_iter_) >= 1


LINEAR = [
    Case("SVC", "cancer", {"kernel": "linear", "C": 0.1}),
    Case("SVC", "wine", {"kernel": "linear", "C": 0.1}),
    Case("SVC", "digits", {"kernel": "linear", "C": 0.1}),
    Case("NuSVC", "noisy", {"kernel": "linear", "nu": 0.6}),
    Case("NuSVC", "digits", {"kernel": "linear", "nu": 0.1}),
    Case("SVR", "diabetes", {"kernel": "linear", "C": 0.1}),
    Case("NuSVR", "diabetes", {"kernel": "linear", "C": 0.1}),
    Case("OneClassSVM", "digits", {"kernel": "linear", "nu": 0.2}),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_coef_is_the_same_and_read_only(case, layout):
    ours, theirs = (case.fit(library, 1e-8, layout).coef_ for library in (maxmargin, sklearn.svm))
    assert type(ours) is type(theirs)
    assert ours.shape == theirs.shape
    dense = [by_hand.dense(c) for c in (ours, theirs)]
    np.testing.assert_allclose(*dense, rtol=0, atol=1e-5 * np.abs(dense[1]).max())
    with pytest.raises(ValueError, match="read-only"):
        (ours.data if sp.issparse(ours) else ours)[...] = 0.0


@pytest.mark.parametrize("case", [c for c in LINEAR if c.machine in ("SVC", "NuSVC")], ids=str)
def test_coef_gives_the_decisions_of_the_pairs(case):
    model = case.fit(maxmargin, 1e-3).set_params(decision_function_shape="ovo")
    X = samples(case.data).X_test
    decisions = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, decisions, rtol=0, atol=1e-9)


@pytest.mark.parametrize("machine", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid", "precomputed", callable_kernel])
def test_coef_exists_for_the_linear_kernel_only(machine, kernel):
    s = samples("iris")
    X = rbf_kernel(s.X) if kernel == "precomputed" else s.X
    params = {"nu": 0.2} if machine == "NuSVC" else {}
    model = getattr(maxmargin, machine)(kernel=kernel, gamma=0.05, **params).fit(X, s.y)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="coef_ is only available when using a linear kernel"):
        _ = model.coef_


@pytest.mark.parametrize("machine", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"])
def test_parameters_and_methods_are_all_there(machine):
    ours, theirs = getattr(maxmargin, machine), getattr(sklearn.svm, machine)
    mine, known = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert set(known) <= set(mine)
    different = {name for name in known if mine[name].default != known[name].default}
    assert different <= {"cache_size", "probability"}
    assert all(p.kind is p.KEYWORD_ONLY for p in mine.values())
    methods = [m for m in dir(theirs()) if not m.startswith("_") and callable(getattr(theirs(), m, None))]
    assert [m for m in methods if not hasattr(ours(), m)] == []
    assert not hasattr(ours(), "predict_proba")


@pytest.mark.parametrize("machine", ["SVC", "NuSVC"])
def test_string_labels_are_kept(machine):
    s = samples("iris")
    names = np.array(["setosa", "versicolor", "virginica"])[s.y]
    params = {"nu": 0.2} if machine == "NuSVC" else {}
    ours, theirs = (getattr(lib, machine)(**params).fit(s.X, names) for lib in (maxmargin, sklearn.svm))
    assert ours.classes_.tolist() == theirs.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_array_equal(ours.predict(s.X_test), theirs.predict(s.X_test))
    assert ours.score(s.X, names) == theirs.score(s.X, names)


@pytest.mark.parametrize("machine", ["SVC", "NuSVC"])
def test_a_positive_decision_means_the_second_class(machine):
    s = samples("cancer")
    names = np.where(s.y == 1, "b", "a")
    model = getattr(maxmargin, machine)(**({"nu": 0.1} if machine == "NuSVC" else {})).fit(s.X, names)
    decisions = model.decision_function(s.X_test)
    assert decisions.shape == (len(s.X_test),)
    np.testing.assert_array_equal(model.predict(s.X_test), np.where(decisions > 0, "b", "a"))


def test_iteration_limits_have_the_same_warning_category():
    s = samples("noisy")
    for library in (maxmargin, sklearn.svm):
        with pytest.warns(sklearn.exceptions.ConvergenceWarning):
            model = library.SVC(C=1e4, max_iter=3).fit(s.X, s.y)
        assert model.fit_status_ == 1
