"""numba's compiler as leaves and their helpers use it: with passes and libraries of our own."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any, ClassVar

import numba
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.interpreter import Interpreter, peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates
from numba.core.registry import cpu_target
from numba.core.rewrites import rewrite_registry
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonRewrites,
    NopythonTypeInference,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    RewriteSemanticConstants,
    TranslateByteCode,
)
from numba.extending import overload

from . import apart
from .kept import LeafCache, after_fork, before_fork
from .lowering import AsideLower, InlineLower, LeanLegalization, LeanLower, LeanLowering, LeanRewrites, signature_of

__all__ = ["PART", "after_fork", "before_fork", "dispatcher", "type_of"]

FASTMATH = {"contract", "nsz", "nnan"}
OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}


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
        if not kws and (signature := signature_of(getattr(function, "typing_key", None), args)) is not None:
            return signature
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
        state.typingctx = typing = _Typing(context, state.flags)
        try:
            done = super().run_pass(state)
            typing.settle()
            return done
        finally:
            state.typingctx = context


class _Interpreter(Interpreter):
    """numba's reader of Python's code, without looking for what only `with` and dictionaries leave behind."""

    def post_process(self, peepholes, func_ir):
        seldom = (peep_hole_delete_with_exit, peep_hole_fuse_dict_add_updates)
        return super().post_process([peephole for peephole in peepholes if peephole not in seldom], func_ir)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translation(TranslateByteCode):
    _name = "maxmargin_translation"

    def run_pass(self, state) -> bool:
        state["func_ir"] = _Interpreter(state["func_id"]).interpret(state["bc"])
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Processing(IRProcessing):
    """Without the lives of variables, which nobody asks for before the end."""

    _name = "maxmargin_ir_processing"

    def run_pass(self, state) -> bool:
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _EarlyRewrites(GenericRewrites):
    """numba's own rewrites, without the lives of variables after them."""

    _name = "maxmargin_early_rewrites"

    def run_pass(self, state) -> bool:
        blocks = state.func_ir.blocks
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite, todo = kind(state), list(blocks)
            while todo:
                label = todo.pop()
                if rewrite.match(state.func_ir, blocks[label], state.typemap, state.calltypes):
                    blocks[label] = rewrite.apply()
                    todo.append(label)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LeafRewrites(LeanRewrites):
    _name = "maxmargin_leaf_rewrites"


@register_pass(mutates_CFG=False, analysis_only=True)
class _LeafLegalization(LeanLegalization):
    _name = "maxmargin_leaf_legalization"


