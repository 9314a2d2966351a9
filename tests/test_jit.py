"""Where compiled code is kept, and how long compiling takes. What may go wrong with it is in faults/."""

import ast
import gc
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from maxmargin import _jit
from maxmargin._jit import apart, compiler, kept
from maxmargin.rows.leaves import csr_scale, csr_squares


def test_the_environment_names_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "kept"))
    folder = _jit.cache_dir()
    assert folder.parent == tmp_path / "kept"
    assert folder.is_dir()
    assert _jit.cache_dir() == folder


def test_a_folder_that_cannot_be_made_is_replaced(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="MAXMARGIN_CACHE_DIR"):
        folder = _jit.cache_dir()
    assert folder.is_dir()
    assert tmp_path / "temporary" in folder.parents
    assert os.access(folder, os.W_OK)


def test_other_sources_have_another_folder(monkeypatch, tmp_path):
    """numba looks at one file at a time; a changed callee in another one must not go unseen."""
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "kept"))
    before = _jit.cache_dir()
    copy = tmp_path / "package" / "_jit"
    copy.mkdir(parents=True)
    source = Path(_jit.folders.__file__)
    (copy / "folders.py").write_text(source.read_text() + "\n# changed\n")
    monkeypatch.setattr(_jit.folders, "__file__", str(copy / "folders.py"))
    assert _jit.cache_dir() != before


def test_without_sources_nothing_is_kept(monkeypatch, tmp_path):
    """In a zip archive, say: nothing would tell the code of one version from that of the next."""
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(_jit.folders, "__file__", str(tmp_path / "archive.zip" / "_jit" / "folders.py"))
    assert _jit.cache_dir() is None


