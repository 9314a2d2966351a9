"""What the page asks for, checked, and the pictures of a fit: one for each number of steps that a solver may take.

A picture after k steps is a model that was fitted with ``max_iter=k``: it has the boundary, the support vectors and the
certificate of what the solver has by then, whatever the solver is. Solvers begin at the same point each time, so that
pictures of 1, 2, 3, … steps are those of one run. The distance between two pictures grows with the steps, and so all of
them together take a small multiple of the time of the last one.
"""

from __future__ import annotations

import base64
import io
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..estimators import PSVC, SVC, SVDD, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM
from ..files.source import lines_in_pieces
from ..files.svmlight import read_lines, text_of
from ..solution import Status

__all__ = ["Asked", "Refused", "choices", "pictures", "read_points", "write_points"]

MAX_POINTS = 1000  # more are no toy: a fit of so many takes under a second
MAX_CLASSES = 6  # that colours can tell apart
MAX_GRID = 160  # a side of the grid of decisions: as many as a screen shows of them
MAX_STEPS = 10_000_000
TIME_LIMIT = 20.0  # seconds for all pictures of a request
REACH = 1e6  # largest number of a point
SPREAD = 0.95  # half-side of the square that points of a file are brought into
ONE_BY_ONE, GROWTH = 12, 1.3  # pictures of single steps, and how many times the steps of the last one the next has
TELL_EVERY = 0.1  # seconds between two words on a long fit
NOTHING = 1e-12  # of the largest coefficient: none

KERNELS = ("rbf", "linear", "poly", "sigmoid", "laplacian")
RANGES = {"C": (1e-3, 1e5), "gamma": (1e-3, 1e3), "epsilon": (1e-3, 1.0), "nu": (1e-3, 1.0)}


class Refused(ValueError):  # noqa: N818 (the page's fault, not ours)
    """A request that cannot be answered, and why."""


@dataclass(frozen=True)
class Machine:
    """A machine of the page: what it is for, its sliders, and the solvers that take its problem."""

    make: type
    task: str  # "classes", "values" or "one class"
    sliders: tuple[str, ...]
    solvers: tuple[str, ...]
    kernel: bool = True


STEPPERS = ("auto", "smo", "mpd", "interior-point", "chunking")
MACHINES = {
    "SVC": Machine(SVC, "classes", ("C", "gamma"), (*STEPPERS, "newton")),
    "NuSVC": Machine(NuSVC, "classes", ("nu", "gamma"), STEPPERS),
    "LinearSVC": Machine(LinearSVC, "classes", ("C",), (*STEPPERS, "newton", "asvm", "nearest-point", "sor"), False),
    "PSVC": Machine(
        PSVC, "classes", ("C", "epsilon", "gamma"), (*STEPPERS, "adatron", "sor", "columns", "potential-smo")
    ),
    "SVR": Machine(SVR, "values", ("C", "epsilon", "gamma"), (*STEPPERS, "newton")),
    "NuSVR": Machine(NuSVR, "values", ("C", "nu", "gamma"), STEPPERS),
    "OneClassSVM": Machine(OneClassSVM, "one class", ("nu", "gamma"), STEPPERS),
    "SVDD": Machine(SVDD, "one class", ("nu", "gamma"), STEPPERS),
}


def choices() -> dict[str, Any]:
    """What the page offers."""
    machines = {
        name: {"task": m.task, "sliders": m.sliders, "solvers": m.solvers, "kernel": m.kernel}
        for name, m in MACHINES.items()
    }
    limits = {"points": MAX_POINTS, "classes": MAX_CLASSES, "grid": MAX_GRID}
    return {"machines": machines, "kernels": KERNELS, "ranges": RANGES, "limits": limits}


