"""The examples that people read first run as they stand."""

from __future__ import annotations

import re
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

from command.running import run
from maxmargin import FORMULATIONS, KERNELS, SOLVERS
from maxmargin.losses import MARGIN_LOSSES, RESIDUAL_LOSSES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITHOUT_CODE = {"bibliography.md", "warmup.md"}


@pytest.fixture(autouse=True)
def registries():
    """What a page adds to a registry goes when it ends."""
    shelves = (SOLVERS, FORMULATIONS, KERNELS, MARGIN_LOSSES, RESIDUAL_LOSSES)
    before = [dict(shelf) for shelf in shelves]
    yield
    for shelf, entries in zip(shelves, before, strict=True):
        shelf.clear()
        shelf.update(entries)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert bool(blocks) != (page.name in WITHOUT_CODE)
    if any("import matplotlib" in block for block in blocks):
        pytest.importorskip("matplotlib")
    exec(compile("\n".join(blocks), page.name, "exec", dont_inherit=True), {"__name__": "__main__"})


def test_what_is_typed_gives_what_is_shown(tmp_path, monkeypatch):
    """Commands after a $ in blocks of a console, with what follows them; ... stands for anything."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "command.md").read_text()
    exec("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)), {"__name__": "__main__"})
    typed = 0
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for words, shown in re.findall(r"^\$ maxmargin (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            found = run(*words.split())
            assert found.code == 0, found.err
            assert OutputChecker().check_output(shown, found.out, ELLIPSIS), (words, found.out)
            typed += 1
    assert typed >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_to_what_is_there(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def cited(text: str) -> set[str]:
    """The papers that a text names: an author or two and a year."""
    authors = r"(?:[A-Z]\w+, )*[A-ZÉ][\wéúß]+(?: & [A-Z]\w+| et al\.)?"
    return {" ".join(found.split()) for found in re.findall(rf"\b({authors} (?:19|20)\d\d)\b", text)}


def test_papers_are_cited_in_full():
    """A name with a year in a docstring or comment, or one of the five papers, has its entry in the bibliography."""
    entries = re.findall(r"^\| (\S[^|]*?) \|", (ROOT / "docs" / "bibliography.md").read_text(), re.MULTILINE)
    named: set[str] = set()
    for source in (ROOT / "src").rglob("*.py"):
        text = source.read_text()
        named |= cited(text) | set(re.findall(r"\b(?:MPD|SLIDES|PDCO|PRIMAL|PSVM)\b", text))
    assert len(named) > 10
    assert named - {"Python 2026"} <= set(entries)


def test_the_readme_shows_the_results_that_are_kept():
    from benchmarks import readme_table

    page = readme_table.README.read_text()
    assert readme_table.written(page) == page, "run python benchmarks/readme_table.py --write"
