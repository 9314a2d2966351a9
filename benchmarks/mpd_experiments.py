"""MPD on small problems: its Figure 1, what each of its options is worth, and over-relaxation.

Counts, not seconds: rows of steps are the same on any machine. semiparametric.py runs these and makes the tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maxmargin._jit import jit
from maxmargin.formulations import CSVC, EpsilonSVR, NuSVC, NuSVR, OneClass, Samples, SemiParametric
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram, Shifted
from maxmargin.problem import QP
from maxmargin.solution import Status
from maxmargin.solvers import MPD, SOR, mpd, solve
from maxmargin.solvers.base import answer
from maxmargin.solvers.parts.constraints import Equality
from maxmargin.solvers.parts.mpd_leaves import SETTLED, newton_step
from maxmargin.solvers.parts.pair_steps import HUGE

__all__ = ["AS_PUBLISHED", "CHOICES", "OMEGAS", "figure1", "options", "relaxation"]

AS_PUBLISHED = {
    "hessian": "diagonal", "clamping": False, "augment": 0.0, "eager": 0.0, "orthogonal": False, "newton": False,
    "omega": 1.0,
}  # fmt: skip
STEPS_ALONE: dict = {"newton": False}  # the defaults, without a Newton system at the end that would end the count


# ---------------------------------------------------------------------------------------------- Figure 1

SEED = 5
THRESHOLD = 0.01  # ε_p and ε_d


def two_gaussians() -> QP:
    """20 points each, σ = 1, means √2 apart; C = 1000, divided by the number of points; a Gaussian kernel, σ = 1."""
    rng = np.random.default_rng(SEED)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 1.0])
    gram = KernelGram(Kernel("rbf", 0.5), X)
    return CSVC(C=1000 / 40).qp(Samples(gram, np.repeat([1.0, -1.0], 20), np.ones(40)))


def figure1() -> Iterator[dict]:
    """Both violations and η₁ at each iteration: as published, and with our steps."""
    methods = {
        "as published": AS_PUBLISHED,
        "our steps, Hessian estimated": STEPS_ALONE | {"hessian": "full"},
        "our steps (default)": STEPS_ALONE,
    }
    for name, chosen in methods.items():
        trace = solve(two_gaussians(), "mpd", tol=THRESHOLD / mpd.SHARE, trace=10_000, **chosen).history.trace
        columns = [trace[key] for key in ("primal_violation", "dual_violation", "dual_steps")] + [trace["eta"][:, 0]]
        for at, (primal, dual, steps, eta) in enumerate(zip(*columns, strict=True)):
            yield {
                "method": name, "iteration": at, "primal_violation": primal, "dual_violation": dual,
                "dual_steps": int(steps), "eta": eta,
            }  # fmt: skip


# ---------------------------------------------------------------------------------------------- options

ROWS = {
    "C-SVC": (CSVC(C=1.5), "labels"),
    "ν-SVC": (NuSVC(nu=0.3), "labels"),
    "1-SVM": (OneClass(nu=0.3), "values"),
    "ε-SVR": (EpsilonSVR(C=1.5, epsilon=0.1), "values"),
    "ν-SVR": (NuSVR(nu=0.4, C=1.5), "values"),
}
PLAIN = "as published, −fᵀγ of (8) as it stands"
CHOICES: dict[str, dict] = {
    "as published": AS_PUBLISHED,
    PLAIN: {},  # not MPD's own: as_written
    "+ settled estimates": AS_PUBLISHED | {"settled": True},
    "+ clamping": AS_PUBLISHED | {"clamping": True},
    "+ full Hessian": AS_PUBLISHED | {"hessian": "full"},
    "+ full Hessian, settled": AS_PUBLISHED | {"hessian": "full", "settled": True},
    "+ full Hessian, settled, clamping": AS_PUBLISHED | {"hessian": "full", "settled": True, "clamping": True},
    "+ bound": AS_PUBLISHED | {"augment": 0.1},
    "+ bound, settled": AS_PUBLISHED | {"augment": 0.1, "settled": True},
    "+ bound, eager": AS_PUBLISHED | {"augment": 0.1, "eager": 0.3},
    "defaults": STEPS_ALONE,
    "defaults, ω = 1": STEPS_ALONE | {"omega": 1.0},
    "defaults, ω = 1.4": STEPS_ALONE | {"omega": 1.4},
    "defaults, ω = 1.8": STEPS_ALONE | {"omega": 1.8},
    "defaults, eager = 0": STEPS_ALONE | {"eager": 0.0},
    "defaults, eager = 1": STEPS_ALONE | {"eager": 1.0},
    "defaults, ρ × 10": STEPS_ALONE | {"augment": 1.0},
    "defaults, ρ / 10": STEPS_ALONE | {"augment": 0.01},
    "defaults, rows not orthogonal": STEPS_ALONE | {"orthogonal": False},
    "defaults + diagonal estimate": STEPS_ALONE | {"hessian": "diagonal"},
    "defaults + full estimate": STEPS_ALONE | {"hessian": "full"},
    "defaults + full estimate, not clamped": STEPS_ALONE | {"hessian": "full", "clamping": False},
    "defaults + full estimate, settled": STEPS_ALONE | {"hessian": "full", "settled": True},
    "defaults + Newton at the end": {},
}
MOST_STEPS = 200_000
POINTS, TOL = 100, 1e-4


def small_problem(row: str, kernel: str, k: int) -> QP:
    """A row of MPD's Table 1 with k more functions."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(POINTS, 4))
    score = X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=POINTS)
    targets = {
        "labels": np.where(score > np.median(score), 1.0, -1.0),
        "values": np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=POINTS),
    }
    phi = [np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 2], np.tanh(X[:, 2] - X[:, 3]), X[:, 1] * X[:, 3]]
    formulation, kind = ROWS[row]
    machine = SemiParametric(formulation, np.array(phi[:k]).reshape(k, POINTS))
    return machine.qp(Samples(KernelGram(Kernel(kernel, 0.5), X), targets[kind], np.ones(POINTS)))


