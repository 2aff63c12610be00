"""The command that compiles a program, which errors about a program that is not built suggest.

It is found by the files beside the program: go.mod, Cargo.toml, or package.json and a .ts file.
"""

import os
from pathlib import Path

from exthost.process.build_command import find_build_command


def test_programs_of_go_and_rust_have_a_build_command(tmp_path: Path) -> None:
    assert find_build_command(tmp_path / "tool") is None
    (tmp_path / "go.mod").write_text("module tool")
    build = find_build_command(tmp_path / "tool")
    assert build == (("go", "build", "-o", "tool", "."), tmp_path)
    (tmp_path / "Cargo.toml").write_text("")
    build = find_build_command(tmp_path / "target" / "release" / "tool")
    assert build == (("cargo", "build", "--release", "--quiet"), tmp_path)
    build = find_build_command(tmp_path / "target" / "debug" / "tool")
    assert build == (("cargo", "build", "--quiet"), tmp_path)
    assert find_build_command(tmp_path / "elsewhere" / "release" / "tool") is None


def test_a_program_compiled_from_typescript_has_a_build_command(tmp_path: Path) -> None:
    program = tmp_path / "extension.js"
    program.write_text("")
    (tmp_path / "package.json").write_text("{}")
    assert find_build_command(program) is None, "it was written in JavaScript"
    (tmp_path / "extension.ts").write_text("")
    build = find_build_command(program)
    assert build is not None and build.folder == tmp_path
    assert build.text == "npm install --silent && npm run --silent build"


def test_a_script_beside_a_go_module_is_not_replaced_by_a_program(tmp_path: Path) -> None:
    (tmp_path / "go.mod").touch()
    (tmp_path / "run").write_text("#!/bin/sh\n")
    assert find_build_command(tmp_path / "run") is None
    assert find_build_command(tmp_path / "extension.py") is None
    assert find_build_command(tmp_path / "tool") is not None


def test_a_pipe_in_the_place_of_a_program_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "go.mod").touch()
    os.mkfifo(tmp_path / "tool")
    assert find_build_command(tmp_path / "tool") is not None
