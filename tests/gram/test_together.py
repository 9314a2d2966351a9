"""Products with parts of a matrix that share kernel values."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.gram import Kernel, KernelGram, products_of_parts

KERNELS = [Kernel("rbf", gamma=0.5), Kernel("poly", gamma=0.3, coef0=1.0, degree=3), Kernel("laplacian", gamma=0.2)]


def pairs_of_classes(rng, n, k):
    labels = rng.integers(0, k, n)
    return [np.flatnonzero((labels == i) | (labels == j)) for i in range(k) for j in range(i + 1, k)], labels


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("sparse", [False, True])
def test_each_part_has_its_own_product(kernel, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5)) * (rng.random((90, 5)) < (0.2 if sparse else 1.0))
    gram = KernelGram(kernel, sp.csr_matrix(X) if sparse else X)
    K = gram.block(np.arange(90))
    parts = [*pairs_of_classes(rng, 90, 4)[0], rng.permutation(90)[:30], np.arange(40, 50), np.zeros(0, np.int64)]
    vectors = [rng.normal(size=len(part)) * (rng.random(len(part)) < 0.3) for part in parts]
    for threads in (1, 3):
        found = products_of_parts(gram, parts, vectors, threads)
        for part, v, product in zip(parts, vectors, found, strict=True):
            np.testing.assert_allclose(product, K[np.ix_(part, part)] @ v, rtol=1e-12, atol=1e-12)


def test_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(1)
    gram = KernelGram(KERNELS[0], rng.normal(size=(1000, 7)))
    parts, _ = pairs_of_classes(rng, 1000, 6)
    vectors = [rng.normal(size=len(part)) for part in parts]
    one, many = (products_of_parts(gram, parts, vectors, threads) for threads in (1, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))


def test_values_inside_of_a_class_are_computed_once():
    rng = np.random.default_rng(2)
    gram = KernelGram(KERNELS[0], rng.normal(size=(600, 3)))
    parts, labels = pairs_of_classes(rng, 600, 6)
    vectors = [np.isin(part, np.arange(60)).astype(float) for part in parts]  # coefficients of the same points
    products_of_parts(gram, parts, vectors)
    assert gram.evals == 60 * 600


def test_no_part_is_no_product():
    gram = KernelGram(KERNELS[0], np.eye(3))
    assert products_of_parts(gram, [], []) == []


def test_a_product_that_is_known_takes_no_kernel_value():
    gram = KernelGram(KERNELS[0], np.random.default_rng(3).normal(size=(20, 2)))
    v = np.linspace(-1.0, 1.0, 20)
    product = gram.matvec(v)
    before = gram.evals
    gram.remember(v, product)
    gram.matvec(v)[:] = 0.0  # whoever writes to one spoils none for others
    np.testing.assert_array_equal(gram.matvec(v), product)
    assert gram.evals == before
    np.testing.assert_allclose(gram.matvec(2.0 * v), 2.0 * product)  # and of others it says nothing
    assert gram.evals > before
