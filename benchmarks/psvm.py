"""The tables of the Potential SVM's paper (PSVM §4), the lasso comparison and feature selection, a command each.

    python benchmarks/psvm.py table1     PSVR/PSVC beside scikit-learn's SVR/SVC, the paper's parameters
                               table2     the eight variants of the paper's SMO
                               table3     adult with an RBF kernel, 1000 … 10 000 rows
                               table4     adult as dyadic data, 10 000 … 40 000 rows
                               lasso      C = ∞ beside scikit-learn's Lasso, celer and skglm, each in its own process;
                                          "lasso news20 maxmargin 300" for one problem, one contender, 300 s
                               select     arcene: 100 of 10 000 features, and a linear machine on them

cluster2x and cluster2a of Tables 1 and 2 were on the authors' page, which is gone. The paper's ε and C are those of
targets as they are; ours are in units of their standard deviation (docs/psvm.md), so each is divided by it.
Results go to benchmarks/results/psvm-*.csv.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from data import load, path
from harness import HERE, child, console, surroundings, titled, write
from lasso_worker import GAP, PATH_GAP
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.svm import SVC, SVR

from maxmargin import PSVC, PSVR, LinearSVC, PSVMSelector
from maxmargin import threads as th
from maxmargin.formulations import PSVM, Samples
from maxmargin.gram import Kernel, Relation
from maxmargin.monitor import Monitor
from maxmargin.solvers import PotentialSMO, solve

RESULTS = HERE / "results"
PAPER_TOL = 0.05  # λ
TEST_ROWS = 100_000  # of Table 1
REPEATS = 3  # timed fits at least, of which the quickest counts; as many as fit into
REPEATED = 0.5  # seconds
SLOW = 60.0  # seconds after which a contender's larger sizes are left out


# -- data ---------------------------------------------------------------------------------------------------


def space():
    """space_ga, features and not the target stretched to [−1, 1]."""
    table = pd.read_csv(path("space_ga.csv.xz")).to_numpy(dtype=float)
    X, y = table[:, 1:], table[:, 0]
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / (high - low) - 1, y


def arcene(part: str = "train"):
    X = pd.read_csv(path(f"arcene_{part}.data.xz"), sep=r"\s+", header=None).to_numpy(dtype=float)
    return X, np.loadtxt(path(f"arcene_{part}.labels"))


QUINTILES = 5


def adult(columns: bool):
    """The 45 222 complete rows of both files, shuffled; categories as numbers, or all as columns of 0 and 1.

    As columns numbers become quintiles, as in Platt's a1a … a9a; what is mostly 0 becomes 0, small and large.
    """
    parts = [
        pd.read_csv(path(f), header=None, na_values="?", skipinitialspace=True, comment=c)
        for f, c in (("adult.data.xz", None), ("adult.test.xz", "|"))
    ]
    table = pd.concat(parts, ignore_index=True).dropna().sample(frac=1.0, random_state=0)
    y = np.where(table[14].str.startswith(">"), 1.0, -1.0)
    X = table.drop(columns=14)
    for c in list(X):
        if X[c].dtype.kind not in "iuf":
            X[c] = X[c].astype("category").cat.codes
        elif columns and X[c].median() > 0:
            X[c] = pd.qcut(X[c], QUINTILES, duplicates="drop").cat.codes
        elif columns:
            X[c] = (X[c] > 0).astype(int) + (X[c] > X[c][X[c] > 0].median()).astype(int)
    if columns:
        return pd.get_dummies(X.astype(str)).to_numpy(dtype=float), y
    return np.ascontiguousarray(X.to_numpy(dtype=float)), y


# -- measuring ----------------------------------------------------------------------------------------------


def timed(make: Callable, repeats: int = REPEATS):
    """What it returns and the seconds of the quickest call, after one to compile."""
    times: list[float] = []
    while len(times) <= repeats or sum(times[1:]) < REPEATED:
        start = time.perf_counter()
        result = make()
        times.append(time.perf_counter() - start)
        if times[-1] > SLOW:
            return result, times[-1]
    return result, min(times[1:])


def error(make: Callable, X, y, folds: int, classify: bool) -> float:
    """Cross-validated mean squared error, or accuracy."""
    split = (StratifiedKFold if classify else KFold)(folds, shuffle=True, random_state=0)
    found = np.empty(len(y))
    for train, test in split.split(X, y):
        found[test] = make().fit(X[train], y[train]).predict(X[test])
    return float(np.mean(found == y) if classify else np.mean((found - y) ** 2))


@dataclass(frozen=True)
class Entry:
    """A row of Table 1."""

    name: str
    data: Callable
    kernel: dict
    C: float  # the paper's
    epsilon: float
    folds: int
    other: dict  # libSVM's parameters
    support: int  # the paper's result
    error: float
    classify: bool = False
    test: int = TEST_ROWS

    def potential(self, y, **more):
        unit = float(y.std())
        kind = PSVC if self.classify else PSVR
        return kind(C=self.C / unit, epsilon=self.epsilon / unit, **self.kernel, **more)

    def standard(self):
        return (SVC if self.classify else SVR)(**self.kernel, **self.other)


def rbf(gamma: float) -> dict:
    return {"kernel": "rbf", "gamma": gamma}


TABLE1 = [
    Entry("abalone", lambda: load("abalone"), rbf(1.0), 5000, 0.003, 20, {"C": 110, "epsilon": 1.8}, 71, 4.417),
    Entry("space", space, rbf(1.0), 1000, 0.0006, 10, {"C": 100, "epsilon": 0.01}, 86, 0.011),
    Entry("heart", lambda: load("heart_scale"), rbf(0.05), 1000, 0.44, 50, {"C": 0.6, "epsilon": 0.41}, 9, 0.483),
    Entry("arcene", arcene, {"kernel": "linear"}, 100, 0.002, 30, {"C": 100}, 83, 0.86, True, 100),
]


def table1(names) -> Iterator[dict]:
    for entry in TABLE1:
        if names and entry.name not in names:
            continue
        X, y = entry.data()
        new = np.resize(X, (entry.test, X.shape[1]))
        for contender, make in (("maxmargin", lambda: entry.potential(y)), ("scikit-learn", entry.standard)):  # noqa: B023
            model, fit = timed(lambda: make().fit(X, y))  # noqa: B023
            _, predict = timed(lambda: model.predict(new), 1)  # noqa: B023
            yield {
                "problem": entry.name, "contender": contender, "support": len(model.support_), "fit": fit,
                "predict": predict, "error": error(make, X, y, entry.folds, entry.classify),
                "paper support": entry.support, "paper error": entry.error,
                "note": str(getattr(model, "certificate_", "")),
            }  # fmt: skip


def table2(names) -> Iterator[dict]:
    for entry in TABLE1:
        if (names and entry.name not in names) or entry.name == "heart":
            continue
        X, y = entry.data()
        unit, weight = float(y.std()), np.ones(len(y))
        kernel = Kernel(entry.kernel["kernel"], entry.kernel.get("gamma", 0.0))
        for pair, block, annealing in product((True, False), repeat=3):
            start = time.perf_counter()
            with th.blas_limit(1):
                gram = Relation.over_kernel(kernel, X, None, weight)
                qp = PSVM(entry.C / unit, entry.epsilon / unit).qp(Samples(gram, y, weight))
                gram.cost.evals = 0
                begun = time.perf_counter()
                variant = PotentialSMO(pair, block, annealing)
                found = solve(qp, variant, monitor=Monitor(SLOW), tol=2 * PAPER_TOL / unit)
            yield {
                "problem": entry.name, "pair": pair, "block": block, "annealing": annealing,
                "seconds": time.perf_counter() - begun, "with kernel": time.perf_counter() - start,
                "changed": len(found.history.trace["changed"]), "rows": gram.evals // gram.n,
                "steps": found.n_iter, "support": int(np.count_nonzero(found.beta)), "status": found.status.name,
            }  # fmt: skip


def table3(names) -> Iterator[dict]:
    X, y = adult(columns=False)
    for n in range(1000, 10001, 1000 if not names else int(names[0])):
        A, b = X[:n], y[:n]
        unit = float(b.std())
        make = lambda: PSVC(C=1 / unit, epsilon=0.4 / unit, gamma=1e-8)  # noqa: B023, E731
        model, fit = timed(lambda: make().fit(A, b), 1)  # noqa: B023
        smo, paper = timed(lambda: make().set_params(solver="potential-smo").fit(A, b), 1)  # noqa: B023
        other, theirs = timed(lambda: SVC(C=10, gamma=1e-8).fit(A, b), 1)  # noqa: B023
        yield {
            "rows": n, "maxmargin": fit, "potential-smo": paper, "scikit-learn": theirs,
            "support": len(model.support_), "their support": len(other.support_),
            "accuracy": model.score(X[-5000:], y[-5000:]), "their accuracy": other.score(X[-5000:], y[-5000:]),
        }  # fmt: skip


def table4(names) -> Iterator[dict]:
    slow = False
    for columns, n in product((True, False), (10_000, 20_000, 30_000, 40_000)):
        X, y = adult(columns)
        A, b = X[:n], y[:n]
        unit = float(b.std())
        make = lambda: PSVC(kernel="dyadic", C=1000 / unit, epsilon=1 / unit)  # noqa: B023, E731
        model, fit = timed(lambda: make().fit(A, b))  # noqa: B023
        theirs = np.nan
        if columns and not slow and "peers" in names:
            theirs = timed(lambda: SVC(kernel="linear", C=1).fit(A, b), 0)[1]  # noqa: B023
            slow = theirs > SLOW
        yield {
            "features": "columns of 0 and 1" if columns else "numbers", "rows": n, "maxmargin": fit,
            "scikit-learn": theirs, "support": len(model.support_), "columns": A.shape[1],
            "accuracy (5-fold)": error(make, A, b, 5, True),
        }  # fmt: skip


# -- lasso --------------------------------------------------------------------------------------------------


LASSO_PROBLEMS = ("wide", "arcene", "news20", "tall")
LASSO_CONTENDERS = ("maxmargin", "celer", "skglm", "scikit-learn")
LASSO_LIMIT = 40.0  # seconds of a contender on a problem, with loading: all four take less than three minutes


def lasso(names) -> Iterator[dict]:
    """Each contender in a process of its own; what it had no time for has a row that says so."""
    problems = [name for name in LASSO_PROBLEMS if name in names] or LASSO_PROBLEMS
    contenders = [name for name in LASSO_CONTENDERS if name in names] or LASSO_CONTENDERS
    limit = next((float(name) for name in names if name.replace(".", "").isdigit()), LASSO_LIMIT)
    empty = {"epsilon": "", "seconds": np.nan, "processor": np.nan, "gap": np.nan, "support": 0, "tol": np.nan}
    for name, contender in product(problems, contenders):
        title = f"{contender} on {name}"
        for found in child("lasso_worker.py", contender, name, threads=th.count(None), timeout=limit, title=title):
            row = {"problem": name, "contender": contender} | empty | {"note": ""}
            yield row | {key: value for key, value in found.items() if key in row}


def select(names) -> Iterator[dict]:
    X, y = arcene()
    V, v = arcene("valid")
    whole, all_seconds = timed(lambda: LinearSVC(C=1e-6, loss="hinge").fit(X, y))
    yield {"features": X.shape[1], "seconds": all_seconds, "validation accuracy": whole.score(V, v)}
    for count in (20, 50, 100, 200):

        def make(count=count):
            chosen = PSVMSelector(n_features_to_select=count).fit(X, y)
            return chosen, LinearSVC(C=1e-6, loss="hinge").fit(chosen.transform(X), y)

        (chosen, model), seconds = timed(make)
        yield {
            "features": count, "seconds": seconds, "validation accuracy": model.score(chosen.transform(V), v),
        }  # fmt: skip


def compared(rows: list[dict]) -> Iterator[str]:
    """The table of docs/psvm.md from the rows of one run: seconds of the processor, and gaps that are missed."""
    yield "| problem, ε | " + " | ".join(LASSO_CONTENDERS) + " |"
    yield "| --- |" + " --- |" * len(LASSO_CONTENDERS)
    known = {(row["problem"], row["epsilon"], row["contender"]): row for row in rows if row["epsilon"]}
    for problem, epsilon in dict.fromkeys(key[:2] for key in known):
        cells = []
        for contender in LASSO_CONTENDERS:
            row = known.get((problem, epsilon, contender))
            goal = PATH_GAP if "path" in epsilon else GAP
            missed = f" for {float(row['gap']):.0e}" if row and float(row["gap"]) > goal else ""
            cells.append("—" if row is None else f"{float(row['processor']):.2g}{missed}")
        yield f"| {problem}, {epsilon} | " + " | ".join(cells) + " |"


SUITES = {"table1": table1, "table2": table2, "table3": table3, "table4": table4, "lasso": lasso, "select": select}


def shown(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("names", nargs="*", help="only these problems")
    parser.add_argument("--dry", action="store_true", help="write no CSV")
    asked = parser.parse_args()
    where = surroundings(th.count(None)) | {"load": round(os.getloadavg()[0], 2)}
    rows = []

    def results() -> Iterator[dict]:
        for row in SUITES[asked.suite](asked.names):
            rows.append(row)
            console.print("  ".join(f"{k} {shown(v)}" for k, v in row.items() if k != "note"))
            yield row | where

    first = results()
    begin = next(first)
    if asked.dry:
        list(first)
    else:
        write(RESULTS / f"psvm-{asked.suite}.csv", (r for part in ([begin], first) for r in part), list(begin))
    headings = [k for k in rows[0] if k != "note"]
    table = titled(f"Potential SVM, {asked.suite}", *headings)
    for row in rows:
        table.add_row(*(shown(row[k]) for k in headings))
    console.print(table)
    if asked.suite == "lasso":
        print(*compared(rows), sep="\n")


if __name__ == "__main__":
    main()
