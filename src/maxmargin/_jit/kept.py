"""Compiled leaves on disk, the clock of the compiler, and what a fork has to wait for.

Kept code is unpickled and run, so it is read only where nobody but root and we could have put it (SECURITY.md says
more), and only when its checksum agrees. The cache saves time and nothing else: what cannot be read is compiled again,
what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator

import numba
from llvmlite.binding import ffi
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from . import apart
from . import folders as disk

__all__ = ["LeafCache", "compiling_seconds"]

SLOW_COMPILE_SECONDS = 1.0


class LeafCache(caching.FunctionCache):
    """The compiled code of one leaf on disk: a file for each signature and processor, which is named after them.

    numba's own cache has an index and numbered files. Two processes that add to it at once can give the same number
    to two signatures, and a damaged index raises for ever. Here every file stands alone and says what it is.
    """

    def __init__(self, function: Callable) -> None:
        self._py_func = function
        name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self._name = name.replace("<", "").replace(">", "")  # of "<locals>"; Windows forbids them in names of files
        self.enable()

    @property
    def cache_path(self) -> str | None:
        return str(disk.folders()[-1]) if disk.folders() else None

    def _file_name(self, key: tuple) -> str:
        return f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"

    def load_overload(self, sig, target_context):
        """The compiled code for a signature, or None."""
        with _clock.running():
            target_context.refresh()  # the first time, numba loads its own library here
            key = self._index_key(sig, target_context.codegen())
            for folder in disk.folders() if self._enabled else ():
                try:
                    kept_key, code, parts, left_to_numba = pickle.loads(disk.read(folder / self._file_name(key)))
                    if kept_key == key:
                        needed = {name: apart.Kept(part) for name, part in parts.items()}
                        apart.load(target_context.codegen(), needed)
                        result = CompileResult._rebuild(target_context, *code)
                        result.library.apart, result.library.left_to_numba = needed, left_to_numba
                        return result
                except Exception:  # whatever is wrong with the file, compiling is the answer to it
                    continue
        return None

    def save_overload(self, sig, data) -> None:
        """Keep the compiled code for a signature, if there is a place for it."""
        parts = apart.packed(data.library)
        # Dynamic globals are addresses in this process.
        if not self._enabled or data.library.has_dynamic_globals or parts is None:
            return
        kept, left_to_numba = False, getattr(data.library, "left_to_numba", True)
        # What there may be: a full disk, a quota, a folder that cannot be written to.
        with _clock.running(), contextlib.suppress(OSError, MemoryError):
            key = self._index_key(sig, data.codegen)
            for folder in disk.folders()[-1:]:
                disk.write(folder / self._file_name(key), dumps((key, data._reduce(), parts, left_to_numba)))
                kept = folder.name == disk.SOURCES  # the private folder goes with the process
        _clock.tell(kept)

    def flush(self) -> None:
        for folder in disk.folders()[-1:]:
            for path in folder.glob(f"{self._name}-*"):
                path.unlink(missing_ok=True)


class _CompileClock(numba.core.event.Listener):
    """The time that it takes to get leaves ready: to load, compile and keep them.

    numba calls it for every function of the process, ours or not, and would pass on its exceptions: it raises none.
    All calls come under numba's global lock, one compilation at a time; only reading the clock does not.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.told = False
        self.collecting = False
        self.total: tuple[float, float | None] = (0.0, None)  # seconds; since when one more is running

    def seconds(self) -> float:
        total, since = self.total  # read together: another thread may be replacing them
        return total if since is None else total + time.perf_counter() - since

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.on_start()
        try:
            yield
        finally:
            self.on_end()

    def notify(self, event) -> None:
        with contextlib.suppress(Exception):
            if isinstance(event.data["dispatcher"]._cache, LeafCache):
                super().notify(event)

    def on_start(self, event=None) -> None:
        if self.depth == 0:
            self.total = (self.total[0], time.perf_counter())
            # A compiler makes objects by the million and hardly any garbage: looking for it takes a fifth of the time.
            self.collecting = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event=None) -> None:
        self.depth = max(0, self.depth - 1)
        if self.depth == 0:
            self.total = (self.seconds(), None)
            if self.collecting:
                gc.enable()

    def tell(self, kept: bool) -> None:
        """Say once, in one line, what takes the time of a first use when it is more than a second."""
        if self.told or self.seconds() < SLOW_COMPILE_SECONDS or sys.stderr is None:
            return
        self.told = True
        how_long = "once; kept on disk" if kept else "for this process only: there is no place to keep them"
        with contextlib.suppress(Exception):  # the stream may be closed
            print(f"maxmargin: compiling its inner loops for this machine ({how_long})", file=sys.stderr)


_clock = _CompileClock()


def compiling_seconds() -> float:
    """The seconds that went into getting leaves ready in this process, by whatever thread, up to now.

    Compiling takes most of it; loading what is kept on disk counts, too. A thread that needs a leaf waits for those
    that others are getting ready, so this is what a clock of real work leaves out: the difference of two calls.
    """
    return _clock.seconds()


# A child that is forked while another thread compiles would wait for ever for locks that nobody in it holds: the fork
# waits for the end of that compilation instead. A thread may take the locks that it holds already, so that a fork from
# within a compilation waits for nothing. The order is numba's: its own lock first, then that of LLVM.
_LOCKS = (global_compiler_lock._lock, ffi.lib._lock._lock)


def _before_fork() -> None:
    _LOCKS[0].acquire()
    apart.wait()  # its threads take the second lock at times, and nobody submits anything without the first
    _LOCKS[1].acquire()


def _after_fork() -> None:
    for lock in reversed(_LOCKS):
        with contextlib.suppress(RuntimeError):  # not acquired: Ctrl-C ended the wait
            lock.release()


if not numba.config.DISABLE_JIT:
    numba.core.event.register("numba:compile", _clock)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
