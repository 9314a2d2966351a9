"""Threads of BLAS and cores: limits are for the time of a fit, whoever else fits; a container's share is respected."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import SVC, LinearSVC, host, threads

ORIGINAL = 4


class Library:
    """A BLAS that tells what it was told."""

    internal_api, threading_layer = "openblas", "pthreads"

    def __init__(self):
        self.num_threads = ORIGINAL

    def set_num_threads(self, count):
        self.num_threads = count


class ByThread(threading.local):
    """A BLAS that has a number for each thread."""

    internal_api, threading_layer = "openblas", "openmp"
    num_threads = ORIGINAL

    def set_num_threads(self, count):
        self.num_threads = count


def the_only(library, monkeypatch):
    """The one BLAS there is, and no limit in force."""
    monkeypatch.setattr(threads, "_libraries", lambda: [library])
    monkeypatch.setattr(threads, "_blas", threads._Blas())
    return library


@pytest.fixture
def library(monkeypatch):
    return the_only(Library(), monkeypatch)


@pytest.fixture
def by_thread(monkeypatch):
    return the_only(ByThread(), monkeypatch)


class Other:
    """A thread that enters and leaves limits when it is told to."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)
        self.limits = []

    def enter(self, count):
        self.limits.append(threads.blas_limit(count))
        self.pool.submit(self.limits[-1].__enter__).result()

    def leave(self):
        self.pool.submit(self.limits.pop().__exit__, None, None, None).result()


@pytest.fixture
def others():
    made = [Other() for _ in range(3)]
    yield made
    for other in made:
        other.pool.shutdown()


@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("first_out", [0, 1])
def test_whoever_leaves_last_puts_back_what_was(library, others, counts, first_out):
    first, second = others[first_out], others[1 - first_out]
    others[0].enter(counts[0])
    others[1].enter(counts[1])
    first.leave()
    assert library.num_threads == counts[1 - first_out]
    second.leave()
    assert library.num_threads == ORIGINAL


def test_the_least_that_any_thread_wants(library, others):
    a, b, c = others
    a.enter(2)
    assert library.num_threads == 2
    b.enter(1)
    c.enter(3)
    assert library.num_threads == 1
    b.leave()
    assert library.num_threads == 2
    a.leave()
    assert library.num_threads == 3
    c.leave()
    assert library.num_threads == ORIGINAL


def test_the_innermost_limit_of_a_thread_counts(library, others):
    """A fit holds BLAS back and lets it go for one large factorisation."""
    with threads.blas_limit(1):
        with threads.blas_limit(3):
            assert library.num_threads == 3
            with threads.blas_limit(3), threads.blas_limit(2):
                assert library.num_threads == 2
                others[0].enter(1)
            assert library.num_threads == 1  # the other thread still wants no more
            others[0].leave()
            assert library.num_threads == 3
        assert library.num_threads == 1
    assert library.num_threads == ORIGINAL


def test_a_limit_is_no_demand(library):
    """Who has set BLAS to few threads does not get more of them."""
    with threads.blas_limit(64):
        assert library.num_threads == ORIGINAL


def test_an_error_puts_back_too(library):
    with pytest.raises(ZeroDivisionError), threads.blas_limit(1):
        raise ZeroDivisionError
    assert library.num_threads == ORIGINAL


def test_a_library_with_a_number_for_each_thread(by_thread, others):
    """Each thread has its own limit, and gets back what it had."""

    def seen(other):
        return other.pool.submit(lambda: by_thread.num_threads).result()

    a, b, _ = others
    a.enter(1)
    b.enter(2)
    assert (seen(a), seen(b), by_thread.num_threads) == (1, 2, ORIGINAL)
    a.enter(3)
    assert (seen(a), seen(b)) == (3, 2)
    a.leave()
    a.leave()
    assert (seen(a), seen(b)) == (ORIGINAL, 2)
    b.leave()
    assert seen(b) == ORIGINAL


def test_many_threads_at_random(library):
    seen = []

    def work(seed):
        draw = random.Random(seed)
        for _ in range(50):
            with threads.blas_limit(1):
                with threads.blas_limit(draw.randint(1, 3)):
                    time.sleep(draw.random() * 1e-4)
                seen.append(library.num_threads)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert set(seen) == {1}  # each still wanted one thread when it looked
    assert library.num_threads == ORIGINAL
    assert not threads._blas.wanted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_forgets_what_other_threads_wanted(others):
    """Their limits would never end in the child. Its own fits put back what was before them, as always."""
    others[0].enter(1)
    try:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with threads.blas_limit(1):
                    left = set(threads._blas.wanted) == {threading.get_ident()}
                os.write(writer, b"right" if left and threads._blas.common.now is None else b"wrong")
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read() == b"right"
        os.waitpid(child, 0)
    finally:
        others[0].leave()


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def set_blas_threads(counts):
    for library, count in zip(threads._libraries(), counts, strict=True):
        library.set_num_threads(count)
        getattr(library, "clear_controlling_thread", bool)()


@pytest.fixture
def several():
    """Whatever cores there are, the real BLAS begins with three threads."""
    before = [library.num_threads for library in threads._libraries()]
    set_blas_threads([3] * len(before))
    yield
    set_blas_threads(before)


def test_limits_that_cross_leave_blas_as_it_was(several, others):
    before = blas_threads()
    others[0].enter(1)
    others[1].enter(2)
    others[0].leave()
    others[1].leave()
    assert blas_threads() == before
    with threadpool_limits(2, user_api="blas"):  # and whoever wants to set it can
        assert set(blas_threads()) <= {2}


def test_concurrent_fits_leave_blas_as_it_was(several):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    y = np.where(rng.normal(size=700) + X[:, 0] > 0, 1, -1)
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        machines = [clone(machine) for machine in [SVC(), LinearSVC(), SVC(kernel="poly"), SVC()] * 3]
        fits = [pool.submit(machine.fit, X, y) for machine in machines]
        for fit in fits:
            fit.result()
    assert blas_threads() == before


# -- cores ----------------------------------------------------------------------------------------------


@pytest.fixture
def files(monkeypatch, tmp_path):
    """A host with eight cores whose files are ours to write."""
    monkeypatch.setattr(host, "ROOT", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads._cores.cache_clear()

    def at(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    yield at
    threads._cores.cache_clear()


@pytest.mark.parametrize(
    ("quota", "found"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("1600000 100000", 8)],
)
@pytest.mark.parametrize("folder", ["pods/mine", "pods", ""])
def test_a_container_s_share_of_the_cores(files, folder, quota, found):
    files("proc/self/cgroup", "0::/pods/mine\n")
    files("sys/fs/cgroup/pods/mine/cpu.max", "max 100000\n")
    files(f"sys/fs/cgroup/{folder}/cpu.max", f"{quota}\n")
    assert threads.count(None) == found
    assert threads.count(-1) == found


@pytest.mark.parametrize(("quota", "found"), [("-1", 8), ("300000", 3), ("250000", 3)])
def test_a_container_of_version_1(files, quota, found):
    files("proc/self/cgroup", "3:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    files("sys/fs/cgroup/cpu/cpu.cfs_quota_us", f"{quota}\n")  # the container's own folder is the outermost it sees
    files("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert threads.count(None) == found


def test_no_container_at_all(files):
    assert threads.count(None) == 8
