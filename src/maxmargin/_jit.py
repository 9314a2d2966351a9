"""The only door to numba: one decorator, one place for what its leaves need from the machine.

Compiled leaves are plain functions on plain arrays. They release the GIL, so that a thread pool of our
own (:mod:`maxmargin.threads`) can run them side by side; numba's own threads are never used, because its
thread layer aborts the process when two Python threads enter it at once.

Compiled code is kept on disk in a folder named after a hash of the sources that hold leaves. numba by itself
looks only at the file that holds a function, so a changed callee in another file would stay stale, and
it writes next to the sources, which an installed package may not do.

Kept code is unpickled and run, so it is read only where nobody but root and we could have put it (SECURITY.md says
more), and only when its checksum agrees. The cache saves time and nothing else: what cannot be read is compiled again,
what cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import operator
import os
import pickle
import shutil
import stat
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import ffi
from numba.core import caching, cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import intrinsic, overload

__all__ = [
    "jit",
    "helper",
    "inline",
    "by_types",
    "read_only",
    "dot",
    "fast_exp",
    "prefetch",
    "row_dot",
    "row_product",
    "ROW_WIDTH",
    "cache_dir",
    "compiling_seconds",
]

SLOW_COMPILE_SECONDS = 1.0
PRIVATE = 0o700  # the mode of folders that we choose
READABLE = 0o755  # of a folder that the user names: one account may fill it for others, who only read it
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _source_hash() -> str:
    """A short digest of every source file that holds compiled code and of the versions that compile it.

    Empty where there are no source files (in a zip archive, say): nothing would then tell old code from new.
    """
    versions = f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version_info[:2]}"
    digest = hashlib.sha256(versions.encode())
    root = Path(__file__).parent
    sources = sorted(root.rglob("*.py"))
    for path in sources:
        source = path.read_bytes()
        if b"_jit import" in source or path.name == "_jit.py":
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(source)
    return digest.hexdigest()[:16] if sources else ""


_SOURCES = _source_hash()  # of what is imported now: the files may be others when the first leaf is compiled


def _user() -> int | None:
    """The number of the user that we act as; None on Windows, where folders of users are closed to others anyway."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _only_ours(info: os.stat_result) -> bool:
    """Whether nobody but root and we can write to a file or a folder."""
    return _user() is None or (info.st_uid in (0, _user()) and not info.st_mode & WRITABLE_BY_OTHERS)


