"""The commands and their flags: what they are called, what they mean, and which module does the work."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from .. import __version__

__all__ = ["app", "run"]

app = typer.Typer(
    name="maxmargin",
    help="Support vector machines with a proof of how good each fit is. Flags are LIBSVM's.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def run(arguments: list[str]) -> int:
    """Run a command; the exit code. What was not understood is told in one line."""
    try:
        found = typer.main.get_command(app).main(arguments, prog_name="maxmargin", standalone_mode=False)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as problem:
        if not hasattr(problem, "format_message"):
            raise
        if type(problem).__name__ == "NoArgsIsHelpError":
            print(problem.format_message())
            return 2
        message = " ".join(problem.format_message().split()).rstrip(".")
        command = arguments[0] if arguments and not arguments[0].startswith("-") else ""
        known = command in {info.name or info.callback.__name__ for info in app.registered_commands if info.callback}
        print(
            f"maxmargin: {message}; see maxmargin {command if known else ''} --help".replace("  ", " "), file=sys.stderr
        )
        return 2
    return found if isinstance(found, int) else 0


def _version(wanted: bool) -> None:
    if wanted:
        print(f"maxmargin {__version__}")
        raise typer.Exit


@app.callback()
def _every(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# -- flags that several commands have ---------------------------------------------------------------------------------

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Samples: LIBSVM's format, .csv, .tsv, .parquet or .npy; - is the standard input."
    ),
]
Type = Annotated[
    int | None,
    typer.Option(
        "-s",
        metavar="N",
        help="0 C-SVC, 1 nu-SVC, 2 one-class, 3 epsilon-SVR, 4 nu-SVR; with --linear LIBLINEAR's numbers. "
        "[0; --linear: 1]",
    ),
]
Kernel = Annotated[
    int,
    typer.Option(
        "-t",
        metavar="N",
        min=0,
        max=4,
        help="0 linear, 1 polynomial, 2 RBF, 3 sigmoid, 4 precomputed (DATA has kernel values).",
    ),
]
Degree = Annotated[int, typer.Option("-d", "--degree", metavar="N", help="Degree of the polynomial kernel.")]
Gamma = Annotated[
    float | None, typer.Option("-g", "--gamma", metavar="X", help="Gamma of the kernel. [1 / number of features]")
]
Coef0 = Annotated[
    float, typer.Option("-r", "--coef0", metavar="X", help="Constant term of the polynomial and sigmoid kernels.")
]
Cost = Annotated[float, typer.Option("-c", "--cost", metavar="X", help="Cost C of an error.")]
Nu = Annotated[float, typer.Option("-n", "--nu", metavar="X", help="nu of nu-SVC, one-class and nu-SVR.")]
Epsilon = Annotated[float, typer.Option("-p", "--epsilon", metavar="X", help="Half-width of the tube of epsilon-SVR.")]
Cache = Annotated[
    float | None, typer.Option("-m", "--cache", metavar="MB", help="Memory for kernel rows. [as much as pays]")
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "-e",
        "--tolerance",
        metavar="X",
        help="Where to stop: largest violation; with --linear the relative gap. [0.001; --linear: 0.0001]",
    ),
]
Shrinking = Annotated[
    int, typer.Option("-h", "--shrinking", metavar="0|1", min=0, max=1, help="Leave out variables that seem settled.")
]
Weight = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        "-w",
        metavar="CLASS=X",
        help="C of a class times X; LIBSVM's -wi X (-w1 5) is understood, too. Repeatable.",
    ),
]
Linear = Annotated[
    bool,
    typer.Option(
        "--linear",
        help="A linear machine of any length, -s as LIBLINEAR's: 1, 2 squared hinge; 3 hinge; 4 Crammer-Singer; 5 L1; "
        "11, 12, 13 regression; 21 one-class.",
    ),
]
Bias = Annotated[
    float, typer.Option("-B", "--bias", metavar="X", help="With --linear: value of a constant feature; < 0: none.")
]
FreeBias = Annotated[bool, typer.Option("-R", "--free-bias", help="With --linear: a bias that is not penalised.")]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Say nothing but errors and the result of a cross-validation.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object on the standard output in place of lines for people.")
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="COLUMN", help="Column of the targets of a table, by name or by number from 0. [the last]"
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="svmlight, csv, tsv, parquet or npy, in place of what the name of DATA says."
    ),
]
Solver = Annotated[str, typer.Option("--solver", metavar="NAME", help='A solver of maxmargin.SOLVERS, or "auto".')]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="SECONDS", help="Stop with the best model so far.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", metavar="N", help="Threads. [all cores]")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the folds.")]


@app.command()
def train(
    data: Data,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Where to write the model. [name of DATA + .model, in this folder]"),
    ] = None,
    svm_type: Type = None,
    kernel_type: Kernel = 2,
    degree: Degree = 3,
    gamma: Gamma = None,
    coef0: Coef0 = 0.0,
    cost: Cost = 1.0,
    nu: Nu = 0.5,
    epsilon: Epsilon = 0.1,
    cache: Cache = None,
    tolerance: Tolerance = None,
    shrinking: Shrinking = 1,
    probability: Annotated[
        int, typer.Option("-b", "--probability", metavar="0|1", min=0, max=1, help="Train for probabilities, too.")
    ] = 0,
    weight: Weight = None,
    folds: Annotated[
        int | None, typer.Option("-v", "--folds", metavar="N", help="Cross-validation in N folds; no model is written.")
    ] = None,
    quiet: Quiet = False,
    linear: Linear = False,
    bias: Bias = -1.0,
    free_bias: FreeBias = False,
    solver: Solver = "auto",
    time_limit: TimeLimit = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="Keep the state of the training there, every few seconds."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Go on from a checkpoint, and keep it up to date.")
    ] = None,
    model_format: Annotated[
        str | None,
        typer.Option(
            "--model-format",
            metavar="NAME",
            help="libsvm, liblinear or maxmargin. [libsvm; --linear: liblinear; MODEL.mm: maxmargin]",
        ),
    ] = None,
    target: Target = None,
    format: Format = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> int:
    """Train a machine on DATA and write it to MODEL, as svm-train does (--linear: as liblinear-train does)."""
    from .machines import Settings
    from .training import train_model

    settings = Settings(
        svm_type=svm_type, kernel_type=kernel_type, degree=degree, gamma=gamma, coef0=coef0, cost=cost, nu=nu,
        epsilon=epsilon, cache=cache, tolerance=tolerance, shrinking=bool(shrinking), probability=bool(probability),
        weights=weight or [], linear=linear, bias=bias, free_bias=free_bias, solver=solver, time_limit=time_limit,
        jobs=jobs,
    )  # fmt: skip
    settings.check()
    if folds is not None:
        from .validation import cross_validate

        return cross_validate(data, settings, folds, seed, target, format, quiet, as_json)
    return train_model(data, model, settings, checkpoint, resume, model_format, target, format, quiet, as_json)


@app.command()
def predict(
    data: Data,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of maxmargin, LIBSVM or LIBLINEAR.")],
    output: Annotated[
        str | None,
        typer.Argument(
            metavar="OUTPUT", help="Where to write a prediction a line; - is the standard output. [nowhere]"
        ),
    ] = None,
    probability: Annotated[
        int, typer.Option("-b", "--probability", metavar="0|1", min=0, max=1, help="Write probabilities, too.")
    ] = 0,
    quiet: Quiet = False,
    target: Target = None,
    format: Format = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> int:
    """Predict the targets of DATA and score them against those that DATA has, as svm-predict does."""
    from .prediction import predict_file

    return predict_file(data, model, output, bool(probability), target, format, quiet, jobs, as_json)


@app.command()
def scale(
    data: Data,
    lower: Annotated[float, typer.Option("-l", "--lower", metavar="X", help="Least value of a scaled feature.")] = -1.0,
    upper: Annotated[
        float, typer.Option("-u", "--upper", metavar="X", help="Largest value of a scaled feature.")
    ] = 1.0,
    target_bounds: Annotated[
        tuple[float, float] | None,
        typer.Option("-y", "--target-bounds", metavar="LOWER UPPER", help="Scale the targets, too."),
    ] = None,
    save: Annotated[str | None, typer.Option("-s", "--save", metavar="FILE", help="Write the ranges there.")] = None,
    restore: Annotated[
        str | None, typer.Option("-r", "--restore", metavar="FILE", help="Take the ranges from there.")
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where to write scaled samples.")] = "-",
    target: Target = None,
    format: Format = None,
) -> int:
    """Bring every feature of DATA into an interval, as svm-scale does; range files are svm-scale's."""
    from .scaling import scale_file

    if save and restore:
        raise typer.BadParameter("-s and -r cannot be used together: ranges are saved or restored")
    return scale_file(data, lower, upper, target_bounds, save, restore, output, target, format)


