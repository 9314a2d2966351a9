"""The functions of :mod:`maxmargin._jit.functions` as LLVM's instructions."""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .compiler import PART
from .functions import ROW_WIDTH, fast_exp, prefetch, row_dot, row_product

__all__: list[str] = []


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


@overload(prefetch, jit_options=PART)
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


@overload(fast_exp, jit_options=PART)
def _specialise_fast_exp(x):
    return _fast_exp32 if x == numba.types.float32 else _fast_exp64


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


@overload(row_dot, jit_options=PART)
def _specialise_row_dot(weights, a):
    def compiled(weights, a):
        return _row_dot(weights, a)

    return compiled


@overload(row_product, jit_options=PART)
def _specialise_row_product(a, positions, values, start, stop, block):
    def compiled(a, positions, values, start, stop, block):
        _row_product(a, positions, values, start, stop, block)

    return compiled
