"""Find what keeps extensions from running: problems of the config, manifests, requirements,
programs and environment variables, each with a fix. --runtime also starts each extension, and
reports its timings and differences from its manifest. The exit code is that of the first error.
Without a config, only the sandboxes of this machine are checked.

--security lists what is weak in the config instead: extensions without a sandbox or a lock, wide
grants, secrets in plain text, guards that fail open, files that every user can write."""

import argparse
import asyncio
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from exthost.cluster.node_listener import check_certificates
from exthost.cluster.ray_nodes import missing_ray_error
from exthost.config import DiscoverySettings
from exthost.config.discovery.configfile import ConfiguredExtensions
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.errors import CallFailed, ExthostError, ManifestError, NotFound, Refused
from exthost.extension.extension import Extension
from exthost.extension.quarantine import quarantine_error
from exthost.faces.cli.colour import paint
from exthost.faces.cli.common import (
    DEFAULT_CONFIG,
    Args,
    add_config_option,
    escape_message,
    plural,
    say,
    show_json,
    show_result,
)
from exthost.faces.cli.diagnostic_lines import add_all_option, select_diagnostics
from exthost.faces.cli.doctor_fix import fix_machine
from exthost.faces.cli.extension_summary import (
    describe_sandbox,
    describe_secrets,
    fetch_running_states,
    format_paths,
    format_protected_paths,
    missing_sandbox_warning,
)
from exthost.faces.cli.info import describe_environment
from exthost.faces.cli.placeholder_warnings import placeholder_warnings
from exthost.faces.cli.security_findings import find_weaknesses
from exthost.faces.cli.target_specs import find_spec, has_config, read_extensions
from exthost.host.api.host_api import read_stored_settings
from exthost.host.connection import Connection
from exthost.host.control.description import schema_warnings
from exthost.launch import apparmor, sandbox_probe
from exthost.launch.locked_code import check_start, mismatch_error
from exthost.launch.network_grant import (
    OVERRIDE_HELP,
    find_overridden_variables,
    override_warning,
)
from exthost.launch.plan import admit, prepare
from exthost.launch.prerequisites import find_name_conflict
from exthost.launch.variables import grant_line, withheld_variables
from exthost.model.launch_plan import LaunchPlan
from exthost.model.names import nearest
from exthost.model.offer import Tool
from exthost.model.probe_result import ProbeResult
from exthost.model.spec import Spec
from exthost.model.tool_choice import find_unused
from exthost.process import cgroups
from exthost.process.spawn_errors import find_spawn_error

# How many extensions are started at the same time. More would distort each other's timings.
_MAX_CONCURRENT_STARTS = 4

# By kind of dropped input (messages that the host discarded): what the author of the extension can
# do.
_FIXES_FOR_DROPPED = {
    "stray lines on stdout": "nothing but messages belongs on stdout; logs belong on stderr",
    "late or repeated replies": "answer each request once, with its own id",
    "replies without a request": "answer each request once, with its own id",
    "errors that name no request": "name the id of the request in each error; the log has the text",
    "messages over the size limit": "send less at a time, or raise limits.max_message",
}

# How many protected paths a finding names. `--all` lists the others.
_MAX_PROTECTED_PATHS = 4

_LEVELS = ("error", "warning", "info")


class DoctorFinding(NamedTuple):
    """One finding. `level` is one of `_LEVELS`, `extension` an id or "", `path` the file, `details`
    lines that --all prints, and `exit` the exit code of an error, 0 for any other level."""

    level: str
    extension: str
    path: str
    message: str
    fix: str = ""
    code: str = ""
    exit: int = 0
    details: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="only this extension")
    parser.add_argument("--runtime", action="store_true", help="start each, and report timings")
    parser.add_argument("--security", action="store_true", help="list what is weak in the config")
    parser.add_argument(
        "--fix",
        action="store_true",
        help="print the AppArmor profile that lets bubblewrap make sandboxes; as root, install it",
    )
    add_config_option(parser)
    add_all_option(parser)


