"""Fitted models to and from scikit-learn's classes of the same names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import dense
from ..estimators.calibration import Calibration
from .models import CLASSIFIERS, KERNEL_MACHINES, LINEAR_MACHINES, as_fitted, kernel_machine, linear_machine
from .parts import KernelParts, LinearParts
from .probabilities import has_probabilities

__all__ = ["from_sklearn", "to_sklearn"]

SHARED = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR")


def _theirs(name: str) -> type:
    from sklearn import svm  # here: other files do not wait for it

    return getattr(svm, name)


def _kind(model: Any, ours: bool) -> str:
    for name in SHARED:
        cls = (KERNEL_MACHINES | LINEAR_MACHINES)[name] if ours else _theirs(name)
        if type(model) is cls:
            return name
    whose = "maxmargin" if ours else "scikit-learn"
    raise TypeError(
        f"one of {', '.join(SHARED)} of {whose} was asked for; found {type(model).__name__}; convert the steps of a "
        "pipeline one by one"
    )


def _shared_params(source: Any, target: type) -> dict[str, Any]:
    """The parameters that both know, where the target means the same by their values."""
    known = target().get_params(deep=False)
    asked = source.get_params(deep=False) | getattr(source, "_of_fit", {})
    given = {k: v for k, v in asked.items() if k in known}
    if given.get("cache_size") == "auto":
        del given["cache_size"]
    if given.get("probability") == "deprecated" or given.get("probability") is False:
        del given["probability"]
    if given.get("intercept_scaling", 0) is None:
        del given["intercept_scaling"]
    return given


def from_sklearn(model: Any) -> Any:
    """The maxmargin estimator that predicts as a fitted one of scikit-learn does; it has no certificate of its fit."""
    check_is_fitted(model)
    name = _kind(model, ours=False)
    if name in LINEAR_MACHINES:
        params = _shared_params(model, LINEAR_MACHINES[name])
        coef = dense(model.coef_)
        intercept = np.broadcast_to(np.asarray(model.intercept_, float), len(coef)).copy()  # one 0 for all without any
        parts = LinearParts(name, params, coef, intercept, getattr(model, "classes_", None))
        found = linear_machine(parts)
    else:
        if callable(model.kernel):
            raise TypeError("a kernel by name was asked for; found a function; fit the model with maxmargin instead")
        params = _shared_params(model, KERNEL_MACHINES[name])
        kernel_parts = KernelParts(
            name,
            params,
            model.support_vectors_,
            dense(model.dual_coef_),
            np.asarray(model.intercept_, float),
            gamma=float(model._gamma),
            n_features=int(model.n_features_in_),
            support=model.support_,
            n_support=model.n_support_,
            classes=getattr(model, "classes_", None),
        )
        found = kernel_machine(kernel_parts)
        found.shape_fit_ = model.shape_fit_
        if name in ("SVC", "NuSVC") and len(getattr(model, "_probA", ())):  # signs as ours: the first class of a pair
            found._calibration = Calibration("sigmoid", np.array(model._probA), np.array(model._probB))
            found.probability = True
    if hasattr(model, "feature_names_in_"):
        found.feature_names_in_ = model.feature_names_in_
    if hasattr(model, "class_weight_"):
        found.class_weight_ = np.array(model.class_weight_)
    return as_fitted(found)


def to_sklearn(model: Any) -> Any:
    """scikit-learn's estimator of the same name that predicts as this fitted one does.

    What scikit-learn has no place for is an error: parametric functions, kernels that it does not know. A loss that it
    does not know is left out: it plays no part in predictions. Probabilities other than sigmoids of `SVC` and `NuSVC`
    are left out with a warning.
    """
    check_is_fitted(model)
    name = _kind(model, ours=True)
    if model._parametric is not None:
        raise TypeError(
            "a model without parametric functions was asked for; found some; scikit-learn has no place for it"
        )
    cls = _theirs(name)
    params = _shared_params(model, cls)
    if name in LINEAR_MACHINES:
        known = {
            "LinearSVC": ("hinge", "squared_hinge"),
            "LinearSVR": ("epsilon_insensitive", "squared_epsilon_insensitive"),
        }
        if params.get("loss") not in known[name]:
            params.pop("loss", None)
        found = cls(**params)
        found.coef_, found.intercept_ = np.array(dense(model.coef_)), np.array(model.intercept_)
        found.coef_ = found.coef_ if name == "LinearSVC" else found.coef_[0]
        found.n_iter_ = int(getattr(model, "n_iter_", 1))
    else:
        if params["kernel"] not in ("linear", "poly", "rbf", "sigmoid", "precomputed"):
            raise TypeError(
                f"a kernel of scikit-learn was asked for; found {params['kernel']!r}; it has no such kernel"
            )
        found = cls(**params)
        _give_libsvm(found, model, name)
    if has_probabilities(model) and not getattr(found, "_effective_probability", False):
        found.set_params(**({"probability": False} if "probability" in params else {}))
        warnings.warn(
            f"scikit-learn's {name} was asked for; found a model with probabilities for which it has no place: "
            "predictions are kept, probabilities are not; use maxmargin.files.save to keep both",
            UserWarning,
            stacklevel=2,
        )
    found.n_features_in_ = model.n_features_in_
    for attribute in ("feature_names_in_", "classes_", "class_weight_"):
        if hasattr(model, attribute):
            setattr(found, attribute, getattr(model, attribute))
    return found


def _full_csr(dual: np.ndarray) -> sp.csr_matrix:
    """A sparse matrix that has its zeros, too: scikit-learn hands its data to LIBSVM as they are."""
    rows, columns = dual.shape
    starts = np.arange(rows + 1, dtype=np.int32) * columns
    return sp.csr_matrix((dual.ravel(), np.tile(np.arange(columns, dtype=np.int32), rows), starts), shape=dual.shape)


def _give_libsvm(found: Any, model: Any, name: str) -> None:
    """What scikit-learn's LIBSVM reads."""
    if model._reduced and isinstance(model, CLASSIFIERS):
        raise TypeError("support vectors that belong to classes were asked for; found an expansion on few points")
    sparse = sp.issparse(model.support_vectors_)
    total = int(model.n_support_.sum())
    two = isinstance(model, CLASSIFIERS) and len(model.classes_) == 2
    dual = np.ascontiguousarray(dense(model.dual_coef_), np.float64)
    inner = -dual if two else dual
    found.support_ = np.array(getattr(model, "support_", np.arange(total)), np.int32)
    found.support_vectors_ = (
        sp.csr_matrix(model.support_vectors_, dtype=np.float64)
        if sparse
        else np.ascontiguousarray(model.support_vectors_, np.float64)
    )
    found.dual_coef_ = _full_csr(dual) if sparse else dual
    found._dual_coef_ = _full_csr(inner) if sparse else inner
    found.intercept_ = np.array(model.intercept_, np.float64)
    found._intercept_ = -found.intercept_ if two else found.intercept_.copy()
    counts = model.n_support_ if isinstance(model, CLASSIFIERS) else [total, total]
    found._n_support = np.array(counts, np.int32)
    found._probA = found._probB = np.empty(0)
    if isinstance(model, CLASSIFIERS) and len(model.probA_):
        found._probA, found._probB = np.array(model.probA_), np.array(model.probB_)
    found._effective_probability = bool(len(found._probA))
    found._gamma, found._sparse = float(model._gamma), sparse
    found.shape_fit_, found.fit_status_ = tuple(model.shape_fit_), int(model.fit_status_)
    problems = len(found.intercept_)
    iterations = np.broadcast_to(np.atleast_1d(getattr(model, "n_iter_", 1)), problems)
    found._num_iter = iterations.astype(np.int32)
    found.n_iter_ = found._num_iter if isinstance(model, CLASSIFIERS) else int(found._num_iter[0])
    if name == "OneClassSVM":
        found.offset_ = -found._intercept_
