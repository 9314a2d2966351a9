"""Many classes: pairs, their layout and decisions against plain loops; memory that does not grow with the pairs."""

import tracemalloc
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.multiclass import _ovr_decision_function

from maxmargin import SVC, NuSVC, Status
from maxmargin import decisions as deciding
from maxmargin.decisions import decide_pairs, pair_weights
from maxmargin.estimators import classification, multiclass, pair_programs, small_folds
from maxmargin.estimators.multiclass import Pairs
from maxmargin.estimators.small_folds import out_of_small_folds
from maxmargin.formulations import CSVC, Samples
from maxmargin.formulations import NuSVC as NuSVCFormulation
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.solvers.parts import small_problems
from maxmargin.solvers.parts.small_problems import SmallProblems, solve_small

MEGABYTE = 1 << 20


def blobs(k, size, d=6, seed=0, spread=0.5):
    """k classes of some samples each, in mixed order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(k), size))
    return rng.normal(size=(k, d))[labels] + spread * rng.normal(size=(len(labels), d)), labels


def peak(work):
    """What work() returns, and the most memory that arrays took at a time while it ran, in megabytes."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


# -- pairs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 7])
def test_rows_and_targets_of_each_pair(k):
    labels = np.random.default_rng(k).integers(0, k, 50)
    pairs = Pairs(labels, k)
    assert len(pairs) == k * (k - 1) // 2
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        rows = np.flatnonzero((labels == i) | (labels == j))
        positive = j if k == 2 else i
        assert (pairs.first[c], pairs.second[c]) == (i, j)
        np.testing.assert_array_equal(pairs.rows[pairs.at(c)], rows)
        np.testing.assert_array_equal(pairs.targets[pairs.at(c)], np.where(labels[rows] == positive, 1.0, -1.0))


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("at_a_time", [1, 10, 1 << 20])
def test_layout_of_the_coefficients(monkeypatch, k, at_a_time):
    """LIBSVM's: support vectors by class, a row for each other class."""
    monkeypatch.setattr(multiclass, "ENTRIES_A_TIME", at_a_time)
    rng = np.random.default_rng(k)
    labels = rng.integers(0, k, 40)
    pairs = Pairs(labels, k)
    coef = np.where(rng.random(len(pairs.rows)) < 0.2, rng.normal(size=len(pairs.rows)), 0.0)
    support, n_support, dual = pairs.layout(coef)
    full = np.zeros((len(pairs), 40))
    for c in range(len(pairs)):
        full[c, pairs.rows[pairs.at(c)]] = coef[pairs.at(c)]
    used = np.flatnonzero((full != 0).any(axis=0))
    expected = np.concatenate([used[labels[used] == c] for c in range(k)])
    np.testing.assert_array_equal(support, expected)
    np.testing.assert_array_equal(n_support, [(labels[used] == c).sum() for c in range(k)])
    assert dual.shape == (k - 1, len(support))
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        for s, row in enumerate(support):
            if labels[row] in (i, j):
                assert dual[j - 1 if labels[row] == i else i, s] == full[c, row]


@pytest.mark.parametrize("most", [20, 50, 120, 1000])
def test_batches_hold_every_pair_once_with_its_samples(most):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(15), rng.integers(1, 10, 15)))
    pairs = Pairs(labels, 15)
    batches = pairs.batches(most)
    np.testing.assert_array_equal(np.sort(np.concatenate([b.problems for b in batches])), np.arange(len(pairs)))
    assert (len(batches) == 1) == (len(labels) <= most)
    for batch in batches:
        assert len(batch.points) <= max(most, len(labels) if len(batches) == 1 else most)
        rows = np.concatenate([pairs.rows[pairs.at(c)] for c in batch.problems])
        assert np.isin(rows, batch.points).all()
    assert sum(len(b.points) ** 2 for b in batches) <= 4 * max(len(labels), most) ** 2


