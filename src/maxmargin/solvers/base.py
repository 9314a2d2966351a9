"""What every solver shares: its protocol and how it closes."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from ..monitor import Monitor
from ..problem import QP
from ..solution import Solution, Status

__all__ = ["Solver", "close"]


class Solver(Protocol):
    """A dataclass whose fields are its options."""

    form: ClassVar[type]

    def solve(self, problem, start: np.ndarray | None = None, monitor: Monitor | None = None) -> Solution:
        """Solve from ``start`` (feasible or not) under the eyes of ``monitor``."""
        ...


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
