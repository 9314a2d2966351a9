"""Estimators from LIBSVM's and LIBLINEAR's flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import typer

__all__ = ["Settings"]

TYPES = ("SVC", "NuSVC", "OneClassSVM", "SVR", "NuSVR")
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
LINEAR_TYPES: dict[int, tuple[str, dict[str, Any]]] = {
    1: ("LinearSVC", {"loss": "squared_hinge"}),
    2: ("LinearSVC", {"loss": "squared_hinge"}),
    3: ("LinearSVC", {"loss": "hinge"}),
    4: ("LinearSVC", {"multi_class": "crammer_singer"}),
    5: ("LinearSVC", {"penalty": "l1"}),
    11: ("LinearSVR", {"loss": "squared_epsilon_insensitive"}),
    12: ("LinearSVR", {"loss": "squared_epsilon_insensitive"}),
    13: ("LinearSVR", {"loss": "epsilon_insensitive"}),
    21: ("LinearOneClassSVM", {}),
}
LOGISTIC = (0, 6, 7)
NO_BIAS = -1.0  # of -B, where it is not given
LINEAR_KERNEL = (0, 2)  # of -t: linear, and what it is where it is not given


@dataclass(frozen=True)
class Settings:
    """What the flags of a training say."""

    svm_type: int | None
    kernel_type: int
    degree: int
    gamma: float | None
    coef0: float
    cost: float
    nu: float
    epsilon: float
    cache: float | None
    tolerance: float | None
    shrinking: bool
    probability: bool
    linear: bool
    bias: float
    free_bias: bool
    solver: str
    time_limit: float | None
    jobs: int | None
    weights: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Errors of use, before anything is imported or read."""
        if self.linear and self.number in LOGISTIC:
            raise typer.BadParameter(
                f"-s {self.number} is logistic regression, which is no support vector machine; use -s 2"
            )
        if self.linear and self.number not in LINEAR_TYPES:
            raise typer.BadParameter(f"-s {self.number} is none of {', '.join(map(str, LINEAR_TYPES))} (with --linear)")
        if not self.linear and not 0 <= self.number < len(TYPES):
            raise typer.BadParameter(
                f"-s {self.number} is not in 0..{len(TYPES) - 1}; for LIBLINEAR's numbers add --linear"
            )
        if not self.linear and (self.bias != NO_BIAS or self.free_bias):
            raise typer.BadParameter("-B and -R are for --linear: machines with kernels have a free bias")
        if self.linear and (self.gamma is not None or self.kernel_type not in LINEAR_KERNEL):
            raise typer.BadParameter("-t and -g are of kernels, and --linear has none; leave them out")
        if self.linear and self.free_bias and self.bias != 1:
            raise typer.BadParameter("-R needs -B 1: a bias that is not penalised")
        if self.probability and self.linear:
            raise typer.BadParameter("-b 1 is for machines with kernels, not for --linear")
        if self.weights and self.machine not in ("SVC", "NuSVC", "LinearSVC"):
            raise typer.BadParameter(f"-wi weighs classes, and {self.machine} has none")
        self.class_weight()

    @property
    def number(self) -> int:
        return self.svm_type if self.svm_type is not None else 1 if self.linear else 0

    @property
    def machine(self) -> str:
        """The name of the estimator."""
        return LINEAR_TYPES[self.number][0] if self.linear else TYPES[self.number]

    @property
    def precomputed(self) -> bool:
        return not self.linear and KERNELS[self.kernel_type] == "precomputed"

    @property
    def one_class(self) -> bool:
        return self.machine in ("OneClassSVM", "LinearOneClassSVM")

    @property
    def classifies(self) -> bool:
        return self.machine in ("SVC", "NuSVC", "LinearSVC")

    def class_weight(self) -> dict[str, float]:
        """Weights by label as it was written."""
        found = {}
        for word in self.weights:
            label, equals, value = word.partition("=")
            try:
                found[label.strip()] = float(value)
            except ValueError:
                raise typer.BadParameter(
                    f"-w needs a label and a number, such as -w1 5 or --weight 1=5; found {word!r}"
                ) from None
            if not equals or not found[label.strip()] >= 0:
                raise typer.BadParameter(f"-w needs a weight >= 0; found {word!r}")
        return found

    def estimator(self, labels: Any = None) -> Any:
        """The estimator; ``labels`` are the classes of the data, for the weights."""
        import maxmargin

        shared: dict[str, Any] = {"solver": self.solver, "time_limit": self.time_limit, "n_jobs": self.jobs}
        if self.tolerance is not None:
            shared["tol"] = self.tolerance
        if self.machine == "LinearOneClassSVM":
            shared["nu"] = self.nu
        elif self.linear:
            # A constant feature of 0 is no bias.
            shared |= LINEAR_TYPES[self.number][1] | {"C": self.cost, "fit_intercept": self.bias > 0}
            if self.bias > 0 and not self.free_bias:
                shared["intercept_scaling"] = self.bias
        else:
            kernel = KERNELS[self.kernel_type]
            gamma: float | str = self.gamma if self.gamma else "auto"  # LIBSVM's 0 is 1 / number of features
            shared |= {"kernel": kernel, "degree": self.degree, "gamma": gamma, "coef0": self.coef0}
            shared |= {"shrinking": self.shrinking, "cache_size": self.cache if self.cache is not None else "auto"}
        if self.machine in ("SVC", "SVR", "NuSVR"):
            shared["C"] = self.cost
        if self.machine in ("NuSVC", "OneClassSVM", "NuSVR"):
            shared["nu"] = self.nu
        if self.machine in ("SVR", "LinearSVR"):
            shared["epsilon"] = self.epsilon
        if self.weights:
            shared["class_weight"] = _by_label(self.class_weight(), labels)
        if self.probability:
            shared["probability"] = True
        return getattr(maxmargin, self.machine)(**shared)


def _by_label(weights: dict[str, float], labels: Any) -> dict[Any, float]:
    """Weights by the labels that the data have; those that they have not are told."""
    import sys

    found: dict[Any, float] = {}
    for name, weight in weights.items():
        match = [label for label in labels if str(label) == name or _same_number(label, name)]
        if not match:
            print(f"WARNING: class label {name} specified in weight is not found", file=sys.stderr)
        found |= dict.fromkeys(match, weight)
    return found


def _same_number(label: Any, name: str) -> bool:
    try:
        return float(label) == float(name)
    except (TypeError, ValueError):
        return False
