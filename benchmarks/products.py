"""Products with kernel matrices: all of the matrix, its near points only, and by Fourier transforms.

    python benchmarks/products.py                      n = 10⁴ … 10⁶ (the whole matrix up to 10⁴ · 2)
    python benchmarks/products.py --sizes 10000 100000

Points are uniform in a cube; γ makes the Gaussian's width a tenth of it ("wide"), or such that a point has 100
neighbours ("narrow"). Times are the best of three, set-up apart; ``slope`` is the exponent of their growth with n.
``error`` is the largest one at 20 points relative to Σ|v|, ``stated`` what the certificate counts. Fourier transforms
need the package finufft. Results: results/products.csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from harness import HERE, console, exponent, surroundings, write

from maxmargin.gram import GaussGram, Gram, Kernel, KernelGram, NearGram, gauss_or_not, near_or_not

SIZES = (10_000, 100_000, 1_000_000)
DENSE_UP_TO = 20_000  # points: a product with the whole matrix takes minutes above
NEIGHBOURS = 100
COLUMNS = (
    "kernel width method n d gamma setup product slope error stated cpu_model date threads python numpy commit".split()
)


def gamma_of(width: str, kernel: str, n: int, d: int) -> float:
    """γ of a kernel that is wide, or that reaches about NEIGHBOURS points."""
    if width == "wide":
        return 50.0
    volume = {1: 2.0, 2: np.pi, 3: 4.0 * np.pi / 3.0}[d]
    reach = (NEIGHBOURS / (n * volume)) ** (1.0 / d)
    return (1.0 if kernel == "wendland" else np.log(1e12)) / reach**2


def measured(sizes: list[int], d: int, threads: int) -> Iterator[dict]:
    around = surroundings(threads)
    around["cpu_model"] = around.pop("cpu")
    rng = np.random.default_rng(0)
    for kernel, width in (("rbf", "wide"), ("rbf", "narrow"), ("wendland", "narrow")):
        times: dict[str, list[tuple[int, float]]] = {}
        for n in sizes:
            X, v = rng.uniform(size=(n, d)), rng.normal(size=n)
            gamma = gamma_of(width, kernel, n, d)
            plain = KernelGram(Kernel(kernel, gamma=gamma), X, threads)
            for method, make in (("whole", None), ("near", near_or_not), ("fourier", gauss_or_not)):
                begun = time.perf_counter()
                gram: Gram = plain if make is None else make(plain)
                expected = {"whole": KernelGram, "near": NearGram, "fourier": GaussGram}[method]
                if not isinstance(gram, expected) or (method == "whole" and n > DENSE_UP_TO):
                    continue
                product = gram.matvec(v)
                setup = time.perf_counter() - begun
                best = np.inf
                for _ in range(3):
                    begun = time.perf_counter()
                    gram.matvec(v)
                    best = min(best, time.perf_counter() - begun)
                some = rng.integers(0, n, 20)
                true = plain.combine(np.arange(n), v, some)
                times.setdefault(method, []).append((n, best))
                slope = exponent(*zip(*times[method], strict=True)) if len(times[method]) > 1 else ""
                row = {
                    "kernel": kernel, "width": width, "method": method, "n": n, "d": d, "gamma": gamma,
                    "setup": round(setup, 4), "product": round(best, 5), "slope": slope and round(slope, 2),
                    "error": float(np.abs(product[some] - true).max() / np.abs(v).sum()),
                    "stated": gram.blurs(v)[1] / float(np.abs(v).sum()),
                }  # fmt: skip
                console.print(row)
                yield row | around


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dimensions", type=int, default=3, choices=(1, 2, 3))
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    write(HERE / "results" / "products.csv", measured(asked.sizes, asked.dimensions, asked.threads), COLUMNS)


if __name__ == "__main__":
    main()
