"""Centres for far features, against exact arithmetic: the same problem in better numbers."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from maxmargin.gram import Factored
from maxmargin.rows import Dense, Rows, Sparse, Stored
from maxmargin.rows.centre import FAR_FROM_ORIGIN, centred, far_centre, variance

N, D = 300, 6
FAR_COLUMNS = np.array([1, 4])


def points(dtype=np.float64, density=1.0) -> np.ndarray:
    """Columns 1 and 4 are far away, column 3 is always 0; the others are ordinary."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    X[rng.random((N, D)) >= density] = 0.0
    X[:, 1] = 1e6 + rng.normal(size=N)
    X[:, 4] = -3e4 + 5.0 * rng.normal(size=N)
    X[:, 3] = 0.0
    return X.astype(dtype)


def memory_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


FORMS = {
    "array": lambda X, folder: X,
    "Fortran array": lambda X, folder: np.asfortranarray(X),
    "csr_matrix": lambda X, folder: sp.csr_matrix(X),
    "csr_array": lambda X, folder: sp.csr_array(X),
    "rows": lambda X, folder: Rows.of(X),
    "sparse rows": lambda X, folder: Rows.of(sp.csr_array(X)),
    "rows on disk": lambda X, folder: Rows.of(memory_map(X, folder)),
    "rows of several kinds": lambda X, folder: Rows.of([X[:50], sp.csr_array(X[50:90]), X[90:]]),
    "rows on disk and elsewhere": lambda X, folder: Rows.of(
        [memory_map(X[:50], folder), sp.csr_array(X[50:90]), X[90:]]
    ),
}


def dense(X) -> np.ndarray:
    X = X.matrix() if isinstance(X, Rows) else X
    return X.toarray() if sp.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("density", [1.0, 0.2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestEveryForm:
    def test_far_features_have_a_centre(self, form, density, dtype, tmp_path):
        X = points(dtype, density)
        centre = far_centre(FORMS[form](X, tmp_path))
        np.testing.assert_array_equal(np.flatnonzero(centre), FAR_COLUMNS)
        spread = X[:, FAR_COLUMNS].std(axis=0, dtype=np.float64)
        mean = X[:, FAR_COLUMNS].mean(axis=0, dtype=np.float64)
        assert (np.abs(centre[FAR_COLUMNS] - mean) <= spread).all()

    def test_differences_are_exact(self, form, density, dtype, tmp_path):
        X = points(dtype, density)
        given = FORMS[form](X, tmp_path)
        centre = far_centre(given)
        moved = centred(given, centre)
        assert type(moved) is type(given)
        for j in range(D):
            exact = [Fraction(float(x)) - Fraction(float(centre[j])) for x in X[:, j]]
            assert [Fraction(float(x)) for x in dense(moved)[:, j]] == exact
        np.testing.assert_array_equal(dense(given), X)  # and the given ones are left as they were

    def test_products(self, form, density, dtype, tmp_path):
        """What solvers ask of rows, and what a Gram is where Σβ = 0."""
        X = points(dtype, density)
        given = FORMS[form](X, tmp_path)
        rows = given if isinstance(given, Rows) else Rows.of(given)
        moved = centred(rows, far_centre(rows))
        away = dense(moved).astype(np.float64)
        rng = np.random.default_rng(1)
        w, v = rng.normal(size=D), rng.normal(size=N)
        np.testing.assert_allclose(moved.dot(w), away @ w, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(moved.t_dot(v), away.T @ v, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(moved.normal(v * v), away.T @ (v * v * away.T).T, rtol=1e-12, atol=1e-9)
        some = rng.permutation(N)[:40]
        np.testing.assert_array_equal(dense(moved.take(some)), dense(moved)[some])
        beta = np.where(rng.random(N) < 0.5, 1.0, -1.0)
        beta[: abs(int(beta.sum()))] -= np.sign(beta.sum())
        assert beta.sum() == 0.0
        pulled = X.astype(np.longdouble).T @ beta.astype(np.longdouble)
        np.testing.assert_allclose(beta @ Factored(moved).matvec(beta), float(pulled @ pulled), rtol=1e-11)


def test_single_precision_stays_where_it_is_exact():
    X = points(np.float32)
    assert centred(X, far_centre(X)).dtype == np.float32
    assert centred(sp.csr_array(X), far_centre(X)).dtype == np.float32
    X[3, 1] = 1e-3  # needs more digits as seen from 1e6
    centre = far_centre(points(np.float32))
    moved = centred(X, centre)
    assert moved.dtype == np.float64 and moved[3, 1] == float(np.float32(1e-3)) - centre[1]


def test_whole_numbers_become_real_ones():
    X = np.random.default_rng(0).integers(1_000_000, 1_000_010, (50, 2))
    moved = centred(X, far_centre(X))
    assert moved.dtype == np.float64
    np.testing.assert_array_equal(moved, X - far_centre(X))


def test_sparse_rows_stay_sparse():
    """A far feature is full: what is present in a share ρ of the rows has (mean / spread)² ≤ ρ / (1 − ρ)."""
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 500), density=0.02, rng=rng, format="lil")
    X[:, 7] = 1e5 + rng.normal(size=(2000, 1))
    X[:, 9] = np.where(rng.random((2000, 1)) < 0.99, 1e9, 0.0)  # large, but in and out
    X = X.tocsr()
    centre = far_centre(X)
    np.testing.assert_array_equal(np.flatnonzero(centre), [7])
    moved = centred(X, centre)
    assert moved.nnz <= X.nnz and moved.has_canonical_format
    np.testing.assert_array_equal(moved.toarray(), X.toarray() - centre)


def test_rows_on_disk_stay_there(tmp_path):
    rows = Rows.of(memory_map(points(), tmp_path))
    moved = centred(rows, far_centre(rows))
    assert all(isinstance(block, Stored) for block in moved.blocks)
    loaded = []
    for block in rows.blocks:
        load = block.load
        block.load = lambda a, b, load=load: loaded.append(b - a) or load(a, b)
    far_centre(Rows([Stored(rows.blocks[0].load, N, D, 10)], 1))
    assert max(loaded) <= 10


def test_rows_in_memory_lie_one_behind_the_other():
    """So that sweeps can take them in any order without a copy."""
    for X, kind in (
        (np.vstack([points()] * 200), Dense),
        (sp.csr_array(np.vstack([points(density=0.1)] * 200)), Sparse),
    ):
        rows = Rows.of(X, 4)
        assert len(rows.blocks) > 1
        moved = centred(rows, far_centre(rows))
        assert len(moved.blocks) > 1 and all(isinstance(block, kind) for block in moved.blocks)
        first, second = moved.blocks[:2]
        if kind is Dense:
            assert first.data.ctypes.data + first.data.nbytes == second.data.ctypes.data
        else:
            assert first.data is second.data


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine])
def test_ordinary_data_are_left_alone(load):
    X = load().data
    for given in (X, sp.csr_array(X), Rows.of(X), (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)):
        centre = far_centre(given)
        assert not centre.any() and centre.shape == (X.shape[1],)
        assert centred(given, centre) is given


