"""Support vector machines by their definitions: kernels, primal, dual, gap and violation in float64.

Nothing here uses the package. Everything is computed from what a user can see of a model: coefficients c_i of the
training samples, bias b, coefficients g of parametric functions φ, and

    f(x) = Σ c_i k(x_i, x) + b + Σ_j g_j φ_j(x)

For each machine with costs C_i the primal value P of f and the dual value D of c are those of the textbooks:

| machine | P                                              | D                                | c in               |
| ------- | ---------------------------------------------- | -------------------------------- | ------------------ |
| C-SVC   | ½‖w‖² + Σ C_i ℓ(y_i f_i)                       | Σ α_i − ½‖w‖² (− Σ α²/4C for ℓ²) | α = yc in [0, C_i] |
| ε-SVR   | ½‖w‖² + Σ C_i max(0, |f_i − y_i| − ε)          | yᵀc − ε‖c‖₁ − ½‖w‖²              | [−C_i, C_i]        |
| ν-SVR   | ½‖w‖² + ε ν ΣC + Σ C_i max(0, |f_i − y_i| − ε) | yᵀc − ½‖w‖², ‖c‖₁ ≤ ν ΣC         | [−C_i, C_i]        |
| ν-SVC   | ½‖w‖² − ρ S + Σ w_i max(0, ρ − y_i f_i)        | −½‖w‖², Σ α_i = S                | α = yc in [0, w_i] |
| 1-class | ½‖w‖² − ρ S + Σ w_i max(0, ρ − f_i)            | −½‖w‖², Σ c_i = S = ν Σw         | [0, w_i]           |
| SVDD    | ½ (R² + Σ C_i max(0, d_i² − R²))               | ½ Σ β_i d_i², Σ β_i = 1, β = c/2 | β in [0, C_i]      |

with ‖w‖² = cᵀKc and d_i² the squared distance to the centre Σ β_j φ(x_j). A bias asks for Σ c_i = 0, functions φ_j
for Σ c_i φ_j(x_i) = 0. P − D is summed up by rows, each of which is ≥ 0 for a c in its box, so that small gaps are
not lost in large values.

The violation is LIBSVM's m − M: s_i is the slope of the dual objective (to be minimised) plus the bias and the
functions; what may grow must not have s_i < 0, what may shrink not s_i > 0, and the largest of both are added up.

Rounding: a sum Σ K_ij c_j is known to ``UNIT`` × Σ |K|_ij |c_j|, where |K| is the kernel of absolute values, of which
K's own rounding is a multiple of the unit roundoff. Every number comes with what this means for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.distance import cdist

__all__ = [
    "Evidence",
    "Kernel",
    "Part",
    "Weights",
    "UNIT",
    "c_svc",
    "kernel_sum",
    "loss",
    "nu_svc",
    "nu_svr",
    "one_class",
    "svdd",
    "svr",
]

UNIT = 64 * np.finfo(np.float64).eps  # of Σ |K||c|: √n roundings at most 2 eps each, for n up to 1000, times a kernel's
UNIT_UP_TO = 1000  # n: beyond, √n grows
HELD = 1e-12  # of the terms of a constraint: missed by less, it is held
DIFFERENCES = 1e-12  # of a kernel of differences: what the package promises of its entries, far from the origin or not
MOST_TERMS = 1e6  # times what is left of them: coefficients that cancel
AT_BOUND = 1e-8  # of a box: nearer than this to a bound is at the bound; constraints are held no better
DUST = 3e-15  # of the sum of all costs: a sum of coefficients that is rounding
BLOCK = 1 << 22  # kernel values held at a time


@dataclass(frozen=True)
class Kernel:
    """A kernel by its formula; differences are formed before they are squared."""

    name: str
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3
    function: object = None  # of a callable

    def values(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        if self.name == "linear":
            return X @ Z.T
        if self.name == "poly":
            return (self.gamma * (X @ Z.T) + self.coef0) ** self.degree
        if self.name == "sigmoid":
            return np.tanh(self.gamma * (X @ Z.T) + self.coef0)
        if self.name == "rbf":
            return np.exp(-self.gamma * cdist(X, Z, "sqeuclidean"))
        if self.name == "laplacian":
            return np.exp(-self.gamma * cdist(X, Z, "cityblock"))
        return np.asarray(self.function(X, Z), np.float64)

    def sizes(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """What the rounding of a value is a multiple of."""
        if self.name == "linear":
            return np.abs(X) @ np.abs(Z).T
        if self.name == "poly":
            return max(1, self.degree) * (self.gamma * (np.abs(X) @ np.abs(Z).T) + abs(self.coef0)) ** self.degree
        if self.name == "sigmoid":
            return 1.0 + self.gamma * (np.abs(X) @ np.abs(Z).T) + abs(self.coef0)
        if self.name in ("rbf", "laplacian"):
            exponent = self.gamma * cdist(X, Z, "sqeuclidean" if self.name == "rbf" else "cityblock")
            # Products may be wrong by a share e of the norms in the exponent: no entry by more than is promised of all.
            power = 2 if self.name == "rbf" else 1
            norms = np.add.outer((np.abs(X) ** power).sum(axis=1), (np.abs(Z) ** power).sum(axis=1))
            e = np.minimum(self.gamma * np.finfo(float).eps * (4.0 + X.shape[1] ** 0.5) * norms, 1.0)
            value = np.exp(-exponent)
            by_products = np.minimum(DIFFERENCES, value * e * np.e)
            return np.maximum(DIFFERENCES * (1.0 + exponent) * value, by_products) / UNIT
        return np.abs(self.function(np.abs(X), np.abs(Z)) if self.name == "products" else self.values(X, Z))

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        if self.name in ("rbf", "laplacian"):
            return np.ones(len(X))
        if self.name in ("linear", "poly", "sigmoid"):
            squares = (X * X).sum(axis=1)
            inner = self.gamma * squares + self.coef0
            return {"linear": squares, "poly": inner**self.degree, "sigmoid": np.tanh(inner)}[self.name]
        return np.array([float(self.values(x[None], x[None])[0, 0]) for x in X])


def kernel_sum(kernel: Kernel | None, X: np.ndarray, support: np.ndarray, coef: np.ndarray, at=None):
    """(Σ c_j k(x_j, x), Σ |c_j| |k|(x_j, x)) over the support for each row of ``at`` (of X itself without one).

    Without a kernel X is the kernel matrix, with a row for each point.
    """
    points = X if at is None else at
    value, size = np.zeros(len(points)), np.zeros(len(points))
    if not len(support):
        return value, size
    step = max(1, BLOCK // len(support))
    for a in range(0, len(points), step):
        part = slice(a, a + step)
        if kernel is None:
            K = points[part][:, support]
            value[part], size[part] = K @ coef, np.abs(K) @ np.abs(coef)
        else:
            value[part] = kernel.values(points[part], X[support]) @ coef
            size[part] = kernel.sizes(points[part], X[support]) @ np.abs(coef)
    return value, size


def loss(name: str, y, f, near=0.0, delta: float = 0.5, epsilon: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(values, slopes) of a loss of y and f; where f is known to ``near`` only, the largest slope that may be."""
    if name.endswith("insensitive"):
        out, far = np.maximum(0.0, np.abs(f - y) - epsilon), np.maximum(0.0, np.abs(f - y) - epsilon + near)
        return (out**2, 2.0 * far) if name.startswith("squared") else (out, (far > 0).astype(float))
    m = y * f
    short, far = np.maximum(0.0, 1.0 - m), np.maximum(0.0, 1.0 - m + near)
    if name == "hinge":
        return short, (far > 0).astype(float)
    if name == "squared_hinge":
        return short**2, 2.0 * far
    t = 1.0 + delta - m  # huber
    value = np.where(t <= 0, 0.0, np.where(t >= 2.0 * delta, 1.0 - m, t * t / (4.0 * delta)))
    return value, np.clip((t + near) / (2.0 * delta), 0.0, 1.0)


