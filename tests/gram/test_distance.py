"""Kernels of distances for points far from the origin and from each other, against extended precision."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from maxmargin.gram import Kernel, KernelGram, distance
from maxmargin.gram.base import ROW_ERROR
from maxmargin.gram.distance import ENTRY_ERROR, cross, weigh
from maxmargin.gram.points import make_points

N = 120


def far_points(kind: str, d: int) -> np.ndarray:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(N, d))
    X[10] = X[20] = X[7]
    side = np.where(rng.random((N, 1)) < 0.5, 1.0, -1.0)
    if kind == "sparse with a far column":
        X[rng.random(X.shape) < 0.8] = 0.0
        X[:, 0] = 1e7 + rng.normal(size=N)
        X[3, 0] = 0.0
    return {
        "all far": 1e9 + X,
        "timestamps": 1.7e9 + 60.0 * X,
        "two clusters": 1e8 * side + X,
        "two clusters very far apart": 1e12 * side + X,
        "five clusters": 1e6 * rng.integers(0, 5, (N, 1)) + X,
        "one outlier": np.where(np.arange(N)[:, None] == 5, 1e9, X),
        "one far column": X + 1e7 * (np.arange(d) == 0),
        "moderately far": 30.0 + X,
        "sparse with a far column": X,
    }[kind]


KINDS = [
    "all far", "timestamps", "two clusters", "two clusters very far apart", "five clusters", "one outlier",
    "one far column", "moderately far", "sparse with a far column",
]  # fmt: skip


def memory_map(X, folder):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


FORMS = {
    "C order": lambda X, folder: X,
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "float32": lambda X, folder: X.astype(np.float32),
    "memory map": memory_map,
    "float32 memory map": lambda X, folder: memory_map(X.astype(np.float32), folder),
    "CSR": lambda X, folder: sp.csr_matrix(X),
    "float32 CSR": lambda X, folder: sp.csr_matrix(X.astype(np.float32)),
}


def precise(kernel: Kernel, X, Z=None) -> np.ndarray:
    """The kernel from differences in extended precision."""
    X, Z = (
        np.asarray(side.toarray() if sp.issparse(side) else side, np.longdouble) for side in (X, X if Z is None else Z)
    )
    out = np.empty((len(X), len(Z)))
    for i, x in enumerate(X):
        away = np.abs(x - Z)
        out[i] = np.exp(-np.longdouble(kernel.gamma) * (away * away if kernel.name == "rbf" else away).sum(axis=1))
    return out


@pytest.fixture(params=["rbf", "laplacian"])
def name(request):
    return request.param


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d, gamma", [(1, 0.2), (40, 0.005), (40, 1e4)])
def test_entries_wherever_the_points_are(name, kind, form, d, gamma, tmp_path):
    X = FORMS[form](far_points(kind, d), tmp_path)
    kernel = Kernel(name, gamma)
    gram, K = KernelGram(kernel, X), precise(kernel, X)
    index, at = np.arange(0, N, 7), np.arange(1, N, 3)
    coef = np.random.default_rng(0).normal(size=len(index))
    size = np.abs(coef).sum()
    np.testing.assert_allclose(gram.block(index), K[np.ix_(index, index)], rtol=0, atol=ENTRY_ERROR)
    np.testing.assert_allclose(gram.wide().rows(index), K[index], rtol=0, atol=ENTRY_ERROR)
    np.testing.assert_allclose(gram.combine(index, coef), coef @ K[index], rtol=0, atol=ENTRY_ERROR * size)
    np.testing.assert_allclose(gram.combine(index, coef, at), coef @ K[index][:, at], rtol=0, atol=ENTRY_ERROR * size)
    np.testing.assert_allclose(gram.rows(index), K[index], rtol=0, atol=ROW_ERROR)
    some = gram.take(at)
    np.testing.assert_allclose(some.matvec(np.ones(len(at))), K[np.ix_(at, at)].sum(axis=0), atol=ENTRY_ERROR * N)
    slab = np.full((6, N), -77.0, gram.wide().dtype)
    gram.wide().rows(np.array([5, 0, 9]), slab, np.array([4, 0, 1]))
    np.testing.assert_allclose(slab[[4, 0, 1]], K[[5, 0, 9]], rtol=0, atol=ENTRY_ERROR)
    assert (slab[[2, 3, 5]] == -77.0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["C order", "float32", "memory map", "CSR"])
@pytest.mark.parametrize("few", [1, 50])
def test_new_points(name, kind, form, few, tmp_path):
    """As prediction does: coefficients of some points, at others."""
    X = far_points(kind, 3)
    kernel = Kernel(name, 0.1)
    old, new = (FORMS[form](part, tmp_path) for part in (X[:few], X[50:]))
    left = make_points(old, kernel).astype(np.float64)
    right = make_points(new, kernel, like=left)
    K = precise(kernel, old, new)
    coef = np.random.default_rng(0).normal(size=(few, 3))
    np.testing.assert_allclose(weigh(kernel, left, coef, right), K.T @ coef, rtol=0, atol=ENTRY_ERROR * few)
    np.testing.assert_allclose(cross(kernel, left, right.astype(np.float64)), K, rtol=0, atol=ENTRY_ERROR)


def test_a_point_meets_itself_and_its_copies(name):
    """Where differences decide, equal points are equal: 1 on the diagonal and at copies, the same rows."""
    gram = KernelGram(Kernel(name, 0.5), far_points("two clusters", 5)).wide()
    K = gram.block(np.arange(N))
    assert (K.diagonal() == 1.0).all() and K[7, 10] == K[10, 20] == 1.0
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K[7], K[20])
    np.testing.assert_array_equal(gram.duplicates()[[7, 10, 20]], 7)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_the_number_of_threads_changes_no_bit(name, make):
    X = np.vstack([far_points("five clusters", 40) + shift for shift in np.arange(10.0)])
    kernel = Kernel(name, 0.01)
    one, three = (KernelGram(kernel, make(X), n_jobs=k).wide() for k in (1, 3))
    v = np.random.default_rng(0).normal(size=len(X))
    np.testing.assert_array_equal(one.matvec(v), three.matvec(v))
    np.testing.assert_array_equal(one.rows(np.arange(300)), three.rows(np.arange(300)))


def test_ordinary_points_are_left_to_products(name, monkeypatch):
    """Standardised features, raw digits, large γ where it still does no harm: not even looked at pair by pair."""
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(200, 30))
    cases = [
        (plain, 1 / 30), (plain, 1.0), (load_digits().data, 1e-3), (load_digits().data / 16, 1.0),
        (sp.random_array((300, 500), density=0.05, rng=rng, format="csr"), 1.0), (1.0 + plain, 1 / 30),
    ]  # fmt: skip
    looks, plain_look = [], distance._each_tile
    monkeypatch.setattr(distance, "_each_tile", lambda *args: (looks.append(1), plain_look(*args))[1])

    def ask(X, gamma):
        gram = KernelGram(Kernel(name, gamma), X)
        gram.wide().rows(np.arange(5))
        gram.combine(np.arange(9), np.ones(9))
        gram.block(np.arange(9))

    for X, gamma in cases:
        ask(X, gamma)
    assert not looks
    ask(np.vstack([plain[:30], 1e9 + plain[:30]]), 0.5)  # these are looked at: the list above could have been longer
    assert looks


def test_rows_on_disk_are_not_copied_as_a_whole(tmp_path):
    rng = np.random.default_rng(0)
    X = memory_map(1e8 + rng.normal(size=(200_000, 16)), tmp_path)
    gram = KernelGram(Kernel("rbf", 0.1), X, n_jobs=1)
    index = rng.integers(0, len(X), 20)
    tracemalloc.start()
    try:
        found = gram.combine(index, np.ones(20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 2
    some = np.arange(0, len(X), 997)
    K = precise(gram.kernel, np.asarray(X[index]), np.asarray(X[some]))
    np.testing.assert_allclose(found[some], K.sum(axis=0), rtol=0, atol=20 * ENTRY_ERROR)


def test_sparse_points_that_no_centre_helps_are_mended_where_they_lie():
    rng = np.random.default_rng(5)
    X = np.where(rng.random((N, 40)) < 0.1, rng.normal(size=(N, 40)), 0.0)
    X[:, :3] *= 1e6  # long rows, and short ones
    X[20] = X[7]
    kernel = Kernel("rbf", gamma=1e-3)
    points = make_points(sp.csr_array(X), kernel, like=make_points(sp.csr_array(np.eye(40)), kernel))
    assert points.sparse
    difference = X[:, None, :].astype(np.longdouble) - X
    expected = np.exp(-1e-3 * (difference**2).sum(axis=2)).astype(float)
    out, slots = np.full((N + 3, N), np.nan), np.r_[5, 1, 122, 7]
    cross(kernel, points.take(np.array([7, 20, 3, 50])), points, out, slots)
    np.testing.assert_allclose(out[slots], expected[[7, 20, 3, 50]], rtol=0, atol=ENTRY_ERROR)
    np.testing.assert_allclose(cross(kernel, points, points, threads=2), expected, rtol=0, atol=ENTRY_ERROR)
    assert np.isnan(out[0]).all()
