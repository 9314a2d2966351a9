"""svm-scale's range files, and its scaling: every feature from [min, max] to [lower, upper].

y                 only where targets are scaled: their bounds and range
0 1
-3.5 12
x
-1 1              lower and upper
1 0 4.5           index, min, max; features that never vary are left out, and become 0
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .errors import FileError, shown
from .source import atomic, opened

__all__ = ["Ranges", "read_ranges", "write_ranges"]

LONGEST = 1 << 10  # bytes of a line
MOST_FEATURES = 1 << 31


@dataclass(frozen=True)
class Ranges:
    """Ranges of features, by number from 0, and the interval that they are brought to."""

    columns: np.ndarray  # (m,) numbers of features that vary, ascending
    least: np.ndarray  # (m,)
    largest: np.ndarray  # (m,)
    lower: float = -1.0
    upper: float = 1.0
    target: tuple[float, float, float, float] | None = None  # lower, upper, min, max
    first_index: int = 1  # what files call the first feature

    @classmethod
    def of(cls, X: Any, y: Any = None, *, lower: float = -1.0, upper: float = 1.0, target_bounds: Any = None) -> Ranges:
        """The ranges of samples; those of the targets, too, where bounds for them are given."""
        if sp.issparse(X):
            least, largest = (np.asarray(a.todense()).ravel() for a in (X.min(axis=0), X.max(axis=0)))
        else:
            least, largest = np.min(X, axis=0), np.max(X, axis=0)
        columns = np.flatnonzero(least < largest)
        target = None
        if target_bounds is not None:
            target = (float(target_bounds[0]), float(target_bounds[1]), float(np.min(y)), float(np.max(y)))
        return cls(columns, least[columns].astype(float), largest[columns].astype(float), lower, upper, target)

    def scale(self, X: Any) -> Any:
        """Scaled samples; they stay sparse where 0 stays 0. Features without a range become 0."""
        d = X.shape[1]
        known = self.columns < d
        columns, least, largest = self.columns[known], self.least[known], self.largest[known]
        slope = (self.upper - self.lower) / (largest - least)
        shift = self.lower - slope * least
        if sp.issparse(X) and not shift.any():
            slopes = np.zeros(d)
            slopes[columns] = slope
            found = sp.csr_matrix(X.multiply(slopes[None]))
            found.eliminate_zeros()
            return found
        some = X[:, columns]
        values = np.asarray(some.todense() if sp.issparse(some) else some, np.float64)
        scaled = self.lower + (self.upper - self.lower) * (values - least) / (largest - least)
        scaled = np.where(values == least, self.lower, np.where(values == largest, self.upper, scaled))
        found = np.zeros((X.shape[0], d))
        found[:, columns] = scaled
        return found

    def scale_target(self, y: np.ndarray) -> np.ndarray:
        """Scaled targets, where they have a range."""
        if self.target is None:
            return y
        lower, upper, least, largest = self.target
        if least == largest:
            return np.full(len(y), lower)
        return lower + (upper - lower) * (y - least) / (largest - least)


def write_ranges(ranges: Ranges, path: str | os.PathLike) -> None:
    """Write a range file that svm-scale -r reads."""
    with atomic(path, "w") as file:
        if ranges.target is not None:
            lower, upper, least, largest = ranges.target
            file.write(f"y\n{lower:.17g} {upper:.17g}\n{least:.17g} {largest:.17g}\n")
        file.write(f"x\n{ranges.lower:.17g} {ranges.upper:.17g}\n")
        rows = zip(ranges.columns.tolist(), ranges.least.tolist(), ranges.largest.tolist(), strict=True)
        file.writelines(f"{k + ranges.first_index} {least:.17g} {largest:.17g}\n" for k, least, largest in rows)


def read_ranges(path: str | os.PathLike) -> Ranges:
    """Read a range file of svm-scale -s."""
    with opened(path) as file:
        number = 0

        def words() -> list[str]:
            nonlocal number
            number += 1
            line = file.readline(LONGEST)
            if len(line) == LONGEST:
                raise FileError(path, "short lines were asked for; found a long one; is this a range file?", number)
            return line.decode("latin-1").split()

        def floats(found: list[str], count: int) -> list[float]:
            try:
                values = [float(word) for word in found]
            except ValueError:
                values = []
            if len(values) != count or not np.isfinite(values).all():
                what = shown(" ".join(found))
                raise FileError(path, f"{count} finite numbers were asked for; found {what}; mend the file", number)
            return values

        head, target = words(), None
        if head == ["y"]:
            (lower, upper), (least, largest) = floats(words(), 2), floats(words(), 2)
            target, head = (lower, upper, least, largest), words()
        if head != ["x"]:
            raise FileError(path, f"x was asked for; found {shown(' '.join(head))}; is this a range file?", number)
        lower, upper = floats(words(), 2)
        rows: list[list[float]] = []
        while found := words():
            row = floats(found, 3)
            index, least, largest = row
            if index != int(index) or not 0 <= index < MOST_FEATURES or (rows and index <= rows[-1][0]):
                problem = f"ascending indices were asked for; found {shown(found[0])}; mend the file"
                raise FileError(path, problem, number, 1)
            if not least <= largest:
                raise FileError(
                    path, f"min <= max was asked for; found {shown(' '.join(found))}; mend the file", number
                )
            if least < largest:
                rows.append(row)
    if not lower < upper:
        raise FileError(path, f"lower < upper was asked for; found {lower:g} and {upper:g}; mend the file")
    table = np.array(rows).reshape(-1, 3)
    first = 0 if len(table) and table[0, 0] == 0 else 1
    return Ranges(table[:, 0].astype(np.int64) - first, table[:, 1], table[:, 2], lower, upper, target, first)