def test_a_class_larger_than_a_batch_is_one_of_its_own():
    labels = np.repeat([0, 1, 2], [50, 3, 3])
    batches = Pairs(labels, 3).batches(20)
    np.testing.assert_array_equal(np.sort(np.concatenate([b.problems for b in batches])), [0, 1, 2])
    assert all(np.isin(np.flatnonzero(labels == 0), b.points).all() for b in batches if b.problems[0] < 2)


# -- decisions ---------------------------------------------------------------------------------------------------------


def some_machine(k, n=23, seed=0, empty=False, most=6):
    """Kernel values, coefficients and intercepts of a machine that nobody trained, and its decisions by plain loops."""
    rng = np.random.default_rng(seed)
    n_support = rng.integers(1, most, k)
    if empty:
        n_support[1] = 0
    owner = np.repeat(np.arange(k), n_support)
    values = rng.normal(size=(n, len(owner)))
    dual = rng.normal(size=(k - 1, len(owner)))
    intercept = rng.normal(size=k * (k - 1) // 2)
    expected = np.empty((n, len(intercept)))
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        coef = np.where(owner == i, dual[j - 1], np.where(owner == j, dual[i], 0.0))
        expected[:, c] = values @ coef + intercept[c]
    return values, dual, n_support, intercept, expected


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(deciding, "PARTS_BYTES", 1500)
        monkeypatch.setattr(deciding, "TILE_BYTES", 200)


@pytest.mark.parametrize("k", [3, 4, 9])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("most", [6, 60])
def test_decisions_of_every_shape(blocks, k, empty, more, most):
    values, dual, n_support, intercept, expected = some_machine(k, empty=empty, most=most)
    assert (dual.shape[1] < deciding.FEW_VECTORS * k) == (most == 6)
    extra = np.random.default_rng(1).normal(size=expected.shape)
    expected = expected + extra if more else expected

    def decide(shape):
        read = (lambda rows: extra[rows]) if more else None
        return decide_pairs(lambda r, c: values[r, c], dual, n_support, intercept, len(values), shape, read)

    decisions = decide("ovo")
    np.testing.assert_allclose(decisions, expected, rtol=1e-12, atol=1e-12)
    scores = _ovr_decision_function(decisions < 0, -decisions, k)
    np.testing.assert_array_equal(decide("ovr"), scores)  # to the bit
    np.testing.assert_array_equal(decide("scores"), scores.argmax(axis=1))
    won = np.zeros((len(values), k), int)
    for c, (i, j) in enumerate(combinations(range(k), 2)):
        won[:, i] += decisions[:, c] > 0
        won[:, j] += decisions[:, c] <= 0
    np.testing.assert_array_equal(decide("votes"), won.argmax(axis=1))


def test_a_decision_of_zero_goes_where_it_went():
    """LIBSVM's vote goes to the later class, scikit-learn's score to the earlier one."""
    zero = np.zeros((1, 3)), np.zeros((2, 3)), np.ones(3, int), np.zeros(3)

    def decide(shape):
        return decide_pairs(lambda r, c: zero[0][r, c], *zero[1:], 1, shape)

    assert decide("votes")[0] == 2
    np.testing.assert_array_equal(decide("ovr"), [[2.0, 1.0, 0.0]])


@pytest.mark.parametrize("shape", ["ovo", "ovr", "votes", "scores"])
@pytest.mark.parametrize("most", [6, 60])
def test_threads_change_no_digit_of_a_decision(blocks, shape, most):
    values, dual, n_support, intercept, _ = some_machine(6, n=500, most=most)
    one, *others = [
        decide_pairs(lambda r, c: values[r, c], dual, n_support, intercept, 500, shape, threads=threads)
        for threads in (1, 2, 5)
    ]
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_no_samples_no_decisions():
    values, dual, n_support, intercept, _ = some_machine(4)
    shapes = {"ovo": (0, 6), "ovr": (0, 4), "votes": (0,), "scores": (0,)}
    for shape, expected in shapes.items():
        found = decide_pairs(lambda r, c: values[:0], dual, n_support, intercept, 0, shape)
        assert found.shape == expected


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_of_the_features(form):
    _, dual, n_support, _, _ = some_machine(5, empty=True)
    vectors = np.random.default_rng(2).normal(size=(dual.shape[1], 4))
    owner = np.repeat(np.arange(5), n_support)
    weights = pair_weights(form(dual), n_support, form(vectors))
    weights = weights.toarray() if sp.issparse(weights) else weights
    for c, (i, j) in enumerate(combinations(range(5), 2)):
        coef = np.where(owner == i, dual[j - 1], np.where(owner == j, dual[i], 0.0))
        np.testing.assert_allclose(weights[c], coef @ vectors, atol=1e-12)


# -- programs of all pairs at once -------------------------------------------------------------------------------------

FORMULATIONS = [
    CSVC(C=1.7),
    CSVC(C=1.7, loss="squared_hinge"),
    CSVC(C=1.7, loss="huber", fit_intercept=False),
    NuSVCFormulation(nu=0.37, clip=True),
    NuSVCFormulation(nu=0.9, clip=True),
    NuSVCFormulation(nu=0.37, clip=True, fit_intercept=False),
]


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=str)
def test_programs_and_decisions_are_those_of_the_formulation(formulation):
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.repeat(np.arange(5), [3, 5, 8, 4, 40]))
    X = rng.normal(size=(60, 3)) + labels[:, None]
    weight = rng.uniform(0.3, 3.0, 60)
    weight[labels == 0] *= 1e-4  # next to nothing: multipliers that are not unique
    pairs = Pairs(labels, 5)
    gram = KernelGram(Kernel("rbf", 0.4), X)
    shared = PrecomputedGram(gram.block(np.arange(60)))
    own = weight[pairs.rows]
    problems = pair_programs.programs(formulation, pairs.rows, pairs.targets, own, pairs.starts)
    at = [pairs.at(c) for c in range(len(pairs))]
    qps = [formulation.qp(Samples(shared.take(pairs.rows[one]), pairs.targets[one], own[one])) for one in at]
    expected = SmallProblems.of(qps)
    for name in ("starts", "points", "p", "lower", "upper", "columns", "sums", "group", "eps", "ridge", "sign"):
        np.testing.assert_allclose(getattr(problems, name), getattr(expected, name), rtol=1e-14, err_msg=name)
    solutions = solve_small(shared, problems)
    found = pair_programs.decisions(formulation, problems, solutions, pairs.targets, gram)
    for c, qp in enumerate(qps):
        one = formulation.decision(qp, _Solution(solutions, c))
        np.testing.assert_allclose(found.coef[at[c]], one.coef, rtol=1e-10, atol=1e-12)
        assert found.intercept[c] == pytest.approx(one.intercept, rel=1e-9, abs=1e-9)
        assert np.isnan(found.found[c]) if one.found is None else found.found[c] == pytest.approx(one.found, rel=1e-9)


