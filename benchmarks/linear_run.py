"""The suites of linear machines: what run.py calls for `linear`, `pdco`, `rows`, `newton` and `references`.

A reference is the lowest objective that anybody has proved or found for a problem; results/references.csv keeps them,
with the bound that our interior-point method proves at a relative gap of 1e-10, and what Clarabel finds.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import linear_problems as names
from harness import HERE, child, console, exponent, read, surroundings, target, titled
from linear_problems import GOALS, LINEAR_PROBLEMS, LINEAR_SUITES, LinearProblem

__all__ = ["COLUMNS", "COMMANDS", "add_options", "measurements", "show", "show_references"]

COMMANDS = (*LINEAR_SUITES, "references")
COLUMNS = (
    "date suite problem contender version status round n d setting seconds median objective suboptimality cut "
    "reference bound steps solver peak_mb growth_mb anonymous_mb note threads load cpu python numpy commit"
).split()
REFERENCES = HERE / "results" / "references.csv"
REFERENCE_COLUMNS = "problem objective bound relative_gap source version setting seconds date commit".split()
REFEREES = {names.IPM: {"tol": 1e-10}, names.CLARABEL: {"tol": 1e-10}}  # who may set a reference, and how tight

PROVED = 1e-8  # relative gap above which a referee has proved nothing

# Suites other than `linear` compare at fixed settings: the tolerances that PDCO's authors and SMO's users take.
SMO = {"tol": 1e-3}
FIXED = {
    "pdco": {names.IPM: {"tol": 1e-6}, names.IPM_WHOLE: {"tol": 1e-6}, names.OURS_SMO: SMO, names.SKLEARN: SMO}
    | {names.LIBLINEAR: {"tol": 1e-3, "dual": True, "scaling": 1.0}},
    "rows": {names.OURS: {"tol": 1e-6, "layout": "dense"}}
    | {names.LIBLINEAR: {"tol": 1e-3, "dual": True, "scaling": 1.0, "layout": "dense"}},
    "newton": {names.NEWTON_SOLVER: {"tol": 1e-8}, names.LIBLINEAR: {"tol": 1e-6, "dual": False, "scaling": 1.0}},
}


# ---------------------------------------------------------------------------------------------- measuring


def measurements(options: argparse.Namespace) -> Iterator[dict]:
    """One row for each problem, contender, setting and round."""
    suite = options.command
    chosen = [p for p in LINEAR_SUITES[suite] if not options.only or any(part in p.name for part in options.only)]
    if not chosen:
        raise SystemExit(f"no problem of {suite} has {options.only} in its name; `run.py list` prints them")
    setting = surroundings(options.threads)
    for problem in chosen:
        contenders = options.contenders or problem.contenders
        known = setting | {"suite": suite, "problem": problem.name, "reference": reference(problem, options)}
        rungs: dict[str, list] = {}
        for turn in range(options.rounds):
            for contender in contenders:
                if suite in FIXED:
                    tried = [FIXED[suite].get(contender, {"tol": 1e-6})]
                else:
                    tried = rungs.get(contender, None) if turn else None
                if tried == []:
                    continue  # reached nothing in the first round
                reports = run(contender, problem, known["reference"], tried, turn, options)
                for report in reports:
                    yield known | {"contender": contender, "round": turn} | report
                if turn == 0:
                    rungs[contender] = [json.loads(r["setting"]) for r in winners(reports)]
    if suite == "rows" and options.mapped:
        for dtype in ("float32", "float64"):
            yield setting | mapped(dtype, options)


def run(contender: str, problem: LinearProblem, optimum: float, rungs: list | None, turn: int, options) -> list[dict]:
    arguments = [contender, problem.name, "--reference", repr(optimum), "--limit", options.limit]
    arguments += ["--repeat", options.repeat, "--budget", options.budget, "--goals", *GOALS]
    arguments += ["--settings", json.dumps(rungs)] if rungs else []
    title = f"{problem.name}: {contender}, round {turn + 1} of {options.rounds}"
    return child("linear_worker.py", *arguments, threads=options.threads, timeout=options.timeout, title=title)


def winners(reports: list[dict]) -> list[dict]:
    """For each goal the fastest setting that reaches it."""
    fastest = []
    for goal in GOALS:
        there = [r for r in reports if r["status"] == "ok" and float(r["suboptimality"]) <= goal]
        if there:
            fastest.append(min(there, key=lambda r: float(r["median"])))
    return [r for k, r in enumerate(fastest) if r not in fastest[:k]]


def mapped(dtype: str, options: argparse.Namespace) -> dict:
    """Our machine on a file of rows, which is made for it and deleted afterwards."""
    common = {"threads": options.threads, "timeout": options.timeout}
    name = f"mapped {options.mapped:g} GB {dtype}"
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder, "rows.npy")
        size = ["--gigabytes", options.mapped, "--dtype", dtype]
        report = child("mapped_worker.py", "make", file, *size, title=f"{name}: being made", **common)[-1]
        if report["status"] == "ok":
            report = child("mapped_worker.py", "fit", file, title=f"{name}: {names.OURS}", **common)[-1]
    return report | {"suite": "rows", "problem": name, "contender": names.OURS, "round": 0}


# ---------------------------------------------------------------------------------------------- references


def reference(problem: LinearProblem, options: argparse.Namespace) -> float:
    """The lowest objective known; found now where nobody knows one."""
    known = references().get(bare(problem))
    if not known:
        for referee in REFEREES:
            if refer(problem, referee, options):
                break
        known = references().get(bare(problem))
    if not known:
        raise SystemExit(f"{problem.name}: a reference was asked for; no referee found one; see {REFERENCES}")
    return min(float(row["objective"]) for row in known.values())


def bare(problem: LinearProblem) -> str:
    """The problem's name without the machine, which does not change the optimum."""
    return problem.name.removesuffix(f" {problem.machine}")


