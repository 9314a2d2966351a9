"""Newton's method on rounded corners: w and η of a long linear problem to a few digits, in few passes (PRIMAL §2).

With s = Zw + p + Aᵀη the QP's Lagrangian dual, the primal, is

    min over w, η   ½‖w‖² + bᵀη + Σ_i max_{β_i in its box} [ −s_i β_i − ½ d_i β_i² − ε_i |β_i| ]

Without a ridge d_i the sum has corners (the hinge), where β_i jumps from one bound to the other. Rounded off,

    β_i(s) = middle + ½ (upper − middle) (1 − q(s + ε)) − ½ (middle − lower) (1 + q(s − ε)),     q(t) = t / √(t² + ρ²)

    gradient  [ w − Zᵀβ ; b − Aβ ]          Hessian  [ I 0; 0 0 ] + Ẑᵀ Θ Ẑ,     Ẑ = [Z, Aᵀ],   θ_i = −dβ_i/ds

    repeat
        Newton step on (w, η), to where the slope along it vanishes
        ρ <- less, once the step promised less than the corners hide
    until the gap is small, so few rows are near a corner that they decide one by one, or ρ is lost in the rounding of s

Huber's hinge (PRIMAL eq. 8) rounds corners off by a parabola; its curvature ends at once, so that Newton's method does
not see what is behind, and takes twice as many steps (measured: a9a). Here θ falls like |s|⁻³, and rows F with θ above
a small share of the most are all that cost d² each. When they are not much more than the features, Newton's method no
longer sees the whole from its rows: the interior method (screening.py) goes on from there.

Samples, whose boxes are as much wider as they are smaller, say where to start.

| PRIMAL | here |
| --- | --- |
| sv, the rows in the quadratic part of the loss | F |
| λI + X_svᵀX_sv | the Hessian |
| Huber's h | ρ |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from ..._jit import inline, jit, read_only
from ...gram.base import Factor
from ...monitor import Monitor, Stopped
from ...problem import QP
from ...rows import Block, Crew, Rows
from ...rows.blocks import Normal
from ...solution import Status
from .limits import ROUNDS
from .newton_systems import factor_spd

__all__ = ["Near", "approach"]

FEWER_ROWS = 8  # times fewer rows has the next smaller sample
SAMPLE_BYTES = 1 << 28  # bytes has the largest sample of rows that are not in memory
SAMPLE_ROWS = 1000  # has the smallest sample at least
FIRST_RHO = 2.0  # times the mean of |s| at the start is ρ at first
LESS_RHO = 0.2  # of a ρ is the next one
LEVEL_STEPS = 10  # steps are taken with one ρ; a sample that needs more has told what it knows
PROMISE = 0.5  # of what the corners hide: a step that promises less ends the work with this ρ
LEFT_SLOPE = 0.2  # of the slope at 0 may be left where a search along a line ends
SHORT_STEPS = np.array([0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8])  # of a step that is too long
LONG_STEPS = np.array([1.5, 2.5, 4.0, 8.0, 16.0])  # of a step that is too short
ZOOMS = 8  # times a search goes into the shortest of these, a hundredth each time
WORTH_A_PLACE = 0.02  # of the largest θ is worth a row's place in F
ENOUGH_A_FEATURE = 8  # rows make a Hessian, and a sample: of more with a curvature, some are taken with more weight,
A_PASS = (
    12.0  # unless they cost no more than a pass over all rows: they are this share of them over the entries of a row
)
FEW, FEW_OF_SAMPLE = 12.0, 18.0  # rows of F a feature: with fewer we leave off
HELD_ETA = 1e-5  # of the curvature that η would have if all rows were in F is added, which keeps its step finite
USED_FEATURE = 1e-9  # of the largest diagonal entry: a feature with less has next to no rows


@dataclass(frozen=True)
class Near:
    """A point near the solution."""

    x: np.ndarray  # [w; η]
    beta: np.ndarray  # where x sends the rows it was made from
    rho: float
    gap: float  # relative, for Aβ as it is
    steps: int
    stopped: Status | None  # by the monitor


def approach(qp: QP, factor: Factor, tol: float, monitor: Monitor, seed: int = 0) -> Near:
    """A point of all rows whose relative gap is below ``tol``, or as near as this method gets quickly."""
    rows, ridge = factor.rows, np.zeros(qp.n) if factor.ridge is None else factor.ridge
    whole = (ridge, qp.p, qp.lower, qp.upper, qp.eps, qp.A)
    sizes = [qp.n]
    while sizes[-1] // FEWER_ROWS >= max(SAMPLE_ROWS, ENOUGH_A_FEATURE * rows.d):
        sizes.append(sizes[-1] // FEWER_ROWS)
    most = qp.n * (SAMPLE_BYTES if rows.stored else np.inf) / (8 * max(1, rows.work))
    sizes = [size for size in sizes if size == qp.n or size <= most]
    order = np.random.default_rng(seed).permutation(qp.n) if len(sizes) > 1 else np.arange(qp.n)
    near = Near(np.zeros(rows.d + len(qp.b)), np.zeros(qp.n), np.inf, np.inf, 0, None)
    for size in reversed(sizes[1:]):
        some = np.sort(order[:size])
        part = _sampled(whole, some, size / qp.n)
        near = _minimise(rows.take(some), part, qp.b, near, 0.0, FEW_OF_SAMPLE, monitor)
        if near.stopped:
            break
    return _minimise(rows, whole, qp.b, near, tol, FEW, monitor)


def _sampled(whole: tuple, some: np.ndarray, share: float) -> tuple:
    """The per-row vectors of a sample, its boxes wider and its ridges smaller."""
    ridge, p, lower, upper, eps, A = (v[..., some] for v in whole)
    return share * ridge, p, lower / share, upper / share, eps, A


def _minimise(rows: Rows, vectors: tuple, b: np.ndarray, near: Near, tol: float, few: float, monitor: Monitor) -> Near:
    """Newton's method on these rows from where the last ones left off."""
    heard: list[bool] = []  # while a matrix is added up: what is read then changes nothing that is kept
    d, crew, x = rows.d, rows.crew(CornerRows, vectors, look=lambda: monitor.look() if heard else None), near.x
    inside, tried, steps = 0, 0, near.steps
    is_w, diagonal = np.arange(len(x)) < d, np.diag_indices(len(x))
    level = crew.sum("look", x) / rows.n
    rho = min(near.rho, FIRST_RHO * (level or 1.0))  # where s = 0 for all rows, any ρ will do
    # s is rounded by that share of its terms, and cannot tell on which side it is of a sharper corner.
    sharpest = np.finfo(float).eps * float(np.mean(np.abs(vectors[1])) or 1.0)
    pulled, factor, before = np.zeros(len(x)), None, np.inf
    enough = max(ENOUGH_A_FEATURE * len(x), A_PASS * rows.n * rows.n / max(1, rows.work))
    while True:
        sums, most = zip(*crew.ask("respond", rho), strict=True)
        primal, value, hidden, widths, smooth = np.sum(sums, axis=0)
        pulled += crew.sum("pull")
        gradient = np.where(is_w, x, 0.0) - pulled
        gradient[d:] += b
        primal += 0.5 * x[:d] @ x[:d] + b @ x[d:]
        dual = -0.5 * pulled[:d] @ pulled[:d] - value
        gap = primal - dual + abs(x[d:] @ gradient[d:])
        size = max(abs(primal), abs(dual), np.finfo(float).tiny)
        relative = float(gap / size)
        promise = np.inf if factor is None else float(gradient @ cho_solve(factor, gradient, check_finite=False))
        stopped = monitor.step(steps, float(primal), relative, inside)
        # While η is 0, the gap does not see what constraints lack: a step that promises nothing shows that they hold.
        solved = relative <= tol and (len(b) == 0 or promise <= tol * size)
        # A step that has changed nothing followed the rounding of a slope, and so would all others.
        vain, before = tried > 0 and primal == before, primal
        tired = vain or tried == (LEVEL_STEPS if widths > 0.0 else ROUNDS)
        if solved or stopped or near.stopped:
            break
        if tired:
            rho /= LESS_RHO  # where we were sure of
            break
        if promise > PROMISE * hidden:
            inside = int(crew.sum("choose", WORTH_A_PLACE * max(most)))
            heard.append(True)
            try:
                M = crew.sum("normal", max(1, int(inside / enough)), steps)
                weight = M[diagonal]
                M[diagonal] = weight + np.where(is_w, 1.0, HELD_ETA * (widths / rho + smooth))
                factor = factor_spd(M, rows.threads, monitor.look)
            except Stopped as early:
                stopped = early.reason
                break
            finally:
                heard.clear()
        step = -cho_solve(factor, gradient, check_finite=False)
        promise = -float(gradient @ step)
        if promise <= PROMISE * hidden:
            # Rows may sit on their corner for good (w = 0 is best for a class that all others are like). And where
            # there are no corners, nothing depends on ρ: the step promises no more than rounding.
            smallest = widths == 0.0 or rho <= sharpest
            if smallest or inside < few * (weight > USED_FEATURE * weight.max()).sum():
                break
            rho, tried, factor = LESS_RHO * rho, 0, None
            continue
        crew.ask("aim", step)
        length = _search(crew, x, step, b, promise)
        crew.ask("move", length)
        x, steps, tried = x + length * step, steps + 1, tried + 1
    return Near(x, crew.collect("beta"), rho, relative, steps, stopped or near.stopped)


