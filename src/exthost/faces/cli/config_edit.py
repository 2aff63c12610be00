"""Reads and writes a config file for the verbs (subcommands of exthost) that edit its entries:
`add`, `remove` and `mcp import`; `enable` and `disable` use some of these functions.

An entry, such as a table `[[extensions]]` in TOML, describes one extension. The new text of the
file is parsed before it is written. It is written only if it has exactly the expected entries, so
that an edit cannot damage other entries.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from exthost.config import Config
from exthost.config.discovery.configfile import config_read_error, parse_config, read_config_bytes
from exthost.errors import ConfigError, Evidence, ExthostError, UsageError
from exthost.faces.cli.common import Args, config_path, say, write_help
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest
from exthost.model.spec import Spec

# The time limit of the request that checks whether a host is running.
_HELLO_SECONDS = 1.0


def read_config_text(path: Path) -> str:
    """Return the text of the config, or "" if the file does not exist yet. Raises ConfigError if it
    cannot be read."""
    try:
        data = read_config_bytes(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise config_read_error(path, error.strerror or str(error)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise config_read_error(path, f"line {line} is not UTF-8 text") from None


def write_config(path: Path, text: str | None, expected: Sequence[Spec], id: str) -> None:
    """Write the new text of the config if it has exactly the expected entries.

    Raises UsageError if the entries differ, if the text is not valid Unicode, or if it is None,
    which means that the edit was not possible. `id` is the id of the edited extension, for the
    error.
    """
    new_config: Config | None = None
    if text is not None and path.suffix == ".toml":
        try:
            new_config = parse_config(path, text.encode())
        except UnicodeEncodeError:  # from a command line that is not UTF-8, or an escape in JSON
            raise UsageError(
                "X1327",
                "a config is UTF-8 text, and cannot have all characters of this entry",
                help="write it without them: a file can be renamed, or started by a script",
                evidence=Evidence(path=str(path)),
            ) from None
        except ConfigError:
            new_config = None
    if (
        text is None
        or new_config is None
        or _comparable_specs(new_config.specs) != _comparable_specs(expected)
    ):
        is_added = any(spec.id == id for spec in expected)
        raise uneditable_error(path, id, "add" if is_added else "remove")
    replace_file(path.resolve(), text)


Edit = Literal["add", "remove", "enable", "disable"]

# How to make an edit by hand, by the suffix of the config. The suffix "" stands for TOML, and for
# the edits that another suffix does not have.
_HELP_BY_SUFFIX: Mapping[str, Mapping[Edit, str]] = {
    ".json": {
        "add": 'a JSON config has only MCP servers: write "NAME": {"command": …, "args": […]} '
        "among them by hand, or use a config in TOML",
        "remove": "take its entry out of the servers by hand",
        "enable": 'write "disabled": false into its entry by hand',
        "disable": 'write "disabled": true into its entry by hand',
    },
    ".yaml": {
        "add": "a YAML config has no entries: use a config in TOML, or put the extension where "
        "search_paths looks",
        "enable": "take its id out of the list `disabled` by hand",
        "disable": "write its id into the list `disabled` below `extensions` by hand",
    },
    "": {
        "add": "write it by hand: an entry is a table [[extensions]] with name and source",
        "remove": "take its table out by hand",
        "enable": "write it by hand: `enabled = true` in its entry, or its id out of the list "
        "`disabled`",
        "disable": "write it by hand: `enabled = false` in its entry, or its id in the list "
        "`disabled`",
    },
}


def uneditable_error(path: Path, id: str, edit: Edit) -> UsageError:
    """Return the error for a config that no verb can edit safely. Its help says what to write in a
    file of this kind. `id` is the id of the extension."""
    suffix = ".yaml" if path.suffix == ".yml" else path.suffix
    advice = _HELP_BY_SUFFIX.get(suffix, {}).get(edit) or _HELP_BY_SUFFIX[""][edit]
    reason = "is JSON, which" if suffix == ".json" else "is written in a way that"
    return UsageError(
        "X1327",
        f"{path} {reason} cannot be changed from here",
        extension=id,
        help=advice.replace('"NAME"', json.dumps(id, ensure_ascii=False)),
        evidence=Evidence(path=str(path)),
    )


def replace_file(path: Path, text: str) -> None:
    """Replace the file atomically: a reader sees the old text or the new text."""
    try:
        handle, temp_path = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                if path.exists():
                    # Keep the mode, but let the owner read the file in any case.
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o777 | 0o400)
            os.replace(temp_path, path)  # noqa: PTH105 - mkstemp returns a string, not a Path
        except BaseException:
            os.unlink(temp_path)  # noqa: PTH108
            raise
    except OSError as error:
        raise UsageError(
            "X1327",
            f"{path} cannot be written: {error.strerror}",
            help=write_help(error),
            evidence=Evidence(path=str(path)),
        ) from None


def _comparable_specs(specs: Sequence[Spec]) -> list[tuple[str, tuple[str, ...], str, bool]]:
    """Return the compared values of all entries, sorted by id, because the sections of a config may
    have any order."""
    return sorted(map(_comparable_spec, specs))


def _comparable_spec(spec: Spec) -> tuple[str, tuple[str, ...], str, bool]:
    """Return the values of an entry that are compared. An edit that damages an entry changes one of
    them."""
    return spec.id, tuple(spec.argv), spec.dialect, spec.enabled


def suggest_reload(args: Args) -> None:
    """If a host of this config is running, print how to make it apply the change."""
    try:
        host = ask(config_path(args), ControlRequest("hello"), timeout=_HELLO_SECONDS)
    except ExthostError:
        return
    say(f"a host is running, pid {host['pid']}: exthost reload has it read its config again")
