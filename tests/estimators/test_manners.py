"""How the estimators behave: limits, callbacks, Ctrl-C, silence, repeatability, and life among scikit-learn's tools."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from estimators.samples import samples
from maxmargin import (
    PSVC,
    PSVR,
    SVC,
    SVDD,
    SVR,
    Decomposition,
    History,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Status,
)

MACHINES = {
    "svc": SVC(),
    "nu-svc": NuSVC(nu=0.3),
    "svr": SVR(),
    "nu-svr": NuSVR(),
    "one-class": OneClassSVM(nu=0.2),
    "svdd": SVDD(nu=0.2),
}
each_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def endless(n: int = 400, classes: int = 2):
    """A machine and data on which pair steps go on for very long: labels without a pattern, next to no slack."""
    rng = np.random.default_rng(0)
    return SVC(kernel="linear", C=1e9, solver="smo"), rng.normal(size=(n, 3)), rng.integers(0, classes, n)


def values(model, X) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def same_bits(one, other) -> bool:
    """Whether two fitted models are the same to the last bit."""
    names = ("support_", "dual_coef_", "intercept_", "n_support_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


# -- fits that fail -------------------------------------------------------------------------------------

REFITTED = {
    **MACHINES,
    "linear kernel": SVC(kernel="linear"),
    "linear-svc": LinearSVC(),
    "l1": LinearSVC(penalty="l1"),
    "crammer-singer": LinearSVC(multi_class="crammer_singer"),
    "linear-svr": LinearSVR(),
    "linear-one-class": LinearOneClassSVM(),
    "psvc": PSVC(),
    "psvr": PSVR(),
}


@pytest.mark.parametrize("machine", REFITTED.values(), ids=REFITTED)
def test_a_fit_that_fails_leaves_the_machine_as_it_was(machine):
    """Other classes, features and kernel values than the coefficients know would be read by compiled code."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = clone(machine).fit(X, y)
    found, attributes = values(model, X), set(vars(model))

    def fail(info):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        model.set_params(callback=fail).fit(rng.normal(size=(40, 7)), np.arange(40) % 5)
    assert set(vars(model)) == attributes and model.n_features_in_ == 3
    np.testing.assert_array_equal(values(model, X), found)


def test_a_first_fit_that_fails_leaves_nothing():
    def fail(info):
        raise ArithmeticError

    model, X, y = endless()
    with pytest.raises(ArithmeticError):
        model.set_params(callback=fail).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_warning_that_is_an_error_leaves_the_model_that_it_is_about():
    model, X, y = endless()
    with warnings.catch_warnings(), pytest.raises(ConvergenceWarning):
        warnings.simplefilter("error")
        model.set_params(max_iter=2).fit(X, y)
    assert model.status_ is Status.MAX_ITERATIONS and len(model.predict(X)) == len(X)


# -- limits ---------------------------------------------------------------------------------------------


def test_a_time_limit_leaves_a_model_and_says_how_good_it_is():
    model, X, y = endless()
    model.set_params(time_limit=0.2).fit(X[:20], y[:20])  # compile what there is to compile
    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, y)
    assert time.perf_counter() - started < 10
    assert model.status_ is Status.TIME_LIMIT
    assert model.fit_status_ == 1
    assert np.isfinite(model.certificate_.gap)
    assert model.certificate_.gap > 0
    assert model.certificate_.violation > model.tol
    assert set(model.predict(X)) <= {0, 1}
    message = str(told[0].message)
    share = f"{100 * model.certificate_.relative_gap:.3g} % of the objective"
    for part in ("SVC", "time limit", "time_limit", share, f"tol {model.tol:g}"):
        assert part in message
    assert ("can be used" in message) is (model.certificate_.relative_gap < 0.5)


def test_a_time_limit_is_for_the_whole_fit():
    model, X, y = endless(n=600, classes=6)
    model.set_params(time_limit=0.3)
    started = time.perf_counter()
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert time.perf_counter() - started < 10  # not 15 times the limit and more
    assert len(model.certificates_) == 15
    assert all(np.isfinite(c.gap) for c in model.certificates_)
    assert model.decision_function(X).shape == (600, 6)