def references() -> dict[str, dict[str, dict]]:
    """problem → source → what it found."""
    table: dict[str, dict[str, dict]] = {}
    for row in read(REFERENCES) if REFERENCES.exists() else []:
        table.setdefault(row["problem"], {})[row["source"]] = row
    return table


def refer(problem: LinearProblem, referee: str, options: argparse.Namespace) -> bool:
    """Let a referee solve a problem and note what it found."""
    arguments = [referee, bare(problem), "--reference", 1, "--repeat", 0, "--settings", json.dumps([REFEREES[referee]])]
    title = f"{bare(problem)}: reference by {referee}"
    found = child("linear_worker.py", *arguments, threads=options.threads, timeout=options.timeout, title=title)[-1]
    if found["status"] != "ok":
        console.print(f"{title}: {found['status']}: {found['note']}", style="yellow", markup=False)
        return False
    row = {key: found[key] for key in ("objective", "bound", "version", "setting")}
    row |= {"problem": bare(problem), "source": referee, "seconds": found["median"]}
    if found["bound"] is not None:
        row["relative_gap"] = (found["objective"] - found["bound"]) / abs(found["objective"])
        if not abs(row["relative_gap"]) <= PROVED:  # NaN is no proof either
            left = f"{title}: a gap of {row['relative_gap']:.1e} is left: not taken"
            console.print(left, style="yellow", markup=False)
            return False
    row |= {key: value for key, value in surroundings(options.threads).items() if key in ("date", "commit")}
    kept = [r for r in read(REFERENCES) if (r["problem"], r["source"]) != (row["problem"], row["source"])]
    with REFERENCES.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, REFERENCE_COLUMNS)
        writer.writeheader()
        writer.writerows([*kept, row])
    return True


def find_references(options: argparse.Namespace) -> None:
    """Let every referee solve every problem that it has not solved yet."""
    for problem in LINEAR_PROBLEMS.values():
        if not options.only or any(part in problem.name for part in options.only):
            for referee in options.contenders or REFEREES:
                if options.again or referee not in references().get(bare(problem), {}):
                    refer(problem, referee, options)


def show_references() -> None:
    ours, independent = REFEREES
    table = titled("Optima", "problem", "objective", "relative gap", f"{independent} − ours, relative")
    for name, by in references().items():
        a, b = by.get(ours), by.get(independent)
        best = min(float(row["objective"]) for row in by.values())
        gap = f"{float(a['relative_gap']):.0e}" if a else ""
        difference = (
            f"{(float(b['objective']) - float(a['objective'])) / abs(float(a['objective'])):+.0e}" if a and b else ""
        )
        table.add_row(name, f"{best:.10g}", gap, difference)
    console.print(table)


