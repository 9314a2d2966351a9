"""One variable at a time on the dual: Kernel Adatron and successive over-relaxation (MPD §4.2).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  lower ≤ β ≤ upper  (Aβ = b)

    β_i <- clip(β_i − ω s_i / H_ii)        s = Hβ + p, with ε_i: to zero first, and beyond it in a step of its own

With ω = 1 this is Gauss–Seidel on Hβ = −p, held inside the box, which converges from any start for 0 < ω < 2. A step on
one variable cannot keep an equality constraint, so the bias changes its role (MPD §4.2):

| the bias is | H | solver |
| --- | --- | --- |
| left out | K | ``adatron``: always the variable that gains most |
| penalised | K + 1 | ``sor``: sweep after sweep |
| free, or any rows of A | K + ρ QᵀQ, Q = TA orthonormal | ``sor``: the multipliers of A follow, as MPD does (§5.4) |

For kernels, rows come in blocks for the variables that violate most, and sweeps run on such a block. Where H is known
by features, H = ZZᵀ + diag(d), sweeps run over the rows of Z with w = Zᵀβ kept up to date: see row_sweeps.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import threads as th
from .._jit import jit
from ..gram import as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution
from .base import close, linear_form
from .decomposition import Decomposition
from .groups import BIG
from .mpd import INNER_TOL, MPD, STEPS_A_CALL, _Part, _Run
from .pairs import HUGE, subtract_rows
from .row_sweeps import RowSweeps

__all__ = ["SOR", "Adatron"]

SKIP = 0.5  # of the violation that sweeps are to reach: variables that violate less are not moved


@dataclass
class Adatron:
    """Kernel Adatron: the variable that gains most moves to its minimum; no equality constraints."""

    tol: float = 1e-3  # largest violation of the optimality conditions
    max_iter: int = -1  # steps; −1: 100 a variable and at least ten million
    shrinking: bool = True  # leave out variables that are stuck at a bound
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # order in which a large problem grows from a sample

    form: ClassVar[type] = QP

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        if not len(qp.A):
            return None
        return (
            f"adatron was asked for; found {len(qp.A)} equality constraints, which steps on one variable cannot keep; "
            'leave the bias out (fit_intercept=False), or use "sor" or "mpd", which take any number'
        )

    def solve(self, qp: QP, start: np.ndarray | None = None, monitor: Monitor | None = None) -> Solution:
        """Solve from ``start``, moved into the box."""
        objection = self.objection(qp)
        if objection:
            raise ValueError(objection)
        # Without equality constraints the steps of decomposition are those of the Adatron, in blocks of rows.
        steps = Decomposition(
            tol=self.tol, max_iter=self.max_iter, shrinking=self.shrinking, cache_size=self.cache_size, seed=self.seed
        )
        return steps.solve(qp, start, monitor)


@dataclass
class SOR:
    """Successive over-relaxation: sweeps of clipped Gauss–Seidel steps, ω times as long."""

    omega: float = 1.0  # relaxation, in (0, 2)
    tol: float = 1e-3  # relative gap where H is known by features, else the largest violation
    max_iter: int = -1  # sweeps over rows of features, else steps; −1: until ten million rows, or steps, are done
    shrinking: bool = True  # leave out variables that are stuck at a bound
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # order of the rows in a sweep

    form: ClassVar[type] = QP

    def __post_init__(self) -> None:
        if not 0.0 < self.omega < 2.0:
            raise ValueError(
                f"omega={self.omega} was asked for; found that steps then do not converge; choose it in (0, 2)"
            )

    def solve(self, qp: QP, start: np.ndarray | None = None, monitor: Monitor | None = None) -> Solution:
        """Solve from ``start``, which need not be feasible."""
        monitor = monitor or Monitor()
        gram = as_gram(qp.H)
        form = linear_form(gram)
        if form is not None:
            sweeps = RowSweeps(qp, form.rows, form.ridge, form.constant, self.omega, self.seed, monitor)
            status = sweeps.solve(start, self.tol, self.max_iter, self.shrinking)
            beta = sweeps.beta.copy()
            return close(qp, beta, sweeps.multipliers, qp.times(beta), status, sweeps.sweeps, monitor, gram.evals)
        steps = MPD(tol=self.tol, max_iter=self.max_iter, shrinking=self.shrinking, cache_size=self.cache_size)
        run = _Relaxed(steps, qp, monitor, self.omega)
        beta, H_beta, status = run.solve(start)
        eta = run.equality.T.T @ run.equality.multipliers(qp, beta, H_beta)
        return close(qp, beta, eta, H_beta, status, max(1, run.steps), monitor, gram.evals)


class _Relaxed(_Run):
    """MPD with sweeps in place of its Algorithm 1: multipliers move by ρ(Aβ − b) when all variables are content."""

    def __init__(self, options: MPD, qp: QP, monitor: Monitor, omega: float) -> None:
        super().__init__(options, qp, monitor)
        self.omega = omega
        self.joint = False

    def _improve(self, part: _Part, pull, violation: float, lack: float, tol_p: float, tol_d: float) -> None:
        """Sweeps on the working set, then v brought up to date everywhere."""
        part.set = S = self._working_set(part, pull)
        W, whole = S.W, len(S.W) == len(pull)
        v, beta, rise, fall = part.v[W], part.beta[W], part.rise[W], part.fall[W]
        tol = tol_p if whole else max(INNER_TOL * violation, 0.9 * tol_p)
        most = min(self.most_steps - self.steps, max(1000, STEPS_A_CALL // len(W)))
        self.steps += relaxed_sweeps(S.H, S.diag, v, beta, *S.box, rise, fall, self.omega, tol, most)
        delta = beta - part.beta[W]
        part.beta[W], part.rise[W], part.fall[W] = beta, rise, fall
        moved = np.flatnonzero(delta)
        lost = S.Q @ delta
        self.r += lost
        if whole:
            part.v = v
            return
        slab, slots, delta = self.cache.slab, S.slots[moved], delta[moved]
        th.spread(lambda a, b: subtract_rows(slab, slots, delta, part.v, a, b), len(part.v), self.gram.threads)
        part.v -= self.rho * (part.Q.T @ lost)


@jit
def relaxed_sweeps(H, diag, v, beta, lower, upper, eps, rise, fall, omega, tol, most):
    """Sweeps over all variables until none violates by tol, or ``most`` steps were made; returns their number."""
    n = len(v)
    steps = 0
    while True:
        worst = 0.0
        for i in range(n):
            grow, shrink = v[i] + rise[i], -(v[i] + fall[i])
            violation = max(grow, shrink)
            worst = max(worst, violation)
            if violation <= SKIP * tol:
                continue
            before = beta[i]
            low, high = lower[i], upper[i]
            if eps[i] > 0.0 and before < 0.0:
                high = min(high, 0.0)
            if eps[i] > 0.0 and before > 0.0:
                low = max(low, 0.0)
            new = min(max(before + omega * (grow if grow > shrink else -shrink) / diag[i], low), high)
            if new == before:
                continue
            beta[i] = new
            rise[i] = -BIG if new >= upper[i] else (-eps[i] if new >= 0.0 else eps[i])
            fall[i] = BIG if new <= lower[i] else (-eps[i] if new > 0.0 else eps[i])
            steps += 1
            change = new - before
            row = H[i]
            for s in range(n):
                v[s] -= change * row[s]
            if steps >= most or abs(new) > HUGE:
                return steps
        if worst < tol:
            return steps
