"""Fits a problem and compares what the package says of the model with what its public attributes say."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import maxmargin

from . import programs, referees, textbook
from .models import (
    FEASIBLE,
    NOTHING,
    LinearPart,
    bends_down,
    endless,
    evidence_of,
    functions_of,
    impossible,
    kernel_of,
    linear_parts,
    linear_primal,
    linear_rows,
    lost_in_sums,
    middle_bias,
    nu_scale,
    parts_of,
    tolerance,
)
from .problems import CLASSIFIERS, LINEAR, REGRESSORS, Problem, given, make_problem
from .reports import Report, answer, where
from .textbook import Evidence, Part
from .twins import make_twin

__all__ = ["check", "check_seed"]

SAME = 1e-6  # relative: the certificate against the same numbers by hand
NO_GAP = 1e-8  # of the objective: no goal asks for less
HELD = textbook.HELD
HELD = 1e-12  # of its terms: what a constraint may be missed by, and surely holds
REACH = 1e-12  # of Σ |K||c|: violations that float64 may not be able to bring down
LACKING = 1e-12  # of the trace of K: what a factor of low rank that stands for it may lack
HAIR = 1e-8  # relative: an offset may be moved by so much, so that points on a boundary are inside
MISSED = 1e-11  # of the terms of a constraint: who misses it by more and says so has a dual value that bounds nothing
LARGE_GAP = 0.1  # share of the objective that nobody would take for converged without a word
CLOSE = 0.01  # share of the objective: models that near to their optimum are compared by their predictions
VISIBLE = 1e-6  # relative: what a decision may lose in sums
POINTS = 0.05  # accuracy or R² by which predictions may be worse then, or share of 1 − R² where that is above 1
FEW = 20  # samples on which a score means nothing
HUGE = 1e100  # an attribute that is of no use
TIMED = ("hang", "gave up", "modest")
AWAY = 1e4  # times the size of all that is added to it: an intercept that has run away


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
    features = 0 if problem.params.get("kernel") == "precomputed" else problem.d
    return 8.0 + 2e-3 * problem.n + 2e-7 * problem.n**2 + 1e-7 * problem.n * features**2


def check_seed(seed: int) -> Report:
    """Make the problem of this number, fit it and check it.

    Where time ran out, once more, as the first may have compiled; limits are on the clock, so that by as much as others
    held it up they are longer then.
    """
    problem = make_problem(seed)
    started, used = time.perf_counter(), time.process_time()
    report = check(problem)
    if report.failures and all(f.kind in TIMED for f in report.failures):
        held_up = (time.perf_counter() - started) / max(time.process_time() - used, 1e-3)
        problem = make_problem(seed)  # callbacks have counted
        report = check(replace(problem, extra=problem.extra | {"held up": max(1.0, held_up)}))
    return report


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
        share = 1.0 if problem.solver == "auto" else 0.3
        params["time_limit"] = share * problem.extra.get("held up", 1.0) * patience(problem)
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


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_machine(problem: Problem, report: Report) -> None:
    fitted = fit(problem)
    if fitted.error is not None:
        report.raised(fitted.error)
        return
    generous = 1.0 if "held up" in problem.extra else 3.0  # longer on the clock is no longer on the processor
    limit = problem.params["time_limit"] + 2.0 if problem.stop == "time_limit" else generous * patience(problem)
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
    elif problem.solver != "auto" or (status.name == "MAX_ITERATIONS" and problem.params.get("max_iter", -1) > 0):
        report.outcome = "slow"  # not every solver is up to every problem, and this one says so
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
    evidence = [evidence_of(problem, model, part, number) for number, part in enumerate(parts)]
    worst = max(evidence, key=lambda e: e.violation - e.violation_rounding)
    far = max(evidence, key=lambda e: e.outside)
    why = (
        f"violation {worst.violation:.3g} at tol {tol:.3g} (for the best bias {worst.least:.3g}, rounding "
        f"{worst.violation_rounding:.1e}), relative gap {max(e.relative_gap for e in evidence):.2g}, "
        f"constraints missed by {far.outside:.1e}; certificate: violation "
        f"{max(c.violation for c in model.certificates_):.3g}, "
        f"relative gap {max(c.relative_gap for c in model.certificates_):.2g}; solver {model.solver_}"
    )
    both = list(zip(parts, evidence, strict=True))

    def close(part: Part, e: Evidence) -> bool:
        allowed = tolerance(problem, part) * (1 + SAME) + e.violation_rounding + hair_of(problem, part)
        return violation_of(part, e) <= allowed and e.outside <= FEASIBLE

    met = all(no_margin(fitted, part, e) or close(part, e) for part, e in both)
    surely = all(
        e.strict < tolerance(problem, part) * (1 - SAME) - e.violation_rounding and e.outside <= HELD
        for part, e in both
    )
    reachable = all(REACH / textbook.UNIT * e.violation_rounding <= tolerance(problem, part) for part, e in both)
    if reachable and model.status_.name in ("STALLED", "UNBOUNDED", "EXHAUSTED") and problem.convex:
        reachable = not (impossible(problem) or any(endless(problem, part) for part in parts))
    if reachable and model.status_ is not maxmargin.Status.CONVERGED and problem.stop is None and problem.convex:
        # Those of a model that does nothing are small, but what counts is those of one that meets tol.
        reachable = not any(
            lost_in_sums(problem, part, 0.5 * tolerance(problem, part) / REACH)
            or bends_down(problem, part, tolerance(problem, part))
            for part in parts
        )
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
            if e.dual < -e.value_rounding - HELD * abs(e.primal):
                report.fail("worse", f"it stopped at a dual value of {e.dual:.6g}, where it starts from 0; {why}")
    # An objective that is nothing beside that of f = 0 has no share that could be large.
    told = [(e, NOTHING * float(part.cost @ np.abs(part.y))) for part, e in zip(parts, evidence, strict=True)]
    large = max((e.relative_gap for e, least in told if e.gap > max(least, 1e3 * e.gap_rounding)), default=0.0)
    converged = model.status_ is maxmargin.Status.CONVERGED
    if converged and large > LARGE_GAP and problem.machine in ("SVC", "SVR") and problem.convex:
        if not fitted.messages:
            report.fail("silent", f"CONVERGED without a word at a relative gap of {large:.2g}; {why}")
    if problem.stop is None and problem.convex and not report.failures:
        _ask_referees(problem, fitted, parts, evidence, report)
    return [_found(problem, part, e) for part, e in zip(parts, evidence, strict=True)]


def no_margin(fitted: Fitted, part: Part, e: Evidence) -> bool:
    """Whether a ν-SVC has found that its classes cannot be told apart and says so: f is then rounding over rounding."""
    return any("found no margin" in text for text in fitted.said(UserWarning)) and abs(e.dual) <= 10 * e.value_rounding


def violation_of(part: Part, e: Evidence) -> float:
    """With a linear kernel the bias goes with the weights; if coefficients give others, theirs may be another one."""
    return e.violation if part.weights is None else min(e.violation, e.least)


def hair_of(problem: Problem, part: Part) -> float:
    """By how much the slopes of the machines with an offset may differ, because it is moved by a hair."""
    if problem.machine not in ("OneClassSVM", "SVDD"):
        return 0.0
    hair = HAIR * max(abs(part.bias), float(part.size.max(initial=0.0)))
    return hair * (0.5 if problem.machine == "SVDD" else 1.0)


def hidden_slopes(problem: Problem, part: Part, e: Evidence, c) -> float:
    """What a certificate may add to a violation for a factor L Lᵀ that the problem was solved with.

    E = K − L Lᵀ is positive semi-definite, so that |(Eβ)_i|² ≤ E_ii βᵀEβ. No E_ii is above the trace of E, and half of
    βᵀEβ is in the gap that is certified, which lies above that by hand by as much. Two slopes make a violation.
    """
    kernel = kernel_of(problem)
    if kernel is None:  # a matrix is not factored
        return 0.0
    lacking = LACKING * float(kernel.diagonal(problem.dense[part.rows]).sum())
    return 2.0 * float(np.sqrt(2.0 * max(0.0, c.gap - e.gap) * max(0.0, lacking)))


def _check_certificate(problem: Problem, part: Part, e: Evidence, c, number: int, report: Report) -> None:
    """primal, dual, gap and violation against the same by hand."""
    size = max(abs(e.primal), abs(e.dual))
    # What constraints are missed by is worth so much.
    missed = abs(e.gap - (e.primal - e.dual))
    allowed = SAME * size + e.value_rounding + missed
    hair = hair_of(problem, part)
    allowed, missed = allowed + part.cost.sum() * hair, missed + part.cost.sum() * hair
    label = f"problem {number}: " if number else ""
    if c.gap < -(e.gap_rounding + missed) - 1e-9 * size:
        report.fail("false proof", f"{label}a negative gap of {c.gap:.3g}, {c.relative_gap:.1e} of the objective")
    _compare(report, f"{label}primal", c.primal, e.primal, allowed)
    _compare(report, f"{label}dual", c.dual, e.dual, allowed)
    _compare(report, f"{label}gap", c.gap, e.gap, SAME * e.gap + e.gap_rounding + missed + NO_GAP * size)
    if problem.machine == "NuSVR":
        total = problem.params.get("nu", 0.5) * part.cost.sum()
        if np.abs(part.coef).sum() < total * (1 - FEASIBLE):
            return  # pairs α_i, α_i* > 0 are not published, but have a violation of their own
    allowed = SAME * (e.strict + tolerance(problem, part)) + 2.0 * e.violation_rounding + hair  # both are rounded
    top = e.strict + (0.0 if part.weights is None else 2.0 * part.weights.far) + hidden_slopes(problem, part, e, c)
    if not violation_of(part, e) - allowed <= c.violation <= top + allowed:
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
    if problem.machine in CLASSIFIERS:
        _check_votes(problem, model, decisions, report)
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
        if part.weights is not None:  # pairs of classes are decided by coefficients, whose sums are known less well
            allowed = np.maximum(allowed, np.minimum(2.0 * part.decision_rounding, VISIBLE * (1.0 + np.abs(wanted))))
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


def _check_votes(problem: Problem, model, decisions: np.ndarray, report: Report) -> None:
    """Each pair of classes has a vote; ties go to the class that comes first."""
    k = len(model.classes_)
    if k == 2:
        wanted = (decisions[:, 0] > 0).astype(int)
    else:
        votes = np.zeros((len(decisions), k))
        for number, (i, j) in enumerate(combinations(range(k), 2)):
            votes[:, i] += decisions[:, number] > 0
            votes[:, j] += decisions[:, number] <= 0
        wanted = votes.argmax(axis=1)
    wrong = np.flatnonzero(model.predict(problem.X) != model.classes_[wanted])
    if len(wrong):
        report.fail("predictions", f"{len(wrong)} samples are given a class that most pairs do not vote for")


# -- linear machines --------------------------------------------------------------------------------------------------


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
    # Coefficients are not public: the certificate says whether they hold their constraints. Else they bound nothing.
    surely = all(c.infeasibility <= HELD for c in model.certificates_)
    surely &= all(g < tol * (1 - SAME) * s - r for g, s, (_, r) in zip(gaps, sizes, values, strict=True))
    reachable = all(REACH / textbook.UNIT * r <= tol * s for s, (_, r) in zip(sizes, values, strict=True))
    if model.status_ is not maxmargin.Status.CONVERGED and problem.stop is None:
        for part, value, c in list(zip(parts, values, model.certificates_, strict=True))[: referees.MOST_PARTS]:
            best = _refuted(problem, X, phi, part, value, c)
            if best is not None:  # its gap is none, and what can be reached is what can be at the better point
                surely, reachable = False, reachable and REACH / textbook.UNIT * best[1] <= tol * best[0]
    shares = [g / max(s, np.finfo(float).tiny) for g, s in zip(gaps, sizes, strict=True)]
    worst = int(np.argmax(shares))
    why = (
        f"relative gap {shares[worst]:.3g} at tol {tol:.3g} (primal by hand {values[worst][0]:.9g}, certificate "
        f"{model.certificates_[worst]}); solver {model.solver_}"
    )
    _check_status(problem, fitted, met, surely, reachable, why, report)
    for number, ((primal, rounding), c) in enumerate(zip(values, model.certificates_, strict=True)):
        label = f"problem {number}: " if number else ""
        _compare(report, f"{label}primal", c.primal, primal, SAME * abs(primal) + rounding)
        if c.gap < -rounding - 1e-9 * abs(primal):
            report.fail("false proof", f"{label}a negative gap of {c.gap:.3g}, {c.relative_gap:.1e} of the objective")
        _compare(report, f"{label}primal − dual − gap", c.primal - c.dual - c.gap, 0.0, 1e-9 * abs(c.primal) + rounding)
    _check_linear_decisions(problem, model, parts, report)
    if problem.stop is None and not report.failures:
        for number, part in enumerate(parts[: referees.MOST_PARTS]):
            _ask_about_linear(problem, model, X, phi, part, values[number], model.certificates_[number], tol, report)
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


def _refuted(problem, X, phi, part: LinearPart, value, certificate) -> tuple[float, float] | None:
    """The primal value of a referee and its rounding, if a dual value that misses constraints lies above it."""
    answer = referees.linear(problem, X, phi, part.y, part.cost) if certificate.infeasibility > MISSED else None
    if answer is None:
        return None
    theirs, rounding = linear_primal(problem, X, phi, part, *answer)
    return (theirs, rounding) if certificate.dual > theirs * (1 + 1e-9) + rounding + value[1] else None


def _ask_about_linear(problem, model, X, phi, part: LinearPart, value, certificate, tol: float, report: Report) -> None:
    """Any w of a referee is a bound: no dual value lies above its primal value, unless it says that it is none."""
    answer = referees.linear(problem, X, phi, part.y, part.cost)
    if answer is None:
        return
    theirs, rounding = linear_primal(problem, X, phi, part, *answer)
    primal, own = value
    claimed = model.status_ is maxmargin.Status.CONVERGED or certificate.infeasibility <= MISSED
    if claimed and certificate.dual > theirs * (1 + 1e-9) + rounding + own:
        report.fail(
            "worse", f"dual {certificate.dual:.9g} above the primal value {theirs:.9g} of a referee; {certificate}"
        )
    if problem.params.get("fit_intercept", True) and problem.params.get("intercept_scaling") is None and not phi.size:
        # w is unique, but where losses pull as much to either side, any bias of an interval is optimal.
        answer = (answer[0], middle_bias(problem, part.y, part.cost, X @ answer[0], answer[1]), answer[2])
    # A decision of 0 has the sign of a rounding: who has more of these right by chance has nothing ahead.
    own_point = (part.w, part.bias, part.slopes)
    size = np.linalg.norm(X, axis=1) * np.linalg.norm(part.w) + abs(part.bias) + np.abs(phi) @ np.abs(part.slopes)
    told = np.abs(X @ part.w + part.bias + phi @ part.slopes) > HAIR * size
    told |= problem.machine not in CLASSIFIERS
    for (w, b, g), above in ((own_point, primal), (answer, theirs)):
        told &= _told_apart(problem, X @ w + b + phi @ g, part.cost, above - certificate.dual + own + rounding)
    accuracy = [
        _score(problem, part.y[told], (X @ w + b + phi @ g)[told], part.cost[told]) if told.any() else 1.0
        for w, b, g in (own_point, answer)
    ]
    # A score is not what is minimised: a point further from the optimum may have a better one. It says something of
    # directions in which the optimum is not unique, and so only where the referee meets the goal itself: any dual value
    # is a bound for its point, too.
    size, allowed = max(abs(theirs), abs(certificate.dual)), min(CLOSE, max(tol, SAME))
    near = theirs - certificate.dual <= allowed * size + rounding and certificate.relative_gap <= CLOSE
    if near and len(part.y) >= FEW and _behind(*accuracy):
        report.fail("predictions", f"score {accuracy[0]:.3f}, a referee's {accuracy[1]:.3f} at the same objective")


# -- referees ---------------------------------------------------------------------------------------------------------


def _score(problem: Problem, y, f, weight) -> float:
    """Accuracy, or R² of what lies outside the tube, on the training data, with costs as weights."""
    if problem.machine in CLASSIFIERS:
        return float(weight @ ((f > 0) == (y > 0)) / weight.sum())
    mean = weight @ y / weight.sum()
    spread = weight @ (y - mean) ** 2
    out = np.maximum(0.0, np.abs(f - y) - problem.params.get("epsilon", 0.1 if problem.machine == "SVR" else 0.0))
    return 1.0 - float(weight @ out**2 / spread) if spread > 1e-20 * (weight @ y**2) else 1.0


def _behind(ours: float, best: float) -> bool:
    """Whether a score is worse than rounding and tol make it.

    1 − R² is a ratio of squares: where f is far worse than a constant it is large, and so is what it loses by tol.
    """
    return ours < best - POINTS * max(1.0, 1.0 - best)


def _own(problem: Problem, part: Part) -> float:
    """What coefficients are multiplied by to be those of the dual."""
    if problem.machine == "NuSVC":
        return nu_scale(problem, part)[1] / max(float(np.abs(part.coef).sum()), np.finfo(float).tiny)
    return 0.5 if problem.machine == "SVDD" else 1.0


def _worth_of_misses(function: Part, point: Part) -> float:
    """By how much the dual value of a point may lie above the primal value of a function, as it misses constraints.

    P(f) ≥ D(c) − b Σ c_i − Σ_j g_j Σ c_i φ_j(x_i) for any c in its box: next to a bias of 1e4 a sum of 1e-8 counts.
    """
    worth = abs(function.bias * float(point.coef.sum())) if point.free_bias else 0.0
    return worth + (float(np.abs(function.slopes) @ np.abs(point.phi.T @ point.coef)) if len(function.slopes) else 0.0)


def _told_apart(problem: Problem, f, cost, gap: float) -> np.ndarray:
    """Whether the sign of f is that of the optimum, as its gap proves where a loss is curved.

    Σ C_i D_i ≤ gap, where D_i is what the loss at f lies above its tangent at the optimum. Of a squared hinge that is
    (m − m*)² where both margins are below 1, and at least min(1, |m|)² where m and m* have different signs. Of other
    losses, which are straight at 0, it may be nothing, and any sign counts.
    """
    default = "squared_hinge" if problem.machine == "LinearSVC" else ""
    if problem.machine not in CLASSIFIERS or problem.params.get("loss", default) != "squared_hinge":
        return np.ones(len(f), bool)
    return cost * np.minimum(1.0, np.abs(f)) ** 2 > gap


def _ask_referees(problem, fitted, parts: list[Part], evidence: list[Evidence], report: Report) -> None:
    """Objective and predictions against another solver's, where that is good itself.

    For any symmetric K, P(c′) − D(c) ≥ ½ (c − c′)ᵀK(c − c′). That is negative only where K has lost digits, as a matrix
    in float32 that was computed beforehand has.
    """
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
        theirs = replace(part, coef=coef, bias=bias, slopes=slopes, Kc=K @ coef, size=size @ np.abs(coef), weights=None)
        other = evidence_of(problem, more, theirs)
        if other.outside > 1e-6:
            continue
        allowed = e.value_rounding + other.value_rounding + SAME * max(abs(e.primal), abs(other.primal))
        apart = _own(problem, part) * part.coef - _own(problem, theirs) * coef
        allowed += max(0.0, -0.5 * float(apart @ (K @ apart)))
        scale = abs(_own(problem, part) * _own(problem, theirs))
        allowed += scale * max(_worth_of_misses(part, theirs), _worth_of_misses(theirs, part))
        allowed += 1e-3 * SAME * part.cost.sum() * max(1.0, float(np.abs(part.y).max(initial=0.0)))  # constraints
        if problem.machine == "NuSVC":  # the referee's sum is short of the largest by a billionth: by that many margins
            margin = _own(problem, theirs)
            allowed += other.outside * margin * nu_scale(problem, part)[1]
        if e.dual > other.primal + allowed or other.dual > e.primal + allowed:
            report.fail(
                "worse",
                f"primal {e.primal:.9g}, dual {e.dual:.9g}; a referee's {other.primal:.9g} and {other.dual:.9g}",
            )
        if no_margin(fitted, part, e):
            continue  # the signs of a function that is smaller than tol can see say nothing
        if problem.machine in ("SVC", "SVR") and part.free_bias and not len(slopes) and other.least == 0.0:
            # Where all coefficients are at bounds, any bias of an interval is optimal. LIBSVM's rule is its middle, but
            # a coefficient that rounding leaves next to its bound counts as free, and draws the bias to an end. Where
            # every bias leaves a violation there is no such interval, and the referee's own stays.
            theirs = replace(theirs, bias=bias + other.off)
            other = evidence_of(problem, more, theirs)
        # Where rounding of the gap is more than that, nobody knows how near they are.
        near = all(x.gap + x.gap_rounding <= CLOSE * max(abs(x.primal), abs(x.dual)) for x in (e, other))
        if near and len(part.rows) >= FEW and problem.machine in (*CLASSIFIERS, *REGRESSORS):
            # A decision of 0 has the sign of a rounding: where both models have one, neither is ahead of the other.
            told = (np.abs(part.values) > part.rounding) | (np.abs(theirs.values) > theirs.rounding)
            told |= problem.machine not in CLASSIFIERS
            for p, x in ((part, e), (theirs, other)):
                told &= _told_apart(problem, p.values, p.cost, x.gap + x.gap_rounding)
            if not told.any():
                continue
            ours, best = (_score(problem, p.y[told], p.values[told], p.cost[told]) for p in (part, theirs))
            if _behind(ours, best):
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
    missed = abs(e.gap - (e.primal - e.dual))
    rounding = (e.value_rounding + e.gap_rounding + missed) / unit**2
    return Found(full, e.dual / unit**2, e.gap / unit**2, rounding, 2.0 if problem.machine == "SVDD" else 1.0)


def _check_twin(problem: Problem, fitted: Fitted, found: list[Found], report: Report) -> None:
    twin, origin, kind = make_twin(problem)
    other = fit(twin)
    if other.error is not None:
        if answer(other.error, problem.solver) is None:
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