def _search(crew: Crew, x: np.ndarray, step: np.ndarray, b: np.ndarray, promise: float) -> float:
    """Where the slope along the step, which grows, vanishes: roughly, in few looks at s and its change."""
    d = len(x) - len(b)
    start, more = float(x[:d] @ step[:d] + b @ step[d:]), float(step[:d] @ step[:d])

    def slopes(lengths: np.ndarray) -> np.ndarray:
        return start + lengths * more - crew.sum("slopes", lengths)

    one = slopes(np.ones(1))
    if abs(one[0]) <= LEFT_SLOPE * promise:
        return 1.0
    if one[0] > 0.0:
        lengths, found = np.r_[0.0, SHORT_STEPS, 1.0], np.r_[-promise, slopes(SHORT_STEPS), one]
    else:
        lengths, found = np.r_[1.0, LONG_STEPS], np.r_[one, slopes(LONG_STEPS)]
    for _ in range(ZOOMS):
        after = int(np.argmax(found > 0.0))
        if after == 0:  # it is downhill as far as we look
            return float(lengths[-1])
        (low, high), (below, above) = lengths[after - 1 : after + 1], found[after - 1 : after + 1]
        length = low - below / (above - below) * (high - low)
        between = slopes(np.array([length]))[0]
        if abs(between) <= LEFT_SLOPE * promise:
            break
        # Far from straight: where no row has a curvature yet, the step is too long by orders of magnitude.
        low, high, below, above = (low, length, below, between) if between > 0.0 else (length, high, between, above)
        inside = low + SHORT_STEPS * (high - low)
        lengths, found = np.r_[low, inside, high], np.r_[below, slopes(inside), above]
    return float(length)


