"""What q means in decomposition: how many variables are solved together when a row is missing, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.formulations import CSVC, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.solvers import solve
from maxmargin.solvers.parts.working_sets import Sizes

MATRIX_UP_TO = Sizes().matrix


def problem(n, precomputed=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    gram = KernelGram(Kernel("rbf", 0.5), X)
    return CSVC(C=1.0).qp(Samples(PrecomputedGram(gram.dense()) if precomputed else gram, y, np.ones(n)))


@pytest.mark.parametrize("n, precomputed", [(MATRIX_UP_TO, False), (MATRIX_UP_TO + 200, True)])
def test_q_changes_nothing_where_every_row_is_at_hand(n, precomputed):
    found = [solve(problem(n, precomputed), "decomposition", working_set=q) for q in (2, 16, 512)]
    assert len({solution.n_iter for solution in found}) == 1
    assert all((solution.beta == found[0].beta).all() for solution in found)


def test_larger_q_ask_for_more_rows_at_a_time():
    """The first working set is all that is known of the rows: of a larger one fewer are missing later."""
    looks = [len(solve(problem(MATRIX_UP_TO + 900), "decomposition", working_set=q).history) for q in (16, 64, 512)]
    assert looks[0] > looks[1] > looks[2]
