"""K̃ᵀK̃ over matrices of every kind and over kernels, against its definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.gram import Kernel, Relation, relation
from referee import naive_kernel

RNG = np.random.default_rng(0)
L, P = 23, 31
WEIGHT = RNG.choice([0.5, 1.0, 2.0, 3.0], L)
DENSE = RNG.normal(size=(L, P)) * RNG.exponential(size=P) + 10.0 * RNG.normal(size=P)
SPARSE = np.where(RNG.random((L, P)) < 0.2, DENSE, 0.0)
for matrix in (DENSE, SPARSE):
    matrix[:, 3] = 0.1  # a constant column, whose mean is rounded
    matrix[:, 4] = 0.0
    matrix[:, 6] = matrix[:, 5]


def normalised(K, weight):
    """K̃ by its definition."""
    away = K - weight @ K / weight.sum()
    norm = np.sqrt(weight @ away**2)
    return np.sqrt(weight)[:, None] * away / np.where(norm > 1e-12, norm, np.inf)


def mapped(tmp_path, order):
    np.save(tmp_path / "K.npy", np.asarray(DENSE, order=order))
    return np.load(tmp_path / "K.npy", mmap_mode="r")


KINDS = {
    "dense": lambda _: (DENSE, DENSE),
    "columns in memory": lambda _: (np.asfortranarray(DENSE), DENSE),
    "float32": lambda _: (DENSE.astype(np.float32), DENSE.astype(np.float32).astype(np.float64)),
    "integers": lambda _: (np.rint(DENSE).astype(int), np.rint(DENSE)),
    "csr": lambda _: (sp.csr_array(SPARSE), SPARSE),
    "csc": lambda _: (sp.csc_matrix(SPARSE), SPARSE),
    "mostly zeros": lambda _: (SPARSE, SPARSE),
    "mapped": lambda path: (mapped(path, "C"), DENSE),
    "mapped columns": lambda path: (mapped(path, "F"), DENSE),
}


@pytest.fixture(params=KINDS, ids=str)
def case(request, tmp_path):
    """A relation and K̃."""
    K, plain = KINDS[request.param](tmp_path)
    return Relation.of(K, WEIGHT), normalised(plain, WEIGHT)


def check(found, K):
    """Every answer of a relation."""
    Q = K.T @ K
    close = {"atol": 1e-11}
    assert (found.n, found.samples) == (K.shape[1], K.shape[0])
    np.testing.assert_allclose(found.diag(), np.diag(Q), **close)
    some = np.array([7, 0, 3, 30 % K.shape[1]])
    np.testing.assert_allclose(found.rows(some), Q[some], **close)
    slab = np.zeros((6, found.n))
    found.rows(some, slab, np.array([5, 1, 2, 0]))
    np.testing.assert_allclose(slab[[5, 1, 2, 0]], Q[some], **close)
    np.testing.assert_allclose(found.dense(), Q, **close)
    np.testing.assert_allclose(found.block(some), Q[np.ix_(some, some)], **close)
    rng = np.random.default_rng(1)
    for shape in ((), (3,)):
        beta, w = rng.normal(size=(found.n, *shape)), rng.normal(size=(found.samples, *shape))
        np.testing.assert_allclose(found.pulled(beta), K @ beta, **close)
        np.testing.assert_allclose(found.along(w), K.T @ w, **close)
    beta = rng.normal(size=found.n)
    np.testing.assert_allclose(found.matvec(beta), Q @ beta, **close)
    np.testing.assert_allclose(found.combine(some, np.ones(4), some), Q[np.ix_(some, some)].sum(axis=0), **close)
    part = found.take(some)
    np.testing.assert_allclose(part.dense(), Q[np.ix_(some, some)], **close)
    np.testing.assert_allclose(found.some(some), K.T[some], **close)


def test_every_answer(case):
    check(*case)


def test_nothing_becomes_dense():
    """A sparse matrix stays as it is, but for the columns that are asked for."""
    wide = sp.random_array((50, 4_000_000), density=1e-7, rng=np.random.default_rng(0), format="csr")
    found = Relation.of(wide)
    assert found.columns.sparse
    assert found.rows(np.array([0])).shape == (1, 4_000_000)


def test_weights_are_copies():
    weight = np.array([0, 1, 2, 3] * 5 + [1, 0, 2], float)
    copies = np.repeat(DENSE, weight.astype(int), axis=0)
    np.testing.assert_allclose(Relation.of(DENSE, weight).dense(), Relation.of(copies).dense(), atol=1e-12)


def test_no_unit_of_a_column_matters():
    scaled = DENSE * 10.0 ** RNG.integers(-6, 7, P) * RNG.choice([-1, 1], P)
    np.testing.assert_allclose(np.abs(Relation.of(scaled).dense()), np.abs(Relation.of(DENSE).dense()), atol=1e-9)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "sigmoid"])
@pytest.mark.parametrize("square", [True, False])
def test_kernels(monkeypatch, fits, kernel, square):
    """Computed whole or column by column, for the points themselves or for others."""
    if not fits:
        monkeypatch.setattr(relation.memory, "fits", lambda size: False)
    X, Z = RNG.normal(size=(L, 4)), RNG.normal(size=(P, 4))
    Z = X if square else Z
    K = naive_kernel(kernel, X, Z, gamma=0.3, coef0=0.1)
    made = Relation.over_kernel(Kernel(kernel, 0.3, 0.1), X, None if square else Z, WEIGHT)
    assert made.plain == fits
    check(made, normalised(K, WEIGHT))
    assert made.evals > 0

    def function(A, B):
        return naive_kernel(kernel, A, B, gamma=0.3, coef0=0.1)

    check(Relation.over_function(function, X, None if square else Z, WEIGHT), normalised(K, WEIGHT))


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_decisions_are_in_the_units_of_the_columns(kind, tmp_path):
    K, plain = KINDS[kind](tmp_path)
    alpha = np.random.default_rng(2).normal(size=P)
    coef, offset = Relation.of(K, WEIGHT).decision(alpha)
    np.testing.assert_allclose(np.sqrt(WEIGHT) * (plain @ coef + offset), normalised(plain, WEIGHT) @ alpha, atol=1e-11)
