"""The command ``maxmargin``: train, predict, scale, cv, info, report, toy and more from a shell, with LIBSVM's flags.

What a command needs is imported when it runs, so that help and wrong flags are answered at once.

| exit code | means                                              |
| --------- | -------------------------------------------------- |
| 0         | done                                               |
| 1         | it failed, and one line on the error stream says why |
| 2         | the command was not understood                     |
| 130       | Ctrl-C                                             |
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from typing import Any

__all__ = ["main"]

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    from .app import run
    from .flags import from_libsvm

    given = sys.argv[1:] if arguments is None else arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return run(from_libsvm(given))
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # who read our output has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED if os.name == "nt" else 128 + signal.SIGPIPE
    except MemoryError as problem:
        _say(f"error: more memory is needed than there is ({problem or 'no more is known'}); use fewer samples")
        return FAILED
    except (ValueError, TypeError, OSError, ImportError) as problem:
        if os.environ.get("MAXMARGIN_TRACEBACK"):
            raise
        _say(f"error: {problem}" if str(problem) else f"error: {type(problem).__name__}")
        return FAILED


def _warn(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    """A warning is a line, too: where in the code it arose is of no use here."""
    _say(f"warning: {message}")


def _say(text: str) -> None:
    """One line on the error stream."""
    with contextlib.suppress(OSError):
        print(f"maxmargin: {' '.join(text.split())}", file=sys.stderr)