class _Solution:
    def __init__(self, solutions, c):
        self.beta, self.multipliers = solutions.of(c), solutions.multipliers[c]
        self.certificate = solutions.certificate(c)


@pytest.mark.parametrize("solver", ["auto", "decomposition", "smo"])
@pytest.mark.parametrize("seed", range(4))
def test_where_nothing_separates_the_heavier_class_has_it_all(solver, seed):
    """Not the sign of rounding: the mean of the lighter class lies within the heavier one, all decisions are zero."""
    rng = np.random.default_rng(seed)
    X = np.vstack([3.0 * rng.normal(size=(30, 2)), 0.1 * rng.normal(size=(12, 2))])
    y = np.repeat([0, 1], [30, 12])
    for flip in (False, True):
        labels = 1 - y if flip else y
        heavy = 1 if flip else 0
        model = NuSVC(kernel="linear", class_weight={heavy: 1000.0, 1 - heavy: 1e-4}, solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # nu is infeasible, and there is no margin
            model.fit(X, labels)
        assert (model.predict(X) == heavy).all()


# -- estimators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["SVC", "NuSVC"])
@pytest.mark.parametrize("form", ["dense", "sparse", "precomputed", "callable", "linear", "float32"])
def test_as_scikit_learn_with_many_classes(machine, form):
    X, y = blobs(25, 5)
    options = {"kernel": "linear"} if form == "linear" else {"gamma": 0.1}
    options |= {"nu": 0.37} if machine == "NuSVC" else {"C": 1.7}  # some coefficients are free: the bias is unique
    ours, theirs = {"SVC": SVC, "NuSVC": NuSVC}[machine], getattr(svm, machine)
    reference = theirs(**options, tol=1e-8).fit(X, y)
    test = X + 0.05
    if form == "precomputed":
        kernel = Kernel("rbf", 0.1)
        both = KernelGram(kernel, np.vstack([X, test])).block(np.arange(2 * len(X)))
        model = ours(**options | {"kernel": "precomputed"}).fit(both[: len(X), : len(X)], y)
        seen = both[len(X) :, : len(X)]
    elif form == "callable":

        def rbf(A, B):
            return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(axis=2))

        model, seen = ours(**options | {"kernel": rbf}).fit(X, y), test
    else:
        make = {"sparse": sp.csr_array, "float32": lambda A: A.astype(np.float32)}.get(form, np.asarray)
        model, seen = ours(**options).fit(make(X), y), make(test)
    slack = 1e-4 if form == "float32" else 1e-5
    model.decision_function_shape = reference.decision_function_shape = "ovo"
    np.testing.assert_allclose(model.decision_function(seen), reference.decision_function(test), atol=slack)
    if form != "float32":  # whose votes may be tied otherwise
        np.testing.assert_array_equal(model.predict(seen), reference.predict(test))
        model.decision_function_shape = reference.decision_function_shape = "ovr"
        np.testing.assert_allclose(model.decision_function(seen), reference.decision_function(test), atol=1e-4)
    if form == "linear":
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
    assert model.certificate_.violation < 1e-3
    assert len(model.certificates_) == len(model.n_iter_) == len(model.history_) == 300
    assert model.status_ is Status.CONVERGED


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_leaf_and_a_solver_for_each_pair_agree(loss, fit_intercept):
    X, y = blobs(6, 20, spread=1.0)
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    weight[::7] = 0.0
    small, general = (
        SVC(C=3.7, loss=loss, fit_intercept=fit_intercept, solver=solver, class_weight="balanced")
        .fit(X, y, sample_weight=weight)
        for solver in ("auto", "decomposition")
    )  # fmt: skip
    np.testing.assert_array_equal(small.support_, general.support_)
    np.testing.assert_allclose(small.dual_coef_, general.dual_coef_, atol=1e-7)
    np.testing.assert_allclose(small.intercept_, general.intercept_, atol=1e-7)
    for a, b in zip(small.certificates_, general.certificates_, strict=True):
        assert a.primal == pytest.approx(b.primal, rel=1e-9)


