"""Creates a new extension: a folder with a program, its manifest or config, a test and a README.

    python3 -m exthost.sdk new NAME --dialect D [--template tool|hook|provider|generator]
    exthost new NAME --dialect D --lang typescript|go|rust|sh

The program uses the SDK and is made from one of the templates in `scaffold.toml`. If the dialect
has a manifest, that is written from the handlers that the program registers. Otherwise the folder
gets an `exthost.toml`.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from importlib import resources

from exthost_sdk.dialects import dialect_names, load_dialect
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.extension import Extension
from exthost_sdk.languages import PACK_NOTE, WORKFLOW, language_files

PROGRAM = "extension.py"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")

_TEXTS = tomllib.loads(resources.files(__package__).joinpath("scaffold.toml").read_text("utf-8"))
TEMPLATES = tuple(_TEXTS["templates"])


def default_template(dialect: str) -> str:
    """Return the template of an extension for which none is named."""
    return next(iter(load_dialect(dialect).templates), "")


def _name_help(name: str) -> str:
    """Return a similar name that is valid; "" if there is none."""
    candidate = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    return f"for example {candidate}" if _NAME.fullmatch(candidate) else ""


def _dialects_with(template: str) -> list[str]:
    """Return the names of the dialects that have this template."""
    return [name for name in dialect_names() if template in load_dialect(name).templates]


def project_files(name: str, dialect: str, template: str | None = None) -> dict[str, str]:
    """Return the files of a new extension, by their paths in its folder. Raises SdkUsageError."""
    traits = load_dialect(dialect)
    template = template or default_template(dialect)
    if not _NAME.fullmatch(name):
        raise SdkUsageError(
            f"{name!r} is not a name: a-z first, then a-z, 0-9, _ and -", _name_help(name)
        )
    if template not in TEMPLATES:
        raise SdkUsageError(f"there is no template {template!r}; there are: {', '.join(TEMPLATES)}")
    if template not in traits.templates:
        raise SdkUsageError(
            f"{dialect} has no place for a {template}; its templates are: "
            f"{', '.join(traits.templates)}",
            f"dialects with this template: {', '.join(_dialects_with(template))}",
        )
    chosen = _TEXTS["templates"][template]
    values = {"name": name, "dialect": dialect, "program": PROGRAM}
    program = _TEXTS["program"].format(**values, **chosen)
    files = {
        PROGRAM: program,
        "test_extension.py": _TEXTS["test"].format(
            **values, check=chosen["check"] or traits.provider_test
        ),
    }
    manifest = traits.manifest_file
    if not manifest:
        files["exthost.toml"] = _TEXTS["config"].format(**values)
        target, note = f"--dialect {dialect} -- python3 {PROGRAM} --dialect {dialect}", ""
    else:
        files[manifest] = _manifest_text(program, dialect)
        target = "." if "/" in manifest else manifest
        note = f"    python3 {PROGRAM} --manifest {dialect} > {manifest}   # after a change\n"
    module = f"{name.replace('-', '_')}_extension"
    # The program reads its manifest from its own folder.
    data = f'\n"{manifest}" = "{manifest}"' if traits.repeats_manifest else ""
    sdk = f"exthost-sdk[{traits.extra}]" if traits.extra else "exthost-sdk"
    files["pyproject.toml"] = _TEXTS["project"].format(**values, module=module, data=data, sdk=sdk)
    files[".gitignore"] = _TEXTS["gitignore"]
    files[WORKFLOW] = _TEXTS["workflow"].format(target=target)
    pack = PACK_NOTE if dialect == "mcp" else ""
    files["README.md"] = _TEXTS["readme"].format(**values, target=target, manifest=note, pack=pack)
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
            raise SdkUsageError(
                f"in {language} there is the template {default}, and no {template}",
                f"{template} exists in Python: --lang python",
            )
        files = language_files(name, dialect, language)
    if os.path.lexists(folder):
        raise SdkUsageError(f"{folder} already exists", "choose another name, or delete it first")
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
