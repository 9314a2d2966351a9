"""Named data sets, read from the folder that the environment variable MAXMARGIN_DATA names.

    X, y = load("a9a")          32561 × 123, dense
    X, y = load("a9a:csr")      the same in compressed rows
    X, y = load("a9a/8")        an eighth of it: the first n // 8 rows of one fixed shuffled order

    X, y = load("separable-5000")   made, not read: PDCO §4; also "noise-5000", "waves-5000" and "covtype+-1000000"

Halves are nested: the rows of "a9a/8" are among those of "a9a/4", and "a9a/1" is all of them, shuffled.
Both suffixes go with every name.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, load_svmlight_file

__all__ = ["DATASETS", "MADE", "load"]

SHUFFLE_SEED = 0  # of the order behind nested halves: change it and old results lose their meaning


def load(name: str):
    """The points and targets of a data set: X (dense float64, or CSR where the name asks for it), y."""
    rest, _, layout = name.partition(":")
    base, _, part = rest.partition("/")
    made, _, size = base.rpartition("-")
    if made in MADE and size.isdigit() and int(size):
        dataset = partial(MADE[made], int(size))
    elif base in DATASETS:
        dataset = DATASETS[base]
    else:
        dataset = None
    if dataset is None or layout not in ("", "csr") or not (part == "" or part.isdigit() and int(part)):
        known = ", ".join([*DATASETS, *(f"{name}-ROWS" for name in MADE)])
        raise KeyError(f"{name!r} was asked for, which is no data set; there are {known} (/k, :csr)")
    X, y = dataset()
    if part:
        chosen = np.random.default_rng(SHUFFLE_SEED).permutation(len(y))[: len(y) // int(part)]
        X, y = X[chosen], y[chosen]
    if layout == "csr" and not sparse.issparse(X):
        X = sparse.csr_matrix(X)
    return X, y


def path(file: str) -> Path:
    folder = os.environ.get("MAXMARGIN_DATA")
    if not folder:
        raise RuntimeError(f"{file} was asked for, but MAXMARGIN_DATA is not set; let it name the folder of data files")
    return Path(folder, file)


def svmlight(file: str, n_features: int, dense: bool = True):
    X, y = load_svmlight_file(str(path(file)), n_features=n_features)
    if dense:
        return X.toarray(), y
    return sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape), y


def symmetric(dataset: Callable):
    """Each feature stretched to [-1, 1]."""
    X, y = dataset()
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / np.where(high > low, high - low, 1) - 1, y


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def usps(file: str):
    with gzip.open(path(file)) as lines:
        table = pd.read_csv(lines, sep=r"\s+", header=None).to_numpy()
    return np.ascontiguousarray(table[:, 1:257]), table[:, 0].astype(int)


def usps_low(file: str):
    """The digits 0–4 (+1) against 5–9 (−1)."""
    X, digit = usps(file)
    return X, np.where(digit < 5, 1, -1)


def mnist(part: str, rows: int):
    with gzip.open(path(f"mnist-{part}-images-idx3-ubyte.gz")) as images:
        pixels = images.read(16 + rows * 784)[16:]  # idx: magic number, count, height, width
    with gzip.open(path(f"mnist-{part}-labels-idx1-ubyte.gz")) as labels:
        digits = labels.read(8 + rows)[8:]
    return np.frombuffer(pixels, np.uint8).reshape(rows, 784) / 255, np.frombuffer(digits, np.uint8).astype(int)


def mnist_low():
    """The digits 0–4 (+1) against 5–9 (−1), all 60000 of them."""
    X, digit = mnist("train", 60000)
    return X, np.where(digit < 5, 1, -1)


def covtype():
    """Class 2 (+1) against the rest (−1), each feature stretched to [0, 1]."""
    table = pd.read_csv(path("covtype.data.xz"), header=None).to_numpy(dtype=float)
    X = table[:, :-1]
    low, high = X.min(axis=0), X.max(axis=0)
    return np.ascontiguousarray((X - low) / np.where(high > low, high - low, 1)), np.where(table[:, -1] == 2, 1, -1)


def covtype_more(n: int):
    """n rows of covtype in one fixed shuffled order, repeated where n asks for more: copies get noise of their own.

    Every repeated value moves by normal noise of deviation 0.01, so that no row comes twice. Sizes are nested.
    """
    X, y = covtype()
    rng = np.random.default_rng(SHUFFLE_SEED)
    order = rng.permutation(len(y))
    chosen = np.resize(order, n)
    X, y = X[chosen], y[chosen]
    for start in range(len(order), n, 10000):
        block = X[start : start + 10000]
        block += 0.01 * np.random.default_rng((SHUFFLE_SEED, start)).standard_normal((10000, X.shape[1]))[: len(block)]
    return X, y


def separable(n: int, d: int = 300):
    """PDCO §4: 0/1 rows with a tenth of ones, labelled by a random direction, rows within ±1 of it left out."""
    rng = np.random.default_rng(0)
    direction = rng.uniform(-1, 1, d)
    kept, side = [], []
    while sum(map(len, side)) < n:  # the stream is one: sizes are nested
        X = rng.random((1000, d)) < 0.1
        score = X @ direction
        far = np.abs(score) > 1
        kept.append(X[far])
        side.append(np.sign(score[far]))
    return np.concatenate(kept)[:n].astype(float), np.concatenate(side)[:n]


def noise(n: int, d: int = 300):
    """PDCO §4: 0/1 rows with a tenth of ones and random labels."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, d)) < 0.1).astype(float)
    return X, np.where(rng.random(n) < 0.5, 1, -1)


