"""What is measured of linear machines: data, a loss, C, and how the bias enters.

    minimise  ½ |w|² + [½ b²] + C Σ loss(y, wᵀx + b)

A *free* bias is ours by default and that of SVC; a *penalised* one, with ½ b² in the objective, is what LIBLINEAR,
ReHLine and Snap ML minimise. Problems stand in both forms, so that everybody is compared at the same objective.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

from problems import INTELEX, OURS, SKLEARN

LIBLINEAR, OFFICIAL, REHLINE, SNAPML = "LIBLINEAR (scikit-learn)", "LIBLINEAR", "ReHLine", "Snap ML"
CLARABEL, PIQP = "Clarabel", "PIQP"
OURS_SVC, OURS_SMO = "maxmargin SVC", "maxmargin SVC smo"  # SVC(kernel="linear")
NAMED = {f"{OURS} {solver}": solver for solver in ("interior-point", "newton", "sor", "smo")}  # ours, solver by name
IPM, NEWTON_SOLVER = f"{OURS} interior-point", f"{OURS} newton"
IPM_WHOLE = f"{IPM}, all rows"  # without screening: as PDCO, every row takes part in every iteration
COORDINATE = (LIBLINEAR, OFFICIAL, REHLINE, SNAPML)  # they penalise the bias
KERNEL = (INTELEX, SKLEARN)  # SVC(kernel="linear"): a free bias
GENERAL = (CLARABEL, PIQP)  # any QP
LINEAR_CONTENDERS = (OURS, *NAMED, IPM_WHOLE, OURS_SVC, OURS_SMO, *COORDINATE, *KERNEL, *GENERAL)

GOALS = (1e-3, 1e-6)  # relative suboptimality


@dataclass(frozen=True)
class LinearProblem:
    data: str  # a name that data.load understands
    loss: str  # hinge, squared_hinge or epsilon_insensitive
    C: float
    bias: str = "free"  # or penalised
    epsilon: float = 0.1  # of the ε-insensitive loss
    machine: str = ""  # SVC: only machines that report support vectors
    contenders: tuple[str, ...] = ()  # who takes part; the first is compared with the others
    targets: dict[str, tuple[float, float]] = field(default_factory=dict)  # the first's share of its time, a goal

    @property
    def name(self) -> str:
        return f"{self.data} {self.loss} C={self.C:g} bias={self.bias}" + f" {self.machine}" * bool(self.machine)

    @property
    def regression(self) -> bool:
        return self.loss == "epsilon_insensitive"


def both(data: str, loss: str, C: float, targets: dict, free: tuple[str, ...] = ()) -> list[LinearProblem]:
    """With a penalised and with a free bias; `free` names those who join only where the bias is free."""
    rivals = {name: share for name, share in targets.items() if name not in free}
    penalised = LinearProblem(data, loss, C, "penalised", contenders=(OURS, *COORDINATE), targets=rivals)
    return [penalised, replace(penalised, bias="free", contenders=(OURS, *COORDINATE, *free), targets=targets)]


AHEAD = dict.fromkeys(COORDINATE, (1.0, 1 / 3))
LEVEL = dict.fromkeys((LIBLINEAR, OFFICIAL), (1.0, 1.0))
FAR = AHEAD | {INTELEX: (1 / 5, 1 / 5)}

ADULT = [*(f"a{k}a" for k in (1, 2, 3, 4, 5)), "adult-11221", *(f"a{k}a" for k in (7, 8, 9))]  # a sample for a6a
SEPARABLE = [f"separable-{n}" for n in (1000, 2000, 5000, 10000, 20000)]
NOISE = [f"noise-{n}" for n in (500, 1000, 2000, 5000, 10000)]
NEWS = product(("news20-one", "news20-one-counts"), ("squared_hinge", "hinge"))

LINEAR = [
    *both("a9a", "hinge", 1, AHEAD, GENERAL),
    *both("a9a", "hinge", 0.05, AHEAD),
    *both("covtype", "hinge", 1, AHEAD),
    *both("ijcnn1", "hinge", 1, AHEAD),
    *both("mnist-low", "hinge", 0.01, AHEAD),
    *(problem for data in SEPARABLE for problem in both(data, "hinge", 100, FAR, (*KERNEL, *GENERAL))),
    *(problem for data in NOISE for problem in both(data, "hinge", 0.1, FAR, (*KERNEL, *GENERAL))),
    *(problem for data, loss in NEWS for problem in both(data, loss, 1, LEVEL)),
    *both("cadata", "epsilon_insensitive", 1, {}),
    LinearProblem(
        *("a9a", "hinge", 1),
        machine="SVC",
        contenders=(OURS_SVC, *KERNEL),
        targets={INTELEX: (1 / 30, 1 / 30)},
    ),
]

# PDCO, Tables 1–3: interior point against SMO, and against their successors; a bias that is free.
PDCO_CONTENDERS = (IPM, IPM_WHOLE, OURS_SMO, SKLEARN, LIBLINEAR)
PDCO = [
    LinearProblem(data, "hinge", C, contenders=PDCO_CONTENDERS)
    for datasets, C in ((ADULT, 0.05), (SEPARABLE, 100), (NOISE, 0.1))
    for data in datasets
]

# Growth with the number of rows.
ROWS = [
    LinearProblem(f"covtype+-{n}", "hinge", 1, contenders=(OURS, LIBLINEAR))
    for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)
]

# PRIMAL §5.1 and its Figure 4.
NEWTON = [
    LinearProblem(data, "squared_hinge", C, contenders=(NEWTON_SOLVER, LIBLINEAR)) for C in (0.05, 1) for data in ADULT
]

LINEAR_SUITES: dict[str, list[LinearProblem]] = {"linear": LINEAR, "pdco": PDCO, "rows": ROWS, "newton": NEWTON}

# By name; where suites share a problem, that of the earlier suite, with its targets.
LINEAR_PROBLEMS = {problem.name: problem for suite in reversed(LINEAR_SUITES.values()) for problem in suite}
