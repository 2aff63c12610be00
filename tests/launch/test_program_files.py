"""Which words of a command are files of its program, and from which folder it imports code.

In `python3 run.py data.txt`, the program is python3 and run.py; data.txt is an argument, although
it is a file, too.
"""

from pathlib import Path

import pytest

from exthost.launch.program_files import code_folders, program_files


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("python3 run.py data.txt", "run.py"),
        ("python3.12 -S -E run.py", "run.py"),
        ("python3 -X dev run.py", "run.py"),
        ("python3 -W data.txt -u run.py", "run.py"),
        ("python3 -m http.server data.txt", ""),
        ("python3 -c pass run.py", ""),
        ("python3 - data.txt", ""),
        ("/usr/bin/env -u NAME A=1 python3 run.py data.txt", "run.py"),
        ("node --require data.txt main.mjs", "data.txt main.mjs"),  # node runs both files
        ("bash -c run.sh data.txt", ""),
        ("sh -o errexit run.sh", "run.sh"),
        ("deno run main.mjs data.txt", "main.mjs"),
        ("./tool run.py data.txt", ""),
    ],
)
def test_the_program_files_are_the_program_and_the_scripts_that_it_runs(
    command: str, scripts: str, tmp_path: Path
) -> None:
    # "dev" and "errexit" are values of options that are also names of files.
    for name in ("run.py", "run.sh", "main.mjs", "data.txt", "dev", "tool", "errexit"):
        (tmp_path / name).touch()
    argv = command.split()
    expected = (argv[0], *(str(tmp_path / name) for name in scripts.split()))
    assert program_files(argv, str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("python3 app/run.py", "app"),
        ("python3 -u -m toy", "."),
        ("python3 -Bm toy", "."),
        ("python3 -c pass", "."),
        ("python3 -P -m toy", None),  # -P and -I leave out the working folder
        ("python3 -Im toy", None),
        ("python3 -W Ignore app/run.py", "app"),
        ("python3 -mPIP", "."),
        ("env A=1 python3 app/run.py", "app"),
        ("node app/main.mjs", "app"),
        ("./app/script", "app"),
        ("./app/isolated", None),
        ("./app/binary", None),
        ("sh app/run.sh", None),
        ("git status", None),
    ],
)
def test_the_code_folder_is_the_folder_from_which_an_interpreter_imports(
    command: str, folder: str | None, tmp_path: Path
) -> None:
    (tmp_path / "app").mkdir()
    for name in ("run.py", "run.sh", "main.mjs", "binary", "script", "isolated"):
        (tmp_path / "app" / name).touch()
    (tmp_path / "app" / "script").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "app" / "isolated").write_text("#!/usr/bin/python3 -I\n")
    expected = () if folder is None else (str(tmp_path / folder),)
    assert code_folders(command.split(), str(tmp_path)) == expected
