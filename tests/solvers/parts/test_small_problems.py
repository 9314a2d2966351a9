"""Many small problems at once: the optimum of each, its certificate, the same digits however they are shared out."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from cases import VARIANTS, Variant, make_data, verdict_on
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram, Ridged, Shifted, Tiled, as_gram
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import solve
from maxmargin.solvers.parts import small_problems
from maxmargin.solvers.parts.small_problems import Batch, Pieces, SmallProblems, certify_small, solve_small, suits

NUMBERS = ("primal", "dual", "gap", "violation", "infeasibility")
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def some_problems(variant: Variant, kind="plain", count=12, seed=0, gamma=0.5, least=4, most=40, n=90):
    """QPs on random parts of one matrix, and the matrix."""
    data = make_data(kind, n)
    gram = PrecomputedGram(KernelGram(Kernel("rbf", gamma), data.X).block(np.arange(n)))
    rng = np.random.default_rng(seed)
    qps = []
    for size in rng.integers(least, most + 1, count):
        # As many of each class, so that ν = 0.4 is feasible
        halves = [rng.choice(np.flatnonzero(data.labels == side), (size + 1) // 2, replace=False) for side in (1, -1)]
        rows = np.sort(np.concatenate(halves))
        weight = np.ones(len(rows)) if variant.name == "nu_svc" else data.weight[rows]
        qps.append(variant.formulation.qp(Samples(gram.take(rows), variant.targets(data)[rows], weight)))
    return gram, qps


def c_svc(C, **options) -> Variant:
    return Variant("c_svc", CSVC(C=C, **options))


def check_optimal(solutions, qps, tol, slack=1e-9):
    """Below tol, with the certificate that the problem computes, and no worse than the referee says."""
    for q, qp in enumerate(qps):
        beta, eta = solutions.of(q), solutions.multipliers[q]
        proof, told = qp.certificate(beta, eta), solutions.certificate(q)
        size = max(1.0, abs(proof.primal), abs(proof.dual))
        for number in NUMBERS:
            assert getattr(told, number) == pytest.approx(getattr(proof, number), abs=1e-9 * size), number
        assert solutions.status(q) is Status.CONVERGED
        assert proof.violation < tol
        assert proof.infeasibility <= 1e-9 * max(1.0, np.abs(beta).sum())
        product = solutions.H_beta[solutions.starts[q] : solutions.starts[q + 1]]
        np.testing.assert_allclose(product, qp.times(beta), atol=1e-9 * size)
        best = -verdict_on(qp).objective
        assert proof.dual == pytest.approx(best, rel=1e-6, abs=1e-6 + slack)


def test_steps_that_end_at_tol_unless_they_are_to_finish():
    gram, qps = some_problems(c_svc(3.0), most=80)
    problems = SmallProblems.of(qps)
    exact, near = (solve_small(gram, problems, 1e-3, finish=finish) for finish in (True, False))
    assert (exact.proof[:, 3] < 1e-10).all()
    check_optimal(near, qps, 1e-3, slack=1e-2)
    assert np.median(near.proof[:, 3]) > 1e-5
    np.testing.assert_allclose(near.H_beta, exact.H_beta, atol=5e-3)


@every_variant
@pytest.mark.parametrize("kind", ["plain", "weighted", "duplicated"])
def test_every_formulation_to_its_optimum(variant, kind):
    if variant.name == "svdd" and variant.formulation.C:
        variant = replace(variant, formulation=replace(variant.formulation, C=0.3))  # feasible with few points
    gram, qps = some_problems(variant, kind)
    problems = SmallProblems.of(qps)
    check_optimal(solve_small(gram, problems), qps, 1e-3)


@pytest.mark.parametrize("C", [1.3e-5, 3.1e-3, 0.37, 1.9, 47.0, 3.3e3, 7.7e5, 1.1e7])
@pytest.mark.parametrize("kind", ["plain", "duplicated"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_costs_of_all_sizes(C, kind, loss):
    gram, qps = some_problems(c_svc(C, loss=loss), kind, count=8)
    solutions = solve_small(gram, SmallProblems.of(qps))
    for q, qp in enumerate(qps):
        general = solve(qp, "decomposition", tol=1e-5)
        proof = solutions.certificate(q)
        assert solutions.status(q) is Status.CONVERGED
        assert proof.violation < 1e-3
        assert proof.dual == pytest.approx(general.certificate.dual, rel=1e-5)
        terms = float(np.sqrt(as_gram(qp.H).diag()) @ np.abs(general.beta)) ** 2  # of βᵀHβ, each rounded
        assert proof.dual <= general.certificate.primal * (1 + 1e-9) + terms * np.finfo(float).eps


@pytest.mark.parametrize("C", [0.37, 47.0, 3.3e3])
def test_the_last_digits_too(C):
    """The free variables are solved for: what is left is rounding, not tol."""
    gram, qps = some_problems(c_svc(C), count=20)
    solutions = solve_small(gram, SmallProblems.of(qps), tol=1e-3)
    assert solutions.proof[:, NUMBERS.index("violation")].max() < 1e-9 * max(1.0, C)


def test_nu_at_the_largest_feasible():
    """One class has all its coefficients at their bounds, to the last digit."""
    data = make_data("weighted", 60)
    gram = PrecomputedGram(KernelGram(Kernel("rbf", 0.5), data.X).block(np.arange(60)))
    rng = np.random.default_rng(0)
    qps = []
    for _ in range(10):
        rows = np.concatenate([np.flatnonzero(data.labels > 0)[: rng.integers(2, 9)], np.flatnonzero(data.labels < 0)])
        y, weight = data.labels[rows], data.weight[rows] * rng.uniform(0.5, 2.0, len(rows))
        qps.append(NuSVC(nu=1.0, clip=True).qp(Samples(gram.take(rows), y, weight)))
    solutions = solve_small(gram, SmallProblems.of(qps), tol=1e-5)
    check_optimal(solutions, qps, 1e-5)
    for q, qp in enumerate(qps):
        few = qp.A[1] > 0
        np.testing.assert_array_equal(solutions.of(q)[few], qp.upper[few])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_single_points_and_twins(fit_intercept):
    """Problems of one, two and three variables, some with nothing to move."""
    K = np.array([[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]])
    gram = PrecomputedGram(K)
    parts = ([0], [0, 1], [0, 2], [0, 1, 2], [1])
    targets = ([1.0], [1.0, -1.0], [1.0, -1.0], [1.0, -1.0, -1.0], [-1.0])
    form = CSVC(C=3.7, fit_intercept=fit_intercept)
    qps = [
        form.qp(Samples(gram.take(np.array(p)), np.array(y), np.ones(len(p))))
        for p, y in zip(parts, targets, strict=True)
    ]
    check_optimal(solve_small(gram, SmallProblems.of(qps)), qps, 1e-3)


def test_a_kernel_that_is_not_definite_still_ends():
    data = make_data("plain", 60)
    gram = PrecomputedGram(KernelGram(Kernel("sigmoid", 0.5, -1.0), data.X).block(np.arange(60)))
    qps = [
        CSVC(C=11.0).qp(Samples(gram.take(np.arange(a, a + 30)), data.labels[a : a + 30], np.ones(30)))
        for a in (0, 15, 30)
    ]
    solutions = solve_small(gram, SmallProblems.of(qps))
    assert set(solutions.statuses()) <= {Status.CONVERGED, Status.STALLED}
    for q, qp in enumerate(qps):
        assert qp.infeasibility(solutions.of(q)) < 1e-9


def test_no_minimum_is_told():
    gram = PrecomputedGram(-np.eye(4))
    qp = QP(gram, [-1.0, -1.0, 1.0, 1.0], [0, 0, -np.inf, -np.inf], [np.inf, np.inf, 0, 0], np.ones((1, 4)), [0.0])
    assert solve_small(gram, SmallProblems.of([qp])).status(0) is Status.UNBOUNDED


# -- the same digits ---------------------------------------------------------------------------------------------------


def digits(solutions):
    return [solutions.beta, solutions.H_beta, solutions.levels, solutions.proof, solutions.n_iter, solutions.code]


@pytest.mark.parametrize("C", [1.7, 3.3e4])
def test_threads_and_looks_at_the_clock_change_no_digit(C):
    gram, qps = some_problems(c_svc(C), "duplicated", count=60)
    problems = SmallProblems.of(qps)
    expected = digits(solve_small(gram, problems))
    for threads in (2, 3, 7):
        for room in (1, 3000, 10**6):  # one round at a time, a few problems at a time, all at once
            found = solve_small(gram, problems, threads=threads, pieces=Pieces(look=room, threads=0))
            for a, b in zip(expected, digits(found), strict=True):
                np.testing.assert_array_equal(a, b)


def test_order_and_company_change_no_digit():
    gram, qps = some_problems(c_svc(2.3), count=15)
    together = solve_small(gram, SmallProblems.of(qps))
    order = np.random.default_rng(1).permutation(len(qps))
    mixed = solve_small(gram, SmallProblems.of([qps[q] for q in order]))
    for at, q in enumerate(order):
        np.testing.assert_array_equal(mixed.of(at), together.of(q))
        alone = solve_small(gram, SmallProblems.of([qps[q]]))
        np.testing.assert_array_equal(alone.beta, together.of(q))


def test_batches_need_only_their_points():
    """The matrix is asked for on the points of a batch, and the solutions are those of the whole matrix."""
    X = make_data("plain", 90).X
    asked = []

    class Watched(KernelGram):
        def block(self, index):
            asked.append(np.array(index))
            return super().block(index)

    gram = Watched(Kernel("rbf", 0.5), X)
    shared, qps = some_problems(c_svc(2.3), count=10, most=20)
    problems = SmallProblems.of(qps)
    parts = np.split(problems.points, problems.starts[1:-1])
    halves = (np.arange(0, 10, 2), np.arange(1, 10, 2))
    batches = [Batch(np.unique(np.concatenate([parts[q] for q in half])), half) for half in halves]
    solutions = solve_small(gram, problems, batches=batches)
    assert [len(points) for points in asked] == [len(batch.points) for batch in batches]
    check_optimal(solutions, qps, 1e-3)


def test_a_matrix_at_hand_is_not_copied():
    gram, qps = some_problems(c_svc(2.3))
    gram.block = None  # would be called for a copy
    assert set(solve_small(gram, SmallProblems.of(qps)).statuses()) == {Status.CONVERGED}


# -- starts, limits and stops ------------------------------------------------------------------------------------------


def test_a_warm_start_has_little_to_do():
    gram, qps = some_problems(c_svc(21.0), count=20)
    problems = SmallProblems.of(qps)
    cold = solve_small(gram, problems)
    warm = solve_small(gram, problems, start=cold.beta)
    assert (warm.n_iter == 1).all()
    np.testing.assert_allclose(warm.beta, cold.beta, atol=1e-12)
    wild = solve_small(gram, problems, start=np.random.default_rng(0).normal(0, 100, len(cold.beta)))
    check_optimal(wild, qps, 1e-3)


def test_a_step_limit_is_obeyed_by_each_problem():
    gram, qps = some_problems(c_svc(21.0), count=10, least=20)
    solutions = solve_small(gram, SmallProblems.of(qps), max_iter=3)
    assert (solutions.n_iter <= 3).all()
    assert set(solutions.statuses()) == {Status.MAX_ITERATIONS}
    check_honest(solutions, qps)


def check_honest(solutions, qps):
    """Feasible, with a certificate that bounds the distance to the optimum, and no better bias in sight."""
    for q, qp in enumerate(qps):
        beta, eta, told = solutions.of(q), solutions.multipliers[q], solutions.certificate(q)
        assert qp.infeasibility(beta) < 1e-9
        proof = qp.certificate(beta, eta)
        assert (told.gap, told.dual) == pytest.approx((proof.gap, proof.dual), rel=1e-9, abs=1e-9)
        assert told.gap >= qp.objective(beta) - verdict_on(qp).objective - 1e-7
        if getattr(qp.H, "ridge", None) is None and len(eta) == 1:
            for shift in np.concatenate([-np.geomspace(1e-3, 3, 20), np.geomspace(1e-3, 3, 20)]):
                assert qp.certificate(beta, eta + shift).gap >= told.gap - 1e-9 * max(1.0, told.gap)


@every_variant
def test_problems_that_are_not_reached_keep_an_honest_certificate(variant):
    if variant.name == "svdd" and variant.formulation.C:
        variant = replace(variant, formulation=replace(variant.formulation, C=0.3))
    gram, qps = some_problems(variant, count=6)
    solutions = solve_small(gram, SmallProblems.of(qps), monitor=Monitor(time_limit=1e-9))
    assert set(solutions.statuses()) <= {Status.TIME_LIMIT, Status.CONVERGED}
    assert solutions.status(0) is Status.TIME_LIMIT
    check_honest(solutions, qps)


def test_after_a_stop_no_matrix_is_computed():
    shared, qps = some_problems(c_svc(2.3), count=10)
    gram = KernelGram(Kernel("rbf", 0.5), make_data("plain", 90).X)
    solutions = solve_small(gram, SmallProblems.of(qps), monitor=Monitor(time_limit=1e-9))
    assert gram.evals == 0
    assert not solutions.beta.any()
    check_honest(solutions, qps)


def test_after_a_stop_no_matrix_is_computed_for_a_start_that_is_not_zero(monkeypatch):
    """A ν-SVC cannot start from zero: rows of what is not are enough, and where nobody looks, none."""
    variant = next(v for v in VARIANTS if v.name == "nu_svc")
    _, qps = some_problems(variant, count=10)
    gram = KernelGram(Kernel("rbf", 0.5), make_data("plain", 90).X)
    monkeypatch.setattr(KernelGram, "block", None)
    problems = SmallProblems.of(qps)
    solutions = solve_small(gram, problems, monitor=Monitor(time_limit=1e-9))
    assert solutions.beta.any() and solutions.stop is Status.TIME_LIMIT
    check_honest(solutions, qps)
    assert not solve_small(gram, problems, monitor=Monitor(time_limit=1e-9), unproven=True).beta.any()


def test_a_callback_stops_between_two_looks():
    gram, qps = some_problems(c_svc(21.0), count=40)
    seen = []
    monitor = Monitor(callback=lambda row: bool(seen.append(row)) or len(seen) == 3)
    solutions = solve_small(gram, SmallProblems.of(qps), monitor=monitor, pieces=Pieces(look=1, problem=100))
    statuses = solutions.statuses()
    assert len(seen) == 3
    assert Status.CONVERGED in statuses and Status.CALLBACK in statuses
    assert seen[-1]["active"] == statuses.count(Status.CALLBACK)
    assert [row["iteration"] for row in seen] == sorted(row["iteration"] for row in seen)
    check_honest(solutions, qps)


def test_an_error_in_a_callback_ends_the_work_at_once():
    gram, qps = some_problems(c_svc(21.0), count=40)

    def broken(row):
        raise RuntimeError("broken callback")

    with pytest.raises(RuntimeError, match="broken callback"):
        solve_small(gram, SmallProblems.of(qps), monitor=Monitor(callback=broken), threads=2)


# -- what is taken -----------------------------------------------------------------------------------------------------


def test_infeasible_sums_are_an_error():
    gram, qps = some_problems(c_svc(1.0), count=3)
    qps[1] = replace(qps[1], b=np.array([1e3]))
    with pytest.raises(ValueError, match="the first is number 1.*check the constraints"):
        solve_small(gram, SmallProblems.of(qps))


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="3 variables together were asked for; found arrays of other lengths"):
        SmallProblems([0, 3], [0, 1, 2], np.zeros(2), np.zeros(3), np.ones(3), np.ones((1, 1)), np.zeros((1, 1)))


def test_other_problems_are_not_taken():
    K = np.eye(4)
    gram = PrecomputedGram(K)
    y, ones = np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4)
    plain = CSVC().qp(Samples(gram, y, ones))
    assert SmallProblems.of([plain]) is not None
    assert SmallProblems.of([]) is None
    assert SmallProblems.of([plain, CSVC().qp(Samples(PrecomputedGram(K.copy()), y, ones))]) is None  # another matrix
    assert SmallProblems.of([plain, CSVC(fit_intercept=False).qp(Samples(gram, y, ones))]) is None  # other constraints
    assert SmallProblems.of([CSVC().qp(Samples(Shifted(gram), y, ones))]) is None
    assert SmallProblems.of([CSVC().qp(Samples(KernelGram(Kernel("rbf", 1.0), K), y, ones))]) is None
    assert SmallProblems.of([EpsilonSVR().qp(Samples(Tiled(Ridged(gram, ones)), np.zeros(8), np.ones(8)))]) is None
    several = replace(plain, A=np.vstack([ones, np.arange(4.0)]), b=np.zeros(2))  # of a semi-parametric machine
    assert SmallProblems.of([several]) is None


@every_variant
def test_each_problem_as_it_was(variant):
    if variant.name == "svdd" and variant.formulation.C:
        variant = replace(variant, formulation=replace(variant.formulation, C=0.3))
    gram, qps = some_problems(variant, "weighted", count=4)
    problems = SmallProblems.of(qps)
    for q, qp in enumerate(qps):
        again = problems.qp(q, gram)
        np.testing.assert_allclose(again.H.dense(), qp.H.dense(), rtol=1e-15)
        for name in ("p", "lower", "upper", "A", "eps"):
            np.testing.assert_array_equal(getattr(again, name), getattr(qp, name))
        np.testing.assert_allclose(again.b, qp.b, atol=1e-12)


def test_which_sizes_suit():
    assert suits(np.array([8, 600]))
    assert not suits(np.array([8, 601]))


@every_variant
def test_certificates_of_any_coefficients(variant):
    """Those of the problem, for coefficients that nobody found."""
    if variant.name == "svdd" and variant.formulation.C:
        variant = replace(variant, formulation=replace(variant.formulation, C=0.3))
    gram, qps = some_problems(variant, count=5)
    problems = SmallProblems.of(qps)
    rng = np.random.default_rng(0)
    finite = np.clip(problems.upper, -9.0, 9.0), np.clip(problems.lower, -9.0, 9.0)
    beta = rng.uniform(finite[1], finite[0])
    levels = rng.normal(size=problems.sums.shape)
    proof = certify_small(gram, problems, beta, levels)
    for q, qp in enumerate(qps):
        own = beta[problems.starts[q] : problems.starts[q + 1]]
        eta = np.linalg.lstsq(problems.columns.T, levels[q], rcond=None)[0] if problems.columns.size else np.zeros(0)
        told = qp.certificate(own, eta)
        for number, value in zip(NUMBERS[:4], proof[q][:4], strict=True):
            assert value == pytest.approx(getattr(told, number), rel=1e-9, abs=1e-9), number
        assert (proof[q][4] > 1e-9) == (told.infeasibility > 1e-9)
        if problems.sums.shape[1] <= 1:  # of several groups it is the worst one's share, of which rows of A mix some
            assert proof[q][4] == pytest.approx(told.infeasibility, rel=1e-9)


# -- without the compiler ----------------------------------------------------------------------------------------------

SCRIPT = """
import json
import numpy as np
from maxmargin.formulations import CSVC, NuSVC, Samples
from maxmargin.gram import PrecomputedGram
from maxmargin.solvers.parts.small_problems import SmallProblems, solve_small

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
gram = PrecomputedGram(np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)))
out = {}
for form in (CSVC(C=2.3), CSVC(C=2.3, loss="huber", fit_intercept=False), NuSVC(nu=0.5)):
    y = np.tile([1.0, -1.0], 5)
    qps = [form.qp(Samples(gram.take(np.arange(a, a + 10)), y, np.ones(10))) for a in (0, 5, 10)]
    solutions = solve_small(gram, SmallProblems.of(qps))
    out[str(form)] = [solutions.beta.tolist(), solutions.proof.tolist(), solutions.code.tolist()]
