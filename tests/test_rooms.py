"""Imports go downwards only, and numba has one door."""

import ast
from pathlib import Path

import pytest

import maxmargin
from maxmargin.solvers import SOLVERS

ROOT = Path(maxmargin.__file__).parent

# The rooms of the package by level; what is not named here is on top.
LEVELS = {
    "_jit": 0, "_lazy": 0, "goal": 0, "host": 0, "losses": 0, "memory": 0, "monitor": 0, "problem": 0, "solution": 0,
    "threads": 0,
    "gram": 1, "rows": 1,
    "decisions": 2, "formulations": 2, "solvers": 2,
    "estimators": 3, "report": 3,
    "files": 4,
}  # fmt: skip
TOP = 5
STRANGERS = {"formulations", "solvers"}  # they meet in the estimators only
COMPILERS = {"numba", "llvmlite"}

SOURCES = sorted(ROOT.rglob("*.py"))


def room(module: str) -> str:
    """The first part of a name below the package: "gram" for maxmargin.gram.cache, "" for the package itself."""
    return (module.split(".") + [""])[1]


def level(module: str) -> int:
    return LEVELS.get(room(module), TOP)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["maxmargin", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported(path: Path, source: str | None = None) -> set[str]:
    """The full names of all modules that a source file imports, anywhere in it."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text() if source is None else source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:  # "from .. import threads" imports a module, "from .x import f" a name in one
                deeper = ROOT.parent / Path(*base.split("."), alias.name)
                found.add(f"{base}.{alias.name}" if deeper.is_dir() or deeper.with_suffix(".py").is_file() else base)
    return found


def ours(path: Path, source: str | None = None) -> set[str]:
    return {name for name in imported(path, source) if name.split(".")[0] == "maxmargin"}


every_source = pytest.mark.parametrize("path", SOURCES, ids=[path.relative_to(ROOT).as_posix() for path in SOURCES])


@every_source
def test_imports_go_downwards(path):
    here = module_name(path)
    upwards = {name for name in ours(path) if level(name) > level(here)}
    assert not upwards, f"{here} is on level {level(here)} and must not import {sorted(upwards)}"


@every_source
def test_formulations_and_solvers_never_meet(path):
    here = room(module_name(path))
    if here in STRANGERS:
        others = {name for name in ours(path) if room(name) in STRANGERS - {here}}
        assert not others, f"{module_name(path)} must not import {sorted(others)}"


@every_source
def test_numba_has_one_door(path):
    compilers = {name for name in imported(path) if name.split(".")[0] in COMPILERS}
    assert not compilers or path.parent.name == "_jit", f"{module_name(path)} imports {sorted(compilers)}; use _jit"


def test_named_rooms_exist():
    existing = {p.stem for p in ROOT.glob("*.py")} | {p.name for p in ROOT.iterdir() if p.is_dir()}
    assert set(LEVELS) - existing <= {"rows"}


@pytest.mark.parametrize(
    ("file", "source", "names"),
    [
        ("gram/cache.py", "from .base import Gram", {"maxmargin.gram.base"}),
        ("gram/cache.py", "from ..solvers import solve", {"maxmargin.solvers"}),
        ("gram/cache.py", "from .. import threads as th", {"maxmargin.threads"}),
        ("gram/__init__.py", "from .base import Gram", {"maxmargin.gram.base"}),
        ("problem.py", "def f():\n    from .gram.cache import RowCache", {"maxmargin.gram.cache"}),
        ("problem.py", "import maxmargin.estimators", {"maxmargin.estimators"}),
        ("problem.py", "from maxmargin import solvers", {"maxmargin.solvers"}),
        ("problem.py", "from . import QP", {"maxmargin"}),
    ],
)
def test_the_reader_of_imports_sees_them_all(file, source, names):
    assert ours(ROOT / file, source) == names


def test_a_file_of_a_solver_is_in_the_registry():
    """What is on the shelf of the solvers is one; what they share lies in ``solvers/parts``."""
    registered = {solver.__module__.rpartition(".")[2] for solver in SOLVERS.values()}
    files = {path.stem for path in (ROOT / "solvers").glob("*.py")}
    assert files == registered | {"__init__", "base", "auto"}


@every_source
def test_parts_know_no_solver(path):
    here = module_name(path)
    if here.startswith("maxmargin.solvers.parts"):
        solvers = {name for name in ours(path) if name.startswith("maxmargin.solvers") and ".parts" not in name}
        assert not solvers, f"{here} must not import {sorted(solvers)}"


LONGEST_SOLVER, LONGEST_FUNCTION = 350, 80  # lines that a reader can keep in mind
LEAF = {"jit", "aside", "helper", "inline", "shared"}  # what is compiled costs more in pieces


def test_a_solver_fits_into_a_head():
    lines = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "solvers").glob("*.py")}
    assert {name: count for name, count in lines.items() if count > LONGEST_SOLVER} == {}


@every_source
def test_functions_are_short(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    long = {
        f"{function.name}: {function.end_lineno - function.lineno + 1} lines"
        for function in functions
        if not LEAF & {ast.unparse(mark) for mark in function.decorator_list}
        and function.end_lineno - function.lineno >= LONGEST_FUNCTION
    }
    assert not long


def unannotated(tree: ast.Module) -> set[str]:
    """Functions with a parameter, or a result, that has no type; but leaves, and what numba is told of them."""
    found = set()

    def look(node: ast.AST, method: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                marks = {ast.unparse(mark).partition("(")[0] for mark in child.decorator_list}
                if marks & (LEAF | {"by_types"}):
                    continue
                first = method and "staticmethod" not in marks
                own = [*child.args.posonlyargs, *child.args.args][first:]
                own += [*child.args.kwonlyargs, *filter(None, (child.args.vararg, child.args.kwarg))]
                if child.returns is None or any(parameter.annotation is None for parameter in own):
                    found.add(f"{child.name}, line {child.lineno}")
            look(child, isinstance(child, ast.ClassDef))

    look(tree, False)
    return found


@every_source
def test_functions_are_annotated(path):
    if path.parent.name != "_jit":  # the door to numba, whose stubs say nothing
        assert unannotated(ast.parse(path.read_text())) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x: int) -> int: ...", set()),
        ("def f(x) -> int: ...", {"f, line 1"}),
        ("def f(x: int): ...", {"f, line 1"}),
        ("def f(*args) -> int: ...", {"f, line 1"}),
        ("@jit\ndef f(x): ...", set()),
        ("class A:\n    def f(self) -> int:\n        def g(x): ...", {"g, line 3"}),
        ("class A:\n    @staticmethod\n    def f(x) -> int: ...", {"f, line 3"}),
    ],
)
def test_the_reader_of_annotations_sees_them_all(source, found):
    assert unannotated(ast.parse(source)) == found