@pytest.mark.parametrize("what", ["import maxmargin", "import maxmargin._jit"])
def test_importing_compiles_nothing_and_says_nothing(what, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", what],
        env=os.environ | {"MAXMARGIN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_first_use_is_announced_and_kept(tmp_path):
    """Once on the error stream, then from disk."""
    script = (
        "import numpy as np; from maxmargin.gram import Kernel, KernelGram; "
        "print(KernelGram(Kernel('rbf'), np.eye(3)).dense().sum())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"MAXMARGIN_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr in ("", "maxmargin: compiling its inner loops for this machine (once; kept on disk)\n")
    assert runs[1].stderr == ""
    assert list(tmp_path.rglob("*.nbc"))


class Slow(numba.core.event.Listener):
    """Makes every compilation longer, by a known time."""

    SECONDS = 0.3

    def __init__(self):
        self.started = threading.Event()

    def on_start(self, event):
        self.started.set()
        time.sleep(self.SECONDS)

    def on_end(self, event):
        pass


@pytest.fixture
def slow(monkeypatch, tmp_path):
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    with numba.core.event.install_listener("numba:compile", Slow()) as listener:
        yield listener


def squares(leaf):
    leaf(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), np.zeros(2))


def scale(leaf):
    leaf(np.array([0, 1, 3]), np.array([1.0, 2.0, 3.0]), np.ones(2), np.zeros(3))


def test_compiling_takes_time_and_running_none(slow):
    before, leaf = _jit.compiling_seconds(), _jit.jit(csr_squares.py_func)
    assert _jit.compiling_seconds() == before
    squares(leaf)
    after = _jit.compiling_seconds()
    assert after - before >= slow.SECONDS
    squares(leaf)
    assert _jit.compiling_seconds() == after


def test_loading_takes_time_too(slow):
    squares(_jit.jit(csr_squares.py_func))
    before, leaf = _jit.compiling_seconds(), _jit.jit(csr_squares.py_func)
    squares(leaf)
    assert sum(leaf.stats.cache_hits.values()) == 1
    assert _jit.compiling_seconds() > before


def test_a_compilation_in_progress_counts(slow):
    before = _jit.compiling_seconds()
    thread = threading.Thread(target=squares, args=(_jit.jit(csr_squares.py_func),))
    thread.start()
    assert slow.started.wait(60)
    first, _, second = _jit.compiling_seconds(), time.sleep(0.01), _jit.compiling_seconds()
    thread.join()
    assert before < first < second < _jit.compiling_seconds()


def test_threads_that_wait_for_each_other_are_not_counted_twice(slow):
    before, started = _jit.compiling_seconds(), time.perf_counter()
    threads = [
        threading.Thread(target=squares, args=(_jit.jit(csr_squares.py_func),)),
        threading.Thread(target=scale, args=(_jit.jit(csr_scale.py_func),)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 * slow.SECONDS <= _jit.compiling_seconds() - before <= time.perf_counter() - started


def test_a_failed_compilation_ends(slow):
    def leaf(x):
        return x.there_is_no_such_thing

    with pytest.raises(numba.core.errors.TypingError):
        _jit.jit(leaf)(1.0)
    after = _jit.compiling_seconds()
    time.sleep(0.01)
    assert _jit.compiling_seconds() == after


@pytest.mark.parametrize(("folders", "words"), [(1, "once; kept on disk"), (0, "for this process only")])
def test_what_is_said_is_true(folders, words, slow, monkeypatch, tmp_path, capsys):
    folder = tmp_path / _jit.folders.SOURCES
    folder.mkdir()
    monkeypatch.setattr(_jit.folders, "folders", lambda: [folder][:folders])
    # No time is short enough to go unsaid: how long the two take depends on the machine.
    monkeypatch.setattr(_jit.clock, "SLOW_COMPILE_SECONDS", 0.0)
    monkeypatch.setattr(kept, "clock", _jit.clock.Clock())
    squares(_jit.jit(csr_squares.py_func))
    scale(_jit.jit(csr_scale.py_func))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("maxmargin: compiling its inner loops")
    assert words in line


def test_what_is_quick_is_not_talked_about(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    monkeypatch.setattr(_jit.clock, "SLOW_COMPILE_SECONDS", np.inf)
    monkeypatch.setattr(kept, "clock", _jit.clock.Clock())
    squares(_jit.jit(csr_squares.py_func))
    assert kept.clock.seconds() > 0.0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_collected_again_after_compiling(before, monkeypatch, tmp_path):
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    seen = []

    def leaf(x):
        return x.there_is_no_such_thing

    class Look(numba.core.event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    was = gc.isenabled()
    try:
        gc.enable() if before else gc.disable()
        with numba.core.event.install_listener("numba:compile", Look()):
            squares(_jit.jit(csr_squares.py_func))
            assert gc.isenabled() == before
            with pytest.raises(numba.core.errors.TypingError):
                _jit.jit(leaf)(1.0)
        assert gc.isenabled() == before
        assert seen == [False, False]
    finally:
        gc.enable() if was else gc.disable()


@_jit.helper
def _inner(a):
    return a[0] + 1.0


@_jit.helper
def _middle(a):
    return 2.0 * _inner(a)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_helpers_are_compiled_into_their_leaves(monkeypatch, tmp_path):
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])

    def twice(a):
        return _middle(a) + _inner(a)

    def once(a):
        return _middle(a)

    a = np.array([3.0])
    assert _jit.jit(twice)(a) == 12.0
    assert _jit.jit(once)(a) == 8.0
    again = _jit.jit(twice)  # from disk, where helpers are not
    assert again(a) == 12.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises((TypeError, KeyError)):  # and not a crash
        _middle(a)


def _larger(a, b):
    return a / b if a > b else 2.0 * b


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_functions_of_others_do_not_change_leaves(monkeypatch, tmp_path):
    """What numba found for an operator is remembered; others may have had it compiled with other options since."""
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])

    def comparisons(function):
        function(1.0, 2.0)
        lines = next(iter(function.inspect_llvm().values())).splitlines()
        return [line.split("fcmp")[1].split(",")[0] for line in lines if "fcmp" in line]

    before = comparisons(_jit.jit(_larger))
    other = comparisons(numba.njit(_larger))
    (tmp_path / next(tmp_path.iterdir()).name).unlink()  # or the second leaf would be loaded
    assert before and comparisons(_jit.jit(_larger)) == before != other
    assert comparisons(numba.njit(_larger)) == other


@pytest.mark.parametrize("missing", ["_Typing.resolve_function_type", "_Flags.__init__", "_LeafLowering.run_pass"])
def test_another_numba_may_have_other_insides(missing, monkeypatch):
    def broken(*args, **kwargs):
        raise AttributeError("not in this version")

    owner, name = missing.split(".")
    monkeypatch.setattr(getattr(compiler, owner), name, broken)

    @_jit.jit
    def doubled(x):
        return 2.0 * x + 1.0

    assert doubled(3.0) == 7.0


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Compiles a leaf and says what LLVM made of it."""
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])

    def run(function, *args):
        leaf = _jit.jit(function)
        return leaf(*args), next(iter(leaf.inspect_llvm().values()))

    return run


def _row_sums(a, out, first):
    for r in range(first, -1, -1):
        row = a[r]
        out[r] = 0.0
        for c in range(1, len(row)):
            out[r] = max(out[r] + row[c], -100.0)
        a[r, 0] = out[r]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_references_are_not_counted_where_nothing_is_allocated(compiled):
    a, out = np.arange(6.0).reshape(2, 3), np.zeros(2)
    _, code = compiled(_row_sums, a, out, 1)
    assert out.tolist() == [3.0, 9.0]
    assert a[:, 0].tolist() == [3.0, 9.0]
    assert "NRT_incref" not in code


def _rows_and_columns(n):
    table = np.empty((n, 2))
    counts = np.empty(n, np.int64)
    for k in range(n):
        row = table[k]
        row[0] = k
        row[1] = min(k, 2)
        counts[k] = k
    last = table[n - 1]
    return table, last, counts[1:], counts[-1]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_what_a_leaf_allocates_is_given_back(compiled):
    (table, last, counts, end), _ = compiled(_rows_and_columns, 4)
    assert table.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 2.0]]
    assert (last.tolist(), counts.tolist(), end) == ([3.0, 2.0], [1, 2, 3], 3)
    del table
    assert last.tolist() == [3.0, 2.0]  # which holds on to its table
    del last, counts
    gc.collect()
    leaf = _jit.jit(_rows_and_columns)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(10):
        leaf(4)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free >= 20


@_jit.helper
def _second(a):
    return a[1]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_row_that_a_helper_returns_is_held(compiled):
    def leaf(n):
        a = np.empty((n, n))
        for k in range(n):
            a[1, k] = k
        return _second(a)

    held, _ = compiled(leaf, 3)
    assert held.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
def test_entries_have_the_type_of_their_array(compiled, dtype):
    def leaf(a, b):
        for k in range(len(a)):
            b[k] = a[k]
        return a[0] + 1, max(len(a), 2), min(a[0], a[0])

    a, b = np.array([1, 0, 1], dtype), np.zeros(3, dtype)
    results, _ = compiled(leaf, a, b)
    assert b.tolist() == a.tolist()
    assert results == (2, 3, 1)


class _Pair(NamedTuple):
    table: np.ndarray
    scale: np.ndarray


def _entries(pair, cube, narrow, last, twice):
    total = 0.0
    for i in range(cube.shape[0]):
        for k in range(cube.shape[2]):
            cube[i, 1, k] -= pair.table[i, k] / pair.scale[0]
            total += cube[i, 1, k] * (2 if twice else 1)
    order = (last < 3, last <= 2, last > 3, last >= 2, last == 2, last != 2)
    one = pair.scale[1]
    real = (one == 1.0, one != 1.0, one < 1.0, 1.0 >= one, one > -total)
    return total, narrow[0] + narrow[1], last / 4, order, real


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("scale", [0.5, 0.0])
def test_numbers_are_computed_with_as_python_does(compiled, scale):
    def given():
        pair = _Pair(np.arange(1.0, 7.0).reshape(2, 3), np.array([scale, 1.0]))
        return pair, np.ones((2, 2, 3)), np.array([1.5, 2.5], np.float32), 2, True

    mine, theirs = given(), given()
    found, code = compiled(_entries, *mine)
    with np.errstate(divide="ignore"):
        assert found == _entries(*theirs)
    np.testing.assert_array_equal(mine[1], theirs[1])
    assert "NRT_incref" not in code


@_jit.aside
def _room(n):
    a, b = np.empty((2, n)), np.empty(n, np.int64)
    for k in range(n):
        a[0, k], a[1, k], b[k] = k, 2 * k, k
    return _Pair(a, a[1]), b


@_jit.shared
def _weighed(pair, b):
    total = 0.0
    for k in range(len(b)):
        total += pair.table[0, k] * pair.scale[k] * b[k]
    return total


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_arrays_of_a_tuple_are_given_back(compiled):
    def leaf(n):
        pair, b = _room(n)
        return _weighed(pair, b)

    assert compiled(leaf, 4)[0] == 2.0 * (1 + 8 + 27)
    again = _jit.jit(leaf)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(10):
        again(4)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free >= 20


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_more_memory_than_there_is(compiled):
    def leaf(n):
        return len(np.empty((n, n)))

    with pytest.raises(MemoryError):
        compiled(leaf, 1 << 29)


@_jit.helper
def _at_least(x):
    return max(x, np.finfo(np.float64).tiny)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_what_numba_registers_while_it_compiles_is_found(tmp_path):
    script = "from test_jit import _at_least, _jit; leaf = _jit.jit(lambda x: _at_least(x)); print(leaf(0.0))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MAXMARGIN_CACHE_DIR": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert float(found.stdout) == np.finfo(np.float64).tiny


def _largest(a):
    best = -1.0
    for k in range(len(a)):
        best = max(best, a[k])
    return best


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_the_largest_of_many_is_found_with_vectors(compiled):
    best, code = compiled(_largest, np.arange(100.0))
    assert best == 99.0
    assert "vector.reduce.fmax" in code


@_jit.aside
def _halved(a):
    total = 0.0
    for k in range(len(a)):
        total += 0.5 * a[k]
    return total


@_jit.helper
def _below(a):
    return _halved(a) - 1.0


@_jit.aside
def _above(a):
    return _halved(a) + 1.0


def _both(a):
    return _below(a) * _above(a)


APART = """
import sys
import numpy as np
from pathlib import Path
from maxmargin import _jit
from maxmargin._jit import apart, compiler, kept
from test_jit import _both

_jit.folders.folders = lambda: [Path(sys.argv[1])]
leaf = _jit.jit(_both)
print(leaf(np.array([2.0, 4.0])), sum(leaf.stats.cache_hits.values()), len(apart._loaded))
"""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_what_is_compiled_beside_a_leaf_is_kept_with_it(tmp_path):
    """In another process, where nothing but the leaf's file says what it needs."""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    runs = [
        subprocess.run(
            [sys.executable, "-c", APART, str(tmp_path)],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
        for _ in range(2)
    ]
    assert [(run.returncode, run.stdout) for run in runs] == [(0, "8.0 0 2\n"), (0, "8.0 1 2\n")], runs[0].stderr
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_part_is_not_in_the_code_of_its_leaf(compiled):
    _, code = compiled(_both, np.ones(4))
    assert [line for line in code.splitlines() if line.startswith("declare") and "_halved" in line]
    assert not [line for line in code.splitlines() if line.startswith("define") and "_halved" in line]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_function_of_others_can_call_what_is_compiled_beside_leaves(monkeypatch, tmp_path):
    """And so can a leaf that numba had to compile in its own way, which is kept as it is."""
    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    assert numba.njit(_both)(np.array([2.0, 4.0])) == 8.0
    monkeypatch.setattr(compiler._LeafLowering, "run_pass", None)
    leaf = _jit.jit(_both)
    assert leaf(np.array([2.0, 4.0])) == 8.0
    assert next(iter(leaf.overloads.values())).library.left_to_numba
    again = _jit.jit(_both)
    assert again(np.array([2.0, 4.0])) == 8.0
    assert sum(again.stats.cache_hits.values()) == 1
    assert next(iter(again.overloads.values())).library.left_to_numba


@_jit.aside
def _inner(a):
    return a[0] + 1.0


@_jit.aside
def _outer(a):
    return _inner(a) - _inner(a[1:])


def _outermost(a):
    return 2.0 * _outer(a)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_part_that_cannot_be_compiled_beside_its_leaf(monkeypatch, tmp_path):
    def broken(*args):
        raise RuntimeError("no thread, no memory")

    monkeypatch.setattr(_jit.folders, "folders", lambda: [tmp_path])
    monkeypatch.setattr(apart, "machine_code", broken)
    assert _jit.jit(_outermost)(np.array([7.0, 3.0])) == 8.0


def _imported(path: Path) -> dict[str, Path]:
    """Names that a file takes from other files of the package → the files."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        for alias in node.names:
            beside = [folder / f"{alias.name}.py", folder / alias.name / "__init__.py"]
            whole = [folder.with_suffix(".py"), folder / "__init__.py"]
            found[alias.asname or alias.name] = next(p for p in (*beside, *whole) if p.is_file())
    return found


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def test_leaves_read_nothing_from_files_that_do_not_count():
    """Compiled code is kept for the contents of some files; what is read from another one could change unseen."""
    root = Path(_jit.__file__).parents[1]
    hashed, leaves, taken = set(_jit.folders.hashed(root)), 0, 0
    for path in hashed:
        name = ".".join(("maxmargin", *path.relative_to(root).with_suffix("").parts))
        module, imported = importlib.import_module(name.removesuffix(".__init__")), _imported(path)
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
                continue
            kinds = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
            if not kinds & {"jit", "helper", "aside", "inline", "shared", "by_types"}:
                continue
            function = getattr(module, node.name)
            leaves += 1
            for used in _names(getattr(function, "py_func", function).__code__) & imported.keys():
                taken += 1
                assert imported[used] in hashed, f"{path.name}: {node.name} reads {used} from {imported[used].name}"
    assert leaves > 100
    assert taken > 30
