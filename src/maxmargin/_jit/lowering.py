"""How a leaf becomes LLVM's code: numba's way, but shorter for the few things that leaves do all the time.

numba writes some thirty instructions for each entry of an array: it copies the array's description, wraps a negative
index round, and counts who refers to the array. LLVM takes most of that out again, and both take time. Here

- an entry of an array, its length, a sum or comparison of two numbers, the smaller of them and the next number of a
  range are a few instructions;
- an index that is not a constant is never negative;
- a variable that is assigned once is no place in memory;
- references are counted only where something is allocated: a caller holds on to what it passes;
- np.empty is written in place: numba would compile a function for each type and number of dimensions.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite import ir as llvm
from numba.core import ir, typing
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites

from .calls import Builder, Call, takes

__all__ = ["AsideLower", "InlineLower", "LeanLegalization", "LeanLower", "LeanLowering", "LeanRewrites", "signature_of"]

_Array, _Integer, _Tuple = numba.types.Array, numba.types.Integer, numba.types.BaseTuple
_Number = (numba.types.Integer, numba.types.Float)
_INSTRUCTIONS = {  # of integers, and of floating-point numbers
    operator.add: ("add", "fadd"),
    operator.sub: ("sub", "fsub"),
    operator.mul: ("mul", "fmul"),
    operator.truediv: (None, "fdiv"),
}
_COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_VIEWS = ("getitem", "static_getitem", "getattr", "exhaust_iter", "build_tuple", "cast", "pair_first", "phi", "undef")


def signature_of(function, args: tuple) -> Any:
    """The signature of a call that is written in place; None if it is not one of those."""
    return _comparison(function, args) or _allocation(function, args)


def _comparison(function, args: tuple) -> Any:
    """min or max of numbers of one type."""
    if function not in (min, max) or len(args) < 2:
        return None
    kinds = {numba.types.unliteral(a) for a in args}
    kind = kinds.pop()
    return None if kinds or not isinstance(kind, _Number) else typing.signature(kind, *[kind] * len(args))


def _allocation(function, args: tuple) -> Any:
    """np.empty of one number or a tuple of them, and perhaps a type."""
    if function is not np.empty or not 1 <= len(args) <= 2:
        return None
    kinds = list(args[0]) if isinstance(args[0], _Tuple) else [args[0]]
    if not all(isinstance(kind, _Integer) for kind in kinds):
        return None
    dtype = numba.types.float64
    if len(args) == 2:
        if not isinstance(args[1], (numba.types.NumberClass, numba.types.DType)):
            return None
        dtype = args[1].dtype
    return typing.signature(_Array(dtype, len(kinds), "C"), *args)


def _whole_index(index) -> list | None:
    """The types of the indices of one entry or row; None if there are others, or a constant below 0."""
    kinds = list(index) if isinstance(index, _Tuple) else [index]
    for kind in kinds:
        if not isinstance(kind, _Integer) or getattr(kind, "literal_value", 0) < 0:
            return None
    return kinds


class _Counts(NRTContext):
    """Counts of references, by which alone a description is asked for its memory: not all of it is unpacked."""

    def get_meminfos(self, builder, ty, val) -> list:
        if not _refers(self._context, ty):
            return []
        if isinstance(ty, _Array):
            place = self._context.data_model_manager[ty].get_field_position("meminfo")
            return [(ty, builder.extract_value(val, place))]
        if isinstance(ty, _Tuple):
            parts = [(kind, k) for k, kind in enumerate(ty) if _refers(self._context, kind)]
            return [one for kind, k in parts for one in self.get_meminfos(builder, kind, builder.extract_value(val, k))]
        return super().get_meminfos(builder, ty, val)


class LeanLower(Lower):
    def setup_function(self, fndesc) -> None:
        super().setup_function(fndesc)
        self.builder.__class__ = Builder

    def create_cpython_wrapper(self, release_gil=False) -> None:
        fndesc = self.fndesc
        if self.genlower or _refers(self.context, fndesc.restype) or not all(map(takes, fndesc.argtypes)):
            super().create_cpython_wrapper(release_gil)
            return
        context = self.context.subtarget(enable_nrt=False)
        module = context.create_module("wrapper")
        leaf = llvm.Function(
            module, context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes), fndesc.llvm_func_name
        )
        Call(context, module, leaf, fndesc, self.env, self.call_helper, release_gil).build()
        self.library.add_ir_module(module)

    def _find_singly_assigned_variable(self) -> None:
        """The variables with one assignment, which comes before each of their uses on every way through the code.

        One that counts references has all its uses in the same block.
        """
        self._blk_local_varmap: dict[str, Any] = {}
        self._singly_assigned_vars: set[str] = set()
        blocks = self.func_ir.blocks
        if self._disable_sroa_like_opt:
            return
        defined: dict[str, list] = {}
        for label, block in blocks.items():
            for inst in block.find_insts(ir.Assign):
                defined.setdefault(inst.target.name, []).append(label)
        used: dict[str, set] = {}
        for label, names in compute_use_defs(blocks).usemap.items():
            for name in names:
                used.setdefault(name, set()).add(label)
        for label, block in blocks.items():
            for inst in block.find_insts(ir.Del):
                used.setdefault(inst.value, set()).add(label)
        dominators = compute_cfg_from_blocks(blocks).dominators()
        for name, (label, *more) in defined.items():
            if not more and all(
                label == where
                # Blocks are written in the order of their labels.
                or (label < where and label in dominators[where] and not self._counted(self.typeof(name)))
                for where in used.get(name, ())
            ):
                self._singly_assigned_vars.add(name)

    def _counted(self, kind) -> bool:
        return self.context.enable_nrt and _refers(self.context, kind)

    def lower_block(self, block) -> None:
        """Without numba's context of an error for each instruction: if there is one, numba compiles all anew."""
        self.pre_block(block)
        for inst in block.body:
            self.loc = inst.loc
            if isinstance(inst, ir.Assign):
                kind = self.typeof(inst.target.name)
                argidx = inst.value.index + 1 if isinstance(inst.value, ir.Arg) else None
                self.storevar(self.lower_assign(kind, inst), inst.target.name, argidx=argidx)
            else:
                self.lower_inst(inst)
        self.post_block(block)

    def storevar(self, value, name, argidx=None) -> None:
        if name in self._singly_assigned_vars or argidx is not None or self._counted(self.typeof(name)):
            super().storevar(value, name, argidx=argidx)
        else:  # nothing to give back
            self.builder.store(value, self.getvar(name))

    def delvar(self, name) -> None:
        if self._counted(self.typeof(name)):
            super().delvar(name)

    def _field(self, var, name: str) -> Any:
        """A part of the description of an array."""
        place = self.context.data_model_manager[self.typeof(var.name)].get_field_position(name)
        if var.name in self._blk_local_varmap:
            return self.builder.extract_value(self._blk_local_varmap[var.name], place)
        word = llvm.IntType(32)
        return self.builder.load(self.builder.gep(self.getvar(var.name), [word(0), word(place)], inbounds=True))

    def _indices(self, var, kinds: list) -> list:
        value = self.loadvar(var.name)
        values = [value]
        if isinstance(self.typeof(var.name), _Tuple):
            values = [self.builder.extract_value(value, k) for k in range(len(kinds))]
        return [self.context.cast(self.builder, v, k, numba.types.intp) for v, k in zip(values, kinds, strict=True)]

    def _place(self, var, index_var) -> Any:
        """Where an entry (or, with one index of two, a row) of a contiguous array lies; None if it is not that."""
        kind = self.typeof(var.name)
        if not (isinstance(kind, _Array) and kind.layout == "C" and kind.aligned):
            return None
        if not isinstance(kind.dtype, (*_Number, numba.types.Boolean)):
            return None
        kinds = _whole_index(self.typeof(index_var.name))
        if kinds is None or not (len(kinds) == kind.ndim or (len(kinds), kind.ndim) == (1, 2)):
            return None
        indices = self._indices(index_var, kinds)
        offset = indices[0]
        for axis in range(1, kind.ndim):
            length = self.builder.extract_value(self._field(var, "shape"), axis)
            offset = self.builder.mul(offset, length, flags=("nsw",))
            if axis < len(indices):
                offset = self.builder.add(offset, indices[axis], flags=("nsw",))
        place = self.builder.gep(self._field(var, "data"), [offset], inbounds=True)
        return place, kind, len(indices) == kind.ndim

    def lower_getitem(self, resty, expr, value, index, signature):
        found = self._place(value, index) if index is not None else None
        if found is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        place, kind, entry = found
        if entry:
            item = self.context.unpack_value(self.builder, kind.dtype, place)
            return self.context.cast(self.builder, item, kind.dtype, resty)
        assert isinstance(resty, _Array)
        assert resty.layout == "C"
        shape, strides = self._field(value, "shape"), self._field(value, "strides")
        parts = {
            "meminfo": self._field(value, "meminfo"),
            "parent": self._field(value, "parent"),
            "nitems": self.builder.extract_value(shape, 1),
            "itemsize": self._field(value, "itemsize"),
            "data": place,
        }
        model = self.context.data_model_manager[resty]
        row = llvm.Constant(model.get_value_type(), llvm.Undefined)
        for name, part in parts.items():
            row = self.builder.insert_value(row, part, model.get_field_position(name))
        for name, both in {"shape": shape, "strides": strides}.items():
            last = self.builder.extract_value(both, 1)
            row = self.builder.insert_value(row, last, [model.get_field_position(name), 0])
        self.incref(resty, row)
        return row

    def lower_setitem(self, target_var, index_var, value_var, signature):
        found = self._place(target_var, index_var)
        if (
            found is None
            or not found[2]
            or not isinstance(self.typeof(value_var.name), (*_Number, numba.types.Boolean))
        ):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        place, kind, _ = found
        value = self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, self.typeof(value_var.name), kind.dtype)
        self.context.pack_value(self.builder, kind.dtype, value, place)
        return None

    def _lower_call_normal(self, fnty, expr, signature):
        function = getattr(fnty, "typing_key", None)
        if not expr.kws and not expr.vararg:
            if (kinds := _comparison(function, signature.args)) is not None:
                return self._extreme(function, kinds.return_type, expr.args)
            if (made := _allocation(function, signature.args)) is not None:
                kinds = _whole_index(signature.args[0]) or ()
                return self._new_array(made.return_type, self._indices(expr.args[0], kinds))
            if function is len and isinstance(self.typeof(expr.args[0].name), _Array):
                return self.builder.extract_value(self._field(expr.args[0], "shape"), 0)
        return super()._lower_call_normal(fnty, expr, signature)

    def _new_array(self, kind, lengths: list) -> Any:
        """An array of any numbers; what no machine has the memory for raises MemoryError."""
        model, word = self.context.data_model_manager[kind], lengths[0].type
        strides = [word(self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype)))]
        for length in reversed(lengths):
            strides.insert(0, self.builder.mul(length, strides[0], flags=("nsw",)))
        count = lengths[0]
        for length in lengths[1:]:
            count = self.builder.mul(count, length, flags=("nsw",))
        align = self.context.get_preferred_array_alignment(kind.dtype)
        memory = self.context.nrt.meminfo_alloc_aligned(self.builder, strides[0], align)
        data = self.context.nrt.meminfo_data(self.builder, memory)
        whole = {
            "meminfo": memory,
            "parent": llvm.Constant(model.get_value_type().elements[model.get_field_position("parent")], None),
            "nitems": count,
            "itemsize": strides[-1],
            "data": self.builder.bitcast(data, self.context.get_data_type(kind.dtype).as_pointer()),
        }
        array = llvm.Constant(model.get_value_type(), llvm.Undefined)
        for name, part in whole.items():
            array = self.builder.insert_value(array, part, model.get_field_position(name))
        for name, parts in {"shape": lengths, "strides": strides[1:]}.items():
            for axis, part in enumerate(parts):
                array = self.builder.insert_value(array, part, [model.get_field_position(name), axis])
        return array

    def _extreme(self, function, kind, args) -> Any:
        """The smallest or largest of numbers of one type.

        The choice is told what the comparison is told: only then does LLVM find the extreme of many with vectors.
        """
        best, *rest = (self._cast_var(a, kind) for a in args)
        sign = "<" if function is min else ">"
        real = isinstance(kind, numba.types.Float)
        told = tuple(sorted(self.flags.fastmath.flags)) if real and self.flags.fastmath else ()
        for value in rest:
            if real:
                better = self.builder.fcmp_ordered(sign, value, best)
            else:
                better = (self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned)(sign, value, best)
            best = self.builder.select(better, value, best, flags=told)
        return best

    def lower_binop(self, resty, expr, op):
        """Numbers of one type are computed with and compared in place: numba would look for a signature once more."""
        signature = self.fndesc.calltypes[expr]
        left, right = (numba.types.unliteral(kind) for kind in signature.args)
        real = isinstance(left, numba.types.Float)
        instruction = _INSTRUCTIONS.get(op, (None, None))[real]
        if left != right or not (real or isinstance(left, _Integer)) or not (instruction or op in _COMPARISONS):
            return super().lower_binop(resty, expr, op)
        values = [self._cast_var(var, left) for var in (expr.lhs, expr.rhs)]
        if instruction:
            value = getattr(self.builder, instruction)(*values)
        elif not real:
            compare = self.builder.icmp_signed if left.signed else self.builder.icmp_unsigned
            value = compare(_COMPARISONS[op], *values)
        else:
            compare = self.builder.fcmp_unordered if op is operator.ne else self.builder.fcmp_ordered
            value = compare(_COMPARISONS[op], *values)
        return self.context.cast(self.builder, value, signature.return_type, resty)

    def lower_expr(self, resty, expr):
        if expr.op == "getiter" and isinstance(self.typeof(expr.value.name), numba.types.RangeType):
            return self._range_iterator(resty, self.loadvar(expr.value.name))
        if expr.op == "iternext" and isinstance(self.typeof(expr.value.name), numba.types.RangeIteratorType):
            return self._next_of_range(resty, self.loadvar(expr.value.name))
        if expr.op == "getattr" and expr.attr == "shape" and isinstance(self.typeof(expr.value.name), _Array):
            return self._field(expr.value, "shape")
        if expr.op in ("pair_first", "pair_second") and not _refers(self.context, resty):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _range_iterator(self, resty, state) -> Any:
        model = self.context.data_model_manager[resty]
        start, stop, step = (self.builder.extract_value(state, k) for k in range(3))
        at = self.alloca_lltype("$at", start.type)
        self.builder.store(start, at)
        iterator = llvm.Constant(model.get_value_type(), llvm.Undefined)
        for name, part in {"iter": at, "stop": stop, "step": step}.items():
            iterator = self.builder.insert_value(iterator, part, model.get_field_position(name))
        return iterator

    def _next_of_range(self, resty, iterator) -> Any:
        """Whether there is one more number, and it."""
        model = self.context.data_model_manager[numba.types.RangeIteratorType(resty.first_type)]
        at, stop, step = (
            self.builder.extract_value(iterator, model.get_field_position(name)) for name in ("iter", "stop", "step")
        )
        now = self.builder.load(at)
        up = self.builder.icmp_signed(">", step, step.type(0))
        below, above = (self.builder.icmp_signed(sign, now, stop) for sign in "<>")
        valid = self.builder.select(up, below, above)
        self.builder.store(self.builder.add(now, step, flags=("nsw",)), at)
        pair = llvm.Constant(self.context.data_model_manager[resty].get_value_type(), llvm.Undefined)
        pair = self.builder.insert_value(pair, now, 0)
        return self.builder.insert_value(pair, valid, 1)


