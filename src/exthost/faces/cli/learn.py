"""Propose the smallest `permissions` of an extension, by observing what it does.

  exthost learn NAME [--call 'TOOL k=v …'] [--replay TRACE] [--write]
  exthost inspect --learn [--call …] -- COMMAND ARGS…

The extension is started without a sandbox, with the variables that a sandboxed extension gets, and
the calls are made: those of --call, and those of a recording (--trace FILE of other verbs). The
files that it uses and the addresses that it connects to are observed. Then it is started again
under the proposed permissions, the same calls are made, and the outcomes are compared. Exits with 0
if the second run worked, and with 4 if it did not.

Give calls that use all that the extension needs: what it does not do here is not in the proposal.
Secrets, profiles of browsers and other projects are never proposed; they are listed as warnings.
--write puts the proposal into the config, if the second run worked.

The first run has the rights of your user, as each extension without `permissions` has. A program
can find out that it is observed, and use other files then. Read the proposal before you use it.
"""

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.authoring.replay.script import find_script
from exthost.config.discovery.configfile import parse_config
from exthost.config.discovery.lock_reader import read_lock
from exthost.config.lock_file import LOCK_NAME, LockProblem
from exthost.config.permissions_edit import set_permissions_in_toml
from exthost.dialects import find
from exthost.errors import ConfigError, Evidence, Refused, UsageError
from exthost.faces.cli.call import read_arguments
from exthost.faces.cli.check import parse_call
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_dialect_option,
    add_launch_options,
    add_start_timeout_option,
    config_path,
    escape_controls,
    plural,
    print_error,
    say,
    show_json,
    show_text,
)
from exthost.faces.cli.config_edit import read_config_text, replace_file, suggest_reload
from exthost.faces.cli.config_lock import lock_config
from exthost.faces.cli.dialect_options import add_dialect_options, apply_dialect_options
from exthost.faces.cli.learn_run import RunOutcome, WireCall, describe_difference, run_calls
from exthost.faces.cli.replay import MAX_RECORDING_BYTES
from exthost.faces.cli.started_extension import detect_dialect, with_start_limit
from exthost.faces.cli.target_specs import find_unlocked_spec, read_extensions
from exthost.faces.cli.verb_loop import run_once
from exthost.launch.learned_policy import Proposal, Tier, propose
from exthost.launch.observation import (
    find_situation,
    observer_for_machine,
    prepare_without_grants,
    proposed_permissions,
    texts_in,
    unobservable_error,
    with_permissions,
    written_entries,
)
from exthost.launch.path_facts import MachinePaths
from exthost.model.spec import Permissions, Spec, ValueReference
from exthost.process.environment import Variables
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_format import read_recording

# The exit code if the extension does not work under the proposal: its permissions refuse it.
DOES_NOT_WORK = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="NAME", nargs="?", help="a name in the config")
    add_learn_options(parser)
    parser.add_argument(
        "--write", action="store_true", help="put the proposal into the config, if it works"
    )
    add_config_option(parser)
    add_dialect_option(parser)
    add_dialect_options(parser)
    add_start_timeout_option(parser)
    add_launch_options(parser)


