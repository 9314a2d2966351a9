"""Systems of K_SS + D on sets S that differ a little from one to the next (PRIMAL eq. 4.4 and appendix B, §5.3.2).

    [ K_SS + D   E ] [ x ]   [ b ]
    [ Eᵀ         0 ] [ μ ] = [ c ]

A Cholesky factor costs m³/3 products. Points that join S are appended to it, m² products each. Points that leave stay
in the factor, and x = 0 there is one more constraint, a unit vector in E: m² products each. So a set that has changed
by k points costs about 2 m² k, and the factor is made anew where that is dearer: from k = m/6 on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve

from ...monitor import Monitor, Stopped
from ...solution import Status
from .cholesky import cholesky, triangular
from .kernel_products import KernelProducts
from .least_squares import least_squares
from .roundings import ROUNDED_SUM

__all__ = ["ActiveFactor", "constrained"]

UPDATE_SHARE = 6  # a factor of m points is redone when this many times the points that have changed are more than m
LARGEST_SHIFT = 1e-3  # of it: a matrix that needs more is no kernel


class ActiveFactor:
    """A factor of K + D on the members, some of which may be out of play."""

    def __init__(self, products: KernelProducts, ridge: np.ndarray, monitor: Monitor) -> None:
        self.products, self.ridge, self.monitor = products, ridge, monitor
        self.members = np.zeros(0, np.int64)
        self.U = np.zeros((0, 0), order="F")
        self.shift = 0.0
        self.made = self.changed = 0  # factors made anew, and points by which one was changed instead

    def continues(self, ridge: np.ndarray) -> bool:
        """Whether D is the same but for points that have joined; it is used from now on then."""
        same = len(ridge) >= len(self.ridge) and np.array_equal(ridge[: len(self.ridge)], self.ridge)
        if same:
            self.ridge = ridge
        return same

    def solve(self, S: np.ndarray, b: np.ndarray, E: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x on S and μ, for b on S, E of shape (|S|, k) and c."""
        self._cover(S)
        place = np.full(int(self.members.max(initial=-1)) + 1, -1)
        place[self.members] = np.arange(len(self.members))
        at = place[S]
        out = np.setdiff1d(np.arange(len(self.members)), at, assume_unique=True)
        right = np.zeros(len(self.members))
        right[at] = b
        columns = np.zeros((len(self.members), len(out) + E.shape[1]))
        columns[out, np.arange(len(out))] = 1.0
        columns[at, len(out) :] = E
        x, mu = constrained(self._backward, self._forward, right, columns, np.concatenate([np.zeros(len(out)), c]))
        return x[at], mu[len(out) :]

    def _forward(self, b: np.ndarray) -> np.ndarray:
        """U⁻ᵀ b, in order of the members."""
        return self._solved(b.reshape(len(b), -1), transposed=True)

    def _backward(self, b: np.ndarray) -> np.ndarray:
        """U⁻¹ b."""
        return self._solved(b.reshape(len(b), -1), transposed=False)

    def _solved(self, B: np.ndarray, transposed: bool) -> np.ndarray:
        return triangular(self.U, B, transposed, self.products.gram.threads, self.monitor.look)

    def _cover(self, S: np.ndarray) -> None:
        """Make S a part of the members."""
        new = np.setdiff1d(S, self.members)
        out = len(self.members) + len(new) - len(S)
        if UPDATE_SHARE * (len(new) + out) > len(S) or not self._append(new):
            self._anew(S)

    def _anew(self, S: np.ndarray) -> None:
        self.members, self.made = np.sort(S), self.made + 1
        self.shift = 0.0
        while not self._factored(self.products.block(self.members)):
            most = float(self.ridge.max(initial=0.0) + self.products.part.diag().max(initial=0.0))
            self.shift = max(ROUNDED_SUM * most, 100.0 * self.shift)
            if not self.shift <= LARGEST_SHIFT * most:
                raise Stopped(Status.EXHAUSTED)  # the kernel is not positive semi-definite: others go on from here

    def _factored(self, M: np.ndarray) -> bool:
        M[np.diag_indices(len(M))] += self.ridge[self.members] + self.shift
        U = cholesky(M.T, self.products.gram.threads, self.monitor.look, in_place=True)
        if U is not None:
            self.U = U
        return U is not None

    def _append(self, new: np.ndarray) -> bool:
        """Let points join the factor; whether that went well."""
        if not len(new):
            return True
        m, order = len(self.members), np.concatenate([self.members, new])
        cross = self.products.block(order)[:, m:] if 4 * len(new) > m else self.products.rows(new).T[order]
        corner = cross[m:]
        corner[np.diag_indices(len(new))] += self.ridge[new] + self.shift
        side = self._solved(cross[:m], transposed=True) if m else cross[:0]
        small = cholesky(np.asfortranarray(corner - side.T @ side))
        if small is None:
            return False
        U = np.zeros((len(order), len(order)), order="F")
        U[:m, :m], U[:m, m:], U[m:, m:] = self.U, side, small
        self.members, self.U, self.changed = order, U, self.changed + len(new)
        return True


def constrained(
    backward: Callable, forward: Callable, b: np.ndarray, E: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """x and μ of the system above, where ``backward(forward(·))`` is the inverse of its upper left block."""
    if not len(b):
        return b, np.zeros(E.shape[1])
    half = forward(b)[:, 0]
    if not E.shape[1]:
        return backward(half)[:, 0], np.zeros(0)
    columns = forward(E)
    schur, lack = columns.T @ columns, columns.T @ half - c
    small = cholesky(schur)
    sound = small is not None and small.diagonal().min() ** 2 > ROUNDED_SUM * schur.diagonal().max()
    mu = cho_solve((small, False), lack) if sound else least_squares(schur, lack, ROUNDED_SUM)
    return backward(half - columns @ mu)[:, 0], mu
