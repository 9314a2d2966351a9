"""A page about a fitted machine: what was trained, how good it is and how that is known, where it errs, how to use it.

One HTML file without scripts and without anything from elsewhere: pictures are SVG in the page, colours follow the
reader's choice of light or dark, and it reads on a phone and on paper.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector, is_regressor

from ..solution import History

__all__ = ["page"]

WIDTH, HEIGHT, LEFT, BOTTOM = 560, 220, 64, 34  # of a picture, in its own units
BINS = 30
HARDEST = 10
MOST_CLASSES = 30  # of a confusion matrix that is shown
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --page: #ffffff; --faint: #8a929c; --one: #0072b2; --two: #d55e00;
        --fill: #56b4e933; --line: #d5dae0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --page: #14171a; --faint: #8f98a3; --one: #56b4e9;
        --two: #ff9a4d; --fill: #56b4e933; --line: #343a41; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 46rem;
       margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; } .faint { color: var(--faint); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } td, th { padding: .2rem .6rem;
       text-align: right; border-bottom: 1px solid var(--line); } th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; padding: .8rem; font-size: .85rem; }
@media print { body { max-width: none; font-size: 11pt; } h2 { break-after: avoid; }
       svg, table { break-inside: avoid; } }
"""


def page(machine, X=None, y=None) -> str:
    """The page of a machine, with what it does on some samples where they are given."""
    name = type(machine).__name__
    parts = [f"<h1>{name}</h1>", _said(machine), _proof(machine), _convergence(machine)]
    if X is not None:
        parts.append(_samples(machine, X, y))
    parts.append(_use(machine))
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _said(machine) -> str:
    """What was trained."""
    given = type(machine)().get_params(deep=False)
    changed = {k: v for k, v in machine.get_params(deep=False).items() if repr(v) != repr(given.get(k))}
    shown = ", ".join(f"{key}={value!r}" for key, value in changed.items()) or "all parameters at their defaults"
    facts = [f"{_text(shown)}."]
    if hasattr(machine, "n_features_in_"):
        facts.append(f"{machine.n_features_in_} features.")
    if hasattr(machine, "classes_"):
        facts.append(f"{len(machine.classes_)} classes: {_text(', '.join(str(c) for c in machine.classes_[:20]))}.")
    if hasattr(machine, "support_") and hasattr(machine, "shape_fit_"):
        facts.append(f"{len(machine.support_)} of {machine.shape_fit_[0]} samples are support vectors.")
    facts.append(f"Solver: {_text(machine.solver_)}, {machine.fit_time_:.3g} s.")
    return "<p>" + " ".join(facts) + "</p>"


def _proof(machine) -> str:
    """The certificate in words and as a picture."""
    found, count = machine.certificate_, len(machine.certificates_)
    share = 100 * found.relative_gap
    of = f" (the worst of {count} problems)" if count > 1 else ""
    words = (
        f"No other function can have an objective below {found.dual:.8g}. This machine has {found.primal:.8g}{of}: it "
        f"is at most {share:.2g} % above the best one, whatever found it. The largest violation of the conditions of "
        f"an optimum is {found.violation:.2g}; tol={machine.tol:g} was asked for. {str(machine.status_).capitalize()}."
    )
    low, high = min(found.dual, found.primal), max(found.dual, found.primal)
    size = max(abs(low), abs(high), np.finfo(float).tiny)
    at = [20 + (WIDTH - 40) * (0.5 + 0.45 * np.sign(v - (low + high) / 2) * min(1.0, (high - low) / size * 50 + 0.02))
          for v in (low, high)]  # fmt: skip
    picture = (
        f'<svg viewBox="0 0 {WIDTH} 70" role="img" aria-label="dual {low:.6g}, primal {high:.6g}">'
        f'<line x1="20" y1="30" x2="{WIDTH - 20}" y2="30" stroke="var(--line)" stroke-width="2"/>'
        f'<rect x="{at[0]:.1f}" y="20" width="{max(1.0, at[1] - at[0]):.1f}" height="20" fill="var(--fill)"/>'
        f'<line x1="{at[0]:.1f}" y1="14" x2="{at[0]:.1f}" y2="46" stroke="var(--one)" stroke-width="3"/>'
        f'<line x1="{at[1]:.1f}" y1="14" x2="{at[1]:.1f}" y2="46" stroke="var(--two)" stroke-width="3"/>'
        f'<text x="{at[0] - 6:.1f}" y="62" text-anchor="end">bound {low:.8g}</text>'
        f'<text x="{at[1] + 6:.1f}" y="62">found {high:.8g}</text></svg>'
    )
    return f"<h2>How good it is</h2><p>{_text(words)}</p>{picture}"


