"""A working set of sparse columns of a relation: a step costs its column's entries, however large the set.

Centring is a bias whose slope is 0 at the minimum, so that columns as they are and one of ones are a model without a
matrix (sparse_model.py). It knows no box; where its minimum lies outside,

    repeat
        for j in W:  β_j <- its minimum, all others being held           (some sweeps)
        β <- where the last points lead, if the objective is smaller there      (Anderson; Bertrand & Massias 2021)
    until no column of W violates its conditions by more than the tolerance

K̃_j = √ω (K_j − μ_j) / ν_j is dense, but with v = Σ_j β_j ω K_j / ν_j its product with K̃β is (K_jᵀv − μ_j 1ᵀv) / ν_j:
what centring takes from v sums up to nothing.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..._jit import jit
from ...gram import Gram, Relation
from ...monitor import Monitor
from ...problem import QP
from ...solution import Status
from .coordinate_violations import violation
from .limits import PASSES
from .sparse_model import SWEEPS, SparseModel

__all__ = ["SparseColumns", "violation"]

ANDERSON = 5  # points that tell where sweeps lead
ANDERSON_RIDGE = 1e-12  # of the trace, for points that are nearly in line


class SparseColumns:
    """A problem on a relation whose columns are sparse."""

    def __init__(self, qp: QP, relation: Relation, columns: tuple) -> None:
        self.qp, self.relation, self.columns = qp, relation, columns
        self.weight = relation.root * relation.root
        self.mass = float(self.weight.sum())
        self.lengths = np.diff(columns[0])

    @classmethod
    def of(cls, qp: QP, gram: Gram) -> SparseColumns | None:
        """For a relation with sparse columns."""
        columns = gram.compressed if isinstance(gram, Relation) else None
        return None if columns is None else cls(qp, gram, columns)  # type: ignore[arg-type]

    def suits(self, W: np.ndarray, step: float) -> bool:
        """Whether a step on a column is so much cheaper than one on the matrix that no Newton step makes up for it;

        ``step``: entries of the matrix that take as long as one of a column.
        """
        return step * float(self.lengths[W].mean()) < len(W)

    def solve(
        self, beta: np.ndarray, W: np.ndarray, tolerance: float, monitor: Monitor
    ) -> tuple[np.ndarray, Status | None]:
        """β with no column of W that violates its conditions by more, and the reason to stop if there is one."""
        W = W[self.relation.scale[W] > 0.0]
        least = self._unboxed(beta, W, tolerance, monitor)
        if ((least < self.qp.lower[W]) | (least > self.qp.upper[W])).any():
            return self._swept(beta, W, tolerance, monitor)
        beta = beta.copy()
        beta[W] = least
        return beta, monitor.stop_now()

    def _unboxed(self, beta: np.ndarray, W: np.ndarray, tolerance: float, monitor: Monitor) -> np.ndarray:
        """β on W as if there were no box."""
        qp, relation = self.qp, self.relation
        part, ones = relation.columns.matrix(W), np.ones(relation.samples)
        scaled = part.data * np.repeat(relation.scale[W], np.diff(part.indptr))
        indices = np.concatenate([part.indices, np.arange(len(ones), dtype=part.indices.dtype)])
        indptr = np.append(part.indptr, part.indptr[-1] + len(ones))
        Z = sp.csc_array((np.concatenate([scaled, ones]), indices, indptr), shape=(len(ones), len(W) + 1))
        start, slope, eps = (np.append(full[W], 0.0) for full in (beta, qp.times(beta) + qp.p, qp.eps))
        return SparseModel(Z, self.weight).least(start, slope, eps, 0.0, tolerance, monitor)[:-1]

    def _swept(
        self, beta: np.ndarray, W: np.ndarray, tolerance: float, monitor: Monitor
    ) -> tuple[np.ndarray, Status | None]:
        """β after sweeps over W, each step in its box."""
        qp, relation, beta = self.qp, self.relation, beta.copy()
        used = np.flatnonzero(beta)
        coef = np.zeros(relation.n)
        coef[used] = beta[used] * relation.scale[used]
        v = self.weight * relation.columns.t_dot(coef)
        total = self.mass * float(relation.mean @ coef)
        stop, last = None, [(beta[W], v.copy(), total)]
        for _ in range(PASSES):
            worst, total = sparse_sweeps(
                self.columns, self.weight, relation.mean, relation.scale, self.mass, W, qp.p, qp.eps, qp.lower,
                qp.upper, beta, v, total, tolerance, SWEEPS,
            )  # fmt: skip
            stop = monitor.stop_now()
            if not worst > tolerance or stop is not None:
                break
            last.append((beta[W], v.copy(), total))
            if len(last) > ANDERSON:
                further = self._extrapolated(W, last)
                if further is not None:
                    beta[W], v, total = further
                last = [(beta[W], v.copy(), total)]
        return beta, stop

    def _extrapolated(self, W: np.ndarray, last: list) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Where the last points lead, if the objective is smaller there."""
        points = np.array([point for point, _, _ in last])
        moves = np.diff(points, axis=0)
        M = moves @ moves.T
        M[np.diag_indices(len(M))] += ANDERSON_RIDGE * max(float(np.trace(M)), np.finfo(float).tiny)
        share = np.linalg.solve(M, np.ones(len(M)))
        share /= share.sum()
        x = share @ points[1:]
        if not np.isfinite(x).all() or (x < self.qp.lower[W]).any() or (x > self.qp.upper[W]).any():
            return None
        v = sum(c * point[1] for c, point in zip(share, last[1:], strict=True))
        total = float(share @ [point[2] for point in last[1:]])
        return (x, v, total) if self._value(W, x, v, total) < self._value(W, *last[-1]) else None

    def _value(self, W: np.ndarray, x: np.ndarray, v: np.ndarray, total: float) -> float:
        """The objective at β_W = x, all others being 0: ‖K̃β‖² = Σ v²/ω − (1ᵀv)²/Σω."""
        square = float(v @ (v / self.weight)) - total * total / self.mass
        return 0.5 * square + float(self.qp.p[W] @ x) + float(self.qp.eps[W] @ np.abs(x))


@jit
def sparse_sweeps(
    columns, weight, mean, scale, mass, W, p, eps, lower, upper, beta, v, total, tolerance, most
):  # fmt: skip
    """Sweeps over the columns W, each to its minimum; the largest violation that the last one met, and 1ᵀv."""
    indptr, indices, data = columns
    worst = 0.0
    for _ in range(most):
        worst = 0.0
        for j in W:
            if scale[j] == 0.0:
                continue
            inner = 0.0
            for k in range(indptr[j], indptr[j + 1]):
                inner += data[k] * v[indices[k]]
            b = beta[j]
            s = scale[j] * (inner - mean[j] * total) + p[j]
            d = violation(b, s, eps[j], lower[j], upper[j])
            if not d > 0.0:
                continue
            worst = max(worst, d)
            u = b - s  # the norm of a column is 1
            u = u - eps[j] if u > eps[j] else (u + eps[j] if u < -eps[j] else 0.0)
            change = min(max(u, lower[j]), upper[j]) - b
            if change == 0.0:
                continue
            beta[j] = b + change
            step = change * scale[j]
            for k in range(indptr[j], indptr[j + 1]):
                v[indices[k]] += step * weight[indices[k]] * data[k]
            total += step * mass * mean[j]
        if not worst > tolerance:
            break
    return worst, total
