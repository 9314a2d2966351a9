"""The paths that only large problems take, on small ones (see the sizes in cases.py)."""

from dataclasses import replace

import numpy as np
import pytest

from cases import (
    DATA,
    EVERYTHING_LARGE,
    ROWS_ON_DEMAND,
    VARIANTS,
    Variant,
    fast_problem,
    known,
    make_data,
    plain_problem,
    verdict_on,
)
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, NuSVR, OneClass, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import SMO, Decomposition, decomposition, solve
from maxmargin.solvers.parts.duplicates import merge_duplicates
from maxmargin.solvers.parts.fixed_sums import Groups, feasible
from referee import naive_kernel

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)
SMALL_CACHE = 0.005  # megabytes: two rows of the widest problems here, a few of the others


def check_optimum(solution, qp, best, tol=1e-6):
    assert solution.status is Status.CONVERGED
    assert solution.certificate.violation <= tol
    assert solution.certificate.infeasibility < 1e-9 * max(1.0, np.abs(solution.beta).sum())
    above = qp.objective(solution.beta) - best.objective
    assert above <= 1e-6 * max(1.0, abs(best.objective))
    assert solution.certificate.gap >= above - 1e-7 * max(1.0, abs(best.objective))


WORKING_SETS = {
    "2": {"working_set": 2},
    "2, steepest": {"working_set": 2, "selection": "steepest"},
    "4": {"working_set": 4},
    "10": {"working_set": 10},
    "10, steepest": {"working_set": 10, "selection": "steepest"},
    "64": {"working_set": 64},
    "512": {"working_set": 512},
    "64, nothing else": {"working_set": 64, "shrinking": False, "growing": False, "merging": False, "newton": False},
}


@every_variant
@pytest.mark.parametrize("options", WORKING_SETS.values(), ids=WORKING_SETS.keys())
@pytest.mark.parametrize("cache_size", [SMALL_CACHE, 100.0])
def test_working_sets(variant, options, cache_size):
    plain, best = known(variant, "rbf", "duplicated", 90)
    qp = fast_problem(variant, "rbf", make_data("duplicated", 90))
    solver = Decomposition(cache_size=cache_size, sizes=EVERYTHING_LARGE, **options)
    check_optimum(solver.solve(qp, Goal(violation=1e-6)), plain, best)


@every_variant
@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian"])
@pytest.mark.parametrize("kind", DATA)
def test_other_kernels(variant, kernel, kind):
    plain, best = known(variant, kernel, kind, 90)
    qp = fast_problem(variant, kernel, make_data(kind, 90))
    check_optimum(Decomposition(sizes=EVERYTHING_LARGE).solve(qp, Goal(violation=1e-6)), plain, best)


@every_variant
@pytest.mark.parametrize("options", [{"working_set": 2}, {"working_set": 16}])
def test_a_cache_of_few_rows_is_enough(variant, options):
    """Rows come and go, but those of a step are there together: each look makes progress."""
    plain, best = known(variant, "rbf", "plain", 150)
    qp = fast_problem(variant, "rbf", make_data("plain", 150))
    solver = Decomposition(cache_size=SMALL_CACHE, newton=False, growing=False, sizes=ROWS_ON_DEMAND, **options)
    solution = solver.solve(qp, Goal(violation=1e-4))
    assert solution.status is Status.CONVERGED
    assert plain.objective(solution.beta) == pytest.approx(best.objective, rel=1e-3)


@pytest.mark.parametrize("make", [SMO, Decomposition])
def test_a_small_cache_with_the_constants_as_they_are(make):
    """1500 points, room for a tenth of their rows."""
    data = make_data("plain", 1500)
    qp = CSVC().qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    small = make(cache_size=1.0).solve(qp)
    assert small.status is Status.CONVERGED
    large = make(cache_size=100.0).solve(qp)
    assert small.certificate.dual == pytest.approx(large.certificate.dual, rel=1e-3)


