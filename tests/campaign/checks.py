"""Fits a problem and compares what the package says of the model with what its public attributes say.

| kind            | what is wrong, the most harmful first                                                            |
| --------------- | ------------------------------------------------------------------------------------------------ |
| wrong model     | CONVERGED, but the public attributes do not meet the tolerance, or break a constraint            |
| crash           | an exception that is no documented ValueError, a RuntimeWarning, or values that are not finite   |
| hang            | not done within a time that n and d make generous, or a time limit that was not kept             |
| false proof     | the certificate differs from what the public attributes give                                     |
| worse           | a referee has found a point that the certificate rules out                                       |
| predictions     | ``decision_function`` or ``predict`` are not what the attributes say, or worse than a referee's  |
| not the same    | weights and copies, order, splits, shifts or scales change the solution by more than gaps allow  |
| gave up         | it stopped without having been asked to, though the tolerance is within reach of float64         |
| modest          | the tolerance is met, but the status does not say so                                             |
| silent          | no warning where one is due: an early stop, or a gap of more than a tenth                        |
| objection       | a solver does not take a problem, and names no other that does                                   |
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import maxmargin

from . import programs, referees, textbook
from .problems import CLASSIFIERS, LINEAR, REGRESSORS, Problem, given, make_problem, quadratic_kernel
from .textbook import Evidence, Part

__all__ = ["KINDS", "Failure", "Report", "check", "check_seed"]

KINDS = (
    "wrong model", "crash", "hang", "false proof", "worse", "predictions", "not the same", "gave up", "modest", "silent", "objection",
)  # fmt: skip
SAME = 1e-6  # relative: the certificate against the same numbers by hand
FEASIBLE = 1e-8  # share of a box or of a sum of absolute values by which a constraint may be missed
REACH = 1e-12  # of Σ |K||c|: violations that float64 may not be able to bring down
HAIR = 1e-8  # relative: an offset may be moved by so much, so that points on a boundary are inside
LARGE_GAP = 0.1  # share of the objective that nobody would take for converged without a word
CLOSE = 0.01  # share of the objective: models that near to their optimum are compared by their predictions
POINTS = 0.05  # accuracy or R² by which predictions may be worse then
HUGE = 1e100
MOST_OF_A_KIND = 2
AWAY = 1e4  # times the size of all that is added to it: an intercept that has run away


@dataclass(frozen=True)
class Failure:
    kind: str
    message: str


@dataclass
class Report:
    """What came of one problem."""

    seed: int
    machine: str
    solver: str
    n: int
    d: int
    seconds: float = 0.0
    outcome: str = "ok"  # "ok", "skipped", "slow" or "failed"
    detail: str = ""
    failures: list[Failure] = field(default_factory=list)

    def fail(self, kind: str, message: str) -> None:
        self.outcome = "failed"
        if sum(f.kind == kind for f in self.failures) < MOST_OF_A_KIND:  # problems with many classes repeat themselves
            self.failures.append(Failure(kind, message))


@dataclass
class Fitted:
    """A fit and what it said."""

    model: Any
    messages: list[warnings.WarningMessage]
    error: BaseException | None
    seconds: float

    def said(self, category: type[Warning]) -> list[str]:
        return [str(m.message) for m in self.messages if issubclass(m.category, category)]


def patience(problem: Problem) -> float:
    """Seconds that are generous for a fit: a machine for all pairs of classes, on a busy core."""
    return 8.0 + 2e-3 * problem.n + 2e-7 * problem.n**2 + 1e-7 * problem.n * problem.d**2


def check_seed(seed: int) -> Report:
    """Make the problem of this number, fit it and check it."""
    return check(make_problem(seed))


def check(problem: Problem) -> Report:
    """Fit a problem and check all that can be checked."""
    started = time.perf_counter()
    if problem.machine == "QP":
        report = Report(problem.seed, "QP", problem.solver, 0, 0)
        programs.check(problem.seed, problem.solver, report)
    else:
        report = Report(problem.seed, problem.machine, problem.solver, problem.n, problem.d, detail=str(problem))
        _check_machine(problem, report)
    report.seconds = time.perf_counter() - started
    return report


# -- fitting ----------------------------------------------------------------------------------------------------------


def fit(problem: Problem) -> Fitted:
    """The model of a problem, with warnings kept and RuntimeWarnings as errors."""
    params = dict(problem.params)
    if problem.stop != "time_limit":  # nothing may run for ever
        params["time_limit"] = patience(problem) if problem.solver == "auto" else 0.3 * patience(problem)
    model = getattr(maxmargin, problem.machine)(**params)
    target = () if problem.y is None else (problem.y,)
    started, error = time.process_time(), None
    with warnings.catch_warnings(record=True) as messages, given(problem) as X:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            if problem.before is not None:
                model.set_params(**problem.before).fit(X, *target, sample_weight=problem.weight)
                model.set_params(**{key: problem.params[key] for key in problem.before})
                messages.clear()
            model.fit(X, *target, sample_weight=problem.weight)
        except Exception as caught:  # whatever it is, it goes into the report
            error = caught
    return Fitted(model, list(messages), error, time.process_time() - started)


def where(error: BaseException) -> str:
    """The line of the package that raised, and what."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "maxmargin" in f.filename]
    at = f"{frames[-1].filename.split('maxmargin/', 1)[-1]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {at}: {str(error)[:300]}"


