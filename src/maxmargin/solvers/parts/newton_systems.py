"""Newton's equations of the interior method, solved in whichever form is cheapest (PDCO §3.4).

Every row has a θ ≥ 0 (barrier.py). With Ẑ = [Z, Aᵀ] and D² = diag(1, …, 1, δ², …), δ² next to nothing,

    (Ẑᵀ Θ Ẑ + D²) x = r,    x = [Δw; Δη]                                                              PDCO (14)

| class     | what it factors                                 | when                                          |
| --------- | ----------------------------------------------- | --------------------------------------------- |
| Normal    | that matrix, (d + k)²                           | d moderate                                    |
| Dense     | H + Θ⁻¹, n × n; A by its Schur complement (13)  | H has no factor, or fewer rows than features   |
| Paired    | the same, a row a point (paired_system.py)      | two variables are on each point                |
| Quasi     | the quasi-definite [−Θ⁻¹ Ẑ; Ẑᵀ D²] (12)          | Z very sparse: LDLᵀ by the package qdldl      |
| RowSquares | nothing: LSMR on (15), n unknowns              | n and d too large to factor                   |
| LeastSquares | nothing: LSMR on (16), d + k unknowns        | by name only                                  |

D is PDCO's D₂. Its part on η is proximal (it acts on the step, not on the solution), so that it costs accuracy of a
step but does not move the answer.

(15) and (16) have the same singular values, those of [√Θ Z; 1] or of its transpose, and an iteration of either reads Z
twice. They differ in what can be scaled. Near the end θ is huge for rows inside their boxes and next to nothing for the
others: (15) has a column a row and scales each to norm 1; (16) has a column a feature, in which all rows are mixed.
Measured, (15) takes a seventh to less than a half of the steps (docs/pdco.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import qdldl
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_solve, eigh
from scipy.sparse.linalg import LinearOperator, lsmr

from ...rows import Block, Crew, Rows
from .cholesky import cholesky
from .limits import LOOK_WORK
from .roundings import ROUNDED_SOLUTION, ROUNDED_SUM

__all__ = ["Dense", "LeastSquares", "Normal", "Points", "Quasi", "RowSquares", "System", "solve_spd"]

LSMR_TOL = 1e-10  # of the right-hand side may be left where LSMR ends
LSMR_SHIFT = 1e-8  # of the squared norm of its column is δ² for LSMR, whose accuracy a smaller one would take


class System(ABC):
    """Newton's equations at one point: made ready, then solved for several right-hand sides."""

    given = False  # whether x holds Δβ itself in place of Δw
    exact = True  # whether a solution is as good as rounding allows
    convex = True  # whether H has turned out to be positive semi-definite

    @abstractmethod
    def prepare(self, crew: Crew) -> np.ndarray:
        """Take up the θ of the rows; Ẑᵀ [θρ, β]."""

    @abstractmethod
    def solve(self, r: np.ndarray) -> np.ndarray:
        """x."""


def factor_spd(M: np.ndarray, threads: int, look: Callable[[], object] = lambda: None) -> tuple[np.ndarray, bool]:
    """A Cholesky factor of the upper triangle of M, shifted as little as it takes; ``look`` as in cholesky.py."""
    shift = 0.0
    diagonal = M.diagonal().copy()
    while (factor := cholesky(M, threads, look)) is None:
        shift = max(ROUNDED_SUM, 100 * shift)
        if not (shift < 1.0 and np.isfinite(diagonal).all()):
            raise LinAlgError("a matrix of normal equations is not positive definite")
        M[np.diag_indices(len(M))] = diagonal * (1.0 + shift)
    return factor, False


def solve_spd(M: np.ndarray, r: np.ndarray) -> np.ndarray:
    """M⁻¹ r."""
    return cho_solve(factor_spd(M, 1), r, check_finite=False)


