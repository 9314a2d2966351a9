"""Chunking (SLIDES; Vapnik): solve the QP only for the support vectors.

    W <- k random variables
    repeat
        solve the QP on W, the others fixed at 0          => decision function h
        apply h to the others
        add at most k that violate the optimality conditions to W
    until none is added

W need hold little more than the support vectors in the end, so the small problems fit where the large one
does not. Where constraints ask for coefficients (ν machines), W starts with enough of them to be feasible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..gram import as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status
from .base import close
from .decomposition import Decomposition
from .groups import BIG, Groups, feasible, offsets

__all__ = ["Chunking"]

INNER_SHARE = 0.9  # of the tolerance: how well a chunk is solved


@dataclass
class Chunking:
    """Growing chunks, each solved by decomposition."""

    chunk: int = 1000  # k: size of the first chunk and the most that is added at a time
    tol: float = 1e-3  # largest violation of the optimality conditions
    max_iter: int = -1  # pair steps; −1: as decomposition
    shrinking: bool = True  # leave out stuck variables while a chunk is solved
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # which variables the first chunk holds

    form: ClassVar[type] = QP

    def solve(self, qp: QP, start: np.ndarray | None = None, monitor: Monitor | None = None) -> Solution:
        """Solve from ``start``, whose nonzero variables join the first chunk."""
        monitor = monitor or Monitor()
        gram = as_gram(qp.H)
        groups = Groups.of(qp)
        inner = Decomposition(
            tol=INNER_SHARE * self.tol, shrinking=self.shrinking, cache_size=self.cache_size,
            growing=False, merging=False,
        )  # fmt: skip
        beta = feasible(groups, np.zeros(qp.n) if start is None else start, qp.lower, qp.upper, groups.sums)
        chosen = (beta != 0) | (np.random.default_rng(self.seed).permutation(qp.n) < self.chunk)
        n_iter = 0
        while True:
            W = np.flatnonzero(chosen)
            part = QP(gram.take(W), qp.p[W], qp.lower[W], qp.upper[W], qp.A[:, W], qp.b, qp.eps[W])
            left = self.max_iter - n_iter if self.max_iter > 0 else -1
            solution = replace(inner, max_iter=left).solve(part, beta[W], monitor)
            n_iter += solution.n_iter
            beta[W] = solution.beta
            H_beta = qp.times(beta)
            added = _violators(qp, groups, beta, H_beta, self.tol, chosen, self.chunk)
            status = Status.MAX_ITERATIONS if 0 < self.max_iter <= n_iter else solution.status
            if not len(added) or not status.converged:
                status = status if len(added) else _verdict(qp, groups, beta, H_beta, self.tol, solution.status)
                eta = (groups.multipliers if status.converged else groups.balanced)(qp, beta, H_beta)
                return close(qp, beta, eta, H_beta, status, n_iter, monitor, gram.evals)
            chosen[added] = True


def _violators(qp: QP, groups: Groups, beta, H_beta, tol: float, chosen, most: int) -> np.ndarray:
    """At most ``most`` variables outside the chunk that violate the conditions, the worst ones."""
    s = qp.gradient(beta, groups.multipliers(qp, beta, H_beta), H_beta)
    rise, fall = offsets(beta, qp.lower, qp.upper, qp.eps)
    score = np.maximum(rise - s, s - fall)
    score[chosen] = -BIG
    candidates = np.flatnonzero(score > 0.5 * tol)
    if len(candidates) > most:
        candidates = candidates[np.argpartition(-score[candidates], most - 1)[:most]]
    return candidates


def _verdict(qp: QP, groups: Groups, beta, H_beta, tol: float, status: Status) -> Status:
    """What the last chunk's status means for the whole problem, now that nothing outside violates."""
    s = qp.gradient(beta, groups.multipliers(qp, beta, H_beta), H_beta)
    return status if not status.converged or qp.violation(beta, s) < 2 * tol else Status.STALLED
