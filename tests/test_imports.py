"""What an import may bring along: a first fit waits for it, whether or not it is needed."""

import subprocess
import sys

import pytest

# Modules of what few need: figures, the command, other data frames, transforms of the toy, clusters of an expansion.
HEAVY = {"matplotlib", "typer", "rich", "finufft", "pandas", "sklearn.cluster", "sklearn.datasets", "http.server"}
HEAVY |= {"numba", "llvmlite"}  # needed by the first fit only: they take longer to import than all of this package


def imported_by(statement: str) -> set[str]:
    """The modules that a statement adds to those that scikit-learn's machines bring."""
    script = f"import sys, sklearn.svm; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("statement", ["import maxmargin", "from maxmargin import SVC, LinearSVC, SVR, solve"])
def test_an_import_brings_nothing_heavy(statement):
    found = imported_by(statement)
    assert "maxmargin" in found
    assert not found & HEAVY


def test_a_leaf_is_pickled_by_name_as_functions_are():
    same = "pickle.loads(pickle.dumps(csr_dot)) is csr_dot"
    found = imported_by(f"import pickle; from maxmargin.rows.leaves import csr_dot; print({same})")
    assert "True" in found
    assert "numba" not in found
