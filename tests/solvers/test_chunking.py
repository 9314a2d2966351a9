"""Chunking: chunks smaller than the problem, which grow to the support vectors."""

import numpy as np
import pytest

from cases import DATA, VARIANTS, fast_problem, known, make_data
from maxmargin.formulations import CSVC, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram
from maxmargin.solution import Status
from maxmargin.solvers import Chunking


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("chunk", [1, 7, 40])
def test_small_chunks_find_the_optimum(variant, kind, chunk):
    plain, best = known(variant, "rbf", kind)
    qp = fast_problem(variant, "rbf", make_data(kind))
    solution = Chunking(chunk=chunk).solve(qp, Goal(violation=1e-6))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.violation <= 1e-6
    assert solution.certificate.infeasibility < 1e-10
    assert plain.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6, abs=1e-6)


def test_little_more_than_the_support_vectors_is_ever_looked_at():
    data = make_data("plain", 300)
    labels = np.where(data.X[:, 0] > 0, 1.0, -1.0)
    X = data.X + np.outer(labels, [1.0, 0, 0, 0])  # far apart: few support vectors
    qp = CSVC(C=10.0).qp(Samples(KernelGram(Kernel("linear"), X), labels, data.weight))
    solution = Chunking(chunk=20).solve(qp)
    assert solution.status is Status.CONVERGED
    assert solution.history.column("active").max() < 150


def test_the_iteration_limit_is_that_of_all_chunks_together():
    data = make_data("plain", 200)
    qp = CSVC(C=10.0).qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    assert Chunking(chunk=10).solve(qp).n_iter > 200
    solution = Chunking(chunk=10).solve(qp, Goal(violation=1e-3, max_iter=60))
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.n_iter <= 60
    assert solution.certificate.infeasibility < 1e-12


def test_which_points_come_first_does_not_matter():
    data = make_data("plain", 100)
    qp = CSVC().qp(Samples(KernelGram(Kernel("rbf", 0.5), data.X), data.labels, data.weight))
    values = [Chunking(chunk=10, seed=seed).solve(qp, Goal(violation=1e-6)).certificate.dual for seed in range(4)]
    np.testing.assert_allclose(values, values[0], rtol=1e-7)
