"""bench/ judges fairly: what is met, what is missed, what is only told, and what it exits with."""

import math

import pytest

from bench.__main__ import chosen, main
from bench.cores import by_interrupts, interrupts
from bench.profile_call import Cost, lines
from bench.rounds import quartiles, ratios, read_values, take_turns
from bench.row import (
    Direction,
    Outcome,
    Reading,
    Row,
    Setting,
    Verdict,
    as_json,
    disagreements,
    exit_status,
    is_noisy,
    judge,
)
from bench.rows import ROWS
from bench.table import HEADINGS, Layout, cells, number, summary
from bench.worker import setting_from_text, setting_to_text


def row(
    must: float | None = 3, stretch: float | None = 2, direction: Direction = Direction.AT_MOST
) -> Row:
    def measure(setting: Setting) -> Reading:
        raise AssertionError("judging measures nothing")

    return Row(
        key="a-row",
        name="a row",
        measure=measure,
        direction=direction,
        must=must,
        stretch=stretch,
    )


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (1.9, Verdict.STRETCH),
        (2.0, Verdict.STRETCH),
        (2.1, Verdict.MET),
        (3.0, Verdict.MET),
        (3.1, Verdict.MISSED),
        (math.nan, Verdict.MISSED),
    ],
)
def test_an_upper_target_is_reached_on_the_line_and_below(value: float, verdict: Verdict) -> None:
    assert judge(row(), Reading(value)) is verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (26, Verdict.STRETCH),
        (25, Verdict.STRETCH),
        (24.9, Verdict.MET),
        (14.9, Verdict.MISSED),
        (math.nan, Verdict.MISSED),
    ],
)
def test_a_lower_target_is_reached_on_the_line_and_above(value: float, verdict: Verdict) -> None:
    assert judge(row(15, 25, Direction.AT_LEAST), Reading(value)) is verdict


def test_a_row_without_a_must_is_reported_and_never_judged() -> None:
    report = row(must=None, stretch=None)
    assert judge(report, Reading(1e9)) is Verdict.TOLD
    assert exit_status([Outcome(report, Verdict.FAILED, why="crashed")]) == 0


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.STRETCH, 0),
        (Verdict.MET, 0),
        (Verdict.TOLD, 0),
        (Verdict.NOT_BUILT, 0),
        (Verdict.SKIPPED, 0),
        (Verdict.MISSED, 1),
        (Verdict.FAILED, 1),
    ],
)
def test_only_a_must_that_was_missed_or_could_not_be_measured_fails_the_run(
    verdict: Verdict, status: int
) -> None:
    good = Outcome(row(), Verdict.MET, Reading(2.5))
    assert exit_status([good, Outcome(row(), verdict), good]) == status


def test_the_value_is_the_median_of_the_ratios_not_the_ratio_of_the_medians() -> None:
    # The second round was slow for both, and says the same as the others.
    reading = read_values(ratios([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]))
    assert (reading.low, reading.value, reading.high) == (2.0, 2.0, 2.0)


