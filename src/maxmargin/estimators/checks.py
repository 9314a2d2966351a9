"""Checks of parameters and weights: an error in three parts says what was asked, what was found and what to do."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from .. import threads as th
from ..gram import KERNELS, Kernel
from ..gram.matrix_leaves import asymmetry
from ..solvers import SOLVERS
from .parametric import Parametric

__all__ = [
    "check_choice",
    "check_dimensions",
    "check_kernel",
    "check_labels",
    "check_shared",
    "check_sparse",
    "check_symmetric",
    "checked_samples",
    "checked_weight",
    "few_plain_rows",
    "is_number",
    "need",
    "unknown",
]

SWITCHES = ("shrinking", "fit_intercept", "break_ties", "warm_start")
POSITIVE = ("C", "huber_delta", "tol")
FEW_NUMBERS = 1 << 14  # of samples to predict: beyond, the time of a validation is nothing beside that of a prediction
ASYMMETRY = 1e-5  # of the largest entry of a kernel matrix is put down to rounding in float32 sums
SYMMETRY_ROWS = 256  # that are compared with their columns between two looks at the clock


def need(machine: Any, name: str, ok: bool, do: str) -> None:
    """An error unless the parameter is as it should be."""
    if not ok:
        value = getattr(machine, name)
        raise ValueError(f"a valid {name} was asked for; found {name}={value!r}; {do}")


def is_number(value: Any) -> bool:
    """Whether a value is a real number, NaN not being one."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and value == value


def check_choice(machine: Any, name: str, choices: tuple, more: str = "") -> None:
    """An error that lists the choices unless one of them was made."""
    value = getattr(machine, name)
    if not any(value is c or (isinstance(value, type(c)) and value == c) for c in choices):
        raise ValueError(unknown(name, value, choices, more))


def unknown(name: str, value: Any, choices: Iterable, more: str = "") -> str:
    """The message for a name that is none of the choices: what there is, and which of them may be meant."""
    known = list(choices)
    near = difflib.get_close_matches(str(value), [str(c) for c in known], n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(repr(c) for c in known)
    return f"a known {name} was asked for; found {name}={value!r}; {meant}choose {listed}{more}"


def check_shared(machine: Any) -> None:
    """Parameters that every machine has."""
    counted = isinstance(machine.max_iter, (int, np.integer)) and (machine.max_iter == -1 or machine.max_iter > 0)
    need(machine, "max_iter", bool(counted), "give -1 for no limit, or a whole number > 0")
    timed = machine.time_limit is None or (is_number(machine.time_limit) and machine.time_limit > 0)
    need(machine, "time_limit", timed, "give seconds > 0 or None")
    called = machine.callback is None or callable(machine.callback)
    need(machine, "callback", called, "give a function of one argument or None")
    whole = machine.n_jobs is None or isinstance(machine.n_jobs, numbers.Integral)
    need(machine, "n_jobs", whole, "give a whole number or None")
    known = isinstance(machine.solver, str) and machine.solver in ("auto", *SOLVERS)
    if not known and (isinstance(machine.solver, (str, type)) or not hasattr(machine.solver, "solve")):
        raise ValueError(unknown("solver", machine.solver, ("auto", *sorted(SOLVERS)), " or pass a solver"))
    for name in SWITCHES:
        if hasattr(machine, name):
            need(machine, name, isinstance(getattr(machine, name), (bool, np.bool_)), "give True or False")
    for name in POSITIVE:
        value: Any = getattr(machine, name, None)
        if hasattr(machine, name) and not (value is None and name in machine._optional):
            need(machine, name, is_number(value) and value > 0, f"give {name} > 0")
    if hasattr(machine, "epsilon"):
        sized = is_number(machine.epsilon) and 0 <= machine.epsilon < np.inf
        need(machine, "epsilon", sized, "give epsilon >= 0")
    if hasattr(machine, "quantile"):
        need(machine, "quantile", is_number(machine.quantile) and 0 < machine.quantile < 1, "give quantile in (0, 1)")
    if hasattr(machine, "nu"):
        need(machine, "nu", is_number(machine.nu) and 0 < machine.nu <= 1, "give nu in (0, 1]")
    Parametric.check(getattr(machine, "parametric", None))


def check_kernel(machine: Any) -> None:
    """Parameters of the kernel and its cache."""
    if isinstance(machine.kernel, str) and machine.kernel not in (*KERNELS, "precomputed"):
        raise ValueError(unknown("kernel", machine.kernel, (*sorted(KERNELS), "precomputed"), " or pass a callable"))
    named = isinstance(machine.kernel, str) or callable(machine.kernel)
    need(machine, "kernel", named, "give a name or a callable K(X, Z)")
    whole = is_number(machine.degree) and float(machine.degree).is_integer()
    need(machine, "degree", whole and machine.degree >= 0, "give a whole degree >= 0")
    need(machine, "coef0", is_number(machine.coef0) and np.isfinite(machine.coef0), "give a number")
    named = isinstance(machine.gamma, str) and machine.gamma in ("scale", "auto")
    sized = is_number(machine.gamma) and 0 <= machine.gamma < np.inf
    need(machine, "gamma", named or sized, "give 'scale', 'auto' or a number >= 0")
    sized = is_number(machine.cache_size) and 0 < machine.cache_size < np.inf
    need(machine, "cache_size", sized or machine.cache_size == "auto", 'give megabytes > 0 or "auto"')


def check_dimensions(kernel: Kernel, d: int) -> None:
    """An error where a kernel is not positive definite for points of so many features."""
    if d > kernel.dimensions:
        raise ValueError(
            f'kernel="{kernel.name}" with degree={kernel.degree:g} was asked for; found points of {d} features, and it '
            f"is positive definite for up to {max(0.0, kernel.dimensions):g}; give degree={d // 2 + 2} or more, or "
            "points of fewer features"
        )


def check_labels(y: np.ndarray) -> None:
    """As scikit-learn's check of classification targets, which most labels pass at first sight."""
    whole = y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool((y == np.rint(y)).all()))
    if y.ndim != 1 or not whole:
        check_classification_targets(y)