DOCUMENTED = (  # parts of errors that are answers, not failures
    "specified nu is infeasible",
    "linearly independent were asked for",
    "The number of classes has to be greater than one",
    "which have to add up to 1",
    "choose C of at least",
)


def _answer(problem: Problem, error: BaseException) -> str | None:
    """What a documented error says, or None."""
    if not isinstance(error, ValueError):
        return None
    text = str(error)
    if any(part in text for part in DOCUMENTED):
        return text
    others = [name for name in maxmargin.SOLVERS if name != problem.solver and re.search(f"[\"']{name}[\"']", text)]
    if problem.solver != "auto" and text.count(";") >= 2 and others:
        return text
    return None


# -- a model by hand --------------------------------------------------------------------------------------------------


def kernel_of(problem: Problem) -> textbook.Kernel | None:
    """The kernel that the parameters name, None for a matrix."""
    params = problem.params
    kernel = params.get("kernel", "rbf")
    if kernel == "precomputed":
        return None
    if callable(kernel):
        return textbook.Kernel("products" if kernel is quadratic_kernel else "callable", function=kernel)
    return textbook.Kernel(kernel, gamma_of(problem), params.get("coef0", 0.0), params.get("degree", 3))


def gamma_of(problem: Problem) -> float:
    """1 / (d · variance of all entries) for "scale", a weight being so many copies."""
    gamma = problem.params.get("gamma", "scale")
    if gamma == "auto":
        return 1.0 / problem.d
    if gamma != "scale":
        return float(gamma)
    X, copies = problem.dense, problem.weights
    total = copies.sum() * problem.d
    mean = (copies @ X).sum() / total
    variance = float((copies @ (X - mean) ** 2).sum() / total)
    return 1.0 / (problem.d * variance) if variance > 0 else 1.0


def class_factors(problem: Problem, classes: np.ndarray) -> np.ndarray:
    """What class_weight makes of each class."""
    given = problem.params.get("class_weight")
    if given is None:
        return np.ones(len(classes))
    if given == "balanced":
        mass = np.array([problem.weights[problem.y == c].sum() for c in classes])
        return mass.sum() / (len(classes) * mass)
    return np.array([given[c.item()] for c in classes])


def functions_of(problem: Problem) -> np.ndarray:
    """φ at the samples."""
    functions = problem.params.get("parametric") or []
    return np.column_stack([f(problem.X) for f in functions]) if functions else np.zeros((problem.n, 0))


def parts_of(problem: Problem, model) -> list[Part]:
    """The problems of a fitted kernel machine, from its public attributes."""
    X, kernel, phi = problem.dense, kernel_of(problem), functions_of(problem)
    weight = problem.weights
    free = bool(problem.params.get("fit_intercept", True)) and problem.machine not in ("OneClassSVM", "SVDD")
    slopes = (
        np.atleast_2d(model.parametric_coef_) if phi.shape[1] else np.zeros((len(np.atleast_1d(model.intercept_)), 0))
    )
    dual = np.asarray(model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_, np.float64)
    C = float(problem.params.get("C", 1.0) or 1.0)

    def part(rows, y, cost, support, coef, number) -> Part:
        full = np.zeros(problem.n)
        full[support] = coef
        if kernel is None:
            Kc, size = textbook.kernel_sum(None, X[rows], support, coef)
        else:
            Kc, size = textbook.kernel_sum(kernel, X, support, coef, at=X[rows])
        diagonal = None
        if problem.machine == "SVDD":
            diagonal = X.diagonal()[rows] if kernel is None else kernel.diagonal(X[rows])
        bias = float(np.atleast_1d(model.intercept_)[number])
        return Part(rows, y, cost, full[rows], bias, Kc, size, phi[rows], slopes[number], free, diagonal)

    if problem.machine not in CLASSIFIERS:
        rows = np.flatnonzero(weight)
        target = np.zeros(len(rows)) if problem.y is None else np.asarray(problem.y, np.float64)[rows]
        cost = weight[rows]
        if problem.machine in REGRESSORS:
            cost = C * cost
        elif problem.machine == "SVDD":
            given_C = problem.params.get("C")
            cost = (given_C if given_C else 1.0 / (problem.params.get("nu", 0.5) * cost.sum())) * cost
            cost = np.minimum(cost, 1.0)
        return [part(rows, target, cost, model.support_, dual[0], 0)]

    classes = model.classes_
    factors = class_factors(problem, classes)
    label = np.searchsorted(classes, problem.y)
    owner = np.repeat(np.arange(len(classes)), model.n_support_)
    parts = []
    for number, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        rows = np.flatnonzero(((label == i) | (label == j)) & (weight > 0))
        y = np.where(label[rows] == (j if len(classes) == 2 else i), 1.0, -1.0)
        cost = weight[rows] * factors[label[rows]]
        of_i, of_j = owner == i, owner == j
        support = np.concatenate([model.support_[of_i], model.support_[of_j]])
        coef = np.concatenate([dual[j - 1, of_i], dual[i, of_j]])
        if problem.machine == "SVC":
            cost = C * cost
        parts.append(part(rows, y, cost, support, coef, number))
    return parts


