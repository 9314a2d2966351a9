"""Fitted machines as ONNX graphs of plain operators, by the methods that skl2onnx looks for on an estimator.

| machine      | first output                         | second output                                                 |
| ------------ | ------------------------------------ | ------------------------------------------------------------- |
| classifiers  | `label`, (n,): whole numbers or text | `probabilities`, (n, classes), of a calibrated one, or        |
|              |                                      | `scores`: what `decision_function` gives                      |
| regression   | `variable`, (n, 1)                   |                                                               |
| outliers     | `label`, (n, 1): 1 or −1             | `scores`, (n, 1): what `decision_function` gives              |
| PSVMSelector | `variable`, (n, chosen)              |                                                               |

The nodes for support vector machines in ai.onnx.ml compute in float32. Here the type of the input decides: an input in
double is computed in double throughout, so that labels are those of ``predict``; one in float costs digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..gram.kernels import LAPLACIAN, LINEAR, POLY, RBF, SIGMOID, WENDLAND

__all__ = ["Exportable"]

LEAST_OPSET = 13  # in which sums take their axes as an input
COUPLINGS = 100  # steps of a coupling of classes, or as many as there are classes: LIBSVM's bound


class Exportable:
    """The methods that skl2onnx looks for: an estimator that has them converts without being registered."""

    def onnx_parser(self) -> Callable:
        """What skl2onnx calls to name the outputs."""
        return parser(self)

    def onnx_shape_calculator(self) -> Callable:
        """What skl2onnx calls for the types of the outputs."""
        return shape_calculator(self)

    def onnx_converter(self) -> Callable:
        """What skl2onnx calls to write the operators."""
        return converter(self)


class Graph:
    """Operators and constants, written into a container of skl2onnx or into the body of a loop."""

    def __init__(self, scope: Any, container: Any, dtype: type, nodes: list | None = None) -> None:
        self.scope, self.container, self.dtype, self.nodes = scope, container, np.dtype(dtype), nodes

    def body(self) -> Graph:
        """Another graph whose operators are kept apart; it sees the values of this one."""
        return Graph(self.scope, self.container, self.dtype.type, [])

    def name(self, word: str) -> str:
        return self.scope.get_unique_variable_name(f"maxmargin_{word}")

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant, in the type of the graph unless another one is given."""
        from onnx import numpy_helper

        a = np.asarray(value, self.dtype if dtype is None else dtype)
        name = self.name("constant")
        tensor = numpy_helper.from_array(a.astype(object) if a.dtype.kind == "U" else a, name)
        self.container.add_initializer(name, tensor.data_type, list(a.shape), a.ravel().tolist())
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """The output of an operator."""
        found = output or self.name(kind.lower())
        self.ops(kind, inputs, [found], **attributes)
        return found

    def ops(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        name = self.scope.get_unique_operator_name(f"maxmargin_{kind}")
        if self.nodes is None:
            self.container.add_node(kind, list(inputs), list(outputs), name=name, **attributes)
            return
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), name=name, **attributes))

    def total(self, a: str, axis: int, keep: bool = True) -> str:
        """The sum over an axis."""
        return self.op("ReduceSum", a, self.constant([axis], np.int64), keepdims=int(keep))

    def number(self, truth: str) -> str:
        """1 where it is so, 0 elsewhere."""
        return self.op("Cast", truth, to=self.element)

    @property
    def element(self) -> int:
        from onnx import helper

        return helper.np_dtype_to_tensor_dtype(self.dtype)

    def columns(self, a: str, width: int) -> str:
        """(n, width) of values that are (n, width) or (n,) already."""
        return self.op("Reshape", a, self.constant([-1, width], np.int64))

    def flat(self, a: str, output: str | None = None) -> str:
        return self.op("Reshape", a, self.constant([-1], np.int64), output=output)


# -- what skl2onnx asks for -------------------------------------------------------------------------------------------


def parser(model: Any) -> Callable:
    """The variables of a model's outputs."""

    def parse(scope: Any = None, inputs: Any = None) -> list:
        return [scope.declare_local_variable(name, kind) for name, kind in _outputs(model, inputs)]

    return parse