def options() -> Iterator[dict]:
    """Steps of each kind that every choice needs for every row of Table 1 with up to five more functions."""
    for row in ROWS:
        for kernel in ("rbf", "linear"):
            for k in range(6):
                qp = small_problem(row, kernel, k)
                for name, chosen in CHOICES.items():
                    if name == PLAIN:
                        yield {"row": row, "kernel": kernel, "k": k, "choice": name} | as_written(qp)
                        continue
                    solution = MPD(trace=MOST_STEPS, **chosen).solve(qp, Goal(violation=TOL, max_iter=MOST_STEPS))
                    trace = solution.history.trace
                    duals, all_steps = int(trace["dual_steps"][-1]), len(trace["dual_steps"]) - 1
                    yield {
                        "row": row, "kernel": kernel, "k": k, "choice": name, "status": solution.status.name,
                        "primal_steps": all_steps - duals, "dual_steps": duals,
                        "hessian_steps": int(trace["hessian_steps"][-1]),
                        "relative_gap": solution.certificate.relative_gap,
                    }  # fmt: skip


def as_written(qp: QP, corrected: bool = False) -> dict:
    """Algorithm 1 as the paper writes it, one accuracy after the other until the certificate says that it will do.

    MPD's estimate of an entry of the dual Hessian is −fᵀγ − γᵀr, r = Hγ + f, so that the error of γ enters as a square.
    With ``corrected`` this does the same and takes MPD's steps, up to rounding; without, it is the paper's −fᵀγ.
    """
    equality = Equality.of(qp, orthogonal=False)
    goal = Goal(violation=TOL, max_iter=MOST_STEPS)
    narrow = min(1.0, float(np.mean(qp.upper - qp.lower)))
    H, beta, eta = (
        np.asarray(qp.H.block(np.arange(qp.n)), np.float64),
        np.clip(np.zeros(qp.n), qp.lower, qp.upper),
        np.zeros(equality.count),
    )
    counts, accuracy = np.zeros(3, np.int64), mpd.SHARE * TOL
    while True:
        r = equality.residual(beta)
        s = H @ beta + qp.p + equality.Q.T @ eta
        algorithm_1_as_written(
            H, equality.Q, s, beta, qp.lower, qp.upper, qp.eps, eta, r, accuracy, accuracy * narrow, corrected,
            MOST_STEPS, counts,
        )  # fmt: skip
        found = answer(qp, goal, equality.feasible(beta, qp.lower, qp.upper, qp.eps))
        spent = not np.isfinite(beta).all() or counts[0] + counts[1] >= MOST_STEPS or np.abs(eta).max() > HUGE
        if goal.met(found.certificate) or spent:
            break
        beta, accuracy = found.beta.copy(), mpd.FINER * accuracy
        eta = equality.multipliers(qp, beta, H @ beta)
    met = goal.met(found.certificate)
    return {
        "status": (Status.CONVERGED if met else Status.MAX_ITERATIONS).name, "primal_steps": int(counts[0]),
        "dual_steps": int(counts[1]), "hessian_steps": int(counts[2]), "relative_gap": found.certificate.relative_gap,
    }  # fmt: skip


