"""Kernel matrices, by rows and within a budget."""

from .base import CallableGram, Factor, Gram, KernelGram, PrecomputedGram, as_gram
from .cache import RowCache, cache_bytes, once_more
from .factored import Factored
from .gauss import GaussGram, gauss_or_not
from .kernels import KERNELS, Kernel
from .lowrank import LowRank, low_rank, lowered
from .near import NearGram, near_or_not
from .reduced import Exact, Expansion, Reduced
from .relation import Relation
from .views import Ridged, Shifted, Signed, Tiled

__all__ = [
    "KERNELS",
    "CallableGram",
    "Exact",
    "Expansion",
    "Factor",
    "Factored",
    "GaussGram",
    "Gram",
    "Kernel",
    "KernelGram",
    "LowRank",
    "NearGram",
    "PrecomputedGram",
    "Reduced",
    "Relation",
    "Ridged",
    "RowCache",
    "Shifted",
    "Signed",
    "Tiled",
    "as_gram",
    "cache_bytes",
    "gauss_or_not",
    "low_rank",
    "lowered",
    "near_or_not",
    "once_more",
]
