"""Compiled leaves on disk, and what a fork has to wait for.

Kept code is unpickled and run, so it is read only where nobody but root and we could have put it (SECURITY.md says
more), and only when its checksum agrees. The cache saves time and nothing else: what cannot be read is compiled again,
what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable

import llvmlite
import numba
from llvmlite.binding import ffi
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from . import apart
from . import folders as disk
from .clock import clock

__all__ = ["LeafCache", "after_fork", "before_fork"]


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

    def _key(self, sig, codegen) -> tuple:
        return numba.__version__, llvmlite.__version__, *self._index_key(sig, codegen)

    def load_overload(self, sig, target_context):
        """The compiled code for a signature, or None."""
        with clock.running():
            target_context.refresh()  # the first time, numba loads its own library here
            key = self._key(sig, target_context.codegen())
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
        with clock.running(), contextlib.suppress(OSError, MemoryError):
            key = self._key(sig, data.codegen)
            for folder in disk.folders()[-1:]:
                disk.write(folder / self._file_name(key), dumps((key, data._reduce(), parts, left_to_numba)))
                kept = folder.name == disk.SOURCES  # the private folder goes with the process
        clock.tell(kept)

    def flush(self) -> None:
        for folder in disk.folders()[-1:]:
            for path in folder.glob(f"{self._name}-*"):
                path.unlink(missing_ok=True)


class _Listener(numba.core.event.Listener):
    """Has the clock run while a leaf of ours is compiled.

    numba calls it for every function of the process, ours or not, and would pass on its exceptions: it raises none.
    """

    def notify(self, event) -> None:
        with contextlib.suppress(Exception):
            if isinstance(event.data["dispatcher"]._cache, LeafCache):
                super().notify(event)

    def on_start(self, event) -> None:
        clock.start()

    def on_end(self, event) -> None:
        clock.stop()


# A child that is forked while another thread compiles would wait for ever for locks that nobody in it holds: the fork
# waits for the end of that compilation instead. A thread may take the locks that it holds already, so that a fork from
# within a compilation waits for nothing. The order is numba's: its own lock first, then that of LLVM.
_LOCKS = (global_compiler_lock._lock, ffi.lib._lock._lock)


def before_fork() -> None:
    _LOCKS[0].acquire()
    apart.wait()  # its threads take the second lock at times, and nobody submits anything without the first
    _LOCKS[1].acquire()


def after_fork() -> None:
    for lock in reversed(_LOCKS):
        with contextlib.suppress(RuntimeError):  # not acquired: Ctrl-C ended the wait
            lock.release()


if not numba.config.DISABLE_JIT:
    numba.core.event.register("numba:compile", _Listener())
