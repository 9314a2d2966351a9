"""What every classifier with probabilities has, whatever its decisions are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .calibration import Calibration

__all__ = ["Calibrated", "probabilities_for"]


def probabilities_for(method: str) -> Callable[[Any], bool]:
    """Whether a machine has this method, which needs probabilities; who asks for it in vain is told what to do."""

    def there(machine: Any) -> bool:
        if machine.probability is True:
            return True
        asked, name = machine.probability, type(machine).__name__
        raise AttributeError(f"{method} was asked for; found probability={asked!r}; fit {name}(probability=True)")

    return there


class Calibrated(ABC):
    """Probabilities from a calibration of the decisions; a machine says which decisions."""

    probability: Any
    _calibration: Calibration | None = None
    _fold: np.ndarray | None = None  # of each sample, between the checks of a fit and its calibration

    @property
    def probA_(self) -> np.ndarray:
        """A of the sigmoid of each problem, as in LIBSVM; empty without probabilities."""
        return self._sigmoid("A")

    @property
    def probB_(self) -> np.ndarray:
        """B of the sigmoid of each problem, as in LIBSVM; empty without probabilities."""
        return self._sigmoid("B")

    def _sigmoid(self, name: str) -> np.ndarray:
        check_is_fitted(self)
        known = self._calibration is not None and self._calibration.method != "isotonic"
        return getattr(self._calibration, name) if known else np.empty(0)

    @available_if(probabilities_for("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, (n, n_classes), in the order of ``classes_``; ``predict``'s is the largest."""
        check_is_fitted(self)
        if self._calibration is None:
            name = type(self).__name__
            raise NotFittedError(
                f"predict_proba was asked for; found a {name} that was fitted without probabilities; fit it again"
            )
        return self._probabilities(X, self._calibration)

    @available_if(probabilities_for("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of ``predict_proba``."""
        return np.log(self.predict_proba(X))

    @abstractmethod
    def _probabilities(self, X: Any, calibration: Calibration) -> np.ndarray:
        """(n, n_classes) of probabilities that agree with ``predict``."""
