"""A headless Chromium, driven over a pipe: just enough of the DevTools protocol for the tests."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """Path of a Chromium on this machine, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path is not None:
            return path
    return None


class Browser:
    """One page of one browser. Use it as a context manager: leaving it ends the browser.

    ``problems`` holds console errors, warnings and exceptions; ``requests`` every address that the
    page asked for, answered or not.
    """

    def __init__(self, program: str, profile: Path, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._events: list[dict] = []
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Above 9, so that neither is overwritten while 3 and 4 are set in the child.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_browser, from_browser)]

        def wire() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,
            close_fds=False,  # Python's own descriptors are closed on exec; 3 and 4 are not
            start_new_session=True,
        )
        for fd in (to_browser, from_browser, *ends):
            os.close(fd)

    def __enter__(self) -> Browser:
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The browser's own process group, so that no helper process outlives the test.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        os.close(self._in)
        os.close(self._out)

    def send(self, method: str, **params: object) -> dict:
        """Call a method of the protocol and return its result."""
        self._count += 1
        number = self._count
        message: dict = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to an address and wait until it is loaded."""
        self._events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def wait_for(self, method: str) -> dict:
        """The next event of this kind."""
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            for event in self._events:
                if event["method"] == method:
                    return event
            self._read()
        raise TimeoutError(method)

    def run(self, script: str) -> object:
        """Value of a JavaScript expression in the page; a promise is waited for."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Scroll an element into view and click it with the mouse."""
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str) -> None:
        """Move the mouse onto an element."""
        x, y = self.place(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def place(self, selector: str) -> tuple[float, float]:
        """Middle of an element, after scrolling to it."""
        box = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            # Scrolling is told to the page with the next frame, not at once.
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame);"
            "const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2, b.width]; })()"
        )
        assert isinstance(box, list)
        assert box[2] > 0, f"{selector} is not visible"
        return box[0], box[1]

    def size(self, width: int, *, dark: bool = False, media: str = "") -> None:
        """Width of the window, colour scheme, and ``media="print"`` if asked for."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """The whole page, or its first ``height`` pixels, as a PNG."""
        options: dict = {"captureBeyondViewport": True, "format": "png"}
        if height is not None:
            width = self.run("innerWidth")
            options["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        image = self.send("Page.captureScreenshot", **options)
        path.write_bytes(base64.b64decode(image["data"]))

    def _read(self) -> dict:
        deadline = time.monotonic() + self.timeout
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("the browser ended")
            self._buffer += data
        raw, self._buffer = self._buffer.split(b"\0", 1)
        message: dict = json.loads(raw)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: dict) -> None:
        self._events.append(event)
        method, params = event["method"], event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
