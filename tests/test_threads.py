"""Threads: how many, and who does what."""

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import threads


def test_count_as_scikit_learn_counts(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.count(1) == 1
    assert threads.count(3) == 3
    assert threads.count(-1) == 8
    assert threads.count(-2) == 7
    assert threads.count(-100) == 1
    assert threads.count(None) == 8


@pytest.mark.parametrize(("limit", "found"), [("2", 2), ("100", 8), ("", 8), ("0", 8), ("many", 8)])
def test_the_environment_is_obeyed(monkeypatch, limit, found):
    monkeypatch.setattr(threads, "_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert threads.count(None) == found
    assert threads.count(4) == 4  # whoever names a number gets it


def test_no_thread_at_all_is_refused():
    with pytest.raises(ValueError, match="n_jobs=0 was asked for"):
        threads.count(0)


@given(n=st.integers(0, 5000), workers=st.integers(1, 5), grain=st.integers(1, 2000), align=st.sampled_from([1, 7, 64]))
def test_slices_cover_everything_once(n, workers, grain, align):
    lock, done = threading.Lock(), []

    def leaf(a, b):
        with lock:
            done.append((a, b))

    threads.spread(leaf, n, workers, grain, align)
    done.sort()
    assert len(done) <= threads.SLICES * workers
    assert done[0][0] == 0 and done[-1][1] == n
    assert all(before[1] == after[0] for before, after in zip(done, done[1:], strict=False))
    assert all(a % align == 0 for a, _ in done)
    assert len(done) == 1 or n // len(done) >= min(grain, n) // 2


def test_short_work_stays_in_the_calling_thread():
    seen = []
    threads.spread(lambda a, b: seen.append(threading.current_thread()), 100, 4, grain=1000)
    assert seen == [threading.current_thread()]


def test_an_error_in_any_slice_is_raised():
    def leaf(a, b):
        if b == 4096:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.spread(leaf, 4096, 2, grain=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_threads_of_its_own():
    def work():
        done = []
        threads.spread(lambda a, b: done.append((a, b)), 4096, 2, grain=1)
        return sorted(done)

    expected = work()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, b"same" if work() == expected else b"else")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"same"
    os.waitpid(child, 0)
