"""What the parameters and attributes of machines mean, each said once.

A machine is a dataclass whose fields are its parameters; those that several machines share are fields of their common
base. ``documented`` adds the sections "Parameters" and "Attributes" to the docstring of a public machine from the two
tables here, so that ``help(SVC)`` tells all of them and no two machines tell the same thing in different words.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator

__all__ = [
    "OF_RESIDUALS",
    "ATTRIBUTES",
    "PARAMETERS",
    "ClassifierParameters",
    "KernelParameters",
    "MachineParameters",
    "documented",
    "says_fit",
]

M = TypeVar("M", bound="type[MachineParameters]")
F = TypeVar("F", bound=Callable)


@dataclass(kw_only=True, eq=False, repr=False)
class MachineParameters(BaseEstimator):
    """What every machine has."""

    tol: float = 1e-3
    max_iter: int = -1
    solver: Any = "auto"
    n_jobs: int | None = None
    time_limit: float | None = None
    callback: Callable | None = None
    warm_start: bool = False
    verbose: bool | int = False

    _leaves: ClassVar[Sequence[str]] = ()  # attributes that a fit leaves besides those that all machines have
    _says: ClassVar[dict[str, tuple[str, str]]] = {}  # parameters and attributes with a meaning of their own


@dataclass(kw_only=True, eq=False, repr=False)
class KernelParameters(MachineParameters):
    """What every machine with a kernel has."""

    kernel: Any = "rbf"
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    shrinking: bool = True
    cache_size: float | str = "auto"


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(KernelParameters):
    """What every classifier with a kernel has."""

    class_weight: Any = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    probability: bool | str = False
    calibration: str = "sigmoid"
    random_state: Any = None
    fit_intercept: bool = True
    parametric: Any = None


PARAMETERS: dict[str, tuple[str, str]] = {
    "C": ("float", "Cost of an error; a sample's weight multiplies it."),
    "nu": (
        "float in (0, 1]",
        "Bounds the share of errors from above and the share of support vectors from below.",
    ),
    "quantile": ("float in (0, 1)", 'Share of the targets below f, for loss="quantile".'),
    "epsilon": ("float", "Half-width of the tube inside which an error costs nothing."),
    "loss": ('{"hinge", "squared_hinge", "huber"}', "What an error costs."),
    "huber_delta": (
        "float",
        "Half-width of the parabola that takes the place of the hinge's corner in the Huber hinge.",
    ),
    "kernel": (
        '{"linear", "poly", "rbf", "sigmoid", "laplacian", "wendland", "precomputed"} or callable',
        "A callable gets two sets of samples and returns their kernel matrix; it sees only the rows that are needed, "
        "and samples of any kind as they were given: strings, graphs, tables. "
        'With "precomputed" X is K(X_train, X_train) for ``fit`` and K(X_test, X_train) for predictions.',
    ),
    "degree": (
        "int",
        'Degree of "poly", and of "wendland", which is positive definite for up to 2 · degree − 3 features; the others '
        "do not look at it.",
    ),
    "gamma": (
        '{"scale", "auto"} or float',
        'Coefficient of "rbf", "poly", "sigmoid" and "laplacian"; "wendland" is 0 for points farther apart than '
        '1 / √gamma. "scale": 1 / (n_features · variance of X, weighted), "auto": 1 / n_features.',
    ),
    "coef0": ("float", 'Constant term of "poly" and "sigmoid".'),
    "tol": (
        "float",
        "Largest violation of the optimality conditions at which to stop, as in LIBSVM.",
    ),
    "shrinking": ("bool", "Whether variables that seem settled are left out for a while."),
    "cache_size": (
        'float or "auto"',
        'Megabytes for kernel rows. "auto" takes at most a third of what is free, shared by all fits of the process, '
        "and only as far as it pays.",
    ),
    "class_weight": (
        'dict, "balanced" or None',
        'Factors of C by class; "balanced" makes the classes equally heavy: n_samples / (n_classes · their weights).',
    ),
    "probability": (
        "bool",
        "Whether ``predict_proba`` is there, which takes a part of the time of five more fits. The class that "
        "``predict`` gives is always the most probable one.",
    ),
    "calibration": (
        '{"sigmoid", "isotonic", "temperature"}',
        "How decisions become probabilities: by a sigmoid of two numbers, by a curve that never falls (for thousands "
        "of samples), or by one number: the width of the doubt around f = 0.",
    ),
    "decision_function_shape": (
        '{"ovr", "ovo"}',
        "What ``decision_function`` returns for more than two classes: a column for each class, or for each pair.",
    ),
    "break_ties": ("bool", "Whether ``predict`` decides between classes with equal votes by their decision values."),
    "random_state": (
        "int, RandomState or None",
        "Seed where a solver or an expansion has a choice, and of the folds for probabilities; None always takes the "
        "same.",
    ),
    "verbose": ("bool", "Whether a line of progress is shown."),
    "max_iter": ("int", "Most iterations, in the solver's own units; -1 for no limit."),
    "solver": (
        "str or solver",
        'A name from ``maxmargin.SOLVERS``, or an instance such as ``Decomposition(working_set=128)``. "auto" takes '
        "the one that suits the problem, and others where it falls short.",
    ),
    "fit_intercept": ("bool", "Whether f has a bias, which nothing penalises."),
    "parametric": (
        "callable, list of callables, transformer or None",
        "Functions that are added to f without a penalty: X -> (n, k), a list of X -> (n,), or a transformer, which is "
        "cloned and fitted. They get X as it was checked, an array or a CSR matrix; where fit got a table with names, "
        "a table with these names.",
    ),
    "n_jobs": ("int or None", "Threads; None uses all cores that OMP_NUM_THREADS and the scheduler allow."),
    "time_limit": ("float or None", "Seconds; the best model so far is kept, with its gap and a warning."),
    "callback": (
        "callable or None",
        "Called with a dict of progress at each step, and with that of the last step again where the next one takes "
        "longer than a tenth of a second; a true result stops the fit. Where a solver has a function at a step (newton "
        'and pcg with a kernel), step["model"](X) gives its values, and what is put in step["score"] is recorded in '
        '``history_.trace["score"]``.',
    ),
    "warm_start": ("bool", "Whether to start from the coefficients of the last fit on as many samples."),
    "expansion": (
        "int, array of int, array of points or None",
        "None: f stands on the samples that need it. A number: on that many points, which ``expansion_choice`` "
        "chooses; whole numbers: on these rows of X; an array of shape (k, n_features): on these points. ``tol`` is "
        "the relative gap then, ``dual_coef_`` has a row for each problem, and points that depend on others are left "
        "out.",
    ),
    "expansion_choice": (
        '{"random", "greedy", "kmeans"}',
        "Where ``expansion`` is a number: rows drawn by chance, rows that make the objective smallest one by one, or "
        "means of clusters.",
    ),
    "penalty": (
        '{"l2", "l1"}',
        'The penalty of the weights: ½‖w‖², or ‖w‖₁, which leaves few of them; "l1" wants a loss without corners.',
    ),
    "dual": (
        '{"auto", True, False}',
        "Has no influence: a certificate needs the primal and the dual, so that every solver finds both.",
    ),
    "multi_class": (
        '{"ovr", "crammer_singer"}',
        "One class against the rest, or all of them in one problem (Crammer & Singer 2001), whatever the loss and the "
        "penalty; its intercepts are penalised as in LIBLINEAR, intercept_scaling=None being 1.",
    ),
    "intercept_scaling": (
        "float or None",
        "None: the intercept is not penalised. A number: as in LIBLINEAR, the intercept is the weight of a constant "
        "feature of that value, penalised as the others are.",
    ),
}

ATTRIBUTES: dict[str, tuple[str, str]] = {
    "support_": ("ndarray of shape (n_SV,)", "Numbers of the support vectors."),
    "support_vectors_": ("ndarray or CSR of shape (n_SV, n_features)", "The support vectors; empty if precomputed."),
    "dual_coef_": ("ndarray or CSR of shape (n_problems, n_SV)", "Their coefficients β in f(x) = Σ β k(x_i, x) + b."),
    "coef_": ("ndarray or CSR of shape (n_problems, n_features)", "Weights of the features, for a linear kernel."),
    "intercept_": ("ndarray of shape (n_problems,)", "The biases b."),
    "n_support_": ("ndarray", "How many support vectors there are, for each class where there are classes."),
    "classes_": ("ndarray of shape (n_classes,)", "The labels, sorted."),
    "class_weight_": ("ndarray of shape (n_classes,)", "The factors of C that were used."),
    "margin_": ("ndarray of shape (n_pairs,)", "The margin ρ of each pair, by which its function was divided."),
    "epsilon_": ("float", "The half-width of the tube that was found."),
    "offset_": ("ndarray of shape (1,)", "``decision_function(X) = score_samples(X) - offset_``."),
    "radius_": ("float", "The radius of the ball in feature space."),
    "full_gap_": (
        "float or None",
        "With an expansion: the share by which the objective may be above that of the machine on all samples; None "
        "where it would take longer to know than to fit.",
    ),
    "probA_": (
        "ndarray of shape (n_pairs,), or (1,) for regression",
        "A of 1 / (1 + exp(A f + B)), the probability of the first class of each pair, f being positive for it (with "
        "two classes f is minus ``decision_function``), as in LIBSVM; empty without probabilities.",
    ),
    "probB_": ("ndarray of shape (n_pairs,)", "B of the same."),
    "prob_density_marks_": ("ndarray of shape (10,)", "Decisions between which a tenth of probability lies each."),
    "parametric_coef_": ("ndarray of shape (n_problems, k)", "The coefficients of the parametric functions, if any."),
    "certificate_": (
        "Certificate",
        "How good the model is, computed from the attributes as ``predict`` uses them: primal, dual, gap, "
        "relative_gap, violation, infeasibility. Where there are several problems, the worst one's.",
    ),
    "certificates_": ("list of Certificate", "One for each problem: a pair of classes, a class against the rest."),
    "status_": ("Status", "Why the fit ended, as a sentence."),
    "solver_": ("str", "The solver that found the model; ``solvers_`` has one for each problem."),
    "history_": ("History or list of History", "How primal, dual and violation went, with seconds."),
    "fit_time_": ("float", "Seconds that the fit took."),
    "fit_status_": ("int", "0 if all problems converged, else 1."),
    "n_iter_": ("int or ndarray", "Iterations of the solver, for each problem where there are several."),
    "n_features_in_": ("int", "Features of X."),
    "feature_names_in_": ("ndarray", "Their names, if X has names that are all strings."),
    "shape_fit_": ("tuple", "The shape of X."),
}

OF_RESIDUALS = {  # the losses of regression and what shapes them
    "loss": (
        '{"epsilon_insensitive", "squared_epsilon_insensitive", "huber", "quantile", "squared_error"}',
        "What an error r costs: max(0, |r| − epsilon), or its square; r²/2 up to huber_delta and a line beyond; "
        "quantile · r below and (1 − quantile) · r above the target's quantile; r².",
    ),
    "epsilon": ("float", "Half-width of the tube inside which an error costs nothing, for the first two losses."),
    "huber_delta": ("float", 'Size of an error from which on its cost grows in a straight line, for loss="huber".'),
}

HOW_IT_WENT = (
    "certificate_ certificates_ status_ solver_ history_ fit_time_ n_iter_ n_features_in_ feature_names_in_"
).split()


POINTS = "array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed"
ROWS = (
    "array-like or sparse matrix of shape (n_samples, n_features), memory map, path of an .npy file, or a list of "
    "arrays with the same number of columns\n    What is not in memory is read in blocks and never loaded as a whole."
)


def says_fit(first: str, X: str = POINTS, y: str = "array-like of shape (n_samples,)") -> Callable[[F], F]:
    """For a method ``fit``: its docstring, from the first sentence and what X and y are."""

    def said(fit: F) -> F:
        fit.__doc__ = f"""{first}

