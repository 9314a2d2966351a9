"""One contender on one lasso, ½‖y − Kw‖² + ε‖w‖₁ with columns of mean 0 and norm 1, in a process of its own.

    python lasso_worker.py celer news20 --threads 2

For each ε it goes down a ladder of tolerances, up to the first that reaches the gap which all have to reach, whatever
its own criterion is, and prints a line of JSON: seconds of the clock and of the processor of the quickest fit there.
Peers get the matrix normalised beforehand: centred too where it is dense, else with an intercept of their own, which is
the same problem. Only on paths, which have no intercept, a sparse matrix is left as it is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

GAP = 1e-6  # of ½‖y‖²
PATH_GAP = 1e-4
SHARES = (10, 100, 1000)  # of the least ε at which all is 0
PATH = np.geomspace(1.0, 1e-2, 50)
LADDER = 10.0 ** -np.arange(2.0, 9.1, 0.5)  # tolerances
BY_GAP = 10.0**-6.5  # the first of them for those whose tolerance is the gap in units of ‖y‖²
QUICK = 5.0  # seconds: what takes longer is not repeated


def gap(Z, y, w: np.ndarray, epsilon: float, centred: bool) -> float:
    """Relative duality gap, for whoever found w."""
    r = y - Z @ w
    r = r - r.mean() if centred else r
    theta = r * min(1.0, epsilon / float(np.abs(Z.T @ r).max()))
    primal = 0.5 * r @ r + epsilon * np.abs(w).sum()
    return float((primal - (0.5 * y @ y - 0.5 * (y - theta) @ (y - theta))) / (0.5 * y @ y))


class Ours:
    """PSVR, which normalises for itself."""

    ladder = LADDER

    def __init__(self, X, Z, y, scale) -> None:
        self.X, self.y, self.scale = X, y, scale

    def fit(self, epsilon: float, tol: float) -> np.ndarray:
        from maxmargin import PSVR

        model = PSVR(kernel="dyadic", C=np.inf, epsilon=epsilon, tol=tol).fit(self.X, self.y)
        w = np.zeros(self.X.shape[1])
        w[model.support_] = model.alpha_
        return w

    def path(self, epsilons: np.ndarray, tol: float) -> np.ndarray:
        from maxmargin import PSVR

        return PSVR(kernel="dyadic", C=np.inf, tol=tol).path(self.X, self.y, epsilons).alphas


class Peer:
    """A ``Lasso`` with scikit-learn's interface; its alpha is ε / n."""

    def __init__(self, module: str, X, Z, y, scale) -> None:
        self.name, self.Z, self.y = module, Z, y
        self.lasso = importlib.import_module(module).Lasso
        self.ladder = LADDER if module == "skglm" else LADDER[LADDER <= BY_GAP * 1.001]

    def fit(self, epsilon: float, tol: float) -> np.ndarray:
        rounds = 100_000 if self.name == "sklearn.linear_model" else 1000
        intercept = sp.issparse(self.Z)
        model = self.lasso(epsilon / len(self.y), fit_intercept=intercept, tol=tol, max_iter=rounds)
        return model.fit(self.Z, self.y).coef_

    def path(self, epsilons: np.ndarray, tol: float) -> np.ndarray:
        alphas = epsilons / len(self.y)
        if self.name == "skglm":
            found = self.lasso(fit_intercept=False, tol=tol, max_iter=1000).path(self.Z, self.y, alphas)[1]
        elif self.name == "celer":
            found = importlib.import_module("celer").celer_path(
                self.Z, self.y, "lasso", alphas=alphas, tol=tol, max_iter=1000
            )[1]
        else:
            found = importlib.import_module("sklearn.linear_model").lasso_path(
                self.Z, self.y, alphas=alphas, tol=tol, max_iter=100_000
            )[1]
        return np.asarray(found).T


CONTENDERS: dict[str, Callable] = {
    "maxmargin": Ours,
    "scikit-learn": lambda *args: Peer("sklearn.linear_model", *args),
    "celer": lambda *args: Peer("celer", *args),
    "skglm": lambda *args: Peer("skglm", *args),
}


