"""scikit-learn's callbacks are called at the begin and the end of a fit, alone and in a search."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import SVC, SVR, LinearSVC, OneClassSVM

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")

X, Y = load_iris(return_X_y=True)


class Ear:
    """Writes down what it is told."""

    max_propagation_depth = None

    def __init__(self):
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append(("setup", type(estimator).__name__))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.heard.append(("begin", type(estimator).__name__, X is not None))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        found = fitted_estimator.predict(X[:2]).shape if hasattr(fitted_estimator, "predict") else None
        self.heard.append(("end", type(estimator).__name__, found))

    def teardown(self, estimator, context):
        self.heard.append(("teardown", type(estimator).__name__))


@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM(), LinearSVC(C=0.1)], ids=str)
def test_a_fit_is_a_task(machine):
    ear, name = Ear(), type(machine).__name__
    model = clone(machine).set_callbacks(ear)
    assert model.fit(X, Y) is model
    assert ear.heard == [("setup", name), ("begin", name, True), ("end", name, (2,)), ("teardown", name)]
    plain = clone(machine).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert not any(word.startswith("_callback") for word in vars(model))


def test_a_fit_that_fails_is_torn_down():
    ear = Ear()
    with pytest.raises(ValueError):
        SVC(C=-1).set_callbacks(ear).fit(X, Y)
    assert [word for word, *_ in ear.heard] == ["setup", "begin", "teardown"]


def test_those_of_a_search_and_a_pipeline_reach_the_machine():
    ear = Ear()
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10]}, cv=2).set_callbacks(ear)
    search.fit(X, Y)
    begun = [word for word in ear.heard if word[:2] == ("begin", "SVC")]
    ended = [word for word in ear.heard if word[:2] == ("end", "SVC")]
    assert len(begun) == len(ended) == 5  # two costs and two folds, and the best of them once more


def test_nothing_else_changes():
    for name in ("SVC", "SVR", "LinearSVC", "OneClassSVM", "PSVC"):
        cls = getattr(maxmargin, name)
        assert list(inspect.signature(cls.fit).parameters)[:2] == ["self", "X"]
    model = pickle.loads(pickle.dumps(SVC().fit(X, Y)))
    assert "_skl_callbacks" not in vars(copy.deepcopy(model))
    weighted = SVC().fit(X, Y, np.ones(len(X)))
    np.testing.assert_array_equal(weighted.predict(X), model.predict(X))
    with pytest.raises(TypeError, match="FitCallback"):
        SVC().set_callbacks("loud")
