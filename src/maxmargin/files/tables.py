"""Tables with a column of targets: CSV, TSV, Parquet and NumPy's .npy; and any file of samples by the look of it.

Tables need pandas (and pyarrow, for Parquet); .npy and LIBSVM's format need nothing.
"""

from __future__ import annotations

import io
import math
import os
from typing import Any

import numpy as np

from .errors import FileError, shown
from .npy import read_header
from .source import most_bytes, opened, whole
from .svmlight import Data, read_svmlight

__all__ = ["FORMATS", "read_data", "read_npy", "read_table"]

FORMATS = ("svmlight", "csv", "tsv", "parquet", "npy")
COMPRESSIONS = (".gz", ".bz2", ".xz")
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".npy": "npy"}
LEAST_COUNTED = 3  # columns whose first line 0, 1, 2, … is one of names: 0, 1 may well be a sample
TABLE_SHARE = 8  # times the bytes of a text that pandas takes to read it


def format_of(path: str | os.PathLike) -> str:
    """The format of a file of samples by the end of its name, whatever it is compressed with."""
    name = os.fspath(path).lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return ENDINGS.get(os.path.splitext(name)[1], "svmlight")


def read_data(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    target: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    features: list[str] | int | None = None,
) -> Data:
    """Samples and targets from a file of any format that we know.

    Parameters
    ----------
    path : str or path
        What it is is told by the end of its name: .csv, .tsv, .parquet, .npy, perhaps followed by .gz, .bz2 or .xz;
        anything else is LIBSVM's format.
    format : {"svmlight", "csv", "tsv", "parquet", "npy"}, default=None
        In place of what the name says.
    target : str or int, default=None
        The column of the targets, by name or by number from 0 (negative ones from the end); None: the last one.
        LIBSVM's format has them first in each line, in any case.
    n_features, zero_based : as for ``read_svmlight``
    features : list of str or int, default=None
        The names of the features of a model, or how many it has. The targets of a table are then in the last column
        that is none of them, and where there is none, ``y`` is empty. A ``target`` that is given goes first.

    Returns
    -------
    Data
    """
    known = format or format_of(path)
    if known not in FORMATS:
        raise ValueError(f"a known format was asked for; found format={known!r}; choose one of {', '.join(FORMATS)}")
    if known == "svmlight":
        return read_svmlight(path, n_features=n_features, zero_based=zero_based)
    data = read_npy(path, target, features) if known == "npy" else read_table(path, known, target, features)
    if n_features is not None and data.X.shape[1] != n_features:
        problem = f"{n_features} features were asked for; found {data.X.shape[1]}; give the columns of the training"
        raise FileError(path, problem)
    return data


def read_npy(path: str | os.PathLike, target: str | int | None = None, features: list[str] | int | None = None) -> Data:
    """A matrix of numbers in NumPy's format, of which one column has the targets."""
    with opened(path) as file:
        try:
            shape, fortran, dtype = read_header(file)
        except ValueError as problem:
            what = shown(" ".join(str(problem).split()))
            raise FileError(path, f"an array of NumPy's was asked for; found another file ({what})") from None
        least = 1 if target is None and features == 1 else 2
        if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 1 or shape[1] < least:
            asked = "a matrix of numbers with two columns or more was asked for"
            raise FileError(path, f"{asked}; found shape {shape} of type {dtype}; save one with numpy.save")
        size = math.prod(shape) * dtype.itemsize
        if size > most_bytes():
            raise FileError(path, f"a matrix that fits into memory was asked for; found {size} bytes; use fewer rows")
        content = whole(path, file, size)
    if len(content) != size:
        raise FileError(path, f"{size} bytes of numbers were asked for; found {len(content)}; the file is cut off")
    table = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    number = _column(path, target, table.shape[1], None, features)
    kind = np.float32 if table.dtype == np.float32 else np.float64
    X = np.ascontiguousarray(np.delete(table, [] if number is None else number, axis=1), kind)
    y = np.empty(0) if number is None else table[:, number].astype(np.float64)
    return _checked(path, Data(X, y))


