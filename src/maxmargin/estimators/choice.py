"""What ``solver="auto"`` stands for, and how a machine's parameters become a solver's options."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..problem import QP
from ..solvers import SOLVERS

__all__ = ["PAIR_STEPS", "VIOLATION", "auto", "make"]

PAIR_STEPS = ("smo", "decomposition", "chunking")  # whose max_iter counts steps of two variables
VIOLATION = (*PAIR_STEPS, "mpd", "adatron")  # whose tol bounds the largest violation; for the others it is the gap


def auto(qp: QP) -> str:
    """The name of the solver that suits a problem."""
    if pairs_keep(qp.A):
        return "decomposition"
    return next((name for name in ("mpd", "interior-point") if name in SOLVERS), "decomposition")


def pairs_keep(A: np.ndarray) -> bool:
    """Whether steps of two variables can keep Aβ = b: variables with the same column of A form a group, and the
    columns of the groups are linearly independent."""
    if len(A) == 0 or (A == A[:, :1]).all():
        return True
    first = A[:, :1]
    kinds = [first]
    rest = (A != first).any(axis=0)
    while rest.any():
        if len(kinds) == len(A):
            return False  # more kinds than rows
        first = A[:, [int(rest.argmax())]]
        kinds.append(first)
        rest &= (A != first).any(axis=0)
    return np.linalg.matrix_rank(np.hstack(kinds)) == len(kinds)


def make(name: str, options: dict):
    """A solver by name with those of the options that it has."""
    known = {f.name for f in fields(SOLVERS[name])}
    return SOLVERS[name](**{key: value for key, value in options.items() if key in known})
