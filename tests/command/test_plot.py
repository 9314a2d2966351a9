"""``maxmargin plot`` draws what the displays draw, and tells what a model or a flag lacks."""

from __future__ import annotations

import pytest

from command.running import run
from files.samples import data
from maxmargin.files import write_svmlight

pytest.importorskip("matplotlib", reason="the extra plot is missing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("plots")
    X, y = data(3)
    write_svmlight(place / "data", X, y)
    assert run("train", "-q", place / "data", place / "model").code == 0
    assert run("train", "-q", place / "data", place / "model.mm").code == 0
    assert run("train", "-q", "--linear", place / "data", place / "linear").code == 0
    return place


@pytest.mark.parametrize(
    ("kind", "model", "on_data"),
    [
        ("margin", "model", True),
        ("kernel", "model", True),
        ("convergence", "model.mm", False),
        ("features", "linear", False),
        ("path", "linear", True),
    ],
)
def test_each_kind(folder, kind, model, on_data):
    out = folder / f"{kind}.svg"
    found = run("plot", kind, folder / model, *([folder / "data"] if on_data else []), "-o", out)
    assert (found.code, found.out) == (0, f"Plot written to {out}\n"), found.err
    assert "<svg" in out.read_text()[:1000]


def test_a_dark_picture_is_darker(folder):
    from matplotlib import pyplot as plt

    with plt.rc_context():
        lightness = []
        for words in ([], ["--dark"]):
            run("plot", "margin", folder / "model", folder / "data", "-o", folder / "m.png", *words)
            lightness.append(plt.imread(folder / "m.png")[..., :3].mean())
    assert lightness[1] < 0.5 < lightness[0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["plot", "margins", "model", "data"], 2, "'margins' is none of the plots margin, convergence"),
        (["plot", "margin", "model"], 2, "plot margin needs DATA after MODEL"),
        (["plot", "convergence", "model"], 1, "found a format that keeps none; train to a name that ends with .mm"),
        (["plot", "path", "model", "data"], 1, "a linear machine was asked for; found SVC"),
        (["plot", "features", "model"], 1, "the importance of features was asked for; found SVC"),
        (["plot", "margin", "model", "data", "-o", "m.xyz"], 1, "name it .png, .svg or .pdf"),
        (["plot", "margin", "model", "data", "-o", "no/m.png"], 1, "no/m.png: it cannot be written"),
    ],
)
def test_what_is_wrong_is_told(folder, monkeypatch, words, code, message):
    monkeypatch.chdir(folder)
    found = run(*words)
    assert found.code == code and message in found.err and found.err.count("\n") == 1, found
