"""Stops that stop: what is long looks at the clock, nothing is begun that the limit forbids, one product ends it all.

The clock of these tests moves on by a second at each look, so that a limit is a number of looks, on any machine.
"""

from dataclasses import astuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cases import with_sizes
from maxmargin import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, host, monitor
from maxmargin import rows as rows_room
from maxmargin.estimators import base as estimators_base
from maxmargin.estimators import classification, crammer_singer, folds, regression, sparse_linear
from maxmargin.formulations import CSVC, EpsilonSVR, OneClass, Samples, SemiParametric
from maxmargin.formulations import NuSVC as NuSVCFormulation
from maxmargin.gram import Factored, Kernel, KernelGram, base, cache, kernel_gram, low_rank
from maxmargin.losses import make_loss
from maxmargin.monitor import Monitor, Stopped
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import auto, make_solver
from maxmargin.solvers.base import first_point
from maxmargin.solvers.parts import few_rows, fixed_sums, lone_rows, newton_systems, small_problems, smoothed_newton
from maxmargin.solvers.parts.cholesky import PANEL, TILED_FROM, cholesky
from maxmargin.solvers.parts.working_sets import Sizes

N = 300
ROWS_A_PIECE = 10

KINDS = {
    "c_svc": lambda X: CSVC(10.0),
    "squared": lambda X: CSVC(10.0, "squared_hinge"),
    "no bias": lambda X: CSVC(10.0, fit_intercept=False),
    "nu_svc": lambda X: NuSVCFormulation(0.3),
    "one_class": lambda X: OneClass(0.3),
    "epsilon_svr": lambda X: EpsilonSVR(10.0, 0.01),
    "parametric": lambda X: SemiParametric(CSVC(10.0), np.ascontiguousarray(X.T[:1])),
}
SOLVERS = ["smo", "decomposition", "chunking", "interior-point", "mpd", "sor", "adatron", "nearest-point"]


class LookedAt:
    """Seconds are looks. Remembers how many kernel values there were when the limit had passed."""

    def __init__(self, gram=None) -> None:
        self.now, self.gram, self.deadline, self.evals = 0.0, gram, np.inf, None

    def __call__(self) -> float:
        self.now += 1.0
        if self.now > self.deadline and self.evals is None and self.gram is not None:
            self.evals = self.gram.evals
        return self.now


@pytest.fixture
def large(monkeypatch):
    """Every problem is large: rows on demand, samples that grow, and pieces of a few rows."""
    monkeypatch.setattr(base, "PIECE_EVALS", ROWS_A_PIECE * N)
    monkeypatch.setattr(newton_systems, "LOOK_WORK", ROWS_A_PIECE * N)