@jit
def algorithm_1_as_written(H, Q, s, beta, lower, upper, eps, eta, r, tol_p, tol_d, corrected, most, counts):
    """Moves s, β, η and r = Qβ − c in place, and counts steps of the three kinds: primal, dual, for the Hessian."""
    n, k = len(beta), len(eta)
    gamma, R = np.zeros((k, n)), Q.copy()
    M = np.zeros((k, k))
    while True:
        for j in range(k):
            i = np.argmax(np.abs(R[j]))
            if abs(R[j, i]) > SETTLED:
                change = -R[j, i] / H[i, i]
                gamma[j, i] += change
                R[j] += change * H[i]
                counts[2] += 1
        i, best, violation = 0, 0.0, 0.0
        for m in range(n):
            up = -s[m] - (eps[m] if beta[m] >= 0.0 else -eps[m]) if beta[m] < upper[m] else 0.0
            down = s[m] + (eps[m] if beta[m] > 0.0 else -eps[m]) if beta[m] > lower[m] else 0.0
            pull = max(up, down, 0.0)
            violation = max(violation, pull)
            if pull * pull / H[m, m] > best:
                i, best = m, pull * pull / H[m, m]
        lack = np.abs(r).max()
        if (violation < tol_p and lack < tol_d) or counts[0] + counts[1] >= most:
            return
        if violation < tol_p:
            for j in range(k):
                M[j, j] = -(Q[j] @ gamma[j]) - (gamma[j] @ R[j] if corrected else 0.0)
            step = newton_step(M, r, np.inf)
            if not np.abs(eta + step).max() < HUGE:
                eta += step
                return
            eta += step
            s += step @ Q
            counts[1] += 1
            continue
        x = H[i, i] * beta[i] - s[i]
        x = (max(x - eps[i], 0.0) + min(x + eps[i], 0.0)) / H[i, i]
        x = min(max(x, lower[i]), upper[i])
        change = x - beta[i]
        beta[i] = x
        s += change * H[i]
        r += change * Q[:, i]
        counts[0] += 1


# ---------------------------------------------------------------------------------------------- relaxation

RELAXED_TOL = 1e-3  # violation; that of one that grows plus one that shrinks, so each may have half of it
MOST_SWEEPS = 1000
OMEGAS = (0.8, 1.0, 1.2, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9)


def relaxation_problems() -> Iterator[tuple[str, QP]]:
    """Data that scikit-learn ships, scaled; the bias penalised, K + 1, as successive over-relaxation wants it."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
    from sklearn.preprocessing import StandardScaler

    def problem(data, targets, formulation) -> QP:
        X = StandardScaler().fit_transform(data)
        gram = Shifted(KernelGram(Kernel("rbf", 1.0 / X.shape[1]), X), 1.0)
        return formulation.qp(Samples(gram, targets, np.ones(len(targets))))

    cancer, diabetes, digits = (load(return_X_y=True) for load in (load_breast_cancer, load_diabetes, load_digits))
    for C in (1.0, 100.0):
        labels = np.where(cancer[1] > 0, 1.0, -1.0)
        yield f"cancer, C = {C:g}", problem(cancer[0], labels, CSVC(C=C, fit_intercept=False))
    values = (diabetes[1] - diabetes[1].mean()) / diabetes[1].std()
    yield "diabetes, C = 1, ε = .1", problem(diabetes[0], values, EpsilonSVR(C=1.0, epsilon=0.1, fit_intercept=False))
    even = np.where(digits[1] % 2 == 0, 1.0, -1.0)
    yield "digits, even or odd, C = 10", problem(digits[0], even, CSVC(C=10.0, fit_intercept=False))


def relaxation() -> Iterator[dict]:
    """Sweeps, that is steps a variable, to a violation of 1e-3, for each ω: our SOR, and plain sweeps in order."""
    for name, qp in relaxation_problems():
        H, diag = qp.H.dense(), qp.H.diag()
        for omega in OMEGAS:
            ours = SOR(omega=omega).solve(qp, Goal(violation=RELAXED_TOL))
            steps = sweeps_in_order(
                H, diag, qp.p, qp.lower, qp.upper, qp.eps, omega, RELAXED_TOL / 2, MOST_SWEEPS * qp.n
            )
            for order, count, reached in (
                ("by largest gain", ours.n_iter, ours.status.converged),
                ("in order", steps, steps < MOST_SWEEPS * qp.n),
            ):
                yield {
                    "problem": name, "n": qp.n, "order": order, "omega": omega, "reached": int(reached),
                    "steps": int(count), "sweeps": count / qp.n,
                }  # fmt: skip


@jit
def sweeps_in_order(H, diag, p, lower, upper, eps, omega, tol, most):
    """SOR as usually written: all variables in turn until none violates by tol; returns the number of moves."""
    n = len(p)
    beta = np.zeros(n)
    s = p.copy()  # Hβ + p
    steps = 0
    while True:
        worst = 0.0
        for i in range(n):
            if beta[i] < upper[i]:
                worst = max(worst, -s[i] - (eps[i] if beta[i] >= 0.0 else -eps[i]))
            if beta[i] > lower[i]:
                worst = max(worst, s[i] + (eps[i] if beta[i] > 0.0 else -eps[i]))
            x = diag[i] * beta[i] - s[i]  # the minimum along β_i, by a soft threshold for ε|β_i|
            x = (max(x - eps[i], 0.0) + min(x + eps[i], 0.0)) / diag[i]
            least = min(max(x, lower[i]), upper[i])
            new = min(max(beta[i] + omega * (least - beta[i]), lower[i]), upper[i])
            if least == 0.0 and eps[i] > 0.0:
                new = 0.0
            change = new - beta[i]
            if change != 0.0:
                beta[i] = new
                steps += 1
                for j in range(n):
                    s[j] += change * H[i, j]
        if worst < tol or steps >= most:
            return steps
