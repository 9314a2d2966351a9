"""``maxmargin scale``: samples into an interval, as svm-scale does."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace

import scipy.sparse as sp

from ..files import FileError, Ranges, read_data, read_ranges, write_ranges
from ..files.source import atomic
from ..files.svmlight import text_of
from .reading import _column

__all__ = ["scale_file"]

BLOCK = 1 << 22  # numbers that are scaled at a time


def scale_file(
    data: str,
    lower: float,
    upper: float,
    target_bounds: tuple[float, float] | None,
    save: str | None,
    restore: str | None,
    output: str,
    target: str | None,
    format: str | None,
) -> int:
    """Find or read the ranges, and write scaled samples in LIBSVM's format."""
    if not lower < upper:
        raise ValueError(f"-l below -u was asked for; found {lower:g} and {upper:g}; exchange them")
    if target_bounds is not None and not target_bounds[0] < target_bounds[1]:
        raise ValueError(
            f"-y LOWER UPPER was asked for; found {target_bounds[0]:g} and {target_bounds[1]:g}; exchange them"
        )
    ranges = read_ranges(restore) if restore is not None else None
    counts = True if ranges is not None and ranges.first_index == 0 else "auto"
    found = read_data(data, format=format, target=_column(target), zero_based=counts)
    if found.y.dtype.kind == "U":
        raise FileError(
            data, f"numbers were asked for as targets; found {str(found.y[0])!r}; LIBSVM's format has no names"
        )
    if ranges is None:
        ranges = Ranges.of(found.X, found.y, lower=lower, upper=upper, target_bounds=target_bounds)
        ranges = replace(ranges, first_index=found.first_index)
    elif ranges.first_index > found.first_index:  # features keep their indices, and 0 has no range
        ranges = replace(ranges, columns=ranges.columns + 1, first_index=0)
    if save is not None:
        write_ranges(ranges, save)
    X, y, zero_based = found.X, ranges.scale_target(found.y), ranges.first_index == 0
    step = max(1, BLOCK // max(1, X.shape[1]))
    with nullcontext(sys.stdout) if output == "-" else atomic(output, "w") as file:
        for a in range(0, X.shape[0], step):
            for text in text_of(sp.csr_matrix(ranges.scale(X[a : a + step])), y[a : a + step], zero_based):
                file.write(text)
    return 0