def test_growing_solves_samples_first():
    data = make_data("plain", 200)
    qp = CSVC().qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    solution = Decomposition(shrinking=False, sizes=EVERYTHING_LARGE).solve(qp)
    sizes = solution.history.column("active")
    assert sizes[0] == 12
    assert (np.diff(sizes) >= 0).all()
    assert set(sizes) == {12, 50, 200}
    whole = Decomposition(growing=False, shrinking=False, sizes=EVERYTHING_LARGE).solve(qp)
    assert set(whole.history.column("active")) == {200}


def test_shrinking_leaves_variables_out_and_looks_at_them_again():
    data = make_data("plain", 200)
    qp = CSVC(C=1000.0).qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    solver = Decomposition(growing=False, merging=False, newton=False, sizes=EVERYTHING_LARGE)
    solution = solver.solve(qp, Goal(violation=1e-4))
    sizes = solution.history.column("active")
    assert sizes.min() < 0.85 * 200
    best = verdict_on(plain_problem(Variant("c_svc", CSVC(C=1000.0)), "rbf", data))
    assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-5)
    unshrunk = replace(solver, newton=True, shrinking=False).solve(qp)
    assert set(unshrunk.history.column("active")) == {200}


def test_merging_solves_for_distinct_points_only():
    data = make_data("duplicated", 90)
    qp = CSVC().qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    kinds = len(np.unique(np.column_stack([data.X, data.labels]), axis=0))
    assert kinds < 60
    solver = Decomposition(growing=False, shrinking=False, sizes=EVERYTHING_LARGE)
    solution = solver.solve(qp, Goal(violation=1e-6))
    assert set(solution.history.column("active")) == {kinds}
    assert (solution.beta >= qp.lower).all() and (solution.beta <= qp.upper).all()
    apart = replace(solver, merging=False).solve(qp, Goal(violation=1e-6))
    assert set(apart.history.column("active")) == {90}
    assert solution.certificate.dual == pytest.approx(apart.certificate.dual, rel=1e-7)


class TestMergedProblem:
    """The merged problem and the way back, by themselves."""

    @pytest.mark.parametrize("formulation", [CSVC(), EpsilonSVR(), OneClass()], ids=lambda f: type(f).__name__)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_same_optimum(self, formulation, weighted):
        data = make_data("duplicated", 60)
        weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], 60) if weighted else data.weight
        y = np.round(data.values) if isinstance(formulation, EpsilonSVR) else data.labels
        gram = KernelGram(Kernel("rbf", 0.5), data.X)
        qp = formulation.qp(Samples(gram, y, weight))
        merged = merge_duplicates(qp)
        assert merged.qp.n < 60
        K = naive_kernel("rbf", data.X, gamma=0.5)
        small = verdict_on(formulation_on(merged.qp, K[np.ix_(merged.first, merged.first)]))
        large = verdict_on(formulation_on(qp, K))
        assert small.objective == pytest.approx(large.objective, rel=1e-7, abs=1e-8)
        beta = merged.scatter(small.beta)
        assert qp.objective(beta) == pytest.approx(large.objective, rel=1e-6, abs=1e-7)
        assert (beta >= qp.lower - 1e-12).all() and (beta <= qp.upper + 1e-12).all()
        np.testing.assert_allclose(merged.gather(beta), small.beta, atol=1e-12)

    def test_few_support_vectors(self):
        """One copy takes all that it can before the next one takes any."""
        gram = KernelGram(Kernel("rbf"), np.zeros((5, 2)))
        qp = QP(gram, np.ones(5), -2.0, 1.0)
        merged = merge_duplicates(qp)
        assert merged.qp.n == 1
        np.testing.assert_array_equal(merged.qp.upper, [5.0])
        np.testing.assert_array_equal(merged.qp.lower, [-10.0])
        np.testing.assert_array_equal(merged.scatter(np.array([2.5])), [1.0, 1.0, 0.5, 0.0, 0.0])
        np.testing.assert_array_equal(merged.scatter(np.array([-3.0])), [-2.0, -1.0, 0.0, 0.0, 0.0])
        np.testing.assert_array_equal(merged.scatter(np.array([0.0])), np.zeros(5))

    def test_infinite_boxes(self):
        gram = KernelGram(Kernel("rbf"), np.repeat([[0.0], [1.0]], 3, axis=0))
        qp = QP(gram, np.ones(6), -np.inf, np.inf)
        merged = merge_duplicates(qp)
        np.testing.assert_array_equal(merged.scatter(np.array([2.5, -1.0])), [2.5, 0.0, 0.0, -1.0, 0.0, 0.0])

    def test_equal_points_with_other_targets_stay_apart(self):
        gram = KernelGram(Kernel("rbf"), np.zeros((6, 1)))
        y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
        assert merge_duplicates(CSVC().qp(Samples(gram, y, np.ones(6)))).qp.n == 2
        assert merge_duplicates(NuSVC().qp(Samples(gram, y, np.ones(6)))).qp.n == 2
        assert merge_duplicates(EpsilonSVR().qp(Samples(gram, np.arange(6.0), np.ones(6)))) is None

    def test_nothing_to_merge(self):
        data = make_data("plain")
        assert merge_duplicates(CSVC().qp(Samples(KernelGram(Kernel("rbf"), data.X), data.labels, data.weight))) is None
        assert merge_duplicates(QP(np.ones((3, 3)), np.ones(3), 0.0, 1.0)) is None