@dataclass(frozen=True)
class Weights:
    """w of a linear kernel."""

    Xw: np.ndarray
    size: np.ndarray  # |X||w|
    sums: np.ndarray  # |X||X|ᵀ|c|: what decisions by coefficients are made of
    square: float  # ‖w‖²
    apart: float  # ½‖w − Xᵀc‖²
    far: float  # the largest |X(w − Xᵀc)|


@dataclass(frozen=True)
class Part:
    """One problem of a fitted model, on the samples that take part in it."""

    rows: np.ndarray  # of the training data
    y: np.ndarray  # ±1 or values
    cost: np.ndarray  # C_i, or weights for the machines with ν
    coef: np.ndarray  # c, one for each row
    bias: float
    Kc: np.ndarray  # Σ_j K_ij c_j
    size: np.ndarray  # Σ_j |K|_ij |c_j|
    phi: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (rows, functions)
    slopes: np.ndarray = field(default_factory=lambda: np.zeros(0))  # g
    free_bias: bool = True
    diagonal: np.ndarray | None = None  # K_ii, for SVDD
    weights: Weights | None = None  # of a linear kernel, where predictions use them

    @property
    def values(self) -> np.ndarray:
        """f at the rows, as it is published."""
        return (self.Kc if self.weights is None else self.weights.Xw) + self._rest

    @property
    def by_coefficients(self) -> np.ndarray:
        """f at the rows from the coefficients: the same, unless weights are published that differ."""
        return self.Kc + self._rest

    @property
    def _rest(self) -> np.ndarray | float:
        return self.bias + (self.phi @ self.slopes if len(self.slopes) else 0.0)

    @property
    def rounding(self) -> np.ndarray:
        """How well f − y is known."""
        return self._known_to(self.size if self.weights is None else self.weights.size)

    @property
    def coefficient_rounding(self) -> np.ndarray:
        """How well f − y is known from the coefficients."""
        return self._known_to(self.size)

    @property
    def decision_rounding(self) -> np.ndarray:
        """How well f is known from sums over the support vectors."""
        return self._known_to(self.size if self.weights is None else self.weights.sums)

    def _known_to(self, size: np.ndarray) -> np.ndarray:
        functions = np.abs(self.phi) @ np.abs(self.slopes) if len(self.slopes) else 0.0
        more = np.sqrt(max(1.0, len(self.y) / UNIT_UP_TO))
        return UNIT * more * (size + abs(self.bias) + functions + np.abs(self.y))

    @property
    def quadratic(self) -> float:
        """cᵀKc, which is ‖w‖² for the w that the coefficients add up to."""
        return float(self.coef @ self.Kc)

    @property
    def half(self) -> float:
        """½‖w‖² of the published function."""
        return 0.5 * (self.quadratic if self.weights is None else self.weights.square)

    @property
    def apart(self) -> float:
        """½‖w − v‖², where w is published and v is what the coefficients add up to: it is a part of the gap."""
        return 0.0 if self.weights is None else self.weights.apart

    def imbalance(self, scale: float) -> float:
        """The largest |Σ c_i φ_j(x_i)|, the constant included, as a share of Σ |c_i| times the largest |φ_j|.

        Where c are differences of coefficients of the size of their costs, rounding is that of the costs; ``scale``
        is what they are multiplied by to be of that size.
        """
        columns = [self.phi[:, j] for j in range(len(self.slopes))]
        columns += [np.ones(len(self.coef))] if self.free_bias else []
        found = 0.0
        for column in columns:
            largest, sum_ = np.abs(column).max(), abs(float(self.coef @ column))
            if abs(scale) * sum_ > DUST * self.cost.sum() * largest:
                found = max(found, sum_ / (np.abs(self.coef).sum() * largest))
        return found


