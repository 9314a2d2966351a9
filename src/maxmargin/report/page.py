"""The page of a report, section by section."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from . import charts

__all__ = ["html_of"]

HARDEST = 10  # examples that are shown
FEATURES = 6  # of an example that are shown
MOST_CLASSES = 20  # of a matrix that can be read
CONFUSIONS = 12  # pairs that are listed where there are more
POINTS = 1500  # of a scatter plot
WORST_PROBLEMS = 6  # that are listed
DOTS = 300  # on a gauge
TINY = 1e-9  # seconds: what a logarithmic axis begins with at least

SIDE, WORST, LEAD = "margin y·f(x)", "least margin", "lead over the next class"
MARGINS = {
    SIDE: "Left of 0 a sample is on the wrong side; between 0 and 1 it is right, but within the margin.",
    WORST: "Each pair of classes has a machine; this is the least margin of a sample among those of its own class. "
    "Left of 0 at least one of them decides against it.",
    LEAD: "How much the score of a sample's own class is ahead of the best other one; left of 0 it is wrong.",
}

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is fetched, nothing runs


def html_of(model: Any, X: Any, y: Any = None) -> str:
    """The report as text."""
    check_is_fitted(model)
    name = type(model).__name__
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if not n:
        raise ValueError("a report on samples was asked for; found none; give X with at least one row")
    kind = "classes" if hasattr(model, "classes_") else "one class" if hasattr(model, "offset_") else "values"
    if kind != "one class":
        if y is None:
            raise ValueError(f"a report of {name} was asked for; found no targets; give y, too")
        y = np.asarray(y).ravel()
        if len(y) != n:
            raise ValueError(
                f"a target for each sample was asked for; found {n} samples and {len(y)} targets; match them"
            )
    found = {"classes": _classes, "values": _values, "one class": _one_class}[kind](model, X, y)
    body = [
        f"<h1>{escape(name)}: {escape(found.headline)}</h1>",
        f'<p class="lead">On {n:,} samples that were given for this report.</p>',
        _proof(model),
        '<div class="two">' + _trained(model) + _convergence(model) + "</div>",
        *found.sections,
        _hardest(model, X, found),
        _how_to_predict(model, kind),
        f"<footer>Made by maxmargin{_version()}. This page is one file and asks nobody for anything.</footer>",
    ]
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)} report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _version() -> str:
    """That of the package, where it is installed."""
    try:
        return " " + escape(version("maxmargin"))
    except PackageNotFoundError:
        return ""


class Found:
    """What the predictions say: a headline, sections, and how hard each sample is (the lower, the harder)."""

    def __init__(self, headline: str, sections: list[str], ease: np.ndarray, meaning: str, told: list) -> None:
        self.headline, self.sections, self.ease, self.meaning, self.told = headline, sections, ease, meaning, told


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _table(rows: Sequence[Sequence[Any]], head: Sequence[str] = (), kind: str = "facts") -> str:
    """Rows whose first entry is a name."""
    top = "<thead><tr>" + "".join(f"<th>{escape(str(h))}</th>" for h in head) + "</tr></thead>" if head else ""
    lines = [
        f'<tr><th scope="row">{escape(str(row[0]))}</th>'
        + "".join(f"<td>{escape(str(v))}</td>" for v in row[1:])
        + "</tr>"
        for row in rows
    ]
    return f'<div class="scroll"><table class="{kind}">{top}<tbody>{"".join(lines)}</tbody></table></div>'


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    return str(value)


def _share(value: float) -> str:
    return f"{100 * value:.3g} %" if value >= 1e-4 else f"{value:.1g} of it"


# -- what was trained, and what is proven -----------------------------------------------------------------------------


def _proof(model: Any) -> str:
    if not hasattr(model, "certificate_"):
        return _section(
            "Certificate",
            "<p>There is none: the model comes from a file that keeps no certificate. Files that end with "
            "<code>.mm</code> do.</p>",
        )
    proof, proofs = model.certificate_, model.certificates_
    good = model.status_.converged
    gap = proof.relative_gap
    words = (
        f"No other model could lower {'an' if len(proofs) > 1 else 'the'} objective by more than {_share(gap)}."
        if math.isfinite(gap)
        else "Nothing is proven: the fit ended before there was a bound."
    )
    kind, first = ("good", "Converged.") if good else ("bad", f"Stopped early: {model.status_.value}.")
    parts = [f'<p class="verdict {kind}">{escape(first)} {escape(words)}</p>']
    parts.append(charts.gauge([one.relative_gap for one in proofs[:DOTS]]))
    many = (
        f"The model is made of {len(proofs)} problems; these numbers are those of the worst. "
        if len(proofs) > 1
        else ""
    )
    parts.append(
        f"<p>{many}The primal value {_number(proof.primal)} is what the model costs: its size and its errors. The dual "
        f"value {_number(proof.dual)} is a bound that no model can go below. The gap between them is "
        f"{proof.gap:.3g}, so the best cost lies at most that far below. It is computed from the problem and the "
        f"stored coefficients alone, whoever found them. The largest violation of an optimality condition is "
        f"{proof.violation:.2g}.</p>"
    )
    return _section("Certificate", *parts)


def _trained(model: Any) -> str:
    rows: list[tuple[str, Any]] = [("machine", type(model).__name__)]
    defaults = {field.name: field.default for field in fields(model)} if is_dataclass(model) else {}
    for name, value in model.get_params(deep=False).items():
        told = value if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
        if name in ("C", "kernel", "gamma", "nu", "epsilon", "tol") or (name in defaults and told != defaults[name]):
            rows.append((name, _number(told)))
    if getattr(model, "kernel", "") in ("linear", "precomputed", "dyadic"):
        rows = [row for row in rows if row[0] != "gamma"]
    elif isinstance(getattr(model, "gamma", None), str) and getattr(model, "_gamma", None) is not None:
        rows.append(("gamma, as a number", _number(float(model._gamma))))
    rows.append(("features", f"{model.n_features_in_:,}" if hasattr(model, "n_features_in_") else "–"))
    if hasattr(model, "classes_"):
        rows.append(("classes", len(model.classes_)))
    if hasattr(model, "support_"):
        count = len(model.support_)
        of = (
            f" of {model.shape_fit_[0]:,} samples"
            if hasattr(model, "shape_fit_") and hasattr(model, "certificate_")
            else ""
        )
        rows.append(("support vectors", f"{count:,}{of}"))
    for name, attribute in (("tube found", "epsilon_"), ("radius found", "radius_")):
        if hasattr(model, attribute):
            rows.append((name, _number(float(getattr(model, attribute)))))
    if hasattr(model, "solver_"):
        rows.append(("solved by", model.solver_))
    if hasattr(model, "n_iter_"):
        rows.append(("steps", f"{int(np.sum(model.n_iter_)):,}"))
    if hasattr(model, "fit_time_"):
        rows.append(("time of the fit", f"{model.fit_time_:.3g} s"))
    return _section("What was trained", _table(rows))


def _convergence(model: Any) -> str:
    histories = getattr(model, "history_", None)
    if histories is None:
        return _section("Convergence", "<p>It is not kept in the file of the model.</p>", _problems(model))
    histories = histories if isinstance(histories, list) else [histories]
    longest = max(histories, key=len)
    which = f" It is the longest of {len(histories)} problems." if len(histories) > 1 else ""
    seconds = np.maximum(longest.column("seconds"), TINY)
    series = {"gap": longest.column("primal") + longest.column("objective"), "violation": longest.column("violation")}
    for name, words in (("gap", "The gap between primal and dual"), ("violation", "The largest violation")):
        values = series[name]
        if np.count_nonzero(np.isfinite(values) & (values > 0)) > 1:
            picture = charts.lines(seconds, {name: values}, "seconds", name)
            return _section("Convergence", picture, f"<p>{words} over time.{which}</p>", _problems(model))
    taken, spent = int(np.sum(model.n_iter_)), model.fit_time_
    words = f"<p>{taken:,} steps in {spent:.2g} s: the fit was over before there was a second look at it.</p>"
    return _section("Convergence", words, _problems(model))


def _problems(model: Any) -> str:
    """The problems of which least is proven, where there are several."""
    proofs = getattr(model, "certificates_", [])
    if len(proofs) < 2:
        return ""
    names = [str(c) for c in getattr(model, "classes_", [])]
    pairs = [f"{a} v {b}" for k, a in enumerate(names) for b in names[k + 1 :]]
    labels = pairs if hasattr(model, "decision_function_shape") else [f"{name} v rest" for name in names]
    steps = np.broadcast_to(model.n_iter_, len(proofs)) if np.size(model.n_iter_) == 1 else model.n_iter_
    if len(labels) != len(proofs) or len(steps) != len(proofs):
        return ""
    order = sorted(range(len(proofs)), key=lambda k: -proofs[k].relative_gap)[:WORST_PROBLEMS]
    rows = [(labels[k], f"{steps[k]:,}", f"{proofs[k].relative_gap:.1e}", f"{proofs[k].violation:.1e}") for k in order]
    words = "<p>The problems of which least is proven:</p>"
    return words + _table(rows, ("problem", "steps", "relative gap", "violation"))


# -- how it predicts --------------------------------------------------------------------------------------------------


def _same(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels that can be compared: numbers, or texts where either is."""
    return (a.astype(str), b.astype(str)) if a.dtype.kind in "UO" or b.dtype.kind in "UO" else (a, b)


