"""A process that is forked while another thread of it compiles."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

TIMEOUT = 120  # seconds, against hanging

SCRIPT = """
import os, signal, threading, time
import numba, numpy as np
from maxmargin._jit import apart
from maxmargin.rows.leaves import csr_scale, csr_squares

started = threading.Event()


class Slow(numba.core.event.Listener):
    # The compilation takes a while, with numba's lock held.
    def on_start(self, event):
        started.set()
        time.sleep(0.5)

    def on_end(self, event):
        pass


def squares():
    out = np.zeros(2)
    csr_squares(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), out)
    assert out.tolist() == [1.0, 13.0]


def scale():
    out = np.zeros(3)
    csr_scale(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0]), out)
    assert out.tolist() == [2.0, 6.0, 9.0]


def forked(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # kills the child if it hangs
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"

"""

FROM_ANOTHER_THREAD = """
numba.core.event.register("numba:compile", Slow())
compiling = threading.Thread(target=squares)
compiling.start()
assert started.wait(60)
forked(lambda: (scale(), squares()))
compiling.join()
scale()
"""

FROM_WITHIN = """
class Forks(numba.core.event.Listener):
    # The thread that forks is the one that compiles.
    def on_start(self, event):
        numba.core.event.unregister("numba:compile", self)
        forked(scale)

    def on_end(self, event):
        pass

numba.core.event.register("numba:compile", Forks())
squares()
forked(squares)
other = threading.Thread(target=scale)  # the lock is free again for others
other.start()
other.join(60)
assert not other.is_alive()
"""

MANY = """
numba.core.event.register("numba:compile", Slow())
threads = [threading.Thread(target=work) for work in (squares, scale)]
for thread in threads:
    thread.start()
assert started.wait(60)
forking = [threading.Thread(target=forked, args=(lambda: (scale(), squares()),)) for _ in range(4)]
for thread in forking:
    thread.start()
for thread in threads + forking:
    thread.join(60)
    assert not thread.is_alive()
"""

BESIDE = """
from maxmargin import SVC

X = np.random.default_rng(0).normal(size=(60, 4))
y = np.arange(60) % 3
parts = apart.machine_code


def slow(*args):
    # A part of a leaf, in a thread that holds no lock of numba's.
    started.set()
    time.sleep(0.05)
    return parts(*args)


apart.machine_code = slow
fitting = threading.Thread(target=lambda: SVC().fit(X, y))
fitting.start()
assert started.wait(60)
forked(lambda: SVC().fit(X, y))
fitting.join(60)
assert not fitting.is_alive()
forked(lambda: SVC().fit(X, y))
"""
IMPORTING = """
import os, signal, sys, threading
import numpy as np
from maxmargin.rows.leaves import csr_squares

started = threading.Event()


class Looks:
    # Says that numba is being imported, which takes a while.
    def find_spec(self, name, path=None, target=None):
        if name.startswith("numba"):
            started.set()


def squares():
    out = np.zeros(2)
    csr_squares(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), out)
    assert out.tolist() == [1.0, 13.0]


assert "numba" not in sys.modules
sys.meta_path.insert(0, Looks())
first = [threading.Thread(target=squares) for _ in range(4)]
for thread in first:
    thread.start()
assert started.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    squares()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"
for thread in first:
    thread.join(60)
    assert not thread.is_alive()
assert sum(csr_squares.stats.cache_misses.values()) + sum(csr_squares.stats.cache_hits.values()) == 1
"""
STORIES = {"another thread": FROM_ANOTHER_THREAD, "within": FROM_WITHIN, "many": MANY, "beside": BESIDE}


@pytest.mark.parametrize(
    "story", [*(SCRIPT + story for story in STORIES.values()), IMPORTING], ids=[*STORIES, "import"]
)
def test_forking_while_compiling(story, tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", story],
        env=os.environ | {"MAXMARGIN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert process.returncode == 0, process.stderr
    assert "Error" not in process.stderr, process.stderr
