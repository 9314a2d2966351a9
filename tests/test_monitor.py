"""The monitor: limits, callbacks, Ctrl-C, history and progress."""

import math
import os
import signal
import threading

import numpy as np
import pytest

from maxmargin.monitor import Monitor, Stopped
from maxmargin.solution import Certificate, History, Solution, Status


def test_nothing_stops_by_itself():
    monitor = Monitor()
    assert monitor.step(1, -1.0, 0.5) is None
    assert monitor.stop_now() is None
    assert len(monitor.history) == 1


def test_history_keeps_what_was_told():
    monitor = Monitor()
    monitor.step(1, -1.0, 0.5, active=10, kernel_evals=100, hit_rate=0.25)
    monitor.step(2, -2.0, 0.25, active=8, kernel_evals=200, hit_rate=0.5)
    for name, values in {
        "iteration": [1, 2],
        "objective": [-1.0, -2.0],
        "violation": [0.5, 0.25],
        "active": [10, 8],
        "kernel_evals": [100, 200],
        "hit_rate": [0.25, 0.5],
    }.items():
        np.testing.assert_array_equal(monitor.history.column(name), values)
    assert (np.diff(monitor.history.column("seconds")) >= 0).all()
    with pytest.raises(ValueError):
        monitor.history.column("weather")


def test_time_limit():
    monitor = Monitor(time_limit=1e-9)
    assert monitor.step(1, 0.0, 1.0) is Status.TIME_LIMIT
    assert monitor.stop_now() is Status.TIME_LIMIT
    assert Monitor(time_limit=1000.0).step(1, 0.0, 1.0) is None


def test_a_limit_is_reached_before_by_what_the_end_takes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("maxmargin.monitor.clock", lambda: now[0])
    for end, due in ((0.0, 10.0), (2.0, 8.0), (100.0, 5.0)):  # of a limit no more than half is kept back
        now[0] = 0.0
        monitor = Monitor(time_limit=10.0)
        part = monitor.part("one")
        part.reserve(float, end)
        now[0] = due - 0.1
        assert part.stop_now() is None
        part.foresee(0.1)
        with pytest.raises(Stopped):
            part.foresee(0.3)
        now[0] = due + 0.1
        assert part.inner().stop_now() is Status.TIME_LIMIT


def test_what_a_part_of_a_problem_takes_to_end_is_a_share_of_what_the_whole_takes():
    monitor = Monitor(time_limit=10.0)
    monitor.inner(3.0).inner(0.5).reserve(lambda beta: beta, 2.0)
    assert monitor.due == monitor.deadline - 3.0
    monitor.end(1, Certificate(1.0, 1.0, 0.0, 0.0, 0.0, 1.0), 0)
    assert monitor.due == monitor.deadline  # another problem has not said anything yet


def test_nobody_is_asked_how_long_the_end_takes_without_a_limit():
    Monitor().reserve(lambda beta: pytest.fail("asked"), 1.0)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(limit):
    with pytest.raises(ValueError, match="time_limit=.* was asked for"):
        Monitor(time_limit=limit)


