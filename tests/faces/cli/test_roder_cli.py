"""Tests of roder extensions on the command line: from their own manifest, and from a config.

roder is a dialect (protocol). Its extensions have a manifest in TOML, which names their tools and
services, and can have an entry under `[[process_extensions]]` in the config.
"""

import json
from pathlib import Path

import pytest

from tests.dialects.requirements import shows
from tests.extensions.roder import CHILD, config_entry, manifest_text
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.cli.test_cli import run_json

LAUNCH = "[launch]\ncommand = {command}\nargs = {args}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An extension as it is shipped: a folder with its manifest."""
    path = tmp_path / "ext"
    path.mkdir()
    args = json.dumps(["-S", "-E", str(CHILD), "roder-extension.toml"])
    launch = LAUNCH.format(command='"python3"', args=args)
    (path / "roder-extension.toml").write_text(manifest_text("shipped") + launch)
    return path


def write_roder_config(folder: Path, *entries: dict[str, object]) -> Path:
    """Write a config of these entries; return its path."""
    lines = []
    for item in entries:
        lines.append("[[process_extensions]]")
        # JSON strings, lists of strings and numbers are valid TOML.
        lines += [f"{key} = {json.dumps(value)}" for key, value in item.items()]
    path = folder / "exthost.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.more
@pytest.mark.parametrize("name", ["", "roder-extension.toml", "another-name.toml"])
def test_inspect_loads_an_extension_from_its_own_manifest(folder: Path, name: str) -> None:
    if name.startswith("another"):
        # The arguments of the program contain the name of its manifest.
        text = (folder / "roder-extension.toml").read_text()
        (folder / name).write_text(text.replace("roder-extension", "another-name"))
    for target in (str(folder / name), f"ext/{name}"):
        report = run_json("inspect", target, cwd=folder.parent)
        assert (report["id"], report["dialect"], report["state"]) == ("shipped", "roder", "ready")
        assert "inference_engine shipped-inference_engine" in report["extra"]["services"]
        assert report["environment"]["passed"] == ["PATH"]


@pytest.mark.more
def test_the_exit_code_of_call_depends_on_the_outcome(folder: Path) -> None:
    target = str(folder)
    result = run_json("call", target, "echo", "a=1")
    assert result["data"]["arguments"] == {"a": 1}
    assert run_json("call", target, "fail", code=1)["isError"] is True
    assert run_json("call", target, "refuse", code=1)["error"]["kind"] == "CallFailed"
    assert (
        run_json("call", target, "hang", "--timeout", "500ms", code=6)["error"]["code"] == "X0801"
    )
    assert run_json("call", target, "malformed", code=7)["error"]["code"] == "X0640"
    models = run_json("call", target, "inference/listModels", "engineId=e", "--method")
    assert models["models"][0]["id"] == "m"


def test_call_shows_events_as_they_are_read_and_the_last_one_as_the_result(folder: Path) -> None:
    deltas = [{"MessageDelta": {"text": "Hel"}}, {"MessageDelta": {"text": "lo"}}]
    last = {"Completed": {"stop_reason": "end", "more": {"x": 1}}}

    def request_argument(*events: object) -> str:
        """Return the argument that makes the extension send these events."""
        steps = [["ack"], *(["event", event] for event in events)]
        return "request=" + json.dumps({"script": steps})

    arguments = ("call", str(folder), "inference/streamTurn", "--method", "engineId=e")
    result = run(*arguments, request_argument(*deltas, last), "--json")
    assert result.returncode == 0 and result.stderr == "Hello\n"
    completed = {"stop_reason": "end", "provider_response_id": None, "more": {"x": 1}}
    assert json.loads(result.stdout) == completed
    failure = request_argument({"Failed": {"message": "no credit"}})
    failed = run_json(*arguments, failure, code=1)
    assert failed == {"message": "no credit"}


@shows("roder-life-01")
def test_an_extension_whose_program_is_missing_is_listed_and_fails_when_called(
    tmp_path: Path,
) -> None:
    missing = config_entry(tmp_path) | {"command": "no-such-program"}
    write_roder_config(tmp_path, missing)
    listing = run_json("list", cwd=tmp_path)
    assert listing["diagnostics"] == []
    (row,) = listing["extensions"]
    assert (row["id"], row["state"], row["version"]) == ("toy", "admitted", "0.3.0")
    tools = run_json("tools", cwd=tmp_path)
    assert tools["not_asked"] == [] and "ext_toy_echo" in {tool["name"] for tool in tools["tools"]}
    assert run_json("call", "ext_toy_echo", code=5, cwd=tmp_path)["error"]["code"] == "X0401"


