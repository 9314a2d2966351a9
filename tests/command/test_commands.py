"""The commands, by the way that people use them: train, predict, scale, cv, info, demo."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from command.running import run
from maxmargin import SOLVERS, SVC, __version__
from maxmargin.command.flags import from_libsvm
from maxmargin.files import load, load_model, read_ranges, read_svmlight, save_model, write_svmlight

libsvm = pytest.mark.skipif(shutil.which("svm-train") is None, reason="LIBSVM's programs (libsvm-tools) are missing")


liblinear = pytest.mark.skipif(
    shutil.which("liblinear-train") is None, reason="LIBLINEAR's programs (liblinear-tools) are missing"
)
LINEAR = [(1, "two"), (2, "three"), (3, "two"), (4, "three"), (11, "numbers"), (13, "numbers")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    write_svmlight(path / "two", X[:300], np.where(y[:300], 1, -1))
    X, y = load_iris(return_X_y=True)
    write_svmlight(path / "three", X, y + 1)
    X, y = load_diabetes(return_X_y=True)
    write_svmlight(path / "numbers", 10 * X[:200], y[:200] / 50)
    return path


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def theirs(*words) -> str:
    found = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=100)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def facts(text: str) -> dict[str, float]:
    """The numbers that people grep for."""
    found = re.findall(r"(nu|epsilon|C|obj|rho|nSV|nBSV|Total nSV) = (-?[\d.]+)", text)
    return {name: float(value) for name, value in found}


# -- what LIBSVM says and does -----------------------------------------------------------------------------------------


@libsvm
@pytest.mark.parametrize(
    "flags",
    [
        "",
        "-t 0",
        "-t 1 -d 2 -r 1",
        "-t 3 -g 0.01",
        "-c 10 -g 0.02",
        "-w1 5 -w-1 0.5",
        "-s 1 -n 0.1",
        "-s 2 -n 0.2",
        "-h 0",
    ],
)
def test_train_says_what_svm_train_says(flags, tmp_path):
    expected = facts(theirs("svm-train", *flags.split(), "-e", "1e-5", "two", tmp_path / "theirs"))
    found = run("train", *flags.split(), "-e", "1e-5", "two", tmp_path / "ours")
    assert found.code == 0
    said = facts(found.out)
    assert set(expected) <= set(said)
    for name, value in expected.items():
        assert said[name] == pytest.approx(value, rel=2e-3, abs=2e-3), name
    ours = theirs("svm-predict", "two", tmp_path / "ours", tmp_path / "a")
    others = theirs("svm-predict", "two", tmp_path / "theirs", tmp_path / "b")
    assert run("predict", "two", tmp_path / "theirs", tmp_path / "c").out == others
    assert (tmp_path / "b").read_text() == (tmp_path / "c").read_text()
    if "-s 2" not in flags:  # many samples of one class lie just on the boundary
        assert ours == others and (tmp_path / "a").read_text() == (tmp_path / "b").read_text()


@libsvm
@pytest.mark.parametrize("flags", ["-s 3 -c 5", "-s 4 -c 5", "-s 3 -p 0.5"])
def test_regression(flags, tmp_path):
    expected = facts(theirs("svm-train", *flags.split(), "-e", "1e-5", "numbers", tmp_path / "theirs"))
    said = facts(run("train", *flags.split(), "-e", "1e-5", "numbers", tmp_path / "ours").out)
    for name, value in expected.items():
        assert said[name] == pytest.approx(value, rel=2e-3, abs=2e-3), name
    found = run("predict", "numbers", tmp_path / "ours", tmp_path / "out")
    numbers = re.findall(r"[\d.]+", theirs("svm-predict", "numbers", tmp_path / "ours", tmp_path / "b"))
    assert re.findall(r"[\d.]+", found.out) == numbers
    assert found.out.startswith("Mean squared error = ") and "(regression)\nSquared correlation" in found.out
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), np.loadtxt(tmp_path / "b"), rtol=1e-5)


@libsvm
def test_probabilities_of_regression(tmp_path):
    run("train", "-s", 3, "-b", 1, "numbers", tmp_path / "model")
    expected = theirs("svm-predict", "-b", 1, "numbers", tmp_path / "model", tmp_path / "out").splitlines()
    assert run("predict", "-b", 1, "numbers", tmp_path / "model").lines[:2] == expected[:2]
    assert expected[1].startswith("z: Laplace distribution")


@libsvm
def test_probabilities_of_their_models(tmp_path):
    for data in ("two", "three"):
        theirs("svm-train", "-b", 1, data, tmp_path / "model")
        expected = theirs("svm-predict", "-b", 1, data, tmp_path / "model", tmp_path / "b").splitlines()[-1]
        assert run("predict", "-b", 1, data, tmp_path / "model", tmp_path / "a").lines[-1] == expected
        ours, others = ((tmp_path / name).read_text().splitlines() for name in "ab")
        assert ours[0] == others[0]
        a, b = (np.loadtxt(tmp_path / name, skiprows=1) for name in "ab")
        np.testing.assert_allclose(a, b, atol=1e-4)


@libsvm
def test_indices_from_0_are_those_of_the_file(tmp_path):
    """scikit-learn writes such files. Index 0 may be missing in the samples to predict: it is 0 then in all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5)) * (rng.random((120, 5)) < 0.6)
    y = np.where(X @ [0.5, 1, -2, 1, 3] > 0, 1, -1)
    X[80:, 0] = 0.0
    train, test = tmp_path / "train", tmp_path / "test"
    write_svmlight(train, X[:80], y[:80], zero_based=True)
    write_svmlight(test, X[80:], y[80:], zero_based=True)
    for command in ("scale", "svm-scale"):
        first, second = (["-s", tmp_path / "range", train], ["-r", tmp_path / "range", test])
        for name, words in (("train", first), ("test", second)):
            said = run("scale", *words).out if command == "scale" else theirs(command, *words)
            (tmp_path / f"{name}.{command}").write_text(said)
    for name in ("train", "test"):
        ours, others = (read_svmlight(tmp_path / f"{name}.{command}") for command in ("scale", "svm-scale"))
        np.testing.assert_allclose(ours.X.toarray()[:, -4:], others.X.toarray()[:, -4:], atol=1e-5)  # it skips a 0 of 0
        assert ours.first_index == 0
    theirs("svm-train", "-g", 0.5, "-c", 10, train, tmp_path / "theirs")
    theirs("svm-predict", test, tmp_path / "theirs", tmp_path / "expected")
    expected = np.loadtxt(tmp_path / "expected")
    for name in ("ours", "ours.mm"):
        run("train", "-q", "-g", 0.5, "-c", 10, train, tmp_path / name)
    theirs("svm-predict", test, tmp_path / "ours", tmp_path / "out")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), expected)
    for name in ("ours", "ours.mm", "theirs"):
        run("predict", test, tmp_path / name, tmp_path / "out")
        np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), expected)
    save_model(load_model(tmp_path / "theirs"), tmp_path / "again")
    assert load_model(tmp_path / "again").n_features_in_ == 5


