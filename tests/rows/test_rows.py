"""Rows of every kind against dense algebra: the same answers wherever the rows live."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.rows import Block, Dense, Rows, Sparse, Stored, base, blocks
from maxmargin.rows.crew import added_up

N, D = 137, 9
RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(N, D))
THIN = np.where(RNG.random((N, D)) < 0.15, FULL, 0.0)
THIN[5] = 0.0  # a row without entries


class Chunked:
    """Something with a shape whose slices are arrays, as files of other formats have it."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.loaded = X, X.shape, X.dtype, []

    def __getitem__(self, rows):
        self.loaded.append(rows)
        return self.X[rows]


def wide_indices(X):
    rows = sp.csr_array(X)
    rows.indptr, rows.indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    return rows


def with_duplicates(X):
    """Unsorted, with entries that are sums."""
    rows = sp.coo_array(X)
    again = np.r_[rows.data / 2, rows.data[::-1] / 2], np.r_[rows.row, rows.row[::-1]], np.r_[rows.col, rows.col[::-1]]
    order = np.lexsort((RNG.random(len(again[0])), again[1]))
    data, row, col = (part[order] for part in again)
    return sp.csr_array((data, col, np.searchsorted(row, np.arange(X.shape[0] + 1))), shape=X.shape)


IN_MEMORY = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_matrix,
    "csr int64": wide_indices,
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr of sums": with_duplicates,
    "csc": sp.csc_array,
    "sequence": lambda X: [X[:50], X[50:51], sp.csr_array(X[51:90]), np.asfortranarray(X[90:])],
    "chunked": Chunked,
    "sparse chunks": lambda X: Chunked(sp.csr_array(X)),
}
ON_DISK = ("npy", "memmap", "F memmap", "slice of a memmap", "columns of a memmap", "float32 memmap", "copy on write")


def on_disk(kind, X, folder):
    path = folder / "x.npy"
    if kind == "F memmap":
        X = np.asfortranarray(X)
    if kind == "float32 memmap":
        X = X.astype(np.float32)
    if kind == "slice of a memmap":
        X = np.vstack([np.ones((11, D)), X, np.ones((3, D))])
    if kind == "columns of a memmap":
        X = np.hstack([X, np.ones((N, 2))])
    np.save(path, X)
    stored = np.load(path, mmap_mode="c" if kind == "copy on write" else "r")
    if kind == "slice of a memmap":
        return stored[11 : 11 + N]
    if kind == "columns of a memmap":
        return stored[:, :D]
    return path if kind == "npy" else stored


@pytest.fixture(params=["full", "thin"])
def X(request):
    return {"full": FULL, "thin": THIN}[request.param]


@pytest.fixture(params=[*IN_MEMORY, *ON_DISK])
def rows(request, X, tmp_path, monkeypatch):
    """Small tiles and many blocks, so that their edges are everywhere."""
    monkeypatch.setattr(base, "LEAST_WORK", 100)
    monkeypatch.setattr(blocks, "TILE_BYTES", 1000)
    monkeypatch.setattr(blocks, "TILE_ENTRIES", 20)
    monkeypatch.setattr(blocks, "SYRK_ROWS", 7)
    monkeypatch.setattr(blocks, "STORED_TILE_BYTES", 2000)
    kind = request.param
    source = IN_MEMORY[kind](X) if kind in IN_MEMORY else on_disk(kind, X, tmp_path)
    found = Rows.of(source, n_jobs=3)
    found.exact = 1e-12 if "float32" not in kind else 1e-5
    return found


def test_products(rows, X):
    assert (rows.n, rows.d) == X.shape
    w, v = RNG.normal(size=D), RNG.normal(size=N)
    np.testing.assert_allclose(rows.dot(w), X @ w, atol=rows.exact)
    np.testing.assert_allclose(rows.t_dot(v), X.T @ v, atol=100 * rows.exact)
    W, V = RNG.normal(size=(D, 3)), RNG.normal(size=(N, 2))
    np.testing.assert_allclose(rows.dot(W), X @ W, atol=rows.exact)
    np.testing.assert_allclose(rows.t_dot(V), X.T @ V, atol=100 * rows.exact)
    np.testing.assert_allclose(rows.t_squares(v), (X * X).T @ v, atol=100 * rows.exact)
    np.testing.assert_allclose(rows.squared_norms(), (X * X).sum(axis=1), atol=10 * rows.exact)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("scatter", [1e-9, 1e9], ids=["scatter", "syrk"])
