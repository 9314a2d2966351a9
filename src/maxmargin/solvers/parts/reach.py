"""What a solver can reach: in float64, and by pair steps in the time that another method takes.

Rounding. A slope (Hβ)_i + p_i is a sum whose terms are rounded, and |H_ij| ≤ √(H_ii H_jj), so that none is known to
better than

    u (√max H_ii · Σ_j √H_jj |β_j| + max |p_j|)                u = 2⁻⁵³

A violation of that size is no property of β: no solver makes it smaller but by chance, and none can tell that it has.

Patience. Where one method may take for ever and another takes a time that is known beforehand, whoever changes over
once the first has cost as much as the second will takes at most twice as long as the better of the two. Costs are
counted in *looks*: what a pair step does for one variable. A clock would make results depend on the machine.
"""

from __future__ import annotations

import numpy as np

from ...goal import Goal
from ...gram import Gram, as_gram
from ...problem import QP
from ...solution import Certificate

__all__ = [
    "FETCH_PASSES",
    "LOOKS_A_FETCH",
    "LOOKS_A_STEP",
    "LOOKS_A_VALUE",
    "ROUNDINGS",
    "out_of_reach",
    "pair_patience",
    "slope_rounding",
]

ROUNDINGS = 8.0  # in a violation: two slopes, of each of which terms, sums and the product with a factor are rounded

# Measured on AVX2, n from 60 to 3000: a look takes 3 ns, an iteration of the interior method 1 ms of calls and 0.06 ns
# for each product of its factorisation, of which there are 20 (10 to 22) on data that are not degenerate.
LOOKS_A_SOLUTION = 6_000_000
LOOKS_A_PRODUCT = 0.4
LOOKS_A_STEP = 64  # 0.2 µs: what a pair step takes however few variables there are
LOOKS_A_FETCH = 1 << 16  # 0.2 ms: what is chosen and called around the steps on a working set
FETCH_PASSES = 16  # 50 ns: what that takes for each variable
LOOKS_A_VALUE = 4  # 12 ns: a kernel value, of 3 (rbf, by products) to 35 (laplacian, 8 features)


def slope_rounding(diagonal: np.ndarray, p: np.ndarray, beta: np.ndarray) -> float:
    """How well the slopes of β can be known (see above)."""
    size = np.sqrt(np.maximum(diagonal, 0.0))
    largest = float(size.max(initial=0.0))
    return 0.5 * np.finfo(float).eps * (largest * float(np.abs(beta) @ size) + float(np.abs(p).max(initial=0.0)))


def out_of_reach(qp: QP, goal: Goal, beta: np.ndarray, found: Certificate) -> bool:
    """Whether a violation that is asked for is missed by what rounding explains, so that no solver gets further."""
    if not goal.violation < found.violation:
        return False
    return found.violation <= ROUNDINGS * slope_rounding(as_gram(qp.H).diag(), qp.p, beta)


def pair_patience(gram: Gram, n: np.ndarray | int, rank: int | None = None) -> np.ndarray:
    """Pair steps a variable that cost what the interior method does, for problems of n variables of this matrix.

    ``rank``: that of a factor which would stand for the matrix.
    """
    n = np.maximum(1.0, np.asarray(n, np.float64))
    products = (n * (gram.n_points / max(1, gram.n))) ** 3 / 3  # a row a point (paired_system.py)
    factor = gram.factor()
    if rank is not None:
        products = n * rank**2 / 2 + rank**3 / 3
    elif factor is not None:  # normal equations, unless there are more features than variables (newton_systems.py)
        rows = factor.rows
        products = np.where(rows.d <= n, n * (rows.work / max(1, rows.n)) ** 2 / 2 + rows.d**3 / 3, products)
    return (LOOKS_A_SOLUTION + LOOKS_A_PRODUCT * products) / (n * np.maximum(n, LOOKS_A_STEP))
