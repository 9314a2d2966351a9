"""Plain quadratic programs for ``maxmargin.solve``, checked by the same rules as the machines.

    min ½ βᵀHβ + pᵀβ + Σ ε_i |β_i|   s.t.  lower ≤ β ≤ upper,  Aβ = b

For multipliers η and s = Hβ + p + Aᵀη, no feasible z has an objective below that of β by more than

    gap = Σ_i max_z [ s_i (β_i − z_i) + ε_i (|β_i| − |z_i|) ] − ηᵀ(Aβ − b),

because ½ zᵀHz lies above its tangent at β.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import maxmargin
from maxmargin.gram import PrecomputedGram, Ridged
from maxmargin.monitor import Monitor
from referee import referee

__all__ = ["Program", "check", "make_program"]

SECONDS = 8.0
SAME = 1e-6
FEASIBLE = 1e-6
DUST = 3e-15  # of all boxes: a sum that is rounding
UNIT = 64 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Program:
    """A quadratic program; with a ridge, H is to be given to the package as a matrix plus a diagonal."""

    H: np.ndarray  # all of it
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    b: np.ndarray
    eps: np.ndarray
    ridge: np.ndarray | None
    tol: float
    start: np.ndarray | None
    note: str

    @property
    def n(self) -> int:
        return len(self.p)


def make_program(seed: int) -> Program:
    """The program of this number."""
    rng = np.random.default_rng([seed, 2])
    n = int(np.clip(10.0 ** rng.uniform(np.log10(2), np.log10(200)), 2, 200))
    rank = int(rng.integers(1, n + 1)) if rng.uniform() < 0.5 else n
    scale = 10.0 ** rng.uniform(-2, 2)
    G = rng.normal(size=(n, rank))
    if rng.uniform() < 0.3:  # copies
        G = G[rng.integers(0, max(1, n // 2), n)]
    H = scale * (G @ G.T) / rank
    H = 0.5 * (H + H.T)
    p = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2)
    size = 10.0 ** rng.uniform(-2, 2) * (1.0 if rng.uniform() < 0.5 else 10.0 ** rng.uniform(-1, 1, n))
    size = np.broadcast_to(size, n)
    kind = str(rng.choice(["positive", "symmetric", "signed", "uneven", "fixed", "infinite", "ridge"]))
    lower, upper = np.zeros(n), size.copy()
    if kind == "symmetric":
        lower = -size
    elif kind == "signed":
        side = rng.uniform(size=n) < 0.5
        lower, upper = np.where(side, -size, 0.0), np.where(side, 0.0, size)
    elif kind == "uneven":
        lower = -size * rng.uniform(0, 2, n)
    elif kind == "fixed":
        some = rng.uniform(size=n) < 0.2
        lower, upper = np.where(some, 0.3 * size, -size), np.where(some, 0.3 * size, size)
    ridge = None
    if kind in ("infinite", "ridge"):
        ridge = 10.0 ** rng.uniform(-2, 1, n)
        lower, upper = (np.zeros(n) if rng.uniform() < 0.5 else np.full(n, -np.inf)), np.full(n, np.inf)
        H = H + np.diag(ridge)
        ridge = None if kind == "infinite" else ridge
    k = int(rng.choice([0, 1, 1, 2, 3]))
    rows = [np.ones(n), rng.choice([-1.0, 1.0], n), rng.normal(size=n), rng.normal(size=n)]
    first = int(rng.integers(0, 2))
    A = np.array(rows[first : first + k]).reshape(k, n)
    inside = np.where(np.isfinite(lower), lower, -1.0)
    inside = inside + rng.uniform(0, 1, n) * (np.where(np.isfinite(upper), upper, inside + 1.0) - inside)
    b = A @ inside
    if (lower <= 0).all() and (upper >= 0).all() and rng.uniform() < 0.5:
        b = np.zeros(k)
    eps = np.zeros(n)
    if rng.uniform() < 0.3:
        eps = np.full(n, 10.0 ** rng.uniform(-3, 0)) * (1.0 if rng.uniform() < 0.5 else rng.uniform(0, 1, n))
    tol = 10.0 ** rng.uniform(-6, -1) if rng.uniform() < 0.5 else 1e-3
    start = inside if rng.uniform() < 0.2 else None
    note = f"{kind} boxes, rank {min(rank, n)}, {k} constraints"
    note += ", eps" * bool(eps.any()) + ", start" * (start is not None)
    return Program(H, p, lower, upper, A, b, eps, ridge, tol, start, note)


def objective(q: Program, beta: np.ndarray) -> float:
    return float(0.5 * beta @ q.H @ beta + q.p @ beta + q.eps @ np.abs(beta))


def _gap(q: Program, beta, s, eta) -> float:
    """As above; the part of H that is known to be a diagonal keeps its curvature."""
    d = np.zeros(q.n) if q.ridge is None else q.ridge
    r = s - d * beta
    shrunk = -np.sign(r) * np.maximum(np.abs(r) - q.eps, 0.0)
    corner = np.where(r > q.eps, q.lower, np.where(r < -q.eps, q.upper, np.clip(0.0, q.lower, q.upper)))
    z = np.where(d > 0, np.clip(shrunk / np.where(d > 0, d, 1.0), q.lower, q.upper), corner)
    if np.isinf(z).any():
        return np.inf
    rows = r * (beta - z) + 0.5 * d * (beta * beta - z * z) + q.eps * (np.abs(beta) - np.abs(z))
    return float(rows.sum() - eta @ (q.A @ beta - q.b))


def _violation(q: Program, beta, s, slack: float) -> float:
    width = np.where(np.isfinite(q.upper - q.lower), q.upper - q.lower, np.maximum(np.abs(beta), 1e-300))
    near = slack * width
    up, down = s + np.where(beta >= -near, q.eps, -q.eps), s + np.where(beta > near, q.eps, -q.eps)
    grow = -up[beta < q.upper - near].min(initial=0.0)
    return float(grow + down[beta > q.lower + near].max(initial=0.0))


def check(seed: int, solver: str, report) -> None:
    """Solve a program and check the solution."""
    q = make_program(seed)
    report.n, report.d, report.detail = q.n, len(q.A), f" {q.note}"
    H = q.H if q.ridge is None else Ridged(PrecomputedGram(q.H - np.diag(q.ridge)), q.ridge)
    qp = maxmargin.QP(H, q.p, q.lower, q.upper, q.A, q.b, q.eps)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            found = maxmargin.solve(qp, solver, q.start, Monitor(SECONDS), tol=q.tol)
    except Exception as error:
        report.raised(error)
        return
    beta, eta, c = found.beta, found.multipliers, found.certificate
    if not (np.isfinite(beta).all() and np.isfinite(eta).all()):
        report.fail("crash", f"the solution is not finite ({q.note})")
        return
    s = q.H @ beta + q.p + q.A.T @ eta
    rounding = UNIT * (np.abs(q.H) @ np.abs(beta) + np.abs(q.p) + np.abs(q.A.T) @ np.abs(eta))
    value, gap = objective(q, beta), _gap(q, beta, s, eta)
    strict, violation = _violation(q, beta, s, 0.0), _violation(q, beta, s, 1e-8)
    width = np.where(np.isfinite(q.upper - q.lower), q.upper - q.lower, 1.0)
    outside = float(np.max(np.maximum(q.lower - beta, beta - q.upper) / np.where(width > 0, width, 1.0), initial=0.0))
    reach = np.where(np.isfinite(q.upper - q.lower), q.upper - q.lower, np.abs(q.p) / q.H.diagonal())
    size, missing = np.abs(q.A) @ np.abs(beta) + np.abs(q.b), np.abs(q.A @ beta - q.b)
    missing[missing <= DUST * (np.abs(q.A) @ reach)] = 0.0
    lack = float(np.max(missing / np.where(size > 0, size, 1.0), initial=0.0))
    relative = gap / max(abs(value), abs(value - gap), 1e-300) if np.isfinite(gap) else np.inf
    slack = float(rounding @ (reach + np.abs(beta)))
    why = (
        f"violation {violation:.3g}, relative gap {relative:.2g} at tol {q.tol:.2g}, box missed by {outside:.1e}, "
        f"constraints by {lack:.1e} ({q.note}); certificate: {c}"
    )
    near = 2.0 * float(rounding.max(initial=0.0))
    converged = found.status is maxmargin.Status.CONVERGED
    met = violation <= q.tol * (1 + SAME) + near
    if converged and not (met and outside <= FEASIBLE and lack <= FEASIBLE):
        report.fail("wrong model", why)
    if not converged:
        nothing = abs(value) <= 1e-12 * float(np.abs(q.p) @ reach)  # 0 may be the only feasible point
        if violation < q.tol - near and max(outside, lack) <= 1e-12 and not nothing:
            report.fail("modest", f"{found.status.name}, but {why}")
        else:
            report.outcome = "slow"
    if not abs(-c.dual - value) <= SAME * abs(value) + slack:
        report.fail("false proof", f"objective {-c.dual:.9g}, by hand {value:.9g}; {why}")
    missed = abs(float(eta @ (q.A @ beta - q.b)))
    if np.isfinite(gap) and not abs(c.gap - gap) <= SAME * abs(gap) + slack + missed:
        report.fail("false proof", f"gap {c.gap:.6g}, by hand {gap:.6g}; {why}")
    if not violation - near - SAME * strict <= c.violation <= strict + near + SAME * strict:
        report.fail("false proof", f"violation {c.violation:.6g}, by hand {strict:.6g}; {why}")
    if q.n <= 60 and converged and not report.failures:
        try:
            best = referee(q.H, q.p, q.lower, q.upper, q.A, q.b, q.eps)
        except ArithmeticError:
            return
        worth = max(abs(best.objective), abs(value), 1e-3 * float(np.abs(q.p) @ reach))
        if np.isfinite(gap) and value - gap > best.objective + 1e-6 * worth + slack + missed:
            report.fail("worse", f"the optimum lies at {best.objective:.9g}, the bound {value - gap:.9g} above; {why}")
