"""``maxmargin train``: read, fit, write, and say what LIBSVM says."""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import typer

from ..estimators.base import dense
from ..files import MODEL_FORMATS, FileError, has_probabilities, save_model
from ..files.checkpoints import Keeper, fingerprint, read_checkpoint
from ..monitor import keep_interrupted
from ..solution import Status
from .machines import Settings
from .reading import Samples, read_samples
from .saying import Speaker

__all__ = ["train_model"]

AT_BOUND = 1.0 - 1e-9  # of a box: a coefficient that has been divided and multiplied again
DONE, INTERRUPTED = 0, 130


def train_model(
    data: str,
    model: str | None,
    settings: Settings,
    checkpoint: str | None,
    resume: str | None,
    model_format: str | None,
    target: str | None,
    format: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Train, write the model, tell how it went."""
    speaker = Speaker(quiet, as_json)
    if model is None and data == "-":
        raise FileError(data, "samples from a pipe have no name to call the model after; name a MODEL, too")
    path = model if model is not None else os.path.basename(data) + ".model"
    kind = model_format or _usual_format(path, settings)
    _check_format(kind, settings)
    _check_place(path)
    started = time.perf_counter()
    samples = read_samples(data, settings, target, format)
    read = time.perf_counter() - started
    if kind != "maxmargin" and samples.y.dtype.kind == "U":
        problem = (
            f"labels that are whole numbers were asked for by {kind}'s format; found {samples.y[:1].tolist()[0]!r}"
        )
        raise FileError(data, f"{problem}; name the model with .mm, or add --model-format maxmargin")
    if kind == "liblinear" and samples.first_index == 0:
        asked = "indices from 1 were asked for by liblinear's format"
        raise FileError(
            data, f"{asked}; found index 0; count from 1, or name the model with .mm, which keeps where they begin"
        )
    machine = settings.estimator(np.unique(samples.y) if settings.classifies else None)
    machine.verbose = not quiet and not as_json
    keeper = _prepare_checkpoint(machine, samples, checkpoint, resume)
    with keep_interrupted():
        machine.fit(samples.X, samples.y)
    if keeper is not None:
        keeper.close()
        machine._keeper = None
    machine.set_params(verbose=False, warm_start=False)
    if samples.serials is not None:  # the model names samples by their serials, whatever their order was
        machine.support_ = (samples.serials[machine.support_] - 1).astype(np.int32)
        machine.n_features_in_ = int(samples.serials.max())
    if samples.names is not None and not hasattr(machine, "feature_names_in_"):
        machine.feature_names_in_ = np.array(samples.names, dtype=object)
    machine._first_index = samples.first_index
    before = time.perf_counter()
    save_model(machine, path, kind)
    written = time.perf_counter() - before
    facts = _facts(machine, samples)
    for line in _lines(machine, facts):
        speaker.line(line)
    speaker.json(
        {
            "model": path,
            "format": kind,
            "machine": type(machine).__name__,
            "samples": samples.X.shape[0],
            "features": samples.X.shape[1],
            "solver": machine.solver_,
            "status": machine.status_.name.lower(),
            "converged": machine.status_.converged,
            **facts,
            "seconds": {"read": read, "fit": machine.fit_time_, "write": written},
        }
    )
    return INTERRUPTED if machine.status_ is Status.INTERRUPTED else DONE


def _usual_format(path: str, settings: Settings) -> str:
    if path.lower().endswith((".mm", ".zip")):
        return "maxmargin"
    return "liblinear" if settings.linear else "libsvm"


def _check_format(kind: str, settings: Settings) -> None:
    """An error now, not after an hour, where the format does not hold such a machine."""
    if kind not in MODEL_FORMATS:
        raise typer.BadParameter(f"--model-format {kind} is none of {', '.join(MODEL_FORMATS)}")
    if kind != "maxmargin" and (kind == "liblinear") != settings.linear:
        right = "liblinear" if settings.linear else "libsvm"
        raise typer.BadParameter(f"--model-format {kind} holds no {settings.machine}; use {right} or maxmargin")


def _check_place(path: str) -> None:
    """An error now, not after an hour, where the model cannot be written."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileError(path, f"a place for the model was asked for; found no folder {folder}; make it first")
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise FileError(path, "a place for the model was asked for; found one that cannot be written to; name another")


def _prepare_checkpoint(machine: Any, samples: Samples, checkpoint: str | None, resume: str | None) -> Keeper | None:
    path = checkpoint or resume
    if path is None:
        return None
    about = fingerprint(machine, samples.X, samples.y)
    before = read_checkpoint(resume, about) if resume is not None else None
    _check_place(path)
    keeper = Keeper(path, about, before)
    machine.warm_start = True
    machine._keeper = keeper
    if before is not None:
        machine._starts_ = before.starts()
    return keeper


# -- what LIBSVM says --------------------------------------------------------------------------------------------------


def _facts(machine: Any, samples: Samples) -> dict[str, Any]:
    """What there is to say of a fit, for each of its problems."""
    found = machine.certificate_
    facts: dict[str, Any] = {
        "certificate": {
            "primal": found.primal,
            "dual": found.dual,
            "gap": found.gap,
            "relative_gap": found.relative_gap,
            "violation": found.violation,
        }
    }
    if hasattr(machine, "classes_"):
        facts["classes"] = machine.classes_
    if not hasattr(machine, "dual_coef_"):
        iterations = np.broadcast_to(np.atleast_1d(machine.n_iter_), len(machine.certificates_))
        facts["problems"] = [
            {"iterations": int(n), "objective": c.primal, "obj": -c.dual}
            for n, c in zip(iterations, machine.certificates_, strict=True)
        ]
        return facts
    facts["problems"] = [_problem(machine, samples, number) for number in range(len(machine.intercept_))]
    facts["support_vectors"] = int(machine.n_support_.sum())
    return facts


def _problem(machine: Any, samples: Samples, number: int) -> dict[str, Any]:
    """The numbers that LIBSVM tells of one problem."""
    dual = dense(machine.dual_coef_)
    scale = float(machine.margin_[number]) if hasattr(machine, "margin_") else 1.0
    cost, count = float(getattr(machine, "C", 1.0) or 1.0), samples.X.shape[0]
    if type(machine).__name__ in ("NuSVC", "OneClassSVM"):
        cost = 1.0
    if hasattr(machine, "classes_"):
        i, j = (int(side[number]) for side in np.triu_indices(len(machine.classes_), 1))
        edges = np.concatenate([[0], np.cumsum(machine.n_support_)])
        sides = [(i, j - 1), (j, i)]
        parts = [dual[row, edges[own] : edges[own + 1]] for own, row in sides]
        boxes = [
            np.full(len(part), cost * machine.class_weight_[own]) for part, (own, _) in zip(parts, sides, strict=True)
        ]
        coef, box = np.abs(np.concatenate(parts)) * scale, np.concatenate(boxes)
        count = int(np.isin(samples.y, machine.classes_[[i, j]]).sum())
    else:
        coef, box = np.abs(dual[0]), np.full(dual.shape[1], cost)
    iterations = np.atleast_1d(machine.n_iter_)
    certificate = machine.certificates_[number]
    facts = {
        "iterations": int(iterations[min(number, len(iterations) - 1)]),
        "obj": -certificate.dual / scale**2 if scale else math.nan,  # LIBSVM divides by it, too
        "rho": -float(machine.intercept_[number]),
        "nSV": int(np.count_nonzero(coef)),
        "nBSV": int(np.count_nonzero(coef >= AT_BOUND * box)),
    }
    if type(machine).__name__ == "NuSVC" and scale > 0:
        facts["C"] = 1.0 / scale
    if type(machine).__name__ in ("SVC", "SVR") and len(np.unique(box)) <= 1:
        facts["nu"] = float(coef.sum()) / (cost * count)
    if hasattr(machine, "epsilon_"):
        facts["epsilon"] = float(machine.epsilon_)
    return facts


def _lines(machine: Any, facts: dict[str, Any]) -> list[str]:
    lines = []
    for problem in facts["problems"]:
        lines.append(f"optimization finished, #iter = {problem['iterations']}")
        if "rho" not in problem:
            lines.append(f"Objective value = {problem['objective']:f}")
            continue
        if "epsilon" in problem:
            lines.append(f"epsilon = {problem['epsilon']:f}")
        if "C" in problem:
            lines.append(f"C = {problem['C']:f}")
        if "nu" in problem:
            lines.append(f"nu = {problem['nu']:f}")
        lines.append(f"obj = {problem['obj']:f}, rho = {problem['rho']:f}")
        lines.append(f"nSV = {problem['nSV']}, nBSV = {problem['nBSV']}")
    if "support_vectors" in facts:
        lines.append(f"Total nSV = {facts['support_vectors']}")
    if type(machine).__name__ in ("SVR", "NuSVR") and has_probabilities(machine):
        lines.append("Prob. model for test data: target value = predicted value + z,")
        lines.append(f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma= {machine.probA_[0]:g}")
    found = machine.certificate_
    lines.append(
        f"certificate: gap {found.gap:.3g} ({found.relative_gap:.2g} of the objective), violation "
        f"{found.violation:.2g}, by {machine.solver_} in {machine.fit_time_:.2f} s"
    )
    return lines
