"""A headless Chromium driven through its debugging pipe: no driver, no port, no package beyond Python's own."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
DRAWN = "document.documentElement?.dataset.ready === 'yes'"  # a report says so itself
LOADED = "document.readyState === 'complete'"


def browser_path() -> str | None:
    """The first Chromium on this machine, if any."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


class Browser:
    """One browser with one page; `events` holds everything it reported since `open`."""

    def __init__(self, process: subprocess.Popen[bytes], to_browser: int, from_browser: int) -> None:
        self.process, self._to, self._from = process, to_browser, from_browser
        self._number, self._buffer = 0, b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            with selectors.DefaultSelector() as ready:
                ready.register(self._from, selectors.EVENT_READ)
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError("the browser did not answer")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, scheme: str = "light", ready: str = DRAWN
    ) -> None:
        """Open a local file in a viewport of this size and wait until it is ready: its charts are drawn."""
        self.resize(width, height)
        self.emulate("screen", scheme)
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait(ready)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def emulate(self, media: str, scheme: str = "light", motion: str = "reduce") -> None:
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str | Callable[[], bool]) -> None:
        """Until an expression of the page, or a function of this process, is true; a minute is for hanging browsers."""
        deadline = time.monotonic() + SECONDS
        while not (self.run(condition) if isinstance(condition, str) else condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition} never became true; the browser said {self.complaints()}")
            self.run("new Promise(done => setTimeout(done, 20))")  # events come in meanwhile

    def settle(self) -> None:
        """Until every chart is drawn, as the page says itself."""
        self.wait(DRAWN)

    def press(self, key: str) -> None:
        codes = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9, "Enter": 13, "Home": 36}
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def complaints(self) -> list[str]:
        """Console errors and warnings, uncaught exceptions and log entries since `open`."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:1000])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(params["args"])[:1000])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(json.dumps(params["entry"])[:1000])
        return found

    def requests(self) -> list[str]:
        """The addresses that the page asked for since `open`, itself included."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


@contextlib.contextmanager
def launch() -> Iterator[Browser]:
    """Start the browser with an empty profile, and end it."""
    path = browser_path()
    if path is None:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is installed")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'  # the pipe is expected at descriptors 3 and 4
        process = subprocess.Popen(
            ["/bin/bash", "-c", command, path, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(process, to_write, from_read)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_write)
            os.close(from_read)
