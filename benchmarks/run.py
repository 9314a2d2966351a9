"""Run a suite of problems, each contender in a process of its own, and compare.

    python benchmarks/run.py speed --only heart_scale usps-low --repeat 3
    python benchmarks/run.py agreement --contenders maxmargin scikit-learn
    python benchmarks/run.py scaling
    python benchmarks/run.py memory
    python benchmarks/run.py linear --only a9a                        linear machines: time to the same objective
    python benchmarks/run.py pdco                                     PDCO's Tables 1–3
    python benchmarks/run.py rows                                     growth with the number of rows; rows on disk
    python benchmarks/run.py newton                                   Newton steps on Adult; PRIMAL's Figure 1
    python benchmarks/run.py references                               the optima that `linear` and the others need
    python benchmarks/run.py table benchmarks/results/speed-….csv     print the tables of an earlier run
    python benchmarks/run.py list                                     print the names of all problems

Every row goes to the CSV file as soon as it is measured; the tables are made from that file alone. This process
imports nothing heavy: a child can inherit the peak memory of its parent.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import linear_run
from harness import HERE, child, console, exponent, read, surroundings, target, titled, write
from linear_problems import LINEAR_SUITES
from problems import CONTENDERS, OURS, PROBLEMS, SUITES, Problem

COLUMNS = (
    "date suite problem contender version status round n d seconds median predict_seconds predict_median "
    "peak_mb growth_mb n_support objective primal gap relative_gap infeasibility own_gap train_score test_score differ "
    "note threads load cpu python numpy commit"
).split()
NO_WORSE = 1e-6  # relative: above this an objective counts as worse than a peer's
FEASIBLE = 1e-6  # above this a peer's objective is no yardstick
DOUBLINGS = 3  # over which the growth exponent is fitted
NUMBERS = frozenset(
    "n d peak_mb growth_mb n_support objective primal gap relative_gap infeasibility own_gap train_score test_score "
    "differ".split()
)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit like any other: temporary files go
    options = parser().parse_args()
    if options.command == "list":
        for suite, problems in SUITES.items():
            for problem in problems:
                print(f"{suite:10} {problem.name}")
        for suite, linear in LINEAR_SUITES.items():
            for problem in linear:
                print(f"{suite:10} {problem.name}")
    elif options.command == "table":
        show_all(read(options.file))
    elif options.command == "plot":
        console.print(str(plots().plot(options.file)))
    elif options.command == "references":
        linear_run.find_references(options)
        linear_run.show_references()
    else:
        out = options.out or HERE / "results" / f"{options.command}-{datetime.now():%Y%m%d-%H%M%S}.csv"
        if options.command in LINEAR_SUITES:
            write(out, linear_run.measurements(options), linear_run.COLUMNS)
        else:
            write(out, measurements(options), COLUMNS)
        console.print(f"\n{out}")
        show_all(read(out))
        if options.command in ("pdco", "rows", "newton"):
            console.print(str(plots().plot(out)))
        if options.command == "newton":
            draw_figure1(out.with_name("figure1.csv"))


def draw_figure1(out: Path) -> None:
    """PRIMAL, Figure 1: a CSV file and the plot of it."""
    from figure1 import figure1

    rows = list(figure1())
    write(out, rows, list(rows[0]))
    console.print(f"{out}\n{plots().plot(out)}")


def plots():
    import plots  # matplotlib is needed nowhere else

    return plots


# ---------------------------------------------------------------------------------------------- measuring


def measurements(options: argparse.Namespace) -> Iterator[dict]:
    """One row for each problem, round and contender: contenders take turns, one process at a time."""
    chosen = [p for p in SUITES[options.command] if not options.only or any(part in p.name for part in options.only)]
    if not chosen:
        raise SystemExit(f"no problem of {options.command} has {options.only} in its name; `run.py list` prints them")
    setting = surroundings(options.threads)
    for problem in chosen:
        known = setting | {"suite": options.command, "problem": problem.name}
        predictions: dict[str, list] = {}
        for turn in range(options.rounds):
            for contender in options.contenders or problem.contenders:
                row = known | {"contender": contender, "round": turn} | run(contender, problem, turn, options)
                if "predictions" in row:
                    predictions[contender] = row.pop("predictions")
                    first = next(iter(predictions))
                    row["differ"] = difference(predictions[contender], predictions[first], problem.estimator)
                yield row


def run(contender: str, problem: Problem, turn: int, options: argparse.Namespace) -> dict:
    """What the worker reports: one line."""
    arguments = [contender, problem.name, "--repeat", options.repeat, "--budget", options.budget]
    arguments += ["--no-audit"] if turn else ["--predictions"] if options.command == "agreement" else []
    title = f"{problem.name}: {contender}, round {turn + 1} of {options.rounds}"
    return child("worker.py", *arguments, threads=options.threads, timeout=options.timeout, title=title)[-1]


def difference(ours: list, theirs: list, estimator: str) -> float:
    """The share of points predicted otherwise; for regression the largest difference over the range of values."""
    if estimator == "SVR":
        largest = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        return largest / (max(theirs) - min(theirs))
    return sum(a != b for a, b in zip(ours, theirs, strict=True)) / len(theirs)


# ---------------------------------------------------------------------------------------------- showing


def show_all(rows: list[dict]) -> None:
    """The tables of one run, of whichever suite."""
    if rows and rows[0]["suite"] in LINEAR_SUITES:
        linear_run.show(rows)
    else:
        show(rows)


def show(rows: list[dict]) -> None:
    """The tables of one run on kernel machines."""
    results = merged(rows)
    suite = rows[0]["suite"] if rows else ""
    if suite == "agreement":
        show_agreement(results)
    elif suite == "scaling":
        show_scaling(results)
    else:
        show_times("Seconds to fit", results, "median", "targets")
        predicted = {name: by for name, by in results.items() if any("predict_median" in r for r in by.values())}
        if predicted:
            show_times("Seconds to predict", predicted, "predict_median", "predict_targets")
        show_models(results)
    notes = (f"{r['problem']}: {r['contender']}: {r['status']}: {r['note']}" for r in rows if r["note"])
    for note in dict.fromkeys(notes):
        console.print(note, style="yellow", markup=False)


def merged(rows: list[dict]) -> dict[str, dict[str, dict]]:
    """problem → contender → its numbers: the median over the calls of all rounds, the largest peak, the first audit."""
    results: dict[str, dict[str, dict]] = {}
    for row in rows:
        by = results.setdefault(row["problem"], {})
        mine = by.setdefault(row["contender"], {"status": row["status"], "seconds": [], "predict_seconds": []})
        if row["status"] != "ok":
            continue
        mine["status"] = "ok"
        for key in ("seconds", "predict_seconds"):
            mine[key] += [float(value) for value in row[key].split()]
        for key, value in row.items():
            if key in NUMBERS and value:
                number = float(value)
                mine[key] = max(mine.get(key, number), number) if key.endswith("_mb") else mine.get(key, number)
        mine["median"] = statistics.median(mine["seconds"])
        if mine["predict_seconds"]:
            mine["predict_median"] = statistics.median(mine["predict_seconds"])
    return results


def show_times(title: str, results: dict, key: str, targets: str) -> None:
    headings = ("seconds", "share", "target", "objective, ours − peer's")
    table = titled(f"{title}: median, and our share of the peer's", "problem", "contender", *headings)
    for name, by in results.items():
        wanted = getattr(PROBLEMS[name], targets) if name in PROBLEMS else {}
        ours = by.get(OURS, {})
        for contender, r in in_turn(by):
            share = ours[key] / r[key] if contender != OURS and key in ours and key in r else None
            verdict = objective_verdict(ours, r) if contender != OURS else ""
            goal = target(wanted[contender], share) if contender in wanted else ""
            table.add_row(name, contender, seconds(r, key), f"{share:.3f}" if share else "", goal, verdict)
            name = ""
        table.add_section()
    console.print(table)


def show_models(results: dict) -> None:
    columns = {
        "vectors": ("n_support", ".0f"),
        "objective": ("objective", ".8g"),
        "gap": ("relative_gap", ".1e"),
        "infeasible": ("infeasibility", ".0e"),
        "train": ("train_score", ".4f"),
        "test": ("test_score", ".4f"),
        "MB": ("peak_mb", ".0f"),
        "grown": ("growth_mb", ".0f"),
    }
    table = titled("Models: objective and relative gap recomputed, peak memory", "problem", "contender", *columns)
    for name, by in results.items():
        for contender, r in in_turn(by):
            table.add_row(
                name, contender, *(format(r[key], form) if key in r else "" for key, form in columns.values())
            )
            name = ""
        table.add_section()
    console.print(table)


def show_agreement(results: dict) -> None:
    headings = ("vectors", "objective", "difference", "gap", "infeasible", "predictions")
    table = titled("Agreement: differences against the first contender", "problem", "contender", *headings)
    for name, by in results.items():
        first = next((r for r in by.values() if "objective" in r), {})
        for contender, r in by.items():
            if "objective" in r:
                cells = [f"{r['n_support']:.0f}", f"{r['objective']:.8g}", f"{relative(r, first):+.1e}"]
                cells += [f"{r['relative_gap']:.1e}", f"{r['infeasibility']:.0e}", f"{r['differ']:.2%}"]
            else:
                cells = [r["status"]]
            table.add_row(name, contender, *cells)
            name = ""
        table.add_section()
    console.print(table)


def show_scaling(results: dict) -> None:
    contenders = list(dict.fromkeys(contender for by in results.values() for contender, _ in in_turn(by)))
    table = titled("Seconds to fit nested parts of one data set", "problem", *contenders)
    for name, by in results.items():
        table.add_row(name, *(seconds(by[c], "median") if c in by else "" for c in contenders))
    console.print(table)
    for contender in contenders:
        fits = [by[contender] for by in results.values() if "median" in by.get(contender, {})]
        fits = sorted(fits, key=lambda r: r["n"])[-DOUBLINGS - 1 :]
        if len(fits) > 1:
            growth = exponent([r["n"] for r in fits], [r["median"] for r in fits])
            span = f"{fits[0]['n']:.0f} to {fits[-1]['n']:.0f} points"
            console.print(f"{contender}: seconds grow as n^{growth:.2f} from {span}")


def in_turn(by: dict[str, dict]) -> list[tuple[str, dict]]:
    return [(contender, by[contender]) for contender in CONTENDERS if contender in by]


def seconds(result: dict, key: str) -> str:
    return f"{result[key]:.3g}" if key in result else result["status"]


def relative(ours: dict, peer: dict) -> float:
    return (ours["objective"] - peer["objective"]) / max(abs(peer["objective"]), sys.float_info.min)


def objective_verdict(ours: dict, peer: dict) -> str:
    if "objective" not in ours or "objective" not in peer:
        return ""
    if ours["infeasibility"] > FEASIBLE:
        return "ours infeasible"
    if peer["infeasibility"] > FEASIBLE:
        return "peer infeasible"
    return f"{relative(ours, peer):+.1e} {'no worse' if relative(ours, peer) <= NO_WORSE else 'WORSE'}"


# ---------------------------------------------------------------------------------------------- options


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="Measure maxmargin and its peers on the same problems.")
    commands = options.add_subparsers(dest="command", required=True)
    for suite in SUITES:
        command = commands.add_parser(suite, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        command.add_argument("--only", nargs="+", metavar="NAME", help="problems with any of these in their name")
        command.add_argument("--contenders", nargs="+", choices=CONTENDERS, help="instead of those of each problem")
        once = suite in ("agreement", "memory")
        command.add_argument("--rounds", type=int, default=1 if once else 2, help="turns that each contender gets")
        command.add_argument("--repeat", type=int, default=1 if once else 3, help="timed fits in each process")
        command.add_argument(
            "--budget", type=float, default=0 if once else 60, help="no further fit after this many seconds of them"
        )
        command.add_argument("--timeout", type=float, default=600, help="seconds for each process, all included")
        command.add_argument("--threads", type=int, default=2, help="for every contender")
        command.add_argument("--out", type=Path, help="CSV file; without it results/SUITE-TIME.csv")
    linear_run.add_options(commands, argparse.ArgumentDefaultsHelpFormatter)
    for command in ("table", "plot"):
        commands.add_parser(command).add_argument("file", type=Path)
    commands.add_parser("list")
    return options


if __name__ == "__main__":
    main()
