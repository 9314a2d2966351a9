"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["imported_when_used"]


def imported_when_used(package: str, home: Mapping[str, str], rooms: Collection[str] = ()) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``home`` has the names that each module defines, ``rooms`` more modules."""
    module_of = {name: module for module, names in home.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name in module_of:
            value = getattr(importlib.import_module(f".{module_of[name]}", package), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in rooms:
            return importlib.import_module(f".{name}", package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
