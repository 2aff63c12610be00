"""Which of the words of a command is the program: what runs, and no other file beside it."""

from pathlib import Path

import pytest

from exthost.launch.program_files import program_files


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 run.py data.txt", "run.py"),
        ("python3.12 -S -E run.py", "run.py"),
        ("python3 -X dev run.py", "run.py"),
        ("python3 -W data.txt -u run.py", "run.py"),
        ("python3 -m http.server data.txt", ""),
        ("python3 -c pass run.py", ""),
        ("python3 - data.txt", ""),
        ("/usr/bin/env -u NAME A=1 python3 run.py data.txt", "run.py"),
        ("node --require data.txt main.mjs", "main.mjs"),
        ("bash -c run.sh data.txt", ""),
        ("sh -o errexit run.sh", "run.sh"),
        ("deno run main.mjs data.txt", "main.mjs"),
        ("./tool run.py data.txt", ""),
    ],
)
def test_the_script_is_the_one_that_the_interpreter_runs(
    command: str, script: str, tmp_path: Path
) -> None:
    for name in ("run.py", "run.sh", "main.mjs", "data.txt", "dev", "tool", "errexit"):
        (tmp_path / name).touch()
    argv = command.split()
    wanted = (argv[0], str(tmp_path / script)) if script else (argv[0],)
    assert program_files(argv, str(tmp_path)) == wanted
