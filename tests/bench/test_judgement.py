"""Tests of `bench/`: how it judges measured values, and what it prints.

A row of the benchmark measures a ratio, such as the time of a call to that of a raw pipe. It has
two targets: `must`, and the harder `stretch`. Its `Reading` has the median and the quartiles of
several rounds. If the quartiles are on both sides of a target, the row is NOISY and not judged. No
test here measures anything.
"""

import json
import math

import pytest

from bench import compare
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


def make_row(
    must: float | None = 3, stretch: float | None = 2, direction: Direction = Direction.AT_MOST
) -> Row:
    """Return a row with these targets; measuring it fails the test."""

    def measure(setting: Setting) -> Reading:
        raise AssertionError("a verdict must not measure")

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
def test_an_upper_target_is_met_by_values_up_to_it(value: float, verdict: Verdict) -> None:
    assert judge(make_row(), Reading(value)) is verdict


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
def test_a_lower_target_is_met_by_values_from_it(value: float, verdict: Verdict) -> None:
    assert judge(make_row(15, 25, Direction.AT_LEAST), Reading(value)) is verdict


def test_a_row_without_a_target_never_fails_the_run() -> None:
    without_target = make_row(must=None, stretch=None)
    assert judge(without_target, Reading(1e9)) is Verdict.REPORTED
    assert exit_status([Outcome(without_target, Verdict.FAILED, reason="crashed")]) == 0


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.STRETCH, 0),
        (Verdict.MET, 0),
        (Verdict.REPORTED, 0),
        (Verdict.NOT_BUILT, 0),
        (Verdict.SKIPPED, 0),
        (Verdict.MISSED, 1),
        (Verdict.FAILED, 1),
    ],
)
def test_only_a_missed_or_unmeasured_target_fails_the_run(verdict: Verdict, status: int) -> None:
    met = Outcome(make_row(), Verdict.MET, Reading(2.5))
    assert exit_status([met, Outcome(make_row(), verdict), met]) == status


def test_the_value_is_the_median_of_the_ratios_not_the_ratio_of_the_medians() -> None:
    # Samples of the subject and of the baseline. The second round was slow for both, so its ratio
    # is that of the others.
    reading = read_values(ratios([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]))
    assert (reading.low, reading.value, reading.high) == (2.0, 2.0, 2.0)


