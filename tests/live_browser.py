"""A page in headless Chromium that can be watched and used while it lives, over the DevTools protocol on a pipe."""

import atexit
import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from browser import BROWSER

OPTIONS = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking"
OPTIONS += " --disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe"

DRAWN = 150
"""Milliseconds after which a page has drawn itself: longer than it sets timers for."""
NAVIGATED = ("Inspected target navigated or closed", "Cannot find default execution context")


class Navigated(AssertionError):
    """The page was left while a script ran in it: the answer is lost, and may be asked for again on the next page."""


class Page:
    """One tab. Everything that the page says on the console and every address it asks for is kept."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer, self._number, self._session = b"", 0, ""
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False) -> None:
        """Sets the size of the window and the colours that the reader prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)

    def open(self, address: str) -> None:
        """Goes to an address."""
        self._call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 30) -> Any:
        """Waits until an expression is true; returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # A click may start a navigation that ends the page between two looks at it.
            with contextlib.suppress(Navigated):
                if value := self.run(script):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"not true within {seconds} s: {script}\n{self.run('document.body.innerText')[:3000]}")

    @property
    def text(self) -> str:
        """What a reader sees."""
        return str(self.run("document.body.innerText"))

    def click(self, selector: str) -> None:
        """Clicks on an element as a mouse does."""
        x, y, width, height = self._box(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            at = {"x": x + width / 2, "y": y + height / 2}
            with contextlib.suppress(Navigated):  # which is what a click on a link is for
                self._call("Input.dispatchMouseEvent", type=kind, **at, button="left", clickCount=1)

    def point(self, selector: str, across: float) -> None:
        """Moves the mouse over an element, this share of its width from the left."""
        x, y, width, height = self._box(selector)
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x + across * width, y=y + height / 2)

    def _box(self, selector: str) -> list[float]:
        """Where an element is, once it has been scrolled to."""
        find = f"const one = document.querySelector({json.dumps(selector)}); one.scrollIntoView({{block: 'center'}});"
        # The first of several: the middle of a link that wraps may lie outside of it.
        box = "const b = one.getClientRects()[0]; return [b.x, b.y, b.width, b.height]"
        found: list[float] = self.run(f"(() => {{ {find} {box} }})()")
        return found

    def press(self, key: str, *, shift: bool = False) -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=8 if shift else 0)

    def type(self, letter: str) -> None:
        """Types a letter into what has the focus."""
        self._call("Input.insertText", text=letter)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Writes a screenshot."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def metrics(self) -> dict[str, float]:
        """What the browser counts of this page, its heap among it."""
        self._call("Performance.enable")
        return {one["name"]: one["value"] for one in self._call("Performance.getMetrics")["metrics"]}

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if answer.get("error", {}).get("message") in NAVIGATED:
                    raise Navigated(answer["error"])
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], 60)
            assert ready, "Chromium says nothing"
            self._buffer += os.read(self._receive, 1 << 20)
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, facts: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(facts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(facts["args"]))
        elif method == "Log.entryAdded":
            self.console.append(json.dumps(facts["entry"]))


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """A browser with one tab."""
    to_child, from_child = os.pipe(), os.pipe()
    folder = tempfile.mkdtemp(prefix="chromium-")

    def inherit() -> None:
        os.dup2(to_child[0], 3, inheritable=True)
        os.dup2(from_child[1], 4, inheritable=True)

    # The ends must not be 3 and 4 themselves: the second copy would then overwrite the first.
    process = subprocess.Popen(
        [str(BROWSER), *OPTIONS.split(), f"--user-data-dir={folder}"],
        preexec_fn=inherit, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_child[0])
    os.close(from_child[1])
    try:
        yield Page(to_child[1], from_child[0])
    finally:
        os.close(to_child[1])  # Chromium ends with the pipe
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_child[0])
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _tab() -> Page:
    """A browser for all pages of this process that are only looked at."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(chromium())


def dom(page: Path) -> str:
    """The document once the page has been drawn, which must have said nothing on the console."""
    tab = _tab()
    tab.look(width=800, height=600)
    tab.console.clear()
    tab.open(page.resolve().as_uri())
    tab.run(f"new Promise((done) => setTimeout(done, {DRAWN}))")
    text = str(tab.run("document.documentElement.outerHTML"))
    assert tab.console == []
    tab.open("about:blank")
    return text
