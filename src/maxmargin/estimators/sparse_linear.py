"""Linear machines with few weights: min ‖w‖₁ + Σ c_i ℓ(y_i (wᵀx_i + b)) for a smooth loss ℓ, with a proof.

    repeat
        θ_i <- c_i y_i ℓ'(m_i),  g <- Xᵀθ                     one look at all features
        W   <- features with w_j ≠ 0, and as many again of those with the largest |g_j| > 1
        while many of W are new and sparse: sweeps over W, one weight at a time
        then Newton's method on W: the second-order model of the loss with ‖w‖₁ itself, and a line search; sparse models
        are solved by solvers/parts/sparse_model.py, others as a Potential SVM's columns are (working_columns.py)
    until the gap meets the goal

The dual is  max −Σ c_i ℓ*(u_i)  s.t. |Xᵀθ| ≤ 1, θ_i = c_i y_i u_i, and Σθ = 0 for a bias that nothing penalises. Slopes
u of the loss, shrunk until the first condition holds, are a point of it, so that primal − dual is proven. The second
holds as soon as the bias is the best one for these weights, which is a search along a line; what rounding leaves of it
the slopes of one class make up for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..goal import FEASIBLE, Goal
from ..losses import Loss
from ..monitor import Monitor, Stopped
from ..problem import SQUARES
from ..solution import Certificate, Status
from ..solvers.parts.sparse_model import SparseModel, loss_sweeps
from ..solvers.parts.working_columns import Part

__all__ = ["SparseProblem", "SparseWeights", "steepest"]

FIRST = 128  # features of the first working set, and added at least
INNER = 0.3  # of the largest violation of all is what a working set may keep
NEWTON_STEPS = 30  # on one working set
MODEL = 0.1  # of a working set's violation is what its model may keep
WHOLE_MODEL = 1e-6  # of it where the matrix of the model is known: what is left along the bias, or along a feature in a
# small unit, is next to nothing beside the largest violation, and sends each of the next steps astray
SWEEPS = 10  # on the loss itself
SETTLED = 0.1  # of a working set's weights may be 0 where Newton steps are worth it
CAUTION = 0.1  # of the share of that parabola is left after a whole step
RIDGE = 1e-13  # of the largest curvature, for weights that have none
ENOUGH = 1e-4  # of the decrease that the model promises
SHORTEST = 2.0**-30  # step of a line search
BIAS_STEPS = 60  # of Newton's method for the bias
ROUNDED = 1e-15  # of the sum of the terms: the slope along the bias is nothing then
STALLS = 3  # looks without a smaller gap or objective before rounding is blamed
PIECE = 1 << 23  # products of sparse entries between two looks at the clock: about a tenth of a second
DENSE_SHARE = 0.2  # of entries that are not 0: from here on a working set's columns are an array


@dataclass(frozen=True)
class SparseWeights:
    """Weights and bias with their proof."""

    w: np.ndarray
    b: float
    certificate: Certificate
    status: Status
    n_iter: int
    history: object


@dataclass
class SparseProblem:
    """The problem of one class against others."""

    X: Any  # columns: an array in Fortran's order or a CSC matrix
    y: np.ndarray  # ±1
    cost: np.ndarray
    loss: Loss
    bias: float  # value of the constant feature; 0: no bias
    penalised: bool  # whether its weight is a weight like the others

    def solve(self, goal: Goal, monitor: Monitor, start: np.ndarray | None = None) -> SparseWeights:
        """Weights that meet the goal, or the best ones so far."""
        d = self.X.shape[1]
        w = np.zeros(d) if start is None else start[:d].copy()
        b = 0.0 if start is None else float(start[d])
        f = self._values(w, b)
        idle = SQUARES * self._objective(np.zeros(d), 0.0, np.zeros(len(self.y)))
        best_dual, best_gap, stalls, steps, looks = -np.inf, np.inf, 0, 0, 0
        while True:
            looks += 1
            b, f = self._best_bias(b, f)
            theta, g, g_b = self._slopes(f)
            even, slopes = self._evened(theta, g)
            dual = self._dual(even, slopes, g_b)
            best_dual = max(best_dual, dual)
            primal = self._objective(w, b, f)
            falls = self._falls(w, b, g, g_b)
            worst = float(falls.max(initial=0.0))
            lack = self._lack(even)
            found = Certificate(primal, best_dual, max(primal - best_dual, 0.0), worst, lack, idle)
            stop = monitor.step(steps, -best_dual, worst, int(np.count_nonzero(w)), primal=primal)
            stalls = stalls + 1 if not found.gap < best_gap else 0
            best_gap = min(best_gap, found.gap)
            if goal.met(found):
                reason: Status | None = Status.CONVERGED
            elif 0 < goal.max_iter <= steps:
                reason = Status.MAX_ITERATIONS
            else:
                reason = Status.STALLED if stalls >= STALLS or not worst > 0.0 else stop
            if reason is not None:
                monitor.end(steps, found, 0)
                return SparseWeights(w, b, found, goal.verdict(found, reason), max(1, steps), monitor.history)
            most = goal.max_iter - steps if goal.max_iter > 0 else NEWTON_STEPS
            w, b, f, made = self._on(self._chosen(w, falls[:d]), w, b, f, INNER * 0.3**stalls * worst, monitor, most)
            steps += made

    # -- values -------------------------------------------------------------------------------------------

    def _values(self, w: np.ndarray, b: float) -> np.ndarray:
        used = np.flatnonzero(w)
        f = self.X[:, used] @ w[used] if len(used) else np.zeros(len(self.y))
        return np.asarray(f, np.float64) + self.bias * b

    def _objective(self, w: np.ndarray, b: float, f: np.ndarray) -> float:
        penalty = float(np.abs(w).sum()) + (abs(b) if self.penalised else 0.0)
        return penalty + float(self.cost @ self.loss.value(self.y * f))

    def _slopes(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """θ, its product with each feature, and with the constant one."""
        theta = self.cost * self.y * self.loss.slope(self.y * f)
        return theta, np.asarray(self.X.T @ theta), self.bias * float(theta.sum())

    def _falls(self, w: np.ndarray, b: float, g: np.ndarray, g_b: float) -> np.ndarray:
        """How fast the objective falls along each weight, the bias being the last."""
        own = [b] if self.bias else []
        x, slope = np.append(w, own), np.append(g, [g_b] if self.bias else [])
        eps = np.append(np.ones(len(w)), [1.0 if self.penalised else 0.0] if self.bias else [])
        at_zero = np.maximum(np.abs(slope) - eps, 0.0)
        return np.where(x == 0.0, at_zero, np.abs(slope + eps * np.sign(x)))

    def _dual(self, theta: np.ndarray, g: np.ndarray, g_b: float) -> float:
        """The largest dual value of a multiple of θ that is feasible."""
        steepest = max(float(np.abs(g).max(initial=0.0)), abs(g_b) if self.penalised else 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.where(self.cost > 0.0, self.y * theta / self.cost, 0.0)
        linear, square, _ = self.loss.conjugate_terms
        most = 1.0 if steepest <= 1.0 else 1.0 / steepest
        first, second = -linear * float(self.cost @ u), -square * float(self.cost @ (u * u))
        t = min(most, -first / second) if second < 0.0 else most
        return first * t + 0.5 * second * t * t

    def _evened(self, theta: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """θ with a sum of 0 where the bias asks for it, and its product with each feature.

        At the best bias that numbers can say, margins of 1 − 1e-9 leave θ seven digits, and its sum as many. Slopes of
        one class, made a little smaller, are still slopes of the loss.
        """
        if self._lack(theta) <= FEASIBLE:
            return theta, g
        over, under = float(theta[theta > 0.0].sum()), -float(theta[theta < 0.0].sum())
        least = min(over, under)
        share = np.where(theta > 0.0, least / over if over > 0.0 else 0.0, least / under if under > 0.0 else 0.0)
        return share * theta, np.asarray(self.X.T @ (share * theta))

    def _lack(self, theta: np.ndarray) -> float:
        """|Σθ| as a share of its terms, where the bias asks for 0."""
        if not self.bias or self.penalised:
            return 0.0
        return abs(float(theta.sum())) / max(float(np.abs(theta).sum()), np.finfo(float).tiny)

    def _best_bias(self, b: float, f: np.ndarray) -> tuple[float, np.ndarray]:
        """The bias that is best for these weights, where nothing penalises it: Newton's method inside a bracket."""
        if not self.bias or self.penalised:
            return b, f
        low, high = -np.inf, np.inf
        for _ in range(BIAS_STEPS):
            m = self.y * f
            theta = self.cost * self.y * self.loss.slope(m)
            slope, curve = float(theta.sum()), float(self.cost @ self.loss.curvature(m))
            if abs(slope) <= ROUNDED * float(np.abs(theta).sum()):
                break
            low, high = (low, b) if slope > 0.0 else (b, high)
            new = b - slope / curve if curve > 0.0 else b - np.sign(slope)
            if not low < new < high:
                new = 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else new
            if new == b:
                break
            f, b = f + (new - b), new
        return b, f

    # -- steps --------------------------------------------------------------------------------------------

    def _chosen(self, w: np.ndarray, falls: np.ndarray) -> np.ndarray:
        """The features in use, and those that violate most."""
        outside = np.where(w != 0.0, 0.0, falls)
        count = max(FIRST, int(np.count_nonzero(w)))
        more = np.flatnonzero(outside > 0.0)
        if len(more) > count:
            more = more[np.argpartition(-outside[more], count - 1)[:count]]
        return np.union1d(np.flatnonzero(w), more)

    def _on(
        self, W: np.ndarray, w: np.ndarray, b: float, f: np.ndarray, tolerance: float, monitor: Monitor, most: int
    ) -> tuple:
        """Steps on some features and the bias; the weights, bias, values and how many steps were made."""
        Z, d = self._columns(W), len(W)
        eps = np.append(np.ones(d), [1.0 if self.penalised else 0.0] if self.bias else [])
        x = np.append(w[W], [b] if self.bias else [])
        steps = 0
        if sp.issparse(Z) and float(np.mean(x == 0.0)) > SETTLED:
            f, steps, most = self._swept(Z, x, eps, f, monitor), 1, 0
        # A loss that is a line here and a parabola there has no curvature where it is a line. A parabola above it does.
        caution = 1.0
        for _ in range(most):
            m = self.y * f
            g = np.asarray(Z.T @ (self.cost * self.y * self.loss.slope(m)))
            falls = np.where(x == 0.0, np.maximum(np.abs(g) - eps, 0.0), np.abs(g + eps * np.sign(x)))
            worst = float(falls.max(initial=0.0))
            if not worst > tolerance or monitor.stop_now() is not None:
                break
            steps += 1
            bend = (1.0 - caution) * self.loss.curvature(m) + caution * self.loss.secant(m)
            try:
                new = self._model(Z, self.cost * bend, g, x, eps, worst, monitor)
            except Stopped:
                steps -= 1
                break
            change = np.asarray(Z @ (new - x))
            promise = float(g @ (new - x) + eps @ (np.abs(new) - np.abs(x)))
            t = self._length(x, new - x, eps, f, change, promise)
            if t == 0.0 and caution == 1.0:
                break
            caution = CAUTION * caution if t == 1.0 else 1.0
            x, f = (new if t == 1.0 else x + t * (new - x)), f + t * change
        w = w.copy()
        w[W] = x[:d]
        b = float(x[-1]) if self.bias else b
        return w, b, self._values(w, b), max(1, steps)

    def _columns(self, W: np.ndarray) -> Any:
        """Some features, and the constant one behind them."""
        Z, one = self.X[:, W], np.full((len(self.y), 1 if self.bias else 0), self.bias)
        if not sp.issparse(Z):
            return np.asfortranarray(np.hstack([Z, one]))
        if Z.nnz > DENSE_SHARE * Z.shape[0] * Z.shape[1]:
            return np.asfortranarray(np.hstack([Z.toarray(), one]))
        return sp.csc_array(sp.hstack([Z, sp.csc_array(one)], format="csc"))

    def _swept(self, Z: sp.csc_array, x: np.ndarray, eps: np.ndarray, f: np.ndarray, monitor: Monitor) -> np.ndarray:
        """The values after sweeps on the loss itself, which change x: far from the optimum no model of it reaches far.

        Its conjugate top · u + ½ q u² on u ≥ −steepest says all of such a loss: its slope is −min(t / q, steepest) at
        t = top − m > 0.
        """
        top, q, _ = self.loss.conjugate_terms
        short = top - self.y * f
        loss = (1.0 / q, -self.loss.domain[0])
        for _ in range(SWEEPS):
            if monitor.stop_now() is not None:
                break
            loss_sweeps(Z.indptr, Z.indices, Z.data, self.y, self.cost, *loss, eps, x, short, 1)
        return self.y * (top - short)

    def _model(
        self,
        Z: Any,
        curve: np.ndarray,
        g: np.ndarray,
        x: np.ndarray,
        eps: np.ndarray,
        worst: float,
        monitor: Monitor,
    ) -> np.ndarray:
        """Where the second-order model of the loss with the penalty itself is least; ``worst``: the violation at x."""

        def ridge(diagonal: np.ndarray) -> float:
            largest = float(diagonal.max())
            return RIDGE * largest if largest > 0.0 else 1.0 / float(np.abs(x).max())  # towards 0

        sparse = SparseModel(Z, curve) if sp.issparse(Z) else None
        if sparse is not None and sparse.suits:
            return sparse.least(x, g, eps, ridge(sparse.square), MODEL * worst, monitor)
        H = self._curvature(Z, curve, monitor.look)
        H[np.diag_indices(len(H))] += ridge(np.diag(H))
        free = np.full(len(x), np.inf)
        part = Part(H, g, x, eps, -free, free)
        part.solve(WHOLE_MODEL * worst, monitor, 1)
        return part.beta

    def _curvature(self, Z: Any, curve: np.ndarray, look: Callable[[], object]) -> np.ndarray:
        """The Hessian of the loss on some features and the bias; ``look`` may raise in between."""
        rows = np.flatnonzero(curve)
        if not sp.issparse(Z):
            scaled = np.sqrt(curve[rows])[:, None] * Z[rows]
            return np.ascontiguousarray(scaled.T @ scaled)
        scaled = sp.csr_array(sp.diags_array(np.sqrt(curve)) @ Z)
        columns = sp.csr_array(scaled.T)
        n, d = Z.shape
        H, step = np.empty((d, d)), max(1, int(PIECE * n * d / max(1.0, float(scaled.nnz) ** 2)))
        for a in range(0, d, step):
            look()
            H[a : a + step] = (columns[a : a + step] @ scaled).toarray()
        return H

    def _length(self, x: np.ndarray, step: Any, eps: np.ndarray, f: Any, change: Any, promise: float) -> float:
        """A length of the step that brings a share of what the model promises, or 0."""
        before = float(eps @ np.abs(x)) + float(self.cost @ self.loss.value(self.y * f))
        t = 1.0
        while t >= SHORTEST:
            after = float(eps @ np.abs(x + t * step)) + float(self.cost @ self.loss.value(self.y * (f + t * change)))
            if after <= before + ENOUGH * t * promise:
                return t
            t *= 0.5
        return 0.0


def steepest(X: Any, y: np.ndarray, loss: Loss, bias: float, penalised: bool) -> float:
    """The largest slope of Σ ℓ(y_i f_i) along a weight where all are 0: 1 over the least C for which one is not."""
    problem = SparseProblem(X, y, np.ones(len(y)), loss, bias, penalised)
    _, f = problem._best_bias(0.0, np.zeros(len(y)))
    _, g, g_b = problem._slopes(f)
    return max(float(np.abs(g).max(initial=0.0)), abs(g_b) if penalised else 0.0)
