"""PRIMAL, Figures 4 to 9: Newton's method and conjugate gradients in the primal, beside LIBSVM (scikit-learn's SVC).

    python benchmarks/primal.py 4           linear Newton against LIBSVM on Adult, a1a … a9a
    python benchmarks/primal.py 5           squared hinge on USPS, λ = 1e-8: seconds, Newton steps, n_sv against n
    python benchmarks/primal.py 6           Huber with a tenth of the labels flipped: test error and seconds against h
    python benchmarks/primal.py 7           points in the curved and in the linear part against h, beside LIBSVM's
    python benchmarks/primal.py 8           Huber, h = 2⁻⁵: seconds against n beside LIBSVM's
    python benchmarks/primal.py 9           conjugate gradients: test error against steps for σ = 1 … 8
    python benchmarks/primal.py solvers     the same objective by every solver: USPS, heart, german, a3a
    python benchmarks/primal.py squared     squared hinge by auto on a9a, covtype (30 000 rows), USPS and MNIST (12 000)
    python benchmarks/primal.py 5 --plot    and a figure beside the CSV file; --sizes 500 1000: fewer rows

Each writes benchmarks/results/primal-N.csv. C = 1/(2λ). USPS is digits 0–4 against 5–9, σ = 8 where nothing else is
said, the kernel matrix precomputed for everyone, as in the paper. Without MAXMARGIN_DATA, scikit-learn's small digits
stand in for USPS. Seconds are medians of ``--repeat`` fits in one process, contenders in turn; figures show those of
the processors, which others on the machine disturb less than those of the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
from harness import HERE, exponent, read, surroundings, titled, write
from rich.console import Console

SIZES = (250, 500, 1000, 2000, 4000, 7000)
WIDTHS = tuple(2.0**-k for k in range(10, -1, -1))  # h
FLIPPED = 0.1  # of the labels, in Figures 6 to 8
MOST_STEPS = 256  # of conjugate gradients
NOISY_LAMBDA, HARD_LAMBDA = 1 / 8, 1e-8
SETTING = ("date", "threads", "load", "cpu", "python", "numpy", "commit")  # columns that tables leave out
PATIENCE = (
    1200.0  # seconds by the clock for one solver of those that are compared, on a machine that others use as well
)
WARM = 300  # rows of a first fit that nobody measures
COVTYPE_ROWS = 30_000  # of its 581 012
BOUND = 1e-8  # of C: LIBSVM's coefficients so near to C are at it


@cache
def usps() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test points with labels, in a fixed random order."""
    if os.environ.get("MAXMARGIN_DATA"):
        from data import load

        (X, y), (T, z) = load("usps-low"), load("usps-low.t")
    else:
        from sklearn.datasets import load_digits

        X, digit = load_digits(return_X_y=True)
        X, y = X / 8 - 1, np.where(digit < 5, 1, -1)
        (X, y), (T, z) = split(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order], T, z


