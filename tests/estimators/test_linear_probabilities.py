"""Probabilities of LinearSVC: calibrated on folds, agreeing with predict, kept in files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.metrics import log_loss

from maxmargin import LinearSVC, load, save
from maxmargin.estimators.calibration import CALIBRATIONS

X, Y = make_classification(n_samples=600, n_features=8, n_informative=5, flip_y=0.2, class_sep=0.7, random_state=0)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("options", [{}, {"loss": "hinge"}, {"intercept_scaling": 1.0}], ids=str)
def test_two_classes(calibration, options):
    model = LinearSVC(probability=True, calibration=calibration, **options).fit(X[:400], Y[:400])
    p = model.predict_proba(X[400:])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p.argmax(axis=1), model.predict(X[400:]))
    theirs = CalibratedClassifierCV(LinearSVC(**options), ensemble=False).fit(X[:400], Y[:400])
    assert log_loss(Y[400:], p) < 1.1 * log_loss(Y[400:], theirs.predict_proba(X[400:]))
    assert len(model.probA_) == (calibration != "isotonic")
    plain = LinearSVC(**options).fit(X[:400], Y[:400])
    np.testing.assert_array_equal(model.coef_, plain.coef_)  # the function is that without probabilities


def test_the_sigmoid_is_the_one_of_decisions_that_have_not_seen_the_samples():
    """Scores of the training itself would be too sure of themselves."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(80, 200))  # as many features as fit anything
    y = rng.integers(0, 2, 80)
    p = LinearSVC(probability=True).fit(wide, y).predict_proba(wide)
    assert np.abs(p - 0.5).max() < 0.35


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_several_classes(form):
    D, labels = load_digits(return_X_y=True)
    model = LinearSVC(C=0.01, probability=True).fit(form(D[:900]), labels[:900])
    p = model.predict_proba(form(D[900:]))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(form(D[900:])))
    assert log_loss(labels[900:], p) < 0.6
    np.testing.assert_allclose(np.exp(model.predict_log_proba(form(D[900:905]))), p[:5])


def test_weights_are_copies():
    weight = np.random.default_rng(0).integers(0, 3, 300)
    once = LinearSVC(probability=True, tol=1e-10).fit(X[:300], Y[:300], weight)
    copies = LinearSVC(probability=True, tol=1e-10).fit(np.repeat(X[:300], weight, 0), np.repeat(Y[:300], weight))
    np.testing.assert_allclose(once.predict_proba(X), copies.predict_proba(X), atol=1e-5)


def test_rows_in_parts():
    model = LinearSVC(probability=True).fit([X[:200], X[200:]], Y)
    assert log_loss(Y, model.predict_proba(X)) < 0.65


def test_our_files_keep_them(tmp_path):
    A, y = load_breast_cancer(return_X_y=True)
    model = LinearSVC(probability=True, C=1e-3).fit(A, y)
    save(model, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_proba(A), model.predict_proba(A))


def test_what_has_none_says_so():
    assert not hasattr(LinearSVC().fit(X, Y), "predict_proba")
    for options in ({"penalty": "l1"}, {"multi_class": "crammer_singer"}):
        with pytest.raises(ValueError, match="found probability=True, which needs machines of folds"):
            LinearSVC(probability=True, **options).fit(X, Y)
    with pytest.raises(ValueError, match="calibration"):
        LinearSVC(probability=True, calibration="platt").fit(X, Y)
