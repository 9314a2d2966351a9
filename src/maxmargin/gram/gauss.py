"""Products with a Gaussian kernel matrix in one to three dimensions, in O(n + modes) by the fast Fourier transform.

The Gaussian is repeated with a period P that leaves R between one copy of the points and the next. What is repeated has
a Fourier series, whose terms vanish as quickly as the Gaussian itself:

    exp(−γ‖x‖²) ≈ Σ_m a_m exp(2πi m·x / P)          a_m = Π_j √(π/γ) / P_j · exp(−(π m_j / P_j)² / γ)

    (Kv)_i ≈ Σ_m a_m exp(2πi m·x_i / P)  ·  Σ_j v_j exp(−2πi m·x_j / P)

The two sums are non-uniform Fourier transforms of type 2 and 1, which the package ``finufft`` computes (the extra
``fast``). It is what PRIMAL §6.1 names fast multipole methods for, and exact to any number of digits.

**What is wrong with it.** With τ = exp(−γR²), copies add less than 2.1 d τ to a kernel value, and leaving out modes as
much as they would add at x = 0, which is computed. The transforms are wrong by ε, as they are told, and by ten times as
much at most, as we assume: relative to Σ|v|, which is what all modes and then all values of a product may amount to.
Together

    |(Kv)_i − (Hv)_i| ≤ δ Σ|v|

and the certificate counts it (``Gram.blurs``; near.py and problem.py).
"""

from __future__ import annotations

import importlib.util
import threading
from typing import Any

import numpy as np

from .base import Gram
from .kernel_gram import KernelGram
from .kernels import RBF
from .near import CUT, dense_points

__all__ = ["GaussGram", "gauss_or_not"]

MOST_DIMENSIONS = 3
LEAST_POINTS = 20_000  # below, products take tenths of a second anyway
MOST_MODES = 1 << 22  # 64 MB, and eight times as much for the grid that they are spread from in three dimensions
TRANSFORM = 1e-12  # ε that the transforms are told
SAFETY = 10.0  # times as wrong as they are told they may be


