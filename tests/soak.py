"""Mixed random fits in threads and processes for a while: memory, descriptors, threads and errors at the end.

    make soak MINUTES=60          or: cd tests && python soak.py --minutes 60

Every fit comes from the generator of the campaign (small problems, all machines and solvers), and after some thousand
the first comes again. Two threads fit at the same time in this process, and now and then a process of its own does. A
line a minute tells what the process holds; the end compares with what it held when all problems had been solved once,
and all leaves that they need had been compiled: what grows from there on is a leak.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

from threadpoolctl import threadpool_info

import maxmargin
from campaign.problems import make_problem

PROBLEMS = 3000  # different ones
LEAK = 1.2  # times what was held after the first round, and a few megabytes, is growth
SPARE_MB = 64.0
PATIENCE = 600.0  # seconds for a process of its own, which a busy machine may keep waiting


def held() -> dict[str, float]:
    """What this process holds now; what its allocator keeps of memory that was let go is handed back first."""
    gc.collect()
    handing_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if handing_back is not None:
        handing_back(0)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {
        "MB": int(status["VmRSS"].split()[0]) / 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def fit(seed: int) -> str | None:
    """Fit one problem; what went wrong, if anything did."""
    problem = make_problem(seed)
    if problem.machine == "QP" or problem.n > 2000:
        return None
    machine = getattr(maxmargin, problem.machine)(**{k: v for k, v in problem.params.items() if k != "callback"})
    machine.set_params(time_limit=2.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(*([problem.X] if problem.y is None else [problem.X, problem.y]))
            machine.predict(problem.X) if problem.machine != "SVDD" else None
    except ValueError:
        return None  # a solver that objects, a ν that is infeasible: said in words
    except Exception as error:  # whatever it is, it is what we are looking for
        return f"seed {seed}: {type(error).__name__}: {error}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    before = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    handler = signal.getsignal(signal.SIGINT)
    seeds, errors, done, settled = itertools.count(), [], itertools.count(), {}
    lock, end = threading.Lock(), time.monotonic() + 60.0 * given.minutes

    def work() -> None:
        while time.monotonic() < end:
            with lock:
                seed = next(seeds)
            wrong = fit(given.first + seed % PROBLEMS)
            next(done)
            if seed == PROBLEMS:
                settled.update(held())
            if wrong:
                errors.append(wrong)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    minute = 0
    while any(worker.is_alive() for worker in workers):
        time.sleep(min(60.0, max(1.0, end - time.monotonic())))
        minute += 1
        child = multiprocessing.get_context("spawn").Process(target=fit, args=(given.first + minute,))
        child.start()
        child.join(PATIENCE)
        if child.exitcode != 0:
            errors.append(f"a process of its own ended with {child.exitcode}")
        print(f"minute {minute}: " + ", ".join(f"{v:.0f} {k}" for k, v in held().items()), flush=True)
    for worker in workers:
        worker.join()
    after, fits = held(), next(done)
    grown = bool(settled) and after["MB"] > LEAK * settled["MB"] + SPARE_MB
    known = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    changed = [pair for pair in before if pair not in known] or signal.getsignal(signal.SIGINT) is not handler
    print(*errors, sep="\n")
    told = "grew" if grown else "flat" if settled else "not compared, no problem came twice"
    print(f"{fits} fits, {len(errors)} errors; memory {told}: {settled} to {after}; "
          f"BLAS threads and signal handlers {'changed: ' + str(changed) if changed else 'as before'}")  # fmt: skip
    return int(bool(errors or grown or changed))


if __name__ == "__main__":
    sys.exit(main())
