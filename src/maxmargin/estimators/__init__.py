"""Estimators with scikit-learn's interface."""

from .classification import SVC, NuSVC
from .linear import LinearSVC, LinearSVR
from .outlier import SVDD, OneClassSVM
from .potential import PSVC, PSVR
from .regression import SVR, NuSVR
from .selection import PSVMSelector

__all__ = [
    "PSVC",
    "PSVR",
    "SVC",
    "SVDD",
    "SVR",
    "LinearSVC",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PSVMSelector",
]