def run(args: Args) -> int:
    if args.fix:
        return fix_machine(args)
    if args.security:
        return _show_weaknesses(args)
    configured = read_extensions(args) if has_config(args) else None
    if args.target is not None:
        spec = find_spec(args, args.target)
        assert spec is not None
        specs, findings = [spec], []
    elif configured is None:
        message = f"there is no {DEFAULT_CONFIG} here: only the machine was checked"
        fix = "--config names a config; exthost add NAME --dialect D -- COMMAND writes one"
        specs, findings = [], [DoctorFinding("info", "", "", message, fix)]
    else:
        specs = list(configured.specs)
        findings = _diagnostic_findings(configured, args.all) + _unsearched_findings(configured)
        if not specs and (searched := configured.report.searched):
            message = (
                f"the config names no extensions, and none were found in {', '.join(searched)}"
            )
            fix = "[discovery] search_paths (extensions.yaml: search_paths) names other folders"
            findings.append(DoctorFinding("info", "", configured.config.origin, message, fix))
    findings += _machine_findings()
    startable: list[Spec] = []
    for spec in specs:
        findings += (spec_findings := _admission_findings(configured, spec, startable))
        is_startable = spec.enabled and not spec.unrunnable
        if is_startable and not any(finding.exit for finding in spec_findings):
            startable.append(spec)
    findings += _running_host_findings(args, specs)
    runtime: list[dict[str, Any]] = []
    if args.runtime:
        ids_with_errors = {finding.extension for finding in findings if finding.exit}
        to_start = [
            spec
            for spec in specs
            if spec.enabled and spec.id not in ids_with_errors and not spec.unrunnable
        ]
        runtime, start_findings = asyncio.run(_start_all(to_start))
        findings += start_findings
    _show(args, specs, findings, runtime)
    return next((finding.exit for finding in findings if finding.exit), 0)


def _show_weaknesses(args: Args) -> int:
    """Print what is weak in the config, and how many findings there are."""
    configured = read_extensions(args)
    ids = [spec.id for spec in (*configured.specs, *configured.disabled)]
    if args.target is not None and args.target not in ids:
        suggestion = nearest(args.target, ids)
        raise NotFound(
            "X1206",
            f"the config has no extension {args.target!r}",
            help=f"did you mean {suggestion!r}?" if suggestion else "see: exthost list",
        )
    found = [
        weakness
        for weakness in find_weaknesses(configured)
        if args.target in (None, weakness.extension)
    ]
    if args.json:
        show_json({"weak": [weakness._asdict() for weakness in found], "count": len(found)})
        return 0
    for weakness in found:
        subject = f"{weakness.extension}: " if weakness.extension else ""
        show_result(f"{weakness.kind}: {subject}{weakness.message}")
        show_result(f"  fix: {weakness.fix}")
    show_result(f"{plural(len(found), 'weak point')} found")
    return 0


# -- without starting anything ---------------------------------------------------------------


def _diagnostic_findings(
    configured: ConfiguredExtensions, include_all: bool
) -> list[DoctorFinding]:
    """Return the diagnostics of the config and its manifests as findings."""
    return [
        DoctorFinding(
            diagnostic.level,
            diagnostic.extension,
            f"{diagnostic.path}:{diagnostic.line}" if diagnostic.line else diagnostic.path,
            diagnostic.message,
            diagnostic.help,
            diagnostic.code,
            ManifestError.exit_code if diagnostic.level == "error" else 0,
        )
        for diagnostic in select_diagnostics(
            (*configured.diagnostics, *placeholder_warnings(configured.specs)),
            include_all=include_all,
        )
    ]


