"""A question that a person must answer before a call is made, and the function that asks it.

    async def confirm(question: Confirmation) -> bool:
        return await ask_in_window(question.message)

    host = Host(config, confirm=confirm)

The function belongs to the side that can ask a person: the program whose host it is
(`Host(confirm=…)`), or the caller of one tool, which passes it with the call
(`call_tool(confirm=…)`). The control socket passes one that asks the client at the other end.
`host.person` chooses between the two.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from exthost.errors import UsageError


class Confirmation(NamedTuple):
    """A question to a person before an event may happen. It comes from the hook `hook` of the
    extension `extension`. If `extension` is "", it comes from a rule of the config."""

    extension: str
    message: str
    hook: str
    event: Mapping[str, Any]


Confirm: TypeAlias = Callable[[Confirmation], bool | Awaitable[bool]]
"""A function that asks a person, and returns the answer. Any value but True means no. An async
function runs on the event loop. A plain one runs on a separate thread, and may block."""


def check_confirm(confirm: Any) -> Confirm | None:
    """Return the function that asks a person, or None. Raises UsageError for anything else."""
    if confirm is None or callable(confirm):
        return confirm  # type: ignore[no-any-return]
    raise UsageError(
        "X1332",
        f"confirm must be a function, not {confirm!r:.60}",
        help="pass a plain or an async function that takes a Confirmation",
    )
