"""The examples that people read first run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
def test_the_code_of_a_page_runs_from_top_to_bottom(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert bool(blocks) != (page.name in WITHOUT_CODE)
    if any("import matplotlib" in block for block in blocks):
        pytest.importorskip("matplotlib")
    exec(compile("\n".join(blocks), page.name, "exec", dont_inherit=True), {"__name__": "__main__"})


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
