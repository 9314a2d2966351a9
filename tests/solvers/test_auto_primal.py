"""auto takes Newton's method where a squared loss and noise give most points a coefficient, and memory allows."""

import numpy as np
import pytest

from cases import KERNEL_CASES
from maxmargin import SVC
from maxmargin.formulations import CSVC, Samples
from maxmargin.gram import KernelGram
from maxmargin.solvers import auto


def machine(noise, loss="squared_hinge", n=2400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, CSVC(C=1.0, loss=loss).qp(Samples(KernelGram(KERNEL_CASES["rbf"], X), y, np.ones(n)))


@pytest.mark.parametrize(
    "noise, loss, pays", [(2.0, "squared_hinge", True), (0.0, "squared_hinge", False), (2.0, "hinge", False)]
)
def test_noise_is_what_makes_it_pay(noise, loss, pays):
    X, y, qp = machine(noise, loss)
    assert not auto.newton_pays(qp)  # too few points
    assert auto.newton_pays(qp, least=2000) is pays
    assert not auto.newton_pays(qp, cache_size=1.0, least=2000)  # a megabyte does not hold the matrix of its points


def test_auto_takes_it():
    X, y, _ = machine(2.0)
    before = SVC(loss="squared_hinge", gamma=0.5, tol=1e-4).fit(X, y)
    model = SVC(loss="squared_hinge", gamma=0.5, tol=1e-4, solver=auto.Auto(noise_from=2000)).fit(X, y)
    assert before.solver_ != "newton" and model.solver_ == "newton"
    assert model.status_.converged
    assert model.certificate_.primal == pytest.approx(before.certificate_.primal, rel=1e-6)
