"""Runs problems on several processes, watches over them, and sums up.

A process that does not answer for longer than any time limit explains is ended; its problem counts as one that hangs.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing as mp
import os
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

from .checks import check_seed
from .problems import LONG, make_problem
from .reports import KINDS, Failure, Report

__all__ = ["run", "summary", "warm_up"]

DEAD, LONG_DEAD = 300.0, 3600.0  # seconds without an answer, for small and for large problems
WARM_UP = range(60)  # problems that are solved once before the clock counts, so that leaves are compiled


def warm_up() -> None:
    """Compile what will be used: the package keeps it on disk, where all processes find it."""
    for seed in WARM_UP:
        try:
            check_seed(seed)
        except Exception as error:  # it will come again, with its seed
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)


def _work(pipe: Connection) -> None:
    faulthandler.enable()  # should compiled code end the process, it tells where
    for seed in iter(pipe.recv, None):
        try:
            report = check_seed(seed)
        except Exception as error:
            report = Report(seed, "?", "?", 0, 0)
            lines = traceback.format_exception(error)[-6:]
            report.fail("crash", "in the campaign itself: " + " | ".join(line.strip() for line in lines))
        pipe.send(report)


class _Worker:
    def __init__(self, context) -> None:
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.seed, self.since = -1, 0.0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def lost(self, why: str) -> Report:
        """End the process, and tell of the problem that it had."""
        self.process.kill()
        self.process.join()
        problem = make_problem(self.seed)
        report = Report(self.seed, problem.machine, problem.solver, problem.n, problem.d, time.monotonic() - self.since)
        report.detail = str(problem)
        report.fail("hang" if "seconds" in why else "crash", why)
        return report


def run(seeds: Iterable[int], minutes: float | None = None, workers: int = 2) -> Iterator[Report]:
    """Reports as they come, until there are no more seeds or no more minutes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core for each process
    context = mp.get_context("spawn")
    queue, until = iter(seeds), time.monotonic() + 60.0 * minutes if minutes else float("inf")
    team = [_Worker(context) for _ in range(workers)]
    busy: dict[Connection, _Worker] = {}

    def next_for(worker: _Worker) -> None:
        seed = next(queue, None) if time.monotonic() < until else None
        if seed is not None:
            worker.give(seed)
            busy[worker.pipe] = worker

    for worker in team:
        next_for(worker)
    while busy:
        for pipe in wait(list(busy), timeout=1.0):
            worker = busy.pop(pipe)  # type: ignore[index]
            try:
                report = worker.pipe.recv()
            except EOFError:
                report = worker.lost("the process ended by itself")
                worker = _Worker(context)
                team.append(worker)
            yield report
            next_for(worker)
        for pipe, worker in list(busy.items()):
            if time.monotonic() - worker.since > (DEAD if worker.seed < LONG else LONG_DEAD):
                del busy[pipe]
                yield worker.lost(f"no answer for {time.monotonic() - worker.since:.0f} seconds")
                team.append(_Worker(context))
                next_for(team[-1])
    for worker in team:
        if worker.process.is_alive():
            worker.pipe.send(None)
            worker.process.join()


def write(report: Report, path: Path) -> None:
    """Add one line to the log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.write(json.dumps(asdict(report)) + "\n")


def summary(reports: list[Report]) -> str:
    """A table by machine and solver, and one by kind of failure with the smallest problem of each."""
    cells: dict[tuple[str, str], list[Report]] = defaultdict(list)
    for report in reports:
        cells[report.machine, report.solver].append(report)
    head = f"{'machine':<12} {'solver':<15} {'problems':>8} {'failed':>7} {'slow':>5} {'skipped':>8} {'seconds':>8}"
    lines = [head, "-" * len(head)]

    def line(machine: str, solver: str, cell: list[Report]) -> str:
        count = Counter(r.outcome for r in cell)
        seconds = sum(r.seconds for r in cell)
        return (
            f"{machine:<12} {solver:<15} {len(cell):>8} {count['failed']:>7} {count['slow']:>5} "
            f"{count['skipped']:>8} {seconds:>8.0f}"
        )

    lines += [line(*key, cells[key]) for key in sorted(cells)]
    lines += ["-" * len(head), line("all", "", reports)]
    kinds: dict[str, list[tuple[Report, Failure]]] = defaultdict(list)
    for report in reports:
        for kind in {f.kind for f in report.failures}:
            kinds[kind].append((report, next(f for f in report.failures if f.kind == kind)))
    if kinds:
        lines.append("")
    for kind in sorted(kinds, key=KINDS.index):
        found = kinds[kind]
        report, failure = min(found, key=lambda pair: pair[0].n)
        lines.append(f"{kind:<14}{len(found):>5}  smallest: seed {report.seed} (n = {report.n}): {failure.message}")
    return "\n".join(lines)
