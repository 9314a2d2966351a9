"""The package without its compiler: slow, but the same results."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import json

import numba
import numpy as np
import scipy.sparse as sp

from maxmargin import LinearSVC, LinearSVR
from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.gram import Kernel, KernelGram
from maxmargin.solvers import solve
from maxmargin.solvers.parts.working_sets import Sizes

rng = np.random.default_rng(0)
X = np.where(rng.random((30, 8)) < 0.2, rng.normal(size=(30, 8)), 0.0)
y = np.sign(X.sum(axis=1) + 0.3 * rng.normal(size=30))
out = {"compiled": not numba.config.DISABLE_JIT, "kernels": {}, "solutions": {}, "weights": {}}
for form, make in (("dense", np.asarray), ("sparse", sp.csr_matrix)):
    for name in ("linear", "poly", "rbf", "sigmoid", "laplacian"):
        gram = KernelGram(Kernel(name, gamma=0.3, coef0=0.5), make(X))
        out["kernels"][f"{name} {form}"] = [gram.dense().tolist(), gram.matvec(y).tolist()]
    for large in (False, True):
        sizes = Sizes(**LARGE) if large else Sizes()
        for label, formulation in (
            ("C-SVC", CSVC(C=2.0)), ("C-SVC without bias", CSVC(C=2.0, fit_intercept=False)), ("SVR", EpsilonSVR())
        ):
            for solver in ("smo", "decomposition"):
                qp = formulation.qp(Samples(KernelGram(Kernel("rbf", 0.3), make(X)), y, np.ones(30)))
                solution = solve(qp, solver, tol=1e-6, sizes=sizes)
                out["solutions"][f"{label} {form} {solver} {'large' if large else 'small'}"] = [
                    solution.status.name, solution.certificate.dual, solution.certificate.gap
                ]
for form, make in (("dense", np.asarray), ("sparse", sp.csr_matrix)):
    for fit in (LinearSVC(loss="hinge", solver="sor", tol=1e-6), LinearSVR(solver="sor", tol=1e-6)):
        machine = fit.fit(make(X), y)
        coef = machine.coef_.toarray() if sp.issparse(machine.coef_) else machine.coef_
        out["weights"][f"{type(fit).__name__} {form}"] = np.ravel(coef).tolist()
print(json.dumps(out))
"""
LARGE = {"matrix": 0, "pairs": 0, "block": 4, "grow": 7, "shrink": 10, "merge": 0}


@pytest.fixture(scope="module")
def results():
    """The same script with and without the compiler."""
    out = {}
    for disabled in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", f"LARGE = {LARGE!r}\n{SCRIPT}"],
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        out[disabled] = json.loads(run.stdout)
    return out["0"], out["1"]


def test_one_run_was_compiled_and_one_was_not(results):
    compiled, plain = results
    assert compiled["compiled"]
    assert not plain["compiled"]


def test_kernels_agree(results):
    compiled, plain = results
    assert len(compiled["kernels"]) == 10
    for name, (dense, product) in compiled["kernels"].items():
        np.testing.assert_allclose(dense, plain["kernels"][name][0], atol=1e-6, err_msg=name)
        np.testing.assert_allclose(product, plain["kernels"][name][1], atol=1e-10, err_msg=name)


def test_solutions_agree(results):
    compiled, plain = results
    assert len(compiled["solutions"]) == 24
    for name, (status, dual, gap) in compiled["solutions"].items():
        other_status, other_dual, other_gap = plain["solutions"][name]
        assert status == other_status == "CONVERGED", name
        assert dual == pytest.approx(other_dual, rel=1e-6), name
        assert max(gap, other_gap) < 1e-4, name


def test_linear_machines_agree(results):
    """Their sweeps choose functions by the types of their arguments."""
    compiled, plain = results
    assert len(compiled["weights"]) == 4
    for name, weights in compiled["weights"].items():
        assert np.linalg.norm(weights) > 0.1, name
        np.testing.assert_allclose(weights, plain["weights"][name], atol=1e-4, err_msg=name)
