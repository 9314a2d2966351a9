"""Functions that other people compile with numba in the same process: they notice nothing of us."""

import sys

import numba
import numpy as np
import pytest

from maxmargin import _jit
from maxmargin.rows.leaves import csr_squares


def plus_one(x):
    return x + 1


def test_a_function_without_a_module_compiles():
    """As functions have it that are made by exec, or by some wrappers."""

    def function(x):
        return x + 1

    function.__module__ = None
    assert numba.njit(function)(1) == 2


@pytest.mark.parametrize("data", [None, {}, {"dispatcher": None}, {"dispatcher": plus_one}])
def test_the_listener_raises_nothing(data):
    """Other compilers may tell of their work in other words, and it is not ours."""
    before = _jit.compiling_seconds()
    with numba.core.event.trigger_event("numba:compile", data=data):
        assert _jit.compiling_seconds() == before
    assert _jit.compiling_seconds() == before


@pytest.mark.parametrize("module", [__name__, "maxmarginal"])
def test_their_time_is_not_counted(module):
    def function(x):
        return x + 1

    function.__module__ = module
    before = _jit.compiling_seconds()
    assert numba.njit(function)(1) == 2
    assert _jit.compiling_seconds() == before


def test_their_cache_is_not_ours(monkeypatch, tmp_path):
    """The setting of numba that says where it keeps code is left alone."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "theirs"))
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path / "ours"])
    (tmp_path / "ours").mkdir()
    assert numba.njit(plus_one, cache=True)(1) == 2
    assert list((tmp_path / "theirs").rglob("*.nbi"))
    assert not list((tmp_path / "ours").iterdir())


class ClosedStream:
    def write(self, text):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [None, ClosedStream()], ids=["none", "closed"])
def test_without_an_error_stream_leaves_compile(stream, monkeypatch, tmp_path, capsys):
    """As in a service, or a program without a console."""
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    monkeypatch.setattr(_jit.clock, "SLOW_COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(_jit.clock.clock, "told", False)
    monkeypatch.setattr(sys, "stderr", stream)
    out = np.zeros(2)
    _jit.jit(csr_squares.py_func)(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), out)
    assert out.tolist() == [1.0, 13.0]
    assert capsys.readouterr().out == ""
