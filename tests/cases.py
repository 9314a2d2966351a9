"""Small problems that many tests share: data, kernels and every variant of every formulation."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
import pytest

from maxmargin.formulations import FORMULATIONS, Samples
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.problem import ERM, QP
from maxmargin.solvers import SOLVERS, make_solver
from maxmargin.solvers.parts.working_sets import Sizes
from referee import Verdict, naive_kernel, referee

KERNEL_CASES = {
    "linear": Kernel("linear"),
    "poly": Kernel("poly", gamma=0.3, coef0=1.0, degree=3),
    "rbf": Kernel("rbf", gamma=0.5),
    "sigmoid": Kernel("sigmoid", gamma=0.2, coef0=-0.1),
    "laplacian": Kernel("laplacian", gamma=0.3),
    "wendland": Kernel("wendland", gamma=0.05, degree=6),
}
# Wendland's kernel is to solvers what the Gaussian is: once is enough.
DEFINITE = [name for name in KERNEL_CASES if name not in ("sigmoid", "wendland")]

# Sizes by which small problems take the paths that are made for large ones: no matrix is computed as a whole; and
# samples, shrinking and merging, too, with frequent looks.
ROWS_ON_DEMAND = Sizes(matrix=0, pairs=0, block=8)
EVERYTHING_LARGE = replace(ROWS_ON_DEMAND, grow=15, shrink=10, merge=0, call=2000, stall=5000)

CLASSIFIERS = ("c_svc", "nu_svc")
OPTIONS = {
    "c_svc": [{"C": 1.5, "loss": loss} for loss in ("hinge", "squared_hinge", "huber")],
    "nu_svc": [{"nu": 0.4}],
    "one_class": [{"nu": 0.3}],
    "svdd": [{"nu": 0.3}, {"C": 0.1}],
    "epsilon_svr": [
        {"C": 1.5, "epsilon": 0.1, "loss": "epsilon_insensitive"},
        {"C": 1.5, "epsilon": 0.1, "loss": "squared_epsilon_insensitive"},
        {"C": 1.5, "loss": "huber", "huber_delta": 0.2},
        {"C": 1.5, "loss": "quantile", "quantile": 0.8},
        {"C": 1.5, "loss": "squared_error"},
    ],
    "nu_svr": [{"nu": 0.4, "C": 1.5}],
    "p_svm": [{"C": 1.5, "epsilon": 0.1}, {"C": np.inf, "epsilon": 0.1}],
}


@dataclass(frozen=True)
class Variant:
    """A formulation with its parameters."""

    name: str
    formulation: object

    def __str__(self) -> str:
        chosen = [v for f in fields(self.formulation) if f.name == "loss" for v in [getattr(self.formulation, f.name)]]
        free = "" if getattr(self.formulation, "fit_intercept", True) else "no bias"
        given = "C" if self.name in ("svdd", "p_svm") and (self.formulation.C or np.inf) < np.inf else ""
        return "-".join(part for part in [self.name, *chosen, given, free] if part)

    def targets(self, data: Data) -> np.ndarray:
        return data.labels if self.name in CLASSIFIERS else data.values


def _variants():
    for name, make in FORMULATIONS.items():
        for options in OPTIONS.get(name, [{}]):
            yield Variant(name, make(**options))
            if any(f.name == "fit_intercept" for f in fields(make)):
                yield Variant(name, make(**options, fit_intercept=False))


ALL_VARIANTS = list(_variants())
# A Potential SVM has a variable for each column of K, and K̃ᵀK̃ in place of K.
VARIANTS = [variant for variant in ALL_VARIANTS if variant.name != "p_svm"]


@dataclass(frozen=True, eq=False)
class Data:
    """Points with labels, values and weights."""

    X: np.ndarray
    labels: np.ndarray
    values: np.ndarray
    weight: np.ndarray


DATA = ("plain", "weighted", "duplicated")


@cache
def make_data(kind: str = "plain", n: int = 60, d: int = 4, seed: int = 0) -> Data:
    """Two noisy classes and a noisy curve; about equal classes, so that ν = 0.4 is feasible with weights too."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind == "duplicated":
        X = X[rng.integers(0, n // 3, n)]  # copies of the same point, some of them with different targets
    score = X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.5 + 0.5 * rng.normal(size=n)
    labels = np.where(score > np.median(score), 1.0, -1.0)
    values = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    if kind == "duplicated":
        values = np.round(values, 1)
    weight = rng.choice([0.5, 1.0, 2.0, 3.0], n) if kind == "weighted" else np.ones(n)
    return Data(X, labels, values, weight)


def fast_problem(variant: Variant, kernel: str, data: Data, **options) -> QP:
    """The problem as the package would make it."""
    gram = KernelGram(KERNEL_CASES[kernel], data.X, **options)
    return variant.formulation.qp(Samples(gram, variant.targets(data), data.weight))


def primal_problem(variant: Variant, kernel: str, data: Data) -> ERM | None:
    """The primal view of a problem, where the formulation has one."""
    if not hasattr(variant.formulation, "erm"):
        return None
    return variant.formulation.erm(
        Samples(KernelGram(KERNEL_CASES[kernel], data.X), variant.targets(data), data.weight)
    )


# Solvers of any QP; the others say what they take (``takes``), and only the grid asks all of them.
def with_sizes(solver: str, sizes: Sizes) -> dict:
    """The option of a solver by which these sizes count, if it has one."""
    return {"sizes": sizes} if any(f.name == "sizes" for f in fields(SOLVERS[solver])) else {}


GENERAL_SOLVERS = [name for name, make in SOLVERS.items() if make.form is QP and not hasattr(make, "objection")]


def takes(name: str, problem: QP | ERM | None, **options) -> bool:
    """Whether a solver takes a problem. If not, it says so in one sentence that names others."""
    solver = make_solver(name, **options)
    objection = solver.objection(problem) if hasattr(solver, "objection") else None
    if objection is None:
        return True
    with pytest.raises(ValueError, match=re.escape(objection)):
        solver.solve(problem)
    assert len(objection.split("; ")) == 3
    assert any(f'"{other}"' in objection for other in SOLVERS if other != name)
    return False


def skip_unless_takes(name: str, problem: QP | ERM | None) -> None:
    """Skip a test of a solver that does not take its problem, and check that the solver says so."""
    if not takes(name, problem):
        pytest.skip(f"{name} does not take this problem")


def plain_problem(variant: Variant, kernel: str, data: Data) -> QP:
    """The same problem on a kernel matrix computed by its formula."""
    k = KERNEL_CASES[kernel]
    K = naive_kernel(kernel, data.X, gamma=k.gamma, coef0=k.coef0, degree=k.degree)
    return variant.formulation.qp(Samples(PrecomputedGram(K), variant.targets(data), data.weight))


def verdict_on(qp: QP) -> Verdict:
    """The referee's optimum of a problem."""
    H = qp.H.dense() if hasattr(qp.H, "dense") else qp.H
    return referee(H, qp.p, qp.lower, qp.upper, qp.A, qp.b, qp.eps)


@cache
def known(variant: Variant, kernel: str, kind: str, n: int = 60) -> tuple[QP, Verdict]:
    """The plain problem and its optimum, computed once."""
    qp = plain_problem(variant, kernel, make_data(kind, n))
    return qp, verdict_on(qp)
