"""Watches a solver: stops it, records it, shows it, and lets the user interrupt it.

A solver calls :meth:`Monitor.step` every few milliseconds and stops as soon as that returns a status. What is recorded
means the same for all solvers: the best bounds so far of the optimum of the whole problem.

What takes long between two steps (a matrix, a factorisation, a product with many rows) is done in pieces, and calls
:meth:`Monitor.look` before each of them, which raises :class:`Stopped` when it is time. A solver that has such pieces
catches it and ends with what it had before. There the callback is asked as well, with what the last step has said: one
that raises or wants to stop does not wait for the next step.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from ._jit import compiling_seconds
from .solution import Certificate, History, Status, Step

__all__ = ["Monitor", "Stopped", "keep_interrupted"]

KEEP_EVERY_SECONDS = 2.0  # between two copies of the coefficients for somebody who keeps them
PRIMAL_EVERY_SECONDS = 0.1  # a primal value costs a pass over all variables that a step does not need
CALL_EVERY_SECONDS = 0.1  # the callback is asked at each step, and where steps are longer than this in between
RESERVED = 0.5  # of a limit, at most, is kept back for what a fit still has to do when its solver has stopped
SURELY = 0.5  # of the seconds that something is expected to take: others may have been at work while that was measured


_keeping: ContextVar[bool] = ContextVar("keeping", default=False)


@contextmanager
def keep_interrupted() -> Iterator[None]:
    """A context in which a fit that Ctrl-C has stopped returns as others do.

    Outside of it the model is stored all the same, and then KeyboardInterrupt is raised again, so that Ctrl-C ends a
    search or a loop of many fits and not only the one that it happens to meet.

        with maxmargin.keep_interrupted():
            model = SVC().fit(X, y)
    """
    token = _keeping.set(True)
    try:
        yield
    finally:
        _keeping.reset(token)


def clock() -> float:
    """Seconds that do not pass while leaves are compiled: a first use may take as long as it ever will."""
    return time.perf_counter() - compiling_seconds()


_fitting: ContextVar[tuple[Any, float] | None] = ContextVar("fitting", default=None)


@contextmanager
def fitting(machine: Any) -> Iterator[None]:
    """A context in which a machine is fitted: its limit counts from here on, also while samples are still checked."""
    now = _fitting.get()
    token = _fitting.set(now if now is not None and now[0] is machine else (machine, clock()))
    try:
        yield
    finally:
        _fitting.reset(token)


def fit_began(machine: Any) -> float:
    """When the fit of a machine began, by the clock; now if it is not being fitted."""
    now = _fitting.get()
    return now[1] if now is not None and now[0] is machine else clock()


class Stopped(Exception):  # noqa: N818 (no error: a solver's way from the middle of a step to its end)
    """It is time to stop, and why."""

    def __init__(self, reason: Status) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Monitor:
    """Progress, time limit, callback and Ctrl-C for one fit, which may solve several problems.

    The first Ctrl-C asks the solver to stop with the best iterate; a second one raises KeyboardInterrupt at once. Where
    the process ignores interrupts (``nohup``), so does the monitor.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        callback: Callable | None = None,
        verbose: bool = False,
        label: str = "",
        started: float | None = None,
    ) -> None:
        if time_limit is not None and not time_limit > 0:
            raise ValueError(
                f"time_limit={time_limit!r} was asked for; found no time to work in; give seconds > 0 or None"
            )
        self.started = clock() if started is None else started
        self.reserved = 0.0  # seconds that are kept back of the limit
        self.deadline = self.started + time_limit if time_limit is not None else math.inf
        self.callback = callback
        self.verbose = verbose
        self.label = label
        self.history = History()
        self.bounds = (math.nan, math.nan)  # least objective and least primal value of the whole problem so far
        self.stopped: Status | None = None
        self.parent: Monitor | None = None
        self.interrupted = False
        self.told: dict[str, Any] = Step(0.0, 0, math.nan, math.nan, math.nan, 0, 0, 0.0)._asdict()  # by the last step
        self._called_at = self.started
        self.function: Callable[..., Any] | None = None  # values at any points, of coefficients and multipliers
        self.keeper: Callable[[Any], None] | None = None  # gets the coefficients of the whole problem now and then
        self._kept_at = 0.0
        self._previous_handler: object = None
        self._printed_at = -math.inf
        self._primal_at: float | None = None  # when the last primal value was asked for, or the first look was
        self._display: Display | None = None
        self._last_text = ""
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        return clock() - self.started

    def __enter__(self) -> Monitor:
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            # None: a handler that was not installed from Python cannot be put back.
            if previous is not None and previous is not signal.SIG_IGN:
                self._previous_handler = previous
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)  # type: ignore[arg-type]
            self._previous_handler = None
        if self._display is not None:
            self._display.end(self._last_text)  # the last line is the state at the end, not a quarter second before
            self._display = None

    def part(self, label: str) -> Monitor:
        """A monitor for one of several problems: a history of its own, the same clock, callback and Ctrl-C."""
        part = object.__new__(Monitor)
        part.__dict__.update(self.__dict__)
        part.parent = self
        part.label = label
        part.history = History()
        part.bounds = (math.nan, math.nan)
        return part

    def inner(self, times: float = 1.0) -> Inner:
        """For a solver that works on a part of the problem: what it says of objectives is not of the whole.

        To certify the whole takes so many ``times`` as long as to certify that part.
        """
        return Inner(self, times)

    def _on_interrupt(self, signum: Any, frame: Any) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    def raise_interrupt(self) -> None:
        """KeyboardInterrupt, if there was one that has not ended anything yet."""
        if self.interrupted and not _keeping.get():
            raise KeyboardInterrupt

    def stop_now(self) -> Status | None:
        """The reason to stop at once, if there is one."""
        if self.parent is not None:
            return self.parent.stop_now()
        if self.stopped is None and self.interrupted:
            self.stopped = Status.INTERRUPTED
        if self.stopped is None and (self.callback is not None or self.deadline < math.inf):
            now = clock()
            if now > self.due:
                self.stopped = Status.TIME_LIMIT
            elif self.callback is not None and now - self._called_at > CALL_EVERY_SECONDS:
                self._call(self.callback, self.told | {"seconds": self.seconds})
        return self.stopped

    def _call(self, callback: Callable, told: dict[str, Any]) -> None:
        """Ask the callback, which may put something into what it is told."""
        self._called_at = math.inf  # a thread that looks does not ask meanwhile
        try:
            if callback(told):
                self.stopped = Status.CALLBACK
        finally:
            self._called_at = clock()

    def look(self) -> None:
        """Raise Stopped if there is a reason to stop at once."""
        reason = self.stop_now()
        if reason is not None:
            raise Stopped(reason)

    def foresee(self, seconds: float) -> None:
        """Raise Stopped if there is a reason to stop, or if what takes so many seconds would end after the limit."""
        self.look()
        if clock() + SURELY * seconds > self.due:
            raise Stopped(Status.TIME_LIMIT)

    @property
    def due(self) -> float:
        """When a solver has to stop: before the limit by what the end will take, or by a share of the limit."""
        if self.parent is not None:
            return self.parent.due
        if self.reserved == 0.0:
            return self.deadline
        return self.deadline - min(self.reserved, RESERVED * (self.deadline - self.started))

    def reserve(self, seconds: Callable[[Any], float], beta: Any) -> None:
        """Keep back the seconds that it takes to certify β, the coefficients now; they are asked for under a limit."""
        owner = self.parent or self
        if owner.deadline < math.inf:
            owner.reserved = seconds(beta)

    @property
    def tells(self) -> bool:
        """Whether somebody is told of steps on the way."""
        return self.callback is not None or self.keeper is not None or self.verbose

    def wants_primal(self) -> bool:
        """Whether it is time for another primal value."""
        now = self.seconds
        if self._primal_at is None:
            self._primal_at = now
        if now - self._primal_at < PRIMAL_EVERY_SECONDS:
            return False
        self._primal_at = now
        return True

    def wants_coefficients(self) -> bool:
        """Whether somebody keeps copies of the coefficients, and it is time for another one."""
        now = self.seconds
        if self.keeper is None or now - self._kept_at < KEEP_EVERY_SECONDS:
            return False
        self._kept_at = now
        return True

    def keep(self, beta: Any) -> None:
        """Hand over the coefficients of the whole problem, for a fit to begin with after this one was killed."""
        if self.keeper is not None:
            self.keeper(beta)

    def step(
        self,
        iteration: int,
        objective: float = math.nan,
        violation: float = math.nan,
        active: int = 0,
        kernel_evals: int = 0,
        hit_rate: float = 0.0,
        primal: float = math.nan,
        model: Callable[[], tuple[Any, Any]] | None = None,
    ) -> Status | None:
        """Record a step and return the reason to stop, or None to go on.

        ``objective`` is that of the whole problem at feasible coefficients, ``primal`` that of a decision function;
        either may be unknown. The best ones so far are recorded. ``model`` gives coefficients and multipliers of a
        function that would do as an early stop: a callback may ask for its values, and its score is recorded.
        """
        row = self._record(iteration, objective, violation, active, kernel_evals, hit_rate, primal)
        owner = self.parent or self
        if self.callback is not None and owner.stopped is None:
            told: dict[str, Any] = dict(zip(History.columns, row, strict=True))
            if model is not None and self.function is not None:
                told["model"] = partial(self.function, *model())
            owner.told = dict(told)
            owner._call(self.callback, told)
            if "score" in told:
                self.history.scored(iteration, float(told["score"]))
        return self.stop_now()

    def bound(self, found: Certificate) -> None:
        """Take note of what a certificate proves of the whole problem."""
        self.bounds = (_least(self.bounds[0], -found.dual), _least(self.bounds[1], found.primal))

    def end(self, iteration: int, found: Certificate, kernel_evals: int) -> None:
        """The last row tells what a solver ends with."""
        (self.parent or self).reserved = 0.0
        *_, active, _, hit_rate = self.history.rows.pop() if self.history.rows else (0, 0, 0.0)
        self.bounds = (math.nan, math.nan)  # what was added up on the way is not as exact
        self._record(iteration, -found.dual, found.violation, active, kernel_evals, hit_rate, found.primal)

    def _record(
        self,
        iteration: int,
        objective: float,
        violation: float,
        active: int,
        kernel_evals: int,
        hit_rate: float,
        primal: float,
    ) -> tuple:
        self.bounds = (_least(self.bounds[0], objective), _least(self.bounds[1], primal))
        row = (self.seconds, iteration, *self.bounds, violation, active, kernel_evals, hit_rate)
        self.history.rows.append(row)
        if self.verbose:
            (self.parent or self)._show(row, self.label)
        return row

    def _show(self, row: tuple, label: str) -> None:
        with self._lock:
            self._show_locked(row, label)

    def _show_locked(self, row: tuple, label: str) -> None:
        self._last_text = progress_text(row, label)
        if self._display is None:
            self._display = display()
        if row[0] - self._printed_at >= self._display.every:
            self._printed_at = row[0]
            self._display.show(self._last_text)