class _Leaf(JITCodeLibrary):
    """The code of a leaf and its helpers: LLVM optimises them together, not each by itself before."""

    def __init__(self, codegen, name: str) -> None:
        super().__init__(codegen, name)
        self.apart: dict[str, apart.Part | apart.Kept] = {}  # machine code of what is called and not linked in, by name
        self.left_to_numba = False  # whether the compiler below could not do it, or a helper

    def _optimize_functions(self, ll_module) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _link(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self.apart |= getattr(library, "apart", {})
            self.left_to_numba |= getattr(library, "left_to_numba", False)
            if not isinstance(library, _Apart):
                self._final_module.link_in(CPUCodeLibrary._get_module_for_linking(library), preserve=True)
        self._linking_libraries.clear()

    def _get_module_for_linking(self):
        """For a library of numba's own, which takes the code alone."""
        module = super()._get_module_for_linking()
        return apart.with_parts(module, self.apart) if self.apart else module

    def finalize(self) -> None:
        self._link()
        super().finalize()

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        apart.load(self._codegen, self.apart)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LeafLowering(LeanLowering):
    _name = "maxmargin_leaf_lowering"

    def run_pass(self, state) -> bool:
        state.library = _Leaf(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().run_pass(state)


# What there is to do for a function without others in it. The rest of numba's passes look for what leaves do not have
# (contexts, generators, functions to put in place), or give each assignment of a variable a name of its own, as LLVM
# does anyway.
_PASSES = (
    _Translation,
    FixupArgs,
    _Processing,
    RewriteSemanticConstants,
    DeadBranchPrune,
    _EarlyRewrites,
    NopythonTypeInference,
    NopythonRewrites,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
)


class _Passes(PassManager):
    """One after the other: numba's own looks after each how long variables live, which only few passes change."""

    def _runPass(self, index, pss, internal_state) -> None:
        pss.analysis = self._analysis
        pss.run_initialization(internal_state)
        pss.run_pass(internal_state)
        pss.run_finalizer(internal_state)


@contextlib.contextmanager
def _settled(*contexts) -> Iterator[None]:
    """A time in which numba does not import modules each time that something is not found.

    It would several hundred times while a leaf is compiled. What is registered meanwhile counts.
    """
    inner = "refresh" in vars(contexts[0])
    for context in contexts:
        vars(context)["refresh"] = partial(_take_new, context)
    try:
        yield
    finally:
        if not inner:
            for context in contexts:
                del vars(context)["refresh"]


def _take_new(context) -> None:
    for registry in list(context._registries):
        context.install_registry(registry)
    if hasattr(context, "typing_context"):  # types, which functions may have brought
        _take_new(context.typing_context)


class _LeafCompiler(CompilerBase):
    """numba's compiler with passes of ours in the place of some of its own."""

    short = True  # whether the passes that most leaves need are enough
    own: ClassVar[dict[type, type]] = {
        NopythonTypeInference: _TypeInference,
        NopythonRewrites: _LeafRewrites,
        IRLegalization: _LeafLegalization,
        NativeLowering: _LeafLowering,
    }

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals) -> None:
        self.asked = typingctx, targetctx, library, args, return_type, flags, locals
        with contextlib.suppress(Exception):  # another numba may have other flags
            flags = _Flags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def compile_extra(self, func):
        try:
            with _settled(*self.asked[:2], self.state.targetctx):
                return super().compile_extra(func)
        except Exception:
            if self.short:  # a variable may have several types, which all of numba's passes tell apart
                longer = type(self)(*self.asked)
                longer.short = False
                return longer.compile_extra(func)
            # Another numba may have other insides, and says best what is wrong with a leaf.
            result = Compiler(*self.asked).compile_extra(func)
            result.library.left_to_numba = True
            return result

    def define_pipelines(self):
        func_id = self.state.func_id
        # A function within the function would be a constant of its code.
        within = any(isinstance(constant, CodeType) for constant in func_id.code.co_consts)
        if within or func_id.is_generator or not self.short:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [(self.own.get(p, p), why) for p, why in passes.passes]
        else:
            passes = _Passes("nopython")
            for p in _PASSES:
                passes.add_pass(self.own.get(p, p), p.__name__)
        passes.finalize()
        return [passes]


class _Part(_Leaf):
    """The code of a helper as LLVM gets it: it is optimised and becomes machine code as a part of each leaf only."""

    def finalize(self) -> None:
        self._link()
        self._finalize_dynamic_globals()
        self._finalized = True


class _Apart(_Part):
    """The code of a helper that is compiled by itself, beside its leaf."""

    def compile(self, symbol: str) -> None:
        self.finalize()
        self.apart[symbol] = apart.Part(self._final_module, self._codegen)


class _OnlyForLeaves(dict):
    """What stands in numba's tables for the function that Python would call; a call of it raises."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(LeanLowering):
    _name = "maxmargin_part_lowering"
    library: ClassVar[type] = _Part

    def run_pass(self, state) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = True  # here: overloads are compiled by flags
        super().run_pass(state)
        key = _OnlyForLeaves().__getitem__  # a built-in function, as numba wants it, that is equal to no other
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _AsideLowering(_PartLowering):
    _name = "maxmargin_aside_lowering"
    lower = AsideLower
    library = _Apart

    def run_pass(self, state) -> bool:
        super().run_pass(state)
        state.library.compile(state.cr.fndesc.mangled_name)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _SharedLowering(_AsideLowering):
    _name = "maxmargin_shared_lowering"
    lower = LeanLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _InlineLowering(_PartLowering):
    _name = "maxmargin_inline_lowering"
    lower = InlineLower


class PartCompiler(_LeafCompiler):
    own = _LeafCompiler.own | {NativeLowering: _PartLowering}


class _AsideCompiler(_LeafCompiler):
    own = _LeafCompiler.own | {NativeLowering: _AsideLowering}


class _SharedCompiler(_LeafCompiler):
    own = _LeafCompiler.own | {NativeLowering: _SharedLowering}


class _InlineCompiler(_LeafCompiler):
    own = _LeafCompiler.own | {NativeLowering: _InlineLowering}


_COMPILERS = {
    "jit": _LeafCompiler,
    "helper": PartCompiler,
    "reordered": PartCompiler,
    "aside": _AsideCompiler,
    "shared": _SharedCompiler,
    "inline": _InlineCompiler,
}
PART = {"fastmath": FASTMATH, "error_model": "numpy", "pipeline_class": PartCompiler}


def dispatcher(kind: str, function: Callable) -> Any:
    """numba's object for a function that was decorated; the kinds are the decorators."""
    if kind == "by_types":
        if numba.config.DISABLE_JIT:
            return lambda *args: function(*args)(*args)
        return overload(function, jit_options=PART)(function)
    fastmath = FASTMATH | {"reassoc"} if kind == "reordered" else FASTMATH
    made = numba.njit(function, fastmath=fastmath, **OPTIONS, pipeline_class=_COMPILERS[kind])
    if kind == "jit" and not numba.config.DISABLE_JIT:
        made._cache = LeafCache(function)
    return made


# Both are made now: numba holds a lock for that of which a fork knows nothing.
_typing, _target = cpu_target.typing_context, cpu_target.target_context


def type_of(value: Any) -> Any:
    """numba's type of a function that another one calls."""
    _typing.refresh()  # it may have been registered since
    return _typing.resolve_value_type(value)
