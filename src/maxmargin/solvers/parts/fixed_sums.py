"""Equality constraints that pair steps can keep: groups of variables, each with a fixed sum.

Variables with the same column of A form a group. If the distinct columns are linearly independent, Aβ = b
fixes the sum of each group and nothing else. One group for C-SVC, SVR and one-class, two for the ν machines,
none without a bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...problem import QP
from .least_squares import least_squares

__all__ = ["BIG", "Groups", "feasible", "midway", "offsets", "pairs_keep"]

SUM_ROUNDING = 1e-11  # of the terms of a sum: what a group may lack that its boxes cannot give
BIG = 1e300  # stands for infinity where a sum or a product with it must stay a number; leaves read it


@dataclass(frozen=True)
class Groups:
    """Variables that share a column of A; each group has a fixed sum."""

    label: np.ndarray  # group of each variable
    columns: np.ndarray  # (k, groups): their columns of A
    sums: np.ndarray  # what each group must add up to

    @classmethod
    def of(cls, qp: QP) -> Groups:
        """The groups of a problem, which are found once."""
        return qp.kept("groups", cls._of)

    @classmethod
    def _of(cls, qp: QP) -> Groups:
        k = len(qp.A)
        if k == 0:
            return cls(np.zeros(qp.n, np.int64), np.zeros((0, 0)), np.zeros(0))
        columns, label = qp.kept("kinds", _kinds)
        if columns.shape == (1, 1) and columns[0, 0] != 0.0:
            return cls(label, columns, qp.b / columns[0, 0])
        if not pairs_keep(qp):
            raise ValueError(
                f'a solver of pair steps ("smo", "decomposition", "chunking") was asked to keep {k} equality '
                "constraints (a bias, parametric functions); found that two variables cannot move without breaking one;"
                ' use solver="mpd", "sor" or "interior-point", which take any constraints, or "auto"'
            )
        unit = _units(columns)
        scaled, b = columns / unit[:, None], qp.b / unit
        sums = np.zeros(scaled.shape[1])
        for _ in range(2):  # a group whose sum is 0 has what rounding of the others left, but for the second time
            sums += np.linalg.lstsq(scaled, b - scaled @ sums, rcond=None)[0]
        if np.abs(scaled @ sums - b).max() > 1e-9 * max(1.0, np.abs(b).max()):
            raise ValueError("a QP was asked for; found equality constraints that contradict each other; check A and b")
        return cls(label, columns, sums)

    @classmethod
    def found(cls, qp: QP) -> Groups | None:
        """The groups, or None where steps of two variables cannot keep Aβ = b."""
        return cls.of(qp) if pairs_keep(qp) else None

    @property
    def count(self) -> int:
        return len(self.sums)

    def basis(self, F: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span what the constraints forbid to the variables F."""
        E = (self.label[F][:, None] == np.arange(self.count)).astype(float)
        E = E[:, E.any(axis=0)]
        return E / np.sqrt(E.sum(axis=0))  # groups do not overlap

    def held(self, beta: np.ndarray, slack: float) -> bool:
        """Whether β holds the constraints."""
        sums = np.bincount(self.label, beta, max(1, self.count))[: self.count]
        return bool((np.abs(sums - self.sums) <= slack * (np.abs(beta).sum() + np.abs(self.sums))).all())

    def wanting(self, qp: QP, beta: np.ndarray, v: np.ndarray, slack: float) -> list[tuple[int, float]]:
        """In each group the worst variable that wants up and the worst that wants down: (number, direction)."""
        rise, fall = offsets(beta, qp.lower, qp.upper, qp.eps)
        up, down = v + rise, v + fall
        out = []
        for g in range(max(1, self.count)):
            inside = np.flatnonzero(self.label == g) if self.count else np.arange(len(beta))
            if not len(inside):
                continue
            high, low = inside[up[inside].argmax()], inside[down[inside].argmin()]
            above, below = (up[high] - down[low], up[high] - down[low]) if self.count else (up[high], -down[low])
            out += [(int(i), sign) for i, excess, sign in ((high, above, 1.0), (low, below, -1.0)) if excess > slack]
        return out

    def multipliers(self, qp: QP, beta: np.ndarray, H_beta: np.ndarray) -> np.ndarray:
        """η from the levels of the groups."""
        if self.count == 0:
            return np.zeros(0)
        v = -(H_beta + qp.p)
        rise, fall = offsets(beta, qp.lower, qp.upper, qp.eps)
        up, down = v + rise, v + fall
        groups = [self.label == g for g in range(self.count)] if self.count > 1 else [slice(None)]
        m = np.array([up[inside].max(initial=-BIG) for inside in groups])
        M = np.array([down[inside].min(initial=BIG) for inside in groups])
        return self._of_levels(midway(m, M))

    def balanced(self, qp: QP, beta: np.ndarray, H_beta: np.ndarray) -> np.ndarray:
        """The η whose gap is least, for a β that is not optimal: where it sends the variables, the sums are right.

        A variable goes from its upper bound by way of 0 to its lower bound as the level of its group rises past v − ε
        and v + ε; the level is where the sum of all passes what it must be. Where it is that all the way from one of
        these places to the next, a bias is half way between them; what the levels of two groups are is of use together.
        """
        v = -(H_beta + qp.p)
        kinked = bool(qp.eps.any())
        levels = np.zeros(self.count)
        for g in range(self.count):
            inside = self.label == g if self.count > 1 else slice(None)
            low, high, at = qp.lower[inside], qp.upper[inside], v[inside]
            drop = high - low
            if kinked:
                middle, eps = np.clip(0.0, low, high), qp.eps[inside]
                at, drop = np.concatenate([at - eps, at + eps]), np.concatenate([high - middle, middle - low])
            order = None if (drop == drop[0]).all() else np.argsort(at)
            dropped, needed = np.cumsum(drop if order is None else drop[order]), high.sum() - self.sums[g]
            slack = 4.0 * np.finfo(float).eps * np.sqrt(len(at)) * dropped[-1]  # of a sum of as many terms
            passed = dropped >= needed - slack
            if not passed.any():
                levels[g] = at.max()
                continue
            first = int(passed.argmax())
            tie = self.count == 1 and dropped[first] <= needed + slack
            last = min(first + 1, len(at) - 1) if tie else first
            ends = [_of_rank(at, rank) if order is None else at[order[rank]] for rank in {first, last}]
            levels[g] = 0.5 * (min(ends) + max(ends))
        return self._of_levels(levels)

    def can_balance(self, qp: QP) -> bool:
        """Whether there are sums, boxes end, and nothing but their ends holds a variable back."""
        return bool(self.count and qp.ridge is None and np.isfinite(qp.lower).all() and np.isfinite(qp.upper).all())

    def _of_levels(self, levels: np.ndarray) -> np.ndarray:
        """η of the levels of the groups."""
        if self.count == 0:
            return np.zeros(0)
        if self.count == 1:
            return levels / self.columns[0] if len(self.columns) == 1 else np.linalg.pinv(self.columns.T) @ levels
        unit = _units(self.columns)
        scaled, eta = (self.columns / unit[:, None]).T, np.zeros(len(unit))
        for _ in range(2):  # the second takes what rounding left
            eta += least_squares(scaled, levels - scaled @ eta)
        return eta / unit


