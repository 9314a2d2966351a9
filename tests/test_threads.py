"""Threads: how many, and who does what."""

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

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


def cut(workers, *args, **options):
    """The pieces of a piece of work, in order."""
    lock, done = threading.Lock(), []

    def leaf(a, b):
        with lock:
            done.append((a, b))

    threads.spread(leaf, args[0], workers, *args[1:], **options)
    return sorted(done)


work = given(
    n=st.integers(0, 5000),
    workers=st.integers(1, 5),
    grain=st.integers(1, 2000),
    align=st.sampled_from([1, 7, 64]),
    longest=st.one_of(st.none(), st.integers(1, 2000)),
)


@work
def test_pieces_cover_everything_once(n, workers, grain, align, longest):
    done = cut(workers, n, grain, align, longest)
    assert done[0][0] == 0 and done[-1][1] == n
    assert all(before[1] == after[0] for before, after in zip(done, done[1:], strict=False))
    assert all(a % align == 0 for a, _ in done)
    if longest is None:
        assert len(done) <= threads.PIECES
        assert all(b - a >= grain for a, b in done[:-1])
    else:
        assert all(b - a <= max(align, longest) for a, b in done)


@work
def test_pieces_do_not_depend_on_the_number_of_threads(n, workers, grain, align, longest):
    assert cut(workers, n, grain, align, longest) == cut(1, n, grain, align, longest)


def test_there_is_something_to_share_for_many_threads():
    assert len(cut(1, 100_000, threads.grain(100.0))) >= 16
    assert len(cut(1, 100_000, threads.grain(0.0))) == 1


def test_pieces_are_served_by_several_threads():
    barrier, seen = threading.Barrier(3, timeout=60), set()

    def leaf(a, b):
        barrier.wait()  # nobody can serve two of them
        seen.add(threading.current_thread())

    threads.spread(leaf, 3, 3, grain=1, align=1)
    assert len(seen) == 3


def test_short_work_stays_in_the_calling_thread():
    seen = []
    threads.spread(lambda a, b: seen.append(threading.current_thread()), 100, 4, grain=1000)
    assert seen == [threading.current_thread()]


def test_one_thread_is_the_calling_one():
    seen = []
    threads.spread(lambda a, b: seen.append(threading.current_thread()), 4096, 1, grain=1)
    assert len(seen) > 1 and set(seen) == {threading.current_thread()}


def test_blas_has_one_thread_in_every_piece():
    counts = []

    def leaf(a, b):
        counts.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        threads.spread(leaf, 4096, 3, grain=1)
    assert set(counts) <= {1}


def test_after_an_error_no_piece_is_begun():
    """Nor is any left running: a caller that was told of an error may reuse what leaves write to."""
    barrier, running, begun = threading.Barrier(2, timeout=60), threading.Event(), []

    def leaf(a, b):
        begun.append(a)
        barrier.wait()
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        running.set()
        time.sleep(0.05)
        running.clear()

    with pytest.raises(KeyboardInterrupt):
        threads.spread(leaf, 32, 2, grain=1, align=1)
    assert len(begun) <= 3 and not running.is_set()


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
