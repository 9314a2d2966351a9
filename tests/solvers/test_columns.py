"""Working sets of columns: every way of solving on a set, and what becomes of sets for which there is no room."""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import verdict_on
from maxmargin import PSVR
from maxmargin.formulations import PSVM, Samples
from maxmargin.gram import Kernel, Relation, relation
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import Columns, columns, solve
from maxmargin.solvers.parts.sparse_columns import SparseColumns

RNG = np.random.default_rng(0)
SPARSE = np.where(RNG.random((60, 90)) < 0.15, RNG.normal(size=(60, 90)) + 0.5, 0.0)
SPARSE[:, 7] = SPARSE[:, 8]  # duplicated
SPARSE[:, 9] = 1.0  # constant
WEIGHT = RNG.choice([0.5, 1.0, 3.0], 60)
Y = SPARSE[:, :10].sum(axis=1) + 0.3 * RNG.normal(size=60)


def problem(K, C, epsilon=0.05):
    return PSVM(C, epsilon).qp(Samples(Relation.of(K, WEIGHT), Y, WEIGHT))


def check(found, qp):
    best = verdict_on(qp).objective
    assert found.status is Status.CONVERGED
    assert qp.objective(found.beta) - best <= 1e-6 * abs(best)


@pytest.mark.parametrize("C", [0.05, 1.0, 1e4, np.inf])
@pytest.mark.parametrize("first", [1, 10, 200])
def test_sweeps_over_sparse_columns(monkeypatch, C, first):
    """With the correction of rank one, weights, duplicates and a constant column."""
    monkeypatch.setattr(columns.Part, "solve", lambda *_: pytest.fail("the matrix was computed"))
    qp = problem(sp.csr_array(SPARSE), C)
    check(solve(qp, Columns(first=first, cheap=0, sparse_step=0), tol=1e-6), qp)


def test_sparse_columns_without_a_box_are_a_model(monkeypatch):
    monkeypatch.setattr(SparseColumns, "_swept", lambda *_: pytest.fail("steps were made in a box"))
    qp = problem(sp.csr_array(SPARSE), np.inf)
    check(solve(qp, Columns(first=10, cheap=0, sparse_step=0), tol=1e-6), qp)


@pytest.mark.parametrize("C", [0.05, 1.0, 1e4, np.inf])
@pytest.mark.parametrize("first", [1, 10, 200])
def test_sets_too_large_for_many_newton_steps(C, first):
    qp = problem(SPARSE, C)
    check(solve(qp, Columns(first=first, cheap=0), tol=1e-6), qp)


def test_what_is_known_of_the_matrix_is_not_computed_again(monkeypatch):
    monkeypatch.setattr(relation, "WHOLE", 0)
    gram = Relation.of(SPARSE)
    first = columns.Held.of(gram, np.array([3, 5, 20]), None)
    evals = gram.evals
    second = columns.Held.of(gram, np.array([2, 3, 20, 40]), first)
    np.testing.assert_allclose(second.H, gram.dense()[np.ix_(second.index, second.index)], atol=1e-14)
    assert evals == 9 and second.H.shape == (4, 4)


@pytest.mark.parametrize(("C", "epsilon", "few"), [(1e4, 2.0, True), (0.3, 2.0, False), (1e4, 0.001, False)])
def test_rows_of_a_small_matrix_are_computed_when_they_are_wanted(C, epsilon, few):
    """A few of them one by one; all of them, as soon as it has come to many."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(200, 3)), rng.choice([0.5, 1.0, 2.0], 200)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200)
    gram = Relation.over_kernel(Kernel("rbf", 0.5), X, None, weight)
    gram.in_turn = True
    qp = PSVM(C, epsilon).qp(Samples(gram, y, weight))
    found = solve(qp, "columns", tol=1e-6)
    check(found, qp)
    held = gram.last_set
    used = np.flatnonzero(found.beta)
    assert len(used) and held.known[used].all() and held.known.all() != few
    np.testing.assert_allclose(held.H[held.known], gram.dense()[held.known], atol=1e-13)
    part = columns.Held.of(gram, np.arange(0, 200, 3), held)  # asks for rows that nobody wanted
    np.testing.assert_allclose(part.H, gram.block(part.index), atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_problems_side_by_side_do_not_see_each_other(seed):
    """Threads solve the classes of a machine in any order: what one knows of Q must not change another's bits."""
    rng = np.random.default_rng(seed)
    X, found = rng.normal(size=(40, 3)), []
    targets = np.sin(3 * X[:, :2]).T + 0.3 * rng.normal(size=(2, 40))
    for before in (False, True):
        gram = Relation.over_kernel(Kernel("rbf", 0.5), X)
        one, other = (PSVM(1000.0, 0.1).qp(Samples(gram, y, np.ones(40))) for y in targets)
        if before:
            solve(one, "columns", tol=1e-3)
        found.append(solve(other, "columns", tol=1e-3).beta)
    assert np.array_equal(*found)


