"""LIBSVM's data format, also known as svmlight's: ``label index:value index:value …``, a sample a line.

Read as scikit-learn does: comments after ``#``, empty lines and ``qid:n`` are allowed. Files are plain or compressed
with gzip, bzip2 or xz. Numbers are read exactly; indices may need 64 bits. What is wrong is told with line and column.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import numbers
from .errors import FileError, shown
from .source import Binary, Long, atomic, lines_in_pieces, most_bytes, opened, size_of

__all__ = ["Data", "Lines", "read_lines", "read_svmlight", "write_svmlight"]

LONGEST_NUMBER = 2000  # characters: the longest double has 767 digits
SPARE = 1.02  # room beyond what a file is expected to need
WRITE_ROWS = 4096  # rows that are written at a time


@dataclass(frozen=True)
class Data:
    """Samples with their targets, as read from a file."""

    X: np.ndarray | sp.csr_matrix
    y: np.ndarray
    names: list[str] | None = None  # of the features, where the file has them
    qid: np.ndarray | None = None  # numbers of the queries that the samples belong to, where the file has them
    first_index: int = 1  # what the file calls the first feature; 0 where it counts from 0


@dataclass
class Lines:
    """Lines of numbers: the leading ones, and index:value pairs as rows of a sparse matrix with indices as written."""

    lead: np.ndarray  # (rows, leading)
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    qid: np.ndarray
    least: int  # index, 2^62 where there are none
    largest: int  # index, −1 where there are none

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def matrix(self, first: int, n_features: int) -> sp.csr_matrix:
        """The pairs as a matrix whose first column is index ``first``; the lines give their arrays away."""
        small = max(n_features, len(self.values)) <= np.iinfo(np.int32).max
        kind = np.int32 if small else np.int64
        indices = self.indices.astype(kind, copy=False)
        if first:
            np.subtract(indices, first, out=indices)  # in place: they are as many as the values
        found = sp.csr_matrix((len(self), n_features), dtype=np.float64)
        # Set, not passed: what the reader has made is in order, and SciPy would look at it again.
        found.data, found.indices, found.indptr = self.values, indices, self.indptr.astype(kind, copy=False)
        found.has_sorted_indices = found.has_canonical_format = True
        return found


class _Growing:
    """An array that is filled from the front; ``hint`` is the share of its final size that will have been filled."""

    def __init__(self, kind: type) -> None:
        self.size = 0
        self.array: np.ndarray = np.empty(0, kind)

    def add(self, part: np.ndarray, hint: float) -> None:
        need = self.size + len(part)
        wide = np.promote_types(self.array.dtype, part.dtype)
        if need > len(self.array) or wide != self.array.dtype:
            expected = int(SPARE * need / hint) if hint > 0 else 2 * need
            grown = np.empty(max(need, expected, len(self.array)), wide)
            grown[: self.size] = self.array[: self.size]
            self.array = grown
        self.array[self.size : need] = part
        self.size = need

    @property
    def filled(self) -> np.ndarray:
        return self.array[: self.size]


class _Parser:
    """Pieces of text, one after the other, and what was found in them."""

    def __init__(self, path: str | os.PathLike, leading: int, lines: int, size: int) -> None:
        self.path, self.leading, self.lines, self.size, self.seen = path, leading, lines, size, 0
        self.least, self.largest = 1 << 62, -1
        self.lead, self.values = _Growing(np.float64), _Growing(np.float64)
        self.indptr, self.indices, self.qid = _Growing(np.int64), _Growing(np.int32), _Growing(np.int64)
        self.indptr.add(np.zeros(1, np.int64), 1.0)
        self.room: list[np.ndarray] = []

    def _rooms(self, size: int) -> list[np.ndarray]:
        """Arrays for all that a text of so many bytes can hold; the same ones for each piece."""
        if not self.room or len(self.room[0]) < size // 2 + 2:
            entry, row = size // 4 + 2, size // 2 + 2  # "1:1 ", "1\n"
            kinds = [(row, np.float64), (row, np.int64), (entry, np.int64), (entry, np.float64), (row, np.int64)]
            self.room = [np.empty(count, kind) for count, kind in kinds]
        return self.room

    def take(self, text: np.ndarray, most: int) -> None:
        lead, indptr, indices, values, qid = self._rooms(len(text))
        found = np.zeros(8, np.int64)
        powers, tens = numbers.decimal_powers()
        numbers.parse_lines(
            text, self.leading, powers, tens,
            lead, lead.view(np.uint64), indptr, indices, values, values.view(np.uint64), qid, found,
        )  # fmt: skip
        code, at, rows, entries, hard, lines, least, largest = found.tolist()
        if code:
            self._complain(text, code, at, lines)
        lead, values = lead[: rows * self.leading], values[:entries]
        if hard:
            self._by_python(text, lead)
            self._by_python(text, values)
        self.seen += len(text)
        hint = min(1.0, self.seen / self.size) if self.size else 0.0
        before = self.values.size
        wide = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
        parts = [
            (self.lead, lead),
            (self.values, values),
            (self.indices, indices[:entries].astype(wide)),
            (self.indptr, indptr[1 : rows + 1] + before),
            (self.qid, qid[:rows]),
        ]
        if sum(part.nbytes + whole.filled.nbytes for whole, part in parts) > most:
            problem = f"at most {most >> 20} MB of memory can be used for it; found more by line {self.lines + lines}"
            raise FileError(self.path, f"{problem}; split the file, or close other programs")
        for whole, part in parts:
            whole.add(part, hint)
        self.lines += lines
        self.least, self.largest = min(self.least, least), max(self.largest, largest)

    def _complain(self, text: np.ndarray, code: int, at: int, lines: int) -> None:
        start = _line_start(text, at)
        line = text[start : start + LONGEST_NUMBER + at - start].tobytes().split(b"\n", 1)[0]
        token = line[at - start :].split(None, 1)[0] if line[at - start :].strip() else b""
        what = shown(token) if token else "the end of the line"
        if code == numbers.GLUED and token[:1] in (b",", b";"):
            what += ' (for a table give format="csv", --format csv in a shell)'
        raise FileError(self.path, numbers.COMPLAINTS[code].format(what), self.lines + lines + 1, at - start + 1)

    def _by_python(self, text: np.ndarray, values: np.ndarray) -> None:
        """Put in the numbers that the compiled reader has left."""
        words = values.view(np.uint64)
        for k in np.flatnonzero(np.isnan(values)).tolist():
            at = int(words[k]) & ((1 << 48) - 1)
            token = text[at : at + LONGEST_NUMBER].tobytes().split(None, 1)[0].split(b"#", 1)[0]
            value = float(token) if len(token) < LONGEST_NUMBER else np.inf
            if not np.isfinite(value):
                start = _line_start(text, at)
                line = self.lines + int(np.count_nonzero(text[:at] == numbers.NEWLINE)) + 1
                problem = f"a finite number was asked for; found {shown(token)}; a double reaches 1.8e308"
                raise FileError(self.path, problem, line, at - start + 1)
            values[k] = value

    def result(self) -> Lines:
        lead = self.lead.filled.reshape(-1, self.leading) if self.leading else np.zeros((self.qid.size, 0))
        arrays = (self.indptr.filled, self.indices.filled, self.values.filled, self.qid.filled)
        return Lines(lead, *arrays, self.least, self.largest)


def _line_start(text: np.ndarray, at: int) -> int:
    return text[:at].tobytes().rfind(b"\n") + 1


def read_lines(
    path: str | os.PathLike,
    pieces: Iterable[np.ndarray],
    leading: int = 1,
    lines: int = 0,
    most: int | None = None,
    size: int = 0,
) -> Lines:
    """Lines of numbers from pieces of text, of which the first follows so many lines; ``size`` bytes, if known."""
    parser = _Parser(path, leading, lines, size)
    most = most_bytes() if most is None else most
    try:
        for text in pieces:
            parser.take(text, most)
    except Binary as found:
        problem = "text was asked for; found a byte that no text has (0); is this another format, or damaged?"
        raise FileError(path, problem, parser.lines + found.lines + 1, found.column + 1) from None
    except Long as found:
        problem = (
            f"lines of samples were asked for; found one of more than {found.length} bytes; is this LIBSVM's format?"
        )
        raise FileError(path, problem, parser.lines + 1) from None
    return parser.result()


def read_svmlight(
    path: str | os.PathLike,
    *,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    most: int | None = None,
) -> Data:
    """Samples and targets from a file in LIBSVM's format.

    Parameters
    ----------
    path : a file, plain or compressed with gzip, bzip2 or xz; "-" for the standard input
    n_features : int, default=None
        Columns of X; None: as many as the largest index needs. Indices beyond it are an error.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has index 0. "auto": it has if index 0 occurs.
    most : int, default=None
        Bytes of memory that the samples may take; None: half of what is free.

    Returns
    -------
    Data
        with ``X`` (CSR, float64), ``y`` and ``qid`` (None where there is none).
    """
    with opened(path) as file:
        lines = read_lines(path, lines_in_pieces(path, file), most=most, size=size_of(file))
    if not len(lines):
        raise FileError(path, "samples were asked for; found an empty file; each line is a label and its features")
    first = 0 if zero_based is True or (zero_based == "auto" and lines.least == 0) else 1
    if lines.least < first:
        raise FileError(path, "indices from 1 were asked for; found index 0; read it with zero_based=True")
    width = max(0, lines.largest + 1 - first)
    if n_features is not None and width > n_features:
        problem = f"{n_features} features were asked for; found index {lines.largest}; train with these features, too"
        raise FileError(path, problem, _row_of(lines, lines.largest) + 1)
    X = lines.matrix(first, width if n_features is None else n_features)
    qid = lines.qid if (lines.qid >= 0).any() else None
    return Data(X, lines.lead[:, 0], qid=qid, first_index=first)


def _row_of(lines: Lines, index: int) -> int:
    entry = int(np.argmax(lines.indices == index))
    return int(np.searchsorted(lines.indptr, entry, side="right")) - 1


def write_svmlight(path: str | os.PathLike, X: Any, y: Any, *, zero_based: bool = False) -> None:
    """Write samples and targets in LIBSVM's format: zeros are left out, numbers are as short as they can be exactly."""
    X = sp.csr_matrix(X) if not sp.issparse(X) else X.tocsr()
    y = np.asarray(y, np.float64).ravel()
    if X.shape[0] != len(y):
        raise ValueError(f"a target for each sample was asked for; found {X.shape[0]} samples and {len(y)} targets")
    with atomic(path, "w") as file:
        for text in text_of(X, y, zero_based):
            file.write(text)


def text_of(X: Any, y: np.ndarray, zero_based: bool = False) -> Iterable[str]:
    """Lines of LIBSVM's format, some thousands at a time."""
    for a in range(0, X.shape[0], WRITE_ROWS):
        part = sp.csr_matrix(X[a : a + WRITE_ROWS])
        labels = [f"{label:.17g}" for label in y[a : a + WRITE_ROWS].tolist()]
        yield "".join(
            f"{label} {pairs}\n" if pairs else f"{label}\n"
            for label, pairs in zip(labels, pairs_of(part, not zero_based), strict=True)
        )


def pairs_of(X: sp.csr_matrix, first: int = 1) -> list[str]:
    """``index:value index:value …`` for each row, without zeros."""
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    words = [
        f"{k}:{short(v)}"
        for k, v in zip((X.indices.astype(np.int64) + int(first)).tolist(), X.data.tolist(), strict=True)
    ]
    edges = X.indptr.tolist()
    return [" ".join(words[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def short(value: float) -> str:
    """The shortest text that is exactly this number: 17 digits at most, as %.17g."""
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text
