"""The picture of the speed in README.md: `python -m bench.picture RUN… SVG`.

RUN is the --json output of a run with the rows `peer-…`. Calls and starts can be in different runs
on one machine. What the picture shows of the runs is written beside SVG, with the suffix `.json`;
that file as RUN makes the same picture.

Each row measured one other client and exthost in turn, so that a slow phase of the machine slows
down both. A bar is therefore the median time of exthost in all rows, multiplied by the median ratio
of that client. If RUN has each row several times (`--repeat`), the line on a bar is from the lowest
to the highest of these measurements.
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bench.compare import read_document
from bench.row import NOISY_OTHER_WORK

# The clients on the event loop that users have by default: the ends of the keys of their rows.
CLIENTS = {
    "rust": "Rust SDK (rmcp)",
    "mark3labs-go": "mcp-go",
    "node": "Node SDK",
    "go": "Go SDK",
    "python": "Python SDK",
    "fastmcp": "FastMCP",
}
CALL_KEYS = {f"peer-mcp-{name}": label for name, label in CLIENTS.items() if name != "fastmcp"}
CALL_KEYS["peer-fastmcp"] = CLIENTS["fastmcp"]
START_KEYS = {f"peer-start-{name}": label for name, label in CLIENTS.items()}

# What the data beside the picture has of a run.
FACTS = ("processor", "system", "cores", "python", "priority")
FIELDS = ("key", "value", "subject_s", "other_work")

WIDTH, MARGIN = 720, 20
LABEL_WIDTH, BAR_HEIGHT, ROW_HEIGHT = 130, 16, 24
# The title of a panel and the line below it; the space between panels; a line of the notes.
HEAD_HEIGHT, GAP_HEIGHT, NOTE_HEIGHT = 50, 18, 17
# Text after a bar, such as "12,300 calls/s".
NUMBER_WIDTH = 110
OWN, OTHER, DARK, GREY = "#0b6e4f", "#9aa5b1", "#1a202c", "#4a5568"

# The rows of a run by their keys, in the order in which they were measured.
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


class Bar(NamedTuple):
    """A measured client: the median, and the lowest and the highest measurement."""

    label: str
    value: float
    low: float
    high: float


class Panel(NamedTuple):
    """One of the two charts: a title, what its numbers are, and the bars, the best first."""

    title: str
    about: str
    show: Callable[[float], str]
    bars: Sequence[Bar]


def reduce_run(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run that the picture shows. Numbers have four digits."""
    keys = CALL_KEYS | START_KEYS
    rows = [
        {name: _round(row.get(name)) for name in FIELDS}
        for row in document["rows"]
        if row["key"] in keys and row["value"] is not None
    ]
    facts = document.get("machine", {})
    return {"machine": {name: facts[name] for name in FACTS if name in facts}, "rows": rows}