class GaussGram(Gram):
    """A Gaussian kernel matrix with fast products; rows and blocks are the kernel's own."""

    def __init__(self, inner: KernelGram, periods: np.ndarray, modes: np.ndarray, delta: float) -> None:
        self.inner, self.periods, self.modes, self.delta = inner, periods, modes, delta
        self.n, self.dtype, self.threads, self.cost = inner.n, inner.dtype, inner.threads, inner.cost
        self._plans: dict[int, tuple[Any, Any]] = {}  # by the number of columns
        self._lock = threading.Lock()  # a plan has one workspace

    # -- products ---------------------------------------------------------------------------------------------

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self.matmat(np.asarray(v, np.float64)[:, None])[:, 0]

    def matmat(self, V: np.ndarray) -> np.ndarray:
        columns = V.shape[1]
        if not columns or not V.any():
            return np.zeros((self.n, columns))
        self.cost.evals += self.n
        # K is real: two columns are the parts of a complex one.
        pairs = np.zeros((-(-columns // 2), self.n), np.complex128)
        pairs.real, pairs.imag[: columns // 2] = V.T[0::2], V.T[1::2]
        with self._lock:
            forward, back = self._plan(len(pairs))
            sums = forward.execute(pairs if len(pairs) > 1 else pairs[0])
            for axis, (period, count) in enumerate(zip(self.periods, self.modes, strict=True)):
                a = coefficients(self.inner.kernel.gamma, period, count // 2)
                sums *= a.reshape([-1 if k == axis else 1 for k in range(len(self.modes))])
            values = np.reshape(back.execute(sums), (len(pairs), self.n))
        out = np.empty((self.n, columns))
        out[:, 0::2], out[:, 1::2] = values.real.T, values.imag[: columns // 2].T
        return out

    def _plan(self, columns: int) -> tuple[Any, Any]:
        """Transforms of so many complex columns at a time; those of another number are forgotten: they take memory."""
        if columns not in self._plans:
            import finufft  # type: ignore[import-not-found, import-untyped, unused-ignore]

            data = _data(self.inner)
            places = [
                np.ascontiguousarray(
                    (data[:, j] - 0.5 * (data[:, j].min() + data[:, j].max())) * (2.0 * np.pi / period)
                )
                for j, period in enumerate(self.periods)
            ]
            shape, options = tuple(map(int, self.modes)), {"eps": TRANSFORM, "nthreads": self.threads}
            forward = finufft.Plan(1, shape, columns, isign=-1, **options)
            back = finufft.Plan(2, shape, columns, isign=1, **options)
            for plan in (forward, back):
                plan.setpts(*places)
            self._plans.clear()
            self._plans[columns] = forward, back
        return self._plans[columns]

    def blurs(self, beta: np.ndarray) -> tuple[float, float]:
        size = float(np.abs(beta).sum())
        return 0.5 * self.delta * size * size, self.delta * size

    def original(self) -> Gram:
        return self.inner

    # -- the kernel's own -------------------------------------------------------------------------------------

    def rows(self, index: np.ndarray, out: np.ndarray | None = None, slots: np.ndarray | None = None) -> np.ndarray:
        return self.inner.rows(index, out, slots)

    def diag(self) -> np.ndarray:
        return self.inner.diag()

    def take(self, index: np.ndarray) -> Gram:
        return gauss_or_not(self.inner.take(index))

    def block(self, index: np.ndarray) -> np.ndarray:
        return self.inner.block(index)

    def combine(
        self, index: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None, exact: bool = True
    ) -> np.ndarray:
        return self.inner.combine(index, coef, at, exact)

    def wide(self) -> Gram:
        wide = self.inner.wide()
        assert isinstance(wide, KernelGram)
        return self if wide is self.inner else GaussGram(wide, self.periods, self.modes, self.delta)

    def duplicates(self) -> np.ndarray | None:
        return self.inner.duplicates()


def gauss_or_not(gram: Gram) -> Gram:
    """The same matrix with fast products, where there are some."""
    if not isinstance(gram, KernelGram) or gram.kernel.code != RBF or not gram.kernel.gamma > 0.0:
        return gram
    if gram.n < LEAST_POINTS or gram.exact.d > MOST_DIMENSIONS or importlib.util.find_spec("finufft") is None:
        return gram
    data, gamma = _data(gram), gram.kernel.gamma
    reach = np.sqrt(np.log(1.0 / CUT) / gamma)
    extents = data.max(axis=0) - data.min(axis=0)
    periods = np.maximum(extents, reach) + reach
    counts = [_modes(gamma, period) for period in periods]
    if None in counts or np.prod([float(count or 0) for count in counts]) > MOST_MODES:
        return gram
    modes = np.array(counts)
    left_out = sum(_left_out(gamma, period, count // 2) for period, count in zip(periods, modes, strict=True))
    delta = 2.1 * len(modes) * CUT + 1.1 * left_out + 2.0 * SAFETY * TRANSFORM
    return GaussGram(gram, periods, modes, float(delta))


def coefficients(gamma: float, period: float, most: int) -> np.ndarray:
    """a_m in one dimension for m = −most … most."""
    m = np.arange(-most, most + 1)
    return np.sqrt(np.pi / gamma) / period * np.exp(-((np.pi * m / period) ** 2) / gamma)


def _modes(gamma: float, period: float) -> int | None:
    """How many modes of one dimension leave out less than CUT, or None: too many."""
    most = int(np.ceil(period / np.pi * np.sqrt(gamma * np.log(1.0 / CUT))))
    while 2 * most + 1 <= MOST_MODES and _left_out(gamma, period, most) > CUT:
        most += max(1, most // 50)
    return 2 * most + 1 if 2 * most + 1 <= MOST_MODES else None


def _left_out(gamma: float, period: float, most: int) -> float:
    """What the modes beyond add up to: terms that fall faster than a geometric series."""
    first, second = coefficients(gamma, period, most + 2)[-2:]
    return 2.0 * float(first) / (1.0 - float(second / first)) if first > 0.0 else 0.0


def _data(gram: KernelGram) -> np.ndarray:
    points = gram.exact
    return dense_points(points) if points.sparse else np.asarray(points.data, np.float64)