@libsvm
def test_scale_says_what_svm_scale_says(tmp_path):
    expected = theirs("svm-scale", "-l", 0, "-s", tmp_path / "theirs", "three")
    (tmp_path / "expected").write_text(expected)
    found = run("scale", "-l", 0, "-s", tmp_path / "ours", "-o", tmp_path / "found", "three")
    assert (found.code, found.out) == (0, "")
    a, b = (read_svmlight(tmp_path / name, n_features=4) for name in ("expected", "found"))
    np.testing.assert_allclose(a.X.toarray(), b.X.toarray(), atol=1e-6)
    ours, others = read_ranges(tmp_path / "ours"), read_ranges(tmp_path / "theirs")
    np.testing.assert_array_equal(ours.least, others.least)
    np.testing.assert_array_equal(ours.largest, others.largest)
    assert theirs("svm-scale", "-r", tmp_path / "ours", "three") == expected
    restored = run("scale", "-r", tmp_path / "theirs", "three")
    assert restored.out == (tmp_path / "found").read_text()


@liblinear
@pytest.mark.parametrize(("solver", "data"), LINEAR)
def test_linear_models_are_liblinear_s(solver, data, tmp_path):
    """LIBLINEAR penalises its bias; so do we, where -B says so."""
    for bias in ("-1", "0", "1"):
        theirs("liblinear-train", "-s", solver, "-B", bias, "-e", "1e-6", data, tmp_path / "theirs")
        assert run("train", "--linear", "-s", solver, "-B", bias, "-e", "1e-8", data, tmp_path / "ours").code == 0
        for one, other in (("ours", "theirs"), ("theirs", "ours")):
            theirs("liblinear-predict", data, tmp_path / one, tmp_path / "a")
            run("predict", data, tmp_path / other, tmp_path / "b")
            a, b = np.loadtxt(tmp_path / "a"), np.loadtxt(tmp_path / "b")
            np.testing.assert_allclose(a, b, atol=2e-3) if data == "numbers" else np.testing.assert_array_equal(a, b)


