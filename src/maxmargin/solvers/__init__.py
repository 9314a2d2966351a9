"""Solvers of the QP, by name."""

from __future__ import annotations

import numpy as np

from .. import threads as th
from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution
from .active import ASVM
from .base import Solver
from .chunking import Chunking
from .coordinate import SOR, Adatron
from .decomposition import SMO, Decomposition
from .interior_point import InteriorPoint
from .linear_newton import LinearNewton
from .mpd import MPD
from .nearest_point import NearestPoint

__all__ = [
    "ASVM",
    "MPD",
    "SMO",
    "SOLVERS",
    "SOR",
    "Adatron",
    "Chunking",
    "Decomposition",
    "InteriorPoint",
    "LinearNewton",
    "NearestPoint",
    "Solver",
    "make_solver",
    "solve",
]

SOLVERS: dict[str, type] = {
    "smo": SMO,
    "decomposition": Decomposition,
    "chunking": Chunking,
    "interior-point": InteriorPoint,
    "mpd": MPD,
    "adatron": Adatron,
    "sor": SOR,
    "newton": LinearNewton,
    "nearest-point": NearestPoint,
    "asvm": ASVM,
}


def make_solver(solver, **options):
    """A solver by name with these options, or the solver itself as it was made."""
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} was asked for; found {sorted(SOLVERS)}; name one of them or pass a solver")
    return SOLVERS[solver](**options)


def solve(
    qp: QP, solver="decomposition", start: np.ndarray | None = None, monitor: Monitor | None = None, **options
) -> Solution:
    """Solve a QP with a solver by name; options are the solver's own."""
    with th.blas_limit(1), monitor or Monitor() as watch:
        return make_solver(solver, **options).solve(qp, start, watch)
