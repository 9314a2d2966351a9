"""Kernel Grams against the formulas, for every kernel and every way in which points may come."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import KERNEL_CASES
from maxmargin.gram import KERNELS, Kernel, KernelGram
from maxmargin.gram.base import ROW_ERROR
from maxmargin.gram.kernels import DIRECT_FEATURES, transform
from referee import naive_kernel

ROWS = dict(rtol=0.0, atol=ROW_ERROR)
EXACT = dict(rtol=1e-11, atol=1e-11)


def sparse_points(n=150, d=40, density=0.1, seed=0, dtype=np.float64) -> np.ndarray:
    """Sparse points of moderate norm as a dense array; two of them empty, some of them twice."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < density, rng.normal(size=(n, d)), 0.0)
    X[3] = X[n // 2] = 0.0
    X[10] = X[20] = X[7]
    return X.astype(dtype)


def dense_points(n=150, d=7, seed=0, dtype=np.float64) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, d)) / np.sqrt(d)
    X[10] = X[20] = X[7]
    return X.astype(dtype)


def memory_map(X, folder):
    path = folder / "points.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def csr(X, index_dtype):
    matrix = sp.csr_matrix(X)
    matrix.indptr, matrix.indices = matrix.indptr.astype(index_dtype), matrix.indices.astype(index_dtype)
    return matrix


FORMS = {
    "C order": lambda X, folder: np.ascontiguousarray(X),
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "every other column": lambda X, folder: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only memory map": memory_map,
    "CSR, int32": lambda X, folder: csr(X, np.int32),
    "CSR, int64": lambda X, folder: csr(X, np.int64),
    "CSR array": lambda X, folder: sp.csr_array(X),
}

every_kernel = pytest.mark.parametrize("name", KERNELS)
every_form = pytest.mark.parametrize("form", FORMS)
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])
points_of_both_kinds = pytest.mark.parametrize("points", [dense_points, sparse_points])


def naive(kernel: Kernel, X, Z=None) -> np.ndarray:
    return naive_kernel(kernel.name, X, Z, kernel.gamma, kernel.coef0, kernel.degree)


@pytest.fixture
def case(name, form, dtype, points, tmp_path):
    """A Gram and the matrix that it stands for."""
    X = points(dtype=dtype)
    kernel = KERNEL_CASES[name]
    return KernelGram(kernel, FORMS[form](X, tmp_path)), naive(kernel, X)