class Inner(Monitor):
    """A monitor as a solver of a part of the problem sees it."""

    def __init__(self, outer: Monitor, times: float) -> None:
        self.outer, self.times = outer, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["outer"], name)

    def inner(self, times: float = 1.0) -> Inner:
        """A part of a part."""
        return Inner(self.outer, times * self.times)

    def stop_now(self) -> Status | None:
        """The reason to stop the whole."""
        return self.outer.stop_now()

    def wants_primal(self) -> bool:
        """Never: it would be that of a part."""
        return False

    def wants_coefficients(self) -> bool:
        """Never: they would be those of a part."""
        return False

    def reserve(self, seconds: Callable[[Any], float], beta: Any) -> None:
        """As the whole's, which takes longer than a part."""
        self.outer.reserve(lambda beta: self.times * seconds(beta), beta)

    def step(
        self,
        iteration: int,
        objective: float = math.nan,
        *details: Any,
        primal: float = math.nan,
        model: Any = None,
        **more: Any,
    ) -> Status | None:
        """As the whole's, without what is only true of a part."""
        return self.outer.step(iteration, math.nan, *details, **more)

    def bound(self, found: Certificate) -> None:
        """What is true of a part says nothing of the whole."""

    def end(self, iteration: int, found: Certificate, kernel_evals: int) -> None:
        """The end of a part is not the end."""


