"""Writing the files of a result: merging fragments, refused paths, and all files or none.

An extension of the dialect cigen generates files for CI systems. Its result is a list of fragments,
each of which replaces the text of a file, is appended to it, or is merged into it (YAML and JSON).
The extension may be hostile: no file is written outside of the output folder, and none that other
programs execute or read their settings from, such as `.git/config`, unless the user allows it.
"""

import json
import os
import resource
import sys
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from exthost.dialects.calls import FileFragment
from exthost.errors import CallFailed, Refused, UsageError
from exthost.host.file_merge import merge_fragments
from exthost.host.file_writer import write_files
from exthost.host.protected_files import is_protected
from tests.dialects.requirements import shows


def read_no_file(path: str) -> str | None:
    return None


def merge_all(*fragments: FileFragment, existing: str | None = None) -> Any:
    """Return the files that the fragments result in; each existing file has this text."""
    return dict(merge_fragments(fragments, lambda path: existing))


def merge_fragment(path: str, content: str, format: str = "") -> FileFragment:
    return FileFragment(path, content, "merge", format=format)


def read_files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@shows("cigen-files-01")
def test_replace_overwrites_the_earlier_text() -> None:
    files = merge_all(
        FileFragment("a", "1"), FileFragment("b", "2"), FileFragment("./a", "3"), existing="old"
    )
    assert files == {"a": "3", "b": "2"}


@shows("cigen-files-04")
def test_a_link_and_its_target_cannot_both_be_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(CallFailed, match="link"):
        write_files((FileFragment("a", "1"), FileFragment("link", "2")), tmp_path)
    assert not (tmp_path / "a").exists()


@shows("cigen-files-02")
def test_appended_texts_are_sorted_by_order_and_then_by_arrival() -> None:
    texts_and_orders = [("1", 5), ("2", -1), ("3", 5), ("4", 0)]
    files = merge_all(
        *(FileFragment("a", text, "append", order) for text, order in texts_and_orders),
        existing="old",
    )
    assert files == {"a": "2413"}  # the orders -1, 0, 5, 5


def test_an_appended_text_follows_the_replaced_text() -> None:
    files = merge_all(
        FileFragment("a", "lost", "append"),
        FileFragment("a", "base "),
        FileFragment("a", "end", "append", -9),
    )
    assert files == {"a": "base end"}


@shows("cigen-files-03")
def test_merge_joins_nested_mappings_and_the_later_value_is_used() -> None:
    files = merge_all(
        FileFragment("a.yml", "on: push\njobs:\n  build: {needs: [a], image: x}\n"),
        merge_fragment("a.yml", "jobs:\n  build: {image: y, needs: [b]}\n  test: {}\n"),
    )
    assert yaml.load(files["a.yml"], yaml.BaseLoader) == {
        "on": "push",
        "jobs": {"build": {"needs": ["b"], "image": "y"}, "test": {}},
    }


@shows("cigen-files-03")
def test_merge_changes_an_existing_file() -> None:
    files = merge_all(
        merge_fragment("package.json", '{"b": {"d": 2}}'), existing='{"a": "é", "b": {"c": 1}}'
    )
    assert json.loads(files["package.json"]) == {"a": "é", "b": {"c": 1, "d": 2}}
    assert merge_all(merge_fragment("new.yml", "a: 1 # kept\n")) == {"new.yml": "a: 1 # kept\n"}


@pytest.mark.parametrize("word", ["on", "yes", "22:22", "2024-01-01", "010", "1_000", "=", "0x1f"])
def test_words_that_have_other_types_in_yaml_1_1_stay_text(word: str) -> None:
    files = merge_all(
        FileFragment("a.yml", f"{word}: {word}\n"), merge_fragment("a.yml", "b: true\nc: 1.5\n")
    )
    assert yaml.load(files["a.yml"], yaml.BaseLoader) == {word: word, "b": "true", "c": "1.5"}


