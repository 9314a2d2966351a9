"""LIBSVM's data format: exact numbers, all compressions, errors with line and column."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from maxmargin.files import FileError, read_svmlight, write_svmlight
from maxmargin.files import source as source_module

TEXT = b"+1 1:0.5 3:-2e3 # a comment\n\n-1\t2:1 \r\n# only a comment\n3.5 4:.25\n"


def write(tmp_path, content: bytes, name="data"):
    (tmp_path / name).write_bytes(content)
    return tmp_path / name


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_plain_and_compressed(pack, tmp_path):
    data = read_svmlight(write(tmp_path, pack(TEXT)))
    assert data.X.toarray().tolist() == [[0.5, 0, -2000, 0], [0, 1, 0, 0], [0, 0, 0, 0.25]]
    assert data.y.tolist() == [1, -1, 3.5] and data.qid is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 16])
def test_pieces_of_any_size(pack, piece, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module.lines_in_pieces, "__defaults__", (piece,))
    data = read_svmlight(write(tmp_path, pack(TEXT) + (pack(TEXT) if pack is not bytes else TEXT)))
    assert data.X.toarray().tolist() == [[0.5, 0, -2000, 0], [0, 1, 0, 0], [0, 0, 0, 0.25]] * 2


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_number_is_read_as_it_was_written(values):
    path = "/dev/shm/maxmargin-numbers" if os.path.isdir("/dev/shm") else "maxmargin-numbers"
    path = f"{path}-{os.getpid()}"
    try:
        write_svmlight(path, np.array([values]), [values[0]])
        data = read_svmlight(path, n_features=len(values))
    finally:
        if os.path.exists(path):
            os.unlink(path)
    assert data.y.tolist() == values[:1]
    assert data.X.toarray()[0].tolist() == values


digits = st.text("0123456789", min_size=0, max_size=30)


@given(st.sampled_from(["", "-", "+"]), digits, digits, st.one_of(st.none(), st.integers(-400, 400)))
def test_every_decimal_is_rounded_as_python_does(sign, whole, fraction, exponent):
    """Also those that are just between two doubles, and those with more digits than fit into a word."""
    if not whole and not fraction:
        return
    text = f"{sign}{whole}.{fraction}" + ("" if exponent is None else f"e{exponent}")
    if not np.isfinite(float(text)):
        return
    data = read_text(f"{text} 1:{text}\n")
    assert data.y.tolist() == [float(text)]
    assert data.X.toarray().tolist() == [[float(text)]]


def read_text(text: str):
    from maxmargin.files.svmlight import Data, lines_in_pieces, read_lines

    lines = read_lines("text", lines_in_pieces("text", io.BytesIO(text.encode())))
    return Data(lines.matrix(1, max(1, lines.largest)), lines.lead[:, 0])


@pytest.mark.parametrize("zero_based", [True, False])
def test_as_scikit_learn(zero_based, tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 50), density=0.2, rng=rng, format="csr")
    y = rng.integers(0, 3, 200).astype(float)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=zero_based, comment="made by a test")
    theirs, labels = load_svmlight_file(str(tmp_path / "data"), n_features=50, zero_based=zero_based)
    data = read_svmlight(tmp_path / "data", n_features=50, zero_based=zero_based)
    assert (data.X != theirs).nnz == 0 and (data.y == labels).all()
    write_svmlight(tmp_path / "again", X, y, zero_based=zero_based)
    again = read_svmlight(tmp_path / "again", n_features=50, zero_based=zero_based)
    assert (again.X != sp.csr_matrix(X)).nnz == 0


def test_queries(tmp_path):
    data = read_svmlight(write(tmp_path, b"1 qid:3 1:1\n0 qid:12 2:1\n"))
    assert data.qid.tolist() == [3, 12] and data.X.toarray().tolist() == [[1, 0], [0, 1]]


def test_indices_of_more_than_32_bits(tmp_path):
    data = read_svmlight(write(tmp_path, b"1 1:1 5000000000:2\n-1 3:1\n"))
    assert data.X.shape == (2, 5_000_000_000) and data.X[0, 4_999_999_999] == 2.0
    assert data.X.indices.dtype == np.int64


@pytest.mark.parametrize(
    ("content", "place", "says"),
    [
        (b"", "", "empty file"),
        (b"# nothing\n\n", "", "empty file"),
        (b"1 1:1\nx 1:1\n", ":2:1:", "label"),
        (b"1 1:1\n1 1:1 b:2\n", ":2:7:", "index"),
        (b"1 1:1 -2:2\n", ":1:7:", "'-2:2'"),
        (b"1 1:1 2\n", ":1:7:", "colon"),
        (b"1 1:1 2:\n", ":1:9:", "end of the line"),
        (b"1 1:1 2: 3\n", ":1:9:", "value"),
        (b"1 2:1 1:1\n", ":1:7:", "ascending"),
        (b"1 2:1 2:1\n", ":1:7:", "only once"),
        (b"1 1:nan\n", ":1:5:", "finite"),
        (b"1 1:-inf\n", ":1:5:", "finite"),
        (b"nan 1:1\n", ":1:1:", "finite"),
        (b"1 1:1e999\n", ":1:5:", "finite"),
        (b"1 1:1\n1 1:0x10\n", ":2:6:", "space"),
        (b"1 1:1,2:1\n", ":1:6:", "space"),
        (b"1,2 1:1\n", ":1:2:", "space"),
        (b"1 99999999999999999999:1\n", ":1:3:", "2^58"),
        (b"1 qid:x 1:1\n", ":1:3:", "qid"),
        (b"1 1:1\n1 1:1 \x00\n", ":2:7:", "no text"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ":3:1:", "no text"),
        (b"1 1:1 \x01\n", ":1:7:", "index"),
        ("1 1:1 ünï\n".encode(), ":1:7:", "index"),
        (b"\xff\xfe1 1:1\n", ":1:1:", "number"),
        (gzip.compress(TEXT * 100)[:-20], "", "damaged"),
        (bz2.compress(TEXT * 100)[:-20], "", "damaged"),
        (lzma.compress(TEXT * 100)[:-20], "", "damaged"),
        (gzip.compress(TEXT)[:10] + b"junk" * 9, "", "damaged"),
        (b"1 1:" + b"1" * 5000 + b"\n", ":1:5:", "finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",  # gzip writes the time of day
)
def test_errors_have_a_place(content, place, says, tmp_path):
    path = write(tmp_path, content)
    with pytest.raises(FileError) as caught:
        read_svmlight(path)
    message = str(caught.value)
    assert message.startswith(f"{path}{place}") and says in message and "\n" not in message
    assert message.isascii() or "…" in message


def test_a_line_of_a_later_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module.lines_in_pieces, "__defaults__", (16,))
    with pytest.raises(FileError, match=":1001:3: an index"):
        read_svmlight(write(tmp_path, b"1 1:1 2:0.5\n" * 1000 + b"1 ?\n"))


def test_bounds(tmp_path, monkeypatch):
    path = write(tmp_path, b"1 1:1 9:1\n" * 100)
    with pytest.raises(FileError, match="8 features"):
        read_svmlight(path, n_features=8)
    with pytest.raises(FileError, match="index 0"):
        read_svmlight(write(tmp_path, b"1 0:1\n", "zero"), zero_based=False)
    with pytest.raises(FileError, match="MB of memory"):
        read_svmlight(path, most=1000)
    monkeypatch.setattr("maxmargin.files.source.LONGEST_LINE", 1000)
    monkeypatch.setattr(source_module.lines_in_pieces, "__defaults__", (100,))
    with pytest.raises(FileError, match="one of more than"):
        read_svmlight(write(tmp_path, b"1" * 10_000))


def test_a_small_file_cannot_fill_the_memory(tmp_path):
    """A few kilobytes of gzip that expand to a gigabyte of samples stop at the limit."""
    packed = gzip.compress(b"1\n" * (1 << 24), 9)
    with pytest.raises(FileError, match="MB of memory"):
        read_svmlight(write(tmp_path, packed), most=1 << 24)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_no_file(name, tmp_path):
    with pytest.raises(FileError) as caught:
        read_svmlight(os.path.join(tmp_path, name))
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_svmlight(tmp_path / "data", np.eye(2), [1, 2])
    before = (tmp_path / "data").read_bytes()
    with pytest.raises(ValueError, match="3 targets"):
        write_svmlight(tmp_path / "data", np.eye(2), [1, 2, 3])
    with pytest.raises(FileError, match="cannot be written"):
        write_svmlight(tmp_path / "none" / "data", np.eye(2), [1, 2])
    assert (tmp_path / "data").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
