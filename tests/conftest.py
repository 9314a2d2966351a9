"""Settings for all tests: helpers next to this file can be imported, hypothesis gives the same examples each time."""

import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# A shell that starts the tests in the background has them ignore Ctrl-C, which fits then rightly do as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the first example may compile. The same examples each time: a red test is red for everyone.
settings.register_profile(
    "maxmargin", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("maxmargin")
