"""Run the command in this process, as a shell would: arguments in, exit code and both streams out."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from maxmargin.command import main


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(*arguments) -> Run:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    # The first process to need a leaf says that it compiles.
    said = [line for line in err.getvalue().splitlines(keepends=True) if "compiling its inner loops" not in line]
    return Run(code, out.getvalue(), "".join(said))
