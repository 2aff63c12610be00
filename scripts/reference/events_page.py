"""The page of the events, from their classes."""

from exthost import events
from scripts.reference.markdown import code, page, prose, table
from scripts.reference.source_code import docstring, fields

_INTRODUCTION = """\
`host.events.subscribe(KIND, listener)` calls `listener` for each event of this kind, on the thread of
the loop; it returns a function that ends the subscription. `KIND` is a class of `exthost.events`, a
tuple of them, or `events.EVERYTHING`. A listener is a plain function: it must not block, and an
exception in it is logged. `exthost run --json` prints the same events as lines of JSON.

```python
from exthost.events import StateChanged

host.events.subscribe(StateChanged, lambda event: print(event.extension, event.after))
```
"""


def events_page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for kind in events.EVERYTHING:
        rows = [(code(name), code(type_), code(default)) for name, type_, default in fields(kind)]
        parts += [
            f"## {kind.__name__}",
            prose(docstring(kind)),
            table(("Field", "Type", "Default"), rows),
        ]
    return page("Events", *parts)