# -- where progress is shown ------------------------------------------------------------------------------------------


class Display:
    """Lines of progress, each on a line of its own: for a pipe or a file, where nothing can be taken back."""

    every = 1.0  # seconds between two of them

    def __init__(self) -> None:
        self.last = ""

    def show(self, text: str) -> None:
        """The state now."""
        self.last = text
        self.write(text)

    def end(self, text: str) -> None:
        """The state at the end, unless it was the last one shown."""
        if text != self.last:
            self.show(text)

    def write(self, text: str) -> None:
        """A line on the error stream."""
        print(text, file=sys.stderr, flush=True)


class Logged(Display):
    """Lines for Python's logging, where somebody listens to the logger "maxmargin"."""

    def write(self, text: str) -> None:
        """A message of level INFO."""
        logger.info(text)


class Terminal(Display):
    """One line of a terminal, written over until the end."""

    every = 0.25

    def write(self, text: str) -> None:
        """The line, cut so that it stays one."""
        width = shutil.get_terminal_size().columns - 1
        print("\r" + text[:width] + CLEAR_TO_END, end="", file=sys.stderr, flush=True)

    def end(self, text: str) -> None:
        """The state at the end, and a new line for whoever comes next."""
        super().end(text)
        print(file=sys.stderr, flush=True)


