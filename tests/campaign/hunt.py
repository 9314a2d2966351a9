"""A hunt over seeds: each makes a trial, whose faults are told with the seed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["hunt"]


def hunt(description: str | None, made: Callable[[int], Any], faults: Callable[[Any], list[str]]) -> None:
    """Look at ``--count`` trials from ``--seed`` on, and end with 1 where one has a fault."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    asked = parser.parse_args()
    bad = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        wrong = faults(made(seed))
        bad += bool(wrong)
        for line in wrong:
            print(f"seed {seed}: {line}  {made(seed).machine}")
    print(f"{asked.count} machines, {bad} with faults")
    raise SystemExit(bool(bad))
