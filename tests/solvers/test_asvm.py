"""ASVM: linear machines with a squared hinge, whatever the bias, in a few factorisations."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from cases import VARIANTS, make_data, plain_problem, takes, verdict_on
from maxmargin.formulations import CSVC, Samples, SemiParametric
from maxmargin.gram import Factored, Kernel, KernelGram, Shifted, low_rank
from maxmargin.monitor import Monitor, Stopped
from maxmargin.problem import QP
from maxmargin.rows import blocks
from maxmargin.solution import Status
from maxmargin.solvers import asvm, solve


def machine(n=80, d=4, bias="free", k=0, C=1.5, seed=0, make=np.asarray) -> QP:
    data = make_data("weighted", n, max(d, 4), seed)
    X = data.X[:, :d]
    gram = Factored(make(X))
    gram = Shifted(gram, 1.0) if bias == "penalised" else gram
    formulation = CSVC(C=C, loss="squared_hinge", fit_intercept=bias == "free")
    phi = np.array([np.sin(data.X[:, 0]), data.X[:, 1] ** 2, np.cos(data.X[:, 2])])[:k].reshape(k, n)
    return SemiParametric(formulation, phi).qp(Samples(gram, data.labels, data.weight))


def check(qp, solution, tol=1e-6):
    best = verdict_on(qp)
    assert solution.status is Status.CONVERGED
    assert (solution.beta >= qp.lower).all() and (solution.beta <= qp.upper).all()
    assert solution.certificate.infeasibility < 1e-9 * max(1.0, np.abs(solution.beta).sum())
    assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6)
    assert solution.certificate.violation <= tol
    np.testing.assert_allclose(solution.multipliers, best.multipliers, atol=1e-4)


@pytest.mark.parametrize("bias", ["none", "penalised", "free"])
@pytest.mark.parametrize("d", [1, 4, 120])
@pytest.mark.parametrize("C", [1e-3, 1.5, 1e3])
def test_every_kind_of_bias(bias, d, C):
    qp = machine(d=d, bias=bias, C=C)
    check(qp, solve(qp, "asvm", tol=1e-6))


@pytest.mark.parametrize("bias", ["none", "penalised", "free"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_parametric_functions(bias, k):
    qp = machine(bias=bias, k=k)
    check(qp, solve(qp, "asvm", tol=1e-6))


def test_sparse_rows():
    thin = machine(make=lambda X: sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0)))
    dense = machine(make=lambda X: np.where(np.abs(X) > 1.0, X, 0.0))
    first, second = (solve(qp, "asvm", tol=1e-8) for qp in (thin, dense))
    check(thin, first)
    np.testing.assert_allclose(first.beta, second.beta, atol=1e-8)


@pytest.mark.parametrize("bias", ["penalised", "free"])
def test_few_systems(bias):
    """A handful of active sets, however many rows there are."""
    for n in (200, 2000):
        qp = machine(n=n, bias=bias)
        solution = solve(qp, "asvm", tol=1e-6)
        assert solution.status is Status.CONVERGED
        assert solution.n_iter <= 25
        again = solve(qp, "asvm", start=solution.beta, tol=1e-6)
        assert again.n_iter <= 2


def test_a_low_rank_kernel_is_linear_too():
    data = make_data("plain", 100)
    gram = low_rank(KernelGram(Kernel("rbf", 0.1), data.X), 1e-12)
    qp = CSVC(C=2.0, loss="squared_hinge").qp(Samples(gram, data.labels, data.weight))
    check(qp, solve(qp, "asvm", tol=1e-6))


def test_other_problems_are_told():
    assert takes("asvm", machine())
    data = make_data("plain")
    for variant in VARIANTS:
        assert not takes("asvm", plain_problem(variant, "rbf", data))
        linear = variant.formulation.qp(Samples(Factored(data.X), variant.targets(data), data.weight))
        squared = variant.name == "c_svc" and variant.formulation.loss == "squared_hinge"
        assert takes("asvm", linear) == squared
    assert not takes("asvm", machine(), most_features=3)


def test_it_looks_while_a_matrix_is_added_up():
    """What raises is heard in the first pass over the rows, and the model is the start."""
    qp = machine(n=2000, d=60)
    looks, monitor = [], Monitor()

    def stop_at_the_third():
        looks.append(None)
        if len(looks) == 3:
            raise Stopped(Status.TIME_LIMIT)

    monitor.look = stop_at_the_third
    found = asvm.ASVM().solve(qp, monitor=monitor)
    assert len(looks) == 3 and found.status is Status.TIME_LIMIT and not found.beta.any()


@pytest.mark.parametrize("last", [30, 60, 90])
def test_it_looks_before_each_tile_of_each_pass(monkeypatch, last):
    """A system is followed by some ten passes over the rows, which together take longer than to add it up."""
    qp = machine(n=2000, d=60)
    events, monitor = [], Monitor()

    def look():
        events.append("look")
        if events.count("look") == last:
            raise Stopped(Status.TIME_LIMIT)

    for name in ("dot", "t_dot"):
        read = getattr(blocks.Dense, name)
        monkeypatch.setattr(
            blocks.Dense, name, lambda tile, *rest, read=read: events.append("read") or read(tile, *rest)
        )
    monitor.look = look
    found = asvm.ASVM().solve(qp, monitor=monitor)
    assert events.count("look") == last and found.status is Status.TIME_LIMIT
    heard = len(events) - events[::-1].index("look")
    assert "read" in events[:heard] and ("read", "read") not in set(pairwise(events[:heard]))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_that_are_watched_are_the_same(make):
    rows, theta = Factored(make(make_data("weighted", 700, 60, 0).X)).Z, np.linspace(0.0, 1.0, 700)
    looks = []
    watched = rows.watched(lambda: looks.append(None))
    assert np.array_equal(watched.normal(theta), rows.normal(theta)) and looks
