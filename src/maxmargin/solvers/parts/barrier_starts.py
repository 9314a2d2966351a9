"""Where the interior method starts: inside every box, or centred.

Every row is put well inside its box. Where that leads nowhere (a huge cost), and from a given β, centring helps: on the
central path at a μ of our choice each row's β is a function of its slope alone, so that w and η minimise a smooth
convex function with the same Newton matrix, and a few damped Newton steps lead from any w to a centred point. From
nothing it costs more factorisations than it saves (measured, in all: separable data of 1000 rows 38 against 13, a1a 15
against 11, noise 9 against 8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .barrier_point import BarrierPoint
from .limits import ROUNDS
from .roundings import ROUNDED_SUM

__all__ = ["Start", "begin"]

CENTRED = 0.05  # Newton decrement, in units of the products, that counts as centred
CENTER_STEPS = 8  # Newton steps to the central path at one μ
SMOOTHER = 10.0  # times μ is the next one, where that many steps do not lead to the central path
WIDE = 0.1  # of the boxes' mean width is our distance from their bounds where we start again
FURTHER = 100.0  # times the distance that slopes and curvatures say is our distance from the bounds
LEAST_CURVATURE = 1e-10  # of the mean slope, a unit of β: a smaller mean curvature of H counts as this
LEFT_SLOPE = 0.3  # of the slope at 0 may be left where a search along a line ends
LONGEST_SEARCH = 64.0  # times a Newton step is as far as a search goes


@dataclass(frozen=True)
class Start:
    """A feasible β with its multipliers, and what is known of it."""

    beta: np.ndarray
    eta: np.ndarray
    gap: float = np.inf  # its proven gap
    given: bool = False  # whether somebody asked to start from it


def begin(
    point: BarrierPoint, start: Start, diagonal: np.ndarray, centred: bool, wide: bool, stop: Callable[[], object]
) -> None:
    """Put all rows inside their boxes, near a start; ``diagonal`` is that of H. Centring ends early if ``stop()``."""
    qp, H_beta = point.qp, point.times(start.beta)
    slope = float(np.mean(np.abs(qp.gradient(start.beta, start.eta, H_beta)) + qp.eps)) or 1.0
    room = slope / max(float(np.mean(diagonal)), LEAST_CURVATURE * slope)
    room *= 1.0 if centred or not point.can_center else FURTHER
    width = qp.upper - qp.lower
    if wide:
        # With fewer features than rows most β end at a bound, however large the features are: slopes over
        # curvatures say how far a row would go alone, boxes how far all of them go.
        room = max(room, WIDE * float(np.mean(np.where(np.isfinite(width), width, 0.0))))
    tiny = np.finfo(float).tiny
    mu = 0.5 * slope * max(float(np.mean(np.minimum(room, 0.5 * width))), tiny)
    if np.isfinite(start.gap):
        mu = min(mu, max(start.gap / max(1, point.sides), ROUNDED_SUM * mu))
    mu = max(mu, tiny)
    point.w[:], point.eta[:] = 0.0, start.eta
    if start.given and not point.system.given:
        point.w[:] = point.rows.t_dot(start.beta)
    if point.can_center and centred:
        # A small μ has sharp corners, around which Newton's method finds its way slowly if at all.
        widest = slope * float(np.mean(np.where(np.isfinite(width), width, room)))
        while not center(point, mu, stop) and mu < widest:
            mu *= SMOOTHER
    else:
        point.enclose(start.beta, H_beta, mu, room)


def center(point: BarrierPoint, mu: float, stop: Callable[[], object]) -> bool:
    """Newton's method for the w and η of the central path at μ; whether it got there."""
    crew, system, d, b = point.crew, point.system, point.d, point.qp.b
    crew.ask("look", point.x)
    for _ in range(CENTER_STEPS):
        crew.ask("place", mu)
        crew.ask("weigh")
        point.pulled = system.prepare(crew)[:, 1]
        missing = point.missing()
        x = system.solve(missing)
        decrement = float(missing @ x)
        if not decrement > CENTRED * point.sides * mu or stop():
            return True
        crew.ask("project", x)
        straight = float(x[:d] @ point.w + x[d:] @ b), float(x[:d] @ x[:d])

        def slope(length: float, straight: tuple[float, float] = straight) -> float:
            return straight[0] + length * straight[1] - crew.sum("slope", mu, length)

        length = _flat_enough(slope, decrement)
        crew.ask("shift", length)
        point.x += length * x
    crew.ask("place", mu)
    point.pull()
    return False


def _flat_enough(slope: Callable[[float], float], decrement: float) -> float:
    """A length at which the slope of a convex function, −decrement at 0, is small: the whole step if it will do."""
    low, high, low_value, value = 0.0, 1.0, -decrement, slope(1.0)
    while value < -0.5 * decrement and high < LONGEST_SEARCH:
        low, low_value, high = high, value, 2.0 * high
        value = slope(high)
    if value <= LEFT_SLOPE * decrement:
        return high
    for _ in range(ROUNDS):
        straight = low - low_value * (high - low) / (value - low_value)
        if low == 0.0:  # where hardly any row has a curvature, the step is too long by orders of magnitude
            straight = max(straight, min(0.1 * high, np.sqrt(straight * high)))
        length = min(max(straight, 0.9 * low + 0.1 * high if low > 0.0 else 0.0), 0.1 * low + 0.9 * high)
        middle = slope(length)
        if abs(middle) <= LEFT_SLOPE * decrement:
            return length
        if middle > 0:
            high, value = length, middle
        else:
            low, low_value = length, middle
        if high - low < 1e-6 * high:
            break
    return low  # as far as it is downhill
