"""``maxmargin info``: what a model file holds, in lines or as JSON."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..files import has_probabilities, load_model, model_format
from .saying import Speaker

__all__ = ["tell"]


def tell(path: str, as_json: bool) -> int:
    """Read the model and say what it is."""
    facts = _facts(path)
    speaker = Speaker(False, as_json)
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        speaker.line(f"{name.replace('_', ' '):<{width}}  {_text(value)}")
    speaker.json(facts)
    return 0


def _facts(path: str) -> dict[str, Any]:
    machine = load_model(path)
    logistic = "Logistic" in type(machine).__name__ or hasattr(machine, "estimators_")  # a model of LIBLINEAR's
    facts: dict[str, Any] = {
        "file": path,
        "bytes": os.path.getsize(path),
        "format": model_format(path),
        "machine": "LogisticRegression" if logistic else type(machine).__name__,
        "features": int(machine.n_features_in_),
    }
    if hasattr(machine, "kernel"):
        facts["kernel"] = machine.kernel
        names = {"poly": ("degree", "gamma", "coef0"), "sigmoid": ("gamma", "coef0")}.get(machine.kernel, ("gamma",))
        if machine.kernel not in ("linear", "precomputed", "dyadic"):
            for name in names:
                facts[name] = getattr(machine, f"_{name}", None) if name == "gamma" else getattr(machine, name)
    if hasattr(machine, "classes_"):
        facts["classes"] = machine.classes_.tolist()
    if hasattr(machine, "n_support_"):
        facts["support_vectors"] = int(np.sum(machine.n_support_))
        if np.ndim(machine.n_support_) and hasattr(machine, "classes_"):
            facts["support_vectors_by_class"] = machine.n_support_.tolist()
    each = getattr(machine, "estimators_", [machine])  # several classes, each against the rest
    intercepts = np.concatenate([one.intercept_ for one in each])
    if len(intercepts) <= 10:
        facts["rho"] = [0.0 - b for b in intercepts.tolist()]  # not -0
    facts["probabilities"] = logistic or has_probabilities(machine)
    if hasattr(machine, "certificate_"):
        found = machine.certificate_
        facts["status"] = machine.status_.value
        facts["solver"] = machine.solver_
        facts["primal"], facts["dual"] = found.primal, found.dual
        facts["gap"], facts["relative_gap"], facts["violation"] = found.gap, found.relative_gap, found.violation
        facts["seconds"] = machine.fit_time_
    return facts


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return " ".join(_text(v) for v in value[:20]) + (" …" if len(value) > 20 else "")
    return str(value)
