"""Recorded sessions of every dialect (the protocol that an extension speaks) can be replayed.

A recording is the trace file of a host (`Host(trace=file)`): the messages of both sides. A replay
plays one of two roles against a real peer:

    HostRole        sends the recorded messages of the host to the program, and compares its answers
    ExtensionRole   answers a real host as the recorded program did

A `Script` is a recording that has been prepared for both.
"""

import asyncio
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.authoring.replay.extension_role import ExtensionRole, StderrLine
from exthost.authoring.replay.host_role import HostRole
from exthost.authoring.replay.pipe_replay import play_host
from exthost.authoring.replay.script import Script, find_script
from exthost.model.messages import Noise
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_format import read_recording
from tests.authoring.sdk.programs import JSON_DIALECTS, SAMPLE, command, write_manifest
from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS

DIALECTS = (*JSON_DIALECTS, "cigen")
PLUGIN = Path(__file__).parents[3] / "examples" / "cigen" / "cigen-provider-demo"
# Time limits that no test reaches.
LIMITS = {"handshake": "100s", "start": "100s", "call": "100s"}

# The params of the only call of the cigen plugin, which generates the files of a CI pipeline.
GENERATE = {"schema": {"version": "1", "jobs": [{"id": "build"}]}}

# Some dialects pass only a few variables of the host; the program needs this one for its imports.
VARIABLES = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def command_of(dialect: str, folder: Path) -> list[str]:
    """Return the command of a program that speaks the dialect, with its manifest in the folder."""
    if dialect == "cigen":
        return [sys.executable, str(PLUGIN)]
    if dialect == "roder":  # the program reads its manifest
        write_manifest(SAMPLE, dialect, folder)
        return command(folder / SAMPLE.name, dialect)
    return command(SAMPLE, dialect)


def config_entry(dialect: str, argv: list[str], folder: Path) -> dict[str, Any]:
    """Return the entry of a config for an extension with this command."""
    source = {"type": "process", "command": argv[0], "args": argv[1:]}
    config: dict[str, Any] = {"name": "sample", "dialect": dialect, "source": source}
    config |= {"limits": LIMITS, "env": VARIABLES}
    # MCP has versions with a handshake and without one ("stateless"). If the host must find out, it
    # takes a server that answers slowly for one of the other kind.
    if dialect == "mcp":
        config["options"] = {"era": "stateless"}
    if dialect == "roder":
        config["manifest"] = str(folder / "roder-extension.toml")
    return config


async def make_calls(extension: exthost.Extension) -> list[Any]:
    """Make the calls of the session, and return their results."""
    if extension.dialect.name == "cigen":
        return [await extension.call("generate", GENERATE)]
    calls = [
        extension.call_tool("add", {"a": 1, "b": 2}),
        extension.call_tool("work", {"steps": 3}),
        extension.call_tool("count", {"to": 3}),
    ]
    results: list[Any] = [result.raw for result in await asyncio.gather(*calls)]
    with pytest.raises(exthost.errors.ExthostError):
        await extension.call("no/such/method", {})
    return results


async def record(dialect: str, argv: list[str], folder: Path, file: Path) -> list[Any]:
    """Record a session into the file, and return the results of its calls."""
    async with exthost.Host(trace=file) as host:
        extension = await host.load(config_entry(dialect, argv, folder))
        return await make_calls(await extension.start())


def read_script(file: Path) -> Script:
    return find_script(read_recording(file.read_bytes().splitlines(keepends=True), str(file)))


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_replaying_the_recorded_program_shows_no_difference(
    dialect: str, tmp_path: Path
) -> None:
    file = tmp_path / "recording.jsonl"
    await record(dialect, command_of(dialect, tmp_path), tmp_path, file)
    header = json.loads(file.read_text().splitlines()[0])
    assert (header["format"], header["version"]) == ("exthost-trace", 1)
    assert (header["extension"], header["dialect"]) == ("sample", dialect)
    script = read_script(file)
    received = [item for item in script.records if item.direction == "received" and item.is_message]
    outcome = play_host(script, command_of(dialect, tmp_path), seconds=RUN_SECONDS)
    assert outcome.difference is None, outcome.difference
    assert outcome.compared == len(received) >= 3  # the handshake and a call have three at least
    assert play_both_roles(script) == len(received)


def play_both_roles(script: Script) -> int:
    """Let the two roles of a script talk to each other, and return how many messages agreed."""
    extension, host = ExtensionRole(script), HostRole(script)
    from_extension = extension.first_messages()
    while True:
        for item in from_extension:
            if not isinstance(item, StderrLine | Noise):  # output that is not a message
                difference = host.receive(item, None)
                assert difference is None
        from_host = host.due_messages()
        if not from_host:
            break
        from_extension = [item for message in from_host for item in extension.receive(message)]
    assert host.is_over and extension.is_over and extension.differences == []
    return host.compared


@pytest.mark.more
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_recording_can_replace_the_program(dialect: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    results = await record(dialect, command_of(dialect, tmp_path), tmp_path, first)
    argv = [*EXTHOST, "replay", str(first)]
    assert await record(dialect, argv, tmp_path, second) == results
    exits = [item.text for item in read_records(second) if item.kind == "exited"]
    assert exits == ["exited with 0"], [item.text for item in read_records(second) if item.text]


def read_records(file: Path) -> tuple[TraceRecord, ...]:
    return read_recording(file.read_bytes().splitlines(keepends=True), str(file)).records


@pytest.mark.parametrize("dialect", ["nexo", "synaps"])
async def test_another_id_for_the_extension_is_not_a_difference(
    dialect: str, tmp_path: Path
) -> None:
    file = tmp_path / "recorded.jsonl"
    await record(dialect, command_of(dialect, tmp_path), tmp_path, file)
    script = read_script(file)
    renamed_records = tuple(with_other_id(item) for item in script.records)
    assert renamed_records != script.records
    exchange_first_messages(dataclasses.replace(script, records=renamed_records), script)


def with_other_id(record: TraceRecord) -> TraceRecord:
    """Change the id and folder of the extension, if the record is the host's first request."""
    if record.method != "initialize" or record.direction != "sent":
        return record
    other_values = {"extension_id": "other", "plugin_id": "other", "plugin_root": "/elsewhere"}
    present = {key: value for key, value in other_values.items() if key in record.data}
    return record._replace(data={**record.data, **present})


def exchange_first_messages(host_script: Script, child_script: Script) -> None:
    """Send the first messages of one script to the extension of the other without a difference."""
    host, child = HostRole(host_script), ExtensionRole(child_script)
    first = host.due_messages()
    for message in first:
        child.receive(message)
    assert first and child.differences == []
