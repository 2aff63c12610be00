"""Decides what happens when a hook fails: fail closed (the event is refused) or fail open (the
event happens without the hook's answer).

A hook is a function of an extension that the host calls with an event, such as `before_tool_call`,
and whose answer may refuse the event. It fails if its extension replies with an error or with an
invalid answer, exceeds the timeout, cannot be started, or crashes and then crashes again after a
restart.

Only a hook that may block an event can fail closed. The setting is looked up in this order:

1. the extension's setting for this hook, such as `before_message`
2. the extension's `*` setting, which is for every hook without a setting of its own
3. the host's setting for this hook
4. the host's `*` setting

A setting is "closed" or "open". If none is set, the hook fails closed. A hook that can only observe
an event, or only add to it, always fails open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from exthost.errors import ExthostError
    from exthost.model.spec import Spec

# The key of the setting for every hook that has no setting of its own.
ANY_HOOK = "*"


class HookFailure(NamedTuple):
    """A failed hook: the id of its extension, the name of the hook, and the error."""

    extension: str
    hook: str
    error: ExthostError

    def __str__(self) -> str:
        return f"{self.hook} of {self.extension} failed: {self.error.message}"


def may_block(spec: Spec, hook: str) -> bool:
    """Return whether an answer of this hook could stop the event."""
    return hook.startswith("before_") and hook not in spec.advisory_hooks


def fails_closed(spec: Spec, hook: str, host_policy: Mapping[str, Any]) -> bool:
    """Return whether an event is refused when this hook fails.

    `host_policy` has the host's settings, by the name of the hook or `*`.
    """
    if not may_block(spec, hook):
        return False
    for policy in (spec.hooks, host_policy):
        setting = policy.get(hook) or policy.get(ANY_HOOK)
        if setting is not None:
            return bool(setting == "closed")
    return True