def formulation_on(qp: QP, K: np.ndarray) -> QP:
    """The same problem on a plain matrix."""
    return QP(PrecomputedGram(K), qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("newton", [True, False])
def test_last_step_may_be_left_out(kind, newton):
    variant = Variant("nu_svr", NuSVR(nu=0.4, C=1.5))
    plain, best = known(variant, "laplacian", kind)
    check_optimum(Decomposition(newton=newton).solve(plain, Goal(violation=1e-6)), plain, best)


def test_last_step_gains_digits():
    """Where the active set is known, one linear system solves the problem to rounding."""
    data = make_data("plain", 120)
    qp = CSVC(C=10.0).qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    with_step = Decomposition(newton=True).solve(qp, Goal(violation=1e-3))
    without = Decomposition(newton=False).solve(qp, Goal(violation=1e-3))
    assert with_step.certificate.gap < 1e-9 * with_step.certificate.dual
    assert with_step.certificate.gap < 1e-3 * without.certificate.gap


def test_random_boxes_in_growing_samples():
    """A sample must be feasible whenever the whole is, whatever the boxes are."""
    rng = np.random.default_rng(0)
    for trial in range(12):
        n = 80
        X = rng.normal(size=(n, 3))
        low, high = np.sort(rng.normal(size=(2, n)), axis=0)
        if trial % 3 == 1:
            low, high = np.zeros(n), np.full(n, np.inf)
        elif trial % 3 == 2:
            low, high = np.where(np.arange(n) % 2, 0.5, 0.0), np.where(np.arange(n) % 2, 0.5, 1.0)
        inside = np.clip(rng.normal(size=n), low, high)
        K = naive_kernel("rbf", X, gamma=0.5) + 0.1 * np.eye(n)
        qp = QP(PrecomputedGram(K), rng.normal(size=n), low, high, np.ones((1, n)), [inside.sum()])
        solver = Decomposition(seed=trial, sizes=EVERYTHING_LARGE)
        check_optimum(solver.solve(qp, Goal(violation=1e-6)), qp, verdict_on(qp))


class TestGroups:
    """Equality constraints as fixed sums of groups."""

    def test_one_group(self):
        groups = Groups.of(QP(np.eye(3), np.zeros(3), 0, 1, np.full((1, 3), 2.0), [4.0]))
        np.testing.assert_array_equal(groups.label, [0, 0, 0])
        np.testing.assert_allclose(groups.sums, [2.0])

    def test_two_groups(self):
        y = np.array([1.0, -1.0, 1.0])
        groups = Groups.of(QP(np.eye(3), np.zeros(3), -1, 1, np.vstack([np.ones(3), y]), [0.0, 2.0]))
        assert groups.count == 2
        assert groups.label[0] == groups.label[2] != groups.label[1]
        np.testing.assert_allclose(groups.sums[groups.label], [1.0, -1.0, 1.0])

    def test_no_group(self):
        assert Groups.of(QP(np.eye(3), np.zeros(3), 0, 1)).count == 0

    def test_constraints_that_pair_steps_cannot_keep(self):
        qp = QP(np.eye(3), np.zeros(3), 0, 1, [[1.0, 2.0, 3.0]], [1.0])
        with pytest.raises(ValueError, match="keep 1 equality constraints .*; found that two variables"):
            Groups.of(qp)
        with pytest.raises(ValueError, match='use solver="mpd"'):
            solve(qp, "smo")

    def test_contradiction(self):
        qp = QP(np.eye(2), np.zeros(2), 0, 1, [[1.0, 1.0], [1.0, 1.0]], [1.0, 0.5])
        with pytest.raises(ValueError, match="contradict"):
            Groups.of(qp)

    def test_redundant_constraints_are_welcome(self):
        qp = QP(np.eye(2), [-1.0, 0.0], 0, 1, [[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0])
        solution = solve(qp, "smo", tol=1e-9)
        np.testing.assert_allclose(solution.beta, [1.0, 0.0], atol=1e-9)
        assert solution.certificate.gap < 1e-8

    def test_infeasible_sum(self):
        qp = QP(np.eye(2), np.zeros(2), 0, 1, np.ones((1, 2)), [3.0])
        for solver in ("smo", "chunking"):
            with pytest.raises(ValueError, match="must add up to 3 but its box allows only 0 … 2"):
                solve(qp, solver)

    @pytest.mark.parametrize("upper", [1.0, np.inf])
    @pytest.mark.parametrize("missing", [1e-16, 0.3, -0.3])
    def test_feasible_moves_as_little_as_it_can(self, upper, missing):
        qp = QP(np.eye(4), np.zeros(4), -upper, upper, np.ones((1, 4)), [missing])
        beta = feasible(Groups.of(qp), np.array([0.5, -0.5, 0.25, -0.25]), qp.lower, qp.upper, np.array([missing]))
        assert np.isfinite(beta).all()
        assert qp.infeasibility(beta) < 1e-15
        assert np.abs(beta - [0.5, -0.5, 0.25, -0.25]).sum() == pytest.approx(abs(missing), abs=1e-15)


@pytest.mark.parametrize("working_set", [0, 1, 5000, -3])
def test_working_sets_out_of_range(working_set):
    with pytest.raises(ValueError, match="working_set=.* was asked for"):
        Decomposition(working_set=working_set)


def test_unknown_selection():
    with pytest.raises(ValueError, match="selection='best' was asked for"):
        Decomposition(selection="best")


@every_variant
@pytest.mark.parametrize("start", [False, True])
def test_a_leaf_makes_all_steps_of_a_small_problem(variant, start, monkeypatch):
    qp = plain_problem(variant, "rbf", make_data("plain"))
    before = Decomposition().solve(qp, Goal(violation=1e-3)).beta if start else None
    expected = Decomposition().solve(qp, Goal(violation=1e-6))
    if qp.ridge is None:
        monkeypatch.setattr(decomposition, "Run", None)
    found = Decomposition(whole=True).solve(qp, Goal(violation=1e-6), before)
    assert found.status is Status.CONVERGED and found.certificate.violation <= 1e-6
    assert found.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-6, abs=1e-9)
    assert found.certificate.relative_gap <= 1e-6


def test_a_leaf_keeps_limits_of_steps():
    qp = plain_problem(Variant("c_svc", CSVC(C=1e4)), "rbf", make_data("plain"))
    assert Decomposition(whole=True).solve(qp, Goal(violation=1e-9, max_iter=7)).status is Status.MAX_ITERATIONS
    assert Decomposition(whole=True, patience=0.01).solve(qp, Goal(violation=1e-9)).status is Status.EXHAUSTED


def test_who_is_told_of_steps_is_told_of_all():
    told = []
    qp = plain_problem(Variant("c_svc", CSVC(C=10.0)), "rbf", make_data("plain"))
    Decomposition(whole=True).solve(qp, Goal(violation=1e-6), monitor=Monitor(callback=lambda step: told.append(step)))
    assert len(told) > 1
