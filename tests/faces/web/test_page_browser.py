"""Tests of the web page of a host (`exthost run --web`) in a real browser.

The browser is Chromium, which the tests control by its debugging protocol: they click elements by
CSS selectors, press keys, and wait until the page shows a text. The host has the example extensions
`showcase`, `fragile` and `notes`. `test_page_work.py` tests longer tasks.
"""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faces.cli.cli_process import run_exthost, run_json
from tests.faces.web.browser import Browser, chromium, find_program
from tests.faces.web.page_process import FRAGILE, PLUGINS, Page, entry, page, showcase_config
from tests.faces.web.showcase import ATTACK

pytestmark = pytest.mark.more


class Desktop(NamedTuple):
    """A browser that shows the page, the running host of the page, and the folder of its config."""

    browser: Browser
    running: Page
    folder: Path


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    """A browser with the page; after the test, the page must have had no error."""
    if find_program() is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    showcase_config(tmp_path, f'[discovery]\nsearch_paths = ["{PLUGINS / "notes"}"]\n')
    with ExitStack() as stack:
        running = stack.enter_context(page(tmp_path))
        browser = stack.enter_context(chromium(tmp_path))
        browser.set_screen(width=1200, height=800)
        browser.go(f"{running.url}?token={running.token}")
        browser.wait_for("document.querySelectorAll('.ext').length === 3")
        yield Desktop(browser, running, tmp_path)
        assert browser.page_errors() == []
        other_urls = [
            url
            for url in browser.requested_urls()
            if not url.startswith((running.url, "data:", "about:"))
        ]
        assert other_urls == [], "the page loads nothing from other machines"


def state_in_list(name: str) -> str:
    """Return the JavaScript expression of the state that the list shows for an extension."""
    return f"document.querySelector('.ext[data-id={name}] .chip').textContent"


def test_the_page_shows_a_crash_and_the_recovery(desktop: Desktop) -> None:
    browser, _, folder = desktop
    assert "token" not in browser.evaluate("location.href"), "the token is removed from the address"
    browser.click(".ext[data-id=fragile]")
    browser.click(".tabs [data-tab=life]")
    browser.wait_for_text("ready", ".moves")
    (row,) = run_json(folder, "status", "fragile")["extensions"]
    os.kill(row["pids"][0], signal.SIGKILL)
    browser.wait_for_text("1 crash", ".facts")
    browser.wait_for(f"{state_in_list('fragile')} === 'ready'")
    browser.wait_for("document.querySelector('.moves')?.innerText.includes('backoff')")


