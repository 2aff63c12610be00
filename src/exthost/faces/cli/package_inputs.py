"""The values that a package needs before it can run: variables and arguments. `exthost add --from
PACKAGE` finds them with this module.

A value comes from `--set NAME=VALUE`, otherwise from the default, otherwise a person is asked on
the terminal. Secrets are never asked for, because the answer would be written to the config: a
secret becomes a reference to a variable of the host.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.errors import UsageError
from exthost.faces.cli.common import say

_TEMPLATE = re.compile(r"\{([A-Za-z_][\w.-]*)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PackageInput:
    """One value. `default` is "" if there is none."""

    name: str
    description: str = ""
    default: str = ""
    is_required: bool = False
    is_secret: bool = False
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class InputValues:
    """Finds the values of inputs. `references` are the variables of the host that the entry refers
    to, in the order in which they were needed."""

    given: dict[str, str]
    can_ask: bool
    used: set[str] = field(default_factory=set)
    references: list[str] = field(default_factory=list)

    def find(self, wanted: PackageInput) -> str | None:
        """Return the value of an input that is not a secret; None if it has none and needs none.
        Raises UsageError if it is missing."""
        if wanted.name in self.given:
            self.used.add(wanted.name)
            value = self.given[wanted.name]
        elif wanted.default:
            value = wanted.default
        elif not wanted.is_required:
            return None
        else:
            value = self._ask(wanted)
        if wanted.choices and value not in wanted.choices:
            raise UsageError(
                "X1812",
                f"{wanted.name} must be one of {', '.join(wanted.choices)}",
                help=f"add --set {wanted.name}={wanted.choices[0]}",
            )
        return value

    def find_variable(self, variable: str, wanted: PackageInput) -> Any:
        """Return the value of an environment variable or a header, which is a reference if the
        input is a secret that `--set` does not give."""
        if wanted.is_secret and wanted.name not in self.given:
            if not wanted.is_required and not wanted.default:
                return None
            return self.refer_to(variable)
        return self.find(wanted)

    def refer_to(self, variable: str) -> dict[str, str]:
        """Return a reference to a variable of the host."""
        name = re.sub(r"[^A-Za-z0-9_]", "_", variable)
        self.references.append(name)
        return {"from": name}

    def find_argument(self, wanted: PackageInput) -> str | None:
        """Return the value of an argument. Raises UsageError for a secret that `--set` does not
        give: every user of the machine can read arguments."""
        if wanted.is_secret and wanted.is_required and wanted.name not in self.given:
            raise UsageError(
                "X1812",
                f"the argument {wanted.name} is a secret, and cannot be a reference",
                help=f"add --set {wanted.name}=VALUE; the value is then part of the config",
            )
        return self.find(wanted)

    def fill(self, text: str, wanted: Mapping[str, PackageInput]) -> str | None:
        """Return a text with its `{NAME}` replaced; None if one of them is a secret that `--set`
        does not give."""
        values: dict[str, str] = {}
        for name in _TEMPLATE.findall(text):
            if name not in wanted:
                continue
            if wanted[name].is_secret and name not in self.given:
                return None
            values[name] = self.find(wanted[name]) or ""
        return _TEMPLATE.sub(lambda match: values.get(match[1], match[0]), text)

    def check_all_used(self, known: Iterable[str]) -> None:
        """Raise UsageError for a `--set` that no input of the package has. `known` are names of
        inputs; the inputs that were used count as well."""
        names = sorted(set(known))
        for name in self.given:
            if name not in self.used and name not in names:
                raise UsageError(
                    "X1812",
                    f"the package has no input {name!r}",
                    help=f"its inputs are: {', '.join(names) or 'none'}",
                )

    def _ask(self, wanted: PackageInput) -> str:
        """Ask a person at the terminal for a value. Raises UsageError if that is not possible."""
        if not self.can_ask:
            about = f": {wanted.description}" if wanted.description else ""
            raise UsageError(
                "X1812",
                f"{wanted.name} is missing{about}",
                help=f"add --set {wanted.name}=VALUE",
            )
        say(f"{wanted.name} ({wanted.description or 'the package needs it'}):")
        answer = sys.stdin.readline().strip()
        if not answer:
            raise UsageError(
                "X1812", f"{wanted.name} is missing", help=f"add --set {wanted.name}=VALUE"
            )
        return answer