class CornerRows:
    """Rows of Z with their coefficients and slopes."""

    def __init__(
        self,
        block: Block,
        ridge: np.ndarray,
        p: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        eps: np.ndarray,
        A: np.ndarray,
    ) -> None:
        self.block, self.p, self.E = block, read_only(p), np.ascontiguousarray(A.T)
        self.box = tuple(read_only(a) for a in (ridge, eps, lower, upper))
        self.beta, self.change, self.theta, self.s, self.ds = (np.zeros(block.n) for _ in range(5))
        self.total = Normal(block.d, self.E.shape[1], look=block.look)
        self.rho = 0.0

    def look(self, x: np.ndarray) -> float:
        """s at x; Σ|s|. Reads Z."""
        self._dot(x, self.s)
        self.s += self.p
        return float(np.abs(self.s).sum())

    def respond(self, rho: float) -> tuple[np.ndarray, float]:
        """β of s: sums (``corner``), and the largest θ."""
        self.rho = rho
        sums = np.zeros(5)
        return sums, corner(self.s, self.p, *self.box, rho, self.beta, self.theta, self.change, sums)

    def choose(self, least: float) -> int:
        """Rows with a smaller θ count as flat; how many are left."""
        self.theta[self.theta < least] = 0.0
        return int(np.count_nonzero(self.theta))

    def pull(self) -> np.ndarray:
        """Ẑᵀ of how β changed. Reads Z."""
        return np.concatenate([self.block.t_dot(self.change), self.change @ self.E])

    def normal(self, every: int, number: int) -> np.ndarray:
        """The upper triangle of Ẑᵀ Θ Ẑ, by one row in ``every``. Reads Z."""
        theta, total = self.theta, self.total.clear()
        if every > 1:
            F = np.flatnonzero(theta)[number % every :: every]
            theta = np.zeros_like(theta)
            theta[F] = every * self.theta[F]
        for a, b, tile in self.block.tiles(squared=True):
            total.add(tile, theta[a:b], self.E[a:b])
        return total.upper()

    def aim(self, step: np.ndarray) -> None:
        """ds of a step. Reads Z."""
        self._dot(step, self.ds)

    def slopes(self, lengths: np.ndarray) -> np.ndarray:
        """Σ β(s + t ds) ds for each length t."""
        out = np.zeros(len(lengths))
        along(self.s, self.ds, *self.box, self.rho, lengths, out)
        return out

    def move(self, length: float) -> None:
        """Go along ds."""
        self.s += length * self.ds

    def _dot(self, x: np.ndarray, out: np.ndarray) -> None:
        d = self.block.d
        self.block.dot(x[:d], out)
        if len(x) > d:
            out += self.E @ x[d:]