def test_the_quartiles_of_one_sample_are_the_sample() -> None:
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_subject_and_baseline_are_measured_in_alternating_order() -> None:
    order: list[str] = []
    blocks = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    samples = take_turns(blocks, rounds=3, warm=1)
    # One round to warm up, which is not a sample, and three rounds.
    assert "".join(order) == "ba" + "ab" + "ba" + "ab"
    assert [len(samples[name]) for name in "ab"] == [3, 3]


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
def test_numbers_have_three_digits_and_a_unit(value: float, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_a_line_shows_value_targets_verdict_and_reason() -> None:
    reading = Reading(2.5, (("exthost", "30 us"), ("raw", "12 us")), "not pinned", 2.4, 2.6)
    line = cells(Outcome(make_row(), Verdict.MET, reading))
    assert line == (
        "a row",
        "2.50x",
        "<= 3x",
        "<= 2x",
        "met",
        "2.40 - 2.60",
        "exthost 30 us, raw 12 us; not pinned",
    )


def test_a_value_whose_rounds_disagree_is_marked_noisy_in_line_summary_and_json() -> None:
    steady = Outcome(make_row(), Verdict.MET, Reading(2.5, low=2.4, high=2.6))
    noisy = Outcome(make_row(), Verdict.STRETCH, Reading(1.88, low=1.01, high=2.72))
    assert [cells(outcome)[-1] for outcome in (steady, noisy)] == ["", "NOISY"]
    assert [as_json(outcome)["noisy"] for outcome in (steady, noisy)] == [False, True]
    assert "NOISY" not in summary([steady])
    assert "1 rows are NOISY" in summary([steady, noisy])


def test_a_value_measured_while_other_programs_ran_is_noisy() -> None:
    alone = Reading(2.5, low=2.4, high=2.6, other_work=0.05)
    busy = Reading(2.5, low=2.4, high=2.6, other_work=0.34)
    assert [is_noisy(alone), is_noisy(busy)] == [False, True]
    assert cells(Outcome(make_row(), Verdict.MET, busy))[-1] == (
        "NOISY, other programs took 34% of the cores"
    )


def test_each_round_adds_a_sample_of_each_block() -> None:
    samples = take_turns({"a": lambda: None, "b": lambda: 0.25}, rounds=40)
    assert len(samples["a"]) == len(samples["b"]) == 40
    assert set(samples["b"]) == {0.25}  # the block returned its own measurement


def test_cores_with_few_device_interrupts_are_preferred() -> None:
    text = """           CPU0       CPU1
  24:          1          3  IO-APIC   5-edge      ACPI:Ged
  33:       1000      78942  PCI-MSIX  virtio1-input.0
 LOC:    9999999          0  Local timer interrupts
 ERR:          0
"""
    counts = interrupts(text)
    assert counts == {0: 1001, 1: 78945}
    assert by_interrupts([0, 1], counts) == [0, 1]


def test_cores_with_about_as_many_interrupts_are_used_from_the_last() -> None:
    assert by_interrupts([0, 1, 2], {0: 3000, 1: 1000, 2: 2000}) == [2, 1, 0]
    assert by_interrupts([0, 1], interrupts("")) == [1, 0]


def test_the_summary_names_rows_with_different_verdicts_in_several_runs() -> None:
    met = Outcome(make_row(), Verdict.MET, Reading(2.9))
    stretch = Outcome(make_row(), Verdict.STRETCH, Reading(1.9))
    missed = Outcome(make_row(), Verdict.MISSED, Reading(3.1))
    assert disagreements([met, stretch]) == {}
    assert disagreements([met, missed]) == {"a-row": [met, missed]}
    report = summary([met, missed])
    assert "a-row was not judged the same each time: 2.90x met, 3.10x MISSED" in report


def test_a_profile_shows_microseconds_and_the_ratio_to_the_raw_pipe() -> None:
    table = lines({"raw pipe": Cost(10e-6, 4e-6), "ext.call, alone": Cost(25e-6, 20e-6)})
    assert table[2].split() == ["ext.call,", "alone", "25.00", "20.00", "2.50", "40,000"]


def test_a_failed_row_shows_the_last_line_of_its_traceback() -> None:
    line = cells(Outcome(make_row(), Verdict.FAILED, reason="Traceback\n  File\nOSError: no\n"))
    assert line[1] == ""
    assert line[-1] == "OSError: no"


def test_the_columns_of_a_line_are_aligned_with_their_headings() -> None:
    layout = Layout([make_row()])
    heading, rule = layout.heading().splitlines()
    line = layout.line(cells(Outcome(make_row(), Verdict.MET, Reading(2.5, (("raw", "12 us"),)))))
    assert line.index("met") == heading.index("verdict")
    assert line.index("raw 12 us") == heading.index("absolute")
    assert line.index("2.50x") + len("2.50x") == heading.index("value") + len("value")
    assert len(rule) == len(heading)
    assert heading.split() == list(HEADINGS)


def test_json_has_the_contents_of_the_table() -> None:
    document = as_json(
        Outcome(make_row(), Verdict.MET, Reading(2.5, (("raw", "12 us"),), "", 2.4, 2.6))
    )
    assert (document["value"], document["must"], document["verdict"]) == (2.5, 3, "met")
    assert document["absolute"] == {"raw": "12 us"}
    missing = as_json(Outcome(make_row(), Verdict.NOT_BUILT, reason="exthost.connect"))
    assert (missing["value"], missing["reason"]) == (None, "exthost.connect")


def test_rows_are_chosen_by_key_or_name_or_shell_pattern() -> None:
    assert [row.key for row in chosen(ROWS, ["echo-1m"])] == ["echo-1m"]
    assert {row.key for row in chosen(ROWS, ["call-*-same"])} == {
        "call-asyncio-same",
        "call-uvloop-same",
    }
    assert [row.key for row in chosen(ROWS, ["--HELP"])] == ["help"]
    rows = chosen(ROWS, ["call_tool"])
    assert rows and all("call_tool" in row.key + row.name for row in rows)
    assert chosen(ROWS, []) == list(ROWS)
    assert chosen(ROWS, ["no such row"]) == []


def test_the_list_option_shows_the_rows_of_a_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "100-pool-16"]) == 0
    keys = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert keys == ["call_tool-asyncio-100-pool-16", "call_tool-uvloop-100-pool-16"]
    assert main(["--list", "no such row"]) == 2