def _cache_home() -> Path | None:
    """The user's folder for what can be made again; None for a user without a home."""
    variable, below = {
        "win32": ("LOCALAPPDATA", "."),
        "darwin": ("", "Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    named = os.environ.get(variable, "")
    if os.path.isabs(named):  # the XDG specification: what is empty or relative counts as not set
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / below if home.is_absolute() else None


def _make(folder: Path, mode: int) -> None:
    if not folder.is_dir():
        folder.mkdir(mode, exist_ok=True)  # another process may be quicker


def _own_folder(base: Path, levels: tuple[str, ...], mode: int) -> Path:
    """base/levels, made where it is missing; an OSError where somebody else could have planted or could change it.

    The levels are ours: real folders (no links), of root or of us, closed to others. Above them we only ask that not
    everybody can put another folder in place of one; who else may write there is the choice of its owner.
    """
    folder = Path(os.path.realpath(base))
    for level in reversed((folder, *folder.parents)):
        _make(level, mode)
        found = level.stat().st_mode
        if _user() is not None and found & stat.S_IWOTH and not found & stat.S_ISVTX:
            raise PermissionError(f"everybody can replace what lies in {level} (mode {stat.filemode(found)})")
    for name in levels:
        folder = folder / name
        _make(folder, mode)
        info = folder.lstat()
        if not (stat.S_ISDIR(info.st_mode) and _only_ours(info)):
            found_out = f"owner {info.st_uid}, mode {stat.filemode(info.st_mode)}"
            raise PermissionError(
                f"{folder} is not a folder that only root and user {_user()} can write to ({found_out})"
            )
    return folder


def _candidates(sources: str) -> Iterator[tuple[Path, tuple[str, ...], int]]:
    """Folders to keep compiled code in, best first: base, levels below it that are ours, mode of what is made."""
    named = os.environ.get("MAXMARGIN_CACHE_DIR")
    if named:
        yield Path(named), (sources,), READABLE
    elif (home := _cache_home()) is not None:
        yield home, ("maxmargin", sources), PRIVATE
    with contextlib.suppress(OSError):  # there may be no folder for temporary files
        shared = Path(tempfile.gettempdir())
        if _user() is not None:
            yield shared, (f"maxmargin-{_user()}", sources), PRIVATE
        private = Path(tempfile.mkdtemp(prefix="maxmargin-"))
        Finalize(None, shutil.rmtree, (private, True), exitpriority=0)  # at the exit of the process that made it
        yield private.parent, (private.name,), PRIVATE


def _find_folders(sources: str) -> list[Path]:
    """Where compiled code is looked for: folders that can be trusted, down to the first that can be written to."""
    found: list[Path] = []
    for base, levels, mode in _candidates(sources) if sources else ():
        try:
            folder = _own_folder(base, levels, mode)
        except OSError as problem:
            if mode == READABLE:
                warnings.warn(
                    f"MAXMARGIN_CACHE_DIR={base} was asked for; it is not used, because {problem}; name a folder of "
                    "your own that others cannot write to",
                    stacklevel=2,
                )
            continue
        found.append(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            break
    return found


@cache
def _folders_of(user: int | None) -> list[Path]:
    return _find_folders(_SOURCES)


def _folders() -> list[Path]:
    """The folders of this process, chosen when the first leaf is needed: an import alone writes nothing."""
    return _folders_of(_user())  # a server may become another user after its start


def cache_dir() -> Path | None:
    """The folder in which new compiled code of exactly these sources is kept; None where there is none for it."""
    return next(reversed(_find_folders(_source_hash())), None)


def _read(path: Path) -> bytes:
    """The contents of a file of ours; an exception where it is missing, damaged or could be somebody else's."""
    with open(path, "rb") as file:
        info = os.fstat(file.fileno())  # of the file that is open: its name may mean another one by now
        if not (stat.S_ISREG(info.st_mode) and _only_ours(info)):
            raise PermissionError(f"{path} is not a file that only root and user {_user()} can write to")
        contents = file.read()
    size = hashlib.sha256().digest_size
    if hashlib.sha256(contents[size:]).digest() != contents[:size]:
        raise ValueError(f"{path} is damaged")
    return contents[size:]


def _write(path: Path, contents: bytes) -> None:
    """Under another name first, so that nobody ever reads half a file."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, READABLE & ~0o111)) as file:
            file.write(hashlib.sha256(contents).digest())
            file.write(contents)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


class _LeafCache(caching.FunctionCache):
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
        return str(_folders()[-1]) if _folders() else None

    def _file_name(self, key: tuple) -> str:
        return f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"

    def load_overload(self, sig, target_context):
        """The compiled code for a signature, or None."""
        with _clock.running():
            target_context.refresh()  # the first time, numba loads its own library here
            key = self._index_key(sig, target_context.codegen())
            for folder in _folders() if self._enabled else ():
                try:
                    kept_key, code = pickle.loads(_read(folder / self._file_name(key)))
                    if kept_key == key:
                        return CompileResult._rebuild(target_context, *code)
                except Exception:  # whatever is wrong with the file, compiling is the answer to it
                    continue
        return None

    def save_overload(self, sig, data) -> None:
        """Keep the compiled code for a signature, if there is a place for it."""
        if not self._enabled or data.library.has_dynamic_globals:  # those are addresses in this process
            return
        kept = False
        # What there may be: a full disk, a quota, a folder that cannot be written to.
        with _clock.running(), contextlib.suppress(OSError, MemoryError):
            key = self._index_key(sig, data.codegen)
            for folder in _folders()[-1:]:
                _write(folder / self._file_name(key), dumps((key, data._reduce())))
                kept = folder.name == _SOURCES  # the private folder goes with the process
        _clock.tell(kept)

    def flush(self) -> None:
        for folder in _folders()[-1:]:
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
            if isinstance(event.data["dispatcher"]._cache, _LeafCache):
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
_FASTMATH = {"contract", "nsz", "nnan"}
_OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}


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
    for lock in _LOCKS:
        lock.acquire()


def _after_fork() -> None:
    for lock in reversed(_LOCKS):
        with contextlib.suppress(RuntimeError):  # not acquired: Ctrl-C ended the wait
            lock.release()


if not numba.config.DISABLE_JIT:
    numba.core.event.register("numba:compile", _clock)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class _Flags(Flags):
    """numba's flags, which are part of keys that it looks up thousands of times.

    It hashes and compares the fifty options one by one, and its hash, that of their names, is always the same.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return _HASH_OF_FLAGS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and (self._values == other._values or super().__eq__(other))


_HASH_OF_FLAGS = hash(Flags())


class _Typing:
    """numba's typing context for one of our functions, which asks it once for each function and types of arguments.

    numba tries all that is registered for an operator, some dozens for "+", each time that it meets one, and it meets
    the same few hundred of times in a leaf. What it finds depends on the function, the types and the flags alone.
    """

    known: dict[tuple, tuple] = {}  # → signature and the key of what computes it

    def __init__(self, context, flags: Flags) -> None:
        self._context = context
        self._flags = flags.summary()
        self._used: list[tuple] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func, args, kws):
        function = func if isinstance(func, numba.types.Type) else self._context._lookup_global(func)
        if not isinstance(function, numba.types.Function) or not all(a.is_precise() for a in (*args, *kws.values())):
            return self._context.resolve_function_type(func, args, kws)
        key = self._flags, function, tuple(args), tuple(kws.items())
        if key not in self.known:
            signature = self._context.resolve_function_type(func, args, kws)
            if signature is None:
                return None
            self.known[key] = signature, function._impl_keys[signature.args]
        signature, implementation = self.known[key]
        self._used.append((function, signature.args, implementation))
        return signature

    def resolve_setitem(self, target, index, value):
        function = self._context.resolve_value_type(operator.setitem)
        return self.resolve_function_type(function, (target, index, value), {})

    def settle(self) -> None:
        """Have numba take what was found: it has one place for it, whatever the flags, and others use that, too."""
        for function, args, implementation in self._used:
            function._impl_keys[args] = implementation


@register_pass(mutates_CFG=True, analysis_only=False)
class _TypeInference(NopythonTypeInference):
    _name = "maxmargin_type_inference"

    def run_pass(self, state) -> bool:
        context = state.typingctx
        try:
            state.typingctx = typing = _Typing(context, state.flags)
            done = super().run_pass(state)
            typing.settle()
            return done
        except Exception:  # another numba may have other insides, and says best what is wrong with a leaf
            state.typingctx = context
            return super().run_pass(state)
        finally:
            state.typingctx = context


class _LeafCompiler(CompilerBase):
    """numba's compiler with passes of ours in the place of some of its own."""

    own: ClassVar[dict[type, type]] = {NopythonTypeInference: _TypeInference}

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals) -> None:
        with contextlib.suppress(Exception):  # another numba may have other flags
            flags = _Flags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self):
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        # A function within the function would be a constant of its code. Most have none, and looking takes long.
        closures = any(isinstance(constant, CodeType) for constant in self.state.func_id.code.co_consts)
        passes.passes = [
            (self.own.get(p, p), why) for p, why in passes.passes if closures or p is not InlineClosureLikes
        ]
        passes.finalize()
        return [passes]


