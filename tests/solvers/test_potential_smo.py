"""The Potential SVM: the paper's solver with and without each of its parts, and all others, against the referee."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso

from cases import takes, verdict_on
from maxmargin.formulations import PSVM, Samples
from maxmargin.gram import Relation, relation
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import SOLVERS, PotentialSMO, solve
from maxmargin.solvers.parts.potential_steps import pair_minimum

SWITCHES = ("pair", "block", "annealing")
EIGHT = [dict(zip(SWITCHES, on, strict=True)) for on in product((True, False), repeat=3)]
OTHERS = [name for name, make in SOLVERS.items() if make.form is QP and name != "potential-smo"]


def relations():
    """Matrices K of every kind, with targets."""
    rng = np.random.default_rng(0)
    tall, wide = rng.normal(size=(50, 20)), rng.normal(size=(20, 50))
    for K in (tall, wide):
        K[:, 2] = 1.5  # constant
        K[:, 4], K[:, 5] = K[:, 3], -7.0 * K[:, 3]  # duplicated, and in another unit
    sparse = np.where(rng.random((30, 40)) < 0.15, rng.normal(size=(30, 40)), 0.0)
    low = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 30))
    similar = rng.normal(size=(35, 35))
    cases = {
        "tall": tall,
        "wide": wide,
        "sparse": sp.csr_array(sparse),
        "rank 4": low,
        "indefinite": similar + similar.T,
    }
    for name, K in cases.items():
        y = np.asarray(K @ np.where(np.arange(K.shape[1]) % 3, 0.0, 1.0)) + 0.5 * rng.normal(size=K.shape[0])
        yield name, K, y


CASES = {name: (K, y) for name, K, y in relations()}
COSTS = (1e-2, 1.0, 1e4)
EPSILON = 0.05


def problem(name, C, epsilon=EPSILON):
    K, y = CASES[name]
    weight = np.ones(len(y))
    return PSVM(C, epsilon).qp(Samples(Relation.of(K, weight), y, weight))


@pytest.fixture(scope="module")
def verdicts():
    return {(name, C): verdict_on(problem(name, C)) for name in CASES for C in COSTS}


def check(found, qp, best):
    assert found.status is Status.CONVERGED
    above = qp.objective(found.beta) - best.objective
    scale = abs(best.objective)
    assert above <= 1e-6 * scale
    assert found.certificate.gap >= above - 1e-7 * scale
    assert found.certificate.infeasibility == 0.0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize("on", EIGHT, ids=lambda on: "+".join(s for s in SWITCHES if on[s]) or "single")
def test_eight_variants(verdicts, name, C, on):
    qp = problem(name, C)
    check(solve(qp, PotentialSMO(**on), tol=1e-6), qp, verdicts[name, C])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize("solver", [*OTHERS, "auto"])
def test_other_solvers(verdicts, name, C, solver):
    qp = problem(name, C)
    if solver == "auto" or takes(solver, qp):
        check(solve(qp, solver, tol=1e-6), qp, verdicts[name, C])


@pytest.mark.parametrize("on", EIGHT, ids=lambda on: "+".join(s for s in SWITCHES if on[s]) or "single")
def test_a_cache_of_two_rows_is_enough(verdicts, on):
    qp = problem("tall", 1.0)
    two = PotentialSMO(**on, cache_size=2.0 * 8 * qp.n / 2**20)
    check(solve(qp, two, tol=1e-6), qp, verdicts["tall", 1.0])


def brute_force(gi, gk, Q, ai, ak, box):
    """The minimum of a convex function of two variables in a box, by its edges."""

    def value(i, k):
        d = np.array([i - ai, k - ak])
        return gi * d[0] + gk * d[1] + 0.5 * d @ Q @ d

    low_i, high_i, low_k, high_k = box
    points = []
    free = np.array([ai, ak]) - np.linalg.solve(Q, [gi, gk])
    if low_i <= free[0] <= high_i and low_k <= free[1] <= high_k:
        points.append(tuple(free))
    for i in (low_i, high_i):
        points.append((i, np.clip(ak - (gk + Q[0, 1] * (i - ai)) / Q[1, 1], low_k, high_k)))
    for k in (low_k, high_k):
        points.append((np.clip(ai - (gi + Q[0, 1] * (k - ak)) / Q[0, 0], low_i, high_i), k))
    return min(points, key=lambda p: value(*p)), value, free


def test_pair_steps_in_all_six_configurations():
    rng = np.random.default_rng(0)
    seen = dict.fromkeys("ABCDEF", 0)
    for _ in range(4000):
        Q = np.array([[1.0, rng.uniform(-0.99, 0.99)], [0.0, 1.0]])
        Q[1, 0] = Q[0, 1]
        box = [bound for s in rng.choice([-1, 1], 2) for bound in ((0.0, 1.0) if s > 0 else (-1.0, 0.0))]
        ai, ak = rng.uniform(box[0], box[1]), rng.uniform(box[2], box[3])
        gi, gk = 2.0 * rng.normal(size=2)
        best, value, free = brute_force(gi, gk, Q, ai, ak, box)
        found = pair_minimum(ai, ak, gi, gk, 1.0, 1.0, Q[0, 1], *box)
        assert value(*found) <= value(*best) + 1e-12
        assert box[0] <= found[0] <= box[1] and box[2] <= found[1] <= box[3]
        out_i, out_k = not box[0] <= free[0] <= box[1], not box[2] <= free[1] <= box[3]
        corner = np.clip(free[0], *box[:2]), np.clip(free[1], *box[2:])
        if out_i and out_k:
            seen["F" if np.allclose(found, corner) else "D" if found[0] == corner[0] else "E"] += 1
        else:
            seen["B" if out_i else "C" if out_k else "A"] += 1
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("q", [1.0, -1.0])
def test_a_pair_of_equal_columns_moves(q):
    """(22) divides by 0 there."""
    i, k = pair_minimum(0.0, 0.5, -2.0, -0.1 * q, 1.0, 1.0, q, 0.0, 1.0, 0.0, 1.0)
    assert i == 1.0 and 0.0 <= k <= 1.0


def test_annealing_changes_fewer_variables(monkeypatch):
    """What it is for (§3.3): variables that end at 0 are left there. Counted by rows of Q that were asked for."""
    monkeypatch.setattr(relation, "WHOLE", 0)
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(120, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    weight = np.ones(120)
    qp = PSVM(1e3, 0.01).qp(Samples(Relation.of(K, weight), y, weight))
    evals = {}
    for annealing in (True, False):
        gram = Relation.of(K, weight)
        solution = solve(PSVM(1e3, 0.01).qp(Samples(gram, y, weight)), PotentialSMO(annealing=annealing), tol=1e-2)
        evals[annealing] = gram.evals
        assert solution.status.converged and qp.certificate(solution.beta, np.zeros(0)).violation <= 1e-2
    assert evals[True] < evals[False]


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
@pytest.mark.parametrize("name", ["tall", "wide"])
def test_without_a_box_it_is_a_lasso(name, epsilon):
    K, y = CASES[name]
    qp = problem(name, np.inf, epsilon)
    found = solve(qp, "potential-smo", tol=1e-9)
    assert found.certificate.relative_gap < 1e-7  # proven by the scaled residual: there is no box
    away = K - K.mean(axis=0)
    norm = np.linalg.norm(away, axis=0)
    matrix = away / np.where(norm > 1e-9, norm, np.inf)
    target = (y - y.mean()) / y.std()
    lasso = Lasso(alpha=epsilon / len(y), fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    theirs = lasso.fit(matrix, target).coef_
    np.testing.assert_allclose(matrix @ found.beta, matrix @ theirs, atol=1e-6 * np.linalg.norm(target))
    assert qp.objective(found.beta) == pytest.approx(qp.objective(theirs), rel=1e-9)


def test_equality_constraints_are_refused():
    qp = QP(np.eye(3), -np.ones(3), 0.0, 1.0, np.ones((1, 3)), [1.0])
    assert not takes("potential-smo", qp)


def test_a_problem_without_a_minimum_is_said_to_have_none():
    qp = QP(np.diag([1.0, 0.0]), np.array([-1.0, -1.0]), -np.inf, np.inf)
    for pair in (True, False):
        assert solve(qp, PotentialSMO(pair=pair)).status is Status.UNBOUNDED


def test_limits_of_iterations_are_kept():
    found = solve(problem("wide", 1.0), "potential-smo", tol=1e-9, max_iter=20)
    assert found.status is Status.MAX_ITERATIONS and found.n_iter <= 21


def test_a_good_start_needs_no_step():
    qp = problem("tall", 1.0)
    first = solve(qp, "potential-smo", tol=1e-8)
    again = solve(qp, "potential-smo", first.beta, tol=1e-7)
    assert again.n_iter <= 1 and again.status is Status.CONVERGED
