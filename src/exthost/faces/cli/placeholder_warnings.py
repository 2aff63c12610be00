"""Warnings of `validate` and `doctor` about `${NAME}` in the command of an extension.

No shell reads a command, so the program gets these characters as they are. That may be intended, so
it is not an error.
"""

from collections.abc import Iterable, Iterator

from exthost.config.discovery.report import Diagnostic
from exthost.config.placeholders import find_placeholder
from exthost.model.spec import Spec


def placeholder_warnings(specs: Iterable[Spec]) -> Iterator[Diagnostic]:
    """Yield a warning for each entry of a TOML config whose command has a placeholder."""
    for spec in specs:
        is_entry = spec.package is None and spec.manifest is None and spec.source == "process"
        if not is_entry or not spec.origin.endswith(".toml"):
            continue
        placeholder_names = filter(None, map(find_placeholder, spec.argv))
        name = next(placeholder_names, None)
        if name is not None:
            yield Diagnostic(
                level="warning",
                path=spec.origin,
                message=f"${{{name}}} in its command is not replaced: no shell reads it",
                code="X1818",
                help="write the value, or pass it in a variable: "
                f'env = {{ {name} = {{ from = "{name}" }} }}',
                extension=spec.id,
            )
