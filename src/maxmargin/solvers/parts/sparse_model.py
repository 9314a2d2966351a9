"""A quadratic model with few curved rows and many sparse columns, whose matrix is never formed.

    min  gᵀ(x − x₀) + ½ ‖A(x − x₀)‖² + ½ ρ ‖x − x₀‖² + Σ ε_j |x_j|

    repeat
        for each j:  x_j <- its minimum, all others being held                              (some sweeps)
        conjugate gradients on the columns that are not 0, each on its side of 0; columns that would cross it stay there
        and they begin again without these
    until no column violates its conditions by more than the tolerance

A sweep and a step of conjugate gradients cost a look at each entry of A, or two. Sweeps tell which columns are 0;
where columns are nearly the same, as counts of words are, they need ten times as many looks to settle the others.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..._jit import inline, jit
from ...monitor import Monitor
from .limits import LOOK_WORK, PASSES

__all__ = ["SWEEPS", "SparseModel", "conjugate_steps", "loss_sweeps"]

SWEEPS = 3  # over sparse columns before they are moved together
SPARSE_STEP = 4  # entries of a matrix that a step on it looks at in the time of one entry of a sparse column
ENOUGH = 0.01  # of the decrease that a step on one weight promises (Yuan et al.)
BEYOND = 0.3  # of the decrease up to the first column that comes to 0, which a step beyond it must bring
TRIALS = 20  # lengths of such a step, the last of them 0


class SparseModel:
    """The model around x, where its slope is g; A is √curve · Z."""

    def __init__(self, Z: sp.csc_array, curve: np.ndarray) -> None:
        root = np.sqrt(curve)
        self.columns = curved_columns(Z.indptr, Z.indices, Z.data, root)
        self.rows = int(np.count_nonzero(root))
        self.square = squares(*self.columns)

    @property
    def suits(self) -> bool:
        """Whether a step on a column is so much cheaper than one on a matrix that no Newton step makes up for it."""
        return SPARSE_STEP * len(self.columns[2]) < len(self.square) ** 2

    def least(
        self, x: np.ndarray, g: np.ndarray, eps: np.ndarray, ridge: float, tolerance: float, monitor: Monitor
    ) -> np.ndarray:
        """Where no column violates its conditions by more than the tolerance, or the last point before a stop."""
        self.x0, self.g, self.eps, self.ridge = x, g, eps, ridge
        self.beta, self.v = x.copy(), np.zeros(self.rows)  # v = A(x − x₀)
        self.square += ridge
        model = (*self.columns, self.square, self.g, self.x0, self.eps, self.ridge, self.beta, self.v)
        for _ in range(PASSES):
            sweeps(*model, SWEEPS)
            if not self._together(0.5 * tolerance, monitor) or not largest_violation(*model) > tolerance:
                break
        return self.beta

    def _together(self, tolerance: float, monitor: Monitor) -> bool:
        """Conjugate gradients until the slopes of the columns that are left are small; False where it was stopped."""
        indptr = self.columns[0]
        most = max(1, LOOK_WORK // (2 * int(indptr[-1]) + 1))
        while True:
            free = np.flatnonzero((self.beta != 0.0) | (self.eps == 0.0))
            residual, direction = np.empty(len(free)), np.zeros(len(free))
            state, cut, left = 0.0, False, len(free)
            while left > 0:
                state, cut = conjugate_steps(
                    *self.columns, self.square, self.g, self.x0, self.eps, self.ridge, self.beta, self.v, free,
                    residual, direction, state, min(left, most), tolerance,
                )  # fmt: skip
                left -= most
                if monitor.stop_now() is not None:
                    return False
                if cut or state == 0.0:
                    break
            if not cut:
                return True


@jit
def curved_columns(indptr, indices, data, root):
    """Columns of root · Z, of the rows where root is not 0."""
    place, rows = np.empty(len(root), np.int64), 0
    for i in range(len(root)):
        place[i] = rows
        rows += root[i] != 0.0
    count = 0
    for k in range(len(indices)):
        count += root[indices[k]] != 0.0
    starts, at, entries = np.zeros(len(indptr), np.int64), np.empty(count, np.int64), np.empty(count)
    count = 0
    for j in range(len(indptr) - 1):
        for k in range(indptr[j], indptr[j + 1]):
            i = indices[k]
            if root[i] != 0.0:
                at[count], entries[count] = place[i], root[i] * data[k]
                count += 1
        starts[j + 1] = count
    return starts, at, entries


@jit
def squares(indptr, indices, data):
    """‖A_j‖² of each column."""
    out = np.zeros(len(indptr) - 1)
    for j in range(len(out)):
        for k in range(indptr[j], indptr[j + 1]):
            out[j] += data[k] * data[k]
    return out


@inline
def slope(indptr, indices, data, g, x0, ridge, x, v, j):
    """Of the model along column j, without the penalty."""
    s = g[j] + ridge * (x[j] - x0[j])
    for k in range(indptr[j], indptr[j + 1]):
        s += data[k] * v[indices[k]]
    return s


@jit
def largest_violation(indptr, indices, data, square, g, x0, eps, ridge, x, v):
    """Of any column, at this point: what a sweep meets on its way is of its own making, and may be far more."""
    worst = 0.0
    for j in range(len(x)):
        s = slope(indptr, indices, data, g, x0, ridge, x, v, j)
        worst = max(worst, abs(s) - eps[j] if x[j] == 0.0 else abs(s + (eps[j] if x[j] > 0.0 else -eps[j])))
    return worst


@jit
def sweeps(indptr, indices, data, square, g, x0, eps, ridge, x, v, most):
    """Each column to its minimum, some times."""
    for _ in range(most):
        for j in range(len(x)):
            b, q, e = x[j], square[j], eps[j]
            u = q * b - slope(indptr, indices, data, g, x0, ridge, x, v, j)
            u = u - e if u > e else (u + e if u < -e else 0.0)
            new = u / q if q > 0.0 else 0.0
            change = new - b
            if change == 0.0:
                continue
            x[j] = new
            for k in range(indptr[j], indptr[j + 1]):
                v[indices[k]] += change * data[k]


@jit
def beyond(indptr, indices, data, eps, ridge, x, v, free, residual, direction, product, length, first):
    """A step beyond the first column that comes to 0, where all that would cross it stay; whether it was worth it.

    ``first``: the decrease up to there. Nothing changes where the step does not bring a share of it.
    """
    moved = np.empty(len(product))
    for i in range(len(moved)):
        moved[i] = length * product[i]
    gain, size = 0.0, 0.0
    for a in range(len(free)):
        j, step = free[a], length * direction[a]
        if eps[j] > 0.0 and step * x[j] < 0.0 and abs(x[j]) < abs(step):
            for k in range(indptr[j], indptr[j + 1]):
                moved[indices[k]] -= (step + x[j]) * data[k]
            step = -x[j]
        gain += residual[a] * step - 0.5 * ridge * step * step
    for i in range(len(moved)):
        size += moved[i] * moved[i]
    if not gain - 0.5 * size > BEYOND * first:
        return False
    for a in range(len(free)):
        j, step = free[a], length * direction[a]
        x[j] = 0.0 if eps[j] > 0.0 and step * x[j] < 0.0 and abs(x[j]) < abs(step) else x[j] + step
    for i in range(len(moved)):
        v[i] += moved[i]
    return True


@jit
def conjugate_steps(
    indptr, indices, data, square, g, x0, eps, ridge, x, v, free, residual, direction, state, most, tolerance
):
    """Conjugate gradients on the free columns, up to the first that comes to 0; its state and whether one did.

    The state is rᵀz, or 0 before the first step and when all slopes are small; then ``residual`` and ``direction``
    are as the last step left them.
    """
    n, product = len(free), np.empty(len(v))
    if state == 0.0:
        for a in range(n):
            j = free[a]
            s = slope(indptr, indices, data, g, x0, ridge, x, v, j)
            s += eps[j] if x[j] > 0.0 else (-eps[j] if x[j] < 0.0 else 0.0)
            residual[a] = -s
            direction[a] = -s / square[j]
            state += s * s / square[j]
    for _ in range(most):
        if not state > 0.0:
            return 0.0, False
        product[:] = 0.0
        curve = 0.0
        for a in range(n):
            j, p = free[a], direction[a]
            curve += ridge * p * p
            for k in range(indptr[j], indptr[j + 1]):
                product[indices[k]] += p * data[k]
        for i in range(len(v)):
            curve += product[i] * product[i]
        if not curve > 0.0:
            return 0.0, False
        whole = state / curve
        t, first = whole, -1
        for a in range(n):
            j, p = free[a], direction[a]
            if eps[j] > 0.0 and p * x[j] < 0.0 and abs(x[j]) < t * abs(p):
                t, first = -x[j] / p, a
        if first >= 0:
            decrease = t * state - 0.5 * t * t * curve
            if beyond(indptr, indices, data, eps, ridge, x, v, free, residual, direction, product, whole, decrease):
                return state, True
        for a in range(n):
            x[free[a]] += t * direction[a]
        for i in range(len(v)):
            v[i] += t * product[i]
        if first >= 0:
            x[free[first]] = 0.0
            return state, True
        new, worst = 0.0, 0.0
        for a in range(n):
            j = free[a]
            s = ridge * direction[a]
            for k in range(indptr[j], indptr[j + 1]):
                s += data[k] * product[indices[k]]
            residual[a] -= whole * s
            worst = max(worst, abs(residual[a]))
            new += residual[a] * residual[a] / square[j]
        if not worst > tolerance:
            return 0.0, False
        for a in range(n):
            direction[a] = residual[a] / square[free[a]] + new / state * direction[a]
        state = new
    return state, False


@inline
def loss_of(t, bend, steepest):
    """The loss at a shortfall of t: a parabola, and a line from where its slope is the steepest."""
    if not t > 0.0:
        return 0.0
    return 0.5 * bend * t * t if bend * t < steepest else steepest * (t - 0.5 * steepest / bend)


@jit
def loss_sweeps(indptr, indices, data, y, cost, bend, steepest, eps, x, short, most):
    """Each weight once along its slope, some times, for a loss with slope −min(bend · t, steepest) where t > 0.

    ``short`` is t, how far y f falls short of where the loss begins. A step is that of Newton's method, with the
    curvature of the parabola above the loss, halved until it brings a share of what it promises (Yuan et al. 2010).
    """
    for _ in range(most):
        for j in range(len(x)):
            g, h = 0.0, 0.0
            for k in range(indptr[j], indptr[j + 1]):
                i = indices[k]
                t = short[i]
                if t > 0.0:
                    z, curve = y[i] * data[k], min(bend, steepest / t)
                    g -= cost[i] * curve * t * z
                    h += cost[i] * curve * z * z
            b, e = x[j], eps[j]
            u = h * b - g
            u = u - e if u > e else (u + e if u < -e else 0.0)
            step = (u / h if h > 0.0 else 0.0) - b
            if step == 0.0 or (e == 0.0 and h == 0.0):
                continue
            promise = g * step + e * (abs(b + step) - abs(b))
            made, length, before = 0.0, step, 0.0
            for trial in range(TRIALS):
                after = 0.0
                for k in range(indptr[j], indptr[j + 1]):
                    i = indices[k]
                    t = short[i]
                    if trial == 0:
                        before += cost[i] * loss_of(t, bend, steepest)
                    t -= (length - made) * y[i] * data[k]
                    short[i] = t
                    after += cost[i] * loss_of(t, bend, steepest)
                made = length
                if after - before + e * (abs(b + made) - abs(b)) <= ENOUGH * (made / step) * promise:
                    break
                length = 0.5 * length if trial < TRIALS - 2 else 0.0
            x[j] = b + made