def read_table(
    path: str | os.PathLike,
    format: str,
    target: str | int | None = None,
    features: list[str] | int | None = None,
) -> Data:
    """A table with names of columns in its first line (Parquet: in its schema), one column of it being the targets.

    A first line of numbers alone is no line of names, unless it is 0, 1, 2, …, which pandas writes for columns without
    any. Targets that are not numbers are classes.
    """
    try:
        import pandas as pd
    except ImportError:
        raise FileError(path, f"{format} needs pandas, which is not installed; pip install pandas") from None
    with opened(path) as file:
        content = whole(path, file, most_bytes() // TABLE_SHARE)
    if not content.strip():
        raise FileError(path, "a table was asked for; found an empty file; give rows of samples")
    separator = "," if format == "csv" else "\t"
    table, names = _parquet(path, content) if format == "parquet" else _separated(path, content, separator, pd)
    if table.shape[1] < (1 if target is None and features is not None else 2) or not len(table):
        raise FileError(
            path, f"a table with samples was asked for; found {table.shape[0]} rows of {table.shape[1]} columns"
        )
    number = _column(path, target, table.shape[1], names, features)
    given = table if number is None else table.drop(columns=table.columns[number])
    first = 2 if names and format != "parquet" else 1
    for position, column in enumerate(given.columns):
        if not pd.api.types.is_numeric_dtype(given[column]):
            bad = [not _is_number(str(value)) for value in given[column]]
            row = int(np.argmax(bad))
            what = shown(str(given[column].iloc[row]))
            place = position + 1 + (number is not None and position >= number)
            problem = f"numbers were asked for; found {what} in column {column!s:.40}; encode it, or leave it out"
            raise FileError(path, problem, row + first if format != "parquet" else 0, place)
    y = np.empty(0)
    if number is not None:
        y = table.iloc[:, number]
        y = y.to_numpy(np.float64) if pd.api.types.is_numeric_dtype(y) else y.astype(str).to_numpy(str)
    data = Data(given.to_numpy(np.float64), y, [str(c) for c in given.columns] if names else None)
    return _checked(path, data, first if format != "parquet" else 0)


def _separated(path: Any, content: bytes, separator: str, pd: Any) -> tuple[Any, list[str] | None]:
    if b"\0" in content:
        at = content.index(b"\0")
        line = content.count(b"\n", 0, at) + 1
        raise FileError(path, "text was asked for; found a byte that no text has (0); is this another format?", line)
    words = content.split(b"\n", 1)[0].decode("utf-8", "replace").strip("\r").split(separator)
    counted = len(words) >= LEAST_COUNTED and [word.strip('" ') for word in words] == [*map(str, range(len(words)))]
    header = None if all(_is_number(word) for word in words) and not counted else 0
    try:
        table = pd.read_csv(io.BytesIO(content), sep=separator, header=header, skipinitialspace=True, low_memory=False)
    except (ValueError, OverflowError, RecursionError, MemoryError) as problem:  # pandas' own errors are ValueErrors
        what = " ".join(str(problem).split())[:120]
        raise FileError(path, f"a table was asked for; it cannot be read as one ({what}); mend the line") from None
    return table, None if header is None else [str(name) for name in table.columns]


def _is_number(word: str) -> bool:
    try:
        float(word.strip().strip('"'))
    except ValueError:
        return False
    return True


def _parquet(path: Any, content: bytes) -> tuple[Any, list[str]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FileError(path, "Parquet needs pyarrow, which is not installed; pip install pyarrow") from None
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        size = sum(file.metadata.row_group(g).total_byte_size for g in range(file.metadata.num_row_groups))
        if size > most_bytes():
            raise FileError(path, f"a table that fits into memory was asked for; found {size} bytes; use fewer rows")
        read = file.read()
        read.validate(full=True)  # text that is none is found here, and not by whoever uses it
        table = read.to_pandas()
    except FileError:
        raise
    # What pandas has noted about its index may be anything in a damaged file, and pyarrow looks into it unasked.
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        what = " ".join(str(problem).split())[:120]
        raise FileError(path, f"a Parquet file was asked for; it cannot be read as one ({what})") from None
    return table, [str(name) for name in table.columns]


def _column(
    path: Any, target: str | int | None, count: int, names: list[str] | None, features: list[str] | int | None = None
) -> int | None:
    """The number of the column of the targets; None where all columns are features of the model."""
    if target is None and isinstance(features, list) and names is not None:
        if set(features) <= set(names):
            return max((k for k, name in enumerate(names) if name not in features), default=None)
    elif target is None and count == (len(features) if isinstance(features, list) else features):
        return None
    if isinstance(target, str) and names is not None and target in names:
        return names.index(target)
    try:
        number = -1 if target is None else int(target)
    except ValueError:
        listed = f"the columns are {', '.join(names[:20])}" if names else "its columns have no names, only numbers"
        raise FileError(path, f"a column {target!r} was asked for; found none; {listed}") from None
    if not -count <= number < count:
        raise FileError(
            path, f"column {number} was asked for; found {count} columns; count from 0, or from the end by -1"
        )
    return number % count


def _checked(path: Any, data: Data, first: int = 0) -> Data:
    """The data, if all of them are finite."""
    for values in (data.X, data.y):
        if values.dtype.kind != "f" or np.isfinite(np.sum(values)):
            continue
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            row, *column = bad[0].tolist()
            where = f"feature {column[0] + 1}" if column else "the target"
            value = values[tuple(bad[0])]
            problem = (
                f"finite numbers were asked for; found {value} as {where} of row {row + 1}; fill it in, or drop it"
            )
            raise FileError(path, problem, row + first if first else 0)
    return data
