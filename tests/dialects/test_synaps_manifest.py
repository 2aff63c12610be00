"""plugin.json, the manifest of a plugin of synaps: its keys, the mistakes in it, the sources of
settings, and discovery.

synaps is a dialect, a protocol of extensions. `read` returns the manifest as Accepted, with the
configuration of the extension (`spec`), None for a plugin of another kind, or raises ManifestError.
A setting that a manifest declares gets its value from the config, a variable, a stored value or its
default. `@shows` names the requirements (`requirements.toml` of synaps) that a test shows.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from exthost.config import DiscoverySettings
from exthost.config.discovery.report import SearchReport
from exthost.config.discovery.search import discover
from exthost.dialects import find
from exthost.dialects.manifest_format import Accepted, ManifestFile
from exthost.dialects.synaps.manifest import FORMAT, Subscription, SynapsManifest, read
from exthost.errors import ManifestError, Refused
from exthost.launch.prerequisites import resolve_config
from exthost.model.spec import DeclaredSetting, Spec
from tests.dialects.requirements import shows
from tests.extensions.synaps_tree import write_plugin

GOOD: dict[str, Any] = {
    "protocol_version": 1,
    "runtime": "process",
    "command": "python3",
    "permissions": ["tools.register"],
}


def manifest_file(extension: Any, *, files: tuple[str, ...] = (), **top_level: Any) -> ManifestFile:
    data = json.dumps({**top_level, "extension": extension}).encode()
    path = "/p/notes/.synaps-plugin/plugin.json"
    return ManifestFile(
        path=path, folder="/p/notes", data=data, has_file=lambda name: name in files
    )


def spec_of(extension: Any, **settings: Any) -> Spec:
    outcome = read(manifest_file(extension, **settings))
    assert isinstance(outcome, Accepted)
    return outcome.spec


@shows("synaps-mani-01", "synaps-mani-02")
def test_the_minimal_manifest_of_this_dialect() -> None:
    spec = spec_of(GOOD, version="1.2", description="d")
    assert (spec.id, spec.dialect, spec.argv, spec.cwd) == (
        "notes",
        "synaps",
        ("python3",),
        "/p/notes",
    )
    manifest = spec.manifest
    assert isinstance(manifest, SynapsManifest) and spec.version == "1.2"
    assert (manifest.permissions, manifest.hooks, spec.settings) == (("tools.register",), (), ())


@shows("synaps-mani-01")
@pytest.mark.parametrize(
    "text",
    ["{}", '{"name": "skill", "commands": []}', '{"extensions": 1}', '{"extension": null}'],
)
def test_a_plugin_of_another_kind_is_ignored(text: str) -> None:
    assert read(ManifestFile(path="/x", folder="/x", data=text.encode())) is None


@shows("synaps-mani-07")
@pytest.mark.parametrize(
    "permission",
    [
        *("tools.register", "providers.register", "memory.read", "memory.write"),
        *("config.write", "config.subscribe", "audio.input", "audio.output"),
    ],
)
def test_a_plugin_without_hooks_may_have_one_of_these_permissions(permission: str) -> None:
    assert spec_of(GOOD | {"permissions": [permission]}).manifest.permissions == (permission,)


@shows("synaps-mani-08")
def test_a_manifest_without_protocol_version_is_accepted() -> None:
    manifest = {key: value for key, value in GOOD.items() if key != "protocol_version"}
    assert spec_of(manifest).id == "notes"


@shows("synaps-mani-05")
@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/bin/x", "/bin/x"),
        ("./run.sh", "/p/notes/run.sh"),
        ("bin/x", "/p/notes/bin/x"),
        ("x", "x"),
    ],
)
def test_a_relative_command_is_in_the_folder_of_the_plugin(command: str, program: str) -> None:
    assert spec_of(GOOD | {"command": command}).argv == (program,)


@shows("synaps-mani-05")
def test_arguments_that_name_files_of_the_plugin_become_absolute() -> None:
    args = ["main.py", "--flag", "lib/x.py", "gone.py"]
    spec = spec_of(GOOD | {"args": args}, files=("main.py", "lib/x.py"))
    assert spec.argv[1:] == ("/p/notes/main.py", "--flag", "/p/notes/lib/x.py", "gone.py")


def test_hooks_and_their_filters() -> None:
    hooks = [
        {"hook": "before_tool_call", "tool": "bash", "match": {"input_equals": None}},
        {"hook": "after_tool_call", "match": {"input_contains": "rm"}, "tool": None},
    ]
    spec = spec_of(GOOD | {"permissions": ["tools.intercept"], "hooks": hooks})
    assert spec.manifest.hooks == ("before_tool_call", "after_tool_call")
    assert spec.manifest.subscriptions == (
        Subscription("before_tool_call", "bash", (None,), None),
        Subscription("after_tool_call", None, None, "rm"),
    )


@shows("synaps-mani-03")
@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"protocol_version": 3}, "X0251", "protocol 3"),
        ({"protocol_version": True}, "X0250", "protocol_version"),
        ({"protocol_version": None}, "X0250", "protocol_version"),
        ({"runtime": "wasm"}, "X0251", "wasm"),
        ({"command": "  "}, "X0252", "blank"),
        ({"command": 5}, "X0250", "command"),
        ({"command": "a\0b"}, "X0250", "command: must not contain a NUL"),
        ({"command": "\ud800"}, "X0250", "command: contains half of a surrogate pair"),
        ({"args": "x"}, "X0250", "args"),
        ({"args": ["a\0b"]}, "X0250", "args: must not contain a NUL"),
        ({"permissions": ["tools.registre"]}, "X0253", "tools.registre"),
        ({"permissions": ["tools.override"]}, "X0253", "reserved"),
        ({"permissions": ["session.lifecycle"]}, "X0255", "no hooks"),
        ({"permissions": []}, "X0255", "no hooks"),
        ({"hooks": [{"hook": "before_tool"}]}, "X0254", "before_tool"),
        ({"hooks": [{"hook": "before_tool_call"}]}, "X0254", "tools.intercept"),
        ({"hooks": [{"hook": "on_session_start"}]}, "X0254", "session.lifecycle"),
        ({"hooks": ["x"]}, "X0250", "hooks[0]"),
        ({"config": [{"type": "string"}]}, "X0250", "key"),
        ({"config": [{"key": "a", "type": "list"}]}, "X0250", "type"),
        ({"config": [{"key": "a", "required": "yes"}]}, "X0250", "required"),
    ],
)
def test_manifests_refused_before_a_start(change: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(manifest_file(GOOD | change))
    error = caught.value
    assert error.code == code and text in error.message, error.message
    assert error.extension == "notes" and error.help and error.evidence.key


@shows("synaps-mani-03")
def test_a_tool_filter_is_allowed_only_for_hooks_about_tools() -> None:
    permissions = ["privacy.llm_content"]
    hooks = [{"hook": "before_message", "tool": "bash"}]
    with pytest.raises(ManifestError, match="not about tools"):
        read(manifest_file(GOOD | {"permissions": permissions, "hooks": hooks}))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 5000, b'{"extension": 5}'])
def test_a_file_that_is_not_a_manifest_is_reported(data: bytes) -> None:
    with pytest.raises(ManifestError) as caught:
        read(ManifestFile(path="/x", folder="/p/notes", data=data))
    assert caught.value.code == "X0250"


# -- settings --------------------------------------------------------------------------------


def with_settings(*settings: DeclaredSetting, **fields: Any) -> Spec:
    return Spec(id="my-plugin", argv=("x",), settings=settings, **fields)


@shows("synaps-mani-04")
def test_a_setting_comes_from_the_first_source_that_has_it() -> None:
    (setting,) = spec_of(
        GOOD | {"config": [{"key": "api-key", "secret_env": "TOKEN", "default": "d"}]}
    ).settings
    assert setting.variables == ("SYNAPS_EXTENSION_NOTES_API_KEY", "TOKEN")
    own_variable, secret_variable = setting.variables
    spec = with_settings(setting, stored={"api-key": "stored"})
    assert resolve_config(spec, {own_variable: "own", secret_variable: "secret"}) == {
        "api-key": "own"
    }
    assert resolve_config(spec, {own_variable: "", secret_variable: "secret"}) == {
        "api-key": "secret"
    }
    assert resolve_config(spec, {}) == {"api-key": "stored"}
    assert resolve_config(with_settings(setting), {}) == {"api-key": "d"}
    assert resolve_config(with_settings(setting, config={"api-key": 1}), {own_variable: "x"}) == {
        "api-key": 1
    }


@shows("synaps-mani-04")
def test_a_required_setting_without_a_value_is_refused() -> None:
    setting = DeclaredSetting("k", ("SYNAPS_EXTENSION_A_K",), required=True)
    with pytest.raises(Refused) as caught:
        resolve_config(with_settings(setting), {})
    assert caught.value.code == "X0350" and "SYNAPS_EXTENSION_A_K" in caught.value.help
    assert resolve_config(with_settings(setting._replace(required=False)), {}) == {}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("bool", "true", True), ("bool", "False", False), ("number", "5", 5), ("number", " 1.5", 1.5)],
)
def test_a_setting_has_the_type_that_it_declares(kind: Any, text: str, value: Any) -> None:
    spec = with_settings(DeclaredSetting("k", ("V",), kind))
    assert resolve_config(spec, {"V": text}) == {"k": value}
    assert type(resolve_config(spec, {"V": text})["k"]) is type(value)


@pytest.mark.parametrize(("kind", "text"), [("bool", "1"), ("number", "true"), ("number", "x1")])
def test_a_setting_of_the_wrong_type_is_refused_without_its_value(kind: Any, text: str) -> None:
    with pytest.raises(Refused) as caught:
        resolve_config(with_settings(DeclaredSetting("k", ("V",), kind)), {"V": text + "hunter2"})
    assert caught.value.code == "X0351" and "hunter2" not in str(caught.value)


def test_an_infinite_number_is_refused_because_json_does_not_have_it() -> None:
    with pytest.raises(Refused, match="must be a number"):
        resolve_config(with_settings(DeclaredSetting("k", ("V",), "number")), {"V": "1e999"})


# -- discovery -------------------------------------------------------------------------------


@shows("synaps-mani-06", "synaps-mani-02")
def test_a_plugin_of_the_project_has_precedence_over_one_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    users, project = tmp_path / "home/.synaps-cli/plugins", tmp_path / "work/.synaps/plugins"
    for root in (users, project):
        write_plugin(root / "both")
    write_plugin(users / "mine")
    write_plugin(project / "broken", command=" ")
    skill = project / "skill" / ".synaps-plugin" / "plugin.json"
    skill.parent.mkdir(parents=True)
    skill.write_text('{"name": "skill"}')
    settings = DiscoverySettings(search_paths=("$SYNAPS",))
    report = discover(settings, find.load_manifest_formats(), base=str(tmp_path / "work"))
    folders = {candidate.id: candidate.folder for candidate in report.candidates}
    assert folders == {"both": str(project / "both"), "mine": str(users / "mine")}
    (diagnostic,) = report.diagnostics  # using the plugin of the project is not a warning
    assert (diagnostic.extension, diagnostic.code) == ("broken", "X0252") and diagnostic.help


@shows("synaps-today-12")
def test_a_replaced_user_plugin_with_a_tool_hook_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_plugin(tmp_path / "home/.synaps-cli/plugins/both", hooks=[{"hook": "before_tool_call"}])
    write_plugin(tmp_path / "work/.synaps/plugins/both")
    assert [diagnostic.code for diagnostic in search(tmp_path / "work").diagnostics] == ["X0205"]
    write_plugin(tmp_path / "home/.synaps-cli/plugins/both", hooks=[{"hook": "on_session_end"}])
    assert search(tmp_path / "work").diagnostics == ()


@shows("synaps-today-10")
@pytest.mark.parametrize("value", ["1", " TRUE ", "yes", "On"])
def test_variables_change_the_search_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_plugin(tmp_path / "home/.synaps-cli/plugins/users")
    write_plugin(tmp_path / "base/plugins/based")
    write_plugin(tmp_path / "work/.synaps/plugins/projects")
    assert found_ids(tmp_path) == {"users", "projects"}
    monkeypatch.setenv("SYNAPS_BASE_DIR", str(tmp_path / "base"))
    assert found_ids(tmp_path) == {"based", "projects"}
    monkeypatch.setenv("SYNAPS_DISABLE_PROJECT_PLUGINS", value)
    assert found_ids(tmp_path) == {"based"}
    monkeypatch.setenv("SYNAPS_DISABLE_PROJECT_PLUGINS", "0")
    assert found_ids(tmp_path) == {"based", "projects"}


def found_ids(root: Path) -> set[str]:
    return {candidate.id for candidate in search(root / "work").candidates}


def search(base: Path) -> SearchReport:
    settings = DiscoverySettings(search_paths=("$SYNAPS",))
    return discover(settings, find.load_manifest_formats(), base=str(base))


# -- keys of current plugins ----------------------------------------------------------------

CURRENT = GOOD | {"permissions": ["tools.register", "providers.register", "tools.intercept"]}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"theme_tokens": {"a.b": "red"}}, "X0256", "not a colour"),
        ({"theme_tokens": {"a b": "#fff"}}, "X0256", "cannot be the name"),
        ({"theme_tokens": {"a": "#ffff"}}, "X0256", "not a colour"),
        ({"deferred": {"tools": ["t"] * 257}}, "X0257", "257 entries"),
        ({"deferred": {"providers": ["p"] * 17}}, "X0257", "17 entries"),
        ({"deferred": {"context_providers": [{}]}}, "X0257", "context_providers.register"),
        ({"deferred": {"tools": [{}]}}, "X0250", "needs a name"),
        ({"deferred": {"lifecycle": "later"}}, "X0250", "hook or user"),
        ({"deferred": {"lifecycle": "hook"}}, "X0257", "has no hook"),
        ({"deferred": {"lifecycle": "user", "tools": ["t"]}}, "X0257", "cannot be deferred"),
        (
            {"deferred": {"tools": [{"name": "t", "input_schema": {"a": "x" * 65536}}]}},
            "X0257",
            "65536 bytes",
        ),
        (
            {"permissions": ["privacy.llm_content"], "hooks": [{"hook": "on_usage"}]},
            "X0254",
            "protocol_version 2",
        ),
        ({"permissions": ["tools.transform"]}, "X0253", "tools.transform"),
    ],
)
@shows("synaps-today-09", "synaps-today-04", "synaps-today-05")
def test_mistakes_in_the_manifests_of_current_plugins(
    change: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(manifest_file(CURRENT | change))
    assert caught.value.code == code and text in caught.value.message


@shows("synaps-today-01", "synaps-today-08")
@pytest.mark.parametrize("name", ["context_providers.register", "session.drive"])
def test_a_plugin_with_only_unsupported_features_is_accepted(name: str) -> None:
    outcome = read(manifest_file(GOOD | {"permissions": [name]}))
    assert isinstance(outcome, Accepted) and "does not offer" in str(outcome.warnings[0])


def test_missing_plugin_folders_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = DiscoverySettings(search_paths=("$SYNAPS",))
    report = discover(settings, find.load_manifest_formats(), base=str(tmp_path))
    assert (report.candidates, report.diagnostics) == ((), ())


def test_a_config_entry_can_name_a_manifest() -> None:
    assert FORMAT.join is not None
    config = [{"key": "k", "default": 1}]
    joined = FORMAT.join(Spec(id="mine", argv=("run",)), manifest_file(GOOD | {"config": config}))
    assert (joined.id, joined.argv) == ("mine", ("run",))
    assert joined.settings[0].variables == ("SYNAPS_EXTENSION_MINE_K",)
    with pytest.raises(ManifestError):
        FORMAT.join(
            Spec(id="mine", argv=("run",)), ManifestFile(path="/x", folder="/x", data=b"{}")
        )
