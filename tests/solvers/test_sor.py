"""Adatron and SOR: steps on one variable, for kernels and over rows of features."""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import VARIANTS, fast_problem, known, make_data, verdict_on
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Factored, Ridged, Shifted
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.rows import Dense, Rows, Sparse
from maxmargin.solution import Status
from maxmargin.solvers import SOR, Adatron, solve
from maxmargin.solvers.parts import row_sweeps
from maxmargin.solvers.parts.row_sweeps import BETA, EPS, EXTRA, LOWER, RIDGE, UPPER, P, RowSweeps
from maxmargin.solvers.parts.working_sets import Sizes

FREE_BIAS = next(v for v in VARIANTS if v.name == "c_svc")
TIGHT = 1e-7


def sample(n=80, d=5, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < density, rng.normal(size=(n, d)), 0.0)
    y = np.where(X @ rng.normal(size=d) + 0.3 + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def linear_problem(X, y, formulation=None, constant=0.0):
    gram = Factored(X)
    formulation = formulation or CSVC(C=1.5)
    return formulation.qp(Samples(Shifted(gram, constant) if constant else gram, y, np.ones(len(y))))


def check_optimum(solution, qp, tol=1e-6):
    best = verdict_on(qp)
    scale = max(1.0, abs(best.objective))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= tol
    assert solution.certificate.infeasibility < 1e-12 * max(1.0, np.abs(solution.beta).sum())
    assert qp.objective(solution.beta) <= best.objective + (tol + TIGHT) * scale
    assert solution.certificate.primal >= -best.objective - TIGHT * scale
    return best


# -- steps ---------------------------------------------------------------------------------------------------


def test_adatron_takes_no_equality_constraint():
    plain, _ = known(FREE_BIAS, "rbf", "plain")
    with pytest.raises(ValueError, match='adatron was asked for; found 1 equality .*; leave .* use "sor" or "mpd"'):
        Adatron().solve(plain)


@pytest.mark.parametrize("omega", [0.0, 2.0, -1.0, np.nan])
def test_relaxation_outside_its_range(omega):
    with pytest.raises(ValueError, match=r"omega=.* was asked for; found .*; choose it in \(0, 2\)"):
        SOR(omega=omega)


@pytest.mark.parametrize("omega", [0.4, 1.0, 1.5, 1.9])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.name in ("c_svc", "epsilon_svr")], ids=str)
def test_any_relaxation_finds_the_optimum(omega, kernel, variant):
    plain, best = known(variant, kernel, "plain")
    solution = solve(fast_problem(variant, kernel, make_data("plain")), "sor", omega=omega, tol=1e-5)
    assert solution.status is Status.CONVERGED
    assert plain.objective(solution.beta) == pytest.approx(best.objective, rel=2e-5)
    assert solution.certificate.infeasibility < 1e-11


def test_without_a_box_it_solves_a_linear_system():
    """SOR on Hβ = −p."""
    rng = np.random.default_rng(0)
    B = rng.normal(size=(12, 12))
    H, p = B @ B.T + np.eye(12), rng.normal(size=12)
    far = np.full(12, 1e9)
    for omega in (0.7, 1.0, 1.4):
        solution = SOR(omega=omega).solve(QP(H, p, -far, far), Goal(violation=1e-10))
        np.testing.assert_allclose(H @ solution.beta, -p, atol=1e-9)


def test_working_sets_with_constraints():
    """More variables than a working set has, free bias, rows on demand."""
    for variant in (v for v in VARIANTS if v.name in ("c_svc", "nu_svc", "epsilon_svr")):
        qp = fast_problem(variant, "rbf", make_data("plain", 300))
        best = verdict_on(qp)
        solution = solve(qp, "sor", tol=1e-4, sizes=Sizes(matrix=0, shrink=50))
        assert solution.status is Status.CONVERGED
        assert solution.certificate.violation < 1e-4
        assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-4, abs=1e-6)


# -- leaves against a plain twin -------------------------------------------------------------------------------


def plain_sweep(Z, state, w, v, active, omega, extra):
    """One sweep without shrinking, by the formulas."""
    for i in active:
        row = state[i]
        g = Z[i] @ w + row[P] + row[RIDGE] * row[BETA] + row[EXTRA : EXTRA + extra] @ v
        q = Z[i] @ Z[i] + row[RIDGE] + row[EXTRA : EXTRA + extra] @ row[EXTRA : EXTRA + extra]
        u = q * row[BETA] - g
        least = np.clip(np.sign(u) * max(abs(u) - row[EPS], 0.0) / q, row[LOWER], row[UPPER])
        new = np.clip(row[BETA] + omega * (least - row[BETA]), row[LOWER], row[UPPER])
        if least == 0.0 and row[EPS] > 0.0:
            new = 0.0
        change = new - row[BETA]
        row[BETA] = new
        w += change * Z[i]
        v += change * row[EXTRA : EXTRA + extra]


