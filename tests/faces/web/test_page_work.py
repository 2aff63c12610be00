"""Tests of whole tasks on the web page of a host, in a real browser (Chromium).

Examples are: find out why an extension failed, call a tool with nested objects by keyboard alone,
repeat a call, restart several extensions, read logs. axe-core, a checker of accessibility, must
find no violation. The tests control the browser by its debugging protocol, see `browser.py`.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faces.cli.cli_process import run_exthost, run_json
from tests.faces.web.browser import Browser, chromium, find_program
from tests.faces.web.page_process import PLUGINS, ROOT, Page, entry, page, showcase_config

pytestmark = pytest.mark.more

AXE = ROOT / ".venv" / "node" / "node_modules" / "axe-core" / "axe.min.js"
CONTROL = 2  # the bit of the key Ctrl in the modifiers of a key event


class Desktop(NamedTuple):
    """A browser that shows the page, the running host of the page, and the folder of its config."""

    browser: Browser
    running: Page
    folder: Path


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """One browser and one host for all tests: four extensions, one of which has failed."""
    if find_program() is None:
        pytest.skip("there is no Chromium (make browser installs it if it can)")
    folder = tmp_path_factory.mktemp("page")
    broken = entry("broken", "mcp", "-c", "raise SystemExit('WEATHER_KEY is not set')")
    showcase_config(folder, broken, f'[discovery]\nsearch_paths = ["{PLUGINS / "notes"}"]\n')
    with ExitStack() as stack:
        running = stack.enter_context(page(folder))
        browser = stack.enter_context(chromium(folder))
        browser.set_screen(width=1200, height=800)
        browser.go(f"{running.url}?token={running.token}")
        browser.wait_for("document.querySelectorAll('.ext').length === 4")
        yield Desktop(browser, running, folder)


@pytest.fixture(autouse=True)
def no_page_errors(desktop: Desktop) -> Iterator[None]:
    """Begin with the overview on a wide screen; after the test, the page must have had no error."""
    browser = desktop.browser
    browser.set_screen(width=1200, height=800)
    go_to(browser, "#/")
    browser.wait_for("document.querySelector('.overview')")
    yield
    assert browser.page_errors() == []


def go_to(browser: Browser, address: str) -> None:
    """Go to a view of the page, such as "#/log"."""
    browser.evaluate(f"location.hash = {json.dumps(address)}; void 0")


def type_text(browser: Browser, text: str) -> None:
    """Type into the focused field."""
    browser.send("Input.insertText", text=text)


def press_control_enter(browser: Browser) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Enter",
            windowsVirtualKeyCode=13,
            modifiers=CONTROL,
        )


def tab_to(browser: Browser, expression: str, most: int = 60) -> None:
    """Press Tab until an expression about `document.activeElement` is true."""
    for _ in range(most):
        if browser.evaluate(f"Boolean({expression})"):
            return
        browser.press("Tab", 9)
    raise AssertionError(f"{most} tabs do not reach {expression}")


def test_the_overview_names_why_one_failed_and_the_next_step(desktop: Desktop) -> None:
    browser = desktop.browser
    failure = "[data-failure=broken]"
    browser.wait_for_text("it ended during the handshake: exited with 1", failure)
    browser.wait_for_text("WEATHER_KEY is not set", f"{failure} pre")  # its stderr
    assert browser.evaluate(f"document.querySelector('{failure} button').textContent") == "Restart"
    top = browser.evaluate(f"document.querySelector('{failure}').getBoundingClientRect().bottom")
    assert top < 800, "the failure is above the fold"
    browser.wait_for("document.querySelector('[data-row=showcase] .chart-memory')")
    browser.wait_for_text("MiB", "[data-row=showcase]")
    assert browser.evaluate(
        "(frame => frame.scrollWidth <= frame.clientWidth)"
        "(document.querySelector('.usage').parentElement)"
    ), "all columns of the table are visible"


def test_a_call_with_nested_objects_by_keyboard_alone_shows_what_it_sent(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.evaluate("document.activeElement.blur()")
    browser.press("/", 191, "/")
    type_text(browser, "showcase")
    browser.press("ArrowDown", 40)
    browser.press("Enter", 13, "\r")
    browser.wait_for("document.querySelector('h1').textContent === 'showcase'")
    browser.wait_for("document.querySelector('details[data-tool=order]')")
    browser.press("t", 84, "t")
    tab_to(browser, "document.activeElement.closest('[data-tool=order]')")
    browser.press("Enter", 13, "\r")
    browser.wait_for("document.activeElement.dataset.name === 'code'")
    type_text(browser, "abc")  # it does not match the pattern of the field
    press_control_enter(browser)
    browser.wait_for_text("It does not match ^[A-Z]{3}-\\d+$.", "details[data-tool=order]")
    browser.wait_for("document.activeElement.dataset.name === 'code'")
    browser.evaluate("document.activeElement.select()")
    type_text(browser, "ABC-12")
    tab_to(browser, "document.activeElement.dataset.name === 'name'")
    type_text(browser, "Ada")
    tab_to(browser, "document.activeElement.dataset.name === 'sku'")
    type_text(browser, "pen")
    tab_to(browser, "document.activeElement.dataset.name === 'count'")
    type_text(browser, "3")
    press_control_enter(browser)
    browser.wait_for_text("done in", "details[data-tool=order]")
    browser.wait_for_text("ABC-12", "details[data-tool=order] .messages [data-direction=sent]")
    sent = browser.evaluate("document.querySelector('[data-direction=sent] pre').textContent")
    assert json.loads(sent)["arguments"] == {
        "code": "ABC-12",
        "customer": {"name": "Ada"},
        "items": [{"sku": "pen", "count": 3}],
    }
    # The filter of the list would hide rows from the next tests.
    browser.evaluate("document.querySelector('#filter').value = ''")
    browser.evaluate("document.querySelector('#filter').dispatchEvent(new Event('input'))")


def is_visible(selector: str) -> str:
    """Return a JavaScript expression: whether the beginning of an element is on the screen."""
    return (
        "(box => box && box.height > 0 && box.top >= 0 && box.top < innerHeight - 40)"
        f"(document.querySelector({json.dumps(selector)})?.getBoundingClientRect())"
    )


@pytest.mark.parametrize("width", [1200, 400])
def test_three_tasks_are_done_with_the_mouse_by_what_is_visible(
    desktop: Desktop, width: int
) -> None:
    browser = desktop.browser
    browser.set_screen(width=width, height=800, phone=width == 400)
    # Why one failed: without a click.
    browser.wait_for(is_visible("[data-failure=broken] .next"))
    browser.wait_for_text("WEATHER_KEY is not set", "[data-failure=broken] .next")
    # Call a tool with a nested object: two clicks, the fields, and the button.
    browser.click_text("showcase", ".usage")
    browser.click_text("order", "main")
    browser.wait_for("document.activeElement.dataset.name === 'code'")
    for field, text in (("code", "ABC-12"), ("name", "Ada"), ("sku", "pen"), ("count", "3")):
        tab_to(browser, f"document.activeElement.dataset.name === '{field}'")
        type_text(browser, text)
    browser.click_text("Call", "details[data-tool=order]")
    # The result, and what was sent: without another click, and without scrolling.
    browser.wait_for_text("done in", "details[data-tool=order] .call-state")
    browser.wait_for(is_visible("details[data-tool=order] .call-state"))
    browser.wait_for(is_visible("details[data-tool=order] [data-direction=sent] pre"))
    browser.wait_for_text("→ to the extension", "details[data-tool=order] .messages")


def test_on_a_phone_the_overview_is_whole_above_the_list(desktop: Desktop) -> None:
    browser = desktop.browser
    browser.set_screen(width=400, height=800, phone=True)
    browser.wait_for("document.querySelector('.usage tr')")
    assert browser.evaluate(
        "document.querySelector('.overview').getBoundingClientRect().bottom"
        " <= document.querySelector('.list-pane').getBoundingClientRect().top"
    )


def test_on_a_phone_the_chosen_tab_is_visible_and_no_word_of_a_table_is_divided(
    desktop: Desktop,
) -> None:
    browser, _, folder = desktop
    assert run_exthost(folder, "call", "showcase", "chart").returncode == 0
    browser.set_screen(width=400, height=800, phone=True)
    for tab in ("permissions", "tools", "calls"):
        go_to(browser, f"#/x/showcase/{tab}")
        browser.wait_for(
            f"(box => box.left >= 0 && box.right <= 400)(document.querySelector("
            f"'.tabs [data-tab={tab}][aria-current]').getBoundingClientRect())"
        )
    browser.wait_for("document.querySelector('.calls tbody td')")
    assert browser.evaluate(
        "[...document.querySelectorAll('.calls th')].every(cell => cell.clientHeight < 40)"
    )


@pytest.mark.parametrize("width", [1200, 400])
def test_the_figures_of_the_overview_fit_into_their_cards(desktop: Desktop, width: int) -> None:
    browser = desktop.browser
    browser.set_screen(width=width, height=800, phone=width == 400)
    browser.wait_for_text("MiB", ".figures")
    assert browser.evaluate(
        "[...document.querySelectorAll('.figure')]"
        ".every(card => card.scrollWidth <= card.clientWidth)"
    )


def test_bounds_formats_and_unions_are_fields(desktop: Desktop) -> None:
    browser = desktop.browser
    go_to(browser, "#/x/showcase/tools")
    tool = "details[data-tool=order]"
    browser.click(f"{tool} summary")
    browser.wait_for(f"document.querySelector('{tool} [data-name=due]')?.type === 'date'")
    text = browser.evaluate(f"document.querySelector('{tool}').innerText")
    assert "0.5 to 100" in text and "at least 1 item\n" in text
    browser.type_into(f"{tool} [data-name=amount]", "1000")
    browser.click(f"{tool} button.primary")
    browser.wait_for_text("It is more than 100.", tool)
    choice = f"document.querySelector('{tool} fieldset[data-name=payment] select')"
    browser.evaluate(f"{choice}.value = '1'; {choice}.dispatchEvent(new Event('change'))")
    browser.wait_for(f"document.querySelector('{tool} [data-name=days]')")
    browser.click(f"{tool} fieldset[data-name=items] > button")
    browser.wait_for(f"document.querySelectorAll('{tool} [data-name=sku]').length === 2")


def test_a_past_call_is_shown_with_its_arguments_and_repeated_by_a_key(desktop: Desktop) -> None:
    browser, _, folder = desktop
    go_to(browser, "#/x/showcase/calls")
    browser.wait_for_text("Last", ".tab-body")
    assert run_exthost(folder, "call", "showcase", "echo", "text=once more").returncode == 0
    browser.wait_for_text("echo", ".calls")
    browser.click(".show-call")
    browser.wait_for_text("once more", ".beside")
    browser.evaluate("document.querySelector('.repeat').focus()")
    browser.press("r", 82, "r")
    browser.wait_for_text("done in", "details[data-tool=echo]")
    browser.wait_for_text("once more", "details[data-tool=echo] .result")


def test_resources_prompts_completions_and_log_levels_of_a_server(desktop: Desktop) -> None:
    browser = desktop.browser
    go_to(browser, "#/x/showcase/resources")
    browser.click("[data-item='first note'] summary")
    browser.click("[data-item='first note'] button.primary")
    browser.wait_for_text("the text of note://1", "[data-item='first note']")
    browser.click("[data-item=note] summary")
    browser.type_into("[data-item=note] [data-name=id]", "a b")
    browser.click("[data-item=note] button.primary")
    browser.wait_for_text("note://a%20b", "[data-item=note]")
    browser.click(".tabs [data-tab=prompts]")
    browser.click("[data-item=review] summary")
    browser.type_into("[data-item=review] input", "p")
    browser.wait_for("document.querySelectorAll('[data-item=review] datalist option').length === 2")
    browser.type_into("[data-item=review] input", "python")
    browser.click("[data-item=review] button.primary")
    browser.wait_for_text("Review this python code", "[data-item=review]")
    browser.click(".tabs [data-tab=log]")
    browser.wait_for("document.querySelector('[aria-label^=\"Level of\"]')")
    choice = "document.querySelector('[aria-label^=\"Level of\"]')"
    browser.evaluate(f"{choice}.value = 'debug'; {choice}.dispatchEvent(new Event('change'))")
    browser.wait_for_text("the server logs debug and above", "#main")
    go_to(browser, "#/x/notes/features")
    browser.wait_for_text("command.invoke", ".tab-body")


def test_the_list_is_sorted_by_the_chosen_key(desktop: Desktop) -> None:
    browser = desktop.browser
    names = "[...document.querySelectorAll('.ext')].map((row) => row.dataset.id).join(' ')"
    browser.wait_for(f"{names}.startsWith('broken ')")
    for key, order in (("name", "broken fragile notes showcase"), ("trouble", "broken ")):
        browser.evaluate(
            f"document.querySelector('#order').value = '{key}';"
            "document.querySelector('#order').dispatchEvent(new Event('input'))"
        )
        browser.wait_for(f"{names}.startsWith('{order}')")


def test_a_failed_extension_has_one_button_and_a_message_can_be_copied(desktop: Desktop) -> None:
    browser = desktop.browser
    go_to(browser, "#/x/broken")
    browser.wait_for_text("WEATHER_KEY is not set", "main")
    visible = "[...document.querySelectorAll('.title button')].filter((each) => !each.hidden)"
    assert browser.evaluate(f"{visible}.map((each) => each.textContent)") == ["Restart"]
    # A window without a screen has no clipboard.
    browser.evaluate(
        "navigator.clipboard.writeText = async (text) => { window.copiedText = text; }; void 0"
    )
    go_to(browser, "#/x/showcase/tools")
    browser.click("details[data-tool=forecast] summary")
    browser.click("details[data-tool=forecast] button.primary")
    browser.wait_for("document.querySelector('.messages [data-direction=sent] pre')?.textContent")
    browser.click(".messages [data-direction=sent] button")
    browser.wait_for("window.copiedText?.includes('forecast')")


def test_several_are_selected_and_restarted(desktop: Desktop) -> None:
    browser, _, folder = desktop

    def pids() -> dict[str, Any]:
        return {row["id"]: row["pids"] for row in run_json(folder, "status")["extensions"]}

    before = pids()
    order = "document.querySelector('#order')"
    browser.evaluate(f"{order}.value = 'name'; {order}.dispatchEvent(new Event('input'))")
    first = "document.querySelectorAll('.ext')[0].dataset.id"
    browser.wait_for(f"{first} === 'broken'")
    for name in ("showcase", "fragile"):
        browser.click(f"[aria-label='Select {name}']")
    browser.wait_for_text("2 selected", "#selection")
    browser.click("#selection [data-verb=restart]")
    browser.wait_for_text("restart: 2 extensions: done", "#notice")
    after = pids()
    assert before["showcase"] != after["showcase"] and before["fragile"] != after["fragile"]
    assert before["notes"] == after["notes"]
    assert browser.evaluate("document.querySelector('#selection').hidden")


def test_the_log_of_all_is_filtered_and_a_message_opens_beside_the_list(desktop: Desktop) -> None:
    browser, _, folder = desktop
    go_to(browser, "#/log")
    browser.wait_for("document.querySelectorAll('.log-line').length > 3")
    browser.type_into(".log-view input[type=search]", "broken warning")
    lines = "[...document.querySelectorAll('.log-line')]"
    browser.wait_for(f"{lines}.every((line) => line.dataset.level === 'warning')")
    browser.click(".log-view [type=checkbox]")
    assert browser.evaluate("document.querySelector('.log').className").endswith("unwrapped")
    go_to(browser, "#/x/showcase/traffic")
    browser.wait_for("document.querySelector('.traffic-rows')")
    assert run_exthost(folder, "call", "showcase", "echo", "text=hi").returncode == 0
    browser.click(".record")
    browser.wait_for("document.querySelector('.traffic-detail pre')")
    left, right = (
        browser.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().left")
        for selector in (".traffic-rows", ".traffic-detail")
    )
    assert right > left + 200, "the message is beside the list"
    browser.press("Escape", 27)
    browser.wait_for("document.querySelector('.traffic-detail').hidden")


def test_the_exported_messages_are_a_recording_for_replay(desktop: Desktop) -> None:
    browser, running, folder = desktop
    go_to(browser, "#/x/showcase/traffic")
    browser.wait_for("document.querySelector('.traffic-rows')")
    assert run_exthost(folder, "call", "showcase", "echo", "text=recorded").returncode == 0
    browser.wait_for_text("recorded", ".traffic-rows")
    text = browser.evaluate(
        "fetch('/api/trace?name=showcase', { headers: { Authorization: "
        f"'Bearer {running.token}' }} }}).then((answer) => answer.text())"
    )
    file = folder / "page.jsonl"
    file.write_text(text)
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows[0]["extension"] == "showcase" and any("recorded" in str(row) for row in rows)
    result = run_exthost(folder, "replay", str(file), "showcase")
    assert "the recording cannot be read" not in result.stderr and result.returncode != 3


def test_a_wrong_token_is_reported_and_an_unknown_extension_has_no_buttons(
    desktop: Desktop,
) -> None:
    browser, running, _ = desktop
    go_to(browser, "#/x/nobody")
    browser.wait_for_text("There is no extension nobody", "#main")
    assert browser.evaluate("document.querySelectorAll('#main button').length") == 0
    go_to(browser, "#/x/broken")
    browser.wait_for("document.querySelector('h1').textContent === 'broken'")
    buttons = "[...document.querySelectorAll('.title button')].filter((b) => !b.hidden)"
    shown = browser.evaluate(f"{buttons}.map((button) => button.textContent)")
    assert shown == ["Restart"]
    browser.go(f"{running.url}?token=wrong")
    browser.wait_for_text("That is not the token of this host.")
    browser.messages.clear()  # the browser reports the status 401 as an error
    browser.go(f"{running.url}?token={running.token}")
    browser.wait_for("document.querySelectorAll('.ext').length === 4")


def test_a_button_changes_the_theme_and_a_key_opens_the_help(desktop: Desktop) -> None:
    browser = desktop.browser
    colours = []
    for _ in range(3):
        browser.click("#theme")
        colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1] and colours[2] == colours[0], "light, dark, system"
    browser.evaluate("document.activeElement.blur()")
    browser.press("?", 191, "?")
    browser.wait_for("document.querySelector('dialog').open")
    browser.wait_for_text("Ctrl+Enter", "dialog")
    browser.press("Escape", 27)
    browser.wait_for("!document.querySelector('dialog').open")


# By the address of each view: an element that shows that the view has been drawn.
VIEWS = {
    "#/": ".overview",
    "#/traffic": ".traffic-rows",
    "#/log": ".log-line",
    "#/x/showcase/tools": "details[data-tool=order]",
    "#/x/showcase/calls": ".calls",
    "#/x/showcase/traffic": ".record",
    "#/x/showcase/resources": "[data-item=note]",
    "#/x/showcase/prompts": "[data-item=review]",
    "#/x/showcase/roots": ".roots",
    "#/x/notes/features": ".tool",
    "#/x/showcase/life": ".moves",
    "#/x/showcase/permissions": ".columns",
    "#/x/nobody": ".error",
}


# `rules` None is all rules of axe-core. The second pair of rows differs from the first only in its
# colours.
@pytest.mark.parametrize(
    ("width", "scheme", "rules"),
    [
        (1200, "light", None),
        (400, "dark", None),
        (1200, "dark", ["color-contrast"]),
        (400, "light", ["color-contrast"]),
    ],
)
def test_axe_finds_no_violation_and_nothing_overflows(
    desktop: Desktop, width: int, scheme: str, rules: list[str] | None
) -> None:
    if not AXE.exists():
        pytest.skip("there is no axe-core (make node installs it if it can)")
    browser, _, folder = desktop
    browser.set_screen(width=width, height=800, scheme=scheme, phone=width == 400)
    browser.evaluate(AXE.read_text() + "; void 0")
    violations_by_view = {}
    for address, shown in VIEWS.items():
        go_to(browser, address)
        if address.endswith("traffic"):  # the page shows the messages since it was opened
            run_exthost(folder, "call", "showcase", "echo", "text=hi")
        browser.wait_for(f"document.querySelector({json.dumps(shown)})")
        if address.endswith("tools"):
            browser.click("details[data-tool=order] summary")
            browser.wait_for("document.querySelector('[data-name=sku]')")
        options = json.dumps({"runOnly": rules} if rules else {})
        passed, violations = browser.evaluate(
            f"axe.run({options}).then((result) => [result.passes.length, result.violations.map("
            "(each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))])])"
        )
        assert passed, "axe-core has checked something"
        if violations:
            violations_by_view[address] = violations
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, address
    assert violations_by_view == {}