def _classes(model: Any, X: Any, y: np.ndarray) -> Found:
    predicted = np.asarray(model.predict(X))
    truth, told = _same(y, predicted)
    right = truth == told
    share = float(right.mean())
    sections = ['<div class="two">' + _confusion(truth, told, share), "</div>"]
    margins, meaning = _margins(model, X, truth)
    if margins is not None:
        picture = charts.histogram(margins, meaning, {} if meaning == LEAD else {"1": 1.0}, 0.0)
        sections.insert(1, _section("Margins", picture, f"<p>{MARGINS[meaning]}</p>"))
    ease = margins if margins is not None else right.astype(float)
    rows = [[str(a), str(b)] for a, b in zip(truth.tolist(), told.tolist(), strict=True)]
    return Found(f"{share:.1%} right", ["\n".join(sections)], ease, meaning or "right", [("class", "predicted"), rows])


def _margins(model: Any, X: Any, truth: np.ndarray) -> tuple[np.ndarray | None, str]:
    """How far each sample is on its side, and what that is called; None where its label is not known to the model."""
    pairs = hasattr(model, "decision_function_shape") and len(model.classes_) > 2
    if pairs:  # votes are whole numbers; the decisions of the pairs say more
        model = copy.copy(model)
        model.decision_function_shape = "ovo"
    f = np.asarray(model.decision_function(X), np.float64)
    classes = model.classes_ if truth.dtype.kind not in "UO" else model.classes_.astype(str)
    if not np.isin(truth, classes).all():
        return None, ""
    place = np.searchsorted(classes, truth) if truth.dtype.kind not in "UO" else _places(classes, truth)
    if f.ndim == 1:
        return np.where(place == 1, f, -f), SIDE
    if pairs:
        first, second = np.triu_indices(len(classes), 1)
        signed = np.where(place[:, None] == first, f, np.where(place[:, None] == second, -f, np.inf))
        return signed.min(axis=1), WORST
    own = f[np.arange(len(f)), place].copy()
    f = f.copy()
    f[np.arange(len(f)), place] = -np.inf
    return own - f.max(axis=1), LEAD


