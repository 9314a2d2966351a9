"""SOR in its linear form: one row at a time on the dual, w kept up to date (Mangasarian & Musicant 1999; Hsieh 2008).

    min ½ βᵀ(ZZᵀ + diag(d))β + pᵀβ + Σ ε_i |β_i|   s.t.  box,  Aβ = b

    for i in a new random order                              a sweep
        g    <- z_iᵀw + d_i β_i + p_i + e_iᵀv                the slope along β_i
        β_i  <- clip(β_i + ω (its minimum − β_i))
        w, v <- w + Δ z_i, v + Δ e_i                         Δ: how far β_i moved
    v <- v + u,  u = what constraints lack, in units of e    the multipliers, once a sweep
    now and then: the exact gap; rows stuck at a bound drop out and come back

A free bias, or any row of A, is the method of multipliers: H becomes H + ρ QᵀQ with Q = TA orthonormal, which changes
nothing where Qβ = c holds, and η = √ρ Tᵀv follows from v = t + u with t <- v. A penalised bias is the same
column with t = 0 for ever. One step of t a sweep costs nothing and takes no more sweeps than a problem without
constraints (measured: a9a, ijcnn1, MNIST, news20; ρ = 0.1 of the mean curvature; from 0.03 to 0.3 as good).

What makes it quick. All that a step needs of a row but z_i itself lies in one line of memory (``state``). The next rows
are asked from memory while one is at work: random order then costs what sequential order does (a9a: 70 ns a
row instead of 205). The gap is estimated from the slopes that a sweep sees anyway, so that the exact one, which
costs a pass, is rarely computed in vain. Measured and left out: extrapolation along the last sweeps (clipping breaks
what the sweeps had balanced), averages of w (the primal falls sooner, the dual and so the gap do not).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._jit import dot, inline, jit, prefetch
from ..monitor import Monitor
from ..problem import QP
from ..rows import Block, Dense, Rows, Sparse, Stored
from ..solution import Status
from .equality import Equality
from .pairs import HUGE

__all__ = ["RowSweeps"]

AUGMENT = 0.1  # ρ in units of the mean curvature
KEEP_BYTES = 1 << 29  # rows that need a cast, come from disk or lie in many arrays: up to here they are copied
FAR_BYTES = 1 << 26  # of such rows at work at a time, if they are more
CHUNK = 64  # of such rows that stay together
CALL_ENTRIES = 20_000_000  # numbers of Z that a call of a leaf looks at: some 50 ms between two looks at the clock
SHRINK = 0.25  # of the largest violation: a row that is pushed to its bound by more drops out
TRIAL = 5  # sweeps that tell whether there is hope
LOOK_ROWS = 5  # times n rows are visited at most before all rows are looked at again
AGAIN = 0.7  # of the estimated gap at a look in vain: then the next look is worth it
STALL_LOOKS = 50  # without progress before multipliers become more patient, or rounding is blamed
MOST_PATIENT = 256  # sweeps between two steps of the multipliers
NO_PROGRESS = 1e-14  # of the objective
NO_GAP = 1e-12  # of the first gap: enough where the optimum is 0, so that no share of it can be reached
ROUNDING = 1e-14  # of the sizes of all terms of the objective: the same for a start that is good already
LEAST_VISITS = 10_000_000  # rows that are visited at least before sweeps without a limit end
LEAST_SWEEPS = 1000
FURTHEST = 2.0 * HUGE  # stands for infinity in a box: what gets there shows that there is no minimum

BETA, LOWER, UPPER, P, RIDGE, CURVATURE, EPS, EXTRA = range(8)  # columns of the state of a row
LINE = 8  # numbers in a line of memory


class _Piece:
    """Rows that are swept together, as the leaves want them, and which of them are still at work."""

    def __init__(self, index: Any, n: int, entries: int, load: Callable[[], tuple]) -> None:
        self.index = index  # their numbers, or a slice
        self.load = load  # (X,) or (indptr, indices, data)
        self.entries = entries
        self.active = np.arange(n)

    def sweep(self, run: RowSweeps, bound: float) -> tuple[float, float, float]:
        """Visit the active rows in a new order; the largest violation, the gap and the decrease that steps saw."""
        run.seed = shuffle(self.active, run.seed)
        rows = self.load()
        leaf = dense_sweep if len(rows) == 1 else sparse_sweep
        state = run.state[self.index]  # a copy if the rows are not neighbours
        count = len(self.active)
        runs = 1 + self.entries * count // (len(state) * CALL_ENTRIES)
        edges = [count * k // runs for k in range(runs + 1)]
        kept = []
        worst, slack, saved = 0.0, 0.0, 0.0
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            active = self.active[a:b]
            if run.monitor.stop_now():
                kept.append(active)
                continue
            stay, most, seen, less = leaf(*rows, run.w, run.v, state, run.extra, active, bound, run.omega)
            kept.append(active[:stay])
            worst, slack, saved = max(worst, most), slack + seen, saved + less
        self.active = kept[0] if runs == 1 else np.concatenate(kept)
        if not isinstance(self.index, slice):
            run.state[self.index, BETA] = state[:, BETA]
        return worst, slack, saved


class RowSweeps:
    """One call: the state that sweeps share."""

    def __init__(
        self, qp: QP, rows: Rows, ridge: np.ndarray | None, constant: float, omega: float, seed: int, monitor: Monitor
    ) -> None:
        self.qp, self.rows, self.monitor = qp, rows, monitor
        self.constant, self.omega = constant, omega
        self.equality = Equality.of(qp)
        self.seed = 1 + (48271 * (seed + 1)) % (SHUFFLE_MODULUS - 1)
        hard = self.equality.count
        self.hard = slice(0, hard)
        extra = hard + (constant > 0)
        state = np.zeros((qp.n, -(-(EXTRA + extra) // LINE) * LINE))
        columns = {LOWER: qp.lower, UPPER: qp.upper, P: qp.p, RIDGE: 0.0 if ridge is None else ridge, EPS: qp.eps}
        for column, value in columns.items():
            state[:, column] = value
        state[:, CURVATURE] = rows.squared_norms() + constant + state[:, RIDGE]
        mean = float(state[:, CURVATURE].mean()) or 1.0
        self.root = np.sqrt(AUGMENT * mean)
        state[:, EXTRA : EXTRA + hard] = self.root * self.equality.Q.T
        state[:, EXTRA + hard : EXTRA + extra] = np.sqrt(constant)
        state[:, CURVATURE] += (state[:, EXTRA : EXTRA + hard] ** 2).sum(axis=1)
        np.clip(state[:, LOWER : UPPER + 1], -FURTHEST, FURTHEST, out=state[:, LOWER : UPPER + 1])
        self.state, self.extra = state, extra
        self.offset = np.concatenate([self.root * self.equality.c, np.zeros(extra - hard)])
        self.t = np.zeros(extra)
        self.pieces = _pieces(rows)
        self.bound = np.inf
        self.sweeps = 0
        self.every = 1  # sweeps between two steps of the multipliers

    @property
    def beta(self) -> np.ndarray:
        return self.state[:, BETA]

    @property
    def multipliers(self) -> np.ndarray:
        """η of Aβ = b."""
        return self.equality.T.T @ (self.root * self.v[self.hard])

    @property
    def lack(self) -> np.ndarray:
        """u: what the constraints lack, in units of the extra columns (and √constant Σβ for a penalised bias)."""
        return self.beta @ self.state[:, EXTRA : EXTRA + self.extra] - self.offset

    def solve(self, start: np.ndarray | None, tol: float, max_iter: int, shrinking: bool, hope: float) -> Status:
        """Sweep until the relative gap is below tol, or a few sweeps have left it above ``hope``."""
        qp, monitor = self.qp, self.monitor
        most = max_iter if max_iter > 0 else max(LEAST_SWEEPS, LEAST_VISITS // qp.n)
        self._begin(start)
        visited, estimate, waited, best = 0, np.inf, 0, (np.inf, np.inf)
        while True:
            active = sum(len(piece.active) for piece in self.pieces)
            visited += active
            worst, slack = self._sweep(shrinking)
            self.sweeps += 1
            stop = monitor.step(self.sweeps, self.objective, worst, active)
            due = slack <= min(tol * abs(self.objective), AGAIN * estimate) or visited > LOOK_ROWS * qp.n
            if due or not worst > 0.0:
                gap = self._look(SHRINK * worst if shrinking else np.inf)
                if np.isfinite(gap) and gap <= max(tol * self._size(gap), self.negligible):
                    return Status.CONVERGED
                if np.abs(self.beta).max(initial=0.0) > HUGE:
                    return Status.UNBOUNDED
                better = gap < 0.99 * best[0] or self.objective < best[1] - NO_PROGRESS * abs(self.objective)
                waited = 0 if better else waited + 1
                if waited >= STALL_LOOKS:
                    if self.every >= MOST_PATIENT or not self.equality.count:
                        return Status.STALLED
                    self.every, waited = 4 * self.every, 0
                best = min(gap, best[0]), min(self.objective, best[1])
                visited, estimate = 0, slack if slack > 0 else np.inf
            hopeless = self.sweeps == TRIAL and slack > hope * abs(self.objective)
            if stop or hopeless or self.sweeps >= most:
                self._hold()
                return stop or Status.MAX_ITERATIONS

    def _size(self, gap: float) -> float:
        """What a relative gap is a share of: the larger of primal and dual."""
        return max(abs(self.objective), abs(gap - self.objective))

    def _begin(self, start: np.ndarray | None) -> None:
        qp = self.qp
        beta = np.zeros(qp.n) if start is None else np.asarray(start, np.float64)
        self.state[:, BETA] = beta = self.equality.feasible(beta, qp.lower, qp.upper, qp.eps)
        self.w = self.rows.t_dot(beta) if beta.any() else np.zeros(self.rows.d)
        H_beta = self._times(beta)
        if beta.any() and self.equality.count:
            self.t[self.hard] = self.equality.multipliers(qp, beta, H_beta) / self.root
        self.objective = qp.objective(beta, H_beta)
        self.v = self.t + self.lack
        gap = qp.gap(beta, self.multipliers, qp.gradient(beta, self.multipliers, H_beta))
        terms = 0.5 * float(self.state[:, CURVATURE] @ (beta * beta)) + float(np.abs(qp.p) @ np.abs(beta))
        self.negligible = max(NO_GAP * gap if np.isfinite(gap) else 0.0, ROUNDING * terms)

    def _times(self, beta: np.ndarray) -> np.ndarray:
        """Hβ from w."""
        f = self.rows.dot(self.w) if self.w.any() else np.zeros(self.qp.n)
        return f + self.state[:, RIDGE] * beta + self.constant * beta.sum()

    def _sweep(self, shrinking: bool) -> tuple[float, float]:
        """One sweep: the largest violation and the gap, as its steps saw them."""
        bound = SHRINK * self.bound if shrinking else np.inf
        worst, slack, saved = 0.0, 0.0, 0.0
        pull = self._pull()
        for piece in self.pieces:
            if len(piece.active):
                most, seen, less = piece.sweep(self, bound)
                worst, slack, saved = max(worst, most), slack + seen, saved + less
        self.objective += pull - saved - self._pull()
        self.bound = worst if worst > 0.0 else np.inf
        if self.sweeps % self.every == 0:
            u = self.v - self.t
            self.t[self.hard] = self.v[self.hard]
            self.v[self.hard] += u[self.hard]
        return worst, slack

    def _pull(self) -> float:
        """What the augmented Lagrangian adds to the objective."""
        t, u = self.t[self.hard], (self.v - self.t)[self.hard]
        return float(t @ u + 0.5 * u @ u)

    def _hold(self) -> np.ndarray:
        """β moved onto the constraints, with w and v."""
        qp = self.qp
        held = self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps)
        if not np.array_equal(held, self.beta):
            self.state[:, BETA] = held
            self.w = self.rows.t_dot(held)
            self.t[self.hard] = self.v[self.hard]
            self.v = self.t + self.lack
        return held

    def _look(self, bound: float) -> float:
        """The gap of a feasible β; all rows that are not stuck are at work again."""
        qp = self.qp
        beta = self._hold().copy()
        H_beta = self._times(beta)
        eta = self.multipliers
        s = qp.gradient(beta, eta, H_beta)
        gap = qp.gap(beta, eta, s)
        self.objective = qp.objective(beta, H_beta)
        up, down = s + np.where(beta >= 0, qp.eps, -qp.eps), s + np.where(beta > 0, qp.eps, -qp.eps)
        stuck_up, stuck_down = (beta >= qp.upper) | (up > bound), (beta <= qp.lower) | (down < -bound)
        for piece in self.pieces:
            piece.active = np.flatnonzero(~(stuck_up & stuck_down)[piece.index])
        return gap


def _pieces(rows: Rows) -> list[_Piece]:
    """The rows as the leaves want them: one piece, or where they are too many or too far, pieces that fit.

    A piece mixes rows from everywhere: rows that lie together are often alike, and w would follow them.
    """
    n, d = rows.n, rows.d
    blocks = _joined(rows.blocks)
    if len(blocks) == 1 and _near(blocks[0]):
        arrays = _arrays(blocks[0])
    elif rows.work * 8 <= KEEP_BYTES:
        arrays = _arrays(_as_block(rows.matrix()))
    else:
        chunks = [(block, a, min(block.n, a + CHUNK)) for block in blocks for a in range(0, block.n, CHUNK)]
        first = np.cumsum([0] + [b - a for _, a, b in chunks])
        count = -(-rows.work * 8 // FAR_BYTES)
        pieces = []
        for k in range(min(count, len(chunks))):
            index = np.concatenate([np.arange(first[c], first[c + 1]) for c in range(k, len(chunks), count)])
            pieces.append(_Piece(index, len(index), len(index) * d, _loader(chunks[k::count])))
        return pieces
    return [_Piece(slice(None), n, rows.work, lambda: arrays)]


def _near(block: Block) -> bool:
    """Whether the leaves can work on a block as it is."""
    if isinstance(block, Dense):
        return block.data.flags.c_contiguous and block.data.dtype in (np.float32, np.float64)
    return isinstance(block, Sparse)


def _arrays(block: Block) -> tuple:
    if isinstance(block, Dense):
        return (block.data,)
    assert isinstance(block, Sparse)
    unsigned = np.uint32 if block.indices.dtype == np.int32 else np.uint64  # no index counts from the end
    return (block.indptr, block.indices.view(unsigned), block.data)


def _loader(chunks: list) -> Callable[[], tuple]:
    def load() -> tuple:
        parts = [
            block.load(a, b) if isinstance(block, Stored) else block.gather(np.arange(a, b)) for block, a, b in chunks
        ]
        return _arrays(_as_block(sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)))

    return load


def _as_block(rows) -> Block:
    if sp.issparse(rows):
        return Sparse.of(rows)
    return Dense(np.ascontiguousarray(rows, np.float32 if rows.dtype == np.float32 else np.float64))


def _joined(blocks: list[Block]) -> list[Block]:
    """Neighbours that lie one behind the other in memory as one block again: the order of all rows can be random."""
    out: list[Block] = []
    for block in blocks:
        last = out[-1] if out else None
        if isinstance(last, Sparse) and isinstance(block, Sparse):
            if last.data is block.data and last.indices is block.indices and last.indptr[-1] == block.indptr[0]:
                out[-1] = Sparse(np.concatenate([last.indptr, block.indptr[1:]]), last.indices, last.data, last.d)
                continue
        elif isinstance(last, Dense) and isinstance(block, Dense) and _near(last) and _near(block):
            a, b = last.data, block.data
            if _root(a) is _root(b) and a.dtype == b.dtype and a.ctypes.data + a.nbytes == b.ctypes.data:
                out[-1] = Dense(np.lib.stride_tricks.as_strided(a, (len(a) + len(b), a.shape[1])))
                continue
        out.append(block)
    return out


def _root(a: Any) -> Any:
    while getattr(a, "base", None) is not None:
        a = a.base
    return a


# -- leaves --------------------------------------------------------------------------------------------------

SHUFFLE_FACTOR, SHUFFLE_MODULUS = 48271, 2147483647  # Park & Miller's generator: no product leaves 63 bits
AHEAD, FAR_AHEAD = 6, 16  # rows that are asked from memory before they are needed: rows of Z, what tells where they are
MOST_LINES = 32  # of a row that are asked for; the processor sees by itself where a longer one goes on


@jit
def shuffle(index, seed):
    """A new order of index; returns the next seed."""
    x = seed
    for j in range(len(index) - 1, 0, -1):
        x = x * SHUFFLE_FACTOR % SHUFFLE_MODULUS
        k = x * (j + 1) // SHUFFLE_MODULUS
        index[j], index[k] = index[k], index[j]
    return x


@inline
def _stuck(row, g, bound):
    """Whether β_i is at a bound (or at 0 with ε) and pushed there by more than any violation of the last sweep."""
    b, eps = row[BETA], row[EPS]
    up = g + (eps if b >= 0.0 else -eps)
    down = g + (eps if b > 0.0 else -eps)
    return (b >= row[UPPER] or up > bound) and (b <= row[LOWER] or down < -bound)


@inline
def _violation(row, g):
    """How fast the objective falls along β_i."""
    b, eps = row[BETA], row[EPS]
    grow = -(g + (eps if b >= 0.0 else -eps)) if b < row[UPPER] else 0.0
    shrink = g + (eps if b > 0.0 else -eps) if b > row[LOWER] else 0.0
    return max(grow, shrink, 0.0)


@inline
def _minimum(row, slope, curvature):
    """Where slope z + ½ curvature z² + ε |z| is least in the box."""
    eps = row[EPS]
    u = -slope
    u = u - eps if u > eps else (u + eps if u < -eps else 0.0)
    if curvature > 0.0:
        z = u / curvature
    else:
        z = 0.0 if u == 0.0 else (np.inf if u > 0.0 else -np.inf)
    return min(max(z, row[LOWER]), row[UPPER])


@inline
def _slack(row, g):
    """What row i adds to the gap (problem.py): r (β − z) + ½ d (β² − z²) + ε (|β| − |z|) for the best z."""
    b, d = row[BETA], row[RIDGE]
    r = g - d * b
    z = _minimum(row, r, d)
    return r * (b - z) + 0.5 * d * (b * b - z * z) + row[EPS] * (abs(b) - abs(z))


@inline
def _saved(row, g, new):
    """By how much the objective falls when β_i becomes new."""
    b = row[BETA]
    change = new - b
    return -(g * change + 0.5 * row[CURVATURE] * change * change + row[EPS] * (abs(new) - abs(b)))


@inline
def _target(row, g, omega):
    """The next β_i."""
    b = row[BETA]
    new = _minimum(row, g - row[CURVATURE] * b, row[CURVATURE])
    if omega == 1.0 or (new == 0.0 and row[EPS] > 0.0):  # beyond a corner the objective rises, however short the way
        return new
    return min(max(b + omega * (new - b), row[LOWER]), row[UPPER])


@jit
def sparse_sweep(indptr, indices, data, w, v, state, extra, active, bound, omega):
    """Visit the active rows in their order; returns how many stay active (at the front), violation, gap, decrease."""
    count = len(active)
    per_line = 64 // data.itemsize
    width = state.shape[1]
    worst, slack, saved = 0.0, 0.0, 0.0
    kept = 0
    for j in range(count):
        far = active[min(j + FAR_AHEAD, count - 1)]
        prefetch(indptr, far)
        prefetch(state, far * width)
        prefetch(state, far * width + width - 1)
        near = active[min(j + AHEAD, count - 1)]
        start = indptr[near]
        stop = min(indptr[near + 1], start + MOST_LINES * 16)
        for s in range(start, stop, 16):
            prefetch(indices, s)
        for s in range(start, stop, per_line):
            prefetch(data, s)
        i = active[j]
        row = state[i]
        start, stop = indptr[i], indptr[i + 1]
        even, odd = 0.0, 0.0
        s = start
        while s + 1 < stop:
            even += data[s] * w[indices[s]]
            odd += data[s + 1] * w[indices[s + 1]]
            s += 2
        if s < stop:
            even += data[s] * w[indices[s]]
        g = even + odd + row[P] + row[RIDGE] * row[BETA]
        for c in range(extra):
            g += row[EXTRA + c] * v[c]
        if _stuck(row, g, bound):
            continue
        active[kept] = i
        kept += 1
        worst = max(worst, _violation(row, g))
        slack += _slack(row, g)
        new = _target(row, g, omega)
        change = new - row[BETA]
        if change != 0.0:
            saved += _saved(row, g, new)
            row[BETA] = new
            for c in range(extra):
                v[c] += change * row[EXTRA + c]
            for s in range(start, stop):
                w[indices[s]] += change * data[s]
    return kept, worst, slack, saved


@jit
def dense_sweep(X, w, v, state, extra, active, bound, omega):
    """As ``sparse_sweep``, on dense rows."""
    count = len(active)
    d = X.shape[1]
    per_line = 64 // X.itemsize
    asked = min(d, MOST_LINES * per_line)
    width = state.shape[1]
    worst, slack, saved = 0.0, 0.0, 0.0
    kept = 0
    for j in range(count):
        near = active[min(j + AHEAD, count - 1)]
        prefetch(state, near * width)
        prefetch(state, near * width + width - 1)
        for k in range(0, asked, per_line):
            prefetch(X, near * d + k)
        i = active[j]
        row = state[i]
        x = X[i]
        g = dot(x, w) + row[P] + row[RIDGE] * row[BETA]
        for c in range(extra):
            g += row[EXTRA + c] * v[c]
        if _stuck(row, g, bound):
            continue
        active[kept] = i
        kept += 1
        worst = max(worst, _violation(row, g))
        slack += _slack(row, g)
        new = _target(row, g, omega)
        change = new - row[BETA]
        if change != 0.0:
            saved += _saved(row, g, new)
            row[BETA] = new
            for c in range(extra):
                v[c] += change * row[EXTRA + c]
            for k in range(d):
                w[k] += change * x[k]
    return kept, worst, slack, saved
