"""The page in a real browser: points clicked, a fit watched, a step taken."""

from __future__ import annotations

import os
import threading

import pytest

from maxmargin.toy import Toy

from .browser import CHROMIUM, Browser

WHY = "there is no chromium on this machine, or no bash to start it"
pytestmark = pytest.mark.skipif(not CHROMIUM or os.name == "nt", reason=WHY)

TEXT = 'document.getElementById("{}").textContent'
STATE = "document.body?.dataset.state"


@pytest.fixture(scope="module")
def toy():
    with Toy(0) as toy:
        thread = threading.Thread(target=toy.serve_forever, args=(0.01,))
        thread.start()
        yield toy
        toy.shutdown()
        thread.join()


def test_points_are_clicked_and_the_gap_closes(toy):
    with Browser(1280, 800) as page:
        page.open(toy.address + "#solver=smo&example=two+clouds")
        page.wait(f'{STATE} === "done"')
        assert "Converged" in page.run(TEXT.format("verdict"))
        gaps = page.run("state.pictures.map((p) => p.gap)")
        assert len(gaps) > 5 and gaps[-1] < 1e-6 * gaps[0]
        assert page.run("state.pictures.at(-1).support.length") > 1
        assert page.run("[0.0018, 0.123, 1.26, 123].map(duration)") == ["1.8 ms", "120 ms", "1.3 s", "120 s"]

        page.run('document.getElementById("clear").click()')
        box = page.run("(({x, y, width}) => [x, y, width])(document.getElementById('plane').getBoundingClientRect())")
        for pen, across in ((1, 0.3), (2, 0.7)):
            page.run(f"choosePen({pen})")
            page.click(box[0] + across * box[2], box[1] + 0.5 * box[2])
        page.wait(f'state.points.length === 2 && {STATE} === "done" && state.pictures.length > 0')
        assert page.run(TEXT.format("supports")) == "2 of 2"
        assert page.run("state.points.map((p) => Math.round(10 * p.x))") == [-4, 4]

        page.run("document.getElementById('plane').focus()")
        page.key("ArrowRight")
        page.key("Enter")
        page.wait(f'state.points.length === 3 && {STATE} === "done" && state.pictures.at(-1).last')
        page.key("Delete")
        page.wait("state.points.length === 2")

        text = "3 1:0.25 2:0.5\\n5 1:-0.5 2:0.125\\n5 1:1 2:-1\\n"
        page.run(f'loadData(new File(["{text}"], "some.libsvm"))')
        assert page.run("state.points.map((p) => [p.x, p.y, p.c])") == [[0.25, 0.5, 3], [-0.5, 0.125, 5], [1, -1, 5]]
        page.run('loadData(new File(["1 2 3"], "broken"))')
        assert "data:1:3" in page.run(TEXT.format("message")) and page.run("state.points.length") == 3
        page.wait(f'{STATE} === "done"')
        assert page.said == []
        assert all(url.startswith((toy.address, "data:", "blob:", "about:")) for url in page.requested)


def test_steps_one_by_one_on_a_phone_in_the_dark(toy):
    with Browser(390, 844, dark=True) as page:
        page.open(toy.address + "#machine=SVR&solver=mpd&example=a+wave")
        page.wait(f'{STATE} === "done"')
        page.run("document.getElementById('follow').checked = false; changed()")
        for number in (1, 2, 3):
            page.run("document.getElementById('step').click()")
            page.wait(f'{STATE} === "done" && {TEXT.format("steps")} === "{number}"')
        assert "On the way" in page.run(TEXT.format("verdict"))
        assert page.run("document.documentElement.scrollWidth") <= 390  # nothing to scroll sideways
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"
        assert page.run("picture().toDataURL().length") > 10_000
        assert page.said == []
