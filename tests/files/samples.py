"""Small data and machines for tests of files: every machine, every kernel."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM

KERNELS = ("linear", "poly", "rbf", "sigmoid")
MACHINES = {
    "SVC": lambda **k: SVC(C=2.0, **k),
    "NuSVC": lambda **k: NuSVC(nu=0.3, **k),
    "OneClassSVM": lambda **k: OneClassSVM(nu=0.2, **k),
    "SVR": lambda **k: SVR(C=2.0, epsilon=0.2, **k),
    "NuSVR": lambda **k: NuSVR(nu=0.4, **k),
}


def data(classes: int = 2, sparse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Iris, with labels that are not 0, 1, 2; some entries are 0 where it is to be sparse."""
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0)
    if sparse:
        X = np.where(np.abs(X) < 0.4, 0.0, X)
    return (X[50:], np.where(y[50:] == 1, -1, 1)) if classes == 2 else (X, np.array([7, -2, 3])[y])


def target(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) + 0.3 * X[:, 2]