class Notebook(Display):
    """An output of a notebook's cell that is replaced as the fit goes on; needs no widgets."""

    every = 0.25

    def __init__(self) -> None:
        super().__init__()
        self.handle: Any = None

    def write(self, text: str) -> None:
        """The text in place of the last one."""
        content = {"text/plain": text}
        if self.handle is None:
            from IPython.display import display as show

            self.handle = show(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)


def progress_text(row: tuple, label: str = "") -> str:
    """A row of a history in words: what is known of it, the most telling first, for lines may be cut."""
    seconds, iteration, objective, primal, violation, active, evals, hits = row
    parts = [f"{label} {seconds:.1f} s".strip(), f"step {iteration}"]
    both = objective > -math.inf and primal < math.inf
    if both:
        size = max(abs(objective), abs(primal))
        parts += [
            f"objective {-objective + 0.0:.8g} … {primal:.8g}",
            f"gap {(objective + primal) / size:.1e}" if size else "",
        ]
    elif not math.isnan(objective):
        parts.append(f"objective {-objective + 0.0:.8g}")
    elif not math.isnan(primal):
        parts.append(f"objective {primal:.8g}")
    parts += ["" if math.isnan(violation) else f"violation {violation:.1e}", f"active {active}" if active else ""]
    parts.append(f"kernel evaluations {evals:.1e}  cache hits {hits:.0%}" if evals else "")
    return "  ".join(part for part in parts if part)


logger = logging.getLogger("maxmargin")
CLEAR_TO_END = "\x1b[K"  # of the line, as all terminals of today understand it


def display() -> Display:
    """Where progress is shown: in a notebook, on a terminal, to those who listen, or line by line."""
    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        if shell is not None and getattr(shell, "kernel", None) is not None:
            return Notebook()
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        return Logged()
    return Terminal() if sys.stderr is not None and sys.stderr.isatty() else Display()


def _least(one: float, other: float) -> float:
    """The lesser of two numbers, or the one that is known."""
    return one if math.isnan(other) or one <= other else other
