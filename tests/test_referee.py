"""The referee itself, on problems that can be solved by hand."""

import numpy as np
import pytest

from maxmargin.gram import KERNELS
from referee import NAIVE_KERNELS, naive_kernel, referee


def test_free_minimum():
    answer = referee(np.diag([2.0, 4.0]), [-2.0, -4.0], -np.inf, np.inf)
    np.testing.assert_allclose(answer.beta, [1.0, 1.0], atol=1e-7)
    assert answer.objective == pytest.approx(-3.0)


def test_box_and_kink():
    # min ½β² − 2β + |β|: the minimum of the smooth part shrinks from 2 to 1, and the box cuts it to ½.
    assert referee([[1.0]], [-2.0], -5.0, 5.0, eps=[1.0]).beta[0] == pytest.approx(1.0, abs=1e-6)
    assert referee([[1.0]], [-2.0], -5.0, 0.5, eps=[1.0]).beta[0] == pytest.approx(0.5, abs=1e-6)
    assert referee([[1.0]], [-0.5], -5.0, 5.0, eps=[1.0]).beta[0] == pytest.approx(0.0, abs=1e-6)


def test_multiplier_has_the_sign_of_the_gradient():
    # min ½‖β‖² s.t. β₁ + β₂ = 2: s = β + η = 0 at β = (1, 1).
    answer = referee(np.eye(2), [0.0, 0.0], -np.inf, np.inf, np.ones((1, 2)), [2.0])
    np.testing.assert_allclose(answer.beta, [1.0, 1.0], atol=1e-7)
    np.testing.assert_allclose(answer.multipliers, [-1.0], atol=1e-7)


def test_every_kernel_has_a_naive_twin():
    assert set(NAIVE_KERNELS) == set(KERNELS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linear", 1.0),
        ("poly", (0.5 * 1 + 2) ** 2),
        ("rbf", np.exp(-0.5 * 5)),
        ("sigmoid", np.tanh(2.5)),
        ("laplacian", np.exp(-0.5 * 3)),
    ],
)
def test_naive_kernels_by_hand(name, value):
    X, Z = np.array([[1.0, 1.0]]), np.array([[2.0, -1.0]])
    assert naive_kernel(name, X, Z, gamma=0.5, coef0=2.0, degree=2)[0, 0] == pytest.approx(value)
