"""A relation with few columns has Q whole; it is the one that is computed when it is asked for."""

import numpy as np
import pytest

from maxmargin import PSVR
from maxmargin.gram import Relation, relation

RNG = np.random.default_rng(0)
TALL = (RNG.normal(size=(90, 12)) + 10.0 ** RNG.integers(0, 4, size=12)) * 10.0 ** RNG.integers(-3, 4, size=12)
TALL[:, 3] = 7.0  # constant
WEIGHT = RNG.integers(0, 4, size=90) + 0.5


@pytest.mark.parametrize("layout", ["C", "F", "strided", "float32"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("tile", [1, 1 << 21])
def test_it_is_the_same_matrix(monkeypatch, layout, weight, n_jobs, tile):
    monkeypatch.setattr(relation, "TILE", tile)
    K = {
        "C": TALL, "F": np.asfortranarray(TALL), "strided": np.repeat(TALL, 2, axis=1)[:, ::2],
        "float32": np.random.default_rng(1).normal(size=TALL.shape).astype(np.float32),
    }[layout]  # fmt: skip
    found = Relation.of(K, weight, n_jobs)
    monkeypatch.setattr(relation, "WHOLE", 0)
    plain = Relation.of(np.asarray(K, np.float64), weight, n_jobs)
    assert found.whole() is not None and plain.whole() is None
    some, v, w = np.array([5, 0, 3, 9]), RNG.normal(size=12), RNG.normal(size=(90, 2))
    for one, other in (
        (found.dense(), plain.dense()),
        (found.between(some, some[:2]), plain.between(some, some[:2])),
        (found.rows(some), plain.rows(some)),
        (found.some(some), plain.some(some)),
        (found.matvec(v), plain.matvec(v)),
        (found.along(w), plain.along(w)),
        (found.along(w[:, 0]), plain.along(w[:, 0])),
        (found.pulled(v), plain.pulled(v)),
        (found.take(some).dense(), plain.take(some).dense()),
        (found.take(some).pulled(v[:4]), plain.take(some).pulled(v[:4])),
        (found.diag(), plain.diag()),
        (found.mean, plain.mean),
        (found.scale, plain.scale),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_threads_do_not_change_a_bit():
    K = RNG.normal(size=(5000, 40))
    one, two = Relation.of(K, n_jobs=1), Relation.of(K, n_jobs=2)
    assert np.array_equal(one.whole(), two.whole())
    w = RNG.normal(size=5000)
    assert np.array_equal(one.along(w), two.along(w))


@pytest.mark.parametrize("C", [0.1, 10.0, np.inf])
def test_it_is_the_same_machine(monkeypatch, C):
    y = TALL[:, 1] / TALL[:, 1].std() + RNG.normal(size=90)
    found = PSVR(kernel="dyadic", C=C, epsilon=0.5, tol=1e-8).fit(TALL, y, WEIGHT)
    monkeypatch.setattr(relation, "WHOLE", 0)
    plain = PSVR(kernel="dyadic", C=C, epsilon=0.5, tol=1e-8).fit(TALL, y, WEIGHT)
    assert np.array_equal(found.support_, plain.support_)
    np.testing.assert_allclose(found.alpha_, plain.alpha_, rtol=1e-6)
    assert found.fit_status_ == plain.fit_status_ == 0
