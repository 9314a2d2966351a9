"""Displays: what they are made of and that they draw it, without a screen."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM, PSVMSelector

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from maxmargin import plots  # noqa: E402


@pytest.fixture(autouse=True, params=["default", "dark_background"])
def style(request):
    with plt.style.context(request.param):
        yield request.param
    plt.close("all")


def drawn(display) -> np.ndarray:
    """The picture, which must be more than an empty page."""
    display.figure_.canvas.draw()
    picture = np.asarray(display.figure_.canvas.buffer_rgba())
    assert len(np.unique(picture.reshape(-1, 4), axis=0)) > 20
    return picture


def moons():
    return make_moons(120, noise=0.25, random_state=0)


def test_margins_of_two_classes():
    X, y = moons()
    model = SVC(C=3, gamma=1.0).fit(X, y)
    display = plots.MarginDisplay.from_estimator(model, X, y, resolution=40)
    drawn(display)
    assert display.values.shape == (40, 40)
    assert np.flatnonzero(display.support).tolist() == sorted(model.support_)
    np.testing.assert_allclose(display.points, X)
    at = np.column_stack([display.xx.ravel(), display.yy.ravel()])  # the grid is where the axes say it is
    np.testing.assert_allclose(display.values.ravel(), model.decision_function(at), atol=1e-9)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("feature 0", "feature 1")


def test_margins_of_several_classes_in_a_plane_through_more_features():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = SVC().fit(X, y)
    drawn(plots.MarginDisplay.from_estimator(model, X, y, resolution=30))
    display = plots.MarginDisplay.from_estimator(
        model, X, y, features=["petal length (cm)", "petal width (cm)"], resolution=30
    )
    drawn(display)
    assert display.ax_.get_xlabel() == "petal length (cm)"
    np.testing.assert_allclose(display.points, X.iloc[:, [2, 3]])
    middle = np.tile(X.mean().to_numpy(), (900, 1))  # the other features are held at their means
    middle[:, 2:] = np.column_stack([display.xx.ravel(), display.yy.ravel()])
    np.testing.assert_array_equal(display.chosen.ravel(), model.predict(type(X)(middle, columns=X.columns)))
    with pytest.raises(ValueError, match="two features were asked for; found features="):
        plots.MarginDisplay.from_estimator(model, X, y, features=[0, 7])


@pytest.mark.parametrize("machine", [SVR(), LinearSVR(), OneClassSVM(nu=0.1), LinearSVC()], ids=repr)
def test_margins_of_other_machines(machine):
    X, y = moons()
    drawn(plots.MarginDisplay.from_estimator(machine.fit(X, y), X, y, resolution=20))
    drawn(plots.MarginDisplay.from_estimator(machine.fit(X, y), X, resolution=20))


def test_convergence_of_one_fit_and_of_several():
    X, y = make_moons(1500, noise=0.3, random_state=0)
    models = [SVC(C=100, solver=solver).fit(X, y) for solver in ("smo", "interior-point")]
    display = plots.ConvergenceDisplay.from_estimator(models[0])
    drawn(display)
    assert len(display.axes_) == 2
    assert display.axes_[1].get_yscale() == "log"
    both = plots.ConvergenceDisplay.from_estimator(*models)
    drawn(both)
    assert both.labels == ["smo", "interior-point"]
    end = np.isfinite(both.primal[0]) & np.isfinite(both.dual[0])
    assert (both.primal[0][end] >= both.dual[0][end] * (1 - 1e-9)).all()
    X, y = load_iris(return_X_y=True)
    drawn(plots.ConvergenceDisplay.from_estimator(SVC(kernel="poly").fit(X, y)))


def test_small_fits_show_violations_where_gaps_would_be_dots():
    X, y = moons()
    display = plots.ConvergenceDisplay.from_estimator(*[SVC(C=100, solver=s).fit(X, y) for s in ("smo", "mpd")])
    drawn(display)
    assert display.ax_.get_ylabel() == "largest violation"
    assert all(len(line.get_xdata()) > 1 for line in display.ax_.get_lines())


def test_a_path():
    X, y = load_breast_cancer(return_X_y=True)
    path = LinearSVC(penalty="l1").path(StandardScaler().fit_transform(X), y, np.logspace(-3, 0, 6))
    display = plots.PathDisplay.from_path(path)
    drawn(display)
    assert display.ax_.get_xscale() == "log"
    X, y = load_iris(return_X_y=True)
    several = LinearSVC().path(X, y, [0.1, 1.0])
    drawn(plots.PathDisplay.from_path(several, names=list("abcd"), problem=2))


def test_a_kernel():
    X, y = moons()
    for kernel, positive in (("rbf", True), ("linear", False), (lambda a, b: a @ b.T, False)):
        display = plots.KernelDisplay.from_estimator(SVC(kernel=kernel).fit(X, y), X, y)
        drawn(display)
        np.testing.assert_allclose(display.K, display.K.T, atol=1e-12)
        assert (display.K >= 0).all() == positive
        assert display.edges.tolist() == [60, 120]
        order = np.argsort(y, kind="stable")
        if kernel == "linear":
            np.testing.assert_allclose(display.K, X[order] @ X[order].T, atol=1e-9)
    K = X @ X.T
    drawn(plots.KernelDisplay.from_estimator(SVC(kernel="precomputed").fit(K, y), K))


def test_ranks_of_features():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    Z = type(X)(StandardScaler().fit_transform(X), columns=X.columns)
    model = LinearSVC(penalty="l1", C=0.05).fit(Z, y)
    display = plots.FeatureRankDisplay.from_estimator(model)
    drawn(display)
    assert len(display.names) == np.count_nonzero(model.coef_)
    assert (np.diff(display.importance) <= 0).all()
    assert display.names[0] == X.columns[np.abs(model.coef_[0]).argmax()]
    drawn(plots.FeatureRankDisplay.from_estimator(PSVMSelector().fit(Z, y)))
    with pytest.raises(ValueError, match="importance of features was asked for; found OneClassSVM"):
        plots.FeatureRankDisplay.from_estimator(OneClassSVM().fit(Z))


def test_a_search():
    X, y = moons()
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}
    search = GridSearchCV(SVC(), grid, cv=2).fit(X, y)
    display = plots.CVDisplay.from_search(search)
    drawn(display)
    assert display.names == ("C", "gamma")
    assert display.scores.shape == (3, 2)
    assert np.nanmax(display.scores) == pytest.approx(search.best_score_)
    with pytest.raises(ValueError, match="two parameters were asked for"):
        plots.CVDisplay.from_search(GridSearchCV(SVC(), {"C": [1.0, 2.0]}, cv=2).fit(X, y))


def test_a_search_over_words_by_several_scores():
    X, y = moons()
    grid = [{"C": [10.0, 1.0], "kernel": ["rbf", "linear"]}, {"C": [1.0], "kernel": ["poly"], "degree": [2, 3]}]
    search = GridSearchCV(SVC(), grid, cv=2, scoring=["accuracy", "f1"], refit="f1").fit(X, y)
    display = plots.CVDisplay.from_search(search, x="kernel")
    drawn(display)
    assert (display.rows, display.columns) == ([1.0, 10.0], ["rbf", "linear", "poly"])
    assert np.nanmax(display.scores) == pytest.approx(search.best_score_)
    assert np.isnan(display.scores[1, 2])
    drawn(plots.CVDisplay.from_search(GridSearchCV(SVC(), {"C": [1.0, 2.0], "gamma": ["scale", 0.1]}).fit(X, y)))
    unsure = GridSearchCV(SVC(), grid, cv=2, scoring=["accuracy", "f1"], refit=False).fit(X, y)
    with pytest.raises(ValueError, match="found accuracy, f1 and refit=False; give refit="):
        plots.CVDisplay.from_search(unsure, x="kernel")


def test_axes_that_were_given_are_used_and_models_must_be_fitted():
    X, y = moons()
    figure, ax = plt.subplots()
    display = plots.MarginDisplay.from_estimator(SVC().fit(X, y), X, y, resolution=10, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    with pytest.raises(NotFittedError):
        plots.MarginDisplay.from_estimator(SVC(), X, y)


def test_without_matplotlib_a_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"found no matplotlib; install it: pip install 'maxmargin\[plot\]'"):
        plots._axes(None)
