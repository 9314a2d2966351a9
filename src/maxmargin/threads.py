"""Threads for compiled leaves: one pool, sized by what the caller, the environment and joblib allow.

Leaves release the GIL and write to disjoint pieces. BLAS rounds products of different shapes differently (which
of them depends on the processor), so where one piece ends and the next begins is a matter of the work alone:
the number of threads then cannot change a bit of a result. BLAS brings its own threads; :func:`blas_limit`
holds them back while ours run.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, lru_cache

from threadpoolctl import ThreadpoolController

__all__ = ["count", "grain", "spread", "blas_limit"]

PIECES = 32  # of a piece of work: a few for each of 8 threads, because a core that others use as well is slower
PIECE_WORK = 1 << 19  # multiply-adds, 20 to 200 µs: calling a leaf takes about 2 µs, waking a thread about 20


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    waiting = deque(range(0, max(1, n), step))
    helpers = min(threads, len(waiting)) - 1

    def serve() -> None:
        with blas_limit(1):  # here too: some libraries count for each thread that calls them
            while True:
                try:
                    start = waiting.popleft()
                except IndexError:
                    return
                leaf(start, min(n, start + step))

    if helpers < 1:
        serve()
        return
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


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_limits: list[int] = []  # that are in force, the last one innermost


@contextmanager
def blas_limit(threads: int):
    """A context in which BLAS uses at most that many threads."""
    if _limits and _limits[-1] == threads:  # asking the libraries costs more than many a small product
        yield
        return
    with _controller().limit(limits=threads, user_api="blas"):
        _limits.append(threads)
        try:
            yield
        finally:
            _limits.remove(threads)
