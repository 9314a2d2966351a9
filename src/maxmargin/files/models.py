"""Fitted estimators from what a file says of them: attributes that fit together, or an error; never a crash later."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators import SVC, SVDD, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from ..estimators.checks import check_sparse
from .parts import KERNEL_NAMES, LINEAR_NAMES, KernelParts, LinearParts, need, widened

__all__ = [
    "CLASSIFIERS",
    "KERNEL_MACHINES",
    "LINEAR_MACHINES",
    "as_fitted",
    "kernel_machine",
    "linear_machine",
    "widen",
]

KERNEL_MACHINES = {c.__name__: c for c in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD)}
LINEAR_MACHINES = {c.__name__: c for c in (LinearSVC, LinearSVR, LinearOneClassSVM)}
CLASSIFIERS = (SVC, NuSVC, LinearSVC)
assert (tuple(KERNEL_MACHINES), tuple(LINEAR_MACHINES)) == (KERNEL_NAMES, LINEAR_NAMES)


def kernel_machine(parts: KernelParts) -> Any:
    """A kernel machine that predicts at once."""
    need(parts.machine in KERNEL_MACHINES, "a kernel machine", repr(parts.machine))
    model = KERNEL_MACHINES[parts.machine](**parts.params)
    for name in ("kernel", "coef0", "degree"):  # those that the file leaves out
        parts.params.setdefault(name, getattr(model, name))
    model._keep_parameters()
    if parts.kernel != "precomputed":
        check_sparse(parts.vectors)
    parts = parts.checked()
    if parts.k:
        model.classes_, model.class_weight_ = np.asarray(parts.classes), np.ones(parts.k)
    model.n_support_, model.support_ = np.asarray(parts.n_support), np.asarray(parts.support)
    model.support_vectors_ = parts.vectors
    model.n_features_in_, model.shape_fit_ = int(parts.n_features), (parts.dual.shape[1], int(parts.n_features))
    model._sparse, model._dual = sp.issparse(parts.vectors), parts.dual
    if parts.reduced:
        model._reduced = model._stops_on_gap = True
    model.dual_coef_ = sp.csr_matrix(parts.dual) if model._sparse else parts.dual
    model.intercept_, model.fit_status_ = parts.intercept, 0
    if isinstance(model, (OneClassSVM, SVDD)):
        model.offset_ = -parts.intercept
    model._gamma = parts.gamma
    model._kernel_, model._function = parts.kernel_function()
    model._W = parts.feature_weights()
    model._centre = np.zeros(parts.n_features if parts.weighed else 0)
    return model


def linear_machine(parts: LinearParts) -> Any:
    """A linear machine that predicts at once."""
    parts = parts.checked()
    name = parts.machine
    model = LINEAR_MACHINES[name](**parts.params)
    model._keep_parameters()
    if parts.classes is not None and name == "LinearSVC":
        model.classes_, model.class_weight_ = np.asarray(parts.classes), np.ones(len(parts.classes))
    model.coef_ = parts.coef if name == "LinearSVC" else np.ascontiguousarray(parts.coef[0])
    model.intercept_, model.fit_status_ = parts.intercept, 0
    if name == "LinearOneClassSVM":
        model.offset_ = -parts.intercept
    model.n_features_in_ = parts.coef.shape[1]
    model._centre = np.zeros(parts.coef.shape[1])
    return model


def as_fitted(model: Any) -> Any:
    """A model that is complete: what it has besides its parameters is gone when it is fitted again."""
    model._left = set(vars(model)) - set(model.get_params(deep=False))
    return model


def widen(model: Any, n_features: int) -> None:
    """Make a kernel machine ready for samples with more features, which those that it was trained on had not."""
    model.support_vectors_ = widened(model.support_vectors_, n_features)
    model.n_features_in_ = n_features
