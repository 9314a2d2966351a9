"""Screening changes the way, not the answer."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import InteriorPoint, solve

MACHINES = {
    "hinge": CSVC(C=0.5),
    "squared hinge": CSVC(C=0.5, loss="squared_hinge"),
    "huber": CSVC(C=0.5, loss="huber"),
    "no bias": CSVC(C=0.5, fit_intercept=False),
    "svr": EpsilonSVR(C=0.5, epsilon=0.3),
    "squared svr": EpsilonSVR(C=0.5, epsilon=0.3, loss="squared_epsilon_insensitive"),
}


def problem(machine, n=3000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X @ rng.normal(size=d) + rng.normal(size=n) + 0.3
    return machine.qp(Samples(Factored(X), np.sign(f) if isinstance(machine, CSVC) else f, rng.uniform(0.5, 2.0, n)))


def watch(monkeypatch) -> list:
    """The sizes of the parts that the interior method is asked for."""
    sizes = []
    solve = InteriorPoint.solve

    def watched(self, qp, goal, start=None, monitor=None):
        sizes.append(qp.n)
        return solve(self, qp, goal, start, monitor)

    monkeypatch.setattr(InteriorPoint, "solve", watched)
    return sizes


@pytest.mark.parametrize("start", ["cold", "sweeps", "far"])
@pytest.mark.parametrize("name", MACHINES)
def test_the_answer_is_that_of_the_whole(name, start, monkeypatch):
    qp = problem(MACHINES[name])
    whole = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-9))
    begin = {
        "cold": lambda: None,
        "sweeps": lambda: solve(qp, "sor", tol=1e-3).beta,
        "far": lambda: np.where(np.arange(qp.n) % 2 == 0, np.minimum(qp.upper, 3.0), 0.0),
    }[start]()
    sizes = watch(monkeypatch)
    solution = InteriorPoint().solve(qp, Goal(gap=1e-9), begin)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.infeasibility < 1e-9
    assert solution.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-8)
    smooth = "squared" in name or name == "huber"
    assert sizes[0] == qp.n and (smooth or max(sizes[1:]) < qp.n)


def test_rows_that_were_decided_wrongly_come_back(monkeypatch):
    # Too few rows near their corner are let in, so that many of the others are sent to the wrong bound.
    qp = problem(MACHINES["hinge"])
    whole = InteriorPoint(screening=False).solve(qp, Goal(gap=1e-9))
    sizes = watch(monkeypatch)
    solution = InteriorPoint(reach=0.0).solve(qp, Goal(gap=1e-9))
    assert len(sizes) > 2 and max(sizes[1:]) < qp.n
    assert (np.diff(sizes[1:]) > 0).all()
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-8)


def test_separable_data_of_a_large_cost():
    """Rounded corners lead nowhere there: the interior method takes the whole."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, size=(2500, 20))
    y = np.sign(X @ rng.normal(size=20))
    qp = CSVC(C=1e4).qp(Samples(Factored(X), y, np.ones(2500)))
    screened, whole = (InteriorPoint(screening=yes).solve(qp, Goal(gap=1e-8)) for yes in (True, False))
    assert screened.status is Status.CONVERGED and screened.certificate.relative_gap <= 1e-8
    assert screened.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-6)


def test_a_stop_in_the_middle_leaves_a_feasible_point():
    qp = problem(MACHINES["hinge"])
    for steps in (1, 8, 15):
        left = iter(range(steps))
        solution = InteriorPoint().solve(
            qp, Goal(gap=1e-9), None, Monitor(callback=lambda row, left=left: next(left, None) is None)
        )
        assert solution.status is Status.CALLBACK
        assert solution.certificate.infeasibility < 1e-9
        assert np.isfinite(solution.certificate.gap)