def shape_calculator(model: Any) -> Callable:
    """The types of a model's outputs for those of its input."""

    def shapes(operator: Any) -> None:
        for output, (_, kind) in zip(operator.outputs, _outputs(model, operator.inputs), strict=True):
            output.type = kind

    return shapes


def converter(model: Any) -> Callable:
    """A function that writes a model's operators."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        _check(model, container.target_opset)
        graph = Graph(scope, container, _dtype(operator.inputs))
        names = [variable.full_name for variable in operator.inputs]
        X = graph.op("Concat", *names, axis=1) if len(names) > 1 else names[0]
        X = graph.op("Cast", X, to=graph.element)
        _write(model, graph, X, [variable.full_name for variable in operator.outputs])

    return convert


def _dtype(inputs: Any) -> type:
    from skl2onnx.common.data_types import DoubleTensorType

    return np.float64 if isinstance(inputs[0].type, DoubleTensorType) else np.float32


def _outputs(model: Any, inputs: Any) -> list[tuple[str, Any]]:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    real = DoubleTensorType if _dtype(inputs) is np.float64 else FloatTensorType
    if hasattr(model, "get_support"):
        return [("variable", real([None, len(model.get_support(indices=True))]))]
    if _kind(model) == "regressor":
        return [("variable", real([None, 1]))]
    if _kind(model) == "outlier_detector":
        return [("label", Int64TensorType([None, 1])), ("scores", real([None, 1]))]
    label = StringTensorType([None]) if _labels(model).dtype.kind == "U" else Int64TensorType([None])
    k = len(model.classes_)
    if _calibration(model) is not None:
        return [("label", label), ("probabilities", real([None, k]))]
    pairs = getattr(model, "decision_function_shape", "ovr") == "ovo"
    width = k * (k - 1) // 2 if pairs else k
    return [("label", label), ("scores", real([None] if k == 2 else [None, width]))]


def _kind(model: Any) -> str:
    kind = getattr(model, "_estimator_type", None) or model.__sklearn_tags__().estimator_type
    return str(kind)


def _calibration(model: Any) -> Any:
    return getattr(model, "_calibration", None)


def _labels(model: Any) -> np.ndarray:
    """The classes as ONNX has them: whole numbers or texts."""
    classes = model.classes_
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        return classes.astype(np.int64)
    if classes.dtype.kind in "UO" and all(isinstance(c, str) for c in classes.tolist()):
        return classes.astype(str)
    raise _cannot(model, "labels that are whole numbers or texts", repr(classes.tolist()[0]), "number the classes")


def _check(model: Any, opset: int) -> None:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    if opset < LEAST_OPSET:
        raise _cannot(model, f"opset {LEAST_OPSET} or later", f"target_opset={opset}", "leave target_opset out")
    if getattr(model, "_parametric", None) is not None:
        do = "add what they are worth after the model: its parametric_coef_ times their values"
        raise _cannot(model, "a model without parametric functions, which are Python", "some", do)
    if hasattr(model, "get_support"):
        return
    kernel = model._of_fit.get("kernel", getattr(model, "kernel", "linear"))
    if getattr(model, "_function", None) is not None or callable(kernel):
        do = "use a kernel by name, or fit with kernel='precomputed' and export that"
        raise _cannot(model, "a compiled kernel", f"kernel={kernel!r}, which is a function in Python", do)
    if type(model).__name__ == "SVDD" and kernel == "precomputed":
        raise _cannot(model, "a kernel by name", "'precomputed', which has no k(x, x) of new samples", "use one")


def _cannot(model: Any, asked: str, found: str, do: str) -> ValueError:
    return ValueError(f"{type(model).__name__} as ONNX: {asked} was asked for; found {found}; {do}")


# -- decisions --------------------------------------------------------------------------------------------------------


def _dense(a: Any) -> np.ndarray:
    return np.asarray(a.toarray() if sp.issparse(a) else a, np.float64)


def _write(model: Any, graph: Graph, X: str, outputs: list[str]) -> None:
    if hasattr(model, "get_support"):
        chosen = graph.constant(model.get_support(indices=True), np.int64)
        graph.op("Gather", X, chosen, axis=1, output=outputs[0])
        return
    values = _values(model, graph, X)
    if _kind(model) == "regressor":
        graph.op("Identity", values, output=outputs[0])
    elif _kind(model) == "outlier_detector":
        if type(model).__name__ == "SVDD":
            values = graph.op("Sub", values, _self_kernel(model._kernel_, graph, X))
        inside = graph.op("GreaterOrEqual", values, graph.constant([0.0]))
        one, other = graph.constant([1], np.int64), graph.constant([-1], np.int64)
        graph.op("Where", inside, one, other, output=outputs[0])
        graph.op("Identity", values, output=outputs[1])
    else:
        _write_classes(model, graph, values, outputs)


def _values(model: Any, graph: Graph, X: str) -> str:
    """(n, problems) of decisions."""
    weights, intercept = getattr(model, "_W", None), graph.constant(np.atleast_1d(model.intercept_)[None])
    if not hasattr(model, "kernel"):
        weights = np.atleast_2d(_dense(model.coef_))
    if weights is not None:
        return graph.op("Add", graph.op("MatMul", X, graph.constant(weights.T)), intercept)
    coef = model._coef if hasattr(model, "_coef") else _coefficients(model)
    if not len(coef):
        coef, K = np.zeros((1, coef.shape[1])), graph.op("Mul", graph.total(X, 1), graph.constant([0.0]))
    elif model._kernel_ is None:  # columns of kernel values, or relations to objects
        K = graph.op("Gather", X, graph.constant(np.asarray(model.support_), np.int64), axis=1)
    else:
        K = _kernel(model._kernel_, graph, X, _dense(model.support_vectors_))
    return graph.op("Add", graph.op("MatMul", K, graph.constant(coef)), intercept)


def _coefficients(model: Any) -> np.ndarray:
    """(vectors, problems): with several classes LIBSVM's layout with a column for each pair."""
    k = len(getattr(model, "classes_", ()))
    if k <= 2 or model._reduced:
        return model._dual.T
    owner = np.repeat(np.arange(k), model.n_support_)
    i, j = np.triu_indices(k, 1)
    coef = np.zeros((len(owner), len(i)))
    for pair, (a, b) in enumerate(zip(i, j, strict=True)):
        coef[owner == a, pair] = model._dual[b - 1, owner == a]
        coef[owner == b, pair] = model._dual[a, owner == b]
    return coef