@each_machine
def test_a_time_limit_that_suffices_changes_nothing(machine):
    s = samples("noisy")
    limited = clone(machine).set_params(time_limit=300.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        limited.fit(s.X, s.y)
    assert limited.status_ is Status.CONVERGED
    assert same_bits(limited, clone(machine).fit(s.X, s.y))


@pytest.mark.parametrize("bad", [0, -1.0, float("nan")])
def test_a_time_limit_must_be_positive(bad):
    s = samples("iris")
    with pytest.raises(ValueError, match=r"time_limit was asked for; found time_limit=.+; give seconds > 0"):
        SVC(time_limit=bad).fit(s.X, s.y)


@each_machine
@pytest.mark.parametrize("max_iter", [1, 7])
def test_an_iteration_limit_leaves_a_model_and_says_how_good_it_is(machine, max_iter):
    s = samples("noisy")
    model = clone(machine).set_params(max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=r"iteration limit.*max_iter.*[Gg]ap .*tol 0\.001"):
        model.fit(s.X, s.y)
    assert model.status_ is Status.MAX_ITERATIONS
    assert model.fit_status_ == 1
    assert np.all(np.asarray(model.n_iter_) <= max_iter)
    assert np.isfinite(values(model, s.X_test)).all()
    assert model.certificate_.violation > model.tol


def test_more_iterations_are_better():
    s = samples("noisy")
    duals = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for max_iter in (5, 50, 500, -1):
            duals.append(SVC(C=10.0, max_iter=max_iter).fit(s.X, s.y).certificate_.dual)
    assert duals == sorted(duals)
    assert duals[0] < duals[-1]


def test_a_fit_that_converged_says_nothing():
    s = samples("noisy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SVC().fit(s.X, s.y)
    assert model.status_ is Status.CONVERGED


# -- callbacks ------------------------------------------------------------------------------------------


@each_machine
def test_a_callback_sees_progress(machine, monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", np.inf)  # once a step
    s = samples("noisy")
    seen = []
    model = clone(machine).set_params(callback=seen.append).fit(s.X, s.y)  # append returns None: go on
    assert model.status_ is Status.CONVERGED
    assert len(seen) >= 1
    for info in seen:
        assert isinstance(info, dict)
        assert set(info) >= set(History.columns)
        assert info["seconds"] >= 0
        assert np.isfinite(info["objective"])
    rows = model.history_.rows if isinstance(model.history_, History) else [r for h in model.history_ for r in h.rows]
    assert len(rows) == len(seen)
    assert seen[-1]["violation"] < model.tol


def test_a_callback_can_stop_the_fit():
    model, X, y = endless()
    calls = []

    def stop_at_the_third(info):
        calls.append(info["iteration"])
        return len(calls) == 3

    with pytest.warns(ConvergenceWarning, match="callback"):
        model.set_params(callback=stop_at_the_third).fit(X, y)
    assert len(calls) == 3
    assert model.status_ is Status.CALLBACK
    assert model.predict(X).shape == (len(X),)


def test_a_callback_that_stops_stops_all_pairs():
    model, X, y = endless(classes=3)
    calls = []
    with pytest.warns(ConvergenceWarning):
        model.set_params(callback=lambda info: bool(calls.append(info)) or len(calls) == 2).fit(X, y)
    assert len(calls) == 2
    assert len(model.certificates_) == 3
    assert set(model.predict(X)) <= {0, 1, 2}


def test_a_callback_gets_a_function_only_from_machines_that_have_one():
    """Linear machines have no values on the way, and do not offer what would raise when it is asked for."""
    s = samples("noisy")
    offered = {}
    for machine in (SVC(loss="squared_hinge", solver="pcg"), LinearSVC(solver="pcg")):
        told = []
        machine.set_params(callback=told.append).fit(s.X, s.y)
        offered[type(machine).__name__] = {"model" in step for step in told}
    assert offered == {"SVC": {True}, "LinearSVC": {False}}


def test_an_error_in_a_callback_is_not_swallowed():
    s = samples("iris")
    before = signal.getsignal(signal.SIGINT)

    def broken(info):
        raise ZeroDivisionError("broken")

    for n_jobs in (1, 2):
        with pytest.raises(ZeroDivisionError, match="broken"):
            SVC(callback=broken, n_jobs=n_jobs).fit(s.X, s.y)
    assert signal.getsignal(signal.SIGINT) is before


# -- Ctrl-C ---------------------------------------------------------------------------------------------


def press_ctrl_c(info):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a process")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_leaves_a_model(classes, n_jobs):
    model, X, y = endless(classes=classes)
    before = signal.getsignal(signal.SIGINT)
    calls = []

    def press_once(info):
        calls.append(info)
        if len(calls) == 2:
            press_ctrl_c(info)

    with pytest.warns(ConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.set_params(callback=press_once, n_jobs=n_jobs).fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert set(model.predict(X)) <= set(range(classes))
    assert np.isfinite(model.certificate_.gap)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a process")
def test_ctrl_c_twice_is_a_keyboard_interrupt():
    model, X, y = endless()
    before = signal.getsignal(signal.SIGINT)

    def press_twice(info):
        press_ctrl_c(info)
        time.sleep(0.01)
        press_ctrl_c(info)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=press_twice).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is before


INTERRUPTED_CHILD = textwrap.dedent(
    """
    import sys, warnings
    import numpy as np
    from maxmargin import SVC

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    SVC(kernel="linear").fit(X, y)  # compile what there is to compile

    def tell(info, told=[]):
        if not told:
            told.append(True)
            print("started", flush=True)

    model = SVC(kernel="linear", C=1e9, time_limit=60.0, callback=tell)
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        print("raised", flush=True)
    print(model.status_.name, flush=True)
    print(len(model.predict(X)), flush=True)
    print(np.isfinite(model.certificate_.gap), flush=True)
    """
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a process")
def test_ctrl_c_from_a_terminal_leaves_a_model():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED_CHILD], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline().strip() == "started"
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=50)
        finally:
            child.kill()
    assert out.split() == ["raised", "INTERRUPTED", "400", "True"]
    assert child.returncode == 0


def test_a_fit_outside_the_main_thread_leaves_signals_alone():
    s = samples("iris")
    done = []
    thread = threading.Thread(target=lambda: done.append(SVC().fit(s.X, s.y)))
    thread.start()
    thread.join(60)
    assert same_bits(done[0], SVC().fit(s.X, s.y))


# -- silence --------------------------------------------------------------------------------------------


@each_machine
def test_nothing_is_printed_unless_asked(machine, capfd):
    s = samples("noisy")
    clone(machine).fit(s.X, s.y)  # compiling may say so
    capfd.readouterr()
    values(clone(machine).fit(s.X, s.y), s.X_test)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_is_shown_on_stderr_when_asked(capfd, n_jobs):
    s = samples("wine")
    SVC(verbose=True, n_jobs=n_jobs).fit(s.X, s.y)
    out, err = capfd.readouterr()
    assert out == ""
    for word in ("objective", "violation", "step"):
        assert word in err


# -- warm starts ----------------------------------------------------------------------------------------


@each_machine
def test_a_warm_start_takes_fewer_steps(machine):
    s = samples("noisy")
    warm = clone(machine).set_params(warm_start=True).fit(s.X, s.y)
    first, cold = np.sum(warm.n_iter_), values(warm, s.X_test)
    warm.fit(s.X, s.y)
    assert np.sum(warm.n_iter_) < 0.2 * first
    np.testing.assert_allclose(values(warm, s.X_test), cold, rtol=1e-5, atol=1e-5)


def test_a_warm_start_along_c_finds_the_same_optimum_in_fewer_steps():
    s = samples("noisy")
    warm = SVC(warm_start=True, C=1.0).fit(s.X, s.y)
    for C in (1.2, 0.9, 5.0):
        warm.set_params(C=C).fit(s.X, s.y)
        cold = SVC(C=C).fit(s.X, s.y)
        np.testing.assert_allclose(warm.certificate_.dual, cold.certificate_.dual, rtol=1e-6)
        if C < 2.0:
            assert warm.n_iter_[0] < cold.n_iter_[0]


def test_a_warm_start_on_other_samples_starts_anew():
    s = samples("noisy")
    warm = SVC(warm_start=True).fit(s.X, s.y)
    warm.fit(s.X[:100], s.y[:100])
    assert same_bits(warm, SVC().fit(s.X[:100], s.y[:100]))


def test_a_warm_start_with_other_labels_or_classes_finds_the_optimum():
    s, t = samples("noisy"), samples("wine")
    warm = SVC(warm_start=True).fit(s.X, s.y)
    warm.fit(s.X, 1 - s.y)
    np.testing.assert_allclose(warm.certificate_.dual, SVC().fit(s.X, 1 - s.y).certificate_.dual, rtol=1e-6)
    warm.fit(t.X, t.y)
    warm.fit(t.X, (t.y + 1) % 3)
    for a, b in zip(warm.certificates_, SVC().fit(t.X, (t.y + 1) % 3).certificates_, strict=True):
        np.testing.assert_allclose(a.dual, b.dual, rtol=1e-6)


def test_an_interrupted_fit_is_resumed_by_a_warm_start():
    s = samples("noisy")
    model = SVC(C=10.0, warm_start=True, max_iter=200)
    with pytest.warns(ConvergenceWarning):
        model.fit(s.X, s.y)
    gap = model.certificate_.gap
    model.set_params(max_iter=-1).fit(s.X, s.y)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.gap < gap
    assert model.n_iter_[0] < SVC(C=10.0).fit(s.X, s.y).n_iter_[0]


# -- the same every time --------------------------------------------------------------------------------


@each_machine
def test_a_second_fit_is_the_same_to_the_last_bit(machine):
    s = samples("noisy")
    model = clone(machine).fit(s.X, s.y)
    first, before = pickle.loads(pickle.dumps(model)), values(model, s.X_test)
    assert same_bits(first, model.fit(s.X, s.y))
    np.testing.assert_array_equal(values(model, s.X_test), before)
    assert same_bits(first, clone(machine).fit(s.X, s.y))


@each_machine
def test_the_order_of_the_samples_does_not_matter(machine):
    s = samples("noisy")
    order = np.random.default_rng(3).permutation(s.n)
    plain, mixed = clone(machine).fit(s.X, s.y), clone(machine).fit(s.X[order], s.y[order])
    np.testing.assert_allclose(values(mixed, s.X_test), values(plain, s.X_test), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mixed.certificate_.dual, plain.certificate_.dual, rtol=1e-9)
    np.testing.assert_array_equal(np.sort(order[mixed.support_]), np.sort(plain.support_))


@pytest.mark.parametrize("data", ["noisy", "digits"])
def test_the_number_of_threads_does_not_matter(data):
    s = samples(data)
    one, two = (SVC(n_jobs=n).fit(s.X, s.y) for n in (1, 2))
    assert same_bits(one, two)
    np.testing.assert_array_equal(values(one, s.X_test), values(two, s.X_test))
    assert same_bits(one, SVC(n_jobs=-1).fit(s.X, s.y))


def test_no_threads_are_an_error():
    s = samples("iris")
    with pytest.raises(ValueError, match=r"n_jobs=0 was asked for"):
        SVC(n_jobs=0).fit(s.X, s.y)


def test_threads_of_the_user_may_fit_side_by_side():
    s = samples("digits")
    alone = SVC().fit(s.X, s.y)
    together = joblib.Parallel(n_jobs=4, backend="threading")(joblib.delayed(SVC().fit)(s.X, s.y) for _ in range(4))
    assert all(same_bits(alone, model) for model in together)


# -- solvers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "decomposition", "chunking"])
@each_machine
def test_solvers_by_name(machine, solver):
    s = samples("noisy")
    model = clone(machine).set_params(solver=solver, tol=1e-4).fit(s.X, s.y)
    assert model.solver_ == solver
    assert model.status_ is Status.CONVERGED
    best = clone(machine).set_params(tol=1e-6).fit(s.X, s.y)
    np.testing.assert_allclose(model.certificate_.dual, best.certificate_.dual, rtol=1e-5)


def test_every_solver_of_the_registry_solves_or_says_who_can():
    s = samples("noisy")
    best = SVC().fit(s.X, s.y).certificate_.dual
    for name in maxmargin.SOLVERS:
        try:
            model = SVC(solver=name).fit(s.X, s.y)
        except (TypeError, ValueError) as error:
            assert any(other in str(error) for other in maxmargin.SOLVERS if other != name)
        else:
            assert model.solver_ == name
            assert model.certificate_.dual == pytest.approx(best, rel=1e-3)


def test_a_solver_by_instance():
    s = samples("noisy")
    solver = Decomposition(working_set=16, newton=False)
    model = SVC(solver=solver, tol=1e-5).fit(s.X, s.y)
    assert model.solver_ == "Decomposition"
    assert model.certificate_.violation <= 1e-5
    assert model.solver is solver
    np.testing.assert_allclose(model.certificate_.dual, SVC(tol=1e-5).fit(s.X, s.y).certificate_.dual, rtol=1e-6)


def test_auto_says_what_it_took():
    s = samples("iris")
    assert SVC().fit(s.X, s.y).solver_ in maxmargin.SOLVERS


@pytest.mark.parametrize("solver", ["magic", 3, None, Decomposition], ids=str)
def test_an_unknown_solver_is_an_error(solver):
    s = samples("iris")
    with pytest.raises(ValueError, match=r"solver was asked for; found solver=.+; .*\bsolver\b"):
        SVC(solver=solver).fit(s.X, s.y)


# -- the cache ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "decomposition"])
@pytest.mark.parametrize("cache_size", [1e-3, 0.3, 1, 200, 200.0, np.float32(50), "auto"])
def test_any_size_of_the_cache_finds_the_optimum(cache_size, solver):
    s = samples("noisy")
    model = SVC(cache_size=cache_size, solver=solver).fit(s.X, s.y)
    np.testing.assert_allclose(model.certificate_.dual, SVC().fit(s.X, s.y).certificate_.dual, rtol=1e-6)


@pytest.mark.parametrize("bad", [0, -1, "lots", float("nan"), None, float("inf")], ids=str)
def test_a_cache_of_no_size_is_an_error(bad):
    s = samples("iris")
    with pytest.raises(ValueError, match=r'found cache_size=.*; give megabytes > 0 or "auto"'):
        SVC(cache_size=bad).fit(s.X, s.y)


# -- parameters -----------------------------------------------------------------------------------------


@each_machine
def test_parameters_are_kept_as_given(machine):
    params = machine.get_params()
    assert params["tol"] == 1e-3
    model = clone(machine).set_params(gamma=0.25, tol=1e-2)
    s = samples("noisy")
    model.fit(s.X, s.y)
    after = model.get_params()
    assert after == {**params, "gamma": 0.25, "tol": 1e-2}
    with pytest.raises(ValueError, match="Invalid parameter 'gama'"):
        model.set_params(gama=1.0)
    with pytest.raises(TypeError, match="gama"):
        type(machine)(gama=1.0)


@each_machine
def test_a_clone_is_not_fitted(machine):
    s = samples("noisy")
    model = clone(machine).fit(s.X, s.y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(s.X)
    assert same_bits(copy.fit(s.X, s.y), model)


@each_machine
def test_fitted_models_survive_pickle_and_joblib(machine, tmp_path):
    s = samples("noisy")
    model = clone(machine).fit(s.X, s.y)
    joblib.dump(model, tmp_path / "model")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")):
        np.testing.assert_array_equal(values(copy, s.X_test), values(model, s.X_test))
        assert copy.certificate_ == model.certificate_
        assert copy.status_ is model.status_
        assert len(copy.history_) == len(model.history_)
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(values(mapped, s.X_test), values(model, s.X_test))


def test_a_model_holds_no_more_than_its_support_vectors():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(400, 50)) - 3, rng.normal(size=(400, 50)) + 3]
    y = np.repeat([0, 1], 400)
    model = SVC(kernel="linear", C=0.1).fit(X, y)
    assert len(model.support_) < 80
    assert len(pickle.dumps(model)) < 0.2 * X.nbytes


# -- life among scikit-learn's tools --------------------------------------------------------------------


def test_grid_search():
    s = samples("iris")
    grid = {"C": [0.01, 1.0, 10.0], "gamma": ["scale", 0.1], "kernel": ["rbf", "linear"]}
    search = GridSearchCV(SVC(), grid, cv=3).fit(s.X, s.y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.status_ is Status.CONVERGED
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_search_in_processes():
    s = samples("iris")
    alone, many = (GridSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=2, n_jobs=n).fit(s.X, s.y) for n in (1, 2))
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], many.cv_results_["mean_test_score"])