def jit(function: Callable) -> Any:
    """Compile a leaf: GIL released, kept on disk, fused multiply-add allowed but no reordering of sums."""
    leaf = numba.njit(function, fastmath=_FASTMATH, **_OPTIONS, pipeline_class=_LeafCompiler)
    if not numba.config.DISABLE_JIT:
        leaf._cache = _LeafCache(function)
    return leaf


class _Part(JITCodeLibrary):
    """The code of a helper as LLVM gets it: it is optimised and becomes machine code as a part of each leaf only."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


class _OnlyForLeaves(dict):
    """What stands in numba's tables for the function that Python would call; a call of it raises."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    _name = "maxmargin_part_lowering"

    def run_pass(self, state) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = True  # here: overloads are compiled by flags
        super().run_pass(state)
        key = _OnlyForLeaves().__getitem__  # a built-in function, as numba wants it, that is equal to no other
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=key)
        return True


class _PartCompiler(_LeafCompiler):
    own = _LeafCompiler.own | {NativeLowering: _PartLowering}


def helper(function: Callable) -> Any:
    """A function that only leaves call, compiled once for all of them.

    numba optimises a leaf that a leaf calls by itself, makes machine code and wrappers for Python of it, links it into
    the caller and does all this again, on every level. Of a helper there is one optimised copy: that in its leaf.
    """
    function = getattr(function, "py_func", function)
    return numba.njit(function, fastmath=_FASTMATH, **_OPTIONS, pipeline_class=_PartCompiler)


