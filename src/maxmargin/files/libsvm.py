"""LIBSVM's model files, read and written: all five machines, all five kernels, with probabilities where there are some.

    svm_type c_svc            the header: keyword and values
    kernel_type rbf
    gamma 0.5
    nr_class 2
    total_sv 3
    rho 0.25                  one for each pair of classes: f = Σ coef k − rho
    label 1 -1                f > 0 is for the first of a pair
    nr_sv 1 2                 support vectors come class by class, in the order of the labels
    SV
    0.5 1:0.1 3:1             k − 1 coefficients, then the vector; 0:serial for a precomputed kernel

Signs and order: with two classes our estimators decide for ``classes_[1]`` where f > 0, so that it is the first label
of the file. With more, ``classes_`` keeps the order of the file, because LIBSVM gives equal votes to the earlier label.
C, nu, epsilon and weights are not in the file. Indices are those of the data that it was trained on, which may count
from 0: an index 0 among the support vectors says so.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from .errors import FileError
from .header import Header
from .parts import CLASSIFYING, LARGEST_LABEL, KernelParts, MisfitError, whole_labels
from .source import atomic, lines_in_pieces, opened, size_of
from .svmlight import pairs_of, read_lines, short

__all__ = ["load_libsvm", "read_libsvm", "save_libsvm"]

TYPES = {"c_svc": "SVC", "nu_svc": "NuSVC", "one_class": "OneClassSVM", "epsilon_svr": "SVR", "nu_svr": "NuSVR"}
KERNEL_NAMES = {
    "linear": "linear",
    "polynomial": "poly",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
WORDS = set(
    "svm_type kernel_type degree gamma coef0 nr_class total_sv rho label probA probB prob_density_marks nr_sv".split()
)
MARKS = 10  # of the densities of a one-class machine


def load_libsvm(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """A fitted SVC, NuSVC, OneClassSVM, SVR or NuSVR from a model file of LIBSVM's.

    Parameters
    ----------
    path : a file, plain or compressed
    n_features : int, default=None
        Features of the data to come. The file knows only those that its support vectors use: None takes these.

    Returns
    -------
    estimator
        It predicts at once, and where the file has probabilities these, too: ``predict_proba``, ``predict_interval``.
    """
    from .models import as_fitted, kernel_machine
    from .probabilities import give_probabilities

    parts = read_libsvm(path, n_features=n_features)
    try:
        model = kernel_machine(parts)
    except MisfitError as problem:
        raise FileError(path, str(problem)) from None
    give_probabilities(model, **parts.probabilities)
    model._first_index = parts.first_index
    return as_fitted(model)


def read_libsvm(path: str | os.PathLike, *, n_features: int | None = None) -> KernelParts:
    """What a model file of LIBSVM's says."""
    with opened(path) as file:
        header = Header(path, file, "SV", WORDS)
        machine = TYPES[header.word("svm_type", TYPES)]
        kernel = KERNEL_NAMES[header.word("kernel_type", KERNEL_NAMES)]
        k, total = header.whole("nr_class")[0], header.whole("total_sv")[0]
        classes = machine in ("SVC", "NuSVC")
        if k < 2 or (k > 2 and not classes):
            raise header.fail("nr_class", "2 or more, and 2 where there are no classes", str(k))
        if k > LARGEST_LABEL or total < 0:
            raise header.fail("nr_class", "fewer classes, and a total_sv >= 0", f"{k} and {total}")
        params = _kernel_params(header, kernel)
        lines = read_lines(path, lines_in_pieces(path, file), k - 1, header.lines, size=size_of(file))
    if len(lines) != total:
        raise header.fail("total_sv", f"{total} lines of support vectors", str(len(lines)))
    pairs = k * (k - 1) // 2
    rho = np.array(header.numbers("rho", pairs))
    labels = header.whole("label", k) if classes else []
    if any(abs(label) > LARGEST_LABEL for label in labels):
        raise header.fail("label", "labels of 32 bits", str(labels[:5]))
    counts = np.array(header.whole("nr_sv", k) if classes else [total])
    if counts.min() < 0 or counts.sum() != total:
        raise header.fail("nr_sv", f"numbers >= 0 with the sum {total}", str(counts.tolist()[:5]))
    support = None
    first, width = 1, lines.largest
    if kernel == "precomputed":
        serials = np.diff(lines.indptr) == 1
        if not (serials.all() and lines.largest <= 0):
            raise FileError(path, "precomputed: 0:serial was asked for in each line; found others; the file is damaged")
        if (lines.values != np.rint(lines.values)).any() or (np.abs(lines.values) > LARGEST_LABEL).any():
            raise FileError(path, "precomputed: whole serials were asked for; found others; the file is damaged")
        support = lines.values.astype(np.int64) - 1
        width = int(lines.values.max(initial=1))
    elif lines.least == 0:
        first, width = 0, lines.largest + 1
    if n_features is not None and n_features < width:
        raise FileError(
            path, f"a model of {n_features} features was asked for; found one of {width}; give more columns"
        )
    width = max(1, width) if n_features is None else n_features
    vectors = lines.matrix(first, width) if kernel != "precomputed" else np.empty((0, 0))
    order = labels[::-1] if k == 2 else labels
    dual, intercept = lines.lead.T, -rho
    if classes and k == 2:  # the file's second label is our first class
        moved = np.concatenate([np.arange(counts[0], total), np.arange(counts[0])])
        dual, counts = dual[:, moved], counts[::-1]
        vectors = vectors[moved] if kernel != "precomputed" else vectors
        support = support[moved] if support is not None else None
    return KernelParts(
        machine,
        {"kernel": kernel, **{name: value for name, value in params.items() if value is not None}},
        vectors,
        dual,
        intercept,
        gamma=params["gamma"] or 0.0,
        n_features=width,
        support=support,
        n_support=counts if classes else None,
        classes=np.array(order) if classes else None,
        probabilities=_probabilities(header, pairs),
        first_index=first,
    )


