"""synaps' facets: `ext.providers`, `ext.commands`, `ext.settings`, `ext.info`, `ext.sidecar`.

A facet is an attribute that only extensions of one dialect have. Each method sends one request of
the protocol and returns the reply, in most cases as a class of `types`. How streams end and how
their events are parsed is defined in `dialect`. synaps calls an extension a plugin.
"""

import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from exthost.dialects.caller import Caller, Stream
from exthost.dialects.model_provider import ModelProvider
from exthost.dialects.synaps import types
from exthost.dialects.synaps.offer import ProviderModel, ProviderOffer
from exthost.errors import NotFound, ProtocolViolation
from exthost.model.names import nearest

T = TypeVar("T")


class _Facet:
    """The base class of the facets. `caller` sends their requests to the plugin."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _require(self, value: T | None, method: str) -> T:
        """Return the value. Raises ProtocolViolation for None, a reply that could not be parsed."""
        if value is None:
            raise ProtocolViolation(
                "X0652",
                f"its answer to {method} does not match the protocol",
                extension=self._caller.id,
                help="the dialect's page shows its required members",
            )
        return value


class Providers(_Facet, ModelProvider):
    """`ext.providers`: models that complete conversations."""

    @property
    def all(self) -> tuple[ProviderOffer, ...]:
        """The providers that the plugin registered."""
        return tuple(
            detail for detail in self._caller.offer.details if isinstance(detail, ProviderOffer)
        )

    async def complete(
        self,
        model: str,
        messages: Sequence[Any],
        *,
        system_prompt: str | None = None,
        tools: Sequence[Any] = (),
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking_budget: int = 0,
        timeout: float | None = None,
    ) -> types.Completion:
        """Return the whole answer of a model. `model` is `provider:model`, or the model's id if
        only one provider has it."""
        method = "provider.complete"
        options = (system_prompt, tools, temperature, max_tokens, thinking_budget)
        params = self._make_params(model, messages, *options)
        result = await self._caller.call(method, params, timeout=timeout)
        completion = self._require(types.read_completion(result), method)
        if not completion.content:
            raise ProtocolViolation(
                "X0653",
                f"its answer to {method} has no content",
                extension=self._caller.id,
                help="a provider answers with at least one block",
            )
        return completion

    def stream(
        self,
        model: str,
        messages: Sequence[Any],
        *,
        system_prompt: str | None = None,
        tools: Sequence[Any] = (),
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking_budget: int = 0,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Stream the answer of a model. `events.result` is a Completion, whose content may be
        empty."""
        options = (system_prompt, tools, temperature, max_tokens, thinking_budget)
        params = self._make_params(model, messages, *options)
        return self._caller.stream("provider.stream", params, timeout=timeout)

    def _make_params(
        self,
        model: str,
        messages: Sequence[Any],
        system_prompt: str | None,
        tools: Sequence[Any],
        temperature: float | None,
        max_tokens: int | None,
        thinking_budget: int,
    ) -> dict[str, Any]:
        provider, model_info = self._find_model(model)
        return {
            "provider_id": provider.id,
            "model_id": model_info.id,
            "model": f"{self._caller.id}:{provider.id}:{model_info.id}",
            "messages": list(messages),
            "system_prompt": system_prompt,
            "tools": list(tools),
            "temperature": temperature,
            "max_tokens": max_tokens,
            "thinking_budget": thinking_budget,
        }

    def _find_model(self, name: str) -> tuple[ProviderOffer, ProviderModel]:
        """Return the model of this name: `provider:model`, or only the model's id. The extension's
        id may come first, as in the `model` that requests send."""
        name = name.removeprefix(f"{self._caller.id}:")
        models = {
            f"{provider.id}:{model.id}": (provider, model)
            for provider in self.all
            for model in provider.models
        }
        matching = [
            full_name
            for full_name in models
            if full_name == name or full_name.partition(":")[2] == name
        ]
        if len(matching) == 1:
            return models[matching[0]]
        near = nearest(name, models)
        model_names = ", ".join(models) or "none"
        raise NotFound(
            "X1250",
            f"it has {len(matching) or 'no'} models {name!r}",
            extension=self._caller.id,
            help=f"did you mean {near!r}?"
            if near and not matching
            else f"its models are: {model_names}",
        )


class Commands(_Facet):
    """`ext.commands`: commands that the plugin has for users."""

    def invoke(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Run a command. Its output and its tasks are events, in order; `events.result` is its
        reply."""
        params = {
            "command": command,
            "args": list(args),
            "request_id": request_id or str(uuid.uuid4()),
        }
        return self._caller.stream("command.invoke", params, timeout=timeout)


class SettingsEditor(_Facet):
    """`ext.settings`: the plugin's own editor for one of its settings."""

    async def open(self, category: str, field: str) -> Any:
        """Open the editor of a setting, and return its contents."""
        params = {"category": category, "field": field}
        return await self._caller.call("settings.editor.open", params)

    async def key(self, category: str, field: str, key: str) -> Any:
        """Pass on a key that was pressed, and return the new contents of the editor."""
        params = {"key": key, "category": category, "field": field}
        return await self._caller.call("settings.editor.key", params)

    async def commit(self, category: str, field: str, value: Any) -> Any:
        """Store a value, and return the plugin's reply."""
        params = {"category": category, "field": field, "value": value}
        return await self._caller.call("settings.editor.commit", params)


class About(_Facet):
    """`ext.info`: what a plugin reports about itself."""

    async def get(self, *, timeout: float | None = None) -> types.Info:
        """Return what the plugin reports about itself."""
        result = await self._caller.call("info.get", None, timeout=timeout)
        return self._require(types.read_info(result), "info.get")


class Sidecar(_Facet):
    """`ext.sidecar`: how a plugin wants its own helper program to be started."""

    async def spawn_args(self, *, timeout: float | None = None) -> types.SpawnArgs:
        """Return the arguments for its helper program."""
        result = await self._caller.call("sidecar.spawn_args", None, timeout=timeout)
        return self._require(types.read_spawn_args(result), "sidecar.spawn_args")
