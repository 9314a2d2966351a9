"""LIBLINEAR's model files, read and written: a header, then the weights, a line for each feature.

    solver_type L2R_L2LOSS_SVC_DUAL
    nr_class 2
    label 1 -1            f > 0 is for the first one
    nr_feature 3
    bias -1               or the value of a constant feature, whose weights are the last line
    w
    0.5

What is read becomes a LinearSVC, LinearSVR or LinearOneClassSVM, or scikit-learn's logistic regression.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from .errors import FileError
from .header import Header
from .parts import LINEAR_NAMES, LinearParts, MisfitError, whole_labels
from .source import atomic, lines_in_pieces, opened, size_of
from .svmlight import read_lines, short

__all__ = ["SOLVER_TYPES", "load_liblinear", "read_liblinear", "save_liblinear"]

SVC_TYPES: dict[str, dict[str, Any]] = {
    "L2R_L2LOSS_SVC_DUAL": {"loss": "squared_hinge"},
    "L2R_L2LOSS_SVC": {"loss": "squared_hinge"},
    "L2R_L1LOSS_SVC_DUAL": {"loss": "hinge"},
    "MCSVM_CS": {"multi_class": "crammer_singer"},
    "L1R_L2LOSS_SVC": {"penalty": "l1"},
}
SVR_TYPES: dict[str, dict[str, Any]] = {
    "L2R_L2LOSS_SVR": {"loss": "squared_epsilon_insensitive"},
    "L2R_L2LOSS_SVR_DUAL": {"loss": "squared_epsilon_insensitive"},
    "L2R_L1LOSS_SVR_DUAL": {"loss": "epsilon_insensitive"},
}
LOGISTIC = "LogisticRegression"
LOGISTIC_TYPES = ("L2R_LR", "L1R_LR", "L2R_LR_DUAL")
SOLVER_TYPES = (*SVC_TYPES, *SVR_TYPES, *LOGISTIC_TYPES, "ONECLASS_SVM")
WORDS = set("solver_type nr_class label nr_feature bias rho".split())


def load_liblinear(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """A fitted linear machine from a model file of LIBLINEAR's; more ``n_features`` than it has get the weight 0."""
    from .models import as_fitted, linear_machine

    parts = read_liblinear(path, n_features=n_features)
    try:
        return _logistic(parts) if parts.machine == LOGISTIC else as_fitted(linear_machine(parts))
    except MisfitError as problem:
        raise FileError(path, str(problem)) from None


def read_liblinear(path: str | os.PathLike, *, n_features: int | None = None) -> LinearParts:
    """What a model file of LIBLINEAR's says."""
    with opened(path) as file:
        header = Header(path, file, "w", WORDS)
        kind = header.word("solver_type", SOLVER_TYPES)
        k, d = header.whole("nr_class")[0], header.whole("nr_feature")[0]
        labelled = kind in SVC_TYPES or kind in LOGISTIC_TYPES
        if k < 2 or (k > 2 and not labelled):
            raise header.fail("nr_class", "2 or more, and 2 where there are no classes", str(k))
        columns = 1 if k == 2 and kind != "MCSVM_CS" else k
        if columns > 1 << 24:  # a line holds so many numbers
            raise header.fail("nr_class", "fewer classes", str(k))
        labels = header.whole("label", k) if labelled else []
        bias = header.numbers("bias", 1)[0]
        lines = read_lines(path, lines_in_pieces(path, file), columns, header.lines, size=size_of(file))
    rows = d + (bias >= 0)
    if d < 1 or len(lines) != rows or len(lines.values):
        raise header.fail("nr_feature", f"{rows} lines of weights", str(len(lines)))
    W = lines.lead.T
    if k == 2 and kind == "MCSVM_CS":  # the first class wins where its function is larger
        W = W[:1] - W[1:]
    intercept = bias * W[:, -1] if bias >= 0 else np.zeros(len(W))
    W = W[:, :d]
    if n_features is not None and n_features < d:
        raise FileError(path, f"a model of {n_features} features was asked for; found one of {d}; give more columns")
    if n_features is not None and n_features > d:
        W = np.hstack([W, np.zeros((len(W), n_features - d))])
    classes = np.array(labels[::-1] if k == 2 else labels) if labelled else None
    if kind in LOGISTIC_TYPES:
        return LinearParts(LOGISTIC, {}, W, intercept, classes)
    if kind == "ONECLASS_SVM":
        return LinearParts("LinearOneClassSVM", {}, W, -np.array(header.numbers("rho", 1)))
    params = {"fit_intercept": bias >= 0} | (SVC_TYPES | SVR_TYPES)[kind]
    return LinearParts("LinearSVC" if labelled else "LinearSVR", params, W, intercept, classes)


