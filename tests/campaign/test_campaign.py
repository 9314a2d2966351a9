"""A few hundred problems of the campaign, the same ones each time."""

import pytest

from campaign.checks import check_seed

PROBLEMS = 300
EACH = 10  # problems a test


@pytest.mark.parametrize("first", range(0, PROBLEMS, EACH))
def test_problems(first):
    """No problem has anything to complain about; what fails is told with its seed."""
    found = [check_seed(seed) for seed in range(first, first + EACH)]
    failures = [f"seed {r.seed} ({r.machine} {r.solver}): {f.kind}: {f.message}" for r in found for f in r.failures]
    assert not failures, "\n".join(failures) + "\nAlone: cd tests && python -m campaign --seed N"
