"""The pictures of a fit, and what the page may ask for."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from maxmargin import SVC, SVR
from maxmargin.solution import Status
from maxmargin.toy.fitting import (
    MACHINES,
    MAX_CLASSES,
    MAX_POINTS,
    RANGES,
    Asked,
    Refused,
    pictures,
    read_points,
    write_points,
)

rng = np.random.default_rng(3)
PLACES = rng.uniform(-0.6, 0.6, (24, 2)).tolist()
POINTS = [[x + 0.6 * (c - 1.5), y, c] for (x, y), c in zip(PLACES, 12 * [1, 2], strict=True)]
THREE = [*POINTS, [0.0, 0.8, 3], [0.1, 0.9, 3]]


def frames(stop=lambda: False, **asked):
    asked = {"machine": "SVC", "points": POINTS, "C": 10.0, "gamma": 2.0, "grid": 16} | asked
    return list(pictures(Asked.read(asked), lambda row: None, stop))


def numbers(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_the_last_picture_is_the_fit_and_its_proof():
    found = frames(solver="smo")
    model = SVC(C=10.0, gamma=2.0, solver="smo").fit(*_samples())
    last = found[-1]
    assert last["converged"] and last["last"] and not any(p["last"] for p in found[:-1])
    assert last["gap"] == pytest.approx(model.certificate_.gap, abs=1e-9)
    assert sorted(last["support"]) == sorted(model.support_)
    side = np.linspace(-1, 1, 16)
    corner = model.decision_function([[side[3], side[5]]])  # column 3, row 5 from below
    assert numbers(last["field"])[5 * 16 + 3] == pytest.approx(corner[0], rel=1e-5)


def test_pictures_on_the_way_are_of_so_many_steps_and_each_has_its_own_proof():
    found = frames(solver="smo")
    assert [p["steps"] for p in found[:5]] == [1, 2, 3, 4, 5]
    with pytest.warns(match="stopped early"):
        model = SVC(C=10.0, gamma=2.0, solver="smo", max_iter=3).fit(*_samples())
    assert found[2]["primal"] == pytest.approx(model.certificate_.primal)
    assert found[2]["dual"] == pytest.approx(model.certificate_.dual)
    assert not found[2]["converged"]
    assert found[0]["gap"] > found[-1]["gap"]
    for picture in found:
        assert picture["gap"] == pytest.approx(picture["primal"] - picture["dual"], abs=1e-9)


def test_one_step_is_one_picture():
    (one,) = frames(solver="mpd", first=7, last=7)
    assert one["steps"] == 7 and one["last"] and not one["converged"]


def test_without_steps_there_is_only_the_end():
    (one,) = frames(every=False)
    assert one["converged"]


def _samples():
    table = np.array(POINTS)
    return table[:, :2], table[:, 2].astype(int)


@pytest.mark.parametrize("name", MACHINES)
def test_every_solver_that_is_offered_takes_its_machine(name):
    machine = MACHINES[name]
    ranges = {"C": 10.0, "gamma": 2.0, "epsilon": 0.1, "nu": 0.3}
    for solver in machine.solvers:
        (found,) = frames(machine=name, solver=solver, every=False, **{k: ranges[k] for k in machine.sliders})
        assert found["converged"], (name, solver, found["status"])
        assert found["support"] and len(found["support"]) == len(found["sizes"])


def test_several_classes_are_drawn_as_labels():
    (found,) = frames(points=THREE, every=False)
    labels = np.frombuffer(base64.b64decode(found["labels"]), np.uint8)
    assert len(labels) == 256 and set(labels) <= {1, 2, 3} and len(set(labels)) > 1
    assert found["problems"] == 3


def test_regression_is_a_curve_with_its_tube():
    (found,) = frames(machine="SVR", epsilon=0.2, every=False)
    table = np.array(POINTS)
    model = SVR(C=10.0, gamma=2.0, epsilon=0.2).fit(table[:, :1], table[:, 1])
    assert numbers(found["curve"]) == pytest.approx(model.predict(np.linspace(-1, 1, 33)[:, None]), rel=1e-3, abs=1e-4)
    assert found["tube"] == 0.2
    (nu,) = frames(machine="NuSVR", nu=0.3, every=False)
    assert 0 < nu["tube"] < 1


def test_a_stop_ends_with_a_picture():
    (found,) = frames(stop=lambda: True, solver="mpd", machine="NuSVR", C=1e3)
    assert found["last"] and found["status"] in (Status.CALLBACK.value, Status.MAX_ITERATIONS.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"machine": "SVM"}, "SVM"),
        ({"machine": ["SVC"]}, "machine"),
        ({"kernel": "callable"}, "kernel"),
        ({"solver": "pcg"}, "solver"),
        ({"C": -1}, "C=-1"),
        ({"C": True}, "C=True"),
        ({"C": "1"}, "C=1"),
        ({"gamma": 1e9}, "gamma"),
        ({"grid": 100_000}, "grid"),
        ({"first": 0}, "first"),
        ({"first": 5, "last": 2}, "last"),
        ({"points": []}, "click"),
        ({"points": None}, "click"),
        ({"points": [[0, 0, 1]] * (MAX_POINTS + 1)}, str(MAX_POINTS)),
        ({"points": [[0, 0]]}, "three numbers"),
        ({"points": [[0, "0", 1]]}, "three numbers"),
        ({"points": [[0, 1e300, 1]]}, "scale"),
        ({"points": [[0, 0, MAX_CLASSES + 1]]}, "classes"),
        ({"points": [[0, 0, 1.5]]}, "classes"),
        ({"points": [[0, 0, 1], [1, 1, 1]]}, "another class"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(change, says):
    with pytest.raises(Refused, match=says):
        frames(**change)
    with pytest.raises(Refused):
        Asked.read([])


def test_sliders_reach_what_is_allowed():
    for name, ends in RANGES.items():
        for end in ends:
            assert Asked.read({"machine": "PSVC" if name == "epsilon" else "NuSVR", "points": POINTS, name: end})


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["SVC", "SVR", "SVDD"])
def test_points_come_back_from_a_file(machine):
    text = write_points({"machine": machine, "points": THREE})
    found = read_points({"machine": machine, "text": text})
    keep = 3 if machine == "SVC" else 2
    assert [p[:keep] for p in found["points"]] == [p[:keep] for p in THREE]
    assert not found["scaled"]


def test_a_file_may_have_any_labels_and_is_scaled_into_the_square():
    found = read_points({"machine": "SVC", "text": "-1 1:100 2:5\n+1 1:300 2:7\n"})
    assert found == {"points": [[-0.95, -0.95, 1], [0.95, 0.95, 2]], "scaled": True}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found 0"),
        ("1 1:1 3:2\n", "found 3"),
        ("1 1:1\n" * (MAX_POINTS + 1), "take a part"),
        ("1 1:x\n", "data:1:5"),
        ("\0", "text was asked for"),
        ("".join(f"{k} 1:0.5\n" for k in range(9)), "at most 6 classes"),
        ("1 999999999999:1\n", "2 features"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        read_points({"machine": "SVC", "text": text})
