"""Kernel matrices, by rows and within a budget.

Names are imported when they are first used: a prediction needs kernels and points, not trees and factorisations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import imported_when_used

if TYPE_CHECKING:
    from .base import Factor, Gram, Pairs
    from .cache import RowCache, cache_bytes, once_more
    from .factored import Factored
    from .gauss import GaussGram, gauss_or_not
    from .kernel_gram import KernelGram
    from .kernels import KERNELS, Kernel
    from .lowrank import LowRank, low_rank, lowered
    from .matrices import CallableGram, PrecomputedGram, as_gram
    from .near import NearGram, near_or_not
    from .reduced import Exact, Expansion, Reduced
    from .relation import Relation, Unread
    from .together import products_of_parts
    from .views import Ridged, Shifted, Signed, Tiled

# Where each name is defined: the table that the imports above are for people and type checkers.
_HOME = {
    "base": "Factor Gram Pairs",
    "cache": "RowCache cache_bytes once_more",
    "factored": "Factored",
    "gauss": "GaussGram gauss_or_not",
    "kernel_gram": "KernelGram",
    "kernels": "KERNELS Kernel",
    "lowrank": "LowRank low_rank lowered",
    "matrices": "CallableGram PrecomputedGram as_gram",
    "near": "NearGram near_or_not",
    "reduced": "Exact Expansion Reduced",
    "relation": "Relation Unread",
    "together": "products_of_parts",
    "views": "Ridged Shifted Signed Tiled",
}

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
    "Pairs",
    "PrecomputedGram",
    "Reduced",
    "Relation",
    "Ridged",
    "RowCache",
    "Shifted",
    "Signed",
    "Tiled",
    "Unread",
    "as_gram",
    "cache_bytes",
    "gauss_or_not",
    "low_rank",
    "lowered",
    "near_or_not",
    "once_more",
    "products_of_parts",
]

__getattr__ = imported_when_used(__name__, _HOME)