@dataclass(frozen=True)
class Evidence:
    """What a model is worth, by hand."""

    primal: float
    dual: float
    gap: float
    violation: float  # with coefficients next to a bound counted as at it
    strict: float  # with coefficients as they are
    least: float  # the smallest violation that any bias leaves, where the bias is the only free parameter
    off: float  # what the bias lacks then to the middle of those that leave so much
    outside: float  # the largest excess over a box or lack in a sum, as a share of it
    gap_rounding: float
    value_rounding: float  # of primal and dual
    violation_rounding: float

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), abs(self.dual), np.finfo(float).tiny)


def _violations(s, coef, lower, upper, eps=0.0) -> tuple[float, float, float, float]:
    """(violation, strictly, for the best bias, and how far off the middle of these is) of slopes s.

    To them ±ε are added for a coefficient's sign.
    """
    width = np.where(np.isfinite(upper - lower), upper - lower, np.maximum(np.abs(coef), 1e-300))

    def at(slack):
        near = slack * width
        up = s + np.where(coef >= -near, eps, -eps)
        down = s + np.where(coef > near, eps, -eps)
        grow = -up[coef < upper - near].min(initial=np.inf)
        shrink = down[coef > lower + near].max(initial=-np.inf)
        return grow, shrink

    grow, shrink = at(AT_BOUND)
    strict = at(0.0)
    # A bias that is larger by t makes all slopes larger by t: none violates anything for t from grow to −shrink.
    ends = [t for t in (grow, -shrink) if np.isfinite(t)]
    return (
        max(0.0, grow) + max(0.0, shrink),
        max(0.0, strict[0]) + max(0.0, strict[1]),
        max(0.0, grow + shrink),
        sum(ends) / max(1, len(ends)),
    )


def _outside(coef, lower, upper) -> float:
    """The largest excess over a box, as a share of its width."""
    width = np.where(np.isfinite(upper - lower), upper - lower, 1.0)
    excess = np.maximum(lower - coef, coef - upper) / np.where(width > 0, width, 1.0)
    return float(max(0.0, excess.max(initial=0.0)))


