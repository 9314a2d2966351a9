"""The contenders for linear machines: each in its own terms, each returns w and b.

    settings(problem, X)              what it is tried with, from loose to tight; a list of such ladders
    prepare(problem, X, y, setting)   before the clock starts: the layout that it likes best
    fit(problem, data, setting)       on the clock: a Line, which is w and b

Where a contender can only penalise the bias, the free bias is tried as a bias that is hardly penalised: a constant
feature of 10 or 100 in place of 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import linear_problems as names
import numpy as np
from linear_problems import LinearProblem
from scipy import sparse

__all__ = ["LINEAR_PEERS", "Line", "LinearPeer"]

SPARSE_BELOW = 0.3  # share of nonzeros under which compressed rows are tried
FOREVER = 10_000_000  # iterations: the tolerance decides, or the clock
SCALINGS = (1.0, 10.0, 100.0)  # of the constant feature, for a bias that is to be free


def tolerances(loosest: float, tightest: float) -> list[float]:
    """Half decades from loose to tight."""
    steps = round(2 * np.log10(loosest / tightest))
    return [float(f"{loosest * 10 ** (-k / 2):.2g}") for k in range(steps + 1)]


def ladder(loosest: float, tightest: float, **fixed) -> list[dict]:
    return [fixed | {"tol": tol} for tol in tolerances(loosest, tightest)]


def scalings(problem: LinearProblem) -> tuple[float, ...]:
    return (1.0,) if problem.bias == "penalised" else SCALINGS


def in_layout(X, layout: str):
    if layout == "csr":
        return sparse.csr_matrix(X)
    return X.toarray() if sparse.issparse(X) else X


def layouts(X) -> tuple[str, ...]:
    """Those worth a try, the likelier first."""
    if sparse.issparse(X):
        return ("csr",)
    return ("csr", "dense") if np.count_nonzero(X) < SPARSE_BELOW * X.size else ("dense",)


def with_constant(X, value: float):
    column = np.full((X.shape[0], 1), value)
    return sparse.hstack([X, column], format="csr") if sparse.issparse(X) else np.hstack([X, column])


class Line(NamedTuple):
    """A linear machine, and what it says of itself."""

    w: np.ndarray
    b: float
    steps: int | None = None  # of its solver
    bound: float | None = None  # that it proves for the optimum
    solver: str = ""


def line(model, **more) -> Line:
    """From a model in scikit-learn's layout."""
    w = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    return Line(np.ravel(w).astype(float), float(np.ravel(model.intercept_)[0]), **more)


def ours(model) -> Line:
    """With what our certificate says, written as a lower bound of the primal."""
    steps, bound = int(np.max(model.n_iter_)), float(model.certificate_.dual)
    return line(model, steps=steps, bound=bound, solver=str(model.solver_))


