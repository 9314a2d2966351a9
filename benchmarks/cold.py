"""What the first fit costs: each estimator in a process of its own that finds no compiled code.

    python benchmarks/cold.py                       # all cases; writes results/cold.csv and prints the table
    python benchmarks/cold.py --only SVC digits     # cases with any of these in their name, printed only
    python benchmarks/cold.py --leaves              # and each leaf with its seconds

A case is fitted twice in a first process (cold, and warm: the same fit again), then once in a second one that loads
what the first one kept (kept). Seconds are of the clock, those of the processor are beside them, since a compiler on
a machine that others use is slow. A leaf's seconds are those of numba's compile events, without those of the
leaves that were compiled within it; "first call" is what is not among them: libraries that numba and SciPy load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = [
    "date", "cpu", "python", "numpy", "commit", "load", "case", "cold", "cold_cpu", "warm", "kept", "leaves",
    "compile", "slowest",
]  # fmt: skip
IMPORTS = ("from sklearn.svm import SVC", "from maxmargin import SVC")
LIMIT = 3.0  # seconds that a first fit may take
TIMEOUT = 300.0  # seconds for one process


def cases() -> dict:
    """Name → a machine and its data: what people try first, at sizes where each path of a fit is taken."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris

    import maxmargin as mm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 10))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    sparse = sp.random_array((8000, 300), density=0.05, rng=rng, format="csr")
    sparse_score = sparse @ rng.normal(size=300) + 0.3 * rng.normal(size=8000)
    iris, digits, cancer, diabetes = (
        load(return_X_y=True) for load in (load_iris, load_digits, load_breast_cancer, load_diabetes)
    )
    dense, csr = (X, score > 0), (sparse, sparse_score > 0)
    real, sparse_real = (X, score), (sparse, sparse_score)
    some = (X[:2000], score[:2000])
    return {
        "SVC iris": (mm.SVC(), *iris),
        "SVC digits": (mm.SVC(), *digits),
        "SVC cancer": (mm.SVC(), *cancer),
        "SVC 8000": (mm.SVC(), *dense),
        "SVC 8000 CSR": (mm.SVC(), *csr),
        "SVC 8000 float32": (mm.SVC(), X.astype(np.float32), dense[1]),
        "SVC linear kernel 8000": (mm.SVC(kernel="linear"), *dense),
        "SVC squared hinge 8000": (mm.SVC(loss="squared_hinge"), *dense),
        "NuSVC iris": (mm.NuSVC(), *iris),
        "NuSVC 8000": (mm.NuSVC(), *dense),
        "SVR diabetes": (mm.SVR(), *diabetes),
        "SVR 8000": (mm.SVR(), *real),
        "SVR 8000 CSR": (mm.SVR(), *sparse_real),
        "SVR parametric 2000": (mm.SVR(parametric=np.sin), *some),
        "NuSVR diabetes": (mm.NuSVR(), *diabetes),
        "NuSVR 2000": (mm.NuSVR(), *some),
        "OneClassSVM 8000": (mm.OneClassSVM(), X, None),
        "SVDD 8000": (mm.SVDD(), X, None),
        "LinearSVC iris": (mm.LinearSVC(), *iris),
        "LinearSVC hinge iris": (mm.LinearSVC(loss="hinge"), *iris),
        "LinearSVC 8000": (mm.LinearSVC(), *dense),
        "LinearSVC 8000 CSR": (mm.LinearSVC(), *csr),
        "LinearSVC hinge 8000": (mm.LinearSVC(loss="hinge"), *dense),
        "LinearSVC hinge 8000 CSR": (mm.LinearSVC(loss="hinge"), *csr),
        "LinearSVC huber 8000": (mm.LinearSVC(loss="huber"), *dense),
        "LinearSVR diabetes": (mm.LinearSVR(), *diabetes),
        "LinearSVR 8000": (mm.LinearSVR(), *real),
        "LinearSVR 8000 CSR": (mm.LinearSVR(), *sparse_real),
        "LinearSVR squared 8000": (mm.LinearSVR(loss="squared_epsilon_insensitive"), *real),
    }


