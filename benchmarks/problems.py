"""What is measured: a problem is a data set, an estimator and its parameters; a suite is a list of problems."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

__all__ = ["CONTENDERS", "INTELEX", "OURS", "PROBLEMS", "SKLEARN", "SUITES", "Problem"]

OURS, SKLEARN, INTELEX = "maxmargin", "scikit-learn", "scikit-learn-intelex"
CONTENDERS = (OURS, SKLEARN, INTELEX)


@dataclass(frozen=True)
class Problem:
    data: str  # a name that data.load understands
    estimator: str  # SVC, NuSVC, SVR or OneClassSVM
    params: dict  # of the estimator; the same for every contender
    test: str | None = None  # data to predict
    contenders: tuple[str, ...] = CONTENDERS  # who takes part
    targets: dict[str, float] = field(default_factory=dict)  # contender: our time may be at most this share of its
    predict_targets: dict[str, float] = field(default_factory=dict)  # the same for prediction

    @property
    def name(self) -> str:
        values = (f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in self.named)
        return " ".join((self.data, self.estimator, *values))

    @property
    def named(self):
        return [(key, value) for key, value in self.params.items() if key != "tol"]


def problem(data: str, estimator: str, test: str | None = None, **params) -> Problem:
    return Problem(data, estimator, {"tol": 1e-3} | params, test)


def settings(datasets: list[str], *choices: tuple[str, dict]) -> list[Problem]:
    return [problem(data, estimator, **params) for data in datasets for estimator, params in choices]


LARGE = {INTELEX: 1 / 3, SKLEARN: 1 / 10}
FASTER = {INTELEX: 1.0, SKLEARN: 1.0}
OVERHEAD = {SKLEARN: 1.5}
PREDICTION = {INTELEX: 1.0, SKLEARN: 1 / 5}

# A problem with test data times prediction as well.
SPEED = [
    replace(problem("a9a", "SVC", test="a9a.t", C=1, gamma=0.05), targets=LARGE, predict_targets=PREDICTION),
    replace(problem("a9a", "SVC", C=10, gamma=0.01), targets=LARGE),
    replace(problem("a9a", "SVC", C=100, gamma=0.5), targets=LARGE),
    replace(
        problem("mnist12000", "SVC", test="mnist.t", C=10, gamma=0.02),
        targets={INTELEX: 1 / 2},
        predict_targets=PREDICTION,
    ),
    replace(problem("usps", "SVC", C=10, gamma=1 / 128), targets=FASTER),
    replace(problem("usps-low", "SVC", C=1000, gamma=1 / 128), targets=FASTER),
    replace(problem("abalone", "SVR", C=100, epsilon=0.1, gamma=1), targets=FASTER),
    replace(problem("usps", "NuSVC", nu=0.05, gamma=1 / 128), targets=FASTER),
    replace(problem("a9a", "OneClassSVM", nu=0.1, gamma=0.05), targets=FASTER),
    replace(problem("news20", "SVC", C=1, gamma="scale"), contenders=(OURS, SKLEARN), targets={SKLEARN: 1.0}),
    replace(problem("a9a:csr", "SVC", C=1, gamma=0.05), contenders=(OURS, SKLEARN), targets={SKLEARN: 1.0}),
    replace(problem("heart_scale", "SVC", C=1, gamma=1 / 13), targets=OVERHEAD),
    replace(problem("breast_cancer", "SVC", C=1, gamma="scale"), targets=OVERHEAD),
    replace(problem("iris", "OneClassSVM", nu=0.5, gamma="scale"), targets=OVERHEAD),
]

AGREEMENT = [
    *settings(
        ["a1a", "a2a", "a3a", "a4a"],
        ("SVC", dict(C=1, gamma=0.05)),
        ("SVC", dict(C=10, gamma=0.01)),
        ("SVC", dict(C=1, kernel="poly", degree=2, gamma=0.1, coef0=1)),
        ("NuSVC", dict(nu=0.3, gamma=0.05)),
        ("OneClassSVM", dict(nu=0.1, gamma=0.05)),
    ),
    *settings(
        ["heart_scale"],
        ("SVC", dict(C=1, gamma=1 / 13)),
        ("SVC", dict(C=100, gamma=0.1)),
        ("SVC", dict(C=1, kernel="poly", degree=3, gamma=1 / 13, coef0=1)),
        ("NuSVC", dict(nu=0.4, gamma=1 / 13)),
        ("OneClassSVM", dict(nu=0.2, gamma=1 / 13)),
    ),
    *settings(
        ["german.numer"],
        ("SVC", dict(C=1, gamma=1 / 24)),
        ("SVC", dict(C=50, gamma=0.2)),
        ("SVC", dict(C=1, kernel="poly", degree=3, gamma=1 / 24, coef0=1)),
        ("NuSVC", dict(nu=0.5, gamma=1 / 24)),
    ),
    *settings(
        ["splice"],
        ("SVC", dict(C=1, gamma=1 / 60)),
        ("SVC", dict(C=10, gamma=0.005)),
        ("SVC", dict(C=0.1, kernel="poly", degree=2, gamma=1 / 60, coef0=1)),
        ("NuSVC", dict(nu=0.2, gamma=1 / 60)),
    ),
    *settings(
        ["svmguide1"],
        ("SVC", dict(C=1, gamma=0.25)),
        ("SVC", dict(C=10, gamma=0.001)),
        ("SVC", dict(C=1, gamma="scale")),
    ),
    *settings(
        ["svmguide1_scale"],
        ("SVC", dict(C=2, gamma=2)),
        ("SVC", dict(C=1000, gamma=0.5)),
        ("NuSVC", dict(nu=0.1, gamma=2)),
    ),
    *settings(
        ["usps"],
        ("SVC", dict(C=10, gamma=1 / 128)),
        ("SVC", dict(C=1, kernel="poly", degree=3, gamma=1 / 128, coef0=1)),
        ("NuSVC", dict(nu=0.05, gamma=1 / 128)),
        ("OneClassSVM", dict(nu=0.05, gamma=1 / 128)),
    ),
    *settings(
        ["abalone_scale"],
        ("SVR", dict(C=1, epsilon=0.1, gamma=1 / 8)),
        ("SVR", dict(C=10, epsilon=0.5, gamma=1)),
        ("SVR", dict(C=1, epsilon=0.1, kernel="poly", degree=2, gamma=1 / 8, coef0=1)),
    ),
    *settings(
        ["housing_scale"],
        ("SVR", dict(C=10, epsilon=1, gamma=1 / 13)),
        ("SVR", dict(C=100, epsilon=0.1, gamma=0.1)),
        ("SVR", dict(C=1, epsilon=0.5, kernel="poly", degree=2, gamma=1 / 13, coef0=1)),
    ),
]

SCALING = [
    replace(problem(f"a9a/{part}", "SVC", C=1, gamma=0.05), contenders=(OURS, SKLEARN)) for part in (32, 16, 8, 4, 2, 1)
]

MEMORY = [problem("a9a", "SVC", C=1, gamma=0.05, cache_size=500)]

SUITES: dict[str, list[Problem]] = {"speed": SPEED, "agreement": AGREEMENT, "scaling": SCALING, "memory": MEMORY}

# By name; where suites share a problem, that of the earlier suite, with its targets.
PROBLEMS = {problem.name: problem for suite in reversed(SUITES.values()) for problem in suite}
