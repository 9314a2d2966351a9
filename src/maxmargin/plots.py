"""Pictures of machines, in the style of scikit-learn's displays: ``MarginDisplay.from_estimator(model, X, y)``.

| display             | what it shows                                                                          |
| ------------------- | -------------------------------------------------------------------------------------- |
| MarginDisplay       | the boundary, the margins and the support vectors, in a plane through the data         |
| ConvergenceDisplay  | primal and dual values against time, and the gap between them                          |
| PathDisplay         | weights against the cost                                                               |
| KernelDisplay       | the kernel matrix, samples sorted by class                                             |
| FeatureRankDisplay  | the features that a machine uses, the most important first                             |
| CVDisplay           | scores over two parameters, C and γ as a rule                                          |

Needs matplotlib: ``pip install maxmargin[plot]``. Colours are told from each other by people who see fewer of them, and
text and lines take theirs from matplotlib's style: ``plt.style.use("dark_background")`` is all that a dark page needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from .estimators.base import dense
from .gram import Kernel
from .gram.distance import cross
from .gram.points import make_points
from .solution import History

__all__ = [
    "CVDisplay",
    "ConvergenceDisplay",
    "FeatureRankDisplay",
    "KernelDisplay",
    "MarginDisplay",
    "PathDisplay",
]

# Okabe & Ito's colours, which people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "osD^vP*X"
RESOLUTION = 200  # points of the plane along each axis
AROUND = 0.12  # of the range of the data is shown around it
MOST_SAMPLES = 2000  # drawn as points: more are a cloud, and take long
MOST_KERNEL = 1000  # rows of a kernel matrix that is shown
MOST_FEATURES = 20
LARGE = 1e-3  # share of the largest weight on a path that deserves a name


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "a plot was asked for; found no matplotlib; install it: pip install 'maxmargin[plot]'"
        ) from error
    return plt


def _axes(ax: Any) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    return _pyplot().subplots(layout="constrained")[1]


def _ink() -> str:
    """The colour of text in the style in use: dark on light pages and light on dark ones."""
    return _pyplot().rcParams["text.color"]


def _array(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def _some(n: int, most: int) -> np.ndarray:
    """At most so many of n numbers, ascending, the same every time."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