def watch():
    """A list that gets (leaf, processor seconds without the leaves within it, signature) for each that is compiled."""
    import numba.core.event as ev

    class Watch(ev.Listener):
        def __init__(self):
            self.open, self.done = [], []

        def on_start(self, event):
            self.open.append([time.process_time(), 0.0])

        def on_end(self, event):
            started, within = self.open.pop()
            seconds = time.process_time() - started
            if self.open:
                self.open[-1][1] += seconds
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.split('.')[-1]}.{function.__qualname__}"
            self.done.append((name, seconds - within, str(event.data["args"])))

    listener = Watch()
    ev.register("numba:compile", listener)
    return listener.done


def one(name: str) -> dict:
    """Fit a case twice in this process."""
    import warnings

    machine, X, y = cases()[name]
    warnings.simplefilter("ignore")
    seconds, compiled = [], None
    for _ in range(2):
        clock, cpu = time.perf_counter(), time.process_time()
        compiled = watch() if compiled is None else compiled  # imports numba, for which a first fit waits
        machine.fit(X, y)
        seconds.append((time.perf_counter() - clock, time.process_time() - cpu))
    return {"cold": seconds[0][0], "cold_cpu": seconds[0][1], "warm": seconds[1][0], "compiled": compiled}


def child(*arguments: str, folder: str) -> str:
    environment = os.environ | {"MAXMARGIN_CACHE_DIR": folder}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout


def measured(name: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        load = round(os.getloadavg()[0], 2)
        first, second = (json.loads(child(__file__, "--one", name, folder=folder)) for _ in range(2))
    compiled = sorted(first["compiled"], key=lambda leaf: -leaf[1])
    return {
        "case": name,
        "load": load,
        "cold": round(first["cold"], 2),
        "cold_cpu": round(first["cold_cpu"], 2),
        "warm": round(first["warm"], 3),
        "kept": round(second["cold"], 3),
        "leaves": len(compiled),
        "compile": round(sum(seconds for _, seconds, _ in compiled), 2),
        "slowest": ", ".join(f"{leaf} {seconds:.2f}" for leaf, seconds, _ in compiled[:3]),
        "compiled": compiled,
    }


def importing(statement: str) -> dict:
    """The best of five: what there is to do is the same each time."""
    script = f"import time; a, c = time.perf_counter(), time.process_time(); {statement}; "
    script += "print(time.perf_counter() - a, time.process_time() - c)"
    with tempfile.TemporaryDirectory() as folder:
        runs = [tuple(map(float, child("-c", script, folder=folder).split())) for _ in range(5)]
    clock, cpu = min(runs)
    return {"case": statement, "load": round(os.getloadavg()[0], 2), "cold": round(clock, 2), "cold_cpu": round(cpu, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="cases with any of these words in their name; nothing is written")
    parser.add_argument("--leaves", action="store_true", help="print each leaf with its seconds")
    parser.add_argument("--out", type=Path, help="the CSV file (default: results/cold.csv)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return

    from harness import HERE, console, surroundings, titled, write

    around = surroundings(os.cpu_count())
    del around["threads"]
    names = [name for name in cases() if not options.only or any(word in name for word in options.only)]
    table = titled("First fits, in seconds", "problem", "cold", "CPU", "warm", "kept", "leaves", "compiling")
    rows = []
    out = options.out or (None if options.only else HERE / "results" / "cold.csv")
    for name in names + ([] if options.only else list(IMPORTS)):
        row = importing(name) if name in IMPORTS else measured(name)
        leaves = row.pop("compiled", [])
        if options.leaves:
            for leaf, seconds, signature in leaves:
                print(f"{name:28} {seconds:6.2f} {leaf:44} {signature}")
        rows.append(around | row)
        shown = [str(row.get(key, "")) for key in COLUMNS[6:-1]]
        shown[1] = f"[red]{shown[1]}[/]" if row["cold_cpu"] > LIMIT and name not in IMPORTS else shown[1]
        table.add_row(*shown)
        if out:
            write(out, rows, COLUMNS)
    console.print(table)


if __name__ == "__main__":
    main()
