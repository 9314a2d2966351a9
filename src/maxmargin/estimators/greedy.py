"""Points of a reduced expansion chosen one by one (Keerthi, Chapelle & DeCoste 2006).

    repeat
        some candidates, drawn among the samples that are no points yet
        the decrease of the objective for each, if its coefficient alone moves from 0 to where it serves best
        the best of them becomes a point, with that coefficient
        all coefficients are trained again whenever the points have become a quarter more

The objective is that of the machine itself, with its own loss, on a sample of the rows with as much more cost; where a
machine has several problems, their decreases are added up. Along one coefficient t the slope of the objective grows by
k(z, z) at least, which bounds t; the best one is found by halving the logarithm of its share of that bound.

Features are those of gram/reduced.py: a new point adds a column, which costs O(n k), so that all of them cost O(n k²).
The paper trains again by Newton steps for the squared hinge; here the solvers of linear machines do it, for any loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..formulations import Formulation, Samples, SemiParametric
from ..goal import Goal
from ..gram import Factored
from ..gram.reduced import DEPENDENT
from ..monitor import Monitor
from ..problem import ERM
from ..solvers import Auto
from .base import Problem

__all__ = ["ROWS_A_POINT", "SAMPLE_ROWS", "chosen_greedily"]

CANDIDATES = 10  # for each point, as in the paper: with more the points are little better, and each costs a kernel row
SAMPLE_ROWS = 8192  # rows that tell candidates apart, or
ROWS_A_POINT = 8  # times the points, if these are more
GROWTH = 1.25  # the points are that many times more when they are trained again
TRAINED = 0.02  # relative gap of these trainings: candidates differ by more
HALVINGS, LEAST = 7, 40.0  # of the logarithm of a share from 1 down to 2⁻⁴⁰: known up to a factor of 1.25 then


@dataclass
class _Part:
    """One problem on the sample."""

    formulation: Formulation
    rows: np.ndarray  # numbers of its rows in the sample
    y: np.ndarray
    weight: np.ndarray
    erm: ERM
    h: np.ndarray  # what the points add to f, at all samples
    offset: np.ndarray | float = 0.0  # what the bias and parametric functions add, at its own samples
    beta: np.ndarray | None = None

    def train(self, Zt: np.ndarray, solver: Auto, monitor: Monitor) -> None:
        """All coefficients again."""
        Z = np.ascontiguousarray(Zt[:, self.rows].T)
        qp = self.formulation.qp(Samples(Factored(Z, 1), self.y, self.weight))
        found = solver.solve(qp, Goal(gap=TRAINED, exact=False), self.beta, monitor)
        w = qp.weights(found.beta) if found.w is None else found.w
        assert w is not None
        self.h, self.beta, self.offset = w @ Zt, found.beta, qp.A.T @ found.multipliers

    def trial(self, values: np.ndarray, at: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best coefficient of each candidate, and by how much it makes the objective smaller."""
        erm = self.erm
        K = values[:, self.rows]
        f = self.h[self.rows] + self.offset
        signed = erm.y * erm.cost if erm.loss.classification else erm.cost

        def slope(t: np.ndarray) -> np.ndarray:
            pulls = erm.loss.slope(erm.loss.argument(erm.y, f + t[:, None] * K)) * signed
            return self.h[at] + t * diagonal + np.einsum("ij,ij->i", K, pulls)

        first = slope(np.zeros(len(at)))
        most = -first / diagonal
        short, long = np.full(len(at), LEAST), np.zeros(len(at))
        for _ in range(HALVINGS):
            middle = 0.5 * (short + long)
            beyond = first * slope(most * np.exp2(-middle)) < 0.0
            short, long = np.where(beyond, short, middle), np.where(beyond, middle, long)
        t = most * np.exp2(-short)
        risk = erm.loss.value(erm.loss.argument(erm.y, f + t[:, None] * K)) @ erm.cost
        saved = float(erm.loss.value(erm.loss.argument(erm.y, f)) @ erm.cost) - risk
        return t, saved - t * self.h[at] - 0.5 * t * t * diagonal


def chosen_greedily(
    count: int,
    values: Callable[[np.ndarray], np.ndarray],
    diagonal: np.ndarray,
    row_of: np.ndarray,
    problems: list[Problem],
    solver: Auto,
    seed: int,
    monitor: Monitor,
) -> np.ndarray:
    """Numbers, in a sample of different rows, of ``count`` points or fewer if the others depend on them.

    ``values(numbers)`` are kernel rows over the sample and ``diagonal`` is k(x, x); ``row_of`` is the number of each
    sample's row, or −1 where it is not in the sample.
    """
    parts = [part for part in (_part(problem, row_of, len(diagonal)) for problem in problems) if part is not None]
    rng = np.random.default_rng(seed)
    waiting = rng.permutation(len(diagonal)).tolist()
    Zt = np.zeros((count, len(diagonal)))
    chosen: list[int] = []
    least = DEPENDENT * float(diagonal.max(initial=0.0))
    train_at = 1
    while len(chosen) < count and waiting:
        if monitor.stop_now() is not None:
            return np.array(chosen + waiting[: count - len(chosen)], np.int64)
        p = len(chosen)
        batch = np.array(waiting[-CANDIDATES:])
        del waiting[-CANDIDATES:]
        lacking = diagonal[batch] - np.einsum("ij,ij->j", Zt[:p, batch], Zt[:p, batch])
        batch = batch[lacking > least]  # the others depend on the points there are, and always will
        if not len(batch):
            continue
        rows = values(batch)
        trials = [part.trial(rows, batch, diagonal[batch]) for part in parts]
        best = int(np.argmax(sum(decrease for _, decrease in trials)))
        z, own = batch[best], Zt[:p, batch[best]]
        waiting[:0] = rng.permutation(np.delete(batch, best)).tolist()  # it is their turn again when all others had one
        Zt[p] = (rows[best] - own @ Zt[:p]) / np.sqrt(diagonal[z] - own @ own)
        chosen.append(int(z))
        if len(chosen) >= train_at and len(chosen) < count:
            train_at = int(np.ceil(GROWTH * len(chosen)))
            for part in parts:
                part.train(Zt[: p + 1], solver, monitor.part(""))
        else:
            for part, (t, _) in zip(parts, trials, strict=True):
                part.h = part.h + t[best] * rows[best]
    return np.array(chosen, np.int64)


def _part(problem: Problem, row_of: np.ndarray, size: int) -> _Part | None:
    """A problem on the sample, with as much more cost; None if it has nothing there.

    Samples with the same row and target are one with the weights of all, in an order that is that of the rows.
    """
    own = np.flatnonzero(row_of[problem.rows] >= 0)
    if not len(own):
        return None
    rows, y = row_of[problem.rows[own]], problem.y[own]
    order = np.lexsort((y, rows))
    new = np.r_[True, (np.diff(rows[order]) != 0) | (np.diff(y[order]) != 0)]
    first = order[new]
    weight = np.bincount(np.cumsum(new) - 1, problem.weight[own[order]])
    weight = weight * (problem.weight.sum() / weight.sum())
    formulation = problem.formulation
    if isinstance(formulation, SemiParametric):
        formulation = replace(formulation, phi=np.ascontiguousarray(formulation.phi[:, own[first]]))
    qp = formulation.qp(Samples(Factored(np.zeros((len(first), 1)), 1), y[first], weight))
    assert qp.primal is not None
    return _Part(formulation, rows[first], y[first], weight, qp.primal, np.zeros(size))
