"""A test that hangs fails: what takes longer than it may is ended by an exception, where the system has alarms."""

import signal
from contextlib import contextmanager


@contextmanager
def within(seconds: float):
    """An AssertionError, with the place in its traceback, if the block takes longer; generous, so that only a hang
    or a limit that is not kept can be meant."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(signum, frame):
        raise AssertionError(f"still at work after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
