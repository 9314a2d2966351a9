"""The page about a fitted machine: it is whole, it is well formed, and what it says is so."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError

from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, OneClassSVM

VOID = {"meta", "line", "rect", "polyline", "path", "br"}


class Reader(HTMLParser):
    """Looks whether what is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path) -> tuple[str, str]:
    """The source and the words of a page."""
    source = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(source)
    assert not reader.open
    assert not any(name in ("src", "href", "onload", "onclick") for name, _ in reader.attributes)
    assert "<script" not in source and "url(" not in source and "@import" not in source
    return source, " ".join(reader.text)


@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=3),
        SVC(decision_function_shape="ovo"),
        NuSVC(nu=0.05),
        LinearSVC(),
        OneClassSVM(nu=0.1),
        LinearOneClassSVM(),
    ],
    ids=repr,
)
def test_a_page_about_classes(machine, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = machine.fit(X, y)
    assert model.report(tmp_path / "page.html", X, y) is model
    source, words = read(tmp_path / "page.html")
    assert f"{model.certificate_.primal:.8g}" in words
    assert type(model).__name__ in words
    assert "hardest samples" in words
    assert "prefers-color-scheme: dark" in source and "width=device-width" in source and "@media print" in source
    if hasattr(model, "classes_"):
        assert f"{100 * (model.predict(X) == y).mean():.4g} %" in words
    model.report(tmp_path / "bare.html")
    read(tmp_path / "bare.html")


@pytest.mark.parametrize("machine", [SVR(C=100), LinearSVR(C=100)], ids=repr)
def test_a_page_about_numbers(machine, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = machine.fit(X, y).report(tmp_path / "page.html", X, y)
    _, words = read(tmp_path / "page.html")
    assert f"R² {model.score(X, y):.4f}" in words
    worst = int(np.abs(y - model.predict(X)).argmax())
    assert re.search(rf"residual\s+{worst}\b", words)


def test_what_users_wrote_is_escaped(tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["<script>alert(1)</script>", "a & b", "c"])[y]
    SVC().fit(X, names).report(tmp_path / "page.html", X, names)
    source, words = read(tmp_path / "page.html")
    assert "&lt;script&gt;" in source
    with pytest.raises(NotFittedError):
        SVC().report(tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()
