"""The number of threads changes nothing, not a bit: neither ours nor those of BLAS, with any kernels of BLAS.

BLAS rounds products of different shapes differently, so that shapes must not depend on the number of threads. All
problems here are large enough to be cut into several pieces, which is checked.
"""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from maxmargin import PSVR, SOLVERS, SVC, SVDD, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM, threads
from maxmargin.gram import Factored, Kernel, KernelGram, low_rank
from maxmargin.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore")
JOBS = (1, 2, 3, 8)

# Points, features, share of entries that are not 0. A thousand points make several pieces of a product with few
# others; the sparse ones have as many entries as make several blocks of rows.
SHAPES = {"few": (1600, 5, 1.0), "many": (1000, 300, 1.0), "sparse": (2700, 230, 0.22)}


@cache
def data(name: str):
    """Points and a score that is noisy and not linear."""
    n, d, density = SHAPES[name]
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    score = X @ rng.normal(size=d) / np.sqrt(density * d) + 0.3 * np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)
    return sp.csr_matrix(X) if density < 1 else X, score


def classes(score, k: int = 2):
    return np.digitize(score, np.quantile(score, np.arange(1, k) / k))


@pytest.fixture
def pieces(monkeypatch):
    """How many pieces each piece of work was cut into."""
    counts, spread = [], threads.spread

    def counting(leaf, *args, **options):
        calls = []

        def counted(a, b):
            calls.append((a, b))
            leaf(a, b)

        spread(counted, *args, **options)
        counts.append(len(calls))

    monkeypatch.setattr(threads, "spread", counting)
    return counts


def published(machine, X) -> dict:
    """All numbers that a fit leaves, as bytes."""
    found = {name: getattr(machine, name, None) for name in ("support_", "dual_coef_", "intercept_", "n_iter_")}
    if getattr(machine, "kernel", "linear") == "linear":
        found["coef_"] = machine.coef_
    found["certificate"] = [[c.primal, c.dual, c.gap, c.violation, c.infeasibility] for c in machine.certificates_]
    decide = getattr(machine, "decision_function", machine.predict)
    found["decisions"] = decide(X)
    found["decision of one"] = decide(X[:1])
    plain = {name: v.toarray() if sp.issparse(v) else np.asarray(v) for name, v in found.items() if v is not None}
    return {name: (v.shape, v.tobytes()) for name, v in plain.items()}


def differing(first: dict, other: dict) -> list:
    return [name for name in first if first[name] != other[name]]


