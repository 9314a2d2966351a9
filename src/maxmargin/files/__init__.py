"""Files: samples, models and ranges, in our formats and in those of others.

| what                                     | read                            | write                            |
| ---------------------------------------- | ------------------------------- | -------------------------------- |
| LIBSVM's data, plain or compressed       | `read_svmlight`                 | `write_svmlight`                 |
| those, CSV, TSV, Parquet, .npy           | `read_data`                     |                                  |
| our models                               | `load`                          | `save`                           |
| LIBSVM's and LIBLINEAR's models          | `load_libsvm`, `load_liblinear` | `save_libsvm`, `save_liblinear`  |
| any of these models                      | `load_model`                    | `save_model`                     |
| LIBSVM's and LIBLINEAR's, to predict only | `load_predictor`                |                                  |
| svm-scale's ranges                       | `read_ranges`                   | `write_ranges`                   |
| scikit-learn's fitted estimators         | `from_sklearn`                  | `to_sklearn`                     |

Readers check what they read: a damaged or hostile file is a FileError with one line that says where and what.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .._lazy import imported_when_used
from .errors import FileError
from .parts import LINEAR_NAMES, MisfitError, Predictor
from .source import opened

if TYPE_CHECKING:
    from .archive import load, save
    from .liblinear import load_liblinear, save_liblinear
    from .libsvm import load_libsvm, save_libsvm
    from .probabilities import has_probabilities, libsvm_probabilities
    from .ranges import Ranges, read_ranges, write_ranges
    from .sklearn_models import from_sklearn, to_sklearn
    from .svmlight import Data, read_svmlight, write_svmlight
    from .tables import FORMATS, read_data

# Where each name is defined, imported when it is first used: who predicts with a model file does not wait for what
# trains, nor for scikit-learn.
_HOME = {
    "archive": "load save",
    "liblinear": "load_liblinear save_liblinear",
    "libsvm": "load_libsvm save_libsvm",
    "probabilities": "has_probabilities libsvm_probabilities",
    "ranges": "Ranges read_ranges write_ranges",
    "sklearn_models": "from_sklearn to_sklearn",
    "svmlight": "Data read_svmlight write_svmlight",
    "tables": "FORMATS read_data",
}

__all__ = [
    "FORMATS",
    "Data",
    "FileError",
    "Ranges",
    "from_sklearn",
    "has_probabilities",
    "load",
    "load_liblinear",
    "load_libsvm",
    "load_model",
    "load_predictor",
    "libsvm_probabilities",
    "model_format",
    "read_data",
    "read_ranges",
    "read_svmlight",
    "save",
    "save_liblinear",
    "save_libsvm",
    "save_model",
    "to_sklearn",
    "write_ranges",
    "write_svmlight",
]

MODEL_FORMATS = ("libsvm", "liblinear", "maxmargin")


def model_format(path: str | os.PathLike) -> str:
    """Which of "libsvm", "liblinear" and "maxmargin" a model file is, by how it begins."""
    with opened(path) as file:
        first = file.read(64)
    if first.startswith(b"PK"):
        return "maxmargin"
    word = (first.split() or [b""])[0]
    if word == b"solver_type":
        return "liblinear"
    if word in (b"svm_type", b"kernel_type"):
        return "libsvm"
    raise FileError(path, "a model was asked for; found a file that begins like none; is this a file of data?", 1, 1)


__getattr__ = imported_when_used(__name__, _HOME)


def load_model(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """A fitted estimator from a model file of ours, LIBSVM's or LIBLINEAR's; ``n_features`` as for these."""
    known = model_format(path)
    if known == "maxmargin":
        from .archive import load

        return load(path)
    if known == "libsvm":
        from .libsvm import load_libsvm

        return load_libsvm(path, n_features=n_features)
    from .liblinear import load_liblinear

    return load_liblinear(path, n_features=n_features)


def load_predictor(path: str | os.PathLike) -> Predictor | None:
    """What predicts as the estimator of ``load_model`` does, without scikit-learn; its rows have to be finite.

    None where a file needs the estimator: our own format, and LIBLINEAR's logistic regression.
    """
    known = model_format(path)
    if known == "maxmargin":
        return None
    try:
        if known == "libsvm":
            from .libsvm import read_libsvm

            return Predictor(read_libsvm(path))
        from .liblinear import LOGISTIC, read_liblinear

        parts = read_liblinear(path)
        return None if parts.machine == LOGISTIC else Predictor(parts)
    except MisfitError as problem:
        raise FileError(path, str(problem)) from None


def save_model(model: Any, path: str | os.PathLike, format: str | None = None) -> None:
    """Write a fitted estimator; None: as LIBSVM or LIBLINEAR do, or as ours where the name ends with .mm or .zip."""
    ours = os.fspath(path).lower().endswith((".mm", ".zip"))
    known = format or ("maxmargin" if ours else "liblinear" if type(model).__name__ in LINEAR_NAMES else "libsvm")
    if known not in MODEL_FORMATS:
        raise ValueError(f"a known format was asked for; found {known!r}; choose one of {', '.join(MODEL_FORMATS)}")
    if known == "libsvm":
        from .libsvm import save_libsvm as write
    elif known == "liblinear":
        from .liblinear import save_liblinear as write
    else:
        from .archive import save as write
    write(model, path)
