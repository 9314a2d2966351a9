"""Estimators with scikit-learn's interface."""

from typing import TYPE_CHECKING

from .._lazy import imported_when_used
from .classification import SVC, NuSVC
from .linear import LinearSVC, LinearSVR, l1_min_c
from .outlier import SVDD, LinearOneClassSVM, OneClassSVM
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

# scikit-learn's feature selection takes as long to import as all that is imported above.
__getattr__ = imported_when_used(__name__, {"selection": "PSVMSelector"})
