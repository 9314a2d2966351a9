"""How Python calls a leaf: its arguments become numbers and descriptions of arrays, the GIL is released.

numba checks each array by itself and counts references to it, some sixty instructions for each, which are half of
what there is to compile in a small leaf. Here arrays are checked together, and the caller holds on to them: a leaf
that takes arrays and returns none needs no counts.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir as llvm
from numba.core import cgutils
from numba.core.callwrapper import PyCallWrapper

__all__ = ["Builder", "Call", "takes"]


class Builder(llvm.IRBuilder):
    """Writes instructions, but none to take out of a structure what was put into it before."""

    def extract_value(self, agg, idx, name="") -> Any:
        wanted = [idx] if isinstance(idx, int) else list(idx)
        while isinstance(agg, llvm.instructions.InsertValue):
            put = list(agg.indices)
            if wanted[: len(put)] == put:
                agg, wanted = agg.value, wanted[len(put) :]
                if not wanted:
                    return agg
            elif put[: len(wanted)] == wanted:  # only a part of it was put there
                break
            else:
                agg = agg.aggregate
        return super().extract_value(agg, wanted, name)


def takes(kind) -> bool:
    """Whether arguments of a type are passed in this way."""
    if isinstance(kind, numba.types.BaseTuple):
        return all(takes(part) for part in kind)
    simple = (numba.types.Array, numba.types.Integer, numba.types.Float, numba.types.Boolean, numba.types.NoneType)
    return isinstance(kind, simple)


class Call(PyCallWrapper):
    def build_wrapper(self, api, builder, closure, args, kws) -> None:
        builder.__class__ = Builder
        kinds = self.fndesc.argtypes
        places = [api.alloca_obj() for _ in kinds]
        complete = api.unpack_tuple(args, self.fndesc.qualname, len(kinds), len(kinds), *places)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", complete, complete.type(0))):
            builder.ret(api.get_null_object())
        environment = self.get_env(api, builder)
        wrong: list = []  # what is not 0 if an array is not one
        values = [
            self._value(api, builder, kind, builder.load(p), wrong) for kind, p in zip(kinds, places, strict=True)
        ]
        if wrong:
            some = wrong[0]
            for code in wrong[1:]:
                some = builder.or_(some, code)
            with cgutils.if_unlikely(builder, builder.icmp_signed("!=", some, some.type(0))):
                api.err_set_string("PyExc_TypeError", "an array was asked for; found an object of another type")
                builder.ret(api.get_null_object())

        thread = api.save_thread() if self.release_gil else None
        convention = self.context.call_conv
        status, result = convention.call_function(
            builder, self.func, self.fndesc.restype, kinds, values, attrs=("noinline",)
        )
        if thread is not None:
            api.restore_thread(thread)
        with builder.if_then(status.is_ok, likely=True):
            with builder.if_then(status.is_none):
                api.return_none()
            builder.ret(api.from_native_return(self._simplified_return_type(), result, environment))
        convention.raise_error(builder, api, status)
        builder.ret(api.get_null_object())

    def _value(self, api, builder, kind, found, wrong: list) -> Any:
        """The value of an object, whose type numba has looked at to choose this leaf."""
        if isinstance(kind, numba.types.Array):
            place = cgutils.alloca_once(builder, self.context.get_value_type(kind))
            wrong.append(api.numba_array_adaptor(found, builder.bitcast(place, api.voidptr)))
            return builder.load(place)
        if isinstance(kind, numba.types.BaseTuple):
            parts = [self._value(api, builder, part, api.tuple_getitem(found, k), wrong) for k, part in enumerate(kind)]
            return self.context.make_tuple(builder, kind, parts)
        native = api.to_native_value(kind, found)
        with cgutils.if_unlikely(builder, native.is_error):
            builder.ret(api.get_null_object())
        return native.value
