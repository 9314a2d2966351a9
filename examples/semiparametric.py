"""A trend, a season and what is left: a semi-parametric machine beside a plain one.

Run it with ``python examples/semiparametric.py [FOLDER]`` (it needs the ``plot`` extra). Ten years of monthly values
are made from a trend, a season and a slow wave, with noise; eight years are for training. The plain machine has
only its kernel, which says nothing about months that it has not seen. The semi-parametric one knows that there is a
trend and a season, finds their size, and leaves to the kernel what they do not explain.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from maxmargin import SVR

MONTHS, TRAINED, NOISE = 120, 96, 0.3
TRUTH = {"trend a year": 1.2, "season, sine": 2.0, "season, cosine": -1.0}


def trend(X):
    """Years since the start."""
    return X[:, 0]


def sine(X):
    """The season's sine."""
    return np.sin(2 * np.pi * X[:, 0])


def cosine(X):
    """The season's cosine."""
    return np.cos(2 * np.pi * X[:, 0])


def series(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Years (n, 1), values, and the slow wave that no function of ours describes."""
    X = np.arange(MONTHS)[:, None] / 12.0
    wave = 1.5 * np.exp(-(((X[:, 0] - 2.5) / 0.8) ** 2)) - 1.2 * np.exp(-(((X[:, 0] - 5.5) / 1.1) ** 2))
    known = sum(size * f(X) for size, f in zip(TRUTH.values(), (trend, sine, cosine), strict=True))
    return X, known + wave + NOISE * np.random.default_rng(seed).normal(size=MONTHS), wave


def main(folder: Path) -> None:
    """Fit both, print what was found, draw it."""
    X, y, wave = series()
    past, future = slice(None, TRAINED), slice(TRAINED, None)
    options = {"C": 10.0, "gamma": 1.0, "epsilon": 0.1}
    plain = SVR(**options).fit(X[past], y[past])
    semi = SVR(**options, parametric=[trend, sine, cosine]).fit(X[past], y[past])

    print(f"solver: {semi.solver_};  certificate: {semi.certificate_}")
    for (name, true), found in zip(TRUTH.items(), semi.parametric_coef_, strict=True):
        print(f"{name:15s} true {true:5.2f}   found {found:5.2f}")
    for name, model in (("kernel alone", plain), ("semi-parametric", semi)):
        errors = [np.sqrt(np.mean((model.predict(X[part]) - y[part]) ** 2)) for part in (past, future)]
        print(f"{name:15s} error on the past {errors[0]:.2f}, on the two years after it {errors[1]:.2f}")
    draw(folder / "semiparametric.png", X, y, wave, plain, semi)


def draw(path: Path, X, y, wave, plain, semi) -> None:
    """Both machines above; below, what the kernel was left with."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fine = np.linspace(0.0, MONTHS / 12.0, 1000)[:, None]
    parametric = np.column_stack([f(fine) for f in (trend, sine, cosine)]) @ semi.parametric_coef_
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 6.5), sharex=True, height_ratios=[2, 1])
    above.plot(X[:, 0], y, "o", color="0.6", markersize=4, label="monthly values")
    above.plot(fine, plain.predict(fine), color="tab:orange", label="kernel alone")
    above.plot(fine, semi.predict(fine), color="tab:blue", label="trend + season + kernel")
    below.plot(X[:, 0], wave - wave[:TRAINED].mean(), "--", color="0.4", label="the wave in the data")
    rest = semi.predict(fine) - parametric
    below.plot(fine, rest - rest[fine[:, 0] < TRAINED / 12].mean(), color="tab:blue", label="what the kernel found")
    for axes, corner in ((above, "upper left"), (below, "lower left")):
        axes.axvspan(TRAINED / 12, MONTHS / 12, color="0.93", zorder=0)
        axes.legend(frameon=False, loc=corner)
        axes.spines[["top", "right"]].set_visible(False)
    above.text(TRAINED / 12 + 0.1, above.get_ylim()[0] + 0.5, "not trained on", color="0.4")
    above.set_ylabel("value")
    below.set_ylabel("remainder")
    below.set_xlabel("years")
    figure.align_ylabels()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"drawn: {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
