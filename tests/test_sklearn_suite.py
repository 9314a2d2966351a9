"""scikit-learn's own tests of its svm module pass with our classes, but for the reasons in docs/differences.md."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

import sklearn_suite

ROOT = Path(__file__).parent


@pytest.mark.skipif(
    not sklearn.__version__.startswith("1.9.") or importlib.util.find_spec("sklearn.svm.tests") is None,
    reason="the list of differences is for the tests of scikit-learn 1.9",
)
def test_scikit_learns_own_tests():
    words = [sys.executable, str(ROOT / "sklearn_suite.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    told = re.search(r"^(\d+) passed, (\d+) failed, 0 of them without a reason", done.stdout, re.MULTILINE)
    page = (ROOT.parent / "docs" / "differences.md").read_text()
    total = int(told[1]) + int(told[2])
    assert f"of {total} tests of scikit-learn 1.9, {told[1]} pass" in page


def test_a_reason_is_given_once():
    names = [name for tests in sklearn_suite.DIFFERENT.values() for name in tests]
    assert len(names) == len(set(names))
