"""Products with parts of one matrix: a kernel value that several parts need is computed once.

Pairs of classes are such parts. A class meets k − 1 others, and the kernel values between points of its own are needed
in each of these pairs: half of what they multiply.
"""

from __future__ import annotations

import numpy as np

from .. import threads as th
from .base import EXACT_BYTES
from .distance import weigh
from .kernel_gram import KernelGram

__all__ = ["products_of_parts"]


def products_of_parts(
    gram: KernelGram, parts: list[np.ndarray], vectors: list[np.ndarray], threads: int = 1
) -> list[np.ndarray]:
    """K[part, part] v for each part, which is given by numbers of points, and its vector.

    Points that are in the same parts make a cell. Of two cells those kernel values are computed that one of their parts
    needs, and multiplied with the vectors of all of these. Threads share the cells, and change no digit.
    """
    cell = _cells(gram.n, parts)
    points = [np.flatnonzero(cell == c) for c in range(int(cell.max(initial=-1)) + 1)]
    place = np.empty(gram.n, np.int64)  # of a point in its cell
    for own in points:
        place[own] = np.arange(len(own))
    members = [[np.flatnonzero(cell[part] == c) for c in range(len(points))] for part in parts]
    out = [np.zeros(len(part)) for part in parts]

    def multiply(c: int) -> None:
        """The products at the points of a cell."""
        here = [p for p in range(len(parts)) if len(members[p][c])]
        right = gram.exact.take(points[c])
        for other in range(len(points)):
            both = [p for p in here if len(members[p][other])]
            coef = np.zeros((len(points[other]), len(both)))
            for column, p in enumerate(both):
                inside = members[p][other]
                coef[place[parts[p][inside]], column] = vectors[p][inside]
            used = np.flatnonzero(coef.any(axis=1))
            if not len(used):
                continue
            left = gram.exact.take(points[other][used]).astype(np.float64)
            with gram.cost.timed(left.n * right.n, EXACT_BYTES):
                found = weigh(gram.kernel, left, coef[used], right)
            for column, p in enumerate(both):
                inside = members[p][c]
                out[p][inside] += found[place[parts[p][inside]], column]

    def multiply_some(first: int, last: int) -> None:
        for c in range(first, last):
            multiply(c)

    th.spread(multiply_some, len(points), threads, grain=1, align=1)
    return out


def _cells(n: int, parts: list[np.ndarray]) -> np.ndarray:
    """The number of the cell of each of n points, or −1 for those of no part."""
    cell, count = np.zeros(n, np.int64), 1
    for part in parts:  # what a cell has in it becomes a cell
        split = np.zeros(count, bool)
        split[cell[part]] = True
        cell[part] = (count - 1 + np.cumsum(split))[cell[part]]
        count += int(split.sum())
    there = np.zeros(count, bool)
    there[cell] = True
    there[0] = False
    return np.where(cell == 0, -1, np.cumsum(there)[cell] - 1)
