"""The problem that every support vector machine is, and the proof of how well it is solved.

    min  ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|     s.t.  lower ≤ β ≤ upper,   Aβ = b      (k rows in A)

β are signed coefficients (y_i α_i for classification, α_i − α_i* for regression), so H never carries
labels. With multipliers η of the equality constraints,

    s = Hβ + p + Aᵀη          f(x) = Σ β_i k(x_i, x) + Σ_j η_j φ_j(x),

η are the free parameters of the decision function (MPD's "dual-dual trick"): the bias for a row of ones.

For any feasible β and any η,

    gap(β, η) = Σ_i max_{z ∈ box_i} [ r_i (β_i − z) + ½ d_i (β_i² − z²) + ε_i (|β_i| − |z|) ] − ηᵀ(Aβ − b)

bounds how far β is from the optimum, where d is the part of H's diagonal that a squared loss has added
(0 for most problems) and r = s − dβ. For C-SVC, SVR and their squared losses it is primal − dual.

Arithmetic leaves a β that misses its constraints by a hair, and where multipliers are large that is worth something.
Then the dual value at β bounds nothing, but less the price of what is missed, ηᵀ(Aβ − b), it does up to the second
order: that is the dual value of a certificate, and the price is no part of its gap.

Where H = ZZᵀ + diag(d) and a model has weights w of its own, s = Zw + dβ + p + Aᵀη and the gap grows by ½‖w − Zᵀβ‖²:
the primal is that of w, the dual that of β.

The primal value is gap + dual, in which all that belongs to the dual cancels:

    primal = ½ βᵀ(H − diag(d))β + Σ_i max_{z ∈ box_i} [ −r_i z − ½ d_i z² − ε_i |z| ] + ηᵀb      (½‖w‖² for weights w)

Far from the end, where the gap is larger than that, it is computed like this: the dual may be so low there that the sum
would be rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .goal import FEASIBLE
from .losses import Loss
from .solution import Certificate

__all__ = ["QP", "ERM"]

# Of the objective: a negative gap of that size is rounding, a larger one a constraint not held; leaves read it.
GAP_ROUNDING = 1e-12
SAME_NUMBER = 4 * np.finfo(float).eps  # relative: less than a product of a coefficient is rounded by
# Of the objective of a model that does nothing, where a loss is curved at its least: residuals are rounded by 1e-15, so
# that a sum of squares is known to 1e-4 of itself down to residuals of 1e-11; of a straight loss to residuals of 1e-13.
SQUARES = 1e-9
DUST = 1e-12  # relative: a coefficient so near to a bound, or to 0, has been put there by arithmetic
SHORT = 1 << 20  # bytes: these are copied and compared in a tenth of the time that a hash takes
KEPT = 4  # products, and certificates: of an answer, of the start as it was and as it is feasible, and between them
SPAN = 1 << 14  # variables that are looked at together: what is computed from them stays in the processor's caches


def _spans(n: int) -> list[slice]:
    return [slice(a, min(n, a + SPAN)) for a in range(0, n, SPAN)]


@dataclass(frozen=True)
class QP:
    """A box-constrained convex quadratic program with k equality constraints."""

    H: Any  # a Gram or a plain symmetric array
    p: np.ndarray
    lower: Any  # n numbers, or one for all
    upper: Any
    A: np.ndarray = None  # type: ignore[assignment]  # None: no row; an array as soon as the problem is made
    b: Any = None  # k numbers; None: zeros
    eps: Any = None  # n numbers, or one for all; None: zeros
    limits: tuple[int, ...] = ()  # rows of A for which Aβ ≤ b is enough, where their multiplier is ≥ 0
    primal: ERM | None = None  # the problem that this one is the dual of, where it was derived from one
    _last: dict = field(default_factory=dict, init=False, repr=False, compare=False)  # what was computed last

    def __post_init__(self) -> None:
        n = len(self.p)
        put = object.__setattr__
        put(self, "p", np.ascontiguousarray(self.p, np.float64))
        for name, default in (("lower", None), ("upper", None), ("eps", 0.0)):
            value = getattr(self, name)
            value = np.asarray(default if value is None else value, np.float64)
            put(self, name, np.ascontiguousarray(value) if value.shape == (n,) else np.full(n, value))
        A = np.zeros((0, n)) if self.A is None else np.atleast_2d(np.asarray(self.A, np.float64))
        put(self, "A", np.ascontiguousarray(A))
        put(self, "b", np.zeros(len(A)) if self.b is None else np.atleast_1d(np.asarray(self.b, np.float64)))
        self._check(n)

    def _check(self, n: int) -> None:
        size = (self.H.n, self.H.n) if hasattr(self.H, "n") else np.shape(self.H)
        if size != (n, n) or self.A.shape[1] != n or self.b.shape != (len(self.A),):
            raise ValueError(
                f"a QP of {n} variables was asked for; found H of shape {size}, A of shape {self.A.shape}, "
                f"b of shape {self.b.shape}; H must be n × n, A k × n and b of length k"
            )
        if not (np.isfinite(self.p).all() and np.isfinite(self.A).all() and np.isfinite(self.b).all()):
            raise ValueError("a QP was asked for; found NaN or infinity in p, A or b; all must be finite")
        if not (self.lower <= self.upper).all():  # which NaN is not either
            raise ValueError(
                "a QP was asked for; found lower > upper or NaN in a box; give lower <= upper for each variable"
            )
        if not (self.eps >= 0).all():
            raise ValueError("a QP was asked for; found a negative eps; each must be >= 0")

    @property
    def n(self) -> int:
        return len(self.p)

    @property
    def ridge(self) -> np.ndarray | None:
        """The part of H's diagonal that a squared loss has added."""
        return getattr(self.H, "ridge", None)

    def exact(self) -> QP:
        """The same problem with the matrix that H stands for, where H approximates one."""
        original = self.H.original() if hasattr(self.H, "original") else self.H
        if original is self.H:
            return self
        if "exact" not in self._last:
            self._last["exact"] = replace(self, H=original)
        return self._last["exact"]

    def kept(self, name: str, make: Callable[[QP], Any]) -> Any:
        """make(this problem), made once."""
        if name not in self._last:
            self._last[name] = make(self)
        return self._last[name]

    def times(self, beta: np.ndarray) -> np.ndarray:
        """Hβ in float64, from the problem and not from a solver's book-keeping; not to be written to.

        The last products are kept: what a solver ends with is what is certified, and products are dear.
        """
        return self._product(beta).H_beta

    def weights(self, beta: np.ndarray) -> np.ndarray | None:
        """Zᵀβ where H is known by features, or None."""
        return self._product(beta).w

    def _product(self, beta: np.ndarray) -> _Product:
        beta = np.ascontiguousarray(beta, np.float64)
        seen = self._seen(beta)
        kept = self._last.setdefault("products", [])
        # Of features there may be many millions of rows: their β is not kept, but what tells it from others.
        name = _digest(seen) if not kept or kept[0].beta is None else None
        for number, one in enumerate(kept):
            if one.is_of(seen, name):
                kept.insert(0, kept.pop(number))
                return one
        found = _Product(None, name, **self._products(beta))
        if found.w is None and np.isfinite(seen).all():
            found.beta, found.name = seen.copy(), None
        return self._keep(found)

    def between(self, first: np.ndarray, last: np.ndarray, share: float) -> np.ndarray:
        """A point on the line from one to another; its product lies between theirs, and takes no pass of its own."""
        one, other = self._product(first), self._product(last)
        beta, H_beta = (a + share * (b - a) for a, b in ((first, last), (one.H_beta, other.H_beta)))
        seen = self._seen(beta)
        if one.w is None or other.w is None:
            self._keep(_Product(seen.copy(), None, None, H_beta))
        else:
            self._keep(_Product(None, _digest(seen), one.w + share * (other.w - one.w), H_beta))
        return beta

    def _keep(self, product: _Product) -> _Product:
        kept = self._last.setdefault("products", [])
        kept.insert(0, product)
        del kept[KEPT:]
        return product

    def _seen(self, beta: np.ndarray) -> np.ndarray:
        return self.H.seen(beta) if hasattr(self.H, "seen") else beta

    def _along(self, w: np.ndarray) -> np.ndarray:
        """Zw; the last one is kept, as weights of their own are looked at with several β."""
        for one in self._last.get("products", ()) if self.ridge is None else ():
            if one.w is not None and np.array_equal(one.w, w):  # the weights of another β
                return one.H_beta
        if self._last.get("along") is None or not np.array_equal(self._last["along"][0], w):
            self._last["along"] = w.copy(), self.H.along(w)
        return self._last["along"][1]

    def _products(self, beta: np.ndarray) -> dict:
        w = self.H.pulled(beta) if hasattr(self.H, "pulled") else None
        if w is not None:
            H_beta = self.H.along(w)
            return {"w": w, "H_beta": H_beta if self.ridge is None else H_beta + self.ridge * beta}
        product = self.H.matvec(beta) if hasattr(self.H, "matvec") else np.asarray(self.H, np.float64) @ beta
        return {"w": None, "H_beta": product}

    def settled(self, beta: np.ndarray) -> np.ndarray:
        """β in its box, and on a bound or at 0 where it lies next to it: then it counts as lying there."""
        beta = np.minimum(np.maximum(beta, self.lower), self.upper)
        used = beta.nonzero()[0]  # 0 lies where it lies
        x, lower, upper = beta[used], self.lower[used], self.upper[used]
        size = np.abs(x)
        share = np.finfo(float).eps * np.sqrt(len(x))  # of n terms, by which their sum is rounded
        most = max(2.0 * DUST * float(size.max(initial=0.0)), share * float(size.sum()))
        near = np.minimum(np.minimum(np.abs(x - lower), np.abs(x - upper)), size)
        if not ((near > 0.0) & (near <= most)).any():
            return beta + 0.0  # as nearly always; and no −0, see below
        # What counts for nothing in f is put there, unless a constraint sees it; then what counts for nothing in both.
        parts = np.vstack([np.sqrt(np.maximum(self._diagonal[used], 0.0)), np.abs(self.A[:, used])])
        sums = share * _counted(parts, size) if len(self.A) else 0.0 * size
        settled = np.zeros(self.n)
        for some in (parts[:1], parts):
            largest = _rounded_off(some, np.append(0.0, np.abs(self.b)), size)
            settled[used] = _placed(x, lower, upper, largest, sums)
            if not len(self.A) or self._missed_share(settled) <= FEASIBLE:
                return settled
        beta = beta + 0.0
        return settled if self._missed_share(settled) <= self._missed_share(beta) else beta

    def objective(self, beta: np.ndarray, H_beta: np.ndarray | None = None) -> float:
        """½ βᵀHβ + pᵀβ + Σ ε_i |β_i|."""
        H_beta = self.times(beta) if H_beta is None else H_beta
        return float(0.5 * (beta @ H_beta) + self.p @ beta + self.eps @ np.abs(beta))

    def gradient(self, beta: np.ndarray, eta: np.ndarray, H_beta: np.ndarray | None = None) -> np.ndarray:
        """s = Hβ + p + Aᵀη, without the ε term, which has a corner at 0."""
        H_beta = self.times(beta) if H_beta is None else H_beta
        return H_beta + self.p + self.A.T @ eta if len(eta) else H_beta + self.p

    def infeasibility(self, beta: np.ndarray) -> float:
        """The largest violation of a box, as a share of it, or of an equality constraint, as a share of its terms."""
        outside, largest = 0.0, float(np.abs(beta).max(initial=0.0))
        for at in _spans(self.n):
            lower, upper, x = self.lower[at], self.upper[at], beta[at]
            beyond = np.maximum(lower - x, x - upper)
            if not (beyond <= 0.0).all():
                size = np.maximum(np.abs(lower), np.abs(upper))
                size = np.where(np.isfinite(size) & (size > 0.0), size, max(largest, np.finfo(float).tiny))
                outside = float(np.maximum(outside, (beyond / size).max()))
        if not len(self.A):
            return outside
        return float(np.maximum(outside, self._missed_share(beta)))

    def _missed_share(self, beta: np.ndarray) -> float:
        return missed_share(self.A, self.b, beta, self._missed(beta))

    def _missed(self, beta: np.ndarray) -> np.ndarray:
        """Aβ − b, of limits only what is beyond them."""
        lack = self.A @ beta - self.b
        if self.limits:
            rows = list(self.limits)
            lack[rows] = np.maximum(lack[rows], 0.0)
        return lack

    def violation(self, beta: np.ndarray, s: np.ndarray) -> float:
        """The largest decrease rate of a variable that may grow plus that of one that may shrink.

        With one equality constraint this is LIBSVM's m(β) − M(β), whatever η.
        """
        grow, shrink = 0.0, 0.0
        for at in _spans(self.n):
            x, slope, eps = beta[at], s[at], self.eps[at]
            up = down = slope
            if eps.any():
                up, down = slope + np.where(x >= 0, eps, -eps), slope + np.where(x > 0, eps, -eps)
            # np.maximum: what is no number stays none, where Python's max would drop it.
            grow = np.maximum(grow, -np.where(x < self.upper[at], up, 0.0).min(initial=0.0))
            shrink = np.maximum(shrink, np.where(x > self.lower[at], down, 0.0).max(initial=0.0))
        return float(grow + shrink)

    def gap(self, beta: np.ndarray, eta: np.ndarray, s: np.ndarray) -> float:
        """How far the objective can be from its optimum (see above)."""
        return self._box_bounds(beta, eta, s, self.ridge)[0]

    def _bounds(self, beta: np.ndarray, eta: np.ndarray, slope: np.ndarray) -> tuple[float, float]:
        """The gap, and the primal value without ½ βᵀKβ, by all that is known of the slope of the objective at β.

        A primal value of ∞ says nothing: it is the dual value and the gap together then.
        """
        return self._box_bounds(beta, eta, slope, self.ridge)

    def _box_bounds(
        self, beta: np.ndarray, eta: np.ndarray, s: np.ndarray, within: np.ndarray | None = None
    ) -> tuple[float, float]:
        """The same by the box alone, for any s; ``within`` times β is a part of it that does not belong to r."""
        rows = []
        for at in _spans(self.n):
            r = s[at] if within is None else s[at] - within[at] * beta[at]
            rows.append(self._row_bounds(beta[at], r, at))
        gap, risk = (float(sum(column)) for column in zip(*rows, strict=True)) if rows else (0.0, 0.0)
        if self.limits:
            limits = list(self.limits)
            gap += float(eta[limits] @ np.maximum(self.b[limits] - self.A[limits] @ beta, 0.0))
        return gap, risk + float(eta @ self.b)

    def _row_bounds(self, beta: np.ndarray, r: np.ndarray, at: Any) -> tuple[float, float]:
        """The sums over some variables: of their gaps, and of the values of their maxima (see above)."""
        eps, ridge, z = self.eps[at], self.ridge, self._best(r, at)
        d = None if ridge is None else ridge[at]
        if np.isinf(z).any():
            return float("inf"), float("inf")  # an infinite box without curvature bounds nothing
        kinked, values = bool(eps.any()), -r * z
        if kinked:
            values -= eps * np.abs(z)
        if d is not None:
            values -= 0.5 * d * (z * z)
        terms = values  # they are the same where β is 0
        if beta.any():
            terms = r * (beta - z)
            if kinked:
                terms += eps * (np.abs(beta) - np.abs(z))
            if d is not None:
                terms += 0.5 * d * (beta * beta - z * z)
        return float(np.maximum(terms, 0.0).sum()), float(values.sum())  # each gap is a maximum over z = β too

    def _best(self, r: np.ndarray, at: Any) -> np.ndarray:
        """The z that minimise r z + ½ d z² + ε|z| over the box: soft-threshold, then clip; a corner where d is 0."""
        lower, upper, eps = self.lower[at], self.upper[at], self.eps[at]
        shrunk = np.sign(-r) * np.maximum(np.abs(r) - eps, 0.0) if eps.any() else -r
        d = None if self.ridge is None else self.ridge[at]
        if d is not None and (d > 0.0).all():
            return np.clip(shrunk / d, lower, upper)
        nearest = np.minimum(np.maximum(lower, 0.0), upper)
        z = np.where(shrunk < 0.0, lower, np.where(shrunk > 0.0, upper, nearest))
        if d is None or not (curved := d > 0.0).any():
            return z
        return np.where(curved, np.clip(shrunk / np.where(curved, d, 1.0), lower, upper), z)

    def _blurred(self, beta: np.ndarray, slope: np.ndarray, drift: float) -> float:
        """By how much the primal value may grow at most where each slope is wrong by ``drift``.

        The maxima over z are convex in r, and their slopes are −z.
        """
        if drift == 0.0:
            return 0.0
        most = 0.0
        for at in _spans(self.n):
            r = slope[at] if self.ridge is None else slope[at] - self.ridge[at] * beta[at]
            most += float(np.maximum(np.abs(self._best(r - drift, at)), np.abs(self._best(r + drift, at))).sum())
        return drift * most

    def certificate(self, beta: np.ndarray, eta: np.ndarray, w: np.ndarray | None = None) -> Certificate:
        """The proof of quality for β and η; with a w of its own the primal value and the gap are those of w.

        The violation is always that of β: its conditions say that w = Zᵀβ.
        """
        product = self._product(beta)
        if w is product.w or (w is not None and product.w is not None and np.array_equal(w, product.w)):
            w = None  # nothing of its own
        about = tuple(None if one is None else _digest(one) for one in (beta, eta, w))
        kept = self._last.setdefault("certificates", {})
        if about not in kept:  # a solver's answer, of several; the judge's look; the published model
            kept[about] = self._certificate(beta, eta, w, product)
            for oldest in list(kept)[:-KEPT]:
                del kept[oldest]
        return kept[about]

    def _certificate(self, beta: np.ndarray, eta: np.ndarray, w: np.ndarray | None, product: _Product) -> Certificate:
        H_beta, own = product.H_beta, product.w
        slope = self.gradient(beta, eta, H_beta)
        dual = -self.objective(beta, H_beta) - float(eta @ self._missed(beta))
        if w is not None and own is not None:
            gap, risk = self._box_bounds(beta, eta, self.gradient(beta, eta, self._along(w)))
            gap += 0.5 * float((w - own) @ (w - own))
            penalty = 0.5 * float(w @ w)
        else:
            gap, risk = self._bounds(beta, eta, slope)
            penalty = 0.5 * float(beta @ H_beta) - (
                0.0 if self.ridge is None else 0.5 * float(beta * beta @ self.ridge)
            )
        if -GAP_ROUNDING * max(abs(dual), self.idle) < gap < 0.0:
            gap = 0.0
        # What an approximation of H can hide makes the dual smaller at β and nowhere larger.
        hidden, tilt = self.H.hides(beta) if hasattr(self.H, "hides") else (0.0, 0.0)
        # What it blurs may make the dual smaller at β, and the primal larger there.
        blur, drift = self.H.blurs(beta) if hasattr(self.H, "blurs") else (0.0, 0.0)
        violation = self.violation(beta, slope) + self._idle_limits(beta, eta) + 2.0 * (tilt + drift)
        primal = penalty + risk if gap > abs(penalty + risk) else dual + gap
        higher = blur + self._blurred(beta, slope, drift)
        primal, dual, gap = primal + higher, dual - hidden - blur, gap + hidden + blur + higher
        # Where nothing is left to gain, β is rounding and misses constraints by all that it is; 0 proves as much.
        nothing = dual <= 0.0 and abs(primal) <= GAP_ROUNDING * self.idle and self._takes_zero()
        lack = 0.0 if nothing else self.infeasibility(beta)
        return Certificate(primal, dual, gap, violation, lack, self.scale or self._in_line(beta))

    def _takes_zero(self) -> bool:
        """Whether β = 0 is feasible."""
        inside = bool(((self.lower <= 0.0) & (self.upper >= 0.0)).all())
        return inside and self.infeasibility(np.zeros(self.n)) == 0.0

    def _idle_limits(self, beta: np.ndarray, eta: np.ndarray) -> float:
        """Multipliers of limits that β does not reach (they belong at 0), each times the share of b that is left."""
        rows = list(self.limits)
        if not rows:
            return 0.0
        left = np.maximum(self.b[rows] - self.A[rows] @ beta, 0.0)
        return float(np.abs(eta[rows]) @ (left / np.maximum(np.abs(self.b[rows]), np.finfo(float).tiny)))

    @property
    def idle(self) -> float:
        """The primal objective of a model that does nothing, or 0 where that has none."""
        if "idle" not in self._last:
            nothing = np.zeros(self.n), np.zeros(len(self.A)), self.p
            idle = self._bounds(*nothing)[0] if self.primal is None else self.primal.idle
            self._last["idle"] = idle if np.isfinite(idle) else 0.0
        return self._last["idle"]

    @property
    def scale(self) -> float:
        """What an objective is compared with to tell whether it is 0 but for rounding."""
        return self.idle if self.ridge is None else SQUARES * self.idle

    @property
    def _diagonal(self) -> np.ndarray:
        return self.kept("diagonal", lambda _: self.H.diag() if hasattr(self.H, "diag") else np.diagonal(self.H))

    def terms(self, beta: np.ndarray) -> float:
        """Σ_i |H_ij β_i| at most, for variables j whose coefficients are free: rounding of f there is a share of it."""
        norm = np.sqrt(np.maximum(self._diagonal, 0.0))
        free = (beta > self.lower) & (beta < self.upper)
        return float(norm[free if free.any() else beta != 0.0].max(initial=0.0)) * float(np.abs(beta) @ norm)

    def _in_line(self, beta: np.ndarray) -> float:
        """½ βᵀHβ if nothing cancelled: what it is measured by where coefficients have a sum to keep and no targets.

        A one-class machine whose samples surround the origin, and a ν-SVC without a margin, have an optimum of 0.
        """
        return 0.5 * float(np.abs(beta).sum()) * self.terms(beta) if self.b.any() else 0.0