def _of_rank(values: np.ndarray, rank: int) -> float:
    """The number that stands there when they are sorted.

    Where few numbers occur, as slopes of β = 0, sorting takes a tenth of a partition's time; else three times as long.
    """
    some = values[:: max(1, len(values) // 64)]
    few = 2 * len(np.unique(some)) < len(some)
    return float(np.sort(values)[rank] if few else np.partition(values, rank)[rank])


def pairs_keep(qp: QP) -> bool:
    """Whether steps of two variables can keep Aβ = b: variables with the same column of A form a group, and the
    columns of the groups are linearly independent. It is found once."""
    return qp.kept("pairs keep", _pairs_keep)


def _pairs_keep(qp: QP) -> bool:
    if not len(qp.A):
        return True
    columns, _ = qp.kept("kinds", _kinds)
    if columns.shape == (1, 1) and columns[0, 0] != 0.0:
        return True
    return columns.shape[1] <= len(qp.A) and bool(np.linalg.matrix_rank(columns) == columns.shape[1])


def _kinds(qp: QP) -> tuple[np.ndarray, np.ndarray]:
    """The distinct columns of A in their order, and which of them each column is.

    Where there are more of them than rows, they are not looked for to the end: pair steps cannot keep so many.
    """
    A = qp.A
    found: list[np.ndarray] = []
    label = np.zeros(A.shape[1], np.int64)
    rest = np.ones(A.shape[1], bool)
    while rest.any() and len(found) <= len(A):
        found.append(A[:, int(rest.argmax())])
        own = (A == found[-1][:, None]).all(axis=0)
        label[own] = len(found) - 1
        rest &= ~own
    columns = np.array(found).reshape(-1, len(A)).T
    order = np.lexsort(columns[::-1]) if columns.shape[1] > 1 else np.arange(columns.shape[1])
    return columns[:, order], np.argsort(order)[label] if columns.shape[1] > 1 else label


def midway(m: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The level of each group: half way between m and M, or the one of them that there is."""
    no_m, no_M = m < -BIG / 2, M > BIG / 2
    return np.where(no_m & no_M, 0.0, np.where(no_m, M, np.where(no_M, m, 0.5 * (m + M))))


def offsets(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What to add to v so that its maximum is m and its minimum M: ±ε, or ∓BIG where a variable cannot move."""
    up, down = (np.where(beta >= 0, -eps, eps), np.where(beta > 0, -eps, eps)) if eps.any() else (0.0, 0.0)
    return np.where(beta >= upper, -BIG, up), np.where(beta <= lower, BIG, down)


def _units(columns: np.ndarray) -> np.ndarray:
    """What each constraint is measured by: functions of small numbers are not rounding of others."""
    size = np.abs(columns).max(axis=1)
    return np.where(size > 0.0, size, 1.0)


def feasible(
    groups: Groups,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    sums: np.ndarray,
    v: np.ndarray | None = None,
) -> np.ndarray:
    """β moved into the box, then along each group, in the order of v, until its sum is right."""
    beta = np.clip(beta, lower, upper)
    if not sums.any() and not beta.any():
        return beta
    for g in range(groups.count):
        inside = np.flatnonzero(groups.label == g)
        missed = sums[g] - _moved(beta, lower, upper, inside, float(sums[g]), sums, v)
        # What is rounding from far away may be all there is nearby, as where all that holds a sum of 0 is 0.
        if abs(missed) > SUM_ROUNDING * (abs(sums[g]) + float(np.abs(beta[inside]).sum())):
            _moved(beta, lower, upper, inside, float(sums[g]), sums, v)
    return beta


def _moved(
    beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, inside: np.ndarray, aim: float, sums: np.ndarray,
    v: np.ndarray | None,
) -> float:  # fmt: skip
    """Move the variables of a group towards its sum, in place; the sum that they have then."""
    missing = aim - beta[inside].sum()
    if missing == 0.0:
        return aim
    if v is not None:
        inside = inside[np.argsort(-np.sign(missing) * v[inside], kind="stable")]
    room = upper[inside] - beta[inside] if missing > 0 else beta[inside] - lower[inside]
    terms = float(np.abs(sums).max()) + float(np.abs(beta[inside]).sum())  # sums are made from each other
    if room.sum() < abs(missing) - SUM_ROUNDING * terms:
        raise ValueError(
            f"a feasible QP was asked for; found that a group of variables must add up to {aim:g} but its box "
            f"allows only {lower[inside].sum():g} … {upper[inside].sum():g}; check the constraints (ν too large?)"
        )
    room = np.minimum(room, abs(missing))  # boxes may be infinite
    before = np.cumsum(room) - room
    beta[inside] += np.sign(missing) * np.clip(abs(missing) - before, 0.0, room)
    return float(beta[inside].sum())
