"""`isolation = "call"`: each call has a separate process, which has never seen another call.

A `SingleUseSession` reports when a call is sent. The supervisor then dismisses its process, which
ends after the reply, and starts another one for the next call. The handshake, and what the dialect
sends by itself, do not count as calls.
"""

from collections.abc import Callable
from typing import Any

from exthost.errors import Refused
from exthost.model.spec import Spec
from exthost.session.call import Call
from exthost.session.session import Session


class SingleUseSession(Session):
    """A session (the host's end of one process) that takes one call. `on_used` is called when the
    call was sent."""

    __slots__ = ("on_used",)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.on_used: Callable[[SingleUseSession], None] | None = None

    def send_call(self, call: Call) -> None:
        super().send_call(call)
        on_used, self.on_used = self.on_used, None
        if on_used is not None:
            on_used(self)


def is_isolated(spec: Spec) -> bool:
    """Return whether each call of an extension has a separate process."""
    return spec.isolation == "call"


def check_isolation(spec: Spec) -> None:
    """Raise Refused if an extension with a process for each call cannot be started from a template.

    A template is a process that has imported the program's modules; forking it makes a start fast.
    A config that accepts slow starts (`start_method = "execute"`) is not refused.
    """
    if not is_isolated(spec) or spec.start_method == "execute":
        return
    from exthost.launch.template_plan import find_refusal  # imported lazily: few need it

    reason = "it has no template" if spec.start_method is None else find_refusal(spec)
    if reason:
        raise Refused(
            "X1925",
            f"each of its calls would wait for a whole start, since {reason}",
            extension=spec.id,
            help='set start_method = "execute" if its starts are fast enough'
            + ('; or "template" if it is a Python program' if spec.start_method is None else ""),
        )
