"""A headless Chromium, driven by its DevTools protocol over a pipe. No package is needed for it.

`chromium()` skips the test where there is no Chromium.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# For anything that a busy machine has to get done.
WAIT_SECONDS = 60.0

# Puts the two pipes where Chromium expects them.
_LAUNCH = (
    "import os, sys; from fcntl import fcntl, F_DUPFD; "
    "pipes = [fcntl(int(word), F_DUPFD, 10) for word in sys.argv[1:3]]; "
    "os.dup2(pipes[0], 3); os.dup2(pipes[1], 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


class BrowserError(Exception):
    """Chromium answered with an error, or not at all."""


def find_program() -> str | None:
    """Return the path of a Chromium."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One Chromium with one page."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = b""
        self._id = 0
        self._session = ""
        self.messages: list[dict[str, Any]] = []

    def open_page(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        """Send a command and return its result. Events that come meanwhile are kept."""
        self._id += 1
        command: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._writer, data) :]
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            message = self._receive(deadline)
            if message.get("id") == self._id:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']}")
                return message["result"]
            self.messages.append(message)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._reader], [], [], left)[0]:
                raise BrowserError("no answer")
            chunk = os.read(self._reader, 1 << 20)
            if not chunk:
                raise BrowserError("it has ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    # -- what a person does ------------------------------------------------------------------

    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. DevTools are not bound by the policy."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + WAIT_SECONDS
        # An element has no value that could be sent.
        sendable = f"(value => value instanceof Node || value)({expression})"
        while True:
            try:
                value = self.evaluate(sendable)
            except BrowserError:  # the document is being replaced
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body.innerText.slice(0, 3000)")
                raise AssertionError(f"never true: {expression}\nthe page shows: {shown}")
            time.sleep(0.05)

    def wait_for_text(self, text: str, within: str = "body") -> None:
        quoted = json.dumps(text)
        self.wait_for(f"document.querySelector({json.dumps(within)})?.innerText.includes({quoted})")

    def click(self, selector: str) -> None:
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def type_into(self, selector: str, text: str) -> None:
        """Replace what is in a field, by real key events."""
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        field = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{field}.focus(); {field}.select()")
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        more: dict[str, Any] = {"windowsVirtualKeyCode": code} if code else {}
        if text:
            more["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def look(self, *, width: int, height: int, scheme: str = "light", phone: bool = False) -> None:
        """Set the size of the window and the colours that a person prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, file: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Return the errors of scripts and of the security policy."""
        self.evaluate("0")
        found = []
        for message in self.messages:
            params = message.get("params", {})
            if message.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:600])
            elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return found

    def requested_urls(self) -> list[str]:
        return [
            message["params"]["request"]["url"]
            for message in self.messages
            if message.get("method") == "Network.requestWillBeSent"
        ]


@contextmanager
def launched(program: str, profile: Path) -> Iterator[Browser]:
    """A browser that runs; ended, with all its processes, at the end."""
    to_child, our_writer = os.pipe()
    our_reader, from_child = os.pipe()
    options = [
        *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--disable-dev-shm-usage", "--no-default-browser-check", "--hide-scrollbars"),
        *("--disable-crash-reporter", "--disable-breakpad", "--no-zygote"),
        f"--user-data-dir={profile}",
    ]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    words = [sys.executable, "-E", "-c", _LAUNCH, str(to_child), str(from_child), program]
    process = subprocess.Popen(
        [*words, *options],
        pass_fds=(to_child, from_child),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(profile), "XDG_CONFIG_HOME": str(profile)},
    )
    os.close(to_child)
    os.close(from_child)
    browser = Browser(our_reader, our_writer)
    try:
        browser.open_page()
        yield browser
    finally:
        os.close(our_writer)  # the end of its pipe ends it
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(our_reader)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser for a test, or the reason why it is skipped."""
    program = find_program()
    if program is None:
        pytest.skip("no chromium (make browser installs it where it may)")
    with launched(program, folder / "profile") as browser:
        yield browser
