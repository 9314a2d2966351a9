"""The bytes of a file, plain or compressed, a piece at a time: nothing is expanded that is not looked at.

What a file is compressed with is told by its first bytes, whatever its name says. A few kilobytes can expand to
gigabytes, so that only as much is expanded as the reader takes, and it takes no more than ``most``.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from .. import host
from .errors import FileError

__all__ = ["atomic", "lines_in_pieces", "most_bytes", "opened", "size_of", "whole"]

PIECE = 1 << 22  # bytes of text that are held at a time
LONGEST_LINE = 1 << 28  # bytes: ten million features a line
XZ_MEMORY = 1 << 28  # bytes that an xz stream may ask for; its highest level needs a quarter of that
SHARE = 0.5  # of the free memory that what is read from one file may take


def most_bytes() -> int:
    """Bytes that what is read from one file may take."""
    return int(SHARE * host.free_memory())


class _Xz(io.RawIOBase):
    """An xz file with a bound on the memory that it may ask for, which lzma.LZMAFile does not have."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.stream = lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self.stream.eof:  # another stream may follow, and so may zeros
                rest = self.stream.unused_data.lstrip(b"\0") or self.raw.read(PIECE).lstrip(b"\0")
                if not rest:
                    return 0
                self.stream = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
            elif self.stream.needs_input:
                rest = self.raw.read(1 << 16)
                if not rest:
                    raise EOFError("the stream ends before its end marker")
            else:
                rest = b""
            found = self.stream.decompress(rest, len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)


def _expanding(raw: BinaryIO, first: bytes) -> BinaryIO:
    if first.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if first.startswith(b"BZh"):
        return bz2.BZ2File(raw)  # type: ignore[return-value]
    if first.startswith(b"\xfd7zXZ\x00"):
        return io.BufferedReader(_Xz(raw))  # type: ignore[return-value]
    return raw


@contextmanager
def opened(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A file to read from, expanded where it is compressed; "-" is the standard input. Faults become a FileError."""
    name = os.fspath(path)
    try:
        with sys.stdin.buffer if name == "-" else open(path, "rb") as file:
            if name != "-" and not stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode) and not stat.S_ISFIFO(mode):
                raise FileError(path, "a file was asked for; found a device or a socket; name a file, or - for a pipe")
            raw: Any = file if hasattr(file, "peek") else io.BufferedReader(file)  # type: ignore[type-var]
            yield _expanding(raw, raw.peek(6)[:6])
    except FileNotFoundError as problem:
        raise FileError(path, "there is no such file; check the name and the folder") from problem
    except IsADirectoryError as problem:
        raise FileError(path, "a file was asked for; found a folder; name a file in it") from problem
    except PermissionError as problem:
        raise FileError(path, "you may not read this file; ask its owner, or copy it") from problem
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as problem:
        raise FileError(path, f"the compressed file is damaged ({problem}); fetch or compress it again") from problem
    except OSError as problem:
        raise FileError(path, f"it cannot be read: {problem.strerror or problem}; check the file") from problem
    except ValueError as problem:
        if "null" in str(problem):  # in the name
            raise FileError(path, "no file has a NUL in its name; check the name") from problem
        raise


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file; 0 where nobody can know: of what is expanded, of a pipe."""
    try:
        info = os.fstat(file.fileno()) if type(file) is io.BufferedReader and not isinstance(file.raw, _Xz) else None
    except OSError:
        return 0
    return info.st_size if info is not None and stat.S_ISREG(info.st_mode) else 0


def whole(path: str | os.PathLike, file: BinaryIO, most: int) -> bytes:
    """All bytes of a file that is at most so large."""
    found = file.read(most + 1)
    if len(found) > most:
        raise FileError(path, f"at most {most} bytes can be read here; found more; split the file")
    return found


def lines_in_pieces(path: str | os.PathLike, file: BinaryIO, piece: int = PIECE) -> Iterator[np.ndarray]:
    """The bytes of a file in pieces of whole lines; each ends with a newline, the last one in any case."""
    rest = b""
    while True:
        more = file.read(piece)
        if not more:
            break
        if b"\0" in more:
            at = (rest + more).index(b"\0")
            yield_up_to = (rest + more)[:at]
            lines = yield_up_to.count(b"\n")
            raise Binary(lines, at - (yield_up_to.rfind(b"\n") + 1))
        end = more.rfind(b"\n") + 1
        if end == 0:
            rest += more
            if len(rest) > LONGEST_LINE:
                raise Long(len(rest))
            continue
        yield np.frombuffer(rest + more[:end], np.uint8)
        rest = more[end:]
    if rest:
        yield np.frombuffer(rest + b"\n", np.uint8)


class Binary(Exception):  # noqa: N818 (the reader knows the number of the line and makes an error of it)
    def __init__(self, lines: int, column: int) -> None:
        self.lines, self.column = lines, column


class Long(Exception):  # noqa: N818
    def __init__(self, length: int) -> None:
        self.length = length


@contextmanager
def atomic(path: str | os.PathLike, mode: str = "wb") -> Iterator[Any]:
    """A file to write to that takes its name when all is written: nobody ever reads half of it, not after a crash."""
    target = os.path.realpath(os.fspath(path))  # what a link points to is replaced, not the link
    draft = f"{target}.{os.getpid()}.part"
    if os.path.isdir(target):
        raise FileError(path, "a file to write to was asked for; found a folder; name a file in it")
    if os.path.exists(target) and not os.path.isfile(target):  # a pipe or a device has no half
        with open(target, mode) as file:
            yield file
        return
    try:
        with open(draft, mode) if "b" in mode else open(draft, mode, encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException as problem:
        if os.path.exists(draft):
            os.unlink(draft)
        if isinstance(problem, OSError) and not isinstance(problem, FileError):
            raise FileError(
                path, f"it cannot be written: {problem.strerror or problem}; name another file"
            ) from problem
        raise
