"""The state of a long training, kept so that a kill costs seconds: the coefficients of each problem so far.

A checkpoint is a zip file like a model of ours (format "maxmargin checkpoint") and takes its name when all of it is
written. ``about`` says what was trained on what; a checkpoint of something else is not gone on from.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .archive import pack, unpack
from .errors import FileError
from .parts import need

__all__ = ["Checkpoint", "Keeper", "fingerprint", "read_checkpoint"]

FORMAT, VERSION = "maxmargin checkpoint", 1
EVERY_SECONDS = 2.0
NOT_PART = ("solver", "time_limit", "n_jobs", "callback", "warm_start", "verbose", "cache_size", "max_iter", "tol")


def fingerprint(model: Any, X: Any, y: np.ndarray) -> dict[str, Any]:
    """What a training is about: machine, parameters that make its problem, and a digest of the samples."""
    digest = hashlib.sha256()
    for part in (X.data, X.indices, X.indptr) if sp.issparse(X) else (np.ascontiguousarray(X),):
        digest.update(np.ascontiguousarray(part).data)
    digest.update(np.ascontiguousarray(y).tobytes())
    params = {k: repr(v) for k, v in sorted(model.get_params(deep=False).items()) if k not in NOT_PART}
    return {"machine": type(model).__name__, "shape": list(X.shape), "samples": digest.hexdigest(), "params": params}


@dataclass(frozen=True)
class Checkpoint:
    """What was kept: coefficients by the number of their problem, and the seconds that they took."""

    about: dict[str, Any]
    coefficients: dict[int, np.ndarray]
    seconds: float

    def starts(self) -> list[np.ndarray]:
        """A beginning for each problem; an empty one where nothing is known."""
        last = max(self.coefficients, default=-1)
        return [self.coefficients.get(number, np.zeros(0)) for number in range(last + 1)]


class Keeper:
    """Takes coefficients from a training, by any thread, and keeps them in a file, at most every few seconds."""

    def __init__(self, path: str | os.PathLike, about: dict[str, Any], before: Checkpoint | None = None) -> None:
        self.path, self.about = path, about
        self.coefficients = dict(before.coefficients) if before is not None else {}
        self.spent = before.seconds if before is not None else 0.0
        self.started = time.perf_counter()
        self.written = -EVERY_SECONDS
        self.lock = threading.Lock()

    def __call__(self, number: int, beta: np.ndarray) -> None:
        with self.lock:
            self.coefficients[number] = np.array(beta, np.float64)
            if time.perf_counter() - self.started - self.written >= EVERY_SECONDS:
                self._write()

    def close(self) -> None:
        """Keep the last state."""
        with self.lock:
            if self.coefficients:
                self._write()

    def _write(self) -> None:
        numbers = sorted(self.coefficients)
        seconds = self.spent + time.perf_counter() - self.started
        header = {"format": FORMAT, "version": VERSION, "about": self.about, "problems": numbers, "seconds": seconds}
        pack(self.path, header, [self.coefficients[number] for number in numbers])
        self.written = time.perf_counter() - self.started


def read_checkpoint(path: str | os.PathLike, about: dict[str, Any]) -> Checkpoint:
    """A checkpoint of this very training; of another one, an error that says what differs."""

    def read(header: dict, array: Any) -> Checkpoint:
        need(header["version"] == VERSION, f"version {VERSION}", header["version"])
        numbers, seconds = header.get("problems"), header.get("seconds")
        whole = isinstance(numbers, list) and all(type(k) is int and 0 <= k < 1 << 31 for k in numbers)
        need(whole and len(set(numbers)) == len(numbers), "numbers of problems", "others")  # type: ignore[arg-type]
        need(isinstance(seconds, float) and seconds >= 0, "seconds", seconds)
        found = {}
        for place, number in enumerate(numbers):  # type: ignore[arg-type]
            beta = array(place)
            good = beta.ndim == 1 and beta.dtype == np.float64 and bool(np.isfinite(beta).all())
            need(good, "finite coefficients", f"{beta.dtype} {beta.shape}")
            found[number] = beta
        return Checkpoint(header.get("about") or {}, found, seconds)  # type: ignore[arg-type]

    found: Checkpoint = unpack(path, FORMAT, "a checkpoint", read)
    for what in ("machine", "shape", "samples", "params"):
        if found.about.get(what) != about[what]:
            differ = _difference(found.about.get(what), about[what]) if what == "params" else f"another {what}"
            problem = f"a checkpoint of this training was asked for; found one of {differ}"
            raise FileError(path, f"{problem}; give the flags and samples that it was made with, or begin anew")
    return found


def _difference(theirs: Any, ours: dict[str, str]) -> str:
    if not isinstance(theirs, dict):
        return "no parameters"
    other = next((k for k in ours if theirs.get(k) != ours[k]), "other parameters")
    return f"{other}={theirs.get(other)} (now {other}={ours.get(other)})"
