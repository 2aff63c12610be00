"""The advice to grant a path to a sandboxed program, from what it prints.

For example, after "cannot open /srv/models/x" the host suggests to add that path to
`permissions.filesystem`. A program may print any path to get it granted, so the advice never names
a secret, a home folder, or code of other programs. A Wrapper is the command line of a sandbox,
which has the paths that it shows.
"""

from pathlib import Path

import pytest

from exthost.launch.grant_advice import suggest_folder_of_module, suggest_grant
from exthost.model.launch_plan import Wrapper


def make_sandbox(*visible_paths: str, cwd: str = "/") -> Wrapper:
    mounts = [word for path in visible_paths for word in ("--ro-bind", path, path)]
    options = ("--ro-bind", "/usr", "/usr", *mounts, "--chdir", cwd)
    return Wrapper(options=options, init=b"", filter=b"a filter")


@pytest.mark.parametrize(
    ("name", "mode", "is_suggested"),
    [
        ("models/large.bin", 0o644, True),
        ("models/tokenizer.json", 0o644, True),
        ("env/lib/x.py", 0o644, True),
        (".local/share/uv/python/cpython-3.99/lib/x", 0o644, True),
        (".cache/ms-playwright/chromium-1/chrome", 0o644, True),
        (".cache/uv/x", 0o644, False),
        (".cache/huggingface/token", 0o644, False),
        (".local/share/uv/credentials/credentials.toml", 0o644, False),
        (".local/share/keyrings/login.keyring", 0o644, False),
        (".ssh/id_ed25519", 0o644, False),
        (".aws/credentials", 0o644, False),
        ("keys/private.pem", 0o600, False),
        ("sync/Passwords.kdbx", 0o644, False),
        ("old/id_rsa", 0o644, False),
        ("snap/firefox/profile/key4.db", 0o644, False),
        ("project/.env", 0o644, False),
        ("project/prod.env", 0o644, False),
        ("backup/shadow", 0o644, False),
        ("backup/shadow-", 0o644, False),
        ("plain.txt", 0o600, False),
        ("missing", 0, False),
    ],
)
def test_sensitive_files_are_never_suggested(
    tmp_path: Path, name: str, mode: int, is_suggested: bool
) -> None:
    path = tmp_path / name
    if mode:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        path.chmod(mode)
    advice = suggest_grant(make_sandbox(), [f"cannot open {path}: No such file or directory"])
    assert (str(path) in advice) == is_suggested, advice


def test_a_link_to_a_hidden_folder_is_not_suggested(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id").touch()
    (tmp_path / "notes").symlink_to(tmp_path / ".ssh" / "id")
    assert suggest_grant(make_sandbox(), [f"cannot open {tmp_path}/notes"]) == ""
    (tmp_path / "notes").unlink()
    (tmp_path / "notes").touch()
    assert suggest_grant(make_sandbox(), [f"cannot open {tmp_path}/notes"]) != ""


@pytest.mark.parametrize("is_written", [False, True])
def test_a_shared_folder_is_never_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (".cache", ".local/share", "work"):
        (tmp_path / "home" / name).mkdir(parents=True)
    shared_folders = ["/", "/home", "/root", "/etc", "/var/lib", "/tmp", str(tmp_path / "home")]
    shared_folders += [
        str(tmp_path / "home" / ".cache"),
        str(tmp_path / "home" / ".local" / "share"),
    ]
    for path in shared_folders:
        line = f"{path}: Read-only file system" if is_written else f"cannot open '{path}'"
        advice = suggest_grant(make_sandbox(), [line])
        assert f'"{path}"' not in advice and ":rw" not in advice, advice
        if not is_written and path == str(tmp_path / "home"):
            assert "name the folder in it" in advice, advice
    work = tmp_path / "home" / "work"
    advice = suggest_grant(make_sandbox(), [f"cannot open {tmp_path}/home", f"cannot open {work}"])
    assert f'add "{work}"' in advice, "a path that can be granted comes first"


def test_a_file_visible_through_a_link_is_not_called_hidden(tmp_path: Path) -> None:
    line = "warning: /lib/os-release was read, and /usr/lib was not searched"
    sandbox = Wrapper(
        options=("--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"),
        init=b"",
        filter=b"a filter",
    )
    assert suggest_grant(sandbox, [line]) == ""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real")
    line = f"cannot open {tmp_path}/link/file"
    assert f"hides {tmp_path}/link/file" in suggest_grant(make_sandbox(f"{tmp_path}/real"), [line])


def test_the_host_of_a_url_is_not_a_path() -> None:
    line = "Invalid response while trying to fetch https://registry.example.org/x: EROFS"
    assert suggest_grant(make_sandbox(), [line]) == ""


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 30] Read-only file system: '{own_folder}/cache.db'",
        "Error: EROFS: read-only file system, open '{own_folder}/new/cache.json'",
        "Read-only file system @ rb_sysopen - {own_folder}/cache.db (Errno::EROFS)",
        "open cache.db: read-only file system",
        "OSError: [Errno 30] Read-only file system: 'cache.db'",
        "sqlite3.OperationalError: attempt to write a readonly database",
        "PermissionError: [Errno 13] Permission denied: '{own_folder}/settings.json'",
    ],
)
def test_write_access_to_the_folder_of_the_program_is_suggested(tmp_path: Path, line: str) -> None:
    own_folder = tmp_path / "plugin"
    own_folder.mkdir()
    (own_folder / "settings.json").touch(0o644)
    advice = suggest_grant(
        make_sandbox(str(own_folder), cwd=str(own_folder)), [line.format(own_folder=own_folder)]
    )
    assert (
        advice == f'it may only read {own_folder}: add "{own_folder}:rw" to permissions.filesystem'
    )


