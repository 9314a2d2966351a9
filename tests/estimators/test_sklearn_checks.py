"""scikit-learn's own checks of an estimator, all of them, with no failure expected.

scikit-learn's support vector machines fail some of these (weights as copies, class weights of NuSVC).
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    PSVC,
    PSVR,
    SVC,
    SVDD,
    SVR,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PSVMSelector,
)

EXPECTED_FAILURES: dict[str, str] = {}  # by name of a check; stays empty

MACHINES = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="precomputed"),
    SVC(loss="squared_hinge"),
    SVC(loss="huber"),
    SVC(fit_intercept=False),
    SVC(expansion=20),
    SVC(expansion=20, expansion_choice="greedy", loss="squared_hinge"),
    SVC(probability=True),
    NuSVC(),
    NuSVC(kernel="linear"),
    NuSVC(probability=True),
    SVR(),
    SVR(kernel="linear"),
    SVR(loss="squared_epsilon_insensitive"),
    SVR(expansion=20),
    SVR(expansion=20, expansion_choice="greedy"),
    NuSVR(),
    NuSVR(kernel="linear"),
    OneClassSVM(),
    OneClassSVM(kernel="linear"),
    SVDD(),
    SVDD(kernel="linear"),
    LinearSVC(),
    LinearSVC(loss="hinge"),
    LinearSVC(loss="huber"),
    LinearSVC(intercept_scaling=1.0),
    LinearSVC(penalty="l1"),
    LinearSVC(multi_class="crammer_singer"),
    LinearOneClassSVM(),
    LinearSVR(),
    LinearSVR(loss="squared_epsilon_insensitive"),
    LinearSVR(intercept_scaling=1.0),
    PSVC(),
    PSVC(kernel="dyadic"),
    PSVR(),
    PSVR(kernel="dyadic"),
    PSVMSelector(),
    PSVMSelector(n_features_to_select=2),
]


@parametrize_with_checks(MACHINES, expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_passes_every_check(estimator, check):
    check(estimator)


def test_no_failure_is_expected():
    assert not EXPECTED_FAILURES


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_default_parameters_are_enough(machine):
    assert type(machine)().get_params().keys() == machine.get_params().keys()
