"""Fast products with Gaussian kernels, where the package finufft is there, and what they may be wrong by."""

import importlib.util

import numpy as np
import pytest

from maxmargin import SVC
from maxmargin.gram import GaussGram, Kernel, KernelGram, gauss_or_not
from maxmargin.gram import gauss as module
from referee import naive_kernel

needs_finufft = pytest.mark.skipif(
    importlib.util.find_spec("finufft") is None, reason="finufft is missing: pip install maxmargin[fast]"
)
N = 300
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_problems(monkeypatch):
    monkeypatch.setattr(module, "LEAST_POINTS", 50)


def fast(X, gamma):
    gram = gauss_or_not(KernelGram(Kernel("rbf", gamma=gamma), X))
    assert isinstance(gram, GaussGram)
    return gram


@needs_finufft
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("gamma", [1e-4, 1.0, 60.0])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_products_are_within_what_is_stated(d, gamma, offset):
    X = offset + rng.uniform(size=(N, d)) * [1.0, 3.0, 0.01][:d]
    gram, K = fast(X, gamma), naive_kernel("rbf", X, gamma=gamma)
    V = rng.normal(size=(N, 5)) + 1.0
    for columns in (1, 2, 5):
        off = np.abs(gram.matmat(V[:, :columns]) - K @ V[:, :columns])
        assert (off <= gram.delta * np.abs(V[:, :columns]).sum(axis=0) + 1e-13 * N).all()
    assert gram.matvec(V[:, 0]) == pytest.approx(K @ V[:, 0], abs=1e-9)
    assert gram.delta < 1e-10
    blur, drift = gram.blurs(V[:, 0])
    assert drift == gram.delta * np.abs(V[:, 0]).sum() and blur == pytest.approx(0.5 * drift * np.abs(V[:, 0]).sum())


@needs_finufft
def test_rows_and_parts_are_those_of_the_kernel():
    X = rng.normal(size=(N, 2))
    gram = fast(X, 1.0)
    index = np.array([3, 9])
    assert np.array_equal(gram.rows(index), gram.inner.rows(index))
    assert gram.original() is gram.inner and isinstance(gram.take(index), KernelGram)
    assert not gram.matmat(np.zeros((N, 2))).any() and gram.matmat(np.zeros((N, 0))).shape == (N, 0)


@needs_finufft
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_machines_are_proven_with_what_is_stated(loss, monkeypatch):
    X = rng.normal(size=(N, 2))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, 1, -1)
    quick = SVC(gamma=3.0, loss=loss, tol=1e-5).fit(X, y)
    monkeypatch.setattr(module, "LEAST_POINTS", 10**6)
    plain = SVC(gamma=3.0, loss=loss, tol=1e-5).fit(X, y)
    assert quick.status_.converged and quick.certificate_.gap > 0.0
    assert quick.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)
    assert quick.certificate_.dual <= plain.certificate_.primal


def test_other_kernels_more_dimensions_and_too_many_modes_are_left_alone(monkeypatch):
    X = rng.normal(size=(N, 2))
    for kernel, points in [
        (Kernel("laplacian"), X),
        (Kernel("rbf"), rng.normal(size=(N, 4))),
        (Kernel("rbf", gamma=1e9), X),
        (Kernel("rbf", gamma=0.0), X),
    ]:
        gram = KernelGram(kernel, points)
        assert gauss_or_not(gram) is gram
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    gram = KernelGram(Kernel("rbf"), X)
    assert gauss_or_not(gram) is gram


@pytest.mark.parametrize("gamma", [0.1, 3.0, 100.0])
def test_modes_that_are_left_out_are_counted(gamma):
    period, most = 4.0, 20
    tail = module.coefficients(gamma, period, 400)[400 + most + 1 :].sum() * 2
    assert tail <= module._left_out(gamma, period, most) <= 1.5 * tail + 1e-300
    series = module.coefficients(gamma, period, 400)
    x = 0.3
    copies = sum(np.exp(-gamma * (x + m * period) ** 2) for m in range(-9, 10))
    assert (series * np.cos(2 * np.pi * np.arange(-400, 401) * x / period)).sum() == pytest.approx(copies, abs=1e-12)