@liblinear
@pytest.mark.parametrize("bias", ["-1", "1"])
def test_sparse_weights_have_an_objective_as_low_as_liblinear_s(bias, tmp_path):
    theirs("liblinear-train", "-s", 5, "-B", bias, "-e", "1e-4", "two", tmp_path / "theirs")
    run("train", "-q", "--linear", "-s", 5, "-B", bias, "-e", "1e-6", "two", tmp_path / "ours")
    data, values = read_svmlight("two"), {}
    for name in ("ours", "theirs"):
        w, b = load_model(tmp_path / name).coef_[0], load_model(tmp_path / name).intercept_[0]
        short = np.maximum(0.0, 1.0 - data.y * (data.X @ w + b))
        values[name] = np.abs(w).sum() + abs(b) + short @ short
    assert values["ours"] <= values["theirs"] * (1 + 1e-6)


# -- on our own --------------------------------------------------------------------------------------------------------


def test_the_model_has_the_name_of_the_data(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    assert run("train", "-q", folder / "two").out == ""
    assert (tmp_path / "two.model").read_text().startswith("svm_type c_svc\nkernel_type rbf\ngamma 0.033")


def test_what_is_trained_is_what_the_estimator_trains(tmp_path):
    run("train", "-c", 10, "-g", 0.1, "three", tmp_path / "model")
    data = read_svmlight("three")
    ours = SVC(C=10, gamma=0.1).fit(data.X, data.y)
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(data.X), ours.predict(data.X))


def test_json(tmp_path):
    found = run("train", "--json", "three", tmp_path / "model")
    assert found.err == ""
    said = json.loads(found.out)
    assert said["machine"] == "SVC" and said["samples"] == 150 and said["classes"] == [1, 2, 3] and said["converged"]
    assert len(said["problems"]) == 3 and said["certificate"]["violation"] <= 1e-3
    said = json.loads(run("predict", "--json", "three", tmp_path / "model", tmp_path / "out").out)
    assert said["total"] == 150 and said["accuracy"] > 0.9
    assert len(json.loads(run("predict", "--json", "three", tmp_path / "model").out)["predictions"]) == 150
    assert json.loads(run("cv", "--json", "three").out)["accuracy"] > 0.9
    assert json.loads(run("info", "--json", tmp_path / "model").out)["support_vectors"] > 10


def test_cross_validation():
    found = run("train", "-v", 5, "-g", 0.1, "three")
    assert re.fullmatch(r"Cross Validation Accuracy = 9[\d.]+%\n", found.out) and found.err == ""
    assert run("cv", "-g", 0.1, "three").out == found.out
    assert run("train", "-q", "-v", 5, "-g", 0.1, "three").out == found.out  # quiet, but for what was asked
    found = run("cv", "-s", 3, "-v", 3, "numbers")
    assert re.fullmatch(
        r"Cross Validation Mean squared error = [\d.]+\nCross Validation Squared correlation coefficient = [\d.]+\n",
        found.out,
    )


@libsvm
def test_folds_that_lack_a_class(tmp_path):
    """LIBSVM predicts the only class that is left, and takes weights of those that are not."""
    data = tmp_path / "rare"
    data.write_text("1 1:1\n2 1:2\n2 1:3\n2 1:4\n2 1:2.5\n")
    assert theirs("svm-train", "-q", "-v", 5, data) == "Cross Validation Accuracy = 80%\n"
    for words in (["-v", 5], ["-v", 2], ["-v", 3, "-w1", 5, "-w2", 2], ["--linear", "-v", 5]):
        found = run("train", *words, data)
        assert found.out == "Cross Validation Accuracy = 80%\n", found
        assert "found one without others than 2" in found.err
    data.write_text("1 1:1\n3 1:7\n3 1:7.5\n" + "".join(f"2 1:{k}\n" for k in (2, 3, 4, 2.5, 2.7)))
    found = run("train", "-v", 4, "-w1", 5, data)
    assert found.code == 0 and "WARNING: class label 1 specified in weight is not found" in found.err


