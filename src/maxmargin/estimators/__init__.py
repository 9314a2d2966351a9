"""Estimators with scikit-learn's interface."""

from typing import TYPE_CHECKING, Any

from .classification import SVC, NuSVC
from .linear import LinearOneClassSVM, LinearSVC, LinearSVR, l1_min_c
from .outlier import SVDD, OneClassSVM
from .potential import PSVC, PSVR
from .regression import SVR, NuSVR

if TYPE_CHECKING:
    from .selection import PSVMSelector

__all__ = [
    "PSVC",
    "PSVR",
    "SVC",
    "SVDD",
    "SVR",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PSVMSelector",
    "l1_min_c",
]


def __getattr__(name: str) -> Any:
    if name == "PSVMSelector":  # scikit-learn's feature selection takes as long to import as all that is imported above
        from .selection import PSVMSelector

        return PSVMSelector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
