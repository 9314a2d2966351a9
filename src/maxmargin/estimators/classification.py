"""Support vector classification with kernels: SVC and NuSVC."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function

from ..formulations import CSVC, Decision, Formulation
from ..formulations import NuSVC as NuSVCFormulation
from ..rows import Rows
from .base import Problem, Solved, dense, stacklevel
from .checks import check_labels
from .kernel import KernelMachine
from .multiclass import pair_decisions, pair_layout, pair_problems, votes, weighed_classes

__all__ = ["SVC", "NuSVC"]

NO_MARGIN = 1e-8  # a margin of a ν-SVC that is none
NU_SLACK = 1e-12  # rounding of a nu that is just feasible


class _KernelClassifier(ClassifierMixin, KernelMachine):
    def _formulation(self) -> Formulation:
        raise TypeError(f"{type(self).__name__} is an abstract machine; use SVC or NuSVC")

    def fit(self, X, y, sample_weight=None):
        """Fit to samples X (n, d) and labels y (n,).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            A weight w is exactly w copies of the sample, 0 its absence.

        Returns
        -------
        self
        """
        if self.probability not in (False, "deprecated"):
            raise ValueError(
                f"probability={self.probability!r} was asked for; found no calibration in this estimator; "
                "wrap it: sklearn.calibration.CalibratedClassifierCV(estimator, ensemble=False)"
            )
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(
                f"decision_function_shape={self.decision_function_shape!r} was asked for; found 'ovr' and 'ovo'; "
                "choose one"
            )
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        X, y, weight = self._check_input(X, y, sample_weight)
        check_labels(y)
        self.classes_, self.class_weight_, present, labels = weighed_classes(y, weight, self.class_weight)
        k = len(self.classes_)
        weight = weight[present]
        there = X[present] if len(present) < X.shape[0] else X
        self._prepare_kernel(there, weight, k * (k - 1) // 2)
        phi = self._fit_functions(there, y[present], weight)
        box = weight * self.class_weight_[labels]
        pairs = pair_problems(labels, k)
        problems = []
        for i, j, rows, target in pairs:
            name = f"{self.classes_[i]} v {self.classes_[j]}" if k > 2 else ""
            formulation = self._with_functions(self._formulation(), None if phi is None else phi[rows], name)
            problems.append(Problem(formulation, present[rows], target, box[rows], name))
        self._check_feasible(problems, k > 2 or sample_weight is not None or self.class_weight is not None)
        largest = max(len(p.rows) for p in problems)
        outcome = self._solve_all(lambda n_jobs: self._make_gram(X, n_jobs, largest), problems)
        solved = outcome.solved

        coefs = [(i, j, rows, s.decision.coef) for (i, j, rows, _), s in zip(pairs, solved, strict=True)]
        support, self.n_support_, dual = pair_layout(labels, k, coefs)
        self._keep_support(X, present[support])
        self._dual = dual
        self.dual_coef_ = sp.csr_matrix(dual) if self._sparse else dual
        self._keep_weights(X, outcome)
        self.n_iter_ = np.array([s.solution.n_iter for s in solved], np.int32)
        if self._parametric is not None:
            self.parametric_coef_ = np.vstack([s.decision.parametric for s in solved])
        self._publish(solved)
        self._certify(outcome)
        return self

    def _publish(self, solved: list[Solved]) -> None:
        """Set the attributes that only this machine has."""

    def _published(self, number, solved):
        i, j = list(combinations(range(len(self.classes_)), 2))[number]
        dual = dense(self.dual_coef_)
        edges = np.concatenate([[0], np.cumsum(self.n_support_)])
        coef = np.zeros(len(solved.problem.rows))
        for own, row in ((i, j - 1), (j, i)):
            at = slice(edges[own], edges[own + 1])
            coef[np.searchsorted(solved.problem.rows, self.support_[at])] = dual[row, at]
        parametric = np.zeros(0) if self._parametric is None else self.parametric_coef_[number]
        intercept, w = self._seen_from_centre(number, solved)
        return Decision(coef, intercept, self._found_by(number), solved.decision.scale, parametric), w

    def _found_by(self, number: int) -> float:
        """What the machine of a pair finds besides, as published."""
        return 0.0

    def _check_feasible(self, problems: list[Problem], lenient: bool) -> None:
        """Nothing to check for a machine that is always feasible."""

    def _feature_weights(self):
        if len(self.classes_) == 2 or self._W is not None:
            return super()._feature_weights()
        vectors = self.support_vectors_
        edges = np.concatenate([[0], np.cumsum(self.n_support_)])
        own = [
            self.dual_coef_[:, edges[c] : edges[c + 1]] @ vectors[edges[c] : edges[c + 1]]
            for c in range(len(edges) - 1)
        ]
        rows = [own[i][[j - 1]] + own[j][[i]] for i, j in combinations(range(len(own)), 2)]
        return sp.vstack(rows).tocsr() if self._sparse else np.vstack(rows)

    def _pair_decisions(self, X) -> np.ndarray:
        X = self._check_predict_input(X)
        if self._W is not None:
            return Rows.of(X, self.n_jobs).dot(self._W.T) + self.intercept_ + self._functions_at(X)
        if len(self.classes_) == 2:
            return self._weigh(X, self._dual.T)[:, 0:1] + self.intercept_ + self._functions_at(X)
        decisions = pair_decisions(
            lambda rows, coef: self._weigh(X, coef, rows), self._dual, self.n_support_, self.intercept_, X.shape[0]
        )
        return decisions + self._functions_at(X)

    def decision_function(self, X):
        """Decisions: (n,) for two classes, positive for ``classes_[1]``; else (n, k) or, for "ovo", (n, pairs)."""
        decisions = self._pair_decisions(X)
        k = len(self.classes_)
        if k == 2:
            return decisions[:, 0]
        return (
            _ovr_decision_function(decisions < 0, -decisions, k) if self.decision_function_shape == "ovr" else decisions
        )

    def predict(self, X):
        """The class of each sample."""
        decisions = self._pair_decisions(X)
        k = len(self.classes_)
        if k == 2:
            return self.classes_[(decisions[:, 0] > 0).astype(np.intp)]
        if self.break_ties:
            return self.classes_[_ovr_decision_function(decisions < 0, -decisions, k).argmax(axis=1)]
        return self.classes_[votes(decisions, k)]


class SVC(_KernelClassifier):
    """C-support vector classification, a drop-in for scikit-learn's, with a certificate of every fit.

    Parameters are scikit-learn's with its meanings, and these more:

    Parameters
    ----------
    C : float, default=1.0
        Cost of a margin error.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        A callable gets two sets of samples and returns their kernel matrix; it sees only the rows that are needed.
    cache_size : float or "auto", default="auto"
        Megabytes for kernel rows; "auto" takes at most a third of what is free, and only as far as it pays.
    loss : {"hinge", "squared_hinge", "huber"}, default="hinge"
    huber_delta : float, default=0.5
        Half-width of the parabola of the Huber hinge.
    solver : str or solver, default="auto"
        A name from ``maxmargin.SOLVERS`` or an instance, such as ``Decomposition(working_set=128)``.
    fit_intercept : bool, default=True
    parametric : callable, list of callables or transformer, default=None
        Functions that are added to the decision function without a penalty: X -> (n, k), a list of X -> (n,), or a
        transformer, which is cloned and fitted. They get X as it was checked, an array or a CSR matrix.
    n_jobs : int, default=None
        Threads; None uses all cores that OMP_NUM_THREADS and the scheduler allow.
    time_limit : float, default=None
        Seconds; the best model so far is kept, with its gap and a warning.
    callback : callable, default=None
        Called with a dict of progress now and then; a true result stops the fit.
    warm_start : bool, default=False
        Start from the coefficients of the last fit on as many samples.
    verbose : bool, default=False
        Show a line of progress.

    Attributes
    ----------
    certificate_ : Certificate
        primal, dual, gap, relative_gap, violation, infeasibility; the worst one where there are several problems.
    certificates_ : list of Certificate
        One for each pair of classes.
    history_, solver_, status_, fit_time_
        How the fit went.
    parametric_coef_ : ndarray of shape (n_pairs, k)
        The coefficients of the parametric functions, a row for each pair of classes.
    classes_, class_weight_, coef_, dual_coef_, fit_status_, intercept_, n_features_in_, n_iter_, n_support_,
    shape_fit_, support_, support_vectors_
        As in scikit-learn.
    """

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability=False,
        tol=1e-3,
        cache_size="auto",
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        loss="hinge",
        huber_delta=0.5,
        solver="auto",
        fit_intercept=True,
        parametric=None,
        n_jobs=None,
        time_limit=None,
        callback=None,
        warm_start=False,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.loss = loss
        self.huber_delta = huber_delta
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.parametric = parametric
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.callback = callback
        self.warm_start = warm_start

    def _formulation(self):
        return CSVC(float(self.C), self.loss, float(self.huber_delta), bool(self.fit_intercept))


class NuSVC(_KernelClassifier):
    """ν-support vector classification: ν bounds the share of margin errors from above, of support vectors from below.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Feasible up to 2 min(W₊, W₋) / (W₊ + W₋), where W are the total weights of the two classes. A larger nu is an
        error that names the interval; with several classes or with weights, where no single nu may suit all
        pairs, it is lowered to the largest feasible one for the pairs that need it, with a warning that names them.

    All other parameters, attributes and methods are those of :class:`SVC`, without ``C`` and ``loss``.

    Attributes
    ----------
    margin_ : ndarray of shape (n_pairs,)
        The margin ρ that each pair was found to have, by which its function was divided.
    """

    def __init__(
        self,
        *,
        nu=0.5,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability=False,
        tol=1e-3,
        cache_size="auto",
        class_weight=None,
        verbose=False,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        solver="auto",
        fit_intercept=True,
        parametric=None,
        n_jobs=None,
        time_limit=None,
        callback=None,
        warm_start=False,
    ):
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.parametric = parametric
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.callback = callback
        self.warm_start = warm_start

    def _formulation(self):
        return NuSVCFormulation(float(self.nu), bool(self.fit_intercept), clip=True)

    def _check_feasible(self, problems, lenient):
        if not self.fit_intercept:
            return
        limits = [(p.label, NuSVCFormulation.largest_nu(p.y, p.weight)) for p in problems]
        tight = [(label, most) for label, most in limits if self.nu > most * (1 + NU_SLACK)]
        if not tight:
            return
        found = ", ".join(f"(0, {most:.6g}]{' for ' + label if label else ''}" for label, most in tight[:5])
        asked = f"specified nu is infeasible: nu={self.nu:g} was asked for; found classes that need nu in {found}"
        if not lenient:
            raise ValueError(f"{asked}; lower nu or give the smaller class more weight")
        warnings.warn(f"{asked}; the largest feasible nu is used there", UserWarning, stacklevel=stacklevel())

    def _publish(self, solved):
        self.margin_ = np.array([s.decision.found for s in solved])
        if (self.margin_ <= NO_MARGIN).any():
            warnings.warn(
                f"nu={self.nu:g} was asked for; found no margin: more samples than that err whatever the function is; "
                "raise nu",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def _found_by(self, number):
        return float(self.margin_[number])