# ---------------------------------------------------------------------------------------------- showing


def show(rows: list[dict]) -> None:
    """The tables of one run."""
    suite = rows[0]["suite"] if rows else ""
    results = merged(rows)
    if suite == "linear":
        show_goals(results)
    elif suite == "newton":
        show_steps(results)
    else:
        on_disk = {name: results.pop(name) for name in list(results) if name.startswith("mapped")}
        show_growth(results, memory=suite == "rows")
        if on_disk:
            show_mapped(on_disk)
    notes = (f"{r['problem']}: {r['contender']}: {r['status']}: {r['note']}" for r in rows if r["note"])
    for note in dict.fromkeys(notes):
        console.print(note, style="yellow", markup=False)


def merged(rows: list[dict]) -> dict[str, dict[str, list[dict]]]:
    """problem → contender → its settings, each with the median of all its calls; failures have no setting."""
    results: dict[str, dict[str, dict]] = {}
    for row in rows:
        by = results.setdefault(row["problem"], {}).setdefault(row["contender"], {})
        mine = by.setdefault(row["setting"], row | {"all": []})
        mine["all"] += [float(value) for value in row["seconds"].split()]
        if mine["all"]:
            mine["median"] = statistics.median(mine["all"])
    return {name: {who: list(by.values()) for who, by in whos.items()} for name, whos in results.items()}


def show_goals(results: dict) -> None:
    heads = [text for goal in GOALS for text in (f"to {goal:g}", "share", "target")]
    table = titled("Seconds to a relative suboptimality, and our share of the peer's", "problem", "contender", *heads)
    for name, by in results.items():
        problem = LINEAR_PROBLEMS.get(name)
        ours = next(iter(by))
        for contender, reports in by.items():
            cells = []
            for k, goal in enumerate(GOALS):
                mine, theirs = fastest(by[ours], goal), fastest(reports, goal)
                share = mine / theirs if contender != ours and mine and theirs else None
                wanted = problem.targets.get(contender) if problem and contender != ours else None
                cells += [f"{theirs:.3g}" if theirs else nearest(reports), f"{share:.3f}" if share else ""]
                cells += [verdict(wanted[k], share, mine, reports) if wanted else ""]
            table.add_row(name, contender, *cells)
            name = ""
        table.add_section()
    console.print(table)


def verdict(wanted: float, share: float | None, mine: float | None, reports: list[dict]) -> str:
    """Of a target: where the peer did not get there, it is met if the peer cannot, and open if it was stopped."""
    if share is not None or mine is None:
        return target(wanted, share) if mine else f"{target(wanted, None)} MISSED"
    tried = any(r["status"] == "ok" for r in reports)
    return "" if not tried else "open" if out_of_time(reports) else "met: it cannot"


def fastest(reports: list[dict], goal: float) -> float | None:
    there = [r["median"] for r in reports if r["status"] == "ok" and float(r["suboptimality"]) <= goal]
    return min(map(float, there), default=None)


def out_of_time(reports: list[dict]) -> bool:
    """Whether somebody was stopped before all settings were tried: what those would have reached is not known."""
    return any(r["status"] == "timeout" or r["cut"] == "1" for r in reports)


def nearest(reports: list[dict]) -> str:
    """How near to the optimum somebody came who did not reach the goal."""
    best = min((r for r in reports if r["status"] == "ok"), key=lambda r: float(r["suboptimality"]), default=None)
    if best is None:
        return reports[-1]["status"]
    verdict = "not in time" if out_of_time(reports) else "cannot"
    return f"{verdict}: {float(best['suboptimality']):.0e} in {float(best['median']):.2g}"


def families(results: dict) -> dict[str, list[tuple[int, dict]]]:
    """Problems that differ in size alone: kind → (rows, by contender), by size."""
    kinds: dict[str, list] = {}
    for name, by in results.items():
        sizes = [int(r["n"]) for reports in by.values() for r in reports if r["n"]]
        if sizes:
            data, _, rest = name.partition(" ")
            kind = "Adult" if data in names.ADULT else data.rpartition("-")[0]
            kinds.setdefault(f"{kind} {rest}", []).append((sizes[0], by))
    return {kind: sorted(sized, key=lambda pair: pair[0]) for kind, sized in kinds.items()}