Parameters
----------
X : {X}
y : {y}
sample_weight : array-like of shape (n_samples,), default=None
    A weight w is exactly w copies of the sample, 0 its absence.

Returns
-------
self
"""
        return fit

    return said


def documented(cls: M) -> M:
    """The machine with all of its parameters and attributes in its docstring, before its examples.

    ``_says`` of a class or of its bases has what differs from the tables; ``_leaves`` names its own attributes.
    """
    own: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        own |= base.__dict__.get("_says", {})
    text = inspect.cleandoc(cls.__doc__ or "")
    head, rule, tail = text.partition("Examples\n--------\n")
    defaults = {field.name: field.default for field in fields(cls)}
    order = [name for base in cls.__mro__ for name in base.__dict__.get("__annotations__", {}) if name in defaults]
    names = list(dict.fromkeys(order))
    parameters = [_entry(name, *(own.get(name) or PARAMETERS[name]), defaults[name]) for name in names]
    leaves = [_entry(name, *(own.get(name) or ATTRIBUTES[name])) for name in (*cls._leaves, *HOW_IT_WENT)]
    sections = [head.rstrip(), "Parameters\n----------\n" + "\n".join(parameters)]
    sections += ["Attributes\n----------\n" + "\n".join(leaves), (rule + tail).rstrip()]
    cls.__doc__ = "\n\n".join(section for section in sections if section) + "\n"
    return cls


def _entry(name: str, kind: str, meaning: str, *default: Any) -> str:
    line = f"{name} : {kind}" + "".join(f", default={value!r}" for value in default)
    return "\n".join([line, *textwrap.wrap(meaning, 112, initial_indent="    ", subsequent_indent="    ")])
