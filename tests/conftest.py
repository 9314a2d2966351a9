"""Settings for all tests: helpers next to this file can be imported, hypothesis gives the same examples each time."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from maxmargin.solvers import decomposition

sys.path.insert(0, str(Path(__file__).parent))

# No deadline: the first example may compile. The same examples each time: a red test is red for everyone.
settings.register_profile(
    "maxmargin", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("maxmargin")

# Sizes from which on decomposition takes a path that is made for large problems.
ROWS_ON_DEMAND = {"MATRIX_UP_TO": 0, "PAIRS_UP_TO": 0, "PREFETCH": 8}
EVERYTHING_LARGE = ROWS_ON_DEMAND | {
    "GROW_FROM": 15, "SHRINK_FROM": 10, "MERGE_FROM": 0, "STEPS_A_CALL": 2000, "STALL_LOOKS": 5000,
}  # fmt: skip


@pytest.fixture
def rows_on_demand(monkeypatch):
    """No problem is small enough to have its matrix computed as a whole."""
    for name, value in ROWS_ON_DEMAND.items():
        monkeypatch.setattr(decomposition, name, value)


@pytest.fixture
def everything_large(monkeypatch):
    """Every problem is large enough for rows on demand, sampling, shrinking and merging, with frequent looks."""
    for name, value in EVERYTHING_LARGE.items():
        monkeypatch.setattr(decomposition, name, value)
