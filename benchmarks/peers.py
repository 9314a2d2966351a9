"""The contenders. All of them speak scikit-learn's interface, so that one short adapter serves them all."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from problems import INTELEX, OURS, SKLEARN, Problem

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True)
class Peer:
    package: str  # as installed
    module: str  # where its estimators are

    @property
    def version(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:  # run from its sources
            return getattr(import_module(self.module), "__version__", "unknown")

    def offers(self, problem: Problem) -> bool:
        return hasattr(import_module(self.module), problem.estimator)

    def fit(self, problem: Problem, X, y):
        return getattr(import_module(self.module), problem.estimator)(**problem.params).fit(X, y)

    def predict(self, model, X):
        return model.predict(X)

    def fell_back(self, model) -> bool:
        """Whether scikit-learn did the work under the contender's name."""
        return self.module == "sklearnex.svm" and "_onedal_estimator" not in vars(model)


PEERS = {
    OURS: Peer("maxmargin", "maxmargin"),
    SKLEARN: Peer("scikit-learn", "sklearn.svm"),
    INTELEX: Peer("scikit-learn-intelex", "sklearnex.svm"),
}
