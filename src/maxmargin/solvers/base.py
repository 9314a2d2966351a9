"""What every solver shares: its protocol and how it closes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from ..gram import Ridged, Shifted, as_gram
from ..monitor import Monitor
from ..problem import QP
from ..rows import Rows
from ..solution import Solution, Status

__all__ = ["LinearForm", "Solver", "close", "linear_form"]


class Solver(Protocol):
    """A dataclass whose fields are its options."""

    form: ClassVar[type]

    def solve(self, problem, start: np.ndarray | None = None, monitor: Monitor | None = None) -> Solution:
        """Solve from ``start`` (feasible or not) under the eyes of ``monitor``."""
        ...


@dataclass(frozen=True)
class LinearForm:
    """H = Z Zᵀ + diag(ridge) + constant: what solvers that work on rows of features need."""

    rows: Rows
    ridge: np.ndarray | None
    constant: float  # a penalised bias


def linear_form(H) -> LinearForm | None:
    """H as rows of features, or None. A constant stays a number: as one more feature it would be a copy of Z."""
    gram = as_gram(H)
    if isinstance(gram, (Shifted, Ridged)):
        inner = linear_form(gram.inner)
        if inner is None or (isinstance(gram, Shifted) and gram.constant < 0):
            return None
        if isinstance(gram, Shifted):
            return replace(inner, constant=inner.constant + gram.constant)
        return replace(inner, ridge=gram.ridge)
    factor = gram.factor()
    return None if factor is None else LinearForm(factor.rows, factor.ridge, 0.0)


def close(
    qp: QP,
    beta: np.ndarray,
    eta: np.ndarray,
    H_beta: np.ndarray,
    status: Status,
    n_iter: int,
    monitor: Monitor,
    evals: int,
) -> Solution:
    """The solution with a certificate computed by the problem; H_beta must come from ``qp.times``."""
    return Solution(
        beta=beta,
        multipliers=eta,
        certificate=qp.certificate(beta, eta, H_beta),
        status=status,
        n_iter=n_iter,
        seconds=monitor.seconds,
        kernel_evals=evals,
        history=monitor.history,
    )