def _kernel(kernel: Any, graph: Graph, X: str, Z: np.ndarray) -> str:
    """k(x, z) for each row of X and of Z."""
    gamma = graph.constant([kernel.gamma])
    if kernel.code == LAPLACIAN:
        rows = graph.op("Unsqueeze", X, graph.constant([1], np.int64))
        distance = graph.total(graph.op("Abs", graph.op("Sub", rows, graph.constant(Z[None]))), 2, keep=False)
        return graph.op("Exp", graph.op("Neg", graph.op("Mul", gamma, distance)))
    if kernel.code in (RBF, WENDLAND):
        # Distances do not change with the origin: seen from the middle of the vectors, products lose fewer digits.
        centre = Z.mean(axis=0)
        rows, near = graph.op("Sub", X, graph.constant(centre[None])), Z - centre
        norms = graph.op(
            "Add", graph.total(graph.op("Mul", rows, rows), 1), graph.constant((near**2).sum(axis=1)[None])
        )
        square = graph.op("Sub", norms, graph.op("MatMul", rows, graph.constant(2.0 * near.T)))
        square = graph.op("Mul", gamma, graph.op("Max", square, graph.constant([0.0])))
        return graph.op("Exp", graph.op("Neg", square)) if kernel.code == RBF else _wendland(kernel, graph, square)
    if kernel.code == LINEAR:
        return graph.op("MatMul", X, graph.constant(Z.T))
    # A factor after the product would be fused with it, and onnxruntime keeps such factors in float32.
    return _of_inner(kernel, graph, graph.op("MatMul", X, graph.constant(kernel.gamma * Z.T)))