@dataclass
class _Display(ABC):
    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on these axes."""

    def plot(self, ax: Any = None) -> Self:
        """Draw on some axes, or on new ones; sets ``ax_`` and ``figure_``."""
        self.ax_: Any = _axes(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self


@dataclass
class MarginDisplay(_Display):
    """The boundary, the margins and the support vectors of a machine in a plane.

    With two features that is the plane of the data. With more, ``features`` chooses two of them and the others are held
    at their means, or without it the plane through the mean along the two main directions of the data.
    """

    xx: np.ndarray
    yy: np.ndarray
    values: np.ndarray  # decisions at the grid, (rows, columns) or (rows, columns, classes); a regression's predictions
    chosen: np.ndarray | None  # the number of the class at the grid, for several classes
    points: np.ndarray  # (n, 2)
    labels: np.ndarray | None  # class numbers, or targets of a regression
    support: np.ndarray  # which points are support vectors
    names: tuple[str, str]
    classes: list[str] = field(default_factory=list)
    width: float = 1.0  # decisions at the margins
    level: str = "boundary"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: Any = None,
        resolution: int = RESOLUTION,
        ax: Any = None,
    ) -> Self:
        """The display of a fitted machine on its samples."""
        check_is_fitted(estimator)
        names = getattr(X, "columns", None)
        rows = _array(X)
        if rows.ndim != 2 or rows.shape[1] < 1:
            raise ValueError(
                f"samples of shape (n, d) were asked for; found shape {rows.shape}; give the samples of fit"
            )
        centre = rows.mean(axis=0)
        frame, axes = _plane(rows, centre, features, names)
        at = (rows - centre) @ frame.T
        shift = centre @ frame.T if features is not None or rows.shape[1] == 2 else np.zeros(2)
        low, high = at.min(axis=0), at.max(axis=0)
        pad = AROUND * np.where(high > low, high - low, 1.0)
        xs, ys = (np.linspace(low[k] - pad[k], high[k] + pad[k], resolution) for k in (0, 1))
        xx, yy = np.meshgrid(xs, ys)
        grid = centre + np.column_stack([xx.ravel(), yy.ravel()]) @ frame
        if names is not None and hasattr(estimator, "feature_names_in_"):
            grid = type(X)(grid, columns=names)
        labels: np.ndarray | None = None
        chosen, classes, width, level = None, [], 1.0, "boundary"
        if is_regressor(estimator):
            values = np.asarray(estimator.predict(grid))
            labels = None if y is None else np.asarray(y, np.float64)
            level = "prediction"
        else:
            values = np.asarray(estimator.decision_function(grid))
            if hasattr(estimator, "classes_"):
                classes = [str(c) for c in estimator.classes_]
                labels = None if y is None else np.searchsorted(estimator.classes_, np.asarray(y))
                if len(classes) > 2:
                    chosen = np.searchsorted(estimator.classes_, estimator.predict(grid)).reshape(xx.shape)
            else:
                width = 0.0
        support = np.zeros(len(rows), bool)
        inside = getattr(estimator, "support_", np.zeros(0, int))
        if len(inside) and inside.max() < len(rows) and getattr(estimator, "shape_fit_", (len(rows),))[0] == len(rows):
            support[inside] = True
        shown = (xx + shift[0], yy + shift[1])
        shape = xx.shape if values.ndim == 1 else (*xx.shape, values.shape[1])
        display = cls(
            *shown, values.reshape(shape), chosen, at + shift, labels, support, axes, classes, width, level
        )  # fmt: skip
        return display.plot(ax)

    def _draw(self, ax: Any) -> None:
        from matplotlib.colors import ListedColormap

        ink = _ink()
        if self.chosen is not None:
            shades = ListedColormap([COLOURS[k % len(COLOURS)] for k in range(len(self.classes))])
            last = len(self.classes) - 0.5
            ax.pcolormesh(self.xx, self.yy, self.chosen, cmap=shades, vmin=-0.5, vmax=last, alpha=0.2, rasterized=True)
            for k in range(len(self.classes) - 1):
                ax.contour(self.xx, self.yy, self.chosen, levels=[k + 0.5], colors=ink, linewidths=1.2)
        elif self.level == "prediction":
            lines = ax.contourf(self.xx, self.yy, self.values, levels=12, cmap="cividis", **self._range())
            ax.figure.colorbar(lines, ax=ax, label="prediction")
        else:
            size = float(np.abs(self.values).max()) or 1.0
            tone = ListedColormap([COLOURS[0], COLOURS[1]])
            ax.contourf(self.xx, self.yy, self.values, levels=[-size, 0.0, size], cmap=tone, alpha=0.15)
            ax.contour(self.xx, self.yy, self.values, levels=[0.0], colors=ink, linewidths=2.0)
            if self.width:
                levels = [-self.width, self.width]
                ax.contour(self.xx, self.yy, self.values, levels=levels, colors=ink, linewidths=1.0, linestyles="--")
        self._scatter(ax, ink)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])

    def _range(self) -> dict[str, float]:
        """The values that predictions and targets have together, so that their colours mean the same."""
        known = self.values if self.labels is None else np.append(self.values, self.labels)
        return {"vmin": float(known.min()), "vmax": float(known.max())}

    def _scatter(self, ax: Any, ink: str) -> None:
        some = _some(len(self.points), MOST_SAMPLES)
        points, support = self.points[some], self.support[some]
        if self.labels is None or self.level == "prediction":
            tint: dict[str, Any] = {"c": COLOURS[0]}
            if self.labels is not None:
                tint = {"c": self.labels[some], "cmap": "cividis", **self._range()}
            ax.scatter(*points.T, s=22, edgecolors=ink, linewidths=0.4, **tint)
        else:
            labels = self.labels[some]
            for k in np.unique(labels):
                own = labels == k
                name = self.classes[k] if k < len(self.classes) else str(k)
                colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                ax.scatter(*points[own].T, s=24, c=colour, marker=marker, edgecolors=ink, linewidths=0.4, label=name)
        if support.any():
            ax.scatter(
                *points[support].T, s=80, facecolors="none", edgecolors=ink, linewidths=1.0, label="support vectors"
            )  # fmt: skip
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best", framealpha=0.8, fontsize="small")


def _plane(rows: np.ndarray, centre: np.ndarray, features: Any, names: Any) -> tuple[np.ndarray, tuple[str, str]]:
    """Two orthonormal directions, and what the axes are called."""
    d = rows.shape[1]
    if features is None and d > 2:
        _, _, directions = np.linalg.svd(rows - centre, full_matrices=False)
        return directions[:2], ("first main direction", "second main direction")
    if d == 1:
        raise ValueError("a plane was asked for; found samples with one feature; give two features or more")
    chosen = [0, 1] if features is None else list(features)
    known = [str(name) for name in names] if names is not None else []
    index = [known.index(f) if isinstance(f, str) and f in known else f for f in chosen]
    if len(index) != 2 or not all(isinstance(k, (int, np.integer)) and 0 <= k < d for k in index):
        raise ValueError(
            f"two features were asked for; found features={features!r}; give two numbers below {d}, or names"
        )
    called = tuple(known[k] if known else f"feature {k}" for k in index)
    return np.eye(d)[index], called  # type: ignore[return-value]


@dataclass
class ConvergenceDisplay(_Display):
    """How a fit came nearer to its optimum: primal and dual against time, and the relative gap below.

    Where the gap was looked at only in the end, as with few samples, the largest violation is drawn in its place.
    """

    seconds: list[np.ndarray]
    primal: list[np.ndarray]
    dual: list[np.ndarray]
    labels: list[str]
    tol: float | None = None
    violation: list[np.ndarray] | None = None

    @classmethod
    def from_estimator(cls, *estimators: Any, ax: Any = None, labels: Any = None) -> Self:
        """Of one fitted machine, or of several that solve the same problem."""
        histories, names = [], []
        for estimator in estimators:
            check_is_fitted(estimator)
            history = estimator.history_
            worst = int(np.argmax([c.relative_gap for c in estimator.certificates_]))
            histories.append(history if isinstance(history, History) else history[worst])
            names.append(getattr(estimator, "solver_", type(estimator).__name__))
        tol = estimators[0].tol if len(estimators) == 1 and getattr(estimators[0], "_stops_on_gap", False) else None
        return cls.from_histories(histories, labels or names, tol=tol, ax=ax)

    @classmethod
    def from_histories(cls, histories: Any, labels: Any, *, tol: float | None = None, ax: Any = None) -> Self:
        """Of histories."""
        return cls(
            [h.column("seconds") for h in histories],
            [h.column("primal") for h in histories],
            [-h.column("objective") for h in histories],
            list(labels),
            tol,
            [h.column("violation") for h in histories],
        ).plot(ax)

    def _draw(self, ax: Any) -> None:
        """The relative gap on a logarithmic scale; for one fit the values themselves in a panel above."""
        single = len(self.seconds) == 1
        if single:
            upper = ax.inset_axes((0.0, 0.58, 1.0, 0.42))
            lower = ax.inset_axes((0.0, 0.0, 1.0, 0.48), sharex=upper)
            ax.set_axis_off()
            (t,), (primal,), (dual,) = self.seconds, self.primal, self.dual
            upper.plot(t, primal, color=COLOURS[1], label="primal", marker=".")
            upper.plot(t, dual, color=COLOURS[0], label="dual", marker=".")
            both = np.isfinite(primal) & np.isfinite(dual)
            upper.fill_between(t[both], dual[both], primal[both], color=COLOURS[5], alpha=0.25, linewidth=0)
            upper.set_ylabel("objective")
            upper.legend(fontsize="small", framealpha=0.8)
            upper.tick_params(labelbottom=False)
            self.axes_ = [upper, lower]
        else:
            lower = ax
            self.axes_ = [lower]
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps = [
                (primal - dual) / np.maximum(np.abs(primal), np.abs(dual))
                for primal, dual in zip(self.primal, self.dual, strict=True)
            ]
        dots = self.violation is not None and not any(_positive(gap).sum() > 1 for gap in gaps)
        series = self.violation if dots and self.violation is not None else gaps
        for number, (t, values, label) in enumerate(zip(self.seconds, series, self.labels, strict=True)):
            shown = _positive(values)
            lower.plot(t[shown], values[shown], color=COLOURS[number % len(COLOURS)], label=label, marker=".")
        lower.set_yscale("log")
        lower.set_xlabel("seconds")
        lower.set_ylabel("largest violation" if dots else "relative gap")
        if self.tol is not None and not dots:
            lower.axhline(self.tol, color=_ink(), linewidth=0.8, linestyle=":")
        lower.legend(fontsize="small", framealpha=0.8)


def _positive(values: np.ndarray) -> np.ndarray:
    return np.isfinite(values) & (values > 0)


@dataclass
class PathDisplay(_Display):
    """Weights against the cost: ``PathDisplay.from_path(LinearSVC(penalty="l1").path(X, y, Cs))``."""

    Cs: np.ndarray
    coefs: np.ndarray  # (n_C, n_features)
    names: list[str]

    @classmethod
    def from_path(cls, path: Any, *, names: Any = None, problem: int = 0, ax: Any = None) -> Self:
        """Of what ``path`` of a linear machine returns; ``problem`` chooses a class where there are several."""
        coefs = path.coefs if path.coefs.ndim == 2 else path.coefs[:, problem]
        given = names if names is not None else [f"feature {k}" for k in range(coefs.shape[1])]
        return cls(np.asarray(path.Cs), coefs, [str(name) for name in given]).plot(ax)

    def _draw(self, ax: Any) -> None:
        size = np.abs(self.coefs).max(axis=0)
        order = np.argsort(-size)
        drawn = order[size[order] > LARGE * size.max(initial=0.0)]
        for rank, k in enumerate(drawn):
            named = rank < len(COLOURS)
            colour = COLOURS[rank] if named else _ink()
            look: dict[str, Any] = {"alpha": 0.25, "linewidth": 0.8}
            if named:
                look = {"linewidth": 1.8, "label": self.names[k]}
            ax.plot(self.Cs, self.coefs[:, k], color=colour, **look)
        ax.axhline(0.0, color=_ink(), linewidth=0.6)
        ax.set_xscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel("weight")
        if len(drawn):
            ax.legend(fontsize="small", framealpha=0.8)


@dataclass
class KernelDisplay(_Display):
    """The kernel matrix of some samples, sorted by class."""

    K: np.ndarray
    edges: np.ndarray  # where a class ends
    classes: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None) -> Self:
        """Of a machine and samples; of many samples some are shown."""
        check_is_fitted(estimator)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        some = _some(n, MOST_KERNEL)
        labels = None if y is None else np.asarray(y)[some]
        order = np.arange(len(some)) if labels is None else np.argsort(labels, kind="stable")
        index = some[order]
        K = _kernel_of(estimator, X, index)
        names, counts = np.unique([] if labels is None else labels, return_counts=True)
        return cls(K, np.cumsum(counts), [str(name) for name in names]).plot(ax)

    def _draw(self, ax: Any) -> None:
        signed = self.K.min() < 0
        size = float(np.abs(self.K).max()) or 1.0
        low = -size if signed else 0.0
        image = ax.imshow(self.K, cmap="RdBu_r" if signed else "cividis", vmin=low, vmax=size, interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, label="k(x, x')")
        for edge in self.edges[:-1]:
            ax.axhline(edge - 0.5, color="white", linewidth=1.0)
            ax.axvline(edge - 0.5, color="white", linewidth=1.0)
        if len(self.classes):
            middle = self.edges - np.diff(self.edges, prepend=0) / 2 - 0.5
            ax.set_xticks(middle, self.classes)
            ax.set_yticks(middle, self.classes)
        else:
            ax.set_xlabel("sample")
            ax.set_ylabel("sample")


def _kernel_of(estimator: Any, X: Any, index: np.ndarray) -> np.ndarray:
    """The matrix of a machine's kernel on some samples."""
    kernel = getattr(estimator, "_of_fit", {}).get("kernel", getattr(estimator, "kernel", "linear"))
    if kernel == "precomputed":
        return np.asarray(X, np.float64)[np.ix_(index, index)]
    if callable(kernel):
        some = X.iloc[index] if hasattr(X, "iloc") else X[index] if hasattr(X, "shape") else [X[i] for i in index]
        return np.asarray(kernel(some, some), np.float64)
    rows = _array(X)[index]
    if getattr(estimator, "_kernel_", None) is None and getattr(estimator, "_function", None) is not None:
        return np.asarray(estimator._function(rows, rows), np.float64)
    made = getattr(estimator, "_kernel_", None) or Kernel("linear", 0.0, 0.0, 0.0)
    points = make_points(rows, made).astype(np.float64)
    return cross(made, points, points)


