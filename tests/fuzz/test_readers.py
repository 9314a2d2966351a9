"""A few hundred damaged files for every reader; ``python -m fuzz`` runs as many as you have time for."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import damaged, targets

NAMES = "svmlight gzip bzip2 xz libsvm liblinear model archive header arrays checkpoint ranges npy".split()
TABLES = "csv tsv parquet".split()  # that need pandas, and pyarrow
EXAMPLES = 200

known = cache(targets)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "input"


def test_every_reader_is_here():
    assert set(NAMES) <= set(known()) <= {*NAMES, *TABLES}


@pytest.mark.parametrize("name", [*NAMES, *TABLES])
def test_seeds_are_read(name, file):
    if name not in known():
        pytest.skip("pandas or pyarrow is missing")
    read = [known()[name].check(file, seed) for seed in known()[name].seeds]
    assert all(read) or (name == "arrays" and any(read))  # an array in the place of another one need not fit


@pytest.mark.parametrize("name", [*NAMES, *TABLES])
def test_damaged_files(name, file):
    if name not in known():
        pytest.skip("pandas or pyarrow is missing")
    target = known()[name]

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, 2**32))
    def check(seed):
        target.check(file, damaged(target.seeds, random.Random(seed)))

    check()


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(name, file):
    target = known()[name]

    @settings(max_examples=EXAMPLES // 4)
    @given(st.binary(max_size=200))
    def check(content):
        target.check(file, content)

    check()


def test_guided_by_the_lines_that_are_reached(tmp_path):
    """A second of ``python -m fuzz.guided``: the harness runs, and says so where atheris is missing."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "fuzz.guided", "--only", "ranges", "--seconds", "1"]
    places = os.pathsep.join([str(tests), *(str(place) for place in sys.path if place)])
    found = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    if importlib.util.find_spec("atheris") is None:
        assert found.stdout == "skipped: atheris is not installed; pip install atheris\n"
        pytest.skip("atheris is missing")
    assert "1 readers, no failure" in found.stdout
    assert "DONE" in found.stderr
