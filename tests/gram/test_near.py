"""Sparse matrices of near points in place of kernel matrices, and what they leave out."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import QP, SVC, SVR
from maxmargin.gram import Kernel, KernelGram, NearGram, Ridged, Shifted, Signed, Tiled, near_or_not
from maxmargin.gram import near as module
from referee import naive_kernel, referee

N = 200
rng = np.random.default_rng(0)
X = rng.uniform(size=(N, 2))
KERNELS = {"wendland": Kernel("wendland", gamma=80.0), "rbf": Kernel("rbf", gamma=2000.0)}
every_kernel = pytest.mark.parametrize("name", KERNELS)


@pytest.fixture(autouse=True)
def small_problems(monkeypatch):
    monkeypatch.setattr(module, "LEAST_POINTS", 50)
    monkeypatch.setattr(module, "CHUNK_PAIRS", 500)
    monkeypatch.setattr("maxmargin.estimators.kernel.NEAR_FROM", 50)


def near(name, cut=module.CUT, points=X):
    gram = near_or_not(KernelGram(KERNELS[name], points), cut)
    assert isinstance(gram, NearGram)
    return gram


def whole(name):
    return naive_kernel(name, X, X, gamma=KERNELS[name].gamma, degree=3)


@every_kernel
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_it_is_the_kernel_matrix(name, make):
    gram, K = near(name, points=make(X)), whole(name)
    if make(X).dtype == np.float32:
        K = naive_kernel(name, X.astype(np.float32), gamma=KERNELS[name].gamma)
    index, at, v = np.array([3, 77, 5]), np.array([1, 9]), rng.normal(size=N)
    assert gram.K.nnz < N * N / 10
    for found, true in [
        (gram.dense(), K),
        (gram.rows(index), K[index]),
        (gram.block(index), K[np.ix_(index, index)]),
        (gram.matvec(v), K @ v),
        (gram.combine(index, v[:3]), v[:3] @ K[index]),
        (gram.combine(index, v[:3], at), v[:3] @ K[np.ix_(index, at)]),
        (gram.take(index).dense(), K[np.ix_(index, index)]),
        (gram.diag(), K.diagonal()),
    ]:
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-11)


def test_a_matrix_with_many_neighbours_is_no_sparse_one(monkeypatch):
    for kernel in (Kernel("rbf", gamma=1.0), Kernel("wendland", gamma=0.5), Kernel("linear")):
        assert isinstance(near_or_not(KernelGram(kernel, X)), KernelGram)
    far = KernelGram(KERNELS["wendland"], rng.normal(size=(N, 9)))
    assert near_or_not(far) is far
    monkeypatch.setattr("maxmargin.host.free_memory", lambda: 1000)
    gram = KernelGram(KERNELS["wendland"], X)
    assert near_or_not(gram) is gram


def test_bounds_hold_for_what_is_left_out():
    gram, K = near("rbf", cut=1e-3), whole("rbf")
    E = K - gram.dense()
    assert 0.0 < E.max() <= 1e-3
    for beta in (rng.normal(size=N), np.ones(N)):
        blur, drift = gram.blurs(beta)
        assert abs(0.5 * beta @ E @ beta) <= blur and np.abs(E @ beta).max() <= drift
    assert gram.original() is gram.inner
    exact = near("wendland")
    assert exact.blurs(np.ones(N)) == (0.0, 0.0) and exact.original() is exact


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon"])
def test_the_certificate_counts_what_is_left_out(loss):
    """Bounds from the sparse matrix enclose the optimum with the true one, and the values that it gives these β."""
    K, y = whole("rbf"), np.where(X[:, 0] + 0.2 * rng.normal(size=N) > 0.5, 1.0, -1.0)
    # So loose a cut that what is left out is seen.
    gram: NearGram | Ridged = near("rbf", cut=0.02)
    H, A = K.copy(), np.ones((1, N))
    lower, upper, eps = np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0), 0.0
    if loss == "squared_hinge":
        lower, upper = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
        gram, H = gram.ridged(np.full(N, 0.5)), H + 0.5 * np.eye(N)
    elif loss == "epsilon":
        lower, upper, eps = np.full(N, -1.0), np.full(N, 1.0), 0.1
    blurred, true = QP(gram, -y, lower, upper, A, eps=eps), QP(H, -y, lower, upper, A, eps=eps)
    best = referee(H, -y, lower, upper, A, eps=eps)
    for beta in (best.beta, 0.7 * best.beta):
        for eta in (best.multipliers, np.array([0.1])):
            bound, exact = blurred.certificate(beta, eta), _dense_certificate(true, K, beta, eta)
            assert bound.dual <= exact[1] + 1e-9 and exact[0] <= bound.primal + 1e-9
            assert exact[0] - exact[1] <= bound.gap + 1e-9
            assert bound.dual <= -best.objective <= bound.primal + 1e-6


def _dense_certificate(qp, K, beta, eta):
    """Primal and dual value by their definitions."""
    dual = -qp.objective(beta, qp.H @ beta)
    r = K @ beta + qp.p + qp.A.T @ eta
    d = np.diag(qp.H - K)
    grid = np.linspace(np.maximum(qp.lower, -50), np.minimum(qp.upper, 50), 20001)
    values = -r * grid - 0.5 * d * grid**2 - qp.eps * np.abs(grid)
    return 0.5 * beta @ K @ beta + values.max(axis=0).sum() + eta @ qp.b - 1e-4, dual


@every_kernel
def test_many_columns_in_one_pass(name):
    gram, V = near(name), rng.normal(size=(N, 3))
    V[::2] = 0.0
    K, diagonal, sign = whole(name), rng.random(N), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    grams = {
        "near": (gram, K),
        "kernel": (gram.inner, K),
        "ridged": (Ridged(gram, diagonal), K + np.diag(diagonal)),
        "shifted": (Shifted(gram, 2.0), K + 2.0),
        "signed": (Signed(gram, sign), K * np.outer(sign, sign)),
        "tiled": (Tiled(gram, np.arange(N)[::-1]), K[::-1, ::-1]),
    }
    for one, true in grams.values():
        np.testing.assert_allclose(one.matmat(V), true @ V, rtol=0, atol=1e-10)
        np.testing.assert_allclose(one.matvec(V[:, 0]), true @ V[:, 0], rtol=0, atol=1e-10)


@every_kernel
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_machines_are_those_of_the_whole_matrix(name, loss, monkeypatch):
    y = np.where(np.sin(9 * X[:, 0]) + X[:, 1] > 0.5, 1, -1)
    options = {"kernel": name, "gamma": KERNELS[name].gamma, "loss": loss, "tol": 1e-5}
    sparse = SVC(**options).fit(X, y)
    monkeypatch.setattr(module, "LEAST_POINTS", 10**6)
    dense = SVC(**options).fit(X, y)
    assert sparse.status_.converged
    assert sparse.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-5)
    assert sparse.decision_function(X) == pytest.approx(dense.decision_function(X), abs=1e-3)


def test_a_kernel_beyond_its_dimensions_is_an_error():
    Z, y = rng.normal(size=(30, 4)), np.repeat([0, 1], 15)
    with pytest.raises(ValueError, match="up to 3; give degree=4"):
        SVC(kernel="wendland").fit(Z, y)
    assert SVC(kernel="wendland", degree=4).fit(Z, y).status_.converged
    with pytest.raises(ValueError, match="found points of 4 features"):
        SVR(kernel="wendland").fit(Z, y)


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
def test_the_kernel_is_positive_definite_up_to_its_dimensions(degree):
    d = 2 * degree - 3
    assert Kernel("wendland", degree=degree).dimensions == d
    # A grid is where functions that are not positive definite show it.
    points = np.stack(np.meshgrid(*[np.arange(3.0 if d < 6 else 2.0)] * d), axis=-1).reshape(-1, d)[:300]
    for gamma in (0.01, 0.05, 0.2):
        assert np.linalg.eigvalsh(naive_kernel("wendland", points, gamma=gamma, degree=degree))[0] > -1e-12


@every_kernel
def test_equal_points_share_their_neighbours(name):
    """A data set of few distinct points takes no more memory than these do."""
    twice = np.concatenate([X, X[::-1], X[:50]])
    gram, K = near(name, points=twice), naive_kernel(name, twice, gamma=KERNELS[name].gamma, degree=3)
    assert gram.K.shape == (N, N)
    index, at, V = np.array([3, 2 * N + 3, 77]), np.array([1, N, 2 * N - 2]), rng.normal(size=(len(twice), 2))
    for found, true in [
        (gram.dense(), K),
        (gram.rows(index), K[index]),
        (gram.block(index), K[np.ix_(index, index)]),
        (gram.matmat(V), K @ V),
        (gram.matvec(V[:, 0]), K @ V[:, 0]),
        (gram.combine(index, V[:3, 0]), V[:3, 0] @ K[index]),
        (gram.combine(index, V[:3, 0], at), V[:3, 0] @ K[np.ix_(index, at)]),
        (gram.take(index).dense(), K[np.ix_(index, index)]),
        (gram.take(at).matvec(V[:3, 0]), K[np.ix_(at, at)] @ V[:3, 0]),
        (gram.diag(), K.diagonal()),
    ]:
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-11)
