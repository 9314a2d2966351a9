"""What people touch beside the plain fit: the command, probabilities, the rest of LIBLINEAR's machines, single rows.

    python benchmarks/tool.py command          train and predict on a9a, files included, beside LIBSVM's programs
    python benchmarks/tool.py probabilities    predict_proba beside scikit-learn's CalibratedClassifierCV
    python benchmarks/tool.py liblinear        penalty="l1" and Crammer–Singer: objective against time
    python benchmarks/tool.py rows             one row predicted, beside scikit-learn
    ... --only a9a news20                      data with any of these in their name, printed only

Each contender has a process of its own, which fits a small part first, so that leaves are compiled. Seconds are
medians of ``--repeat`` runs, of the clock and (``cpu``) of the processor, all threads together. ``svm-train`` and
``svm-predict`` are Debian's (libsvm-tools). CalibratedClassifierCV has ``ensemble=False``, five folds, and our SVC or
scikit-learn's inside; heart is too small for one test set, so its scores are means over 20 halves. LIBLINEAR is the
one inside scikit-learn's LinearSVC; its objective and ours are computed here from ``coef_`` and ``intercept_``. Needs
MAXMARGIN_DATA. Results: results/tool-*.csv.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from data import load, normalised, path, svmlight
from harness import HERE, child, console, surroundings, write
from sklearn.preprocessing import StandardScaler

COLUMNS = {
    "command": "job contender seconds cpu share note".split(),
    "probabilities": "data contender seconds cpu log_loss brier accuracy note status".split(),
    "liblinear": "data machine contender tol seconds cpu objective gap note status".split(),
    "rows": "data contender microseconds note status".split(),
}
AROUND = "load date threads cpu_model python numpy commit".split()
SMALL = 300  # samples of a fit that only compiles


# -- data -----------------------------------------------------------------------------------------------


def halves(name: str, times: int) -> list[tuple]:
    X, y = load(name)
    orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(times)]
    return [(X[o[::2]], y[o[::2]], X[o[1::2]], y[o[1::2]]) for o in orders]


def satimage() -> list[tuple]:
    tables = [pd.read_csv(path(f"satimage.{part}.csv.xz"), header=None).to_numpy(float) for part in ("train", "test")]
    return [scaled(*((table[:, :-1], table[:, -1].astype(int)) for table in tables))]


def scaled(train: tuple, test: tuple) -> tuple:
    scaler = StandardScaler().fit(train[0])
    return scaler.transform(train[0]), train[1], scaler.transform(test[0]), test[1]


CALIBRATED: dict[str, tuple[Callable[[], list[tuple]], dict]] = {  # training and test samples, parameters of SVC
    "heart": (lambda: halves("heart_scale", 20), {"C": 1.0, "gamma": 0.1}),
    "svmguide1": (
        lambda: [scaled(svmlight("svmguide1.bz2", 4), svmlight("svmguide1.t.bz2", 4))],
        {"C": 10.0, "gamma": 1.0},
    ),
    "satimage": (satimage, {"C": 10.0, "gamma": 0.05}),
    "usps": (lambda: [(*load("usps"), *load("usps.t"))], {"C": 10.0, "gamma": 1 / 128}),
    "a9a": (lambda: [(*load("a9a"), *load("a9a.t"))], {"C": 1.0, "gamma": 0.05}),
}
CALIBRATORS = ("maxmargin", "calibrated maxmargin", "calibrated scikit-learn")

LIBLINEAR: dict[str, Callable[[], tuple]] = {
    "a9a": lambda: load("a9a:csr"),
    "ijcnn1": lambda: load("ijcnn1:csr"),
    "news20": lambda: svmlight("news20.bz2", 62061, dense=False),
    "news20 of length 1": lambda: normalised(LIBLINEAR["news20"]),
    "usps": lambda: load("usps"),
}
MACHINES = {"l1": {"penalty": "l1", "dual": False}, "Crammer–Singer": {"multi_class": "crammer_singer"}}
LADDERS = {"maxmargin": (1e-2, 1e-3, 1e-4, 1e-5), "LIBLINEAR": (1e-1, 1e-2, 1e-3, 1e-4)}


# -- one contender, in a process of its own -----------------------------------------------------------


def timed(work: Callable, repeat: int) -> tuple[float, float, object]:
    """Median seconds of the clock, of the processor, and the last result."""
    walls, used = [], []
    for _ in range(repeat):
        start, before = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - start)
        used.append(time.process_time() - before)
    return statistics.median(walls), statistics.median(used), result


def calibrator(name: str, parameters: dict):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC as Theirs  # noqa: N811

    from maxmargin import SVC

    if name == "maxmargin":
        return SVC(probability=True, random_state=0, **parameters)
    inside = Theirs if name == "calibrated scikit-learn" else SVC
    return CalibratedClassifierCV(inside(**parameters), ensemble=False, cv=5)


def probabilities(data: str, contender: str, repeat: int) -> Iterator[dict]:
    from sklearn.metrics import log_loss

    make, parameters = CALIBRATED[data]
    splits = make()
    X, y, X_test, _ = splits[0]
    some = np.concatenate([np.flatnonzero(y == c)[:40] for c in np.unique(y)])
    calibrator(contender, parameters).fit(X[some], y[some]).predict_proba(X_test[:10])
    seen = []
    for X, y, X_test, y_test in splits:
        seconds, cpu, model = timed(lambda X=X, y=y: calibrator(contender, parameters).fit(X, y), repeat)
        p = model.predict_proba(X_test)
        brier = ((p - (y_test[:, None] == model.classes_)) ** 2).sum(axis=1).mean()
        loss = log_loss(y_test, p, labels=model.classes_)
        seen.append((seconds, cpu, loss, brier, model.score(X_test, y_test)))
    yield dict(zip(COLUMNS["probabilities"][2:7], map(float, np.mean(seen, axis=0)), strict=True))


def objective(machine: str, model, X, y) -> float:
    """Of the weights as published, the intercept's penalty included, as LIBLINEAR has it; C is 1."""
    W, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    F = np.asarray(X @ W.T) + b
    if machine == "l1":
        sign = np.where(y[:, None] == model.classes_[-len(W) :], 1.0, -1.0)
        return float(np.abs(W).sum() + np.abs(b).sum() + (np.maximum(0.0, 1.0 - sign * F) ** 2).sum())
    if len(W) == 1:
        W, b, F = np.vstack([-W, W]) / 2, np.concatenate([-b, b]) / 2, np.hstack([-F, F]) / 2
    own = y[:, None] == model.classes_
    margins = np.where(own, -1.0, 0.0) + 1.0 + F - F[own][:, None]
    return float(0.5 * (W * W).sum() + 0.5 * (b * b).sum() + margins.max(axis=1).sum())


