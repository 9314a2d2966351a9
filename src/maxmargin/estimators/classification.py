"""Support vector classification with kernels: SVC and NuSVC."""

from __future__ import annotations

import time
import warnings
from dataclasses import astuple, dataclass, replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin

from .. import threads as th
from ..decisions import DECISIONS, pair_weights, shaped
from ..formulations import CSVC, Decision, Formulation, Samples
from ..formulations import NuSVC as NuSVCFormulation
from ..goal import Goal
from ..gram import Gram, KernelGram, cache_bytes
from ..monitor import Monitor
from ..problem import DUST, QP
from ..rows.centre import centred
from ..solution import History, Solution, Status
from ..solvers.parts.small_problems import (
    Batch,
    SmallProblems,
    SmallSolutions,
    certify_small,
    solve_small,
    suits,
)
from ..solvers.parts.working_sets import Sizes
from .base import (
    Outcome,
    Problem,
    Solved,
    certified_or_as_before,
    dense,
    side_by_side,
    solved_as_published,
    stacklevel,
)
from .calibrated import Calibrated
from .calibration import CALIBRATIONS, Calibration, agreeing, calibrated
from .checks import check_choice, check_labels
from .expansion import Expanding
from .folds import Solving, fold_numbers, out_of_folds, seed_of
from .kernel import KernelMachine
from .multiclass import Pairs, weighed_classes
from .objects import Objects
from .pair_programs import Decisions, decisions, largest_nus, programs
from .parameters import ClassifierParameters, documented, says_fit
from .small_folds import SmallMachines, out_of_small_folds

__all__ = ["SVC", "NuSVC"]

SAME = 1e-9  # relative: multipliers that differ by less prove the same
# Of the objective, what rounding of the entries of a linear kernel may be worth: a proof that may be wrong by more is
# made from the weights, and where they may be, steps that see the entries alone are not the last ones.
PROVEN, SOLVED = 1e-6, 1e-4
NU_SLACK = 1e-12  # rounding of a nu that is just feasible


LEAVES = (
    "support_ support_vectors_ dual_coef_ coef_ intercept_ n_support_ classes_ class_weight_ parametric_coef_ "
    "fit_status_ shape_fit_ probA_ probB_"
).split()