print(json.dumps(out))
"""


def test_the_same_without_the_compiler():
    results = []
    for disabled in ("0", "1"):
        env = os.environ | {"NUMBA_DISABLE_JIT": disabled}
        run = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        results.append(json.loads(run.stdout))
    compiled, plain = results
    assert len(compiled) == 3
    for name, values in compiled.items():
        assert set(values[2]) == {0}
        for a, b in zip(values, plain[name], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9, err_msg=name)


def test_a_start_that_fills_its_box_may_lack_what_rounding_asks_for_besides():
    """ν at its largest: the sum of a class is that of its weights, computed in another order."""
    box = np.array([0.1, 0.2, 0.3])
    starts, points = np.array([0, 3]), np.arange(3)
    asked = np.array([[box.sum() * (1 + 4e-16)]])
    assert asked[0, 0] > box.sum()
    problems = SmallProblems(starts, points, np.zeros(3), np.zeros(3), box, np.ones((1, 1)), asked)
    for start in (None, box):
        found = solve_small(PrecomputedGram(np.eye(3)), problems, start=start)
        np.testing.assert_array_equal(found.beta, box)


def pairs_of_clusters(classes=4, each=60, apart=4.0, gamma=0.3, seed=0):
    """Programs of all pairs of clusters, and their Gram: of those that lie apart few rows are needed."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(each, 3)) + apart * rng.normal(size=3) for _ in range(classes)])
    gram = KernelGram(Kernel("rbf", gamma), X)
    label = np.repeat(np.arange(classes), each)
    parts = [np.flatnonzero((label == i) | (label == j)) for j in range(classes) for i in range(j)]
    points, y = np.concatenate(parts), np.concatenate([np.where(label[p] == label[p[0]], 1.0, -1.0) for p in parts])
    starts = np.arange(len(parts) + 1) * 2 * each
    lower, upper = np.where(y > 0, 0.0, -10.0), np.where(y > 0, 10.0, 0.0)
    return gram, SmallProblems(starts, points, -y, lower, upper, np.ones((1, 1)), np.zeros((len(parts), 1)))


