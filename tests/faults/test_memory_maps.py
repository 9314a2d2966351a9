"""A memory map is the file that was opened, whatever has become of its name since."""

import os
import sys

import numpy as np
import pytest

from maxmargin import SVC, LinearSVC, LinearSVR
from maxmargin.rows import Rows, blocks

N, D = 400, 6


def samples(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, np.where(X @ rng.normal(size=D) > 0, 1, -1)


def replaced(path):
    """Another file of the same shape takes the name, as a job does that writes its output anew."""
    other = path.with_suffix(".new.npy")
    np.save(other, samples(1)[0])
    os.replace(other, path)


def unlinked(path):
    os.unlink(path)


gone = pytest.mark.parametrize("happens", [replaced, unlinked], ids=lambda f: f.__name__)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "X.npy"


@gone
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("Machine", [LinearSVC, LinearSVR, SVC])
def test_a_fit_sees_the_file_that_was_mapped(path, happens, order, Machine):
    X, y = samples()
    np.save(path, np.asarray(X, order=order))
    mapped = np.load(path, mmap_mode="r")
    happens(path)
    there, model = Machine().fit(X, y), Machine().fit(mapped, y)
    np.testing.assert_allclose(model.predict(mapped), there.predict(X), rtol=1e-3)
    assert model.certificate_.primal == pytest.approx(there.certificate_.primal, rel=1e-3)


@gone
def test_between_two_reads(path, happens):
    """A path is opened once; what happens to its name while a fit reads the rows again and again is another file's."""
    X, _ = samples()
    np.save(path, X)
    rows = Rows.of(path)
    np.testing.assert_allclose(rows.dot(np.ones(D)), X.sum(axis=1))
    happens(path)
    np.testing.assert_allclose(rows.dot(np.ones(D)), X.sum(axis=1))
    np.testing.assert_array_equal(rows.matrix(np.array([3, 300])), X[[3, 300]])


@gone
def test_in_the_middle_of_a_fit(path, happens):
    X, y = samples()
    np.save(path, X)
    looked = []

    def callback(state):
        if not looked:
            happens(path)
        looked.append(state)

    model = LinearSVC(callback=callback, tol=1e-8).fit(path, y)
    assert looked
    np.testing.assert_allclose(model.coef_, LinearSVC(tol=1e-8).fit(X, y).coef_, rtol=1e-4, atol=1e-8)


def test_a_shortened_file_that_has_lost_its_name(path):
    """Touching what a file has lost would end the process; its length is asked for first, and not by name."""
    X, _ = samples()
    np.save(path, X)
    rows = Rows.of(np.load(path, mmap_mode="r"))
    os.truncate(path, 1000)
    replaced(path)
    with pytest.raises(OSError, match="were asked for; found the end of its file .* after 1000; is the file complete"):
        rows.dot(np.ones(D))


@pytest.mark.parametrize("mode", ["r+", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_changes_that_are_not_written_yet_count_and_are_kept(path, mode, order):
    X, _ = samples()
    np.save(path, np.asarray(X, order=order))
    mapped = np.load(path, mmap_mode=mode)
    mapped[7] = 100.0
    X[7] = 100.0
    rows = Rows.of(mapped)
    for _ in range(2):
        np.testing.assert_allclose(rows.dot(np.ones(D)), X.sum(axis=1))
    np.testing.assert_array_equal(mapped, X)


LAYOUTS = {
    "rows": lambda stored: stored,
    "some rows": lambda stored: stored[1000:-500],
    "every third row": lambda stored: stored[::3],
    "backwards": lambda stored: stored[::-1],
    "some columns": lambda stored: stored[:, 2:5],
    "columns one after the other": lambda stored: stored.reshape(16, -1).T,
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc/self/smaps")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_are_given_back(path, monkeypatch, layout):
    """A file larger than memory is read in little of it: what has been read counts as ours no longer."""
    monkeypatch.setattr(blocks, "STORED_TILE_BYTES", 1 << 18)
    X = np.arange(16 * 50_000, dtype=np.float64).reshape(50_000, 16)  # 6.4 MB
    np.save(path, X)
    mapped = LAYOUTS[layout](np.load(path, mmap_mode="r"))
    expected = LAYOUTS[layout](X)
    rows = Rows.of(mapped, n_jobs=1)
    assert rows.stored
    for _ in range(2):
        np.testing.assert_allclose(rows.dot(np.ones(rows.d)), expected.sum(axis=1))
        assert resident_bytes(path) < 1 << 20


def resident_bytes(path):
    """How much of a mapped file counts as this process's own."""
    inside, total = False, 0
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if "-" in line.split()[0]:
                inside = line.rstrip().endswith(str(path))
            elif inside and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total
