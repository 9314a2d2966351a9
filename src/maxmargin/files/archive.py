"""Models in a format of our own that executes nothing: a zip file of one JSON header and arrays.

    header.json   {"format": "maxmargin model", "version": 1, "machine": "SVC", "params": {…}, "fitted": {…}}
    0.npy …       the arrays that the header names, uncompressed

The header holds plain values; classes come from a short list, and what compiled code will index with is checked when a
file is read. Nothing is compressed, so that no file is larger in memory than on disk. What a file of version v says is
brought to the present version by ``UPGRADES[v]``; files of every version so far are kept with the tests.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..estimators import PSVC, PSVR, SVR, NuSVR
from ..estimators.calibration import MARKS
from ..estimators.parameters import ATTRIBUTES
from ..gram import KERNELS, Kernel
from ..solution import Certificate, History, Status
from ..solvers import SOLVERS
from .errors import FileError, shown
from .models import CLASSIFIERS, KERNEL_MACHINES, LINEAR_MACHINES, as_fitted, kernel_machine, linear_machine
from .npy import read_header
from .parts import KernelParts, LinearParts, MisfitError, finite, need
from .probabilities import calibration_from
from .source import atomic, most_bytes

__all__ = ["VERSION", "load", "save"]

FORMAT, VERSION = "maxmargin model", 1
UPGRADES: dict[int, Callable[[dict], dict]] = {}  # from a version to the next one: the header's contents
POTENTIAL = {c.__name__: c for c in (PSVC, PSVR)}
MACHINES = {**KERNEL_MACHINES, **LINEAR_MACHINES, **POTENTIAL}
# Attributes that ATTRIBUTES does not tell of.
MORE = ("alpha_", "solvers_", "full_gap_")
NOT_KEPT = ("callback",)  # parameters that are no part of a model
LARGEST_HEADER = 1 << 26  # bytes
DEEPEST = 12  # levels of a header


class UnstorableError(TypeError):
    """A value that no file of ours can hold."""


# -- values -----------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def plain(self, value: Any, where: str) -> Any:
        """A value as JSON has it; what JSON has not is a dictionary with one key that begins with $."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, np.bool_):
            return int(value)
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, (float, np.floating)):
            return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
        if isinstance(value, Status):
            return {"$status": value.name}
        if isinstance(value, Certificate):
            return {"$certificate": self.plain(asdict(value), where)}
        if isinstance(value, History):
            return {"$history": self.plain([list(row) for row in value.rows], where)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if sp.issparse(value):
            value = sp.csr_matrix(value)
            parts = {name: self.plain(getattr(value, name), where) for name in ("data", "indices", "indptr")}
            return {"$csr": parts | {"shape": list(map(int, value.shape))}}
        if isinstance(value, tuple):
            return {"$tuple": [self.plain(v, where) for v in value]}
        if isinstance(value, list):
            return [self.plain(v, where) for v in value]
        if isinstance(value, dict):
            return {"$dict": [[self.plain(k, where), self.plain(v, where)] for k, v in value.items()]}
        if is_dataclass(value) and SOLVERS.get(_solver_name(value)) is type(value):
            usual: Any = SOLVERS[_solver_name(value)]()
            chosen = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
            options = {k: self.plain(v, where) for k, v in chosen.items() if v != getattr(usual, k)}
            return {"$solver": [_solver_name(value), options]}
        raise UnstorableError(
            f"values, arrays and names were asked for in {where}; found {type(value).__name__}, which is code or an "
            "object; use a kernel by name and no functions, or pickle the model"
        )

    def _array(self, value: np.ndarray, where: str) -> Any:
        if value.dtype == object and all(isinstance(v, str) for v in value.flat):
            texts = value.astype(str)
            if (texts == value).all():  # NumPy's own texts have no NUL at their end
                return {"$texts": self._array(texts, where)}
        if value.dtype.kind not in "biufU":
            raise UnstorableError(
                f"numbers or texts were asked for in {where}; found an array of type {value.dtype} "
                f"({', '.join(map(repr, value.ravel()[:3].tolist()))}); use numbers or texts there, or pickle the model"
            )
        self.arrays.append(np.ascontiguousarray(value))
        return {"$array": len(self.arrays) - 1}


def _solver_name(value: Any) -> str:
    return next((name for name, solver in SOLVERS.items() if solver is type(value)), "")


class _Reader:
    def __init__(self, array: Callable[[int], np.ndarray]) -> None:
        self.array = array

    def value(self, plain: Any, depth: int = 0) -> Any:
        """What ``_Writer.plain`` has written."""
        need(depth < DEEPEST, f"at most {DEEPEST} levels", "more")
        if isinstance(plain, list):
            return [self.value(v, depth + 1) for v in plain]
        if not isinstance(plain, dict):
            return plain
        need(len(plain) == 1, "one kind of a value", shown(str(sorted(plain))))
        kind, content = next(iter(plain.items()))
        read = getattr(self, f"_{kind[1:]}", None) if kind.startswith("$") and kind[1:].isalpha() else None
        need(read is not None, "a known kind of a value", shown(kind))
        return read(content, depth + 1)  # type: ignore[misc]

    def _float(self, content: Any, depth: Any) -> float:
        need(content in ("nan", "inf", "-inf"), "nan, inf or -inf", shown(str(content)))
        return float(content)

    def _status(self, content: Any, depth: Any) -> Status:
        need(isinstance(content, str) and content in Status.__members__, "a known status", shown(str(content)))
        return Status[content]

    def _certificate(self, content: Any, depth: Any) -> Certificate:
        found = self.value(content, depth)
        names = [f.name for f in fields(Certificate)]
        good = isinstance(found, dict) and all(isinstance(v, float) for v in found.values())
        need(good and set(found) <= set(names), f"a certificate of {names}", shown(str(content)))
        return Certificate(**{name: found.get(name, 0.0) for name in names})

    def _history(self, content: Any, depth: Any) -> History:
        rows = self.value(content, depth)
        good = all(isinstance(row, list) and all(isinstance(v, (int, float)) for v in row) for row in rows)
        need(good and all(len(row) == len(History.columns) for row in rows), "rows of a history", "others")
        return History([tuple(row) for row in rows])

    def _array(self, content: Any, depth: Any) -> np.ndarray:
        need(isinstance(content, int) and not isinstance(content, bool), "the number of an array", shown(str(content)))
        return self.array(content)

    def _texts(self, content: Any, depth: Any) -> np.ndarray:
        found = self.value(content, depth)
        need(isinstance(found, np.ndarray) and found.dtype.kind == "U", "texts", shown(str(content)))
        return found.astype(object)

    def _csr(self, content: Any, depth: Any) -> Any:
        need(isinstance(content, dict) and set(content) == {"data", "indices", "indptr", "shape"}, "a matrix", "others")
        parts = [self.value(content[name], depth) for name in ("data", "indices", "indptr")]
        shape = content["shape"]
        whole = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
        arrays = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in parts)
        need(whole and arrays and all(a.dtype.kind == "i" for a in parts[1:]), "a sparse matrix", "parts of none")
        data, indices, indptr = parts
        ascending = len(indptr) == shape[0] + 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
        need(ascending and indptr[-1] == len(data) == len(indices), "a sparse matrix", "parts that do not fit")
        inside = len(indices) == 0 or (indices.min() >= 0 and indices.max() < shape[1])
        need(inside, f"columns below {shape[1]}", "others")
        return sp.csr_matrix((data, indices, indptr), shape=tuple(shape))

    def _tuple(self, content: Any, depth: Any) -> tuple:
        need(isinstance(content, list), "a list", shown(str(content)))
        return tuple(self.value(content, depth))

    def _dict(self, content: Any, depth: Any) -> dict:
        pairs = self.value(content, depth)
        good = isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs)
        need(
            good and all(isinstance(p[0], (str, int, float, bool)) for p in pairs), "pairs of keys and values", "others"
        )
        return dict(pairs)

    def _solver(self, content: Any, depth: Any) -> Any:
        good = isinstance(content, list) and len(content) == 2 and content[0] in SOLVERS
        need(good and isinstance(content[1], dict), "a solver of ours", shown(str(content)))
        return SOLVERS[content[0]](**{str(name): self.value(v, depth) for name, v in content[1].items()})