@shows("roder-manifest-07")
def test_the_second_extension_with_the_same_id_is_listed_as_refused(tmp_path: Path) -> None:
    write_roder_config(tmp_path, config_entry(tmp_path), config_entry(tmp_path, id="second"))
    first, second = run_json("list", cwd=tmp_path)["extensions"]
    assert (first["state"], second["state"]) == ("admitted", "refused")
    assert "extension id 'wire'" in second["reason"]
    assert run_json("call", "ext_toy_echo", cwd=tmp_path)["isError"] is False


def test_an_invalid_manifest_is_a_diagnostic_of_list_and_an_error_of_inspect(
    tmp_path: Path,
) -> None:
    bad = config_entry(tmp_path, id="bad", text=manifest_text().replace("^0.1", "^0.2"))
    write_roder_config(tmp_path, config_entry(tmp_path), bad)
    listing = run_json("list", cwd=tmp_path)
    assert [row["id"] for row in listing["extensions"]] == ["toy"]
    assert [diagnostic["code"] for diagnostic in listing["diagnostics"]] == ["X0244"]
    assert run_json("inspect", "bad", code=3, cwd=tmp_path)["error"]["code"] == "X0244"
    assert run_json("inspect", "toy", cwd=tmp_path)["id"] == "toy"


def test_a_start_fails_if_the_extension_returns_another_checksum(tmp_path: Path) -> None:
    write_roder_config(tmp_path, config_entry(tmp_path, 'manifestChecksum="0"'))
    error = run_json("inspect", "toy", code=5, cwd=tmp_path)["error"]
    assert (error["code"], error["kind"]) == ("X0544", "HandshakeFailed")
    assert run("explain", "X0544").returncode == 0


def test_the_error_for_a_bare_command_of_this_dialect_asks_for_its_manifest() -> None:
    error = run_json("inspect", "--dialect", "roder", "--", "cat", code=5)["error"]
    assert error["code"] == "X0540" and "manifest" in error["help"]


def test_a_folder_with_a_broken_manifest_names_its_fault(folder: Path) -> None:
    (folder / "roder-extension.toml").write_text("id = 1")
    assert run_json("inspect", str(folder), code=3)["error"]["code"] == "X0240"


def test_validate_and_doctor_check_the_manifests_that_a_config_names(tmp_path: Path) -> None:
    one = config_entry(tmp_path, id="one")
    write_roder_config(tmp_path, one, {**one, "id": "two"})
    valid = run_json("validate", cwd=tmp_path)["valid"]
    assert [(row["id"], row["path"]) for row in valid] == [
        ("one", one["manifest"]),
        ("two", one["manifest"]),
    ]
    findings = run_json("doctor", code=4, cwd=tmp_path)["findings"]
    (clash,) = [row for row in findings if row["level"] == "error"]
    assert (clash["extension"], clash["code"]) == ("two", "X0340")
    write_roder_config(tmp_path, {**one, "manifest": "no-such.toml"})
    checked = run_json("validate", code=3, cwd=tmp_path)
    assert checked["valid"] == [] and checked["diagnostics"][0]["code"] == "X0201"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{ denied_capabilities = "fs" }', "denied_capabilities: must be a list of text"),
        ('{ denied_capabilites = ["fs"] }', "did you mean `denied_capabilities`?"),
        ("{ event_filter = { kinds = 1 } }", "event_filter: must be a table"),
    ],
)
def test_an_option_that_cannot_be_used_is_a_mistake_of_the_config(
    tmp_path: Path, options: str, message: str
) -> None:
    path = write_roder_config(tmp_path, config_entry(tmp_path))
    path.write_text(path.read_text() + f"\noptions = {options}\n")
    for arguments in (("call", "toy", "echo"), ("inspect", "toy"), ("doctor",)):
        error = run_json(*arguments, code=3, cwd=tmp_path)["error"]
        assert error["code"] in ("X0102", "X0103") and error["evidence"]["line"]
        assert message in f"{error['message']} {error['help']}"


def test_an_option_for_an_unknown_dialect_is_reported_before_the_start(tmp_path: Path) -> None:
    path = write_roder_config(tmp_path, config_entry(tmp_path))
    path.write_text(path.read_text() + '\n[overrides.toy.options]\ndenied_capabilites = ["fs"]\n')
    error = run_json("call", "toy", "echo", code=3, cwd=tmp_path)["error"]
    assert error["code"] == "X0111" and "did you mean `denied_capabilities`?" in error["message"]
    findings = run_json("doctor", code=3, cwd=tmp_path)["findings"]
    assert any("did you mean" in finding["message"] for finding in findings)