@pytest.mark.parametrize("omega", [1.0, 1.3])
@pytest.mark.parametrize("kind", ["dense", "dense32", "csr", "csr64"])
@pytest.mark.parametrize("formulation", [CSVC(C=0.7), CSVC(loss="squared_hinge"), EpsilonSVR(epsilon=0.2)], ids=str)
def test_a_sweep_is_what_the_formulas_say(kind, formulation, omega):
    X, y = sample(40, 7, seed=3)
    if kind == "dense32":
        X = X.astype(np.float32)
    rows = sp.csr_array(X) if kind.startswith("csr") else X
    if kind == "csr64":
        rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    qp = linear_problem(rows, y, formulation, constant=0.5)
    form = Ridged(Factored(rows), qp.H.ridge) if qp.H.ridge is not None else Factored(rows)
    run = RowSweeps(qp, form.factor().rows, qp.H.ridge, 0.5, omega, 0, Monitor())
    run.shrink = np.inf
    run._begin(None)
    state, w, v = run.state.copy(), run.w.copy(), run.v.copy()
    for _ in range(3):
        order = run.pieces[0].active.copy()
        row_sweeps.shuffle(order, run.seed)
        t = run.t.copy()
        run._sweep(1, 10**9, (0.0, 0.0))
        plain_sweep(X.astype(float), state, w, v, order, omega, run.extra)
        np.testing.assert_allclose(run.beta, state[:, BETA], atol=1e-9)
        np.testing.assert_allclose(run.w, w, atol=1e-9)
        hard = run.hard
        np.testing.assert_allclose(run.t[hard], v[hard], atol=1e-9)
        v[hard] += v[hard] - t[hard]
        np.testing.assert_allclose(run.v, v, atol=1e-9)
        state[:, BETA], w, v = run.beta, run.w.copy(), run.v.copy()
        assert run.objective == pytest.approx(qp.objective(run.beta), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "formulation", [CSVC(C=0.7), CSVC(C=3.0, fit_intercept=False), EpsilonSVR(epsilon=0.2)], ids=str
)
def test_sweeps_that_share_a_call_are_the_same(formulation):
    X, y = sample(60, 5, seed=4)
    qp = linear_problem(X, y, formulation, constant=0.5)
    alone, together = (RowSweeps(qp, Rows.of(X), None, 0.5, 1.0, 0, Monitor()) for _ in range(2))
    for run, number in ((alone, 1), (together, 30)):
        run._begin(None)
        while run.sweeps < 30:
            run._sweep(number, 10**9, (0.0, 0.0))
    np.testing.assert_array_equal(alone.beta, together.beta)
    np.testing.assert_array_equal(alone.v, together.v)
    assert (alone.visits, alone.seed) == (together.visits, together.seed)
    assert alone.objective == pytest.approx(together.objective, rel=1e-12)
    assert together.objective == pytest.approx(qp.objective(together.beta), rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_few_rows_that_are_left_are_solved_for(loss, fit_intercept, constant):
    rng = np.random.default_rng(5)
    X, direction = rng.normal(size=(300, 60)), rng.normal(size=60)
    y = np.sign(X @ direction)
    qp = linear_problem(X, y, CSVC(C=100.0, loss=loss, fit_intercept=fit_intercept), constant)
    solution = SOR().solve(qp, Goal(gap=1e-2))  # far from exact without
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap < 1e-9
    assert qp.infeasibility(solution.beta) < 1e-9


@pytest.mark.parametrize("most", [1, 3, 7])
def test_no_more_sweeps_than_asked_for(most):
    X, y = sample(400, 20, seed=6)
    qp = linear_problem(X, y, CSVC(), 0.0)
    solution = SOR().solve(qp, Goal(gap=1e-12, max_iter=most))
    assert (solution.status, solution.n_iter) == (Status.MAX_ITERATIONS, most)


def test_sweeps_that_lead_nowhere_are_given_up():
    X, y = sample(400, 20, seed=6)
    qp = linear_problem(1e3 * X, y, CSVC(C=1e6), 0.0)
    few = SOR(patience=3.0).solve(qp, Goal(gap=1e-12))
    assert few.status is Status.EXHAUSTED
    assert SOR(hope=0.0, shrinking=False).solve(qp, Goal(gap=1e-12)).n_iter == row_sweeps.TRIAL_SWEEPS


def test_a_shuffle_is_a_permutation_and_no_place_is_preferred():
    seed = 12345
    first = np.zeros(8)
    for _ in range(4000):
        index = np.arange(8)
        seed = row_sweeps.shuffle(index, seed)
        assert sorted(index) == list(range(8))
        first[index[0]] += 1
    assert (np.abs(first - 500) < 110).all()  # five standard deviations


# -- rows of every kind --------------------------------------------------------------------------------------


def kinds(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    csr = sp.csr_array(X)
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return {
        "dense": X,
        "float32": X.astype(np.float32),
        "columns": np.asfortranarray(X),
        "integers": np.round(3 * X).astype(int),
        "csr": csr,
        "csr with int64": wide,
        "parts": [X[:30], X[30:31], X[31:]],
        "parts of csr": [csr[:50], csr[50:]],
        "file": str(tmp_path / "X.npy"),
        "map": np.load(tmp_path / "X.npy", mmap_mode="r"),
    }


KINDS = list(kinds(np.zeros((60, 2)), __import__("pathlib").Path(__import__("tempfile").mkdtemp())))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind(kind, far, tmp_path):
    """As they are, or when they are too many to be copied."""
    X, y = sample()
    qp = linear_problem(Rows.of(kinds(X, tmp_path)[kind]), y)
    solver = SOR(memory=row_sweeps.Memory(copied=0, piece=800, together=3)) if far else SOR()
    check_optimum(solver.solve(qp, Goal(gap=1e-6)), qp)


def test_far_rows_come_in_pieces_that_mix_them():
    X, _ = sample(103, 5)
    memory = row_sweeps.Memory(copied=0, piece=1000, together=4)
    pieces = row_sweeps._pieces(Rows.of([X[:40].copy(), X[40:].copy()]), memory)
    assert len(pieces) == -(-103 * 5 * 8 // 1000)
    assert sorted(np.concatenate([piece.index for piece in pieces])) == list(range(103))
    for piece in pieces:
        np.testing.assert_array_equal(piece.load()[0], X[piece.index])
        assert piece.index.min() < 20 and piece.index.max() > 80


def test_blocks_of_one_array_are_one_again():
    """Split for threads, joined for sweeps: nothing is copied."""
    X, _ = sample(50_000, 5, density=1.0)
    rows = Rows.of(X, 2)
    assert len(rows.blocks) > 2
    (whole,) = row_sweeps._joined(rows.blocks)
    assert isinstance(whole, Dense) and np.shares_memory(whole.data, X) and whole.data.shape == X.shape
    np.testing.assert_array_equal(whole.data, X)
    csr = sp.csr_array(np.where(X > 1.0, X, 0.0))
    (whole,) = row_sweeps._joined(Rows.of(csr, 2).blocks)
    assert isinstance(whole, Sparse) and np.shares_memory(whole.data, csr.data)
    np.testing.assert_array_equal(whole.indptr, csr.indptr)
    other = X.copy()
    assert len(row_sweeps._joined([Dense(X[:10]), Dense(other[10:]), Dense(X[20:])])) == 3


def test_rows_without_entries_and_a_single_row():
    X, y = sample(30, 4)
    X[:5] = 0.0
    for formulation in (CSVC(), CSVC(fit_intercept=False), CSVC(loss="squared_hinge")):
        qp = linear_problem(sp.csr_array(X), y, formulation)
        check_optimum(SOR().solve(qp, Goal(gap=1e-6)), qp)
    alone = linear_problem(X[6:7], y[6:7], CSVC(fit_intercept=False))
    check_optimum(SOR().solve(alone, Goal(gap=1e-6)), alone)


# -- the bias, and any other constraint ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_a_penalised_bias_is_one_more_feature(loss):
    X, y = sample()
    formulation = CSVC(C=2.0, loss=loss, fit_intercept=False)
    shifted = linear_problem(X, y, formulation, constant=4.0)
    widened = linear_problem(np.column_stack([X, np.full(len(y), 2.0)]), y, formulation)
    best = check_optimum(SOR().solve(shifted, Goal(gap=1e-7)), shifted)
    assert check_optimum(SOR().solve(widened, Goal(gap=1e-7)), widened).objective == pytest.approx(
        best.objective, rel=1e-8
    )


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_any_number_of_constraints(k, seed):
    rng = np.random.default_rng(seed)
    X, y = sample(70, 6, seed)
    base = linear_problem(X, y, EpsilonSVR(C=0.8, epsilon=0.1, fit_intercept=False))
    A = np.vstack([np.ones(70), 10 ** rng.uniform(-2, 2, (k - 1, 1)) * (rng.normal(size=(k - 1, 70)) + 0.5)])
    inside = rng.uniform(-0.3, 0.3, 70)
    qp = QP(base.H, base.p, base.lower, base.upper, A, A @ inside, base.eps)
    solution = SOR().solve(qp, Goal(gap=1e-7))
    best = check_optimum(solution, qp, 1e-7)
    eta = solution.multipliers  # of one optimum serve all of them
    assert qp.gap(best.beta, eta, qp.gradient(best.beta, eta)) < 1e-5 * abs(best.objective)


def test_nu_machines_hold_both_sums():
    X, y = sample(100, 3)
    qp = linear_problem(X, y, NuSVC(nu=0.5))
    check_optimum(SOR().solve(qp, Goal(gap=1e-6)), qp)


# -- manners ---------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits():
    X, y = sample(200, 6)
    qp = linear_problem(X, y)
    first, again, other = (SOR(seed=seed).solve(qp, Goal(gap=1e-4)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.beta, again.beta)
    np.testing.assert_array_equal(first.multipliers, again.multipliers)
    assert not np.array_equal(first.beta, other.beta)
    assert qp.objective(first.beta) == pytest.approx(qp.objective(other.beta), rel=2e-4)


@pytest.mark.parametrize("shrinking", [True, False])
def test_shrinking_changes_no_optimum(shrinking):
    X, y = sample(400, 6)
    qp = linear_problem(X, y, CSVC(C=5.0))
    solution = SOR(shrinking=shrinking).solve(qp, Goal(gap=1e-7))
    check_optimum(solution, qp, 1e-7)
    active = solution.history.column("active")
    assert (active.min() < 400) == shrinking


def test_a_start_at_the_optimum_is_enough():
    X, y = sample(150, 6)
    for formulation in (CSVC(), CSVC(fit_intercept=False), EpsilonSVR(), CSVC(loss="huber")):
        qp = linear_problem(X, y, formulation)
        fine = SOR().solve(qp, Goal(gap=1e-7))
        again = SOR().solve(qp, Goal(gap=1e-4), fine.beta)
        assert again.status is Status.CONVERGED
        assert again.n_iter <= 3 < fine.n_iter


@pytest.mark.parametrize("formulation", [CSVC(), NuSVC(nu=0.4), CSVC(loss="squared_hinge")], ids=str)
def test_stopped_sweeps_leave_a_feasible_point(formulation):
    X, y = sample(300, 6)
    qp = linear_problem(X, y, formulation)
    best = verdict_on(qp)
    stops = {
        Status.MAX_ITERATIONS: lambda: SOR().solve(qp, Goal(gap=1e-9, max_iter=2)),
        Status.TIME_LIMIT: lambda: SOR().solve(qp, Goal(gap=1e-9), None, Monitor(time_limit=1e-9)),
        Status.CALLBACK: lambda: SOR().solve(
            qp, Goal(violation=1e-9), None, Monitor(callback=lambda step: step["iteration"] >= 3)
        ),
    }
    for status, run in stops.items():
        solution = run()
        assert solution.status is status
        assert solution.certificate.infeasibility <= 1e-12 * np.abs(solution.beta).sum()
        assert solution.certificate.gap >= qp.objective(solution.beta) - best.objective - 1e-9
        assert solution.n_iter == solution.history.column("iteration")[-1]


def test_constraints_that_no_box_can_hold():
    X, y = sample(20, 3)
    base = linear_problem(X, y)
    qp = QP(base.H, base.p, base.lower, base.upper, np.ones((1, 20)), [1000.0])
    with pytest.raises(ValueError, match="a feasible QP was asked for; found .*; widen the box"):
        SOR().solve(qp)


def test_no_minimum():
    """A feature of a variable without a bound and without curvature."""
    qp = QP(Factored(np.array([[1.0], [0.0]])), [-1.0, -1.0], [0.0, 0.0], [np.inf, np.inf])
    assert SOR().solve(qp, Goal(gap=1e-6)).status is Status.UNBOUNDED


def test_few_rows_are_not_looked_at_all_the_time():
    """A look at 8 rows takes as long as hundreds of sweeps over them: what never converges ends after fewer looks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3)) * [1e-3, 1e-6, 1e5]
    y = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    phi = np.array([X[:, 0], np.sin(X[:, 0])])  # about the same
    qp = SemiParametric(CSVC(1e3, "huber"), phi).qp(Samples(Factored(X), y, np.ones(8)))
    found = solve(qp, "sor", gap=1e-9, max_iter=20_000)
    assert found.n_iter == 20_000 and len(found.history) <= 20_000 / 40
