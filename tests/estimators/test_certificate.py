"""The certificate of a fit says what the model's coefficients say when their objective is computed by hand."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin
from estimators import by_hand
from estimators.samples import samples, weights
from maxmargin import SVC, SVDD, SVR, Certificate, History, LinearSVC, NuSVC, NuSVR, OneClassSVM, Status

CLOSE = 1e-5  # of the objective
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.05},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
    "laplacian": {"kernel": "laplacian", "gamma": 0.05},
}
ACCURACIES = {  # "rough": a gap to speak of, for which the last Newton step must not close it
    "rough": {"tol": 0.3, "solver": maxmargin.SMO(newton=False)},
    "fine": {"tol": 1e-3},
}

each_kernel = pytest.mark.parametrize("kernel", KERNELS)
each_accuracy = pytest.mark.parametrize("accuracy", ACCURACIES)
each_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def check(certificate: Certificate, primal: float, dual: float) -> None:
    """The certificate against values by hand."""
    size = max(abs(primal), abs(dual))
    assert certificate.primal == pytest.approx(primal, abs=CLOSE * size)
    assert certificate.dual == pytest.approx(dual, abs=CLOSE * size)
    assert certificate.gap == pytest.approx(primal - dual, abs=CLOSE * size)
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, abs=1e-12 * size)
    assert certificate.relative_gap == certificate.gap / max(abs(certificate.primal), abs(certificate.dual))


def check_gap(certificate: Certificate, accuracy: str) -> None:
    """A rough solution has a gap, or the comparison would say little."""
    if accuracy == "rough":
        assert certificate.relative_gap > 1e-6
    else:
        assert certificate.relative_gap < 1e-4


def weights_for(s, weighted: bool) -> np.ndarray:
    return weights(s.n) if weighted else np.ones(s.n)


# -- each formulation -----------------------------------------------------------------------------------


@each_weighting
@each_accuracy
@each_kernel
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_svc(loss, kernel, accuracy, weighted):
    s = samples("noisy")
    weight = weights_for(s, weighted)
    model = SVC(C=0.7, loss=loss, huber_delta=0.3, **ACCURACIES[accuracy], **KERNELS[kernel]).fit(s.X, s.y, weight)
    (pair,) = by_hand.pairs(model, s.y)
    K = by_hand.kernel_of(model, s.X)
    check(model.certificate_, *by_hand.c_svc(K, pair.y, pair.beta, pair.bias, 0.7 * weight, loss, delta=0.3))
    check_gap(model.certificate_, accuracy)
    assert model.certificate_.violation <= model.tol


@each_weighting
@each_accuracy
@each_kernel
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_svr(loss, kernel, accuracy, weighted):
    s = samples("diabetes")
    weight = weights_for(s, weighted)
    model = SVR(C=0.7, epsilon=0.2, loss=loss, **ACCURACIES[accuracy], **KERNELS[kernel]).fit(s.X, s.y, weight)
    beta, bias, K = by_hand.coefficients(model, s.n), model.intercept_[0], by_hand.kernel_of(model, s.X)
    squared = loss == "squared_epsilon_insensitive"
    check(model.certificate_, *by_hand.svr(K, s.y, beta, bias, 0.7 * weight, 0.2, squared))
    check_gap(model.certificate_, accuracy)
    assert model.certificate_.violation <= model.tol


@each_weighting
@each_accuracy
@each_kernel
def test_nu_svc(kernel, accuracy, weighted):
    s = samples("noisy")
    weight = weights_for(s, weighted)
    nu = 0.75 if kernel == "linear" else 0.4  # a line errs so often that a small nu has no margin
    model = NuSVC(nu=nu, **ACCURACIES[accuracy], **KERNELS[kernel]).fit(s.X, s.y, weight)
    (pair,) = by_hand.pairs(model, s.y)
    K = by_hand.kernel_of(model, s.X)
    check(model.certificate_, *by_hand.nu_svc(K, pair.y, pair.beta, pair.bias, nu, weight))
    if kernel != "linear":  # all samples but a few at a bound: the few steps that are needed are exact
        check_gap(model.certificate_, accuracy)


@each_weighting
@each_accuracy
@each_kernel
def test_nu_svr(kernel, accuracy, weighted):
    s = samples("diabetes")
    weight = weights_for(s, weighted)
    model = NuSVR(C=0.7, nu=0.4, **ACCURACIES[accuracy], **KERNELS[kernel]).fit(s.X, s.y, weight)
    beta, bias, K = by_hand.coefficients(model, s.n), model.intercept_[0], by_hand.kernel_of(model, s.X)
    check(model.certificate_, *by_hand.nu_svr(K, s.y, beta, bias, 0.7 * weight, 0.4, model.epsilon_))
    check_gap(model.certificate_, accuracy)


@each_weighting
@each_accuracy
@each_kernel
def test_one_class(kernel, accuracy, weighted):
    s = samples("digits")
    weight = weights_for(s, weighted)
    model = OneClassSVM(nu=0.2, **ACCURACIES[accuracy], **KERNELS[kernel]).fit(s.X, sample_weight=weight)
    K = by_hand.kernel_of(model, s.X)
    values = by_hand.one_class(K, by_hand.coefficients(model, s.n), model.offset_[0], 0.2, weight)
    check(model.certificate_, *values)
    check_gap(model.certificate_, accuracy)


@each_weighting
@each_accuracy
@each_kernel
@pytest.mark.parametrize("cost", [{"nu": 0.2}, {"C": 0.05}], ids=str)
def test_svdd(cost, kernel, accuracy, weighted):
    s = samples("cancer")
    weight = weights_for(s, weighted)
    model = SVDD(**ACCURACIES[accuracy], **cost, **KERNELS[kernel]).fit(s.X, sample_weight=weight)
    K = by_hand.kernel_of(model, s.X)
    # dual_coef_ holds 2β, so that the decision function is a sum over it
    beta = by_hand.coefficients(model, s.n) / 2.0
    C = cost.get("C", 1.0 / (0.2 * weight.sum())) * weight
    check(model.certificate_, *by_hand.svdd(K, beta, model.radius_, C))
    check_gap(model.certificate_, accuracy)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("machine", [SVC, SVR], ids=lambda m: m.__name__)
def test_with_and_without_an_intercept(machine, fit_intercept):
    s = samples("noisy" if machine is SVC else "diabetes")
    model = machine(gamma=0.1, fit_intercept=fit_intercept).fit(s.X, s.y)
    K, C = by_hand.kernel_of(model, s.X), np.ones(s.n)
    if machine is SVC:
        (pair,) = by_hand.pairs(model, s.y)
        values = by_hand.c_svc(K, pair.y, pair.beta, pair.bias, C)
    else:
        values = by_hand.svr(K, s.y, by_hand.coefficients(model, s.n), model.intercept_[0], C, 0.1)
    check(model.certificate_, *values)
    assert bool(model.intercept_[0] == 0.0) is (not fit_intercept)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_a_fit_that_was_cut_short(loss):
    s = samples("noisy")
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=100.0, gamma=0.1, loss=loss, max_iter=10).fit(s.X, s.y)
    (pair,) = by_hand.pairs(model, s.y)
    K = by_hand.kernel_of(model, s.X)
    check(model.certificate_, *by_hand.c_svc(K, pair.y, pair.beta, pair.bias, np.full(s.n, 100.0), loss))
    assert model.certificate_.relative_gap > 0.1
    assert model.certificate_.violation > model.tol


# -- kinds of input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "csr", "precomputed", "callable"])
def test_any_input(kind):
    s = samples("noisy")
    X, params = s.X, {"gamma": 0.05}
    if kind == "float32":
        X = X.astype(np.float32)  # its values are exact in float64: the certificate must be, too
    elif kind == "csr":
        X = sp.csr_matrix(X)
    elif kind == "precomputed":
        X, params = rbf_kernel(X, gamma=0.05), {"kernel": "precomputed"}
    else:
        params = {"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.05)}
    model = SVC(C=3.0, **params).fit(X, s.y)
    (pair,) = by_hand.pairs(model, s.y)
    K = by_hand.kernel_of(model, X)
    check(model.certificate_, *by_hand.c_svc(K, pair.y, pair.beta, pair.bias, np.full(s.n, 3.0)))


def test_several_classes_have_one_certificate_each_and_the_worst_is_the_fit_s():
    s = samples("wine")
    class_weight = {0: 1.0, 1: 2.0, 2: 0.5}
    model = SVC(C=2.0, gamma=0.05, tol=0.3, class_weight=class_weight).fit(s.X, s.y)
    K = by_hand.kernel_of(model, s.X)
    assert len(model.certificates_) == 3
    for certificate, pair in zip(model.certificates_, by_hand.pairs(model, s.y), strict=True):
        C = 2.0 * np.array([class_weight[c] for c in s.y[pair.rows]])
        check(certificate, *by_hand.c_svc(K[np.ix_(pair.rows, pair.rows)], pair.y, pair.beta, pair.bias, C))
    worst = max(model.certificates_, key=lambda c: c.relative_gap)
    assert model.certificate_ is worst
    assert len({c.gap for c in model.certificates_}) == 3


def test_one_problem_has_one_certificate():
    s = samples("diabetes")
    model = SVR().fit(s.X, s.y)
    assert model.certificates_ == [model.certificate_]


# -- what a certificate promises ------------------------------------------------------------------------


MACHINES = [
    SVC(),
    SVC(loss="squared_hinge"),
    SVC(loss="huber"),
    SVC(kernel="linear", fit_intercept=False),
    NuSVC(nu=0.4),
    SVR(),
    SVR(loss="squared_epsilon_insensitive"),
    NuSVR(),
    OneClassSVM(),
    SVDD(),
]
each_machine = pytest.mark.parametrize("machine", MACHINES, ids=repr)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
@each_machine
def test_the_gap_is_never_negative(machine, tol):
    s = samples("noisy")
    certificate = clone(machine).set_params(tol=tol).fit(s.X, s.y).certificate_
    assert certificate.gap >= 0
    assert certificate.primal >= certificate.dual


@pytest.mark.parametrize("tol", [1.0, 0.1, 1e-2, 1e-3])
def test_the_gap_bounds_the_distance_to_the_optimum(tol):
    s = samples("noisy")
    best = SVC(C=5.0, tol=1e-8).fit(s.X, s.y).certificate_.dual
    solver = maxmargin.Decomposition(newton=False)  # which would hardly leave a gap
    found = SVC(C=5.0, tol=tol, solver=solver).fit(s.X, s.y).certificate_
    assert found.dual <= best * (1 + 1e-9)
    assert found.primal >= best * (1 - 1e-9)
    assert best - found.dual <= found.gap


def test_a_smaller_tolerance_has_a_smaller_gap():
    s = samples("noisy")
    gaps = [
        SVC(C=5.0, tol=tol, solver=maxmargin.SMO(newton=False)).fit(s.X, s.y).certificate_.gap
        for tol in (1.0, 1e-2, 1e-4)
    ]
    assert gaps[0] > gaps[1] > gaps[2] >= 0


@each_machine
def test_coefficients_are_feasible(machine):
    s = samples("noisy")
    assert clone(machine).fit(s.X, s.y).certificate_.infeasibility <= 1e-9 * s.n


def test_it_reads_as_a_sentence():
    s = samples("iris")
    text = str(SVC().fit(s.X, s.y).certificate_)
    for word in ("primal", "dual", "gap", "violation"):
        assert word in text


# -- how the fit went -----------------------------------------------------------------------------------


@each_machine
def test_a_fit_tells_how_it_went(machine):
    s = samples("noisy")
    machine = clone(machine).fit(s.X, s.y)
    assert machine.solver_ in maxmargin.SOLVERS
    assert machine.status_ is Status.CONVERGED
    assert machine.fit_status_ == 0
    assert 0 < machine.fit_time_ < 60
    history = machine.history_
    assert isinstance(history, History)
    assert len(history) >= 1
    seconds, objective, violation = (history.column(c) for c in ("seconds", "objective", "violation"))
    assert (np.diff(seconds) >= 0).all()
    assert np.isfinite(objective).all()
    assert violation[-1] < machine.tol
    assert (history.column("kernel_evals") >= 0).all()


def test_history_ends_at_the_dual_value():
    s = samples("noisy")
    model = SVC(C=2.0, tol=1e-6, solver=maxmargin.SMO(newton=False)).fit(s.X, s.y)
    objective = model.history_.column("objective")
    assert objective[-1] == pytest.approx(-model.certificate_.dual, rel=1e-4)
    assert (np.diff(objective) <= 1e-6 * np.abs(objective[-1])).all()


def test_several_problems_have_a_history_each():
    s = samples("wine")
    model = SVC().fit(s.X, s.y)
    assert [len(h) >= 1 for h in model.history_] == [True] * 3


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**60])
def test_what_constraints_are_missed_by_is_a_share_of_their_terms(scale):
    """A kernel of another scale has coefficients of another scale, and nothing else that differs."""
    s = samples("noisy")
    K, weight = rbf_kernel(s.X, gamma=0.05), np.random.default_rng(0).uniform(0.5, 2.0, len(s.y))
    plain, scaled = (
        SVC(kernel="precomputed", C=C).fit(factor * K, s.y, weight).certificate_
        for factor, C in ((1.0, 0.7), (scale, 0.7 / scale))
    )
    assert 0.0 < plain.infeasibility < 1e-15
    assert scaled.infeasibility == plain.infeasibility


def test_an_infinite_cost_says_which_finite_one_is_the_same_machine():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    with pytest.warns(ConvergenceWarning, match=r"C=inf was asked for.*no gap is proven; give a finite C above.*5\.84"):
        model = SVC(C=np.inf).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = SVC(C=100.0, tol=1e-8).fit(X, y)
    assert same.certificate_.relative_gap < 1e-6
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("case, told", [("features of 1e8", True), ("features of 1", False), ("costs", True),
                                        ("constant", False), ("constant, squared", False)])  # fmt: skip
def test_a_gap_that_is_a_large_share_of_next_to_nothing_is_told(case, told):
    """tol is met by an objective that is rounding beside that of f = 0, unless 0 may be the best value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, weight = np.where(X[:, 0] > 0, 1.0, -1.0), None
    machine = LinearSVC(loss="hinge")
    if case == "features of 1e8":
        X = 1e8 * X
    elif case == "costs":
        machine, weight = SVR(), 10.0 ** rng.uniform(-25, 25, 60)
    elif case.startswith("constant"):
        machine, y = SVR(epsilon=0.0), np.full(60, 3.3)
        if "squared" in case:
            machine.set_params(loss="squared_epsilon_insensitive")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        machine.fit(X, y, sample_weight=weight)
    assert machine.status_.converged
    assert ["next to nothing" in str(one.message) for one in said] == [True] * told
