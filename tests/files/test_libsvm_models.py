"""LIBSVM's model files: what is written is read again exactly, and scikit-learn's sklearn twins agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from files.samples import KERNELS, MACHINES, data, target
from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC
from maxmargin.files import FileError, load_libsvm, load_model, save_liblinear, save_libsvm


def fitted(name, kernel, classes=2, sparse=False):
    X, y = data(classes, sparse)
    y = target(X) if "R" in name else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MACHINES[name](kernel=kernel, gamma=0.3, coef0=0.5, degree=2).fit(sp.csr_matrix(X) if sparse else X, y)
    return model, X


def decisions(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MACHINES)
def test_a_model_is_read_as_it_was_written(name, kernel, sparse, tmp_path):
    model, X = fitted(name, kernel, sparse=sparse)
    save_libsvm(model, tmp_path / "model")
    again = load_model(tmp_path / "model", n_features=4)
    assert type(again) is type(model)
    np.testing.assert_allclose(decisions(again, X), decisions(model, X), rtol=1e-9, atol=1e-9)
    assert (again.predict(X) == model.predict(X)).all() or "R" in name
    assert again.n_support_.tolist() == model.n_support_.tolist()
    save_libsvm(again, tmp_path / "twice")
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_several_classes(name, kernel, tmp_path):
    model, X = fitted(name, kernel, classes=3)
    save_libsvm(model, tmp_path / "model")
    again = load_libsvm(tmp_path / "model")
    assert again.classes_.tolist() == model.classes_.tolist() == [-2, 3, 7]
    np.testing.assert_allclose(decisions(again, X), decisions(model, X), rtol=1e-9, atol=1e-9)
    assert (again.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("name", MACHINES)
def test_precomputed_kernels_have_serials(name, tmp_path):
    X, y = data()
    K = X @ X.T
    model = MACHINES[name](kernel="precomputed").fit(K, target(X) if "R" in name else y)
    save_libsvm(model, tmp_path / "model")
    again = load_libsvm(tmp_path / "model", n_features=len(K))
    np.testing.assert_allclose(decisions(again, K), decisions(model, K), rtol=1e-12)
    assert "0:" in (tmp_path / "model").read_text().splitlines()[-1]


def test_the_order_of_the_labels_is_that_of_the_file(tmp_path):
    """A cycle of votes goes to the label that the file names first."""
    (tmp_path / "model").write_text(
        "svm_type c_svc\nkernel_type linear\nnr_class 3\ntotal_sv 3\nrho -1 1 -1\nlabel 9 2 5\nnr_sv 1 1 1\nSV\n"
        "0 0 1:0\n0 0 1:0\n0 0 1:0\n"
    )
    model = load_libsvm(tmp_path / "model")
    assert model.predict([[1.0]]).tolist() == [9]


def test_two_labels_in_either_order(tmp_path):
    text = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0.5\nlabel {}\nnr_sv 1 0\nSV\n1 1:1\n"
    for labels, expected in (("1 -1", 1), ("-1 1", -1)):
        (tmp_path / "model").write_text(text.format(labels))
        model = load_libsvm(tmp_path / "model")
        assert model.predict([[2.0], [0.0]]).tolist() == [expected, -expected]


def test_more_features_than_the_support_vectors_use(tmp_path):
    X, y = data()
    model = SVC().fit(np.hstack([X, np.zeros((len(X), 3))]), y)
    save_libsvm(model, tmp_path / "model")
    assert load_libsvm(tmp_path / "model").n_features_in_ == 4
    wide = load_libsvm(tmp_path / "model", n_features=7)
    test = np.hstack([X, np.ones((len(X), 3))])
    np.testing.assert_allclose(wide.decision_function(test), model.decision_function(test))
    with pytest.raises(FileError, match="2 features"):
        load_libsvm(tmp_path / "model", n_features=2)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda X, y: SVC(kernel="laplacian").fit(X, y), "laplacian"),
        (lambda X, y: SVC(kernel=lambda a, b: a @ b.T).fit(X, y), "kernel"),
        (lambda X, y: SVC().fit(X, np.where(y > 0, "yes", "no")), "whole numbers"),
        (lambda X, y: SVC().fit(X, np.where(y > 0, 0.5, 1.5).astype(str)), "whole numbers"),
        (lambda X, y: SVC(probability=True, calibration="isotonic").fit(X, y), "isotonic"),
        (lambda X, y: SVC(expansion=9).fit(*data(3)), "expansion"),
        (lambda X, y: SVR(parametric=lambda Z: Z[:, :1]).fit(X, y), "parametric"),
    ],
)
def test_what_the_format_cannot_say_is_an_error(make, match, tmp_path):
    model = make(*data())
    with pytest.raises(ValueError, match=match):
        save_libsvm(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 2
rho 0.25
label 1 -1
nr_sv 1 1
SV
1 1:0.5 3:1
-1 2:0.25
"""


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("c_svc", "d_svc", ":1: svm_type: one of"),
        ("rbf", "rbff", ":2: kernel_type"),
        ("gamma 0.5", "gamma", ":3: gamma: 1 values"),
        ("gamma 0.5", "gamma nan", "finite number"),
        ("nr_class 2", "nr_class 1", "nr_class"),
        ("nr_class 2", "nr_class 99999999999999999999999", "nr_class"),
        ("nr_class 2", "nr_class 2147483647", ":10:"),
        ("nr_class 2", "nr_class two", "whole number"),
        ("total_sv 2", "total_sv 3", "3 lines of support vectors"),
        ("total_sv 2", "total_sv -1", "total_sv"),
        ("rho 0.25", "rho 0.25 1", "rho: 1 values"),
        ("label 1 -1", "label 1 1", "different classes"),
        ("label 1 -1\n", "", "label"),
        ("nr_sv 1 1", "nr_sv 2 1", "nr_sv"),
        ("nr_sv 1 1", "nr_sv 3 -1", "nr_sv"),
        ("nr_sv 1 1", "nr_sv -4611686018427387904 4611686018427387903", "nr_sv"),
        ("SV\n", "SV here\n", ":9:1:"),
        ("1:0.5 3:1", "3:1 1:0.5", ":10:7: ascending"),
        ("1:0.5 3:1", "1:0.5 3:", ":10:"),
        ("-1 2:0.25", "nan 2:0.25", ":11:1:"),
        ("svm_type", "some_type", "is this a model file"),
        ("gamma 0.5\n", "gamma 0.5\ngamma 0.5\n", "again"),
    ],
)
def test_a_damaged_file_is_told_with_its_line(old, new, match, tmp_path):
    (tmp_path / "model").write_text(GOOD)
    assert load_libsvm(tmp_path / "model").predict([[0.5, 0, 1]]).tolist() == [1]
    assert old in GOOD
    (tmp_path / "model").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(FileError, match=match) as caught:
        load_libsvm(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_a_linear_one_class_machine_in_liblinear_s_format(tmp_path):
    X, _ = data()
    model = LinearOneClassSVM(nu=0.2).fit(X + 3.0)
    save_liblinear(model, tmp_path / "model")
    assert (
        (tmp_path / "model").read_text().startswith("solver_type ONECLASS_SVM\nnr_class 2\nnr_feature 4\nbias -1\nrho ")
    )
    again = load_model(tmp_path / "model")
    assert type(again) is LinearOneClassSVM
    np.testing.assert_array_equal(again.predict(X + 3.0), model.predict(X + 3.0))


def test_probabilities_that_liblinear_has_no_place_for_are_told(tmp_path):
    X, y = data(3, False)
    model = LinearSVC(probability=True).fit(X, y)
    with pytest.warns(UserWarning, match=r"predict_proba is not; use maxmargin\.files\.save"):
        save_liblinear(model, tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("write, machine", [(save_libsvm, SVC), (save_liblinear, LinearSVC)])
def test_labels_of_more_than_32_bits_are_an_error(write, machine, tmp_path):
    X, y = data(2, False)
    model = machine().fit(X, np.where(y > 0, 1 << 40, 3))
    with pytest.raises(ValueError, match="32 bits; found 3, 1099511627776"):
        write(model, tmp_path / "model")
