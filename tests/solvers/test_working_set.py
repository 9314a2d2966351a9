"""What q means in decomposition: how many variables are solved together when a row is missing, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin.formulations import CSVC, NuSVC, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.solvers import solve
from maxmargin.solvers.parts.working_sets import Sizes

MATRIX_UP_TO = Sizes().matrix


def problem(n, precomputed=False, loss="hinge"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    gram = KernelGram(Kernel("rbf", 0.5), X)
    return CSVC(1.0, loss).qp(Samples(PrecomputedGram(gram.dense()) if precomputed else gram, y, np.ones(n)))


@pytest.mark.parametrize("n, precomputed", [(MATRIX_UP_TO, False), (MATRIX_UP_TO + 200, True)])
def test_q_changes_nothing_where_every_row_is_at_hand(n, precomputed):
    found = [solve(problem(n, precomputed), "decomposition", working_set=q) for q in (2, 16, 512)]
    assert len({solution.n_iter for solution in found}) == 1
    assert all((solution.beta == found[0].beta).all() for solution in found)


@pytest.fixture
def in_blocks(monkeypatch):
    """Rows are not made one at a time, as those of points that are many or sparse."""
    monkeypatch.setattr(KernelGram, "by_feature", lambda self: None)


def test_larger_q_ask_for_more_rows_at_a_time(in_blocks):
    """Of larger working sets fewer rows are missing later."""
    looks = [len(solve(problem(MATRIX_UP_TO + 900), "decomposition", working_set=q).history) for q in (16, 64, 512)]
    assert looks[0] > looks[1] > looks[2]


def test_rows_that_nothing_speaks_for_are_a_block_at_most(monkeypatch, in_blocks):
    """Without coefficients all variables violate alike; later a set brings what it lacks, and a block at least."""
    asked, sizes, rows = [], Sizes(), KernelGram.rows
    monkeypatch.setattr(KernelGram, "rows", lambda self, index, *to: asked.append(len(index)) or rows(self, index, *to))
    found = solve(problem(MATRIX_UP_TO + 900), "decomposition", working_set=5 * sizes.block)
    assert found.status.converged
    assert asked[0] == sizes.block and max(asked) > sizes.block
    assert min(asked[:-1]) >= sizes.block  # at the end there may be fewer left that violate
    assert any(count % sizes.block for count in asked[:-1])


def test_rows_are_made_one_at_a_time_where_few_variables_move(monkeypatch):
    """Variables that never move cost no row: most rows are of those that end with a coefficient."""
    monkeypatch.setattr(KernelGram, "rows", lambda *asked: pytest.fail("a block of rows was asked for"))
    X = np.random.default_rng(0).normal(size=(MATRIX_UP_TO + 900, 3))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, 1.0, -1.0)
    qp = CSVC(10.0).qp(Samples(KernelGram(Kernel("rbf", 0.5), X), y, np.ones(len(y))))
    found = solve(qp, "decomposition")
    assert found.status.converged
    rows, used = found.kernel_evals / qp.n, np.count_nonzero(found.beta)
    assert used < qp.n / 5
    assert rows < 2.5 * used  # the certificate's are as many as there are coefficients


def test_rows_come_in_blocks_where_most_variables_move(monkeypatch):
    asked, sizes, rows = [], Sizes(), KernelGram.rows
    monkeypatch.setattr(KernelGram, "rows", lambda self, index, *to: asked.append(len(index)) or rows(self, index, *to))
    X = np.random.default_rng(0).normal(size=(MATRIX_UP_TO + 900, 8))
    qp = CSVC(0.1).qp(Samples(KernelGram(Kernel("rbf", 1.0), X), np.sign(X[:, 0]), np.ones(len(X))))
    found = solve(qp, "decomposition")
    assert found.status.converged and np.count_nonzero(found.beta) > 0.9 * qp.n
    assert sum(asked) > qp.n / 3 and sum(asked) / len(asked) > sizes.block


@pytest.mark.parametrize("rows", [5, 40])
def test_working_sets_of_less_than_two_variables_a_group_do_not_grow(rows):
    """A pair of each class makes four variables where three were asked for, and not more with each set."""
    n = MATRIX_UP_TO + 100
    X = np.random.default_rng(0).normal(size=(n, 3))
    qp = NuSVC(0.3).qp(Samples(KernelGram(Kernel("rbf", 0.5), X), np.sign(X[:, 0] + np.sin(X[:, 1])), np.ones(n)))
    found = solve(qp, "decomposition", working_set=3, cache_size=1.01 * rows * n * 4 / 2**20)
    assert found.status.converged


class Untouched(PrecomputedGram):
    """Fails when a row is copied."""

    def rows(self, index, out=None, slots=None):
        raise AssertionError("a row of a matrix in memory was copied")


@pytest.mark.parametrize("solver", ["decomposition", "mpd"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_rows_of_a_matrix_in_memory_are_not_copied_for_a_ridge(loss, solver):
    """What a squared loss adds to the diagonal is no reason: the answer is that of the matrix with the ridge in it."""
    qp = problem(MATRIX_UP_TO + 200, True, loss)
    inner = getattr(qp.H, "inner", qp.H)
    untouched = Untouched(inner.K)
    H = untouched if inner is qp.H else qp.H.on(untouched)
    found = solve(replace(qp, H=H), solver, tol=1e-6, shrinking=False)
    formed = solve(replace(qp, H=qp.H.block(np.arange(qp.n))), solver, tol=1e-6)
    assert found.status.converged and formed.status.converged
    np.testing.assert_allclose(found.certificate.dual, formed.certificate.dual, rtol=1e-9)


@pytest.mark.parametrize("tol, dtype", [(1e-3, np.float32), (1e-6, np.float64)])
def test_copies_of_a_matrix_in_memory_are_as_fine_as_is_asked(tol, dtype, monkeypatch):
    """Parts of a matrix with small entries are kept in float32 unless that is too coarse for the tolerance."""
    qp, often = problem(1500, True), Sizes(shrink=300, call=20_000)
    seen, rows = set(), PrecomputedGram.rows
    monkeypatch.setattr(PrecomputedGram, "rows", lambda *a: (seen.add(a[2].dtype), rows(*a))[1])
    gram = PrecomputedGram(qp.H.K, largest=1.0)
    found = solve(replace(qp, H=gram), "decomposition", tol=tol, sizes=often)
    assert found.status.converged and found.certificate.violation <= tol
    assert seen == {np.dtype(dtype)}
