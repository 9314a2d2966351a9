"""One random problem from one integer: data, a machine and its parameters, and what else is to be tried with it.

Seeds from ``LONG`` on give larger problems. Most problems are small, so that thousands of them take an hour, and
each kind of trouble (duplicates, scales, weights, stops) comes with a probability of its own, so that many
problems have one or two kinds and some have all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

__all__ = ["CLASSIFIERS", "LINEAR", "LONG", "MACHINES", "REGRESSORS", "Problem", "given", "make_problem"]

LONG = 10**9  # seeds from here on: up to 40 000 samples
SOLVERS = (
    "smo", "decomposition", "chunking", "interior-point", "mpd", "adatron", "sor", "newton", "pcg", "nearest-point",
    "asvm",
)  # fmt: skip
GENERAL = ("smo", "decomposition", "chunking", "interior-point", "mpd", "sor")  # those that take most programs
MACHINES = {  # with their share
    "SVC": 5.0, "NuSVC": 2.5, "SVR": 3.0, "NuSVR": 2.0, "OneClassSVM": 1.5, "SVDD": 1.5, "LinearSVC": 3.0,
    "LinearSVR": 2.0, "QP": 2.0,
}  # fmt: skip
CLASSIFIERS = ("SVC", "NuSVC", "LinearSVC")
REGRESSORS = ("SVR", "NuSVR", "LinearSVR")
LINEAR = ("LinearSVC", "LinearSVR")
KERNELS = {
    "linear": 0.25, "rbf": 0.35, "poly": 0.12, "laplacian": 0.1, "precomputed": 0.08, "callable": 0.06, "sigmoid": 0.04,
}  # fmt: skip
MOST_PRECOMPUTED = 6000  # samples: 300 MB
TWINS = ("order", "copies", "zeros", "split", "shift", "scale")  # problems that have the same solution


@dataclass(frozen=True)
class Problem:
    """What is given to ``fit``, and what is to be tried besides."""

    seed: int
    machine: str
    params: dict[str, Any]
    X: Any  # as given: an array of any type and order, or a CSR matrix
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    on_disk: bool = False  # X is handed over as a memory map
    stop: str | None = None  # "max_iter", "time_limit" or "callback": a fit that is to end early
    before: dict[str, Any] | None = None  # parameters of a fit before, from which this one starts
    twin: str | None = None  # one of TWINS
    notes: tuple[str, ...] = ()  # the kinds of trouble, for the reader
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def solver(self) -> str:
        return self.params.get("solver", "auto")

    @property
    def dense(self) -> np.ndarray:
        """X in float64."""
        return np.asarray(self.X.toarray() if sp.issparse(self.X) else self.X, np.float64)

    @property
    def weights(self) -> np.ndarray:
        return np.ones(self.n) if self.weight is None else np.asarray(self.weight, np.float64)

    @property
    def convex(self) -> bool:
        """Whether the kernel is positive semi-definite, so that a gap is a proof."""
        return self.params.get("kernel") != "sigmoid"

    def with_data(self, X, y, weight) -> Problem:
        """The same machine on other data."""
        return replace(self, X=X, y=y, weight=weight, on_disk=False, before=None, stop=None, twin=None)

    def __str__(self) -> str:
        shown = {key: value for key, value in self.params.items() if key != "callback"}
        if callable(shown.get("kernel")):
            shown["kernel"] = shown["kernel"].__name__
        if shown.get("parametric"):
            shown["parametric"] = [f.__name__ for f in shown["parametric"]]
        given = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        kind = f"{type(self.X).__name__} {self.X.dtype}"
        return (
            f"seed {self.seed}: {self.machine}({given}) on {self.n} × {self.d} ({kind}{', on disk' * self.on_disk})"
            f"{', weights' * (self.weight is not None)}{f', stop by {self.stop}' * bool(self.stop)}"
            f"{f', after a fit with {self.before}' * bool(self.before)}{f', twin by {self.twin}' * bool(self.twin)}"
            f"; {', '.join(self.notes) or 'plain data'}"
        )


@contextmanager
def given(problem: Problem) -> Iterator[Any]:
    """X as the fit is to get it."""
    if not problem.on_disk:
        yield problem.X
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, problem.X)
        yield np.load(path, mmap_mode="r")


# -- functions that a problem may carry; they have names, so that a report can say which -------------------------------


def _array(X) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def first_feature(X) -> np.ndarray:
    return _array(X)[:, 0]


def squared_feature(X) -> np.ndarray:
    return _array(X)[:, -1] ** 2


def wave(X) -> np.ndarray:
    return np.sin(_array(X)[:, 0])


def quadratic_kernel(X, Z) -> np.ndarray:
    return (_array(X) @ _array(Z).T + 0.7) ** 2


def cauchy_kernel(X, Z) -> np.ndarray:
    return 1.0 / (1.0 + 0.3 * cdist(_array(X), _array(Z), "sqeuclidean"))


FUNCTIONS = (first_feature, squared_feature, wave)


# -- data -------------------------------------------------------------------------------------------------------------


def _log_uniform(rng, low: float, high: float) -> float:
    """10 to the power of something uniform; never a power of two, but by a chance of nil."""
    return float(10.0 ** rng.uniform(low, high))


def _pick(rng, shares: dict[str, float]) -> str:
    p = np.array(list(shares.values()))
    return str(rng.choice(list(shares), p=p / p.sum()))


def _size(rng, long: bool) -> int:
    if long:
        return int(_log_uniform(rng, np.log10(2000), np.log10(40000)))
    if rng.uniform() < 0.88:
        return int(np.clip(_log_uniform(rng, np.log10(2), np.log10(301)), 2, 300))
    # Solvers change their ways at 600, 1500, 2000, 2500 and 5000 variables.
    return int(_log_uniform(rng, np.log10(300), np.log10(rng.choice([1000, 2600, 5200], p=[0.6, 0.3, 0.1]))))


def _features(rng, n: int, notes: list[str]) -> np.ndarray:
    d = int(_log_uniform(rng, 0, 1.7 if n <= 300 else 1.2))
    kind = rng.choice(["normal", "uniform", "clusters", "binary", "counts"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
    if kind == "normal":
        X = rng.normal(size=(n, d))
    elif kind == "uniform":
        X = rng.uniform(-1, 1, size=(n, d))
    elif kind == "clusters":
        centres = 3.0 * rng.normal(size=(rng.integers(2, 6), d))
        X = centres[rng.integers(0, len(centres), n)] + rng.normal(size=(n, d))
    elif kind == "binary":
        X = (rng.uniform(size=(n, d)) < rng.uniform(0.05, 0.5)).astype(float)
    else:
        X = rng.poisson(rng.uniform(0.5, 5.0), size=(n, d)).astype(float)
    if d > 1 and rng.uniform() < 0.1:
        X[:, rng.integers(d)] = rng.choice([0.0, 1.0, 3.7])
        notes.append("constant column")
    if d > 1 and rng.uniform() < 0.15:
        i, j = rng.choice(d, 2, replace=False)
        X[:, i] = rng.uniform(0.5, 2.0) * X[:, j] + rng.choice([0.0, 1.0])
        notes.append("collinear columns")
    if rng.uniform() < 0.25:
        share = rng.uniform(0.1, 0.9)
        originals = max(1, round((1.0 - share) * n))
        X = X[np.concatenate([np.arange(originals), rng.integers(0, originals, n - originals)])]
        notes.append(f"{share:.0%} duplicates")
        if rng.uniform() < 0.3:
            far = _log_uniform(rng, -9, -3)
            X = X + far * rng.normal(size=X.shape)
            notes.append(f"{far:.0e} apart")
        X = X[rng.permutation(n)]
    return X


def _scaled(rng, X: np.ndarray, notes: list[str]) -> np.ndarray:
    """Scales and offsets, as raw data have them."""
    d = X.shape[1]
    trouble = rng.uniform()
    if trouble < 0.08:
        notes.append("columns on scales 1e-6 to 1e6")
        X = X * 10.0 ** rng.uniform(-6, 6, d)
    elif trouble < 0.16:
        factor = _log_uniform(rng, -6, 6)
        notes.append(f"scale {factor:.1e}")
        X = X * factor
    elif trouble < 0.24:
        notes.append("columns on scales 1e-2 to 1e2")
        X = X * 10.0 ** rng.uniform(-2, 2, d)
    if rng.uniform() < 0.1:
        offset = float(rng.choice([100.0, 1e4, -1e4]))
        notes.append(f"offset {offset:g}")
        X = X + offset * (rng.uniform(size=d) < 0.6)
    return X


def _labels(rng, X: np.ndarray, k: int, notes: list[str]) -> np.ndarray:
    """Class numbers 0 … k − 1, each at least once."""
    n, d = X.shape
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    score = Z @ rng.normal(size=d) / np.sqrt(d) + rng.choice([0.0, 0.5]) * np.sin(2.0 * Z[:, 0])
    score = score + rng.choice([0.0, 0.3, 1.0, 10.0]) * rng.normal(size=n)
    shares = rng.dirichlet(np.full(k, rng.choice([0.7, 3.0, 100.0])))
    edges = np.quantile(score, np.cumsum(shares)[:-1]) if n > 1 else np.zeros(k - 1)
    y = np.searchsorted(edges, score)
    for c in range(k):  # the rarest classes have one sample
        if not (y == c).any():
            crowded = np.flatnonzero(np.bincount(y, minlength=k)[y] > 1)
            y[rng.choice(crowded)] = c
    if k == 2 and min(np.bincount(y)) < 0.1 * n:
        notes.append("unequal classes")
    return y


def _targets(rng, X: np.ndarray, notes: list[str]) -> tuple[np.ndarray, float]:
    """Values, and their scale."""
    n, d = X.shape
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = Z @ rng.normal(size=d) / np.sqrt(d) + np.sin(2.0 * Z[:, 0]) * rng.choice([0.0, 1.0])
    y = y + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=n)
    if rng.uniform() < 0.1:
        y = np.round(y, 1)
    if rng.uniform() < 0.1:
        y[rng.uniform(size=n) < 0.05] *= 30.0
        notes.append("outliers")
    if rng.uniform() < 0.02:
        y = np.full(n, 1.3)
        notes.append("constant target")
    scale = _log_uniform(rng, -3, 6) if rng.uniform() < 0.3 else 1.0
    if scale != 1.0:
        notes.append(f"target scale {scale:.1e}")
    y = scale * y
    if rng.uniform() < 0.1:
        y = y + scale * rng.choice([3.0, 100.0])
        notes.append("target offset")
    return y, scale


def _weights(rng, n: int, notes: list[str]) -> np.ndarray | None:
    kind = rng.choice(["none", "copies", "mild", "wild"], p=[0.55, 0.2, 0.17, 0.08])
    if kind == "none":
        return None
    notes.append(f"{kind} weights")
    if kind == "copies":
        return rng.integers(0, 4, n).astype(float)
    weight = 10.0 ** (rng.uniform(-1, 1, n) if kind == "mild" else rng.uniform(-4, 4, n))
    if rng.uniform() < 0.3:
        weight[rng.uniform(size=n) < 0.2] = 0.0
    return weight


# -- parameters -------------------------------------------------------------------------------------------------------


def _kernel_params(rng, X: np.ndarray, params: dict, notes: list[str]) -> None:
    kernel = _pick(rng, KERNELS)
    if kernel == "precomputed" and len(X) > MOST_PRECOMPUTED:
        kernel = "rbf"
    if kernel == "callable":
        params["kernel"] = quadratic_kernel if rng.uniform() < 0.4 else cauchy_kernel
        return
    params["kernel"] = kernel
    if kernel in ("linear", "precomputed"):
        return
    d = X.shape[1]
    if kernel in ("rbf", "laplacian"):
        if rng.uniform() < 0.3:
            params["gamma"] = "auto" if rng.uniform() < 0.2 else "scale"
            return
        size = float(X.var()) if rng.uniform() < 0.5 else float(X.var(axis=0).mean())
        size = max(size, 1e-4 * float((X * X).mean()), 1e-14)
        size = np.sqrt(size) if kernel == "laplacian" else size
        params["gamma"] = _log_uniform(rng, -2, 1.3) / (d * size)
        return
    largest = max(float((X * X).sum(axis=1).max()), 1e-14)
    params["gamma"] = _log_uniform(rng, -1, 0.7) / largest
    params["coef0"] = float(rng.choice([0.0, 1.0, round(rng.uniform(0.1, 2.0), 3)]))
    if kernel == "poly":
        params["degree"] = int(rng.integers(1, 5))


def _bounded(rng, params: dict, name: str = "C") -> None:
    params[name] = _log_uniform(rng, -5, 7) if rng.uniform() < 0.15 else _log_uniform(rng, -2, 3)


def _largest_nu(y: np.ndarray, mass: np.ndarray) -> float:
    """The largest feasible ν of all pairs of classes, for classes that all have some mass."""
    sums = [mass[y == c].sum() for c in np.unique(y)]
    sums = sorted(s for s in sums if s > 0)
    return 2.0 * sums[0] / (sums[0] + sums[-1]) if len(sums) > 1 else 1.0


def _nu(rng, most: float, notes: list[str]) -> float:
    kind = rng.uniform()
    if kind < 0.15:
        notes.append("largest nu")
        return min(1.0, most)
    if kind < 0.25:
        notes.append("next to the largest nu")
        return min(1.0, most) * (1.0 - _log_uniform(rng, -12, -3))
    if kind < 0.3:
        notes.append("too large a nu")
        return min(1.0, most * 1.05)
    return float(np.clip(most * _log_uniform(rng, -1.7, 0.0), 1e-6, 1.0))


def _stop(rng, params: dict) -> str | None:
    if rng.uniform() > 0.1:
        return None
    stop = str(rng.choice(["max_iter", "time_limit", "callback"]))
    if stop == "max_iter":
        params["max_iter"] = int(_log_uniform(rng, 0, 3))
    elif stop == "time_limit":
        params["time_limit"] = _log_uniform(rng, -4, -1.5)
    else:
        params["callback"] = _Stopper(int(_log_uniform(rng, 0, 1.3)))
    return stop


@dataclass
class _Stopper:
    """A callback that has seen enough after some calls."""

    after: int
    calls: int = 0

    def __call__(self, progress: dict) -> bool:
        self.calls += 1
        return self.calls >= self.after


def _solver(rng, machine: str, params: dict) -> str:
    """A solver, and for those that take few problems mostly one that they take."""
    if rng.uniform() < 0.45:
        return "auto"
    solver = str(rng.choice(SOLVERS))
    if rng.uniform() < 0.8:
        kernel = machine not in LINEAR
        primal = solver in ("newton", "pcg")
        if (primal or solver in ("nearest-point", "asvm")) and machine in ("SVC", "LinearSVC"):
            params["loss"] = "huber" if primal and rng.uniform() < 0.3 else "squared_hinge"
        elif primal and machine in ("SVR", "LinearSVR"):
            params["loss"] = "squared_epsilon_insensitive"
        elif primal or solver in ("nearest-point", "asvm"):
            return "auto"
        if solver == "asvm" and kernel:
            params["kernel"] = "linear"
        if solver == "adatron":
            if machine not in ("SVC", "SVR", *LINEAR):
                return "auto"
            params["fit_intercept"] = False
    return solver


def make_problem(seed: int) -> Problem:
    """The problem of this number."""
    rng = np.random.default_rng(seed)
    machine = _pick(rng, MACHINES)
    long = seed >= LONG
    if machine == "QP" and not long:
        solver = str(rng.choice(SOLVERS if rng.uniform() < 0.2 else GENERAL))
        return Problem(seed, "QP", {"solver": solver}, np.zeros((0, 0)))
    machine = "SVC" if machine == "QP" else machine
    notes: list[str] = []
    n = _size(rng, long)
    params: dict[str, Any] = {}
    X = _scaled(rng, _features(rng, n, notes), notes)

    # The container first: it may change values.
    container = rng.choice(
        ["float64", "float32", "integer", "fortran", "csr", "on disk"], p=[0.6, 0.1, 0.06, 0.08, 0.1, 0.06]
    )
    if container == "integer":
        X = np.rint(X * (3.0 if np.abs(X).max() < 1e3 else 1.0)).clip(-1e9, 1e9)
    if container == "csr":
        X = np.where(rng.uniform(size=X.shape) < rng.uniform(0.1, 0.7), X, 0.0)
    if container == "float32":
        X = X.astype(np.float32).astype(np.float64)

    weight = _weights(rng, n, notes) if machine != "QP" else None
    if machine in CLASSIFIERS:
        k = 2 if n < 4 or rng.uniform() < 0.65 else int(min(rng.integers(3, 13), max(2, n // 2)))
        y = _labels(rng, X, k, notes)
        scale = 1.0
        if weight is not None:
            for c in range(k):  # each class is there
                if not (weight[y == c] > 0).any():
                    weight[np.flatnonzero(y == c)[0]] = 1.0
    else:
        k = 1
        y, scale = _targets(rng, X, notes) if machine in REGRESSORS else (None, 1.0)
        if weight is not None and not (weight > 0).any():
            weight[0] = 1.0

    if machine not in LINEAR:
        _kernel_params(rng, X, params, notes)
    if machine in ("SVC", "LinearSVC"):
        params["loss"] = str(rng.choice(["hinge", "squared_hinge", "huber"], p=[0.5, 0.3, 0.2]))
        if params["loss"] == "huber":
            params["huber_delta"] = float(rng.uniform(0.05, 1.0))
        _bounded(rng, params)
    if machine in ("SVR", "LinearSVR"):
        params["loss"] = str(rng.choice(["epsilon_insensitive", "squared_epsilon_insensitive"], p=[0.65, 0.35]))
        params["epsilon"] = 0.0 if rng.uniform() < 0.1 else scale * _log_uniform(rng, -3, 0)
        _bounded(rng, params)
    if machine == "NuSVR":
        _bounded(rng, params)
    if machine in CLASSIFIERS and rng.uniform() < 0.2:
        params["class_weight"] = "balanced" if rng.uniform() < 0.5 else {
            c: _log_uniform(rng, -1, 1) for c in range(k)
        }  # fmt: skip
    mass = np.ones(n) if weight is None else weight
    if machine == "NuSVC":
        costs = params.get("class_weight")
        if costs == "balanced":
            counts = np.bincount(y, mass, k)
            factors = mass.sum() / (k * np.where(counts > 0, counts, 1.0))
        else:
            factors = np.array([costs[c] for c in range(k)]) if costs else np.ones(k)
        params["nu"] = _nu(rng, _largest_nu(y, mass * factors[y]), notes)
    elif machine in ("NuSVR", "OneClassSVM"):
        params["nu"] = _nu(rng, 1.0, notes)
    elif machine == "SVDD":
        if rng.uniform() < 0.3:
            params["C"] = float(np.clip(_log_uniform(rng, -1, 1) / mass.sum() * 2.0, 1.0 / mass.sum(), None))
        else:
            params["nu"] = _nu(rng, 1.0, notes)
    if machine not in ("OneClassSVM", "SVDD") and rng.uniform() < 0.15:
        params["fit_intercept"] = False
    if machine in LINEAR:
        if rng.uniform() < 0.2:
            params["intercept_scaling"] = _log_uniform(rng, -1, 1)
        if rng.uniform() < 0.7:
            params["max_iter"] = -1
        if rng.uniform() < 0.5:
            params["tol"] = _log_uniform(rng, -7, -1)
    elif rng.uniform() < 0.45:
        params["tol"] = _log_uniform(rng, -6, -0.7)
    params["solver"] = _solver(rng, machine, params)
    if rng.uniform() < 0.3:
        params["n_jobs"] = int(rng.choice([1, 2, 8]))
    if machine != "SVDD" and rng.uniform() < 0.1:
        params["parametric"] = [FUNCTIONS[j] for j in rng.permutation(len(FUNCTIONS))[: rng.integers(1, 3)]]
    if machine not in LINEAR and rng.uniform() < 0.05:
        params["shrinking"] = False
    if machine not in LINEAR and rng.uniform() < 0.05:
        params["cache_size"] = 0.05

    stop = _stop(rng, params)
    before = None
    if stop is None and rng.uniform() < 0.1:
        params["warm_start"] = True
        name = "nu" if "nu" in params else "C"
        before = {name: params[name] * float(rng.uniform(0.3, 0.9))}
    twin = None
    if stop is None and rng.uniform() < 0.35:
        twin = str(rng.choice(TWINS))

    extra = {}
    if twin == "shift":  # a shift is exact if the last bits of the features are free
        extra["quantum"] = 2.0 ** (np.ceil(np.log2(max(float(np.abs(X).max()), 1e-300))) - 20)
        X = np.rint(X / extra["quantum"]) * extra["quantum"]
    if params.get("kernel") == "precomputed":
        X = _precomputed(rng, X)
        container = "float64" if container in ("csr", "integer", "on disk") else container
    names = np.arange(k) if rng.uniform() < 0.7 else np.array([f"class {c:02d}" for c in range(k)])
    if machine in CLASSIFIERS:
        if isinstance(params.get("class_weight"), dict):
            params["class_weight"] = {names[c].item(): w for c, w in params["class_weight"].items()}
        y = names[y]
    params = {key: value.item() if isinstance(value, np.generic) else value for key, value in params.items()}
    given_X: Any = X
    if container == "float32":
        given_X = X.astype(np.float32)
    elif container == "integer":
        given_X = X.astype(np.int64)
    elif container == "fortran":
        given_X = np.asfortranarray(X)
    elif container == "csr":
        given_X = sp.csr_matrix(X)
    return Problem(
        seed, machine, params, given_X, y, weight, container == "on disk", stop, before, twin, tuple(notes), extra
    )


def _precomputed(rng, X: np.ndarray) -> np.ndarray:
    """A kernel matrix, of full rank or not."""
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    inner = Z @ Z.T
    if rng.uniform() < 0.4:
        return 0.5 * (inner + inner.T)
    norms = (Z * Z).sum(axis=1)
    K = np.exp(-_log_uniform(rng, -2, 0.5) / X.shape[1] * np.maximum(0.0, norms[:, None] + norms - inner - inner.T))
    return 0.5 * (K + K.T)
