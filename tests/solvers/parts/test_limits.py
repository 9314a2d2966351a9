"""Accuracies that are made finer, and stalls that are noticed."""

import numpy as np
import pytest

from maxmargin.goal import Goal
from maxmargin.solvers.parts.limits import FINER, TRIES, Aim, Progress, most_steps


def test_an_aim_is_as_fine_as_it_was_made():
    aim, seen = Aim(1e-3), []
    for accuracy in aim.tries():
        seen.append(accuracy)
        if len(seen) % 2:
            aim.finer()
    assert len(seen) == TRIES
    assert seen == pytest.approx([1e-3 * FINER ** (k // 2 + k % 2) for k in range(TRIES)])


def test_an_aim_ends_somewhere():
    aim = Aim(1.0)
    for _ in range(TRIES):
        assert not aim.finest
        aim.finer()
    assert aim.finest


def test_progress_is_a_lower_objective_or_less_that_is_left():
    progress = Progress(2)
    assert not progress.stalled(1.0, 1.0, 1.0)
    assert not progress.stalled(0.5, 1.0, 1.0) and progress.lower
    assert not progress.stalled(0.5, 1.0, 0.5) and not progress.lower
    assert not progress.stalled(0.5 - 1e-16, 0.999, 0.5)  # rounding, and next to nothing
    assert progress.stalled(0.7, 1.0, 0.6)
    assert progress.objective == 0.5 - 1e-16 and progress.left == (0.999, 0.5)


def test_values_that_are_unknown_are_no_progress():
    progress = Progress(2)
    assert not progress.stalled(np.inf)
    assert progress.stalled(np.nan)


@pytest.mark.parametrize(("asked", "n", "steps"), [(7, 10, 7), (-1, 10, 10_000_000), (-1, 10**6, 10**8)])
def test_steps_that_are_allowed(asked, n, steps):
    assert most_steps(Goal(max_iter=asked), n) == steps