def _unsearched_findings(configured: ConfiguredExtensions) -> list[DoctorFinding]:
    """Return a finding for each dialect that has installed extensions in its usual folders, if the
    config does not search those folders."""
    config, findings = configured.config, []
    search_paths = config.discovery.search_paths if config.discovery is not None else ()
    known_paths = {spec.origin for spec in configured.specs}
    formats = find.load_manifest_formats()
    for format in formats:
        search_path = f"${format.dialect.upper()}"
        if not format.homes or search_path in search_paths:
            continue
        settings = DiscoverySettings(search_paths=(search_path,))
        candidates = discover(settings, formats, base=config.folder or ".").candidates
        if ids := [candidate.id for candidate in candidates if candidate.path not in known_paths]:
            message = f"{format.dialect} has extensions that are not looked for: {', '.join(ids)}"
            fix = f'[discovery] search_paths = ["{search_path}"] finds them, if you want them here'
            findings.append(DoctorFinding("info", "", config.origin, message, fix))
    return findings


def probe_machine() -> dict[str, Any]:
    """Return which sandboxes and limits work on this machine, by trying each of them."""
    support = sandbox_probe.find_sandbox_support()
    tree, _ = sandbox_probe.probe_pid_namespace(support)
    strict = sandbox_probe.probe_strict(support)
    landlock = sandbox_probe.probe_landlock(support)
    base = cgroups.find_base()
    return {
        "bwrap": support.bwrap,
        "tree": _probe_as_dict(tree),  # all processes of an extension end with it
        "strict": _probe_as_dict(strict),
        "landlock": _probe_as_dict(landlock),
        "cgroup": {
            **_probe_as_dict(base.result),
            "path": base.folder,
            "controllers": sorted(base.controllers),
        },
    }


def _probe_as_dict(result: ProbeResult) -> dict[str, Any]:
    return {"works": result.works, "why": result.reason, "fix": result.fix}


def _machine_findings() -> list[DoctorFinding]:
    """Return a warning for each kind of sandbox that does not work on this machine."""
    probes = probe_machine()
    findings = []
    if not probes["tree"]["works"]:
        message = f"processes can outlive a killed host: {probes['tree']['why']}"
        findings.append(DoctorFinding("warning", "", "", message, probes["tree"]["fix"]))
    if not probes["strict"]["works"]:
        message = f"no permissions can be enforced here: {probes['strict']['why']}"
        fix = probes["strict"]["fix"]
        if apparmor.is_restricted():
            fix = "exthost doctor --fix prints and installs an AppArmor profile that allows them"
        if probes["landlock"]["works"]:
            fix += '; or sandbox = "landlock", which is weaker'
        findings.append(DoctorFinding("warning", "", "", message, fix))
    return findings


def _admission_findings(
    configured: ConfiguredExtensions | None, spec: Spec, earlier_specs: list[Spec]
) -> list[DoctorFinding]:
    """Return what can be found about an extension without starting it. The first error ends the
    search. `earlier_specs` are the extensions that a host would start before it; the names of two
    extensions may conflict."""
    if not spec.enabled:
        return [DoctorFinding("info", spec.id, spec.origin, "it is switched off", "enabled = true")]
    if spec.unrunnable:  # not a mistake: this host cannot run it
        fix = "nothing is to be done: it is listed, and never started from here"
        return [DoctorFinding("info", spec.id, spec.origin, spec.unrunnable, fix)]
    try:
        dialect = find.find_dialect_of(spec)
        complete = read_stored_settings(spec, os.environ)
        admission = admit(complete, dialect, os.environ)
        if (conflict := find_name_conflict(complete, earlier_specs)) is not None:
            raise conflict
        plan = prepare(complete, dialect, os.environ, admission=admission).plan
        if (failed := find_spawn_error(plan, spec.id)) is not None:
            raise failed
        if spec.pool.engine == "ray" and (missing := missing_ray_error()) is not None:
            raise missing
        if spec.pool.engine is not None and configured is not None:
            check_certificates(configured.config.cluster)
    except ExthostError as error:
        return [_error_finding(error, spec)]
    findings = _lock_findings(complete, plan)
    if spec.declared_tools:
        findings += _unused_pattern_findings(spec, spec.declared_tools)
    sandbox = describe_sandbox(spec)
    if sandbox.get("memory") == "watchdog" or sandbox.get("processes") == "watchdog+rlimit":
        result = cgroups.find_base().result
        reason = result.reason or "its group lacks a controller"
        message = f"a watchdog adds up its memory, because no cgroup can limit it: {reason}"
        findings.append(DoctorFinding("info", spec.id, spec.origin, message, result.fix))
    findings += _sandbox_path_findings(spec, sandbox)
    # An extension that is not in the config was named by its path on the command line. The user
    # chose it, and needs no warning about it.
    is_configured = configured is not None and any(
        configured_spec.id == spec.id and configured_spec == spec
        for configured_spec in configured.specs
    )
    secrets = configured.asks_for_secrets(spec) if configured is not None and is_configured else ()
    if secrets:
        message = describe_secrets(secrets)
        fix = "if you trust it, put its id in the allowlist; else in `disabled`"
        findings.append(DoctorFinding("warning", spec.id, spec.origin, message, fix))
    return findings + _variable_findings(spec)


