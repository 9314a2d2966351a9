"""Headers of LIBSVM's and LIBLINEAR's model files: a keyword and its values a line, up to the word that ends them."""

from __future__ import annotations

import math
import os
from typing import Any, BinaryIO

from .errors import FileError, shown
from .source import LONGEST_LINE

__all__ = ["Header"]

MOST_LINES = 64  # of a header; the longest has 13
LARGEST_WHOLE = 1 << 62


class Header:
    """The lines of a header by keyword, each read once and told with its line where it is wrong."""

    def __init__(self, path: str | os.PathLike, file: BinaryIO, end: str, known: set[str]) -> None:
        self.path, self.lines = path, 0
        self.values: dict[str, list[str]] = {}
        self.places: dict[str, int] = {}
        while True:
            line = file.readline(LONGEST_LINE)
            self.lines += 1
            if not line or self.lines > MOST_LINES:
                raise FileError(
                    path, f"a line {end!r} was asked for; found none; the model file is cut off", self.lines
                )
            words = line.decode("latin-1").split()
            if words == [end]:
                return
            if not words or words[0] not in known:
                what = shown(words[0]) if words else "an empty line"
                problem = (
                    f"one of the words {', '.join(sorted(known))} was asked for; found {what}; is this a model file?"
                )
                raise FileError(path, problem, self.lines, 1)
            if words[0] in self.values:
                raise FileError(path, f"{words[0]} was asked for once; found it again; the file is damaged", self.lines)
            self.values[words[0]], self.places[words[0]] = words[1:], self.lines

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def fail(self, name: str, asked: str, found: str) -> FileError:
        """The error of a line."""
        line = self.places.get(name, self.lines)
        return FileError(self.path, f"{name}: {asked} was asked for; found {found}; the file is damaged", line)

    def words(self, name: str, count: int) -> list[str]:
        """The values of a keyword, so many of them."""
        if name not in self.values:
            raise self.fail(name, f"a line with {count} values", "none")
        found = self.values[name]
        if len(found) != count:
            raise self.fail(name, f"{count} values", str(len(found)))
        return found

    def word(self, name: str, choices: Any) -> str:
        """One of the choices."""
        found = self.words(name, 1)[0]
        if found not in choices:
            raise self.fail(name, f"one of {', '.join(choices)}", shown(found))
        return found

    def whole(self, name: str, count: int = 1) -> list[int]:
        """Whole numbers."""
        return [self._whole(name, word) for word in self.words(name, count)]

    def _whole(self, name: str, word: str) -> int:
        try:
            value = int(word) if len(word) <= 20 else LARGEST_WHOLE + 1
        except ValueError:
            raise self.fail(name, "a whole number", shown(word)) from None
        if abs(value) > LARGEST_WHOLE:
            raise self.fail(name, "a whole number of 62 bits", shown(word))
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        """Finite numbers."""
        return [self._number(name, word) for word in self.words(name, count)]

    def _number(self, name: str, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise self.fail(name, "a number", shown(word)) from None
        if not math.isfinite(value):
            raise self.fail(name, "a finite number", shown(word))
        return value
