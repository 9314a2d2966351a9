"""The interior method: every form of its equations, PDCO's data, starts, and what it says when it is not done."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from cases import verdict_on
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, OneClass, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Factored, Kernel, KernelGram, Shifted
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import InteriorPoint, interior_point
from maxmargin.solvers.parts import few_rows
from maxmargin.solvers.parts.barrier_rows import BarrierRows
from maxmargin.solvers.parts.system_choice import system_for

SYSTEMS = ["normal", "dense", "quasi", "lsmr-rows", "lsmr"]
MACHINES = {
    "hinge": CSVC(C=0.7),
    "no bias": CSVC(C=0.7, fit_intercept=False),
    "squared hinge": CSVC(C=0.7, loss="squared_hinge"),
    "huber": CSVC(C=0.7, loss="huber"),
    "svr": EpsilonSVR(C=0.7, epsilon=0.2),
    "squared svr": EpsilonSVR(C=0.7, epsilon=0.2, loss="squared_epsilon_insensitive"),
}


def ones_and_zeros(n, d, separable, seed=0):
    """PDCO §4: 0/1 rows, a tenth of them ones, with random labels or with those of a direction and a margin."""
    rng = np.random.default_rng(seed)
    direction = rng.uniform(-1, 1, d)
    X = (rng.random((10 * n, d)) < 0.1).astype(float)
    score = X @ direction
    if not separable:
        return X[:n], np.where(rng.random(n) < 0.5, 1.0, -1.0)
    far = np.abs(score) > 0.7
    return X[far][:n], np.sign(score[far][:n])


def problem(machine, n=70, d=8, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)), 0.0)
    f = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) + 0.3
    targets = np.sign(f) if isinstance(machine, CSVC) else f
    return machine.qp(Samples(Factored(sp.csr_array(X) if sparse else X), targets, rng.choice([0.5, 1.0, 2.0], n)))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("n", [70, 5], ids=["long", "wide"])
def test_every_form_of_the_equations(name, system, n):
    qp = problem(MACHINES[name], n=n, sparse=system == "quasi")
    best = verdict_on(qp)
    solution = InteriorPoint(system=system).solve(qp, Goal(gap=1e-8))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-8 or solution.certificate.gap < 1e-12
    assert solution.certificate.infeasibility < 1e-10
    assert -solution.certificate.dual == pytest.approx(best.objective, rel=1e-6, abs=1e-7)


def ones_in(columns, d):
    """Compressed rows with ones in these columns."""
    n, count = columns.shape
    return sp.csr_array((np.ones(n * count), columns.ravel(), np.arange(0, n * count + 1, count)), (n, d))


def test_the_cheapest_equations():
    """A sparse factor is chosen for what it will hold, not for the sparsity of XᵀX, which fills in."""
    rng = np.random.default_rng(0)
    n, d = 8000, 6300
    neighbours = ones_in(rng.integers(d - 1, size=(n, 1)) + np.arange(2), d)
    categories = ones_in(rng.integers(d // 3, size=(n, 3)) + np.arange(3) * (d // 3), d)
    assert (categories.T @ categories).nnz < 20 * d
    for X, name in (
        (neighbours, "quasi"),
        (categories, "lsmr-rows"),
        (categories[:500], "dense"),
        (categories[:, :300], "normal"),
    ):
        assert system_for(Factored(X).factor().rows) == name


@pytest.mark.parametrize("separable, C", [(True, 100.0), (False, 0.1)], ids=["separable", "noise"])
@pytest.mark.parametrize("penalised", [False, True])
def test_the_data_of_pdco(separable, C, penalised):
    """§4 on a smaller scale: one with a margin and a large cost, one without any structure."""
    X, y = ones_and_zeros(400, 30, separable)
    gram = Shifted(Factored(X), 1.0) if penalised else Factored(X)
    qp = CSVC(C=C, fit_intercept=not penalised).qp(Samples(gram, y, np.ones(len(y))))
    solution = InteriorPoint().solve(qp, Goal(gap=1e-9))
    assert solution.certificate.relative_gap <= 1e-9
    assert -solution.certificate.dual == pytest.approx(verdict_on(qp).objective, rel=1e-7)


def test_gaps_of_1e_8_as_a_matter_of_course():
    for seed in range(5):
        for machine in MACHINES.values():
            qp = problem(machine, n=300, d=10, seed=seed)
            solution = InteriorPoint().solve(qp)
            assert solution.status is Status.CONVERGED and solution.certificate.relative_gap <= 1e-8
            assert solution.n_iter <= 40


def test_several_equality_constraints():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(200, 5)), rng.uniform(-1, 1, 200)
    phi = np.array([t, t**2, np.sin(3 * t)])
    f = X @ rng.normal(size=5) + 2 * t + 0.3 * rng.normal(size=200)
    qp = SemiParametric(EpsilonSVR(C=1.0, epsilon=0.1), phi).qp(Samples(Factored(X), f, np.ones(200)))
    solution, best = InteriorPoint().solve(qp, Goal(gap=1e-9)), verdict_on(qp)
    assert len(qp.A) == 4
    assert -solution.certificate.dual == pytest.approx(best.objective, rel=1e-7)
    np.testing.assert_allclose(solution.multipliers, best.multipliers, atol=1e-4)


def test_a_start_at_the_answer_is_the_answer():
    qp = problem(MACHINES["hinge"], n=300)
    first = InteriorPoint().solve(qp, Goal(gap=1e-8))
    again = InteriorPoint().solve(qp, Goal(gap=1e-8), first.beta)
    assert again.status is Status.CONVERGED and again.n_iter <= 1
    assert again.certificate.dual == pytest.approx(first.certificate.dual, rel=1e-9)


def test_exact_points_have_bounds_and_zeros():
    qp = problem(MACHINES["hinge"], n=500)
    exact = InteriorPoint().solve(qp, Goal(gap=1e-4, violation=1e-4))
    loose = InteriorPoint().solve(qp, Goal(gap=1e-4, exact=False))
    for solution in (exact, loose):
        assert solution.status is Status.CONVERGED and solution.certificate.relative_gap <= 1e-4
    assert exact.certificate.violation <= 1e-4
    inside = (exact.beta > qp.lower) & (exact.beta < qp.upper)
    assert inside.sum() <= 9  # no more than there are features and a bias


@pytest.mark.parametrize("machine", [OneClass(0.1), NuSVC(0.3)], ids=["one-class", "nu-svc"])
def test_machines_without_targets_have_exact_points_too(machine):
    """At β = 0 they have no slopes, beside which rounding was always too large for the last equations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0.0, 1.0, -1.0)
    qp = machine.qp(Samples(KernelGram(Kernel("rbf", 0.2), X), y, np.ones(200)))
    solution = InteriorPoint().solve(qp, Goal(violation=1e-3))
    assert solution.status is Status.CONVERGED and solution.certificate.violation <= 1e-9


