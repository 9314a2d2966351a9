"""Tables with a column of targets, and ranges of svm-scale."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.files import FileError, Ranges, read_data, read_ranges, write_ranges

TABLE = "a,b,kind\n1,2.5,yes\n3,-4e2,no\n"


def test_a_csv_file_with_names(tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "t.csv").write_text(TABLE)
    data = read_data(tmp_path / "t.csv")
    assert data.X.tolist() == [[1.0, 2.5], [3.0, -400.0]]
    assert data.y.tolist() == ["yes", "no"] and data.names == ["a", "b"]
    assert read_data(tmp_path / "t.csv", target="kind").y.tolist() == ["yes", "no"]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert read_data(tmp_path / "t.csv.gz").names == ["a", "b"]


def test_names_that_pandas_counts_are_no_sample(tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "t.csv").write_text("0,1,2\n5.1,3.5,1\n4.9,3,0\n")
    data = read_data(tmp_path / "t.csv")
    assert data.X.tolist() == [[5.1, 3.5], [4.9, 3.0]] and data.y.tolist() == [1, 0] and data.names == ["0", "1"]
    (tmp_path / "t.csv").write_text("0,1\n2,0\n")
    assert read_data(tmp_path / "t.csv").y.tolist() == [1, 0]


@pytest.mark.parametrize(("target", "X", "y"), [(None, [[1, 2], [4, 5]], [3, 6]), (0, [[2, 3], [5, 6]], [1, 4])])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_table_without_names(target, X, y, separator, tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / ("t.csv" if separator == "," else "t.tsv")
    path.write_text("1,2,3\n4,5,6\n".replace(",", separator))
    data = read_data(path, target=target)
    assert data.X.tolist() == X and data.y.tolist() == y and data.names is None


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"], "b": [3, 4]}).to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet", target="kind")
    assert data.X.tolist() == [[1, 3], [2, 4]] and data.y.tolist() == ["x", "y"] and data.names == ["a", "b"]
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match="Parquet"):
        read_data(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "noted",
    [
        b'{"index_columns": [{"knid": "range"}], "columns": []}',
        b'{"index_columns": [{"kind": "range"}], "columns": []}',
        b'{"index_columns": 3, "columns": []}',
        b'{"index_columns": ["a"], "columns": [{}]}',
        b"[1]",
        b"{",
    ],
    ids=repr,
)
def test_damaged_notes_of_pandas_in_parquet(noted, tmp_path):
    """atheris found the first: one letter of them was another."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}).replace_schema_metadata({b"pandas": noted})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(FileError, match="cannot be read as one"):
        read_data(tmp_path / "t.parquet")


def test_labels_in_parquet_that_are_no_text(tmp_path):
    """atheris found it: pandas takes them, and pyarrow says so only when they are looked at."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0], "kind": ["first", "second"]})
    plain = dict(compression="none", use_dictionary=False, write_statistics=False)
    pq.write_table(table, tmp_path / "t.parquet", **plain)
    content = (tmp_path / "t.parquet").read_bytes()
    assert content.count(b"second") == 1 and read_data(tmp_path / "t.parquet").y.tolist() == ["first", "second"]
    (tmp_path / "t.parquet").write_bytes(content.replace(b"second", b"se\xffond"))
    with pytest.raises(FileError, match="cannot be read as one"):
        read_data(tmp_path / "t.parquet")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool])
def test_npy(dtype, order, tmp_path):
    table = np.asarray(np.array([[1, 0, 1], [0, 0, 1]]), dtype=dtype, order=order)
    np.save(tmp_path / "t.npy", table)
    data = read_data(tmp_path / "t.npy", target=1)
    assert data.X.tolist() == [[1, 1], [0, 1]] and data.y.tolist() == [0, 0]
    assert data.X.dtype == (np.float32 if dtype is np.float32 else np.float64)


def test_ranges_by_hand(tmp_path):
    (tmp_path / "range").write_text("y\n0 1\n-2 2\nx\n-1 1\n1 0 10\n3 5 6\n")
    ranges = read_ranges(tmp_path / "range")
    assert ranges.columns.tolist() == [0, 2] and ranges.target == (0.0, 1.0, -2.0, 2.0)
    X = np.array([[0.0, 7.0, 5.0, 9.0], [10.0, 8.0, 6.0, 9.0], [20.0, 1.0, 5.5, 9.0]])
    expected = [[-1, 0, -1, 0], [1, 0, 1, 0], [3, 0, 0, 0]]  # what has no range becomes 0
    assert ranges.scale(X).tolist() == expected
    assert ranges.scale(sp.csr_matrix(X)).tolist() == expected
    assert ranges.scale_target(np.array([-2.0, 0.0, 2.0])).tolist() == [0.0, 0.5, 1.0]
    write_ranges(ranges, tmp_path / "again")
    again = read_ranges(tmp_path / "again")
    assert (again.lower, again.upper, again.target) == (-1.0, 1.0, ranges.target)
    assert again.least.tolist() == [0.0, 5.0]


def test_zeros_stay_zeros_where_they_can():
    X = sp.csr_matrix([[0.0, 2.0], [4.0, 0.0]])
    scaled = Ranges.of(X, lower=0.0, upper=1.0).scale(X)
    assert sp.issparse(scaled) and scaled.toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x was asked for"),
        ("z\n", "x was asked for"),
        ("x\n-1\n", "2 finite numbers"),
        ("x\n1 -1\n", "lower < upper"),
        ("x\n-1 1\n1 2\n", ":3: 3 finite numbers"),
        ("x\n-1 1\n-1 1 2\n", ":3:1: ascending"),
        ("x\n-1 1\n2 1 2\n1 1 2\n", ":4:1: ascending"),
        ("x\n-1 1\n1 3 2\n", "min <= max"),
        ("x\n-1 1\n1 nan 2\n", "finite"),
        ("y\n0 1\nx\n", "2 finite numbers"),
        ("x\n-1 1\n1.5 0 1\n", "ascending"),
        ("x\n" + "1" * 5000, "long one"),
    ],
)
def test_ranges_that_are_none(text, says, tmp_path):
    (tmp_path / "range").write_text(text)
    with pytest.raises(FileError, match=says) as caught:
        read_ranges(tmp_path / "range")
    assert "\n" not in str(caught.value)
