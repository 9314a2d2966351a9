"""Compiled leaves on a matrix where it lies: parts of rows copied once, products without a copy, rows normalised."""

from __future__ import annotations

import numpy as np

from .._jit import dot, four_dots, jit

__all__ = ["asymmetry", "copy_rows", "normalise_rows", "panel_product", "row_products"]

STRETCH = 1024  # columns of a row that are added up in the precision of the matrix
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


@jit
def panel_product(panel, x, out):
    """out += the part of a symmetric matrix times x that its last rows, up to the diagonal, stand for.

    They stand for the last columns above them as well. Four rows are read once for both, which takes little longer
    than reading them.
    """
    q, n = panel.shape
    start = n - q
    above, rest, last = np.zeros(start, panel.dtype), np.zeros(q, panel.dtype), x[start:]
    whole = q - q % 4
    for i in range(0, whole, 4):
        c0, c1, c2, c3 = last[i], last[i + 1], last[i + 2], last[i + 3]
        a = 0
        while a < n:
            b = min(a + STRETCH, start) if a < start else n
            total = above[a:b] if a < start else rest
            s0, s1, s2, s3 = four_dots(
                panel[i, a:b], panel[i + 1, a:b], panel[i + 2, a:b], panel[i + 3, a:b], x[a:b], total, c0, c1, c2, c3
            )
            out[start + i] += s0
            out[start + i + 1] += s1
            out[start + i + 2] += s2
            out[start + i + 3] += s3
            a = b
    for i in range(whole, q):  # what is left of four
        out[start + i] += dot(panel[i], x)
        for j in range(start):
            above[j] += last[i] * panel[i, j]
    for j in range(start):
        out[j] += above[j]


@jit
def normalise_rows(T, weight, root, total, constant, mean, scale, size):
    """Rows of T with weighted mean 0, times √ω, with norm 1, in place; their means, factors and squared norms before.

    Of a row that is constant but for such a share of its norm nothing is left. Where a norm is no number, nor is what
    becomes of its row.
    """
    for j in range(len(T)):
        row = T[j]
        middle = dot(row, weight) / total
        for k in range(len(row)):
            row[k] = (row[k] - middle) * root[k]
        squares = dot(row, row)
        mean[j], size[j], scale[j] = middle, squares + total * middle * middle, 0.0
        if squares > constant * constant * size[j]:
            scale[j] = 1.0 / np.sqrt(squares)
        for k in range(len(row)):
            row[k] *= scale[j]
