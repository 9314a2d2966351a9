"""Readers and files that grow towards code not seen before: ``cd tests && PYTHONPATH=../src python -m fuzz.guided``.

atheris (``pip install atheris``) watches which lines of the readers a file reaches, and keeps the files that reach new
ones. It sees Python alone, so that leaves run uncompiled. A failure leaves its input in the folder
``fuzz-failures`` and ends with exit code 1. Without atheris nothing is done, and said so.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SLOW_SECONDS = 60  # of one input, watched by atheris: lines that are counted take several times as long
MOST_MEGABYTES = 4096  # of the process
LONGEST = 1 << 16  # bytes of an input


def run_all(names: list[str], seconds: int) -> int:
    """Each reader in a process of its own, since atheris ends the one that it is in."""
    if importlib.util.find_spec("atheris") is None:
        print("skipped: atheris is not installed; pip install atheris")
        return 0
    if not names:
        from .targets import targets

        names = list(targets())
    failed = []
    for name in names:
        print(f"{name}: {seconds} s", flush=True)
        command = [sys.executable, "-m", "fuzz.guided", "--reader", name, "--seconds", str(seconds)]
        if subprocess.run(command, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else f"{len(names)} readers, no failure")
    return 1 if failed else 0


def run_one(name: str, seconds: int) -> None:
    """Fuzz one reader; atheris ends the process."""
    import atheris

    import maxmargin.estimators  # noqa: F401 - not watched: files are read elsewhere

    with atheris.instrument_imports(include=["maxmargin"]):
        from .targets import targets
    target = targets()[name]
    kept = Path("fuzz-failures")
    kept.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    (folder / "corpus").mkdir()
    for number, seed in enumerate(target.seeds):
        (folder / "corpus" / str(number)).write_bytes(seed)
    limits = [f"-max_total_time={seconds}", f"-timeout={SLOW_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}"]
    options = [f"-max_len={LONGEST}", f"-artifact_prefix={kept}{os.sep}{name}-", "-print_final_stats=1"]
    atheris.Setup(
        [sys.argv[0], *limits, *options, str(folder / "corpus")],
        lambda content: target.check(folder / "input", content) and None,
    )
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", help="this one alone")
    parser.add_argument("--only", nargs="*", default=[], help="names of readers")
    parser.add_argument("--seconds", type=int, default=120, help="for each reader")
    options = parser.parse_args()
    if options.reader:
        run_one(options.reader, options.seconds)
    return run_all(options.only, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