def _sandbox_path_findings(spec: Spec, sandbox: Mapping[str, Any]) -> list[DoctorFinding]:
    """Return what an operator should know about the paths in the sandbox of an extension, and
    whether it would run without the sandbox that its config asks for."""
    findings = []
    if lines := format_paths(sandbox):
        message = f"its sandbox shows it {plural(len(lines), 'path')}"
        fix = "no action is needed unless a path should be hidden; --all lists them"
        findings.append(
            DoctorFinding("info", spec.id, spec.origin, message, fix, details=tuple(lines))
        )
    if protected := format_protected_paths(sandbox):
        first = ", ".join(protected[:_MAX_PROTECTED_PATHS])
        others = len(protected) - _MAX_PROTECTED_PATHS
        message = f"read-only in its writable folders: {first}"
        message += f", and {plural(others, 'other path')}" if others > 0 else ""
        fix = "nothing is to be done: code is never writable; --all lists every path"
        findings.append(
            DoctorFinding("info", spec.id, spec.origin, message, fix, details=tuple(protected))
        )
    if warning := missing_sandbox_warning(sandbox):
        fix = 'sandbox = "strict" refuses it where its permissions cannot be enforced'
        findings.append(DoctorFinding("warning", spec.id, spec.origin, warning, fix))
    return findings


def _variable_findings(spec: Spec) -> list[DoctorFinding]:
    """Return what an operator should know about the environment variables of an extension."""
    findings = []
    if names := withheld_variables(spec, os.environ):
        message = f"requires variables that its permissions do not grant: {', '.join(names)}"
        fix = f"if you trust it: {grant_line(spec, names)}"
        findings.append(DoctorFinding("warning", spec.id, spec.origin, message, fix))
    if names := find_overridden_variables(spec):
        message = override_warning(names)
        findings.append(DoctorFinding("warning", spec.id, spec.origin, message, OVERRIDE_HELP))
    held_back = describe_environment(spec)["held_back"]
    if held_back:
        message = f"{plural(len(held_back), 'variable')} held back from its environment"
        fix = (
            "a variable that it needs belongs in requires.env of its manifest, or in `env`; --all "
            "lists them"
        )
        findings.append(
            DoctorFinding("info", spec.id, spec.origin, message, fix, details=tuple(held_back))
        )
    return findings


def _lock_findings(spec: Spec, plan: LaunchPlan) -> list[DoctorFinding]:
    """Return how the code and the rights of an extension differ from its record in the lock."""
    if spec.lock is None:
        return []
    try:
        changes = check_start(spec, plan, os.environ).changes
        if not changes:
            return []
        refused = mismatch_error(spec, changes)
    except Refused as error:
        refused = error
    finding = _error_finding(refused, spec)
    is_enforced = spec.lock.mode == "enforce"
    return [finding if is_enforced else finding._replace(level="warning", exit=0)]


