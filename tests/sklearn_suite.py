"""scikit-learn's own tests of its svm module, with our classes in place of its own.

Run it with ``python tests/sklearn_suite.py``; words after it go to pytest. Nothing of scikit-learn's is copied: its
installed test modules are run, and the names that they use are ours. What fails must be in DIFFERENT, with the reason
that docs/differences.md gives; what is in it and passes is told, too. The exit code is 0 if all is as expected. The
list is written for scikit-learn 1.9.
"""

from __future__ import annotations

import importlib.util
import sys

import pytest
from sklearn import svm

import maxmargin

NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR", "l1_min_c")
MODULES = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse", "sklearn.svm.tests.test_bounds")

# Tests of scikit-learn's that our classes do not pass, by the reason.
DIFFERENT = {
    "the words of a message": [
        "test_svc_nonfinite_params",
        "test_hasattr_predict_proba",
        "test_linearsvc_parameters[42-True-l1-hinge]",
        "test_linearsvc_parameters[42-False-l1-hinge]",
    ],
    "more can be fitted": [
        "test_linearsvc_parameters[42-True-l1-squared_hinge]",
        "test_linearsvc_parameters[42-False-l2-hinge]",
    ],
    "negative weights are an error": [
        "test_negative_sample_weights_mask_all_samples",
        "test_negative_weights_svc_leave_just_one_label",
        "test_negative_weights_svc_leave_two_labels",
        "test_negative_weight_equal_coeffs",
    ],
    "probabilities are not deprecated": [
        "test_probability_raises_futurewarning",
        "test_svc_nusvc_probA_probB_deprecated",
    ],
    "a kernel function gets the support vectors alone": ["test_custom_kernel_not_array_input[SVC]"],
    "a kernel function that returns the wrong shape is told by fit": ["test_svr_errors"],
    "no ties are left at the optimum": ["test_svc_ovr_tie_breaking[42-NuSVC]"],
    "sparse samples for a machine that was fitted on dense ones": ["test_bad_input"],
    "solved in fewer steps than the test allows": [
        "test_libsvm_convergence_warnings",
        "test_linear_svm_convergence_warnings",
        "test_timeout",
    ],
    "private attributes": ["test_tweak_params", "test_svc_raises_error_internal_representation"],
    "the intercept of a linear machine is free of a penalty": [
        "test_sparse_liblinear_intercept_handling",
        "test_dense_liblinear_intercept_handling",
    ],
    "no weight is within tol of the optimum": [
        f"test_l1_min_c[{intercept}-squared_hinge-{form}]"
        for intercept in ("no-intercept", "fit-intercept")
        for form in ("csr_matrix", "csr_array", "array")
    ],
}


class Recorder:
    """What failed, by the name of the test without its parameters."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.passed: set[str] = set()

    def pytest_runtest_logreport(self, report) -> None:
        name = report.nodeid.split("::")[-1]
        if report.failed:
            self.failed[name] = str(report.longreprtext).strip().splitlines()[-1]
        elif report.when == "call" and report.passed:
            self.passed.add(name)


def patched() -> list[str]:
    """Put our classes where the test modules will import them from; the files of these modules."""
    for name in NAMES:
        setattr(svm, name, getattr(maxmargin, name))
    return [importlib.util.find_spec(name).origin for name in MODULES]


def main(words: list[str]) -> int:
    files, recorder = patched(), Recorder()
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "--disable-warnings", "-c", "/dev/null", *words]
    pytest.main([*options, *files], plugins=[recorder])
    known = {name for names in DIFFERENT.values() for name in names}
    unknown = {name: why for name, why in recorder.failed.items() if not _is_in(name, known)}
    mended = {name for name in known if not any(_same(name, failed) for failed in recorder.failed)}
    print(f"\n{len(recorder.passed)} passed, {len(recorder.failed)} failed, {len(unknown)} of them without a reason")
    for name, why in unknown.items():
        print(f"  unexpected: {name}: {why}")
    for name in sorted(mended):
        print(f"  passes now: {name}")
    return 1 if unknown or mended else 0


def _same(known: str, name: str) -> bool:
    return name == known or name.startswith(f"{known}[")


def _is_in(name: str, known: set[str]) -> bool:
    return any(_same(one, name) for one in known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
