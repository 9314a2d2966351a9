"""Threads for compiled leaves: one pool, sized by what the caller, the environment and joblib allow.

Leaves release the GIL and write to disjoint slices, so the result does not depend on the number of
threads. BLAS brings its own threads; :func:`blas_limit` holds them back while ours run.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache

from threadpoolctl import ThreadpoolController

__all__ = ["count", "spread", "blas_limit"]

SLICES = 4  # a thread


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


def spread(leaf: Callable, n: int, threads: int, grain: int = 1024, align: int = 64) -> None:
    """Run leaf(start, stop) over [0, n) in contiguous slices, none shorter than grain; whoever is free takes the next.

    There are a few slices a thread, because a core that others use as well is slower.
    """
    parts = min(threads, max(1, n // grain))
    if parts <= 1:
        leaf(0, n)
        return
    pieces = max(parts, min(SLICES * parts, n // grain))
    step = -(-n // (pieces * align)) * align
    edges = list(range(0, n, step)) + [n]
    waiting = deque(zip(edges[:-1], edges[1:], strict=True))

    def serve() -> None:
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            leaf(start, stop)

    pool = _pool(threads, os.getpid())  # a forked child must not reuse its parent's dead threads
    rest = [pool.submit(serve) for _ in range(parts - 1)]
    serve()
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
