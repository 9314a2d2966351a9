"""Settings for all tests: helpers next to this file can be imported, hypothesis gives the same examples each time."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# No deadline: the first example may compile. The same examples each time: a red test is red for everyone.
settings.register_profile(
    "maxmargin", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("maxmargin")