def test_normal_matrix(rows, X, single, scatter, monkeypatch):
    monkeypatch.setattr(blocks, "SCATTER_COST", scatter)
    theta = RNG.uniform(0.0, 2.0, N) * (RNG.random(N) < 0.6)
    extra = RNG.normal(size=(N, 2))
    wide = np.hstack([X, extra])
    atol = 1e-4 if single else 100 * rows.exact
    np.testing.assert_allclose(rows.normal(theta, extra, single), wide.T @ (theta[:, None] * wide), atol=atol)
    np.testing.assert_allclose(rows.normal(theta, single=single), X.T @ (theta[:, None] * X), atol=atol)
    np.testing.assert_array_equal(rows.normal(np.zeros(N)), np.zeros((D, D)))
    for factor, more in ((2.0, extra), (3.0, extra), (0.5, 2.0 * extra), (1.0, extra[:, :1])):  # ẐᵀẐ is kept
        even = np.hstack([X, more])
        np.testing.assert_allclose(rows.normal(np.full(N, factor), more, single), factor * even.T @ even, atol=3 * atol)


@pytest.mark.parametrize(
    "index",
    [np.arange(N), np.arange(3, 60, 5), RNG.permutation(N), np.array([7, 7, 100, 7]), np.zeros(0, np.int64)],
    ids=["all", "some", "mixed", "repeated", "none"],
)
def test_subsets(rows, X, index):
    found = rows.matrix(index)
    found = found.toarray() if sp.issparse(found) else found
    np.testing.assert_allclose(found, X[index], atol=rows.exact)
    if len(index):
        part = rows.take(index)
        assert not part.stored
        w = RNG.normal(size=D)
        np.testing.assert_allclose(part.dot(w), X[index] @ w, atol=rows.exact)


def test_changed_rows(rows, X):
    factor = RNG.choice([-1.0, 1.0], N)
    w, wider = RNG.normal(size=D), RNG.normal(size=D + 1)
    np.testing.assert_allclose(rows.scaled(factor).dot(w), factor * (X @ w), atol=rows.exact)
    np.testing.assert_allclose(rows.widened(1.5).dot(wider), X @ wider[:-1] + 1.5 * wider[-1], atol=10 * rows.exact)
    twice = rows.repeated(2)
    assert twice.n == 2 * N
    np.testing.assert_allclose(twice.dot(w), np.tile(X @ w, 2), atol=rows.exact)
    assert all(a is b for a, b in zip(twice.blocks, rows.blocks * 2, strict=True))


def test_tiles_cover_the_rows_once_and_in_order(rows, X):
    for block, first in zip(rows.blocks, rows.edges, strict=False):
        end = 0
        for a, b, tile in block.tiles():
            assert a == end < b
            assert isinstance(tile, (Dense, Sparse))
            rest = X[first + a : first + b]
            np.testing.assert_allclose(tile.dot(np.eye(D)), rest, atol=rows.exact)
            end = b
        assert end == block.n


class Sums:
    """A state that a solver might attach."""

    def __init__(self, block, v, table, scale):
        self.block, self.v, self.table, self.scale = block, v.copy(), table, scale
        assert len(v) == table.shape[1] == block.n

    def project(self, w):
        self.v[:] = self.block.dot(w)
        return self.scale * self.v.sum()

    def shift(self, more, table, factor):
        self.v[:] = factor * more
        return len(more), table.shape

    def both(self):
        return float(self.v.sum()), np.outer(np.arange(3.0), self.v[:1])

    def fail(self):
        raise ArithmeticError("on purpose")


