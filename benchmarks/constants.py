"""Every numeric constant of the solvers, of Gram matrices and rows, at half and at double, on a panel of problems.

    python benchmarks/constants.py                 # writes results/constants.csv, some 15 CPU minutes
    python benchmarks/constants.py --only pcg.     # constants with this in their name, printed only
    python benchmarks/constants.py --leaves no     # without those that compiled code has frozen, some 5 CPU minutes
    python benchmarks/constants.py --panel         # what the problems of the panel take as things are

A small number (1e-6 or less) is tried at a tenth and at ten times its value, a share between ½ and 1 at half and
double its distance from 1. A constant is tried on the quickest of the problems that come to a line that reads it; "-"
in the column ``problems`` says that none does. Columns: the problems that were tried, CPU seconds, iterations and
kernel evaluations as a ratio of what they are with the value in the source (the sums of all those problems), the
problem whose seconds change most with its ratio, how many problems have other counts, and which have another status.

Each trial runs in a forked copy of one warm process, where the constant is replaced in all modules that know it. A
constant that compiled code or a default of a field has frozen needs a process that imports the package with another
number in the source, and a cache of compiled code of its own.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse

ROOT = Path(__file__).parents[1] / "src" / "maxmargin"
ROOMS = ("solvers", "solvers/parts", "gram", "rows")
LEAF = {"jit", "helper", "inline"}
REPEATS = 3  # of which the shortest counts; once does where the first is as quick as the source's value
NOISE = 1.1  # times as long may be noise
LONGEST = 10  # CPU seconds: a problem of the panel takes .3 at most
RESULTS = Path(__file__).parent / "results" / "constants.csv"
COLUMNS = ["constant", "value", "tried", "problems", "seconds", "iterations", "evals"]
COLUMNS += ["worst", "worst_seconds", "other_counts", "other_status"]


# The constants, and who reads them -----------------------------------------------------------------------------------


@dataclass
class Constant:
    """A number at the top of a module."""

    module: str
    name: str
    value: float
    lines: set[tuple[str, int]] = field(default_factory=set)  # of Python that read it, or that call a leaf which does
    frozen: bool = False  # in a default of a field or another constant
    compiled: bool = False

    @property
    def title(self) -> str:
        return f"{self.module.removeprefix('maxmargin.')}.{self.name}"

    def tries(self) -> list[float]:
        """The other values: half and double, or what stands for that."""
        if isinstance(self.value, int):
            return [max(1, self.value // 2) if self.value > 0 else self.value * 2, self.value * 2]
        if 0.5 < self.value < 1.0:
            return [1.0 - (1.0 - self.value) / 2.0, 1.0 - min(2.0 * (1.0 - self.value), 0.95)]
        factor = 10.0 if abs(self.value) <= 1e-6 or abs(self.value) >= 1e6 else 2.0
        return [self.value / factor, self.value * factor]


class Reader(ast.NodeVisitor):
    """The names that a module reads, each with its line, the function around it and whether that is compiled."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, int, str, bool]] = []  # name, line, function ("": none), compiled
        self.function, self.compiled = "", False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        for part in [*node.args.defaults, *[d for d in node.args.kw_defaults if d], *node.decorator_list]:
            self.visit(part)
        before = self.function, self.compiled
        marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
        self.function, self.compiled = node.name, self.compiled or bool(marks & LEAF)
        for part in node.body:
            self.visit(part)
        self.function, self.compiled = before

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802
        if isinstance(node.ctx, ast.Load):
            self.reads.append((node.id, node.lineno, self.function, self.compiled))

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        self.reads.append((node.attr, node.lineno, self.function, self.compiled))
        self.visit(node.value)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def constants() -> list[Constant]:
    """All of them, with the lines that read them."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    readers, known = {}, {}
    for path, tree in trees.items():
        readers[path] = Reader()
        readers[path].visit(tree)
        known[path] = {}  # name here: module that it comes from
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                home = importlib.util.resolve_name("." * node.level + (node.module or ""), _package(path))
                known[path] |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
    found = []
    for path in trees:
        if path.parent.relative_to(ROOT).as_posix() in ROOMS:
            module = importlib.import_module(module_of(path))
            for name in assigned(trees[path]):
                value = getattr(module, name)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    found.append(Constant(module.__name__, name, value))
    for constant in found:
        leaves: set[str] = set()
        for path, reader in readers.items():
            here = module_of(path)
            names = {n for n, (home, of) in known[path].items() if (home, of) == (constant.module, constant.name)}
            names |= {constant.name} if here == constant.module else set()
            for name, line, function, compiled in reader.reads:
                if name in names and compiled:
                    constant.compiled = True
                    leaves.add(function)
                elif name in names and function:
                    constant.lines.add((str(path), line))
                elif name in names:
                    constant.frozen = True
        while leaves:  # leaves that call those leaves, and Python that calls any of them
            more = set()
            for path, reader in readers.items():
                for name, line, function, compiled in reader.reads:
                    if name in leaves and compiled and function not in leaves:
                        more.add(function)
                    elif name in leaves and not compiled and function:
                        constant.lines.add((str(path), line))
            if not more:
                break
            leaves |= more
    return found


def assigned(tree: ast.Module) -> Iterator[str]:
    """Upper-case names at the top of a module, also of several in one line."""
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or ast.unparse(node.value or node).startswith("range("):
            continue  # range: names of states, not numbers
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name) and name.id.isupper():
                    yield name.id


def _package(path: Path) -> str:
    return module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]


# The panel -----------------------------------------------------------------------------------------------------------


def panel() -> dict:
    """Problems by name; each a function that fits and returns what was found. No constant was ever chosen on these."""
    import maxmargin as mm

    def blobs(n: int, d: int, noise: float, seed: int):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        signal_ = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2 % d] + noise * rng.normal(size=n)
        return X, np.where(signal_ > 0.0, 1, -1), signal_

    def line(n: int, d: int, noise: float, seed: int):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d))
        signal_ = X @ rng.normal(size=d) / np.sqrt(d) + noise * rng.normal(size=n)
        return X, np.where(signal_ > 0.0, 1, -1), signal_

    def sparse(n: int, d: int, seed: int):
        rng = np.random.default_rng(seed)
        X = scipy.sparse.random(n, d, 0.03, "csr", rng=rng)
        return X, np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0.0, 1, -1)

    X1, y1, t1 = blobs(1200, 5, 0.3, 7001)
    X2, y2, t2 = blobs(350, 4, 0.5, 7002)
    X3, y3, t3 = blobs(700, 3, 0.2, 7003)
    many = np.random.default_rng(7004).integers(0, 6, size=300)
    Xm = X2[:300] + 1.5 * np.random.default_rng(7005).normal(size=(6, 4))[many]
    X4, y4, t4 = line(3000, 25, 0.5, 7006)
    X5, y5 = sparse(1500, 400, 7007)
    X6, y6, t6 = line(150, 900, 0.1, 7008)
    twice = np.random.default_rng(7009).integers(0, 500, size=1500)
    waves = [lambda X: np.sin(3.0 * X[:, 0]), lambda X: np.cos(3.0 * X[:, 0])]
    flat, flat_y, flat_t = blobs(2500, 2, 0.8, 7010)
    X7, y7, _ = blobs(3000, 8, 0.4, 7011)
    return {
        "svc-1200": lambda: mm.SVC(C=1.0).fit(X1, y1),
        "svc-1200-hard": lambda: mm.SVC(C=1e3, gamma=0.3).fit(X1, y1),
        "svc-350": lambda: mm.SVC(C=10.0).fit(X2, y2),
        "svc-350-exact": lambda: mm.SVC(C=10.0, tol=1e-9).fit(X2, y2),
        "svc-6-classes": lambda: mm.SVC(C=3.0).fit(Xm, many),
        "svc-3000": lambda: mm.SVC(C=30.0, gamma=0.2).fit(X7, y7),
        "svr-exact": lambda: mm.SVR(C=30.0, epsilon=0.05, tol=1e-8).fit(X2, t2),
        "svc-unscaled": lambda: mm.SVC(C=10.0, gamma=1e-7, tol=1e-6).fit(1e3 * X3 + 1e4, y3),
        "svc-mpd-exact": lambda: mm.SVC(C=2.0, solver="mpd", tol=1e-8).fit(X2, y2),
        "svc-nearest-exact": lambda: mm.SVC(C=5.0, loss="squared_hinge", solver="nearest-point", tol=1e-9).fit(X2, y2),
        "svc-pcg-exact": lambda: mm.SVC(C=1.0, loss="squared_hinge", solver="pcg", tol=1e-6).fit(X2, y2),
        "linear-exact": lambda: mm.LinearSVC(loss="hinge", C=100.0, tol=1e-9).fit(X4, y4),
        "linear-sor-exact": lambda: mm.LinearSVC(loss="hinge", C=1.0, solver="sor", tol=1e-7).fit(X5, y5),
        "linear-sor-dense": lambda: mm.LinearSVC(loss="hinge", C=1.0, solver="sor").fit(X4[:600], y4[:600]),
        "linear-asvm-exact": lambda: mm.LinearSVC(C=100.0, solver="asvm", tol=1e-10).fit(X4, y4),
        "svc-duplicates": lambda: mm.SVC(C=0.7).fit(X1[twice], y1[twice]),
        "svc-low-rank": lambda: mm.SVC(kernel="poly", degree=2, C=10.0).fit(flat, flat_y),
        "svc-linear": lambda: mm.SVC(kernel="linear", C=1.0).fit(X4, y4),
        "svc-linear-wide": lambda: mm.SVC(kernel="linear", C=1.0).fit(X6, y6),
        "svc-smo": lambda: mm.SVC(C=5.0, solver="smo").fit(X3, y3),
        "svc-chunking": lambda: mm.SVC(C=5.0, solver="chunking").fit(X3, y3),
        "svc-interior": lambda: mm.SVC(C=5.0, solver="interior-point").fit(X2, y2),
        "svc-mpd": lambda: mm.SVC(C=2.0, solver="mpd").fit(X3, y3),
        "svc-sor": lambda: mm.SVC(C=2.0, solver="sor", fit_intercept=False).fit(X3, y3),
        "svc-poly": lambda: mm.SVC(C=0.1, kernel="poly", coef0=1.0, tol=1e-5).fit(X3, y3),
        "svc-squared": lambda: mm.SVC(C=1.0, loss="squared_hinge").fit(X1, y1),
        "svc-squared-newton": lambda: mm.SVC(C=1.0, loss="squared_hinge", solver="newton").fit(X1, y1),
        "svc-newton": lambda: mm.SVC(C=1.0, solver="newton").fit(X3, y3),
        "svc-pcg": lambda: mm.SVC(C=1.0, loss="squared_hinge", solver="pcg").fit(X3, y3),
        "svc-huber-pcg": lambda: mm.SVC(C=1.0, loss="huber", solver="pcg").fit(X3, y3),
        "svc-nearest": lambda: mm.SVC(C=5.0, loss="squared_hinge", solver="nearest-point").fit(X3, y3),
        "nu-svc": lambda: mm.NuSVC(nu=0.3).fit(X1, y1),
        "svr-1200": lambda: mm.SVR(C=3.0, epsilon=0.1).fit(X1, t1),
        "svr-350": lambda: mm.SVR(C=3.0, epsilon=0.1).fit(X2, t2),
        "nu-svr": lambda: mm.NuSVR(C=1.0, nu=0.4).fit(X3, t3),
        "one-class": lambda: mm.OneClassSVM(nu=0.2).fit(flat),
        "svdd": lambda: mm.SVDD(nu=0.1).fit(X1),
        "parametric": lambda: mm.SVR(C=1.0, parametric=waves).fit(X3, t3),
        "parametric-small": lambda: mm.SVR(C=1.0, parametric=waves).fit(X2, t2),
        "expansion": lambda: mm.SVC(C=1.0, expansion=60).fit(X1, y1),
        "linear-hinge": lambda: mm.LinearSVC(loss="hinge", C=1.0).fit(X4, y4),
        "linear-squared": lambda: mm.LinearSVC(C=1.0).fit(X4, y4),
        "linear-csr": lambda: mm.LinearSVC(loss="hinge", C=10.0).fit(X5, y5),
        "linear-csr-squared": lambda: mm.LinearSVC(C=10.0).fit(X5, y5),
        "linear-wide": lambda: mm.LinearSVC(loss="hinge", C=1.0).fit(X6, y6),
        "linear-sor": lambda: mm.LinearSVC(loss="hinge", C=0.1, solver="sor").fit(X5, y5),
        "linear-asvm": lambda: mm.LinearSVC(C=1.0, solver="asvm").fit(X4, y4),
        "linear-interior": lambda: mm.LinearSVC(loss="hinge", C=1.0, solver="interior-point").fit(X4, y4),
        "linear-svr": lambda: mm.LinearSVR(C=1.0, epsilon=0.1).fit(X4, t4),
        "psvc": lambda: mm.PSVC(C=5.0, epsilon=0.5).fit(X2, y2),
        "psvr": lambda: mm.PSVR(C=5.0, epsilon=0.2).fit(X3, t3),
        "psvr-smo": lambda: mm.PSVR(C=5.0, epsilon=0.2, solver="potential-smo").fit(X2, t2),
        "psvr-wide": lambda: mm.PSVR(C=5.0, epsilon=1.0, kernel="dyadic").fit(X6, t6),
    }


def measured(fit, usual: float) -> dict:
    """Seconds and counts of a fit that usually takes so many seconds."""
    seconds: list[float] = []
    while len(seconds) < REPEATS and not min(seconds, default=np.inf) < NOISE * usual:
        began = time.process_time()
        machine = fit()
        seconds.append(time.process_time() - began)
    histories = machine.history_ if isinstance(machine.history_, list) else [machine.history_]
    return {
        "seconds": min(seconds),
        "iterations": int(np.sum(machine.n_iter_)),
        "evals": sum(int(each.rows[-1][each.columns.index("kernel_evals")]) for each in histories if len(each)),
        "status": machine.status_.name,
    }


def traced(fit) -> set[tuple[str, int]]:
    """The lines of the package that a fit runs."""
    seen: set[tuple[str, int]] = set()
    root = str(ROOT)

    def lines(frame, event, _):
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return lines

    def calls(frame, event, _):
        return lines(frame, event, None) if frame.f_code.co_filename.startswith(root) else None

    sys.settrace(calls)
    try:
        fit()
    finally:
        sys.settrace(None)
    return seen


# Trials --------------------------------------------------------------------------------------------------------------


def in_a_copy(work) -> dict:
    """What ``work`` returns in a forked copy of this process; nothing, where that ends in another way."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            with os.fdopen(into, "w") as stream:
                json.dump(work(), stream)
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as stream:
        told = stream.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else {}


