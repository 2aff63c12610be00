"""The picture of the speed in README.md: `python -m bench.picture RUN SVG`.

RUN is the --json output of a run with the rows `peer-…`. Each of them measured one other client and
`host.call_tool` in turn, so a bar is the number of calls of that client for each call of exthost,
and the line on it is from the lower to the upper quartile of the rounds.
"""

import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bench.compare import Run, read_run
from bench.row import NOISY_OTHER_WORK

TITLE = "MCP tools/call, 100 in flight, through the same server in C"
# The clients on the event loop and in the dialect that users have by default.
PEERS = {
    "peer-mcp-rust": "Rust SDK (rmcp)",
    "peer-mcp-mark3labs-go": "mcp-go",
    "peer-mcp-node": "Node SDK",
    "peer-mcp-go": "Go SDK",
    "peer-mcp-python": "Python SDK",
    "peer-fastmcp": "FastMCP",
}

WIDTH, MARGIN = 720, 16
LABEL_WIDTH, BAR_HEIGHT, ROW_HEIGHT = 150, 18, 28
# Text after a bar, such as "0.62 of exthost".
NUMBER_WIDTH = 130


class Bar(NamedTuple):
    """The calls of a client for each call of exthost: the median and the quartiles."""

    label: str
    value: float
    low: float
    high: float


def make_bars(run: Run) -> list[Bar]:
    """Return the bars, the longest first: exthost and the clients that the run measured."""
    bars = [Bar("exthost", 1, 1, 1)]
    bars += [_make_bar(label, run[key]) for key, label in PEERS.items() if key in run]
    return sorted(bars, key=lambda bar: -bar.value)


def _make_bar(label: str, row: Mapping[str, Any]) -> Bar:
    # A row is exthost / client.
    low, high = (row["value"] if ratio is None else ratio for ratio in row["quartiles"])
    return Bar(label, 1 / row["value"], 1 / high, 1 / low)


def describe_noise(run: Run) -> str:
    """Return a sentence about other programs that used much of the machine during the run; "" if
    none did."""
    shares = [run[key].get("other_work") or 0 for key in PEERS if key in run]
    share = max(shares, default=0)
    if share <= NOISY_OTHER_WORK:
        return ""
    return f"Other programs used up to {share:.0%} of the cores during the run."


def draw(bars: Iterable[Bar], note: str = "") -> str:
    """Return the picture as SVG, with a note below the bars."""
    bars = list(bars)
    height = 2 * MARGIN + 36 + ROW_HEIGHT * len(bars) + (ROW_HEIGHT if note else 0)
    scale = (WIDTH - 2 * MARGIN - LABEL_WIDTH - NUMBER_WIDTH) / max(bar.high for bar in bars)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
            f' font-family="sans-serif" font-size="14">'
        ),
        f"<title>{escape(TITLE)}: calls per second, as a share of those of exthost</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 14}" font-weight="bold">{escape(TITLE)}</text>',
    ]
    for number, bar in enumerate(bars):
        top = MARGIN + 36 + ROW_HEIGHT * number
        parts += _draw_bar(bar, top, scale)
    if note:
        bottom = f'<text x="{MARGIN}" y="{height - MARGIN}" font-size="12" fill="#555">'
        parts.append(f"{bottom}{escape(note)}</text>")
    return "\n".join([*parts, "</svg>", ""])


def _draw_bar(bar: Bar, top: int, scale: float) -> list[str]:
    left, middle = MARGIN + LABEL_WIDTH, top + BAR_HEIGHT / 2
    is_own = bar.label == "exthost"
    colour, weight = ("#0b6e4f", "bold") if is_own else ("#9aa5b1", "normal")
    number = "1" if is_own else f"{bar.value:.2g} of exthost"
    text_left = left + max(bar.value, bar.high) * scale + 8
    return [
        (
            f'<text x="{left - 8}" y="{top + 14}" text-anchor="end" font-weight="{weight}">'
            f"{escape(bar.label)}</text>"
        ),
        (
            f'<rect x="{left}" y="{top}" width="{bar.value * scale:.1f}" height="{BAR_HEIGHT}"'
            f' fill="{colour}"/>'
        ),
        (
            f'<line x1="{left + bar.low * scale:.1f}" x2="{left + bar.high * scale:.1f}"'
            f' y1="{middle}" y2="{middle}" stroke="#333"/>'
        ),
        f'<text x="{text_left:.1f}" y="{top + 14}">{number}</text>',
    ]


def main(words: list[str]) -> int:
    """Draw the picture of a run. Return 1 if the run measured none of the clients."""
    source, target = words
    run = read_run(Path(source).read_text())
    bars = make_bars(run)
    if len(bars) == 1:
        print(f"{source} has no row of another client: no picture", file=sys.stderr)
        return 1
    Path(target).write_text(draw(bars, describe_noise(run)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
