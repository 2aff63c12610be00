"""The base class of facets (attributes that only extensions of one dialect have) whose models
`host.complete` can use."""

from collections.abc import Sequence
from typing import Any, Protocol


class ProviderCompletion(Protocol):
    """The answer of a model. Its content is a list of blocks, among them `tool_use` blocks."""

    @property
    def content(self) -> Sequence[Any]: ...


class ModelProvider:
    """The base class of facets whose models complete conversations."""

    async def complete(
        self, model: str, messages: Sequence[Any], *, tools: Sequence[Any] = ()
    ) -> ProviderCompletion:
        """Return the whole answer of a model. A dialect may add keyword parameters."""
        raise NotImplementedError
