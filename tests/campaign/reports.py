"""What came of a problem: the kinds of failure, the most harmful first, and reports that can be sent and stored.

| kind            | what is wrong, the most harmful first                                                            |
| --------------- | ------------------------------------------------------------------------------------------------ |
| wrong model     | CONVERGED, but the public attributes do not meet the tolerance, or break a constraint            |
| crash           | an exception that is no documented ValueError, a RuntimeWarning, or values that are not finite   |
| hang            | not done within a time that n and d make generous, or a time limit that was not kept             |
| false proof     | the certificate differs from what the public attributes give                                     |
| worse           | a referee has found a point that the certificate rules out                                       |
| predictions     | ``decision_function`` or ``predict`` are not what the attributes say, or worse than a referee's  |
| not the same    | weights and copies, order, splits, shifts or scales change the solution by more than gaps allow  |
| gave up         | "auto" stopped without having been asked to, though float64 can reach the tolerance              |
| modest          | the tolerance is met, but the status does not say so                                             |
| silent          | no warning where one is due: an early stop, or a gap of more than a tenth                        |
| objection       | a solver does not take a problem, and names no other that does                                   |
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, field

import maxmargin

__all__ = ["KINDS", "Failure", "Report", "answer", "where"]

KINDS = (
    "wrong model",
    "crash",
    "hang",
    "false proof",
    "worse",
    "predictions",
    "not the same",
    "gave up",
    "modest",
    "silent",
    "objection",
)
MOST_OF_A_KIND = 2  # problems with many classes repeat themselves
DOCUMENTED = (  # parts of errors that are answers, not failures
    "specified nu is infeasible",
    "linearly independent were asked for",
    "The number of classes has to be greater than one",
    "choose C of at least",
    "without which there is no step",  # a cache_size that holds no two rows
)


@dataclass(frozen=True)
class Failure:
    kind: str
    message: str


@dataclass
class Report:
    """What came of one problem."""

    seed: int
    machine: str
    solver: str
    n: int
    d: int
    seconds: float = 0.0
    outcome: str = "ok"  # "ok", "skipped", "slow" (a named solver falls short and says so) or "failed"
    detail: str = ""
    failures: list[Failure] = field(default_factory=list)

    def fail(self, kind: str, message: str) -> None:
        self.outcome = "failed"
        if sum(f.kind == kind for f in self.failures) < MOST_OF_A_KIND:
            self.failures.append(Failure(kind, message))

    def raised(self, error: BaseException) -> None:
        """A fit has raised: a documented answer, an objection that names nobody, or a crash."""
        said = answer(error, self.solver)
        if said is not None:
            self.outcome = "skipped"
            self.detail += f" {said}"
            return
        polite = isinstance(error, ValueError) and str(error).count(";") >= 2 and self.solver != "auto"
        self.fail("objection" if polite else "crash", where(error))


def where(error: BaseException) -> str:
    """The line of the package that raised, and what."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "maxmargin" in f.filename]
    at = f"{frames[-1].filename.rsplit('maxmargin/', 1)[-1]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {at}: {str(error)[:300]}"


def answer(error: BaseException, solver: str) -> str | None:
    """What an error says that is an answer and no failure: infeasible parameters, or a solver that names others."""
    if not isinstance(error, ValueError):
        return None
    text = str(error)
    if any(part in text for part in DOCUMENTED):
        return text
    others = [name for name in maxmargin.SOLVERS if name != solver and re.search(f"[\"']{name}[\"']", text)]
    return text if solver != "auto" and text.count(";") >= 2 and others else None