def _places(classes: np.ndarray, truth: np.ndarray) -> np.ndarray:
    number = {name: k for k, name in enumerate(classes.tolist())}
    return np.array([number[name] for name in truth.tolist()])


def _confusion(truth: np.ndarray, told: np.ndarray, share: float) -> str:
    names, both = np.unique(np.concatenate([truth, told]), return_inverse=True)
    k, n = len(names), len(truth)
    a, b = both[:n].astype(np.int64), both[n:].astype(np.int64)
    words = f"<p>{int(round(share * n)):,} of {n:,} samples are right, {n - int(round(share * n)):,} are wrong.</p>"
    if k > MOST_CLASSES:
        wrong, counts = np.unique((a * k + b)[a != b], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:CONFUSIONS]
        rows = [(f"{names[wrong[q] // k]} taken for {names[wrong[q] % k]}", int(counts[q])) for q in order.tolist()]
        return _section("Most frequent errors", words, _table(rows) if rows else "")
    counts = np.bincount(a * k + b, minlength=k * k).reshape(k, k)
    largest_hit, largest_miss = int(counts.diagonal().max()), int((counts - np.diag(counts.diagonal())).max())
    lines = []
    for row in range(k):
        cells = []
        for column in range(k):
            count = int(counts[row, column])
            kind, top = ("hit", largest_hit) if row == column else ("miss", largest_miss)
            kind = kind if count else "none"
            cells.append(f'<td class="{kind}" style="--share:{count / max(top, 1):.2f}">{count}</td>')
        total = int(counts[row].sum())
        recall = f"{counts[row, row] / total:.1%}" if total else "–"
        lines.append(f'<tr><th scope="row">{escape(str(names[row]))}</th>{"".join(cells)}<td>{recall}</td></tr>')
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in names)
    table = (
        f'<div class="scroll"><table class="matrix"><thead><tr><th></th>{head}<th>found</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
    return _section("Confusion matrix", words, table, "<p>Rows are the true classes, columns the predicted ones.</p>")


def _values(model: Any, X: Any, y: np.ndarray) -> Found:
    y = y.astype(np.float64)
    f = np.asarray(model.predict(X), np.float64)
    r = f - y
    spread = float(((y - y.mean()) ** 2).sum())
    explained = f"{1.0 - float(r @ r) / spread:.4g}" if spread > 0 else "–"
    facts = [
        ("mean squared error", _number(float(np.mean(r**2)))),
        ("mean absolute error", _number(float(np.mean(np.abs(r))))),
        ("largest error", _number(float(np.abs(r).max()))),
        ("R², the share explained", explained),
    ]
    tube = float(getattr(model, "epsilon_", getattr(model, "epsilon", 0.0)))
    some = np.linspace(0, len(y) - 1, min(len(y), POINTS)).astype(np.int64)
    marks = {"−ε": -tube, "ε": tube} if tube > 0 else {"0": 0.0}
    sections = [
        '<div class="two">',
        _section("Residuals", _table(facts), charts.histogram(r, "predicted − true", marks)),
        _section(
            "Predicted and true values",
            charts.scatter(y[some], f[some], "true value", "predicted value", tube),
            "<p>The dashed lines are the tube: inside it an error costs nothing.</p>" if tube > 0 else "",
        ),
        "</div>",
    ]
    rows = [[f"{a:.6g}", f"{b:.6g}"] for a, b in zip(y.tolist(), f.tolist(), strict=True)]
    return Found(f"R² = {explained}", ["\n".join(sections)], -np.abs(r), "error", [("target", "predicted"), rows])


def _one_class(model: Any, X: Any, y: Any) -> Found:
    f = np.asarray(model.decision_function(X), np.float64)
    outside = float(np.mean(f < 0))
    picture = charts.histogram(f, "decision", {"boundary": 0.0}, 0.0)
    words = f"<p>{int((f < 0).sum()):,} of {len(f):,} samples are outside, left of 0.</p>"
    rows = [["outside" if v < 0 else "inside"] for v in f.tolist()]
    return Found(
        f"{outside:.1%} outside", [_section("Decisions", picture, words)], f, "decision", [("predicted",), rows]
    )


def _hardest(model: Any, X: Any, found: Found) -> str:
    order = np.argsort(found.ease, kind="stable")[:HARDEST]
    names = getattr(model, "feature_names_in_", None)
    heads, rows = found.told
    lines = [
        [
            int(k),
            *rows[k],
            f"{abs(found.ease[k]) if found.meaning == 'error' else found.ease[k]:.4g}",
            _row(X, k, names),
        ]
        for k in order
    ]
    return _section(
        "The hardest examples",
        "<p>Worth a look first: wrong labels and odd measurements are mostly among them. Rows are counted from 0.</p>",
        _table(lines, ("row", *heads, found.meaning, "sample"), "wide"),
    )


def _row(X: Any, k: int, names: Any) -> str:
    """A sample in words: its first features that are not 0."""
    if sp.issparse(X):
        row = X.tocsr()[[k]]
        pairs = list(zip(row.indices.tolist(), row.data.tolist(), strict=True))
    elif hasattr(X, "iloc") or (isinstance(X, np.ndarray) and X.ndim == 2):
        values = X.iloc[k].tolist() if hasattr(X, "iloc") else X[k].tolist()
        pairs = [(j, v) for j, v in enumerate(values) if not (isinstance(v, (int, float)) and v == 0)]
    elif isinstance(X[k], (list, tuple, np.ndarray)):
        pairs = list(enumerate(X[k]))
    else:
        text = str(X[k])
        return text if len(text) <= 60 else text[:60] + " …"
    label = (lambda j: str(names[j])) if names is not None else str
    told = ", ".join(f"{label(j)}: {f'{v:.4g}' if isinstance(v, float) else v}" for j, v in pairs[:FEATURES])
    return told + (" …" if len(pairs) > FEATURES else "")


def _how_to_predict(model: Any, kind: str) -> str:
    name = type(model).__name__
    what = {"classes": "the class of each row", "values": "a value for each row", "one class": "+1 inside, −1 outside"}
    code = (
        f'import maxmargin\n\nmaxmargin.save(model, "model.mm")    # where it was trained\n\n'
        f'model = maxmargin.load("model.mm")   # {name}\nmodel.predict(X_new)                 # {what[kind]}'
    )
    shell = "maxmargin predict new.libsvm model.mm predictions.txt\nmaxmargin info model.mm"
    width = (
        f" Rows of X_new have {model.n_features_in_:,} features, scaled as those of the training."
        if hasattr(model, "n_features_in_")
        else ""
    )
    return _section(
        "How to predict with it",
        f"<p>In Python:</p><pre>{escape(code)}</pre><p>In a shell:</p><pre>{escape(shell)}</pre>",
        f"<p>{width.strip()}</p>" if width else "",
    )