class Normal(System):
    """The (d + k)² normal matrix, added up by the rows."""

    def __init__(self, d: int, k: int, threads: int, look: Callable[[], object] = lambda: None) -> None:
        self.penalty = np.r_[np.ones(d), np.zeros(k)]
        self.threads, self.look = threads, look

    def prepare(self, crew: Crew) -> np.ndarray:
        M, products = crew.sum("normal")
        diagonal = np.diag_indices(len(M))
        M[diagonal] = np.maximum(M[diagonal], np.finfo(float).tiny)
        M[diagonal] += np.where(self.penalty > 0.0, 1.0, ROUNDED_SOLUTION * M[diagonal])
        self.factor = factor_spd(M, self.threads, self.look)
        return products

    def solve(self, r: np.ndarray) -> np.ndarray:
        return cho_solve(self.factor, r, check_finite=False)


class Points(Block):
    """Rows of the identity: the place of Z where H itself is at hand, so that Δw is Δβ."""

    def __init__(self, n: int) -> None:
        self.n = self.d = n

    work = property(lambda self: self.n)

    def tiles(self, squared: bool = False) -> Iterator:
        yield 0, self.n, self

    def dot(self, w: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return w

    def t_dot(self, v: np.ndarray) -> np.ndarray:
        return v

    def gather(self, index: np.ndarray) -> Any:
        return sp.identity(self.n, format="csr")[index]

    def split(self, parts: int) -> list[Block]:
        return [self]

    def scaled(self, factor: Any) -> Block:
        raise TypeError("the identity was asked to be scaled; found no use for that; scale H")

    widened = scaled  # type: ignore[assignment]


class Dense(System):
    """H + Θ⁻¹ as √Θ H √Θ + 1, whose diagonal is at least 1, and a k × k Schur complement for A.

    An H that is not positive semi-definite is shifted in the equations only: steps then lead to a stationary point.
    ``look`` is called before everything that takes long, and may raise.
    """

    given = True

    def __init__(self, H: np.ndarray, A: np.ndarray, threads: int, look: Callable[[], object] = lambda: None) -> None:
        self.H, self.A, self.threads, self.look = H, A, threads, look
        self.shift = 0.0
        self.diagonal = np.maximum(H.diagonal(), 0.0)

    def prepare(self, crew: Crew) -> np.ndarray:
        self.theta = crew.collect("theta")
        self.weight = self._weights()
        felt = self.weight * (self.diagonal + self.shift) > ROUNDED_SOLUTION
        self.kept = np.flatnonzero(felt) if not felt.all() else None
        while not self._factored():
            self.look()
            lowest = eigh(self.H, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0]
            self.convex = False
            self.shift = max(2.0 * self.shift, 1.1 * max(-float(lowest), 0.0), ROUNDED_SUM * float(self.diagonal.max()))
        pair = crew.collect("pair", axis=0)
        return np.concatenate([pair, self.A @ pair])

    def _weights(self) -> np.ndarray:
        """The θ of each row of H."""
        return self.theta

    def _factored(self) -> bool:
        theta = self.weight if self.kept is None else self.weight[self.kept]
        self.root = np.sqrt(theta)
        M = self._scaled()
        M[np.diag_indices(len(M))] += 1.0 + self.shift * theta
        factor = cholesky(M.T, self.threads, self.look, in_place=True)
        if factor is None:
            if not np.isfinite(self._scaled()).all():
                raise LinAlgError("a matrix of Newton's equations has overflowed")
            return False
        self.factor = factor, False
        self.AB = np.array([self._inverse(row) for row in self.A]).reshape(self.A.shape)
        schur = self.A @ self.AB.T
        k = len(self.A)
        if k:
            seen = schur.diagonal()  # none of a constraint whose variables are all fixed: its multiplier stays
            schur[np.diag_indices(k)] += np.where(seen > 0.0, ROUNDED_SOLUTION * seen, 1.0)
            self.schur = factor_spd(schur, 1)
        return True

    def _scaled(self) -> np.ndarray:
        """√Θ H √Θ, without the rows that were left out."""
        m = len(self.root)
        M, step = np.empty((m, m)), max(1, LOOK_WORK // max(1, m))
        for a in range(0, m, step):
            self.look()
            some = slice(a, a + step)
            H = self.H[some] if self.kept is None else self.H[np.ix_(self.kept[some], self.kept)]
            np.multiply(H, self.root, out=M[some])
            M[some] *= self.root[some, None]
        return M

    def _inverse(self, v: np.ndarray) -> np.ndarray:
        """(H + Θ⁻¹)⁻¹ v; rows that were left out answer for themselves."""
        self.look()
        if self.kept is None:
            return self.root * cho_solve(self.factor, self.root * v, check_finite=False)
        out = self.weight * v
        out[self.kept] = self.root * cho_solve(self.factor, self.root * v[self.kept], check_finite=False)
        return out

    def solve(self, r: np.ndarray) -> np.ndarray:
        n = len(self.theta)
        rho, missing = _wanted(self.theta, self.A, r)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a step that is not finite is not taken
            step = self._solve(rho, missing)
            delta, eta = step[:n], step[n:]
            left = rho - self._times(delta) - np.where(self.theta > 0.0, delta / self.theta, 0.0)
            left -= self.A.T @ eta
            left[self.theta == 0.0] = 0.0
            return step + self._solve(left, missing - self.A @ delta)

    def _times(self, delta: np.ndarray) -> np.ndarray:
        return self.H @ delta + self.shift * delta

    def _solve(self, rho: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """[Δβ; Δη] with (H + Θ⁻¹) Δβ + Aᵀ Δη = ρ and A Δβ = missing."""
        delta = self._inverse(rho)
        if not len(self.A):
            return delta
        eta = cho_solve(self.schur, self.A @ delta - missing, check_finite=False)
        return np.concatenate([delta - self.AB.T @ eta, eta])


def _wanted(theta: np.ndarray, A: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ρ and what the constraints miss, where x holds Δβ: (H + Θ⁻¹) Δβ + Aᵀ Δη = ρ and A Δβ = missing."""
    n = len(theta)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(theta > 0.0, r[:n] / theta, 0.0), A @ r[:n] - r[n:]


class RowSquares(System):
    """LSMR on min ‖[Zᵀ; L] Δβ − [0; L⁻¹ρ]‖ where A Δβ = missing, L² = Θ⁻¹ + ridge; columns scaled to norm 1.

    The constraints have no room for D here: divided by a D that is next to nothing they would be all that LSMR sees.
    Steps are taken in their null space instead, which a few products with k vectors keep.
    """

    given = True

    def __init__(
        self,
        rows: Rows,
        ridge: np.ndarray,
        A: np.ndarray,
        squares: np.ndarray,
        look: Callable[[], object] = lambda: None,
    ) -> None:
        self.rows, self.ridge, self.A, self.look = rows, ridge, A, look
        self.squares = squares  # of the rows' norms
        self.tol = LSMR_TOL

    def prepare(self, crew: Crew) -> np.ndarray:
        self.theta = crew.collect("theta")
        inverse = self.theta / (1.0 + self.ridge * self.theta)  # L⁻²
        self.scale = 1.0 / np.sqrt(1.0 + inverse * self.squares)
        self.root = np.sqrt(inverse)
        U, sizes, V = np.linalg.svd(self.A * (self.root * self.scale), full_matrices=False)
        kept = sizes > ROUNDED_SUM * sizes.max(initial=0.0)
        self.span, self.pinv = V[kept], U[:, kept] / sizes[kept]
        pair = crew.collect("pair", axis=0)
        return np.concatenate([pair, self.A @ pair])

    def solve(self, r: np.ndarray) -> np.ndarray:
        rho, missing = _wanted(self.theta, self.A, r)
        Z, n, d = self.rows, self.rows.n, self.rows.d
        scale, root, span = self.scale, self.root * self.scale, self.span  # Δβ = root × what LSMR moves

        def free(v: np.ndarray) -> np.ndarray:
            return v - span.T @ (span @ v)

        def forward(v: np.ndarray) -> np.ndarray:
            self.look()  # each product is a pass
            v = free(v.ravel())
            return np.concatenate([Z.t_dot(root * v), scale * v])

        def backward(y: np.ndarray) -> np.ndarray:
            y = y.ravel()
            return free(root * Z.dot(y[:d]) + scale * y[d:])

        held = span.T @ (missing @ self.pinv)  # the shortest step that holds the constraints
        operator = LinearOperator((d + n, n), matvec=forward, rmatvec=backward, dtype=np.float64)
        right = np.concatenate([-Z.t_dot(root * held), self.root * rho - scale * held])
        moved = held + free(lsmr(operator, right, atol=self.tol, btol=self.tol, conlim=0.0, maxiter=10 * n)[0])
        delta = root * moved
        left = root * (rho - Z.dot(Z.t_dot(delta))) - scale * scale * moved  # √(…) Aᵀ Δη
        return np.concatenate([delta, self.pinv @ (span @ left)])


class Quasi(System):
    """The sparse quasi-definite system; the order of elimination is found once."""

    def __init__(self, rows: Rows, A: np.ndarray) -> None:
        Z = sp.csr_array(rows.matrix())
        self.n, self.size = rows.n, rows.d + len(A)
        wide = sp.hstack([Z, sp.csr_array(A.T)], format="csr")
        self.free = np.arange(self.size) >= rows.d
        self.squares = wide.multiply(wide)
        zero = sp.csr_array((self.size, self.size))
        self.upper = sp.triu(
            sp.block_array([[sp.identity(self.n), wide], [wide.T, zero + sp.identity(self.size)]]), format="csc"
        )
        self.upper.sort_indices()
        self.diagonal = self.upper.indptr[1:] - 1  # the last entry of a column of an upper triangle
        self.solver: qdldl.Solver | None = None

    def prepare(self, crew: Crew) -> np.ndarray:
        theta = crew.collect("theta")
        weight = self.squares.T @ theta
        self.upper.data[self.diagonal[: self.n]] = -1.0 / np.maximum(theta, np.finfo(float).tiny)
        self.upper.data[self.diagonal[self.n :]] = np.where(self.free, ROUNDED_SOLUTION * weight, 1.0)
        if self.solver is None:
            self.solver = qdldl.Solver(self.upper, upper=True)
        else:
            self.solver.update(self.upper, upper=True)
        return crew.sum("pull")

    def solve(self, r: np.ndarray) -> np.ndarray:
        assert self.solver is not None  # prepared
        return self.solver.solve(np.concatenate([np.zeros(self.n), r]))[self.n :]


class LeastSquares(System):
    """LSMR on min ‖[√Θ Ẑ; D] x − [0; D⁻¹ r]‖, its columns scaled to norm 1."""

    exact = False

    def __init__(self, rows: Rows, A: np.ndarray, look: Callable[[], object] = lambda: None) -> None:
        self.rows, self.A, self.look = rows, A, look
        self.tol = LSMR_TOL

    def prepare(self, crew: Crew) -> np.ndarray:
        self.root = np.sqrt(crew.collect("theta"))
        d = self.rows.d
        squares = np.concatenate(
            [self.rows.t_squares(self.root * self.root), (self.A * self.A) @ (self.root * self.root)]
        )
        tiny = np.finfo(float).tiny
        self.D = np.sqrt(np.where(np.arange(len(squares)) < d, 1.0, np.maximum(LSMR_SHIFT * squares, tiny)))
        self.scale = 1.0 / np.sqrt(squares + self.D * self.D)
        return crew.sum("pull")

    def solve(self, r: np.ndarray) -> np.ndarray:
        n, d, size = self.rows.n, self.rows.d, len(self.D)
        D = self.D * self.scale

        def forward(x: np.ndarray) -> np.ndarray:
            self.look()  # each product is a pass
            x = x.ravel()
            y = x * self.scale
            return np.concatenate([self.root * (self.rows.dot(y[:d]) + self.A.T @ y[d:]), D * x])

        def backward(y: np.ndarray) -> np.ndarray:
            y = y.ravel()
            v = self.root * y[:n]
            return self.scale * np.concatenate([self.rows.t_dot(v), self.A @ v]) + D * y[n:]

        operator = LinearOperator((n + size, size), matvec=forward, rmatvec=backward, dtype=np.float64)
        right = np.concatenate([np.zeros(n), r / self.D])
        return self.scale * lsmr(operator, right, atol=self.tol, btol=self.tol, conlim=0.0, maxiter=10 * size)[0]
