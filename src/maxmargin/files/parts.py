"""What a model file says of a machine, checked, and predictions from it without what training needs.

Compiled code does not check bounds, so that everything that predictions will index with is checked here, once,
whatever the file was. An estimator is made of the same parts by ``models.py``; ``Predictor`` computes the same
predictions by the same function, and imports neither the estimators nor scikit-learn, which take longer to import than
many a prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..decisions import MOST_WEIGHTS, DecisionFunction, pair_weights
from ..gram.kernels import KERNELS, Kernel

__all__ = ["KernelParts", "LinearParts", "MisfitError", "Predictor", "finite", "need", "whole_labels"]

KERNEL_NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD")
LINEAR_NAMES = ("LinearSVC", "LinearSVR", "LinearOneClassSVM")
CLASSIFYING = ("SVC", "NuSVC", "LinearSVC")
EXPANDING = ("SVC", "SVR")  # machines whose points may be those of an expansion
LARGEST_LABEL = 1 << 31  # of LIBSVM's and LIBLINEAR's files
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


def whole_labels(classes: np.ndarray) -> list[int]:
    """Classes as whole numbers of 32 bits, or nothing where they are others."""
    whole = classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and bool((classes == np.rint(classes)).all()))
    if not whole or np.abs(classes.astype(np.float64)).max() > LARGEST_LABEL:
        return []
    return [int(c) for c in classes.tolist()]


@dataclass(frozen=True)
class KernelParts:
    """A kernel machine.

    ``dual`` and ``intercept`` are as the estimators have them: positive decisions are for ``classes[1]`` of two
    classes, and for the first of a pair of more.
    """

    machine: str  # the name of the estimator
    params: dict[str, Any]  # its parameters, "kernel" among them
    vectors: Any
    dual: np.ndarray
    intercept: np.ndarray
    gamma: float
    n_features: int
    support: np.ndarray | None = None
    n_support: np.ndarray | None = None
    classes: np.ndarray | None = None
    weights: np.ndarray | None = None  # of the features, for a linear kernel
    derive: bool = True  # whether weights are added up where none are given
    reduced: bool = False  # the points belong to no class, and have a coefficient for each pair of classes
    probabilities: dict[str, Any] = field(default_factory=dict)  # A, B and marks of LIBSVM's files
    first_index: int = 1  # what the file calls the first feature

    @property
    def kernel(self) -> Any:
        return self.params["kernel"]

    @property
    def k(self) -> int:
        """Classes; 0 where there are none."""
        return len(self.classes) if self.machine in CLASSIFYING and self.classes is not None else 0

    @property
    def problems(self) -> int:
        return max(1, self.k * (self.k - 1) // 2)

    def checked(self) -> KernelParts:
        """The same with arrays as predictions want them; a MisfitError where something does not fit."""
        name, kernel = self.machine, self.kernel
        need(name in KERNEL_NAMES, "a kernel machine", repr(name))
        known = isinstance(kernel, str) and (kernel in KERNELS or kernel == "precomputed")
        need(known, f"one of the kernels {sorted(KERNELS)} or 'precomputed'", repr(kernel)[:80])
        dual, intercept = np.ascontiguousarray(finite(self.dual, "coefficients")), finite(self.intercept, "intercepts")
        need(self.k >= 2 or name not in CLASSIFYING, "two classes or more", self.k)
        rows = self.problems if self.reduced else max(1, self.k - 1)
        need(not self.reduced or name in EXPANDING, "an expansion of an SVC or an SVR", name)
        need(dual.ndim == 2 and dual.shape[0] == rows, f"{rows} rows of coefficients", dual.shape)
        need(intercept.shape == (self.problems,), f"{self.problems} intercepts", intercept.shape)
        need(0 < self.n_features < np.iinfo(np.int64).max, "at least one feature", self.n_features)
        need(np.isfinite(self.gamma), "a finite gamma", self.gamma)
        for number in ("coef0", "degree"):
            value = self.params.get(number, 0.0)
            need(np.isfinite(value), f"a finite {number}", value)
        total = dual.shape[1]
        support = self._checked_support(total)
        vectors = self._checked_vectors(total)
        counts = self._checked_counts(total)
        return replace(
            self, dual=dual, intercept=intercept, support=support, vectors=vectors, n_support=counts,
            gamma=float(self.gamma), weights=self._checked_weights(),
        )  # fmt: skip

    def _checked_support(self, total: int) -> np.ndarray:
        support = np.arange(total) if self.support is None else np.asarray(self.support)
        whole = support.shape == (total,) and support.dtype.kind in "iu"
        need(whole, f"{total} numbers of support vectors", support.shape)
        least, most = support.min(initial=0), support.max(initial=0)
        need(least >= 0 and most < np.iinfo(np.int32).max, "numbers of support vectors >= 0 of 31 bits", (least, most))
        if self.kernel == "precomputed":
            need(most < self.n_features, f"support vectors below {self.n_features}", most)
        return support.astype(np.int32)

    def _checked_vectors(self, total: int) -> Any:
        if self.kernel == "precomputed":
            return np.empty((0, 0))
        vectors, shape = self.vectors, (total, self.n_features)
        need(vectors.shape == shape, f"support vectors of shape {shape}", vectors.shape)
        if sp.issparse(vectors):
            vectors = sp.csr_matrix(vectors)
            vectors.data = finite(vectors.data, "support vectors")
            return vectors
        dtype = np.float32 if vectors.dtype == np.float32 else np.float64
        return np.ascontiguousarray(finite(vectors, "support vectors"), dtype)

    def _checked_counts(self, total: int) -> np.ndarray:
        k = self.k
        if not k:
            return np.array([total], np.int32)
        counts = np.asarray(self.n_support)
        whole = counts.dtype.kind in "iu" and counts.min(initial=0) >= 0
        fits = counts.shape in ((1,), (k,)) if self.reduced else counts.shape == (k,) and counts.sum() == total
        need(whole and fits, f"numbers of support vectors of {k} classes with sum {total}", counts)
        need(len(np.unique(np.asarray(self.classes))) == k, "different classes", "some twice")
        return counts.astype(np.int32)

    def _checked_weights(self) -> np.ndarray | None:
        if self.weights is None:
            return None
        weights, shape = np.ascontiguousarray(finite(self.weights, "weights")), (self.problems, self.n_features)
        need(self.kernel == "linear" and weights.shape == shape, f"weights {shape}", weights.shape)
        return weights

    @property
    def weighed(self) -> bool:
        """Whether weights of the features are few enough to be kept."""
        return self.kernel == "linear" and self.n_features * self.problems <= MOST_WEIGHTS

    def feature_weights(self) -> np.ndarray | None:
        """Weights of the features for a linear kernel: predictions need no support vectors then."""
        if self.weights is not None or not (self.derive and self.weighed):
            return self.weights
        dual = sp.csr_matrix(self.dual) if sp.issparse(self.vectors) else self.dual
        several = self.k > 2 and not self.reduced
        found = pair_weights(dual, np.asarray(self.n_support), self.vectors) if several else dual @ self.vectors
        return np.ascontiguousarray(found.toarray() if sp.issparse(found) else found)

    def kernel_function(self) -> tuple[Kernel | None, Callable | None]:
        """The kernel as it is compiled, or as a function of two blocks; neither for one that is precomputed."""
        if self.kernel == "precomputed":
            return None, None
        options = {name: float(self.params.get(name, 0.0)) for name in ("coef0", "degree")}
        if callable(function := KERNELS[self.kernel]):
            return None, partial(function, gamma=self.gamma, **options)
        return Kernel(self.kernel, self.gamma, options["coef0"], options["degree"]), None


@dataclass(frozen=True)
class LinearParts:
    """A linear machine; positive decisions are for ``classes[1]`` of two classes."""

    machine: str
    params: dict[str, Any]
    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray | None = None

    def checked(self) -> LinearParts:
        """The same with arrays as predictions want them; a MisfitError where something does not fit."""
        need(self.machine in LINEAR_NAMES, "a linear machine", repr(self.machine))
        coef, intercept = finite(self.coef, "weights"), finite(self.intercept, "intercepts")
        k = 0 if self.classes is None else len(self.classes)
        rows = 1 if k <= 2 else k
        need(k >= 2 or self.machine != "LinearSVC", "two classes or more", k)
        need(coef.ndim == 2 and coef.shape[0] == rows and coef.shape[1] > 0, f"{rows} rows of weights", coef.shape)
        need(intercept.shape == (rows,), f"{rows} intercepts", intercept.shape)
        if self.machine == "LinearSVC":
            need(len(np.unique(np.asarray(self.classes))) == k, "different classes", "some twice")
        return replace(self, coef=np.ascontiguousarray(coef), intercept=intercept)


class Predictor:
    """Predictions of a model file of LIBSVM's or LIBLINEAR's for finite rows; names are those of the estimators."""

    def __init__(self, parts: KernelParts | LinearParts) -> None:
        parts = parts.checked()
        self.machine, self.n_jobs = parts.machine, None
        self._first_index = 1
        if self.machine in CLASSIFYING:
            self.classes_ = np.asarray(parts.classes)
        if isinstance(parts, LinearParts):
            self.kernel, self.n_features_in_ = "linear", parts.coef.shape[1]
            self._function = DecisionFunction(
                np.empty((0, 0)), parts.intercept, weights=np.asfortranarray(parts.coef)
            )  # by columns, as the estimators multiply with it
            return
        self.kernel, self.n_features_in_, self.support_ = parts.kernel, parts.n_features, parts.support
        self._first_index = parts.first_index
        kernel, function = parts.kernel_function()
        self._function = DecisionFunction(
            parts.dual, parts.intercept, parts.vectors, kernel, function,
            parts.support if parts.kernel == "precomputed" else None, parts.feature_weights(),
            parts.n_support if parts.k > 2 and not parts.reduced else None,
        )  # fmt: skip

    def widen(self, n_features: int) -> None:
        """Make ready for samples with more features, which those that it was trained on had not."""
        self._function = replace(self._function, vectors=widened(self._function.vectors, n_features))
        self.n_features_in_ = n_features

    def predict(self, X: Any) -> np.ndarray:
        """The predictions of the estimator that the file would become."""
        function = replace(self._function, n_jobs=self.n_jobs)
        if self.machine in ("SVC", "NuSVC"):
            k = len(self.classes_)
            found = function.classes(X, k, "votes")
            return self.classes_[(found > 0).astype(np.intp) if k == 2 else found]
        values = function.problems(X)
        if self.machine == "LinearSVC":
            several = len(self.classes_) > 2
            return self.classes_[values.argmax(axis=1) if several else (values[:, 0] > 0).astype(np.intp)]
        if self.machine in ("OneClassSVM", "LinearOneClassSVM"):  # the score of a sample, and then its offset
            b = function.intercept[0]
            return np.where(values[:, 0] - b + b >= 0, 1, -1)
        return values[:, 0]


def widened(vectors: Any, n_features: int) -> sp.csr_matrix:
    """Rows with empty columns behind their own: there may be any number of these."""
    rows = sp.csr_matrix(vectors)
    return sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n_features))
