"""Reduced expansions: accuracy and time against the number of points, beside approximations of scikit-learn.

    python benchmarks/expansion.py                          every data set, every contender, k = 100 … 4000
    python benchmarks/expansion.py a9a --points 500 --add    some of them anew, the others as they were
    python benchmarks/expansion.py --table                   the table of what was measured
    python benchmarks/expansion.py --plot                    accuracy against points and against seconds, likewise

Contenders, all with the squared hinge, the same C and γ, each fit in a process of its own:

    random, greedy, kmeans      SVC(expansion=k, expansion_choice=...)
    nystroem, sampler           scikit-learn's Nystroem(k) or RBFSampler(k), then its LinearSVC
    exact                       SVC without an expansion, where that takes seconds
    sklearn                     scikit-learn's SVC (hinge, the same C), likewise

Results go to benchmarks/results/expansion.csv. ``cpu`` counts the seconds of all threads, ``load`` those who shared the
machine. Covtype is trained on all of it and tested on a tenth where ``held`` is 0, else trained without that tenth.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from data import load, svmlight
from harness import HERE, child, console, read, surroundings, titled, write
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC as PeerSVC
from sklearn.svm import LinearSVC as PeerLinearSVC

from maxmargin import SVC

RESULTS = HERE / "results" / "expansion.csv"
POINTS = (100, 200, 500, 1000, 2000, 4000)
CHOICES = ("random", "greedy", "kmeans")
CONTENDERS = (*CHOICES, "nystroem", "sampler", "exact", "sklearn")
COLUMNS = (
    "data n d contender points C gamma status fit cpu predict accuracy primal gap memory note load "
    "date threads cpu_model python numpy commit"
).split()

PROBLEMS: dict[str, dict] = {  # γ and C: those of DESIGN's and of others' tables for these data
    "a9a": {"gamma": 0.05, "C": 1.0, "test": partial(load, "a9a.t:csr"), "name": "a9a:csr"},
    "ijcnn1": {"gamma": 2.0, "C": 10.0, "test": partial(svmlight, "ijcnn1.t.bz2", 22), "name": "ijcnn1"},
    "mnist-low": {"gamma": 0.02, "C": 10.0, "held": 10_000, "name": "mnist-low"},
    "covtype": {"gamma": 2.0, "C": 1.0, "held": 58_101, "name": "covtype"},
    "covtype-10": {"gamma": 2.0, "C": 1.0, "held": 5_810, "name": "covtype/10"},
}


def split(name: str):
    """Training rows and labels, test rows and labels."""
    problem = PROBLEMS[name]
    X, y = load(problem["name"])
    if "test" in problem:
        return X, y, *problem["test"]()
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[: problem["held"]], np.sort(order[problem["held"] :])
    return X[train], y[train], X[test], y[test]


def machine(contender: str, points: int, gamma: float, C: float):
    if contender in CHOICES:
        return SVC(loss="squared_hinge", gamma=gamma, C=C, expansion=points, expansion_choice=contender)
    if contender == "exact":
        return SVC(loss="squared_hinge", gamma=gamma, C=C)
    if contender == "sklearn":
        return PeerSVC(gamma=gamma, C=C, cache_size=1000)
    features = (
        Nystroem(gamma=gamma, n_components=points, random_state=0)
        if contender == "nystroem"
        else RBFSampler(gamma=gamma, n_components=points, random_state=0)
    )
    return make_pipeline(features, PeerLinearSVC(C=C, random_state=0))


def worker(name: str, contender: str, points: int) -> None:
    """One fit, as a line of JSON."""
    X, y, X_test, y_test = split(name)
    problem = PROBLEMS[name]
    if contender in CHOICES:  # what is compiled at first use is not a matter of this table
        machine(contender, 20, problem["gamma"], problem["C"]).fit(X[:500], y[:500])
    model = machine(contender, points, problem["gamma"], problem["C"])
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    begun = time.perf_counter()
    accuracy = model.score(X_test, y_test)
    report = {
        "status": model.status_.name.lower() if isinstance(model, SVC) else "done",
        "n": X.shape[0],
        "d": X.shape[1],
        "fit": round(wall, 3),
        "cpu": round(cpu, 3),
        "predict": round(time.perf_counter() - begun, 3),
        "accuracy": round(100 * accuracy, 3),
        "memory": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "note": "; ".join(sorted({str(one.message).split(".")[0] for one in said})),
    }
    if isinstance(model, SVC):
        report |= {"primal": model.certificate_.primal, "gap": model.certificate_.relative_gap}
    print(json.dumps(report))


def kept(arguments) -> Iterator[dict]:
    """What was measured before and is not asked for anew."""
    asked = {*arguments.points, 0}
    for row in read(RESULTS):
        anew = row["data"] in (arguments.data or PROBLEMS) and row["contender"] in arguments.contenders
        if not (anew and int(row["points"]) in asked):
            yield row


def measured(arguments) -> Iterator[dict]:
    around = surroundings(arguments.threads)
    around["cpu_model"] = around.pop("cpu")
    for name in arguments.data or PROBLEMS:
        problem = PROBLEMS[name]
        for contender in arguments.contenders:
            whole = contender in ("exact", "sklearn")
            for points in (0,) if whole else arguments.points:
                title = f"{name} {contender} {points}"
                (report,) = child(
                    "expansion.py", "--worker", name, contender, points,
                    threads=arguments.threads, timeout=arguments.timeout, title=title,
                )  # fmt: skip
                told = {"data": name, "contender": contender, "points": points, "C": problem["C"]}
                row = told | {"gamma": problem["gamma"]} | report | around
                console.print(title, row.get("fit"), row.get("accuracy"), row["status"], row.get("note", ""))
                yield row
                if row["status"] in ("timeout", "error"):
                    break


def table() -> None:
    rows = read(RESULTS)
    shown = titled("squared hinge", "problem", "contender", "points", "fit s", "cpu s", "predict s", "accuracy", "GB")
    for row in rows:
        if row["status"] != "error":
            cells = (row[key] for key in ("data", "contender", "points", "fit", "cpu", "predict", "accuracy", "memory"))
            shown.add_row(*cells)
    console.print(shown)


def plot() -> Path:
    """Accuracy against points and against seconds, a column for each data set measured at several numbers of points."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    rows = [row for row in read(RESULTS) if row["status"] in ("converged", "done")]
    sizes: dict[str, set[str]] = {}
    for row in rows:
        sizes.setdefault(row["data"], set()).add(row["points"])
    names = [name for name in PROBLEMS if len(sizes.get(name, ())) > 3]
    shape = {"figsize": (3.6 * len(names), 6.4), "squeeze": False, "sharey": "col", "layout": "constrained"}
    figure, panels = plt.subplots(2, len(names), **shape)
    for name, above, below in zip(names, *panels, strict=True):
        mine = [row for row in rows if row["data"] == name]
        for contender in (*CHOICES, "nystroem", "sampler"):
            own = sorted((row for row in mine if row["contender"] == contender), key=lambda row: int(row["points"]))
            accuracy = [float(row["accuracy"]) for row in own]
            style = "o-" if contender in CHOICES else "s--"
            above.plot([int(row["points"]) for row in own], accuracy, style, label=contender)
            below.plot([float(row["cpu"]) for row in own], accuracy, style, label=contender)
        for row in mine:
            if row["contender"] in ("exact", "sklearn"):
                ours = row["contender"] == "exact"
                label = "all samples" if ours else "scikit-learn's SVC"
                below.plot(float(row["cpu"]), float(row["accuracy"]), "*" if ours else "x", color="black", label=label)
        rows_of = f"{int(mine[0]['n']):,}".replace(",", " ")
        above.set(title=f"{name}, {rows_of} rows", xscale="log", xlabel="points")
        below.set(xscale="log", xlabel="processor seconds of the fit")
        for panel in (above, below):
            panel.set_ylabel("test accuracy, %")
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.grid(alpha=0.3)
        below.legend(fontsize="x-small")
    out = RESULTS.with_suffix(".svg")
    figure.savefig(out, metadata={"Date": None})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--points", type=int, nargs="+", default=POINTS)
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--add", action="store_true", help="keep what was measured before")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--plot", action="store_true")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker[0], arguments.worker[1], int(arguments.worker[2]))
    elif arguments.table:
        table()
    elif arguments.plot:
        print(plot())
    else:
        before = list(kept(arguments)) if arguments.add and RESULTS.exists() else []
        write(RESULTS, chain(before, measured(arguments)), COLUMNS)


if __name__ == "__main__":
    main()
