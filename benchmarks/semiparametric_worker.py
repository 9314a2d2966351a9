"""One contender of MPD's §6 at one size, in a process of its own: prints a line of JSON a problem.

    python semiparametric_worker.py auto 2000 --boxes C --costs 1

    y = sin x + sinc 2π(x − 5) + noise          x uniform in [0, 10], noise uniform with standard deviation 0.2
    f(x) = Σ β_i k(x_i, x) + η₁ sin x + η₂ sinc 2π(x − 5)                      no bias, ε-insensitive loss, ε = .05

The paper names no kernel; this is a Gaussian of width 1/4, so that sinc, and not only noise, is within its reach. The
paper's box is C/m, the library's is C. General QP solvers get the problem with 2m variables, as the paper states it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from maxmargin.formulations import Samples

GAMMA, EPSILON, NOISE = 8.0, 0.05, 0.2
CACHE_MB = 1000  # for kernel rows; the paper took 2000
QP_TOL = 1e-6  # of general QP solvers, in their own sense: at ours, which bounds violations, some end far from feasible
WARM_UP = {"auto": 2500, "mpd": 2500, "interior-point": 600}  # points: enough to use all that large problems use


def sine(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0])


def bump(X: np.ndarray) -> np.ndarray:
    return np.sinc(2.0 * (X[:, 0] - 5.0))  # sin(t)/t at t = 2π(x − 5)


@dataclass
class Found:
    """What a contender returns; the certificate is computed when the clock has stopped."""

    eta: np.ndarray
    certificate: Callable[[], Any]
    status: str
    solver: str = ""


def sample(m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (m, 1))
    half_width = NOISE * math.sqrt(3.0)
    return X, sine(X) + bump(X) + rng.uniform(-half_width, half_width, m)


# ---------------------------------------------------------------------------------------------- contenders


def ours(solver: str) -> Callable:
    def fit(X, y, C: float, tol: float, limit: float) -> Found:
        from maxmargin import SVR

        model = SVR(
            C=C, epsilon=EPSILON, gamma=GAMMA, fit_intercept=False, parametric=[sine, bump], solver=solver, tol=tol,
            time_limit=limit, cache_size=CACHE_MB,
        ).fit(X, y)  # fmt: skip
        return Found(model.parametric_coef_, lambda: model.certificate_, model.status_.name, model.solver_)

    return fit


def stacked(X, y, C: float) -> tuple[np.ndarray, ...]:
    """MPD's Table 1: variables α and α*, H = [K −K; −K K]; K itself, f₀, the rows f_j, d."""
    K = np.exp(-GAMMA * (X - X.T) ** 2)
    phi = np.array([sine(X), bump(X)])
    return (
        np.block([[K, -K], [-K, K]]), np.r_[EPSILON - y, EPSILON + y], np.hstack([phi, -phi]), np.full(2 * len(y), C),
    )  # fmt: skip


def unstacked(X, y, C: float, x: np.ndarray, eta: np.ndarray, status: str) -> Found:
    def certificate():
        from maxmargin.formulations import EpsilonSVR, SemiParametric
        from maxmargin.gram import Kernel, KernelGram

        machine = EpsilonSVR(C=C, epsilon=EPSILON, fit_intercept=False)
        gram = KernelGram(Kernel("rbf", GAMMA), X)
        qp = SemiParametric(machine, np.array([sine(X), bump(X)])).qp(Samples(gram, y, np.ones(len(y))))
        return qp.certificate(np.clip(x[: len(y)] - x[len(y) :], -C, C), eta)

    return Found(eta, certificate, status)


def by_piqp(X, y, C: float, tol: float, limit: float) -> Found:
    import piqp

    H, f, F, d = stacked(X, y, C)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = QP_TOL
    none = np.zeros((0, len(f)))
    solver.setup(H, f, F, np.zeros(len(F)), none, np.zeros(0), np.zeros(0), np.zeros(len(f)), d)
    status = solver.solve()
    return unstacked(X, y, C, np.asarray(solver.result.x), np.asarray(solver.result.y), status.name)


def by_clarabel(X, y, C: float, tol: float, limit: float) -> Found:
    import clarabel
    import scipy.sparse as sp

    H, f, F, d = stacked(X, y, C)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = QP_TOL
    eye = sp.identity(len(f), format="csc")
    rows = sp.vstack([sp.csc_matrix(F), eye, -eye]).tocsc()
    right = np.concatenate([np.zeros(len(F)), d, np.zeros(len(f))])
    cones = [clarabel.ZeroConeT(len(F)), clarabel.NonnegativeConeT(2 * len(f))]
    answer = clarabel.DefaultSolver(sp.triu(sp.csc_matrix(H)).tocsc(), f, rows, right, cones, settings).solve()
    return unstacked(X, y, C, np.asarray(answer.x), np.asarray(answer.z)[: len(F)], str(answer.status))


FITS = {
    "auto": ours("auto"), "mpd": ours("mpd"), "interior-point": ours("interior-point"), "PIQP": by_piqp,
    "Clarabel": by_clarabel,
}  # fmt: skip
PACKAGES = {"PIQP": "piqp", "Clarabel": "clarabel"}


# ---------------------------------------------------------------------------------------------- measuring


def reports(options: argparse.Namespace) -> Iterator[dict]:
    from worker import forget_peak, peak, resident, timed, unique_messages

    fit = FITS[options.contender]
    X, y = sample(options.m)
    few = min(options.m, WARM_UP.get(options.contender, 200))
    warm = X[:few], y[:few]
    for box in options.boxes:
        for cost in options.costs:
            settings = {"C": cost / options.m if box == "C/m" else cost, "tol": options.tol, "limit": options.limit}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit(*warm, **settings)
            forget_peak()
            before = resident()
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                seconds, found = timed(partial(fit, X, y, **settings), options.repeat, options.budget)
            most = peak()
            proof = found.certificate()
            yield {
                "status": "ok", "box": box, "C": cost, "version": version(PACKAGES.get(options.contender, "maxmargin")),
                "ended": found.status, "solver": found.solver, "seconds": seconds, "median": statistics.median(seconds),
                "peak_mb": most / 2**20, "growth_mb": (most - before) / 2**20, "objective": -proof.dual,
                "relative_gap": proof.relative_gap, "violation": proof.violation, "infeasibility": proof.infeasibility,
                "eta1": float(found.eta[0]), "eta2": float(found.eta[1]), "note": "; ".join(unique_messages(heard)),
            }  # fmt: skip


def main() -> None:
    options = parser().parse_args()
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    try:
        for report in reports(options):
            print(json.dumps(report), flush=True)
    except Exception as error:  # the parent wants a line, whatever happened
        print(json.dumps({"status": "error", "note": f"{type(error).__name__}: {error}"}), flush=True)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="One contender at one size; a line of JSON a problem.")
    options.add_argument("contender", choices=FITS)
    options.add_argument("m", type=int, help="points")
    options.add_argument("--boxes", nargs="+", default=["C", "C/m"], choices=["C", "C/m"])
    options.add_argument("--costs", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    options.add_argument("--tol", type=float, default=1e-3)
    options.add_argument("--limit", type=float, default=200, help="seconds that a fit may take")
    options.add_argument("--repeat", type=int, default=3, help="timed fits")
    options.add_argument("--budget", type=float, default=3, help="no further fit after this many seconds of them")
    options.add_argument("--threads", type=int, default=2)
    return options


if __name__ == "__main__":
    main()
