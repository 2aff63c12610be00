"""What follows when a hook fails: the event that it was to judge is refused, or happens anyway.

A hook fails if its extension replies with an error or with something that cannot be read, is late,
dies twice, or is not there. The words of a config, the nearest first: of the extension for this
kind of hook, of the extension, of the host for this kind, of the host. Without a word, a hook that
may block fails closed. A hook that can only look on, or add something, always fails open.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from exthost.errors import ExthostError
from exthost.spec import Spec

__all__ = ["HookFailure", "fails_closed", "may_block"]

# The key of every kind that has no word of its own.
ANY_KIND = "*"


class HookFailure(NamedTuple):
    """A hook that could not judge an event: whose, which, and why."""

    extension: str
    hook: str
    error: ExthostError

    def __str__(self) -> str:
        return f"{self.hook} of {self.extension} failed: {self.error.message}"


def may_block(spec: Spec, hook: str) -> bool:
    """Return whether an answer of this hook could stop the event."""
    return hook.startswith("before_") and hook not in spec.advisory_hooks


def fails_closed(spec: Spec, hook: str, of_host: Mapping[str, Any]) -> bool:
    """Return whether an event is refused that this hook could not judge."""
    if not may_block(spec, hook):
        return False
    for policy in (spec.hooks, of_host):
        word = policy.get(hook) or policy.get(ANY_KIND)
        if word is not None:
            return bool(word == "closed")
    return True
