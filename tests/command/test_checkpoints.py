"""A training that is killed loses seconds; a checkpoint is never damaged, and never one of something else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from command.running import run
from maxmargin import SVC
from maxmargin.files import FileError, write_svmlight
from maxmargin.files.checkpoints import Keeper, fingerprint, read_checkpoint


def hard(n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Labels by chance: as many steps as there can be."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 8)), rng.integers(0, 2, n) * 2 - 1


def test_coefficients_are_kept_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.KEEP_EVERY_SECONDS", 0.0)
    X, y = hard(1500)
    model = SVC(C=100.0, gamma=0.2, solver="decomposition")
    kept: list[np.ndarray] = []
    model._keeper = lambda number, beta: kept.append(beta.copy())
    model.fit(X, y)
    assert len(kept) > 10
    for beta in kept:
        assert beta.shape == (1500,) and np.abs(beta).max() <= 100.0 * (1 + 1e-9)
        assert abs(beta.sum()) < 1e-6 * np.abs(beta).sum() + 1e-9
    assert np.count_nonzero(kept[-1]) == model.n_support_.sum()


def test_samples_that_grow_and_merged_duplicates(tmp_path, monkeypatch):
    """What is kept is of the whole problem, whatever part the solver is working on."""
    monkeypatch.setattr("maxmargin.monitor.KEEP_EVERY_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (3000, 5)).astype(float), rng.integers(0, 2, 3000)
    model = SVC(solver="decomposition")
    shapes = set()
    model._keeper = lambda number, beta: shapes.add((number, beta.shape, bool(np.abs(beta).max() <= 1.0 + 1e-9)))
    model.fit(X, y)
    assert shapes == {(0, (3000,), True)}


def test_a_killed_training_goes_on(tmp_path):
    """Killed at several moments: the checkpoint is whole, and the optimum is the same."""
    X, y = hard()
    write_svmlight(tmp_path / "data", X, y)
    flags = ["-c", "300", "-g", "0.2", "-e", "1e-4", "-j", "1", "--solver", "decomposition"]
    whole = run("train", "--json", *flags, tmp_path / "data", tmp_path / "model")
    expected = json.loads(whole.out)
    script = (
        "import sys, maxmargin.monitor as m, maxmargin.files.checkpoints as c\n"
        "m.KEEP_EVERY_SECONDS = c.EVERY_SECONDS = 0.01\n"
        "from maxmargin.command import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "train", "-q", *flags]
    files = [tmp_path / "data", tmp_path / "killed"]
    path = tmp_path / "checkpoint"
    for moment in (0.0, 0.1):
        how = ["--resume", path] if path.exists() else ["--checkpoint", path]
        before = path.stat().st_mtime_ns if path.exists() else 0
        child = subprocess.Popen([*command, *how, *files])
        deadline = time.monotonic() + 120
        while child.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(moment)
        child.send_signal(signal.SIGKILL) if os.name != "nt" else child.kill()
        child.wait()
        about = fingerprint(SVC(C=300.0, gamma=0.2, shrinking=True), *_read(tmp_path / "data"))
        found = read_checkpoint(path, about)
        assert found.coefficients[0].shape == (1200,)
    resumed = run("train", "--json", *flags, "--resume", path, *files)
    said = json.loads(resumed.out)
    assert said["converged"]
    assert said["problems"][0]["obj"] == pytest.approx(expected["problems"][0]["obj"], rel=1e-4)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("model.")]
    finished = json.loads(run("train", "--json", *flags, "--resume", path, *files).out)
    assert finished["problems"][0]["iterations"] < expected["problems"][0]["iterations"] / 4


def _read(path):
    from maxmargin.files import read_svmlight

    data = read_svmlight(path)
    return data.X, data.y.astype(np.int64)


@pytest.mark.parametrize("machine", [["-s", "3"], ["-s", "2"], ["--linear"], ["-s", "0"]])
def test_every_machine_can_go_on(machine, tmp_path):
    rng = np.random.default_rng(0)
    write_svmlight(tmp_path / "data", rng.normal(size=(150, 3)), rng.integers(0, 3, 150))
    files = [tmp_path / "data", tmp_path / "model"]
    one = json.loads(run("train", "--json", *machine, "--checkpoint", tmp_path / "keep", *files).out)
    if not (tmp_path / "keep").exists():
        pytest.fail("nothing was kept")
    two = json.loads(run("train", "--json", *machine, "--resume", tmp_path / "keep", *files).out)
    assert two["certificate"]["dual"] == pytest.approx(one["certificate"]["dual"], rel=1e-3)


def test_a_checkpoint_of_something_else_is_told(tmp_path):
    X, y = hard(100)
    write_svmlight(tmp_path / "data", X, y)
    write_svmlight(tmp_path / "other", X + 1, y)
    run("train", "-q", "--checkpoint", tmp_path / "keep", tmp_path / "data", tmp_path / "model")
    for flags, data, says in (
        (["-c", "2"], "data", "C=1.0 (now C=2.0)"),
        ([], "other", "another samples"),
        (["-s", "3"], "data", "another machine"),
    ):
        found = run("train", "-q", *flags, "--resume", tmp_path / "keep", tmp_path / data, tmp_path / "model")
        assert found.code == 1 and says in found.err and found.err.count("\n") == 1


def test_a_damaged_checkpoint_is_told(tmp_path):
    X, y = hard(50)
    about = fingerprint(SVC(), X, y)
    keeper = Keeper(tmp_path / "keep", about)
    keeper(0, np.ones(50))
    good = (tmp_path / "keep").read_bytes()
    assert read_checkpoint(tmp_path / "keep", about).coefficients[0].tolist() == [1.0] * 50
    for content in (b"", good[: len(good) // 2], good[10:], good.replace(b'"seconds": ', b'"seconds":-')):
        (tmp_path / "keep").write_bytes(content)
        with pytest.raises(FileError) as caught:
            read_checkpoint(tmp_path / "keep", about)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_writes_the_model_and_ends_with_130(tmp_path):
    X, y = hard()
    write_svmlight(tmp_path / "data", X, y)
    script = (
        "import sys, maxmargin.monitor as m, maxmargin.files.checkpoints as c\n"
        "m.KEEP_EVERY_SECONDS = c.EVERY_SECONDS = 0.01\n"
        "from maxmargin.command import main\nsys.exit(main(sys.argv[1:]))"
    )
    flags = ["-c", "1e4", "-e", "1e-13", "-j", "1", "--checkpoint", tmp_path / "keep"]
    child = subprocess.Popen(
        [sys.executable, "-c", script, "train", *flags, tmp_path / "data", tmp_path / "m"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "keep").exists():  # then the solver is at work
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert (tmp_path / "m").exists() and "Total nSV" in out