@app.command()
def cv(
    data: Data,
    svm_type: Type = None,
    kernel_type: Kernel = 2,
    degree: Degree = 3,
    gamma: Gamma = None,
    coef0: Coef0 = 0.0,
    cost: Cost = 1.0,
    nu: Nu = 0.5,
    epsilon: Epsilon = 0.1,
    cache: Cache = None,
    tolerance: Tolerance = None,
    shrinking: Shrinking = 1,
    weight: Weight = None,
    folds: Annotated[int, typer.Option("-v", "--folds", metavar="N", help="Number of folds.")] = 5,
    log2c: Annotated[
        str | None,
        typer.Option("--log2c", metavar="FROM,TO,STEP", help="Try these logarithms of C, as grid.py: -5,15,2."),
    ] = None,
    log2g: Annotated[
        str | None, typer.Option("--log2g", metavar="FROM,TO,STEP", help="Try these logarithms of gamma: 3,-15,-2.")
    ] = None,
    quiet: Quiet = False,
    linear: Linear = False,
    bias: Bias = -1.0,
    free_bias: FreeBias = False,
    solver: Solver = "auto",
    time_limit: TimeLimit = None,
    target: Target = None,
    format: Format = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> int:
    """Cross-validate on DATA, for one machine or for a grid of C and gamma (as LIBSVM's grid.py)."""
    from .machines import Settings
    from .validation import cross_validate, search

    settings = Settings(
        svm_type=svm_type, kernel_type=kernel_type, degree=degree, gamma=gamma, coef0=coef0, cost=cost, nu=nu,
        epsilon=epsilon, cache=cache, tolerance=tolerance, shrinking=bool(shrinking), probability=False,
        weights=weight or [], linear=linear, bias=bias, free_bias=free_bias, solver=solver, time_limit=time_limit,
        jobs=jobs,
    )  # fmt: skip
    settings.check()
    if log2c is None and log2g is None:
        return cross_validate(data, settings, folds, seed, target, format, quiet, as_json)
    return search(data, settings, folds, seed, log2c, log2g, target, format, quiet, as_json)


@app.command()
def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of maxmargin, LIBSVM or LIBLINEAR.")],
    as_json: AsJson = False,
) -> int:
    """Tell what a model is: its machine, kernel, classes, support vectors, certificate."""
    from .information import tell

    return tell(model, as_json)


