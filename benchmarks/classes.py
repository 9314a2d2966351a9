"""Many classes: seconds and megabytes of a fit and of predictions, beside scikit-learn, each in a process of its own.

    python benchmarks/classes.py                  # writes results/classes.csv and prints it
    python benchmarks/classes.py --only 300       # cases with this in their name, printed only

Megabytes are the growth of the peak of the process over what it held before, which includes what is returned
("output"). A process fits once before it counts, so that leaves are compiled.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

CASES = {  # classes, samples of each, features, rows to predict
    "300 classes of 4": (300, 4, 10, 0),
    "200 classes of 40": (200, 40, 10, 0),
    "100 classes, 20 000 rows": (100, 20, 10, 20_000),
    "20 classes, 1 000 000 rows": (20, 50, 10, 1_000_000),
}
COLUMNS = ["case", "contender", "fit_seconds", "fit_mb", "predict_seconds", "predict_mb", "output_mb"]


def peak() -> float:
    """Megabytes at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(case: str, contender: str) -> dict:
    import numpy as np

    k, each, d, rows = CASES[case]
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), each)
    X = rng.normal(size=(k, d))[y] * 3 + rng.normal(size=(len(y), d))
    if contender == "maxmargin":
        from maxmargin import SVC
    elif contender == "scikit-learn":
        from sklearn.svm import SVC
    else:
        from sklearnex.svm import SVC
    few = y < 6
    model = SVC(C=1.0, gamma=0.1).fit(X[few], y[few])  # what is compiled or loaded at first
    model.predict(X[:5])
    before, began = peak(), time.perf_counter()
    model = SVC(C=1.0, gamma=0.1).fit(X, y)
    found = {"fit_seconds": round(time.perf_counter() - began, 4), "fit_mb": round(peak() - before, 1)}
    if rows:
        Z = rng.normal(size=(rows, d)) * 3
        model.predict(Z[:100])
        before, began = peak(), time.perf_counter()
        out = model.predict(Z)
        found |= {
            "predict_seconds": round(time.perf_counter() - began, 3),
            "predict_mb": round(peak() - before, 1),
            "output_mb": round(out.nbytes / 2**20, 2),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--work", nargs=2)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(*options.work)))
        return
    rows = []
    for case in [case for case in CASES if not options.only or any(part in case for part in options.only)]:
        for contender in ("maxmargin", "scikit-learn", "scikit-learn-intelex"):
            command = [sys.executable, __file__, "--work", case, contender]
            told = subprocess.run(command, capture_output=True, text=True)
            if told.returncode:
                print(f"{case}, {contender}: {told.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            rows.append({"case": case, "contender": contender} | json.loads(told.stdout.strip().splitlines()[-1]))
            print(*(f"{name} {rows[-1].get(name, '')}" for name in COLUMNS), sep="  ", flush=True)
    if not options.only:
        with open(Path(__file__).parent / "results" / "classes.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
