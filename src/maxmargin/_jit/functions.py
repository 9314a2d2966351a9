"""What leaves call that numba does not have, or not as fast: sums, exponentials, rows of a block, prefetching.

Here they are as Python has them; :mod:`maxmargin._jit.intrinsics` tells numba what to make of some of them.
"""

from __future__ import annotations

import numpy as np

from .leaf import reordered

__all__ = ["ROW_WIDTH", "dot", "fast_exp", "four_dots", "prefetch", "row_dot", "row_product"]


@reordered
def dot(x, w):
    """Σ x_k w_k in float64."""
    total = 0.0
    for k in range(len(x)):
        total += x[k] * w[k]
    return total


@reordered
def four_dots(r0, r1, r2, r3, w, total, c0, c1, c2, c3):
    """Σ r_k w_k of four rows in their own precision, with total += c_0 r_0 + … + c_3 r_3 while they are at hand."""
    s0 = s1 = s2 = s3 = c0 - c0
    for k in range(len(w)):
        s0 += r0[k] * w[k]
        s1 += r1[k] * w[k]
        s2 += r2[k] * w[k]
        s3 += r3[k] * w[k]
        total[k] += c0 * r0[k] + c1 * r1[k] + c2 * r2[k] + c3 * r3[k]
    return s0, s1, s2, s3


def prefetch(a, k):
    """Ask the memory for the k-th entry of a (counted in the order of memory), which will be needed soon."""


def fast_exp(x):
    """exp(x) for leaves: a polynomial on the reduced argument, which LLVM turns into vector code.

    The scalar library call that numba would use costs ten times as much. Accurate to 2 units in the last
    place; arguments outside the normal range are clipped to it.
    """
    return np.exp(x)


ROW_WIDTH = 64  # columns of a block that row_product handles: 8 AVX registers of float32, twice 8 of float64


def row_product(a, positions, values, start, stop, block):
    """a[:] = Σ_s values[s] block[positions[s]] for s in start..stop; a and the rows of block have ROW_WIDTH columns."""
    a[:] = values[start:stop] @ block[positions[start:stop]]


def row_dot(weights, a):
    """Σ_k weights[k] a[k] over ROW_WIDTH entries, in float64."""
    return float(weights @ a.astype(np.float64))
