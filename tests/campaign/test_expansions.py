"""The campaign of machines on few points: a few of them each time, and proof that it would notice."""

import numpy as np
import pytest

from campaign.expansions import faults, made
from maxmargin.estimators.expansion import Expanding


@pytest.mark.parametrize("seed", range(40))
def test_random_machines(seed):
    assert faults(made(seed)) == []


def test_a_wrong_machine_is_noticed(monkeypatch):
    """Coefficients that are a little off after the proof show in the objective."""
    full_gap = Expanding._full_gap

    def spoiled(self, *found):
        gap = full_gap(self, *found)
        self._dual *= 1.01
        return gap

    monkeypatch.setattr(Expanding, "_full_gap", spoiled)
    noticed = [bool(faults(made(seed))) for seed in range(20)]
    assert np.mean(noticed) > 0.6
