"""Models go to scikit-learn and come from it, and predict the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm

import maxmargin
from files.samples import data, target
from maxmargin.files import from_sklearn, to_sklearn

NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
KERNELS = ("linear", "poly", "rbf", "sigmoid")
CASES = [(name, kernel, k) for name in NAMES for kernel in KERNELS for k in (2, 3) if k == 2 or "SVC" in name]


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def samples(name, classes, sparse=False):
    X, y = data(classes, sparse)
    return (sp.csr_matrix(X) if sparse else X), (target(X) if name.endswith("R") else y)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("name", "kernel", "classes"), CASES)
def test_there_and_back(name, kernel, classes, sparse):
    X, y = samples(name, classes, sparse)
    params = {"kernel": kernel, "gamma": 0.3, "coef0": 0.5, "degree": 2}
    theirs = getattr(svm, name)(**params, **({"nu": 0.3} if "Nu" in name else {})).fit(X, y)
    ours = from_sklearn(theirs)
    assert type(ours) is getattr(maxmargin, name) and ours.gamma == 0.3
    np.testing.assert_allclose(values(ours, X), values(theirs, X), rtol=1e-6, atol=1e-9)
    again = to_sklearn(ours)
    assert type(again) is type(theirs)
    np.testing.assert_allclose(values(again, X), values(theirs, X), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(again.n_support_, theirs.n_support_)


@pytest.mark.parametrize("name", NAMES)
def test_ours_first(name):
    X, y = samples(name, 2)
    ours = getattr(maxmargin, name)(**({"nu": 0.3} if "Nu" in name else {})).fit(X, y)
    np.testing.assert_allclose(values(to_sklearn(ours), X), values(ours, X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "classes"), [("LinearSVC", 2), ("LinearSVC", 3), ("LinearSVR", 2)])
def test_linear_machines(name, classes):
    X, y = samples(name, classes)
    theirs = getattr(svm, name)().fit(X, y)
    ours = from_sklearn(theirs)
    np.testing.assert_allclose(values(ours, X), values(theirs, X), rtol=1e-9)
    np.testing.assert_allclose(values(to_sklearn(ours), X), values(theirs, X), rtol=1e-9)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
def test_linear_machines_without_an_intercept(name):
    """scikit-learn has one 0 for all classes."""
    X, y = samples(name, 3)
    theirs = getattr(svm, name)(fit_intercept=False).fit(X, y)
    ours = from_sklearn(theirs)
    np.testing.assert_allclose(values(ours, X), values(theirs, X), rtol=1e-9)
    np.testing.assert_allclose(values(to_sklearn(ours), X), values(theirs, X), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities(classes):
    X, y = data(classes)
    ours = maxmargin.SVC(probability=True).fit(X, y)
    theirs = to_sklearn(ours)
    assert theirs._probA.tolist() == ours.probA_.tolist()
    again = from_sklearn(theirs)
    np.testing.assert_allclose(again.predict_proba(X), ours.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        maxmargin.SVC(probability=True, calibration="isotonic"),
        maxmargin.LinearSVC(probability=True),
        maxmargin.SVR(probability=True),
        maxmargin.OneClassSVM(probability=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_probabilities_that_are_left_out_are_told(model):
    X, y = data(3)
    model.fit(X, y)
    with pytest.warns(UserWarning, match="probabilities are not; use maxmargin.files.save"):
        theirs = to_sklearn(model)
    assert not hasattr(theirs, "predict_proba")
    np.testing.assert_allclose(values(theirs, X), values(model, X), rtol=1e-6, atol=1e-9)


def test_precomputed():
    X, y = data()
    theirs = svm.SVC(kernel="precomputed").fit(X @ X.T, y)
    np.testing.assert_allclose(values(from_sklearn(theirs), X @ X.T), values(theirs, X @ X.T), rtol=1e-9)
    np.testing.assert_allclose(values(to_sklearn(from_sklearn(theirs)), X @ X.T), values(theirs, X @ X.T), rtol=1e-9)


def test_what_cannot_be_said_is_an_error():
    X, y = data()
    with pytest.raises(TypeError, match="PSVC"):
        to_sklearn(maxmargin.PSVC().fit(X, y))
    with pytest.raises(TypeError, match="laplacian"):
        to_sklearn(maxmargin.SVC(kernel="laplacian").fit(X, y))
    with pytest.raises(TypeError, match="DecisionTree"):
        from sklearn.tree import DecisionTreeClassifier

        from_sklearn(DecisionTreeClassifier().fit(X, y))
