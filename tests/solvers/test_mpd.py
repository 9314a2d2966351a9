"""MPD: every row of its Table 1, made semi-parametric with up to five functions, against the referee."""

from functools import cache

import numpy as np
import pytest

from cases import VARIANTS, Variant, make_data, plain_problem, verdict_on
from maxmargin.formulations import CSVC, EpsilonSVR, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import MPD, Adatron, solve
from maxmargin.solvers.parts.limits import EACH_SIDE
from maxmargin.solvers.parts.working_sets import Sizes

AS_PUBLISHED = {
    "hessian": "diagonal", "clamping": False, "augment": 0.0, "eager": 0.0, "orthogonal": False, "newton": False,
    "omega": 1.0,
}  # fmt: skip
LARGE = Sizes(matrix=0, shrink=15, grow=15, call=20_000, stall=50)  # working sets, samples, shrinking, many looks

UNCONSTRAINED = [v for v in VARIANTS if v.name in ("c_svc", "epsilon_svr") and not v.formulation.fit_intercept]

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def functions(X: np.ndarray, k: int) -> np.ndarray:
    """k functions that take both signs, so that coefficients of one sign can cancel against them."""
    phi = [np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 2], np.tanh(X[:, 2] - X[:, 3]), X[:, 1] * X[:, 3]]
    return np.array(phi[:k]).reshape(k, len(X))


@cache
def semi_parametric(variant, kernel: str, k: int, kind: str = "plain", n: int = 60):
    data = make_data(kind, n)
    y = variant.targets(data)
    gram = plain_problem(VARIANTS[0], kernel, data).H
    qp = SemiParametric(variant.formulation, functions(data.X, k)).qp(Samples(gram, y, data.weight))
    return qp, verdict_on(qp)


def multipliers_are_unique(qp: QP, beta: np.ndarray) -> bool:
    free = (beta > qp.lower) & (beta < qp.upper) & ((qp.eps == 0) | (beta != 0))
    return len(qp.A) == 0 or (free.any() and np.linalg.matrix_rank(qp.A[:, free], tol=1e-3) == len(qp.A))


def check(qp, best, solution, tol=1e-5, rel=1e-5):
    assert solution.status is Status.CONVERGED
    assert (solution.beta >= qp.lower).all() and (solution.beta <= qp.upper).all()
    assert np.abs(qp.A @ solution.beta - qp.b).max(initial=0.0) < 1e-9 * max(1.0, np.abs(solution.beta).sum())
    assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=rel, abs=1e-9)
    assert solution.certificate.violation <= tol
    if multipliers_are_unique(qp, solution.beta):
        size = max(1.0, np.abs(best.multipliers).max(initial=0.0))
        np.testing.assert_allclose(solution.multipliers, best.multipliers, rtol=0, atol=1e-3 * size)


@every_variant
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("k", range(6))
@pytest.mark.parametrize("newton", [True, False])
def test_table_1_made_semi_parametric(variant, kernel, k, newton):
    qp, best = semi_parametric(variant, kernel, k)
    check(qp, best, solve(qp, "mpd", tol=1e-5, newton=newton))


def gauss_seidel(qp, steps: int) -> np.ndarray:
    """Kernel Adatron as it is written in the papers: the variable that violates most goes to its minimum in the box."""
    K, beta = qp.H.dense(), np.zeros(qp.n)
    for _ in range(steps):
        slope = K @ beta + qp.p
        new = np.clip(beta - slope / K.diagonal(), qp.lower, qp.upper)
        pull = np.where(new != beta, np.abs(slope), 0.0)
        i = int(pull.argmax())
        beta[i] = new[i]
    return beta


