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
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PSVMSelector,
    l1_min_c,
)
from .formulations import FORMULATIONS
from .goal import Goal
from .gram import KERNELS
from .monitor import keep_interrupted
from .problem import ERM, QP
from .solution import Certificate, History, Solution, Status
from .solvers import (
    ASVM,
    MPD,
    SMO,
    SOLVERS,
    SOR,
    Adatron,
    Auto,
    Chunking,
    Columns,
    Decomposition,
    InteriorPoint,
    NearestPoint,
    Newton,
    PotentialSMO,
    solve,
)

__version__ = "0.1.0"

__all__ = [
    "ASVM",
    "ERM",
    "FORMULATIONS",
    "KERNELS",
    "MPD",
    "PSVC",
    "PSVR",
    "QP",
    "SMO",
    "SOLVERS",
    "SOR",
    "SVC",
    "SVDD",
    "SVR",
    "Adatron",
    "Auto",
    "Certificate",
    "Chunking",
    "Columns",
    "Decomposition",
    "Goal",
    "History",
    "InteriorPoint",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVR",
    "NearestPoint",
    "Newton",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PSVMSelector",
    "PotentialSMO",
    "Solution",
    "Status",
    "keep_interrupted",
    "l1_min_c",
    "solve",
]