def check(make, X, y, pieces, jobs=JOBS, several: bool = True):
    """A machine that is made for each number of threads, fitted and compared."""
    results = {}
    for n_jobs in jobs:
        machine = make(n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[n_jobs] = published(machine.fit(X, y), X)
    assert {k: differing(results[jobs[0]], results[k]) for k in jobs} == {k: [] for k in jobs}
    assert not several or max(pieces) > 1


# Enough to come along all kinds of steps; early stops are compared like any other.
STEPS = {
    "auto": 300, "smo": 400, "decomposition": 400, "chunking": 4000, "mpd": 400, "adatron": 400, "nearest-point": 300,
    "sor": 8, "newton": 5, "pcg": 8, "interior-point": 4, "asvm": 4, "potential-smo": 200, "columns": 50,
}  # fmt: skip
KERNEL_MACHINES = {
    "SVC": lambda **o: SVC(C=0.7, **o),
    "SVC three classes": lambda **o: SVC(C=0.7, **o),
    "SVC squared hinge": lambda **o: SVC(C=0.7, loss="squared_hinge", **o),
    "NuSVC": lambda **o: NuSVC(nu=0.4, **o),
    "SVR": lambda **o: SVR(C=0.7, **o),
    "NuSVR": lambda **o: NuSVR(C=0.7, nu=0.4, **o),
    "OneClassSVM": lambda **o: OneClassSVM(nu=0.2, **o),
    "SVDD": lambda **o: SVDD(nu=0.2, **o),
    "PSVR": lambda **o: PSVR(epsilon=0.5, **o),
}
LINEAR_MACHINES = {
    "LinearSVC hinge": lambda **o: LinearSVC(C=0.7, loss="hinge", **o),
    "LinearSVC squared hinge": lambda **o: LinearSVC(C=0.7, **o),
    "LinearSVC three classes": lambda **o: LinearSVC(C=0.7, loss="hinge", **o),
    "LinearSVR": lambda **o: LinearSVR(C=0.7, epsilon=0.1, **o),
}
SINGLE_STEPS = {"smo", "decomposition", "chunking", "mpd", "adatron", "nearest-point"}  # a thousand count as one
every_solver = pytest.mark.parametrize("solver", ["auto", *SOLVERS])


def test_every_solver_is_here():
    assert set(STEPS) == {"auto", *SOLVERS}


def targets(name: str, score):
    if "SVR" in name:
        return score
    return None if name in ("OneClassSVM", "SVDD") else classes(score, 3 if "three" in name else 2)


def refused(make, X, y) -> str:
    """Why a solver does not take a machine's problem, or nothing."""
    try:
        make(1).set_params(max_iter=1).fit(X, y)
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


def made(make, solver: str, **options):
    return lambda n_jobs: make(n_jobs=n_jobs, solver=solver, **{"max_iter": STEPS[solver]} | options)


@every_solver
@pytest.mark.parametrize("name", KERNEL_MACHINES)
def test_kernel_machines(name, solver, pieces):
    X, score = data("few")
    y = targets(name, score)
    if solver == "interior-point":  # which factors the matrix: by tiles from a few hundred on
        X, y = X[:700], None if y is None else y[:700]
    make = made(KERNEL_MACHINES[name], solver, kernel="rbf", gamma=0.2)
    reason = refused(make, X[:60], None if y is None else y[:60])
    if reason:
        pytest.skip(reason)
    check(make, X, y, pieces, jobs=(1, 3))


@every_solver
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("kind", ["many", "sparse"])
def test_kernels(kind, kernel, solver, pieces):
    X, score = data(kind)
    n = 700 if solver == "interior-point" and kernel == "rbf" else X.shape[0]
    make = made(KERNEL_MACHINES["SVC"], solver, kernel=kernel, gamma=1.0 / X.shape[1])
    reason = refused(make, X[:60], classes(score)[:60])
    if reason:
        pytest.skip(reason)
    check(make, X[:n], classes(score)[:n], pieces)


@every_solver
@pytest.mark.parametrize("name", LINEAR_MACHINES)
@pytest.mark.parametrize("kind", ["many", "sparse"])
def test_linear_machines(name, kind, solver, pieces):
    X, score = data(kind)
    make = made(LINEAR_MACHINES[name], solver, max_iter=1 if solver in SINGLE_STEPS else STEPS[solver])
    reason = refused(make, X[:60], targets(name, score)[:60])
    if reason:
        pytest.skip(reason)
    check(make, X, targets(name, score), pieces, jobs=(1, 3))


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian"])
@pytest.mark.parametrize("kind", SHAPES)
def test_rows_of_a_kernel_matrix(kind, kernel, pieces):
    X, _ = data(kind)
    coef = np.random.default_rng(0).normal(size=X.shape[0])
    made = Kernel(kernel, 1.0 / X.shape[1], 0.5, 3)
    grams = [KernelGram(made, X, n_jobs=k) for k in JOBS]
    for q in (1, 2, 3, 16, 64, 65, 300):
        index = np.arange(0, X.shape[0], X.shape[0] // q)[:q]
        scattered = index[::-1] // 2
        for ask in (
            lambda g, i=index: g.rows(i),
            lambda g, i=index, at=scattered: g.rows(i, np.zeros((g.n, g.n), g.dtype), at),
            lambda g, i=index: g.wide().rows(i),
            lambda g, i=index: g.combine(i, coef[i]),
            lambda g, i=index: g.combine(i, coef[i], exact=False),
            lambda g, i=index: g.block(i),
        ):
            first, *others = (ask(gram) for gram in grams)
            for other in others:
                np.testing.assert_array_equal(first, other, strict=True)
    assert max(pieces) > 1


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("form", ["array", "float32", "list"])
def test_rows_of_features(kind, form):
    X, _ = data(kind)
    X = X.astype(np.float32) if form == "float32" else [X[:1000], X[1000:]] if form == "list" else X
    rng = np.random.default_rng(0)
    rows = [Rows.of(X, k) for k in JOBS]
    n, d = rows[0].n, rows[0].d
    assert len(rows[0].blocks) > 1 or kind == "few"
    w, v, theta = rng.normal(size=(d, 2)), rng.normal(size=(n, 2)), np.maximum(rng.normal(size=n), 0.0)
    some = np.flatnonzero(theta)
    for ask in (
        lambda r: r.edges,
        lambda r: r.dot(w[:, 0]),
        lambda r: r.dot(w),
        lambda r: r.t_dot(v[:, 0]),
        lambda r: r.t_dot(v),
        lambda r: r.normal(theta, v),
        lambda r: r.t_squares(theta),
        lambda r: r.squared_norms(),
        lambda r: r.take(some).t_dot(theta[some]),
        lambda r: r.widened(2.0).t_dot(theta),
        lambda r: r.scaled(theta).normal(theta),
        lambda r: Factored(r).block(some),
        lambda r: Factored(r).combine(some, theta[some], some),
    ):
        first, *others = (ask(r) for r in rows)
        for other in others:
            np.testing.assert_array_equal(first, other, strict=True)


def test_a_factor_of_low_rank(pieces):
    X = np.random.default_rng(0).normal(size=(4000, 2))
    first, *others = (low_rank(KernelGram(Kernel("rbf", 0.2), X, n_jobs=k), 1e-9) for k in JOBS)
    assert first.rank > 20
    for other in others:
        np.testing.assert_array_equal(first.lacking, other.lacking)
        np.testing.assert_array_equal(first.Z.matrix(), other.Z.matrix())
    assert max(pieces) > 1


def test_predictions_alone(pieces):
    X, score = data("few")
    machines = [
        SVC(gamma=0.2, max_iter=300).fit(X[:1500], classes(score)[:1500]),
        SVC(gamma=0.2, max_iter=300).fit(sp.csr_matrix(X[:1500]), classes(score, 4)[:1500]),
        SVR(kernel="linear", max_iter=300).fit(X[:1500], score[:1500]),
        LinearSVC(max_iter=5).fit(*(lambda X, s: (X, classes(s, 3)))(*data("many"))),
    ]
    pieces.clear()
    for machine, at in zip(machines, [X, X, X, data("many")[0]], strict=True):
        decide = getattr(machine, "decision_function", machine.predict)
        first, *others = (decide(at) for machine.n_jobs in JOBS)
        for other in others:
            np.testing.assert_array_equal(first, other, strict=True)
    assert max(pieces) > 1


def blas_cases():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12_000, 3))  # BLAS shares a sum of more than 10 000 products among its threads
    score = X[:, 0] * X[:, 1] + rng.normal(size=len(X))
    few, many = X[:700], data("many")[0]
    yield "one feature", SVC(max_iter=20), X[:, :1], classes(score)
    yield "scale", SVC(max_iter=20), X, classes(score)
    yield "one class", OneClassSVM(nu=0.01, max_iter=20), X, None
    yield "linear kernel", SVR(kernel="linear", C=0.1, max_iter=20), X, score
    yield "linear", LinearSVC(loss="hinge", max_iter=5), X, classes(score, 3)
    yield "wide", LinearSVC(solver="interior-point", max_iter=4), many, classes(data("many")[1])
    yield "parametric", SVR(max_iter=200, parametric=np.sin), few, score[:700]
    K = np.exp(-((few[:, None] - few) ** 2).sum(axis=2))
    yield "precomputed", SVC(kernel="precomputed"), K, classes(score[:700])
    yield "factored", SVC(solver="interior-point", max_iter=4, gamma=0.3), few, classes(score[:700])


@pytest.mark.parametrize("case", list(blas_cases()), ids=lambda case: case[0])
def test_threads_of_blas(case, monkeypatch):
    """Whatever the environment and other libraries let BLAS and us use."""
    _, machine, X, y = case
    results = []
    for k in (1, 2, 5):
        monkeypatch.setenv("OMP_NUM_THREADS", str(k))
        with threadpool_limits(k, user_api="blas"):
            results.append(published(machine.fit(X, y), X))
    assert [differing(results[0], other) for other in results] == [[], [], []]