def _convergence(machine) -> str:
    """The gap against time."""
    history = machine.history_
    if not isinstance(history, History):
        worst = int(np.argmax([c.relative_gap for c in machine.certificates_]))
        history = history[worst]
    t, primal, dual = history.column("seconds"), history.column("primal"), -history.column("objective")
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = (primal - dual) / np.maximum(np.abs(primal), np.abs(dual))
    shown = np.isfinite(gap) & (gap > 0)
    if shown.sum() < 2:
        return ""
    lines = [("var(--one)", t[shown], np.log10(gap[shown]))]
    return "<h2>How it got there</h2><p>The gap as a share of the objective, against seconds.</p>" + _curves(
        lines, "seconds", lambda v: f"1e{round(v)}"
    )


def _samples(machine, X, y) -> str:
    """Confusion or residuals, a histogram, and the hardest samples."""
    parts = []
    target = None if y is None else np.asarray(y)
    if is_regressor(machine):
        f = np.asarray(machine.predict(X), np.float64)
        if target is None:
            return "<h2>Predictions</h2>" + _histogram(f, "prediction")
        r = target - f
        sizes = f"Mean size {np.abs(r).mean():.4g}, root mean square {np.sqrt((r * r).mean()):.4g}"
        score = f"R² {machine.score(X, target):.4f}"
        parts.append(f"<h2>Residuals</h2><p>{sizes}, {score}.</p>{_histogram(r, 'target − prediction')}")
        hard, doubt, label = np.argsort(-np.abs(r))[:HARDEST], r, "residual"
        rows = [(i, target[i], f"{f[i]:.5g}", f"{doubt[i]:.4g}") for i in hard]
    else:
        f, guess = np.asarray(machine.decision_function(X), np.float64), np.asarray(machine.predict(X))
        margin = _margins(machine, f, target)
        label = "decision" if target is None or is_outlier_detector(machine) else "margin"
        if target is not None and is_classifier(machine):
            parts.append(_confusion(machine, target, guess))
        parts.append(f"<h2>{label.capitalize()}s</h2>{_histogram(margin, label)}")
        hard = np.argsort(margin)[:HARDEST]
        rows = [(i, "" if target is None else target[i], guess[i], f"{margin[i]:.4g}") for i in hard]
    cells = "".join("<tr>" + "".join(f"<td>{_text(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    parts.append(
        f'<h2>The hardest samples</h2><div class="scroll"><table><tr><th>number</th><th>target</th><th>predicted</th>'
        f"<th>{label}</th></tr>{cells}</table></div>"
    )
    return "\n".join(parts)


def _margins(machine, f: np.ndarray, target) -> np.ndarray:
    """How far each sample is on its side: of its own class before the best of the others."""
    if target is None or is_outlier_detector(machine):
        return f if f.ndim == 1 else np.sort(f, axis=1)[:, -1] - np.sort(f, axis=1)[:, -2]
    own = np.searchsorted(machine.classes_, target)
    if f.ndim == 1:
        return np.where(own == 1, f, -f)
    if f.shape[1] != len(machine.classes_):  # of all pairs
        return np.abs(f).min(axis=1)
    rest = f.copy()
    rest[np.arange(len(f)), own] = -np.inf
    return f[np.arange(len(f)), own] - rest.max(axis=1)


def _confusion(machine, target: np.ndarray, guess: np.ndarray) -> str:
    hits = float((target == guess).mean())
    text = f"<h2>Predictions</h2><p>{100 * hits:.4g} % of {len(target)} samples are right.</p>"
    classes = machine.classes_
    if len(classes) > MOST_CLASSES:
        return text
    head = "".join(f"<th>{_text(str(c))}</th>" for c in classes)
    rows = []
    for a in classes:
        cells = "".join(f"<td>{int(((target == a) & (guess == b)).sum())}</td>" for b in classes)
        rows.append(f"<tr><th>{_text(str(a))}</th>{cells}</tr>")
    return text + f'<div class="scroll"><table><tr><th>true \\ predicted</th>{head}</tr>{"".join(rows)}</table></div>'


def _use(machine) -> str:
    """How to predict with it."""
    name = type(machine).__name__
    given = type(machine)().get_params(deep=False)
    changed = {k: v for k, v in machine.get_params(deep=False).items() if repr(v) != repr(given.get(k))}
    made = ", ".join(f"{key}={value!r}" for key, value in changed.items())
    code = (
        f"from maxmargin import {name}\n\nmodel = {name}({made}).fit(X, y)\nmodel.predict(X_new)\n"
        "print(model.certificate_)"
    )
    return f"<h2>How to use it</h2><pre>{_text(code)}</pre>"


# -- pictures -----------------------------------------------------------------------------------------------------


def _curves(lines: list[tuple[str, np.ndarray, np.ndarray]], below: str, tell: Any) -> str:
    """Lines in a frame."""
    xs, ys = np.concatenate([x for _, x, _ in lines]), np.concatenate([y for _, _, y in lines])
    place = _frame(xs.min(), xs.max(), ys.min(), ys.max())
    drawn = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
        + " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*place(x, y), strict=True)) + '"/>'
        for colour, x, y in lines
    )  # fmt: skip
    return _picture(drawn, (xs.min(), xs.max()), (ys.min(), ys.max()), below, tell)


