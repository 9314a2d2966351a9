"""All classes at once by an interior method: where sweeps over the samples crawl, a few factorisations end it.

    min ½ Σ_k ‖w_k‖² + Σ_i c_i (t_i − w_{y_i}ᵀx_i)     s.t.  s_ik = t_i − δ_ik − w_kᵀx_i ≥ 0

is Crammer & Singer's problem with t_i for the largest of the δ_ik + w_kᵀx_i, where δ_ik is 0 for the own class and 1
for others. Its optimum and the dual's hold

    w_k = Σ_i α_ik x_i,   α_ik = c_i [k = y_i] − λ_ik,   Σ_k λ_ik = c_i,   λ_ik s_ik = 0,   λ, s ≥ 0

Mehrotra's predictor–corrector (PDCO has it for two classes) keeps λ_ik s_ik = μ > 0 and makes μ smaller. With θ = λ / s
a Newton step is Δλ_ik = b_ik + θ_ik (u_ik − Σ_l θ_il u_il / Σ_l θ_il) for u_ik = x_iᵀΔw_k, and Δw solves

    (I + Σ_i G_i ⊗ x_i x_iᵀ) Δw = r,     G_i = diag(θ_i) − θ_i θ_iᵀ / Σ_l θ_il

Weights of all classes add up to 0, and so do their steps, so that one class is left out: with Δw_k = v_k − mean(v) and
v_K = 0 it is (I − 11ᵀ/K) in place of I, a matrix of features × (K − 1) rows.

    start at w = 0, λ_ik = c_i / K, t_i = 2
    repeat
        θ, G, the matrix and its Cholesky factor; where rounding leaves it none, that of a QR factorisation of its root
        predict with μ = 0, whose length tells the next μ; correct with that and the products of second order
        go 0.995 of the way to the boundary
    until whoever asks has enough, nothing gets smaller any more, or products are rounding

Three things keep digits where C is 1e6 or features are 1e3. Of each sample, u is taken relative to the class of the
largest θ, whose G is then a sum without cancellation. Δλ is added up from the pieces that refinement of Δw finds, each
far smaller than the one before, and never computed from Δw as a whole: θ times its rounding is more than λ. And
α_{i y_i} is the sum of the others, not c_i − λ_{i y_i}, which is rounded to digits of c_i. Without the last two and the
QR factorisation 10 of 1000 random problems (5 to 500 samples, C up to 1e6, features of 1e-3 to 1e3) ended at gaps of
2e-6 to 5e-4; with them all meet their tol.

| above        | here      |
| ------------ | --------- |
| λ, s, t, θ   | ``lam``, ``s``, ``t``, ``theta`` |
| Σ_l θ_il     | ``sums``; without the class itself ``others`` |
| K            | ``K``, classes; ``last`` = K − 1 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs

from ..memory import fits
from ..solvers.parts.cholesky import cholesky
from ..solvers.parts.limits import TRIES, Progress
from ..solvers.parts.roundings import ROUNDED_SUM

__all__ = ["ClassPoint", "InteriorClasses", "price"]

STEPS = 25  # that it takes: 5 to 44 on random problems, 16 on average; 20 to 30 on thousands of samples
MOST_STEPS = 100  # after which it does not get there
BACK_OFF = 0.995  # of the way to the boundary is as far as a step goes
PIECES = 4  # of a solution, the first one and what refinement adds: the third is rounding, mostly
TILE = 1 << 21  # numbers of a piece of the products that are added up to the matrix, between two looks at the clock
WIDEST = 4e9  # operations of the QR factorisation of a wide X: less than half a second, in which nobody looks
MOST_ROWS = 1000  # of a matrix whose root is factored: as long
# Operations in blocks that could be made in the time of what else a step does (measured, within a factor of two):
STEP_OVERHEAD = 1e7  # its calls, however small the problem is,
EACH_OVERHEAD = 4000.0  # some hundred looks at a coefficient,
PRODUCT_OVERHEAD = 25.0  # and a number that is made and read for a feature of a sample and two classes


@dataclass(frozen=True)
class ClassPoint:
    """Weights (features, classes) and coefficients (samples, classes), near each other's."""

    W: np.ndarray
    alpha: np.ndarray


@dataclass(frozen=True)
class _Way:
    """A direction in all variables."""

    W: np.ndarray
    t: np.ndarray
    s: np.ndarray
    lam: np.ndarray


