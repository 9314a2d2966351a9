"""What each idea of SLIDES is worth: the cache, shrinking, q, chunking, the nearest point, ASVM; and what we added.

    python benchmarks/slides.py                             measure all, print the table, keep it as a CSV file
    python benchmarks/slides.py --only usps --repeat 5      problems with any of these in their name
    python benchmarks/slides.py --table                     the tables again, from the CSV file
    python benchmarks/slides.py --markdown                  the tables of docs/slides.md, from the CSV file

Each problem is the dual QP itself, solved to the same tolerance by each variant in a process of its own. Iterations and
kernel evaluations are the same on any machine, seconds are not. Without MAXMARGIN_DATA similar data are made.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import HERE, child, console, read, surroundings, titled, write

OUT = HERE / "results" / "slides.csv"
COLUMNS = (
    "date problem n d variant options status ended seconds median iterations kernel_evals matrices hit_rate "
    "relative_gap violation peak_mb note threads load cpu python numpy commit"
).split()
TOL = 1e-3
FLOAT = 4  # bytes of a kernel value in the cache, at this tolerance

# name → solver, its options; a share of the matrix in place of megabytes
PLAIN = {"shrinking": False, "growing": False, "merging": False, "newton": False}
DECOMPOSITION: dict[str, tuple[str, dict]] = {
    "decomposition": ("decomposition", {}),
    "cache: 1 % of the matrix": ("decomposition", {"cache_share": 0.01}),
    "cache: 10 %": ("decomposition", {"cache_share": 0.1}),
    "no shrinking": ("decomposition", {"shrinking": False}),
    "no growing": ("decomposition", {"growing": False}),
    "no merging": ("decomposition", {"merging": False}),
    "no Newton at the end": ("decomposition", {"newton": False}),
    "pairs by steepest direction": ("decomposition", {"selection": "steepest"}),
    **{f"q = {q}": ("decomposition", {"working_set": q}) for q in (2, 16, 64, 512)},
    "q = 2, nothing else": ("decomposition", {"working_set": 2} | PLAIN),
    "q = 2, nothing else, cache: 10 %": ("decomposition", {"working_set": 2, "cache_share": 0.1} | PLAIN),
    "q = 2, nothing else, cache: 1 %": ("decomposition", {"working_set": 2, "cache_share": 0.01} | PLAIN),
    "q = 2, shrinking alone, cache: 1 %": (
        "decomposition",
        {"working_set": 2, "cache_share": 0.01} | PLAIN | {"shrinking": True},
    ),
    "chunking": ("chunking", {}),
}
SQUARED: dict[str, tuple[str, dict]] = {name: (name, {}) for name in ("decomposition", "nearest-point")}
LINEAR = SQUARED | {"asvm": ("asvm", {}), "newton": ("newton", {})}
VARIANTS = DECOMPOSITION | LINEAR


@dataclass(frozen=True)
class Case:
    data: str  # a name that data.load understands
    made: str  # what takes its place where there is no folder of data files
    loss: str  # hinge, squared_hinge or epsilon_insensitive
    C: float
    gamma: float | None = None  # of the Gaussian kernel; None: a linear kernel
    epsilon: float = 0.1
    variants: tuple[str, ...] = tuple(DECOMPOSITION)

    @property
    def name(self) -> str:
        kernel = "linear" if self.gamma is None else f"gamma={self.gamma:g}"
        return f"{self.source} {self.loss} C={self.C:g} {kernel}"

    @property
    def source(self) -> str:
        return self.data if os.environ.get("MAXMARGIN_DATA") else self.made


CASES = [
    Case("a2a", "noise-2000", "hinge", 1, 0.05),
    Case("a9a/4", "separable-8000", "hinge", 1, 0.05),
    Case("usps-low", "waves-7000", "hinge", 1000, 1 / 128),
    Case("ijcnn1/4", "waves-12000", "hinge", 10, 1),
    Case("cadata/3", "waves-6000", "epsilon_insensitive", 1, 0.1),
    Case("usps-low", "waves-7000", "squared_hinge", 10, 1 / 128, variants=tuple(SQUARED)),
    Case("a9a/4", "separable-8000", "squared_hinge", 1, variants=tuple(LINEAR)),
    Case("ijcnn1/4", "waves-12000", "squared_hinge", 1, variants=tuple(LINEAR)),
]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit like any other
    options = parser().parse_args()
    if options.one:
        print(json.dumps(one(*options.one, options)), flush=True)
        return
    if not (options.table or options.markdown):
        write(options.out, measurements(options), COLUMNS)
    (markdown if options.markdown else show)(read(options.out))


# ---------------------------------------------------------------------------------------------- measuring


def measurements(options: argparse.Namespace) -> Iterator[dict]:
    setting = surroundings(options.threads)
    chosen = [case for case in CASES if not options.only or any(part in case.name for part in options.only)]
    if not chosen:
        raise SystemExit(f"{options.only} was asked for; found {[case.name for case in CASES]}; name a part of one")
    for case in chosen:
        for variant in case.variants:
            arguments = ["--one", case.name, variant, "--repeat", options.repeat, "--budget", options.budget]
            title = f"{case.name}: {variant}"
            report = child(
                "slides.py", *arguments, threads=options.threads, timeout=options.timeout, title=title
            )[-1]  # fmt: skip
            yield setting | {"problem": case.name, "variant": variant} | report


def one(name: str, variant: str, options: argparse.Namespace) -> dict:
    """One variant on one problem, in this process."""
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import numpy as np
    from data import load
    from worker import WARM_UP_ROWS, peak, timed

    from maxmargin.formulations import CSVC, EpsilonSVR
    from maxmargin.gram import Kernel, KernelGram
    from maxmargin.solvers import solve

    case = next(case for case in CASES if case.name == name and variant in case.variants)
    solver, chosen = VARIANTS[variant]
    X, y = load(case.source)
    regression = case.loss == "epsilon_insensitive"
    y = y if regression else np.where(y > np.median(y) if len(np.unique(y)) > 2 else y == y.max(), 1.0, -1.0)
    machine = EpsilonSVR(C=case.C, epsilon=case.epsilon) if regression else CSVC(C=case.C, loss=case.loss)
    kernel = Kernel("linear", 1.0) if case.gamma is None else Kernel("rbf", case.gamma)

    def fit(X, y):
        gram = KernelGram(kernel, X)  # a new one each time: nothing is known of it, nothing is counted yet
        set_ = dict(chosen)
        if "cache_share" in set_:
            set_["cache_size"] = set_.pop("cache_share") * FLOAT * len(y) ** 2 / 2**20
        problem = machine.erm if solver == "newton" else machine.qp
        return solve(problem(gram, y, np.ones(len(y))), solver, tol=TOL, **set_)

    some = np.linspace(0, len(y) - 1, min(len(y), WARM_UP_ROWS)).astype(int)
    fit(X[some], y[some])
    seconds, found = timed(lambda: fit(X, y), options.repeat, options.budget)
    hits = float(found.history.column("hit_rate")[-1]) if len(found.history) else 0.0
    return {
        "status": "ok", "n": X.shape[0], "d": X.shape[1], "options": json.dumps(chosen), "ended": found.status.name,
        "seconds": seconds, "median": statistics.median(seconds), "iterations": found.n_iter,
        "kernel_evals": found.kernel_evals, "matrices": found.kernel_evals / X.shape[0] ** 2,
        "hit_rate": hits or "", "relative_gap": found.certificate.relative_gap,
        "violation": found.certificate.violation, "peak_mb": peak() / 2**20, "note": "",
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------- showing


def show(rows: list[dict]) -> None:
    """A table a problem: figures, and seconds as multiples of the first variant's."""
    for name in dict.fromkeys(row["problem"] for row in rows):
        here = [row for row in rows if row["problem"] == name]
        first = here[0]
        heads = ("seconds", "×", "iterations", "kernel evaluations", "of n²", "cache hits", "gap", "violation")
        table = titled(f"{name}: {first['n']} × {first['d']}", "contender", *heads)
        for row in here:
            if row["status"] != "ok":
                table.add_row(row["variant"], row["status"])
                continue
            times = float(row["median"]) / float(first["median"]) if first["status"] == "ok" else float("nan")
            hits = f"{float(row['hit_rate']):.0%}" if row["hit_rate"] else ""
            ended = "" if row["ended"] == "CONVERGED" else f" {row['ended']}"
            table.add_row(
                row["variant"], f"{float(row['median']):.3g}", f"{times:.2f}", row["iterations"],
                f"{float(row['kernel_evals']):.3g}", f"{float(row['matrices']):.2f}", hits,
                f"{float(row['relative_gap']):.0e}", f"{float(row['violation']):.0e}{ended}",
            )  # fmt: skip
        console.print(table)
    for row in rows:
        if row["note"]:
            console.print(f"{row['problem']}: {row['variant']}: {row['note']}", style="yellow", markup=False)