def _round(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def write_data(reduced: Mapping[str, Any]) -> str:
    """Return the data as JSON, with one line for each row."""
    rows = ",\n".join(f"    {json.dumps(row)}" for row in reduced["rows"])
    machine = json.dumps(reduced["machine"])
    return f'{{\n  "machine": {machine},\n  "rows": [\n{rows}\n  ]\n}}\n'


def _group(reduced: Mapping[str, Any]) -> Rows:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in reduced["rows"]:
        groups.setdefault(row["key"], []).append(row)
    return groups


def _make_bars(
    rows: Rows, labels: Mapping[str, str], convert: Callable[[float], float]
) -> list[Bar]:
    """Return the bars of exthost and of the measured clients, the shortest time first. `convert`
    turns seconds into the number that is shown."""
    measured = {label: rows[key] for key, label in labels.items() if key in rows}
    own = [row["subject_s"] for group in measured.values() for row in group]
    if not own:
        return []
    own_s = statistics.median(own)
    times = {"exthost": own}
    for label, group in measured.items():
        times[label] = [own_s * row["value"] for row in group]
    in_order = sorted(times.items(), key=lambda item: statistics.median(item[1]))
    return [_make_bar(label, seconds, convert) for label, seconds in in_order]


def _make_bar(label: str, seconds: Sequence[float], convert: Callable[[float], float]) -> Bar:
    ends = sorted((convert(min(seconds)), convert(max(seconds))))
    return Bar(label, convert(statistics.median(seconds)), *ends)


def make_panels(reduced: Mapping[str, Any]) -> list[Panel]:
    """Return the charts for which the run has rows."""
    rows = _group(reduced)
    panels = [
        Panel(
            "Calls of a tool, 100 in flight",
            "calls per second; a longer bar is better",
            lambda rate: f"{float(f'{rate:.3g}'):,.0f}",
            _make_bars(rows, CALL_KEYS, lambda seconds: 1 / seconds),
        ),
        Panel(
            "Start of a server: launch, handshake, list of tools, first result",
            "milliseconds, in a program that runs already; a shorter bar is better",
            lambda milliseconds: f"{milliseconds:.2g} ms",
            _make_bars(rows, START_KEYS, lambda seconds: seconds * 1e3),
        ),
    ]
    return [panel for panel in panels if panel.bars]


def make_notes(reduced: Mapping[str, Any]) -> list[str]:
    """Return the lines below the charts: what was measured, how often, and on what machine."""
    groups = _group(reduced)
    counts = {len(group) for group in groups.values()}
    repeats = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    notes = [
        "All clients use MCP over stdin and stdout, with the same small server in C.",
        "For calls, the client has one core and the server has another.",
    ]
    if counts == {1}:
        notes.append("Each client was measured once, in turn with exthost.")
    else:
        notes.append(
            f"Each client was measured {repeats} times, in turn with exthost. Bar: median. "
            "Line: lowest to highest."
        )
    notes.append("The number of a client is that of exthost, scaled by the measured ratio.")
    facts = reduced["machine"]
    processor = facts.get("processor", "")
    cores = f"{facts.get('cores', '?')} cores" + (f" ({processor})" if processor else "")
    notes.append(f"{facts.get('system', '?')}, {cores}, Python {facts.get('python', '?')}.")
    noise = describe_noise(reduced)
    if noise:
        notes.append(noise)
    return notes


def describe_noise(reduced: Mapping[str, Any]) -> str:
    """Return a sentence about other programs that used much of the machine during the run, or that
    had to wait for it; "" if there were none."""
    priority = reduced["machine"].get("priority", "ordinary")
    if priority != "ordinary":
        return f"The machine was shared with other programs. Priority of the clients: {priority}."
    share = max((row["other_work"] or 0 for row in reduced["rows"]), default=0)
    if share <= NOISY_OTHER_WORK:
        return ""
    return f"Other programs used up to {share:.0%} of the cores during the run."


def draw(reduced: Mapping[str, Any]) -> str:
    """Return the picture as SVG."""
    panels, notes = make_panels(reduced), make_notes(reduced)
    parts: list[str] = []
    top = MARGIN
    for panel in panels:
        parts += _draw_panel(panel, top)
        top += HEAD_HEIGHT + ROW_HEIGHT * len(panel.bars) + GAP_HEIGHT
    for note in notes:
        parts.append(_text(MARGIN, top + 10, note, f'font-size="12" fill="{GREY}"'))
        top += NOTE_HEIGHT
    height = top + MARGIN - 6
    title = "; ".join(f"{panel.title}: {panel.about}" for panel in panels)
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" role="img"'
            f' font-family="ui-sans-serif, system-ui, sans-serif" font-size="13" fill="{DARK}">'
        ),
        f"<title>{escape(title)}</title>",
        # A background, so that the text is legible on a dark page too.
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    blank = " " if attributes else ""
    return f'<text x="{x:g}" y="{y:g}"{blank}{attributes}>{escape(text)}</text>'


def _draw_panel(panel: Panel, top: int) -> list[str]:
    longest = max(bar.high for bar in panel.bars)
    scale = (WIDTH - 2 * MARGIN - LABEL_WIDTH - NUMBER_WIDTH) / longest
    parts = [
        _text(MARGIN, top + 14, panel.title, 'font-size="15" font-weight="bold"'),
        _text(MARGIN, top + 33, panel.about, f'font-size="12" fill="{GREY}"'),
    ]
    for number, bar in enumerate(panel.bars):
        parts += _draw_bar(
            bar, panel.show(bar.value), top + HEAD_HEIGHT + ROW_HEIGHT * number, scale
        )
    return parts


def _draw_bar(bar: Bar, number: str, top: int, scale: float) -> list[str]:
    left, middle = MARGIN + LABEL_WIDTH, top + BAR_HEIGHT / 2
    is_own = bar.label == "exthost"
    weight = ' font-weight="bold"' if is_own else ""
    low, high = left + bar.low * scale, left + bar.high * scale
    return [
        _text(left - 8, top + 13, bar.label, f'text-anchor="end"{weight}'),
        (
            f'<rect x="{left}" y="{top}" width="{bar.value * scale:.1f}" height="{BAR_HEIGHT}"'
            f' fill="{OWN if is_own else OTHER}"/>'
        ),
        (
            f'<path d="M{low:.1f} {middle - 4:g}v8m0 -4H{high:.1f}m0 -4v8" fill="none"'
            f' stroke="{DARK}"/>'
        ),
        _text(round(high + 8, 1), top + 13, number, weight.strip()),
    ]


def _merge_facts(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the facts about the machine of several runs, with the different values of each."""
    found: dict[str, dict[str, None]] = {}
    for document in documents:
        for name, fact in document.get("machine", {}).items():
            found.setdefault(name, {})[fact] = None
    return {name: ", ".join(facts) for name, facts in found.items()}


def main(words: list[str]) -> int:
    """Draw the picture of a run, and write its data beside it. Return 1 if the run measured none of
    the clients."""
    *sources, target = words
    documents = [read_document(Path(source).read_text()) for source in sources]
    rows = [row for document in documents for row in document["rows"]]
    reduced = reduce_run({"machine": _merge_facts(documents), "rows": rows})
    if not reduced["rows"]:
        print(f"{', '.join(sources)}: no row of another client, no picture", file=sys.stderr)
        return 1
    Path(target).write_text(draw(reduced))
    Path(target).with_suffix(".json").write_text(write_data(reduced))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
