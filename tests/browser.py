"""A real headless Chromium, spoken to over its DevTools protocol.

with Browser.start() as browser:
    page = browser.open(Path("report.html"), width=390)
    page.evaluate("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_START_SECONDS = 120


def find_chromium() -> str:
    """Path of the browser; a test without one fails, for the report would go unseen."""
    for name in _NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.fail(
        "no Chromium on this machine; `make chromium` installs it from Debian's packages "
        "(apt-get install chromium)"
    )


@dataclass
class Page:
    """One open page.

    Attributes:
        requests: URLs asked for so far, the document's own first.
        errors: uncaught exceptions and console errors.
    """

    connection: ClientConnection
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _last_id: int = 0
    _loaded: bool = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; raises RuntimeError on a protocol error."""
        self._last_id += 1
        self.connection.send(
            json.dumps({"id": self._last_id, "method": method, "params": parameters})
        )
        while True:
            message = self._receive()
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result

    def goto(self, url: str) -> None:
        """Load a page and wait until it has loaded."""
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression (JSON types)."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        extra: dict[str, Any] = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **(extra if kind == "keyDown" else {}),
            )

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.connection.recv(timeout=_START_SECONDS))
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(parameters["exceptionDetails"]["text"])
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])
        return message


@dataclass
class Browser:
    """A running Chromium."""

    address: str
    _open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Browser]:
        """Start the browser, and end it afterwards."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            process = subprocess.Popen(
                [
                    find_chromium(),
                    "--headless=new",
                    # Containers run tests as root, where Chromium has no sandbox.
                    *(["--no-sandbox"] if os.geteuid() == 0 else []),
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--hide-scrollbars",
                    "--remote-debugging-port=0",
                    f"--user-data-dir={profile}",
                    "about:blank",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            browser = cls(_address(Path(profile), process))
            try:
                yield browser
            finally:
                browser._open.close()
                process.terminate()
                process.wait(timeout=30)

    def open(self, file: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Open a local file in a new tab of this size, in CSS pixels."""
        request = urllib.request.Request(
            f"http://{self.address}/json/new?about:blank", method="PUT"
        )
        with urllib.request.urlopen(request, timeout=_START_SECONDS) as answer:
            target = json.load(answer)["webSocketDebuggerUrl"]
        page = Page(
            self._open.enter_context(connect(target, max_size=None, open_timeout=_START_SECONDS))
        )
        for domain in ("Page", "Network", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        page.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        page.goto(file.resolve().as_uri())
        return page


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    port_file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Chromium ended at once with code {process.returncode}")
        if port_file.exists() and re.match(r"\d+\n", text := port_file.read_text()):
            return f"127.0.0.1:{text.splitlines()[0]}"
        time.sleep(0.05)
    raise TimeoutError("Chromium did not open its DevTools port")