@pytest.mark.parametrize("steps", [1, 2, 5, 20, 60])
def test_without_constraints_it_is_the_adatron(steps):
    """Step by step, not only in the end: any two correct solvers end at the same optimum."""
    variant = Variant("c_svc", CSVC(C=0.7, fit_intercept=False))
    qp = plain_problem(variant, "rbf", make_data("plain"))  # its diagonal is 1: most gain is most violation
    best = gauss_seidel(qp, steps)
    assert np.count_nonzero(best) > 0
    for solver in (MPD(omega=1.0, newton=False), Adatron()):
        found = solver.solve(qp, Goal(violation=1e-12, max_iter=steps))
        assert found.n_iter == steps
        assert found.multipliers.shape == (0,)
        np.testing.assert_allclose(found.beta, best, rtol=1e-10, atol=1e-12)


@every_variant
@pytest.mark.parametrize("kind", ["weighted", "duplicated"])
def test_weights_and_duplicates(variant, kind):
    qp, best = semi_parametric(variant, "rbf", 1, kind)
    check(qp, best, solve(qp, "mpd", tol=1e-5))


@every_variant
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("working_set", [7, 20])
def test_working_sets_samples_and_shrinking(variant, k, working_set):
    qp, best = semi_parametric(variant, "rbf", k, n=100)
    options = {"working_set": working_set, "newton": False, "cache_size": 0.1, "sizes": LARGE}
    check(qp, best, solve(qp, "mpd", tol=1e-5, **options))


@pytest.mark.parametrize("number", range(0, len(VARIANTS), 4))
def test_working_sets_that_must_not_move_the_multipliers(number):
    """The mode that cannot cycle, from the first working set on."""
    qp, best = semi_parametric(VARIANTS[number], "rbf", 2)
    check(qp, best, solve(qp, "mpd", tol=1e-5, working_set=20, newton=False, joint=False, sizes=LARGE))


PROBLEMS = {
    "classification": (CSVC(C=10.0), "labels"),
    "regression": (EpsilonSVR(C=10.0, epsilon=0.1), "values"),
    "squared": (EpsilonSVR(C=10.0, epsilon=0.1, loss="squared_epsilon_insensitive"), "values"),
}
OPTIONS = [
    {},
    {"hessian": "full"},
    {"hessian": "diagonal"},
    {"hessian": "full", "clamping": False},
    {"hessian": "full", "settled": True},
    {"hessian": "full", "settled": True, "clamping": False},
    {"eager": 0.0},
    {"eager": 1.0},
    {"augment": 1.0},
    {"augment": 0.01},
    {"orthogonal": False},
    {"augment": 0.0, "hessian": "full"},
    {"augment": 0.0, "hessian": "diagonal", "settled": True, "clamping": False},
    AS_PUBLISHED,
]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_leads_to_the_optimum(name, options):
    """A kernel that is safely positive definite, as MPD assumes."""
    formulation, targets = PROBLEMS[name]
    data = make_data("plain")
    gram = KernelGram(Kernel("rbf", 1.0), data.X)
    qp = SemiParametric(formulation, functions(data.X, 2)).qp(Samples(gram, getattr(data, targets), data.weight))
    check(qp, verdict_on(qp), solve(qp, "mpd", tol=1e-5, **({"newton": False} | options)))


def singular_problem() -> QP:
    data = make_data("plain")
    gram = KernelGram(Kernel("linear"), data.X[:, :2])
    return SemiParametric(CSVC(), functions(data.X, 3)).qp(Samples(gram, data.labels, data.weight))


def test_the_bound_makes_up_for_an_estimate_that_misleads():
    """H of rank 2: the dual function has corners, and steps of its estimated Newton method lead nowhere."""
    qp = singular_problem()
    check(qp, verdict_on(qp), solve(qp, "mpd", tol=1e-5, newton=False))
    lost = solve(qp, "mpd", tol=1e-5, max_iter=50_000, **AS_PUBLISHED)
    assert lost.status is not Status.CONVERGED
    assert lost.certificate.infeasibility < 1e-9  # it still hands back a feasible point, with a true certificate
    assert lost.certificate.gap >= qp.objective(lost.beta) - verdict_on(qp).objective - 1e-7


