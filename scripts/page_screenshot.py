"""Make docs/images/page.png: the page of a host with a few extensions, in a headless Chromium.

    python -m scripts.page_screenshot [FILE]

Needs a Chromium on PATH.
"""

import sys
import tempfile
from pathlib import Path

from tests.faces.web.browser import Browser, find_program, launch
from tests.faces.web.page_process import FRAGILE, PLUGINS, Page, entry, page, showcase_config

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "images" / "page.png"

GUARDED = "permissions = { network = false, filesystem = [] }"


def take(browser: Browser, running: Page, file: Path) -> None:
    """Make some calls, so that the page shows them, and take the picture."""
    browser.set_screen(width=1180, height=860)
    browser.go(f"{running.url}?token={running.token}")
    browser.wait_for("document.querySelectorAll('.ext').length > 3")
    for name, tool in (("guarded", "divide"), ("showcase", "count")):
        browser.evaluate(f"location.hash = '#/x/{name}'")
        browser.wait_for(f"document.querySelector('h1').textContent === '{name}'")
        browser.wait_for(f"document.querySelector('details[data-tool={tool}]')")
        browser.evaluate(f"document.querySelector('details[data-tool={tool}]').open = true")
        button = f"details[data-tool={tool}] button.primary"
        if tool == "divide":
            browser.type_into("[data-name=a]", "6")
            browser.type_into("[data-name=b]", "3")
        for calls in range(1, 7):
            browser.click(button)
            browser.wait_for(f"!document.querySelector('{button}').disabled")
            if calls == 3:
                browser.evaluate("new Promise(resolve => setTimeout(resolve, 2100))")
    browser.evaluate("document.querySelector('details[data-tool=count]').open = false")
    browser.click("details[data-tool=forecast] summary")
    browser.click("details[data-tool=forecast] button.primary")
    browser.wait_for("document.querySelector('.result table')")
    browser.evaluate("document.activeElement.blur(); document.querySelector('main').scrollTo(0, 0)")
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 1000))")
    browser.screenshot(file)


def main() -> None:
    program = find_program()
    if program is None:
        sys.exit("there is no chromium here")
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        showcase_config(
            folder,
            entry("licensed", "morphir", "-c", "import sys; sys.exit('no licence found')"),
            entry("guarded", "morphir", "-S", "-E", str(FRAGILE), more=GUARDED),
            f'[discovery]\nsearch_paths = ["{PLUGINS / "notes"}"]\n',
        )
        with page(folder) as running, launch(program, folder / "profile") as browser:
            take(browser, running, file)
    print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