def nu_scale(problem: Problem, part: Part) -> tuple[np.ndarray, float]:
    """Weights of a ν-SVC and S = Σ α: the scale in which tol is meant has S = ν n, as LIBSVM has without weights."""
    nu, w = problem.params.get("nu", 0.5), part.cost
    sides = w[part.y > 0].sum(), w[part.y < 0].sum()
    most = 2.0 * min(sides) / sum(sides) if part.free_bias else 1.0
    total = nu * len(w)
    return w * (total / (min(nu, most) * w.sum())), total


def evidence_of(problem: Problem, model, part: Part, certificate=None) -> Evidence:
    """What a part of a model is worth; where attributes leave a sign open, the one that the certificate is about."""
    params = problem.params
    if problem.machine == "SVC":
        return textbook.c_svc(part, params.get("loss", "hinge"), params.get("huber_delta", 0.5))
    if problem.machine == "SVR":
        return textbook.svr(part, params.get("epsilon", 0.1), params.get("loss", "").startswith("squared"))
    if problem.machine == "NuSVR":
        return textbook.nu_svr(part, params.get("nu", 0.5), float(model.epsilon_))
    if problem.machine == "OneClassSVM":
        return textbook.one_class(part, params.get("nu", 0.5), -part.bias)
    if problem.machine == "SVDD":
        return textbook.svdd(part)
    weight, total = nu_scale(problem, part)
    part = replace(part, cost=weight)
    found = [textbook.nu_svc(part, total, sign) for sign in (1.0, -1.0)]
    if abs(np.abs(part.coef).sum() / total - 1.0) < FEASIBLE:
        found.append(textbook.nu_svc(part, total, 0.0))  # or there is no margin, and nothing was divided by it
    if certificate is None:
        return min(found, key=lambda e: (e.outside > FEASIBLE, e.violation))
    return min(found, key=lambda e: (e.outside > FEASIBLE, abs(e.primal - certificate.primal)))


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_machine(problem: Problem, report: Report) -> None:
    fitted = fit(problem)
    if fitted.error is not None:
        answer = _answer(problem, fitted.error)
        if answer is None:
            polite = isinstance(fitted.error, ValueError) and str(fitted.error).count(";") >= 2
            report.fail("objection" if polite and problem.solver != "auto" else "crash", where(fitted.error))
        else:
            report.outcome = "skipped"
            report.detail += f" {answer}"
        return
    limit = problem.params["time_limit"] + 2.0 if problem.stop == "time_limit" else 3.0 * patience(problem)
    if fitted.seconds > (1.0 + bool(problem.before)) * limit * max(1, min(2, problem.params.get("n_jobs") or 1)):
        report.fail("hang", f"{fitted.seconds:.1f} s of processor time where {limit:.1f} s are generous")
    if not _finite(fitted.model):
        report.fail("crash", "an attribute is not finite, or too large for any use")
        return
    judge = _judge_linear if problem.machine in LINEAR else _judge_kernel
    found = judge(problem, fitted, report)
    by_column = problem.params.get("kernel") == "precomputed" and "parametric" in problem.params
    if problem.twin is not None and problem.convex and not by_column:
        _check_twin(problem, fitted, found, report)
    if report.outcome == "ok" and fitted.model.status_ is maxmargin.Status.TIME_LIMIT and problem.stop is None:
        report.outcome = "slow"


def _finite(model) -> bool:
    for name in ("dual_coef_", "intercept_", "coef_", "parametric_coef_", "epsilon_", "radius_", "offset_"):
        if name == "coef_" and getattr(model, "kernel", "linear") != "linear":
            continue
        value = getattr(model, name, None)
        value = value.data if sp.issparse(value) else value
        if value is not None and not (np.abs(np.asarray(value, np.float64)) < HUGE).all():
            return False
    return True


def _check_status(problem: Problem, fitted: Fitted, met: bool, surely: bool, reachable: bool, why: str, report) -> None:
    """CONVERGED ⇔ the goal is met; and whoever stops says so."""
    status = fitted.model.status_
    warned = bool(fitted.said(ConvergenceWarning))
    if status is maxmargin.Status.CONVERGED:
        if not met:
            report.fail("wrong model", why)
        return
    if not warned:
        report.fail("silent", f"{status.name} without a warning; {why}")
    if problem.stop is not None:
        return
    if surely:
        report.fail("modest", f"{status.name}, but {why}")
    elif status is maxmargin.Status.TIME_LIMIT:
        if problem.solver == "auto" and problem.convex:
            report.fail("hang", f"{patience(problem):.0f} s were not enough; {why}")
    elif status is maxmargin.Status.MAX_ITERATIONS and (
        problem.solver != "auto" or problem.params.get("max_iter", -1) > 0
    ):
        report.outcome = "slow"
    elif reachable and problem.convex:
        report.fail("gave up", f"{status.name}, {fitted.model.solver_}: {why}")


