"""Proposes the permissions of servers that exthost knows, for `exthost add` and `exthost mcp
import`.

exthost contains tested permissions (a policy) for commonly used servers and their versions.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exthost.faces.cli.common import Args, escape_controls, say
from exthost.launch.known_policies import KnownPolicy, find_policy


def add_policy_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        action="store_true",
        help="write the permissions that exthost has for a server that it knows",
    )


def apply_policy(
    args: Args, name: str, entry: Mapping[str, Any], command: Sequence[str], config: Path
) -> dict[str, Any]:
    """Return the entry of an extension with the permissions that exthost has for its command, if
    `--policy` is given. Otherwise print them as a proposal, and return the entry."""
    policy = find_policy(command, str(config.absolute().parent))
    if policy is None or "permissions" in entry:
        if policy is None and args.policy:
            say(f"{name}: exthost has no permissions for this server: exthost learn {name}")
        return dict(entry)
    say(escape_controls(describe_policy(name, policy, is_written=args.policy)))
    for remark in policy.remarks:
        say(escape_controls(f"  {remark}"))
    return {**entry, "permissions": policy.as_table()} if args.policy else dict(entry)


def describe_policy(name: str, policy: KnownPolicy, *, is_written: bool) -> str:
    """Return a line about the permissions of a known server."""
    import tomlkit

    table = tomlkit.inline_table()
    table.update(policy.as_table())
    server = policy.server
    hint = "" if is_written else "; --policy writes it"
    subject = f"a policy for {server.package} {server.versions}"
    return f"{name}: {subject}{hint}: permissions = {table.as_string()}"
