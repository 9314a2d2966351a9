"""Other users of the machine, and homes that are not there: where compiled code is kept and what of it is trusted."""

import hashlib
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from faults import leaf_runs
from faults.leaf_runs import as_root, run, with_users
from maxmargin import _jit

OURS = os.geteuid() if hasattr(os, "geteuid") else -1
VICTIM, STRANGER = 41234, 54321  # users of whom the machine need not know


@pytest.fixture
def open_place():
    with leaf_runs.open_place() as place:
        yield place


@pytest.fixture(scope="module")
def kept_code(tmp_path_factory):
    return leaf_runs.kept_code(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def shared(monkeypatch, tmp_path):
    """The system's folder for temporary files, of a user whose home cannot be used."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "file").write_text("in the place of a home")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("MAXMARGIN_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file"))
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def is_private(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and mode(folder) == 0o700 and folder.stat().st_uid == OURS


@with_users
@pytest.mark.skipif(sys.platform == "darwin", reason="the XDG specification does not hold here")
@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_an_empty_or_relative_xdg_folder_counts_as_not_set(value, shared, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert _jit.cache_dir().parent == tmp_path / "home" / ".cache" / "maxmargin"
    assert not (tmp_path / "maxmargin").exists()
    assert not (tmp_path / "relative").exists()


@with_users
def test_all_that_is_made_is_closed_whatever_the_umask(shared, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = os.umask(0)
    try:
        folder = _jit.cache_dir()
    finally:
        os.umask(before)
    assert tmp_path / "home" in folder.parents
    while folder != tmp_path:
        assert is_private(folder)
        folder = folder.parent


def test_a_home_is_not_asked_for_when_it_is_not_needed(shared, monkeypatch, tmp_path):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "named"))
    assert _jit.cache_dir().parent == tmp_path / "named"


@with_users
@pytest.mark.parametrize("xdg", [True, False])
def test_a_user_without_a_home(xdg, tmp_path):
    """As in containers that run as a number: no HOME, no entry among the users."""
    no_entry = """
def unknown(user):
    raise KeyError(user)
import pwd
pwd.getpwuid = unknown
"""
    script = no_entry + "import maxmargin; from maxmargin import _jit; print(_jit.cache_dir())"
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "MAXMARGIN_CACHE_DIR")}
    env |= {"TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "xdg") if xdg else ""}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert tmp_path in Path(done.stdout.strip()).parents


@with_users
def test_the_folder_of_last_resort_is_named_by_user_number_and_closed(shared):
    folder = _jit.cache_dir()
    assert folder.parent == shared / f"maxmargin-{OURS}"
    assert is_private(folder)
    assert is_private(folder.parent)
    assert _jit.cache_dir() == folder


def planted_file(path: Path) -> None:
    path.write_text("not a folder")


def planted_link(path: Path) -> None:
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    path.symlink_to(elsewhere, target_is_directory=True)


def planted_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere", target_is_directory=True)


def planted_open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def planted_open_to_a_group(path: Path) -> None:
    path.mkdir()
    path.chmod(0o770)


def planted_by_a_stranger(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)
    os.chown(path, STRANGER, STRANGER)


every_plant = pytest.mark.parametrize(
    "plant",
    [
        planted_file,
        planted_link,
        planted_dangling_link,
        planted_open_to_all,
        planted_open_to_a_group,
        pytest.param(planted_by_a_stranger, marks=as_root),
    ],
)


@with_users
@every_plant
@pytest.mark.parametrize("level", ["upper", "lower"])
def test_a_planted_folder_of_last_resort_is_refused(plant, level, shared):
    lower = _jit.cache_dir()
    upper = lower.parent
    shutil.rmtree(upper)
    if level == "lower":
        upper.mkdir(mode=0o700)
    plant(upper if level == "upper" else lower)
    folder = _jit.cache_dir()
    assert folder.parent == shared
    assert folder.name != upper.name
    assert is_private(folder)
    assert not (shared / "nowhere").exists()


@with_users
@every_plant
@pytest.mark.parametrize("level", ["upper", "lower"])
def test_a_planted_folder_in_the_home_is_refused(plant, level, shared, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    lower = _jit.cache_dir()
    upper = lower.parent
    assert tmp_path / "home" in upper.parents
    shutil.rmtree(upper)
    if level == "lower":
        upper.mkdir(mode=0o700)
    plant(upper if level == "upper" else lower)
    assert _jit.cache_dir().parent == shared / f"maxmargin-{OURS}"


@with_users
@every_plant
def test_a_planted_folder_below_the_named_one_is_refused_aloud(plant, shared, monkeypatch, tmp_path):
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "named"))
    folder = _jit.cache_dir()
    folder.rmdir()
    plant(folder)
    with pytest.warns(UserWarning, match="MAXMARGIN_CACHE_DIR=.*not used, because"):
        replaced = _jit.cache_dir()
    assert replaced.parent == shared / f"maxmargin-{OURS}"


@with_users
def test_the_named_folder_may_be_a_link(shared, monkeypatch, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "named"))
    assert _jit.cache_dir().parent == tmp_path / "disk"


@with_users
def test_where_everybody_can_replace_folders_nothing_is_kept(shared):
    """Without the sticky bit, anybody may move our folder away and put another one in its place."""
    shared.chmod(0o777)
    assert _jit.cache_dir() is None
    shared.chmod(0o1777)
    assert _jit.cache_dir().parent == shared / f"maxmargin-{OURS}"


def test_without_any_folder_leaves_are_compiled_all_the_same(tmp_path):
    """A container of which nothing can be written to."""
    (tmp_path / "file").write_text("in the place of a home")
    nowhere = "import tempfile; tempfile._get_default_tempdir = lambda *_: (_ for _ in ()).throw(FileNotFoundError())"
    said = run(
        nowhere, HOME=tmp_path / "file", LOCALAPPDATA=tmp_path / "file", XDG_CACHE_HOME="", MAXMARGIN_CACHE_DIR=""
    )
    assert (said["folder"], said["compiled"]) == (None, 1)


@with_users
@pytest.mark.parametrize("forked", [False, True])
def test_the_private_folder_is_removed_at_exit(forked, tmp_path):
    """By the process that made it, not by its children."""
    tmp_path.chmod(0o1777)
    (tmp_path / "file").write_text("in the place of a home")
    (tmp_path / f"maxmargin-{OURS}").write_text("planted")
    fork = """
_jit.folders.folders()
child = os.fork()
if child == 0:
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert os.path.isdir(_jit.folders.folders()[-1])
"""
    said = run(
        fork if forked else "", HOME=tmp_path / "file", TMPDIR=tmp_path, XDG_CACHE_HOME="", MAXMARGIN_CACHE_DIR=""
    )
    assert said["compiled"] == 1
    assert Path(said["folder"]).parent == tmp_path
    assert not Path(said["folder"]).exists()


class Poison:
    """Whoever unpickles this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def poison(kept_code, open_place):
    """A function that plants poisoned code in place of the leaf's at a folder, as a user; and the mark it leaves."""
    mark = open_place / "tmp" / "mark"

    def plant(folder: Path, user: int, mode: int = 0o755) -> None:
        body = pickle.dumps(Poison(mark))
        leaf = folder / kept_code.name
        leaf.mkdir(parents=True, exist_ok=True)
        for file in kept_code.iterdir():
            (leaf / file.name).write_bytes(hashlib.sha256(body).digest() + body)
        for path in (folder, leaf, *leaf.iterdir()):
            path.chmod(mode)
            os.chown(path, user, user)

    return plant, mark


def in_temporary(place: Path, user: int) -> dict:
    (place / "file").write_text("in the place of a home")
    return {
        "HOME": place / "file", "TMPDIR": place / "tmp", "USER": str(user), "XDG_CACHE_HOME": "",
        "MAXMARGIN_CACHE_DIR": "",
    }  # fmt: skip


@as_root
@pytest.mark.parametrize("victim", [0, VICTIM], ids=["root", "a user"])
@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["closed", "open"])
def test_poison_that_a_stranger_planted_does_nothing(mode, victim, poison, open_place):
    plant, mark = poison
    plant(open_place / "tmp" / f"maxmargin-{victim}", STRANGER, mode)
    said = run(user=victim, **in_temporary(open_place, victim))
    assert said["compiled"] == 1
    assert not mark.exists()


