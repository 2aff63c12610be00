"""The types that handlers of hooks, providers and generators take and return, the same in every
dialect (protocol of a host). An extension imports them from `exthost_sdk`:

    @ext.hook("before_tool_call")
    def guard(event: HookEvent) -> Block | None:
        return Block("not here") if event.tool == "delete" else None

They are named tuples, because a dozen dataclasses would take a fifth of the time in which the SDK
is imported.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class HookEvent(NamedTuple):
    """The event that a hook is called for. It is about to happen (`before_…`) or has happened.
    `raw` is the event as the host sent it."""

    hook: str
    tool: str | None
    arguments: Any
    message: Any
    raw: dict[str, Any]


class Block(NamedTuple):
    """Answer of a hook: the event must not happen."""

    reason: str


class Modify(NamedTuple):
    """Answer of a hook: the event may happen, with these arguments."""

    arguments: dict[str, Any]


class Confirm(NamedTuple):
    """Answer of a hook: the event may happen if a person agrees to this message."""

    message: str


class Inject(NamedTuple):
    """Answer of a hook: add this text to the message, or at the start of a session to the system
    prompt."""

    content: str


class Replace(NamedTuple):
    """Answer of a hook after a tool call: this text takes the place of the tool's output."""

    output: str


class Turn(NamedTuple):
    """A conversation that a provider is to continue. `raw` is the request as the host sent it."""

    provider: str
    model: str
    messages: list[Any]
    system: str | None
    tools: list[Any]
    raw: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The text of the last message of the user, "" if there is none."""
        for message in reversed(self.messages):
            text = _user_text(message)
            if text is not None:
                return text
        return ""


def _user_text(message: Any) -> str | None:
    if not isinstance(message, dict):
        return None
    # roder sends {"UserMessage": {"text": …}}, the other dialects {"role": "user", "content": …}.
    if isinstance(user_message := message.get("UserMessage"), dict):
        return str(user_message.get("text", ""))
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


class Thinking(NamedTuple):
    """A piece of a provider's reasoning. Plain text is a piece of its answer."""

    text: str


class ToolUse(NamedTuple):
    """A tool that a provider wants to have called."""

    id: str
    name: str
    input: dict[str, Any]


class Usage(NamedTuple):
    """How many tokens a provider has used."""

    input_tokens: int
    output_tokens: int


class PromptMessage(NamedTuple):
    """A message of a prompt: text, or content such as an Image."""

    role: Literal["user", "assistant"]
    content: Any


class Elicitation(NamedTuple):
    """The answer of a person to a form. `content` is None unless `action` is "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None


class Sample(NamedTuple):
    """What the model of the client wrote. `raw` is the answer as the client sent it."""

    text: str
    model: str
    stop_reason: str
    raw: dict[str, Any]


class Assignment(NamedTuple):
    """What a subagent is to do. `raw` is the request as the host sent it."""

    agent_type: str
    prompt: str
    description: str
    raw: dict[str, Any]


class SinkEvent(NamedTuple):
    """An event of the host, for a sink. `raw` is its whole envelope."""

    kind: str
    raw: dict[str, Any]


class EditorEvent(NamedTuple):
    """What happens in the editor of a setting: it opens, a key is pressed, a value is chosen."""

    action: Literal["open", "key", "commit"]
    category: str
    field: str
    key: str | None = None
    value: Any = None


class Render(NamedTuple):
    """Answer of an editor: show these rows. `cursor` is the place of the cursor, and `footer` a
    line below the rows."""

    rows: list[Any]
    cursor: Any = None
    footer: str | None = None


class Commit(NamedTuple):
    """Answer of an editor: store this value."""

    value: Any


class Close(NamedTuple):
    """Answer of an editor: close it."""

    reason: str | None = None


class Fragment(NamedTuple):
    """A file, or a piece of one, that a generator wants written.

    strategy  "replace": `content` is the whole file. "merge": it is a YAML or JSON mapping, which
              is merged into that of the file. "append": it is added to the end of the file
    order     the position among the appended pieces of a file, the lowest first
    format    "yaml" or "json", for a merge; "" to tell it by the suffix of the path
    """

    path: str
    content: str
    strategy: Literal["replace", "merge", "append"] = "replace"
    order: int = 0
    format: str = ""


def own_hook_answer(answer: Any) -> Any:
    """Return an answer of a hook that is a dict, in place of one of the types above: the author
    wrote it in the dialect's own form, and it is sent unchanged. Raises TypeError for any other
    value, such as True: if it were sent as "no answer", the event would pass, and the author may
    not have meant that."""
    if isinstance(answer, Mapping):
        return answer
    raise TypeError(
        "a hook returns None, Block, Modify, Confirm, Inject, Replace or a dict, "
        f"and this one returned {type(answer).__name__}"
    )
