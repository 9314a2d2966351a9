"""Cholesky factors by tiles that threads share, equal to the bit for any number of threads.

LAPACK's factorisation with BLAS threads rounds differently with each number of them, because it cuts the matrix into as
many pieces; and its threads wait for each other in a loop, which takes a hundred times as long where another process
needs a core. Here the tiles have fixed sizes. For panels P of PANEL rows, from the top (left-looking),

    UₚₚᵀUₚₚ = Mₚₚ − UᵀU over the rows above              a small matrix, factored by LAPACK
    Uₚⱼ     = Uₚₚ⁻ᵀ (Mₚⱼ − UᵀU over the rows above)       tiles of columns j > P, shared by the threads
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from ... import threads as th

__all__ = ["cholesky", "triangular"]

TILED_FROM = 400  # rows: a smaller matrix is factored in the time that handing over a few tiles takes
PANEL = 128  # rows of U, and columns of a tile at least: few enough for threads to share, enough for quick products
COLUMNS = 32  # of a right-hand side that are solved for together: enough for quick products


def cholesky(
    M: np.ndarray, threads: int = 1, look: Callable[[], object] = lambda: None, in_place: bool = False
) -> np.ndarray | None:
    """U with UᵀU = M of which the upper triangle is read, or None where M is not positive definite.

    What is below the diagonal of U means nothing. ``look`` is called before each panel, and may raise. With
    ``in_place`` nothing is left of M, whose columns must be contiguous, and no second matrix is made.
    """
    with th.blas_limit(1):
        if len(M) < TILED_FROM:
            return _small(M)
        U = M if in_place else _copied(M, look)
        for r in range(0, len(U), PANEL):
            look()
            if not _panel(U, r, min(len(U), r + PANEL), threads):
                return None
    return U


def _copied(M: np.ndarray, look: Callable[[], object]) -> np.ndarray:
    """The upper triangle of M, its columns contiguous; a matrix of other order takes as long as its factorisation."""
    U = np.zeros(M.shape, order="F")
    for r in range(0, len(M), PANEL):
        look()
        U[: r + PANEL, r : r + PANEL] = M[: r + PANEL, r : r + PANEL]
    return U


def triangular(
    U: np.ndarray, B: np.ndarray, transposed: bool, threads: int = 1, look: Callable[[], object] = lambda: None
) -> np.ndarray:
    """U⁻ᵀB, or U⁻¹B. Threads share the columns of B; ``look`` is called before each piece of them, and may raise."""
    out = np.empty(B.shape, order="F")

    def fill(a: int, b: int) -> None:
        look()
        out[:, a:b] = dtrsm(1.0, U, B[:, a:b], trans_a=int(transposed))

    th.spread(fill, B.shape[1], threads, max(COLUMNS, th.grain(len(U) ** 2 / 2)), align=COLUMNS)
    return out


def _small(M: np.ndarray) -> np.ndarray | None:
    """As ``cholesky``, by LAPACK."""
    U, failed = dpotrf(M, clean=0)
    return None if failed or np.isnan(U.diagonal()).any() else U  # NaN is not less than 0, which is all that it asks


def _panel(U: np.ndarray, r: int, s: int, threads: int) -> bool:
    """Rows r … s − 1 of U in place; whether their diagonal block was positive definite."""
    above = U[:r, r:s]
    corner = _small(U[r:s, r:s] - above.T @ above)
    if corner is None:
        return False
    U[r:s, r:s] = corner

    def fill(a: int, b: int) -> None:
        rest = U[r:s, s + a : s + b]
        left = (U[:r, s + a : s + b].T @ above).T  # columns one after the other, as LAPACK wants them
        np.subtract(rest, left, out=left)
        rest[:] = dtrsm(1.0, corner, left, trans_a=1, overwrite_b=1)

    th.spread(fill, len(U) - s, threads, max(PANEL, th.grain((s - r) * (r + 0.5 * PANEL))))
    return True