class _KernelClassifier(ClassifierMixin, Calibrated, ClassifierParameters, KernelMachine):
    def _formulation(self) -> Formulation:
        raise TypeError(f"{type(self).__name__} is an abstract machine; use SVC or NuSVC")

    @says_fit("Fit to samples X (n, d) and labels y (n,).")
    @certified_or_as_before
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        check_choice(self, "probability", (False, True, "deprecated"))
        check_choice(self, "calibration", CALIBRATIONS)
        check_choice(self, "decision_function_shape", ("ovr", "ovo"))
        X, y, weight = self._check_input(X, y, sample_weight)
        check_labels(y)
        self.classes_, self.class_weight_, present, labels = weighed_classes(y, weight, self.class_weight)
        k = len(self.classes_)
        weight = weight[present]
        there = X[present] if len(present) < X.shape[0] else X
        self._prepare_kernel(there, weight, k * (k - 1) // 2)
        phi = self._fit_functions(there, y[present], weight)
        box = weight * self.class_weight_[labels]
        pairs = Pairs(labels, k)
        folds = self._folds(there, labels, box)
        self._check_feasible(pairs, box, k > 2 or sample_weight is not None or self.class_weight is not None)
        if getattr(self, "expansion", None) is not None:
            if folds is not None:
                raise ValueError(
                    "probability=True was asked for; found an expansion, whose folds are not kept; wrap the machine: "
                    "sklearn.calibration.CalibratedClassifierCV(SVC(expansion=...), ensemble=False)"
                )
            self._fit_on_points(X, pairs, present, weight, box, phi)  # type: ignore[attr-defined]
            return self
        # One leaf for all of them where a solver takes most of its time to set itself up.
        small = phi is None and isinstance(self.solver, str) and self.solver == "auto"
        alone = (folds is None or isinstance(self, SVC)) and isinstance(X, np.ndarray) and self._kernel_ is not None
        features = X.shape[1] if alone else None
        if not (small and suits(pairs.sizes, features) and self._fit_small(X, pairs, present, box, folds)):
            self._fit_each(X, pairs, present, box, phi, folds)
        return self

    def _problem(
        self, pairs: Pairs, number: int, present: np.ndarray, box: np.ndarray, phi: np.ndarray | None
    ) -> Problem:
        """The problem of a pair of classes."""
        rows = pairs.rows[pairs.at(number)]
        i, j = pairs.first[number], pairs.second[number]
        name = f"{self.classes_[i]} v {self.classes_[j]}" if pairs.k > 2 else ""
        formulation = self._with_functions(self._formulation(), None if phi is None else phi[rows], name)
        return Problem(formulation, present[rows], pairs.targets[pairs.at(number)], box[rows], name)

    def _fit_each(
        self,
        X: Any,
        pairs: Pairs,
        present: np.ndarray,
        box: np.ndarray,
        phi: np.ndarray | None,
        folds: np.ndarray | None,
    ) -> None:
        """A solver for each pair of classes."""
        problems = [self._problem(pairs, number, present, box, phi) for number in range(len(pairs))]
        largest, alone = int(pairs.sizes.max()), len(pairs) == 1
        outcome = self._solve_all(lambda n_jobs, monitor: self._make_gram(X, n_jobs, largest, monitor, alone), problems)
        solved = outcome.solved
        self._keep_pairs(X, pairs, present, np.concatenate([s.decision.coef for s in solved]))
        self._keep_weights(X, outcome)
        self.n_iter_ = np.array([s.solution.n_iter for s in solved], np.int32)
        if self._parametric is not None:
            self.parametric_coef_ = np.vstack([s.decision.parametric for s in solved])
        self._publish(np.array([s.decision.found for s in solved]))
        if folds is not None:
            self._calibrate_each(outcome, present, folds)
        self._certify(outcome)

    def _keep_pairs(self, X: Any, pairs: Pairs, present: np.ndarray, coef: np.ndarray) -> None:
        """Set the support vectors and their coefficients."""
        support, self.n_support_, self._dual = pairs.layout(coef)
        self._keep_support(X, present[support])
        self.dual_coef_ = sp.csr_matrix(self._dual) if self._sparse else self._dual

    def _fit_small(self, X: Any, pairs: Pairs, present: np.ndarray, box: np.ndarray, folds: np.ndarray | None) -> bool:
        """All pairs of classes by the leaf for many small problems; those that it does not solve by a solver each.

        Whether that was done: not if most of them want a solver, which work side by side.
        """
        started = time.perf_counter()
        formulation, points, weight = self._formulation(), present[pairs.rows], box[pairs.rows]
        problems = programs(formulation, points, pairs.targets, weight, pairs.starts)
        batches = [replace(batch, points=present[batch.points]) for batch in pairs.batches()]
        starts = getattr(self, "_starts_", None) if self.warm_start else None
        known = starts is not None and [len(one) for one in starts] == problems.sizes.tolist()
        mean = np.add.reduceat(weight, pairs.starts[:-1]) / problems.sizes
        unit = np.minimum(1.0, mean) if isinstance(formulation, NuSVCFormulation) else np.ones(len(pairs))
        with self._monitor() as monitor:
            gram = self._make_gram(X, self.n_jobs, int(problems.sizes.max()), monitor, len(pairs) == 1)
            first = np.concatenate(starts) if starts is not None and known else None
            threads, tol = th.count(self.n_jobs), self.tol * float(unit.min())
            room = cache_bytes(self.cache_size)
            found = solve_small(gram, problems, tol, self.max_iter, threads, monitor, first, batches, room=room)
            if 2 * np.count_nonzero(found.crowded) > len(pairs):
                return False
            statuses, solvers = found.statuses(), ["decomposition"] * len(pairs)
            shape = decisions(formulation, problems, found, pairs.targets, gram)
            own: dict[int, QP] = {}  # problems that are looked at one by one
            weights: dict[int, np.ndarray] = {}  # of those that another solver solved, if it has found some
            doubtful = ~shape.plain
            left = np.array([status in (Status.STALLED, Status.EXHAUSTED) for status in statuses])
            if self._weighs(X.shape[1], len(pairs)):  # predictions come from weights, not from entries of the matrix
                size = np.abs(found.proof[:, :2]).max(axis=1)
                worth = problems.rounding(gram, found.beta)
                doubtful, left = doubtful | (worth > PROVEN * size), left | (worth > SOLVED * size)

            def look_at(q: int) -> None:
                problem = self._problem(pairs, q, present, box, None)
                qp, at, goal = problems.qp(q, gram), pairs.at(q), self._goal(problem)
                own[q] = qp
                moved = Decision(shape.coef[at], shape.intercept[q], shape.found[q])
                if not left[q] and (
                    not statuses[q].converged or goal.met(qp.certificate(*formulation.point(qp, moved)))
                ):
                    return  # stopped, or as good as it was found
                solution, one = solved_as_published(
                    self._solver(), formulation, qp, goal, found.beta[at], monitor.part(problem.label)
                )
                shape.coef[at], shape.intercept[q], shape.found[q] = one.coef, one.intercept, one.found
                found.beta[at], found.multipliers[q] = solution.beta, solution.multipliers
                if solution.w is not None:
                    weights[q] = one.scale * solution.w
                found.n_iter[q] += solution.n_iter
                found.proof[q] = astuple(solution.certificate)[:5]
                statuses[q], solvers[q] = solution.status, solution.solver

            numbers = (left | doubtful).nonzero()[0].tolist()
            workers = 1 if self._function is not None else threads
            side_by_side(look_at, numbers, max(1, min(workers, len(numbers))), monitor)
            sizes = np.bincount(points, np.abs(found.beta), gram.n)
            self._look_at(SimpleNamespace(H=gram), SimpleNamespace(beta=sizes))  # type: ignore[arg-type]
        self._keep_pairs(X, pairs, present, shape.coef)
        self.intercept_, self._W = shape.intercept, None
        if self._weighs(X.shape[1], len(pairs)):
            near = centred(self.support_vectors_, self._centre)
            self._W = np.array(dense(pair_weights(self.dual_coef_, self.n_support_, near)))
            for q, w in weights.items():
                self._W[q] = w
            self.intercept_ = self.intercept_ - self._W @ self._centre
        self.n_iter_ = found.n_iter.astype(np.int32)
        self._publish(shape.found)
        if folds is not None and problems.sizes.max() <= Sizes.matrix:
            machines = self._small_machines(problems, batches, pairs.targets, weight, unit, found)
            self._calibrate_small(gram, machines, folds[pairs.rows], found.beta, shape, monitor)
        elif folds is not None:
            known = (pairs, present, box, gram, found, shape)
            decided = [self._solved(*known, q, as_found=q not in own) for q in range(len(pairs))]
            self._calibrate_each(Outcome(decided, monitor, started, gram), present, folds)
        self._certify_small(problems, found, shape, pairs, present, gram, unit, statuses, own)
        betas = np.split(found.beta, found.starts[1:-1]) if self.warm_start else []
        histories = [monitor.history] * len(pairs)
        self._announce(found.certificates(), statuses, solvers, histories, betas, monitor, started)
        return True

    def _solved(
        self, pairs: Pairs, present: np.ndarray, box: np.ndarray, gram: Gram, found: SmallSolutions, shape: Any,
        number: int, as_found: bool,
    ) -> Solved:  # fmt: skip
        """A pair that was solved among others, as if it had been alone; if ``as_found`` its product is known."""
        problem, at = self._problem(pairs, number, present, box, None), pairs.at(number)
        part, beta = gram.take(problem.rows), found.beta[at]
        qp = problem.formulation.qp(Samples(part, problem.y, problem.weight))
        if as_found and qp.ridge is None and isinstance(part, KernelGram):
            part.remember(beta, found.H_beta[at])
        solution = Solution(
            beta, found.multipliers[number], found.certificate(number), found.status(number), int(found.n_iter[number]),
            0.0, 0, History(),
        )  # fmt: skip
        decision = Decision(shape.coef[at], shape.intercept[number], shape.found[number])
        return Solved(problem, qp, self._goal(problem), solution, decision)

    def _certify_small(
        self,
        problems: SmallProblems,
        found: SmallSolutions,
        shape: Any,
        pairs: Pairs,
        present: np.ndarray,
        gram: Gram,
        unit: np.ndarray,
        statuses: list[Status],
        own: dict[int, QP],
    ) -> None:
        """The proofs of the attributes as published, and the judge's word on each of them.

        Those of the problems in ``own`` are made one by one, from the weights where these are published.
        """
        place = np.full(int(present.max(initial=-1)) + 1, -1)
        place[present] = np.arange(len(present))
        coef = pairs.published(place[self.support_], self.n_support_, dense(self.dual_coef_))
        shift = 0.0 if self._W is None else self._W @ self._centre
        scale = np.where(shape.found > 0.0, shape.found, 1.0)
        eta = np.array([(self.intercept_ + shift) * scale, -shape.found]).T
        eta = eta[:, int(not self.fit_intercept) : 2 if isinstance(self, NuSVC) else 1]
        beta = coef
        if shape.found.any():  # what was divided by a margin is multiplied again, and lies on its bound again
            beta = coef * np.repeat(scale, problems.sizes)
            beta = beta * problems.sign if len(problems.sign) else beta
            for bound in (problems.lower, problems.upper):
                near = np.isfinite(bound) & (np.abs(beta - bound) <= DUST * np.abs(bound))
                beta = np.where(near, bound, beta)
        elif len(problems.sign):
            beta = coef * problems.sign
        same = np.abs(eta - found.multipliers) <= SAME * np.abs(found.multipliers)
        if not (np.array_equal(coef, shape.coef) and same.all()):
            # The proofs were about other numbers.
            found.proof[:] = certify_small(gram, problems, beta, eta @ problems.columns)
        for q, qp in own.items():
            w = None if self._W is None else self._W[q] * scale[q]
            found.proof[q] = astuple(qp.certificate(beta[pairs.at(q)], eta[q], w))[:5]
        primal, dual, gap, violation, lack = found.proof.T
        met = Goal(violation=self.tol).proven(violation / unit, lack, primal, dual, gap, 0.0)
        for q, good in enumerate(met.tolist()):
            if good is not statuses[q].converged:
                statuses[q] = Status.CONVERGED if good else Status.STALLED

    # -- probabilities ----------------------------------------------------------------------------------

    def _folds(self, X: Any, labels: np.ndarray, box: np.ndarray) -> np.ndarray | None:
        """The fold of each sample, if there is a use for it."""
        if self.probability is not True:
            return None
        by_content = self.kernel != "precomputed" and not isinstance(X, Objects)
        return fold_numbers(X, labels, box, seed_of(self.random_state), by_content)

    def _calibrate_each(self, outcome: Outcome, present: np.ndarray, folds: np.ndarray) -> None:
        """A calibration of each pair from machines of its folds, those of the rows ``present``, a solver each."""
        solved = outcome.solved
        place = np.zeros(present.max() + 1, np.int64)
        place[present] = folds
        workers = 1 if self._function is not None else th.count(self.n_jobs)
        with self._once_more(outcome.monitor) as monitor:
            solver = replace(self._solver(), solver="auto")  # a named one may not take problems with closed boxes
            solving = Solving(outcome.gram, solver, self._goal, monitor, workers, classes=True)
            found = out_of_folds(solving, solved, place)
        flip = self._flip()
        problems = [one.problem for one in solved]
        self._calibration = calibrated(
            self.calibration, [flip * f for f in found], [flip * p.y for p in problems], [p.weight for p in problems]
        )

    def _flip(self) -> float:
        """The sign of the first class: of two classes the second has +1, as in scikit-learn."""
        return -1.0 if len(self.classes_) == 2 else 1.0

    def _small_machines(
        self,
        problems: SmallProblems,
        batches: list[Batch],
        y: np.ndarray,
        weight: np.ndarray,
        unit: np.ndarray,
        found: SmallSolutions,
    ) -> SmallMachines:
        """The machines of all pairs, of which those of folds are made; the tolerance of each is tol times its unit."""
        threads, tol = th.count(self.n_jobs), self.tol * unit
        reached = np.maximum(tol, found.violations)
        workers = 1 if self._function is not None else threads
        limits = float(tol.min()), self.max_iter, threads
        return SmallMachines(
            self._formulation(), problems, batches, y, weight, *limits, reached, self._solver(), workers
        )

    def _calibrate_small(
        self,
        gram: Gram,
        machines: SmallMachines,
        folds: np.ndarray,
        beta: np.ndarray,
        fit: Decisions,
        before: Monitor,
    ) -> None:
        """A calibration of each pair from machines of its folds by the leaf for many small problems."""
        with self._once_more(before) as monitor:
            out = out_of_small_folds(gram, machines, folds, beta, fit, monitor)
        ends, flip = machines.problems.starts[1:-1], self._flip()
        parts = (np.split(a, ends) for a in (flip * out, flip * machines.y, machines.weight))
        self._calibration = calibrated(self.calibration, *parts)

    def _probabilities(self, X: Any, calibration: Calibration) -> np.ndarray:
        k, shape = len(self.classes_), "scores" if self.break_ties else "votes"
        X = self._check_predict_input(X)
        step = max(1, DECISIONS // len(self.intercept_))
        found = []
        for a in range(0, X.shape[0], step):
            values = self._decide(X[a : a + step], "ovo", checked=True)
            chosen = (values > 0).astype(np.intp) if k == 2 else shaped(values, k, shape)
            raw = calibration.probabilities(-values[:, None] if k == 2 else values, k)
            found.append(agreeing(raw, chosen))
        return np.concatenate(found)

    def _publish(self, found: np.ndarray) -> None:
        """Set the attributes that only this machine has."""

    def _published(self, number: int, solved: Solved) -> tuple[Decision, np.ndarray | None]:
        i, j = (int(classes[number]) for classes in np.triu_indices(len(self.classes_), 1))
        edges = np.concatenate([[0], np.cumsum(self.n_support_)])
        coef = np.zeros(len(solved.problem.rows))
        dual = dense(self.dual_coef_)
        for own, row in ((i, j - 1), (j, i)):
            at = slice(edges[own], edges[own + 1])
            coef[np.searchsorted(solved.problem.rows, self.support_[at])] = dual[row, at]
        parametric = np.zeros(0) if self._parametric is None else self.parametric_coef_[number]
        intercept, w = self._seen_from_centre(number, solved)
        return Decision(coef, intercept, self._found_by(number), solved.decision.scale, parametric), w

    def _found_by(self, number: int) -> float:
        """What the machine of a pair finds besides, as published."""
        return 0.0

    def _check_feasible(self, pairs: Pairs, box: np.ndarray, lenient: bool) -> None:
        """Nothing to check for a machine that is always feasible."""

    def _feature_weights(self) -> Any:
        if len(self.classes_) == 2 or self._W is not None or self._reduced:
            return super()._feature_weights()
        return pair_weights(self.dual_coef_, self.n_support_, self.support_vectors_)

    def _decide(self, X: Any, shape: str, checked: bool = False) -> np.ndarray:
        """Decisions of a shape that ``decide_pairs`` knows; for two classes (n,), whatever the shape."""
        X = X if checked else self._check_predict_input(X)
        k = len(self.classes_)
        return self._decision(self.n_support_ if k > 2 and not self._reduced else None).classes(X, k, shape)

    def decision_function(self, X: Any) -> np.ndarray:
        """Decisions: (n,) for two classes, positive for ``classes_[1]``; else (n, k) or, for "ovo", (n, pairs)."""
        return self._decide(X, self.decision_function_shape)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each sample."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties must be False when decision_function_shape is 'ovo': found break_ties=True, which needs a "
                "score for each class; set decision_function_shape='ovr'"
            )
        found = self._decide(X, "scores" if self.break_ties else "votes")
        return self.classes_[(found > 0).astype(np.intp) if len(self.classes_) == 2 else found]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class SVC(Expanding, _KernelClassifier):
    """C-support vector classification, a drop-in for scikit-learn's, with a certificate of every fit.

        min ½‖f‖² + C Σ ℓ(y_i f(x_i))

    Several classes are decided by votes of all pairs, as in LIBSVM.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = SVC(C=10).fit(X, y)
    >>> machine.predict(X[:3])
    array([0, 0, 0])
    >>> machine.certificate_.violation <= machine.tol
    True
    """

    C: float = 1.0
    loss: str = "hinge"
    huber_delta: float = 0.5

    _leaves = (*LEAVES, "full_gap_")

    def _fit_on_points(
        self, X: Any, pairs: Pairs, present: np.ndarray, weight: np.ndarray, box: np.ndarray, phi: np.ndarray | None
    ) -> None:
        """All pairs of classes on the points of one expansion; samples of a class lie together."""
        edges = np.concatenate([[0], np.cumsum(pairs.count)])
        problems = []
        for i, j in zip(pairs.first, pairs.second, strict=True):
            rows = np.concatenate([np.arange(edges[c], edges[c + 1]) for c in (i, j)])
            samples = pairs.order[rows]
            y = np.repeat((-1.0, 1.0) if pairs.k == 2 else (1.0, -1.0), pairs.count[[i, j]])
            name = f"{self.classes_[i]} v {self.classes_[j]}" if pairs.k > 2 else ""
            functions = None if phi is None else phi[samples]
            problems.append(
                Problem(self._with_functions(self._formulation(), functions, name), rows, y, box[samples], name)
            )
        self._fit_expansion(X, present[pairs.order], weight[pairs.order], problems)
        if hasattr(self, "support_"):  # points that are samples have classes, unless these samples are absent
            labels = np.full(X.shape[0], -1)
            labels[present] = pairs.labels
            self.n_support_ = np.bincount(labels[self.support_] + 1, minlength=pairs.k + 1)[1:].astype(np.int32)

    def _formulation(self) -> Formulation:
        return CSVC(float(self.C), self.loss, float(self.huber_delta), bool(self.fit_intercept))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class NuSVC(_KernelClassifier):
    """ν-support vector classification: ν bounds the share of margin errors from above, of support vectors from below.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import NuSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = NuSVC(nu=0.2).fit(X, y)
    >>> bool(machine.margin_[0] > 0)
    True
    """

    nu: float = 0.5

    _leaves = (*LEAVES, "margin_")
    _says = {
        "nu": (
            "float in (0, 1]",
            "Feasible up to 2 min(W₊, W₋) / (W₊ + W₋), where W are the total weights of the two classes. A larger nu "
            "is an error that names the interval; with several classes or with weights, where no single nu may suit "
            "all pairs, it is lowered to the largest feasible one for the pairs that need it, with a warning that "
            "names them.",
        ),
    }

    def _formulation(self) -> Formulation:
        return NuSVCFormulation(float(self.nu), bool(self.fit_intercept), clip=True)

    def _check_feasible(self, pairs: Pairs, box: np.ndarray, lenient: bool) -> None:
        if not self.fit_intercept:
            return
        most = largest_nus(pairs.targets, box[pairs.rows], pairs.starts)
        tight = np.flatnonzero(self.nu > most * (1 + NU_SLACK))
        if not len(tight):
            return
        names = self.classes_
        found = ", ".join(
            f"(0, {most[c]:.6g}]" + (f" for {names[pairs.first[c]]} v {names[pairs.second[c]]}" if pairs.k > 2 else "")
            for c in tight[:5]
        )
        asked = f"specified nu is infeasible: nu={self.nu:g} was asked for; found classes that need nu in {found}"
        if not lenient:
            raise ValueError(f"{asked}; lower nu or give the smaller class more weight")
        warnings.warn(f"{asked}; the largest feasible nu is used there", UserWarning, stacklevel=stacklevel())

    def _publish(self, found: Any) -> None:
        self.margin_ = found
        if not self.margin_.all():
            warnings.warn(
                f"nu={self.nu:g} was asked for; found no margin: more samples than that err whatever the function is; "
                "raise nu",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def _found_by(self, number: int) -> float:
        return float(self.margin_[number])