def tried(fits: dict, names: list[str], base: dict) -> dict:
    """What the problems give, each within a limit of time; ``base`` is what they give as things are."""

    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGPROF, late)
    found = {}
    for name in names:
        signal.setitimer(signal.ITIMER_PROF, LONGEST if base else 0)  # without a limit where leaves are compiled
        try:
            found[name] = measured(fits[name], base.get(name, {"seconds": 0.0})["seconds"])
        except BaseException as error:  # a value that no solver is made for may lead to any
            found[name] = {"seconds": np.nan, "iterations": 0, "evals": 0, "status": type(error).__name__}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def patched(constant: Constant, value: float, fits: dict, names: list[str], base: dict) -> dict:
    """The trial of a constant that Python reads when it runs."""

    def work() -> dict:
        for module in [module for name, module in sys.modules.items() if name.startswith("maxmargin")]:
            own = module.__name__ == constant.module
            if own or (getattr(module, constant.name, None) is getattr(sys.modules[constant.module], constant.name)):
                if own or constant.value not in (0, 1):
                    setattr(module, constant.name, value)
        return tried(fits, names, base)

    return in_a_copy(work)


class OtherNumber(importlib.abc.MetaPathFinder):
    """Imports a module with another number in its source."""

    def __init__(self, module: str, name: str, value: float) -> None:
        self.module, self.name, self.value = module, name, value

    def find_spec(self, fullname, path, target=None):
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader = spec.loader
        name, value = self.name, self.value

        class Loader(importlib.machinery.SourceFileLoader):
            def source_to_code(self, data, path, *, _optimize=-1):
                tree = ast.parse(data)
                for place, node in enumerate(tree.body):
                    if name in set(assigned(ast.Module([node], []))):
                        tree.body.insert(place + 1, ast.parse(f"{name} = {value!r}").body[0])
                        break
                return compile(ast.fix_missing_locations(tree), path, "exec")

            def get_code(self, fullname):
                return self.source_to_code(self.get_data(loader.path), loader.path)

        spec.loader = Loader(loader.name, loader.path)
        return spec


