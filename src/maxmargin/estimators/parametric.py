"""The functions of a semi-parametric machine: a callable, a list of callables or a transformer, as one matrix.

    f(x) = kernel part + intercept + Σ_j parametric_coef_[j] φ_j(x)

Nothing penalises the coefficients, so the functions must not be linear combinations of each other (or of the
constant, where an intercept is fitted): their coefficients would be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import _num_samples, has_fit_parameter

__all__ = ["Parametric"]

DEPENDENT = 1e-9  # what is left of a function of norm 1 after projection on the others that counts as nothing
TAKES_PART = 1e-6  # share of the largest coefficient in a combination that is worth a name


def _is_transformer(given: Any) -> bool:
    return hasattr(given, "fit") and hasattr(given, "transform") and not isinstance(given, type)


def _is_function(given: Any) -> bool:
    return callable(given) and not isinstance(given, type)


def _name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    return name if name and name != "<lambda>" else ""


@dataclass
class Parametric:
    """φ as the user gave it, ready to be evaluated."""

    given: Any  # a function, a list of functions or a fitted transformer
    names: list[str]

    @staticmethod
    def check(given: Any) -> None:
        """An error for what is neither functions nor a transformer."""
        several = isinstance(given, (list, tuple))
        if given is None or _is_transformer(given) or _is_function(given):
            return
        if several and len(given) and all(_is_function(f) for f in given):
            return
        found = "an empty list" if several and not len(given) else f"{type(given).__name__}"
        if several and len(given):
            found = f"a list with {next(type(f).__name__ for f in given if not _is_function(f))} in it"
        raise ValueError(
            f"a valid parametric was asked for; found parametric={given!r}, {found}; give a function "
            "X -> (n, k), a list of functions X -> (n,), a transformer, or None"
        )

    @classmethod
    def fit(cls, given: Any, X: Any, y: Any, weight: Any) -> Parametric:
        """The functions; a transformer is cloned and fitted."""
        if _is_transformer(given):
            if isinstance(X, list):
                raise ValueError(
                    "parametric: a transformer was asked for; found X in parts, on which it cannot be fitted as one; "
                    "give functions, or a transformer's own transform after fitting it"
                )
            given = clone(given)
            if has_fit_parameter(given, "sample_weight"):  # so that a weight is a number of copies here, too
                given.fit(X, y, sample_weight=weight)
            else:
                given.fit(X, y)
        return cls(given, [])

    def __call__(self, X: Any) -> np.ndarray:
        """Values (n, k) at X in float64."""
        if isinstance(self.given, (list, tuple)):
            columns = [self._values(f, X, f"function {j}", single=True) for j, f in enumerate(self.given)]
            phi = np.hstack(columns)
        else:
            evaluate = self.given.transform if _is_transformer(self.given) else self.given
            phi = self._values(evaluate, X, "the function")
        if self.names and phi.shape[1] != len(self.names):
            raise ValueError(
                f"parametric functions were asked for {len(self.names)} values a sample, as in fit; found "
                f"{phi.shape[1]}; each must return as many columns for any X"
            )
        return phi

    @staticmethod
    def _values(function: Any, X: Any, name: str, single: bool = False) -> np.ndarray:
        values, n = function(X), _num_samples(X)
        values = np.asarray(values.toarray() if sp.issparse(values) else values)
        if values.ndim == 1 and len(values) == n:
            values = values[:, None]
        wanted = f"({n},)" if single else f"({n}, k)"
        if values.ndim != 2 or values.shape[0] != n or not values.shape[1] or (single and values.shape[1] > 1):
            raise ValueError(
                f"parametric: {name} was asked for values of shape {wanted}; found shape {values.shape}; "
                "return one value for each row of X" + ("" if single else " and function")
            )
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"parametric: {name} was asked for numbers; found values of type {values.dtype}; return real numbers"
            ) from None
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise ValueError(
                f"parametric: {name} was asked for finite values; found NaN or infinity, first for sample {row}; "
                "mend the function or leave such samples out"
            )
        return values

    def settle(self, k: int) -> None:
        """From now on there are k values a sample, and they have names."""
        self.names = self._names(k)

    def _names(self, k: int) -> list[str]:
        if isinstance(self.given, (list, tuple)):
            own = [_name(f) for f in self.given]
            return [f"function {j} ({name})" if name else f"function {j}" for j, name in enumerate(own)]
        try:
            names = [str(name) for name in self.given.get_feature_names_out()]
        except (AttributeError, ValueError):  # a function, or a transformer without names
            names = []
        if len(names) == k:
            return names
        return [f"column {j}" for j in range(k)]

    def check_independent(self, phi: np.ndarray, intercept: bool, label: str = "") -> None:
        """An error that names functions which are linear combinations on these samples."""
        columns, names = phi, list(self.names)
        if intercept:
            columns, names = np.column_stack([np.ones(len(phi)), phi]), ["the intercept", *names]
        norms = np.sqrt((columns * columns).sum(axis=0))
        unit = columns / np.where(norms > 0, norms, 1.0)
        left = np.abs(np.diagonal(np.linalg.qr(unit, mode="r")))
        left = np.append(left, np.zeros(len(names) - len(left)))  # fewer samples than functions
        for j in np.flatnonzero(left <= DEPENDENT * np.sqrt(len(names))):
            found = f"{names[j]} is zero" if norms[j] == 0 else f"{names[j]} is a combination of "
            if norms[j] > 0:
                share = np.abs(np.linalg.lstsq(unit[:, :j], unit[:, j], rcond=None)[0])
                found += " and ".join(names[i] for i in np.flatnonzero(share > TAKES_PART * share.max(initial=0.0)))
            raise ValueError(
                f"parametric functions that are linearly independent were asked for; found that {found} on "
                f"{'the samples of ' + label if label else 'these samples'}; leave one of them out"
            )