@inline
def _soft(s, e):
    """How far −s is beyond ±ε."""
    return max(-s - e, 0.0) + min(-s + e, 0.0)


@jit
def corner(s, p, ridge, eps, lower, upper, rho, beta, theta, change, sums):
    """β(s), θ, how β changed, the largest θ; sums += primal, dual, gap, half-widths with corners, 1 / ridge."""
    square, most = rho * rho, 0.0
    for i in range(len(s)):
        at, v, e, low, high = s[i], ridge[i], eps[i], lower[i], upper[i]
        mid = min(max(0.0, low), high)
        if v > 0.0:
            x = _soft(at, e) / v
            curvature = 1.0 / v if low < x < high and x != 0.0 else 0.0
            x = z = min(max(x, low), high)
            sums[4] += 1.0 / v
        else:
            up, down = 0.5 * (high - mid), 0.5 * (mid - low)
            a = 1.0 / np.sqrt((at + e) * (at + e) + square)
            b = 1.0 / np.sqrt((at - e) * (at - e) + square)
            x = mid + up * (1.0 - (at + e) * a) - down * (1.0 + (at - e) * b)
            curvature = square * (up * a * a * a + down * b * b * b)
            z = high if at < -e else (low if at > e else mid)
            sums[3] += up + down
        most = max(most, curvature)
        theta[i], change[i], beta[i] = curvature, x - beta[i], x
        own = 0.5 * v * x * x + e * abs(x)
        best = -(at * z + 0.5 * v * z * z + e * abs(z))
        sums[0] += best
        sums[1] += p[i] * x + own
        sums[2] += best + at * x + own
    return most


@jit
def along(s, ds, ridge, eps, lower, upper, rho, lengths, out):
    """out[k] += Σ β(s + t_k ds) ds."""
    square = rho * rho
    for i in range(len(s)):
        v, e, low, high, change = ridge[i], eps[i], lower[i], upper[i], ds[i]
        mid = min(max(0.0, low), high)
        up, down = 0.5 * (high - mid), 0.5 * (mid - low)
        for k in range(len(lengths)):
            at = s[i] + lengths[k] * change
            if v > 0.0:
                x = min(max(_soft(at, e) / v, low), high)
            else:
                x = mid + up - down
                x -= up * (at + e) / np.sqrt((at + e) * (at + e) + square)
                x -= down * (at - e) / np.sqrt((at - e) * (at - e) + square)
            out[k] += x * change