def _kernel_params(header: Header, kernel: str) -> dict[str, Any]:
    params: dict[str, Any] = {"degree": None, "gamma": None, "coef0": None}
    if kernel in ("poly", "rbf", "sigmoid"):
        params["gamma"] = header.numbers("gamma", 1)[0]
    if kernel in ("poly", "sigmoid"):
        params["coef0"] = header.numbers("coef0", 1)[0]
    if kernel == "poly":
        params["degree"] = header.whole("degree")[0]
        if not 0 <= params["degree"] < LARGEST_LABEL:
            raise header.fail("degree", "a degree >= 0", str(params["degree"]))
    return params


def _probabilities(header: Header, pairs: int) -> dict[str, Any]:
    A, B = (header.numbers(name, pairs) if name in header else None for name in ("probA", "probB"))
    marks = header.numbers("prob_density_marks", MARKS) if "prob_density_marks" in header else None
    if marks is not None and marks != sorted(marks):
        raise header.fail("prob_density_marks", "marks that ascend", "others")
    return {"A": A, "B": B, "marks": marks}


def save_libsvm(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted SVC, NuSVC, OneClassSVM, SVR or NuSVR as a model file that LIBSVM reads, numbers exactly.

    What LIBSVM has no word for is an error: other kernels, parametric functions, labels that are not whole numbers.
    """
    from sklearn.utils.validation import check_is_fitted

    from ..estimators.base import dense
    from .probabilities import libsvm_words

    check_is_fitted(model)
    name = type(model).__name__
    types = {machine: word for word, machine in TYPES.items()}
    kernels = {ours: word for word, ours in KERNEL_NAMES.items()}
    if name not in types:
        raise _cannot(f"one of {', '.join(types)}", name)
    kernel, degree, coef0 = (model._as_fitted(option) for option in ("kernel", "degree", "coef0"))
    if not isinstance(kernel, str) or kernel not in kernels:
        raise _cannot(f"one of the kernels {', '.join(kernels)}", f"kernel={kernel!r}")
    if model._parametric is not None:
        raise _cannot("a model without parametric functions", "some")
    with atomic(path, "w") as file:
        file.write(f"svm_type {types[name]}\nkernel_type {kernels[kernel]}\n")
        if kernel == "poly":
            file.write(f"degree {int(degree)}\n")
        if kernel in ("poly", "rbf", "sigmoid"):
            file.write(f"gamma {model._gamma:.17g}\n")
        if kernel in ("poly", "sigmoid"):
            file.write(f"coef0 {float(coef0):.17g}\n")
        order, labels, counts = _layout(model)
        k = len(labels) if labels else 2
        file.write(f"nr_class {k}\ntotal_sv {len(order)}\n")
        file.write("rho " + " ".join(f"{-b:.17g}" for b in model.intercept_.tolist()) + "\n")
        if labels:
            file.write("label " + " ".join(map(str, labels)) + "\n")
        for word, values in libsvm_words(model).items():
            file.write(f"{word} " + " ".join(f"{v:.17g}" for v in values) + "\n")
        if labels:
            file.write("nr_sv " + " ".join(map(str, counts)) + "\n")
        file.write("SV\n")
        rows = [" ".join(map(short, row)) for row in dense(model.dual_coef_).T[order].tolist()]
        if kernel == "precomputed":
            pairs = [f"0:{serial + 1}" for serial in model.support_[order].tolist()]
        else:
            vectors = sp.csr_matrix(model.support_vectors_)
            pairs = pairs_of(vectors[order], getattr(model, "_first_index", 1)) if len(order) else []
        file.writelines(f"{row} {pair} \n" for row, pair in zip(rows, pairs, strict=True))


def _layout(model: Any) -> tuple[np.ndarray, list[int], list[int]]:
    """The order of the support vectors in the file, the labels, and how many vectors each has."""
    total = model._dual.shape[1]
    if type(model).__name__ not in CLASSIFYING:
        return np.arange(total), [], []
    labels, counts = model.classes_, model.n_support_.tolist()
    if model._reduced:  # points of no class: of two, each may have all of them
        if len(labels) > 2:
            raise _cannot("support vectors that belong to classes", "an expansion on few points, of several classes")
        counts = [0, total]
    named = whole_labels(labels)
    if not named:
        raise _cannot("labels that are whole numbers of 32 bits", ", ".join(map(repr, labels[:3].tolist())))
    if len(named) > 2:
        return np.arange(total), named, counts
    order = np.concatenate([np.arange(counts[0], total), np.arange(counts[0])])
    return order, named[::-1], counts[::-1]


def _cannot(asked: str, found: str) -> ValueError:
    return ValueError(f"a model file of LIBSVM needs {asked}; found {found}; use maxmargin.files.save, which takes all")