# -- files ------------------------------------------------------------------------------------------------------------


def save(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted model to a file that ``load`` reads, with its certificate; no code is stored.

    Parametric functions and kernels that are Python functions are code: a model with these is an error.
    """
    name = type(model).__name__
    if MACHINES.get(name) is not type(model):
        raise UnstorableError(f"one of {', '.join(MACHINES)} was asked for; found {name}; pickle it")
    check_is_fitted(model)
    writer = _Writer()
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in NOT_KEPT} | model._of_fit
    kept = {k for k in vars(model) if k.endswith("_") and not k.startswith("_")} & {*ATTRIBUTES, *MORE}
    fitted = {k: getattr(model, k) for k in sorted(kept)}
    if name in KERNEL_MACHINES:
        fitted |= {"gamma": model._gamma, "weights": model._W, "dual_coef_": model._dual, "reduced": model._reduced}
        fitted |= {"width": model._width} if isinstance(model, (SVR, NuSVR)) else {}
    if isinstance(model, CLASSIFIERS):
        found = model._calibration
        fitted["calibration"] = None if found is None else {k: getattr(found, k) for k in ("method", "A", "B", "steps")}
    if name in POTENTIAL:
        gamma = model._kernel_.gamma if model._kernel_ is not None else 0.0
        fitted |= {"gamma": gamma, "weights": model._coef}
    if getattr(model, "_first_index", 1) == 0:  # files of samples that it predicts count features from 0
        fitted["first_index"] = 0
    header = {
        "format": FORMAT,
        "version": VERSION,
        "machine": name,
        "params": {k: writer.plain(v, k) for k, v in params.items()},
        "fitted": {k: writer.plain(v, k) for k, v in fitted.items()},
    }
    pack(path, header, writer.arrays)


def pack(path: str | os.PathLike, header: dict, arrays: list[np.ndarray]) -> None:
    """Write a header and arrays, uncompressed, under the name only when all is written."""
    text = json.dumps(header, allow_nan=False, indent=1).encode()
    with atomic(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json"), text)
        for number, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{number}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | os.PathLike) -> Any:
    """A model that ``save`` has written, now or in an earlier version; nothing in the file is executed."""
    return unpack(path, FORMAT, "a model of ours", lambda header, array: _model(_upgraded(header), array))


def unpack(path: str | os.PathLike, format: str, what: str, read: Callable[[dict, Callable], Any]) -> Any:
    """What ``read`` makes of the header and the arrays of a file of this format; whatever is wrong is a FileError."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most_bytes():
                raise FileError(path, f"{what} that fits into memory was asked for; found {size} bytes")
            content = file.read()
    except OSError as problem:
        raise FileError(path, f"it cannot be read: {problem.strerror}; check the name") from None
    except ValueError as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(path, "no file has a NUL in its name; check the name") from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            header = json.loads(_member(archive, "header.json", LARGEST_HEADER, len(content)))
            known = isinstance(header, dict) and header.get("format") == format
            need(known and type(header.get("version")) is int, what, "another file")
            return read(header, lambda number: _array(archive, f"{number}.npy", len(content)))
    except FileError:
        raise
    except MisfitError as problem:
        raise FileError(path, str(problem)) from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, KeyError, NotImplementedError, OSError) as problem:
        found = shown(" ".join(str(problem).split()))
        raise FileError(path, f"{what} was asked for; found another or a damaged file ({found})") from None
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError, IndexError, RuntimeError) as problem:
        found = " ".join(str(problem).split())[:100]
        raise FileError(path, f"{what} was asked for; found contents that do not fit ({found})") from None


