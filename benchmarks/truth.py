"""Does a fit that says CONVERGED hold what it says? Recomputed from the public attributes, with none of our own code.

    MAXMARGIN_DATA=... python benchmarks/truth.py [--only a9a] [--quick]

For each fit: status, the largest violation m(β) − M(β) in float64 from ``dual_coef_``, ``support_`` and scikit-learn's
kernels (for linear machines the primal value of ``coef_``, ``intercept_`` against ``certificate_.dual``), and what the
certificate says of it. A line is wrong if CONVERGED and the number by hand is above tol. Results go to
results/truth.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from data import path, svmlight
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin

COSTS = (0.05, 0.07, 0.1, 0.3, 0.7, 0.9, 1.1, 3.3, 13.7)
BLOCK = 2000  # rows of the kernel matrix at a time


def products(model, X, beta: np.ndarray, gamma: float) -> np.ndarray:
    """Kβ over the support vectors."""
    used = np.flatnonzero(beta)
    out = np.empty(len(X))
    for a in range(0, len(X), BLOCK):
        out[a : a + BLOCK] = rbf_kernel(X[a : a + BLOCK], X[used], gamma=gamma) @ beta[used]
    return out


def spread(slope: np.ndarray, beta, lower, upper, eps=0.0) -> float:
    """m − M of the variables of one sum: the steepest that may grow against the steepest that may shrink."""
    up = -(slope + np.where(beta >= 0, eps, -eps))
    down = -(slope + np.where(beta > 0, eps, -eps))
    return float(up[beta < upper].max(initial=-np.inf) - down[beta > lower].min(initial=np.inf))


def violation(name: str, model, X, y, gamma: float) -> float:
    """The largest violation by the public attributes."""
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    if name == "SVC":
        sign = np.where(y == model.classes_[1], 1.0, -1.0)
        box = model.C
        slope = products(model, X, beta, gamma) - sign
        return spread(slope, beta, np.minimum(0, sign * box), np.maximum(0, sign * box))
    if name == "SVR":
        return spread(products(model, X, beta, gamma) - y, beta, -model.C, model.C, model.epsilon)
    if name == "NuSVC":
        sign = np.where(y == model.classes_[1], 1.0, -1.0)
        beta = beta * (model.nu * len(X) / np.abs(beta).sum())
        beta = np.where(np.abs(np.abs(beta) - 1.0) < 1e-9, np.sign(beta), beta)
        f = products(model, X, beta, gamma)
        lower, upper = np.minimum(0, sign), np.maximum(0, sign)
        return max(spread(f[sign == s], beta[sign == s], lower[sign == s], upper[sign == s]) for s in (1.0, -1.0))
    if name == "OneClassSVM":
        return spread(products(model, X, beta, gamma), beta, 0.0, 1.0)
    if name == "SVDD":
        beta = 0.5 * beta
        most = min(1.0, 1.0 / (model.nu * len(X)))
        beta = np.where(np.abs(beta - most) < 1e-9 * most, most, beta)
        return spread(products(model, X, beta, gamma) - 0.5, beta, 0.0, most)
    f = products(model, X, beta, gamma) - y
    u, v = np.maximum(beta, 0.0), np.minimum(beta, 0.0)
    return max(spread(f, u, 0.0, model.C), spread(f, v, -model.C, 0.0))


def sets(quick: bool):
    """(name, X, y) of the classification data."""
    yield "a9a", *svmlight("a9a.bz2", 123)
    yield "w7a", *svmlight("w7a.bz2", 300)
    yield "phishing", *svmlight("phishing.bz2", 68)
    yield "mushrooms", *svmlight("mushrooms.bz2", 112)
    shuttle = pd.read_csv(path("shuttle.csv.xz")).to_numpy(float)
    X, label = shuttle[:, :-1], shuttle[:, -1]
    yield "shuttle", (X - X.mean(0)) / X.std(0), (label == 1).astype(int)
    skin = pd.read_csv(path("skin_nonskin.csv.xz"), header=None).to_numpy(float)
    some = np.random.default_rng(0).permutation(len(skin))[: 5000 if quick else 40000]
    yield "skin", skin[some, :-1] / 255.0, skin[some, -1]
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(20000, 4)), 0)
    yield "rounded", X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=20000) > 0).astype(int)


def kernel_fits(quick: bool, only: str | None):
    """All fits of kernel machines that are asked for: (label, machine, X, y, γ)."""
    for name, X, y in sets(quick):
        if only and only not in name:
            continue
        gammas = (0.01, 0.05, 0.3) if name == "a9a" and not quick else (0.05 if name == "a9a" else 1.0 / X.shape[1],)
        for gamma in gammas:
            for C in COSTS if name == "a9a" else (0.07, 0.7, 13.7):
                yield f"{name} C={C} γ={gamma:.3g}", maxmargin.SVC(C=C, gamma=gamma), X, y, gamma
        part = np.random.default_rng(1).permutation(len(X))[:8000]
        X, y, gamma = X[part], y[part], gammas[-1]
        value = X[:, 0] + 0.3 * np.random.default_rng(2).normal(size=len(X))
        for machine in (
            maxmargin.NuSVC(nu=0.037, gamma=gamma),
            maxmargin.SVR(C=0.7, epsilon=0.13, gamma=gamma),
            maxmargin.NuSVR(C=0.7, nu=0.37, gamma=gamma),
            maxmargin.OneClassSVM(nu=0.137, gamma=gamma),
            maxmargin.SVDD(nu=0.137, gamma=gamma),
        ):
            target = value if isinstance(machine, (maxmargin.SVR, maxmargin.NuSVR)) else y
            yield f"{name} {type(machine).__name__}", machine, X, target, gamma


def linear_fits(quick: bool, only: str | None):
    """LinearSVC on raw features: (label, machine, X, y)."""
    files = {"segment": "segment.csv.xz", "shuttle": "shuttle.csv.xz", "vowel": "vowel.csv", "letter": "letter.csv.xz"}
    for name in ("segment", "shuttle", "satimage", "vowel", "letter"):
        if only and only not in f"linear {name}":
            continue
        if name == "satimage":
            table = pd.read_csv(path("satimage.train.csv.xz"), header=None)
        else:
            table = pd.read_csv(path(files[name]))
        label = table.iloc[:, 0 if name == "letter" else -1]
        X = table.drop(columns=label.name).select_dtypes("number").to_numpy(float)
        for C in (1e-3, 0.7, 1e4) if quick else (1e-3, 1e-2, 0.13, 0.7, 7.3, 130.0, 1e4, 1e5):
            yield f"linear {name} C={C:g}", maxmargin.LinearSVC(C=C), X, label.to_numpy()


def primal(model, X, y, c: int) -> float:
    """½‖w‖² + C Σ max(0, 1 − t f)² of one class against the rest."""
    two = len(model.classes_) == 2
    w, b = model.coef_[c], model.intercept_[c]
    t = np.where(y == model.classes_[1 if two else c], 1.0, -1.0)
    return float(0.5 * w @ w + model.C * (np.maximum(0.0, 1.0 - t * (X @ w + b)) ** 2).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true", help="fewer costs and rows")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, wrong, unfinished = [], 0, 0

    def tell(label, model, found, limit, seconds):
        nonlocal wrong, unfinished
        converged = model.status_ is maxmargin.Status.CONVERGED
        false = converged and not found <= limit * (1 + 1e-6) + 1e-9
        wrong, unfinished = wrong + false, unfinished + (not converged)
        rows.append([label, model.status_.name, model.solver_, f"{found:.3g}", f"{limit:.3g}",
                     f"{model.certificate_.relative_gap:.2g}", f"{seconds:.2f}"])  # fmt: skip
        print(("WRONG " if false else "      ") + "  ".join(rows[-1]), flush=True)

    for label, machine, X, y, gamma in kernel_fits(given.quick, given.only):
        started = time.perf_counter()
        model = machine.fit(X, y)
        seconds = time.perf_counter() - started
        if len(getattr(model, "classes_", [0, 1])) == 2:
            tell(label, model, violation(type(model).__name__, model, X, y, gamma), model.tol, seconds)
    for label, machine, X, y in linear_fits(given.quick, given.only):
        started = time.perf_counter()
        model = machine.fit(X, y)
        seconds = time.perf_counter() - started
        gaps = [
            (value - proof.dual) / max(value, abs(proof.dual))
            for value, proof in ((primal(model, X, y, c), proof) for c, proof in enumerate(model.certificates_))
        ]
        tell(label, model, max(gaps), model.tol, seconds)
    print(f"{len(rows)} fits, {wrong} wrong, {unfinished} not converged")
    if not given.only:
        with (Path(__file__).parent / "results" / "truth.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["fit", "status", "solver", "found", "tol", "relative_gap", "seconds"], *rows])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
