"""Tests of the table of verbs, and of what is generated from it: the shell completions (`exthost
completion SHELL`) and the manual page (`exthost man`)."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from exthost.faces.cli.completion import SHELLS
from exthost.faces.cli.verb_table import read_verbs
from exthost.faces.cli.verbs import VERBS
from tests.faces.cli.cli_process import RUN_SECONDS, run_inside


def run_for_stdout(*arguments: str) -> str:
    """Run a verb that must succeed; return its stdout."""
    result = run_inside(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_table_has_every_verb_and_the_options_of_run() -> None:
    verbs = {verb.name: verb for verb in read_verbs()}
    assert list(verbs) == list(VERBS)
    names = {name for option in verbs["run"].options for name in option.names}
    assert {"--config", "--http", "--web", "--json"} <= names
    assert verbs["restart"].takes_name and not verbs["explain"].takes_name


@pytest.mark.parametrize("arguments", [("man",), *(("completion", shell) for shell in SHELLS)])
def test_scripts_and_the_manual_page_are_printed_as_json_if_requested(
    arguments: tuple[str, ...],
) -> None:
    [text] = json.loads(run_for_stdout(*arguments, "--json")).values()
    assert text + "\n" == run_for_stdout(*arguments)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_has_every_verb_and_is_valid_in_its_shell(
    shell: str, tmp_path: Path
) -> None:
    text = run_for_stdout("completion", shell)
    words = set(re.findall(r"[\w-]+", text))
    # A script writes an option as "--web" or as "-l web".
    assert words >= set(VERBS) and words & {"web", "--web"}
    program = shutil.which(shell)
    if program is not None:
        file = tmp_path / "completion"
        file.write_text(text)
        subprocess.run([program, "-n", str(file)], check=True, timeout=RUN_SECONDS)


def run_in_bash(folder: Path, script: str) -> set[str]:
    """Run a script in bash, in a folder with the file `completion`; return the words it prints."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    (folder / "completion").write_text(run_for_stdout("completion", "bash"))
    result = subprocess.run(
        [bash, "--norc", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    return set(result.stdout.split())


def test_bash_completes_verbs_options_and_arguments(tmp_path: Path) -> None:
    def completions(*arguments: str) -> set[str]:
        """Return what bash offers for the last of these words of a command line."""
        line = " ".join(f"'{word}'" for word in arguments)
        script = (
            f". ./completion; COMP_WORDS=({line}); COMP_CWORD={len(arguments) - 1}; "
            '_exthost; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return run_in_bash(tmp_path, script)

    assert {"restart", "reload", "remove"} <= completions("exthost", "re")
    assert completions("exthost", "run", "--we") == {"--web"}
    assert completions("exthost", "completion", "f") == {"fish"}
    assert completions("exthost", "inspect", "--sandbox", "s") == {"strict"}


def test_bash_does_not_run_commands_inside_the_id_of_an_extension(tmp_path: Path) -> None:
    # The output of `exthost list`: a header, and for each extension its id and dialect.
    ids = ("ID", "$(touch${IFS}run)", "`touch${IFS}run`", "a;touch${IFS}run", "-x", "toy")
    rows = "".join(f"{id} roder\n" for id in ids)
    script = (
        f"exthost() {{ printf %s {shlex.quote(rows)}; }}; . ./completion; "
        "COMP_WORDS=(exthost start ''); COMP_CWORD=2; _exthost; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    # The file `completion` is offered, too: the argument may be a path.
    assert run_in_bash(tmp_path, script) == {"toy", "completion"}
    assert not (tmp_path / "run").exists()


def test_the_manual_page_has_every_verb_and_is_valid_for_groff() -> None:
    text = run_for_stdout("man")
    assert all(f".SS {verb}\n" in text for verb in VERBS)
    assert r"\-\-web ADDR" in text
    groff = shutil.which("groff")
    if groff is not None:
        result = subprocess.run(
            [groff, "-man", "-Tutf8", "-ww"],
            input=text,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=True,
        )
        assert result.stderr == ""