def test_one_sample_is_its_own_median() -> None:
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_subject_and_baseline_take_turns_in_changing_order() -> None:
    order: list[str] = []
    blocks = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    took = take_turns(blocks, rounds=3, warm=1)
    assert "".join(order) == "ba" + "ab" + "ba" + "ab"
    assert [len(took[name]) for name in "ab"] == [3, 3]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.2, "x", "2.20x"),
        (10, "x", "10.0x"),
        (0.7523, "x", "0.752x"),
        (123.4, "KiB", "123 KiB"),
        (999.9, "", "1000"),
        (1788.2, "MB/s", "1788 MB/s"),
        (54_321, "calls/s", "54.3k calls/s"),
        (299_700, "calls/s", "300k calls/s"),
        (1_250_000, "", "1.25M"),
    ],
)
def test_numbers_carry_three_digits_and_their_unit(value: float, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_a_line_shows_value_targets_verdict_and_reason() -> None:
    reading = Reading(2.5, (("exthost", "30 us"), ("raw", "12 us")), "not pinned", 2.4, 2.6)
    shown = cells(Outcome(row(), Verdict.MET, reading))
    assert shown == (
        "a row",
        "2.50x",
        "<= 3x",
        "<= 2x",
        "met",
        "2.40 - 2.60",
        "exthost 30 us, raw 12 us; not pinned",
    )


def test_a_value_whose_rounds_disagree_is_marked_noisy_in_line_summary_and_json() -> None:
    steady = Outcome(row(), Verdict.MET, Reading(2.5, low=2.4, high=2.6))
    shaky = Outcome(row(), Verdict.STRETCH, Reading(1.88, low=1.01, high=2.72))
    assert [cells(o)[-1] for o in (steady, shaky)] == ["", "NOISY"]
    assert [as_json(o)["noisy"] for o in (steady, shaky)] == [False, True]
    assert "NOISY" not in summary([steady])
    assert "1 rows are NOISY" in summary([steady, shaky])


def test_a_value_measured_beside_other_programs_is_noisy_with_a_reason() -> None:
    quiet = Reading(2.5, low=2.4, high=2.6, other_work=0.05)
    busy = Reading(2.5, low=2.4, high=2.6, other_work=0.34)
    assert [is_noisy(quiet), is_noisy(busy)] == [False, True]
    assert cells(Outcome(row(), Verdict.MET, busy))[-1] == (
        "NOISY, other programs took 34% of the cores"
    )


def test_many_rounds_give_as_many_samples_of_each_block() -> None:
    took = take_turns({"a": lambda: None, "b": lambda: 0.25}, rounds=40)
    assert len(took["a"]) == len(took["b"]) == 40
    assert set(took["b"]) == {0.25}  # a block may measure itself


def test_the_host_avoids_a_core_that_serves_many_device_interrupts() -> None:
    text = """           CPU0       CPU1
  24:          1          3  IO-APIC   5-edge      ACPI:Ged
  33:       1000      78942  PCI-MSIX  virtio1-input.0
 LOC:    9999999          0  Local timer interrupts
 ERR:          0
"""
    counts = interrupts(text)
    assert counts == {0: 1001, 1: 78945}
    assert by_interrupts([0, 1], counts) == [0, 1]


def test_cores_that_serve_about_as_many_interrupts_are_taken_from_the_last() -> None:
    assert by_interrupts([0, 1, 2], {0: 3000, 1: 1000, 2: 2000}) == [2, 1, 0]
    assert by_interrupts([0, 1], interrupts("")) == [1, 0]


def test_a_row_that_passes_in_one_run_and_misses_in_the_next_is_named() -> None:
    met = Outcome(row(), Verdict.MET, Reading(2.9))
    better = Outcome(row(), Verdict.STRETCH, Reading(1.9))
    missed = Outcome(row(), Verdict.MISSED, Reading(3.1))
    assert disagreements([met, better]) == {}
    assert disagreements([met, missed]) == {"a-row": [met, missed]}
    report = summary([met, missed])
    assert "a-row was not judged the same each time: 2.90x met, 3.10x MISSED" in report


def test_a_profile_shows_each_call_in_microseconds_and_against_the_raw_pipe() -> None:
    table = lines({"raw pipe": Cost(10e-6, 4e-6), "ext.call, alone": Cost(25e-6, 20e-6)})
    assert table[2].split() == ["ext.call,", "alone", "25.00", "20.00", "2.50", "40,000"]


def test_a_failed_row_shows_the_last_line_of_its_traceback() -> None:
    shown = cells(Outcome(row(), Verdict.FAILED, why="Traceback\n  File\nOSError: no\n"))
    assert shown[1] == ""
    assert shown[-1] == "OSError: no"


def test_the_columns_of_every_line_stand_under_their_headings() -> None:
    layout = Layout([row()])
    heading, rule = layout.heading().splitlines()
    line = layout.line(cells(Outcome(row(), Verdict.MET, Reading(2.5, (("raw", "12 us"),)))))
    assert line.index("met") == heading.index("verdict")
    assert line.index("raw 12 us") == heading.index("absolute")
    assert line.index("2.50x") + len("2.50x") == heading.index("value") + len("value")
    assert len(rule) == len(heading)
    assert heading.split() == list(HEADINGS)


def test_json_has_the_contents_of_the_table() -> None:
    found = as_json(Outcome(row(), Verdict.MET, Reading(2.5, (("raw", "12 us"),), "", 2.4, 2.6)))
    assert (found["value"], found["must"], found["verdict"]) == (2.5, 3, "met")
    assert found["absolute"] == {"raw": "12 us"}
    missing = as_json(Outcome(row(), Verdict.NOT_BUILT, why="exthost.connect"))
    assert (missing["value"], missing["why"]) == (None, "exthost.connect")


def test_rows_are_chosen_by_key_or_name_or_shell_pattern() -> None:
    assert [r.key for r in chosen(ROWS, ["echo-1m"])] == ["echo-1m"]
    assert {r.key for r in chosen(ROWS, ["call-*-same"])} == {
        "call-asyncio-same",
        "call-uvloop-same",
    }
    assert [r.key for r in chosen(ROWS, ["--HELP"])] == ["help"]
    called = chosen(ROWS, ["call_tool"])
    assert called and all("call_tool" in r.key + r.name for r in called)
    assert chosen(ROWS, []) == list(ROWS)
    assert chosen(ROWS, ["no such row"]) == []


def test_the_command_lists_the_rows_that_a_word_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "pool-16"]) == 0
    keys = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert keys == ["call_tool-asyncio-100-pool-16", "call_tool-uvloop-100-pool-16"]
    assert main(["--list", "no such row"]) == 2


@pytest.mark.parametrize(
    ("key", "must"),
    [
        ("call_tool-asyncio-split", 2.2),
        ("call_tool-uvloop-split", 1.9),
        ("call_tool-asyncio-same", 3.5),
        ("call_tool-uvloop-same", 3),
        ("call_tool-blocking-split", 2.5),
        ("call_tool-asyncio-100-streams", 3),
        ("call_tool-asyncio-100-ext", 0.9),
        ("call_tool-asyncio-100-observed", 0.85),
        ("call_tool-asyncio-100-other-events", 0.97),
        ("call_tool-asyncio-100-pool-16", 0.9),
        ("peer-mcp-python", 30),
        ("peer-mcp-node", 2),
        ("peer-vscode-jsonrpc", 2.5),
        ("echo-1m", 2.2),
        ("echo-16m", 1.8),
        ("idle-memory", 12),
    ],
)
def test_calls_of_users_are_judged(key: str, must: float) -> None:
    [found] = [r for r in ROWS if r.key == key]
    assert found.must == must


def test_a_priority_that_the_system_refuses_is_reported_and_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.setpriority", refuse)
    assert main(["--priority", "help"]) == 2
    assert "Permission denied; run as root" in capsys.readouterr().err


def test_every_row_has_its_own_key_and_targets_in_the_right_order() -> None:
    keys = [r.key for r in ROWS]
    assert len(set(keys)) == len(keys)
    for r in ROWS:
        if r.stretch is not None:
            assert r.must is not None, r.key
            harder = r.stretch < r.must if r.direction is Direction.AT_MOST else r.stretch > r.must
            assert harder, r.key


def test_a_setting_survives_the_command_line_of_a_worker() -> None:
    setting = Setting(child=("/tmp/echo", "--raw"), rounds=9, few=3)
    assert setting_from_text(setting_to_text(setting)) == setting