@pytest.mark.parametrize(
    ("first", "second", "format", "message"),
    [
        ("a: 1", "- 1", "yaml", "only mappings"),
        ("a: [", "b: 1", "yaml", "cannot be merged"),
        ("{", "{}", "json", "cannot be merged"),
        ("a: 1", "b: !!python/object:os.system 1", "yaml", "cannot be merged"),
        ("a: 1", "b: !!int ''", "yaml", "the type of its tag"),
        ("a: !!bool x", "b: 1", "yaml", "the type of its tag"),
        ("a", "b", "toml", "only YAML and JSON"),
        ("a", "b", "", "only YAML and JSON"),
        ("[" * 9999, "{}", "json", "cannot be merged"),
    ],
)
def test_a_merge_that_fails_is_reported(first: str, second: str, format: str, message: str) -> None:
    with pytest.raises(CallFailed, match=message):
        merge_all(FileFragment("a", first), merge_fragment("a", second, format))


def test_yaml_aliases_that_expand_to_billions_of_keys_are_refused() -> None:
    levels = ["a0: &a0 {x: 1, y: 2}"]
    levels += [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40)]
    text = "\n".join(levels)  # the last level has 2**40 keys
    with pytest.raises(CallFailed, match="keys"):
        merge_all(FileFragment("a.yml", text), merge_fragment("a.yml", text))


# -- paths -----------------------------------------------------------------------------------

BAD_PATHS = [
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "",
    ".",
    "a\0b",
    "a\nb",
    "//x",
    "a/",
    "a/.",
]


@shows("cigen-files-04")
@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_outside_the_folder_is_refused_and_nothing_is_written(
    path: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Refused) as caught:
        write_files([FileFragment("good", "1"), FileFragment(path, "2")], out)
    assert caught.value.code == "X0320"
    assert read_files(tmp_path) == {} and not out.exists()


@shows("cigen-files-04")
@pytest.mark.parametrize("path", ["link/x", "link", "deep/link/x", "dangling"])
@pytest.mark.parametrize("strategy", ["replace", "merge"])
def test_a_link_to_the_outside_is_refused_and_nothing_is_written(
    path: str, strategy: Any, tmp_path: Path
) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    (out / "deep").mkdir(parents=True)
    outside.mkdir()
    (outside / "x").write_text("theirs")
    (out / "link").symlink_to(outside)
    (out / "deep" / "link").symlink_to("../../outside")
    (out / "dangling").symlink_to(tmp_path / "not-there")
    with pytest.raises(Refused):
        write_files(
            [FileFragment("good", "1"), FileFragment(path, "2", strategy, format="yaml")], out
        )
    assert read_files(out) == {} and read_files(outside) == {"x": "theirs"}
    assert not (tmp_path / "not-there").exists()


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert write_files([FileFragment("link/x", "1")], tmp_path) == ("link/x",)
    assert (tmp_path / "real" / "x").read_text() == "1" and (tmp_path / "link").is_symlink()


@shows("cigen-files-05")
def test_files_are_written_completely_and_keep_their_permissions(
    tmp_path: Path,
) -> None:
    out = tmp_path / "new" / "out"
    out.mkdir(parents=True)
    script = out / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    paths = write_files([FileFragment("run.sh", "new"), FileFragment(".ci/a/b.yml", "é")], out)
    assert paths == ("run.sh", ".ci/a/b.yml")
    assert read_files(out) == {".ci/a/b.yml": "é", "run.sh": "new"}
    assert script.stat().st_mode & 0o777 == 0o750


@shows("cigen-files-05")
def test_no_file_is_written_if_one_of_them_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "old").write_text("old")
    for other_file, impossible_path in (("old", "taken"), ("z", "old/x")):
        fragments = [FileFragment(other_file, "new"), FileFragment(impossible_path, "1")]
        with pytest.raises(UsageError) as caught:
            write_files(fragments, tmp_path)
        assert caught.value.code == "X1323"
        assert read_files(tmp_path) == {"old": "old"}


