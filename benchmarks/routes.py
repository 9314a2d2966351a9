"""PDCO §3.4: the ways to solve Newton's equations of the interior method, each where `auto` could choose it.

    python benchmarks/routes.py                             measure all, print the table, keep it as a CSV file
    python benchmarks/routes.py --only reuters              problems with any of these in their name
    python benchmarks/routes.py --table                     the table again, from the CSV file

A linear machine with the hinge and a free bias, all rows at once (no screening), to a relative gap of 1e-6. Each route
takes each problem in a process of its own. Problems that need MAXMARGIN_DATA are left out where it is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from harness import HERE, child, console, read, surroundings, titled, write

from maxmargin.formulations import Samples

OUT = HERE / "results" / "routes.csv"
COLUMNS = (
    "date problem n d nonzeros route status ended chosen seconds median cpu_seconds iterations lsmr relative_gap "
    "violation peak_mb note threads load cpu python numpy commit"
).split()
TOL = 1e-6
ROUTES = {"normal": "(14)", "dense": "(13)", "quasi": "(12)", "lsmr-rows": "(15)", "lsmr": "(16)"}
MADE = ("separable", "categories", "chain")

# data, C, routes: those that are left out would factor matrices of gigabytes
CASES: dict[str, tuple[str, float, tuple[str, ...]]] = {
    "few features": ("separable-2000", 100.0, tuple(ROUTES)),
    "few rows": ("news20", 1.0, ("dense", "quasi", "lsmr-rows", "lsmr")),
    "text": ("reuters", 1.0, tuple(ROUTES)),
    "more text": ("news20-one", 1.0, ("quasi", "lsmr-rows", "lsmr")),
    "three categories": ("categories-10000", 1.0, tuple(ROUTES)),
    "neighbours": ("chain-20000", 1.0, ("normal", "quasi", "lsmr-rows", "lsmr")),
}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit like any other
    options = parser().parse_args()
    if options.one:
        print(json.dumps(one(*options.one, options)), flush=True)
        return
    if not options.table:
        write(options.out, measurements(options), COLUMNS)
    show(read(options.out))


def measurements(options: argparse.Namespace) -> Iterator[dict]:
    setting = surroundings(options.threads)
    for name, (data, C, routes) in CASES.items():
        problem = f"{name}: {data} C={C:g}"
        if options.only and not any(part in problem for part in options.only):
            continue
        if not data.startswith(MADE) and not os.environ.get("MAXMARGIN_DATA"):
            continue
        for route in routes:
            arguments = ["--one", name, route, "--repeat", options.repeat, "--budget", options.budget]
            common = {"threads": options.threads, "timeout": options.timeout, "title": f"{problem}: {route}"}
            yield setting | {"problem": problem, "route": route} | child("routes.py", *arguments, **common)[-1]


def one(name: str, route: str, options: argparse.Namespace) -> dict:
    """One route on one problem, in this process."""
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import time

    import numpy as np
    from data import load
    from scipy import sparse
    from worker import peak, timed

    from maxmargin.formulations import CSVC
    from maxmargin.gram import Factored
    from maxmargin.solvers import solve
    from maxmargin.solvers.parts import newton_systems
    from maxmargin.solvers.parts.system_choice import system_for

    data, C, _ = CASES[name]
    X, y = load(data)
    X = sparse.csr_array(X) if sparse.issparse(X) else X
    y = np.where(y == y.max(), 1.0, -1.0)
    qp = CSVC(C=C).qp(Samples(Factored(X), y, np.ones(len(y))))
    auto = system_for(qp.H.factor().rows)
    counts, lsmr = [], newton_systems.lsmr

    def counting(*arguments, **more):
        found = lsmr(*arguments, **more)
        counts.append(found[2])
        return found

    newton_systems.lsmr = counting
    processor = time.process_time()
    seconds, found = timed(
        lambda: solve(qp, "interior-point", tol=np.inf, gap=TOL, system=route, screening=False),
        options.repeat, options.budget,
    )  # fmt: skip
    fits = len(seconds)
    return {
        "status": "ok", "n": X.shape[0], "d": X.shape[1],
        "nonzeros": X.nnz if sparse.issparse(X) else int(np.count_nonzero(X)), "ended": found.status.name,
        "chosen": int(auto == route), "seconds": seconds, "median": statistics.median(seconds),
        "cpu_seconds": (time.process_time() - processor) / fits, "iterations": found.n_iter,
        "lsmr": sum(counts) // fits, "relative_gap": found.certificate.relative_gap,
        "violation": found.certificate.violation, "peak_mb": peak() / 2**20, "note": "",
    }  # fmt: skip


def show(rows: list[dict]) -> None:
    for problem in dict.fromkeys(row["problem"] for row in rows):
        here = [row for row in rows if row["problem"] == problem]
        size = next((f": {row['n']} × {row['d']}" for row in here if row["status"] == "ok"), "")
        heads = ("seconds", "of processors", "iterations", "LSMR steps", "relative gap", "peak MB")
        table = titled(problem + size, "contender", *heads)
        for row in here:
            name = f"{ROUTES[row['route']]} {row['route']}" + " ← auto" * (row["chosen"] == "1")
            if row["status"] != "ok":
                table.add_row(name, row["note"])
                continue
            ended = "" if row["ended"] == "CONVERGED" else f" {row['ended']}"
            table.add_row(
                name, f"{float(row['median']):.3g}", f"{float(row['cpu_seconds']):.3g}", row["iterations"],
                row["lsmr"] if row["lsmr"] != "0" else "", f"{float(row['relative_gap']):.0e}{ended}",
                f"{float(row['peak_mb']):.0f}",
            )  # fmt: skip
        console.print(table)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="The routes of PDCO's interior method.")
    options.add_argument("--only", nargs="+", metavar="NAME", help="problems with any of these in their name")
    options.add_argument("--repeat", type=int, default=3, help="timed fits of each route")
    options.add_argument("--budget", type=float, default=5, help="no further fit after this many seconds of them")
    options.add_argument("--timeout", type=float, default=120, help="seconds for each process, all included")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", type=Path, default=OUT, help="CSV file")
    options.add_argument("--table", action="store_true", help="print the table of an earlier run")
    options.add_argument("--one", nargs=2, metavar=("PROBLEM", "ROUTE"), help="one route in this process, as JSON")
    return options


if __name__ == "__main__":
    main()