def inline(function: Callable) -> Any:
    """A helper that leaves call: always inlined, compiled with its caller."""
    return numba.njit(function, inline="always", fastmath=_FASTMATH, **_OPTIONS)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to: leaves that only read are compiled for it alone, whatever the array is."""
    view = array.view()
    view.flags.writeable = False
    return view


def by_types(choose: Callable) -> Any:
    """A helper of leaves that returns the function for the types of its arguments.

    LLVM inlines it. numba could, too, but infers types anew for that: compiling a leaf would take twice as long.
    """
    options = {"fastmath": _FASTMATH, "error_model": "numpy", "pipeline_class": _PartCompiler}
    return overload(choose, jit_options=options)(choose)


def _dot(x, w):
    total = 0.0
    for k in range(len(x)):
        total += x[k] * w[k]
    return total


# Σ x_k w_k in float64, in vector code: the one sum of which the order is free, for rows whose length is not known.
dot = numba.njit(_dot, fastmath=_FASTMATH | {"reassoc"}, **_OPTIONS, pipeline_class=_PartCompiler)


def prefetch(a, k):
    """Ask the memory for the k-th entry of a (counted in the order of memory), which will be needed soon."""


@intrinsic
def _prefetch(typingctx, a, k):
    """Rows in random order are neither in a cache nor where the processor looks ahead: half the time is waiting."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        word, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(array.data, [args[1]]), byte)
        builder.call(function, [address, word(0), word(3), word(1)])  # to read, keep, data
        return context.get_dummy_value()

    return numba.types.void(a, numba.types.int64), generate


@overload(prefetch)
def _specialise_prefetch(a, k):
    def compiled(a, k):
        _prefetch(a, k)

    return compiled


@intrinsic
def _pow2_of_shifted(typingctx, t):
    """2**k from t = k + 1.5 · 2**m, where m is the width of the mantissa: its low bits hold k.

    Shifts and adds on whole registers vectorise; ldexp and float-to-integer conversions do not.
    """
    width, bias, shift, real = {
        numba.types.float32: (32, 127, 23, ir.FloatType()),
        numba.types.float64: (64, 1023, 52, ir.DoubleType()),
    }[t]

    def generate(context, builder, signature, args):
        word = ir.IntType(width)
        bits = builder.bitcast(args[0], word)
        return builder.bitcast(builder.shl(builder.add(bits, word(bias)), word(shift)), real)

    return t(t), generate


def fast_exp(x):
    """exp(x) for leaves: a polynomial on the reduced argument, which LLVM turns into vector code.

    The scalar library call that numba would use costs ten times as much. Accurate to 2 units in the last
    place; arguments outside the normal range are clipped to it.
    """
    return np.exp(x)


_LOG2E = 1.4426950408889634
_SHIFT32 = 12582912.0  # 1.5 · 2**23
_SHIFT64 = 6755399441055744.0  # 1.5 · 2**52


def _fast_exp32(x):
    # Cephes expf: ln 2 split in two, polynomial of degree 5 for (exp(r) - 1 - r) / r².
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    t = x * np.float32(_LOG2E) + np.float32(_SHIFT32)
    k = t - np.float32(_SHIFT32)
    r = x - k * np.float32(0.693359375)
    r = r - k * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * (r * r) + r + np.float32(1.0)
    return p * _pow2_of_shifted(t)


def _fast_exp64(x):
    # The Taylor polynomial of degree 13 on |r| <= ln(2)/2 leaves 4e-18; ln 2 split so that k * high is exact.
    # Terms in pairs (Estrin): Horner's one long chain of multiply-adds would take twice as long.
    x = min(max(x, -708.0), 709.0)
    t = x * _LOG2E + _SHIFT64
    k = t - _SHIFT64
    r = x - k * 0.693147180369123816490
    r = r - k * 1.90821492927058770002e-10
    r2 = r * r
    r4 = r2 * r2
    low = (r * (1.0 / 6.0) + 0.5) * r2 + r
    middle = (r * (1.0 / 5040.0) + 1.0 / 720.0) * r2 + (r * (1.0 / 120.0) + 1.0 / 24.0)
    high = (r * (1.0 / 39916800.0) + 1.0 / 3628800.0) * r2 + (r * (1.0 / 362880.0) + 1.0 / 40320.0)
    top = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    p = ((top * r4 + high) * r4 + middle) * r4 + low
    scale = _pow2_of_shifted(t)
    return p * scale + scale


@overload(fast_exp, jit_options={"fastmath": _FASTMATH, "error_model": "numpy"})
def _specialise_fast_exp(x):
    return _fast_exp32 if x == numba.types.float32 else _fast_exp64


ROW_WIDTH = 64  # columns of a block that row_product handles: 8 AVX registers of float32, twice 8 of float64


def row_product(a, positions, values, start, stop, block):
    """a[:] = Σ_s values[s] block[positions[s]] for s in start..stop; a and the rows of block have ROW_WIDTH columns."""
    a[:] = values[start:stop] @ block[positions[start:stop]]