def _histogram(values: np.ndarray, below: str) -> str:
    """How often values occur."""
    counts, edges = np.histogram(values, BINS)
    place = _frame(edges[0], edges[-1], 0.0, float(counts.max()))
    bars = []
    for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True):
        (x0, x1), (y0, y1) = place(np.array([a, b]), np.array([0.0, float(count)]))
        colour = "var(--two)" if b <= 0 and below == "margin" else "var(--one)"
        size = f'width="{max(0.5, x1 - x0 - 1):.1f}" height="{y0 - y1:.1f}"'
        bars.append(f'<rect x="{x0:.1f}" y="{y1:.1f}" {size} fill="{colour}"/>')
    return _picture("".join(bars), (edges[0], edges[-1]), (0.0, float(counts.max())), below, lambda v: f"{v:.4g}")


def _frame(x0: float, x1: float, y0: float, y1: float):
    wide, high = (x1 - x0) or 1.0, (y1 - y0) or 1.0

    def place(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return LEFT + (x - x0) / wide * (WIDTH - LEFT - 12), HEIGHT - BOTTOM - (y - y0) / high * (HEIGHT - BOTTOM - 12)

    return place


def _picture(drawn: str, xs: tuple[float, float], ys: tuple[float, float], below: str, tell: Any) -> str:
    floor, right = HEIGHT - BOTTOM, WIDTH - 12
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(below)}">{drawn}'
        f'<path d="M{LEFT} 12V{floor}H{right}" fill="none" stroke="var(--faint)"/>'
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">{tell(ys[0])}</text>'
        f'<text x="{LEFT - 6}" y="22" text-anchor="end">{tell(ys[1])}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 16}">{xs[0]:.3g}</text>'
        f'<text x="{right}" y="{HEIGHT - 16}" text-anchor="end">{xs[1]:.3g}</text>'
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{_text(below)}</text></svg>'
    )


def _text(words: str) -> str:
    return html.escape(words)
