"""Secrets that a config refers to: in a file, from a command, or in the keyring.

A variable of an extension can be a reference in place of a value, for example
`env = { TOKEN = { file = "~/token" } }`. `SecretReading` reads the secrets before each start. No
error and no `repr` may contain one.
"""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import ConfigError, Refused
from exthost.launch import secret_sources
from exthost.launch.secret_sources import SecretReading, with_secrets
from exthost.model.spec import SecretSource

SECRET = "hush-hush-4711"
COMMAND = {"type": "process", "command": "true"}


def read(reference: Any, **environ: str) -> str:
    """Read the secret of a reference as a start would, with some more variables of the host."""
    spec = spec_from_mapping({"name": "x", "source": COMMAND, "env": {"TOKEN": reference}})
    reading = SecretReading(spec, {"PATH": os.environ["PATH"], **environ})
    assert reading.is_needed
    reading.run()
    env = with_secrets(spec, reading.values).env
    assert env["TOKEN"] == reading.values["TOKEN"] and SECRET not in repr(env)
    return reading.values["TOKEN"]


def write(path: Path, data: bytes, mode: int = 0o600) -> dict[str, str]:
    """Write the file of a secret, and return a reference to it."""
    path.write_bytes(data)
    path.chmod(mode)
    return {"file": str(path)}


def refusal(reference: Any, **environ: str) -> Refused:
    """Return the error for a reference that cannot be read."""
    with pytest.raises(Refused) as caught:
        read(reference, **environ)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.help}"
    return caught.value


def test_a_spec_without_secrets_is_unchanged() -> None:
    spec = spec_from_mapping({"name": "x", "source": COMMAND})
    assert with_secrets(spec, {}) is spec


def test_a_file_has_a_secret_with_one_newline_at_its_end(tmp_path: Path) -> None:
    for data in (SECRET, f"{SECRET}\n", f"{SECRET}\r\n"):
        assert read(write(tmp_path / "token", data.encode())) == SECRET


def test_a_secret_of_several_lines_keeps_them(tmp_path: Path) -> None:
    assert read(write(tmp_path / "key", b"-----\nabc\n-----\n")) == "-----\nabc\n-----"


def test_a_command_may_print_as_much_as_the_limit() -> None:
    program = f"print('a' * {secret_sources._MAX_BYTES}, end='')"
    command = [sys.executable, "-S", "-E", "-c", program]
    assert read({"command": command}) == "a" * secret_sources._MAX_BYTES
    # Even with so much output, the exit status of the command counts.
    command[-1] += "; raise SystemExit(3)"
    assert "3" in refusal({"command": command}).message


@pytest.mark.parametrize("data", [b"", b"\n", b"a\0b", b"a" * 70_000])
def test_a_secret_that_cannot_be_a_variable_is_refused(tmp_path: Path, data: bytes) -> None:
    assert refusal(write(tmp_path / "token", data)).code == "X1862"


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666, 0o601])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    error = refusal(write(tmp_path / "token", SECRET.encode(), mode))
    assert error.code == "X1861" and "chmod 600" in error.help


def test_a_file_that_its_group_can_read_is_accepted(tmp_path: Path) -> None:
    assert read(write(tmp_path / "token", SECRET.encode(), 0o640)) == SECRET


def test_a_pipe_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        assert refusal({"file": str(path)}).code == "X1860"


def test_a_command_runs_without_a_shell() -> None:
    code = "import os, sys; print(os.environ['X'] + sys.argv[1])"
    assert read({"command": [sys.executable, "-c", code, "$X;"]}, X="a") == "a$X;"


def test_a_command_that_fails_is_refused_without_its_output() -> None:
    failing = f"import sys; print('{SECRET}'); print('{SECRET}', file=sys.stderr); sys.exit(7)"
    error = refusal({"command": [sys.executable, "-c", failing]})
    assert error.code == "X1863" and "exit status 7" in error.message
    assert refusal({"command": ["/nonexistent/program"]}).code == "X1863"