@as_root
def test_poison_of_the_users_own_would_work(poison, open_place):
    """The tests above could not fail otherwise."""
    plant, mark = poison
    plant(open_place / "tmp" / f"maxmargin-{VICTIM}", VICTIM)
    run(user=VICTIM, **in_temporary(open_place, VICTIM))
    assert mark.exists()


@as_root
def test_a_file_of_a_stranger_in_a_folder_of_ours_does_nothing(poison, open_place):
    """What an open folder may hold that was closed too late."""
    plant, mark = poison
    folder = open_place / "tmp" / f"maxmargin-{VICTIM}"
    plant(folder, STRANGER)
    for path in (folder, next(folder.iterdir())):
        os.chown(path, VICTIM, VICTIM)
    said = run(user=VICTIM, **in_temporary(open_place, VICTIM))
    assert Path(said["folder"]).parent == folder
    assert said["compiled"] == 1
    assert not mark.exists()


@as_root
def test_poison_of_a_user_does_nothing_to_root(poison, open_place):
    """sudo that keeps HOME: what the user can write to is not run as root."""
    plant, mark = poison
    home = open_place / "home"
    plant(home / ".cache" / "maxmargin", VICTIM)
    said = run(**in_temporary(open_place, 0) | {"HOME": home})
    assert said["compiled"] == 1
    assert not mark.exists()


