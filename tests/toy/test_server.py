"""The server of the toy: what it serves, to whom, and how much of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib.resources import files

import pytest

from maxmargin.toy import Toy, server

POINTS = [[-0.5, 0.1, 1], [-0.4, -0.2, 1], [0.5, 0.0, 2], [0.3, 0.4, 2], [0.1, 0.1, 1]]
FIT = {"machine": "SVC", "solver": "smo", "points": POINTS, "C": 10.0, "gamma": 1.0, "grid": 8}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def toy():
    with Toy(0) as toy:
        thread = threading.Thread(target=toy.serve_forever, args=(0.01,))
        thread.start()
        yield toy
        toy.shutdown()
        thread.join()


@contextmanager
def answer(toy, path, body=None, headers=(), method=None):
    line = http.client.HTTPConnection("127.0.0.1", toy.port, timeout=60)
    body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    line.request(method or ("GET" if body is None else "POST"), path, body, dict(headers))
    try:
        yield line.getresponse()
    finally:
        line.close()


def post(toy, path, body, headers=()):
    with answer(toy, path, body, JSON | dict(headers)) as found:
        return found.status, json.loads(found.read())


def events(stream):
    for block in stream.read().decode().split("\n\n")[:-1]:
        kind, data = block.split("\n", 1)
        yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def begun(stream):
    """Whether a fit has begun; what comes next is the second event."""
    return [stream.readline() for _ in range(3)] == [b"event: begin\n", b"data: {}\n", b"\n"]


def test_the_page_is_served_and_asks_nobody_else(toy):
    for path, kind in [("/", "text/html"), ("/toy.css", "text/css"), ("/toy.js", "text/javascript")]:
        with answer(toy, path) as found:
            text = found.read().decode()
        assert found.status == 200 and found.headers["Content-Type"].startswith(kind)
        assert "default-src 'self'" in found.headers["Content-Security-Policy"]
        assert "http://" not in text and "https://" not in text
        assert files("maxmargin.toy").joinpath("static", "index.html" if path == "/" else path[1:]).is_file()


def test_the_page_offers_what_there_is(toy):
    with answer(toy, "/choices") as found:
        offered = json.loads(found.read())
    assert set(offered["machines"]) == {"SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVDD", "LinearSVC", "PSVC"}


def test_a_fit_is_a_stream_of_pictures(toy):
    with answer(toy, "/fit", FIT, JSON) as found:
        assert found.headers["Content-Type"].startswith("text/event-stream")
        kinds, facts = zip(*events(found), strict=True)
    assert kinds[0] == "begin" and set(kinds) <= {"begin", "progress", "picture"}
    seen = [fact for kind, fact in zip(kinds, facts, strict=True) if kind == "picture"]
    assert seen[-1]["converged"] and seen[-1]["last"] and seen[0]["gap"] > seen[-1]["gap"]


def test_a_fit_that_fails_says_why(toy):
    with answer(toy, "/fit", FIT | {"machine": "NuSVC", "nu": 1.0}, JSON) as found:
        kind, facts = list(events(found))[-1]
    assert kind == "failure" and "nu" in facts["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost", "", "127.0.0.1.evil"]
)
def test_other_hosts_are_refused(toy, host):
    for path, body in [("/", None), ("/choices", None), ("/fit", FIT)]:
        with answer(toy, path, body, {"Host": host.format(port=toy.port), **JSON}) as found:
            assert found.status == 403
            assert "error" in json.loads(found.read())


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
def test_our_own_names_are_answered(toy, host):
    with answer(toy, "/choices", headers={"Host": host.format(port=toy.port)}) as found:
        assert found.status == 200


def test_two_hosts_are_refused(toy):
    line = http.client.HTTPConnection("127.0.0.1", toy.port, timeout=60)
    line.putrequest("GET", "/choices", skip_host=True)
    for host in (f"127.0.0.1:{toy.port}", "evil.example"):
        line.putheader("Host", host)
    line.endheaders()
    assert line.getresponse().status == 403
    line.close()


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_posts_of_other_pages_are_refused(toy, origin):
    for path in ("/fit", "/stop", "/save", "/load"):
        assert post(toy, path, FIT, {"Origin": origin.format(port=toy.port)})[0] == 403


def test_posts_of_our_page_are_taken(toy):
    for origin in (f"http://127.0.0.1:{toy.port}", f"http://localhost:{toy.port}"):
        assert post(toy, "/save", FIT, {"Origin": origin, "Sec-Fetch-Site": "same-origin"})[0] == 200
    for site in ("cross-site", "same-site"):  # such as a page on another port of this machine
        assert post(toy, "/save", FIT, {"Sec-Fetch-Site": site})[0] == 403
    with answer(toy, "/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}) as found:
        assert found.status == 200  # a link in somebody's lecture notes


def test_what_a_foreign_form_could_send_is_refused(toy):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert post(toy, "/fit", FIT, {"Content-Type": kind})[0] == 415


def test_bodies_are_bounded(toy):
    assert post(toy, "/fit", b" " * (server.MAX_BODY + 1))[0] == 413
    with answer(toy, "/fit", b"", {**JSON, "Content-Length": "9" * 40}) as found:
        assert found.status == 413
    with answer(toy, "/fit", b"{}", {**JSON, "Content-Length": "-5"}) as found:
        assert found.status == 411


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1, 2", b"\xff\xfe", b"[" * 100_000, b'{"C": NaN}', b"null", b"3", b'{"run": [1]}']
)
def test_bad_json_is_a_clean_error(toy, body):
    for path in ("/fit", "/save", "/load"):
        status, found = post(toy, path, body)
        assert status == 400 and found["error"]


def test_unknown_pages_and_methods(toy):
    for path in ("/toy", "/../server.py", "/static/toy.js", "/toy.js?x"):
        with answer(toy, path) as found:
            assert found.status == 404
    assert post(toy, "/train", {})[0] == 404
    for method in ("PUT", "OPTIONS", "DELETE"):
        with answer(toy, "/fit", b"", JSON, method) as found:
            assert found.status == 501


def test_data_are_saved_and_loaded_as_libsvm_does(toy):
    status, found = post(toy, "/save", {"machine": "SVC", "points": POINTS})
    assert status == 200 and found["text"].splitlines()[0] == "1 1:-0.5 2:0.1"
    status, again = post(toy, "/load", {"machine": "SVC", "text": found["text"]})
    assert again == {"points": POINTS, "scaled": False}
    status, found = post(toy, "/load", {"machine": "SVC", "text": "1 1:a"})
    assert status == 400 and found["error"].startswith("data:1:")


def endless(asked, told, stop):
    """A fit that only a stop ends."""
    while not stop():
        told({"step": 1})
        threading.Event().wait(0.01)
    yield {"last": True}


def test_a_run_is_stopped_by_its_name(toy, monkeypatch):
    monkeypatch.setattr(server, "pictures", endless)
    assert post(toy, "/stop", {"run": "nobody"}) == (200, {"stopped": False})
    with answer(toy, "/fit", FIT | {"run": "mine"}, JSON) as stream:
        assert begun(stream)
        assert post(toy, "/stop", {"run": "mine"}) == (200, {"stopped": True})
        assert list(events(stream))[-1] == ("picture", {"last": True})
    assert toy.runs == {}


def test_who_goes_away_stops_the_fit_and_more_fits_than_places_wait_in_vain(toy, monkeypatch):
    monkeypatch.setattr(server, "pictures", endless)
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    lines = [http.client.HTTPConnection("127.0.0.1", toy.port, timeout=60) for _ in range(server.MAX_FITS)]
    streams = []
    for line in lines:
        line.request("POST", "/fit", json.dumps(FIT), JSON)
        streams.append(line.getresponse())
        assert begun(streams[-1])
    assert post(toy, "/fit", FIT)[0] == 503
    for line, stream in zip(lines, streams, strict=True):
        stream.close()
        line.close()
    for _ in range(server.MAX_FITS):
        assert toy.places.acquire(timeout=30)  # both fits have ended
    for _ in range(server.MAX_FITS):
        toy.places.release()


def test_a_closed_server_ends_its_fits(monkeypatch):
    monkeypatch.setattr(server, "pictures", endless)
    toy = Toy(0)
    thread = threading.Thread(target=toy.serve_forever, args=(0.01,))
    thread.start()
    with answer(toy, "/fit", FIT, JSON) as stream:
        assert begun(stream)
        toy.shutdown()
        toy.server_close()
        assert list(events(stream))[-1] == ("picture", {"last": True})
    thread.join()


def test_a_port_that_is_taken_is_told(toy):
    with pytest.raises(OSError, match=f"port {toy.port} was asked for.*--port"):
        server.serve(toy.port, browser=False)


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be sent Ctrl-C alone there")
def test_ctrl_c_ends_the_command():
    command = [sys.executable, "-m", "maxmargin", "toy", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert said.startswith("The toy is at http://127.0.0.1:")
    assert (process.returncode, out, err) == (0, "", "")
