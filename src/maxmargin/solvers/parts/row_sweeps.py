"""SOR in its linear form: one row at a time on the dual, w kept up to date (Mangasarian & Musicant 1999; Hsieh 2008).

    min ½ βᵀ(ZZᵀ + diag(d))β + pᵀβ + Σ ε_i |β_i|   s.t.  box,  Aβ = b

    for i in a new random order                              a sweep
        g    <- z_iᵀw + d_i β_i + p_i + e_iᵀv                the slope along β_i
        β_i  <- clip(β_i + ω (its minimum − β_i))
        w, v <- w + Δ z_i, v + Δ e_i                         Δ: how far β_i moved
    v <- v + u,  u = what constraints lack, in units of e    the multipliers, once a sweep
    now and then: the exact gap; rows stuck at a bound drop out and come back
    once few rows are left: solve for them, which is exact (pivoting.py)

A free bias, or any row of A, is the method of multipliers: H becomes H + ρ QᵀQ with Q = TA orthonormal, which changes
nothing where Qβ = c holds, and η = √ρ Tᵀv follows from v = t + u with t <- v. A penalised bias is the same
column with t = 0 for ever. One step of t a sweep costs nothing and takes no more sweeps than a problem without
constraints (measured: a9a, ijcnn1, MNIST, news20; ρ = 0.1 of the mean curvature; from 0.03 to 0.3 as good).

What makes it quick. A step costs little more than its arithmetic (sor_leaves.py). Rows that drop out make later
sweeps so cheap that many of them share a call (MNIST: the last 1000 of 1014 sweeps take two thirds of the time). The
gap is estimated from the slopes that a sweep sees anyway, so that the exact one, which costs a pass, is rarely computed
in vain. Measured and left out: extrapolation along the last sweeps (clipping breaks
what the sweeps had balanced), averages of w (the primal falls sooner, the dual and so the gap do not).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...goal import NOTHING, Goal
from ...gram import as_gram
from ...monitor import Monitor
from ...problem import QP
from ...rows import Block, Dense, Rows, Sparse, Stored
from ...solution import Status
from .constraints import Equality
from .limits import EACH_SIDE, LOOK_WORK, Progress
from .pair_steps import HUGE
from .pivoting import pivot
from .sor_leaves import (
    BETA,
    CURVATURE,
    EPS,
    EXTRA,
    LINE,
    LOWER,
    RIDGE,
    SHUFFLE_MODULUS,
    UPPER,
    P,
    follow,
    look,
    pull,
    shuffle,
    sweep,
    sweeps,
)

__all__ = ["MEMORY", "Memory", "RowSweeps"]

AUGMENT = 0.1  # of the mean curvature is ρ
CALL_SWEEPS = 100  # sweeps are made by a call of a leaf at most
SHRINK = 0.25  # of the largest violation: a row that is pushed to its bound by more drops out
TRIAL_SWEEPS = 5  # sweeps tell whether there is hope:
STILL_AT_WORK = 0.5  # of the rows, after those sweeps: if more are still at work, there may be none
LOOK_ROWS = 5  # times n rows are visited at most before all rows are looked at again,
LOOK_VISITS = 2000  # or so many: a look takes as long as this at least
LOOK_AGAIN = 0.7  # of the gap that was estimated when a look was in vain: once the estimate is lower, we look again
STALL_LOOKS = 50  # looks without progress make the multipliers more patient, or show that rounding is all there is
MOST_PATIENT = 256  # sweeps lie between two steps of the multipliers at most
FINISH_UP_TO = 3000  # rows at work can be solved for, if that is worth it
PIVOTS = 5  # factorisations are what solving for them takes
SPARSE_FILL = (
    25  # times the entries of a sparse row, or the features if they are fewer: flops for a product of two rows
)
FLOPS_AN_ENTRY = 100  # flops of a product of matrices take as long as a sweep does for one number of Z
LEAST_VISITS, VISITS_A_ROW = 10_000_000, 1000  # visits, and visits a row, are made before sweeps without a limit end


@dataclass(frozen=True)
class Memory:
    """What rows take that cannot be swept where they are: they need a cast, come from disk or lie in many arrays."""

    copied: int = 1 << 29  # bytes of such rows are copied as a whole, if they are no more
    piece: int = 1 << 26  # bytes of them, if they are more, are loaded at a time
    together: int = 64  # neighbouring rows stay together in a piece


MEMORY = Memory()


class _Piece:
    """Rows that are swept together, as the leaves want them, and which of them are still at work."""

    def __init__(self, index: Any, n: int, entries: float, load: Callable[[], tuple]) -> None:
        self.index = index  # their numbers, or a slice
        self.load = load  # (X,) or (indptr, indices, data)
        self.entries = entries  # of a row
        self.active = np.arange(n)

    def sweep(self, run: RowSweeps, bound: float) -> tuple[float, float, float]:
        """Visit the active rows in a new order; the largest violation, the gap and the decrease that steps saw."""
        run.seed = shuffle(self.active, run.seed)
        rows = self.load()
        state = run.state[self.index]  # a copy if the rows are not neighbours
        count = len(self.active)
        runs = 1 + self.work // LOOK_WORK
        edges = [count * k // runs for k in range(runs + 1)]
        kept = []
        worst, slack, saved = 0.0, 0.0, 0.0
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            active = self.active[a:b]
            if run.monitor.stop_now():
                kept.append(active)
                continue
            stay, most, seen, less = sweep(rows, run.w, run.v, state, run.extra, active, bound, run.omega)
            kept.append(active[:stay])
            worst, slack, saved = max(worst, most), slack + seen, saved + less
        self.active = kept[0] if runs == 1 else np.concatenate(kept)
        if not isinstance(self.index, slice):
            run.state[self.index, BETA] = state[:, BETA]
        return worst, slack, saved

    @property
    def work(self) -> int:
        """Numbers of Z that a sweep looks at."""
        return int(self.entries * len(self.active))


class RowSweeps:
    """One call: the state that sweeps share."""

    def __init__(
        self,
        qp: QP,
        rows: Rows,
        ridge: np.ndarray | None,
        constant: float,
        omega: float,
        seed: int,
        monitor: Monitor,
        memory: Memory = MEMORY,
    ) -> None:
        self.qp, self.rows, self.monitor = qp, rows, monitor
        self.constant, self.omega = constant, omega
        self.equality = Equality.of(qp)
        self.seed = 1 + (48271 * (seed + 1)) % (SHUFFLE_MODULUS - 1)
        hard = self.equality.count
        self.hard = slice(0, hard)
        extra = hard + (constant > 0)
        state = np.zeros((qp.n, -(-(EXTRA + extra) // LINE) * LINE))
        far = 2.0 * HUGE  # stands for infinity: what gets there shows that there is no minimum
        state[:, LOWER], state[:, UPPER] = np.maximum(qp.lower, -far), np.minimum(qp.upper, far)
        state[:, P], state[:, EPS] = qp.p, qp.eps
        if ridge is not None:
            state[:, RIDGE] = ridge
        state[:, CURVATURE] = rows.squared_norms() + constant + state[:, RIDGE]
        mean = float(state[:, CURVATURE].mean()) or 1.0
        self.root = np.sqrt(AUGMENT * mean)
        state[:, EXTRA : EXTRA + hard] = self.root * self.equality.Q.T
        state[:, EXTRA + hard : EXTRA + extra] = np.sqrt(constant)
        state[:, CURVATURE] += (state[:, EXTRA : EXTRA + hard] ** 2).sum(axis=1)
        self.state, self.extra = state, extra
        self.offset = np.concatenate([self.root * self.equality.c, np.zeros(extra - hard)])
        self.t = np.zeros(extra)
        self.pieces = _pieces(rows, memory)
        self.shrink = SHRINK
        self.bound = np.inf  # a row that is pushed to its bound by more drops out
        self.sweeps = self.visits = self.tried = 0  # visits to rows, and those until we last tried to finish
        self.wait = 0.0  # visits before we try again,
        self.solved: np.ndarray | None = None  # unless there are other rows than those that we have just solved for
        self.objective = 0.0
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

    def solve(
        self, start: np.ndarray | None, tol: float, goal: Goal, shrinking: bool, hope: float, patience: float
    ) -> Status:
        """Sweep until the relative gap is below tol, or it takes too long: see SOR."""
        qp, monitor = self.qp, self.monitor
        most = goal.max_iter if goal.max_iter > 0 else LEAST_VISITS
        limit = min(patience * qp.n, np.inf if goal.max_iter > 0 else max(LEAST_VISITS, VISITS_A_ROW * qp.n))
        self.shrink = SHRINK if shrinking else np.inf
        self._begin(start)
        looked, estimate, progress = 0, np.inf, Progress(STALL_LOOKS)
        while True:
            active = sum(len(piece.active) for piece in self.pieces)
            enough = (tol, LOOK_AGAIN * estimate)
            next_look = looked + max(LOOK_ROWS * qp.n, LOOK_VISITS)
            worst, slack = 0.0, 0.0
            if not self._finish():
                # The trial ends with a call of its own.
                last = min(most, TRIAL_SWEEPS) if self.sweeps < TRIAL_SWEEPS else most
                worst, slack = self._sweep(last - self.sweeps, next_look, enough)
            due = slack <= min(tol * abs(self.objective), enough[1]) or self.visits > next_look or not worst > 0.0
            gap = self._look() if due else np.nan
            # Between looks constraints do not hold, so that an objective bounds nothing.
            known = (self.objective, gap - self.objective) if due else (np.nan, np.nan)
            stop = monitor.step(self.sweeps, known[0], worst, active, primal=known[1])
            if due:
                if np.abs(self.beta).max(initial=0.0) > HUGE:
                    return Status.UNBOUNDED
                near = gap < np.inf and (gap <= tol * self._size(gap) or self._size(gap) <= self.negligible)
                if near and worst <= EACH_SIDE * goal.violation:
                    return Status.CONVERGED
                if progress.stalled(self.objective, gap, worst):
                    if self.every >= MOST_PATIENT or not self.equality.count:
                        return Status.STALLED
                    self.every, progress.waited = 4 * self.every, 0
                looked, estimate = self.visits, slack if slack > 0 else np.inf
            most_left = sum(len(piece.active) for piece in self.pieces) > STILL_AT_WORK * qp.n
            hopeless = self.sweeps == TRIAL_SWEEPS and most_left and slack > hope * abs(self.objective)
            tired = self.sweeps >= most or self.visits > limit
            if stop or hopeless or tired:
                self._hold()
                return stop or (Status.MAX_ITERATIONS if 0 < goal.max_iter <= self.sweeps else Status.EXHAUSTED)

    def _size(self, gap: float) -> float:
        """What a relative gap is a share of: the larger of primal and dual."""
        return max(abs(self.objective), abs(gap - self.objective))

    def _begin(self, start: np.ndarray | None) -> None:
        qp = self.qp
        beta = np.zeros(qp.n) if start is None else np.asarray(start, np.float64)
        self.state[:, BETA] = beta = self.equality.feasible(beta, qp.lower, qp.upper, qp.eps)
        used = beta.any()
        self.w = self.rows.t_dot(beta) if used else np.zeros(self.rows.d)
        if used and self.equality.count:
            H_beta = self.rows.dot(self.w) + self.state[:, RIDGE] * beta + self.constant * beta.sum()
            self.t[self.hard] = self.equality.multipliers(qp, beta, H_beta) / self.root
        self.v = self.t + self.lack
        self._look()
        self.negligible = NOTHING * qp.scale

    def _sweep(self, most: int, until: int, enough: tuple[float, float]) -> tuple[float, float]:
        """A sweep, or where rows are few and at hand as many as fill a call; what the last of them saw: the largest
        violation and the gap."""
        hard = self.hard.stop
        if len(self.pieces) == 1 and self.pieces[0].work <= LOOK_WORK:
            (piece,) = self.pieces
            visits = min(until - self.visits, LOOK_WORK // max(1, int(piece.entries)))
            kept, done, visited, self.seed, self.objective, worst, slack = sweeps(
                piece.load(), self.w, self.v, self.t, hard, self.state, self.extra, piece.active, self.bound,
                self.omega, self.shrink, self.sweeps, self.every, self.seed, self.objective, min(most, CALL_SWEEPS),
                visits, enough,
            )  # fmt: skip
            piece.active = piece.active[:kept]
        else:
            worst, slack, saved, done = 0.0, 0.0, 0.0, 1
            visited = sum(len(piece.active) for piece in self.pieces)
            before = pull(self.t, self.v, hard)
            for piece in self.pieces:
                if len(piece.active):
                    step, seen, less = piece.sweep(self, self.bound)
                    worst, slack, saved = max(worst, step), slack + seen, saved + less
            self.objective += before - saved - pull(self.t, self.v, hard)
            if self.sweeps % self.every == 0:
                follow(self.t, self.v, hard)
        self.bound = self.shrink * worst if worst > 0.0 else np.inf
        self.sweeps += done
        self.visits += visited
        return worst, slack

    def _finish(self) -> bool:
        """Solve for the rows at work, if they are few and were visited as often as that costs; whether it went well."""
        (piece, *more), features = self.pieces, self.rows.d + self.extra
        W, since = np.sort(piece.active), self.visits - self.tried
        grown = self.solved is not None and not np.array_equal(W, self.solved)  # rows left out wrongly are back
        few = 0 < len(W) <= FINISH_UP_TO  # none is left where all rows are stuck at a bound or at 0
        if more or not few or not (grown or since >= self.wait) or self.state[W, EPS].any():
            return False
        part = self.state[W]
        inside = int(((part[:, BETA] > part[:, LOWER]) & (part[:, BETA] < part[:, UPPER])).sum())
        most = len(W) if (part[:, RIDGE] > 0.0).all() else features  # more cannot be inside at a corner of the loss
        flops = len(W) ** 2 * min(features, SPARSE_FILL * piece.entries) + PIVOTS * inside**3 / 3
        cost = flops / (FLOPS_AN_ENTRY * max(1.0, piece.entries))
        if inside > most or not (grown or since >= cost):
            return False
        self.visits += int(cost)
        self.tried, self.wait, self.solved = self.visits, 2.0 * cost, None
        self._hold()
        part, hard = self.state[W], self.hard.stop
        beta, ridge = part[:, BETA], part[:, RIDGE]
        Z = self.rows.take(W)
        E = part[:, EXTRA : EXTRA + hard].T
        K = as_gram(self.qp.H).block(W) + E.T @ E  # as in sweeps: the same where constraints hold, but not singular
        slope = Z.dot(self.w) + self.constant * self.beta.sum() + ridge * beta + part[:, P]
        found = pivot(K, slope - K @ beta, part[:, LOWER], part[:, UPPER], E, E @ beta, beta)
        if found is None:
            return False
        self.state[W, BETA], self.t[self.hard] = found
        self.solved = W
        self.w += Z.t_dot(found[0] - beta)
        self.v = self.t + self.lack
        return True

    def _hold(self) -> None:
        """Move β onto the constraints, with w and v."""
        if not self.equality.count:
            return
        qp = self.qp
        held = self.equality.feasible(self.beta, qp.lower, qp.upper, qp.eps)
        if not np.array_equal(held, self.beta):
            self.state[:, BETA] = held
            self.w = self.rows.t_dot(held)
            self.t[self.hard] = self.v[self.hard]
            self.v = self.t + self.lack

    def _look(self) -> float:
        """The gap of a feasible β; all rows that are not stuck are at work again."""
        self._hold()
        f = self.rows.dot(self.w) if self.w.any() else np.zeros(self.qp.n)
        busy = np.empty(self.qp.n, np.bool_)
        gap, terms = look(f, self.v, self.state, self.extra, self.bound, busy)
        sums = self.lack
        for piece in self.pieces:
            piece.active = np.flatnonzero(busy[piece.index])
        self.objective = 0.5 * float(self.w @ self.w + sums[self.hard.stop :] @ sums[self.hard.stop :]) + terms
        return float(gap - self.v[self.hard] @ sums[self.hard]) if gap < HUGE else np.inf  # a box without end


def _pieces(rows: Rows, memory: Memory) -> list[_Piece]:
    """The rows as the leaves want them: one piece, or where they are too many or too far, pieces that fit.

    A piece mixes rows from everywhere: rows that lie together are often alike, and w would follow them.
    """
    n, d = rows.n, rows.d
    blocks = _joined(rows.blocks)
    if len(blocks) == 1 and _near(blocks[0]):
        arrays = _arrays(blocks[0])
    elif rows.work * 8 <= memory.copied:
        arrays = _arrays(_as_block(rows.matrix()))
    else:
        step = memory.together
        chunks = [(block, a, min(block.n, a + step)) for block in blocks for a in range(0, block.n, step)]
        first = np.cumsum([0] + [b - a for _, a, b in chunks])
        count = -(-rows.work * 8 // memory.piece)
        pieces = []
        for k in range(min(count, len(chunks))):
            index = np.concatenate([np.arange(first[c], first[c + 1]) for c in range(k, len(chunks), count)])
            pieces.append(_Piece(index, len(index), d, _loader(chunks[k::count])))
        return pieces
    return [_Piece(slice(None), n, rows.work / max(1, n), lambda: arrays)]


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


def _as_block(rows: Any) -> Block:
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
