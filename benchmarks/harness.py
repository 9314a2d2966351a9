"""What every suite shares: processes of their own, where they ran, CSV files and tables."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["HERE", "child", "console", "exponent", "read", "surroundings", "target", "titled", "write"]

HERE = Path(__file__).resolve().parent
POOLS = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS BLIS_NUM_THREADS NUMBA_NUM_THREADS".split()
console = Console(width=None if sys.stdout.isatty() else 132)


def child(script: str, *arguments, threads: int, timeout: float, title: str) -> list[dict]:
    """What a worker reports, a line a report; a timeout or a crash is a report like any other, and comes last."""
    command = [str(part) for part in (sys.executable, HERE / script, *arguments, "--threads", threads)]
    environment = os.environ | dict.fromkeys(POOLS, str(threads))
    load = {"load": round(os.getloadavg()[0], 2)}  # of the minute before: other people's work shows here
    failure = None
    with console.status(title):
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
            output = done.stdout
        except subprocess.TimeoutExpired as stopped:
            output = (stopped.stdout or b"").decode()
            failure = {"status": "timeout", "note": f"stopped after {timeout:g} s"}
    reports = []
    for line in output.splitlines():
        try:
            reports.append(load | json.loads(line))
        except json.JSONDecodeError:  # a contender that prints, or half a line
            continue
    if failure is None and not reports:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        failure = {"status": "error", "note": f"exit code {done.returncode}: {last}"}
    return reports + ([load | failure] if failure else [])


def surroundings(threads: int) -> dict:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return {
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        "threads": threads,
        "cpu": f"{(models or [platform.processor()])[0]}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "commit": commit.stdout.strip() if commit.returncode == 0 else "",
    }


def write(file: Path, rows: Iterable[dict], columns: Sequence[str]) -> None:
    """Row by row, so that what was measured is there when the rest fails."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="raise")
        writer.writeheader()
        for row in rows:
            lists = {key: " ".join(map(str, value)) for key, value in row.items() if isinstance(value, list)}
            writer.writerow(row | lists)
            stream.flush()


def read(file: Path) -> list[dict]:
    with Path(file).open(newline="") as stream:
        return list(csv.DictReader(stream))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a log-log fit."""
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(v) for v in values]).slope


def titled(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        words = heading in ("problem", "contender")
        table.add_column(heading, justify="left" if words else "right", no_wrap=heading != "problem")
    return table


def target(share: float, reached: float | None) -> str:
    verdict = "" if reached is None else " met" if reached <= share else " MISSED"
    return f"≤ {Fraction(share).limit_denominator(100)}{verdict}"