def categories(n: int, kinds: int = 3):
    """Compressed rows of three ones, each in one of n / 4 columns of its own kind: categories with many values."""
    rng = np.random.default_rng(0)
    columns = rng.integers(n // 4, size=(n, kinds)) + np.arange(kinds) * (n // 4)
    X = sparse.csr_matrix((np.ones(n * kinds), columns.ravel(), np.arange(0, n * kinds + 1, kinds)))
    return X, np.where(X @ rng.normal(size=X.shape[1]) + rng.normal(size=n) > 0, 1, -1)


def chain(n: int):
    """Compressed rows of two ones in neighbouring columns, n / 2 of them: XᵀX has three diagonals."""
    rng = np.random.default_rng(0)
    columns = rng.integers(n // 2 - 1, size=(n, 1)) + np.arange(2)
    X = sparse.csr_matrix((np.ones(2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)))
    score = 0.1 * (X @ np.cumsum(rng.normal(size=X.shape[1]))) + rng.normal(size=n)
    return X, np.where(score > np.median(score), 1, -1)


def waves(n: int, d: int = 8):
    """Uniform points and a smooth target with noise, to a tenth of its deviation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(4 * X[:, 3])
    return X, y + 0.1 * y.std() * rng.normal(size=n)


def adult(n: int):
    """n rows of a9a in one fixed shuffled order, as PDCO's Table 1 has 11221 of them; a6a, with 11220, is rare."""
    X, y = DATASETS["a9a"]()
    chosen = np.random.default_rng(SHUFFLE_SEED).permutation(len(y))[:n]
    return X[chosen], y[chosen]


def normalised(dataset: Callable):
    """Compressed rows, each of length 1."""
    X, y = dataset()
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)
    return sparse.csr_matrix(sparse.diags(1 / np.where(lengths > 0, lengths, 1)) @ X), y


def news20_one():
    """The first of the twenty classes (+1) against the rest (−1): word counts in compressed rows."""
    X, y = svmlight("news20.bz2", 62061, dense=False)
    return X, np.where(y == 1, 1, -1)


def table(file: str, target: int):
    """A comma-separated file with a header: features and target brought to mean 0 and deviation 1."""
    values = pd.read_csv(path(file)).to_numpy(dtype=float)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return np.ascontiguousarray(np.delete(values, target, axis=1)), values[:, target]


def abalone():
    """As the UCI file has it, sex coded as a number: the feature of largest range, as in the literature."""
    table = pd.read_csv(path("abalone.data.xz"), header=None)
    table[0] = table[0].map({"M": 1, "F": 2, "I": 3})
    values = np.ascontiguousarray(table.to_numpy(dtype=float))
    return np.ascontiguousarray(values[:, :8]), values[:, 8]


def news20():
    """The first two of the twenty classes: word counts in compressed rows."""
    X, y = svmlight("news20.bz2", 62061, dense=False)
    two = np.flatnonzero(y <= 2)
    return X[two], y[two]


DATASETS: dict[str, Callable] = {f"a{k}a": partial(svmlight, f"a{k}a.bz2", 123) for k in (1, 2, 3, 4, 5, 7, 8, 9)} | {
    "a9a.t": partial(svmlight, "a9a.t.bz2", 123),
    "heart_scale": partial(svmlight, "heart_scale", 13),
    "breast_cancer": breast_cancer,
    "iris": partial(load_iris, return_X_y=True),
    "german.numer": partial(symmetric, partial(svmlight, "german.numer.bz2", 24)),
    "splice": partial(svmlight, "splice.bz2", 60),
    "splice.t": partial(svmlight, "splice.t.bz2", 60),
    "svmguide1": partial(svmlight, "svmguide1.bz2", 4),
    "svmguide1_scale": partial(symmetric, partial(svmlight, "svmguide1.bz2", 4)),
    "usps": partial(usps, "zip.train.gz"),
    "usps.t": partial(usps, "zip.test.gz"),
    "usps-low": partial(usps_low, "zip.train.gz"),
    "usps-low.t": partial(usps_low, "zip.test.gz"),
    "mnist12000": partial(mnist, "train", 12000),
    "mnist.t": partial(mnist, "t10k", 10000),
    "mnist-low": mnist_low,
    "covtype": covtype,
    "ijcnn1": partial(svmlight, "ijcnn1.bz2", 22),
    "news20-one": partial(normalised, news20_one),
    "news20-one-counts": news20_one,
    "cadata": partial(table, "cadata.csv.xz", -1),
    "abalone": abalone,
    "abalone_scale": partial(svmlight, "abalone_scale.bz2", 8),
    "housing_scale": partial(svmlight, "housing_scale", 13),
    "news20": news20,
    "reuters": partial(svmlight, "reuters.bz2", 8315, dense=False),
}

# Made to size: the name is followed by the number of rows.
MADE: dict[str, Callable] = {
    "separable": separable, "noise": noise, "waves": waves, "categories": categories, "chain": chain,
    "covtype+": covtype_more, "adult": adult,
}  # fmt: skip
