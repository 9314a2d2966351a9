"""Threads for compiled leaves: one pool, sized by what the caller, the environment and joblib allow.

Leaves release the GIL and write to disjoint pieces. BLAS rounds products of different shapes differently (which
of them depends on the processor), so where one piece ends and the next begins is a matter of the work alone:
the number of threads then cannot change a bit of a result. BLAS brings its own threads; :func:`blas_limit`
holds them back while ours run.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ContextDecorator
from functools import cache, lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from . import host

__all__ = ["count", "grain", "spread", "blas_limit"]

PIECES = 32  # of a piece of work: a few for each of 8 threads, because a core that others use as well is slower
PIECE_WORK = 1 << 19  # multiply-adds, 20 to 200 µs: calling a leaf takes about 2 µs, waking a thread 20 to 150
WORTH = 4  # pieces of that work: fewer are done before a thread is awake


@cache
def _cores() -> int:
    return host.cores()


def count(n_jobs: int | None = None) -> int:
    """The number of threads to use: n_jobs as scikit-learn counts it, or all cores that we may use.

    joblib's workers and careful users set OMP_NUM_THREADS; with ``n_jobs=None`` it is obeyed.
    """
    cores = _cores()
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0 was asked for, but no work can be done by 0 threads; use None, 1, 2, ... or -1")
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else n_jobs


@lru_cache(maxsize=4)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="maxmargin")


def grain(cost: float) -> int:
    """How many entries make a piece worth handing to a thread, if each takes that many multiply-adds."""
    return max(1, int(PIECE_WORK // max(1.0, cost)))


def spread(
    leaf: Callable[[int, int], object],
    n: int,
    threads: int,
    grain: int = 1024,
    align: int = 64,
    longest: int | None = None,
) -> None:
    """Run leaf(start, stop) over [0, n) in contiguous pieces; whoever is free takes the next.

    Pieces begin at multiples of ``align``. They are no shorter than ``grain``, but for the last one, and no longer
    than ``longest``. One thread is given the same pieces as many, and BLAS adds no threads of its own.
    """
    pieces = max(1, min(PIECES, n // grain))
    step = max(1, -(-n // (pieces * align))) * align
    if longest is not None:
        step = min(step, max(1, longest // align) * align)
    starts = range(0, max(1, n), step)
    helpers = min(threads, len(starts)) - 1
    if helpers < 1 or (grain > 1 and n < WORTH * grain):
        with blas_limit(1):
            for start in starts:
                leaf(start, min(n, start + step))
        return
    waiting = deque(starts)

    def serve() -> None:
        with blas_limit(1):  # here too: some libraries count for each thread that calls them
            while True:
                try:
                    start = waiting.popleft()
                except IndexError:
                    return
                leaf(start, min(n, start + step))

    with blas_limit(1):
        pool = _pool(threads, os.getpid())  # a forked child must not reuse its parent's dead threads
        rest = [pool.submit(serve) for _ in range(helpers)]
        try:
            serve()
        finally:
            waiting.clear()  # after an error or an interrupt nobody goes on writing behind the caller's back
            wait(rest)
    for task in rest:
        task.result()


class _Limit:
    """The number of threads that some libraries may use, and what it was before there was a limit."""

    def __init__(self, libraries: list) -> None:
        self.libraries = libraries
        self.now: int | None = None
        self.before: list[int] = []

    def settle(self, threads: int | None) -> None:
        """At most that many from now on, or as many as before."""
        if threads == self.now:
            return
        if self.now is None:
            self.before = [library.num_threads for library in self.libraries]
        for library, most in zip(self.libraries, self.before, strict=True):
            now, then = (most if limit is None else min(most, limit) for limit in (self.now, threads))
            if then == now:  # one thread is as many as there are
                continue
            library.set_num_threads(then)
            if hasattr(library, "clear_controlling_thread"):  # else threadpoolctl obeys this thread alone from now on
                library.clear_controlling_thread()
        self.now = threads


class _Blas:
    """How many threads BLAS uses where several of our threads want a limit at the same time.

    What a thread wants is its innermost limit. Most libraries have one number for the whole process: there the least
    that any thread wants is in force from the first limit to the last one, in whatever order they come and go. Some
    have one for each thread that calls them: there each gets its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wanted: dict[int, int] = {}  # by each thread
        self.common: _Limit | None = None
        self.own = threading.local()

    def want(self, threads: int | None) -> int | None:
        """What this thread wants from now on (None: nothing), and what it wanted before."""
        thread = threading.get_ident()
        before = self.wanted.get(thread)
        if threads == before:  # settling costs more than many a small product
            return before
        with self.lock:
            if threads is None:
                del self.wanted[thread]
            else:
                self.wanted[thread] = threads
            if self.common is None:
                self.common = _Limit([library for library in _libraries() if not _by_thread(library)])
            self.common.settle(min(self.wanted.values(), default=None))
        if not hasattr(self.own, "limit"):
            self.own.limit = _Limit([library for library in _libraries() if _by_thread(library)])
        self.own.limit.settle(threads)
        return before

    def forked(self) -> None:
        """In a child only the thread that forked goes on; what others wanted no longer counts.

        The libraries hear of it at the next change: other threads may have held their locks.
        """
        self.lock = threading.Lock()
        thread = threading.get_ident()
        self.wanted = {thread: self.wanted[thread]} if thread in self.wanted else {}


@cache
def _libraries() -> list:
    return [found for found in ThreadpoolController().lib_controllers if found.user_api == "blas" and found.num_threads]


def _by_thread(library: Any) -> bool:
    """Whether a library asks OpenMP, which keeps a number for each thread."""
    return library.internal_api == "openblas" and getattr(library, "threading_layer", None) == "openmp"


_blas = _Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas.forked)


class blas_limit(ContextDecorator):  # noqa: N801 (used as a function)
    """A context in which BLAS uses at most that many threads; also a decorator."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def _recreate_cm(self) -> blas_limit:  # what a decorated function enters may be entered by several threads
        return blas_limit(self.threads)

    def __enter__(self) -> None:
        self.outer = _blas.want(self.threads)

    def __exit__(self, *exc: Any) -> None:
        _blas.want(self.outer)
