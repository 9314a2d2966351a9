"""A page about a fitted machine: what it is, what is proven of it, how it was found, and where it errs.

    model.report("report.html", X, y)        # or: maxmargin report MODEL DATA -o report.html

One HTML file with everything in it: no script, no network, no other file.
"""

from __future__ import annotations

import os
from typing import Any

from .page import html_of

__all__ = ["html_of", "write_report"]


def write_report(model: Any, path: str | os.PathLike, X: Any, y: Any = None) -> None:
    """Write the report of a fitted machine on samples X with targets y (which one-class machines do not need)."""
    text = html_of(model, X, y)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
