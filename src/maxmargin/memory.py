"""One budget of memory for all fits of this process that run at the same time.

Each fit sees the same memory as free; if each took a share of it without a look at the others, a few of them would take
more than there is. So caches reserve what they take. Reserved memory counts until its owner lets go of the reservation,
and the part of it that is filled no longer shows as free.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref

from . import host

__all__ = ["Reservation", "fits", "left_for_one", "reserve", "share"]

ALL_CACHES = 2 / 3  # of what would be free without them; the rest is for what is computed from them, and for others
READING = 1.0  # seconds for which what the host says counts: a look takes a millisecond, as long as a small fit,
LITTLE = 1 / 100  # for a cache that takes no more than that share of it
NEGLIGIBLE = 1 << 24  # bytes: nobody needs to ask whether there is room for these
ONE_CACHE = 1 / 2  # of what is left of that: a third of all for a fit alone, and something for those that come later


class Reservation:
    """Bytes that a cache may fill, and how many of them it has filled so far."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.filled = 0


_lock = threading.Lock()
_reserved: weakref.WeakSet[Reservation] = weakref.WeakSet()
_seen: tuple[float, float] | None = None  # when the host was asked, and what it said


def reserve(size: int) -> Reservation:
    """These bytes, whatever is free: somebody has asked for them."""
    with _lock:
        found = Reservation(size)
        _reserved.add(found)
        return found


def share(most: int, least: int) -> Reservation:
    """As many bytes as one more cache should take, within these limits."""
    with _lock:
        found = Reservation(max(least, min(most, _left_for_one(most))))
        _reserved.add(found)
        return found


def left_for_one() -> int:
    """Bytes that one more cache should take at most."""
    with _lock:
        return _left_for_one()


def fits(size: int) -> bool:
    """Whether there is room for so many bytes; to ask takes as long as to fill a few."""
    if size <= NEGLIGIBLE:
        return True
    with _lock:
        return size <= _left_for_one(size)


def _left_for_one(most: float = math.inf) -> int:
    return max(0, int(ONE_CACHE * (ALL_CACHES * _without_caches(most) - sum(r.size for r in _reserved))))


def _without_caches(most: float) -> float:
    """Bytes that would be free without caches; for who asks for little, as the host said within the last moments."""
    global _seen
    now = time.monotonic()
    if _seen is None or now - _seen[0] > READING or most > LITTLE * _seen[1]:
        taken, filled = sum(r.size for r in _reserved), sum(r.filled for r in _reserved)
        # Memory that is reserved and not filled shows as free. Addresses are gone as soon as they are reserved.
        _seen = now, min(host.free_memory() + filled, host.free_addresses() + taken)
    return _seen[1]


def _forked() -> None:
    """In a child only the thread that forked goes on; the fits of the others never end there."""
    global _lock, _seen
    _lock, _seen = threading.Lock(), None
    _reserved.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
