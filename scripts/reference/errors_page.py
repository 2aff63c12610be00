"""The page of the errors, from their classes and the catalog of codes."""

from exthost import errors
from exthost.dialects import find
from exthost.errors import Evidence, ExthostError
from exthost.model.error_catalog import ErrorEntry, load, read_table
from scripts.reference.markdown import code, page, prose, table
from scripts.reference.source_code import docstring, fields

_INTRODUCTION = """\
Every error is a subclass of `exthost.errors.ExthostError`. It has a stable `code`, a `message`, the id
of its `extension`, one line of `help`, and `evidence`. `exthost explain CODE` prints the entry of a
code; `--json` of every verb prints `error.as_dict()`.
"""


def errors_page() -> str:
    """Return the page."""
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "Evidence"]
    rows = [
        (code(kind.__name__), _builtin_base(kind), str(kind.exit_code), _summary(kind))
        for kind in kinds
    ]
    evidence = [(code(name), code(type_)) for name, type_, _ in fields(Evidence)]
    parts = [
        _INTRODUCTION,
        "## Classes",
        table(("Class", "Also a", "Exit code", ""), rows),
        "## Evidence",
        prose(docstring(Evidence)),
        table(("Field", "Type"), evidence),
        "## Codes",
    ]
    for number, entry in sorted(_catalog().items()):
        parts += [
            f"### {number}: {entry.title}",
            f"`{entry.kind}`. {entry.meaning}",
            f"**What to do:** {entry.fix}",
        ]
    return page("Errors", *parts)


def _catalog() -> dict[str, ErrorEntry]:
    tables = []
    for name in find.BUILT_IN:
        own = find.find_package(name).errors
        if own:
            tables.append(read_table(own) if isinstance(own, str) else own)
    return load(*tables)


def _builtin_base(kind: type[ExthostError]) -> str:
    bases = [
        base.__name__
        for base in kind.__bases__
        if base.__module__ == "builtins" and base is not Exception
    ]
    return ", ".join(map(code, bases))


def _summary(kind: type) -> str:
    return docstring(kind).split("\n\n")[0]
