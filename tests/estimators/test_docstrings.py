"""Every public machine tells all of its parameters and attributes, and its examples run."""

import doctest
import inspect
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import maxmargin

MACHINES = [
    machine
    for name in maxmargin.__all__
    if inspect.isclass(machine := getattr(maxmargin, name)) and issubclass(machine, BaseEstimator)
]
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)


def section(machine: type, name: str) -> list[str]:
    """The names that a section of the docstring tells."""
    text = inspect.getdoc(machine).split(f"{name}\n{'-' * len(name)}\n")[1].split("\n\n")[0]
    return re.findall(r"^(\w+) : ", text, re.MULTILINE)


def test_there_are_machines():
    assert len(MACHINES) >= 8


@every_machine
def test_parameters_are_told(machine):
    assert sorted(section(machine, "Parameters")) == sorted(machine().get_params())


@every_machine
def test_attributes_are_told_and_there(machine):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat([0, 1], 20)
    fitted = machine().fit(X, y)
    told = section(machine, "Attributes")
    assert len(told) == len(set(told))
    # Without functions, names, permutations, an expansion.
    absent = {"parametric_coef_", "feature_names_in_", "coef_", "pvalues_", "full_gap_"}
    missing = {name for name in told if not hasattr(fitted, name)}
    assert missing <= absent
    extra = {name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")} - set(told)
    assert extra <= {"solvers_"}  # named beside solver_


@every_machine
def test_examples_run(machine):
    tests = doctest.DocTestFinder(recurse=False).find(machine, machine.__name__, globs={})
    assert sum(len(test.examples) for test in tests) >= 3
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0
