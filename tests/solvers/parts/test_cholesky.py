"""Cholesky factors by tiles."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError, cho_solve

from maxmargin import threads
from maxmargin.solvers.parts import cholesky as module
from maxmargin.solvers.parts.cholesky import cholesky, triangular
from maxmargin.solvers.parts.newton_systems import factor_spd

PANEL, TILED = module.PANEL, module.TILED_FROM


def definite(n: int, least: float = 1.0, seed: int = 0) -> np.ndarray:
    B = np.random.default_rng(seed).normal(size=(n, n))
    return B @ B.T + least * np.eye(n)


@pytest.mark.parametrize("n", [1, 2, TILED - 1, TILED, 4 * PANEL, 4 * PANEL + 1, 5 * PANEL - 1, 901])
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_is_a_factor(n, order):
    M = np.array(definite(n), order=order)
    before = M.copy()
    U = np.triu(cholesky(M, 2))
    np.testing.assert_allclose(U.T @ U, M, rtol=0, atol=1e-13 * n * np.abs(M).max())
    np.testing.assert_array_equal(M, before)


@pytest.mark.parametrize("n", [50, 700])
def test_only_the_upper_triangle_is_read(n):
    M = definite(n)
    other = np.triu(M) + np.tril(np.full((n, n), np.nan), -1)
    np.testing.assert_array_equal(np.triu(cholesky(M, 1)), np.triu(cholesky(other, 1)))


@pytest.mark.parametrize("at", [0, 150, 699])
def test_a_matrix_that_is_not_definite(at):
    M = definite(700)
    M[at, at] = -1.0
    assert cholesky(M, 2) is None
    M[at, at] = np.nan
    assert cholesky(M, 2) is None
    with pytest.raises(LinAlgError, match="not positive definite"):
        factor_spd(M, 2)


def test_a_matrix_of_low_rank_is_shifted_as_little_as_it_takes():
    B = np.random.default_rng(0).normal(size=(600, 40))
    r = B @ np.ones(40)
    x = cho_solve(factor_spd(B @ B.T, 2), r, check_finite=False)
    np.testing.assert_allclose(B @ (B.T @ x), r, rtol=0, atol=1e-6 * np.abs(r).max())


@pytest.mark.parametrize("n", [450, 1100])
def test_threads_change_nothing(n, monkeypatch):
    pieces, spread = [], threads.spread
    monkeypatch.setattr(threads, "spread", lambda leaf, n, *rest: pieces.append(n // PANEL) or spread(leaf, n, *rest))
    M = definite(n)
    first, *others = (cholesky(M, k) for k in (1, 2, 3, 8))
    assert max(pieces) > 1
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("transposed", [False, True])
def test_triangular_systems_of_many_columns(transposed):
    rng = np.random.default_rng(0)
    U = np.asfortranarray(np.triu(rng.normal(size=(600, 600))) + 30.0 * np.eye(600))
    B, looks = rng.normal(size=(600, 203)), []
    one, two = (triangular(U, B, transposed, threads, lambda: looks.append(1)) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose((U.T if transposed else U) @ one, B, atol=1e-10)
    assert len(looks) > 2
