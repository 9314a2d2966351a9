"""Rows of H for one small problem at a time, loaded from the matrix that many problems share (small_leaves.py)."""

from __future__ import annotations

from ..._jit import aside, helper

__all__ = ["add_row", "load_row", "times"]


@aside
def load_row(i, K, where, ridge, sign, slab, slot):
    """Row i of H, if it is not there yet, in the place of the same number; where[r] is the row of variable r in K."""
    if slot[i] >= 0:
        return
    source = K[where[i]]
    row = slab[i]
    for c in range(len(where)):
        row[c] = source[where[c]]
    if len(sign) > 0:
        for c in range(len(where)):
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
def times(x, K, where, ridge, sign, slab, slot, product):
    """product = Hx."""
    n = len(x)
    for c in range(n):
        product[c] = 0.0
    for r in range(n):
        if x[r] != 0.0:
            load_row(r, K, where, ridge, sign, slab, slot)
            add_row(x[r], slab[r], product)