@dataclass
class FeatureRankDisplay(_Display):
    """The features that a machine uses, the most important first."""

    importance: np.ndarray
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, *, names: Any = None, most: int = MOST_FEATURES, ax: Any = None) -> Self:
        """Of a linear machine (the size of its weights, the largest of its classes) or of a selector (its scores)."""
        check_is_fitted(estimator)
        found = next(
            (getattr(estimator, a) for a in ("feature_importances_", "scores_") if hasattr(estimator, a)), None
        )
        if found is None:
            found = getattr(estimator, "coef_", None)
        if found is None:
            raise ValueError(
                f"the importance of features was asked for; found {type(estimator).__name__} without weights of "
                "features; use a linear machine or PSVMSelector"
            )
        size = np.abs(dense(found)).max(axis=0)
        given = names if names is not None else getattr(estimator, "feature_names_in_", None)
        called = [f"feature {k}" for k in range(len(size))] if given is None else [str(name) for name in given]
        if len(called) != len(size):
            raise ValueError(f"{len(size)} names were asked for; found {len(called)}; give one for each feature")
        order = np.argsort(-size, kind="stable")[: min(most, max(1, int(np.count_nonzero(size))))]
        return cls(size[order], [called[k] for k in order]).plot(ax)

    def _draw(self, ax: Any) -> None:
        place = np.arange(len(self.importance))[::-1]
        ax.barh(place, self.importance, color=COLOURS[0])
        ax.set_yticks(place, self.names, fontsize="small")
        ax.set_xlabel("importance")
        ax.margins(y=0.01)


