"""Fuzz the readers by hand: ``cd tests && PYTHONPATH=../src python -m fuzz --inputs 10000``.

Prints a line for each reader: inputs, how many could be read, the slowest, the growth of memory. A failure leaves its
input in the folder ``fuzz-failures`` and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from .targets import damaged, targets

SLOW_SECONDS = 20.0  # of one input; a hang is reported with where it hangs
GROWTH_BYTES = 1 << 30  # of the process, by all inputs of a reader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of readers")
    options = parser.parse_args()
    failures = 0
    for name, target in targets().items():
        if options.only and name not in options.only:
            continue
        rng = random.Random(f"{options.seed} {name}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        good, slowest, started = 0, 0.0, time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.inputs):
                content = rng.randbytes(rng.randrange(200)) if rng.random() < 0.05 else damaged(target.seeds, rng)
                begun = time.perf_counter()
                faulthandler.dump_traceback_later(SLOW_SECONDS, exit=True)
                try:
                    good += target.check(Path(folder) / "input", content)
                except BaseException:
                    failures += 1
                    kept = Path("fuzz-failures") / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
                    kept.parent.mkdir(exist_ok=True)
                    kept.write_bytes(content)
                    print(f"{name}: {kept}")
                    traceback.print_exc(limit=-4)
                finally:
                    faulthandler.cancel_dump_traceback_later()
                slowest = max(slowest, time.perf_counter() - begun)
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        failures += growth > GROWTH_BYTES
        seconds = time.perf_counter() - started
        print(
            f"{name:<11} {options.inputs} inputs, {good} read, slowest {slowest:.2f} s, memory +{growth >> 20} MB, "
            f"{seconds:.0f} s",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
