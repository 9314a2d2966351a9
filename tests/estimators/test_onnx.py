"""ONNX graphs of every machine, run by onnxruntime, against the machines themselves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    PSVC,
    PSVR,
    SVC,
    SVDD,
    SVR,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PSVMSelector,
)

skl2onnx = pytest.importorskip("skl2onnx", reason="the extra onnx is missing")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is missing")

IRIS, SPECIES = load_iris(return_X_y=True)
X = IRIS - IRIS.mean(axis=0)
SHIFTED = np.vstack([X, X + 0.3])  # samples that no machine has seen, too
VALUE = np.sin(X[:, 0]) + X[:, 2]
KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "wendland")
ROUNDING = 1e-9


def run(model, samples, dtype=np.float64):
    """The outputs of a model's graph by name; no node of ai.onnx.ml's may be in it."""
    onx = skl2onnx.to_onnx(model, samples[:1].astype(dtype))
    assert not {node.domain for node in onx.graph.node} & {"ai.onnx.ml"}
    session = onnxruntime.InferenceSession(onx.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    (given,) = session.get_inputs()
    return dict(zip(names, session.run(names, {given.name: samples.astype(dtype)}), strict=True))


def fitted(model, samples, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(samples, y)


def check_classes(model, samples, found):
    np.testing.assert_array_equal(found["label"], model.predict(samples))
    np.testing.assert_allclose(found["scores"], model.decision_function(samples), rtol=1e-8, atol=ROUNDING)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_svc(kernel, classes):
    rows = SPECIES < classes
    model = fitted(SVC(kernel=kernel, C=3.0, gamma=0.2, coef0=0.5, degree=4), X[rows], SPECIES[rows])
    check_classes(model, SHIFTED, run(model, SHIFTED))


@pytest.mark.parametrize(
    "model",
    [
        NuSVC(nu=0.2),
        NuSVC(nu=0.2, decision_function_shape="ovo"),
        SVC(break_ties=True),
        SVC(expansion=20),
        LinearSVC(),
        LinearSVC(multi_class="crammer_singer"),
        PSVC(epsilon=0.2),
        PSVC(kernel="linear", epsilon=0.2),
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_other_classifiers(model, classes):
    rows = SPECIES < classes
    fitted(model, X[rows], np.array(["setosa", "versicolor", "virginica"])[SPECIES[rows]])
    check_classes(model, SHIFTED, run(model, SHIFTED))


@pytest.mark.parametrize(
    "model",
    [SVR(C=5.0), SVR(kernel="linear"), SVR(loss="huber"), NuSVR(), LinearSVR(), PSVR(epsilon=0.1), SVR(C=1e-9)],
    ids=str,
)
def test_regression(model):
    fitted(model, X, VALUE)
    np.testing.assert_allclose(run(model, SHIFTED)["variable"][:, 0], model.predict(SHIFTED), atol=ROUNDING)


def test_a_machine_without_support_vectors():
    model = fitted(SVR(epsilon=100.0), X, VALUE)
    assert model.n_support_[0] == 0
    np.testing.assert_allclose(run(model, SHIFTED)["variable"][:, 0], model.predict(SHIFTED), atol=ROUNDING)


@pytest.mark.parametrize(
    "model",
    [OneClassSVM(nu=0.2), OneClassSVM(nu=0.2, kernel="linear"), LinearOneClassSVM(nu=0.2), SVDD(nu=0.2)]
    + [SVDD(nu=0.2, kernel="poly", degree=2), SVDD(nu=0.2, kernel="linear")],
    ids=str,
)
def test_outliers(model):
    fitted(model, X + 2.0)
    found = run(model, SHIFTED + 2.0)
    np.testing.assert_array_equal(found["label"][:, 0], model.predict(SHIFTED + 2.0))
    expected = model.decision_function(SHIFTED + 2.0)
    np.testing.assert_allclose(found["scores"][:, 0], expected, rtol=1e-9, atol=ROUNDING)


@pytest.mark.parametrize("calibration", ["sigmoid", "temperature", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities(calibration, classes):
    """Where the labels are hard to tell, votes and probabilities disagree now and then."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(X)) < 0.25, rng.integers(0, classes, len(X)), np.minimum(SPECIES, classes - 1))
    model = fitted(SVC(probability=True, calibration=calibration, C=3.0), X, y)
    found = run(model, SHIFTED)
    np.testing.assert_array_equal(found["label"], model.predict(SHIFTED))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(SHIFTED), atol=1e-9)
    np.testing.assert_array_equal(model.classes_[found["probabilities"].argmax(axis=1)], found["label"])


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_a_linear_machine(classes):
    y = np.minimum(SPECIES, classes - 1)
    model = fitted(LinearSVC(probability=True), X, y)
    found = run(model, SHIFTED)
    np.testing.assert_array_equal(found["label"], model.predict(SHIFTED))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(SHIFTED), atol=1e-9)


def test_samples_in_float():
    model = fitted(SVC(), X, SPECIES)
    found = run(model, SHIFTED, np.float32)
    assert found["scores"].dtype == np.float32
    assert (found["label"] == model.predict(SHIFTED)).mean() > 0.98
    np.testing.assert_allclose(found["scores"], model.decision_function(SHIFTED), atol=1.5e-3, rtol=1e-3)


def test_far_from_the_origin():
    """Squared norms of 1e12 would leave four digits of the distances."""
    model = fitted(SVR(gamma=0.5), X + 1e6, VALUE)
    np.testing.assert_allclose(run(model, SHIFTED + 1e6)["variable"][:, 0], model.predict(SHIFTED + 1e6), atol=1e-7)


def test_kernel_values():
    K = X @ X.T
    model = fitted(SVC(kernel="precomputed"), K, SPECIES)
    check_classes(model, K, run(model, K))


@pytest.mark.parametrize("machine", [SVC(), LinearSVC(), PSVC(epsilon=0.2)], ids=str)
def test_pipelines_need_no_registration(machine):
    model = fitted(make_pipeline(StandardScaler(), PCA(3), machine), IRIS, SPECIES)
    found = run_pipeline(model, IRIS)
    np.testing.assert_array_equal(found["label"], model.predict(IRIS))
    np.testing.assert_allclose(found["scores"], model.decision_function(IRIS), atol=1e-6)


def run_pipeline(model, samples):
    onx = skl2onnx.to_onnx(model, samples[:1])
    session = onnxruntime.InferenceSession(onx.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: samples}), strict=True))


def test_a_selector_in_a_pipeline():
    model = fitted(make_pipeline(PSVMSelector(n_features_to_select=2), LinearSVC()), X, SPECIES)
    np.testing.assert_array_equal(run(model, SHIFTED)["label"], model.predict(SHIFTED))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVC(kernel=lambda A, B: A @ B.T), "SVC as ONNX: a compiled kernel was asked for; found kernel=<function"),
        (SVR(parametric=[lambda A: A[:, 0]]), "a model without parametric functions, which are Python was asked for"),
    ],
    ids=["callable", "parametric"],
)
def test_what_cannot_be_exported_is_told(model, message):
    fitted(model, X, SPECIES)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        skl2onnx.to_onnx(model, X[:1])
