"""Checks of parameters and weights: an error in three parts says what was asked, what was found and what to do."""

from __future__ import annotations

import numbers

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from ..gram import KERNELS
from ..solvers import SOLVERS
from .parametric import Parametric

__all__ = ["check_choice", "check_kernel", "check_labels", "check_shared", "checked_weight", "is_number", "need"]

SWITCHES = ("shrinking", "fit_intercept", "break_ties", "warm_start")
POSITIVE = ("C", "huber_delta", "tol")


def need(machine, name: str, ok: bool, do: str) -> None:
    """An error unless the parameter is as it should be."""
    if not ok:
        value = getattr(machine, name)
        raise ValueError(f"{name}={value!r} was asked for; found a value that makes no sense; {do}")


def is_number(value) -> bool:
    """Whether a value is a real number, NaN not being one."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and value == value


def check_choice(machine, name: str, choices: tuple, more: str = "") -> None:
    """An error that lists the choices unless one of them was made."""
    value = getattr(machine, name)
    if not any(value is c or (isinstance(value, type(c)) and value == c) for c in choices):
        found = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name}={value!r} was asked for; found {found}; choose one{more}")


def check_shared(machine) -> None:
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
        raise ValueError(
            f"solver={machine.solver!r} was asked for; found 'auto' and {sorted(SOLVERS)}; "
            "name one of them or pass a solver"
        )
    for name in SWITCHES:
        if hasattr(machine, name):
            need(machine, name, isinstance(getattr(machine, name), (bool, np.bool_)), "give True or False")
    for name in POSITIVE:
        value = getattr(machine, name, None)
        if hasattr(machine, name) and not (value is None and name in machine._optional):
            need(machine, name, is_number(value) and value > 0, f"give {name} > 0")
    if hasattr(machine, "epsilon"):
        sized = is_number(machine.epsilon) and 0 <= machine.epsilon < np.inf
        need(machine, "epsilon", sized, "give epsilon >= 0")
    if hasattr(machine, "nu"):
        need(machine, "nu", is_number(machine.nu) and 0 < machine.nu <= 1, "give nu in (0, 1]")
    Parametric.check(getattr(machine, "parametric", None))


def check_kernel(machine) -> None:
    """Parameters of the kernel and its cache."""
    if isinstance(machine.kernel, str) and machine.kernel not in (*KERNELS, "precomputed"):
        raise ValueError(
            f"kernel={machine.kernel!r} was asked for; found {sorted(KERNELS)} and 'precomputed'; "
            "name one of them or pass a callable"
        )
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


def check_labels(y: np.ndarray) -> None:
    """As scikit-learn's check of classification targets, which most labels pass at first sight."""
    whole = y.dtype.kind in "biuUS" or (y.dtype.kind == "f" and bool((y == np.rint(y)).all()))
    if y.ndim != 1 or not whole:
        check_classification_targets(y)


def checked_weight(sample_weight, X) -> np.ndarray:
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
