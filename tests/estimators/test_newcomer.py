"""What people try in their first hour: other kinds of samples, tables, stores, notebooks, names and messages."""

import io
import logging
import pickle
import re
import subprocess
import sys
import tomllib
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC as TheirSVC

import maxmargin
from maxmargin import (
    PSVC,
    SVC,
    SVDD,
    SVR,
    Decomposition,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Status,
)
from maxmargin.monitor import Display, Logged, Monitor, Notebook, Terminal, display

ROOT = Path(__file__).parents[2]


def by_hand(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


# -- kernels on anything ------------------------------------------------------------------------------------------


def spectrum(left, right):
    """Pairs of letters that two words share, normalised."""

    def count(words):
        grams = [f"{a}{b}" for a in "abc" for b in "abc"]
        return np.array([[word.count(gram) for gram in grams] for word in words], float) + 1e-3

    one, two = count(left), count(right)
    norms = np.outer(np.linalg.norm(one, axis=1), np.linalg.norm(two, axis=1))
    return one @ two.T / norms


def words(n=30, seed=0):
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(list("aab" if k % 2 else "bcc"), 8)) for k in range(n)]
    return made, [k % 2 for k in range(n)]


def test_a_kernel_of_strings_does_what_scikit_learn_does():
    X, y = words()
    ours, theirs = SVC(kernel=spectrum, tol=1e-6).fit(X, y), TheirSVC(kernel=spectrum, tol=1e-6).fit(X, y)
    test, _ = words(seed=1)
    np.testing.assert_allclose(ours.decision_function(test), theirs.decision_function(test), atol=1e-4)
    assert ours.score(X, y) == 1.0
    assert not hasattr(ours, "n_features_in_")


def test_a_kernel_gets_samples_as_they_were_given():
    seen = set()

    def kernel(left, right):
        seen.update({type(left), type(right)})
        return spectrum(left, right)

    X, y = words()
    for given in (X, tuple(X), np.array(X), np.array(X, object)):
        seen.clear()
        model = SVC(kernel=kernel).fit(given, y)
        assert model.predict(given).tolist() == y
        assert seen <= ({np.ndarray} if isinstance(given, np.ndarray) else {list, tuple})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("machine", [SVC, NuSVC])
def test_objects_of_several_classes_with_weights(machine, classes):
    """Sets of numbers of unequal size, compared by how many they share; a weight of 0 is absence."""

    def shared(left, right):
        return np.array([[len(a & b) / np.sqrt(len(a) * len(b)) for b in right] for a in left])

    rng = np.random.default_rng(0)
    y = np.arange(36) % classes
    X = [frozenset((10 * c + rng.integers(0, 9, 6)).tolist()) for c in y]
    weight = np.r_[np.zeros(6), np.ones(30)]
    model = machine(kernel=shared).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict(X), y)
    alone = machine(kernel=shared).fit(X[6:], y[6:])
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-8)
    assert model.support_.min() >= 6


def test_series_of_equal_length_are_objects_too():
    X = np.random.default_rng(0).normal(size=(40, 7, 2)) + (np.arange(40) % 2)[:, None, None]

    def kernel(left, right):
        return np.exp(-0.05 * ((left[:, None] - right[None]) ** 2).sum(axis=(2, 3)))

    y = np.arange(40) % 2
    assert SVC(kernel=kernel).fit(X, y).score(X, y) > 0.9
    assert cross_val_score(SVC(kernel=kernel), X, y, error_score="raise").mean() > 0.7


