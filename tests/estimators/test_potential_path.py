"""A path goes on from the solution, product and matrix of the ε before; each of its machines is that of a fit."""

import numpy as np
import pytest

from maxmargin import PSVC, PSVR
from maxmargin.formulations import PSVM, Samples
from maxmargin.gram import Relation

RNG = np.random.default_rng(2)
WIDE = RNG.normal(size=(40, 700))
TARGET = WIDE[:, :5] @ np.ones(5) + RNG.normal(size=40)


@pytest.mark.parametrize("C", [0.5, np.inf])
@pytest.mark.parametrize("columns", [30, 300, 700])
def test_each_machine_is_that_of_a_fit(C, columns):
    """30 columns have Q whole, 300 are one working set, 700 are more than that."""
    X = WIDE[:, :columns]
    machine = PSVR(kernel="dyadic", C=C, tol=1e-9)
    path = machine.path(X, TARGET, [2.0, 1.0, 0.5])
    for epsilon, alpha, proof in zip(path.epsilons, path.alphas, path.certificates, strict=True):
        alone = PSVR(kernel="dyadic", C=C, epsilon=float(epsilon), tol=1e-9).fit(X, TARGET)
        found = np.zeros(columns)
        found[alone.support_] = alone.alpha_
        np.testing.assert_allclose(alpha, found, atol=1e-6)
        assert proof[0].violation <= 1e-9 and np.isclose(proof[0].dual, alone.certificate_.dual, rtol=1e-9)


def test_classes_share_the_relation_and_not_their_products():
    labels = np.digitize(TARGET, np.quantile(TARGET, [1 / 3, 2 / 3]))
    path = PSVC(kernel="dyadic", tol=1e-8).path(WIDE[:, :300], labels, [2.0, 1.0])
    alone = PSVC(kernel="dyadic", epsilon=1.0, tol=1e-8).fit(WIDE[:, :300], labels)
    found = np.zeros((3, 300))
    found[:, alone.support_] = alone.alpha_
    np.testing.assert_allclose(path.alphas[-1], found, atol=1e-5)


def test_a_path_leaves_the_machine_as_it_is():
    """Not with the γ of other samples, nor with other labels."""
    X, labels = WIDE[:, :5], np.where(TARGET > 0.0, 1, 0)
    regression, classes = PSVR().fit(X, TARGET), PSVC().fit(X, labels)
    before = regression.predict(X), classes.predict(X)
    regression.path(10.0 * X, TARGET, [1.0])
    classes.path(X[:, :3], np.array(["a", "b"])[labels], [1.0])
    np.testing.assert_array_equal(regression.predict(X), before[0])
    np.testing.assert_array_equal(classes.predict(X), before[1])


def test_another_epsilon_keeps_the_product(monkeypatch):
    weight = np.ones(40)
    qp = PSVM(np.inf, 1.0).qp(Samples(Relation.of(WIDE, weight), TARGET, weight))
    beta = np.zeros(700)
    beta[:3] = 1.0
    product = qp.times(beta)
    other = qp.with_epsilon(0.5)
    assert (other.eps == 0.5).all() and (qp.eps == 1.0).all()
    monkeypatch.setattr(Relation, "pulled", lambda *_: pytest.fail("the product was computed again"))
    assert other.times(beta) is product
    assert np.isclose(other.objective(beta) - qp.objective(beta), -0.5 * 3)