@app.command()
def demo(
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Without progress.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the larger problem.")] = False,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where to write a report.")
    ] = "demo-report.html",
) -> int:
    """A tour on data that come with scikit-learn: certificates, solvers, machines, and a report."""
    from .demonstration import show

    return show(quiet, quick, output)


@app.command()
def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of maxmargin, LIBSVM or LIBLINEAR.")],
    data: Data,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where to write the page.")
    ] = "report.html",
    target: Target = None,
    format: Format = None,
    quiet: Quiet = False,
) -> int:
    """Write a page about MODEL: its certificate, and how it does on DATA; one HTML file that needs no network."""
    from .reporting import write

    return write(model, data, output, target, format, quiet)


@app.command()
def plot(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="margin, convergence, kernel, features or path.")],
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model of maxmargin, LIBSVM or LIBLINEAR.")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="Samples, for margin, kernel and path.")] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to draw: .png, .svg, .pdf. [KIND.png]"),
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Light lines on a dark ground.")] = False,
    target: Target = None,
    format: Format = None,
    quiet: Quiet = False,
) -> int:
    """Draw MODEL: its margin on DATA, how it converged, its kernel, its features, or its path over C."""
    from .plotting import draw

    return draw(kind, model, data, output, target, format, dark, quiet)


@app.command()
def toy(
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of the page; 0: a free one.")
    ] = 8321,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only say where the page is.")] = False,
) -> int:
    """Click points in a browser and watch the solvers at work; served to this machine only, until Ctrl-C."""
    from ..toy import serve

    return serve(port, not no_browser)


@app.command()
def warmup() -> int:
    """Compile what a first training would compile; it is kept on disk."""
    from ..warmup import main

    return main()


def commands() -> dict[str, Any]:
    """The commands by name."""
    return {info.name or info.callback.__name__: info.callback for info in app.registered_commands if info.callback}