def _unused_pattern_findings(spec: Spec, tools: Iterable[Tool]) -> list[DoctorFinding]:
    """Return a warning for each pattern in the setting `tools` that fits none of the tools."""
    fix = f"correct or remove it; exthost tools --all --start {shlex.quote(spec.id)} lists them"
    return [
        DoctorFinding("warning", spec.id, spec.origin, text, fix, "X1840")
        for text in find_unused(tools, spec.tools)
    ]


def _running_host_findings(args: Args, specs: list[Spec]) -> list[DoctorFinding]:
    """Return a warning for each extension that the running host could not start, or does not
    restart any more."""
    states = fetch_running_states(args)
    findings = []
    for spec in specs:
        state = states.get(spec.id)
        if state is not None and state["reason"]:
            name = shlex.quote(spec.id)
            message = f"the running host has it as {state['state']}: {state['reason']}"
            fix = f"exthost logs {name} has details, exthost restart {name} tries it again"
            findings.append(DoctorFinding("warning", spec.id, spec.origin, message, fix))
    return findings


def _error_finding(error: ExthostError, spec: Spec) -> DoctorFinding:
    return DoctorFinding(
        "error", spec.id, spec.origin, error.message, error.help, error.code, error.exit_code
    )


# -- with a real start ------------------------------------------------------------------------


async def _start_all(specs: list[Spec]) -> tuple[list[dict[str, Any]], list[DoctorFinding]]:
    """Start each extension (see `_start`). Return the rows of all, and the findings of all."""
    start_slots = asyncio.Semaphore(_MAX_CONCURRENT_STARTS)

    async def start_limited(spec: Spec) -> tuple[dict[str, Any], list[DoctorFinding]]:
        async with start_slots:
            return await _start(spec)

    outcomes = await asyncio.gather(*(start_limited(spec) for spec in specs))
    return [row for row, _ in outcomes], [
        finding for _, findings in outcomes for finding in findings
    ]


async def _start(spec: Spec) -> tuple[dict[str, Any], list[DoctorFinding]]:
    """Start an extension, compare its offer (the tools and hooks that it announced) with its
    manifest, and stop it. Return its timings as a row of the output, and the findings."""
    try:
        async with Connection(spec, environ=dict(os.environ)) as extension:
            findings = [
                DoctorFinding("warning", spec.id, spec.origin, text)
                for text in extension.offer.warnings
            ]
            findings += [
                DoctorFinding(
                    "warning", spec.id, spec.origin, text, "correct the schema in the extension"
                )
                for text in schema_warnings(extension)
            ]
            for quarantine in extension.quarantined.values():
                error = quarantine_error(spec.id, quarantine)
                findings.append(_error_finding(error, spec)._replace(level="warning", exit=0))
            if not spec.declared_tools:  # those of a manifest are compared without a start
                findings += _unused_pattern_findings(spec, extension.offer.tools)
            findings += await _compare_offer(extension)
            stats = extension.stats
            for kind, times in stats.dropped.items():
                message = f"{times} {kind}"
                fix = _FIXES_FOR_DROPPED.get(kind, "see its log: exthost logs")
                findings.append(DoctorFinding("warning", spec.id, spec.origin, message, fix))
            timings = {key: round(value, 1) for key, value in stats.timings_ms.items()}
            return {"id": spec.id, "ready": True, "timings_ms": timings}, findings
    except ExthostError as error:
        return {"id": spec.id, "ready": False, "timings_ms": {}}, [_error_finding(error, spec)]


