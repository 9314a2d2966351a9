"""Support vector machines with a proof of how good each fit is.

from maxmargin import SVC          # in place of: from sklearn.svm import SVC
model = SVC(C=10).fit(X, y)
print(model.certificate_)

Names are imported when they are first used: ``maxmargin --help`` needs none of the libraries that a fit needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import imported_when_used

if TYPE_CHECKING:
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
    from .files import from_sklearn, load, save, to_sklearn
    from .formulations import FORMULATIONS
    from .goal import Goal
    from .gram import KERNELS
    from .monitor import keep_interrupted
    from .problem import ERM, QP
    from .solution import Certificate, History, Solution, Status
    from .solvers import (
        ASVM,
        MPD,
        PCG,
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

# Where each public name is defined: the table that the imports above are for people and type checkers.
_HOME = {
    "estimators": "PSVC PSVR SVC SVDD SVR LinearOneClassSVM LinearSVC LinearSVR NuSVC NuSVR OneClassSVM PSVMSelector "
    "l1_min_c",
    "files": "from_sklearn load save to_sklearn",
    "formulations": "FORMULATIONS",
    "goal": "Goal",
    "gram": "KERNELS",
    "monitor": "keep_interrupted",
    "problem": "ERM QP",
    "solution": "Certificate History Solution Status",
    "solvers": "ASVM MPD PCG SMO SOLVERS SOR Adatron Auto Chunking Columns Decomposition InteriorPoint NearestPoint "
    "Newton PotentialSMO solve",
}
_ROOMS = (*_HOME, "command", "decisions", "host", "losses", "memory", "rows", "threads", "warmup")

__all__ = [
    "ASVM",
    "ERM",
    "FORMULATIONS",
    "KERNELS",
    "MPD",
    "PCG",
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
    "from_sklearn",
    "keep_interrupted",
    "l1_min_c",
    "load",
    "save",
    "solve",
    "to_sklearn",
]

__getattr__ = imported_when_used(__name__, _HOME, _ROOMS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
