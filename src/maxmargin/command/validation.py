"""Cross-validation (``train -v n``, ``cv``), and grids of C and gamma as LIBSVM's grid.py searches them."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import typer
from sklearn.model_selection import KFold, StratifiedKFold

from .machines import Settings
from .reading import Samples, read_samples
from .saying import Speaker, scores

__all__ = ["cross_validate", "folds_of", "out_of_fold", "search"]

WITHOUT_GAMMA = (0, 4)  # of -t: linear, precomputed


def folds_of(samples: Samples, settings: Settings, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test samples of each fold; each has its share of every class."""
    n = samples.X.shape[0]
    if folds < 2:
        raise typer.BadParameter(f"-v {folds}: cross-validation needs two folds or more")
    if folds > n:
        raise ValueError(f"{folds} folds were asked for; found {n} samples; use at most as many folds as samples")
    if settings.classifies and np.unique(samples.y, return_counts=True)[1].max() >= folds:
        chosen = StratifiedKFold(folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes with fewer samples than folds
            return list(chosen.split(np.zeros(n), samples.y))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def out_of_fold(samples: Samples, settings: Settings, folds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The prediction of each sample by a machine that has not seen it."""
    found: Any = None
    for train, test in folds:
        labels = np.unique(samples.y[train]) if settings.classifies else None
        machine = settings.estimator(labels)
        if labels is not None and len(labels) == 1:  # LIBSVM goes on, too
            warnings.warn(
                f"two classes or more were asked for in each fold; found one without others than {labels[0]}, which it "
                "predicts; use fewer folds, or more samples of the others",
                UserWarning,
                stacklevel=2,
            )
            some = np.full(len(test), labels[0], samples.y.dtype)
        elif settings.precomputed:
            machine.fit(np.ascontiguousarray(samples.X[np.ix_(train, train)]), samples.y[train])
            some = machine.predict(np.ascontiguousarray(samples.X[np.ix_(test, train)]))
        else:
            machine.fit(samples.X[train], samples.y[train])
            some = machine.predict(samples.X[test])
        if found is None:
            found = np.empty(len(samples.y), some.dtype)
        found[test] = some
    return found


def cross_validate(
    data: str,
    settings: Settings,
    folds: int,
    seed: int,
    target: str | None,
    format: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """LIBSVM's -v: predictions out of fold, scored together."""
    speaker, started = Speaker(quiet, as_json), time.perf_counter()
    samples = read_samples(data, settings, target, format)
    found = out_of_fold(samples, settings, folds_of(samples, settings, folds, seed))
    sided = settings.classifies or settings.one_class
    lines, facts = scores(samples.y, found, sided, "Cross Validation ")
    for line in lines:
        speaker.answer(line)  # svm-train -q says it, too
    speaker.json({**facts, "folds": folds, "seconds": time.perf_counter() - started})
    return 0


def search(
    data: str,
    settings: Settings,
    folds: int,
    seed: int,
    log2c: str | None,
    log2g: str | None,
    target: str | None,
    format: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Every C with every gamma; the last line is the best: C, gamma, score, as grid.py writes it."""
    costs, gammas = _powers(log2c, "--log2c") or [None], _powers(log2g, "--log2g") or [None]
    if log2g is not None and (settings.linear or settings.kernel_type in WITHOUT_GAMMA):
        raise typer.BadParameter("--log2g is for kernels that have a gamma: -t 1, 2 or 3")
    speaker = Speaker(quiet, as_json)
    samples = read_samples(data, settings, target, format)
    parts = folds_of(samples, settings, folds, seed)
    table: list[dict[str, Any]] = []
    best: dict[str, Any] = {}
    for cost in costs:
        for gamma in gammas:
            given = {name: 2.0**power for name, power in (("cost", cost), ("gamma", gamma)) if power is not None}
            found = out_of_fold(samples, replace(settings, **given), parts)
            sided = settings.classifies or settings.one_class
            _, facts = scores(samples.y, found, sided)
            rate = 100.0 * facts["accuracy"] if sided else facts["mean_squared_error"]
            row = {"cost": given.get("cost"), "gamma": given.get("gamma"), "rate": rate}
            table.append(row)
            if not best or (rate > best["rate"] if sided else rate < best["rate"]):
                best = row
            names = " ".join(f"log2{k}={v:g}" for k, v in (("c", cost), ("g", gamma)) if v is not None)
            speaker.line(f"{names} rate={rate:g} (best {_words(best)})")
    speaker.answer(" ".join(f"{value!r}" for value in best.values() if value is not None))
    speaker.json({"best": best, "table": table, "folds": folds})
    return 0


def _words(row: dict[str, Any]) -> str:
    short = {"cost": "c", "gamma": "g", "rate": "rate"}
    return ", ".join(f"{short[k]}={v:g}" for k, v in row.items() if v is not None)


def _powers(text: str | None, name: str) -> list[float | None]:
    if text is None:
        return []
    try:
        first, last, step = (float(word) for word in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{name} needs FROM,TO,STEP, such as -5,15,2; found {text!r}") from None
    count = (last - first) / step + 1 if step else 0
    if not 1 <= count <= 1000:
        raise typer.BadParameter(
            f"{name} needs a STEP that leads from FROM to TO in at most 1000 steps; found {text!r}"
        )
    return [first + k * step for k in range(int(count + 1e-9))]
