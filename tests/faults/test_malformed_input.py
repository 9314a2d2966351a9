"""Input that is not what it says: sparse arrays that do not fit together, too many features, uneven kernels."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM
from maxmargin.estimators import checks
from maxmargin.gram import Kernel, KernelGram
from maxmargin.rows import Rows, blocks
from maxmargin.rows.blocks import Sparse

N, D = 30, 8


def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.4)
    X[:, 0] = 1.0  # no empty row
    return X, np.where(rng.random(N) < 0.5, 1, -1)


# -- sparse arrays that do not fit together -------------------------------------------------------------


def with_arrays(form, **arrays):
    """A sparse matrix some of whose arrays are not what its constructor would have taken."""
    X = form(samples()[0])
    for name, change in arrays.items():
        setattr(X, name, change(getattr(X, name).copy()))
    return X


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def shorter(array):
    return array[:-1]


def longer(array):
    return np.append(array, array[-1])


def in_blocks(X):
    return sp.bsr_array(X, blocksize=(2, 2))


MALFORMED = {
    "an index too large": (lambda: with_arrays(sp.csr_array, indices=put(5, D)), "indices from 0 to 8 where 0 to 7"),
    "an index far too large": (lambda: with_arrays(sp.csr_matrix, indices=put(-1, 1 << 30)), "from 0 to 1073741824"),
    "a negative index": (lambda: with_arrays(sp.csr_array, indices=put(5, -1)), "indices from -1 to 7"),
    "an indptr that goes back": (lambda: with_arrays(sp.csr_array, indptr=put(4, 0)), "does not ascend from 0"),
    "an indptr that starts late": (lambda: with_arrays(sp.csr_array, indptr=put(0, 1)), "does not ascend from 0"),
    "an indptr beyond the end": (lambda: with_arrays(sp.csr_array, indptr=put(-1, 1 << 30)), "indptr up to 1073741824"),
    "an indptr too long": (lambda: with_arrays(sp.csr_array, indptr=longer), "indptr of length 32 where 31"),
    "an indptr too short": (lambda: with_arrays(sp.csr_array, indptr=shorter), "indptr of length 30 where 31"),
    "a value missing": (lambda: with_arrays(sp.csr_array, data=shorter), r"\d+ indices for \d+ values"),
    "columns": (lambda: with_arrays(sp.csc_array, indices=put(5, N)), "indices from 0 to 30 where 0 to 29"),
    "columns, indptr": (lambda: with_arrays(sp.csc_array, indptr=longer), "indptr of length 10 where 9"),
    "blocks": (lambda: with_arrays(in_blocks, indices=put(5, 4)), "indices from 0 to 4 where 0 to 3"),
    "coordinates": (lambda: with_arrays(sp.coo_matrix, col=put(5, D)), "col from 0 to 8 where 0 to 7 exist"),
    "coordinates, rows": (lambda: with_arrays(sp.coo_matrix, row=put(5, -3)), "row from -3 to 29 where 0 to 29 exist"),
}
MACHINES = [SVC, SVR, OneClassSVM, LinearSVC, LinearSVR]

each_fault = pytest.mark.parametrize("fault", MALFORMED)
each_machine = pytest.mark.parametrize("Machine", MACHINES)


@each_fault
@each_machine
def test_malformed_rows_are_refused(Machine, fault):
    make, found = MALFORMED[fault]
    X, y = samples()
    said = rf"a sparse matrix \(\w+\) of shape \(30, 8\) was asked for; found .*{found}.*; mend these arrays"
    with pytest.raises(ValueError, match=said):
        Machine().fit(make(), y)
    model = Machine().fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match=said):
        model.predict(make())


@pytest.mark.parametrize("Machine", [LinearSVC, LinearSVR])
def test_malformed_parts_are_refused(Machine):
    X, y = samples()
    parts = [X, with_arrays(sp.csr_array, indices=put(5, D))]
    with pytest.raises(ValueError, match="found indices from 0 to 8"):
        Machine().fit(parts, np.r_[y, y])


def as_it_is(X):
    return X


def unsorted(X):
    for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[a:b], X.data[a:b] = X.indices[a:b][::-1].copy(), X.data[a:b][::-1].copy()
    return sp.csr_array((X.data, X.indices, X.indptr), X.shape)


def with_duplicates(X):
    data, indices = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2)
    return sp.csr_array((data, indices, 2 * X.indptr), X.shape)


def with_room_to_spare(X):
    """SciPy allows for arrays that are longer than what is in use, and for anything in what is not."""
    X.indices, X.data = np.append(X.indices, [-5, 1 << 30]).astype(X.indices.dtype), np.append(X.data, [0.0, 0.0])
    return X


@pytest.mark.parametrize("Machine", [SVC, LinearSVC])
@pytest.mark.parametrize("form", [as_it_is, unsorted, with_duplicates, with_room_to_spare], ids=lambda f: f.__name__)
def test_well_formed_rows_of_any_kind_pass(Machine, form):
    X, y = samples()
    model = Machine().fit(form(sp.csr_array(X)), y)
    assert model.certificate_.primal == pytest.approx(Machine().fit(X, y).certificate_.primal, rel=1e-3)
    np.testing.assert_array_equal(model.predict(form(sp.csr_array(X))), model.predict(X))


@pytest.mark.parametrize("form", [sp.lil_array, sp.dok_array, sp.dia_array], ids=lambda f: f.__name__)
def test_other_sparse_formats_pass(form):
    X, y = samples()
    same = SVC().fit(sp.csr_array(X), y).decision_function(X)
    np.testing.assert_array_equal(SVC().fit(form(X), y).decision_function(X), same)


# -- more features than 32 bits can number --------------------------------------------------------------

WIDE = 2**32 + 10


def wide_rows():
    """Two pairs of rows whose columns coincide in 32 bits."""
    columns = np.array([3, 2**32 + 3, 4, 2**32 + 4], np.int64)
    return sp.csr_array((np.ones(4), columns, np.arange(5, dtype=np.int64)), shape=(4, WIDE))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("Machine", [SVC, SVR, OneClassSVM])
def test_features_that_cannot_be_numbered_are_refused(Machine, kernel):
    said = f"a kernel of sparse points was asked for; found {WIDE} features, of which 2147483647 .*; leave out the"
    with pytest.raises(ValueError, match=said):
        Machine(kernel=kernel).fit(wide_rows(), [1, -1, 1, -1])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_gram_refuses_them_too(kernel):
    with pytest.raises(ValueError, match=f"found {WIDE} features"):
        KernelGram(Kernel(kernel), wide_rows())


def test_a_kernel_function_may_take_them():
    def kernel(left, right):
        return (left.indices[:, None] == right.indices).astype(float)  # each row has one entry, and it is 1

    X = wide_rows()
    model = SVC(kernel=kernel, C=10.0).fit(X, [1, -1, 1, -1])
    np.testing.assert_allclose(np.abs(model.dual_coef_.toarray()), 1.0, rtol=1e-3)  # all four are at right angles


def test_blocks_of_rows_keep_all_bits():
    """Rows for linear machines have 64 bits where they need them: what is made of them has as well."""
    block = Sparse.of(wide_rows())
    for made in (block, block.scaled(np.ones(4)), block.widened(2.0), *block.split(2), *Rows.of(wide_rows()).blocks):
        assert set(made.indices) <= {3, 4, 2**32 + 3, 2**32 + 4, WIDE}
        assert made.indices.max() >= 2**32 + 3
    np.testing.assert_array_equal(block.gather(np.array([1, 3])).indices, [2**32 + 3, 2**32 + 4])


@pytest.mark.parametrize(
    ("d", "dtype"), [(100, np.int32), (70_000, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)], ids=str
)
def test_one_more_feature(d, dtype):
    """The number of the feature that is added is d, which may be the first that takes more bits."""
    block = Sparse(np.arange(3, dtype=np.int32), np.array([0, d - 1], np.int64).astype(np.int32), np.ones(2), d)
    wider = block.widened(5.0)
    np.testing.assert_array_equal(wider.indices[1::2], [d, d])
    assert wider.indices.dtype == dtype
    assert wider.d == d + 1


@pytest.mark.parametrize(("d", "dtype"), [(2**31 - 1, np.int32), (2**31, np.int32), (2**31 + 1, np.int64)], ids=str)
def test_numbers_have_the_bits_that_they_need(d, dtype):
    assert blocks._wide_enough(np.int32, d - 1) == dtype


# -- precomputed kernels --------------------------------------------------------------------------------


def kernel_matrix(n, dtype=np.float64):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2)).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("at", [(0, 1), (1, 0), (0, 19), (19, 0), (7, 8), (15, 3), (18, 19)])
def test_one_entry_that_differs_is_found(monkeypatch, order, at):
    """In every tile: on the diagonal, above and below it, and in the narrow ones at the end."""
    monkeypatch.setattr(checks, "SYMMETRY_ROWS", 7)
    K = np.asarray(kernel_matrix(20), order=order)
    checks.check_symmetric(K)
    K[at] += 1e-4
    with pytest.raises(ValueError, match=r"not symmetric: .* differ by 0\.0001, the largest is 1;"):
        SVC(kernel="precomputed").fit(K, np.arange(20) % 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_rounding_passes_at_any_scale(dtype, scale):
    K = (scale * kernel_matrix(20)).astype(dtype)
    K[3, 5] *= 1 + 1e-6
    checks.check_symmetric(K)
    K[3, 5] += 1e-3 * scale
    with pytest.raises(ValueError, match="not symmetric"):
        checks.check_symmetric(K)


def test_the_look_at_a_kernel_ends_with_the_fit(monkeypatch):
    """A callback that raises is heard while entries are compared, and a time limit ends that as well."""
    monkeypatch.setattr(checks, "SYMMETRY_ROWS", 7)
    looked = []
    checks.check_symmetric(kernel_matrix(20), lambda: bool(looked.append(None)) or len(looked) == 2)
    assert len(looked) == 2
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", -1.0)
    K, y, seen = kernel_matrix(20), np.arange(20) % 2, []

    def late(step):
        seen.append(step)
        if len(seen) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        SVC(kernel="precomputed", callback=late).fit(K, y)
    assert [step["iteration"] for step in seen] == [0, 0, 0]  # before the first step


def test_opposite_numbers_that_overflow():
    K = np.eye(3)
    K[0, 1], K[1, 0] = 1.7e308, -1.7e308
    with pytest.raises(ValueError, match="not symmetric"):
        checks.check_symmetric(K)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss has other units elsewhere")
def test_the_look_at_a_kernel_takes_no_memory_of_its_size():
    """In a process of its own, whose peak nobody else has raised."""
    script = """
        import resource
        import numpy as np
        from maxmargin.estimators.checks import check_symmetric

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        K = np.ones((2000, 2000))
        check_symmetric(K[:10, :10])
        before = peak()
        check_symmetric(K)
        print((peak() - before) / K.nbytes)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert float(out.stdout) < 0.25
