"""The compiled leaves by themselves: what they read, what they leave alone, and steps that can be checked by hand."""

import numpy as np
import pytest

from maxmargin.solvers.parts.fixed_sums import BIG, offsets
from maxmargin.solvers.parts.pair_steps import (
    Variables,
    gather,
    pair_steps,
    single_steps,
    subtract_rows,
)
from maxmargin.solvers.parts.small_sets import small_set_steps
from referee import referee


def random_problem(n=40, seed=0, kinked=False, dtype=np.float64):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, n))
    H = (B @ B.T / n + 0.1 * np.eye(n)).astype(dtype)
    p = rng.normal(size=n)
    lower, upper = -rng.uniform(0.5, 1.0, n), rng.uniform(0.5, 1.0, n)
    eps = np.full(n, 0.2) if kinked else np.zeros(n)
    return H, p, lower, upper, eps


def state(H, p, lower, upper, eps):
    """What a leaf takes besides the rows, for β = 0."""
    beta = np.zeros(len(p))
    diag = H.diagonal().astype(np.float64)
    return Variables(-p.copy(), beta, lower, upper, eps, diag, *offsets(beta, lower, upper, eps))


PAIR_LEAVES = {"pair": pair_steps, "small set": small_set_steps}


@pytest.mark.parametrize("leaf", PAIR_LEAVES)
@pytest.mark.parametrize("second_order", [True, False])
@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("n", [2, 40, 150])
def test_pair_steps_find_the_optimum(leaf, second_order, kinked, groups, n):
    H, p, lower, upper, eps = random_problem(n, kinked=kinked)
    edges = np.linspace(0, n, groups + 1).astype(np.int64)
    x = state(H, p, lower, upper, eps)
    _, violation, missing = PAIR_LEAVES[leaf](H, np.arange(n), x, edges, second_order, 1e-9, 1_000_000)
    v, beta = x[:2]
    A = np.array([(np.arange(n) >= a) & (np.arange(n) < b) for a, b in zip(edges[:-1], edges[1:], strict=True)], float)
    best = referee(H, p, lower, upper, A, np.zeros(groups), eps)
    assert missing == -1
    assert violation < 1e-9
    np.testing.assert_allclose(A @ beta, 0.0, atol=1e-12)
    np.testing.assert_allclose(v, -(H @ beta + p), atol=1e-9)
    assert 0.5 * beta @ H @ beta + p @ beta + eps @ np.abs(beta) == pytest.approx(best.objective, abs=1e-7)
    # The offsets belong to the β that was found.
    rise, fall = offsets(beta, lower, upper, eps)
    np.testing.assert_array_equal(x.rise, rise)
    np.testing.assert_array_equal(x.fall, fall)


