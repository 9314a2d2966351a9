"""Whatever solvers ask of rows can travel: states, questions and answers through pickle change no bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.formulations import CSVC, EpsilonSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Factored
from maxmargin.monitor import Monitor, Stopped
from maxmargin.rows import Rows, Stored, ThreadCrew, base
from maxmargin.solution import Status
from maxmargin.solvers import SOR, InteriorPoint, Newton
from maxmargin.solvers.parts import few_rows


def sent(thing):
    """What arrives elsewhere."""
    return pickle.loads(pickle.dumps(thing))


class Remote:
    """A state of which only copies are seen."""

    def __init__(self, state, asked):
        self._state, self._asked = state, asked

    def __getattr__(self, name):
        self._asked.add(name)
        found = getattr(self._state, sent(name))
        return (lambda *args: sent(found(*sent(args)))) if callable(found) else sent(found)


class Travelling(ThreadCrew):
    """As threads serve it, with states that share no memory with who asks. Blocks are made where the states are."""

    asked: set[str] = set()

    def __init__(self, blocks, threads, state=None, per_row=(), common=(), look=None):
        def remote(block, *args):
            return Remote(block if state is None else sent(state)(block, *sent(args)), self.asked)

        super().__init__(blocks, threads, remote, per_row, common, look)


def kinds(X, folder):
    np.save(folder / "X.npy", X)
    return {"dense": X, "sparse": sp.csr_array(X), "stored": np.load(folder / "X.npy", mmap_mode="r")}


HINGE, SVR, SQUARED = CSVC(C=0.7), EpsilonSVR(C=0.7, epsilon=0.2), CSVC(C=0.7, loss="squared_hinge")
STEP = {"weigh", "sums", "predict", "correct", "advance", "beta"}
ALONE = InteriorPoint(screening=False)
# solver, machine, rows, and what is asked among other things
CASES = {
    "interior": (ALONE, HINGE, 300, STEP | {"enclose", "normal", "aim", "slack"}),
    "interior, two parts a row": (ALONE, SVR, 300, STEP | {"enclose", "normal", "aim"}),
    "interior, one leaf": (ALONE, SVR, 300, {"enclose", "steps", "beta"}),
    "interior on a matrix": (InteriorPoint(system="dense"), HINGE, 90, STEP | {"receive", "theta", "pair"}),
    "interior by rows": (InteriorPoint(system="lsmr-rows"), SVR, 90, STEP | {"receive", "theta", "pair", "t_dot"}),
    "interior by features": (InteriorPoint(system="lsmr"), HINGE, 90, STEP | {"theta", "pull", "t_squares"}),
    "interior, sparse equations": (InteriorPoint(system="quasi"), HINGE, 90, STEP | {"theta", "pull"}),
    "screening": (InteriorPoint(), HINGE, 2400, STEP | {"look", "respond", "choose", "slopes", "move"}),
    "newton": (Newton(), SQUARED, 300, {"normal", "t_dot", "dot"}),
    "newton by products": (Newton(explicit=0), SQUARED, 300, {"product", "diagonal"}),
    "newton from sweeps": (Newton(explicit=0), SQUARED, 4100, {"product", "squared_norms"}),
    "newton from a sample": (Newton(), SQUARED, 4100, {"normal", "dot"}),
    "sor": (SOR(), HINGE, 300, {"squared_norms", "dot"}),
}


def problem(machine, X):
    values = np.asarray(X.toarray() if sp.issparse(X) else X)
    rng = np.random.default_rng(1)
    f = values @ rng.normal(size=values.shape[1]) + 0.5 * rng.normal(size=len(values)) + 0.3
    targets = np.sign(f) if isinstance(machine, CSVC) else f
    return machine.qp(Samples(Factored(Rows.of(X, 2)), targets, rng.choice([0.5, 1.0, 2.0], len(values))))


def features(n, d=6):
    rng = np.random.default_rng(0)
    return np.where(rng.random((n, d)) < 0.7, rng.normal(size=(n, d)), 0.0)


def bits(solution):
    found = solution.certificate
    numbers = [found.primal, found.dual, found.gap, found.violation, solution.n_iter]
    return [v.tobytes() for v in (solution.beta, solution.multipliers, solution.w, np.array(numbers))]


@pytest.mark.parametrize("kind", ["dense", "sparse", "stored"])
@pytest.mark.parametrize("name", CASES)
def test_states_questions_and_answers_travel(name, kind, tmp_path, monkeypatch):
    solver, machine, n, questions = CASES[name]
    monkeypatch.setattr(base, "LEAST_WORK", 100)
    if "steps" not in questions or kind == "stored":  # else one leaf makes all steps over few rows, which asks little
        monkeypatch.setattr(few_rows, "SMALL_DENSE", 0)
    X = kinds(features(n), tmp_path)[kind]
    goal = Goal(gap=1e-6)
    here = problem(machine, X)
    assert len(here.H.factor().rows.blocks) > 1
    expected = solver.solve(here, goal)
    assert expected.status is Status.CONVERGED
    monkeypatch.setattr(Travelling, "asked", set())
    monkeypatch.setattr(Rows, "served_by", Travelling)
    found = solver.solve(problem(machine, X), goal)
    assert bits(found) == bits(expected)
    assert questions - ({"steps"} if kind == "stored" else set()) <= Travelling.asked


def test_a_question_that_cannot_travel_is_noticed():
    """The double sees what would not arrive: this is what the test above is worth."""
    crew = Travelling([*Rows.of(features(20), 1).blocks], 1)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        crew.ask("dot", lambda: None)


def test_what_was_collected_does_not_change_later():
    rows, v = Rows.of(features(300), 2), np.arange(300.0)

    class Counter:
        def __init__(self, block, v):
            self.v = v.copy()

        def count(self, more):
            self.v += more

    crew = rows.crew(Counter, (v,))
    before = crew.collect("v")
    crew.scatter("count", (np.ones(300),))
    np.testing.assert_array_equal(before, v)
    np.testing.assert_array_equal(crew.collect("v"), v + 1.0)


@pytest.mark.parametrize("stop", [1, 3, 40])
def test_the_clock_is_the_crews(stop):
    """States read X by tiles, and the crew looks before each; what it raises ends the question."""
    X, looks = features(4000, 8), []

    def look():
        looks.append(1)
        if len(looks) == stop:
            raise Stopped(Status.TIME_LIMIT)

    rows = Rows([Stored(lambda a, b: X[a:b], len(X), 8, tile=100)], 1)

    class Sums:
        def __init__(self, block):
            self.block = block

        def total(self):
            return sum(float(tile.dot(np.ones(8)).sum()) for _, _, tile in self.block.tiles())

    crew = rows.crew(Sums, look=look)
    with pytest.raises(Stopped):
        crew.ask("total")
    assert len(looks) == stop
    assert crew.sum("total") == pytest.approx(X.sum())
    assert len(looks) == stop + 40


def test_a_pass_over_many_rows_ends_in_time(monkeypatch):
    """The interior method under a clock that stops it in the middle of a pass."""
    X = features(4000, 8)
    y = np.sign(X[:, 0] + 0.1)
    rows = Rows([Stored(lambda a, b: X[a:b], len(X), 8, tile=100)], 1)
    watch = Monitor(time_limit=1e9)
    looks = []

    def stop_now():
        looks.append(1)
        return Status.TIME_LIMIT if len(looks) > 60 else None

    monkeypatch.setattr(watch, "stop_now", stop_now)
    qp = CSVC(C=1.0).qp(Samples(Factored(rows), y, np.ones(4000)))
    solution = ALONE.solve(qp, Goal(gap=1e-9), monitor=watch)
    assert solution.status is Status.TIME_LIMIT
    assert len(looks) < 60 + 10  # no further pass, of forty tiles each, was begun
    assert solution.certificate.infeasibility < 1e-9
