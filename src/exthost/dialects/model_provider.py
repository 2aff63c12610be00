"""The base class of facets whose models `host.complete` can use.

A facet is an attribute that only extensions of one dialect have, such as `ext.providers` in synaps.
`host.complete` lets a model of an extension answer a conversation; the caller need not know the
dialect.
"""

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
