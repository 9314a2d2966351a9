"""Solvers of the QP, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import threads as th
from ..goal import Goal
from ..monitor import Monitor
from ..problem import ERM, QP
from ..solution import Solution
from .asvm import ASVM
from .auto import Auto, knows_features, low_rank_or_not
from .base import Solver, judged, run, starting_point
from .chunking import Chunking
from .columns import Columns
from .decomposition import SMO, Decomposition
from .interior_point import InteriorPoint
from .mpd import MPD
from .nearest_point import NearestPoint
from .newton import Newton
from .pcg import PCG
from .potential_smo import PotentialSMO
from .sor import SOR, Adatron

__all__ = [
    "ASVM",
    "MPD",
    "SMO",
    "SOLVERS",
    "SOR",
    "Adatron",
    "Auto",
    "Chunking",
    "Columns",
    "Decomposition",
    "InteriorPoint",
    "Newton",
    "NearestPoint",
    "PCG",
    "PotentialSMO",
    "Solver",
    "judged",
    "knows_features",
    "low_rank_or_not",
    "make_solver",
    "solve",
    "starting_point",
]

SOLVERS: dict[str, type] = {
    "smo": SMO,
    "decomposition": Decomposition,
    "chunking": Chunking,
    "interior-point": InteriorPoint,
    "mpd": MPD,
    "adatron": Adatron,
    "sor": SOR,
    "newton": Newton,
    "pcg": PCG,
    "nearest-point": NearestPoint,
    "asvm": ASVM,
    "potential-smo": PotentialSMO,
    "columns": Columns,
}


def make_solver(solver: Any, **options: Any) -> Any:
    """A solver by name with these options, or the solver itself as it was made."""
    if not isinstance(solver, str):
        return solver
    if solver == "auto":
        return Auto(options=options)
    if solver not in SOLVERS:
        known = sorted(SOLVERS)
        raise ValueError(f"a known solver was asked for; found solver={solver!r}; choose one of {known} or pass one")
    return SOLVERS[solver](**options)


def solve(
    qp: QP | ERM,
    solver: Any = "decomposition",
    start: np.ndarray | None = None,
    monitor: Monitor | None = None,
    *,
    tol: float = 1e-3,
    gap: float = np.inf,
    max_iter: int = -1,
    **options: Any,
) -> Solution:
    """Solve a QP, or the dual of an ERM, with a solver by name.

    ``tol`` bounds the largest violation of the optimality conditions and ``gap`` the relative gap, whatever the solver;
    the solution is CONVERGED if its certificate says so. Other options are the solver's own.
    """
    goal = Goal(violation=tol, gap=gap, max_iter=max_iter)
    qp = qp.qp() if isinstance(qp, ERM) else qp
    with th.blas_limit(1), monitor or Monitor() as watch:
        return run(make_solver(solver, **options), qp, goal, start, watch, solver if isinstance(solver, str) else "")