def points(n: int = N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def problem(kind: str):
    X, y = points()
    return KINDS[kind](X).qp(Samples(KernelGram(Kernel("rbf", 0.5), X, 1), y, np.ones(N)))


@pytest.mark.parametrize("looks", [0, 2, 8, 40])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_after_the_limit_there_is_one_product(solver, kind, looks, large, monkeypatch):
    qp, made = problem(kind), make_solver(solver, **with_sizes(solver, Sizes(matrix=0, grow=N // 8, shrink=20)))
    if hasattr(made, "objection") and made.objection(qp):
        pytest.skip(f"{solver} does not take this problem")
    if kind == "parametric" and solver in ("smo", "decomposition", "chunking"):
        pytest.skip("pair steps do not keep these constraints")
    clock = LookedAt(qp.H)
    monkeypatch.setattr(monitor, "clock", clock)
    watch = Monitor(time_limit=looks + 0.5)
    clock.deadline = watch.deadline
    solution = auto.Auto(made).solve(qp, monitor=watch)
    assert qp.infeasibility(solution.beta) < 1e-9
    found = qp.certificate(solution.beta, solution.multipliers)
    assert found.gap == pytest.approx(solution.certificate.gap, rel=1e-9, abs=1e-9)
    if clock.evals is None:
        return  # it was solved in time
    assert solution.status in (Status.TIME_LIMIT, Status.CONVERGED)
    # The rows that a step was about to fetch, a piece, and the product that certifies; for parts of it as well where
    # a chunk was certified first. A start that is better than what was found comes back, after a proof of both.
    after, used = qp.H.evals - clock.evals, np.count_nonzero(solution.beta)
    passes = 2 if solver == "chunking" else 1
    assert after <= (passes * max(used, N // 2) + 8 * ROWS_A_PIECE) * N
    assert solution.certificate.relative_gap <= 2.0


def test_no_matrix_is_formed_that_the_limit_forbids(large, monkeypatch):
    qp = problem("c_svc")
    clock = LookedAt(qp.H)
    monkeypatch.setattr(monitor, "clock", clock)
    solution = make_solver("interior-point").solve(qp, monitor=Monitor(time_limit=5.5))
    assert solution.status is Status.TIME_LIMIT
    assert 0 < qp.H.evals <= 6 * ROWS_A_PIECE * N
    assert not solution.beta.any()


def test_what_cannot_end_in_time_is_not_begun():
    watch = Monitor(time_limit=10.0)
    watch.foresee(1.0)
    with pytest.raises(Stopped) as caught:
        watch.part("a pair").inner().foresee(100.0)
    assert caught.value.reason is Status.TIME_LIMIT
    assert watch.stop_now() is None  # others may still have time
    Monitor().foresee(1e9)


def test_the_rest_of_a_matrix_is_foreseen(large):
    gram, told = problem("c_svc").H, []

    def look(seconds):
        told.append(seconds)
        if len(told) == 3:
            raise Stopped(Status.TIME_LIMIT)

    with pytest.raises(Stopped):
        gram.dense(look)
    assert gram.evals == 2 * ROWS_A_PIECE * N
    assert told[0] == 0.0 < min(told[1:])


def test_no_matrix_is_begun_without_memory_for_it(monkeypatch):
    qp = problem("c_svc")
    monkeypatch.setattr(host, "free_memory", lambda: 8 * N * N)
    qp.H.dense()
    before = qp.H.evals
    with pytest.raises(MemoryError, match=f"a dense {N} × {N} matrix was asked for, .* are not free; use"):
        make_solver("interior-point").solve(qp)
    assert qp.H.evals == before


def test_a_matrix_without_memory_does_not_cost_the_answer_that_there_is(monkeypatch):
    qp = problem("c_svc")
    monkeypatch.setattr(host, "free_memory", lambda: 0)
    waits = [0.01, np.inf]  # the interior method is next, and then pair steps again
    monkeypatch.setattr(auto, "pair_trial", lambda qp, times=1.0: {"patience": waits.pop(0)})
    monkeypatch.setattr(auto, "lowered_problem", lambda *problem: None)  # there is no factor either
    solution = auto.Auto().solve(qp)
    assert solution.status is Status.CONVERGED
    assert solution.solver == "decomposition"


def test_products_in_pieces_are_the_products(large):
    gram, looks = problem("c_svc").H, []
    rng = np.random.default_rng(1)
    index, at = np.arange(0, N, 3), rng.permutation(N)[:200]
    coef = rng.normal(size=len(index))
    pieces = gram.combine_watched(index, coef, at, lambda: looks.append(1), exact=True)
    np.testing.assert_allclose(pieces, gram.combine(index, coef, at), rtol=1e-12, atol=1e-12)
    assert len(looks) > 3


def test_factorisations_look_before_each_panel():
    n, looks = 2 * TILED_FROM, []
    X = np.random.default_rng(0).normal(size=(n, n))
    M = X @ X.T + n * np.eye(n)
    U = cholesky(M, 1, lambda: looks.append(1))
    assert len(looks) == 2 * -(-n // PANEL)  # once to copy its columns, once to factor it
    np.testing.assert_array_equal(np.triu(cholesky(np.array(M, order="F"), in_place=True)), np.triu(U))

    def raise_third():
        looks.append(1)
        if len(looks) == 3:
            raise Stopped(Status.TIME_LIMIT)

    looks.clear()
    with pytest.raises(Stopped):
        cholesky(M, 1, raise_third)
    assert len(looks) == 3


def test_it_looks_while_a_normal_matrix_is_added_up(monkeypatch):
    """With thousands of sparse features that takes longer than all else of a step, but for its factorisation."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(3000, 60, density=0.3, format="csr", random_state=0))
    y = np.where(X @ rng.normal(size=60) > 0, 1.0, -1.0)
    qp, watch = CSVC(1.0).qp(Samples(Factored(X), y, np.ones(3000))), Monitor()

    def look():
        raise Stopped(Status.TIME_LIMIT)

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr(smoothed_newton, "factor_spd", lambda *args: pytest.fail("a matrix was added up"))
    near = smoothed_newton.approach(qp, qp.H.factor(), 1e-3, watch)
    assert near.stopped is Status.TIME_LIMIT and np.isfinite(near.beta).all()


def test_it_looks_while_the_curvature_of_few_weights_is_added_up(monkeypatch):
    rng = np.random.default_rng(0)
    Z = sp.csc_array(sp.random(300, 20, density=0.1, format="csc", random_state=0))
    curve, looks = rng.uniform(size=300), []
    problem = sparse_linear.SparseProblem(Z, np.ones(300), np.ones(300), make_loss("squared_hinge", True), 1.0, False)
    whole = problem._curvature(Z.toarray(), curve, lambda: None)
    monkeypatch.setattr(sparse_linear, "PIECE", 100)
    np.testing.assert_allclose(problem._curvature(Z, curve, lambda: looks.append(1)), whole, atol=1e-12)
    assert len(looks) >= 10


@pytest.mark.parametrize("machine", [{"multi_class": "crammer_singer"}, {"penalty": "l1"}])
def test_a_limit_counts_what_comes_before_the_first_step(machine, monkeypatch):
    """Rows are sorted, or become columns; where that takes all of the time, no step follows."""
    now, matrix = [0.0], rows_room.Rows.matrix

    def slow(rows, *args):
        now[0] += 10.0
        return matrix(rows, *args)

    monkeypatch.setattr(monitor, "clock", lambda: now[0])
    monkeypatch.setattr(rows_room.Rows, "matrix", slow)
    X, _ = points()
    with pytest.warns(match="time limit"):
        model = LinearSVC(**machine, time_limit=1.0).fit(X, np.arange(N) % 3)
    assert not model.coef_.any() and model.status_ is Status.TIME_LIMIT


def test_a_factor_of_low_rank_is_given_up(monkeypatch):
    gram = KernelGram(Kernel("rbf", 1e-2), points(2000)[0], 1)
    assert low_rank(gram, 1e-12, 400) is not None
    before = gram.evals
    assert low_rank(gram, 1e-12, 400, stop=lambda: True) is None
    assert auto.low_rank_or_not(gram, True, lambda: True) is gram
    assert gram.evals == before


def test_problems_whose_turn_comes_too_late_cost_nothing(monkeypatch):
    """Ten classes, a limit that passes before the first pair: no solver is set up, every certificate is true."""
    X, _ = points(2000)
    y = np.argsort(np.argsort(X[:, 0])) * 10 // len(X)
    monkeypatch.setattr(auto, "run", lambda *args: pytest.fail("a solver was set up"))
    with pytest.warns(match="time limit"):
        model = SVC(time_limit=1e-9, n_jobs=1, tol=1e-2, gamma=0.2, solver="decomposition").fit(X, y)
    assert len(model.certificates_) == 45
    assert model.status_ is Status.TIME_LIMIT
    for found in model.certificates_:
        assert found.dual == 0.0 < found.gap == found.primal


@pytest.mark.parametrize("turns", [["SOR", "InteriorPoint", "SOR"], ["InteriorPoint", "SOR"]], ids=["many", "few"])
def test_no_solver_is_begun_after_the_limit(turns, monkeypatch):
    """One falls short by itself, and its proof ends after the limit: it is too late for the next."""
    now, begun = [0.0], []
    monkeypatch.setattr(monitor, "clock", lambda: now[0])

    def falls_short(solver, qp, goal, start, watch, *args):
        begun.append(type(solver).__name__)
        now[0] += 10.0
        return auto.beginning(qp, goal, start, Status.EXHAUSTED, watch)

    monkeypatch.setattr(auto, "run", falls_short)
    if turns[0] == "SOR":
        monkeypatch.setattr(few_rows, "SMALL_DENSE", 0)
    X, y = points(2000)
    with pytest.warns(match="time limit"):
        model = LinearSVC(loss="hinge", time_limit=1.0).fit(X, y)
    assert begun == turns[:1] and model.status_ is Status.TIME_LIMIT
    begun.clear()
    with pytest.warns(match="stopped early"):
        LinearSVC(loss="hinge").fit(X, y)
    assert begun == turns


@pytest.mark.parametrize(
    ("few", "looks"), [*((False, k) for k in range(0, 60, 6)), *((True, k) for k in range(0, 36, 6))]
)
@pytest.mark.parametrize("regression", [False, True])
def test_a_linear_machine_multiplies_each_point_once_after_the_limit(regression, few, looks, monkeypatch):
    """What was found, where it started from, and that start before it was made feasible: to each there is a product."""
    clock = LookedAt()
    clock.deadline = looks + 1.5  # the first look says when the fit has begun
    monkeypatch.setattr(monitor, "clock", clock)
    if not few:  # one leaf looks at the clock less often
        monkeypatch.setattr(few_rows, "SMALL_DENSE", 0)
    late = []
    for name in ("pulled", "along"):
        once = getattr(Factored, name)

        def counted(gram, vector, name=name, once=once):
            if gram.n == n and clock.now > clock.deadline:
                late.append((name, vector.tobytes()))
            return once(gram, vector)

        monkeypatch.setattr(Factored, name, counted)
    rng, n = np.random.default_rng(0), 6000
    X = rng.standard_normal((n, 10))
    f = X @ rng.normal(size=10) + rng.normal(size=n)
    machine = LinearSVR(epsilon=0.1) if regression else LinearSVC(loss="hinge")
    with pytest.warns(match="time limit"):
        machine.set_params(tol=1e-10, n_jobs=1, time_limit=looks + 0.5).fit(X, f if regression else np.sign(f))
    assert len(set(late)) == len(late) <= 6


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_starts_of_problems_whose_turn_comes_too_late_take_one_look(fit_intercept, n_jobs, monkeypatch):
    """A ν machine begins with coefficients: pairs share kernel values inside of a class, as predictions do."""
    X, _ = points(2000)
    y = np.argsort(np.argsort(X[:, 0])) * 10 // len(X)
    y[:50] = 0  # classes are not of the same size, nor are the starts of their pairs
    grams, make = [], NuSVC._make_gram
    monkeypatch.setattr(NuSVC, "_make_gram", lambda *args: grams.append(make(*args)) or grams[-1])

    def fitted():
        machine = NuSVC(nu=0.05, fit_intercept=fit_intercept, time_limit=1e-9, n_jobs=n_jobs, solver="smo")
        with pytest.warns(match="time limit"):
            return machine.fit(X, y)

    together = fitted()
    assert 0 < grams[0].evals <= len(together.support_) * len(X)
    monkeypatch.setattr(estimators_base, "know_starts", lambda *args: None)
    apart = fitted()
    assert grams[1].evals > 1.5 * grams[0].evals
    assert len(together.certificates_) == 45
    for one, other in zip(together.certificates_, apart.certificates_, strict=True):
        np.testing.assert_allclose(astuple(one), astuple(other), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(together.intercept_, apart.intercept_, rtol=1e-9)
    np.testing.assert_allclose(together.dual_coef_, apart.dual_coef_, rtol=1e-9)


def test_warm_starts_of_problems_whose_turn_comes_too_late_are_kept(monkeypatch):
    X, _ = points(800)
    y = np.argsort(np.argsort(X[:, 0])) * 4 // len(X)
    machine = SVC(C=10.0, loss="squared_hinge", gamma=0.5, warm_start=True, solver="decomposition").fit(X, y)
    before = machine.certificates_
    monkeypatch.setattr(auto, "run", lambda *args: pytest.fail("a solver was set up"))
    machine.set_params(time_limit=1e-9).fit(X, y)
    for one, other in zip(before, machine.certificates_, strict=True):
        assert other.dual == pytest.approx(one.dual, rel=1e-9)


def test_what_is_published_is_not_multiplied_again(monkeypatch):
    """Boxes of the negative class end at −0; β with −0 in it is the same β."""
    X, y = points(700)
    multiplied = []
    products = QP._products
    monkeypatch.setattr(QP, "_products", lambda qp, beta: multiplied.append(beta.copy()) or products(qp, beta))
    SVC(gamma=0.5).fit(X, y)
    assert any(beta.any() for beta in multiplied)
    for k, beta in enumerate(multiplied):
        assert not any(np.array_equal(beta, other) for other in multiplied[k + 1 :])


@pytest.mark.parametrize("looks", [2, 6, 12])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_variables_of_a_point_are_one_coefficient(fit_intercept, looks, large, monkeypatch):
    """A ν-SVR that is stopped has u and v that cancel; what is published is u + v, whose product is known."""
    multiplied = []
    products = QP._products
    monkeypatch.setattr(QP, "_products", lambda qp, beta: multiplied.append(beta) or products(qp, beta))
    monkeypatch.setattr(monitor, "clock", LookedAt())
    X, y = points()
    machine = NuSVR(nu=0.5, C=10.0, gamma=0.5, time_limit=looks + 0.5, n_jobs=1, fit_intercept=fit_intercept)
    machine.set_params(solver="decomposition")  # as with more samples: a leaf makes all steps on few
    with pytest.warns(match="time limit"):
        machine.fit(X, X[:, 1] + 0.1 * y)
    assert len(multiplied) == 1
    assert machine.certificate_.relative_gap <= 2.0


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_multipliers_that_cannot_prove_enough_are_not_weighed(fit_intercept, large, monkeypatch):
    """Far from the end those of the least gap alone are certified; what is published here is the same."""
    certified, certificate = [], QP._certificate
    monkeypatch.setattr(QP, "_certificate", lambda qp, *args: certified.append(args) or certificate(qp, *args))
    monkeypatch.setattr(monitor, "clock", LookedAt())
    X, y = points()
    machine = NuSVR(nu=0.5, C=10.0, gamma=0.5, time_limit=12.5, n_jobs=1, fit_intercept=fit_intercept)
    machine.set_params(solver="decomposition")
    with pytest.warns(match="time limit"):
        machine.fit(X, X[:, 1] + 0.1 * y)
    assert len(certified) == 1


@pytest.mark.parametrize("kind", ["c_svc", "nu_svc", "one_class", "epsilon_svr"])
def test_balanced_multipliers_have_the_least_gap(kind):
    qp, rng = problem(kind), np.random.default_rng(0)
    groups = fixed_sums.Groups.of(qp)
    for share in (0.0, 0.1, 1.0):
        beta = qp.settled(first_point(qp, share * rng.uniform(np.maximum(qp.lower, -1.0), np.minimum(qp.upper, 1.0))))
        balanced = groups.balanced(qp, beta, qp.times(beta))
        least = qp.certificate(beta, balanced).gap
        for eta in [groups.multipliers(qp, beta, qp.times(beta)), *rng.normal(balanced, 0.1, (20, len(balanced)))]:
            assert least <= qp.certificate(beta, eta).gap * (1.0 + 1e-12)


@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=10.0, probability=True),
        SVC(C=10.0, probability=True, loss="squared_hinge"),
        SVC(C=10.0, probability=True, parametric=[lambda X: X[:, 0]]),
        SVC(C=10.0, probability=True, fit_intercept=False),
        NuSVC(probability=True),
        NuSVC(probability=True, fit_intercept=False),
        SVR(C=10.0, probability=True),
        NuSVR(C=10.0, probability=True),
        NuSVR(C=10.0, probability=True, fit_intercept=False),
    ],
    ids=lambda machine: f"{type(machine).__name__} {machine.fit_intercept}",
)
def test_folds_have_no_machines_of_their_own_after_a_stop(machine, monkeypatch):
    """Each sample is decided by the fit without the samples of its fold; all of that costs less than a product."""
    X, y = points(700)
    seen = []

    def of_regression(solving, solved, numbers):
        solving.monitor.stopped, before = Status.CALLBACK, solving.gram.evals
        found = folds.out_of_fold(solving, solved, numbers)
        seen.append((solving.gram, solved, numbers, found, solving.gram.evals - before))
        return found

    def of_pairs(solving, solved, numbers):
        solving.monitor.stopped, before = Status.CALLBACK, solving.gram.evals
        [found] = folds.out_of_folds(solving, solved, numbers)
        seen.append((solving.gram, solved[0], numbers, found, solving.gram.evals - before))
        return [found]

    monkeypatch.setattr(regression, "out_of_fold", of_regression)
    monkeypatch.setattr(classification, "out_of_folds", of_pairs)
    clone(machine).set_params(gamma=0.5, max_iter=-1).fit(X, y)
    [(gram, solved, numbers, found, evals)] = seen
    decision, K = solved.decision, gram.block(np.arange(700))
    same = numbers[:, None] == numbers
    direct = np.where(same, 0.0, K) @ decision.coef + decision.intercept
    if len(decision.parametric):
        direct = direct + solved.problem.formulation.phi.T @ decision.parametric
    np.testing.assert_allclose(found, direct, atol=1e-6 * np.abs(direct).max())
    assert evals <= 0.3 * len(decision.points) * 700


def test_a_reason_is_the_real_one_without_a_limit_of_iterations():
    X, y = points()
    with pytest.warns(match="the time limit was reached"):
        model = SVC(C=1e6, tol=1e-9, max_iter=-1, time_limit=1e-9).fit(X, y)
    assert model.status_ is Status.TIME_LIMIT


def test_many_small_problems_without_a_limit_of_iterations_go_on_with_other_solvers(monkeypatch):
    """The leaf's own limit of steps is not the user's: nobody is told to raise max_iter."""
    X, y = points(90)
    y = np.arange(90) % 3
    monkeypatch.setattr(small_problems, "pair_patience", lambda gram, n: np.zeros(np.shape(n)))
    model = SVC(C=10.0).fit(X, y)
    assert [found.violation < 1e-3 for found in model.certificates_] == [True] * 3
    with pytest.warns(match="raise max_iter"):
        SVC(C=10.0, max_iter=1).fit(X, y)


def test_a_class_whose_turn_comes_too_late_is_looked_at_once(monkeypatch):
    """Of many samples each look at a vector of their length counts, once for each class."""
    counts = {"_kinds": 0, "balanced": 0, "_certificate": 0}

    def counted(owner, name):
        once = getattr(owner, name)

        def count(*args):
            counts[name] += 1
            return once(*args)

        monkeypatch.setattr(owner, name, count)

    counted(fixed_sums, "_kinds")
    counted(fixed_sums.Groups, "balanced")
    monkeypatch.setattr(fixed_sums.Groups, "multipliers", lambda *_: pytest.fail("another look"))
    counted(QP, "_certificate")
    X, _ = points(2000)
    with pytest.warns(match="time limit"):
        LinearSVC(loss="hinge", time_limit=1e-9, n_jobs=1).fit(X, np.arange(2000) % 10)
    assert counts == dict.fromkeys(counts, 10)


@pytest.mark.parametrize(
    ("solver", "loss", "limit"),
    [
        ("decomposition", "hinge", 25.0),
        ("mpd", "hinge", 20.0),
        ("sor", "hinge", 20.0),
        ("newton", "squared_hinge", 20.0),
        ("nearest-point", "squared_hinge", 60.0),
    ],
)
def test_the_product_at_the_end_is_within_the_limit(solver, loss, limit, monkeypatch):
    """Where kernel values take time, each as long as it has bytes, and steps on them; or takes half of the limit."""
    now = [0.0]
    for place in (monitor, base, lone_rows):
        monkeypatch.setattr(place, "clock", lambda: now[0])

    def slow_rows(slab, slot, *others, steps_and_rows=lone_rows.steps_and_rows):
        free = others[-1]
        before, found = int(free[0]), steps_and_rows(slab, slot, *others)
        passes = int(free[0]) - before + found[0]  # a step takes as long as a row
        now[0] += 1e-6 * passes * slab.shape[1] * slab.dtype.itemsize
        return found

    def slow(function, right_at):
        def computing(kernel, left, *others):
            right = others[right_at]
            now[0] += 1e-6 * left.n * right.n * left.dtype.itemsize
            return function(kernel, left, *others)

        return computing

    monkeypatch.setattr(kernel_gram, "cross", slow(kernel_gram.cross, 0))
    monkeypatch.setattr(kernel_gram, "weigh", slow(kernel_gram.weigh, 1))
    monkeypatch.setattr(base, "PIECE_EVALS", 1 << 16)
    monkeypatch.setattr(lone_rows, "steps_and_rows", slow_rows)
    monkeypatch.setattr(cache, "PIECE_EVALS", 1 << 16)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 5))
    y = np.sign(X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(6000))
    with pytest.warns(ConvergenceWarning):
        machine = SVC(C=10.0, solver=solver, loss=loss, time_limit=limit).fit(X, y)
    assert machine.status_ is Status.TIME_LIMIT
    product = 8e-6 * len(machine.support_) * len(X)
    assert now[0] < 1.1 * limit + max(0.0, product - 0.5 * limit)


def test_a_limit_counts_from_the_call_of_fit(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(monitor, "clock", lambda: now[0])

    def first(X):
        now[0] += 10.0
        return X[:, 0]

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.choice([-1.0, 1.0], 40)
    with pytest.warns(ConvergenceWarning):
        machine = SVC(parametric=[first], time_limit=5.0).fit(X, y)
    assert machine.status_ is Status.TIME_LIMIT


def test_sweeps_over_all_classes_end_in_between(monkeypatch):
    """A sweep is cut into pieces that are the same steps; a stop in the first leaves what the samples so far say."""
    X, _ = points(400)
    y = np.arange(400) % 4
    machine = LinearSVC(multi_class="crammer_singer", tol=1e-6)
    whole = clone(machine).fit(X, y)
    monkeypatch.setattr(crammer_singer, "LOOK_WORK", 100 * X.shape[1] * 4)
    seen = []
    sweep = crammer_singer.sweep
    monkeypatch.setattr(crammer_singer, "sweep", lambda *args: seen.append(len(args[6])) or sweep(*args))
    np.testing.assert_array_equal(clone(machine).fit(X, y).coef_, whole.coef_)
    assert max(seen) <= 100
    seen.clear()
    stopped = clone(machine).set_params(callback=lambda step: bool(seen))
    monkeypatch.setattr(monitor, "CALL_EVERY_SECONDS", -1.0)
    with pytest.warns(ConvergenceWarning):
        stopped.fit(X, y)
    assert len(seen) == 1 and stopped.status_ is Status.CALLBACK
    assert stopped.certificate_.gap >= whole.certificate_.gap
