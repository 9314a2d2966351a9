"""The server of the toy: Python's own, on this machine's loopback only, for one page and the fits that it asks for.

What comes from elsewhere is refused: a request must name this server in its Host header (a name that somebody else has
pointed to 127.0.0.1 does not), and a POST must come from our own page (Origin) and be JSON, which no foreign page can
send unasked. Bodies, points, grids, the time of a fit and the number of fits at a time are bounded.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .fitting import Asked, Refused, choices, pictures, read_points, write_points

__all__ = ["Toy", "serve"]

LOOPBACK = "127.0.0.1"
PORT = 8321
MAX_BODY = 1 << 20  # bytes: a thousand points are 60 kB
MAX_FITS = 2  # at a time
PATIENCE = 60.0  # seconds for a place among them: a fit that nobody wants any more may still be compiling
WAIT = 5.0  # seconds for a silent client
GRACE = 0.2  # seconds for a client that sends too much to send it
PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/toy.css": ("toy.css", "text/css; charset=utf-8"),
    "/toy.js": ("toy.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Answered(Exception):  # noqa: N818 (the end of a request, good or bad)
    """An answer other than the one that was asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Toy(ThreadingHTTPServer):
    """The server; ``Toy(0)`` finds a free port, ``address`` is where the page is."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # where it would let two servers share a port

    def __init__(self, port: int = PORT) -> None:
        self.places = threading.BoundedSemaphore(MAX_FITS)
        self.runs: dict[str, threading.Event] = {}
        self.closing = threading.Event()
        super().__init__((LOOPBACK, port), Handler)
        self.port = self.server_address[1]
        self.hosts = {f"{name}:{self.port}" for name in ("localhost", LOOPBACK, "[::1]")}
        if self.port == 80:  # which browsers leave out
            self.hosts |= {"localhost", LOOPBACK, "[::1]"}

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def server_close(self) -> None:
        """Let go of the port, and end the fits that are running."""
        super().server_close()
        if not self.closing.is_set():
            self.closing.set()
            for _ in range(MAX_FITS):
                self.places.acquire(timeout=WAIT)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody who goes away in the middle of an answer is no news; all else is."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Toy
    server_version, sys_version = "maxmargin-toy", ""
    timeout = WAIT

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's news."""

    def do_GET(self) -> None:
        """The page and what it offers."""
        with self._answering():
            self._check_sender()
            if self.path == "/choices":
                self._send(json.dumps(choices()).encode(), "application/json")
                return
            if self.path not in PAGES:
                raise Answered(HTTPStatus.NOT_FOUND, "there is no such page; the toy is at /")
            name, kind = PAGES[self.path]
            self._send(files(__package__).joinpath("static", name).read_bytes(), kind)

    def do_POST(self) -> None:
        """A fit, a file, or the end of a fit."""
        with self._answering():
            self._check_sender()
            asked = self._body()
            if self.path == "/fit":
                self._fit(asked)
            elif self.path == "/stop":
                run = self.server.runs.get(_name(asked))
                if run is not None:
                    run.set()
                self._send(json.dumps({"stopped": run is not None}).encode(), "application/json")
            elif self.path == "/save":
                self._send(json.dumps({"text": write_points(asked)}).encode(), "application/json")
            elif self.path == "/load":
                self._send(json.dumps(read_points(asked)).encode(), "application/json")
            else:
                raise Answered(HTTPStatus.NOT_FOUND, "there is no such request; known are /fit, /stop, /save, /load")

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Errors become answers."""
        try:
            yield
        except Answered as end:
            self._send(json.dumps({"error": end.message}).encode(), "application/json", end.status)
        except ValueError as problem:  # Refused, a file's, an estimator's
            self._send(json.dumps({"error": str(problem)}).encode(), "application/json", HTTPStatus.BAD_REQUEST)

    def _check_sender(self) -> None:
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            raise Answered(HTTPStatus.FORBIDDEN, f"this host was not asked for; open {self.server.address}")
        ours = {f"http://{host}" for host in self.server.hosts}
        if any(origin.lower() not in ours for origin in origins):
            raise Answered(HTTPStatus.FORBIDDEN, "a request of another page was found; only the toy's own are answered")
        # A link from elsewhere to the page is fine; what does something is for the page alone.
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        if self.command != "GET" and site not in ("same-origin", "none"):
            raise Answered(HTTPStatus.FORBIDDEN, "a request of another site was found; only the toy's own are answered")

    def _body(self) -> Any:
        if self.headers.get_content_type() != "application/json":
            raise Answered(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "JSON was asked for; send Content-Type: application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise Answered(HTTPStatus.LENGTH_REQUIRED, "a Content-Length was asked for; found none; send it")
        if len(length) > 12 or int(length) > MAX_BODY:
            self._swallow()
            raise Answered(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY} bytes are taken; send fewer points"
            )
        try:
            return json.loads(self.rfile.read(int(length)), parse_constant=_no_number)
        except (ValueError, RecursionError) as problem:
            raise Answered(HTTPStatus.BAD_REQUEST, f"JSON was asked for; found something else ({problem})") from None

    def _swallow(self) -> None:
        """A part of what is too much: who is still sending does not read our answer, and would see a broken line."""
        self.connection.settimeout(GRACE)
        with suppress(OSError):
            self.rfile.read(2 * MAX_BODY)

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    # -- fits ---------------------------------------------------------------------------------------------------------

    def _fit(self, found: Any) -> None:
        """Pictures as server-sent events while the solver works; who goes away, or says stop, stops it."""
        asked, name = Asked.read(found), _name(found)
        if not self.server.places.acquire(timeout=PATIENCE):
            raise Answered(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_FITS} fits are running already; try again")
        stop = threading.Event()
        try:
            if name:
                self.server.runs[name] = stop
            self._stream(asked, stop)
        finally:
            self.server.places.release()
            if self.server.runs.get(name) is stop:
                del self.server.runs[name]

    def _stream(self, asked: Asked, stop: threading.Event) -> None:
        self.send_response(HTTPStatus.OK)
        for header, value in {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"}.items():
            self.send_header(header, value)
        self.end_headers()

        def event(kind: str, facts: dict[str, Any]) -> None:
            try:
                self.wfile.write(f"event: {kind}\ndata: {json.dumps(facts, allow_nan=False)}\n\n".encode())
                self.wfile.flush()
            except OSError:  # nobody listens any more
                stop.set()

        def over() -> bool:
            return stop.is_set() or self.server.closing.is_set()

        event("begin", {})
        try:
            for picture in pictures(asked, lambda row: event("progress", row), over):
                event("picture", picture)
        except (ValueError, ArithmeticError, MemoryError) as problem:
            event("failure", {"error": str(problem) or type(problem).__name__})


def _name(found: Any) -> str:
    """The name that a page gives to its run."""
    name = found.get("run", "") if isinstance(found, dict) else ""
    if not isinstance(name, str) or len(name) > 64:
        raise Refused("a short name of a run was asked for; found another thing; send a text of at most 64 characters")
    return name


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def serve(port: int = PORT, browser: bool = True) -> int:
    """Serve the page until Ctrl-C."""
    try:
        toy = Toy(port)
    except OSError as problem:
        raise OSError(
            f"port {port} was asked for; it cannot be had ({problem.strerror}); choose another --port"
        ) from None
    with suppress(KeyboardInterrupt), toy, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a picture of the first steps is not meant to be the last
        print(f"The toy is at {toy.address} (Ctrl-C ends it)", flush=True)
        if browser:
            webbrowser.open(toy.address)
        toy.serve_forever()
    return 0
