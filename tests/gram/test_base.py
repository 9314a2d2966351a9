"""Grams from a matrix and from a function."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.gram import CallableGram, Gram, Kernel, KernelGram, PrecomputedGram, Ridged, Shifted, Signed, as_gram


def symmetric(n=30, seed=0, dtype=np.float64):
    B = np.random.default_rng(seed).normal(size=(n, n))
    return np.round(4 * (B + B.T)).astype(dtype) if np.issubdtype(dtype, np.integer) else (B + B.T).astype(dtype)


def check(gram: Gram, K: np.ndarray) -> None:
    """All that a Gram answers, against the matrix that it stands for."""
    n = len(K)
    rng = np.random.default_rng(3)
    index, at = rng.permutation(n)[: n // 2], rng.permutation(n)[: n // 3]
    coef, v = rng.normal(size=len(index)), rng.normal(size=n)
    close = dict(rtol=1e-12, atol=1e-12 * np.abs(K).max() * n)
    assert gram.n == n
    np.testing.assert_allclose(gram.rows(index), K[index], rtol=1e-6)
    assert gram.rows(index).dtype == gram.dtype
    slab = np.full((n, n), np.nan, gram.dtype)
    slots = rng.permutation(n)[: len(index)]
    gram.rows(index, slab, slots)
    np.testing.assert_allclose(slab[slots], K[index], rtol=1e-6)
    assert np.isnan(slab).sum() == n * (n - len(slots))
    np.testing.assert_allclose(gram.diag(), K.diagonal(), rtol=1e-12)
    np.testing.assert_allclose(gram.dense(), K, rtol=1e-6)
    np.testing.assert_allclose(gram.matvec(v), K @ v, **close)
    for exact in (True, False):
        np.testing.assert_allclose(gram.combine(index, coef, exact=exact), coef @ K[index], **close)
        np.testing.assert_allclose(gram.combine(index, coef, at, exact), coef @ K[np.ix_(index, at)], **close)
    np.testing.assert_allclose(gram.block(index), K[np.ix_(index, index)], rtol=1e-12)
    none = np.zeros(0, np.int64)
    for some, weights in (
        (index, coef),
        (none, np.zeros(0)),
        (index, np.stack([coef, -coef], 1)),
        (none, np.zeros((0, 2))),
    ):
        found = gram.combine_watched(some, weights, at, lambda: None, exact=True)
        np.testing.assert_allclose(found, (weights.T @ K[np.ix_(some, at)]).T, **close)
    np.testing.assert_array_equal(gram.combine(none, np.zeros(0)), np.zeros(n))
    np.testing.assert_array_equal(gram.matvec(np.zeros(n)), np.zeros(n))


MATRICES = {
    "float64": lambda folder: symmetric(),
    "float32": lambda folder: symmetric(dtype=np.float32),
    "int": lambda folder: symmetric(dtype=np.int64),
    "Fortran order": lambda folder: np.asfortranarray(symmetric()),
    "strided": lambda folder: np.kron(symmetric(), np.ones((2, 2)))[::2, ::2],
}


@pytest.mark.parametrize("kind", [*MATRICES, "read-only memory map"])
def test_precomputed(kind, tmp_path):
    if kind == "read-only memory map":
        np.save(tmp_path / "K.npy", symmetric())
        K = np.load(tmp_path / "K.npy", mmap_mode="r")
    else:
        K = MATRICES[kind](tmp_path)
    before = np.array(K)
    exact = before.astype(np.float64)
    gram = PrecomputedGram(K)
    check(gram, exact)
    index = np.array([20, 3, 7, 29, 0, 11, 12, 13])
    check(gram.take(index), exact[np.ix_(index, index)])
    again = np.array([5, 1, 2, 7])
    check(gram.take(index).take(again), exact[np.ix_(index[again], index[again])])
    np.testing.assert_array_equal(K, before)


def test_precomputed_in_blocks(monkeypatch):
    monkeypatch.setattr("maxmargin.gram.matrices.BLOCK_BYTES", 1000)
    check(PrecomputedGram(symmetric()), symmetric())
    X = np.random.default_rng(0).normal(size=(30, 3))
    check(CallableGram(lambda A, B: A @ B.T, X), X @ X.T)


def test_precomputed_counts_entries_that_it_reads():
    gram = PrecomputedGram(symmetric())
    gram.rows(np.arange(4))
    assert gram.evals == 4 * 30


def test_plain_arrays_become_grams():
    gram = as_gram([[2, 1], [1, 2]])
    np.testing.assert_array_equal(gram.dense(), [[2.0, 1.0], [1.0, 2.0]])
    assert as_gram(gram) is gram


def test_equal_rows_of_a_matrix_are_not_looked_for():
    assert PrecomputedGram(np.ones((3, 3))).duplicates() is None


KINDS = {"dense": np.asarray, "sparse": sp.csr_matrix}


@pytest.mark.parametrize("kind", KINDS)
def test_callable(kind):
    X = np.random.default_rng(0).normal(size=(30, 4))

    def product(A, B):
        return A @ B.T  # dense or sparse, as the points are

    gram = CallableGram(product, KINDS[kind](X))
    check(gram, X @ X.T)
    index = np.array([20, 3, 7, 29, 0, 11, 12, 13])
    check(gram.take(index), (X @ X.T)[np.ix_(index, index)])


def test_callable_counts_evaluations():
    asked = []

    def product(A, B):
        asked.append(len(A) * len(B))
        return A @ B.T

    gram = CallableGram(product, np.ones((10, 2)))
    gram.rows(np.arange(3))
    gram.take(np.arange(4)).diag()
    gram.combine(np.arange(2), np.ones(2), np.arange(5))
    assert gram.evals == sum(asked)


def test_callable_of_anything_with_rows():
    """A function may measure points that are no numbers."""
    words = np.array([["kitten"], ["mitten"], ["sitting"]], dtype=object)

    def common(A, B):
        return np.array([[len(set(a[0]) & set(b[0])) for b in B] for a in A])

    np.testing.assert_array_equal(CallableGram(common, words).dense(), [[5, 4, 3], [4, 5, 3], [3, 3, 5]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.ones((len(A), len(B) + 1)), r"matrix of shape \(2, 5\); found shape \(2, 6\)"),
        (lambda A, B: np.ones(len(B)), r"found shape \(5,\)"),
        (lambda A, B: 1.0, r"found shape \(\)"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN or infinity"),
        (lambda A, B: np.full((len(A), len(B)), np.inf), "NaN or infinity"),
    ],
)
def test_a_callable_that_returns_nonsense_is_refused(function, message):
    gram = CallableGram(function, np.ones((5, 2)))
    with pytest.raises(ValueError, match=message):
        gram.rows(np.arange(2))
    with pytest.raises(ValueError):
        gram.combine(np.arange(2), np.ones(2))
    with pytest.raises(ValueError):
        CallableGram(function, np.ones((5, 2))).dense()


@pytest.mark.parametrize(
    "view", [lambda g: Ridged(g, np.ones(4)), lambda g: Shifted(g, 2.0), lambda g: Signed(g, [1, -1, 1, -1])]
)
def test_what_a_callable_returns_belongs_to_the_caller(view):
    """A function that keeps its results must find them unchanged, whatever is made of them."""
    kept = symmetric(4)
    before = kept.copy()
    gram = view(CallableGram(lambda A, B: kept, np.ones((4, 1))))
    gram.rows(np.arange(4))
    gram.block(np.arange(4))
    gram.dense()
    np.testing.assert_array_equal(kept, before)


def test_kernel_grams_of_one_point_and_of_none():
    one = KernelGram(Kernel("rbf"), np.ones((1, 3)))
    np.testing.assert_array_equal(one.dense(), [[1.0]])
    part = one.take(np.zeros(0, np.int64))
    assert part.n == 0
    assert part.rows(np.zeros(0, np.int64)).shape == (0, 0)


def test_points_that_were_taken_are_gathered_when_they_are_needed():
    X = np.random.default_rng(3).normal(size=(40, 5))
    gram = KernelGram(Kernel("rbf", gamma=0.3), X)
    first, second = np.array([7, 3, 30, 11, 2]), np.array([4, 0, 2])
    part = gram.take(first).take(second)
    assert part.dtype == np.float32
    assert part._exact is None  # rows in float32 are all that a solver needs of most parts
    np.testing.assert_array_equal(part.exact.data, X[first[second]])
    np.testing.assert_array_equal(part.matvec(np.ones(3)), gram.block(first[second]).sum(axis=0))


@pytest.mark.parametrize("exact", [True, False])
def test_a_product_in_pieces_gathers_its_points_once(exact, monkeypatch):
    from maxmargin.gram import base
    from maxmargin.gram.points import Points

    X = np.random.default_rng(4).normal(size=(600, 5))
    gram = KernelGram(Kernel("rbf", gamma=0.3), X)
    index, at, looks, gathered = np.arange(0, 600, 2), np.arange(600), [], []
    whole = gram.combine(index, np.ones(300), at, exact)
    take = Points.take

    def watched(self, index):
        gathered.extend([] if isinstance(index, slice) else [index])
        return take(self, index)

    monkeypatch.setattr(base, "PIECE_EVALS", 300 * 100)
    monkeypatch.setattr(Points, "take", watched)
    pieces = gram.combine_watched(index, np.ones(300), at, lambda: looks.append(1), exact)
    np.testing.assert_allclose(pieces, whole, rtol=1e-12 if exact else 1e-5)
    assert len(looks) == 6
    assert len(gathered) == 1  # those of the coefficients; of all others none


def test_columns_of_coefficients_share_a_product_in_pieces(monkeypatch):
    from maxmargin.gram import base

    rng = np.random.default_rng(5)
    X, index, at, columns = rng.normal(size=(400, 3)), np.arange(0, 400, 3), np.arange(350), rng.normal(size=(134, 4))
    kernel = KernelGram(Kernel("rbf", gamma=0.3), X)
    monkeypatch.setattr(base, "PIECE_EVALS", 134 * 100)
    for gram in (kernel, PrecomputedGram(kernel.dense())):
        evals = gram.evals
        found = gram.combine_watched(index, columns, at, lambda: None, exact=True)
        wanted = np.column_stack([gram.combine(index, column, at) for column in columns.T])
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        if gram is kernel:  # one pass for all four, then one for each
            assert gram.evals - evals == 5 * 134 * 350


@pytest.mark.parametrize("sparse", [False, True])
def test_duplicates_of_a_part_are_numbered_in_its_order(sparse):
    """All points are looked at once for all parts, whatever order and however often parts are taken."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(60, 3)).astype(float)
    gram = KernelGram(Kernel("rbf", 0.5), sp.csr_matrix(X) if sparse else X)
    for index in (np.arange(60), rng.permutation(60)[:40], np.array([59, 3, 3, 7])):
        part = gram.take(index)
        for points, one in ((X[index], part), (X[index][::-2], part.take(np.arange(len(index))[::-2]))):
            equal = (points[:, None] == points).all(axis=2)
            np.testing.assert_array_equal(one.duplicates(), equal.argmax(axis=1))
            np.testing.assert_allclose(one.exact.norms, (points * points).sum(axis=1))


def test_the_diagonal_of_a_function_takes_few_calls():
    calls = []

    def product(A, B):
        calls.append(len(A) * len(B))
        return A @ B.T

    X = np.random.default_rng(0).normal(size=(100, 3))
    np.testing.assert_allclose(CallableGram(product, X).diag(), (X * X).sum(axis=1))
    assert len(calls) <= 13 and sum(calls) <= 8 * len(X)
    assert len(CallableGram(product, X[:0]).diag()) == 0
