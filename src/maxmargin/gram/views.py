"""Grams made from Grams: K + D, K + c, K with signs and K tiled. Views stack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .. import threads as th
from .base import Factor, Gram, Pairs
from .matrix_leaves import copy_rows

__all__ = ["Ridged", "Shifted", "Signed", "Tiled", "View"]


class View(Gram):
    """A matrix made from that of the same points, or of fewer."""

    def __init__(self, inner: Gram) -> None:
        self.inner = inner
        self.n = inner.n
        self.dtype = inner.dtype
        self.ridge = inner.ridge
        self.threads = inner.threads
        self.cost = inner.cost

    @property
    def copies(self) -> np.dtype:
        return self.inner.copies

    def duplicates(self) -> np.ndarray | None:
        return self.inner.duplicates()

    def factor(self) -> Factor | None:
        inner = self.inner.factor()
        return None if inner is None else self._factor(inner)

    def _factor(self, inner: Factor) -> Factor | None:
        """The factor of the view, given that of what it views."""
        return None

    def hides(self, beta: np.ndarray) -> tuple[float, float]:
        return self.inner.hides(beta)

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        return self.inner.blurs(beta)

    def seconds(self, v: np.ndarray) -> float:
        return self.inner.seconds(v)

    @abstractmethod
    def on(self, inner: Gram) -> Gram:
        """The same view of another matrix of the same points."""

    def original(self) -> Gram:
        inner = self.inner.original()
        return self if inner is self.inner else self.on(inner)

    def wide(self) -> Gram:
        return self.on(self.inner.wide())


class Ridged(View):
    """K + diag(ridge): what a squared loss adds to the dual."""

    def __init__(self, inner: Gram, ridge: np.ndarray) -> None:
        super().__init__(inner)
        self.added = np.asarray(ridge, np.float64)
        self.ridge = self.added if inner.ridge is None else inner.ridge + self.added

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        block = self.inner.rows(index, out, slots)
        block[np.arange(len(index)) if out is None else slots, index] += self.added[index]
        return block

    def diag(self) -> np.ndarray:
        return self.inner.diag() + self.added

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(index) + np.where(index[:, None] == index, self.added[index], 0.0)

    def on(self, inner: Gram) -> Gram:
        return Ridged(inner, self.added)

    def take(self, index: np.ndarray) -> Gram:
        return Ridged(self.inner.take(index), self.added[index])

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        full = self.inner.combine(index, coef, at, exact)
        where = np.zeros(self.n)
        where[index] = coef * self.added[index]
        return full + (where if at is None else where[at])

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.inner.matvec(v) + self.added * v

    def matmat(self, V: np.ndarray) -> np.ndarray:
        return self.inner.matmat(V) + self.added[:, None] * V

    def duplicates(self) -> np.ndarray | None:
        return None  # equal points have rows that differ on the diagonal

    def along(self, w: np.ndarray) -> np.ndarray:
        return self.inner.along(w)

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        return self.inner.pulled(beta)

    def _factor(self, inner: Factor) -> Factor | None:
        return Factor(inner.rows, self.ridge)


class Shifted(View):
    """K + constant: a penalised bias."""

    def __init__(self, inner: Gram, constant: float = 1.0) -> None:
        super().__init__(inner)
        self.constant = constant

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        block = self.inner.rows(index, out, slots)
        if out is None:
            block += self.constant
        else:
            out[slots] += self.constant
        return block

    def diag(self) -> np.ndarray:
        return self.inner.diag() + self.constant

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(index) + self.constant

    def on(self, inner: Gram) -> Gram:
        return Shifted(inner, self.constant)

    def take(self, index: np.ndarray) -> Gram:
        return Shifted(self.inner.take(index), self.constant)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        return self.inner.combine(index, coef, at, exact) + self.constant * np.sum(coef)

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.inner.matvec(v) + self.constant * np.sum(v)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        return self.inner.matmat(V) + self.constant * V.sum(axis=0)

    def along(self, w: np.ndarray) -> np.ndarray:
        return self.inner.along(w[:-1]) + self.constant**0.5 * w[-1]

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        w = self.inner.pulled(beta) if self.constant >= 0 else None
        return None if w is None else np.append(w, self.constant**0.5 * beta.sum())

    def _factor(self, inner: Factor) -> Factor | None:
        return Factor(inner.rows.widened(self.constant**0.5), inner.ridge) if self.constant >= 0 else None


class Tiled(View):
    """[[K, K], [K, K]]: a variable for each sign of a coefficient, both on the same point.

    ``point`` maps a variable to its point, so that a subset of the variables is again a view.
    """

    def __init__(self, inner: Gram, point: np.ndarray | None = None) -> None:
        super().__init__(inner)
        self.ridge = None  # what was on the diagonal is now off it too
        self.point = np.tile(np.arange(inner.n), 2) if point is None else point
        self.n = len(self.point)

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        points, row = np.unique(self.point[index], return_inverse=True)  # of both variables of a point once
        block, columns = self.inner.rows(points), self.point
        if out is None:
            return block[np.ix_(row, columns)]
        pieces = th.grain(self.n)
        th.spread(
            lambda a, b: copy_rows(block, row, columns, out, slots, a, b), len(row), self.threads, pieces, align=1
        )
        return out

    def diag(self) -> np.ndarray:
        return self.inner.diag()[self.point]

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(self.point[index])

    def on(self, inner: Gram) -> Gram:
        return Tiled(inner, self.point)

    def hides(self, beta: np.ndarray) -> tuple[float, float]:
        return self.inner.hides(self._on_points(beta))

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        return self.inner.blurs(self._on_points(beta))

    def _on_points(self, beta: np.ndarray) -> np.ndarray:
        """The coefficients of each point, added up."""
        return np.bincount(self.point, beta, self.inner.n)

    def seen(self, v: np.ndarray) -> np.ndarray:
        return self._on_points(v)

    def pairs(self) -> Pairs | None:
        few = self.n > self.inner.n and np.bincount(self.point).max() <= 2
        return Pairs(self.inner, self.point, np.ones(self.n)) if few else None

    def seconds(self, v: np.ndarray) -> float:
        return self.inner.seconds(self._on_points(v))

    def at_points(self, H_v: np.ndarray) -> np.ndarray:
        out = np.empty(self.inner.n)
        out[self.point] = H_v
        return self.inner.at_points(out)

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.inner.matvec(self._on_points(v))[self.point]

    def matmat(self, V: np.ndarray) -> np.ndarray:
        return self.inner.matmat(np.column_stack([self._on_points(v) for v in V.T]))[self.point]

    def along(self, w: np.ndarray) -> np.ndarray:
        return self.inner.along(w)[self.point]

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        return None if self.inner.ridge is not None else self.inner.pulled(self._on_points(beta))

    def take(self, index: np.ndarray) -> Gram:
        kept, point = np.unique(self.point[index], return_inverse=True)
        return Tiled(self.inner.take(kept), point)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        summed = np.bincount(self.point[index], coef, self.inner.n)
        used, (points, place) = np.flatnonzero(summed), self._points_of(at)
        return self.inner.combine(used, summed[used], points, exact)[place]

    def combine_watched(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray, look: Callable[[], object], exact: bool = False
    ) -> np.ndarray:
        """As every Gram's; variables of the same point are looked at once."""
        summed = np.bincount(self.point[index], coef, self.inner.n)
        used, (points, place) = np.flatnonzero(summed), self._points_of(at)
        return self.inner.combine_watched(used, summed[used], points, look, exact)[place]

    def _points_of(self, at: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The points of some variables, and which of them each variable is on."""
        point = self.point if at is None else self.point[at]
        asked = np.zeros(self.inner.n, bool)
        asked[point] = True
        return np.flatnonzero(asked), (np.cumsum(asked) - 1)[point]

    def duplicates(self) -> np.ndarray | None:
        return None

    def _factor(self, inner: Factor) -> Factor | None:
        if inner.ridge is not None:
            return None  # it is off the diagonal now
        times, rest = divmod(self.n, self.inner.n)
        if rest == 0 and np.array_equal(self.point, np.tile(np.arange(self.inner.n), times)):
            return Factor(inner.rows.repeated(times))
        return Factor(inner.rows.take(self.point))


class Signed(View):
    """s_i s_j K_ij: coefficients without a sign, for the rare constraint that needs them."""

    def __init__(self, inner: Gram, sign: np.ndarray) -> None:
        super().__init__(inner)
        self.sign = np.asarray(sign, np.float64)

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        block = self.inner.rows(index)
        block *= self.sign.astype(block.dtype)
        block *= self.sign[index, None].astype(block.dtype)
        if out is None:
            return block
        out[slots] = block
        return out

    def diag(self) -> np.ndarray:
        return self.inner.diag()

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(index) * np.outer(self.sign[index], self.sign[index])

    def on(self, inner: Gram) -> Gram:
        return Signed(inner, self.sign)

    def take(self, index: np.ndarray) -> Gram:
        return Signed(self.inner.take(index), self.sign[index])

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        summed = self.inner.combine(index, coef * self.sign[index], at, exact)
        return summed * (self.sign if at is None else self.sign[at])

    def seen(self, v: np.ndarray) -> np.ndarray:
        return self.inner.seen(self.sign * v)

    def pairs(self) -> Pairs | None:
        pairs = self.inner.pairs()
        return None if pairs is None else replace(pairs, sign=self.sign * pairs.sign)

    def seconds(self, v: np.ndarray) -> float:
        return self.inner.seconds(self.sign * v)

    def at_points(self, H_v: np.ndarray) -> np.ndarray:
        return self.inner.at_points(self.sign * H_v)

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.sign * self.inner.matvec(self.sign * v)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        return self.sign[:, None] * self.inner.matmat(self.sign[:, None] * V)

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        return self.inner.blurs(self.sign * beta)

    def along(self, w: np.ndarray) -> np.ndarray:
        return self.sign * self.inner.along(w)

    def pulled(self, beta: np.ndarray) -> np.ndarray | None:
        return self.inner.pulled(self.sign * beta)

    def duplicates(self) -> np.ndarray | None:
        return None

    def _factor(self, inner: Factor) -> Factor | None:
        return Factor(inner.rows.scaled(self.sign), inner.ridge)
