"""The Potential SVM in four pictures: units, support against ε, the path, an indefinite similarity.

python examples/psvm.py [docs/images/psvm.png]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.svm import SVC

from maxmargin import PSVC, PSVR


def units(axes) -> None:
    """A feature in other units: what the distances of an SVM see, and what a Potential SVM sees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    shares = []
    factors = 10.0 ** np.arange(-3, 4)
    for factor in factors:
        Z = X * [1.0, factor]
        potential = PSVC(kernel="dyadic").fit(Z, y).decision_function(Z)
        standard = SVC(kernel="linear").fit(Z, y).decision_function(Z)
        shares.append((np.mean((potential > 0) == (y > 0)), np.mean((standard > 0) == (y > 0))))
    axes.semilogx(factors, np.array(shares)[:, 0], "o-", label="Potential SVM")
    axes.semilogx(factors, np.array(shares)[:, 1], "s--", label="linear SVC")
    axes.set(title="One of two features in other units", xlabel="factor", ylabel="training accuracy")
    axes.legend()


def support(left, right) -> None:
    """How many columns a machine stands on, and which."""
    X, y = load_diabetes(return_X_y=True)
    path = PSVR(kernel="rbf").path(X, y)
    left.loglog(path.epsilons, path.n_support, ".-")
    left.set(title="Columns that a machine stands on", xlabel="ε (standard errors)", ylabel="of 442")
    path = PSVR(kernel="dyadic", C=np.inf).path(X, y)
    for column in path.alphas.T:
        right.semilogx(path.epsilons, column)
    right.set(title="The path of ten features", xlabel="ε (standard errors)", ylabel="α")


def distance(a: str, b: str) -> float:
    """Edits that turn one word into the other."""
    row = np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, z in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != z))
    return float(row[-1])


def similarity(A, B):
    return np.array([[-distance(a, b) for b in B] for a in A])


def words(axes) -> None:
    """Words of two made languages, told apart by their edit distances."""
    rng = np.random.default_rng(1)
    parts = {1: ["ka", "ri", "no", "mi", "ta"], -1: ["str", "ung", "ach", "kel", "wer"]}
    y = np.repeat([1, -1], 40)
    X = np.array(["".join(rng.choice(parts[int(c)], rng.integers(2, 5))) for c in y])
    model = PSVC(kernel=similarity, epsilon=1.0).fit(X[::2], y[::2])
    values = np.linalg.eigvalsh(similarity(X, X))
    axes.bar(range(len(values)), np.sign(values) * np.log1p(np.abs(values)))
    axes.set(
        title=f"Eigenvalues of −edit distance: {model.score(X[1::2], y[1::2]):.0%} right on new words\n"
        f"with {model.n_support_} of 40 words: {', '.join(X[::2][model.support_][:4])} …",
        ylabel="sign(λ) log(1 + |λ|)",
    )


def main() -> None:
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    units(axes[0, 0])
    support(axes[0, 1], axes[1, 0])
    words(axes[1, 1])
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "docs/images/psvm.png", dpi=80)


if __name__ == "__main__":
    main()