def check_sparse(X: Any) -> None:
    """An error unless the arrays of a sparse matrix fit together; anything else passes.

    Compiled code, ours and SciPy's, trusts them: an index out of range ends the process or reads what is not there.
    One pass over the indices before anybody else looks at them costs little.
    """
    if not sp.issparse(X) or X.ndim != 2 or X.format not in ("csr", "csc", "bsr", "coo"):
        return
    found = _ill_coordinates(X) if X.format == "coo" else _ill_compressed(X)
    if found is not None:
        raise ValueError(
            f"a sparse matrix ({X.format}) of shape {X.shape} was asked for; found {found}; mend these arrays, or make "
            "the matrix anew from its entries: scipy.sparse.csr_array((data, (rows, columns)), shape)"
        )


def _ill_coordinates(X: Any) -> str | None:
    if not len(X.row) == len(X.col) == len(X.data):
        return f"{len(X.row)} numbers of rows and {len(X.col)} of columns for {len(X.data)} values"
    for name, index, count in (("row", X.row, X.shape[0]), ("col", X.col, X.shape[1])):
        if not _inside(index, count):
            return f"{name} from {index.min()} to {index.max()} where 0 to {count - 1} exist"
    return None


def _ill_compressed(X: Any) -> str | None:
    height, width = (size // step for size, step in zip(X.shape, getattr(X, "blocksize", (1, 1)), strict=True))
    if X.format == "csc":
        height, width = width, height
    indptr, indices = X.indptr, X.indices
    if len(indptr) != height + 1:
        return f"indptr of length {len(indptr)} where {height + 1} are needed"
    if len(indices) != len(X.data):
        return f"{len(indices)} indices for {len(X.data)} values"
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        return "an indptr that does not ascend from 0"
    if indptr[-1] > len(indices):
        return f"indptr up to {indptr[-1]} and {len(indices)} indices"
    index = indices[: indptr[-1]]  # SciPy allows for more than are in use
    if not _inside(index, width):
        return f"indices from {index.min()} to {index.max()} where 0 to {width - 1} exist"
    return None


def _inside(index: np.ndarray, count: int) -> bool:
    """Whether all numbers are in 0 … count − 1."""
    return len(index) == 0 or (index.min() >= 0 and index.max() < count)


def few_plain_rows(machine: Any, X: Any) -> bool:
    """Whether X is what validation would leave as it is, seen at a glance: a few rows of finite numbers, dense or CSR.

    scikit-learn's validation takes longer than a prediction of one row.
    """
    known = vars(machine)
    if X.__class__ is np.ndarray:
        numbers = X
    elif X.__class__ is sp.csr_matrix or X.__class__ is sp.csr_array:
        numbers = X.data
    else:
        return False
    return (
        X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == known.get("n_features_in_", -1)
        and 0 < numbers.size <= FEW_NUMBERS
        and (numbers.dtype == np.float64 or numbers.dtype == np.float32)
        and "feature_names_in_" not in known
        and bool(np.isfinite(numbers).all())
        and (numbers is X or _ill_compressed(X) is None)
    )


def checked_samples(machine: Any, X: Any, y: Any, **options: Any) -> tuple:
    """X and y as scikit-learn's validation for a fit leaves them, seen at a glance where it leaves them as they are.

    It takes as long as a small fit, most of it for tables, of which an array is none.
    """
    if not (_plain(X, 2) and X.dtype.kind == "f" and _plain(y, 1) and len(X) == len(y)):
        return validate_data(machine, X, y, multi_output=False, **options)
    vars(machine).pop("feature_names_in_", None)  # of an earlier fit
    machine.n_features_in_ = X.shape[1]
    return X, y


def _plain(a: Any, dimensions: int) -> bool:
    """Whether it is an array of some finite numbers, and nothing more special."""
    if a.__class__ is not np.ndarray or a.ndim != dimensions or not a.size or a.dtype.kind not in "biuf":
        return False
    if a.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return a.dtype in (np.float32, np.float64) and bool(np.isfinite(a.sum()))


def _compare(K: np.ndarray, a: int, b: int, found: np.ndarray, start: int, stop: int) -> None:
    """Rows a to b with their columns, of which those from start to stop on are this piece."""
    asymmetry(K, a, b, a + start, a + stop, found[a + start])


def check_symmetric(K: np.ndarray, stop: Callable[[], object] = lambda: None, threads: int = 1) -> float:
    """The largest entry of a square matrix; an error unless it is symmetric up to rounding. No copy of it is made.

    A fit that is to stop before that is known (inf) ends with what it begins with, which none of these entries has
    changed.
    """
    n = len(K)
    found = np.zeros((n, 2))  # what differs most and what is largest, a row for each piece of columns
    for a in range(0, n, SYMMETRY_ROWS):
        if stop():
            return np.inf
        b = min(n, a + SYMMETRY_ROWS)
        compare = partial(_compare, K, a, b, found)
        th.spread(compare, n - a, threads, max(SYMMETRY_ROWS, th.grain(b - a)))
    worst, scale = found.max(axis=0, initial=0.0)
    if worst > ASYMMETRY * scale:
        raise ValueError(
            "a precomputed kernel was asked for; found a matrix that is not symmetric: entries that should be equal "
            f"differ by {worst:.3g}, the largest is {scale:.3g}; pass (K + K.T) / 2 if that is what you mean"
        )
    return float(scale)


def checked_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """One weight >= 0 for each sample, not all of them 0."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(
            "sample_weight >= 0 was asked for; found a negative weight; "
            "Negative weights have no meaning as copies of a sample: give weights >= 0"
        )
    if not (weight > 0).any():
        raise ValueError(
            "sample_weight with positive entries was asked for; found that all are zero; give some samples weight"
        )
    return weight