def wide_gaussian():
    """200 × 20 000, of which 20 columns count."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20_000))
    return X, X[:, :20] @ np.ones(20) + rng.normal(size=200)


def tall_gaussian():
    """20 000 × 500 with neighbours that agree: more samples than columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 500))
    X = X + np.roll(X, 1, axis=1) + 0.5 * np.roll(X, 2, axis=1)
    return X, X[:, ::25] @ np.ones(20) + 5.0 * rng.normal(size=len(X))


def problem(name: str):
    """X as it is; Z as peers like it; standardised targets."""
    from data import load
    from psvm import arcene

    X, y = {
        "wide": wide_gaussian,
        "tall": tall_gaussian,
        "arcene": arcene,
        "news20": lambda: load("news20-one"),
    }[name]()
    if sp.issparse(X):
        count, mean = X.shape[0], np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() - count * mean**2
        scale = 1.0 / np.sqrt(np.where(squares > 1e-12, squares, 1.0))
        Z = sp.csc_matrix(X @ sp.diags(np.where(squares > 1e-12, scale, 0.0)))
        Z.eliminate_zeros()
    else:
        away = X - X.mean(axis=0)
        norm = np.linalg.norm(away, axis=0)
        scale = 1.0 / np.where(norm > 0, norm, 1.0)
        Z = np.asfortranarray(away * scale)
    return X, Z, (y - y.mean()) / y.std(), scale


def once(make: Callable) -> tuple:
    """What it returns, and the seconds of the clock and of the processor."""
    begun, used = time.perf_counter(), time.process_time()
    result = make()
    return result, time.perf_counter() - begun, time.process_time() - used


def climb(ladder: np.ndarray, run: Callable, judge: Callable, goal: float) -> tuple:
    """The first tolerance that reaches the goal, what it gives and its least seconds; the last one where none does."""
    for tol in ladder:
        found, clock, processor = once(lambda: run(float(tol)))  # noqa: B023
        reached = judge(found)
        if reached <= goal:
            break
    if clock < QUICK:
        again = once(lambda: run(float(tol)))
        clock, processor = min(clock, again[1]), min(processor, again[2])
    return found, {"seconds": clock, "processor": processor, "gap": reached, "tol": float(tol)}


def measure(contender: str, name: str):
    X, Z, y, scale = problem(name)
    centred = sp.issparse(Z)
    few = min(60, X.shape[1])
    for part, columns in ((X[:, :few], Z[:, :few]),):  # to compile
        warm = CONTENDERS[contender](part, columns, y, scale[:few])
        top = float(np.abs(columns.T @ y).max())
        warm.fit(0.5 * top, 1e-2), warm.path(top * PATH[:3], 1e-2)
    machine = CONTENDERS[contender](X, Z, y, scale)
    largest = float(np.abs(Z.T @ y).max())
    for share in SHARES:
        epsilon = largest / share
        w, row = climb(
            machine.ladder[machine.ladder < 1e-3],
            lambda tol: machine.fit(epsilon, tol),  # noqa: B023
            lambda w: gap(Z, y, w, epsilon, centred),  # noqa: B023
            GAP,
        )
        yield {"epsilon": f"max/{share}", "support": int(np.count_nonzero(w))} | row
    own_centre = centred and contender == "maxmargin"  # peers' paths have no intercept
    ladder = machine.ladder if contender in ("maxmargin", "skglm") else LADDER[LADDER < 1e-3]
    found, row = climb(
        ladder,
        lambda tol: machine.path(largest * PATH, tol),
        lambda found: max(gap(Z, y, w, e, own_centre) for w, e in zip(found, largest * PATH, strict=True)),
        PATH_GAP,
    )
    yield {"epsilon": "path of 50", "support": int(np.count_nonzero(found[-1]))} | row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("problem")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.threads])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for report in measure(asked.contender, asked.problem):
                print(json.dumps(report), flush=True)
        except Exception as error:  # the parent wants one line, whatever happened
            print(json.dumps({"status": "error", "note": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
