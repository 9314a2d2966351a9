"""What is read, files to begin with, and what must hold: a result that can be used, or one line that says why not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from maxmargin import PSVC, SVC, SVR, LinearSVC, OneClassSVM
from maxmargin.files import (
    FileError,
    load,
    load_liblinear,
    load_libsvm,
    load_model,
    read_data,
    read_ranges,
    read_svmlight,
    save,
    save_liblinear,
    save_libsvm,
    write_svmlight,
)
from maxmargin.files.checkpoints import Keeper, fingerprint, read_checkpoint

MOST = 1 << 26  # bytes that samples may take here
FEW = 64  # features up to which a model is asked to predict
WORDS = [
    *(b"nan", b"inf", b"-1", b"0", b"1e999", b"1e-999", b"99999999999999999999", b"-9223372036854775808"),
    *(b"4294967296", b"2147483647", b":", b"::", b" ", b"\t", b"\n", b"\r\n", b"#", b"\0", b"\xff", b"qid:", b"qid:1"),
    *(b"nr_class 1000000000", b"total_sv 1000000000", b"nr_sv", b"label", b"rho", b"probA", b"SV", b"w", b"x"),
    *(b"1:1", b"0:1", b"0x10", b"1,2", b"0." + b"1" * 400, b"(1000000000000,)", b"'descr': '|O'", b"PK\x05\x06"),
    *(b'{"$array": 7}', b'{"$array": 0}', b'{"$dict": []}', b'{"$float": "nan"}', b"[", b"{", b'"', b"$csr", b"null"),
]


@dataclass(frozen=True)
class Target:
    """A reader, files that it reads, and what is done with its result."""

    read: Callable[[Path], object]
    seeds: list[bytes]

    def check(self, path: Path, content: bytes) -> bool:
        """Whether the content could be read; an exception that is no FileError of one line is a bug."""
        path.write_bytes(content)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self.read(path)
        except FileError as problem:
            message = str(problem)
            assert "\n" not in message and len(message) < 2000 and message.startswith(str(path)), message
            return False
        return True


def _use(model) -> None:
    """Predictions with a model that was read: whatever they are, they are made, or refused in words."""
    d = model.n_features_in_
    if d > FEW:
        return
    X = np.linspace(-1.0, 1.0, 3 * d).reshape(3, d)
    try:
        model.predict(X)
        if hasattr(model, "predict_proba"):
            model.predict_proba(X)
    except (ValueError, MemoryError) as refused:  # a kernel of numbers that overflow
        assert str(refused), repr(refused)


def _bytes(write: Callable[[str], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seed")
        write(path)
        return Path(path).read_bytes()


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: dict[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _with_header(files: list[bytes]):
    """Reads a model of ours whose header is the file: what the checksums of an archive would keep from the reader."""

    def read(path: Path):
        content = path.read_bytes()
        near = max(files, key=lambda file: len(os.path.commonprefix([_members(file)["header.json"], content])))
        _packed(_members(near) | {"header.json": content}, path)
        return load(path)

    return read


def _with_array(files: list[bytes]):
    """Reads a model of ours, one of whose arrays is the file."""

    def read(path: Path):
        content = path.read_bytes()
        members = _members(files[len(content) % len(files)])
        names = [name for name in members if ".npy" in name]
        _packed(members | {names[sum(content) % len(names)]: content}, path)
        return load(path)

    return read


def _read_checkpoint(about):
    return lambda path: read_checkpoint(path, about)


def targets() -> dict[str, Target]:
    """All readers, by name."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::10], y[::10]
    plain = _bytes(lambda path: write_svmlight(path, X, y))
    hand = b"1 qid:3 1:0.5 3:-2e3 # a comment\n-1\t2:1 \r\n\n3.5 4:.25 9:12345678901234567890.5\n"
    models = [SVC().fit(X, y), SVC(kernel="linear").fit(X, y > 0), SVR(kernel="poly").fit(X, y), OneClassSVM().fit(X)]
    pre = SVC(kernel="precomputed").fit(X @ X.T, y)
    texts = [_bytes(lambda path, m=m: save_libsvm(m, path)) for m in (*models, pre)]
    texts.append(texts[1].replace(b"nr_sv", b"probA -1\nprobB 0.5\nnr_sv"))
    straight = (LinearSVC().fit(X, y), LinearSVC().fit(X, y > 0))
    linear = [_bytes(lambda path, m=m: save_liblinear(m, path)) for m in straight]
    linear.append(linear[1].replace(b"L2R_L2LOSS_SVC_DUAL", b"L2R_LR"))
    own = [_bytes(lambda path, m=m: save(m, path)) for m in (*models, LinearSVC().fit(X, y), PSVC().fit(X, y))]
    about = fingerprint(SVC(), X, y)
    table = b"a,b,kind\n1,2,yes\n3.5,4,no\n-1,1e3,yes\n"
    array = io.BytesIO()
    np.save(array, np.column_stack([X, y]))

    def checkpoint(path: str) -> None:
        Keeper(path, about)(0, np.ones(15))

    def samples(path: Path) -> None:
        read_svmlight(path, most=MOST)

    def used(read):
        return lambda path: _use(read(path))

    found = {
        "svmlight": Target(samples, [plain, hand]),
        "gzip": Target(samples, [gzip.compress(plain), gzip.compress(hand)]),
        "bzip2": Target(samples, [bz2.compress(plain)]),
        "xz": Target(samples, [lzma.compress(plain)]),
        "libsvm": Target(used(load_libsvm), texts),
        "liblinear": Target(used(load_liblinear), linear),
        "model": Target(used(load_model), [*texts, *linear, *own]),
        "archive": Target(used(load), own),
        "header": Target(used(_with_header(own)), [_members(one)["header.json"] for one in own]),
        "arrays": Target(used(_with_array(own)), [v for one in own for k, v in _members(one).items() if ".npy" in k]),
        "checkpoint": Target(_read_checkpoint(about), [_bytes(checkpoint)]),
        "ranges": Target(read_ranges, [b"y\n0 1\n-3 4\nx\n-1 1\n1 0 1\n3 -2 5.5\n"]),
        "npy": Target(lambda path: read_data(path, format="npy"), [array.getvalue()]),
    }
    try:
        import pandas
    except ImportError:
        return found
    found["csv"] = Target(lambda path: read_data(path, format="csv"), [table, b"1,2,3\n4,5,6\n"])
    found["tsv"] = Target(lambda path: read_data(path, format="tsv"), [table.replace(b",", b"\t")])
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return found
    stored = [
        _bytes(pandas.read_csv(io.BytesIO(table)).to_parquet),
        _bytes(pandas.DataFrame({"a": X[:, 0], "y": y}).to_parquet),
    ]
    found["parquet"] = Target(lambda path: read_data(path, format="parquet"), stored)
    return found


def damaged(seeds: list[bytes], rng: random.Random) -> bytes:
    """A file with a few wounds: bytes and words changed, put in, left out, repeated, exchanged, cut off."""
    content = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8, 30])):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice([1, 1, 2, 4, 16, 200]))
        wound = rng.randrange(8)
        if wound == 0 and at < len(content):
            content[at] = rng.randrange(256)
        elif wound == 1 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif wound == 2:
            content[at:at] = rng.choice(WORDS)
        elif wound == 3:
            content[at:end] = rng.choice(WORDS)
        elif wound == 4:
            del content[at:end]
        elif wound == 5:
            content[at:at] = content[at:end] * rng.choice([1, 2, 50])
        elif wound == 6:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) + 1)
            content[at:end] = other[start : start + (end - at) * 2]
        else:
            del content[at:]
    return bytes(content)
