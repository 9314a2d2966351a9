"""A predictor read from a model file decides as the estimator of the same file does, without scikit-learn."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from files.samples import KERNELS, MACHINES, data, target
from maxmargin import LinearOneClassSVM, LinearSVC, LinearSVR
from maxmargin.files import FileError, load_model, load_predictor, save, save_liblinear, save_libsvm, write_svmlight
from maxmargin.files.parts import LinearParts, MisfitError, Predictor

CASES = [(name, k) for name in MACHINES for k in (2, 3) if k == 2 or "SVC" in name]


def fitted(machine, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(X, y)


@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
@pytest.mark.parametrize(("name", "classes"), CASES)
def test_kernel_machines(name, classes, kernel, tmp_path):
    X, y = data(classes)
    rows = X @ X.T if kernel == "precomputed" else X
    model = MACHINES[name](kernel=kernel, gamma=0.3, coef0=0.5, degree=2)
    save_libsvm(fitted(model, rows, target(X) if "R" in name else y), tmp_path / "model")
    estimator, predictor = load_model(tmp_path / "model"), load_predictor(tmp_path / "model")
    given = rows[:, : estimator.n_features_in_] if kernel == "precomputed" else sp.csr_matrix(rows)
    np.testing.assert_array_equal(predictor.predict(given), estimator.predict(given))
    assert predictor.n_features_in_ == estimator.n_features_in_


@pytest.mark.parametrize(
    ("machine", "classes"),
    [(LinearSVC(), 2), (LinearSVC(), 3), (LinearSVC(multi_class="crammer_singer"), 3), (LinearSVR(), 0)]
    + [(LinearOneClassSVM(nu=0.2), 0)],
    ids=["two", "three", "crammer_singer", "LinearSVR", "LinearOneClassSVM"],
)
def test_linear_machines(machine, classes, tmp_path):
    X, y = data(classes or 2)
    save_liblinear(fitted(machine, X, y if classes else target(X)), tmp_path / "model")
    given = sp.csr_matrix(X)
    found = load_predictor(tmp_path / "model").predict(given)
    np.testing.assert_array_equal(found, load_model(tmp_path / "model").predict(given))


def test_more_features_than_the_model_has(tmp_path):
    X, y = data(3)
    save_libsvm(MACHINES["SVC"]().fit(X, y), tmp_path / "model")
    predictor = load_predictor(tmp_path / "model")
    before = predictor.predict(sp.csr_matrix(X))
    predictor.widen(X.shape[1] + 7)
    wide = sp.csr_matrix(np.hstack([X, np.zeros((len(X), 7))]))
    np.testing.assert_array_equal(predictor.predict(wide), before)


def test_our_own_format_is_left_to_the_estimators(tmp_path):
    X, y = data(2)
    save(MACHINES["SVC"]().fit(X, y), tmp_path / "model.mm")
    assert load_predictor(tmp_path / "model.mm") is None


def test_a_damaged_file_is_an_error_here_too(tmp_path):
    X, y = data(3)
    save_libsvm(MACHINES["SVC"]().fit(X, y), tmp_path / "model")
    text = (tmp_path / "model").read_text().replace("label -2 3 7", "label -2 3 3")
    (tmp_path / "model").write_text(text)
    with pytest.raises(FileError, match="different classes was asked for; found some twice"):
        load_predictor(tmp_path / "model")
    with pytest.raises(MisfitError, match="finite weights"):
        Predictor(LinearParts("LinearSVR", {}, np.array([[np.nan]]), np.zeros(1)))


def test_the_command_predicts_without_scikit_learn(tmp_path):
    X, y = data(3)
    write_svmlight(tmp_path / "data", X, y)
    save_libsvm(MACHINES["SVC"]().fit(X, y), tmp_path / "model")
    code = (
        "import sys; from maxmargin.command import main; code = main(sys.argv[1:]); "
        "print('heavy:', [m for m in ('sklearn', 'scipy.spatial', 'maxmargin.solvers') if m in sys.modules], code)"
    )
    words = ["predict", tmp_path / "data", tmp_path / "model", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: [] 0"
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), load_model(tmp_path / "model").predict(X))