def afresh(constant: Constant, value: float, names: list[str]) -> dict:
    """The trial of a constant that is frozen when the package is imported, or compiled."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"MAXMARGIN_CACHE_DIR": folder} if constant.compiled else {}
        asked = json.dumps([constant.module, constant.name, value, names])
        command = [sys.executable, __file__, "--afresh", asked]
        told = subprocess.run(command, capture_output=True, text=True, env=os.environ | own)
    return json.loads(told.stdout) if told.returncode == 0 and told.stdout else {}


def work_afresh(module: str, name: str, value: float, names: list[str]) -> dict:
    """The work of a process that ``afresh`` has started."""
    sys.meta_path.insert(0, OtherNumber(module, name, value))
    fits = panel()
    for each in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried(fits, [each], {})  # compiles
    return tried(fits, names, dict.fromkeys(names, {"seconds": 0.0}))


def row(constant: Constant, value: float, base: dict, found: dict) -> dict:
    """A line of the table."""
    same = [name for name in found if np.isfinite(found[name]["seconds"])]

    def ratio(what: str):
        before = sum(base[name][what] for name in same)
        return round(sum(found[name][what] for name in same) / before, 3) if before else ""

    ratios = {name: found[name]["seconds"] / base[name]["seconds"] for name in same}
    worst = max(ratios, key=lambda name: abs(np.log(ratios[name])), default="")
    other = [name for name in same if any(found[name][w] != base[name][w] for w in ("iterations", "evals"))]
    status = [f"{name}: {found[name]['status']}" for name in found if found[name]["status"] != base[name]["status"]]
    return {
        "constant": constant.title, "value": f"{constant.value:.6g}", "tried": f"{value:.6g}", "problems": len(found),
        "seconds": ratio("seconds"), "iterations": ratio("iterations"), "evals": ratio("evals"),
        "worst": worst, "worst_seconds": round(ratios[worst], 2) if worst else "",
        "other_counts": len(other), "other_status": "; ".join(status),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--leaves", choices=["yes", "no", "only"], default="yes")
    parser.add_argument("--most", type=int, default=6, help="problems a constant is tried on: the quickest of them")
    parser.add_argument("--panel", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--afresh")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.afresh:
        print(json.dumps(work_afresh(*json.loads(options.afresh))))
        return
    fits = panel()
    base: dict = defaultdict(dict)
    for fit in fits.values():
        fit()  # compiles
    rounds = [in_a_copy(lambda: tried(fits, list(fits), {})) for _ in range(3)]
    for name in fits:
        base[name] = rounds[0][name] | {"seconds": statistics.median(each[name]["seconds"] for each in rounds)}
    if options.panel:
        for name in fits:
            noise = max(each[name]["seconds"] for each in rounds) / min(each[name]["seconds"] for each in rounds)
            print(f"{name:20} {base[name]}, noise {noise:.2f}")
        print(f"{sum(each['seconds'] for each in base.values()):.2f} CPU s")
        return
    lines = {name: traced(fit) for name, fit in fits.items()}
    rows = []
    print(",".join(COLUMNS), flush=True)
    for constant in constants():
        if options.only and not any(part in constant.title for part in options.only):
            continue
        if (options.leaves == "no" and constant.compiled) or (options.leaves == "only" and not constant.compiled):
            continue
        names = [name for name in fits if constant.lines & lines[name]]
        if constant.frozen and not constant.lines:
            names = list(fits)
        fresh = constant.compiled or constant.frozen
        names = sorted(names, key=lambda name: base[name]["seconds"])[: options.most]
        for value in constant.tries() if names else ["-"]:
            if not names:
                told = dict.fromkeys(COLUMNS, "") | {"constant": constant.title, "problems": "-"}
                told["value"] = f"{constant.value:.6g}"
            else:
                found = afresh(constant, value, names) if fresh else patched(constant, value, fits, names, base)
                told = row(constant, value, base, found)
            rows.append(told)
            print(",".join(str(told[column]) for column in COLUMNS), flush=True)
    if not options.only:
        with options.output.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
