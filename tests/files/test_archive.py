"""Our own format: every machine comes back with what it had, old versions are read, and nothing is executed."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from files.samples import MACHINES, data, target
from maxmargin import PSVC, PSVR, SVC, SVDD, SVR, Decomposition, LinearOneClassSVM, LinearSVC, LinearSVR, OneClassSVM
from maxmargin.files import FileError, load, save
from maxmargin.files.archive import UPGRADES, VERSION

OLD = sorted((Path(__file__).parent / "old").glob("*.mm"))
ALL = MACHINES | {
    "SVDD": lambda **k: SVDD(nu=0.3, **k),
    "LinearSVC": lambda kernel=None: LinearSVC(),
    "LinearSVR": lambda kernel=None: LinearSVR(),
    "LinearOneClassSVM": lambda kernel=None: LinearOneClassSVM(),
    "PSVC": lambda **k: PSVC(**k),
    "PSVR": lambda **k: PSVR(**k),
}


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def fit(name, classes=2, sparse=False, **params):
    X, y = data(classes, sparse)
    y = target(X) if name.endswith("R") else y
    X = sp.csr_matrix(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ALL[name](**params).fit(X, y), X


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
@pytest.mark.parametrize("name", ALL)
def test_a_model_comes_back(name, kernel, sparse, tmp_path):
    model, X = fit(name, sparse=sparse, kernel=kernel)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert type(again) is type(model) and again.get_params() == model.get_params()
    np.testing.assert_array_equal(values(again, X), values(model, X))
    assert again.certificate_ == model.certificate_ and again.status_ is model.status_
    np.testing.assert_equal(again.history_.rows, model.history_.rows)  # NaN is NaN
    missing = {k for k in vars(model) if k.endswith("_") and not k.startswith("_")} - set(vars(again))
    assert not missing


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "LinearSVC", "PSVC"])
def test_several_classes_with_names(name, tmp_path):
    X, y = data(3)
    model = ALL[name]().fit(X, np.array(["ant", "bee", "cat"], dtype=object)[np.unique(y, return_inverse=True)[1]])
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert again.classes_.tolist() == ["ant", "bee", "cat"]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificates_ == model.certificates_


def test_parameters_that_are_no_numbers(tmp_path):
    X, y = data()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    solver = Decomposition(working_set=32)
    model = SVC(class_weight={-1: 2.0, 1: 1.0}, solver=solver, callback=lambda state: None).fit(frame, y)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert again.class_weight == {-1: 2.0, 1: 1.0} and again.solver == solver and again.callback is None
    assert again.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_come_back(calibration, classes, tmp_path):
    X, y = data(classes)
    model = SVC(probability=True, calibration=calibration).fit(X, y)
    save(model, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_proba(X), model.predict_proba(X))


def test_widths_and_marks_come_back(tmp_path):
    X, y = data()
    regression = SVR(probability=True).fit(X, target(X))
    save(regression, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_interval(X), regression.predict_interval(X))
    outliers = OneClassSVM(probability=True, nu=0.3).fit(X)
    save(outliers, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_proba(X), outliers.predict_proba(X))


@pytest.mark.parametrize("expansion", [10, "points"])
@pytest.mark.parametrize(("machine", "classes"), [(SVC, 2), (SVC, 3), (SVR, 2)])
def test_expansions_come_back(machine, classes, expansion, tmp_path):
    X, y = data(classes)
    y = target(X) if machine is SVR else y
    model = machine(expansion=X[::9] + 0.1 if expansion == "points" else expansion).fit(X, y)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    np.testing.assert_array_equal(values(again, X), values(model, X))
    assert again.full_gap_ == model.full_gap_ or np.isnan(model.full_gap_)


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: SVC(kernel=lambda a, b: a @ b.T).fit(X, y),
        lambda X, y: SVR(parametric=lambda Z: Z[:, :1]).fit(X, y),
    ],
)
def test_code_is_not_stored(make, tmp_path):
    model = make(*data())
    with pytest.raises(TypeError, match="code"):
        save(model, tmp_path / "model.mm")
    assert not list(tmp_path.iterdir())


def test_versions_of_old_are_kept():
    assert {int(path.stem.split("-")[1][1:]) for path in OLD} == set(range(1, VERSION + 1))
    assert set(UPGRADES) == set(range(1, VERSION))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_files_of_old_are_read(path):
    """Made by ``python tests/files/make_old.py``, once for each version."""
    model = load(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    X = np.array(expected["X"])
    np.testing.assert_allclose(values(model, X), expected["values"], rtol=1e-9, atol=1e-12)


# -- damage and malice ------------------------------------------------------------------------------------------------


def rewritten(path: Path, change) -> Path:
    """The file with its header changed."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)
    return path