def test_a_grid():
    found = run("cv", "-v", 3, "--log2c", "-1,3,2", "--log2g", "0,-4,-2", "three")
    assert len(found.lines) == 10
    assert run("cv", "-q", "-v", 3, "--log2c", "-1,3,2", "--log2g", "0,-4,-2", "three").lines == found.lines[-1:]
    cost, gamma, rate = map(float, found.lines[-1].split())
    assert cost in (0.5, 2.0, 8.0) and gamma in (1.0, 0.25, 0.0625) and rate > 90
    table = json.loads(run("cv", "-v", 3, "--json", "--log2c", "-1,3,2", "three").out)
    assert len(table["table"]) == 3 and table["best"]["rate"] == max(row["rate"] for row in table["table"])


def test_a_table_with_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    frame = X.assign(kind=y.map({0: "setosa", 1: "versicolor", 2: "virginica"}))
    frame.to_csv(tmp_path / "iris.csv", index=False)
    assert run("train", "-q", tmp_path / "iris.csv", tmp_path / "iris.mm").code == 0
    model = load(tmp_path / "iris.mm")
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.feature_names_in_.tolist() == list(X.columns)
    found = run("predict", tmp_path / "iris.csv", tmp_path / "iris.mm", "-")
    assert set(found.lines) == {"setosa", "versicolor", "virginica"} and "Accuracy = 9" in found.err
    moved = frame[["kind", *X.columns]]
    moved.to_csv(tmp_path / "moved.tsv", index=False, sep="\t")
    for target in ("kind", "0"):
        again = run("predict", "--target", target, tmp_path / "moved.tsv", tmp_path / "iris.mm", "-")
        assert again.out == found.out
    mixed = frame[[*reversed(X.columns), "kind"]]  # columns are found by their names
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    assert run("predict", tmp_path / "mixed.csv", tmp_path / "iris.mm", "-").out == found.out
    np.save(tmp_path / "iris.npy", np.column_stack([X, y]))
    assert "Accuracy = 9" in run("cv", tmp_path / "iris.npy").out
    assert pandas is not None


def test_a_table_without_targets(tmp_path):
    """All its columns are features of the model, so that there is nothing to score."""
    pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    table, bare, first = tmp_path / "t.csv", tmp_path / "bare.csv", tmp_path / "first.csv"
    rows = [",".join(map(repr, row)) for row in X.tolist()]
    table.write_text("a,b,c,d,kind\n" + "".join(f"{row},{k}\n" for row, k in zip(rows, y, strict=True)))
    bare.write_text("a,b,c,d\n" + "".join(f"{row}\n" for row in rows))
    first.write_text("kind,a,b,c,d\n" + "".join(f"{k},{row}\n" for row, k in zip(rows, y, strict=True)))
    np.save(tmp_path / "bare.npy", X)
    for model in (tmp_path / "model.mm", tmp_path / "model"):
        assert run("train", "-q", table, model).code == 0
        expected = run("predict", table, model, tmp_path / "expected")
        assert expected.lines == ["Accuracy = 98.6667% (148/150) (classification)"]
        for path in (bare, tmp_path / "bare.npy"):
            found = run("predict", path, model, tmp_path / "out")
            assert (found.code, found.out, found.err) == (0, "", "")
            assert (tmp_path / "out").read_text() == (tmp_path / "expected").read_text()
        assert json.loads(run("predict", "--json", bare, model, tmp_path / "out").out)["total"] == 150
    assert run("predict", first, tmp_path / "model.mm").out == expected.out  # the one column that is no feature
    assert run("report", tmp_path / "model.mm", bare, "-o", tmp_path / "page").code == 1


def test_precomputed_kernels(tmp_path):
    X, y = load_iris(return_X_y=True)
    K = X @ X.T
    lines = [
        f"{label} 0:{serial} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row, start=1))
        for serial, (label, row) in enumerate(zip(y, K.tolist(), strict=True), start=1)
    ]
    (tmp_path / "kernel").write_text("\n".join(lines[::-1]) + "\n")  # any order
    assert run("train", "-t", 4, tmp_path / "kernel", tmp_path / "model").code == 0
    found = run("predict", tmp_path / "kernel", tmp_path / "model", tmp_path / "out")
    expected = SVC(kernel="precomputed").fit(K, y).predict(K)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out")[::-1], expected)
    assert "Accuracy = " in found.out
    assert "Accuracy = 9" in run("train", "-t", 4, "-v", 3, tmp_path / "kernel").out