def test_how_far_is_far():
    away = np.random.default_rng(0).normal(size=(4000, 1))
    away = (away - away.mean()) / away.std()
    assert not far_centre(away + 0.9 * FAR_FROM_ORIGIN).any()
    assert far_centre(away + 1.1 * FAR_FROM_ORIGIN).any()
    assert far_centre(1e-9 * (away - 1.1 * FAR_FROM_ORIGIN)).any()


@pytest.mark.parametrize("value", [1.0, -0.1, 1e300, 1e-300, 5e-324, 12345.678])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_constant_features_vanish(value, make):
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[:, 0] = value
    centre = far_centre(make(X))
    np.testing.assert_array_equal(centre, [value, 0.0])
    np.testing.assert_array_equal(dense(centred(make(X), centre)), np.column_stack([np.zeros(100), X[:, 1]]))


def test_numbers_too_large_to_be_squared_are_left_alone():
    X = np.array([[1e200, 1.0], [2e200, 2.0], [-1e200, 3.0]])
    assert not far_centre(X).any()


def test_weights_are_copies():
    X = points()
    weight = np.random.default_rng(2).integers(0, 4, N)
    X[weight == 0] = 1e12  # who is absent has no say
    np.testing.assert_array_equal(far_centre(X, weight), far_centre(np.repeat(X, weight, axis=0)))
    assert not far_centre(X, np.zeros(N)).any()
    assert variance(X, weight) == pytest.approx(variance(np.repeat(X, weight, axis=0)), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1.7e9])
@pytest.mark.parametrize("form", FORMS)
def test_variance_of_all_entries(offset, form, tmp_path):
    X = np.where(np.random.default_rng(0).random((N, D)) < 0.3, 0.0, 60.0 * np.random.default_rng(1).random((N, D)))
    X = X if form.startswith("rows of") or "csr" in form or "sparse" in form else X + offset
    true = float(X.astype(np.longdouble).var())
    assert variance(FORMS[form](X, tmp_path)) == pytest.approx(true, rel=1e-12)


def test_variance_of_sparse_rows_far_away():
    """The difference of two moments would be rounding: 2.9e18 − 2.9e18."""
    X = 1.7e9 + 60.0 * np.random.default_rng(0).random((N, 1))
    assert variance(sp.csr_array(X)) == pytest.approx(float(X.astype(np.longdouble).var()), rel=1e-9)
    assert variance(np.full((5, 2), 0.1)) == pytest.approx(0.0, abs=1e-30)


@pytest.mark.parametrize("value", [0.0, 7.0, 0.1, -1e8])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_equal_entries_do_not_vary_whatever_their_weights(value, form):
    """What rounding leaves of the mean is no variance: gamma="scale" would be its inverse, 1e30 and more."""
    for seed in range(20):
        weight = np.random.default_rng(seed).uniform(0.1, 3.0, 15)
        assert variance(form(np.full((15, 2), value)), weight) == 0.0
    X = np.full((15, 2), 7.0)
    X[3, 1] = np.nextafter(7.0, 8.0)
    assert variance(form(X)) == pytest.approx(np.var(X - 7.0), rel=1e-12)