def test_a_command_that_hangs_is_ended_with_what_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(secret_sources, "COMMAND_SECONDS", 0.5)
    pid_file = tmp_path / "pid"
    error = refusal({"command": ["sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"]})
    assert error.code == "X1863" and "longer than" in error.message
    deadline = time.monotonic() + 20
    stat_file = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    # After the name in brackets, the file has the state of the process; Z is a zombie.
    while stat_file.exists() and stat_file.read_text().rpartition(") ")[2][0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Starts a program in a session of its own, which holds the pipe to the host until `release` exists.
DAEMON = (
    "import os, subprocess, sys\n"
    "code = 'import os, time, sys\\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)'\n"
    "subprocess.Popen([sys.executable, '-S', '-c', code, sys.argv[1]], start_new_session=True)\n"
)


@pytest.mark.parametrize("exits", [True, False])
def test_a_program_that_a_command_leaves_behind_does_not_hold_up_the_start(
    exits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent that a password manager starts goes on running. It may have the pipe."""
    release = tmp_path / "release"
    code = DAEMON + (f"print('{SECRET}')" if exits else "import time; time.sleep(600)")
    monkeypatch.setattr(secret_sources, "COMMAND_SECONDS", 60 if exits else 1)
    command = {"command": [sys.executable, "-S", "-c", code, str(release)]}
    began = time.monotonic()
    try:
        if exits:
            assert read(command) == SECRET
        else:
            assert "longer than" in refusal(command).message
        assert not release.exists() and time.monotonic() - began < 50
    finally:
        release.touch()


def test_a_command_that_prints_slowly_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_sources, "COMMAND_SECONDS", 0.5)
    code = "while :; do printf x; sleep 0.02; done"
    assert "longer than" in refusal({"command": ["sh", "-c", code]}).message


def test_a_reading_that_is_stopped_ends_its_command(tmp_path: Path) -> None:
    started_file = tmp_path / "started"
    command = ["sh", "-c", f"echo > {started_file}; exec sleep 600"]
    spec = spec_from_mapping({"name": "x", "source": COMMAND, "env": {"T": {"command": command}}})
    reading = SecretReading(spec, os.environ)
    errors: list[Refused] = []

    def run() -> None:
        try:
            reading.run()
        except Refused as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 20
    while not started_file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    has_started = started_file.exists()
    reading.stop()
    thread.join(20)
    assert has_started and not thread.is_alive() and len(errors) == 1


def test_the_keyring_is_searched_for_a_service_and_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A module with the name of the package `keyring`, which has one secret.
    (tmp_path / "keyring.py").write_text(
        f"def get_password(*entry): return {{('a/b', 'me'): {SECRET!r}}}.get(entry)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert read({"keyring": "a/b/me"}, PYTHONPATH=str(tmp_path)) == SECRET
    assert refusal({"keyring": "a/other"}, PYTHONPATH=str(tmp_path)).code == "X1864"


def test_without_the_package_the_keyring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_sources, "find_spec", lambda _: None)
    error = refusal({"keyring": "service/me"})
    assert error.code == "X1864" and "pip install keyring" in error.help


@pytest.mark.parametrize(
    "reference",
    [
        {},
        {"file": "a", "from": "B"},
        {"file": ""},
        {"file": ["a"]},
        {"command": "pass show x"},
        {"command": []},
        {"command": [""]},
        {"keyring": "service"},
        {"keyring": "/user"},
        {"vault": "x"},
    ],
)
def test_an_invalid_reference_is_an_error_of_the_config(reference: Any) -> None:
    with pytest.raises(ConfigError):
        spec_from_mapping({"name": "x", "source": COMMAND, "env": {"TOKEN": reference}})


def test_the_token_of_a_remote_server_can_be_in_a_file_but_its_url_cannot() -> None:
    remote = {
        "name": "far",
        "dialect": "mcp",
        "source": {"type": "http", "url": "https://h.example"},
    }
    source = {**remote["source"], "token": {"file": "token"}}  # type: ignore[dict-item]
    spec = spec_from_mapping({**remote, "source": source})
    assert isinstance(spec.env["EXTHOST_BRIDGE_TOKEN"], SecretSource)
    with pytest.raises(ConfigError):
        spec_from_mapping({**remote, "source": {"type": "http", "url": {"file": "url"}}})


def test_a_secret_source_has_a_kind_and_a_place() -> None:
    source = SecretSource.make("command", ("pass", "show"))
    assert (source.kind, source.place) == ("command", ["pass", "show"])