def liblinear(data: str, machine: str, contender: str, repeat: int) -> Iterator[dict]:
    from sklearn.svm import LinearSVC as Theirs  # noqa: N811

    from maxmargin import LinearSVC

    X, y = LIBLINEAR[data]()
    parameters = MACHINES[machine] | {"random_state": 0}
    for tol in LADDERS[contender]:

        def fit(rows=slice(None), tol=tol):
            if contender == "maxmargin":
                model = LinearSVC(**parameters, intercept_scaling=1.0, tol=tol, max_iter=100_000)
            else:
                model = Theirs(**parameters, tol=tol, max_iter=1_000_000)
            return model.fit(X[rows], y[rows])

        fit(np.arange(SMALL))
        seconds, cpu, model = timed(fit, repeat)
        gap = model.certificate_.relative_gap if contender == "maxmargin" else ""
        row = {"tol": tol, "seconds": seconds, "cpu": cpu, "objective": objective(machine, model, X, y), "gap": gap}
        yield row


def rows(data: str, contender: str, repeat: int) -> Iterator[dict]:
    import importlib

    from sklearn import datasets

    machine = importlib.import_module("maxmargin" if contender == "maxmargin" else "sklearn.svm").SVC
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    model = machine().fit(X, y)
    model.predict(X[:1])
    times = [timed(lambda: model.predict(X[:1]), 1)[0] for _ in range(500 * repeat)]
    yield {"microseconds": 1e6 * statistics.median(times)}