def test_a_file_cannot_also_be_a_folder() -> None:
    with pytest.raises(CallFailed, match="file of the same result"):
        merge_fragments([FileFragment("a", "1"), FileFragment("a/b", "2")], read_no_file)


def test_many_fragments_of_one_file_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    loads = json.loads

    def record_and_load(text: str) -> Any:
        texts.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", record_and_load)
    fragments = [merge_fragment("a.json", json.dumps({f"key{n}": n})) for n in range(100)]
    files = merge_all(*fragments, existing='{"old": 1}')
    assert len(texts) == 101  # the file, and each fragment
    assert loads(files["a.json"]) == {"old": 1} | {f"key{n}": n for n in range(100)}


def test_fragments_in_several_formats_are_merged_into_one_file() -> None:
    files = merge_all(
        merge_fragment("a", '{"one": 1}', "json"),
        merge_fragment("a", "two: 2", "yml"),
        merge_fragment("a", "three: 3", "YAML"),
        FileFragment("a", "four: 4\n", "append"),
    )
    assert files == {"a": "one: 1\ntwo: 2\nthree: 3\nfour: 4\n"}


def test_nothing_is_merged_into_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(CallFailed, match="not an ordinary file"):
        write_files([merge_fragment("a.json", "{}")], tmp_path)


def test_many_files_in_one_folder_need_few_descriptors(tmp_path: Path) -> None:
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard_limit))
    try:
        write_files([FileFragment(f"folder/{n}", "text") for n in range(50)], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard_limit))
    assert len(read_files(tmp_path)) == 50


def test_a_file_that_is_not_text_is_neither_merged_nor_written(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_bytes(b"\xff\xfe")
    for fragment in (merge_fragment("a.yml", "a: 1"), FileFragment("b", "\ud800")):
        with pytest.raises(CallFailed):
            write_files([fragment], tmp_path)
    assert os.listdir(tmp_path) == ["a.yml"]  # noqa: PTH208


def test_without_pyyaml_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError) as caught:
        merge_all(FileFragment("a.yml", "a: 1"), merge_fragment("a.yml", "b: 1"))
    assert caught.value.code == "X1322" and "exthost[yaml]" in caught.value.help


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", "sub/.git/hooks/post-checkout", ".GIT/config", ".envrc", "a/.bashrc"),
        *(".zshenv", ".vscode/tasks.json", ".github/workflows/x.yml", ".mcp.json", ".git"),
        *(".gitlab-ci.yml", ".circleci/config.yml", ".travis.yml", "Jenkinsfile", ".drone.yml"),
        *("azure-pipelines.yml", "bitbucket-pipelines.yml", ".woodpecker/x.yml", "appveyor.yml"),
        *(".buildkite/pipeline.yml", ".zed/settings.json", ".windsurf/mcp.json", ".editorconfig"),
        *("proj.code-workspace", "proj.sublime-project", ".bash_aliases", ".kshrc", ".xsessionrc"),
        # Manifests, and programs that discovery finds by their names.
        *("a/plugin.toml", "a/Plugin.TOML", "roder-extension.toml", "a/.synaps-plugin/plugin.json"),
        *(".synaps/plugins/evil/plugin.json", ".synaps-cli/plugins/evil/run", "plugin.json"),
        *("bin/cigen-provider-x", "cigen-lang-x"),
        # Agents, build tools, package managers, containers.
        *("AGENTS.md", "docs/CLAUDE.md", "GEMINI.md", ".clinerules", "Makefile", "justfile"),
        *("Taskfile.yml", "package.json", "pnpm-lock.yaml", "vite.config.ts", ".eslintrc.json"),
        *("node_modules/x/index.js", "conftest.py", "pyproject.toml", "setup.cfg", "tox.ini"),
        *("x.pth", "lib/site-packages/x.py", "pip.conf", "uv.toml", "requirements-dev.txt"),
        *("noxfile.py", ".python-version", "build.rs", ".cargo/config.toml", "rust-toolchain"),
        *("Gemfile", "Rakefile", "x.gemspec", "build.gradle.kts", "gradlew", "pom.xml"),
        *(".mvn/extensions.xml", "Dockerfile.dev", "docker-compose.yml", "compose.yaml"),
        *(".pre-commit-config.yaml", ".env.local", "x.service", "exthost.lock", "main.tf"),
        *("x.egg-info/entry_points.txt", "CMakeLists.txt", "go.mod", ".husky/pre-commit"),
    ],
)
def test_files_that_other_programs_run_or_read_are_written_only_if_allowed(
    tmp_path: Path, path: str
) -> None:
    fragments = [FileFragment("plain.txt", "a"), FileFragment(path, "b")]
    with pytest.raises(Refused) as caught:
        write_files(fragments, tmp_path)
    assert caught.value.code == "X0342" and not [*tmp_path.iterdir()]  # a protected file
    assert f"--write-protected {path}" in caught.value.help
    assert write_files(fragments, tmp_path, allowed_paths=(path,)) == ("plain.txt", path)