@pytest.mark.parametrize(
    "name",
    [".cache/uv", ".venv/lib", "node_modules/x", "env", "lib/site-packages", ".git/hooks", "bin"],
)
def test_write_access_to_code_is_not_suggested(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env").mkdir(exist_ok=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    for folder, is_suggested in ((name, False), ("data", True)):
        (tmp_path / folder).mkdir(exist_ok=True)
        line = f"Read-only file system: '{tmp_path}/{folder}/x'"
        assert bool(suggest_grant(make_sandbox(str(tmp_path)), [line])) == is_suggested


def test_write_access_to_system_folders_is_not_suggested() -> None:
    for path in ("/usr/lib/x", "/lib/x", "/bin/x", "/usr/share/app/data/x"):
        assert suggest_grant(make_sandbox("/lib", "/bin"), [f"{path}: Read-only file system"]) == ""


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("helper", "helper.py"),
        ("helper", "helper/__init__.py"),
        ("helper.part", "helper/part.py"),
        ("helper", "helper.rb"),
        ("./helper", "helper.js"),
        ("@scope/helper", "node_modules/@scope/helper/index.js"),
        ("Some/Helper", "Some/Helper.pm"),
        ("{folder}/helper", "helper.rb"),
    ],
)
def test_the_folder_of_a_module_next_to_a_script_is_suggested(
    tmp_path: Path, module: str, file: str
) -> None:
    script = tmp_path / "ext" / "run"
    (script.parent / file).parent.mkdir(parents=True, exist_ok=True)
    script.touch()
    (script.parent / file).touch()
    name = module.format(folder=script.parent)
    argv = ("/usr/bin/python3", str(script))
    advice = suggest_folder_of_module(make_sandbox(str(script)), argv, name)
    folder = str(script.parent)
    assert advice.startswith("its sandbox shows the script without its folder")
    assert f'set cwd = "{folder}", or add "{folder}" to permissions.filesystem' in advice
    assert suggest_folder_of_module(make_sandbox(folder), argv, name) == "", "the module is visible"
    assert suggest_folder_of_module(make_sandbox(str(script)), argv, "another") == ""


def test_of_a_home_folder_only_the_module_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.py").touch()
    (tmp_path / "helper.py").touch()
    advice = suggest_folder_of_module(make_sandbox(), (str(tmp_path / "run.py"),), "helper")
    assert f'add "{tmp_path}/helper.py"' in advice and f'"{tmp_path}"' not in advice
    packages = tmp_path / ".local" / "lib" / "python3.99" / "site-packages"
    (packages / "installed").mkdir(parents=True)
    advice = suggest_folder_of_module(make_sandbox(), ("/usr/bin/python3",), "installed")
    assert f'add "{packages.parent}" to permissions.filesystem' in advice


@pytest.mark.parametrize("path", ["/x\0y", "/x\ud800y"])
def test_a_path_that_no_file_can_have_is_not_looked_up(path: str) -> None:
    assert suggest_grant(make_sandbox(), [f"cannot open {path}: permission denied"]) == ""