# -- suites -----------------------------------------------------------------------------------------------


def wanted(name: str, only: list[str]) -> bool:
    return not only or any(part in name for part in only)


def cases(suite: str, only: list[str]) -> Iterator[tuple[str, ...]]:
    """The words that name a row, in the order of its columns."""
    if suite == "probabilities":
        yield from ((data, c) for data in CALIBRATED for c in CALIBRATORS if wanted(data, only))
    elif suite == "rows":
        yield from ((data, c) for data in ("iris", "breast_cancer", "digits") for c in ("maxmargin", "scikit-learn"))
    else:
        yield from (
            (data, m, c) for data in LIBLINEAR for m in MACHINES for c in LADDERS if wanted(data + m, only)
        )  # fmt: skip


def measured(suite: str, asked: argparse.Namespace) -> Iterator[dict]:
    around = surroundings(asked.threads)
    around["cpu_model"] = around.pop("cpu")
    for case in cases(suite, asked.only):
        arguments = (suite, "--worker", *case, "--repeat", asked.repeat)
        title = " ".join(case)
        for report in child("tool.py", *arguments, threads=asked.threads, timeout=asked.timeout, title=title):
            row = dict(zip(COLUMNS[suite], case, strict=False)) | report
            console.print(title, {key: value for key, value in report.items() if key != "load"})
            yield row | around


def command(asked: argparse.Namespace) -> Iterator[dict]:
    """Whole programs, a process each; the seconds are those of the process."""
    around = surroundings(asked.threads)
    around["cpu_model"] = around.pop("cpu")
    ours = [sys.executable, "-m", "maxmargin"]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a9a", "a9a.t"):
            Path(folder, name).write_bytes(bz2.decompress(path(f"{name}.bz2").read_bytes()))
        flags = ["-q", "-c", "1", "-g", "0.05"]
        programs = {
            "train": ([*ours, "train", *flags, "a9a", "ours"], ["svm-train", *flags, "a9a", "theirs"]),
            "predict": ([*ours, "predict", "a9a.t", "ours", "out"], ["svm-predict", "a9a.t", "theirs", "out"]),
            "help": ([*ours, "--help"], None),
        }
        subprocess.run([*ours, "train", *flags, "a9a", "ours"], cwd=folder, capture_output=True)  # compiles
        for job, (mine, theirs) in programs.items():
            found = {"maxmargin": whole(mine, folder, asked.repeat)}
            if theirs is not None and shutil.which(theirs[0]):
                found["LIBSVM"] = whole(theirs, folder, 1)
            for contender, (seconds, cpu) in found.items():
                share = seconds / found["LIBSVM"][0] if "LIBSVM" in found else ""
                row = {"job": job, "contender": contender, "seconds": seconds, "cpu": cpu, "share": share}
                console.print(row)
                yield row | around


def whole(program: list[str], folder: str, repeat: int) -> tuple[float, float]:
    """Median seconds of a program, of the clock and of the processor."""
    walls, used = [], []
    for _ in range(repeat):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(program, cwd=folder, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - start)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls), statistics.median(used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=COLUMNS)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a process")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        workers = {"probabilities": probabilities, "liblinear": liblinear, "rows": rows}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for report in workers[asked.suite](*asked.worker, asked.repeat):
                print(json.dumps(report), flush=True)
        return
    found = command(asked) if asked.suite == "command" else measured(asked.suite, asked)
    if asked.only:
        list(found)  # printed only
    else:
        write(HERE / "results" / f"tool-{asked.suite}.csv", found, [*COLUMNS[asked.suite], *AROUND])


if __name__ == "__main__":
    main()
