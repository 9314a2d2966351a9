"""Newton steps of a kernel machine on the points of a window (PRIMAL eq. 4.4, 4.6 and appendix B).

With S the points where the loss is curved (kernel_risk.py) and the other coefficients where their losses ask for them,
the change δ of β and that of η solve

    (K_SS + D_S) δ_S + A_Sᵀ δη = D_S (asked − β)_S − K_SB δ_B,     δ_B = (asked − β)_B,     A (β + δ) = 0

A full step is exact if no point changes sides. Points that do may make it too long: where some full steps bring
nothing, steps end at the minimum along them from then on (the line search of PRIMAL §5.3).

**Systems.** Up to some hundred points in S, a Cholesky factor that is changed rather than made anew (active_factor.py).
Above, conjugate gradients with products only, preconditioned by a partial Cholesky factor of K, to a share
of D β, which is what points in S lack. Where they take as long as a factor would, or lead nowhere, the factor takes
over.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np

from ...gram import as_gram
from ...monitor import Monitor
from ...problem import QP
from ...solution import Status
from .active_factor import ActiveFactor
from .kernel_products import KernelProducts
from .kernel_risk import KernelRisk
from .limits import ROUNDS, Progress
from .line_search import minimum_along
from .partial_cholesky import PartialCholesky
from .projected_cg import projected_cg

__all__ = ["Descent", "Owner", "closing_seconds"]

FORCING = 0.1  # of what violates conditions, and of what points in S lack on average, may be left: more changes S
ENOUGH = 0.2  # of a violation that is asked for: a step that leaves so much is the last one, if S stays as it is
CG_RANK, CG_SHARE = 500, 4  # columns of the preconditioner at most, and points in S for each: it costs next to nothing
DEEPER = 1.5  # times as many columns are worth making: samples grow twofold
TRUSTED = 4  # full steps in a row may bring nothing: sets change by many points at once, and then fit (PRIMAL §4.1)
WIDER, FIRST_WIDER = 8.0, 1e-3  # parabolas where S does not see η: times as wide, at least this share of targets


class Owner(Protocol):
    """What steps share with the one who calls them."""

    whole: QP
    eta: np.ndarray
    size: float  # of targets
    steps: int
    most: int  # steps
    sv: int  # points in S at the last step
    direct: int  # points in S up to which their system is factored
    seed: int
    spent: Status  # why steps end that are as many as they may be

    def model(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and multipliers of the whole problem, for those of the window."""


def closing_seconds(owner: Owner, beta: np.ndarray) -> float:
    """What the certificate of the whole problem will take, with these coefficients of the window."""
    return as_gram(owner.whole.H).seconds(owner.model(beta)[0])


