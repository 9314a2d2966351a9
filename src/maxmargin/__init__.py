"""Support vector machines with a proof of how good each fit is.

from maxmargin import SVC          # in place of: from sklearn.svm import SVC
model = SVC(C=10).fit(X, y)
print(model.certificate_)
"""

from .estimators import (
    PSVC,
    PSVR,
    SVC,
    SVDD,
    SVR,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PSVMSelector,
)
from .formulations import FORMULATIONS
from .goal import Goal
from .gram import KERNELS
from .monitor import keep_interrupted
from .problem import ERM, QP
from .solution import Certificate, History, Solution, Status
from .solvers import SMO, SOLVERS, Chunking, Decomposition, solve

__version__ = "0.1.0"

__all__ = [
    "ERM",
    "FORMULATIONS",
    "KERNELS",
    "PSVC",
    "PSVR",
    "QP",
    "SMO",
    "SOLVERS",
    "SVC",
    "SVDD",
    "SVR",
    "Certificate",
    "Chunking",
    "Decomposition",
    "Goal",
    "History",
    "LinearSVC",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PSVMSelector",
    "Solution",
    "Status",
    "keep_interrupted",
    "solve",
]