@as_root
def test_poison_in_a_named_folder_does_nothing(poison, open_place):
    plant, mark = poison
    plant(open_place / "named", STRANGER)
    said = run(user=VICTIM, **in_temporary(open_place, VICTIM) | {"MAXMARGIN_CACHE_DIR": open_place / "named"})
    assert "not used" in said["stderr"]
    assert said["compiled"] == 1
    assert not mark.exists()


@as_root
def test_a_filled_folder_of_root_serves_a_user_who_cannot_write_to_it(kept_code, open_place):
    """As in the image of a container; what it does not hold is kept elsewhere."""
    named = open_place / "named"
    shutil.copytree(kept_code, named / kept_code.name)
    environment = in_temporary(open_place, VICTIM) | {"MAXMARGIN_CACHE_DIR": named}
    said = run(user=VICTIM, **environment)
    assert (said["loaded"], said["compiled"], said["stderr"]) == (1, 0, "")
    for file in (named / kept_code.name).iterdir():
        file.unlink()
    for loaded in (0, 1):
        said = run(user=VICTIM, **environment)
        assert (said["loaded"], said["compiled"]) == (loaded, 1 - loaded)
    assert Path(said["folder"]).parent == open_place / "tmp" / f"maxmargin-{VICTIM}"


@pytest.mark.skipif(OURS <= 0, reason="root can write everywhere")
def test_a_filled_folder_of_ours_that_cannot_be_written_to_is_used(kept_code, tmp_path):
    folder = tmp_path / kept_code.name
    shutil.copytree(kept_code, folder)
    folder.chmod(0o555)
    try:
        said = run(MAXMARGIN_CACHE_DIR=tmp_path)
    finally:
        folder.chmod(0o755)
    assert (said["loaded"], said["compiled"]) == (1, 0)


@as_root
def test_what_root_keeps_in_a_named_folder_others_can_read(open_place):
    """A container is filled by root and used by somebody else."""
    environment = in_temporary(open_place, VICTIM) | {"MAXMARGIN_CACHE_DIR": open_place / "named"}
    assert run("os.umask(0)", **environment)["compiled"] == 1
    assert run(user=VICTIM, **environment)["loaded"] == 1