class Descent:
    """β and g = Kβ on a window."""

    def __init__(self, owner: Owner, products: KernelProducts) -> None:
        self.owner, self.products = owner, products
        self.beta, self.g = np.zeros(0), np.zeros(0)
        self.factor: ActiveFactor | None = None
        self.preconditioner: PartialCholesky | None = None
        self.in_vain = 0  # products that were not enough for conjugate gradients, and took as long as a factor
        self.inexact = False  # whether the last system was solved by them
        self.exactly = False  # whether systems are factored from now on, however large they are

    def join(self, values: np.ndarray) -> None:
        """Points have joined, where Kβ has these values."""
        self.beta = np.concatenate([self.beta, np.zeros(len(values))])
        self.g = np.concatenate([self.g, values])

    def solve(
        self,
        risk: KernelRisk,
        tol: float,
        monitor: Monitor,
        complete: bool = False,
        gain: float = 0.0,
        careful: bool = False,
    ) -> Status:
        """Steps until the violation is below tol, or until one brings no more than a share ``gain`` of the value.

        ``complete``: the value is that of the whole problem. ``careful``: every step is to the minimum along it.
        """
        owner = self.owner
        self.risk, self.monitor = risk, monitor
        self.careful = careful or bool(risk.width().any())  # where a loss ends in a line, full steps are too long
        if self.factor is None or not self.factor.continues(risk.d):
            self.factor = ActiveFactor(self.products, risk.d, monitor)
        progress, trusted = Progress(), 0
        kept = (self.beta, self.g, owner.eta)
        while True:
            s = self.g + risk.p + risk.A.T @ owner.eta
            violation = self._violation(s, tol)
            value = 0.5 * float(self.beta @ self.g) + risk.value(s)
            known = value if complete else np.nan
            model = partial(owner.model, self.beta) if complete else None
            evals = self.products.gram.evals
            monitor.reserve(partial(closing_seconds, owner), self.beta)
            stop = monitor.step(owner.steps, np.nan, violation, owner.sv, evals, primal=known, model=model)
            if violation <= tol or 0.0 <= progress.objective - value < gain * abs(value):
                return Status.CONVERGED
            if stop or owner.steps >= owner.most:
                return stop or owner.spent
            if progress.stalled(value, violation):
                if not (self.inexact and self.products.fits(owner.sv)):
                    return Status.STALLED
                progress, self.exactly = Progress(), True  # what conjugate gradients leave undone is all that is left
            if progress.lower:
                kept, trusted = (self.beta, self.g, owner.eta), 0
            elif trusted == TRUSTED:
                (self.beta, self.g, owner.eta), trusted, self.careful = kept, 0, True
                s = self.g + risk.p + risk.A.T @ owner.eta
            elif progress.waited:
                trusted += 1
            self._step(s, tol)
            owner.steps += 1

    def _violation(self, s: np.ndarray, tol: float) -> float:
        """The violation about at β; where that would be the end, at β as it will be used: where its losses ask for it.

        A coefficient that a short step has left next to its bound violates its condition as one in the middle does.
        """
        risk = self.risk
        z = risk.asked(s)
        about = 2.0 * float((risk.d * np.abs(z - self.beta)).max(initial=0.0))
        size = max(float(np.abs(self.beta).sum()), np.finfo(float).tiny)
        about += float(np.abs(risk.A @ self.beta).max(initial=0.0)) / size
        if about > tol:
            return about
        settled = np.where(risk.curved(s, z), np.clip(self.beta, risk.lower, risk.upper), z)
        change = self.products.times(settled - self.beta) if (settled != self.beta).any() else np.zeros(risk.n)
        found = risk.violation(settled, s + change)
        if found <= tol:
            self.beta, self.g = settled, self.g + change
        return max(found, about)

    def _step(self, s: np.ndarray, tol: float) -> None:
        owner, risk = self.owner, self.risk
        z = risk.asked(s)
        S, d = self._curved(s, z)
        owner.sv = len(S)
        delta = z - self.beta
        right, wrong = d[S] * delta[S], max(float((d * np.abs(delta)).max(initial=0.0)), ENOUGH / FORCING * tol)
        delta[S] = 0.0
        lack = -(risk.A @ (self.beta + delta))
        delta[S], move, dg = self._system(S, d, right, lack, wrong, delta)
        ds = dg + risk.A.T @ move
        length = 1.0
        if self.careful:
            look = risk.along(float(self.beta @ dg), float(delta @ dg), s, ds)
            length = minimum_along(look, abs(look(0.0)[0]))
        self.beta = self.beta + length * delta
        self.g = self.g + length * dg
        owner.eta = owner.eta + length * move

    def _system(
        self, S: np.ndarray, d: np.ndarray, right: np.ndarray, lack: Any, wrong: float, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """δ on S, that of η, and K times δ, for δ of the others, which is 0 on S."""
        owner, products, E = self.owner, self.products, self.risk.A[:, S].T
        # A system twice as large may have twice as many products, and needs hardly more of them.
        most = products.a_factor(len(S))
        self.inexact = False
        if len(S) > owner.direct and not self.exactly and most >= 2 * self.in_vain:
            rank = min(CG_RANK, len(S) // CG_SHARE)
            if self.preconditioner is None:
                self.preconditioner = PartialCholesky(products, rank, owner.seed)
            self.preconditioner.grow()
            if rank >= DEEPER * self.preconditioner.rank:
                self.preconditioner.deepen(rank)
            inverse = self.preconditioner.on(S, d[S], products.gram.threads)
            slack = FORCING * wrong, FORCING * d[S], self.beta[S]
            found = projected_cg(products, S, d[S], right, E, lack, inverse, slack, most, self.monitor, others)
            if found.solved or not products.fits(len(S)):
                self.inexact = True
                return found.x, found.mu, found.Kx
            self.in_vain = most
        assert self.factor is not None
        factor = self.factor if d is self.risk.d else ActiveFactor(products, d, self.monitor)
        dg = products.times(others) if others.any() else np.zeros(products.n)
        x, move = factor.solve(S, right - dg[S], E, lack)
        return x, move, dg + products.combine(S, x)

    def _curved(self, s: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S, and d; where S does not see all of η, those of wider parabolas, which makes a step like any other."""
        risk, d = self.risk, self.risk.d
        S = np.flatnonzero(risk.curved(s, z))
        if not len(risk.A):
            return S, d
        width, rank = risk.width(), np.linalg.matrix_rank(risk.A)
        for _ in range(ROUNDS):
            if not width.any() or np.linalg.matrix_rank(risk.A[:, S]) == rank:
                break
            wider = risk.rounded(np.maximum(WIDER * d, FIRST_WIDER * self.owner.size * width))
            d, S = wider.d, np.flatnonzero(wider.curved(s))
        return S, d