@dataclass(frozen=True)
class LinearPeer:
    package: str  # as installed

    @property
    def version(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:  # run from its sources
            return getattr(import_module(self.package), "__version__", "unknown")

    def offers(self, problem: LinearProblem) -> bool:
        return True

    def prepare(self, problem: LinearProblem, X, y, setting: dict):
        return in_layout(X, setting.get("layout") or layouts(X)[0]), y


@dataclass(frozen=True)
class Ours(LinearPeer):
    """LinearSVC and LinearSVR; tol is the relative gap. Both layouts are tried where many values are zero."""

    solver: str = "auto"
    options: dict = field(default_factory=dict)  # of the solver

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        return [ladder(1e-2, 1e-9, layout=layout) for layout in layouts(X)]

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        import maxmargin

        X, y = data
        solver = maxmargin.SOLVERS[self.solver](**self.options) if self.options else self.solver
        common = dict(C=problem.C, loss=problem.loss, tol=setting["tol"], solver=solver, max_iter=-1)
        common |= {"intercept_scaling": 1} if problem.bias == "penalised" else {}
        if problem.regression:
            return ours(maxmargin.LinearSVR(epsilon=problem.epsilon, **common).fit(X, y))
        return ours(maxmargin.LinearSVC(**common).fit(X, y))


@dataclass(frozen=True)
class Liblinear(LinearPeer):
    """LIBLINEAR inside scikit-learn: one thread, the bias penalised; the squared hinge by either of its solvers."""

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        return [
            ladder(1.0 if dual else 0.1, 1e-9, dual=dual, scaling=scaling)
            for scaling in scalings(problem)
            for dual in ([True, False] if problem.loss == "squared_hinge" else [True])
        ]

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        from sklearn.svm import LinearSVC, LinearSVR

        X, y = data
        common = dict(C=problem.C, loss=problem.loss, tol=setting["tol"], dual=setting["dual"], max_iter=FOREVER)
        common |= dict(intercept_scaling=setting["scaling"], random_state=0)
        if problem.regression:
            return line(LinearSVR(epsilon=problem.epsilon, **common).fit(X, y))
        return line(LinearSVC(**common).fit(X, y))


@dataclass(frozen=True)
class LiblinearOfficial(LinearPeer):
    """LIBLINEAR's own package; its limit on the number of iterations is fixed. The squared hinge can free the bias."""

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        dual = {"hinge": 3, "squared_hinge": 1, "epsilon_insensitive": 13}[problem.loss]
        ladders = [ladder(1.0, 1e-9, solver=dual, scaling=scaling) for scaling in scalings(problem)]
        if problem.loss == "squared_hinge":
            ladders.append(ladder(0.1, 1e-9, solver=2, scaling=1.0, free=problem.bias == "free"))
        return ladders

    def prepare(self, problem: LinearProblem, X, y, setting: dict):
        from liblinear.liblinearutil import problem as rows

        return rows(np.asarray(y, float), sparse.csr_matrix(X), setting["scaling"])

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        from liblinear.liblinearutil import train

        options = f"-s {setting['solver']} -c {problem.C} -e {setting['tol']} -p {problem.epsilon}"
        model = train(data, f"{options} -B {setting['scaling']:g} -q" + " -R" * setting.get("free", False))
        sign = 1 if problem.regression or model.get_labels()[0] == 1 else -1  # the first label seen is its positive one
        w = sign * np.ctypeslib.as_array(model.w, (model.nr_feature + 1,))
        return Line(w[:-1], float(w[-1] * setting["scaling"]))


@dataclass(frozen=True)
class ReHLine(LinearPeer):
    """ReHLine: one thread; tol is the relative gap. The constant feature is appended before the clock starts."""

    def offers(self, problem: LinearProblem) -> bool:
        return problem.loss != "squared_hinge"

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        return [ladder(1e-1, 1e-9, scaling=scaling) for scaling in scalings(problem)]

    def prepare(self, problem: LinearProblem, X, y, setting: dict):
        return with_constant(in_layout(X, layouts(X)[0]), setting["scaling"]), np.asarray(y, float)

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        from rehline import plqERM_Ridge

        X, y = data
        loss = {"name": "svr", "epsilon": problem.epsilon} if problem.regression else {"name": "svm"}
        model = plqERM_Ridge(loss=loss, C=problem.C, tol=setting["tol"], max_iter=FOREVER).fit(X, y)
        return Line(model.coef_[:-1], float(model.coef_[-1] * setting["scaling"]))


@dataclass(frozen=True)
class SnapML(LinearPeer):
    """Snap ML: on one thread and on two, since more threads find other solutions.

    Its tolerance can end a fit early however small it is, so the ladder goes on with tolerance 0 and a number of
    iterations. Even then it can settle above the optimum, at a value that depends on the order of the rows.
    """

    def offers(self, problem: LinearProblem) -> bool:
        return not problem.regression

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        counted = [{"tol": 0.0, "max_iter": count} for count in (1000, 3200, 10_000, 32_000, 100_000)]
        return [
            [rung | {"n_jobs": n_jobs, "scaling": scaling} for rung in ladder(1e-1, 1e-9, max_iter=100_000) + counted]
            for scaling in scalings(problem)
            for n_jobs in (1, 2)
        ]

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        from snapml import SupportVectorMachine

        X, y = data
        return line(
            SupportVectorMachine(
                loss=problem.loss,
                regularizer=1 / problem.C,
                tol=setting["tol"],
                n_jobs=setting["n_jobs"],
                max_iter=setting["max_iter"],
                fit_intercept=True,
                intercept_scaling=setting["scaling"],
                random_state=0,
            ).fit(X, y)
        )


@dataclass(frozen=True)
class KernelMachine(LinearPeer):
    """SVC(kernel="linear") and SVR(kernel="linear"): the bias is free."""

    module: str = "sklearn.svm"
    solver: str = ""  # ours alone has a choice

    def offers(self, problem: LinearProblem) -> bool:
        return problem.bias == "free" and problem.loss != "squared_hinge"

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        # Dense if it can be: of compressed rows scikit-learn-intelex forgets features at the end that are always zero.
        return [ladder(1.0, 1e-12, layout=layouts(X)[-1])]

    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        X, y = data
        machines, common = import_module(self.module), dict(kernel="linear", C=problem.C, tol=setting["tol"])
        common |= {"solver": self.solver} if self.solver else {}
        kind = machines.SVR if problem.regression else machines.SVC
        model = kind(**common, **({"epsilon": problem.epsilon} if problem.regression else {})).fit(X, y)
        return ours(model) if self.solver else line(model)


@dataclass(frozen=True)
class QuadraticProgram(LinearPeer):
    """A general QP solver on the primal: variables w, b and the slacks, rows y (wᵀx + b) + ξ ≥ 1, ξ ≥ 0."""

    def offers(self, problem: LinearProblem) -> bool:
        return problem.loss in ("hinge", "squared_hinge")

    def settings(self, problem: LinearProblem, X) -> list[list[dict]]:
        return [ladder(1e-3, 1e-10)]

    def prepare(self, problem: LinearProblem, X, y, setting: dict):
        (n, d), squared = X.shape, problem.loss == "squared_hinge"
        curvature = [np.ones(d), [float(problem.bias == "penalised")], np.full(n, 2 * problem.C * squared)]
        cost = np.concatenate([np.zeros(d + 1), np.full(n, problem.C * (not squared))])
        signed = sparse.diags(np.asarray(y, float)) @ sparse.csr_matrix(with_constant(X, 1.0))
        rows = sparse.hstack([signed, sparse.identity(n)], format="csc")
        return sparse.diags(np.concatenate(curvature), format="csc"), cost, rows, d


@dataclass(frozen=True)
class Clarabel(QuadraticProgram):
    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        import clarabel

        P, q, rows, d = data
        n = rows.shape[0]
        nonnegative = sparse.hstack([sparse.csc_matrix((n, d + 1)), sparse.identity(n)], format="csc")
        A = -sparse.vstack([rows, nonnegative], format="csc")
        options = clarabel.DefaultSettings()
        options.verbose = False
        options.tol_gap_rel = options.tol_gap_abs = options.tol_feas = setting["tol"]
        cones = [clarabel.NonnegativeConeT(2 * n)]
        z = np.array(clarabel.DefaultSolver(P, q, A, np.r_[-np.ones(n), np.zeros(n)], cones, options).solve().x)
        return Line(z[:d], float(z[d]))


@dataclass(frozen=True)
class Piqp(QuadraticProgram):
    def fit(self, problem: LinearProblem, data, setting: dict) -> Line:
        import piqp

        P, q, rows, d = data
        n, big = rows.shape[0], np.inf
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = setting["tol"]
        low = np.r_[np.full(d + 1, -big), np.zeros(n)]
        solver.setup(P, q, None, None, rows, np.ones(n), np.full(n, big), low, np.full(d + 1 + n, big))
        solver.solve()
        return Line(solver.result.x[:d], float(solver.result.x[d]))


LINEAR_PEERS: dict[str, LinearPeer] = {
    names.OURS: Ours("maxmargin"),
    **{name: Ours("maxmargin", solver) for name, solver in names.NAMED.items()},
    names.IPM_WHOLE: Ours("maxmargin", "interior-point", {"screening": False}),
    names.OURS_SVC: KernelMachine("maxmargin", "maxmargin", "auto"),
    names.OURS_SMO: KernelMachine("maxmargin", "maxmargin", "smo"),
    names.LIBLINEAR: Liblinear("scikit-learn"),
    names.OFFICIAL: LiblinearOfficial("liblinear-official"),
    names.REHLINE: ReHLine("rehline"),
    names.SNAPML: SnapML("snapml"),
    names.SKLEARN: KernelMachine("scikit-learn"),
    names.INTELEX: KernelMachine("scikit-learn-intelex", "sklearnex.svm"),
    names.CLARABEL: Clarabel("clarabel"),
    names.PIQP: Piqp("piqp"),
}