def _of_inner(kernel: Any, graph: Graph, inner: str) -> str:
    """The kernel from γ xᵀz."""
    inner = graph.op("Add", inner, graph.constant([kernel.coef0]))
    if kernel.code == SIGMOID:
        return graph.op("Tanh", inner)
    assert kernel.code == POLY
    return graph.op("Pow", inner, graph.constant([kernel.degree]))


def _wendland(kernel: Any, graph: Graph, square: str) -> str:
    q, one = graph.constant([kernel.degree + 1.0]), graph.constant([1.0])
    r = graph.op("Sqrt", square)
    near = graph.op("Max", graph.op("Sub", one, r), graph.constant([0.0]))
    return graph.op("Mul", graph.op("Pow", near, q), graph.op("Add", one, graph.op("Mul", q, r)))


def _self_kernel(kernel: Any, graph: Graph, X: str) -> str:
    """k(x, x), (n, 1)."""
    if kernel.code in (RBF, LAPLACIAN, WENDLAND):
        return graph.constant([[1.0]])
    inner = graph.total(graph.op("Mul", X, X), 1)
    if kernel.code == LINEAR:
        return inner
    return _of_inner(kernel, graph, graph.op("Mul", inner, graph.constant([kernel.gamma])))


# -- classes ----------------------------------------------------------------------------------------------------------


def _write_classes(model: Any, graph: Graph, values: str, outputs: list[str]) -> None:
    classes = graph.constant(labels := _labels(model), labels.dtype)
    k = len(labels)
    pairwise = hasattr(model, "decision_function_shape")
    if k == 2:
        chosen = graph.op("Cast", graph.flat(graph.op("Greater", values, graph.constant([0.0]))), to=_INT64)
        scores = values
    elif not pairwise:
        chosen, scores = graph.op("ArgMax", values, axis=1, keepdims=0), values
    else:
        ranks = _ranks(graph, values, k)
        best = ranks if model.break_ties else _votes(graph, graph.op("Greater", values, graph.constant([0.0])), k)
        chosen = graph.op("ArgMax", best, axis=1, keepdims=0)
        scores = values if model.decision_function_shape == "ovo" else ranks
    graph.op("Gather", classes, chosen, axis=0, output=outputs[0])
    if _calibration(model) is not None:
        graph.op("Identity", _probabilities(model, graph, values, chosen, k), output=outputs[1])
    elif k == 2:
        graph.flat(scores, output=outputs[1])
    else:
        graph.op("Identity", scores, output=outputs[1])


_INT64 = 7  # ONNX's number for whole numbers of 64 bits


def _sides(k: int) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, k) of ones where a class is the first of a pair, and where it is the second."""
    i, j = np.triu_indices(k, 1)
    return np.eye(k)[i], np.eye(k)[j]


def _votes(graph: Graph, won: str, k: int) -> str:
    """The votes of each class from who won each pair: the first class, where it is so."""
    first, second = _sides(k)
    signs = graph.op("MatMul", graph.number(won), graph.constant(first - second))
    return graph.op("Add", signs, graph.constant(second.sum(axis=0)[None]))


def _ranks(graph: Graph, values: str, k: int) -> str:
    """scikit-learn's scores: votes, and less than half a vote for the sum of the decisions."""
    first, second = _sides(k)
    votes = _votes(graph, graph.op("GreaterOrEqual", values, graph.constant([0.0])), k)
    total = graph.op("MatMul", values, graph.constant(first - second))
    below = graph.op("Mul", graph.op("Add", graph.op("Abs", total), graph.constant([1.0])), graph.constant([3.0]))
    return graph.op("Add", votes, graph.op("Div", total, below))