@pytest.mark.parametrize(
    "path",
    [
        ".g\u200cit/config",
        ".\u017f\u017fh/config",
        "GIT~1/config",
        ".git./x",
        ".bashrc ",
        ".\uff47it/x",
    ],
)
def test_another_spelling_of_a_protected_name_is_protected(path: str) -> None:
    """File systems of macOS and Windows take these names for `.git`, `.ssh` and `.bashrc`."""
    assert is_protected(path)


def test_files_that_the_caller_protects_are_written_only_if_allowed(tmp_path: Path) -> None:
    protected = (str(tmp_path / "extensions"), str(tmp_path / "my.toml"))
    for path in ("extensions/toy/x.py", "extensions/x", "Extensions/x", "my.toml"):
        with pytest.raises(Refused) as caught:
            write_files([FileFragment(path, "b")], tmp_path, protected_paths=protected)
        assert "--write-protected" in caught.value.help and not [*tmp_path.iterdir()]
    for path in ("extensions-of-it/x", "sub/extensions/x", "sub/my.toml"):
        assert write_files([FileFragment(path, "b")], tmp_path, protected_paths=protected)
    path = "extensions/toy/x.py"
    fragments = [FileFragment(path, "b")]
    paths = write_files(fragments, tmp_path, protected_paths=protected, allowed_paths=(path,))
    assert paths == (path,)


def test_an_output_folder_inside_a_protected_folder_is_written(tmp_path: Path) -> None:
    fragments = [FileFragment("x.py", "b")]
    out = tmp_path / "out"
    assert write_files(fragments, out, protected_paths=(str(tmp_path), str(out))) == ("x.py",)


def test_a_link_to_protected_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "docs").symlink_to(".git")
    with pytest.raises(Refused):
        write_files([FileFragment("docs/config", "a")], tmp_path)


def test_the_names_of_protected_files_are_lower_case_and_unique() -> None:
    text = resources.files("exthost.host").joinpath("protected_files.toml").read_text()
    groups = tomllib.loads(text)["group"]
    for key in ("files", "patterns", "folders"):
        names = [name for group in groups for name in group.get(key, ())]
        assert names == [name.casefold() for name in names]
        assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
        if key == "patterns":
            assert all("*" in name for name in names)
    for group in groups:
        assert group.keys() <= {"why", "files", "patterns", "folders"} and group["why"]


@pytest.mark.parametrize(
    "path",
    [
        *(".gitignore", "git/config", "src/.hidden", "profile", "dockerfiles/x.txt", "README.md"),
        *("src/main.py", "main.js", "data.json", "ci.yml", "docs/agents.txt", "run.sh"),
    ],
)
def test_ordinary_files_are_written(tmp_path: Path, path: str) -> None:
    assert write_files([FileFragment(path, "a")], tmp_path) == (path,)


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    name = "語" * 83 + ".txt"  # 253 bytes of the 255 that a name may have
    assert write_files([FileFragment(name, "a")], tmp_path) == (name,)
    assert read_files(tmp_path) == {name: "a"}