@pytest.mark.parametrize("kinked", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_steps_find_the_optimum(kinked, dtype):
    H, p, lower, upper, eps = random_problem(kinked=kinked, dtype=dtype)
    x = state(H, p, lower, upper, eps)
    _, violation, missing = single_steps(H, np.arange(40), x, 1e-9, 1_000_000)
    beta = x.beta
    best = referee(H, p, lower, upper, eps=eps)
    assert missing == -1
    assert violation < 1e-9
    assert 0.5 * beta @ H @ beta + p @ beta + eps @ np.abs(beta) == pytest.approx(best.objective, abs=1e-6)


def test_one_pair_by_hand():
    """β = (0, 0), v = (1, −1), H = I: the pair moves by (1 − (−1)) / 2 = 1, or as far as the box allows."""
    for room, expected in ((2.0, 1.0), (0.25, 0.25)):
        H = np.eye(2)
        x = state(H, np.array([-1.0, 1.0]), np.full(2, -room), np.full(2, room), np.zeros(2))
        steps, _, _ = pair_steps(H, np.arange(2), x, np.array([0, 2]), True, 1e-9, 1)
        assert steps == 1
        np.testing.assert_allclose(x.beta, [expected, -expected])


def test_a_kink_stops_a_step_at_zero():
    """A coefficient that would change its sign stops at zero first, where its slope changes."""
    H = np.eye(2)
    p, eps = np.array([1.0, -1.0]), np.full(2, 0.1)
    beta = np.array([0.5, -0.5])
    low, high = np.full(2, -5.0), np.full(2, 5.0)
    x = Variables(-(beta + p), beta, low, high, eps, np.ones(2), *offsets(beta, low, high, eps))
    pair_steps(H, np.arange(2), x, np.array([0, 2]), True, 1e-9, 1)
    np.testing.assert_array_equal(beta, [0.0, 0.0])


@pytest.mark.parametrize("lower", [0.2, -0.8])
def test_a_box_on_one_side_of_zero_is_kept_with_a_kink(lower):
    """The room of a step ends at the bound even where zero is further away."""
    n = 6
    H, p, *_ = random_problem(n)
    low, high = np.full(n, lower), np.full(n, lower + 0.6)
    eps = np.full(n, 0.3)
    beta = np.full(n, lower + 0.3)
    x = Variables(-(H @ beta + p), beta, low, high, eps, H.diagonal().copy(), *offsets(beta, low, high, eps))
    total = beta.sum()
    pair_steps(H, np.arange(n), x, np.array([0, n]), True, 1e-9, 10_000)
    assert beta.sum() == pytest.approx(total, abs=1e-12)
    assert (beta >= low).all() and (beta <= high).all()


@pytest.mark.parametrize("leaf", [*PAIR_LEAVES, "single"])
@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_a_missing_row_is_asked_for_and_its_memory_is_not_read(leaf, garbage):
    """Rows that are not at hand are memory that nobody has written: it may hold anything."""
    n = 20
    H, p, lower, upper, eps = random_problem(n)
    slab = np.full((3, n), garbage)
    x = state(H, p, lower, upper, eps)
    rest = (1e-9, 100) if leaf == "single" else (np.array([0, n]), True, 1e-9, 100)
    function = single_steps if leaf == "single" else PAIR_LEAVES[leaf]
    steps, violation, missing = function(slab, np.full(n, -1), x, *rest)
    assert steps == 0
    assert missing >= 0
    assert np.isfinite(violation)
    np.testing.assert_array_equal(x.v, -p)
    np.testing.assert_array_equal(x.beta, np.zeros(n))


@pytest.mark.parametrize("leaf", [*PAIR_LEAVES, "single"])
def test_rows_are_fetched_one_after_the_other(leaf):
    """A leaf that stops for every missing row comes to the same optimum as one that has them all."""
    n = 30
    H, p, lower, upper, eps = random_problem(n)
    slab = np.full((n, n), np.nan)
    slot = np.full(n, -1)
    x = state(H, p, lower, upper, eps)
    rest = (1e-9, 100_000) if leaf == "single" else (np.array([0, n]), True, 1e-9, 100_000)
    function = single_steps if leaf == "single" else PAIR_LEAVES[leaf]
    for k in range(n + 1):
        _, violation, missing = function(slab, slot, x, *rest)
        if missing < 0:
            break
        slab[k], slot[missing] = H[missing], k
    assert violation < 1e-9
    A = None if leaf == "single" else np.ones((1, n))
    best = referee(H, p, lower, upper, A, None if A is None else [0.0], eps)
    beta = x.beta
    assert 0.5 * beta @ H @ beta + p @ beta == pytest.approx(best.objective, abs=1e-7)


@pytest.mark.parametrize("leaf", [*PAIR_LEAVES, "single"])
def test_no_more_steps_than_allowed(leaf):
    n = 40
    H, p, lower, upper, eps = random_problem(n)
    x = state(H, p, lower, upper, eps)
    rest = (1e-12, 3) if leaf == "single" else (np.array([0, n]), True, 1e-12, 3)
    function = single_steps if leaf == "single" else PAIR_LEAVES[leaf]
    steps, *_ = function(H, np.arange(n), x, *rest)
    assert 1 <= steps <= (80 if leaf == "small set" else 3)  # a small set is finished before it is looked at


def test_variables_that_cannot_move_do_not_move():
    n = 20
    H, p, *_ = random_problem(n)
    fixed = np.linspace(-1.0, 1.0, n)
    diag, eps = H.diagonal().copy(), np.zeros(n)
    rise, fall = offsets(fixed, fixed, fixed, eps)
    x = Variables(-(H @ fixed + p), fixed.copy(), fixed, fixed, eps, diag, rise, fall)
    assert (rise == -BIG).all() and (fall == BIG).all()
    for leaf in PAIR_LEAVES.values():
        steps, *_ = leaf(H, np.arange(n), x, np.array([0, n]), True, 1e-9, 100)
        assert steps == 0
    steps, *_ = single_steps(H, np.arange(n), x, 1e-9, 100)
    assert steps == 0
    np.testing.assert_array_equal(x.beta, fixed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_subtract_rows(dtype, count):
    rng = np.random.default_rng(0)
    slab = rng.normal(size=(12, 5000)).astype(dtype)
    slots, delta = rng.permutation(12)[:count], rng.normal(size=count)
    v = rng.normal(size=5000)
    expected = v - delta @ slab[slots].astype(np.float64)
    before = v.copy()
    subtract_rows(slab, slots, delta, v, 10, 4990)
    np.testing.assert_allclose(v[10:4990], expected[10:4990], rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)
    np.testing.assert_array_equal(v[:10], before[:10])
    np.testing.assert_array_equal(v[4990:], before[4990:])


def test_gather():
    slab = np.arange(40.0).reshape(5, 8)
    out = np.empty((2, 3))
    gather(slab, np.array([4, 1]), np.array([0, 7, 2]), out, 0, 2)
    np.testing.assert_array_equal(out, slab[np.ix_([4, 1], [0, 7, 2])])
