"""Every solver on every formulation and kernel, against the referee.

Coefficients need not be unique, so that objective, feasibility and certificate are compared.
"""

import numpy as np
import pytest

from cases import (
    ALL_VARIANTS,
    DATA,
    DEFINITE,
    fast_problem,
    known,
    make_data,
    primal_problem,
    skip_unless_takes,
    takes,
    verdict_on,
)
from maxmargin.problem import ERM, QP
from maxmargin.solution import Status
from maxmargin.solvers import SOLVERS, solve

QP_SOLVERS = [name for name, make in SOLVERS.items() if make.form is QP]
ERM_SOLVERS = [name for name, make in SOLVERS.items() if make.form is ERM]

every_solver = pytest.mark.parametrize("solver", QP_SOLVERS)
every_variant = pytest.mark.parametrize("variant", ALL_VARIANTS, ids=str)
every_kernel = pytest.mark.parametrize("kernel", DEFINITE)
all_data = pytest.mark.parametrize("kind", DATA)

ROUNDING = 2e-7  # of the objective: what the referee and float64 may be wrong by


def check_solution(solution, qp, plain, best, tol):
    """β is feasible, as good as the certificate says, and the certificate is true of the problem by its formulas."""
    beta = solution.beta
    scale = max(1.0, abs(best.objective))
    assert solution.status is Status.CONVERGED
    assert beta.shape == (qp.n,)
    assert solution.multipliers.shape == (len(qp.A),)
    assert (beta >= plain.lower).all() and (beta <= plain.upper).all()
    assert np.abs(plain.A @ beta - plain.b).max(initial=0.0) < 1e-9 * max(1.0, np.abs(beta).sum())
    certificate = solution.certificate
    assert certificate.infeasibility == pytest.approx(plain.infeasibility(beta), abs=1e-10)
    assert certificate.violation <= tol or certificate.relative_gap <= tol or certificate.gap <= ROUNDING * scale
    again = plain.certificate(beta, solution.multipliers)
    assert certificate.dual == pytest.approx(again.dual, rel=1e-8, abs=1e-10)
    assert certificate.primal == pytest.approx(again.primal, rel=1e-8, abs=1e-10)
    assert certificate.violation == pytest.approx(again.violation, rel=1e-4, abs=1e-9)
    above = plain.objective(beta) - best.objective
    assert above >= -ROUNDING * scale
    assert certificate.gap >= above - ROUNDING * scale
    return above


@every_solver
@every_variant
@every_kernel
@all_data
def test_optimum(solver, variant, kernel, kind):
    plain, best = known(variant, kernel, kind)
    qp = fast_problem(variant, kernel, make_data(kind))
    skip_unless_takes(solver, qp)
    fine = solve(qp, solver, tol=1e-6)
    above = check_solution(fine, qp, plain, best, 1e-6)
    assert above <= 1e-6 * max(1.0, abs(best.objective))
    coarse = solve(qp, solver, tol=1e-3)
    check_solution(coarse, qp, plain, best, 1e-3)
    small = 1e-3 * np.abs(np.r_[fine.beta, coarse.beta]).sum() + 1e-12
    assert coarse.certificate.gap <= small or coarse.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("solver", ERM_SOLVERS)
@every_variant
@every_kernel
@all_data
def test_optimum_of_primal_solvers(solver, variant, kernel, kind):
    plain, best = known(variant, kernel, kind)
    erm = primal_problem(variant, kernel, make_data(kind))
    skip_unless_takes(solver, erm)
    scale = max(1.0, abs(best.objective))
    for tol in (1e-3, 1e-8):
        solution = solve(erm, solver, tol=tol)
        certificate = solution.certificate
        assert solution.status is Status.CONVERGED
        assert certificate.relative_gap <= tol
        assert certificate.dual <= -best.bound + ROUNDING * scale
        assert certificate.primal >= -best.objective - ROUNDING * scale
        assert certificate.primal + best.objective <= tol * scale + ROUNDING * scale
        assert certificate.infeasibility < 1e-9 * max(1.0, np.abs(solution.beta).sum())
        # The dual of the primal is the QP: the same β has the same value there.
        assert -plain.objective(solution.beta) == pytest.approx(certificate.dual, rel=1e-8, abs=1e-10)
        assert plain.infeasibility(solution.beta) < 1e-9 * max(1.0, np.abs(solution.beta).sum())


@every_solver
@every_variant
def test_result_does_not_depend_on_the_form_of_the_matrix(solver, variant):
    """A kernel in float32 rows, a matrix in float64 and a plain array have the same optimum."""
    plain, best = known(variant, "rbf", "plain")
    skip_unless_takes(solver, plain)
    dense = QP(plain.H.dense(), plain.p, plain.lower, plain.upper, plain.A, plain.b, plain.eps)
    for qp in (plain, dense):
        solution = solve(qp, solver, tol=1e-6)
        assert solution.status is Status.CONVERGED
        assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6, abs=1e-7)


@every_solver
def test_random_boxes_kinks_and_signs(solver):
    """Problems that no formulation makes: boxes anywhere, ε anywhere, a sum that is no round number."""
    rng = np.random.default_rng(0)
    for trial in range(30):
        n = int(rng.integers(2, 30))
        B = rng.normal(size=(n, n))
        low, high = np.sort(rng.normal(size=(2, n)), axis=0)
        if trial % 3 == 0:
            high[rng.random(n) < 0.3] = np.inf
            low[rng.random(n) < 0.3] = -np.inf
        inside = np.clip(rng.normal(size=n), low, high)
        ones = np.full((trial % 2, n), 2.0)
        qp = QP(
            B @ B.T + 0.1 * np.eye(n),
            rng.normal(size=n),
            low,
            high,
            ones,
            ones @ inside,
            rng.choice([0.0, 0.3, 1.0], n),
        )
        if not takes(solver, qp):
            continue
        best = verdict_on(qp)
        solution = solve(qp, solver, tol=1e-7)
        assert solution.status is Status.CONVERGED
        assert solution.certificate.infeasibility < 1e-10
        assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6, abs=1e-6)


@every_solver
@every_variant
def test_groups_of_variables_with_other_levels(solver, variant):
    """The multipliers that come back are multipliers: with them the gradient has the right signs everywhere."""
    plain, _ = known(variant, "rbf", "weighted")
    skip_unless_takes(solver, plain)
    solution = solve(plain, solver, tol=1e-8)
    beta = solution.beta
    s = plain.gradient(beta, solution.multipliers)
    free = (beta > plain.lower) & (beta < plain.upper) & (beta != 0.0)
    np.testing.assert_allclose((s + plain.eps * np.sign(beta))[free], 0.0, atol=1e-7)
    at_lower, at_upper = (beta == plain.lower) & (beta < plain.upper), (beta == plain.upper) & (beta > plain.lower)
    assert (s[at_lower] + plain.eps[at_lower] >= -1e-7).all()
    assert (s[at_upper] - plain.eps[at_upper] <= 1e-7).all()