@every_kernel
@every_form
@both_precisions
@points_of_both_kinds
class TestAgainstTheFormula:
    def test_rows(self, case):
        gram, K = case
        assert gram.n == len(K)
        index = np.array([5, 0, 149, 7, 3])
        rows = gram.rows(index)
        assert rows.dtype == gram.dtype
        np.testing.assert_allclose(rows, K[index], **ROWS)
        np.testing.assert_allclose(gram.rows(np.arange(150)), K, **ROWS)

    def test_rows_into_slots(self, case):
        gram, K = case
        index = np.array([5, 0, 149, 7])
        for slots in (np.array([2, 3, 4, 5]), np.array([6, 1, 0, 3])):
            slab = np.full((8, gram.n), -77.0, gram.dtype)
            gram.rows(index, slab, slots)
            np.testing.assert_allclose(slab[slots], K[index], **ROWS)
            others = np.setdiff1d(np.arange(8), slots)
            assert (slab[others] == -77.0).all()

    def test_exact_products(self, case):
        gram, K = case
        rng = np.random.default_rng(1)
        v = np.where(rng.random(gram.n) < 0.5, rng.normal(size=gram.n), 0.0)
        scale = np.abs(K) @ np.abs(v) + 1.0
        np.testing.assert_allclose(gram.matvec(v) / scale, K @ v / scale, **EXACT)
        index, at = rng.permutation(gram.n)[:70], rng.permutation(gram.n)[:90]
        coef = rng.normal(size=70)
        exact = gram.combine(index, coef, at)
        assert exact.dtype == np.float64
        np.testing.assert_allclose(exact / scale[at], coef @ K[np.ix_(index, at)] / scale[at], **EXACT)
        np.testing.assert_allclose(gram.combine(index, coef) / scale, coef @ K[index] / scale, **EXACT)

    def test_quick_products(self, case):
        gram, K = case
        rng = np.random.default_rng(1)
        index, at = rng.permutation(gram.n)[:70], rng.permutation(gram.n)[:90]
        coef = rng.normal(size=70)
        atol = ROW_ERROR * np.abs(coef).sum()
        np.testing.assert_allclose(gram.combine(index, coef, at, exact=False), coef @ K[np.ix_(index, at)], atol=atol)
        np.testing.assert_allclose(gram.combine(index, coef, exact=False), coef @ K[index], atol=atol)

    def test_diagonal(self, case):
        gram, K = case
        diagonal = gram.diag()
        assert diagonal.dtype == np.float64
        np.testing.assert_allclose(diagonal, K.diagonal(), **EXACT)

    def test_dense(self, case):
        gram, K = case
        dense = gram.dense()
        assert dense.dtype == np.float64
        np.testing.assert_allclose(dense, K, **ROWS)

    def test_block(self, case):
        gram, K = case
        index = np.array([140, 3, 7, 20, 0, 99])
        block = gram.block(index)
        assert block.dtype == np.float64
        np.testing.assert_allclose(block, K[np.ix_(index, index)], **EXACT)

    def test_wide(self, case):
        gram, K = case
        wide = gram.wide()
        assert wide.dtype == np.float64
        np.testing.assert_allclose(wide.rows(np.arange(0, 150, 7)), K[::7], **EXACT)
        np.testing.assert_allclose(wide.take(np.arange(5)).rows(np.arange(5)), K[:5, :5], **EXACT)

    def test_take(self, case):
        gram, K = case
        index = np.array([140, 3, 7, 20, 0, 99])
        part, small = gram.take(index), K[np.ix_(index, index)]
        assert part.n == 6
        assert part.dtype == gram.dtype
        np.testing.assert_allclose(part.rows(np.arange(6)), small, **ROWS)
        np.testing.assert_allclose(part.diag(), small.diagonal(), **EXACT)
        v = np.arange(1.0, 7.0)
        np.testing.assert_allclose(part.matvec(v), small @ v, rtol=1e-10, atol=1e-10)
        again = part.take(np.array([1, 5]))
        np.testing.assert_allclose(again.rows(np.arange(2)), small[np.ix_([1, 5], [1, 5])], **ROWS)

    def test_duplicates(self, case):
        gram, K = case
        first = gram.duplicates()
        assert first[7] == first[10] == first[20] == 7
        assert first[8] == 8
        np.testing.assert_array_equal(first[first], first)
        np.testing.assert_array_equal(K[first], K)


@every_kernel
def test_evaluations_are_counted(name):
    gram = KernelGram(KERNEL_CASES[name], dense_points())
    gram.rows(np.arange(3))
    assert gram.evals == 3 * 150
    gram.take(np.arange(10)).rows(np.arange(2))
    assert gram.evals == 3 * 150 + 2 * 10
    gram.combine(np.arange(4), np.ones(4), np.arange(5))
    assert gram.evals == 3 * 150 + 2 * 10 + 4 * 5
    gram.matvec(np.r_[1.0, np.zeros(149)])
    assert gram.evals == 3 * 150 + 2 * 10 + 4 * 5 + 150


@every_kernel
@both_precisions
def test_many_features(name, dtype):
    """Beyond DIRECT_FEATURES a block holds only the features that its rows have."""
    X = sparse_points(200, 5 * DIRECT_FEATURES, 0.004, dtype=dtype)
    gram, K = KernelGram(KERNEL_CASES[name], sp.csr_matrix(X)), naive(KERNEL_CASES[name], X)
    assert gram.exact.sparse
    np.testing.assert_allclose(gram.rows(np.arange(200)), K, **ROWS)
    index = np.random.default_rng(0).permutation(200)[:130]
    np.testing.assert_allclose(gram.rows(index), K[index], **ROWS)
    v = np.random.default_rng(1).normal(size=200)
    np.testing.assert_allclose(gram.matvec(v), K @ v, rtol=1e-10, atol=1e-10)


