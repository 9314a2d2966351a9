"""Probabilities from what LIBSVM's model files say: sigmoids of the decisions, coupled over pairs of classes.

| file                 | says                                                                       |
| -------------------- | -------------------------------------------------------------------------- |
| `probA`, `probB`     | P(first of a pair) = 1 / (1 + exp(A f + B)), for each pair (Platt 2000)     |
| `probA` of an SVR    | the width σ of a Laplace distribution of the errors                        |
| `prob_density_marks` | decisions of a one-class machine at tenths of the probability to be normal |

Pairs are coupled by the second method of Wu, Lin & Weng 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .models import CLASSIFIERS

__all__ = ["couple", "has_probabilities", "predict_proba", "sigmoid"]

LEAST = 1e-7  # probability of one of a pair, as in LIBSVM
CLOSE = 0.005  # divided by the number of classes: where LIBSVM's iteration stops
LEAST_STEPS = 100
OUTSIDE, INSIDE = 0.001, 0.999  # of a one-class machine, beyond the first and the last mark


def has_probabilities(model: Any) -> bool:
    """Whether a model read from a file knows probabilities."""
    if isinstance(model, CLASSIFIERS):
        return hasattr(model, "probA_") and hasattr(model, "probB_")
    return hasattr(model, "density_marks_")


def sigmoid(f: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(A f + B)), without overflow."""
    z = f * A + B
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, small / (1.0 + small), 1.0 / (1.0 + small))


def couple(first: np.ndarray, k: int) -> np.ndarray:
    """Probabilities of k classes (n, k) from those of the first of each pair (n, pairs)."""
    n = len(first)
    R = np.zeros((n, k, k))
    i, j = np.triu_indices(k, 1)
    R[:, i, j], R[:, j, i] = first, 1.0 - first
    Q = -R.transpose(0, 2, 1) * R
    Q[:, np.arange(k), np.arange(k)] = (R.transpose(0, 2, 1) ** 2).sum(axis=2)
    p = np.full((n, k), 1.0 / k)
    going = np.arange(n)
    for _ in range(max(LEAST_STEPS, k)):
        Qp = np.einsum("nij,nj->ni", Q[going], p[going])
        pQp = (p[going] * Qp).sum(axis=1)
        far = np.abs(Qp - pQp[:, None]).max(axis=1) >= CLOSE / k
        going, Qp, pQp = going[far], Qp[far], pQp[far]
        if not len(going):
            break
        q, part = Q[going], p[going]
        for t in range(k):
            step = (pQp - Qp[:, t]) / q[:, t, t]
            part[:, t] += step
            pQp = (pQp + step * (step * q[:, t, t] + 2.0 * Qp[:, t])) / (1.0 + step) ** 2
            Qp = (Qp + step[:, None] * q[:, t]) / (1.0 + step)[:, None]
            part /= (1.0 + step)[:, None]
        p[going] = part
    return p


def predict_proba(model: Any, X: Any) -> np.ndarray:
    """Probabilities (n, classes) in the order of ``classes_``; for a one-class machine of (normal, outlier)."""
    if not has_probabilities(model):
        raise ValueError(
            "probabilities were asked for; found a model without any; train it with -b 1 (probability=True)"
        )
    if not isinstance(model, CLASSIFIERS):
        normal = _normal(model.density_marks_, model.decision_function(X))
        return np.column_stack([normal, 1.0 - normal])
    k = len(model.classes_)
    f = model._decide(X, "ovo")  # type: ignore[call-arg]
    if k == 2:
        second = np.clip(sigmoid(f, model.probA_[0], model.probB_[0]), LEAST, 1.0 - LEAST)
        return np.column_stack([1.0 - second, second])
    return couple(np.clip(sigmoid(f, model.probA_, model.probB_), LEAST, 1.0 - LEAST), k)


def _normal(marks: np.ndarray, f: np.ndarray) -> np.ndarray:
    tenths = np.searchsorted(marks, f, side="right") / len(marks)
    return np.where(f < marks[0], OUTSIDE, np.where(f > marks[-1], INSIDE, tenths))