def test_fewer_and_more_features_than_the_model_has(tmp_path):
    (tmp_path / "train").write_text("1 1:1 2:1\n-1 1:-1 3:1\n" * 3)
    (tmp_path / "less").write_text("1 1:1\n-1 1:-1\n")
    (tmp_path / "more").write_text("1 1:1 9:1\n-1 1:-1\n")
    machines = ((), "model"), (("--linear",), "linear"), ((), "own.mm"), (("-t", 0), "t0.mm"), (("--linear",), "l.mm")
    for flags, name in machines:
        run("train", "-q", *flags, tmp_path / "train", tmp_path / name)
        for data in ("less", "more"):
            found = run("predict", tmp_path / data, tmp_path / name)
            assert (found.code, found.out) == (0, "Accuracy = 100% (2/2) (classification)\n"), found


def test_info(tmp_path):
    run("train", "-q", "three", tmp_path / "three.mm")
    said = run("info", tmp_path / "three.mm").out
    for word in ("SVC", "rbf", "gamma", "1 2 3", "support vectors", "relative gap", "decomposition"):
        assert word in said


@liblinear
@pytest.mark.parametrize("data", ["two", "three"])
def test_info_of_logistic_regression(data, tmp_path):
    theirs("liblinear-train", "-s", 0, data, tmp_path / "model")
    said = json.loads(run("info", "--json", tmp_path / "model").out)
    assert said["machine"] == "LogisticRegression" and said["probabilities"]
    assert said["rho"] == [0.0] * (3 if data == "three" else 1)


def test_a_time_limit_leaves_a_model_and_a_warning(tmp_path):
    rng = np.random.default_rng(0)
    write_svmlight(tmp_path / "hard", rng.normal(size=(3000, 20)), rng.integers(0, 2, 3000))
    found = run("train", "-q", "-c", 1000, "-e", "1e-9", "--time-limit", 0.2, tmp_path / "hard", tmp_path / "model")
    assert found.code == 0 and found.err.startswith("maxmargin: warning: SVC stopped early: the time limit was reached")
    assert found.err.count("\n") == 1
    assert load_model(tmp_path / "model").predict([[0.0] * 20]).shape == (1,)


def test_a_margin_of_nothing_has_no_objective(tmp_path):
    """nu-SVC that finds no margin divides by it, in LIBSVM as well."""
    found = run("train", "-s", 1, "-t", 3, "-n", 0.3, "three", tmp_path / "model")
    assert found.code == 0 and "found no margin" in found.err and "obj = nan" in found.out
    assert json.loads(run("train", "--json", "-s", 1, "-t", 3, "-n", 0.3, "three", tmp_path / "model").out)


def test_a_named_solver():
    assert "by smo in" in run("train", "--solver", "smo", "two", "/dev/null").out


def test_a_weight_for_a_class_that_is_not_there(tmp_path):
    found = run("train", "-q", "-w7", 2, "two", tmp_path / "model")
    assert found.code == 0
    assert "WARNING: class label 7 specified in weight is not found" in found.err


def test_flags_with_labels():
    assert from_libsvm(["train", "-w1", "5", "-w-2", "0.5", "-c", "1", "a"]) == [
        *("train", "--weight", "1=5", "--weight", "-2=0.5", "-c", "1", "a")
    ]
    assert from_libsvm(["predict", "-w1", "5"]) == ["predict", "-w1", "5"]
    assert from_libsvm(["train", "--", "-w1", "5"]) == ["train", "--", "-w1", "5"]
    assert from_libsvm(["train", "-w1"]) == ["train", "-w1"]


def test_demo(tmp_path):
    """The tour: every solver is in it, it fits into a terminal, and it leaves a report."""
    found = run("demo", "-q", "--quick", "-o", tmp_path / "r.html")
    assert found.code == 0, found.err
    assert max(len(line) for line in found.lines[:-1]) <= 80
    assert [line[0] for line in found.lines if line[1:3] == ". "] == list("123456")
    rows = {line.split()[0]: line.split() for line in found.lines if line.split()[:1] and line.split()[0] in SOLVERS}
    assert set(rows) == set(SOLVERS)
    objectives = [float(row[1]) for row in rows.values()]
    assert max(objectives) - min(objectives) < 1e-6 * max(objectives)
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_version():
    assert run("--version").out == f"maxmargin {__version__}\n"


