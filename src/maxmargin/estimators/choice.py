"""What ``solver="auto"`` stands for, and how a machine's parameters become a solver's options."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..gram import Factored, Gram, low_rank
from ..problem import QP
from ..solvers import SOLVERS
from ..solvers.base import linear_form
from ..solvers.interior_point import screens

__all__ = ["auto", "cold", "low_rank_or_not", "make", "stands_for", "stops_on_violation", "trial"]

NEWTON_UP_TO = 300  # features: up to here a Newton step costs little more than a sweep over the rows
FACTOR_UP_TO = 3000  # features or samples, whichever are fewer: up to here the interior method takes seconds
DENSE_UP_TO = 3000  # variables: up to here it takes a kernel matrix as a whole
MATRIX_UP_TO = 600  # variables: up to here decomposition has the matrix at hand, and is exact
TINY = 100  # variables: up to here that takes no longer than anything else
FEW_LOOKS = 12.0  # at each row by sweeps before factorising, at least, and if it goes on from them at most
FACTORS = 8  # factorisations that an interior method may take, whose cost in sweeps is worth the wait for them
HOPE = 0.3  # the gap after a first few of them, if there is another solver

LOW_RANK_FROM, LOW_RANK_UP_TO = 5000, 100  # samples, rank: between them the interior method beats decomposition
PARAMETRIC_FROM, PARAMETRIC_UP_TO = 1000, 400  # and mpd, which takes longer
PROBE_ROWS = 1000  # of a kernel that tell whether it may be of low rank:
PROBE_ERROR, PROBE_RANK = 0.2, 64  # share of the trace that so few columns may lack then
LOW_RANK_ERROR = 1e-12  # of the trace: hides less than a tolerance can see


def auto(qp: QP, exact: bool) -> tuple[str, ...]:
    """Solvers that suit a problem, by name: each for the case that those before get stuck.

    ``exact``: whether every coefficient matters, or only the w that they add up to.
    """
    if stands_for(qp.H) is not qp.H:
        return ("interior-point",)
    if not knows_features(qp.H):
        if pairs_keep(qp.A):
            return ("decomposition",)
        return ("mpd", "interior-point") if qp.n <= DENSE_UP_TO else ("mpd",)
    form = linear_form(qp.H)
    if form.ridge is not None:  # a smooth loss
        return ("newton", "interior-point") if form.rows.d <= NEWTON_UP_TO else ("sor", "newton")
    if qp.n <= (MATRIX_UP_TO if exact else TINY) and pairs_keep(qp.A):
        return ("decomposition", "interior-point")
    if form.rows.stored and screens(qp):
        return ("interior-point",)  # which needs less memory for each row, and few passes
    # Sweeps take loose tolerances in a blink; where features are so unequal that they crawl, factorising pays.
    # Where that stalls (separable data with a huge cost), they go on from where they were for as long as it takes.
    return ("sor", "interior-point", "sor") if min(form.rows.n, form.rows.d) <= FACTOR_UP_TO else ("sor",)


def trial(name: str, qp: QP) -> dict:
    """How long a solver may take for which there is another: as many looks at a row as cost what the other does."""
    if name != "sor":
        return {}
    form = linear_form(qp.H)
    if form.ridge is not None:
        return {}  # the other takes longer
    if screens(qp):
        return {"hope": HOPE, "patience": FEW_LOOKS}
    rows = form.rows
    entries = max(1.0, rows.work / rows.n)  # of a row: its part of a normal matrix, and of the factorisation, in sweeps
    looks = FACTORS * (entries / 4 + min(rows.d, rows.n) ** 3 / (120 * rows.n * entries))
    return {"patience": max(FEW_LOOKS, looks)}


def cold(name: str, qp: QP) -> bool:
    """Whether a solver would rather start from the middle than where sweeps got stuck."""
    return name == "interior-point" and not screens(qp)


def low_rank_or_not(gram: Gram, parametric: bool) -> Gram:
    """A factor in place of a kernel matrix that is numerically of low rank, or the matrix."""
    least, most = (PARAMETRIC_FROM, PARAMETRIC_UP_TO) if parametric else (LOW_RANK_FROM, LOW_RANK_UP_TO)
    if gram.n < least:
        return gram
    some = np.linspace(0, gram.n - 1, min(gram.n, PROBE_ROWS)).astype(np.int64)
    if low_rank(gram.take(some), PROBE_ERROR, PROBE_RANK) is None:
        return gram
    return low_rank(gram, LOW_RANK_ERROR, most) or gram


def stands_for(H):
    """The matrix that H approximates, or H."""
    return H.original() if hasattr(H, "original") else H


def knows_features(H) -> bool:
    """Whether a matrix is a view of one made from features, and not from a kernel that happens to have some."""
    return isinstance(H, Factored) or (hasattr(H, "inner") and knows_features(H.inner))


def pairs_keep(A: np.ndarray) -> bool:
    """Whether steps of two variables can keep Aβ = b: variables with the same column of A form a group, and the
    columns of the groups are linearly independent."""
    if len(A) == 1 and A[0, 0] != 0.0 and (A == A[0, 0]).all():
        return True
    kinds: list[np.ndarray] = []
    rest = np.ones(A.shape[1], bool)
    while rest.any():
        if len(kinds) == max(1, len(A)):
            return False  # more kinds than rows
        kinds.append(A[:, [int(rest.argmax())]])
        rest &= (A != kinds[-1]).any(axis=0)
    return len(A) == 0 or np.linalg.matrix_rank(np.hstack(kinds)) == len(kinds)


def stops_on_violation(name: str, qp: QP) -> bool:
    """Whether a solver's tol bounds the largest violation; otherwise it bounds the relative gap."""
    if name == "sor":
        return linear_form(qp.H) is None
    return name in ("smo", "decomposition", "chunking", "mpd", "adatron")


def make(name: str, options: dict):
    """A solver by name with those of the options that it has."""
    known = {f.name for f in fields(SOLVERS[name])}
    return SOLVERS[name](**{key: value for key, value in options.items() if key in known})
