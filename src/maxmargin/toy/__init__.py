"""The toy: a page on this machine where points are clicked and the solvers are watched at work (``maxmargin toy``)."""

from __future__ import annotations

from .server import Toy, serve

__all__ = ["Toy", "serve"]