def put(value, *keys):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("other", "format"),
        put(VERSION + 1, "version"),
        put("1", "version"),
        put("os.system", "machine"),
        put("LinearSVC", "machine"),
        put("system", "params", "kernel"),
        put(1, "params", "exec"),
        put(None, "fitted"),
        put({"$array": 99}, "fitted", "support_"),
        put({"$array": -1}, "fitted", "support_"),
        put({"$eval": "1"}, "fitted", "intercept_"),
        put({"$value": 1}, "fitted", "intercept_"),
        put({"$tuple": 3}, "fitted", "intercept_"),
        put({"$float": "1e999"}, "fitted", "gamma"),
        put({"$float": "nan"}, "fitted", "gamma"),
        put([[[[[[[[[[[[[[[1]]]]]]]]]]]]]]], "fitted", "shape_fit_"),
        put(3, "fitted", "predict"),
        put(5, "fitted", "n_features_in_"),
        put(-1, "fitted", "n_features_in_"),
        put({"$status": "FINE"}, "fitted", "status_"),
        put({"$solver": ["smo", {"exec": 1}]}, "params", "solver"),
        put({"$solver": ["os.system", {}]}, "params", "solver"),
    ],
)
def test_a_forged_header_is_a_one_line_error(change, tmp_path):
    model, _ = fit("SVC")
    save(model, tmp_path / "model.mm")
    path = rewritten(tmp_path / "model.mm", change)
    with pytest.raises(FileError) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def array_bytes(array, **options) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


class Boom:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize(
    "content",
    [
        array_bytes(np.array([Boom()], dtype=object), allow_pickle=True),
        pickle.dumps(Boom()),
        array_bytes(np.arange(3.0))[:-4],
        array_bytes(np.full(3, np.nan)),
        array_bytes(np.arange(3, dtype=complex)),
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(128),
        b"\x93NUMPY\x01\x00v\x00" + b"(" * 118,
        b"",
    ],
)
def test_a_forged_array_is_a_one_line_error(content, tmp_path, capsys):
    model, _ = fit("SVC")
    save(model, tmp_path / "model.mm")
    with zipfile.ZipFile(tmp_path / "model.mm") as old:
        members = {name: old.read(name) for name in old.namelist()}
    header = json.loads(members["header.json"])
    members[f"{header['fitted']['intercept_']['$array']}.npy"] = content
    with zipfile.ZipFile(tmp_path / "model.mm", "w") as new:
        for name, member in members.items():
            new.writestr(name, member)
    with pytest.raises(FileError) as caught:
        load(tmp_path / "model.mm")
    assert "\n" not in str(caught.value)
    assert "executed" not in capsys.readouterr().out


def test_nothing_is_expanded(tmp_path):
    """A compressed member could be of any size."""
    with zipfile.ZipFile(tmp_path / "model.mm", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("header.json", b" " * (1 << 24))
    with pytest.raises(FileError, match="uncompressed"):
        load(tmp_path / "model.mm")


def test_indices_of_a_sparse_matrix_are_checked(tmp_path):
    model, _ = fit("SVC", sparse=True)
    model.support_vectors_.indices[0] = 99
    save(model, tmp_path / "model.mm")
    with pytest.raises(FileError, match="columns below 4"):
        load(tmp_path / "model.mm")


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "LinearSVC", "PSVC"])
def test_labels_come_back_as_they_were(name, tmp_path):
    X, y = data(3, False)
    for labels in (np.array(["one", "two", "three"], object), np.array(["one", "two", "three"]), np.array([-1, 0, 7])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ALL[name]().fit(X, labels[np.unique(y, return_inverse=True)[1]])
        save(model, tmp_path / "model.mm")
        again = load(tmp_path / "model.mm")
        assert again.classes_.dtype == model.classes_.dtype and again.predict(X).dtype == model.predict(X).dtype
        assert again.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "labels",
    [np.array(["2001-01-01", "2002-02-02"], "M8[D]"), np.array(["a\0", "b"], object)],
    ids=["dates", "texts with a NUL at the end"],
)
def test_labels_that_no_file_holds_are_an_error_when_they_are_saved(labels, tmp_path):
    X, y = data(2, False)
    model = SVC().fit(X, labels[np.unique(y, return_inverse=True)[1]])
    with pytest.raises(TypeError, match="numbers or texts were asked for in classes_; found an array of type"):
        save(model, tmp_path / "model.mm")
    assert not (tmp_path / "model.mm").exists()