async def _compare_offer(extension: Extension) -> list[DoctorFinding]:
    """Return findings for the differences between manifest, handshake and list of tools."""
    spec, offer = extension.spec, extension.offer
    findings: list[DoctorFinding] = []
    offered_tools = {tool.name for tool in offer.tools}
    format = find.find_manifest_format(spec.dialect)
    lists_tools = format is None or format.lists_tools
    if (spec.declared_tools or spec.manifest is not None) and lists_tools:
        declared = {tool.name for tool in spec.declared_tools}
        findings += _difference_findings(
            spec, "tools", declared, offered_tools, "its manifest", "its handshake"
        )
        hooks, offered_hooks = set(getattr(spec.manifest, "hooks", ())), set(offer.hooks)
        findings += _difference_findings(
            spec, "hooks", hooks, offered_hooks, "its manifest", "its handshake"
        )
    if "list_tools" in extension.dialect.operations:
        findings += await _compare_tools_list(extension, offered_tools)
    return findings


async def _compare_tools_list(extension: Extension, offered_tools: set[str]) -> list[DoctorFinding]:
    """Return findings for the differences between the handshake and the reply to tools/list."""
    try:
        listed_tools = {tool.name for tool in await extension.list_tools()}
    except CallFailed:  # the method is optional
        return []
    except ExthostError as error:
        return [_error_finding(error, extension.spec)._replace(level="warning", exit=0)]
    return _difference_findings(
        extension.spec, "tools", offered_tools, listed_tools, "its handshake", "tools/list"
    )


def _difference_findings(
    spec: Spec, kind: str, declared: set[str], actual: set[str], declared_in: str, actual_in: str
) -> list[DoctorFinding]:
    """Return a warning for the names that only one of two places has. `kind` is what is named, such
    as "tools"."""
    findings = []
    fix = "make the two agree; only the tools of the handshake can be called"
    for names, present_in, missing_in in (
        (declared - actual, declared_in, actual_in),
        (actual - declared, actual_in, declared_in),
    ):
        if names:
            message = f"{kind} in {present_in} and not in {missing_in}: {', '.join(sorted(names))}"
            findings.append(DoctorFinding("warning", spec.id, spec.origin, message, fix))
    return findings


# -- output -----------------------------------------------------------------------------------


def _show(
    args: Args, specs: list[Spec], findings: list[DoctorFinding], runtime: list[dict[str, Any]]
) -> None:
    """Print the findings and the timings (`runtime`), as text or as JSON."""
    healthy = not any(finding.exit for finding in findings)
    if args.json:
        rows = [
            {key: value for key, value in finding._asdict().items() if key != "exit"}
            for finding in findings
        ]
        output = {"ok": healthy, "extensions": [spec.id for spec in specs], "findings": rows}
        output["sandbox"] = probe_machine()
        sandboxes = {spec.id: describe_sandbox(spec) for spec in specs}
        for name in ("paths", "closed"):
            output[name] = {id: sandbox.get(name, []) for id, sandbox in sandboxes.items()}
        show_json(output | ({"runtime": runtime} if args.runtime else {}))
        return
    for finding in findings:
        subject = f"{finding.extension}: " if finding.extension else ""
        label = paint(f"{finding.level}:", finding.level, sys.stdout)
        print(f"{label} {escape_message(subject + finding.message)}")
        for detail in finding.details if args.all else ():
            show_result(f"  {detail}")
        if finding.path:
            show_result(f"  in:  {finding.path}")
        if finding.fix:
            show_result(f"  fix: {finding.fix}")
    _show_timings(runtime)
    counts = Counter(finding.level for finding in findings)
    summary = ", ".join(plural(counts[level], level) for level in _LEVELS if counts[level])
    outcome = "no problems" if healthy else "see above"
    say(f"{plural(len(specs), 'extension')}: {summary or 'no findings'}; {outcome}")


def _show_timings(runtime: list[dict[str, Any]]) -> None:
    for row in runtime:
        if row["ready"]:
            timings = row["timings_ms"]
            show_result(
                f"{row['id']}: spawned in {timings['spawn']} ms, ready in {timings['handshake']} ms"
            )
