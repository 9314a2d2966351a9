"""Two sets of points: the matrix between them and its product with coefficients, as prediction needs them."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from cases import KERNEL_CASES
from maxmargin.gram import KERNELS
from maxmargin.gram.points import cross, make_points, squared_norms, weigh
from referee import naive_kernel

every_kernel = pytest.mark.parametrize("name", KERNELS)
KINDS = {"dense": (8, 0.9, np.asarray), "sparse": (60, 0.1, sp.csr_matrix), "wide": (3000, 0.01, sp.csr_matrix)}


@pytest.fixture(params=KINDS)
def sides(request):
    """Support vectors, new points, and how to hand them over."""
    d, density, make = KINDS[request.param]
    rng = np.random.default_rng(0)
    full = np.where(rng.random((230, d)) < density, rng.normal(size=(230, d)), 0.0)
    full[5] = full[200] = 0.0
    return full[:130], full[130:], make


@every_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_and_weigh(name, sides, dtype):
    left, right, make = sides
    kernel = KERNEL_CASES[name]
    left, right = left.astype(dtype), right.astype(dtype)
    K = naive_kernel(name, left, right, kernel.gamma, kernel.coef0, kernel.degree)
    a = make_points(make(left), kernel)
    b = make_points(make(right), kernel, like=a)
    assert a.sparse == b.sparse
    rtol = 2e-5 if dtype == np.float32 else 1e-12
    scale = np.abs(K).max()
    np.testing.assert_allclose(cross(kernel, a, b), K, rtol=rtol, atol=rtol * scale)
    coef = np.random.default_rng(1).normal(size=(130, 3))
    np.testing.assert_allclose(weigh(kernel, a, coef, b), K.T @ coef, rtol=rtol, atol=rtol * scale * 130)
    np.testing.assert_allclose(weigh(kernel, a, coef, b, threads=2), K.T @ coef, rtol=rtol, atol=rtol * scale * 130)


@every_kernel
@pytest.mark.parametrize("n", [1, 255, 700])  # points: 700 are three tiles
def test_a_matrix_of_points_with_themselves_is_computed_by_halves(name, n):
    X = np.random.default_rng(n).normal(size=(n, 5))
    kernel = KERNEL_CASES[name]
    points, copies = make_points(X, kernel), make_points(X.copy(), kernel)
    K = cross(kernel, points, points)
    np.testing.assert_allclose(K, cross(kernel, points, copies), rtol=1e-12, atol=1e-12 * np.abs(K).max())
    np.testing.assert_array_equal(K, cross(kernel, points, points, threads=2))


@every_kernel
def test_new_points_may_come_in_another_form(name, sides):
    left, right, _ = sides
    kernel = KERNEL_CASES[name]
    K = naive_kernel(name, left, right, kernel.gamma, kernel.coef0, kernel.degree)
    for one, other in ((np.asarray, sp.csr_matrix), (sp.csr_matrix, np.asarray)):
        a = make_points(one(left), kernel)
        b = make_points(other(right), kernel, like=a)
        np.testing.assert_allclose(cross(kernel, a, b), K, rtol=1e-11, atol=1e-11)


@every_kernel
def test_nobody_on_one_side(name, sides):
    left, right, make = sides
    kernel = KERNEL_CASES[name]
    a, b = make_points(make(left), kernel), make_points(make(right), kernel)
    none = np.zeros(0, np.int64)
    assert cross(kernel, a.take(none), b).shape == (0, 100)
    assert cross(kernel, a, b.take(none)).shape == (130, 0)
    np.testing.assert_array_equal(weigh(kernel, a.take(none), np.zeros((0, 2)), b), np.zeros((100, 2)))
    assert weigh(kernel, a, np.ones((130, 2)), b.take(none)).shape == (0, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_taken_are_those_of_scipy(dtype):
    X = sp.random_array((40, 30), density=0.1, rng=np.random.default_rng(2), format="csr").astype(dtype)
    points = make_points(X, KERNEL_CASES["rbf"])
    assert points.sparse
    some = points.take(slice(7, 35))  # whose offsets do not begin at 0
    drawn = np.random.default_rng(3).integers(0, 28, 50)
    for index in (drawn, drawn.astype(np.int32), drawn[:0], np.arange(28), np.arange(28) % 3 == 0):
        part, expected = some.take(index), X[7:35][index]
        assert part.dtype == dtype
        assert [a.dtype for a in part.data] == [np.int64, np.int32, dtype]
        np.testing.assert_array_equal(part.data[0], expected.indptr)
        np.testing.assert_array_equal(part.data[1], expected.indices)
        np.testing.assert_array_equal(part.data[2], expected.data)
        np.testing.assert_array_equal(part.norms, some.norms[index])


def test_take_and_slices(sides):
    left, _, make = sides
    kernel = KERNEL_CASES["rbf"]
    points = make_points(make(left), kernel)
    for index in (np.array([9, 5, 9]), slice(3, 50), slice(0, 0)):
        part = points.take(index)
        assert part.n == len(left[index])
        np.testing.assert_allclose(cross(kernel, part, points), naive_kernel("rbf", left[index], left, 0.5), atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_double_precision_of_single_precision_points_is_exact(name, sides):
    """float32 points are numbers like any other: seen in float64 their kernel values have 15 digits."""
    left, _, make = sides
    left = (30.0 * left).astype(np.float32)
    kernel = KERNEL_CASES[name]
    wide = make_points(make(left), kernel).astype(np.float64)
    K = naive_kernel(name, left, None, kernel.gamma, kernel.coef0, kernel.degree)
    np.testing.assert_allclose(cross(kernel, wide, wide), K, rtol=1e-9, atol=1e-10)


def test_squared_norms_of_many_rows():
    X = np.random.default_rng(0).normal(size=(5, 500_000)).astype(np.float32)
    np.testing.assert_allclose(squared_norms(X), (X.astype(np.float64) ** 2).sum(axis=1))


def test_few_of_many_sparse_points_take_memory_for_few():
    """Rows of a working set are taken at each step: nothing of all the other points may be copied for them."""
    points = make_points(sp.random_array((20_000, 200), density=0.1, rng=0, format="csr"), KERNEL_CASES["rbf"])
    tracemalloc.start()
    try:
        part = points.take(np.array([9, 5, 9]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert part.n == 3
    assert peak < 0.25 * points.data[1].nbytes


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_dense_points_of_many_zeros_become_those_of_the_same_sparse_matrix(dtype, order):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1500, 70)) < 0.1, rng.integers(-3, 4, size=(1500, 70)), 0).astype(dtype, order)
    kernel = KERNEL_CASES["rbf"]
    wanted = make_points(sp.csr_array(X), kernel)
    for threads in (1, 3):
        found = make_points(X, kernel, threads=threads)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.norms, wanted.norms)
        for one, other in zip(found.data, wanted.data, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