@pytest.mark.parametrize(
    ("key", "must"),
    [
        ("call_tool-asyncio-split", None),
        ("call_tool-asyncio-lean", 1.3),
        ("call_tool-uvloop-lean", 1.3),
        ("call_tool-asyncio-100-lean", 0.5),
        ("call_tool-asyncio-100-ext", 0.9),
        ("call_tool-asyncio-100-observed", 0.85),
        ("call_tool-asyncio-100-other-events", 0.97),
        ("call_tool-asyncio-100-pool-16", 0.9),
        ("peer-mcp-python", None),
        ("peer-mcp-rust", None),
        ("first-host-time", 120),
        ("first-host-modules", 200),
        ("call-verb", 2),
        ("start-100-plain", 1.5),
        ("start-100-tree", 2.2),
        ("echo-1m", 2.2),
        ("echo-16m", 1.8),
        ("idle-memory", 10),
    ],
)
def test_these_rows_have_these_targets(key: str, must: float | None) -> None:
    [row] = [row for row in ROWS if row.key == key]
    assert row.must == must


def test_a_refused_priority_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.setpriority", refuse)
    assert main(["--priority", "help"]) == 2
    assert "Permission denied; run as root" in capsys.readouterr().err


def test_keys_are_unique_and_stretch_targets_are_harder() -> None:
    keys = [row.key for row in ROWS]
    assert len(set(keys)) == len(keys)
    for row in ROWS:
        if row.stretch is None:
            continue
        assert row.must is not None, row.key
        if row.direction is Direction.AT_MOST:
            assert row.stretch < row.must, row.key
        else:
            assert row.stretch > row.must, row.key


def test_a_setting_can_be_passed_to_a_worker_as_text() -> None:
    setting = Setting(child=("/tmp/echo", "--raw"), rounds=9, few=3)
    assert setting_from_text(setting_to_text(setting)) == setting


@pytest.mark.parametrize(
    ("reading", "verdict"),
    [
        (Reading(2.5, low=2.4, high=2.9), Verdict.MET),
        (Reading(2.5, low=2.4, high=3.2), Verdict.NOISY),  # the upper quartile misses 3
        (Reading(3.2, low=2.9, high=3.4), Verdict.NOISY),  # the lower quartile reaches it
        (Reading(3.2, low=3.1, high=3.4), Verdict.MISSED),
        (Reading(3.2, low=3.1, high=3.4, other_work=0.5), Verdict.NOISY),
        (Reading(1.5, low=1.4, high=1.6, other_work=0.5), Verdict.NOISY),
    ],
)
def test_a_verdict_needs_both_quartiles_on_one_side_of_the_target(
    reading: Reading, verdict: Verdict
) -> None:
    assert judge(make_row(), reading) is verdict


def test_a_noisy_row_does_not_fail_the_run() -> None:
    assert exit_status([Outcome(make_row(), Verdict.NOISY, Reading(3.2))]) == 0


def describe_change(before: Reading, now: Reading, direction: Direction) -> str:
    """Return what --compare says about a row that was measured in two runs."""
    row = make_row(direction=direction)
    document = json.dumps({"rows": [as_json(Outcome(row, Verdict.MET, before))]})
    run = compare.read_run(document)
    heading, line = compare.lines(run, [Outcome(row, Verdict.MET, now)])
    assert heading == "compared with the earlier run:"
    return line


def test_a_comparison_names_a_change_only_beyond_the_quartiles() -> None:
    before = Reading(2.0, low=1.9, high=2.1)
    overlapping, larger = Reading(2.1, low=2.0, high=2.2), Reading(3.0, low=2.8, high=3.2)
    assert describe_change(before, overlapping, Direction.AT_MOST).endswith("within the quartiles")
    assert describe_change(before, larger, Direction.AT_MOST).endswith(
        "WORSE (1.50 of what it was)"
    )
    assert describe_change(before, larger, Direction.AT_LEAST).endswith(
        "better (1.50 of what it was)"
    )


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [{}]}', '{"rows": 1}'])
def test_a_file_that_is_not_an_earlier_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the --json output of a run"):
        compare.read_run(text)
