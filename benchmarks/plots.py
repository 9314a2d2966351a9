"""Figures from CSV files of earlier runs: growth with the number of rows, and PRIMAL's Figure 1."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from harness import exponent, read
from linear_run import families, merged
from matplotlib.ticker import NullFormatter

__all__ = ["plot"]


def plot(file: Path) -> Path:
    """One figure, beside the file."""
    rows = read(file)
    out = Path(file).with_suffix(".svg")
    figure = conjugate_gradients(rows) if "side" in rows[0] else growth(rows)
    figure.savefig(out, metadata={"Date": None})
    return out


def growth(rows: list[dict]):
    """Seconds against rows, both logarithmic, a panel for each family of problems; the legend has the exponents."""
    kinds = families(merged([row for row in rows if row["status"] == "ok"]))
    kinds = {kind: sized for kind, sized in kinds.items() if len(sized) > 1}
    figure, panels = plt.subplots(1, len(kinds), figsize=(5 * len(kinds), 4), squeeze=False, layout="constrained")
    for panel, (kind, sized) in zip(panels[0], kinds.items(), strict=True):
        for contender in dict.fromkeys(contender for _, by in sized for contender in by):
            points = [(n, float(r["median"])) for n, by in sized for r in by.get(contender, [])[:1]]
            sizes, seconds = zip(*points, strict=True)
            name = f"{contender}, n^{exponent(sizes, seconds):.2f}" if len(points) > 1 else contender
            panel.loglog(sizes, seconds, marker="o", label=name)
        panel.set(title=kind, xlabel="rows", ylabel="seconds")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.legend(fontsize="small")
    return figure


def conjugate_gradients(rows: list[dict]):
    sides = dict.fromkeys(row["side"] for row in rows)
    figure, panels = plt.subplots(1, len(sides), figsize=(5 * len(sides), 4), layout="constrained")
    for panel, side in zip(panels, sides, strict=True):
        mine = [row for row in rows if row["side"] == side]
        for form in ("primal", "dual"):
            panel.semilogy([int(row["step"]) for row in mine], [float(row[form]) for row in mine], label=form)
        title = f"n = {mine[0]['n']}, d = {mine[0]['d']}"
        panel.set(title=title, xlabel="conjugate gradient steps", ylabel="primal suboptimality")
        panel.legend()
    return figure