def markdown(rows: list[dict]) -> None:
    """A table for each set of variants: kernel evaluations in units of n², and iterations, the same on any machine."""
    by = {(row["problem"], row["variant"]): row for row in rows}
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    for variants in dict.fromkeys(tuple(v for p, v in by if p == problem) for problem in problems):
        here = [p for p in problems if tuple(v for q, v in by if q == p) == variants]
        print("| | " + " | ".join(f"{p}, n = {by[p, variants[0]]['n']}" for p in here) + " |")
        print("| --- |" + " ---: |" * len(here))
        for variant in variants:
            print(f"| {variant} | " + " | ".join(cell(by[p, variant]) for p in here) + " |")
        print()


def cell(row: dict) -> str:
    if row["status"] != "ok":
        return row["status"]
    return f"{float(row['matrices']):.2f}, {row['iterations']}"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="What each idea of SLIDES is worth.")
    options.add_argument("--only", nargs="+", metavar="NAME", help="problems with any of these in their name")
    options.add_argument("--repeat", type=int, default=3, help="timed fits of each variant")
    options.add_argument("--budget", type=float, default=5, help="no further fit after this many seconds of them")
    options.add_argument("--timeout", type=float, default=120, help="seconds for each process, all included")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", type=Path, default=OUT, help="CSV file")
    options.add_argument("--table", action="store_true", help="print the table of an earlier run")
    options.add_argument("--markdown", action="store_true", help="the same for docs/slides.md")
    options.add_argument("--one", nargs=2, metavar=("PROBLEM", "VARIANT"), help="one variant in this process, as JSON")
    return options


if __name__ == "__main__":
    main()