def test_rows_are_made_as_steps_ask_for_them_where_these_are_few(monkeypatch):
    gram, problems = pairs_of_clusters()
    formed = PrecomputedGram(gram.block(np.arange(gram.n)))
    expected = solve_small(formed, problems, 1e-6)
    monkeypatch.setattr(small_problems, "SOLVER_WORK", 1)
    blocks = []
    monkeypatch.setattr(KernelGram, "block", lambda self, index: blocks.append(len(index)))
    before = gram.evals
    found = solve_small(gram, problems, 1e-6, pieces=Pieces(look=20_000))
    assert not blocks and 0 < gram.evals - before < gram.n**2
    assert found.statuses() == expected.statuses() == [Status.CONVERGED] * len(problems)
    np.testing.assert_allclose(found.proof[:, :2], expected.proof[:, :2], rtol=1e-6)
    proof = certify_small(gram, problems, found.beta, found.levels)
    np.testing.assert_allclose(proof, found.proof, atol=1e-9)
    again = solve_small(gram, problems, 1e-6, threads=3, pieces=Pieces(look=20_000, threads=1))
    np.testing.assert_array_equal(found.beta, again.beta)


def test_a_matrix_is_formed_where_most_rows_are_needed(monkeypatch):
    gram, problems = pairs_of_clusters(classes=8, each=12, apart=0.0)
    monkeypatch.setattr(small_problems, "SOLVER_WORK", 1)
    blocks, block = [], KernelGram.block
    monkeypatch.setattr(KernelGram, "block", lambda self, index: blocks.append(len(index)) or block(self, index))
    found = solve_small(gram, problems, 1e-6)
    assert len(blocks) == 1
    assert found.statuses() == [Status.CONVERGED] * len(problems)