def test_threads_change_no_digit_of_a_fit():
    X, y = blobs(40, 6)
    one, two, three = (SVC(n_jobs=n, C=17.0).fit(X, y) for n in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(one.intercept_, other.intercept_)
        np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_more_samples_than_a_batch_holds(monkeypatch):
    X, y = blobs(12, 10)
    whole = SVC(C=3.7).fit(X, y)
    real = Pairs.batches
    monkeypatch.setattr(Pairs, "batches", lambda self: real(self, 40))
    parts = SVC(C=3.7).fit(X, y)
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, atol=1e-9)
    np.testing.assert_array_equal(parts.support_, whole.support_)


def test_a_time_limit_leaves_a_model_with_its_gap():
    X, y = blobs(30, 4)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = SVC(time_limit=1e-9).fit(X, y)
    assert model.status_ is Status.TIME_LIMIT
    assert model.predict(X).shape == y.shape
    assert model.certificate_.gap > 0


def test_an_error_in_a_callback_comes_through():
    X, y = blobs(30, 4)

    def broken(row):
        raise RuntimeError("broken callback")

    with pytest.raises(RuntimeError, match="broken callback"):
        SVC(callback=broken, n_jobs=2).fit(X, y)


def test_a_warm_start_goes_on_from_the_last_fit():
    X, y = blobs(10, 12, spread=1.0)
    model = SVC(C=37.0, warm_start=True).fit(X, y)
    steps = model.n_iter_.sum()
    assert model.fit(X, y).n_iter_.sum() < steps / 2
    model.fit(X[:-1], y[:-1])  # another problem: from the beginning
    assert model.status_ is Status.CONVERGED