def _compare(report: Report, name: str, certified: float, by_hand: float, allowed: float) -> None:
    if not abs(certified - by_hand) <= allowed:
        report.fail("false proof", f"{name} {certified:.9g}, by hand {by_hand:.9g} (rounding allows {allowed:.1e})")


@dataclass(frozen=True)
class Found:
    """A problem of a model, ready to be compared with the same problem solved otherwise."""

    weights: np.ndarray  # c on the rows of the training data, or w of a linear machine
    dual: float
    gap: float
    rounding: float
    kappa: float = 1.0  # f is so many times wᵀφ(x)


def _judge_kernel(problem: Problem, fitted: Fitted, report: Report) -> list[Found]:
    model, tol = fitted.model, problem.params.get("tol", 1e-3)
    parts = parts_of(problem, model)
    if len(model.certificates_) != len(parts):
        report.fail("false proof", f"{len(model.certificates_)} certificates for {len(parts)} problems")
        return []
    evidence = [evidence_of(problem, model, p, c) for p, c in zip(parts, model.certificates_, strict=True)]
    worst = max(evidence, key=lambda e: e.violation - e.violation_rounding)
    far = max(evidence, key=lambda e: e.outside)
    why = (
        f"violation {worst.violation:.3g} at tol {tol:.3g} (for the best bias {worst.least:.3g}, rounding "
        f"{worst.violation_rounding:.1e}), relative gap {max(e.relative_gap for e in evidence):.2g}, "
        f"constraints missed by {far.outside:.1e}; certificate: violation "
        f"{max(c.violation for c in model.certificates_):.3g}, "
        f"relative gap {max(c.relative_gap for c in model.certificates_):.2g}; solver {model.solver_}"
    )
    met = all(
        no_margin(fitted, part, e)
        or (e.violation <= tol * (1 + SAME) + e.violation_rounding + hair_of(problem, part) and e.outside <= FEASIBLE)
        for part, e in zip(parts, evidence, strict=True)
    )
    surely = all(e.strict < tol * (1 - SAME) - e.violation_rounding and e.outside <= UNIT for e in evidence)
    reachable = all(REACH / textbook.UNIT * e.violation_rounding <= tol for e in evidence)
    _check_status(problem, fitted, met, surely, reachable, why, report)
    for number, (part, e, c) in enumerate(zip(parts, evidence, model.certificates_, strict=True)):
        if not no_margin(fitted, part, e):
            _check_certificate(problem, part, e, c, number, report)
    if problem.machine == "NuSVR" and model.status_ is maxmargin.Status.CONVERGED:
        least = -tol - evidence[0].violation_rounding
        if float(model.epsilon_) < least:
            report.fail("predictions", f"a tube of {model.epsilon_:.3g}; {why}")
    _check_decisions(problem, fitted, parts, report)
    if problem.stop is not None and problem.machine in ("SVC", "SVR") and problem.convex:
        for e in evidence:
            if e.dual < -e.value_rounding - UNIT * abs(e.primal):
                report.fail("worse", f"it stopped at a dual value of {e.dual:.6g}, where it starts from 0; {why}")
    large = max((e.relative_gap for e in evidence if e.gap > 1e3 * e.gap_rounding), default=0.0)
    converged = model.status_ is maxmargin.Status.CONVERGED
    if converged and large > LARGE_GAP and problem.machine in ("SVC", "SVR") and problem.convex:
        if not fitted.messages:
            report.fail("silent", f"CONVERGED without a word at a relative gap of {large:.2g}; {why}")
    if problem.stop is None and problem.convex and not report.failures:
        _ask_referees(problem, fitted, parts, evidence, report)
    return [_found(problem, part, e) for part, e in zip(parts, evidence, strict=True)]


UNIT = 1e-12  # constraints missed by less are held


def no_margin(fitted: Fitted, part: Part, e: Evidence) -> bool:
    """Whether a ν-SVC has found that its classes cannot be told apart and says so: f is then rounding over rounding."""
    return any("found no margin" in text for text in fitted.said(UserWarning)) and abs(e.dual) <= 10 * e.value_rounding


def hair_of(problem: Problem, part: Part) -> float:
    """By how much the slopes of the machines with an offset may differ, because it is moved by a hair."""
    if problem.machine not in ("OneClassSVM", "SVDD"):
        return 0.0
    hair = HAIR * max(abs(part.bias), float(part.size.max(initial=0.0)))
    return hair * (0.5 if problem.machine == "SVDD" else 1.0 / part.cost.mean())


