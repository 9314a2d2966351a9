"""Formulations: how each support vector machine becomes the one QP."""

from .base import Decision, Formulation, Samples
from .c_svc import CSVC
from .nu_svc import NuSVC
from .nu_svr import NuSVR
from .one_class import OneClass
from .p_svm import PSVM
from .semiparametric import SemiParametric
from .svdd import SVDD
from .svr import EpsilonSVR

__all__ = [
    "CSVC",
    "FORMULATIONS",
    "PSVM",
    "SVDD",
    "Decision",
    "EpsilonSVR",
    "Formulation",
    "NuSVC",
    "NuSVR",
    "OneClass",
    "Samples",
    "SemiParametric",
]

FORMULATIONS: dict[str, type] = {
    "c_svc": CSVC,
    "nu_svc": NuSVC,
    "one_class": OneClass,
    "svdd": SVDD,
    "epsilon_svr": EpsilonSVR,
    "nu_svr": NuSVR,
    "p_svm": PSVM,
}