def test_a_start_has_its_rows_of_a_small_matrix():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    qp = PSVM(10.0, 1.0).qp(Samples(Relation.over_kernel(Kernel("rbf", 0.5), X), y, np.ones(150)))
    for count in (3, 100):
        start = np.zeros(150)
        start[rng.choice(150, count, replace=False)] = rng.normal(size=count)
        qp.H.last_set = None
        check(solve(qp, "columns", start=start, tol=1e-6), qp)


def test_without_room_for_a_matrix_others_go_on(monkeypatch):
    qp = problem(SPARSE, 1.0)
    best = verdict_on(qp)
    monkeypatch.setattr(columns.memory, "fits", lambda size: False)
    alone = solve(qp, "columns", tol=1e-6)
    assert alone.status is Status.EXHAUSTED
    monkeypatch.undo()
    monkeypatch.setattr(columns.Held, "of", lambda *_: pytest.fail("there is no room"))
    monkeypatch.setattr(columns.Columns, "solve", lambda self, qp, *_: alone)
    found = solve(qp, "auto", tol=1e-6)
    assert found.solver != "columns" and qp.objective(found.beta) == pytest.approx(best.objective, rel=1e-6)


@pytest.mark.parametrize("K", [SPARSE, sp.csr_array(SPARSE)], ids=["dense", "sparse"])
def test_the_clock_is_looked_at(K):
    found = solve(problem(K, np.inf, 1e-4), "columns", monitor=Monitor(time_limit=1e-9), tol=1e-12)
    assert found.status is Status.TIME_LIMIT and np.isfinite(found.beta).all()


def test_any_matrix_without_constraints_is_taken():
    A = RNG.normal(size=(30, 30))
    qp = QP(A @ A.T, RNG.normal(size=30), -0.3, 0.5, eps=np.full(30, 0.1))
    check(solve(qp, "columns", tol=1e-8), qp)


def test_a_working_set_has_violators_of_all_kinds():
    """The 100 that violate most are all but copies of each other."""
    rng = np.random.default_rng(1)
    first, other = rng.normal(size=(2, 300, 1))
    K = np.hstack([first + 0.01 * rng.normal(size=(300, 100)), other + 0.01 * rng.normal(size=(300, 400))])
    qp = PSVM(np.inf, 0.1).qp(Samples(Relation.of(K), (2 * first + other)[:, 0], np.ones(300)))
    chosen = Columns(first=20)._chosen(qp, np.zeros(500), qp.p, 1.0, None)
    assert len(chosen) == 20 and (chosen < 100).any() and (chosen >= 100).any()


def test_a_path_takes_few_passes(monkeypatch):
    """The product of one ε is that of the next, a set with all that matters is kept, and 0 needs no product."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2000))
    y = X[:, :5].sum(axis=1) + rng.normal(size=60)
    passes, sets = [], []
    along, of = Relation.along, columns.Held.of
    monkeypatch.setattr(Relation, "along", lambda self, w: (passes.append(1), along(self, w))[1])
    monkeypatch.setattr(columns.Held, "of", lambda gram, W, before: (sets.append(W), of(gram, W, before))[1])
    path = PSVR(kernel="dyadic", C=np.inf).path(X, y, n_epsilons=50)
    assert len(passes) <= 1.5 * len(path.epsilons)
    assert len({W.tobytes() for W in sets}) < len(path.epsilons)