def add_learn_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which calls are made."""
    parser.add_argument(
        "--call",
        dest="calls",
        metavar="'TOOL k=v …'",
        action="append",
        default=[],
        help="a call to make in each run, or 'TOOL JSON'; may be repeated",
    )
    parser.add_argument(
        "--replay", metavar="TRACE", help="make the calls of this recording, with --trace made"
    )


def run(args: Args) -> int:
    spec = find_unlocked_spec(args, args.target)
    if spec is None:
        raise UsageError(
            "X1316", "which extension?", help="exthost learn NAME, or -- COMMAND ARGS…"
        )
    return learn(args, spec, write=args.write)


def learn(args: Args, spec: Spec, *, write: bool = False) -> int:
    """Observe an extension, propose permissions, try them, and print the result."""
    if write and args.command:
        raise UsageError(
            "X1882",
            "--write is for an extension of the config",
            help="add it first: exthost add NAME -- COMMAND; then exthost learn NAME --write",
        )
    calls = [*_read_calls(args), *_read_replay(args, spec)]
    result = _Learning(args, spec, calls)
    run_once(result.run())
    code = 0 if not result.difference else DOES_NOT_WORK
    if not args.json:
        _print_result(result)
    if write and code:
        raise Refused(
            "X1883",
            f"the proposal was not written, because the second run did not work: "
            f"{result.difference}",
            extension=spec.id,
            help="grant what it needs by hand, from the warnings above",
        )
    changed = _write(args, result.spec, result.permissions) if write else False
    if args.json:
        show_json(result.as_data() | {"written": changed})
    return code


def _read_calls(args: Args) -> list[WireCall]:
    """Return the calls of the options --call."""
    calls = []
    for text in args.calls:
        name, _, rest = text.strip().partition(" ")
        if rest.lstrip().startswith("{"):
            calls.append(WireCall(name, parse_call(text.strip())[1]))
            continue
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise UsageError(
                "X1316", f"--call {text!r}: {error}", help="quote as in a shell"
            ) from None
        if not name or any("=" not in word for word in words):
            raise UsageError(
                "X1316",
                f"--call {text!r} is not a tool with arguments k=v",
                help="write --call 'TOOL k=v …', or --call 'TOOL {\"k\": 1}'",
            )
        calls.append(WireCall(name, read_arguments(words, None)))
    return calls


def _read_replay(args: Args, spec: Spec) -> list[WireCall]:
    """Return the calls of a recording. The first call of a session is its handshake."""
    if not args.replay:
        return []
    try:
        with Path(args.replay).open("rb") as file:
            data = file.read(MAX_RECORDING_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "X1389",
            f"the recording cannot be read: {error.strerror}",
            help="record one with --trace FILE",
        ) from None
    if len(data) > MAX_RECORDING_BYTES:
        raise UsageError(
            "X1389",
            f"the recording has more than {MAX_RECORDING_BYTES:,} bytes",
            help="record less at a time",
            evidence=Evidence(path=args.replay),
        )
    recording = read_recording(data.splitlines(keepends=True), args.replay)
    names = [name for name in recording.dialects if name]
    script = find_script(recording, spec.id if spec.id in names else "")
    requests = [
        record
        for record in script.records
        if record.kind == "request" and record.direction == "sent"
    ]
    handshake = requests[0].call if requests else None
    first_requests: dict[int | None, TraceRecord] = {}
    for record in requests:
        if record.call != handshake:
            first_requests.setdefault(record.call, record)
    return [
        WireCall(record.method, record.data, is_method=True) for record in first_requests.values()
    ]


class _Learning:
    """The runs of an extension, and the permissions that they lead to.

    proposal    the permissions that are proposed after the first run
    first       the outcome of the first run, which is observed and has no sandbox
    second      the outcome of the run under the proposal
    difference  how the second outcome differs from the first; "" if the proposal works
    """

    def __init__(self, args: Args, spec: Spec, calls: Sequence[WireCall]) -> None:
        self._args = args
        self.spec = spec
        self.calls = calls
        self.proposal = Proposal()
        self.first = RunOutcome()
        self.second = RunOutcome()
        self.difference = ""

    @property
    def permissions(self) -> Permissions:
        return proposed_permissions(self.spec, self.proposal)

    @property
    def failed_calls(self) -> list[str]:
        """The errors of the calls that failed without a sandbox, too."""
        return [text for text in self.first.calls if text]

    async def run(self) -> int:
        """Make the runs. Return 0, because `run_once` expects an exit code."""
        args = self._args
        if args.command and args.dialect is None:
            self.spec = await detect_dialect(args, self.spec)
        spec = self.spec = with_start_limit(args, apply_dialect_options(args, self.spec))
        environ = dict(os.environ)
        observer = observer_for_machine(spec)
        try:
            launch = prepare_without_grants(spec, find.find_dialect_of(spec), environ)

            references = [
                name for name, value in spec.env.items() if isinstance(value, ValueReference)
            ]

            def spawn(plan: Any, extension: str) -> Any:
                """Start the program as planned, observed, with the variables that a sandboxed
                extension gets."""
                # `plan` has the values of the variables that the config only refers to.
                secrets = {name: plan.env[name] for name in references if name in plan.env}
                env = Variables({**launch.plan.env, **secrets})
                return observer.spawn(replace(plan, env=env), extension)

            say(f"{spec.id}: first run, observed, without a sandbox")
            unrestricted = replace(spec, permissions=None, sandbox="off")
            self.first = await run_calls(unrestricted, self.calls, spawn=spawn)
        finally:
            observer.close()
        if observer.start_error:
            raise unobservable_error(spec, os.strerror(observer.start_error))
        if self.first.error is not None:
            raise self.first.error
        named = [text for call in self.calls for text in texts_in(call.arguments)]
        situation = find_situation(spec, launch, named)
        self.proposal = propose(observer.observations(), situation, MachinePaths())
        say(f"{spec.id}: second run, under the proposal")
        await self._try_proposal()
        is_refused = isinstance(self.second.error, Refused)  # more paths would not change that
        if self.difference and self.proposal.optional and not is_refused:
            say(f"{spec.id}: third run, with the paths that it only looked at")
            # If that does not help, the smaller proposal is kept.
            smaller, difference, second = self.proposal, self.difference, self.second
            self.proposal = self.proposal.with_optional()
            await self._try_proposal()
            if self.difference:
                self.proposal, self.difference, self.second = smaller, difference, second
        return 0

    async def _try_proposal(self) -> None:
        """Run the extension under the proposal, and compare the outcome with the first one."""
        self.second = await run_calls(with_permissions(self.spec, self.permissions), self.calls)
        self.difference = describe_difference(self.first, self.second)

    def as_data(self) -> dict[str, Any]:
        permissions = self.permissions
        return {
            "id": self.spec.id,
            "dialect": self.spec.dialect,
            "permissions": {
                "network": _network_value(permissions),
                "filesystem": list(permissions.filesystem),
            },
            "proposal": self.proposal.as_data(),
            "works": not self.difference,
            "difference": self.difference,
            "tools": len(self.first.tools),
            "calls": len(self.calls),
            "failed_calls": self.failed_calls,
        }


def _print_result(result: _Learning) -> None:
    """Print to stderr what was observed and how the runs ended, and the proposal to stdout."""
    proposal, permissions = result.proposal, result.permissions
    for tier in Tier:
        for text in _tier_lines(tier, result):
            say(escape_controls(f"  {tier.value:<12}{text}"))
    say(escape_controls(f"  {'network':<12}{proposal.network_reason}"))
    for item in proposal.withheld:
        say(escape_controls(f"  warning: not granted: {item.path}: {item.reason}"))
    for warning in proposal.warnings:
        say(escape_controls(f"  warning: {warning}"))
    count = plural(len(result.calls), "call")
    if result.difference:
        say(escape_controls(f"{result.spec.id}: the second run did not work: {result.difference}"))
        if not isinstance(proposal.network, bool):
            say("  a program that does not use a proxy needs network = true: decide that yourself")
        if result.second.error is not None:
            print_error(result.second.error, wants_json=False)
    else:
        tools = plural(len(result.first.tools), "tool")
        say(f"{result.spec.id}: the second run worked: {tools} and {count}, with the same outcome")
        for error in result.failed_calls:
            lack = "so that what it needs may be missing"
            say(escape_controls(f"  warning: a call failed in both runs, {lack}: {error}"))
    if not result.calls:
        say("  no call was made: --call 'TOOL k=v …' shows what its tools need")
    show_text(f"permissions = {_inline_table(permissions)}")


def _tier_lines(tier: Tier, result: _Learning) -> list[str]:
    """Return lines about the paths of one tier: what they are to the program, such as its data."""
    if tier is Tier.DATA:
        entries = written_entries(result.spec, result.proposal)
        reasons = [grant.reason for grant in result.proposal.grants]
        lines = [f'"{entry}": {reason}' for entry, reason in zip(entries, reasons, strict=True)]
        return lines or ["none"]
    if tier is Tier.SECRETS:
        count = len(result.proposal.withheld)
        return [f"{count} not granted, see below" if count else "none"]
    count, examples = result.proposal.seen.get(tier, (0, ()))
    if not count:
        return []
    more = f" and {count - len(examples)} more" if count > len(examples) else ""
    return [f"{', '.join(examples)}{more}: visible without a grant"]


def _inline_table(permissions: Permissions) -> str:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(_written_values(permissions))
    return table.as_string()


def _written_values(permissions: Permissions) -> Mapping[str, Any]:
    return {"network": _network_value(permissions), "filesystem": list(permissions.filesystem)}


def _network_value(permissions: Permissions) -> bool | list[str]:
    network = permissions.network
    return network if isinstance(network, bool) else list(network)


def _write(args: Args, spec: Spec, permissions: Permissions) -> bool:
    """Set the permissions in the config. Return whether the config has changed. Raises UsageError
    if it cannot be edited."""
    path = Path(config_path(args))
    with lock_config(path):
        text = read_config_text(path)
        config = read_extensions(args).config
        new_text = None
        if path.suffix == ".toml":
            new_text = set_permissions_in_toml(text, spec.id, _written_values(permissions))
        if new_text == text:
            return False
        if new_text is None or not _is_as_expected(path, new_text, spec, permissions):
            raise UsageError(
                "X1327",
                f"{path} is written in a way that cannot be changed from here",
                extension=spec.id,
                help=f"write it by hand: permissions = {_inline_table(permissions)}",
            )
        replace_file(path.resolve(), new_text)
    say(f"{spec.id}: its permissions are written to {path}")
    try:
        locked = config.folder is not None and read_lock(str(config.folder)) is not None
    except LockProblem:
        locked = True
    if locked:
        name = shlex.quote(spec.id)
        say(f"{LOCK_NAME} has other permissions: exthost approve {name} shows and records them")
    suggest_reload(args)
    return True


def _is_as_expected(path: Path, text: str, spec: Spec, permissions: Permissions) -> bool:
    """Return whether the new text gives exactly these permissions to this extension, and changes no
    other extension."""
    try:
        before = {item.id: item for item in parse_config(path, path.read_bytes()).specs}
        after = {item.id: item for item in parse_config(path, text.encode()).specs}
    except ConfigError:
        return False
    if spec.id not in before:  # a discovered extension: its permissions are under [overrides]
        return before == after
    expected = replace(before[spec.id], permissions=permissions)
    return after == before | {spec.id: expected}
