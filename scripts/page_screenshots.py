"""Writes the pictures of the web page for the documentation: `make screenshots`.

It runs a host with the extensions of the browser tests and one that fails, drives Chromium, and
writes a picture of each view to the folder that is given, by default `docs/images`.
"""

import sys
import tempfile
from pathlib import Path

from tests.faces.web.browser import Browser, find_program, launch
from tests.faces.web.page_process import PLUGINS, entry, page, showcase_config

WIDE, NARROW = (1200, 800), (400, 800)

# The picture, the fragment of its address, the selectors that are clicked, and what it then shows.
VIEWS = (
    ("page-overview", "#/", (), "[data-failure=broken]"),
    (
        "page-call",
        "#/x/showcase/tools",
        ("details[data-tool=forecast] summary", "details[data-tool=forecast] button.primary"),
        ".messages .message",
    ),
    ("page-form", "#/x/showcase/tools", ("details[data-tool=order] summary",), "fieldset"),
    ("page-calls", "#/x/showcase/calls", (".show-call",), ".messages .message"),
    ("page-traffic", "#/x/showcase/traffic", (".record",), ".traffic-detail pre"),
    ("page-log", "#/log", (), ".log-line"),
)


def main(folder: Path) -> int:
    program = find_program()
    if program is None:
        print("there is no Chromium: make browser installs it if it can")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        broken = entry("broken", "mcp", "-c", "raise SystemExit('WEATHER_KEY is not set')")
        showcase_config(work, broken, f'[discovery]\nsearch_paths = ["{PLUGINS / "notes"}"]\n')
        with page(work) as running, launch(program, work / "profile") as browser:
            browser.set_screen(width=WIDE[0], height=WIDE[1])
            browser.go(f"{running.url}?token={running.token}")
            browser.wait_for("document.querySelectorAll('.ext').length === 4")
            for scheme, size, suffix in (
                ("light", WIDE, ""),
                ("dark", WIDE, "-dark"),
                ("light", NARROW, "-phone"),
            ):
                browser.set_screen(
                    width=size[0], height=size[1], scheme=scheme, phone=size is NARROW
                )
                for name, address, clicks, shown in VIEWS:
                    _show(browser, address, clicks, shown)
                    browser.screenshot(folder / f"{name}{suffix}.png")
    return 0


def _show(browser: Browser, address: str, clicks: tuple[str, ...], shown: str) -> None:
    browser.evaluate("location.hash = '#/none'; void 0")
    browser.evaluate(f"location.hash = {address!r}; void 0")
    for selector in clicks:
        browser.click(selector)
    browser.wait_for(f"document.querySelector({shown!r})")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/images")))
