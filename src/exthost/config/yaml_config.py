"""`extensions.yaml`: discovery alone, in the notation that agent operators know.

One key, `extensions`, which holds what `[discovery]` holds in our own config; everything else is
a mistake. PyYAML is an optional install and is imported when the first YAML config is read.
"""

from collections.abc import Mapping
from typing import Any

from exthost.config.discovery import DiscoverySettings, discovery
from exthost.config.document import Config
from exthost.documents.problems import UNREADABLE, WRONG_VALUE, Place, Problems
from exthost.documents.readers import table
from exthost.documents.toml_positions import Path
from exthost.errors import ConfigError, Evidence

__all__ = ["config_from_yaml"]


def config_from_yaml(source: bytes, origin: str, folder: str | None) -> Config:
    """The config in this YAML, read from the file `origin`, which lies in `folder`."""
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            "X0130",
            f"{origin} is YAML, and PyYAML is not installed",
            help="pip install 'exthost[yaml]', or write the same as [discovery] in exthost.toml",
            evidence=Evidence(path=origin),
        ) from None
    try:
        text = source.decode("utf-8-sig")
        document = yaml.safe_load(text)
        lines = _lines(yaml.compose(text, Loader=yaml.SafeLoader))
    except RecursionError as error:
        raise _unreadable(origin, 0, "it is nested too deep") from error
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise _unreadable(origin, line, f"line {line} is not UTF-8 text") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        why = str(getattr(error, "problem", None) or error)
        raise _unreadable(origin, mark.line + 1 if mark is not None else 0, why) from error
    except _Twice as twice:
        raise _unreadable(origin, twice.line, f"`{twice.key}` is there twice") from None
    problems = Problems(origin, _lines=lines)
    place = Place(problems)
    if not isinstance(document, Mapping) or "extensions" not in document:
        place.wrong(WRONG_VALUE, "there is no `extensions`", "begin the file with `extensions:`")
    read = table(document if document is not None else {}, place, {"extensions": _section(folder)})
    problems.raise_any()
    return Config(discovery=read["extensions"], origin=origin, folder=folder)


class _Twice(Exception):
    """A key that its table has already."""

    def __init__(self, key: str, line: int) -> None:
        self.key, self.line = key, line


def _section(folder: str | None) -> Any:
    def read(value: Any, place: Place) -> DiscoverySettings:
        # `extensions:` with nothing below it is YAML's way to say: all as it is by default.
        return discovery({} if value is None else value, place, folder)

    return read


def _lines(root: Any) -> dict[Path, int]:
    """On which line each key stands. A node that is shared by aliases is where it is first."""
    found: dict[Path, int] = {}
    seen: set[int] = set()
    left: list[tuple[Path, Any]] = [((), root)]
    while left:
        path, node = left.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            for key, value in node.value:
                if isinstance(key.value, str):
                    if (*path, key.value) in found:  # YAML itself forbids it, PyYAML does not
                        raise _Twice(key.value, key.start_mark.line + 1)
                    found[(*path, key.value)] = key.start_mark.line + 1
                    left.append(((*path, key.value), value))
        elif node.id == "sequence":
            for index, value in enumerate(node.value):
                found[(*path, index)] = value.start_mark.line + 1
                left.append(((*path, index), value))
    return found


def _unreadable(origin: str, line: int, why: str) -> ConfigError:
    where = f"{origin}:{line}" if line else origin
    return ConfigError(
        UNREADABLE,
        f"{where}: not valid YAML: {why}",
        help="mend the line named",
        evidence=Evidence(path=origin, line=line),
    )
