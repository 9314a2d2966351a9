"""``maxmargin report``: a page about a model and how it does on samples."""

from __future__ import annotations

from ..files.source import atomic
from ..report import html_of
from .prediction import _both
from .reading import whole_labels
from .saying import Speaker

__all__ = ["write"]


def write(model: str, data: str, output: str, target: str | None, format: str | None, quiet: bool) -> int:
    """Read both, and write the page."""
    machine, X, y = _both(data, model, target, format)
    text = html_of(machine, X, whole_labels(y) if hasattr(machine, "classes_") else y)
    with atomic(output, "w") as file:
        file.write(text)
    Speaker(quiet, False).line(f"Report written to {output}")
    return 0
