"""A real browser for tests: chromium without a window, driven through its debugging pipe by the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Empty where there is none, nor a bash, which gives its pipe the numbers 3 and 4.
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "") if shutil.which("bash") else ""
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe"
).split()
PATIENCE = 90.0  # seconds for anything: a first fit may compile


class Browser:
    """One page; ``with Browser() as page: page.open(url); page.wait(script); page.run(script)``."""

    def __init__(self, width: int = 1280, height: int = 800, dark: bool = False, scale: float = 1.0) -> None:
        self.size, self.dark, self.scale = (width, height), dark, scale
        self.requested: list[str] = []  # addresses
        self.said: list[str] = []  # errors of the page

    def __enter__(self) -> Browser:
        self.folder = tempfile.TemporaryDirectory(prefix="maxmargin-browser-", ignore_cleanup_errors=True)
        down_read, self.down = os.pipe()
        self.up, up_write = os.pipe()
        command = ["bash", "-c", f'exec 3<&{down_read} 4>&{up_write}; exec "$0" "$@"', CHROMIUM, *FLAGS]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(down_read, up_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down_read)
        os.close(up_write)
        self.number, self.rest, self.session = 0, b"", ""
        (target,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][:1]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for name in ("Page.enable", "Runtime.enable", "Network.enable"):
            self.call(name)
        width, height = self.size
        mobile = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=self.scale,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def __exit__(self, *problem: Any) -> None:
        os.close(self.down)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.up)
        self.folder.cleanup()

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.rest:
            if not select.select([self.up], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.up, 1 << 16)
            if not more:
                raise ConnectionError("the browser has ended")
            self.rest += more
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the debugging protocol, and its result."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.down, json.dumps(asked).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._message(deadline)
            if found.get("method") == "Network.requestWillBeSent":
                self.requested.append(found["params"]["request"]["url"])
            elif found.get("method") == "Runtime.exceptionThrown":
                self.said.append(json.dumps(found["params"]["exceptionDetails"])[:500])
            elif found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:500])
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.05)

    def click(self, x: float, y: float) -> None:
        """A click of the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        """A key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A screenshot; ``whole``: of all of the page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
