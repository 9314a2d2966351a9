"""Compiled code on disk that is damaged, and disks that take nothing more: leaves are compiled, nothing is raised."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from faults import leaf_runs
from faults.leaf_runs import RIGHT, finish, run, start
from maxmargin import _jit
from maxmargin.rows.leaves import csr_squares


@pytest.fixture(scope="module")
def kept_code(tmp_path_factory):
    return leaf_runs.kept_code(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder for compiled code that this process uses for a while."""
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    return tmp_path


def fresh():
    """The leaf as another process would have it: nothing is in memory, all comes from disk or is compiled."""
    leaf = _jit.jit(csr_squares.py_func)
    out = np.zeros(2)
    leaf(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), out)
    assert out.tolist() == RIGHT
    return leaf


def was_loaded(leaf) -> bool:
    hits, misses = sum(leaf.stats.cache_hits.values()), sum(leaf.stats.cache_misses.values())
    assert hits + misses == 1
    return hits == 1


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def zeros_within(contents: bytes) -> bytes:
    """What a file may be after a loss of power: its length is right, a page of machine code in it is empty."""
    middle = len(contents) // 2
    return contents[:middle] + bytes(512) + contents[middle + 512 :]


DAMAGE = {
    "empty": lambda contents: b"",
    "a byte": lambda contents: contents[:1],
    "half": lambda contents: contents[: len(contents) // 2],
    "all but a byte": lambda contents: contents[:-1],
    "garbage": lambda contents: bytes(np.random.default_rng(0).integers(0, 256, len(contents), np.uint8)),
    "zeros": lambda contents: bytes(len(contents)),
    "zeros within": zeros_within,
    "a bit": lambda contents: contents[:-2000] + bytes([contents[-2000] ^ 1]) + contents[-1999:],
    "something more": lambda contents: contents + b".",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_compiled_and_written_anew(damage, folder):
    assert not was_loaded(fresh())
    file = the_file(folder)
    contents = file.read_bytes()
    assert was_loaded(fresh())
    file.write_bytes(damage(contents))
    assert not was_loaded(fresh())
    assert was_loaded(fresh())
    assert the_file(folder) == file


def test_code_for_another_signature_is_not_taken(folder):
    """The wrong file under the right name, as when two processes give one name to two things."""
    fresh()
    file = the_file(folder)
    leaf = _jit.jit(csr_squares.py_func)
    leaf(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0], np.float32), np.zeros(2))
    (other,) = set(folder.iterdir()) - {file}
    other.replace(file)
    assert not was_loaded(fresh())
    assert was_loaded(fresh())


def test_a_folder_in_place_of_the_file(folder):
    fresh()
    file = the_file(folder)
    file.unlink()
    file.mkdir()
    assert not was_loaded(fresh())
    assert the_file(folder) == file


def test_a_folder_that_was_removed_is_no_error(folder):
    folder.rmdir()
    assert not was_loaded(fresh())
    assert not folder.exists()
    folder.mkdir()


def test_a_draft_of_a_process_that_was_killed_is_no_code(folder):
    fresh()
    file = the_file(folder)
    file.replace(file.with_name(file.name + ".0123.tmp"))
    assert not was_loaded(fresh())
    assert was_loaded(fresh())


@pytest.mark.parametrize("what", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_what_cannot_be_written_is_not_kept(what, folder, monkeypatch):
    def replace(*_):
        raise OSError(what, os.strerror(what))

    monkeypatch.setattr(os, "replace", replace)
    assert not was_loaded(fresh())
    assert not list(folder.iterdir())


def test_recompiling_is_not_loading(folder):
    leaf = fresh()
    leaf.recompile()
    assert sum(leaf.stats.cache_hits.values()) == 0
    assert was_loaded(fresh())


@pytest.mark.skipif(os.name != "posix", reason="this system has no limit on the size of files")
def test_a_full_disk_is_no_error(tmp_path):
    """Files are allowed a hundred bytes: the write itself fails half-way, as on a full disk."""
    said = run("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))", MAXMARGIN_CACHE_DIR=tmp_path)
    assert said["compiled"] == 1
    assert not list(Path(said["folder"]).iterdir())


def test_all_files_damaged_in_another_process(kept_code):
    """From the outside: whatever the files are called."""
    for file in kept_code.iterdir():
        file.write_bytes(b"")
    assert run(MAXMARGIN_CACHE_DIR=kept_code.parent)["compiled"] == 1
    assert run(MAXMARGIN_CACHE_DIR=kept_code.parent)["loaded"] == 1


def test_two_cold_processes_at_once(tmp_path):
    both = [start(MAXMARGIN_CACHE_DIR=tmp_path) for _ in range(2)]
    for process in both:
        finish(process)
    assert run(MAXMARGIN_CACHE_DIR=tmp_path)["loaded"] == 1
