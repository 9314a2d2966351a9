"""Small data that the tests of the estimators share: what scikit-learn ships, and what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True, eq=False)
class Samples:
    """Training and test samples."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n(self) -> int:
        return len(self.y)


def _cancer():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _digits():
    X, y = datasets.load_digits(return_X_y=True)
    return X[:800] / 16.0, y[:800]


def _iris():
    return datasets.load_iris(return_X_y=True)


def _wine():
    X, y = datasets.load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _diabetes():
    X, y = datasets.load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def _noisy():
    return datasets.make_classification(500, 8, n_informative=4, n_clusters_per_class=2, flip_y=0.1, random_state=3)


def _blobs():
    return datasets.make_blobs(500, 3, centers=4, cluster_std=3.0, random_state=5)


def _curve():
    rng = np.random.default_rng(11)
    X = rng.uniform(-3, 3, (400, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.2 * rng.normal(size=400)


_MAKERS = {
    "cancer": _cancer,
    "digits": _digits,
    "iris": _iris,
    "wine": _wine,
    "diabetes": _diabetes,
    "noisy": _noisy,
    "blobs": _blobs,
    "curve": _curve,
}


@cache
def samples(name: str) -> Samples:
    """The data by name, shuffled, half for training."""
    X, y = _MAKERS[name]()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.ascontiguousarray(X[order], np.float64), y[order]
    half = len(y) // 2
    return Samples(X[:half], y[:half], X[half:], y[half:])


@cache
def weights(n: int, seed: int = 0) -> np.ndarray:
    """Positive weights that are no whole numbers; 1 on average."""
    drawn = np.random.default_rng(seed).uniform(0.3, 3.0, n)
    return drawn / drawn.mean()