def test_large_problems_that_need_many_rows_are_left_to_others(monkeypatch):
    monkeypatch.setattr(small_problems, "Sizes", replace(small_problems.Sizes(), matrix=50))
    sizes = np.full(6, 120)
    assert not suits(sizes) and suits(sizes, features=3)
    assert not suits(np.full(6, 4000), features=3) and not suits(sizes[:1], features=3)
    assert not suits(sizes, features=20_000)  # whose rows take so long that hardly any is made before a solver would be
    gram, problems = pairs_of_clusters(apart=6.0, gamma=0.01)
    assert not solve_small(gram, problems, 1e-6).crowded.any()
    gram, problems = pairs_of_clusters(apart=0.0)
    assert not solve_small(gram, problems, 1e-6).crowded.any()
    assert solve_small(gram, problems, 1e-6, room=8 * 100**2).crowded.all()  # 120 variables have no room
    monkeypatch.setattr(small_problems, "SOLVER_WORK", 30 * 120 * 3)  # 40 rows of 120
    found = solve_small(gram, problems, 1e-6)
    assert found.crowded.all() and found.statuses() == [Status.EXHAUSTED] * len(problems)
    formed = PrecomputedGram(gram.block(np.arange(gram.n)))
    assert solve_small(formed, problems, 1e-6).statuses() == [Status.CONVERGED] * len(problems)  # rows are at hand
