"""Screening changes the way, not the answer."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.formulations import CSVC, EpsilonSVR
from maxmargin.gram import Factored
from maxmargin.monitor import Monitor
from maxmargin.solution import Status
from maxmargin.solvers import InteriorPoint, interior_point, screening

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
    return machine.qp(Factored(X), np.sign(f) if isinstance(machine, CSVC) else f, rng.uniform(0.5, 2.0, n))


@pytest.mark.parametrize("name", MACHINES)
def test_the_answer_is_that_of_the_whole(name, monkeypatch):
    qp = problem(MACHINES[name])
    whole = InteriorPoint(tol=1e-9).solve(qp)
    monkeypatch.setattr(interior_point, "SCREEN_FROM", 1000)
    parts = []
    screen = screening.screen

    def watched(*args, **kwargs):
        parts.append(screen(*args, **kwargs))
        return parts[-1]

    monkeypatch.setattr(interior_point, "screen", watched)
    solution = InteriorPoint(tol=1e-9).solve(qp)
    assert len(parts) == 1 and max(len(s.beta) for s in parts[0][2]) < qp.n
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.infeasibility < 1e-9
    assert solution.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-8)


def test_rows_that_were_decided_wrongly_come_back(monkeypatch):
    # A sample that has never seen half of the rows: its w sends them to the wrong bounds.
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(2000, 3)), rng.normal(size=(40, 3)) + [30.0, 0.0, 0.0]])
    y = np.concatenate([np.sign(X[:2000, 0] + 0.5 * rng.normal(size=2000)), -np.ones(40)])
    qp = CSVC(C=1.0).qp(Factored(X), y, np.ones(2040))
    whole = InteriorPoint(tol=1e-9).solve(qp)
    monkeypatch.setattr(interior_point, "SCREEN_FROM", 1000)
    monkeypatch.setattr(screening, "SAMPLE", 100)
    solution = InteriorPoint(tol=1e-9).solve(qp)
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-8)


def test_a_stop_in_the_middle_leaves_a_feasible_point(monkeypatch):
    monkeypatch.setattr(interior_point, "SCREEN_FROM", 1000)
    qp = problem(MACHINES["hinge"])
    for steps in (1, 8, 15):
        left = iter(range(steps))
        solution = InteriorPoint(tol=1e-9).solve(
            qp, None, Monitor(callback=lambda row, left=left: next(left, None) is None)
        )
        assert solution.status is Status.CALLBACK
        assert solution.certificate.infeasibility < 1e-9
        assert np.isfinite(solution.certificate.gap)