_REFERS: dict = {}  # type → whether it refers to memory that is counted


def _refers(context, kind) -> bool:
    if kind not in _REFERS:
        _REFERS[kind] = context.data_model_manager[kind].contains_nrt_meminfo()
    return _REFERS[kind]


def _allocates(state) -> bool:
    """Whether a function makes an array, or returns one: then references to arrays are counted."""

    def refers(kind) -> bool:
        return _refers(state.targetctx, kind)

    def view(value) -> bool:
        if not isinstance(value, ir.Expr):
            return True  # an argument, another variable, a constant
        if value.op == "call":
            kind = state.typemap[value.func.name]
            return isinstance(kind, numba.types.NamedTupleClass)
        if value.op == "getitem" and isinstance(state.typemap[value.value.name], _Array):
            index = state.typemap[value.index.name]
            kinds = list(index) if isinstance(index, _Tuple) else [index]
            return all(isinstance(kind, (_Integer, numba.types.SliceType)) for kind in kinds)
        return value.op in _VIEWS

    if refers(state.return_type):
        return True
    return any(
        refers(state.typemap[inst.target.name]) and not view(inst.value)
        for block in state.func_ir.blocks.values()
        for inst in block.find_insts(ir.Assign)
    )


def _computes_arrays(state) -> bool:
    """Whether there are expressions of whole arrays, which numba turns into loops."""

    def expression(value) -> bool:
        if not isinstance(value, ir.Expr):
            return False
        if value.op == "call":
            return isinstance(getattr(state.typemap[value.func.name], "typing_key", None), np.ufunc)
        return value.op in ("binop", "inplace_binop", "unary")

    return any(
        isinstance(state.typemap[inst.target.name], _Array) and expression(inst.value)
        for block in state.func_ir.blocks.values()
        for inst in block.find_insts(ir.Assign)
    )


class AsideLower(LeanLower):
    def setup_function(self, fndesc) -> None:
        super().setup_function(fndesc)
        self.function.attributes.add("noinline")
        self.function.attributes.add("optsize")


class InlineLower(LeanLower):
    def setup_function(self, fndesc) -> None:
        super().setup_function(fndesc)
        self.function.attributes.add("alwaysinline")


class LeanRewrites(NopythonRewrites):
    """Expressions of arrays become loops, where there are any."""

    def run_pass(self, state) -> bool:
        return super().run_pass(state) if _computes_arrays(state) else False


class LeanLegalization(IRLegalization):
    """The ends of variables are found, where references are counted."""

    def run_pass(self, state) -> bool:
        return super().run_pass(state) if _allocates(state) else False


class LeanLowering(NativeLowering):
    """The pass of numba's compiler that does it."""

    lower: ClassVar[type] = LeanLower

    @property
    def lowering_class(self):
        return self.lower

    def run_pass(self, state) -> bool:
        context = state.targetctx
        try:
            counts = _allocates(state)
            state.targetctx = (
                context.subtarget(nrt=_Counts(context, True)) if counts else context.subtarget(enable_nrt=False)
            )
            return super().run_pass(state)
        finally:
            state.targetctx = context