def test_one_warning_for_a_kernel_that_is_not_definite():
    X, y = blobs(8, 10)
    with pytest.warns(UserWarning, match="positive semi-definite") as caught:
        SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(X, y)
    assert len([one for one in caught if "semi-definite" in str(one.message)]) == 1


# -- memory ------------------------------------------------------------------------------------------------------------


def test_300_classes_are_fitted_in_100_megabytes():
    X, y = blobs(300, 4, d=20)
    model, most = peak(lambda: SVC(n_jobs=2).fit(X, y))
    assert len(model.intercept_) == 44850
    assert model.status_ is Status.CONVERGED
    assert most < 100
    labels, most = peak(lambda: model.predict(X))  # all pairs of 1200 samples would take 411
    assert (labels == y).mean() > 0.9
    assert most < 100


@pytest.mark.parametrize("break_ties", [False, True])
def test_predictions_take_no_memory_for_each_pair(break_ties):
    X, y = blobs(60, 4)
    model = SVC(break_ties=break_ties, n_jobs=2).fit(X, y)
    test = np.vstack([X] * 25)  # 6000 samples: all pairs take 85 MB
    labels, most = peak(lambda: model.predict(test))
    assert most < 20
    scores, more = peak(lambda: model.decision_function(test))
    assert more < 20 + scores.nbytes / MEGABYTE
    np.testing.assert_array_equal(labels[:240], labels[-240:])


