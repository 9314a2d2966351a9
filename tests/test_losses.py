"""Losses: slopes and curvatures by finite differences, conjugates by a search over the argument."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.losses import (
    MARGIN_LOSSES,
    RESIDUAL_LOSSES,
    EpsilonInsensitive,
    Huber,
    HuberHinge,
    Loss,
    Quantile,
    SquaredEpsilonInsensitive,
)

LOSSES = MARGIN_LOSSES | {f"{name} of residuals" if name == "huber" else name: x for name, x in RESIDUAL_LOSSES.items()}
CASES = {name: make() for name, make in LOSSES.items()} | {
    "huber of residuals, narrow": Huber(0.05),
    "quantile, high": Quantile(0.9),
    "huber, narrow": HuberHinge(0.05),
    "huber, wide": HuberHinge(2.0),
    "epsilon_insensitive, no tube": EpsilonInsensitive(0.0),
    "epsilon_insensitive, wide": EpsilonInsensitive(1.5),
    "squared_epsilon_insensitive, no tube": SquaredEpsilonInsensitive(0.0),
}
# Where the first or second derivative jumps.
CORNERS = {
    "hinge": lambda loss: [1.0],
    "squared_hinge": lambda loss: [1.0],
    "huber": lambda loss: [1.0 - loss.delta, 1.0 + loss.delta],
    "epsilon_insensitive": lambda loss: [-loss.epsilon, loss.epsilon],
    "squared_epsilon_insensitive": lambda loss: [-loss.epsilon, loss.epsilon],
    "huber of residuals": lambda loss: [-loss.delta, loss.delta],
    "quantile": lambda loss: [0.0],
    "squared_error": lambda loss: [],
}
GRID = np.linspace(-60.0, 60.0, 240_001)
STEP = GRID[1] - GRID[0]

every_loss = pytest.mark.parametrize("loss", CASES.values(), ids=CASES.keys())


def corners(loss: Loss) -> np.ndarray:
    name = next(name for name, make in LOSSES.items() if type(loss) is make)
    return np.array(CORNERS[name](loss))


def smooth_points(loss: Loss, margin: float) -> np.ndarray:
    a = np.linspace(-3.0, 4.0, 701)
    return a[np.abs(a[:, None] - corners(loss)).min(axis=1, initial=np.inf) > margin]


def test_every_loss_has_its_corners_listed():
    assert set(CORNERS) == set(LOSSES)


@every_loss
def test_value_is_convex_nonnegative_and_zero_somewhere(loss):
    value = loss.value(GRID)
    assert value.min() == 0.0
    assert (value[:-2] + value[2:] - 2 * value[1:-1] >= -1e-9).all()


@every_loss
def test_slope_is_the_derivative_of_the_value(loss):
    a, h = smooth_points(loss, 2e-6), 1e-6
    np.testing.assert_allclose(loss.slope(a), (loss.value(a + h) - loss.value(a - h)) / (2 * h), atol=1e-8)


@every_loss
def test_curvature_is_the_derivative_of_the_slope(loss):
    a, h = smooth_points(loss, 2e-6), 1e-6
    np.testing.assert_allclose(loss.curvature(a), (loss.slope(a + h) - loss.slope(a - h)) / (2 * h), atol=1e-7)


@every_loss
def test_slope_at_a_corner_is_a_subgradient(loss):
    a = corners(loss)
    for x, slope in zip(a, loss.slope(a), strict=True):
        assert (loss.value(GRID) >= loss.value(x) + slope * (GRID - x) - 1e-12).all()


@every_loss
@pytest.mark.parametrize("u", [-1.0, -0.9, -0.5, -0.1, 0.0, 0.3, 0.99, 1.0])
def test_conjugate_is_the_supremum(loss, u):
    found = loss.conjugate(np.array(u))
    reached = (u * GRID - loss.value(GRID)).max()
    if np.isinf(found):
        twice = (u * 2 * GRID - loss.value(2 * GRID)).max()
        assert twice > reached + 1.0  # still growing: there is no supremum
    else:
        assert found == pytest.approx(reached, abs=2 * STEP)
        assert found >= reached - 1e-9


@every_loss
@given(a=st.floats(-20, 20))
def test_fenchel_young_is_tight_at_the_slope(loss, a):
    a = np.array(a)
    slope = loss.slope(a)
    assert loss.value(a) + loss.conjugate(slope) == pytest.approx(slope * a, abs=1e-10)


@every_loss
@given(a=st.floats(-20, 20), u=st.floats(-3, 3))
def test_fenchel_young_holds_everywhere(loss, a, u):
    a, u = np.array(a), np.array(u)
    assert loss.value(a) + loss.conjugate(u) >= u * a - 1e-10


@pytest.mark.parametrize("outside", [-1.01, 0.01])
@pytest.mark.parametrize("name", ["hinge", "huber"])
def test_conjugate_is_infinite_outside_its_domain(name, outside):
    assert LOSSES[name]().conjugate(np.array(outside)) == np.inf


@every_loss
def test_argument_is_margin_or_residual(loss):
    y, f = np.array([1.0, -1.0, 2.5]), np.array([0.5, 2.0, -1.0])
    expected = [0.5, -2.0, -2.5] if loss.classification else [-0.5, 3.0, -3.5]
    np.testing.assert_array_equal(loss.argument(y, f), expected)


def test_huber_hinge_tends_to_the_hinge():
    a = np.linspace(-3, 4, 701)
    np.testing.assert_allclose(HuberHinge(1e-8).value(a), LOSSES["hinge"]().value(a), atol=1e-8)