def _probabilities(model: Any, graph: Graph, values: str, chosen: str, k: int) -> str:
    """(n, k): calibrated, coupled, and such that the class that was chosen has the largest."""
    from .calibration import LEAST  # here: it stands above the machines, which stand above this

    calibration = model._calibration
    f = graph.op("Neg", values) if k == 2 else values
    if calibration.method == "isotonic":
        curves = [_curve(graph, f, pair, *curve) for pair, curve in enumerate(calibration.steps)]
        p = graph.op("Concat", *curves, axis=1) if len(curves) > 1 else curves[0]
    else:
        z = graph.op(
            "Add", graph.op("Mul", f, graph.constant(calibration.A[None])), graph.constant(calibration.B[None])
        )
        p = graph.op("Div", graph.constant([1.0]), graph.op("Add", graph.constant([1.0]), graph.op("Exp", z)))
    p = graph.op("Min", graph.op("Max", p, graph.constant([LEAST])), graph.constant([1.0 - LEAST]))
    if k == 2:
        p = graph.op("Concat", p, graph.op("Sub", graph.constant([1.0]), p), axis=1)
    elif not hasattr(model, "decision_function_shape"):  # each class against the rest
        p = graph.op("Div", p, graph.total(p, 1))
    else:
        p = _coupled(graph, p, k)
    return _agreeing(graph, p, chosen, k)


def _curve(graph: Graph, values: str, pair: int, f: np.ndarray, p: np.ndarray) -> str:
    """(n, 1): a curve of straight pieces between (f, p), level beyond its ends, as numpy.interp has it."""
    x = graph.op("Gather", values, graph.constant([pair], np.int64), axis=1)
    rise, run = np.append(np.diff(p), 0.0), np.append(np.diff(f), 0.0)
    slope = np.divide(rise, run, out=np.zeros_like(rise), where=run > 0)
    below = graph.number(graph.op("GreaterOrEqual", x, graph.constant(f[None])))
    number = graph.op("Sub", graph.total(below, 1), graph.constant([1.0]))
    at = graph.op("Cast", graph.op("Max", number, graph.constant([0.0])), to=_INT64)
    f_at, p_at, slope_at = (graph.op("Gather", graph.constant(a), at, axis=0) for a in (f, p, slope))
    beyond = graph.op("Max", graph.op("Sub", x, f_at), graph.constant([0.0]))
    return graph.op("Add", p_at, graph.op("Mul", slope_at, beyond))


def _agreeing(graph: Graph, p: str, chosen: str, k: int) -> str:
    """``calibration.agreeing``: the chosen class and those above it share what they have, it by a hair more."""
    zero, axis = graph.constant([0.0]), graph.constant([1], np.int64)
    numbers = graph.constant(np.arange(k)[None], np.int64)
    own = graph.number(graph.op("Equal", graph.op("Unsqueeze", chosen, axis), numbers))
    others = graph.op("Where", graph.op("Greater", own, zero), graph.constant([-1.0]), p)
    ordered = graph.name("ordered")
    graph.ops("TopK", [others, graph.constant([k - 1], np.int64)], [ordered, graph.name("places")], axis=1)
    first = graph.total(graph.op("Mul", p, own), 1)
    sums = graph.op("MatMul", ordered, graph.constant(np.triu(np.ones((k - 1, k - 1)))))
    level = graph.op("Div", graph.op("Add", sums, first), graph.constant(np.arange(2, k + 1)[None]))
    before = first
    if k > 2:
        head = graph.op("Gather", level, graph.constant(np.arange(k - 2), np.int64), axis=1)
        before = graph.op("Concat", first, head, axis=1)
    pool = graph.number(graph.op("Greater", ordered, before))
    last = np.eye(k - 1) - np.eye(k - 1, k=1)[: k - 1]  # picks the last level of the pool: its members come first
    shared = graph.total(graph.op("Mul", level, graph.op("MatMul", pool, graph.constant(last.T))), 1)
    found = graph.op("Greater", graph.total(pool, 1), zero)
    shared = graph.op("Where", found, shared, first)
    above = graph.op("Mul", shared, graph.constant([1.0 + 2.0 * np.finfo(graph.dtype).eps]))
    mended = graph.op("Where", graph.op("Greater", own, zero), above, graph.op("Min", p, shared))
    best = graph.op("Equal", graph.op("ArgMax", p, axis=1, keepdims=1), graph.op("Unsqueeze", chosen, axis))
    return graph.op("Where", best, p, mended)


