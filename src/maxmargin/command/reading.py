"""Samples as a command wants them: labels as whole numbers where they are, kernel values as a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import host
from ..files import FileError, read_data, read_svmlight
from .machines import Settings

__all__ = ["Samples", "check_size", "kernel_matrix", "read_samples", "read_serials"]

DENSE_SHARE = 0.5  # of the free memory that a matrix of kernel values may take
COPIES = 4  # of a vector with an entry for each feature, in the solvers of linear machines


@dataclass(frozen=True)
class Samples:
    """X, y, and what the file calls its features."""

    X: Any
    y: np.ndarray
    names: list[str] | None
    path: str
    serials: np.ndarray | None = None  # numbers from 1 of samples whose kernel values are given
    first_index: int = 1  # what the file calls the first feature


def read_samples(path: str, settings: Settings, target: str | None, format: str | None) -> Samples:
    """Samples to train on."""
    if settings.precomputed:
        serials, values, y = read_serials(path)
        K = kernel_matrix(path, serials, values)
        y = whole_labels(y) if settings.classifies else y
        _check_classes(path, y, settings)
        return Samples(K, y, None, path, serials.astype(np.int64))
    data = read_data(path, format=format, target=_column(target))
    y = data.y
    if settings.classifies:
        y = whole_labels(y)
        _check_classes(path, y, settings)
    elif y.dtype.kind == "U":
        raise FileError(
            path, f"numbers were asked for as targets; found {str(y[0])!r}; name another column with --target"
        )
    X = data.X
    if sp.issparse(X) and X.shape[1] == 0:
        raise FileError(path, "features were asked for; found none in any line; write them as index:value")
    check_size(path, X, settings)
    return Samples(X, y, data.names, path, first_index=data.first_index)


def _check_classes(path: str, y: np.ndarray, settings: Settings) -> None:
    if not settings.classifies:
        return
    if y.dtype.kind == "f":
        rest = f"use {'-s 11' if settings.linear else '-s 3'} for regression, or whole numbers as labels"
        odd = y[y != np.rint(y)]
        raise FileError(path, f"labels of classes were asked for; found {(odd if len(odd) else y)[0]:g}; {rest}")
    if len(np.unique(y)) < 2:
        asked = "two classes or more were asked for"
        raise FileError(path, f"{asked}; found only {y[0]}; add samples of others, or use -s 2")


def check_size(path: str, X: Any, settings: Settings) -> None:
    """An error where the numbers of features would fill the memory: one index in a file can name any of them."""
    d = X.shape[1]
    weighs = settings.linear or settings.kernel_type == 0
    if weighs and 8 * COPIES * d > host.free_memory():
        raise FileError(
            path,
            f"weights of all features were asked for (a linear machine); found index {d}, which needs {8 * d >> 30} GB "
            "for each; number the features from 1 without gaps",
        )


def whole_labels(y: np.ndarray) -> np.ndarray:
    """Labels as whole numbers, if all of them are."""
    if y.dtype.kind == "f" and (y == np.rint(y)).all() and (np.abs(y) < 2.0**62).all():
        return y.astype(np.int64)
    return y


def read_serials(path: str) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray]:
    """LIBSVM's file of kernel values: serials from 1, values with column j for the sample of serial j + 1, targets."""
    data = read_svmlight(path, zero_based=True)
    X: Any = data.X
    if not X.shape[1] or not len(X.indices) or (X.indptr[:-1] == X.indptr[1:]).any():
        raise FileError(
            path, "kernel values were asked for (-t 4); found a line without any; write label 0:i 1:K(i,1) …"
        )
    if (X.indices[X.indptr[:-1]] != 0).any():
        row = int(np.argmax(X.indices[X.indptr[:-1]] != 0))
        raise FileError(
            path, "0:serial was asked for first (-t 4); found another index; write label 0:i 1:K(i,1) …", row + 1
        )
    serials = X.data[X.indptr[:-1]]
    return serials, X[:, 1:].tocsr(), data.y


def kernel_matrix(path: str, serials: np.ndarray, values: sp.csr_matrix) -> np.ndarray:
    """The square matrix of the samples at hand, whose serials may be any subset in any order."""
    n, width = values.shape
    whole = (serials == np.rint(serials)) & (serials >= 1) & (serials <= width)
    if not whole.all():
        row = int(np.argmin(whole))
        problem = f"a serial of 1 … {width} was asked for; found 0:{serials[row]:g}; number the samples from 1"
        raise FileError(path, problem, row + 1)
    if 8 * n * n > DENSE_SHARE * host.free_memory():
        raise FileError(path, f"a matrix of {n} x {n} kernel values was asked for; it does not fit into memory")
    return np.ascontiguousarray(values[:, serials.astype(np.int64) - 1].toarray())


def _column(target: str | None) -> str | int | None:
    if target is None:
        return None
    try:
        return int(target)
    except ValueError:
        return target
