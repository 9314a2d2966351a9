"""Screening: most rows of a long linear problem are decided by a solution on few of them (SLIDES: chunking).

    w, η  <- the solution on a sample, whose boxes are as much wider as it is smaller
    repeat
        W  <- the rows nearest to their corner, s = 0 (or ±ε): those that may still change their mind
        every other row goes to the bound that its s = Zw + p + Aᵀη sends it to, and stays there
        β_W, w, η  <- the solution on W
    until no row outside W is sent elsewhere

Rows far from their corner keep their β whatever w does within reason, so they enter only by what they add to w. The
solution on W is that of the whole once they all agree. Those that do not join the next W, which may be smaller: by
then w is known so well that few rows are near their corner. Any solver of QPs serves for the parts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..gram import Factored, Gram, Ridged
from ..gram.base import Factor
from ..problem import QP
from ..rows import Rows
from ..solution import Solution

__all__ = ["screen"]

SAMPLE = 8  # rows of which one is in the sample
SAMPLE_GAP = 1e-2  # relative gap of the sample's solution
FIRST_SHARE, LATER_SHARE = 0.1, 0.03  # of the rows are near enough to be in W
FIRST_GAP = 1e-4  # of the solution on the first W
TIGHTER = 0.5  # of the gap that is asked of the whole is asked of W
MORE = 3  # times as many rows, where W is too few to hold the constraints
ROUNDS = 12


def screen(
    qp: QP, factor: Factor, solve: Callable[[QP, float], Solution], tol: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, list[Solution]]:
    """β and η of all rows, and the solutions of the parts, each by solve(part, relative gap)."""
    rows = factor.rows
    ridge = np.zeros(qp.n) if factor.ridge is None else factor.ridge
    sample = np.sort(np.random.default_rng(seed).permutation(qp.n)[: qp.n // SAMPLE])
    share = len(sample) / qp.n
    Z = rows.take(sample)
    box = (qp.lower[sample] / share, qp.upper[sample] / share)
    solutions = [
        solve(
            QP(_gram(Z, share * ridge[sample]), qp.p[sample], *box, qp.A[:, sample], qp.b, qp.eps[sample]), SAMPLE_GAP
        )
    ]
    w, eta = Z.t_dot(solutions[0].beta), solutions[0].multipliers
    beta = np.full(qp.n, np.nan)
    W = np.arange(qp.n)
    share = FIRST_SHARE
    for attempt in range(ROUNDS):
        s = rows.dot(w) + qp.p + qp.A.T @ eta
        sent, distance = _sent(qp, ridge, s)
        decided = np.ones(qp.n, bool)
        decided[W] = False
        wrong = decided & (sent != beta)
        if attempt > 1 and not wrong.any():
            break
        near = min(qp.n - 1, int(share * qp.n))
        W = np.flatnonzero(wrong | (distance <= np.partition(distance, near)[near]))
        beta = sent.copy()
        beta[W] = 0.0
        fixed, b = rows.t_dot(beta), qp.b - qp.A @ beta
        # The objective of a part may be of any size: what counts is the gap as a share of the whole.
        losses = -(s * sent + qp.eps * np.abs(sent) + 0.5 * ridge * sent**2)
        whole = 0.5 * w @ w + qp.b @ eta + losses.sum()
        some = 0.5 * (w - fixed) @ (w - fixed) + b @ eta + losses[W].sum()
        gap = (TIGHTER * tol if attempt else FIRST_GAP) * abs(whole) / max(abs(some), np.finfo(float).tiny)
        Z = rows.take(W)
        part = QP(_gram(Z, ridge[W]), qp.p[W] + Z.dot(fixed), qp.lower[W], qp.upper[W], qp.A[:, W], b, qp.eps[W])
        try:
            solution = solve(part, min(gap, SAMPLE_GAP))
        except ValueError:  # the rows that are left cannot make up for the others: Aβ = b needs more of them
            if len(W) == qp.n:
                raise
            share *= MORE
            continue
        solutions.append(solution)
        beta[W] = solution.beta
        w, eta = fixed + Z.t_dot(solution.beta), solution.multipliers
        if not solution.status.converged:
            break
        share = LATER_SHARE
    return beta, eta, solutions


def _gram(Z: Rows, ridge: np.ndarray) -> Gram:
    return Ridged(Factored(Z), ridge) if ridge.any() else Factored(Z)


def _sent(qp: QP, ridge: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bound (or 0) that s sends each row to, and how far s is from sending it elsewhere: 0 if that is no bound."""
    pull = np.sign(-s) * np.maximum(np.abs(s) - qp.eps, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sent = np.clip(np.where(pull == 0.0, 0.0, pull / ridge), qp.lower, qp.upper)
    to_bound = (pull != 0.0) & ((sent == qp.lower) | (sent == qp.upper))
    with np.errstate(invalid="ignore"):
        beyond = np.abs(pull - ridge * sent)  # with a ridge, the corner at a bound u is where −s = d u
    distance = np.where(to_bound, beyond, np.where(pull == 0.0, qp.eps - np.abs(s), 0.0))
    return sent, distance
