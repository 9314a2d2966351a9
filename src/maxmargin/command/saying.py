"""What commands say: lines for people as LIBSVM writes them, or one JSON object."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

__all__ = ["Speaker", "plain", "scores"]


class Speaker:
    """Lines on the standard output, unless nobody wants them."""

    def __init__(self, quiet: bool, as_json: bool, stream: Any = None) -> None:
        self.quiet, self.as_json, self.stream = quiet, as_json, stream

    def line(self, text: str) -> None:
        """A line for people, who may not want to hear it."""
        if not self.quiet:
            self.answer(text)

    def answer(self, text: str) -> None:
        """A line for people that is all that a command is for."""
        if not self.as_json:
            print(text, file=self.stream or sys.stdout, flush=True)

    def json(self, facts: dict[str, Any]) -> None:
        """The object for machines."""
        if self.as_json:
            print(json.dumps(plain(facts), allow_nan=False), file=self.stream or sys.stdout, flush=True)


def plain(value: Any) -> Any:
    """A value as JSON can say it: what is not finite is null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def scores(y: np.ndarray, found: np.ndarray, classifies: bool, prefix: str = "") -> tuple[list[str], dict[str, Any]]:
    """LIBSVM's lines about predictions, and the same as facts; ``prefix`` is that of a cross-validation."""
    n = len(y)
    if classifies:
        right = int(np.count_nonzero(_comparable(y, found)))
        share = 100.0 * right / n
        line = f"{prefix}Accuracy = {share:g}%" + ("" if prefix else f" ({right}/{n}) (classification)")
        return [line], {"accuracy": right / n, "correct": right, "total": n}
    error = float(np.mean((found - y) ** 2))
    a, b = found - found.mean(), y - y.mean()
    below = float((a @ a) * (b @ b))
    correlation = float(a @ b) ** 2 / below if below > 0 else math.nan
    kind = "" if prefix else " (regression)"
    lines = [
        f"{prefix}Mean squared error = {error:g}{kind}",
        f"{prefix}Squared correlation coefficient = {correlation:g}{kind}",
    ]
    return lines, {"mean_squared_error": error, "squared_correlation": correlation, "total": n}


def _comparable(y: np.ndarray, found: np.ndarray) -> np.ndarray:
    if y.dtype.kind == "U" or found.dtype.kind in "UO":
        return y.astype(str) == found.astype(str)
    return y.astype(np.float64) == found.astype(np.float64)
