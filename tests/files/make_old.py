"""Write the files of this version that later versions must read: ``python tests/files/make_old.py``."""

from __future__ import annotations

import json
from pathlib import Path

from sklearn.datasets import load_iris

from maxmargin import PSVR, SVC, SVR, LinearSVC, OneClassSVM
from maxmargin.files import save
from maxmargin.files.archive import VERSION

HERE = Path(__file__).parent / "old"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    for model in (SVC(), SVR(kernel="linear"), OneClassSVM(nu=0.2), LinearSVC(), PSVR(kernel="linear")):
        model.fit(X, y)
        path = HERE / f"{type(model).__name__}-v{VERSION}.mm"
        save(model, path)
        values = model.decision_function(X[:4]) if hasattr(model, "decision_function") else model.predict(X[:4])
        path.with_suffix(".json").write_text(json.dumps({"X": X[:4].tolist(), "values": values.tolist()}))


if __name__ == "__main__":
    main()
