"""Proximal steps: to the optimum of any linear program of the package, whatever sizes its features have."""

import numpy as np
import pytest

from maxmargin import LinearSVC, Status
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Factored, Shifted
from maxmargin.rows import Rows
from maxmargin.solvers import InteriorPoint
from maxmargin.solvers.parts import proximal_steps as module
from maxmargin.solvers.parts.limits import IN_VAIN, ROUNDS
from maxmargin.solvers.parts.proximal_steps import proximal_steps

n = 60
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 4)) * [1e4, 1.0, 1e-2, 30.0]
score = X[:, 1] + rng.normal(size=n)
labels, weight = np.where(score > 0, 1.0, -1.0), 10.0 ** rng.uniform(-2, 2, n)

PROGRAMS = {
    "hinge": (CSVC(C=3.0), labels),
    "hinge, no bias": (CSVC(C=3.0, fit_intercept=False), labels),
    "squared hinge": (CSVC(C=3.0, loss="squared_hinge"), labels),
    "Huber": (CSVC(C=3.0, loss="huber"), labels),
    "tube": (EpsilonSVR(C=3.0, epsilon=0.2), score),
    "squared tube": (EpsilonSVR(C=3.0, epsilon=0.2, loss="squared_epsilon_insensitive"), 1e5 * score),
    "nu": (NuSVC(nu=0.3), labels),
    "functions": (SemiParametric(CSVC(C=3.0), 1e-6 * X[:, :1].T ** 2), labels),
}


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("program", PROGRAMS)
def test_they_end_at_the_optimum(program, constant):
    """By the certificate of w and β, which no step has seen."""
    formulation, y = PROGRAMS[program]
    rows = Rows.of(X)
    gram = Shifted(Factored(rows), constant) if constant else Factored(rows)
    qp = formulation.qp(Samples(gram, y, weight))
    start = InteriorPoint().solve(qp, Goal(gap=0.3))
    for point in proximal_steps(qp, rows, constant, start.beta, start.multipliers, lambda: None):
        w, eta = np.split(point.x, [len(point.x) - len(qp.A)])
        found = qp.certificate(qp.settled(point.beta), eta, w)
        if found.gap <= 1e-9 * abs(found.primal) and found.infeasibility <= 1e-12:
            return
    raise AssertionError(found)


def test_a_stop_is_heard():
    """After a Newton step, with a β in its box."""
    qp = CSVC(C=3.0).qp(Samples(Factored(Rows.of(X)), labels, weight))
    point = next(proximal_steps(qp, Rows.of(X), 0.0, np.zeros(n), np.zeros(1), lambda: True))
    assert ((qp.lower <= point.beta) & (point.beta <= qp.upper)).all()


def test_newton_steps_that_never_end_are_not_made_for_ever(monkeypatch):
    """Rounding leads them in circles; each proximal step would make as many as it may."""
    made = []
    monkeypatch.setattr(module, "_newton_step", lambda risk, columns, penalty, b, x: (made.append(0) or x, None))
    qp = CSVC(C=3.0).qp(Samples(Factored(Rows.of(X)), labels, weight))
    list(proximal_steps(qp, Rows.of(X), 0.0, np.zeros(n), np.zeros(1), lambda: None))
    assert len(made) == IN_VAIN * ROUNDS


def test_separable_classes_far_from_the_origin():
    """Sparse features of 10⁶: the interior method alone leaves a gap of 58 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 14)) + 1e6 * (np.arange(14) % 2)
    X = np.where(rng.uniform(size=X.shape) < 0.4, X, 0.0)
    score = X[:, ::2] @ rng.normal(size=7)
    machine = LinearSVC(loss="hinge", C=350.0, class_weight="balanced", max_iter=-1, tol=1e-6, solver="interior-point")
    assert machine.fit(X, score > np.sort(score)[-5]).status_ is Status.CONVERGED