def _placed(x: np.ndarray, lower: np.ndarray, upper: np.ndarray, most: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Coefficients, on a bound or at 0 where they are as near to it as a small share of the bound, or of ``most``.

    Next to a bound that is not 0 rounding is a share of the bound, or that of ``sums`` which coefficients have to keep:
    where classes are of equal cost, one of the least costs is left short of its bound by that, and is not free. Next to
    0 it is a share of the coefficients there are.
    """
    most = np.minimum(np.maximum(np.abs(lower), np.abs(upper)), most)
    for place in (np.clip(0.0, lower, upper), lower, upper):
        if np.isfinite(place).any():
            dust = np.maximum(DUST * np.abs(place), np.minimum(sums, 0.5 * np.abs(place)))
            dust = np.where(place == 0.0, DUST * most, dust)
            x = np.where(np.abs(x - place) <= np.where(np.isfinite(dust), dust, 0.0), place, x)
    return x + 0.0  # no −0, which attributes do not keep: the same β would be multiplied a second time


def _counted(parts: np.ndarray, size: np.ndarray) -> np.ndarray:
    """For each coefficient the least that counts for as much as all of them together, in any of their ``parts``."""
    sums = parts @ size
    return np.divide(sums[:, None], parts, out=np.full(parts.shape, np.inf), where=parts > 0.0).min(axis=0)


def _rounded_off(parts: np.ndarray, least: np.ndarray, size: np.ndarray) -> np.ndarray:
    """For each coefficient what it is rounded by a share of, if others are of this size.

    That is the largest of them, but no more than counts for as much as all of them, in any of the ``parts`` that they
    have: in f a sample at the origin has a coefficient of any size without a part, and in a constraint a function that
    is 1 at a sample and 1e-14 at all others needs a coefficient there of 1e-14 of theirs.
    """
    sums = np.maximum((parts * size).max(axis=1), least[: len(parts)])
    counts = np.divide(sums[:, None], parts, out=np.full(parts.shape, np.inf), where=parts > 0.0)
    return np.minimum(counts.min(axis=0), size.max())


def missed_share(A: np.ndarray, b: np.ndarray, beta: np.ndarray, lack: np.ndarray) -> float:
    """What the rows of A lack, as a share of their terms: the largest."""
    size = np.abs(beta)
    largest = float(size.max(initial=0.0))
    # Where a row has coefficients that are rounding of others, so is what it lacks.
    rounding = SAME_NUMBER * largest * np.abs(A).max(axis=1, initial=0.0)
    terms = np.abs(b)
    if largest > 0.0:
        terms = terms + np.array([np.abs(row) @ size for row in A])
    left = np.maximum(np.abs(lack) - rounding, 0.0)
    return float((left / np.maximum(terms, np.finfo(float).tiny)).max(initial=0.0))


@dataclass
class _Product:
    """Hβ, known by β or by what tells it from others, and Zᵀβ where H is known by features."""

    beta: np.ndarray | None
    name: bytes | None
    w: np.ndarray | None
    H_beta: np.ndarray

    def is_of(self, beta: np.ndarray, name: bytes | None) -> bool:
        """Whether β is the same but for its own rounding, as after a scale and back: so is its product then."""
        if self.beta is None:
            return name is not None and self.name == name
        return bool((np.abs(beta - self.beta) <= SAME_NUMBER * np.abs(self.beta)).all())


def _digest(numbers: np.ndarray) -> bytes:
    """What tells arrays of float64 from each other: their bytes, of long ones a hash."""
    data = np.ascontiguousarray(numbers, np.float64).data
    return data.tobytes() if data.nbytes <= SHORT else hashlib.blake2b(data, digest_size=16).digest()


@dataclass(frozen=True)
class ERM:
    """The primal view: min ½ βᵀKβ + Σ C_i ℓ(y_i, (Kβ)_i + φ(x_i)ᵀη), or the same in w where K = ZZᵀ and Kβ = Zw.

    Its dual has β_i = −C_i u_i ∂a_i/∂f with u_i in the domain of the conjugate ℓ*, and φβ = 0:

        max  −½ βᵀKβ − Σ C_i ℓ*(u_i)  (+ yᵀβ where the loss looks at f − y)
    """

    K: Any
    y: np.ndarray
    cost: np.ndarray
    loss: Loss
    phi: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # rows φ_j(x_i), as the rows of a QP's A

    @property
    def n(self) -> int:
        return len(self.y)

    def times(self, beta: np.ndarray) -> np.ndarray:
        """Kβ."""
        return self.K.matvec(beta) if hasattr(self.K, "matvec") else np.asarray(self.K) @ beta

    def decision(self, beta: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """f at the training points."""
        return self.times(beta) + self._parametric(eta)

    def _parametric(self, eta: np.ndarray) -> Any:
        return self.phi.T @ eta if len(eta) else 0.0

    def _risk(self, f: np.ndarray) -> float:
        return float(self.cost @ self.loss.value(self.loss.argument(self.y, f)))

    @property
    def idle(self) -> float:
        """The risk of f = 0."""
        return self._risk(np.zeros(self.n))

    def objective(self, beta: np.ndarray, eta: np.ndarray) -> float:
        """The regularised risk."""
        K_beta = self.times(beta)
        return 0.5 * float(beta @ K_beta) + self._risk(K_beta + self._parametric(eta))

    def asked(self, f: np.ndarray) -> np.ndarray:
        """The β that the loss asks for at f: −C ∂ℓ/∂f."""
        pull = -self.cost * self.loss.slope(self.loss.argument(self.y, f))
        return self.y * pull if self.loss.classification else pull

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The β that have a dual value: −C times the domain of the conjugate."""
        upper, lower = (np.zeros(self.n) if end == 0.0 else -self.cost * end for end in self.loss.domain)
        if not self.loss.classification:
            return lower, upper
        positive = self.y > 0
        return np.where(positive, lower, -upper), np.where(positive, upper, -lower)

    def dual(self, beta: np.ndarray, penalty: float) -> float:
        """The dual value of a β in its box with φβ = 0; penalty is ½ βᵀKβ."""
        u = -beta / self.cost
        if self.loss.classification:
            return -penalty - float(self.cost @ self.loss.conjugate(self.y * u))
        return -penalty + float(self.y @ beta) - float(self.cost @ self.loss.conjugate(u))

    def qp(self) -> QP:
        """The dual: the conjugate of the loss is linear, with a kink at 0 and a curvature, in a box."""
        linear, curvature, kink = self.loss.conjugate_terms
        p = -linear * self.y if self.loss.classification else -self.y
        H = self.K if curvature == 0.0 else self.K.ridged(curvature / self.cost)
        A = self.phi if len(self.phi) else np.zeros((0, self.n))
        return QP(H, p, *self.box(), A, np.zeros(len(A)), np.full(self.n, kink), primal=self)
