"""Fitted estimators from what a file says of them: attributes that fit together, or an error; never a crash later.

Compiled code does not check bounds, so that everything that predictions will index with is checked here, once, whatever
the file was.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..decisions import MOST_WEIGHTS, pair_weights
from ..estimators import SVC, SVDD, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from ..estimators.checks import check_sparse
from ..gram import KERNELS, Kernel

__all__ = [
    "CLASSIFIERS",
    "KERNEL_MACHINES",
    "LINEAR_MACHINES",
    "MisfitError",
    "finite",
    "kernel_machine",
    "linear_machine",
    "need",
    "widen",
]

KERNEL_MACHINES = {c.__name__: c for c in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD)}
LINEAR_MACHINES = {c.__name__: c for c in (LinearSVC, LinearSVR, LinearOneClassSVM)}
CLASSIFIERS = (SVC, NuSVC, LinearSVC)
LONGEST_FOUND = 80  # characters of what was found that an error repeats


class MisfitError(ValueError):
    """Attributes of a model that do not fit together: what was asked, what was found."""


def need(ok: Any, asked: str, found: Any) -> None:
    """A MisfitError unless it is so."""
    if not ok:
        what = " ".join(str(found).split())[:LONGEST_FOUND]
        raise MisfitError(f"{asked} was asked for; found {what}; the file is damaged, or no model of ours")


def finite(a: Any, name: str) -> np.ndarray:
    """An array of finite numbers in double precision."""
    a = np.asarray(a)
    need(a.dtype.kind in "fiu", f"numbers as {name}", a.dtype)
    a = a.astype(np.float64, copy=False)
    need(np.isfinite(a).all(), f"finite {name}", "NaN or infinity")
    return a


def kernel_machine(
    name: str,
    params: dict[str, Any],
    vectors: np.ndarray | sp.csr_matrix,
    dual: np.ndarray,
    intercept: np.ndarray,
    *,
    gamma: float,
    n_features: int,
    support: np.ndarray | None = None,
    n_support: np.ndarray | None = None,
    classes: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    derive: bool = True,
    reduced: bool = False,
) -> Any:
    """A kernel machine that predicts at once.

    ``weights`` are those of the features, for a linear kernel; ``derive``: where none are given, they are added up.

    ``reduced``: the points belong to no class, and have a coefficient for each pair of classes.

    ``dual`` and ``intercept`` are as the estimators have them: positive decisions are for ``classes[1]`` of two
    classes, and for the first of a pair of more.
    """
    need(name in KERNEL_MACHINES, "a kernel machine", repr(name))
    model = KERNEL_MACHINES[name](**params)
    kernel = model.kernel
    known = isinstance(kernel, str) and (kernel in KERNELS or kernel == "precomputed")
    need(known, f"one of the kernels {sorted(KERNELS)} or 'precomputed'", repr(kernel)[:80])
    dual, intercept = np.ascontiguousarray(finite(dual, "coefficients")), finite(intercept, "intercepts")
    k = len(classes) if isinstance(model, CLASSIFIERS) and classes is not None else 0
    need(k >= 2 or not isinstance(model, CLASSIFIERS), "two classes or more", k)
    problems = max(1, k * (k - 1) // 2)
    rows = problems if reduced else max(1, k - 1)
    need(not reduced or isinstance(model, (SVC, SVR)), "an expansion of an SVC or an SVR", name)
    need(dual.ndim == 2 and dual.shape[0] == rows, f"{rows} rows of coefficients", dual.shape)
    need(intercept.shape == (problems,), f"{problems} intercepts", intercept.shape)
    total = dual.shape[1]
    support = np.arange(total) if support is None else np.asarray(support)
    need(support.shape == (total,) and support.dtype.kind in "iu", f"{total} numbers of support vectors", support.shape)
    fitting = 0 <= support.min(initial=0) and support.max(initial=0) < np.iinfo(np.int32).max
    need(fitting, "numbers of support vectors >= 0 of 31 bits", (support.min(initial=0), support.max(initial=0)))
    need(0 < n_features < np.iinfo(np.int64).max, "at least one feature", n_features)
    if kernel == "precomputed":
        need(support.max(initial=0) < n_features, f"support vectors below {n_features}", support.max(initial=0))
        vectors = np.empty((0, 0))
    else:
        need(vectors.shape == (total, n_features), f"support vectors of shape {(total, n_features)}", vectors.shape)
        check_sparse(vectors)
        if sp.issparse(vectors):
            vectors = sp.csr_matrix(vectors)
            vectors.data = finite(vectors.data, "support vectors")
        else:
            dtype = np.float32 if vectors.dtype == np.float32 else np.float64
            vectors = np.ascontiguousarray(finite(vectors, "support vectors"), dtype)
    if k:
        counts = np.asarray(n_support)
        whole = counts.dtype.kind in "iu" and counts.min(initial=0) >= 0
        fits = counts.shape in ((1,), (k,)) if reduced else counts.shape == (k,) and counts.sum() == total
        need(whole and fits, f"numbers of support vectors of {k} classes with sum {total}", counts)
        model.classes_ = np.asarray(classes)
        need(len(np.unique(model.classes_)) == k, "different classes", "some twice")
        model.n_support_ = counts.astype(np.int32)
        model.class_weight_ = np.ones(k)
    else:
        model.n_support_ = np.array([total], np.int32)
    model.n_features_in_, model.shape_fit_ = int(n_features), (total, int(n_features))
    model.support_, model.support_vectors_ = support.astype(np.int32), vectors
    model._sparse, model._dual = sp.issparse(vectors), dual
    if reduced:
        model._reduced = model._stops_on_gap = True
    model.dual_coef_ = sp.csr_matrix(dual) if model._sparse else dual
    model.intercept_, model.fit_status_ = intercept, 0
    if isinstance(model, (OneClassSVM, SVDD)):
        model.offset_ = -intercept
    _give_kernel(model, gamma)
    _give_weights(model, weights, derive, problems)
    return model


def _give_kernel(model, gamma: float) -> None:
    named = model.kernel != "precomputed"
    gamma = float(gamma)
    need(np.isfinite(gamma), "a finite gamma", gamma)
    for name in ("coef0", "degree"):
        need(np.isfinite(getattr(model, name)), f"a finite {name}", getattr(model, name))
    model._gamma, model._kernel_, model._function = gamma, None, None
    if named and callable(function := KERNELS[model.kernel]):
        model._function = partial(function, gamma=gamma, coef0=float(model.coef0), degree=float(model.degree))
    elif named:
        model._kernel_ = Kernel(model.kernel, gamma, float(model.coef0), float(model.degree))


def _give_weights(model, weights: np.ndarray | None, derive: bool, problems: int) -> None:
    """Weights of the features for a linear kernel: predictions need no support vectors then."""
    model._W = None
    d = model.n_features_in_
    weighed = model.kernel == "linear" and d * problems <= MOST_WEIGHTS
    if weights is not None:
        weights = np.ascontiguousarray(finite(weights, "weights"))
        need(model.kernel == "linear" and weights.shape == (problems, d), f"weights {(problems, d)}", weights.shape)
        model._W = weights
    elif derive and weighed:
        several = isinstance(model, CLASSIFIERS) and len(model.classes_) > 2 and not model._reduced
        dual, vectors = model.dual_coef_, model.support_vectors_
        found = pair_weights(dual, model.n_support_, vectors) if several else dual @ vectors
        model._W = np.ascontiguousarray(found.toarray() if sp.issparse(found) else found)
    model._centre = np.zeros(d if weighed else 0)


def linear_machine(
    name: str, params: dict[str, Any], coef: np.ndarray, intercept: np.ndarray, classes: np.ndarray | None = None
) -> Any:
    """A linear machine that predicts at once; positive decisions are for ``classes[1]`` of two classes."""
    need(name in LINEAR_MACHINES, "a linear machine", repr(name))
    model = LINEAR_MACHINES[name](**params)
    coef, intercept = finite(coef, "weights"), finite(intercept, "intercepts")
    k = 0 if classes is None else len(classes)
    rows = 1 if k <= 2 else k
    need(k >= 2 or name != "LinearSVC", "two classes or more", k)
    need(coef.ndim == 2 and coef.shape[0] == rows and coef.shape[1] > 0, f"{rows} rows of weights", coef.shape)
    need(intercept.shape == (rows,), f"{rows} intercepts", intercept.shape)
    if name == "LinearSVC":
        model.classes_, model.class_weight_ = np.asarray(classes), np.ones(k)
        need(len(np.unique(model.classes_)) == k, "different classes", "some twice")
    model.coef_ = np.ascontiguousarray(coef if name == "LinearSVC" else coef[0])
    model.intercept_, model.fit_status_ = intercept, 0
    if name == "LinearOneClassSVM":
        model.offset_ = -intercept
    model.n_features_in_ = coef.shape[1]
    model._centre = np.zeros(coef.shape[1])
    return model


def widen(model: Any, n_features: int) -> None:
    """Make a kernel machine ready for samples with more features, which those that it was trained on had not."""
    vectors = sp.csr_matrix(model.support_vectors_)  # there may be any number of features
    model.support_vectors_ = sp.csr_matrix(
        (vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], n_features)
    )
    model.n_features_in_ = n_features
