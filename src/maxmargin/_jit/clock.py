"""The clock of the compiler: how long it takes to get leaves ready, and the line that says so."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

__all__ = ["Clock", "clock", "compiling_seconds"]

SLOW_COMPILE_SECONDS = 1.0


class Clock:
    """The time that it takes to get leaves ready: to import numba, and to load, compile and keep them.

    All calls come under one lock, first that of the import, then numba's: one compilation at a time. Only reading the
    clock does not.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.told = False
        self.collecting = False
        self.total: tuple[float, float | None] = (0.0, None)  # seconds; since when one more is running

    def seconds(self) -> float:
        total, since = self.total  # read together: another thread may be replacing them
        return total if since is None else total + time.perf_counter() - since

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        if self.depth == 0:
            self.total = (self.total[0], time.perf_counter())
            # A compiler makes objects by the million and hardly any garbage: looking for it takes a fifth of the time.
            self.collecting = gc.isenabled()
            gc.disable()
        self.depth += 1

    def stop(self) -> None:
        self.depth = max(0, self.depth - 1)
        if self.depth == 0:
            self.total = (self.seconds(), None)
            if self.collecting:
                gc.enable()

    def tell(self, kept: bool) -> None:
        """Say once, in one line, what takes the time of a first use when it is more than a second."""
        if self.told or self.seconds() < SLOW_COMPILE_SECONDS or sys.stderr is None:
            return
        self.told = True
        how_long = "once; kept on disk" if kept else "for this process only: there is no place to keep them"
        with contextlib.suppress(Exception):  # the stream may be closed
            print(f"maxmargin: compiling its inner loops for this machine ({how_long})", file=sys.stderr)


clock = Clock()


def compiling_seconds() -> float:
    """The seconds that went into getting leaves ready in this process, by whatever thread, up to now.

    Compiling takes most of it; importing numba and loading what is kept on disk count, too. A thread that needs a leaf
    waits for those that others are getting ready, so this is what a clock of real work leaves out: the difference of
    two calls.
    """
    return clock.seconds()
