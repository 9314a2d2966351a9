"""A few hundred damaged files for every reader; ``python -m fuzz`` runs as many as you have time for."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import damaged, targets

NAMES = "svmlight gzip bzip2 xz libsvm liblinear model archive header arrays checkpoint ranges npy".split()
EXAMPLES = 200

known = cache(targets)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "input"


def test_every_reader_is_here():
    assert set(NAMES) <= set(known()) <= {*NAMES, "csv", "tsv"}


@pytest.mark.parametrize("name", [*NAMES, "csv", "tsv"])
def test_seeds_are_read(name, file):
    if name not in known():
        pytest.skip("pandas is missing")
    read = [known()[name].check(file, seed) for seed in known()[name].seeds]
    assert all(read) or (name == "arrays" and any(read))  # an array in the place of another one need not fit


@pytest.mark.parametrize("name", [*NAMES, "csv", "tsv"])
def test_damaged_files(name, file):
    if name not in known():
        pytest.skip("pandas is missing")
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
