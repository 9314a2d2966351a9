"""Probabilities in LIBSVM's model files, and what they are called in our estimators.

| file                 | says                                                                        |
| -------------------- | --------------------------------------------------------------------------- |
| `probA`, `probB`     | P(first label of a pair) = 1 / (1 + exp(A f + B)), for each pair            |
| `probA` of an SVR    | the width of a Laplace distribution of the errors                           |
| `prob_density_marks` | decisions of a one-class machine at tenths of the probability to be normal  |

With two classes the first label of a file is our second class, so that B changes its sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import SVR, NuSVR, OneClassSVM
from ..estimators.calibration import CALIBRATIONS, Calibration
from .models import CLASSIFIERS
from .parts import finite, need

__all__ = ["calibration_from", "give_probabilities", "has_probabilities", "libsvm_probabilities", "libsvm_words"]


def has_probabilities(model: Any) -> bool:
    """Whether a model knows probabilities (for regression: the width of its errors)."""
    if isinstance(model, CLASSIFIERS):
        return getattr(model, "_calibration", None) is not None
    if isinstance(model, (SVR, NuSVR)):
        return model._width is not None
    return isinstance(model, OneClassSVM) and len(getattr(model, "prob_density_marks_", ())) > 0


def give_probabilities(model: Any, A: Any = None, B: Any = None, marks: Any = None) -> None:
    """What a file of LIBSVM's says of probabilities becomes part of a model that was read from it."""
    if isinstance(model, CLASSIFIERS) and A is not None and B is not None:
        sign = -1.0 if len(model.classes_) == 2 else 1.0
        model._calibration = Calibration("sigmoid", np.array(A, np.float64), sign * np.array(B, np.float64))
        model.probability = True
    elif isinstance(model, (SVR, NuSVR)) and A is not None:
        model._width, model.probability = float(A[0]), True
    elif isinstance(model, OneClassSVM) and marks is not None:
        model.prob_density_marks_, model.probability = np.array(marks, np.float64), True


def libsvm_words(model: Any) -> dict[str, list[float]]:
    """What a file of LIBSVM's says of a model's probabilities, by keyword."""
    if not has_probabilities(model):
        return {}
    if isinstance(model, OneClassSVM):
        return {"prob_density_marks": model.prob_density_marks_.tolist()}
    if isinstance(model, (SVR, NuSVR)):
        return {"probA": model.probA_.tolist()}
    if model._calibration.method == "isotonic":
        raise ValueError(
            "a model file of LIBSVM needs a sigmoid for probabilities; found calibration='isotonic'; use "
            "maxmargin.files.save, which takes all"
        )
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    return {"probA": model._calibration.A.tolist(), "probB": (sign * model._calibration.B).tolist()}


def libsvm_probabilities(model: Any, X: Any) -> np.ndarray:
    """Probabilities (n, classes) as LIBSVM computes them: the largest need not be that of the class with most votes."""
    k, values = len(model.classes_), model._decide(X, "ovo")
    return model._calibration.probabilities(-values[:, None] if k == 2 else values, k)


def calibration_from(model: Any, stored: dict[str, Any]) -> Calibration:
    """A calibration from the parts that a file has, if they fit the model."""
    pairs = len(model.intercept_)
    method, A, B, steps = (stored.get(name) for name in ("method", "A", "B", "steps"))
    need(method in CALIBRATIONS, f"a calibration out of {CALIBRATIONS}", method)
    A, B = finite(A, "A"), finite(B, "B")
    need(A.shape == B.shape == (pairs,), f"{pairs} sigmoids", (A.shape, B.shape))
    curves = []
    count = pairs if method == "isotonic" else 0
    need(isinstance(steps, list) and len(steps) == count, f"{count} curves", steps)
    for curve in steps or []:
        need(isinstance(curve, tuple) and len(curve) == 2, "decisions and values of a curve", "others")
        f, p = (finite(part, "curve") for part in curve)
        rising = f.ndim == 1 and f.shape == p.shape and len(f) > 0 and bool((np.diff(f) >= 0).all())
        need(rising and p.min() >= 0 and p.max() <= 1, "decisions that ascend, and probabilities", "others")
        curves.append((f, p))
    return Calibration(str(method), A, B, curves)
