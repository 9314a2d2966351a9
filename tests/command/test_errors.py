"""What a new user gets wrong, and the one line that answers."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from command.running import run

GOOD = b"1 1:0.5 2:1\n-1 1:-0.5 3:2\n1 2:0.25\n-1 3:1\n1 1:2\n-1 3:0.5\n"
MODEL = (
    b"svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\nnr_sv 1 1\nSV\n"
    b"1 1:1\n-1 2:1\n"
)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00"


def npy(array: np.ndarray) -> bytes:
    import io

    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


FILES = {
    "good": GOOD,
    "model": MODEL,
    "empty": b"",
    "png": PNG,
    "words": b"hello world\nthis is text\n",
    "comma": b"1,2,3\n4,5,6\n",
    "halves": b"0.5 1:1\n1.5 1:2\n0.5 1:3\n",
    "from_0": b"1 0:1 1:2\n-1 1:1\n",
    "one_class": b"1 1:1\n1 2:1\n",
    "nan": b"1 1:1\n-1 2:nan\n",
    "infinite": b"1 1:1\n-1 2:1e999\n",
    "unsorted": b"1 1:1\n-1 3:1 2:1\n",
    "twice": b"1 1:1 1:2\n",
    "no_label": b"1:1 2:1\n",
    "no_value": b"1 1: 2:1\n",
    "negative": b"1 -1:1\n",
    "huge": b"1 1:1\n-1 99999999999:1\n",
    "endless": b"1 1:1\n-1 99999999999999999999999999:1\n",
    "no_features": b"1\n-1\n",
    "cut.gz": gzip.compress(GOOD * 50)[:-9],
    "table.csv": b"a,b,label\n1,2,yes\n3,oops,no\n",
    "gap.csv": b"a,b,label\n1,,1\n3,4,0\n",
    "ragged.csv": b"a,b,label\n1,2,1\n3,4,0,9,9\n",
    "header.csv": b"a,b,label\n",
    "classes.csv": b"a,b,label\n1,2,yes\n3,1,no\n2,2,yes\n0,1,no\n",
    "other.csv": b"a,c,label\n1,2,yes\n3,1,no\n",
    "flat.npy": npy(np.arange(5.0)),
    "object.npy": npy(np.array([[1, "a"], [2, "b"]], dtype=object)),
    "cut.npy": npy(np.ones((4, 3)))[:-10],
    "cut_model": MODEL[:-20],
    "bad_model": MODEL.replace(b"rbf", b"rbff"),
    "range": b"x\n-1 1\n1 0 1\n",
    "bad_range": b"x\n-1 1\none 0 1\n",
    "serials": b"1 0:1 1:1 2:0\n-1 0:9 1:0 2:1\n",
    "serials_without": b"1 1:1 2:0\n-1 1:0 2:1\n",
    "zip.mm": b"PK\x03\x04 not a zip at all",
}

CASES = [
    # flags and commands
    ("tran good", 2, "tran"),
    ("train", 2, "DATA"),
    ("train good out --no-such-flag", 2, "--no-such-flag"),
    ("train -s 9 good out", 2, "0..4"),
    ("train -s one good out", 2, "-s"),
    ("train -t 7 good out", 2, "-t"),
    ("train -c", 2, "-c"),
    ("train -c ten good out", 2, "-c"),
    ("train -h 2 good out", 2, "-h"),
    ("train --linear -s 0 good out", 2, "logistic"),
    ("train --linear -s 8 good out", 2, "21"),
    ("train -w1 many good out", 2, "many"),
    ("train -s 3 -w1 2 good out", 2, "has none"),
    ("train -B 1 good out", 2, "-B and -R are for --linear"),
    ("train --linear -g 2 good out", 2, "-t and -g are of kernels"),
    ("cv -t 0 --log2g -1,1,1 good", 2, "kernels that have a gamma"),
    ("train --model-format xml good out", 2, "xml is none of libsvm, liblinear, maxmargin"),
    ("train --model-format liblinear good out", 2, "holds no SVC; use libsvm or maxmargin"),
    ("train --linear --model-format libsvm good out", 2, "holds no LinearSVC; use liblinear or maxmargin"),
    ("train -v 1 good", 2, "two folds"),
    ("train -v 100 good", 1, "100 folds"),
    ("scale -s a -r b good", 2, "together"),
    ("predict good model", 0, ""),  # OUTPUT may be left out
    ("predict good", 2, "MODEL"),
    ("cv --log2c 1,2 good", 2, "FROM,TO,STEP"),
    # values that no machine takes
    ("train -c -1 good out", 1, "C=-1"),
    ("train -n 2 -s 1 good out", 1, "nu"),
    ("train --solver magic good out", 1, "magic"),
    ("train --time-limit 0 good out", 1, "time_limit"),
    ("scale -l 2 -u 1 good", 1, "-l below -u"),
    # paths
    ("train missing out", 1, "no such file"),
    ("train . out", 1, "folder"),
    ("train good no/such/folder/out", 1, "no folder"),
    ("train good .", 1, "cannot be written"),
    ("predict good missing", 1, "no such file"),
    ("info missing", 1, "no such file"),
    ("predict good model .", 1, "a file to write to was asked for; found a folder"),
    ("train - ", 1, "MODEL"),
    # data
    ("train empty out", 1, "empty file"),
    ("train png out", 1, "png:3:1: text was asked for"),
    ("train words out", 1, "words:1:1: a number"),
    ("train comma out", 1, "--format csv"),
    ("train one_class out", 1, "only 1"),
    ("train halves out", 1, "labels of classes were asked for; found 0.5; use -s 3"),
    ("train --linear halves out", 1, "found 0.5; use -s 11"),
    ("train --linear from_0 out", 1, "indices from 1 were asked for by liblinear's format; found index 0"),
    ("train nan out", 1, "nan:2:6: a finite number"),
    ("train infinite out", 1, "infinite:2:6: a finite number"),
    ("train unsorted out", 1, "unsorted:2:8: ascending"),
    ("train twice out", 1, "twice:1:7: ascending"),
    ("train no_label out", 1, "no_label:1:2:"),
    ("train no_value out", 1, "no_value:1:5:"),
    ("train negative out", 1, "negative:1:3: an index"),
    ("train huge out", 1, "99999999999 features"),
    ("train --linear huge out", 1, "99999999999"),
    ("train endless out", 1, "endless:2:4: an index below"),
    ("train no_features out", 1, "found none in any line"),
    ("train cut.gz out", 1, "damaged"),
    ("train table.csv out", 1, "table.csv:3:2: numbers were asked for; found 'oops'"),
    ("train gap.csv out", 1, "gap.csv:2: finite"),
    ("train ragged.csv out", 1, "ragged.csv"),
    ("train header.csv out", 1, "0 rows"),
    ("train --target nothing classes.csv out", 1, "a, b, label"),
    ("train --target 7 classes.csv out", 1, "3 columns"),
    ("train classes.csv out", 1, "found 'yes'; name the model with .mm, or add --model-format maxmargin"),
    ("train -s 3 classes.csv out", 1, "found 'yes'; name another column with --target"),
    ("scale classes.csv", 1, "found 'yes'; LIBSVM's format has no names"),
    ("train --format xml good out", 1, "xml"),
    ("train flat.npy out", 1, "two columns"),
    ("train object.npy out", 1, "matrix of numbers"),
    ("train cut.npy out", 1, "cut off"),
    ("train -t 4 serials_without out", 1, "0:serial"),
    ("train -t 4 serials out", 1, "serials:2: a serial of 1"),
    # models and ranges
    ("predict good good", 1, "good:1:1: a model was asked for"),
    ("predict good png", 1, "a model was asked for"),
    ("predict good empty", 1, "a model was asked for"),
    ("predict good cut_model", 1, "cut_model"),
    ("predict good bad_model", 1, "bad_model:2: kernel_type"),
    ("predict good zip.mm", 1, "damaged"),
    ("predict other.csv named.mm", 1, "a column 'b' was asked for by the model; found a, c"),
    ("predict -b 1 good model", 1, "train it with -b 1"),
    ("info bad_model", 1, "bad_model:2:"),
    ("scale -r good good", 1, "x was asked for"),
    ("scale -r bad_range good", 1, "bad_range:3: 3 finite numbers"),
    ("train --resume good good out", 1, "a checkpoint was asked for"),
    ("train --resume missing good out", 1, "missing"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    assert run("train", "-q", path / "classes.csv", path / "named.mm").code == 0
    return path


def test_there_are_enough_of_them():
    assert len({words for words, *_ in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize(("words", "code", "says"), CASES, ids=[words for words, *_ in CASES])
def test_one_line_says_what_is_wrong(words, code, says, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    found = run(*words.split())
    assert found.code == code, found
    said = found.err if code else ""
    assert says in said
    if code:
        assert said.count("\n") == 1 and said.startswith("maxmargin: "), said
        assert "Traceback" not in said
        assert not (folder / "out").exists()
