"""What a solver hands back: coefficients, a proof of how good they are, and how it went."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

TINY = float(np.finfo(float).tiny)

__all__ = ["Status", "Certificate", "History", "Solution"]


class Status(Enum):
    """Why a solver stopped: each value is a sentence that a user can act on."""

    CONVERGED = "the solution meets the tolerance"
    MAX_ITERATIONS = "the iteration limit was reached; raise max_iter, or scale the features, or lower C"
    EXHAUSTED = (
        "the solver used up the steps that it allows itself; scale the features, lower C, or name another solver"
    )
    TIME_LIMIT = "the time limit was reached; raise time_limit, or accept the gap"
    INTERRUPTED = "the fit was interrupted; the model is the best one found so far"
    CALLBACK = "the callback asked to stop; the model is the best one found so far"
    UNBOUNDED = "the problem has no minimum; use a kernel that is positive semi-definite, or a loss with bounded slope"
    STALLED = "rounding errors stop further progress; scale the features, or accept the gap"

    @property
    def converged(self) -> bool:
        return self is Status.CONVERGED

    @property
    def unasked(self) -> bool:
        """Whether a solver ended by itself: no limit, clock or user asked for it."""
        return self in (Status.CONVERGED, Status.STALLED, Status.EXHAUSTED)

    def __str__(self) -> str:
        return self.value

    # A stored model names its status, so that sentences may be reworded. skops calls __reduce__, pickle the other.

    def __reduce__(self) -> tuple:
        return Status, (self.name,)

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return self.__reduce__()

    @classmethod
    def _missing_(cls, value: Any) -> Status | None:
        return cls.__members__.get(value)


@dataclass(frozen=True)
class Certificate:
    """A proof of quality, computed from the problem and the coefficients alone.

    ``primal - dual = gap`` bounds how far the objective can be from its optimum, whoever found the
    coefficients. ``violation`` is the largest violation of the optimality conditions (what ``tol``
    means for kernel machines), ``infeasibility`` the largest violation of a constraint, as a share of its terms.
    """

    primal: float
    dual: float
    gap: float
    violation: float
    infeasibility: float
    idle: float = 0.0  # of a model that does nothing, in units of rounding: the scale of a problem whose optimum is 0

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        if not math.isfinite(self.gap):
            return math.inf
        return self.gap / max(abs(self.primal), abs(self.dual), TINY)

    def __str__(self) -> str:
        return (
            f"primal {self.primal:.10g}, dual {self.dual:.10g}, gap {self.gap:.3g} "
            f"({self.relative_gap:.2g} of the objective), largest violation {self.violation:.2g}"
        )


class Step(NamedTuple):
    """A row of a history."""

    seconds: float
    iteration: int
    objective: float
    primal: float
    violation: float
    active: int
    kernel_evals: int
    hit_rate: float


@dataclass
class History:
    """What happened, a row a recorded step; ``columns`` name the entries. ``pandas.DataFrame(history)`` is a table.

    ``objective`` is that of the whole problem at the best coefficients so far, as the QP minimises it: minus a proven
    lower bound of ``primal``, the regularised risk. What a solver does not know at a step is NaN.
    """

    columns = Step._fields
    rows: list[tuple] = field(default_factory=list)
    trace: dict[str, np.ndarray] = field(default_factory=dict)  # what a solver was asked to record in more detail

    def scored(self, iteration: int, score: float) -> None:
        """Record the score that a callback gave the model of a step: rows of ``trace["score"]`` are step and score."""
        before = self.trace.get("score", np.zeros((0, 2)))
        self.trace["score"] = np.vstack([before, [iteration, score]])

    def column(self, name: str) -> np.ndarray:
        """One quantity over time."""
        return np.array([row[self.columns.index(name)] for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Step]:
        """The rows with the names of their entries: what makes a table of them."""
        return (Step(*row) for row in self.rows)


@dataclass(frozen=True)
class Solution:
    """Coefficients and multipliers with their certificate."""

    beta: np.ndarray
    multipliers: np.ndarray
    certificate: Certificate
    status: Status
    n_iter: int
    seconds: float
    kernel_evals: int
    history: History
    w: np.ndarray | None = None  # weights of the features, where the problem is known by features
    solver: str = ""  # the name of the solver that found it
