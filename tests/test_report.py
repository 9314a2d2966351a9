"""The report: one file that asks nobody for anything, and says what is true of the model."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

from command.running import run
from maxmargin import PSVC, SVC, SVDD, SVR, LinearSVC, NuSVR, OneClassSVM, save
from maxmargin.files import save_libsvm, write_svmlight
from maxmargin.report import charts, html_of

IRIS = load_iris(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True, as_frame=True)
DIABETES = load_diabetes(return_X_y=True)

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Reader(HTMLParser):
    """The words of a page, its tags, and whether all of them are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def read(model, X, y=None) -> Reader:
    text = html_of(model, X, y)
    page = Reader(text)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert "url(" not in text and "@import" not in text
    assert "nan" not in " ".join(value for name, value in page.attributes if name in ("d", "x", "y", "cx", "cy"))
    for title in ("Certificate", "What was trained", "Convergence", "The hardest examples", "How to predict with it"):
        assert title in page.text
    return page


def test_two_classes():
    X, y = CANCER
    model = SVC(C=2.0).fit(X, y)
    page = read(model, X, y)
    assert f"{model.score(X, y):.1%} right" in page.text
    assert "Converged. No other model could lower the objective by more than" in page.text
    assert f"{model.certificate_.primal:.6g}" in page.text and f"{model.certificate_.dual:.6g}" in page.text
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    assert f"{margins.min():.4g}" in page.text  # the hardest
    assert "mean radius:" in page.text
    counts = [int(((y == a) & (model.predict(X) == b)).sum()) for a in (0, 1) for b in (0, 1)]
    found = re.findall(r'<td class="(?:hit|miss|none)"[^>]*>(\d+)</td>', html_of(model, X, y))
    assert [int(v) for v in found] == counts


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_several_classes(shape):
    X, y = IRIS
    model = SVC(decision_function_shape=shape).fit(X, y)
    page = read(model, X, y)
    assert "The model is made of 3 problems" in page.text and "least margin" in page.text
    assert model.decision_function_shape == shape
    worst = max(range(3), key=lambda k: model.certificates_[k].relative_gap)
    shown = page.text.split("least is proven: ")[1]
    assert shown.split("relative gap violation ")[1].startswith(("0 v 1", "0 v 2", "1 v 2")[worst])
    f = SVC(decision_function_shape="ovo").fit(X, y).decision_function(X)  # 0 v 1, 0 v 2, 1 v 2
    least = min(f[y == 0][:, :2].min(), min(-f[y == 1][:, 0].max(), f[y == 1][:, 2].min()), -f[y == 2][:, 1:].max())
    assert f"{least:.4g}" in page.text


@pytest.mark.parametrize("model", [LinearSVC(), PSVC(kernel="linear")])
def test_one_against_the_rest(model):
    X, y = IRIS
    page = read(model.fit(X, y), X, y)
    assert "lead over the next class" in page.text


@pytest.mark.parametrize("model", [SVR(C=100.0, epsilon=10.0, solver="mpd"), NuSVR(C=100.0)])
def test_regression(model):
    X, y = DIABETES
    page = read(model.fit(X, y), X, y)
    assert f"R² = {model.score(X, y):.4g}" in page.text
    assert f"{np.mean((model.predict(X) - y) ** 2):.6g}" in page.text
    assert f"{np.abs(model.predict(X) - y).max():.4g}" in page.text
    assert page.tags.count("svg") >= 3


@pytest.mark.parametrize("model", [OneClassSVM(nu=0.1), SVDD(nu=0.1)])
def test_one_class_needs_no_targets(model):
    X, _ = IRIS
    page = read(model.fit(X), X)
    assert f"{np.mean(model.predict(X) < 0):.1%} outside" in page.text


def test_what_a_user_names_is_text_and_never_markup():
    X, _ = IRIS
    labels = np.where(np.arange(150) % 2, "<script>alert(1)</script>", 'a"b&c')
    page = read(SVC().fit(X, labels), X, labels)
    assert "<script>alert(1)</script>" in page.text and 'a"b&c' in page.text