def _check_certificate(problem: Problem, part: Part, e: Evidence, c, number: int, report: Report) -> None:
    """primal, dual, gap and violation against the same by hand."""
    size = max(abs(e.primal), abs(e.dual))
    # What constraints are missed by is worth so much.
    missed = abs(e.gap - (e.primal - e.dual))
    allowed = SAME * size + e.value_rounding + missed
    unit = 1.0
    if problem.machine == "OneClassSVM" and problem.weight is not None and abs(e.dual) > e.value_rounding:
        unit = c.dual / e.dual  # the scale of weights is free: the certificate has one of its own
    hair = hair_of(problem, part)
    many = part.cost.sum() if problem.machine == "SVDD" else len(part.cost)
    allowed, missed = allowed + many * hair, missed + many * hair
    label = f"problem {number}: " if number else ""
    if c.gap < -unit * (e.gap_rounding + missed) - 1e-9 * size:
        report.fail("false proof", f"{label}a negative gap of {c.gap:.3g}, {c.relative_gap:.1e} of the objective")
    _compare(report, f"{label}primal", c.primal, unit * e.primal, unit * allowed)
    _compare(report, f"{label}dual", c.dual, unit * e.dual, unit * allowed)
    _compare(report, f"{label}gap", c.gap, unit * e.gap, unit * (SAME * e.gap + e.gap_rounding + missed))
    if problem.machine == "NuSVR":
        total = problem.params.get("nu", 0.5) * part.cost.sum()
        if np.abs(part.coef).sum() < total * (1 - FEASIBLE):
            return  # pairs α_i, α_i* > 0 are not published, but have a violation of their own
    allowed = SAME * e.strict + e.violation_rounding + hair
    unit = np.sqrt(abs(unit))
    if not unit * (e.violation - allowed) <= c.violation <= unit * (e.strict + allowed):
        report.fail(
            "false proof",
            f"{label}violation {c.violation:.6g}, by hand {e.strict:.6g} (rounding allows {allowed:.1e}); "
            f"relative gap by hand {e.relative_gap:.2g}, certified {c.relative_gap:.2g}",
        )


def _check_decisions(problem: Problem, fitted: Fitted, parts: list[Part], report: Report) -> None:
    """decision_function and predict against the attributes."""
    model = fitted.model
    if problem.machine == "SVDD" and problem.params.get("kernel") == "precomputed":
        return
    X = problem.X
    try:
        if problem.machine in CLASSIFIERS:
            decisions = model.set_params(decision_function_shape="ovo").decision_function(X)
            decisions = decisions[:, None] if decisions.ndim == 1 else decisions
        elif problem.machine in REGRESSORS:
            decisions = model.predict(X)[:, None]
        else:
            decisions = model.decision_function(X)[:, None]
    except Exception as error:
        report.fail("crash", f"in prediction: {where(error)}")
        return
    for number, part in enumerate(parts):
        sized = max(
            float(part.size.max(initial=0.0)),
            float(np.abs(part.y).max(initial=0.0)),
            float((np.abs(part.phi) @ np.abs(part.slopes)).max(initial=0.0)),
        )
        if part.diagonal is not None:
            sized = max(sized, float(np.abs(part.diagonal).max()))
        if abs(part.bias) > AWAY * sized > 0:
            report.fail("predictions", f"an intercept of {part.bias:.3g} where nothing else is larger than {sized:.3g}")
        wanted = part.values
        allowed = 2.0 * part.rounding
        if problem.machine == "SVDD":
            wanted = wanted - part.diagonal
            allowed = allowed + 4.0 * textbook.UNIT * np.abs(part.diagonal)
        excess = np.abs(decisions[part.rows, number] - wanted) - allowed
        if (excess > 0).any():
            i = int(excess.argmax())
            report.fail(
                "predictions",
                f"sample {part.rows[i]}: decision {decisions[part.rows[i], number]:.12g}, by hand {wanted[i]:.12g} "
                f"(rounding allows {allowed[i]:.1e})",
            )


# -- linear machines --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearPart:
    """One problem of a linear machine."""

    y: np.ndarray
    cost: np.ndarray
    w: np.ndarray
    bias: float
    slopes: np.ndarray