def _evidence(
    part: Part, primal, dual, rows, pull, s, lower, upper, eps=0.0, scale=1.0, lack=0.0, terms=0.0
) -> Evidence:
    """Everything together.

    ``pull`` is what a unit of f is worth in each row's loss, ``scale`` that of f in s, and ``terms`` are the sizes of
    what cancels in the primal value.
    """
    rounding = np.maximum(part.rounding, part.coefficient_rounding)  # whichever of the two f is computed from
    violations = _violations(s, part.coef * scale, lower, upper, eps)
    # ½‖w‖² is one half of Σ c_i f_i; losses and c_i f_i are rows of the gap.
    value_rounding = float(scale * (np.abs(pull) + 0.5 * scale * np.abs(part.coef)) @ rounding) + UNIT * terms
    gap_rounding = float(scale * (np.abs(pull) + scale * np.abs(part.coef)) @ rounding)
    return Evidence(
        primal=float(primal),
        dual=float(dual),
        gap=float(np.sum(rows)) + scale**2 * part.apart,
        violation=float(violations[0]),
        strict=float(violations[1]),
        least=float(violations[2]),
        off=float(violations[3]),
        outside=max(_outside(part.coef * scale, lower, upper), part.imbalance(scale), lack),
        gap_rounding=gap_rounding,
        value_rounding=value_rounding,
        violation_rounding=2.0 * scale * float(part.coefficient_rounding.max(initial=0.0)),
    )


def c_svc(part: Part, name: str = "hinge", delta: float = 0.5) -> Evidence:
    """½‖w‖² + Σ C_i ℓ(y_i f_i): hinge, its square, or the hinge with a parabola on |1 − m| ≤ δ."""
    y, C, c = part.y, part.cost, part.coef
    m, alpha = y * part.values, y * c
    value, pull = loss(name, y, part.values, part.rounding, delta)
    # The conjugate of C ℓ is −ask α + curve α²/2 on [0, top].
    ask, curve, top = 1.0, np.zeros(len(c)), C
    if name == "squared_hinge":
        curve, top = 1.0 / (2.0 * C), np.full(len(c), np.inf)
    elif name == "huber":
        ask, curve = 1.0 + delta, 2.0 * delta / C
    conjugate = 0.5 * curve * alpha**2
    primal = part.half + C @ value
    dual = ask * alpha.sum() - conjugate.sum() - 0.5 * part.quadratic
    rows = C * value - ask * alpha + conjugate + alpha * m
    s = part.by_coefficients - ask * y + curve * c
    return _evidence(part, primal, dual, rows, C * pull, s, np.where(y > 0, 0.0, -top), np.where(y > 0, top, 0.0))


def svr(part: Part, epsilon: float, squared: bool) -> Evidence:
    """½‖w‖² + Σ C_i max(0, |f_i − y_i| − ε), or its square."""
    y, C, c = part.y, part.cost, part.coef
    r = part.values - y
    name = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
    value, pull = loss(name, y, part.values, part.rounding, epsilon=epsilon)
    curve, top = (1.0 / (2.0 * C), np.full(len(c), np.inf)) if squared else (np.zeros(len(c)), C)
    conjugate = 0.5 * curve * c**2
    primal = part.half + C @ value
    dual = y @ c - epsilon * np.abs(c).sum() - conjugate.sum() - 0.5 * part.quadratic
    rows = C * value + conjugate + epsilon * np.abs(c) + c * r
    s = part.by_coefficients - y + curve * c
    return _evidence(part, primal, dual, rows, C * pull, s, -top, top, eps=epsilon)


