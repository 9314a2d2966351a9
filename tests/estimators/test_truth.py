"""A fit that says it has converged has converged: what is certified is what predict uses, and one judge says so."""

import os
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import maxmargin
from estimators import by_hand
from maxmargin import SVC, SVDD, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.monitor import Monitor
from maxmargin.problem import QP
from maxmargin.solution import Certificate, History, Solution

PERFECT = Certificate(1.0, 1.0, 0.0, 0.0, 0.0)


class Liar:
    """A solver that returns nothing good and says that it is perfect."""

    form = QP

    def solve(self, qp, goal=None, start=None, monitor=None):
        beta = np.clip(np.zeros(qp.n), qp.lower, qp.upper)
        return Solution(beta, np.zeros(len(qp.A)), PERFECT, Status.CONVERGED, 1, 0.0, 0, History())


def noisy(n=300, d=5, seed=0):
    return make_classification(n, d, n_informative=3, n_redundant=0, flip_y=0.2, random_state=seed)


def rough(n, d=6, values=3, seed=0):
    """Rows of few values, so that most of them occur several times, with labels that contradict each other."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, size=(n, d)).astype(float)
    return X, np.where(X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=n) > 1.0, 1, -1)


def violation_of(model, K, y, C) -> float:
    """m(β) − M(β) of a two-class SVC by its public attributes."""
    (pair,) = by_hand.pairs(model, y)
    C = np.broadcast_to(C, len(y))
    G = -pair.y * (1.0 - pair.y * (K @ pair.beta))  # the slope along β
    alpha = pair.y * pair.beta
    grows = np.where(pair.y > 0, alpha < C, alpha > 0)
    shrinks = np.where(pair.y > 0, alpha > 0, alpha < C)
    return float((-G)[grows].max() - (-G)[shrinks].min())


# -- nobody can say CONVERGED but the judge -------------------------------------------------------------


MACHINES = [SVC(), NuSVC(nu=0.3), SVR(), NuSVR(), OneClassSVM(), SVDD(), LinearSVC(), LinearSVR()]


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_a_solver_that_lies(machine):
    X, y = noisy()
    model = machine.set_params(solver=Liar())
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y.astype(float))
    assert model.status_ is not Status.CONVERGED
    assert model.fit_status_ == 1
    assert model.certificate_ is not PERFECT
    assert model.certificate_.relative_gap > 0.1 or model.certificate_.infeasibility > 0.1


def test_a_solver_of_a_plain_problem_that_lies():
    X, y = noisy()
    qp = QP(X @ X.T, -(2.0 * y - 1.0), np.minimum(0, 2 * y - 1), np.maximum(0, 2 * y - 1), np.ones((1, len(y))), [0.0])
    assert maxmargin.solve(qp, Liar()).status is Status.STALLED


@pytest.mark.parametrize("base", [SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD])
def test_attributes_that_were_altered_after_solving(base):
    class Careless(base):
        def _keep_support(self, X, support):
            super()._keep_support(X, support[::-1].copy())  # the wrong vectors to the coefficients

    X, y = noisy(seed=1)
    kind = {"nu": 0.3} if base is NuSVC else {}
    good = base(gamma=0.3, **kind).fit(X, y.astype(float))
    assert good.status_ is Status.CONVERGED
    with pytest.warns(ConvergenceWarning):
        bad = Careless(gamma=0.3, **kind).fit(X, y.astype(float))
    assert bad.status_ is not Status.CONVERGED
    assert bad.certificate_.relative_gap > good.certificate_.relative_gap
    assert bad.certificate_.relative_gap > 1e-3 or bad.certificate_.infeasibility > 1e-3


@pytest.mark.parametrize("base", [LinearSVC, LinearSVR])
def test_weights_that_were_altered_after_solving(base):
    class Careless(base):
        def _solve_rows(self, rows, problems):
            outcome = super()._solve_rows(rows, problems)
            self.intercept_ = self.intercept_ + 3.0
            return outcome

    X, y = noisy(seed=1)
    assert base().fit(X, y).status_ is Status.CONVERGED
    with pytest.warns(ConvergenceWarning):
        bad = Careless().fit(X, y)
    assert bad.status_ is not Status.CONVERGED
    assert bad.certificate_.relative_gap > 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_the_proof_of_a_linear_machine_is_about_its_weights(seed):
    rng = np.random.default_rng(seed)
    y, C = rng.integers(0, 4, 90), 176.1
    X = (rng.normal(size=(90, 20)) + rng.normal(size=(4, 20))[y]) * 10.0 ** rng.uniform(-6, 6, 20)
    model = SVC(kernel="linear", C=C, fit_intercept=False, tol=2e-4).fit(X, y)
    for certificate, w, i, j in zip(model.certificates_, model.coef_, *np.triu_indices(4, 1), strict=True):
        two = (y == i) | (y == j)
        slack = np.maximum(0.0, 1.0 - np.where(y == i, 1, -1)[two] * (X[two] @ w))
        assert certificate.primal == pytest.approx(0.5 * w @ w + C * slack.sum(), rel=1e-3)


@pytest.mark.parametrize("solver", sorted(maxmargin.SOLVERS))
def test_every_solver_reaches_the_same_tol(solver):
    """tol is the largest violation for all of them, also for those that steer by a gap."""
    X, y = noisy(400)
    for kernel in ("linear", "rbf"):
        try:
            model = SVC(solver=solver, kernel=kernel, loss="squared_hinge", fit_intercept=solver != "adatron", tol=1e-4)
            model.fit(X, y)
        except ValueError as objection:
            assert "use" in str(objection)
            continue
        assert model.status_ is Status.CONVERGED
        assert model.certificate_.violation <= 1e-4


# -- models that were wrong once ------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.03, 0.07, 0.1, 0.7, 1.1, 13.7])
def test_duplicates_and_a_cost_that_is_not_dyadic(C):
    X, y = rough(4000)
    model = SVC(C=C, gamma=0.2).fit(X, y)
    assert model.status_ is Status.CONVERGED
    K = by_hand.kernel_of(model, X)
    assert violation_of(model, K, y, C) <= model.tol * (1 + 1e-6)
    (pair,) = by_hand.pairs(model, y)
    primal, dual = by_hand.c_svc(K, pair.y, pair.beta, pair.bias, np.full(len(y), C))
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.dual == pytest.approx(dual, rel=1e-9)
    assert primal - dual <= 1e-3 * primal


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_different_solvers_solve(seed):
    """Each class keeps the weights that its own solver found."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs(900, 6, centers=5, cluster_std=6.0, random_state=seed)
    X = X * 10.0 ** rng.uniform(-3, 4, 6)
    model = LinearSVC(C=1e4, tol=1e-6).fit(X, y)
    for c, (proof, w, b) in enumerate(zip(model.certificates_, model.coef_, model.intercept_, strict=True)):
        f, t = X @ w + b, np.where(y == c, 1.0, -1.0)
        primal = 0.5 * w @ w + 1e4 * (np.maximum(0.0, 1.0 - t * f) ** 2).sum()
        assert proof.primal == pytest.approx(primal, rel=1e-8)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("solver", ["auto", "interior-point", "mpd", "smo", "sor"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_largest_feasible_nu(kernel, solver):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    order = np.argsort(X[:, 0] + 0.5 * rng.normal(size=400))
    y = np.zeros(400, int)
    y[order[280:]] = 1  # 70 : 30
    model = NuSVC(nu=0.6, kernel=kernel, solver=solver).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("loss, asked", [("hinge", 1.0), ("squared_hinge", 1.0), ("huber", 1.5)])
@pytest.mark.parametrize("machine", [LinearSVC(max_iter=-1), SVC(kernel="linear", expansion=10)], ids=["linear", "few"])
def test_a_hard_margin_is_an_objective(loss, asked, machine):
    """½‖w‖² is 1e-18 of the cost of f = 0 where C is 1e11, but no rounding: weights are as long as the margin asks."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = 1e3 * rng.normal(size=(10, 4))
        y = np.where(X[:, 0] > np.median(X[:, 0]), 1, -1)
        reference = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y).coef_[0]
        model = clone(machine).set_params(loss=loss, C=1e11).fit(X, y)
        w = model.coef_[0] if isinstance(model, LinearSVC) else model.dual_coef_[0] @ model.support_vectors_
        assert model.status_ is Status.CONVERGED
        np.testing.assert_allclose(np.linalg.norm(w), asked * np.linalg.norm(reference), rtol=1e-2)


def test_timestamps():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 60.0, 300))
    y = np.sin(t / 5.0) + 0.05 * rng.normal(size=300)
    near = SVR(C=10).fit(t[:, None], y)
    far = SVR(C=10).fit(t[:, None] + 1.7e9, y)
    assert far.status_ is Status.CONVERGED
    assert far.score(t[:, None] + 1.7e9, y) == pytest.approx(near.score(t[:, None], y), abs=1e-3)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("machine", [SVC(kernel="linear"), SVR(kernel="linear"), LinearSVC(), LinearSVR()], ids=repr)
@pytest.mark.parametrize("offset", [1e4, 1e6, 1e7])
@pytest.mark.parametrize("n", [500, 2500])
def test_a_feature_far_from_the_origin(n, offset, machine, sparse):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    y = X @ np.array([1.0, -1.0, 0.5, 0.2, 0.0]) + 0.2 * rng.normal(size=n)
    target = np.where(y > 0, 1, -1) if hasattr(machine, "decision_function") else y
    near = machine.set_params(C=100.0).fit(X, target).score(X, target)
    X[:, 0] += offset
    rows = sp.csr_matrix(X) if sparse else X
    far = machine.fit(rows, target)
    assert far.status_ is Status.CONVERGED
    assert far.certificate_.relative_gap < 1e-2
    assert far.score(rows, target) == pytest.approx(near, abs=0.02)
    again = rows @ np.ravel(far.coef_.toarray() if sp.issparse(far.coef_) else far.coef_) + far.intercept_[0]
    values = far.decision_function(rows) if hasattr(far, "decision_function") else far.predict(rows)
    np.testing.assert_allclose(again, values, atol=1e-6 * max(1.0, offset * 1e-6) * np.abs(values).max())


def test_a_negative_margin_turns_no_function_round():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    y[rng.permutation(200)[:90]] ^= 1
    with pytest.warns(UserWarning, match="no margin"):
        model = NuSVC(nu=0.05, kernel="linear").fit(X, y)
    assert model.score(X, y) >= 0.5
    assert (model.margin_ <= 1e-8).all()


@pytest.mark.parametrize("solver", ["auto", "mpd"])
@pytest.mark.parametrize("classes, fit_intercept", [(2, True), (3, True), (2, False)])
def test_whether_there_is_a_margin_does_not_depend_on_the_scale_of_the_kernel(classes, fit_intercept, solver):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=90), [0.0] if classes == 2 else [-0.5, 0.5])
    found = []
    for scale, weight in ((1.0, 1.0), (1e-4, 1e-3), (1e-7, 1e-3), (1e4, 1.0)):
        model = NuSVC(
            nu=0.4, kernel="linear", tol=1e-6 * min(1.0, scale**2), solver=solver, fit_intercept=fit_intercept
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(scale * X, y, sample_weight=np.full(90, weight))
        assert (model.margin_ > 0.0).all()
        found.append(model.decision_function(scale * X))
    for other in found[1:]:  # divided by the margin, whatever it is
        np.testing.assert_allclose(other, found[0], atol=0.02)
    without = (rng.uniform(size=90) < 0.5).astype(int)
    for scale in (1.0, 1e-7, 1e4):
        with pytest.warns(UserWarning, match="no margin"):
            NuSVC(nu=0.1, kernel="linear", tol=1e-9 * scale**2, solver=solver).fit(scale * X, without)


# -- what is said ---------------------------------------------------------------------------------------


def test_a_gap_of_nothing_hides_no_other():
    """Of several problems one may have no objective left, and a share of that is no reason to be silent of the rest."""
    model = SVC()
    nothing = Certificate(primal=1e-16, dual=0.0, gap=1e-16, violation=0.0, infeasibility=0.0, idle=4.0)
    loose = Certificate(primal=4e-5, dual=2e-5, gap=2e-5, violation=1e-5, infeasibility=0.0, idle=29.0)
    fine = Certificate(primal=2.0, dual=2.0, gap=1e-9, violation=1e-6, infeasibility=0.0, idle=5.0)
    several = [nothing, loose, fine]
    with pytest.warns(ConvergenceWarning, match="50 % above the best one"):
        model._announce(several, 3 * [Status.CONVERGED], 3 * ["mpd"], 3 * [History()], [], Monitor(), 0.0)
    assert model.certificate_ is loose


def test_a_tolerance_that_proves_little_is_told():
    X, y = noisy(400, seed=2)
    with pytest.warns(ConvergenceWarning, match=r"tol=5 is met.*proves little.*% above.*lower tol"):
        model = SVC(C=100.0, tol=5.0, solver=maxmargin.SMO(newton=False)).fit(X, y)
    assert model.status_ is Status.CONVERGED


@pytest.mark.parametrize("merging", [True, False])
def test_history_is_of_the_whole_problem(merging):
    X, y = rough(12000, d=8)
    seen = []
    model = SVC(C=0.7, gamma=0.2, callback=seen.append, solver=maxmargin.Decomposition(merging=merging)).fit(X, y)
    objective = model.history_.column("objective")
    assert (np.diff(objective) <= 1e-6 * np.abs(objective[-1])).all()
    assert objective[-1] == pytest.approx(-model.certificate_.dual, rel=1e-12)
    primal = model.history_.column("primal")
    assert primal[-1] == pytest.approx(model.certificate_.primal, rel=1e-12)
    best = model.certificate_.primal
    assert not any(-step["objective"] > best * (1 + 1e-9) for step in seen)  # NaN before the first step


# -- Ctrl-C ---------------------------------------------------------------------------------------------


def press(step):
    os.kill(os.getpid(), signal.SIGINT)


needs_sigint = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a process")


@needs_sigint
def test_ctrl_c_ends_a_search_and_leaves_the_model():
    X, y = noisy(1000)  # so many that there is more than one step
    fits = []

    class Counted(SVC):
        def fit(self, X, y, sample_weight=None):
            fits.append(self)
            return super().fit(X, y, sample_weight)

    search = GridSearchCV(Counted(callback=press, tol=1e-9), {"C": [1.0, 10.0, 100.0]}, cv=3)
    with pytest.warns(ConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert len(fits) == 1
    assert fits[0].status_ is Status.INTERRUPTED
    assert fits[0].predict(X).shape == y.shape


@needs_sigint
def test_ctrl_c_at_the_last_step_ends_what_called_the_fit():
    X, y = noisy(50)  # so few that all is done when the callback is asked
    model = SVC(callback=press)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ is Status.CONVERGED


@needs_sigint
def test_ctrl_c_can_be_kept():
    X, y = noisy(1000)
    with maxmargin.keep_interrupted(), pytest.warns(ConvergenceWarning, match="interrupted"):
        model = SVC(callback=press, tol=1e-9).fit(X, y)
    assert model.status_ is Status.INTERRUPTED


@needs_sigint
def test_an_ignored_interrupt_stays_ignored():
    X, y = noisy()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert SVC(callback=press).fit(X, y).status_ is Status.CONVERGED
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_callback_that_raises_among_many_pairs_is_heard_at_once():
    X, y = make_blobs(1500, 4, centers=10, cluster_std=8.0, random_state=0)
    calls = []

    def fail(step):
        calls.append(step)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        SVC(C=1e4, callback=fail, n_jobs=2).fit(X, y)
    assert len(calls) <= 4


def test_the_clock_does_not_count_compilation(monkeypatch):
    compiled = [0.0]
    monkeypatch.setattr("maxmargin.monitor.compiling_seconds", lambda: compiled[0])
    monitor = Monitor(time_limit=5.0)
    compiled[0] = 100.0
    assert monitor.stop_now() is None
    assert monitor.seconds < 0.0


def test_a_box_without_an_end_has_no_rounding_at_it():
    """A squared hinge with several classes and features so large that the leaf's weights are computed again."""
    rng = np.random.default_rng(0)
    X = 1e4 * rng.normal(size=(40, 2)) * [1.0, 3.0]
    y = np.arange(40) % 3
    model = SVC(kernel="linear", loss="squared_hinge", C=100.0).fit(X, y)
    for proof in model.certificates_:
        assert np.isfinite([proof.primal, proof.dual, proof.gap, proof.violation]).all()
        assert proof.relative_gap < 1e-3


@pytest.mark.parametrize("classes", [2, 4])
def test_coefficients_may_be_far_below_their_bounds(classes):
    """Features of 1e5 make coefficients of 1e-12 C, which are no rounding: they are all there is."""
    rng = np.random.default_rng(1)
    X = 3e5 * rng.normal(size=(60, 36))
    model = SVC(kernel="linear", C=0.4).fit(X, np.arange(60) % classes)
    assert model.status_ is Status.CONVERGED
    assert model.score(X, np.arange(60) % classes) == 1.0
    for proof in model.certificates_:
        assert proof.relative_gap < 0.1 and proof.infeasibility < 1e-8


@pytest.mark.parametrize("machine", [SVR, NuSVR])
@pytest.mark.parametrize("functions", [[], [lambda X: X[:, 0], lambda X: np.sin(X[:, 0])]], ids=["bias", "functions"])
def test_a_target_that_never_changes_leaves_nothing_to_gain(machine, functions):
    """All that coefficients are is rounding, and so are the constraints that they miss; 0 proves as much as they do."""
    X = np.random.default_rng(1).normal(size=(218, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = machine(C=1.44, gamma=4.24, tol=1e-10, parametric=functions or None).fit(X, np.full(218, 1.3))
    assert model.status_.converged
    np.testing.assert_allclose(model.predict(X), 1.3, rtol=1e-9 if machine is NuSVR else 0.1)


@pytest.mark.parametrize("n", [67, 1500, 4000])
@pytest.mark.parametrize("machine", [SVC, LinearSVC])
def test_classes_of_equal_cost_and_a_cost_so_small_that_all_are_at_their_bounds(machine, n):
    """Any bias between −1 and 1 is as good then; rounding of the sum must not make one of the two ends of it."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 5))
    y, weight = np.where(X[:, 0] > 0.7, 1, -1), 10.0 ** rng.uniform(-3, 3, n)
    model = machine(C=7e-9, loss="hinge", class_weight="balanced").fit(X, y, sample_weight=weight)
    assert model.status_ is Status.CONVERGED
    assert np.abs(model.decision_function(X)).max() < 0.1


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_many_small_problems_without_a_margin(seed):
    """A negative margin is published as none: a pair whose published form falls short of tol is solved once more."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 1))
    y = rng.choice(8, size=120, p=np.array([1, 5, 2, 6, 1, 8, 3, 4]) / 30)
    model = NuSVC(kernel="poly", gamma=0.2, coef0=0.3, nu=0.01, tol=1e-3).fit(X, y)
    assert model.status_.converged
    assert max(found.violation for found in model.certificates_) <= 1e-3


@pytest.mark.parametrize("solver", ["auto", "smo", "interior-point"])
def test_a_sample_at_the_origin_has_no_part_in_what_others_are_rounded_by(solver):
    """Without a bias it adds nothing to f, and its coefficient is its cost, here 1e15 times those of the others."""
    rng = np.random.default_rng(0)
    X = 1e4 * rng.normal(size=(20, 2))
    X[0] = 0.0
    y, weight = np.where(X[:, 0] > 0.0, 1, -1), np.append(10.0, np.ones(19))
    machine = SVC(kernel="linear", C=1e7, fit_intercept=False, solver=solver)
    heavy, light = clone(machine).fit(X, y, weight), clone(machine).fit(X[1:], y[1:])
    assert heavy.status_ is Status.CONVERGED
    np.testing.assert_allclose(heavy.coef_, light.coef_, rtol=1e-2)
