"""The command line of the campaign: ``python -m campaign --help``."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

from .checks import check_seed
from .problems import LONG, make_problem
from .runner import run, summary, warm_up, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="campaign", description="Random problems, checked by hand.")
    parser.add_argument("--seed", type=int, nargs="+", help="only these problems, with all that fails")
    parser.add_argument("--first", type=int, help="first seed of a run; without it the clock gives one")
    parser.add_argument("--count", type=int, help="so many problems")
    parser.add_argument("--minutes", type=float, help="as many as can be done in this time")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--long", action="store_true", help="up to 40 000 samples")
    parser.add_argument("--log", type=Path, help="a JSON line for every problem is added here")
    parser.add_argument("--again", type=Path, help="only the problems that failed in this log")
    given = parser.parse_args()
    warnings.simplefilter("ignore")

    if given.seed:
        failed = False
        for seed in given.seed:
            problem = make_problem(seed)
            print(problem)
            report = check_seed(seed)
            print(f"  {report.outcome} in {report.seconds:.2f} s{report.detail.removeprefix(str(problem))}")
            for failure in report.failures:
                print(f"  {failure.kind}: {failure.message}")
            failed |= bool(report.failures)
        return int(failed)

    seeds: Iterable[int]
    if given.again:
        lines = map(json.loads, given.again.read_text().splitlines())
        seeds = sorted({line["seed"] for line in lines if line["failures"]})
        print(f"Compiling, then {len(seeds)} problems again.", flush=True)
    else:
        if given.count is None and given.minutes is None:
            given.count = 300
        first = given.first if given.first is not None else int(time.time()) % 10**6 * 100
        first += LONG if given.long and first < LONG else 0
        seeds = range(first, first + given.count) if given.count else itertools.count(first)
        print(f"Compiling, then problems from seed {first} on.", flush=True)
    warm_up()
    reports = []
    for report in run(seeds, given.minutes, given.workers):
        reports.append(report)
        if given.log:
            write(report, given.log)
        for failure in report.failures:
            print(
                f"seed {report.seed}  {report.machine} {report.solver} n={report.n}  {failure.kind}: {failure.message}",
                flush=True,
            )
    print("\n" + summary(reports))
    return int(any(r.failures for r in reports))


if __name__ == "__main__":
    sys.exit(main())
