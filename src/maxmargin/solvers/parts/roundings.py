"""What rounding does to numbers of 53 bits, by how far they have come since they were rounded first.

All are shares, of the largest term, entry or singular value at hand; a unit in the last place is 2.2e-16. Ten times
more or less changes next to nothing (benchmarks/constants.py), so that one number serves all who need it;
leaves read them, too.
"""

from __future__ import annotations

__all__ = ["ROUNDED_SOLUTION", "ROUNDED_SUM", "ROUNDED_VALUE", "SINGULAR", "UNSOLVED"]

ROUNDED_VALUE = 1e-15  # of a number that was computed once: a smaller change of it is none
ROUNDED_SUM = 1e-14  # of the terms of a sum, of entries of a matrix, or of singular values: what is smaller may be 0
ROUNDED_SOLUTION = 1e-12  # of what systems or many steps have led to: a smaller slope, curvature or distance is none
UNSOLVED = 1e-9  # of the terms of an equation that a step should solve: where more is missing, it did not
SINGULAR = 1e-6  # of the largest pivot of a Cholesky factor: with a smaller one 12 of 16 digits are lost