def test_every_machine_with_a_kernel_takes_objects():
    X, y = words()
    for machine in (SVR(kernel=spectrum), NuSVR(kernel=spectrum), OneClassSVM(kernel=spectrum), SVDD(kernel=spectrum)):
        model = machine.fit(X, np.asarray(y, float))
        assert model.status_.converged
        assert model.predict(X).shape == (30,)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_objects_in_a_search():
    X, y = words()
    search = GridSearchCV(SVC(kernel=spectrum), {"C": [0.1, 10]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


def test_parametric_functions_get_objects_as_they_were_given():
    X, y = words()
    model = SVR(kernel=spectrum, parametric=[lambda made: np.array([float(w.count("a")) for w in made])])
    model.fit(X, np.array([w.count("a") for w in X], float))
    np.testing.assert_allclose(model.parametric_coef_, 1.0, atol=0.1)


def test_numbers_are_still_checked():
    X, y = by_hand()
    with pytest.raises(ValueError, match="NaN"):
        SVC(kernel=lambda a, b: a @ b.T).fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        SVC().fit(["ab", "cd"], [0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC(kernel=spectrum).fit(["ab", "cd", "ef"], [0, 1])


# -- tables -------------------------------------------------------------------------------------------------------


def test_a_kernel_of_a_table_with_words_in_it():
    pandas = pytest.importorskip("pandas")
    X, y = by_hand()
    table = pandas.DataFrame({"x": X[:, 0], "colour": np.where(y, "red", "blue")})

    def kernel(left, right):
        same = np.asarray(left["colour"])[:, None] == np.asarray(right["colour"])
        return same + np.exp(-((np.asarray(left["x"])[:, None] - np.asarray(right["x"])) ** 2))

    model = SVC(kernel=kernel).fit(table, y)
    assert model.score(table, y) == 1.0
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["x", "colour"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"x": "z"}))


@pytest.mark.parametrize("machine", [SVC, SVR, LinearSVC, LinearSVR])
def test_parametric_functions_get_a_table_with_its_names(machine):
    pandas = pytest.importorskip("pandas")
    X, y = by_hand()
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    weight = np.r_[np.zeros(5), np.ones(55)]
    named = machine(parametric=[lambda t: t["b"]]).fit(table, y, sample_weight=weight)
    plain = machine(parametric=[lambda t: t[:, 1]]).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(named.predict(table), plain.predict(X))
    chosen = machine(parametric=ColumnTransformer([("b", "passthrough", ["b"])])).fit(table, y, sample_weight=weight)
    np.testing.assert_allclose(chosen.predict(table), plain.predict(X))


def test_a_history_becomes_a_table():
    pandas = pytest.importorskip("pandas")
    X, y = by_hand()
    history = SVC().fit(X, y).history_
    table = pandas.DataFrame(history)
    assert tuple(table.columns) == history.columns
    assert len(table) == len(history) > 0
    np.testing.assert_array_equal(table["violation"], history.column("violation"))


# -- stores -------------------------------------------------------------------------------------------------------


def test_a_status_reads_as_a_sentence_and_is_stored_by_name():
    X, y = by_hand()
    model = SVC().fit(X, y)
    assert str(model.status_) == f"{model.status_}" == "the solution meets the tolerance"
    for status in Status:
        stored = pickle.dumps(status)
        assert status.name.encode() in stored
        assert status.value.encode() not in stored
        assert pickle.loads(stored) is status
        assert status.__reduce__() == (Status, (status.name,))


@pytest.mark.parametrize(
    "machine", [SVC(), NuSVC(), SVR(), OneClassSVM(), SVDD(), LinearSVC(), LinearSVR(), PSVC()], ids=repr
)
def test_skops_round_trip(machine):
    stores = pytest.importorskip("skops.io")
    X, y = by_hand()
    model = machine.fit(X, y)
    data = stores.dumps(model)
    strange = stores.get_untrusted_types(data=data)
    assert all(name.startswith("maxmargin.") for name in strange)
    again = stores.loads(data, trusted=strange)
    assert again.status_ is model.status_
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# -- one row ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC(), SVR(), LinearSVC(), OneClassSVM()], ids=repr)
def test_a_row_is_checked_as_many_are(machine):
    """A few rows go a shorter way, at the end of which they are the same."""
    X, y = by_hand()
    model = machine.fit(X, y)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(alone, model.predict(X)[:20])
    np.testing.assert_allclose(model.predict(X[:1].tolist()), alone[:1])
    np.testing.assert_allclose(model.predict(X[:1].astype(np.float32)), alone[:1], atol=1e-5)
    for bad, message in (
        (np.full((1, 3), np.nan), "NaN"),
        (np.full((1, 3), np.inf), "infinity"),
        (X[:1, :2], "2 features"),
        (X[0], "Expected 2D array"),
        (X[:0], "0 sample"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(bad)


# -- names --------------------------------------------------------------------------------------------------------


def test_every_solver_can_be_imported():
    for solver in maxmargin.SOLVERS.values():
        assert getattr(maxmargin, solver.__name__) is solver
        assert solver.__name__ in maxmargin.__all__


def test_options_of_a_solver_are_parameters():
    X, y = by_hand()
    given = Decomposition()
    model = SVC(solver=given).set_params(solver__working_set=16, C=2.0)
    assert (model.solver.working_set, model.C) == (16, 2.0)
    assert given.working_set != 16  # somebody else's
    assert model.get_params()["solver__working_set"] == 16
    assert "solver__working_set" not in model.get_params(deep=False)
    assert clone(model).solver.working_set == 16
    assert clone(model).fit(X, y).status_.converged
    named = SVC(solver="decomposition").set_params(solver__working_set=16)
    assert isinstance(named.solver, Decomposition)
    search = GridSearchCV(SVC(solver="decomposition"), {"solver__working_set": [8, 32]}, cv=2).fit(X, y)
    assert search.best_params_["solver__working_set"] in (8, 32)
    with pytest.raises(ValueError, match="found solver='auto', which has none; name a solver"):
        SVC().set_params(solver__working_set=16)
    with pytest.raises(
        ValueError, match="an option of Decomposition was asked for; found 'working'; choose .*working_set"
    ):
        SVC(solver=Decomposition()).set_params(solver__working=16)


def test_messages_name_what_was_given_and_what_is_possible():
    X, y = by_hand()
    for model, parts in {
        SVC(C=-1): ("C=-1", "give C > 0"),
        SVC(kernel="rbff"): ("kernel='rbff'", "did you mean 'rbf'?", "'laplacian'"),
        SVR(solver="smo", parametric=[lambda x: x[:, 0]]): ('"smo"', "2 equality constraints", 'use solver="mpd"'),
        LinearSVC(penalty="l3"): ("penalty='l3'", "choose 'l2'"),
    }.items():
        with pytest.raises(ValueError) as told:
            model.fit(X, y)
        for part in parts:
            assert part in str(told.value)


def test_types_and_classifiers():
    assert (Path(maxmargin.__file__).parent / "py.typed").is_file()
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    for minor in (11, 12, 13, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in said


# -- progress -----------------------------------------------------------------------------------------------------


def test_fits_in_a_pipe_have_lines_of_their_own():
    code = (
        "from sklearn.datasets import load_breast_cancer, load_iris; from maxmargin import SVC, LinearSVC\n"
        "X, y = load_iris(return_X_y=True)\n"
        "for machine in (SVC(C=10, verbose=True), LinearSVC(verbose=1)): machine.fit(X[50:], y[50:])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if " s  step " in line]
    assert len(lines) >= 2
    assert all(line.count(" s  step ") == 1 for line in lines)
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    assert done.stdout == ""


class Tty(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_fits(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Tty())
    monkeypatch.setenv("COLUMNS", "60")
    assert isinstance(display(), Terminal)
    with Monitor(verbose=True, label="one v two") as monitor:
        for step in range(3):
            monitor.step(step, -1.0, 0.5, active=42, kernel_evals=10**6, primal=3.0)
    shown = sys.stderr.getvalue()
    assert shown.endswith("\n") and shown.count("\n") == 1
    assert all(len(re.sub(r"\x1b\[K", "", line)) < 60 for line in shown.strip().split("\r"))
    assert "objective 1 … 3" in shown
    assert "gap 6.7e-01" in shown


def test_a_notebook_needs_no_widgets(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    def show(content, raw, display_id):
        shown.append(content["text/plain"])
        return handle

    shell = types.SimpleNamespace(kernel=object())
    ipython, displays = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython, displays.display = (lambda: shell), show
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    assert isinstance(display(), Notebook)
    X, y = load_iris(return_X_y=True)
    SVC(verbose=True).fit(X[50:], y[50:])
    assert shown and " s  step " in shown[-1]
    shell.kernel = None  # IPython in a terminal
    assert not isinstance(display(), Notebook)


def test_progress_goes_to_those_who_listen(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        assert isinstance(display(), Logged)
        with Monitor(verbose=True) as monitor:
            monitor.step(17, -1.25, 0.5)
    assert "step 17" in caplog.text
    assert capsys.readouterr().err == ""


def test_else_progress_is_lines(monkeypatch, capsys):
    assert type(display()) is Display


@pytest.mark.parametrize("steps", (20, 100, 200, 400))
def test_an_early_stop_says_whether_its_model_can_be_used(steps):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(match="stopped early") as said:
        model = SVC(C=10, solver="smo", max_iter=steps).fit(X, y)
    near = model.certificate_.relative_gap < 0.03  # from there on a fit that has met its tol gets a word, too
    assert near == (steps > 150)  # both answers are tried
    assert ("can be used as it is" in str(said[0].message)) == near
    assert ("do not rely on it" in str(said[0].message)) != near


def test_a_gap_that_bounds_nothing_is_said_to_be_none():
    """Coefficients that miss a constraint have a dual value that is no bound."""
    model = SVC().fit([[0.0], [1.0]], [0, 1])
    model.status_ = Status.STALLED
    model.certificate_ = replace(model.certificate_, infeasibility=9e-9)
    with pytest.warns(match=r"Constraints are missed by 9e-09 of their terms, so that the gap bounds nothing\. .*rely"):
        model._speak()