def _logistic(parts: LinearParts) -> Any:
    """scikit-learn's logistic regression; several classes one against the rest, as LIBLINEAR has them."""
    from sklearn.linear_model import LogisticRegression  # here: they take half a second to import, for few files
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    W, intercept, classes = parts.coef, parts.intercept, np.asarray(parts.classes)
    binary = []
    for w, b in zip(W, intercept, strict=True):
        one = LogisticRegression()
        one.coef_, one.intercept_, one.classes_ = w[None].copy(), np.array([b]), np.array([0, 1])
        one.n_features_in_, one.n_iter_ = W.shape[1], np.array([1])
        binary.append(one)
    if len(classes) == 2:
        binary[0].classes_ = classes
        return binary[0]
    model = OneVsRestClassifier(LogisticRegression())
    order = np.argsort(classes)  # as scikit-learn's binariser has them
    model.estimators_ = [binary[c] for c in order]
    model.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(classes)
    model.classes_, model.n_features_in_ = model.label_binarizer_.classes_, W.shape[1]
    return model


def save_liblinear(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted LinearSVC, LinearSVR or LinearOneClassSVM as a model file that LIBLINEAR reads, exactly.

    Probabilities are left out, with a warning: the file has no place for them.
    """
    from sklearn.utils.validation import check_is_fitted

    from ..estimators.base import dense

    check_is_fitted(model)
    name = type(model).__name__
    if getattr(model, "_calibration", None) is not None:
        warnings.warn(
            "a model file of LIBLINEAR was asked for; found a model with probabilities, for which it has no place: "
            "predictions are kept, predict_proba is not; use maxmargin.files.save to keep both",
            UserWarning,
            stacklevel=2,
        )
    if name not in LINEAR_NAMES:
        raise _cannot("a LinearSVC, a LinearSVR or a LinearOneClassSVM", type(model).__name__)
    if name == "LinearOneClassSVM":
        _save_one_class(dense(model.coef_)[0], -model.intercept_[0], path)
        return
    if model._parametric is not None:
        raise _cannot("a model without parametric functions", "some")
    W, labels = dense(model.coef_), []
    if name == "LinearSVC":
        labels = whole_labels(model.classes_)
        if not labels:
            raise _cannot("labels that are whole numbers of 32 bits", ", ".join(map(repr, model.classes_[:3].tolist())))
        labels = labels[::-1] if len(labels) == 2 else labels
    with_bias = bool(model.fit_intercept or model.intercept_.any())
    with atomic(path, "w") as file:
        file.write(f"solver_type {_solver_type(model)}\nnr_class {len(labels) or 2}\n")
        if labels:
            file.write("label " + " ".join(map(str, labels)) + "\n")
        file.write(f"nr_feature {W.shape[1]}\nbias {1 if with_bias else -1}\nw\n")
        rows = W.T.tolist() + ([model.intercept_.tolist()] if with_bias else [])
        file.writelines(" ".join(map(short, row)) + " \n" for row in rows)


def _save_one_class(w: np.ndarray, rho: float, path: str | os.PathLike) -> None:
    with atomic(path, "w") as file:
        file.write(f"solver_type ONECLASS_SVM\nnr_class 2\nnr_feature {len(w)}\nbias -1\n")
        file.write(f"rho {rho:.17g}\nw\n")
        file.writelines(short(v) + " \n" for v in w.tolist())


def _solver_type(model: Any) -> str:
    """The name that says most of what a model was trained for; predictions do not depend on it."""
    if type(model).__name__ == "LinearSVR":
        squared = model.loss == "squared_epsilon_insensitive"
        return "L2R_L2LOSS_SVR" if squared else "L2R_L1LOSS_SVR_DUAL"
    if model.multi_class == "crammer_singer" and len(model.classes_) > 2:
        return "MCSVM_CS"
    if model.penalty == "l1":
        return "L1R_L2LOSS_SVC"
    return "L2R_L1LOSS_SVC_DUAL" if model.loss == "hinge" else "L2R_L2LOSS_SVC_DUAL"


def _cannot(asked: str, found: str) -> ValueError:
    return ValueError(f"a model file of LIBLINEAR needs {asked}; found {found}; use maxmargin.files.save")
