"""A few rows take a short way through the checks; what the long way refuses is refused there, too."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from maxmargin import SVC, SVR, LinearSVC
from maxmargin.estimators import checks

X, Y = load_iris(return_X_y=True)
MACHINES = [SVC(), SVC(kernel="linear"), SVR(), LinearSVC()]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array], ids=lambda f: f.__name__)
def test_one_row_is_decided_as_among_many(machine, form, monkeypatch):
    model = machine.fit(form(X), Y)
    few = [model.predict(form(X[k : k + 1])) for k in range(0, 150, 10)]
    monkeypatch.setattr(checks, "FEW_NUMBERS", 0)  # all by the long way
    np.testing.assert_allclose(np.concatenate(few), model.predict(form(X[::10])), rtol=1e-12)


def test_few_rows_of_csr_are_seen():
    model = SVC().fit(X, Y)
    assert checks.few_plain_rows(model, sp.csr_matrix(X[:3])) and checks.few_plain_rows(model, X[:3])


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_what_is_wrong_with_a_row_is_told(machine):
    model = machine.fit(sp.csr_matrix(X), Y)
    wide = sp.csr_matrix(np.ones((1, 5)))
    with pytest.raises(ValueError, match="X has 5 features, but"):
        model.predict(wide)
    row = sp.csr_matrix(X[:1])
    row.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.predict(row)
    row = sp.csr_matrix(X[:1])
    row.indices[0] = 10**6
    with pytest.raises(ValueError, match="indices from 1 to 1000000 where 0 to 3 exist"):
        model.predict(row)
    row = sp.csr_matrix(X[:1])
    row.indptr[1] = 10**6
    with pytest.raises(ValueError, match="indptr up to 1000000"):
        model.predict(row)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_machine_that_was_not_fitted_says_so(machine):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    for rows in (X[:1], sp.csr_matrix(X[:1])):
        with pytest.raises(NotFittedError):
            clone(machine).predict(rows)
