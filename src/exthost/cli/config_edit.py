"""What `add`, `remove` and `mcp import` share: they change entries of a config, and nothing else.

The new text is read before it is written. It is written only if it means the same as the old one
except for these entries.
"""

from collections.abc import Sequence
from pathlib import Path

from exthost.cli.common import Args, config_path, say
from exthost.cli.toggle_verbs import replace_file
from exthost.config import Config
from exthost.control.client import ask
from exthost.control.protocol import Request
from exthost.discovery.configfile import parse_config
from exthost.errors import ConfigError, Evidence, ExthostError, UsageError
from exthost.spec import Spec

# For a request that only finds out whether a host runs.
_HELLO_SECONDS = 1.0


def read_text(path: Path) -> str:
    """Return the text of the config; "" if there is none yet."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""


def write_config(path: Path, text: str | None, expected: Sequence[Spec], id: str) -> None:
    """Write the new text, if its entries are the expected ones. Raises UsageError if not."""
    new: Config | None = None
    if text is not None and path.suffix == ".toml":
        try:
            new = parse_config(path, text.encode())
        except ConfigError:
            new = None
    if text is None or new is None or _all_plain(new.specs) != _all_plain(expected):
        raise UsageError(
            "X1327",
            f"{path} is written in a way that cannot be changed from here",
            extension=id,
            help="write it by hand: an entry is a table [[extensions]] with name and source",
            evidence=Evidence(path=str(path)),
        )
    replace_file(path.resolve(), text)


def _all_plain(specs: Sequence[Spec]) -> list[tuple[str, tuple[str, ...], str, bool]]:
    """Return the entries by name: sections of a config may stand in any order."""
    return sorted(map(_plain, specs))


def _plain(spec: Spec) -> tuple[str, tuple[str, ...], str, bool]:
    """Return the part of an entry that is compared. Its line number, for example, may change."""
    return spec.id, tuple(spec.argv), spec.dialect, spec.enabled


def tell_reload(args: Args) -> None:
    """Say how a running host takes over the change, if one runs."""
    try:
        host = ask(config_path(args), Request("hello"), timeout=_HELLO_SECONDS)
    except ExthostError:
        return
    say(f"a host runs, pid {host['pid']}: exthost reload has it read its config again")