@every_kernel
def test_many_features_without_any_entry(name):
    X = np.zeros((70, 2 * DIRECT_FEATURES))
    X[4, 1500] = 2.0
    gram, K = KernelGram(KERNEL_CASES[name], sp.csr_matrix(X)), naive(KERNEL_CASES[name], X)
    np.testing.assert_allclose(gram.rows(np.arange(70)), K, **ROWS)
    np.testing.assert_allclose(gram.matvec(np.ones(70)), K.sum(axis=0), **EXACT)


@every_kernel
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_points_of_zeros(name, make):
    X = np.zeros((5, 3))
    gram = KernelGram(KERNEL_CASES[name], make(X))
    np.testing.assert_allclose(gram.dense(), naive(KERNEL_CASES[name], X), **ROWS)


@every_kernel
def test_dense_points_with_many_zeros_are_used_as_sparse_ones(name):
    X = sparse_points(150, 400, 0.05)
    gram, K = KernelGram(KERNEL_CASES[name], X), naive(KERNEL_CASES[name], X)
    assert gram.exact.sparse
    np.testing.assert_allclose(gram.dense(), K, **ROWS)


@every_kernel
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_other_numbers_become_float64(name, dtype, make):
    X = (np.random.default_rng(0).random((30, 6)) < 0.2).astype(dtype)
    gram = KernelGram(KERNEL_CASES[name], make(X))
    np.testing.assert_allclose(gram.matvec(np.ones(30)), naive(KERNEL_CASES[name], X).sum(axis=0), **EXACT)
    np.testing.assert_allclose(gram.dense(), naive(KERNEL_CASES[name], X), **ROWS)


@every_kernel
def test_csr_in_any_order_with_repeated_entries(name):
    """Column numbers need not ascend, and entries of the same place add up: that is what CSR means."""
    rng = np.random.default_rng(0)
    indptr = np.arange(0, 241, 4)
    indices = rng.integers(0, 30, 240)
    matrix = sp.csr_matrix((rng.normal(size=240), indices, indptr), shape=(60, 30))
    assert not matrix.has_canonical_format
    before = matrix.indices.copy()
    K = naive(KERNEL_CASES[name], matrix.toarray())
    gram = KernelGram(KERNEL_CASES[name], matrix)
    np.testing.assert_allclose(gram.dense(), K, **ROWS)
    np.testing.assert_allclose(gram.matvec(np.ones(60)), K.sum(axis=0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gram.diag(), K.diagonal(), rtol=1e-10)
    np.testing.assert_array_equal(matrix.indices, before)  # the caller's matrix is left as it was


@every_kernel
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_the_number_of_threads_changes_nothing(name, jobs):
    for X in (dense_points(2500), sp.csr_matrix(sparse_points(2500, 60, 0.1))):
        alone, many = (KernelGram(KERNEL_CASES[name], X, n_jobs=k) for k in (1, jobs))
        index = np.arange(0, 2500, 20)
        np.testing.assert_allclose(many.rows(index), alone.rows(index), rtol=0, atol=1e-6)
        v = np.random.default_rng(0).normal(size=2500)
        np.testing.assert_allclose(many.matvec(v), alone.matvec(v), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, 2.5])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_degrees(degree, make):
    X = np.abs(sparse_points(80, 12))  # a broken degree needs a base that is not negative
    kernel = Kernel("poly", gamma=0.2, coef0=0.5, degree=degree)
    gram = KernelGram(kernel, make(X))
    np.testing.assert_allclose(gram.dense(), naive(kernel, X), **ROWS)
    np.testing.assert_allclose(gram.matvec(np.ones(80)), naive(kernel, X).sum(axis=0), **EXACT)


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_degrees_of_a_negative_base(degree):
    X = dense_points(80)
    kernel = Kernel("poly", gamma=-1.0, coef0=-0.5, degree=degree)
    np.testing.assert_allclose(KernelGram(kernel, X).dense(), naive(kernel, X), **ROWS)