def split(X: np.ndarray, y: np.ndarray):
    """Three quarters and the rest."""
    order = np.random.default_rng(1).permutation(len(y))
    most = order[: 3 * len(y) // 4]
    rest = order[3 * len(y) // 4 :]
    return (X[most], y[most]), (X[rest], y[rest])


def gaussian(X: np.ndarray, Z: np.ndarray, sigma: float) -> np.ndarray:
    """exp(−‖x − z‖² / 2σ²)."""
    squares = (X * X).sum(axis=1)[:, None] + (Z * Z).sum(axis=1) - 2 * X @ Z.T
    return np.exp(-np.maximum(squares, 0) / (2 * sigma**2))


def flipped(y: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(2).random(len(y)) < FLIPPED
    return np.where(noise, -y, y)


def seconds_of(make: Callable, K: np.ndarray, y: np.ndarray, repeat: int) -> tuple[dict, object]:
    """Seconds by the clock and of the processors, and the model of the last fit; what is compiled is so before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make().fit(K[:WARM, :WARM] if K.shape[0] == K.shape[1] else K[:WARM], y[:WARM])
    times, used, model = [], [], None
    for _ in range(repeat):
        model = make()
        start, processors = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(K, y)
        times.append(time.perf_counter() - start)
        used.append(time.process_time() - processors)
    return {"seconds": statistics.median(times), "processor_seconds": statistics.median(used)}, model


def machines(C: float, loss: str, h: float = 0.5, tol: float = 1e-3) -> dict[str, Callable]:
    """Contenders on a precomputed kernel."""
    from sklearn.svm import SVC as Peer

    from maxmargin import SVC

    ours = dict(kernel="precomputed", C=C, loss=loss, huber_delta=h, tol=tol)
    return {
        "newton": lambda: SVC(solver="newton", **ours),
        "auto": lambda: SVC(**ours),
        "LIBSVM": lambda: Peer(kernel="precomputed", C=C, tol=tol, cache_size=2000),
    }


def figure4(options: argparse.Namespace) -> Iterator[dict]:
    """Adult: seconds against n."""
    from data import load
    from sklearn.svm import SVC as Peer

    from maxmargin import LinearSVC

    for name in ("a1a", "a2a", "a3a", "a4a", "a5a", "a7a", "a8a", "a9a"):
        X, y = load(name)
        if len(y) > max(options.sizes or [10**9]):
            continue
        contenders = {
            "newton": lambda: LinearSVC(C=0.05, loss="squared_hinge", solver="newton"),
            "LIBSVM": lambda: Peer(kernel="linear", C=0.05),
        }
        for contender, make in contenders.items():
            seconds, model = seconds_of(make, X, y, options.repeat)
            steps = int(np.max(model.n_iter_))
            yield {"n": len(y), "contender": contender, **seconds, "steps": steps}


def figure5(options) -> Iterator[dict]:
    """Hard margin: n_sv³ growth."""
    X, y, _, _ = usps()
    for n in options.sizes or SIZES:
        K = gaussian(X[:n], X[:n], 8.0)
        for contender, make in machines(0.5 / HARD_LAMBDA, "squared_hinge").items():
            # LIBSVM has no squared hinge, but with a C so large its margin is hard all the same.
            seconds, model = seconds_of(make, K, y[:n], options.repeat)
            proof = getattr(model, "certificate_", None)
            yield {
                "n": len(K), "contender": contender, **seconds, "steps": int(np.max(model.n_iter_)),
                "n_sv": len(model.support_), "relative_gap": "" if proof is None else proof.relative_gap,
            }  # fmt: skip


def figure6(options) -> Iterator[dict]:
    """h against test error and seconds."""
    X, y, T, z = usps()
    sizes = (options.sizes or [500, 1000])[:2]
    for n in sizes:
        K, L, labels = gaussian(X[:n], X[:n], 8.0), gaussian(T, X[:n], 8.0), flipped(y)[:n]
        for h in WIDTHS:
            seconds, model = seconds_of(machines(0.5 / NOISY_LAMBDA, "huber", h)["newton"], K, labels, options.repeat)
            error = float(np.mean(model.predict(L) != z))
            yield {"n": n, "h": h, **seconds, "steps": int(model.n_iter_[0]), "test_error": error}


def figure7(options) -> Iterator[dict]:
    """h against points in the curved (n_sv) and in the linear part of the loss."""
    X, y, _, _ = usps()
    n, C = (options.sizes or [1000])[0], 0.5 / NOISY_LAMBDA
    K, labels = gaussian(X[:n], X[:n], 8.0), flipped(y)[:n]
    _, peer = seconds_of(machines(C, "hinge")["LIBSVM"], K, labels, 1)
    at_bound = int((np.abs(peer.dual_coef_) >= C * (1 - BOUND)).sum())
    yield {"n": n, "contender": "LIBSVM", "h": 0.0, "curved": len(peer.support_) - at_bound, "linear": at_bound}
    for h in WIDTHS:
        _, model = seconds_of(machines(C, "huber", h, 1e-6)["newton"], K, labels, 1)
        margin = np.where(labels > 0, 1, -1) * model.decision_function(K)
        curved, linear = int((np.abs(1 - margin) < h).sum()), int((1 - margin >= h).sum())
        yield {"n": n, "contender": "newton", "h": h, "curved": curved, "linear": linear}


def figure8(options) -> Iterator[dict]:
    """Huber against LIBSVM."""
    X, y, _, _ = usps()
    for n in options.sizes or SIZES:
        K, labels = gaussian(X[:n], X[:n], 8.0), flipped(y)[:n]
        contenders = machines(0.5 / NOISY_LAMBDA, "huber", 2.0**-5)
        for contender, make in contenders.items():
            seconds, model = seconds_of(make, K, labels, options.repeat)
            steps = int(np.max(model.n_iter_))
            yield {"n": len(K), "contender": contender, **seconds, "steps": steps, "n_sv": len(model.support_)}


def figure9(options) -> Iterator[dict]:
    """Test error after each power of two of steps."""
    from maxmargin.formulations import CSVC, Samples
    from maxmargin.gram import PrecomputedGram
    from maxmargin.solvers import PCG, solve

    X, y, T, z = usps()
    n = (options.sizes or [7291])[0]
    X, labels = X[:n], np.where(y[:n] > 0, 1.0, -1.0)
    for sigma in (1.0, 2.0, 4.0, 8.0):
        gram, L = PrecomputedGram(gaussian(X, X, sigma)), gaussian(T, X, sigma)
        qp = CSVC(0.5 / HARD_LAMBDA, "squared_hinge").qp(Samples(gram, labels, np.ones(len(labels))))
        for kind in ("kernel", "none"):
            found = solve(qp, PCG(preconditioner=kind, newton_after=-1, trace=True), max_iter=MOST_STEPS, tol=1e-9)
            models = zip(found.history.trace["beta"], found.history.trace["eta"], strict=True)
            for step, (beta, eta) in enumerate(models):
                if step and step & (step - 1) == 0:  # a power of two
                    wrong = np.sign(L @ beta + float(eta.sum())) != np.where(z > 0, 1, -1)
                    value = qp.primal.objective(beta, eta)
                    yield {
                        "sigma": sigma, "preconditioner": kind, "step": step, "primal": value,
                        "test_error": float(np.mean(wrong)),
                    }  # fmt: skip


def solvers(options) -> Iterator[dict]:
    """One objective, whoever finds it: with and without a bias, with weights, with functions that nothing penalises."""
    from data import load

    from maxmargin.formulations import CSVC, Samples, SemiParametric
    from maxmargin.gram import Kernel, KernelGram
    from maxmargin.monitor import Monitor
    from maxmargin.solvers import solve

    cases = [("heart_scale", 1.0, 1 / 13), ("german.numer", 1.0, 1 / 24), ("a3a", 1.0, 0.05)]
    cases += [("usps-low", 0.5 / lam, 1 / 128) for lam in (NOISY_LAMBDA, HARD_LAMBDA)]
    for name, C, gamma in cases:
        X, y = load(name)
        X, y = np.asarray(X, float), np.where(y > 0, 1.0, -1.0)
        rng = np.random.default_rng(0)
        for variant in ("bias", "no bias", "weights", "parametric"):
            weight = rng.uniform(0.2, 3.0, len(y)) if variant == "weights" else np.ones(len(y))
            machine = CSVC(C, "squared_hinge", fit_intercept=variant != "no bias")
            if variant == "parametric":
                machine = SemiParametric(machine, functions(X))
            values = []
            for solver in ("newton", "pcg", "mpd" if variant == "parametric" else "decomposition", "interior-point"):
                if len(y) > max(options.sizes or [10**9]):
                    continue
                qp = machine.qp(Samples(KernelGram(Kernel("rbf", gamma), X), y, weight))
                start = time.process_time()
                found = solve(qp, solver, monitor=Monitor(time_limit=PATIENCE), tol=1e-5, gap=1e-8)
                values.append(found.certificate.primal)
                yield {
                    "data": name, "C": C, "variant": variant, "solver": solver, "primal": found.certificate.primal,
                    "above_first": values[-1] / values[0] - 1, "relative_gap": found.certificate.relative_gap,
                    "processor_seconds": time.process_time() - start, "steps": found.n_iter,
                    "status": found.status.name,
                }  # fmt: skip


def squared(options: argparse.Namespace) -> Iterator[dict]:
    """Squared hinge by auto; ``--sizes``: that many rows, drawn, of sets that have more."""
    from data import load

    from maxmargin import SVC

    for name, C, gamma in (
        ("usps-low", 10.0, 1 / 128), ("mnist12000", 10.0, 0.02), ("a9a", 1.0, 0.05), ("covtype", 10.0, 1.0),
    ):  # fmt: skip
        X, y = load(name)
        most = max(options.sizes or [COVTYPE_ROWS if name == "covtype" else len(y)])
        drawn = np.sort(np.random.default_rng(0).choice(len(y), min(most, len(y)), replace=False))
        labels = np.where(y < 5, 1, -1) if name == "mnist12000" else y
        make = partial(SVC, C=C, gamma=gamma, loss="squared_hinge")
        seconds, model = seconds_of(make, X[drawn], labels[drawn], options.repeat)
        yield {
            "data": name, "n": len(drawn), **seconds, "steps": int(np.max(model.n_iter_)), "n_sv": len(model.support_),
            "solver": getattr(model, "solvers_", [""])[0], "primal": model.certificate_.primal,
            "relative_gap": model.certificate_.relative_gap,
        }  # fmt: skip


def functions(X: np.ndarray) -> np.ndarray:
    """Two functions that nothing penalises: the mean of a point's features, and its square, about as large as 1."""
    mean = X.mean(axis=1)
    mean = (mean - mean.mean()) / mean.std()
    return np.stack([mean, mean * mean])


RUNS: dict[str, Callable] = {"4": figure4, "5": figure5, "6": figure6, "7": figure7, "8": figure8, "9": figure9}
RUNS["solvers"], RUNS["squared"] = solvers, squared
AXES = {  # what is drawn against what, a panel each, and what tells the lines apart
    "4": ("n", ("processor_seconds", "steps"), ("contender",)),
    "5": ("n", ("processor_seconds", "steps", "n_sv"), ("contender",)),
    "6": ("h", ("test_error", "processor_seconds"), ("n",)),
    "7": ("h", ("curved", "linear"), ("contender",)),
    "8": ("n", ("processor_seconds",), ("contender",)),
    "9": ("step", ("test_error", "primal"), ("sigma", "preconditioner")),
}
LOGARITHMIC = ("processor_seconds", "steps", "n_sv", "primal")


def shortened(text: str) -> str:
    """A number with the digits that a table needs."""
    try:
        return f"{float(text):.8g}" if "." in text or "e" in text else text
    except ValueError:
        return text


def show(name: str, rows: list[dict]) -> None:
    """A table, and how seconds grow."""
    shown = [key for key in rows[0] if key not in SETTING]
    table = titled(f"PRIMAL {name}", *shown)
    for row in rows:
        table.add_row(*(shortened(row[key]) for key in shown))
    console = Console()
    console.print(table)
    for contender in dict.fromkeys(row.get("contender") for row in rows if name in ("4", "5", "8")):
        own = [row for row in rows if row["contender"] == contender and float(row["n"]) >= 1000]
        if len(own) > 1:
            slope = exponent([float(row["n"]) for row in own], [float(row["processor_seconds"]) for row in own])
            console.print(f"{contender}: processor seconds grow like n^{slope:.2f} from 1000 on")


def plot(name: str, file: Path) -> Path:
    """A figure beside the file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    rows = read(file)
    x, heights, names = AXES[name]
    figure, panels = plt.subplots(
        1, len(heights), figsize=(4.6 * len(heights), 3.6), squeeze=False, layout="constrained"
    )
    for panel, y in zip(panels[0], heights, strict=True):
        for line in dict.fromkeys(tuple(row[key] for key in names) for row in rows):
            own = [row for row in rows if tuple(row[key] for key in names) == line]
            told = zip(names, line, strict=True)
            label = ", ".join(f"{key} {part}" if key in ("n", "sigma") else part for key, part in told)
            if len(own) == 1:  # no h: the same for all of them
                panel.axhline(float(own[0][y]), color="black", linestyle=":", label=label)
                continue
            style = "s--" if line[-1] == "none" else "o-"
            panel.plot([float(row[x]) for row in own], [float(row[y]) for row in own], style, label=label, markersize=4)
        scale = "log" if y in LOGARITHMIC else "linear"
        panel.set(xscale="log", yscale=scale, xlabel=x, ylabel=y.replace("_", " "))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    out = file.with_suffix(".svg")
    figure.savefig(out, metadata={"Date": None})
    return out


def write_as_found(out: Path, rows: Iterator[dict], setting: dict) -> None:
    """Each row as soon as it is there, in the file and on the screen."""
    first = next(rows)

    def told() -> Iterator[dict]:
        for row in chain([first], rows):
            print(*(shortened(str(value)) for value in row.values()), flush=True)
            yield row | setting

    write(out, told(), [*first, *setting])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=RUNS)
    parser.add_argument("--sizes", type=int, nargs="+", help="rows")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--plot", action="store_true")
    parser.add_argument("--table", action="store_true", help="from the CSV file, without measuring")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out or HERE / "results" / f"primal-{options.figure}.csv"
    if not options.table:
        setting = surroundings(os.cpu_count() or 1)
        setting["load"] = round(os.getloadavg()[0], 2)
        write_as_found(out, RUNS[options.figure](options), setting)
    rows = read(out)
    show(options.figure, rows)
    if options.plot and options.figure in AXES:
        print(plot(options.figure, out))


if __name__ == "__main__":
    main()