def test_grid_search_splits_a_precomputed_kernel_both_ways():
    s = samples("cancer")
    by_matrix = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(rbf_kernel(s.X, gamma=0.02), s.y)
    by_name = GridSearchCV(SVC(gamma=0.02), {"C": [0.1, 1.0]}, cv=3).fit(s.X, s.y)
    np.testing.assert_array_equal(by_matrix.cv_results_["mean_test_score"], by_name.cv_results_["mean_test_score"])


def test_pipelines_and_cross_validation():
    s = samples("wine")
    pipeline = make_pipeline(StandardScaler(), SVC())
    assert cross_val_score(pipeline, s.X, s.y, cv=3).mean() > 0.9
    pipeline.set_params(svc__C=3.0).fit(s.X, s.y, svc__sample_weight=np.ones(s.n))
    assert pipeline.score(s.X_test, s.y_test) > 0.9
    t = samples("curve")
    assert cross_val_score(make_pipeline(StandardScaler(), SVR(C=10.0)), t.X, t.y, cv=3).mean() > 0.8
    assert cross_val_score(make_pipeline(StandardScaler(), NuSVR(C=10.0)), t.X, t.y, cv=3).mean() > 0.8


def test_calibration_and_one_against_rest():
    s = samples("iris")
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False).fit(s.X, s.y)
    chances = calibrated.predict_proba(s.X_test)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.mean(chances.argmax(axis=1) == s.y_test) > 0.85
    assert OneVsRestClassifier(SVC()).fit(s.X, s.y).score(s.X_test, s.y_test) > 0.85


