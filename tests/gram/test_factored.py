"""Factored Grams and the factors that Grams and their views give, against dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.gram import Factored, Kernel, KernelGram, PrecomputedGram, Ridged, Shifted, Signed, Tiled
from maxmargin.rows import Rows

N, D = 40, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
X[7], X[33] = X[20], X[20]
THIN = np.where(np.abs(X) > 1.2, X, 0.0)
RIDGE = RNG.uniform(0.1, 2.0, N)
SIGN = RNG.choice([-1.0, 1.0], N)
SIGNS = RNG.choice([-1.0, 1.0], 2 * N)
SOURCES = {
    "array": lambda folder: X,
    "float32": lambda folder: X.astype(np.float32),
    "sparse": lambda folder: sp.csr_array(X),
    "thin": lambda folder: sp.csr_array(THIN),
    "blocks": lambda folder: [X[:15], sp.csr_array(X[15:])],
    "file": lambda folder: np.save(folder / "x.npy", X) or folder / "x.npy",
}


@pytest.fixture(params=SOURCES)
def case(request, tmp_path):
    gram = Factored(SOURCES[request.param](tmp_path))
    Z = THIN if request.param == "thin" else X
    if request.param == "float32":
        Z = X.astype(np.float32).astype(float)
    return gram, Z, Z @ Z.T


def test_every_question(case):
    gram, Z, K = case
    assert gram.n == N and gram.dtype == np.float64
    index, at = np.array([5, 0, 33, 5]), np.array([1, 30, 2])
    coef = RNG.normal(size=4)
    np.testing.assert_allclose(gram.rows(index), K[index], atol=1e-12)
    out = np.full((9, N), np.nan)
    assert gram.rows(index, out, np.array([8, 2, 4, 0])) is out
    np.testing.assert_allclose(out[[8, 2, 4, 0]], K[index], atol=1e-12)
    assert np.isnan(out[[1, 3, 5, 6, 7]]).all()
    np.testing.assert_allclose(gram.diag(), K.diagonal(), atol=1e-12)
    np.testing.assert_allclose(gram.block(index), K[np.ix_(index, index)], atol=1e-12)
    for exact in (True, False):
        np.testing.assert_allclose(gram.combine(index, coef, exact=exact), coef @ K[index], atol=1e-12)
        np.testing.assert_allclose(gram.combine(index, coef, at, exact), coef @ K[np.ix_(index, at)], atol=1e-12)
    v = RNG.normal(size=N)
    np.testing.assert_allclose(gram.matvec(v), K @ v, atol=1e-11)
    np.testing.assert_allclose(gram.dense(), K, atol=1e-12)
    part = gram.take(index)
    np.testing.assert_allclose(part.dense(), K[np.ix_(index, index)], atol=1e-12)
    assert part.cost is gram.cost and gram.evals > 0
    assert gram.wide() is gram and gram.whole() is None and gram.ridge is None


def test_diagonal_is_not_shared(case):
    gram, _, K = case
    gram.diag()[:] = 0.0
    np.testing.assert_allclose(gram.diag(), K.diagonal())


def test_duplicates(case):
    gram, Z, _ = case
    first = gram.duplicates()
    equal = (Z[:, None] == Z[None]).all(axis=2)
    np.testing.assert_array_equal(first, equal.argmax(axis=1))
    assert first[33] == first[20] == 7


def test_the_factor_of_a_factored_gram(case):
    gram, Z, _ = case
    factor = gram.factor()
    assert factor.rows is gram.Z and factor.ridge is None


LINEAR = {
    "linear kernel": lambda: KernelGram(Kernel("linear"), X),
    "sparse linear kernel": lambda: KernelGram(Kernel("linear"), sp.csr_array(THIN)),
    "factored": lambda: Factored(X),
    "some of a linear kernel": lambda: KernelGram(Kernel("linear"), np.vstack([X, X])).take(np.arange(N)),
    "ridged": lambda: Ridged(Factored(X), RIDGE),
    "ridged twice": lambda: Ridged(Ridged(Factored(X), RIDGE), RIDGE),
    "shifted": lambda: Shifted(Factored(X), 2.0),
    "shifted sparse": lambda: Shifted(Factored(sp.csr_array(THIN)), 2.0),
    "signed": lambda: Signed(Factored(X), SIGN),
    "tiled": lambda: Tiled(Factored(X)),
    "some of tiled": lambda: Tiled(Factored(X)).take(np.array([0, 45, 5, 79])),
    "signed tiled": lambda: Signed(Tiled(Factored(X)), SIGNS),
    "ridged, shifted, signed": lambda: Ridged(Shifted(Signed(Factored(X), SIGN), 0.5), RIDGE),
    "signed ridged": lambda: Signed(Ridged(Factored(sp.csr_array(X)), RIDGE), SIGN),
}


@pytest.mark.parametrize("name", LINEAR)
def test_factors_of_linear_grams(name):
    gram = LINEAR[name]()
    factor = gram.factor()
    assert isinstance(factor.rows, Rows)
    Z = factor.rows.matrix()
    Z = Z.toarray() if sp.issparse(Z) else Z
    ridge = np.zeros(gram.n) if factor.ridge is None else factor.ridge
    np.testing.assert_allclose(Z @ Z.T + np.diag(ridge), gram.block(np.arange(gram.n)), atol=1e-12)
    assert (factor.ridge is None) == (gram.ridge is None)


@pytest.mark.parametrize(
    "gram",
    [
        KernelGram(Kernel("rbf", 0.5), X),
        PrecomputedGram(X @ X.T),
        Ridged(KernelGram(Kernel("poly"), X), RIDGE),
        Tiled(Ridged(Factored(X), RIDGE)),
        Shifted(Factored(X), -1.0),
    ],
    ids=["rbf", "matrix", "ridged poly", "tiled ridge", "negative constant"],
)
def test_no_factor(gram):
    assert gram.factor() is None


@pytest.mark.parametrize("budget", [1, 1 << 30])
def test_a_block_of_sparse_rows_is_the_same_with_many_features_or_few(budget, monkeypatch):
    monkeypatch.setattr("maxmargin.gram.factored.BLOCK_BYTES", budget)  # above it, rows are not made dense
    index = np.array([20, 3, 7, 0])
    np.testing.assert_allclose(Factored(sp.csr_array(THIN)).block(index), THIN[index] @ THIN[index].T, atol=1e-12)


def test_no_coefficients_need_no_rows(monkeypatch, case):
    gram = case[0]
    monkeypatch.setattr(type(gram.Z), "dot", None)
    monkeypatch.setattr(type(gram.Z), "t_dot", None)
    w = gram.pulled(np.zeros(N))
    assert w.shape == (D,) and not w.any()
    assert gram.along(w).shape == (N,) and not gram.along(w).any()


def test_rows_on_demand_are_looked_at_by_what_they_cost(monkeypatch):
    """64 rows of a matrix at a time, where a row of features is long; what is computed is the same."""
    monkeypatch.setattr("maxmargin.gram.base.PIECE_EVALS", 200 * 200)
    Z = sp.random(200, 300, density=0.5, format="csr", random_state=0)
    looks = []
    K = Factored(Z).dense(looks.append)
    assert len(looks) == -(-200 // 64)
    np.testing.assert_allclose(K, (Z @ Z.T).toarray(), rtol=1e-12)
