"""``maxmargin predict``: read samples and a model, write predictions, and score them as LIBSVM does."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import Data, FileError, load_model, load_predictor, model_format, read_data
from ..files.parts import Predictor
from ..files.source import atomic
from ..files.svmlight import short
from .reading import _column, read_serials, whole_labels
from .saying import Speaker, scores

__all__ = ["predict_file"]


def predict_file(
    data: str,
    model: str,
    output: str | None,
    probability: bool,
    target: str | None,
    format: str | None,
    quiet: bool,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Predict, write, score."""
    speaker = Speaker(quiet, as_json, sys.stderr if output == "-" and not as_json else None)
    started = time.perf_counter()
    machine, X, y = _both(data, model, target, format, light=not probability, unlabelled=True)
    if jobs is not None and hasattr(machine, "n_jobs"):
        machine.n_jobs = jobs
    classifies = hasattr(machine, "classes_")
    if classifies:
        y = whole_labels(y)
    read = time.perf_counter() - started
    header, rows, found = _predictions(machine, model, X, probability, speaker)
    seconds = time.perf_counter() - started - read
    if output is not None:
        with nullcontext(sys.stdout) if output == "-" else atomic(output, "w") as file:
            if header:
                file.write(header + "\n")
            file.writelines(row + "\n" for row in rows)
    name = machine.machine if isinstance(machine, Predictor) else type(machine).__name__
    sided = name in ("OneClassSVM", "LinearOneClassSVM", "SVDD")
    facts: dict[str, Any] = {"total": len(found)}
    if len(y) and (y.dtype.kind != "U" or classifies):
        lines, facts = scores(y, found, classifies or sided)
        for line in lines:
            speaker.line(line)
    if as_json and output is None:
        facts["predictions"] = found
    speaker.json({"model": model, "output": output, **facts, "seconds": {"read": read, "predict": seconds}})
    return 0


def _both(
    data: str, model: str, target: str | None, format: str | None, light: bool = False, unlabelled: bool = False
) -> tuple[Any, Any, np.ndarray]:
    """The model and the samples, with as many features as both need.

    ``light``: where predictions are all that is needed, an estimator is made only to check the rows of a table.
    ``unlabelled``: a table may have the features alone, and y is empty then.
    """
    predictor = load_predictor(model) if light else None
    machine = load_model(model) if predictor is None else predictor
    if getattr(machine, "kernel", "") == "precomputed":
        return _precomputed(data, model, machine)
    # Files of a model that counts features from 0 do so, too, whether index 0 occurs in them or not.
    zero_based = True if getattr(machine, "_first_index", 1) == 0 else "auto"
    names = getattr(machine, "feature_names_in_", None)
    features = (machine.n_features_in_ if names is None else list(names)) if unlabelled else None
    table = read_data(data, format=format, target=_column(target), zero_based=zero_based, features=features)
    if predictor is not None and not sp.issparse(table.X):
        machine = load_model(model)
    X, y = _by_name(data, table, machine), table.y
    d = machine.n_features_in_
    if not sp.issparse(X) and (X.shape[1] < d or (X.shape[1] > d and model_format(model) == "maxmargin")):
        problem = f"{d} features were asked for by {model}; found {X.shape[1]}"
        raise FileError(data, f"{problem}; give the columns of the training")
    if X.shape[1] < d:
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], d))
    elif X.shape[1] > d and getattr(machine, "kernel", "linear") == "linear":
        X = X[:, :d]  # the others have the weight 0
    elif X.shape[1] > d and isinstance(machine, Predictor):
        machine.widen(X.shape[1])
    elif X.shape[1] > d:
        from ..files.models import widen

        widen(machine, X.shape[1])
    if hasattr(machine, "feature_names_in_"):
        del machine.feature_names_in_  # columns are in their places now
    return machine, X, y


def _by_name(data: str, table: Data, machine: Any) -> Any:
    """The columns of a table in the order of the training, where both have names."""
    wanted = getattr(machine, "feature_names_in_", None)
    if wanted is None or table.names is None:
        return table.X
    missing = [name for name in wanted if name not in table.names]
    if missing:
        found = ", ".join(table.names[:20])
        raise FileError(data, f"a column {missing[0]!r} was asked for by the model; found {found}; give its columns")
    return table.X[:, [table.names.index(name) for name in wanted]]


def _precomputed(data: str, model: str, machine: Any) -> tuple[Any, Any, np.ndarray]:
    """Kernel values with the samples of the training, by their serials."""
    _, values, y = read_serials(data)
    need = int(machine.support_.max(initial=0)) + 1
    if values.shape[1] < need:
        problem = f"kernel values with {need} samples were asked for by {model}; found {values.shape[1]}"
        raise FileError(data, f"{problem}; write those with all samples of the training")
    K = np.zeros((values.shape[0], max(machine.n_features_in_, values.shape[1])))
    K[:, machine.support_] = values[:, machine.support_].toarray()
    machine.n_features_in_ = K.shape[1]
    return machine, K, y


def _predictions(
    machine: Any, model: str, X: Any, probability: bool, speaker: Speaker
) -> tuple[str, list[str], np.ndarray]:
    """The first line of the output, its rows, and the predictions."""
    if not probability:
        found = machine.predict(X)
        return "", [_label(value) for value in found.tolist()], found
    from ..files import has_probabilities, libsvm_probabilities

    regression = not hasattr(machine, "classes_") and not hasattr(machine, "decision_function")
    if regression:
        if not has_probabilities(machine):
            raise FileError(model, "probabilities were asked for (-b 1); found a model without any; train it with -b 1")
        speaker.line("Prob. model for test data: target value = predicted value + z,")
        speaker.line(f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={machine.probA_[0]:g}")
        found = machine.predict(X)
        return "", [_label(value) for value in found.tolist()], found
    if has_probabilities(machine) and hasattr(machine, "classes_") and model_format(model) == "libsvm":
        table = libsvm_probabilities(machine, X)  # the label is that of the largest, whatever the votes say
    elif hasattr(machine, "predict_proba"):
        table = machine.predict_proba(X)
    else:
        raise FileError(model, "probabilities were asked for (-b 1); found a model without any; train it with -b 1")
    if hasattr(machine, "classes_"):
        # LIBSVM names the labels in the order of its file, which begins with our second class where there are two.
        order = [1, 0] if len(machine.classes_) == 2 else list(range(len(machine.classes_)))
        found = machine.classes_[order][table[:, order].argmax(axis=1)]
        header = "labels " + " ".join(_label(label) for label in machine.classes_[order].tolist())
        table = table[:, order]
    else:
        found, header, table = machine.predict(X), "labels normal outlier", table[:, ::-1]
    rows = [
        f"{_label(label)} " + " ".join(f"{p:g}" for p in row)
        for label, row in zip(found.tolist(), table.tolist(), strict=True)
    ]
    return header, rows, found


def _label(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)