def show_growth(results: dict, memory: bool) -> None:
    for kind, sized in families(results).items():
        contenders = list(dict.fromkeys(contender for _, by in sized for contender in by))
        what = "seconds (relative suboptimality)" + ", MB grown" * memory
        table = titled(f"{kind}: {what}", "rows", *contenders)
        for n, by in sized:
            table.add_row(str(n), *(growth_cell(by.get(contender), memory) for contender in contenders))
        slopes = [slope(sized, contender, "median") for contender in contenders]
        table.add_section()
        table.add_row("exponent", *slopes)
        if memory:
            table.add_row("of memory", *(slope(sized, contender, "growth_mb") for contender in contenders))
        console.print(table)


def show_mapped(results: dict) -> None:
    heads = ("rows", "solver", "seconds", "relative gap", "peak MB", "its own MB")
    table = titled("Rows on disk", "problem", *heads)
    for name, by in results.items():
        for r in (r for reports in by.values() for r in reports):
            if r["status"] != "ok":
                table.add_row(name, r["status"])
                continue
            figures = (f"{float(r[key]):.3g}" for key in ("median", "suboptimality"))
            memory = (f"{float(r[key]):.0f}" for key in ("peak_mb", "anonymous_mb"))
            table.add_row(name, r["n"], r["solver"], *figures, *memory)
    console.print(table)


def growth_cell(reports: list[dict] | None, memory: bool) -> str:
    if not reports:
        return ""
    r = reports[0]
    if r["status"] != "ok":
        return r["status"]
    return f"{float(r['median']):.3g} ({float(r['suboptimality']):.0e})" + f", {float(r['growth_mb']):.0f}" * memory


def slope(sized: list, contender: str, key: str) -> str:
    """The exponent of growth over all sizes that were reached."""
    points = [(n, float(r[key])) for n, by in sized for r in by.get(contender, [])[:1] if r["status"] == "ok"]
    points = [(n, value) for n, value in points if value > 0]
    return f"n^{exponent(*zip(*points, strict=True)):.2f}" if len(points) > 1 else ""


def show_steps(results: dict) -> None:
    for kind, sized in families(results).items():
        contenders = list(dict.fromkeys(contender for _, by in sized for contender in by))
        table = titled(f"{kind}: seconds (steps; relative suboptimality)", "rows", *contenders)
        for n, by in sized:
            cells = []
            for contender in contenders:
                r = by[contender][0]
                fine = r["status"] == "ok"
                steps = f"{r['steps']}; " if fine and r["steps"] else ""
                cells.append(
                    f"{float(r['median']):.3g} ({steps}{float(r['suboptimality']):.0e})" if fine else r["status"]
                )
            table.add_row(str(n), *cells)
        table.add_section()
        table.add_row("exponent", *(slope(sized, contender, "median") for contender in contenders))
        console.print(table)


# ---------------------------------------------------------------------------------------------- options


def add_options(commands, formatter) -> None:
    """The commands of this module, added to those of run.py."""
    for name in COMMANDS:
        command = commands.add_parser(name, formatter_class=formatter)
        command.add_argument("--only", nargs="+", metavar="NAME", help="problems with any of these in their name")
        who = list(REFEREES) if name == "references" else names.LINEAR_CONTENDERS
        command.add_argument("--contenders", nargs="+", choices=who, metavar="NAME", help=f"of {', '.join(who)}")
        command.add_argument("--timeout", type=float, default=600, help="seconds for each process, all included")
        command.add_argument("--threads", type=int, default=2, help="for every contender")
        if name == "references":
            command.add_argument("--again", action="store_true", help="also those that are known")
            continue
        command.add_argument("--rounds", type=int, default=2 if name == "linear" else 1, help="turns of each contender")
        command.add_argument("--repeat", type=int, default=3, help="further timed fits in each process")
        command.add_argument("--budget", type=float, default=10, help="no further fit after this many seconds of them")
        command.add_argument(
            "--limit", type=float, default=60, help="a fit that takes longer is the last of its ladder"
        )
        command.add_argument("--out", type=Path, help="CSV file; without it results/SUITE-TIME.csv")
        if name == "rows":
            command.add_argument("--mapped", type=float, default=5, help="gigabytes of rows on disk; 0 leaves them out")
            command.add_argument("--folder", type=Path, help="where they are made; without it the temporary folder")
