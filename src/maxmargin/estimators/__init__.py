"""Estimators with scikit-learn's interface."""

from .classification import SVC, NuSVC
from .linear import LinearOneClassSVM, LinearSVC, LinearSVR, l1_min_c
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
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PSVMSelector",
    "l1_min_c",
]
