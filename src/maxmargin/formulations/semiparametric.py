"""Semi-parametric machines: any formulation with functions φ_j that nothing penalises (MPD §6; Smola et al. 1998).

    f(x) = Σ β_i k(x_i, x) + bias + Σ_j η_j φ_j(x)

Each φ_j is one more equality constraint Σ_i β_i φ_j(x_i) = 0, and its multiplier is η_j, as the bias is the
multiplier of Σ_i β_i = 0. So one wrapper serves all formulations: rows are appended to A on the way in, and on the
way out the first multipliers go to the formulation and the others to φ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from ..gram import Signed, Tiled
from ..problem import QP
from ..solution import Solution
from .base import Decision, Formulation, Samples

__all__ = ["SemiParametric"]

FEASIBLE = 1e-9  # relative slack of a constraint that counts as held
DEPENDENT = 1e-10  # singular value, relative to the largest, of a row that says nothing new


@dataclass(frozen=True)
class SemiParametric:
    """A formulation with k functions that are not penalised."""

    machine: Formulation
    phi: np.ndarray  # (k, n): φ_j(x_i)

    def qp(self, samples: Samples) -> QP:
        """The dual problem: rows φ_j(x_i) with 0 on the right, below the formulation's own."""
        qp = self.machine.qp(samples)
        if qp.primal is not None:
            return replace(qp.primal, phi=np.vstack([qp.A, self.phi])).qp()
        A = np.vstack([qp.A, _of_variables(qp.H, self.phi)])
        qp = replace(qp, A=A, b=np.concatenate([qp.b, np.zeros(len(self.phi))]))
        self._check_feasible(qp, samples)
        return qp

    def decision(self, qp: QP, solution: Solution) -> Decision:
        """The machine's own decision and η, on the same scale."""
        decision = self.machine.decision(qp, solution)
        eta = solution.multipliers[len(solution.multipliers) - len(self.phi) :]
        return replace(decision, parametric=decision.scale * eta)

    def unit(self, weight: np.ndarray) -> float:
        """The machine's own."""
        return self.machine.unit(weight)

    def point(self, qp: QP, published: Decision) -> tuple[np.ndarray, np.ndarray]:
        """The machine's own point and η."""
        beta, eta = self.machine.point(qp, published)
        return beta, np.concatenate([eta, published.parametric / published.scale])

    def _check_feasible(self, qp: QP, samples: Samples) -> None:
        """ν asks for coefficients; whether some are left that cancel against every φ_j is a linear program."""
        share = _largest_share(qp)
        if share >= 1.0 - FEASIBLE:
            return
        asked = getattr(self.machine, "nu", 1.0)
        used = asked
        if getattr(self.machine, "clip", False) and self.machine.fit_intercept:  # type: ignore[attr-defined]
            used = min(asked, self.machine.largest_nu(samples.y, samples.weight))  # type: ignore[attr-defined]
        most = share * used
        alone = "leave out functions that need no kernel: positive ones for one class, those that separate two"
        do = f"choose nu in (0, {most:.6g}]" if most > FEASIBLE else alone
        raise ValueError(
            f"specified nu is infeasible: nu={asked:g} was asked for; found that no coefficients of that size cancel "
            f"against the parametric functions, whose coefficients could grow without end; {do}"
        )


def _of_variables(H: Any, phi: np.ndarray) -> np.ndarray:
    """φ of each variable: of its point, and with the sign that the variable has."""
    if isinstance(H, Signed):
        return _of_variables(H.inner, phi) * H.sign
    if isinstance(H, Tiled):
        return _of_variables(H.inner, phi)[:, H.point]
    return _of_variables(H.inner, phi) if hasattr(H, "inner") else phi


def _largest_share(qp: QP) -> float:
    """The largest t ≤ 1 for which Aβ = t b has a solution in the box, which holds 0.

    Rows enter orthonormal: functions of nearby points are nearly constant, and how they differ is all that they say.
    """
    if not qp.b.any():
        return 1.0
    size = np.linalg.norm(qp.A, axis=1)
    unit = 1.0 / np.where(size > 0.0, size, 1.0)
    U, S, Q = np.linalg.svd(qp.A * unit[:, None], full_matrices=False)
    known, b = S > DEPENDENT * S[0], qp.b * unit
    U, Q = U[:, known], Q[known]
    if np.abs(b - U @ (U.T @ b)).max() > FEASIBLE * np.abs(b).max():
        return 0.0  # without boxes there is no solution either
    c = U.T @ b / S[known]
    with np.errstate(invalid="ignore"):
        ray = Q @ (qp.lower + qp.upper)  # all coefficients in proportion to their boxes
    square = float(ray @ ray)
    if np.isfinite(square) and square > 0:
        tau = float(ray @ c) / square
        if 0 <= tau <= 1 and np.abs(tau * ray - c).max() <= FEASIBLE * np.abs(c).max():
            return 1.0
    found = _largest_multiple(qp, Q, c)
    return _largest_multiple(qp, qp.A * unit[:, None], b) or 0.0 if found is None else found


def _largest_multiple(qp: QP, rows: np.ndarray, right: np.ndarray) -> float | None:
    """The largest t ≤ 1 for which rows · β = t · right in the box, or None where rounding keeps it from being found."""
    scale = np.maximum(np.abs(rows).max(axis=1), np.abs(right))
    A = np.column_stack([rows, -right]) / np.where(scale > 0.0, scale, 1.0)[:, None]
    cost = np.zeros(qp.n + 1)
    cost[-1] = -1.0
    bounds = np.column_stack([np.append(qp.lower, 0.0), np.append(qp.upper, 1.0)])
    found = linprog(cost, A_eq=A, b_eq=np.zeros(len(A)), bounds=bounds, method="highs")
    return None if found.x is None else float(found.x[-1])