def _coupled(graph: Graph, pairs: str, k: int) -> str:
    """``calibration.couple``: the fixed point that LIBSVM goes to, rows that have come to it waiting for the others."""
    from onnx import helper

    shape = graph.constant([-1, k, k], np.int64)
    i, j = np.triu_indices(k, 1)
    upper, lower = np.zeros((len(i), k * k)), np.zeros((len(i), k * k))
    upper[np.arange(len(i)), i * k + j] = 1.0
    lower[np.arange(len(i)), j * k + i] = 1.0
    flipped = graph.op("Sub", graph.constant([1.0]), pairs)
    r = graph.op(
        "Add", graph.op("MatMul", pairs, graph.constant(upper)), graph.op("MatMul", flipped, graph.constant(lower))
    )
    R = graph.op("Reshape", r, shape)  # R_ij = P(i | i or j)
    T = graph.op("Transpose", R, perm=[0, 2, 1])
    diagonal = graph.total(graph.op("Mul", R, R), 1)
    Q = graph.op("Sub", graph.op("Mul", diagonal, graph.constant(np.eye(k)[None])), graph.op("Mul", R, T))
    zeros = graph.op("Mul", graph.total(pairs, 1), graph.constant([0.0]))
    start = graph.op("Add", zeros, graph.constant([[1.0 / k] * k]))
    body, number, going = graph.body(), graph.name("step"), graph.name("going")
    p, own_Q = graph.name("p"), graph.name("q")  # handed on: who sorts the operators does not look into the body
    after, on = _couple_once(body, own_Q, p, k)
    info = helper.make_tensor_value_info
    assert body.nodes is not None
    loop = helper.make_graph(
        body.nodes,
        graph.name("coupling"),
        [info(number, _INT64, []), info(going, _BOOL, []), *(info(a, graph.element, None) for a in (p, own_Q))],
        [info(on, _BOOL, []), *(info(a, graph.element, None) for a in (after, body.op("Identity", own_Q)))],
    )
    found = graph.name("coupled")
    most, go = graph.constant(max(COUPLINGS, k), np.int64), graph.constant(True, np.bool_)
    graph.ops("Loop", [most, go, start, Q], [found, graph.name("q")], body=loop)
    return found


_BOOL = 9  # ONNX's number for truth values


def _couple_once(body: Graph, Q: str, p: str, k: int) -> tuple[str, str]:
    """One round over the classes; the probabilities, and whether some row is not there yet."""
    from .calibration import COUPLED

    one, two = body.constant([1.0]), body.constant([2.0])
    before = p
    axis = body.constant([2], np.int64)
    Qp = body.op("Squeeze", body.op("MatMul", Q, body.op("Unsqueeze", p, axis)), axis)
    total = body.total(body.op("Mul", p, Qp), 1)
    wrong = body.op("GreaterOrEqual", body.op("Abs", body.op("Sub", Qp, total)), body.constant([COUPLED / k]))
    far = body.op("Greater", body.total(body.number(wrong), 1), body.constant([0.0]))
    for c in range(k):
        column = body.op("Gather", Q, body.constant(c, np.int64), axis=1)  # Q is symmetric
        own, Qp_own = (body.op("Gather", a, body.constant([c], np.int64), axis=1) for a in (column, Qp))
        change = body.op("Div", body.op("Sub", total, Qp_own), own)
        scale = body.op("Add", one, change)
        twice = body.op("Add", body.op("Mul", change, own), body.op("Mul", two, Qp_own))
        total = body.op("Div", body.op("Add", total, body.op("Mul", change, twice)), body.op("Mul", scale, scale))
        Qp = body.op("Div", body.op("Add", Qp, body.op("Mul", change, column)), scale)
        unit = body.constant(np.eye(k)[c][None])
        p = body.op("Div", body.op("Add", p, body.op("Mul", change, unit)), scale)
    after = body.op("Where", far, p, before)
    left = body.op("ReduceSum", body.number(far), keepdims=0)
    return after, body.op("Greater", left, body.constant(0.0))