@intrinsic
def _row_product(typingctx, a, positions, values, start, stop, block):
    """The sums stay in vector registers over the whole loop.

    Written as a loop over arrays, LLVM cannot know that a and block do not overlap: it loads and stores the
    sums at every step and checks for overlap before each, which costs three times as much.
    """
    real = a.dtype
    lanes = 8 if real == numba.types.float32 else 4
    registers = 8

    def generate(context, builder, signature, args):
        arrays = [
            context.make_array(ty)(context, builder, value)
            for ty, value in zip(signature.args, args, strict=True)
            if isinstance(ty, numba.types.Array)
        ]
        out, where, weight, table = (array.data for array in arrays)
        start_, stop_ = args[3], args[4]
        scalar = ir.FloatType() if lanes == 8 else ir.DoubleType()
        vector = ir.VectorType(scalar, lanes)
        index = ir.IntType(64)
        zero = ir.Constant(vector, [0.0] * lanes)

        def at(pointer, offset):
            address = builder.gep(pointer, [offset])
            return builder.bitcast(address, vector.as_pointer())

        for first in range(0, ROW_WIDTH, registers * lanes):
            before = builder.block
            head = builder.append_basic_block("row_product.head")
            body = builder.append_basic_block("row_product.body")
            done = builder.append_basic_block("row_product.done")
            builder.branch(head)
            builder.position_at_end(head)
            s = builder.phi(index)
            s.add_incoming(start_, before)
            sums = [builder.phi(vector) for _ in range(registers)]
            for total in sums:
                total.add_incoming(zero, before)
            builder.cbranch(builder.icmp_signed("<", s, stop_), body, done)
            builder.position_at_end(body)
            position = builder.sext(builder.load(builder.gep(where, [s])), index)
            value = builder.load(builder.gep(weight, [s]))
            splat = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            splat = builder.shuffle_vector(
                splat, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )
            row = builder.add(builder.mul(position, index(ROW_WIDTH)), index(first))
            for u, total in enumerate(sums):
                entry = builder.load(at(table, builder.add(row, index(u * lanes))), align=scalar_bytes[lanes])
                product = builder.fmul(splat, entry, flags=("contract",))
                total.add_incoming(builder.fadd(total, product, flags=("contract",)), body)
            s.add_incoming(builder.add(s, index(1)), body)
            builder.branch(head)
            builder.position_at_end(done)
            for u, total in enumerate(sums):
                builder.store(total, at(out, index(first + u * lanes)), align=scalar_bytes[lanes])
        return context.get_dummy_value()

    scalar_bytes = {8: 4, 4: 8}
    return numba.types.none(a, positions, values, numba.types.int64, numba.types.int64, block), generate


def row_dot(weights, a):
    """Σ_k weights[k] a[k] over ROW_WIDTH entries, in float64."""
    return float(weights @ a.astype(np.float64))


@intrinsic
def _row_dot(typingctx, weights, a):
    """Four vector sums: a plain loop would be one long chain of additions, which may not be reordered."""
    lanes, chains = 4, 4
    item = 4 if a.dtype == numba.types.float32 else 8

    def generate(context, builder, signature, args):
        left, right = (
            context.make_array(ty)(context, builder, value).data for ty, value in zip(signature.args, args, strict=True)
        )
        index = ir.IntType(64)
        wide = ir.VectorType(ir.DoubleType(), lanes)
        narrow = wide if item == 8 else ir.VectorType(ir.FloatType(), lanes)

        def load(pointer, vector, k, align):
            address = builder.gep(pointer, [index(k)])
            return builder.load(builder.bitcast(address, vector.as_pointer()), align=align)

        sums = [ir.Constant(wide, [0.0] * lanes)] * chains
        for k in range(0, ROW_WIDTH, lanes):
            x = load(right, narrow, k, item)
            x = x if item == 8 else builder.fpext(x, wide)
            product = builder.fmul(load(left, wide, k, 8), x, flags=("contract",))
            c = (k // lanes) % chains
            sums[c] = builder.fadd(sums[c], product, flags=("contract",))
        total = builder.fadd(builder.fadd(sums[0], sums[1]), builder.fadd(sums[2], sums[3]))
        entries = [builder.extract_element(total, ir.Constant(ir.IntType(32), k)) for k in range(lanes)]
        return builder.fadd(builder.fadd(entries[0], entries[1]), builder.fadd(entries[2], entries[3]))

    return numba.types.float64(weights, a), generate


@overload(row_dot)
def _specialise_row_dot(weights, a):
    def compiled(weights, a):
        return _row_dot(weights, a)

    return compiled


@overload(row_product)
def _specialise_row_product(a, positions, values, start, stop, block):
    def compiled(a, positions, values, start, stop, block):
        _row_product(a, positions, values, start, stop, block)

    return compiled
