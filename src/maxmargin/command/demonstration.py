"""``maxmargin demo``, which is ``make demo``: a tour in 80 columns, on data that scikit-learn ships or makes.

A large problem beside scikit-learn, ten digits with progress, one optimum from every solver, a semi-parametric machine,
a Potential SVM on few samples, and a report about what was trained.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale
from sklearn.svm import SVC as ScikitLearnSVC

from ..estimators import PSVC, SVC, SVR
from ..solvers import SOLVERS

__all__ = ["show"]

LARGE, QUICK = 25_000, 2_500  # samples of the larger problem, and where time is short
TEST_SHARE = 0.2


def show(quiet: bool, quick: bool, output: str) -> int:
    """The tour; ``quiet``: without progress, ``quick``: with a tenth of the larger problem."""
    _large(QUICK if quick else LARGE, quiet)
    digits = _digits(quiet)
    _solvers()
    _semi_parametric()
    _potential()
    _report(output, *digits)
    return 0


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def _fit(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Fit; the seconds that it took."""
    started = time.perf_counter()
    model.fit(X, y)
    sys.stderr.flush()
    return time.perf_counter() - started


def _large(n: int, quiet: bool) -> None:
    made = {"n_features": 20, "n_informative": 10, "n_redundant": 4, "n_clusters_per_class": 8, "flip_y": 0.02}
    X, y = make_classification(n_samples=n, random_state=0, **made)
    X = scale(X)
    parts = train_test_split(X, y, test_size=TEST_SHARE, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = parts
    _title(f"1. Sixteen overlapping clouds of two classes, {len(X_train)} samples to train on")
    SVC().fit(X_train[: n // 4], y_train[: n // 4])  # the first fit of all compiles the inner loops
    ours, theirs = SVC(verbose=not quiet), ScikitLearnSVC()
    seconds = _fit(ours, X_train, y_train), _fit(theirs, X_train, y_train)
    same = float(np.mean(ours.predict(X_test) == theirs.predict(X_test)))
    found = ours.certificate_
    print(f"{'':<30}{'maxmargin':>12}{'scikit-learn':>16}")
    print(f"{'seconds to fit':<30}{seconds[0]:>12.2f}{seconds[1]:>16.2f}")
    print(f"{'correct on other samples':<30}{ours.score(X_test, y_test):>12.2%}{theirs.score(X_test, y_test):>16.2%}")
    print(f"{'equal predictions':<30}{same:>12.2%}")
    print(f"{'proven gap':<30}{found.relative_gap:>12.1e}{'none':>16}")
    print("The gap is a proof: no other function could lower the objective by a larger")
    print("share. Both ran here, one after the other, with the same C, gamma and tolerance;")
    print("maxmargin on all cores that it may use, scikit-learn's SVC on one.")


def _digits(quiet: bool) -> tuple[SVC, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=0, stratify=y)
    _title(f"2. Scanned digits: {len(X_train)} samples of {X.shape[1]} pixels, ten classes")
    model = SVC(C=10, verbose=not quiet)
    seconds = _fit(model, X_train, y_train)
    found = model.certificate_
    print(f"{len(model.certificates_)} machines, one for each pair of digits, in {seconds:.2f} s; ", end="")
    print(f"correct on others: {model.score(X_test, y_test):.1%}")
    print(f"worst gap {found.relative_gap:.1e}, largest violation {found.violation:.1e}")
    return model, X_test, y_test


def _solvers() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    _title(f"3. One optimum, from each of the {len(SOLVERS)} solvers ({len(X)} samples, squared hinge)")
    print(f"{'solver':<18}{'objective':>18}{'relative gap':>16}{'violation':>12}{'seconds':>10}")
    options: dict[str, Any] = {"kernel": "linear", "loss": "squared_hinge", "fit_intercept": False, "tol": 1e-6}
    for name in SOLVERS:
        model = SVC(solver=name, **options)
        seconds = _fit(model, X, y)
        found = model.certificate_
        row = f"{name:<18}{found.primal:>18.10f}{found.relative_gap:>16.1e}{found.violation:>12.1e}{seconds:>10.3f}"
        print(row, flush=True)
    print("The judge is the same for all of them. A solver's first fit may compile its")
    print("inner loops, which is kept on disk; maxmargin warmup does that ahead.")


def _trend(X: np.ndarray) -> np.ndarray:
    """Years since the start."""
    return X[:, 0]


def _season(X: np.ndarray) -> np.ndarray:
    """A year's sine."""
    return np.sin(2 * np.pi * X[:, 0])


def _semi_parametric() -> None:
    months, trained = 120, 96
    X = np.arange(months)[:, None] / 12.0
    wave = 1.5 * np.exp(-(((X[:, 0] - 2.5) / 0.8) ** 2))
    y = 1.2 * _trend(X) + 2.0 * _season(X) + wave + 0.3 * np.random.default_rng(0).normal(size=months)
    _title(f"4. A trend, a season and what is left: {trained} months, and {months - trained} after them")
    options: dict[str, Any] = {"C": 10.0, "gamma": 1.0}
    plain = SVR(**options).fit(X[:trained], y[:trained])
    semi = SVR(**options, parametric=[_trend, _season]).fit(X[:trained], y[:trained])
    for name, model in (("kernel alone", plain), ("with two functions", semi)):
        errors = [np.sqrt(np.mean((model.predict(X[a]) - y[a]) ** 2)) for a in (slice(trained), slice(trained, None))]
        print(f"{name:<20} error on the past {errors[0]:.2f}, on the months after it {errors[1]:.2f}")
    a, b = semi.parametric_coef_
    print(f"found: trend {a:.2f} a year (made with 1.20), season {b:.2f} (made with 2.00),")
    print(f"by {semi.solver_}, with a gap of {semi.certificate_.relative_gap:.1e}")


def _potential() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(scale(X), y, test_size=0.5, random_state=0, stratify=y)
    _title(f"5. A Potential SVM stands on few of {len(X_train)} samples")
    standard = SVC().fit(X_train, y_train)
    rows: list[tuple[str, int, float]] = [
        ("SVC", int(standard.n_support_.sum()), standard.score(X_test, y_test)),
    ]
    for epsilon in (0.5, 2.0):
        model = PSVC(epsilon=epsilon).fit(X_train, y_train)
        rows.append((f"PSVC, epsilon {epsilon:g}", int(model.n_support_), model.score(X_test, y_test)))
    print(f"{'machine':<20}{'support vectors':>16}{'correct':>10}")
    for name, count, right in rows:
        print(f"{name:<20}{count:>16}{right:>10.1%}")


def _report(output: str, model: SVC, X: np.ndarray, y: np.ndarray) -> None:
    _title("6. A report")
    model.report(output, X, y)
    print("The digits' certificate, confusion matrix, margins and hardest examples, in one")
    print("file that opens in a browser without a network:")
    print(output)