@dataclass
class CVDisplay(_Display):
    """Scores of a search over two parameters, as a map; the best one is marked."""

    rows: list[Any]  # values of the parameter along y
    columns: list[Any]
    scores: np.ndarray
    names: tuple[str, str]  # along y, along x

    @classmethod
    def from_search(cls, search: Any, *, x: str | None = None, y: str | None = None, ax: Any = None) -> Self:
        """Of a fitted GridSearchCV; of more than two parameters the best value of the others is shown."""
        check_is_fitted(search)
        results = search.cv_results_
        known = [key.removeprefix("param_") for key in results if key.startswith("param_")]
        varied = [name for name in known if len({str(v) for v in results[f"param_{name}"]}) > 1]
        x, y = (
            x or next((n for n in varied if n.endswith("gamma")), None),
            y or next((n for n in varied if n.endswith("C")), None),
        )
        rest = [name for name in varied if name not in (x, y)]
        x, y = x or (rest.pop(0) if rest else None), y or (rest.pop(0) if rest else None)
        if x is None or y is None or x not in known or y not in known:
            raise ValueError(f"two parameters were asked for; found {known}; search over two, or name them: x=, y=")
        metric = "score" if "mean_test_score" in results else search.refit
        if f"mean_test_{metric}" not in results:
            scored = ", ".join(key[len("mean_test_") :] for key in results if key.startswith("mean_test_"))
            raise ValueError(f"one score was asked for; found {scored} and refit={metric!r}; give refit= one of them")
        a, b = (_values(results[f"param_{name}"]) for name in (y, x))
        down, across = _in_order(a), _in_order(b)
        scores = np.full((len(down), len(across)), -np.inf)
        for one, other, score in zip(a, b, results[f"mean_test_{metric}"], strict=True):
            if one is not None and other is not None:
                at = down.index(one), across.index(other)
                scores[at] = max(scores[at], score)
        return cls(down, across, np.where(np.isfinite(scores), scores, np.nan), (y, x)).plot(ax)

    def _draw(self, ax: Any) -> None:
        image = ax.imshow(self.scores, cmap="cividis", origin="lower", aspect="auto", interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, label="mean score")
        best = np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
        ax.scatter(best[1], best[0], marker="*", s=220, c=COLOURS[1], edgecolors="white", linewidths=1.0)
        where = f"{self.names[0]}={_short(self.rows[best[0]])}, {self.names[1]}={_short(self.columns[best[1]])}"
        ax.set_title(f"best {self.scores[best]:.4g} at {where}", fontsize="medium")
        ax.set_xticks(np.arange(len(self.columns)), [_short(v, 3) for v in self.columns], rotation=45)
        ax.set_yticks(np.arange(len(self.rows)), [_short(v, 3) for v in self.rows])
        ax.set_xlabel(self.names[1])
        ax.set_ylabel(self.names[0])


def _values(given: Any) -> list[Any]:
    """Values of a parameter in a search: numbers, words for others, None where it was not tried."""
    words = [None if v is np.ma.masked else v for v in np.ma.asarray(given)]
    numbers = all(v is None or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool)) for v in words)
    return [None if v is None else float(v) if numbers else str(v) for v in words]


def _in_order(values: list[Any]) -> list[Any]:
    """Each value once: numbers by size, words as they were tried."""
    once = list(dict.fromkeys(v for v in values if v is not None))
    return once if once and isinstance(once[0], str) else sorted(once)


def _short(value: Any, digits: int = 6) -> str:
    return value if isinstance(value, str) else f"{value:.{digits}g}"
