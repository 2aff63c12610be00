"""The pictures of the docs, drawn from the tables that the code uses.

The life cycle from `lifecycle.TABLE`, the packages from the layers of `.importlinter`. Only the
places of the ten states are written here; a state without a place, or a place without a state, is
an error. The colours suit a light and a dark page.
"""

import configparser
import importlib
from collections.abc import Mapping
from html import escape
from pathlib import Path

from exthost.extension.lifecycle import TABLE, State

ROOT = Path(__file__).parents[2]

_STYLE = """\
<style>
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #4a5568; }
.name { font-weight: 600; fill: #1a365d; }
.box { fill: #ebf4ff; stroke: #3182ce; }
.lively { fill: #e6fffa; stroke: #2c7a7b; }
.ended { fill: #fff5f5; stroke: #c53030; }
.arrow { fill: none; stroke: #718096; marker-end: url(#head); }
.about { font-size: 12px; }
.label { font-size: 11px; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
</style>"""

_HEAD = """\
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0 8 4 0 8z" fill="#718096"/></marker></defs>"""

# Column and row of each state.
_PLACES: Mapping[State, tuple[float, float]] = {
    State.DISCOVERED: (0, 2),
    State.REFUSED: (0, 4),
    State.ADMITTED: (1, 2),
    State.STARTING: (2, 2),
    State.READY: (4, 2),
    State.BACKOFF: (3.1, 1),
    State.OPEN: (2, 0),
    State.DRAINING: (4, 4),
    State.STOPPED: (1, 4),
    State.FAILED: (3, 4),
}
# Arrows that would cross a box: how far they bend, to the right of their direction.
_BENDS = {
    (State.READY, State.ADMITTED): -75,
    (State.DRAINING, State.STOPPED): -75,
    (State.BACKOFF, State.STOPPED): -75,
    (State.READY, State.OPEN): 60,
}
# Where on its arrow a label stands: two that lead back and forth must not meet.
_LABEL_AT = 0.37
_LIVELY = frozenset({State.STARTING, State.READY})
_ENDED = frozenset({State.REFUSED, State.STOPPED, State.FAILED})

_COLUMN, _ROW, _WIDTH, _HEIGHT, _MARGIN = 215, 85, 104, 36, 30


def lifecycle_picture() -> str:
    """Return the life cycle of an extension as SVG."""
    if set(_PLACES) != set(State):
        raise AssertionError("each state needs a place in the picture")
    moves: dict[tuple[State, State], list[str]] = {}
    for row in TABLE:
        moves.setdefault((row.state, row.next), []).append(row.event.value)
    arrows, labels = [], []
    for (state, next_state), events in moves.items():
        bend = _BENDS.get((state, next_state), 22 if (next_state, state) in moves else 8)
        path, label = _arrow(state, next_state, events, bend)
        arrows.append(path)
        labels.append(label)
    width = 4 * _COLUMN + _WIDTH + 2 * _MARGIN
    height = 4 * _ROW + _HEIGHT + 3 * _MARGIN
    parts = [_HEAD, *arrows, *map(_state, State), *labels]
    return _svg(width, height, "The life cycle of an extension", parts)


def _centre(state: State) -> tuple[float, float]:
    column, row = _PLACES[state]
    return _MARGIN + column * _COLUMN + _WIDTH / 2, _MARGIN + row * _ROW + _HEIGHT / 2


def _state(state: State) -> str:
    x, y = _centre(state)
    kind = "lively" if state in _LIVELY else "ended" if state in _ENDED else "box"
    box = (
        f'<rect class="{kind}" x="{x - _WIDTH / 2:g}" y="{y - _HEIGHT / 2:g}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>'
    )
    return f'{box}<text class="name" x="{x:g}" y="{y + 4:g}" text-anchor="middle">{state}</text>'


def _arrow(state: State, next_state: State, events: list[str], bend: float) -> tuple[str, str]:
    """Return an arrow from the edge of one box to that of another, and its label."""
    (x1, y1), (x2, y2) = _centre(state), _centre(next_state)
    dx, dy = x2 - x1, y2 - y1
    length = (dx * dx + dy * dy) ** 0.5
    mx, my = (x1 + x2) / 2 - dy / length * bend, (y1 + y2) / 2 + dx / length * bend
    sx, sy = _edge(x1, y1, mx - x1, my - y1)
    ex, ey = _edge(x2, y2, mx - x2, my - y2)
    path = f'<path class="arrow" d="M{sx:.1f} {sy:.1f}Q{mx:.1f} {my:.1f} {ex:.1f} {ey:.1f}"/>'
    t, u = _LABEL_AT, 1 - _LABEL_AT
    lx, ly = (u * u * a + 2 * u * t * m + t * t * b for a, m, b in ((sx, mx, ex), (sy, my, ey)))
    text = escape(", ".join(events))
    label = f'<text class="label" x="{lx:.1f}" y="{ly + 4:.1f}" text-anchor="middle">{text}</text>'
    return path, label


def _edge(x: float, y: float, dx: float, dy: float) -> tuple[float, float]:
    """Return where a line from the middle of a box in this direction leaves it."""
    scale = min(
        _WIDTH / 2 / abs(dx) if dx else float("inf"), _HEIGHT / 2 / abs(dy) if dy else float("inf")
    )
    return x + dx * scale, y + dy * scale


_LAYER, _PAGE, _GAP = 52, 860, 8
# Wider texts would not fit into a box; a character takes about 6 units.
_CHARACTER = 6.2


def architecture_picture() -> str:
    """Return the packages as SVG: each imports only from those below it."""
    layers = _layers()
    parts = []
    for number, packages in enumerate(layers):
        y = _MARGIN + number * _LAYER
        width = (_PAGE - 2 * _MARGIN - (len(packages) - 1) * _GAP) / len(packages)
        for position, package in enumerate(packages):
            x = _MARGIN + position * (width + _GAP)
            parts.append(_package(package, x, y, width))
    height = _MARGIN * 2 + len(layers) * _LAYER
    return _svg(_PAGE, height, "The packages: each imports only from those below it", parts)


def _package(name: str, x: float, y: float, width: float) -> str:
    about = _summary(name)
    if len(about) * _CHARACTER > width:
        about = ""
    middle = f'x="{x + width / 2:.1f}"'
    lines = f'<text class="name" {middle} y="{y + (18 if about else 26)}" text-anchor="middle">'
    lines += f"{escape(name)}</text>"
    if about:
        lines += f'<text class="about" {middle} y="{y + 35}" text-anchor="middle">'
        lines += f"{escape(about)}</text>"
    size = f'width="{width:.1f}" height="{_LAYER - _GAP}"'
    return f'<rect class="box" x="{x:.1f}" y="{y}" {size} rx="5"/>{lines}'


def _summary(package: str) -> str:
    """Return the first line of a package's or module's docstring."""
    module = importlib.import_module(f"exthost.{package}")
    first = (module.__doc__ or "").strip().partition("\n")[0]
    return first.partition(". ")[0].rstrip(".:").replace("`", "")


def _layers() -> list[list[str]]:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    lines = contracts["importlinter:contract:layers"]["layers"].split("\n")
    layers = [line.replace("|", ":").replace(" ", "").split(":") for line in lines if line.strip()]
    return [layer for layer in layers if not layer[0].startswith("_")]


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title>"
    )
    background = f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#fff"/>'
    return "\n".join([head, _STYLE, background, *parts, "</svg>\n"])
