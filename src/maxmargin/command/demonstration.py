"""``maxmargin demo``: scanned digits, a certificate, and what it means, in under a minute and 80 columns."""

from __future__ import annotations

import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ..estimators import SVC

__all__ = ["show"]

TEST_SHARE = 0.3


def show(quiet: bool) -> int:
    """Train on digits by two solvers and compare what they prove."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=0, stratify=y)
    print(f"Scanned digits: {len(X_train)} samples of {X.shape[1]} pixels to train on, {len(X_test)} to test.")
    print()
    print(f"{'solver':<16}{'seconds':>8}{'support vectors':>17}{'correct':>9}{'worst gap':>11}{'violation':>11}")
    for solver in ("auto", "smo", "interior-point"):
        started = time.perf_counter()
        model = SVC(C=10, solver=solver, verbose=not quiet and solver == "auto").fit(X_train, y_train)
        seconds = time.perf_counter() - started
        found, right = model.certificate_, model.score(X_test, y_test)
        print(
            f"{solver:<16}{seconds:>8.2f}{int(model.n_support_.sum()):>17}{right:>9.1%}"
            f"{found.relative_gap:>11.1e}{found.violation:>11.1e}",
            flush=True,
        )
    print()
    print("Each row is 45 machines, one for each pair of digits. The worst gap is proven:")
    print("no other model could lower an objective by a larger share. The first run of a")
    print("solver may also compile its inner loops; maxmargin warmup does that ahead.")
    return 0
