"""Kernel matrices, by rows and within a budget."""

from .base import CallableGram, Gram, KernelGram, PrecomputedGram, as_gram
from .cache import RowCache, cache_bytes
from .kernels import KERNELS, Kernel
from .views import Ridged, Shifted, Signed, Tiled

__all__ = [
    "KERNELS",
    "CallableGram",
    "Gram",
    "Kernel",
    "KernelGram",
    "PrecomputedGram",
    "Ridged",
    "RowCache",
    "Shifted",
    "Signed",
    "Tiled",
    "as_gram",
    "cache_bytes",
]