def test_cross_val_predict_of_decisions():
    s = samples("wine")
    decisions = cross_val_predict(SVC(), s.X, s.y, cv=3, method="decision_function")
    assert decisions.shape == (s.n, 3)


@each_machine
def test_data_frames_give_feature_names(machine):
    s = samples("noisy")
    names = [f"f{i}" for i in range(s.X.shape[1])]
    frame = pd.DataFrame(s.X, columns=names)
    model, plain = clone(machine).fit(frame, pd.Series(s.y)), clone(machine).fit(s.X, s.y)
    assert model.feature_names_in_.tolist() == names
    assert model.n_features_in_ == len(names)
    assert not hasattr(plain, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(values(model, frame), values(plain, s.X), rtol=1e-7, atol=1e-7)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"f0": "other"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(s.X)


def test_data_frames_of_any_index_and_string_labels():
    s = samples("iris")
    frame = pd.DataFrame(s.X, index=np.arange(s.n)[::-1] * 3)
    labels = pd.Series(np.array(["a", "b", "c"])[s.y], index=frame.index, dtype="category")
    weight = pd.Series(np.ones(s.n), index=frame.index)
    model = SVC().fit(frame, labels, sample_weight=weight)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(frame, labels) > 0.9


def test_the_representation_names_what_is_not_default():
    assert repr(SVC(C=3, solver="smo")) == "SVC(C=3, solver='smo')"