def test_callback_sees_each_step_and_may_stop(monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", math.inf)
    seen = []
    monitor = Monitor(callback=lambda step: seen.append(step) or step["iteration"] == 2)
    assert monitor.step(1, -1.0, 0.5) is None
    assert monitor.step(2, -2.0, 0.4) is Status.CALLBACK
    assert monitor.step(3, -3.0, 0.3) is Status.CALLBACK
    assert [step["iteration"] for step in seen] == [1, 2]
    assert set(seen[0]) == set(History.columns)


def test_callback_is_asked_between_long_steps_with_what_the_last_one_said(monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", -1.0)  # every step is long
    seen = []
    monitor = Monitor(callback=lambda step: seen.append(step) or len(seen) == 5)
    part = monitor.part("one")
    monitor.look()
    assert (seen[0]["iteration"], math.isnan(seen[0]["objective"]), len(monitor.history)) == (0, True, 0)
    seen[0]["score"] = 1.0  # belongs to no step
    part.step(1, -1.0, 0.5)  # and looks
    assert [step["iteration"] for step in seen] == [0, 1, 1]
    assert seen[2] == seen[1] | {"seconds": seen[2]["seconds"]}
    part.inner().look()
    with pytest.raises(Stopped) as stop:
        part.inner().foresee(0.0)
    assert stop.value.reason is Status.CALLBACK
    assert len(seen) == 5 and len(part.history) == 1 and not part.history.trace


def test_callback_is_asked_between_steps_only_if_they_are_long():
    seen = []
    monitor = Monitor(callback=seen.append)
    monitor.stop_now()
    monitor._called_at = -math.inf
    monitor.stop_now()
    monitor.stop_now()
    assert len(seen) == 1


def test_an_error_in_a_callback_is_not_swallowed():
    def broken(step):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Monitor(callback=broken).step(1, 0.0, 1.0)
    monitor = Monitor(callback=broken)
    monitor._called_at = -math.inf
    with pytest.raises(ZeroDivisionError):
        monitor.look()


def test_first_ctrl_c_asks_second_insists():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Monitor() as monitor:
        assert monitor.step(1, 0.0, 1.0) is None
        os.kill(os.getpid(), signal.SIGINT)
        assert monitor.step(2, 0.0, 1.0) is Status.INTERRUPTED
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one must raise")
    assert signal.getsignal(signal.SIGINT) is before


def test_handler_is_put_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), Monitor():
        assert signal.getsignal(signal.SIGINT) is not before
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_threads_other_than_the_main_one_leave_signals_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with Monitor() as monitor:
            seen.extend([signal.getsignal(signal.SIGINT), monitor.step(1, 0.0, 1.0)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, None]


def test_parts_share_clock_callback_and_stop_but_not_history(monkeypatch):
    monkeypatch.setattr("maxmargin.monitor.CALL_EVERY_SECONDS", math.inf)
    seen = []
    whole = Monitor(callback=lambda step: seen.append(step) or len(seen) == 3)
    one, two = whole.part("one"), whole.part("two")
    assert one.step(1, 0.0, 1.0) is None
    assert two.step(1, 0.0, 1.0) is None
    assert two.step(2, 0.0, 1.0) is Status.CALLBACK
    assert one.stop_now() is Status.CALLBACK
    assert whole.stop_now() is Status.CALLBACK
    assert (len(one.history), len(two.history)) == (1, 2)
    assert one.started == whole.started


def test_a_part_is_interrupted_with_the_whole():
    with Monitor() as whole:
        part = whole.part("first")
        os.kill(os.getpid(), signal.SIGINT)
        assert part.step(1, 0.0, 1.0) is Status.INTERRUPTED


def test_a_part_ends_with_the_time_of_the_whole():
    assert Monitor(time_limit=1e-9).part("first").stop_now() is Status.TIME_LIMIT


def test_nothing_is_printed_unless_asked(capfd):
    with Monitor() as monitor:
        monitor.step(1, -1.0, 0.5)
    assert capfd.readouterr() == ("", "")


def test_progress_goes_to_the_error_stream(capsys):
    with Monitor(verbose=True, label="rest: ") as monitor:
        monitor.step(17, -1.25, 0.5, active=42)
    out, err = capsys.readouterr()
    assert out == ""
    for text in ("rest: ", "step 17", "objective 1.25", "active 42"):
        assert text in err


def test_statuses_are_sentences():
    for status in Status:
        assert len(status.value.split()) >= 4
        assert status.converged == (status is Status.CONVERGED)


def test_certificate_reads_like_a_sentence():
    certificate = Certificate(primal=10.0, dual=9.5, gap=0.5, violation=1e-3, infeasibility=0.0)
    assert certificate.relative_gap == pytest.approx(0.05)
    assert str(certificate) == "primal 10, dual 9.5, gap 0.5 (0.05 of the objective), largest violation 0.001"
    assert Certificate(0.0, 0.0, 0.0, 0.0, 0.0).relative_gap == 0.0


def test_a_solution_is_not_to_be_changed():
    certificate = Certificate(0.0, 0.0, 0.0, 0.0, 0.0)
    solution = Solution(np.zeros(1), np.zeros(0), certificate, Status.CONVERGED, 1, 0.1, 10, History())
    with pytest.raises(AttributeError):
        solution.status = Status.STALLED
