"""Estimators with scikit-learn's interface."""

from .classification import SVC, NuSVC
from .linear import LinearSVC, LinearSVR
from .outlier import SVDD, OneClassSVM
from .regression import SVR, NuSVR

__all__ = ["SVC", "SVDD", "SVR", "LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM"]