def price(n: int, d: int, classes: int) -> float:
    """Operations that the method will take; infinite where it is out of the question."""
    r, wide = min(n, d), 2.0 * d * n * n if n < d else 0.0
    size = r * (classes - 1)
    room = 8 * (2 * size * size + 2 * n * d + 12 * n * classes)
    if wide > WIDEST or not fits(room):
        return np.inf
    overhead = STEP_OVERHEAD + EACH_OVERHEAD * n * classes + PRODUCT_OVERHEAD * n * size * classes
    return wide + STEPS * (overhead + float(n) * size * size + size**3 / 3.0)


class InteriorClasses:
    """The method on dense rows, for three classes or more; ``look`` may raise between the pieces of a step."""

    def __init__(
        self, X: np.ndarray, labels: np.ndarray, cost: np.ndarray, classes: int, look: Callable[[], object]
    ) -> None:
        self.basis: np.ndarray | None = None  # of the rows, where there are more features than these
        if X.shape[0] < X.shape[1]:
            look()
            self.basis, R = np.linalg.qr(X.T)
            X = np.ascontiguousarray(R.T)
        self.X, self.labels, self.cost, self.look = X, labels, cost, look
        (n, d), K = X.shape, classes
        self.n, self.d, self.K, self.own = n, d, K, np.arange(n)
        self.delta = np.ones((n, K))
        self.delta[self.own, labels] = 0.0
        self.W, self.t = np.zeros((d, K)), np.full(n, 2.0)
        self.s = self.t[:, None] - self.delta
        self.lam = np.repeat(cost[:, None] / K, K, axis=1)

    def points(self) -> Iterator[ClassPoint]:
        """The point after each step. ``look`` raises through it."""
        progress = Progress(TRIES)
        with np.errstate(all="ignore"):
            for _ in range(MOST_STEPS):
                if not self._step():
                    return
                W = self.W if self.basis is None else self.basis @ self.W
                alpha = self._balanced(self.lam)
                yield ClassPoint(W, alpha)
                products = float(np.vdot(self.lam, self.s))
                left = float(np.abs(self.X.T @ alpha - self.W).max(initial=0.0))
                value = 0.5 * float(np.vdot(self.W, self.W)) + self._losses()
                if progress.stalled(products, left) or products <= ROUNDED_SUM * value:
                    return

    def _losses(self) -> float:
        """Σ c_i (t_i − w_{y_i}ᵀx_i): the slack of the own class is that difference."""
        return float(self.cost @ self.s[self.own, self.labels])

    def _balanced(self, lam: np.ndarray) -> np.ndarray:
        """Coefficients α of multipliers λ: of the own class what the others add up to."""
        alpha = -lam
        alpha[self.own, self.labels] = 0.0
        alpha[self.own, self.labels] = -alpha.sum(axis=1)
        return alpha

    # -- a step ---------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """One iteration; whether it got anywhere."""
        self.look()
        self.theta = self.lam / self.s
        self.sums = self.theta.sum(axis=1)
        self.others = self.theta @ (1.0 - np.eye(self.K))  # without the own one, and without cancellation
        self.top = self.theta.argmax(axis=1)
        U = self._factor()
        if U is None:
            return False
        self.U = U
        mu = float(np.vdot(self.lam, self.s)) / self.lam.size
        way = self._way(0.0, np.zeros_like(self.s))
        length = min(1.0, self._longest(way))
        reached = float(np.vdot(self.lam + length * way.lam, self.s + length * way.s)) / self.lam.size
        way = self._way(mu * min(1.0, max(0.0, reached) / mu) ** 3, way.lam * way.s)
        length = min(1.0, BACK_OFF * self._longest(way))
        if not (0.0 < length <= 1.0 and np.isfinite(way.W).all()):
            return False
        self.W += length * way.W
        self.W -= self.W.mean(axis=1, keepdims=True)
        self.t += length * way.t
        self.s += length * way.s
        self.lam += length * way.lam
        return True

    def _longest(self, way: _Way) -> float:
        """How far a way leads until a slack or a multiplier is 0."""
        return 1.0 / max(np.finfo(float).tiny, float((-way.s / self.s).max()), float((-way.lam / self.lam).max()))

    def _way(self, mu: float, product: np.ndarray) -> _Way:
        """Newton's step to λ s = μ − ``product``."""
        X, theta, sums = self.X, self.theta, self.sums
        missing = self.s - (self.t[:, None] - self.delta - X @ self.W)
        total = self.cost - self.lam.sum(axis=1)
        a = (mu - product) / self.s - self.lam + theta * missing
        level = (a.sum(axis=1) - total) / sums
        b = a - theta * level[:, None]
        lack = X.T @ self._balanced(self.lam) - self.W
        W, change = self._solved(lack + X.T @ self._balanced(b))
        u = X @ W
        base = u[self.own, self.top]
        u -= base[:, None]
        rise = level + (theta * u).sum(axis=1) / sums
        return _Way(W, rise + base, rise[:, None] - u - missing, b + change)

    def _solved(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Δw, and G u that belongs to it, with refinement of both together."""
        W, change, left = np.zeros_like(r), np.zeros_like(self.s), r
        for _ in range(PIECES):
            v, _ = dpotrs(self.U, left[:, :-1].T.ravel() * self.scale)
            piece = np.zeros_like(r)
            piece[:, :-1] = (v * self.scale).reshape(self.K - 1, self.d).T
            piece -= piece.mean(axis=1, keepdims=True)
            W = W + piece
            u = self.X @ piece
            u -= u[self.own, self.top][:, None]
            change = change + self.theta * (u - ((self.theta * u).sum(axis=1) / self.sums)[:, None])
            left = r - W + self.X.T @ self._balanced(change)
        return W, change

    # -- the matrix -----------------------------------------------------------------------------------------

    def _factor(self) -> np.ndarray | None:
        """U with UᵀU the matrix, its rows and columns scaled to a diagonal of 1; None where there is none."""
        M = self._matrix()
        self.scale = 1.0 / np.sqrt(M.diagonal())
        M *= self.scale[:, None]
        M *= self.scale
        U = cholesky(M, look=self.look)
        return self._root() if U is None and len(M) <= MOST_ROWS else U

    def _matrix(self) -> np.ndarray:
        """(I − 11ᵀ/K) ⊗ I + Σ_i G_i ⊗ x_i x_iᵀ without the last class; the upper triangle of blocks."""
        X, d, K, last = self.X, self.d, self.K, self.K - 1
        M = np.zeros((d * last, d * last))
        for k in range(last):
            G = self.theta[:, k : k + 1] * self.theta[:, k:last] / -self.sums[:, None]
            G[:, 0] = self.theta[:, k] * self.others[:, k] / self.sums
            step = max(1, TILE // (d * G.shape[1]))
            for a in range(0, self.n, step):
                self.look()
                some = X[a : a + step]
                M[k * d : (k + 1) * d, k * d :] += some.T @ (G[a : a + step, :, None] * some[:, None]).reshape(
                    len(some), -1
                )
            for m in range(k, last):
                M[k * d : (k + 1) * d, m * d : (m + 1) * d].flat[:: d + 1] += (1.0 if k == m else 0.0) - 1.0 / K
        return M

    def _root(self) -> np.ndarray:
        """U from a QR factorisation of rows whose products add up to the matrix, the largest rows first.

        G = SᵀS with S = (I − qqᵀ) diag(√θ), q = √(θ / Σθ). Its digits are those of θ's root, twice as many.
        """
        X, last, size = self.X, self.K - 1, self.d * (self.K - 1)
        order = np.argsort(-self.theta.max(axis=1) * (X * X).sum(axis=1))
        R, step = np.zeros((0, size)), max(1, size // self.K)
        for a in range(0, self.n, step):
            self.look()
            some = order[a : a + step]
            root = np.sqrt(self.theta[some])
            q = root / np.sqrt(self.sums[some])[:, None]
            S = -q[:, :, None] * (q * root)[:, None, :]
            S[:, np.arange(self.K), np.arange(self.K)] = root * self.others[some] / self.sums[some][:, None]
            R = self._stacked(R, (S[:, :, :last, None] * X[some][:, None, None]).reshape(-1, size) * self.scale)
        metric = np.linalg.cholesky(np.eye(last) - 1.0 / self.K).T
        return np.asfortranarray(self._stacked(R, np.kron(metric, np.eye(self.d)) * self.scale))

    @staticmethod
    def _stacked(R: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The factor of R with more rows below, which are sorted by size."""
        return np.asarray(np.linalg.qr(np.vstack([R, rows[np.argsort(-np.abs(rows).max(axis=1))]]), mode="r"))
