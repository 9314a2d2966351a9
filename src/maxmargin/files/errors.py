"""What is wrong with a file, where, and what to do: one line."""

from __future__ import annotations

import os

__all__ = ["FileError", "shown"]

SHOWN = 24  # characters of a file that an error repeats


class FileError(ValueError):
    """A file that cannot be used as what it was taken for; the message is one line: file, line, column, what, why."""

    def __init__(self, path: str | os.PathLike, problem: str, line: int = 0, column: int = 0) -> None:
        self.path, self.problem, self.line, self.column = os.fspath(path), problem, line, column
        where = f":{line}" * (line > 0) + f":{column}" * (line > 0 and column > 0)
        name = self.path if self.path.isprintable() else ascii(self.path)
        super().__init__(f"{name}{where}: {problem}")

    def __reduce__(self) -> tuple:
        return FileError, (self.path, self.problem, self.line, self.column)


def shown(token: bytes | str) -> str:
    """A piece of a file as an error can show it: printable and short."""
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else token
    return ascii(text) if len(text) <= SHOWN else ascii(text[:SHOWN]) + "…"
