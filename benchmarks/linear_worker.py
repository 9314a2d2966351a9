"""One contender on one linear problem in a process of its own: climbs its ladders, prints a line of JSON a rung.

    python linear_worker.py LIBLINEAR "a9a hinge C=1 bias=penalised" --reference 11433.38 --goals 1e-3 1e-6

A ladder goes from loose to tight and ends with the rung that reaches the last goal, or with one that took longer than
--limit. Only rungs that reach a goal first are timed again. Lines come as they are measured: where the process has to
be stopped, what it printed counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import warnings
from functools import partial


def main() -> None:
    options = parser().parse_args()
    if hasattr(os, "sched_setaffinity"):  # the only limit that every thread pool obeys
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    try:
        for report in climb(options):
            print(json.dumps(report), flush=True)
    except Exception as error:  # the parent wants one line, whatever happened
        print(json.dumps({"status": "error", "note": f"{type(error).__name__}: {error}"}), flush=True)


def climb(options: argparse.Namespace):
    import numpy as np
    from data import load
    from linear_objective import primal
    from linear_peers import LINEAR_PEERS
    from linear_problems import LINEAR_PROBLEMS
    from worker import WARM_UP_ROWS, forget_peak, peak, resident, timed, unique_messages

    peer, problem = LINEAR_PEERS[options.contender], LINEAR_PROBLEMS[options.problem]
    if not peer.offers(problem):
        yield {"status": "not offered", "note": ""}
        return
    X, y = load(problem.data)
    some = np.linspace(0, len(y) - 1, min(len(y), WARM_UP_ROWS)).astype(int)
    ladders = [[rung] for rung in json.loads(options.settings)] if options.settings else peer.settings(problem, X)
    for rungs in ladders:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(problem, peer.prepare(problem, X[some], y[some], rungs[0]), rungs[0])
        prepared = peer.prepare(problem, X, y, rungs[0])
        goals = sorted(options.goals, reverse=True)
        forget_peak()  # of loading
        loaded = resident()
        for rung in rungs:
            fit = partial(peer.fit, problem, prepared, rung)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                seconds, found = timed(fit, 1, 0)
                objective = primal(problem, X, y, found.w, found.b)
                above = (objective - options.reference) / abs(options.reference)
                if options.repeat and (options.settings or goals and above <= goals[0]):
                    seconds += timed(fit, options.repeat, options.budget)[0]
            goals = [goal for goal in goals if above > goal]
            cut = bool(goals) and seconds[0] > options.limit  # tighter rungs are not tried, so nobody knows
            yield {
                "status": "ok",
                "version": peer.version,
                "n": X.shape[0],
                "d": X.shape[1],
                "setting": json.dumps(rung),
                "seconds": seconds,
                "median": statistics.median(seconds),
                "objective": objective,
                "suboptimality": above,
                "cut": int(cut),
                "bound": found.bound,
                "steps": found.steps,
                "solver": found.solver,
                "peak_mb": peak() / 2**20,
                "growth_mb": (peak() - loaded) / 2**20,
                "note": "; ".join(unique_messages(heard)),
            }
            if not options.settings and (cut or not goals):
                break


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="Run one contender on one linear problem, one line of JSON a rung.")
    options.add_argument("contender")
    options.add_argument("problem", help="its name, as `run.py list` prints it")
    options.add_argument("--reference", type=float, required=True, help="the optimum")
    options.add_argument("--goals", type=float, nargs="+", default=[1e-3, 1e-6], help="relative suboptimality")
    options.add_argument("--settings", help="JSON: these rungs, all timed, instead of the contender's ladders")
    options.add_argument("--limit", type=float, default=60, help="a fit that takes longer is the last of its ladder")
    options.add_argument("--repeat", type=int, default=3, help="further timed fits")
    options.add_argument("--budget", type=float, default=10, help="no further fit after this many seconds of them")
    options.add_argument("--threads", type=int, default=2)
    return options


if __name__ == "__main__":
    main()