def test_a_tool_is_called_by_a_form_of_its_schema(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.click(".ext[data-id=showcase]")
    tool = "details[data-tool=forecast]"
    browser.click(f"{tool} summary")
    browser.type_into(f"{tool} [data-name=city]", "Quito")
    browser.type_into(f"{tool} [data-name=days]", "4")
    assert browser.evaluate(f"document.querySelector('{tool} select').selectedOptions[0].text")
    browser.press("Enter", 13, "\r")
    browser.wait_for(f"document.querySelectorAll('{tool} .result tbody tr').length === 4")
    browser.click("details[data-tool=chart] summary")
    browser.click("details[data-tool=chart] button.primary")
    browser.wait_for("document.querySelector('img.picture')?.naturalWidth === 320")
    # If a required argument is missing, the page shows the error of the host.
    browser.click("details[data-tool=echo] summary")
    browser.click("details[data-tool=echo] .switch input")
    browser.type_into("details[data-tool=echo] textarea.json", "{}")
    browser.click("details[data-tool=echo] button.primary")
    browser.wait_for_text("text", "details[data-tool=echo] .error")


def test_the_page_shows_progress_and_streams(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.click(".ext[data-id=showcase]")
    browser.click("details[data-tool=count] summary")
    browser.click("details[data-tool=count] button.primary")
    browser.wait_for_text("4 of 4", "details[data-tool=count] .progress")
    browser.click(".ext[data-id=notes]")
    browser.wait_for("document.querySelector('h1').textContent === 'notes'")
    browser.click("details.method summary")
    browser.type_into("details.method input", "command.invoke")
    params = json.dumps({"command": "export", "args": ["2"]})
    browser.type_into("details.method textarea", params)
    browser.click("details.method button.primary")
    browser.wait_for_text("exported 2 notes", "pre.stream")
    browser.wait_for_text("done in", "details.method")


def test_a_person_answers_the_question_of_a_rule(tmp_path: Path) -> None:
    if find_program() is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    rule = '[[rules]]\ntools = "showcase:*"\ndo = "ask"\nreason = "<b>look</b>"\n'
    showcase_config(tmp_path, rule)
    tool = "details[data-tool=chart]"
    with page(tmp_path) as running, chromium(tmp_path) as browser:
        browser.set_screen(width=1200, height=800)
        browser.go(f"{running.url}?token={running.token}")
        browser.click(".ext[data-id=showcase]")
        browser.click(f"{tool} summary")
        browser.click(f"{tool} button.primary")
        browser.wait_for_text("<b>look</b>", f"{tool} .question")
        browser.wait_for_text("ext_showcase_chart", f"{tool} .question")
        # The button that declines has the focus, so Enter cannot agree by mistake.
        browser.wait_for("document.activeElement.className === 'decline'")
        browser.press("Enter", 13, "\r")
        browser.wait_for_text("X1842", f"{tool} .error")
        browser.wait_for("document.querySelectorAll('.question').length === 0")
        browser.click(f"{tool} button.primary")
        browser.click(f"{tool} .question .agree")
        browser.wait_for("document.querySelector('img.picture')?.naturalWidth === 320")
        browser.wait_for("document.querySelectorAll('.question').length === 0")
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(run_exthost, tmp_path, "call", "ext_showcase_echo", "text=from afar")
            browser.wait_for_text("from afar", "#questions .question")
            browser.click("#questions .agree")
            assert call.result().returncode == 0
        browser.wait_for("document.querySelectorAll('.question').length === 0")
        assert browser.page_errors() == []


def test_markup_in_the_text_of_an_extension_is_shown_as_text(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.click(".ext[data-id=showcase]")
    browser.wait_for_text(ATTACK, "details[data-tool=attack] summary")
    browser.click("details[data-tool=attack] summary")
    browser.click("details[data-tool=attack] button.primary")
    browser.wait_for_text(ATTACK, "details[data-tool=attack] .result")
    browser.click(".tabs [data-tab=traffic]")
    browser.wait_for_text("onerror", ".traffic-rows")
    assert browser.evaluate("document.title") == "showcase - exthost"
    assert browser.evaluate("document.querySelectorAll('img[src=x], main script').length") == 0
    is_blocked = browser.evaluate(
        "(() => { try { document.createElement('div').innerHTML = '<b>x</b>'; return false } "
        "catch { return true } })()"
    )
    assert is_blocked, "the content security policy forbids markup from text"
    browser.messages.clear()  # the error of the content security policy


def test_a_failed_call_has_a_link_to_its_messages(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.click(".ext[data-id=showcase]")
    browser.click("details[data-tool=crash] summary")
    browser.click("details[data-tool=crash] button.primary")
    browser.wait_for_text("out of cheese", "details[data-tool=crash] .error")
    browser.click("details[data-tool=crash] .error a")
    browser.wait_for_text("crash: out of cheese", ".traffic-rows")
    browser.wait_for_text("tools/call", ".traffic-rows")
    browser.click(".tabs [data-tab=calls]")
    browser.wait_for("document.querySelector('tr.failed a')")
    browser.click("tr.failed a")
    browser.wait_for_text("crash: out of cheese", ".traffic-rows")


def test_the_page_can_be_used_by_keyboard_and_on_a_phone(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.press("/", 191, "/")
    browser.wait_for("document.activeElement.id === 'filter'")
    browser.send("Input.insertText", text="frag")
    browser.wait_for("document.querySelectorAll('.ext').length === 1")
    browser.press("ArrowDown", 40)
    browser.wait_for("document.activeElement.dataset.id === 'fragile'")
    browser.press("Enter", 13, "\r")
    browser.wait_for("document.querySelector('h1').textContent === 'fragile'")
    browser.set_screen(width=390, height=780, phone=True)
    browser.wait_for("document.querySelector('.list-pane').offsetParent === null")
    assert browser.evaluate("document.documentElement.scrollWidth <= 390")
    browser.click(".back")
    browser.wait_for("document.querySelector('.list-pane').offsetParent !== null")
    assert browser.evaluate("document.documentElement.scrollWidth <= 390")


def test_of_a_thousand_extensions_only_the_visible_rows_are_drawn(tmp_path: Path) -> None:
    if find_program() is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    entries = [
        entry(f"ext-{number:04}", "morphir", str(FRAGILE), more='start = "lazy"')
        for number in range(1000)
    ]
    (tmp_path / "exthost.toml").write_text("".join(entries))
    with page(tmp_path) as running, chromium(tmp_path) as browser:
        browser.set_screen(width=1200, height=800)
        browser.go(f"{running.url}?token={running.token}")
        browser.wait_for_text("of 1000 extensions", "#summary")
        browser.wait_for("document.querySelectorAll('.ext').length > 5")
        assert browser.evaluate("document.querySelectorAll('.ext').length") < 40
        browser.evaluate("document.querySelector('#list').scrollTop = 1e9")
        browser.wait_for("document.querySelector('.ext[data-id=ext-0999]')")
        assert browser.evaluate("document.querySelectorAll('.ext').length") < 40
        assert browser.page_errors() == []
