"""Parts of leaves that become machine code by themselves, in threads beside the one that compiles the leaf.

numba's types and LLVM's instructions are made in Python, one function after the other. What LLVM makes of them needs
no Python: a part that its leaf only calls is optimised meanwhile, in a context of its own, which shares nothing with
other threads. The leaf's code knows the part's name alone; the engine that runs both finds it there.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from concurrent.futures import Future

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba.core import config
from numba.core.codegen import _parse_refprune_flags
from numba.core.llvm_bindings import create_pass_builder

__all__ = ["Kept", "Part", "load", "packed", "wait", "with_parts"]

ADDRESSES = b"numba.dynamic.globals"  # how numba calls variables that hold addresses of this process

_waiting: deque[Part] = deque()
_threads: set[threading.Thread] = set()
_changing = threading.Lock()  # of the two above
_loaded: set[str] = set()  # names of the parts that the engine has


def machine_code(bitcode: bytes, codegen) -> bytes:
    """The object file of a module, as numba would make it.

    llvmlite has one lock for all that LLVM does. Here it is not taken for the two calls that take long: they use
    nothing but what was made for them.
    """
    options = {"opt": config.OPT}
    codegen._customize_tm_options(options)
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(**options)
    module = llvm.parse_bitcode(bitcode, llvm.create_context())
    for cheap in (True, False):
        builder = create_pass_builder(
            machine,
            opt=codegen._opt_level if cheap else config.OPT,
            loop_vectorize=codegen._loopvect if cheap else config.LOOP_VECTORIZE,
            slp_vectorize=not cheap and config.SLP_VECTORIZE,
        )
        passes = builder.getModulePassManager()
        if cheap:
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.add_refprune_pass(_parse_refprune_flags())
        ffi.lib.LLVMPY_RunNewModulePassManager._cfn(passes, module, builder)
    with ffi.OutputString() as problem:
        buffer = ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn(machine, module, 1, problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


class Part:
    """LLVM's code of a part, which threads make machine code of: as many as there are processors but for this one's."""

    def __init__(self, module, codegen) -> None:
        module = module.clone()
        for function in module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "weak_odr"  # leaves that are loaded from disk bring the same parts
        self.bitcode, self.codegen = module.as_bitcode(), codegen
        self.code: Future = Future()
        with _changing:
            _waiting.append(self)
            if len(_threads) < max(1, (os.cpu_count() or 1) - 1):
                thread = threading.Thread(target=_work, name="maxmargin compiles")
                thread.start()
                _threads.add(thread)


class Kept:
    """Machine code of a part that was on disk."""

    bitcode = b""

    def __init__(self, code: bytes) -> None:
        self.code: Future = Future()
        self.code.set_result(code)


def _work() -> None:
    while True:
        with _changing:
            if not _waiting:
                _threads.discard(threading.current_thread())
                return
            part = _waiting.popleft()
        try:
            part.code.set_result(machine_code(part.bitcode, part.codegen))
        except BaseException as problem:
            part.code.set_exception(problem)


def wait() -> None:
    """Until no thread is at work. The caller sees to it that nothing is submitted meanwhile."""
    for thread in list(_threads):
        thread.join()


def load(codegen, parts: dict[str, Part | Kept]) -> None:
    """Hand parts to the engine, by name: once, whichever leaf brings them."""
    for name, part in parts.items():
        if name not in _loaded:
            codegen._engine._ee.add_object_file(llvm.ObjectFileRef.from_data(part.code.result()))
            _loaded.add(name)


def with_parts(module, parts: dict[str, Part | Kept]):
    """The code of a library and of its parts in one module, for whoever wants it so."""
    module = module.clone()
    for part in parts.values():
        if part.bitcode:
            module.link_in(llvm.parse_bitcode(part.bitcode))
    return module


def packed(library) -> dict[str, bytes] | None:
    """What a library needs beside its own code, to be kept with it; None if it cannot be kept."""
    if hasattr(library, "apart"):
        parts = {name: part.code.result() for name, part in library.apart.items()}
        return None if any(ADDRESSES in code for code in parts.values()) else parts
    # A library of numba's own may call what a leaf of ours has brought from disk.
    called = (function.name for function in library._final_module.functions if function.is_declaration)
    return None if any(name in _loaded for name in called) else {}
