"""A tab of a headless Chromium that a test looks at and clicks in, by Chromium's own protocol."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress

from tests.reports.browser import BROWSER

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-extensions", "--disable-component-update"),
    *("--remote-debugging-port=0", "--hide-scrollbars", "about:blank"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class PageLeftError(Exception):
    """The page that was asked has been left for another one before it could answer."""


class Tab:
    """A tab.

    Args:
        socket: its web socket.
    """

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self.messages = []
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        """Have something done, and return the answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                if any(word in str(answer.get("error")) for word in ("navigated", "context")):
                    raise PageLeftError(answer["error"])
                assert "error" not in answer, answer
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                self.messages.append(json.dumps(answer["params"]))

    def open(self, address):
        self.ask("Page.navigate", url=address)

    def value(self, expression):
        """Return what an expression of JavaScript gives."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression, timeout_s=60):
        """Wait until an expression is true, of a page that may still be loading, and return it."""
        tried = f"(() => {{ try {{ return {expression}; }} catch {{ return null; }} }})()"
        deadline_s = time.monotonic() + timeout_s
        while True:
            with suppress(PageLeftError):  # a click may lead to another page while this one is asked
                if found := self.value(tried):
                    return found
                assert time.monotonic() < deadline_s, (expression, self.value("document.body.innerText"), self.messages)
            time.sleep(0.05)

    def click(self, selector):
        """Click in the middle of an element, as a person does."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def look_like(self, width, height=900, scheme="light"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def opened_browser(profile):
    """Yield a tab; `profile` is a folder for the browser's own files."""
    from websockets.sync.client import connect

    process = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        file = profile / "DevToolsActivePort"
        deadline_s = time.monotonic() + 60
        while not file.exists() or len(file.read_text().split()) < 2:
            assert time.monotonic() < deadline_s, "the browser does not start"
            time.sleep(0.05)
        port = file.read_text().split()[0]
        while True:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            if pages:
                break
            time.sleep(0.05)
        with connect(pages[0]["webSocketDebuggerUrl"], max_size=None, origin=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait()