def test_a_fit_that_was_stopped_says_so():
    X, y = CANCER
    with pytest.warns(match="stopped early"):
        model = SVC(max_iter=3, solver="smo").fit(X, y)
    page = read(model, X, y)
    assert "Stopped early" in page.text and "Converged" not in page.text


def test_sparse_samples_other_labels_and_many_classes():
    X, y = IRIS
    model = SVC().fit(sp.csr_matrix(X), y)
    assert f"{model.score(X, y):.1%} right" in read(model, sp.csr_matrix(X), y).text
    page = read(model, X[:5], y[:5] + 7)  # labels that the model never saw
    assert "0.0% right" in page.text and "Margins" not in page.text
    many = np.arange(150) // 6
    assert "Most frequent errors" in read(SVC().fit(X, many), X, many).text


def test_constant_targets_and_one_sample():
    X, y = DIABETES
    model = SVR().fit(X, np.full(len(y), 3.0))
    assert "R² = –" in read(model, X, np.full(len(y), 3.0)).text
    read(model, X[:1], y[:1])
    X, y = IRIS
    read(SVC().fit(X, y), X[:1], y[:1])


def test_samples_of_any_kind():
    words = ["aab", "abb", "bba", "bbb", "aaa", "baa"]
    model = SVC(kernel=lambda A, B: np.array([[float(len(set(a) & set(b)) + (a[0] == b[0])) for b in B] for a in A]))
    labels = [w[0] for w in words]
    assert "aab" in read(model.fit(words, labels), words, labels).text


def test_what_cannot_be_reported_is_told():
    X, y = IRIS
    with pytest.raises(NotFittedError):
        html_of(SVC(), X, y)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="give y"):
        html_of(model, X)
    with pytest.raises(ValueError, match="150 samples and 3 targets"):
        html_of(model, X, y[:3])
    with pytest.raises(ValueError, match="at least one row"):
        html_of(model, X[:0], y[:0])


def test_the_method_and_the_command_write_the_same_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = IRIS
    write_svmlight("iris.libsvm", X, y)
    model = SVC(C=3.0).fit(sp.csr_matrix(X), y)
    model.report("ours.html", sp.csr_matrix(X), y)
    save(model, "iris.mm")
    found = run("report", "iris.mm", "iris.libsvm", "-o", "theirs.html")
    assert (found.code, found.out, found.err) == (0, "Report written to theirs.html\n", "")
    ours, theirs = (Reader((tmp_path / name).read_text(encoding="utf-8")).text for name in ("ours.html", "theirs.html"))
    for part in ("Certificate", "Confusion matrix", "Margins", "The hardest examples"):
        assert part in theirs
    assert ours.split("The hardest examples")[1] == theirs.split("The hardest examples")[1]
    save_libsvm(model, "iris.model")
    assert run("report", "iris.model", "iris.libsvm", "-q").out == ""
    assert "keeps no certificate" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run("report", "iris.mm", "nothing").code == 1


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-3.2, 17.0), (1e-9, 2e-9), (-1e6, 1e6), (5.0, 5.0)])
def test_ticks_are_round_and_within(ends):
    found = charts.ticks(*ends)
    assert 1 <= len(found) <= 8
    assert all(ends[0] - 1e-12 * abs(ends[0]) <= v <= ends[1] + 1e-9 * abs(ends[1]) for v in found)
    assert all(float(f"{v:.2g}") == pytest.approx(v) for v in found)


@pytest.mark.parametrize("ends", [(-16.0, 2.0), (-2.3, -1.1), (-2.3, -2.2), (0.0, 1.0)])
def test_logarithmic_ticks_are_at_least_two(ends):
    found = charts.log_ticks(*ends)
    assert 2 <= len(found) <= 8
    assert all(ends[0] - 1e-6 <= np.log10(v) <= ends[1] + 1e-6 for v in found)
