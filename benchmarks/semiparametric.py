"""MPD's experiments: Figure 1, its options and its open question, over-relaxation, semi-parametric regression (§6).

    python benchmarks/semiparametric.py figure1        trace of both violations and of η₁
    python benchmarks/semiparametric.py options        what each option of MPD is worth
    python benchmarks/semiparametric.py relaxation     sweeps of SOR against its relaxation factor
    python benchmarks/semiparametric.py scaling        §6: seconds and memory against m, beside general QP solvers
    python benchmarks/semiparametric.py scaling --sizes 2000 --contenders mpd PIQP --out some.csv
    python benchmarks/semiparametric.py table          all tables, from the CSV files
    python benchmarks/semiparametric.py plot           all figures, from the CSV files

semiparametric_worker.py has the problem of §6 and its contenders, mpd_experiments.py the rest. Each contender runs each
size in a process of its own. This process imports nothing heavy until they are done.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import HERE, child, console, exponent, read, surroundings, target, titled, write

RESULTS = HERE / "results"
FIGURE1, OPTIONS, RELAXATION = (RESULTS / f"mpd-{name}.csv" for name in ("figure1", "options", "relaxation"))
SCALING = RESULTS / "semiparametric.csv"
COLUMNS = (
    "date m box C contender version status ended solver tol seconds median peak_mb growth_mb objective relative_gap "
    "violation infeasibility eta1 eta2 note threads load cpu python numpy commit"
).split()

CONTENDERS = ("auto", "mpd", "interior-point", "PIQP", "Clarabel")
OURS = CONTENDERS[:3]
MOST_POINTS = {"interior-point": 2000, "PIQP": 2000, "Clarabel": 1000}  # beyond: matrices of m² entries, minutes
ONE_FROM = {"mpd": 20_000, "interior-point": 2000, "PIQP": 2000}  # points: from here on one problem only
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
SLOPE_FROM = 500  # points: below, a fit is overhead
PEER, AT, SHARE = "PIQP", 2000, 1 / 20  # the target: so much of this one's time at this size
LARGEST, MOST_SECONDS, MOST_MB = 100_000, 60.0, 2000.0  # and at this size
STEPS = ("primal_steps", "dual_steps", "hessian_steps")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit like any other
    options = parser().parse_args()
    command = options.command
    if command == "scaling":
        write(options.out, scaling(options), COLUMNS)
    elif command in ("figure1", "options", "relaxation"):
        import mpd_experiments

        rows = list(getattr(mpd_experiments, command)())
        write(RESULTS / f"mpd-{command}.csv", rows, list(rows[0]))
    shown: dict[str, tuple[Path, Callable | None, Callable | None]] = {
        "figure1": (FIGURE1, None, plot_figure1),
        "options": (OPTIONS, show_options, None),
        "relaxation": (RELAXATION, show_relaxation, None),
        "scaling": (options.out, show_scaling, plot_scaling),
    }
    for name, (file, show, plot) in shown.items():
        if command not in (name, "table", "plot") or not file.exists():
            continue
        if show and command != "plot":
            show(read(file))
        if plot and command != "table":
            figure = plot(read(file))
            figure.savefig(file.with_suffix(".svg"), metadata={"Date": None})
            console.print(str(file.with_suffix(".svg")))


# ---------------------------------------------------------------------------------------------- measuring


def scaling(options: argparse.Namespace) -> Iterator[dict]:
    """One row for each problem and contender; who was stopped at one size is not asked for larger ones."""
    setting = surroundings(options.threads)
    stopped: set[str] = set()
    for m in sorted(options.sizes):
        for contender in options.contenders:
            if m > MOST_POINTS.get(contender, LARGEST) or contender in stopped:
                continue
            boxes, costs = options.boxes, options.costs
            if m >= ONE_FROM.get(contender, LARGEST + 1):
                boxes, costs = boxes[:1], costs[len(costs) // 2 :][:1]
            arguments = [contender, m, "--boxes", *boxes, "--costs", *costs, "--tol", options.tol]
            arguments += ["--limit", options.limit, "--repeat", options.repeat, "--budget", options.budget]
            reports = child(
                "semiparametric_worker.py", *arguments, threads=options.threads, timeout=options.timeout,
                title=f"m = {m}: {contender}",
            )  # fmt: skip
            for report in reports:
                yield setting | {"m": m, "contender": contender, "tol": options.tol} | report
            if reports[-1]["status"] != "ok":
                stopped.add(contender)


# ---------------------------------------------------------------------------------------------- tables


def show_scaling(rows: list[dict]) -> None:
    for box, C in problems(rows):
        here = {(r["contender"], int(r["m"])): r for r in measured(rows) if (r["box"], r["C"]) == (box, C)}
        names = [name for name in CONTENDERS if any(key[0] == name for key in here)]
        table = titled(f"box {box}, C = {C}: seconds (MB grown)", "m", *names, "η₁", "η₂", "largest gap")
        for m in sorted({m for _, m in here}):
            mine = {name: here[name, m] for name in names if (name, m) in here}
            cells = [
                f"{float(r['median']):.3g} ({float(r['growth_mb']):.0f})" if (r := mine.get(name)) else ""
                for name in names
            ]
            first = next(iter(mine.values()))
            gap = max(float(r["relative_gap"]) for r in mine.values())
            table.add_row(str(m), *cells, f"{float(first['eta1']):.3f}", f"{float(first['eta2']):.3f}", f"{gap:.0e}")
        table.add_section()
        table.add_row("exponent", *(slope(here, name) for name in names))
        console.print(table)
    show_targets(rows)
    for r in rows:
        if r["note"]:
            where = f"m = {r['m']}, box {r['box']}, C = {r['C']}: {r['contender']}"
            console.print(f"{where}: {r['status']}: {r['note']}", style="yellow", markup=False)


def show_targets(rows: list[dict]) -> None:
    """What was asked for, at the sizes where it was."""
    table = titled("Targets", "box", "C", "what", "reached", "target")
    for box, C in problems(rows):
        here = {(r["contender"], int(r["m"])): r for r in measured(rows) if (r["box"], r["C"]) == (box, C)}
        for name in ("auto", "mpd"):
            if (name, AT) in here and (PEER, AT) in here:
                share = float(here[name, AT]["median"]) / float(here[PEER, AT]["median"])
                table.add_row(box, C, f"{name}: share of {PEER} at {AT}", f"{share:.4f}", target(SHARE, share))
                steeper, ours = growth(here, PEER), growth(here, name)
                if steeper and ours:
                    met = "met" if ours < steeper else "MISSED"
                    table.add_row(box, C, f"{name}: exponent", f"{ours:.2f}", f"< {steeper:.2f} {met}")
            if (name, LARGEST) in here:
                seconds, most = float(here[name, LARGEST]["median"]), float(here[name, LARGEST]["peak_mb"])
                if name == "auto":
                    verdict = f"< {MOST_SECONDS:g} {'met' if seconds < MOST_SECONDS else 'MISSED'}"
                    table.add_row(box, C, f"{name}: seconds at {LARGEST}", f"{seconds:.3g}", verdict)
                verdict = f"< {MOST_MB:g} {'met' if most < MOST_MB else 'MISSED'}"
                table.add_row(box, C, f"{name}: peak MB at {LARGEST}", f"{most:.0f}", verdict)
    if table.row_count:
        console.print(table)


def problems(rows: list[dict]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r["box"], r["C"]) for r in measured(rows)))


def measured(rows: list[dict]) -> list[dict]:
    """Fits that came to their end; others are in the notes."""
    return [r for r in rows if r["status"] == "ok" and r["ended"] != "TIME_LIMIT"]


def growth(here: dict, name: str) -> float | None:
    """The exponent of growth over the sizes from SLOPE_FROM on."""
    points = [(m, float(r["median"])) for (who, m), r in here.items() if who == name and m >= SLOPE_FROM]
    return exponent(*zip(*points, strict=True)) if len(points) > 1 else None


def slope(here: dict, name: str) -> str:
    value = growth(here, name)
    return "" if value is None else f"m^{value:.2f}"


def show_options(rows: list[dict]) -> None:
    """Geometric means over the problems that nearly all choices solve, and how many each solves."""
    choices = list(dict.fromkeys(r["choice"] for r in rows))
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        here = {(r["choice"], r["row"], r["k"]): r for r in rows if r["kernel"] == kernel}
        every = {key[1:] for key in here}
        solved = {key for key, r in here.items() if r["status"] == "CONVERGED"}
        able = [name for name in choices if 2 * sum(key[0] == name for key in solved) >= len(every)]
        common = sorted(rest for rest in every if all((name, *rest) in solved for name in able))
        title = f"{kernel} kernel: geometric means of steps over the {len(common)} problems that all these solve"
        table = titled(title, "problem", "solved", "primal", "dual", "Hessian", "all")
        for name in choices:
            counts = [[float(here[name, *rest][key]) for key in STEPS] for rest in common]
            means = [f"{math.exp(math.fsum(map(math.log1p, c)) / len(c)) - 1:.0f}" for c in zip(*counts, strict=True)]
            whole = math.exp(math.fsum(math.log(sum(c)) for c in counts) / len(counts))
            cells = [*means, f"{whole:.0f}"] if name in able else ["", "", "", ""]
            table.add_row(name, f"{sum(key[0] == name for key in solved)}/{len(every)}", *cells)
        console.print(table)


def show_relaxation(rows: list[dict]) -> None:
    names = list(dict.fromkeys(r["problem"] for r in rows))
    by = {(r["order"], r["omega"], r["problem"]): r for r in rows}
    for order in dict.fromkeys(r["order"] for r in rows):
        table = titled(f"SOR, variables {order}: sweeps, that is steps a variable", "ω", *names)
        for omega in dict.fromkeys(r["omega"] for r in rows):
            cells = [by[order, omega, name] for name in names]
            table.add_row(
                omega,
                *(f"{float(r['sweeps']):.1f}" if r["reached"] == "1" else f"> {float(r['sweeps']):.0f}" for r in cells),
            )
        console.print(table)


# ---------------------------------------------------------------------------------------------- figures


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "maxmargin"  # the same file from the same numbers
    return plt


def plot_figure1(rows: list[dict]):
    methods = list(dict.fromkeys(row["method"] for row in rows))
    size = {"figsize": (4 * len(methods), 6.5), "layout": "constrained"}
    figure, panels = pyplot().subplots(3, len(methods), sharex=True, sharey="row", squeeze=False, **size)
    for column, method in zip(panels.T, methods, strict=True):
        here = [row for row in rows if row["method"] == method]
        steps = [int(row["dual_steps"]) for row in here]
        moved = [at for at in range(1, len(steps)) if steps[at] > steps[at - 1]]
        for panel, key in zip(column, ("primal_violation", "dual_violation", "eta"), strict=True):
            values = [float(row[key]) for row in here]
            if key != "eta":
                panel.set_yscale("log")
                panel.axhline(0.01, color="grey", lw=0.8, ls="--", label="ε = .01")
                values = [value if value > 0 else math.nan for value in values]
            panel.vlines(
                moved, 0, 1, transform=panel.get_xaxis_transform(), color="C1", lw=0.8, alpha=0.7, label="dual steps"
            )
            panel.plot(values, lw=0.9)
        column[0].set_title(f"{method}\n{steps[-1]} dual steps among {len(here)} iterations", fontsize="medium")
        column[-1].set_xlabel("iteration")
    for panel, label in zip(
        panels[:, 0], ("violation of (iii–v)", "violation of (i), |Aβ − b|", "multiplier η₁"), strict=True
    ):
        panel.set_ylabel(label)
    panels[0, 0].legend(fontsize="small", loc="lower left")
    return figure


def plot_scaling(rows: list[dict]):
    rows = measured(rows)
    boxes, costs = (list(dict.fromkeys(row[key] for row in rows)) for key in ("box", "C"))
    size = {"figsize": (4.2 * len(costs), 3.7 * len(boxes)), "layout": "constrained"}
    figure, panels = pyplot().subplots(len(boxes), len(costs), sharex=True, sharey=True, squeeze=False, **size)
    for i, box in enumerate(boxes):
        for j, C in enumerate(costs):
            panel = panels[i, j]
            here = {(r["contender"], int(r["m"])): r for r in rows if (r["box"], r["C"]) == (box, C)}
            for color, name in enumerate(CONTENDERS):
                mine = sorted((m, float(r["median"])) for (who, m), r in here.items() if who == name)
                if mine:
                    grows = slope(here, name)
                    label = f"{name}, {grows}" if grows else name
                    style = "o-" if name in OURS else "s--"
                    panel.loglog(*zip(*mine, strict=True), style, ms=3, lw=1.2, color=f"C{color}", label=label)
            panel.set_title(f"box {box}, C = {float(C):g}", fontsize="medium")
            panel.grid(alpha=0.3)
            panel.legend(fontsize="x-small", loc="lower right")
    for panel in panels[-1]:
        panel.set_xlabel("points m")
    for panel in panels[:, 0]:
        panel.set_ylabel("seconds")
    return figure


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = ("figure1", "options", "relaxation", "scaling", "table", "plot")
    options.add_argument("command", choices=commands)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of §6, as all that follow")
    options.add_argument("--costs", type=float, nargs="+", default=(0.1, 1.0, 10.0))
    options.add_argument("--boxes", nargs="+", default=("C", "C/m"), choices=("C", "C/m"))
    options.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    options.add_argument("--tol", type=float, default=1e-3, help="of our solvers; QP_TOL is that of others")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repeat", type=int, default=3, help="timed fits")
    options.add_argument("--budget", type=float, default=3, help="no further fit after this many seconds of them")
    options.add_argument("--limit", type=float, default=200, help="seconds that a fit may take")
    options.add_argument("--timeout", type=float, default=400, help="seconds for each process, all included")
    options.add_argument("--out", type=Path, default=SCALING, help="CSV file")
    return options


if __name__ == "__main__":
    main()
