"""Leaves, and numba when the first of them is called: importing it takes longer than all of this package.

A decorator keeps the function and says how it is to be compiled. Whoever imports an estimator to look at it, to read a
linear model or to hand it to other processes never needs the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .clock import clock

__all__ = ["Leaf", "aside", "by_types", "helper", "inline", "jit", "read_only", "reordered", "shared"]

_loading = threading.RLock()  # held while numba is imported: the clock has no lock of its own
_compiler: Any = None


def _loaded() -> Any:
    """The compiler, and what it has to know of the functions that leaves call."""
    global _compiler
    if _compiler is None:
        with _loading:
            if _compiler is None:
                with clock.running():
                    from . import compiler, intrinsics  # noqa: F401
                _compiler = compiler
    return _compiler


def _before_fork() -> None:
    """Wait for what other threads import or compile: in the child nobody would release the locks that they hold."""
    _loading.acquire()
    if _compiler is not None:
        _compiler.before_fork()


def _after_fork() -> None:
    if _compiler is not None:
        _compiler.after_fork()
    with contextlib.suppress(RuntimeError):  # not acquired: Ctrl-C ended the wait
        _loading.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class Leaf:
    """A function that is compiled when it is called; leaves and helpers may be named in it before they are."""

    compiled: Any  # what numba calls a dispatcher, from the first use on: it compiles for each combination of types

    def __init__(self, kind: str, function: Callable) -> None:
        self.py_func = getattr(function, "py_func", function)
        functools.update_wrapper(self, self.py_func)
        self._kind = kind

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)

    @property
    def _numba_type_(self) -> Any:
        """Asked by numba of what it meets in a function that it compiles."""
        return _loaded().type_of(self.compiled)

    def __getattr__(self, name: str) -> Any:
        if name == "compiled":
            made = _loaded().dispatcher(self._kind, self.py_func)
            return self.__dict__.setdefault(name, made)  # another thread may have been quicker
        if name.startswith("__"):  # Python asks any object for what few have
            raise AttributeError(name)
        return getattr(self.compiled, name)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # pickled as functions are: by name


def jit(function: Callable) -> Any:
    """Compile a leaf: GIL released, kept on disk, fused multiply-add allowed but no reordering of sums."""
    return Leaf("jit", function)


def helper(function: Callable) -> Any:
    """A function that only leaves call, compiled once for all of them.

    numba optimises a leaf that a leaf calls by itself, makes machine code and wrappers for Python of it, links it into
    the caller and does all this again, on every level. Of a helper there is one optimised copy: that in its leaf.
    """
    return Leaf("helper", function)


def reordered(function: Callable) -> Any:
    """A helper whose sums may be added up in any order, as vector code does."""
    return Leaf("reordered", function)


def aside(function: Callable) -> Any:
    """A helper for what takes little of a leaf's time: there is one short copy of it in the leaf.

    LLVM would put a copy in the place of each call, and several of each loop, for vectors and what is left over.
    """
    return Leaf("aside", function)


def shared(function: Callable) -> Any:
    """A helper that takes most of the time of several leaves, in few calls: they share one copy, as fast as can be."""
    return Leaf("shared", function)


def inline(function: Callable) -> Any:
    """A helper of which LLVM puts a copy in the place of each call.

    numba could do that, too, but would infer types and write code anew for each.
    """
    return Leaf("inline", function)


def by_types(choose: Callable) -> Any:
    """A helper of leaves that returns the function for the types of its arguments.

    LLVM inlines it. numba could, too, but infers types anew for that: compiling a leaf would take twice as long.
    """
    return Leaf("by_types", choose)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to: leaves that only read are compiled for it alone, whatever the array is."""
    view = array.view()
    view.flags.writeable = False
    return view
