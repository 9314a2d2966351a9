"""One contender on one problem in a process of its own: prints one line of JSON.

    python worker.py scikit-learn "heart_scale SVC C=1 gamma=0.07692" --repeat 3 --threads 2

The order matters: import, load, note the memory, warm up on a slice, time the fits, note the peak, and only
then predict and audit, so that neither adds to the peak. run.py sets the environment that holds thread pools.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

WARM_UP_ROWS = 1000
QUICK_SECONDS, QUICK_CALLS = 0.5, 50  # quick calls are repeated until either is reached


def main() -> None:
    options = parser().parse_args()
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    try:
        report = run(options)
    except Exception as error:  # the parent wants one line, whatever happened
        report = {"status": "error", "note": f"{type(error).__name__}: {error}"}
    print(json.dumps(report), flush=True)


def run(options: argparse.Namespace) -> dict:
    import numpy as np
    from data import load
    from objective import audit
    from peers import PEERS
    from problems import PROBLEMS

    peer, problem = PEERS[options.contender], PROBLEMS[options.problem]
    if not peer.offers(problem):
        return {"status": "not offered", "note": ""}
    X, y = load(problem.data)
    loaded = resident()
    rows = np.linspace(0, len(y) - 1, min(len(y), WARM_UP_ROWS)).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(problem, X[rows], y[rows])

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        seconds, model = timed(lambda: peer.fit(problem, X, y), options.repeat, options.budget)
    report = {
        "status": "ok",
        "version": peer.version,
        "n": X.shape[0],
        "d": X.shape[1],
        "seconds": seconds,
        "median": statistics.median(seconds),
        "peak_mb": peak() / 2**20,
        "growth_mb": (peak() - loaded) / 2**20,
        "n_support": int(np.sum(model.n_support_)),
        "note": "; ".join(["fell back to scikit-learn"] * peer.fell_back(model) + unique_messages(heard)),
    }
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        report["own_gap"] = float(certificate.gap)
    if problem.test:
        X_test, y_test = load(problem.test)
        peer.predict(model, X_test[:WARM_UP_ROWS])
        predict_seconds, predicted = timed(lambda: peer.predict(model, X_test), options.repeat, options.budget)
        report |= {"predict_seconds": predict_seconds, "predict_median": statistics.median(predict_seconds)}
        report["test_score"] = score(predicted, y_test, problem.estimator)
    if options.audit:
        report["train_score"] = score(peer.predict(model, X), y, problem.estimator)
        report |= audit(model, problem, X, y)
    if options.predictions:
        report["predictions"] = peer.predict(model, X).tolist()
    return report


def timed(call: Callable, repeat: int, budget: float):
    """The seconds of each call, and what the last one returned."""
    seconds: list[float] = []
    while (
        not seconds
        or sum(seconds) < budget
        and (len(seconds) < repeat or sum(seconds) < QUICK_SECONDS and len(seconds) < QUICK_CALLS)
    ):
        result = None  # frees the last one, so that the peak holds one model
        start = time.perf_counter()
        result = call()
        seconds.append(round(time.perf_counter() - start, 7))
    return seconds, result


def score(predicted, y, estimator: str) -> float:
    """Accuracy, R² for regression, the share of inliers for one class."""
    if estimator == "SVR":
        return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    return float((predicted == (1 if estimator == "OneClassSVM" else y)).mean())


def unique_messages(heard: list[warnings.WarningMessage]) -> list[str]:
    return list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in heard))


def peak() -> int:
    """The largest resident size so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Let the peak begin again from what is resident now, where the system can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def resident() -> int:
    """The resident size now, in bytes; where the system does not tell, the largest so far."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else peak()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="Run one contender on one problem and print one line of JSON.")
    options.add_argument("contender")
    options.add_argument("problem", help="its name, as `run.py list` prints it")
    options.add_argument("--repeat", type=int, default=3, help="timed fits")
    options.add_argument("--budget", type=float, default=60, help="no further fit after this many seconds of them")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--audit", action=argparse.BooleanOptionalAction, default=True, help="recompute the objective")
    options.add_argument("--predictions", action="store_true", help="report those of the training points")
    return options


if __name__ == "__main__":
    main()