# -- what was asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A fit that the page asks for."""

    machine: str
    points: np.ndarray  # (n, 2), in the square [−1, 1]²
    label: np.ndarray  # (n,), a class from 1
    kernel: str = "rbf"
    solver: str = "auto"
    parameters: dict[str, float] = field(default_factory=dict)
    degree: int = 3
    first: int = 1  # steps of the first picture
    last: int | None = None  # steps of the last one; None: until the solver ends
    every: bool = True  # whether there are pictures on the way
    grid: int = 80

    @classmethod
    def read(cls, found: Any) -> Asked:
        """The request, or an error that says what is wrong with it."""
        if not isinstance(found, dict):
            raise Refused("an object was asked for; found something else; send {machine, points, …}")
        machine = _one_of(found, "machine", tuple(MACHINES))
        points, label = _points(found.get("points"))
        known = MACHINES[machine]
        given = {name: _number(found, name, *RANGES[name]) for name in known.sliders if name in found}
        last = found.get("last")
        first = int(_number(found, "first", 1, MAX_STEPS, 1))
        return cls(
            machine=machine,
            points=points,
            label=label,
            kernel=_one_of(found, "kernel", KERNELS, "rbf"),
            solver=_one_of(found, "solver", known.solvers, "auto"),
            parameters=given,
            degree=int(_number(found, "degree", 1, 10, 3)),
            first=first,
            last=None if last is None else int(_number(found, "last", first, MAX_STEPS)),
            every=found.get("every", True) is not False,
            grid=int(_number(found, "grid", 8, MAX_GRID, 80)),
        )

    @property
    def task(self) -> str:
        return MACHINES[self.machine].task

    def model(self, max_iter: int, time_limit: float, callback: Callable) -> Any:
        """The machine, to be fitted."""
        options: dict[str, Any] = {k: v for k, v in self.parameters.items() if k != "gamma"}
        if MACHINES[self.machine].kernel:
            options["kernel"] = self.kernel
            if "gamma" in self.parameters:
                options["gamma"] = self.parameters["gamma"]
            options |= {"degree": self.degree, "coef0": 1.0 if self.kernel == "poly" else 0.0}
        return MACHINES[self.machine].make(
            solver=self.solver, max_iter=max_iter, time_limit=time_limit, callback=callback, n_jobs=1, **options
        )

    def samples(self) -> tuple[np.ndarray, np.ndarray | None]:
        """X and y as the machine takes them."""
        if self.task == "values":
            return self.points[:, :1], self.points[:, 1]
        return self.points, self.label if self.task == "classes" else None


def _one_of(found: dict, name: str, known: tuple[str, ...], default: str | None = None) -> str:
    value = found.get(name, default)
    if value not in known:
        raise Refused(f"{name}={str(value)[:40]!r} was asked for; known here are {', '.join(known)}; choose one")
    return value


def _number(found: dict, name: str, least: float, most: float, default: float | None = None) -> float:
    value = found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise Refused(f"{name}={str(value)[:40]} was asked for; it lies between {least:g} and {most:g}; choose another")
    return float(value)


def _points(found: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(found, list) or not found:
        raise Refused("points were asked for; found none; click into the picture first")
    if len(found) > MAX_POINTS:
        raise Refused(f"at most {MAX_POINTS} points are taken here; found {len(found)}; remove some")
    for point in found:
        sound = isinstance(point, list) and len(point) == 3
        if not sound or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in point):
            raise Refused(f"points [x, y, class] were asked for; found {str(point)[:60]}; send three numbers each")
        if not all(abs(v) <= REACH for v in point):  # nor NaN
            raise Refused(f"a point nearer than {REACH:g} was asked for; found {str(point)[:60]}; scale the data")
    table = np.array(found, np.float64)
    label = table[:, 2].astype(np.int64)
    if (label != table[:, 2]).any() or label.min() < 1 or label.max() > MAX_CLASSES:
        raise Refused(f"classes 1 … {MAX_CLASSES} were asked for; found another; number them like this")
    return table[:, :2], label


# -- pictures ---------------------------------------------------------------------------------------------------------


