"""A few hundred problems of the campaign, the same ones each time; and models that were altered, which it must find."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from campaign import checks
from campaign.checks import check, check_seed
from campaign.problems import MACHINES, make_problem

PROBLEMS = 300
EACH = 10  # problems a test


@pytest.mark.parametrize("first", range(0, PROBLEMS, EACH))
def test_problems(first):
    """No problem has anything to complain about; what fails is told with its seed."""
    found = [check_seed(seed) for seed in range(first, first + EACH)]
    failures = [f"seed {r.seed} ({r.machine} {r.solver}): {f.kind}: {f.message}" for r in found for f in r.failures]
    assert not failures, "\n".join(failures) + "\nAlone: cd tests && python -m campaign --seed N"


@pytest.mark.parametrize("seed", [231618, 235456, 236323, 238811, 253562])
def test_problems_that_once_failed(seed):
    """Nearly equal functions, a constant target, no margin, functions of two large values, no row left to sweep."""
    assert not check_seed(seed).failures


def plain_problem(machine):
    """The first problem of a machine without early stops and twins, on a moderate number of samples."""
    for seed in itertools.count():
        problem = make_problem(seed)
        plain = problem.machine == machine and problem.stop is None and problem.twin is None and not problem.notes
        if plain and problem.solver == "auto" and problem.convex and 20 <= problem.n <= 300:
            return problem


def shift_intercept(model):
    model.intercept_ = model.intercept_ + 0.3 * (1.0 + np.abs(model.intercept_))


def lie_about_the_gap(model):
    model.certificates_ = [replace(c, primal=c.primal + 0.01 * abs(c.dual), gap=c.gap + 0.01 * abs(c.dual))
                           for c in model.certificates_]  # fmt: skip


def turn_round(model):
    if hasattr(model, "dual_coef_"):
        model.dual_coef_ = -model.dual_coef_
    else:
        model.coef_ = -model.coef_


@pytest.mark.parametrize("alter", [shift_intercept, lie_about_the_gap, turn_round], ids=lambda f: f.__name__)
@pytest.mark.parametrize("machine", [name for name in MACHINES if name != "QP"])
def test_an_altered_model_is_found(machine, alter, monkeypatch):
    """A model or a certificate that was altered after the fit does not pass."""
    problem = plain_problem(machine)
    assert not check(problem).failures
    fit = checks.fit

    def altered(problem):
        fitted = fit(problem)
        alter(fitted.model)
        return fitted

    monkeypatch.setattr(checks, "fit", altered)
    assert check(problem).failures