def test_help_imports_nothing_heavy():
    """It answers at once because of that."""
    script = (
        "import sys; from maxmargin.command import main; code = main(sys.argv[1:]); "
        "heavy = ('numpy', 'scipy', 'sklearn', 'numba', 'rich', 'pandas'); "
        "print('heavy:', [m for m in heavy if m in sys.modules], code)"
    )
    for words in (["--help"], ["train", "--help"], ["train", "--nonsense"], []):
        found = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=100)
        assert "heavy: []" in found.stdout, found


@pytest.mark.parametrize("name", ["train", "predict", "scale", "cv", "info", "demo", "warmup"])
def test_help_fits_into_a_terminal(name):
    found = run(name, "--help")
    assert found.code == 0 and found.out.startswith(f"Usage: maxmargin {name}")
    assert max(len(line) for line in found.lines) <= 80


def test_as_a_module():
    found = subprocess.run(
        [sys.executable, "-m", "maxmargin", "--version"], capture_output=True, text=True, timeout=100
    )
    assert (found.returncode, found.stdout) == (0, f"maxmargin {__version__}\n")


@libsvm
def test_probabilities_of_our_models(tmp_path):
    for data in ("two", "three"):
        run("train", "-q", "-b", 1, data, tmp_path / "model")
        expected = theirs("svm-predict", "-b", 1, data, tmp_path / "model", tmp_path / "b").splitlines()[-1]
        assert run("predict", "-b", 1, data, tmp_path / "model", tmp_path / "a").lines[-1] == expected
        a, b = (np.loadtxt(tmp_path / name, skiprows=1) for name in "ab")
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_probabilities_in_our_format(tmp_path):
    run("train", "-q", "-b", 1, "three", tmp_path / "three.mm")
    found = run("predict", "-b", 1, "three", tmp_path / "three.mm", "-")
    assert found.lines[0] == "labels 1 2 3" and len(found.lines) == 151
    table = np.array([[float(word) for word in line.split()] for line in found.lines[1:]])
    np.testing.assert_allclose(table[:, 1:].sum(axis=1), 1.0, atol=1e-4)
    run("train", "-q", "-s", 2, "-b", 1, "-n", 0.3, "two", tmp_path / "one.model")
    assert "prob_density_marks" in (tmp_path / "one.model").read_text()
    assert run("predict", "-b", 1, "two", tmp_path / "one.model", "-").lines[0] == "labels normal outlier"


def test_features_that_the_training_never_saw_count_in_distances(tmp_path):
    """In LIBSVM's format and in ours alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    write_svmlight(tmp_path / "train", X[:, :3], (X[:, 0] > 0) + 0)
    write_svmlight(tmp_path / "test", 2 * X, (X[:, 0] > 0) + 0)
    for name in ("model", "model.mm"):
        run("train", "-q", "-b", 1, tmp_path / "train", tmp_path / name)
        run("predict", "-b", 1, tmp_path / "test", tmp_path / name, tmp_path / f"{name}.out")
    first, second = (np.loadtxt(tmp_path / f"{name}.out", skiprows=1) for name in ("model", "model.mm"))
    free = second[:, 1] != 0.5  # ours moves a probability to one half where it contradicts the class
    assert free.sum() > 50
    np.testing.assert_allclose(first[free, 1], second[free, 1], atol=2e-3)


def test_tables_in_parquet(tmp_path, monkeypatch):
    """The last column, or one by name; errors are one line each."""
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    frame = load_iris(as_frame=True).frame
    frame.to_parquet("iris.parquet")
    frame.assign(target=frame["target"].map({0: "a", 1: "b", 2: "c"}))[frame.columns[::-1]].to_parquet("names.parquet")
    frame.assign(day="Monday").to_parquet("day.parquet")
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 this is no table PAR1")
    assert run("train", "-q", "iris.parquet", "m").code == 0
    assert "Accuracy = 9" in run("predict", "iris.parquet", "m", "out").out
    assert run("train", "-q", "--target", "target", "names.parquet", "m.mm").code == 0
    assert set(load("m.mm").classes_) == {"a", "b", "c"}
    for words, says in (
        ("train -q --target target day.parquet m", "found 'Monday' in column day"),
        ("train -q --target nothing iris.parquet m", "sepal length (cm)"),
        ("train -q junk.parquet m", "junk.parquet: a Parquet file was asked for"),
    ):
        found = run(*words.split())
        assert found.code == 1 and says in found.err and found.err.count("\n") == 1, found
