"""The table of the README: median seconds of a fit, side by side in one run, from results/speed.csv.

python benchmarks/readme_table.py        # prints it; --write puts it into the README
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- from benchmarks/results/speed.csv -->", "<!-- end -->"
PEERS = ("maxmargin", "scikit-learn", "scikit-learn-intelex")
ROWS = {  # problem in the results → what a reader sees
    "a9a SVC C=10 gamma=0.01": "a9a, 32 561 × 123, `SVC(C=10)`",
    "mnist12000 SVC C=10 gamma=0.02": "MNIST, 12 000 × 784, ten classes, `SVC(C=10)`",
    "usps NuSVC nu=0.05 gamma=0.007812": "USPS, 7 291 × 256, ten classes, `NuSVC(nu=0.05)`",
    "a9a OneClassSVM nu=0.1 gamma=0.05": "a9a, `OneClassSVM(nu=0.1)`",
    "abalone SVR C=100 epsilon=0.1 gamma=1": "abalone, 4 177 × 8, `SVR(C=100)`",
    "breast_cancer SVC C=1 gamma=scale": "breast cancer, 569 × 30, `SVC()`",
    "iris OneClassSVM nu=0.5 gamma=scale": "iris, 150 × 4, `OneClassSVM()`",
}


def medians() -> dict[str, dict[str, float]]:
    """Problem → contender → median seconds over the rounds of the last run."""
    rounds: dict = defaultdict(lambda: defaultdict(list))
    with open(HERE / "results" / "speed.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "ok":
                rounds[row["problem"]][row["contender"]].append(float(row["median"]))
    return {problem: {who: statistics.median(s) for who, s in found.items()} for problem, found in rounds.items()}


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g} s" if value < 9.95 else f"{value:.0f} s"


def table() -> str:
    found = medians()
    lines = ["| a fit | " + " | ".join(PEERS) + " |", "| --- |" + " --- |" * len(PEERS)]
    for problem, shown in ROWS.items():
        lines.append(f"| {shown} | " + " | ".join(seconds(found[problem].get(who)) for who in PEERS) + " |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The README with the table of today's results."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        README.write_text(written(README.read_text()))
    else:
        print(table())
