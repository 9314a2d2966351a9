"""The campaign of Potential SVMs: a few of its machines each time, and proof that it would notice."""

import numpy as np
import pytest

from campaign.potential import faults, made
from maxmargin.estimators.potential import _Potential


@pytest.mark.parametrize("seed", range(60))
def test_random_machines(seed):
    assert faults(made(seed)) == []


def test_a_wrong_machine_is_noticed(monkeypatch):
    """Coefficients that are a little off show in the violation, in the value and in the predictions."""
    keep = _Potential._keep

    def spoiled(self, *found):
        keep(self, *found)
        self.alpha_ = self.alpha_ * 1.01

    monkeypatch.setattr(_Potential, "_keep", spoiled)
    noticed = [bool(faults(made(seed))) for seed in range(30)]
    assert np.mean(noticed) > 0.6  # where nothing is chosen, nothing is spoiled
