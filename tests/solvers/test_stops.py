"""Whatever stops a solver, it says why and hands back a feasible β with a true certificate."""

import os
import signal
import threading
from dataclasses import fields, replace

import numpy as np
import pytest

from cases import EVERYTHING_LARGE, VARIANTS, fast_problem, known, make_data, skip_unless_takes
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import History, Status
from maxmargin.solvers import SOLVERS, decomposition, make_solver, solve

QP_SOLVERS = [name for name, make in SOLVERS.items() if make.form is QP]

# A problem that every solver of QPs but the special ones takes
NO_BIAS = next(v for v in VARIANTS if v.name == "c_svc" and not v.formulation.fit_intercept)

every_solver = pytest.mark.parametrize("solver", QP_SOLVERS)
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def check_usable(solution, variant):
    """Not the optimum, but a feasible point whose distance to it is proven."""
    plain, best = known(variant, "rbf", "plain")
    assert np.isfinite(solution.beta).all()
    assert plain.infeasibility(solution.beta) < 1e-9 * max(1.0, np.abs(solution.beta).sum())
    certificate = solution.certificate
    assert certificate.gap >= plain.objective(solution.beta) - best.objective - 1e-7
    assert certificate.dual == pytest.approx(-plain.objective(solution.beta), rel=1e-8, abs=1e-9)
    assert certificate.violation > 1e-9
    assert solution.multipliers.shape == (len(plain.A),)


@every_solver
@every_variant
def test_time_limit(solver, variant):
    qp = fast_problem(variant, "rbf", make_data("plain"))
    skip_unless_takes(solver, qp)
    solution = solve(qp, solver, monitor=Monitor(time_limit=1e-9), tol=1e-9)
    assert solution.status is Status.TIME_LIMIT
    check_usable(solution, variant)


@pytest.mark.parametrize("solver", ["smo", "decomposition", "chunking"])
@every_variant
def test_no_other_bias_proves_more(variant, solver):
    """Half way between extreme violations would do only near the optimum."""
    qp = fast_problem(variant, "rbf", make_data("plain"))
    if qp.ridge is not None:
        pytest.skip("a loss with a curvature has no corners that tell the best bias")
    solution = solve(qp, solver, monitor=Monitor(callback=lambda step: True), tol=1e-9)
    for j in range(len(qp.A)):
        for shift in np.concatenate([-np.geomspace(1e-3, 3, 20), np.geomspace(1e-3, 3, 20)]):
            other = solution.multipliers + shift * (np.arange(len(qp.A)) == j)
            gap = qp.certificate(solution.beta, other).gap
            assert gap >= solution.certificate.gap - 1e-9 * max(1.0, abs(solution.certificate.gap))


@every_solver
@every_variant
def test_callback(solver, variant):
    qp = fast_problem(variant, "rbf", make_data("plain"))
    skip_unless_takes(solver, qp)
    seen = []

    def stop(step):
        seen.append(step)
        return True

    solution = solve(qp, solver, monitor=Monitor(callback=stop), tol=1e-9)
    assert solution.status is Status.CALLBACK
    assert set(seen[0]) == set(History.columns)
    check_usable(solution, variant)


@every_solver
@every_variant
def test_iteration_limit(solver, variant):
    qp = fast_problem(variant, "rbf", make_data("plain"))
    skip_unless_takes(solver, qp)
    solution = solve(qp, solver, tol=1e-9, max_iter=1)
    at_once = solver == "interior-point" and "squared_error" in str(variant)  # least squares are one system
    assert solution.status is (Status.CONVERGED if at_once else Status.MAX_ITERATIONS)
    assert solution.n_iter == 1
    if not at_once:
        check_usable(solution, variant)


@every_solver
@every_variant
def test_interrupt(solver, variant):
    """A Ctrl-C from outside, while the solver is at work."""
    qp = fast_problem(variant, "rbf", make_data("plain"))
    skip_unless_takes(solver, qp)
    before = signal.getsignal(signal.SIGINT)

    def press(step):
        presser = threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGINT))
        presser.start()
        presser.join()

    solution = solve(qp, solver, monitor=Monitor(callback=press), tol=1e-9)
    assert solution.status is Status.INTERRUPTED
    check_usable(solution, variant)
    assert signal.getsignal(signal.SIGINT) is before


@every_solver
def test_a_callback_that_says_nothing_stops_nothing(solver, monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", np.inf)  # steps are long on a busy machine
    plain, best = known(NO_BIAS, "rbf", "plain")
    skip_unless_takes(solver, plain)
    steps = []
    solution = solve(plain, solver, monitor=Monitor(callback=steps.append), tol=1e-6)
    assert solution.status is Status.CONVERGED
    assert len(steps) == len(solution.history) > 0


@every_variant
@pytest.mark.parametrize("where", [1, 3, 6])
def test_stops_in_the_middle_of_everything(variant, where):
    """While sampling, while some variables are left out, while duplicates are merged."""
    sizes = replace(EVERYTHING_LARGE, call=100)
    qp = fast_problem(variant, "rbf", make_data("plain"))
    steps = []
    monitor = Monitor(callback=lambda step: steps.append(step) or len(steps) >= where)
    solution = solve(qp, "decomposition", monitor=monitor, working_set=4, tol=1e-9, sizes=sizes)
    assert solution.status is Status.CALLBACK
    check_usable(solution, variant)


@every_solver
def test_history_has_a_row_a_step(solver):
    plain, _ = known(NO_BIAS, "rbf", "plain")
    skip_unless_takes(solver, plain)
    solution = solve(plain, solver, tol=1e-6)
    history = solution.history
    assert len(history) > 0
    assert (np.diff(history.column("seconds")) >= 0).all()
    assert history.column("violation")[-1] < 1e-6
    assert (np.diff(history.column("kernel_evals")) >= 0).all()
    assert solution.seconds >= history.column("seconds")[-1]
    assert solution.n_iter > 0


def test_solvers_by_name_or_as_they_are():
    for name, make in SOLVERS.items():
        assert isinstance(make_solver(name), make)
        for option in fields(make)[-1:]:
            assert getattr(make_solver(name, **{option.name: "given"}), option.name) == "given"
        ready = make()
        assert make_solver(ready) is ready
    plain, best = known(NO_BIAS, "rbf", "plain")
    for solver in (decomposition.Decomposition(working_set=10), decomposition.SMO()):
        assert plain.objective(solve(plain, solver).beta) == pytest.approx(best.objective, rel=1e-6)


def test_unknown_solver():
    with pytest.raises(ValueError, match="found solver='sma'; choose .*'smo'"):
        make_solver("sma")


def test_unknown_option():
    with pytest.raises(TypeError):
        make_solver("smo", tolerance=1e-3)