def _upgraded(header: dict) -> dict:
    need(
        1 <= header["version"] <= VERSION, f"a version up to {VERSION}", f"{header['version']}, made by a later release"
    )
    while header["version"] < VERSION:
        header = UPGRADES[header["version"]](header)
    return header


def _member(archive: zipfile.ZipFile, name: str, most: int, whole: int) -> bytes:
    info = archive.getinfo(name)
    stored = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
    need(stored and info.file_size <= min(most, whole), f"{name} uncompressed, at most {most} bytes", info.file_size)
    return archive.read(info)


def _array(archive: zipfile.ZipFile, name: str, whole: int) -> np.ndarray:
    content = io.BytesIO(_member(archive, name, whole, whole))
    shape, fortran, dtype = read_header(content)
    need(dtype.kind in "biufU", "an array of numbers or texts", dtype)
    rest = content.read()
    size = math.prod(shape) * dtype.itemsize
    need(len(rest) == size, f"{size} bytes of an array", len(rest))
    found = np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C")
    return found.astype(dtype.newbyteorder("="))


def _model(header: dict, array: Callable[[int], np.ndarray]) -> Any:
    reader = _Reader(array)
    name = str(header.get("machine"))
    need(name in MACHINES, f"one of {', '.join(MACHINES)}", shown(name))
    need(all(isinstance(header.get(k), dict) for k in ("params", "fitted")), "parameters and attributes", "none")
    params = {k: reader.value(v) for k, v in header["params"].items()}
    fitted = {k: reader.value(v) for k, v in header["fitted"].items()}
    known = set(MACHINES[name]().get_params(deep=False))
    need(set(params) <= known, f"parameters of {name}", shown(str(sorted(set(params) - known))))
    take = fitted.pop
    calibration, width = take("calibration", None), take("width", None)
    first = take("first_index", 1)
    need(type(first) is int and first in (0, 1), "a first index of 0 or 1", first)
    if name in KERNEL_MACHINES:
        parts = KernelParts(
            name, params, take("support_vectors_"), take("dual_coef_"), take("intercept_"),
            gamma=take("gamma"), n_features=take("n_features_in_"), support=take("support_", None),
            n_support=take("n_support_", None), classes=take("classes_", None), weights=take("weights"), derive=False,
            reduced=bool(take("reduced", False)),
        )  # fmt: skip
        model = kernel_machine(parts)
    elif name in LINEAR_MACHINES:
        coef = take("coef_")
        coef = coef.toarray() if sp.issparse(coef) else np.atleast_2d(coef)
        model = linear_machine(LinearParts(name, params, coef, take("intercept_"), take("classes_", None)))
        take("n_features_in_", None)
    else:
        model = _potential(name, params, fitted)
    for attribute, value in fitted.items():
        need(attribute in ATTRIBUTES or attribute in MORE, "known attributes", shown(attribute))
        setattr(model, attribute, value)
    _check_rest(model)
    if calibration is not None:
        need(isinstance(model, CLASSIFIERS) and isinstance(calibration, dict), "a calibration of classes", "another")
        model._calibration = calibration_from(model, calibration)
    if width is not None:
        need(isinstance(model, (SVR, NuSVR)) and isinstance(width, float), "a width of a regression", width)
        model._width = width
    model._first_index = first
    return as_fitted(model)


