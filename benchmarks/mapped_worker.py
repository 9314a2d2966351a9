"""A linear machine on rows that lie on disk: makes the file, or trains on it, and prints one line of JSON.

    python mapped_worker.py make  FILE.npy --gigabytes 5 --dtype float32
    python mapped_worker.py fit   FILE.npy

Two processes, so that the making does not count. Rows are normal with a tenth of the labels turned round.
Resident memory is counted in two ways: the peak as the system counts it, which includes pages of the mapped file that
it happens to keep, and the largest part that is the process's own (anonymous).
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from pathlib import Path

FEATURES, BLOCK = 100, 50_000


def main() -> None:
    options = parser().parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    try:
        report = make(options) if options.action == "make" else fit(options)
    except Exception as error:
        report = {"status": "error", "note": f"{type(error).__name__}: {error}"}
    print(json.dumps(report), flush=True)


def make(options: argparse.Namespace) -> dict:
    import numpy as np

    dtype = np.dtype(options.dtype)
    n = int(options.gigabytes * 1e9 / (FEATURES * dtype.itemsize))
    X = np.lib.format.open_memmap(options.file, "w+", dtype, (n, FEATURES))
    y = np.empty(n)
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    for start in range(0, n, BLOCK):
        block = rng.standard_normal((min(BLOCK, n - start), FEATURES))
        turned = rng.random(len(block)) < 0.1
        y[start : start + BLOCK] = np.where((block @ direction + 0.2 > 0) ^ turned, 1, -1)
        X[start : start + BLOCK] = block
    X.flush()
    np.save(labels(options.file), y)
    return {"status": "ok", "n": n, "d": FEATURES, "note": ""}


def fit(options: argparse.Namespace) -> dict:
    import numpy as np
    from worker import forget_peak, peak, resident

    from maxmargin import LinearSVC

    y = np.load(labels(options.file))
    machine = LinearSVC(loss="hinge", C=options.C, tol=options.tol, solver=options.solver, max_iter=-1)
    X = np.load(options.file, mmap_mode="r")
    machine.fit(np.array(X[:1000]), y[:1000])  # compilers have then done their work
    forget_peak()
    loaded = resident()
    with Watch() as watch:
        start = time.perf_counter()
        machine.fit(X, y)
        seconds = time.perf_counter() - start
    certificate = machine.certificate_
    return {
        "status": "ok",
        "version": __import__("maxmargin").__version__,
        "n": X.shape[0],
        "d": X.shape[1],
        "seconds": [seconds],
        "median": seconds,
        "setting": json.dumps({"tol": options.tol, "dtype": str(X.dtype), "bytes": X.nbytes}),
        "objective": certificate.primal,
        "bound": certificate.dual,
        "suboptimality": certificate.relative_gap,
        "steps": int(machine.n_iter_),
        "solver": str(machine.solver_),
        "peak_mb": peak() / 2**20,
        "growth_mb": (peak() - loaded) / 2**20,
        "anonymous_mb": watch.largest / 2**20,
        "note": "",
    }


class Watch:
    """The largest anonymous resident size while a block runs, looked at twenty times a second."""

    def __enter__(self):
        self.largest, self.done = 0, threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()
        return self

    def look(self) -> None:
        while not self.done.wait(0.05):
            self.largest = max(self.largest, anonymous())

    def __exit__(self, *_) -> None:
        self.done.set()
        self.thread.join()


def anonymous() -> int:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def labels(file: Path) -> Path:
    return Path(file).with_suffix(".labels.npy")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="Make or train on rows that lie on disk; prints one line of JSON.")
    options.add_argument("action", choices=("make", "fit"))
    options.add_argument("file", type=Path)
    options.add_argument("--gigabytes", type=float, default=5)
    options.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    options.add_argument("--C", type=float, default=1e-3)
    options.add_argument("--tol", type=float, default=1e-3)
    options.add_argument("--solver", default="auto")
    options.add_argument("--threads", type=int, default=2)
    return options


if __name__ == "__main__":
    main()
