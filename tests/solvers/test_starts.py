"""Warm starts, repetition, threads and invariances: what may and what may not change a result."""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import (
    EVERYTHING_LARGE,
    GENERAL_SOLVERS,
    ROWS_ON_DEMAND,
    VARIANTS,
    Variant,
    fast_problem,
    known,
    make_data,
    plain_problem,
    verdict_on,
    with_sizes,
)
from maxmargin import threads
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, NuSVR, OneClass, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.solution import Status
from maxmargin.solvers import solve
from maxmargin.solvers.parts.working_sets import Sizes
from referee import naive_kernel

every_solver = pytest.mark.parametrize("solver", GENERAL_SOLVERS)
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


@every_solver
@every_variant
@pytest.mark.parametrize("kind", ["plain", "duplicated"])
def test_a_solution_as_a_start_leaves_nothing_to_do(solver, variant, kind):
    qp = fast_problem(variant, "rbf", make_data(kind))
    cold = solve(qp, solver, tol=1e-4)
    warm = solve(qp, solver, start=cold.beta, tol=2e-4)
    assert warm.status is Status.CONVERGED
    assert warm.n_iter <= max(3, cold.n_iter // 10)
    assert warm.certificate.dual == pytest.approx(cold.certificate.dual, rel=1e-5, abs=1e-6)


@every_solver
@every_variant
@pytest.mark.parametrize("start", ["zeros", "random", "outside the box", "another problem"])
def test_any_start_leads_to_the_optimum(solver, variant, start):
    plain, best = known(variant, "rbf", "plain")
    rng = np.random.default_rng(0)
    if start == "another problem":
        beta = verdict_on(plain_problem(variant, "laplacian", make_data("plain"))).beta
    else:
        beta = {"zeros": 0.0, "random": 1.0, "outside the box": 100.0}[start] * rng.normal(size=plain.n)
    given = beta.copy()
    solution = solve(plain, solver, start=beta, tol=1e-6)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.infeasibility < 1e-9 * max(1.0, np.abs(solution.beta).sum())
    assert plain.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6, abs=1e-6)
    np.testing.assert_array_equal(beta, given)


@every_variant
def test_warm_start_of_merged_duplicates(variant):
    options = {"newton": False, "sizes": Sizes(merge=0)}
    qp = fast_problem(variant, "rbf", make_data("duplicated"))
    cold = solve(qp, "smo", tol=1e-4, **options)
    warm = solve(qp, "smo", start=cold.beta, tol=2e-4, **options)
    assert warm.status is Status.CONVERGED
    assert warm.n_iter <= max(3, cold.n_iter // 10)


@every_solver
@every_variant
def test_same_seed_same_bits(solver, variant):
    first, second = (solve(fast_problem(variant, "rbf", make_data("plain")), solver) for _ in range(2))
    np.testing.assert_array_equal(first.beta, second.beta)
    np.testing.assert_array_equal(first.multipliers, second.multipliers)
    assert first.certificate == second.certificate


@pytest.mark.parametrize("seed", [0, 1])
def test_same_seed_same_bits_in_growing_samples(seed):
    qp = fast_problem(VARIANTS[0], "rbf", make_data("plain", 250))
    first, second = (solve(qp, "decomposition", seed=seed, working_set=20, sizes=EVERYTHING_LARGE) for _ in range(2))
    np.testing.assert_array_equal(first.beta, second.beta)


@every_solver
@pytest.mark.parametrize(
    "formulation",
    [CSVC(), CSVC(loss="squared_hinge"), NuSVC(), EpsilonSVR(), OneClass()],
    ids=lambda f: type(f).__name__,
)
@pytest.mark.parametrize("large", [False, True])
def test_threads_change_nothing(solver, formulation, large):
    options = with_sizes(solver, EVERYTHING_LARGE) if large else {}
    data = make_data("plain", 300)
    betas = [
        solve(
            formulation.qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X, n_jobs=jobs), data.labels, data.weight)),
            solver,
            **options,
        ).beta
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(betas[0], betas[1])


@pytest.mark.parametrize("make", [sp.csr_matrix, np.asarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("working_set", [2, 64])
def test_threads_that_share_the_work_change_nothing(make, working_set, monkeypatch):
    """Long enough rows, and no work too small for a second thread."""
    monkeypatch.setattr(threads, "PIECE_WORK", 1000)
    data = make_data("plain", 2500)
    X = make(np.where(np.abs(data.X) > 1.2, data.X, 0.0))
    betas = [
        solve(
            CSVC(C=0.1).qp(Samples(KernelGram(Kernel("rbf", 0.5), X, n_jobs=jobs), data.labels, data.weight)),
            "decomposition",
            working_set=working_set,
            cache_size=10.0,
            sizes=ROWS_ON_DEMAND,
        ).beta
        for jobs in (1, 2, 3)
    ]
    for beta in betas[1:]:
        np.testing.assert_array_equal(beta, betas[0])


@every_solver
@every_variant
def test_order_of_the_points_does_not_matter(solver, variant):
    data = make_data("weighted")
    _, best = known(variant, "rbf", "weighted")
    order = np.random.default_rng(1).permutation(60)
    gram = KernelGram(Kernel("rbf", 0.5), data.X[order])
    qp = variant.formulation.qp(Samples(gram, variant.targets(data)[order], data.weight[order]))
    solution = solve(qp, solver, tol=1e-6)
    assert -solution.certificate.dual == pytest.approx(best.objective, rel=1e-6, abs=1e-6)


def decide(variant, X, y, weight, at, solver):
    gram = KernelGram(Kernel("rbf", 0.5), X)
    qp = variant.formulation.qp(Samples(gram, y, weight))
    decision = variant.formulation.decision(qp, solve(qp, solver, tol=1e-9))
    return naive_kernel("rbf", at, X, gamma=0.5) @ decision.coef + decision.intercept


@every_solver
@every_variant
def test_a_weight_is_a_number_of_copies(solver, variant):
    data = make_data("plain", 40)
    copies = np.random.default_rng(2).integers(1, 4, 40)
    y = variant.targets(data)
    weighted = decide(variant, data.X, y, copies.astype(float), data.X, solver)
    index = np.repeat(np.arange(40), copies)
    copied = decide(variant, data.X[index], y[index], np.ones(len(index)), data.X, solver)
    np.testing.assert_allclose(weighted, copied, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize(
    "variant", [Variant("c_svc", CSVC()), Variant("epsilon_svr", EpsilonSVR()), Variant("nu_svr", NuSVR())], ids=str
)
def test_scale_of_the_kernel_against_the_cost(variant, scale):
    """K times s and C over s give the same function: coefficients over s."""
    data = make_data("plain")
    K = plain_problem(Variant("c_svc", CSVC()), "rbf", data).H.dense()
    y = variant.targets(data)
    one = solve(variant.formulation.qp(Samples(PrecomputedGram(K), y, data.weight)), "smo", tol=1e-7)
    other = solve(variant.formulation.qp(Samples(PrecomputedGram(scale * K), y, data.weight / scale)), "smo", tol=1e-7)
    assert other.certificate.dual * scale == pytest.approx(one.certificate.dual, rel=1e-6)
