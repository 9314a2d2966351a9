"""Train two support vector machines, read their certificates, and set them beside scikit-learn's SVC.

Run it with ``make demo``. The data come with scikit-learn: scanned digits (ten classes) and a larger made set.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as ScikitLearnSVC

from maxmargin import SVC

WARM_UP_POINTS = 6000  # enough to pass through every inner loop that the timed fits use


@dataclass(frozen=True)
class Task:
    """A data set, split and scaled, with the parameters of the machine."""

    title: str
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    parameters: dict

    @classmethod
    def of(cls, title: str, X: np.ndarray, y: np.ndarray, test_size: int, **parameters) -> Task:
        """Hold out test_size points and scale the features by the training points alone."""
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=test_size, stratify=y, random_state=0)
        scaler = StandardScaler().fit(X_train)
        return cls(title, scaler.transform(X_train), scaler.transform(X_test), y_train, y_test, parameters)


def digits() -> Task:
    X, y = load_digits(return_X_y=True)
    return Task.of("Digits, 8 × 8 pixels, ten classes", X, y, test_size=500, C=10.0)


def clusters() -> Task:
    X, y = make_classification(
        n_samples=25_000,
        n_features=20,
        n_informative=10,
        n_redundant=4,
        n_clusters_per_class=8,
        flip_y=0.02,
        random_state=0,
    )
    return Task.of("Sixteen overlapping clouds, two classes", X, y, test_size=5_000, C=1.0)


def warm_up(task: Task) -> None:
    """Let the inner loops compile, so that the timed fits below show the training alone."""
    SVC(**task.parameters).fit(task.X_train[:WARM_UP_POINTS], task.y_train[:WARM_UP_POINTS])


def timed_fit(model, task: Task) -> float:
    started = time.perf_counter()
    model.fit(task.X_train, task.y_train)
    return time.perf_counter() - started


def comparison(task: Task) -> Table:
    """Fit both machines and lay out what they say about themselves."""
    ours = SVC(verbose=True, **task.parameters)
    our_seconds = timed_fit(ours, task)
    theirs = ScikitLearnSVC(**task.parameters)
    their_seconds = timed_fit(theirs, task)
    agreement = np.mean(ours.predict(task.X_test) == theirs.predict(task.X_test))

    problems = len(ours.certificates_)
    worst = f" (the worst of {problems})" if problems > 1 else ""
    certificate = ours.certificate_
    table = Table("", "maxmargin", "scikit-learn")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("seconds to fit", f"{our_seconds:.2f}", f"{their_seconds:.2f}")
    table.add_row(
        "accuracy on the test points",
        f"{ours.score(task.X_test, task.y_test):.4f}",
        f"{theirs.score(task.X_test, task.y_test):.4f}",
    )
    table.add_row("share of equal predictions", f"{agreement:.4f}", "")
    table.add_row("support vectors", str(len(ours.support_)), str(len(theirs.support_)), end_section=True)
    table.add_row(f"certificate{worst}", "", "none")
    table.add_row("  primal value", f"{certificate.primal:.8g}", "")
    table.add_row("  dual value", f"{certificate.dual:.8g}", "")
    table.add_row("  gap", f"{certificate.gap:.2e}", "")
    table.add_row("  relative gap", f"{certificate.relative_gap:.2e}", "")
    table.add_row("  largest violation", f"{certificate.violation:.2e}", "")
    table.caption = f"solver {ours.solver_}: {ours.status_.value}"
    return table


def main() -> None:
    console = Console()
    tasks = [digits(), clusters()]
    console.print(f"Warming up on up to {WARM_UP_POINTS} points of each set: first use compiles the loops.")
    for task in tasks:
        warm_up(task)
    for task in tasks:
        console.print(f"\n[bold]{task.title}[/bold]: {len(task.X_train)} training points")
        console.print(comparison(task))
    console.print(
        "\nThe best possible objective lies between the dual and the primal value,"
        "\nso the gap proves how near to it the model is."
        "\n\nBoth libraries ran in this process, one after the other, on the same data with"
        "\nthe same C, gamma and tolerance; all else is each one's default. maxmargin uses"
        "\nall cores it may (see n_jobs), scikit-learn's SVC one."
    )


if __name__ == "__main__":
    main()
