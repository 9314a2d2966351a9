"""One variable at a time on the dual: Kernel Adatron and successive over-relaxation (MPD §4.2).

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  lower ≤ β ≤ upper  (Aβ = b)

    β_i <- clip(β_i − ω s_i / H_ii)        s = Hβ + p, with ε_i: to zero first, and beyond it in a step of its own

With ω = 1 this is Gauss–Seidel on Hβ = −p, held inside the box, which converges from any start for 0 < ω < 2. A step on
one variable cannot keep an equality constraint, so the bias changes its role (MPD §4.2):

| the bias is | H | solver |
| --- | --- | --- |
| left out | K | ``adatron``, ω = 1 |
| penalised | K + 1 | ``sor`` |
| free, or any rows of A | K + ρ QᵀQ, Q = TA orthonormal | ``sor``: the multipliers of A follow, as in mpd.py |

For kernels, rows come in blocks for the variables that violate most, and in a block it is always the variable that
gains most that moves: sweeps over all of them, which is how SOR is usually written, take some fifty times as many
steps, and more with ω > 1 (measured: docs/mpd.md). Where H is known by features, H = ZZᵀ + diag(d), a step costs one
row of Z whichever variable it is, and sweeps in random order are quickest: see parts/row_sweeps.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..goal import Goal
from ..gram import as_gram
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution
from .base import GOAL, Answer, answer, better, close, heed, linear_form
from .decomposition import Decomposition
from .mpd import MPD, OMEGA
from .parts.limits import Aim
from .parts.row_sweeps import MEMORY, Memory, RowSweeps
from .parts.working_sets import Sizes

__all__ = ["SOR", "Adatron"]

SWEEPS_A_LOOK = 10  # sweeps that cost as much as a look at all rows
ROWS_OMEGA = 1.0  # plain Gauss–Seidel


@dataclass
class Adatron:
    """Kernel Adatron: the variable that gains most moves to its minimum; no equality constraints."""

    shrinking: bool = True  # leave out variables that are stuck at a bound
    cache_size: float | str = "auto"  # megabytes for kernel rows
    seed: int = 0  # order in which a large problem grows from a sample
    sizes: Sizes = Sizes()  # numbers of variables that make a problem large

    form: ClassVar[type] = QP

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows."""
        return qp.n

    def objection(self, qp: QP) -> str | None:
        """Why it cannot take a problem, or None."""
        if not len(qp.A):
            return None
        return (
            f"adatron was asked for; found {len(qp.A)} equality constraints, which steps on one variable cannot keep; "
            'leave the bias out (fit_intercept=False), or use "sor" or "mpd", which take any number'
        )

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, moved into the box. Iterations are steps of one variable."""
        heed(self.objection(qp))
        # Without equality constraints the steps of decomposition are those of the Adatron, in blocks of rows.
        steps = Decomposition(shrinking=self.shrinking, cache_size=self.cache_size, seed=self.seed, sizes=self.sizes)
        return steps.solve(qp, goal, start, monitor)


@dataclass
class SOR:
    """Successive over-relaxation: clipped Gauss–Seidel steps, ω times as long."""

    omega: float | None = None  # relaxation, in (0, 2); None: 1.6 for kernels, 1 over rows of features
    shrinking: bool = True  # leave out variables that are stuck at a bound
    hope: float = np.inf  # relative gap after five sweeps over rows of features above which they are given up, if they
    # left most rows at work,
    patience: float = np.inf  # as they are after so many looks at each row, on average
    cache_size: float | str = "auto"  # megabytes for kernel rows
    memory: Memory = MEMORY  # for rows of features that cannot be swept where they are
    seed: int = 0  # order of the rows in a sweep, or in which a large problem grows from a sample
    sizes: Sizes = MPD.sizes  # numbers of variables that make a problem large, without rows of features

    form: ClassVar[type] = QP
    features: ClassVar[bool] = True  # works on features where a kernel has them

    def pace(self, qp: QP) -> int:
        """Iterations that cost about as much as a look at all rows: sweeps soon leave out most of them."""
        return qp.n if linear_form(qp.H) is None else SWEEPS_A_LOOK

    def __post_init__(self) -> None:
        if self.omega is not None and not 0.0 < self.omega < 2.0:
            raise ValueError(
                f"omega={self.omega} was asked for; found that steps then do not converge; choose it in (0, 2)"
            )

    def solve(
        self, qp: QP, goal: Goal = GOAL, start: np.ndarray | None = None, monitor: Monitor | None = None
    ) -> Solution:
        """Solve from ``start``, which need not be feasible.

        Iterations are sweeps over rows of features, else steps; without a limit at least ten million visits to rows,
        or steps.
        """
        monitor = monitor or Monitor()
        gram = as_gram(qp.H)
        form = linear_form(gram)
        if form is None:
            steps = MPD(
                omega=self.omega or OMEGA,
                shrinking=self.shrinking,
                cache_size=self.cache_size,
                seed=self.seed,
                sizes=self.sizes,
            )
            return steps.solve(qp, goal, start, monitor)
        run = RowSweeps(
            qp, form.rows, form.ridge, form.constant, self.omega or ROWS_OMEGA, self.seed, monitor, self.memory
        )
        aim = Aim(goal.first_gap)
        best: Answer | None = None
        for accuracy in aim.tries():
            reason = run.solve(start, accuracy, goal, self.shrinking, self.hope, self.patience)
            found = answer(qp, goal, run.beta, [run.multipliers])
            best = better(goal, best, found)
            if goal.met(found.certificate) or not reason.converged:
                break
            start = found.beta
            aim.finer()
        assert best is not None
        return close(qp, goal, best, reason, max(1, run.sweeps), monitor, gram.evals)
