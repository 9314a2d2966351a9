"""Where compiled code is kept on disk: folders that nobody else can write to, files that are whole or not there.

The folder is named after a hash of the sources that hold leaves. numba by itself looks only at the file that holds a
function, so a changed callee in another file would stay stale, and it writes next to the sources, which an installed
package may not do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np

__all__ = ["cache_dir", "folders", "hashed", "read", "write", "SOURCES"]

PRIVATE = 0o700  # the mode of folders that we choose
READABLE = 0o755  # of a folder that the user names: one account may fill it for others, who only read it
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _source_hash() -> str:
    """A short digest of every source file that holds compiled code.

    Empty where there are no source files (in a zip archive, say): nothing would then tell old code from new.
    """
    versions = f"{np.__version__} {sys.version_info[:2]}"  # those of the compiler are in the names of files
    digest = hashlib.sha256(versions.encode())
    root = Path(__file__).parent.parent
    sources = hashed(root)
    for path in sources:
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16] if sources else ""


def hashed(root: Path) -> list[Path]:
    """The source files below a folder that hold leaves, or numbers of which they say that leaves read them."""
    words = (b"_jit import", b"leaves read")
    return [
        path
        for path in sorted(root.rglob("*.py"))
        if path.parent.name == "_jit" or any(map(path.read_bytes().__contains__, words))
    ]


SOURCES = _source_hash()  # of what is imported now: the files may be others when the first leaf is compiled


def _user() -> int | None:
    """The number of the user that we act as; None on Windows, where folders of users are closed to others anyway."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _only_ours(info: os.stat_result) -> bool:
    """Whether nobody but root and we can write to a file or a folder."""
    return _user() is None or (info.st_uid in (0, _user()) and not info.st_mode & WRITABLE_BY_OTHERS)


def _cache_home() -> Path | None:
    """The user's folder for what can be made again; None for a user without a home."""
    variable, below = {
        "win32": ("LOCALAPPDATA", "."),
        "darwin": ("", "Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    named = os.environ.get(variable, "")
    if os.path.isabs(named):  # the XDG specification: what is empty or relative counts as not set
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / below if home.is_absolute() else None


def _make(folder: Path, mode: int) -> None:
    if not folder.is_dir():
        folder.mkdir(mode, exist_ok=True)  # another process may be quicker


def _own_folder(base: Path, levels: tuple[str, ...], mode: int) -> Path:
    """base/levels, made where it is missing; an OSError where somebody else could have planted or could change it.

    The levels are ours: real folders (no links), of root or of us, closed to others. Above them we only ask that not
    everybody can put another folder in place of one; who else may write there is the choice of its owner.
    """
    folder = Path(os.path.realpath(base))
    for level in reversed((folder, *folder.parents)):
        _make(level, mode)
        found = level.stat().st_mode
        if _user() is not None and found & stat.S_IWOTH and not found & stat.S_ISVTX:
            raise PermissionError(f"everybody can replace what lies in {level} (mode {stat.filemode(found)})")
    for name in levels:
        folder = folder / name
        _make(folder, mode)
        info = folder.lstat()
        if not (stat.S_ISDIR(info.st_mode) and _only_ours(info)):
            found_out = f"owner {info.st_uid}, mode {stat.filemode(info.st_mode)}"
            raise PermissionError(
                f"{folder} is not a folder that only root and user {_user()} can write to ({found_out})"
            )
    return folder


def _candidates(sources: str) -> Iterator[tuple[Path, tuple[str, ...], int]]:
    """Folders to keep compiled code in, best first: base, levels below it that are ours, mode of what is made."""
    named = os.environ.get("MAXMARGIN_CACHE_DIR")
    if named:
        yield Path(named), (sources,), READABLE
    elif (home := _cache_home()) is not None:
        yield home, ("maxmargin", sources), PRIVATE
    with contextlib.suppress(OSError):  # there may be no folder for temporary files
        shared = Path(tempfile.gettempdir())
        if _user() is not None:
            yield shared, (f"maxmargin-{_user()}", sources), PRIVATE
        private = Path(tempfile.mkdtemp(prefix="maxmargin-"))
        Finalize(None, shutil.rmtree, (private, True), exitpriority=0)  # at the exit of the process that made it
        yield private.parent, (private.name,), PRIVATE


def _find_folders(sources: str) -> list[Path]:
    """Where compiled code is looked for: folders that can be trusted, down to the first that can be written to."""
    found: list[Path] = []
    for base, levels, mode in _candidates(sources) if sources else ():
        try:
            folder = _own_folder(base, levels, mode)
        except OSError as problem:
            if mode == READABLE:
                warnings.warn(
                    f"MAXMARGIN_CACHE_DIR={base} was asked for; it is not used, because {problem}; name a folder of "
                    "your own that others cannot write to",
                    stacklevel=2,
                )
            continue
        found.append(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            break
    return found


@cache
def _folders_of(user: int | None) -> list[Path]:
    return _find_folders(SOURCES)


def folders() -> list[Path]:
    """The folders of this process, chosen when the first leaf is needed: an import alone writes nothing."""
    return _folders_of(_user())  # a server may become another user after its start


def cache_dir() -> Path | None:
    """The folder in which new compiled code of exactly these sources is kept; None where there is none for it."""
    return next(reversed(_find_folders(_source_hash())), None)


def read(path: Path) -> bytes:
    """The contents of a file of ours; an exception where it is missing, damaged or could be somebody else's."""
    with open(path, "rb") as file:
        info = os.fstat(file.fileno())  # of the file that is open: its name may mean another one by now
        if not (stat.S_ISREG(info.st_mode) and _only_ours(info)):
            raise PermissionError(f"{path} is not a file that only root and user {_user()} can write to")
        contents = file.read()
    size = hashlib.sha256().digest_size
    if hashlib.sha256(contents[size:]).digest() != contents[:size]:
        raise ValueError(f"{path} is damaged")
    return contents[size:]


def write(path: Path, contents: bytes) -> None:
    """Under another name first, so that nobody ever reads half a file."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, READABLE & ~0o111)) as file:
            file.write(hashlib.sha256(contents).digest())
            file.write(contents)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