def nu_svr(part: Part, nu: float, epsilon: float) -> Evidence:
    """½‖w‖² + ε ν ΣC + Σ C_i max(0, |f_i − y_i| − ε), where ε is found, too.

    The coefficients are c = α − α*, and what is left of Σ (α + α*) = ν ΣC is spread over both where ε = 0.
    """
    y, C, c = part.y, part.cost, part.coef
    r = part.values - y
    total = nu * C.sum()
    above, below = np.maximum(0.0, r - epsilon), np.maximum(0.0, -r - epsilon)
    primal = part.half + total * epsilon + C @ (above + below)
    dual = y @ c - 0.5 * part.quadratic
    rows = np.append(C * (above + below) + c * r, epsilon * total)
    pull = C * (np.abs(r) - epsilon + part.rounding > 0)
    lack = max(0.0, np.abs(c).sum() / total - 1.0)
    evidence = _evidence(part, primal, dual, rows, pull, r, -C, C, eps=epsilon, lack=lack, terms=abs(epsilon) * total)
    none, side = np.zeros(len(C)), np.repeat([1.0, -1.0], len(C))
    r = part.by_coefficients - y
    s, pairs = np.r_[r + epsilon, r - epsilon], np.r_[np.maximum(c, 0.0), np.minimum(c, 0.0)]
    if part.free_bias:
        found = _violations(s, pairs, np.r_[none, -C], np.r_[C, none])
    else:  # one constraint, of α and α*
        found = _violations(side * s, side * pairs, np.r_[none, none], np.r_[C, C])
    # Which α_i and α_i* are both > 0, if any, is not published: it moves a slope by 2ε at most, and where they cancel,
    # sums are as good as their terms.
    spent = np.abs(c).sum()
    hidden = spent < total * (1 - 1e-8)
    terms_of_sums = min(MOST_TERMS, total / max(spent, 1e-300)) if hidden else 1.0
    return replace(
        evidence,
        violation=found[0],
        strict=found[1],
        least=found[2],
        violation_rounding=terms_of_sums * evidence.violation_rounding + (2.0 * abs(epsilon) if hidden else 0.0),
        gap_rounding=terms_of_sums * evidence.gap_rounding,
        value_rounding=terms_of_sums * evidence.value_rounding,
    )


def nu_svc(part: Part, total: float, rho: float | None = None) -> Evidence:
    """½‖w‖² − ρ S + Σ w_i max(0, ρ − y_i f_i) with Σ α_i = S; ``part.cost`` are weights in the scale of S.

    A model's coefficients are divided by its margin ρ, unless there is none. Where ρ is not known, their sum tells it.
    """
    y, w = part.y, part.cost
    divided = rho is None or rho > 0.0
    rho = total / np.abs(part.coef).sum() if rho is None else rho
    scale = rho if divided else 1.0
    f, beta = scale * part.values, scale * part.coef
    alpha = y * beta
    short = np.maximum(0.0, rho - y * f)
    primal, dual = scale**2 * part.half - rho * total + w @ short, -0.5 * scale**2 * part.quadratic
    rows = w * short - alpha * (rho - y * f)
    pull = w * (rho - y * f + scale * part.rounding > 0)
    lower, upper = np.where(y > 0, 0.0, -w), np.where(y > 0, w, 0.0)
    lack = abs(alpha.sum() / total - 1.0)
    g = scale * part.by_coefficients
    evidence = _evidence(
        part, primal, dual, rows, pull, g - y * rho, lower, upper, scale=scale, lack=lack, terms=abs(rho) * total
    )
    if part.free_bias:
        return evidence
    found = _violations(y * g - rho, alpha, np.zeros(len(w)), w)  # one constraint, of α
    return replace(evidence, violation=found[0], strict=found[1], least=found[2])


def one_class(part: Part, nu: float, rho: float) -> Evidence:
    """½‖w‖² − ρ S + Σ w_i max(0, ρ − f_i) with Σ c_i = S = ν Σw."""
    w, beta = part.cost, part.coef
    f = part.values - part.bias
    total = nu * w.sum()
    half = 0.5 * float(beta @ part.Kc)
    short = np.maximum(0.0, rho - f)
    primal, dual = half - rho * total + w @ short, -half
    rows = w * short - beta * (rho - f)
    pull = w * (rho - f + part.rounding > 0)
    lack = abs(beta.sum() / total - 1.0)
    box = np.zeros(len(w)), w
    return _evidence(part, primal, dual, rows, pull, f - rho, *box, lack=lack, terms=abs(rho) * total)


def svdd(part: Part) -> Evidence:
    """½ (R² + Σ C_i max(0, d_i² − R²)): R² − d² is f − k(x, x), and c = 2β."""
    C = part.cost
    beta = 0.5 * part.coef
    centre = 0.25 * part.quadratic
    squared = part.bias + centre  # R²
    distance = part.diagonal - part.Kc + centre
    s = 0.5 * (part.values - part.diagonal)  # ½ (R² − d²)
    primal = 0.5 * (squared + C @ np.maximum(0.0, distance - squared))
    dual = 0.5 * float(beta @ distance)
    rows = C * np.maximum(0.0, -s) + beta * s
    lack = abs(beta.sum() - 1.0)
    pull = C * (-s + part.rounding > 0)
    part = replace(part, size=part.size + 2.0 * np.abs(part.diagonal))  # which is rounded like the rest
    return _evidence(part, primal, dual, rows, pull, s, np.zeros(len(C)), C, scale=0.5, lack=lack)