def two_gaussians(seed: int) -> QP:
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 1.0])
    gram = KernelGram(Kernel("rbf", 0.5), X)
    return CSVC(C=1000 / 40).qp(Samples(gram, np.repeat([1.0, -1.0], 20), np.ones(40)))


@pytest.mark.parametrize("seed", range(4))
def test_figure_1(seed):
    """Two Gaussians, 20 points each, √2 apart, C = 1000 (of all points), ε_p = ε_d = .01: MPD reports 4 among 630."""
    qp = two_gaussians(seed)
    solution = solve(qp, "mpd", tol=0.01 / EACH_SIDE, trace=10_000, **AS_PUBLISHED)
    trace = solution.history.trace
    primal, dual, steps = trace["primal_violation"], trace["dual_violation"], trace["dual_steps"]
    assert 1 <= steps[-1] <= 9
    assert 300 <= len(steps) <= 3000
    assert (np.diff(steps) >= 0).all() and steps[0] == 0
    assert primal[-1] < 0.01 and dual[-1] < 0.01
    # Each dual step waits for the primal ones; a long one spoils the conditions that they had mended.
    for at in np.flatnonzero(np.diff(steps)):
        assert primal[at] < 0.01 and (dual[at] < 0.1 or primal[at] < primal[at + 1])
    eta = trace["eta"]
    assert eta.shape == (len(steps), 1) and eta[0] == 0.0
    assert eta[-1] == pytest.approx(verdict_on(qp).multipliers, abs=0.05)


def test_no_trace_unless_asked_for():
    qp = two_gaussians(0)
    assert solve(qp, "mpd").history.trace == {}
    assert len(solve(qp, "mpd", trace=10).history.trace["dual_violation"]) == 10


def test_dependent_and_empty_rows():
    """Rows that say the same or nothing at all change nothing; their multipliers are those of the smallest norm."""
    data = make_data("plain")
    gram = PrecomputedGram(plain_problem(VARIANTS[0], "rbf", data).H.dense())
    plain = CSVC().qp(Samples(gram, data.labels, data.weight))
    A = np.vstack([plain.A, 3.0 * plain.A, np.zeros(60)])
    qp = QP(gram, plain.p, plain.lower, plain.upper, A, np.zeros(3))
    solution = solve(qp, "mpd", tol=1e-6)
    best = verdict_on(plain)
    assert qp.objective(solution.beta) == pytest.approx(best.objective, rel=1e-6)
    assert solution.multipliers @ [1.0, 3.0, 0.0] == pytest.approx(best.multipliers[0], abs=1e-4)


def test_constraints_that_cannot_be_met():
    qp = QP(np.eye(4), np.zeros(4), 0.0, 1.0, np.ones((1, 4)), [5.0])
    with pytest.raises(ValueError, match="no point of the box holds its 1 equality constraints"):
        solve(qp, "mpd")


def test_more_constraints_than_variables_have_room_for():
    """One point is left: nothing to optimise, but multipliers to find."""
    rng = np.random.default_rng(0)
    A, inside = rng.normal(size=(4, 4)), rng.uniform(0.2, 0.8, 4)
    qp = QP(np.eye(4), rng.normal(size=4), 0.0, 1.0, A, A @ inside)
    solution = solve(qp, "mpd", tol=1e-6)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.beta, inside, atol=1e-6)
    np.testing.assert_allclose(qp.gradient(solution.beta, solution.multipliers), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hessian": "exact"}, 'hessian=\'exact\' was asked for; found "full", "diagonal", "bound"'),
        ({"augment": -1.0}, "augment=-1.0 was asked for"),
        ({"augment": 0.0, "hessian": "bound"}, "augment=0.0 was asked for; found no step"),
        ({"working_set": 0}, "working_set=0 was asked for; found outside"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        MPD(**options)