def test_a_crew_owns_its_slices(rows, X):
    v, table = np.zeros(N), RNG.normal(size=(2, N))
    crew = rows.crew(Sums, (v, table), 10.0)
    w = RNG.normal(size=D)
    parts = crew.ask("project", w)
    assert len(parts) == len(rows.blocks)
    np.testing.assert_allclose(
        parts, [10.0 * (X @ w)[a:b].sum() for a, b in zip(rows.edges, rows.edges[1:], strict=False)], atol=1e-3
    )
    np.testing.assert_allclose(crew.collect("v"), X @ w, atol=rows.exact)
    np.testing.assert_array_equal(v, np.zeros(N))
    np.testing.assert_array_equal(crew.collect("table"), table)
    assert crew.sum("project", w) == pytest.approx(10.0 * (X @ w).sum(), abs=1e-3)


def test_slices_go_out_and_come_back(rows):
    crew = rows.crew(Sums, (np.zeros(N), RNG.normal(size=(2, N))), 1.0)
    v, first, last = RNG.normal(size=N), RNG.normal(size=(N, 4)), RNG.normal(size=(4, N))
    sizes = np.diff(rows.edges)
    assert crew.scatter("shift", (v, first), 2.0, axis=0) == [(n, (n, 4)) for n in sizes]
    np.testing.assert_array_equal(crew.collect("v"), 2.0 * v)
    assert crew.scatter("shift", (v, last), 3.0) == [(n, (4, n)) for n in sizes]
    np.testing.assert_array_equal(crew.collect("v"), 3.0 * v)
    total, matrix = crew.sum("both")
    assert total == pytest.approx(3.0 * v.sum())
    np.testing.assert_allclose(matrix, np.outer(np.arange(3.0), [3.0 * v[rows.edges[:-1]].sum()]))


@pytest.mark.parametrize("threads", [1, 3])
def test_answers_are_added_up_in_their_order(threads):
    """Numbers, vectors, matrices of either order: to the bit what a loop gives."""
    parts = [10.0 ** RNG.integers(-8, 8) * RNG.normal(size=(300, 40)) for _ in range(9)]
    expected = parts[0].copy()
    for part in parts[1:]:
        expected = expected + part
    for mixed in (parts, [np.asfortranarray(p) for p in parts], [np.asfortranarray(parts[0]), *parts[1:]]):
        np.testing.assert_array_equal(added_up([p.copy("K") for p in mixed], threads), expected)
    both = added_up([(p[:, 0].copy(), float(p[0, 0])) for p in parts], threads)
    np.testing.assert_array_equal(both[0], expected[:, 0])
    assert both[1] == expected[0, 0]


def test_a_crew_passes_errors_on(rows):
    with pytest.raises(ArithmeticError, match="on purpose"):
        rows.crew(Sums, (np.zeros(N), np.zeros((1, N))), 1.0).ask("fail")


def test_blocks_share_the_work_and_give_the_same_bits():
    """As many blocks as keep a few threads busy; who serves them changes nothing."""
    X = RNG.normal(size=(6000, 64))
    many = Rows.of(X, n_jobs=2)
    assert 4 <= len(many.blocks) <= 16
    assert max(block.n for block in many.blocks) <= 2 * min(block.n for block in many.blocks)
    alone = Rows(many.blocks, n_jobs=1)
    theta = RNG.random(6000)
    np.testing.assert_array_equal(many.normal(theta), alone.normal(theta))
    np.testing.assert_array_equal(many.t_dot(theta), alone.t_dot(theta))


@pytest.mark.parametrize(
    ("shape", "count"),
    [((50, 3), 1), ((20_000, 200), 16), ((4000, 1000), 8), ((2000, 2900), 4)],  # d × d answers take memory
)
def test_how_many_blocks_is_a_matter_of_the_rows(shape, count):
    X = RNG.random(shape, np.float32)
    assert [len(Rows.of(X, n_jobs=jobs).blocks) for jobs in (1, 2, 7, 64)] == 4 * [count]


def test_answers_do_not_take_what_a_file_takes(tmp_path):
    """Rows that are not in memory may be many; the d × d answers of their blocks are in memory."""
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (20_000, 2000))  # all zeros: a file with holes
    assert len(Rows.of(X).blocks) == 4
    assert len(Rows.of(Stored(lambda a, b: None, 10**9, 2000)).blocks) == 4


