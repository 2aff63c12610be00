"""A headless Chromium for tests, controlled by its DevTools protocol over a pipe.

`with chromium(folder) as browser:` starts it, or skips the test if it is not installed. No Python
package is needed.
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

# The limit of every wait. It only bounds a test that hangs.
WAIT_SECONDS = 150.0

# Moves the two pipes to the descriptors 3 and 4, where Chromium expects them. They are copied to
# numbers from 10 on before, because one of them may be 3 or 4 already.
_LAUNCH = (
    "import os, sys; from fcntl import fcntl, F_DUPFD; "
    "pipes = [fcntl(int(word), F_DUPFD, 10) for word in sys.argv[1:3]]; "
    "os.dup2(pipes[0], 3); os.dup2(pipes[1], 4); "
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


class BrowserError(Exception):
    """Chromium answered with an error or did not answer."""


def find_program() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One Chromium with one page.

    `messages` are the events of Chromium that were received before replies.
    """

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
        """Send a command and return its result. Events before it are added to `messages`."""
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
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([self._reader], [], [], remaining)[0]:
                raise BrowserError("no answer")
            chunk = os.read(self._reader, 1 << 20)
            if not chunk:
                raise BrowserError("Chromium has ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    # -- actions of a user -------------------------------------------------------------------

    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. The security policy does not apply."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + WAIT_SECONDS
        # An element cannot be sent as a value, so it is replaced by `true`.
        sendable = f"(value => value instanceof Node || value)({expression})"
        while True:
            try:
                value = self.evaluate(sendable)
            except BrowserError:  # the document is being replaced
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                page_text = self.evaluate("document.body.innerText.slice(0, 3000)")
                raise AssertionError(f"never true: {expression}\nthe page shows: {page_text}")
            time.sleep(0.05)

    def wait_for_text(self, text: str, within: str = "body") -> None:
        """Wait until the element of the selector `within` contains this text."""
        quoted = json.dumps(text)
        self.wait_for(f"document.querySelector({json.dumps(within)})?.innerText.includes({quoted})")

    def click(self, selector: str) -> None:
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def click_text(self, text: str, within: str = "body") -> None:
        """Click with the mouse on the smallest visible element with exactly this text, scrolled
        into view like a person would. Elements without a way to be clicked are ignored."""
        point = self.wait_for(
            f"(text => {{ const all = [...document.querySelector({json.dumps(within)})"
            ".querySelectorAll('a, button, summary, summary *')].filter(each => "
            "each.checkVisibility() && each.innerText.trim() === text); const last = all.pop(); "
            "if (!last) return null; last.scrollIntoView({ block: 'nearest' }); "
            "const box = last.getBoundingClientRect(); "
            f"return [box.x + box.width / 2, box.y + box.height / 2]; }})({json.dumps(text)})"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=point[0],
                y=point[1],
                button="left",
                clickCount=1,
            )

    def type_into(self, selector: str, text: str) -> None:
        """Replace the text of a field, by input events."""
        self.wait_for(f"document.querySelector({json.dumps(selector)}) !== null")
        field = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{field}.focus(); {field}.select()")
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Press a key. `code` is its Windows virtual key code, and `text` the text that it
        types."""
        more: dict[str, Any] = {"windowsVirtualKeyCode": code} if code else {}
        if text:
            more["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def set_screen(
        self, *, width: int, height: int, scheme: str = "light", phone: bool = False
    ) -> None:
        """Set the size of the window and the preferred colour scheme."""
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

    def page_errors(self) -> list[str]:
        """Return the errors of scripts and of the security policy."""
        self.evaluate("0")  # receives the events before its reply
        errors = []
        for message in self.messages:
            params = message.get("params", {})
            if message.get("method") == "Runtime.exceptionThrown":
                errors.append(json.dumps(params["exceptionDetails"])[:600])
            elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return errors

    def requested_urls(self) -> list[str]:
        return [
            message["params"]["request"]["url"]
            for message in self.messages
            if message.get("method") == "Network.requestWillBeSent"
        ]


@contextmanager
def launch(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser; end it and all its processes at the end."""
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
    arguments = [sys.executable, "-E", "-c", _LAUNCH, str(to_child), str(from_child), program]
    process = subprocess.Popen(
        [*arguments, *options],
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
        os.close(our_writer)  # Chromium ends when its pipe is closed
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(our_reader)


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Yield a browser; skip the test if Chromium is not installed."""
    program = find_program()
    if program is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    with launch(program, folder / "profile") as browser:
        yield browser
