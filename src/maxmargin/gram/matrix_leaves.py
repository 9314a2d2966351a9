"""Compiled leaves that read a symmetric matrix where it lies: parts of rows copied once, products without a copy."""

from __future__ import annotations

import numpy as np

from .._jit import dot, jit

__all__ = ["asymmetry", "copy_rows", "row_products"]

TILE = 32  # rows and columns that are compared together: two such tiles stay in the nearest cache


@jit
def copy_rows(K, rows, columns, out, slots, start, stop):
    """out[slots_k] = K[rows_k, columns] for k from start to stop."""
    for k in range(start, stop):
        row, copy = K[rows[k]], out[slots[k]]
        for c in range(len(columns)):
            copy[c] = row[columns[c]]


@jit
def row_products(K, rows, x, out, start, stop):
    """out_k = K[rows_k] · x in float64 for k from start to stop."""
    for k in range(start, stop):
        out[k] = dot(K[rows[k]], x)


@jit
def asymmetry(K, first, last, start, stop, found):
    """``found`` = max |K_ij − K_ji|, max |K_ij|, also over rows first to last and columns start to stop."""
    worst, scale = found[0], found[1]
    for a in range(first, last, TILE):
        for b in range(start, stop, TILE):
            for i in range(a, min(a + TILE, last)):
                for j in range(b, min(b + TILE, stop)):
                    worst = max(worst, abs(np.float64(K[i, j]) - np.float64(K[j, i])))
                    scale = max(scale, abs(np.float64(K[i, j])))
    found[0] = worst
    found[1] = scale
