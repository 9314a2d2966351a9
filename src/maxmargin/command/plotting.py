"""``maxmargin plot``: pictures of a model, as ``maxmargin.plots`` draws them."""

from __future__ import annotations

import os
from typing import Any

import typer

from ..files.errors import FileError
from .saying import Speaker

__all__ = ["KINDS", "draw"]

KINDS = {
    "margin": "boundary, margins and support vectors, in a plane through DATA",
    "convergence": "primal and dual values against time; of a model in our own format (.mm)",
    "kernel": "the kernel matrix of DATA, sorted by class",
    "features": "the features with the largest weights; of a linear model",
    "path": "weights against the cost, trained anew on DATA; of a linear model",
}
ON_DATA = ("margin", "kernel", "path")
DOTS = 150  # an inch
COSTS = (1e-3, 1e3, 25)  # of a path: the least, the largest, how many; model files do not tell C


def draw(
    kind: str,
    model: str,
    data: str | None,
    output: str | None,
    target: str | None,
    format: str | None,
    dark: bool,
    quiet: bool,
) -> int:
    """Read what a picture needs, draw it, write it."""
    check(kind, data)
    display = _display(kind, model, data, target, format, dark)
    path = output or f"{kind}.png"
    try:
        display.figure_.savefig(path, dpi=DOTS, bbox_inches="tight")
    except ValueError as problem:  # an ending that matplotlib does not know
        raise ValueError(f"a picture {path} was asked for; found that {problem}; name it .png, .svg or .pdf") from None
    except OSError as problem:
        raise FileError(path, f"it cannot be written: {problem.strerror or problem}; name another file") from None
    Speaker(quiet, False).line(f"Plot written to {path}")
    return 0


def check(kind: str, data: str | None) -> None:
    """Errors of use, before anything is imported or read."""
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is none of the plots {', '.join(KINDS)}")
    if kind in ON_DATA and data is None:
        raise typer.BadParameter(f"plot {kind} needs DATA after MODEL")


def _display(kind: str, model: str, data: str | None, target: str | None, format: str | None, dark: bool) -> Any:
    import numpy as np

    from ..files import load_model
    from .prediction import _both
    from .reading import whole_labels

    plots = _plots(dark)
    if data is None or kind not in ON_DATA:
        machine: Any = load_model(model)
    else:
        machine, X, y = _both(data, model, target, format)
        y = whole_labels(y) if hasattr(machine, "classes_") else y
    if kind == "convergence":
        if not hasattr(machine, "history_"):
            asked = "the history of a training was asked for; found a format that keeps none"
            raise FileError(model, f"{asked}; train to a name that ends with .mm")
        return plots.ConvergenceDisplay.from_estimator(machine)
    if kind == "features":
        return plots.FeatureRankDisplay.from_estimator(machine)
    if kind == "kernel":
        return plots.KernelDisplay.from_estimator(machine, X, y)
    if kind == "path":
        if hasattr(machine, "kernel") or not hasattr(machine, "path"):
            asked = f"a linear machine was asked for; found {type(machine).__name__}"
            raise FileError(model, f"{asked}, whose weights have no path over C; train with --linear")
        return plots.PathDisplay.from_path(machine.path(X, y, np.geomspace(*COSTS)))
    return plots.MarginDisplay.from_estimator(machine, X, y)


def _plots(dark: bool) -> Any:
    """The room of the plots, with a canvas that needs no screen."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is not None:  # else the plots say what to install
        os.environ.setdefault("MPLBACKEND", "Agg")
        import matplotlib.pyplot as plt

        if dark:
            plt.style.use("dark_background")
    from .. import plots

    return plots
