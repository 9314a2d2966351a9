"""Watches a solver: stops it, records it, shows it, and lets the user interrupt it.

A solver calls :meth:`Monitor.step` every few milliseconds and stops as soon as that returns a status.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from .solution import History, Status

__all__ = ["Monitor"]

PRINT_EVERY_SECONDS = 0.25


class Monitor:
    """Progress, time limit, callback and Ctrl-C for one fit, which may solve several problems.

    The first Ctrl-C asks the solver to stop with the best iterate; a second one raises KeyboardInterrupt.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        callback: Callable | None = None,
        verbose: bool = False,
        label: str = "",
    ) -> None:
        if time_limit is not None and not time_limit > 0:
            raise ValueError(
                f"time_limit={time_limit!r} was asked for; found no time to work in; give seconds > 0 or None"
            )
        self.started = time.perf_counter()
        self.deadline = self.started + time_limit if time_limit is not None else float("inf")
        self.callback = callback
        self.verbose = verbose
        self.label = label
        self.history = History()
        self.stopped: Status | None = None
        self.parent: Monitor | None = None
        self._interrupted = False
        self._previous_handler: object = None
        self._printed_at = -PRINT_EVERY_SECONDS
        self._live: Any = None
        self._last_text = ""
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def __enter__(self) -> Monitor:
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if previous is not None:  # None: a handler that was not installed from Python cannot be put back
                self._previous_handler = previous
                signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc) -> None:
        if self._previous_handler is not None:
            signal.signal(signal.SIGINT, self._previous_handler)  # type: ignore[arg-type]
            self._previous_handler = None
        if self._live is not None:
            self._live.update(self._last_text)  # the last line is the state at the end, not a quarter second before
            self._live.stop()
            self._live = None

    def part(self, label: str) -> Monitor:
        """A monitor for one of several problems: a history of its own, the same clock, callback and Ctrl-C."""
        part = object.__new__(Monitor)
        part.__dict__.update(self.__dict__)
        part.parent = self
        part.label = label
        part.history = History()
        return part

    def _on_interrupt(self, signum, frame) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def stop_now(self) -> Status | None:
        """The reason to stop at once, if there is one."""
        if self.parent is not None:
            return self.parent.stop_now()
        if self.stopped is None:
            if self._interrupted:
                self.stopped = Status.INTERRUPTED
            elif time.perf_counter() > self.deadline:
                self.stopped = Status.TIME_LIMIT
        return self.stopped

    def step(
        self,
        iteration: int,
        objective: float,
        violation: float,
        active: int = 0,
        kernel_evals: int = 0,
        hit_rate: float = 0.0,
    ) -> Status | None:
        """Record a step and return the reason to stop, or None to go on."""
        row = (self.seconds, iteration, objective, violation, active, kernel_evals, hit_rate)
        self.history.rows.append(row)
        owner = self.parent or self
        if self.verbose:
            owner._show(row, self.label)
        if self.callback is not None and owner.stopped is None:
            if self.callback(dict(zip(History.columns, row, strict=True))):
                owner.stopped = Status.CALLBACK
        return self.stop_now()

    def _show(self, row: tuple, label: str) -> None:
        with self._lock:
            self._show_locked(row, label)

    def _show_locked(self, row: tuple, label: str) -> None:
        seconds, iteration, objective, violation, active, evals, hits = row
        self._last_text = (
            f"{label} {seconds:7.1f} s  step {iteration}  objective {objective:.8g}  violation {violation:.2e}  "
            f"active {active}  kernel evaluations {evals:.2e}  cache hits {hits:.0%}"
        )
        if row[0] - self._printed_at < PRINT_EVERY_SECONDS:
            return
        self._printed_at = row[0]
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._last_text, console=Console(stderr=True), refresh_per_second=4)
            self._live.start()
        self._live.update(self._last_text)
