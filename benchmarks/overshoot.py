"""How much longer than it may a fit takes: stops by a time limit, a callback that raises, and Ctrl-C, for every solver.

    python benchmarks/overshoot.py [--sizes 2000 20000 100000] [--limits .01 .1 1] [--only NAME ...] [--stops limit ...]
    python benchmarks/overshoot.py --over results/overshoot.csv [--sizes 100000]       those that took too long there

Each row of the table has a process of its own, which fits once before it counts, so that leaves are compiled. From the
call of ``fit`` to its end, what is over the limit may be .2 s + 10 % of the limit, and where that is longer one pass
over the data on top: a look at all samples by the model that was found (``predict`` on the training samples; of a
matrix, a look at each entry and its mirror image; of a Potential SVM with a kernel, the entries of K and the norms of
its columns), without which nothing can be checked or certified; it is measured where a fit takes longer than that. Data
are made; no files are read. Writes ``results/overshoot.csv``, prints the table by solver. A machine that is busy
otherwise shows in ``load``, its load average before the fit, and in ``cpu``, the processor's seconds for the fit, all
threads together; there ``--processor`` with OMP_NUM_THREADS=1 has all clocks go by these, the library's as well.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from worker import forget_peak, peak, resident

RESULTS = Path(__file__).parent / "results"
STOPS = ("limit", "callback", "interrupt")
ALLOWED, SHARE = 0.2, 0.1  # seconds, and of the limit
TIMEOUT = 300.0
FEATURES, DENSE_FEATURES = 20, 100  # of kernel machines, and of linear ones
SPARSE_FEATURES, ENTRIES = 5000, 50  # of sparse samples, and of each of them
COLUMNS = (
    "name",
    "n",
    "stop",
    "limit",
    "over",
    "cpu",
    "one_pass",
    "grown_mb",
    "solver",
    "status",
    "gap",
    "load",
    "verdict",
)

# name: machine, its parameters, kind of data; with a large nu one pass takes many seconds: nu n coefficients are not 0
CASES: dict[str, tuple[str, dict, str]] = {
    "SVC": ("SVC", {"C": 10.0}, "noisy"),
    "SVC smo": ("SVC", {"C": 10.0, "solver": "smo"}, "noisy"),
    "SVC decomposition": ("SVC", {"C": 10.0, "solver": "decomposition"}, "noisy"),
    "SVC chunking": ("SVC", {"C": 10.0, "solver": "chunking"}, "noisy"),
    "SVC interior-point": ("SVC", {"C": 10.0, "solver": "interior-point"}, "noisy"),
    "SVC mpd": ("SVC", {"C": 10.0, "solver": "mpd"}, "noisy"),
    "SVC sor": ("SVC", {"C": 10.0, "solver": "sor"}, "noisy"),
    "SVC adatron": ("SVC", {"C": 10.0, "solver": "adatron", "fit_intercept": False}, "noisy"),
    "SVC nearest-point": ("SVC", {"C": 10.0, "solver": "nearest-point", "loss": "squared_hinge"}, "noisy"),
    "SVC squared": ("SVC", {"C": 10.0, "loss": "squared_hinge"}, "noisy"),
    "SVC newton": ("SVC", {"C": 10.0, "loss": "squared_hinge", "solver": "newton"}, "noisy"),
    "SVC pcg": ("SVC", {"C": 10.0, "loss": "squared_hinge", "solver": "pcg"}, "noisy"),
    "SVC expansion": ("SVC", {"C": 10.0, "loss": "squared_hinge", "expansion": 500}, "noisy"),
    "SVC exact": ("SVC", {"C": 10.0, "tol": 1e-6}, "noisy"),
    "SVC parametric": ("SVC", {"C": 10.0, "parametric": "first"}, "noisy"),
    "SVC low rank": ("SVC", {"C": 10.0, "gamma": 0.5}, "flat"),
    "SVC low rank parametric": ("SVC", {"C": 10.0, "gamma": 0.5, "parametric": "first"}, "flat"),
    "SVC ten classes": ("SVC", {"C": 10.0}, "classes"),
    "SVC ten classes parametric": ("SVC", {"C": 10.0, "parametric": "first"}, "classes"),
    "SVC probability": ("SVC", {"C": 10.0, "probability": True}, "noisy"),
    "SVC huber": ("SVC", {"C": 10.0, "loss": "huber"}, "noisy"),
    "SVC CSR": ("SVC", {"C": 10.0}, "sparse"),
    "SVC linear": ("SVC", {"kernel": "linear", "C": 10.0}, "wide"),
    "SVC linear asvm": ("SVC", {"kernel": "linear", "solver": "asvm", "loss": "squared_hinge"}, "wide"),
    "SVC precomputed": ("SVC", {"C": 10.0, "kernel": "precomputed"}, "matrix"),
    "SVC linear decomposition": ("SVC", {"kernel": "linear", "solver": "decomposition"}, "wide"),
    "NuSVC": ("NuSVC", {"nu": 0.05}, "noisy"),
    "NuSVC ten classes": ("NuSVC", {"nu": 0.05}, "classes"),
    "SVR": ("SVR", {"C": 10.0, "epsilon": 0.01}, "values"),
    "SVR parametric": ("SVR", {"C": 10.0, "epsilon": 0.01, "parametric": "first"}, "values"),
    "SVR squared": ("SVR", {"C": 10.0, "epsilon": 0.01, "loss": "squared_epsilon_insensitive"}, "values"),
    "SVR expansion": (
        "SVR",
        {"C": 10.0, "epsilon": 0.01, "loss": "squared_epsilon_insensitive", "expansion": 500},
        "values",
    ),
    "SVR linear": ("SVR", {"kernel": "linear", "C": 10.0, "epsilon": 0.01}, "wide values"),
    "NuSVR": ("NuSVR", {"C": 10.0, "nu": 0.3}, "values"),
    "OneClassSVM": ("OneClassSVM", {"nu": 0.05}, "noisy"),
    "OneClassSVM interior-point": ("OneClassSVM", {"nu": 0.05, "solver": "interior-point"}, "noisy"),
    "OneClassSVM linear": ("OneClassSVM", {"nu": 0.05, "kernel": "linear"}, "wide"),
    "SVDD": ("SVDD", {"nu": 0.05}, "noisy"),
    "SVDD linear": ("SVDD", {"nu": 0.05, "kernel": "linear"}, "wide"),
    "LinearOneClassSVM": ("LinearOneClassSVM", {"nu": 0.05, "tol": 1e-10}, "wide"),
    "LinearOneClassSVM CSR": ("LinearOneClassSVM", {"nu": 0.05, "tol": 1e-10}, "sparse"),
    "PSVC": ("PSVC", {"epsilon": 0.01}, "noisy"),
    "PSVC potential-smo": ("PSVC", {"epsilon": 0.01, "solver": "potential-smo"}, "noisy"),
    "PSVC dyadic": ("PSVC", {"epsilon": 0.001, "kernel": "dyadic"}, "wide"),
    "PSVC dyadic ten classes": ("PSVC", {"epsilon": 0.001, "kernel": "dyadic"}, "wide classes"),
    "PSVMSelector": ("PSVMSelector", {"epsilon": 0.001}, "wide"),
    "PSVR": ("PSVR", {"epsilon": 0.01}, "values"),
    "LinearSVC": ("LinearSVC", {"tol": 1e-10}, "wide"),
    "LinearSVC hinge": ("LinearSVC", {"loss": "hinge", "tol": 1e-10}, "wide"),
    "LinearSVC hinge sor": ("LinearSVC", {"loss": "hinge", "tol": 1e-10, "solver": "sor"}, "wide"),
    "LinearSVC hinge interior-point": (
        "LinearSVC",
        {"loss": "hinge", "tol": 1e-10, "solver": "interior-point"},
        "wide",
    ),
    "LinearSVC newton": ("LinearSVC", {"tol": 1e-10, "solver": "newton"}, "wide"),
    "LinearSVC asvm": ("LinearSVC", {"tol": 1e-10, "solver": "asvm"}, "wide"),
    "LinearSVC huber": ("LinearSVC", {"loss": "huber", "tol": 1e-10}, "wide"),
    "LinearSVC l1": ("LinearSVC", {"penalty": "l1", "tol": 1e-10}, "wide"),
    "LinearSVC parametric": ("LinearSVC", {"tol": 1e-10, "parametric": "first"}, "wide"),
    "LinearSVC probability": ("LinearSVC", {"tol": 1e-10, "probability": True}, "wide"),
    "LinearSVC ten classes": ("LinearSVC", {"tol": 1e-10}, "wide classes"),
    "LinearSVC ten classes hinge": ("LinearSVC", {"loss": "hinge", "tol": 1e-10}, "wide classes"),
    "LinearSVC Crammer-Singer": ("LinearSVC", {"multi_class": "crammer_singer", "tol": 1e-10}, "wide classes"),
    "LinearSVC CSR": ("LinearSVC", {"tol": 1e-10}, "sparse"),
    "LinearSVC CSR hinge": ("LinearSVC", {"loss": "hinge", "tol": 1e-10}, "sparse"),
    "LinearSVC CSR newton": ("LinearSVC", {"tol": 1e-10, "solver": "newton"}, "sparse"),
    "LinearSVC CSR asvm": ("LinearSVC", {"tol": 1e-10, "solver": "asvm"}, "sparse"),
    "LinearSVC CSR l1": ("LinearSVC", {"penalty": "l1", "tol": 1e-10}, "sparse"),
    "LinearSVC CSR ten classes": ("LinearSVC", {"tol": 1e-10}, "sparse classes"),
    "LinearSVC CSR Crammer-Singer": ("LinearSVC", {"multi_class": "crammer_singer", "tol": 1e-10}, "sparse classes"),
    "LinearSVC CSR interior-point": ("LinearSVC", {"loss": "hinge", "solver": "interior-point"}, "sparse"),
    "LinearSVR": ("LinearSVR", {"tol": 1e-10}, "wide values"),
    "LinearSVR squared": ("LinearSVR", {"tol": 1e-10, "loss": "squared_epsilon_insensitive"}, "wide values"),
    "LinearSVR interior-point": ("LinearSVR", {"tol": 1e-10, "solver": "interior-point"}, "wide values"),
    "LinearSVR CSR": ("LinearSVR", {"tol": 1e-10}, "sparse values"),
    "LinearSVR CSR squared": ("LinearSVR", {"tol": 1e-10, "loss": "squared_epsilon_insensitive"}, "sparse values"),
    "LinearSVR CSR interior-point": ("LinearSVR", {"tol": 1e-10, "solver": "interior-point"}, "sparse values"),
}
MATRIX_UP_TO = 20_000  # samples: more make a matrix that is larger than most memories


def main() -> None:
    options = parser().parse_args()
    if options.processor:
        time.perf_counter = time.process_time
    if options.one:
        name, n, *asked = options.one
        pairs = [(stop, float(limit)) for stop, limit in (one.split(":") for one in asked)]
        for row in run(name, int(n), pairs):
            print(json.dumps(row), flush=True)
        return
    names = [name for name in CASES if not options.only or any(part == name for part in options.only)]
    if not names:
        raise SystemExit(f"--only {options.only} was asked for; found no such row; choose of: {', '.join(CASES)}")
    pairs = [(stop, limit) for stop in options.stops for limit in options.limits]
    asked = {(n, name): pairs for n in options.sizes for name in names}
    if options.over:
        asked = {key: pairs for key, pairs in too_long(options.over).items() if key in asked}
    rows = []
    options.out.parent.mkdir(exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for (n, name), pairs in asked.items():
            if n > MATRIX_UP_TO and CASES[name][2] == "matrix":
                continue
            for row in in_own_process(name, n, pairs, options.processor):
                rows.append(row)
                writer.writerow(row)
                print(" ".join(str(row[column]) for column in COLUMNS), file=sys.stderr, flush=True)
            file.flush()
    print(table(rows))


def too_long(path: Path) -> dict[tuple[int, str], list[tuple[str, float]]]:
    """Stops and limits by size and name, of a table, that took longer than they may, by one pass or by more."""
    found: dict[tuple[int, str], list[tuple[str, float]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            limit = float(row["limit"])
            if row["over"] and float(row["over"]) > ALLOWED + SHARE * limit:
                found.setdefault((int(row["n"]), row["name"]), []).append((row["stop"], limit))
    return found


def needs_matrix(name: str) -> bool:
    """Whether each entry of an n × n matrix has to be looked at: to check it, or for the norms of its columns."""
    machine, parameters, kind = CASES[name]
    return kind == "matrix" or (machine in ("PSVC", "PSVR") and parameters.get("kernel") != "dyadic")


def in_own_process(name: str, n: int, pairs: list[tuple[str, float]], processor: bool) -> Iterator[dict]:
    """Rows of the table, one for each stop and limit; after one that takes too long or dies, in another process."""
    while pairs:
        command = [
            sys.executable,
            __file__,
            *["--processor"] * processor,
            "--one",
            name,
            str(n),
            *(f"{stop}:{limit}" for stop, limit in pairs),
        ]
        done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watch = threading.Timer(TIMEOUT, done.kill)
        watch.start()
        said, complaint = done.communicate()
        alive = watch.is_alive()
        watch.cancel()
        found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        for (stop, limit), row in zip(pairs, found, strict=False):
            yield {"name": name, "n": n, "stop": stop, "limit": limit} | row
        pairs = pairs[len(found) :]
        if pairs:
            last = (complaint.strip().splitlines() or ["died"])[-1][:100] if alive else f"killed after {TIMEOUT:.0f} s"
            row = {"name": name, "n": n, "stop": pairs[0][0], "limit": pairs[0][1]}
            yield row | dict.fromkeys(COLUMNS[4:], "") | {"verdict": last}
            pairs = pairs[1:]


def run(name: str, n: int, pairs: list[tuple[str, float]]) -> Iterator[dict]:
    """Fit once for the leaves, then for each stop and limit by the clock."""
    machine, parameters, kind = CASES[name]
    X, y = data(kind, n)
    warnings.simplefilter("ignore")
    try:
        stopped_fit(machine, parameters, X, y, max(limit for _, limit in pairs), "limit")
    except MemoryError:
        yield from [dict.fromkeys(COLUMNS[4:], "") | {"verdict": "refused: no memory for a matrix"}] * len(pairs)
        return
    passes: dict[float, float] = {}
    for stop, limit in pairs:
        forget_peak()
        before, load = resident(), round(os.getloadavg()[0], 1)
        busy = time.process_time()
        seconds, model, ended = stopped_fit(machine, parameters, X, y, limit, stop)
        busy = time.process_time() - busy
        grown = (peak() - before) / 2**20
        over, certified = seconds - limit, hasattr(model, "certificate_")
        allowed = ALLOWED + SHARE * limit
        if over > allowed and certified:
            passes[limit] = one_pass(name, model, X)
        status = model.status_.name if hasattr(model, "status_") else ended
        verdict = "ok" if over <= allowed else "too long"
        if status == "CONVERGED" and over <= 0:
            verdict = "done before"
        spent = passes.get(limit, 0.0)
        if verdict == "too long" and spent > allowed >= over - spent:
            verdict = f"one pass takes {spent:.2f} s"
        yield {
            "over": round(over, 3),
            "cpu": round(busy, 3),
            "one_pass": round(spent, 3) if over > allowed else "",
            "grown_mb": round(grown),
            "solver": getattr(model, "solver_", ""),
            "status": status,
            "gap": f"{model.certificate_.relative_gap:.2g}" if certified else "",
            "load": load,
            "verdict": verdict,
        }


def one_pass(name: str, model, X) -> float:
    """Seconds for what nothing can be certified without."""
    import numpy as np

    from maxmargin.monitor import Monitor

    start = time.perf_counter()
    if needs_matrix(name) and CASES[name][2] != "matrix":
        model._relation(X, np.ones(len(X)), None, Monitor())
    elif hasattr(model, "predict"):
        model.predict(X)
    if CASES[name][2] == "matrix":
        for a in range(0, len(X), 100):
            (X[a : a + 100] == X[:, a : a + 100].T).all()
    return time.perf_counter() - start


def stopped_fit(machine: str, parameters: dict, X, y, limit: float, stop: str) -> tuple:
    """Seconds that a fit took, compiling apart; the machine; how it ended."""
    import maxmargin
    from maxmargin._jit import compiling_seconds

    parameters = dict(parameters)
    if parameters.get("parametric") == "first":
        parameters["parametric"] = [first_feature]
    begun, compiled = time.perf_counter(), compiling_seconds()

    def raise_late(step) -> None:
        if time.perf_counter() - begun - compiling_seconds() + compiled > limit:
            raise TimeoutError

    if stop == "limit":
        parameters["time_limit"] = limit
    elif stop == "callback":
        parameters["callback"] = raise_late
    model = getattr(maxmargin, machine)(**parameters)
    pressed = []

    def press() -> None:
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer: Any = ByProcessor(limit, press) if by_processor() else threading.Timer(limit, press)
    if stop == "interrupt":
        timer.start()
    ended = "finished"
    begun, compiled = time.perf_counter(), compiling_seconds()
    try:
        model.fit(X, y)
    except TimeoutError:
        ended = "raised"
    except KeyboardInterrupt:
        ended = "interrupted"
    timer.cancel()
    seconds = time.perf_counter() - begun - (compiling_seconds() - compiled)
    if ended == "interrupted":  # leaves may be loaded before the key is pressed and after it
        seconds = limit + time.perf_counter() - pressed[0]
    return seconds, model, ended


def by_processor() -> bool:
    """Whether seconds are the processor's, of all threads, in place of the clock's."""
    return time.perf_counter is time.process_time


class ByProcessor:
    """A timer that a busy machine does not hasten."""

    def __init__(self, seconds: float, press: Callable[[], None]) -> None:
        self.seconds = seconds
        signal.signal(signal.SIGPROF, lambda *_: press())

    def start(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def cancel(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def first_feature(X):
    return X[:, 0]


def data(kind: str, n: int) -> tuple:
    """Samples that take a while: noisy labels or values."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X: Any
    if kind.startswith("sparse"):  # each row has an entry in each of as many stretches of columns
        places = np.arange(ENTRIES) * (SPARSE_FEATURES // ENTRIES)
        columns = places + rng.integers(0, SPARSE_FEATURES // ENTRIES, (n, ENTRIES), np.int32)
        starts = np.arange(0, n * ENTRIES + 1, ENTRIES, np.int32)
        X = sp.csr_matrix((rng.random(n * ENTRIES), columns.astype(np.int32).ravel(), starts), (n, SPARSE_FEATURES))
        f = X @ rng.normal(size=SPARSE_FEATURES)
    else:
        d = {"flat": 2}.get(kind, DENSE_FEATURES if kind.startswith("wide") else FEATURES)
        X = rng.standard_normal((n, d))
        f = X @ rng.normal(size=d) + (X[:, 0] * X[:, 1] if not kind.startswith("wide") else 0.0)
    f = f / f.std() + 0.5 * rng.normal(size=n)
    if kind.endswith("values"):
        return X, f
    if kind.endswith("classes"):
        return X, np.argsort(np.argsort(f)) * 10 // n
    if kind == "matrix":
        squares = (X**2).sum(axis=1)
        X = X @ X.T
        X = np.exp(-(squares[:, None] + squares - X - X.T) / d)
    return X, np.where(f > np.median(f), 1, -1)


def table(rows: list[dict]) -> str:
    """By row, size and stop: what each limit was exceeded by, the verdicts and the memory."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["name"], row["n"], row["stop"]), []).append(row)
    limits = ", ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows}))
    lines = [
        f"| machine, solver | n | stop | over, with limits of {limits} s | CPU, s | grown, MB | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (name, n, stop), members in groups.items():
        over = " / ".join(f"{row['over']:+.2f}" if row["over"] != "" else "–" for row in members)
        cpu = " / ".join(f"{row['cpu']:.2f}" if row["cpu"] != "" else "–" for row in members)
        grown = max((row["grown_mb"] for row in members if row["grown_mb"] != ""), default="–")
        verdicts = dict.fromkeys(row["verdict"] for row in members)
        said = ", ".join(v for v in verdicts if v != "ok") or "ok"
        lines.append(f"| {name} | {n} | {stop} | {over} | {cpu} | {grown} | {said} |")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="How much longer than its limit a fit takes, by solver.")
    options.add_argument("--sizes", type=int, nargs="+", default=[2000, 20_000, 100_000])
    options.add_argument("--limits", type=float, nargs="+", default=[0.01, 0.1, 1.0], help="seconds")
    options.add_argument("--only", nargs="+", metavar="NAME", help="rows of the table, by name")
    options.add_argument("--over", type=Path, metavar="CSV", help="only what took too long in this table")
    options.add_argument("--stops", nargs="+", choices=STOPS, default=["limit"], help="what stops a fit")
    options.add_argument("--processor", action="store_true", help="seconds are the processor's, for a busy machine")
    options.add_argument("--out", type=Path, default=RESULTS / "overshoot.csv")
    options.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    return options


if __name__ == "__main__":
    main()