def error_in_double_precision(kernel: Kernel, X) -> float:
    """What rounding may do to a kernel value: some units of the largest number that it is made from."""
    norm = np.abs(X).sum(axis=1).max() if kernel.name == "laplacian" else (X * X).sum(axis=1).max()
    largest = norm if kernel.name == "linear" else kernel.gamma * norm
    degree = kernel.degree if kernel.name == "poly" else 1
    return 32 * np.finfo(np.float64).eps * degree * max(1.0, largest) ** degree


@given(
    name=st.sampled_from(sorted(KERNELS)),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([1e-3, 1.0, 30.0, 1000.0]),
    offset=st.sampled_from([0.0, 1.0, 100.0]),
    gamma=st.sampled_from([1e-3, 0.1, 1.0, 50.0]),
    sparse=st.booleans(),
    single=st.booleans(),
)
@settings(max_examples=200)
def test_rows_are_as_accurate_as_promised(name, seed, scale, offset, gamma, sparse, single):
    """float32 where its error is below ROW_ERROR, float64 elsewhere: the rows are right either way."""
    rng = np.random.default_rng(seed)
    X = offset + scale * rng.normal(size=(40, 10))
    if sparse:
        X[rng.random(X.shape) < 0.85] = 0.0
    X = X.astype(np.float32 if single else np.float64)
    kernel = Kernel(name, gamma=gamma, degree=2)
    gram, K = KernelGram(kernel, sp.csr_matrix(X) if sparse else X), naive(kernel, X)
    exact_error = error_in_double_precision(kernel, X.astype(np.float64))
    np.testing.assert_allclose(gram.rows(np.arange(40)), K, rtol=0, atol=max(ROW_ERROR, exact_error))
    np.testing.assert_allclose(gram.matvec(np.eye(40)[0]), K[0], rtol=0, atol=exact_error)


@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@both_precisions
def test_large_norms_are_computed_in_double_precision(name, make, dtype):
    small, large = dense_points(40, dtype=dtype), (1000.0 * dense_points(40)).astype(dtype)
    kernel = Kernel(name, gamma=0.5, degree=2)
    assert KernelGram(kernel, make(small)).dtype == np.float32
    assert KernelGram(kernel, make(large)).dtype == np.float64


def test_far_away_points_of_small_spread_stay_in_single_precision():
    """Distances do not change with the origin, so that the RBF kernel may centre dense points."""
    X = 1000.0 + dense_points(60)
    gram = KernelGram(Kernel("rbf", gamma=1.0), X)
    assert gram.dtype == np.float32
    np.testing.assert_allclose(gram.dense(), naive(gram.kernel, X), **ROWS)


def test_points_are_not_changed():
    for name in KERNELS:
        X = dense_points()
        before = X.copy()
        gram = KernelGram(KERNEL_CASES[name], X)
        gram.rows(np.arange(5))
        gram.matvec(np.ones(150))
        gram.dense()
        np.testing.assert_array_equal(X, before)


def test_exponential_of_the_leaves_is_accurate_to_two_units():
    for dtype, least in ((np.float32, -87.0), (np.float64, -708.0)):
        x = np.linspace(least, 0.0, 20_001).astype(dtype)
        block, nothing = x[None, :].copy(), np.zeros(len(x), dtype)
        transform(block, 0, block.shape[1], *Kernel("rbf", gamma=0.5).spec, nothing[:1], nothing)
        true = np.exp(x.astype(np.longdouble))
        assert (np.abs(block[0] - true) / np.spacing(true.astype(dtype))).max() <= 2.0


def test_far_apart_points_have_kernel_values_of_nearly_zero():
    X = np.array([[0.0], [1e3], [-1e3]])
    for name in ("rbf", "laplacian"):
        rows = KernelGram(Kernel(name, gamma=10.0), X).dense()
        np.testing.assert_allclose(rows, np.eye(3), rtol=0, atol=1e-37)


def test_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="was asked for; found kernel='rfb'; .*rbf"):
        Kernel("rfb")


def test_no_matrix_that_does_not_fit_into_memory(monkeypatch):
    gram = KernelGram(Kernel(), dense_points())

    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr("maxmargin.gram.base.np.empty", full)
    with pytest.raises(MemoryError, match="150 × 150 .*GiB"):
        gram.dense()
