"""Compile what a first fit would compile: ``python -m maxmargin.warmup``.

Each kind of fit is run once, on data that are as small as they can be for the path of a larger fit. What is compiled is
kept in the cache of :mod:`maxmargin._jit`; a kind whose code is there already takes a fraction of a second.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris

from . import _jit
from .estimators import SVC, SVDD, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from .files.svmlight import read_lines

__all__ = ["kinds", "warmup"]

SMALL = 60  # samples of three classes: problems that small_problems.py solves together
LARGE = 2600  # samples: more than are solved whole, as few as take every step of a large fit
FEATURES = 6
SPARSE_FEATURES = 60
WIDE = 210  # features: with them rows are too many for one leaf of a linear machine
STEPS = 2000  # of a kernel machine: compiled code is complete after the first ones


def kinds() -> Iterator[tuple[str, Callable[[], object]]]:
    """A name and a fit (with a prediction) for each kind of work that compiles something of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LARGE, FEATURES))
    score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=LARGE)
    sparse = sp.random_array((LARGE, SPARSE_FEATURES), density=0.1, rng=rng, format="csr")
    sparse_score = sparse @ rng.normal(size=SPARSE_FEATURES) + 0.3 * rng.normal(size=LARGE)
    forms = {"": (X, score), ", float32": (X.astype(np.float32), score), ", CSR": (sparse, sparse_score)}

    def fit(machine: Any, X: Any, y: Any) -> Callable[[], object]:
        def run() -> None:
            machine.fit(X, y)
            machine.predict(X)

        return run

    for form, (points, target) in forms.items():
        few, some = points[:SMALL], target[:SMALL]
        three = np.digitize(some, np.quantile(some, [1 / 3, 2 / 3]))
        for name, machine in {"SVC": SVC(), "NuSVC": NuSVC(nu=0.2)}.items():
            yield f"{name}, few samples of three classes{form}", fit(machine, few, three)
        for name, regression in {"SVR": SVR(), "NuSVR": NuSVR(), "OneClassSVM": OneClassSVM(), "SVDD": SVDD()}.items():
            yield f"{name}, few samples{form}", fit(regression, few, some)
        yield f"SVC{form}", fit(SVC(max_iter=STEPS), points, target > 0)
        yield f"SVC, squared hinge{form}", fit(SVC(loss="squared_hinge", max_iter=STEPS), points, target > 0)
        yield f"SVC, linear kernel{form}", fit(SVC(kernel="linear"), points, target > 0)
        yield f"NuSVC{form}", fit(NuSVC(max_iter=STEPS), points, target > 0)
        yield f"SVR{form}", fit(SVR(max_iter=STEPS), points, target)
        yield f"SVR, parametric{form}", fit(SVR(parametric=_first_columns, max_iter=STEPS), points, target)
        yield f"NuSVR{form}", fit(NuSVR(max_iter=STEPS), points, target)
        yield f"OneClassSVM{form}", fit(OneClassSVM(max_iter=STEPS), points, None)
        yield f"SVDD{form}", fit(SVDD(max_iter=STEPS), points, None)
        for loss in ("squared_hinge", "hinge", "huber"):
            yield f"LinearSVC, {loss}{form}", fit(LinearSVC(loss=loss), points, target > 0)
        yield f"LinearSVC, hinge, few samples of three classes{form}", fit(LinearSVC(loss="hinge"), few, three)
        many = points if sp.issparse(points) else rng.normal(size=(LARGE, WIDE)).astype(points.dtype)
        for solver in ("sor", "interior-point"):
            kind = f"{solver}, many numbers{form}"
            yield f"LinearSVC, {kind}", fit(LinearSVC(loss="hinge", solver=solver), many, target > 0)
            yield f"LinearSVR, {kind}", fit(LinearSVR(solver=solver, epsilon=0.1), many, target)
        for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
            yield f"LinearSVR, {loss}{form}", fit(LinearSVR(loss=loss), points, target)
        yield f"LinearSVC, l1{form}", fit(LinearSVC(penalty="l1"), points, target > 0)
        chances = SVC(probability=True, max_iter=STEPS)
        yield f"SVC with probabilities{form}", fit(chances, points, target > 0)
    words = sp.random_array((SMALL * 5, SMALL * 10), density=0.02, rng=rng, format="csr")
    yield "LinearSVC, l1, many sparse features", fit(LinearSVC(penalty="l1", C=10.0), words, score[: SMALL * 5] > 0)
    few, three = X[:SMALL], np.digitize(score[:SMALL], np.quantile(score[:SMALL], [1 / 3, 2 / 3]))
    yield "LinearSVC, all classes at once", fit(LinearSVC(multi_class="crammer_singer"), few, three)
    yield "SVC with probabilities of three classes", lambda: SVC(probability=True).fit(few, three).predict_proba(few)
    yield "SVC, linear kernel, three classes", fit(SVC(kernel="linear"), few, three)
    six = np.digitize(score, np.quantile(score, np.arange(1, 6) / 6))
    for kernel in ("rbf", "linear"):  # rows of pairs as steps ask for them
        yield f"SVC, {kernel} kernel, six classes", fit(SVC(kernel=kernel, max_iter=STEPS), X, six)
    yield "SVC, squared hinge by newton", fit(SVC(loss="squared_hinge", solver="newton"), X, score > 0)
    yield "samples in LIBSVM's format", _read_samples
    yield "LinearSVC, hinge, iris", fit(LinearSVC(loss="hinge"), *load_iris(return_X_y=True))  # by way of an estimate


def _read_samples() -> None:
    """A line in LIBSVM's format."""
    read_lines("a line", [np.frombuffer(b"1 1:0.5 2:1\n", np.uint8)])


def _first_columns(X: Any) -> np.ndarray:
    return np.asarray(X[:, :2].todense() if sp.issparse(X) else X[:, :2], np.float64)


def warmup(say: Callable[[str], None] | None = None) -> float:
    """Compile all of them; the seconds that it took. ``say`` gets a line for each kind."""
    started = time.perf_counter()
    todo = list(kinds())
    for number, (name, run) in enumerate(todo, start=1):
        before, compiled = time.perf_counter(), _jit.compiling_seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fits that are stopped early say so
            run()
        if say is not None:
            compiled = _jit.compiling_seconds() - compiled
            say(f"{number:3d}/{len(todo)}  {time.perf_counter() - before:5.1f} s ({compiled:4.1f} s compiling)  {name}")
    return time.perf_counter() - started


def main() -> int:
    seconds = warmup(lambda line: print(line, flush=True))
    folder = _jit.cache_dir()
    kept = f"kept in {folder}" if folder is not None else "not kept: there is no folder for it"
    print(f"maxmargin: warmed up in {seconds:.0f} s; compiled code is {kept}")
    return 0 if folder is not None else 1


if __name__ == "__main__":
    sys.exit(main())