def test_long_answers_are_few():
    """An answer of d numbers has to be worth its sum: sparse rows of text have more features than entries."""
    X = sp.random_array((4000, 50_000), density=0.001, rng=RNG, format="csr")
    assert len(Rows.of(X).blocks) <= 4


def test_dense_rows_of_zeros_are_served_as_sparse_ones():
    assert Rows.of(THIN).sparse
    assert not Rows.of(FULL).sparse
    assert isinstance(Rows.of(THIN.astype(np.float32)).blocks[0].data[0], np.float32)
    mostly = np.zeros((600, 10))
    mostly[1::2] = 1.0  # a sample could think that all of it is 0
    assert not Rows.of(mostly).sparse


def test_nothing_is_copied():
    rows = Rows.of(FULL)
    assert all(np.shares_memory(block.data, FULL) for block in rows.blocks)
    thin = sp.csr_array(THIN)
    assert all(np.shares_memory(block.data, thin.data) for block in Rows.of(thin).blocks)


def test_files_are_read_when_asked_and_never_mapped(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", FULL)
    rows = Rows.of(tmp_path / "x.npy")
    assert rows.stored and all(isinstance(block, Stored) for block in rows.blocks)
    np.save(tmp_path / "x.npy", 2 * FULL)
    np.testing.assert_allclose(rows.dot(np.ones(D)), 2 * FULL.sum(axis=1))


def test_stored_rows_come_a_tile_at_a_time(monkeypatch):
    monkeypatch.setattr(blocks, "STORED_TILE_BYTES", 20 * 8 * D)
    source = Chunked(FULL)
    Rows.of(source, n_jobs=1).dot(np.ones(D))
    assert sum(part.stop - part.start for part in source.loaded) == N
    assert max(part.stop - part.start for part in source.loaded) <= 20
    source.loaded.clear()
    Rows.of(source, n_jobs=1).matrix(np.array([3, 70]))
    assert len(source.loaded) == 2


def test_a_file_that_ends_too_early(tmp_path):
    np.save(tmp_path / "x.npy", FULL)
    rows = Rows.of(np.load(tmp_path / "x.npy", mmap_mode="r"))
    with open(tmp_path / "x.npy", "rb+") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match="is the file complete"):
        rows.dot(np.ones(D))


@pytest.mark.parametrize(
    ("X", "found"),
    [
        ([], "no block at all"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"\[3, 4\] features"),
        (np.ones(3), "1 dimensions"),
        (np.array([["a"]]), "type <U1"),
        (np.ones((2, 2), complex), "type complex"),
    ],
)
def test_refused(X, found):
    with pytest.raises(ValueError, match=f"asked for; found .*{found}"):
        Rows.of(X)


def test_refused_types():
    with pytest.raises(TypeError, match="rows were asked for; found int"):
        Rows.of(3)


@given(n=st.integers(1, 40), d=st.integers(1, 6), jobs=st.integers(1, 4), density=st.floats(0.0, 1.0))
def test_any_shape(n, d, jobs, density):
    rng = np.random.default_rng(n * 100 + d)
    X = np.where(rng.random((n, d)) < density, rng.integers(-3, 4, (n, d)), 0)
    theta = rng.integers(0, 3, n).astype(float)
    for source in (X, X.astype(float), sp.csr_array(X.astype(float)), [X.astype(float)] * 1):
        rows = Rows.of(source, jobs)
        np.testing.assert_array_equal(rows.dot(np.arange(d, dtype=float)), X @ np.arange(d))
        np.testing.assert_allclose(rows.normal(theta), X.T @ (theta[:, None] * X), atol=1e-9)
        assert all(isinstance(block, Block) and block.n for block in rows.blocks)


def test_a_normal_matrix_is_looked_at_while_it_is_written():
    """Also where it is kept for all θ that are even, and only multiplied: to get the memory may take long."""
    looks = []
    rows = Rows.of(np.random.default_rng(0).normal(size=(40, 200))).watched(lambda: looks.append(1))
    first = rows.normal(np.full(40, 0.5))
    made = len(looks)
    np.testing.assert_allclose(rows.normal(np.full(40, 1.5)), 3.0 * first)
    assert len(looks) - made >= 200 // 64  # strips
