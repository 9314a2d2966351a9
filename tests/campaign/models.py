"""A fitted model by its public attributes: what it has found for each of its problems, and what that is worth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import fsum

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, null_space
from scipy.optimize import linprog

from . import textbook
from .problems import CLASSIFIERS, REGRESSORS, Problem, quadratic_kernel
from .textbook import Evidence, Part

__all__ = [
    "FEASIBLE",
    "LinearPart",
    "endless",
    "evidence_of",
    "kernel_of",
    "linear_loss",
    "linear_parts",
    "linear_primal",
    "linear_rows",
    "bends_down",
    "lost_in_sums",
    "middle_bias",
    "nu_scale",
    "parts_of",
    "tolerance",
]

NOTHING = 2e-13  # of the value of f = 0: an objective that is 0 up to rounding
ADDED_EXACTLY = 300  # samples: up to here that takes some tenths of a second
IN_A_PROGRAM = 1 << 20  # entries: linear programs of more take long
FACTORED = 3000  # samples: so do eigenvalues of larger matrices
FLAT = 1e-6  # of the largest curvature: what is smaller is looked at again
FEASIBLE = 1e-6  # share of a box or of a sum of absolute values by which a constraint may be missed


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
    bias = np.atleast_1d(model.intercept_)
    slopes = np.atleast_2d(model.parametric_coef_) if phi.shape[1] else np.zeros((len(bias), 0))
    dual = np.asarray(model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_, np.float64)
    C = float(problem.params.get("C", 1.0) or 1.0)

    seen = problem.params.get("kernel") == "linear" and problem.machine not in ("OneClassSVM", "SVDD")
    W = model.coef_ if seen else None
    W = W.toarray() if sp.issparse(W) else W

    def part(rows, y, cost, support, coef, number) -> Part:
        full = np.zeros(problem.n)
        full[support] = coef
        weights = None
        if seen:
            Kc, size, weights = linear_sums(X[rows], full[rows], W[number], X.mean(axis=0) if free else None)
        elif kernel is None:
            Kc, size = textbook.kernel_sum(None, X[rows], support, coef)
        else:
            Kc, size = textbook.kernel_sum(kernel, X, support, coef, at=X[rows])
        diagonal = None
        if problem.machine == "SVDD":
            diagonal = X.diagonal()[rows] if kernel is None else kernel.diagonal(X[rows])
        own = float(bias[number])
        return Part(rows, y, cost, full[rows], own, Kc, size, phi[rows], slopes[number], free, diagonal, weights)

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


def linear_sums(X: np.ndarray, coef: np.ndarray, w: np.ndarray, middle: np.ndarray | None):
    """(Kc, its size, what the published weights give) for a linear kernel.

    Where the bias is free, Σ c is next to nothing: v = Σ c_i x_i is added up from rows that are seen from their mean.
    What Σ c misses by rounding is a constraint's affair, and rounding of f.

    All problems of a model share one origin for their features, so weights are known to the rounding of rows that are
    seen from the ``middle`` of all rows (None: the bias is not free).
    """
    free = middle is not None
    mean = X.mean(axis=0) if free else np.zeros(X.shape[1])
    near = X - mean
    seen = np.maximum(np.abs(near), np.abs(X - middle)) if free else np.abs(X)
    sum_of_all = fsum(coef)
    held = free and abs(sum_of_all) <= textbook.HELD * float(np.abs(coef).sum())
    v = near.T @ coef + sum_of_all * mean
    size = np.abs(X) @ (np.abs(v) + seen.T @ np.abs(coef))
    size += np.abs(X) @ np.abs(mean) * (abs(sum_of_all) / textbook.UNIT if held else 0.0)
    far = float(np.abs(X @ (w - v)).max(initial=0.0))
    half = 0.5 * float((w - v) @ (w - v))
    return (
        X @ v,
        size,
        textbook.Weights(
            X @ w, np.abs(X) @ np.abs(w), np.abs(X) @ (np.abs(X).T @ np.abs(coef)), float(w @ w), half, far
        ),
    )


def tolerance(problem: Problem, part: Part) -> float:
    """tol in the units of f: the function of the machines with ν grows with the weights, and so does what is seen."""
    tol = problem.params.get("tol", 1e-3)
    return tol * min(1.0, float(part.cost.mean())) if problem.machine in ("NuSVC", "OneClassSVM") else tol


def nu_scale(problem: Problem, part: Part) -> tuple[np.ndarray, float]:
    """Weights of a ν-SVC and S = Σ α = ν Σw, as LIBSVM has it, with weights as copies."""
    nu, w = problem.params.get("nu", 0.5), part.cost
    sides = w[part.y > 0].sum(), w[part.y < 0].sum()
    most = 2.0 * min(sides) / sum(sides) if part.free_bias else 1.0
    return w, min(nu, most) * w.sum()


def evidence_of(problem: Problem, model, part: Part, number: int = 0) -> Evidence:
    """What a part of a model is worth."""
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
    margins = getattr(model, "margin_", None)  # a referee has none
    return textbook.nu_svc(part, total, None if margins is None else float(margins[number]))


def endless(problem: Problem, part: Part) -> bool:
    """Whether the kernel matrix as float64 holds it has lost the curvature that bounds the dual of a squared loss.

    Entries of 1e17, as offsets of 1e4 make them, are rounded by 10, where the loss adds 1 / (2 C_i) to the diagonal. If
    vᵀKv < −Σ v_i² / (2 C_i) for some v that holds the constraints, the dual falls without end along it: it has no
    optimum, whoever looks for one. In classification, where coefficients have signs, it is at least not convex, so that
    no solver can promise to find one. That is added up exactly, or for many samples with more digits than entries have,
    where the machine has such.
    """
    if problem.machine not in ("SVC", "SVR") or not problem.params.get("loss", "").startswith("squared"):
        return False
    kernel, X = kernel_of(problem), problem.dense
    K = X[np.ix_(part.rows, part.rows)] if kernel is None else kernel.values(X[part.rows], X[part.rows])
    given = 0.5 * (K + K.T)
    K = np.asarray(given, np.longdouble)
    columns = part.phi
    if part.free_bias:  # a constant changes nothing for a v whose sum is 0
        K, columns = K - K[0, 0], np.column_stack([part.phi, np.ones(len(K))])
    held = null_space(columns.T) if columns.shape[1] else np.eye(len(K))
    ridge = 0.5 / part.cost
    values, vectors = eigh(held.T @ (K.astype(np.float64) + np.diag(ridge)) @ held)
    v = (held @ vectors[:, 0]).astype(np.longdouble)
    if len(v) <= ADDED_EXACTLY:
        # Next to the largest of them the smallest curvatures are rounding: once more, without the large ones.
        small = values < FLAT * values[-1]
        if not small.any():
            return False
        flat = (held @ vectors[:, small]).astype(np.longdouble)
        _, lowest = eigh((flat.T @ ((K + np.diag(ridge)) @ flat)).astype(np.float64), subset_by_index=[0, 0])
        v = flat @ lowest[:, 0]
        M, u, d = (np.vectorize(Fraction, otypes=[object])(np.asarray(a, np.float64)) for a in (given, v, ridge))
        return bool(u @ (M @ u) + (d * u) @ u < 0)
    rounding = len(v) * np.finfo(np.longdouble).eps * (np.abs(v) @ (np.abs(K) @ np.abs(v)))
    return bool(v @ (K @ v) + (ridge * v) @ v < -rounding)


def bends_down(problem: Problem, part: Part, tol: float) -> bool:
    """Whether a matrix that was given is indefinite, be it by rounding, so that slopes fall by more than tol in a box.

    Along an eigenvector of λ < 0 the slope falls by |λ| for each unit of a coefficient: no solver can promise to find
    the best point of such a problem, nor to prove that it has.
    """
    if problem.params.get("kernel") != "precomputed":
        return False
    given = problem.dense[np.ix_(part.rows, part.rows)].astype(np.float64)
    least = eigh(0.5 * (given + given.T), eigvals_only=True, subset_by_index=[0, 0])[0]
    return bool(-least * part.cost.max() > tol)


def impossible(problem: Problem) -> bool:
    """Whether no coefficients of a one-class machine hold the constraints of its functions, however little they miss.

    Coefficients are not negative and have a sum: where a function has one sign, those of its samples have to be 0.
    """
    phi = functions_of(problem)
    if problem.machine != "OneClassSVM" or not phi.shape[1]:
        return False
    total = problem.params["nu"] * problem.weights.sum()
    A, b = np.vstack([np.ones(problem.n), phi.T]), np.append(total, np.zeros(phi.shape[1]))
    boxes = [(0.0, one) for one in problem.weights]
    return linprog(np.zeros(problem.n), A_eq=A, b_eq=b, bounds=boxes).status == 2  # presolving sees it exactly


def lost_in_sums(problem: Problem, part: Part, most: float) -> bool:
    """Whether what meets tol has sums Σ_j |K_ij| |c_j| above ``most``, of which rounding hides that it does.

    Where they are below, |c_j| ≤ most / max_i |K_ij|: a coefficient counts in the sums of all samples, and most in that
    of the largest one. A sample for which that is less than its cost is not at its bound, so that its loss is nothing
    but tol: y_i f_i ≥ 1 − tol, or |f_i − y_i| ≤ ε + tol; with a Huber loss, whose slope of a share s of the cost is at
    1 + δ − 2 δ s, y_i f_i ≥ that − tol. Eigenvalues of the matrix of these samples that are rounding make a part E of
    it, which adds at most Σ_j |E_ij| most / max_i |K_ij| to f. What is left of f are few functions: eigenvectors,
    samples that may be at their bounds, the constant and φ. A linear program finds the least t by which all samples
    must fall short at once, whatever their coefficients are.

    It is so where entries are of 1e16 and samples are not separable by what differs in more than rounding: those that
    have to be at a cost of 1 are summed up to ±10 at best.
    """
    loss = problem.params.get("loss", "hinge" if problem.machine == "SVC" else "epsilon_insensitive")
    known = {"SVC": ("hinge", "huber"), "SVR": ("epsilon_insensitive",)}
    if loss not in known.get(problem.machine, ()) or len(part.rows) > FACTORED:
        return False
    kernel, X = kernel_of(problem), problem.dense
    K = X[np.ix_(part.rows, part.rows)] if kernel is None else kernel.values(X[part.rows], X[part.rows])
    with np.errstate(over="ignore"):
        largest = most / np.maximum(np.abs(K).max(axis=0), np.finfo(float).tiny)
    inside = largest < part.cost
    if not inside.any():
        return False
    own = 0.5 * (K + K.T)[np.ix_(inside, inside)]
    values, vectors = eigh(own)
    seen = values > len(own) * np.finfo(float).eps * values[-1]
    E = own - (vectors[:, seen] * values[seen]) @ vectors[:, seen].T
    blur = np.abs(E) @ largest[inside]
    y, cost = part.y, part.cost
    free = [np.ones((len(own), int(part.free_bias))), part.phi[inside]]
    functions = np.hstack([vectors[:, seen], *free, K[np.ix_(inside, ~inside)]])
    if functions.size > IN_A_PROGRAM:
        return False
    if problem.machine == "SVC":
        delta = problem.params.get("huber_delta", 0.5) if loss == "huber" else 0.0
        least = 1.0 + delta - 2.0 * delta * np.divide(largest, cost, out=np.ones(len(cost)), where=inside)
        low, high = np.where(y > 0, least, -np.inf), np.where(y > 0, np.inf, -least)
        box = np.column_stack([np.where(y > 0, 0.0, -cost), np.where(y > 0, cost, 0.0)])
    else:
        epsilon = problem.params.get("epsilon", 0.1)
        low, high, box = y - epsilon, y + epsilon, np.column_stack([-cost, cost])
    # low − blur − t ≤ f ≤ high + blur + t
    left = np.vstack([-functions, functions])
    right = np.concatenate([blur - low[inside], blur + high[inside]])
    told = np.isfinite(right)
    bounds = [(None, None)] * (functions.shape[1] - int((~inside).sum())) + list(box[~inside]) + [(0.0, None)]
    program = linprog(
        np.append(np.zeros(functions.shape[1]), 1.0),
        A_ub=np.column_stack([left, -np.ones(len(left))])[told],
        b_ub=right[told],
        bounds=bounds,
    )
    tol = tolerance(problem, part)
    return bool(program.status == 0 and program.fun > 2.0 * tol)


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
    """The problems of a fitted linear machine: one class against the rest, or the one there is."""
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


def linear_loss(problem: Problem, y, f, near=0.0) -> tuple[np.ndarray, np.ndarray]:
    """(values, pulls) of the loss of a linear machine."""
    params = problem.params
    default = "squared_hinge" if problem.machine == "LinearSVC" else "epsilon_insensitive"
    name, delta, epsilon = params.get("loss", default), params.get("huber_delta", 0.5), params.get("epsilon", 0.0)
    return textbook.loss(name, y, f, near, delta, epsilon)


def middle_bias(problem: Problem, y, cost, f, bias: float) -> float:
    """The middle of the biases that are the best for a function f without one; ``bias`` where one alone is the best.

    Σ C_i ℓ_i is convex in the bias, and parts of it in which it is constant end where a loss has a knot. Its slope only
    grows, so the first and the last piece between knots in which it is 0 are found by halving.
    """
    if problem.machine == "LinearSVR":
        knots = np.add.outer(np.array([-1.0, 1.0]) * problem.params.get("epsilon", 0.0), y - f)
    else:
        delta = problem.params.get("huber_delta", 0.5) if problem.params.get("loss") == "huber" else 0.0
        knots = np.multiply.outer(np.array([1.0 - delta, 1.0 + delta]), y) - f
    knots = np.unique(knots)

    def slope(piece: int) -> float:
        at = f + 0.5 * (knots[piece] + knots[piece + 1])
        side = np.sign(at - y) if problem.machine == "LinearSVR" else -y
        return float(cost @ (side * linear_loss(problem, y, at)[1]))

    pieces, none = range(len(knots) - 1), textbook.UNIT * float(cost.sum())
    first, last = bisect_left(pieces, -none, key=slope), bisect_right(pieces, none, key=slope)
    return 0.5 * float(knots[first] + knots[last]) if first < last else bias


def linear_primal(problem: Problem, X, phi, part: LinearPart, w, bias, slopes) -> tuple[float, float]:
    """(½‖w‖² + Σ C_i ℓ_i, its rounding, of which that of f = 0 is a part); a penalised intercept is one more weight."""
    f = X @ w + bias + phi @ slopes
    near = textbook.UNIT * (np.abs(X) @ np.abs(w) + abs(bias) + np.abs(phi) @ np.abs(slopes) + np.abs(part.y))
    value, pull = linear_loss(problem, part.y, f, near)
    scaling = problem.params.get("intercept_scaling") if problem.params.get("fit_intercept", True) else None
    penalty = 0.0 if scaling is None else 0.5 * (bias / scaling) ** 2
    primal = 0.5 * float(w @ w) + penalty + float(part.cost @ value)
    nothing = float(part.cost @ linear_loss(problem, part.y, np.zeros(len(part.y)))[0])
    return primal, float((part.cost * pull) @ near) + textbook.UNIT * primal + NOTHING * nothing