def test_too_few_iterations_leave_a_feasible_point():
    qp = problem(MACHINES["svr"], n=300)
    solution = InteriorPoint().solve(qp, Goal(gap=1e-12, max_iter=2), None, Monitor())
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.certificate.infeasibility < 1e-10 and np.isfinite(solution.certificate.gap)


def test_a_step_that_leads_nowhere_is_the_last(monkeypatch):
    """Slacks of 1e-72 beside duals of 1e74 allow steps of 1e-145, whose correctors are no numbers (seed 1723645)."""
    qp, lengths = problem(MACHINES["hinge"]), []
    monkeypatch.setattr(few_rows, "SMALL_DENSE", 0)  # else one leaf makes all steps over few rows
    monkeypatch.setattr(interior_point, "_longest", lambda rates: lengths.append(1e-145) or 1e-145)
    monkeypatch.setattr(BarrierRows, "aim", lambda *_: pytest.fail("a corrector was asked for"))
    solution = InteriorPoint().solve(qp, Goal(gap=1e-8))
    assert lengths and np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize(("n", "d", "above"), [(400, 20, 1.2), (400, 20, 1.8), (200, 60, 1.5)])
def test_what_constraints_lack_is_no_sign_of_the_end(n, d, above):
    """Few of one class and a small C: ηᵀ(b − Aβ) < 0 made gaps below 0, and then no gap was small enough to stop."""
    rng = np.random.default_rng(0)
    X = 3.0 * rng.normal(size=(n, d))
    f = X @ rng.normal(size=d)
    targets = np.where(f > above * f.std(), 1.0, -1.0)
    qp = CSVC(C=0.01).qp(Samples(Factored(X), targets, np.ones(n)))
    solution = InteriorPoint().solve(qp, Goal(gap=1e-4, exact=False))
    assert solution.status is Status.CONVERGED
    assert solution.n_iter <= 10 and solution.certificate.relative_gap > 1e-12


def test_an_unknown_system():
    with pytest.raises(ValueError, match='system=.* was asked for; found "auto", .*; choose one'):
        InteriorPoint(system="qr")
