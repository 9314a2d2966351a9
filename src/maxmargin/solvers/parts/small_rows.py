"""Rows of H for one small problem at a time (small_leaves.py).

They are loaded from a matrix that many problems share, or made from the problem's own points when a step asks for them.
"""

from __future__ import annotations

import numpy as np

from ..._jit import aside, by_types, helper
from ...gram.columns import Columns, kernel_row

__all__ = ["add_row", "load_row", "source_of", "times"]


@by_types
def source_of(K, where):
    """What rows of a problem come from, whose variable r is the point where[r] of K: a matrix, or points by feature."""

    def shared(K, where):
        return K, where

    def own(K, where):
        values = np.empty((len(K.values), len(where)), K.values.dtype)
        norms = np.empty(len(where), K.norms.dtype)
        for r in range(len(where)):
            norms[r] = K.norms[where[r]]
        for f in range(len(values)):
            for r in range(len(where)):
                values[f, r] = K.values[f, where[r]]
        return Columns(values, norms, K.kernel)

    return shared if hasattr(K, "ndim") else own


@by_types
def _fill(i, source, row):
    """Row i of the matrix on a problem's points."""

    def copied(i, source, row):
        K, where = source
        entries = K[where[i]]
        for c in range(len(where)):
            row[c] = entries[where[c]]

    def made(i, source, row):
        kernel_row(i, source, row)

    return copied if len(source) == 2 else made


@aside
def load_row(i, source, ridge, sign, slab, slot):
    """Row i of H, if it is not there yet, in the place of the same number."""
    if slot[i] >= 0:
        return
    row = slab[i]
    _fill(i, source, row)
    if len(sign) > 0:
        for c in range(len(row)):
            row[c] *= sign[i] * sign[c]
    if len(ridge) > 0:
        row[i] += ridge[i]
    slot[i] = i


@helper
def add_row(change, row, to):
    """to += change row."""
    for c in range(len(to)):
        to[c] += change * row[c]


@helper
def times(x, source, ridge, sign, slab, slot, product):
    """product = Hx."""
    n = len(x)
    for c in range(n):
        product[c] = 0.0
    for r in range(n):
        if x[r] != 0.0:
            load_row(r, source, ridge, sign, slab, slot)
            add_row(x[r], slab[r], product)
