"""Real LIBSVM and LIBLINEAR programs read what we write, and we what they write, with the same predictions."""

from __future__ import annotations

import shutil
import subprocess
import warnings

import numpy as np
import pytest

from files.samples import KERNELS, MACHINES, data, target
from maxmargin import SVC, SVR, LinearSVC, LinearSVR
from maxmargin.files import (
    Ranges,
    libsvm_probabilities,
    load_liblinear,
    load_libsvm,
    read_ranges,
    read_svmlight,
    save_liblinear,
    save_libsvm,
    write_ranges,
    write_svmlight,
)

NUMBERS = {name: str(number) for number, name in enumerate(MACHINES)}
libsvm = pytest.mark.skipif(shutil.which("svm-train") is None, reason="LIBSVM's programs (libsvm-tools) are missing")
liblinear = pytest.mark.skipif(
    shutil.which("liblinear-train") is None, reason="LIBLINEAR's programs (liblinear-tools) are missing"
)
CASES = [(name, k) for name in MACHINES for k in (2, 3) if k == 2 or "SVC" in name]
LINEAR = [(s, k) for s in range(8) for k in (2, 3)] + [(11, 2), (12, 2), (13, 2)]
DIGITS = 1e-5  # LIBSVM writes 8 digits of support vectors, and reads our 17


def run(*command) -> str:
    found = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def samples(tmp_path, classes=2, regression=False):
    X, y = data(classes)
    write_svmlight(tmp_path / "data", X, target(X) if regression else y)
    return X, target(X) if regression else y


def theirs(tmp_path, *options) -> np.ndarray:
    run("svm-predict", *options, tmp_path / "data", tmp_path / "model", tmp_path / "out")
    return np.loadtxt(tmp_path / "out", skiprows=1 if "-b" in options else 0)


@libsvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("name", "classes"), CASES)
def test_svm_predict_reads_our_models(name, classes, kernel, tmp_path):
    X, y = samples(tmp_path, classes, "R" in name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MACHINES[name](kernel=kernel, gamma=0.3, coef0=0.5, degree=2).fit(X, y)
    save_libsvm(model, tmp_path / "model")
    np.testing.assert_allclose(theirs(tmp_path), model.predict(X), rtol=1e-9, atol=1e-9)


@libsvm
@pytest.mark.parametrize("kernel", range(4))
@pytest.mark.parametrize(("name", "classes"), CASES)
def test_we_read_the_models_of_svm_train(name, classes, kernel, tmp_path):
    X, _ = samples(tmp_path, classes, "R" in name)
    options = ["-s", NUMBERS[name], "-t", kernel, "-g", "0.3", "-r", "0.5", "-d", "2", "-n", "0.3"]
    run("svm-train", *options, tmp_path / "data", tmp_path / "model")
    model = load_libsvm(tmp_path / "model", n_features=X.shape[1])
    assert type(model).__name__ == name
    np.testing.assert_allclose(model.predict(X), theirs(tmp_path), rtol=DIGITS, atol=DIGITS)


@libsvm
def test_precomputed_kernels_both_ways(tmp_path):
    X, y = data(3)
    K = X @ X.T
    with open(tmp_path / "data", "w") as file:
        for serial, (label, row) in enumerate(zip(y, K.tolist(), strict=True), start=1):
            file.write(f"{label} 0:{serial} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row, start=1)) + "\n")
    run("svm-train", "-t", "4", tmp_path / "data", tmp_path / "model")
    model = load_libsvm(tmp_path / "model", n_features=len(K))
    assert (model.predict(K) == theirs(tmp_path)).all()
    ours = MACHINES["SVC"](kernel="precomputed").fit(K, y)
    save_libsvm(ours, tmp_path / "model")
    assert (ours.predict(K) == theirs(tmp_path)).all()


@libsvm
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_probabilities_of_their_models(name, classes, tmp_path):
    X, _ = samples(tmp_path, classes)
    run("svm-train", "-s", NUMBERS[name], "-b", "1", "-n", "0.3", tmp_path / "data", tmp_path / "model")
    model = load_libsvm(tmp_path / "model", n_features=X.shape[1])
    found = theirs(tmp_path, "-b", "1")
    labels = [int(word) for word in (tmp_path / "out").read_text().split("\n", 1)[0].split()[1:]]
    order = [model.classes_.tolist().index(label) for label in labels]
    np.testing.assert_allclose(libsvm_probabilities(model, X)[:, order], found[:, 1:], atol=1e-5)
    save_libsvm(model, tmp_path / "again")
    again = load_libsvm(tmp_path / "again")
    assert again.probA_.tolist() == model.probA_.tolist() and again.probB_.tolist() == model.probB_.tolist()


@libsvm
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_probabilities_of_our_models(name, classes, tmp_path):
    X, y = samples(tmp_path, classes)
    model = MACHINES[name](probability=True).fit(X, y)
    save_libsvm(model, tmp_path / "model")
    found = theirs(tmp_path, "-b", "1")
    labels = [int(word) for word in (tmp_path / "out").read_text().split("\n", 1)[0].split()[1:]]
    order = [model.classes_.tolist().index(label) for label in labels]
    np.testing.assert_allclose(libsvm_probabilities(model, X)[:, order], found[:, 1:], atol=1e-5)
    again = load_libsvm(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)


@libsvm
def test_widths_of_our_regressions(tmp_path):
    X, y = samples(tmp_path, regression=True)
    model = SVR(probability=True).fit(X, y)
    save_libsvm(model, tmp_path / "model")
    said = run("svm-predict", "-b", "1", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    assert f"sigma={model.probA_[0]:g}" in said
    assert load_libsvm(tmp_path / "model").probA_.tolist() == model.probA_.tolist()


@libsvm
@pytest.mark.parametrize("machine", [SVC, SVR])
def test_expansions_on_few_points(machine, tmp_path):
    X, y = samples(tmp_path, regression=machine is SVR)
    model = machine(expansion=12).fit(X, y)
    save_libsvm(model, tmp_path / "model")
    np.testing.assert_allclose(theirs(tmp_path), model.predict(X), rtol=1e-9, atol=1e-9)
    again = load_libsvm(tmp_path / "model")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)


@liblinear
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("name", "classes"), [("LinearSVC", 2), ("LinearSVC", 3), ("LinearSVR", 2)])
def test_predict_reads_our_linear_models(name, intercept, classes, tmp_path):
    X, y = samples(tmp_path, classes, "R" in name)
    model = {"LinearSVC": LinearSVC, "LinearSVR": LinearSVR}[name](fit_intercept=intercept).fit(X, y)
    save_liblinear(model, tmp_path / "model")
    run("liblinear-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), model.predict(X), rtol=1e-9, atol=1e-9)
    again = load_liblinear(tmp_path / "model")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)


@liblinear
@pytest.mark.parametrize("bias", ["-1", "1"])
@pytest.mark.parametrize(("solver", "classes"), LINEAR)
def test_we_read_linear_models(solver, classes, bias, tmp_path):
    X, _ = samples(tmp_path, classes, solver in (11, 12, 13))
    run("liblinear-train", "-s", solver, "-B", bias, tmp_path / "data", tmp_path / "model")
    run("liblinear-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    model = load_liblinear(tmp_path / "model")
    np.testing.assert_allclose(model.predict(X), np.loadtxt(tmp_path / "out"), rtol=1e-9, atol=1e-9)
    if solver in (0, 6, 7):
        run("liblinear-predict", "-b", "1", tmp_path / "data", tmp_path / "model", tmp_path / "out")
        found = np.loadtxt(tmp_path / "out", skiprows=1)
        labels = [int(word) for word in (tmp_path / "out").read_text().split("\n", 1)[0].split()[1:]]
        order = [model.classes_.tolist().index(label) for label in labels]
        np.testing.assert_allclose(model.predict_proba(X)[:, order], found[:, 1:], atol=1e-5)


@libsvm
@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 1.0)])
def test_svm_scale_both_ways(bounds, tmp_path):
    X, y = samples(tmp_path, 3, regression=True)
    lower, upper = bounds
    scaled = run("svm-scale", "-l", lower, "-u", upper, "-y", 0, 1, "-s", tmp_path / "range", tmp_path / "data")
    (tmp_path / "scaled").write_text(scaled)
    expected = read_svmlight(tmp_path / "scaled", n_features=4)
    ranges = read_ranges(tmp_path / "range")
    np.testing.assert_allclose(ranges.scale(X), expected.X.toarray(), atol=2e-6)  # %g
    np.testing.assert_allclose(ranges.scale_target(y), expected.y, atol=1e-5)
    own = Ranges.of(X, y, lower=lower, upper=upper, target_bounds=(0, 1))
    write_ranges(own, tmp_path / "own")
    assert run("svm-scale", "-r", tmp_path / "own", tmp_path / "data") == scaled