@pytest.mark.parametrize("machine", [SVC(C=10.0), NuSVC(nu=0.05), SVC(kernel="linear"), SVC(max_iter=20)], ids=str)
def test_pairs_of_many_samples_that_lie_apart(machine, monkeypatch):
    """Pairs of 640 samples and more, which need few rows: no solver is set up for any of them."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(320 + 10 * c, 4)) + 5.0 * rng.normal(size=4) for c in range(4)])
    y = np.repeat(np.arange(4), [320 + 10 * c for c in range(4)])
    each = clone(machine).set_params(solver="decomposition")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        each.fit(X, y)
        monkeypatch.setattr(type(machine), "_fit_each", None)
        machine.fit(X, y)
    assert machine.status_ is each.status_
    if machine.max_iter < 0:
        for own, other in zip(machine.certificates_, each.certificates_, strict=True):
            assert own.violation <= machine.tol and own.dual == pytest.approx(other.dual, rel=1e-3)
        assert (machine.predict(X) == each.predict(X)).mean() > 0.998


def overlapping(each=330):
    rng = np.random.default_rng(0)
    return rng.normal(size=(3 * each, 4)), np.repeat(np.arange(3), each)


@pytest.mark.parametrize("few", [True, False])
def test_pairs_of_many_samples_that_overlap_get_a_solver_each(few, monkeypatch):
    """Where what blocks of rows save is worth setting one up, and not before."""
    X, y = overlapping()
    if few:  # a quarter of the rows of a pair, and some
        monkeypatch.setattr(small_problems, "SOLVER_WORK", 350_000)
    solvers, fit_each = [], SVC._fit_each
    monkeypatch.setattr(SVC, "_fit_each", lambda self, *more: solvers.append(self.solver) or fit_each(self, *more))
    machine = SVC(C=10.0).fit(X, y)
    each = SVC(C=10.0, solver="decomposition").fit(X, y)
    assert solvers == ["auto"] * few + ["decomposition"]
    assert machine.status_.converged
    for own, other in zip(machine.certificates_, each.certificates_, strict=True):
        assert own.dual == pytest.approx(other.dual, rel=1e-3)


def test_rows_of_large_pairs_have_room_or_are_made_by_solvers(monkeypatch):
    """A matrix of 660 samples takes 3.5 MB: with less than that each pair has a solver with a cache."""
    X, y = overlapping()
    solvers, fit_each = [], SVC._fit_each
    monkeypatch.setattr(SVC, "_fit_each", lambda self, *more: solvers.append(self.cache_size) or fit_each(self, *more))
    for size in (3, 5, 20):
        found = [SVC(C=10.0, cache_size=size, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2, 8)]
        for other in found[1:]:  # fewer threads work where there is no room for all
            np.testing.assert_array_equal(other.intercept_, found[0].intercept_)
            np.testing.assert_array_equal(other.dual_coef_, found[0].dual_coef_)
    assert solvers == [3] * 3


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_folds_of_large_pairs_that_were_solved_together(loss, monkeypatch):
    X, y = overlapping()
    X = X + y[:, None]
    model = SVC(loss=loss, probability=True, tol=1e-6)
    together = clone(model).fit(X, y)
    monkeypatch.setattr(classification, "suits", lambda *_: False)
    alone = model.fit(X, y)
    np.testing.assert_allclose(together.predict_proba(X), alone.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_samples_without_weight_are_absent_from_folds_of_large_pairs(seed):
    X, y = overlapping()
    weight = (np.random.default_rng(seed).uniform(size=len(y)) < 0.97) * 1.0
    model = SVC(gamma=0.1, probability=True, tol=1e-6)
    absent = clone(model).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(
        model.fit(X, y, sample_weight=weight).predict_proba(X), absent.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("machine", [SVC(), SVC(loss="squared_hinge"), NuSVC(nu=0.2)], ids=str)
def test_what_a_stop_leaves_of_folds(machine, monkeypatch):
    """Decisions by the fit of a pair, without the coefficients of the fold, from loops."""
    X, y = blobs(4, 30, spread=1.0)
    y[:3] = 3
    y[y == 3] = np.where(np.arange((y == 3).sum()) < 2, 3, 0)  # a class of two samples
    seen = {}

    def watched(gram, machines, folds, beta, fit, monitor):
        monitor.stopped = Status.TIME_LIMIT
        out = out_of_small_folds(gram, machines, folds, beta, fit, monitor)
        seen.update(out=out, problems=machines.problems, y=machines.y, folds=folds, fit=fit)
        return out

    monkeypatch.setattr(classification, "out_of_small_folds", watched)
    monkeypatch.setattr(small_folds, "solve_small", None)
    model = clone(machine).set_params(probability=True, gamma=0.1).fit(X, y)
    problems, folds, fit = seen["problems"], seen["folds"], seen["fit"]
    K = rbf_kernel(X, gamma=0.1)
    for q in range(len(problems)):
        at = np.arange(problems.starts[q], problems.starts[q + 1])
        for i in at:
            others = at[folds[at] != folds[i]]
            expected = fit.intercept[q] + K[problems.points[i], problems.points[others]] @ fit.coef[others]
            sides = set(seen["y"][others])
            assert seen["out"][i] == pytest.approx(expected if len(sides) == 2 else sum(sides), abs=1e-9)
    assert model.status_.converged
