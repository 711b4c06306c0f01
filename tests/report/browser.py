"""A headless Chromium, driven over a pipe: just enough of the DevTools protocol for the tests."""

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

DISABLED = ("gpu", "quic", "dev-shm-usage", "background-networking")
DISABLED += ("component-update", "default-apps", "extensions", "sync")
FLAGS = ("--headless", "--no-sandbox", "--no-first-run", "--no-default-browser-check")
FLAGS += ("--mute-audio", "--remote-debugging-pipe", *(f"--disable-{what}" for what in DISABLED))
PROBLEMS = {  # where events tell their kind, and what is wrong
    "Runtime.exceptionThrown": lambda params: ("error", params["exceptionDetails"]),
    "Runtime.consoleAPICalled": lambda params: (params["type"], params["args"]),
    "Log.entryAdded": lambda params: (params["entry"]["level"], params["entry"]["text"]),
}


def find_chromium():
    """Path of a Chromium on this machine, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One page of one browser. Use it as a context manager: leaving it ends the browser.

    ``problems`` holds console errors, warnings and exceptions; ``requests`` every address that the
    page asked for, answered or not.
    """

    def __init__(self, program, profile, timeout=60.0):
        self.timeout, self.problems, self.requests, self._events = timeout, [], [], []
        self._buffer, self._count, self._session = b"", 0, {}
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Above 9, so that neither is overwritten while 3 and 4 are set in the child.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_browser, from_browser)]

        def wire():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
            preexec_fn=wire,
            close_fds=False,  # Python's own descriptors are closed on exec; 3 and 4 are not
            start_new_session=True,
        )
        for fd in (to_browser, from_browser, *ends):
            os.close(fd)

    def __enter__(self):
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
            self._session = {"sessionId": attached["sessionId"]}
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # The browser's own process group, so that no helper process outlives the test.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        os.close(self._in)
        os.close(self._out)

    def send(self, method, **params):
        """Call a method of the protocol and return its result."""
        self._count += 1
        number = self._count
        message = {"id": number, "method": method, "params": params, **self._session}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while (answer := self._read()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url):
        """Go to an address and wait until it is loaded."""
        self._events.clear()
        self.send("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._read()

    def run(self, script):
        """Value of a JavaScript expression in the page; a promise is waited for."""
        how = {"returnByValue": True, "awaitPromise": True}
        result = self.send("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def mouse(self, selector, *kinds):
        """Scroll to an element and let the mouse do something in its middle."""
        x, y, width = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            # Scrolling is told to the page with the next frame, not at once.
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame);"
            "const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2, b.width]; })()"
        )
        assert width > 0, f"{selector} is not visible"
        button = {"button": "left", "clickCount": 1} if len(kinds) > 1 else {}
        for kind in kinds:
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, selector):
        self.mouse(selector, "mousePressed", "mouseReleased")

    def hover(self, selector):
        self.mouse(selector, "mouseMoved")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def size(self, width, *, dark=False, media=""):
        """Width of the window, colour scheme, and ``media="print"`` if asked for."""
        window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, path, height):
        """The first ``height`` pixels of the page, as a PNG."""
        clip = {"x": 0, "y": 0, "width": self.run("innerWidth"), "height": height, "scale": 1}
        image = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(image["data"]))

    def _read(self):
        """The next message; what events tell is kept."""
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
        message = json.loads(raw)
        method, params = message.get("method"), message.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in PROBLEMS:
            level, told = PROBLEMS[method](params)
            if level in ("error", "warning"):
                self.problems.append(str(told))
        return message