def pictures(asked: Asked, told: Callable[[dict], None], stop: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """The pictures of a fit, one after the other; ``told`` gets a word now and then while one is being made."""
    X, y = asked.samples()
    if asked.task == "classes" and len(np.unique(asked.label)) < 2:
        raise Refused("points of two classes or more were asked for; found one class; add points of another class")
    deadline = time.monotonic() + TIME_LIMIT
    steps, final = asked.first, not asked.every and asked.last is None
    while True:
        left = max(deadline - time.monotonic(), TELL_EVERY)
        model = asked.model(-1 if final else steps, left, _Telling(told, stop))
        model.fit(X) if y is None else model.fit(X, y)
        # A tolerance may be met by what a solver has when it is cut off: its own end is one more picture.
        taken = int(np.max(model.n_iter_))
        ended = model.status_ is not Status.MAX_ITERATIONS
        cut = model.status_.converged and taken >= steps and asked.last is None
        last = final or (ended and not cut) or stop() or (asked.last is not None and steps >= asked.last)
        yield _picture(asked, model, X, y, taken if final or taken < steps else steps, last)
        if last:
            return
        final = cut or time.monotonic() > deadline  # too many pictures: what is left is the end
        steps = steps + 1 if steps < ONE_BY_ONE else math.ceil(GROWTH * steps)
        steps = steps if asked.last is None else min(steps, asked.last)


class _Telling:
    """The callback of a fit: says how it goes, and stops it when nobody wants it any more."""

    def __init__(self, told: Callable[[dict], None], stop: Callable[[], bool]) -> None:
        self.told, self.stop, self.at = told, stop, time.monotonic()

    def __call__(self, row: dict[str, Any]) -> bool:
        if time.monotonic() - self.at >= TELL_EVERY:
            self.at = time.monotonic()
            primal, dual = _finite(row["primal"]), _finite(-row["objective"])
            self.told({"seconds": row["seconds"], "step": int(row["iteration"]), "primal": primal, "dual": dual})
        return self.stop()


def _picture(asked: Asked, model: Any, X: np.ndarray, y: np.ndarray | None, steps: int, last: bool) -> dict[str, Any]:
    proofs = model.certificates_
    total = {name: float(sum(getattr(proof, name) for proof in proofs)) for name in ("primal", "dual", "gap")}
    size = max(abs(total["primal"]), abs(total["dual"]))
    facts = {name: _finite(value) for name, value in total.items()} | {
        "steps": steps,
        "relative_gap": _finite(total["gap"] / size) if size > 0 else None,
        "violation": _finite(max(proof.violation for proof in proofs)),
        "converged": bool(model.status_.converged),
        "status": model.status_.value,
        "solver": model.solver_,
        "seconds": _seconds(model),
        "problems": len(proofs),
        "last": bool(last),
    }
    support, sizes = _support(asked, model, X, y)
    facts |= {"support": support.tolist(), "sizes": np.round(sizes, 4).tolist()}
    return facts | _shape(asked, model, X, y)


def _seconds(model: Any) -> float:
    """How long the solvers worked: what was compiled on the way is not counted."""
    histories = model.history_ if isinstance(model.history_, list) else [model.history_]
    ends = [history.rows[-1][0] for history in histories if history.rows]
    return float(max(ends, default=model.fit_time_))


def _support(asked: Asked, model: Any, X: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the support vectors, and how large their coefficients are, as shares of the largest."""
    if asked.machine == "LinearSVC":  # its weights are its model: those on the wrong side of the margin made them
        decisions = np.asarray(model.decision_function(X), np.float64).reshape(len(X), -1)
        classes = model.classes_[1:] if decisions.shape[1] == 1 else model.classes_
        signs = np.where(y[:, None] == classes, 1.0, -1.0)  # type: ignore[index]
        short = np.maximum(1.0 - signs * decisions, 0.0).max(axis=1)
        support = np.flatnonzero(short > 0.0)
        sizes = short[support]
    else:
        coef = model.alpha_ if asked.machine == "PSVC" else model.dual_coef_
        support, sizes = np.asarray(model.support_), np.abs(np.atleast_2d(coef)).max(axis=0)
    largest = float(sizes.max(initial=0.0))
    kept = sizes > NOTHING * largest
    return support[kept], sizes[kept] / (largest or 1.0)


def _shape(asked: Asked, model: Any, X: np.ndarray, y: np.ndarray | None) -> dict[str, Any]:
    """What is drawn: a curve with its tube, or decisions on a grid."""
    if asked.task == "values":
        at = np.linspace(-1.0, 1.0, 2 * asked.grid + 1)
        tube = float(getattr(model, "epsilon_", getattr(model, "epsilon", 0.0)))
        error = float(np.mean((model.predict(X) - y) ** 2))
        return {"curve": _packed(model.predict(at[:, None])), "tube": tube, "score": f"Mean squared error {error:.3g}"}
    side = np.linspace(-1.0, 1.0, asked.grid)
    places = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])  # row by row, from below
    if asked.task == "one class":
        outside = float(np.mean(model.predict(X) < 0))
        return {"field": _packed(model.decision_function(places)), "score": f"{outside:.0%} of the points are outside"}
    right = float(np.mean(model.predict(X) == y))
    score = {"score": f"{right:.1%} of the points are on their side"}
    if len(model.classes_) == 2:
        pair = [int(c) for c in model.classes_]
        return {"field": _packed(model.decision_function(places)), "pair": pair} | score
    labels = np.asarray(model.predict(places), np.uint8)
    return {"labels": base64.b64encode(labels.tobytes()).decode()} | score


def _packed(values: np.ndarray) -> str:
    """Numbers as little-endian float32 in base64, which a browser reads as an array."""
    limit = float(np.finfo(np.float32).max)
    return base64.b64encode(np.clip(values, -limit, limit).astype("<f4").tobytes()).decode()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# -- files ------------------------------------------------------------------------------------------------------------


def write_points(found: Any) -> str:
    """The points as LIBSVM's text."""
    if not isinstance(found, dict):
        raise Refused("an object was asked for; found something else; send {machine, points}")
    task = MACHINES[_one_of(found, "machine", tuple(MACHINES))].task
    points, label = _points(found.get("points"))
    if task == "values":
        return "".join(text_of(_rows(points[:, :1]), points[:, 1]))
    return "".join(text_of(_rows(points), (label if task == "classes" else np.ones(len(points))).astype(np.float64)))


def _rows(X: np.ndarray) -> Any:
    import scipy.sparse as sp

    return sp.csr_matrix(X)


def read_points(found: Any) -> dict[str, Any]:
    """Points from LIBSVM's text, brought into the square where they leave it."""
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise Refused("an object with text was asked for; found something else; send {machine, text}")
    task = MACHINES[_one_of(found, "machine", tuple(MACHINES))].task
    lines = read_lines("data", lines_in_pieces("data", io.BytesIO(found["text"].encode())))
    if not 0 < len(lines) <= MAX_POINTS:
        raise Refused(f"1 … {MAX_POINTS} lines were asked for; found {len(lines)}; take a part of the file")
    first = 0 if lines.least == 0 else 1
    width, wanted = max(lines.largest + 1 - first, 1), 1 if task == "values" else 2
    if width > wanted:
        raise Refused(f"samples of {wanted} features are drawn here; found {width}; choose some of them")
    X, y = lines.matrix(first, wanted).toarray(), lines.lead[:, 0]
    if task == "values":
        X, label = np.column_stack([X[:, 0], y]), np.ones(len(y), np.int64)
    else:
        names, place = np.unique(y, return_inverse=True)
        label = place + 1 if task == "classes" else np.ones(len(y), np.int64)
        if task == "classes" and len(names) > MAX_CLASSES:
            raise Refused(f"at most {MAX_CLASSES} classes are drawn here; found {len(names)}; take some of them")
        if task == "classes" and set(names.tolist()) <= set(range(1, MAX_CLASSES + 1)):
            label = y.astype(np.int64)
    outside = np.abs(X).max() > 1.0
    if outside:
        low, high = X.min(axis=0), X.max(axis=0)
        half = np.where(high > low, (high - low) / 2.0, 1.0)
        X = SPREAD * (X - (low + high) / 2.0) / half
    points = [[x, t, c] for (x, t), c in zip(X.tolist(), label.tolist(), strict=True)]
    return {"points": points, "scaled": bool(outside)}