def linear_rows(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """X and φ of the samples that are there."""
    rows = problem.weights > 0
    return problem.dense[rows], functions_of(problem)[rows]


def linear_parts(problem: Problem, model) -> list[LinearPart]:
    rows = problem.weights > 0
    weight, C = problem.weights[rows], float(problem.params.get("C", 1.0))
    coef = np.atleast_2d(model.coef_)
    bias = np.broadcast_to(np.atleast_1d(model.intercept_), len(coef))
    slopes = np.atleast_2d(getattr(model, "parametric_coef_", np.zeros((len(coef), 0))))
    if problem.machine == "LinearSVR":
        return [LinearPart(np.asarray(problem.y, np.float64)[rows], C * weight, coef[0], float(bias[0]), slopes[0])]
    label = problem.y[rows]
    factors = class_factors(problem, model.classes_)
    parts = []
    for number, c in enumerate(model.classes_[1:] if len(model.classes_) == 2 else model.classes_):
        own = label == c
        if len(model.classes_) == 2:
            factor = np.where(own, factors[1], factors[0])
        else:
            factor = np.where(own, factors[number], 1.0)
        target = np.where(own, 1.0, -1.0)
        parts.append(LinearPart(target, C * weight * factor, coef[number], float(bias[number]), slopes[number]))
    return parts


def linear_loss(problem: Problem) -> Callable:
    """(values, pulls) of the loss for y, f and how well f is known."""
    default = "squared_hinge" if problem.machine == "LinearSVC" else "epsilon_insensitive"
    loss, params = problem.params.get("loss", default), problem.params
    delta, epsilon = params.get("huber_delta", 0.5), params.get("epsilon", 0.0)

    def evaluate(y, f, near):
        if problem.machine == "LinearSVR":
            out = np.maximum(0.0, np.abs(f - y) - epsilon)
            far = np.maximum(0.0, np.abs(f - y) - epsilon + near)
            return (out**2, 2.0 * far) if loss.startswith("squared") else (out, (far > 0).astype(float))
        short, far = np.maximum(0.0, 1.0 - y * f), np.maximum(0.0, 1.0 - y * f + near)
        if loss == "hinge":
            return short, (far > 0).astype(float)
        if loss == "squared_hinge":
            return short**2, 2.0 * far
        t = 1.0 + delta - y * f
        value = np.where(t <= 0, 0.0, np.where(t >= 2.0 * delta, 1.0 - y * f, t * t / (4.0 * delta)))
        return value, np.clip((t + near) / (2.0 * delta), 0.0, 1.0)

    return evaluate


def linear_primal(problem: Problem, X, phi, part: LinearPart, w, bias, slopes) -> tuple[float, float]:
    """(½‖w‖² + Σ C_i ℓ_i, its rounding); an intercept with a penalty is one more weight."""
    f = X @ w + bias + phi @ slopes
    near = textbook.UNIT * (np.abs(X) @ np.abs(w) + abs(bias) + np.abs(phi) @ np.abs(slopes) + np.abs(part.y))
    value, pull = linear_loss(problem)(part.y, f, near)
    scaling = problem.params.get("intercept_scaling") if problem.params.get("fit_intercept", True) else None
    penalty = 0.0 if scaling is None else 0.5 * (bias / scaling) ** 2
    primal = 0.5 * float(w @ w) + penalty + float(part.cost @ value)
    return primal, float((part.cost * pull) @ near) + textbook.UNIT * primal


def _judge_linear(problem: Problem, fitted: Fitted, report: Report) -> list[Found]:
    model = fitted.model
    tol = problem.params.get("tol", 1e-4)
    X, phi = linear_rows(problem)
    parts = linear_parts(problem, model)
    if len(model.certificates_) != len(parts):
        report.fail("false proof", f"{len(model.certificates_)} certificates for {len(parts)} problems")
        return []
    values = [linear_primal(problem, X, phi, p, p.w, p.bias, p.slopes) for p in parts]
    # The dual value is the certificate's; referees look at it.
    gaps = [max(0.0, primal - c.dual) for (primal, _), c in zip(values, model.certificates_, strict=True)]
    sizes = [max(abs(primal), abs(c.dual)) for (primal, _), c in zip(values, model.certificates_, strict=True)]
    met = all(
        g <= tol * (1 + SAME) * s + r and c.gap <= tol * (1 + SAME) * s + r
        for g, s, (_, r), c in zip(gaps, sizes, values, model.certificates_, strict=True)
    )
    surely = all(g < tol * (1 - SAME) * s - r for g, s, (_, r) in zip(gaps, sizes, values, strict=True))
    reachable = all(REACH / textbook.UNIT * r <= tol * s for s, (_, r) in zip(sizes, values, strict=True))
    shares = [g / max(s, np.finfo(float).tiny) for g, s in zip(gaps, sizes, strict=True)]
    worst = int(np.argmax(shares))
    why = (
        f"relative gap {shares[worst]:.3g} at tol {tol:.3g} (primal by hand {values[worst][0]:.9g}, certificate "
        f"{model.certificates_[worst]}); solver {model.solver_}"
    )
    _check_status(problem, fitted, met, surely, reachable, why, report)
    for number, ((primal, rounding), c) in enumerate(zip(values, model.certificates_, strict=True)):
        label = f"problem {number}: " if number else ""
        part = parts[number]
        zero = float(part.cost @ linear_loss(problem)(part.y, np.zeros(len(part.y)), 0.0)[0])  # the value of f = 0
        rounding += textbook.UNIT * zero
        _compare(report, f"{label}primal", c.primal, primal, SAME * abs(primal) + rounding)
        if c.gap < -rounding - 1e-9 * abs(primal):
            report.fail("false proof", f"{label}a negative gap of {c.gap:.3g}, {c.relative_gap:.1e} of the objective")
        _compare(report, f"{label}primal − dual − gap", c.primal - c.dual - c.gap, 0.0, 1e-9 * abs(c.primal) + rounding)
    _check_linear_decisions(problem, model, parts, report)
    if problem.stop is None and not report.failures:
        for number, part in enumerate(parts[: referees.MOST_PARTS]):
            _ask_about_linear(problem, X, phi, part, values[number], model.certificates_[number], tol, report)
    return [Found(p.w, c.dual, g, r) for p, c, g, (_, r) in zip(parts, model.certificates_, gaps, values, strict=True)]


def _check_linear_decisions(problem: Problem, model, parts: list[LinearPart], report: Report) -> None:
    X, phi = problem.dense, functions_of(problem)
    try:
        decisions = model.decision_function(problem.X) if problem.machine == "LinearSVC" else model.predict(problem.X)
    except Exception as error:
        report.fail("crash", f"in prediction: {where(error)}")
        return
    decisions = decisions[:, None] if decisions.ndim == 1 else decisions
    for number, p in enumerate(parts):
        wanted = X @ p.w + p.bias + phi @ p.slopes
        size = np.abs(X) @ np.abs(p.w) + abs(p.bias) + np.abs(phi) @ np.abs(p.slopes)
        excess = np.abs(decisions[:, number] - wanted) - 2.0 * textbook.UNIT * size
        if (excess > 0).any():
            i = int(excess.argmax())
            report.fail("predictions", f"sample {i}: decision {decisions[i, number]:.12g}, by hand {wanted[i]:.12g}")


def _ask_about_linear(problem, X, phi, part: LinearPart, value, certificate, tol: float, report: Report) -> None:
    """Any w of a referee is a bound: no dual value lies above its primal value."""
    answer = referees.linear(problem, X, phi, part.y, part.cost)
    if answer is None:
        return
    theirs, rounding = linear_primal(problem, X, phi, part, *answer)
    primal, own = value
    rounding += textbook.UNIT * float(part.cost @ linear_loss(problem)(part.y, np.zeros(len(part.y)), 0.0)[0])
    if certificate.dual > theirs * (1 + 1e-9) + rounding + own:
        report.fail(
            "worse", f"dual {certificate.dual:.9g} above the primal value {theirs:.9g} of a referee; {certificate}"
        )
    accuracy = [
        _score(problem, part.y, X @ w + b + phi @ g, part.cost)
        for w, b, g in ((part.w, part.bias, part.slopes), answer)
    ]
    near = (
        max(primal, theirs) - min(primal, theirs) <= CLOSE * max(abs(primal), abs(theirs))
        and certificate.relative_gap <= CLOSE
    )
    if near and len(part.y) >= 20 and accuracy[0] < accuracy[1] - POINTS:
        report.fail("predictions", f"score {accuracy[0]:.3f}, a referee's {accuracy[1]:.3f} at the same objective")


# -- referees ---------------------------------------------------------------------------------------------------------


def _score(problem: Problem, y, f, weight) -> float:
    """Accuracy or R² on the training data, with costs as weights."""
    if problem.machine in CLASSIFIERS:
        return float(weight @ ((f > 0) == (y > 0)) / weight.sum())
    mean = weight @ y / weight.sum()
    spread = weight @ (y - mean) ** 2
    return 1.0 - float(weight @ (f - y) ** 2 / spread) if spread > 1e-20 * (weight @ y**2) else 1.0


def _ask_referees(problem, fitted, parts: list[Part], evidence: list[Evidence], report: Report) -> None:
    """Objective and predictions against another solver's, where that is good itself."""
    K = None
    for part, e in list(zip(parts, evidence, strict=True))[: referees.MOST_PARTS]:
        if len(part.rows) > referees.MOST_SAMPLES:
            continue
        kernel, X = kernel_of(problem), problem.dense
        K = X[np.ix_(part.rows, part.rows)] if kernel is None else kernel.values(X[part.rows], X[part.rows])
        answer = referees.kernel_machine(problem, K, part)
        if answer is None:
            continue
        coef, bias, slopes, more = answer
        size = np.abs(K) if kernel is None else kernel.sizes(X[part.rows], X[part.rows])
        theirs = replace(part, coef=coef, bias=bias, slopes=slopes, Kc=K @ coef, size=size @ np.abs(coef))
        other = evidence_of(problem, more, theirs)
        if other.outside > 1e-6:
            continue
        allowed = e.value_rounding + other.value_rounding + SAME * max(abs(e.primal), abs(other.primal))
        allowed += 1e-3 * SAME * part.cost.sum() * max(1.0, float(np.abs(part.y).max(initial=0.0)))  # constraints
        if e.dual > other.primal + allowed or other.dual > e.primal + allowed:
            report.fail(
                "worse",
                f"primal {e.primal:.9g}, dual {e.dual:.9g}; a referee's primal {other.primal:.9g}, dual {other.dual:.9g}",
            )
        near = e.relative_gap <= CLOSE and other.relative_gap <= CLOSE
        if near and len(part.rows) >= 20 and problem.machine in (*CLASSIFIERS, *REGRESSORS):
            ours, best = (_score(problem, p.y, p.values, p.cost) for p in (part, theirs))
            if ours < best - POINTS:
                report.fail("predictions", f"score {ours:.3f}, a referee's {best:.3f} at the same objective")


# -- twins ------------------------------------------------------------------------------------------------------------


def _found(problem: Problem, part: Part, e: Evidence) -> Found:
    """c on all rows, in a scale that copies and splits do not change."""
    full = np.zeros(problem.n)
    unit = 1.0
    if problem.machine == "NuSVC":
        unit = nu_scale(problem, part)[1]  # Σ α = 1
        full[part.rows] = part.coef / np.abs(part.coef).sum()
    else:
        full[part.rows] = part.coef
        unit = part.cost.mean() ** -1 if problem.machine == "OneClassSVM" else 1.0
    missed = abs(e.gap - (e.primal - e.dual))
    rounding = (e.value_rounding + e.gap_rounding + missed) / unit**2
    return Found(full, e.dual / unit**2, e.gap / unit**2, rounding, 2.0 if problem.machine == "SVDD" else 1.0)


def make_twin(problem: Problem) -> tuple[Problem, np.ndarray, str]:
    """(a problem with the same solution, the row that each of its rows comes from, how it was made)."""
    rng = np.random.default_rng([problem.seed, 1])
    X, y, weight = problem.dense, problem.y, problem.weights
    n, kind = problem.n, problem.twin
    kernel = problem.params.get("kernel", "rbf") if problem.machine not in LINEAR else "none"
    if "parametric" in problem.params and kind in ("shift", "scale"):
        kind = "order"  # functions change with the features
    origin = np.arange(n)
    plain = replace(problem, params={k: v for k, v in problem.params.items() if k != "warm_start"})
    if kind == "copies" and (weight == np.rint(weight)).all() and weight.sum() < 4 * n and (weight != 1).any():
        origin = rng.permutation(np.repeat(origin, weight.astype(int)))
        new = None
    elif kind in ("zeros", "copies"):
        more = rng.integers(0, n, rng.integers(1, 2 + n // 4))
        origin, new = np.concatenate([origin, more]), np.concatenate([weight, np.zeros(len(more))])
    elif kind == "split":
        more = rng.choice(n, rng.integers(1, 2 + n // 4) if n > 1 else 1, replace=False)
        new = weight.copy()
        new[more] *= 0.5
        origin, new = np.concatenate([origin, more]), np.concatenate([new, new[more]])
    elif kind == "shift" and kernel in ("rbf", "laplacian") and problem.extra.get("quantum"):
        X = X + problem.extra["quantum"] * 2.0**20 * float(rng.integers(1, 2**10))
        new = problem.weight
    elif (
        kind == "scale"
        and kernel in ("rbf", "laplacian", "poly", "sigmoid")
        and not isinstance(problem.params.get("gamma", "scale"), str)
    ):
        factor = 2.0 ** float(rng.integers(-15, 15))
        gamma = problem.params["gamma"] / (factor if kernel == "laplacian" else factor**2)
        X, new = X * factor, problem.weight
        plain = replace(plain, params=plain.params | {"gamma": gamma})
    else:
        kind, origin = "order", rng.permutation(n)
        new = None if problem.weight is None else weight[origin]
    X = X[np.ix_(origin, origin)] if kernel == "precomputed" else X[origin]
    y = None if y is None else y[origin]
    if kind in ("zeros", "copies") and new is not None and problem.machine in REGRESSORS:
        y = y.copy()
        y[new == 0] = 1e3 * np.abs(y).max() + 1.0  # absent, whatever they say
    return plain.with_data(np.ascontiguousarray(X), y, new), origin, kind


def _check_twin(problem: Problem, fitted: Fitted, found: list[Found], report: Report) -> None:
    twin, origin, kind = make_twin(problem)
    other = fit(twin)
    if other.error is not None:
        if _answer(twin, other.error) is None:
            report.fail("crash", f"twin by {kind}: {where(other.error)}")
        return
    own = Report(problem.seed, problem.machine, problem.solver, twin.n, twin.d)
    judge = _judge_linear if problem.machine in LINEAR else _judge_kernel
    theirs = judge(twin, other, own)
    for failure in own.failures:
        if not report.failures:
            report.fail(failure.kind, f"twin by {kind}: {failure.message}")
    if len(theirs) != len(found):
        if not report.failures:
            report.fail("not the same", f"{kind}: {len(found)} problems, and {len(theirs)} for the twin")
        return
    kernel, X = (None, problem.dense) if problem.machine in LINEAR else (kernel_of(problem), problem.dense)
    for number, (one, two) in enumerate(zip(found, theirs, strict=True)):
        rounding = one.rounding + two.rounding
        apart = abs(one.dual - two.dual)
        if apart > max(one.gap, two.gap) + rounding + SAME * abs(one.dual):
            report.fail(
                "not the same", f"{kind}, problem {number}: dual {one.dual:.9g}, for the twin {two.dual:.9g}, gaps "
                f"{one.gap:.2e} and {two.gap:.2e}"
            )  # fmt: skip
        reach = one.kappa * (np.sqrt(2.0 * (one.gap + rounding)) + np.sqrt(2.0 * (two.gap + rounding)))
        if problem.machine in LINEAR:
            far = float(np.linalg.norm(one.weights - two.weights))
        else:
            back = np.zeros(problem.n)
            np.add.at(back, origin, two.weights)
            change = one.weights - back
            some = np.flatnonzero(change)
            value, size = textbook.kernel_sum(kernel, X, some, change[some])
            far = float(np.sqrt(max(0.0, change @ value - textbook.UNIT * np.abs(change) @ size)))
        if far > reach * (1 + SAME) + SAME * float(np.linalg.norm(one.weights)) * (problem.machine in LINEAR):
            report.fail(
                "not the same", f"{kind}, problem {number}: ‖w − w′‖ is {far:.3g}, gaps allow {reach:.3g}"
            )  # fmt: skip
