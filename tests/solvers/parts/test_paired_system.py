"""The equations of two variables a point against those of the matrix written out."""

import numpy as np
import pytest

from maxmargin.formulations import NuSVR, Samples
from maxmargin.goal import Goal
from maxmargin.gram import Kernel, KernelGram, PrecomputedGram, Signed, Tiled
from maxmargin.problem import QP
from maxmargin.solvers import InteriorPoint
from maxmargin.solvers.parts.newton_systems import Dense
from maxmargin.solvers.parts.paired_system import Paired

rng = np.random.default_rng(0)
N = 12
X = rng.normal(size=(N, 3))
SIGNS = rng.choice([-1.0, 1.0], 2 * N)
TILED = Tiled(KernelGram(Kernel("rbf", 0.5), X, 1))
VIEWS = {
    "tiled": TILED,
    "signed": Signed(TILED, SIGNS),
    "neighbours": Signed(Tiled(TILED.inner, np.repeat(np.arange(N), 2)), SIGNS),
    "some alone": TILED.take(np.r_[0:N, N + 1, N + 5]),
}


class Crew:
    def __init__(self, theta):
        self.theta = theta

    def collect(self, name, axis=-1):
        return self.theta if name == "theta" else np.ones((len(self.theta), 2))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("spread", [0.0, 3.0, 8.0])
def test_steps_are_those_of_the_matrix_written_out(name, spread):
    rng = np.random.default_rng(1)
    gram, pairs = VIEWS[name], VIEWS[name].wide().pairs()
    H = gram.wide().dense()
    A = np.vstack([np.ones(gram.n), np.where(np.arange(gram.n) % 3 == 0, -1.0, 1.0)])
    theta = 10.0 ** rng.uniform(-spread, spread, gram.n)
    theta[3] = 0.0
    theta[pairs.other[3]] = 0.0  # a point without weight
    systems = Dense(H, A, 1), Paired(pairs, pairs.K.dense(), A, 1)
    r = theta * rng.normal(size=gram.n)
    r = np.concatenate([r, A @ r + rng.normal(size=2)])
    one, two = (s.prepare(Crew(theta)) is None or s.solve(r) for s in systems)
    np.testing.assert_allclose(two, one, rtol=1e-7, atol=1e-9 * np.abs(one).max())
    v = rng.normal(size=gram.n)
    np.testing.assert_allclose(systems[1].product(v), H @ v, atol=1e-12)


def test_a_constraint_whose_variables_are_fixed_keeps_its_multiplier():
    """Nothing answers to it: what is left of a sum by rounding is no reason to move it."""
    A, theta = np.vstack([np.arange(N) < 3, np.arange(N) >= 3]).astype(float), np.ones(N)
    theta[:3] = 0.0
    system = Dense(TILED.inner.wide().dense(), A, 1)
    system.prepare(Crew(theta))
    x = system.solve(np.concatenate([theta, A @ theta + 1e-15]))
    assert abs(x[N]) < 1e-12 and np.isfinite(x).all() and x[3:N].any()


def test_a_part_knows_which_variables_are_alone():
    pairs = TILED.take(np.array([3, 3 + N, 5])).pairs()
    assert pairs.K.n == 2
    np.testing.assert_array_equal(pairs.other, [1, 0, 2])


@pytest.mark.parametrize("gram", [TILED.inner, Tiled(TILED.inner, np.zeros(3, int)), PrecomputedGram(np.eye(3))])
def test_no_pairs(gram):
    assert gram.pairs() is None and gram.n_points == gram.n


@pytest.mark.parametrize("intercept", [True, False])
def test_the_interior_method_forms_a_row_a_point(intercept, monkeypatch):
    sizes = []
    factored = Paired._factored
    monkeypatch.setattr(Paired, "_factored", lambda self: sizes.append(len(self.H)) or factored(self))
    y = np.sin(X[:, 0]) + X[:, 1]
    qp = NuSVR(nu=0.4, C=10.0, fit_intercept=intercept).qp(Samples(TILED.inner, y, np.ones(N)))
    goal = Goal(violation=1e-8)
    found = InteriorPoint().solve(qp, goal)
    whole = InteriorPoint().solve(QP(qp.H.wide().dense(), qp.p, qp.lower, qp.upper, qp.A, qp.b), goal)
    assert sizes and set(sizes) == {N}
    assert found.status.converged and whole.status.converged
    assert found.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-9)
