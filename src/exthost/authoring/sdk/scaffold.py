"""Creates a new extension: a folder with a program, its manifest or config, a test and a README.

    python3 -m exthost.sdk new NAME --dialect D [--template tool|hook|provider|generator]
    exthost new NAME --dialect D --lang typescript|go|rust|sh

The program uses the SDK and is made from one of the templates below. If the dialect has a manifest,
that is written from the handlers that the program registers. Otherwise the folder gets an
`exthost.toml`.
"""

import os
import re
import shutil
from collections.abc import Mapping

from exthost.authoring.sdk.dialects import load_dialect
from exthost.authoring.sdk.errors import SdkUsageError
from exthost.authoring.sdk.extension import Extension
from exthost.authoring.sdk.languages import language_files

PROGRAM = "extension.py"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")

_PROGRAM_TEMPLATE = '''"""{name}: an extension for exthost. Start it with --dialect {dialect}."""

{imports}

ext = Extension("{name}", version="0.1.0", description="What it is for")


{body}

if __name__ == "__main__":
    ext.run()
'''

# By template: the imports of the program, its handlers, and the assertions of its test; "" if the
# dialect has them.
_BODIES = {
    "tool": (
        "from exthost.sdk import Context, Extension",
        '''@ext.tool
def shout(text: str, times: int = 1) -> str:
    """Upper case.

    Args:
        text: the text to shout
        times: how often
    """
    return " ".join([text.upper()] * times)


@ext.tool
def count(to: int, ctx: Context) -> list[int]:
    """Count, and report progress."""
    numbers = []
    for number in range(1, to + 1):
        ctx.progress(number, to)
        numbers.append(number)
    return numbers
''',
        """            assert (await client.call_tool("shout", {"text": "hi"})).text == "HI"
""",
    ),
    "hook": (
        "from exthost.sdk import Block, Extension, HookEvent",
        '''@ext.hook("before_tool_call")
def guard(event: HookEvent) -> Block | None:
    """Stop calls that name a secret."""
    if "secret" in str(event.arguments):
        return Block("secrets stay here")
    return None
''',
        """            event = {"tool_name": "tell", "arguments": {"text": "a secret"}}
            answer = await client.run_hook("before_tool_call", event)
            assert answer.abort and answer.reason == "secrets stay here"
""",
    ),
    "provider": (
        "from collections.abc import Iterator\n\nfrom exthost.sdk import Extension, Turn",
        '''@ext.provider("parrot", models=["parrot-1"], description="Repeats the last message")
def repeat(turn: Turn) -> Iterator[str]:
    """Say the last message of the user again, word by word."""
    for word in turn.prompt.split():
        yield f"{word} "
''',
        "",
    ),
    "generator": (
        "from typing import Any\n\nfrom exthost.sdk import Extension",
        '''@ext.generate
def generate(request: Any) -> dict[str, str]:
    """Write a file for each job: paths and contents."""
    return {f"{job.id}.yml": f"target: {request.target}\\n" for job in request.graph}
''',
        """            schema = {"version": "1", "jobs": [{"id": "build"}]}
            result = await client.call("generate", {"schema": schema})
            assert result["fragments"][0]["path"] == "build.yml"
""",
    ),
}
TEMPLATES = tuple(_BODIES)

_TEST = '''"""Runs the extension against the real host, in the process of the test."""

import asyncio

from exthost.sdk import testing
from extension import ext


def test_it_works():
    async def main():
        async with testing.connect(ext, dialect="{dialect}") as client:
{check}
    asyncio.run(main())
'''

_README = """# {name}

An extension in the {dialect} dialect, written with `exthost.sdk`.

    python3 -m venv .venv && . .venv/bin/activate
    pip install -r requirements.txt pytest    # its imports, and its test runner
    python3 -m pytest            # its own test
    exthost inspect {target}     # what a host sees
    exthost check {target}       # whether it keeps to the rules of {dialect}
    exthost dev {target}         # keeps it running, and starts it again on every save
{manifest}
Whoever runs it installs `requirements.txt` for the `python3` that starts it.
"""

_REQUIREMENTS = """# The imports of extension.py. From a checkout of exthost: pip install FOLDER
exthost
"""

_CONFIG = """[[extensions]]
name = "{name}"
dialect = "{dialect}"
source = {{ type = "process", command = "python3", args = ["{program}", "--dialect", "{dialect}"] }}
"""


def default_template(dialect: str) -> str:
    """Return the template of an extension for which none is named."""
    return next(iter(load_dialect(dialect).templates), "")


def project_files(name: str, dialect: str, template: str | None = None) -> dict[str, str]:
    """Return the files of a new extension, by their paths in its folder. Raises SdkUsageError."""
    traits = load_dialect(dialect)
    template = template or default_template(dialect)
    if not _NAME.fullmatch(name):
        raise SdkUsageError(f"{name!r} is not a name: a-z first, then a-z, 0-9, _ and -")
    if template not in TEMPLATES:
        raise SdkUsageError(f"there is no template {template!r}; there are: {', '.join(TEMPLATES)}")
    if template not in traits.templates:
        raise SdkUsageError(
            f"{dialect} has no place for a {template}; its templates are: "
            f"{', '.join(traits.templates)}"
        )
    imports, body, check = _BODIES[template]
    values = {"name": name, "dialect": dialect, "program": PROGRAM}
    program = _PROGRAM_TEMPLATE.format(**values, imports=imports, body=body)
    files = {
        PROGRAM: program,
        "test_extension.py": _TEST.format(**values, check=check or traits.provider_test),
        "requirements.txt": _REQUIREMENTS,
    }
    manifest = traits.manifest_file
    if not manifest:
        files["exthost.toml"] = _CONFIG.format(**values)
        target, note = f"--dialect {dialect} -- python3 {PROGRAM} --dialect {dialect}", ""
    else:
        files[manifest] = _manifest_text(program, dialect)
        target = "." if "/" in manifest else manifest
        note = f"    python3 {PROGRAM} --manifest {dialect} > {manifest}   # after a change\n"
    files["README.md"] = _README.format(**values, target=target, manifest=note)
    return files


def _manifest_text(program: str, dialect: str) -> str:
    """Return the manifest for the handlers that a program registers. The program is executed as a
    module, so that it does not serve."""
    namespace: dict[str, object] = {"__name__": "template"}
    exec(compile(program, PROGRAM, "exec"), namespace)
    extension = namespace["ext"]
    assert isinstance(extension, Extension)
    return extension.manifest_text(dialect, ["python3", PROGRAM, "--dialect", dialect])


def create(
    folder: str, dialect: str, template: str | None = None, language: str = "python"
) -> list[str]:
    """Write a new extension into a folder, which must not exist yet. Return the paths of its files.
    The name of the folder becomes the name of the extension. `template` is None for the default of
    the dialect. Raises SdkUsageError."""
    if not folder:
        raise SdkUsageError("the name of the extension is empty")
    name = os.path.basename(os.path.abspath(folder))  # noqa: PTH100, PTH119
    files = project_files(name, dialect, template)
    if language != "python":
        default = default_template(dialect)
        if template not in (None, default):
            raise SdkUsageError(f"in {language} there is the template {default}, and no {template}")
        files = language_files(name, dialect, language)
    if os.path.lexists(folder):
        raise SdkUsageError(f"{folder} already exists")
    try:
        return _write_files(folder, files)
    except OSError:  # what is incomplete would be in the way of the next attempt
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_files(folder: str, files: Mapping[str, str]) -> list[str]:
    paths = []
    for name, text in files.items():
        path = os.path.join(folder, name)  # noqa: PTH118
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        paths.append(path)
    return paths
