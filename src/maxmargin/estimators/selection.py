"""Feature selection by the Potential SVM (PSVM §1: "it can be used as a wrapper method for feature selection")."""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import threads as th
from ..formulations import PSVM, Samples
from ..goal import Goal
from ..gram import Relation
from ..monitor import Monitor
from ..solvers import Auto
from .base import certified_or_as_before
from .checks import check_sparse, checked_weight, need
from .onnx import Exportable
from .potential import PATH_LENGTH, SMALLEST_SHARE, Path, signs, walk

__all__ = ["PSVMSelector"]


class PSVMSelector(SelectorMixin, Exportable, BaseEstimator):
    """Feature selection by a Potential SVM on the features themselves: those with α ≠ 0.

    Units of features do not matter. A path of falling ε ranks the features by where they come in.

    Parameters
    ----------
    epsilon : float, default=1.0
        As in :class:`PSVR`; a feature that has nothing to do with the targets agrees with them by about 1.
    n_features_to_select : int or float, default=None
        How many features to choose, or which share of them, in place of ``epsilon``: the first of the ranking.
    C : float or "auto", default="auto"
        Largest |α|, as in :class:`PSVR`. "auto" is infinite with ``epsilon``, and √n_samples / n_features_to_select
        where their number is given: then it takes that many features to explain the targets in full, and features
        that say the same share their weight, where a lasso takes one of them by chance.
    n_epsilons : int, default=50
        Length of the path.
    tol : float, default=1e-3
        As in :class:`PSVR`.
    n_permutations : int, default=0
        Permutations of the targets from which ``pvalues_`` are estimated; 0: none.
    random_state : int, RandomState or None, default=None
        Of the permutations.
    n_jobs : int or None, default=None
        Threads; None uses all cores that OMP_NUM_THREADS and the scheduler allow.
    time_limit : float or None, default=None
        Seconds for the path.
    callback : callable or None, default=None
        Called with a dict of progress now and then; a true result stops the path.
    verbose : bool, default=False
        Whether a line of progress is shown.

    Attributes
    ----------
    support_ : ndarray of shape (n_features,)
        Which features were chosen.
    ranking_ : ndarray of shape (n_features,)
        1 for the feature that comes in first; those that never come in share the last rank.
    scores_ : ndarray of shape (n_features,)
        The ε at which each comes in, 0 for those that do not.
    epsilon_ : float
        The last ε of the path.
    pvalues_ : ndarray of shape (n_features,)
        With permutations: how often the first of *all* features comes in as early with permuted targets.
    certificate_ : Certificate
        How good the last machine of the path is; the worst one's where there are several classes.
    certificates_ : list of Certificate
        One for each class against the rest.
    status_ : Status
        Whether all machines of the path meet ``tol``, or why one of them or the path ended before.
    n_features_in_ : int
        Features of X.
    feature_names_in_ : ndarray
        Their names, if X has names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import PSVMSelector
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> PSVMSelector(n_features_to_select=5).fit_transform(X, y).shape
    (569, 5)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        n_features_to_select: int | None = None,
        C: float | str = "auto",
        n_epsilons: int = PATH_LENGTH,
        tol: float = 1e-3,
        n_permutations: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        time_limit: float | None = None,
        callback: Any = None,
        verbose: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.n_features_to_select = n_features_to_select
        self.C = C
        self.n_epsilons = n_epsilons
        self.tol = tol
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.time_limit = time_limit
        self.callback = callback
        self.verbose = verbose

    @certified_or_as_before
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Rank and choose features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels (strings, whole numbers, or two values) or real targets.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        check_sparse(X)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=[np.float64, np.float32], y_numeric=False
        )
        weight = checked_weight(sample_weight, X)
        rows = np.flatnonzero(weight)
        there, weight = X if len(rows) == X.shape[0] else X[rows], weight[rows]
        wanted = self._wanted(X.shape[1])
        with Monitor(self.time_limit, self.callback, bool(self.verbose)) as monitor, th.blas_limit(1):
            relation = Relation.of(there, weight, self.n_jobs)
            targets = _numeric_targets(y[rows])
            formulation = PSVM(self._box(wanted, float(weight.sum())), 0.0)
            qps = [formulation.qp(Samples(relation, target, weight)) for target in targets]
            largest = max(float(np.abs(qp.p).max(initial=0.0)) for qp in qps)
            last = SMALLEST_SHARE * largest if wanted is not None else min(float(self.epsilon), largest)
            ratio = np.geomspace(1.0, max(last / largest, SMALLEST_SHARE**2), self.n_epsilons) if largest > 0 else [1.0]
            epsilons = largest * np.asarray(ratio)
            if wanted is None:
                epsilons[-1] = float(self.epsilon)
            path = walk(
                formulation, qps, epsilons, Auto("auto"), self._goal, monitor,
                None if wanted is None else lambda row: np.any(row, axis=0).sum() >= wanted,
            )  # fmt: skip
        self._rank(path, wanted, np.max([np.abs(qp.p) for qp in qps], axis=0))
        if self.n_permutations:
            self.pvalues_ = self._significance(relation, targets, weight)
        self.certificates_, self.status_ = path.certificates[-1], path.status
        self.certificate_ = max(self.certificates_, key=lambda found: found.relative_gap)
        return self

    def _goal(self, problem: Any) -> Goal:
        return Goal(violation=self.tol, gap=self.tol)

    def _wanted(self, features: int) -> int | None:
        sized = isinstance(self.epsilon, numbers.Real) and 0 < float(self.epsilon) < np.inf
        need(self, "epsilon", bool(sized), "give epsilon > 0")
        count = self.n_features_to_select
        if count is None:
            return None
        whole = isinstance(count, numbers.Integral) and not isinstance(count, bool) and int(count) > 0
        share = isinstance(count, numbers.Real) and not whole and 0 < float(count) <= 1
        need(self, "n_features_to_select", bool(whole or share), "give a whole number > 0, a share in (0, 1], or None")
        return min(features, int(count) if whole else max(1, int(float(count) * features)))

    def _box(self, wanted: int | None, mass: float) -> float:
        """C; the targets, in units of their spread, have the norm √mass, of which each of n features has its share."""
        if isinstance(self.C, str):
            need(self, "C", self.C == "auto", 'give C > 0 or "auto"')
            return np.inf if wanted is None else float(np.sqrt(mass)) / wanted
        sized = isinstance(self.C, numbers.Real) and float(self.C) > 0
        need(self, "C", bool(sized), 'give C > 0 or "auto"')
        return float(self.C)

    def _rank(self, path: Path, wanted: int | None, agreement: np.ndarray) -> None:
        size = np.abs(path.alphas) if path.alphas.ndim == 2 else np.abs(path.alphas).max(axis=1)
        ever = (size > 0.0).any(axis=0)
        entry = np.where(ever, (size > 0.0).argmax(axis=0), len(size))
        at_entry = np.where(ever, size[np.minimum(entry, len(size) - 1), np.arange(size.shape[1])], 0.0)
        order = np.lexsort((-agreement, -at_entry, entry))  # of those that come in at a bound, who agrees most
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(1, len(order) + 1)
        self.ranking_ = np.where(ever, ranks, int(ever.sum()) + 1)
        self.scores_ = np.where(ever, path.epsilons[np.minimum(entry, len(size) - 1)], 0.0)
        self.epsilon_ = float(path.epsilons[-1])
        self.support_ = size[-1] > 0.0 if wanted is None else ever & (ranks <= wanted)

    def _significance(self, relation: Relation, targets: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
        """Family-wise: the share of permutations whose best feature comes in as early as each (Westfall & Young)."""
        rng = check_random_state(self.random_state)
        first = np.zeros(self.n_permutations)
        for trial in range(self.n_permutations):
            order = rng.permutation(len(weight))
            for target in targets:
                p = PSVM(np.inf, 0.0).qp(Samples(relation, target[order], weight)).p
                first[trial] = max(first[trial], float(np.abs(p).max(initial=0.0)))
        return (1 + (first[:, None] >= self.scores_).sum(axis=0)) / (1 + self.n_permutations)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _numeric_targets(y: np.ndarray) -> list[np.ndarray]:
    """Labels as ±1, real targets as they are. Whole numbers and two values are labels."""
    real = y.dtype.kind == "f" and len(np.unique(y)) > 2
    if real:
        return [np.asarray(y, np.float64)]
    classes, number = np.unique(y, return_inverse=True)
    return signs(number, len(classes)) if len(classes) > 1 else [np.zeros(len(y))]
