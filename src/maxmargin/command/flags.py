"""Flags that LIBSVM has and no parser of today: the label of a class is glued to ``-w`` (``-w1 5``, ``-w-2 0.5``)."""

from __future__ import annotations

import re

__all__ = ["from_libsvm"]

WEIGHT = re.compile(r"-w([+-]?\d+(?:\.\d+)?)")
WEIGHED = ("train", "cv")


def from_libsvm(arguments: list[str]) -> list[str]:
    """The arguments with ``-w1 5`` as ``--weight 1=5``."""
    if not arguments or arguments[0] not in WEIGHED:
        return list(arguments)
    found, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        match = WEIGHT.fullmatch(word)
        if match and rest:
            found += ["--weight", f"{match[1]}={rest.pop(0)}"]
        else:
            found.append(word)
        if word == "--":
            return found + rest
    return found