def _check_rest(model: Any) -> None:
    """What predictions read besides."""
    if hasattr(model, "prob_density_marks_"):
        marks = finite(model.prob_density_marks_, "prob_density_marks_")
        good = marks.ndim == 1 and len(marks) in (0, MARKS) and bool((np.diff(marks) >= 0).all())
        need(good, f"{MARKS} marks that ascend", marks.shape)
    if hasattr(model, "feature_names_in_"):
        names, d = np.asarray(model.feature_names_in_), model.n_features_in_
        need(names.shape == (d,) and names.dtype.kind in "UO", f"{d} names of features", names.shape)
        model.feature_names_in_ = names.astype(object)  # of early files texts of NumPy's own
    if "offset_" in vars(model):
        need(np.shape(model.offset_) == (1,), "one offset", np.shape(model.offset_))


def _potential(name: str, params: dict, fitted: dict) -> Any:
    """A P-SVM: coefficients on the relations to the objects that were chosen."""
    model = POTENTIAL[name](**params)
    known = isinstance(model.kernel, str) and model.kernel in (*KERNELS, "precomputed", "dyadic")
    need(known, "a kernel by name", repr(model.kernel)[:40])
    model._coef = np.ascontiguousarray(finite(fitted.pop("weights"), "weights"))
    model.intercept_ = finite(fitted.pop("intercept_"), "intercepts")
    model.support_ = np.asarray(fitted.pop("support_"))
    model.n_features_in_, gamma = fitted.pop("n_features_in_"), float(fitted.pop("gamma"))
    count = model.n_support_ = int(fitted.pop("n_support_"))
    need(type(model.n_features_in_) is int and model.n_features_in_ > 0, "features", model.n_features_in_)
    need(
        model.support_.shape == (count,) and model.support_.dtype.kind in "iu", f"{count} columns", model.support_.shape
    )
    problems = len(model.intercept_) if model.intercept_.ndim == 1 else 0
    need(problems and model._coef.shape == (count, problems), f"weights {(count, problems)}", model._coef.shape)
    model._keep_parameters()
    model._kernel_ = None
    if model.kernel in ("precomputed", "dyadic"):
        inside = not count or (model.support_.min() >= 0 and model.support_.max() < model.n_features_in_)
        need(inside, f"columns below {model.n_features_in_}", "others")
    else:
        need(isinstance(KERNELS[model.kernel], int), "a compiled kernel", model.kernel)
        model._kernel_ = Kernel(model.kernel, gamma, float(model.coef0), float(model.degree))
        vectors = model.support_vectors_ = fitted.pop("support_vectors_")
        need(vectors.shape == (count, model.n_features_in_), f"{count} objects", vectors.shape)
        finite(vectors.data if sp.issparse(vectors) else vectors, "objects")
    if isinstance(model, CLASSIFIERS) or name == "PSVC":
        model.classes_ = np.asarray(fitted.pop("classes_"))
        k = len(model.classes_)
        need(k >= 2 and problems == (1 if k == 2 else k), f"intercepts of {k} classes", problems)
    return model
